# SPDX-License-Identifier: Apache-2.0
"""A connection to a merger: envelopes over a ZeroMQ DEALER, watched so that a merger that goes, or
that does not admit us, is an exception and no silence (proto/rpc/rpc.h)."""
import contextlib
import errno
import os
import socket as plain
import sys
import time

import zmq
from google.protobuf.message import DecodeError

from . import packrack_pb2 as pb
from .errors import Error, Refused, RequestError, Unreachable
from . import keys

MESSAGE_MAX = 4 * 1024 * 1024
PATH_MAX = 107
EVENTS = (zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECT_RETRIED | zmq.EVENT_HANDSHAKE_SUCCEEDED
          | zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
          | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
CONNECT = 15.0  # seconds until a server that is there has shaken hands
ALIVE_ID = 2    # of status requests while an answer is silent: nodes may read for hours without a match
BROKEN_MAX = 3  # a server with another key hangs up without a word; so does one that just ends


def check_endpoint(endpoint):
    if endpoint.startswith("tcp://"):
        host, _, port = endpoint[6:].rpartition(":")
        if not host or not port:
            raise RequestError("endpoint %s: a port is missing, as in tcp://host:7400" % endpoint)
    elif not endpoint.startswith("ipc://"):
        raise RequestError("endpoint %s: give ipc://PATH or tcp://HOST:PORT" % endpoint)
    elif endpoint[6:7] in ("", "@", "*"):
        raise RequestError("endpoint %s: ipc:// needs the path of a socket" % endpoint)
    elif len(os.fsencode(endpoint[6:])) > PATH_MAX:
        raise RequestError("endpoint %s: its path has %d bytes, a socket's at most %d; use a shorter directory"
                           % (endpoint, len(os.fsencode(endpoint[6:])), PATH_MAX))


def check_listener(endpoint):
    """ipc: nobody there is told at once. tcp: only trying tells."""
    if not endpoint.startswith("ipc://"):
        return
    probe = plain.socket(plain.AF_UNIX, plain.SOCK_STREAM | plain.SOCK_NONBLOCK)
    try:
        probe.connect(endpoint[6:])
    except OSError as e:
        if e.errno != errno.EAGAIN:
            raise Unreachable("nobody listens on %s: %s" % (endpoint, e.strerror)) from None
    finally:
        probe.close()


IDLE_MAX = 64      # connections kept for the next question


class Target:
    """Where to connect, with which key directory, and the connections that no question is under way on."""

    def __init__(self, endpoint, key=None):
        check_endpoint(endpoint)
        self.endpoint = endpoint
        self.secret = self.public = self.server = None
        self.keys = keys.directory(key)
        if self.keys is not None:
            self.secret = keys.secret(self.keys)
            self.public = zmq.curve_public(self.secret)
            self.server = keys.server(self.keys, endpoint)
        self.context = zmq.Context()
        self.idle = []

    def channel(self):
        """One that is used already, if it is still connected: a handshake takes longer than most answers."""
        while self.idle:
            channel = self.idle.pop()
            channel.read_monitor()
            if not channel.gone:
                return channel
            channel.close()
        return Channel(self)

    def close(self):
        self.context.destroy(linger=0)


class Channel:
    """For one question at a time. Not to be shared by threads. A question that is under way is not asked again."""

    def __init__(self, target):
        self.target = target
        self.endpoint = target.endpoint
        self.keys = target.keys
        self.broken = 0
        self.connected = False
        self.patience = time.monotonic() + CONNECT
        check_listener(self.endpoint)
        self.socket = target.context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.MAXMSGSIZE, MESSAGE_MAX)
        self.socket.setsockopt(zmq.IPV6, 1)
        if target.secret:
            self.socket.curve_secretkey = target.secret
            self.socket.curve_publickey = target.public
            self.socket.curve_serverkey = target.server
        self.monitor = self.socket.get_monitor_socket(EVENTS)
        self.poller = zmq.Poller()
        self.poller.register(self.socket, zmq.POLLIN)
        self.poller.register(self.monitor, zmq.POLLIN)
        try:
            self.socket.connect(self.endpoint)
        except zmq.ZMQError as e:
            raise RequestError("cannot connect to %s: %s" % (self.endpoint, e.strerror)) from None
        self.gone = None
        self.id = ALIVE_ID

    def next_id(self):
        """Of a question: what is still on its way of an earlier one has another."""
        self.id += 1
        return self.id

    def send(self, envelope):
        try:
            self.socket.send(envelope.SerializeToString(), zmq.DONTWAIT)
        except zmq.ZMQError as e:
            self.read_monitor()  # it may have refused us already
            raise self.gone or Unreachable("%s: %s" % (self.endpoint, e)) from None

    def read_monitor(self):
        while self.monitor.poll(0):
            event = int.from_bytes(self.monitor.recv_multipart()[0][:2], sys.byteorder)
            refusal = self.refusal(event)
            if refusal:
                self.gone = Refused(refusal)
            elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.connected = True
            elif event == zmq.EVENT_DISCONNECTED and self.connected and not self.gone:
                self.gone = Unreachable("%s went away in the middle of the answer: ask again"
                                        % self.endpoint)
            elif event == zmq.EVENT_CONNECT_RETRIED and not self.connected and not self.gone:
                self.look_again()

    def look_again(self):
        """It may have ended since we looked, before it took us in."""
        try:
            check_listener(self.endpoint)
        except Unreachable as e:
            self.gone = e

    def refusal(self, event):
        """What a handshake that failed says of our keys (proto/rpc/monitor.c), or None."""
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return ("%s does not admit our key: enrol %s/public there (packrack keys enroll)"
                    % (self.endpoint, self.keys))
        if event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            self.broken += 1
        elif event != zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
            return None
        if self.broken < BROKEN_MAX and event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            return None
        if not self.keys:
            return ("%s requires a key, and no key directory was found: give --key-dir DIR or set PACKRACK_KEY "
                    "(create one with 'packrack keys generate' and have it enrolled)" % self.endpoint)
        if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
            return ("%s does not use keys, but %s has one: check the endpoint, or connect without a key by --key-dir none"
                    % (self.endpoint, self.keys))
        return ("the key of %s is not the server-key in %s/rack, or it uses none: check the endpoint; if its key was replaced, "
                "ask for a new bundle (packrack-keys(7))"
                % (self.endpoint, self.keys))

    def receive(self, timeout):
        """The next envelope. What came before the connection broke is given first."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                data = self.socket.recv(zmq.DONTWAIT)
            except zmq.Again:
                data = None
            if data:
                self.connected = True
                return self.decode(data)
            if data is None:
                if self.gone:
                    raise self.gone
                left = (deadline if self.connected else min(deadline, self.patience)) - time.monotonic()
                if left <= 0:
                    raise Unreachable("no answer from %s" % self.endpoint)
                self.poller.poll(int(left * 1000) + 1)
                self.read_monitor()

    def decode(self, data):
        with contextlib.suppress(DecodeError):
            envelope = pb.Envelope.FromString(data)
            if envelope.WhichOneof("body"):
                return envelope
        raise Error("%s: %d bytes that are not a packrack message" % (self.endpoint, len(data)))

    def ask(self, envelope, body, timeout):
        """One question, one reply."""
        envelope.id = self.next_id()
        self.send(envelope)
        deadline = time.monotonic() + timeout
        while True:
            reply = self.receive(max(0, deadline - time.monotonic()))
            if reply.id != envelope.id:
                continue
            kind = reply.WhichOneof("body")
            if kind == "failure":
                raise failure(self.endpoint, reply.failure)
            if kind != body:
                raise Error("%s answers with %s: is it the right program?" % (self.endpoint, kind))
            return getattr(reply, body)

    def release(self):
        """The question has its answer: the next one may have the connection."""
        if self.gone or self.socket.closed or len(self.target.idle) >= IDLE_MAX:
            self.close()
        else:
            self.target.idle.append(self)

    def close(self):
        if self.socket.closed:
            return
        self.socket.disable_monitor()
        self.monitor.close(linger=0)
        self.socket.close()


def failure(endpoint, said):
    """The server's one line as what it is."""
    if any(text in said.text for text in ("not allowed: key", "role does not allow", "not enrolled here")):
        return Refused("%s: %s" % (endpoint, said.text))
    kind = RequestError if said.bad_request else Error
    return kind("%s: %s" % (endpoint, said.text))
