#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures 8 to 10 of CLog again: loss against the number of segments, and against rate, for one to
five nodes and for tcpdump; and how unique a fingerprint is among ten neighbours."""

import os
import re
import signal
import subprocess
import sys
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b
import grow
import racklib

MIX = os.path.join(b.DATA, "mix-gateway-full-a.pcap")
SECONDS = float(os.environ.get("BENCH_SECONDS", "3"))
RATES = [85, 375, 470, 700, 1000]  # Mb/s; the first three are the paper's


def packets_per_second(mbps, mean):
    return int(mbps * 1e6 / 8 / mean)


def tcpdump_loss(rate):
    """tcpdump on the i-port, to a file on the same disk."""
    with racklib.Rack(1, "--bare") as rack:
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
        got = int(re.search(r"(\d+) packets captured", err).group(1))
        return 100.0 * (sent["accepted"] - got) / sent["accepted"]


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


def main():
    if not os.path.exists(MIX):
        sys.exit(f"bench: no {MIX}: set PACKRACK_DATA")
    table = b.Table("clog")
    _, recs = grow.records(MIX)
    mean = sum(max(60, min(l, 1514)) for _, l, d in recs) / len(recs)
    for mbps in RATES:
        rate = packets_per_second(mbps, mean)
        peer = tcpdump_loss(rate)
        for nodes in range(1, 6):
            r = racklib.record(nodes, rate, SECONDS, MIX)
            table.row(f"figures 9, 10: {mbps} Mb/s offered ({r['rate'] * mean * 8 / 1e6:.0f} reached), "
                      f"{nodes} nodes: loss", "%", 100.0 * r["lost"] / r["sent"], peer, "tcpdump",
                      less_is_better=True)
    rate = packets_per_second(375, mean)
    for seconds in (1, 4, 16):
        r = racklib.record(1, rate, seconds, MIX)
        segments = r["answer"].get("scanned_segments", 0)
        table.row(f"figure 8: one node, {segments} segments: loss", "%", 100.0 * r["lost"] / r["sent"])
    ours, clog = unique_among_ten()
    table.row("fingerprint unique among ten neighbours", "%", ours, clog, "CLog's two bytes, here")
    table.row("the paper's own figure for its two bytes", "%", 99.92)
    table.write()


main()
