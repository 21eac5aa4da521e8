#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# packrack replay: what arrives at the far side of an interface is what an export has, byte for byte and
# in order, at any pace; what cannot be sent is counted. And exports go down the pipes of other programs.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpdump jq setpriv
need_programs packrack
DIR=$(mktemp -d /tmp/packrack-replay.XXXXXX)
NS=pr-replay-$$
SNIFFER=
TAP=
finish() {
	[ -z "$SNIFFER" ] || kill "$SNIFFER" 2> /dev/null
	[ -z "$TAP" ] || kill "$TAP" 2> /dev/null
	ip netns del "$NS" 2> /dev/null
	rm -rf -- "$DIR"
	end_labs
}
trap finish EXIT

inside() { # not ip netns exec: it wants to mount, which fails in a plain chroot
	nsenter --net="/run/netns/$NS" "$@"
}

replay() {
	inside "$BUILD/packrack" replay --volume "$DIR/v" --out out0 "$@"
}

make_wire() {
	ip netns add "$NS" || return 1
	inside ip link add out0 type veth peer name in0 || return 1
	local port
	for port in out0 in0; do
		inside sysctl -qw "net.ipv6.conf.$port.disable_ipv6=1" && inside ip link set "$port" up || return 1
	done
}

make_trace() {
	cd "$DIR" || return 1
	"$TOP/tests/system/numbered.py" make n.pcap 5000 && "$BUILD/packrack" import n.pcap --volume v --create 64M &&
		"$BUILD/packrack" export --volume v -w all.pcapng
	cd "$TOP" || return 1
}

listen() {
	rm -f "$DIR/tcpdump.log" # of the one before, which listened
	# not by the function: its shell's pid would be known, and tcpdump stay
	nsenter --net="/run/netns/$NS" tcpdump -i in0 -Q in -U -B 32768 -s 65535 --time-stamp-precision=nano -Z root -w "$DIR/$1" 2> "$DIR/tcpdump.log" &
	SNIFFER=$!
	poll_until 10 grep -qs listening "$DIR/tcpdump.log"
}

heard() { # FILE COUNT
	[ "$(tcpdump -n -r "$DIR/$1" 2> /dev/null | wc -l)" -ge "$2" ]
}

arrives() { # FILE REPLAY-OPTIONS: and all of it is there
	local file=$1
	shift
	listen "$file" || return 1
	replay --json "$@" > "$DIR/said.json" || { echo "status $?"; cat "$DIR/said.json"; return 1; }
	poll_until 10 heard "$file" 5000
	kill "$SNIFFER"
	wait "$SNIFFER"
	SNIFFER=
	"$COMPARE" --times ignore "$DIR/all.pcapng" "$DIR/$file"
}

said() { # JQ-FILTER
	jq -e "$1" "$DIR/said.json" > /dev/null || { cat "$DIR/said.json"; return 1; }
}

run_step "a wire of our own" make_wire
run_step "a volume" make_trace
run_step "as recorded: the same packets arrive, in order" arrives recorded.pcap
run_step "all 5,000 are counted, and nothing was left out" said \
	'.sent_packets == 5000 and .too_long == 0 and .failed == 0 and .late_p50_ns > 0'
# 5,000 packets with gaps of 100 us in the mean
run_step "it lasted as long as the capture did" said '.duration_ns > 450000000'
run_step "ten times as fast: the same" arrives fast.pcap --pace x10
run_step "at a fixed rate: the same" arrives rate.pcap --pace 10kpps
run_step "which it has kept" said '.duration_ns > 490000000'
run_step "by bits: the same" arrives bits.pcap --pace 80Mbit

too_long() { # a smaller MTU: what does not fit is said
	local rc=0
	inside ip link set out0 mtu 600
	replay --pace 20kpps --json > "$DIR/said.json" || rc=$?
	inside ip link set out0 mtu 1500
	inside sysctl -qw net.ipv6.conf.out0.disable_ipv6=1 # which a larger MTU brings back
	[ "$rc" = 3 ] || { echo "status $rc"; return 1; }
	said '.too_long > 0 and .too_long + .sent_packets == 5000'
}
run_step "frames longer than the interface takes are counted" too_long

# A tap that nobody reads: its queue takes 4 frames.
unread() {
	nsenter --net="/run/netns/$NS" python3 -c '
import fcntl, os, signal, struct
tap = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tap, 0x400454CA, struct.pack("16sH22s", b"full0", 0x1002, b""))  # TUNSETIFF, IFF_TAP | IFF_NO_PI
print("open", flush=True)
signal.alarm(60)
signal.pause()' > "$DIR/tap.log" &
	TAP=$!
	poll_until 10 grep -q open "$DIR/tap.log" &&
		inside sysctl -qw net.ipv6.conf.full0.disable_ipv6=1 && inside ip link set full0 txqueuelen 4 up
}
stays_full() {
	local rc=0
	unread || return 1
	inside "$BUILD/packrack" replay --volume "$DIR/v" --out full0 --limit 5 --pace max --json > "$DIR/said.json" || rc=$?
	kill "$TAP"
	wait "$TAP"
	TAP=
	[ "$rc" = 3 ] || { echo "status $rc"; cat "$DIR/said.json"; return 1; }
	said '.sent_packets == 4 and .failed == 1 and .queue_full == 1'
}
if [ -w /dev/net/tun ]; then
	run_step "what a queue that stays full does not take is counted" stays_full
fi

at_time() {
	local when
	when=$(date -u -d '+4 seconds' +%FT%TZ)
	replay --pace max --limit 10 --at "$when" --json > "$DIR/said.json"
	[ "$(date +%s)" -ge "$(date -d "$when" +%s)" ] && said '.sent_packets == 10'
}
run_step "--at waits for its time" at_time

# A slow one can be ended while it waits: it says how far it came.
interrupted() {
	local pid rc=0
	nsenter --net="/run/netns/$NS" "$BUILD/packrack" replay --volume "$DIR/v" --out out0 --pace 2pps > "$DIR/said" 2>&1 &
	pid=$!
	poll_until 10 has_sent "$1" || { cat "$DIR/said"; kill "$pid"; return 1; }
	kill -INT "$pid"
	poll_until 5 grep -q "sent on out0" "$DIR/said" || kill "$pid"
	wait "$pid" || rc=$?
	{ [ "$rc" = 3 ] && grep -q "sent on out0" "$DIR/said"; } || { echo "status $rc"; cat "$DIR/said"; return 1; }
}
sent() { # by the interface, ever
	inside ip -s -j link show out0 | jq '.[0].stats64.tx.packets'
}
has_sent() { # more than NUMBER
	[ "$(sent)" -gt "$1" ]
}
run_step "an interrupt ends it, and it says how far it came" interrupted "$(sent)"
refute_step "an interface that is not there" 1 inside "$BUILD/packrack" replay --volume "$DIR/v" --out nothere
not_up() {
	inside ip link set out0 down
	refused "out0 is down: ip link set out0 up" replay
	local rc=$?
	inside ip link set out0 up
	return "$rc"
}
refused() { # TEXT COMMAND...: status 1, and one line
	local rc=0 text=$1
	shift
	"$@" > "$DIR/said" 2>&1 || rc=$?
	sed -i '/^complete: /d' "$DIR/said" # the report
	{ [ "$rc" = 1 ] && [ "$(wc -l < "$DIR/said")" = 1 ] && grep -qF "$text" "$DIR/said"; } || { echo "status $rc"; cat "$DIR/said"; return 1; }
}
run_step "one that is down" not_up
# ---- paces ----
file_of() { # LINK-TYPE SECONDS...: a trace of packets of 100 bytes at these times, and how long it is
	python3 - "$@" << 'EOF' > "$DIR/some.pcap"
import struct, sys
out = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, int(sys.argv[1]))
for text in sys.argv[2:]:
    at = int(float(text) * 10**6)
    out += struct.pack("<IIII", at // 10**6, at % 10**6, 100, 200) + b"\x02" * 12 + b"\x88\xb5" + bytes(86)
sys.stdout.buffer.write(out)
EOF
}
lasts() { # PACE LEAST MOST MS: packets at 0, 0.4, 0.1 and 0.5 s
	file_of 1 1000 1000.4 1000.1 1000.5
	inside "$BUILD/packrack" replay --read "$DIR/some.pcap" --out out0 --pace "$1" --json > "$DIR/said.json" &&
		said ".sent_packets == 4 and .cut == 4 and .duration_ns >= $2e6 and .duration_ns < $3e6"
}
run_step "a time that goes back delays nothing" lasts recorded 500 600
run_step "half as fast" lasts x0.5 1000 1100
run_step "twice as fast" lasts x2 250 350
run_step "packets a second" lasts 10pps 300 400
run_step "bits a second" lasts 8kbit 300 400
run_step "bytes a second" lasts 0.5kB 600 700
run_step "all at once" lasts max 0 100
bad_paces() {
	local text
	for text in "" quick x x0 x-1 xinf 10 "10 k" -5pps 0pps nanpps 5kppss 100Mx recordedx "1.5 Gbps"; do
		replay --pace="$text" > "$DIR/said" 2>&1
		if [ $? != 2 ] || ! grep -q "is not a pace: give recorded, x2, x0.5, 5kpps, 100Mbit or max" "$DIR/said"; then
			echo "'$text' is taken"
			cat "$DIR/said"
			return 1
		fi
	done
}
run_step "a pace that is none" bad_paces
other_type() {
	file_of 101 1000
	refused "link type 101, not of Ethernet" inside "$BUILD/packrack" replay --read "$DIR/some.pcap" --out out0
}
run_step "packets that are not of Ethernet" other_type
nothing() {
	replay --json greater 60000 > "$DIR/said.json" && said '.sent_packets == 0'
}
run_step "no packets" nothing
refute_step "a filter that is none" 2 replay tcp prt 5
refute_step "a volume that is not there" 1 inside "$BUILD/packrack" replay --volume "$DIR/none" --out out0

# ---- ends ----
slow() { # it has begun to send
	local before
	before=$(sent)
	nsenter --net="/run/netns/$NS" "$BUILD/packrack" replay --volume "$DIR/v" --out out0 --pace 2pps > "$DIR/said" 2>&1 &
	REPLAY=$!
	poll_until 10 has_sent "$before"
}
nothing_runs() {
	[ -z "$(ip netns pids "$NS")" ]
}
killed() {
	slow && kill -KILL "$REPLAY" && poll_until 5 nothing_runs || return 1
	wait "$REPLAY" 2> /dev/null || return 0 # which the shell would tell of
}
run_step "killed, it leaves no process behind" killed
taken_down() {
	local rc=0
	slow || return 1
	inside ip link set out0 down
	poll_until 5 nothing_runs || kill "$REPLAY"
	wait "$REPLAY" || rc=$?
	inside ip link set out0 up
	{ [ "$rc" = 1 ] && grep -q "does not take frames: Network is down" "$DIR/said"; } || { echo "status $rc"; cat "$DIR/said"; return 1; }
}
run_step "an interface that goes down ends it" taken_down
refute_step "a time that is over" 2 replay --at "1h ago"
refute_step "no interface named" 2 "$BUILD/packrack" replay --volume "$DIR/v"
refute_step "without privilege" 1 setpriv --reuid=65534 --clear-groups "$BUILD/packrack" replay --volume "$DIR/v" --out lo

# ---- the hash of a trace ----
hash_of() { # FILE
	"$BUILD/packrack" compare --json "$1" | jq -r '.files[0].hash'
}

# in the file, in the report, and of what a reader gets from the file
one_hash() {
	local said
	said=$("$BUILD/packrack" export --volume "$DIR/v" -w "$DIR/again.pcapng" --json | jq -r .hash)
	[[ $said == xxh3-128/1:* ]] && [ "$said" = "$(hash_of "$DIR/again.pcapng")" ] &&
		grep -aqF "trace hash $said" "$DIR/again.pcapng" &&
		[ "$said" = "$(hash_of "$DIR/n.pcap")" ] # of the trace as it was imported, too
}
run_step "an export has the hash of its packets" one_hash
run_step "two exports are equal" "$BUILD/packrack" compare "$DIR/all.pcapng" "$DIR/again.pcapng"
"$BUILD/packrack" export --volume "$DIR/v" -q -w "$DIR/us.pcap" --format pcap
refute_step "one of microseconds is not" 1 "$BUILD/packrack" compare "$DIR/all.pcapng" "$DIR/us.pcap"
run_step "to the microsecond it is" "$BUILD/packrack" compare --times us "$DIR/all.pcapng" "$DIR/us.pcap"
differs_at() { # what has one packet less is seen where it ends
	"$BUILD/packrack" export --volume "$DIR/v" -q -c 4999 -w "$DIR/short.pcapng"
	"$BUILD/packrack" compare --json "$DIR/all.pcapng" "$DIR/short.pcapng" > "$DIR/said.json"
	said '.equal == false and .first_difference == 5000 and .difference == "one has more packets"'
}
run_step "a packet less is seen" differs_at
flipped() { # one bit of the bytes of one packet
	python3 - "$DIR/n.pcap" "$DIR/bad.pcap" << 'EOF'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[24 + 16 + 20] ^= 1
open(sys.argv[2], "wb").write(data)
EOF
	"$BUILD/packrack" compare --json "$DIR/n.pcap" "$DIR/bad.pcap" > "$DIR/said.json"
	said '.equal == false and .first_difference == 1 and .difference == "bytes" and .files[0].hash != .files[1].hash'
}
run_step "a bit more is seen" flipped
refute_step "what is no trace" 2 "$BUILD/packrack" compare "$DIR/said.json"

# Secrets that a pcapng carries are no packets: they are not taken in, and spoil nothing.
with_secrets() {
	printf 'CLIENT_RANDOM %064d %096d\n' 1 2 > "$DIR/keys.log"
	editcap -F pcapng --inject-secrets "tls,$DIR/keys.log" "$DIR/again.pcapng" "$DIR/secret.pcapng" &&
		"$BUILD/packrack" import "$DIR/secret.pcapng" --volume "$DIR/v2" --create 64M &&
		"$BUILD/packrack" export --volume "$DIR/v2" -w "$DIR/out.pcapng" &&
		"$BUILD/packrack" compare "$DIR/secret.pcapng" "$DIR/out.pcapng" && ! grep -aq CLIENT_RANDOM "$DIR/out.pcapng"
}
if command -v editcap > /dev/null; then
	run_step "a pcapng with decryption secrets" with_secrets
fi
capinfos_agrees() {
	local said
	said=$(capinfos -M "$DIR/again.pcapng") || return 1
	grep -q "Number of packets: *5000$" <<< "$said" && grep -q "nanoseconds (9)" <<< "$said" &&
		grep -q "stat entries = 1" <<< "$said"
}
if command -v capinfos > /dev/null; then
	run_step "capinfos reads packets, precision and statistics" capinfos_agrees
fi

# ---- pipes ----
count_in() { # COMMAND...: packets that it reads from an export
	"$BUILD/packrack" export --volume "$DIR/v" -q -w - --format pcap | "$@"
}

into_tcpdump() {
	[ "$(count_in tcpdump -r - -n 2> /dev/null | wc -l)" = 5000 ]
}
run_step "into tcpdump" into_tcpdump
into_tshark() {
	[ "$("$BUILD/packrack" export --volume "$DIR/v" -q -w - | tshark -r - 2> /dev/null | wc -l)" = 5000 ]
}
into_tcpreplay() {
	listen piped.pcap || return 1
	count_in nsenter --net="/run/netns/$NS" tcpreplay -q -i out0 --pps=20000 - > "$DIR/tcpreplay.log" 2>&1 || { cat "$DIR/tcpreplay.log"; return 1; }
	poll_until 10 heard piped.pcap 5000
	kill "$SNIFFER"
	wait "$SNIFFER"
	SNIFFER=
	"$COMPARE" --times ignore "$DIR/all.pcapng" "$DIR/piped.pcap"
}
into_zeek() {
	cd "$DIR" || return 1
	count_in zeek -C -r - > zeek.log 2>&1 && [ -s conn.log ]
}
if command -v tshark > /dev/null; then
	run_step "into tshark" into_tshark
fi
if command -v tcpreplay > /dev/null; then
	run_step "into tcpreplay" into_tcpreplay
fi
if command -v zeek > /dev/null; then
	run_step "into Zeek" into_zeek
fi
done_testing
