# SPDX-License-Identifier: Apache-2.0
"""Filters at random over the whole grammar of pcap-filter(7), of values that packets hold or do not hold."""
import collections
import struct

ETHERNET = 1

# ---- values ----

class Values:
    """What packets hold, at the plainest places; enough to draw values that match."""

    def __init__(self, traces_by_linktype):
        self.of = {t: collections.defaultdict(list) for t in traces_by_linktype}
        for t, trace in traces_by_linktype.items():
            for i, p in enumerate(trace):
                if i % 7 == 0 or i < 2000:
                    self.take(self.of[t], t, p)

    @staticmethod
    def take(v, linktype, p):
        d = p.data
        v["length"].append(p.length)
        v["bytes"].append(d[:80])
        at = {1: 14, 113: 16, 276: 20, 101: 0, 228: 0, 0: 4, 108: 4, 9: 4, 104: 4}.get(linktype)
        if linktype == 1 and len(d) >= 14:
            v["mac"] += [d[:6], d[6:12]]
            kind = struct.unpack(">H", d[12:14])[0]
            v["ethertype"].append(kind)
            while kind in (0x8100, 0x88A8, 0x9100) and len(d) >= at + 4:
                v["vlan"].append(struct.unpack(">H", d[at:at + 2])[0] & 0xFFF)
                kind = struct.unpack(">H", d[at + 2:at + 4])[0]
                at += 4
            if kind == 0x8847 and len(d) >= at + 4:
                v["mpls"].append(struct.unpack(">I", d[at:at + 4])[0] >> 12)
            if kind == 0x8864 and len(d) >= at + 4:
                v["pppoe"].append(struct.unpack(">H", d[at + 2:at + 4])[0])
            if kind in (0x806, 0x8035) and len(d) >= at + 28:
                v["ip"] += [d[at + 14:at + 18], d[at + 24:at + 28]]
        if linktype == 105 and len(d) >= 16:
            v["mac"] += [d[4:10], d[10:16]]
        if at is None or len(d) < at + 20:
            return
        version = d[at] >> 4
        if version == 4:
            v["ip"] += [d[at + 12:at + 16], d[at + 16:at + 20]]
            v["proto"].append(d[at + 9])
            Values.ports(v, d, at + 4 * (d[at] & 15), d[at + 9])
        elif version == 6 and len(d) >= at + 40:
            v["ip6"] += [d[at + 8:at + 24], d[at + 24:at + 40]]
            v["proto6"].append(d[at + 6])
            Values.ports(v, d, at + 40, d[at + 6])

    @staticmethod
    def ports(v, d, at, proto):
        if proto in (6, 17, 132) and len(d) >= at + 4:
            v["port"] += struct.unpack(">HH", d[at:at + 4])


# ---- the grammar ----

class Maker:
    """Each method named after a production returns a filter's text and notes what it used."""

    def __init__(self, rng, values):
        self.rng, self.values = rng, values
        self.home = ETHERNET
        self.used = set()
        self.counts = collections.Counter()  # of filters so far, by production

    def note(self, production):
        self.used.add(production)

    def pick(self, choices, production=None):
        """Every second time what was used least so far."""
        if production is None:
            return self.rng.choice(choices)
        names = {c: ("%s %s" % (production, c.strip())).strip() for c in choices}
        if self.rng.random() < 0.5:
            least = min(self.counts[n] for n in names.values())
            choices = [c for c in choices if self.counts[names[c]] == least]
        choice = self.rng.choice(choices)
        self.note(names[choice])
        return choice

    def value(self, kind, outside):
        """From the traces; one of ten from outside them."""
        known = self.values.of[self.home][kind] or self.values.of[ETHERNET][kind]
        if known and self.rng.random() > 0.1:
            self.note("value of the traces")
            return self.rng.choice(known)
        self.note("value from outside")
        return outside()

    def ip(self):
        b = self.value("ip", lambda: bytes(self.rng.randrange(256) for _ in range(4)))
        return ".".join(map(str, b))

    def ip6(self):
        b = self.value("ip6", lambda: bytes(self.rng.randrange(256) for _ in range(16)))
        return ":".join("%x" % n for n in struct.unpack(">8H", b))

    def mac(self):
        b = self.value("mac", lambda: bytes(self.rng.randrange(256) for _ in range(6)))
        return ":".join("%02x" % n for n in b)

    def port_number(self):
        return self.value("port", lambda: self.rng.randrange(65536))

    def direction(self):
        return self.pick(["", "src ", "dst ", "src or dst ", "src and dst "], "direction")

    # primitives of addresses

    def host(self):
        proto = self.pick(["", "", "", "ip ", "arp ", "rarp "], "host of")
        return "%s%shost %s" % (proto, self.direction(), self.ip())

    def host6(self):
        return "%s%shost %s" % (self.pick(["", "ip6 "], "host6 of"), self.direction(), self.ip6())

    def bare(self):
        return "%s%s" % (self.pick(["src ", "dst ", "host "], "bare"), self.ip())

    def net(self):
        form = self.pick(["dotted", "prefix", "mask", "net6"], "net")
        if form == "net6":
            bits = self.rng.choice([8, 16, 32, 48, 56, 64, 100, 128])
            whole = int.from_bytes(bytes.fromhex("".join(
                "%04x" % int(w, 16) for w in self.ip6().split(":"))), "big")
            whole = whole >> (128 - bits) << (128 - bits)
            text = ":".join("%x" % (whole >> s & 0xFFFF) for s in range(112, -1, -16))
            return "%s%snet %s/%d" % (self.pick(["", "ip6 "]), self.direction(), text, bits)
        proto = self.pick(["", "", "ip ", "arp ", "rarp "], "net of")
        address = self.ip().split(".")
        if form == "dotted":
            return "%s%snet %s" % (proto, self.direction(),
                                   ".".join(address[:self.rng.randrange(1, 5)]))
        bits = self.rng.choice([1, 4, 8, 9, 12, 16, 20, 22, 24, 27, 30, 32])
        whole = int.from_bytes(bytes(map(int, address)), "big") >> (32 - bits) << (32 - bits)
        text = ".".join(map(str, whole.to_bytes(4, "big")))
        if form == "prefix":
            return "%s%snet %s/%d" % (proto, self.direction(), text, bits)
        mask = ".".join(map(str, ((0xFFFFFFFF << (32 - bits)) & 0xFFFFFFFF).to_bytes(4, "big")))
        return "%s%snet %s mask %s" % (proto, self.direction(), text, mask)

    def port(self):
        proto = self.pick(["", "tcp ", "udp ", "sctp "], "port of")
        return "%s%sport %d" % (proto, self.direction(), self.port_number())

    def portrange(self):
        proto = self.pick(["", "tcp ", "udp ", "sctp "], "portrange of")
        low, high = sorted((self.port_number(), self.port_number()))
        return "%s%sportrange %d-%d" % (proto, self.direction(), low, high)

    def id_list(self):
        self.note("list of ids")
        joint = self.rng.choice([" or ", " || "])
        if self.rng.random() < 0.5:
            return "%shost %s" % (self.direction(), joint.join(self.ip() for _ in range(3)))
        return "%sport %s" % (self.rng.choice(["", "tcp ", "udp "]),
                              joint.join(str(self.port_number()) for _ in range(3)))

    def ether(self):
        side = self.pick(["ether host", "ether src", "ether dst", "ether src or dst",
                          "ether src and dst"], "ether")
        return "%s %s" % (side, self.mac())

    def gateway(self):
        self.note("gateway")  # refused: it needs a name of both kinds
        return "gateway %s" % self.ip()

    # other primitives

    KEYWORDS = ["ip", "ip6", "arp", "rarp", "tcp", "udp", "sctp", "icmp", "icmp6", "igmp", "igrp",
                "pim", "ah", "esp", "vrrp", "carp", "atalk", "aarp", "decnet", "iso", "stp", "ipx",
                "netbeui", "lat", "moprc", "mopdl", "clnp", "esis", "isis", "l1", "l2", "iih", "lsp",
                "snp", "csnp", "psnp", "sca", "es-is", "is-is", "pppoed", "pppoes", "vlan", "mpls", "geneve",
                "llc", "ether broadcast", "ether multicast", "ip broadcast", "ip multicast",
                "ip6 multicast", "broadcast", "multicast"]

    def keyword(self):
        return self.pick(self.KEYWORDS, "keyword")

    def numbered(self):
        kind = self.pick(["vlan", "mpls", "pppoes", "geneve"], "numbered")
        known = {"vlan": "vlan", "mpls": "mpls", "pppoes": "pppoe"}.get(kind, "none")
        return "%s %d" % (kind, self.value(known, lambda: self.rng.randrange(1, 4095)))

    def proto(self):
        kind = self.pick(["ip proto", "ip6 proto", "proto", "ether proto", "iso proto",
                          "ip protochain", "ip6 protochain", "protochain"], "proto")
        if kind == "ether proto":
            name = self.rng.choice(["ip", "ip6", "arp", "rarp", "atalk", "aarp", "decnet", "stp",
                                    "ipx", "netbeui", "iso", "lat", "moprc", "loopback"])
            number = self.value("ethertype", lambda: self.rng.randrange(65536))
            return "ether proto %s" % (self.rng.choice(["\\%s" % name, "%d" % number]))
        if kind == "iso proto":
            return "iso proto %s" % self.rng.choice(["\\clnp", "\\esis", "\\isis", "131"])
        known = "proto6" if "6" in kind else "proto"
        if self.rng.random() < 0.3:
            return "%s %s" % (kind, self.rng.choice(["\\tcp", "\\udp", "\\icmp", "\\igmp"]))
        return "%s %d" % (kind, self.value(known, lambda: self.rng.randrange(256)))

    def size(self):
        kind = self.pick(["less", "greater"], "size")
        return "%s %d" % (kind, self.value("length", lambda: self.rng.randrange(2000)))

    def llc(self):
        return "llc %s" % self.pick(["i", "s", "u", "rr", "rnr", "rej", "ui", "ua", "disc", "sabme",
                                     "test", "xid", "frmr"], "llc")

    # of other link types: tcpdump refuses them elsewhere, and so must we

    def wlan(self):
        form = self.pick(["type", "type subtype", "subtype", "dir", "host"] +
                         ["address"] * 5, "wlan")
        kinds = {"mgt": ["assoc-req", "assoc-resp", "reassoc-req", "reassoc-resp", "probe-req",
                         "probe-resp", "beacon", "atim", "disassoc", "auth", "deauth"],
                 "ctl": ["ps-poll", "rts", "cts", "ack", "cf-end", "cf-end-ack"],
                 "data": ["data", "null", "qos-data", "qos", "data-cf-ack", "data-cf-poll"]}
        kind = self.rng.choice(sorted(kinds))
        if form == "type":
            return "type %s" % kind
        if form == "type subtype":
            return "type %s subtype %s" % (kind, self.rng.choice(kinds[kind]))
        if form == "subtype":
            return "subtype %s" % self.rng.choice(kinds[kind])
        if form == "dir":
            return "dir %s" % self.rng.choice(["nods", "tods", "fromds", "dstods", "2"])
        if form == "host":
            return "wlan %shost %s" % (self.rng.choice(["", "src ", "dst "]), self.mac())
        return "wlan %s %s" % (self.pick(["addr1", "addr2", "addr3", "addr4", "ra", "ta"],
                                         "wlan address"), self.mac())

    def foreign(self):
        kind = self.pick(["decnet", "atm", "pf", "inbound", "ifindex", "fddi", "tr", "link", "mtp2"], "foreign")
        if kind == "decnet":
            return "decnet %s%d.%d" % (self.rng.choice(["src ", "dst ", "host "]),
                                       self.rng.randrange(64), self.rng.randrange(1024))
        if kind == "atm":
            return self.rng.choice(["vpi 0", "vci 5", "lane", "oamf4s", "oamf4e", "oamf4", "oam",
                                    "metac", "bcc", "sc", "ilmic", "connectmsg", "metaconnect"])
        if kind == "pf":
            return self.rng.choice(["ifname eth0", "on eth0", "rnr 1", "rulenum 1", "reason match",
                                    "rset x", "ruleset x", "srnr 1", "subrulenum 1", "action pass"])
        if kind == "mtp2":
            return self.rng.choice(["fisu", "lssu", "lsu", "msu", "sio 3", "opc 5", "dpc 5", "sls 1", "hfisu", "hlssu",
                                    "hmsu", "hsio 3", "hopc 5", "hdpc 5", "hsls 1"])
        if kind == "inbound":
            return self.rng.choice(["inbound", "outbound"])
        if kind == "ifindex":
            return "ifindex %d" % self.rng.randrange(1, 4)
        if kind == "link":
            kind = self.rng.choice(["link", "ppp", "slip"])
        return "%s %s %s" % (kind, self.rng.choice(["host", "src", "dst"]), self.mac())

    # arithmetic

    ACCESS = {"ether": 60, "ip": 40, "ip6": 60, "tcp": 30, "udp": 12, "icmp": 12, "icmp6": 12,
              "arp": 28, "rarp": 28, "sctp": 12, "igmp": 8, "pim": 4, "vrrp": 8, "igrp": 8,
              "link": 60, "wlan": 24}

    def load(self):
        proto = self.pick(sorted(self.ACCESS), "access")
        size = self.pick(["", ":1", ":2", ":4"], "access of")
        if self.rng.random() < 0.1:
            self.note("access at an expression")
            return "%s[%s%s]" % (proto, self.rng.choice(["4*2", "len/4", "%s[0] & 3" % proto]), size)
        return "%s[%d%s]" % (proto, self.rng.randrange(self.ACCESS[proto]), size)

    def operand(self, depth):
        what = self.rng.random()
        if what < 0.5 or depth == 0:
            return self.load()
        if what < 0.6:
            self.note("len")
            return "len"
        if what < 0.68:
            self.note("unary -")
            return "-%s" % self.operand(depth - 1)
        operator = self.pick(["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"], "operator")
        right = str(self.rng.randrange(1, 20)) if operator in ("/", "%", "<<", ">>") \
            else self.rng.choice([str(self.rng.randrange(256)), "0x%x" % self.rng.randrange(65536)])
        if self.rng.random() < 0.15 and operator not in ("<<", ">>"):
            right = self.operand(depth - 1)
        text = "%s %s %s" % (self.operand(depth - 1), operator, right)
        return "(%s)" % text if self.rng.random() < 0.7 else text

    def relation(self):
        relation = self.pick(["=", "==", "!=", ">", "<", ">=", "<="], "relation")
        left = self.operand(2)
        right = self.operand(1) if self.rng.random() < 0.1 else str(self.rng.choice(
            [0, 1, 2, 6, 8, 17, 20, 64, 69, 80, 128, 255, 256, 443, 1500, 2048, 0x45000000]))
        return "%s %s %s" % (left, relation, right)

    def exact_bytes(self):
        """What a packet holds at some place: so relations match something."""
        self.note("bytes of the traces")
        data = self.value("bytes", lambda: bytes(60))
        size = self.rng.choice([1, 2, 4])
        if len(data) < size + 1:
            return "len > 0"
        at = self.rng.randrange(len(data) - size)
        number = int.from_bytes(data[at:at + size], "big")
        mask = self.rng.choice([None, 0xF0, 0xFF, 0xFFF, 0xFFFF0000])
        if mask is None or self.home == 127:
            return "%s[%d:%d] = 0x%x" % (self.link(), at, size, number)
        return "%s[%d:%d] & 0x%x = 0x%x" % (self.link(), at, size, mask, number & mask)

    def link(self):
        return "ether" if self.home == ETHERNET else "link"

    NAMED = {"icmp[icmptype]": ["icmp-echoreply", "icmp-unreach", "icmp-sourcequench",
                                "icmp-redirect", "icmp-echo", "icmp-routeradvert",
                                "icmp-routersolicit", "icmp-timxceed", "icmp-paramprob",
                                "icmp-tstamp", "icmp-tstampreply", "icmp-ireq", "icmp-ireqreply",
                                "icmp-maskreq", "icmp-maskreply"],
             "icmp[icmpcode]": ["0", "1", "3"],
             "icmp6[icmp6type]": ["icmp6-echo", "icmp6-echoreply", "icmp6-neighborsolicit",
                                  "icmp6-neighboradvert", "icmp6-routeradvert",
                                  "icmp6-routersolicit", "icmp6-destinationunreach",
                                  "icmp6-packettoobig", "icmp6-timeexceeded"],
             "icmp6[icmp6code]": ["0", "1"]}
    FLAGS = ["tcp-fin", "tcp-syn", "tcp-rst", "tcp-push", "tcp-ack", "tcp-urg", "tcp-ece", "tcp-cwr"]

    def named(self):
        what = self.pick(sorted(self.NAMED) + ["tcp[tcpflags]"] * 8, "named")
        if what != "tcp[tcpflags]":
            return "%s %s %s" % (what, self.rng.choice(["=", "!=", "="]),
                                 self.pick(self.NAMED[what]))
        flags = self.rng.sample(self.FLAGS, self.rng.randrange(1, 4))
        flags[0] = self.pick(self.FLAGS, "flag")
        return "tcp[tcpflags] & (%s) %s" % ("|".join(flags), self.rng.choice(
            ["!= 0", "= 0", "= %s" % flags[0]]))

    # composition

    WEIGHTS = {"host": 14, "host6": 5, "bare": 4, "net": 11, "port": 10, "portrange": 7, "id_list": 4,
               "ether": 5, "gateway": 1.2, "keyword": 36, "numbered": 4, "proto": 10, "size": 6,
               "llc": 9, "wlan": 0.8, "foreign": 6, "relation": 14, "exact_bytes": 8, "named": 18}

    def primitive(self):
        names = sorted(self.WEIGHTS)
        weights = [self.WEIGHTS[n] for n in names]
        if self.home in (105, 127):
            weights = [400 if n == "wlan" else w for n, w in zip(names, weights)]
        name = self.rng.choices(names, weights)[0]
        self.note(name)
        return getattr(self, name)()

    def expression(self, depth):
        if depth == 0 or self.rng.random() < 0.3:
            return self.primitive()
        if self.rng.random() < 0.18:
            return "%s%s" % (self.pick(["not ", "! "], "negation"), self.group(depth - 1))
        joint = self.pick([" and ", " or ", " && ", " || "], "joint")
        return "%s%s%s" % (self.group(depth - 1), joint, self.group(depth - 1))

    def group(self, depth):
        text = self.expression(depth)
        if " " in text and self.rng.random() < 0.6:
            self.note("parentheses")
            return "(%s)" % text
        return text

    def anchor(self):
        """What some packets are sure to match, not most of them."""
        if self.home in (105, 127):
            return "wlan host %s" % self.mac()
        return self.pick([self.host, self.bare, self.port, self.ether, self.exact_bytes])()

    def filter(self, number):
        self.used = set()
        self.home = ETHERNET
        if number % 5 == 4:
            others = [t for t in self.values.of if t != ETHERNET]
            wireless = [t for t in others if t in (105, 127)]
            if others:
                self.home = self.rng.choice(
                    wireless if wireless and self.rng.random() < 0.6 else others)
        text = self.expression(self.rng.choice([0, 1, 1, 2, 2, 3]))
        form = self.rng.random()
        # The anchor comes first: what stands behind `vlan` and its like means inner headers.
        if form < 0.72:
            text = "%s or (%s)" % (self.anchor(), text)
        elif form < 0.92:
            text = "%s and not (%s)" % (self.anchor(), text)
        self.counts.update(self.used)
        return text, self.home, frozenset(self.used)
