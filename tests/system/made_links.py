# SPDX-License-Identifier: Apache-2.0
"""Packets of link types that have filters of their own and no capture: pflog (`on eth0`), SunATM (`vpi 0`), MTP2
(`fisu`). Their heads are made up, from the same seed each time; what they carry comes from a capture."""
import random
import struct

PFLOG, SUNATM, MTP2 = 117, 123, 140
COUNT = 60


def pflog(rng, ip):
    name = rng.choice([b"eth0", b"eth1", b"em0"])
    head = struct.pack(">BBBB16s16sIIIiIi", 61, 2, rng.randrange(3), rng.randrange(6), name,
                       rng.choice([b"", b"x"]), rng.randrange(3), rng.randrange(3), 0, 0, 0, 0)
    return head + bytes([rng.randrange(3), 0, 0, 0]) + ip


def sunatm(rng, ip):
    kind = rng.choice([1, 2, 5, 6])  # LANE, LLC, ILMI, signalling
    head = bytes([kind | rng.choice([0, 0x80]), rng.randrange(3)]) + struct.pack(">H", rng.choice([1, 2, 3, 4, 5, 16]))
    if kind == 1:
        return head + rng.choice([b"\0\0", b"\xff\0"]) + bytes(range(12)) + b"\x08\0" + ip
    return head + b"\xaa\xaa\x03\0\0\0\x08\0" + ip


def mtp2(rng, ip):
    length = rng.choice([0, 1, 2, 3, 8, 63])
    return rng.randbytes(2) + bytes([length, rng.choice([3, 5, 0x83])]) + struct.pack("<I", rng.randrange(1 << 32)) + ip


def packets(ips):
    """link type -> its packets; ips: what they carry"""
    rng = random.Random(1)
    return {linktype: [make(rng, rng.choice(ips)) for _ in range(COUNT)]
            for linktype, make in ((PFLOG, pflog), (SUNATM, sunatm), (MTP2, mtp2))}
