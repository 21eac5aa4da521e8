#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pure cores: instructions a packet, counted by callgrind, since machines of the cloud have no
cycle counters; and CPU time a packet, the median of five runs. Nothing of their kind is a peer."""

import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b

COUNTED = int(os.environ.get("BENCH_COUNTED", "50000"))
TIMED = int(os.environ.get("BENCH_PACKETS", "2000000"))
PROGRAM = f"{b.BUILD}/tests/bench/bench_cores"


def instructions(core, work):
    """instructions a packet, without setting up"""
    b.run("valgrind", "--tool=callgrind", "--toggle-collect=collected",
          f"--callgrind-out-file={work}/{core}", PROGRAM, core, COUNTED)
    with open(f"{work}/{core}") as f:
        return int(re.search(r"^(?:summary|totals): (\d+)", f.read(), re.M).group(1)) / COUNTED


def nanoseconds(core):
    runs = [float(b.run(PROGRAM, core, TIMED).stdout.split()[2]) for _ in range(5)]
    return sorted(runs)[2]


def main():
    table = b.Table("cores")
    cores = b.run(PROGRAM, "list").stdout.split()
    with tempfile.TemporaryDirectory(prefix="packrack-cores-") as work:
        for core in cores:
            # a row with null, where valgrind is not installed
            counted = instructions(core, work) if shutil.which("valgrind") else None
            table.row(core, "instructions/packet", counted)
    for core in cores:
        table.row(core, "ns/packet", nanoseconds(core))
    table.write()


main()
