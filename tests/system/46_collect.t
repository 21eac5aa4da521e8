#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Flow records that exporters send: those of nfdump's and packrack's own exporter are stored as they were, what is lost
# on the way is told, and nothing that comes does harm.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands nfpcapd nfdump nfreplay sfcapd jq python3
need_programs packrack
need_data
new_lab
PACKRACK=$BUILD/packrack
CUT=$DATA/mix-gateway-hdr96-a.pcap
FULL=$DATA/mix-gateway-full-a.pcap
V=$LAB_DIR/flows
PORT=$((20000 + RANDOM % 10000))
COLLECTOR=

fresh() { # also after a step that failed
	if [ -n "$COLLECTOR" ]; then
		kill -KILL "$COLLECTOR" 2> /dev/null
		wait "$COLLECTOR"
		COLLECTOR=
	fi
	"$PACKRACK" volume create "$V" --force --size 64M > /dev/null
}
listening() {
	ss -Hlun "sport = :$PORT" | grep -q .
}
begin() { # OPTION...
	"$PACKRACK" collect --listen "127.0.0.1:$PORT" --every 1s --keep "$V" "$@" > "$LAB_DIR/out" 2> "$LAB_DIR/words" &
	COLLECTOR=$!
	poll_until 10 listening
}
end() {
	kill -TERM "$COLLECTOR" && wait "$COLLECTOR"
}
trap '[ -z "$COLLECTOR" ] || kill "$COLLECTOR" 2> /dev/null; end_labs' EXIT
exporter() { # JQ: of the first one
	"$PACKRACK" collect --keep "$V" --exporters --json | jq -e ".exporters[0] | $1"
}
arrived() { # NAME COUNT: of all exporters
	(($("$PACKRACK" collect --keep "$V" --exporters --json | jq "[.exporters[].$1] | add // 0") >= $2))
}
send() { # FILE [SKIP]: messages of an IPFIX file, without each SKIP-th; SKIP -1: in another order
	python3 - "$PORT" "$@" <<- 'END'
		import socket, struct, sys, time
		s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		data, skip, at, messages = open(sys.argv[2], "rb").read(), int((sys.argv + ["0"])[3]), 0, []
		while at < len(data):
		    n = struct.unpack(">H", data[at + 2:at + 4])[0]
		    messages.append(data[at:at + n])
		    at += n
		if skip < 0:
		    messages[1:] = [m for pair in zip(messages[2::2], messages[1::2]) for m in pair]
		for i, m in enumerate(messages):
		    if skip <= 0 or i % skip != skip - 1:
		        s.sendto(m, ("127.0.0.1", int(sys.argv[1])))
		    if i % 20 == 19:
		        time.sleep(0.005)
	END
}
stream() { # PYTHON: with data, messages, and connect()
	python3 - "$PORT" "$LAB_DIR/ipfix" "$1" <<- 'END'
		import random, socket, struct, sys, time
		data, at, messages = open(sys.argv[2], "rb").read(), 0, []
		while at < len(data):
		    n = struct.unpack(">H", data[at + 2:at + 4])[0]
		    messages.append(data[at:at + n])
		    at += n
		def connect():
		    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
		    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
		    s.settimeout(20)
		    return s
		def closed(s):
		    try:
		        return s.recv(1) == b""
		    except ConnectionResetError:
		        return True
		exec(sys.argv[3])
	END
}
columns() { # what IPFIX has of a flow, from csv
	cut -d, -f1-9,12-13,16-18,20 | LC_ALL=C sort
}

# ---- as they were ----

"$PACKRACK" flows -r "$CUT" --format ipfix > "$LAB_DIR/ipfix" 2> /dev/null
"$PACKRACK" flows -r "$CUT" --format csv 2> /dev/null | columns > "$LAB_DIR/want"
ALL=$(($(wc -l < "$LAB_DIR/want") - 1))
own_ipfix() {
	fresh && begin && send "$LAB_DIR/ipfix" && poll_until 20 arrived flows "$ALL" && end || return 1
	"$PACKRACK" flows --kept "$V" --format csv 2> "$LAB_DIR/said" | columns | diff "$LAB_DIR/want" - > "$LAB_DIR/diff"
	head -n 4 "$LAB_DIR/diff"
	[ ! -s "$LAB_DIR/diff" ] && exporter '.version == 10 and .lost == 0 and .bad == 0 and .address == "127.0.0.1"'
}
run_step "packrack's own IPFIX comes back as it was" own_ipfix
mkdir "$LAB_DIR/nf"
nfpcapd -r "$FULL" -w "$LAB_DIR/nf" -e 3600,1200 -t 86400 > /dev/null 2>&1
NF=$(find "$LAB_DIR/nf" -name 'nfcapd.2*' | head -n 1)
of_nfdump() { # FILTER: begin and end in ms, addresses, ports, packets, bytes
	TZ=UTC nfdump -r "$NF" -q -N -6 -o 'fmt:%ts,%te,%sa,%da,%sp,%dp,%pr,%pkt,%byt' "$1" | tr -d ' ' | grep -E ',(6|17),[0-9]*,[0-9]*$' | LC_ALL=C sort
}
kept_as_nfdump() {
	"$PACKRACK" flows --kept "$V" --format csv 'tcp or udp' 2> "$LAB_DIR/said" | python3 -c '
import csv, datetime, sys
def when(ns):
    return datetime.datetime.utcfromtimestamp(ns // 10 ** 9).strftime("%Y-%m-%d%H:%M:%S") + ".%03d" % (ns // 10 ** 6 % 1000)
def number(text):
    return int(text.replace(".", ""))
for r in csv.DictReader(sys.stdin):
    b = number(r["tcqtime"])
    print(",".join((when(b), when(b + number(r["duration"])), r["src_ip"], r["dst_ip"], r["src_port"], r["dst_port"], r["protocol"],
                    r["packets_sent"], r["bytes_sent"])))' | LC_ALL=C sort
}
netflow() { # VERSION FILTER
	local n
	fresh && begin || return 1
	n=$(nfdump -r "$NF" -q -N -6 -o 'fmt:%pr' "$2" | grep -c .)
	TZ=UTC nfreplay -r "$NF" -H 127.0.0.1 -p "$PORT" -v "$1" -d 200 "$2" > /dev/null 2>&1
	poll_until 20 arrived flows "$((n - 4))" || { exporter .; return 1; }
	end || return 1
	of_nfdump "$2" > "$LAB_DIR/theirs"
	kept_as_nfdump > "$LAB_DIR/ours"
	diff "$LAB_DIR/theirs" "$LAB_DIR/ours" > "$LAB_DIR/diff"
	head -n 4 "$LAB_DIR/diff"
	[ ! -s "$LAB_DIR/diff" ] && (($(wc -l < "$LAB_DIR/ours") > 2000)) && exporter ".version == $1 and .lost == 0 and .bad == 0"
}
run_step "NetFlow 5 as nfdump has it" netflow 5 ipv4
run_step "NetFlow 9 as nfdump has it" netflow 9 any

# ---- what is lost ----

lossy() { # each seventh message is lost; their records are counted exactly
	fresh && begin && send "$LAB_DIR/ipfix" 7 && poll_until 20 arrived messages 295 && end || return 1
	"$PACKRACK" flows --kept "$V" --format csv > "$LAB_DIR/out" 2> "$LAB_DIR/said"
	(($? == 3)) && grep 'lost on the way from exporters' "$LAB_DIR/said" && grep 'records or messages of exporters are lost' "$LAB_DIR/words" || return 1
	exporter ".flows + .lost >= $ALL - 60 and .flows + .lost <= $ALL and .lost > 400 and .flows == $(($(wc -l < "$LAB_DIR/out") - 1))"
}
run_step "what is lost on the way is told" lossy
late() {
	fresh && begin && send "$LAB_DIR/ipfix" -1 && poll_until 20 arrived flows $((ALL - 60)) && end && exporter '.lost == 0 and .late > 1000'
}
run_step "what comes late is not lost" late
restarted() { # of a collector that was ended, and one that was killed, the numbers go on
	fresh && begin && send "$LAB_DIR/ipfix" && poll_until 20 arrived flows "$ALL" && end && exporter '.link == 0 and .lost == 0' || return 1
	begin && kill -KILL "$COLLECTOR"
	wait "$COLLECTOR"
	begin && send "$LAB_DIR/ipfix" && poll_until 20 arrived flows $((2 * ALL)) && end &&
		exporter ".link == 0 and .restarts == 1 and .flows == 2 * $ALL and .messages == 690"
}
run_step "killed, it goes on with its exporters" restarted
elsewhere() {
	fresh && begin --from 192.0.2.0/24 && send "$LAB_DIR/ipfix" && poll_until 10 grep -q 'from elsewhere than --from' "$LAB_DIR/words" && end &&
		[ "$("$PACKRACK" collect --keep "$V" --exporters --json | jq '.exporters | length')" = 0 ]
}
run_step "only those of --from" elsewhere
junk() { # any bytes: counted; what is good is stored
	fresh && begin || return 1
	python3 - "$PORT" <<- 'END'
		import random, socket, sys
		random.seed(7)
		s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		for i in range(3000):
		    head = random.choice((b"", b"\0\x05\0\x1e", b"\0\x09\0\x02", b"\0\x0a\0\x80", b"\0\x0a"))
		    s.sendto(head + random.randbytes(random.choice((0, 3, 16, 60, 400, 9000))), ("127.0.0.1", int(sys.argv[1])))
	END
	send "$LAB_DIR/ipfix"
	poll_until 20 arrived flows "$ALL" && end && "$PACKRACK" volume check "$V" > /dev/null &&
		"$PACKRACK" collect --keep "$V" --exporters --json | jq -e '(.exporters | length) > 1 and ([.exporters[].bad] | add) > 100'
}
run_step "junk does no harm" junk

# ---- IPFIX over TCP ----

tcp() {
	fresh && begin --listen-tcp "127.0.0.1:$PORT" "$@"
}
over_tcp() { # in pieces of any length the records are those of UDP, and a connection's last ones are there
	tcp && stream '
random.seed(3)
with connect() as s:
    at = 0
    while at < len(data):
        n = random.choice((1, 2, 3, 5, 17, 400, 1500, 9000))
        s.sendall(data[at:at + n])
        at += n' && poll_until 20 arrived flows "$ALL" && end || return 1
	"$PACKRACK" flows --kept "$V" --format csv 2> "$LAB_DIR/said" | columns | diff "$LAB_DIR/want" - > "$LAB_DIR/diff"
	head -n 4 "$LAB_DIR/diff"
	[ ! -s "$LAB_DIR/diff" ] && [ ! -s "$LAB_DIR/words" ] &&
		exporter '.protocol == "ipfix/tcp" and .lost == 0 and .bad == 0 and .messages == 345 and .link == 0'
}
run_step "over TCP the records are those of UDP" over_tcp
tcp_ended() { # what has come when the collector ends is taken
	tcp --every 1m && stream 'connect().sendall(data)' && end && exporter ".flows == $ALL and .messages == 345"
}
run_step "ended, it has taken what had come" tcp_ended
tcp_lost() { # of each connection for itself; the next one begins anew
	tcp && stream '
with connect() as s:
    s.sendall(b"".join(m for i, m in enumerate(messages) if i % 7 != 6))
    s.shutdown(socket.SHUT_WR)
    assert closed(s)
with connect() as s:
    s.sendall(data)' && poll_until 20 arrived messages $((296 + 345)) && end &&
		exporter ".flows + .lost >= 2 * $ALL - 60 and .flows + .lost <= 2 * $ALL and .lost > 400 and .restarts == 1 and .link == 0" &&
		"$PACKRACK" collect --keep "$V" --exporters --json | jq -e '.exporters | length == 1'
}
run_step "what is lost of a connection is told" tcp_lost
tcp_bad() { # BYTES WORDS: the connection is closed, others go on
	tcp && stream "
a, b = connect(), connect()
b.sendall(messages[0])
a.sendall(messages[0] + messages[1] + $1)
$3
assert closed(a)
b.sendall(b''.join(messages[1:]))
b.close()" && poll_until 20 arrived flows "$ALL" && end || return 1
	cat "$LAB_DIR/words"
	[ "$(wc -l < "$LAB_DIR/words")" = 1 ] && grep "connection of 127.0.0.1:[0-9]* closed: $2" "$LAB_DIR/words" &&
		"$PACKRACK" collect --keep "$V" --exporters --json | jq -e "([.exporters[].flows] | add) > $ALL + 20 and ([.exporters[].bad] | add) == 0" &&
		{ "$PACKRACK" flows --kept "$V" > /dev/null 2> "$LAB_DIR/said"; (($? == 3)) && grep 'not complete' "$LAB_DIR/said"; }
}
run_step "tcp: a length that is none" tcp_bad 'b"\0\x0a\0\x0f" + bytes(60)' 'it sends what is no message of IPFIX' ''
run_step "tcp: another version" tcp_bad 'b"\0\x09\0\x20" + bytes(60)' 'it sends what is no message of IPFIX' ''
run_step "tcp: it breaks off" tcp_bad 'messages[2][:-1]' 'it ended within a message' 'a.shutdown(socket.SHUT_WR)'
tcp_silent() { # also one that never ends a message
	tcp --idle 1s && stream '
a, b = connect(), connect()
b.sendall(messages[0][:20])
assert closed(a) and closed(b)' && end && grep 'closed: it has sent no message for --idle' "$LAB_DIR/words"
}
run_step "tcp: silent" tcp_silent
tcp_many() { # those that have sent nothing make room; those that have keep theirs
	tcp --every 1m && stream '
silent = [connect() for _ in range(70)]
used = [connect() for _ in range(64)]
for i, s in enumerate(used):
    s.sendall(messages[0][:12] + struct.pack(">I", i) + messages[0][16:])
assert all(closed(s) for s in silent)
for s in used[1:]:
    s.sendall(messages[1][:12] + struct.pack(">I", used.index(s)) + messages[1][16:])
last = connect()
assert closed(last)
used[0].sendall(data[len(messages[0]):])
used[0].close()
' && end && cat "$LAB_DIR/words" && grep 'it has sent nothing, and others come' "$LAB_DIR/words" &&
		grep '70 more connections closed or refused' "$LAB_DIR/words" &&
		"$PACKRACK" collect --keep "$V" --exporters --json | jq -e ".exporters | length == 64 and .[0].flows == $ALL and all(.[1:][]; .messages == 2)"
}
run_step "tcp: too many" tcp_many
tcp_killed() { # it is heard again at its port
	tcp && stream 'connect().sendall(data)' && poll_until 20 arrived flows "$ALL" && kill -KILL "$COLLECTOR" || return 1
	wait "$COLLECTOR"
	begin --listen-tcp "127.0.0.1:$PORT" && stream 'connect().sendall(data)' && poll_until 20 arrived flows $((2 * ALL)) && end &&
		exporter ".link == 0 and .restarts == 1 and .flows == 2 * $ALL and .lost == 0"
}
run_step "tcp: killed, it goes on" tcp_killed
tcp_from() {
	tcp --from 192.0.2.0/24 && stream 'assert closed(connect())' && end && grep 'from elsewhere than --from' "$LAB_DIR/words"
}
run_step "tcp: only those of --from" tcp_from

# ---- sFlow ----

SFLOW=tests/system/sflow.py
sums() {
	"$PACKRACK" flows --kept "$V" --format csv > "$LAB_DIR/csv" 2> "$LAB_DIR/said"
	"$SFLOW" --sums "$LAB_DIR/csv" > "$LAB_DIR/ours"
}
taken() { # SAMPLES: of all sources, counters apart
	(($("$PACKRACK" collect --keep "$V" --exporters --json | jq '[.exporters[] | .messages] | add // 0') >= $1))
}
sampled() { # packets of both sources, summed by flow, as their own headers say; those that wait for more are there, too
	fresh && begin || return 1
	"$SFLOW" "$PORT" "$FULL" 10 > "$LAB_DIR/want" 2> "$LAB_DIR/count"
	poll_until 20 taken $((3980 + 568)) && end && sums && diff "$LAB_DIR/want" "$LAB_DIR/ours" > "$LAB_DIR/diff"
	head -n 4 "$LAB_DIR/diff"
	[ ! -s "$LAB_DIR/diff" ] && (($(wc -l < "$LAB_DIR/ours") > 700)) && "$PACKRACK" collect --keep "$V" --exporters --json | jq -e '
		(.exporters | length) == 2 and all(.exporters[]; .protocol == "sflow" and .address == "192.0.2.7" and .sampling == 10 and
		.lost == 0 and .bad == 0) and ([.exporters[].skipped] | add) > 568 and .exporters[0].dropped == 19 and .exporters[1].dropped == 0' &&
		[ "$("$PACKRACK" flows --kept "$V" --format json 2> /dev/null | jq -s 'map(.sampling) | unique == [10]')" = true ] &&
		(($(wc -l < "$LAB_DIR/csv") < 1500))
}
run_step "samples of sFlow become flows" sampled
sf_listening() {
	ss -Hlun "sport = :$((PORT + 1))" | grep -q .
}
sf_done() {
	! ss -Haun "sport = :$((PORT + 1))" | grep -q '^[A-Z]* *[1-9]'
}
as_sfcapd() { # packets of each pair of ends; its bytes are those of frames
	mkdir -p "$LAB_DIR/sf"
	sfcapd -b 127.0.0.1 -p $((PORT + 1)) -w "$LAB_DIR/sf" > /dev/null 2>&1 &
	COLLECTOR=$!
	poll_until 10 sf_listening && "$SFLOW" $((PORT + 1)) "$FULL" 10 > /dev/null 2>&1
	poll_until 10 sf_done
	end || return 1
	nfdump -R "$LAB_DIR/sf" -q -N -6 -o 'fmt:%sa,%da,%sp,%dp,%pr,%pkt,%byt' 'proto tcp or proto udp' > "$LAB_DIR/nf.csv"
	"$SFLOW" --sums "$LAB_DIR/nf.csv" | cut -d' ' -f1-6 > "$LAB_DIR/theirs"
	cut -d' ' -f1-6 "$LAB_DIR/want" | diff - "$LAB_DIR/theirs" > "$LAB_DIR/diff"
	head -n 4 "$LAB_DIR/diff"
	[ ! -s "$LAB_DIR/diff" ]
}
as_sfcapd_in_the_end() { # its socket may drop samples: then once more
	for _ in 1 2 3 4; do
		rm -rf "$LAB_DIR/sf"
		as_sfcapd && return
	done
	return 1
}
run_step "sfcapd has the same" as_sfcapd_in_the_end
samples_lost() { # killed, it has what waited; what is lost of each source is told exactly
	fresh && begin && "$SFLOW" "$PORT" "$FULL" 10 9 > /dev/null 2> "$LAB_DIR/count" && read -r all lost < "$LAB_DIR/count" || return 1
	poll_until 20 taken $((all - lost + 568 - lost / 7)) || return 1
	sums && cp "$LAB_DIR/ours" "$LAB_DIR/before" && [ -s "$LAB_DIR/before" ] && kill -KILL "$COLLECTOR"
	wait "$COLLECTOR"
	sums && cmp "$LAB_DIR/before" "$LAB_DIR/ours" && begin && end && sums && cmp "$LAB_DIR/before" "$LAB_DIR/ours" && ((lost > 400)) &&
		"$PACKRACK" collect --keep "$V" --exporters --json | jq -e "[.exporters[].lost] | add == $lost" &&
		[ ! -s "$LAB_DIR/words" ]
}
run_step "lost samples are told, and those that wait outlive a kill" samples_lost

# ---- files ----

"$PACKRACK" flows -r "$CUT" --format csv 2> /dev/null | LC_ALL=C sort > "$LAB_DIR/all"
read_back() { # FILE CUT: these columns of csv are as they were
	if ! fresh || ! "$PACKRACK" collect --read "$1" --keep "$V" > "$LAB_DIR/out" 2> "$LAB_DIR/words"; then
		cat "$LAB_DIR/words"
		return 1
	fi
	"$PACKRACK" flows --kept "$V" --format csv 2> "$LAB_DIR/said" | LC_ALL=C sort | cut -d, "-f$2" > "$LAB_DIR/got"
	cut -d, "-f$2" "$LAB_DIR/all" | diff - "$LAB_DIR/got" > "$LAB_DIR/diff"
	head -n 4 "$LAB_DIR/diff"
	[ ! -s "$LAB_DIR/diff" ] && (($(wc -l < "$LAB_DIR/got") > 4000)) && grep "$ALL flows kept" "$LAB_DIR/words"
}
for form in csv:1- json:1- zeek:1-13,19,20,22 eve:1-10,12,13,16-21 ipfix:1-10,12,13,16-18,20; do
	"$PACKRACK" flows -r "$CUT" --format "${form%:*}" > "$LAB_DIR/file" 2> /dev/null
	run_step "read back: ${form%:*}" read_back "$LAB_DIR/file" "${form#*:}"
done
parquet() {
	"$PACKRACK" flows -r "$CUT" --format csv > "$LAB_DIR/file.csv" 2> /dev/null
	tests/system/duck.py "COPY (SELECT make_timestamp_ns((tcqtime::DECIMAL(28, 9) * 1000000000)::BIGINT) AS tcqtime, * EXCLUDE (tcqtime)
		FROM read_csv('$LAB_DIR/file.csv', types = {'tcqtime': 'VARCHAR'})) TO '$LAB_DIR/file.parquet' (FORMAT parquet)" &&
		read_back "$LAB_DIR/file.parquet" 1-
}
run_step "read back: parquet" parquet
other_names() { # as others call them, and with what they have between them
	python3 - "$LAB_DIR/file.csv" <<- 'END' > "$LAB_DIR/others"
		import csv, datetime, sys
		names = {"sTime": "tcqtime", "duration": "duration", "sIP": "src_ip", "dIP": "dst_ip", "sPort": "src_port", "dPort": "dst_port",
		         "protocol": "protocol", "sbytes": "bytes_sent", "dbytes": "bytes_recv", "conn_state": "state", "spkts": "packets_sent",
		         "dpkts": "packets_recv", "flags": "flags_sent", "flags_recv": "flags_recv"}
		print(" | ".join(names))
		for r in csv.DictReader(open(sys.argv[1])):
		    second, part = r["tcqtime"].split(".")
		    r["tcqtime"] = datetime.datetime.utcfromtimestamp(int(second)).strftime("%Y/%m/%dT%H:%M:%S.") + part
		    r["flags_sent"] = "".join(c if int(r["flags_sent"]) & 1 << i else "." for i, c in enumerate("FSRPAUEC")) if second[-1] < "6" else r["flags_sent"]
		    r["protocol"] = {"6": "TCP", "17": "udp", "1": "ICMP"}.get(r["protocol"], r["protocol"])
		    print(" | ".join(r[n] for n in names.values()))
	END
	read_back "$LAB_DIR/others" 1-9,11-13,16,17,20
}
run_step "csv with other names" other_names
of_nfdump_file() { # its sums are nfdump's own; a record of no packet counts as one
	local none
	fresh && "$PACKRACK" collect --read "$NF" --keep "$V" 2> "$LAB_DIR/words" || return 1
	TZ=UTC nfdump -r "$NF" -q -N -6 -o 'fmt:%ts,%te,%sa,%da,%sp,%dp,%pr,%pkt,%byt' 'proto tcp or proto udp' | tr -d ' ' | LC_ALL=C sort > "$LAB_DIR/theirs"
	kept_as_nfdump > "$LAB_DIR/ours"
	diff "$LAB_DIR/theirs" "$LAB_DIR/ours" > "$LAB_DIR/diff"
	head -n 4 "$LAB_DIR/diff"
	none=$(nfdump -r "$NF" -q -N -o 'fmt:%pkt' | grep -c '^ *0 *$')
	[ ! -s "$LAB_DIR/diff" ] && nfdump -r "$NF" -I > "$LAB_DIR/sums" &&
		(($("$PACKRACK" flows --kept "$V" --format json 2> /dev/null | jq -s 'map(.packets_sent) | add') == $(sed -n 's/^Packets: //p' "$LAB_DIR/sums") + none)) &&
		(($("$PACKRACK" flows --kept "$V" --format json 2> /dev/null | jq -s 'map(.bytes_sent) | add') == $(sed -n 's/^Bytes: //p' "$LAB_DIR/sums"))) &&
		[ "$(nfdump -r "$NF" -q -N -6 -o 'fmt:%dp' 'proto icmp and icmp-type 3' | tr -d ' ' | sort | uniq -c)" = \
			"$("$PACKRACK" flows --kept "$V" --format eve 'icmp[icmptype] == 3' 2> /dev/null | jq -r '"\(.icmp_type).\(.icmp_code)"' | sort | uniq -c)" ]
}
run_step "a file of nfdump's" of_nfdump_file
conn_logs() { # Zeek's own, of 54 traces; their times are masked
	local f files=()
	mkdir -p "$LAB_DIR/zeek"
	for f in "$DATA"/zeek/*.conn.log; do
		sed 's/X\{10\}\.X\{6\}/1400000000.123456/g' "$f" > "$LAB_DIR/zeek/${f##*/}" && files+=(--read "$LAB_DIR/zeek/${f##*/}")
	done
	if ((${#files[@]} < 108)) || ! fresh || ! "$PACKRACK" collect "${files[@]}" --keep "$V" 2> "$LAB_DIR/words"; then
		cat "$LAB_DIR/words"
		return 1
	fi
	"$PACKRACK" flows --kept "$V" --format csv > "$LAB_DIR/csv" 2> /dev/null
	python3 - "$LAB_DIR/csv" "$LAB_DIR"/zeek/* <<- 'END' || return 1
		import collections, csv, sys
		want, got, none = collections.Counter(), collections.Counter(), 0
		def ns(x):
		    whole, _, part = x.partition(".")
		    return int(whole) * 10 ** 9 + int((part + "0" * 9)[:9])
		for path in sys.argv[2:]:
		    for line in open(path):
		        cells = line.rstrip("\n").split("\t")
		        if line.startswith("#fields"):
		            names = cells[1:]
		        if line.startswith("#"):
		            continue
		        r = {k: v for k, v in zip(names, cells) if v != "-"}
		        n = [int(r.get(k, 0)) for k in ("id.orig_p", "id.resp_p", "ip_proto", "orig_pkts", "resp_pkts", "orig_ip_bytes", "resp_ip_bytes", "orig_bytes", "resp_bytes")]
		        if n[3] + n[4] == 0:  # a flow has a packet
		            n[3], none = 1, none + 1
		        want[(ns(r["ts"]), ns(r.get("duration", "0")), r["id.orig_h"], r["id.resp_h"], r["conn_state"], *n)] += 1
		for r in csv.DictReader(open(sys.argv[1])):
		    n = [int(r[k]) for k in ("src_port", "dst_port", "protocol", "packets_sent", "packets_recv", "bytes_sent", "bytes_recv", "payload_sent", "payload_recv")]
		    got[(ns(r["tcqtime"]), ns(r["duration"]), r["src_ip"], r["dst_ip"], r["state"], *n)] += 1
		for x in want - got:
		    print("-", x)
		for x in got - want:
		    print("+", x)
		sys.exit(want != got or sum(want.values()) < 280 or none > 1)
	END
	"$PACKRACK" collect --read "$LAB_DIR/zeek/wikipedia.pcap.conn.log" --read "$LAB_DIR/file.csv" --keep "$V" 2> "$LAB_DIR/words"
	(($? == 3)) && grep 'wikipedia.*has the flows of this file already' "$LAB_DIR/words" && grep "$ALL flows kept" "$LAB_DIR/words"
}
run_step "Zeek's conn.logs; a file is taken once" conn_logs
zeek_json() {
	"$PACKRACK" flows -r "$CUT" --format zeek 2> /dev/null | python3 -c '
import json, sys
for line in sys.stdin:
    cells = line.rstrip("\n").split("\t")
    names = cells[1:] if cells[0] == "#fields" else names if "names" in globals() else []
    if not line.startswith("#"):
        print("{%s}" % ", ".join("%s: %s" % (json.dumps(k), v if k == "ts" or v.isdigit() else json.dumps(v)) for k, v in zip(names, cells) if v != "-"))' > "$LAB_DIR/file"
	read_back "$LAB_DIR/file" 1-13,19,20,22
}
run_step "conn.log in JSON" zeek_json
beside() { # files and exporters in one volume: the exporters' numbers go on
	fresh && begin && send "$LAB_DIR/ipfix" && poll_until 20 arrived flows "$ALL" && end && "$PACKRACK" collect --read "$NF" --keep "$V" 2> /dev/null &&
		exporter ".flows == $ALL and .link == 0" && begin && send "$LAB_DIR/ipfix" && poll_until 20 arrived flows $((2 * ALL)) && end &&
		exporter '.lost == 0 and .link == 0 and .messages == 690'
}
run_step "files beside exporters" beside

# ---- damaged files: a line, and nothing of them ----

damaged() { # WORDS FILE
	fresh && "$PACKRACK" collect --read "$2" --keep "$V" > "$LAB_DIR/out" 2>&1
	if (($? != 1)) || ! grep -E -- "$1" "$LAB_DIR/out" || (($(wc -l < "$LAB_DIR/out") != 1)); then
		cat "$LAB_DIR/out"
		return 1
	fi
	! "$PACKRACK" flows --kept "$V" > "$LAB_DIR/out" 2>&1 && grep -q 'keeps no flows' "$LAB_DIR/out"
}
make_bad() { # NAME SED-SCRIPT FROM
	sed "$2" "$3" > "$LAB_DIR/$1"
}
for form in csv json zeek eve; do
	"$PACKRACK" flows -r "$CUT" --format "$form" > "$LAB_DIR/good.$form" 2> /dev/null
done
make_bad short '3000s/,[^,]*$//' "$LAB_DIR/good.csv"
run_step "csv: a line lacks a column" damaged 'short: SQL: .*CSV Error on Line: 3000.*Expected Number of Columns: 22 Found: 21' "$LAB_DIR/short"
make_bad number '3000s/,[0-9]*,/,12x,/7' "$LAB_DIR/good.csv"
run_step "csv: no number" damaged 'number: record 2999: no number' "$LAB_DIR/number"
beside_damaged() { # what was read of it is not in the window of the next one
	fresh && "$PACKRACK" collect --read "$LAB_DIR/number" --read "$LAB_DIR/good.csv" --keep "$V" > "$LAB_DIR/out" 2>&1
	(($? == 3)) && grep 'number: record 2999' "$LAB_DIR/out" && "$PACKRACK" flows --kept "$V" --format csv 2> "$LAB_DIR/said" | LC_ALL=C sort | cmp - "$LAB_DIR/all"
}
run_step "a damaged file beside another one" beside_damaged
make_bad big '3000s/^\([^,]*,[^,]*,[^,]*,[^,]*\),[0-9]*/\1,65536/' "$LAB_DIR/good.csv"
run_step "csv: a port that is none" damaged 'big: record 2999: no number, or too large: src_port' "$LAB_DIR/big"
make_bad time '3000s/^[^,]*/yesterday/' "$LAB_DIR/good.csv"
run_step "csv: no time" damaged 'time: record 2999: no time: tcqtime' "$LAB_DIR/time"
make_bad address '3000s/^\([^,]*,[^,]*\),[^,]*/\1,10.0.0.256/' "$LAB_DIR/good.csv"
run_step "csv: no address" damaged 'address: record 2999: no address: src_ip' "$LAB_DIR/address"
make_bad names '1s/src_ip/whence/' "$LAB_DIR/good.csv"
run_step "csv: a column is not there" damaged 'names: record 1: no address: src_ip' "$LAB_DIR/names"
make_bad object '3000s/}$//' "$LAB_DIR/good.json"
run_step "json: a line breaks off" damaged 'object: SQL: .*in line 300[01]' "$LAB_DIR/object"
make_bad event '3000s/"start"/"begun"/' "$LAB_DIR/good.eve"
run_step "eve: no time" damaged 'event: record 3000: no time' "$LAB_DIR/event"
make_bad conn '3000s/\t[^\t]*$//' "$LAB_DIR/good.zeek"
run_step "conn.log: a line lacks a column" damaged 'conn: SQL: .*CSV Error on Line: 3000' "$LAB_DIR/conn"
for n in 17 1000 9999; do
	head -c "$n" "$LAB_DIR/ipfix" > "$LAB_DIR/cut"
	run_step "ipfix: it ends after $n bytes" damaged 'cut: no message of IPFIX at byte' "$LAB_DIR/cut"
done
head -c 9999 "$NF" > "$LAB_DIR/cut"
run_step "nfdump's: it breaks off" damaged 'cut: nfdump (cannot read it|finds no flows)' "$LAB_DIR/cut"
head -c 9999 "$LAB_DIR/file.parquet" > "$LAB_DIR/cut"
run_step "parquet: it breaks off" damaged 'cut: SQL: ' "$LAB_DIR/cut"
head -c 9999 /dev/zero > "$LAB_DIR/cut"
run_step "nothing that is known" damaged 'cut: not known what it is' "$LAB_DIR/cut"
gzip -c "$LAB_DIR/good.csv" > "$LAB_DIR/cut"
run_step "packed" damaged 'cut: not known what it is.*not packed' "$LAB_DIR/cut"
run_step "a folder" damaged 'not a file' "$LAB_DIR"
run_step "not there" damaged 'No such file' "$LAB_DIR/none"
no_duckdb() {
	PACKRACK_DUCKDB=/nowhere damaged 'scripts/install-deps --sql' "$LAB_DIR/good.csv"
}
run_step "without DuckDB: how to get it" no_duckdb

# ---- mistakes ----

run_step "nothing to listen to" says 2 'or --exporters' "$PACKRACK" collect --keep "$V"
run_step "nowhere to keep" says 2 'use --keep VOLUME' "$PACKRACK" collect --listen 2055
for place in here 97537 '[::1:2055' ::1:2055 0 2055x :2055 '[0000:0000:0000:0000:0000:0000:127.100.100.100]junk:2055'; do
	run_step "no place: $place" says 1 'not an address' "$PACKRACK" collect --listen "$place" --keep "$V"
done
interrupted_reading() { # a program that it waits for gets the ^C alone
	mkdir "$LAB_DIR/bin" && printf '#!/bin/sh\necho > %q\nexec sleep 100\n' "$LAB_DIR/reads" > "$LAB_DIR/bin/nfdump" && chmod 755 "$LAB_DIR/bin/nfdump" || return 1
	printf '\x0c\xa5nfdump' > "$LAB_DIR/some.nf"
	PATH=$LAB_DIR/bin:$PATH env --default-signal=INT setsid "$PACKRACK" collect --read "$LAB_DIR/some.nf" --read "$LAB_DIR/some.nf" --keep "$V" > "$LAB_DIR/out" 2>&1 &
	local pid=$! rc=0
	poll_until 20 test -e "$LAB_DIR/reads" && kill -INT -- -"$pid" || return 1
	wait "$pid" || rc=$?
	cat "$LAB_DIR/out"
	((rc == 130))
}
run_step "interrupted while nfdump reads" interrupted_reading
run_step "a full disk for its list" says 1 'cannot print' bash -c "'$PACKRACK' collect --exporters --keep '$V' > /dev/full"
run_step "an address of somebody else" says 1 'Cannot assign' "$PACKRACK" collect --listen 192.0.2.77:2055 --keep "$V"
run_step "a volume that is not there" says 1 'No such file' "$PACKRACK" collect --listen "127.0.0.1:$PORT" --keep "$LAB_DIR/none"
run_step "no network" says 2 'not a network' "$PACKRACK" collect --listen "$PORT" --from here --keep "$V"
done_testing
