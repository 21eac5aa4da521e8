#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A hostile client: attacks one endpoint for some seconds, and prints one line of what it did.

usage: hostile.py ATTACK ENDPOINT [--seconds N | --hold] [--count N] [--keys DIR] [--name NODE]

ENDPOINT is ipc://PATH or tcp://HOST:PORT. --keys: the attacker is enrolled with these keys.
--hold: attacks once, prints its line, and stays connected until its standard input ends.
--count: connections, or messages a round. --name: the node that it claims to be. Needs PYTHONPATH=build/python.
"""
import argparse
import os
import resource
import select
import socket
import sys
import time

import zmq
from packrack import packrack_pb2 as pb
from packrack.channel import Target

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)


def raw(endpoint):
    """A connected socket, or None."""
    if endpoint.startswith("ipc://"):
        s, at = socket.socket(socket.AF_UNIX), endpoint[6:]
    else:
        host, _, port = endpoint[6:].rpartition(":")
        s, at = socket.socket(), (host, int(port))
    s.setblocking(False)
    try:
        s.connect(at)
    except BlockingIOError:
        if s.family == socket.AF_UNIX:  # the listener's queue is full
            s.close()
            return None
    except OSError:
        s.close()
        return None
    return s


class Attacker:
    def __init__(self, args):
        self.args = args
        self.done = 0
        self.said = {}
        self.kept = []
        self.sockets = []
        self.target = None

    def hear(self, what):
        self.said[what] = self.said.get(what, 0) + 1

    # ---- connections ----

    def hold(self, first=b""):
        """As many connections as asked for, each made again when it is closed."""
        for s in [s for s in self.kept if self.closed(s)]:
            self.kept.remove(s)
            s.close()
            self.hear("closed")
        for _ in range(min(50, self.args.count - len(self.kept))):
            s = raw(self.args.endpoint)
            if s is None:
                self.hear("refused")
                return
            self.done += 1
            self.kept.append(s)
            if first:
                self.poke(s, first)

    @staticmethod
    def poke(s, data):
        try:
            s.send(data)
        except OSError:
            pass

    @staticmethod
    def closed(s):
        try:
            return s.recv(65536) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def silent(self):
        self.hold()

    def greeting(self):
        self.hold(GREETING)

    def junk(self):
        self.hold(os.urandom(500))
        for s in self.kept:
            self.poke(s, os.urandom(500))

    def churn(self):
        for _ in range(100):
            s = raw(self.args.endpoint)
            if s:
                self.done += 1
                s.close()

    # ---- messages ----

    def dealers(self, count):
        if not self.target:
            self.target = Target(self.args.endpoint, self.args.keys or "none")
            self.target.context.set(zmq.MAX_SOCKETS, 8000)
        while len(self.sockets) < count:
            s = self.target.context.socket(zmq.DEALER)
            s.setsockopt(zmq.LINGER, 0)
            s.setsockopt(zmq.RCVHWM, 1)  # a slow reader
            if self.target.secret:
                s.curve_secretkey, s.curve_publickey = self.target.secret, self.target.public
                s.curve_serverkey = self.target.server
            s.connect(self.args.endpoint)
            self.sockets.append(s)
        return self.sockets

    def send(self, s, envelope):
        try:
            s.send(envelope if isinstance(envelope, bytes) else envelope.SerializeToString(), zmq.DONTWAIT)
            self.done += 1
        except zmq.Again:
            pass

    def listen(self, s, most=1000):
        for _ in range(most):
            try:
                reply = pb.Envelope.FromString(s.recv(zmq.DONTWAIT))
            except zmq.Again:
                return
            kind = reply.WhichOneof("body") or "nothing"
            self.hear("failure" if kind == "failure" else kind)
            if kind == "failure":
                self.said["last"] = reply.failure.text

    def dealt(self):
        """Connections of ZeroMQ that shake hands and then say nothing."""
        self.dealers(self.args.count)
        self.done = len(self.sockets)

    def messages(self):
        """Requests whose answers are never read."""
        for s in self.dealers(8):
            for i in range(self.args.count):
                self.send(s, pb.Envelope(id=self.done + 1, status_request=pb.StatusRequest()))

    def large(self):
        """Messages of the largest size that say nothing."""
        for s in self.dealers(8):
            self.send(s, os.urandom(65536) * 63)

    def queries(self):
        """Queries that follow and get no credit: each holds a place as long as it can."""
        for s in self.dealers(2):
            for i in range(self.args.count):
                query = pb.Query(since=0, until=2**63 - 1, follow=True)
                self.send(s, pb.Envelope(id=self.done + 1, query=query))
            self.listen(s)

    def credit(self):
        """Queries for everything with all the credit there is, whose answers are never read."""
        for s in self.dealers(4):
            query = pb.Query(since=0, until=2**63 - 1, merges=self.done % 2 == 0)
            number = self.done + 1
            self.send(s, pb.Envelope(id=number, query=query))
            self.send(s, pb.Envelope(id=number, credit=pb.Credit(batches=65536)))

    def names(self):
        """A node that has many names, each with as many links as fit, and is gone again."""
        s = self.dealers(1)[0]
        for i in range(self.args.count):
            hello = pb.Hello(name="%s/%d" % (self.args.name, self.done), volume="0-%d" % self.done, version="0")
            for link in range(1000):
                hello.links.add(epoch=link + 1, link=link % 60000, linktype=1, name="phantom-%d" % link)
            self.send(s, pb.Envelope(id=1, hello=hello))
        s.poll(200)
        self.listen(s)
        s.close()
        self.sockets.clear()

    # ---- all ----

    def run(self):
        attack = getattr(self, self.args.attack)
        end = time.monotonic() + self.args.seconds
        while True:
            attack()
            wait = 0 if self.args.attack in ("churn", "messages", "large") else 0.02
            if self.args.hold:
                ready = select.select([sys.stdin], [], [], wait)[0]
                if time.monotonic() > end:
                    self.tell()
                    end = float("inf")
                if ready and not sys.stdin.read(1):
                    return
            elif time.monotonic() > end:
                for s in self.sockets:
                    self.listen(s)
                self.tell()
                return
            else:
                time.sleep(wait)

    def tell(self):
        said = ", ".join("%s: %s" % item for item in sorted(self.said.items(), key=str))
        print("%s: %d done%s%s" % (self.args.attack, self.done, "; " if said else "", said), flush=True)


ATTACKS = ("silent", "greeting", "junk", "churn", "dealt", "messages", "large", "queries", "credit", "names")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("attack", choices=ATTACKS)
    parser.add_argument("endpoint")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--keys")
    parser.add_argument("--name", default="log1")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    Attacker(parser.parse_args()).run()


if __name__ == "__main__":
    main()
