#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Merging: packrack export of four volumes against mergecap on four files of the same packets."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b
import grow

PACKETS = int(os.environ.get("BENCH_PACKETS", "2000000"))
MIX = os.path.join(b.DATA, "mix-gateway-full-a.pcap")


def timed(words, pids=()):
    """(wall, user + system) seconds of a command, and of daemons that work for it"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    daemons = sum(b.cpu_seconds(p) for p in pids)
    begin = time.monotonic()
    b.run(*words)
    wall = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return wall, cpu + sum(b.cpu_seconds(p) for p in pids) - daemons


def median(values):
    return sorted(values)[len(values) // 2]


def rack(volumes, work):
    """A merger and an indexer per volume; their pids and the merger's endpoint"""
    endpoint = f"ipc://{work}/m.sock"
    programs = [b.start(f"{b.BUILD}/packrack-merger", "--listen", endpoint, stderr=subprocess.DEVNULL)]
    for i, volume in enumerate(volumes):
        programs.append(b.start(f"{b.BUILD}/packrack-indexer", "--volume", volume, "--merger", endpoint,
                                "--name", f"node{i}", stderr=subprocess.DEVNULL))
    count = [f"{b.BUILD}/packrack", "query", "-m", endpoint, "--count", "--json"]

    def all_there():
        got = b.run(*count, check=False)
        return got.returncode == 0 and str(PACKETS) in got.stdout

    b.until(all_there, 60, "four indexers at the merger")
    return [p.pid for p in programs], endpoint


def main():
    table = b.Table("merge")
    work = tempfile.mkdtemp(prefix="packrack-merge-", dir=os.path.join(b.TOP, "build"))
    try:
        parts = grow.split(MIX, PACKETS, 4, work)
        volumes = []
        for i, part in enumerate(parts):
            volume = f"{work}/v{i}"
            b.run(f"{b.BUILD}/packrack", "volume", "create", volume, "--size", "2G")
            b.run(f"{b.BUILD}/packrack", "import", part, "--volume", volume)
            volumes.append(volume)
        pids, endpoint = rack(volumes, work)
        export = [f"{b.BUILD}/packrack", "export"]
        # in turn, each over a file of its own that the run before it left
        ways = {"4 volumes": ([*export, *[w for v in volumes for w in ("--volume", v)],
                               "-w", f"{work}/out.pcapng"], ()),
                "4 indexers and a merger": ([*export, "-m", endpoint, "-w", f"{work}/rack.pcapng"], pids)}
        if shutil.which("mergecap"):
            ways["mergecap"] = (["mergecap", "-w", f"{work}/peer.pcapng", *parts], ())
        took = {name: [] for name in ways}
        for _ in range(5):
            for name, (words, helpers) in ways.items():
                took[name].append(timed(words, helpers))
        wall, cpu = ({name: median([t[i] for t in took[name]]) for name in ways} for i in (0, 1))
        peer = "mergecap" if "mergecap" in ways else None
        for name in ("4 volumes", "4 indexers and a merger"):
            table.row(f"{name} merged to a file", "packets/s", PACKETS / wall[name],
                      PACKETS / wall[peer] if peer else None, "mergecap")
            table.row(f"{name}: user + system", "ns/packet", cpu[name] / PACKETS * 1e9,
                      cpu[peer] / PACKETS * 1e9 if peer else None, "mergecap", less_is_better=True)
    finally:
        b.clean()
        shutil.rmtree(work, ignore_errors=True)
    table.write()


main()
