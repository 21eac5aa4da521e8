#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ways to see an original address with the role read-anonymized: each must fail.

usage: handout_ways.py CAPTURE KEYFILE DIR     CAPTURE: what the rack recorded, as it was; DIR: for files
PACKRACK names the program; PACKRACK_KEY is the user's.
"""
import ipaddress
import json
import os
import re
import subprocess
import sys

import anonymize_model
import traces

PACKRACK = os.environ["PACKRACK"]


class Ways:
    def __init__(self, capture, key, folder):
        self.folder = folder
        self.model = anonymize_model.CryptoPan(bytes.fromhex(open(key).read()))
        self.originals, self.macs, pairs = set(), set(), {}
        for p in traces.Trace(capture):
            found, _, macs = anonymize_model.places(1, p.data)
            ends = [p.data[at:at + size] for at, size in found]
            self.originals.update(ends)
            self.macs.update(p.data[at:at + 6].hex(":") for at in macs)
            if len(ends) == 2 and len(ends[0]) == 4:
                pairs[tuple(ends)] = pairs.get(tuple(ends), 0) + 1
        mapped = {self.model.map(a) for a in self.originals}
        self.busy, self.peer = max((p for p in pairs if p[0] not in mapped and p[1] not in mapped), key=pairs.get)
        # what is both, an original and a mapped one, tells nothing; nor do addresses that are in every file of help
        self.originals -= mapped | {bytes(4), bytes(16), b"\xff" * 4}
        self.texts = {str(ipaddress.ip_address(a)) for a in self.originals} - {"127.0.0.1", "::1", "192.0.2.1", "192.0.2.7", "192.0.2.10", "198.51.100.7"}  # of texts of ours
        self.macs -= {"ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"}
        self.done = 0

    def run(self, *words, stdin=None):
        env = dict(os.environ, TZ="UTC")
        return subprocess.run([str(w) for w in words], capture_output=True, env=env, input=stdin, timeout=60, check=False)

    def look(self, name, text, but=()):
        """No original in a text; but: what the command's own words had."""
        words = set(re.findall(r"[0-9a-fA-F:.]{7,}", text))
        words |= {re.sub(r"\.\d+$", "", w) for w in words} | {w.rstrip(".:") for w in words}
        seen = (words & self.texts) | {m for m in self.macs if m in text.lower()}
        seen -= set(but)
        assert not seen, "%s shows %s\n%s" % (name, sorted(seen)[:3], text[-2000:])
        self.done += 1

    def packets(self, name, path):
        for p in traces.Trace(path):
            found, payload, macs = anonymize_model.places(1, p.data)
            for at, size in found:
                assert p.data[at:at + size] not in self.originals, (name, p.data.hex())
            for at in macs:
                assert p.data[at:at + 6].hex(":") not in self.macs, (name, p.data.hex())
            assert not payload or len(p.data) <= payload[0], (name, "payload")
        with open(path, "rb") as f:
            self.look(name, "".join(chr(c) if 32 <= c < 127 else "\n" for c in f.read()))

    def count(self, *words):
        """Packets that a query counts, and what was read for it."""
        done = self.run(PACKRACK, "query", "--count", "--json", *words)
        assert done.returncode in (0, 3), done.stderr.decode()
        report = json.loads(done.stdout)
        return report["matched"], report.get("scanned_packets"), report.get("scanned_bytes"), report.get("skipped_segments"), report.get("index_reads")

    def same(self, name, one, other):
        assert one == other, (name, one, other)
        self.done += 1


def main():
    ways = Ways(*sys.argv[1:4])
    busy, peer = (str(ipaddress.ip_address(a)) for a in (ways.busy, ways.peer))
    now, none = (str(ipaddress.ip_address(ways.model.map(a))) for a in (ways.busy, bytes((203, 0, 113, 77))))
    path = os.path.join(ways.folder, "out.pcapng")
    given = (busy, peer)

    # texts
    for words in (["query"], ["query", "--json"], ["query", "--keyvalue"], ["query", "--explain", "--count"], ["query", "--estimate"],
                  ["query", "-c", "5"], ["query", "--strays"], ["query", "--tagged", "ip"], ["query", "--memory-only", "-c", "3"],
                  ["top", "host"], ["top", "pair"], ["top", "src"], ["top", "mac"], ["top", "link"], ["rate"],
                  ["flows"], ["flows", "--format", "json"], ["flows", "--format", "zeek"], ["flows", "--format", "eve"], ["flows", "--by", "src"],
                  ["flows", "--by", "src/8,dst/8"], ["flows", "--top", "3"],
                  ["sql", "select * from flows limit 200"], ["sql", "select distinct src_ip, dst_ip from flows"],
                  ["sql", "select * from packets limit 200"],
                  ["stage", "count"], ["stage", "flows"], ["stage", "http"], ["stage", "rtt"], ["grep", "e"],
                  ["status"], ["status", "--json"], ["queries", "list"], ["queries", "list", "--json"], ["hold", "list"], ["class", "list"],
                  ["class", "list", "-m", os.environ["PACKRACK_MERGER"]], ["node", "list"], ["data", "list"], ["data", "list", "--json"],
                  ["capture", "stop"], ["queries", "cancel", "1"], ["node", "forget", "log1", "--yes"],
                  ["extcap", "--extcap-interfaces"]):
        done = ways.run(PACKRACK, *words)
        ways.look(" ".join(words), (done.stdout + done.stderr).decode(errors="replace"))
    # filters with an address that is an original: as with one that was never there
    for words in (["hold", "add", "x", "host", busy], ["class", "add", "x", "filter=host " + busy], ["pivot", "--tuple", "tcp,%s,1,%s,2" % given, "-w", path],
                  ["flows", "host", busy], ["query", "host", busy], ["query", "--related", "host", busy]):
        done = ways.run(PACKRACK, *words)
        ways.look(" ".join(words), (done.stdout + done.stderr).decode(errors="replace"), given)
    for words in ("host %s", "src host %s", "net %s mask 255.255.255.255", "tcp and host %s", "not host %s", "host %s and greater 100"):
        ways.same(words, ways.count(words % busy)[1:], ways.count(words % none)[1:])
    ways.same("an original", ways.count("host " + busy)[0], 0 if busy not in (now,) else None)
    assert ways.count("host " + now)[0] > 50
    raw = "0x" + ways.busy.hex()
    ways.same("bytes of a header", ways.count("ip[12:4] == %s or ip[16:4] == %s" % (raw, raw))[0], 0)
    ways.same("bytes of a quote", ways.count("icmp[8+12:4] == %s or icmp[8+16:4] == %s" % (raw, raw))[0], 0)
    ways.same("payload", ways.count("tcp[((tcp[12] & 0xf0) >> 2):4] = 0x47455420")[0], 0)
    ways.same("ARP", ways.count("arp[14:4] == %s or arp[24:4] == %s" % (raw, raw))[0], 0)
    # files
    for words in (["query", "-w", path], ["export", "-w", path], ["query", "-w", path, "--format", "pcap"], ["query", "-w", path, "-c", "100"],
                  ["query", "-w", path, "--link", "tap0"], ["query", "-w", path, "--node", "log1"], ["flows", "--top", "2", "--packets", "-w", path],
                  ["stage", "http", "-o", "test=all:ip or arp", "-w", path],
                  ["extcap", "--extcap-interface", "packrack", "--capture", "--fifo", path, "--since", "1h ago", "--until", "now"]):
        if os.path.exists(path):
            os.unlink(path)
        done = ways.run(PACKRACK, *words)
        ways.look(" ".join(words), (done.stdout + done.stderr).decode(errors="replace"))
        if os.path.exists(path) and os.path.getsize(path):
            ways.packets(" ".join(words), path)
    # the Python package, and a message that the command would not send
    script = """
import sys, packrack
r = packrack.Rack()
print(len(list(r.query(limit=50))))
for p in r.query(limit=20): print(p.data.hex(), p.time)
print(r.status())
"""
    done = ways.run("/usr/bin/python3", "-c", script)
    ways.look("Python", (done.stdout + done.stderr).decode(errors="replace"))
    for line in done.stdout.decode().splitlines():
        assert not any(a.hex() in line for a in ways.originals if len(a) == 16)
    print(ways.done, "ways, none shows an original address")
    assert ways.done >= 50


if __name__ == "__main__":
    main()
