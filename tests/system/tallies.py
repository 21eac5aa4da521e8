#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts packets and bytes of captures by itself, and holds what packrack rate and top say against it.

usage: tallies.py rate JSON STEP_NS FILE...      the series is that of the files' packets
       tallies.py above JSON BITS_PER_S FOR_S STEP_NS FILE...   the busy stretches are
       tallies.py top JSON KEY packets|bytes FILE...    bounds hold and nothing larger is left out;
                                                        KEY is src, dst, host, port or proto
       tallies.py filters JSON FILE               each filter of the JSON has so many in FILE, by tcpdump
"""
import collections
import json
import socket
import struct
import subprocess
import sys

NS = 10**9


def packets(path):
    """(time in ns, original length, bytes) of each packet of a pcap file with Ethernet frames."""
    with open(path, "rb") as f:
        data = f.read()
    magic = data[:4]
    order = "<" if magic in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    unit = 1 if magic in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1000
    at = 24
    while at + 16 <= len(data):
        sec, frac, caplen, length = struct.unpack_from(order + "IIII", data, at)
        yield sec * NS + frac * unit, length, data[at + 16:at + 16 + caplen]
        at += 16 + caplen


def read(paths):
    return [p for path in paths for p in packets(path)]


def check(what, fine):
    if not fine:
        sys.exit("tallies: %s" % what)


def series(found, step):
    counts = collections.defaultdict(lambda: [0, 0])
    for time, length, _ in found:
        counts[time // step][0] += 1
        counts[time // step][1] += length
    return counts


def rate(said, step, paths):
    step = int(step)
    want = series(read(paths), step)
    have = {s["since"] // step: [s["packets"], s["bytes"]] for s in said["series"]}
    check("%d steps, wanted %d" % (len(have), len(want)), have == want)
    check("steps are not in order", [s["since"] for s in said["series"]] == sorted(k * step for k in want))
    check("sums", said["packets"] == sum(p for p, _ in want.values()))


def stretches(counts, bits, lasting, step):
    busy = sorted(k for k, (_, b) in counts.items() if b * 8 * NS > bits * step)
    runs = []
    for k in busy:
        if runs and runs[-1][-1] == k - 1:
            runs[-1].append(k)
        else:
            runs.append([k])
    return [(r[0] * step, (r[-1] + 1) * step - 1, sum(counts[k][0] for k in r), sum(counts[k][1] for k in r),
             max(counts[k][1] for k in r)) for r in runs if len(r) * step >= lasting]


def above(said, bits, lasting, step, *paths):
    want = stretches(series(read(paths), int(step)), int(bits), int(lasting) * NS, int(step))
    have = [(s["since"], s["until"], s["packets"], s["bytes"], s["peak_step_bytes"])
            for s in said["stretches"]]
    check("no stretch to look for", want)
    check("stretches %r, wanted %r" % (have[:3], want[:3]), have == want)


def address(raw):
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)


def keys(key, d):
    """What a frame counts for: plain and tagged IPv4 and IPv6, and ARP for addresses."""
    at = 12
    while d[at:at + 2] in (b"\x81\x00", b"\x88\xa8", b"\x91\x00"):
        at += 4
    kind, net = d[at:at + 2], at + 2
    if kind == b"\x08\x00":
        proto, addresses, after = d[net + 9:net + 10], (d[net + 12:net + 16], d[net + 16:net + 20]), \
            net + 4 * (d[net] & 15 if len(d) > net else 5)
        if len(d) >= net + 8 and struct.unpack_from(">H", d, net + 6)[0] & 0x1fff:
            after = len(d)
    elif kind == b"\x86\xdd":
        proto, addresses, after = d[net + 6:net + 7], (d[net + 8:net + 24], d[net + 24:net + 40]), net + 40
    elif kind in (b"\x08\x06", b"\x80\x35"):
        proto, addresses, after = b"", (d[net + 14:net + 18], d[net + 24:net + 28]), len(d)
    else:
        return set()
    whole = [a if len(a) in (4, 16) else None for a in addresses]
    if key in ("src", "dst", "host"):
        chosen = {"src": whole[:1], "dst": whole[1:], "host": whole}[key]
        return {address(a) for a in chosen if a}
    if key == "proto":
        return {proto[0]} if proto else set()
    if proto not in (b"\x06", b"\x11", b"\x84"):
        return set()
    return {struct.unpack(">H", p)[0] for p in (d[after:after + 2], d[after + 2:after + 4]) if len(p) == 2}


PROTOS = {"icmp": 1, "igmp": 2, "tcp": 6, "udp": 17, "icmp6": 58, "esp": 50, "ah": 51, "sctp": 132,
          "vrrp": 112, "pim": 103, "gre": 47, "ospf": 89}


def named(key, text):
    if key == "port":
        return int(text)
    if key == "proto":
        return PROTOS[text] if text in PROTOS else int(text.split()[1])
    return text


def top(said, key, by, *paths):
    counts = collections.defaultdict(lambda: [0, 0])
    for _, length, data in read(paths):
        for k in keys(key, data):
            counts[k][0] += 1
            counts[k][1] += length
    which = 0 if by == "packets" else 1
    listed = set()
    for item in said["top"]:
        p, b = counts[named(key, item["key"])]
        listed.add(named(key, item["key"]))
        check("%s: %d packets, said %d..%d" % (item["key"], p, item["packets"], item["packets_most"]),
              item["packets"] <= p <= item["packets_most"])
        check("%s: %d bytes, said %d..%d" % (item["key"], b, item["bytes"], item["bytes_most"]),
              item["bytes"] <= b <= item["bytes_most"])
        check("bounds in an exact answer", not said["exact"] or item["bytes"] == item["bytes_most"])
    check("nothing is listed", listed)
    largest = sorted((c[which] for c in counts.values()), reverse=True)
    rest = max((c[which] for k, c in counts.items() if k not in listed), default=0)
    check("%d is not listed, said at most %d" % (rest, said["unlisted_most"]), rest <= said["unlisted_most"])
    have = [counts[named(key, i["key"])][which] for i in said["top"]]
    check("only %d are sure" % said["sure"], said["sure"] > 0)
    check("the first %d are not the largest" % said["sure"],
          all(h >= rest for h in have[:said["sure"]]))
    if said["exact"]:
        check("not the largest, in order", have == largest[:len(have)])


def filters(said, path):
    for item in said["top"]:
        out = subprocess.run(["tcpdump", "-r", path, "--count", item["filter"]], capture_output=True,
                             check=True, text=True).stdout
        check("%s: %s, said %d" % (item["filter"], out, item["packets"]), int(out.split()[0]) == item["packets"])


def main():
    what, path, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    with open(path) as f:
        said = json.load(f)
    if what == "rate":
        rate(said, rest[0], rest[1:])
    else:
        {"above": above, "top": top, "filters": filters}[what](said, *rest)


if __name__ == "__main__":
    main()
