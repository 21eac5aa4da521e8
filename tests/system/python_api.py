#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Cases of 27_python.t, a function each: python_api.py CASE ARGUMENT..."""
import builtins
import collections
import concurrent.futures
import datetime
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

import packrack
import traces
import zmq
from packrack import packrack_pb2 as pb
from packrack.channel import Target
from packrack.packet import read_segment
from packrack.rack import Rack

DIR = os.environ["PACKRACK_TEST_DIR"]


def raises(kind, part, call):
    try:
        call()
    except kind as e:
        assert part in str(e) and "\n" not in str(e), "%s: %s" % (type(e), e)
        return
    raise AssertionError("no %s" % kind.__name__)


def save(packets, path):
    traces.write_pcap(path, ((p.time, p.data, p.len) for p in packets))


def all(path):
    with packrack.connect() as rack:
        answer = rack.query()
        save(answer, path)
        assert answer.completeness.complete, answer.completeness
        assert answer.owed >= 0 # no more batches than were asked for


def filter(text, path):
    with packrack.connect() as rack:
        save(rack.query(text), path)


def range():
    with packrack.connect() as rack:
        packets = list(rack.query())
        a, b = packets[1000].time, packets[5000].time
        want = [p for p in packets if a <= p.time <= b]
        assert list(rack.query(since=a, until=b)) == want
        assert list(rack.query(since=packrack.format_time(a), until="@%d.%09d"
                               % divmod(b, 10 ** 9))) == want
        assert len(want) > 3000
        after = datetime.datetime.fromtimestamp(b // 10 ** 9 + 1, datetime.timezone.utc)
        assert list(rack.query(since=after)) == [
            p for p in packets if p.time >= (b // 10 ** 9 + 1) * 10 ** 9]
        assert list(rack.query(link="tap0", limit=9)) == packets[:9]
        assert list(rack.query(link=0, limit=9)) == packets[:9]
        assert list(rack.query(link=1)) == []
        parts = [list(rack.query(nodes=["log%d" % n])) for n in (1, 2, 3)]
        assert sorted(itertools.chain(*parts), key=lambda p: p[1:5]) == packets
        assert min(map(len, parts)) > 1000
        assert [p.seq for p in packets] == sorted(p.seq for p in packets)
        assert {p.epoch for p in packets} == {rack.links[0].epoch}


def sources():
    with packrack.connect() as rack:
        nodes = rack.nodes
        assert sorted(n.name for n in nodes) == ["log1", "log2", "log3"]
        assert [n.connected and n.writer_alive for n in nodes] == [True] * 3
        assert {"dropped_kernel"} <= set(nodes[0].logger), nodes[0].logger
        links = rack.links
        assert {(l.name, l.link, l.linktype) for l in links} == {("tap0", 0, 1)}, links


def limit():
    with packrack.connect() as rack:
        first = list(itertools.islice(rack.query("tcp"), 7))
        answer = rack.query("tcp", limit=7)
        assert list(answer) == first
        assert answer.completeness.limit_reached and answer.completeness.matched == 7
        assert answer.search.scanned_packets < 30000


def figures(program):
    with packrack.connect() as rack:
        answer = rack.query("host 10.63.7.79")
        ours = len(list(answer))
        counted = rack.count("host 10.63.7.79")
    report = json.loads(subprocess.run([program, "query", "--json", "host 10.63.7.79"], check=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    c = answer.completeness
    assert ours == c.matched == report["matched"] == counted.matched > 1000
    assert counted.complete
    assert c.held_packets == report["completeness"]["packets_in_range"]
    assert sorted(c.answered) == ["log1", "log2", "log3"] and c.unanswered == {}
    for name in ("scanned_segments", "skipped_segments", "skipped_level1", "skipped_level2",
                 "scanned_packets", "index_damaged"):
        assert getattr(answer.search, name) == report[name], (name, answer.search, report)


def cancel():
    with packrack.connect() as rack:
        for _ in itertools.repeat(None, 8): # of which the merger takes 3 at once
            for packet in rack.query():
                break
        answer = rack.query()
        for packet in answer:
            break
        assert answer.completeness.cancelled and not answer.completeness.complete
        assert answer.completeness.matched < 39000 # it was not read to its end meanwhile
        assert list(answer) == []
        took = []
        for _ in itertools.repeat(None, 5):
            answer = rack.query()
            packets = iter(answer)
            next(packets)
            began = time.monotonic()
            answer.close() # which has the last word of all nodes
            took.append(time.monotonic() - began)
            assert answer.completeness.cancelled
        assert min(took) < 0.1, took # on a machine that has more to do at times
        with rack.query() as answer:
            raises(packrack.Error, "under way", lambda: answer.completeness)
        assert answer.completeness.cancelled


def long(program):
    """A list of 5,000 addresses, whole as two lists of half of it: those of packrack query."""
    with packrack.connect() as rack:
        seen = collections.Counter(socket.inet_ntoa(p.data[26:30]) for p in rack.query("ip", limit=20000))
        hosts = ["host " + a for a in list(seen)[1::2]]
        text = " or ".join(hosts + ["host 10.77.%d.%d" % divmod(i, 250) for i in builtins.range(5000)])
        half = len(hosts) // 2
        ours = rack.count(text).matched
        assert ours == rack.count("(%s) or (%s)" % (" or ".join(hosts[:half]), " or ".join(hosts[half:]))).matched
    theirs = json.loads(subprocess.run([program, "query", "--count", "--json", text], check=True,
                                       capture_output=True).stdout)
    assert 1000 < ours == theirs["matched"], (ours, theirs["matched"])


def several():
    found = {}

    def ask(rack, text):
        found[text] = list(rack.query(text))

    with packrack.connect() as rack:
        texts = ["tcp", "udp", "not tcp and not udp"]
        threads = [threading.Thread(target=ask, args=(rack, t)) for t in texts]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        everything = list(rack.query())
    assert sorted(itertools.chain(*found.values()), key=lambda p: p[1:5]) == everything


def kept():
    """One connection for question after question, and one more for each that is under way beside it."""
    with packrack.connect() as rack:
        first, = rack.target.idle
        tcp, udp = (list(rack.query(text)) for text in ("tcp", "udp"))
        assert rack.target.idle == [first] and tcp and udp
        answers = [rack.query(text, limit=5) for text in ("tcp", "udp")]
        assert not rack.target.idle
        assert [list(a) for a in reversed(answers)] == [udp[:5], tcp[:5]]
        assert len(rack.target.idle) == 2
        for packet in rack.query("tcp"): # cancelled: what is on its way must not come to the next
            break
        assert list(rack.query("udp")) == udp and len(rack.target.idle) == 2
        for channel in rack.target.idle:
            channel.gone = packrack.Unreachable("as after a restart of the merger")
        assert list(rack.query("udp")) == udp and len(rack.target.idle) == 1
    assert first.socket.closed


def memory(has_all):
    with packrack.connect() as rack:
        packets = list(rack.query())
        if has_all == "1":
            assert packets and list(rack.query(memory_only=True)) == packets
            return
        raises(packrack.RequestError, "memory has not all", lambda: list(rack.query(memory_only=True)))
        newest = packets[-1].time
        raises(packrack.RequestError, "memory has not all", lambda: rack.count(since=newest, until=newest, memory_only=True))
        assert rack.count(since=newest + 1, memory_only=True).matched == 0


def too_many():
    with packrack.connect() as rack:
        held = [rack.query() for _ in "123"]
        under_way = [iter(answer) for answer in held]
        for packets in under_way:
            next(packets)
        raises(packrack.Error, "try again later", lambda: list(rack.query()))
        for answer in held:
            answer.close()
        assert list(rack.query(limit=1))


def bad():
    with packrack.connect() as rack:
        raises(packrack.FilterError, "syntax error", lambda: rack.query("tcp port and"))
        raises(packrack.FilterError, "NUL", lambda: rack.query("tcp\0udp"))
        raises(packrack.FilterError, "inbound", lambda: rack.query("tcp or inbound"))
        raises(ValueError, "is not a time", lambda: rack.query(since="some day"))
        raises(packrack.RequestError, "limit", lambda: rack.query(limit=-1))
        raises(packrack.FilterError, "too many", lambda: rack.query("net " + " or ".join(["10"] * 50000)))
    raises(packrack.Closed, "was closed", rack.query)
    dispatcher = os.environ["PACKRACK_DISPATCHER"]
    raises(packrack.Error, "no packrack-merger", lambda: packrack.connect(dispatcher))
    raises(packrack.RequestError, "give ipc://", lambda: packrack.connect("merger:7100"))
    raises(packrack.RequestError, "a port is missing", lambda: packrack.connect("tcp://merger"))


def times():
    exact = 1763685600123456789
    for text in ("2025-11-21T00:40:00.123456789Z", "2025-11-21 02:40:00.123456789+02:00",
                 "@1763685600.123456789", exact):
        assert packrack.time_ns(text) == exact, text
    assert packrack.time_ns(1.5) == 1500000000 and packrack.time_ns("@-1.5") == -1500000000
    zone = datetime.timezone(datetime.timedelta(hours=1))
    when = datetime.datetime(2025, 11, 21, 1, 40, 0, 123456, zone)
    assert packrack.time_ns(when) == 1763685600123456000
    ago = packrack.time_ns("now") - packrack.time_ns("1.5h ago")
    assert abs(ago - 5400 * 10 ** 9) < 10 ** 9
    for text, seconds in (("5m", 300), ("5 min ago", 300), ("-90s", 90), ("2 hours ago", 7200), ("+1h", -3600)):
        assert abs(packrack.time_ns("now") - packrack.time_ns(text) - seconds * 10 ** 9) < 10 ** 9, text
    day = datetime.datetime.now().replace(hour=10, minute=30, second=0, microsecond=0)
    for text, days in (("10:30", 0), ("10:30:00.0", 0), ("yesterday 10:30", 1), ("tomorrow 10:30", -1)):
        assert packrack.time_ns(text) == packrack.time_ns(day - datetime.timedelta(days=days)), text
    assert packrack.time_ns("9:30") == packrack.time_ns("today 09:30")
    for wrong in ("", "x", "90", "2026", "-5s ago", "yesterday10:30", "yesterday 25:00", "2025-13-01", "2025-11-21T25:00", "5 parsecs ago", float("nan"),
                  float("inf"), None, True, [], "@", "@1.", "2025-11-21Tz"):
        raises(packrack.RequestError, "is not a time", lambda: packrack.time_ns(wrong))


def damaged():
    def segment(count=1, data=b"12345678", version=1, caplen=8, tail=b""):
        head = struct.pack("<IHHQHHIQqqqq", 0x47455350, version, 0, 0, 0, 1, count, 0, 5, 5, 5, 5)
        return head + struct.pack("<qIIIHH", 5, 0, caplen, 8, 0, 0) + struct.pack(
            "<QQHHI", 77, 9, 3, 1, 0) + data + tail

    packet, = read_segment(segment())
    assert packet[:9] == (5, 5, 3, 77, 9, 8, 8, 1, 0) and packet.data == b"12345678"
    for body in (b"", segment()[:50], segment(version=2), segment(count=2), segment(tail=b"x"),
                 segment(caplen=9), segment(caplen=2 ** 32 - 1), segment()[:-1], segment()[:80]):
        raises(packrack.Error, "damaged", lambda: list(read_segment(body)))


def counts(program):
    with packrack.connect() as rack:
        packets = list(rack.query())
        rate = rack.rate(program=program)
        assert rate.completeness.complete and rate.packets == len(packets)
        assert rate.bytes == sum(s.bytes for s in rate) == sum(p.len for p in packets)
        busiest = max(rate, key=lambda s: s.packets)
        assert len(list(rack.query(since=busiest.since, until=busiest.until))) == busiest.packets
        busy = rack.rate(above="%dpps" % (busiest.packets - 1), program=program)
        # neighbours with as many packets are one busy stretch
        assert any(b.since <= busiest.since and busiest.until <= b.until for b in busy)
        assert not busiest.partial
        top = rack.top("port", "udp", n=3, program=program)
        assert top.exact and len(list(top)) == 3
        for group in top:
            assert group.packets == len(list(rack.query("udp and " + group.filter)))
        raises(packrack.RequestError, "not a rate", lambda: rack.rate(above="5", program=program))
        raises(packrack.Error, "no command", lambda: rack.top(program="/none/packrack"))


def alerts(program, path):
    """A busy connection by its ends, and as alerts."""
    with packrack.connect() as rack:
        group = rack.top("flow", "tcp", n=1, program=program).groups[0]
        protocol, *ends = group.key.replace(",", "").replace(" port ", " ").split()
        a, a_port, b, b_port = ends
        packets = list(rack.connection(protocol, a, a_port, b, int(b_port)))
        assert len(packets) == group.packets > 100
        for number in (6, "tcp"):
            assert len(list(rack.connection(number, b, b_port, a, a_port, limit=7))) == 7
        assert [p.data for p in rack.query("tcp", limit=50)] == [p.data for p in rack.query("tcp", limit=50, tagged=True)]
        raises(packrack.RequestError, "no port", lambda: rack.connection("tcp", a, 70000, b, 1))
        raises(packrack.RequestError, "connection", lambda: rack.connection("nosuch", a, 1, b, 1))
        chosen = {"tuple": ",".join((protocol, a, a_port, b, b_port)), "program": program}
        alert, = rack.pivot(path + "/one.pcapng", since=packets[3].time, until=packets[-2].time, **chosen)
        ours = [(p.time, p.data) for p in packets if packets[3].time <= p.time <= packets[-2].time]
        assert [(p.time, p.data) for p in traces.Trace(alert.file)] == ours and alert.packets == len(ours) and alert.complete
        with open(path + "/eve.json", "w", encoding="utf-8") as f:
            for p in packets[10:13]:
                f.write(json.dumps({"timestamp": packrack.format_time(p.time), "event_type": "alert", "src_ip": a, "src_port": int(a_port), "dest_ip": b,
                                    "dest_port": int(b_port), "proto": "TCP"}) + "\n")
            f.write("{}\n")
        found = list(rack.pivot(path + "/files", eve=path + "/eve.json", before=0, after=0, skew=0.001, program=program))
        assert len(found) == 3 and min(x.packets for x in found) >= 1, found
        assert {p.data for p in packets[10:13]} <= {p.data for x in found for p in traces.Trace(x.file)}
        for alert in rack.pivot(path + "/files", eve=path + "/eve.json", program=program):
            break
        raises(packrack.RequestError, "PROTO", lambda: list(rack.pivot(path, tuple="x", program=program)))
        raises(packrack.Error, "no command", lambda: rack.pivot(path, tuple="x", program="/none/packrack"))


def holds(program):
    """A case, as the packets of it are copied, and its end."""
    with packrack.connect() as rack:
        want = len(list(rack.query("udp port 53")))
        rack.hold("case7", "udp port 53", since=packrack.format_time(0), guarantee=5, reason="a test", program=program)
        deadline = time.monotonic() + 20
        while sum(h["packets"] for h in rack.holds(program=program)) < want:
            assert time.monotonic() < deadline, rack.holds(program=program)
        assert {(h["name"], h["reason"]) for h in rack.holds(program=program)} == {("case7", "a test")}
        assert len(list(rack.query("udp port 53"))) == want
        raises(packrack.Error, "already", lambda: rack.hold("case7", program=program))
        rack.release("case7", program=program)
        while rack.holds(program=program):
            assert time.monotonic() < deadline + 20
        raises(packrack.Error, "no hold", lambda: rack.release("case7", program=program))


def volume(program, capture, path):
    subprocess.run([program, "import", capture, "--volume", path, "--create", "64M"], check=True,
                   stdout=subprocess.DEVNULL)
    v = packrack.volume(path, program=program)
    answer = v.query()
    ours = [(p.time, p.data, p.len) for p in answer]
    assert ours == [tuple(p[:3]) for p in traces.Trace(capture)]
    assert answer.completeness.complete and answer.completeness.matched == len(ours)
    answer = v.query("udp port 53", limit=3)
    assert len(list(answer)) == 3 and answer.completeness.limit_reached
    assert answer.search.skipped_segments > 0
    middle = ours[5000][0]
    assert len(list(v.query(since=middle))) == sum(t >= middle for t, _, _ in ours)
    for packet in v.query():
        break
    assert packet.link == os.path.basename(capture)
    assert v.rate("udp").packets == len(list(v.query("udp")))
    assert v.top(exact=True).groups[0].bytes == v.top(exact=True).groups[0].bytes_most
    with v.query("tcp port 443") as answer:
        iterator = iter(answer)
        next(iterator)
    assert answer.process.returncode is not None
    raises(packrack.Error, "no report", lambda: answer.completeness)
    raises(packrack.RequestError, "syntax error", lambda: list(v.query("tcp port and")))
    raises(packrack.Error, "No such file", lambda: list(packrack.volume("/none", program=program)
                                                        .query()))
    raises(packrack.Error, "no command", lambda: packrack.volume(path, program="/none/packrack"))


def stages(program, path):
    """Of an answer of the rack: every second packet of UDP, cut to 60 bytes, a few of them held back to the end."""
    class Half(packrack.Stage):
        seen = 0

        def packet(self, packet):
            self.seen += 1
            return packet if self.seen % 2 else None

        def report(self):
            return {"seen": self.seen}

    class Short(packrack.Stage):
        def __init__(self):
            self.held = []

        def packet(self, packet):
            packet = packet._replace(data=packet.data[:60])
            if len(self.held) < 3:
                self.held.append(packet)
                return None
            return packet

        def flush(self):
            return self.held

    class Count(packrack.Stage):
        packets = bytes = 0

        def packet(self, packet):
            self.packets += 1
            self.bytes += packet.len
            return packet

        def report(self):
            return {"packets": self.packets, "bytes": self.bytes}

    with packrack.connect() as rack:
        wanted = [p._replace(data=p.data[:60]) for i, p in enumerate(rack.query("udp")) if i % 2 == 0]
        wanted = wanted[3:] + wanted[:3]
        assert len(wanted) > 1000
        answer = rack.query("udp")
        with open(path, "wb") as file:
            said = packrack.run_stages(answer, Half(), Short(), Count(), write=file)
        assert answer.completeness.complete
    assert said == [{"seen": answer.completeness.matched}, {}, {"packets": len(wanted), "bytes": sum(p.len for p in wanted)}], said
    with open(path, "rb") as file:
        from packrack.volume import read_trace
        again = [(p.time, p.data, p.len) for p in read_trace(file)]
    assert again == [(p.time, p.data, p.len) for p in wanted]
    read = subprocess.run(["tshark", "-r", path, "-T", "fields", "-e", "frame.len"], capture_output=True, check=True, text=True).stdout
    assert [int(x) for x in read.split()] == [p.len for p in wanted]
    done = subprocess.run([program, "stage", "count", "--json", "-r", path], capture_output=True, check=True, text=True)
    assert json.loads(done.stdout)["stages"]["count"]["packets"] == len(wanted)


def keys(endpoint):
    """The directories that 27_python.t made: reader and node are enrolled, stranger is not; fooled
    knows the merger by another's key."""
    def connect(name, **more):
        return packrack.connect(endpoint, key="%s/%s" % (DIR, name), **more)

    with connect("reader") as rack:
        assert rack.nodes == []
        raises(packrack.Error, "no node has reported", lambda: list(rack.query()))
    raises(packrack.Refused, "does not admit our key", lambda: connect("stranger"))
    raises(packrack.Refused, "role", lambda: connect("node"))
    raises(packrack.Refused, "is not the server-key", lambda: connect("fooled"))
    raises(packrack.Refused, "requires a key", lambda: packrack.connect(endpoint, key="none"))
    raises(packrack.Error, "No such file", lambda: connect("absent"))
    os.environ["PACKRACK_KEY"] = DIR + "/reader"
    with packrack.connect(endpoint) as rack:
        assert rack.nodes == []
    os.chmod(DIR + "/stranger/secret", 0o644)
    raises(packrack.Error, "others may read", lambda: connect("stranger"))
    os.chmod(DIR + "/node", 0o755)
    raises(packrack.Error, "chmod 700", lambda: connect("node"))


def gone(program):
    rack = packrack.connect()
    answer = rack.query()
    packets = iter(answer)
    next(packets)
    subprocess.run([program, "kill", "merger"], check=True)
    raises(packrack.Unreachable, "went away", lambda: list(packets))
    raises(packrack.Unreachable, "went away", lambda: answer.completeness)
    raises(packrack.Unreachable, "nobody listens", rack.query)


def half_gone(path):
    """A merger that ends between our look at its socket and its greeting."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        rack = Rack(Target("ipc://" + path, "none"))
        answer = rack.query()
    began = time.monotonic()
    raises(packrack.Unreachable, "nobody listens", lambda: list(answer))
    assert time.monotonic() - began < 10
    rack.close()


def ask_by_program(program, place):
    done = subprocess.run([program, "query", "--merger=" + place, "--key=none"], stderr=subprocess.PIPE, check=False)
    return done.stderr.decode()


def ask_by_package(_, place):
    try:
        list(packrack.connect(place, key="none").query())
    except packrack.Error as e:
        return str(e)
    return "no error"


def silent_merger(merger, times):
    """It finds nothing for so long that it is asked so many times whether it lives."""
    asked, query = 0, None
    while asked < times:
        assert merger.poll(30000), "it was not asked"
        peer, data = merger.recv_multipart()
        envelope = pb.Envelope.FromString(data)
        if envelope.HasField("status_request"):
            reply = pb.Envelope(id=envelope.id, status=pb.Status(program="packrack-merger"))
            merger.send_multipart([peer, reply.SerializeToString()])
            asked += query is not None
        elif envelope.HasField("query"):
            query = peer, envelope.id
    reply = pb.Envelope(id=query[1], failure=pb.Failure(text="that is enough"))
    merger.send_multipart([query[0], reply.SerializeToString()])


def alive(program, path):
    """Who asks a merger whose nodes find nothing for long asks whether it lives."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as merger, \
            concurrent.futures.ThreadPoolExecutor() as threads:
        merger.linger = 1000
        merger.bind("ipc://" + path)
        for ask, times in (ask_by_program, 2), (ask_by_package, 1):
            said = threads.submit(ask, program, "ipc://" + path)
            silent_merger(merger, times)
            assert "that is enough" in said.result(30), said.result()


def nobody():
    raises(ConnectionError, "nobody listens", packrack.connect)
    raises(packrack.Unreachable, "no answer", lambda: packrack.connect(
        "tcp://127.0.0.1:1", timeout=0.3))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
