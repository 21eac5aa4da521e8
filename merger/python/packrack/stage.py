# SPDX-License-Identifier: Apache-2.0
"""Stages in Python: the same as those of `packrack stage`, one packet after the other, some twenty times slower."""
import struct

from .errors import Error

ANY_VERSION = 0xffffffffffffffff  # of a section: it has no length, as the file is streamed


class Stage:
    """Derive yours. A packet is changed by packet._replace(data=...); len stays what it was on the wire."""

    def packet(self, packet):
        """What goes on to the next stage: the packet, a changed one, or None."""
        return packet

    def flush(self):
        """Nothing more comes: packets that were held back."""
        return ()

    def report(self):
        """What it found, as json takes it."""
        return {}


class TraceWriter:
    """A pcapng file: an interface for each link and link type, times in ns."""

    def __init__(self, file):
        self.file = file
        self.interfaces = {}
        self.block(0x0a0d0d0a, struct.pack("<IHHQ", 0x1a2b3c4d, 1, 0, ANY_VERSION))

    def block(self, kind, body):
        body += bytes(-len(body) % 4)
        self.file.write(struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12))

    def interface(self, link, linktype):
        name = str(link).encode()[:64]
        self.block(1, struct.pack("<HHIHH", linktype, 0, 0, 2, len(name)) + name + bytes(-len(name) % 4)
                   + struct.pack("<HHB3xHH", 9, 1, 9, 0, 0))  # if_tsresol: 10^-9; the end of options
        return len(self.interfaces)

    def packet(self, p):
        key = p.link, p.linktype
        if key not in self.interfaces:
            self.interfaces[key] = self.interface(*key)
        if not 0 <= p.time < 1 << 64:
            raise Error("a packet of %d ns since 1970 cannot be written" % p.time)
        self.block(6, struct.pack("<IIIII", self.interfaces[key], p.time >> 32, p.time & 0xffffffff, len(p.data), p.len) + p.data)


def run_stages(packets, *stages, write=None):
    """Puts packets (an answer, or any others in order) through the stages; what comes out of the last goes to `write`, a binary
    file, as pcapng. Returns the reports in a list. The answer's completeness is the answer's."""
    trace = TraceWriter(write) if write else None

    def give(packet, first):
        for stage in stages[first:]:
            packet = stage.packet(packet)
            if packet is None:
                return
        if trace:
            trace.packet(packet)

    for packet in packets:
        give(packet, 0)
    for number, stage in enumerate(stages):
        for packet in stage.flush():
            give(packet, number + 1)
    return [stage.report() for stage in stages]
