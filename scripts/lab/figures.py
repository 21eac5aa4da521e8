#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the rack's own commands say of it, for scripts.

  figures.py stored PACKRACK STATE SECONDS    wait until all that the dispatcher declared is stored
                                              or known to be missing; exit 1 at the deadline
  figures.py indexed PACKRACK STATE SECONDS   and until it is indexed
  figures.py up-to-now PACKRACK STATE SECONDS wait until what it has captured up to now is stored: it may go on
  figures.py table PACKRACK STATE TRACE       the table of the demo; exit 1 if the sums disagree
"""
import json
import os
import subprocess
import sys
import time


class Rack:
    def __init__(self, packrack, state):
        self.packrack = packrack
        self.merger = os.environ.get("PACKRACK_MERGER") or "ipc://%s/merger.sock" % state
        self.dispatcher = os.environ.get("PACKRACK_DISPATCHER") or "ipc://%s/dispatcher.sock" % state

    def ask(self, *command):
        """The JSON that a packrack command prints; exit statuses 0 and 3 both mean an answer."""
        done = subprocess.run([self.packrack, *command, "--json"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=120, check=False)
        if done.returncode not in (0, 3):
            raise Unanswered(done.stderr.strip().split("\n")[-1] or "status %d" % done.returncode)
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise Unanswered("%s: no JSON" % " ".join(command)) from None

    def completeness(self):
        answer = self.ask("query", "-m", self.merger, "--count")
        found = answer.get("completeness", answer)
        return dict(found, matched=answer.get("matched", 0))

    def status(self):
        return self.ask("status", "-m", self.merger, "--dispatcher", self.dispatcher)


class Unanswered(Exception):
    pass


def undeclared(rack, ledgers, since):
    """Why the ledger does not yet speak for all that a living dispatcher has captured by `since`, or None."""
    try:
        dispatcher = rack.status().get("dispatcher", {})
    except Unanswered:
        return None
    ours = [l for l in ledgers if l["epoch"] == dispatcher.get("epoch")]
    if dispatcher.get("state") != "capturing" or not dispatcher.get("captured_packets"):
        return None
    if not ours:
        return "no node has stored what the dispatcher says"
    late = [l for l in ours if l["said_until"] < since and not l["ended"]]
    return "link %d is not declared up to now" % late[0]["link"] if late else None


STILL = 8 * 10**9  # ns; more than an indexer waits for what may follow before it sums up what there is


def unindexed(rack, since, seen):
    """
    Which node's index does not speak for all of its segments, as told after `since`, or None. Of some
    nobody will: a full volume has recycled what was said of them. So a figure that stands still is not
    waited for; seen: {name: (figure, since when)}, kept from call to call.
    """
    for node in rack.status().get("nodes", []):
        # who has no logger makes no index, and who does not answer is somebody else's matter
        if not node["connected"] or not node["writer_alive"]:
            continue
        name, left, told = node["node"], node["segments_unsummarized"], node.get("summaries_told_time", 0)
        if seen.get(name, (None,))[0] != left:
            seen[name] = left, time.time_ns()
        if told < since or (left and time.time_ns() - seen[name][1] < STILL):
            return "%s has not indexed all" % name
    return None


def unstored(rack, ended, since):
    """Why not all is stored yet, or None. ended: nothing follows."""
    if ended:
        # It has stopped when its nodes have said that they stored all; killed, it cannot say.
        try:
            state = rack.status().get("dispatcher", {}).get("state", "gone")
        except Unanswered:
            state = "gone"
        if state not in ("stopped", "gone"):
            return "the dispatcher is %s" % state
    report = rack.completeness()
    ledgers = report.get("ledgers", [])
    if not ledgers:
        return "no node has heard of the dispatcher yet"
    if report.get("pending_packets"):
        return "%d packets are pending" % report["pending_packets"]
    last = max(ledgers, key=lambda l: l["said_until"])["epoch"]
    running = [l for l in ledgers if l["epoch"] == last and not l["ended"]]
    if ended and running:
        return "link %d has not ended" % running[0]["link"]
    silent = [n["node"] for n in report.get("nodes", []) if not n["answered"]]
    if silent:
        return "%s does not answer" % silent[0]
    return None if ended else undeclared(rack, ledgers, since)


def drained(rack, seconds, until):
    end, pause, since, stored, seen = time.monotonic() + seconds, 0.1, time.time_ns(), None, {}
    while True:
        try:
            why = None if stored else unstored(rack, until != "up-to-now", since)
            if why is None:
                stored = stored or time.time_ns()
                why = unindexed(rack, stored, seen) if until == "indexed" else None
        except (Unanswered, subprocess.TimeoutExpired) as e:
            why = str(e)
        if why is None:
            return 0
        if time.monotonic() > end:
            print("rack: not drained after %d s: %s" % (seconds, why), file=sys.stderr)
            return 1
        time.sleep(pause)
        pause = 0.1 if stored else min(pause * 1.5, 0.5)


def total(rows, *keys):
    return sum(int(row.get(key, 0)) for row in rows for key in keys)


def node_drops(status):
    drops = 0
    for node in status.get("nodes", []):
        logger = node.get("logger") or {}
        if isinstance(logger, str):
            logger = json.loads(logger)
        drops += int(logger.get("dropped_kernel", 0))
    return drops


def packets_in(trace):
    line = ["tcpdump", "-r", trace, "--count"]
    return int(subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()[0])


def table(rack, trace):
    report, status = rack.completeness(), rack.status()
    ledgers = report.get("ledgers", [])
    numbered = total(ledgers, "last_seq")
    early = total(ledgers, "dropped_kernel", "dropped_interface")
    ring = total(ledgers, "dropped_ring")
    late = total(ledgers, "dropped_no_node", "dropped_send")
    merged = packets_in(trace)
    rows = (("captured", numbered + early + ring), ("delivered", numbered - late),
            ("dropped by kernel", early), ("dropped by dispatcher", ring + late),
            ("dropped by node", node_drops(status)),
            ("missing", int(report.get("missing_packets", 0))), ("merged", merged))
    for name, value in rows:
        print("  %-24s %10d" % (name, value))
    short = numbered - int(report.get("missing_packets", 0)) - merged
    if short:
        print("  NOT ACCOUNTED FOR        %10d" % short)
    return 1 if short else 0


def main(argv):
    if len(argv) != 5 or argv[1] not in ("stored", "indexed", "up-to-now", "table"):
        sys.exit(__doc__)
    rack = Rack(argv[2], os.path.abspath(argv[3]))
    if argv[1] == "table":
        return table(rack, argv[4])
    return drained(rack, int(argv[4]), argv[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv))
