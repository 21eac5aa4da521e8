#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Loss is located: with a switch that loses, doubles, reorders and damages frames of all kinds, each
# packet is in the trace with its own stamp or on the list of the missing, and the list is as long
# as what the switch says it did.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger \
	tests/system/faulty_switch
new_lab
COUNT=${LOSS_PACKETS:-20000}
trace=$LAB_DIR/numbered.pcap
tests/system/numbered.py make "$trace" "$COUNT" 7

switch_says() {
	rm -f "$LAB_DIR/switch.json"
	kill -USR1 "$(cut -d ' ' -f 1 "$LAB_DIR/pids/switch")"
	poll_until 5 test -s "$LAB_DIR/switch.json"
}

# The answer's own report against the switch's counts: what it lost and what it damaged is missing,
# neither more nor less. A damaged copy of a doubled frame counts once.
sums_agree() {
	python3 - "$LAB_DIR" "$COUNT" "${PACKRACK_PATH:-packet}" << 'P'
import json, sys
directory, count, xdp = sys.argv[1], int(sys.argv[2]), sys.argv[3] != "packet"
report = json.load(open(directory + "/report.json"))
report = report.get("completeness", report)
ports = json.load(open(directory + "/switch.json"))["ports"]
data = [p["to"]["data"] for name, p in ports.items() if name != "p0" and "data" in p["to"]]
lost = sum(d["lost"] + d["corrupted"] for d in data)
sent = sum(d["in"] for d in data)
# The second copy of a doubled frame stands in for a lost one that is the same to the byte, and may
# be the one that is damaged: so much less, and no more, may be missing.
spare = sum(d["duplicated"] for d in data)
if xdp:
    # It tries with a frame of its own whether the rack interface takes any, which the switch gives to every port. Padded
    # frames do not fit the fingerprints (proto/wire/fingerprint.h): they are missing.
    spare += sent - count
    lost += sum(d["padded"] for d in data)
trouble = [n for n, p in ports.items() if p["kernel_drops"] or p["send_errors"]]
print("switch: %d data frames in, %d lost or damaged, own trouble at %s; rack: %d missing, %d pending" % (
    sent, lost, trouble, report["missing_packets"], report.get("pending_packets", 0)))
# Each packet is missing at the node to which it was lost: none is blamed for more than the switch took from it.
blamed = {}
for m in report["missing"] + report.get("missing_classes", []):
    if m["reason"] == "switch":
        blamed[m["node"]] = blamed.get(m["node"], 0) + m["count"]
for name, p in ports.items():
    data = p["to"].get("data", {"lost": 0, "corrupted": 0, "padded": 0})
    if name != "p0" and blamed.get("log" + name[1:], 0) > data["lost"] + data["corrupted"] + (data["padded"] if xdp else 0):
        trouble.append("%s, of which %d are missing and %d were lost" % (name, blamed["log" + name[1:]], data["lost"] + data["corrupted"]))
if trouble:
    print(trouble)
sys.exit(not lost - spare <= report["missing_packets"] <= lost or bool(trouble))
P
}

lossy() { # LOGGERS SWITCH-OPTIONS
	local rc=0
	"$RACK" down > /dev/null
	recorded "$trace" -n "$1" --faulty "$2" || return 1
	"$BUILD/packrack" export --json -w "$LAB_DIR/out.pcapng" > "$LAB_DIR/report.json" \
		2> "$LAB_DIR/report.txt" || rc=$?
	cat "$LAB_DIR/report.txt"
	switch_says || return 1
	sums_agree || return 1
	# the times of XDP are its own: whose stamp a packet has, their order tells
	[ -n "${PACKRACK_TIMES-}" ] || tests/system/numbered.py check "$trace" "$LAB_DIR/out.pcapng" || return 1
	"$COMPARE" --allow-missing "$LAB_DIR/report.json" "$trace" "$LAB_DIR/out.pcapng" || return 1
	if grep -q '"missing_packets": *0\b' "$LAB_DIR/report.json"; then
		((rc == 0))
	else
		((rc == 3))
	fi || { echo "export: status $rc"; return 1; }
}

run_step "nothing lost" lossy 3 "--seed 1"
run_step "1 % of data" lossy 3 "--seed 2 --rule data:loss=1"
run_step "10 % of data" lossy 3 "--seed 3 --rule data:loss=10"
run_step "bursts of 500" lossy 2 "--seed 4 --rule data:burst=500/3000"
run_step "1 % of everything" lossy 3 "--seed 5 --rule any:loss=1"
run_step "10 % of everything" lossy 3 "--seed 6 --rule any:loss=10"
run_step "logs and marks, 10 %" lossy 3 "--seed 7 --rule TSLOG:loss=10 --rule MARK:loss=10"
run_step "the last log, lost once" lossy 2 "--seed 8 --rule TSLOG:drop-last-before=STOP"
run_step "STOP, lost once" lossy 2 "--seed 9 --rule STOP:drop-nth=1"
run_step "ANN_ACK, lost once" lossy 2 "--seed 10 --rule ANN_ACK:drop-nth=1"
run_step "reordered within 64" lossy 3 "--seed 11 --rule any:reorder=5/64"
run_step "doubled" lossy 3 "--seed 12 --rule any:dup=2"
run_step "damaged" lossy 3 "--seed 13 --rule any:corrupt=1"
run_step "padded" lossy 3 "--seed 14 --rule data:pad=5/12"
run_step "delayed" lossy 3 "--seed 15 --rule TSLOG:delay=20/300"
run_step "all of it" lossy 4 "--seed 16 --rule any:loss=1,reorder=2/64,dup=1,corrupt=0.5 --rule data:burst=200/5000"

# ---- a node is lost for good ----

a_third_lost() {
	local all=100000
	trace=$LAB_DIR/long.pcap
	tests/system/numbered.py make "$trace" "$all" 8 && "$RACK" down > /dev/null && recorded "$trace" -n 3 &&
		"$RACK" kill idx2 && "$RACK" kill log2 || return 1
	says 3 "  missing: 33" "$BUILD/packrack" export --json -w "$LAB_DIR/out.pcapng" || return 1
	cp "$LAB_DIR/out" "$LAB_DIR/report.json"
	jq -c '.completeness | [.missing_packets, .missing_ranges, (.missing | length), .missing[0]]' "$LAB_DIR/report.json"
}
run_step "one node of three is lost" a_third_lost
named_exactly() {
	"$COMPARE" --allow-missing "$LAB_DIR/report.json" "$trace" "$LAB_DIR/out.pcapng" &&
		jq -e '.completeness | (.missing | length) < 100 and .missing_classes == [] and
			([.missing[].count] | add) == .missing_packets and ([.missing[].ranges] | add) == .missing_ranges' \
			"$LAB_DIR/report.json"
}
run_step "each third packet is named, in a few entries" named_exactly
"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
