#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# With two copies of each packet a node may be lost for good, and then another, if a new one has taken its place between.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpreplay jq
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
new_lab
PACKRACK=$BUILD/packrack
N=8000
tests/system/numbered.py make "$LAB_DIR/a.pcap" $N 1

destroyed() { # N: the node, and its volume
	"$RACK" kill "log$1" && "$RACK" kill "idx$1" && rm "$LAB_DIR/log$1.vol"
}
known() { # N: the merger knows of packets on the node
	"$PACKRACK" data list --json | jq -e '[.nodes[] | select(.node == "log'"$1"'") | .streams[].packets] | add > 0'
}
counted() { # STATUS: that of an answer with each packet that was played
	says "$1" "" "$PACKRACK" query --count udp port 53 && (($(cat "$LAB_DIR/out") == N))
}
lost_in_mid_run() {
	local player
	"$RACK" up -n 3 --size 64M -- --copies 2 || return 1
	"$RACK" play "$LAB_DIR/a.pcap" --pps=2000 --quiet > "$LAB_DIR/play" 2>&1 &
	player=$!
	poll_until 10 known 2 && destroyed 2 && wait "$player"
}
run_step "a node is lost while packets pass" lost_in_mid_run
run_step "the answer is complete without it" poll_until 10 counted 0
says_so() {
	grep -q "not answered: log2: .*; other nodes have its packets" "$LAB_DIR/err" && grep -q '^complete: ' "$LAB_DIR/err"
}
run_step "and says which node is gone" says_so
fields() {
	"$PACKRACK" query --json | jq -e '.completeness | .complete and (.nodes[] | select(.node == "log2") | (.answered | not) and .accounted)'
}
run_step "as fields" fields

# ---- another takes its place ----

replaced() { # N
	"$PACKRACK" volume create "$LAB_DIR/log$1.vol" --size 64M > /dev/null && "$RACK" restart "log$1" && "$RACK" restart "idx$1" &&
		poll_until 10 connected
}
connected() {
	"$PACKRACK" data list --json | jq -e '[.nodes[] | select(.connected)] | length == 3'
}
run_step "a new node" replaced 2
field() { # NAME: of the last report
	jq -e ".$1" "$LAB_DIR/out"
}
killed() { # at any moment: nothing twice, nothing lost
	for n in 0.1 0.2 0.4; do
		timeout -s KILL "$n" "$PACKRACK" node rebuild log2 --until '6s ago' --rate 8M > /dev/null 2>&1
		counted 0 || return 1
	done
}
run_step "a rebuild is killed, three times" killed
rebuilt() {
	says 0 "" "$PACKRACK" node rebuild log2 --json && cat "$LAB_DIR/out" && (($(field only_there) == 0)) && counted 0
}
run_step "and done" rebuilt
nothing_left_to_do() {
	says 0 "" "$PACKRACK" node rebuild log2 --json && (($(field copied) == 0))
}
run_step "again, there is nothing to copy" nothing_left_to_do
own_stream() {
	"$PACKRACK" data list --node log2 --json | jq -e '.nodes[].streams[] | select(.name == "packets.57344") | .packets > 1000 and .link == 0 and .link_name == "tap0"'
}
run_step "they are in a stream of their own" poll_until 10 own_stream
run_step "no node of that name" says 1 "no node nobody is connected" "$PACKRACK" node rebuild nobody
run_step "the second is lost" destroyed 1
run_step "the answer is complete still" poll_until 20 counted 0
indexed() {
	says 0 "complete: 0 packets" "$PACKRACK" query --count tcp port 9
}
run_step "and excludes what is not there" indexed

# ---- an epoch that is over, of which all nodes are replaced ----

old_epoch() {
	until=@$(date -d '1 second ago' +%s.%N) # what came since the last look at the carrier, 20 ms before, is not confirmed
	"$RACK" restart dispatcher
}
run_step "a new dispatcher" old_epoch
confirmed() { # as counted, before the end of the epoch
	says 0 "" "$PACKRACK" query --count --until "$until" udp port 53 && (($(cat "$LAB_DIR/out") == N))
}
rebuilt_in_turn() {
	local n
	for n in 1 3 2; do
		((n == 1)) || destroyed "$n" || return 1
		replaced "$n" && poll_until 20 "$PACKRACK" node rebuild "log$n" --until "$until" && poll_until 20 confirmed || return 1
	done
}
run_step "when all are replaced, its time is still confirmed" rebuilt_in_turn
"$RACK" down > /dev/null
done_testing
