#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A trace whose packets carry their own number, and the proof by it that no packet has another's stamp.

  numbered.py make FILE [COUNT [SEED]]   at least 5 % of the packets are byte for byte like the one
                                         before, and a thousand in the middle are all the same
  numbered.py check FILE ANSWER          each packet of ANSWER has a stamp at which it was sent, and
                                         none is there more often than it was sent
"""
import random
import sys
from collections import Counter

import traces

MARK = b"number "
RUN = 1000


def frame(rng, number):
    text = MARK + b"%08d " % number
    text += bytes(rng.getrandbits(8) for _ in range(rng.choice((0, 10, 40, 200, 700, 1400))))
    udp = (5000 + number % 7).to_bytes(2, "big") + b"\x00\x35" + (8 + len(text)).to_bytes(2, "big") + b"\0\0"
    ip = b"\x45\0" + (28 + len(text)).to_bytes(2, "big") + b"\0\0\0\0\x40\x11\0\0"
    ip += bytes((10, 0, number % 13, 1, 10, 1, number % 17, 2))
    macs = b"\x02\0\0\0\1" + bytes([number % 5]) + b"\x02\0\0\0\2" + bytes([number % 3])
    return macs + b"\x08\0" + ip + udp + text


def make(path, count, seed):
    rng = random.Random(seed)
    time, packets, last = 1700000000 * 10 ** 9, [], None
    run = range(count // 2, count // 2 + min(RUN, count // 4))
    for number in range(1, count + 1):
        time += rng.randrange(1, 200000)
        again = last is not None and (rng.random() < 0.06 or (number in run and number != run[0]))
        last = last if again else frame(rng, number)
        packets.append((time, last, len(last)))
    traces.write_pcap(path, packets)


def check(path, answer):
    sent = Counter((p.data, p.time) for p in traces.Trace(path))
    have = Counter((p.data, p.time) for p in traces.Trace(answer))
    wrong = have - sent
    for (data, time), count in list(wrong.items())[:5]:
        print("%s at %s: %d times too often" % (data[42:58], time, count))
    print("numbered: %d sent, %d there, %d wrong" % (
        sum(sent.values()), sum(have.values()), sum(wrong.values())))
    return 1 if wrong else 0


def main(argv):
    if len(argv) >= 3 and argv[1] == "make":
        make(argv[2], int(argv[3]) if len(argv) > 3 else 20000, int(argv[4]) if len(argv) > 4 else 1)
        return 0
    if len(argv) == 4 and argv[1] == "check":
        return check(argv[2], argv[3])
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
