#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# When was a link busier than a rate, and who had most of it: equal to a count made from the captures,
# from the index and by reading, on a volume and over nodes, and honest about what is missing.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_commands tcpdump python3 jq
need_programs packrack packrack-indexer packrack-merger
need_data
new_lab
PACKRACK=$BUILD/packrack
TALLIES=$TOP/tests/system/tallies.py
FULL=$DATA/mix-gateway-full-a.pcap
CUT=$DATA/mix-gateway-hdr96-a.pcap
YEAR=$DATA/mta-1year-hdr96-a.pcap
S=1000000000
PROGRAMS=()
cd "$LAB_DIR" || exit 1
trap 'kill "${PROGRAMS[@]}" 2> /dev/null; wait; end_labs' EXIT

imported() {
	"$PACKRACK" import "$FULL" --volume full.vol --create 64M &&
		"$PACKRACK" import "$CUT" --volume cut.vol --create 64M &&
		"$PACKRACK" import "$YEAR" --volume year.vol --create 64M
}
run_step "three captures are imported" imported

says() { # COMMAND OPTION...: into said.json
	"$PACKRACK" "$1" --json "${@:2}" > said.json 2> said.txt || { cat said.txt; return 1; }
}
from_index() { # the index said it all
	jq -e '.counted_packets == .matched and .matched > 0 and .scanned_packets == 0' said.json
}
read_all() {
	jq -e '.counted_packets == 0 and .scanned_packets >= .matched' said.json
}

second_by_second() {
	says rate --volume "$1.vol" && "$TALLIES" rate said.json "$S" "$2"
}
run_step "second by second" second_by_second full "$FULL"
run_step "from the index alone" from_index
run_step "and of a capture that is cut" second_by_second cut "$CUT"
run_step "from the index alone" from_index
minutes() {
	says rate --volume year.vol --step 1h && "$TALLIES" rate said.json $((3600 * S)) "$YEAR" || return 1
	says rate --volume full.vol --step 100ms && jq -e '.scanned_packets > .counted_packets' said.json &&
		"$TALLIES" rate said.json $((S / 10)) "$FULL"
}
run_step "other steps, longer and shorter" minutes

busy() {
	says rate --volume cut.vol --above 3Mbit --for 3s && from_index || return 1
	"$TALLIES" above said.json 3000000 3 "$S" "$CUT" || return 1
	says rate --volume cut.vol --above 12.5kB --for 1s --step 250ms tcp port 443 || return 1
	tcpdump -r "$CUT" -w tls.pcap tcp port 443 2> /dev/null
	"$TALLIES" above said.json 100000 1 $((S / 4)) tls.pcap
}
run_step "busier than, for as long as; with a filter, too" busy
choosable() { # a stretch is a time range for query, and its packets are those counted
	local options n
	says rate --volume cut.vol --above 3Mbit --for 3s || return 1
	options=$(jq -r '.stretches[0].options' said.json)
	# shellcheck disable=SC2086 # options are words
	n=$("$PACKRACK" query --volume cut.vol --count $options)
	jq -e --argjson n "$n" '.stretches[0].packets == $n and $n > 1000' said.json || return 1
	# shellcheck disable=SC2086
	says rate --volume cut.vol $options && jq -e --argjson n "$n" '.packets == $n' said.json
}
run_step "a stretch is a time range for query" choosable
shown() {
	"$PACKRACK" rate --volume cut.vol > said.txt || return 1
	(($(grep -c ' #*$' said.txt) > 200)) && grep -q '########################################$' said.txt
}
run_step "a bar for each second" shown

for key in src dst host port proto; do
	top_is() {
		local by=bytes
		[ "$key" = src ] || [ "$key" = port ] || by=packets
		says top "$key" -n 20 --by "$by" --exact --volume "$1.vol" && "$TALLIES" top said.json "$key" "$by" "$2"
	}
	run_step "top $key" top_is full "$FULL"
done
bounded() {
	says top --volume cut.vol && from_index && "$TALLIES" top said.json host bytes "$CUT" || return 1
	jq -e '.exact == false and .sure >= 3' said.json || return 1
	says top host --volume cut.vol --exact && read_all && jq -e .exact said.json || return 1
	says top --volume cut.vol --since 2024-03-06T09:01:00Z && jq -e '.counted_packets > 0 and .scanned_packets > 0' \
		said.json || return 1
	"$PACKRACK" export --volume cut.vol --since 2024-03-06T09:01:00Z --format pcap-ns -w since.pcap || return 1
	"$TALLIES" top said.json host bytes since.pcap
}
run_step "hosts from the index, with bounds that hold" bounded
filtered() {
	local key
	for key in host port pair flow proto mac; do
		says top "$key" -n 3 --by packets --volume full.vol 'tcp or udp' || return 1
		tcpdump -r "$FULL" -w some.pcap 'tcp or udp' 2> /dev/null
		"$TALLIES" filters said.json some.pcap || return 1
	done
}
run_step "each has a filter that tcpdump agrees with" filtered

several() { # volumes at once, from the index; and again, where two hold the same packets
	cp full.vol same.vol
	says rate --volume full.vol --volume cut.vol && from_index &&
		"$TALLIES" rate said.json "$S" "$FULL" "$CUT" || return 1
	says rate --volume full.vol --volume same.vol && read_all && "$TALLIES" rate said.json "$S" "$FULL"
}
run_step "over several volumes" several

# ---- over nodes ----
start() {
	"$@" > "$LAB_DIR/${1##*/}.log.${#PROGRAMS[@]}" 2>&1 &
	PROGRAMS+=($!)
}
node() { # NAME VOLUME
	start "$BUILD/packrack-indexer" --config /dev/null --name "$1" --volume "$2" --merger "$PACKRACK_MERGER"
	[ "${3-}" = "" ] || eval "$3=$!"
}
counted() { # PACKETS
	local n
	n=$("$PACKRACK" query --count) && ((n == $1))
}
up() {
	start "$BUILD/packrack-merger" --config /dev/null --listen "$PACKRACK_MERGER"
	node a full.vol && node b cut.vol && poll_until 20 counted 170726
}
run_step "two nodes and a merger" up
over_nodes() {
	says rate --above 3Mbit --for 2s && from_index || return 1
	"$TALLIES" above said.json 3000000 2 "$S" "$FULL" "$CUT" || return 1
	says rate --node a && "$TALLIES" rate said.json "$S" "$FULL"
}
run_step "rate adds them up" over_nodes
top_over_nodes() {
	says top -n 20 && from_index && "$TALLIES" top said.json host bytes "$FULL" "$CUT" || return 1
	says top port -n 5 && jq -e '.left_out > 100' said.json &&
		"$TALLIES" top said.json port bytes "$FULL" "$CUT"
}
run_step "so does top" top_over_nodes
many_parts() { # more groups than one message takes
	says top flow -n 100000 && jq -e '(.top | length) == ([.top[].key] | unique | length) and .left_out == 0
		and .exact and ([.top[].packets] | add) <= .packets and (.top | length) > 5000' said.json || return 1
	says rate --step 1ms && jq -e '(.series | length) > 10000' said.json &&
		"$TALLIES" rate said.json 1000000 "$FULL" "$CUT"
}
run_step "answers of many parts" many_parts
third_is_here() {
	says query --count --node c && jq -e '.matched == 39796' said.json
}
doubled() { # c has the packets of a as well: sums of nodes would be wrong
	cp full.vol copy.vol
	node c copy.vol DOUBLE
	poll_until 20 third_is_here || return 1
	counted 170726 || return 1
	says rate && "$TALLIES" rate said.json "$S" "$FULL" "$CUT" || return 1
	says top -n 10 && jq -e .exact said.json && "$TALLIES" top said.json host bytes "$FULL" "$CUT"
}
run_step "packets that lie on two nodes count once" doubled
partial() {
	local rc=0
	kill -STOP "${PROGRAMS[2]}"
	kill "${PROGRAMS[2]}"
	kill -CONT "${PROGRAMS[2]}"
	wait "${PROGRAMS[2]}"
	"$PACKRACK" rate --node a --node b --json > said.json 2> said.txt || rc=$?
	cat said.txt
	((rc == 3)) && grep -q '^partial: ' said.txt && grep -q 'not answered: b' said.txt &&
		jq -e 'all(.series[]; .partial)' said.json && "$TALLIES" rate said.json "$S" "$FULL"
}
run_step "a node that is gone makes it partial, and says so" partial

# ---- bad usage ----
for bad in "--above 5" "--above 100Mfoo" "--for 3s" "--step 1us" "--step 0" "host" "--since now --until @5"; do
	# shellcheck disable=SC2086
	refute_step "rate $bad is refused" 2 "$PACKRACK" rate --volume cut.vol $bad
done
refute_step "top -n 0 is refused" 2 "$PACKRACK" top --volume cut.vol -n 0
cd "$TOP" || exit 1
done_testing
