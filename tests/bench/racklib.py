# SPDX-License-Identifier: Apache-2.0
"""A lab for the benchmarks: scripts/rack, a load on its tap, and what came back."""

import json
import os
import shutil
import sys
import tempfile

import benchlib as b

RACK = os.path.join(b.TOP, "scripts", "rack")


class Rack:
    def __init__(self, nodes, *options, size="1G", dispatcher=(), conf=""):
        # on the disk, not in memory: what is measured is a rack that stores
        self.dir = tempfile.mkdtemp(prefix="packrack-bench-", dir=os.path.join(b.TOP, "build"))
        with open(os.path.join(self.dir, "packrack.conf"), "w") as f:
            f.write("# options of the lab's programs, a section each\n" + conf)
        self.env = dict(os.environ, PACKRACK_BUILD=b.BUILD,
                        PACKRACK_MERGER=f"ipc://{self.dir}/merger.sock",
                        PACKRACK_DISPATCHER=f"ipc://{self.dir}/dispatcher.sock",
                        PACKRACK_KEY=f"{self.dir}/keys/user")
        self.rack("up", "-n", nodes, "--size", size, *options, "--", *dispatcher)

    def rack(self, verb, *words, check=True):
        out = b.run(RACK, verb, "-d", self.dir, *words, check=False, env=self.env)
        if check and out.returncode:
            self.down()
            sys.exit(f"bench: rack {verb}: {out.stderr.strip()[-500:]}")
        return out

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.down()

    def down(self):
        b.run(RACK, "down", "-d", self.dir, check=False, env=self.env)
        shutil.rmtree(self.dir, ignore_errors=True)

    def flood(self, rate, count, what, *by):
        out = self.rack("exec", "tap", *by, f"{b.BUILD}/tests/bench/flood", "mirror0", rate, count, what)
        return json.loads(out.stdout)

    def packrack(self, *words):
        out = b.run(f"{b.BUILD}/packrack", *words, check=False, env=self.env)
        if out.returncode not in (0, 3):
            sys.exit(f"bench: packrack {words[0]}: {out.stderr.strip()[-500:]}")
        return out

    def answer(self):
        return json.loads(self.packrack("query", "--count", "--json").stdout)

    def others(self):
        """Packets of the lab's own hosts, which speak a little when they come up."""
        line = self.rack("exec", "tap", "ip", "-o", "link", "show", "mirror0").stdout
        lab = "0x" + line.split("link/ether ")[1].split()[0].replace(":", "")[:8]
        out = self.packrack("query", "--count", "--json", f"ether[6:4] = {lab}").stdout
        return json.loads(out)["matched"]

    def pids(self):
        """name -> pid, of the rack's programs; not of the parents that keep their privileges"""
        got = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as f, open(f"/proc/{pid}/comm") as name:
                    words, parent = f.read().split("\0"), name.read().strip() == "packrack-parent"
            except OSError:
                continue
            if not parent and self.dir in " ".join(words) and "packrack-" in os.path.basename(words[0]):
                role = os.path.basename(words[0]).replace("packrack-", "")
                name = words[words.index("--name") + 1] if "--name" in words else ""
                key = f"{role} {name}".strip()
                got[key] = min(got.get(key, int(pid)), int(pid))  # the second one keeps the privileges, the first one works
        return got


def record(nodes, rate, seconds, what, *options, **kw):
    """One run: what was sent, what came back, what it cost."""
    with Rack(nodes, *options, **kw) as rack:
        pids = rack.pids()
        before = {n: b.cpu_seconds(p) for n, p in pids.items()}
        whole = b.machine_seconds()
        sent = rack.flood(rate, int(rate * seconds), what)
        whole = b.machine_seconds() - whole
        rack.rack("drain", "--timeout", 120, "--keep-running")
        cpu = {n: b.cpu_seconds(p) - before[n] for n, p in pids.items()}
        memory = {n: b.rss(p) for n, p in pids.items()}
        got = rack.answer()
        n, back = sent["accepted"], got["matched"] - rack.others()
        return dict(sent=n, rate=sent["rate"], mean=sent["mean_bytes"], matched=back, lost=n - back, answer=got, memory=memory,
                    cpu={k: v * 1e9 / n for k, v in cpu.items()}, whole=whole * 1e9 / n)
