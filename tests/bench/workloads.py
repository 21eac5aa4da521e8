#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The measurement of Bunga and Wolf again: what monitoring workloads cost a packet, and how many packets a second they take.

usage: workloads.py      BENCH_PARTS=table,figure1,wire,rates,grep (default: all)

table   instructions a packet by callgrind over one trace of 100,000 packets (a mix of real captures, again and again), and memory
        accesses to packets and to all else by lackey over 2,000 of them; the paper's kernels bare, and packrack's stages. What the
        loop around them takes is subtracted. x86-64, as the build has them (-O2); the paper's are RISC instructions of PacketBench.
figure1 how instructions and accesses are distributed over packets, and the plots in build/bench
wire    a rack of one node records packets of 64 bytes, and a stage takes each one beside it (--live): packets/s offered, stored, taken and
        skipped, and the machine's CPU as interrupts, system and user; plots in build/bench. BENCH_SECONDS: of each rate (default 5)
rates   packets of 64 bytes offered from memory: packets/s and CPU a packet, over 1 and 2 shards; tcpdump and nfpcapd beside them on
        the same packets from a file in memory; beyond the machine's cores a projection by CPU.
grep    `packrack grep` with a filter over a volume, beside tshark on the same packets; BENCH_PACKETS of them (default 2,000,000)
"""
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "system"))
os.environ.setdefault("PACKRACK", os.path.join(TOP, os.environ.get("PACKRACK_BUILD", "build"), "packrack"))
import random  # noqa: E402
import plotlib  # noqa: E402
import racklib  # noqa: E402
import traces  # noqa: E402

BUILD = os.path.join(TOP, os.environ.get("PACKRACK_BUILD", "build"))
DATA = os.path.join(TOP, os.environ.get("PACKRACK_DATA", "../shared/data"))
PROGRAM = os.path.join(BUILD, "tests/bench/bench_workloads")
CAPTURE = os.path.join(DATA, "mix-gateway-full-a.pcap")
PACKETS = 0x200000000000
PAPER = {"count": (13, 0, 6), "http": (24, 4, 5), "flows": (153, 23, 53), "anonymize": (909, 21, 91), "detect": (3174, 110, 1124)}


def make_rules(path, count):
    """Rules that seldom match, as those of a NIDS: of what is said when they do, the table would be about."""
    rng = random.Random(18)
    words = "cmd exe root admin passwd union select script shell login eval base64 powershell wget curl tmp etc bin".split()
    heads = ("tcp any any -> any 80", "tcp any any -> any any", "udp any any -> any 53", "tcp any any -> any [25,110,143]")
    with open(path, "w", encoding="utf-8") as f:
        for sid in range(1, count + 1):
            text = "".join(rng.choice(words + ["%02x" % rng.randrange(256)]) for _ in range(rng.randrange(2, 5)))
            f.write('alert %s (msg:"rule"; content:"%s"; %ssid:%d;)\n' % (rng.choice(heads), text, rng.choice(("", "nocase; ")), sid))


def run(*words):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, timeout=1200)


def callgrind(packets, workload, options):
    """Instructions and data accesses a packet, of all packets."""
    with tempfile.NamedTemporaryFile() as out:
        run("valgrind", "--tool=callgrind", "--cache-sim=yes", "--callgrind-out-file=" + out.name, "--toggle-collect=one_packet",
            PROGRAM, CAPTURE, packets, 0, workload, 0, *options)
        with open(out.name, encoding="utf-8") as f:
            got = totals(f)[-1]
    return got[0] / packets, got[1] / packets


def totals(lines):
    """(instructions, data accesses) of each dump of callgrind."""
    got, names = [], []
    for line in lines:
        if line.startswith("events:"):
            names = line.split()[1:]
        elif line.startswith("totals:"):
            n = dict(zip(names, map(int, line.split()[1:])))
            got.append((n.get("Ir", 0), n.get("Dr", 0) + n.get("Dw", 0)))
    return got


def of_packets(packets, workload, options):
    """Accesses to packets' bytes, those of the program's start included. The trace has thousands of millions of lines: grep chooses."""
    traced = subprocess.Popen(["valgrind", "--tool=lackey", "--trace-mem=yes", PROGRAM, CAPTURE, str(packets), "0", workload, "0", *options],
                              stderr=subprocess.PIPE)
    chosen = subprocess.run(["grep", "-acE", "^ [LSM] 2000[0-9a-f]{8},"], stdin=traced.stderr, stdout=subprocess.PIPE, check=False)
    traced.stderr.close()
    traced.wait()
    return int(chosen.stdout)


def workloads(folder):
    key, rules = os.path.join(folder, "key"), os.path.join(folder, "rules")
    if not os.path.exists(rules):
        run(os.environ["PACKRACK"], "keys", "anonymize", key)
        make_rules(rules, 1000)
    return [("kernel-count", ()), ("kernel-http", ()), ("kernel-flows", ()), ("kernel-anonymize", ()),
            ("count", ()), ("http", ()), ("flows", ()), ("anonymize", ("key=" + key,)), ("detect", ("rules=" + rules,)), ("rtt", ())]


def table(folder):
    base, few = callgrind(100000, "none", ()), 2000
    read = of_packets(few, "none", ())
    print("%-18s %14s %16s %15s   %s" % ("workload", "instructions", "packet accesses", "other accesses", "paper (RISC)"))
    for name, options in workloads(folder):
        got = callgrind(100000, name, options)
        mine = (of_packets(few, name, options) - read) / few
        kernel = name.replace("kernel-", "")
        print("%-18s %14.1f %16.1f %15.1f   %s" % (name, got[0] - base[0], mine, got[1] - base[1] - mine,
                                                 "%d / %d / %d" % PAPER[kernel] if kernel in PAPER else ""), flush=True)


def figure1(folder):
    """The share of packets that take at most so many instructions, and so many accesses: 3,000 packets, a dump of callgrind each."""
    plots = {}
    packets = 3000
    for name, options in [("none", ())] + workloads(folder):
        path = os.path.join(folder, "dumps")
        run("valgrind", "--tool=callgrind", "--cache-sim=yes", "--callgrind-out-file=" + path, "--combine-dumps=yes",
            "--toggle-collect=one_packet", "--dump-after=one_packet", PROGRAM, CAPTURE, packets, 0, name, 0, *options)
        with open(path, encoding="utf-8") as f:
            got = totals(f)[:packets]
        os.unlink(path)
        if name == "none":
            base = sorted(got)[len(got) // 2]
            continue
        for k, what in enumerate(("instructions", "accesses")):
            values = sorted(max(0, g[k] - base[k]) for g in got)
            at = [values[min(len(values) - 1, int(len(values) * q))] for q in (0.05, 0.25, 0.5, 0.75, 0.95, 1)]
            print("%-18s %-12s of a packet: 5 %%: %d, 25 %%: %d, median %d, 75 %%: %d, 95 %%: %d, most %d" % (name, what, *at), flush=True)
            plots.setdefault(what, {})[name.replace("-", "_")] = [(v + 1, (i + 1) / len(values)) for i, v in enumerate(values)]
    for what, lines in plots.items():
        plotlib.plot("workloads-" + what, "set logscale x\nset xlabel '%s of a packet, and 1'\nset ylabel 'share of packets'\nplot %s\n" % (
            what, ", ".join("$%s with steps title '%s'" % (n, n.replace("_", "-")) for n in lines)), lines)


def cpu(words):
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - began


def rates(folder):
    packets = 4000000
    for name in ("count", "flows"):
        for shards in (1, 2, 4):
            said = [run(PROGRAM, CAPTURE, packets, 64, name, shards).stdout.decode() for _ in range(3)]
            rows = sorted([float(x) for x in re.findall(r"[\d.]+", s)] for s in said)
            at = rows[1]
            print("%-6s %d shards: %9.0f packets/s of 64 bytes, none lost; %.0f ns of CPU each; %d cores of this kind, by CPU: %.1f M packets/s"
                  % (name, shards, at[2], at[3], shards, shards * 1e3 / at[3]))
    path = os.path.join(folder, "small.pcap")
    some = list(traces.Trace(CAPTURE))
    traces.write_pcap(path, ((10 ** 18 + i * 1000, some[i % len(some)].data[:64].ljust(64, b"\0"), 64) for i in range(1000000)))
    flows = os.path.join(folder, "nf")
    os.makedirs(flows, exist_ok=True)
    for name, words in (("packrack stage count -r", [os.environ["PACKRACK"], "stage", "count", "-q", "-r", path]),
                        ("tcpdump -w /dev/null -r", ["tcpdump", "-nr", path, "-w", "/dev/null"]),
                        ("packrack stage flows -r", [os.environ["PACKRACK"], "stage", "flows", "-q", "-r", path]),
                        ("nfpcapd -r", ["nfpcapd", "-r", path, "-w", flows])):
        best = sorted(cpu(words) for _ in range(3))[1]
        print("%-26s %6.0f ns of CPU a packet, %.2f s of the wall for 1,000,000" % (name, best[0] * 1e3, best[1]))


def machine():
    """Seconds of interrupts, system, user and idle of the whole machine, so far."""
    with open("/proc/stat", encoding="utf-8") as f:
        user, nice, system, idle, wait, irq, soft = [int(x) for x in f.readline().split()[1:8]]
    tick = os.sysconf("SC_CLK_TCK")
    return [n / tick for n in (irq + soft, system, user + nice, idle + wait)]


def wire_once(rack, folder, name, rate, seconds):
    """What a stage beside the node's logger took of so many packets a second."""
    report = os.path.join(folder, "live.json")
    with open(report, "w", encoding="utf-8") as out, open(os.path.join(folder, "live.err"), "w+", encoding="utf-8") as err:
        p = subprocess.Popen([os.environ["PACKRACK"], "stage", name, "--live", os.path.join(rack.dir, "log1.vol"), "--json"], stdout=out, stderr=err)
        racklib.b.until(lambda: "following" in open(err.name, encoding="utf-8").read(), 10, "the stage")
        stored, before = rack.answer()["matched"], machine()
        sent = rack.flood(rate, int(rate * seconds), 64)
        after = machine()
        rack.rack("drain", "--timeout", 120, "--keep-running")
        stored = rack.answer()["matched"] - stored
        p.send_signal(2)
        p.wait(60)
        said = open(err.name, encoding="utf-8").read()
    with open(report, encoding="utf-8") as f:
        done = json.load(f)["stages"][name]
    taken = done.get("packets", 0)
    skipped = re.search(r"(\d+) skipped", said)
    spent = [b - a for a, b in zip(before, after)]
    shares = [100 * x / max(sum(spent), 1e-9) for x in spent]
    return sent["rate"], sent["accepted"], stored, taken, int(skipped.group(1)) if skipped else 0, shares


def wire(folder):
    seconds = float(os.environ.get("BENCH_SECONDS", "5"))
    for name in ("count", "flows"):
        loss, split = [], []
        for rate in (25000, 50000, 100000, 150000, 200000, 300000, 400000, 600000):
            with racklib.Rack(1, size="2G") as rack:
                at, offered, stored, taken, skipped, shares = wire_once(rack, folder, name, rate, seconds)
            lost = 100 * (1 - stored / offered)
            print("%-6s %7.0f packets/s offered: %7.0f taken by the stage; %.2f %% not stored (the ledger names them), %d of %d stored skipped; "
                  "interrupts %.0f %%, system %.0f %%, user %.0f %% of the machine"
                  % (name, at, taken / offered * at, lost, skipped, stored, *shares[:3]), flush=True)
            loss.append((at / 1e3, taken / offered * at / 1e3, max(0, 100 * (1 - taken / offered))))
            split.append((at / 1e3, shares[0], shares[0] + shares[1], sum(shares[:3])))
        plotlib.plot("workloads-figure3-" + name, "set xlabel 'offered, thousand packets/s'\nset ylabel 'taken, thousand/s'\nset y2tics\n"
                     "set y2label '%% lost'\nplot $l using 1:2 with linespoints title '%s', $l using 1:3 axes x1y2 with linespoints title 'lost'\n" % name, {"l": loss})
        plotlib.plot("workloads-figure4-" + name, "set xlabel 'offered, thousand packets/s'\nset ylabel '%% of the machine'\nset yrange [0:100]\n"
                     "plot $s using 1:4 with filledcurves x1 title 'user', $s using 1:3 with filledcurves x1 title 'system', "
                     "$s using 1:2 with filledcurves x1 title 'interrupts'\n", {"s": split})


def grep(folder):
    count = int(os.environ.get("BENCH_PACKETS", "2000000"))
    volume, path = os.path.join(folder, "v"), os.path.join(folder, "big.pcap")
    some = list(traces.Trace(CAPTURE))
    traces.write_pcap(path, ((10 ** 18 + i * 20000, some[i % len(some)].data, some[i % len(some)].length) for i in range(count)))
    run(os.environ["PACKRACK"], "import", path, "--volume", volume, "--create", "%dM" % (os.path.getsize(path) // 900000 + 64))
    words = "tcp dst port 8080"

    def lines(*command):
        began = time.monotonic()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        return time.monotonic() - began, done.stdout.count(b"\n")
    mine, n = lines(os.environ["PACKRACK"], "grep", "GET ", "--volume", volume, *words.split())
    theirs, m = lines("tshark", "-n", "-r", path, "-Y", 'tcp.dstport == 8080 && frame contains "GET "')
    print("grep over %d packets, %s: packrack %.2f s (%d found), tshark %.2f s (%d): %.0f times" % (count, words, mine, n, theirs, m, theirs / mine))


def main():
    parts = os.environ.get("BENCH_PARTS", "table,figure1,wire,rates,grep").split(",")
    for part in parts:
        with tempfile.TemporaryDirectory(dir=BUILD if part == "grep" else "/dev/shm") as folder:
            {"table": table, "figure1": figure1, "wire": wire, "rates": rates, "grep": grep}[part](folder)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
