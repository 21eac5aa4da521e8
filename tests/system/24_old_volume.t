#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Volumes that packrack of commit cc04060 wrote: later versions read them, query them with their old index, check
# them and add to them. tests/data/volume-cc04060.py writes the captures that lie in one. The other was recorded by
# a rack of one node, whose switch lost five of each forty data frames, and whose dispatcher was killed once.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_commands tcpdump python3 jq
need_programs packrack
new_lab
PACKRACK=$BUILD/packrack
VOLUME=$LAB_DIR/old.vol
ALL=$LAB_DIR/all.pcap

unpack() { # NAME FILE
	python3 -c 'import lzma, sys; open(sys.argv[2], "wb").write(lzma.open(sys.argv[1]).read())' \
		"tests/data/$1-cc04060.xz" "$2"
}
run_step "a volume of commit cc04060 is unpacked" unpack volume "$VOLUME"
run_step "it is without faults" "$PACKRACK" volume check "$VOLUME"

exported() {
	local i
	python3 tests/data/volume-cc04060.py "$LAB_DIR" || return 1
	"$PACKRACK" export --volume "$VOLUME" --format pcap-ns -w "$ALL" || return 1
	for i in 0 1 2 3 4; do # the files begin a minute apart
		"$PACKRACK" export --volume "$VOLUME" --format pcap-ns -w "$LAB_DIR/one.pcap" \
			after "@$((1700000000 + 60 * i))" and before "@$((1700000050 + 60 * i))" || return 1
		"$COMPARE" "$LAB_DIR/$i.pcap" "$LAB_DIR/one.pcap" || return 1
	done
}
run_step "each file that was imported is exported again" exported

figure() { # NAME: of the last query
	sed -n "s/^  \"$1\": \([0-9]*\).*/\1/p" "$LAB_DIR/json"
}

same_as_tcpdump() { # FILTER
	local want
	want=$(tcpdump -r "$ALL" --count "$1" 2> /dev/null | awk '{ print $1 + 0 }')
	"$PACKRACK" query --volume "$VOLUME" --json --count "$1" > "$LAB_DIR/json" 2> "$LAB_DIR/err" ||
		{ cat "$LAB_DIR/err"; return 1; }
	(($(figure matched) == want && $(figure index_damaged) == 0)) ||
		{ echo "$1: tcpdump finds $want"; cat "$LAB_DIR/json"; return 1; }
}

found() { # filters that ask for each kind of key, also for those that are no longer made
	local f
	for f in 'host 10.0.0.5' 'src 10.0.0.5 and not dst 10.200.0.1' 'host 10.1.0.41 and not host 10.200.0.3' \
		'host 10.0.0.5 and host 10.200.0.1' 'src host 10.0.0.18 and dst port 8080' \
		'host 10.200.0.1 and port 443' 'port 1162' 'src host 10.200.0.5 and dst port 1395' \
		'host 10.201.0.0 and port 53' 'portrange 31080-31090 and host 10.201.0.0' 'net 10.2.0.0/16' \
		'dst host 2001:db8::4d' 'net 2001:db8::/32' 'vlan 5' 'mpls 100' arp 'icmp[0] = 8' 'ip[6:2] & 0x1fff != 0' \
		'ether src 02:00:00:00:03:e7' 'tcp port 22' 'not tcp' 'greater 150' 'host 192.0.2.7' 'host 203.0.113.99'; do
		same_as_tcpdump "$f" || return 1
	done
}
run_step "24 filters find in it what tcpdump finds" found

pruned() { # by level 1 and 2
	same_as_tcpdump 'host 192.0.2.7' || return 1
	cat "$LAB_DIR/json"
	(($(figure matched) == 1 && $(figure scanned_segments) == 1)) || return 1
	(($(figure skipped_level1) > 0 && $(figure skipped_level2) > 0 && $(figure index_reads) > 0)) || return 1
	same_as_tcpdump 'src host 10.0.0.18 and dst port 8080' && (($(figure skipped_segments) > 0))
}
run_step "its index says which segments need not be read" pruned

explained() {
	says 0 'host 192.0.2.7' "$PACKRACK" query --volume "$VOLUME" --count --explain 'host 192.0.2.7' &&
		says 0 ': 1 match of' "$PACKRACK" query --volume "$VOLUME" --count --explain 'host 192.0.2.7'
}
run_step "and the answer is explained" explained

counted() { # from the index alone, as level 1 has it
	"$PACKRACK" top --volume "$VOLUME" --json > "$LAB_DIR/top" || return 1
	grep -q '10\.201\.0\.0' "$LAB_DIR/top" || { cat "$LAB_DIR/top"; return 1; }
	"$PACKRACK" rate --volume "$VOLUME" > "$LAB_DIR/rate" && [ -s "$LAB_DIR/rate" ]
}
run_step "its addresses and its rate are counted" counted

added() { # what is new has an index as it is made now, beside the old one
	"$PACKRACK" import "$LAB_DIR/0.pcap" --volume "$VOLUME" --link 0 --name lan || return 1
	"$PACKRACK" export --volume "$VOLUME" --format pcap-ns -w "$ALL" && found || return 1
	"$PACKRACK" volume check "$VOLUME"
}
run_step "a file is added to it, and found beside what was there" added

# ---- recorded by a rack ----

RECORDED=$LAB_DIR/rack.vol
run_step "a volume that a node recorded is unpacked" unpack rack "$RECORDED"
run_step "it is without faults as well" "$PACKRACK" volume check "$RECORDED"
as_it_was() { # what cc04060 exports of it
	says 3 "288 packets match" "$PACKRACK" export --volume "$RECORDED" --format pcap-ns -w "$LAB_DIR/rack.pcap" || return 1
	tcpdump -nr "$LAB_DIR/rack.pcap" --time-stamp-precision nano -tt -xx 2> /dev/null | sha256sum |
		grep 487d9b2f08ad2c5531a31dd0061b5b377395bf5b46a59401d9594aa91039bf59
}
run_step "its packets are exported, in both epochs" as_it_was
losses() { # those that cc04060 lists: by its ledger and its nodes' losses
	"$PACKRACK" query --volume "$RECORDED" --count --json > "$LAB_DIR/json" 2> "$LAB_DIR/err"
	(($? == 3)) || return 1
	jq -c '.completeness.missing | map([.first_seq, .last_seq, .reason])' "$LAB_DIR/json" | tee "$LAB_DIR/missing"
	jq -e '. == ([[36, 40], [76, 79], [81, 81], [118, 122], [156, 159], [161, 161], [28, 32], [68, 72], [115, 119],
		[148, 152]] | map(. + ["switch"]))' "$LAB_DIR/missing"
}
run_step "what the switch lost is listed, with the reason" losses
went_on() {
	"$PACKRACK" import "$LAB_DIR/0.pcap" --volume "$RECORDED" --name lan &&
		"$PACKRACK" volume check "$RECORDED" && losses
}
run_step "a file is added to it, and the list stays" went_on

done_testing
