#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who talked most, second by second: packets from the rack, taken apart by scapy, counted by pandas.

    talkers.py [-m ENDPOINT] [--since TIME] [--until TIME] [--limit N] [FILTER]

Without scapy addresses are read by hand, IPv4 on Ethernet only; without pandas a plain count is
printed.
"""
import argparse
import collections
import socket
import sys

import packrack

try:
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Ether
except ImportError:
    Ether = None
try:
    import pandas
except ImportError:
    pandas = None


def ends(packet):
    """(source, destination) of an IP packet, or None."""
    if Ether:
        frame = Ether(packet.data)
        ip = frame.getlayer(IP) or frame.getlayer(IPv6)
        return (ip.src, ip.dst) if ip else None
    if packet.data[12:14] != b"\x08\x00" or packet.caplen < 34:
        return None
    return socket.inet_ntoa(packet.data[26:30]), socket.inet_ntoa(packet.data[30:34])


def rows(answer):
    for packet in answer:
        pair = ends(packet) if packet.linktype == 1 else None
        if pair:
            yield packet.time, *pair, packet.len


def with_pandas(answer):
    frame = pandas.DataFrame(rows(answer), columns=["time", "source", "destination", "bytes"])
    frame["time"] = pandas.to_datetime(frame["time"], utc=True)
    print(frame.groupby(["source", "destination"])["bytes"].agg(["count", "sum"])
          .sort_values("sum", ascending=False).head(10))
    print(frame.set_index("time")["bytes"].resample("1s").sum().describe())


def without(answer):
    totals = collections.Counter()
    for _, source, destination, length in rows(answer):
        totals[source, destination] += length
    for (source, destination), total in totals.most_common(10):
        print("%-16s %-16s %10d" % (source, destination, total))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("-m", "--merger")
    p.add_argument("--since")
    p.add_argument("--until")
    p.add_argument("--limit", type=int, default=0)
    p.add_argument("filter", nargs="?", default="ip or ip6")
    a = p.parse_args()
    try:
        with packrack.connect(a.merger) as rack:
            answer = rack.query(a.filter, since=a.since, until=a.until, limit=a.limit)
            (with_pandas if pandas else without)(answer)
            print(answer.completeness)
    except packrack.Error as e:
        sys.exit("talkers: %s" % e)
    return 0 if answer.completeness.complete else 3


if __name__ == "__main__":
    sys.exit(main())
