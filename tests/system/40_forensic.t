#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Three monitors saw an attack of two stages in real traffic: seven queries by packrack alone trace it
# to its origin. Each answer equals tcpdump's, each finding is what the attack's generator knows.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpdump awk unshare
need_programs packrack packrack-logger packrack-indexer packrack-merger
need_data
new_lab
PACKRACK=$BUILD/packrack
ATTACK=tests/system/attack.py
PROGRAMS=()

stop_programs() {
	local pid
	for pid in "${PROGRAMS[@]}"; do
		kill "$pid" 2> /dev/null
	done
	wait
	PROGRAMS=()
}
trap 'stop_programs; end_labs' EXIT

start() { # NAME PROGRAM ARGUMENT...
	local name=$1
	shift
	"$BUILD/$1" --config /dev/null "${@:2}" > "$LAB_DIR/$name.log" 2>&1 &
	PROGRAMS+=($!)
}

# A logger with a volume of its own, and its indexer. When the traces are in, the logger goes on with an
# interface, a silent one in a namespace of its own, as a monitor does: the index is made beside it.
monitor() { # NAME LINK
	"$PACKRACK" volume create "$LAB_DIR/$1.vol" --size 128M > /dev/null || return 1
	"$BUILD/packrack-logger" --config /dev/null --name "$1" --volume "$LAB_DIR/$1.vol" --link "$2" \
		--read "$LAB_DIR/$1.pcap" > "$LAB_DIR/$1-read.log" 2>&1 || return 1
	unshare --net sh -c 'ip link set lo up && exec "$@"' sh "$BUILD/packrack-logger" \
		--config /dev/null --name "$1" --volume "$LAB_DIR/$1.vol" --link "$((10 + $2))" --tap lo \
		> "$LAB_DIR/$1.log" 2>&1 &
	PROGRAMS+=($!)
	start "$1-index" packrack-indexer --name "$1" --volume "$LAB_DIR/$1.vol" --merger "$PACKRACK_MERGER"
}

indexed() { # a host that nobody heard of is looked for in next to no segment
	local report n scanned skipped
	report=$("$PACKRACK" query --json --count host 192.0.2.99 2> /dev/null) || return 1
	for n in skipped_level1 scanned_segments; do
		printf -v "${n%_*}" %d "$(sed -n "s/.*\"$n\": *\([0-9]*\).*/\1/p" <<< "$report" | head -n 1)"
	done
	echo "scanned $scanned of $((scanned + skipped))"
	((skipped > 150 && scanned < 10))
}

all_there() {
	local n
	n=$("$PACKRACK" query --count 2> "$LAB_DIR/count.err") && ((n == $(packets)))
}
packets() {
	local name n=0
	for name in gateway path-a path-b; do
		n=$((n + $(tcpdump -r "$LAB_DIR/$name.pcap" --count 2> /dev/null | awk '{ print $1 }')))
	done
	echo "$n"
}

up() {
	start merger packrack-merger --listen "$PACKRACK_MERGER"
	monitor gateway 0 && monitor path-a 1 && monitor path-b 2 && poll_until 30 all_there && return
	tail -n 5 "$LAB_DIR"/*.log "$LAB_DIR/count.err"
	return 1
}

answer_is_tcpdumps() { # NAME
	local q=$LAB_DIR/answers/$1
	"$ATTACK" want "$LAB_DIR" "$1" "$LAB_DIR/want" &&
		"$COMPARE" --order otime "$LAB_DIR"/want.{0,1,2} "$q.pcapng" &&
		grep -q '^complete' "$q.report" && [ -s "$q.txt" ]
}

run_step "an attack is hidden in real traffic" "$ATTACK" make "$DATA" "$LAB_DIR" "${FORENSIC_SEED:-1}"
run_step "three monitors record it, and answer as one" up
run_step "what they recorded is indexed" poll_until 20 indexed
B=$(sed -n 's/.*"B": "\(.*\)".*/\1/p' "$LAB_DIR/truth.json")
run_step "seven queries trace it from $B to its origin" scripts/forensics -o "$LAB_DIR/answers" "$B"
for query in 1 2 2-irc 3 3-irc 4 5 5-exploit 6 7; do
	run_step "answer $query is tcpdump's on the three traces" answer_is_tcpdumps "$query"
done
run_step "what was found is what was done" "$ATTACK" agree "$LAB_DIR"
selective() { # of the whole time, few segments hold what was asked for
	awk '/searched:/ { ok = $10 > $7; print } END { exit !ok }' "$LAB_DIR/answers/$1.report"
}
for query in 1 4 7; do
	run_step "query $query read few segments" selective $query
done
refute_step "a host that sent no mail leaves no trail" 1 scripts/forensics 192.0.2.1
refute_step "a host is wanted" 2 scripts/forensics
stop_programs
rm -f "$LAB_DIR/merger.sock"
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
