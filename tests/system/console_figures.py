#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is what the console shows what status says? Reads a screen (METRICS, PACKETS of the first link, or a node's
detail) on standard input: each of its figures lies between those of a status before and one after.

    console_figures.py metrics|packets|NODE BEFORE.json AFTER.json"""

import json
import re
import sys

METRICS = {
    "Captured frames": "captured_packets",
    "> Delivered": "sent_packets",
    "> Cut (shorter than captured)": "cut_packets",
    "> Dropped by kernel": "dropped_kernel dropped_interface",
    "> Dropped by packrack": "dropped_ring dropped_no_node dropped_send",
    "> Dropped by nodes": "nodes.dropped_kernel",
    "> Missing at nodes": "nodes.missing_packets",
    "> Commands sent": "control_frames",
    "> Commands received": "control_received_frames",
    "> Commands refused": "control_refused_frames",
    "> Timestamp frames sent": "log_frames",
    "> Timestamp bytes sent": "log_bytes",
    "> Data bytes sent": "data_bytes",
}
PACKETS = {
    "Captured frames": "captured_packets",
    "Captured bytes": "captured_bytes",
    "> Sent frames": "sent_packets",
    "> Sent bytes": "sent_bytes",
    "> Cut": "cut_packets",
    "> Escaped": "escaped_packets",
    "> Runts": "runt_packets",
    "> Dropped: kernel": "dropped_kernel",
    "> Dropped: interface": "dropped_interface",
    "> Dropped: buffer full": "dropped_ring",
    "> Dropped: no node": "dropped_no_node",
    "> Dropped: sending failed": "dropped_send",
    "Last number given (seq)": "last_seq",
}
NODE = {
    "Free space:": "volume_free_bytes",
    "Total space:": "volume_size_bytes",
    "Data frames sent:": "sent_frames",
    "Bytes sent:": "sent_bytes",
    "Timestamp logs sent:": "sent_tslogs",
    "Timestamp logs received:": "received_tslogs",
    "Controls received:": "received_controls",
    "Controls sent:": "sent_controls",
    "Frames received:": "received_frames",
    "Packets stored:": "stored_packets",
    "Packets durable:": "durable_packets",
    "Bytes stored:": "stored_bytes",
    "Missing:": "missing_packets",
    "Dropped by its kernel:": "dropped_kernel",
    "Strays:": "stray_frames",
    "Duplicates:": "duplicate_frames",
    "Pending:": "pending_frames",
    "Logs asked again:": "requested_tslogs",
    "Logs gone:": "gone_tslogs",
    "Packets indexed:": "indexer.packets",
    "Queries:": "indexer.queries_total",
    "Queries running:": "indexer.running_query_count",
}


def named(things, name):
    return next(t for t in things if t.get("node", t.get("name")) == name)


def value(status, which, path):
    """What status has at PATH, a sum of names"""
    d = status["dispatcher"]
    if path.startswith("nodes."):
        return sum(n[path[6:]] for n in d["nodes"])
    if path.startswith("indexer."):
        return named(status["nodes"], which)[path[8:]]
    place = d if which == "metrics" else d["links"][0] if which == "packets" else named(d["nodes"], which)
    return sum(place[name] for name in path.split())


def shown(screen, label):
    """The last figure of LABEL's row: CUMULATIVE on METRICS and PACKETS; of a pair (1.2 MiB (1234)) the exact one"""
    after = re.search(r"(?:^|[^>] )" + re.escape(label) + r" +(.*)", screen, re.M)
    if not after:
        return None
    if label.endswith(":"):
        exact = re.match(r"[\d.]+ \w+ \((\d+)\)|(\d+)", after[1])
        return exact and int(exact[1] or exact[2])
    return int(after[1].split()[-1])


def main():
    which, *files = sys.argv[1:]
    screen = sys.stdin.read()
    if which == "metrics":  # a wide one has two tables side by side
        screen = "\n".join(part for line in screen.split("\n") for part in (line[:79], line[79:]))
    before, after = (json.load(open(f)) for f in files)
    wrong = 0
    for label, path in {"metrics": METRICS, "packets": PACKETS}.get(which, NODE).items():
        low, high = sorted((value(before, which, path), value(after, which, path)))
        got = shown(screen, label)
        if got is None or not low <= got <= high:
            print(f"{which}, {label} {got} on the screen, {low} to {high} in status")
            wrong += 1
    sys.exit(1 if wrong else 0)


main()
