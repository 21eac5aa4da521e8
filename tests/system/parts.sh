# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# One capture over many nodes without a rack: NODES volumes of a part each, their indexers and mergers as
# processes of the test (PIDS by name), and answers held against tcpdump's. Sourced behind lib.sh's new_lab.
PACKRACK=$BUILD/packrack
MIX=$DATA/mix-gateway-full-a.pcap
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

begin_daemon() { # NAME COMMAND...: its words go to NAME.log
	local name=$1
	shift
	"$@" 2> "$LAB_DIR/$name.log" &
	PIDS[$name]=$!
}

make_parts() { # volumes v1 ... of the capture's conversations
	local i imports=()
	python3 tests/system/split.py "$MIX" "$NODES" "$LAB_DIR/part" || return 1
	for ((i = 1; i <= NODES; i++)); do
		"$PACKRACK" import "$LAB_DIR/part$i.pcap" --volume "$LAB_DIR/v$i" --create 16M \
			--name "link$i" > "$LAB_DIR/import$i" 2>&1 &
		imports+=($!)
	done
	wait "${imports[@]}"
}

asked() { # MERGER [OPTION...] [FILTER]: how many nodes were
	"$PACKRACK" query -m "ipc://$LAB_DIR/$1.sock" --json --count "${@:2}" 2> /dev/null |
		jq '[.completeness.nodes[] | select(.left_out | not)] | length'
}

same_as_tcpdump() { # MERGER FILTER [SINCE UNTIL], seconds at which no packet is
	local want got range=()
	[ -z "${3-}" ] || range=(--since "@$3" --until "@$4")
	tcpdump -nr "$MIX" --time-stamp-precision nano -w "$LAB_DIR/want.pcap" "$2" 2> /dev/null
	"$PACKRACK" query -m "ipc://$LAB_DIR/$1.sock" "${range[@]}" -w "$LAB_DIR/got.pcap" "$2" \
		2> "$LAB_DIR/said" || { cat "$LAB_DIR/said"; return 1; }
	want=$(tcpdump -nr "$LAB_DIR/want.pcap" -tt -xx 2> /dev/null |
		awk -v since="${3:-0}" -v until="${4:-9e9}" \
			'!/^\t/ { in_range = $1 >= since && $1 <= until } in_range' | sort | sha256sum)
	got=$(tcpdump -nr "$LAB_DIR/got.pcap" -tt -xx 2> /dev/null | sort | sha256sum)
	[ "$want" = "$got" ] || { echo "$1: $2: other packets"; return 1; }
}
