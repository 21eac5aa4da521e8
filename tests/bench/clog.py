#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures 8 to 10 of CLog again: loss against the number of segments, and against rate, for one to
five nodes and for tcpdump; and how unique a fingerprint is among ten neighbours. BENCH_PATH: of the dispatcher, packet or xdp."""

import os
import re
import shutil
import signal
import subprocess
import sys
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b
import grow
import racklib

MIX = os.path.join(b.DATA, "mix-gateway-full-a.pcap")
SECONDS = float(os.environ.get("BENCH_SECONDS", "2"))
PATH = "--path", os.environ.get("BENCH_PATH", "packet")
# a veth has 256 places for XDP, which a sender that moves to another CPU than that of the receive work fills
PINNED = ("taskset", "-c", str(max(os.sched_getaffinity(0)))) if PATH[1] == "xdp" else ()
RATES = [85, 375, 470, 700, 1000]  # Mb/s; the first three are the paper's


def packets_per_second(mbps, mean):
    return int(mbps * 1e6 / 8 / mean)


class Series:
    """One rack that takes load after load; what is counted is what came back of each."""

    def __init__(self, rack):
        self.rack, self.stored, self.segments = rack, 0, 0

    def offer(self, rate, seconds):
        """(what was sent, loss in %, segments it made)"""
        sent = self.rack.flood(rate, int(rate * seconds), MIX, *PINNED)
        self.rack.rack("drain", "--timeout", 60, "--keep-running")
        got = self.rack.answer()
        stored, segments = got["matched"] - self.rack.others(), got["scanned_segments"]
        new, made = stored - self.stored, segments - self.segments
        self.stored, self.segments = stored, segments
        return sent, 100.0 * (sent["accepted"] - new) / sent["accepted"], made


def tcpdump_loss(rack, rate):
    """tcpdump on the capture interface, to a file on the same disk."""
    out = os.path.join(rack.dir, "t.pcap")
    p = b.start(racklib.RACK, "exec", "-d", rack.dir, "disp", "tcpdump", "-n", "-i", "tap0", "-w",
                out, "-Z", "root", stderr=subprocess.PIPE, env=rack.env)
    while "listening on" not in p.stderr.readline():
        if p.poll() is not None:
            sys.exit("bench: tcpdump did not start")
    sent = rack.flood(rate, int(rate * SECONDS), MIX)
    b.time.sleep(1.2)  # the last block of the kernel's ring
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=20)
    os.unlink(out)
    got = int(re.search(r"(\d+) packets captured", err).group(1))
    # the lab's own hosts may have said a word or two besides
    return max(0.0, 100.0 * (sent["accepted"] - got) / sent["accepted"])


def unique_among_ten():
    """Share of packets whose fingerprint no one of the ten neighbours has; and CLog's two bytes."""
    _, recs = grow.records(MIX)
    ours = [zlib.crc32(d[12:]) for _, _, d in recs]  # any good 32-bit hash of the same bytes
    clog = [d[25:26] + d[51:52] for _, _, d in recs]

    def share(keys):
        alone = 0
        for i, k in enumerate(keys):
            near = keys[max(0, i - 5):i] + keys[i + 1:i + 6]
            alone += k not in near
        return 100.0 * alone / len(keys)
    return share(ours), share(clog)


def against_rate(table, mean):
    rates = {mbps: packets_per_second(mbps, mean) for mbps in RATES}
    peer = dict.fromkeys(RATES)
    if shutil.which("tcpdump"):
        with racklib.Rack(1, "--bare") as rack:
            peer = {mbps: tcpdump_loss(rack, rate) for mbps, rate in rates.items()}
    for nodes in range(1, 6):
        with racklib.Rack(nodes, size="2G", dispatcher=PATH) as rack:
            series = Series(rack)
            for mbps, rate in rates.items():
                sent, loss, _ = series.offer(rate, SECONDS)
                table.row(f"figures 9, 10: {mbps} Mb/s offered ({sent['rate'] * mean * 8 / 1e6:.0f} "
                          f"reached), {nodes} nodes: loss", "%", loss, peer[mbps], "tcpdump",
                          less_is_better=True)


def against_segments(table, mean):
    """The paper's clients lost packets whenever a log file was begun; the like of it are segments."""
    rate = packets_per_second(375, mean)
    with racklib.Rack(1, size="2G", dispatcher=PATH) as rack:
        series = Series(rack)
        for seconds in (1, 2, 4, 8):
            _, loss, made = series.offer(rate, seconds)
            table.row(f"figure 8: one node, 375 Mb/s, {made} segments begun: loss", "%", loss)


def main():
    if not os.path.exists(MIX):
        sys.exit(f"bench: no {MIX}: set PACKRACK_DATA")
    table = b.Table("clog")
    _, recs = grow.records(MIX)
    mean = sum(max(60, min(l, 1514)) for _, l, d in recs) / len(recs)
    against_rate(table, mean)
    against_segments(table, mean)
    ours, clog = unique_among_ten()
    table.row("fingerprint unique among ten neighbours", "%", ours, clog, "CLog's two bytes, here")
    table.row("the paper's own figure for its two bytes", "%", 99.92)
    table.write()


main()
