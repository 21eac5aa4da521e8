#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard and the alert rules use metrics that exist, with labels that these have.

usage: grafana.py PAGE DASHBOARD.json RULES.yaml      prints each fault; exit 1 if there is any
"""
import json
import re
import sys

import yaml

import metrics

FUNCTIONS = {"rate", "increase", "sum", "count", "by", "on", "group_left", "time", "absent", "and", "or", "instance"}
SCRAPED = {"instance", "job"}  # labels that Prometheus adds
UNITS = {"percentunit", "none", "pps", "bps", "Bps", "ops", "s", "bytes"}
LABELS = {"dispatcher link": {"link", "number"}, "dispatcher node": {"node", "mac"}, "logger": {"node"},
          "indexer": {"node"}, "merger node": {"node"}}


def labels_of(entry, name):
    labels = set(LABELS.get(entry["scope"], set()))
    for _, constant in entry["values"]:
        labels.update(constant)
    return labels | SCRAPED | ({"program", "version"} if name == "packrack_build_info" else set())


def expression(expr, shown, page):
    """Faults of a PromQL expression, and of the labels that its legend or summary shows."""
    plain = re.sub(r'"[^"]*"', '""', expr)
    for pair in ("()", "[]", "{}"):
        if plain.count(pair[0]) != plain.count(pair[1]):
            yield "%s does not balance in: %s" % (pair, expr)
    used = set(re.findall(r"\b(?:packrack|process)_\w+", plain))
    known = {name: labels_of(page[name], name) for name in used if name in page}
    for name in sorted(used - page.keys()):
        yield "%s is no metric: %s" % (name, expr)
    if not used:
        yield "no metric in: %s" % expr
    have = set().union(*known.values()) if known else set()
    for name, matchers in re.findall(r"\b(\w+)\{([^}]*)\}", plain):
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers):
            if label not in known.get(name, ()):
                yield "%s has no label %s: %s" % (name, label, expr)
    for name, value in re.findall(r'\b(\w+)\{state=~?"([^"]*)"', expr):
        states = {labels["state"] for _, labels in page[name]["values"]}
        for state in set(value.split("|")) - states:
            yield "%s has no state %s" % (name, state)
    for name, labels in re.findall(r"\b(by|on) \(([^)]*)\)", plain):
        for label in re.findall(r"\w+", labels):
            if label not in have:
                yield "%s (%s): no metric has it: %s" % (name, label, expr)
    for name in re.findall(r"\b(?:rate|increase)\((\w+)", plain):
        if name in page and page[name]["kind"] != "counter":
            yield "%s is no counter: %s" % (name, expr)
    for word in re.findall(r"[a-z_]+(?=\s*\()", plain):
        if word not in FUNCTIONS:
            yield "%s is no function known here: %s" % (word, expr)
    grouped = re.search(r"\b(?:sum|count)\b(?: by \(([^)]*)\))?", plain)
    left = (set(re.findall(r"\w+", grouped[1] or "")) if grouped else have) | ({"program"} if "group_left" in plain else set())
    for label in shown:
        if label not in left:
            yield "label %s is shown and not there: %s" % (label, expr)


def dashboard(path, page):
    with open(path, encoding="utf-8") as f:
        board = json.load(f)
    ids, places = set(), set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        if panel["id"] in ids or (at["x"], at["y"]) in places or at["x"] + at["w"] > 24:
            yield "panel %s: its id or place is taken, or off the board" % panel["title"]
        ids.add(panel["id"])
        places.add((at["x"], at["y"]))
        if panel["type"] == "row":
            continue
        if panel["fieldConfig"]["defaults"]["unit"] not in UNITS or not panel["description"]:
            yield "panel %s: unit or description" % panel["title"]
        for target in panel["targets"]:
            shown = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            yield from expression(target["expr"].replace("$__rate_interval", "5m"), shown, page)


def rules(path, page):
    names = set()
    with open(path, encoding="utf-8") as f:
        groups = yaml.safe_load(f)["groups"]
    for rule in [rule for group in groups for rule in group["rules"]]:
        name = rule["alert"]
        if name in names or not re.match(r"Packrack[A-Za-z]+\Z", name):
            yield "alert %s: twice, or badly named" % name
        names.add(name)
        if set(rule) - {"alert", "expr", "for", "labels", "annotations"}:
            yield "alert %s: %s" % (name, sorted(rule))
        if rule["labels"]["severity"] not in ("warning", "critical"):
            yield "alert %s: severity" % name
        if set(rule["annotations"]) != {"summary", "action"} or not re.match(r"\d+[smh]\Z", rule.get("for", "1m")):
            yield "alert %s: annotations or for" % name
        shown = re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values()))
        yield from expression(rule["expr"], shown, page)


def main(argv):
    if len(argv) != 4:
        sys.exit(__doc__)
    page = metrics.page(argv[1])
    faults = list(dashboard(argv[2], page)) + list(rules(argv[3], page))
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
