#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A class with a share of the nodes' shared memory: its packets are answered from there, long after others have gone.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpdump tcpreplay jq
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
new_lab
export PACKRACK=$BUILD/packrack
FULL=$DATA/mix-gateway-full-a.pcap
CONF=$LAB_DIR/packrack.conf
CASE='host 52.46.156.66'

play() { # FILE
	"$RACK" play "$1" --pps=20000 --quiet > "$LAB_DIR/play" 2>&1 || { cat "$LAB_DIR/play"; return 1; }
}
printf '[logger]\nshm-size = 16M\n' > "$CONF"
tcpdump -r "$FULL" -w "$LAB_DIR/bulk.pcap" "not $CASE" 2> /dev/null
pushed_out() { # CLASS: what came before @$BEFORE leaves the memory
	"$RACK" down > /dev/null
	"$RACK" up -n 1 --size 256M --in-mtu 65527 --out-mtu 65535 -- --class "$1" && play "$FULL" || return 1
	BEFORE=$(date +%s.%N)
	for _ in 1 2 3; do
		play "$LAB_DIR/bulk.pcap" || return 1
	done
	"$RACK" drain --keep-running --timeout 120
}
from_memory() { # FILTER
	"$PACKRACK" query --memory-only --count --until "@$BEFORE" "$1" > "$LAB_DIR/out" 2> "$LAB_DIR/said" || { cat "$LAB_DIR/said"; return 1; }
	[ "$(cat "$LAB_DIR/out")" = "$(tcpdump -r "$FULL" --count "$1" 2> /dev/null | awk '{ print $1 + 0 }')" ]
}
run_step "a class has a share of memory" pushed_out "case; filter=$CASE; memory=40%"
run_step "its packets are answered from there" from_memory "$CASE"
run_step "others are on the disk" says 2 'are on a disk alone' "$PACKRACK" query --memory-only --count --until "@$BEFORE" tcp
told() { # its oldest packet is in memory, that of no class is not
	"$PACKRACK" data list --json | jq -e '[.nodes[].streams[] | select(.packet_stream)] | map({key: .class, value: (.memory_time == .oldest_time)}) | from_entries |
		.case and (.[""] | not)' || { "$PACKRACK" data list --json; return 1; }
}
run_step "data list tells it" told
run_step "without a share they leave" pushed_out "case; filter=$CASE; keep=1d"
run_step "and are not answered from there" says 2 'memory has not all' "$PACKRACK" query --memory-only --count --until "@$BEFORE" "$CASE"

"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
