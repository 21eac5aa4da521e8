#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How soon a query sees a packet. On a rack of one node that takes a real mix at 100,000 packets/s: from the
arrival of a packet's timestamp log at its node (by the kernel's clock, tcpdump beside the logger) to the end
of the first answer that has it, asked for again and again; to the first packet of an answer; to the end of
a query that is cancelled. All programs, the sender and the switch run on this one machine, and what each
takes of it is told. And the highest rate that one node captures, stores and indexes without loss, alone and
with a query always running. BENCH_PARTS=find,rate chooses, BENCH_RATE is the load of the first,
BENCH_PROBES how many packets are looked for."""

import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b
import racklib

sys.path.insert(0, f"{b.BUILD}/python")
import packrack  # noqa: E402

MIX = os.path.join(b.DATA, "mix-gateway-full-a.pcap")
PARTS = os.environ.get("BENCH_PARTS", "find,rate").split(",")
RATE = int(os.environ.get("BENCH_RATE", "100000"))
PROBES = int(os.environ.get("BENCH_PROBES", "1000"))
FIRSTS, CANCELS, GIVE_UP = 20, 10, 2.0
PROBE_SECONDS = 100  # a dispatcher that falls behind for want of a CPU makes each probe slow
SECONDS, LAG_SECONDS = 8, 2  # of a load; that the index may be behind its end
TO_NODE = "ether proto 0x88b5 or (udp and dst host 198.18.0.2)"
TSLOG = 4
METRICS = "127.0.0.1:9199"  # in a namespace of its own
NOBODY = "ether[40:4] = 0x12345678 and ether[44:4] = 0x9abcdef0"  # no index knows: all is read

# In the tap's namespace: a UDP packet to the port of each line; says when it went.
SENDER = """
import socket, struct, sys, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("mirror0", 0))
for line in sys.stdin:
    udp = struct.pack(">HHHH", 7, int(line), 8, 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28, 1, 0, 64, 17, 0, bytes([198, 18, 0, 1]), bytes([198, 18, 0, 2]))
    s.send(bytes([2, 0, 0, 0, 0, 2]) + bytes([2, 0, 0, 0, 0, 1]) + b"\\x08\\x00" + ip + udp + bytes(18))
    print(time.clock_gettime_ns(time.CLOCK_REALTIME), flush=True)
"""


def quantiles(table, what, seconds):
    s = sorted(seconds)
    for name, at in (("half", len(s) // 2), ("99 of 100", min(len(s) - 1, len(s) * 99 // 100))):
        table.row(f"{what}: {name} within", "ms", 1000 * s[at])


def find_one(rack, sender, port):
    """(sent, found): ns, when it went and when the first answer ended that has it; found 0: none had"""
    sender.stdin.write(f"{port}\n")
    sender.stdin.flush()
    sent = int(sender.stdout.readline())
    while time.time_ns() - sent < GIVE_UP * 1e9:
        got = rack.count(f"dst host 198.18.0.2 and udp dst port {port}", since=sent - 50_000_000)
        if got.matched:
            return sent, time.time_ns()
    return sent, 0


def frames(path):
    """(ns, bytes) of a pcap file of nanosecond precision that is still being written"""
    with open(path, "rb") as f:
        data = f.read()
    at = 24
    while at + 16 <= len(data):
        sec, ns, caplen, _ = struct.unpack_from("<IIII", data, at)
        yield sec * 10**9 + ns, data[at + 16:at + 16 + caplen]
        at += 16 + caplen


def arrivals(path):
    """port -> when the log came to the node that tells of the probe to this port: a log follows its frames"""
    got, waiting = {}, []
    for when, frame in frames(path):
        if frame[12:14] == b"\x08\x00":
            waiting.append(struct.unpack_from(">H", frame, 36)[0])
        elif frame[15] == TSLOG:
            got.update((port, when) for port in waiting)
            waiting = []
    return got


class Sniffer:
    """What comes to the rack's first node, by a second socket beside its logger's."""

    def __init__(self, lab):
        self.path = f"{lab.dir}/arrived.pcap"
        words = ("-i", "eth0", "-Q", "in", "-s", "64", "-B", "32768", "-U", "--immediate-mode",
                 "--time-stamp-precision=nano", "-w", self.path, TO_NODE)
        self.process = b.start(racklib.RACK, "exec", "-d", lab.dir, "log1", "tcpdump", *words, env=lab.env,
                               stderr=subprocess.PIPE)
        self.process.stderr.readline()

    def stop(self):
        b.stop(self.process)
        return arrivals(self.path)


class Shares:
    """What each program takes of the machine's CPUs."""

    def __init__(self, pids):
        self.pids, self.begin = pids, time.monotonic()
        self.before, self.machine = self.now(), b.machine_seconds()

    def now(self):
        return {name: b.cpu_seconds(pid) for name, pid in self.pids.items()}

    def seconds(self):
        now = self.now()
        return {name: now[name] - self.before[name] for name in self.pids}

    def rows(self, table):
        took = time.monotonic() - self.begin
        for name, s in self.seconds().items():
            table.row(f"CPU meanwhile: {name}", "%", 100 * s / took)
        table.row("CPU meanwhile: the whole machine", f"% of {100 * os.cpu_count()}",
                  100 * (b.machine_seconds() - self.machine) / took)


def first_of(rack):
    begin = time.monotonic()
    with rack.query("ip") as answer:
        next(iter(answer))
        return time.monotonic() - begin


def cancel_one(rack):
    """seconds until the rack says that a query is over, and whether it was cut in the middle"""
    answer = rack.query(NOBODY)
    time.sleep(0.1)
    begin = time.monotonic()
    answer.close()
    return time.monotonic() - begin, answer.completeness.cancelled


def found_rows(table, tried, logs):
    """tried: port -> (sent, found)"""
    came = {port: t for port, t in tried.items() if port in logs}
    found = {port: t for port, t in came.items() if t[1]}
    quantiles(table, "from the wire to its log's arrival", [(logs[p] - sent) / 1e9 for p, (sent, _) in came.items()])
    quantiles(table, "from its log's arrival to an answer that has it",
              [(at - logs[p]) / 1e9 for p, (_, at) in found.items()])
    quantiles(table, "from the wire to an answer that has it", [(at - sent) / 1e9 for sent, at in found.values()])
    table.row(f"not found within {GIVE_UP:g} s", f"of {len(came)}", len(came) - len(found))
    table.row("lost before the node", f"of {len(tried)}", len(tried) - len(came))


def finding(table):
    seconds = 180
    with racklib.Rack(1, size="6G") as lab:
        flood = b.start(racklib.RACK, "exec", "-d", lab.dir, "tap", f"{b.BUILD}/tests/bench/flood", "mirror0", RATE,
                        RATE * seconds, MIX, env=lab.env, stdout=subprocess.PIPE)
        sender = b.start(racklib.RACK, "exec", "-d", lab.dir, "tap", sys.executable, "-c", SENDER, env=lab.env,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        sniffer = Sniffer(lab)
        with packrack.connect(lab.env["PACKRACK_MERGER"], key=lab.env["PACKRACK_KEY"]) as rack:
            b.until(lambda: rack.count("udp").matched > 1000, 20, "packets in the rack")
            asked = []
            for _ in range(20):
                begin = time.monotonic()
                rack.count("udp dst port 1", since=time.time_ns() - 50_000_000)
                asked.append(time.monotonic() - begin)
            shares = Shares(dict(lab.pids(), sender=flood.pid, asker=os.getpid()))
            tried, end = {}, time.monotonic() + PROBE_SECONDS
            while len(tried) < PROBES and time.monotonic() < end:
                port = 20000 + len(tried)
                tried[port] = find_one(rack, sender, port)
            shares.rows(table)
            logs = sniffer.stop()
            first = [first_of(rack) for _ in range(FIRSTS)]
            cancelled = [cancel_one(rack) for _ in range(CANCELS)]
            assert flood.poll() is None, "the load ended too soon"
        sender.stdin.close()
        b.stop(flood)
        table.row("offered meanwhile", "packets/s", RATE)
        quantiles(table, "a query of the last 50 ms", asked)
        found_rows(table, tried, logs)
        quantiles(table, "first packet of an answer", first)
        quantiles(table, "cancelled, to the last word", [s for s, _ in cancelled])
        table.row("queries that were cut in the middle", "of 10", sum(cut for _, cut in cancelled))


class Node:
    """One monitor: a logger on a tap, and its indexer."""

    def __init__(self, work):
        self.volume = f"{work}/volume"
        self.spaces = b.space("out"), b.space("in")
        b.veth(self.spaces[0], "out0", self.spaces[1], "tap0")
        b.drop_ingress(self.spaces[1], "tap0")
        b.run(f"{b.BUILD}/packrack", "volume", "create", self.volume, "--size", "3G")
        log = open(f"{work}/log", "w")
        self.logger = b.start(*b.within(self.spaces[1], f"{b.BUILD}/packrack-logger", "--tap", "tap0", "--volume",
                                        self.volume), stderr=log)
        self.indexer = b.start(*b.within(self.spaces[1], f"{b.BUILD}/packrack-indexer", "--volume", self.volume,
                                         "--manage", f"ipc://{work}/indexer.sock", "--metrics", METRICS), stderr=log)
        b.until(lambda: all(w in open(f"{work}/log").read() for w in ("ready", "recording tap0")), 10,
                "a logger and an indexer")

    def ask(self, *words):
        out = b.run(f"{b.BUILD}/packrack", "query", "--volume", self.volume, "--count", *words, check=False)
        return int(out.stdout.split()[0] or -1) if out.stdout.split() else -1

    def lag(self):
        """bytes that are stored and not indexed"""
        page = b.run(*b.within(self.spaces[1], "curl", "-s", f"http://{METRICS}/metrics")).stdout
        return int(float(re.search(r"^packrack_indexer_lag_bytes(?:{.*})? (\S+)", page, re.M)[1]))

    def stop(self):
        b.stop(self.logger)
        b.stop(self.indexer)
        for s in self.spaces:
            b.run("ip", "netns", "del", s, check=False)


class Asker:
    """A query that is always running: of the last second, again and again."""

    def __init__(self, node):
        self.node, self.done, self.answers = node, threading.Event(), 0
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.done.is_set():
            self.node.ask("--since", "1s ago", "host 203.0.113.77")
            self.answers += 1

    def stop(self):
        self.done.set()
        self.thread.join()
        return self.answers


def one_run(rate, asking):
    """What was lost, whether the index kept up, and what it cost."""
    with tempfile.TemporaryDirectory(prefix="packrack-latency-", dir=os.path.join(b.TOP, "build")) as work:
        node = Node(work)
        shares = Shares(dict(logger=node.logger.pid, indexer=node.indexer.pid))
        asker = Asker(node) if asking else None
        out = b.run(*b.within(node.spaces[0], "nice", "-n", -20, f"{b.BUILD}/tests/bench/flood", "out0", rate,
                              int(rate * SECONDS), MIX))
        cpu, sent, lag = shares.seconds(), racklib.json.loads(out.stdout), node.lag()
        answers = asker.stop() if asking else 0
        end = time.monotonic() + LAG_SECONDS
        while node.lag() and time.monotonic() < end:
            time.sleep(0.02)
        behind = node.lag()
        b.stop(node.logger)
        missing = sent["accepted"] - node.ask()
        node.stop()
        return dict(missing=missing, behind=behind, rate=sent["rate"], answers=answers / SECONDS, lag=lag,
                    cpu={name: 1e9 * s / sent["accepted"] for name, s in cpu.items()})


def rates(table):
    for asking in (False, True):
        best = {}

        def lossless(rate):
            got = one_run(rate, asking)
            kept = got["missing"] == 0 and got["behind"] == 0
            print(f"    {got['rate']:,.0f}/s: {got['missing']} lost, {got['lag'] / 1e6:.1f} MB not indexed at the end, "
                  f"{got['behind']} bytes {LAG_SECONDS} s after", flush=True)
            if kept and got["rate"] > best.get("rate", 0):
                best.update(got)
            return kept
        b.bisect(lossless, 50000, 400000, 4)
        what = "a query always running" if asking else "no query"
        table.row(f"one node captures, stores, indexes without loss, {what}", "packets/s", best.get("rate"))
        for name, ns in best.get("cpu", {}).items():
            table.row(f"CPU of its {name}, a packet", "ns", ns)
        if asking:
            table.row("queries answered meanwhile", "a second", best.get("answers"))


def main():
    if not os.path.exists(MIX):
        sys.exit(f"bench: no {MIX}: set PACKRACK_DATA")
    table = b.Table("latency")
    b.backlog()
    if "find" in PARTS:
        finding(table)
    if "rate" in PARTS:
        rates(table)
    table.write()


main()
