#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Alerts of connections of a capture, and whether the files that packrack pivot made of them have their packets, no more and no less.

usage: pivot_oracle.py make FORM CAPTURE N OUT     N alerts, as FORM: eve, zeek (conn.log), json (Zeek's notices), http (no protocol); OUT.want
       pivot_oracle.py check CAPTURE OUT LINES     LINES: pivot's --json
       pivot_oracle.py merged CAPTURE OUT FILE     all of them in one file, in order
       pivot_oracle.py tshark CAPTURE LINES N      the first N files have what tshark's filters give
Packets are taken apart here by nobody's code but this.
"""
import ipaddress
import json
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, __file__.rpartition("/")[0])
from traces import Trace  # noqa: E402

NS = 10**9
SKEW, BEFORE, AFTER = NS, 60 * NS, 60 * NS
NAMES = {6: "TCP", 17: "UDP", 1: "ICMP", 58: "IPv6-ICMP"}


def connection(data):
    """(protocol, {ends}), the sender's end first; None: none, or not of a kind that is looked at here."""
    at, kind = 14, data[12:14]
    for _ in range(2):
        if kind == b"\x81\x00" or kind == b"\x88\xa8":
            kind, at = data[at + 2:at + 4], at + 4
    if kind == b"\x08\x00" and len(data) >= at + 20 and data[at] >> 4 == 4:
        protocol, head = data[at + 9], at + 4 * (data[at] & 15)
        source, target = data[at + 12:at + 16], data[at + 16:at + 20]
        later = struct.unpack_from(">H", data, at + 6)[0] & 0x1fff
    elif kind == b"\x86\xdd" and len(data) >= at + 40:
        protocol, head, later = data[at + 6], at + 40, 0
        source, target = data[at + 8:at + 24], data[at + 24:at + 40]
    else:
        return None
    ports = (0, 0)
    if protocol in (6, 17):
        if later or len(data) < head + 4:
            return None
        ports = struct.unpack_from(">HH", data, head)
    return protocol, (source, ports[0]), (target, ports[1])


def key_of(c):
    return c and (c[0], *sorted(c[1:]))


def by_connection(capture):
    found = {}
    for number, packet in enumerate(Trace(capture)):
        c = connection(packet.data)
        if c and c[0] in NAMES:
            found.setdefault(key_of(c), []).append((number, packet, c))
    return found


def iso(ns):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ns // NS)) + ".%06d+0000" % (ns % NS // 1000)


def line_of(form, ns, first, last, c):
    (source, sport), (target, dport) = c[1:]
    a, b = str(ipaddress.ip_address(source)), str(ipaddress.ip_address(target))
    if form == "eve":
        return json.dumps({"timestamp": iso(ns), "flow_id": 1, "event_type": "alert", "src_ip": a, "src_port": sport, "dest_ip": b, "dest_port": dport,
                           "proto": NAMES[c[0]], "alert": {"signature_id": 2013028, "signature": "x"}, "flow": {"start": iso(first)}})
    proto = {6: "tcp", 17: "udp"}.get(c[0], "icmp")
    if form == "zeek":
        return "\t".join(["%d.%06d" % divmod(first // 1000, 10**6), "Cx", a, str(sport), b, str(dport), proto,
                          "%d.%06d" % divmod((last - first) // 1000, 10**6), "SF", "-"])
    said = {"ts": ns // 1000 / 10**6, "uid": "Cx", "id.orig_h": a, "id.orig_p": sport, "id.resp_h": b, "id.resp_p": dport}
    return json.dumps(dict(said, proto=proto, note="Weird::Activity") if form == "json" else said)


def make(form, capture, count, out):
    found = by_connection(capture)
    keys = sorted((k for k in found if form != "http" or k[0] in (6, 17)), key=lambda k: found[k][0][0])
    keys = keys[::max(1, len(keys) // count)][:count]
    lines, want = [], []
    if form == "zeek":
        lines = ["#separator \\x09", "#path\tconn", "#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tduration\tconn_state\tservice"]
    for key in keys:
        packets = found[key]
        if form == "http":  # both, as no protocol is told
            packets = sorted((x for p in (6, 17) for x in found.get((p, *key[1:]), [])), key=lambda x: x[0])
        times = [p.time for _, p, _ in packets]
        first, last, ns = min(times) // 1000 * 1000, max(times), packets[len(packets) // 2][1].time // 1000 * 1000
        lines.append(line_of(form, ns, first, last, packets[len(packets) // 2][2]))
        since, until = {"eve": (first, ns), "zeek": (first, first + (last - first) // 1000 * 1000)}.get(form, (ns - BEFORE, ns))
        since, until = since - SKEW, until + AFTER + SKEW
        want.append({"line": len(lines), "key": [key[0], *[[e[0].hex(), e[1]] for e in key[1:]]],
                     "packets": [n for n, p, _ in packets if since <= p.time <= until]})
    with open(out, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    with open(out + ".want", "w", encoding="utf-8") as f:
        json.dump(want, f)
    print("%d alerts of %d connections, %d packets" % (len(want), len(found), sum(len(w["packets"]) for w in want)))


def content(path):
    return [(p.time, p.length, p.data) for p in Trace(path)]


def check(capture, out, lines):
    packets = content(capture)
    with open(out + ".want", encoding="utf-8") as f:
        want = {w["line"]: w["packets"] for w in json.load(f)}
    with open(lines, encoding="utf-8") as f:
        told = [json.loads(x) for x in f]
    bad = 0
    for x in told:
        wanted = [packets[n] for n in want.pop(int(x["alert"].rpartition(":")[2]))]
        have = content(x["file"]) if x["file"] else []
        with open(x["file"] + ".json", encoding="utf-8") as f:
            report = json.load(f)
        if sorted(have) != sorted(wanted) or x["packets"] != len(wanted) or report["matched"] != len(wanted) or report["completeness"]["complete"] != x["complete"]:
            bad += 1
            print("%s: %d packets told, %d there, %d wanted" % (x, x["packets"] or 0, len(have), len(wanted)))
    print("%d files, %d differ, %d alerts without a line" % (len(told), bad, len(want)))
    return bad or want or not told


def merged(capture, out, path):
    packets = content(capture)
    with open(out + ".want", encoding="utf-8") as f:
        wanted = [packets[n] for n in sorted({n for w in json.load(f) for n in w["packets"]})]
    have = content(path)
    print("%d packets there, %d wanted" % (len(have), len(wanted)))
    return have != wanted or not wanted


def tshark(capture, lines, count):
    with open(lines, encoding="utf-8") as f:
        told = [json.loads(x) for x in f][:count]
    bad = 0
    for x in told:
        protocol, *ends = x["connection"].split(" ")
        text = {"icmp6": "icmpv6"}.get(protocol, protocol)
        for end in ends:
            address, _, port = end.rpartition(".") if protocol in ("tcp", "udp") else (end, "", "")
            text += " && %s.addr == %s" % ("ipv6" if ":" in address else "ip", address) + (" && %s.port == %s" % (protocol, port) if port else "")
        have = content(x["file"])
        with tempfile.NamedTemporaryFile(suffix=".pcap") as f:
            subprocess.run(["tshark", "-n", "-r", capture, "-Y", text, "-F", "nsecpcap", "-w", f.name], check=True, stderr=subprocess.DEVNULL)
            wanted = [p for p in content(f.name) if have and have[0][0] <= p[0] <= have[-1][0]]
        if have != wanted:
            bad += 1
            print("%s: %d packets there, %d of tshark" % (x["file"], len(have), len(wanted)))
    print("%d files, %d differ" % (len(told), bad))
    return bad or not told


if __name__ == "__main__":
    task, args = sys.argv[1], sys.argv[2:]
    if task == "make":
        sys.exit(make(args[0], args[1], int(args[2]), args[3]))
    if task == "tshark":
        sys.exit(bool(tshark(args[0], args[1], int(args[2]))))
    sys.exit(bool({"check": check, "merged": merged}[task](*args)))
