#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A hostile client: attacks one endpoint for some seconds, and prints one line of what it did.

usage: hostile.py ATTACK ENDPOINT [--seconds N | --hold] [--count N] [--keys DIR] [--name NODE]

ENDPOINT is ipc://PATH or tcp://HOST:PORT; for attacks on the rack's switch an interface of it. --keys: the attacker
is enrolled with these keys.
--hold: attacks once, prints its line, and stays connected until its standard input ends.
--count: connections, or messages or frames a round. --name: the node that it claims to be; of squat, the UUID of the
volume. Needs PYTHONPATH=build/python.
"""
import argparse
import os
import random
import resource
import select
import shutil
import socket
import sys
import tempfile
import threading
import time

import zmq
from packrack import packrack_pb2 as pb
from packrack.channel import Target

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + "/../system")
import forge  # noqa: E402 pylint: disable=wrong-import-position

NOBODY = 54322  # a user of the machine who has nothing to do with packrack
INSTRUCTIONS = 200000  # of a filter, as many as a node takes
ROUND_S = 0.02

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
        self.recorded = []
        self.link = None

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

    def filters(self):
        """Queries over everything whose filters take as many steps a packet as a filter may."""
        if not self.recorded:
            add, accept = pb.Instruction(code=0x04, k=1), pb.Instruction(code=0x06, k=1)
            program = pb.Program(linktype=1, instructions=[add] * (INSTRUCTIONS - 1) + [accept])
            query = pb.Query(since=0, until=2**63 - 1, count_only=True, programs=[program])
            self.recorded = [pb.Envelope(query=query).SerializeToString()]
        for s in self.dealers(2):
            for i in range(self.args.count):
                self.send(s, self.recorded[0] + pb.Envelope(id=self.done + 1).SerializeToString())
            self.listen(s)

    # ---- what was said once ----

    def record_talk(self):
        """What an enrolled client sends for one request, taken down between it and the daemon."""
        place, real = tempfile.mkdtemp(), self.args.endpoint
        listener, said = socket.socket(socket.AF_UNIX), []
        listener.bind(place + "/s")
        listener.listen()

        def carry():
            ends = [listener.accept()[0], socket.socket(socket.AF_UNIX)]
            ends[1].connect(real[6:])
            while True:
                for s in select.select(ends, [], [])[0]:
                    data = s.recv(65536)
                    if not data:
                        return
                    if s is ends[0]:
                        said.append(data)
                    ends[s is ends[0]].sendall(data)

        threading.Thread(target=carry, daemon=True).start()
        self.target = Target(real, self.args.keys)
        self.args.endpoint = "ipc://" + place + "/s"
        s = self.dealers(1)[0]
        self.send(s, pb.Envelope(id=1, status_request=pb.StatusRequest()))
        assert s.poll(5000), "no answer to record"
        s.close()
        self.sockets.clear()
        self.args.endpoint = real
        shutil.rmtree(place)
        self.recorded, self.done = [b"".join(said)], 0

    def replay(self):
        """The bytes of an enrolled client's connection once more; on the switch, all of a second's frames."""
        if not self.recorded:
            (self.record_talk if "://" in self.args.endpoint else self.record_frames)()
        if "://" in self.args.endpoint:
            self.hold(self.recorded[0])
        else:
            for _ in range(self.args.count):
                self.put(self.recorded[self.done % len(self.recorded)])

    # ---- frames on the rack's switch ----

    def record_frames(self):
        self.link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.link.bind((self.args.endpoint, 0))
        self.link.settimeout(1)
        end = time.monotonic() + 1.2  # a STATUS and several MARKs
        while time.monotonic() < end:
            self.recorded.append(self.link.recv(65536))
        self.link.setblocking(True)

    def put(self, frame):
        self.link.send(frame)
        self.done += 1

    def forged(self):
        """Control frames whose author has no key: commands, and recorded ones with bytes changed."""
        if not self.recorded:
            self.record_frames()
            self.recorded = [f for f in self.recorded if f[12:14] == forge.ETHERTYPE]
            assert self.recorded, "no control frame has passed"
        for _ in range(self.args.count):
            model = random.choice(self.recorded)
            if self.done % 2:
                self.put(forge.forged(model, random.choice(list(forge.TYPES)), b"").ljust(60, b"\0"))
            else:
                frame = bytearray(model)
                frame[random.randrange(14, len(frame))] ^= random.randrange(1, 256)
                self.put(frame)

    # ---- other users of the machine ----

    def squat(self):
        """Takes each name in shared folders that a daemon could want, and knocks at its socket."""
        if not self.recorded:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            self.recorded = ["%s/%s%s%s" % (folder, prefix, self.args.name, suffix)
                             for folder in ("/dev/shm", "/run/packrack", os.path.dirname(self.args.endpoint[6:]))
                             for prefix in ("", "packrack-") for suffix in ("", ".shm", ".index", ".sock")]
        for path in self.recorded:
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                self.kept.append(path)
                self.hear("taken")
            except FileExistsError:
                self.hear("there")
            except OSError:
                self.hear("denied")
            self.done += 1
        s = raw(self.args.endpoint)
        self.hear("connected" if s else "kept out")
        if s:
            s.close()

    # ---- all ----

    def run(self):
        attack = getattr(self, self.args.attack)
        try:
            self.go_on(attack)
        finally:
            for path in self.kept if self.args.attack == "squat" else []:
                os.unlink(path)

    def go_on(self, attack):
        end = time.monotonic() + self.args.seconds
        while True:
            attack()
            wait = 0 if self.args.attack in ("churn", "messages", "large") else ROUND_S
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


ATTACKS = ("silent", "greeting", "junk", "churn", "dealt", "messages", "large", "queries", "credit", "filters", "names",
           "replay", "forged", "squat")


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
