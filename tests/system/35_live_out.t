#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Answers that go on: query --follow, ports of packrack pcap-over-ip and a query's own one, as tshark
# reads them. Each packet comes once and in order, and a reader who does not read disturbs nobody.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpreplay tcpdump tshark dumpcap jq setpriv
need_programs packrack packrack-pcap-over-ip packrack-dispatcher packrack-logger packrack-indexer packrack-merger
new_lab
PIDS=()
trap 'kill "${PIDS[@]}" 2> /dev/null; end_labs' EXIT

N=40000 # more than lies on the way to a reader who takes nothing
tests/system/numbered.py make "$LAB_DIR/numbered.pcap" "$N"

background() { # LOG CMD...
	local log=$1
	shift
	"$@" > "$log" 2>&1 &
	PIDS+=($!)
}

declare -A PORT # pids
port() { # PORT OPTION...: serves it
	background "$LAB_DIR/$1.log" "$RACK" exec disp "$BUILD/packrack" pcap-over-ip "$@"
	PORT[$1]=$!
	poll_until 10 grep -q "waiting for readers on 127.0.0.1:$1: every user of this machine may read" "$LAB_DIR/$1.log"
}

port_says() { # PORT COUNT TEXT: so many lines with it, or more
	[ "$(grep -c -- "$3" "$LAB_DIR/$1.log")" -ge "$2" ]
}

running() { # COUNT: queries
	[ "$("$BUILD/packrack" queries list --json | jq '.queries | length')" = "$1" ]
}

# One who connects and takes nothing.
silent_reader() { # PORT
	"$RACK" exec disp python3 -c 'import socket, sys, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
s.connect(("127.0.0.1", int(sys.argv[1])))
time.sleep(100)' "$1"
}

# One who says much, and takes all until the end. No byte may be lost, and none be there that is not of the trace.
raw_reader() { # PORT FILE
	"$RACK" exec disp python3 -c 'import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(bytes(10 << 20))
with open(sys.argv[2], "wb", buffering=0) as f:
    while data := s.recv(1 << 16):
        f.write(data)' "$@"
}

# tshark captures as root without its rights: it writes to a folder of root only.
mkdir "$LAB_DIR/files"
begin() {
	"$RACK" up -n 3 --links 2 || return 1
	# packets from before are not in it: a quiet start
	port 57012 && port 57013 --link nolink && port 57015 --link tap0 udp dst port 53 && port 57016 --timeout 2s || return 1
	background "$LAB_DIR/silent.log" silent_reader 57012
	background "$LAB_DIR/stuck.log" silent_reader 57016
	background "$LAB_DIR/raw.log" raw_reader 57012 "$LAB_DIR/files/raw.pcapng"
	background "$LAB_DIR/dns.log" raw_reader 57015 "$LAB_DIR/files/dns.pcapng"
	background "$LAB_DIR/tshark.log" "$RACK" exec disp tshark -q -i TCP@127.0.0.1:57012 -w "$LAB_DIR/files/tshark.pcapng"
	background "$LAB_DIR/nolink.log" "$RACK" exec disp tshark -q -i TCP@127.0.0.1:57013 -w "$LAB_DIR/files/nolink.pcapng"
	NOLINK=$!
	poll_until 30 "$BUILD/packrack" query --count --since "0.1s ago" || return 1 # the capture has begun
	background "$LAB_DIR/follow.log" "$BUILD/packrack" query --follow -w "$LAB_DIR/files/follow.pcapng"
	FOLLOW=$!
	background "$LAB_DIR/own.log" "$RACK" exec disp "$BUILD/packrack" query --follow -w tcp-listen:57014 udp
	poll_until 30 grep -q "waiting for a reader on 127.0.0.1:57014" "$LAB_DIR/own.log" || { cat "$LAB_DIR/own.log"; return 1; }
	background "$LAB_DIR/tshark2.log" "$RACK" exec disp tshark -q -i TCP@127.0.0.1:57014 -w "$LAB_DIR/files/own.pcapng"
	poll_until 30 running 8 || { "$BUILD/packrack" queries list; return 1; }
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
		poll_until 30 has "$LAB_DIR/files/$file.pcapng" "$N" || { echo "$file has not all"; cat "$LAB_DIR/$file.log"; return 1; }
	done
}

has_none() { # FILE: read from, and empty
	port_says 57013 1 reads && ! port_says 57013 1 "has gone" && ! has "$LAB_DIR/files/$1.pcapng" 1
}

# What has been asked of the rack for it lies in its query and in its socket; others have all.
asked_no_more() {
	"$BUILD/packrack" queries list --json | jq -e --argjson n "$N" \
		'[.queries[] | select(.filter == "") | .matched] | any(. > 1000 and . < $n * 3 / 4) and any(. >= $n)'
}

# Nothing is on its way to it, and no packet comes.
goes_quietly() {
	kill "$NOLINK"
	poll_until 3 port_says 57013 1 "has gone" && [ -z "$(pgrep -P "${PORT[57013]}")" ]
}

# All that is begun ends, and in time.
ends() { # SIGNAL PORT
	local begun=${EPOCHREALTIME/./}
	kill "-$1" "${PORT[$2]}"
	wait "${PORT[$2]}" || { echo "status $?"; return 1; }
	echo "$(((${EPOCHREALTIME/./} - begun) / 1000)) ms"
	((${EPOCHREALTIME/./} - begun < 6000000)) && cat "$LAB_DIR/$2.log"
}

# An end of the trace, with what it knows of the link: statistics
finished() { # FILE
	tests/system/pcapng_blocks.py "$LAB_DIR/files/$1.pcapng" | grep -q "^statistics 0 accepted=[1-9]"
}

interrupted() {
	ends INT 57015 && poll_until 5 finished dns && port_says 57015 1 "is done: complete: $N packets match"
}

# Of three, one has taken nothing: it gets the time that the others do not need.
terminated() {
	ends TERM 57012 && poll_until 5 finished raw && port_says 57012 2 "is done: complete: " && port_says 57012 1 "does not take the rest"
}

killed() {
	local children
	background "$LAB_DIR/raw2.log" raw_reader 57013 "$LAB_DIR/files/raw2.pcapng"
	background "$LAB_DIR/silent2.log" silent_reader 57013
	poll_until 10 port_says 57013 3 reads || return 1
	children=$(pgrep -d, -P "${PORT[57013]}") || return 1
	kill -KILL "${PORT[57013]}"
	wait "${PORT[57013]}"
	poll_until 2 none_of "$children"
}

none_of() { # PID,...
	! ps -o pid= -p "$1"
}

# A merger that ends takes the readers along, but not the port.
merger_restarts() {
	background "$LAB_DIR/raw3.log" raw_reader 57016 "$LAB_DIR/files/raw3.pcapng"
	poll_until 10 test -s "$LAB_DIR/files/raw3.pcapng" && "$RACK" restart merger || return 1
	poll_until 10 port_says 57016 1 "is done: packrack" && tests/system/pcapng_blocks.py "$LAB_DIR/files/raw3.pcapng" || return 1
	background "$LAB_DIR/raw4.log" raw_reader 57016 "$LAB_DIR/files/raw4.pcapng"
	poll_until 10 test -s "$LAB_DIR/files/raw4.pcapng"
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
	grep -q "^complete: 4[0-9]* packets match" "$LAB_DIR/follow.log"
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
	grep -qE "^statistics 0 accepted=$N dropped=0 os_dropped=0 received=$(jq .tap0 <<< "$got")$" <<< "$said" &&
		grep -qE "^statistics 1 accepted=0 dropped=0 os_dropped=0 received=$(jq .tap1 <<< "$got")$" <<< "$said" || return 1
	capinfos "$LAB_DIR/udp.pcapng" | grep -cE "Name = tap[01]$|Number of packets = ($N|0)$|Speed = $speed$" | grep -qx 6
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
	as_nobody tshark -q -i packrack:tap0 -o "extcap.packrack_tap0.since:10m ago" -f "udp dst port 53" -c "$N" \
		-w "$LAB_DIR/out/extcap.pcapng" || return 1
	numbered "$LAB_DIR/out/extcap.pcapng" > "$LAB_DIR/extcap.pcap"
	"$COMPARE" "$LAB_DIR/all.pcap" "$LAB_DIR/extcap.pcap"
}

run_step "six readers follow a rack of three, and two take nothing" begin
run_step "40,000 packets are played" "$RACK" play "$LAB_DIR/numbered.pcap" --pps=20000 --quiet
run_step "all readers get them while the rack goes on" all_have follow tshark raw dns own
run_step "for who takes nothing the rack is asked for no more" asked_no_more
run_step "in the end it is disconnected" poll_until 10 port_says 57016 1 "took nothing for 2 s: closed"
run_step "a port for another link gives nothing" has_none nolink
run_step "who goes while nothing comes is seen to go" goes_quietly
run_step "--follow ends complete" ends_complete
run_step "an export of all" sh -c "\"$RACK\" drain --keep-running --timeout 120 && \"$BUILD/packrack\" export -w '$LAB_DIR/all.pcapng'"
numbered "$LAB_DIR/all.pcapng" > "$LAB_DIR/all.pcap"
run_step "it has them all" has "$LAB_DIR/all.pcapng" "$N"
if command -v capinfos > /dev/null; then
	run_step "an interface block for each link, with its own statistics" blocks_of_links
fi
for reader in follow tshark raw dns own; do
	run_step "$reader: the same packets, times and order" equal "$reader"
done
many_readers() {
	background "$LAB_DIR/many.log" "$RACK" exec disp python3 -c 'import socket
for s in [socket.create_connection(("127.0.0.1", 57012)) for i in range(40)]:
    while s.recv(1 << 16):
        pass'
	poll_until 10 port_says 57012 35 "is refused: 8 are served, as many as may be" && "$BUILD/packrack" query --count
}
run_step "many readers of the port leave places for queries" many_readers
run_step "a port that is interrupted finishes its traces" interrupted
run_step "and one that is terminated, whoever reads" terminated
run_step "of one that is killed nothing stays" killed
run_step "a merger that is started anew serves the port's next reader" merger_restarts
run_step "who has left" ends TERM 57016
refute_step "other than loopback must be allowed" 2 "$BUILD/packrack" pcap-over-ip 0.0.0.0:57015
refute_step "a name is no place" 2 "$BUILD/packrack" pcap-over-ip localhost
refute_step "a filter that is none is told before the first reader" 2 "$BUILD/packrack" pcap-over-ip 57015 tcp prt 5
refute_step "the daemon has no such port" 2 "$BUILD/packrack-merger" --pcap-over-ip 57015
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
