# SPDX-License-Identifier: Apache-2.0
"""StreamFS and file systems under one load (streamfs_load.c), on loop devices that are held to a rate."""

import json
import os
import subprocess
import sys
import threading
import time

import benchlib as b
import blocklib as bl

SIZE = int(os.environ.get("BENCH_BYTES", str(5 << 30)))
# A stream's blocks, and memory for one of each and half as much again: all contenders live in bl.MEMORY_BYTES.
BLOCK = os.environ.get("BENCH_BLOCK", "16M")
BUFFER = int(os.environ.get("BENCH_BUFFER", str(768 << 20)))
WARM = 1  # second before those that count, also in streamfs_load.c

devices = []


def median(values):
    return sorted(values)[len(values) // 2]


def mean(values):
    return sum(values) / len(values)


def device(n):
    while len(devices) <= n:
        devices.append(bl.Device(SIZE))
    return devices[n]


def limit(count, rate, **more):
    for d in devices[:count]:
        d.limit(write=int(rate), **more)


def free_run(count):
    for d in devices[:count]:
        d.limit()


def written(count):
    """Bytes that the devices were given so far"""
    total = 0
    for d in devices[:count]:
        with open(f"/sys/block/{os.path.basename(d.path)}/stat") as f:
            total += int(f.read().split()[6]) * 512
    return total


class Seconds(threading.Thread):
    """What the devices are given in each second from now on. Not the load's own look: what it waits for comes
    back in pieces, so that it would look when much has just come"""

    def __init__(self, count):
        super().__init__(daemon=True)
        self.count, self.at, self.over = count, [], threading.Event()
        self.start()

    def run(self):
        begin = time.monotonic()
        while True:
            self.at.append((time.monotonic(), written(self.count)))
            if self.over.wait(max(0, begin + len(self.at) - time.monotonic())):
                break

    def rates(self, first, count):
        self.over.set()
        self.join()
        at = self.at[first:first + count + 1]
        return [(b2 - b1) / (t2 - t1) for (t1, b1), (t2, b2) in zip(at, at[1:])]


def reads_a_second(intervals):
    return sum(i["reads"] for i in intervals) / sum(i["seconds"] for i in intervals)


class Load:
    """A contender under load; commands go to it in lines, answers come in JSON. "xfs, one a device": log files
    go to the devices' file systems in turn."""

    def __init__(self, name, count=1, streams=32):
        self.name, self.mounts, self.count = name, [], count
        ds = [device(i) for i in range(count)]
        program = f"{b.BUILD}/tests/bench/streamfs_load"
        if name == "streamfs":
            paths = [d.path for d in ds]
            b.run(f"{b.BUILD}/packrack", "volume", "create", "--force", "--block-size", BLOCK, ",".join(paths))
            words = [program, "volume", ",".join(paths), f"streams={streams}", f"shm={BUFFER}"]
        else:
            fs, _, each = name.partition(",")
            self.mounts = [bl.Mount(fs, [d]) for d in ds] if each else [bl.Mount(fs, ds)]
            words = [program, "files", ",".join(m.path for m in self.mounts), f"streams={streams}",
                     f"room={int(sum(m.free() for m in self.mounts) * 0.9)}"]
        self.p = b.start(*bl.grouped(words), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def command(self, text):
        self.p.stdin.write(text + "\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            sys.exit(f"bench: {self.name} ended early")
        return json.loads(line)

    def fill(self):
        """until it recycles"""
        free_run(self.count)
        self.command(f"fill {int(SIZE * self.count * 1.2)}")

    def run(self, seconds, reads=0.0):
        """The rate is what the devices took, by their own counters, times the part of it that is payload: what was
        appended of all that they were given, from one moment at which nothing waits in memory to another. What
        the page cache or a volume's buffer has taken in is not written. The kernel's counts of dirty pages say
        the same, but for some 10 MB, which is 1 % of a second."""
        self.command("sync")
        busy, device_bytes = bl.kernel_times(), written(self.count)
        looks = Seconds(self.count)
        got = self.command(f"run {seconds} {reads}")
        kernel = bl.kernel_since(busy) / (got["total"] / 1e9)
        self.command("sync")
        got["payload"] = got["total"] / (written(self.count) - device_bytes)
        got["seconds"] = [r * got["payload"] for r in looks.rates(WARM, seconds)]
        got["rate"], got["reads_a_second"] = mean(got["seconds"]), reads_a_second(got["intervals"])
        # the process, and what kernel threads do for it
        got["cpu_gb"] = got["cpu"] / (got["rate"] * seconds / 1e9) + kernel
        return got

    def rounds(self, count, seconds, reads=0.0):
        """One run, cut into rounds: medians of their worst seconds and reads. The mean is of the run: the limit
        holds over many of the kernel's slices of 0.1 s, and in one round only to 0.1 %"""
        got = self.run(count * seconds, reads)
        cut = [slice(i * seconds, (i + 1) * seconds) for i in range(count)]
        got["worst"] = median([min(got["seconds"][c]) for c in cut])
        got["reads_a_second"] = median([reads_a_second(got["intervals"][c]) for c in cut])
        rates = [mean(got["seconds"][c]) for c in cut]
        got["apart"] = (max(rates) - min(rates)) / got["rate"]
        return got

    def close(self):
        free_run(self.count)
        self.p.stdin.close()
        self.p.wait()
        for m in self.mounts:
            m.close()
