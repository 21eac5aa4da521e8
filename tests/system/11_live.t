#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A live link: the rack's trace has what tcpdump saw on the link in the same run: the same bytes, lengths and order. By
# the XDP path frames are as long as it takes them, and tcpdump is at the other end of the link.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpdump tcpreplay curl
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
new_lab

# A stand-in where the captures are absent, so that the path is tested all the same.
tests/system/numbered.py make "$LAB_DIR/numbered.pcap" 20000
capture=$LAB_DIR/numbered.pcap
[ ! -f "$DATA/mix-gateway-full-a.pcap" ] || capture=$DATA/mix-gateway-full-a.pcap
mtus=(--in-mtu 65527 --out-mtu 65535)
if [ "${PACKRACK_PATH:-packet}" != packet ]; then
	mtus=(--in-mtu 3498)
	tcpdump -r "$capture" -w "$LAB_DIR/capture.pcap" 'less 3512' 2> /dev/null
	capture=$LAB_DIR/capture.pcap
fi

play() { # by XDP without a word of the hosts: a packet of theirs and one of ours could pass one another behind tcpdump
	[ "${mtus[1]}" = 65527 ] || { "$RACK" exec tap ip link set t0 down && "$RACK" exec tap ip link set t1 down; } || return 1
	"$RACK" play "$capture" --pps=20000 --quiet
}

path_is() { # as it was asked for
	local path=xdp
	"$RACK" logs dispatcher | grep -q 'path xdp: ' || path=packet
	[ "$path" = "${PACKRACK_PATH:-packet}" ] || [ "$path ${PACKRACK_PATH-}" = "xdp auto" ] || { echo "the path is $path"; return 1; }
}

live() { # LOGGERS SPREAD FEED...
	local loggers=$1 spread=$2 order=()
	shift 2
	# what two hosts send may pass one another behind tcpdump
	[ "${mtus[1]}" = 65527 ] || [ "$1" = play ] || order=(--by-connection)
	"$RACK" down > /dev/null
	"$RACK" up -n "$loggers" "${mtus[@]}" --spread "$spread" --record "$LAB_DIR/tcpdump.pcap" && path_is || return 1
	"$@" > "$LAB_DIR/feed" || { cat "$LAB_DIR/feed"; return 1; }
	"$RACK" drain --stored --timeout 120 || { "$RACK" logs | tail -n 30; return 1; }
	"$BUILD/packrack" export -w "$LAB_DIR/out.pcapng" || { echo "export: status $?"; return 1; }
	# Each packet socket stamps for itself what the machine's own TCP made.
	"$COMPARE" --times ignore "${order[@]}" "$LAB_DIR/tcpdump.pcap" "$LAB_DIR/out.pcapng"
}

run_step "a capture replayed, 4 loggers, round-robin" live 4 round-robin play
run_step "a capture replayed, 3 loggers, flow" live 3 flow play
run_step "real programs, 2 loggers, weighted" live 2 weighted "$RACK" traffic --packets 8000 4
"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
