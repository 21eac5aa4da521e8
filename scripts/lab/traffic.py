#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs talking across the lab's monitored link.

  traffic.py run LAB SECONDS PACKETS   both sides, from outside their namespaces
  traffic.py serve                     the servers, in namespace hostb
  traffic.py talk RATE                 the clients, in namespace hosta, until ended

Everything here goes through the kernel's own TCP, UDP and ICMP, so what the tap sees is
what a link carries: handshakes, windows, delayed acknowledgements, neighbour discovery.
"""
import http.server
import json
import os
import random
import signal
import smtplib
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import time

SERVER4, SERVER6 = "192.0.2.2", "2001:db8::2"
SHELL, SINK, ECHO = 22, 5001, 5002
SEGMENT = 1448


# ---- servers -----------------------------------------------------------------

class V4(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # a client that hangs up is part of the traffic


class V6(V4):
    address_family = socket.AF_INET6

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        super().server_bind()


class Web(http.server.BaseHTTPRequestHandler):
    """GET /bytes/N answers with N bytes; POST takes what it is given."""
    protocol_version = "HTTP/1.1"

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        size = int(self.path.rsplit("/", 1)[-1])
        line = b"<p>the quick brown fox jumps over the lazy dog</p>\n"
        self.answer((line * (size // len(line) + 1))[:size])

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(b"thanks\n")

    def log_message(self, *_):
        pass


class Mail(socketserver.StreamRequestHandler):
    """As much of SMTP as smtplib says."""

    def say(self, text):
        self.wfile.write(text.encode() + b"\r\n")

    def take_data(self):
        self.say("354 go on")
        while self.rfile.readline() not in (b".\r\n", b""):
            pass
        self.say("250 taken")

    def handle(self):
        self.say("220 hostb.lab.example ESMTP")
        for line in self.rfile:
            verb = line[:4].upper().strip()
            if verb == b"EHLO":
                self.say("250-hostb.lab.example")
                self.say("250 SIZE 1000000")
            elif verb == b"DATA":
                self.take_data()
            elif verb == b"QUIT":
                self.say("221 bye")
                return
            else:
                self.say("250 ok")


class Shell(socketserver.BaseRequestHandler):
    """Echoes each key; a new line is answered with a screenful."""

    def handle(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            keys = self.request.recv(256)
            if not keys:
                return
            self.request.sendall(keys)
            if b"\n" in keys:
                self.request.sendall(os.urandom(random.randrange(80, 1200)))


class Sink(socketserver.BaseRequestHandler):
    def handle(self):
        while self.request.recv(1 << 16):
            pass


def dns_answer(query):
    """One A or AAAA record for any name; None for what is no query."""
    if len(query) < 17 or query[2] & 0x80:
        return None
    end = query.find(b"\0", 12) + 5
    if end < 17 or end > len(query):
        return None
    kind = struct.unpack("!H", query[end - 4:end - 2])[0]
    data = socket.inet_aton("198.51.100.7") if kind == 1 else bytes(15) + b"\1"
    head = query[:2] + b"\x85\x80" + struct.pack("!HHHH", 1, 1, 0, 0)
    return head + query[12:end] + struct.pack("!HHHIH", 0xC00C, kind, 1, 300, len(data)) + data


def datagrams(family, port, answer):
    sock = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.bind(("", port))
    while True:
        data, peer = sock.recvfrom(65535)
        reply = answer(data)
        if reply:
            sock.sendto(reply, peer)


def in_thread(function, *args):
    threading.Thread(target=function, args=args, daemon=True).start()


def serve():
    for server in (V4, V6):
        for port, handler in ((80, Web), (25, Mail), (SHELL, Shell), (SINK, Sink)):
            in_thread(server(("", port), handler).serve_forever)
    for family in (socket.AF_INET, socket.AF_INET6):
        in_thread(datagrams, family, 53, dns_answer)
    in_thread(datagrams, socket.AF_INET, ECHO, lambda data: data[:len(data) // 2])
    print("ready", flush=True)
    threading.Event().wait()


# ---- clients -----------------------------------------------------------------

def forever(function, *args):
    """A client that is refused or cut off tries again: it is traffic all the same."""
    while True:
        try:
            function(*args)
        except (OSError, smtplib.SMTPException):
            time.sleep(0.1)


def web(rng):
    """curl: one connection for many requests, then one for each."""
    host = rng.choice((SERVER4, "[" + SERVER6 + "]"))
    sizes = [int(rng.paretovariate(0.8) * 300) % 120000 for _ in range(rng.randrange(1, 12))]
    command = ["curl", "-sg", "--noproxy", "*", "--max-time", "10", "-o", "/dev/null"]
    if rng.random() < 0.2:
        command += ["--data-binary", "x" * rng.randrange(1, 30000), "http://%s/post/0" % host]
        subprocess.run(command, check=False)
        return
    urls = ["http://%s/bytes/%d" % (host, size) for size in sizes]
    if rng.random() < 0.3:
        command += ["-H", "Connection: close"]
    for url in urls[1:]:
        command += ["-o", "/dev/null", url]
    subprocess.run(command + [urls[0]], check=False)
    time.sleep(0.05)


def dns(rng):
    family, server = rng.choice(((socket.AF_INET, SERVER4), (socket.AF_INET6, SERVER6)))
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(1)
        labels = ["host%d" % rng.randrange(1000), rng.choice(("mail", "www", "cdn-edge")), "example"]
        name = b"".join(struct.pack("B", len(label)) + label.encode() for label in labels)
        query = struct.pack("!HHHHHH", rng.randrange(65536), 0x0100, 1, 0, 0, 0)
        sock.sendto(query + name + b"\0" + struct.pack("!HH", rng.choice((1, 28)), 1), (server, 53))
        sock.recv(512)
    time.sleep(0.01)


def mail(rng):
    with smtplib.SMTP(rng.choice((SERVER4, SERVER6)), 25, "hosta.lab.example", 10) as smtp:
        for _ in range(rng.randrange(1, 4)):
            body = "Subject: report %d\r\n\r\n" % rng.randrange(10000)
            body += "all is well, more or less\r\n" * rng.randrange(1, 800)
            smtp.sendmail("a@hosta.lab.example", ["b@hostb.lab.example"], body)
    time.sleep(0.2)


def shell(rng):
    with socket.create_connection((SERVER4, SHELL), 10) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(rng.randrange(20, 200)):
            sock.sendall(rng.choice((b"l", b"s", b" ", b"\n")))
            sock.recv(4096)
            time.sleep(rng.uniform(0.005, 0.03))


def bulk(server, rate):
    """A long transfer at RATE bytes/s, so that a slow machine can record it all."""
    chunk = os.urandom(SEGMENT * 8)
    with socket.create_connection((server, SINK), 10) as sock:
        begin, sent = time.monotonic(), 0
        while sent < 20 * rate:
            sock.sendall(chunk)
            sent += len(chunk)
            ahead = sent / rate - (time.monotonic() - begin)
            if ahead > 0:
                time.sleep(ahead)


def bursts(rng):
    """Datagrams in runs, some of them byte for byte the same, some in fragments."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.2)
        size = rng.choice((0, 1, 18, 64, 200, 512, 1200, 1472, 2500))
        same = rng.random() < 0.3
        for i in range(rng.randrange(5, 60)):
            fill = b"s" if same else b"%d" % i
            sock.sendto((fill * size)[:size], (SERVER4, ECHO))
    time.sleep(0.1)


def talk(rate):
    rng = random.Random(1)
    for client in (web, web, dns, dns, mail, shell, shell, bursts):
        in_thread(forever, client, random.Random(rng.random()))
    in_thread(forever, bulk, SERVER4, rate * 0.6)
    in_thread(forever, bulk, SERVER6, rate * 0.4)
    threading.Event().wait()


# ---- both, from outside -------------------------------------------------------

def enter(lab, role):
    return ["nsenter", "--net=/run/netns/%s-%s" % (lab, role)]


class Children:
    """Started in sessions of their own, ended by their own numbers."""

    def __init__(self, lab):
        self.lab = lab
        self.all = []

    def start(self, role, *command, **more):
        line = enter(self.lab, role) + list(command)
        child = subprocess.Popen(line, start_new_session=True, stdin=subprocess.DEVNULL, **more)
        self.all.append(child)
        return child

    def dead(self):
        return next((c for c in self.all if c.poll() is not None), None)

    def end(self):
        for child in self.all:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()


def tapped(lab):
    """Packets that the tap has been given so far."""
    line = enter(lab, "tap") + ["ip", "-s", "-j", "link", "show", "mirror0"]
    out = subprocess.run(line, check=True, capture_output=True).stdout
    return json.loads(out)[0]["stats64"]["tx"]["packets"]


def await_ready(server):
    if server.stdout.readline() != b"ready\n":
        sys.exit("traffic: the servers did not start")


def watch(children, begin, seconds, packets):
    """Until both the time is over and the packets are there. Bounded in time."""
    start, limit, shown = time.monotonic(), seconds * 3 + 60, 0
    while True:
        passed, count = time.monotonic() - start, tapped(children.lab) - begin
        if passed >= seconds and count >= packets:
            return count
        if passed > limit:
            sys.exit("traffic: only %d of %d packets in %d s" % (count, packets, passed))
        if children.dead():
            sys.exit("traffic: %s ended early" % " ".join(children.dead().args[2:4]))
        if passed - shown >= 5:
            shown = passed
            print("traffic: %d packets in %d s" % (count, passed), flush=True)
        time.sleep(0.2)


def run(lab, seconds, packets):
    me, children = os.path.abspath(__file__), Children(lab)
    # The other clients make some 1,300 packets/s; two packets of bulk make one ACK.
    rate = max(0, packets / seconds - 1000) + 1500
    begin = tapped(lab)
    try:
        await_ready(children.start("hostb", sys.executable, me, "serve", stdout=subprocess.PIPE))
        children.start("hosta", sys.executable, me, "talk", str(rate / 1.5 * SEGMENT))
        for address in (SERVER4, SERVER6):
            children.start("hosta", "ping", "-q", "-i", "0.1", address, stdout=subprocess.DEVNULL)
        count = watch(children, begin, seconds, packets)
    finally:
        children.end()
    print("traffic: done, %d packets" % count)


def interrupted(*_):
    sys.exit(130)


def main(argv):
    if argv[1:] == ["serve"]:
        serve()
    elif len(argv) == 3 and argv[1] == "talk":
        talk(float(argv[2]))
    elif len(argv) == 5 and argv[1] == "run":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, interrupted)
        run(argv[2], int(argv[3]), int(argv[4]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv)
