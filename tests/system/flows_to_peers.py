#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peers of packrack flows --to, for 47_flows_to.t.

usage: flows_to_peers.py clickhouse STATE [FAULT@N...]      a server as ClickHouse is; prints its port
       flows_to_peers.py s3 STATE [FAULT@N...]              one as S3 is
       flows_to_peers.py rows STATE                         the flows that it holds, an object a line, sorted
       flows_to_peers.py windows STATE                      and the windows
       flows_to_peers.py quiet STATE                        is nothing under way that comes late?
       flows_to_peers.py objects STATE DIR                  writes the objects that it holds
       flows_to_peers.py same < FILE                        the same of what packrack flows prints
       flows_to_peers.py vector PROGRAM                     Amazon's published vector of Signature 4
       flows_to_peers.py duckdb FILE...                     rows of Parquet files, as JSON; read by DuckDB

It understands the statements that are sent and nothing else, takes RowBinary to the byte, and keeps what it took in STATE at
once, so that it can be killed. FAULT@N befalls its request number N, from 1; N counts on when it is started again.
"""
import ctypes
import email.parser
import hashlib
import hmac
import http.server
import importlib.machinery
import importlib.util
import json
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
import urllib.parse

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
LOCK = threading.Lock()


class Refusal(Exception):
    """What ClickHouse says when it throws an exception."""


def integers(kind):
    return {"UInt8": "B", "UInt16": "H", "UInt32": "I", "UInt64": "Q", "Int64": "q", "Float64": "d"}[kind]


def row_binary(data, structure):
    """Rows of names and values; nothing may be left over."""
    columns = [c.split(" ", 1) for c in structure.split(", ")]
    at, rows = 0, []
    while at < len(data):
        row = {}
        for name, kind in columns:
            if kind.startswith("Nullable("):
                null = data[at]
                at += 1
                if null not in (0, 1):
                    raise Refusal("Code: 33 no NULL")
                if null:
                    row[name] = None
                    continue
                kind = kind[9:-1]
            if kind == "String":
                size = data[at]
                if size > 127 or at + 1 + size > len(data):
                    raise Refusal("Code: 33 a string breaks off")
                row[name] = data[at + 1:at + 1 + size].decode()
                at += 1 + size
            else:
                code = struct.Struct("<" + integers(kind))
                if at + code.size > len(data):
                    raise Refusal("Code: 33 Cannot read all data")
                row[name] = code.unpack_from(data, at)[0]
                at += code.size
        rows.append(row)
    return rows


class State:
    """Lines of a file. What counts is there before anybody is answered."""

    def __init__(self, path):
        self.path = path
        self.tables, self.objects, self.requests, self.late = {}, {}, 0, 0
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                for line in f:
                    if line.endswith("\n"):
                        self.apply(json.loads(line))
        self.file = open(path, "a", encoding="utf-8")  # pylint: disable=consider-using-with

    def apply(self, entry):
        self.requests += "request" in entry
        self.late += entry.get("late", 0)
        if "create" in entry:
            self.tables.setdefault(entry["create"], [])
        if "rows" in entry:
            self.tables[entry["table"]] += entry["rows"]
        if "object" in entry:
            self.objects[entry["object"]] = bytes.fromhex(entry["body"])

    def add(self, **entry):
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()
        self.apply(entry)


def execute(state, query, settings, sent):
    """The answer. Statements are those of packrack-flows-to; conditions are what they say."""
    made = re.match(r"CREATE TABLE IF NOT EXISTS ([\w.]+) \(volume UUID, .*ENGINE = MergeTree ", query, re.S)
    if made:
        state.add(create=made[1])
        return ""
    last = re.fullmatch(r"SELECT max\(batch\) FROM ([\w.]+) WHERE volume = toUUID\('([0-9a-f-]+)'\) FORMAT TabSeparated", query)
    if last:
        return "%d\n" % max((r["batch"] for r in table(state, last[1]) if r["volume"] == last[2]), default=0)
    counts = re.fullmatch(r"SELECT batch, count\(\) FROM ([\w.]+) WHERE (.*) GROUP BY batch FORMAT TabSeparated", query)
    if counts:
        found = {}
        for row in table(state, counts[1]):
            if meets(row, counts[2]):
                found[row["batch"]] = found.get(row["batch"], 0) + 1
        return "".join("%d\t%d\n" % item for item in found.items())
    insert = re.fullmatch(r"INSERT INTO ([\w.]+) \(volume, (?:time, )?(.*)\) SELECT toUUID\('([0-9a-f-]+)'\), (?:toDateTime\(intDiv\(tcqtime, 1000000000\)\), )?(.*) "
                          r"FROM sent WHERE \(?(batch|batch, row)\)? NOT IN \(SELECT (batch|batch, row) FROM ([\w.]+) WHERE (.*)\)", query)
    if not insert or insert[2] != insert[4] or insert[5] != insert[6] or settings.get("sent_format") != "RowBinary":
        raise Refusal("Code: 62 Syntax error: " + query)
    rows = row_binary(sent, settings["sent_structure"])
    names, key = insert[2].split(", "), insert[5].split(", ")
    there = {tuple(r[k] for k in key) for r in table(state, insert[7]) if meets(r, insert[8])}
    if os.environ.get("PEER_TAKES_ALL"):
        there = set()
    new = [dict({n: r[n] for n in names}, volume=insert[3]) for r in rows if tuple(r[k] for k in key) not in there]
    part = settings.get("part")
    if part and "row" in key:  # as if a block were more than one part, and only the first was stored
        new = new[:len(new) // 2]
    state.add(table=insert[1], rows=new)
    if part:
        raise Refusal("Code: 241 Memory limit")
    return ""


def table(state, name):
    if name not in state.tables:
        raise Refusal("Code: 60 Table %s doesn't exist" % name)
    return state.tables[name]


def meets(row, text):
    for term in text.split(" AND "):
        found = re.fullmatch(r"(\w+) (=|>=|<=) (?:toUUID\('([0-9a-f-]+)'\)|toDateTime\((\d+)\)|(\d+))", term)
        if not found:
            raise Refusal("Code: 62 Syntax error: " + term)
        value = row["tcqtime"] // 10**9 if found[1] == "time" else row[found[1]]
        to = found[3] or int(found[4] or found[5])
        if not (value == to if found[2] == "=" else value >= to if found[2] == ">=" else value <= to):
            return False
    return True


class Peer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state, faults, running, pages = None, {}, set(), 2

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.serve(self.clickhouse)

    def do_PUT(self):
        self.serve(self.s3)

    def do_GET(self):
        self.serve(self.s3)

    def serve(self, call):
        with LOCK:
            self.state.add(request=time.time())
            fault = self.faults.pop(self.state.requests, "")
        self.close_connection = True
        size = int(self.headers["Content-Length"])
        if fault == "cut":
            self.rfile.read(min(size, 100))
            return
        body = self.rfile.read(size)
        if len(body) != size:
            fault = "short"  # who sent it was killed: a server may take what it got
        if fault == "die":
            os._exit(1)
        if self.strange(fault):
            return
        if fault == "late":
            with LOCK:
                self.state.add(late=1)
            threading.Timer(0.5, self.late, (call, body)).start()
            return
        if fault == "hang-done":
            call(body, fault)
            time.sleep(3)
            return
        if fault == "refuse":
            status, text = 500, "Code: 241, e.displayText() = DB::Exception: Memory limit (total) exceeded"
        else:
            status, text = call(body, fault)
        if fault == "die-done":
            os._exit(1)
        reply = ("HTTP/1.1 %d X\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % (status, len(text)) + text).encode()
        self.wfile.write(reply[:len(reply) // 2 if fault == "cut-reply" else len(reply)])

    def late(self, call, body):
        call(body, "late")
        with LOCK:
            self.state.add(late=-1)

    def strange(self, fault):
        """Answers of who is no ClickHouse."""
        try:
            if fault == "hang":
                time.sleep(3)
            elif fault == "garbage":
                self.wfile.write(os.urandom(5000))
            elif fault == "lie":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n")
            elif fault == "redirect":
                self.wfile.write(b"HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:%d/\r\nContent-Length: 0\r\n\r\n" % self.server.server_port)
            elif fault == "headers":
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                while True:
                    self.wfile.write(b"X-More: 1\r\n" * 1000)
            elif fault == "continue":
                while True:
                    self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)
            elif fault == "endless":
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    self.wfile.write(b"7" * 100000)
            elif fault == "trickle":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
                while True:
                    self.wfile.write(b"7")
                    time.sleep(0.05)
            else:
                return False
        except OSError:
            pass
        return True

    def clickhouse(self, body, fault):
        settings = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        if fault == "part":
            settings["part"] = "1"
        if self.headers.get("X-ClickHouse-Key") != os.environ.get("PEER_PASSWORD", ""):
            return 401, "Code: 193, e.displayText() = DB::Exception: Wrong password for user default"
        sent = None
        if self.headers.get("Content-Type", "").startswith("multipart/form-data"):
            mark = b"--" + email.parser.HeaderParser().parsestr("Content-Type: " + self.headers["Content-Type"]).get_boundary().encode()
            head, _, sent = body.partition(b"\r\n\r\n")
            if not head.startswith(mark) or b'name="sent"' not in head or not sent.endswith(b"\r\n" + mark + b"--\r\n") and fault != "short":
                return 500, "Code: 1 multipart"
            sent = sent.partition(b"\r\n" + mark)[0]
        query = settings.get("query") or body.decode()
        with LOCK:
            if settings["query_id"] in self.running:
                return 500, "Code: 216, e.displayText() = DB::Exception: Query with id = x is already running."
            self.running.add(settings["query_id"])
        try:
            time.sleep(0.005)
            with LOCK:
                return 200, execute(self.state, query, settings, sent)
        except Refusal as e:
            return 500, str(e)
        finally:
            self.running.discard(settings["query_id"])

    def s3(self, body, fault):
        url = urllib.parse.urlsplit(self.path)
        if fault == "short":
            return 400, "<Error><Code>IncompleteBody</Code></Error>"
        if not signed(self.command, url, self.headers, body):
            return 403, "<Error><Code>SignatureDoesNotMatch</Code></Error>"
        bucket, _, key = url.path[1:].partition("/")
        if bucket != "flows":
            return 404, "<Error><Code>NoSuchBucket</Code></Error>"
        with LOCK:
            if self.command == "PUT":
                self.state.add(object=urllib.parse.unquote(key), body=body.hex())
                return 200, ""
            query = dict(urllib.parse.parse_qsl(url.query))
            after = query.get("continuation-token", "&")
            keys = [k for k in sorted(self.state.objects) if k.startswith(query["prefix"]) and "&" + k > after]
        more = len(keys) > self.pages
        text = "".join("<Contents><Key>%s</Key><Size>%d</Size></Contents>" % (k, len(self.state.objects[k])) for k in keys[:self.pages])
        if more:
            text += "<NextContinuationToken>&amp;%s</NextContinuationToken>" % keys[self.pages - 1]
        return 200, "<ListBucketResult><IsTruncated>%s</IsTruncated>%s</ListBucketResult>" % (str(more).lower(), text)


def signed(method, url, headers, body):
    """Signature 4 by its specification, from what came over the line."""
    found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=(\w+)/(\d{8})/([\w-]+)/s3/aws4_request, SignedHeaders=([\w;-]+), Signature=([0-9a-f]{64})",
                         headers.get("Authorization", ""))
    if not found or found[1] != KEY or headers["x-amz-content-sha256"] != hashlib.sha256(body).hexdigest():
        return False
    names = found[4].split(";")
    if not {"host", "x-amz-date", "x-amz-content-sha256"} <= set(names):
        return False
    request = method + "\n" + url.path + "\n" + "&".join(sorted(url.query.split("&"))) + "\n"
    for name in names:
        request += name + ":" + " ".join(headers[name].split()) + "\n"
    request += "\n" + found[4] + "\n" + headers["x-amz-content-sha256"]
    scope = found[2] + "/" + found[3] + "/s3/aws4_request"
    text = "AWS4-HMAC-SHA256\n" + headers["x-amz-date"] + "\n" + scope + "\n" + hashlib.sha256(request.encode()).hexdigest()

    def mac(by, what):
        return hmac.new(by, what.encode(), "sha256").digest()

    by = mac(mac(mac(mac(("AWS4" + SECRET).encode(), found[2]), found[3]), "s3"), "aws4_request")
    return hmac.compare_digest(hmac.new(by, text.encode(), "sha256").hexdigest(), found[5])


def serve(path, faults):
    Peer.state = State(path)
    Peer.faults = {int(at): name for name, at in (f.split("@") for f in faults)}
    http.server.ThreadingHTTPServer.daemon_threads = True
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PEER_PORT", "0"))), Peer)
    print(server.server_port, flush=True)
    server.serve_forever()


def again(path, faults):
    """Serves, and is started again when it dies; its clients are refused meanwhile."""
    port, child = "0", None

    def end(*_):
        if child:
            child.kill()
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    while True:
        child = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", sys.executable, __file__, sys.argv[1] + "-once", path] + faults,
                                 env=dict(os.environ, PEER_PORT=port), stdout=subprocess.PIPE)
        line = child.stdout.readline().decode().strip()
        if port == "0":
            print(line, flush=True)
        port = line or port
        child.wait()


def held(path):
    state = State(path)
    print(*sorted(canonical(row) for name in state.tables if not name.endswith("_windows") for row in state.tables[name]), sep="\n")


def canonical(row):
    left_out = ("volume", "batch", "row", "window")
    return json.dumps({k: int(v) if isinstance(v, bool) else v for k, v in row.items() if v is not None and k not in left_out}, sort_keys=True)


def vector(program):
    """GET Object of "Authenticating Requests (AWS Signature Version 4)", Amazon S3 API Reference."""
    loader = importlib.machinery.SourceFileLoader("flows_to", program)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("flows_to", loader))
    loader.exec_module(module)
    empty = hashlib.sha256(b"").hexdigest()
    headers = {"host": "examplebucket.s3.amazonaws.com", "range": "bytes=0-9", "x-amz-content-sha256": empty, "x-amz-date": "20130524T000000Z"}
    made = module.signature("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1", "GET", "/test.txt", "", headers, empty)
    print(made)
    return made.endswith("Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")


class Result(ctypes.Structure):
    _fields_ = [("unused", ctypes.c_uint64 * 3), ("pointers", ctypes.c_void_p * 3)]


def duckdb(files):
    """By its C library, as packrack's is: a JSON text a row."""
    library = None
    for name in (os.environ.get("PACKRACK_DUCKDB"), "libduckdb.so", "/usr/local/lib/packrack/libduckdb.so"):
        try:
            library = library or name and ctypes.CDLL(name)
        except OSError:
            pass
    library.duckdb_value_varchar.restype = ctypes.c_void_p
    library.duckdb_row_count.restype = ctypes.c_uint64
    library.duckdb_result_error.restype = ctypes.c_char_p
    database, connection, result = ctypes.c_void_p(), ctypes.c_void_p(), Result()
    library.duckdb_open(None, ctypes.byref(database))
    library.duckdb_connect(database, ctypes.byref(connection))
    query = ("SELECT CAST(to_json(x) AS VARCHAR) FROM (SELECT * REPLACE (epoch_ns(tcqtime) AS tcqtime, epoch_ns(last) AS last) "
             "FROM read_parquet([%s], hive_partitioning = false)) x") % ", ".join("'%s'" % f for f in files)
    if library.duckdb_query(connection, query.encode(), ctypes.byref(result)):
        print(library.duckdb_result_error(ctypes.byref(result)).decode(), file=sys.stderr)
        return False
    rows = []
    for row in range(library.duckdb_row_count(ctypes.byref(result))):
        text = ctypes.string_at(library.duckdb_value_varchar(ctypes.byref(result), ctypes.c_uint64(0), ctypes.c_uint64(row)))
        rows.append(canonical(json.loads(text)))
    print(*sorted(rows), sep="\n")
    return True


if __name__ == "__main__":
    what, words = sys.argv[1], sys.argv[2:]
    if what in ("clickhouse", "s3"):
        again(words[0], words[1:])
    elif what.endswith("-once"):
        serve(words[0], words[1:])
    elif what == "same":
        print(*sorted(canonical(json.loads(line)) for line in sys.stdin), sep="\n")
    elif what == "windows":
        for name, entries in State(words[0]).tables.items():
            for entry in entries if name.endswith("_windows") else []:
                print(json.dumps(entry))
    elif what == "quiet":
        sys.exit(State(words[0]).late)
    elif what == "objects":
        for key, data in State(words[0]).objects.items():
            os.makedirs(os.path.dirname(os.path.join(words[1], key)), exist_ok=True)
            with open(os.path.join(words[1], key), "wb") as f:
                f.write(data)
    elif what == "rows":
        held(words[0])
    else:
        sys.exit(0 if (vector(words[0]) if what == "vector" else duckdb(words)) else 1)
