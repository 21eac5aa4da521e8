#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Merging: packrack export of four volumes against mergecap on four files of the same packets."""

import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b
import grow

PACKETS = int(os.environ.get("BENCH_PACKETS", "2000000"))
MIX = os.path.join(b.DATA, "mix-gateway-full-a.pcap")


def timed(words):
    begin = time.monotonic()
    b.run(*words)
    return time.monotonic() - begin


def median(values):
    return sorted(values)[len(values) // 2]


def main():
    table = b.Table("merge")
    work = tempfile.mkdtemp(prefix="packrack-merge-", dir=os.path.join(b.TOP, "build"))
    try:
        parts = grow.split(MIX, PACKETS, 4, work)
        volumes = []
        for i, part in enumerate(parts):
            volume = f"{work}/v{i}"
            b.run(f"{b.BUILD}/packrack", "volume", "create", volume, "--size", "2G")
            b.run(f"{b.BUILD}/packrack", "import", part, "--volume", volume)
            volumes += ["--volume", volume]
        ours = [f"{b.BUILD}/packrack", "export", *volumes, "-w", f"{work}/out.pcapng"]
        his = ["mergecap", "-w", f"{work}/peer.pcapng", *parts] if shutil.which("mergecap") else None
        mine, peer = [], []
        for _ in range(5):
            mine.append(timed(ours))
            if his:
                peer.append(timed(his))
        table.row("4 inputs merged to a file", "packets/s", PACKETS / median(mine),
                  PACKETS / median(peer) if peer else None, "mergecap")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    table.write()


main()
