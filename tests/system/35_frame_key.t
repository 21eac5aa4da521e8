#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The key of a rack's frames is renewed while it works: no packet is lost but for the dispatcher's restart,
# and afterwards the old key is good no more.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpreplay
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
new_lab
PACKRACK=$BUILD/packrack
KEYS=$LAB_DIR/keys
N=2000
tests/system/numbered.py make "$LAB_DIR/a.pcap" $N 1

keys() { # VERB ...: on the head
	"$PACKRACK" keys "$@" --key "$KEYS/head"
}

active() { # NAME
	"$PACKRACK" node list | grep -q "^[0-9].* $1 .* active"
}

joined() { # NAME...
	local name
	for name in "$@"; do
		poll_until 10 active "$name" || { "$PACKRACK" node list; return 1; }
	done
}

counted() { # NUMBER: packets that were played and are found
	local got
	got=$("$PACKRACK" query --count --keyvalue 2> /dev/null | sed -n 's/^matched=//p')
	((got >= $1)) || { echo "$got, wanted at least $1"; return 1; }
}

bad_tags() {
	"$PACKRACK" status --keyvalue 2> /dev/null | sed -n 's/^dispatcher\.control_bad_tag_frames=//p'
}

play() {
	"$RACK" play "$LAB_DIR/a.pcap" --pps=4000 --quiet && "$RACK" drain --keep-running --timeout 120
}

run_step "a rack with keys" "$RACK" up -n 2
hash_before=$(keys list --keyvalue | sed -n 's/^frame_key_hash=//p')
run_step "a new frame key" keys renew
refute_step "not a second one meanwhile" 1 keys renew
hashed() {
	local now
	now=$(keys list --keyvalue | sed -n 's/^frame_key_hash=//p')
	[ -n "$hash_before" ] && [ -n "$now" ] && [ "$now" != "$hash_before" ]
}
run_step "its hash is another" hashed

handed_out() { # NAME: as an operator would, and the logger started anew
	keys bundle "$1" - | "$PACKRACK" keys join - --key "$KEYS/$1" && "$RACK" restart "$1" && joined "$1"
}
run_step "a node that has both keys joins the dispatcher that has the old one" handed_out log1
run_step "and another one" handed_out log2
played() {
	play && counted "$N"
}
run_step "packets are recorded" played

switched() {
	"$RACK" restart dispatcher && joined log1 log2
}
run_step "the dispatcher takes the new key, and both nodes follow" switched
played_again() {
	play && counted $((2 * N))
}
run_step "packets are recorded still" played_again

run_step "the renewal ends" keys renew --end
refute_step "once" 1 keys renew --end
run_step "the dispatcher forgets the old key" switched
old_refused() {
	local before
	sed -n '/^frame-key/p' "$KEYS/log2/rack" | tail -n 1 > "$LAB_DIR/old"
	sed -i /^frame-key/d "$KEYS/log2/rack"
	cat "$LAB_DIR/old" >> "$KEYS/log2/rack"
	before=$(bad_tags)
	"$RACK" restart log2 || return 1
	more() { (($(bad_tags) > before)); }
	poll_until 10 more && ! active log2
}
run_step "a node that has the old one only is refused" old_refused
done_testing
