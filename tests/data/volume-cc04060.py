#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The captures of which packrack of commit cc04060 made volume-cc04060.xz, five files in DIR:

    packrack volume create --size 4M --block-size 64K volume
    packrack import DIR/N.pcap --volume volume --link 0 --name lan --composite src+dport    (N from 0 to 4)

Later versions read this volume: tests/system/24_old_volume.t compares what they find with these captures."""

import struct
import sys

FILES, ROUNDS, PACKETS = 5, 3, 240
GATEWAY = 999


class Numbers:
    """The same numbers with every version of Python."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n

    def of(self, *choices):
        return choices[self.below(len(choices))]


def ether(dst, src, kind):
    return struct.pack(">HIHIH", 0x200, dst, 0x200, src, kind)


def ip4(src, dst, proto, body, fragment=0):
    return struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(body), 1, fragment, 64, proto, 0, src, dst) + body


def ip6(src, dst, proto, body):
    return struct.pack(">IHBB", 6 << 28, len(body), proto, 64) + src + dst + body


def tcp(src, dst, data=b""):
    return struct.pack(">HHIIBBHHH", src, dst, 1, 2, 0x50, 16, 100, 0, 0) + data


def udp(src, dst, size):
    return struct.pack(">HHHH", src, dst, 8 + size, 0) + b"." * size


def host(net, i):
    return 10 << 24 | net << 16 | i


def host6(i):
    return bytes.fromhex("20010db8") + bytes(10) + struct.pack(">H", i)


def packet(n, number, r):
    """Packet number of round r: a frame of one of ten sorts."""
    client, server = host(r % 5, n.below(40) + 40 * (r % 7)), host(200, n.below(6))
    out, back = (GATEWAY, client & 0xffff), (client & 0xffff, GATEWAY)
    sort, port = n.below(100), 1024 + n.below(400) + 300 * r
    if sort < 25:
        return ether(*out, 0x800) + ip4(client, server, 6, tcp(port, n.of(80, 443, 8080), b"x" * n.of(0, 0, 20, 60)))
    if sort < 45:
        return ether(*back, 0x800) + ip4(server, client, 6, tcp(n.of(80, 443, 8080), port, b"y" * n.of(0, 20, 90)))
    if sort < 65:
        return ether(*out, 0x800) + ip4(client, host(201, r % 3), 17, udp(30000 + n.below(3000), 53, n.below(60)))
    if sort < 75:
        return ether(*out, 0x86DD) + ip6(host6(number % 9 + r), host6(77), n.of(6, 17), udp(5000 + r, 443, 30))
    if sort < 80:
        return ether(*out, 0x8100) + struct.pack(">HH", 5 + r % 4, 0x800) + ip4(client, server, 17, udp(123, 123, 48))
    if sort < 84:
        return ether(*out, 0x800) + ip4(client, server, 1, struct.pack(">BBHHH", 8, 0, 0, number, r))
    if sort < 86:
        arp = struct.pack(">HHBBHHIIHII", 1, 0x800, 6, 4, 1, 0x200, client & 0xffff, client, 0, 0, server)
        return ether(0xffffffff, client & 0xffff, 0x806) + arp
    if sort < 88:
        return ether(*out, 0x8847) + struct.pack(">I", (100 + r) << 12 | 0x140) + ip4(client, server, 6, tcp(2000, 22))
    if sort < 90:
        return ether(*out, 0x800) + ip4(client, server, 17, b"f" * 40, 185)
    return ether(*out, 0x800) + ip4(client, host(202, r % 4), 6, tcp(2000 + number % 5, 22))


def write(path, file):
    n, time = Numbers(file + 1), (1700000000 + 60 * file) * 10**9
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
        for r in range(ROUNDS):
            for number in range(PACKETS):
                frame = packet(n, number, r)
                if (file, r, number) == (2, 1, 7):  # a host that is there once
                    frame = ether(1, 2, 0x800) + ip4(0xC0000207, 0xC6336409, 6, tcp(4444, 179))
                f.write(struct.pack("<IIII", time // 10**9, time % 10**9, len(frame), len(frame)) + frame)
                time += 1000 + n.below(400000)
            time += 2 * 10**9


for i in range(FILES):
    write(f"{sys.argv[1]}/{i}.pcap", i)
