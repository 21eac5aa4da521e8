#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the shipped watches must report, computed without SQL from `packrack flows`, and what they report.

usage: watch_oracle.py PACKRACK TRACE SINCE UNTIL WINDOW-SECONDS WATCH
Prints a line; exit 1 where a row differs.
"""
import ipaddress
import json
import math
import subprocess
import sys
from collections import Counter, defaultdict

PACKRACK, TRACE, SINCE, UNTIL, WINDOW, NAME = sys.argv[1:7]
SINCE, UNTIL, WINDOW = int(SINCE), int(UNTIL), int(WINDOW)
INSIDE = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"]


def run(*words):
    return subprocess.run([PACKRACK, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, text=True).stdout


KEPT = {}


def flows(since, until, inside=True):
    """Of since..until (seconds), until not included."""
    key = since, until, inside
    if key not in KEPT:
        KEPT[key] = [json.loads(line) for line in run(
            "flows", "-r", TRACE, "--format", "json", "--active", "1d", "--since", "@%d" % since, "--until", "@%d.999999999" % (until - 1),
            *[w for net in INSIDE for w in ("--inside", net)] * inside).splitlines()]
    return KEPT[key]


def net(address, bits):
    return str(ipaddress.ip_network("%s/%d" % (address, bits), False))


def sums(rows, key, value):
    found = Counter()
    for r in rows:
        found[key(r)] += value(r)
    return found


def most(found, k):
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))[:k]


def elephants(begin, end, back, length):
    def top(rows):
        return most(sums([r for r in rows if not r["outgoing"]], lambda r: r["src_ip"], lambda r: r["bytes_sent"]), 10)

    old, hours = set(), 0
    for b in back:
        found = top(flows(end - b, min(end - b + length, begin)))
        hours += bool(found)
        old |= {key for key, _ in found}
    count = Counter(r["src_ip"] for r in flows(begin, end) if not r["outgoing"])
    return [{"key": key, "sent": sent, "flows": count[key], "hours_of_history": hours} for key, sent in top(flows(begin, end)) if key not in old]


def mice(begin, end, back):
    great = {key for key, _ in most(sums(flows(end - back, begin, False), lambda r: r["src_ip"], lambda r: r["bytes_sent"]), 20)}
    rows = [r for r in flows(begin, end, False) if r["src_ip"] not in great]
    pair = lambda r: (r["src_ip"], r["dst_ip"])
    count = Counter(map(pair, rows))
    return [{"src_ip": a, "dst_ip": b, "sent": sent, "flows": count[a, b]}
            for (a, b), sent in most(sums(rows, pair, lambda r: r["bytes_sent"]), 20)]


def portscans(begin, end, back):
    reached, hosts, known = defaultdict(set), defaultdict(set), defaultdict(set)
    for r in flows(begin, end):
        reached[r["src_ip"]].add((r["dst_ip"], r["dst_port"]))
        hosts[r["src_ip"]].add(r["dst_ip"])
    for r in flows(end - back, begin):
        known[r["src_ip"]].add(r["dst_ip"])
    found = [{"src_ip": s, "fanout": len(pairs), "hosts": len(hosts[s]), "new_hosts": len(hosts[s] - known[s])}
             for s, pairs in reached.items() if len(pairs) >= 20]
    return sorted([r for r in found if r["new_hosts"] >= 0.5 * r["hosts"]], key=lambda r: (-r["fanout"], r["src_ip"]))


def anomaly(begin, end, back, measure):
    def matrix(rows):
        found = sums(rows, lambda r: (r["src_ip"], r["dst_ip"]) if r["outgoing"] else (r["dst_ip"], r["src_ip"]),
                     lambda r: r["bytes_sent"] + r["bytes_recv"])
        whole = sum(found.values())
        return {pair: n / whole for pair, n in found.items()}

    p, q = matrix(flows(begin, end)), matrix(flows(end - back, begin))
    pairs = set(p) | set(q)
    of = lambda m, k: m.get(k, 0)

    def js(m):
        return sum(of(m, k) * math.log2(2 * of(m, k) / (of(p, k) + of(q, k))) for k in pairs if of(m, k))

    distance = {
        "cosine": 1 - sum(of(p, k) * of(q, k) for k in pairs) / math.sqrt(sum(v * v for v in p.values()) * sum(v * v for v in q.values())),
        "jaccard": 1 - sum(1 for k in pairs if of(p, k) and of(q, k)) / len(pairs),
        "jensen_shannon": (js(p) + js(q)) / 2,
        "l1": sum(abs(of(p, k) - of(q, k)) for k in pairs) / 2}[measure]
    if distance < 0.1:
        return []
    return [{"distance": distance, "pairs": sum(1 for v in p.values() if v), "new_pairs": sum(1 for k in p if p[k] and not of(q, k))}]


def dispersion(begin, end, back, before):
    sent = sums(flows(begin, end, False), lambda r: net(r["src_ip"], 16), lambda r: r["bytes_sent"])
    received = sums([r for r in flows(end - back, begin) if not r["outgoing"]], lambda r: net(r["src_ip"], 16), lambda r: r["bytes_recv"])
    found = []
    for name, total in most(sent, len(sent)):
        lags = sorted((begin - b) // WINDOW for b in before if any(net(r["src_ip"], 16) == name for r in flows(b, b + WINDOW, False)))
        if len(lags) >= 2:
            found.append({"net": name, "lags": lags, "times": len(lags), "sent": total, "received_before": received[name]})
    return found


def entropy(begin, end, back):
    def of(rows):
        return {f: -sum(n / len(rows) * math.log2(n / len(rows)) for n in Counter(r[f] for r in rows).values())
                for f in ("src_ip", "dst_ip", "dst_port")}
    now, then = flows(begin, end, False), flows(end - back, begin, False)
    if not now or not then:
        return []
    a, b = of(now), of(then)
    return [{"field": f, "more_bits": a[f] - b[f], "flows": len(now)} for f in sorted(a) if abs(a[f] - b[f]) >= 0.1]


def sizes(begin, end):
    count, total = Counter(), Counter()
    for r in flows(begin, end, False):
        n = r["bytes_sent"] + r["bytes_recv"]
        key = r["protocol"], max(n, 1).bit_length() - 1
        count[key] += 1
        total[key] += n
    return [{"protocol": p, "from_bytes": 2 ** e, "flows": count[p, e], "bytes": total[p, e]} for p, e in sorted(count)]


def matrix_of_nets(begin, end):
    found = Counter()
    for r in flows(begin, end, False):
        a, b = net(r["src_ip"], 16), net(r["dst_ip"], 16)
        found[a, b] += r["bytes_sent"]
        if r["bytes_recv"] > 0:
            found[b, a] += r["bytes_recv"]
    return [{"from_net": a, "to_net": b, "bytes": n} for (a, b), n in most(found, 100)]


def wanted(begin, end, seen, measure):
    return {
        "elephants": lambda: elephants(begin, end, [3 * WINDOW, 2 * WINDOW], WINDOW),
        "mice": lambda: mice(begin, end, 4 * WINDOW),
        "portscans": lambda: portscans(begin, end, 4 * WINDOW),
        "anomaly": lambda: anomaly(begin, end, 4 * WINDOW, measure),
        "dispersion": lambda: dispersion(begin, end, 4 * WINDOW, seen[-10:]),
        "entropy": lambda: entropy(begin, end, 4 * WINDOW),
        "flow-sizes": lambda: sizes(begin, end),
        "matrix": lambda: matrix_of_nets(begin, end)}[NAME.split(":")[0]]()


def equal(a, b):
    return a == b or (isinstance(a, float) and isinstance(b, (float, int)) and abs(a - b) <= 2e-3)


def main():
    name, _, measure = NAME.partition(":")
    path, more = name, [w for w in ["--set", "measure=" + measure] if measure]
    if name in ("elephants", "mice", "portscans", "anomaly", "dispersion", "entropy"):
        # another history than days: as long as the trace has
        path = sys.argv[7] + "/" + name + ".watch"
    reports = [json.loads(line) for line in run("watch", "test", path, "-r", TRACE, "--since", "@%d" % SINCE, "--until", "@%d" % UNTIL,
                                                "--format", "json", "--set", "window=%ds" % WINDOW, *more).splitlines()]
    begin, seen, rows = SINCE, [], 0
    for report in reports:
        assert report["begin"] == begin * 10**9 and report["end"] == (begin + WINDOW) * 10**9, report
        want = wanted(begin, begin + WINDOW, seen, measure)
        for row in report["rows"]:
            if isinstance(row.get("lags"), str):
                row["lags"] = json.loads(row["lags"])
        same = len(want) == len(report["rows"]) + report["not_shown"] and all(
            list(w) == list(g) and all(equal(w[k], g[k]) for k in w) for w, g in zip(want, report["rows"]))
        if not same:
            wrong = [(w, g) for w, g in zip(want, report["rows"]) if list(w) != list(g) or not all(equal(w[k], g[k]) for k in w)]
            print("%s at %d: %d rows wanted, %d reported; first that differs: %s" % (
                name, begin, len(want), len(report["rows"]), wrong[:1]))
            sys.exit(1)
        seen.append(begin)
        rows += len(want)
        begin += WINDOW
    print("%s: %d windows, %d rows equal" % (NAME, len(reports), rows))
    sys.exit(len(reports) != (UNTIL - SINCE) // WINDOW or rows == 0)


if __name__ == "__main__":
    main()
