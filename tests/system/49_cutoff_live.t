#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Classes and cutoff on a live link: classes of packrack.conf, changes while it runs, each way of distribution, how long classes
# are kept. CUTOFF=full: every capture of the data in all of these ways, by 1, 3 and 5 nodes.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpdump tcpreplay jq
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
new_lab
export PACKRACK=$BUILD/packrack
CHECK=tests/system/cutoff_check.py
FULL=$DATA/mix-gateway-full-a.pcap
CONF=$LAB_DIR/packrack.conf

up() { # OPTION...: of scripts/rack up
	"$RACK" down > /dev/null
	"$RACK" up "$@"
}
stored() {
	"$RACK" drain --stored --timeout 120 || { "$RACK" logs | tail -n 30; return 1; }
}
answer() { # OPTION...: leaves answer.pcapng, report.json and said
	"$PACKRACK" query --json -w "$LAB_DIR/answer.pcapng" "$@" > "$LAB_DIR/report.json" 2> "$LAB_DIR/said"
}
of_report() { # JQ
	jq -e ".completeness | $1" "$LAB_DIR/report.json"
}
as_options() { # CLASS...
	OPTIONS=()
	local class
	for class in "$@"; do
		OPTIONS+=(--class "$class")
	done
}

# ---- a link that is live, classes of the configuration file, and what changes meanwhile ----

LIVE=('bulk; cutoff = 4K' 'alarms; filter = host 192.0.2.1; precedence = 5')
for class in "${LIVE[@]}"; do
	printf '[class %s]\n%s\n' "${class%%;*}" "$(tr ';' '\n' <<< "${class#*;}")"
done > "$CONF"
tcpdump -r "$FULL" -w "$LAB_DIR/mix.pcap" -c 8000 2> /dev/null
export RULES=$LAB_DIR/rules
: > "$RULES"
steer() { # VERB WORDS...: the model gets to know when
	"$PACKRACK" class "$@" && printf '%s %s\n' "$(date +%s%N)" "$*" | sed 's/ --.*//' >> "$RULES"
}
play() { # [FILE]
	"$RACK" play "${1-$LAB_DIR/mix.pcap}" --pps=20000 --quiet > "$LAB_DIR/play" 2>&1 || { cat "$LAB_DIR/play"; return 1; }
}
begins() {
	up -n 3 --in-mtu 65527 --out-mtu 65535 --spread weighted --record "$LAB_DIR/tcpdump.pcap" && play
}
run_step "a live link" begins
run_step "classes of the file" says 0 'bulk; cutoff = 4K' "$PACKRACK" class list
# the connections of the mix that lose most, as `tcp ADDRESS PORT ADDRESS PORT`
mapfile -t cut < <("$CHECK" largest "$LAB_DIR/mix.pcap" -- "${LIVE[@]}")
read -ra one <<< "${cut[0]}"
read -ra two <<< "${cut[1]}"
in_list() {
	"$PACKRACK" class list | grep -qE -- "$1"
}
suspended() {
	steer suspend "${one[@]}" --for 5m --reason 'case 7' && in_list "^suspend ${one[*]}, until 20.*, by user: case 7$" && play
}
run_step "a connection is kept whole" suspended
moved() {
	steer resume "${one[@]}" && ! in_list suspend && steer move "${two[1]}" alarms src && steer move "${two[3]}" alarms src &&
		in_list "^move ${two[1]} alarms src, until 20.*, by user$" && play
}
run_step "no longer; an address is of another class" moved
ends_itself() {
	steer unmove "${two[1]}" && steer unmove "${two[3]}" && steer suspend "${two[@]}" --for 1s && poll_until 10 no_rules &&
		printf '%s resume %s\n' "$(date +%s%N)" "${two[*]}" >> "$RULES" && play
}
no_rules() {
	"$PACKRACK" class list --json | jq -e '.rules == []'
}
run_step "a change ends by itself" ends_itself
run_step "another dispatcher's class" says 1 "no class 'nobody'" "$PACKRACK" class move 192.0.2.1 nobody
run_step "an address that is none" says 1 "'x' is not an IP address" "$PACKRACK" class move x bulk
run_step "a side that is none" says 1 "'up' is not src, dst or both" "$PACKRACK" class move 192.0.2.1 bulk up
run_step "a connection without ports" says 1 'a connection is PROTOCOL ADDRESS PORT ADDRESS PORT' "$PACKRACK" class suspend tcp 192.0.2.1
run_step "a port that is none" says 1 "'65536' is not a port" "$PACKRACK" class suspend tcp 192.0.2.1 65536 192.0.2.2 80
run_step "ends of two versions" says 1 'not of the same IP version' "$PACKRACK" class suspend tcp 192.0.2.1 1 ::1 80
run_step "without an end" says 2 '--for' "$PACKRACK" class suspend tcp 192.0.2.1 1 192.0.2.2 80 --for 0s
live_as_the_model() {
	stored || return 1
	answer || { cat "$LAB_DIR/said"; return 1; }
	"$CHECK" answer "$LAB_DIR/answer.pcapng" "$LAB_DIR/report.json" "$LAB_DIR/tcpdump.pcap" -- "${LIVE[@]}" || return 1
	[ "$(tcpdump -r "$LAB_DIR/tcpdump.pcap" --count 2> /dev/null | awk '{ print $1 + 0 }')" -ge 32000 ]
}
run_step "what tcpdump saw is kept or beyond, as by the model with these changes" live_as_the_model

# ---- each way of distribution ----

combos=("5 flow 1 100000 packet" "3 round-robin 2 100000 packet" "3 weighted 2 20000 xdp") files=("$LAB_DIR/mix.pcap")
if [ "${CUTOFF-}" = full ]; then
	combos=({1,3,5}\ {round-robin,weighted,flow}\ 1\ 20000\ packet {3,5}\ {round-robin,weighted,flow}\ 2\ 20000\ packet {1,3,5}\ flow\ 1\ 20000\ xdp)
	mapfile -t files < <(tests/system/captures.py "$DATA" | cut -d ' ' -f 3-)
fi
unset RULES
# What tcpreplay cannot send (other link types), and by XDP what is too long for it, is left out; at least half goes.
plays_all() { # NODES SPREAD COPIES PPS PATH
	local file sent=0 mtu=65527 out=65535 PACKRACK_TIMES=
	[ "$5" = packet ] || mtu=3000 out=3008 PACKRACK_TIMES=ignore # it has its own
	export PACKRACK_TIMES
	up -n "$1" --size 512M --in-mtu "$mtu" --out-mtu "$out" --record "$LAB_DIR/tcpdump.pcap" --spread "$2" --copies "$3" -- --path "$5" || return 1
	for file in "${files[@]}"; do
		"$RACK" play "$file" --pps="$4" --quiet > "$LAB_DIR/play" 2>&1 && sent=$((sent + 1))
	done
	stored || return 1
	answer --allow truncated || { cat "$LAB_DIR/said"; return 1; }
	"$CHECK" answer "$LAB_DIR/answer.pcapng" "$LAB_DIR/report.json" "$LAB_DIR/tcpdump.pcap" -- "${LIVE[@]}" && ((sent * 2 > ${#files[@]}))
}
for combo in "${combos[@]}"; do
	read -ra words <<< "$combo"
	run_step "live: ${words[0]} nodes, ${words[1]}, copies: ${words[2]}, path ${words[4]}" plays_all "${words[@]}"
done

# ---- what is wrong is said in a line ----

class_of() { # TEXT CLASS...: refused with TEXT, and one line
	local text=$1
	shift
	as_options "$@"
	says 2 "$text" "$RACK" exec disp "$BUILD/packrack-dispatcher" --config /dev/null --read "$FULL" --out out0 \
		--listen "ipc://$LAB_DIR/other.sock" --key-dir none --wait-time 1s "${OPTIONS[@]}" && (($(cat "$LAB_DIR/out" "$LAB_DIR/err" | wc -l) == 1))
}
run_step "an unknown key" class_of "class bulk: unknown key 'cutof' in [class NAME]; did you mean 'cutoff'?" 'bulk; cutof=1K'
run_step "no size" class_of "class bulk: cutoff: 'much' is neither a size" 'bulk; cutoff=much'
run_step "no filter" class_of "class bulk: filter 'tcp prot 80': " 'bulk; filter=tcp prot 80'
run_step "no percentage" class_of "class bulk: guarantee: '99%' is not" 'bulk; guarantee=99%'
run_step "guarantees of more than a volume" class_of "are 95.1% together: nodes can give 95% at most" 'bulk; guarantee=60%' 'dns; degrees=full 1d 35.1%'
run_step "no duration" class_of "class bulk: keep: " 'bulk; keep=-1s'
run_step "no number" class_of "class bulk: precedence: 'x' is not a whole number" 'bulk; precedence=x'
run_step "no name" class_of "it begins with its name" 'cutoff=1K'
run_step "two of a name" class_of "class bulk: there are two of this name" bulk 'bulk; cutoff=1K'
in_file() {
	printf '[class bulk]\ncutof = 1K\n' > "$LAB_DIR/bad.conf"
	says 2 "class bulk: unknown key 'cutof'" "$RACK" exec disp "$BUILD/packrack-dispatcher" --config "$LAB_DIR/bad.conf" --read "$FULL" --out out0 \
		--listen "ipc://$LAB_DIR/other.sock" --key-dir none --wait-time 1s
}
run_step "in a file, too" in_file
rm "$CONF"

# ---- how long classes are kept ----

KEEP=('short; filter=udp; keep=3s' 'kept; filter=tcp port 443; guarantee=30%; precedence=2')
as_options "${KEEP[@]}"
kept_apart() {
	up -n 1 --size 32M --in-mtu 65527 --out-mtu 65535 -- "${OPTIONS[@]}" && play "$FULL"
}
run_step "classes with a guarantee and an age" kept_apart
streams() {
	"$PACKRACK" data list --json | jq -e '[.nodes[].streams[].class] | index("kept") and index("short")' && "$PACKRACK" data list | grep 'tap0 kept'
}
run_step "data list shows them" poll_until 10 streams
expired() { # what is not of the class is whole still
	! answer udp && of_report '.evicted | length > 0 and all(.class == "short" and .keep == 3000000000)' &&
		grep '^  expired: .*(class short is kept for 3s)' "$LAB_DIR/said"
}
run_step "what is older than its class keeps is expired" poll_until 20 expired
run_step "that may be accepted" says 0 '' "$PACKRACK" query --count --allow expired udp
run_step "else the answer is partial" says 3 'expired: ' "$PACKRACK" query --count udp
of_mix() { # FILTER: how many packets of all plays
	echo $(($(tcpdump -r "$FULL" --count "$1" 2> /dev/null | awk '{ print $1 + 0 }') * PLAYS))
}
whole() { # FILTER
	(($("$PACKRACK" query --count "$1" 2> "$LAB_DIR/said") == $(of_mix "$1"))) || { cat "$LAB_DIR/said"; return 1; }
}
PLAYS=1
run_step "others are whole" whole tcp
overwritten() {
	play "$FULL" && PLAYS=$((PLAYS + 1))
	"$PACKRACK" query --count 2>&1 | grep '^  overwritten: .* stream packets.0:'
}
run_step "a volume is filled" poll_until 60 overwritten
run_step "the class with a guarantee is whole" whole 'tcp port 443'
run_step "others are not" says 3 'overwritten' "$PACKRACK" query --count 'tcp and not port 443'

"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
