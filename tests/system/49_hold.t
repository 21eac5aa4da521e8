#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Holds: each node copies the packets of a case, past and future, into a stream of their own, until it is released. They
# outlive what is overwritten around them, and programs that are killed.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpdump tcpreplay jq
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
new_lab
export PACKRACK=$BUILD/packrack
FULL=$DATA/mix-gateway-full-a.pcap
CASE='host 52.46.156.66'

play() {
	"$RACK" play "$FULL" --pps=20000 --quiet > "$LAB_DIR/play" 2>&1 || { cat "$LAB_DIR/play"; return 1; }
}
stored() {
	"$RACK" drain --keep-running --timeout 120 || { "$RACK" logs | tail -n 30; return 1; }
}
begins() {
	"$RACK" up -n 2 --size 32M --in-mtu 65527 --out-mtu 65535 --record "$LAB_DIR/tcpdump.pcap" && play
}
run_step "a live link" begins
run_step "a case is held" "$PACKRACK" hold add case7 --reason 'a test' --guarantee 20% "$CASE"
run_step "another one, of nothing" "$PACKRACK" hold add none --since '1 day ago' --until '23 hours ago'
listed() {
	"$PACKRACK" hold list | grep -E "^case7 on log1: $CASE; [1-9].* packets, .* copied until 2.*; by .*: a test$"
}
run_step "it is listed, with what is copied" poll_until 20 listed
of_list() { # JQ, of both nodes
	"$PACKRACK" hold list --json | jq -e "$1" || { "$PACKRACK" hold list --json; return 1; }
}
run_step "as data, too" poll_until 10 of_list '[.holds[] | select(.name == "case7")] | length == 2 and all(.packets > 0 and .guarantee == 200)'
run_step "copies do not count twice" says 0 'complete: 2441 packets match' "$PACKRACK" query --count "$CASE"
PLAYS=1
overwritten() { # the first play is gone
	play && PLAYS=$((PLAYS + 1))
	"$PACKRACK" query --count --json | jq -e --argjson n "$PLAYS" '[.completeness.evicted[] | select(.stream == "packets.0")] | length > 0' && ((PLAYS > 4))
}
run_step "the volumes are overwritten" poll_until 120 overwritten
copied_all() { # up to the newest packet
	stored && poll_until 30 caught_up
}
caught_up() {
	local newest
	newest=$("$PACKRACK" data list --json | jq '[.nodes[].streams[].newest_time] | max')
	"$PACKRACK" hold list --json | jq -e --argjson t "$newest" '[.holds[] | select(.name == "case7")] | length == 2 and all(.copied_until >= $t)'
}
held_all() { # byte for byte what tcpdump saw, from the first play on
	"$PACKRACK" query --allow overwritten -w "$LAB_DIR/held.pcap" "$CASE" 2> "$LAB_DIR/said" || { cat "$LAB_DIR/said"; return 1; }
	tcpdump -nnr "$LAB_DIR/tcpdump.pcap" -w "$LAB_DIR/seen.pcap" "$CASE" 2> /dev/null
	"$PYTHON" - "$LAB_DIR/seen.pcap" "$LAB_DIR/held.pcap" <<- 'END'
		import sys
		sys.path.insert(0, "tests/system")
		import traces
		seen, held = [[(p.length, p.data) for p in traces.Trace(f)] for f in sys.argv[1:]]
		print(len(seen), len(held))
		sys.exit(seen != held or len(seen) < 5 * 2441)
	END
}
run_step "what comes is copied" copied_all
run_step "the case is there as a whole, from the first packet on" held_all
run_step "of all else it is told that it is gone" says 3 overwritten "$PACKRACK" query --count
deleted() {
	"$PACKRACK" data delete --node log1 --yes > "$LAB_DIR/out" 2>&1 || { cat "$LAB_DIR/out"; return 1; }
	poll_until 5 left_of_case7
}
left_of_case7() { # the merger's figures of a node may be those of the second before
	"$PACKRACK" hold list --json | jq -e '[.holds[] | select(.node == "log1" and .name == "case7") | .packets] | add > 5000'
}
run_step "data delete leaves it" deleted

killed() {
	play && "$RACK" kill idx1 && "$RACK" kill log1 && "$RACK" kill log2 && "$RACK" restart log1 && "$RACK" restart log2 && "$RACK" restart idx1 && play && copied_all
}
run_step "indexer and loggers are killed, and start again" killed
selected() { # FILE: what the rack has of the case
	"$PACKRACK" query --allow overwritten,deleted,unsaved,node_stop,switch,no_answer -w "$1" "$CASE" 2> "$LAB_DIR/said"
	(($? == 0 || $? == 3))
}
after_kill() { # all that the rack has is held, too: without the rest, the answer is the same
	selected "$LAB_DIR/before.pcap" && "$PACKRACK" data delete --node log1 --node log2 --yes > "$LAB_DIR/out" 2>&1 && selected "$LAB_DIR/after.pcap" || return 1
	"$PYTHON" - "$LAB_DIR/before.pcap" "$LAB_DIR/after.pcap" <<- 'END'
		import sys
		sys.path.insert(0, "tests/system")
		import traces
		before, after = [[(p.time, p.length, p.data) for p in traces.Trace(f)] for f in sys.argv[1:]]
		print(len(before), len(after))
		sys.exit(before != after or len(after) < 5 * 2441)
	END
}
run_step "the cases are there still" after_kill


# ---- a node that is away ----

away() {
	local rc
	"$RACK" kill idx2 || return 1
	"$PACKRACK" hold add late udp 2> "$LAB_DIR/err"
	rc=$?
	cat "$LAB_DIR/err"
	((rc == 3)) && grep '^packrack: log2: ' "$LAB_DIR/err"
}
late_there() {
	of_list '[.holds[] | select(.name == "late")] | length == 2 and all(.packets > 100)'
}
run_step "a case is added while a node is away" away
back() {
	"$RACK" restart idx2 && play && poll_until 40 late_there
}
run_step "it takes the case when it is back" back
released_away() {
	"$RACK" kill idx2 || return 1
	"$PACKRACK" hold release late 2> "$LAB_DIR/err"
	(($? == 3)) && "$RACK" restart merger && "$RACK" restart idx2 && poll_until 40 late_gone
}
late_gone() {
	"$PACKRACK" data list --json | jq -e '[.nodes[].streams[] | select(.class == "hold.late") | .packets] | add == 0' &&
		! "$PACKRACK" hold list | grep '^late '
}
run_step "a release is not missed either, nor lost with the merger" released_away
added() { # FILTER [STATUS]: when the copies of the one before are gone; a node that still removes them takes it later
	local rc=0
	"$PACKRACK" hold add late "$1" 2> "$LAB_DIR/err" || rc=$?
	((rc == 3 || rc == ${2:-0}))
}
same_name() { # its definition is another one
	"$RACK" kill idx2 && poll_until 60 added tcp 3 && "$RACK" restart idx2 && play && poll_until 40 late_there &&
		"$PACKRACK" hold list --json | jq -e '[.holds[] | select(.name == "late") | .text] == ["tcp", "tcp"]' &&
		"$PACKRACK" hold release late && poll_until 40 late_gone
}
run_step "another case gets its name" same_name
both_missed() { # the end of one and the begin of the next, of one name
	poll_until 60 added udp && play && poll_until 40 late_there && "$RACK" kill idx2 || return 1
	"$PACKRACK" hold release late 2> "$LAB_DIR/err"
	poll_until 60 added tcp 3 && "$RACK" restart idx2 && play && poll_until 60 all_tcp && "$PACKRACK" hold release late && poll_until 40 late_gone
}
all_tcp() {
	of_list '[.holds[] | select(.name == "late")] | length == 2 and all(.packets > 100 and .text == "tcp")'
}
run_step "a node misses the end of one and the begin of the next" both_missed

limit() {
	local i
	for i in {1..14}; do
		"$PACKRACK" hold add "more$i" "port $i" || return 1
	done
	says 1 'there are 16 holds already' "$PACKRACK" hold add more15
}
run_step "there are sixteen at most" limit
run_step "a name that is there" says 1 'there is a hold case7 already' "$PACKRACK" hold add case7
run_step "a filter that is none" says 2 "filter 'hots x'" "$PACKRACK" hold add bad hots x
run_step "no percentage" says 2 "'200%' is not a percentage" "$PACKRACK" hold add bad --guarantee 200% tcp
run_step "no name" says 2 'a hold needs a name' "$PACKRACK" hold add
run_step "none of this name" says 1 'there is no hold nobody' "$PACKRACK" hold release nobody
run_step "a case is released" "$PACKRACK" hold release case7 --reason over
gone() {
	"$PACKRACK" data list --json | jq -e '[.nodes[].streams[] | select(.class == "hold.case7") | .packets] | add == 0' &&
		! "$PACKRACK" hold list | grep '^case7 '
}
run_step "its copies are removed" poll_until 40 gone
again() { # its number goes to another case, which a new logger must not take for the old one
	"$PACKRACK" hold add second tcp && "$RACK" restart log1 && "$RACK" restart idx1 && play && poll_until 40 second_there
}
second_there() {
	of_list '[.holds[] | select(.name == "second")] | length == 2 and all(.number == 48 and .packets > 10000)'
}
run_step "its number is that of another case" again
stays() { # for longer than what is released needs to be removed; without a guarantee its oldest copies may be overwritten
	local since
	since=$(date +%s)
	play && poll_until 30 newer "$since" && ! "$RACK" logs idx1 | grep 'makes no sense'
}
newer() {
	"$PACKRACK" data list --json | jq -e --argjson t "$1" '[.nodes[].streams[] | select(.class == "hold.second")] | length == 2 and
		all((.newest_time | tostring | .[0:10] | tonumber) >= $t) and (map(.packets) | add > 10000)'
}
run_step "that stays" stays
too_much() {
	"$PACKRACK" hold release more1 && "$PACKRACK" hold add big --guarantee 95% 2> "$LAB_DIR/err"
	[ $? = 1 ] && grep 'guarantee: ' "$LAB_DIR/err"
}
run_step "a guarantee that the volume cannot give" too_much
"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
