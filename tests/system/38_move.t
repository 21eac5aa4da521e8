#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Packets move to another place: checked there before they go, each given once meanwhile and after, broken off or not.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpreplay tcpdump jq
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
new_lab
PACKRACK=$BUILD/packrack
N=9000
A=$LAB_DIR/a B=$LAB_DIR/b
tests/system/numbered.py make "$LAB_DIR/in.pcap" $N 1

numbers() { # FILE: those that packets in it say, each once
	grep -aoE 'number [0-9]{8} ' "$1" | sort -u
}
volumes() {
	for v in "$A" "$B"; do
		"$PACKRACK" volume create "$v" --force --size 16M --block-size 64K > /dev/null || return 1
	done
	"$PACKRACK" import "$LAB_DIR/in.pcap" --volume "$A" --name tap > /dev/null &&
		"$PACKRACK" export --volume "$A" -w "$LAB_DIR/all.pcapng" -q
}
each_once() { # both together are what there was
	says 0 "complete: $N packets" "$PACKRACK" export --volume "$A" --volume "$B" -w "$LAB_DIR/both.pcapng" &&
		"$PACKRACK" compare "$LAB_DIR/all.pcapng" "$LAB_DIR/both.pcapng"
}
field() { # NAME: of the last report
	jq -e ".$1" "$LAB_DIR/out"
}

# ---- from volume to volume ----

run_step "two volumes" volumes
MIDDLE=$(tcpdump -nr "$LAB_DIR/all.pcapng" --time-stamp-precision nano -tt 2> /dev/null | sed -n '4000s/ .*//p')
moved() {
	says 0 '"packets": 4000' "$PACKRACK" data move --volume "$A" --to-volume "$B" --until "@$MIDDLE" --yes --json &&
		(($(field deleted_segments) > 10))
}
run_step "the older part moves" moved
run_step "each packet is given once, and none is missed" each_once
run_step "the first place alone says where they went" says 3 "moved to $B by $(id -un) at 20" \
	"$PACKRACK" query --volume "$A" --count
gone() {
	local first
	first=$(numbers "$LAB_DIR/all.pcapng" | head -n 1)
	[ -n "$first" ] && ! grep -aqF "$first" "$A" && grep -aqF "$first" "$B"
}
run_step "they are off the first disk" gone
moved_again() {
	says 0 '"copied": 0' "$PACKRACK" data move --volume "$A" --to-volume "$B" --until "@$MIDDLE" --yes --json && each_once
}
run_step "again: what shared a block is there already" moved_again

# A writer holds the first volume, so that nothing can be deleted there.
held() {
	local pid rc=0
	mkfifo "$LAB_DIR/hold"
	"$PACKRACK" import - --volume "$A" --name held < "$LAB_DIR/hold" > "$LAB_DIR/held" 2>&1 &
	pid=$!
	exec 7> "$LAB_DIR/hold"
	head -c 24 "$LAB_DIR/in.pcap" >&7
	writer() { "$PACKRACK" volume show "$A" --keyvalue | grep -qx 'writer_alive=true'; }
	poll_until 5 writer && says 1 "is being written" "$PACKRACK" data move --volume "$A" --to-volume "$B" --yes && each_once || rc=1
	exec 7>&-
	wait "$pid"
	return "$rc"
}
run_step "copied and not deleted: each once all the same" held
rest() {
	says 0 '"copied": 0' "$PACKRACK" data move --volume "$A" --to-volume "$B" --yes --json && each_once &&
		[ -z "$(numbers "$A")" ]
}
run_step "given again it deletes, and copies nothing" rest
killed() {
	local n rounds=0
	volumes || return 1
	for n in 0.02 0.05 0.08 0.12 0.2; do
		timeout -s KILL "$n" "$PACKRACK" data move --volume "$A" --to-volume "$B" --yes > /dev/null 2>&1 || rounds=$((rounds + 1))
		each_once || { echo "killed after $n s"; return 1; }
	done
	((rounds > 0)) && poll_until 5 "$PACKRACK" data move --volume "$A" --to-volume "$B" --yes && each_once &&
		[ -z "$(numbers "$A")" ] && "$PACKRACK" volume check "$A" && "$PACKRACK" volume check "$B"
}
run_step "killed at any moment, nothing is lost nor doubled" killed

midst() { # what lies between two times
	local since
	since=$(tcpdump -nr "$LAB_DIR/all.pcapng" --time-stamp-precision nano -tt 2> /dev/null | sed -n '3000s/ .*//p')
	volumes && says 0 '"packets": 1001' "$PACKRACK" data move --volume "$A" --to-volume "$B" --since "@$since" --until "@$MIDDLE" --yes --json &&
		(($(field deleted_segments) > 10)) && each_once && says 3 "(moved to $B" "$PACKRACK" query --volume "$A" --count
}
run_step "the midst moves alone" midst
around_it() {
	"$PACKRACK" data move --volume "$A" --to-volume "$B" --yes > /dev/null && each_once
}
run_step "and then what lies around it" around_it

# Where no block is free, a move or a deletion overwrites nothing to write down what it does.
full() {
	local n
	"$PACKRACK" volume create "$A" --force --size 16M --block-size 64K &&
		"$PACKRACK" volume create "$B" --force --size 64M --block-size 64K || return 1
	for n in 1 2 3 4 5; do
		"$PACKRACK" import "$LAB_DIR/in.pcap" --volume "$A" --name "n$n" --overwrite > /dev/null 2>&1 || return 1
	done
	"$PACKRACK" volume streams "$A" --json | jq -e '[.streams[].recycled_records] | add > 100'
}
run_step "a volume that is full" full
has() { # VOLUME...: packets
	"$PACKRACK" query "${@/#/--volume=}" --count 2> /dev/null
}
all_left() {
	local before after
	before=$(has "$A")
	"$PACKRACK" data move --volume "$A" --to-volume "$B" --since "@$MIDDLE" --yes || return 1
	after=$(has "$A" "$B")
	echo "$before packets before, $after after; $(has "$A") of them are still there"
	((before == after && $(has "$B") > 0 && $(has "$A") < before))
}
run_step "its newer packets move, and the older ones are still there" all_left
deleted_only() {
	local before after range since
	since=$(tcpdump -nr "$LAB_DIR/all.pcapng" --time-stamp-precision nano -tt 2> /dev/null | sed -n '2000s/ .*//p')
	before=$(has "$A")
	range=$("$PACKRACK" query --volume "$A" --since "@$since" --count 2> /dev/null)
	"$PACKRACK" data delete --volume "$A" --since "@$since" --yes; after=$(has "$A"); echo "$before, $range, $after"
	((after < before && after >= before - range))
}
run_step "deleting some deletes no others" deleted_only
refuse_full() { # a destination that is full
	local before
	before=$(has "$A")
	"$PACKRACK" volume create "$B" --force --size 2M --block-size 64K &&
		says 1 "nothing in it may be overwritten" "$PACKRACK" data move --volume "$A" --to-volume "$B" --yes &&
		[ "$(has "$A")" = "$before" ] && says 1 "nothing in it may be overwritten" "$PACKRACK" volume index "$B"
}
run_step "a destination that is full: nothing moves, and it gets no index" refuse_full
run_step "nor without --yes" says 2 "give --yes" "$PACKRACK" data move --volume "$A" --to-volume "$B"

volumes
"$PACKRACK" data move --volume "$A" --to-volume "$B" --yes > /dev/null

# ---- into a file ----

filed() {
	says 0 "$N packets are there" "$PACKRACK" data move --volume "$B" --to-file "$LAB_DIR/f.pcapng" --yes &&
		"$PACKRACK" compare "$LAB_DIR/all.pcapng" "$LAB_DIR/f.pcapng" &&
		says 3 "moved to $LAB_DIR/f.pcapng by" "$PACKRACK" query --volume "$B" --count && [ "$(head -n 1 "$LAB_DIR/out")" = 0 ]
}
run_step "all into a file" filed
run_step "which is not overwritten" says 2 "exists already" "$PACKRACK" data move --volume "$B" --to-file "$LAB_DIR/f.pcapng"
run_step "one place, please" says 2 "no destination given" "$PACKRACK" data move --volume "$B"
run_step "another place" says 2 "are the same" "$PACKRACK" data move --volume "$B" --to-volume "$B"

# ---- from node to node ----

# What went away earlier, to a node and from there to a file, is no part of answers about a later time.
first_round() {
	local end
	"$RACK" up -n 2 || return 1
	for end in t0 t1; do # the hosts would say something between the rounds
		"$RACK" exec tap ip link set "$end" down || return 1
	done
	"$RACK" play "$LAB_DIR/in.pcap" --pps=9000 --quiet && "$RACK" drain --keep-running --timeout 120 || return 1
	"$PACKRACK" data move --node log1 --to log2 --yes && "$PACKRACK" data move --node log2 --to-file "$LAB_DIR/first.pcapng" --yes &&
		(($(tcpdump -nr "$LAB_DIR/first.pcapng" 2> /dev/null | wc -l) >= N))
}
run_step "a rack records; all of it moves to a node, and from there to a file" first_round
recorded() {
	RANGE=(--since "@$(date +%s.%N)")
	"$RACK" play "$LAB_DIR/in.pcap" --pps=9000 --quiet && "$RACK" drain --keep-running --timeout 120 || return 1
	RANGE+=(--until "@$(date +%s.%N)")
	says 0 complete "$PACKRACK" export "${RANGE[@]}" -w "$LAB_DIR/rack.pcapng"
}
run_step "it records more" recorded
told() { # what the merger knows of its nodes is as old as their last word
	[ "$("$PACKRACK" data list --json | jq '[.nodes[].streams[].packets] | add')" = "$("$PACKRACK" query --count 2> /dev/null)" ]
}
run_step "and the nodes tell what they hold" poll_until 8 told
rack_once() { # an answer that was overtaken by the deletion says so, and the next has them from where they went
	says 0 complete "$PACKRACK" export "${RANGE[@]}" -w "$LAB_DIR/now.pcapng" || { grep -q 'moved to log2' "$LAB_DIR/err" &&
		says 0 complete "$PACKRACK" export "${RANGE[@]}" -w "$LAB_DIR/now.pcapng"; } || return 1
	"$PACKRACK" compare "$LAB_DIR/rack.pcapng" "$LAB_DIR/now.pcapng"
}
rack_moved() {
	local pid rounds=0
	"$PACKRACK" data move --node log1 --to log2 --yes > "$LAB_DIR/moved" 2>&1 &
	pid=$!
	while kill -0 "$pid" 2> /dev/null; do
		rack_once || { kill "$pid"; wait "$pid"; return 1; }
		rounds=$((rounds + 1))
	done
	wait "$pid" || { cat "$LAB_DIR/moved"; return 1; }
	cat "$LAB_DIR/moved"
	((rounds > 0)) && grep -q "segments deleted" "$LAB_DIR/moved" && rack_once
}
run_step "a node's packets move to another, while answers are complete" rack_moved
alone() { # NODE: what it has
	"$PACKRACK" query --node "$1" "${RANGE[@]}" --count 2> /dev/null
}
all_there() {
	local all
	all=$(tcpdump -nr "$LAB_DIR/rack.pcapng" 2> /dev/null | wc -l)
	echo "log1 has $(alone log1), log2 $(alone log2) of $all"
	[ "$(alone log2)" = "$all" ] && (($(alone log1) < all / 4))
}
run_step "the second has all" all_there
done_testing
