#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The faulty switch does what its rules say, says what it did, and does it again by the same seed.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpdump tcpreplay python3
need_programs tests/system/faulty_switch
new_lab

# 4,000 numbered data frames to each of two nodes, a log after each hundred, then STOP.
frames() { # FILE
	python3 - "$1" << 'P'
import sys
sys.path.insert(0, "tests/system")
import traces
disp, nodes = bytes.fromhex("02aaaaaa0000"), [bytes.fromhex("02aaaaaa000%d" % n) for n in (1, 2)]
packets = []
def add(dst, rest):
    packets.append((10 ** 9 + len(packets) * 20000, dst + disp + rest, 12 + len(rest)))
def control(dst, kind, number):
    add(dst, b"\x88\xb5\1" + bytes([kind]) + number.to_bytes(4, "big") + bytes(60))
for i in range(4000):
    for dst in nodes:
        tag = b"\x81\0\0\7" if i % 3 == 0 else b""
        add(dst, tag + b"\x08\0" + i.to_bytes(4, "big") + b"x" * (60 + i % 900))
        if i % 100 == 99:
            control(dst, 4, i)
for dst in nodes:
    control(dst, 8, 0)
traces.write_pcap(sys.argv[1], packets)
for n, mac in enumerate(nodes, 1):
    traces.write_pcap("%s.ann%d" % (sys.argv[1], n), [(0, b"\xff" * 6 + mac + b"\x88\xb5\1\1" + bytes(60), 76)])
P
}

listen_on() { # NODE: its pid is in PIDS
	rm -f "$LAB_DIR/$1.tcpdump" # of the one before, which listened
	"$RACK" exec "$1" tcpdump -i eth0 -Q in -Z root -U -B 16384 -w "$LAB_DIR/$1.pcap" \
		> "$LAB_DIR/$1.tcpdump" 2>&1 &
	PIDS+=($!)
	poll_until 10 grep -qs listening "$LAB_DIR/$1.tcpdump"
}

# All frames have passed the switch, none waits in it, and what it passed on is in the listeners' files.
arrived() {
	kill -USR1 "$(cut -d ' ' -f 1 "$LAB_DIR/pids/switch")"
	python3 - "$LAB_DIR" << 'P'
import json, struct, sys
def packets(path):
    data, at, count = open(path, "rb").read(), 24, 0
    while at + 16 <= len(data):
        at += 16 + struct.unpack_from("<I", data, at + 8)[0]
        count += at <= len(data)
    return count
ports = json.load(open(sys.argv[1] + "/switch.json"))["ports"]
for n in "12":
    to = ports["p" + n]["to"]
    if to["STOP"]["in"] == 0 or any(c["sent"] != c["in"] - c["lost"] + c["duplicated"] for c in to.values()):
        sys.exit("the switch is at work")
    if packets("%s/log%s.pcap" % (sys.argv[1], n)) != sum(c["sent"] for c in to.values()):
        sys.exit("the listener is at work")
P
}

# Runs the frames through a switch with OPTIONS; leaves log1.pcap, log2.pcap, switch.json.
through() { # OPTIONS
	local n
	PIDS=()
	"$RACK" down > /dev/null 2>&1
	rm -f "$LAB_DIR"/*.json "$LAB_DIR"/log*.pcap
	"$RACK" up --bare -n 2 --faulty "$1" > /dev/null || return 1
	listen_on log1
	listen_on log2
	for n in 1 2; do
		"$RACK" exec "log$n" tcpreplay -q -i eth0 "$LAB_DIR/frames.ann$n" > /dev/null 2>&1
	done
	"$RACK" exec disp tcpreplay -q -i out0 --pps 20000 "$LAB_DIR/frames" > "$LAB_DIR/replay" 2>&1
	poll_until 20 arrived || arrived
	kill "${PIDS[@]}"
	wait "${PIDS[@]}"
}

# Checks what came against what the switch says, and both against EXPRESSION over s (its counts
# for p1), n (numbers of the data frames at log1 in order of arrival), logs (numbers of its logs),
# wrong (frames at log1 that nobody sent so).
holds() { # EXPRESSION
	python3 - "$LAB_DIR" "$1" << 'P'
import json, sys
sys.path.insert(0, "tests/system")
import traces
directory, expression = sys.argv[1:]
ports = json.load(open(directory + "/switch.json"))["ports"]
sent = {p.data for p in traces.Trace(directory + "/frames")}
s = ports["p1"]["to"]
have = [p.data for p in traces.Trace(directory + "/log1.pcap")]
have = [d for d in have if d[:6] != b"\xff" * 6]
wrong = [d for d in have if d not in sent]
good = [d for d in have if d in sent]
data = [d for d in good if d[12:14] != b"\x88\xb5"]
n = [int.from_bytes(d[18:22] if d[12:14] == b"\x81\0" else d[14:18], "big") for d in data]
logs = [int.from_bytes(d[16:20], "big") for d in good if d[12:16] == b"\x88\xb5\1\4"]
none = {"in": 0, "sent": 0, "lost": 0, "duplicated": 0, "reordered": 0, "delayed": 0, "corrupted": 0, "padded": 0}
data, log, stop = (dict(none, **s.get(c, {})) for c in ("data", "TSLOG", "STOP"))
clean = not any(p["kernel_drops"] or p["send_errors"] for p in ports.values())
if not (clean and eval("(%s)" % expression)):
    sys.exit("%s\nclean %s, %d data frames, %d wrong, logs %s\n%s" % (
        expression, clean, len(n), len(wrong), logs, json.dumps(ports)))
P
}

frames "$LAB_DIR/frames"
whole='n == list(range(4000)) and not wrong and len(logs) == 40'

run_step "without rules" through "--seed 1"
run_step "all passes, tags and all, in order" holds "$whole and data['sent'] == data['in'] == 4000"
run_step "data loss" through "--seed 7 --rule data:loss=10"
run_step "loses a tenth and counts it" holds \
	"300 < data['lost'] < 500 and len(n) == 4000 - data['lost'] and n == sorted(n) and len(logs) == 40"
cp "$LAB_DIR/log1.pcap" "$LAB_DIR/first.pcap"
run_step "again" through "--seed 7 --rule data:loss=10"
run_step "the same seed loses the same" "$COMPARE" --times ignore "$LAB_DIR/first.pcap" "$LAB_DIR/log1.pcap"
run_step "bursts to one node" through "--rule data@p0>p1:burst=500/2000"
run_step "lose 500 of 2000" holds "data['lost'] == 1000 and n == list(range(1500)) + list(range(2000, 3500))"
run_step "reorder, duplicate" through "--rule data:reorder=5/64,dup=2"
run_step "loses nothing" holds "len(n) == 4000 + data['duplicated'] and set(n) == set(range(4000)) and
	data['reordered'] > 100 and n != sorted(n) and all(abs(a - b) <= 64 + 64 for a, b in zip(sorted(n), n))"
run_step "corrupt, pad" through "--rule data:corrupt=2 --rule data:pad=2/8 --rule TSLOG:delay=50/20"
run_step "as counted" holds "len(wrong) >= data['corrupted'] > 30 and data['padded'] > 30 and
	len(wrong) + len(n) == 4000 and log['delayed'] > 5 and len(logs) == 40"
run_step "the third log and STOP" through "--rule TSLOG:drop-nth=3 --rule STOP:drop-nth=1"
run_step "are lost" holds "n == list(range(4000)) and 299 not in logs and len(logs) == 39 and stop['lost'] == 1"
run_step "the last log before STOP" through "--rule TSLOG:drop-last-before=STOP"
run_step "is lost, and nothing reordered" holds \
	"n == list(range(4000)) and logs == list(range(99, 3900, 100)) and log['lost'] == 1 and stop['sent'] == 1"
"$RACK" down > /dev/null
refute_step "a rule that is none is refused" 2 "$BUILD/tests/system/faulty_switch" --rule data:eat=1 lo lo
refute_step "an interface that is not there" 1 "$BUILD/tests/system/faulty_switch" nope0 nope1
done_testing
