#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who may speak on the rack's switch, and what its operator can tell a node.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpreplay tcpdump jq
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
new_lab
PACKRACK=$BUILD/packrack
FORGE=tests/system/forge.py
N=6000
tests/system/numbered.py make "$LAB_DIR/a.pcap" $N 1
tests/system/numbered.py make "$LAB_DIR/b.pcap" 2000 2

in_switch() {
	"$RACK" exec sw "$@"
}

# Figures: of a node's logger, of the dispatcher, of the dispatcher's view of a node.
figure() { # node|logger|dispatcher|view NODE KEY
	"$PACKRACK" status --json > "$LAB_DIR/status.json" 2> /dev/null
	python3 - "$LAB_DIR/status.json" "$@" <<- 'P'
	import json, sys
	status, (kind, node, key) = json.load(open(sys.argv[1])), sys.argv[2:]
	if kind == "logger":
	    found = [n["logger"] for n in status["nodes"] if n["node"] == node][0]
	    found = json.loads(found) if isinstance(found, str) else found
	elif kind == "node":
	    found = [n for n in status["nodes"] if n["node"] == node][0]
	elif kind == "dispatcher":
	    found = status["dispatcher"]
	else:
	    found = [n for n in status["dispatcher"]["nodes"] if n["node"] == node][0]
	print(found[key])
	P
}

is() { # VALUE logger|dispatcher|view NODE KEY
	[ "$(figure "${@:2}")" = "$1" ]
}

above() { # N logger|dispatcher|view NODE KEY
	(($(figure "${@:2}") > $1))
}

says() { # NAME TEXT: in its log
	grep -qF -- "$2" "$LAB_DIR/logs/$1.log"
}

export_exits() { # STATUS FILE
	local rc=0
	rm -f "$2"
	"$PACKRACK" export --json -w "$2" > "$LAB_DIR/report.json" 2> "$LAB_DIR/report.txt" || rc=$?
	cat "$LAB_DIR/report.txt"
	((rc == $1)) || { echo "export: status $rc, wanted $1"; return 1; }
}

count() {
	tcpdump -r "$1" --count 2> /dev/null | awk '{ print $1 + 0 }'
}

# ---- a rack with a key ----

up() {
	"$RACK" up -n 3 --record "$LAB_DIR/tcpdump.pcap" || return 1
	in_switch tcpdump -i p1 -U -w "$LAB_DIR/p1.pcap" 2> "$LAB_DIR/p1.log" &
	poll_until 10 grep -q listening "$LAB_DIR/p1.log"
}
run_step "a rack whose programs have a key" up
loud() {
	! grep -h "no keys" "$LAB_DIR"/logs/*.log
}
run_step "nobody warns of a missing key" loud
run_step "frames of the dispatcher pass by" poll_until 5 "$FORGE" has "$LAB_DIR/p1.pcap" MARK

# ---- commands that lose nothing ----

"$RACK" play "$LAB_DIR/a.pcap" --pps=600 --quiet > "$LAB_DIR/play" 2>&1 &
PLAYER=$!

listed() {
	"$PACKRACK" node list > "$LAB_DIR/list" && cat "$LAB_DIR/list" &&
		(($(grep -c '^[0-9].* log[1-3] .* active ' "$LAB_DIR/list") == 3)) &&
		"$PACKRACK" node list --json | python3 -c 'import json, sys; assert len(json.load(sys.stdin)["nodes"]) == 3'
}
run_step "node list" listed
identify() {
	local rc=0
	"$PACKRACK" node identify log2 > "$LAB_DIR/identify" 2>&1 || rc=$?
	cat "$LAB_DIR/identify"
	((rc == 1)) && says log2 "no LED"
}
run_step "node identify: a card without an LED is said to have none" identify
refute_step "a node of no such name" 1 "$PACKRACK" node identify nobody
run_step "node disconnect" "$PACKRACK" node disconnect log2
run_step "the node is away" poll_until 2 is disconnected view log2 state
refute_step "a node that is away cannot identify itself" 1 "$PACKRACK" node identify log2
run_step "node reconnect" "$PACKRACK" node reconnect log2
run_step "the node is back" poll_until 2 is active view log2 state
run_step "and gets packets" poll_until 5 above 0 view log2 sent_frames

# ---- forgers ----

forged() { # counted, and nothing else
	local before type
	before=$(figure logger log1 control_bad_tag_frames)
	for type in STOP RESET DISCONNECT; do
		in_switch "$FORGE" send p1 "$LAB_DIR/p1.pcap" "$type" || return 1
	done
	poll_until 8 above $((before + 2)) logger log1 control_bad_tag_frames
}
run_step "forged STOP, RESET and DISCONNECT frames are counted" forged
run_step "the forger's frames are good but for the key" in_switch \
	"$FORGE" send p1 "$LAB_DIR/p1.pcap" IDENTIFY --key "$LAB_DIR/keys/log1/rack"
run_step "as the node obeys one with it" poll_until 5 says log1 "no LED"
forged_quit() {
	local before
	before=$(figure dispatcher - control_bad_tag_frames)
	in_switch "$FORGE" leave p0 "$LAB_DIR/p1.pcap" || return 1
	poll_until 5 above "$before" dispatcher - control_bad_tag_frames
}
run_step "a forged QUIT is counted" forged_quit
run_step "and the node has not left" is active view log1 state

whole() {
	wait "$PLAYER" || { cat "$LAB_DIR/play"; return 1; }
	"$RACK" exec tap ip link set t0 down # its hosts talk on
	"$RACK" exec tap ip link set t1 down
	"$RACK" drain --keep-running --timeout 120 || return 1
	export_exits 0 "$LAB_DIR/whole.pcapng" || return 1
	whole=$(count "$LAB_DIR/whole.pcapng")
	((whole >= N)) || return 1
	poll_until 5 tcpdump_has "$whole" && "$RACK" kill -s INT tcpdump && poll_until 5 same
}
tcpdump_has() { # at a signal it says how much
	"$RACK" kill -s USR1 tcpdump
	grep -q "^.*$1 packets captured" "$LAB_DIR/logs/tcpdump.log"
}
same() {
	"$COMPARE" "$LAB_DIR/tcpdump.pcap" "$LAB_DIR/whole.pcapng"
}
run_step "nothing is lost, neither to forgers nor to commands" whole

# ---- a node with another key ----

stranger() {
	sed -i "s/^frame-key .*/frame-key $(printf 'b%.0s' {1..64})/" "$LAB_DIR/keys/log3/rack"
	"$RACK" restart log3 || return 1
	poll_until 5 above 2 dispatcher - control_bad_tag_frames || return 1
	is quit view log3 state
}
run_step "a logger with another key is refused and counted" stranger
stranger_gets_nothing() {
	"$RACK" play "$LAB_DIR/b.pcap" --pps=8000 --quiet || return 1
	"$RACK" drain --keep-running --timeout 120 || return 1
	poll_until 5 is 0 logger log3 data_frames && is 0 logger log3 connected
	export_exits 0 "$LAB_DIR/more.pcapng" && (($(count "$LAB_DIR/more.pcapng") == whole + 2000))
}
run_step "and gets no packet; the others store them all" stranger_gets_nothing

# ---- a node is emptied ----

refute_step "node reset wants --yes" 2 "$PACKRACK" node reset log1
told() { # what the merger knows of its nodes is as old as their last word
	local n sum=0
	for n in log1 log2 log3; do
		held=$(figure node "$n" packets) && sum=$((sum + held))
	done
	held=$(figure node log1 packets)
	((sum == whole + 2000))
}
run_step "the nodes have told what they hold" poll_until 8 told
resets=$("$FORGE" count "$LAB_DIR/p1.pcap" RESET) # the forged one
run_step "node reset --yes" "$PACKRACK" node reset log1 --yes
gone() {
	local all=$((whole + 2000))
	export_exits 3 "$LAB_DIR/left.pcapng" || return 1
	(($(count "$LAB_DIR/left.pcapng") == all - held)) || return 1
	printf '{"ranges": [{"link": 0, "first_seq": 1, "last_seq": %d, "count": %d}]}' "$all" "$held" > "$LAB_DIR/gone.json"
	"$COMPARE" --allow-missing "$LAB_DIR/gone.json" "$LAB_DIR/more.pcapng" "$LAB_DIR/left.pcapng" || return 1
	grep -q "overwritten: log1, .*reset" "$LAB_DIR/report.txt"
}
run_step "its packets are gone, the others' are there, and the answer says what lacks" gone
replayed() {
	poll_until 5 "$FORGE" has "$LAB_DIR/p1.pcap" RESET "$resets" || return 1
	"$RACK" play "$LAB_DIR/b.pcap" --pps=8000 --quiet || return 1
	"$RACK" drain --keep-running --timeout 120 || return 1
	local before
	export_exits 3 "$LAB_DIR/before.pcapng" || return 1
	before=$(figure logger log1 control_refused_frames)
	in_switch "$FORGE" replay p1 "$LAB_DIR/p1.pcap" RESET || return 1
	poll_until 5 above "$before" logger log1 control_refused_frames || return 1
	export_exits 3 "$LAB_DIR/left.pcapng" &&
		"$COMPARE" "$LAB_DIR/before.pcapng" "$LAB_DIR/left.pcapng"
}
run_step "the RESET of a moment ago, sent again, deletes nothing" replayed
replayed_quit() {
	"$RACK" restart log1 || return 1
	poll_until 5 "$FORGE" has "$LAB_DIR/p1.pcap" QUIT || return 1
	poll_until 8 is active view log1 state || return 1
	local before
	before=$(figure dispatcher - control_stale_frames)
	in_switch "$FORGE" replay p0 "$LAB_DIR/p1.pcap" QUIT || return 1
	poll_until 5 above "$before" dispatcher - control_stale_frames || return 1
	is active view log1 state
}
run_step "nor does the QUIT of an earlier run take a node away" replayed_quit

# ---- all that was sent, once more in a later run ----

epochs() { # that log1 has followed
	grep -c "of the dispatcher at" "$LAB_DIR/logs/log1.log"
}
followed() { # N
	(($(epochs) == $1))
}
left_alone() { # a logger that waits for its dispatcher does not follow what an earlier one has said
	local before refused
	"$RACK" kill log2
	before=$(epochs)
	"$RACK" restart dispatcher && poll_until 10 followed $((before + 1)) || return 1
	cp "$LAB_DIR/p1.pcap" "$LAB_DIR/recorded.pcap"
	"$FORGE" has "$LAB_DIR/recorded.pcap" ANN_ACK && "$RACK" kill dispatcher || return 1
	: > "$LAB_DIR/logs/log1.log"
	poll_until 10 says log1 "announcing again" || return 1
	in_switch "$FORGE" replay p1 "$LAB_DIR/recorded.pcap" ALL || return 1
	# its next STATUS comes after all of them
	refused=$(figure logger log1 control_refused_frames)
	poll_until 5 above "$refused" logger log1 control_refused_frames || return 1
	followed 0
}
run_step "a logger does not follow the recorded frames of a dispatcher that it has left" left_alone
refused() { # control frames, by the dispatcher
	"$PACKRACK" status --json 2> /dev/null | jq '.dispatcher | .control_stale_frames + .control_replayed_frames +
		.control_unconfirmed_frames + .control_not_from_node_frames + .control_bad_tag_frames'
}
nobody_new() {
	local before controls
	"$RACK" restart dispatcher && poll_until 10 is active view log1 state || return 1
	before=$(refused)
	controls=$(tcpdump -r "$LAB_DIR/recorded.pcap" --count ether proto 0x88b5 2> /dev/null | awk '{ print $1 + 0 }')
	in_switch "$FORGE" replay p0 "$LAB_DIR/recorded.pcap" ALL || return 1
	in_switch "$FORGE" replay p1 "$LAB_DIR/recorded.pcap" ALL || return 1
	all_refused() { (($(refused) - before >= controls)); }
	poll_until 8 all_refused || { echo "$(refused) - $before of $controls"; return 1; }
	above 0 dispatcher - control_stale_frames && poll_until 5 above 0 dispatcher - control_unconfirmed_frames || return 1
	"$PACKRACK" node list > "$LAB_DIR/list" || return 1
	cat "$LAB_DIR/list"
	! grep -q "log2" "$LAB_DIR/list" && followed 1
}
run_step "recorded announcements admit nobody, and are counted" nobody_new
all_there() {
	local before since
	before=$(count "$LAB_DIR/before.pcapng")
	cp "$LAB_DIR/keys/log1/rack" "$LAB_DIR/keys/log3/rack"
	"$RACK" restart log3 && "$RACK" restart log2 || return 1
	poll_until 10 is capturing dispatcher - state || return 1
	in_switch "$FORGE" replay p0 "$LAB_DIR/recorded.pcap" ALL || return 1
	since=@$(date +%s.%N)
	"$RACK" play "$LAB_DIR/b.pcap" --pps=8000 --quiet || return 1
	"$RACK" drain --keep-running --timeout 120 || return 1
	[ "$("$PACKRACK" query --count --since "$since")" = 2000 ] || return 1
	export_exits 3 "$LAB_DIR/after.pcapng" || return 1 # log1 was emptied, log2 killed
	(($(count "$LAB_DIR/after.pcapng") == before + 2000))
}
run_step "so no packet goes astray" all_there

"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
