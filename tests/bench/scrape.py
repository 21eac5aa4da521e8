#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does a scrape disturb capture? A rack of 2 loggers under load, none scraped; every daemon scraped ten
times a second; and one asked for its metrics as fast as a client can. In turn, several rounds of half a minute."""

import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b
import racklib

RATE = int(os.environ.get("BENCH_RATE", "60000"))
SECONDS = float(os.environ.get("BENCH_SECONDS", "5"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SIZE = 512
NODES = 2

# In the daemon's own namespace: asks PORTs every PAUSE seconds until told to stop, then says how often.
SCRAPER = """
import json, signal, sys, time, urllib.request
pause, ports = float(sys.argv[1]), sys.argv[2:]
done, worst, going = 0, 0.0, True
def stop(*_):
    global going
    going = False
signal.signal(signal.SIGTERM, stop)
signal.alarm(120)
print("ready", flush=True)
while going:
    begun = time.monotonic()
    for port in ports:
        at = time.monotonic()
        with urllib.request.urlopen("http://127.0.0.1:%s/metrics" % port, timeout=10) as answer:
            if answer.status == 200 and len(answer.read()) > 1000:
                done += 1
        worst = max(worst, time.monotonic() - at)
    time.sleep(max(0.0, pause - (time.monotonic() - begun)))
print(json.dumps({"done": done, "worst": worst}))
"""


class Scrapers:
    def __init__(self, rack, pause, places):
        self.all = []
        for place, ports in places.items():
            p = b.start(racklib.RACK, "exec", "-d", rack.dir, place, "python3", "-c", SCRAPER, pause, *ports,
                        stdout=b.subprocess.PIPE, env=rack.env)
            p.stdout.readline()
            self.all.append(p)

    def finish(self):
        said = []
        for p in self.all:
            p.terminate()
            out, _ = p.communicate(timeout=15)
            said.append(json.loads(out))
        return sum(s["done"] for s in said), max((s["worst"] for s in said), default=0)


WAYS = {
    "none": (None, {}),
    "10 a second of every daemon": (0.1, {"disp": (9471, 9474), **{f"log{i + 1}": (9472, 9473) for i in range(NODES)}}),
    "the dispatcher, without pause": (0.0, {"disp": (9471,)}),
}


def trial(pause, places):
    with racklib.Rack(NODES) as rack:
        pids = rack.pids()
        scrapers = Scrapers(rack, pause, places) if places else None
        before = {n: b.cpu_seconds(p) for n, p in pids.items()}
        sent = rack.flood(RATE, int(RATE * SECONDS), SIZE)
        cpu = {n: (b.cpu_seconds(p) - before[n]) * 1e9 / sent["accepted"] for n, p in pids.items()}
        done, worst = scrapers.finish() if scrapers else (0, 0)
        rack.rack("drain", "--timeout", 60, "--keep-running")
        lost = sent["accepted"] - (rack.answer()["matched"] - rack.others())
        return dict(lost=lost, rate=sent["rate"], done=done, worst=worst, dispatcher=cpu["dispatcher"],
                    logger=cpu["logger log1"])


def main():
    table, found = b.Table("scrape"), {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way, how in WAYS.items():
            found[way].append(trial(*how))
    middle = {way: {k: statistics.median(t[k] for t in ts) for k in ts[0]} for way, ts in found.items()}
    for way, m in middle.items():
        table.row(f"scrapes: {way}: offered", "packets/s", m["rate"])
        table.row(f"scrapes: {way}: lost, sum of {ROUNDS} rounds", "packets", sum(t["lost"] for t in found[way]))
        if m["done"]:
            table.row(f"scrapes: {way}: answered in a round", "scrapes", m["done"])
            table.row(f"scrapes: {way}: slowest answer", "ms", m["worst"] * 1000)
        for program in ("dispatcher", "logger"):
            table.row(f"scrapes: {way}: CPU, {program}", "ns/packet", m[program],
                      None if way == "none" else middle["none"][program], None if way == "none" else "none", True)
    table.write()


main()
