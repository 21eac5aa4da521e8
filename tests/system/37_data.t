#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Packets where they lie: what each node holds, one node's alone, and deleting them for good.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpreplay tcpdump jq script
need_python
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
new_lab
PACKRACK=$BUILD/packrack
N=9000
tests/system/numbered.py make "$LAB_DIR/a.pcap" $N 1

matched() { # OPTION...: how many packets
	"$PACKRACK" query --count "$@" 2> "$LAB_DIR/said"
	(($? == 0 || $? == 3)) # partial as well
}
numbers() { # FILE: those that packets in it say, each once
	grep -aoE 'number [0-9]{8} ' "$1" | sort -u
}

# ---- a volume, without a rack ----

V=$LAB_DIR/v
of_volume() { # JQ: of what it holds of packets
	"$PACKRACK" data list --volume "$V" --json | jq -e ".nodes[0].streams[] | select(.name == \"packets.0\") | $1"
}
"$PACKRACK" volume create "$V" --size 16M --block-size 64K > /dev/null &&
	"$PACKRACK" import "$LAB_DIR/a.pcap" --volume "$V" --name tap > /dev/null
run_step "a volume's packets are listed" of_volume ".packets == $N and .link_name == \"tap\" and .deleted == []"
run_step "its export is checked by a count" "$PACKRACK" data export --volume "$V" -w "$LAB_DIR/v.pcap" -q
# the time of the 4000th packet, and who it is
MIDDLE=$(tcpdump -nr "$LAB_DIR/v.pcap" --time-stamp-precision nano -tt 2> /dev/null | sed -n '4000s/ .*//p')
ROOM=200 # packets that a segment may hold

deleted_until() {
	local left cut
	says 0 "packets of the time range remain" "$PACKRACK" data delete --volume "$V" --until "@$MIDDLE" --yes || return 1
	left=$(matched --volume "$V") || return 1
	cut=$((N - left))
	((cut <= 4000 && cut > 4000 - ROOM)) || { echo "$cut packets are gone"; return 1; }
	"$PACKRACK" query --volume "$V" -w "$LAB_DIR/left.pcap" 2> "$LAB_DIR/said"
	(($? == 3)) && grep "deleted by $(id -un) at 20" "$LAB_DIR/said" || return 1
	# what is left is the end of what there was
	diff <(tcpdump -nr "$LAB_DIR/a.pcap" -tt -xx 2> /dev/null | sha256sum) \
		<(tcpdump -nr "$LAB_DIR/v.pcap" -tt -xx 2> /dev/null | sha256sum) || return 1
	diff <(tcpdump -nr "$LAB_DIR/v.pcap" -tt 2> /dev/null | tail -n "$left" | sha256sum) \
		<(tcpdump -nr "$LAB_DIR/left.pcap" -tt 2> /dev/null | sha256sum)
}
run_step "what is older than a time is deleted" deleted_until
on_disk() { # what answers give is there, and what they lack is not
	numbers "$LAB_DIR/left.pcap" > "$LAB_DIR/want"
	numbers "$V" > "$LAB_DIR/have"
	diff "$LAB_DIR/want" "$LAB_DIR/have"
}
run_step "the file has no byte of it any more" on_disk
run_step "the list says by whom" of_volume ".deleted[0].by == \"$(id -un)\" and .deleted[0].until >= .evicted_until"
run_step "nothing is missing nor lost" \
	jq -e '.completeness.missing_packets == 0 and .completeness.evicted[0].deleted_by != null' <(
		"$PACKRACK" query --volume "$V" --count --json 2> /dev/null)
run_step "after it nobody asks" says 0 "complete" "$PACKRACK" query --volume "$V" --count --since "@$MIDDLE"

# ---- beside other users ----

as() { # USER COMMAND...
	setpriv --reuid "$1" --regid "$1" --clear-groups env -u XDG_RUNTIME_DIR "${@:2}"
}
squatted() { # one who knows the volume's UUID takes the names that its writer could want
	local own=$LAB_DIR/own uuid name rc=0
	chmod 711 "$LAB_DIR" && chmod 644 "$LAB_DIR/a.pcap" && mkdir "$own" && chown 54321 "$own" || return 1
	as 54321 "$PACKRACK" volume create "$own/v" --size 16M > "$LAB_DIR/out" || return 1
	uuid=$(as 54321 "$PACKRACK" volume show "$own/v" --json | jq -r .uuid)
	for name in "$uuid" "$uuid.shm" "$uuid.index"; do
		as 54322 touch "/dev/shm/packrack-$name"
		! as 54322 touch "/run/packrack/$name" "/dev/shm/packrack-54321/$name" || return 1
	done
	as 54321 "$PACKRACK" import "$LAB_DIR/a.pcap" --volume "$own/v" || rc=1
	rm -rf "/dev/shm/packrack-$uuid"* /dev/shm/packrack-54321
	((rc == 0))
}
run_step "nobody keeps a volume from being written by taking its names" squatted
planted() { # the user of the runtime directory cannot have root remove a file of its choice
	local uuid file=$LAB_DIR/kept
	uuid=$("$PACKRACK" volume show "$V" --json | jq -r .uuid) && [ -n "$uuid" ] || return 1
	touch "$file" && ln -sf "$file" "/run/packrack/$uuid.shm" || return 1
	"$PACKRACK" data delete --volume "$V" --until @1 --yes > "$LAB_DIR/out" 2>&1
	[ ! -L "/run/packrack/$uuid.shm" ] && [ -e "$file" ]
}
run_step "a link that is planted for a volume's writer removes no other file" planted

# ---- from the midst ----

at() { # NUMBER: its packet's time
	tcpdump -nr "$LAB_DIR/v.pcap" --time-stamp-precision nano -tt 2> /dev/null | sed -n "$1s/ .*//p"
}
SINCE=$(at 5500) UNTIL=$(at 6500)
around() { # SINCE UNTIL: how many packets are not of that time
	local all between
	all=$(matched --volume "$V") && between=$(matched --volume "$V" --since "@$1" --until "@$2") && echo $((all - between))
}
answered() { # FILE [OPTION...]: the numbers of an answer
	local file=$1
	shift
	"$PACKRACK" query --volume "$V" -w "$LAB_DIR/answer.pcap" "$@" 2> "$LAB_DIR/said"
	(($? == 0 || $? == 3)) && numbers "$LAB_DIR/answer.pcap" > "$file"
}
midst() {
	local gone
	answered "$LAB_DIR/before" && gone=$(matched --volume "$V") || return 1
	says 0 "packets of the time range remain" "$PACKRACK" data delete --volume "$V" --since "@$SINCE" --until "@$UNTIL" --yes || return 1
	answered "$LAB_DIR/want" || return 1
	cat "$LAB_DIR/said"
	# who did it, and nothing but that
	grep "to .* (deleted by $(id -un) at 20" "$LAB_DIR/said" && ! grep -q missing "$LAB_DIR/said" || return 1
	gone=$((gone - $(matched --volume "$V")))
	((gone <= 1001 && gone > 1001 - 2 * ROOM)) || { echo "$gone packets are gone"; return 1; }
	# of that time, and none came back
	[ -z "$(comm -13 "$LAB_DIR/before" "$LAB_DIR/want")" ] && [ "$(around "$SINCE" "$UNTIL")" = "$AROUND" ]
}
AROUND=$(around "$SINCE" "$UNTIL")
run_step "what lies between two times is deleted" midst
sides() {
	says 0 complete "$PACKRACK" query --volume "$V" --count --since "@$(at 4500)" --until "@$(at 5400)" &&
		says 0 complete "$PACKRACK" query --volume "$V" --count --since "@$(at 6600)"
}
run_step "neither side lacks anything" sides
midst_on_disk() {
	numbers "$V" > "$LAB_DIR/have"
	diff "$LAB_DIR/want" "$LAB_DIR/have"
}
run_step "the file has no byte of that either" midst_on_disk
run_step "the list says from when to when" of_volume ".deleted[1].since > .deleted[0].until and .deleted[1].until > .deleted[1].since"
shown() {
	"$PACKRACK" volume check "$V" && "$PACKRACK" volume show "$V" --keyvalue | grep -qx 'deletions=[1-9]'
}
run_step "the volume is sound, and shows it" shown
killed() { # at any moment: no packet in part, none that was not asked for, and what is begun ends
	local n pid around since until
	since=$(at 7000) until=$(at 8900)
	around=$(around "$since" "$until")
	for n in 0.01 0.015 0.02 0.03; do
		"$PACKRACK" data delete --volume "$V" --since "@$since" --until "@$until" --yes > /dev/null 2>&1 &
		pid=$!
		sleep "$n"
		kill -KILL "$pid"
		wait "$pid" # a dead writer's lock goes with it
		answered "$LAB_DIR/want" && [ -z "$(comm -13 "$LAB_DIR/before" "$LAB_DIR/want")" ] || return 1
		! grep -e missing -e damaged "$LAB_DIR/said" || return 1
		[ "$(around "$since" "$until")" = "$around" ] || return 1
	done
	"$PACKRACK" data delete --volume "$V" --since "@$since" --until "@$until" --yes && answered "$LAB_DIR/want" &&
		midst_on_disk && "$PACKRACK" volume check "$V" && (($(matched --volume "$V" --since "@$since" --until "@$until") < 2 * ROOM))
}
run_step "killed at any moment, it goes on" killed
refute_step "nor without a word" 2 "$PACKRACK" data delete --volume "$V" < /dev/null
typed() { # NAME: at the question, on a terminal
	echo "$1" | timeout 10 script -qec "'$PACKRACK' data delete --volume '$V'" /dev/null > "$LAB_DIR/typed"
	local rc=$?
	cat "$LAB_DIR/typed"
	grep -qF "Type $V to confirm:" "$LAB_DIR/typed" && return "$rc"
}
another() {
	local before
	before=$(matched --volume "$V")
	typed other
	(($? == 2)) && grep -q "not deleted" "$LAB_DIR/typed" && [ "$(matched --volume "$V")" = "$before" ]
}
run_step "on a terminal another name deletes nothing" another
all_gone() {
	typed "$V" || return 1
	[ "$(matched --volume "$V")" = 0 ] && [ -z "$(numbers "$V")" ] && "$PACKRACK" volume check "$V"
}
run_step "all goes, and the volume is sound" all_gone
again() {
	"$PACKRACK" import "$LAB_DIR/a.pcap" --volume "$V" --name tap > /dev/null && of_volume ".packets == $N"
}
run_step "it records again" again

# ---- a rack ----

figure() { # NODE JQ: of what the merger's list says of its packets
	"$PACKRACK" data list --json | jq -e "first(.nodes[] | select(.node == \"$1\") | .streams[] | select(.name == \"packets.0\")) | $2"
}
told() { # what the merger knows of its nodes is as old as their last word
	local one two
	one=$(figure log1 .packets) && two=$(figure log2 .packets) && [ $((one + two)) = "$WHOLE" ]
}
recorded() {
	"$RACK" up -n 2 && "$RACK" play "$LAB_DIR/a.pcap" --pps=9000 --quiet && "$RACK" drain --timeout 120 || return 1
	WHOLE=$("$PACKRACK" query --count) && ((WHOLE >= N)) || return 1
	poll_until 5 told || { "$PACKRACK" data list; return 1; }
}
run_step "a rack records" recorded
PART=$(figure log1 .packets)
alone() { # "how many are there" is what the list says
	"$PACKRACK" data export --node log1 -w "$LAB_DIR/log1.pcap" && [ "$(tcpdump -nr "$LAB_DIR/log1.pcap" 2> /dev/null | wc -l)" = "$PART" ]
}
run_step "one node's packets alone are a complete answer" alone
"$RACK" kill log2
run_step "also while another is down" alone
run_step "the one that is down cannot delete" says 1 "log2" "$PACKRACK" data delete --node log2 --yes
"$RACK" restart log2

uuid_of() { # NODE
	"$PACKRACK" volume show "$LAB_DIR/$1.vol" --json | jq -r .uuid
}
stranger() { # COMMAND...: as a user of the logger's group
	setpriv --reuid 54322 --regid "$(stat -c %g /run/packrack)" --clear-groups "$@"
}

forged_delete() { # SOCKET: exit 0 if it is answered
	stranger timeout 10 "$PYTHON" - "$1" <<- 'P'
	import sys, zmq
	from packrack import packrack_pb2 as pb
	socket = zmq.Context().socket(zmq.DEALER)
	socket.linger = 0
	socket.connect("ipc://" + sys.argv[1])
	envelope = pb.Envelope(id=1)
	envelope.command.verb, envelope.command.user, envelope.command.until = "delete", "user", 2 ** 62
	socket.send(envelope.SerializeToString())
	if not socket.poll(800):
	    sys.exit("no answer")
	print(pb.Envelope.FromString(socket.recv()))
	P
}
refused() { # connections to log1's logger
	"$RACK" exec log1 "$PYTHON" -c 'import urllib.request; print(urllib.request.urlopen("http://127.0.0.1:9472/metrics").read().decode())' |
		sed -n 's/^packrack_connections_refused_total.* //p'
}
strangers_refused() { # by the file's mode, and by who they are
	local socket before
	socket=/run/packrack/$(uuid_of log1).index
	[ -S "$socket" ] && ! forged_delete "$socket" || return 1
	before=$(refused)
	chmod 666 "$socket" && ! forged_delete "$socket" || return 1
	chmod 600 "$socket"
	(($(refused) > before)) && [ "$(figure log1 .packets)" = "$PART" ]
}
run_step "a logger takes commands of its own user only" strangers_refused
member() { # NAME ROLE: a key pair of its own, enrolled on the head
	"$PACKRACK" keys generate --key "$LAB_DIR/keys/$1" 2> /dev/null |
		"$PACKRACK" keys enroll "$1" "$2" - --key "$LAB_DIR/keys/head" --bundle - |
		"$PACKRACK" keys join - --key "$LAB_DIR/keys/$1"
}
run_step "a reader is enrolled" member ann read
run_step "and lists" env PACKRACK_KEY="$LAB_DIR/keys/ann" "$PACKRACK" data list
run_step "but does not delete" says 1 "not allowed: key" env PACKRACK_KEY="$LAB_DIR/keys/ann" "$PACKRACK" data delete --node log1 --yes
refute_step "a node that nobody knows" 1 "$PACKRACK" data delete --node nobody --yes

rack_deleted() {
	local user
	"$PACKRACK" data delete --node log1 --yes || return 1
	"$PACKRACK" query -w "$LAB_DIR/rest.pcap" 2> "$LAB_DIR/said"
	(($? == 3)) || { cat "$LAB_DIR/said"; return 1; }
	user=$(sed -n 's/.*deleted by \([^ ]*\) at 20.*/\1/p' "$LAB_DIR/said" | sort -u)
	cat "$LAB_DIR/said"
	[ "$user" = user ] && ! grep -q missing "$LAB_DIR/said" || return 1
	[ "$(tcpdump -nr "$LAB_DIR/rest.pcap" 2> /dev/null | wc -l)" = $((WHOLE - PART)) ]
}
rack_midst() { # what the other node has of that time is given, and this one's is missed by nobody
	local first last
	first=$("$PACKRACK" data list --node log2 --json | jq '.nodes[0].streams[] | select(.name == "packets.0") | .oldest_time')
	last=$("$PACKRACK" data list --node log2 --json | jq '.nodes[0].streams[] | select(.name == "packets.0") | .newest_time')
	echo "$first to $last"
	deleted() { # it was started a moment ago, and its logger may be on the way
		"$PACKRACK" data delete --node log2 --since "@$(jq -n "($first + ($last - $first) * 0.4) / 1e9")" \
			--until "@$(jq -n "($first + ($last - $first) * 0.6) / 1e9")" --yes --json > "$LAB_DIR/out" 2> "$LAB_DIR/err"
	}
	poll_until 8 deleted || { cat "$LAB_DIR/err"; return 1; }
	cat "$LAB_DIR/out"
	jq -e '.deleted[0].segments > 0' "$LAB_DIR/out" > /dev/null || return 1
	"$PACKRACK" query --count > "$LAB_DIR/out" 2> "$LAB_DIR/said"
	(($? == 3)) && cat "$LAB_DIR/said" && grep -q "log2.* to .*deleted by user at 20" "$LAB_DIR/said" &&
		! grep -q missing "$LAB_DIR/said" && WHOLE=$(head -n 1 "$LAB_DIR/out") || return 1
	poll_until 5 told && "$RACK" drain --timeout 120
}
run_step "a node's midst goes, at the word of who may steer" rack_midst
PART=$(figure log1 .packets)
run_step "who may steer does" rack_deleted
gone_on_disk() {
	local log1
	log1=$(find "$LAB_DIR" -name 'log1*.vol')
	[ -n "$log1" ] && [ -z "$(numbers "$log1")" ] && [ -n "$(numbers "${log1//log1/log2}")" ]
}
run_step "it is gone from that node's volume alone" gone_on_disk
remembered() {
	"$RACK" restart log1
	says_so() { says 3 "deleted by user" "$PACKRACK" query --count && ! grep -q missing "$LAB_DIR/err"; }
	poll_until 8 says_so || { cat "$LAB_DIR/err"; return 1; }
}
run_step "and known after the node's restart" remembered
done_testing
