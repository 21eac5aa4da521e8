#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole rack, 4 loggers that store and index: no loss at 150,000 packets/s of a real mix, the
highest rate without loss, CPU per packet of each program, and memory.

Then the highest rate without loss by each path of the dispatcher, and of another version if BENCH_PEER names a checkout of it
that is built, in BENCH_ROUNDS turns (3), with a sender that costs little (live.c) and frames of 64 bytes. By XDP the lab's
switch is a program, too; the packet path is slower with it. BENCH_PARTS=mix,paths"""

import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b
import racklib

SECONDS = float(os.environ.get("BENCH_SECONDS", "10"))
MIX = os.path.join(b.DATA, "mix-gateway-full-a.pcap")


PARTS = os.environ.get("BENCH_PARTS", "mix,paths").split(",")
LIVE, PASS = f"{b.BUILD}/tests/bench/live", f"{b.BUILD}/scripts/lab/pass.bpf.o"
LIVE_SECONDS = 4


def live(tree, path, rate):
    """Frames that did not come back, and how many a second came"""
    racklib.RACK, build = f"{tree}/scripts/rack", b.BUILD
    # a sender that moves to another CPU than that of the receive work would fill the 256 places that a veth has for XDP
    pinned = "taskset", "-c", str(max(os.sched_getaffinity(0)))
    b.BUILD = build if tree == b.TOP else f"{tree}/build"
    os.environ["PACKRACK_LAB_SWITCH"] = "1" if path == "xdp" else ""
    with racklib.Rack(4, size="2G", dispatcher=("--path", path) if path else ()) as rack:
        if path != "xdp":  # a veth takes frames of this sender only with a program
            rack.rack("exec", "dispatcher", "ip", "link", "set", "tap0", "xdpdrv", "obj", PASS, "sec", "xdp")
        hosts = rack.answer()["matched"]  # these speak when they come up; frames of this sender have any MACs
        sent = json.loads(rack.rack("exec", "tap", *pinned, LIVE, f"{LIVE}.bpf.o", "mirror0", 64, rate * LIVE_SECONDS, 1, rate).stdout)
        rack.rack("drain", "--timeout", 120, "--keep-running")
        back = rack.answer()["matched"] - hosts
    b.BUILD, back = build, min(back, sent["sent"])
    print(f"    {path or 'peer'}: {sent['sent'] / sent['seconds']:,.0f}/s offered, {back / sent['seconds']:,.0f}/s stored", flush=True)
    return sent["sent"] - back, back / sent["seconds"]


def paths(table):
    kinds = [("packet path", b.TOP, "packet"), ("XDP", b.TOP, "xdp")]
    if os.environ.get("BENCH_PEER"):
        kinds.insert(0, ("peer", os.environ["BENCH_PEER"], ""))
    best = {name: [] for name, _, _ in kinds}
    for _ in range(int(os.environ.get("BENCH_ROUNDS", "3"))):
        for name, tree, path in kinds:
            found = [0]

            def lossless(rate):
                lost, stored = live(tree, path, int(rate))
                if lost <= 0:
                    found.append(stored)
                return lost <= 0
            b.bisect(lossless, 150000, 1000000, 6)
            best[name].append(max(found))
    for name, rates in best.items():
        table.row(f"live frames of 64 bytes, {name}: highest rate without loss", "packets/s", statistics.median(rates))


def main():
    if not os.path.exists(MIX):
        sys.exit(f"bench: no {MIX}: set PACKRACK_DATA")
    table = b.Table("rack")
    if "mix" in PARTS:
        mix(table)
    if "paths" in PARTS:
        paths(table)
    table.write()


def mix(table):
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


main()
