#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a little-endian pcapng says besides packets, a line a block, in order.

  pcapng_blocks.py FILE     interface NUMBER NAME speed=... resolution=... filter=... description=...
                            statistics NUMBER received=... dropped=... os_dropped=... accepted=...
                            secrets TYPE BYTES
"""
import struct
import sys

TEXTS = {2: "name", 3: "description", 11: "filter"}
COUNTS = {4: "received", 5: "dropped", 6: "accepted", 7: "os_dropped"}


def options(body):
    while len(body) >= 4:
        code, length = struct.unpack_from("<HH", body)
        if code == 0:
            return
        yield code, body[4:4 + length]
        body = body[4 + (length + 3) // 4 * 4:]


def blocks(data):
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if length < 12 or at + length > len(data) or data[at + length - 4:at + length] != data[at + 4:at + 8]:
            sys.exit("pcapng_blocks: damaged at byte %d" % at)
        yield kind, data[at + 8:at + length - 4]
        at += length


def interface(number, body):
    said = {}
    for code, value in options(body[8:]):
        if code in TEXTS:
            said[TEXTS[code]] = value.lstrip(b"\0").decode()
        elif code == 8:
            said["speed"] = struct.unpack("<Q", value)[0]
        elif code == 9:
            said["resolution"] = value[0]
    print("interface", number, said.pop("name", "-"), *("%s=%s" % pair for pair in sorted(said.items())))


def statistics(body):
    counts = {COUNTS[code]: struct.unpack("<Q", value)[0] for code, value in options(body[12:]) if code in COUNTS}
    print("statistics", struct.unpack_from("<I", body)[0], *("%s=%d" % pair for pair in sorted(counts.items())))


def main(argv):
    if len(argv) != 2:
        sys.exit(__doc__)
    with open(argv[1], "rb") as f:
        data = f.read()
    interfaces = 0
    for kind, body in blocks(data):
        if kind == 1:
            interface(interfaces, body)
            interfaces += 1
        elif kind == 5:
            statistics(body)
        elif kind == 10:
            print("secrets", "%08x" % struct.unpack_from("<I", body)[0], struct.unpack_from("<I", body, 4)[0])


if __name__ == "__main__":
    main(sys.argv)
