# SPDX-License-Identifier: Apache-2.0
"""A list of watched addresses, `host a or host b or ...`, over which libpcap takes time that grows with the
square of their number, is compiled in parts. As indexer/filter/filter_split.c does it, by the same rules."""
import re

PART = 16   # terms in a part, at most
LEAST = 48  # with fewer terms a filter stays whole
WORD = re.compile(r"[()]|[^ \t\r\n()]+", re.A)
PLAIN = re.compile(r"[()]|[a-zA-Z0-9.:/_-]+", re.A)
WITHIN = re.compile(r"[()]|[][=a-zA-Z0-9.:/_-]+", re.A)  # parentheses
SHIFTS = {"vlan", "mpls", "pppoed", "pppoes", "geneve", "vxlan"}
BEGINS = {"host", "net", "port", "portrange", "src", "dst", "ip", "ip6", "arp", "rarp", "tcp", "udp", "sctp",
          "icmp", "icmp6", "ether"}
JA, PART_MARK = 0x05, (0x05, 1, 0, 0)
RET_K = 0x06


def begins_term(words, at):
    while at < len(words) and words[at][0] in ("(", "not"):
        at += 1
    return at < len(words) and words[at][0] in BEGINS


def find_cuts(text):
    """(begin, end) of each `or` that it may be cut at."""
    words = [(m[0], m.start(), m.end()) for m in WORD.finditer(text)]
    cuts, depth = [], 0
    for at, (word, begin, end) in enumerate(words):
        if not (WITHIN if depth else PLAIN).fullmatch(word) or word in SHIFTS:
            return []
        depth += (word == "(") - (word == ")")
        if depth < 0 or depth == 0 and word == "and":
            return []
        if depth == 0 and word == "or" and begins_term(words, at + 1):
            cuts.append((begin, end))
    return cuts if depth == 0 else []


def split(text):
    """The parts; [] where it stays whole."""
    cuts = find_cuts(text)
    if len(cuts) < LEAST:
        return []
    parts, at = [], 0
    for begin, end in cuts[PART - 1::PART]:
        parts.append(text[at:begin])
        at = end
    return parts + [text[at:]]


def join(programs):
    """One program: where one of them says no, it goes on with the next."""
    whole = []
    for program in programs:
        end = len(whole)
        for at, (code, _, _, k) in enumerate(whole):
            if code == RET_K and k == 0:
                whole[at] = (JA, 0, 0, end - at - 1)
        if whole:
            whole.append(PART_MARK)
        whole += program
    return whole
