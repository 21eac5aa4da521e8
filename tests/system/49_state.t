#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Classes and changes as state of the rack: made through any merger while it records, checked by the dispatcher, kept by
# nodes; there again when the programs that knew of it were killed.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpdump tcpreplay jq
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
new_lab
export PACKRACK=$BUILD/packrack
CHECK=tests/system/cutoff_check.py
CONF=$LAB_DIR/packrack.conf
LIVE=('bulk; cutoff = 4K')
printf '[class bulk]\ncutoff = 4K\n' > "$CONF"
tcpdump -r "$DATA/mix-gateway-full-a.pcap" -w "$LAB_DIR/mix.pcap" -c 6000 2> /dev/null
export RULES=$LAB_DIR/rules
: > "$RULES"
M1=(-m "ipc://$RACK_STATE/merger.sock") M2=(-m "ipc://$RACK_STATE/merger2.sock")

play() {
	"$RACK" play "$LAB_DIR/mix.pcap" --pps=20000 --quiet > "$LAB_DIR/play" 2>&1 || { cat "$LAB_DIR/play"; return 1; }
}
steer() { # VERB WORDS...: through the second merger; the model gets to know when
	"$PACKRACK" class "$@" "${M2[@]}" && printf '%s %s\n' "$(date +%s%N)" "$*" >> "$RULES"
}
begins() {
	"$RACK" up -n 3 --mergers 2 --in-mtu 65527 --out-mtu 65535 --record "$LAB_DIR/tcpdump.pcap" && play
}
rules() { # JQ [-m ENDPOINT]: of the list at the dispatcher, or of a merger's
	"$PACKRACK" class list --json "${@:2}" | jq -e "$1" || { "$PACKRACK" class list "${@:2}"; return 1; }
}
run_step "a live link, two mergers" begins
run_step "a class comes, through a merger" poll_until 20 steer add web filter=tcp precedence=3 cutoff=1K
run_step "the dispatcher has it" says 0 'web; filter=tcp; precedence=3; cutoff=1K' "$PACKRACK" class list
run_step "the other merger knows it" poll_until 10 rules '.rules | map(.key) == ["class web"]' "${M1[@]}"
run_step "packets, kept by it" play
run_step "its keys change" steer set web cutoff=200
run_step "one of the file changes" steer set bulk cutoff=20K
run_step "each is there once" rules '.classes | map(.text) | sort == ["bulk; cutoff=20K", "web; filter=tcp; precedence=3; cutoff=200"]'
run_step "one is shown" says 0 'class web, by user' "$PACKRACK" class show web
run_step "as the merger knows it, with its text" poll_until 10 says 0 'class web; filter=tcp; precedence=3; cutoff=200, by user' "$PACKRACK" class show web "${M1[@]}"
run_step "one that is not there" says 1 'there is no class we: ' "$PACKRACK" class show we
run_step "packets, kept by these" play
mapfile -t cut < <("$CHECK" largest "$LAB_DIR/mix.pcap" -- "${LIVE[@]}")
read -ra one <<< "${cut[0]}"
run_step "a connection is kept whole" steer suspend "${one[@]}"
run_step "packets, with that" play

"$RACK" drain --keep-running --timeout 120 > "$LAB_DIR/drain" || cat "$LAB_DIR/drain"
answered() { # also what is beyond in the last second
	"$PACKRACK" query --json -w "$LAB_DIR/answer.pcapng" > "$LAB_DIR/report.json" 2> "$LAB_DIR/said" || { cat "$LAB_DIR/said"; return 1; }
	jq -e '(.matched | tonumber) + ([.completeness.beyond[].packets | tonumber] | add) >= 24000' "$LAB_DIR/report.json"
}
run_step "all of it is asked for" poll_until 20 answered

# ---- what is wrong is said in a line, and changes nothing ----

digest() {
	"$PACKRACK" status --json | jq -r '[.nodes[].state_digest] | unique | if length == 1 then .[0] else empty end'
}
all_same() { # all nodes have the same
	[ -n "$(digest)" ] && [ "$(digest)" != 0 ]
}
all_know() { # JQ: of the rules that both mergers know; so they have told the nodes
	poll_until 10 rules "$1" "${M1[@]}" && poll_until 10 rules "$1" "${M2[@]}" && poll_until 20 all_same
}
run_step "all nodes have it" all_know '.rules | length == 3'
before=$("$PACKRACK" class list)
wrong() { # TEXT WORDS...
	says "${STATUS-1}" "$1" "$PACKRACK" class "${@:2}" && (($(cat "$LAB_DIR/out" "$LAB_DIR/err" | wc -l) == 1)) && [ "$("$PACKRACK" class list)" = "$before" ]
}
run_step "a class that is there" wrong "there is a class bulk already: 'class set' changes it" add bulk cutoff=1 "${M1[@]}"
run_step "one that is not there" wrong "there is no class nobody: 'class list' shows them" set nobody cutoff=1
run_step "what is not there is not removed" wrong "there is no class one" remove one
run_step "a filter that is none" wrong "class x: filter 'tcp prot 80': " add x 'filter=tcp prot 80' "${M2[@]}"
run_step "guarantees of more than a volume" wrong "are 120.0% together: nodes can give 95% at most" add x 'degrees=full 1d 60%, cut 2d 60%' "${M1[@]}"
run_step "a key that is none" wrong "class web: unknown key 'cutof'" set web cutof=1
STATUS=2 run_step "a name with a line end" wrong 'control character' add $'a\nb' cutoff=1
run_step "what is not suspended" wrong "it is not suspended" resume tcp 192.0.2.1 1 192.0.2.2 2 "${M1[@]}"
run_step "a text that is too long" says 2 "is too long" "$PACKRACK" class add x "filter=$(seq -s ' or ' -f 'port %g' 1 900)"
node_steers() { # a node's key may not
	says 1 'needs the role operate' "$PACKRACK" class add x cutoff=1 --key "$RACK_STATE/keys/log1"
}
run_step "a node's key may not change it" node_steers

# ---- programs are lost ----

there() { # at the dispatcher
	rules '[.rules[] | .key] | length == 3'
}
run_step "the dispatcher is killed" "$RACK" kill dispatcher
run_step "it is started" "$RACK" restart dispatcher
run_step "it has the state again" poll_until 20 there
gone() { # NAMES: killed at once, and started
	local name
	for name in "$@"; do "$RACK" kill "$name" || return 1; done
	for name in "$@"; do "$RACK" restart "$name" || return 1; done
}
run_step "dispatcher and mergers are killed" gone dispatcher merger merger2
run_step "the state is there" poll_until 30 there
run_step "all programs are killed" gone dispatcher merger merger2 idx1 idx2 idx3 log1 log2 log3
run_step "the state is there, from the volumes" poll_until 60 there
run_step "and with a merger that was away" poll_until 20 rules '.rules | length == 3' "${M1[@]}"

# ---- another dispatcher ----

OTHER_D=ipc://$LAB_DIR/d2.sock BRIDGE=ipc://$LAB_DIR/m9.sock
other_begins() {
	"$RACK" exec disp ip link add d2 type veth peer name d3 && "$RACK" exec disp ip link set d2 up || return 1
	"$RACK" exec disp "$BUILD/packrack-dispatcher" --config "$CONF" --read "$LAB_DIR/mix.pcap" --out d2 --wait-nodes 60 --listen "$OTHER_D" \
		--key-dir none --rack-id 77 > "$LAB_DIR/d2.log" 2>&1 &
	D2=$!
	"$RACK" exec disp "$BUILD/packrack-merger" --config /dev/null --listen "$BRIDGE" --key-dir none --dispatcher "$OTHER_D" \
		--dispatcher "$OTHER_D" > "$LAB_DIR/m9.log" 2>&1 &
	M9=$!
	poll_until 10 "$PACKRACK" class list -d "$OTHER_D" --key none
}
run_step "another dispatcher, and a merger of its own" other_begins
other_has() { # JQ
	"$PACKRACK" class list --json -d "$OTHER_D" --key none | jq -e "$1"
}
changes_there() {
	"$PACKRACK" class add far filter=udp cutoff=1K -m "$BRIDGE" --key none && other_has '.rules | map(.key) == ["class far"]'
}
run_step "it takes a change" poll_until 10 changes_there
kill "$D2" "$M9" 2> /dev/null
wait "$D2" "$M9" 2> /dev/null

# ---- what was removed does not come back ----

removed() {
	steer remove web && "$PACKRACK" class remove bulk --reason 'ticket 9' && rules '.classes | map(.text) == ["bulk\ncutoff = 4K"]'
}
run_step "classes are removed; that of the file is as before" removed
logged() {
	"$RACK" logs dispatcher | grep -F "'class web' is removed by user (by " && "$RACK" logs dispatcher | grep "'class bulk' is removed by user: ticket 9$"
}
run_step "each change is logged, with its user and reason" logged
run_step "all nodes know" all_know '.rules | map(.verb) == ["suspend"]'
run_step "programs are killed once more" gone dispatcher merger merger2
run_step "the suspension is there" poll_until 30 rules '.rules | map(.verb) == ["suspend"]'

as_the_model() {
	"$RACK" drain --stored --timeout 120 && "$CHECK" answer "$LAB_DIR/answer.pcapng" "$LAB_DIR/report.json" "$LAB_DIR/tcpdump.pcap" -- "${LIVE[@]}"
}
run_step "what tcpdump saw is kept or beyond, as by the model with these changes" as_the_model
"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
