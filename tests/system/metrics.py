#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the daemons serve to Prometheus, held against its format, the man page and `packrack status`.

usage: metrics.py get URL                     the page, when it is well formed
       metrics.py documented PAGE FILE...     all metrics of FILEs, and no others, are in the man page
       metrics.py compare PAGE BEFORE AFTER [agreed=FILE] ROLE=FILE...
              figures of FILEs lie between those of two `packrack status --json`; equal where those
              are. ROLE: dispatcher, merger, logger:NODE, indexer:NODE. Those that agreed at an
              earlier look, as FILE says, need not again: some never stand still
       metrics.py refused HOST PORT           requests that must be refused are
       metrics.py names FILE...               names that FILEs (Prometheus' queries in them) use
       metrics.py logs SECRET... -- LOG...    LOGs are lines of JSON, and what is in the files SECRET is in none
Prints each fault; exit 1 if there is any.
"""
import json
import os
import re
import socket
import sys
import urllib.request

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (-?[0-9]+(?:\.[0-9]+)?)\Z")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,(?=.)|\Z)')
UNITS = ("bytes per second", "packets per second", "bytes", "seconds", "ratio", "packets", "frames")
SCOPES = {"Every program": "program", "Dispatcher, each link": "dispatcher link", "Dispatcher": "dispatcher",
          "Dispatcher, each node": "dispatcher node", "Logger": "logger", "Indexer": "indexer",
          "Merger": "merger", "Merger, each node": "merger node"}


class Malformed(Exception):
    pass


def need(holds, what):
    if not holds:
        raise Malformed(what)


def labels_of(text):
    found, at = {}, 0
    while at < len(text or ""):
        match = LABEL.match(text, at)
        need(match and match[1] not in found, "labels {%s}" % text)
        found[match[1]] = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], match[2])
        at = match.end()
    return found


def parse(data):
    """name -> (type, help, {labels as a sorted tuple: value as written})"""
    metrics, now = {}, None
    text = data.decode("utf-8")
    need(text.endswith("\n"), "the last line does not end")
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, said = line[7:].split(" ", 1)
            need(NAME.match(name) and name not in metrics and said.strip(), line)
            now = name
            metrics[name] = [None, said, {}]
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            need(name == now and metrics[name][0] is None and not metrics[name][2], line)
            need(kind in ("counter", "gauge"), line)
            need(name.endswith("_total") == (kind == "counter"), "%s is a %s" % (name, kind))
            metrics[name][0] = kind
        else:
            match = SAMPLE.match(line)
            need(match and match[1] == now and metrics[now][0], line)
            labels = tuple(sorted(labels_of(match[2]).items()))
            need(labels not in metrics[now][2], "twice: " + line)
            need(not match[3].startswith("-"), line)
            metrics[now][2][labels] = match[3]
    for name, (kind, _, samples) in metrics.items():
        need(kind and samples, "%s has no type or no sample" % name)
    return metrics


def get(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        kind = answer.headers["Content-Type"]
        need(kind == "text/plain; version=0.0.4; charset=utf-8", "Content-Type: %s" % kind)
        data = answer.read()
    parse(data)
    return data


def read(path):
    with open(path, "rb") as f:
        return parse(f.read())


# ---- the man page ----

def page(path):
    """name -> dict(scope, kind, unit, help, values: [(name in status, constant labels)])"""
    found, scope = {}, None
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for head, body in re.findall(r"^\.(Ss [^\n]*|It Li packrack_[^\n]*|It Li process_[^\n]*)\n(.*?)"
                                 r"(?=^\.Ss |^\.It |^\.El|^\.Bl|\Z)", text, re.M | re.S):
        if head.startswith("Ss "):
            scope = SCOPES[head[3:]]
            continue
        entry = re.match(r"It Li (\S+) Pq (counter|gauge), ([\w ]+)$", head)
        need(entry and entry[1] not in found, "the page has: %s" % head)
        said, _, values = body.split("\n.Pp")[0].partition("In status:\n")
        plain = re.sub(r"^\.\w+ ", "", said, flags=re.M)
        plain = re.sub(r"\b(Fl|Ar|Cm|Pq) ", "", plain)
        found[entry[1]] = {"scope": scope, "kind": entry[2], "unit": entry[3], "values": list(values_of(values)),
                           "help": words(plain)}
    return found


def words(text):
    return re.findall(r"[a-z0-9]+", text.lower())


def values_of(text):
    for name, labels in re.findall(r"^\.Li (\w+)(?: Pq Li (\S+))? [,.]$", text, re.M):
        if name == "state":
            for state in labels_of(labels)["state"].split("|"):
                yield "state=" + state, {"state": state}
        else:
            yield name, labels_of(labels)


def documented(path, files):
    written, served = page(path), {}
    for name in files:
        for metric, what in read(name).items():
            served.setdefault(metric, what)
    for name in sorted(written.keys() | served.keys()):
        if name not in written:
            kind, said, samples = served[name]
            yield "%s is not in %s: .It Li %s Pq %s, UNIT / %s / %s" % (
                name, path, name, kind, said, sorted(samples)[0])
        elif name not in served:
            yield "%s is in %s, and no program serves it" % (name, path)
        else:
            yield from differences(name, written[name], served[name])


def differences(name, entry, what):
    kind, said, samples = what
    if kind != entry["kind"]:
        yield "%s is a %s, the page says %s" % (name, kind, entry["kind"])
    if words(said) != entry["help"]:
        yield "%s: %r is not what the page says: %s" % (name, said, " ".join(entry["help"]))
    unit = next((u for u in UNITS if re.search(u.replace(" ", "_") + "(_total)?$", name)), None)
    if unit and unit != entry["unit"]:
        yield "%s: the page says %s" % (name, entry["unit"])
    constant = {key for _, labels in entry["values"] for key in labels}
    told = {tuple((k, v) for k, v in labels if k in constant) for labels in samples}
    wanted = {tuple(sorted(labels.items())) for _, labels in entry["values"]} or told
    if told != wanted:
        yield "%s: labels %s, the page says %s" % (name, sorted(told), sorted(wanted))


# ---- status ----

# Of status, what is no figure of its own: names, identities, and what a metric has as labels.
IDENTITIES = {"version", "pid", "time", "epoch", "state", "name", "node", "number", "mac", "link", "mode", "trouble"}


def figures(status, written):
    """(scope, labels, name in status) -> number, for each number in `packrack status --json`"""
    found = {}
    # of a node's figures, those of its indexer; the merger adds its own
    indexer = {value for entry in written.values() if entry["scope"] == "indexer" for value, _ in entry["values"]}

    def take(scope, labels, values):
        for name, value in values.items():
            if name == "state":
                found[scope, labels, "state"] = value
            elif isinstance(value, (int, bool)) and name not in IDENTITIES:
                found[scope, labels, name] = int(value)

    dispatcher, merger = status["dispatcher"], status["merger"]
    links = {name for link in dispatcher["links"] for name in link}
    take("dispatcher", (), {k: v for k, v in dispatcher.items() if k not in links})
    for link in dispatcher["links"]:
        take("dispatcher link", (("link", link["name"]), ("number", str(link["link"]))), link)
    for node in dispatcher["nodes"]:
        take("dispatcher node", (("mac", node["mac"]), ("node", node["node"])), node)
    take("merger", (), merger)
    for node in status["nodes"]:
        name = (("node", node["node"]),)
        take("merger node", name, node)
        take("indexer", name, {k: v for k, v in node.items() if k in indexer})
        take("logger", name, node["logger"])
    return found


def number(text, unit, value):
    """A metric's value in the unit of status."""
    scale = {"_time": 10**9, "last_seen": 10**9, "_permille": 1000, "_percent": 100, "_us": 10**6}
    for ending, times in scale.items():
        if value.endswith(ending):
            whole, _, part = text.partition(".")
            return int(whole) * times + int((part + "000000000")[:len(str(times)) - 1])
    if value.endswith("_kib"):
        return int(text) // 1024
    return int(text)


def served(written, role, path):
    """(scope, labels, name in status) -> number, as figures()"""
    found, (program, _, node) = {}, role.partition(":")
    for metric, (_, _, samples) in read(path).items():
        entry = written[metric]
        if entry["scope"] == "program":
            continue
        need(entry["scope"].split(" ")[0] == program, "%s is served by the %s" % (metric, program))
        for value, constant in entry["values"]:
            for labels, text in samples.items():
                rest = tuple((k, v) for k, v in labels if k not in constant)
                if all(dict(labels)[k] == v for k, v in constant.items()):
                    found[entry["scope"], rest, value] = number(text, entry["unit"], value)
    return found


def slack(key):
    """Times that are computed anew from how long ago it was, each time they are asked for; and gauges that
    hardly ever stand still."""
    anew = (("dispatcher node", "last_seen"), ("merger node", "summaries_told_time"))
    gauges = ("unacknowledged_frames", "write_bytes_per_s", "canary_first_packet_us", "indexed_lag_bytes")
    return 10**8 if (key[0], key[2]) in anew or key[2] in gauges else 0


def compare(path, before, after, files):
    written, equal, seen, earlier = page(path), 0, set(), set()
    agreed = "".join(f[7:] for f in files if f.startswith("agreed="))
    files = [f for f in files if not f.startswith("agreed=")]
    if agreed and os.path.exists(agreed):
        with open(agreed, encoding="utf-8") as f:
            earlier = set(f.read().splitlines())
    with open(before, encoding="utf-8") as b, open(after, encoding="utf-8") as a:
        low, high = figures(json.load(b), written), figures(json.load(a), written)
    for item in files:
        role, _, name = item.partition("=")
        for key, value in served(written, role, name).items():
            if key[2].startswith("state="):
                seen.add(key[:2] + ("state",))
                low_value = high_value = int(low.get(key[:2] + ("state",)) == key[2][6:])
            else:
                seen.add(key)
                low_value, high_value = low.get(key), high.get(key)
            if low_value is None or high_value is None:
                yield "%s %s %s: not in status" % key
            elif not min(low_value, high_value) - slack(key) <= value <= max(low_value, high_value) + slack(key):
                if str(key) not in earlier:
                    yield "%s %s %s: %d is served, status says %d, then %d" % (key + (value, low_value, high_value))
            else:
                equal += low_value == high_value
                earlier.add(str(key))
    roles = {item.partition("=")[0] for item in files}
    nodes = {r.partition(":")[2] for r in roles if ":" in r}
    for key in sorted(low, key=str):
        of_role = key[0].split(" ")[0] in {r.partition(":")[0] for r in roles}
        other = key[0] in ("logger", "indexer") and dict(key[1])["node"] not in nodes
        # of each program, not of one: packrack_connections and the like
        of_each = "packrack_" + key[2] in written or "packrack_%s_total" % key[2] in written
        if of_role and not other and not of_each and key not in seen and not (key[0] == "merger" and key[2] == "state") and (
                key[2] != "state_digest"):
            yield "%s %s %s is in status, and not served" % key
    print("%d figures are served, %d of them stood still and are equal" % (len(seen), equal))
    if agreed:
        with open(agreed, "w", encoding="utf-8") as f:
            f.write("\n".join(sorted(earlier)))
    if equal < 50:
        yield "only %d figures stood still" % equal


# ---- hostile input ----

REQUESTS = (
    (b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n", b" 404 "),
    (b"GET /metrics/ HTTP/1.0\r\n\r\n", b" 404 "),
    (b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", None),
    (b"DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b" 501 "),
    (b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + 200000 * b"x" + b"\r\n\r\n", None),
    (b"GET /" + 200000 * b"m" + b" HTTP/1.1\r\n\r\n", None),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", None),
    (b"GET /metrics\r\n\r\n", None),
    (b"\r\n\r\n\0\0\0\r\n\r\n", None),
)


def ask(host, port, request):
    with socket.create_connection((host, port), timeout=20) as s:
        answer = b""
        try:
            s.sendall(request)
            s.shutdown(socket.SHUT_WR)
            while True:
                more = s.recv(65536)
                if not more:
                    return answer
                answer += more
        except TimeoutError:
            raise
        except OSError:  # it hung up while we were speaking
            return answer


def refused(host, port):
    for request, wanted in REQUESTS:
        line = ask(host, port, request).split(b"\r\n")[0]
        if b" 200 " in line or (wanted and wanted not in line):
            yield "%r: %r" % (request[:60], line)


# ---- logs ----

MEMBERS = ["time", "level", "program", "where", "what"]


def logs(paths):
    secrets, files = paths[:paths.index("--")], paths[paths.index("--") + 1:]
    hidden, lines, fields = [], 0, set()
    for path in secrets:
        with open(path, encoding="utf-8") as f:
            hidden += [word for word in f.read().split() if len(word) >= 32]
    if not hidden:
        yield "no secret to look for in %s" % secrets
    for path in files:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        if any(word.lower() in text.lower() for word in hidden):
            yield "%s: a secret" % path
        for line in text.splitlines():
            lines += 1
            try:
                said = json.loads(line)
            except ValueError:
                yield "%s: %s" % (path, line)
                continue
            if list(said)[:5] != MEMBERS or not all(isinstance(v, str) for v in said.values()):
                yield "%s: members: %s" % (path, line)
            fields.update(list(said)[5:])
    print("%d lines, fields %s" % (lines, ", ".join(sorted(fields))))
    if not {"node", "interface", "user", "query", "merger"} <= fields:
        yield "not all fields were seen"


def names(paths):
    found = set()
    for path in paths:
        with open(path, encoding="utf-8") as f:
            found.update(re.findall(r"\b(?:packrack|process)_[a-z_]+\b", f.read()))
    return found


def main(argv):
    if len(argv) < 3:
        sys.exit(__doc__)
    verb, rest = argv[1], argv[2:]
    try:
        if verb == "get":
            sys.stdout.buffer.write(get(rest[0]))
            return 0
        if verb == "names":
            print("\n".join(sorted(names(rest))))
            return 0
        faults = list({"documented": lambda: documented(rest[0], rest[1:]),
                       "compare": lambda: compare(rest[0], rest[1], rest[2], rest[3:]),
                       "logs": lambda: logs(rest),
                       "refused": lambda: refused(rest[0], int(rest[1]))}[verb]())
    except (Malformed, UnicodeDecodeError) as e:
        faults = ["malformed: %s" % e]
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
