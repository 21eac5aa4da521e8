# SPDX-License-Identifier: Apache-2.0
"""One packet, and the reader of segments: the batches of an answer (proto/wire/segment.h)."""
import struct
from collections import namedtuple
from datetime import datetime, timedelta, timezone

from .errors import Error

MAGIC = 0x47455350  # "PSEG"
VERSION = 1
MIXED = 1
HAS_OTIME = 0x8000
CUT, STRAY, UNSURE = 2, 4, 8
HEADER = struct.Struct("<IHHQHHIQqqqq")
PACKET = struct.Struct("<qIIIHH")
OTIME = struct.Struct("<q")
NAME = struct.Struct("<QQHHI")
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Packet(namedtuple("Packet", "time otime link epoch seq caplen len linktype flags data")):
    """time and otime (what packets are ordered by) are ns since 1970 UTC. (epoch, link, seq) names
    a packet for ever; None, as otime, where a trace file does not tell."""
    __slots__ = ()

    @property
    def seconds(self):
        """The time as a float: coarser than a microsecond is not, finer is."""
        return self.time / 1e9

    @property
    def datetime(self):
        return EPOCH + timedelta(microseconds=self.time // 1000)

    @property
    def cut(self):
        """Cut by the dispatcher, as it did not fit the rack's MTU."""
        return bool(self.flags & CUT)

    @property
    def stray(self):
        """No timestamp was found for it: the time is the node's."""
        return bool(self.flags & STRAY)

    @property
    def unsure(self):
        """One of several alike, one of which was lost: their times may be swapped."""
        return bool(self.flags & UNSURE)


def read_segment(body):
    """The packets of a segment, in its order. Error when it is damaged: it came from outside."""
    if len(body) < HEADER.size:
        raise Error("a damaged answer: a batch of %d bytes" % len(body))
    (magic, version, linktype, epoch, link, flags, count, first, *_) = HEADER.unpack_from(body)
    if magic != MAGIC or version != VERSION or flags & ~MIXED:
        raise Error("a damaged answer, or of a newer version: a batch with magic 0x%08x, "
                    "version %d, flags 0x%x" % (magic, version, flags))
    at, end = HEADER.size, len(body)
    for number in range(count):
        try:
            time, step, caplen, length, flags_, reserved = PACKET.unpack_from(body, at)
            at += PACKET.size
            otime, seq = time, first + step
            if flags_ & HAS_OTIME:
                otime, = OTIME.unpack_from(body, at)
                at += OTIME.size
            if flags & MIXED:
                epoch, seq, link, linktype, _ = NAME.unpack_from(body, at)
                at += NAME.size
        except struct.error:
            raise Error("a damaged answer: packet %d of a batch of %d is cut short"
                        % (number, count)) from None
        data = body[at:at + caplen]
        at += caplen + 7 & ~7
        if at > end or reserved:
            raise Error("a damaged answer: packet %d of a batch of %d is longer than the batch, "
                        "or not of this version" % (number, count))
        yield Packet(time, otime, link, epoch, seq, caplen, length, linktype,
                     flags_ & ~HAS_OTIME, data)
    if at != end:
        raise Error("a damaged answer: bytes behind the last packet of a batch")
