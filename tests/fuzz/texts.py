#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile texts: watch files, which end in a watch or in one line; statements, which read and write no file, and never end the server; lines of a
NIDS, which end in an alert whose filter libpcap takes, or in one line.

usage: tests/fuzz/texts.py [--seconds N | --runs N] [--seed N]      a finding prints its text; the same seed makes it again

Texts are the shipped ones and those below, changed at random: pieces of one put into another, cut, repeated, replaced by words
that have a meaning somewhere. PACKRACK_BUILD: the build, default build.
"""
import argparse
import glob
import importlib.machinery
import importlib.util
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("PACKRACK_BUILD") or os.path.join(TOP, "build"))
SECRET = "what-no-statement-may-tell"
SLOW_SECONDS = 5  # a statement may be long: then its server is ended, which is no finding
WORDS = ["0", "-1", "9223372036854775807", "1e400", "''", "'", '"', "(", ")", "[", "]", "{", "}", ";", "--", "/*", "*/", "$$", "\\", "%", "=", ":", "::",
         "\n", "\r", "\t", "\x00", "\x1b[2J", "\u202e", "\ud800", "\uffff", "null", "nan", "true", "60s", "1y", "-5s", "0s", "99999999999999s", ":begin",
         ":end", ":window", ":key", ":nosuch", "python", "kept", "[live]", "[history]", "[rule]", "[report]", "[DEFAULT]", "sql = ", "live", "past",
         "history", "flows", "packets", "rate", "losses", "nodes", "src_ip", "bytes_sent", "tcqtime", "order by", "group by all", "union all", "limit",
         "range(100000)", "turn()", "prefix(src_ip, 24)", "within(src_ip, '10.0.0.0/8')", "prefix('', -1)", "cast", "select", "from", "where", "values",
         "as", "with recursive r as (select 1 union all select 1 from r)", "describe", "explain", "pragma", "copy", "attach", "install", "load", "set",
         "SECRET", "read_text('SECRET')", "read_csv('SECRET')", "read_blob('SECRET')", "'SECRET'", "glob('FOLDER/*')", "FOLDER/new", "getenv('HOME')",
         "export database 'FOLDER/new'", "copy flows to 'FOLDER/new'", "attach 'FOLDER/new' as x", "install httpfs", "load 'FOLDER/new'",
         "set enable_external_access = true", "reset allowed_paths", "read_parquet('http://127.0.0.1:1/x')", "query('select 1')", "query_table('SECRET')",
         "duckdb_settings()", "pragma_database_list()", "json_execute_serialized_sql('{}')", "checkpoint", "create table t as select 1", "drop table flows",
         "create macro f() as 1", "prepare p as select 1", "execute p", "begin", "commit", "import database 'FOLDER'"]
STATEMENTS = ["select * from flows", "select src_ip, sum(bytes_sent) from flows group by all order by 2 desc limit 3", "select count(*) from packets",
              "select * from losses union all select * from losses", "with a as (select * from flows) select a.src_ip from a join flows using (uid)",
              "select prefix(src_ip, 16), count(distinct (dst_ip, dst_port)) from flows where within(src_ip, '10.0.0.0/8') group by 1",
              "select * from read_text('SECRET')", "copy (select 1) to 'FOLDER/new'", "select * from 'SECRET'", "describe select * from flows",
              "select unnest(range(10)), turn() from rate", "select list(src_ip order by tcqtime), regexp_extract(state, '.*') from flows"]
FRAMES = ["select ? from flows", "select * from ?", "select * from ? limit 1", "select * from flows where ?", "select ?", "select count(?), ? from packets", "?",
          "select * from (?)", "with a as (select * from flows) select * from ?", "select * from flows join ? on true", "select (select ? from ?) from rate",
          "from ?", "select * from query('select * from ?')", "describe select * from ?", "select try_cast(? as ?) from flows", "values (?), (?)"]


EVE = ['{"timestamp":"2018-10-03T14:42:44.836744+0000","flow_id":2191386088856669,"event_type":"alert","src_ip":"192.168.1.146","src_port":32858,'
       '"dest_ip":"93.184.216.34","dest_port":80,"proto":"TCP","alert":{"signature_id":2013028,"severity":2},"community_id":"1:hO+sN4H+MG5MY/8hIrXPqc4ZQz4=",'
       '"flow":{"pkts_toserver":4,"start":"2018-10-03T14:42:44.613469+0000"}}',
       '{"timestamp": "2024-03-05T09:00:00.577679+0000", "event_type": "flow", "src_ip": "2001:db8::1", "dest_ip": "2001:db8::2", "proto": "IPv6-ICMP", '
       '"icmp_type": 128, "flow": {"start": "2024-03-05T09:00:00.411045Z", "end": "2024-03-05T09:00:01.5+01:00"}, "vlan": [10]}']
ZEEK = ["#separator \\x09\n#path\tnotice\n#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tnote\tsrc\tdst\tp\n"
        "1024380731.015090\tCCKUOW2neqARiqxzI6\t10.234.125.254\t2217\t10.121.70.151\t21\ttcp\tSignatures::Sensitive\t10.121.70.151\t-\t21\n"
        "1760876062.226688\t-\t-\t-\t-\t-\t-\tScan::Port_Scan\t90.29.239.33\t-\t-\n#close\t2025-10-19-08-14-22",
        '{"ts":1591367999.305988,"uid":"Cx","id.orig_h":"fe80::1","id.orig_p":128,"id.resp_h":"ff02::2","id.resp_p":0,"proto":"icmp","duration":1.5,'
        '"conn_state":"OTH"}']


def load(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), "%s/%s" % (BUILD, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def changed(rng, texts):
    text = rng.choice(texts)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at = rng.randrange(len(text) + 1)
        upto = min(len(text), at + rng.choice((0, 1, 1, 5, 20, 100)))
        other = rng.choice(texts)
        piece = rng.randrange(len(other))
        new = rng.choice((lambda: " %s " % rng.choice(WORDS), lambda: rng.choice(WORDS), lambda: "", lambda: text[at:upto] * rng.choice((2, 2, 50)),
                          lambda: other[piece:piece + rng.choice((5, 30, 200))], lambda: chr(rng.randrange(1, 0x250))))()
        text = text[:at] + new + text[upto:]
    return text


class Finding(Exception):
    pass


def one_line(said, text):
    if not said or "\n" in said or "Traceback" in said:
        raise Finding("said %r of\n%s" % (said, ascii(text)))

RULES = ["""[exploit]
sid = 2013028, 2100000-2100999
severity = 1
category = A Network Trojan was detected
\tAttempted *
lift = 10m
move = src alarms 1h
hold = src exploit
limit = 10

[scan]
note = Scan::*
save = no
after = 5s
"""]


class Texts:
    def __init__(self, folder, rng):
        self.rng, self.folder, self.secret = rng, folder, folder + "/secret.csv"
        self.watch, self.pivot = load("packrack-watch"), load("packrack-pivot")
        self.pivot.say = lambda text: one_line(self.pivot.plain(text), text)
        self.shipped = [open(p, encoding="utf-8").read() for p in sorted(glob.glob(TOP + "/merger/watch/watch.d/*.watch"))]
        self.statements = STATEMENTS + re.findall(r"sql = (.*)", "\n".join(self.shipped))
        with open(self.secret, "w", encoding="utf-8") as f:
            f.write("a,b\n%s,1\n" % SECRET)
        self.asker = self.watch.Asker([], 1)
        self.watch.ASK_SECONDS = SLOW_SECONDS
        self.server = self.watch.Server(self.asker)
        self.trace = self.asker.empty_trace()
        self.there = sorted(os.listdir(folder)) + ["t.watch", "t.log"]
        args = self.pivot.options().parse_args(["--eve", "-", "-w", folder, "-r", "x"])
        self.pivot.check(args)
        self.answered = self.pivot.Pivot(args, [], None)
        self.rule = self.pivot.Rule("any", {"type": "*", "lift": "10m", "move": "both alarms 1h", "hold": "src worm", "hook": "/bin/true"})
        self.fine, self.slow = 0, 0

    def rules_file(self):
        text = changed(self.rng, RULES).replace("\ud800", "")
        with open(self.folder + "/t.log", "w", encoding="utf-8", errors="surrogatepass") as f:
            f.write(text)
        try:
            self.fine += bool(self.pivot.rules_of(self.folder + "/t.log"))
        except self.pivot.Mistake as e:
            one_line(self.pivot.plain(e), text)
        except Exception as e:  # any other is what is looked for  pylint: disable=broad-except
            raise Finding("%s: %s: of\n%s" % (type(e).__name__, e, ascii(text))) from None

    def watch_file(self):
        text = changed(self.rng, self.shipped)
        with open(self.folder + "/t.watch", "w", encoding="utf-8", errors="surrogatepass") as f:
            f.write(text)
        try:
            w = self.watch.Watch(self.folder + "/t.watch")
            w.ranges(1709715720 * 10**9, 1709715780 * 10**9)
            self.fine += 1
        except self.watch.Mistake as e:
            one_line(self.watch.cell(str(e)), text)
        except Exception as e:  # any other is what is looked for  pylint: disable=broad-except
            raise Finding("%s: %s: of\n%s" % (type(e).__name__, e, ascii(text))) from None

    def alert(self):
        eve = self.rng.random() < 0.5
        text = changed(self.rng, EVE if eve else ZEEK).replace("\ud800", "")
        text = text * self.rng.choice((1, 1, 1, 1, 3)) if self.rng.random() < 0.999 else text + " " * (3 << 20)
        with open(self.folder + "/t.log", "w", encoding="utf-8", errors="surrogatepass") as f:
            f.write(text)
        pivot = self.pivot
        try:
            lines = pivot.Input(self.folder + "/t.log", pivot.Eve(0, ["all"]) if eve else pivot.Zeek(0), False, False)
            while not lines.ended:
                for item in lines.items():
                    if isinstance(item, pivot.Mistake):
                        one_line(pivot.plain(item), text)
                    else:
                        self.question(item, text)
        except Finding:
            raise
        except Exception as e:  # any other is what is looked for  pylint: disable=broad-except
            raise Finding("%s: %s: of\n%s" % (type(e).__name__, e, ascii(text))) from None

    def question(self, alert, text):
        """All of it is of numbers and addresses; its times are those of a rack."""
        since, until = self.answered.span(alert)
        job = self.pivot.Job([alert], since, until)
        path, filters = os.path.basename(self.answered.path(job)), " ".join(job.filter())
        if not re.fullmatch(r"[\w.-]{1,200}\.pcapng", path, re.ASCII) or not re.fullmatch(r"[0-9a-f.: ()orandsrchostpi6tk]+", filters):
            raise Finding("file %r, filter %r of\n%s" % (path, filters, ascii(text)))
        if not -(1 << 63) < since <= until + 1 < 1 << 63 or not self.pivot.stamp(since):
            raise Finding("%d to %d of\n%s" % (since, until, ascii(text)))
        if self.rule.takes(alert):
            for action in self.answered.actions.of(alert, self.rule):
                for word in action.words[1:]:
                    if not re.fullmatch(r"--reason=.{1,100}|--(since|for)=[@0-9a-z.-]+|[0-9a-f.: ()orandsrchostpi6tk]+|[a-z0-9.-]{1,64}", word):
                        raise Finding("%r of\n%s" % (action.words, ascii(text)))
        if self.rng.random() < 0.01 and shutil.which("tcpdump"):
            said = subprocess.run(["tcpdump", "-y", "EN10MB", "-d", filters], capture_output=True, check=False)
            if said.returncode:
                raise Finding("filter %r: %r of\n%s" % (filters, said.stderr, ascii(text)))
        self.fine += 1

    def statement(self):
        text = self.rng.choice(FRAMES) if self.rng.random() < 0.5 else changed(self.rng, self.statements)
        while "?" in text:
            text = text.replace("?", self.rng.choice(WORDS + STATEMENTS), 1)
        text = text.replace("SECRET", self.secret).replace("FOLDER", self.folder).replace("\ud800", "")  # files have none
        begun = time.monotonic()
        try:
            answer = self.server.run(["-r", self.trace], text)
            self.fine += 1
            if SECRET in str(answer.rows):
                raise Finding("a file was read:\n%s" % ascii(text))
        except self.watch.Died as e:
            raise Finding("%s: by\n%s" % (e, ascii(text))) from None
        except self.watch.Mistake as e:
            self.slow += time.monotonic() - begun >= SLOW_SECONDS
            one_line(self.watch.cell(str(e)), text)
            if SECRET in str(e):
                raise Finding("a file was read:\n%s" % ascii(text)) from None
        if set(os.listdir(self.folder)) - {"t.watch", "t.log"} != set(self.there) - {"t.watch", "t.log"}:
            raise Finding("a file was made (%s) by\n%s" % (sorted(os.listdir(self.folder)), ascii(text)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for kind in ("watch_file", "alert", "rules_file", "statement"):
        with tempfile.TemporaryDirectory() as folder:
            texts, runs, begun = Texts(folder, random.Random(args.seed)), 0, time.monotonic()
            try:
                if kind == "statement":
                    try:
                        texts.server.run(["-r", texts.trace], "select 1")
                    except texts.watch.Mistake as e:
                        print("fuzz: %-12s left out: %s" % (kind, e))
                        continue
                while runs < args.runs if args.runs else time.monotonic() - begun < (args.seconds or 60):
                    getattr(texts, kind)()
                    runs += 1
            except Finding as e:
                sys.exit("fuzz: %s, seed %d, run %d: %s" % (kind, args.seed, runs, e))
            finally:
                texts.server.close()
            print("fuzz: %-12s %8d runs in %.0f s: %d accepted, %d broken off after %d s; 0 findings" % (
                kind, runs, time.monotonic() - begun, texts.fine, texts.slow, SLOW_SECONDS))


if __name__ == "__main__":
    main()
