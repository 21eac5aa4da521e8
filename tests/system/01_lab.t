#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The lab itself, without the rack's programs: its tap sees the link, and nothing of it is left.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpdump tcpreplay curl ethtool python3
new_lab

run_step "up" "$RACK" up --bare -n 3
refute_step "a second up is refused" 1 "$RACK" up --bare
refute_step "an unknown option is bad usage" 2 "$RACK" up --nonsense 1
refute_step "a wrong number is bad usage" 2 "$RACK" up -n 0
run_step "the link of the nodes takes the capture interface's MTU and 8 more" \
	sh -c "'$RACK' exec log3 ip -o link show eth0 | grep -q 'mtu 1508 '"

"$RACK" exec disp tcpdump -i tap0 -Z root --time-stamp-precision=nano -U \
	-w "$LAB_DIR/seen.pcap" > "$LAB_DIR/tcpdump" 2>&1 &
dump=$!
poll_until 10 grep -q listening "$LAB_DIR/tcpdump"
run_step "traffic" "$RACK" traffic --packets 3000 2

python3 - "$LAB_DIR/sent.pcap" << 'P'
import sys
sys.path.insert(0, "tests/system")
import traces
packets = []
for i in range(500):
    data = bytes.fromhex("020000000001020000000002") + (b"\x08\x00" if i % 2 else b"\x88\xa8\0\5\x81\0\0\7\x08\0")
    data += i.to_bytes(4, "big") + b"played" * (8 + i % 150)
    packets.append((10 ** 9 + i * 1000, data, len(data)))
traces.write_pcap(sys.argv[1], packets)
P
run_step "play" "$RACK" play "$LAB_DIR/sent.pcap" --topspeed
played() {
	tcpdump -nr "$LAB_DIR/seen.pcap" -w "$LAB_DIR/played.pcap" \
		'ether src 02:00:00:00:00:02' && "$COMPARE" --times ignore "$LAB_DIR/sent.pcap" "$LAB_DIR/played.pcap"
}
poll_until 10 played
run_step "what is played arrives unchanged and in order" played
kinds() {
	local filter
	for filter in arp icmp icmp6 'tcp port 80' 'ip6 and tcp port 80' 'udp port 53' 'tcp port 25' \
		'tcp port 22' 'tcp port 5001' 'udp port 5002'; do
		tcpdump -c 1 -nr "$LAB_DIR/seen.pcap" "$filter" 2> /dev/null | grep -q . ||
			{ echo "none of: $filter"; return 1; }
	done
}
run_step "the tap saw every kind of traffic" kinds
kill "$dump"
wait "$dump"

run_step "down" "$RACK" down
run_step "nothing is left" nothing_left "$LAB_DIR"
run_step "down again" "$RACK" down

# Killed in the middle of going up: half a lab, which down must find by name.
"$RACK" up --bare -n 8 > /dev/null 2>&1 &
up=$!
poll_until 10 sh -c "ip netns list | grep -q '$(lab_namespace_prefix "$LAB_DIR")sw'"
kill -KILL "$up"
wait "$up" 2> /dev/null
run_step "down after a crash" "$RACK" down
run_step "nothing is left after a crash" nothing_left "$LAB_DIR"

"$RACK" up --bare -n 8 > /dev/null 2>&1 &
up=$!
poll_until 10 sh -c "ip netns list | grep -q '$(lab_namespace_prefix "$LAB_DIR")sw'"
kill -TERM "$up"
wait "$up"
run_step "an interrupted up takes itself down" nothing_left "$LAB_DIR"
done_testing
