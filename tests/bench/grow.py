# SPDX-License-Identifier: Apache-2.0
"""Larger traces from a real one: its packets again and again, time going on."""

import struct


def records(path):
    with open(path, "rb") as f:
        data = f.read()
    magic = struct.unpack_from("<I", data)[0]
    if magic != 0xA1B2C3D4:
        raise SystemExit(f"bench: {path}: a little-endian pcap in microseconds is wanted")
    at, out = 24, []
    while at + 16 <= len(data):
        sec, usec, cap, length = struct.unpack_from("<IIII", data, at)
        out.append((sec * 1000000 + usec, length, data[at + 16:at + 16 + cap]))
        at += 16 + cap
    return data[:24], out


def split(path, packets, files, folder):
    """packets of path, dealt over files in turn; returns their names."""
    head, recs = records(path)
    recs.sort(key=lambda r: r[0])
    span = recs[-1][0] - recs[0][0] + 1000
    names = [f"{folder}/part{i}.pcap" for i in range(files)]
    outs = [open(n, "wb", 1 << 20) for n in names]
    for o in outs:
        o.write(head)
    for i in range(packets):
        lap, at = divmod(i, len(recs))
        t, length, data = recs[at]
        t += lap * span
        outs[i % files].write(struct.pack("<IIII", t // 1000000, t % 1000000, len(data), length) + data)
    for o in outs:
        o.close()
    return names
