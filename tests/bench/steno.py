#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same packets, replayed on one veth, into Stenographer (stenotype, stenographer, stenoread) and into
packrack (a logger on a tap, an indexer): CPU to take, store and index them, bytes on disk, and the time to
find one packet among them. As root; everything runs in namespaces of its own.

What is counted as CPU, on both sides alike: user and system time of all processes of a side (stenographer
and stenotype; logger and indexer), ended threads included, from before the first packet until the last one is
stored and indexed, by the processes' own clocks. io_uring's workers are threads of their process and count.
Interrupts and softirqs go to whom they interrupt: the veth's delivery and the copy into the receive ring
(TPACKET_V3 on both sides) run as the sender sends, so they are in neither figure but by chance. Both write
with O_DIRECT to the same file system, into files that were allocated and never written; what the bench wrote
before is on the disk when either begins. Not alike: packrack syncs ten times a second, stenotype leaves that
to the device; stenotype's index has addresses, ports and protocols, packrack's those and networks, pairs,
flows, MACs, VLANs and types.

It runs at 200,000 packets a second, which is what one node is to take, and at 100,000. Part of what packrack costs
goes by time and not by packets: about 80 wake-ups a second of its programs, at 100,000 packets a second (a virtual CPU
may need 55 us for each).

BENCH_PACKETS: how many (3 million: 0.9 GB three times in BENCH_DIR); BENCH_PPS: replayed a second, one rate or more
(200000,100000)."""

import json
import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b

PACKETS = int(os.environ.get("BENCH_PACKETS", "3000000"))
RATES = [int(r) for r in os.environ.get("BENCH_PPS", "200000,100000").split(",")]
GROWER = f"{b.BUILD}/tests/bench/bench_grow"
NEEDLE = "host 203.0.113.77"
# stenotype closes a file and writes its index so often, and writes a block that is not full
FILE_AGE, BLOCK_AGE = 20, 10
SEVERAL = 5
INDEXED = 0.5  # packrack's index is no farther behind what is stored


def cpu_ns(*pids):
    """of processes that live, ended threads included (their clocks: clock_getcpuclockid(3))"""
    return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in pids)


def median(values):
    return sorted(values)[len(values) // 2]


class Lab:
    def __init__(self):
        self.source, self.tap = b.space("src"), b.space("tap")
        b.veth(self.source, "gen0", self.tap, "tap0", mtu=65535)
        for where, name in ((self.source, "gen0"), (self.tap, "tap0")):
            b.run(*b.within(where, "ethtool", "-K", name, "tso", "off", "gso", "off", "gro", "off"), check=False)
        b.drop_ingress(self.tap, "tap0")

    def received(self):
        words = b.run("ip", "-n", self.tap, "-s", "-j", "link", "show", "tap0").stdout
        return json.loads(words)[0]["stats64"]["rx"]["packets"]

    def replay(self, trace, rate):
        """Returns how many packets came."""
        before = self.received()
        b.run(*b.within(self.source, "tcpreplay", "-q", "--no-flow-stats", "-i", "gen0", "-p", rate, trace))
        return self.received() - before


def children(pid):
    """Go starts programs from any of its threads."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as f:
            found += [int(p) for p in f.read().split()]
    return found


class Stenographer:
    name = "Stenographer"

    def __init__(self, lab, work):
        self.lab, self.work = lab, work
        for part in ("packets", "index", "certs"):
            os.makedirs(f"{work}/{part}")
        config = {"Threads": [{"PacketsDirectory": f"{work}/packets", "IndexDirectory": f"{work}/index",
                               "MaxDirectoryFiles": 30000, "DiskFreePercentage": 1}],
                  "StenotypePath": shutil.which("stenotype"), "Interface": "tap0", "Port": 1234,
                  "Host": "127.0.0.1", "CertPath": f"{work}/certs",
                  # its watchdog takes a tap without a packet for a hang
                  "Flags": ["-v", "--uid=root", "--gid=root", "--no_watchdogs", f"--fileage_sec={FILE_AGE}",
                            f"--blockage_sec={BLOCK_AGE}", "--blocks=512"]}
        with open(f"{work}/config", "w") as f:
            json.dump(config, f)
        os.environ["STENOGRAPHER_CONFIG"] = f"{work}/config"
        b.run("stenokeys", "root", "root")
        self.log = f"{work}/log"
        with open(self.log, "w") as out:
            self.server = b.start(*b.within(lab.tap, "stenographer", "-config", f"{work}/config", "-syslog=false"),
                                  stdout=out, stderr=out, env=dict(os.environ, TMPDIR=work))
        b.until(lambda: "starting to process packets" in self.said(), 60, "stenotype's start")
        self.pids = [self.server.pid] + children(self.server.pid)

    def said(self):
        with open(self.log) as f:
            return f.read()

    def settle(self, sent):
        """Until a file is open that began after the last packet's block was, and all before it have an index."""
        last = (time.time() + BLOCK_AGE + 0.5) * 1e6

        def closed():
            names = {part: os.listdir(f"{self.work}/{part}") for part in ("packets", "index")}
            whole = [{n for n in names[part] if n[0] != "."} for part in names]
            return max(int(n.strip(".")) for n in names["packets"]) > last and whole[0] == whole[1]
        b.until(closed, 5 * FILE_AGE, "stenotype's closing of its file")
        drops = [int(line.split("drops=")[1].split()[0]) for line in self.said().splitlines() if "drops=" in line]
        if any(drops):
            sys.exit(f"bench: stenotype dropped {drops[-1]} of {sent} packets: lower BENCH_PPS")

    def bytes(self):
        """(packets, index)"""
        return [sum(e.stat().st_size for e in os.scandir(f"{self.work}/{part}")) for part in ("packets", "index")]

    def query(self, out):
        b.run(*b.within(self.lab.tap, "stenoread", NEEDLE, "-n", "-w", out))

    def end(self):
        """The server leaves stenotype to its init system."""
        for pid in self.pids[1:]:
            os.kill(pid, 15)
            try:
                b.until(lambda: not os.path.exists(f"/proc/{pid}/exe"), 5, "stenotype's end")
            except SystemExit:
                os.kill(pid, 9)
        b.stop(self.server)


class Packrack:
    name = "packrack"

    def __init__(self, lab, work):
        self.lab, self.work, self.volume = lab, work, f"{work}/volume"
        os.makedirs(work)
        b.run(f"{b.BUILD}/packrack", "volume", "create", self.volume, "--size", PACKETS * 400 + (256 << 20))
        quiet = dict(stdout=open(f"{work}/log", "w"), stderr=open(f"{work}/log", "a"))
        self.logger = b.start(*b.within(lab.tap, f"{b.BUILD}/packrack-logger", "--config", "/dev/null", "--tap",
                                        "tap0", "--volume", self.volume), **quiet)
        self.indexer = b.start(f"{b.BUILD}/packrack-indexer", "--config", "/dev/null", "--volume", self.volume,
                               "--merger", f"ipc://{work}/m", **quiet)
        b.until(lambda: all(w in open(f"{work}/log").read() for w in ("ready", "recording tap0")), 30,
                "the start of a logger and an indexer")
        self.pids = [self.logger.pid, self.indexer.pid]

    def report(self):
        """Exit status 3 says that packets are missing."""
        out = b.run(f"{b.BUILD}/packrack", "query", "--volume", self.volume, "--json", "--count", NEEDLE, check=False)
        return json.loads(out.stdout)["completeness"]

    def streams(self):
        found = json.loads(b.run(f"{b.BUILD}/packrack", "volume", "streams", self.volume, "--json").stdout)
        return {s["name"]: s["bytes"] for s in found["streams"]}

    def settle(self, sent):
        def all_there():
            report = self.report()
            if report["missing_packets"] or report["dropped_packets"]:
                sys.exit(f"bench: packrack dropped {report['missing_packets'] + report['dropped_packets']} "
                         f"of {sent} packets: lower BENCH_PPS")
            return report["packets_in_range"] >= sent
        b.until(all_there, 30, "the logger's last packet")
        time.sleep(INDEXED)

    def bytes(self):
        got = self.streams()
        packets = sum(n for name, n in got.items() if not name.startswith("index"))
        return packets, sum(got.values()) - packets

    def query(self, out):
        b.run(f"{b.BUILD}/packrack", "query", "--volume", self.volume, "--format", "pcap", "-w", out, NEEDLE)

    def end(self):
        b.stop(self.indexer)
        b.stop(self.logger)


def one_packet(path):
    return b.run("tcpdump", "-nr", path, "--count").stdout.split()[0] == "1"


def measured(system, trace, rate, out):
    try:
        return measure(system, trace, rate, out)
    finally:
        system.end()
        shutil.rmtree(system.work)
        b.clean()


def measure(system, trace, rate, out):
    figures = {}
    os.sync()  # the trace was just written, and so was the other one's store
    begin = cpu_ns(*system.pids)
    sent = system.lab.replay(trace, rate)
    system.settle(sent)
    figures["cpu"] = (cpu_ns(*system.pids) - begin) / PACKETS
    figures["packets"], figures["index"] = system.bytes()
    # its server looks for new files now and then
    b.until(lambda: system.query(out) or one_packet(out), 60, f"{system.name}'s first answer")
    for state in ("cold", "warm"):
        times = []
        for _ in range(SEVERAL):
            if state == "cold":
                b.cold()
            start = time.monotonic()
            system.query(out)
            times.append(time.monotonic() - start)
            if not one_packet(out):
                sys.exit(f"bench: {system.name} did not find the one packet")
        figures[state] = median(times)
    return figures


def compare(table, rate, ours, theirs):
    at = f"at {rate:,} packets/s"
    for what, unit, key in ((f"CPU of its programs, a packet taken, stored, indexed, {at}", "ns", "cpu"),
                            (f"found among {PACKETS:,} packets, cold, {at}", "s", "cold"),
                            (f"found among {PACKETS:,} packets, warm, {at}", "s", "warm"),
                            (f"packets on disk, {at}", "bytes", "packets"), (f"index on disk, {at}", "bytes", "index")):
        table.row(what, unit, ours[key], theirs.get(key), "Stenographer", less_is_better=True)


def main():
    table = b.Table("steno")
    mix = f"{b.DATA}/mix-gateway-full-a.pcap"
    if not os.path.exists(mix):
        sys.exit("bench: no captures: set PACKRACK_DATA")
    there = shutil.which("stenographer") and shutil.which("stenotype")
    if not there:
        print("stenographer is not installed (scripts/install-deps --bench)")
    with tempfile.TemporaryDirectory(prefix="packrack-steno-", dir=os.environ.get("BENCH_DIR")) as work:
        trace, out = f"{work}/grown.pcap", f"{work}/out.pcap"
        b.run(GROWER, "trace", mix, trace, PACKETS)
        for rate in RATES:
            ours = measured(Packrack(Lab(), f"{work}/p"), trace, rate, out)
            theirs = measured(Stenographer(Lab(), f"{work}/s"), trace, rate, out) if there else {}
            compare(table, rate, ours, theirs)
    table.write()


main()
