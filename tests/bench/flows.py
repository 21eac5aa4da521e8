#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Packets to flows: CPU of packrack flows and of nfpcapd on a trace of BENCH_COPIES (12) copies of the gateway mix, one
behind the other; answers are compared first. Also: printing the records, and SQL over them, where DuckDB is. BENCH_ROUNDS
(5) alternate; medians."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b

COPIES = int(os.environ.get("BENCH_COPIES", "12"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
PACKRACK = f"{b.BUILD}/packrack"
MIX = f"{b.DATA}/mix-gateway-hdr96-a.pcap"
APART = 400  # s from one copy to the next: longer than the mix


def make_trace(folder):
    parts = [f"{folder}/{i}.pcap" for i in range(COPIES)]
    for i, part in enumerate(parts):
        b.run("editcap", "-F", "nsecpcap", "-t", i * APART, MIX, part)
    b.run("mergecap", "-a", "-F", "nsecpcap", "-w", f"{folder}/all.pcap", *parts)
    for part in parts:
        os.unlink(part)
    return f"{folder}/all.pcap"


def cpu(*words):
    """Seconds of CPU, user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(w) for w in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def nfpcapd(trace):
    with tempfile.TemporaryDirectory() as out:
        return cpu("nfpcapd", "-r", trace, "-w", out, "-e", "900,60", "-t", "86400")


def main():
    with tempfile.TemporaryDirectory() as folder:
        trace = make_trace(folder)
        env = dict(os.environ, PACKRACK=PACKRACK)
        same = subprocess.run([f"{b.TOP}/tests/system/flow_peers.py", "nfdump", trace], env=env, text=True,
                              stdout=subprocess.PIPE, check=False)
        print(same.stdout.splitlines()[-1])
        if same.returncode:
            sys.exit(1)
        packets = int(b.run(PACKRACK, "flows", "-r", trace, "--by", "proto").stderr.split(" packets")[0].split()[-1])
        ways = {"nfpcapd": lambda: nfpcapd(trace),
                "packrack flows --by proto": lambda: cpu(PACKRACK, "flows", "-r", trace, "--by", "proto"),
                "packrack flows --format csv": lambda: cpu(PACKRACK, "flows", "-r", trace, "--format", "csv")}
        sql = (PACKRACK, "sql", "-r", trace, "select src_ip, sum(bytes_sent) from flows group by 1 order by 2 desc limit 10")
        if b.run(*sql, check=False).returncode == 0:
            ways["packrack sql, the largest senders"] = lambda: cpu(*sql)
        times = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                times[name].append(way())
        theirs = statistics.median(times["nfpcapd"])
        print(f"{packets} packets, CPU, medians of {ROUNDS} rounds")
        for name, each in times.items():
            mine = statistics.median(each)
            print(f"{name:36} {mine:6.3f} s {1e9 * mine / packets:7.0f} ns a packet {mine / theirs:5.2f} of nfpcapd's")


if __name__ == "__main__":
    main()
