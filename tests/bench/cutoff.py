#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a packet costs in the dispatcher's cutoff: instructions by callgrind, CPU time with a million live connections (the table is
far larger than a cache), and the share of bytes that is kept; beside them, making the frame for a node and its entry in a timestamp
log, which each packet that is kept needs."""

import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b

COUNTED = int(os.environ.get("BENCH_COUNTED", "100000"))
TIMED = int(os.environ.get("BENCH_PACKETS", "4000000"))
PROGRAM = f"{b.BUILD}/tests/bench/bench_cutoff"
ROUNDS = 3


def instructions(case, work):
    """a packet, without setting up"""
    b.run("valgrind", "--tool=callgrind", "--toggle-collect=collected",
          f"--callgrind-out-file={work}/{case}", PROGRAM, case, COUNTED)
    with open(f"{work}/{case}") as f:
        return int(re.search(r"^(?:summary|totals): (\d+)", f.read(), re.M).group(1)) / COUNTED


def main():
    table = b.Table("cutoff")
    cases = b.run(PROGRAM, "list").stdout.split()
    with tempfile.TemporaryDirectory(prefix="packrack-cutoff-") as work:
        for case in cases:
            # a row with null, where valgrind is not installed
            counted = instructions(case, work) if shutil.which("valgrind") else None
            table.row(case, "instructions/packet", counted)
    # alternating rounds: what else the machine does meets all cases
    runs = [{c: b.run(PROGRAM, c, TIMED).stdout.split() for c in cases} for _ in range(ROUNDS)]
    for case in cases:
        table.row(case, "ns/packet", sorted(float(r[case][2]) for r in runs)[ROUNDS // 2])
        table.row(case, "% of bytes kept", float(runs[0][case][3]))
    table.write()


main()
