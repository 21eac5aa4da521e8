#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kept flows of 28 days: a needle, sums, and the histories of the five analyses by their length, beside DuckDB's own table.

make bench-kept           BENCH_RECORDS (5 million), BENCH_DIR: a folder with room for 60 bytes a record
Records are the flows of a trace, seen from many hosts (kept_make.c). The histories are those that the shipped watches ask,
as they ask them: the time range by --since and --until. Own: the same columns, copied into a table of the same DuckDB, in memory,
with the same range as a condition. Answers are compared in each round. CPU is that of the process, user and system; times are medians of
BENCH_ROUNDS (5), in which kept and own take turns, in each of BENCH_SESSIONS (1), for which both programs start anew: where
their memory lies makes one some 5 % faster than the next. BENCH_PARTS: the statements of these names alone. With Python's duckdb module
(DUCKDB_PYTHON names a Python that has it) the size of DuckDB's file of the same columns, too.
"""
import configparser
import csv
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get("PACKRACK_BUILD", "build"))
DATA = os.path.join(TOP, os.environ.get("PACKRACK_DATA", "../shared/data"))
PACKRACK = BUILD + "/packrack"
TRACE = DATA + "/mix-gateway-hdr96-a.pcap"
RECORDS = int(os.environ.get("BENCH_RECORDS", 5000000))
INSIDE = ["--inside", "10.0.0.0/8", "--inside", "172.16.0.0/12", "--inside", "192.168.0.0/16"]
END, DAY = 1719792000, 86400
COLUMNS = "tcqtime, last, src_ip, dst_ip, dst_port, bytes_sent, bytes_recv, outgoing"
SUMS = "select count(*) n, sum(bytes_sent) sent, sum(bytes_recv) received from flows where {t}"
ANALYSES = ["elephants", "mice", "portscans", "anomaly", "dispersion"]
HOSTS = "'10.0.0.9', '10.1.0.15', '10.2.1.23', '10.3.0.101', '10.4.0.4'"


def run(*words):
    return subprocess.run([PACKRACK, *words], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def history(name, days):
    """What the shipped watch asks of the past: its first rows, in order. {t}: where a condition of the time can be."""
    of = configparser.ConfigParser(delimiters="=", interpolation=None)
    of.read(TOP + "/merger/watch/watch.d/%s.watch" % name, encoding="utf-8")
    values = dict(of["parameters"] if "parameters" in of else {}, keys=HOSTS)
    text, when = re.sub(r"(?<!:):(\w+)", lambda m: values.get(m.group(1), m.group(0)), of["history"]["sql"]), "{t}"
    if name == "elephants":
        when += " and (%s)" % hours(days)
    text = re.sub(r"\bfrom flows( where (.*?))?(?=\s+group by)", lambda m: "from flows where (%s) and %s" % (m.group(2) or "true", when), text)
    return "select * from (%s) order by all desc limit 100" % " ".join(text.split())


class Session:
    """`packrack sql --serve`, as a watch has one."""

    def __init__(self, volume):
        self.volume = volume
        self.p = subprocess.Popen([PACKRACK, "sql", "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def cpu(self):
        with open("/proc/%d/stat" % self.p.pid, encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ask(self, statement, *words):
        """Rows, seconds of wall, of CPU."""
        rows, begun, cpu = [], time.monotonic(), self.cpu()
        self.p.stdin.write("\0".join(["--kept", self.volume, "--format", "csv", *INSIDE, *words, statement]) + "\0\0")
        self.p.stdin.flush()
        for line in self.p.stdout:
            if line == "\n":
                said = json.loads(self.p.stdout.readline())
                assert said["status"] in (0, 3), (statement, said)
                return rows[1:], time.monotonic() - begun, self.cpu() - cpu
            rows.append(line.strip())
        sys.exit("packrack sql ended: %s" % statement)

    def end(self):
        self.p.stdin.close()
        self.p.wait()

    def kept(self, statement, days):
        return self.ask(statement.replace("{t}", "true"), "--since", "@%d" % (END - days * DAY), "--until", "@%d" % END)

    def own(self, statement, days):
        when = "tcqtime <= '%s' and last >= '%s'" % tuple(time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(t)) for t in (END, END - days * DAY))
        return self.ask(re.sub(r"\bfrom flows\b", "from own", statement).replace("{t}", when))


def take_turns(kept, own, text, days):
    """Wall and CPU of each round of kept, and of own; their rows must be the same."""
    took, want = ([], []), None
    for i in range(int(os.environ.get("BENCH_ROUNDS", 5))):
        for of in sorted((0, 1), reverse=i % 2):
            rows, *times = (kept.kept, own.own)[of](text, days)
            want = want or rows
            assert rows and rows == want, (text, rows[:3], want[:3])
            took[of].append(times)
    return took


def hours(days):
    return " or ".join("tcqtime between timestamp '%s' and timestamp '%s'" % tuple(
        time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(END - (d * 24 - h) * 3600)) for h in (0, 1)) for d in range(1, days + 1))


def size_of_duckdb(volume, folder):
    """Bytes a record of DuckDB's file, of the last day."""
    python, path, rows = os.environ.get("DUCKDB_PYTHON", sys.executable), folder + "/day.csv", 0
    with open(path, "w", encoding="utf-8") as f:
        subprocess.run([PACKRACK, "sql", "--kept", volume, "--format", "csv", *INSIDE, "--since", "@%d" % (END - DAY), "select * from flows limit 300000"], check=True,
                       stdout=f, stderr=subprocess.DEVNULL)
    code = ("import duckdb, sys; c = duckdb.connect(sys.argv[1]); c.execute('set enable_progress_bar = false'); "
            "c.execute(\"create table f as select * replace (tcqtime::timestamp_ns as tcqtime, last::timestamp_ns as last, src_port::usmallint as src_port, "
            "dst_port::usmallint as dst_port, protocol::utinyint as protocol) from read_csv(?, all_varchar = false)\", [sys.argv[2]]); "
            "print(c.execute('select count(*) from f').fetchone()[0]); c.execute('checkpoint')")
    p = subprocess.run([python, "-c", code, folder + "/file.duckdb", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if p.returncode != 0:
        print("no size of DuckDB's file: %s" % (p.stderr.strip().split("\n") or [""])[-1])
        return None
    rows = int(p.stdout.split()[-1])
    return os.path.getsize(folder + "/file.duckdb") / rows if rows else None


def main():
    out = {"records": RECORDS, "statements": []}
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        volume, base = os.environ.get("BENCH_VOLUME") or folder + "/v", folder + "/base"
        run("volume", "create", base, "--size", "64M")
        run("flows", "-r", TRACE, "--keep", base)
        if not os.environ.get("BENCH_VOLUME"):
            run("volume", "create", volume, "--size", "%dM" % (256 + RECORDS * 80 // 1000000))
            begun = os.times()
            subprocess.run([BUILD + "/tests/bench/kept_make", base, volume, str(RECORDS), "28"], check=True)
            cpu = os.times().children_user + os.times().children_system - begun.children_user - begun.children_system
            out["append_records_per_s_of_cpu"] = RECORDS / cpu
        streams = json.loads(run("volume", "streams", volume, "--json"))["streams"]
        kept = Session(volume)
        count = int(kept.ask("select count(*) from flows")[0][0])
        out["bytes_a_record"] = sum(s["bytes"] for s in streams if s["name"] in ("flow.batches", "flow.columns")) / count
        out["bytes_a_record_duckdb"] = size_of_duckdb(volume, folder)
        print("%d records, %.1f bytes each; in DuckDB's file %s" % (count, out["bytes_a_record"],
                                                                    "%.1f" % out["bytes_a_record_duckdb"] if out["bytes_a_record_duckdb"] else "?"))
        needle = kept.ask("select src_ip from flows group by 1 having count(*) between 2 and 9 order by hash(src_ip) limit 1")[0][0]
        asked = [("needle", 28, "select count(*) n, sum(bytes_sent) s from flows where src_ip = '%s'" % needle)]
        asked += [("sums", days, SUMS) for days in (1 / 24, 1, 7, 28)]
        asked += [(name, days, history(name, days)) for name in ANALYSES for days in (1, 7, 28)]
        asked = [of for of in asked if of[0] in os.environ.get("BENCH_PARTS", of[0]).split(",")]
        kept.end()
        took = [[] for _ in asked]
        for _ in range(int(os.environ.get("BENCH_SESSIONS", 1))):
            kept, own = Session(volume), Session(base)
            own.ask("select %s from flows" % COLUMNS, "--kept", volume, "--as", "own")
            for (_, days, text), sessions in zip(asked, took):
                sessions.append(take_turns(kept, own, text, days))
            kept.end()
            own.end()
        print("%-12s %6s %10s %10s %10s %10s %8s" % ("", "days", "kept ms", "own ms", "kept CPU", "own CPU", "ratio"))
        for (name, days, _), sessions in zip(asked, took):
            wall, cpu, own_wall, own_cpu = [statistics.median(times) for of in zip(*sessions) for times in zip(*sum(of, []))]
            each = [[statistics.median(t[1] for t in rounds) for rounds in session] for session in sessions]
            out["statements"].append({"name": name, "days": days, "kept_s": wall, "own_s": own_wall, "kept_cpu_s": cpu, "own_cpu_s": own_cpu,
                                      "sessions_cpu_s": each})
            print("%-12s %6.2f %10.0f %10.0f %10.0f %10.0f %8.2f  %s" % (name, days, wall * 1e3, own_wall * 1e3, cpu * 1e3, own_cpu * 1e3, cpu / max(own_cpu, 0.01),
                  " ".join("%.2f" % (a / max(b, 0.01)) for a, b in each) if len(each) > 1 else ""))
        begun = [time.monotonic(), os.times()]
        lines = list(csv.reader(run("flows", "--kept", volume, "--format", "csv", "src host %s" % needle).splitlines()))
        out["needle_flows"] = {"rows": len(lines) - 1, "s": time.monotonic() - begun[0],
                               "cpu_s": os.times().children_user + os.times().children_system - begun[1].children_user - begun[1].children_system}
        print("packrack flows --kept: %d flows of src host %s: %.0f ms, CPU %.0f ms" % (len(lines) - 1, needle, out["needle_flows"]["s"] * 1e3,
                                                                                       out["needle_flows"]["cpu_s"] * 1e3))
    os.makedirs(BUILD + "/bench", exist_ok=True)
    with open(BUILD + "/bench/kept.json", "w", encoding="utf-8") as f:
        json.dump(out, f, indent=1)


if __name__ == "__main__":
    main()
