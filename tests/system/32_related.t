#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --related: fragments, errors that quote, encapsulated copies, wherever they were recorded; and no others.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_commands tcpdump python3 jq
need_programs packrack packrack-indexer packrack-merger
need_data
new_lab
PACKRACK=$BUILD/packrack
RELATED=$TOP/tests/system/related.py
FILTER='udp port 7777 or tcp port 7778'
PROGRAMS=()
cd "$LAB_DIR" || exit 1
trap 'kill "${PROGRAMS[@]}" 2> /dev/null; wait; end_labs' EXIT

made() {
	"$RELATED" make a.pcap b.pcap want.pcap > counts.txt || return 1
	"$PACKRACK" import a.pcap --name a --volume a.vol --create 64M &&
		"$PACKRACK" import b.pcap --name b --link 1 --volume b.vol --create 64M
}
run_step "packets of two links, on a volume each" made
read -r -a COUNTS < counts.txt
MATCH=${COUNTS[0]#*=}
ALL=$((MATCH + ${COUNTS[1]#*=} + ${COUNTS[2]#*=} + ${COUNTS[3]#*=}))

answered() { # OPTION...
	"$PACKRACK" query --related -w ours.pcapng "$@" "$FILTER" 2> said.txt || { cat said.txt; return 1; }
	cat said.txt
	"$COMPARE" want.pcap ours.pcapng || return 1
	grep -q "^complete: $MATCH packets match and $((ALL - MATCH)) are related, of" said.txt || return 1
	"$RELATED" comments ours.pcapng "$MATCH" "fragment=${COUNTS[1]#*=}" "quotes=${COUNTS[2]#*=}" "copy=${COUNTS[3]#*=}"
}
run_step "all that is related, in order, marked, and no more" answered --volume a.vol --volume b.vol
without() {
	"$PACKRACK" query -w plain.pcapng --volume a.vol --volume b.vol "$FILTER" 2> /dev/null || return 1
	"$RELATED" comments plain.pcapng "$MATCH"
}
run_step "without, what matches" without
others() {
	local n
	n=$("$PACKRACK" query --related --count --volume a.vol --volume b.vol "$FILTER" 2> /dev/null)
	((n == ALL)) || { echo "$n of $ALL"; return 1; }
	n=$("$PACKRACK" query --related --volume a.vol --volume b.vol "$FILTER" 2> /dev/null | grep -c '(related: ')
	((n == ALL - MATCH)) || { echo "$n lines"; return 1; }
	"$PACKRACK" query --related --json --volume a.vol --volume b.vol "$FILTER" 2> /dev/null |
		jq -e --argjson n $((ALL - MATCH)) '.related == $n'
}
run_step "counted, a line each, as data" others

start() {
	"$@" > "$LAB_DIR/${1##*/}.log.${#PROGRAMS[@]}" 2>&1 &
	PROGRAMS+=($!)
}
there() {
	"$PACKRACK" query --count | grep -qx "$(($(tcpdump -r a.pcap --count 2> /dev/null | awk '{ print $1 }') + $(
		tcpdump -r b.pcap --count 2> /dev/null | awk '{ print $1 }')))"
}
over_nodes() {
	local name
	start "$BUILD/packrack-merger" --config /dev/null --listen "$PACKRACK_MERGER"
	for name in a b; do
		start "$BUILD/packrack-indexer" --config /dev/null --name "$name" --volume "$name.vol" --merger "$PACKRACK_MERGER"
	done
	poll_until 20 there || { cat ./*.log*; return 1; }
	answered --node a --node b
}
run_step "over two nodes: what one stored is related to what the other did" over_nodes
in_range() { # a range that has the first fragment, and none of the others
	local first
	first=$("$PACKRACK" query --link a "$FILTER" 2> /dev/null | awk '{ print $1; exit }')
	"$PACKRACK" query --related --since "$first" --until "$first" --json "$FILTER" 2> /dev/null |
		jq -e '.matched == 1 and .related == 0'
}
run_step "within the time range" in_range
partial() {
	local rc=0
	"$PACKRACK" query --related --node a --node nobody --count "$FILTER" 2> said.txt || rc=$?
	cat said.txt
	((rc == 3)) && grep -q 'not answered: nobody' said.txt
}
run_step "a node that does not answer makes it partial" partial

# ---- real captures ----
real() { # FILE FILTER
	local numbers
	numbers=$("$RELATED" fragments "$1" "$2" want.pcap) || return 1
	echo "matching, fragments: $numbers"
	[ "${numbers#* }" -gt 0 ] || return 1
	rm -f real.vol
	"$PACKRACK" import "$1" --volume real.vol --create 64M || return 1
	"$PACKRACK" query --related --volume real.vol -w ours.pcapng "$2" 2> said.txt || { cat said.txt; return 1; }
	"$COMPARE" --times us want.pcap ours.pcapng
}
run_step "fragments of DNS answers" real "$DATA/c-odd/dnscap__frags.pcap" 'udp src port 53'
run_step "and of questions" real "$DATA/c-odd/dnscap__frags.pcap" 'udp dst port 53 and udp[4:2] & 1 = 1'
run_step "fragments of ICMP" real "$DATA/c-odd/packetlife-backup__icmp_fragmented.cap" 'icmp[0] = 0'
run_step "fragments of IPv6" real "$DATA/c-odd/packets__ipv6_fragments.pcapng" \
	'ip6[6] = 44 and ip6[42:2] & 0xfff8 = 0'
copies() { # what is behind GRE, IPIP and 6in4 there has no plain copy: only ICMP errors and fragments may come
	"$PACKRACK" import "$DATA/c-odd/Malcolm-Test-Artifacts__Tunnels.pcap" --volume tunnels.vol --create 64M || return 1
	"$PACKRACK" query --related --volume tunnels.vol -w ours.pcapng 'ip proto 41' 2> said.txt || return 1
	cat said.txt
	tcpdump -r ours.pcapng -nn 2> /dev/null > ours.txt
	(($(wc -l < ours.txt) > $(grep -c . <(tcpdump -nn -r "$DATA/c-odd/Malcolm-Test-Artifacts__Tunnels.pcap" \
		ip proto 41 2> /dev/null))))
}
run_step "errors about tunnels" copies
near() { # two packets in a year: little is looked at
	"$PACKRACK" import "$DATA/mta-1year-hdr96-a.pcap" --volume year.vol --create 64M || return 1
	"$PACKRACK" query --related --json --count --volume year.vol icmp > said.json 2> said.txt || return 1
	jq -e '.matched == 2 and .scanned_segments < 5 and .skipped_segments > 15' said.json
}
run_step "only what is near is looked at" near

refute_step "related to what?" 2 "$PACKRACK" query --related --volume a.vol
refute_step "no limit with it" 2 "$PACKRACK" query --related --limit 5 --volume a.vol udp
cd "$TOP" || exit 1
done_testing
