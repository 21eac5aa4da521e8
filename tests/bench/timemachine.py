#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The cutoff, as Maier et al. (SIGCOMM 2008) measured theirs: what a cutoff of 15 KB keeps of traffic with a heavy tail,
what is lost, what the rack costs with and without it; and the dispatcher with a million live connections.

If TIMEMACHINE is the path of the Time Machine's own program (0.1-4), it captures the same traffic in a run of its own. Plots:
build/bench/timemachine-cpu.png and timemachine-stored.png, of a run with the cutoff and one without, over time.

The traffic is a real capture of PACKRACK_DATA, and bulk transfers among it that are made here (synthetic: TCP, full-size
segments, an ACK for two of them), so many that they have the share of the bytes that the paper's had."""

import json
import os
import random
import shutil
import statistics
import struct
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import benchlib as b
import plotlib
import queries
import racklib
import traces

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
RATE = int(os.environ.get("BENCH_RATE", "20000"))
BULK = int(os.environ.get("BENCH_BULK", "150")) * 1000 * 1000
CONNECTIONS = int(os.environ.get("BENCH_CONNECTIONS", "1000000"))
TURNS = 8
DATA = os.environ.get("PACKRACK_DATA", os.path.join(b.TOP, "../shared/data"))
MIX = os.path.join(DATA, "mix-gateway-full-a.pcap")
CLASS = ("--class", "all; cutoff=15K")
MACS = bytes.fromhex("020000000001020000000002")


def frame(protocol, ends, flags, payload):
    """Ethernet, IPv4, TCP or UDP; checksums are zero."""
    (src, sport), (dst, dport) = ends
    if protocol == 6:
        l4 = struct.pack(">HHIIBBHHH", sport, dport, 1, 1, 0x50, flags, 65535, 0, 0) + payload
    else:
        l4 = struct.pack(">HHHH", sport, dport, 8 + len(payload), 0) + payload
    return MACS + b"\x08\x00" + struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(l4), 0, 0, 64, protocol, 0, src, dst) + l4


class Out:
    """A pcap of ns times, written as it comes."""

    def __init__(self, path):
        self.f = open(path, "wb")
        self.f.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))

    def put(self, time, data, length):
        self.f.write(struct.pack("<IIII", time // 10 ** 9, time % 10 ** 9, len(data), length) + data)


def transfers(first, last):
    """(time, frame) of bulk transfers, sizes by Pareto, each at its own place and pace."""
    r, left, all_, n = random.Random(1), BULK, [], 0
    while left > 0:
        size = min(left, int(2e6 * r.paretovariate(1.1)), BULK // 4)
        left -= size
        n += 1
        ends = (0x0A000000 + n, 1024 + n), (0xC0000200 + n % 250, 443)
        begin = first + int((last - first) * 0.6 * r.random())
        step = int((last - begin) * 0.9 / (size // 1448 + 1))
        data, ack = frame(6, (ends[1], ends[0]), 0x10, bytes(1448)), frame(6, ends, 0x10, b"")
        all_.append((begin, frame(6, ends, 2, b"")))
        for i in range(size // 1448):
            all_.append((begin + (i + 1) * step, data))
            if i % 2:
                all_.append((begin + (i + 1) * step + 1, ack))
    return all_, n


def heavy_tail(path):
    mix = [(p.time, p.data, p.length) for p in traces.Trace(MIX)]
    bulk, count = transfers(mix[0][0], max(t for t, _, _ in mix))
    out = Out(path)
    packets = sorted(mix + [(t, d, len(d)) for t, d in bulk], key=lambda p: p[0])
    for p in packets:
        out.put(*p)
    out.f.close()
    print(f"  {len(packets):,} packets, {sum(p[2] for p in packets) / 1e6:.0f} MB; {count} transfers of them synthetic", flush=True)
    return len(packets)


def many(path):
    """TURNS packets of each connection, each turn in an order by chance: the first fills the table, then all are in it."""
    out, order = Out(path), list(range(CONNECTIONS))
    for turn in range(TURNS):
        random.Random(turn).shuffle(order)
        for at, i in enumerate(order):
            out.put((at + turn * CONNECTIONS) * 2000, frame(17, ((0x0A000000 + i, 1000), (0xC0000201, 53)), 0, bytes(18)), 60)
    out.f.close()


def figures(rack):
    d = json.loads(rack.packrack("status", "--json").stdout)["dispatcher"]
    end = rack.answer()
    c = end["completeness"]
    beyond = sum(x["packets"] for x in c["beyond"])
    known = end["matched"] + beyond + c["missing_packets"] + c["dropped_packets"]
    if known != d["captured_packets"] + c["dropped_packets"]:
        sys.exit(f"bench: {known} packets are accounted for, {d['captured_packets']} were captured")
    return dict(d, lost=c["missing_packets"] + c["dropped_packets"], beyond=beyond, complete=c["complete"])


def cost(rack, before, packets):
    """us of CPU by packet: of the dispatcher, and of all nodes' loggers and indexers"""
    now = {n: b.cpu_seconds(p) for n, p in rack.pids().items()}
    of = lambda role: sum(v - before.get(n, 0) for n, v in now.items() if n.startswith(role)) * 1e6 / packets
    return of("dispatcher"), of("logger") + of("indexer")


class OverTime(threading.Thread):
    """Each second: [s, CPU of the dispatcher (%), of the nodes, MB stored]"""

    def __init__(self, rack):
        super().__init__(daemon=True)
        self.rack, self.rows, self.done = rack, [], False
        self.start()

    def run(self):
        begin, last = time.monotonic(), None
        while not self.done:
            now, cpu = time.monotonic() - begin, [0.0, 0.0]
            for name, pid in self.rack.pids().items():
                if not name.startswith("merger"):
                    cpu[not name.startswith("dispatcher")] += b.cpu_seconds(pid)
            stored = sum(n["bytes"] for n in json.loads(self.rack.packrack("status", "--json").stdout)["nodes"])
            if last:
                self.rows.append([f"{now:.1f}", *(f"{100 * (c - l) / (now - last[0]):.1f}" for c, l in zip(cpu, last[1])), f"{stored / 1e6:.2f}"])
            last = now, cpu
            time.sleep(1)


def over_time(path):
    blocks = {}
    for name, options in (("cutoff", CLASS), ("none", ())):
        with racklib.Rack(3, "--in-mtu", 9000, dispatcher=options) as rack:
            seen = OverTime(rack)
            rack.rack("play", path, f"--pps={RATE}", "--quiet")
            time.sleep(2)
            seen.done = True
            seen.join()
            blocks[name] = seen.rows
    for what, label, columns in (("cpu", "CPU (%), second by second", ((2, "dispatcher"), (3, "three nodes"))),
                                 ("stored", "MB stored", ((4, "stored"),))):
        plotlib.plot(f"timemachine-{what}", f"set xlabel 's'\nset ylabel '{label}'\nplot " + ", ".join(
            f"${block} using 1:{column} with lines title '{title}, {words}'" for column, title in columns
            for block, words in (("cutoff", "cutoff 15 KB"), ("none", "no cutoff"))) + "\n", blocks)


def itself(table, path, packets):
    """The program of the paper, with its cutoff"""
    with racklib.Rack(1, "--in-mtu", 9000) as rack:
        machine = queries.TimeMachine(rack, "15k", "500m")
        time.sleep(2)
        before = b.cpu_seconds(machine.process.pid)
        rack.rack("play", path, f"--pps={RATE}", "--quiet")
        time.sleep(7)
        cpu = b.cpu_seconds(machine.process.pid) - before
        with open(f"{machine.dir}/stats.log", encoding="ascii", errors="replace") as f:
            last = f.read().strip().split("\n")[-1].split()
        machine.stop()
    if len(last) < 12:
        sys.exit("bench: the Time Machine wrote no figures")
    return dict(kept=100 * int(last[11]) / int(last[8]), lost=100 * (1 - int(last[7]) / packets), cpu=1e6 * cpu / packets)


def played(path, packets, *options):
    with racklib.Rack(3, "--in-mtu", 9000, dispatcher=options) as rack:
        before = {n: b.cpu_seconds(p) for n, p in rack.pids().items()}
        rack.rack("play", path, f"--pps={RATE}", "--quiet")
        rack.rack("drain", "--timeout", 120)
        dispatcher, nodes = cost(rack, before, packets)
        volumes = sum(n["bytes"] for n in json.loads(rack.packrack("status", "--json").stdout)["nodes"])
        return dict(figures(rack), dispatcher=dispatcher, nodes=nodes, volumes=volumes)


def read(path, packets, *options):
    """us of the dispatcher's CPU by packet, and its memory."""
    with racklib.Rack(2, dispatcher=("--read", path, *options)) as rack:
        rack.rack("drain", "--timeout", 300, "--stored")
        pid = rack.pids()["dispatcher"]
        return b.cpu_seconds(pid) * 1e6 / packets, b.rss(pid)[2], figures(rack)


def paper(table, path, packets):
    runs = {"plain": [], "cut": []}
    for _ in range(ROUNDS):
        runs["plain"].append(played(path, packets))
        runs["cut"].append(played(path, packets, *CLASS))
    of = lambda name, what: statistics.median(r[what] for r in runs[name])
    cut = runs["cut"][0]
    share = 1 - cut["beyond_cutoff_bytes"] / cut["captured_bytes"]
    table.row("kept of the bytes, cutoff 15 KB", "%", 100 * share, 6, "the paper, at most", less_is_better=True)
    table.row("kept of the packets", "%", 100 - 100 * cut["beyond"] / cut["captured_packets"])
    table.row("lost, of the packets", "%", 100 * max(r["lost"] for r in runs["cut"]) / packets, 0.04, "the paper, at most", True)
    table.row("retention, by bytes in the volumes", "times", of("plain", "volumes") / of("cut", "volumes"), 10, "the paper, about")
    if "TIMEMACHINE" in os.environ:
        peer = itself(table, path, packets)
        name = "Time Machine 0.1-4, the same traffic"
        table.row("kept of the bytes", "%", 100 * share, peer["kept"], name, True)
        table.row("lost, of the packets", "%", 100 * max(r["lost"] for r in runs["cut"]) / packets, peer["lost"], name)
        table.row("CPU of all programs, a packet sent", "us", of("cut", "dispatcher") + of("cut", "nodes"), peer["cpu"], name, True)
    else:
        print("  the Time Machine itself is left out: TIMEMACHINE is not set to its program", flush=True)
    for role in ("dispatcher", "nodes"):
        table.row(f"CPU of the {role}, a packet sent", "us", of("cut", role), of("plain", role), "without cutoff", less_is_better=True)


def million(table, path, paper_path, paper_packets):
    """Pairs of runs, without and with a class, in turn."""
    for what, file, packets, class_ in ((f"{CONNECTIONS:,} connections, nothing cut", path, TURNS * CONNECTIONS, CLASS),
                                        ("the paper's mix", paper_path, paper_packets, CLASS)):
        plain, cut = [], []
        for _ in range(ROUNDS):
            plain.append(read(file, packets)[0])
            us, memory, seen = read(file, packets, *class_)
            cut.append(us)
        table.row(f"dispatcher, {what}: CPU a packet", "us", statistics.median(cut), statistics.median(plain), "without cutoff", True)
    print(f"  in the table at the end: {seen['tracked_connections']:,}; anonymous memory {memory / 2 ** 20:.0f} MiB", flush=True)


def main():
    if not os.path.exists(MIX):
        sys.exit(f"bench: no {MIX}: set PACKRACK_DATA")
    table = b.Table("timemachine")
    work = tempfile.mkdtemp(prefix="packrack-timemachine-", dir=os.path.join(b.TOP, "build"))
    try:
        os.chmod(work, 0o755)
        heavy, crowd = f"{work}/heavy.pcap", f"{work}/many.pcap"
        packets = heavy_tail(heavy)
        paper(table, heavy, packets)
        over_time(heavy)
        many(crowd)
        million(table, crowd, heavy, packets)
        table.write()
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
