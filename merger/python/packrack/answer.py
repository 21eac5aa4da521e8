# SPDX-License-Identifier: Apache-2.0
"""An answer on its way: its packets, what it lacks, and what it took to find them."""
import time
from dataclasses import dataclass, field
from typing import List

from . import packrack_pb2 as pb
from .channel import ALIVE_ID, failure
from .errors import Error, Unreachable
from .packet import UNSURE, read_segment
from .times import TIME_MIN, format_time

WINDOW = 8         # batches on the way to us, of about 256 KiB each
SILENCE = 180.0
ALIVE = 5.0
CANCEL = 5.0


@dataclass(frozen=True)
class Missing:
    """Packets first_seq..last_seq of (epoch, link) that the answer lacks, and why.
    count: how many. If identical packets leave open which ones were lost, they are count of
    among_first..among_last; else both are 0.
    With a step they are ranges of the same length, each begins step behind the one before:
    every third seq from 2 to 98 has step 3, ranges 33. seqs() has each seq.
    In missing_classes: count packets in so many ranges between first_seq and last_seq."""
    epoch: int
    link: int
    first_seq: int
    last_seq: int
    count: int
    first_time: int
    last_time: int
    reason: str
    node: str
    among_first: int
    among_last: int
    step: int = 0
    ranges: int = 1

    def seqs(self):
        """The seqs of an entry of missing; those of a class are not known."""
        if not self.step:
            return range(self.first_seq, self.last_seq + 1)
        length = self.count // self.ranges
        return (s for at in range(self.first_seq, self.last_seq + 1, self.step) for s in range(at, at + length))


@dataclass(frozen=True)
class Evicted:
    """Packets of a node's stream from since to until that are no longer stored. With since
    TIME_MIN: all up to until; overwritten because the volume was full, or deleted.
    deleted_by (\"\": nobody) ordered the deletion, or the last one, at deleted_at.
    moved_to has the packets now."""
    node: str
    stream: str
    until: int
    epoch: int
    link: int
    last_seq: int
    since: int = TIME_MIN
    deleted_by: str = ""
    deleted_at: int = 0
    moved_to: str = ""

    def __str__(self):
        said = "%s %s " % (self.node, self.stream)
        said += "up" if self.since == TIME_MIN else format_time(self.since)
        said += " to " + format_time(self.until)
        if self.deleted_by:
            said += ", %s by %s" % ("moved to " + self.moved_to if self.moved_to else "deleted", self.deleted_by)
        return said


@dataclass(frozen=True)
class Unobserved:
    """A time of the range, from since to until, at which the link was not observed, or not for
    certain. reason: before (its first capture), stopped (by somebody), no_carrier, gone (its
    dispatcher was not heard), unknown (not yet), file (outside of the trace file)."""
    link: int
    name: str
    since: int
    until: int
    reason: str
    by: str = ""

    def __str__(self):
        return "link %s, %s to %s: %s%s" % (
            self.name, format_time(self.since), format_time(self.until), self.reason,
            " by " + self.by if self.by else "")


@dataclass(frozen=True)
class Beyond:
    """What the cutoff of a class kept back of the connections that match: neither missing nor in the answer.
    at_most: some of it may not match."""
    name: str
    packets: int
    bytes: int
    connections: int
    at_most: bool

    def __str__(self):
        return "class %s, %s%d packets of %d connections, %d bytes" % (
            self.name, "at most " if self.at_most else "", self.packets, self.connections, self.bytes)


@dataclass(frozen=True)
class NodeAnswer:
    node: str
    answered: bool
    error: str
    matched: int
    scanned_packets: int
    scanned_bytes: int


@dataclass(frozen=True)
class Search:
    """What `packrack query --explain` prints: segments and packets that were read, and
    those that the time range or the index pruned."""
    scanned_packets: int
    scanned_bytes: int
    scanned_segments: int
    skipped_segments: int
    skipped_level1: int
    skipped_level2: int
    skipped_linktype: int
    skipped_bytes: int
    index_reads: int
    index_bytes: int
    index_damaged: int


@dataclass(frozen=True)
class Completeness:
    """The completeness report. missing has at most 10,000 entries; what does not fit is in
    missing_classes, by link, minute, reason and node. The counts of both add up to
    missing_packets, their ranges to missing_ranges."""
    complete: bool
    matched: int
    held_packets: int
    held_at_most: bool
    missing_packets: int
    missing_ranges: int
    pending_packets: int
    dropped_packets: int
    corrupt_records: int
    strays: int
    unsure_packets: int
    limit_reached: bool
    cancelled: bool
    nodes: List[NodeAnswer] = field(repr=False)
    missing: List[Missing] = field(repr=False)
    evicted: List[Evicted] = field(repr=False)
    unobserved: List[Unobserved] = field(repr=False, default_factory=list)
    missing_classes: List[Missing] = field(repr=False, default_factory=list)
    beyond: List[Beyond] = field(repr=False, default_factory=list)

    @property
    def answered(self):
        return [n.node for n in self.nodes if n.answered]

    @property
    def unanswered(self):
        return {n.node: n.error for n in self.nodes if not n.answered}

    def __str__(self):
        said = ["%s: %d packets match, " % (("partial", "complete")[self.complete], self.matched)]
        if self.limit_reached:
            said.append("stopped by the limit")
        elif self.cancelled:
            said.append("interrupted")
        else:
            said.append("of %s%d in the time range"
                        % ("at most " if self.held_at_most else "", self.held_packets))
        said.append(" (%d nodes)" % len(self.nodes))
        if self.missing_packets:
            said.append("; %d packets missing in %d ranges"
                        % (self.missing_packets, self.missing_ranges))
        if self.pending_packets:
            said.append("; %d pending" % self.pending_packets)
        for b in self.beyond:
            said.append("; beyond cutoff: %s" % b)
        for u in self.unobserved:
            said.append("; not observed: %s" % u)
        for e in self.evicted:
            said.append("; overwritten or deleted: %s" % e)
        for node, why in self.unanswered.items():
            said.append("; not answered: %s: %s" % (node, why))
        return "".join(said)


def pick(kind, source):
    """A dataclass from a message, or a dict, that has its fields."""
    get = source.get if isinstance(source, dict) else lambda name: getattr(source, name)
    return kind(**{name: get(name) for name in kind.__dataclass_fields__})


def evicted_of(e):
    return Evicted(
        node=e.node, stream=e.stream, until=e.until, epoch=e.epoch, link=e.link, last_seq=e.last_seq,
        since=e.since if e.midst else TIME_MIN, deleted_by=e.deleted.by, deleted_at=e.deleted.at,
        moved_to=e.deleted.moved_to)


def completeness_of(end, unsure):
    c = end.completeness
    return Completeness(
        complete=c.complete and not end.cancelled, matched=end.matched,
        held_packets=c.held_packets, held_at_most=c.held_at_most,
        missing_packets=c.missing_packets, missing_ranges=c.missing_ranges, pending_packets=c.pending_packets,
        dropped_packets=c.dropped_packets, corrupt_records=end.corrupt_records,
        strays=end.strays, unsure_packets=unsure, limit_reached=end.limit_reached,
        cancelled=end.cancelled, nodes=[pick(NodeAnswer, n) for n in c.nodes],
        missing=[pick(Missing, m) for m in c.missing],
        missing_classes=[pick(Missing, m) for m in c.missing_classes],
        evicted=[evicted_of(e) for e in c.evicted],
        unobserved=[pick(Unobserved, u) for u in c.unobserved],
        beyond=[pick(Beyond, b) for b in c.beyond])


class Answer:
    """Iterate for packets, in the order of capture, while they arrive. The rack sends them
    only as fast as the loop takes them. Leaving the loop early, close() and the end of a
    `with` cancel the query.
    completeness and search exist after the last packet, and after a cancel."""

    def __init__(self, channel, query):
        self.channel = channel
        self.id = channel.next_id()
        self.owed = 0
        self.unsure = 0
        self.end = None
        self.broken = None
        channel.send(pb.Envelope(id=self.id, query=query))
        self.give_credit()

    def give_credit(self):
        if self.owed <= WINDOW // 2:
            more = WINDOW - self.owed
            self.channel.send(pb.Envelope(id=self.id, credit=pb.Credit(batches=more)))
            self.owed += more

    def listen(self, timeout):
        """The next envelope of any kind. Sends a status request if the rack is silent."""
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            try:
                return self.channel.receive(min(left, ALIVE))
            except Unreachable:
                if left <= ALIVE or not self.channel.connected or self.channel.gone:
                    raise
                self.channel.send(pb.Envelope(id=ALIVE_ID, status_request=pb.StatusRequest()))

    def receive(self, timeout):
        """The next batch's segment, or None at the end of the answer."""
        while True:
            envelope = self.listen(timeout)
            if envelope.id != self.id:
                continue
            kind = envelope.WhichOneof("body")
            if kind == "batch":
                self.owed -= 1
                return envelope.batch.packets
            if kind == "failure":
                raise failure(self.channel.endpoint, envelope.failure)
            if kind == "end":
                self.end = envelope.end
                self.channel.release()
                return None

    def __iter__(self):
        try:
            while self.end is None:
                if self.broken:
                    raise self.broken
                segment = self.receive(SILENCE)
                for packet in read_segment(segment) if segment else ():
                    if packet.flags & UNSURE:
                        self.unsure += 1
                    yield packet
                if self.end is None and not self.broken:
                    self.give_credit()
        except Error as e:
            self.broken = e
            raise
        finally: # also when the loop is left: GeneratorExit
            self.close()

    def close(self):
        """Cancels a query that is still running, and waits for the rack's End."""
        if self.end is not None:
            return # the connection is another's by now
        deadline = time.monotonic() + CANCEL
        try:
            if not self.broken:
                self.channel.send(pb.Envelope(id=self.id, cancel=pb.Cancel()))
            while self.end is None and not self.broken:
                self.receive(max(0, deadline - time.monotonic()))
        except Error as e:
            self.broken = e
        finally:
            if self.end is None:
                self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "end", True) is None and not self.broken:
            self.close()

    def the_end(self):
        if self.end is None:
            raise self.broken or Error("the answer is still under way: take its packets first, or "
                                       "close it")
        return self.end

    @property
    def completeness(self):
        return completeness_of(self.the_end(), self.unsure)

    @property
    def search(self):
        return pick(Search, self.the_end())
