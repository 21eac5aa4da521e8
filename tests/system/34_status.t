#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# packrack status of made-up racks: its text, and what the check makes of them. A stand-in for packrack gives the JSON.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_commands python3 jq
need_programs packrack
DIR=$(mktemp -d /tmp/packrack-status.XXXXXX)
trap 'rm -rf -- "$DIR"; end_labs' EXIT
cp "$BUILD/packrack-status" "$BUILD/packrack_cli.py" "$DIR"
cat > "$DIR/packrack" <<'END'
#!/bin/sh
cd "${0%/*}" && cat json && cat errors >&2 && exit "$(cat status)"
END
chmod +x "$DIR/packrack"

# Two nodes on which all is well, and what the jq program makes of them.
rack() { # [JQ [STATUS [ERRORS]]]
	jq -n --argjson hour 3600000000000 'def value: {volume_free_bytes: 3600000, write_bytes_per_s: 1000, missing_packets: 0, state: "active"};
		{merger: {version: "1", time: (110 * $hour)},
		nodes: [{node: ("log1", "log2"), connected: true, writer_alive: true, packets: 10, bytes: 640, missing_packets: 0,
			volume_size_bytes: 1000, volume_used_bytes: 500, last_seen: (110 * $hour - 1500000000), oldest_time: (100 * $hour)}],
		dispatcher: {version: "1", epoch: "0000000000000007", state: "capturing", nodes: [value + {node: ("log1", "log2")}],
			links: [{name: "tap0", link: 0, last_seq: 1000, ended: false, dropped_ring: 0}]}} | '"${1:-.}" > "$DIR/json"
	echo "${2:-0}" > "$DIR/status"
	echo -n "${3:-}" > "$DIR/errors"
}
tells() { # STATUS TEXT [OPTION...]
	local status=0
	"$DIR/packrack-status" "${@:3}" > "$DIR/out" 2> "$DIR/err" || status=$?
	[ "$status" = "$1" ] && grep -qF -- "$2" "$DIR/out" && return
	echo "status $status"; cat "$DIR/out" "$DIR/err"; return 1
}
judged() { # STATUS TEXT [OPTION...]
	tells "$1" "$2" --check "${@:3}" && [ "$(wc -l < "$DIR/out")" = 1 ]
}

as_text() {
	rack . &&
	tells 0 "dispatcher 1: capturing, epoch 0000000000000007, 2 nodes" && tells 0 "merger 1: 2 nodes, 0 queries running" &&
	tells 0 "log1             recording             10            640         0     50.0%  1.5 s ago" &&
	tells 0 "tap0                  0           1000            0            0  open" &&
	tells 0 "captured                        1000" &&
	rack '.nodes[0].connected = false | .nodes[1].writer_alive = false | .nodes[1].logger.kernel_drops = 3' 3 &&
	tells 3 "log1             unreachable " && tells 3 "log2             no-logger" && tells 3 "dropped by node                    3" &&
	rack 'del(.dispatcher)' 3 && tells 3 "missing at nodes" && ! grep -q captured "$DIR/out" &&
	rack 'del(.merger) | del(.nodes)' && tells 0 "delivered                       1000" && ! grep -q "at nodes" "$DIR/out"
}
run_step "the text" as_text

all_is_well() {
	rack . && judged 0 "" && [ "$(cat "$DIR/out")" = "PACKRACK OK - 2 nodes, capturing | silent=0;0;1;0;2 \
loss=0.000000%;0;1;0;100 captured=1000c lost=0c full_in=3600s;;;0;" ]
}
run_step "all is well" all_is_well

loss() {
	local lost='.dispatcher.nodes[1].missing_packets = 5' never='.dispatcher.links[0].dropped_ring = 10'
	rack "$lost" && judged 1 "WARNING - 5 of 1000 packets lost |" && grep -q " loss=0.500000%;0;1;0;100 " "$DIR/out" &&
	rack "$lost | $never" && judged 2 "15 of 1010 packets lost" && # those came, but have no number
	judged 1 WARNING --loss 0,2 && judged 0 OK --loss 2,2 &&
	rack '.dispatcher.links[0] = {name: "tap0", link: 0, last_seq: 0, ended: false, dropped_send: 10}' && judged 2 "10 of 0 packets lost"
}
run_step "what is lost" loss

since_the_last() {
	local file=$DIR/last
	rack '.dispatcher.nodes[1].missing_packets = 5' &&
	judged 1 "5 of 1000" --state-file "$file" && judged 0 OK --state-file "$file" && judged 0 "lost=5c" --last "$file" &&
	[ "$(cat "$file")" = '{"epoch": "0000000000000007", "captured": 1000, "lost": 5}' ] &&
	rack '.dispatcher.nodes[1].missing_packets = 5 | .dispatcher.epoch = "0000000000000008"' &&
	judged 1 "5 of 1000" --state-file "$file" && # of another start nothing is known
	rack . && for text in '' '{"epoch": 5}' '[]' '{"epoch": "7", "captured": -1, "lost": 0}' $'\xff'; do
		echo "$text" > "$file"
		judged 3 OK --state-file "$file" && grep -q "no file of this command's" "$DIR/err" && [ "$(cat "$file")" = "$text" ] || return
	done && judged 3 OK --state-file /nowhere/at/all && judged 3 OK --state-file "$DIR"
}
run_step "what is lost since the last check" since_the_last

nodes() {
	local away='.nodes[1].connected = false' gone='.dispatcher.nodes[1].state = "gone"'
	rack "$away" && judged 1 "1 of 2 nodes silent (log2)" && rack "$away | $gone" && judged 1 "1 of 2 nodes silent (log2)" &&
	rack "$away | $gone"' | .dispatcher.nodes[0].state = "suspended"' && judged 2 "2 of 2 nodes silent (log1, log2)" &&
	judged 2 CRITICAL --max-unreachable 9,9 && # all of them is never well
	rack "$away | $gone"' | .dispatcher.nodes[0].state = "disconnected"' && judged 0 OK --max-unreachable 9,9 && # as told
	rack '.nodes = [] | .dispatcher.nodes = []' && judged 2 "no node"
}
run_step "nodes that store nothing" nodes

disks() {
	rack . && judged 1 "a volume is full in 1.0 hours" --full-within 2h && grep -q " full_in=3600s;7200:;;0;" "$DIR/out" &&
	judged 2 CRITICAL --full-within 2h,3601 &&
	judged 0 OK --retention 11h && # nothing is overwritten yet
	rack '.dispatcher.nodes[0].write_bytes_per_s = 0 | .dispatcher.nodes[1].volume_free_bytes = 0' && judged 0 OK --full-within 2h,3601 &&
	rack '.nodes[0].volume_used_bytes = 1000' && judged 1 "packets are overwritten after 10.0 hours" --retention 11h &&
	judged 2 CRITICAL --retention 11h,36001
}
run_step "disks" disks

who_answers() {
	local silent="packrack status: no answer"
	rack '.dispatcher.state = "stopped"' && judged 1 "the dispatcher is stopped" &&
	rack 'del(.dispatcher)' && judged 0 "2 nodes |" &&
	rack 'del(.dispatcher)' 3 "$silent" && judged 2 "the dispatcher does not answer" && grep -q "no answer" "$DIR/err" &&
	rack 'del(.merger) | del(.nodes)' 3 "$silent" && judged 2 "the merger does not answer" &&
	rack empty 1 "$silent" && judged 2 "the rack does not answer" && { tells 1 "" || grep -q "no answer" "$DIR/err"; } &&
	rack empty 1 "packrack status: no merger and no dispatcher on this machine" && judged 3 "there is no merger and no dispatcher here" &&
	[ ! -s "$DIR/err" ]
}
run_step "who answers" who_answers

limits() {
	rack .
	for text in "" "," "1," ",1" 1,2,3 x 1,x -1 nan inf 1e999 9999999999999999999999999999999999999; do
		for option in loss max-unreachable full-within retention; do
			tells 3 "" --check "--$option" "$text"
			grep -qF -- "--$option $text: give WARNING,CRITICAL as in" "$DIR/err" || return
		done
	done
	judged 0 ";0.25;1.5;0;100" --loss 0.25%,1.5 && judged 0 "silent=0;3;1;" --silent 3 &&
	judged 2 "=3600s;86400:;5400:;" --full-within 24h,90m && judged 0 OK --kept 14d
}
run_step "limits" limits

# A word that packrack leaves to packrack-status gives the same.
PACKRACK=$BUILD/packrack
same() {
	for words in --jso "--js --keyv" "--json=yes" "--json --mer ipc:///nowhere/x" "--json -mnone"; do
		# shellcheck disable=SC2086 # words of one line
		says=$("$PACKRACK" status $words -m ipc:///nowhere/x -d ipc:///nowhere/y 2>&1); status=$?
		[ "$says $status" = "$("$PACKRACK" status --json -m ipc:///nowhere/x -d ipc:///nowhere/y 2>&1) 1" ] || { echo "$words: $says"; return 1; }
	done
}
run_step "the figures, asked for in other words" same
done_testing
