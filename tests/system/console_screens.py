#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The console without a terminal: whole screens of made-up racks against tests/data/console, what keys do, and whatever programs
may answer, at any size.

    console_screens.py PACKRACK-CONSOLE [TEST...]

CONSOLE_GOLDEN=write writes the screens anew: look at the difference then. CONSOLE_SEED and CONSOLE_CASES are of the random test."""
import importlib.machinery
import importlib.util
import os
import random
import re
import sys
import time
import unittest

PROGRAM = sys.argv.pop(1)
sys.path.insert(0, os.path.dirname(os.path.abspath(PROGRAM)))  # packrack_cli lies beside it
LOADER = importlib.machinery.SourceFileLoader("console", PROGRAM)
console = importlib.util.module_from_spec(importlib.util.spec_from_loader("console", LOADER))
sys.dont_write_bytecode = True
LOADER.exec_module(console)
pb = console.pb

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "console")
SECOND = 10**9
T0 = 1700000000 * SECOND
KEYS = ["1", "2", "3", "Enter", "4", "5", "6", "7", "8", "?"]  # each screen
SEED, CASES = int(os.environ.get("CONSOLE_SEED", 1)), int(os.environ.get("CONSOLE_CASES", 600))
SHOWN = re.compile("[ -~\u2581-\u2588]*")


def values(**numbers):
    return [pb.Value(name=name, number=number) for name, number in numbers.items()]


def node(i, t):
    """Of a dispatcher; the second is silent."""
    return pb.DispatcherNode(
        name="n%02d" % (i + 1), mac="02:00:00:00:00:01", state="gone" if i == 1 else "active", number=i,
        last_seen=T0 + t * SECOND - SECOND // 2, values=values(
            sent_frames=(10 + i) * t, stored_packets=(10 + i) * t * (1 + t % 3), missing_packets=5 if i == 2 else 0,
            volume_size_bytes=500000000000, volume_free_bytes=400000000000 - 1000000 * t, stored_bytes=1000000 * t,
            buffer_fill_percent=25))


def dispatcher_at(t, nodes):
    figures = values(captured_packets=1000 * t, captured_bytes=500000 * t, sent_packets=990 * t, dropped_kernel=7 * t,
                     dropped_no_node=3 * t, control_frames=30 * t, control_received_frames=6 * t, log_frames=20 * t,
                     goodness_permille=990, input_bytes_per_s=500000, buffer_used_bytes=8 << 20, buffer_size_bytes=32 << 20,
                     spread_mode=2)
    return pb.Status(program="packrack-dispatcher", version="9.9", state="capturing", time=T0 + t * SECOND, epoch=1,
                     values=figures, dispatcher_nodes=[node(i, t) for i in range(nodes)],
                     dispatcher_links=[pb.DispatcherLink(name="tap0", last_seq=1000 * t, values=figures[:5])])


def stores():
    """What n01 and n03 hold; the second was emptied."""
    stream = {"name": "packets.0", "link_name": "tap0", "packet_stream": True}
    full = pb.StreamHeld(packets=123456, bytes=77 << 20, first_time=T0, last_time=T0 + 15 * SECOND, **stream)
    emptied = T0 - 3600 * SECOND
    empty = pb.StreamHeld(evicted_segments=9, evicted_until=emptied, deleted=[pb.Deleted(by="ann", until=emptied)], **stream)
    return [pb.NodeStatus(name=name, connected=True, writer_alive=True, streams=[held])
            for name, held in (("n01", full), ("n03", empty))]


def merger_at(t, nodes):
    query = pb.RunningQuery(number=9, user="ann\x1b[2J", text="udp port 53", started=T0, nodes=3, nodes_left=1, matched=12345,
                            bytes=9 << 20)
    return pb.Status(program="packrack-merger", version="9.9", state="running", time=T0 + t * SECOND, queries=[query],
                     values=values(queries_total=9, running_query_count=1), nodes=stores() if nodes >= 3 else [])


def empty_rack():
    m = console.Model()
    m.dispatcher.endpoint = "ipc://d.sock"
    m.mergers = [console.Peer("ipc://m.sock")]
    return m


def rack_of(nodes, seconds=15):
    m = empty_rack()
    for t in range(1, seconds + 1):
        for status, take in ((dispatcher_at(t, nodes), m.take_dispatcher), (merger_at(t, nodes), lambda *a: m.take_merger(0, *a))):
            take(status, status.time)
    return m


def screen(m, ui, rows, cols, log=None, ascii_only=False):
    """Its lines, after the checks that hold for each."""
    c = console.Canvas(rows, cols, ascii_only)
    console.draw(c, m, ui, log)
    lines = ["".join(cells) for cells in c.cells]
    assert len(lines) == rows and all(len(line) == cols for line in lines), "not %d by %d" % (cols, rows)
    assert all(SHOWN.fullmatch(line) for line in lines), lines
    assert all(len(styles) == cols and set(styles) <= set(console.STYLES) for styles in c.styles)
    return [line.rstrip(" ") for line in lines]


class Screens(unittest.TestCase):
    def compare(self, nodes, rows, cols):
        m, ui, lines = rack_of(nodes), console.Ui(), []
        for key in KEYS:
            ui.key(m, key)
            lines += screen(m, ui, rows, cols)
        path = os.path.join(GOLDEN, "%d-nodes-%dx%d.txt" % (nodes, cols, rows))
        if os.environ.get("CONSOLE_GOLDEN") == "write":
            with open(path, "w", encoding="utf-8") as f:
                f.writelines(line + "\n" for line in lines)
        with open(path, encoding="utf-8") as f:
            self.assertEqual(lines, f.read().split("\n")[:-1], "not as in " + path)

    def test_golden(self):
        for nodes in 0, 3, 64:
            for rows, cols in (24, 80), (60, 200):
                with self.subTest(nodes=nodes, cols=cols):
                    self.compare(nodes, rows, cols)

    def test_any_size(self):
        m, ui = rack_of(64), console.Ui()
        for size in range(1, 90):
            for key in (*KEYS, "?"):
                ui.key(m, key)
                screen(m, ui, size // 3 + 1, size)

    def test_ascii(self):
        self.assertTrue(all(line.isascii() for line in screen(rack_of(3), console.Ui(), 24, 80, ascii_only=True)))

    def test_log(self):
        m, ui = rack_of(0), console.Ui(logs=2)
        ui.key(m, "5")
        log = "/a.log", ["line %d" % i for i in range(100)], ""
        self.assertEqual(screen(m, ui, 24, 80, log)[2:5], [" /a.log, log 1 of 2", " line 81", " line 82"])
        ui.key(m, "Home")
        self.assertEqual(screen(m, ui, 24, 80, log)[3], " line 0")
        self.assertIn(" /b: gone", screen(m, ui, 24, 80, ("/b", [], "/b: gone")))

    def test_log_tail(self):
        self.assertEqual(console.log_tail("/nonexistent"), ([], "/nonexistent: No such file or directory"))
        self.assertEqual(console.log_tail("/dev/null"), ([], "/dev/null is not a regular file"))
        self.assertEqual(console.log_tail("/"), ([], "/ is not a regular file"))
        lines, error = console.log_tail(os.path.join(GOLDEN, "64-nodes-200x60.txt"))
        self.assertEqual((error, lines[-1]), ("", " Esc back"))


class Orders(unittest.TestCase):
    def type(self, m, ui, keys):
        """The last order that they give."""
        given = [ui.key(m, "Enter" if key == "\n" else key) for key in keys]
        return next((order for order in reversed(given) if order), None)

    def expect(self, m, ui, keys, **wanted):
        order = self.type(m, ui, keys)
        self.assertEqual({name: getattr(order, name) for name in wanted}, wanted)

    def test_orders(self):
        m, ui = rack_of(3), console.Ui()
        self.expect(m, ui, "3i", verb="identify", node="n01")
        self.assertIsNone(self.type(m, ui, "dn"))
        self.expect(m, ui, "dy", verb="disconnect")
        self.assertIsNone(self.type(m, ui, "Ry\n"))  # a reset wants the name
        self.assertIsNone(self.type(m, ui, "Rn02\n"))
        self.expect(m, ui, "Rn01\n", verb="reset")
        self.expect(m, ui, "6cy", verb="cancel", number=9)
        self.expect(m, ui, "4wy", verb="spread", node="weighted")

    def test_data(self):
        """A text first, and who deletes types the name behind it."""
        m, ui = rack_of(3), console.Ui()
        self.assertIsNone(self.type(m, ui, "8e\n"))
        self.expect(m, ui, "e/tmp/x y\n", verb="export", node="n01", text="/tmp/x y")
        self.expect(m, ui, "vn02\n", verb="move", text="n02")
        self.assertIsNone(self.type(m, ui, "x3h ago\nn02\n"))
        self.assertIsNone(self.type(m, ui, "xn01\n\n"))
        self.expect(m, ui, "x3h ago\nn01\n", verb="delete", text="3h ago")
        ui.key(m, "Down")
        self.expect(m, ui, "x\nn03\n", verb="delete", node="n03", text="")


class Models(unittest.TestCase):
    def test_columns(self):
        m = rack_of(3)
        series = m.dispatcher.series
        self.assertEqual([f("captured_packets") for f in (series.total, series.instant)], [15000, 1000])
        self.assertAlmostEqual(series.rate("captured_packets"), 1000)
        m.take_dispatcher(dispatcher_at(15, 3), T0)  # the same again is no sample
        self.assertEqual(series.instant("captured_packets"), 1000)
        m.take_merger(0, merger_at(16, 0), T0)  # a node that is named no more is gone
        m.take_dispatcher(dispatcher_at(16, 2), T0)
        self.assertEqual((len(m.nodes), len(m.stores)), (2, 0))

    def test_restart(self):
        m = rack_of(3)
        status = dispatcher_at(16, 3)
        status.epoch = 2
        m.take_dispatcher(status, T0)
        self.assertEqual(m.dispatcher.series.instant("captured_packets"), 0)
        self.assertIn("the dispatcher was started again", [text for _, text in m.events])

    def test_old_names(self):
        m = empty_rack()
        m.take_dispatcher(pb.Status(values=values(cut=7, queue_full=2, captured_packets=9)), T0)
        self.assertEqual([m.dispatcher.series.total(n) for n in ("cut_packets", "send_queue_full", "captured_packets")], [7, 2, 9])

    def test_two_of_one_name(self):
        m = empty_rack()
        m.take_dispatcher(pb.Status(time=1, dispatcher_nodes=[pb.DispatcherNode(name="a", mac=mac) for mac in ("1", "2")]), T0)
        self.assertEqual(len(m.nodes), 2)

    def test_curse_of_time(self):
        for ns in (-2**63, -1, 0, 2**63 - 1):
            self.assertTrue(console.clock_at(ns))


TEXTS = ("", "active", "gone", "n01", "\x00\x1b[2J\x07", "\u202e\u0085\x9b31m", "\U0001f600" * 40, "%s%n%-5d", "x" * 5000, "a\nb\tc")
NUMBERS = 0, 1, 99, 2**31, 2**32, 2**53 + 1, 2**63, 2**64 - 1
COUNTERS = sorted(set(re.findall(r"\"([a-z_]+(?: [a-z_]+)*)\"", open(PROGRAM, encoding="utf-8").read()))
                  | set(console.OLD_NAMES))


class Hostile:
    """Status messages as nobody sends them."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def fill(self, message, depth=0):
        """Each field is left out, or has whatever its type allows."""
        for f in message.DESCRIPTOR.fields:
            if self.random.random() < 0.3:
                continue
            if f.type == f.TYPE_MESSAGE and f.label == f.LABEL_REPEATED:
                for _ in range(self.random.choice((0, 1, 2, 5, 40)) if depth < 2 else 1):
                    self.fill(getattr(message, f.name).add(), depth + 1)
            elif f.type != f.TYPE_MESSAGE and f.label != f.LABEL_REPEATED:
                setattr(message, f.name, self.value(f))
        return message

    def value(self, f):
        r = self.random
        if f.type == f.TYPE_STRING:
            return r.choice(COUNTERS) if f.containing_type.name == "Value" and r.random() < 0.9 else r.choice(TEXTS)
        if f.type == f.TYPE_BOOL:
            return r.random() < 0.5
        if f.type == f.TYPE_BYTES:
            return b"\xff"
        number = r.choice((*NUMBERS, r.getrandbits(r.randrange(1, 65))))
        if f.cpp_type == f.CPPTYPE_INT64:
            return r.choice((-2**63, -1, number - 2**63, T0, T0 + number % 2**40))
        return number % 2**32 if f.cpp_type == f.CPPTYPE_UINT32 else number

    def key(self):
        names = *KEYS, "Up", "Down", "Left", "Right", "PgUp", "PgDn", "Home", "End", "Rubout", "Esc", "Tab", *"idrRevxsSowfcly\n"
        return self.random.choice((*names, 0, 3, 5000))

    def size(self):
        return self.random.choice(((5, 20), (24, 80), (60, 200), (self.random.randrange(1, 70), self.random.randrange(1, 220))))


class Randomised(unittest.TestCase):
    def play(self, h):
        m, ui = empty_rack(), console.Ui(logs=1)
        takes = m.take_dispatcher, lambda *a: m.take_merger(0, *a)
        for _ in range(4):
            status = pb.Status.FromString(h.fill(pb.Status()).SerializeToString())
            for take in h.random.sample(takes, h.random.randrange(1, 3)):
                take(status, status.time)
                if h.random.random() < 0.3:  # the same in the next second
                    status.time = min(status.time + SECOND, 2**63 - 1)
                    take(status, T0)
            if h.random.random() < 0.2:
                m.silent(h.random.choice((m.dispatcher, m.mergers[0])), "it", h.random.choice(TEXTS), T0)
            for _ in range(6):
                ui.key(m, h.key())
                screen(m, ui, *h.size(), ("/log", [h.random.choice(TEXTS)] * 9, "") if ui.log else None)

    def test_hostile(self):
        for seed in range(SEED, SEED + CASES):
            with self.subTest(seed=seed):
                self.play(Hostile(seed))

    def test_names_are_shown(self):
        """The random test is worth something: its texts get to the screen."""
        m, ui = empty_rack(), console.Ui()
        m.take_dispatcher(pb.Status(time=1, dispatcher_nodes=[pb.DispatcherNode(name="\x1b[2Jevil", state="\x07")]), T0)
        ui.key(m, "3")
        self.assertIn(">?[2Jevil        ?", "\n".join(screen(m, ui, 24, 80)))


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    time.tzset()
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
