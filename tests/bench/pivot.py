#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""From an alert to its packets, on a rack of three nodes that captures a real mix at BENCH_RATE packets/s (5,000):

talks   BENCH_TALKS (200) connections of TCP of the lab's hosts, each for about a second. In the midst of each an alert is written to
        an eve.json that `packrack pivot --follow` reads, as its packet is sent. How long after the ledger's confirmation of that packet it
        is in the file; how long after that of the connection's last packet the file is finished. A packet is confirmed when a
        query up to its time, asked at once, is answered as complete.
burst   1,000 alerts of 1,000 connections at once.
peer    What is done without packrack: tcpdump records the same tap as Suricata's pcap-log does (files of 32 MB), and for an alert a
        script searches those files that may have it, by tcpdump and its filter. The same alerts, one after the other.

All programs run on this one machine."""

import concurrent.futures
import json
import os
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b
import queries
import racklib

sys.path.insert(0, f"{b.BUILD}/python")
import packrack  # noqa: E402

RATE = int(os.environ.get("BENCH_RATE", "5000"))
TALKS = int(os.environ.get("BENCH_TALKS", "200"))
PORT, SEARCHED = 7800, 40
BURST = 1000

SERVER = """import socket, sys, threading
def serve(c):
    while c.recv(100):
        c.send(b"answer")
    c.close()
s = socket.create_server(("192.0.2.2", int(sys.argv[1])), backlog=100)
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()"""
# prints the port and the time in the midst of each: a NIDS would raise an alert
TALKER = """import socket, sys, threading, time
def talk():
    s = socket.create_connection(("192.0.2.2", int(sys.argv[1])), 10)
    name = s.getsockname()[1]
    for i in range(10):
        if i == 5:
            sys.stdout.write("%d %d\\n" % (name, time.time_ns()))
        s.send(b"x" * 100)
        s.recv(100)
        time.sleep(0.1)
    s.close()
    sys.stdout.write("%d %d\\n" % (-name, time.time_ns()))
for _ in range(int(sys.argv[2])):
    threading.Thread(target=talk).start()
    time.sleep(0.25)"""
DATAGRAMS = """import socket, sys, time
for port in range(20000, 20000 + int(sys.argv[1])):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("0.0.0.0", port))
    print(port, time.time_ns(), flush=True)
    s.sendto(b"x" * 50, ("192.0.2.2", 7777))
    s.close()"""


def inside(lab, host, text, *words, **kw):
    return b.start(racklib.RACK, "exec", "-d", lab.dir, host, "python3", "-uc", text, *words, env=lab.env, stdout=subprocess.PIPE, **kw)


def alert(port, ns, proto, to):
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ns // 10**9)) + ".%06d+0000" % (ns % 10**9 // 1000)
    return json.dumps({"timestamp": at, "event_type": "alert", "src_ip": "192.0.2.1", "src_port": port, "dest_ip": "192.0.2.2", "dest_port": to,
                       "proto": proto, "alert": {"signature_id": 1}}) + "\n"


def packets_of(data):
    """(ns, frame) of the packets of a pcapng that may end within a block, and how many bytes these are"""
    at, packets = 0, []
    while at + 28 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if size < 12 or at + size > len(data):
            break
        if kind == 6:
            high, low, caplen = struct.unpack_from("<III", data, at + 12)
            packets.append((high << 32 | low, data[at + 28:at + 28 + caplen]))
        at += size
    return packets, at


def confirmed_at(rack, port, ns):
    """ns at which a question up to that time is answered"""
    answer = rack.query(f"tcp port {PORT} and port {port}", since=ns - 10**9, until=ns)
    list(answer)
    return time.time_ns() if answer.completeness.complete else sys.exit("bench: an answer is not complete")


class Files(threading.Thread):
    """When each file of pivot has its first packet, and the alerting one: by port"""

    def __init__(self, folder, alerts):
        super().__init__(daemon=True)
        self.folder, self.alerts, self.first, self.has, self.done = folder, alerts, {}, {}, False

    def run(self):
        while not self.done:
            for name in os.listdir(self.folder):
                port = next((p for p in list(self.alerts) if f".{p}-" in name or name.endswith(f".{p}.pcapng")), None)
                if port is None or port in self.has or not name.endswith(".pcapng"):
                    continue
                with open(f"{self.folder}/{name}", "rb") as f:
                    times = [ns for ns, _ in packets_of(f.read())[0]]
                if times:
                    self.first.setdefault(port, time.time_ns())
                if any(t >= self.alerts[port] for t in times):
                    self.has[port] = time.time_ns()
            time.sleep(0.002)


def row(table, what, values, unit="ms", peer=None):
    values = sorted(values)
    for name, share in (("half within", .5), ("90 of 100 within", .9), ("longest", 1)):
        theirs = sorted(peer)[min(len(peer) - 1, int(len(peer) * share))] if peer else None
        table.row(f"{what}, {name}", unit, values[min(len(values) - 1, int(len(values) * share))], theirs, peer and "a search of rotated files", True)


def talks(table, lab, rack, work):
    """Port -> time of the alert; and of each: ms to its packets, for the peer's rows"""
    alerts, finished, eve = {}, {}, open(f"{work}/eve.json", "w", encoding="utf-8")
    os.mkdir(f"{work}/files")
    files, sure, ends = Files(f"{work}/files", alerts), {}, {}
    files.start()
    pivot = b.start(f"{b.BUILD}/packrack", "pivot", "--eve", f"{work}/eve.json", "--follow", "-w", f"{work}/files", "--before", "20s", "--json",
                    env=lab.env, stdout=subprocess.PIPE)

    def lines():
        for line in pivot.stdout:
            told = json.loads(line)
            finished[int(told["connection"].split()[1].rpartition(".")[2])] = (time.time_ns(), told["status"], told["packets"])
    threading.Thread(target=lines, daemon=True).start()
    server = inside(lab, "hostb", SERVER, PORT)
    server.stdout.readline()
    time.sleep(1)
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        for line in inside(lab, "hosta", TALKER, PORT, TALKS).stdout:
            port, ns = map(int, line.split())
            if port > 0:
                alerts[port] = ns
                eve.write(alert(port, ns, "TCP", PORT))
                eve.flush()
            # the packet goes out within a millisecond; the last one is the answer to the other end's FIN
            (sure if port > 0 else ends)[abs(port)] = threads.submit(confirmed_at, rack, abs(port), ns + 10**6)
    b.until(lambda: len(finished) >= TALKS, 60, "the file of each alert")
    time.sleep(0.5)
    files.done = True
    for p in (pivot, server):
        b.stop(p)
    bad = sum(status != "complete" or packets != rack.count(f"tcp port {PORT} and port {port}").matched
              for port, (_, status, packets) in finished.items())
    table.row("alerts of connections: files that are partial, or lack a packet", f"of {len(finished)}", bad)
    first = [(files.has[p] - sure[p].result()) / 1e6 for p in alerts]
    whole = [(finished[p][0] - ends[p].result()) / 1e6 for p in alerts]
    row(table, "from the packet to its confirmation", [(sure[p].result() - ns) / 1e6 for p, ns in alerts.items()])
    row(table, "from the confirmation of the alerting packet to its being in the file", first)
    row(table, "from the confirmation of the last packet to the finished file", whole)
    return alerts, {p: (files.first[p] - alerts[p]) / 1e6 for p in alerts}, {p: (finished[p][0] - alerts[p]) / 1e6 for p in alerts}


def burst(table, lab, work):
    sent = inside(lab, "hosta", DATAGRAMS, BURST).stdout.read().split("\n")
    with open(f"{work}/burst.json", "w", encoding="utf-8") as f:
        f.writelines(alert(*map(int, line.split()), "UDP", 7777) for line in sent if line)
    lab.packrack("query", "--count", "udp src portrange 20000-20999")  # all are stored
    begin = time.monotonic()
    out = b.run(f"{b.BUILD}/packrack", "pivot", "--eve", f"{work}/burst.json", "-w", f"{work}/burst", "--before", "1s", "--after", "0s", "--json",
                env=lab.env, check=False).stdout
    took = time.monotonic() - begin
    told = [json.loads(line) for line in out.splitlines()]
    table.row("a burst of alerts: complete, with their packet", f"of {BURST}", sum(t["complete"] and t["packets"] == 1 for t in told))
    table.row("a burst of alerts: all served", "s", took)
    return took / BURST


def search(folder, port, ns, out):
    """ms to the first packet, and to the finished file: what is recorded by now of the connection, from 20 s before"""
    begin, first = time.monotonic(), None
    expression = f"host 192.0.2.1 and host 192.0.2.2 and port {port}"
    files = sorted((os.stat(f"{folder}/{name}").st_mtime, name) for name in os.listdir(folder))
    for mtime, name in files:
        if mtime * 1e9 < ns - 20 * 10**9:
            continue
        with subprocess.Popen(["tcpdump", "-Z", "root", "-U", "-r", f"{folder}/{name}", "-w", "-", expression], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as p, open(out, "ab") as to:
            while data := p.stdout.read1(1 << 16):
                if len(data) > 24 and first is None:
                    first = 1000 * (time.monotonic() - begin)
                to.write(data)
    return first, 1000 * (time.monotonic() - begin)


def main():
    if not os.path.exists(queries.MIX):
        sys.exit(f"bench: no {queries.MIX}: set PACKRACK_DATA")
    table = b.Table("pivot")
    b.backlog()
    with racklib.Rack(3, size="4G") as lab:
        work = lab.dir
        os.mkdir(f"{work}/rotated")
        recorder = b.start(racklib.RACK, "exec", "-d", lab.dir, "dispatcher", "tcpdump", "-i", "tap0", "-Q", "in", "-B", "32768", "-U", "-C", "32",
                           "-Z", "root", "-w", f"{work}/rotated/log.pcap", env=lab.env, stderr=subprocess.DEVNULL)
        traffic = queries.Traffic(lab, RATE)
        time.sleep(25)  # so that there is a past to search
        with packrack.connect(lab.env["PACKRACK_MERGER"], key=lab.env["PACKRACK_KEY"]) as rack:
            alerts, first, whole = talks(table, lab, rack, work)
        each = burst(table, lab, work)
        chosen = [p for p in list(alerts)[-SEARCHED:]]
        found = [search(f"{work}/rotated", p, alerts[p], f"{work}/found.pcap") for p in chosen]
        row(table, "from the alert to the first packet in the file", [first[p] for p in chosen], peer=[f or w for f, w in found])
        table.row("a burst of alerts: each", "ms", 1000 * each, sum(w for _, w in found) / len(found), "a search of rotated files", True)
        table.row("searches that found nothing", f"of {len(found)}", sum(f is None for f, _ in found))
        traffic.stop()
        b.stop(recorder)
    table.write()


if __name__ == "__main__":
    main()
