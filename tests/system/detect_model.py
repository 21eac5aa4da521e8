#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Alerts of `packrack stage detect` and packets of `packrack grep`, against slow models of them.

usage: detect_model.py detect RULES DIR      RULES made rules on the captures below DIR
       detect_model.py grep DIR              patterns of all forms
PACKRACK names the program. Compared are packets of TCP, UDP and ICMP in plain IPv4 or IPv6; the others are only counted.
"""
import collections
import ipaddress
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import anonymize_model
import captures
import traces

PACKRACK = os.environ.get("PACKRACK", "packrack")
View = collections.namedtuple("View", "protocol src dst sport dport flags itype payload dsize")
Content = collections.namedtuple("Content", "bytes negated nocase offset depth distance within")


def view(linktype, data):
    """None: not of those that are compared."""
    at, kind, _ = anonymize_model.network(linktype, data)
    if kind == 0x800 and len(data) >= at + 20 and data[at] >> 4 == 4:
        header, protocol = 4 * (data[at] & 15), data[at + 9]
        length = int.from_bytes(data[at + 2:at + 4], "big")
        src, dst = data[at + 12:at + 16], data[at + 16:at + 20]
        if header < 20 or int.from_bytes(data[at + 6:at + 8], "big") & 0x3fff:
            return None
    elif kind == 0x86dd and len(data) >= at + 40 and data[at] >> 4 == 6:
        header, protocol, length = 40, data[at + 6], int.from_bytes(data[at + 4:at + 6], "big")
        src, dst = data[at + 8:at + 24], data[at + 24:at + 40]
        length += 40 if length else 0
    else:
        return None
    if not length or length < header:
        return None
    l4, end = at + header, min(len(data), at + length)
    sport = dport = flags = itype = 0
    if protocol == 6 and end >= l4 + 20 and data[l4 + 12] >> 4 >= 5:
        start, flags = l4 + 4 * (data[l4 + 12] >> 4), data[l4 + 13]
    elif protocol in (17, 1, 58) and end >= l4 + 8:
        start = l4 + 8
    else:
        return None
    if start > end or (protocol == 17 and data[l4 + 2:l4 + 4] == b"\x12\xb5"):
        return None
    if protocol in (6, 17):
        sport, dport = int.from_bytes(data[l4:l4 + 2], "big"), int.from_bytes(data[l4 + 2:l4 + 4], "big")
    else:
        itype = data[l4]
    return View(protocol, ipaddress.ip_address(src), ipaddress.ip_address(dst), sport, dport, flags, itype,
                data[start:end], at + length - start)


class Rule:
    """Made by chance, of what is in the packets; text: as the program reads it."""

    def __init__(self, rng, sid, some):
        v = rng.choice(some)
        self.sid, self.v = sid, v
        self.protocol = rng.choice(["ip", {6: "tcp", 17: "udp"}.get(v.protocol, "icmp")])
        self.both = rng.random() < 0.3
        self.address, self.port = [None, None], [None, None]
        for i, (a, p) in enumerate(((v.src, v.sport), (v.dst, v.dport))):
            if rng.random() < 0.3:
                self.address[i] = (rng.random() < 0.2, ipaddress.ip_network("%s/%d" % (a, rng.choice([8, 13, 24, a.max_prefixlen])), False))
            if v.protocol in (6, 17) and rng.random() < 0.4:
                low = max(0, p - rng.choice([0, 0, 1, 1000]))
                self.port[i] = (rng.random() < 0.2, low, min(65535, p + rng.choice([0, 0, 1000])))
        self.contents, self.options = [], []
        self.dsize = self.itype = self.flags = self.pcre = None
        if rng.random() < 0.8 and len(v.payload) > 8:
            self.make_contents(rng, v.payload)
        if rng.random() < 0.2 and len(v.payload) > 12:
            self.make_pcre(rng, v.payload)
        if rng.random() < 0.2 or not self.contents:
            self.dsize = self.make_range(rng, "dsize", v.dsize)
        if self.protocol == "icmp":
            self.itype = self.make_range(rng, "itype", v.itype)
        if self.protocol == "tcp" and rng.random() < 0.4:
            way = rng.choice(["", "+", "*", "!"])
            self.flags = (way, v.flags if way != "!" else ~v.flags & 0x3f or 1)
            letters = "".join(c for i, c in enumerate("FSRPAUEC") if self.flags[1] >> i & 1) or "0"
            self.options.append("flags:%s%s" % (way, letters))

    def make_range(self, rng, name, n):
        kind = rng.randrange(4)
        low, high = [(n, n), (n + 3, 0), (n - 3, 0), (n - 5, n + 5)][kind]
        low = max(0, low)
        self.options.append("%s:%s" % (name, ["%d" % low, "<%d" % low, ">%d" % low, "%d<>%d" % (low, high)][kind]))
        return [lambda x: x == low, lambda x: x < low, lambda x: x > low, lambda x: low < x < high][kind]

    def make_contents(self, rng, payload):
        at = 0
        for i in range(rng.randrange(1, 4)):
            if at >= len(payload) - 2:
                break
            start = rng.randrange(at, len(payload) - 1)
            text = payload[start:start + rng.randrange(1, 9)]
            negated, nocase = i > 0 and rng.random() < 0.15, rng.random() < 0.3
            if nocase:
                text = text.swapcase()
            offset = depth = distance = within = None
            if i and rng.random() < 0.6:
                distance = start - at - rng.choice([0, 0, 2])
                if rng.random() < 0.5:
                    within = len(text) + rng.choice([0, 2, 20])
                at = start + len(text)
            elif rng.random() < 0.5:
                offset = max(0, start - rng.choice([0, 1, 5]))
                if rng.random() < 0.5:
                    depth = len(text) + rng.choice([0, 5, 50])
                at = start + len(text)
            else:
                at = start + len(text)
            c = Content(text, negated, nocase, offset, depth, distance, within)
            self.contents.append(c)
            words = ['content:%s"|%s|"' % ("!" if negated else "", text.hex(" "))]
            if rng.random() < 0.5 and all(48 <= b < 123 and b not in b'\\:;"|' for b in text):
                words[0] = 'content:%s"%s"' % ("!" if negated else "", text.decode())
            words += ["nocase"] if nocase else []
            words += ["%s:%d" % (k, n) for k, n in (("offset", offset), ("depth", depth), ("distance", distance), ("within", within)) if n is not None]
            self.options.append(";".join(words))

    def make_pcre(self, rng, payload):
        at = rng.randrange(len(payload) - 6)
        text = "".join(rng.choice(["\\x%02x" % b, "\\x%02x" % b, "."]) for b in payload[at:at + 4]) + rng.choice(["", "+", "[a-z0-9]*"])
        flags, negated = rng.choice(["", "i", "s", "is"]), rng.random() < 0.1
        self.pcre = (negated, re.compile(text.encode(), (re.I if "i" in flags else 0) | (re.S if "s" in flags else 0)))
        self.options.append('pcre:%s"/%s/%s"' % ("!" if negated else "", text, flags))

    def text(self):
        def address(a):
            return "any" if not a else "%s%s" % ("!" if a[0] else "", a[1])

        def port(p):
            return "any" if not p else "%s%d:%d" % ("!" if p[0] else "", p[1], p[2])
        return 'alert %s %s %s %s %s %s (msg:"rule %d"; %s; sid:%d; rev:1;)' % (
            self.protocol, address(self.address[0]), port(self.port[0]), "<>" if self.both else "->",
            address(self.address[1]), port(self.port[1]), self.sid, "; ".join(self.options).replace(";;", ";"), self.sid)

    def ends(self, v, turned):
        ends = [(v.src, v.sport), (v.dst, v.dport)]
        for (a, p), address, port in zip(reversed(ends) if turned else ends, self.address, self.port):
            if address and (a.version == address[1].version and a in address[1]) == address[0]:
                return False
            if port and (v.protocol not in (6, 17) or (port[1] <= p <= port[2]) == port[0]):
                return False
        return True

    def contents_match(self, payload, i, last):
        if i == len(self.contents):
            return True
        c = self.contents[i]
        relative = c.distance is not None or c.within is not None
        start = (last + (c.distance or 0)) if relative else (c.offset or 0)
        window = c.within if relative else c.depth
        end = len(payload) if window is None else min(len(payload), start + window)
        hay, needle = (payload.lower(), c.bytes.lower()) if c.nocase else (payload, c.bytes)
        at = hay.find(needle, max(start, 0), max(end, 0))
        if c.negated:
            return at < 0 and self.contents_match(payload, i + 1, last)
        while at >= 0:
            if self.contents_match(payload, i + 1, at + len(needle)):
                return True
            at = hay.find(needle, at + 1, max(end, 0))
        return False

    def matches(self, v):
        if self.protocol == "icmp" and v.protocol != (1 if v.src.version == 4 else 58) or \
                self.protocol in ("tcp", "udp") and v.protocol != {"tcp": 6, "udp": 17}[self.protocol]:
            return False
        if not (self.ends(v, False) or self.both and self.ends(v, True)):
            return False
        if self.dsize and not self.dsize(v.dsize) or self.itype and not self.itype(v.itype):
            return False
        if self.flags:
            way, want = self.flags
            have = v.flags & want
            if not {"": v.flags == want, "+": have == want, "*": have != 0, "!": have == 0}[way]:
                return False
        if not self.contents_match(v.payload, 0, 0):
            return False
        return not self.pcre or (self.pcre[1].search(v.payload) is not None) != self.pcre[0]


def readable(directory):
    for path in captures.captures(directory):
        try:
            trace = traces.Trace(path)
            packets = list(trace)
        except traces.Bad:
            continue
        kinds = {i.linktype for i in trace.interfaces}
        if kinds in ({1}, {101}) and packets and not captures.refused_by_libpcap(path):
            yield path, kinds.pop(), packets


def check_detect(count, directory):
    rng = random.Random(18)
    files = [(p, k, [(n, view(k, x.data)) for n, x in enumerate(packets, 1)]) for p, k, packets in readable(directory) if os.path.getsize(p) < 3000000]
    some = [v for _, _, views in files for _, v in rng.sample(views, min(40, len(views))) if v]
    rules = [Rule(rng, i, some) for i in range(1, count + 1)]
    alerts = compared = 0
    by = collections.Counter()
    with tempfile.NamedTemporaryFile("w", suffix=".rules") as f:
        f.write("# made\n" + "".join(r.text() + "\n" for r in rules))
        f.flush()
        for number, (path, _, views) in enumerate(files):
            done = subprocess.run([PACKRACK, "stage", "detect", "-o", "rules=" + f.name, "-r", path, "-j", str(1 + number % 3)],
                                  capture_output=True, text=True, check=False, timeout=300)
            assert done.returncode == 0, done.stderr
            have = collections.defaultdict(set)
            for line in done.stdout.splitlines():
                alert = json.loads(line)
                have[alert["pcap_cnt"]].add(alert["alert"]["signature_id"])
            for n, v in views:
                if not v:
                    continue
                want = {r.sid for r in rules if r.matches(v)}
                compared += 1
                alerts += len(want)
                by.update(want)
                if want != have[n]:
                    sid = sorted(want ^ have[n])[0]
                    sys.exit("%s: packet %d: wanted %s, had %s\n%s\n%s" % (path, n, sorted(want), sorted(have[n]), rules[sid - 1].text(), v))
    print("%d rules, %d files, %d packets, %d alerts by %d rules" % (count, len(files), compared, alerts, len(by)))
    assert alerts > 1000 and len(by) > count / 4


def check_grep(directory):
    rng = random.Random(18)
    found = 0
    for path, _, packets in readable(directory):
        if rng.random() < 0.6 or os.path.getsize(path) > 3000000:
            continue
        piece = max((rng.choice(packets).data for _ in range(5)), key=len)
        at = rng.randrange(max(1, len(piece) - 6))
        text = piece[at:at + 4]
        patterns = [("|%s|" % text.hex(), re.compile(re.escape(text)))]
        patterns.append(("/%s/is" % "".join("\\x%02x" % b for b in text[:2]) + "", re.compile(re.escape(text[:2]), re.I | re.S)))
        patterns.append(("GET /", re.compile(b"GET /")))
        patterns.append(("/host: [a-z.]+/i", re.compile(b"host: [a-z.]+", re.I)))
        for words, pattern in patterns:
            done = subprocess.run([PACKRACK, "grep", words, "-r", path, "-j", "2"], capture_output=True, text=True, check=False, timeout=60)
            want = sum(1 for p in packets if pattern.search(p.data))
            have = done.stdout.count("\n")
            found += want
            assert done.returncode == 0 and have == want, (path, words, have, want, done.stderr)
    print(found, "packets found")
    assert found > 100


if __name__ == "__main__":
    if sys.argv[1:2] == ["detect"]:
        check_detect(int(sys.argv[2]), sys.argv[3])
    elif sys.argv[1:2] == ["grep"]:
        check_grep(sys.argv[2])
    else:
        sys.exit(__doc__)
