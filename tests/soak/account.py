# SPDX-License-Identifier: Apache-2.0
"""Holds answers of a rack under chaos against what the witnesses have seen (traffic.py): each packet of the range is
in the answer, as it was sent and with the kernel's time, or the report names it with a reason that fits to what was
done to the rack at this time. Shares no code with the programs under test; the reader of pcapng is its own."""
import bisect
import operator
import re
import struct
import threading
import time

import traffic

SECOND = 10 ** 9
FOREVER = 2 ** 63 - 1


class Bad(Exception):
    """A file that is no pcapng."""


def read_pcapng(path):
    """Interfaces (names), and packets: (interface, time in ns, length on the wire, bytes)."""
    with open(path, "rb") as f:
        data = f.read()
    names, units, packets = [], [], []
    at, size = 0, len(data)
    while at < size:
        kind, length = struct.unpack_from("<II", data, at)
        if length < 12 or length % 4 or at + length > size or data[at + length - 4:at + length] != data[at + 4:at + 8]:
            raise Bad("%s: damaged at byte %d" % (path, at))
        if kind == 6:
            which, high, low, caplen, wire = struct.unpack_from("<IIIII", data, at + 8)
            if caplen > length - 32:
                raise Bad("%s: a packet is longer than its block, at byte %d" % (path, at))
            packets.append((which, (high << 32 | low) * units[which], wire, data[at + 28:at + 28 + caplen]))
        elif kind == 1:
            name, unit, option = "", 1000, at + 16
            while option + 4 <= at + length - 4:
                code, n = struct.unpack_from("<HH", data, option)
                if code == 0:
                    break
                value = data[option + 4:option + 4 + n]
                if code == 2:
                    name = value.decode()
                elif code == 9:
                    unit = 10 ** (9 - value[0])
                option += 4 + (n + 3) // 4 * 4
            names.append(name)
            units.append(unit)
        elif kind == 0x0A0D0D0A:
            if data[at + 8:at + 12] != b"\x4d\x3c\x2b\x1a":
                raise Bad("%s: not of this byte order" % path)
            names, units = [], []
        at += length
    return names, packets


BEGIN = operator.itemgetter("begin")


class Timeline:
    """What was done to the rack: kind, to whom, from when to when (None: still)."""

    LONGEST = 200  # seconds, of one fault

    def __init__(self):
        self.faults = {}  # by kind, in the order of their begin
        self.lock = threading.Lock()

    def begin(self, kind, who, **more):
        fault = dict(kind=kind, who=who, begin=0, end=None, **more)
        with self.lock:
            fault["begin"] = time.time_ns()
            self.faults[kind] = self.faults.get(kind, []) + [fault]  # readers keep the list that they have
        return fault

    def during(self, since, until, kinds=None, who=None, before=0.0, after=0.0):
        """The faults of since..until; before, after: seconds by which each is longer than it was."""
        found = []
        before, after = int(before * SECOND), int(after * SECOND)
        for kind in list(self.faults) if kinds is None else kinds:
            faults = self.faults.get(kind, ())
            at = bisect.bisect_left(faults, since - after - self.LONGEST * SECOND, key=BEGIN)
            while at < len(faults) and faults[at]["begin"] - before <= until:
                f = faults[at]
                at += 1
                if (f["end"] is None or f["end"] + after >= since) and (who is None or f["who"] in who):
                    found.append(f)
        return found


LISTED_MOST = 10000
FLUSH = 4  # seconds: what a logger that is killed had not written
# Faults by what they harm. Of a node: logger or indexer killed, paused, its line cut.
NODE_HARM = ("kill", "term", "pause", "cut")
SWITCH_HARM = ("switch", "rack-carrier")


class Query:
    """One query: its words, its range, what came of it."""

    def __init__(self, number, merger, since, until, links, port=None, no_wait=False):
        self.number, self.merger, self.links, self.port, self.no_wait = number, merger, links, port, no_wait
        self.since, self.until = since, until  # None: open
        self.asked = self.answered = 0
        self.status, self.report, self.said = None, {}, ""
        self.words = []

    def __str__(self):
        return "query %d of %s at %.3f: %s" % (self.number, self.merger, self.asked / SECOND, " ".join(self.words))


class Accountant:
    """apart: the witness is at the other end of the links, and sees packets a little before the dispatcher does."""

    def __init__(self, folder, links, nodes, timeline, seed, volume_bytes, apart=False):
        self.counts = traffic.Counts(folder).at
        self.arrays = [traffic.Arrays(folder, link) for link in range(links)]
        self.makers = [traffic.Maker(seed, link) for link in range(links)]
        self.links, self.nodes, self.timeline, self.volume_bytes = links, nodes, timeline, volume_bytes
        # so much later, or earlier, than the witness may the dispatcher see a packet
        self.late, self.early = (SECOND // 5, SECOND // 10000) if apart else (0, 0)
        self.latest = 0
        self.lock = threading.Lock()
        self.accounted = {"present": 0, "lost": 0, "complete": 0, "partial": 0, "failed": 0}
        self.reasons = {}

    # ---- what is true ----

    def captured(self, link, since, until, have=()):
        """(time, number) of packets that were on the link within since..until, in the order of sending; and of those that
        may have been. An answer that has packets from before and behind one should have that one: a link keeps the order."""
        sent, seen, node = self.arrays[link].sent, self.arrays[link].seen, self.arrays[link].node
        count = self.counts[link]
        number = bisect.bisect_left(sent, since - 2 * SECOND, 0, count)
        end = bisect.bisect_right(sent, until + self.early, 0, count)
        packets = [(t, n) for n, t in enumerate(seen[number:end], number) if self.within(t, since, until)]
        if not self.late:
            return packets, []
        first, last = min(have, default=FOREVER), max(have, default=-1)
        # what leaves one end while the other goes down, or is down and not yet known to be, comes nowhere
        cut = [(f["begin"] - self.late, FOREVER if f["end"] is None else f["end"] + self.late)
               for f in self.timeline.during(since - SECOND, until + SECOND, ("carrier",), ("tap%d" % link,))]
        sure, perhaps = [], []
        for t, n in packets:
            inside = (t >= since + self.early or n > first) and (t <= until - self.late or n < last)
            on_link = node[n] or not any(begin <= t <= end for begin, end in cut)
            (sure if inside and on_link else perhaps).append((t, n))
        return sure, perhaps

    def within(self, seen, since, until):
        """May a packet that the witness saw at this time have been seen by the dispatcher within since..until?"""
        return since - self.late <= seen <= until + self.early

    def await_witness(self, until):
        """Until the witness has seen what was on the links at that time."""
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            if self.counts[9] > until + SECOND // 2:
                return
            time.sleep(0.1)

    def homes(self, link, number, when):
        """The nodes that may have the packet: where it was sent to, and where it was moved to."""
        node = self.arrays[link].node[number]
        homes = {"log%d" % node} if node else set()
        for move in self.timeline.during(when, FOREVER, ("move",)):
            if self.within(when, move["since"], move["until"]) and move["who"] in homes:
                homes.add(move["to"])
        return homes

    # ---- do faults explain it? ----

    def node_harmed(self, names, since, until, kinds=NODE_HARM, before=0.0, after=0.0):
        who = set(names) | {n.replace("log", "idx") for n in names}
        return self.timeline.during(since, until, kinds, who, before, after)

    def fits(self, query, link, number, when, entry):
        """Does the reason that the report names fit to what happened to this packet?"""
        array = self.arrays[link]
        node = array.node[number]
        home = "log%d" % node
        came = array.came[number] >> node & 1 if node else 0
        reason, where = entry["reason"], entry["node"]
        homes = self.homes(link, number, when)
        during = self.timeline.during
        logger_dead = node and during(when, when, ("kill", "term", "pause", "cut"), (home,), 1, 5)
        dispatcher_dies = during(when, when, ("kill", "term", "pause"), ("dispatcher",), 4, 6)
        at_switch = during(when, when, SWITCH_HARM, None, 1, 3)
        if reason == "switch":
            damaged = during(when, when, ("switch",), None, 0.2, 0.5)
            return (where == home and bool(not came or logger_dead or damaged)) or (not node and bool(at_switch))
        if reason in ("log_gone", "node_kernel"):
            return where == home and bool(logger_dead or dispatcher_dies or at_switch)
        if reason in ("write", "node_stop"):
            return where == home and bool(during(when, when, ("kill", "term", "pause"), (home,), 15, 5))
        if reason == "unsaved":
            return where in homes and bool(during(when, when, ("kill", "term"), (where,), 20, 5) or
                                           (where != home and during(when, FOREVER, ("kill", "term"), (where,))))
        if reason == "no_answer":  # also of what the rack interface lost without its carrier, as of "switch"
            return (where in homes or (not node and bool(at_switch))) and self.excused(query, where)
        if reason == "dispatcher":
            return not came and bool(dispatcher_dies or at_switch or during(when, when, NODE_HARM, None, 1, 5))
        if reason == "undelivered":
            return bool(dispatcher_dies)
        if reason == "not_stored":
            return bool(logger_dead or during(when, when, ("kill", "term"), (home,), FLUSH, 5) or dispatcher_dies or at_switch or
                        self.unknown_to_merger(query, home))
        if reason == "one_of":
            return any(h in where for h in homes) or not node or "..." in where
        return False

    def excused(self, query, node):
        """May the node not have answered this query?"""
        return bool(self.node_harmed([node], query.asked, query.answered, ("kill", "term", "pause"), 0, 8) or
                    self.timeline.during(query.asked, query.answered, ("kill", "term", "pause"), (query.merger,), 0, 8))

    def unknown_to_merger(self, query, node):
        """A merger that has just begun did not know the node, and says that the packets are on no node that was asked."""
        return bool(node not in [n["node"] for n in query.report["completeness"]["nodes"]] and
                    self.timeline.during(query.asked, query.answered, ("kill", "term"), (query.merger,), 0, 8))

    def old_enough(self, when, query, node):
        """May the volume have wrapped since? A logger that begins takes a block of each stream: 7 of 48."""
        begun = len(self.timeline.during(when, query.answered, ("kill", "term"), (node,)))
        return query.answered - when > self.wrap_ns * max(0, 48 - 7 * begun) / 48

    wrap_ns = 20 * SECOND

    def evicted_covers(self, query, e, link, number, when):
        homes = self.homes(link, number, when)
        if homes and e["node"] not in homes:
            return None
        if not self.within(when, e.get("since", 0), e["until"]):
            return None
        if "deleted_at" not in e or e["deleted_until"] < when - self.early:
            return "overwritten" if self.old_enough(when, query, e["node"]) else None
        kind = "move" if e["moved_to"] else "delete"
        fits = [d for d in self.timeline.during(when, query.answered, (kind,), (e["node"],))
                if self.within(when, d["since"], d["until"])]
        return kind + "d" if fits or self.old_enough(when, query, e["node"]) else None

    def unobserved_fits(self, query, u):
        """Does what was done to the rack explain this time that was not observed?"""
        since, until, reason = u["since"], u["until"], u["reason"]
        during, link = self.timeline.during, "tap%d" % u["link"]
        if reason == "before":
            return until <= self.began + 5 * SECOND
        if reason == "unknown" and not u["name"]:  # no link is known yet
            return query.asked <= self.began + 5 * SECOND
        if reason == "unknown":
            return query.no_wait and until > query.asked - 6 * SECOND or bool(
                until > query.asked - 3 * SECOND and during(query.asked, query.answered, None, None, 0, 6))
        if reason == "gone":
            return self.inside(since, until, ("kill", "term", "pause", "stop", "rack-carrier", "switch", "cut"), None, 1, 10)
        if reason == "stopped":
            return self.inside(since, until, ("stop", "term"), ("dispatcher",), 1, 10)
        if reason == "no_carrier":
            return self.inside(since, until, ("carrier",), (link,), 1, 2)
        return False

    def inside(self, since, until, kinds, who, before, after):
        """Is since..until within the time of such faults, each longer by before and after?"""
        for f in sorted(self.timeline.during(since, until, kinds, who, before, after), key=lambda f: f["begin"]):
            if f["begin"] - before * SECOND <= since:
                since = max(since, FOREVER if f["end"] is None else f["end"] + int(after * SECOND))
            if since >= until:
                return True
        return since >= until

    # ---- one answer ----

    def judge(self, query, path):
        """The faults of an answer, as lines; none: it is right."""
        faults = []
        if query.status == 1:
            if not self.timeline.during(query.asked, query.answered, ("kill", "term", "pause"), (query.merger,), 0, 5):
                faults.append("failed: " + query.said.strip())
            self.accounted["failed"] += 1
            return faults
        if query.status not in (0, 3):
            return ["exit status %s: %s" % (query.status, query.said.strip())]
        done = query.report["completeness"]
        if done["complete"] != (query.status == 0):
            faults.append("complete is %s, exit status %d" % (done["complete"], query.status))
        self.await_witness(query.answered)
        have = self.check_packets(query, path, faults)
        since, until = self.bounds(query, have)
        lost, query.perhaps = {}, {}
        for link in query.links:
            mine = have[link]
            lost[link], query.perhaps[link] = ([(t, n) for t, n in packets if n not in mine and (
                query.port is None or self.makers[link].matches(n, query.port))]
                for packets in self.captured(link, since, until, mine))
        all_lost = sum(len(l) for l in lost.values())
        if query.status == 0 and all_lost:
            faults.append("FALSE COMPLETE: %d packets are not there: %s" % (all_lost, self.show(lost)))
        elif query.status == 0:
            for f in self.timeline.during(since, until, ("carrier",), None, -1.0, -0.5):
                if int(f["who"][3:]) in query.links:
                    faults.append("FALSE COMPLETE: %s had no carrier" % f["who"])
        else:
            self.account(query, since, until, lost, faults)
        with self.lock:
            self.accounted["complete" if query.status == 0 else "partial"] += 1
            self.accounted["present"] += sum(len(h) for h in have.values())
            self.accounted["lost"] += all_lost
        return faults

    def show(self, lost):
        words = []
        for link, packets in lost.items():
            for t, n in packets[:8]:
                a = self.arrays[link]
                words.append("link %d number %d at %d (to node %d, came %x)" % (link, n, t, a.node[n], a.came[n]))
            if packets:
                words.append("... to %d" % packets[-1][0])
        return "; ".join(words)

    def bounds(self, query, have):
        since = query.since
        if since is None:
            # links' packets of the same moment may have been received in another order than they were sent
            since = min((t for h in have.values() for t in h.values()), default=query.asked) + SECOND // 1000
        until = query.asked if query.until is None else query.until
        if query.since is None and query.until is None:  # all that was recorded ends where the capture was stopped
            until = min([until] + [f["begin"] for f in self.timeline.during(until, until, ("stop",))])
        return since, until

    def check_packets(self, query, path, faults):
        """Numbers and times of the answer's packets by link."""
        have = {link: {} for link in range(self.links)}
        try:
            names, packets = read_pcapng(path)
        except (OSError, Bad, IndexError, struct.error) as e:
            faults.append("no pcapng: %s" % e)
            return have
        before = 0
        # in the first seconds of an epoch a merger does not know its links' names yet
        young = query.asked < self.began + 5 * SECOND or self.timeline.during(
            query.asked, query.answered, ("kill", "term"), ("dispatcher", query.merger), 0, 5)
        for which, when, wire, data in packets:
            got = traffic.read_number(data)
            if not got:
                if when > self.began:  # what the lab's hosts said at the begin
                    faults.append("a packet at %d that nobody sent" % when)
                continue
            link, number = got
            if number in have[link]:
                faults.append("link %d number %d is there twice" % got)
            have[link][number] = when
            a = self.arrays[link]
            if len(data) != wire or data != self.makers[link].frame(number):
                faults.append("link %d number %d is not as it was sent" % got)
            if names[which] != "tap%d" % link and (names[which] != "link %d" % link or not young):
                faults.append("link %d number %d is on %s" % (link, number, names[which]))
            self.latest = max(self.latest, when - a.seen[number] if a.seen[number] else 0)
            if not -self.early <= when - a.seen[number] <= self.late and \
                    not (a.seen[number] == 0 and 0 <= when - a.sent[number] < SECOND):
                faults.append("link %d number %d has time %d, not %d" % (link, number, when, a.seen[number]))
            if when < before:
                faults.append("link %d number %d at %d comes after %d" % (link, number, when, before))
            before = max(before, when)
            if (query.since or 0) > when or (query.until or FOREVER) < when:
                faults.append("link %d number %d at %d is out of range" % (link, number, when))
            if query.port is not None and not self.makers[link].matches(number, query.port):
                faults.append("link %d number %d does not match the filter" % got)
        if len(faults) > 20:
            faults[20:] = ["and %d more of these" % (len(faults) - 20)]
        return have

    def account(self, query, since, until, lost, faults):
        """A partial answer: each lost packet has its reason, and each thing that it lacks was truly lacking."""
        done = query.report["completeness"]
        used, kept = {}, []
        rest = []
        query.pending_left = done["pending_packets"]
        excess = 0  # ranges that are counted and not listed
        if not done.get("missing_classes") and len(done["missing"]) >= LISTED_MOST:
            excess = done["missing_ranges"] - len(done["missing"])
        for link in query.links:
            entries = self.put_together(e for e in done["missing"] + done.get("missing_classes", []) if e["link"] == link)
            kept.append(entries)  # their ids stay their own
            left = self.assign(query, link, lost[link], entries, used, faults, excess)
            self.pour(query.perhaps[link], entries, used, lambda t, n, e: True)
            rest += [(t, n, link) for t, n in left]
            if query.port is None:
                self.check_unfilled(query, link, entries, used, since, until, faults)
        dropped = done["dropped_packets"]
        not_explained = {}
        for t, n, link in rest:
            reason = self.other_reason(query, done, link, n, t) or self.pending(query, t)
            if reason is None and excess > 0:
                reason = "not listed"
            if reason is None and dropped and not self.arrays[link].node[n]:
                dropped -= 1
                reason = "dropped"
            if reason is None:
                not_explained.setdefault(link, []).append((t, n))
            else:
                self.reasons[reason] = self.reasons.get(reason, 0) + 1
        silent = {n["node"] for n in done["nodes"] if n["left_out"] and "nothing of that time" in n["reason"]}
        here = {link: [(t, n) for t, n in lost[link] if silent and self.homes(link, n, t) & silent and
                       not any(self.old_enough(t, query, s) for s in silent) and
                       not self.node_harmed(silent, t, t, ("kill", "term", "delete", "move"), FLUSH, 5)]
                for link in query.links}
        if any(here.values()):
            faults.append("WRONGLY LEFT OUT: %s: %s" % (", ".join(sorted(silent)), self.show(here)))
        if not_explained:
            faults.append("UNACCOUNTED: %d packets: %s" % (sum(len(l) for l in not_explained.values()),
                                                           self.show(not_explained)))
        self.check_defects(query, done, lost, since, until, faults)

    def assign(self, query, link, lost, entries, used, faults, excess):
        """Gives each lost packet an entry of the list whose time has it and whose reason fits; returns the rest."""
        fits = lambda t, n, e: self.fits(query, link, n, t, e)
        done, node = query.report["completeness"], self.arrays[link].node
        # what was dropped before it was sent is counted, and not on the list
        excused = {n for t, n in lost if (done["dropped_packets"] and not node[n]) or
                   self.other_reason(query, done, link, n, t)}
        # all of them, which shows entries that nothing fills; then those alone that only the list can explain, for which
        # what others have overwritten must not take the room
        left = self.spread(link, lost, entries, used, fits, self.reasons)
        self.pour(left, entries, used, lambda t, n, e: True)
        # or by their times alone, where that fills more: before other nodes are asked, one's loss is given for theirs
        by_time = {}
        self.pour(lost, entries, by_time, lambda t, n, e: True)
        if sum(by_time.values()) > sum(used.get(id(e), 0) for e in entries):
            used.update(by_time)
        room, wrong, shown = {}, [], {}
        needy = self.spread(link, [p for p in lost if p[1] not in excused], entries, room, fits)
        # an entry that goes on behind the range has room for more than there is
        needy = [(t, n) for t, n in needy if not self.pending(query, t)]
        rest = self.pour(needy, entries, room, lambda t, n, e: wrong.append((t, n, e)) or True)
        for t, n, e in wrong:
            if excess <= 0:
                shown.setdefault((e["reason"], e["node"]), []).append((t, n))
        for (reason, node), packets in shown.items():
            faults.append("WRONG REASON: %d packets of link %d are given as %s, %s: %s" % (
                len(packets), link, reason, node, self.show({link: packets})))
        return sorted(rest + [p for p in left if p[1] in excused])

    def spread(self, link, lost, entries, used, fits, reasons=None):
        """What was sent to no node goes to the dispatcher's entries first, all else to the others; or each to the entry
        that ends first. Is there a place for all by one of the two, all have one."""
        node = self.arrays[link].node
        own = lambda t, n, e: fits(t, n, e) and (e["reason"] in ("dispatcher", "undelivered")) == (not node[n])
        tried = []
        for first in (own, None):
            counts, room = {}, dict(used)
            left = self.pour(lost, entries, room, first, counts) if first else lost
            left = self.pour(left, entries, room, fits, counts)
            tried.append((len(left), left, room, counts))
            if not left:
                break
        _, left, room, counts = min(tried, key=operator.itemgetter(0))
        used.update(room)
        for reason, count in counts.items() if reasons is not None else ():
            reasons[reason] = reasons.get(reason, 0) + count
        return left

    @staticmethod
    def pending(query, when):
        """Takes one of the packets of which the answer says that they were on their way."""
        if not query.pending_left or when <= query.asked - 8 * SECOND:
            return None
        query.pending_left -= 1
        return "pending"

    def pour(self, lost, entries, used, suits, reasons=None):
        """Each packet goes into the entry with room that ends first."""
        order = sorted(range(len(entries)), key=lambda i: entries[i]["first_time"])
        waiting, at, left = [], 0, []
        for t, n in lost:
            while at < len(order) and entries[order[at]]["first_time"] - self.late <= t:
                e = entries[order[at]]
                if used.get(id(e), 0) < e["count"]:
                    bisect.insort(waiting, (e["last_time"], order[at]))
                at += 1
            gone = bisect.bisect_left(waiting, (t - self.early, 0))
            del waiting[:gone]
            for i, (_, which) in enumerate(waiting):
                e = entries[which]
                if suits(t, n, e):
                    used[id(e)] = used.get(id(e), 0) + 1
                    if reasons is not None:
                        reasons[e["reason"]] = reasons.get(e["reason"], 0) + 1
                    if used[id(e)] == e["count"]:
                        del waiting[i]
                    break
            else:
                left.append((t, n))
        return left

    @staticmethod
    def put_together(entries):
        """Entries of one time, reason and node differ in their seqs only, which nobody else knows."""
        groups = {}
        for e in entries:
            key = e["first_time"], e["last_time"], e["reason"], e["node"]
            if key in groups:
                groups[key]["count"] += e["count"]
                groups[key]["last_seq"] = e["last_seq"]
            else:
                groups[key] = dict(e)
        return list(groups.values())

    def check_unfilled(self, query, link, entries, used, since, until, faults):
        """What is listed at the ends of the range may lie outside of it; all else must be lost."""
        unfilled = sum(e["count"] - used.get(id(e), 0) for e in entries)
        ends = [e for e in entries if e["first_time"] <= since or e["last_time"] >= until]
        if unfilled > sum(e["count"] for e in ends):
            faults.append("FALSE MISSING: link %d: %d packets are there, or were never sent: %s" % (link, unfilled, [
                e for e in entries if e["count"] > used.get(id(e), 0)][:4]))

    def other_reason(self, query, done, link, number, when):
        for u in done["unobserved"]:
            if u["link"] == link and self.within(when, u["since"], u["until"]):
                return "unobserved " + u["reason"]
        for e in done["evicted"]:
            if e["link"] == link or e["link"] == 0:
                reason = self.evicted_covers(query, e, link, number, when)
                if reason:
                    return reason
        homes = self.homes(link, number, when)
        if any(not node["answered"] and node["node"] in homes for node in done["nodes"]):
            return "not answered"
        return "not asked" if any(self.unknown_to_merger(query, home) for home in homes) else None

    def check_defects(self, query, done, lost, since, until, faults):
        """Each thing that makes the answer partial has a cause."""
        any_lost = any(lost.values())
        defects = bool(done["missing_packets"] or done["pending_packets"])
        for u in done["unobserved"]:
            defects = True
            if not self.unobserved_fits(query, u):
                faults.append("FALSE PARTIAL: %s not observed %d..%d: %s %s" % (
                    u["name"], u["since"], u["until"], u["reason"], u["by"]))
        for node in done["nodes"]:
            if not node["answered"]:
                defects = True
                if not self.excused(query, node["node"]):
                    faults.append("FALSE PARTIAL: %s not answered: %s" % (node["node"], node["error"]))
        for e in done["evicted"]:
            defects = True
            if not any_lost and query.port is None and any(self.captured(link, since, until)[0] for link in query.links):
                faults.append("FALSE PARTIAL: nothing is lost, and %s" % e)
        if done["pending_packets"] and not self.timeline.during(until - 10 * SECOND, query.answered, None, None, 0, 8) and \
                until < query.asked - 3 * SECOND:
            faults.append("FALSE PARTIAL: %d pending" % done["pending_packets"])
        if done["stray_packets"]:
            defects = True
            if not self.timeline.during(since - 6 * SECOND, until + 6 * SECOND, None, None, 0, 6):
                faults.append("FALSE PARTIAL: %d strays" % done["stray_packets"])
        for name, count in (("dropped", done["dropped_packets"]), ("truncated", query.report["truncated"]),
                            ("corrupt", query.report["corrupt_records"])):
            if count:
                defects = True
            causes = {"dropped": ("carrier", "pause"), "corrupt": ("kill",)}.get(name, ())  # corrupt: killed before it was durable
            if name == "dropped" and self.late:  # XDP has the nodes' buffers only, and refuses what they have no room for
                causes += ("rack-carrier",)
            if count and not self.timeline.during(since, until, causes, None, FLUSH, 3):
                faults.append("FALSE PARTIAL: %d %s" % (count, name))
        if not defects:
            faults.append("FALSE PARTIAL: no reason at all")

    began = 0


def short(text):
    """For file names."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:40]
