# SPDX-License-Identifier: Apache-2.0
"""Experiments of Hyperion's section 7.4 with the index's own code: what a packet costs by keys, bytes and bits,
how dense signatures get, what level 2 saves by block size, what an index takes of the disk."""

import bisect
import json
import math
import random
import struct
import subprocess

import benchlib as b
import plotlib

TOOLS = f"{b.BUILD}/tests/bench"
PACKRACK = f"{b.BUILD}/packrack"
# Hyperion on a 2.4 GHz Xeon, by linear regression: a key, a byte hashed, a bit set
PAPER_KEY, PAPER_BYTE, PAPER_BIT = 132, 9.4, 43.5
EXAMPLE_KEYS, EXAMPLE_BYTES, EXAMPLE_BITS, PAPER_EXAMPLE = 7, 40, 60, 3910
BLOCKS = [16, 32, 48, 64, 96, 128, 192, 256, 512]  # KiB; Hyperion's are 32 to 96, ours 256


def pairs(text):
    parts = text.split()
    return {k: float(v) for k, v in zip(parts[::2], parts[1::2])}


# ---- cost ----

def inverse(m):
    """Gauss and Jordan, of a few rows."""
    n = len(m)
    rows = [list(r) + [float(i == j) for j in range(n)] for i, r in enumerate(m)]
    for i in range(n):
        top = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[top] = rows[top], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for j in range(n):
            if j != i:
                rows[j] = [v - rows[j][i] * w for v, w in zip(rows[j], rows[i])]
    return [r[n:] for r in rows]


def regression(xs, ys):
    """(coefficients, their standard errors) of least squares; xs without the constant, which comes first."""
    xs = [[1.0] + list(x) for x in xs]
    n = len(xs[0])
    inv = inverse([[sum(x[i] * x[j] for x in xs) for j in range(n)] for i in range(n)])
    right = [sum(x[i] * y for x, y in zip(xs, ys)) for i in range(n)]
    found = [sum(inv[i][j] * right[j] for j in range(n)) for i in range(n)]
    left = sum((y - sum(c * v for c, v in zip(found, x))) ** 2 for x, y in zip(xs, ys))
    variance = left / (len(xs) - n)
    return found, [math.sqrt(variance * inv[i][i]) for i in range(n)]


def costs(table, path):
    """Each header gives N keys of B bytes in all, which set K bits in all: ns = a + b N + c B + d K."""
    lines = [tuple(map(float, line.split())) for line in b.run(f"{TOOLS}/bench_cost", path).stdout.splitlines()]
    found, errors = regression([x[:3] for x in lines], [x[3] for x in lines])
    for i, (what, paper) in enumerate((("a key", PAPER_KEY), ("a byte hashed", PAPER_BYTE),
                                       ("a bit set", PAPER_BIT)), 1):
        table.row(f"regression: {what}", "ns CPU", found[i], paper, "Hyperion's own figure", less_is_better=True)
        table.row(f"regression: {what}: standard error", "ns", errors[i])
        table.row(f"regression: {what}: t", "", found[i] / errors[i])
    example = found[0] + EXAMPLE_KEYS * found[1] + EXAMPLE_BYTES * found[2] + EXAMPLE_BITS * found[3]
    table.row("7 keys, 40 bytes, 60 bits a header", "ns CPU", example, PAPER_EXAMPLE, "Hyperion's own figure",
              less_is_better=True)
    longest = {}  # by keys and bytes a key: the lines of 7 bits, as the index sets them
    for keys, size, bits, ns in lines:
        if bits / keys == 7:
            longest.setdefault(int(size / keys), []).append((keys, ns))
    plotlib.plot("index-cost", data={f"b{n}": rows for n, rows in longest.items()},
                 script="set xlabel 'keys a header, 7 bits each'\nset ylabel 'ns CPU a header'\nplot " + ", ".join(
                     f"$b{n} with linespoints title '{n} bytes a key'" for n in sorted(longest)) + "\n")


# ---- density: figure 13 ----

def densities(table, traces):
    curves = {}
    for what, path in traces.items():
        for line in b.run(f"{TOOLS}/bench_cost", path, "density").stdout.splitlines():
            bits, count, real, uniform = line.split()
            curves.setdefault((what, int(bits)), []).append((int(count), float(real)))
            curves.setdefault(("random addresses", int(bits)), []).append((int(count), float(uniform)))
            if int(count) % 4000 == 0 and bits == "7":
                table.row(f"density of 4 KiB, {bits} bits an address, after {count}: {what}", "share of bits",
                          float(real), float(uniform), "random ones", less_is_better=True)
    data = {f"c{i}": sorted(set(rows)) for i, rows in enumerate(curves.values())}
    plotlib.plot("index-density", data=data,
                 script="set xlabel 'addresses in a signature of 4 KiB'\nset ylabel 'share of bits set'\nset yrange [0:1]\n"
                 "plot 0.5 title '' lt 0" + "".join(
                     f", $c{i} with lines title '{what}, {bits} bits each'" for i, (what, bits) in enumerate(curves)) +
                 "\n")


# ---- level 2: figures 14 and 15 ----

def sweep(table, path, packets):
    """Queries for one packet each: all that is read, index and segments, as they may be cut smaller. A block of
    StreamFS holds four segments: the smallest has no room for a record of level 2."""
    found = {}
    for kib in BLOCKS:
        f = found[kib] = pairs(b.run(f"{TOOLS}/bench_sweep", "query", path, packets, kib * 1024).stdout)
        where = f"segments of {kib} KiB, {packets} packets"
        for unit in ("bytes", "reads"):
            table.row(f"{unit} for one packet: {where}", unit, f[f"sliced_{unit}"], f[f"plain_{unit}"],
                      "level 2 not sliced", less_is_better=True)
        table.row(f"{where}: without level 2", "bytes", f["one_level_bytes"])
        table.row(f"{where}: index", "%", 100 * (f["level1"] + f["level2"]) / f["data"])
        table.row(f"{where}: segments read for nothing", "a query", f["false_hits"])
    for unit, label in (("bytes", "MB read"), ("reads", "reads")):
        scale = 1e6 if unit == "bytes" else 1
        data = {kind: [(kib, f[f"{kind}_{unit}"] / scale) for kib, f in found.items()]
                for kind in ("sliced", "plain", "one_level")}
        plotlib.plot(f"index-{unit}", data=data,
                     script=f"set xlabel 'KiB a segment'\nset ylabel '{label} for one packet of {packets}'\nset logscale xy\n"
                     "plot $sliced with linespoints title 'level 2 bit-sliced', $plain with linespoints title "
                     "'level 2 not sliced', $one_level with linespoints title 'level 1 alone'\n")


# ---- sizes ----

PARTS = ["items", "signatures", "series", "held", "tops", "rest", "level2"]


def sizes(table, traces, packets):
    """As recorded, and of the whole packets where the capture has cut them off. Goal: 0.5 % at 450 bytes."""
    for what, (path, wire) in traces.items():
        f = pairs(b.run(f"{TOOLS}/bench_sweep", "sizes", path, packets, int(wire)).stdout)
        total, mean = sum(f[p] for p in PARTS), f["data"] / packets
        table.row(f"index: {what}, {mean:.0f} bytes a packet stored", "%", 100 * total / f["data"],
                  0.5 if mean >= 450 else None, "goal" if mean >= 450 else None, less_is_better=True)
        for part in PARTS:
            table.row(f"  of it {part}: {what}", "%", 100 * f[part] / f["data"])


# ---- the oracle ----

def some_filters(path, number):
    """From packets of a capture: hosts, pairs, connections, networks, ports."""
    with open(path, "rb") as f:
        data = f.read()
    at, packets = 24, []
    while at + 16 <= len(data):
        caplen = struct.unpack_from("<I", data, at + 8)[0]
        d = data[at + 16:at + 16 + caplen]
        if len(d) >= 38 and d[12:14] == b"\x08\x00" and d[14] == 0x45 and d[23] in (6, 17):
            packets.append(d)
        at += 16 + caplen
    rng, out = random.Random(1), ["host 203.0.113.77"]
    while len(out) < number:
        d = rng.choice(packets)
        src, dst = (".".join(map(str, d[i:i + 4])) for i in (26, 30))
        sport, dport = struct.unpack(">HH", d[34:38])
        proto = "tcp" if d[23] == 6 else "udp"
        out.append(rng.choice([
            f"host {dst}", f"src host {src}", f"host {src} and host {dst}",
            f"host {src} and {proto} port {dport}", f"net {dst.rsplit('.', 1)[0]}.0/24",
            f"{proto} src port {sport}", f"host {src} and {proto} and port {sport} and port {dport}",
            f"src {src} and dst {dst} and {proto} dst port {dport}"]))
    return out


SELECTIVE = 0.02  # of the segments


class Segments:
    """Those of a volume: which of them hold packets of these times."""

    def __init__(self, volume):
        out = b.run(PACKRACK, "volume", "records", volume, "packets.0", "--json").stdout
        records = json.loads(out)["records"]
        self.first = [r["min_time"] for r in records]
        self.bytes = [r["length"] for r in records]

    def of(self, times):
        return {max(0, bisect.bisect_right(self.first, t) - 1) for t in times}


def times_of(volume, text):
    """of the packets that match, in ns"""
    data = subprocess.run([PACKRACK, "query", "--volume", volume, "--format", "pcap-ns", "-q", "-w", "-", text],
                          check=True, stdout=subprocess.PIPE).stdout
    at = 24
    while at + 16 <= len(data):
        seconds, ns, caplen = struct.unpack_from("<III", data, at)
        yield seconds * 10**9 + ns
        at += 16 + caplen


def oracle(table, capture, trace, volume, number=60):
    """Bytes read over the bytes of the segments that hold what matches. Which packets match is told by the
    programs over the trace; in which segments they lie, by the volume: each import cuts it elsewhere."""
    filters, held = some_filters(capture, number), Segments(volume)
    known = b.run(f"{TOOLS}/bench_oracle", trace, input="".join(f + "\n" for f in filters)).stdout.splitlines()
    ratios, ours, theirs = [], 0, 0
    for text, line in zip(filters, known):
        matched, where, _ = map(int, line.split())
        if not matched or where > SELECTIVE * len(held.bytes):
            continue
        answer = json.loads(b.run(PACKRACK, "query", "--volume", volume, "--json", "--count", text).stdout)
        times = list(times_of(volume, text))
        assert answer["matched"] == matched == len(times), (text, answer["matched"], matched, len(times))
        hit = held.of(times)
        read, size = answer["index_bytes"] + answer["scanned_bytes"], sum(held.bytes[i] for i in hit)
        table.row(f"read: {text} ({matched} packets in {len(hit)} segments)", "bytes", read, size, "oracle",
                  less_is_better=True)
        ratios.append(read / size)
        ours, theirs = ours + read, theirs + size
    ratios.sort()
    table.row(f"{len(ratios)} selective filters: read in all", "bytes", ours, theirs, "oracle", less_is_better=True)
    table.row("filters that read more than twice what the oracle reads", f"of {len(ratios)}", sum(r > 2 for r in ratios))
    table.row("times what the oracle reads, median", "", ratios[len(ratios) // 2], 2, "goal", less_is_better=True)
    table.row("times what the oracle reads, worst", "", ratios[-1], 2, "goal", less_is_better=True)
