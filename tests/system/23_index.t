#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The index on a rack: it is made beside the loggers, queries read less by it and find the same, and an
# indexer that was killed goes on where its index ends.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpdump tcpreplay
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
new_lab
PACKRACK=$BUILD/packrack
MIX=$DATA/mix-gateway-full-a.pcap
ABSENT='host 203.0.113.99'

# The first value of this name in what --json prints.
figure() { # NAME FILTER...
	"$PACKRACK" query --json --count "${@:2}" 2> /dev/null |
		sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" | head -n 1
}

# Nothing of what is stored needs to be read to say that the host is not in it.
all_indexed() {
	[ "$(figure scanned_segments "$ABSENT")" = 0 ]
}

same_as_tcpdump() { # how many packets, for filters of all kinds
	local f want got
	for f in 'host 8.8.8.8' 'udp port 53' 'net 192.168.0.0/16 and tcp' arp ip6 vlan \
		'portrange 8000-8010' 'greater 1400' 'not tcp' 'tcp[13] & 2 != 0' "$ABSENT"; do
		want=$(tcpdump -r "$LAB_DIR/tcpdump.pcap" -w - "$f" 2> /dev/null |
			tcpdump -r - --count 2> /dev/null | awk '{ print $1 + 0 }')
		got=$("$PACKRACK" query --count "$f" 2> "$LAB_DIR/said") ||
			{ echo "$f: status $?"; cat "$LAB_DIR/said"; return 1; }
		((got == want)) || { echo "$f: $got packets, tcpdump has $want"; return 1; }
	done
}

begin() {
	"$RACK" up -n 2 --in-mtu 65527 --out-mtu 65535 --record "$LAB_DIR/tcpdump.pcap" || return 1
	"$RACK" play "$MIX" --pps=20000 --quiet > "$LAB_DIR/play" || return 1
	poll_until 30 all_indexed || { figure scanned_segments "$ABSENT"; "$RACK" logs | tail -n 20; return 1; }
}
run_step "what was stored is indexed, out of shared memory" begin
run_step "and left out where it cannot match" test "$(figure skipped_level1 "$ABSENT")" -gt 20

killed() {
	local before
	before=$(figure skipped_level1 "$ABSENT")
	"$RACK" kill idx1 || return 1
	"$RACK" play "$MIX" --pps=20000 --quiet > "$LAB_DIR/play" || return 1
	"$RACK" restart idx1 || return 1
	poll_until 30 all_indexed || { figure scanned_segments "$ABSENT"; "$RACK" logs | tail -n 20; return 1; }
	(($(figure skipped_level1 "$ABSENT") > before)) || { echo "no more than before"; return 1; }
}
run_step "an indexer that was killed catches up" killed

finish() {
	"$RACK" drain --timeout 120 || { "$RACK" logs | tail -n 20; return 1; }
	same_as_tcpdump
}
run_step "eleven filters find what tcpdump finds" finish

scanned() { # VOLUME: segments read for want of an index
	"$PACKRACK" query --volume "$1" --json --count "$ABSENT" 2> /dev/null |
		sed -n 's/.*"scanned_segments": \([0-9]*\).*/\1/p' | sort -n | tail -n 1
}

# A trace file that a logger has read by itself, with no indexer beside it.
alone() {
	local v=$LAB_DIR/alone
	"$PACKRACK" volume create "$v" --size 64M > /dev/null || return 1
	if ! "$BUILD/packrack-logger" --read "$MIX" --volume "$v" 2> "$LAB_DIR/said"; then
		cat "$LAB_DIR/said"
		return 1
	fi
	(($(scanned "$v") > 20)) || { echo "it has an index"; return 1; }
	"$PACKRACK" volume index "$v" || return 1
	(($(scanned "$v") == 0)) || { echo "still read"; return 1; }
	"$PACKRACK" volume index "$v" | grep -q ': 0 segments indexed' || { echo "and again"; return 1; }
	"$PACKRACK" volume check "$v"
}
run_step "a volume that nobody indexed is indexed when told to" alone

"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
