#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A rack of two versions, as it is while it is being upgraded: it answers right, or refuses in one line.
# PACKRACK_OLD_BUILD: the build directory of the older version.
# shellcheck source-path=SCRIPTDIR/../../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpreplay tcpdump jq
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
[ -x "${PACKRACK_OLD_BUILD-}/packrack" ] || skip_all "needs an older build (set PACKRACK_OLD_BUILD to its directory)"
OLD=$(realpath "$PACKRACK_OLD_BUILD")
export PACKRACK_OLD_BUILD=$OLD
new_lab
N=4000
tests/system/numbered.py make "$LAB_DIR/a.pcap" $N 1

recorded() {
	"$RACK" play "$LAB_DIR/a.pcap" --pps=4000 --quiet && "$RACK" drain --timeout 60 || return 1
	SENT=$(tcpdump -r "$LAB_DIR/tcpdump.pcap" --count 2> /dev/null | awk '{ print $1 + 0 }')
	((SENT >= N))
}

refused() { # STATUS: in one line, of which it has to consist
	(($1 == 1 && $(wc -l < "$LAB_DIR/said") == 1)) && ! grep "nobody listens" "$LAB_DIR/said" && diag < "$LAB_DIR/said"
}

exported() { # PROGRAM: all, as it was captured
	local rc=0
	rm -f "$LAB_DIR/answer.pcapng"
	timeout 60 "$1" export -w "$LAB_DIR/answer.pcapng" 2> "$LAB_DIR/said" || rc=$?
	cat "$LAB_DIR/said"
	! refused "$rc" || return 0
	{ ((rc == 0 || rc == 3)) && ! grep -q missing "$LAB_DIR/said"; } || { echo "exit status $rc"; return 1; }
	"$COMPARE" "$LAB_DIR/tcpdump.pcap" "$LAB_DIR/answer.pcapng"
}

found() { # PROGRAM: what tcpdump finds
	local filter got want rc
	for filter in 'udp port 53' 'host 10.0.3.1' 'src net 10.0.0.0/16 and greater 700' 'not udp'; do
		rc=0
		got=$(timeout 60 "$1" query --count "$filter" 2> "$LAB_DIR/said") || rc=$?
		! refused "$rc" || continue
		want=$(tcpdump -r "$LAB_DIR/tcpdump.pcap" --count "$filter" 2> /dev/null | awk '{ print $1 + 0 }')
		((got == want && (rc == 0 || rc == 3))) ||
			{ echo "$filter: $got, tcpdump $want, exit status $rc"; cat "$LAB_DIR/said"; return 1; }
	done
}

flows_found() { # the same, whichever nodes give parts of flows and not packets
	timeout 60 "$BUILD/packrack" flows --format csv 2> "$LAB_DIR/said" | cut -d, -f3-9,12-15 | sort > "$LAB_DIR/flows"
	cat "$LAB_DIR/said"
	"$BUILD/packrack" flows -r "$LAB_DIR/tcpdump.pcap" --format csv 2> "$LAB_DIR/said" | cut -d, -f3-9,12-15 | sort |
		diff - "$LAB_DIR/flows" | head -n 4
	((PIPESTATUS[3] == 0 && $(wc -l < "$LAB_DIR/flows") > 10))
}

shown() { # PROGRAM: whatever else asks the merger or the dispatcher
	local rc what
	for what in status "node list" "data list" rate top; do
		rc=0
		# shellcheck disable=SC2086 # words
		timeout 60 "$1" $what --json > "$LAB_DIR/out" 2> "$LAB_DIR/said" || rc=$?
		! refused "$rc" || continue
		{ ((rc == 0 || rc == 3)) && jq -e . "$LAB_DIR/out" > "$LAB_DIR/json"; } ||
			{ echo "$what: exit status $rc"; cat "$LAB_DIR/said"; return 1; }
	done
}

deleted() { # PROGRAM NODE: and the other node keeps what it has
	local rc=0 left
	timeout 60 "$1" data delete --node "$2" --yes > "$LAB_DIR/out" 2> "$LAB_DIR/said" || rc=$?
	! refused "$rc" || return 0
	cat "$LAB_DIR/said"
	((rc == 0)) || return 1
	left=$("$BUILD/packrack" query --count 2> "$LAB_DIR/said")
	cat "$LAB_DIR/said"
	((left > 0 && left < SENT)) && grep -q deleted "$LAB_DIR/said"
}

asked() { # WHAT: by both commands
	local program
	for program in "$BUILD/packrack" "$OLD/packrack"; do
		run_step "$1: all is exported by $program" exported "$program"
		run_step "$1: filters find what tcpdump finds" found "$program"
		run_step "$1: status and lists are given" shown "$program"
	done
	run_step "$1: flows are those of the trace" flows_found
}

mixed() { # WHAT NAME...: these daemons are old
	export RACK_OLD="${*:2}"
	run_step "$1: the rack comes up" "$RACK" up -n 2 --record "$LAB_DIR/tcpdump.pcap" || return
	run_step "$1: packets are recorded" recorded
	asked "$1"
}

mixed "old dispatcher and merger" keys dispatcher merger
run_step "a node of now deletes, asked through them" deleted "$OLD/packrack" log1
"$RACK" down > /dev/null

# ---- an upgrade, in the order of packrack-operations(7) ----

OURS='src net 10.0.0.0/16 and dst net 10.1.0.0/16'
PLAYED=0
all_found() { # by both commands: what was played until now
	local program got
	"$RACK" play "$LAB_DIR/a.pcap" --pps=4000 --quiet && "$RACK" drain --keep-running --timeout 30 || return 1
	PLAYED=$((PLAYED + N))
	for program in "$BUILD/packrack" "$OLD/packrack"; do
		got=$(timeout 60 "$program" query --count "$OURS" 2> "$LAB_DIR/said")
		cat "$LAB_DIR/said"
		{ ((got == PLAYED)) && ! grep -q missing "$LAB_DIR/said"; } || { echo "$program: $got of $PLAYED"; return 1; }
	done
	got=$("$BUILD/packrack" flows --format csv "$OURS" 2> "$LAB_DIR/said" | awk -F, '{ n += $12 + $13 } END { print n }')
	cat "$LAB_DIR/said"
	((got == PLAYED)) || { echo "$got of $PLAYED packets are in flows"; return 1; }
}
node_is() { # NAME STATE
	"$BUILD/packrack" node list | grep -q "^[0-9].* $1 .* $2"
}
capturing() {
	[ "$("$BUILD/packrack" status --json 2> /dev/null | jq -r .dispatcher.state)" = capturing ]
}
node_upgraded() { # NAME, what is old now...
	export RACK_OLD="${*:2}"
	"$BUILD/packrack" node disconnect "$1" && poll_until 5 node_is "$1" disconnected || return 1
	"$RACK" restart "$1" && "$RACK" restart "idx${1#log}" && "$BUILD/packrack" node reconnect "$1" || return 1
	poll_until 10 node_is "$1" active || { "$BUILD/packrack" node list; return 1; }
}
dispatcher_upgraded() {
	export RACK_OLD=
	"$BUILD/packrack" capture stop && "$RACK" restart dispatcher && poll_until 10 capturing
}
export RACK_OLD="keys dispatcher log1 idx1 log2 idx2"
run_step "a rack of which only the merger is of now" "$RACK" up -n 2
run_step "all is found in it" all_found
run_step "a node is upgraded" node_upgraded log1 dispatcher log2 idx2
run_step "all is found, of before too" all_found
run_step "the other node is upgraded" node_upgraded log2 dispatcher
run_step "all is found" all_found
run_step "the dispatcher is upgraded" dispatcher_upgraded
run_step "all is found" all_found
run_step "an upgraded node deletes what an old one has stored" "$BUILD/packrack" data delete --node log1 --yes
"$RACK" down > /dev/null

# ---- and in the other ----

mixed "old nodes" log1 log2 idx1 idx2
run_step "an old node deletes" deleted "$BUILD/packrack" log1
"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
