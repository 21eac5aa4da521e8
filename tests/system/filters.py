#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random filters over the whole grammar of pcap-filter(7): do queries answer as tcpdump -r does?

  filters.py prepare DATA DIR [--small]   captures by link type: DIR/LINKTYPE.pcap, with all packets
  filters.py list DIR                     the filters of a seed, one a line
  filters.py cut TRACE TRACE              the second has what a rack's frames can carry
  filters.py run DIR --packrack PATH      each filter on each link type, volumes in DIR as well

A filter's values come from the packets themselves, or from outside them. Which productions of the
grammar (filter_maker.py, filter_more.py) it is made of is counted, and how much it matches.
--seed and --number make the filters,
--sample N takes some of them, --only K one (a difference tells which).
"""
import argparse
import collections
import os
import random
import re
import struct
import subprocess
import sys
import time

import made_links
import traces
from filter_maker import Maker, Values
from filter_more import MoreMaker
from filter_results import Reference, Results, digest, print_table

ETHERNET = 1
LOOPBACK, LOOPBACK_BIG_ENDIAN = 0, 108
START = 1_600_000_000 * 10 ** 9
SMALL = 200_000  # bytes of a capture that is still taken with --small
SMALL_ALSO = ("mix-gateway-full-a.pcap",)

# ---- captures, by link type ----


def captures(data, small):
    for folder, _, names in sorted(os.walk(data)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith((".txt", ".md")):
                continue
            if not small or name in SMALL_ALSO or os.path.getsize(path) <= SMALL:
                yield path


def big_endian(path):
    with open(path, "rb") as f:
        head = f.read(12)
    return head[:2] == b"\xa1\xb2" or head[8:12] == b"\x1a\x2b\x3c\x4d"


def prepare(args):
    """What cannot be read of a damaged file is left out: what is compared is filters."""
    packets = collections.defaultdict(list)
    for path in captures(args.data, args.small):
        trace = traces.Trace(path)
        try:
            for p in trace:
                linktype = trace.interfaces[p.interface].linktype
                if linktype == LOOPBACK and big_endian(path):
                    linktype = LOOPBACK_BIG_ENDIAN
                packets[linktype].append((p.data[:262144], p.length))
        except (traces.Bad, struct.error, ValueError):
            pass
    ips = [d[14:] for d, n in packets[ETHERNET] if d[12:14] == b"\x08\x00" and n < 2000]
    for linktype, made in made_links.packets(ips or [bytes(40)]).items():
        packets[linktype] += [(d, len(d)) for d in made]
    os.makedirs(args.dir, exist_ok=True)
    for linktype, found in packets.items():
        # Times of our own tell packets apart, and keep their order.
        traces.write_pcap(os.path.join(args.dir, "%d.pcap" % linktype),
                          ((START + i * 1000, d, n) for i, (d, n) in enumerate(found)),
                          linktype=linktype)
    print("prepared: %d packets of %d link types" % (
        sum(map(len, packets.values())), len(packets)))


def cut(args):
    """Without frames that a rack interface of 65,535 bytes does not carry whole."""
    traces.write_pcap(args.to, ((p.time, p.data, p.length) for p in traces.Trace(args.trace)
                                if len(p.data) <= 65549))


def linktypes(folder):
    return sorted(int(n[:-5]) for n in os.listdir(folder)
                  if n.endswith(".pcap") and n[:-5].isdigit())


def captures_of(folder):
    return {t: traces.Trace(os.path.join(folder, "%d.pcap" % t)) for t in linktypes(folder)}


# ---- filters ----

MORE = 350  # of all when there are many: the last


def make_filters(args):
    values = Values(captures_of(args.dir))
    maker, more = Maker(random.Random(args.seed), values), MoreMaker(random.Random(args.seed + 1), values)
    first = args.number - MORE if args.number >= 2000 else args.number
    return [(maker if i < first else more).filter(i) for i in range(args.number)]


# ---- running ----

def start(command):
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process):
    out, err = process.communicate()
    return process.returncode, out, err.decode("utf-8", "replace")


def records(body):
    """Times of a pcap file's packets, behind its header: they tell the packets apart."""
    found, at = [], 0
    while at + 16 <= len(body):
        sec, ns, caplen, _ = struct.unpack_from("<IIII", body, at)
        found.append((sec * 10 ** 9 + ns - START) // 1000)
        at += 16 + caplen
    return found


def reads_unwritten(code):
    """Whether some way through a program (tcpdump -d) loads scratch memory that nothing on it has stored."""
    written = {0: frozenset()}  # at each instruction that can be reached: what every way to it has stored
    for number, line in enumerate(code.strip().splitlines()):
        if number not in written:
            continue
        now, jump = written[number], re.search(r"jt (\d+)\s+jf (\d+)", line)
        cell = re.search(r"\b(ldx?|stx?) +M\[(\d+)\]", line)
        if cell and cell.group(1).startswith("ld") and cell.group(2) not in now:
            return True
        if cell and cell.group(1).startswith("st"):
            now |= {cell.group(2)}
        ja = re.search(r"\bja +(\d+)", line)
        targets = [int(t) for t in jump.groups()] if jump else [int(ja.group(1))] if ja else [number + 1]
        for t in [] if re.search(r"\bret\b", line) else targets:
            written[t] = written[t] & now if t in written else now
    return False


class Runner:
    def __init__(self, args):
        self.args = args
        self.reference = Reference(args.reference)
        self.total = {t: self.count(t) for t in linktypes(args.dir)}
        self.differences = self.runs = self.refused = self.left_out = 0

    def path(self, linktype, end):
        return os.path.join(self.args.dir, "%d.%s" % (linktype, end))

    def count(self, linktype):
        with open(self.path(linktype, "pcap"), "rb") as f:
            return len(records(f.read()[24:]))

    def volumes(self):
        for t in self.total:
            if not os.path.exists(self.path(t, "vol")):
                size = os.path.getsize(self.path(t, "pcap")) * 2 + (32 << 20)
                subprocess.run([self.args.packrack, "import", self.path(t, "pcap"), "--volume",
                                self.path(t, "vol"), "--create", str(size)], check=True,
                               stdout=subprocess.DEVNULL)

    def ask(self, linktype, text):
        if self.args.merger:
            where = ["-m", self.args.merger]
        else:
            where = ["--volume", self.path(linktype, "vol")]
        return start([self.args.packrack, "query"] + where + [
            "--format", "pcap-ns", "-w", "-", "--", text])

    def tcpdump(self, linktype, text):
        """Its exit status, what it writes, its words."""
        return finish(start(["tcpdump", "--nano", "-r", self.path(linktype, "pcap"), "-w", "-", "--", text]))

    def compare(self, linktype, number, text):
        """Packets that match, or None: tcpdump refuses the filter, and so do we."""
        ours, capture = self.ask(linktype, text), self.path(linktype, "pcap")
        known, said = self.reference.find(capture, text), ""
        if not known:
            status, want, said = self.tcpdump(linktype, text)
            known = self.reference.add(capture, text, status, digest(want[24:]), len(records(want[24:])))
        status, wanted, count = known
        mine, have, word = finish(ours)
        self.runs += 1
        if status != 0:
            self.refused += 1
            if mine != 2:
                self.differ(linktype, number, text, "tcpdump refuses it (%s), we exit with %d: %s" % (
                    said.strip().splitlines()[-1:], mine, word.strip()[:300]))
            return None
        if mine != 0:
            self.differ(linktype, number, text, "we exit with %d: %s" % (mine, word.strip()[:300]))
        elif digest(have[24:]) != wanted and self.undefined(linktype, text):
            self.left_out += 1
        elif digest(have[24:]) != wanted:
            want = self.tcpdump(linktype, text)[1]
            self.differ(linktype, number, text, self.difference(records(want[24:]), records(have[24:])))
        return count

    @staticmethod
    def difference(want, have):
        missing, extra = sorted(set(want) - set(have)), sorted(set(have) - set(want))
        return "%d packets are missing %s, %d too many %s" % (
            len(missing), missing[:5], len(extra), extra[:5])

    def undefined(self, linktype, text):
        """libpcap makes some programs that read scratch memory never written: no answer is the right one."""
        _, code, _ = finish(start(["tcpdump", "-r", self.path(linktype, "pcap"), "-d", "--", text]))
        return reads_unwritten(code.decode())

    def differ(self, linktype, number, text, how):
        self.differences += 1
        print("DIFFERENT: link type %d, filter %d of seed %d: %s\n  %s\n  again: %s run %s --packrack %s "
              "--seed %d --number %d --only %d" % (
                  linktype, number, self.args.seed, text, how, sys.argv[0], self.args.dir,
                  self.args.packrack, self.args.seed, self.args.number, number))

    def chosen(self, number, home):
        """All link types; in a sample Ethernet, the filter's own and one that takes its turn."""
        every = sorted(self.total)
        if self.args.merger:
            return [ETHERNET]
        if self.args.sample is None:
            return every
        return sorted({ETHERNET, home, every[number % len(every)]} & set(every))

    def run(self, number, made):
        """What Results.add takes of one filter."""
        text, home, _ = made
        matched = packets = 0
        before = (self.runs, self.refused, self.left_out, self.differences)
        for t in self.chosen(number, home):
            found = self.compare(t, number, text)
            packets += self.total[t]
            matched += found or 0
        after = (self.runs, self.refused, self.left_out, self.differences)
        return (matched, packets) + tuple(b - a for a, b in zip(before, after))


def check_productions(filters, least):
    """Each production as often as asked for; says which are not."""
    counts = collections.Counter(p for _, _, used in filters for p in used)
    every = {"keyword %s" % k for k in Maker.KEYWORDS} | set(Maker.WEIGHTS)
    rare = sorted(p for p in every | set(counts) if counts[p] < least)
    for p in rare:
        print("too rare: %s, %d times" % (p, counts[p]))
    return not rare


def numbers_of(args):
    if args.only is not None:
        return [args.only]
    if args.sample is not None:
        return random.Random(args.sample_seed).sample(range(args.number), args.sample)
    return range(args.number)


def run(args):
    filters = make_filters(args)
    # a rack is asked a few of them, with values of its one trace
    good = bool(args.merger) or args.number < 2000 or check_productions(filters, 20)
    runner, results = Runner(args), Results(args.results)
    if not args.merger:
        runner.volumes()
    end = time.monotonic() + args.seconds if args.seconds else None
    numbers = numbers_of(args)
    for number in numbers:
        if end and time.monotonic() > end:
            break
        if number not in results.done:
            results.add(number, *runner.run(number, filters[number]))
    return 0 if judge(args, filters, results, len(numbers)) and good else 1


def judge(args, filters, results, wanted):
    if args.table:
        print_table(filters, results)
    shares, some = list(map(results.share, results.done)), results.some()
    runs, refused, left_out, differences = results.sums()
    print("filters: %d of seed %d (sample %d), %d comparisons, %d refused by both; %d match between one "
          "packet and half of them, %d none, %d more; %d left out as libpcap's program reads memory that it never "
          "wrote; %d differences" % (len(shares), args.seed, args.sample_seed, runs, refused, some,
                                     shares.count(0), sum(s > 0.5 for s in shares), left_out, differences))
    # a sample on a few captures may be off, and so may a rack's one trace; all of them on all captures may not
    whole = args.only is None and args.sample is None and not args.merger and len(results.done) == wanted
    if whole and some * 2 < wanted:
        print("too few filters match between one packet and half of them")
        return False
    return not differences


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = p.add_subparsers(dest="command", required=True)
    c = commands.add_parser("prepare")
    c.add_argument("data")
    c.add_argument("dir")
    c.add_argument("--small", action="store_true", help="no capture above %d bytes but one" % SMALL)
    c = commands.add_parser("cut")
    c.add_argument("trace")
    c.add_argument("to")
    for name in ("list", "run"):
        c = commands.add_parser(name)
        c.add_argument("dir")
        c.add_argument("--seed", type=int, default=1)
        c.add_argument("--number", type=int, default=3650)
        c.add_argument("--sample", type=int)
        c.add_argument("--sample-seed", type=int, default=1)
        c.add_argument("--only", type=int)
        c.add_argument("--table", action="store_true", help="productions, and shares of packets matched")
        c.add_argument("--results", help="keep there what each filter matched; go on where it ends")
        c.add_argument("--reference", help="keep there what tcpdump says; not asked again for what is there")
        c.add_argument("--seconds", type=float, help="stop then")
        c.add_argument("--packrack", default="build/packrack")
        c.add_argument("--merger", help="ask this rack, which recorded DIR/1.pcap")
    args = p.parse_args()
    if args.command == "prepare":
        prepare(args)
        return 0
    if args.command == "cut":
        cut(args)
        return 0
    if args.command == "list":
        for i, (text, home, _) in enumerate(make_filters(args)):
            print("%d\t%d\t%s" % (i, home, text))
        return 0
    return run(args)


if __name__ == "__main__":
    sys.exit(main())
