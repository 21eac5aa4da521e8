#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs killed, volumes full: no wrong data, a clear word on what is missing, and the rest goes on.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpreplay
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
new_lab
PACKRACK=$BUILD/packrack
tests/system/numbered.py make "$LAB_DIR/a.pcap" 12000 1
tests/system/numbered.py make "$LAB_DIR/b.pcap" 6000 2

up() {
	"$RACK" down > /dev/null
	rm -f "$LAB_DIR"/*.pcapng "$LAB_DIR"/tcpdump*.pcap
	"$RACK" up "$@"
}

export_exits() { # STATUS FILE [OPTION...]
	local want=$1 file=$2 rc=0
	shift 2
	"$PACKRACK" export --json -w "$file" "$@" > "$LAB_DIR/report.json" 2> "$LAB_DIR/report.txt" || rc=$?
	cat "$LAB_DIR/report.txt"
	((rc == want)) || { echo "export: status $rc, wanted $want"; return 1; }
}

# What the answer calls missing is what it lacks, and the rest is right.
accounted() { # EXPECTED ANSWER
	"$COMPARE" --allow-missing "$LAB_DIR/report.json" "$1" "$2"
}

count() {
	tcpdump -r "$1" --count 2> /dev/null | awk '{ print $1 + 0 }'
}

playing() { # FILE PPS: in the background, its pid in PLAYER
	"$RACK" play "$1" --pps="$2" --quiet > "$LAB_DIR/play" 2>&1 &
	PLAYER=$!
}

# How many packets the switch has been given by the dispatcher.
out_count() {
	"$RACK" exec disp ip -s link show out0 | awk '/TX:/ { getline; print $2 }'
}

passed() { # N
	(($(out_count) > $1))
}

# ---- a logger is killed in mid-capture ----

logger_killed() {
	up -n 3 --record "$LAB_DIR/tcpdump.pcap" || return 1
	playing "$LAB_DIR/a.pcap" 3000
	poll_until 20 passed 4000 || { echo "nothing passes"; return 1; }
	"$RACK" kill log2 || return 1
	wait "$PLAYER" || { cat "$LAB_DIR/play"; return 1; }
	"$RACK" drain --stored --timeout 120 || { "$RACK" logs | tail -n 30; return 1; }
}
run_step "a logger is killed while packets pass" logger_killed
run_step "the answer is partial" export_exits 3 "$LAB_DIR/out.pcapng"
run_step "and says exactly what is missing" accounted "$LAB_DIR/tcpdump.pcap" "$LAB_DIR/out.pcapng"
most_is_there() {
	# A third of what passed in 2 s of silence and of what was not yet written is all it may cost.
	local have
	have=$(count "$LAB_DIR/out.pcapng")
	echo "$have of 12000"
	((have > 12000 - 3000 && have < 12000))
}
run_step "no more is lost than one node's share of two seconds" most_is_there
as_many_as() { # N
	rm -f "$LAB_DIR/again.pcapng"
	"$PACKRACK" export -w "$LAB_DIR/again.pcapng"
	(($(count "$LAB_DIR/again.pcapng") >= $1))
}
served_again() {
	local before
	before=$(count "$LAB_DIR/out.pcapng")
	"$RACK" restart log2 && "$RACK" restart idx2 || return 1
	poll_until 20 as_many_as "$before"
}
run_step "restarted, its old packets are served" served_again

# ---- the dispatcher is killed and started again ----

dispatcher_killed() {
	up -n 2 --record "$LAB_DIR/tcpdump.pcap" || return 1
	"$RACK" play "$LAB_DIR/b.pcap" --pps=5000 --quiet || return 1
	# The hosts of the link say something of their own now and then: not while nobody records.
	"$RACK" exec tap ip link set t0 down && "$RACK" exec tap ip link set t1 down || return 1
	"$RACK" drain --keep-running || return 1
	"$RACK" kill dispatcher || return 1
	"$RACK" restart dispatcher || return 1
	"$RACK" play "$LAB_DIR/a.pcap" --pps=5000 --quiet || return 1
	"$RACK" drain --stored --timeout 120 || { "$RACK" logs | tail -n 30; return 1; }
	"$PACKRACK" export --json -w "$LAB_DIR/out.pcapng" > "$LAB_DIR/report.json" || (($? == 3))
}
run_step "the dispatcher is killed and started again" dispatcher_killed
run_step "both epochs come back as one trace" "$COMPARE" "$LAB_DIR/tcpdump.pcap" "$LAB_DIR/out.pcapng"

# ---- the indexer, the merger ----

indexer_killed() {
	"$RACK" kill idx1 || return 1
	export_exits 3 "$LAB_DIR/part.pcapng" || return 1
	"$RACK" restart idx1 || return 1
	poll_until 20 export_is_whole
}
export_is_whole() {
	"$PACKRACK" export -w "$LAB_DIR/part.pcapng"
	"$COMPARE" "$LAB_DIR/tcpdump.pcap" "$LAB_DIR/part.pcapng"
}
run_step "without an indexer the answer is partial; with it again whole" indexer_killed
merger_killed() {
	local rc=0
	"$RACK" kill merger || return 1
	timeout 60 "$PACKRACK" query --count > "$LAB_DIR/query.txt" 2>&1 || rc=$?
	((rc == 1)) || { echo "query without a merger: status $rc"; cat "$LAB_DIR/query.txt"; return 1; }
	"$RACK" restart merger || return 1
	poll_until 20 export_is_whole
}
run_step "without a merger a clean error; with it again whole" merger_killed

# ---- the volumes are full ----

volumes_full() {
	up -n 2 --size 16M -- --read "$DATA/mix-gateway-hdr96-a.pcap" --read "$DATA/mix-gateway-full-a.pcap" || return 1
	"$RACK" drain --stored --timeout 120 || { "$RACK" logs | tail -n 30; return 1; }
	# Not from the oldest packet that is stored: the volumes may have wrapped at the same packet.
	export_exits 3 "$LAB_DIR/out.pcapng" --since 2024-03-05T09:00:00Z || return 1
	grep -qi overwritten "$LAB_DIR/report.txt" || { echo "no word of what was overwritten"; return 1; }
}
[ ! -f "$DATA/mix-gateway-full-a.pcap" ] || run_step "full volumes: the oldest goes, and the answer says so" volumes_full

"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
