#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole rack, 4 loggers that store and index: no loss at 150,000 packets/s of a real mix, the
highest rate without loss, CPU per packet of each program, and memory."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b
import racklib

SECONDS = float(os.environ.get("BENCH_SECONDS", "10"))
MIX = os.path.join(b.DATA, "mix-gateway-full-a.pcap")


def main():
    if not os.path.exists(MIX):
        sys.exit(f"bench: no {MIX}: set PACKRACK_DATA")
    table = b.Table("rack")
    one = racklib.record(4, 150000, SECONDS, MIX)
    table.row("offered, 4 loggers, real mix", "packets/s", one["rate"])
    table.row("mean size of the mix", "bytes", one["mean"])
    table.row("lost at that rate", "packets", one["lost"])
    for name, ns in sorted(one["cpu"].items()):
        table.row(f"CPU, {name}", "ns/packet", ns)
    table.row("CPU, whole machine (sender and switch included)", "ns/packet", one["whole"])
    for name, (peak, _, anon) in sorted(one["memory"].items()):
        table.row(f"memory, {name}: peak", "MiB", peak / 2**20)
        table.row(f"memory, {name}: of its own", "MiB", anon / 2**20)

    best = {"rate": one["rate"] if one["lost"] <= 0 else 0}

    def lossless(rate):
        r = racklib.record(4, rate, 4, MIX)
        if r["lost"] <= 0:
            best["rate"] = max(best["rate"], r["rate"])
        return r["lost"] <= 0
    b.bisect(lossless, 150000, 600000, 5)
    table.row("highest rate without loss, found by bisection", "packets/s", best["rate"])
    table.write()


main()
