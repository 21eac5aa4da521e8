#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `packrack stage anonymize` gives, against a model of its own: Crypto-PAn, and a search for what must not be there.

usage: anonymize_model.py addresses N KEYFILE     N addresses of each family; YACRYPTOPAN=folder: also against that program
       anonymize_model.py captures DIR KEYFILE    every capture below DIR: addresses in their places, MACs, payload
PACKRACK names the program.
"""
import collections
import ctypes
import ctypes.util
import os
import random
import subprocess
import sys
import tempfile

import captures
import traces

PACKRACK = os.environ.get("PACKRACK", "packrack")
crypto = ctypes.CDLL(ctypes.util.find_library("crypto"))
for name in ("EVP_CIPHER_CTX_new", "EVP_aes_128_ecb"):
    getattr(crypto, name).restype = ctypes.c_void_p


class CryptoPan:
    """As the paper has it; the pad is the second half of the key, encrypted."""

    def __init__(self, key):
        self.context = ctypes.c_void_p(crypto.EVP_CIPHER_CTX_new())
        crypto.EVP_EncryptInit_ex(self.context, ctypes.c_void_p(crypto.EVP_aes_128_ecb()), None, key[:16], None)
        self.pad = int.from_bytes(self.aes(key[16:]), "big")
        self.known = {}

    def aes(self, blocks):
        out, n = ctypes.create_string_buffer(len(blocks) + 16), ctypes.c_int()
        crypto.EVP_EncryptUpdate(self.context, out, ctypes.byref(n), blocks, len(blocks))
        return out.raw[:len(blocks)]

    def map(self, address):
        if address not in self.known:
            bits = 8 * len(address)
            number = int.from_bytes(address, "big") << (128 - bits)
            blocks = b""
            for i in range(bits):
                low = (1 << (128 - i)) - 1
                blocks += (number & ~low | self.pad & low).to_bytes(16, "big")
            secret = self.aes(blocks)
            flip = sum((secret[16 * i] >> 7) << (bits - 1 - i) for i in range(bits))
            self.known[address] = (int.from_bytes(address, "big") ^ flip).to_bytes(len(address), "big")
        return self.known[address]


def run(key, path, *more):
    """The packets that come out."""
    with tempfile.NamedTemporaryFile(suffix=".pcapng") as out:
        subprocess.run([PACKRACK, "stage", "anonymize", "-q", "-o", "key=" + key, "-r", path, "-w", out.name, *more],
                       check=True, timeout=120, stdout=subprocess.DEVNULL)
        with open(out.name, "rb") as f:
            text = f.read()
        return list(traces.Trace(out.name)), text


def ip4(src, dst):
    return bytes((69, 0, 0, 20, 0, 0, 0, 0, 64, 59, 0, 0)) + src + dst


def ip6(src, dst):
    return bytes((96, 0, 0, 0, 0, 0, 59, 64)) + src + dst


def check_addresses(count, key):
    rng = random.Random(18)
    model = CryptoPan(bytes.fromhex(open(key).read()))
    other = None
    if os.environ.get("YACRYPTOPAN"):
        sys.path.insert(0, os.environ["YACRYPTOPAN"])
        import yacryptopan
        other = yacryptopan.CryptoPAn(bytes.fromhex(open(key).read()))
    for size, make in ((4, ip4), (16, ip6)):
        near = bytes(rng.randrange(256) for _ in range(size - 1))
        want = [near + bytes((i,)) for i in range(256)] + [rng.randrange(256 ** size).to_bytes(size, "big") for _ in range(count)]
        want = want[:count] + [bytes(size), b"\xff" * size]
        with tempfile.NamedTemporaryFile(suffix=".pcap") as f:
            traces.write_pcap(f.name, [(i, make(a, a), len(make(a, a))) for i, a in enumerate(want)], linktype=101)
            have, _ = run(key, f.name)
        at = 12 if size == 4 else 8
        mapped = {}
        for a, p in zip(want, have):
            assert p.data[at:at + size] == p.data[at + size:at + 2 * size] == model.map(a), (a.hex(), p.data.hex())
            mapped[a] = p.data[at:at + size]
            if other:
                assert other.anonymize_bin(int.from_bytes(a, "big"), 4 if size == 4 else 6) == int.from_bytes(mapped[a], "big")
        assert len(have) == len(want)
        pairs = 0
        for a, b in zip(want, want[1:]):  # the same number of first bits
            x, y = int.from_bytes(a, "big") ^ int.from_bytes(b, "big"), int.from_bytes(mapped[a], "big") ^ int.from_bytes(mapped[b], "big")
            assert x.bit_length() == y.bit_length()
            pairs += 1
        print("%d bytes: %d addresses, %d pairs%s" % (size, len(want), pairs, ", also yacryptopan's" if other else ""))


def network(linktype, data):
    """(offset, Ethertype) of the network header, MACs' offsets."""
    if linktype == 101:
        return 0, {4: 0x800, 6: 0x86dd}.get(data[0] >> 4 if data else 0), ()
    if linktype != 1 or len(data) < 14:
        return 0, None, ()
    at, kind = 14, int.from_bytes(data[12:14], "big")
    while kind in (0x8100, 0x88a8, 0x9100) and len(data) >= at + 4:
        kind, at = int.from_bytes(data[at + 2:at + 4], "big"), at + 4
    return at, kind, (0, 6)


def places(linktype, data):
    """Where addresses of the outermost header are, and where payload of TCP or UDP begins (or None)."""
    at, kind, macs = network(linktype, data)
    if kind in (0x806, 0x8035) and data[at:at + 8][:6] == bytes((0, 1, 8, 0, 6, 4)) and len(data) >= at + 28:
        return [(at + 14, 4), (at + 24, 4)], None, macs + (at + 8,)
    if kind == 0x800 and len(data) >= at + 20 and data[at] >> 4 == 4 and len(data) >= at + 4 * (data[at] & 15) >= at + 20:
        length = int.from_bytes(data[at + 2:at + 4], "big") or len(data)
        at4, protocol, end = at + 4 * (data[at] & 15), data[at + 9], min(len(data), at + length)
        if int.from_bytes(data[at + 6:at + 8], "big") & 0x1fff:
            return [(at + 12, 4), (at + 16, 4)], (at4, end), macs
        found = [(at + 12, 4), (at + 16, 4)]
    elif kind == 0x86dd and len(data) >= at + 40 and data[at] >> 4 == 6:
        length = int.from_bytes(data[at + 4:at + 6], "big") or len(data)
        at4, protocol, end = at + 40, data[at + 6], min(len(data), at + 40 + length)
        found = [(at + 8, 16), (at + 24, 16)]
    else:
        return [], None, macs
    if protocol == 6 and end >= at4 + 20:
        return found, (at4 + 4 * (data[at4 + 12] >> 4), end), macs
    if protocol == 17 and end >= at4 + 8 and data[at4 + 2:at4 + 4] != b"\x12\xb5":  # not VXLAN
        return found, (at4 + 8, end), macs
    return found, None, macs


def check_packet(model, linktype, a, b, counts):
    assert a.time == b.time and a.length == b.length and len(b.data) <= len(a.data)
    found, payload, macs = places(linktype, a.data)
    for at, size in found:
        if len(b.data) >= at + size:
            assert b.data[at:at + size] == model.map(a.data[at:at + size]), "address at %d" % at
            counts["addresses"] += 1
    for at in macs:
        if len(b.data) >= at + 6 and a.data[at:at + 6] != b"\xff" * 6:
            assert b.data[at:at + 6] != a.data[at:at + 6], "MAC at %d" % at
            counts["macs"] += 1
            if len(set(a.data[at:at + 6])) > 3:
                assert a.data[at:at + 6] not in b.data, "MAC anywhere"
    if payload and payload[0] <= payload[1]:
        text = a.data[payload[0]:payload[1]]
        assert len(b.data) <= payload[0], "payload is there"
        for i in range(0, len(text) - 7):
            if len(set(text[i:i + 8])) > 2 and text[i:i + 8] not in a.data[:payload[0]]:
                counts["strings"] += 1
                assert text[i:i + 8] not in b.data, "payload at %d: %r" % (i, text[i:i + 8])
    if not found and network(linktype, a.data)[1] not in (0x8847, 0x8848, 0x8864):  # not understood: no more than what names it
        assert len(b.data) <= 32 or linktype not in (1, 101), "unknown: %d bytes" % len(b.data)


def malformed(path):
    done = subprocess.run(["tshark", "-n", "-r", path, "-Y", "_ws.malformed"], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=120)
    return done.stdout.count(b"\n")


def check_captures(directory, key):
    model = CryptoPan(bytes.fromhex(open(key).read()))
    counts = collections.Counter()
    for path in captures.captures(directory):
        try:
            trace = traces.Trace(path)
            before = list(trace)
        except traces.Bad:
            continue
        kinds = [i.linktype for i in trace.interfaces]
        if len(set(kinds)) != 1 or captures.refused_by_libpcap(path):
            continue
        after, text = run(key, path)
        assert len(before) == len(after), path
        for number, (a, b) in enumerate(zip(before, after), 1):
            try:
                check_packet(model, kinds[0], a, b, counts)
            except AssertionError as e:
                sys.exit("%s: packet %d: %s\n%s\n%s" % (path, number, e, a.data.hex(), b.data.hex()))
        assert b"if_name" not in text and os.path.basename(path).encode() not in text
        counts["files"] += 1
        counts["packets"] += len(after)
        if "--tshark" in sys.argv:
            with tempfile.NamedTemporaryFile(suffix=".pcapng") as out:
                out.write(text)
                out.flush()
                was, now = malformed(path), malformed(out.name)
                counts["malformed_before"] += was
                counts["malformed_after"] += now
                if now > was:
                    sys.exit("%s: malformed %d, before %d" % (path, now, was))
    print(dict(counts))
    assert counts["files"] > 100 and counts["addresses"] > 100000


if __name__ == "__main__":
    if sys.argv[1:2] == ["addresses"]:
        check_addresses(int(sys.argv[2]), sys.argv[3])
    elif sys.argv[1:2] == ["captures"]:
        check_captures(sys.argv[2], sys.argv[3])
    else:
        sys.exit(__doc__)
