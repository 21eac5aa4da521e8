#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Numbered, checksummed packets on the links of a lab, and witnesses that see which of them came where.

  traffic.py send DIR LAB LINKS RATE SEED      in the namespace of the tap: RATE packets/s onto each link, until killed
  traffic.py witness DIR LAB LINKS NODES SIDE  sockets beside the rack's programs: at the links, behind the
                                               dispatcher, at each node. SIDE of a link: tap, the capture interface;
                                               mirror, its other end, as nobody sees on the first what XDP takes

Nothing here shares code with the programs under test. Shared with the checker are arrays in DIR/LINK.ARRAY, by
number of the packet: sent (ns, as it was sent), seen (ns, the kernel's time at the link), node (to which the dispatcher
has sent it), came (bits of the nodes that it reached).
"""
import ctypes
import mmap
import os
import random
import select
import signal
import socket
import struct
import sys
import time
import zlib

MAGIC = b"\xc4a0s"
TRAILER = struct.Struct(">4sBQI")  # magic, link, number, CRC-32 of all before it
ARRAYS = {"sent": "q", "seen": "q", "node": "B", "came": "B"}
MOST = 40_000_000  # packets of a link; the files are sparse
ETH_P_ALL, SOL_PACKET = 3, 263
PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION, PACKET_IGNORE_OUTGOING = 5, 6, 10, 23
PACKET_OUTGOING, TYPE_AT = 4, 48 + 10  # of a frame in the ring: its sockaddr_ll is behind the header
PORTS = 7


def array_path(folder, link, name):
    return "%s/%d.%s" % (folder, link, name)


class Arrays:
    """The arrays of one link, shared between processes; they grow in a sparse file."""

    def __init__(self, folder, link, create=False):
        self.maps = []
        for name, code in ARRAYS.items():
            path = array_path(folder, link, name)
            with open(path, "w+b" if create else "r+b") as f:
                if create:
                    f.truncate(MOST * struct.calcsize(code))
                self.maps.append(mmap.mmap(f.fileno(), 0))
            setattr(self, name, memoryview(self.maps[-1]).cast(code))


class Counts:
    """DIR/counts: for each link how many packets were sent; then what the witness has lost, and its sign of life."""

    def __init__(self, folder, create=False):
        with open(folder + "/counts", "w+b" if create else "r+b") as f:
            if create:
                f.truncate(128)
            self.map = mmap.mmap(f.fileno(), 0)
        self.at = memoryview(self.map).cast("q")


class Maker:
    """Packet NUMBER of a link is always the same one."""

    def __init__(self, seed, link):
        rng = random.Random("%d %d" % (seed, link))
        self.link = link
        self.noise = rng.randbytes(65536)
        self.sizes = [rng.choice((0, 4, 20, 60, 200, 200, 400, 1380)) + rng.randrange(40) for _ in range(4096)]

    def port(self, number):
        return 5000 + number % PORTS

    def matches(self, number, port):
        """As the filter "udp src port N" does, which sees neither into VLANs nor other protocols."""
        return self.port(number) == port and number % 16 not in (3, 5)

    def frame(self, number):
        size = self.sizes[number * 2654435761 % 4096]
        kind = number % 16
        at = number * 40503 % (65536 - 1500)
        text = self.noise[at:at + size]
        macs = b"\x02\0\0\0\1" + bytes([number % 5]) + b"\x02\0\0\0\2" + bytes([number % 3])
        if kind == 3:
            macs += b"\x81\0" + (1 + number % 50).to_bytes(2, "big")
        if kind == 5:  # the Ethertype of the rack's own frames, on a link
            head = macs + b"\x88\xb5"
        else:
            length = size + TRAILER.size
            ip = b"\x45\0" + (28 + length).to_bytes(2, "big") + b"\0\0\0\0\x40\x11\0\0"
            ip += bytes((10, self.link, number % 13, 1, 10, 1, number % 17, 2))
            head = macs + b"\x08\0" + ip + self.port(number).to_bytes(2, "big") + b"\x00\x35"
            head += (8 + length).to_bytes(2, "big") + b"\0\0"
        body = head + text + MAGIC + bytes([self.link]) + number.to_bytes(8, "big")
        return body + zlib.crc32(body).to_bytes(4, "big")


def read_number(frame):
    """Link and number, or None: not one of ours."""
    at = frame.rfind(MAGIC)
    if at < 0 or at + TRAILER.size > len(frame):
        return None
    _, link, number, _ = TRAILER.unpack_from(frame, at)
    return link, number


def is_whole(frame):
    """Is it as it was sent, to the last bit?"""
    return len(frame) > TRAILER.size and zlib.crc32(frame[:-4]).to_bytes(4, "big") == frame[-4:]


def enter(namespace):
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open("/run/netns/" + namespace, os.O_RDONLY)
    if libc.setns(fd, 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "setns " + namespace)
    os.close(fd)


def signal_with_parent(which):
    ctypes.CDLL(None).prctl(1, which)


def die_with_parent():
    signal_with_parent(signal.SIGKILL)


def send(folder, lab, links, rate, seed):
    enter(lab + "-tap")
    counts = Counts(folder).at
    makers = [Maker(seed, link) for link in range(links)]
    arrays = [Arrays(folder, link).sent for link in range(links)]
    sockets = []
    for link in range(links):
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        s.bind(("mirror%d" % link, 0))
        sockets.append(s)
    begun = time.monotonic()
    rng = random.Random(seed)
    number = 0
    while number < MOST - 1:
        due = int((time.monotonic() - begun) * rate)
        if due - number > rate // 2:  # it was held up: no flood after it
            begun += (due - number - rate // 50) / rate
            continue
        while number < due:
            for link, s in enumerate(sockets):
                frame = makers[link].frame(number)
                now = time.time_ns()
                try:
                    s.send(frame)
                except OSError:
                    pass  # the interface is down: it was never on the link
                arrays[link][number] = now
                counts[link] = number + 1
            number += 1
        time.sleep(0.002 + rng.random() * 0.006)


class Ring:
    """A packet socket whose frames the kernel puts into memory (TPACKET_V3), so that many cost little."""
    BLOCK, BLOCKS, FRAME = 1 << 18, 128, 2048

    def __init__(self, interface, outgoing=False):
        self.outgoing = outgoing
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(SOL_PACKET, PACKET_VERSION, 2)
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, not outgoing)
        self.socket.setsockopt(SOL_PACKET, PACKET_RX_RING, struct.pack(
            "IIIIIII", self.BLOCK, self.BLOCKS, self.FRAME, self.BLOCK // self.FRAME * self.BLOCKS, 20, 0, 0))
        self.map = mmap.mmap(self.socket.fileno(), self.BLOCK * self.BLOCKS)
        self.socket.bind((interface, ETH_P_ALL))
        self.at = 0

    def fileno(self):
        return self.socket.fileno()

    def take(self, told, links):
        """told(link, number, time, destination's last byte) for each of our frames that is there."""
        head, trailer, ring = struct.Struct("IIIIIIHH"), TRAILER, self.map
        for _ in range(self.BLOCKS):
            block = self.at * self.BLOCK
            status, count, first = struct.unpack_from("III", ring, block + 8)
            if not status & 1:
                return
            at = block + first
            for _ in range(count):
                following, seconds, ns, size, _, _, mac, _ = head.unpack_from(ring, at)
                begin, end = at + mac, at + mac + size
                last = end - trailer.size
                if ring[last:last + 4] != MAGIC:  # padded, or none of ours
                    last = ring.rfind(MAGIC, begin, last + 4)
                if last > begin and (ring[at + TYPE_AT] == PACKET_OUTGOING) == self.outgoing:
                    _, link, number, _ = trailer.unpack_from(ring, last)
                    if link < links and number < MOST:  # else damaged by the switch
                        told(link, number, seconds * 10 ** 9 + ns, ring[begin + 5])
                at += following
            struct.pack_into("I", ring, block + 8, 0)
            self.at = (self.at + 1) % self.BLOCKS

    def lost(self):
        return struct.unpack("III", self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 12))[1]


def witness(folder, lab, links, nodes, side):
    counts = Counts(folder).at
    arrays = [Arrays(folder, link) for link in range(links)]
    watched = {}

    def add(role, interface, told, outgoing=False):
        enter(lab + "-" + role)
        ring = Ring(interface, outgoing)
        watched[ring.fileno()] = (ring, told)

    def at_link(here):
        seen = arrays[here].seen

        def told(link, number, when, _to):
            if link == here:
                seen[number] = when
        return told

    def behind_dispatcher(link, number, _when, to):
        arrays[link].node[number] = to

    def at_node(node):
        came = [a.came for a in arrays]

        def told(link, number, _when, _to):
            came[link][number] |= 1 << node
        return told

    for link in range(links):
        add("tap" if side == "mirror" else "disp", side + str(link), at_link(link), side == "mirror")
    add("sw", "p0", behind_dispatcher)
    for node in range(1, nodes + 1):
        add("log%d" % node, "eth0", at_node(node))
    poll = select.epoll()
    for fd in watched:
        poll.register(fd, select.EPOLLIN)
    print("ready", flush=True)
    while True:
        begun = time.time_ns()
        poll.poll(0.2)
        for ring, told in watched.values():
            try:
                ring.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # its interface went down: it goes on when it is up
                ring.take(told, links)
                counts[8] += ring.lost()
            except OSError:
                continue
        counts[9] = begun - 100_000_000  # all up to here is told
        time.sleep(0.02)


def main(argv):
    die_with_parent()
    if argv[1] == "send":
        send(argv[2], argv[3], *(int(a) for a in argv[4:7]))
    elif argv[1] == "witness":
        witness(argv[2], argv[3], int(argv[4]), int(argv[5]), argv[6])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv)
