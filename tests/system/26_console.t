#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The console in a real terminal: its screens, its actions, and figures that are those of status.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpreplay tmux
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
new_lab
PACKRACK=$BUILD/packrack
N=500
tests/system/numbered.py make "$LAB_DIR/a.pcap" $N 1

term() {
	tmux -S "$LAB_DIR/tmux.sock" -f /dev/null "$@"
}
trap 'term kill-server 2> /dev/null; end_labs' EXIT

screen() {
	term capture-pane -p -t console
}

press() {
	term send-keys -t console "$@"
}

shows() { # EXTENDED REGEXP
	screen | grep -qE -- "$1"
}

# Some screen is wanted: keys, and what is on it then.
seen() { # REGEXP KEY...
	press "${@:2}"
	poll_until 10 shows "$1" || { screen; return 1; }
}

begin() { # COLUMNS ROWS
	term new-session -d -s console -x "$1" -y "$2" \
		"LC_ALL=C.UTF-8 '$PACKRACK' console --log '$LAB_DIR/logs/dispatcher.log'; echo status \$?; exec sleep 600"
	poll_until 10 shows '\| capturing \| input ~ .* goodness' || { screen; return 1; }
}

all_screens() {
	seen '> Timestamp frames sent' 1 && seen 'Last number given' 2 &&
		seen 'log2 +active' 3 && seen 'MAC address: +02:' Enter &&
		seen 'Mode: +round-robin' 4 && seen 'capturing, 3 nodes active' 5 &&
		seen 'None is running' 6 && seen '3 nodes, 3 well' 7 &&
		seen 'INSTANT is what came' '?' && seen '\[7 RACK\]' Escape
}

run_step "a rack of three" "$RACK" up -n 3
"$RACK" play "$LAB_DIR/a.pcap" --pps=1000 --quiet > /dev/null 2>&1
run_step "the console begins, 80 by 24" begin 80 24
run_step "every screen" all_screens
run_step "another size: 200 by 60" term resize-window -t console -x 200 -y 60
wide() {
	seen 'packets stored per second, last minute' 3
}
run_step "uses the room" wide
run_step "every screen there" all_screens

equal() { # what stands still is on the screen as status has it
	local want
	want=$("$PACKRACK" status --json 2> /dev/null | python3 -c 'import json, sys
d = json.load(sys.stdin)["dispatcher"]
one = [n for n in d["nodes"] if n["name"] == "log1"][0]
print(d["captured_packets"], d["sent_packets"], one["frames_sent"])')
	# shellcheck disable=SC2086 # three numbers
	set -- $want
	seen "Captured frames .* $1\$" 1 && seen "> Delivered .* $2\$" && press 3 Home &&
		seen "log1 .* $3 +0 " && seen "Data frames sent: +$3 " Enter
}
"$RACK" exec tap ip link set t0 down
"$RACK" exec tap ip link set t1 down
run_step "figures are those of packrack status" equal
run_step "identify says that the card has no LED" seen '! .*log1: IDENTIFY: it cannot' i
run_step "disconnect asks first" seen 'Really disconnect log1\? \(y/n\)' d
run_step "and does" seen 'log1: DISCONNECT: done' y
run_step "as the state says" poll_until 10 shows 'State: +disconnected'
run_step "reconnect" seen 'log1: RECONNECT: done' r
run_step "a reset wants the name" seen 'Type its name: _' R
run_step "another name does nothing" seen 'reset: not done' log2 Enter
press R
run_step "the name resets it" seen 'log1: RESET: done' log1 Enter
press 4 w
run_step "spread is changed" seen 'Mode: +weighted' y
press 7
run_step "a node that dies" "$RACK" kill log2
run_step "is shown so" poll_until 15 shows 'log2 +gone'
press 4 S
run_step "stop" seen '\| (stopped|stopping) ' y
run_step "the dispatcher dies" "$RACK" kill dispatcher
run_step "and is named as missing, without a hang" poll_until 15 shows 'no dispatcher'
run_step "q ends it" seen 'status 0' q
refute_step "without a terminal it says so" 1 sh -c "'$PACKRACK' console < /dev/null"
done_testing
