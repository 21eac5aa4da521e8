# SPDX-License-Identifier: Apache-2.0
"""What was counted rather than fetched: `packrack rate` and `packrack top` are run. They know when nodes
hold the same packets, and what the index can say without any packet being read."""
import json
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import List

from .answer import Completeness
from .errors import Error, RequestError
from .times import format_time, time_ns
from .volume import completeness_of


@dataclass(frozen=True)
class Stretch:
    """A step, or several that were busy; both ends (ns since 1970) included. partial: packets of it
    are missing, or may be."""
    since: int
    until: int
    packets: int
    bytes: int
    partial: bool


@dataclass(frozen=True)
class Rate:
    packets: int
    bytes: int
    stretches: List[Stretch] = field(repr=False)
    completeness: Completeness

    def __iter__(self):
        return iter(self.stretches)


@dataclass(frozen=True)
class Group:
    """At least packets and bytes, at most packets_most and bytes_most. filter chooses its packets."""
    key: str
    filter: str
    packets: int
    packets_most: int
    bytes: int
    bytes_most: int


@dataclass(frozen=True)
class Top:
    """packets, bytes: of all. exact: no bounds. sure: so many of the groups are among the largest for
    sure, and one that is not listed has at most unlisted_most."""
    packets: int
    bytes: int
    exact: bool
    sure: int
    unlisted_most: int
    groups: List[Group] = field(repr=False)
    completeness: Completeness

    def __iter__(self):
        return iter(self.groups)


def command(program, what, where, filter, since, until, link):
    found = shutil.which(program)
    if not found:
        raise Error("no command %s: give its path as program=" % program)
    words = [found, what, "--json"] + where
    for name, when in (("since", since), ("until", until)):
        if when is not None:
            words.append("--%s=%s" % (name, format_time(time_ns(when))))
    if link is not None:
        words.append("--link=%s" % link)
    return words, ["--", filter] if filter.strip() else []


def run(words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode not in (0, 3):
        line = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        raise (RequestError if done.returncode == 2 else Error)(line)
    return json.loads(done.stdout or b"null")


def pick(kind, said, **more):
    fields = kind.__dataclass_fields__
    return kind(**{name: said.get(name, "") for name in fields if name not in more}, **more)


def rate(where, filter="", since=None, until=None, link=None, step=1.0, above=None, lasting=None,
         program="packrack"):
    """A Rate: each step (seconds) that has packets. above ("100Mbit", "5kpps"): the stretches that were
    busier, instead, for at least so many seconds if lasting is given."""
    words, rest = command(program, "rate", where, filter, since, until, link)
    words.append("--step=%dms" % round(step * 1000))
    if above is not None:
        words.append("--above=%s" % above)
    if lasting is not None:
        words.append("--for=%dms" % round(lasting * 1000))
    said = run(words + rest)
    stretches = said["stretches"] if above is not None else said["series"]
    return pick(Rate, said, stretches=[pick(Stretch, s) for s in stretches],
                completeness=completeness_of(said))


def hold(where, verb, *words, program="packrack"):
    """packrack hold: the nodes keep the packets of a case."""
    found = command(program, "hold", where, "", None, None, None)[0][0]
    return run([found, "hold", verb, *where, *words])


def top(where, key="host", filter="", since=None, until=None, link=None, n=10, by="bytes", exact=False,
        program="packrack"):
    """A Top: the n largest by bytes or packets. key: as `packrack top` has it."""
    words, rest = command(program, "top", where, filter, since, until, link)
    words += ["--best=%d" % n, "--by=%s" % by] + (["--exact"] if exact else [])
    said = run(words + (rest[:1] or ["--"]) + [key] + rest[1:])
    return pick(Top, said, groups=[pick(Group, g) for g in said["top"]],
                completeness=completeness_of(said))
