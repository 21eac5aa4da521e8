#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists captures of a folder that the rack must take: Ethernet, whole, readable by libpcap.

usage: captures.py DIR [--others]    prints: packets, largest captured length, path
                                     --others: those of other link types, damaged or refused, and why
"""
import os
import subprocess
import sys

import traces


def refused_by_libpcap(path):
    """libpcap's own view: tcpdump reads the file to its end, or says why not."""
    done = subprocess.run(["tcpdump", "-nr", path, "-w", "/dev/null"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)
    return done.stderr.strip().split("\n")[-1] if done.returncode else None


def judge(path):
    """(packets, largest, None) or (0, 0, reason)."""
    trace = traces.Trace(path)
    count = largest = 0
    try:
        for packet in trace:
            count += 1
            largest = max(largest, len(packet.data))
    except traces.Bad as e:
        return 0, 0, "damaged: %s" % str(e).replace(path + ": ", "")
    kinds = {i.linktype for i in trace.interfaces}
    if kinds != {1}:
        return 0, 0, "link types %s" % sorted(kinds)
    refused = refused_by_libpcap(path)
    return (0, 0, "refused: " + refused) if refused else (count, largest, None)


def captures(directory):
    for at, folders, names in os.walk(directory):
        folders.sort()
        for name in sorted(names):
            if ".pcap" in name or name.endswith((".cap", ".trace", ".dmp")):
                if not name.endswith((".txt", ".md")):
                    yield os.path.join(at, name)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for path in captures(sys.argv[1]):
        count, largest, why = judge(path)
        if "--others" in sys.argv:
            if why:
                print("%s: %s" % (path, why))
        elif not why and count:
            print(count, largest, path)


if __name__ == "__main__":
    main()
