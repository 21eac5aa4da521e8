# SPDX-License-Identifier: Apache-2.0
"""Readers and writers of traces for the tests. Made from the formats' descriptions alone; shares
no code with the programs under test, so that the two cannot be wrong together.

A packet is a tuple (time in ns since 1970, 0 where the file gives none as libpcap has it; captured
bytes; original length; interface).
"""
import struct
from collections import namedtuple

Packet = namedtuple("Packet", "time data length interface")
Interface = namedtuple("Interface", "linktype snaplen ticks offset name")

PCAP = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1, 0xA1B2CD34: 1000}
SECTION, INTERFACE, OBSOLETE, SIMPLE, STATISTICS, ENHANCED = 0x0A0D0D0A, 1, 2, 3, 5, 6


class Bad(Exception):
    """The file is not what it says."""


class Trace:
    """Iterate for packets, in file order; interfaces and comments fill up meanwhile."""

    def __init__(self, path):
        self.path = path
        self.interfaces = []
        self.comments = []
        self.statistics = []

    def __iter__(self):
        with open(self.path, "rb") as f:
            magic = f.read(4)
            f.seek(0)
            if len(magic) < 4:
                raise Bad("%s: shorter than any trace" % self.path)
            if struct.unpack("<I", magic)[0] == SECTION:
                yield from self.pcapng(f)
            else:
                yield from self.pcap(f)

    def exactly(self, f, count):
        data = f.read(count)
        if len(data) != count:
            raise Bad("%s: ends within a packet or block at %d" % (self.path, f.tell()))
        return data

    # ---- pcap ----

    def pcap(self, f):
        head = self.exactly(f, 24)
        for order in "<>":
            magic = struct.unpack(order + "I", head[:4])[0]
            if magic in PCAP:
                break
        else:
            raise Bad("%s: no pcap or pcapng magic" % self.path)
        unit, extra = PCAP[magic], 8 if magic == 0xA1B2CD34 else 0
        snaplen, linktype = struct.unpack(order + "II", head[16:])
        self.interfaces.append(Interface(linktype & 0xFFFF, snaplen, 10 ** 9 // unit, 0, ""))
        while True:
            record = f.read(16)
            if not record:
                return
            if len(record) < 16:
                raise Bad("%s: ends within a packet header" % self.path)
            sec, frac, caplen, length = struct.unpack(order + "IIII", record)
            self.exactly(f, extra)
            # Damaged files: libpcap, and so tcpdump, takes no more than the file's snap length of
            # a packet, and reads its fraction of a second as 32 bits with a sign.
            frac = ((frac + 2 ** 31) % 2 ** 32 - 2 ** 31) * unit
            data = self.exactly(f, caplen)[:snaplen or None]
            yield Packet(sec * 10 ** 9 + frac, data, length, 0)

    # ---- pcapng ----

    def pcapng(self, f):
        order, base = "<", 0
        while True:
            head = f.read(8)
            if not head:
                return
            if len(head) < 8:
                raise Bad("%s: ends within a block header" % self.path)
            kind = struct.unpack(order + "I", head[:4])[0]
            if kind == SECTION:
                magic = self.exactly(f, 4)
                order = "<" if magic == b"\x4d\x3c\x2b\x1a" else ">"
                base = len(self.interfaces)
                body = magic + self.body(f, order, head, 4)
                self.options(order, body[16:])
            else:
                body = self.body(f, order, head, 0)
                yield from self.block(order, base, kind, body)

    def body(self, f, order, head, had):
        total = struct.unpack(order + "I", head[4:])[0]
        if total % 4 or total < 12 + had:
            raise Bad("%s: block length %d at %d" % (self.path, total, f.tell()))
        body = self.exactly(f, total - 12 - had)
        if struct.unpack(order + "I", self.exactly(f, 4))[0] != total:
            raise Bad("%s: the block's two lengths differ at %d" % (self.path, f.tell()))
        return body

    def options(self, order, data):
        found = {}
        while len(data) >= 4:
            code, length = struct.unpack(order + "HH", data[:4])
            if code == 0:
                break
            if len(data) < 4 + length:
                raise Bad("%s: an option is longer than its block" % self.path)
            found.setdefault(code, []).append(data[4:4 + length])
            data = data[4 + (length + 3) // 4 * 4:]
        self.comments += [text.decode("utf-8", "replace") for text in found.get(1, [])]
        return found

    def interface(self, order, body):
        linktype, _, snaplen = struct.unpack(order + "HHI", body[:8])
        options = self.options(order, body[8:])
        resolution = options.get(9, [b"\x06"])[0][0]
        ticks = 2 ** (resolution & 0x7F) if resolution & 0x80 else 10 ** resolution
        offset = struct.unpack(order + "q", options[14][0])[0] if 14 in options else 0
        name = options.get(2, [b""])[0].rstrip(b"\0").decode("utf-8", "replace")
        self.interfaces.append(Interface(linktype, snaplen, ticks, offset, name))

    def time(self, interface, high, low):
        i = self.interfaces[interface]
        ticks = high << 32 | low
        # Two's complement: some writers say times before 1970 so.
        if ticks >= 1 << 63:
            ticks -= 1 << 64
        return i.offset * 10 ** 9 + ticks * 10 ** 9 // i.ticks

    def block(self, order, base, kind, body):
        if kind == INTERFACE:
            self.interface(order, body)
        elif kind in (ENHANCED, OBSOLETE):
            if kind == ENHANCED:
                number, high, low, caplen, length = struct.unpack(order + "IIIII", body[:20])
            else:
                number, _, high, low, caplen, length = struct.unpack(order + "HHIIII", body[:20])
            if base + number >= len(self.interfaces) or 20 + caplen > len(body):
                raise Bad("%s: a packet block that points outside" % self.path)
            self.options(order, body[20 + (caplen + 3) // 4 * 4:])
            time = self.time(base + number, high, low)
            yield Packet(time, body[20:20 + caplen], length, base + number)
        elif kind == SIMPLE:
            length = struct.unpack(order + "I", body[:4])[0]
            caplen = min(length, len(body) - 4, self.interfaces[base].snaplen or length)
            yield Packet(0, body[4:4 + caplen], length, base)
        elif kind == STATISTICS:
            number = struct.unpack(order + "I", body[:4])[0]
            self.statistics.append((base + number, self.options(order, body[12:])))


def write_pcap(path, packets, linktype=1, snaplen=262144, nano=True, order="<"):
    unit = 1 if nano else 1000
    with open(path, "wb") as f:
        magic = 0xA1B23C4D if nano else 0xA1B2C3D4
        f.write(struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, linktype))
        for time, data, length in packets:
            sec, ns = divmod(time, 10 ** 9)
            f.write(struct.pack(order + "IIII", sec, ns // unit, len(data), length) + data)
