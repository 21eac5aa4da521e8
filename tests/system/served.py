#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Questions to `packrack sql --serve`: served.py COMMAND TRACE same|faults|memory FOLDER"""
import json
import os
import subprocess
import sys

COMMAND, TRACE, WHAT, FOLDER = sys.argv[1:]
STATEMENTS = [
    "select count(*) n from flows", "select * from flows order by uid", "select src_ip, list(dst_port order by dst_port) p from flows group by 1 order by 1",
    "select sum(packets) from rate", "select count(*), max(length) from packets", "select * from losses", "select 1 a where false",
    "with a as (select 'it''s' b, null c) select * from a;", "select protocol, count(*) from flows group by all order by all -- a comment",
    "describe select * from flows", "select 'NaN'::double a, 'infinity'::double b, {'x': [1, 2]} c, '2026-01-01'::date d",
]
RANGES = [[], ["--since", "@1709715705"], ["--since", "@1709715703.5", "--until", "@1709715710", "--active", "3s", "--idle", "2s"],
          ["--filter", "udp port 53"], ["--inside", "10.0.0.0/8"], ["--since", "@9999999999"], ["--link", "nosuch"], ["--filter", "port 99999"]]


class Server:
    def __init__(self):
        self.process = subprocess.Popen([COMMAND, "sql", "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def put(self, *words):
        self.process.stdin.write(b"".join(w.encode(errors="surrogateescape") + b"\0" for w in words) + b"\0")
        self.process.stdin.flush()
        rows = []
        for line in self.process.stdout:
            if line == b"\n":
                return b"".join(rows), json.loads(self.process.stdout.readline())
            rows.append(line)
        raise SystemExit("the server ended: %s" % str(words)[:200])

    def resident(self):
        with open("/proc/%d/status" % self.process.pid, encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0, self.process.returncode


def same(server):
    """As one question alone, whatever was asked before."""
    told = 0
    for number, statement in enumerate(STATEMENTS * 2):
        for words in RANGES if number < 4 else RANGES[:2]:
            for form in ("json", "text", "csv") if number % 4 == 1 else ("json",):
                words = ["-r", TRACE, "--format", form] + words + ["--", statement]
                alone = subprocess.run([COMMAND, "sql"] + words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
                rows, end = server.put(*words)
                assert (rows, end["status"], end["said"]) == (alone.stdout, alone.returncode, alone.stderr.decode()), (words, rows[:300], end, alone)
                assert form != "json" or end["rows"] == rows.count(b"\n"), (words, end)
                told += 1
    print("%d answers are the same" % told)


def faults(server):
    """Each is told in a line, and the next question is answered."""
    secret, stolen = FOLDER + "/secret", FOLDER + "/stolen"
    with open(secret, "w", encoding="ascii") as f:
        f.write("secret")
    for words, said in [
            (["select 1"], None), ([], "1 to 255 words"), (["x"] * 300, "1 to 255 words"), (["-r", TRACE], "STATEMENT"), (["--serve"], "STATEMENT"),
            (["-r", "-", "select 1"], "questions come from there"), (["-r", TRACE, "-"], "no statement"), (["--nosuch", "select 1"], "nosuch"),
            (["-r", TRACE, "--as", "flows", "select 1 a"], "--as flows"), (["-r", TRACE, "--as", "x\"; drop", "select 1 a"], "--as x"),
            (["-r", TRACE, "--as=", "select 1 a"], "--as"), (["-r", TRACE, "selct"], "Parser Error"), (["-r", TRACE, "\udcff\udcfe"], "Error"),
            (["-r", TRACE, "select * from live"], "live"), (["-r", TRACE, "create table t as select 1"], "only queries"),
            (["-r", TRACE, "set threads = 8"], "only queries"), (["-r", TRACE, "select 1; select 2"], "SQL:"), (["-r", TRACE, "begin"], "only queries"),
            (["-r", TRACE, "insert into flows select * from flows"], "only queries"), (["-r", TRACE, "copy (select 1) to '%s'" % stolen], "SQL"),
            (["-r", TRACE, "attach '%s'" % stolen], "SQL"), (["-r", TRACE, "select * from read_text('%s')" % secret], "SQL"),
            (["-r", TRACE, "--as", "t", "select * from read_text('%s')" % secret], "SQL"), (["-r", TRACE, "--as", "t", "select 1 a) to '%s' (" % stolen], "SQL"),
            (["-r", "/nosuch", "select 1"], "/nosuch"), (["-r", TRACE, "--since", "x", "select 1"], "x"), (["-r", TRACE, "select error('own')"], "own")]:
        rows, end = server.put(*words)
        if said:
            assert rows == b"" and end["status"] in (1, 2) and end["rows"] == 0 and said in end["said"] and end["said"].count("\n") == 1, (words[:5], rows, end)
        assert server.put("-r", TRACE, "--format", "json", "select count(*) > 0 a from flows")[0] == b'{"a": true}\n', words
    assert server.put("-r", TRACE, "--format", "json", "select length('%s') n" % ("x" * 10_000_000))[0] == b'{"n": 10000000}\n'
    assert not os.path.exists(stolen)
    rows, end = server.put("-r", TRACE, "select '%s'" % ("x" * (65 << 20)))
    assert end["status"] == 2 and "64 MiB" in end["said"], end
    assert server.put("-r", TRACE, "--as", "live", "select src_ip, list(dst_ip) d from flows group by 1;")[1]["rows"] > 10
    assert server.put("-r", TRACE, "--format", "json", "--as", "live", "select * from live limit 3")[1]["rows"] == 3  # in its own place
    assert server.put("-r", TRACE, "--format", "json", "select count(*) n from live")[0] == b'{"n": 3}\n'
    print("told in a line each")


def memory(server):
    """Of 2,000 questions with their tables the first 200 take all that is needed."""
    begun = None
    for number in range(2000):
        kind = number % 4
        rows, end = server.put("-r", TRACE, "--format", "json", *(["--as", "live"] if kind == 1 else []), "--", [
            "select max(uid) from flows", "select * from flows", "select src_ip from live l where l.src_ip <> '%d'" % number, "selct %d" % number][kind])
        assert (end["status"] == 2) if kind == 3 else (end["rows"] > 50 or kind == 0), (number, end, rows[:100])
        begun = server.resident() if number == 200 else begun
    grown = server.resident() - begun
    print("%d KiB, grown by %d" % (begun, grown))
    assert grown < 16 << 10  # the tables of one question have 100 KiB and more


if __name__ == "__main__":
    served = Server()
    {"same": same, "faults": faults, "memory": memory}[WHAT](served)
    served.end()
