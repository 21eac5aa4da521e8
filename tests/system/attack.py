#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An attack of two stages, hidden in real traffic, as three monitors see it (Hyperion's figure 17).

    attack.py make DATA DIR [SEED]     DIR/{gateway,path-a,path-b}.pcap and DIR/truth.json
    attack.py want DIR N OUT           what answers query N of scripts/forensics, by tcpdump
    attack.py agree DIR                do its findings agree with truth.json?

X breaks into A, and from there into B, where it leaves a bot. The bot calls Z by IRC, gets a command
later, and sends spam. Real captures are the background: A and B are busy hosts in them, renamed.
What passes two monitors is seen twice, with another TTL and a little later.
"""
import json
import os
import random
import struct
import subprocess
import sys

import traces

SEEN = ("gateway", "path-a", "path-b")
S = 10 ** 9
FIN, SYN, PSH, ACK = 1, 2, 8, 16
EXPLOIT = b"\x90" * 64 + b"\xeb\x1f\x5e\x89\x76\x08\x31\xc0" * 24


def address(text):
    return bytes(map(int, text.split(".")))


def checksum(data):
    total = sum(struct.unpack(">%dH" % ((len(data) + 1) // 2), data + b"\0" * (len(data) % 2)))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def adjusted(old, before, after):
    """A checksum when some bytes under it change (RFC 1624)."""
    total = ~old & 0xFFFF
    for b, a in zip(struct.unpack(">%dH" % (len(before) // 2), before),
                    struct.unpack(">%dH" % (len(after) // 2), after)):
        total += (~b & 0xFFFF) + a
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def renamed(data, old, new):
    """A frame with IPv4 address old as new, where it is source or destination."""
    if data[12:14] != b"\x08\x00" or len(data) < 34 or old not in (data[26:30], data[30:34]):
        return data
    out = bytearray(data)
    ends = bytes(data[26:34])
    for at in (26, 30):
        if out[at:at + 4] == old:
            out[at:at + 4] = new
    sums = [24]
    first = not struct.unpack(">H", data[20:22])[0] & 0x1FFF
    layer4 = 14 + (data[14] & 15) * 4
    where = {6: 16, 17: 6}.get(data[23])
    if first and where and len(data) >= layer4 + where + 2:
        if data[23] == 6 or data[layer4 + 6:layer4 + 8] != b"\0\0":
            sums.append(layer4 + where)
    for at in sums:
        struct.pack_into(">H", out, at, adjusted(struct.unpack_from(">H", out, at)[0], ends,
                                                 bytes(out[26:34])))
    return bytes(out)


def hop(data):
    """The same frame behind a router."""
    if data[12:14] != b"\x08\x00" or data[22] < 2:
        return data
    out = bytearray(data)
    out[22] -= 1
    out[14 + 10:14 + 12] = struct.pack(">H", adjusted(
        struct.unpack_from(">H", data, 24)[0], data[22:24], bytes(out[22:24])))
    return bytes(out)


class Network:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.seen = {name: [] for name in SEEN}

    def pass_by(self, time, frame, length, names):
        """At each monitor on the way, in order."""
        for name in names:
            self.seen[name].append((time, frame, length))
            time += self.random.randrange(120000, 400000)
            frame = hop(frame)

    def outside(self):
        return "198.%d.%d.%d" % (self.random.choice((18, 19)), self.random.randrange(256),
                                 self.random.randrange(1, 255))

    def segment(self, src, dst, flags, seq, ack, payload=b""):
        (source, sport), (target, dport) = src, dst
        ends = address(source) + address(target)
        tcp = struct.pack(">HHIIBBHHH", sport, dport, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x50,
                          flags, 64240, 0, 0) + payload
        total = checksum(ends + struct.pack(">HH", 6, len(tcp)) + tcp)
        tcp = tcp[:16] + struct.pack(">H", total) + tcp[18:]
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), self.random.randrange(65536), 0x4000,
                         64, 6, 0) + ends
        ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
        return bytes.fromhex("020000000001020000000002") + b"\x08\x00" + ip + tcp

    def talk(self, time, client, server, names, script, end=True):
        """A TCP connection; script: (seconds later, "c" or "s", payload). Returns when data went."""
        way = {"c": names, "s": names[::-1]}
        ends = {"c": (client, server), "s": (server, client)}
        number = {"c": self.random.randrange(2 ** 32), "s": self.random.randrange(2 ** 32)}
        other = {"c": "s", "s": "c"}
        times = []

        def send(who, flags, payload=b""):
            frame = self.segment(*ends[who], flags, number[who],
                                 number[other[who]] if flags & ACK else 0, payload)
            self.pass_by(time, frame, len(frame), way[who])
            number[who] += len(payload) + bool(flags & (SYN | FIN))

        def step():
            return self.random.randrange(2 * 10 ** 6, 9 * 10 ** 6)

        for who, flags in (("c", SYN), ("s", SYN | ACK), ("c", ACK)):
            send(who, flags)
            time += step()
        for later, who, payload in script:
            time += int(later * S)
            times.append(time)
            send(who, PSH | ACK, payload)
            time += step()
            send(other[who], ACK)
        if end:
            for who, flags in (("c", FIN | ACK), ("s", FIN | ACK), ("c", ACK)):
                time += step()
                send(who, flags)
        return times


def background(net, data, start, a, b):
    """Three captures from the start on; what A and B say to the world passes the gateway as well."""
    span = 299 * S
    for path, old, new, name, turns in (
            ("a-general/Pcap-Analyzer__test.pcap", "192.168.19.99", a, "path-a", 5),
            ("a-general/cuckoo__mixed-traffic.pcap", "192.168.56.110", b, "path-b", 1)):
        packets = list(traces.Trace(os.path.join(data, path)))
        first = min(p.time for p in packets)
        for turn in range(turns):
            for p in packets:
                time = start + p.time - first + turn * 58 * S
                frame = renamed(p.data, address(old), address(new))
                ends = frame[26:30], frame[30:34]
                private = frame[12:14] != b"\x08\x00" or address(new) not in ends or any(
                    e[0] in (10, 192, 127) and e != address(new) or e[0] >= 224 for e in ends)
                names = [name] if private else [name, "gateway"]
                if time < start + span:
                    net.pass_by(time, frame, p.length,
                                names[::-1] if ends[1] == address(new) else names)
    mix = list(traces.Trace(os.path.join(data, "mix-gateway-full-a.pcap")))
    first = min(p.time for p in mix)
    for p in mix:
        net.pass_by(start + p.time - first, p.data, p.length, ["gateway"])


def attack(net, start, a, b, x, z):
    rnd = net.random
    port = lambda: rnd.randrange(32768, 61000)
    at = lambda seconds: start + int(seconds * S) + rnd.randrange(10 ** 8)
    targets = []

    def probe(when, host, dport):
        targets.append("%s.%d" % (host, dport))
        frame = net.segment((x, port()), (host, dport), SYN, rnd.randrange(2 ** 32), 0)
        net.pass_by(when, frame, len(frame), ["gateway", "path-a"] if host == a else ["gateway"])

    neighbours = ["10.20.%d.%d" % (rnd.randrange(1, 250), rnd.randrange(1, 250)) for _ in range(9)]
    for i, host in enumerate(neighbours + [a]):
        probe(at(20 + i * 0.7), host, 22)
        probe(at(32 + i * 0.7), host, 8080)
    # 1: X takes A, and types on; 2: what it types, A does to B
    t2 = at(76)
    typed = [t2 + int(i * 0.4 * S) for i in range(12)]
    script, now = [(0.2, "c", EXPLOIT), (0.5, "s", b"$ ")], at(64)
    targets.append("%s.8080" % a)
    sent = now + S
    for when in typed:
        script.append(((when - 12 * 10 ** 6 - sent) / S, "c", b"\x17\x03\x03" + rnd.randbytes(90)))
        sent = when
    # the times that the script gives are when X spoke; A's words to B follow each at once
    spoke = net.talk(now, (x, port()), (a, 8080), ["gateway", "path-a"], script)[2:]
    conversation, last = [], spoke[0] + 10 ** 7
    for i, when in enumerate(spoke[1:]):
        conversation.append(((when + 12 * 10 ** 6 - last) / S, "c",
                             EXPLOIT if i == 2 else rnd.randbytes(120)))
        last = when + 17 * 10 ** 6
    first_ab = spoke[0] + 10 ** 7
    net.talk(first_ab, (a, port()), (b, 445), ["path-a", "path-b"], conversation)
    # 3: the bot calls home; 4: a command; 5: spam
    px, t1, t0 = port(), at(82.5), at(230)
    chat = [(0.3, "c", b"NICK b0t%04d\r\nUSER x x x :x\r\n" % rnd.randrange(10000)),
            (0.2, "s", b":irc 001 welcome\r\n"), (0.2, "c", b"JOIN #%x\r\n" % rnd.randrange(2 ** 24))]
    elapsed = 0.7
    while elapsed < (t0 - t1) / S - 25:
        chat += [(20, "s", b"PING :irc\r\n"), (0.05, "c", b"PONG :irc\r\n")]
        elapsed += 20.08
    chat.append(((t0 - t1) / S - elapsed - 0.9, "s", b"PRIVMSG #x :spam start\r\n"))
    chat += [(2.1, "s", b"PRIVMSG #x :spam list %d\r\n" % i) for i in range(20)]
    said = net.talk(t1, (b, px), (z, 6667), ["path-b", "gateway"], chat, end=False)
    command = said[len(chat) - 21]
    relays = [net.outside() for _ in range(8)]
    for i in range(24):
        net.talk(command + S // 2 + i * 2 * S, (b, port()), (rnd.choice(relays), 25),
                 ["path-b", "gateway"], [
                     (0.05, "s", b"220 ready\r\n"), (0.02, "c", b"HELO b\r\n"),
                     (0.03, "s", b"250 ok\r\n"), (0.01, "c", b"MAIL FROM:<a@example.org>\r\n"),
                     (0.03, "s", b"250 ok\r\n"), (0.01, "c", rnd.randbytes(1200)),
                     (0.05, "s", b"250 sent\r\n")])
    return {"T0": command + S // 2, "command": command, "Z": z, "Px": px, "T1": t1, "A": a,
            "T2": first_ab, "X": x, "targets": sorted(set(targets))}


def make(data, directory, seed="1"):
    net = Network(int(seed))
    rnd, start = net.random, 1709629200 * S
    a = "10.20.%d.%d" % (rnd.randrange(1, 250), rnd.randrange(1, 250))
    b = "10.30.%d.%d" % (rnd.randrange(1, 250), rnd.randrange(1, 250))
    background(net, data, start, a, b)
    before = {name: len(packets) for name, packets in net.seen.items()}
    truth = attack(net, start, a, b, net.outside(), net.outside())
    truth["B"] = b
    for name, packets in net.seen.items():
        packets.sort(key=lambda p: p[0])
        traces.write_pcap("%s/%s.pcap" % (directory, name), packets)
        print("%s: %d packets, %d of the attack" % (name, len(packets),
                                                    len(packets) - before[name]))
    with open(directory + "/truth.json", "w") as f:
        json.dump(truth, f, indent=1)


def ns(text):
    return int(text.lstrip("@").replace(".", "")) if text else None


def want(directory, number, out):
    """One trace a monitor, to be merged in order of time."""
    said = dict(line.rstrip("\n").split(" ", 1) for line in open("%s/answers/%s.query"
                                                                  % (directory, number)))
    since, until = ns(said.get("since")), ns(said.get("until"))
    for i, name in enumerate(SEEN):
        found = "%s/want.pcap" % directory
        subprocess.run(["tcpdump", "--nano", "-r", "%s/%s.pcap" % (directory, name), "-w", found,
                        said["filter"]], check=True, stderr=subprocess.DEVNULL)
        traces.write_pcap("%s.%d" % (out, i), [
            p[:3] for p in traces.Trace(found)
            if (since is None or p.time >= since) and (until is None or p.time <= until)])


def agree(directory):
    with open(directory + "/truth.json") as f:
        truth = json.load(f)
    found = dict(line.split() for line in open(directory + "/answers/findings"))
    targets = sorted(line.strip() for line in open(directory + "/answers/targets"))
    bad = [key for key in ("Z", "Px", "A", "X") if found[key] != str(truth[key])]
    bad += [key for key in ("T0", "T1", "T2") if ns(found[key]) != truth[key]]
    if targets != truth["targets"]:
        bad.append("targets")
    for key in bad:
        print("%s: found %s, is %s" % (key, found.get(key, targets), truth[key]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit({"make": make, "want": want, "agree": agree}[sys.argv[1]](*sys.argv[2:]))
