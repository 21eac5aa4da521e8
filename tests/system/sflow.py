#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An sFlow agent: sends each RATE-th packet of a trace, of two ports, in samples of both kinds, with counters between them.

usage: sflow.py PORT TRACE RATE [SKIP]    without each SKIP-th datagram
       sflow.py --sums FILE               of a csv of flows, or of nfdump's lines: the same sums as below

Prints the sums of each pair of ends over TCP and UDP, as the headers of IP tell: ends, protocol, packets, bytes; and to
standard error, how many samples there were, and how many of them were lost.
"""
import collections
import csv
import ipaddress
import socket
import struct
import sys
import time


def packets(path):
    data = open(path, "rb").read()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at < len(data):
        cap, length = struct.unpack_from(order + "8xII", data, at)
        yield data[at + 16:at + 16 + cap], length
        at += 16 + cap


def add(sums, ends, protocol, count, size):
    if protocol in (6, 17):
        of = sums.setdefault((tuple(sorted(ends)), protocol), [0, 0])
        of[0] += count
        of[1] += size


def see(sums, frame, rate):
    """Adds what the packet's own headers say."""
    at = 12
    while frame[at:at + 2] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    kind, ip = frame[at:at + 2], frame[at + 2:]
    if kind == b"\x08\x00" and len(ip) >= 20:
        protocol, size, addresses, body = ip[9], struct.unpack_from(">H", ip, 2)[0], (ip[12:16], ip[16:20]), ip[4 * (ip[0] & 15):]
        if struct.unpack_from(">H", ip, 6)[0] & 0x1fff:
            body = bytes(4)
    elif kind == b"\x86\xdd" and len(ip) >= 40:
        protocol, size, addresses, body = ip[6], struct.unpack_from(">H", ip, 4)[0] + 40, (ip[8:24], ip[24:40]), ip[40:]
    else:
        return
    ports = struct.unpack_from(">HH", body + bytes(4))
    add(sums, [(str(ipaddress.ip_address(a)), p) for a, p in zip(addresses, ports)], protocol, rate, size * rate)


def record(kind, body):
    body += bytes(-len(body) % 4)
    return struct.pack(">II", kind, len(body)) + body


def sample(number, source, rate, frame, length):
    frame = frame[:128]
    records = [record(1001, bytes(16)), record(1, struct.pack(">IIII", 1, length + 4, 4, len(frame)) + frame)]
    seen = number * rate
    if source % 2:
        kind, head = 1, struct.pack(">IIIIIIII", number, source, rate, seen, number // 100, source, 9, len(records))
    else:
        kind, head = 3, struct.pack(">IIIIIIIIIII", number, 0, source, rate, seen, 0, 0, source, 0, 9, len(records))
    return record(kind, head + b"".join(records))


def send(port, path, rate, skip):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    numbers, sums, datagrams, batch, lost = collections.Counter(), {}, [], [], 0
    for i, (frame, length) in enumerate(packets(path)):
        if i % rate:
            continue
        source = 1 + i // rate % 2
        numbers[source] += 1
        see(sums, frame, rate)
        batch.append(sample(numbers[source], source, rate, frame, length))
        if len(batch) == 7:
            datagrams.append(batch + [record(2, struct.pack(">III", len(datagrams), 1, 1) + record(1, bytes(88)))])
            batch = []
    datagrams.append(batch)
    for n, batch in enumerate(datagrams):
        if skip and n % skip == skip - 1 and 0 < n < len(datagrams) - 2:
            lost += 7
            continue
        head = struct.pack(">II4sIIII", 5, 1, bytes([192, 0, 2, 7]), 3, n + 1, n * 1000, len(batch))
        s.sendto(head + b"".join(batch), ("127.0.0.1", port))
        if n % 20 == 19:
            time.sleep(0.005)
    print(sum(numbers.values()), lost, file=sys.stderr)
    return sums


def read(path):
    sums = {}
    with open(path, encoding="ascii") as f:
        if f.readline().startswith("tcqtime"):
            f.seek(0)
            for r in csv.DictReader(f):
                add(sums, [(r["src_ip"], int(r["src_port"])), (r["dst_ip"], int(r["dst_port"]))], int(r["protocol"]),
                    int(r["packets_sent"]) + int(r["packets_recv"]), int(r["bytes_sent"]) + int(r["bytes_recv"]))
        else:
            f.seek(0)
            for line in f:
                a, b, p, q, protocol, count, size = (x.strip() for x in line.split(","))
                add(sums, [(a, int(p)), (b, int(q))], int(protocol), int(count), int(size))
    return sums


def main():
    args = sys.argv[1:]
    sums = read(args[1]) if args[0] == "--sums" else send(int(args[0]), args[1], int(args[2]), int((args + ["0"])[3]))
    for (ends, protocol), of in sorted(sums.items()):
        print(*ends[0], *ends[1], protocol, *of)


main()
