#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Asks any daemon for its status, with a key directory; exit 3 when it refuses.

usage: ask_status.py KEYS ENDPOINT PROGRAM          and sees that it refuses whoever has no keys
       ask_status.py --wait KEYS ENDPOINT PROGRAM   and, over the same connection, again after a line on stdin
"""
import sys

import packrack
from packrack import packrack_pb2 as pb
from packrack.channel import Channel, Target


def ask(channel, number, program):
    status = channel.ask(pb.Envelope(id=number, status_request=pb.StatusRequest()), "status", 5)
    assert status.program == program, status.program
    print("answered", flush=True)


def main(argv):
    again = argv[1] == "--wait"
    keys, endpoint, program = argv[-3:]
    target = Target(endpoint, keys)
    channel = Channel(target)
    try:
        ask(channel, 1, program)
        if again:
            sys.stdin.readline()
            ask(channel, 2, program)
            return 0
    except packrack.Refused as e:
        print(e)
        return 3
    finally:
        channel.close()
        target.close()
    stranger = Target(endpoint, "none")
    channel = Channel(stranger)
    try:
        ask(channel, 1, program)
        return 1
    except packrack.Refused as e:
        return 0 if "requires a key" in str(e) else 1
    finally:
        channel.close()
        stranger.close()


sys.exit(main(sys.argv))
