#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Flow records equal those of Zeek, nfdump and the Community ID's specification; over nodes they are those of the trace
# itself, in each way of spreading, and say so when something is missing; sums add up.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands nfpcapd nfcapd nfdump capinfos python3 jq
need_programs packrack packrack-flows-form packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
new_lab
export PACKRACK=$BUILD/packrack
PEERS=tests/system/flow_peers.py
FULL=$DATA/mix-gateway-full-a.pcap
CUT=$DATA/mix-gateway-hdr96-a.pcap

# ---- peers ----

run_step "Community IDs are those of the specification" "$PEERS" community-id "$DATA/community-id"
run_step "records are those of Zeek's conn.log" "$PEERS" zeek "$DATA/zeek"
as_nfdump() {
	local traces
	mapfile -t traces < <(find "$DATA" -name 'my-pcaps__snmp_usm.pcap' -o -name 'packets__ip_frag_source.pcapng' -o -name 'pcaps__TCP_SYN_SCAN.pcap')
	((${#traces[@]} == 3)) || return 1
	"$PEERS" nfdump "$FULL" "$CUT" "$DATA/mta-1year-hdr96-a.pcap" "${traces[@]}"
}
run_step "flows are nfdump's" as_nfdump

run_step "nfcapd takes them by IPFIX" "$PEERS" ipfix "$CUT"

# ---- sums and forms ----

sums_add_up() { # FILTER
	"$PACKRACK" flows -r "$CUT" --format csv "$1" > "$LAB_DIR/all.csv" 2> "$LAB_DIR/all.txt" &&
		"$PACKRACK" flows -r "$CUT" --format json --by src/16,proto,state "$1" > "$LAB_DIR/by.json" 2> "$LAB_DIR/by.txt" ||
		return 1
	python3 - "$LAB_DIR" <<- 'END'
		import collections, csv, ipaddress, json, sys
		names = {1: "icmp", 2: "igmp", 6: "tcp", 17: "udp", 47: "gre", 50: "esp", 51: "ah", 58: "icmp6", 89: "ospf", 103: "pim", 112: "vrrp", 132: "sctp"}
		want = collections.defaultdict(lambda: [0] * 5)
		for r in csv.DictReader(open(sys.argv[1] + "/all.csv")):
		    p = int(r["protocol"])
		    src = ipaddress.ip_network(r["src_ip"] + "/16", False)
		    k = want[str(src), names.get(p, str(p)), r["state"]]
		    for i, n in enumerate([1] + [int(r[x]) for x in ("packets_sent", "packets_recv", "bytes_sent", "bytes_recv")]):
		        k[i] += n
		rows = [json.loads(line) for line in open(sys.argv[1] + "/by.json")]
		have = {(r["src/16"], r["proto"], r["state"]): [r[x] for x in ("flows", "packets_sent", "packets_recv", "bytes_sent", "bytes_recv")] for r in rows}
		sizes = [r["bytes_sent"] + r["bytes_recv"] for r in rows]
		print(len(have), "rows", set(have) ^ set(want))
		sys.exit(not (have == dict(want) and sizes == sorted(sizes, reverse=True) and len(have) > 10))
	END
}
run_step "sums by keys are the flows' own" sums_add_up ""
run_step "with a filter, too" sums_add_up "tcp and packets > 3 or udp port 53"

largest() {
	"$PACKRACK" flows -r "$CUT" --format csv 2> /dev/null | tail -n +2 | awk -F, '{ print $8 + $9 }' | sort -rn | head -n 7 > "$LAB_DIR/want"
	"$PACKRACK" flows -r "$CUT" --format csv --top 7 2> /dev/null | tail -n +2 | awk -F, '{ print $8 + $9 }' | diff "$LAB_DIR/want" -
}
run_step "the largest come first" largest
all_packets() { # flows + what is not IP = the packets
	"$PACKRACK" flows -r "$CUT" --format csv 2> "$LAB_DIR/said" |
		awk -F, 'NR > 1 { n += $12 + $13 } END { print n }' > "$LAB_DIR/flows"
	local packets not_ip
	read -r packets not_ip < <(sed -n 's/.*; \([0-9]*\) packets, \([0-9]*\) of them not IP/\1 \2/p' "$LAB_DIR/said")
	(($(cat "$LAB_DIR/flows") + not_ip == packets && packets == $(tcpdump -r "$CUT" --count 2> /dev/null | awk '{ print $1 + 0 }')))
}
run_step "each packet is in a flow, or is not IP" all_packets
forms() {
	local all
	all=$("$PACKRACK" flows -r "$CUT" 2> /dev/null | wc -l)
	[ "$("$PACKRACK" flows -r "$CUT" --format json 2> /dev/null | jq -es 'length')" = "$all" ] &&
		[ "$("$PACKRACK" flows -r "$CUT" --format eve 2> /dev/null | jq -es '[.[] | select(.event_type == "flow" and .flow.start <= .flow.end and .community_id)] | length')" = "$all" ] &&
		[ "$("$PACKRACK" flows -r "$CUT" --format zeek 2> /dev/null | grep -vc '^#')" = "$all" ]
}
run_step "all forms have all flows" forms
flow_ids() { # one for each flow, the same each time, and exact as a double
	local n
	for n in 1 2; do
		"$PACKRACK" flows -r "$CUT" --format eve 2> /dev/null | jq -c '[.flow_id, .community_id, .flow.start]' > "$LAB_DIR/ids$n"
	done
	cmp "$LAB_DIR/ids1" "$LAB_DIR/ids2" && jq -se 'map(.[0]) | length > 1000 and length == (unique | length) and all(. < 9007199254740992) and any(. > 4503599627370496)' "$LAB_DIR/ids1"
}
run_step "a flow has one flow_id" flow_ids
of_no_flows() { # what a form begins with
	local none=("$PACKRACK" flows -r "$CUT" 'port 1 and port 2')
	[ "$("${none[@]}" --format zeek 2> /dev/null | grep -c '^#')" = 7 ] && [ -z "$("${none[@]}" --format eve 2> /dev/null)" ] &&
		[ "$("${none[@]}" --format ipfix 2> /dev/null | od -An -tu2 --endian=big -j2 -N2 | tr -d ' ')" = 196 ]
}
run_step "forms of no flows" of_no_flows
outgoing() {
	"$PACKRACK" flows -r "$CUT" --inside 10.0.0.0/8 --inside 192.168.0.0/16 --format json 2> /dev/null |
		jq -es 'map(select(.outgoing)) | length > 0 and all((.src_ip | test("^(10\\.|192\\.168\\.)")) and (.dst_ip | test("^(10\\.|192\\.168\\.)") | not))'
}
run_step "who is inside" outgoing

# ---- packets of flows ----

packets_of_flows() { # FILTER OPTION...: as many as the flows have, and the flows are in them again
	local want
	"$PACKRACK" flows -r "$CUT" --format csv "${@:2}" "$1" 2> /dev/null | cut -d, -f3-13,20 | LC_ALL=C sort > "$LAB_DIR/of.csv"
	"$PACKRACK" flows -r "$CUT" "${@:2}" --packets -w "$LAB_DIR/of.pcapng" "$1" > "$LAB_DIR/said" 2>&1 || { cat "$LAB_DIR/said"; return 1; }
	want=$(awk -F, '{ n += $10 + $11 } END { print n }' "$LAB_DIR/of.csv")
	((want > 10 && $(tcpdump -r "$LAB_DIR/of.pcapng" --count 2> /dev/null | awk '{ print $1 + 0 }') == want)) || return 1
	"$PACKRACK" flows -r "$LAB_DIR/of.pcapng" --format csv 2> /dev/null | cut -d, -f3-13,20 | LC_ALL=C sort | diff "$LAB_DIR/of.csv" - | head -n 5
	((PIPESTATUS[3] == 0))
}
run_step "packets of flows" packets_of_flows 'tcp and state = S0 or duration > 100s'
run_step "of the largest" packets_of_flows tcp --top 3
flows_of_standard_output() {
	[ "$("$PACKRACK" flows -r "$CUT" --top 3 --packets -w - tcp 2> /dev/null | tcpdump -r - --count 2> /dev/null | awk '{ print $1 + 0 }')" = \
		"$(tcpdump -r "$LAB_DIR/of.pcapng" --count 2> /dev/null | awk '{ print $1 + 0 }')" ]
}
run_step "to standard output" flows_of_standard_output

# ---- what is wrong is said in a line ----

run_step "-w without --packets" says 2 'the one does not go' "$PACKRACK" flows -r "$CUT" -w "$LAB_DIR/x.pcapng"
run_step "packets of sums" says 2 'not of sums' "$PACKRACK" flows -r "$CUT" --by src --packets -w "$LAB_DIR/x.pcapng"

run_step "a filter of packets' lengths" says 2 'use bytes' "$PACKRACK" flows -r "$CUT" 'greater 100'
run_step "a state that there is not" says 2 "state 'XX'" "$PACKRACK" flows -r "$CUT" 'state = XX'
run_step "a key that there is not" says 2 'there are src' "$PACKRACK" flows -r "$CUT" --by src,foo
run_step "a network that is none" says 2 'not a network' "$PACKRACK" flows -r "$CUT" --inside 10.0.0/8
for bits in +8 ' 8' -0 '' 33 8x; do
	run_step "a network of '$bits' bits" says 2 'the prefix has 0 to 32 bits' "$PACKRACK" flows -r "$CUT" --inside "10.0.0.0/$bits"
	run_step "sums by '$bits' bits" says 2 'there are src' "$PACKRACK" flows -r "$CUT" --by "src/0$bits"
done
run_step "sums in a form of records" says 2 'text, csv or json' "$PACKRACK" flows -r "$CUT" --by src --format zeek
run_step "an idle time-out of less than a slice" says 2 'idle' "$PACKRACK" flows -r "$CUT" --idle 500ms

run_step "a limit of sums" says 2 'top limits' "$PACKRACK" flows -r "$CUT" --by src --limit 3
run_step "the largest of nothing" says 2 'by what' "$PACKRACK" flows -r "$CUT" --of packets
run_step "a pipe cannot be read twice" says 2 'read twice' "$PACKRACK" flows -r - --packets -w "$LAB_DIR/x.pcapng"
run_step "a key that is there twice" says 2 'twice' "$PACKRACK" flows -r "$CUT" --by src,src
run_step "more attributes than there is room for" says 2 'at most 32' "$PACKRACK" flows -r "$CUT" \
	"$(printf 'bytes > %d or ' {1..32}) bytes > 33"
any_number() { # of the largest: more than can be
	[ "$("$PACKRACK" flows -r "$CUT" --top 9223372036854775808 --format json 2> /dev/null | wc -l)" = \
		"$("$PACKRACK" flows -r "$CUT" --format json 2> /dev/null | wc -l)" ]
}
run_step "as many of the largest as there are" any_number
pings() { # a ping that was answered is an echo request
	local all
	all=$("$PACKRACK" flows -r "$CUT" --format eve 'icmp[icmptype] = 8' 2> /dev/null | jq -s 'map(select(.icmp_type == 8)) | length')
	((all >= 20)) && [ "$("$PACKRACK" flows -r "$CUT" --format json 'icmp' 2> /dev/null | jq -s 'map(select(.src_port == 8)) | length')" = "$all" ]
}
run_step "pings with and without an answer" pings
a_reader_goes() {
	"$PACKRACK" flows -r "$CUT" --format json 2> "$LAB_DIR/err" | head -n 1
	((PIPESTATUS[0] == 0))
}
run_step "a reader that goes" a_reader_goes

# ---- forms that another program writes ----

each_form() { # COMMAND...: for each of them
	local form
	for form in zeek eve ipfix; do
		"$@" "$form" || { echo "$form"; return 1; }
	done
}
form_reader_goes() { # FORM
	"$PACKRACK" flows -r "$CUT" --format "$1" 2> "$LAB_DIR/err" | head -c 100 > /dev/null
	((PIPESTATUS[0] == 0)) && [ ! -s "$LAB_DIR/err" ]
}
run_step "a reader of each form goes" each_form form_reader_goes
form_not_written() { # FORM
	local to
	for to in '> /dev/full' '>&-'; do
		says 1 'cannot write the flows' bash -c "'$PACKRACK' flows -r '$CUT' --format $1 $to" && (($(wc -l < "$LAB_DIR/err") == 1)) || return 1
	done
}
run_step "a full disk, and no output" each_form form_not_written
form_not_begun() { # FORM: nothing is written when there is no answer
	"$PACKRACK" flows -r "$LAB_DIR/none" --format "$1" > "$LAB_DIR/out" 2> "$LAB_DIR/err"
	(($? == 1)) && [ ! -s "$LAB_DIR/out" ] && grep 'No such file' "$LAB_DIR/err" && (($(wc -l < "$LAB_DIR/err") == 1))
}
run_step "a file that is not there" each_form form_not_begun
form_misused() { # FORM: nor when there is none to ask; nor by a user who has read a key, whom nobody may look at
	local keys=$LAB_DIR/keys-$1
	"$PACKRACK" flows --merger foo://x --since 5m --format "$1" > "$LAB_DIR/out" 2> "$LAB_DIR/err"
	(($? == 2)) && [ ! -s "$LAB_DIR/out" ] && grep 'give ipc://' "$LAB_DIR/err" && (($(wc -l < "$LAB_DIR/err") == 1)) || return 1
	"$PACKRACK" keys generate --head --key-dir "$keys" 2> "$LAB_DIR/err" > "$LAB_DIR/out" && chown -R nobody "$keys" && chmod 755 "$LAB_DIR" || return 1
	setpriv --reuid nobody --clear-groups env PACKRACK_KEY="$keys" "$PACKRACK" flows --merger "ipc://$LAB_DIR/none" --since 5m --format "$1" > "$LAB_DIR/out" 2> "$LAB_DIR/err"
	(($? == 1)) && [ ! -s "$LAB_DIR/out" ] && cat "$LAB_DIR/err" && ! grep 'not found\|cannot write' "$LAB_DIR/err"
}
run_step "a merger that is none" each_form form_misused
form_program_missing() {
	mkdir -p "$LAB_DIR/a 'b" && cp "$PACKRACK" "$LAB_DIR/a 'b" && says 1 'packrack-flows-form' "$LAB_DIR/a 'b/packrack" flows -r "$CUT" --format zeek &&
		cp "$BUILD/packrack-flows-form" "$LAB_DIR/a 'b" && says 0 'SF' "$LAB_DIR/a 'b/packrack" flows -r "$CUT" --format zeek
}
run_step "the program is beside, whatever the folder's name" form_program_missing
each_at_once() { # written before there is another one
	local line rc=0
	coproc "$BUILD/packrack-flows-form" eve
	echo 1,2,0,0,0.000000001,0.000000001,10.0.0.1,10.0.0.2,1,2,17,3,4,,SF,5,6,7,8,0,0,,0,1:x,C0123456789abcdefg,0 >&"${COPROC[1]}"
	read -rt 30 line <&"${COPROC[0]}" && jq -e '.src_ip == "10.0.0.1" and .flow.bytes_toserver == 3' <<< "$line" || rc=1
	kill "$COPROC_PID"
	return "$rc"
}
run_step "each flow at once" each_at_once
form_interrupted() { # FORM: by ^C, which all programs of a terminal get; what there is is whole
	local pid rc=0
	rm -f "$LAB_DIR/fifo"
	mkfifo "$LAB_DIR/fifo" || return 1
	setsid python3 -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])' \
		"$PACKRACK" flows -r - --format "$1" < "$LAB_DIR/fifo" > "$LAB_DIR/out" 2> "$LAB_DIR/err" &
	pid=$!
	exec 8> "$LAB_DIR/fifo"
	cat "$CUT" >&8
	poll_until 10 test -s "$LAB_DIR/out" && kill -INT "-$pid"
	exec 8>&-
	wait "$pid" || rc=$?
	cat "$LAB_DIR/err"
	((rc == 3)) && grep 'interrupted' "$LAB_DIR/err" || return 1
	"$PACKRACK" volume create "$LAB_DIR/forms" --force --size 64M > /dev/null && "$PACKRACK" collect --read "$LAB_DIR/out" --keep "$LAB_DIR/forms" &&
		"$PACKRACK" flows --kept "$LAB_DIR/forms" 2> "$LAB_DIR/said" > /dev/null && [ "$(grep -o '^[0-9]* of' "$LAB_DIR/err" | head -n 1)" = "$(sed -n 's/ flows match/ of/p' "$LAB_DIR/said")" ]
}
run_step "interrupted" each_form form_interrupted

# ---- over nodes ----

records() { # OPTION...: sorted, as the trace file and the rack tell them alike
	"$PACKRACK" flows --format csv "$@" 2> "$LAB_DIR/said" | sort
}
records -r "$FULL" > "$LAB_DIR/want.csv"
over_nodes() { # NODES MODE OPTION...
	"$RACK" down > /dev/null
	"$RACK" up -n "$1" --size 96M -- --read "$FULL" --spread "$2" "${@:3}" || return 1
	"$RACK" drain --stored --timeout 120 || { "$RACK" logs | tail -n 30; return 1; }
	poll_until 30 same_records
}
same_records() {
	if ! records | diff "$LAB_DIR/want.csv" - > "$LAB_DIR/diff" || ! grep -q '^complete' "$LAB_DIR/said"; then
		head -n 4 "$LAB_DIR/diff"
		cat "$LAB_DIR/said"
		return 1
	fi
}
as_parts() { # the nodes have folded all packets: the last answer took at most a tenth of the bytes of the trace
	local packets parts bytes
	read -r packets parts bytes < <(sed -n 's/^  \([0-9]*\) packets came as \([0-9]*\) parts of flows, \([0-9]*\) bytes$/\1 \2 \3/p' "$LAB_DIR/said")
	echo "$packets packets, $parts parts, $bytes bytes"
	((packets == PACKETS && parts < PACKETS / 2 && bytes * 10 < $(stat -c %s "$FULL")))
}
PACKETS=$(tcpdump -r "$FULL" --count 2> /dev/null | awk '{ print $1 + 0 }')
as_packets() { ! grep 'parts of flows' "$LAB_DIR/said"; } # as some lie on two nodes, where sums would count them twice
run_step "one node has the records of the trace" over_nodes 1 round-robin
run_step "in parts" as_parts
run_step "three nodes, by flow" over_nodes 3 flow
run_step "in parts" as_parts
run_step "five nodes, weighted" over_nodes 5 weighted
run_step "in parts" as_parts
run_step "three nodes, each packet at two" over_nodes 3 round-robin --copies 2
run_step "in packets" as_packets
heard_of() { # the merger knows that the node has data: of a node that dies before nobody knows what it had
	"$PACKRACK" status --json | jq -e --arg node "$1" '.nodes[] | select(.node == $node) | .packets > 0'
}
one_of_two_is_gone() {
	poll_until 20 heard_of log2 || return 1
	"$RACK" kill idx2 && "$RACK" kill log2 || return 1
	poll_until 30 same_records
}
run_step "one of them is lost: the records are whole" one_of_two_is_gone
run_step "three nodes, in turn" over_nodes 3 round-robin
run_step "in parts" as_parts
packets_of_the_rack() {
	"$PACKRACK" flows --top 5 --packets -w "$LAB_DIR/rack.pcapng" tcp || return 1
	"$PACKRACK" flows -r "$FULL" --top 5 --packets -w "$LAB_DIR/file.pcapng" tcp || return 1
	"$COMPARE" "$LAB_DIR/file.pcapng" "$LAB_DIR/rack.pcapng"
}
run_step "packets of the largest" packets_of_the_rack
followed() { # from the begin of what is stored to its end: the same records, and what is missing is not said
	timeout 60 "$PACKRACK" flows --follow --since 2024-03-05T09:00:00Z --until 2024-03-05T09:05:00Z --format csv 2> "$LAB_DIR/said" |
		sort > "$LAB_DIR/follow.csv"
	[ "$(wc -l < "$LAB_DIR/follow.csv")" -gt 1000 ] && cut -d, -f1-21 "$LAB_DIR/want.csv" | diff - <(cut -d, -f1-21 "$LAB_DIR/follow.csv") | head -n 4 &&
		[ "$(sed 1d "$LAB_DIR/want.csv" | wc -l)" = "$(grep -c ',$' "$LAB_DIR/follow.csv")" ] &&
		(($(sed -n 's/^  \([0-9]*\) packets came as .*/\1/p' "$LAB_DIR/said") == PACKETS)) &&
		"$PACKRACK" flows --follow --since 2024-03-05T09:00:00Z --until 2024-03-05T09:01:00Z --format json 2> /dev/null |
		jq -se 'length > 100 and all(has("missing") | not)' > /dev/null
}
run_step "followed: the records are the same" followed
shares() { # three keepers of a share each have all flows between them, and each pair of addresses at one of them
	local n
	for n in 1 2 3; do
		"$PACKRACK" volume create "$LAB_DIR/share$n" --size 64M > /dev/null &&
			"$PACKRACK" flows --keep "$LAB_DIR/share$n" --share "$n/3" || return 1
		"$PACKRACK" flows --kept "$LAB_DIR/share$n" --format csv 2> "$LAB_DIR/said" | sed 1d > "$LAB_DIR/share$n.csv"
		grep 'a share chose' "$LAB_DIR/said" && sed -n 's/.*of \([0-9]*\) packets.*/\1/p' "$LAB_DIR/said"
		cut -d, -f3,4 "$LAB_DIR/share$n.csv" | awk -F, '{ print $1 < $2 ? $1 " " $2 : $2 " " $1 }' | sort -u > "$LAB_DIR/pairs$n"
		(($(wc -l < "$LAB_DIR/pairs$n") > 100)) || return 1
	done
	! cat "$LAB_DIR"/pairs[123] | sort | uniq -d | grep . || return 1
	sort "$LAB_DIR"/share[123].csv | diff <(sed '/^tcqtime/d' "$LAB_DIR/want.csv") - | head -n 4
	((PIPESTATUS[1] == 0)) || return 1
	# a keeper goes on with its own share only
	"$PACKRACK" volume create "$LAB_DIR/on" --size 64M > /dev/null || return 1
	timeout 60 "$PACKRACK" flows --keep "$LAB_DIR/on" --follow --share 1/3 --since 2024-03-05T09:00:01Z --until 2024-03-05T09:01:00Z
	says 1 'share 1/3' timeout 60 "$PACKRACK" flows --keep "$LAB_DIR/on" --follow --share 2/3
}
run_step "shares add up to the whole" shares
run_step "a share that there is not" says 2 'as in 1/3' "$PACKRACK" flows --keep "$LAB_DIR/share1" --share 4/3
run_step "a share of a number that wraps" says 2 'as in 1/3' "$PACKRACK" flows --keep "$LAB_DIR/share1" --share 4294967297/3
run_step "a share of what is not kept" says 2 'that --keep stores' "$PACKRACK" flows --share 1/3
a_node_is_gone() {
	"$RACK" kill idx2 || return 1
	local rc=0
	records > "$LAB_DIR/part.csv"
	"$PACKRACK" flows --format csv > /dev/null 2> "$LAB_DIR/said" || rc=$?
	((rc == 3)) && grep '^partial' "$LAB_DIR/said" && grep 'log2' "$LAB_DIR/said" &&
		(($(wc -l < "$LAB_DIR/part.csv") < $(wc -l < "$LAB_DIR/want.csv"))) || return 1
	# Flows, what is not IP, and what is missing are all that there was.
	local flows not_ip missing
	flows=$(awk -F, '$12 ~ /^[0-9]+$/ { n += $12 + $13 } END { print n }' "$LAB_DIR/part.csv")
	not_ip=$(sed -n 's/.*, \([0-9]*\) of them not IP/\1/p' "$LAB_DIR/said")
	missing=$(sed -n 's/.*missing: \([0-9]*\) packets.*/\1/p' "$LAB_DIR/said")
	echo "$flows + $not_ip + $missing"
	((flows + not_ip + missing == $(tcpdump -r "$FULL" --count 2> /dev/null | awk '{ print $1 + 0 }'))) || return 1
	# Each record says what it may lack: no less than what it has less than in the whole trace.
	records -r "$FULL" --active 1000d --idle-tcp 20m --idle 20m | sed 1d > "$LAB_DIR/long.csv"
	records --active 1000d --idle-tcp 20m --idle 20m > "$LAB_DIR/part.csv"
	python3 - "$LAB_DIR" <<- 'END'
		import csv, sys
		NAMES = ("tcqtime,duration,src_ip,dst_ip,src_port,dst_port,protocol,bytes_sent,bytes_recv,outgoing,state,packets_sent,"
		         "packets_recv,payload_sent,payload_recv,flags_sent,flags_recv,vlan,link,community_id,uid,missing").split(",")
		def rows(name):
		    return [r for r in csv.DictReader(open(sys.argv[1] + name), NAMES) if r["src_ip"] != "src_ip"]
		def packets(r):
		    return int(r["packets_sent"]) + int(r["packets_recv"])
		def when(r):
		    return r["community_id"], r["tcqtime"], r["duration"]
		whole = {when(r): packets(r) for r in rows("/long.csv")}
		less, wrong = 0, []
		for r in rows("/part.csv"):
		    lacks = whole.get(when(r), 0) - packets(r)  # 0 of those whose first or last packet is missing
		    less += lacks > 0
		    if lacks > int(r["missing"]):
		        wrong.append(r)
		print(less, "records lack packets; too few said to be missing:", wrong[:2])
		sys.exit(less < 10 or bool(wrong))
	END
}
run_step "without a node it says what is missing" a_node_is_gone

followed_form() { # FORM: as many as wanted; until the reader goes
	local follow=(timeout 60 "$PACKRACK" flows --follow --idle 1100ms --idle-tcp 1100ms --format "$1")
	"${follow[@]}" --limit 20 > "$LAB_DIR/form" && "$PACKRACK" volume create "$LAB_DIR/forms" --force --size 64M > /dev/null &&
		"$PACKRACK" collect --read "$LAB_DIR/form" --keep "$LAB_DIR/forms" 2>&1 | grep ': 20 flows' || return 1
	"${follow[@]}" | head -n 9 > "$LAB_DIR/form"
	((PIPESTATUS[0] == 0))
}
live() { # flows of a link that goes on: one has ended after its time-out
	"$RACK" down > /dev/null
	"$RACK" up -n 3 --size 96M || return 1
	"$RACK" play "$FULL" --pps=3000 --loop=100000 --quiet > /dev/null 2>&1 &
	local player=$! rc=0
	timeout 60 "$PACKRACK" flows --follow --idle 1100ms --idle-tcp 1100ms --limit 20 --format json > "$LAB_DIR/out" 2> "$LAB_DIR/said" || rc=$?
	each_form followed_form || rc=1
	kill "$player"
	cat "$LAB_DIR/said"
	((rc == 0)) && jq -se 'length == 20 and all(.last <= now * 1e9)' "$LAB_DIR/out"
}
run_step "followed while they happen" live
run_step "sums want an end" says 2 'a range that has ended' "$PACKRACK" flows --follow --top 3

"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
