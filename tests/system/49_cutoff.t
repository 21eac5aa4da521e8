#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Classes and cutoff: what is kept equals a model of them, packet by packet, and all else is told, exactly. By default each
# batch of captures has its turn of nodes, spread and copies; CUTOFF=full runs all combinations of all.
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
VLAN=$DATA/a-general/vast__vlan.pcap
TAGS=$DATA/c-odd/skydive__icmpv4-4vlanQinQ-id-8-10-20-30.pcap

up() { # OPTION...: of scripts/rack up
	"$RACK" down > /dev/null
	"$RACK" up "$@"
}
stored() {
	"$RACK" drain --stored --timeout 120 || { "$RACK" logs | tail -n 30; return 1; }
}
answer() { # OPTION...: leaves answer.pcapng, report.json and said
	"$PACKRACK" query --json -w "$LAB_DIR/answer.pcapng" "$@" > "$LAB_DIR/report.json" 2> "$LAB_DIR/said"
}
of_report() { # JQ
	jq -e ".completeness | $1" "$LAB_DIR/report.json"
}

# ---- traces ----

# names of classes tell what they are for
CLASSES=('rest; cutoff=1500' 'dns; filter = port 53; cutoff=200; precedence = 5'
	'web; filter=tcp port 80 or tcp port 443; cutoff=4K; precedence=9; snaplen=200' 'never; filter=udp and net 10.0.0.0/8; cutoff=0; precedence=3'
	'whole; filter=icmp or icmp6; precedence=20; snaplen=64')
as_options() { # CLASS...
	OPTIONS=()
	local class
	for class in "$@"; do
		OPTIONS+=(--class "$class")
	done
}
as_the_model() { # NODES SPREAD COPIES FILE...
	local nodes=$1 spread=$2 copies=$3 reads=() file
	shift 3
	for file in "$@"; do
		reads+=(--read "$file")
	done
	as_options "${CLASSES[@]}"
	up -n "$nodes" --size 512M -- --spread "$spread" --copies "$copies" "${OPTIONS[@]}" "${reads[@]}" && stored || return 1
	answer --allow truncated || { cat "$LAB_DIR/said"; return 1; }
	"$CHECK" answer "$LAB_DIR/answer.pcapng" "$LAB_DIR/report.json" "$@" -- "${CLASSES[@]}"
}
combos=("1 round-robin 1" "5 flow 1" "3 round-robin 1" "3 weighted 2" "5 weighted 1")
if [ "${CUTOFF-}" = full ]; then
	combos=({1,3,5}\ {round-robin,weighted,flow}\ 1 {3,5}\ {round-robin,weighted,flow}\ 2)
fi
mapfile -t files < <(tests/system/captures.py "$DATA" | cut -d ' ' -f 3-)
PER_RUN=$(((${#files[@]} + 4) / 5))
for ((i = turn = 0; i < ${#files[@]}; i += PER_RUN, turn++)); do
	batch=("${files[@]:i:PER_RUN}")
	for ((c = 0; c < ${#combos[@]}; c++)); do
		[ "${CUTOFF-}" = full ] || ((c == turn % 5)) || continue
		read -r nodes spread copies <<< "${combos[c]}"
		run_step "captures $i to $((i + ${#batch[@]} - 1)), $nodes nodes, $spread, copies: $copies" \
			as_the_model "$nodes" "$spread" "$copies" "${batch[@]}"
	done
done

# ---- what is told about what is not there ----

MIX=('bulk; cutoff=15K' 'web; filter=tcp port 80; cutoff=4K; precedence=2' 'tagged; filter=vlan; cutoff=1K; precedence=7')
as_options "${MIX[@]}"
three_links() { # OPTION...
	up -n 3 --size 128M -- "${OPTIONS[@]}" --read "$FULL" --read "$VLAN" --read "$TAGS" "$@" && stored
}
run_step "a mix and tagged packets, each at two nodes" three_links --copies 2
connections() {
	"$CHECK" connections "$FULL" -- "${MIX[@]}" && "$CHECK" connections "$VLAN" -- "${MIX[@]}"
}
run_step "of each connection that was cut, kept and beyond are all" connections
of_flows() { # FILTER
	"$PACKRACK" flows --format csv --link "${FULL##*/}" "$1" > "$LAB_DIR/cut.csv" 2> "$LAB_DIR/said"
	"$PACKRACK" flows -r "$FULL" --format csv "$1" > "$LAB_DIR/whole.csv" 2> /dev/null && "$CHECK" flows "$LAB_DIR/cut.csv" "$LAB_DIR/whole.csv" && cat "$LAB_DIR/said"
}
run_step "flows have what is beyond it" of_flows ''
run_step "also those of a filter" of_flows 'tcp port 80 and bytes > 10000'
run_step "which is told" grep -E ' flows match; [0-9]* packets, .*[0-9]* of them beyond a cutoff$' "$LAB_DIR/said"
of_top() { # sums by what all packets of a connection have
	local by exact
	for by in host pair link; do
		for exact in '' --exact; do
			"$PACKRACK" top "$by" ${exact:+"$exact"} -n 100000 --json --link "${FULL##*/}" 2> /dev/null | jq -c '.packets, .bytes, .top' > "$LAB_DIR/cut"
			"$PACKRACK" top "$by" -n 100000 --json -r "$FULL" 2> /dev/null | jq -c '.packets, .bytes, .top' > "$LAB_DIR/whole"
			[ "$(head -n 1 "$LAB_DIR/cut")" = 39796 ] && cmp "$LAB_DIR/cut" "$LAB_DIR/whole" || return 1
		done
	done
}
run_step "so does top" of_top
run_step "a filter of connections tells exactly" "$CHECK" filters "$FULL" exact tcp exact udp exact ip6 exact 'net 10.0.0.0/8' \
	exact 'tcp port 443' exact 'port 80 or sctp' exact 'not tcp' exact 'src port 80' exact 'host 192.168.170.8' -- "${MIX[@]}"
run_step "also behind tags" "$CHECK" filters "$VLAN" exact vlan exact 'vlan and tcp' exact 'ip or vlan and ip' -- "${MIX[@]}"
run_step "behind several tags at most" "$CHECK" filters "$TAGS" most 'vlan 8 and vlan 10' most 'vlan and vlan and vlan and vlan and icmp' -- "${MIX[@]}"
run_step "another one at most" "$CHECK" filters "$FULL" most 'tcp[13] & 2 == 0' most 'greater 1000' \
	most 'udp[8] == 3 or tcp' -- "${MIX[@]}"
run_step "whole seconds tell exactly, other times at most" "$CHECK" ranges "$FULL" -- "${MIX[@]}"
run_step "it is in the report" says 0 'beyond cutoff: class web, 7' "$PACKRACK" query --count
run_step "--strict" says 3 'beyond cutoff: class bulk' "$PACKRACK" query --count --strict
run_step "--strict, where nothing is beyond" says 0 complete "$PACKRACK" query --count --strict icmp
comment() { # an analyst who has the file alone
	"$PACKRACK" query -w "$LAB_DIR/answer.pcapng" tcp && "$PYTHON" - "$LAB_DIR/answer.pcapng" <<- 'END'
		import sys
		sys.path.insert(0, "tests/system")
		import traces
		t = traces.Trace(sys.argv[1])
		list(t)
		print(t.comments)
		sys.exit(not any("beyond cutoff: class bulk, " in c for c in t.comments))
	END
}
run_step "and in the trace" comment
listed() {
	"$PACKRACK" class list > "$LAB_DIR/out" && cat "$LAB_DIR/out" && diff <(printf '%s\n' "${MIX[@]}") "$LAB_DIR/out" &&
		"$PACKRACK" class list --json | jq -e '(.classes | length == 3) and .rules == []'
}
run_step "classes are listed" listed
node_lost() { # as a whole, still
	"$RACK" kill idx2 && "$RACK" kill log2 && connections
}
run_step "a node of two copies is lost: all is told still" node_lost
run_step "a mix, each packet at one node" three_links --spread round-robin
WHOLE=$("$PACKRACK" query --count 2> /dev/null)
partial() {
	"$RACK" kill idx2 && "$RACK" kill log2 || return 1
	! answer && of_report '.complete | not' && of_report '[.missing[], .missing_classes[]] | any(.link >= 53248)' &&
		grep '^partial' "$LAB_DIR/said" && jq -e --argjson whole "$WHOLE" \
		'.matched + ([.completeness | (.missing + .missing_classes)[] | select(.link < 53248).count] | add) == $whole' "$LAB_DIR/report.json"
}
run_step "a node of one copy is lost: sums are missing, as packets are" partial
"$RACK" down > /dev/null
done_testing
