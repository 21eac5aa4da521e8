#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench-summaries: the paper's test of scalability (Hyperion, section 7.4): twenty monitors record from
trace files, and what their indexes cost the network between them is measured, by second of trace time.

Twenty volumes take a trace that is grown from a real capture (each lap has hosts and ports of its own), at
110,000 packets/s of trace time, and each has its indexer. One merger takes four of them, as a
cluster's head of the paper does; another takes all twenty, where the paper's net head takes five
aggregates. Both count what nodes send them, and what these send each second when nothing is new is
added. Bytes by second of trace time do not depend on how long the import takes.
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time

from grow import records

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RATE = 110000  # packets/s of each link, as in the paper
LEAVES = 4  # of a cluster
PAPER = {"leaf": 102, "cluster head": 408, "net head": 510}  # KB/s


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


class Lab:
    def __init__(self, build, top):
        self.build, self.dir, self.pids = build, top, []

    def start(self, program, *args):
        log = open(os.path.join(self.dir, "log"), "a", encoding="utf-8")
        self.pids.append(subprocess.Popen([os.path.join(self.build, program), *args], stdout=log, stderr=log))

    def stop(self):
        for p in self.pids:
            p.terminate()
        for p in self.pids:
            p.wait(timeout=20)

    def endpoint(self, name):
        return "ipc://%s/%s.sock" % (self.dir, name)

    def status(self, name):
        out = subprocess.run([os.path.join(self.build, "packrack"), "status", "--json", "-m", self.endpoint(name)],
                             capture_output=True, text=True, timeout=30, check=False).stdout
        return json.loads(out) if out.strip() else {"nodes": [], "merger": {}}

    def settled(self, name, count):
        nodes = self.status(name)["nodes"]
        return len(nodes) == count and all(n["summaries"] and n["summaries"] == n["summaries_here"] for n in nodes)


def wait(lab, name, count):
    end = time.monotonic() + 60
    while not lab.settled(name, count):
        if time.monotonic() > end:
            sys.exit("bench-summaries: no summaries within a minute: %s" % lab.status(name)["merger"])
        time.sleep(0.2)


def sent(lab, name):
    return sum(n["summary_bytes"] for n in lab.status(name)["nodes"])


def measure(lab, name, seconds):
    """KB/s into a merger: for summaries by second of trace time, and what is sent without news."""
    before, then = sent(lab, name), time.monotonic()
    time.sleep(5)  # of which it measures what is said
    idle = (sent(lab, name) - before) / (time.monotonic() - then)
    return (before / seconds + idle) / 1000


def renew(data, lap):
    """Another host and port in each lap, at both ends: as many new ones as the capture itself has."""
    if data[12:14] != b"\x08\x00" or len(data) < 34 or not lap:
        return data
    b = bytearray(data)
    for at in (28, 32):  # the lower halves of the addresses
        struct.pack_into(">H", b, at, struct.unpack_from(">H", b, at)[0] ^ (lap * 257 & 0xFFFF))
    head = 14 + 4 * (b[14] & 15)
    if b[23] in (6, 17) and len(b) >= head + 4:
        for at in (head, head + 2):
            port = struct.unpack_from(">H", b, at)[0]
            if port >= 1024:
                struct.pack_into(">H", b, at, 1024 + (port - 1024 + lap * 7919) % 64512)
    return bytes(b)


def grow(capture, packets, path):
    head, recs = records(capture)
    recs.sort(key=lambda r: r[0])
    with open(path, "wb", 1 << 20) as f:
        f.write(head)
        for i in range(packets):
            lap, at = divmod(i, len(recs))
            _, length, data = recs[at]
            data = renew(data, lap)
            t = 1700000000 * 1000000 + i * 1000000 // RATE
            f.write(struct.pack("<IIII", t // 1000000, t % 1000000, len(data), length) + data)
    return len(recs)


def grow_and_import(lab, a):
    trace = os.path.join(lab.dir, "trace.pcap")
    laps = a.packets / grow(a.capture, a.packets, trace)
    print("%d packets of each link: %.1f laps of %s" % (a.packets, laps, os.path.basename(a.capture)))
    size = "%dM" % (os.path.getsize(trace) * 3 // 2 // 1000000 + 64)
    lab.start("packrack-merger", "--listen", lab.endpoint("net"))
    lab.start("packrack-merger", "--listen", lab.endpoint("cluster"))
    for i in range(a.nodes):
        volume = os.path.join(lab.dir, "v%d" % i)
        run(os.path.join(a.build, "packrack"), "import", trace, "--volume", volume, "--create", size)
        mergers = ["--merger", lab.endpoint("net")]
        if i < LEAVES:
            mergers += ["--merger", lab.endpoint("cluster")]
        lab.start("packrack-indexer", "--volume", volume, "--name", "leaf%d" % i, *mergers)


def compare(lab, a, seconds):
    wait(lab, "cluster", LEAVES)
    wait(lab, "net", a.nodes)
    cluster, net = measure(lab, "cluster", seconds), measure(lab, "net", seconds)
    ours = [("leaf sends", cluster / LEAVES, "leaf"), ("cluster head takes, of %d leaves" % LEAVES, cluster, "cluster head"),
            ("net head takes, of all %d" % a.nodes, net, "net head")]
    return [{"what": what, "unit": "KB/s", "ours": round(value, 1), "peer": PAPER[who], "peer_name": "Hyperion",
             "ratio": round(PAPER[who] / value, 2)} for what, value, who in ours]


def main():
    p = argparse.ArgumentParser(description="what summaries cost the network, beside the paper's figures")
    p.add_argument("--build", default=os.path.join(TOP, "build"))
    p.add_argument("--nodes", type=int, default=20)
    p.add_argument("--packets", type=int, default=1100000, help="of each link: ten seconds of it")
    data = os.environ.get("PACKRACK_DATA", os.path.join(TOP, "../shared/data"))
    p.add_argument("--capture", default=os.path.join(data, "mix-gateway-hdr96-a.pcap"))
    a = p.parse_args()
    seconds = a.packets / RATE
    with tempfile.TemporaryDirectory(prefix="packrack-bench.") as top:
        lab = Lab(a.build, top)
        try:
            grow_and_import(lab, a)
            rows = compare(lab, a, seconds)
        finally:
            lab.stop()
    out = os.path.join(a.build, "bench")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "summaries.json"), "w", encoding="utf-8") as f:
        json.dump({"name": "summaries", "machine": os.uname().nodename, "rows": rows}, f, indent=1)
    for r in rows:
        print("%6.1f x  %-38s %9.1f KB/s, %s %d KB/s" % (r["ratio"], r["what"], r["ours"], r["peer_name"], r["peer"]))
    return 0 if all(r["ratio"] > 1 for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
