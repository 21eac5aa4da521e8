#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Random filters over the whole grammar give what tcpdump -r gives, and what it refuses is refused.
# By default a sample of 200, another each run (FILTERS_SEED=N: the sample again), on the smaller
# captures, and a few on a rack's merged data. FILTERS=full: all 3,650 on all captures and on the rack, and
# a table of the grammar's productions: each at least 20 times, half of the filters match a part of the packets.
# FILTERS_REFERENCE=FILE keeps there what tcpdump said: the next long run takes half the time.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_commands tcpdump
need_programs packrack
need_data
new_lab
MAKER=tests/system/filters.py
SEED=${FILTERS_SEED:-$RANDOM}
DIR=$LAB_DIR/filters

if [ "${FILTERS-}" = full ]; then
	prepared=() sample=(--table) on_rack=() lines=1000
else
	prepared=(--small) sample=(--sample 200 --sample-seed "$SEED")
	on_rack=(--sample 25 --sample-seed "$SEED") lines=15
fi
echo "# sample seed $SEED"

run_step "captures by link type" "$MAKER" prepare "$DATA" "$DIR" "${prepared[@]}"

filters() { # arguments of filters.py run
	"$MAKER" run "$DIR" --packrack "$BUILD/packrack" --reference "${FILTERS_REFERENCE-}" "$@" > "$LAB_DIR/out" 2>&1
	local rc=$?
	if [ "${FILTERS-}" = full ]; then cat "$LAB_DIR/out"; else tail -n 1 "$LAB_DIR/out"; fi | sed 's/^/# /' >&3
	grep -v '^filters:' "$LAB_DIR/out" | tail -n "$lines"
	return "$rc"
}
exec 3>&1
run_step "random filters on volumes" filters "${sample[@]}"

# Ethernet, and what else is common, knows none of these.
one_link_type_alone() {
	local linktype text want have
	while read -r linktype text; do
		want=$(tcpdump --nano -r "$DIR/$linktype.pcap" -w - -- "$text" 2> "$LAB_DIR/err" | tail -c +25 | md5sum)
		have=$("$BUILD/packrack" query --volume "$DIR/$linktype.vol" --format pcap-ns -w - -- "$text" \
			2> "$LAB_DIR/err" | tail -c +25 | md5sum)
		if [ "$have" != "$want" ] || [ "$have" = "$(md5sum < /dev/null)" ]; then
			echo "link type $linktype: $text: not what tcpdump has"
			cat "$LAB_DIR/err"
			return 1
		fi
	done <<- END
		117 on eth0 and not reason match
		123 vpi 0 or lane
		140 lssu
		276 ifindex 1
	END
}
run_step "filters that one link type alone has" one_link_type_alone

on_a_rack() {
	"$RACK" up -n 3 --size 128M -- --read "$DIR/rack.pcap" || return 1
	"$RACK" drain --timeout 120 || { "$RACK" logs | tail -n 30; return 1; }
	filters "${on_rack[@]}" --merger "$PACKRACK_MERGER"
}

times_on_a_rack() { # what the merger gives to its nodes
	tests/system/times.py make "$DATA/mix-gateway-hdr96-a.pcap" "$DIR" || return 1
	"$RACK" up -n 3 --size 64M -- --read "$DIR/times.pcap" && "$RACK" drain --timeout 120 || return 1
	tests/system/times.py run "$DIR" --packrack "$BUILD/packrack" --seed "$SEED" --number 40 -m "$PACKRACK_MERGER"
}

can_rack() {
	[ "$(id -u)" = 0 ] && ip netns list > /dev/null 2>&1 && [ -x "$BUILD/packrack-merger" ]
}

# What a rack interface cannot carry whole would be cut: that is not this test's subject.
if can_rack; then
	run_step "a link of frames that fit" "$MAKER" cut "$DIR/1.pcap" "$DIR/rack.pcap"
	mv "$DIR/rack.pcap" "$DIR/1.pcap" 2> /dev/null && cp "$DIR/1.pcap" "$DIR/rack.pcap"
	run_step "random filters on a rack" on_a_rack
	"$RACK" down > /dev/null
	run_step "times anywhere in filters on a rack" times_on_a_rack
	"$RACK" down > /dev/null
	run_step "nothing is left" nothing_left "$LAB_DIR"
fi
done_testing
