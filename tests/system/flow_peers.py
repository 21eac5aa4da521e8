#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds `packrack flows` against what others say of the same traces.

usage: tests/system/flow_peers.py zeek DIR             conn.log beside each trace, at Zeek's time-outs
       tests/system/flow_peers.py community-id DIR     the baselines of its specification
       tests/system/flow_peers.py ipfix FILE           its flows by IPFIX to nfcapd, on loopback
       tests/system/flow_peers.py nfdump FILE...       nfpcapd and nfdump, at time-outs longer than the traces
PACKRACK: the program. Prints what differs, each kind once, and a line of sums. Exit 1: something differs that has no
reason in this file.
"""
import base64
import collections
import csv
import datetime
import glob
import ipaddress
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

PACKRACK = os.environ.get("PACKRACK", "build/packrack")


def flows(trace, *options):
    done = subprocess.run([PACKRACK, "flows", "-r", trace, *options], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):  # 3: a part of the trace is damaged
        sys.exit(f"{trace}: exit status {done.returncode}: {done.stderr}")
    return done.stdout


def say(kinds):
    for kind, cases in sorted(kinds.items(), key=lambda k: -len(k[1])):
        print(f"{len(cases):5} {kind}, as {cases[0]}")


# ---- Zeek ----

# Records that are not equal, and why. A key: trace, originator's port.
ZEEK_KNOWN = {
    ("globus-url-copy.pcap", "35391"): "Zeek's script ends a GridFTP connection early",
    ("pppoe-over-qinq.pcap", "20394"): "silent for 5 s after the first FIN",
    ("tunnels__Teredo.pcap", "1576"): "RST long after the last of its connection",
    ("tunnels__Teredo.pcap", "1920"): "Zeek ends DNS sessions after 10 s",
    ("tunnels__gtp__gtp1_gn_normal_incl_fragmentation.pcap", "2152"): "Zeek counts a datagram once, not its fragments",
    ("tunnels__gtp__gtp2_different_udp_port.pcap", "2152"): "Zeek counts a datagram once, not its fragments",
    ("vntag_vlan_sandwich_clean.pcap", "443"): "the first packet is a SYN+ACK: its receiver began",
    ("wikipedia.pcap", "80"): "the first packet is a SYN+ACK: its receiver began",
}


def zeek_rows(text):
    fields = []
    for line in text.splitlines():
        if line.startswith("#fields"):
            fields = line.split("\t")[1:]
        elif line and line[0] != "#":
            yield dict(zip(fields, line.split("\t")))


def zeek_key(row):
    return tuple(row[k] for k in ("id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "ip_proto"))


def zeek_values(row):
    return tuple(row[k] for k in ("conn_state", "orig_pkts", "orig_ip_bytes", "resp_pkts", "resp_ip_bytes"))


def zeek(folder):
    total = equal = tunnels = more = 0
    kinds, unknown = collections.defaultdict(list), []
    for log in sorted(glob.glob(os.path.join(folder, "*.conn.log"))):
        trace = log[:-len(".conn.log")]
        ours = collections.defaultdict(list)
        for row in zeek_rows(flows(trace, "--format", "zeek", "--idle-tcp", "5m", "--idle", "1m", "--idle-closed", "5s",
                                   "--active", "1000d")):
            ours[zeek_key(row)].append(zeek_values(row))
        with open(log, encoding="utf-8", errors="replace") as f:
            wanted = list(zeek_rows(f.read()))
        for row in wanted:
            total += 1
            known = (os.path.basename(trace), row["id.orig_p"])
            if zeek_values(row) in ours[zeek_key(row)]:
                ours[zeek_key(row)].remove(zeek_values(row))
                equal += 1
            elif row["tunnel_parents"] not in ("-", "(empty)"):
                tunnels += 1
                kinds["within a tunnel"].append((known, zeek_key(row)))
            elif known in ZEEK_KNOWN:
                kinds[ZEEK_KNOWN[known]].append((known, zeek_values(row)))
            else:
                unknown.append((known, zeek_key(row), zeek_values(row), ours[zeek_key(row)]))
        # What is ours alone belongs to a known difference, carries a tunnel (which Zeek opens), or is of later fragments.
        for key, values in ours.items():
            for value in values:
                more += 1
                fragments = key[1] == key[3] == "0" and key[4] in ("6", "17")
                if not fragments and int(key[4]) not in TUNNELS and not any(
                        (os.path.basename(trace), port) in ZEEK_KNOWN for port in (key[1], key[3])):
                    unknown.append(((os.path.basename(trace), "ours alone"), key, value))
    say(kinds)
    for case in unknown:
        print("no reason:", *case)
    print(f"zeek: {equal} of {total - tunnels} records equal, and {tunnels} within tunnels; {more} of ours are not Zeek's")
    return not unknown and equal >= 0.95 * (total - tunnels) > 200


# ---- Community ID ----

def community_id(folder):
    good = total = 0
    for form, options in (("deflt", ()), ("seed1", ("--community-seed", "1")), ("nob64", ())):
        with open(os.path.join(folder, f"baseline_{form}.json"), encoding="utf-8") as f:
            # RSVP is in none of the traces (a unit test has its ID)
            wanted = {c["communityid"] for c in json.load(f) if c["proto"] != 46}
        ours = set()
        for trace in glob.glob(os.path.join(folder, "*.pcap")):
            for row in csv.DictReader(flows(trace, "--format", "csv", *options).splitlines()):
                ours.add(row["community_id"])
        if form == "nob64":
            ours = {"1:" + base64.b64decode(i[2:]).hex() for i in ours}
        total += len(wanted)
        good += len(wanted & ours)
        for missing in wanted - ours:
            print(f"{form}: {missing} is not there")
    print(f"community-id: {good} of {total} equal")
    return good == total > 30


# ---- nfdump ----

PORTS = (6, 17, 132)
EXTENSIONS = (0, 43, 44, 51, 60)
TUNNELS = (4, 41, 47)
EVER = 1 << 63
# Traces in which all that has no other reason has this one.
NFDUMP_KNOWN = {
    "aircrack-ng__wep_64_ptw_01.cap": "nfpcapd takes encrypted frames for IP",
    "packets__ip_frag_source.pcapng": "nfpcapd puts fragments together",
    "packetlife-backup__icmp_fragmented.cap": "nfpcapd puts fragments together",
    "tcpdump__olsr-oobr-2.pcap": "nfpcapd keeps 32 bits of a time",
}


class Sums(dict):
    """By (protocol, sender, receiver): packets, bytes; by ("time", protocol, both): first, last in ms."""

    def add(self, protocol, a, b, packets, size):
        old = self.get((protocol, a, b), (0, 0))
        self[protocol, a, b] = old[0] + packets, old[1] + size

    def span(self, protocol, a, b, first, last):
        key = ("time", protocol, *sorted((a, b), key=str))
        old = self.get(key, (EVER, 0))
        self[key] = min(old[0], first), max(old[1], last)


def our_sums(trace):
    sums = Sums()
    text = flows(trace, "--format", "csv", "--idle-tcp", "20m", "--idle", "20m", "--active", "1000d")
    for row in csv.DictReader(text.splitlines()):
        protocol = int(row["protocol"])
        ports = (row["src_port"], row["dst_port"]) if protocol in PORTS else (0, 0)
        a, b = ((ipaddress.ip_address(row[f"{end}_ip"]), int(port)) for end, port in zip(("src", "dst"), ports))
        first, duration = (int(row[k].replace(".", "")) for k in ("tcqtime", "duration"))
        for x, y, way in ((a, b, "sent"), (b, a, "recv")):
            if int(row[f"packets_{way}"]):
                sums.add(protocol, x, y, int(row[f"packets_{way}"]), int(row[f"bytes_{way}"]))
        sums.span(protocol, a, b, first // 1000000, (first + duration) // 1000000)
    return sums


def their_sums(trace):
    sums, utc = Sums(), dict(os.environ, TZ="UTC")
    with tempfile.TemporaryDirectory() as where:
        subprocess.run(["nfpcapd", "-r", trace, "-w", where, "-e", "3600,1200", "-t", "86400"], env=utc,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        text = subprocess.run(["nfdump", "-R", where, "-q", "-N", "-6", "-o", "fmt:%ts,%te,%pr,%sa,%sp,%da,%dp,%pkt,%byt"],
                              env=utc, capture_output=True, text=True, check=False).stdout
    for line in text.splitlines():
        words = [w.strip() for w in line.split(",")]
        if len(words) < 9:
            continue
        protocol = int(words[2])
        a, b = ((ipaddress.ip_address(words[i]), int(words[i + 1]) if protocol in PORTS else 0) for i in (3, 5))
        first, last = (round(datetime.datetime.fromisoformat(w + "+00:00").timestamp() * 1000) for w in words[:2])
        sums.add(protocol, a, b, int(words[7]), int(words[8]))
        sums.span(protocol, a, b, first, last)
    return sums


def pair(key):
    return frozenset(end[0] for end in key[-2:])


def reason(key, a, b, context):
    """Why the two differ in a key; None: for no reason that is known."""
    protocol = key[1] if key[0] == "time" else key[0]
    if protocol == 132:
        return "nfpcapd does not read SCTP's ports"
    if pair(key) in context["extended"]:
        return "nfpcapd takes an IPv6 extension header for the protocol"
    if protocol in TUNNELS or (a is None and context["tunnels"]):
        return "nfpcapd counts what a tunnel has in it"
    if context["empty"]:
        return "nfpcapd does not read the link type"
    if pair(key) in context["fragments"]:
        return "nfpcapd puts fragments together"
    if a and b and key[0] != "time" and a[0] == b[0] and a[1] > b[1] and protocol == 6:
        return "an IP length of 0 (the host left it to its card): nfpcapd takes it as it is"
    if pair(key) in context["twice"]:
        return "nfpcapd does not look into FabricPath"
    if a and b and key[0] == "time" and not context["ordered"]:
        return "the trace's times step back: nfpcapd takes the packet that is read last"
    return None


def nfdump(traces):
    keys = differ = 0
    kinds, unknown = collections.defaultdict(list), []
    for trace in traces:
        ours, theirs = our_sums(trace), their_sums(trace)
        order = subprocess.run(["capinfos", "-oTr", trace], capture_output=True, text=True, check=False).stdout
        context = {
            "extended": {pair(k) for k in theirs if k[0] in EXTENSIONS and k[-1][0].version == 6},
            "tunnels": any(k[0] in TUNNELS for k in ours),
            "fragments": {pair(k) for k in ours if k[0] in PORTS and k[-2][1] == k[-1][1] == 0},
            "empty": not theirs,
            "twice": {pair(k) for k in ours if k[0] != "time" and k in theirs and ours[k][0] == 2 * theirs[k][0]},
            "ordered": "False" not in order,
        }
        for key in set(ours) | set(theirs):
            keys += 1
            a, b = ours.get(key), theirs.get(key)
            if a == b:
                continue
            differ += 1
            why = reason(key, a, b, context) or NFDUMP_KNOWN.get(os.path.basename(trace))
            case = (os.path.basename(trace), *key, "ours", a, "theirs", b)
            if why:
                kinds[why].append(case)
            else:
                unknown.append(case)
    say(kinds)
    for case in unknown:
        print("no reason:", *case)
    print(f"nfdump: {keys - differ} of {keys} keys and times equal in {len(traces)} traces, {len(unknown)} without a reason")
    return not unknown and keys - differ > 0.9 * keys


# ---- IPFIX ----

def waiting(port):
    """Bytes that wait in the socket of the port; None: nobody listens."""
    with open("/proc/net/udp", encoding="ascii") as f:
        for line in f:
            words = line.split()
            if words[1].endswith(f":{port:04X}"):
                return int(words[4].split(":")[1], 16)
    return None


def wait_until(holds, what):
    for _ in range(4000):
        if holds():
            return
        time.sleep(0.005)
    sys.exit(f"nfcapd {what}")


def collect(messages, where):
    """nfcapd takes the messages; its flows, as nfdump prints them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    nfcapd = subprocess.Popen(["nfcapd", "-b", "127.0.0.1", "-p", str(port), "-w", where, "-t", "86400"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: waiting(port) is not None, "does not listen")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            at = 0
            while at < len(messages):
                size = struct.unpack_from(">H", messages, at + 2)[0]
                wait_until(lambda: waiting(port) < 50000, "takes nothing")  # its socket has room for some
                s.sendto(messages[at:at + size], ("127.0.0.1", port))
                at += size
        wait_until(lambda: waiting(port) == 0, "has not taken all")
    finally:
        nfcapd.terminate()
        nfcapd.wait(20)
    text = subprocess.run(["nfdump", "-R", where, "-q", "-N", "-6", "-o", "fmt:%ts,%te,%pr,%sa,%sp,%da,%dp,%pkt,%byt,%opkt,%obyt"],
                          env=dict(os.environ, TZ="UTC"), capture_output=True, text=True, check=False).stdout
    return [[w.strip() for w in line.split(",")] for line in text.splitlines() if line.count(",") >= 10]


def ipfix(trace):
    wanted, got = collections.Counter(), collections.Counter()
    for row in csv.DictReader(flows(trace, "--format", "csv").splitlines()):
        ports = (row["src_port"], row["dst_port"]) if row["protocol"] in ("6", "17") else (0, 0)
        first, duration = (int(row[k].replace(".", "")) for k in ("tcqtime", "duration"))
        wanted[int(row["protocol"]), ipaddress.ip_address(row["src_ip"]), int(ports[0]), ipaddress.ip_address(row["dst_ip"]),
               int(ports[1]), int(row["packets_sent"]), int(row["bytes_sent"]), int(row["packets_recv"]), int(row["bytes_recv"]),
               first // 1000000, (first + duration) // 1000000] += 1
    messages = subprocess.run([PACKRACK, "flows", "-r", trace, "--format", "ipfix"], capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as where:
        for w in collect(messages, where):
            ports = (w[4], w[6]) if w[2] in ("6", "17") else (0, 0)
            first, last = (round(datetime.datetime.fromisoformat(t + "+00:00").timestamp() * 1000) for t in w[:2])
            got[int(w[2]), ipaddress.ip_address(w[3]), int(ports[0]), ipaddress.ip_address(w[5]), int(ports[1]),
                *(int(n) for n in w[7:11]), first, last] += 1
    for kind, cases in (("not at nfcapd", wanted - got), ("only at nfcapd", got - wanted)):
        for case in list(cases)[:3]:
            print(kind, case)
    print(f"ipfix: {(wanted & got).total()} of {wanted.total()} flows equal, in {len(messages)} bytes")
    return wanted == got and wanted.total() > 100


def main():
    kind, args = sys.argv[1], sys.argv[2:]
    good = {"zeek": lambda: zeek(args[0]), "community-id": lambda: community_id(args[0]), "nfdump": lambda: nfdump(args),
            "ipfix": lambda: ipfix(args[0])}[kind]()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
