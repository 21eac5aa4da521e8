#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Three mergers share the duty for the summaries of six nodes: any of them can be asked, and when one is
# killed answers stay tcpdump's, while the others take its duty over.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_commands tcpdump jq
need_programs packrack packrack-indexer packrack-merger
need_data
new_lab
PACKRACK=$BUILD/packrack
MIX=$DATA/mix-gateway-full-a.pcap
NODES=6
MERGERS=(a b c)
declare -A PIDS

end_all() {
	local p
	for p in "${PIDS[@]}"; do
		kill -KILL "$p" 2> /dev/null
		wait "$p" 2> /dev/null
	done
	end_labs
}
trap end_all EXIT

begin_merger() { # NAME
	local other peers=()
	for other in "${MERGERS[@]}"; do
		[ "$other" = "$1" ] || peers+=(--peer "ipc://$LAB_DIR/$other.sock")
	done
	"$BUILD/packrack-merger" --listen "ipc://$LAB_DIR/$1.sock" --name "$1" "${peers[@]}" \
		2> "$LAB_DIR/$1.log" &
	PIDS[$1]=$!
}

begin_node() { # NUMBER
	local m mergers=()
	for m in "${MERGERS[@]}"; do
		mergers+=(--merger "ipc://$LAB_DIR/$m.sock")
	done
	"$BUILD/packrack-indexer" --volume "$LAB_DIR/v$1" --name "node$1" --cluster lab "${mergers[@]}" \
		2> "$LAB_DIR/node$1.log" &
	PIDS[node$1]=$!
}

figure() { # MERGER NAME
	"$PACKRACK" status -m "ipc://$LAB_DIR/$1.sock" --json 2> /dev/null | jq ".merger.$2 // 0"
}

# Each of these holds some of the summaries, and together all: that many mergers live.
shared() { # MERGER...
	local m all here sum=0
	for m in "$@"; do
		(("$(figure "$m" mergers_alive)" == $#)) || return 1
		all=$(figure "$m" summaries)
		here=$(figure "$m" summaries_here)
		((all > 0 && here > 0 && here < all)) || return 1
		sum=$((sum + here))
	done
	((sum >= all))
}

begin() {
	local i m imports=()
	python3 tests/system/split.py "$MIX" "$NODES" "$LAB_DIR/part" || return 1
	for m in "${MERGERS[@]}"; do
		begin_merger "$m"
	done
	for ((i = 1; i <= NODES; i++)); do
		"$PACKRACK" import "$LAB_DIR/part$i.pcap" --volume "$LAB_DIR/v$i" --create 16M \
			--name "link$i" > "$LAB_DIR/import$i" 2>&1 &
		imports+=($!)
	done
	wait "${imports[@]}"
	for ((i = 1; i <= NODES; i++)); do
		begin_node "$i"
	done
	poll_until 30 shared a b c || { tail -n 3 "$LAB_DIR"/*.log; return 1; }
}
run_step "three mergers share the duty for all summaries" begin
run_step "and look at a cluster's as one" test "$(figure a cluster_blocks)" -gt 0

same_as_tcpdump() { # MERGER FILTER
	local want got
	tcpdump -nr "$MIX" --time-stamp-precision nano -w "$LAB_DIR/want.pcap" "$2" 2> /dev/null
	"$PACKRACK" query -m "ipc://$LAB_DIR/$1.sock" -w "$LAB_DIR/got.pcap" "$2" 2> "$LAB_DIR/said" ||
		{ cat "$LAB_DIR/said"; return 1; }
	want=$(tcpdump -nr "$LAB_DIR/want.pcap" -tt -xx 2> /dev/null | sort | sha256sum)
	got=$(tcpdump -nr "$LAB_DIR/got.pcap" -tt -xx 2> /dev/null | sort | sha256sum)
	[ "$want" = "$got" ] || { echo "$1: $2: other packets"; return 1; }
}

NEEDLE='host 10.10.10.87 and port 57396'
all_same() { # MERGER...
	local m f
	for m in "$@"; do
		for f in "$NEEDLE" 'udp port 53' 'host 203.0.113.99' 'net 10.10.10.0/24 and not tcp'; do
			same_as_tcpdump "$m" "$f" || return 1
		done
	done
}
run_step "answers are tcpdump's, whichever is asked" all_same a b c

asked() { # MERGER FILTER
	"$PACKRACK" query -m "ipc://$LAB_DIR/$1.sock" --json --count "$2" 2> /dev/null |
		jq '[.completeness.nodes[] | select(.left_out | not)] | length'
}
few() { # MERGER...
	local m n
	for m in "$@"; do
		n=$(asked "$m" "$NEEDLE")
		[ "$n" = 1 ] || [ "$n" = 2 ] || { echo "$m asks $n nodes"; return 1; }
	done
}
run_step "each asks few nodes, by what the others say of their minutes" few a b c

killed() {
	kill -KILL "${PIDS[b]}" && wait "${PIDS[b]}" 2> /dev/null
	all_same a c
}
run_step "with one killed, answers are tcpdump's at once" killed

taken_over() {
	poll_until 30 shared a c || { figure a summaries_here; figure c summaries_here; return 1; }
	few a c && all_same c
}
run_step "its duty is taken over by those that live" taken_over

done_testing
