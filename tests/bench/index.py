#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The index (Hyperion, section 7.4): what a packet costs, what it takes of the disk, how dense signatures
are, and what a query for one packet among many millions reads, against tcpdump on the same packets.
BENCH_PACKETS: how many (20 million; 2 GB of headers twice in BENCH_DIR)."""

import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b

PACKETS = int(os.environ.get("BENCH_PACKETS", "20000000"))
PROGRAM = f"{b.BUILD}/tests/bench/bench_index"
PACKRACK = f"{b.BUILD}/packrack"
NEEDLE = "host 203.0.113.77"
# Hyperion on a 2.4 GHz Xeon: 7 keys of 40 bytes, 60 bits
PAPER_NS, PAPER_BIT_NS, PAPER_BYTE_NS = 3910, 43.5, 9.4


def captures():
    named = {"gateway mix, full": "mix-gateway-full-a.pcap",
             "gateway mix, 96 bytes": "mix-gateway-hdr96-a.pcap",
             "browsing, 459 bytes": "a-general/Pcap-Analyzer__test.pcap",
             "campus DNS": "a-general/SONATA-DEV__campus_dns_1min.pcap"}
    return {what: f"{b.DATA}/{path}" for what, path in named.items() if os.path.exists(f"{b.DATA}/{path}")}


def figures(*words):
    parts = b.run(PROGRAM, *words).stdout.split()
    return {k: float(v) for k, v in zip(parts[::2], parts[1::2])}


def building(table, what, path, rounds):
    runs = [figures("build", path, rounds) for _ in range(3)]
    f = sorted(runs, key=lambda r: r["ns"])[1]
    table.row(f"index a packet: {what}", "ns CPU", f["ns"], PAPER_NS, "Hyperion's own figure", less_is_better=True)
    table.row(f"index of stored bytes: {what}", "%", 100 * (f["level1"] + f["level2"]) / f["bytes"])
    table.row(f"keys a segment: {what}", "keys", f["keys"] / f["segments"])


def costs(table):
    for name, ns in figures("hash").items():
        if name.startswith("hash"):
            n = int(name[4:])
            table.row(f"hashing a key of {n} bytes", "ns", ns, PAPER_BYTE_NS * n, "Hyperion's own figure",
                      less_is_better=True)
        elif name == "bit":
            table.row("setting a bit", "ns", ns, PAPER_BIT_NS, "Hyperion's own figure", less_is_better=True)
        else:
            table.row("finding that a key is known", "ns", ns)


def densities(table, path):
    for line in b.run(PROGRAM, "density", path).stdout.splitlines():
        count, real, uniform = line.split()
        table.row(f"density of 4 KiB after {count} addresses", "share of bits", float(real), float(uniform),
                  "uniformly random ones", less_is_better=True)


def timed(*words):
    begin = time.monotonic()
    out = b.run(*words)
    return time.monotonic() - begin, out


def cold():
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3\n")


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


def needle(table, path, work):
    trace, volume = f"{work}/grown.pcap", f"{work}/volume"
    b.run(f"{b.BUILD}/tests/bench/bench_grow", "trace", path, trace, PACKETS)
    size = os.path.getsize(trace) * 3 // 2 + (64 << 20)
    seconds, _ = timed(PACKRACK, "import", trace, "--volume", volume, "--create", size)
    table.row("packets imported and indexed", "packets/s", PACKETS / seconds)
    plain = figures("build", trace, 1)
    table.row("index of stored bytes: grown", "%", 100 * (plain["level1"] + plain["level2"]) / plain["bytes"])
    for state in ("cold", "warm"):
        ours, theirs = [], []
        for _ in range(3):
            if state == "cold":
                cold()
            seconds, answer = query(volume, NEEDLE)
            ours.append(seconds)
            if state == "cold":
                cold()
            seconds, out = timed("tcpdump", "-r", trace, "--count", NEEDLE)
            theirs.append(seconds)
        assert find(answer, "matched") == 1 and out.stdout.split()[0] == "1", answer
        table.row(f"one of {PACKETS} packets, {state}", "s", sorted(ours)[1], sorted(theirs)[1], "tcpdump -r",
                  less_is_better=True)
    table.row("index read for it, bit-sliced", "bytes", find(answer, "index_bytes"), plain["level1"],
              "plain: all of level 1", less_is_better=True)
    table.row("reads of the index, bit-sliced", "reads", find(answer, "index_reads"), plain["records1"],
              "plain: all of level 1", less_is_better=True)
    read = find(answer, "index_bytes") + find(answer, "scanned_bytes")
    table.row("all that was read for it", "bytes", read, plain["bytes"] / plain["segments"],
              "the one segment", less_is_better=True)


def main():
    table = b.Table("index")
    traces = captures()
    if not traces:
        print("no captures: set PACKRACK_DATA")
    for what, path in traces.items():
        building(table, what, path, 5)
    costs(table)
    if "gateway mix, 96 bytes" in traces:
        densities(table, traces["gateway mix, 96 bytes"])
        with tempfile.TemporaryDirectory(prefix="packrack-index-", dir=os.environ.get("BENCH_DIR")) as work:
            needle(table, traces["gateway mix, 96 bytes"], work)
    table.write()


main()
