#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The index (Hyperion, section 7.4): what a packet costs, what it takes of the disk, how dense signatures
are, and what a query for one packet among many millions reads, by block size, beside an oracle and tcpdump.
BENCH_PACKETS: how many (20 million; 2 GB of headers twice in BENCH_DIR). BENCH_PARTS: some of
build,sizes,costs,density,sweep,needle,oracle. Plots in build/bench/."""

import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b
import indexlib

PACKETS = int(os.environ.get("BENCH_PACKETS", "20000000"))
PROGRAM = f"{b.BUILD}/tests/bench/bench_index"
PACKRACK = f"{b.BUILD}/packrack"
NEEDLE = "host 203.0.113.77"
# Hyperion on a 2.4 GHz Xeon: 7 keys of 40 bytes, 60 bits
PARTS = "build,sizes,costs,density,sweep,needle,oracle"
DENSITY = ("gateway mix, 96 bytes", "campus DNS")
PAPER_NS, PAPER_BIT_NS, PAPER_BYTE_NS = 3910, 43.5, 9.4


def captures():
    """name -> (path, are its packets cut off?)"""
    named = {"gateway mix, full": ("mix-gateway-full-a.pcap", False),
             "gateway mix, 96 bytes": ("mix-gateway-hdr96-a.pcap", True),
             "malware traffic of a year, 96 bytes": ("mta-1year-hdr96-a.pcap", True),
             "browsing": ("a-general/Pcap-Analyzer__test.pcap", False),
             "mixed traffic of a host": ("a-general/cuckoo__mixed-traffic.pcap", True),
             "campus DNS": ("a-general/SONATA-DEV__campus_dns_1min.pcap", False)}
    return {what: (f"{b.DATA}/{path}", cut) for what, (path, cut) in named.items()
            if os.path.exists(f"{b.DATA}/{path}")}


def figures(*words):
    return indexlib.pairs(b.run(PROGRAM, *words).stdout)


def building(table, what, path, rounds):
    runs = [figures("build", path, rounds) for _ in range(3)]
    f = sorted(runs, key=lambda r: r["ns"])[1]
    table.row(f"index a packet: {what}", "ns CPU", f["ns"], PAPER_NS, "Hyperion's own figure", less_is_better=True)
    table.row(f"keys a segment: {what}", "keys", f["keys"] / f["segments"])


def hashing(table):
    for name, ns in figures("hash").items():
        if name.startswith("hash"):
            n = int(name[4:])
            table.row(f"hashing a key of {n} bytes", "ns", ns, PAPER_BYTE_NS * n, "Hyperion's own figure",
                      less_is_better=True)
        elif name == "bit":
            table.row("setting a bit", "ns", ns, PAPER_BIT_NS, "Hyperion's own figure", less_is_better=True)
        else:
            table.row("finding that a key is known", "ns", ns)


def timed(*words):
    begin = time.monotonic()
    out = b.run(*words)
    return time.monotonic() - begin, out


def query(volume, text):
    seconds, out = timed(PACKRACK, "query", "--volume", volume, "--json", "--count", text)
    return seconds, json.loads(out.stdout)


def find(tree, name):
    """the first value of this name, however deep"""
    if isinstance(tree, dict):
        if name in tree:
            return tree[name]
        tree = list(tree.values())
    for part in tree if isinstance(tree, list) else []:
        got = find(part, name)
        if got is not None:
            return got
    return None


def needle(table, path, work, parts):
    trace, volume = f"{work}/grown.pcap", f"{work}/volume"
    b.run(f"{b.BUILD}/tests/bench/bench_grow", "trace", path, trace, PACKETS)
    size = os.path.getsize(trace) * 3 // 2 + (64 << 20)
    seconds, _ = timed(PACKRACK, "import", trace, "--volume", volume, "--create", size)
    table.row("packets imported and indexed", "packets/s", PACKETS / seconds)
    plain = figures("build", trace, 1)
    if "needle" in parts:
        find_needle(table, trace, volume, plain)
    if "oracle" in parts:
        indexlib.oracle(table, path, trace, volume)


def find_needle(table, trace, volume, plain):
    for state in ("cold", "warm"):
        ours, theirs = [], []
        if state == "warm":  # both have been read a moment ago
            query(volume, NEEDLE)
            b.run("tcpdump", "-r", trace, "--count", NEEDLE)
        for _ in range(5):
            if state == "cold":
                b.cold()
            seconds, answer = query(volume, NEEDLE)
            ours.append(seconds)
            if state == "cold":
                b.cold()
            seconds, out = timed("tcpdump", "-r", trace, "--count", NEEDLE)
            theirs.append(seconds)
        assert find(answer, "matched") == 1 and out.stdout.split()[0] == "1", answer
        table.row(f"one of {PACKETS} packets, {state}", "s", sorted(ours)[2], sorted(theirs)[2], "tcpdump -r",
                  less_is_better=True)
    table.row("index read for it, bit-sliced", "bytes", find(answer, "index_bytes"), plain["level1"],
              "plain: all of level 1", less_is_better=True)
    table.row("reads of the index, bit-sliced", "reads", find(answer, "index_reads"), plain["records1"],
              "plain: all of level 1", less_is_better=True)
    read = find(answer, "index_bytes") + find(answer, "scanned_bytes")
    table.row("all that was read for it", "bytes", read, plain["bytes"] / plain["segments"],
              "the one segment", less_is_better=True)


def main():
    table, traces = b.Table("index"), captures()
    parts = os.environ.get("BENCH_PARTS", PARTS).split(",")
    if not traces:
        print("no captures: set PACKRACK_DATA")
    mix = traces.get("gateway mix, 96 bytes", (None,))[0]
    if "build" in parts:
        for what, (path, _) in traces.items():
            building(table, what, path, 5)
        hashing(table)
    if "sizes" in parts:
        kinds = {what: (path, False) for what, (path, _) in traces.items()}
        kinds.update({f"{what}, as long as they were": (path, True) for what, (path, cut) in traces.items() if cut})
        indexlib.sizes(table, kinds, min(PACKETS, 1000000))
    if mix and "costs" in parts:
        indexlib.costs(table, mix)
    if "density" in parts:
        indexlib.densities(table, {what: path for what, (path, _) in traces.items() if what in DENSITY})
    if mix and "sweep" in parts:
        indexlib.sweep(table, mix, PACKETS)
    if mix and {"needle", "oracle"} & set(parts):
        with tempfile.TemporaryDirectory(prefix="packrack-index-", dir=os.environ.get("BENCH_DIR")) as work:
            needle(table, mix, work, parts)
    table.write()


main()
