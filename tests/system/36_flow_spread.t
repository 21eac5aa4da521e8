#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Twenty loggers behind a dispatcher that spreads by flow: a query for a flow asks one or two of them, and
# its answer is tcpdump's, of all time as of one that cuts summaries; also while an indexer says nothing,
# and when the merger was killed.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpdump jq
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
new_lab
PACKRACK_KEY=none
NODES=20
. tests/system/parts.sh
# Loggers are still there: what is not older than some seconds may still come, and all are asked for it.
ENDED=(--until @1709700000)

settled() { # summaries tell of all that there is, and are here
	[ "$(asked merger "${ENDED[@]}" 'host 203.0.113.99')" = 0 ]
}

begin() {
	"$RACK" up -n "$NODES" --no-keys --size 16M --spread flow -- --read "$MIX" || return 1
	"$RACK" drain --timeout 120 || { "$RACK" logs | tail -n 20; return 1; }
	[ "$("$PACKRACK" status --json | jq '[.nodes[] | select(.segments_unsummarized == 0)] | length')" = \
		"$NODES" ] || { echo "drained, and not all indexed"; return 1; }
	poll_until 10 settled
}
run_step "twenty nodes store and index what is spread by flow" begin

mapfile -t FLOWS < <(tcpdump -nr "$MIX" 'ip and (tcp or udp) and ip[6:2] & 0x3fff = 0' 2> /dev/null |
	awk 'NR % 5003 == 11 { n = split($3, a, "."); sub(":", "", $5); m = split($5, b, ".")
		if (n == 5 && m == 5)
			printf "host %s.%s.%s.%s and host %s.%s.%s.%s and port %s and port %s\n",
				a[1], a[2], a[3], a[4], b[1], b[2], b[3], b[4], a[5], b[5] }')

few() { # LEAST OPTION...: of the nodes are asked for a flow
	local f n all=0
	((${#FLOWS[@]} >= 5)) || { echo "only ${#FLOWS[@]} flows"; return 1; }
	for f in "${FLOWS[@]}"; do
		n=$(asked merger "${@:2}" "$f")
		echo "$n nodes asked: $f"
		((n >= $1)) || return 1
		all=$((all + n))
	done
	((all <= 2 * ${#FLOWS[@]}))
}
same() { # SINCE UNTIL, or two times ""
	local f
	for f in "${FLOWS[@]}" 'udp port 53' 'net 10.10.10.0/24 and not tcp' arp; do
		same_as_tcpdump merger "$f" "$@" || return 1
	done
}
run_step "a query for a flow asks one or two of them" few 1 "${ENDED[@]}"
run_step "answers are tcpdump's" same '' ''
# Summaries speak of ten seconds and more.
run_step "so few are asked for a time that cuts summaries" few 0 --since @1709629233.25 --until @1709629391.5
run_step "and answers are tcpdump's" same 1709629233.25 1709629391.5

# It stands still: what it told is late, and so it is asked. It answers when it goes on.
late() {
	local answers
	"$RACK" kill -s STOP idx7 || return 1
	until ! timeout 0.5 "$PACKRACK" query --count "${ENDED[@]}" 'host 203.0.113.99' > /dev/null 2>&1; do
		((SECONDS < DEADLINE)) || return 1
	done
	same '' '' & answers=$!
	poll_until 5 is_asked
	"$RACK" kill -s CONT idx7 && wait "$answers" && poll_until 10 settled
}
is_asked() { # a query waits for a node
	"$PACKRACK" queries list --json | jq -e '.queries[] | select(.nodes_left > 0)'
}
DEADLINE=$((SECONDS + 120))
run_step "a node whose summaries are late is asked, and answers are tcpdump's" late

complete() { # every node is asked, as it is of what may still come, and answers
	"$PACKRACK" query --count 'host 203.0.113.99' > /dev/null 2>&1
}
rebuilt() { # from the first whole answer on
	local n=0
	"$RACK" kill merger && "$RACK" restart merger && poll_until 20 complete || return 1
	until settled; do
		same_as_tcpdump merger "${FLOWS[$((n++ % ${#FLOWS[@]}))]}" || return 1
		((SECONDS < DEADLINE)) || return 1
	done
	same '' '' && few 1 "${ENDED[@]}"
}
DEADLINE=$((SECONDS + 120))
run_step "so they are while a merger that was killed gets its summaries again" rebuilt

"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
