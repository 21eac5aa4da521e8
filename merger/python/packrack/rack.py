# SPDX-License-Identifier: Apache-2.0
"""What can be asked: a merger, its nodes and links, and queries."""
import json
import os
import time
from dataclasses import dataclass, field

from . import alerts, counts
from . import packrack_pb2 as pb
from .answer import Answer
from .channel import Target
from .errors import Closed, Error, RequestError
from .filters import compile_filter
from .times import TIME_MAX, TIME_MIN, format_time, time_ns

ENDPOINT = "ipc:///run/packrack/merger.sock"
TIMEOUT = 5.0
LINKS_KEPT = 1.0  # seconds: nodes tell of a new link about as late
TEXT_MAX = 4000  # of a filter, for the merger's log and status


@dataclass(frozen=True)
class Node:
    """A node, as the merger last heard of it. logger: its logger's own counters."""
    name: str
    connected: bool
    writer_alive: bool
    packets: int
    bytes: int
    segments: int
    first_time: int
    last_time: int
    last_seen: int
    volume_bytes: int
    volume_used: int
    indexed_lag_bytes: int
    missing: int
    logger: dict = field(repr=False)


@dataclass(frozen=True)
class Link:
    """One run (epoch) of a tapped link or trace file."""
    name: str
    link: int
    epoch: int
    linktype: int
    snaplen: int


def node_of(n):
    try:
        logger = json.loads(n.logger or "{}")
    except ValueError:
        logger = {}
    plain = {name: getattr(n, name) for name in Node.__dataclass_fields__ if name != "logger"}
    return Node(logger=logger if isinstance(logger, dict) else {}, **plain)


def make_query(text, programs, since, until, limit, link, nodes, strays, count_only, memory_only):
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit < 2 ** 64:
        raise RequestError("limit %r: give a number of packets, or 0 for all" % (limit,))
    query = pb.Query(
        since=TIME_MIN if since is None else time_ns(since),
        until=TIME_MAX if until is None else time_ns(until), limit=limit,
        link="" if link is None else str(link), nodes=[nodes] if isinstance(nodes, str) else nodes,
        strays=strays, count_only=count_only, memory_only=memory_only, text=text[:TEXT_MAX], settle=True)
    for linktype, instructions in programs.items():
        query.programs.add(linktype=linktype, instructions=[
            pb.Instruction(code=code, jt=jt, jf=jf, k=k) for code, jt, jf, k in instructions])
    return query


class Rack:
    """From connect(). Each query that is under way has a connection of its own, which the next one takes over: so
    several can be under way, and the answers may be read in different threads."""

    def __init__(self, target, timeout=TIMEOUT):
        self.target = target
        self.timeout = timeout
        self.closed = False
        self.linktypes, self.told, self.told_at = [], None, 0

    def channel(self):
        if self.closed:
            raise Closed("%s was closed" % self.target.endpoint)
        return self.target.channel()

    def status(self):
        """The merger's Status message (proto/rpc/packrack.proto), of this moment."""
        asked = time.time_ns()
        channel = self.channel()
        try:
            request = pb.Envelope(status_request=pb.StatusRequest(per_link=True))
            status = channel.ask(request, "status", self.timeout)
        except BaseException:
            channel.close()
            raise
        channel.release()
        if not status.program.startswith("packrack-merger"):
            raise Error("%s is a %s, and no packrack-merger" % (self.target.endpoint,
                                                                status.program))
        self.linktypes, self.told, self.told_at = [l.linktype for l in status.links], time.monotonic(), asked
        return status

    @property
    def nodes(self):
        return [node_of(n) for n in self.status().nodes]

    @property
    def links(self):
        return [Link(name=l.name, link=l.link, epoch=l.epoch, linktype=l.linktype,
                     snaplen=l.snaplen) for l in self.status().links]

    def query(self, filter="", since=None, until=None, limit=0, link=None, nodes=(),
              strays=False, count_only=False, memory_only=False, tagged=False):
        """An Answer: the packets that filter (as tcpdump takes it) and the time range (both ends
        included) choose, in the order of capture. limit 0: all. link: name or number. nodes: only
        these. strays: also packets without a timestamp. memory_only: an Error where a node would have to read a
        disk. tagged: also packets that match behind VLAN tags. Raises FilterError at once."""
        choice = since, until, limit, link, nodes, strays, count_only, memory_only
        query = make_query(filter, {}, *choice)
        if filter.strip():
            # a link that has come since has no packets of before
            if self.told is None or time.monotonic() - self.told > LINKS_KEPT or query.until >= self.told_at:
                self.status()
            query = make_query(filter, compile_filter(filter, self.linktypes, tagged), *choice)
        return Answer(self.channel(), query)

    def connection(self, protocol, address, port, other, other_port, **choice):
        """An Answer, as query() gives it: the packets of this connection, both ways, also behind VLAN
        tags. protocol: "tcp", "udp", or a number; port 0: of a protocol without ports."""
        return self.query(alerts.connection(protocol, address, port, other, other_port), tagged=True, **choice)

    def pivot(self, write, **choice):
        """The packets of alerts, as files in the folder write: alerts.pivot. Runs the packrack command
        (program=)."""
        return alerts.pivot(self.where(), write, **choice)

    def hold(self, name, filter="", since=None, until=None, guarantee=None, reason="", **run):
        """Keeps the matching packets, past and future, on the nodes until release(name). guarantee: percent of each
        node's volume, for each link. Runs the packrack command (program=)."""
        words = ["--%s=%s" % (key, format_time(time_ns(when)))
                 for key, when in (("since", since), ("until", until)) if when is not None]
        words += ["--guarantee=%s%%" % guarantee] if guarantee else []
        counts.hold(self.where(), "add", "--reason=%s" % reason, *words, "--", name, *filter.split(), **run)

    def holds(self, **run):
        """What each node keeps of each case: a list of dicts, as `packrack hold list --json` has them."""
        return counts.hold(self.where(), "list", "--json", **run)["holds"]

    def release(self, name, reason="", **run):
        """Ends a case: its copies are removed."""
        counts.hold(self.where(), "release", "--reason=%s" % reason, "--", name, **run)

    def count(self, filter="", **choice):
        """Counts matching packets; transfers none. Returns Completeness, with `matched`."""
        answer = self.query(filter, count_only=True, **choice)
        for _ in answer:
            pass
        return answer.completeness

    def where(self):
        """Options of the packrack command that name this rack."""
        return ["--merger=%s" % self.target.endpoint, "--key-dir=%s" % (self.target.keys or "none")]

    def rate(self, filter="", **choice):
        """How busy the links were: counts.rate. Runs the packrack command (program=)."""
        return counts.rate(self.where(), filter, **choice)

    def top(self, key="host", filter="", **choice):
        """The hosts, or other keys, with the most traffic: counts.top."""
        return counts.top(self.where(), key, filter, **choice)

    def close(self):
        """Ends the answers that are still under way, too."""
        if not self.closed:
            self.closed = True
            self.target.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def connect(endpoint=None, key=None, timeout=TIMEOUT):
    """A Rack. endpoint: of a merger; default PACKRACK_MERGER, or the one of this machine.
    key: a key directory, or "none", as for `packrack query`; default PACKRACK_KEY, the user's, or the
    system's. timeout: seconds for each short reply;
    an answer that is under way may take as long as it takes."""
    endpoint = endpoint or os.environ.get("PACKRACK_MERGER") or ENDPOINT
    rack = Rack(Target(endpoint, key), timeout)
    try:
        rack.status()
    except BaseException:
        rack.close()
        raise
    return rack
