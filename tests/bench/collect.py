#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU of taking NetFlow 9 and IPFIX, against nfcapd: the same messages, one collector after the other, in turn.

make bench-collect
The messages are nfreplay's (version 9) and packrack's own (IPFIX) of a trace, sent again and again with numbers that go
on. CPU is that of the collector alone, user and system, from when it has started up to its end; both write files: ours
compressed (zstd), nfcapd as Debian starts it, without, and with LZO (-z) and LZ4 (-y). Equal: nothing is lost, as both count.
"""
import json
import os
import re
import resource
import signal
import socket
import statistics
import struct
import subprocess
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get("PACKRACK_BUILD", "build"))
DATA = os.path.join(TOP, os.environ.get("PACKRACK_DATA", "../shared/data"))
PACKRACK = BUILD + "/packrack"
TRACE = DATA + "/mix-gateway-full-a.pcap"
PORT = 23055
RECORDS = 1000000
ROUNDS = 5


def listening():
    return subprocess.run(["ss", "-Hlun", "sport = :%d" % PORT], stdout=subprocess.PIPE, check=True).stdout


def capture(words):
    """The messages that a sender sends to us."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    s.bind(("127.0.0.1", PORT))
    s.settimeout(1)
    messages = []

    def take():
        try:
            while True:
                messages.append(s.recv(65536))
        except socket.timeout:
            s.close()
    t = threading.Thread(target=take)
    t.start()
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    t.join()
    return messages


def netflow9(folder):
    subprocess.run(["nfpcapd", "-r", TRACE, "-w", folder, "-e", "3600,1200", "-t", "86400"], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)
    name = [n for n in os.listdir(folder) if n.startswith("nfcapd.2")][0]
    return capture(["nfreplay", "-r", folder + "/" + name, "-H", "127.0.0.1", "-p", str(PORT), "-v", "9", "-d", "100"])


def ipfix():
    data = subprocess.run([PACKRACK, "flows", "-r", TRACE, "--format", "ipfix"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    messages, at = [], 0
    while at < len(data):
        n = struct.unpack_from(">H", data, at + 2)[0]
        messages.append(data[at:at + n])
        at += n
    return messages


def send(messages, records, version):
    """Messages of one round have so many records; sends rounds, and returns how many."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("127.0.0.1", PORT))
    rounds, sent, begun = -(-RECORDS // records) if records else 1, 0, time.monotonic()
    for r in range(rounds):
        for i, m in enumerate(messages):
            m = bytearray(m)
            if version == 9:
                struct.pack_into(">I", m, 12, r * len(messages) + i + 1)
            else:
                struct.pack_into(">I", m, 8, (struct.unpack_from(">I", m, 8)[0] + r * records) & 0xffffffff)
            s.send(m)
            sent += 1
            if sent % 50 == 0:  # 20,000 messages a second
                time.sleep(max(0, begun + sent / 20000 - time.monotonic()))
    return rounds


def used(pid):
    """CPU seconds of all its threads."""
    ns = 0
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, thread), encoding="ascii") as f:
            ns += int(f.read().split()[0])
    return ns / 1e9


def collect(words, messages, records, version):
    """CPU seconds, and how many rounds were sent."""
    p = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not listening():
        time.sleep(0.05)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start, last = used(p.pid), -1
    while start != last:  # it starts: memory, files
        time.sleep(0.2)
        start, last = used(p.pid), start
    rounds = send(messages, records, version)
    time.sleep(1.5)
    p.send_signal(signal.SIGTERM)
    p.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - start, rounds


def ours(folder, messages, records, version):
    subprocess.run([PACKRACK, "volume", "create", folder + "/v", "--force", "--size", "256M"], check=True, stdout=subprocess.DEVNULL)
    cpu, rounds = collect([PACKRACK, "collect", "--listen", "127.0.0.1:%d" % PORT, "--keep", folder + "/v"], messages, records, version)
    x = json.loads(subprocess.run([PACKRACK, "collect", "--keep", folder + "/v", "--exporters", "--json"], stdout=subprocess.PIPE,
                                  check=True).stdout)["exporters"][0]
    assert x["lost"] == 0 and x["bad"] == 0 and (not records or x["flows"] == rounds * records), (x, rounds, records)
    return cpu, x["flows"]


def theirs(folder, messages, records, version, *options):
    for name in os.listdir(folder + "/out"):
        os.unlink(folder + "/out/" + name)
    cpu, _ = collect(["nfcapd", "-b", "127.0.0.1", "-p", str(PORT), "-w", folder + "/out", "-B", str(32 << 20), *options], messages, records, version)
    text = subprocess.run(["nfdump", "-R", folder + "/out", "-I"], stdout=subprocess.PIPE, check=True, text=True).stdout
    return cpu, sum(int(n) for n in re.findall(r"^Flows: (\d+)", text, re.M))


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(folder + "/nf")
        os.mkdir(folder + "/out")
        for version, messages in ((9, netflow9(folder + "/nf")), (10, ipfix())):
            records = ours(folder, messages, 0, version)[1]
            cpu = {"packrack collect": [], "nfcapd": [], "nfcapd -z": [], "nfcapd -y": []}
            for _ in range(ROUNDS):
                for name, of in cpu.items():
                    used, flows = ours(folder, messages, records, version) if name == "packrack collect" else \
                        theirs(folder, messages, records, version, *name.split()[1:])
                    of.append(used / flows * 1e6)
                    print("  %s: %d records" % (name, flows), flush=True)
            own, *peers = (statistics.median(c) for c in cpu.values())
            for name, peer in zip(list(cpu)[1:], peers):
                print("version %d: packrack collect %.3f us of CPU a record, %s %.3f: %.2f times (medians of %d)" % (version, own, name, peer, own / peer, ROUNDS))


if __name__ == "__main__":
    main()
