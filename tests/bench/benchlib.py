# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks share: namespaces of their own, CPU accounting, bisection, tables and JSON."""

import atexit
import json
import os
import platform
import signal
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get("PACKRACK_BUILD", "build"))
DATA = os.environ.get("PACKRACK_DATA", os.path.join(TOP, "..", "shared", "data"))
TICK = os.sysconf("SC_CLK_TCK")

_started, _spaces = [], []


def run(*words, check=True, **kw):
    return subprocess.run([str(w) for w in words], check=check, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)


def within(space, *words):
    return ["ip", "netns", "exec", space, *[str(w) for w in words]]


def start(*words, **kw):
    p = subprocess.Popen([str(w) for w in words], text=True, **kw)
    _started.append(p)
    return p


def stop(p, sig=signal.SIGTERM, timeout=15):
    if p.poll() is None:
        p.send_signal(sig)
    try:
        p.wait(timeout)
    except subprocess.TimeoutExpired:
        p.kill()
        p.wait()
    return p.returncode


def space(role):
    name = f"prb-{os.getpid()}-{role}"
    run("ip", "netns", "add", name)
    _spaces.append(name)
    run(*within(name, "ip", "link", "set", "lo", "up"))
    return name


def veth(a, a_if, b, b_if, mtu=1500):
    run("ip", "link", "add", a_if, "netns", a, "type", "veth", "peer", "name", b_if, "netns", b)
    for where, name in ((a, a_if), (b, b_if)):
        run(*within(where, "sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1"), check=False)
        run("ip", "-n", where, "link", "set", name, "mtu", mtu, "up")


def drop_ingress(where, name):
    run("tc", "-n", where, "qdisc", "add", "dev", name, "clsact")
    run("tc", "-n", where, "filter", "add", "dev", name, "ingress", "protocol", "all", "prio", "9",
        "bpf", "da", "bytecode", "1,6 0 0 2,")


def backlog(wanted=10000):
    """As `packrack setup` asks of a node: a burst that waits for its softirq is not dropped before any socket."""
    path = "/proc/sys/net/core/netdev_max_backlog"
    with open(path) as f:
        before = f.read()
    if int(before) < wanted:
        atexit.register(write, path, before)
        write(path, str(wanted))


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


@atexit.register
def clean():
    for p in _started:
        stop(p, signal.SIGKILL, 5)
    for name in _spaces:
        run("ip", "netns", "del", name, check=False)
    _spaces.clear()


signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def until(what, seconds, text):
    """Polls what() until it is true; fails after seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = what()
        if got:
            return got
        time.sleep(0.02)
    sys.exit(f"bench: {text} did not happen within {seconds} s")


def drop_caches():
    """Nothing of any file is in memory, nor still being written. False: not permitted."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("3\n")
    except OSError:
        return False
    return True


def cold():
    if not drop_caches():
        sys.exit("bench: cannot drop the page cache: run as root")


def cpu_seconds(pid):
    """user + system seconds of all threads of a process"""
    with open(f"/proc/{pid}/stat") as f:
        f_ = f.read().rsplit(")", 1)[1].split()
    return (int(f_[11]) + int(f_[12])) / TICK


def machine_seconds():
    """
    busy seconds of the whole machine, interrupts included; what a hypervisor takes (steal) is not ours. By what the kernel knows
    of idle time, which is exact: its ticks miss a sender that sleeps and wakes by the same clock.
    """
    with open("/proc/stat") as f:
        v = [int(x) for x in f.readline().split()[1:]]
    return time.monotonic() * os.cpu_count() - (v[3] + v[4] + v[7]) / TICK


def rss(pid):
    """(peak resident bytes, of them shared memory and file pages)"""
    got = {}
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            k, _, v = line.partition(":")
            got[k] = v.split()
    return (int(got["VmHWM"][0]) * 1024,
            (int(got["RssFile"][0]) + int(got["RssShmem"][0])) * 1024, int(got["RssAnon"][0]) * 1024)


def bisect(lossless, low, high, steps=6):
    """Highest rate for which lossless(rate) is true; low is taken to be."""
    if lossless(high):
        return high
    for _ in range(steps):
        mid = (low + high) // 2
        if lossless(mid):
            low = mid
        else:
            high = mid
    return low


class Dispatcher:
    """A dispatcher from tap0 of one namespace to a node in another that takes all and counts."""

    def __init__(self, disp, sink, words=(), on=()):
        self.node = start(*within(sink, *on, f"{BUILD}/tests/bench/fakenode", "eth0", "sink", 60), stdout=subprocess.PIPE)
        self.socket = f"ipc:///tmp/prb-{os.getpid()}.sock"
        self.p = start(*within(disp, *on, f"{BUILD}/packrack-dispatcher", "--in", "tap0", "--out", "out0",
                               "--wait-nodes", 1, "--manage", self.socket, *words), stderr=subprocess.DEVNULL)
        until(lambda: self.status().get("state") == "capturing", 10, "capture")

    def status(self):
        out = run(f"{BUILD}/packrack", "status", "--json", "--dispatcher", self.socket, check=False)
        try:
            return json.loads(out.stdout).get("dispatcher") or {}
        except ValueError:
            return {}

    def finish(self):
        """what the node counted"""
        stop(self.p)
        self.node.terminate()
        out, _ = self.node.communicate(timeout=10)
        return json.loads(out)


class Table:
    def __init__(self, name):
        self.name, self.rows = name, []

    def row(self, what, unit, ours, peer=None, peer_name=None, less_is_better=False):
        ratio = None
        if ours and peer:
            ratio = peer / ours if less_is_better else ours / peer
        self.rows.append(dict(what=what, unit=unit, ours=ours, peer=peer, peer_name=peer_name,
                              ratio=ratio))
        fmt = lambda v: "-" if v is None else f"{v:,.4g}" if abs(v) < 1000 else f"{v:,.0f}"
        r = "" if ratio is None else f"{ratio:6.2f}x  "
        print(f"  {r:9}{what}: {fmt(ours)} {unit}" +
              (f"  ({peer_name}: {fmt(peer)})" if peer_name else ""), flush=True)

    def write(self):
        path = os.path.join(TOP, "build", "bench")
        os.makedirs(path, exist_ok=True)
        machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {platform.release()}"
        with open(os.path.join(path, self.name + ".json"), "w") as f:
            json.dump(dict(name=self.name, machine=machine, rows=self.rows), f, indent=1)
            f.write("\n")
