#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Look-ups of connections in a rack of three nodes while it captures, as in figures 9 and 10 of the Time Machine's paper
(Maier et al., SIGCOMM 2008). BENCH_PARTS chooses:

ramp    Persistent clients ask for connections of a 1 % sample of the last lap of the traffic, with since and until given.
        The rate grows as in figure 9, compressed in time: 0.5 queries/s, then BENCH_STEP more (100) every 5 s, where the
        paper adds 0.5 every 10 s, up to BENCH_MOST (1,500). Twice: three clients of the Python package, and C clients.
        Each answer must be complete and have the packets that the sample has. A question's time counts from the moment
        that it is due, also while clients are busy with others. Then the CPU that a query takes, by program, and what
        the capture lost, counted against the frames that the sender's kernel took.
memory  Look-ups in the last seconds, which are in the nodes' memory: bytes read from disks for them. And their latency
        alone and beside three full scans of the same user, which read the disks, in alternating rounds.
peer    The same ramp for the Time Machine 0.1-4 itself, if TIMEMACHINE is the path of its program: it captures the same traffic
        beside the rack, keeps it in memory, and is asked by its console for the same kind of sample, from memory only; then the
        rack is asked the same questions. All its queries are run one after the other, under one lock. A question's time ends
        when its answer's file is finished. Its index joins packets of a connection that come again soon into one interval, all of
        which is read: so here each lap has addresses of its own. The rack spreads packets by BENCH_SPREAD (round-robin, flow; both, in
        turn): by flow, a connection is at one node, and only that one is asked.
live    As figure 10: one of every BENCH_EVERY (100) TCP connections, when it has been established, is asked for at once,
        and once more 0.3 s later, when the ledger has confirmed it.

The traffic is a real mix of shared/data, sent again and again (a lap) at BENCH_RATE packets/s (5,000; live: 20,000); cut
packets are filled with zeros. All programs, sender and clients run on this one machine."""

import collections
import concurrent.futures
import ipaddress
import json
import os
import random
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b
import plotlib
import racklib

sys.path.insert(0, f"{b.BUILD}/python")
import packrack  # noqa: E402

MIX = os.path.join(b.DATA, "mix-gateway-hdr96-a.pcap")
LAP = 130930  # packets of it
PARTS = os.environ.get("BENCH_PARTS", "ramp,peer,memory,live").split(",")
RATE = int(os.environ.get("BENCH_RATE", "5000"))
LIVE_RATE = int(os.environ.get("BENCH_RATE", "20000"))
STEP = int(os.environ.get("BENCH_STEP", "100"))
MOST = int(os.environ.get("BENCH_MOST", "1500"))
EVERY = int(os.environ.get("BENCH_EVERY", "100"))
SPREADS = os.environ.get("BENCH_SPREAD", "round-robin,flow").split(",")
STEP_SECONDS, LIVE_SECONDS = 5, 120
PEER_LAPS = 12
CLIENTS, UNDER_WAY = 3, 4  # a merger takes 12 queries of a user at a time
ROUNDS, LOOKUPS = 4, 200   # of part memory: lookups/s
LATER = 0.3
NOBODY = "ether[40:4] = 0x12345678 and ether[44:4] = 0x9abcdef0"  # no index knows: all is read
PROTO = {6: "tcp", 17: "udp"}


# ---- connections ----

def end_points(frame):
    """(protocol, (address, port), (address, port)) of a TCP or UDP packet, sender first, and where its header begins"""
    if frame[12:14] == b"\x08\x00" and not (frame[20] & 0x3f or frame[21]):
        proto, at, a, z = frame[23], 14 + (frame[14] & 15) * 4, frame[26:30], frame[30:34]
    elif frame[12:14] == b"\x86\xdd":
        proto, at, a, z = frame[20], 54, frame[22:38], frame[38:54]
    else:
        return None, 0
    if proto not in PROTO or len(frame) < at + 4:
        return None, 0
    return (proto, (a, frame[at:at + 2]), (z, frame[at + 2:at + 4])), at


def connection(ends):
    return ends[:1] + tuple(sorted(ends[1:]))


def filter_of(conn):
    def side(name, end):
        return f"{name} host {ipaddress.ip_address(end[0])} and {name} port {int.from_bytes(end[1], 'big')}"

    proto, x, y = conn
    return (f"{PROTO[proto]} and (({side('src', x)} and {side('dst', y)}) or "
            f"({side('src', y)} and {side('dst', x)}))")


def sample(rack, seconds):
    """Questions for a 1 % sample of the connections of the last seconds, by chance: (since, until, packets, filter)"""
    until = time.time_ns() - 500_000_000
    seen = {}
    answer = rack.query(since=until - int(seconds * 1e9), until=until)
    for p in answer:
        ends, _ = end_points(p.data)
        if ends:
            c = seen.setdefault(connection(ends), [p.time, p.time, 0])
            c[1], c[2] = p.time, c[2] + 1
    assert answer.completeness.complete, answer.completeness
    chosen = random.sample(sorted(seen.items()), max(20, len(seen) // 100))
    print(f"    sample: {len(chosen)} of {len(seen)} connections, {sum(c[2] for _, c in chosen) / len(chosen):.1f} packets each",
          flush=True)
    return [(*c, filter_of(conn)) for conn, c in random.choices(chosen, k=20000)]


# ---- clients ----

class Step:
    """What clients say of a step, together. Seconds."""

    def __init__(self, said):
        self.rate = sum(s["rate"] for s in said)
        self.seconds = max(s["seconds"] for s in said)
        for name in ("offered", "answered", "packets", "wrong", "partial", "failed"):
            setattr(self, name, sum(s[name] for s in said))
        self.first = sorted(us / 1e6 for s in said for us in s["first"])
        self.failure = next((s["failure"] for s in said if s["failure"]), "")
        self.per_second = self.answered / self.seconds

    def at(self, share):
        return 1000 * self.first[min(len(self.first) - 1, int(len(self.first) * share))] if self.first else float("nan")

    @property
    def mean(self):
        return 1000 * sum(self.first) / max(1, len(self.first))

    def __str__(self):
        return (f"{self.rate:,.1f}/s offered, {self.per_second:,.1f}/s answered; to the first packet: mean {self.mean:.1f}, half "
                f"{self.at(.5):.1f}, 99 % {self.at(.99):.1f}, longest {self.at(1):.1f} ms; {self.wrong} wrong, {self.partial} partial, "
                f"{self.failed} failed {self.failure}")


def client(endpoint, key, step):
    """One process of the Python package: the questions of standard input at a rate, some under way at a time"""
    rate, seconds = map(float, step.split(":"))
    questions = [line.rstrip("\n").split(" ", 3) for line in sys.stdin]
    said = dict(rate=rate, offered=0, answered=0, packets=0, wrong=0, partial=0, failed=0, failure="", first=[])
    with packrack.connect(endpoint, key=key) as rack:
        list(rack.query("ip", limit=1))
        under_way, begin = collections.deque(), time.monotonic()
        count = max(1, round(rate * seconds))
        while said["offered"] < count or under_way:
            now, due = time.monotonic(), begin + said["offered"] / rate
            late = now > begin + seconds
            if said["offered"] < count and due <= now and not late and len(under_way) < UNDER_WAY:
                since, until, packets, text = questions[said["offered"] % len(questions)]
                said["offered"] += 1
                under_way.append((due, int(packets), rack.query(text, since=int(since), until=int(until))))
            elif under_way:
                take_answer(said, *under_way.popleft())
            elif late or said["offered"] == count:
                break
            else:
                time.sleep(max(0, due - time.monotonic()))
        said["seconds"] = time.monotonic() - begin
    print(json.dumps(said))


def take_answer(said, due, packets, answer):
    got = 0
    try:
        for got, _ in enumerate(answer, 1):
            if got == 1:
                said["first"].append((time.monotonic() - due) * 1e6)
    except packrack.Error as e:
        said["failed"] += 1
        said["failure"] = str(e)
        return
    said["answered"] += 1
    said["packets"] += got
    said["wrong"] += got != packets
    said["partial"] += not answer.completeness.complete


def ask(lab, kind, rate, questions, most=CLIENTS * UNDER_WAY):
    """A step: its Step, and the clients' CPU seconds"""
    where = lab.env["PACKRACK_MERGER"], lab.env["PACKRACK_KEY"]
    if kind == "C":
        words = [[f"{b.BUILD}/tests/bench/ask_load", *where, CLIENTS, most, f"{rate}:{STEP_SECONDS}"]]
    else:
        clients = CLIENTS if rate >= CLIENTS else 1
        words = [[sys.executable, __file__, "--client", *where, f"{rate / clients}:{STEP_SECONDS}"] for _ in range(clients)]
    said, cpu = [], []
    questions = questions[:max(1, round(rate * STEP_SECONDS))]

    def run(number):
        words_ = [str(w) for w in words[number]]
        with tempfile.TemporaryFile("w+") as file:
            file.writelines("%d %d %d %s\n" % q for q in (questions[number::len(words)] or questions))
            file.seek(0)
            p = subprocess.Popen(words_, stdin=file, stdout=subprocess.PIPE, text=True)
            out = p.stdout.read()
            used = os.wait4(p.pid, 0)[2]
            p.returncode = 0
        said.append(json.loads(out))
        cpu.append(used.ru_utime + used.ru_stime)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(words))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if len(said) < len(words):
        sys.exit("bench: a client has failed")
    return Step(said), sum(cpu)


# ---- the rack ----

def write_laps(path):
    """The mix, PEER_LAPS times, each with IPv4 addresses of its own"""
    with open(MIX, "rb") as f:
        data = f.read()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    with open(path, "wb") as out:
        out.write(data[:24])
        for lap in range(PEER_LAPS):
            copy, at = bytearray(data), 24
            while at + 16 <= len(copy):
                frame, at = at + 16, at + 16 + struct.unpack_from(order + "I", copy, at + 8)[0]
                if copy[frame + 12:frame + 14] == b"\x08\x00" and at >= frame + 34:
                    for byte in (frame + 27, frame + 31):
                        copy[byte] = (copy[byte] + lap) % 256
            out.write(copy[24:])


class Traffic:
    """The mix (or another trace) on the tap, again and again, until it is stopped."""

    def __init__(self, lab, rate, trace=MIX):
        # nsenter replaces the shell: the process is the sender
        self.process = b.start(racklib.RACK, "exec", "-d", lab.dir, "tap", f"{b.BUILD}/tests/bench/flood", "mirror0", rate, 10**9,
                               trace, env=lab.env, stdout=subprocess.PIPE)

    def stop(self):
        """Frames that the kernel took"""
        b.stop(self.process)
        return json.loads(self.process.stdout.read())["accepted"]


def cpu_of(pids):
    """name -> CPU seconds, by thread, to the microsecond"""
    got = {}
    for name, pid in pids.items():
        got[name] = collections.Counter()
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat") as f:
                got[name][task] = int(f.read().split()[0]) / 1e9
    return got


def since(pids, before):
    """name -> CPU seconds, of all threads and of the busiest one"""
    used = {name: [s - before[name][task] for task, s in now.items()] for name, now in cpu_of(pids).items()}
    return {name: (sum(s), max(s)) for name, s in used.items()}


# ---- parts ----

def climb(table, lab, rack, pids, idle, kind):
    lap = LAP / RATE + 1
    best, plotted, rate = None, [], 0.5
    # the sample lies a lap or two back at the end: in memory all the time
    questions = sample(rack, lap)
    while rate <= MOST:
        random.shuffle(questions)
        before, begin = cpu_of(pids), time.monotonic()
        step, clients = ask(lab, kind, rate, questions)
        took = time.monotonic() - begin
        cpu = {name: (s - idle[name][0] * took, most - idle[name][1] * took) for name, (s, most) in since(pids, before).items()}
        print(f"    {kind}: {step}", flush=True)
        plotted.append((step.rate, step.per_second, step.mean, step.at(.99)))
        if step.wrong or step.partial or step.failed:
            table.row(f"{kind} clients, wrong, partial or failed answers at {step.rate:g}/s", "", step.wrong + step.partial + step.failed)
        if step.per_second >= 0.95 * step.rate:
            best = step, cpu, clients
        rate = rate // STEP * STEP + STEP
    answered = max(p[1] for p in plotted)
    table.row(f"{kind} clients: highest rate of answers", "a second", answered, 120, "Time Machine, the paper's machine")
    if best:
        report(table, kind, *best)
    return plotted


def report(table, kind, step, cpu, clients):
    what = f"{kind} clients, offered {step.rate:,.0f}/s: "
    table.row(what + "answered", "a second", step.per_second)
    for name, value in (("mean", step.mean), ("half within", step.at(.5)), ("99 of 100 within", step.at(.99)),
                        ("longest", step.at(1))):
        table.row(what + "to the first packet, " + name, "ms", value)
    for name, (s, most) in sorted(cpu.items()):
        table.row(what + f"CPU of {name}, a query", "us", 1e6 * s / step.answered)
        table.row(what + f"CPU of {name}'s busiest thread, a query", "us", 1e6 * most / step.answered)
    # each program on a machine of two cores, as the rack is meant
    table.row(what + "answers if each program had a machine of its own, by its busiest thread", "a second",
              step.answered / max(most for _, most in cpu.values()))
    table.row(what + "CPU of the clients, a query, with their start", "us", 1e6 * clients / step.answered)


def ramp(table, lab, rack):
    pids = lab.pids()
    before = cpu_of(pids)
    time.sleep(3)
    idle = {name: (s / 3, most / 3) for name, (s, most) in since(pids, before).items()}
    blocks = {kind: climb(table, lab, rack, pids, idle, kind) for kind in ("Python", "C")}
    plotlib.plot("queries", "set xlabel 'queries/s offered'\nset ylabel 'answers/s'\nplot " + ", ".join(
        f"${kind} using 1:2 with linespoints title '{kind} clients'" for kind in blocks) + ", x title 'all'\n", blocks)


TM_PORT = 42042
TM_CONF = """main {
device "tap0";\nworkdir "DIR";\nindexdir "DIR";\nqueryfiledir "DIR";\nlogfile "log";\ndaemon 0;\nconsole 0;\nlog_interval 5;
conn_timeout 180;\nrmtconsole 1;\nrmtconsole_listen_addr 127.0.0.1;\nrmtconsole_port PORT;\nindex "connection4" disk;
}
class "rest" {
filter "";\nprecedence 1;\ncutoff CUTOFF;\ndisk 4g;\nfilesize 100m;\nmem MEMORY;
}
"""


class TimeMachine:
    """It captures what the rack captures, until it is stopped."""

    def __init__(self, lab, cutoff, memory):
        self.dir = tempfile.mkdtemp(prefix="timemachine-", dir=lab.dir)
        with open(f"{self.dir}/conf", "w", encoding="utf-8") as f:
            text = TM_CONF
            for name, value in (("DIR", self.dir), ("PORT", str(TM_PORT)), ("CUTOFF", cutoff), ("MEMORY", memory)):
                text = text.replace(name, value)
            f.write(text)
        self.process = b.start(racklib.RACK, "exec", "-d", lab.dir, "dispatcher", os.path.abspath(os.environ["TIMEMACHINE"]), "-c",
                               f"{self.dir}/conf", env=lab.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ramp(self, lab, questions):
        """Steps of one client, as long as it keeps up"""
        words = racklib.RACK, "exec", "-d", lab.dir, "dispatcher", sys.executable, __file__, "--console", self.dir
        client_ = b.start(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=lab.env)
        client_.stdin.writelines("%d %d %d %s\n" % q for q in questions)
        client_.stdin.close()
        for line in client_.stdout:
            yield Step([json.loads(line)])

    def stop(self):
        b.stop(self.process)


def console(folder):
    """The client of the Time Machine's console, which dies if its client does: the whole ramp, a line for each step"""
    questions = [line.rstrip("\n").split(" ", 3) for line in sys.stdin]
    with socket.create_connection(("127.0.0.1", TM_PORT), 10) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # what is no command is answered when what was sent before it is done: by so many lines
        s.sendall(b"x\n")
        time.sleep(1)
        lines = s.recv(4096).count(b"\n")
        s.settimeout(20)
        replies, rate = s.makefile("r"), 0.5
        while rate <= MOST:
            random.shuffle(questions)
            said = console_step(s, replies, lines, folder, rate, questions)
            print(json.dumps(said), flush=True)
            if said["answered"] < 0.5 * rate * said["seconds"]:
                break
            rate = max(8, 2 * rate)
        time.sleep(1)


def packets_within(path, since, until):
    """Of a pcap of us, which is removed"""
    if not os.path.exists(path):
        return 0
    with open(path, "rb") as f:
        data = f.read()
    os.unlink(path)
    at, count = 24, 0
    while at + 16 <= len(data):
        sec, us, caplen, _ = struct.unpack_from("<IIII", data, at)
        count += since // 1000 <= sec * 10**6 + us <= until // 1000
        at += 16 + caplen
    return count


def console_step(s, replies, lines, folder, rate, questions):
    said = dict(rate=rate, offered=0, answered=0, packets=0, wrong=0, partial=0, failed=0, failure="", first=[])
    begin = time.monotonic()
    for number in range(max(1, round(rate * STEP_SECONDS))):
        due = begin + number / rate
        time.sleep(max(0, due - time.monotonic()))
        if time.monotonic() > begin + STEP_SECONDS:
            break
        since, until, packets, text = questions[number % len(questions)]
        a, port, z, other = re.search(r"src host (\S+) and src port (\d+) and dst host (\S+) and dst port (\d+)", text).groups()
        said["offered"] += 1
        s.sendall(f'query to_file "{number}.pcap" index connection4 "{text[:3]} {a}:{port} {z}:{other}" mem_only '
                  f'start {int(since) / 1e9 - .001:.3f} end {int(until) / 1e9 + .001:.3f}\nx\n'.encode())
        for _ in range(lines):
            # its answers come in small pieces: it must not wait for our acknowledgements
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            if not replies.readline():
                sys.exit("bench: the Time Machine is gone")
        said["first"].append((time.monotonic() - due) * 1e6)
        said["answered"] += 1
        path = f"{folder}/{number}.pcap"
        said["failed"] += packets_within(path, int(since), int(until)) != int(packets)
    said["seconds"] = time.monotonic() - begin
    return said


def peer(table, lab, rack, spread):
    machine = TimeMachine(lab, "no", "1g")
    time.sleep(2 * LAP / RATE)
    questions = [q for q in sample(rack, LAP / RATE) if ":" not in q[3]]
    best = {}
    for step in machine.ramp(lab, questions):
        print(f"    Time Machine: {step}", flush=True)
        best["Time Machine 0.1-4"] = max(best.get("Time Machine 0.1-4", step), step, key=lambda s: s.per_second)
    time.sleep(6)
    with open(f"{machine.dir}/stats.log", encoding="ascii", errors="replace") as f:
        dropped = int(f.read().strip().split("\n")[-1].split()[4])
    machine.stop()
    table.row("Time Machine 0.1-4: packets that it dropped", "", dropped)
    rate, keeps_up, own = 500, True, f"the rack, spread by {spread}"
    while keeps_up:
        step, _ = ask(lab, "C", rate, questions)
        print(f"    {own}, the same questions: {step}", flush=True)
        best[own] = max(best.get(own, step), step, key=lambda s: s.per_second)
        keeps_up = step.per_second >= 0.95 * rate
        rate = rate * 1.25
    for name, step in best.items():
        table.row(f"{name}: highest rate of answers", "a second", step.per_second)
        for what, value in (("mean", step.mean), ("99 of 100 within", step.at(.99))):
            table.row(f"{name}, offered {step.rate:g}/s: {what}", "ms", value)
        table.row(f"{name}: answers that are wrong or lack packets", f"of {step.answered}", step.failed + step.wrong + step.partial)


class Scans:
    """Three that read all that there is, again and again."""

    def __init__(self, lab):
        self.done, self.count = False, 0
        self.threads = [threading.Thread(target=self.run, args=(lab,)) for _ in range(3)]
        for t in self.threads:
            t.start()

    def run(self, lab):
        while not self.done:
            lab.packrack("query", "--count", NOBODY)
            self.count += 1

    def stop(self):
        self.done = True
        for t in self.threads:
            t.join()
        return self.count


def read_bytes(pids):
    """that the indexers have read from disks"""
    total = 0
    for name, pid in pids.items():
        if name.startswith("indexer"):
            with open(f"/proc/{pid}/io") as f:
                total += int(dict(line.split(": ") for line in f)["read_bytes"])
    return total


def memory(table, lab, rack):
    pids = lab.pids()
    steps, scans, read = {False: [], True: []}, 0, 0
    for beside in (False, True) * ROUNDS:
        questions = sample(rack, 8)
        running = Scans(lab) if beside else None
        time.sleep(1 if beside else 0)
        before = read_bytes(pids)
        step, _ = ask(lab, "C", LOOKUPS, questions, CLIENTS * UNDER_WAY - 3)
        if beside:
            scans += running.stop()
        else:
            read += read_bytes(pids) - before
        print(f"    {'beside scans' if beside else 'alone'}: {step}", flush=True)
        steps[beside].append(step)
    asked = sum(s.answered for s in steps[False])
    table.row("look-ups in memory: bytes read from the disks", f"for {asked:,}", read)
    table.row("scans of all that there is, beside look-ups", "", scans)
    for name, of in (("mean", lambda s: s.mean), ("99 of 100 within", lambda s: s.at(.99)), ("longest", lambda s: s.at(1))):
        alone, beside = (statistics.median(map(of, steps[k])) for k in (False, True))
        table.row(f"look-ups in memory, {LOOKUPS}/s, beside three scans: to the first packet, {name}", "ms", beside, alone,
                  "alone", less_is_better=True)
    table.row("wrong, partial or failed answers", "", sum(s.wrong + s.partial + s.failed for k in steps.values() for s in k))


class Sensor:
    """Sees the handshakes on the capture interface, as a NIDS on the same tap would."""

    def __init__(self, lab):
        words = ("-i", "tap0", "-Q", "in", "-s", "80", "-B", "32768", "-U", "--immediate-mode", "--time-stamp-precision=nano",
                 "-w", "-", "tcp[tcpflags] & (tcp-syn|tcp-ack) != 0 and ip")
        self.process = b.start(racklib.RACK, "exec", "-d", lab.dir, "dispatcher", "tcpdump", *words, env=lab.env,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.packets = self.process.stdout.buffer
        self.packets.read(24)

    def established(self):
        """(since, until, connection) of each, until it is stopped: from its SYN to the ACK that ends the handshake"""
        opening = {}
        while len(head := self.packets.read(16)) == 16:
            sec, ns, caplen, _ = struct.unpack("<IIII", head)
            frame, when = self.packets.read(caplen), sec * 10**9 + ns
            ends, at = end_points(frame)
            if not ends or len(frame) < at + 14:
                continue
            conn, flags = connection(ends), frame[at + 13] & 0x17
            if flags == 2:
                opening[conn] = [when, False]
            elif conn in opening and flags == 0x12:
                opening[conn][1] = True
            elif conn in opening and flags == 0x10 and opening[conn][1]:
                yield opening.pop(conn)[0], when, conn

    def stop(self):
        b.stop(self.process)


def first_packet(rack, since, until, conn):
    """ms to the first packet; None: no packet came, or what came was not complete"""
    begin = time.monotonic()
    answer, first = rack.query(filter_of(conn), since=since, until=until), None
    for _ in answer:
        first = first or 1000 * (time.monotonic() - begin)
    return first if answer.completeness.complete else None


def live(table, lab, rack):
    sensor, number, asked = Sensor(lab), 0, {0: [], LATER: []}
    end = time.monotonic() + LIVE_SECONDS

    def later(*about):
        time.sleep(LATER)
        return first_packet(rack, *about)

    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        for about in sensor.established():
            number += 1
            if number % EVERY == 0:
                asked[0].append(threads.submit(first_packet, rack, *about))
                asked[LATER].append(threads.submit(later, *about))
            if time.monotonic() > end:
                break
        sensor.stop()
    for after, answers in asked.items():
        got = sorted(a.result() for a in answers if a.result() is not None)
        what = f"connections asked for {after:g} s after they were established: " if after else "connections asked for at once: "
        table.row(what + "answers", f"of {len(answers)}", len(got))
        for name, value in (("mean", sum(got) / len(got)), ("half within", got[len(got) // 2]),
                            ("99 of 100 within", got[len(got) * 99 // 100]), ("longest", got[-1])):
            paper = {"mean": 125, "half within": 143, "longest": 539}.get(name)
            table.row(what + "to the first packet, " + name, "ms", value, paper, paper and "Time Machine, the paper's machines",
                      less_is_better=True)
    table.row("connections established meanwhile", "a second", number / LIVE_SECONDS)


def part(table, name, what, rate, trace=MIX, **options):
    """A part on a rack of its own, under traffic; and what the capture lost."""
    with racklib.Rack(3, size="4G", **options) as lab:
        traffic = Traffic(lab, rate, trace)
        with packrack.connect(lab.env["PACKRACK_MERGER"], key=lab.env["PACKRACK_KEY"]) as rack:
            time.sleep(LAP / rate + 2)
            what(table, lab, rack)
        accepted = traffic.stop()
        lab.rack("drain", "--timeout", 120, "--keep-running")
        got = lab.answer()
        table.row(f"part {name}: frames lost by the capture", f"of {accepted:,}", accepted + lab.others() - got["matched"])


def main():
    if sys.argv[1:2] in (["--client"], ["--console"]):
        {"--client": client, "--console": console}[sys.argv[1]](*sys.argv[2:])
        return
    if not os.path.exists(MIX):
        sys.exit(f"bench: no {MIX}: set PACKRACK_DATA")
    table = b.Table("queries")
    b.backlog()
    if "ramp" in PARTS:
        part(table, "ramp", ramp, RATE, conf="[logger]\nshm-size = 256M\n")
    if "peer" in PARTS and "TIMEMACHINE" in os.environ:
        with tempfile.NamedTemporaryFile(suffix=".pcap", dir="/var/tmp") as laps:
            write_laps(laps.name)
            os.chmod(laps.name, 0o644)
            for spread in SPREADS:
                part(table, f"peer, {spread}", lambda *at, spread=spread: peer(*at, spread), RATE, laps.name, dispatcher=("--spread", spread),
                     conf="[logger]\nshm-size = 256M\n")
    elif "peer" in PARTS:
        print("  the Time Machine itself is left out: TIMEMACHINE is not set to its program", flush=True)
    if "memory" in PARTS:
        part(table, "memory", memory, RATE)
    if "live" in PARTS:
        part(table, "live", live, LIVE_RATE)
    table.write()


if __name__ == "__main__":
    main()
