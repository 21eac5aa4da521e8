#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The dispatcher's own: interfaces made quiet and put back, capture stopped and started, nodes told to
# leave and come back without a packet lost, two copies.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
new_lab
TRACE=$LAB_DIR/in.pcap
OURS='ether proto 0x88b7' # the lab's hosts may say a word of their own

# A capture of our own: these tests want no data.
python3 - "$TRACE" << 'P'
import sys
sys.path.insert(0, "tests/system")
import traces
packets = []
for n in range(3000):
    body = n.to_bytes(4, "big") * (4 + n % 300)
    frame = bytes([2, 0, 0, 0, 1, n % 7, 2, 0, 0, 0, 2, n % 5, 0x88, 0xB7]) + body
    packets.append((10 ** 18 + n * 10 ** 5, frame, len(frame)))
traces.write_pcap(sys.argv[1], packets)
P

play() {
	"$RACK" play "$TRACE" --pps=6000 --quiet > "$LAB_DIR/play" 2>&1 ||
		{ cat "$LAB_DIR/play"; return 1; }
}

figure() { # NAME: of the dispatcher
	"$BUILD/packrack" status --json | python3 -c '
import json, sys
print(json.load(sys.stdin)["dispatcher"].get(sys.argv[1]))' "$1"
}

figure_is() { # NAME VALUE
	local got
	got=$(figure "$1")
	[ "$got" = "$2" ] || { echo "$1 is $got, not $2"; return 1; }
}

figure_above() { # NAME VALUE
	(($(figure "$1") > $2))
}

stored() { # PACKETS [,REASON that the answer may be partial for]
	local got
	"$RACK" drain --stored --timeout 120 || return 1
	got=$("$BUILD/packrack" query --count --allow "stopped${2-}" 2> "$LAB_DIR/count") ||
		{ cat "$LAB_DIR/count"; return 1; }
	[ "$got" = "$1" ] || { echo "stored $got, not $1"; return 1; }
}

quiet_state() { # what prepare changes
	"$RACK" exec disp tc filter show dev "$1" ingress
	"$RACK" exec disp tc qdisc show dev "$1" | grep clsact
	"$RACK" exec disp cat "/proc/sys/net/ipv6/conf/$1/disable_ipv6"
	"$RACK" exec disp ethtool -k "$1" | grep -E '(generic-(seg|rec)|tx-tcp-seg).*:'
}

"$RACK" up -n 3 --bare > /dev/null
# Something to put back: offloads on, IPv6 as it comes.
"$RACK" exec disp ethtool -K tap0 gro on gso on tso on > /dev/null
"$RACK" exec disp sh -c 'echo 0 > /proc/sys/net/ipv6/conf/tap0/disable_ipv6'
quiet_state tap0 > "$LAB_DIR/before"

runs_and_ends() {
	local pid rc=0
	"$RACK" exec disp "$BUILD/packrack-dispatcher" --in tap0 --out out0 \
		--manage "$PACKRACK_DISPATCHER" 2> "$LAB_DIR/log" &
	pid=$!
	poll_until 10 grep -q "waiting for" "$LAB_DIR/log" || { cat "$LAB_DIR/log"; return 1; }
	quiet_state tap0 > "$LAB_DIR/during"
	grep -q 'bytecode.*6 0 0 2' "$LAB_DIR/during" || { cat "$LAB_DIR/during"; return 1; }
	grep -q '^1$' "$LAB_DIR/during" || { echo "IPv6 is on"; return 1; }
	! grep ': on' "$LAB_DIR/during" || return 1
	pkill -TERM -f -- "--manage $PACKRACK_DISPATCHER"
	wait "$pid" || rc=$?
	[ "$rc" = 0 ] || { cat "$LAB_DIR/log"; echo "exit status $rc"; return 1; }
}
run_step "interfaces are made quiet, SIGTERM ends it with status 0" runs_and_ends
run_step "and put back" diff "$LAB_DIR/before" <(quiet_state tap0)

cut_refused() {
	"$RACK" exec disp ip link set out0 mtu 1500
	"$RACK" exec disp "$BUILD/packrack-dispatcher" --in tap0 --out out0 \
		--manage "$PACKRACK_DISPATCHER"
}
refute_step "a rack interface that is too narrow is refused" 1 cut_refused
"$RACK" down > /dev/null

stop_and_start() {
	"$RACK" up -n 3 -- --filter "$OURS" || return 1
	play || return 1
	"$BUILD/packrack" capture stop || return 1
	figure_is state stopped || return 1
	figure_is captured_packets 3000 || return 1
	play || return 1 # nobody looks
	"$BUILD/packrack" capture start || return 1
	figure_is state capturing || return 1
	play || return 1
	stored 6000
}
run_step "stopped and started: what passes in between is not recorded" stop_and_start

# A daemon that root started: every thread of it has its user, no capability and the filter; the parent has few.
unprivileged() { # NAME
	local pid task status want
	read -r pid _ < "$LAB_DIR/pids/$1"
	for task in "/proc/$pid/task"/*; do
		status=$(cat "$task/status")
		for want in "Uid:.*\b$(id -u "$DAEMON_USER")\b" "Groups:.$(id -g "$DAEMON_USER")" NoNewPrivs:.1 Seccomp:.2 \
			Cap{Inh,Prm,Eff,Bnd,Amb}:.0000000000000000; do
			grep -qE "^$want *$" <<< "$status" || { echo "$1, $task: not $want"; grep -E '^(Uid|Groups|Cap|Secc|NoNew)' <<< "$status"; return 1; }
		done
		! grep -qE '^Uid:.*\b0\b' <<< "$status" || return 1
	done
}
all_unprivileged() {
	local name parent caps
	for name in dispatcher merger log1 idx1; do
		unprivileged "$name" || return 1
		read -r parent _ < "$LAB_DIR/pids/$name"
		parent=$(pgrep -P "$parent" -x packrack-parent) || { echo "$name has no parent"; return 1; }
		caps=$(sed -n 's/^CapEff:.//p' "/proc/$parent/status")
		case $name in
		dispatcher) [ "$caps" = 0000000000003004 ] ;; # NET_RAW, NET_ADMIN, DAC_READ_SEARCH
		log1) [ "$caps" = 0000000000003006 ] ;; # and DAC_OVERRIDE
		*) [ "$caps" = 0000000000000004 ] ;;
		esac || { echo "the parent of $name has capabilities $caps"; return 1; }
	done
}
run_step "daemons that root starts: their user, no capabilities, seccomp, no new privileges" all_unprivileged

opened_times() { # N: has the dispatcher opened its capture interface again so often?
	[ "$(grep -c 'tap0: captured again' "$LAB_DIR/logs/dispatcher.log")" = "$1" ]
}
made_again() {
	local log=$LAB_DIR/logs/dispatcher.log
	"$BUILD/packrack" capture start || return 1
	poll_until 10 opened_times 2 || { cat "$log"; return 1; }
	"$RACK" exec disp ip link del tap0
	poll_until 10 grep -q 'trying to reopen' "$log" || { cat "$log"; return 1; }
	"$RACK" exec disp ip link add tap0 type veth peer name far0 || return 1
	"$RACK" exec disp ip link set far0 up && "$RACK" exec disp ip link set tap0 up || return 1
	poll_until 10 opened_times 3 || { cat "$log"; return 1; }
	"$RACK" exec disp tcpreplay -q -i far0 --pps=6000 "$TRACE" > "$LAB_DIR/play" 2>&1 || return 1
	poll_until 10 figure_is captured_packets 9000 || { figure captured_packets; cat "$log"; return 1; }
}
run_step "a capture interface that is deleted and made again is captured again" made_again
"$RACK" down > /dev/null

leave_and_return() {
	local player
	"$RACK" up -n 3 -- --filter "$OURS" || return 1
	play &
	player=$!
	poll_until 10 figure_above captured_packets 500 || return 1
	"$BUILD/packrack" node disconnect log2 || return 1
	wait "$player" || return 1
	"$BUILD/packrack" node reconnect log2 || return 1
	play || return 1
	stored 6000
}
run_step "a node leaves and comes back in mid-capture: nothing is lost" leave_and_return
refute_step "a node that is not there" 1 "$BUILD/packrack" node identify nobody
"$RACK" down > /dev/null

down_and_up() {
	local heard got rc=0
	"$RACK" up -n 3 -- --filter "$OURS" || return 1
	play && "$RACK" drain --keep-running --timeout 120 || return 1
	"$RACK" exec disp ip link set out0 down
	play || return 1
	poll_until 5 figure_above dropped_send 2999 || return 1
	figure_is dropped_send 3000 || return 1
	"$RACK" exec disp ip link set out0 up
	heard=$(figure control_received_frames)
	poll_until 10 figure_above control_received_frames $((heard + 9)) || return 1
	play || return 1
	"$RACK" drain --stored --timeout 120 || return 1
	got=$("$BUILD/packrack" query --count 2> "$LAB_DIR/count") || rc=$?
	cat "$LAB_DIR/count"
	[ "$got" = 6000 ] && [ "$rc" = 3 ] && grep -q "missing: 3000 packets in 1 range" "$LAB_DIR/count"
}
run_step "a rack interface that was down: what came meanwhile is missing, and nothing else" down_and_up
"$RACK" down > /dev/null

copies() {
	"$RACK" up -n 3 --out-mtu 1000 -- --read "$TRACE" --copies 2 || return 1
	stored 3000 ,truncated || return 1
	figure_is data_frames 6000
}
run_step "two copies: each packet twice on the switch, once in the answer" copies

# Of 300 lengths 53 are above 1014 bytes; each occurs ten times.
truncated() {
	local out=$LAB_DIR/cut.pcapng said="truncated: 530 packets"
	says 3 "$said" "$BUILD/packrack" query --count && says 3 "$said" "$BUILD/packrack" export -w "$out" || return 1
	[ "$(grep -ao 'truncated to the MTU' "$out" | wc -l)" = 530 ] || { echo "not all are marked"; return 1; }
	says 3 "$said" "$BUILD/packrack" query --count --node log1 --node log2 --node log3 'greater 1000' || return 1
	says 3 "$said" "$BUILD/packrack" query --count --volume "$LAB_DIR/log1.vol" --volume "$LAB_DIR/log2.vol" \
		--volume "$LAB_DIR/log3.vol" || return 1
	says 3 "truncated: 1 packet " "$BUILD/packrack" query --limit 1 'greater 1015' || return 1
	says 0 "$said" "$BUILD/packrack" query --count --allow truncated || return 1
	says 0 '"truncated": 530' "$BUILD/packrack" query --json --allow truncated || return 1
	says 0 complete "$BUILD/packrack" query --count 'less 1014' && says 0 complete "$BUILD/packrack" rate
}
run_step "packets above the MTU of the rack interface: counted, marked, and the answer is partial" truncated
"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
