#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Degrees of ageing: a class is kept whole for a time, then within its cutoff, then as headers. Each packet is in an answer
# once, as the longest copy that is still there.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpdump tcpreplay jq
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
new_lab
export PACKRACK=$BUILD/packrack
CHECK=tests/system/cutoff_check.py
FULL=$DATA/mix-gateway-full-a.pcap
PACKETS=$(tcpdump -r "$FULL" --count 2> /dev/null | awk '{ print $1 + 0 }')
BYTES=$("$PYTHON" -c 'import sys; sys.path.insert(0, "tests/system"); import traces
print(sum(p.length for p in traces.Trace(sys.argv[1])))' "$FULL")

up() { # CLASS: it is recorded, and all is stored
	"$RACK" down > /dev/null
	"$RACK" up -n "${NODES-1}" --size 32M --in-mtu 65527 --out-mtu 65535 -- --class "$1" --read "$FULL" "${MORE[@]}" &&
		"$RACK" drain --stored --timeout 120
}
MORE=()
answer() { # OPTION...: leaves answer.pcapng, report.json and said
	"$PACKRACK" query --json -w "$LAB_DIR/answer.pcapng" "$@" > "$LAB_DIR/report.json" 2> "$LAB_DIR/said"
}
of_report() { # JQ
	answer --allow expired && jq -e "$1" "$LAB_DIR/report.json" > /dev/null
}
as_the_model() { # LONGEST SHORTEST CLASS
	answer --allow expired || { cat "$LAB_DIR/said"; return 1; }
	"$CHECK" degrees "$LAB_DIR/answer.pcapng" "$LAB_DIR/report.json" "$1" "$2" "$FULL" -- "$3"
}
counts() { # no packet is counted twice, whatever is asked
	local all
	"$PACKRACK" query --count --json | jq -e --argjson n "$PACKETS" '.matched == $n' || return 1
	for all in host 'host --exact' proto; do
		# shellcheck disable=SC2086 # words
		"$PACKRACK" top $all --json | jq -e --argjson n "$PACKETS" --argjson b "$BYTES" '.packets == $n and .bytes == $b' || return 1
	done
	"$PACKRACK" rate --json | jq -e --argjson n "$PACKETS" --argjson b "$BYTES" '.packets == $n and .bytes == $b and (.series | map(.packets) | add) == $n'
}

ALL='bulk; cutoff=4K; degrees=full 36000d, headers 36500d'
run_step "a class of two degrees" up "$ALL"
run_step "as long as all is whole, answers are" of_report '.completeness.complete and (.from_headers // 0) == 0'
whole() {
	"$PACKRACK" query -w "$LAB_DIR/answer.pcap" && cmp <(tcpdump -ttnnr "$LAB_DIR/answer.pcap" -xx 2> /dev/null) <(tcpdump -ttnnr "$FULL" -xx 2> /dev/null)
}
run_step "packet by packet" whole
run_step "counts are those of the link" counts
listed() {
	"$PACKRACK" data list --json | jq -e '[.nodes[].streams[].class] | index("bulk") and index("bulk.headers")'
}
run_step "data list shows the degrees" poll_until 10 listed
measured() { # retention and bytes by class, at the merger; and what the memory has
	local oldest
	"$RACK" exec disp tests/system/metrics.py get http://127.0.0.1:9474/metrics > "$LAB_DIR/prom" || return 1
	oldest=$(sed -n 's/^packrack_merger_node_stream_oldest_packet_timestamp_seconds{node="log1",link="mix-gateway-full-a.pcap",class="bulk.headers"} //p' "$LAB_DIR/prom")
	"$PYTHON" -c 'import sys; sys.path.insert(0, "tests/system"); import traces
assert abs(min(p.time for p in traces.Trace(sys.argv[1])) / 1e9 - float(sys.argv[2])) < 1e-3' "$FULL" "$oldest" &&
		grep -q '^packrack_merger_node_stream_bytes{node="log1",link="mix-gateway-full-a.pcap",class="bulk"} [1-9]' "$LAB_DIR/prom" &&
		grep -q '^packrack_merger_node_memory_timestamp_seconds{node="log1"} 1' "$LAB_DIR/prom"
}
run_step "each degree's retention is a metric" measured

HEADERS='bulk; cutoff=4K; degrees=full 1s, headers 36500d'
run_step "whole packets are kept for a second, headers for long" up "$HEADERS"
run_step "answers go on with the headers" poll_until 30 of_report '.from_headers > 0 and .completeness.complete'
run_step "as the model" as_the_model full headers "$HEADERS"
run_step "that is said" says 0 'degree headers: ' "$PACKRACK" query --count
run_step "counts are those of the link still" counts
run_step "a filter that headers decide is complete" says 0 'complete: ' "$PACKRACK" query --count 'tcp[13] & 2 != 0 or udp port 53'
run_step "one that tests what is gone is not" says 3 'undecided: ' "$PACKRACK" query --count 'udp[8] == 3 or tcp[32:4] == 0x47455420'
run_step "unless that may be" says 0 'undecided: ' "$PACKRACK" query --count --allow undecided 'udp[8] == 3'

NODES=3 MORE=(--copies 2)
THREE='bulk; cutoff=4K; degrees=full 1s, cut 36000d, headers 36500d 20%'
run_step "three degrees, on three nodes" up "$THREE"
run_step "within the cutoff all is whole" poll_until 30 of_report '.from_headers > 0 and .from_cut > 0'
run_step "as the model" as_the_model full headers "$THREE"
run_step "counts are those of the link" counts
NODES=1 MORE=()
CUT='bulk; cutoff=4K; degrees=cut 1s, headers 36500d'
run_step "without a full degree, the dispatcher cuts" up "$CUT"
run_step "what is beyond is told as ever" of_report '.completeness.beyond | length == 1'
run_step "what was kept is there as headers" poll_until 30 of_report '.from_headers > 0'
run_step "as the model" as_the_model cut headers "$CUT"

class_of() { # TEXT CLASS: refused with TEXT, and one line
	says 2 "$1" "$RACK" exec disp "$BUILD/packrack-dispatcher" --config /dev/null --read "$FULL" --out out0 \
		--listen "ipc://$LAB_DIR/other.sock" --key-dir none --wait-time 1s --class "$2" && (($(cat "$LAB_DIR/out" "$LAB_DIR/err" | wc -l) == 1))
}
run_step "an unknown degree" class_of "class bulk: degrees: each is 'full', 'cut' or 'headers', a duration" 'bulk; degrees=most 3d'
run_step "a degree without a time" class_of "class bulk: degrees: each is 'full'" 'bulk; degrees=full'
run_step "a shorter degree that goes earlier" class_of "class bulk: degrees: headers '1d' is not a duration longer than" 'bulk; degrees=full 3d, headers 1d'
run_step "headers first" class_of "class bulk: degrees: 'headers' is out of order" 'bulk; degrees=headers 3d'
run_step "full last" class_of "class bulk: degrees: 'full' is out of order" 'bulk; degrees=cut 3d, full 4d'
run_step "none" class_of "class bulk: degrees: the list is empty" 'bulk; degrees='
run_step "degrees and keep" class_of "class bulk: degrees: they have \`keep\`" 'bulk; degrees=full 3d; keep=3d'
run_step "a name of copies" class_of "are those of copies" 'bulk.cut; keep=3d'
"$RACK" down > /dev/null
done_testing
