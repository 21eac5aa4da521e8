#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Answers that go on: query --follow, the merger's pcap-over-IP port and a query's own one, as tshark
# reads them. Each packet comes once and in order, and a reader who does not read disturbs nobody.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpreplay tcpdump tshark dumpcap jq setpriv
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
new_lab
PIDS=()
trap 'kill "${PIDS[@]}" 2> /dev/null; end_labs' EXIT

printf '[merger]\npcap-over-ip = 57012\npcap-over-ip = 127.0.0.1:57013/nolink\n' > "$LAB_DIR/packrack.conf"
tests/system/numbered.py make "$LAB_DIR/numbered.pcap" 20000

background() { # LOG CMD...
	local log=$1
	shift
	"$@" > "$log" 2>&1 &
	PIDS+=($!)
}

value() { # NAME: of the merger's counters
	"$BUILD/packrack" status --json | jq -r --arg n "$1" '.. | objects | select(has($n)) | .[$n]' | head -1
}

value_is() { # NAME NUMBER
	[ "$(value "$1")" -ge "$2" ]
}

# One who connects and takes nothing.
silent_reader() {
	"$RACK" exec disp python3 -c 'import socket, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
s.connect(("127.0.0.1", 57012))
time.sleep(60)'
}

# tshark captures as root without its rights: it writes to a folder of root only.
mkdir "$LAB_DIR/files"
begin() {
	"$RACK" up -n 3 --links 2 || return 1
	# packets from before are not in it: a quiet start
	background "$LAB_DIR/silent.log" silent_reader
	background "$LAB_DIR/tshark.log" "$RACK" exec disp tshark -q -i TCP@127.0.0.1:57012 -w "$LAB_DIR/files/tshark.pcapng"
	background "$LAB_DIR/nolink.log" "$RACK" exec disp tshark -q -i TCP@127.0.0.1:57013 -w "$LAB_DIR/files/nolink.pcapng"
	poll_until 30 "$BUILD/packrack" query --count --since "0.1s ago" || return 1 # the capture has begun
	background "$LAB_DIR/follow.log" "$BUILD/packrack" query --follow -w "$LAB_DIR/files/follow.pcapng"
	FOLLOW=$!
	background "$LAB_DIR/own.log" "$RACK" exec disp "$BUILD/packrack" query --follow -w tcp-listen:57014 udp
	poll_until 30 grep -q "waiting for a reader on 127.0.0.1:57014" "$LAB_DIR/own.log" || { cat "$LAB_DIR/own.log"; return 1; }
	background "$LAB_DIR/tshark2.log" "$RACK" exec disp tshark -q -i TCP@127.0.0.1:57014 -w "$LAB_DIR/files/own.pcapng"
	poll_until 30 value_is running_query_count 5 || { "$BUILD/packrack" queries list; return 1; }
}

# What the test sent; the kernels' own packets are everywhere.
numbered() { # FILE
	tcpdump --time-stamp-precision=nano -r "$1" -w - udp dst port 53 2> /dev/null
}

has() { # FILE COUNT: a live file may end within a block
	[ "$(tcpdump -r "$1" -n udp dst port 53 2> /dev/null | wc -l)" -ge "$2" ]
}

all_have() { # FILE...
	local file
	for file in "$@"; do
		poll_until 30 has "$LAB_DIR/files/$file.pcapng" 20000 || { echo "$file has not all"; cat "$LAB_DIR/$file.log"; return 1; }
	done
}

has_none() { # FILE: read from, and empty
	value_is pcap_over_ip_readers 3 && ! has "$LAB_DIR/files/$1.pcapng" 1
}

equal() { # FILE: to what an export gives
	numbered "$LAB_DIR/files/$1.pcapng" > "$LAB_DIR/files/$1.pcap"
	"$COMPARE" "$LAB_DIR/all.pcap" "$LAB_DIR/files/$1.pcap"
}

# The hosts fall silent first: what they say just before the end is on its way, and the answer says so.
ends_complete() {
	"$RACK" exec tap ip link set t0 down && "$RACK" exec tap ip link set t1 down &&
		"$RACK" drain --keep-running --timeout 120 || return 1
	kill -INT "$FOLLOW"
	wait "$FOLLOW" || { echo "status $?"; cat "$LAB_DIR/follow.log"; return 1; }
	grep -q "^complete: 2[0-9]* packets match" "$LAB_DIR/follow.log"
}

# A block for each link, also for the one without packets, with its speed, and with drops of its own.
blocks_of_links() {
	local said got speed
	"$BUILD/packrack" export -w "$LAB_DIR/udp.pcapng" udp dst port 53 || return 1
	said=$(tests/system/pcapng_blocks.py "$LAB_DIR/udp.pcapng") || return 1
	echo "$said"
	speed=$("$RACK" exec disp ethtool tap0 | sed -n 's/.*Speed: \([0-9]*\)Mb.*/\1000000/p')
	[ "$(wc -l <<< "$said")" = 4 ] &&
		grep -qE "^interface 0 tap0 description=packrack link 0 of epoch [0-9a-f]{16}; timestamps: host, clock [a-z]+ filter=udp dst port 53 resolution=9 speed=${speed:-none}$" <<< "$said" &&
		grep -qE "^interface 1 tap1 description=packrack link 1 of .* speed=${speed:-none}$" <<< "$said" || return 1
	got=$("$BUILD/packrack" query --count --json | jq '.ledgers // .completeness.ledgers | map({(.name): .last_seq}) | add')
	echo "$got"
	grep -qE "^statistics 0 accepted=20000 dropped=0 os_dropped=0 received=$(jq .tap0 <<< "$got")$" <<< "$said" &&
		grep -qE "^statistics 1 accepted=0 dropped=0 os_dropped=0 received=$(jq .tap1 <<< "$got")$" <<< "$said" || return 1
	capinfos "$LAB_DIR/udp.pcapng" | grep -cE "Name = tap[01]$|Number of packets = (20000|0)$|Speed = $speed$" | grep -qx 6
}

# Wireshark takes an extcap folder from its environment only where it has no privileges.
prepare_extcap() {
	mkdir -p "$LAB_DIR/extcap" "$LAB_DIR/bin"
	mkdir -m 777 "$LAB_DIR/out"
	cp "$BUILD/packrack" "$BUILD/packrack-extcap" "$BUILD/packrack_cli.py" "$LAB_DIR/bin"
	ln -s ../bin/packrack "$LAB_DIR/extcap/packrack-extcap"
	[ ! -d "${PACKRACK_KEY-}" ] || cp -r "$PACKRACK_KEY" "$LAB_DIR/nobody.keys"
	[ ! -d "$LAB_DIR/nobody.keys" ] || chown -R 65534:65534 "$LAB_DIR/nobody.keys"
	chmod 755 "$LAB_DIR"
	chmod 666 "$LAB_DIR/merger.sock"
}

as_nobody() {
	setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent \
		PACKRACK_KEY="$LAB_DIR/nobody.keys" WIRESHARK_EXTCAP_DIR="$LAB_DIR/extcap" timeout 30 "$@"
}

lists_extcap() {
	local said
	prepare_extcap
	said=$(as_nobody tshark -D) || return 1
	grep -qF "packrack (packrack: all links)" <<< "$said" && grep -qF "packrack:tap0 " <<< "$said"
}

captures_extcap() {
	as_nobody tshark -q -i packrack:tap0 -o "extcap.packrack_tap0.since:10m ago" -f "udp dst port 53" -c 20000 \
		-w "$LAB_DIR/out/extcap.pcapng" || return 1
	numbered "$LAB_DIR/out/extcap.pcapng" > "$LAB_DIR/extcap.pcap"
	"$COMPARE" "$LAB_DIR/all.pcap" "$LAB_DIR/extcap.pcap"
}

run_step "four readers follow a rack of three, and one takes nothing" begin
run_step "20,000 packets are played" "$RACK" play "$LAB_DIR/numbered.pcap" --pps=20000 --quiet
run_step "all readers get them while the rack goes on" all_have follow tshark own
run_step "who takes nothing is asked for no more" poll_until 10 value_is pcap_over_ip_stalls 1
run_step "a port for another link gives nothing" has_none nolink
run_step "--follow ends complete" ends_complete
run_step "an export of all" sh -c "\"$RACK\" drain --keep-running --timeout 120 && \"$BUILD/packrack\" export -w '$LAB_DIR/all.pcapng'"
numbered "$LAB_DIR/all.pcapng" > "$LAB_DIR/all.pcap"
run_step "it has them all" has "$LAB_DIR/all.pcapng" 20000
if command -v capinfos > /dev/null; then
	run_step "an interface block for each link, with its own statistics" blocks_of_links
fi
for reader in follow tshark own; do
	run_step "$reader: the same packets, times and order" equal "$reader"
done
run_step "the merger says who read" sh -c "\"$BUILD/packrack\" status --json | grep -q pcap_over_ip_accepted"
many_readers() {
	background "$LAB_DIR/many.log" "$RACK" exec disp python3 -c 'import socket, time
kept = [socket.create_connection(("127.0.0.1", 57012)) for i in range(40)]
time.sleep(60)'
	poll_until 10 value_is pcap_over_ip_refused 20 && "$BUILD/packrack" query --count
}
run_step "many readers of the port leave places for queries" many_readers
refute_step "other than loopback must be allowed" 2 "$BUILD/packrack-merger" --pcap-over-ip 0.0.0.0:57015
refute_step "a name is no place" 2 "$BUILD/packrack-merger" --pcap-over-ip localhost
refute_step "--follow asks no volume" 2 "$BUILD/packrack" query --follow --volume x
run_step "Wireshark's interfaces have the rack and its link" lists_extcap
run_step "tshark captures the past from it" captures_extcap
run_step "a filter that is none is told" sh -c "\"$BUILD/packrack\" extcap --extcap-interface packrack \
	--extcap-capture-filter 'tcp prt 5' | grep -q 'syntax error'"
run_step "one with times is not" sh -c "test -z \"\$(\"$BUILD/packrack\" extcap --extcap-interface packrack \
	--extcap-capture-filter 'after 3h ago and tcp')\""
"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
