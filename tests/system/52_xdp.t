#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The XDP path (--path xdp): a capture played live has the same bytes and order by it as by the packet path, in native and
# in generic mode and for each spread; odd frames take the present path in the same numbering; what finds no room is
# counted, and no other packet is missing; a dispatcher that is killed leaves no program; what XDP cannot do is
# refused by one line, or takes the packet path.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpreplay tcpdump jq tshark editcap
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
new_lab

# A stand-in where the captures are absent, so that the path is tested all the same.
tests/system/numbered.py make "$LAB_DIR/numbered.pcap" 20000
capture=$LAB_DIR/numbered.pcap
# Longer frames than XDP takes without fragments are left out; what is played has the length that was captured.
if [ -f "$DATA/mix-gateway-full-a.pcap" ]; then
	capture=$LAB_DIR/mix.pcap
	tcpdump -r "$DATA/mix-gateway-full-a.pcap" -w - 'less 3014' 2> /dev/null | python3 -c '
import struct, sys
data = sys.stdin.buffer.read()
out, at = [data[:24]], 24
while at < len(data):
    sec, usec, caplen, _ = struct.unpack_from("<IIII", data, at)
    out.append(struct.pack("<IIII", sec, usec, caplen, caplen) + data[at + 16:at + 16 + caplen])
    at += 16 + caplen
sys.stdout.buffer.write(b"".join(out))' > "$capture"
fi

# Short frames, tags, frames of the rack's own Ethertype; in turn with plain ones. Many that are alike but for a number.
python3 - "$LAB_DIR/odd.pcap" "$LAB_DIR/many.pcap" "$LAB_DIR/large.pcap" <<'P'
import struct, sys
macs = bytes.fromhex("0a00000000010a0000000002")
tag = bytes.fromhex("81000064")
heads = [b"\x08\x00", tag + b"\x08\x00", b"\x88\xb5", tag + b"\x88\xb5", bytes.fromhex("88a80065") + tag + b"\x08\x00",
         b"\x88\xb6", bytes.fromhex("91000001") + b"\x86\xdd", b"\x12\x34"]
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
    for n in range(6000):
        head = macs + heads[n % len(heads)]
        size = (14 + 4, 42, 59, 60, 61, 64, 127, 128, 129, 640, 641, 1400, 1514)[n % 13]
        size += 4 * (size == 1514 and head[12:14] == b"\x81\x00")
        frame = (head + struct.pack(">I", n) + bytes((n * 7 + k) & 255 for k in range(1518)))[:max(size, len(head) + 4)]
        f.write(struct.pack("<IIII", 1000 + n // 1000, n % 1000, len(frame), len(frame)) + frame)
for path, size in ((sys.argv[2], 60), (sys.argv[3], 1200)):
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for n in range(60000):
            f.write(struct.pack("<IIII", 1000, n, size, size) + macs + struct.pack(">HI", 0x1234, n) + bytes(size - 18))
P

inside() { "$RACK" exec "$@"; }
figure() { # NAME: of the dispatcher
	"$BUILD/packrack" status --json | jq "[.dispatcher.$1 // 0] | add"
}

up() { # ARG...: and no word of the hosts on the link
	"$RACK" down > /dev/null
	"$RACK" up "$@" > "$LAB_DIR/up" 2>&1 || { cat "$LAB_DIR/up"; "$RACK" logs | tail -n 20; return 1; }
	local host=() role
	for role in hosta:a0 hostb:b0; do
		host+=("$(inside "${role%:*}" ip -o link show "${role#*:}" | grep -o 'link/ether [0-9a-f:]*' | cut -d ' ' -f 2)")
	done
	HOSTS="not ether src ${host[0]} and not ether src ${host[1]}"
}

# offered = delivered, and nothing was dropped anywhere
whole() { # CAPTURE MODE
	"$BUILD/packrack" query -w "$LAB_DIR/out.pcapng" "$HOSTS" || { echo "query: status $?"; return 1; }
	"$COMPARE" --times ignore "$1" "$LAB_DIR/out.pcapng" || return 1
	[ "$(figure captured_packets)" = "$(figure 'links[0].last_seq')" ] || { echo "captured, and without a number"; return 1; }
	case $2 in
	native) (($(figure xdp_frames) + $(figure data_frames) >= $(figure captured_packets) && $(figure xdp_frames) > 0)) ||
		{ echo "sent by XDP: $(figure xdp_frames)"; return 1; } ;;
	packet) [ "$(figure xdp_frames)" = 0 ] ;;
	esac
}

live() { # MODE LOGGERS SPREAD CAPTURE [PLAYED [OPTION...]]
	local path=xdp
	[ "$1" != packet ] || path=packet
	up -n "$2" --spread "$3" --in-mtu 3000 -- --path "$path" "${@:6}" || return 1
	if [ "$path" = xdp ]; then
		"$RACK" logs dispatcher | grep -q "path xdp: ${1%,*}" || { "$RACK" logs dispatcher; return 1; }
	fi
	"$RACK" play "${5:-$4}" --pps=15000 --quiet > "$LAB_DIR/feed" 2>&1 || { cat "$LAB_DIR/feed"; return 1; }
	"$RACK" drain --stored --timeout 120 > "$LAB_DIR/drain" 2>&1 || { "$RACK" logs | tail -n 20; return 1; }
	whole "$4" "$1"
}

run_step "a capture by the packet path, 3 loggers" live packet 3 round-robin "$capture"
run_step "the same by XDP, native" live native 3 round-robin "$capture"
run_step "by XDP, weighted" live native 3 weighted "$capture"
run_step "by XDP, by flow" live native 3 flow "$capture"
# With a snap length; one that is too short for frames, too.
for snaplen in 96 50; do
	editcap -F nsecpcap -s "$snaplen" "$capture" "$LAB_DIR/snap.pcap"
	mode=native
	((snaplen > 60)) || mode=native,whole
	run_step "a snap length of $snaplen by XDP" live "$mode" 2 round-robin "$LAB_DIR/snap.pcap" "$capture" --snaplen "$snaplen"
done
run_step "a snap length of 50 by the packet path" live packet 2 round-robin "$LAB_DIR/snap.pcap" "$capture" --snaplen 50
run_step "odd frames by XDP" live native 2 round-robin "$LAB_DIR/odd.pcap"
run_step "odd frames by the packet path" live packet 2 round-robin "$LAB_DIR/odd.pcap"

# Without a program on the switch's port the rack interface takes no redirected frames.
generic() {
	PACKRACK_LAB_GENERIC=1 live generic 2 round-robin "$LAB_DIR/odd.pcap"
}
run_step "odd frames by generic XDP" generic

run_step "two copies by XDP" live native 3 round-robin "$capture" "$capture" --copies 2
run_step "two copies of odd frames by XDP, by flow" live native 3 flow "$LAB_DIR/odd.pcap" "$LAB_DIR/odd.pcap" --copies 2
one_lost() {
	"$RACK" kill log1 && "$RACK" kill idx1 && rm "$LAB_DIR/log1.vol" || return 1
	poll_until 10 whole "$LAB_DIR/odd.pcap" native
}
run_step "one of the nodes is lost: all of them" one_lost

tcpdump -r "$capture" -w "$LAB_DIR/tcp.pcap" tcp 2> /dev/null
run_step "a filter" live native,whole 2 flow "$LAB_DIR/tcp.pcap" "$capture" --filter tcp

attached() { inside disp ip link show tap0 | grep -q xdp; }
killed() {
	up -n 1 -- --path xdp || return 1
	attached || { inside disp ip link show tap0; return 1; }
	"$RACK" kill dispatcher || return 1
	poll_until 5 eval '! attached' || { echo "the program is still there"; return 1; }
}
run_step "killed by SIGKILL, the dispatcher leaves no program" killed

# The dispatcher stands still while more comes than its buffer has records for, or its nodes have room for. Each packet is
# delivered, or was refused before it had a number; MARK tells how many.
packets() { tcpdump -nqr "$@" 2> /dev/null | grep -c "^[0-2][0-9]:"; }
full() { # FILE SEND-BUFFER
	up -n 2 -- --path xdp --send-buffer "$2" || return 1
	"$RACK" exec tap ip link set t0 down && "$RACK" exec tap ip link set t1 down || return 1 # the hosts say nothing meanwhile
	"$RACK" play "$LAB_DIR/many.pcap" --pps=15000 --limit=100 --quiet > "$LAB_DIR/feed" 2>&1
	"$RACK" kill -s STOP dispatcher
	"$RACK" play "$LAB_DIR/$1" --topspeed --quiet > "$LAB_DIR/feed" 2>&1
	"$RACK" kill -s CONT dispatcher
	"$RACK" drain --stored --timeout 120 > "$LAB_DIR/drain" 2>&1 || { "$RACK" logs | tail -n 20; return 1; }
	local hosts offered lost stored missing
	"$BUILD/packrack" query -w "$LAB_DIR/out.pcapng" 2> "$LAB_DIR/said"
	stored=$(packets "$LAB_DIR/out.pcapng")
	hosts=$(packets "$LAB_DIR/out.pcapng" "not ($HOSTS)")
	lost=$(("$(figure dropped_ring)" + "$(figure dropped_kernel)" + "$(figure dropped_interface)"))
	missing=$(($(figure 'links[0].last_seq') - stored))
	echo "stored $stored, of hosts $hosts, ring $(figure dropped_ring), interface $(figure dropped_interface), missing $missing"
	cat "$LAB_DIR/said"
	(($(figure dropped_ring) > 0)) || { echo "nothing was refused"; return 1; }
	offered=$((60000 + 100))
	((stored - hosts + missing + lost == offered)) || { echo "offered $offered"; return 1; }
	((missing == $(figure xdp_frames_dropped) + $(figure xdp_frames_not_redirected) + $(figure dropped_no_node))) || { echo "missing without a reason"; return 1; }
}
run_step "a full buffer: offered = delivered + each drop counted" full many.pcap 2M
run_step "nodes that are full: refused, not lost at them" full large.pcap 32M

# A dispatcher that shares its CPU with the sender has almost always something left to read: nothing of that is confirmed.
confirmed() { # PATH
	up -n 4 -- --path "$1" --send-buffer 64M --capture-buffer 128M || return 1
	taskset -acp 0 "$(cut -d ' ' -f 1 "$LAB_DIR/pids/dispatcher")" > /dev/null || return 1
	taskset -c 0 "$RACK" play "$LAB_DIR/many.pcap" --pps=300000 --loop=20 --quiet > "$LAB_DIR/feed" 2>&1
	"$RACK" drain --stored --timeout 120 > "$LAB_DIR/drain" 2>&1
	"$BUILD/packrack" query -w "$LAB_DIR/out.pcapng" 2> "$LAB_DIR/said"
	cat "$LAB_DIR/said"
	(($(packets "$LAB_DIR/out.pcapng") > 50000)) && tests/system/marks.py "$BUILD/packrack" "$LAB_DIR/out.pcapng" "$LAB_DIR"/log[1234].vol
}
run_step "what is confirmed was read" confirmed xdp
run_step "also by the packet path" confirmed packet

# The switch's port takes no frames for a while: what has a number by then is missing, and counted here.
lost() {
	up -n 2 -- --path xdp || return 1
	"$RACK" play "$LAB_DIR/many.pcap" --pps=15000 --limit=1000 --quiet > "$LAB_DIR/feed" 2>&1
	inside sw ip link set p0 xdpdrv off || return 1
	"$RACK" play "$LAB_DIR/many.pcap" --pps=15000 --limit=500 --quiet > "$LAB_DIR/feed" 2>&1
	inside sw ip link set p0 xdpdrv obj "$BUILD/scripts/lab/pass.bpf.o" sec xdp || return 1
	"$RACK" play "$LAB_DIR/many.pcap" --pps=15000 --limit=1000 --quiet > "$LAB_DIR/feed" 2>&1
	"$RACK" drain --stored --timeout 120 > "$LAB_DIR/drain" 2>&1
	"$BUILD/packrack" query -w "$LAB_DIR/out.pcapng" 2> "$LAB_DIR/said"
	local rc=$? dropped
	cat "$LAB_DIR/said"
	dropped=$(($(figure xdp_frames_dropped) + $(figure xdp_frames_not_redirected)))
	echo "status $rc, dropped $dropped, of $(figure 'links[0].last_seq')"
	((rc == 3 && dropped >= 500)) || return 1
	(($(packets "$LAB_DIR/out.pcapng") + dropped == $(figure 'links[0].last_seq')))
}
run_step "what is lost behind the program is missing, and counted" lost

# The rack interface is down: what is not redirected has a number. The capture interface, a veth, counts it as its drop, too.
out_down() {
	up -n 2 -- --path xdp || return 1
	inside tap ip link set t0 down && inside tap ip link set t1 down || return 1
	"$RACK" play "$LAB_DIR/many.pcap" --pps=15000 --limit=1000 --quiet > "$LAB_DIR/feed" 2>&1
	inside disp ip link set out0 down || return 1
	"$RACK" play "$LAB_DIR/many.pcap" --pps=15000 --limit=500 --quiet > "$LAB_DIR/feed" 2>&1
	inside disp ip link set out0 up || return 1
	poll_until 20 heard || { echo "the nodes are not back"; return 1; }
	"$RACK" play "$LAB_DIR/many.pcap" --pps=15000 --limit=1000 --quiet > "$LAB_DIR/feed" 2>&1
	"$RACK" drain --stored --timeout 120 > "$LAB_DIR/drain" 2>&1
	"$BUILD/packrack" status --json | jq -c '.dispatcher | {captured_packets, dropped_ring, dropped_interface, xdp_frames_not_redirected, xdp_frames_dropped}'
	(($(figure xdp_frames_not_redirected) > 0 && $(figure dropped_interface) == 0))
}
heard() {
	[ "$("$BUILD/packrack" node list | grep -c '^[0-9].* log[12] .* active ')" = 2 ]
}
run_step "and counted once, with the rack interface down" out_down

up -n 1 -- > "$LAB_DIR/up" 2>&1
"$RACK" kill dispatcher > /dev/null
one_line() { # STATUS TEXT ARG...
	local want=$1 text=$2 rc=0
	shift 2
	inside disp timeout 10 "$BUILD/packrack-dispatcher" --in tap0 --out out0 --listen "ipc://$LAB_DIR/other.sock" "$@" > "$LAB_DIR/err" 2>&1 || rc=$?
	cat "$LAB_DIR/err"
	[ "$rc" = "$want" ] && grep -qF -- "$text" "$LAB_DIR/err"
}
refused() {
	one_line 1 "$@" && [ "$(wc -l < "$LAB_DIR/err")" = 1 ]
}
run_step "timestamps of the adapter are refused by one line" refused "--path xdp: --timestamp goes by the packet path" --path xdp --timestamp adapter
generic_copies() {
	PACKRACK_LAB_GENERIC=1 up -n 1 && "$RACK" kill dispatcher && refused "out0 takes no frames of XDP, which two copies need" --path xdp --copies 2
}
run_step "two copies in generic mode are, too" generic_copies
run_step "with auto, it is said" one_line 124 "--path auto: the packet path is used: --filter goes by the packet path" --path auto --filter ip

"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
