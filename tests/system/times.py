#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random filters with `after` and `before` anywhere: is the answer what their parts say?

  times.py make TRACE DIR                     DIR/times.pcap: the packets, each at a time of its own
  times.py run DIR --packrack PATH WHERE...   filters, asked of WHERE (--volume PATH, or -m ENDPOINT)
"""
import argparse
import json
import os
import random
import struct
import subprocess
import sys

import traces

START, STEP = 1_600_000_000 * 10 ** 9, 10 ** 7
LEAVES = ["tcp", "udp port 53", "ip6", "arp", "greater 1000", "net 10.0.0.0/8", "icmp", "tcp port 443",
          "ether multicast", "tcp[tcpflags] & tcp-syn != 0", "portrange 1-1023"]


def make(args):
    traces.write_pcap(os.path.join(args.dir, "times.pcap"),
                      ((START + i * STEP, p.data, p.length) for i, p in enumerate(traces.Trace(args.trace))))


def numbers(body):
    """Of the packets in a pcap file of ns, by their times."""
    found, at = [], 24
    while at < len(body):
        sec, ns, caplen, _ = struct.unpack_from("<IIII", body, at)
        found.append((sec * 10 ** 9 + ns - START) // STEP)
        at += 16 + caplen
    return found


class Maker:
    """Texts of filters, and the numbers of the packets that they choose."""

    def __init__(self, rng, trace):
        self.rng = rng
        self.leaves = {leaf: self.ask(trace, leaf) for leaf in LEAVES}
        self.all = self.ask(trace, "")

    @staticmethod
    def ask(trace, leaf):
        return set(numbers(subprocess.run(["tcpdump", "--nano", "-r", trace, "-w", "-", leaf], check=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout))

    def time(self):
        n = self.rng.randrange(-5, len(self.all) + 5)
        off = self.rng.choice([0, 0, 1, -1])
        at = START + n * STEP + off
        word = self.rng.choice(["after", "before"])
        chosen = {i for i in self.all if (START + i * STEP >= at if word == "after" else START + i * STEP <= at)}
        return "%s @%d.%09d" % (word, at // 10 ** 9, at % 10 ** 9), chosen

    def term(self, depth):
        if depth == 0:
            if self.rng.random() < 0.5:
                return self.time()
            leaf = self.rng.choice(LEAVES)
            return leaf, self.leaves[leaf]
        text, chosen = self.filter(depth - 1)
        return "(%s)" % text, chosen

    def filter(self, depth):
        text, chosen = "", None
        for i in range(self.rng.randrange(1, 4)):
            joint = self.rng.choice(["and", "or"]) if i else ""
            more, others = self.term(self.rng.randrange(depth + 1))
            if self.rng.random() < 0.25:
                more, others = "not " + more, self.all - others
            text += " %s %s" % (joint, more) if i else more
            chosen = others if not i else chosen & others if joint == "and" else chosen | others
        return text, chosen


def query(args, *more):
    return subprocess.run([args.packrack, "query"] + args.where + list(more),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def compare(args, text, chosen):
    got = query(args, "--format", "pcap-ns", "-w", "-", "--", text)
    if not chosen and got.returncode == 2 and b"later than --until" in got.stderr:
        return True  # that no time is left in which it holds is seen at once
    if not chosen and got.returncode == 2 and b"rejects all" in got.stderr:
        return True
    have = numbers(got.stdout) if got.returncode == 0 else []
    if got.returncode == 0 and have == sorted(chosen):
        return True
    print("'%s': status %d, %d packets, wanted %d: %s" % (
        text, got.returncode, len(have), len(chosen), got.stderr.decode()[:300]))
    return False


def skips(args, count):
    """Two short times far from each other: what lies between them is not read."""
    at = [START // 10 ** 9 + n * STEP // 10 ** 9 for n in (count // 20, count // 10, count * 9 // 10, count * 19 // 20)]
    text = "(after @%d and before @%d) or (after @%d and before @%d)" % tuple(at)
    said = json.loads(query(args, "--json", "--", text).stdout)
    read, skipped = said["scanned_segments"], said["skipped_segments"]
    print("%d segments read, %d skipped" % (read, skipped))
    return 0 < read < skipped  # how many hold parts of the two times is the load's matter


def run(args):
    trace = os.path.join(args.dir, "times.pcap")
    maker = Maker(random.Random(args.seed), trace)
    good, some = True, 0
    for _ in range(args.number):
        text, chosen = maker.filter(2)
        some += 0 < len(chosen) < len(maker.all)
        good &= compare(args, text, chosen)
    print("seed %d: %d filters, %d choose a part" % (args.seed, args.number, some))
    good &= some * 2 > args.number
    good &= args.no_skips or skips(args, len(maker.all))
    return 0 if good else 1


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = p.add_subparsers(dest="command", required=True)
    c = commands.add_parser("make")
    c.add_argument("trace")
    c.add_argument("dir")
    c = commands.add_parser("run")
    c.add_argument("dir")
    c.add_argument("--packrack", default="build/packrack")
    c.add_argument("--seed", type=int, default=1)
    c.add_argument("--number", type=int, default=40)
    c.add_argument("--no-skips", action="store_true", help="do not look at what was skipped")
    args, where = p.parse_known_args()
    args.where = where
    if args.command == "make":
        make(args)
        return 0
    return run(args)


if __name__ == "__main__":
    sys.exit(main())
