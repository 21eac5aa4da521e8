#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packet headers in a relational database (Hyperion, section 7.2): loading, and finding one packet, in
PostgreSQL (COPY) and SQLite, without an index as in the paper, and with indexes on both addresses; beside
`packrack import`, which keeps the packets as well. PostgreSQL runs in a folder of its own, as user postgres.
BENCH_PACKETS: how many (2 million)."""

import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import benchlib as b

PACKETS = int(os.environ.get("BENCH_PACKETS", "2000000"))
GROWER = f"{b.BUILD}/tests/bench/bench_grow"
PACKRACK = f"{b.BUILD}/packrack"
NEEDLE_TEXT, NEEDLE = "203.0.113.77", 0xcb00714d
QUERY = f"SELECT count(*) FROM packets WHERE src = {NEEDLE} OR dst = {NEEDLE}"
COLUMNS = "time bigint, src bigint, dst bigint, proto smallint, sport integer, dport integer, len integer"
# the paper: 14.5 million records in 252 s, one of them found in 50.7 s
PAPER_LOAD, PAPER_FIND = 14.5e6 / 252, 50.7 / 14.5e6
SEVERAL = 3


def timed(what):
    begin = time.monotonic()
    got = what()
    return time.monotonic() - begin, got


def find_time(ask):
    """Once everything was read: the median."""
    times = []
    for _ in range(SEVERAL):
        seconds, found = timed(ask)
        if found != 1:
            sys.exit(f"bench: {found} packets found, not one")
        times.append(seconds)
    return sorted(times)[SEVERAL // 2]


class Postgres:
    """A server of its own; only its socket is open."""

    def __init__(self, work):
        homes = "/usr/lib/postgresql"
        newest = sorted(os.listdir(homes), key=float)[-1]
        self.bin, self.user = f"{homes}/{newest}/bin", pwd.getpwnam("postgres")
        self.work, self.data = work, f"{work}/data"
        os.makedirs(work)
        os.chown(work, self.user.pw_uid, self.user.pw_gid)
        self.by_user("initdb", "-D", self.data, "-A", "trust", "-E", "UTF8", "--locale=C", "-U", "bench")
        options = {"listen_addresses": "", "unix_socket_directories": work, "max_wal_size": "4GB",
                   "shared_buffers": "512MB", "maintenance_work_mem": "256MB"}
        words = [w for k, v in options.items() for w in ("-c", f"{k}={v}")]
        self.server = b.start("setpriv", *self.as_user(), f"{self.bin}/postgres", "-D", self.data, *words,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        b.until(lambda: self.psql("SELECT 1", check=False) == "1", 30, "PostgreSQL's start")

    def as_user(self):
        return [f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups"]

    def by_user(self, name, *words):
        return b.run("setpriv", *self.as_user(), f"{self.bin}/{name}", *words)

    def psql(self, text, check=True, stdin=None):
        done = subprocess.run([f"{self.bin}/psql", "-h", self.work, "-U", "bench", "-d", "postgres", "-qAtc", text],
                              stdin=stdin, capture_output=True, text=True, check=False)
        if check and done.returncode:
            sys.exit(f"bench: PostgreSQL: {done.stderr.strip()}")
        return done.stdout.strip()

    def make(self, indexes):
        self.psql("DROP TABLE IF EXISTS packets")
        self.psql(f"CREATE TABLE packets ({COLUMNS})")
        for column in indexes:
            self.psql(f"CREATE INDEX ON packets ({column})")

    def load(self, rows):
        with open(rows) as f:
            self.psql("COPY packets FROM STDIN", stdin=f)
        self.psql("CHECKPOINT")

    def analyze(self):
        self.psql("VACUUM ANALYZE packets")

    def find(self):
        return int(self.psql(QUERY))

    def size(self):
        return int(self.psql("SELECT pg_total_relation_size('packets')"))

    def end(self):
        b.stop(self.server, 2)  # SIGINT: at once, in order


class Sqlite:
    """Its own shell: .import is one transaction."""

    def __init__(self, work):
        os.makedirs(work)
        self.path = f"{work}/packets.sqlite"

    def shell(self, *words):
        return b.run("sqlite3", "-bail", "-batch", self.path, *words).stdout.strip()

    def make(self, indexes):
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.shell(f"CREATE TABLE packets ({COLUMNS})",
                   *[f"CREATE INDEX {column}_index ON packets ({column})" for column in indexes])

    def load(self, rows):
        self.shell("PRAGMA cache_size = -524288", ".mode tabs", f".import {rows} packets")

    def analyze(self):
        self.shell("ANALYZE")

    def find(self):
        return int(self.shell(QUERY))

    def size(self):
        return os.path.getsize(self.path)

    def end(self):
        pass


class Packrack:
    def __init__(self, work):
        os.makedirs(work)
        self.volume = f"{work}/volume"

    def load(self, trace):
        b.run(PACKRACK, "import", trace, "--volume", self.volume, "--create",
              os.path.getsize(trace) * 3 // 2 + (64 << 20))

    def find(self):
        out = b.run(PACKRACK, "query", "--volume", self.volume, "--count", f"host {NEEDLE_TEXT}")
        return int(re.search(r"\d+", out.stdout).group())

    def size(self):
        out = b.run(PACKRACK, "volume", "streams", self.volume, "--keyvalue").stdout
        return sum(int(n) for n in re.findall(r"\.bytes=(\d+)", out))


def figures(store, rows):
    seconds, _ = timed(lambda: store.load(rows))
    if hasattr(store, "analyze"):
        store.analyze()
    return dict(load=PACKETS / seconds, find=find_time(store.find), size=store.size())


def database(cls, work, rows):
    store, got = cls(work), {}
    try:
        for what, indexes in (("no index", []), ("indexes on both addresses", ["src", "dst"])):
            store.make(indexes)
            got[what] = figures(store, rows)
    finally:
        store.end()
    return got


def installed(name):
    if name == "PostgreSQL":
        return os.path.isdir("/usr/lib/postgresql") and shutil.which("setpriv")
    return shutil.which("sqlite3")


def report(table, ours, peers):
    for name, kinds in peers.items():
        for kind, theirs in kinds.items():
            who = f"{name}, {kind}"
            table.row("packets loaded", "a second", ours["load"], theirs.get("load"), who)
            table.row("one of %d packets found" % PACKETS, "s", ours["find"], theirs.get("find"), who,
                      less_is_better=True)
            table.row("on disk (ours: whole packets; theirs: rows)", "bytes", ours["size"], theirs.get("size"), who,
                      less_is_better=True)
    table.row("packets loaded", "a second", ours["load"], PAPER_LOAD, "PostgreSQL 7.4, the paper's own figure")
    table.row("found, for each packet there is", "s", ours["find"] / PACKETS, PAPER_FIND,
              "PostgreSQL 7.4, the paper's own figure", less_is_better=True)


def main():
    table = b.Table("database")
    mix = f"{b.DATA}/mix-gateway-hdr96-a.pcap"
    if not os.path.exists(mix):
        sys.exit("bench: no captures: set PACKRACK_DATA")
    peers = {}
    with tempfile.TemporaryDirectory(prefix="packrack-database-", dir=os.environ.get("BENCH_DIR")) as work:
        os.chmod(work, 0o755)
        trace, rows = f"{work}/grown.pcap", f"{work}/rows"
        b.run(GROWER, "trace", mix, trace, PACKETS)
        with open(rows, "w") as f:
            subprocess.run([GROWER, "rows", trace], stdout=f, check=True)
        ours = figures(Packrack(f"{work}/packrack"), trace)
        for name, cls in (("PostgreSQL", Postgres), ("SQLite", Sqlite)):
            if installed(name):
                peers[name] = database(cls, f"{work}/{name}", rows)
            else:
                print(f"{name} is not installed (scripts/install-deps --bench)")
                peers[name] = {"not installed": {}}
    report(table, ours, peers)
    table.write()


main()
