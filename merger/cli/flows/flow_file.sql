-- SPDX-License-Identifier: Apache-2.0
-- What flow_file.c asks DuckDB with: FROM told('a query that gives the rows of a file, as text').

-- ---- from text to numbers. NULL: it is not told; -1, or the least time: it is none ----

CREATE MACRO u(x) AS nullif(nullif(nullif(trim(x), ''), '-'), '(empty)');
CREATE MACRO whole(x) AS CASE WHEN x IS NOT NULL THEN coalesce(try_cast(x AS BIGINT), -1) END;
-- a number
CREATE MACRO n(x) AS whole(u(x));
-- a port; of ICMP nfdump has the type and the code there: 3.1
CREATE MACRO d(x) AS CASE WHEN contains(x, '.')
    THEN 65536 + 256 * n(split_part(x, '.', 1)) + n(split_part(x, '.', 2)) ELSE n(x) END;
-- seconds, or other units of k ns, in ns. Decimals of so many digits take DuckDB ten times as long: only for 1.2e-05.
CREATE MACRO whole_part(x) AS try_cast(split_part(u(x), '.', 1) AS BIGINT);
CREATE MACRO ns(x, k) AS coalesce(CASE WHEN contains(x, 'e')
    THEN try_cast(try_cast(u(x) AS DECIMAL(28, 9)) * k AS BIGINT)
    ELSE try(whole_part(x) * k + CASE WHEN contains(x, '.') THEN
    (try_cast(rpad(left(split_part(u(x), '.', 2), 9), 9, '0') AS BIGINT) // (1000000000 // k)) *
    CASE WHEN starts_with(u(x), '-') THEN -1 ELSE 1 END ELSE 0 END) END, -9223372036854775808)::BIGINT;
CREATE MACRO s(x) AS CASE WHEN u(x) IS NOT NULL THEN ns(x, 1000000000) END;
-- a time: seconds, or as many digits as ms, us, ns have; or a date and a time
CREATE MACRO t(x) AS CASE WHEN u(x) IS NOT NULL THEN CASE
    WHEN whole_part(x) BETWEEN -99999999999 AND 99999999999 THEN ns(x, 1000000000)
    WHEN whole_part(x) BETWEEN -99999999999999 AND 99999999999999 THEN ns(x, 1000000)
    WHEN whole_part(x) BETWEEN -99999999999999999 AND 99999999999999999 THEN ns(x, 1000)
    WHEN whole_part(x) IS NOT NULL THEN whole_part(x)
    ELSE coalesce(epoch_ns(try_cast(replace(u(x), '/', '-') AS TIMESTAMP_NS)), -9223372036854775808) END END;
-- a protocol
CREATE MACRO p(x) AS whole(coalesce(map {'icmp': '1', 'igmp': '2', 'tcp': '6', 'udp': '17', 'gre': '47', 'esp': '50',
    'ah': '51', 'icmp6': '58', 'ipv6-icmp': '58', 'ospf': '89', 'pim': '103', 'vrrp': '112', 'sctp': '132',
    'unknown_transport': '255'}[lower(u(x))], u(x)));
-- flags of TCP
CREATE MACRO f(x) AS coalesce(try_cast(u(x) AS BIGINT), CASE WHEN regexp_full_match(u(x), '[.A-Z]+') THEN
    contains(x, 'F')::BIGINT + contains(x, 'S')::BIGINT * 2 + contains(x, 'R')::BIGINT * 4 +
    contains(x, 'P')::BIGINT * 8 + contains(x, 'A')::BIGINT * 16 + contains(x, 'U')::BIGINT * 32 +
    contains(x, 'E')::BIGINT * 64 + contains(x, 'C')::BIGINT * 128
    WHEN u(x) IS NOT NULL THEN -1 END);

-- ---- from a file's columns to those that flow_file.c takes, in its order; the man page lists the names ----

CREATE TABLE none (tcqtime TEXT, ts TEXT, stime TEXT, start TEXT, first TEXT, firstseen TEXT, first_seen TEXT,
    start_time TEXT, last TEXT, te TEXT, ltime TEXT, etime TEXT, "end" TEXT, lastseen TEXT, last_seen TEXT, end_time TEXT,
    duration TEXT, td TEXT, dur TEXT, src_ip TEXT, sa TEXT, srcaddr TEXT, saddr TEXT, sip TEXT, srcip TEXT, source_ip TEXT,
    src TEXT, "id.orig_h" TEXT, dst_ip TEXT, da TEXT, dstaddr TEXT, daddr TEXT, dip TEXT, dstip TEXT, dest_ip TEXT,
    destination_ip TEXT, dst TEXT, "id.resp_h" TEXT, state TEXT, conn_state TEXT, src_port TEXT, sp TEXT, srcport TEXT,
    sport TEXT, source_port TEXT, "id.orig_p" TEXT, dst_port TEXT, dp TEXT, dstport TEXT, dport TEXT, dest_port TEXT,
    destination_port TEXT, "id.resp_p" TEXT, protocol TEXT, ip_proto TEXT, pr TEXT, proto TEXT, bytes_sent TEXT, ibyt TEXT,
    bytes TEXT, byt TEXT, sbytes TEXT, inbytes TEXT, in_bytes TEXT, octets TEXT, orig_ip_bytes TEXT, bytes_recv TEXT,
    obyt TEXT, dbytes TEXT, outbytes TEXT, out_bytes TEXT, resp_ip_bytes TEXT, packets_sent TEXT, ipkt TEXT, packets TEXT,
    pkt TEXT, spkts TEXT, inpackets TEXT, in_packets TEXT, orig_pkts TEXT, packets_recv TEXT, opkt TEXT, dpkts TEXT,
    outpackets TEXT, out_packets TEXT, resp_pkts TEXT, payload_sent TEXT, orig_bytes TEXT, payload_recv TEXT,
    resp_bytes TEXT, flags_sent TEXT, flg TEXT, flags TEXT, tcp_flags TEXT, flags_recv TEXT, vlan TEXT, svln TEXT,
    link TEXT, sampling TEXT, missing TEXT, missed_packets TEXT);
CREATE MACRO told(source) AS TABLE SELECT
    t(coalesce(tcqtime, ts, stime, start, first, firstseen, first_seen, start_time)),
    t(coalesce(last, te, ltime, etime, "end", lastseen, last_seen, end_time)),
    s(coalesce(duration, td, dur)),
    u(coalesce(src_ip, sa, srcaddr, saddr, sip, srcip, source_ip, src, "id.orig_h")),
    u(coalesce(dst_ip, da, dstaddr, daddr, dip, dstip, dest_ip, destination_ip, dst, "id.resp_h")),
    u(coalesce(state, conn_state)),
    n(coalesce(src_port, sp, srcport, sport, source_port, "id.orig_p")),
    d(coalesce(dst_port, dp, dstport, dport, dest_port, destination_port, "id.resp_p")),
    p(coalesce(protocol, ip_proto, pr, proto)),
    n(coalesce(bytes_sent, ibyt, bytes, byt, sbytes, inbytes, in_bytes, octets, orig_ip_bytes)),
    n(coalesce(bytes_recv, obyt, dbytes, outbytes, out_bytes, resp_ip_bytes)),
    n(coalesce(packets_sent, ipkt, packets, pkt, spkts, inpackets, in_packets, orig_pkts)),
    n(coalesce(packets_recv, opkt, dpkts, outpackets, out_packets, resp_pkts)),
    n(coalesce(payload_sent, orig_bytes)),
    n(coalesce(payload_recv, resp_bytes)),
    f(coalesce(flags_sent, flg, flags, tcp_flags)),
    f(flags_recv),
    n(coalesce(vlan, svln)),
    n(link),
    n(sampling),
    n(coalesce(missing, missed_packets))
    FROM (FROM none UNION ALL BY NAME FROM query(source));

-- ---- rows of files ----

-- names as they stand in the head: of them quotes, and spaces at their ends, are left out; with a mark of comments all lines are data
CREATE MACRO columns_of(names) AS to_json(map(names, list_transform(names, lambda x: 'VARCHAR')));
CREATE MACRO names_of(head, separator) AS
    columns_of(list_transform(string_split(head, separator), lambda x: trim(x, ' "')));
CREATE MACRO csv_rows(file, head, separator, quotes, mark) AS TABLE
    FROM read_csv(file, auto_detect = false, header = (mark = ''), delim = separator, quote = quotes, escape = quotes,
        comment = mark, columns = json_transform(names_of(head, separator), names_of(head, separator)));

-- an object a line
SET VARIABLE names = (SELECT json_group_object(column_name, 'VARCHAR') FROM duckdb_columns() WHERE table_name = 'none');
CREATE MACRO json_rows(file) AS TABLE
    SELECT unnest(json_transform(json, getvariable('names'))) FROM read_ndjson_objects(file);
-- Suricata's events of flows: docs.suricata.io, EVE JSON format
CREATE MACRO eve_rows(file) AS TABLE
    SELECT json->>'$.src_ip' AS src_ip, json->>'$.dest_ip' AS dst_ip,
        coalesce(json->>'$.src_port', json->>'$.icmp_type') AS src_port,
        coalesce(json->>'$.dest_port', json->>'$.icmp_code') AS dst_port, json->>'$.proto' AS proto,
        json->>'$.flow.start' AS tcqtime, json->>'$.flow.end' AS last, json->>'$.vlan[0]' AS vlan,
        json->>'$.flow.bytes_toserver' AS bytes_sent, json->>'$.flow.bytes_toclient' AS bytes_recv,
        json->>'$.flow.pkts_toserver' AS packets_sent, json->>'$.flow.pkts_toclient' AS packets_recv,
        '0x' || (json->>'$.tcp.tcp_flags_ts') AS flags_sent, '0x' || (json->>'$.tcp.tcp_flags_tc') AS flags_recv
    FROM read_ndjson_objects(file) WHERE json->>'$.event_type' = 'flow';
CREATE MACRO parquet_rows(file) AS TABLE SELECT COLUMNS(*)::VARCHAR FROM read_parquet(file);
