#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Control frames as a stranger on the rack's switch would send them.

  forge.py send IFACE TRACE TYPE [--key FILE]   as the dispatcher in TRACE would write to the node now:
                                                its epoch, nonces and a number yet to come; without
                                                a key the tag is zero
  forge.py leave IFACE TRACE                    QUIT as the node of TRACE's last STATUS would write it,
                                                with a zero tag
  forge.py replay IFACE TRACE TYPE              the frames of TYPE in TRACE again, bit for bit; ALL: each
                                                frame, those with data too
  forge.py has TRACE TYPE [N]                   exit 0 if TRACE has more than N (0)
  forge.py count TRACE TYPE                     how many it has

The frames are built here from their description, by none of the programs under test.
"""
import ctypes
import hashlib
import re
import socket
import struct
import sys

import traces

ETHERTYPE = b"\x88\xb5"
TYPES = {"ANN": 1, "ANN_ACK": 2, "STATUS": 3, "MARK": 5, "STOP": 8, "QUIT": 9, "IDENTIFY": 10, "RESET": 11, "DISCONNECT": 12}
HEADER = struct.Struct(">BBHIQQIIHHI")
TAG = 16


def frames(trace, kind):
    for packet in traces.Trace(trace):
        data = bytes(packet.data)
        if kind == "ALL":
            yield data
        elif len(data) >= 14 + HEADER.size and data[12:14] == ETHERTYPE and data[15] == TYPES[kind]:
            yield data


def xxh3_low(data):
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_64bits.restype = ctypes.c_uint64
    library.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return library.XXH3_64bits(data, len(data)) & 0xFFFFFFFF


def forged(model, kind, key):
    version, _, flags, rack, epoch, number, sender, receiver, _, _, _ = HEADER.unpack_from(model, 14)
    body = struct.pack(">QI", 1 << 40, 1)

    def header(check):
        return HEADER.pack(version, TYPES[kind], flags, rack, epoch, number + (1 << 20), sender,
                           receiver, len(body), 0, check)

    macs = model[:12]
    check = xxh3_low(macs + header(0) + body)
    signed = macs + header(check) + body
    tag = hashlib.blake2b(signed, key=key, digest_size=TAG).digest() if key else bytes(TAG)
    return macs + ETHERTYPE + header(check) + body + tag


def send(iface, wanted):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
        s.bind((iface, 0))
        for frame in wanted:
            s.send(frame.ljust(60, b"\0"))


def main(argv):
    if len(argv) == 4 and argv[1] == "count":
        print(sum(1 for _ in frames(argv[2], argv[3])))
        return 0
    if len(argv) in (4, 5) and argv[1] == "has":
        least = int(argv[4]) if len(argv) == 5 else 0
        return 0 if sum(1 for _ in frames(argv[2], argv[3])) > least else 1
    if len(argv) == 5 and argv[1] == "replay":
        found = list(frames(argv[3], argv[4]))
    elif len(argv) == 4 and argv[1] == "leave":
        found = [forged(model, "QUIT", b"") for model in list(frames(argv[3], "STATUS"))[-1:]]
    elif len(argv) in (5, 7) and argv[1] == "send":
        with open(argv[6] if len(argv) == 7 else "/dev/null", encoding="ascii") as f:
            key = bytes.fromhex("".join(re.findall(r"^frame-key (\S+)", f.read(), re.M)[:1]))
        found = [forged(model, argv[4], key) for model in list(frames(argv[3], "MARK"))[-1:]]
    else:
        sys.exit(__doc__)
    if not found:
        print("%s: no frame to go by" % argv[3], file=sys.stderr)
        return 1
    send(argv[2], found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
