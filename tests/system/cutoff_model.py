#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a cutoff keeps of a link, by the words of packrack-dispatcher(8), CLASSES AND CUTOFF: a model that shares no code
with the programs under test. Filters of classes are tcpdump's.

  cutoff_model.py FILE CLASS...     prints: packets kept, packets and bytes beyond, connections of these, by class
"""
import ipaddress
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict, namedtuple

import traces

NS = 10**9
TAGS, MPLS, PPPOE = (0x8100, 0x88A8, 0x9100), (0x8847, 0x8848), 0x8864
TCP, EXTENSIONS, ERRORS = 6, (0, 43, 44, 51, 60, 135), {1: (3, 4, 5, 11, 12), 58: (1, 2, 3, 4)}
PORTS = (6, 17, 33, 132, 136)  # protocols that begin with two of them
Headers = namedtuple("Headers", "src dst proto sport dport flags fragment later quoted")
# ends: of both directions; direction: True is from the greater end to the smaller
Verdict = namedtuple("Verdict", "keeps name snaplen number ends vlan direction")


def u16(data, at):
    return int.from_bytes(data[at:at + 2], "big")


def network(data):
    """(outermost VLAN or None, where IP begins or None) of an Ethernet frame."""
    vlan, kind, at = None, u16(data, 12), 14
    while kind in TAGS and len(data) >= at + 4:
        vlan = u16(data, at) & 0xFFF if vlan is None else vlan
        kind, at = u16(data, at + 2), at + 4
    if kind in MPLS:
        last = next((i for i in range(at, min(at + 64, len(data) - 3), 4) if data[i + 2] & 1), None)
        kind, at = (0, at) if last is None or len(data) <= last + 4 else ({4: 0x800, 6: 0x86DD}.get(data[last + 4] >> 4), last + 4)
    elif kind == PPPOE and data[at:at + 2] == b"\x11\0":
        kind, at = {0x21: 0x800, 0x57: 0x86DD}.get(u16(data, at + 6)), at + 8
    version = {0x800: 4, 0x86DD: 6}.get(kind)
    return vlan, at if version and len(data) > at and data[at] >> 4 == version else None


def headers(data, at):
    """Of the IP packet that begins there, or None."""
    end, fragment, later = len(data), None, False
    if data[at] >> 4 == 4:
        size, total = (data[at] & 15) * 4, u16(data, at + 2)
        if at + 20 > end or size < 20 or (total and total < size):
            return None
        src, dst, proto, l4 = data[at + 12:at + 16], data[at + 16:at + 20], data[at + 9], at + size
        end = min(end, at + total) if total else end
        if u16(data, at + 6) & 0x3FFF:
            fragment, later = (src, dst, proto, u16(data, at + 4)), bool(u16(data, at + 6) & 0x1FFF)
    else:
        if at + 40 > end:
            return None
        src, dst, proto, l4 = data[at + 8:at + 24], data[at + 24:at + 40], data[at + 6], at + 40
        end = min(end, l4 + u16(data, at + 4)) if u16(data, at + 4) else end
        while proto in EXTENSIONS and l4 + 8 <= end and not later:
            if proto == 44 and u16(data, l4 + 2) & 0xFFF9:
                fragment, later = (src, dst, 0, data[l4 + 4:l4 + 8]), u16(data, l4 + 2) > 7
            size = 8 if proto == 44 else 8 + data[l4 + 1] * (4 if proto == 51 else 8)
            proto, l4 = data[l4], l4 + size
    sport = dport = flags = 0
    quoted = None
    if not later and proto in PORTS and l4 + 4 <= end:
        sport, dport = u16(data, l4), u16(data, l4 + 2)
        flags = data[l4 + 13] if proto == TCP and l4 + 20 <= end else 0
    elif not later and l4 + 8 <= end and l4 + 8 < len(data) and data[l4] in ERRORS.get(proto, ()):
        quoted = l4 + 8
    return Headers(src, dst, proto, sport, dport, flags, fragment, later, quoted)


class Class:
    def __init__(self, text):
        self.name, *keys = (part.strip() for part in re.split("[;\n]", text))
        self.configured, self.keys = text, {}
        self.set(keys)

    def set(self, changes):
        self.keys.update((x.strip() for x in key.split("=", 1)) for key in changes if key)
        keys = self.keys
        size, unit = re.fullmatch(r"([\d.]+|none)([KMG]?)", keys.get("cutoff", "none")).groups()
        self.cutoff = None if size == "none" else int(float(size) * 1024 ** " KMG".index(unit or " "))
        self.snaplen = int(keys.get("snaplen", 262144))
        self.filter, self.precedence = keys.get("filter", ""), int(keys.get("precedence", 0))


def matching(packets, text):
    """The numbers of the packets that tcpdump's filter matches; their times tell it."""
    if not text:
        return range(len(packets))
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "numbered.pcap")
        traces.write_pcap(name, [(i * NS, p.data, p.length) for i, p in enumerate(packets)])
        subprocess.run(["tcpdump", "--nano", "-r", name, "-w", name + "2", text], check=True, capture_output=True)
        return {p.time // NS for p in traces.Trace(name + "2")}


def filtered(packets, classes):
    """The class of each packet, were it the first of its connection: by its filter, the one of highest precedence."""
    found = [None] * len(packets)
    for c in reversed(sorted(classes, key=lambda c: -c.precedence)):
        for i in matching(packets, c.filter):
            found[i] = c
    return found


class Link:
    """The packets of one link, in the order of capture. moved: addresses -> class, and suspended: ends, change meanwhile."""

    def __init__(self, packets, classes, class_of=None):
        self.packets, self.latest = packets, None
        self.classes = sorted((Class(c) for c in classes), key=lambda c: -c.precedence)
        self.of_filter = class_of or filtered(packets, self.classes)
        self.connections, self.fragments, self.begun = {}, {}, 0
        self.moved, self.suspended = {}, set()

    def alive(self, connection):
        return connection and self.latest - connection["last"] <= (60 if connection["proto"] == TCP else 30) * NS

    def of_fragment(self, vlan, h):
        time, connection, reverse = self.fragments.get((vlan, h.fragment), (None, None, None))
        same = connection and connection["number"] == self.connections[connection["key"]]["number"]
        return (connection, reverse) if same and self.latest - time <= 30 * NS and self.alive(connection) else (None, None)

    def find(self, data, vlan, h, error=True):
        """(connection, direction, key): of a packet, or of what an error quotes."""
        key = vlan, h.proto, *sorted(((h.src, h.sport), (h.dst, h.dport)))
        connection, direction = (self.of_fragment(vlan, h) if h.later else (None, None))
        if error and h.quoted and data[h.quoted] >> 4 in (4, 6):
            q = headers(data[h.quoted:], 0)
            connection, back = self.find(data, vlan, q, False)[:2] if q else (None, None)
            connection, direction = (connection, not back) if self.alive(connection) else (None, None)
        if not connection and (error or not h.later):
            connection, direction = self.connections.get(key), (h.src, h.sport) > (h.dst, h.dport)
        return connection, direction, key

    def class_of(self, number, h):
        for address, side in ((h.src, "src"), (h.dst, "dst")):
            if (address, side) in self.moved:
                return next(c for c in self.classes if c.name == self.moved[address, side])
        return self.of_filter[number]

    def steer(self, verb, *words):
        """As packrack class VERB WORDS. A connection keeps its class, whose keys may change, also when that is removed."""
        if verb in ("add", "set", "remove"):
            known = next((c for c in self.classes if c.name == words[0]), None)
            if verb == "add":
                self.classes.append(Class(words[0]))
                self.classes[-1].set(words[1:])
            elif verb == "set":
                known.set(words[1:])
            else:
                self.classes.remove(known)
            self.classes.sort(key=lambda c: -c.precedence)
            self.of_filter = filtered(self.packets, self.classes)
        elif verb in ("suspend", "resume"):
            a, b = ((ipaddress.ip_address(words[i]).packed, int(words[i + 1])) for i in (1, 3))
            ends = {"tcp": 6, "udp": 17}[words[0]], *sorted((a, b))
            (self.suspended.add if verb == "suspend" else self.suspended.discard)(ends)
        else:
            address = ipaddress.ip_address(words[0]).packed
            self.moved = {k: v for k, v in self.moved.items() if k[0] != address}
            if verb == "move":
                self.moved.update({(address, side): words[1] for side in words[2:] or ("src", "dst")})

    def verdict(self, number):
        p = self.packets[number]
        self.latest = p.time if self.latest is None else max(self.latest, p.time)
        vlan, at = network(p.data)
        h = None if at is None else headers(p.data, at)
        if not h:
            return Verdict(True, None, 262144, 0, None, None, False)
        c, direction, key = self.find(p.data, vlan, h)
        if not self.alive(c) or (h.flags & 2 and c["closed"]):
            self.begun += 1
            c = {"number": self.begun, "key": c["key"] if c else key, "bytes": 0, "closed": False,
                 "class": self.class_of(number, h)}
            c["proto"] = c["key"][1]
            self.connections[c["key"]] = c
        c["last"] = self.latest
        if h.fragment and not h.later:
            self.fragments[vlan, h.fragment] = self.latest, c, direction
        k = c["class"]
        keeps = not k or k.cutoff is None or c["bytes"] < k.cutoff or h.flags & 7 or c["key"][1:] in self.suspended
        c["bytes"] += p.length
        c["closed"] |= bool(h.flags & 5)
        return Verdict(bool(keeps), k.name if k else None, k.snaplen if k else 262144, c["number"], c["key"][1:], vlan, direction)

    def verdicts(self):
        return [self.verdict(i) for i in range(len(self.packets))]


def sums(packets, verdicts):
    """By class: [packets, bytes, connections] beyond the cutoff."""
    found, connections = defaultdict(lambda: [0, 0, 0]), defaultdict(set)
    for p, v in zip(packets, verdicts):
        if not v.keeps:
            found[v.name][0] += 1
            found[v.name][1] += p.length
            connections[v.name].add(v.number)
            found[v.name][2] = len(connections[v.name])
    return dict(found)


if __name__ == "__main__":
    everything = list(traces.Trace(sys.argv[1]))
    judged = Link(everything, sys.argv[2:]).verdicts()
    print(sum(v.keeps for v in judged), "of", len(judged), sums(everything, judged))
