#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Shunting (--shunt): an XDP program drops what is beyond the cutoff of a connection. What is kept and what is not are the same
# as without it, to the packet and byte, also with rules and classes that change; most of it never comes to the dispatcher.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpdump tcpreplay jq
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
new_lab
export PACKRACK=$BUILD/packrack
export PACKRACK_TIMES=ignore PACKRACK_PATH='' # tcpdump is at the other end of the link: what is dropped does not come to it here
CHECK=tests/system/cutoff_check.py
CLASSES=(--class 'bulk; cutoff=4K' --class 'alarms; filter=host 192.0.2.1; precedence=5')
MODEL=('bulk; cutoff=4K' 'alarms; filter=host 192.0.2.1; precedence=5')

# What XDP takes; what is played has the length that was captured.
tcpdump -r "$DATA/mix-gateway-full-a.pcap" -c 12000 -w - 'less 3014' 2> /dev/null | "$PYTHON" -c '
import struct, sys
data = sys.stdin.buffer.read()
out, at = [data[:24]], 24
while at < len(data):
    sec, usec, caplen, _ = struct.unpack_from("<IIII", data, at)
    out.append(struct.pack("<IIII", sec, usec, caplen, caplen) + data[at + 16:at + 16 + caplen])
    at += 16 + caplen
sys.stdout.buffer.write(b"".join(out))' > "$LAB_DIR/mix.pcap"

# Long connections of both IP versions, tagged and not, beside each other over seconds, with RST, SYN, fragments and pauses.
"$PYTHON" - "$LAB_DIR/long.pcap" <<- 'P'
	import random, struct, sys
	random.seed(4)
	def packet(flow, n, flags):
	    v6, tag, proto = flow % 3 == 0, flow % 4 == 1, 17 if flow % 5 == 2 else 6
	    ends = [(b"\x0a\0\0" + bytes([flow]), 1000 + flow), (b"\x0a\0\0" + bytes([100 - flow]), 80)]
	    if n % 3:
	        ends.reverse()
	    (src, sport), (dst, dport) = ends
	    data = bytes((n * 7 + i) & 255 for i in range(random.choice((0, 40, 700))))
	    l4 = struct.pack(">HH", sport, dport)
	    l4 += struct.pack(">IIBBHHH", n, n, 0x50, flags, 512, 0, 0) if proto == 6 else struct.pack(">HH", 8 + len(data), 0)
	    l4 += data
	    if v6:
	        wide = lambda a: b"\x20\x01\x0d\xb8" + bytes(8) + a
	        ip, kind = struct.pack(">IHBB", 6 << 28, len(l4), proto, 64) + wide(src) + wide(dst) + l4, 0x86DD
	    else:
	        fragment = 0x2000 if flow == 7 and n % 50 == 9 else 0
	        ip, kind = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(l4), n & 65535, fragment, 64, proto, 0) + src + dst + l4, 0x800
	    ether = bytes.fromhex("0a00000000010a0000000002") + (struct.pack(">HH", 0x8100, 5) if tag else b"") + struct.pack(">H", kind)
	    return (ether + ip).ljust(60, b"\0")
	with open(sys.argv[1], "wb") as f:
	    f.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
	    for n in range(60000):
	        flow = random.choice((1, 2, 3, 4, 5, 7, 9, 13, 21, 40))
	        flags = {0: 4, 1: 2, 2: 1}.get(n % 20011, 16)  # RST, then soon a SYN, of some connections
	        data = packet(flow, n, flags)
	        f.write(struct.pack("<IIII", 1000 + n // 10000, n % 10000 * 100, len(data), len(data)) + data)
P

figure() { # NAME: of the dispatcher
	"$PACKRACK" status --json | jq "[.dispatcher.$1 // 0] | add"
}
up() { # OPTION...
	"$RACK" down > /dev/null
	"$RACK" up --in-mtu 3000 --record "$LAB_DIR/tcpdump.pcap" "$@" > "$LAB_DIR/up" 2>&1 || { cat "$LAB_DIR/up"; "$RACK" logs | tail -n 20; return 1; }
}
play() { # FILE PPS
	"$RACK" play "$1" --pps="$2" --quiet > "$LAB_DIR/play" 2>&1 || { cat "$LAB_DIR/play"; return 1; }
}
as_the_model() { # CLASS...: leaves report.json
	"$RACK" drain --stored --timeout 120 > "$LAB_DIR/drain" 2>&1 || { "$RACK" logs | tail -n 30; return 1; }
	"$PACKRACK" query --json -w "$LAB_DIR/answer.pcapng" > "$LAB_DIR/report.json" 2> "$LAB_DIR/said" || { cat "$LAB_DIR/said"; return 1; }
	"$CHECK" answer "$LAB_DIR/answer.pcapng" "$LAB_DIR/report.json" "$LAB_DIR/tcpdump.pcap" -- "$@"
}
most_shunted() { # PERCENT of what is beyond
	local shunted beyond
	shunted=$(figure 'links[0].shunted_packets') beyond=$(figure 'links[0].beyond_cutoff_packets')
	echo "$shunted of $beyond beyond, of $(figure 'links[0].captured_packets')"
	((shunted * 100 >= beyond * $1 && shunted > 1000))
}

mix() {
	up -n 3 -- --shunt "${CLASSES[@]}" || return 1
	"$RACK" logs dispatcher | grep 'shunting: native' || return 1
	play "$LAB_DIR/mix.pcap" 20000 && play "$LAB_DIR/mix.pcap" 5000 && as_the_model "${MODEL[@]}" && most_shunted 50
}
run_step "a capture, twice: what is kept and beyond is as by the model" mix
long() {
	up -n 2 --spread flow -- --shunt "${CLASSES[@]}" && play "$LAB_DIR/long.pcap" 10000 && as_the_model "${MODEL[@]}" && most_shunted 60
}
run_step "long connections over seconds" long

# ---- while it changes ----

export RULES=$LAB_DIR/rules
: > "$RULES"
steer() { # VERB WORDS...: the model gets to know when
	"$PACKRACK" class "$@" && printf '%s %s\n' "$(date +%s%N)" "$*" | sed 's/ --.*//' >> "$RULES"
}
one=(tcp 10.0.0.4 1004 10.0.0.96 80)
suspends() {
	up -n 2 -- --shunt "${CLASSES[@]}" && play "$LAB_DIR/long.pcap" 20000 && poll_until 5 shunts &&
		steer suspend "${one[@]}" --for 5m && play "$LAB_DIR/long.pcap" 20000 && steer resume "${one[@]}" &&
		play "$LAB_DIR/long.pcap" 20000 && as_the_model "${MODEL[@]}" && most_shunted 50
}
shunts() {
	(($(figure shunted_connections) > 0))
}
run_step "a cutoff that is suspended ends it at once" suspends
unset RULES

# ---- what the ledger says while it goes on, and what is left ----

follows() { # each second's sums are there soon, and nothing is partial
	up -n 2 -- --shunt "${CLASSES[@]}" && play "$LAB_DIR/long.pcap" 20000 || return 1
	"$PACKRACK" query --json --until now > "$LAB_DIR/report.json" 2> "$LAB_DIR/said" || { cat "$LAB_DIR/said"; return 1; }
	local kept beyond seen
	"$RACK" drain --stored --timeout 120 > "$LAB_DIR/drain" 2>&1
	kept=$("$PACKRACK" query --count 2> /dev/null)
	beyond=$("$PACKRACK" query --json 2> /dev/null | jq '[.completeness.beyond[].packets] | add')
	seen=$(tcpdump -r "$LAB_DIR/tcpdump.pcap" --count 2> /dev/null | awk '{ print $1 + 0 }')
	echo "$kept kept, $beyond beyond, $seen seen"
	((kept + beyond == seen && beyond > 1000))
}
run_step "asked meanwhile" follows
attached() { "$RACK" exec disp ip link show tap0 | grep -q xdp; }
killed() {
	up -n 1 -- --shunt "${CLASSES[@]}" && attached && "$RACK" kill dispatcher || return 1
	poll_until 5 eval '! attached' || { echo "the program is still there"; return 1; }
}
run_step "killed by SIGKILL, the dispatcher leaves no program" killed
refused() { # TEXT ARG...
	local text=$1 rc=0
	shift
	"$RACK" exec disp timeout 10 "$BUILD/packrack-dispatcher" --in tap0 --out out0 --listen "ipc://$LAB_DIR/other.sock" --shunt "$@" > "$LAB_DIR/err" 2>&1 || rc=$?
	cat "$LAB_DIR/err"
	((rc == 2)) && grep -qF -- "--shunt: $text" "$LAB_DIR/err" && [ "$(wc -l < "$LAB_DIR/err")" = 1 ]
}
run_step "without a class it is refused by one line" refused "it needs a --class"
run_step "with a filter" refused "not with --filter" --filter tcp "${CLASSES[@]}"
run_step "by the XDP path" refused "it needs --path packet" --path auto "${CLASSES[@]}"
"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
