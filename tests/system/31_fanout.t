#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Twenty nodes: a query goes only to those that can match, and its answer is tcpdump's all the same,
# also while summaries are missing, and when a merger was killed.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_commands tcpdump jq
need_programs packrack packrack-indexer packrack-merger
need_data
new_lab
NODES=20
. tests/system/parts.sh

begin_merger() { # NAME
	begin_daemon "$1" "$BUILD/packrack-merger" --listen "ipc://$LAB_DIR/$1.sock"
}

begin_node() { # NUMBER
	begin_daemon "node$1" "$BUILD/packrack-indexer" --volume "$LAB_DIR/v$1" --name "node$1" \
		--merger "ipc://$LAB_DIR/merger.sock"
}

nodes_are() { # EXPRESSION on the nodes; jq -e takes no input at all for true
	local status
	status=$("$PACKRACK" status --json 2> /dev/null); [ -n "$status" ] &&
		jq -e ".nodes | length == $NODES and ($1)" <<< "$status"
}
all_here() { # every summary that there is has come
	nodes_are 'all(.connected and .summaries > 0 and .summaries == .summaries_here)'
}

begin() {
	local i
	make_parts || return 1
	begin_merger merger
	for ((i = 1; i <= NODES; i++)); do
		begin_node "$i"
	done
	poll_until 30 all_here || { "$PACKRACK" status; tail -n 3 "$LAB_DIR"/*.log; return 1; }
}
run_step "twenty nodes tell a merger of their summaries" begin

# Conversations of the trace itself, each of which lies on one node.
NEEDLES=()
while read -r needle; do
	NEEDLES+=("$needle")
done < <(tcpdump -nr "$MIX" 'ip and (tcp or udp) and ip[6:2] & 0x1fff = 0' 2> /dev/null |
	awk 'NR % 3989 == 7 { n = split($3, a, "."); sub(":", "", $5); m = split($5, b, ".")
		if (n == 5 && m == 5)
			printf "host %s.%s.%s.%s and host %s.%s.%s.%s and port %s and port %s\n",
				a[1], a[2], a[3], a[4], b[1], b[2], b[3], b[4], a[5], b[5] }')

needles() {
	local f n all=0
	((${#NEEDLES[@]} >= 5)) || { echo "only ${#NEEDLES[@]} of them"; return 1; }
	for f in "${NEEDLES[@]}"; do
		same_as_tcpdump merger "$f" || return 1
		n=$(asked merger "$f")
		echo "$n nodes asked: $f"
		((n >= 1)) || return 1
		all=$((all + n))
	done
	# one each, and what Bloom filters let through
	((all <= 2 * ${#NEEDLES[@]}))
}
run_step "a query whose data is on one of them asks one or two" needles

long() { # the needles, and 5,000 hosts that nobody has: more text than a message may have
	local f="(${NEEDLES[0]})" all=() i
	for ((i = 0; i < 20; i++)); do
		all+=(or "$(seq -f "host 198.19.$i.%g" -s ' or ' 1 250)")
	done
	says 0 "packets match" "$PACKRACK" query --count "$f" &&
		mv "$LAB_DIR/out" "$LAB_DIR/few" && says 0 "packets match" "$PACKRACK" query --count "$f" "${all[@]}" &&
		cmp "$LAB_DIR/few" "$LAB_DIR/out" && [ "$(cat "$LAB_DIR/out")" -gt 0 ]
}
run_step "a filter of 5,000 hosts" long

others() {
	local f
	for f in 'udp port 53' 'net 10.10.10.0/24 and not tcp' arp 'greater 1000' 'tcp[13] & 2 != 0' \
		'portrange 8000-8010 or port 22' 'not ip' 'ip[8] < 10'; do
		same_as_tcpdump merger "$f" || return 1
	done
}
run_step "answers are tcpdump's" others
run_step "who is not there is asked of nobody" test "$(asked merger 'host 203.0.113.99')" = 0
run_step "nor is a time that nobody has" test "$(asked merger --since @1000000000 --until @1000000100)" = 0
run_step "a node that is named is asked: data move looks there for what it has just stored" test "$(asked merger --node node1 'host 203.0.113.99')" = 1

explained() {
	"$PACKRACK" query --count --explain "${NEEDLES[0]}" > /dev/null 2> "$LAB_DIR/said"
	cat "$LAB_DIR/said"
	[ "$(grep -c 'not asked: .*exclude a match' "$LAB_DIR/said")" -ge 18 ] &&
		grep -q ' asked: its summaries may match; [1-9]' "$LAB_DIR/said"
}
run_step "--explain says who was asked, and why" explained

counted() {
	local v
	v=$("$PACKRACK" status --json | jq '.merger | .nodes_left_out > 100 and .nodes_asked > 20 and
		.summaries_here >= 20 and .summary_bytes_received > 10000') && [ "$v" = true ]
}
run_step "an answer that is broken off counts what it gave" broken_off "$PACKRACK" query
run_step "status counts questions and the summaries' traffic" counted

# From the first moment on: whoever is there is asked, as long as its summaries are not.
rebuilt() {
	local n=0
	kill -KILL "${PIDS[merger]}" && wait "${PIDS[merger]}" 2> /dev/null
	begin_merger merger
	until all_here; do
		if nodes_are true > /dev/null; then
			same_as_tcpdump merger "${NEEDLES[$((n++ % ${#NEEDLES[@]}))]}" || return 1
		fi
		((SECONDS < DEADLINE)) || return 1
	done > /dev/null
	same_as_tcpdump merger "${NEEDLES[0]}" && (($(asked merger "${NEEDLES[0]}") <= 2))
}
DEADLINE=$((SECONDS + 120))
run_step "a merger that was killed asks all until it has its summaries again" rebuilt

done_testing
