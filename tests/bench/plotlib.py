# SPDX-License-Identifier: Apache-2.0
"""Plots of the benchmarks."""

import os
import shutil
import subprocess

import benchlib as b


def plot(name, script, data):
    """A PNG in build/bench; data: block name -> rows. False: no gnuplot here."""
    if not shutil.which("gnuplot"):
        return False
    out = os.path.join(b.TOP, "build", "bench")
    os.makedirs(out, exist_ok=True)
    blocks = "".join(f"${k} << EOD\n" + "".join(" ".join(str(v) for v in r) + "\n" for r in rows) + "EOD\n"
                     for k, rows in data.items())
    head = (f"set terminal pngcairo size 900,560\nset output '{out}/{name}.png'\nset grid\n"
            "set key outside below\n")
    subprocess.run(["gnuplot"], input=blocks + head + script, text=True, check=True)
    return True
