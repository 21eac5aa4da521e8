#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packets as a tap aggregator hands them on, with the time behind each one.

usage: trailers.py send IFACE FIRST COUNT BEHIND_MS FILE    sends them, numbered from FIRST on; FILE gets number and time of each; every 50th has no trailer
       trailers.py check TRACE FILE                   the packets of a trace have exactly these times
"""
import os
import random
import socket
import struct
import subprocess
import sys
import time

MARK = b"trailers"


def trailer(kind, ns):
    second, part = divmod(ns, 10 ** 9)
    if kind == "metamako":
        return struct.pack(">IIIBHB", 0x12345678, second, part, 0, 7, 3)
    part = (part << 40) // 10 ** 9 + (1 if (part << 40) % 10 ** 9 else 0)
    return struct.pack(">IBBIBIB", 0x12345678, 7, 3, second, part >> 32, part & 0xffffffff, 0)


def send(iface, first, count, behind, path):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    s.bind((iface, 0))
    rng = random.Random(5)
    with open(path, "w", encoding="utf-8") as f:
        for n in range(first, first + count):
            now = time.time_ns() - int(behind * 1e6)
            head = bytes.fromhex("020000000001020000000002") + b"\x08\x00" + bytes(20) + MARK + struct.pack(">I", n)
            data = head + rng.randbytes(rng.randrange(12, 900))
            if n % 50 == 49:
                f.write("%d 0 %d\n" % (n, now + int(behind * 1e6)))
            else:
                data += trailer(("metamako", "exablaze")[n & 1], now) + (rng.randbytes(4) if n & 2 else b"")
                f.write("%d %d\n" % (n, now))
            s.send(data)
            if n % 500 == 250:  # a silence, after which what came before is confirmed
                time.sleep(0.2)


def check(trace, path):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import traces
    plain = trace + ".pcap"
    subprocess.run(["tshark", "-F", "nsecpcap", "-r", trace, "-w", plain], check=True, stderr=subprocess.DEVNULL)
    with open(path, encoding="utf-8") as f:
        wanted = {int(w[0]): [int(x) for x in w[1:]] for w in map(str.split, f)}
    first = min(wanted)
    wrong = 0
    for p in traces.Trace(plain):
        at = bytes(p.data).find(MARK)
        if at < 0:
            continue
        n = struct.unpack(">I", p.data[at + 8:at + 12])[0]
        if n < first:
            continue
        want = wanted.pop(n)
        # one without a trailer has the kernel's time
        good = p.time == want[0] if len(want) == 1 else want[1] <= p.time < want[1] + 10 ** 9
        if not good:
            wrong += 1
            print("packet %d: time %d, wanted %s" % (n, p.time, want))
    print("%d not there, %d wrong" % (len(wanted), wrong))
    return 1 if wanted or wrong else 0


def main():
    if sys.argv[1] == "send":
        send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), sys.argv[6])
        return 0
    return check(sys.argv[2], sys.argv[3])


if __name__ == "__main__":
    sys.exit(main())
