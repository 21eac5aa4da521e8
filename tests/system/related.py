#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packets that belong to others, made and looked for without packrack.

  related.py make A B WANT       traces of two links, and what `udp port 7777 or tcp port 7778` with all
                                 that is related to it gives of both; some look related and are not
  related.py fragments FILE FILTER WANT    of a capture: what the filter matches (tcpdump says), and all
                                 fragments of the same packets within 30 s of it
  related.py comments ANSWER MATCHING [KIND=COUNT ...]   of a pcapng: so many packets have no comment, and
                                 so many have one with the word KIND
"""
import struct
import subprocess
import sys
import tempfile

import traces

NS = 10**9
START = 1700000000 * NS
MACS = b"\x02\0\0\0\0\1\x02\0\0\0\0\2"


def ip4(payload, proto, src="10.0.0.1", dst="10.9.0.2", ident=0, flags=0, offset=0, ttl=64, total=None):
    pack = lambda a: bytes(int(x) for x in a.split("."))
    return struct.pack(">BBHHHBBH", 0x45, 0, total or 20 + len(payload), ident, flags << 13 | offset // 8, ttl,
                       proto, 0) + pack(src) + pack(dst) + payload


def ip6(payload, proto, src=1, dst=2, hops=64):
    prefix = bytes.fromhex("20010db8") + bytes(11)
    return struct.pack(">IHBB", 6 << 28, len(payload), proto, hops) + prefix + bytes([src]) + prefix + \
        bytes([dst]) + payload


def udp(data, sport=5000, dport=7777):
    return struct.pack(">HHHH", sport, dport, 8 + len(data), 0x1234) + data


def tcp(data, sport=5001, dport=7778, seq=1):
    return struct.pack(">HHIIBBHHH", sport, dport, seq, 99, 5 << 4, 0x18, 1000, 0, 0) + data


def ether(payload, kind=0x0800):
    return MACS + struct.pack(">H", kind) + payload


def fragments4(payload, proto, ident, size, **where):
    """The parts of a datagram, each in a packet of its own."""
    cuts = range(0, len(payload), size)
    return [ip4(payload[at:at + size], proto, ident=ident, flags=int(at + size < len(payload)), offset=at, **where)
            for at in cuts]


def fragments6(payload, proto, ident, size):
    cuts = range(0, len(payload), size)
    return [ip6(struct.pack(">BBHI", proto, 0, at | int(at + size < len(payload)), ident) +
                payload[at:at + size], 44) for at in cuts]


def icmp(kind, code, quoted):
    return struct.pack(">BBHI", kind, code, 0, 0) + quoted


class Script:
    """What is sent on both links, and whether the answer has it: match, a kind of relation, or no."""

    def __init__(self):
        self.links, self.time = ([], []), START

    def send(self, link, frame, why, wait=0.01):
        self.time += int(wait * NS)
        self.links[link].append((self.time, frame, why))

    def noise(self):
        for i in range(300):
            self.send(i % 2, ether(ip4(udp(b"n%03d" % i, 1024 + i, 53), 17, dst="10.8.0.%d" % (i % 200), ident=i)),
                      "no", 0.001)


def fragmented(s):
    parts = fragments4(udp(bytes(3000)), 17, 77, 1480)
    assert len(parts) == 3
    s.send(1, ether(parts[2]), "fragment")  # ahead of the first, on the other link
    s.send(0, ether(parts[0]), "match")
    s.send(1, ether(parts[1]), "fragment")
    s.send(0, ether(ip4(icmp(11, 1, parts[1][:28]), 1, "10.7.0.1", "10.0.0.1")), "error")
    for other in (fragments4(udp(bytes(3000)), 17, 78, 1480)[1],
                  fragments4(udp(bytes(3000)), 17, 77, 1480, src="10.0.0.3")[1],
                  fragments4(udp(bytes(3000)), 50, 77, 1480)[1]):
        s.send(1, ether(other), "no")
    parts = fragments6(udp(bytes(2400)), 17, 0xabcdef, 1200)
    # a filter by port looks no further than IPv6's own header: match a fragment by its length
    s.send(0, ether(parts[0], 0x86dd), "no")
    s.noise()
    s.send(0, ether(fragments4(udp(bytes(3000)), 17, 77, 1480)[1]), "no", 31)


def errors(s):
    plain, late = ip4(udp(b"why"), 17, ident=501), ip4(tcp(b"too long", seq=4711), 6, ident=502, flags=2)
    six = ip6(udp(b"six"), 17)
    s.send(0, ether(plain), "match")
    s.send(1, ether(ip4(icmp(3, 3, plain[:28]), 1, "10.7.0.1", "10.0.0.1")), "error")
    s.send(1, ether(ip4(icmp(11, 0, ip4(udp(b"why"), 17, ident=501, ttl=1)), 1, "10.7.0.9", "10.0.0.1")), "error")
    s.send(1, ether(ip4(icmp(3, 3, ip4(udp(b"why"), 17, ident=999)[:28]), 1, "10.7.0.1", "10.0.0.1")), "no")
    s.send(1, ether(ip4(icmp(8, 0, plain[:28]), 1, "10.7.0.1", "10.0.0.1")), "no")  # an echo
    s.send(0, ether(late), "match")
    s.send(0, ether(ip4(icmp(3, 4, late[:28]), 1, "10.7.0.1", "10.0.0.1")), "error")
    s.send(0, ether(ip4(icmp(3, 4, ip4(tcp(b"too long", seq=4712), 6, ident=502)[:28]), 1, "10.7.0.1")), "no")
    s.send(0, ether(six, 0x86dd), "match")
    s.send(0, ether(ip6(icmp(2, 0, six), 58, 9, 1), 0x86dd), "error")
    s.send(0, ether(ip6(icmp(128, 0, six), 58, 9, 1), 0x86dd), "no")
    s.send(0, ether(ip4(icmp(3, 3, fragments4(udp(bytes(3000)), 17, 78, 1480)[1][:28]), 1)), "no")
    s.noise()


def tunnelled(s):
    inner, six = ip4(udp(b"inside"), 17, ident=601), ip6(udp(b"inside six"), 17)
    s.send(0, ether(inner), "match")
    s.send(0, ether(six, 0x86dd), "match")
    gre = lambda flags, more, packet, kind: ip4(struct.pack(">HH", flags, kind) + more + packet, 47, "10.5.0.1")
    vx = struct.pack(">II", 0x08000000, 42 << 8)
    copies = [
        ether(struct.pack(">HH", 5, 0x0800) + inner, 0x8100),
        ether(struct.pack(">HHHH", 5, 0x8100, 6, 0x0800) + inner, 0x88a8),
        ether(struct.pack(">I", 16 << 12 | 0x140) + inner, 0x8847),
        ether(b"\x11\0\0\1" + struct.pack(">HH", len(inner) + 2, 0x21) + inner, 0x8864),
        ether(gre(0, b"", inner, 0x0800)),
        ether(gre(0x2000, b"keyk", ip4(udp(b"inside"), 17, ident=601, ttl=9), 0x0800)),
        ether(ip4(inner, 4, "10.5.0.1")),
        ether(ip4(six, 41, "10.5.0.1")),
        ether(ip6(inner, 4), 0x86dd),
        ether(ip4(udp(vx + ether(inner), 4242, 4789), 17, "10.5.0.1")),
        ether(struct.pack(">HH", 7, 0x86dd) + six, 0x8100),
    ]
    for i, copy in enumerate(copies):
        s.send(i % 2, copy, "copy")
    for other in (ether(ip4(ip4(udp(b"inside"), 17, ident=602), 4, "10.5.0.1")),
                  ether(ip4(ip4(udp(b"inside", 1, 2), 17, ident=601), 4, "10.5.0.1")),
                  ether(struct.pack(">HH", 5, 0x0800) + ip4(udp(b"longer inside"), 17, ident=601), 0x8100)):
        s.send(1, other, "no")
    s.noise()
    s.send(0, copies[0], "no", 31)
    s.send(0, ether(ip4(tcp(b"the last", seq=1 << 31), 6, ident=700)), "match", 100)


def make(a, b, want):
    s = Script()
    s.noise()
    fragmented(s)
    errors(s)
    tunnelled(s)
    for path, sent in zip((a, b), s.links):
        traces.write_pcap(path, [(t, f, len(f)) for t, f, _ in sent])
    merged = sorted((p + (link,) for link, sent in enumerate(s.links) for p in sent), key=lambda p: (p[0], p[3]))
    traces.write_pcap(want, [(t, f, len(f)) for t, f, why, _ in merged if why != "no"])
    kinds = [why for _, _, why, _ in merged]
    print(*("%s=%d" % (k, kinds.count(k)) for k in ("match", "fragment", "error", "copy")))


# ---- real captures ----

def fragment_name(linktype, data):
    """What all fragments of a packet share; None: it is none. Ethernet and raw IP, no tags."""
    at = {1: 14, 101: 0, 12: 0, 228: 0}[linktype]
    if linktype == 1 and data[12:14] not in (b"\x08\0", b"\x86\xdd"):
        return None
    if data[at] >> 4 == 4 and struct.unpack_from(">H", data, at + 6)[0] & 0x3fff:
        return data[at + 4:at + 6], data[at + 9], data[at + 12:at + 20]
    if data[at] >> 4 == 6 and data[at + 6] == 44:
        return data[at + 44:at + 48], data[at + 8:at + 40]
    return None


def fragments(path, filter_text, want):
    with tempfile.NamedTemporaryFile(suffix=".pcap") as f:
        subprocess.run(["tcpdump", "--nano", "-r", path, "-w", f.name, filter_text], check=True, capture_output=True)
        matching = list(traces.Trace(f.name))
    trace = traces.Trace(path)
    everything = list(trace)
    linktype = trace.interfaces[0].linktype
    names, seen = {}, {(p.time // 1000, bytes(p.data)) for p in matching}
    for p in matching:
        name = fragment_name(linktype, p.data)
        if name:
            names.setdefault(name, []).append(p.time)
    chosen = [p for p in everything if (p.time // 1000, bytes(p.data)) in seen or
              any(abs(t - p.time) <= 30 * NS for t in names.get(fragment_name(linktype, p.data), []))]
    traces.write_pcap(want, [(p.time, bytes(p.data), p.length) for p in chosen], linktype)
    print(len(matching), len(chosen) - len(matching))


def comments(path, matching, *kinds):
    """Enhanced packet blocks and their comments."""
    with open(path, "rb") as f:
        data = f.read()
    at, found = 0, []
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind == 6:
            caplen = struct.unpack_from("<I", data, at + 20)[0]
            o, end, text = at + 28 + (caplen + 3) // 4 * 4, at + size - 4, ""
            while o + 4 <= end:
                code, n = struct.unpack_from("<HH", data, o)
                if code == 1:
                    text = data[o + 4:o + 4 + n].decode()
                o += 4 + (n + 3) // 4 * 4
            found.append(text)
        at += size
    want = dict(k.split("=") for k in kinds)
    have = {k: sum(k in text for text in found) for k in want}
    have[""] = sum(not text for text in found)
    want = {k: int(n) for k, n in want.items()}
    want[""] = int(matching)
    if have != want or sum(want.values()) != len(found):
        sys.exit("related: comments %r of %d packets, wanted %r" % (have, len(found), want))


if __name__ == "__main__":
    {"make": make, "fragments": fragments, "comments": comments}[sys.argv[1]](*sys.argv[2:])
