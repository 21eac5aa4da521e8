# SPDX-License-Identifier: Apache-2.0
"""Connections, and the alerts of a NIDS that are about them: `packrack pivot` is run."""
import ipaddress
import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

from .errors import Error, RequestError
from .times import time_ns

PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "icmp6": 58, "sctp": 132}


@dataclass(frozen=True)
class Alert:
    """alert: FILE:LINE where it stood, what: its kind. file: its pcapng, or None; the report is in
    file + ".json". packets: None if it failed, as status says."""
    alert: str
    what: str
    connection: str
    time: int
    file: str
    packets: int
    complete: bool
    status: str


def connection(protocol, address, port, other, other_port):
    """The filter of a connection, both ways."""
    try:
        number = PROTOCOLS.get(protocol, protocol)
        ends = [(ipaddress.ip_address(a), int(p)) for a, p in ((address, port), (other, other_port))]
        if not 0 < int(number) < 256 or any(not 0 <= p < 65536 for _, p in ends):
            raise ValueError("no protocol, or no port")
    except ValueError as e:
        raise RequestError("connection %s %s %s %s %s: %s" % (protocol, address, port, other, other_port, e)) from None
    if not (ends[0][1] or ends[1][1]):
        return "(ip proto %d or ip6 proto %d) and host %s and host %s" % (number, number, ends[0][0], ends[1][0])
    ways = " or ".join("(src host %s and src port %d and dst host %s and dst port %d)" % (*a, *b) for a, b in (ends, ends[::-1]))
    return "(ip proto %d or ip6 proto %d) and (%s)" % (number, number, ways)


def pivot(where, write, program="packrack", **choice):
    """An iterator of Alert, each as soon as its file is finished. One of eve=FILE, zeek=FILE, community_id=ID,
    tuple="tcp,192.0.2.1,80,198.51.100.7,3344" says of what; others are options of packrack-pivot(1): before,
    after, skew (seconds), at, since, until (as for query()), follow, merge, related, type, seed, jobs."""
    found = shutil.which(program)
    if not found:
        raise Error("no command %s: give its path as program=" % program)
    words = [found, "pivot", "--json", "--write=%s" % write] + where
    for name, value in choice.items():
        option = "--" + name.replace("_", "-")
        if name in ("before", "after", "skew"):
            words.append("%s=%dms" % (option, round(value * 1000)))
        elif name in ("at", "since", "until"):
            words.append("%s=@%d.%09d" % (option, *divmod(time_ns(value), 10 ** 9)))
        elif value is True:
            words.append(option)
        elif value is not False and value is not None:
            words.append("%s=%s" % (option, value))
    return run(words)


def run(words):
    told = False
    with tempfile.TemporaryFile() as said, subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said) as process:
        try:
            for line in process.stdout:
                found, told = json.loads(line), True
                if "action" not in found:  # of rules
                    yield Alert(**found)
        finally:
            process.stdout.close()
            process.terminate()
            process.wait()
        said.seek(0)
        line = said.read().decode("utf-8", "replace").strip().split("\n")[-1]
    if process.returncode == 2:
        raise RequestError(line)
    if process.returncode == 1 and not told:
        raise Error(line)
