#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hyperion's own size (section 7.4): 3.8e8 packet headers of 68 bytes, 26 GB, and a query for one of them: its
time, the bytes and the reads. They are grown from a real capture and imported by a pipe. A long run: 40 GB of
room in BENCH_DIR, some minutes; not part of `make bench`.
BENCH_PACKETS: how many (380 million)."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b

PACKETS = int(os.environ.get("BENCH_PACKETS", "380000000"))
SNAP = 68
PACKRACK = f"{b.BUILD}/packrack"
NEEDLE, ABSENT = "host 203.0.113.77", "host 203.0.113.78"
# figures 14 and 15: 10-15 MB and 1,000-2,000 seeks; the goal is the better end
PAPER_BYTES, PAPER_READS, GOAL_SECONDS = 10e6, 1000, 10


def load(work, mix):
    """Returns seconds; the volume is work/volume."""
    size = PACKETS * 96 + (1 << 30)
    room = shutil.disk_usage(work).free
    if room < size * 1.05:
        sys.exit(f"bench: {work} has {room >> 30} GB free, {size * 1.05 / (1 << 30):.0f} GB are needed: set BENCH_DIR")
    begin = time.monotonic()
    grow = b.start(f"{b.BUILD}/tests/bench/bench_grow", "trace", mix, "-", PACKETS, SNAP, stdout=subprocess.PIPE)
    b.run(PACKRACK, "import", "-", "--volume", f"{work}/volume", "--create", size, stdin=grow.stdout)
    if grow.wait():
        sys.exit("bench: the trace broke off")
    return time.monotonic() - begin


def query(volume, text, matches):
    """(seconds, report, bytes and calls of all that it read): its process is looked at before it is reaped."""
    begin = time.monotonic()
    p = b.start(PACKRACK, "query", "--volume", volume, "--json", "--count", text, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL)
    report = json.loads(p.stdout.read())
    os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
    seconds = time.monotonic() - begin
    with open(f"/proc/{p.pid}/io") as f:
        io = dict(line.split(": ") for line in f.read().splitlines())
    p.wait()
    if report["matched"] != matches:
        sys.exit(f"bench: {report['matched']} packets match '{text}', not {matches}")
    return seconds, report, int(io["rchar"]), int(io["syscr"])


def streams(volume):
    found = json.loads(b.run(PACKRACK, "volume", "streams", volume, "--json").stdout)
    return {s["name"]: s["bytes"] for s in found["streams"]}


def main():
    table = b.Table("index-26gb")
    mix = f"{b.DATA}/mix-gateway-hdr96-a.pcap"
    if not os.path.exists(mix):
        sys.exit("bench: no captures: set PACKRACK_DATA")
    with tempfile.TemporaryDirectory(prefix="packrack-26gb-", dir=os.environ.get("BENCH_DIR")) as work:
        seconds, volume = load(work, mix), f"{work}/volume"
        got = streams(volume)
        packets = sum(n for name, n in got.items() if name.startswith("packets"))
        index = sum(n for name, n in got.items() if name.startswith("index"))
        table.row("packets grown, imported and indexed", "a second", PACKETS / seconds, 256000,
                  "Hyperion indexing, its own figure")
        table.row("packets with their records' heads", "GB", packets / 1e9)
        table.row("index of stored bytes", "%", 100 * index / packets)
        table.row("catalog of segments", "MB", got["segments"] / 1e6)
        for state in ("cold", "warm"):
            if state == "cold":
                b.cold()
            seconds, report, read, calls = query(volume, NEEDLE, 1)
            table.row(f"one of {PACKETS} packets, {state}", "s", seconds, GOAL_SECONDS, "goal", less_is_better=True)
        for what, report in (("one packet", report), ("none", query(volume, ABSENT, 0)[1])):
            table.row(f"index and segments read for {what}", "bytes", report["index_bytes"] + report["scanned_bytes"],
                      PAPER_BYTES, "Hyperion's own figure", less_is_better=True)
            table.row(f"reads of index and segments for {what}", "reads",
                      report["index_reads"] + report["scanned_segments"], PAPER_READS, "Hyperion's own figure",
                      less_is_better=True)
        table.row("all that the process read, opening the volume and its catalog included", "bytes", read,
                  PAPER_BYTES, "Hyperion's own figure", less_is_better=True)
        table.row("all its reads", "reads", calls, PAPER_READS, "Hyperion's own figure", less_is_better=True)
    table.write()


main()
