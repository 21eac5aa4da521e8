# SPDX-License-Identifier: Apache-2.0
"""The same questions to volumes of this machine, without a daemon: `packrack query` is run, and its
pcapng read. A trace does not carry otime, epoch and seq: they are None here."""
import json
import shutil
import struct
import subprocess
import threading
from dataclasses import MISSING

from .answer import Beyond, Completeness, Evicted, Missing, NodeAnswer, Search, Unobserved, pick
from .errors import Error, RequestError
from .packet import Packet
from .times import format_time, time_ns

SECTION, INTERFACE, ENHANCED = 0x0A0D0D0A, 1, 6
IF_NAME, IF_TSOFFSET = 2, 14
BLOCK = struct.Struct("<II")
ENHANCED_HEAD = struct.Struct("<IIIII")


def options(body):
    found, at = {}, 0
    while at + 4 <= len(body):
        code, length = struct.unpack_from("<HH", body, at)
        if not code:
            break
        found[code] = body[at + 4:at + 4 + length]
        at += 4 + (length + 3 & ~3)
    return found


def read_trace(stream):
    """Packets of a pcapng as packrack writes it: little-endian, nanoseconds. link is its name."""
    interfaces = []
    while True:
        head = stream.read(BLOCK.size)
        if not head:
            return
        kind, total = BLOCK.unpack(head) if len(head) == BLOCK.size else (0, 0)
        body = stream.read(total - BLOCK.size) if total >= 12 else b""
        if not body or len(body) != total - BLOCK.size:
            raise Error("packrack query ended in the middle of a packet")
        if kind == INTERFACE:
            found = options(body[8:-4])
            offset = struct.unpack("<q", found.get(IF_TSOFFSET, bytes(8)))[0]
            interfaces.append((struct.unpack_from("<H", body)[0], offset * 10 ** 9,
                               found.get(IF_NAME, b"").decode("utf-8", "replace")))
        elif kind == ENHANCED:
            number, high, low, caplen, length = ENHANCED_HEAD.unpack_from(body)
            linktype, offset, name = interfaces[number]
            yield Packet((high << 32 | low) + offset, None, name, None, None, caplen, length,
                         linktype, 0, body[20:20 + caplen])


def from_json(kind, said):
    known = {name: said.get(name, 0 if f.default is MISSING else f.default)
             for name, f in kind.__dataclass_fields__.items()}
    if "epoch" in known:
        known["epoch"] = int(known["epoch"], 16)
    return kind(**known)


def completeness_of(report):
    c = dict(report, **report["completeness"])
    c["complete"] = c["complete"] and not report["cancelled"]
    for name, kind in (("nodes", NodeAnswer), ("missing", Missing), ("missing_classes", Missing), ("evicted", Evicted),
                       ("unobserved", Unobserved), ("beyond", Beyond)):
        c[name] = [from_json(kind, x) for x in report["completeness"][name]]
    return pick(Completeness, c)


class VolumeAnswer:
    """As Answer. What packrack says on standard error is kept: its report, or its one line."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.said = b""
        self.report = None
        self.reader = threading.Thread(target=self.read_errors, daemon=True)
        self.reader.start()

    def read_errors(self):
        self.said = self.process.stderr.read()

    def __iter__(self):
        finished = False
        try:
            if self.process.stdout.closed:
                return
            yield from read_trace(self.process.stdout)
            finished = True
        finally:
            self.finish(finished)

    def finish(self, finished):
        if not finished:
            self.close()
            return
        self.wait()
        if self.process.returncode not in (0, 3):
            line = self.said.decode("utf-8", "replace").strip().split("\n")[-1]
            raise (RequestError if self.process.returncode == 2 else Error)(line)
        self.report = json.loads(self.said)

    def close(self):
        """Ends the command, which may be reading on for long without a packet to write."""
        self.process.terminate()
        self.wait()

    def wait(self):
        if not self.process.stdout.closed:
            self.process.stdout.close()
            self.process.wait()
            self.reader.join()
            self.process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def the_report(self):
        if self.report is None:
            raise Error("no report: the packets were not taken to their end")
        return self.report

    @property
    def completeness(self):
        return completeness_of(self.the_report())

    @property
    def search(self):
        return pick(Search, self.the_report())


class Volume:
    def __init__(self, paths, program):
        self.paths, self.program = paths, program

    def query(self, filter="", since=None, until=None, limit=0, link=None, strays=False, tagged=False):
        """As Rack.query; a filter that libpcap refuses is a RequestError of the first packet."""
        command = [self.program, "query", "--json", "-w", "-"]
        for path in self.paths:
            command.append("--volume=%s" % path)
        for name, when in (("since", since), ("until", until)):
            if when is not None:
                command.append("--%s=%s" % (name, format_time(time_ns(when))))
        if limit:
            command.append("--limit=%d" % limit)
        if link is not None:
            command.append("--link=%s" % link)
        if strays:
            command.append("--strays")
        if tagged:
            command.append("--tagged")
        return VolumeAnswer(command + ["--", filter] if filter.strip() else command)

    def connection(self, protocol, address, port, other, other_port, **choice):
        """As Rack.connection."""
        from . import alerts
        return self.query(alerts.connection(protocol, address, port, other, other_port), tagged=True, **choice)

    def pivot(self, write, **choice):
        """As Rack.pivot."""
        from . import alerts
        return alerts.pivot(["--volume=%s" % p for p in self.paths], write, program=self.program, **choice)

    def rate(self, filter="", **choice):
        """As Rack.rate."""
        from . import counts
        return counts.rate(["--volume=%s" % p for p in self.paths], filter, program=self.program,
                           **choice)

    def top(self, key="host", filter="", **choice):
        """As Rack.top."""
        from . import counts
        return counts.top(["--volume=%s" % p for p in self.paths], key, filter,
                          program=self.program, **choice)


def volume(*paths, program="packrack"):
    """Volumes of this machine. program: the packrack command."""
    found = shutil.which(program)
    if not found:
        raise Error("no command %s: give its path as program=" % program)
    return Volume([str(p) for p in paths], found)
