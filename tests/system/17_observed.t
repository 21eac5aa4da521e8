#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An answer is complete only for time that the ledger confirms: a dispatcher that was killed, a capture that was
# stopped, interfaces without carrier and a cut link are named, each with its time and reason.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
new_lab
TRACE=$LAB_DIR/in.pcap

python3 - "$TRACE" << 'P'
import sys
sys.path.insert(0, "tests/system")
import traces
packets = []
for n in range(600):
    frame = bytes([2, 0, 0, 0, 1, n % 7, 2, 0, 0, 0, 2, n % 5, 0x88, 0xB7]) + n.to_bytes(4, "big") * (4 + n % 30)
    packets.append((10 ** 18 + n * 10 ** 5, frame, len(frame)))
traces.write_pcap(sys.argv[1], packets)
P

QUERY=("$BUILD/packrack" query --count)
query() {
	"${QUERY[@]}" "$@"
}

names() { # TEXT OPTION...
	local text=$1
	shift
	query "$@" 2>&1 | grep -q "$text"
}

play() {
	"$RACK" play "$TRACE" --pps=6000 --quiet > /dev/null 2>&1
}

now() {
	date +@%s.%N
}

whole() { # live, up to now: nothing of what was sent is left out
	local first count
	first=$(now)
	play || return 1
	count=$(query --since "$first") && [ "$count" = 600 ]
}

killed() {
	local from until
	"$RACK" kill dispatcher
	from=$(now)
	until=$(now)
	"$RACK" restart dispatcher || return 1
	poll_until 20 play
	says 3 "its dispatcher was not heard" "${QUERY[@]}" --since "$from" --until "$until" &&
		says 3 "its dispatcher was not heard" "${QUERY[@]}" --since "$from" &&
		says 0 "complete but for what --allow accepts" "${QUERY[@]}" --since "$from" --allow gone,before,no_carrier,strays,undelivered,not_stored
}

stopped() {
	local from until
	"$BUILD/packrack" capture stop > /dev/null || return 1
	from=$(now)
	says 0 "complete" "${QUERY[@]}" --since "1 hour ago" --allow gone,before,no_carrier,stopped,strays,undelivered,not_stored || return 1
	until=$(now)
	"$BUILD/packrack" capture start > /dev/null || return 1
	poll_until 10 whole || return 1
	says 3 "the capture was stopped" "${QUERY[@]}" --since "$from" --until "$until" &&
		says 3 "the capture was stopped" "${QUERY[@]}" --since "$from"
}

no_carrier() {
	local from until
	from=$(now)
	"$RACK" exec disp ip link set tap0 down || return 1
	poll_until 10 names 'no carrier' --since "$from" --no-wait || return 1
	until=$(now)
	"$RACK" exec disp ip link set tap0 up || return 1
	poll_until 20 whole || return 1
	says 3 "its interface had no carrier" "${QUERY[@]}" --since "$from" --until "$until"
}

beside_a_busy_link() { # what a link sees is known while another, which has sent, is silent or has no carrier
	local player first rc=0
	"$RACK" play --link 1 "$TRACE" --limit=1 --quiet > /dev/null 2>&1 || return 1
	"$RACK" play "$TRACE" --pps=8000 --loop=40 --quiet > /dev/null 2>&1 &
	player=$!
	first=$(now)
	poll_until 10 says 0 complete "${QUERY[@]}" --since "$first" && "$RACK" exec disp ip link set tap1 down &&
		poll_until 10 names 'link tap1.*no carrier' --since "$(now)" --no-wait || rc=1
	first=$(now)
	((rc)) || poll_until 10 says 0 complete "${QUERY[@]}" --link tap0 --since "$first" || rc=1
	"$RACK" exec disp ip link set tap1 up
	wait "$player"
	((rc == 0)) && poll_until 20 whole && return
	cat "$LAB_DIR/out" "$LAB_DIR/err"
	return 1
}

# The kernel's buffer overflows, by its blocks, or that of XDP, by its bytes. Drops are told of the time at which they
# happened.
stands_still() {
	local from until
	"$RACK" kill -s STOP dispatcher || return 1
	"$RACK" play "$TRACE" --pps=1000 --loop=4 --quiet > /dev/null 2>&1
	"$RACK" play "$TRACE" --topspeed --loop=200 --quiet > /dev/null 2>&1 # 120,000, with a record of 56 bytes each
	from=$(now)
	"$RACK" play "$TRACE" --pps=1000 --quiet > /dev/null 2>&1
	until=$(now)
	"$RACK" kill -s CONT dispatcher
	poll_until 20 whole && says 3 "dropped" "${QUERY[@]}" --since "$from" --until "$until"
}

cut_off() { # the rack interface has no carrier: nodes hear nothing
	local from
	"$RACK" exec disp ip link set out0 down || return 1
	from=$(now)
	play
	refute_complete --since "$from" || return 1
	"$RACK" exec disp ip link set out0 up || return 1
	poll_until 20 whole
}

refute_complete() {
	local rc=0
	query "$@" > "$LAB_DIR/out" 2>&1 || rc=$?
	cat "$LAB_DIR/out"
	((rc == 3))
}

run_step "a rack" "$RACK" up -n 2 --links 2 --size 64M -- --send-buffer 4M
run_step "an answer up to now has all that was sent" poll_until 20 whole
run_step "what the dispatcher did not see as it was dead" killed
run_step "what was not captured as the capture was stopped" stopped
run_step "what the capture interface did not see without carrier" no_carrier
run_step "but what another link sees" beside_a_busy_link
run_step "what a dispatcher that stands still drops" stands_still
run_step "what no node has heard of" cut_off
refute_step "--allow names reasons that there are" 2 "${QUERY[@]}" --allow nonsense
done_testing
