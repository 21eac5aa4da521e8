#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Splits a trace over N files by flow, as monitors on several links, or a rack spread by flow, would
see it: both directions of a conversation are in one.

usage: split.py IN N PREFIX     writes PREFIX1.pcap ... PREFIXN.pcap (ns, Ethernet)
"""
import os
import struct
import sys
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from traces import Trace  # noqa: E402


def ends(data):
    """What both directions have in common; of anything but plain IP, the MACs."""
    kind = data[12:14]
    if kind == b"\x08\x00" and len(data) >= 34:
        head = 14 + 4 * (data[14] & 15)
        ports = data[head:head + 4] if data[23] in (6, 17) and len(data) >= head + 4 else bytes(4)
        return data[23:24], {data[26:30] + ports[:2], data[30:34] + ports[2:]}
    if kind == b"\x86\xdd" and len(data) >= 58:
        ports = data[54:58] if data[20] in (6, 17) else bytes(4)
        return data[20:21], {data[22:38] + ports[:2], data[38:54] + ports[2:]}
    return kind, {data[:6], data[6:12]}


def main():
    source, count, prefix = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    files = [open("%s%d.pcap" % (prefix, i + 1), "wb") for i in range(count)]
    for f in files:
        f.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
    for p in Trace(source):
        kind, both = ends(p.data)
        f = files[zlib.crc32(kind + b"".join(sorted(both))) % count]
        f.write(struct.pack("<IIII", p.time // 10 ** 9, p.time % 10 ** 9, len(p.data), p.length))
        f.write(p.data)
    for f in files:
        f.close()


if __name__ == "__main__":
    main()
