#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Statements over kept flows, of all forms that a WHERE has, each with an answer of one row: for 45_kept_flows.t, which
asks them with what they ask for pushed down, and without.

kept_statements.py SEED COUNT < FLOWS.csv      rows of flows, as `packrack sql --format csv` prints them
"""
import csv
import random
import sys

rows = list(csv.DictReader(sys.stdin))
r = random.Random(int(sys.argv[1]))
NUMBERS = ["src_port", "dst_port", "protocol", "bytes_sent", "bytes_recv", "packets_sent", "payload_recv", "flags_sent", "vlan",
           "link", "missing", "sampling"]


def value(column):
    return r.choice(rows)[column] or "5"


def number(column):
    n = value(column)
    return r.choice([n, n, n, n, "-1", "0", "70000", "9000000000000", n + ".5", "'%s'" % n, "%s::int" % n, "null", "1 + 1"])


def time_of(column):
    t = r.choice([value(column), value(column), "2024-03-06 08:00:00.5", "2024-03-06 09:10:00"]) + r.choice([""] * 9 + ["+02", "-05:30", "Z"])
    return r.choice(["'%s'" % t, "timestamp '%s'" % t, "'%s'::timestamp_ns" % t, "'%s'::timestamptz" % t, "'%s'" % t[:16], "timestamp '%s' + interval 1 second" % t])


def simple(p):
    kind = r.randrange(9)
    if kind < 3:
        c = r.choice(["src_ip", "dst_ip"])
        v = r.choice([value(c)] * 6 + [value("dst_ip"), "10.0.0.01", "FE80::1", "x'y", ""]).replace("'", "''")
        return r.choice(["%s%s = '%s'", "%s%s = '%s'", "%s%s <> '%s'", "%s%s > '%s'", "%s%s = '%s' || ''", "%s%s is distinct from '%s'",
                         "%s%s like '%s'"]) % (p, c, v)
    if kind == 3:
        c = r.choice(["src_ip", "dst_ip"])
        return "%s%s %sin (%s)" % (p, c, r.choice(["", "", "not "]), ", ".join("'%s'" % value(c) for _ in range(r.randrange(1, 30))))
    if kind == 4:
        c = r.choice(NUMBERS)
        return "%s%s %sin (%s)" % (p, c, r.choice(["", "", "not "]), ", ".join(number(c) for _ in range(r.randrange(1, 5))))
    if kind == 5:
        c = r.choice(["tcqtime", "last"])
        return r.choice(["{p}{c} >= {a}", "{p}{c} < {a}", "{a} <= {p}{c}", "{p}{c} between {a} and {b}", "{p}{c} = {a}",
                         "{p}{c} not between {a} and {b}"]).format(p=p, c=c, a=time_of(c), b=time_of(c))
    if kind == 6:
        return r.choice(["true", "false", "null", "outgoing", "state = 'S0'", "state in ('SF', 'OTH')", "duration > 1", "uid < 'D'",
                         "(src_ip, dst_port) = ('%s', %s)" % (value("src_ip"), value("dst_port")),
                         "case when dst_port = 80 then src_ip = '%s' else protocol = 17 end" % value("src_ip"),
                         "prefix(src_ip, 16) = '10.0.0.0/16'", "within(dst_ip, '10.0.0.0/8')",
                         "src_ip in (select dst_ip from (values ('%s')) v(dst_ip))" % value("src_ip"),
                         "coalesce(vlan, 0) = 0", "vlan is null", "dst_port::varchar = '80'", "(dst_port = 80) = (src_port > 1024)"])
    c = r.choice(NUMBERS)
    if kind == 7:
        return "%s%s between %s and %s" % (p, c, number(c), number(c))
    return r.choice(["{p}{c} {o} {n}", "{n} {o} {p}{c}"]).format(p=p, c=c, n=number(c), o=r.choice(["=", "=", "<", ">", "<=", ">=", "<>"]))


def condition(p, depth):
    if depth == 0 or r.random() < 0.3:
        return simple(p)
    kind = r.randrange(5)
    if kind == 0:
        return "not (%s)" % condition(p, depth - 1)
    return "(%s)" % r.choice([" and ", " and ", " or "]).join(condition(p, depth - 1) for _ in range(r.randrange(2, 4)))


def summed():
    """Sums by keys, whose rows may come as one from each batch, or must not; the answer is one row."""
    keys = r.sample(["src_ip", "dst_ip", "outgoing", "dst_port", "protocol", "state", "vlan", "link", "flags_sent", "prefix(src_ip, 16)", "hash(src_ip, dst_ip)",
                     "if(outgoing, src_ip, dst_ip)", "concat_ws(' ', src_ip, dst_port)", "bytes_sent", "tcqtime", "missing", "sampling",
                     "uid", "last", "community_id", "tcqtime.second()", "duration > 1", "bytes_sent.hash() % 3", "dst_port.max() over (partition by src_ip)"],
                    r.randrange(0, 4))
    sums = r.choices(["sum(bytes_sent)", "sum(bytes_sent + bytes_recv)::ubigint", "sum((bytes_sent + packets_recv)::hugeint)", "sum(payload_recv)",
                      "sum(packets_sent) filter (where dst_port = 443)", "max(dst_port)", "min(src_ip)", "max(last)", "min(uid)", "max(dst_port, 3)",
                      "max(outgoing)", "flows.sum(bytes_recv)", "min(duration)", "max(vlan)", "tcqtime.max()", "bytes_sent.max()"], k=r.randrange(0, 3))
    sums += r.choices(["count(*)", "count(vlan)", "sum(distinct bytes_sent)", "count(distinct dst_ip)", "sum(dst_port)", "max(bytes_sent)", "min(tcqtime)"], k=r.random() < 0.2)
    where = [r.choice(["tcqtime >= %s" % time_of("tcqtime"), "tcqtime < %s" % time_of("tcqtime"), "not outgoing", "outgoing", "true", "tcqtime >= '2024-03-06 08:00:00'",
                       "tcqtime < '2024-03-07' or tcqtime >= %s" % time_of("tcqtime"), simple(""), condition("", 1)])
             for _ in range(r.randrange(0, 4))]
    having = r.choice(["", "", " having sum(bytes_sent) > 1000", " having count(*) > 1"]) if sums else ""
    group = " group by all" + having if keys and (sums or r.random() < 0.5) else having if not keys else ""
    distinct = "distinct " if r.random() < 0.2 or (keys and not group) else ""
    return "select count(*) n, bit_xor(hash(q)) h from (select %s%s from flows%s%s) q" % (
        distinct, ", ".join(keys + sums) or "sum(bytes_recv)", " where " + " and ".join(where) if where else "", group)


GOT = "count(*) n, sum(bytes_sent) b, min(uid) a, max(uid) z"
for _ in range(int(sys.argv[2])):
    w, w2 = condition("", 2), condition("", 1)
    print(r.choice([summed(), summed(), summed(), summed(), summed(),
        "select {g} from flows where {w}", "select {g} from flows where {w}", "select {g} from flows where {w}",
        "select {g} from FLOWS f where %s" % condition("f.", 2), "select {g} from main.flows where %s" % condition("flows.", 2),
        'select {g} from "flows" where {w} and "src_port" > 1000',
        "with x as (select * from flows where {w}) select {g} from x where {v}",
        "with flows as (select * from flows where {w}) select {g} from flows where {v}",
        "with x as (select * from flows where {w}) select count(*) n, count(distinct x.uid) from x, x y where x.uid = y.uid",
        "select {g} from (select * from flows where {w} union all select * from flows where {v})",
        "select {g} from (select * from flows where {w} limit 100000) where {v}",
        "select count(*) n, sum(a.bytes_sent) from flows a join flows b on a.uid = b.uid where %s and %s" % (condition("a.", 1), condition("b.", 1)),
        "select count(*) n, sum(a.bytes_sent) from flows a left join flows b on a.uid = b.uid and %s where %s" % (condition("b.", 1), condition("a.", 1)),
        "select count(*) n, sum(q.s) from flows f, lateral (select f.bytes_sent s) q where %s" % condition("f.", 1),
        "select {g} from flows where uid in (select uid from flows where {w})",
        "select {g} from flows where {w} and bytes_sent > (select avg(bytes_sent) from flows)",
        "select {g} from flows f(a1, a2, src_ip, dst_ip) where {w}".replace("{w}", "src_ip = '%s'" % value("src_ip")),
        "select {g} from flows f(a1, a2, dst_ip, src_ip) where src_ip = '%s'" % value("src_ip"),
        "select count(*) n, min(src_ip) from (select 'x' as src_ip from flows where src_ip = '%s')" % value("src_ip"),
        "select {g} from (select * from flows) where {w}", "select {g} from (from flows where {w}) flows where {v}",
        "select {g} from query_table('flows') where {w}",
        "select {g} from (from flows where {w} union all from query('from flows')) where {v}",
        "select count(*) filter (where {v}) n, {g} from flows where {w}", "select {g} from flows where {w} having count(*) > 2",
        "select count(*) n from (select src_ip from flows where {w} group by src_ip)",
        "select count(*) n, (select count(*) from flows) from flows where {w}",
        "select count(*) n from (select * from flows using sample 50% (system, 1)) where 1 = 0 and {w}",
        "select count(*) n, exists (from flows where {w}) from flows",
    ]).format(g=GOT, w=w, v=w2).replace("\n", " ") + ";")
