#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replaying: packrack replay against tcpreplay, the same packets
over a veth pair: how exactly the recorded pace is kept, as the far side's kernel stamps it, on an idle machine and on a busy one,
and the highest rate.
Each run counts only if what arrived is what was sent, packet for packet."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import benchlib as b
import traces

PACKETS = int(os.environ.get("BENCH_PACKETS", "5000"))
SNAP = 64


def trace(path):
    """Packets of 500 bytes, 100 us apart in the mean, as the tests have them"""
    b.run(os.path.join(b.TOP, "tests/system/numbered.py"), "make", path, str(PACKETS))
    return list(traces.Trace(path))


def wire(tap, sink):
    b.veth(tap, "out0", sink, "in0")
    for where, name in ((tap, "out0"), (sink, "in0")):
        b.run(*b.within(where, "sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1"))


def listened(sink, path, send, sent):
    """Stamps of what arrives at the far side while send() runs"""
    if os.path.exists(path):
        os.remove(path)  # that it is there says that tcpdump listens: one of an earlier run would say so too soon
    listener = b.start(*b.within(sink, "tcpdump", "-i", "in0", "-Q", "in", "-B", "65536", "-s", SNAP, "-U", "-Z", "root",
                                 "--time-stamp-precision=nano", "-w", path, "udp"), stderr=subprocess.PIPE)
    b.until(lambda: os.path.exists(path) and os.path.getsize(path) >= 24, 10, "tcpdump")
    send()
    whole = 24 + sum(16 + min(SNAP, len(p.data)) for p in sent)
    try:
        b.until(lambda: os.path.getsize(path) >= whole, 20, f"{whole} bytes in {path}: all packets at the far side")
    finally:
        b.stop(listener)
    arrived = list(traces.Trace(path))
    if [p.data for p in arrived] != [p.data[:SNAP] for p in sent]:
        sys.exit(f"bench: {len(arrived)} packets arrived, and not those that were sent: {listener.stderr.read()}")
    return [p.time for p in arrived]


def lateness(sent, arrived):
    """(median, 99 %) in us: behind the schedule that the earliest of them sets"""
    errors = [a - p.time for p, a in zip(sent, arrived)]
    first = min(errors)
    late = sorted(e - first for e in errors)
    return late[len(late) // 2] / 1e3, late[len(late) * 99 // 100] / 1e3


def busy():
    return [b.start("sh", "-c", "while :; do :; done") for _ in range(2 * os.cpu_count())]


def pacing(table, what, sink, work, sent, tools):
    got = [lateness(sent, listened(sink, f"{work}/{name}.pcap", send, sent)) for name, send in tools]
    for i, part in enumerate(("median", "99 %")):
        table.row(f"{what}: late by, {part}", "us", got[0][i], got[1][i], "tcpreplay", less_is_better=True)


def main():
    table = b.Table("replay")
    work = tempfile.mkdtemp(prefix="packrack-replay-", dir=os.path.join(b.TOP, "build"))
    loads = []
    try:
        tap, sink = b.space("tap"), b.space("sink")
        wire(tap, sink)
        sent = trace(f"{work}/t.pcap")
        b.run(f"{b.BUILD}/packrack", "import", f"{work}/t.pcap", "--volume", f"{work}/v", "--create", "256M")
        ours = b.within(tap, f"{b.BUILD}/packrack", "replay", "--volume", f"{work}/v", "--out", "out0", "--json")
        theirs = b.within(tap, "tcpreplay", "-q", "-i", "out0")
        # gtod looks at the clock all the time: the most exact of its timers here. Real-time priority, which ours
        # asks for itself, makes it better by far (beside busy loops it took 20 to 30 s for the half second).
        recorded = ["chrt", "-f", "1"] + theirs + ["--timer=gtod", f"{work}/t.pcap"]
        tools = [("packrack", lambda: b.run(*ours)), ("tcpreplay", lambda: b.run(*recorded))]
        pacing(table, "recorded pace", sink, work, sent, tools)
        loads = busy()
        pacing(table, f"the same, {len(loads)} busy loops beside", sink, work, sent, tools)
        while loads:
            b.stop(loads.pop())
        said = json.loads(b.run(*ours, "--pace", "max").stdout)
        rate = said["sent_packets"] * 1e9 / said["duration_ns"]
        text = b.run(*theirs, "--topspeed", "--preload-pcap", f"{work}/t.pcap").stdout
        peer = float(re.search(r"([\d.]+) pps", text).group(1))
        table.row("highest rate", "packets/s", rate, peer, "tcpreplay")
        table.write()
    finally:
        while loads:
            b.stop(loads.pop())
        b.clean()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
