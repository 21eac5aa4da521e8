#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A trace file through the rack comes back the same: packets, bytes, both MACs, lengths, times, order.
# By the XDP path, which reads no files, what it takes of a batch is played onto a link, frame by frame as captured.
# Every Ethernet capture of PACKRACK_DATA, several as links of one run. By default each batch takes
# its turn of the combinations of loggers and spread; EXACT=full runs all combinations of all.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
PER_RUN=${EXACT_PER_RUN:-14}
# A frame on the rack interface holds 65,535 bytes behind its Ethernet header: longer captures are truncated to that,
# and the answer is partial for it.
LONGEST=65549
new_lab

exactly() { # LOGGERS SPREAD FILE...
	local loggers=$1 spread=$2 reads=() rc=0 file
	shift 2
	"$RACK" down > /dev/null
	rm -f "$LAB_DIR/out.pcapng"
	if [ "${PACKRACK_PATH:-packet}" != packet ]; then
		python3 -c '
import sys
sys.path.insert(0, "tests/system")
import traces
traces.write_pcap(sys.argv[1], [(n, p.data, len(p.data)) for n, p in enumerate(
    p for path in sys.argv[2:] for p in traces.Trace(path) if 14 <= len(p.data) <= 3512)])' "$LAB_DIR/batch.pcap" "$@"
		recorded "$LAB_DIR/batch.pcap" -n "$loggers" --size 128M --spread "$spread" --in-mtu 3498 || return 1
		"$BUILD/packrack" export -w "$LAB_DIR/out.pcapng" || { echo "export: status $?"; return 1; }
		"$COMPARE" "$LAB_DIR/batch.pcap" "$LAB_DIR/out.pcapng"
		return
	fi
	for file in "$@"; do
		reads+=(--read "$file")
	done
	"$RACK" up -n "$loggers" --size 128M --spread "$spread" \
		-- "${reads[@]}" || return 1
	"$RACK" drain --stored --timeout 120 || { "$RACK" logs | tail -n 30; return 1; }
	"$BUILD/packrack" export --allow truncated -w "$LAB_DIR/out.pcapng" || rc=$?
	((rc == 0)) || { echo "export: status $rc"; return 1; }
	"$COMPARE" --order otime --snaplen "$LONGEST" "$@" "$LAB_DIR/out.pcapng"
}

combos=()
for loggers in 1 3 5; do
	for spread in round-robin weighted flow; do
		combos+=("$loggers $spread")
	done
done

mapfile -t files < <(tests/system/captures.py "$DATA" | cut -d ' ' -f 3-)
((${#files[@]})) || skip_all "no Ethernet captures in $DATA"
turn=0
for ((i = 0; i < ${#files[@]}; i += PER_RUN)); do
	batch=("${files[@]:i:PER_RUN}")
	for ((c = 0; c < ${#combos[@]}; c++)); do
		[ "${EXACT-}" = full ] || ((c == turn % ${#combos[@]})) || continue
		read -r loggers spread <<< "${combos[c]}"
		run_step "captures $i to $((i + ${#batch[@]} - 1)), $loggers loggers, $spread" \
			exactly "$loggers" "$spread" "${batch[@]}"
	done
	turn=$((turn + 1))
done

"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
