#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The measurement of Bunga and Wolf again: what monitoring workloads cost a packet, and how many packets a second they take.

usage: workloads.py      BENCH_PARTS=table,rates,grep (default: all)

table   instructions a packet by callgrind over one trace of 100,000 packets (a mix of real captures, again and again), and memory
        accesses to packets and to all else by lackey over 2,000 of them; the paper's kernels bare, and packrack's stages. What the
        loop around them takes is subtracted. x86-64, as the build has them (-O2); the paper's are RISC instructions of PacketBench.
rates   packets of 64 bytes offered from memory: packets/s and CPU a packet, over 1 and 2 shards; tcpdump and nfpcapd beside them on
        the same packets from a file in memory; beyond the machine's cores a projection by CPU.
grep    `packrack grep` with a filter over a volume, beside tshark on the same packets
"""
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


def instructions(packets, workload, options):
    with tempfile.NamedTemporaryFile() as out:
        done = run("valgrind", "--tool=callgrind", "--callgrind-out-file=" + out.name, "--toggle-collect=one_packet",
                   PROGRAM, CAPTURE, packets, 0, workload, 0, *options)
    return int(re.search(rb"Collected : (\d+)", done.stderr).group(1)) / packets


def accesses(packets, workload, options):
    """Of packets, of all else; the start of the program included."""
    p = subprocess.Popen(["valgrind", "--tool=lackey", "--trace-mem=yes", PROGRAM, CAPTURE, str(packets), "0", workload, "0", *options],
                         stderr=subprocess.PIPE)
    mine = other = 0
    for line in p.stderr:
        if line[:2] not in (b" L", b" S", b" M"):
            continue
        at = int(line[3:line.index(b",")], 16)
        n = 2 if line[1:2] == b"M" else 1
        if PACKETS <= at < PACKETS + (1 << 32):
            mine += n
        else:
            other += n
    p.wait()
    return mine, other


def table(folder):
    key, rules = os.path.join(folder, "key"), os.path.join(folder, "rules")
    run(os.environ["PACKRACK"], "keys", "anonymize", key)
    make_rules(rules, 1000)
    rows = [("kernel-count", ()), ("kernel-http", ()), ("kernel-flows", ()), ("kernel-anonymize", ()),
            ("count", ()), ("http", ()), ("flows", ()), ("anonymize", ("key=" + key,)), ("detect", ("rules=" + rules,)), ("rtt", ())]
    base = instructions(100000, "none", ())
    few = 2000
    base_accesses = {}
    print("%-18s %14s %16s %15s   %s" % ("workload", "instructions", "packet accesses", "other accesses", "paper (RISC)"))
    for name, options in rows:
        count = instructions(100000, name, options) - base
        if options not in base_accesses:  # the rules' compilation is in the start: none of a stage with no packet
            base_accesses[options] = accesses(0, name, options) if options else accesses(few, "none", ())
        mine, other = accesses(few, name, options)
        before = base_accesses[options]
        if options:  # reading the packets
            read = tuple(a - b for a, b in zip(accesses(few, "none", ()), accesses(0, "none", ())))
            before = tuple(a + b for a, b in zip(before, read))
        print("%-18s %14.1f %16.1f %15.1f   %s" % (name, count, (mine - before[0]) / few, (other - before[1]) / few,
                                                 "%d / %d / %d" % PAPER[name.replace("kernel-", "")] if name.replace("kernel-", "") in PAPER else ""))


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


def grep(folder):
    count = int(os.environ.get("BENCH_PACKETS", "2000000"))
    volume, path = os.path.join(folder, "v"), os.path.join(folder, "big.pcap")
    some = list(traces.Trace(CAPTURE))
    traces.write_pcap(path, ((10 ** 18 + i * 20000, some[i % len(some)].data, some[i % len(some)].length) for i in range(count)))
    run(os.environ["PACKRACK"], "import", path, "--volume", volume, "--create", "%dM" % (os.path.getsize(path) // 900000 + 64))
    words = "tcp dst port 8080"
    mine = cpu([os.environ["PACKRACK"], "grep", "GET ", "--volume", volume] + words.split())
    theirs = cpu(["tshark", "-n", "-r", path, "-Y", 'tcp.dstport == 8080 && frame contains "GET "'])
    n = run(os.environ["PACKRACK"], "grep", "GET ", "--volume", volume, *words.split()).stdout.count(b"\n")
    m = run("tshark", "-n", "-r", path, "-Y", 'tcp.dstport == 8080 && frame contains "GET "').stdout.count(b"\n")
    print("grep over %d packets, %s: packrack %.2f s (%d found), tshark %.2f s (%d): %.0f times" % (count, words, mine[1], n, theirs[1], m, theirs[1] / mine[1]))


def main():
    parts = os.environ.get("BENCH_PARTS", "table,rates,grep").split(",")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for part in parts:
            {"table": table, "rates": rates, "grep": grep}[part](folder)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
