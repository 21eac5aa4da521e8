#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --timestamp: the times of a tap aggregator's trailers, of packets in order and without a seam; a source that is not there.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tshark jq python3
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
new_lab
PACKRACK=$BUILD/packrack

"$RACK" up -n 2 -- --timestamp trailer > /dev/null || exit 1
played() { # BEHIND_MS
	"$RACK" exec tap tests/system/trailers.py send mirror0 1000 3000 "$1" "$LAB_DIR/sent" || return 1
	"$RACK" drain --keep-running --timeout 120 && "$PACKRACK" export -w "$LAB_DIR/got.pcapng" && tests/system/trailers.py check "$LAB_DIR/got.pcapng" "$LAB_DIR/sent"
}
run_step "times of trailers, to the nanosecond" played 0
unstamped() {
	"$PACKRACK" status --json --dispatcher "$PACKRACK_DISPATCHER" | jq -e '.dispatcher.links[0].unstamped_packets | . >= 60 and . < 200'
}
run_step "those without a trailer are counted" unstamped
told() {
	"$PACKRACK" status --json | jq -e '.merger.links[] | select(.name == "tap0") | .timestamps == "trailer" and (.clock | IN("synchronized", "unsynchronized", "slewed"))' &&
		tshark -r "$LAB_DIR/got.pcapng" -c 1 -T fields -e frame.interface_description | grep "timestamps: trailer, clock"
}
run_step "status and pcapng name source and clock" told
"$RACK" down > /dev/null
"$RACK" up -n 2 -- --timestamp trailer > /dev/null || exit 1
behind() { # the first packets tell how far it is behind: what is confirmed waits for it from then on
	"$RACK" exec tap tests/system/trailers.py send mirror0 0 1000 400 "$LAB_DIR/first" && played 400
}
run_step "an aggregator whose clock is behind" behind
"$RACK" down > /dev/null
says() { # TEXT COMMAND...: one line with it, exit status 1 or 2
	local rc=0
	timeout 20 "${@:2}" > "$LAB_DIR/said" 2>&1 || rc=$?
	cat "$LAB_DIR/said"
	((rc == 1 || rc == 2)) && grep -q "$1" "$LAB_DIR/said" && (($(wc -l < "$LAB_DIR/said") == 1))
}
"$RACK" up -n 1 --bare > /dev/null
run_step "a source that the interface does not have" says "disp.*\|has no such timestamps; it has host" "$RACK" exec disp "$BUILD/packrack-dispatcher" --in tap0 --out rack0 --timestamp adapter-unsynced
run_step "a source that there is not" says "is not one of: host, adapter, adapter-unsynced, trailer" "$BUILD/packrack-dispatcher" --in a --out b --timestamp ptp

done_testing
