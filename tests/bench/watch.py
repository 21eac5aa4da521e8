#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures 5, 7 and 8 of TelegraphCQ + FastBit (2006): records/s of each analysis by its window, end to end (live, history,
report), and the time of a history by its length. make bench-watch

month: the five over 28 days of kept flows (BENCH_RECORDS, 20 million), and then 1,000,000 a second: CPU of each of 8 windows, by the
difference of 10 and 2 of them, and of the first question about the past. live: all five at once in `packrack watch run`, which
makes up the windows of that time, with reports on disk. BENCH_VOLUME: such a volume that is there already, BENCH_SECONDS (26):
of it at the high rate. figures (only if chosen; half an hour): those of the paper with BENCH_RECORDS (100 million) of 28 days, and behind
them an hour at the paper's rate: windows alone (5), appending by the size of a batch (6; not with BENCH_VOLUME), each history over 1 to 28
days with parameters by chance (7), end to end with histories of 28 days (8; anomaly's, which each window reads whole, of an hour).
Records are kept flows at the paper's rate: 38 a second on the average, in bursts of up to 100 times that, and then 100,000
and 1,000,000 a second. Wall times, and CPU of all processes: ratios within one run hold. BENCH_PARTS chooses:
windows,each,rates,history,month,live,figures. BENCH_HOURS: of the trace, 0.9 or more.
"""
import json
import os
import random
import re
import resource
import statistics
import struct
import subprocess
import tempfile
import time

import kept

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get("PACKRACK_BUILD", "build"))
PACKRACK = BUILD + "/packrack"
PARTS = os.environ.get("BENCH_PARTS", "windows,each,rates,history,month,live").split(",")
BEGIN, SECONDS, RATE = 1700000000, int(3600 * float(os.environ.get("BENCH_HOURS", "2"))), 38
MONTH_END, MONTH_SECONDS = 1719792000, int(os.environ.get("BENCH_SECONDS", 26))  # of kept_make; at the high rate behind it
WINDOWS = [1, 10, 100, 1000]
ANALYSES = ["elephants", "mice", "portscans", "anomaly", "dispersion"]
PAPER = "9,000 to 20,000 records/s at 1 s windows (figure 8); dispersion alone 6,000 to 25,000 (figure 5); two Pentium 4"


def run(*words, **more):
    return subprocess.run([PACKRACK, *words], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **more).stdout


def packet(when, number):
    """UDP of one of 2,000 inner hosts, whose shares are heavy-tailed, with one of 50,000 outer ones."""
    inner, outer = min(1999, int(random.paretovariate(0.7))), random.randrange(50000)
    a, b = struct.pack(">BBH", 10, 1, inner), struct.pack(">BBH", 198, 18, outer)
    a, b = (a, b) if random.random() < 0.5 else (b, a)
    length = min(1400, 40 + int(random.paretovariate(1.1) * 20))
    data = b"\2" * 12 + b"\x08\0" + struct.pack(">BBHHHBBH", 0x45, 0, length, number & 0xFFFF, 0, 64, 17, 0) + a + b + struct.pack(
        ">HHHH", 1024 + number % 60000, random.choice([53, 443, 123, 80, 5060, random.randrange(1, 65536)]), length - 20, 0)
    return struct.pack("<IIII", when // 10**9, when % 10**9, len(data), length + 14) + data


def keep(folder, name, rates, begin=BEGIN, volume=None):
    """A volume of the flows of so many seconds, or one that is there, in which they are kept, too."""
    random.seed(7)
    trace, number = "%s/%s.pcap" % (folder, name), 0
    with open(trace, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for second, rate in enumerate(rates):
            for k in range(rate):
                f.write(packet((begin + second) * 10**9 + k * 10**9 // rate, number))
                number += 1
    if not volume:
        volume = "%s/%s" % (folder, name)
        run("volume", "create", volume, "--size", "%dM" % (64 + number * 400 // 1000000))
    run("flows", "-r", trace, "--keep", volume)
    os.unlink(trace)
    return volume, number


def watch_file(folder, name, volume, every, back):
    with open("%s/watch.d/%s.watch" % (BUILD, name), encoding="utf-8") as f:
        lines = ["back = %ds" % back if line.startswith("back =") else "length = %ds" % back if line.startswith("length =") else
                 "every = " + every if line.startswith("every =") and every else line for line in f.read().split("\n")]
    with open("%s/%s.watch" % (folder, name), "w", encoding="utf-8") as f:
        f.write("\n".join(lines).replace("[watch]", "[watch]\nkept = " + volume, 1))
    return f.name


def used():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def speed(path, window, since, until, by_second, first=BEGIN):
    """Records/s: of the wall, and of one core's time."""
    begun, cpu = time.monotonic(), used()
    reports = [json.loads(line) for line in run("watch", "test", path, "--set", "window=%ds" % window, "--since", "@%d" % since, "--until",
                                                "@%d" % until, "--format", "json").splitlines()]
    took, cpu = time.monotonic() - begun, used() - cpu
    assert len(reports) == (until - since) // window and all(r["complete"] for r in reports), path
    records = sum(by_second[since - first:until - first])
    return "%9.0f %9.0f" % (records / took, records / cpu)


def month_volume(folder):
    base, volume, records = folder + "/base", folder + "/month", int(os.environ.get("BENCH_RECORDS", 20000000))
    run("volume", "create", base, "--size", "64M")
    run("flows", "-r", os.path.join(TOP, os.environ.get("PACKRACK_DATA", "../shared/data"), "mix-gateway-hdr96-a.pcap"), "--keep", base)
    run("volume", "create", volume, "--size", "%dM" % (300 + (records + 1000000 * MONTH_SECONDS) * 80 // 1000000))
    subprocess.run([BUILD + "/tests/bench/kept_make", base, volume, str(records), "28"], check=True)
    keep(folder, "after", [1000000] * MONTH_SECONDS, MONTH_END, volume)
    return volume


def month_file(folder, name, volume, more=""):
    """With histories of 28 days."""
    path = watch_file(folder, name, volume, "", 0)
    with open(path, encoding="utf-8") as f:
        back = {"elephants": " ".join("%dh" % (24 * d) for d in range(1, 29)), "anomaly": "1h"}.get(name, "28d")
        text = f.read().replace("back = 0s", "back = " + back).replace("length = 0s", "length = 1h")
    if more:
        text = text.replace("window = 60s", more, 1)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def live(folder, volume):
    """All five at once in `packrack watch run`: so many windows have ended when it begins."""
    watches, state, made = folder + "/watches", folder + "/state", {}
    os.mkdir(watches)
    os.mkdir(state)
    for name in ANALYSES:
        month_file(watches, name, volume, "window = 1s\ndelay = %ds" % (time.time() - MONTH_END - MONTH_SECONDS + 1))
        with open("%s/%s.jsonl" % (state, name), "w", encoding="utf-8") as f:  # it goes on behind this report
            f.write(json.dumps({"watch": name, "begin": MONTH_END * 10**9, "end": (MONTH_END + 1) * 10**9, "complete": True, "rows": []}) + "\n")
    windows, last, cpu, begun = MONTH_SECONDS - 2, (MONTH_END + MONTH_SECONDS - 1) * 10**9, used(), time.time()
    with subprocess.Popen([PACKRACK, "watch", "run", "--watches", watches, "--state", state], stderr=subprocess.DEVNULL) as daemon:
        while not made or any(of[-1]["end"] < last for of in made.values()):
            time.sleep(0.5)
            assert daemon.poll() is None
            for name in ANALYSES:
                with open("%s/%s.jsonl" % (state, name), encoding="utf-8") as f:
                    made[name] = [json.loads(line) for line in f.read().split("\n")[:-1]]
        daemon.terminate()
    cpu = used() - cpu
    of_rate = [[r for r in of[1:] if r["end"] <= last] for of in made.values()]
    assert all(len(of) == windows and all(r["complete"] for r in of) for of in of_rate)
    took = max(of[-1]["end"] / 1e9 + of[-1]["late"] for of in of_rate) - begun
    print("\nall five at once, %d windows of 1,000,000 records made up, the first questions about the past and reports on disk with them:\n"
          "%.1f s of the wall: %.2f M records/s; %.2f us of CPU a record: %.2f M records/s of two cores that do nothing else" % (
              windows, took, windows / took, cpu / windows, 2 * windows / cpu))


def bursts(seconds):
    """Records of each second: 38 on the average, at most 100 times that."""
    random.seed(1)
    return [min(100 * RATE, int(random.paretovariate(1.3) * RATE * 0.26)) for _ in range(seconds)]


def figure_6(folder, records):
    """Appending, by the size of the batch. Returns the volume of the last one."""
    base, volume = folder + "/base", folder + "/month"
    run("volume", "create", base, "--size", "64M")
    run("flows", "-r", kept.TRACE, "--keep", base)
    print("figure 6: records/s appended, by the wall with opening and closing, and by second of CPU, by the size of the batch; the paper: at most 213,092")
    for size in [10**e for e in range(3, 9) if 10**e < records] + [records]:
        run("volume", "create", volume, "--force", "--size", "%dM" % (300 + size * 80 // 1000000))
        begun, cpu = time.monotonic(), used()
        subprocess.run([BUILD + "/tests/bench/kept_make", base, volume, str(size), "28"], check=True)
        print("%11d %9.0f %9.0f" % (size, size / (time.monotonic() - begun), size / (used() - cpu)), flush=True)
    return volume


def by_chance(text, sources):
    """A history with other parameters."""
    text = re.sub(r"src_ip in \([^)]*\)", "src_ip in (%s)" % ", ".join("'%s'" % a for a in random.sample(sources, 5)), text)
    text = re.sub(r"prefix\(src_ip, 16\)", "prefix(src_ip, %d)" % random.randrange(8, 25), text)
    return re.sub(r"limit (\d+)", lambda m: "limit %d" % random.randrange(int(m[1]) // 2, int(m[1])), text)


def figure_7(volume):
    print("\nfigure 7: ms by the wall of a history over the last days, with parameters by chance (median of 5), and the records of these days")
    session = kept.Session(volume)
    counts = {days: int(session.kept("select count(*) from flows", days)[0][0]) for days in range(1, 29, 3)}
    sources = session.kept("select distinct src_ip from flows where not outgoing", 1 / 24)[0]
    for name, row in (("days", counts), ("records", counts.values())):
        print("%-12s %s" % (name, " ".join("%8d" % n for n in row)))
    for name in ANALYSES:
        took = [statistics.median(session.kept(by_chance(kept.history(name, d), sources), d)[1] for _ in range(5)) for d in counts]
        print("%-12s %s" % (name, " ".join("%8.0f" % (1000 * t) for t in took)), flush=True)
    session.p.stdin.close()
    session.p.wait()


def figures_5_and_8(folder, volume, rates):
    print("\nfigure 5, windows alone, and figure 8, end to end with histories of 28 days (anomaly 1 h) once an hour: records/s of the wall, and by second of CPU, by the "
          "window; %d records in an hour, at most %d a second\nthe paper: %s" % (sum(rates), max(rates), PAPER))
    for name in ANALYSES:
        for figure in (5, 8):
            print("%-12s %d" % (name, figure), end="", flush=True)
            for window in WINDOWS:
                path = month_file(folder, name, volume)
                with open(path, encoding="utf-8") as f:
                    text = re.sub("(?m)^every = .*", "every = 1h", f.read())
                if figure == 5:  # a history of a second
                    text = re.sub(r"(?m)^back = .*", "back = %ds" % (window + 1), text).replace("length = 1h", "length = 1s")
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
                print("  " + speed(path, window, MONTH_END + 1000, MONTH_END + 3000, rates, MONTH_END), end="", flush=True)
            print()


def figures(folder):
    rates = bursts(3600)
    rates[1500] = rates[2500] = 100 * RATE  # bursts of 100 times the mean, for certain
    volume = os.environ.get("BENCH_VOLUME")
    if not volume:
        volume = figure_6(folder, int(os.environ.get("BENCH_RECORDS", 100000000)))
        keep(folder, "after", rates, MONTH_END, volume)
    figure_7(volume)
    figures_5_and_8(folder, volume, rates)


def month(folder, volume):
    """us of CPU a record in steady state, s of CPU of the start with the first history."""
    total = 0
    print("\n1,000,000 records a second after 28 days, windows of 1 s, history of 28 days (anomaly: 1 h); us of CPU a record, s of CPU of the start")
    for name in ANALYSES:
        path, spent = month_file(folder, name, volume), []
        for windows in (2, 10):
            cpu = used()
            reports = run("watch", "test", path, "--set", "window=1s", "--since", "@%d" % (MONTH_END + 1), "--until", "@%d" % (MONTH_END + 1 + windows), "--format", "json")
            assert reports.count('"complete": true') == windows, path
            spent.append(used() - cpu)
        each = (spent[1] - spent[0]) / 8
        total += each
        print("%-12s %6.2f %6.1f" % (name, each, spent[0] - 2 * each), flush=True)
    print("all five     %6.2f: %.2f M records/s on two cores" % (total, 2 / total))


def main():
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        if "figures" in PARTS:
            figures(folder)
        if {"month", "live"} & set(PARTS):
            volume = os.environ.get("BENCH_VOLUME") or month_volume(folder)
            for part in (month, live):
                if part.__name__ in PARTS:
                    part(folder, volume)
        if set(PARTS) <= {"month", "live", "figures"}:
            return
        rates = bursts(SECONDS)
        volume, number = keep(folder, "mean", rates)
        print("%d records in %d s: %.1f a second, at most %d\nthe paper: %s" % (number, SECONDS, number / SECONDS, max(rates), PAPER))
        since = -(-(BEGIN + SECONDS // 4) // 1000) * 1000
        if "windows" in PARTS:
            print("\nrecords/s end to end, and by second of CPU; history of 10 min (2,000 s), asked as the shipped files say\n%-12s %s" % (
                "window", " ".join("%17d s" % w for w in WINDOWS)))
            for name in ANALYSES:
                print("%-12s" % name, end="", flush=True)
                for w in WINDOWS:
                    print(" " + speed(watch_file(folder, name, volume, "", max(600, 2 * w)), w, since, since + max(600, 2 * w), rates), end="", flush=True)
                print()
        if "each" in PARTS:
            print("\nthe same with windows of 1 s, and a history of 1 min that is asked for each of them")
            for name in ANALYSES:
                path = watch_file(folder, name, volume, "1s", 60)
                print("%-12s %s" % (name, speed(path, 1, since, since + 60, rates)), flush=True)
        for rate in (100000, 1000000) if "rates" in PARTS else ():
            high = [rate] * 6
            of_rate, _ = keep(folder, "high", high)
            print("\n%d records a second, windows of 1 s, history of 2 s; all five: one after the other" % rate)
            cpu, begun = used(), time.monotonic()
            for name in ANALYSES:
                print("%-12s %s" % (name, speed(watch_file(folder, name, of_rate, "", 2), 1, BEGIN + 3, BEGIN + 5, high)), flush=True)
            print("%-12s %9.0f %9.0f" % ("all five", 2 * rate / (time.monotonic() - begun), 2 * rate / (used() - cpu)), flush=True)
            os.unlink(of_rate)
        if "history" in PARTS:
            print("\nms of a question about the past, by its length (median of 5), and its records")
            for length in (60, 300, 900, SECONDS // 4, SECONDS // 2, SECONDS - 10):
                times = []
                for _ in range(5):
                    begun = time.monotonic()
                    assert run("sql", "--kept", volume, "--since", "@%d" % BEGIN, "--until", "@%d" % (BEGIN + length),
                               "select src_ip, sum(bytes_sent) s from flows group by 1 order by 2 desc limit 100")
                    times.append(time.monotonic() - begun)
                print("%6d s %8.1f ms %9d records" % (length, 1000 * statistics.median(times), sum(rates[:length])), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("PACKRACK_WATCHES", "/nonexistent")
    main()
