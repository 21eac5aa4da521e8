#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the ledger confirms holds: when a MARK said that all packets of link 0 up to a time were in logs, they were.

usage: marks.py PACKRACK TRACE VOLUME...     all that is of link 0: the packets before one with seq n are n - 1 at most
"""
import bisect
import itertools
import json
import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import traces  # noqa: E402

MARK = 1  # proto/wire/ledger.h; an entry: type, version, length, bytes
ENTRY = struct.Struct("<BBH")
BODY = struct.Struct("<QqBHHIBQq")  # epoch, said_until, stopping, link, linktype, snaplen, ended, last_seq, last_otime


def entries(packrack, volume):
    listed = subprocess.run([packrack, "volume", "records", volume, "ledger", "--json"], capture_output=True, check=True)
    for record in json.loads(listed.stdout)["records"]:
        body = subprocess.run([packrack, "volume", "dump", volume, str(record["handle"]), "--raw"], capture_output=True, check=True).stdout
        at = 0
        while at + ENTRY.size <= len(body):
            kind, _, length = ENTRY.unpack_from(body, at)
            at += ENTRY.size
            yield kind, body[at:at + length]
            at += length


def main():
    packrack, trace = sys.argv[1:3]
    plain = trace + ".pcap"
    subprocess.run(["tshark", "-F", "nsecpcap", "-r", trace, "-w", plain], check=True, stderr=subprocess.DEVNULL)
    times = list(itertools.accumulate((p.time for p in traces.Trace(plain)), max))
    marks = early = 0
    for volume in sys.argv[3:]:
        for kind, body in entries(packrack, volume):
            if kind != MARK:
                continue
            _, said, _, link, _, _, _, seq, _ = BODY.unpack_from(body)
            if link:
                continue
            marks += 1
            before = bisect.bisect_left(times, said)
            if before > seq:
                early += 1
                print("up to %d all packets were confirmed, up to seq %d: there are %d" % (said, seq, before))
    print("%d packets, %d marks, %d of them too early" % (len(times), marks, early))
    return 1 if early or marks < 5 else 0


if __name__ == "__main__":
    sys.exit(main())
