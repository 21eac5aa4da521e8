#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""All of it at once on one machine: a rack of four records a real mix at BENCH_RATE (150,000/s, the rate of bench-rack) for BENCH_SECONDS
(60), while its flows are kept, five watches report on each second of them, a collector takes records of IPFIX (20,000/s), and SQL
and look-ups are asked all the time; these at nice 10, as somebody would who cares for the packets. What was lost, of frames,
records and windows; what is in the flows against what was captured; the rate again without all this.
"""
import json
import os
import re
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b
import collect
import racklib

RATE, SECONDS = int(os.environ.get("BENCH_RATE", "150000")), int(os.environ.get("BENCH_SECONDS", "60"))
EXPORTED = 20000  # records/s
MIX = os.path.join(b.DATA, "mix-gateway-full-a.pcap")
ANALYSES = ("elephants", "mice", "portscans", "anomaly", "dispersion")
SUMS = "select src_ip, sum(bytes_sent) s from flows group by 1 order by 2 desc limit 10"


class Beside:
    def __init__(self, lab):
        self.lab, self.done, self.asked, self.exported = lab, False, {"SQL": 0, "look-ups": 0}, 0
        self.kept, self.collected, self.state, watches = (f"{lab.dir}/{name}" for name in ("kept", "collected", "state", "watches"))
        for volume in (self.kept, self.collected):
            lab.packrack("volume", "create", volume, "--size", "1G")
        os.mkdir(self.state)
        os.mkdir(watches)
        for name in ANALYSES:
            with open(f"{b.BUILD}/watch.d/{name}.watch", encoding="utf-8") as f, open(f"{watches}/{name}.watch", "w", encoding="utf-8") as to:
                to.write(f.read().replace("[watch]", f"[watch]\nkept = {self.kept}\ndelay = 30s", 1).replace("window = 60s", "window = 1s"))
        self.programs = [self.start("flows", "--keep", self.kept, "--follow", "--every", "2s"),
                         self.start("collect", "--listen", f"127.0.0.1:{collect.PORT}", "--keep", self.collected)]
        b.until(collect.listening, 30, "the collector's start")
        self.threads = [threading.Thread(target=t, args=a) for t, a in (
            (self.ask, ("SQL", "sql", "--kept", self.kept, SUMS)), (self.ask, ("look-ups", "query", "--count", "--since", "10 seconds ago", "host 192.168.170.8")),
            (self.export, (collect.ipfix(), lab.packrack("flows", "-r", MIX, "--format", "json").stdout.count("\n"))))]
        for t in self.threads:
            t.start()
        time.sleep(5)
        self.programs.append(self.start("watch", "run", "--watches", watches, "--state", self.state))

    def start(self, *words):
        return b.start("nice", "-n", "10", f"{b.BUILD}/packrack", *words, env=self.lab.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(self, what, *words):
        while not self.done:
            self.asked[what] += b.run("nice", "-n", "10", f"{b.BUILD}/packrack", *words, env=self.lab.env, check=False).returncode in (0, 3)
            time.sleep(0.2)

    def export(self, messages, records):
        """These have so many records; their numbers go on from round to round."""
        numbers = [struct.unpack_from(">I", m, 8)[0] for m in messages]
        s = collect.socket.socket(collect.socket.AF_INET, collect.socket.SOCK_DGRAM)
        s.connect(("127.0.0.1", collect.PORT))
        begun, at = time.monotonic(), 0
        while not self.done:
            number = at // len(messages) * records + numbers[at % len(messages)]
            m = bytearray(messages[at % len(messages)])
            struct.pack_into(">I", m, 8, number & 0xffffffff)
            s.send(m)
            at, self.exported = at + 1, number
            time.sleep(max(0, begun + number / EXPORTED - time.monotonic()))

    def end(self):
        self.done = True
        for t in self.threads:
            t.join()
        time.sleep(45)  # a keeper that is behind, or of a quiet rack, takes windows of 12 s; the watches wait for 30
        for p in self.programs:
            b.stop(p, timeout=60)


def measure(lab, seconds):
    before, whole = {n: b.cpu_seconds(p) for n, p in lab.pids().items()}, b.machine_seconds()
    sent = lab.flood(RATE, RATE * seconds, MIX)
    cpu = {n: b.cpu_seconds(p) - before[n] for n, p in lab.pids().items()}
    return sent, b.machine_seconds() - whole, sum(cpu.values())


def lost(table, lab, what, sent):
    lab.rack("drain", "--timeout", 120, "--keep-running")
    got = lab.answer()
    table.row(f"{what}: frames offered", "a second", sent["rate"])
    table.row(f"{what}: lost", f"of {sent['accepted']:,}", sent["accepted"] + lab.others() - got["matched"])
    return got


def main():
    table = b.Table("beside")
    b.backlog()
    with racklib.Rack(4, size="4G") as lab:
        sent, machine, rack = measure(lab, 10)
        lost(table, lab, "the rack alone", sent)
        table.row("the rack alone: CPU of the machine, sender and switch included", "cores", machine / sent["seconds"], rack / sent["seconds"], "the rack's programs")
    with racklib.Rack(4, size="4G") as lab:
        beside = Beside(lab)
        sent, machine, rack = measure(lab, SECONDS)
        beside.end()
        got = lost(table, lab, "beside all of it", sent)
        table.row("beside all of it: CPU of the machine", "cores", machine / sent["seconds"], rack / sent["seconds"], "the rack's programs")
        sums = lab.packrack("sql", "--kept", beside.kept, "--format", "csv", "select sum(packets_sent + packets_recv), count(*) from flows").stdout.split("\n")[1].split(",")
        said = lab.packrack("flows", "--format", "csv").stderr
        table.row("packets in the flows that were kept", f"of {got['matched']:,} captured", int(sums[0]), int(re.search(r"(\d+) of them not IP", said)[1]), "not IP")
        table.row("flows that were kept", "", int(sums[1]))
        for name in ANALYSES:
            with open(f"{beside.state}/{name}.jsonl", encoding="utf-8") as f:
                reports = [json.loads(line) for line in f]
            table.row(f"{name}: windows of a second reported", "", len(reports), sum(r["live"]["status"] == 0 for r in reports), "with all flows of theirs: not those before any were kept")
        x = json.loads(lab.packrack("collect", "--keep", beside.collected, "--exporters", "--json").stdout)["exporters"][0]
        table.row("records that the collector took", "", x["flows"], beside.exported, "sent")
        table.row("records that the collector missed, by its count", "", x["lost"])
        for what, count in beside.asked.items():
            table.row(f"answers meanwhile: {what}", "", count)
    table.write()


if __name__ == "__main__":
    main()
