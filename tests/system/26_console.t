#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The console in a real terminal: its screens, its actions, and figures that are those of status.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_python
need_commands tcpreplay tmux
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
run_step "screens of made-up racks, keys, and whatever programs answer" "$PYTHON" tests/system/console_screens.py "$BUILD/packrack-console"
# the rest is with a rack
if [ "$(id -u)" != 0 ] || ! ip netns list > /dev/null 2>&1; then
	done_testing
fi
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
		"LC_ALL=C.UTF-8 TZ=UTC '$PACKRACK' console --interval 200ms --log '$LAB_DIR/logs/dispatcher.log'; echo status \$?; exec sleep 600"
	poll_until 10 shows '\| capturing \| input ~ .* goodness' || { screen; return 1; }
}

all_screens() {
	seen '> Timestamp frames sent' 1 && seen 'Last number given' 2 &&
		seen 'log2 +active' 3 && seen 'MAC address: +02:' Enter &&
		seen 'Mode: +round-robin' 4 && seen 'capturing, 3 nodes active' 5 &&
		seen 'None is running' 6 && seen '3 nodes, 3 healthy' 7 &&
		seen '^>log1 +tap0 +1[0-9]{2} ' 8 && seen 'INSTANT is what came' '?' && seen '\[8 DATA\]' Escape
}

run_step "a rack of three" "$RACK" up -n 3
"$RACK" play "$LAB_DIR/a.pcap" --pps=1000 --quiet > /dev/null 2>&1
run_step "the console begins, 80 by 24" begin 80 24
run_step "every screen" all_screens
size() { # COLUMNS ROWS
	term resize-window -t console -x "$1" -y "$2"
}
run_step "another size: 200 by 60" size 200 60
wide() {
	seen 'packets stored per second' 3 && seen 'CUMULATIVE +Overhead +INSTANT' 1 &&
		seen '^>log1 .* log2 .* log3 ' 7 && seen '^ [0-9]{2}:[0-9]{2}:[0-9]{2} UTC +dispatcher ' 5 l && press l
}
run_step "uses the room, and times have their zone" wide
run_step "every screen there" all_screens

# ---- the mouse ----

click() { # TEXT: pressed and let go where it first stands on the screen, as a terminal tells it
	local row column at
	poll_until 10 shows "$1"
	read -r row column < <(screen | awk -v t="$1" '(c = index($0, t)) { print NR, c; exit }')
	[ -n "$column" ] || { echo "$1 is not on the screen"; return 1; }
	read -ra at < <(printf '%x %x\n' $((32 + column)) $((32 + row)))
	press -H 1b 5b 4d 20 "${at[@]}" 1b 5b 4d 23 "${at[@]}"
}
clicked() { # REGEXP TEXT
	click "$2" && { poll_until 10 shows "$1" || { echo "no $1"; screen | head -n 12; return 1; }; }
}
mouse() {
	clicked '\[2 PACKETS\]' '2 PACKETS' && clicked '\[3 NODES\]' '3 NODES' && clicked '^>log3' log3 &&
		clicked '^>log2' log2 && seen 'MAC address: +02:' Enter && clicked '\[8 DATA\]' '8 DATA' &&
		poll_until 10 shows 'log3 +tap0' && clicked '^>log3 +tap0' log3 && clicked '^>log1 +tap0' log1
}
run_step "the mouse presses screens and rows" mouse
run_step "80 by 24" size 80 24
run_step "there, too" mouse
run_step "200 by 60 again" size 200 60

# ---- queries ----

follow() { # PORT
	"$PACKRACK" query --follow -w "$LAB_DIR/$1.pcap" port "$1" 2> "$LAB_DIR/$1.said" &
	FOLLOWS[$1]=$!
}
declare -A FOLLOWS
running() {
	follow 4001
	follow 4002
	seen 'port 4001' 6 && poll_until 10 shows 'port 4002' && clicked '^>.*port 4002' 'port 4002' &&
		clicked '^>.*port 4001' 'port 4001' && clicked '^>.*port 4002' 'port 4002'
}
run_step "queries that run are shown, and pressed" running
cancelled() { # PORT: that one, and no other
	local rc=0
	seen 'Cancel query [0-9]+\? \(y/n\)' c && seen 'query [0-9]+ is cancelled' y || return 1
	poll_until 10 gone "$1" || { screen; return 1; }
	wait "${FOLLOWS[$1]}" || rc=$?
	cat "$LAB_DIR/$1.said"
	((rc == 3)) && grep -q 'interrupted' "$LAB_DIR/$1.said"
}
gone() { # PORT
	! shows "port $1"
}
run_step "c and y cancel the one at the cursor" cancelled 4002
run_step "the other goes on" kill -0 "${FOLLOWS[4001]}"
kept() {
	seen 'Cancel query [0-9]+\?' c && seen 'cancel: not done' n && shows 'port 4001'
}
run_step "c and n cancel nothing" kept
run_step "80 by 24" size 80 24
run_step "there, too, c and n cancel nothing" kept
run_step "the last one" cancelled 4001
run_step "none is left" poll_until 10 shows 'None is running'

# ---- data ----

press 8
exported() { # FILE
	seen 'Export the packets of log1 to which file: _' e && seen 'complete: 1[0-9]{2} packets match' "$LAB_DIR/$1" Enter &&
		"$PACKRACK" compare "$LAB_DIR/$1"
}
run_step "one node's packets are exported" exported log1.pcapng
unsure() {
	seen 'Delete packets on log1 up to TIME' x && seen 'Type the node name: _' Enter && seen 'delete: not done' log2 Enter
}
run_step "to delete wants the name, and another does nothing" unsure
run_step "200 by 60 again" size 200 60
run_step "the same packets are exported there" exported wide.pcapng
run_step "and another name deletes nothing" unsure
deleted() { # NODE ITS-ROW-THEN
	seen "Delete packets on $1 up to TIME" x && seen "Permanently deletes ALL packets on $1" Enter &&
		seen "$1: [0-9]+ segments, [0-9]+ bytes deleted" "$1" Enter &&
		{ poll_until 10 shows "^>$1 $2" || { screen; return 1; }; }
}
of_command() { # NODE
	poll_until 5 sh -c "'$PACKRACK' query --node $1 --count 2> /dev/null | grep -qx 0"
}
run_step "the name deletes" deleted log1 '.* nothing .*deleted by user'
run_step "as the command has it" of_command log1
run_step "80 by 24" size 80 24
run_step "the row of another" seen '^>log3 +tap0' End
run_step "the name deletes there, too" deleted log3 '.* nothing'
run_step "as the command has it" of_command log3
run_step "200 by 60 again" size 200 60

agree() { # SCREEN: each figure on it, with what status says before and after
	screen > "$LAB_DIR/screen"
	"$PACKRACK" status --json > "$LAB_DIR/after.json" 2> /dev/null
	tests/system/console_figures.py "$1" "$LAB_DIR/before.json" "$LAB_DIR/after.json" < "$LAB_DIR/screen"
}
figures() { # SCREEN REGEXP KEY...
	"$PACKRACK" status --json > "$LAB_DIR/before.json" 2> /dev/null
	seen "${@:2}" && { poll_until 10 agree "$1" || { agree "$1"; screen; return 1; }; }
}
equal() {
	figures metrics 'Timestamp frames sent' 1 && figures packets 'Last number given' 2 && press 3 Home &&
		figures log1 'MAC address: ' Enter
}
other_figure() {
	sed -i 's/\(Data frames sent: *\)/\11/' "$LAB_DIR/screen"
	tests/system/console_figures.py log1 "$LAB_DIR/before.json" "$LAB_DIR/after.json" < "$LAB_DIR/screen"
}
"$RACK" exec tap ip link set t0 down
"$RACK" exec tap ip link set t1 down
run_step "figures are those of packrack status" equal
refute_step "one that is not is seen" 1 other_figure
node_actions() { # on the node whose detail is shown
	run_step "identify says that the card has no LED" seen '! .*log1: IDENTIFY: could not' i
	run_step "disconnect asks first" seen 'Really disconnect log1\? \(y/n\)' d
	run_step "and does" seen 'log1: DISCONNECT: done' y
	run_step "as the state says" poll_until 10 shows 'State: +disconnected'
	run_step "reconnect" seen 'log1: RECONNECT: done' r
	run_step "a reset wants the name" seen 'Type the node name: _' R
	run_step "another name does nothing" seen 'reset: not done' log2 Enter
	press R
	run_step "the name resets it" seen 'log1: RESET: done' log1 Enter
}
control_actions() { # the mode that it begins with is there again at the end
	local key mode
	press 4
	while read -r key mode; do
		press "$key"
		run_step "spread by $mode" seen "Mode: +$mode" y
	done < <(printf '%s\n' 'w weighted' 'f flow' 'o round-robin')
	press S
	run_step "stop" seen '\| stopped ' y
	press s
	run_step "start" seen '\| capturing ' y
}
node_actions
run_step "80 by 24 again" size 80 24
run_step "the same figures there" equal
node_actions
control_actions
run_step "200 by 60 again" size 200 60
control_actions
run_step "80 by 24 once more" size 80 24
press 7
run_step "packrack status has nothing to say" "$PACKRACK" status
run_step "a node that dies" "$RACK" kill log2
run_step "is shown so" poll_until 15 shows 'log2 +gone'
refute_step "and packrack status has, by its exit status" 3 "$PACKRACK" status
press 4 S
run_step "stop" seen '\| (stopped|stopping) ' y
run_step "the dispatcher dies" "$RACK" kill dispatcher
run_step "and is named as missing, without a hang" poll_until 15 shows 'no dispatcher'
run_step "q ends it" seen 'status 0' q
# ---- status --watch ----

watched_as_data() {
	"$PACKRACK" status --watch --interval 100ms --json 2> /dev/null | head -n 3 > "$LAB_DIR/watched"
	jq -es 'length == 3 and .[0].merger.time < .[1].merger.time and .[1].merger.time < .[2].merger.time' "$LAB_DIR/watched" > /dev/null &&
		(($(wc -l < "$LAB_DIR/watched") == 3))
}
run_step "status --watch --json: a line each time" watched_as_data
redrawn() { # the time in the first line goes on, and below it is one status
	local first
	term send-keys -t watch "clear; TZ=Asia/Kolkata '$PACKRACK' status --watch -n 200ms" Enter
	on_top() {
		term capture-pane -p -t watch | head -n 1 | grep -E '^20.*\+05:30$'
	}
	poll_until 10 on_top && first=$(on_top) || return 1
	later() {
		[ "$(on_top)" != "$first" ] && (($(term capture-pane -p -t watch | grep -c '^merger ') == 1))
	}
	poll_until 10 later || { term capture-pane -p -t watch; return 1; }
}
term new-session -d -s watch -x 120 -y 40 'exec bash --norc'
run_step "on a terminal it is redrawn" redrawn
refute_step "the console without a terminal says so" 1 sh -c "'$PACKRACK' console < /dev/null"
done_testing
