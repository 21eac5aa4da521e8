#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do two traces hold the same packets? Exit 0 if so, 1 if not, 2 on bad usage.

Compared are bytes, captured and original length, time (ns) and order. Nothing is taken on trust
from the programs under test: the readers are our own (traces.py).
"""
import os
import argparse
import heapq
import itertools
import json
import sys

import traces


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("expected", nargs="+", help="trace(s) as captured; several are links 0, 1, ...")
    p.add_argument("actual", help="trace to hold against them")
    p.add_argument("--order", choices=("file", "otime"), default="file",
                   help="how several expected traces interleave: one after the other, or by order time")
    p.add_argument("--times", choices=("ns", "us", "ignore"), default=os.environ.get("PACKRACK_TIMES", "ns"))
    p.add_argument("--allow-missing", metavar="LIST.json",
                   help='packets that may be missing: {"ranges": [{"link": L, "first_seq": A, '
                        '"last_seq": B, "count": N}]}; seqs from 1')
    p.add_argument("--by-connection", action="store_true", help="order counts among the packets of one side of a connection")
    p.add_argument("--snaplen", type=int, help="expected packets are cut to this")
    p.add_argument("--show", type=int, default=5, help="differences to print")
    p.add_argument("-q", "--quiet", action="store_true")
    return p.parse_args()


def ordered(path, link):
    """(otime, link, seq, packet): the running maximum of times keeps the place of each."""
    otime = None
    for seq, packet in enumerate(traces.Trace(path), 1):
        if packet.time is not None:
            otime = packet.time if otime is None else max(otime, packet.time)
        yield otime, link, seq, packet


def side(packet):
    """Whose it is, of which connection."""
    data = packet.data
    return data[6:14] + (data[23:24] + data[26:38] if data[12:14] == b"\x08\x00" else data[20:58])


def expected(args):
    each = [ordered(path, link) for link, path in enumerate(args.expected)]
    together = heapq.merge(*each, key=lambda e: e[:3]) if args.order == "otime" else itertools.chain(*each)
    return sorted(together, key=lambda e: side(e[3])) if args.by_connection else together


def key_of(packet, args):
    data = packet.data if args.snaplen is None else packet.data[:args.snaplen]
    time = packet.time
    if args.times == "us" and time is not None:
        time = time // 1000
    return data, packet.length, None if args.times == "ignore" else time


def describe(key):
    data, length, time = key
    return "time %s caplen %d len %d bytes %s%s" % (
        time, len(data), length, data[:40].hex(), "..." if len(data) > 40 else "")


def difference(want, have):
    if want[0] != have[0]:
        if len(want[0]) != len(have[0]):
            return "captured lengths %d and %d" % (len(want[0]), len(have[0]))
        at = next(i for i, (a, b) in enumerate(zip(want[0], have[0])) if a != b)
        return "byte %d is %02x and %02x" % (at, want[0][at], have[0][at])
    if want[1] != have[1]:
        return "original lengths %d and %d" % (want[1], have[1])
    return "times %s and %s" % (want[2], have[2])


def missing_of(listed):
    """The list itself, or as it lies in an answer's report."""
    while isinstance(listed, dict):
        listed = listed.get("completeness", listed.get("missing", listed.get("ranges", [])) +
                            listed.get("missing_classes", []))
    return listed


class Allowed:
    """Of each range, at most count packets may be missing."""

    def __init__(self, path):
        self.ranges = {}
        if path:
            with open(path, encoding="utf-8") as f:
                listed = json.load(f)
            for r in missing_of(listed):
                left = [r["first_seq"], r["last_seq"],
                        r.get("count") or r["last_seq"] - r["first_seq"] + 1,
                        r.get("step", 0), r.get("ranges", 1)]
                width = left[1] - left[0] + 1 - (left[4] - 1) * left[3]
                left.append(left[2] == width * left[4])
                self.ranges.setdefault(r.get("link", 0), []).append(left)
        for ranges in self.ranges.values():
            ranges.sort()

    def take(self, link, seq):
        """Ranges of several nodes overlap: the one that ends first is used up first."""
        fits = []
        for r in self.ranges.get(link, ()):
            if r[0] <= seq <= r[1] and r[2] > 0 and self.named(r, seq):
                fits.append(r)
            if r[0] > seq:
                break
        if fits:
            min(fits, key=lambda r: (r[1], -r[0]))[2] -= 1
        return bool(fits)

    @staticmethod
    def named(r, seq):
        """With a step, only each `step` seqs so many are missing."""
        first, last, _, step, ranges = r[:5]
        return not step or (seq - first) % step < last - first + 1 - (ranges - 1) * step

    def certain(self, link, seq):
        """Is it of a range of which all are missing? Without times nothing else tells alike packets apart."""
        return any(r[0] <= seq <= r[1] and r[5] and self.named(r, seq) for r in self.ranges.get(link, ()))

    def left(self):
        return sum(r[2] for ranges in self.ranges.values() for r in ranges)


class Comparison:
    def __init__(self, args):
        self.args = args
        self.allowed = Allowed(args.allow_missing)
        self.differences = 0
        self.expected = self.actual = self.missing = 0

    def say(self, text):
        self.differences += 1
        if self.differences <= self.args.show:
            print("difference %d: %s" % (self.differences, text))

    def run(self):
        actual = traces.Trace(self.args.actual)
        have = iter(sorted(actual, key=side) if self.args.by_connection else actual)
        one = next(have, None)
        for _, link, seq, packet in expected(self.args):
            self.expected += 1
            want = key_of(packet, self.args)
            if want[2] is None and self.allowed.certain(link, seq):
                self.allowed.take(link, seq)
                self.missing += 1
            elif one is not None and key_of(one, self.args) == want:
                self.actual += 1
                one = next(have, None)
            elif self.allowed.take(link, seq):
                self.missing += 1
            elif one is None:
                self.say("link %d seq %d is not there: %s" % (link, seq, describe(want)))
            else:
                other = key_of(one, self.args)
                self.say("link %d seq %d, packet %d of the other: %s\n  want %s\n  have %s" % (
                    link, seq, self.actual + 1, difference(want, other), describe(want),
                    describe(other)))
                self.actual += 1
                one = next(have, None)
                if self.differences >= self.args.show:
                    break
        else:
            for extra in itertools.chain([one] if one else [], have):
                self.actual += 1
                self.say("packet %d is too much: %s" % (self.actual, describe(
                    key_of(extra, self.args))))
            if self.allowed.left():
                self.say("%d packets listed as missing are there" % self.allowed.left())
        return self.differences == 0

    def summary(self, same):
        if same:
            print("compare: the same: %d packets, %d missing as listed" % (
                self.actual, self.missing))
        else:
            print("compare: DIFFERENT after %d expected and %d actual packets" % (
                self.expected, self.actual))


def main():
    args = arguments()
    comparison = Comparison(args)
    try:
        same = comparison.run()
    except (OSError, traces.Bad, KeyError, ValueError) as e:
        print("compare: %s" % e, file=sys.stderr)
        return 2
    if not args.quiet or not same:
        comparison.summary(same)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
