#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures 5, 7 and 8 of TelegraphCQ + FastBit, as far as a trace goes: records/s of each analysis by its window, end to
end (live, history, report), and the time of a history by its length.

make bench-watch
Records: flows of the window, as `packrack flows` gives them. Wall times; ratios within one run hold.
"""
import json
import os
import statistics
import subprocess
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get("PACKRACK_BUILD", "build"))
DATA = os.path.join(TOP, os.environ.get("PACKRACK_DATA", "../shared/data"))
PACKRACK = BUILD + "/packrack"
TRACE = DATA + "/mix-gateway-hdr96-a.pcap"
BEGIN, SECONDS = 1709715600, 300  # of the trace
WINDOWS = [1, 3, 10, 30, 50]
ANALYSES = ["elephants", "mice", "portscans", "anomaly", "dispersion"]
MOST_WINDOWS = 30  # a row takes no longer than that


def run(*words, **more):
    return subprocess.run([PACKRACK, *words], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **more).stdout


def main():
    with tempfile.TemporaryDirectory() as folder:
        volume = folder + "/v"
        run("import", TRACE, "--volume", volume, "--create", "256M")
        for name in ANALYSES:
            with open("%s/watch.d/%s.watch" % (BUILD, name), encoding="utf-8") as f:
                lines = ["back = 60s" if line.startswith("back =") else "length = 60s" if line.startswith("length =") else
                         "every = 1s" if line.startswith("every =") else line for line in f.read().split("\n")]
            with open("%s/%s.watch" % (folder, name), "w", encoding="utf-8") as f:
                f.write("\n".join(lines))
        print("records/s, end to end, history of 60 s\n%-12s %s" % ("window", " ".join("%8d s" % w for w in WINDOWS)))
        for name in ANALYSES:
            row = []
            for window in WINDOWS:
                count = min(MOST_WINDOWS, 150 // window)
                since = -(-(BEGIN + 100) // window) * window  # where windows begin
                until = since + count * window
                begun = time.monotonic()
                reports = [json.loads(line) for line in run("watch", "test", "%s/%s.watch" % (folder, name), "--volume", volume, "--set",
                                                            "window=%ds" % window, "--since", "@%d" % since, "--until", "@%d" % until,
                                                            "--format", "json").splitlines()]
                took = time.monotonic() - begun
                assert len(reports) == count and all(r["complete"] for r in reports), name
                records = sum(int(json.loads(run("sql", "--volume", volume, "--format", "json", "--active", "1d", "--since", "@%d" % b, "--until",
                                                 "@%d.999999999" % (b + window - 1), "select count(*) n from flows"))["n"])
                              for b in range(since, until, window))
                row.append(records / took)
            print("%-12s %s" % (name, " ".join("%10.0f" % r for r in row)), flush=True)
        print("\nms of a question about the past, by its length (median of 5), and its packets")
        for length in (10, 30, 60, 120, 180, 240):
            times = []
            for _ in range(5):
                begun = time.monotonic()
                rows = run("sql", "--volume", volume, "--format", "json", "--since", "@%d" % (BEGIN + 290 - length), "--until", "@%d" % (BEGIN + 290),
                           "select src_ip, sum(bytes_sent) s from flows group by 1 order by 2 desc limit 100")
                times.append(time.monotonic() - begun)
                assert rows
            packets = run("query", "--count", "--volume", volume, "--since", "@%d" % (BEGIN + 290 - length), "--until", "@%d" % (BEGIN + 290)).strip()
            print("%4d s %8.1f ms %9s packets" % (length, 1000 * statistics.median(times), packets), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("PACKRACK_WATCHES", "/nonexistent")
    main()
