# SPDX-License-Identifier: Apache-2.0
"""For filters.py: what tcpdump said, and what came of each filter; of a long run, kept in files."""
import collections
import hashlib
import os
import subprocess


def digest(data):
    return hashlib.sha256(data).hexdigest()[:32]


class Reference:
    """What tcpdump says: of each filter on each capture its exit status, and if that is 0 the packets'
    digest and number. Kept in a file, where one is named, under the tcpdump's version, the capture's bytes
    and the filter's words: they do not change, and half of a long run's time is tcpdump's."""

    def __init__(self, path):
        self.path, self.known, self.digests = path, {}, {}
        asked = subprocess.run(["tcpdump", "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.version = " ".join(asked.stdout.decode().split())
        if path and os.path.exists(path):
            with open(path) as f:
                for line in f:
                    key, *said = line.split()
                    if len(said) == 3:
                        self.known[key] = (int(said[0]), said[1], int(said[2]))

    def key(self, capture, text):
        if capture not in self.digests:
            with open(capture, "rb") as f:
                self.digests[capture] = digest(f.read())
        return digest("\n".join((self.version, self.digests[capture], text)).encode())

    def find(self, capture, text):
        return self.known.get(self.key(capture, text)) if self.path else None

    def add(self, capture, text, *said):
        if self.path:
            with open(self.path, "a") as f:
                f.write("%s %d %s %d\n" % ((self.key(capture, text),) + said))
        return said


class Results:
    """What each filter matched; kept in a file, where one is named, so that a long run can go on."""

    def __init__(self, path):
        self.path, self.done = path, {}
        if path and os.path.exists(path):
            with open(path) as f:
                for line in f:
                    number, *rest = map(int, line.split())
                    self.done[number] = rest

    def add(self, number, *figures):
        """Matched, packets, comparisons, refused, left out, differences."""
        self.done[number] = list(figures)
        if self.path:
            with open(self.path, "a") as f:
                f.write(" ".join(map(str, (number,) + figures)) + "\n")

    def share(self, number):
        matched, packets = self.done[number][:2]
        return matched / packets if packets else 0

    def sums(self):
        return [sum(r[i] for r in self.done.values()) for i in range(2, 6)]

    def some(self):
        return sum(1 for n in self.done if 0 < self.share(n) <= 0.5)


BOUNDS = [0, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5, 1]


def print_table(filters, results):
    """How often each production was tried, how often with some packets found; shares of packets."""
    tried, found = collections.Counter(), collections.Counter()
    for n in results.done:
        tried.update(filters[n][2])
        if 0 < results.share(n) <= 0.5:
            found.update(filters[n][2])
    print("%-28s %7s %22s" % ("production", "filters", "match a part (<= 50 %)"))
    for p in sorted(tried):
        print("%-28s %7d %22d" % (p, tried[p], found[p]))
    print("%-28s %7s" % ("share of packets matched", "filters"))
    shares = [results.share(n) for n in results.done]
    print("%-28s %7d" % ("none", shares.count(0)))
    for low, high in zip(BOUNDS, BOUNDS[1:]):
        print("%-28s %7d" % ("up to %g %%" % (100 * high), sum(low < s <= high for s in shares)))
