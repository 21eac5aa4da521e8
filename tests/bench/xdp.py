#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dispatcher's two paths against tcpdump to /dev/null, with a sender that costs little (live.c): the whole machine's
CPU a packet, less that of a program that drops all. In turn, medians; steal is no CPU of ours. Frames come in bursts,
which all buffers hold, so that none should be lost: how many were is a row.

With the sender `flood`, too. Then overload (BENCH_PARTS=cost,flood,overload): frames come at a rate, and are received on another CPU than the sender's. The highest rate at
which the dispatcher drops nothing, and what is delivered at 1.5, 2 and 4 times that; and whether what was sent is the sum of what was delivered
and of each drop that is counted. The same of a logger with --tap. And --shunt (BENCH_PARTS=shunt).
"""
import json
import os
import signal
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
BURST, BURSTS = 60000, 40
LIVE, PROGRAM = f"{b.BUILD}/tests/bench/live", f"{b.BUILD}/tests/bench/live.bpf.o"
PASS = f"{b.BUILD}/scripts/lab/pass.bpf.o"


SHUNT_RATE = int(os.environ.get("BENCH_SHUNT_RATE", "150000"))


class Lab:
    def __init__(self):
        self.src, self.disp, self.sink = b.space("src"), b.space("disp"), b.space("sink")
        b.veth(self.src, "gen0", self.disp, "tap0")
        b.veth(self.disp, "out0", self.sink, "eth0", 1508)
        b.drop_ingress(self.disp, "tap0")
        b.start(*b.within(self.sink, LIVE, PROGRAM, "eth0", "control"))
        b.time.sleep(0.3)

    def passes(self, on):
        """tap0 takes redirected frames only with a program"""
        what = ["obj", PASS, "sec", "xdp"] if on else ["off"]
        b.run(*b.within(self.disp, "ip", "link", "set", "tap0", "xdpdrv", *what))


class Dispatcher(b.Dispatcher):
    def __init__(self, lab, path):
        self.lab, self.path = lab, path
        if path == "packet":
            lab.passes(True)
        super().__init__(lab.disp, lab.sink, ("--path", path))

    def finish(self):
        got = super().finish()
        if self.path == "packet":
            self.lab.passes(False)
        return got["entries"]


class Tcpdump:
    def __init__(self, lab):
        self.lab = lab
        lab.passes(True)
        self.p = b.start(*b.within(lab.disp, "tcpdump", "-n", "-i", "tap0", "-w", "/dev/null", "-B", "32768"),
                         stderr=b.subprocess.PIPE)
        while "listening on" not in self.p.stderr.readline():
            pass

    def finish(self):
        b.time.sleep(1.2)
        self.p.send_signal(signal.SIGINT)
        _, err = self.p.communicate(timeout=15)
        self.lab.passes(False)
        return int(err.split(" packets captured")[0].split("\n")[-1])


class Sink:
    def __init__(self, lab):
        self.p = b.start(*b.within(lab.disp, LIVE, PROGRAM, "tap0", "sink"))
        b.time.sleep(0.3)

    def finish(self):
        self.p.kill()
        self.p.wait()
        return BURST * BURSTS


def trial(lab, make, size):
    one = make(lab)
    whole = b.machine_seconds()
    sent = json.loads(b.run(*b.within(lab.src, LIVE, PROGRAM, "gen0", size, BURST, BURSTS)).stdout)
    b.time.sleep(0.3)
    whole = b.machine_seconds() - whole
    return whole * 1e9 / sent["sent"], sent["sent"] - one.finish()


def flooded(table, lab):
    """With a sender that gives one frame a call: with its cost, and less that of a program that drops all."""
    found = {"packet": [], "xdp": [], "sink": []}
    for _ in range(ROUNDS):
        for path, of in found.items():
            one = Sink(lab) if path == "sink" else Dispatcher(lab, path)
            whole = b.machine_seconds()
            sent = json.loads(b.run(*b.within(lab.src, f"{b.BUILD}/tests/bench/flood", "gen0", 200000, 800000, 64)).stdout)
            b.time.sleep(0.3)
            whole = b.machine_seconds() - whole
            of.append((whole * 1e9 / sent["accepted"], sent["accepted"] - one.finish(), sent["rate"]))
    packet, xdp, sink = ([statistics.median(t[i] for t in of) for i in range(3)] for of in found.values())
    what = f"64-byte frames of `flood` ({xdp[2]:,.0f}/s; packet path {packet[2]:,.0f}): machine's CPU, "
    table.row(what + f"median of {ROUNDS}", "ns/packet", xdp[0], packet[0], "packet path", True)
    table.row(what + f"less the sink's {sink[0]:,.0f}", "ns/packet", xdp[0] - sink[0], packet[0] - sink[0], "packet path", True)
    table.row("64-byte frames of `flood`: lost, median", "packets", xdp[1], packet[1], "packet path", True)


def threaded(lab):
    """tap0's receive work is a thread's, on the CPU that the sender does not use."""
    cpus = sorted(os.sched_getaffinity(0))
    b.run(*b.within(lab.disp, "sh", "-c", "mount -t sysfs none /sys; echo 1 > /sys/class/net/tap0/threaded"), check=False)  # none before there is a program
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as f:
                if f.read().startswith("napi/tap0"):
                    b.run("taskset", "-pc", cpus[0], pid)
        except OSError:
            pass
    return ["taskset", "-c", str(cpus[-1])]


def offered(lab, path, rate, seconds, sender):
    one = Dispatcher(lab, path)
    threaded(lab)
    before = one.status()["links"][0]
    sent = json.loads(b.run(*b.within(lab.src, *sender, LIVE, PROGRAM, "gen0", 64, max(1, int(rate * seconds)), 1, rate)).stdout)
    b.time.sleep(0.5)
    said = one.status()
    link = said["links"][0]
    drops = {k: link[k] - before[k] for k in ("dropped_kernel", "dropped_interface", "dropped_ring", "dropped_no_node", "dropped_send")}
    drops.update({k: said.get(k, 0) for k in ("xdp_frames_not_redirected", "xdp_frames_dropped")})
    captured = link["captured_packets"] - before["captured_packets"]
    entries = one.finish()
    # what the driver had no room for: not all drivers count it in what the dispatcher reads
    refused = sent["sent"] - captured - sum(drops.values())
    return dict(rate=sent["sent"] / sent["seconds"], sent=sent["sent"], delivered=entries, captured=captured, drops=drops,
                goodput=entries / sent["seconds"], refused=refused)


def tapped(lab, rate, seconds, sender):
    """The same of a logger that records the interface itself"""
    lab.passes(True)
    threaded(lab)
    with tempfile.TemporaryDirectory(prefix="packrack-tap-", dir=b.BUILD) as work:
        volume, log = f"{work}/v", f"{work}/log"
        b.run(f"{b.BUILD}/packrack", "volume", "create", volume, "--size", "2G")
        with open(log, "w", encoding="utf-8") as f:
            p = b.start(*b.within(lab.disp, f"{b.BUILD}/packrack-logger", "--config", "/dev/null", "--tap", "tap0", "--volume", volume), stderr=f)
        while "recording tap0" not in open(log, encoding="utf-8").read():
            b.time.sleep(0.05)
        sent = json.loads(b.run(*b.within(lab.src, *sender, LIVE, PROGRAM, "gen0", 64, max(1, int(rate * seconds)), 1, rate)).stdout)
        b.time.sleep(1.2)
        b.stop(p)
        found = json.loads(b.run(f"{b.BUILD}/packrack", "query", "--volume", volume, "--count", "--json", check=False).stdout)
    lab.passes(False)
    stored, report = found["matched"], found["completeness"]
    drops = {"dropped": report["dropped_packets"], "missing": report["missing_packets"]}
    return dict(rate=sent["sent"] / sent["seconds"], sent=sent["sent"], delivered=stored, captured=stored, drops=dict(drops, dropped_interface=0),
                goodput=stored / sent["seconds"], refused=sent["sent"] - stored - sum(drops.values()))


def overload(table, lab):
    seconds = float(os.environ.get("BENCH_SECONDS", "2"))
    sender = threaded(lab)
    for path in ("packet", "xdp", "tap"):
        best = dict(rate=0, goodput=0)

        def offer(rate):
            return tapped(lab, rate, seconds, sender) if path == "tap" else offered(lab, path, rate, seconds, sender)

        def lossless(rate):
            t = offer(rate)
            # a veth has 256 places, which a thread that waits for its turn leaves full
            first = t["drops"]["dropped_interface"] + t["refused"]
            good = sum(t["drops"].values()) + t["refused"] == first and first < t["sent"] / 50
            if good and t["rate"] > best["rate"]:
                best.update(t)
            return good
        b.bisect(lossless, 100000, 3000000)
        table.row(f"{path}: highest rate at which it drops nothing, and the interface less than 2 %", "packets/s", best["rate"])
        for times in (1.5, 2, 4):
            t = offer(best["rate"] * times)
            table.row(f"{path}: delivered at {times} times that ({t['rate']:.0f}/s offered)", "of the best", t["goodput"] / max(1, best["goodput"]))
            print(f"             {t['sent']} sent = {t['captured']} captured ({t['delivered']} in logs) + {t['refused']} that the driver "
                  f"had no room for + " + ", ".join(f"{v} {k}" for k, v in t["drops"].items() if v), flush=True)


def shunt(table, lab):
    """Traffic with a heavy tail (timemachine.py), cutoff 15 KB: what is beyond it is dropped by an XDP program, or comes to the dispatcher."""
    import timemachine  # needs the Python package
    found = {(): [], ("--shunt",): []}
    with tempfile.TemporaryDirectory(prefix="packrack-shunt-") as work:
        packets = timemachine.heavy_tail(f"{work}/heavy.pcap")
        for _ in range(ROUNDS):
            for options, of in found.items():
                one = b.Dispatcher(lab.disp, lab.sink, (*timemachine.CLASS, *options))
                cpu = b.cpu_seconds(one.p.pid)
                b.run(*b.within(lab.src, "tcpreplay", "-q", "-i", "gen0", f"--pps={SHUNT_RATE}", f"{work}/heavy.pcap"), check=False)
                b.time.sleep(1.2)  # the sums of the last second
                cpu = b.cpu_seconds(one.p.pid) - cpu
                seen = one.status()["links"][0]
                one.finish()
                of.append((cpu * 1e6 / packets, 100 * seen["shunted_packets"] / seen["beyond_cutoff_packets"], seen["beyond_cutoff_packets"]))
    plain, less = ([statistics.median(t[i] for t in of) for i in range(3)] for of in found.values())
    table.row(f"of {packets} packets, {plain[2]:.0f} beyond a cutoff of 15 KB (with --shunt {less[2]:.0f}); shunted of these", "%", less[1])
    table.row(f"--shunt: the dispatcher's CPU a packet sent, median of {ROUNDS}", "us", less[0], plain[0], "without", True)


def main():
    table, lab = b.Table("xdp"), Lab()
    parts = os.environ.get("BENCH_PARTS", "cost,flood,overload,shunt").split(",")
    if "cost" in parts:
        costs(table, lab)
    if "flood" in parts:
        flooded(table, lab)
    if "overload" in parts:
        overload(table, lab)
    if "shunt" in parts:
        shunt(table, lab)
    table.write()


def costs(table, lab):
    makes = {"sink": Sink, "tcpdump": Tcpdump, "packet path": lambda l: Dispatcher(l, "packet"),
             "xdp": lambda l: Dispatcher(l, "xdp")}
    for size in (64, 512):
        found = {name: [] for name in makes}
        for _ in range(ROUNDS):
            for name, make in makes.items():
                found[name].append(trial(lab, make, size))
        cost = {name: statistics.median(t[0] for t in got) for name, got in found.items()}
        lost = {name: sum(max(0, t[1]) for t in got) for name, got in found.items()}
        print({name: (round(cost[name]), lost[name]) for name in makes}, file=sys.stderr)
        for peer in ("tcpdump", "packet path"):
            table.row(f"{size}-byte frames, live: machine's CPU less the sink's, median of {ROUNDS}", "ns/packet",
                      cost["xdp"] - cost["sink"], cost[peer] - cost["sink"], peer, True)
        table.row(f"{size}-byte frames, live: lost of {ROUNDS * BURST * BURSTS}", "packets", lost["xdp"],
                  lost["packet path"], "packet path", True)


main()
