#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A logger by itself on a tap: it has what tcpdump has there, with VLAN tags, filters and cut packets, in one
# direction or both; it goes on when the device comes up again, and ends with a word when it is gone.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpdump tcpreplay jq
need_programs packrack packrack-logger
new_lab
NS=packrack-tap-$$
PIDS=()
LOGGERS=()
trap 'kill "${PIDS[@]}" 2> /dev/null; ip netns del "$NS" 2> /dev/null; ip netns del "$NS-far" 2> /dev/null; end_labs' EXIT
PACKRACK=$BUILD/packrack

# Plain, tagged (802.1Q, 802.1ad, both), short and long, and each its own bytes.
python3 - "$LAB_DIR/sent.pcap" << 'END'
import struct, sys
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 262144, 1))
    for i in range(6000):
        tags = (b"", struct.pack(">HH", 0x8100, 7), struct.pack(">HH", 0x88a8, 0x2009),
                struct.pack(">HHHH", 0x88a8, 9, 0x8100, 0x6007))[i % 4]
        body = struct.pack(">HI", 0x88b5, i) + bytes((i * 7 + j) & 255 for j in range(40 + i * 13 % 8000))
        data = b"\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01" + tags + body
        f.write(struct.pack("<IIII", 1700000000 + i // 1000, i % 1000 * 1000000, len(data), len(data)) + data)
END

within() { # NETNS CMD...: not ip netns exec: it wants to mount, which fails in a plain chroot
	local ns=$1
	shift
	nsenter --net="/run/netns/$ns" "$@"
}
links_up() {
	ip netns add "$NS" && ip netns add "$NS-far" || return 1
	within "$NS" ip link add in0 type veth peer name far0 netns "/run/netns/$NS-far" || return 1
	local at
	for at in "$NS in0" "$NS-far far0"; do
		# shellcheck disable=SC2086 # two words
		set -- $at
		within "$1" sysctl -qw "net.ipv6.conf.$2.disable_ipv6=1"
		within "$1" ip link set "$2" mtu 9000 up || return 1
	done
}
run_step "a tap" links_up || { done_testing; exit; }

background() { # LOG CMD...
	local log=$1
	shift
	"$@" > "$log" 2>&1 &
	PIDS+=($!)
}
begin() { # NAME LOGGER-OPTIONS -- TCPDUMP-OPTIONS...: a logger, and tcpdump with the same wishes
	local name=$1 options=()
	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	"$PACKRACK" volume create "$LAB_DIR/$name.vol" --size 256M > "$LAB_DIR/created" || { cat "$LAB_DIR/created"; return 1; }
	background "$LAB_DIR/$name.dump" nsenter --net="/run/netns/$NS" tcpdump -i in0 -U --immediate-mode -B 65536 -w "$LAB_DIR/$name.pcap" "$@"
	background "$LAB_DIR/$name.log" nsenter --net="/run/netns/$NS" "$BUILD/packrack-logger" --config /dev/null --tap in0 \
		--volume "$LAB_DIR/$name.vol" "${options[@]}"
	LOGGERS+=("${PIDS[-1]}")
	poll_until 20 grep -q "recording in0" "$LAB_DIR/$name.log" || { cat "$LAB_DIR/$name.log"; return 1; }
	poll_until 20 grep -q "listening on in0" "$LAB_DIR/$name.dump" || { cat "$LAB_DIR/$name.dump"; return 1; }
}
# one with a buffer too small for ticks that are far apart: a thread takes from it
all_begin() {
	begin all -- -Q in && begin both --both -- && begin cut --snaplen 100 --capture-buffer 8M -- -Q in -s 100 &&
		begin some --filter 'vlan 7 or greater 6000' -- -Q in 'vlan 7 or greater 6000'
}
run_step "loggers, and tcpdump beside each" all_begin

play() {
	within "$NS-far" tcpreplay -q -i far0 -p 4000 "$LAB_DIR/sent.pcap" &&
		within "$NS" tcpreplay -q -i in0 -p 4000 --limit 500 "$LAB_DIR/sent.pcap"
}
held() { # NAME: packets in the volume; none lost
	"$PACKRACK" query --volume "$LAB_DIR/$1.vol" --count --json > "$LAB_DIR/held" || true
	jq -e '.completeness | .missing_packets + .dropped_packets == 0' "$LAB_DIR/held" > "$LAB_DIR/lost" || return 1
	jq .completeness.packets_in_range "$LAB_DIR/held"
}
holds() { # NAME COUNT
	[ "$(held "$1")" = "$2" ]
}
run_step "packets come, and some go" play
run_step "all that came is held" poll_until 20 holds all 6000
run_step "with --both, also what went" poll_until 20 holds both 6500

same() { # NAME
	local want
	written() {
		want=$(tcpdump -nr "$LAB_DIR/$1.pcap" --count 2> /dev/null | cut -d' ' -f1)
		[ "${want:-0}" -gt 100 ] && holds "$1" "$want"
	}
	poll_until 20 written "$1" || { echo "$(held "$1") where tcpdump has ${want:-nothing}"; return 1; }
	"$PACKRACK" export --volume "$LAB_DIR/$1.vol" -w "$LAB_DIR/$1.pcapng" || return 1
	"$COMPARE" --times ignore "$LAB_DIR/$1.pcap" "$LAB_DIR/$1.pcapng"
}
run_step "the same as tcpdump's, tags and all" same all
run_step "the same in both directions" same both
run_step "the same, cut" same cut
run_step "the same by a filter that knows tags" same some
run_step "and tags are there" test "$(tcpdump -nr "$LAB_DIR/all.pcapng" --count vlan 7 2> /dev/null | cut -d' ' -f1)" -ge 1500

carrier() {
	within "$NS-far" ip link show far0 | grep -q LOWER_UP
}
down_and_up() {
	within "$NS" ip link set in0 down && within "$NS" ip link set in0 up || return 1
	# the far end's carrier comes back with it, a little later
	poll_until 10 carrier || return 1
	within "$NS-far" tcpreplay -q -i far0 -p 4000 --limit 1000 "$LAB_DIR/sent.pcap"
}
run_step "down, up, and more comes" down_and_up
run_step "it is held, too" poll_until 20 holds all 7000

gone() {
	within "$NS" ip link del in0 || return 1
	local at
	for at in all both cut some; do
		poll_until 10 grep -q "in0: The interface disappeared" "$LAB_DIR/$at.log" || { cat "$LAB_DIR/$at.log"; return 1; }
	done
	for at in "${LOGGERS[@]}"; do
		poll_until 10 test ! -e "/proc/$at/exe" || return 1
	done
}
run_step "a device that is gone ends them with a word" gone
run_step "and nothing of what they held is lost" holds all 7000
done_testing
