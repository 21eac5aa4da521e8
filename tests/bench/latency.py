#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How soon a query sees a packet. On a rack of one node that takes a real mix at 100,000 packets/s: from a
packet on the wire to an answer that has it, its segment still open; to the first packet of an answer; to
the end of a query that is cancelled. And the highest rate that one node captures, stores and indexes
without loss, alone and with a query always running. BENCH_PARTS=find,rate chooses, BENCH_RATE is the
load of the first."""

import os
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
PROBES, FIRSTS, CANCELS = 100, 20, 10
GIVE_UP = 2.0
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
    """seconds from its sending to the end of the first answer that has it; None: it was lost"""
    sender.stdin.write(f"{port}\n")
    sender.stdin.flush()
    sent = int(sender.stdout.readline())
    while time.time_ns() - sent < GIVE_UP * 1e9:
        got = rack.count(f"dst host 198.18.0.2 and udp dst port {port}", since=sent - 50_000_000)
        if got.matched:
            return (time.time_ns() - sent) / 1e9
    return None


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


def finding(table):
    seconds = 60
    with racklib.Rack(1, size="6G") as lab:
        flood = b.start(racklib.RACK, "exec", "-d", lab.dir, "tap", f"{b.BUILD}/tests/bench/flood", "mirror0", RATE,
                        RATE * seconds, MIX, env=lab.env, stdout=subprocess.PIPE)
        sender = b.start(racklib.RACK, "exec", "-d", lab.dir, "tap", sys.executable, "-c", SENDER, env=lab.env,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with packrack.connect(lab.env["PACKRACK_MERGER"]) as rack:
            b.until(lambda: rack.count("udp").matched > 1000, 20, "packets in the rack")
            asked = []
            for _ in range(20):
                begin = time.monotonic()
                rack.count("udp dst port 1", since=time.time_ns() - 50_000_000)
                asked.append(time.monotonic() - begin)
            tried = [find_one(rack, sender, 20000 + i) for i in range(PROBES)]
            found = [s for s in tried if s is not None]
            first = [first_of(rack) for _ in range(FIRSTS)]
            cancelled = [cancel_one(rack) for _ in range(CANCELS)]
            assert flood.poll() is None, "the load ended too soon"
        sender.stdin.close()
        b.stop(flood)
        table.row("offered meanwhile", "packets/s", RATE)
        quantiles(table, "a query of the last 50 ms", asked)
        quantiles(table, "from the wire to an answer that has it", found)
        table.row(f"not found within {GIVE_UP:g} s", f"of {PROBES}", PROBES - len(found))
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
                                         "--manage", f"ipc://{work}/indexer.sock"), stderr=log)
        b.until(lambda: "ready" in open(f"{work}/log").read() and os.path.exists(f"{work}/indexer.sock"), 10,
                "a logger and an indexer")

    def ask(self, *words):
        out = b.run(f"{b.BUILD}/packrack", "query", "--volume", self.volume, "--count", *words, check=False)
        return int(out.stdout.split()[0] or -1) if out.stdout.split() else -1

    def stop(self):
        b.stop(self.logger)
        b.stop(self.indexer)
        for s in self.spaces:
            b.run("ip", "netns", "del", s, check=False)


def lost(rate, seconds, asking):
    """packets lost, queries answered meanwhile"""
    with tempfile.TemporaryDirectory(prefix="packrack-latency-", dir=os.path.join(b.TOP, "build")) as work:
        node, done, answers = Node(work), threading.Event(), []

        def ask():
            while not done.is_set():
                answers.append(node.ask("--since", "1s ago", "host 203.0.113.77"))
        asker = threading.Thread(target=ask)
        if asking:
            asker.start()
        out = b.run(*b.within(node.spaces[0], f"{b.BUILD}/tests/bench/flood", "out0", rate, int(rate * seconds), MIX))
        done.set()
        if asking:
            asker.join()
        b.stop(node.logger)
        sent = racklib.json.loads(out.stdout)
        got = node.ask()
        node.stop()
        return sent["accepted"] - got, len(answers), sent["rate"]


def rates(table):
    for asking in (False, True):
        best = {}

        def lossless(rate):
            missing, answers, real = lost(rate, 4, asking)
            if missing <= 0 and real > best.get("rate", 0):
                best.update(rate=real, answers=answers)
            return missing <= 0
        b.bisect(lossless, 50000, 400000, 4)
        what = "a query always running" if asking else "no query"
        table.row(f"one node captures, stores, indexes without loss, {what}", "packets/s", best.get("rate"))
        if asking:
            table.row("queries answered meanwhile", "a second", best.get("answers", 0) / 4)


def main():
    if not os.path.exists(MIX):
        sys.exit(f"bench: no {MIX}: set PACKRACK_DATA")
    table = b.Table("latency")
    if "find" in PARTS:
        finding(table)
    if "rate" in PARTS:
        rates(table)
    table.write()


main()
