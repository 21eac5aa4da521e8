#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A trace file through the rack comes back the same: packets, bytes, both MACs, lengths, times, order.
# Every Ethernet capture of PACKRACK_DATA, several as links of one run. By default each batch takes
# its turn of the combinations of loggers, spread, copies and how the dispatcher sends; EXACT=full runs
# all combinations of all.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
PER_RUN=${EXACT_PER_RUN:-8}
# An o-port frame holds 65,535 bytes behind its Ethernet header: longer captures are cut to that.
LONGEST=65549
# The widest o-port whose frames, with a VLAN tag, fit the pages that AF_XDP sends, and the longest
# capture that goes through it whole.
PAGE_MTU=4078
PAGE_LONGEST=$((PAGE_MTU + 14))
new_lab

# What the dispatcher says, unless it had to do without AF_XDP.
sent_by() { # PATH
	local got
	got=$("$BUILD/packrack" status --json | python3 -c '
import json, sys
print(json.load(sys.stdin)["dispatcher"]["send_path"])') || return 1
	[ "$got" = "$1" ] || grep -q "; a packet socket sends" "$LAB_DIR/logs/dispatcher.log" ||
		{ echo "frames left by $got, not $1"; return 1; }
}

exactly() { # LOGGERS SPREAD COPIES PATH FILE...
	local loggers=$1 spread=$2 copies=$3 path=$4 mtu=65535 reads=() rc=0 file
	shift 4
	[ "$path" = packet_socket ] || mtu=$PAGE_MTU
	for file in "$@"; do
		reads+=(--read "$file")
	done
	"$RACK" down > /dev/null
	rm -f "$LAB_DIR/out.pcapng"
	"$RACK" up -n "$loggers" --size 128M --in-mtu $((mtu - 8)) --out-mtu "$mtu" --spread "$spread" \
		--copies "$copies" -- "${reads[@]}" || return 1
	sent_by "$path" || return 1
	"$RACK" drain --timeout 60 || { "$RACK" logs | tail -n 30; return 1; }
	"$BUILD/packrack" export -w "$LAB_DIR/out.pcapng" || rc=$?
	((rc == 0)) || { echo "export: status $rc"; return 1; }
	"$COMPARE" --order otime --snaplen "$LONGEST" "$@" "$LAB_DIR/out.pcapng"
}

combos=()
for loggers in 1 3 5; do
	for spread in round-robin weighted flow; do
		combos+=("$loggers $spread 1")
		((loggers == 1)) || combos+=("$loggers $spread 2")
	done
done

run_batch() { # FIRST TURN PATHS FILE...
	local first=$1 turn=$2 paths=$3 c path loggers spread copies
	shift 3
	for path in $paths; do
		for ((c = 0; c < ${#combos[@]}; c++)); do
			[ "${EXACT-}" = full ] || ((c == turn * 4 % ${#combos[@]})) || continue
			read -r loggers spread copies <<< "${combos[c]}"
			run_step "captures $first to $((first + $# - 1)), $loggers loggers, $spread, copies: $copies, $path" \
				exactly "$loggers" "$spread" "$copies" "$path" "$@"
		done
	done
}

mapfile -t listed < <(tests/system/captures.py "$DATA")
((${#listed[@]})) || skip_all "no Ethernet captures in $DATA"
short=()
long=()
for line in "${listed[@]}"; do
	read -r _ largest file <<< "$line"
	if ((largest > PAGE_LONGEST)); then long+=("$file"); else short+=("$file"); fi
done
turn=0
for ((i = 0; i < ${#short[@]}; i += PER_RUN)); do
	paths="af_xdp packet_socket"
	[ "${EXACT-}" = full ] || { ((turn % 2)) && paths=packet_socket || paths=af_xdp; }
	run_batch "$i" "$turn" "$paths" "${short[@]:i:PER_RUN}"
	turn=$((turn + 1))
done
for ((i = 0; i < ${#long[@]}; i += PER_RUN)); do
	run_batch "$((${#short[@]} + i))" "$turn" packet_socket "${long[@]:i:PER_RUN}"
	turn=$((turn + 1))
done

"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
