#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What selective filters read, against an oracle who knows which segments hold a match and reads just
these: BENCH_FILTERS of them (300), of values drawn from a grown trace of BENCH_PACKETS (2 million), that
match in at most a tenth of the segments. The index counts as read, too. BENCH_KEEP names a folder in which
trace and volume stay, and are taken from by the next run."""

import bisect
import json
import os
import random
import struct
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b

sys.path.insert(0, f"{b.BUILD}/python")
import packrack  # noqa: E402

PACKETS = int(os.environ.get("BENCH_PACKETS", "2000000"))
FILTERS = int(os.environ.get("BENCH_FILTERS", "300"))
PACKRACK = f"{b.BUILD}/packrack"
MIX = f"{b.DATA}/mix-gateway-hdr96-a.pcap"
SEED = 7
KEEP = os.environ.get("BENCH_KEEP")
FEW = 0.1  # of the segments
SHOWN = 1.6  # times the oracle's bytes


def flows(path, rng, count):
    """(src, dst, protocol, ports) of packets from all over the trace"""
    picks, out = sorted(rng.sample(range(PACKETS), count)), []
    with open(path, "rb") as f:
        f.read(24)
        for i in range(picks[-1] + 1):
            size = struct.unpack("<8xI4x", f.read(16))[0]
            if i != picks[len(out)]:
                f.seek(size, 1)
                continue
            d = f.read(size)
            ports = struct.unpack_from(">HH", d, 34) if d[23:24] in (b"\x06", b"\x11") and len(d) >= 38 else None
            is_ip = d[12:14] == b"\x08\x00" and len(d) >= 34
            out.append((".".join(map(str, d[26:30])), ".".join(map(str, d[30:34])), d[23], ports) if is_ip else None)
            if len(out) == count:
                break
    return [f for f in out if f]


def filter_of(rng, flow, other):
    src, dst, proto, ports = flow
    name = {6: "tcp", 17: "udp", 1: "icmp"}.get(proto, f"ip proto {proto}")
    kinds = [f"host {src}", f"src host {src}", f"dst host {dst}", f"host {src} and host {dst}", f"{name} and host {dst}",
             f"net {src.rsplit('.', 1)[0]}.0/24", f"host {src} or host {other[1]}", f"src {src} and not dst {dst}",
             f"host {src} and greater 60", f"host {src} and ip[6:2] & 0x1fff = 0"]
    if ports:
        kinds += [f"{name} port {ports[0]}", f"{name} dst port {ports[1]}", f"host {src} and port {ports[1]}",
                  f"src host {src} and src port {ports[0]} and dst host {dst} and dst port {ports[1]}",
                  f"portrange {ports[0]}-{min(65535, ports[0] + 3)} and host {dst}", f"{name} src port {ports[0]}"]
    return rng.choice(kinds)


class Segments:
    def __init__(self, volume):
        out = b.run(PACKRACK, "volume", "records", volume, "packets.0", "--json")
        records = json.loads(out.stdout)["records"]
        self.first = [r["min_time"] for r in records]
        self.bytes = [r["length"] for r in records]

    def of(self, times):
        return {max(0, bisect.bisect_right(self.first, t) - 1) for t in times}


class Read:
    """What a filter read, and what the oracle reads: bytes."""

    def __init__(self, text, search, hit, segments):
        self.text, self.hit, self.read = text, len(hit), search.scanned_segments
        self.data, self.index = search.scanned_bytes, search.index_bytes
        self.oracle = sum(segments.bytes[i] for i in hit)
        self.of_data, self.of_all = self.data / self.oracle, (self.data + self.index) / self.oracle

    def __str__(self):
        return (f"{self.of_all:.2f} ({self.of_data:.2f} the data): {self.hit} segments match, {self.read} read, "
                f"{self.data:,} bytes and {self.index:,} of the index: {self.text}")


def read_for(volume, segments, text):
    """None: nothing matches, or not in few segments"""
    hit = set()
    with packrack.volume(volume, program=PACKRACK).query(text) as answer:
        for p in answer:
            hit |= segments.of([p.time])
            if len(hit) > FEW * len(segments.bytes):
                return None
    return Read(text, answer.search, hit, segments) if hit else None


def make(work):
    trace, volume = f"{work}/grown.pcap", f"{work}/volume"
    if os.path.exists(f"{work}/made-{PACKETS}"):
        return trace, volume
    b.run(f"{b.BUILD}/tests/bench/bench_grow", "trace", MIX, trace, PACKETS)
    b.run(PACKRACK, "import", trace, "--volume", volume, "--create", os.path.getsize(trace) * 3 // 2 + (64 << 20))
    if KEEP:
        b.write(f"{work}/made-{PACKETS}", "")
    return trace, volume


def measure(work):
    trace, volume = make(work)
    rng, out = random.Random(SEED), []
    segments, drawn = Segments(volume), flows(trace, rng, 4 * FILTERS)
    while len(out) < FILTERS:
        got = read_for(volume, segments, filter_of(rng, rng.choice(drawn), rng.choice(drawn)))
        out += [got] if got else []
    return out


def main():
    if not os.path.exists(MIX):
        sys.exit(f"bench: no {MIX}: set PACKRACK_DATA")
    table = b.Table("selective")
    if KEEP:
        os.makedirs(KEEP, exist_ok=True)
        reads = measure(KEEP)
    else:
        with tempfile.TemporaryDirectory(prefix="packrack-selective-", dir=os.environ.get("BENCH_DIR")) as work:
            reads = measure(work)
    for name, which in (("data and index", "of_all"), ("data", "of_data")):
        r = sorted(getattr(x, which) for x in reads)
        for label, at in (("half", len(r) // 2), ("95 of 100", len(r) * 95 // 100), ("all", len(r) - 1)):
            table.row(f"{name} read, of the oracle's bytes: {label} at most", "times", r[at])
        table.row(f"{name} read: filters above twice the oracle's", f"of {FILTERS}", sum(x > 2 for x in r))
    for r in sorted(reads, key=lambda r: r.of_all, reverse=True):
        if r.of_all > SHOWN:
            print(f"           {r}")
    table.write()


main()
