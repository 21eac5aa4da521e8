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
NODES=6
MERGERS=(a b c)
. tests/system/parts.sh

begin_merger() { # NAME
	local other peers=()
	for other in "${MERGERS[@]}"; do
		[ "$other" = "$1" ] || peers+=(--peer "ipc://$LAB_DIR/$other.sock")
	done
	begin_daemon "$1" "$BUILD/packrack-merger" --listen "ipc://$LAB_DIR/$1.sock" --name "$1" "${peers[@]}"
}

begin_node() { # NUMBER
	local m mergers=()
	for m in "${MERGERS[@]}"; do
		mergers+=(--merger "ipc://$LAB_DIR/$m.sock")
	done
	begin_daemon "node$1" "$BUILD/packrack-indexer" --volume "$LAB_DIR/v$1" --name "node$1" --cluster lab \
		"${mergers[@]}"
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

has_all() {
	local all
	all=$(figure "$1" summaries)
	((all > 0)) && [ "$(figure "$1" summaries_here)" = "$all" ] &&
		"$PACKRACK" status -m "ipc://$LAB_DIR/$1.sock" --json 2> /dev/null |
		jq -e ".nodes | length == $NODES and all(.summaries > 0 and .segments_unsummarized == 0)"
}

# The first meets the nodes alone: all is its duty, until the others are there.
begin() {
	local i
	begin_merger a
	make_parts || return 1
	for ((i = 1; i <= NODES; i++)); do
		begin_node "$i"
	done
	poll_until 20 has_all a || return 1
	begin_merger b
	begin_merger c
	poll_until 30 shared a b c || { tail -n 3 "$LAB_DIR"/*.log; return 1; }
}
run_step "three mergers share the duty for all summaries" begin
run_step "and look at a cluster's as one" test "$(figure a cluster_blocks)" -gt 0

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
