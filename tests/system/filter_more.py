# SPDX-License-Identifier: Apache-2.0
"""For filters.py: what of pcap-filter(7)'s grammar filter_maker.py comes without."""
from filter_maker import ETHERNET, Maker


class MoreMaker(Maker):
    """Names of ports and protocols, `and` in lists of ids, and other names of headers that can be loaded from."""

    ACCESS = {"atalk": 8, "carp": 8, "decnet": 8, "fddi": 40, "lat": 8, "mopdl": 8, "moprc": 8, "ppp": 40,
              "radio": 8, "slip": 40, "tr": 40}
    PORTS = ["domain", "http", "https", "ssh", "ntp", "telnet"]
    PROTOCOLS = ["ipv6-icmp", "pim", "ah", "esp", "vrrp", "sctp"]

    def port_by_name(self):
        return "%s%sport %s" % (self.pick(["", "", "tcp "], "named port of"), self.direction(),
                                self.pick(self.PORTS, "port by name"))

    def link_proto(self):
        kind = self.pick(["fddi proto", "tr proto", "wlan proto"], "proto")
        return "%s %s" % (kind, self.rng.choice(["\\ip", "\\arp", "\\ip6", "0x800", "34525"]))

    def proto_by_name(self):
        return "%s \\%s" % (self.pick(["ip proto", "ip6 proto", "proto"], "named proto"),
                            self.pick(self.PROTOCOLS, "proto by name"))

    def two_ids(self):
        self.note("list of ids with and")
        return "%sport %d and %d" % (self.rng.choice(["", "tcp ", "udp "]), self.port_number(),
                                     self.port_number())

    WEIGHTS = {"relation": 14, "port_by_name": 6, "link_proto": 4, "proto_by_name": 7, "two_ids": 2}

    def anchor(self):
        if self.home != ETHERNET:
            return "radio[0] = 0 and %s" % super().anchor()
        return self.rng.choice(["host %s" % self.ip(), "port %d" % self.port_number(), "ether host %s" % self.mac()])

    def filter(self, number):
        self.used = set()
        self.home = ETHERNET
        text = self.expression(self.rng.choice([1, 2, 2]))
        if "radio" in text and 127 in self.values.of:
            self.home = 127
        text = "%s %s (%s)" % (self.anchor(), self.rng.choice(["or", "and not"]), text)
        self.counts.update(self.used)
        return text, self.home, frozenset(self.used)
