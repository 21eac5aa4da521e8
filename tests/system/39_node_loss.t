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
done_testing
