#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what a rack kept of traces, and what it says that it did not, against cutoff_model.py.

  cutoff_check.py answer TRACE REPORT FILE... -- CLASS...   TRACE has what the model keeps of the files (links 0, 1, ...), each
                                 packet whole and in order; REPORT (query --json) tells of all others
                                 With RULES: a file of lines "TIME VERB WORDS": packrack class VERB WORDS was done at TIME, ns
                                 With PACKRACK_TIMES=ignore: the files' times are those of the other end of the link
  cutoff_check.py degrees TRACE REPORT LONGEST SHORTEST FILE -- CLASS...   TRACE has each packet once: whole (LONGEST full), or as far
                                 as the class's shorter degrees have it: within the cutoff whole (cut), else only headers
  cutoff_check.py connections FILE -- CLASS...   asks for each connection that was cut: what is kept and what is not is all
  cutoff_check.py filters FILE exact|most FILTER... -- CLASS...   asks; exact: the filter tests the connection alone
  cutoff_check.py largest FILE -- CLASS...       names the TCP connections that lose most
  cutoff_check.py ranges FILE -- CLASS...        asks for times
"""
import collections
import csv
import hashlib
import heapq
import ipaddress
import itertools
import json
import os
import subprocess
import sys

import cutoff_model as model
import traces

LONGEST = 65549  # behind its Ethernet header a frame on the rack interface holds 65,535 bytes


def judged(files, classes):
    """(packets, verdicts) of each file."""
    links = [list(traces.Trace(f)) for f in files]
    of_filter = iter(model.filtered(list(itertools.chain(*links)), [model.Class(c) for c in classes]))
    return [(packets, model.Link(packets, classes, list(itertools.islice(of_filter, len(packets)))).verdicts())
            for packets in links]


def steered(links):
    """Judges again, with the changes that RULES tells of."""
    with open(os.environ["RULES"], encoding="utf-8") as f:
        rules = [line.split(None, 1) for line in f]
    (packets, _), = links
    link = model.Link(packets, sys.argv[sys.argv.index("--") + 1:])
    verdicts = []
    for i, p in enumerate(packets):
        while rules and int(rules[0][0]) < p.time:
            link.steer(*rules.pop(0)[1].split())
        verdicts.append(link.verdict(i))
    return [(packets, verdicts)]


def kept(link, packets, verdicts):
    """(otime, link, seq, packet): otime is the running maximum of times."""
    otime, seq = None, 0
    for p, v in zip(packets, verdicts):
        if v.keeps:
            otime, seq = p.time if otime is None else max(otime, p.time), seq + 1
            yield otime, link, seq, (p.time, p.length, hashlib.md5(p.data[:min(v.snaplen, LONGEST)]).digest())


def beyond(report):
    """By class, as the report tells it: packets, bytes, connections; and whether it is so many at most."""
    told = report["completeness"]["beyond"]
    return {b["name"]: [b["packets"], b["bytes"], b["connections"]] for b in told}, any(b["at_most"] for b in told)


def added(links):
    total = {}
    for packets, verdicts in links:
        for name, one in model.sums(packets, verdicts).items():
            total[name] = [a + b for a, b in zip(one, total.get(name, [0, 0, 0]))]
    return total


def differences(want, have):
    for number, (a, b) in enumerate(itertools.zip_longest(want, have), 1):
        if a != b:
            yield "packet %d: want %s, have %s" % (number, a, b)


def answer(trace, report, files, classes):
    links = judged(files, classes)
    if "RULES" in os.environ:
        before, links = links, steered(links)
        print("rules change", sum(a != b for a, b in zip(before[0][1], links[0][1])), "packets")
    want = list(heapq.merge(*(kept(i, *link) for i, link in enumerate(links)), key=lambda k: k[:3]))
    have = [(p.time, p.length, hashlib.md5(p.data).digest()) for p in traces.Trace(trace)]
    if os.environ.get("PACKRACK_TIMES") == "ignore":
        want, have = [(*w[:3], w[3][1:]) for w in want], [h[1:] for h in have]
    wrong = list(itertools.islice(differences([w[3] for w in want], have), 5))
    with open(report, encoding="utf-8") as f:
        told, at_most = beyond(json.load(f))
    if told != added(links) or at_most:
        wrong.append("beyond: want %s, have %s" % (added(links), told))
    everything, back = sum(len(p) for p, _ in links), sum(t[0] for t in told.values())
    if len(have) + back != everything:
        wrong.append("%d kept and %d beyond are not the %d captured" % (len(have), back, everything))
    print("%d captures, %d packets: %d kept, %d beyond" % (len(files), everything, len(have), back))
    sys.exit("\n".join(wrong) or 0)


def headers_len(p):
    """Up to the end of the transport header of TCP and UDP; of other packets None."""
    at = model.network(p.data)[1]
    h = at and model.headers(p.data, at)
    if not h or h.fragment or h.proto not in (6, 17):
        return None
    l4 = at + ((p.data[at] & 15) * 4 if p.data[at] >> 4 == 4 else 40)
    if p.data[at] >> 4 == 6 and p.data[at + 6] != h.proto:
        return None  # extension headers
    end = l4 + ((p.data[l4 + 12] >> 4) * 4 if h.proto == 6 else 8)
    return end if end <= len(p.data) else None


def degrees(trace, report, longest, shortest, files, classes):
    """What each packet may be: whole as long as a longest degree has it (or always, within the cutoff, if that is cut)."""
    (packets, verdicts), = judged(files, classes)
    with open(report, encoding="utf-8") as f:
        told = json.load(f)
    wrong, short = [], 0
    want = [(p, v) for p, v in zip(packets, verdicts) if v.keeps or longest == "full"]
    have = list(traces.Trace(trace))
    if longest == "full" and shortest == "cut":
        want = [(p, v) for p, v in want if v.keeps or (p.time, p.length) in {(h.time, h.length) for h in have}]
    if len(want) != len(have):
        sys.exit("%d packets, want %d" % (len(have), len(want)))
    for number, ((p, v), h) in enumerate(zip(want, have), 1):
        whole, headers = len(h.data) == min(len(p.data), LONGEST), headers_len(p)
        short += not whole
        if (h.time, h.length, h.data) != (p.time, p.length, p.data[:len(h.data)]):
            wrong.append("packet %d is another" % number)
        elif not whole and (shortest != "headers" or (v.keeps and "full 1s, cut" in classes[0])):
            wrong.append("packet %d is not whole" % number)
        elif not whole and headers and len(h.data) != headers:
            wrong.append("packet %d has %d bytes, its headers %d" % (number, len(h.data), headers))
    print("%d packets, %d of them short; told: cut %s, headers %s" % (len(have), short, told.get("from_cut"), told.get("from_headers")))
    # a packet without payload is whole also as headers
    if short > int(told.get("from_headers") or 0) or int(told.get("from_headers") or 0) > len(have) or (shortest == "headers" and not short):
        wrong.append("%d are short, of headers are %s" % (short, told.get("from_headers")))
    sys.exit("\n".join(wrong[:5]) or 0)


def ask(path, *words):
    """(exit status, packets that match, beyond by class, at most?) of the link of a trace file"""
    link = ["--link", os.path.basename(path)]
    done = subprocess.run([os.environ["PACKRACK"], "query", "--count", "--json", *link, *words], capture_output=True, text=True,
                          check=False)
    if not done.stdout.strip():
        sys.exit("query %s: %s" % (words, done.stderr))
    report = json.loads(done.stdout)
    return done.returncode, report["matched"], *beyond(report)


def own_ends(p):
    """Of a packet by its own headers: what a filter of the connection sees; None of a fragment, and of one behind more
    than one tag: sums have the outermost alone."""
    vlan, at = model.network(p.data)
    if at != (14 if vlan is None else 18):
        return None
    h = model.headers(p.data, at)
    return h and not h.fragment and (h.proto, *sorted(((h.src, h.sport), (h.dst, h.dport))))


def filter_of(ends, vlan):
    proto, *sides = ends
    (a, ap), (b, bp) = [(ipaddress.ip_address(bytes(x)), port) for x, port in sides]
    text = "%s proto %d" % ("ip6" if a.version == 6 else "ip", proto)
    if proto not in (6, 17, 132):
        return "%s and host %s and host %s" % (text, a, b)
    one = "src host %s and src port %d and dst host %s and dst port %d"
    text = "%s and ((%s) or (%s))" % (text, one % (a, ap, b, bp), one % (b, bp, a, ap))
    return text if vlan is None else "vlan %d and %s" % (vlan, text)


def connections(files, classes):
    (packets, verdicts), = judged(files, classes)
    cut = {(v.ends, v.vlan) for p, v in zip(packets, verdicts) if not v.keeps and own_ends(p)}
    wrong = []
    for ends, vlan in sorted(cut, key=str):
        want = sum(v.keeps and (own_ends(p), v.vlan) == (ends, vlan) for p, v in zip(packets, verdicts))
        of = [(p, v) for p, v in zip(packets, verdicts) if not v.keeps and (v.ends, v.vlan) == (ends, vlan)]
        asked = ask(files[0], filter_of(ends, vlan))
        if asked != (0, want, model.sums(*zip(*of)), False):
            wrong.append("%s: want %s, have %s" % (filter_of(ends, vlan), (0, want, model.sums(*zip(*of)), False), asked))
    print("%d connections" % len(cut))
    if not cut:
        wrong.append("no connection was cut: the test is void")
    sys.exit("\n".join(wrong[:5]) or 0)


def truth(links, chosen):
    """(packets kept, beyond by class) of those that are chosen: a set of numbers."""
    (packets, verdicts), = links
    of = [(packets[i], verdicts[i]) for i in sorted(chosen)]
    return sum(v.keeps for _, v in of), model.sums(*zip(*of)) if of else {}


def wrong_of(want, at_most, asked):
    """What is wrong with an answer, or None: with at_most the sums are no less than the truth."""
    status, matched, told, most = asked
    held = all(t <= h for name, one in want[1].items() for t, h in zip(one, told.get(name, [0, 0, 0])))
    same = held if at_most else told == want[1]
    return None if (status, matched, most) == (0, want[0], at_most) and same else "want %s, have %s" % (want, asked)


def filters(files, given, classes):
    """given: exact FILTER or most FILTER, in turn."""
    links = judged(files, classes)
    packets = links[0][0]
    wrong = []
    for kind, text in zip(given[::2], given[1::2]):
        want = truth(links, model.matching(packets, text))
        if not want[1]:
            wrong.append("%s: nothing of it is beyond the cutoff: the test is void" % text)
        wrong.append(wrong_of(want, kind == "most", ask(files[0], text)))
        print(kind, text, want, wrong[-1])
    sys.exit("\n".join(w for w in wrong if w) or 0)


def ranges(files, classes):
    """Time ranges of whole seconds tell exactly, others at most."""
    links = judged(files, classes)
    packets = links[0][0]
    first, last = packets[0].time // model.NS, packets[-1].time // model.NS
    third = (last - first) // 3
    wrong = []
    for since, until, at_most in ((first + third, last - third, False), (first + third + 0.4, last - third, True),
                                  (first + third, last - third - 0.7, True), (first + third + 0.1, first + third + 0.2, True)):
        since, until = int(since * 10) * 10**8, int(until * 10) * 10**8 - 1
        want = truth(links, {i for i, p in enumerate(packets) if since <= p.time <= until})
        asked = ask(files[0], *("--%s=@%d.%09d" % (name, *divmod(t, model.NS)) for name, t in (("since", since), ("until", until))))
        wrong.append(wrong_of(want, at_most, asked))
        print(since, until, want, wrong[-1])
    sys.exit("\n".join(w for w in wrong if w) or 0)


def largest(files, classes):
    """The TCP connections that lose most, as packrack class suspend takes them."""
    (packets, verdicts), = judged(files, classes)
    lost = collections.Counter()
    for p, v in zip(packets, verdicts):
        if not v.keeps and v.ends[0] == 6:
            lost[v.ends] += p.length
    for (_, *sides), _ in lost.most_common(5):
        print("tcp", *("%s %d" % (ipaddress.ip_address(bytes(a)), port) for a, port in sides))


def flows(cut, whole):
    """CSV of packrack flows, with a cutoff and without: flows of TCP are the same but for flags and payload; bytes but for what frames are
    padded with. In sum all packets are there."""
    rows, packets = [], []
    for path in (cut, whole):
        with open(path, encoding="utf-8") as f:
            all_ = list(csv.DictReader(f))
        packets.append(sum(int(r["packets_sent"] or 0) + int(r["packets_recv"] or 0) for r in all_))
        rows.append({tuple(r[n] for n in ("tcqtime", "src_ip", "src_port", "dst_ip", "dst_port", "vlan")): r for r in all_ if r["protocol"] == "6"})
    wrong = ["%d and %d packets" % tuple(packets)] * (packets[0] != packets[1])
    for key in sorted({*rows[0], *rows[1]}):
        a, b = rows[0].get(key), rows[1].get(key)
        if not a or not b or any(a[n] != b[n] for n in ("duration", "state", "packets_sent", "packets_recv")) or any(
                not 0 <= int(a["bytes_" + n] or 0) - int(b["bytes_" + n] or 0) <= 6 * int(a["packets_" + n] or 0) for n in ("sent", "recv")):
            wrong.append("%s: %s, %s" % (key, a, b))
    print("%d packets, %d flows of TCP, %d differ" % (packets[1], len(rows[1]), len(wrong)))
    sys.exit("\n".join(wrong[:5]) if wrong or len(rows[1]) < 5 else 0)


def main():
    if sys.argv[1] == "flows":
        return flows(*sys.argv[2:])
    split = sys.argv.index("--")
    classes = sys.argv[split + 1:]
    command, *words = sys.argv[1:split]
    if command == "answer":
        answer(words[0], words[1], words[2:], classes)
    elif command == "degrees":
        degrees(*words[:4], words[4:], classes)
    elif command == "filters":
        filters(words[:1], words[1:], classes)
    else:
        {"connections": connections, "ranges": ranges, "largest": largest}[command](words, classes)


if __name__ == "__main__":
    main()
