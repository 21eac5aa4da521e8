#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One box, no daemon: import, query and export of trace files. The answer equals tcpdump -r.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_commands tcpdump gzip zstd
need_programs packrack
need_data
new_lab
PACKRACK=$BUILD/packrack
MIX=$DATA/mix-gateway-full-a.pcap
VOLUME=$LAB_DIR/mix.vol
OUT=$LAB_DIR/out.pcapng

count() {
	tcpdump -r "$1" --count "${@:2}" 2> /dev/null | awk '{ print $1 + 0 }'
}

exits() { # STATUS CMD...
	local want=$1 rc=0
	shift
	"$@" || rc=$?
	((rc == want)) || { echo "status $rc, wanted $want"; return 1; }
}

run_step "import" "$PACKRACK" import "$MIX" --volume "$VOLUME" --create 256M
run_step "export" "$PACKRACK" export --volume "$VOLUME" -w "$OUT"
run_step "is what was imported" "$COMPARE" "$MIX" "$OUT"

formats() {
	local f
	for f in pcap pcap-ns pcapng; do
		"$PACKRACK" export --volume "$VOLUME" --format "$f" -w "$OUT" || return 1
		"$COMPARE" "$MIX" "$OUT" || return 1
	done
}
run_step "in all formats" formats

filters() {
	local f
	for f in tcp 'udp port 53' 'net 10.10.0.0/16 and not tcp' arp 'ip6' 'tcp[13] & 2 != 0' \
		'greater 1000' 'vlan' 'ether broadcast' 'icmp or icmp6'; do
		# shellcheck disable=SC2086 # a filter is words
		"$PACKRACK" query --volume "$VOLUME" -w "$OUT" $f || return 1
		tcpdump --nano -r "$MIX" -w "$LAB_DIR/want.pcap" "$f" 2> /dev/null
		"$COMPARE" -q "$LAB_DIR/want.pcap" "$OUT" || { echo "filter: $f"; return 1; }
	done
}
run_step "ten filters give what tcpdump gives" filters

counts() {
	local ours
	ours=$("$PACKRACK" query --volume "$VOLUME" --count udp) || return 1
	((ours == $(count "$MIX" udp))) || { echo "$ours"; return 1; }
	ours=$("$PACKRACK" query --volume "$VOLUME" udp | wc -l)
	((ours == $(count "$MIX" udp))) || { echo "$ours lines"; return 1; }
}
run_step "counted, and a line each" counts

piped() {
	"$PACKRACK" query --volume "$VOLUME" -w - tcp | tcpdump -r - -w "$OUT" || return 1
	(($(count "$OUT") == $(count "$MIX" tcp)))
}
run_step "piped to tcpdump" piped

explained() {
	"$PACKRACK" query --volume "$VOLUME" --count --explain 'host 192.0.2.7 and port 53' \
		> "$LAB_DIR/n" 2> "$LAB_DIR/err" || return 1
	cat "$LAB_DIR/err"
	grep -q 'plan for EN10MB' "$LAB_DIR/err" && grep -q '^		host 192.0.2.7$' "$LAB_DIR/err" &&
		grep -q '^		port 53$' "$LAB_DIR/err" && grep -q "$VOLUME: 0 match of" "$LAB_DIR/err" || return 1
	"$PACKRACK" query --volume "$VOLUME" --count --explain --json 'port 53' 2> /dev/null |
		python3 -c 'import json, sys
plans = json.load(sys.stdin)["plans"]
assert plans[0]["words"] == "port 53" and not plans[0]["may_match_all"], plans'
}
run_step "explained, in words and as data" explained
estimated() { # without reading what the search then reads
	local filter
	for filter in '' 'udp port 53' 'host 192.0.2.7' 'tcp[13] & 2 != 0'; do
		"$PACKRACK" query --volume "$VOLUME" --estimate "$filter" 2> "$LAB_DIR/err" | cmp - /dev/null || return 1
		cat "$LAB_DIR/err"
		"$PACKRACK" query --volume "$VOLUME" --count --explain "$filter" 2>&1 > /dev/null |
			sed -n 's/^  searched/  to be searched/p' | cmp - <(grep searched "$LAB_DIR/err") || return 1
	done
	"$PACKRACK" query --volume "$VOLUME" --estimate --json tcp | jq -e '.estimate and (has("matched") | not) and .scanned_packets > 0' || return 1
	says 2 'does not go together' "$PACKRACK" query --volume "$VOLUME" --estimate -c 5
}
run_step "estimated" estimated
run_step "nobody has it in memory" says 1 'memory has not all' "$PACKRACK" query --volume "$VOLUME" --memory-only

time_range() {
	local since until
	since=$(tcpdump -r "$MIX" -tt -nc 1000 2> /dev/null | awk 'END { print $1 }')
	until=$(tcpdump -r "$MIX" -tt -nc 5000 2> /dev/null | awk 'END { print $1 }')
	"$PACKRACK" query --volume "$VOLUME" --since "@$since" --until "@$until" -w "$OUT" || return 1
	tcpdump -r "$OUT" -Sttn 2> /dev/null > "$LAB_DIR/ours"
	tcpdump -r "$MIX" -Sttn 2> /dev/null | awk -v a="$since" -v b="$until" '$1 >= a && $1 <= b' \
		> "$LAB_DIR/theirs"
	diff -q "$LAB_DIR/ours" "$LAB_DIR/theirs" || return 1
	"$PACKRACK" query --volume "$VOLUME" -w "$OUT" --explain "after @$since and tcp" and before "@$until" \
		2> "$LAB_DIR/err" || return 1
	tcpdump -r "$OUT" -Sttn 2> /dev/null > "$LAB_DIR/ours"
	tcpdump -r "$MIX" -Sttn tcp 2> /dev/null | awk -v a="$since" -v b="$until" '$1 >= a && $1 <= b' \
		> "$LAB_DIR/theirs"
	diff -q "$LAB_DIR/ours" "$LAB_DIR/theirs" && [ -s "$LAB_DIR/ours" ] || return 1
	cat "$LAB_DIR/err"
	grep -q "^  time range: 20..-..-..T..:..:...* to 20" "$LAB_DIR/err" || return 1
	exits 2 "$PACKRACK" query --volume "$VOLUME" 'tcp or after noon' 2> "$LAB_DIR/err" &&
		(($(wc -l < "$LAB_DIR/err") == 1)) && grep -q "after in the filter" "$LAB_DIR/err"
}
run_step "a time range, by flags and in the filter" time_range

# The zone is that of TZ in what is read and in what is printed.
zones() {
	local first out=$LAB_DIR/zones
	first=$(tcpdump -r "$MIX" -tt -nc 1 2> /dev/null | awk '{ print $1 }')
	first=$(TZ=Asia/Kolkata date -d "@$first" +%Y-%m-%dT%H:%M)
	TZ=Asia/Kolkata "$PACKRACK" query --volume "$VOLUME" --since "$first" -c 1 --allow before --explain > "$out" 2>&1 || return 1
	cat "$out"
	grep -q "^${first}:[0-9.]*+05:30 IP" "$out" && grep -q "time range: ${first}:00.000000000+05:30 to" "$out"
}
run_step "a time is local, and has its zone" zones
time_forms() {
	local t
	for t in 5m "5 min ago" 10:30 "yesterday 10:30" "2 days ago"; do
		"$PACKRACK" query --volume "$VOLUME" --count --since "$t" || { echo "$t"; return 1; }
		"$PACKRACK" query --volume "$VOLUME" --count before 5m and after "$t" or tcp || { echo "after $t"; return 1; }
		"$PACKRACK" query --help | tr -s ' \n' ' ' | grep -qF "${t/2 days/5 min}" || { echo "no help on $t"; return 1; }
	done
}
run_step "times as people write them" time_forms

times_anywhere() {
	tests/system/times.py make "$DATA/mix-gateway-hdr96-a.pcap" "$LAB_DIR" &&
		"$PACKRACK" import "$LAB_DIR/times.pcap" --volume "$LAB_DIR/times.vol" --create 64M > "$LAB_DIR/out" &&
		tests/system/times.py run "$LAB_DIR" --packrack "$PACKRACK" --seed "$RANDOM" --volume "$LAB_DIR/times.vol"
}
run_step "times anywhere in random filters" times_anywhere

limit() {
	"$PACKRACK" query --volume "$VOLUME" --limit 7 -w "$OUT" || return 1
	(($(count "$OUT") == 7)) || return 1
	"$PACKRACK" query --volume "$VOLUME" -c 1.2k -w "$OUT" && (($(count "$OUT") == 1200))
}
run_step "a limit" limit
limit_explained() {
	"$PACKRACK" query --volume "$VOLUME" --limit 7 --explain > /dev/null 2> "$LAB_DIR/err"
	cat "$LAB_DIR/err"
	grep -q ": 7 match of [1-9][0-9]* packets, [1-9][0-9]* bytes" "$LAB_DIR/err"
}
run_step "and what was read up to it" limit_explained
run_step "broken off, it counts what it gave" broken_off "$PACKRACK" query --volume "$VOLUME"
run_step "a link that is not there is said" says 3 "link eth7, the beginning to 20" "$PACKRACK" query --volume "$VOLUME" --link eth7

reader_gone() {
	set -o pipefail
	"$PACKRACK" query --volume "$VOLUME" 2> "$LAB_DIR/err" | head -n 1 > /dev/null
	local rc=$?
	set +o pipefail
	((rc == 0)) && [ ! -s "$LAB_DIR/err" ]
}
run_step "ends quietly when nobody reads on" reader_gone

# A file system without room: the message has the file's name.
no_room() {
	mkdir "$LAB_DIR/full" && mount -t tmpfs -o size=64k none "$LAB_DIR/full" || return 1
	says 1 "writing $LAB_DIR/full/out.pcapng: No space left" "$PACKRACK" export --volume "$VOLUME" -w "$LAB_DIR/full/out.pcapng"
	local rc=$?
	umount "$LAB_DIR/full"
	return "$rc"
}
[ "$(id -u)" != 0 ] || run_step "a full disk: the file is named" no_room

two_types() {
	"$PACKRACK" import "$DATA/c-odd/libtrace__100_packets.pcap" \
		"$DATA/c-odd/libtrace__100_sll.pcap" --volume "$LAB_DIR/two.vol" --create 64M || return 1
	exits 1 "$PACKRACK" export --volume "$LAB_DIR/two.vol" --format pcap -w "$OUT" 2> "$LAB_DIR/err"
	grep -q -- --link "$LAB_DIR/err" || return 1
	"$PACKRACK" export --volume "$LAB_DIR/two.vol" --format pcap --link 1 -w "$OUT" || return 1
	(($(count "$OUT") == 100)) || return 1
	"$PACKRACK" export --volume "$LAB_DIR/two.vol" --link libtrace__100_packets.pcap -w "$OUT" || return 1
	(($(count "$OUT") == 100))
}
[ ! -f "$DATA/c-odd/libtrace__100_sll.pcap" ] || run_step "two link types" two_types

several() {
	local i volumes=()
	for i in 0 1 2; do
		"$PACKRACK" import "$DATA"/b-attack/pcaps__[TU]*_SCAN.pcap --volume "$LAB_DIR/v$i" \
			--create 64M || return 1
		volumes+=(--volume "$LAB_DIR/v$i")
	done
	"$PACKRACK" query "${volumes[@]}" --count > "$LAB_DIR/n" || return 1
	(($(cat "$LAB_DIR/n") == 3 * ($(count "$DATA/b-attack/pcaps__TCP_SYN_SCAN.pcap") + \
		$(count "$DATA/b-attack/pcaps__UDP_SCAN.pcap"))))
}
[ ! -f "$DATA/b-attack/pcaps__UDP_SCAN.pcap" ] || run_step "several volumes at once" several

scanned() { # VOLUME FILTER: "matched scanned"
	"$PACKRACK" query --volume "$1" --count --json "$2" 2> /dev/null |
		python3 -c 'import json, sys; a = json.load(sys.stdin); print(a["matched"], a["scanned_segments"])'
}
# Both are in many segments, but not in one packet; what was indexed before is found all the same.
composite() {
	local cut=$DATA/mix-gateway-hdr96-a.pcap never='src host 10.10.10.5 and tcp dst port 80' before after f
	"$PACKRACK" import "$cut" --volume "$LAB_DIR/mixed.vol" --create 64M || return 1
	before=$(scanned "$LAB_DIR/mixed.vol" "$never")
	"$PACKRACK" import "$cut" --volume "$LAB_DIR/mixed.vol" --composite src+dport,src+dst+sport || return 1
	after=$(scanned "$LAB_DIR/mixed.vol" "$never")
	echo "$before, then $after"
	[ "$before" = "$after" ] && ((${after#* } > 10)) || return 1
	for f in 'src host 10.10.10.5 and tcp src port 80' 'src host 10.63.7.79 and dst port 443' \
		'src host 10.10.10.5 and dst host 172.18.39.5 and tcp src port 80' 'src net 10.0.0.0/8 and dst port 53'; do
		after=$(scanned "$LAB_DIR/mixed.vol" "$f")
		((${after% *} == 2 * $(count "$cut" "$f") && ${after% *} > 0)) || { echo "$f: $after"; return 1; }
	done
	exits 2 "$PACKRACK" import "$cut" --volume "$LAB_DIR/mixed.vol" --composite src+port
}
run_step "composite keys: in new records, beside old ones" composite

evicted() {
	"$PACKRACK" import "$MIX" "$DATA/mix-gateway-hdr96-a.pcap" "$MIX" \
		--volume "$LAB_DIR/small.vol" --create 16M --overwrite || return 1
	exits 3 "$PACKRACK" export --volume "$LAB_DIR/small.vol" -w "$OUT" 2> "$LAB_DIR/err" || return 1
	cat "$LAB_DIR/err"
	grep -q overwritten "$LAB_DIR/err" && ! grep -q missing "$LAB_DIR/err"
}
run_step "a full volume says what is gone" evicted
# Secrets of a pcapng do not get into a volume, and that is said; packets do.
with_secrets() {
	local keys="CLIENT_RANDOM 00 00"
	echo "$keys" > "$LAB_DIR/keys.txt"
	editcap --inject-secrets "tls,$LAB_DIR/keys.txt" -F pcapng "$MIX" "$LAB_DIR/secret.pcapng" || return 1
	grep -qaF "$keys" "$LAB_DIR/secret.pcapng" || return 1
	"$PACKRACK" import "$LAB_DIR/secret.pcapng" --volume "$LAB_DIR/secret.vol" --create 64M --json > "$LAB_DIR/said.json" 2> "$LAB_DIR/said" || return 1
	cat "$LAB_DIR/said"
	[ "$(wc -l < "$LAB_DIR/said")" = 1 ] && grep -qF "secret.pcapng: decryption secrets (1 blocks) are left out" "$LAB_DIR/said" &&
		grep -qE '"secrets_left_out": *1[^0-9]' "$LAB_DIR/said.json" &&
		! grep -qaF "$keys" "$LAB_DIR/secret.vol" &&
		"$PACKRACK" export --volume "$LAB_DIR/secret.vol" -w "$OUT" && "$COMPARE" -q "$MIX" "$OUT"
}
if command -v editcap > /dev/null; then
	run_step "decryption secrets are left out, and one line says so" with_secrets
fi
from_a_pipe() {
	"$PACKRACK" import - --volume "$LAB_DIR/pipe.vol" --create 64M < <(cat "$MIX") &&
		"$PACKRACK" export --volume "$LAB_DIR/pipe.vol" -w "$OUT" && "$COMPARE" -q "$MIX" "$OUT"
}
run_step "a trace from a pipe" from_a_pipe
# ---- trace files without a volume ----
from_files() {
	local f
	gzip -c "$MIX" > "$LAB_DIR/mix.pcap.gz" && zstd -q "$MIX" -o "$LAB_DIR/mix.pcap.zst" || return 1
	for f in "$MIX" "$LAB_DIR/mix.pcap.gz" "$LAB_DIR/mix.pcap.zst"; do
		"$PACKRACK" export -r "$f" -w "$OUT" tcp || return 1
		tcpdump --nano -r "$MIX" -w "$LAB_DIR/want.pcap" tcp 2> /dev/null
		"$COMPARE" -q "$LAB_DIR/want.pcap" "$OUT" || { echo "$f"; return 1; }
	done
	"$PACKRACK" export -r - -w "$OUT" < "$LAB_DIR/mix.pcap.gz" && "$COMPARE" -q "$MIX" "$OUT"
}
run_step "a trace file, also compressed, is asked like tcpdump -r" from_files
# What a volume answers, a file answers: lines, counts, related packets, rate, top.
as_volume() {
	local from what
	for what in "query udp" "query --count --related icmp" "rate --step 1m tcp" "top port" \
		"query --count after 2024-03-05T09:01Z and before 2024-03-05T09:02Z"; do
		for from in "-r $MIX" "--volume $VOLUME"; do
			# shellcheck disable=SC2086 # words
			"$PACKRACK" ${what%% *} $from ${what#* } > "$LAB_DIR/${from%% *}" || return 1
		done
		{ [ -s "$LAB_DIR/-r" ] && cmp "$LAB_DIR/-r" "$LAB_DIR/--volume"; } || { echo "$what"; return 1; }
	done
}
run_step "and as the volume into which it was imported" as_volume
several_files() {
	"$PACKRACK" query --count -r "$MIX" -r "$DATA/mix-gateway-hdr96-a.pcap" > "$LAB_DIR/n" || return 1
	(($(cat "$LAB_DIR/n") == $(count "$MIX") + $(count "$DATA/mix-gateway-hdr96-a.pcap")))
}
run_step "several at once" several_files
head -c 60000 "$LAB_DIR/mix.pcap.gz" > "$LAB_DIR/cut.pcap.gz"
run_step "of a damaged one what can be read" says 3 "damaged: $LAB_DIR/cut.pcap.gz: packet" "$PACKRACK" query --count -r "$LAB_DIR/cut.pcap.gz"
run_step "which never is overwritten" says 1 "is read and written" "$PACKRACK" export -r "$LAB_DIR/cut.pcap.gz" -w "$LAB_DIR/cut.pcap.gz"
# Files are rotated as by tcpdump: the same names, the same packets in each.
rotated() { # OPTION...
	local f
	rm -rf "$LAB_DIR/ours" "$LAB_DIR/theirs" && mkdir "$LAB_DIR/ours" "$LAB_DIR/theirs" || return 1
	"$PACKRACK" export -r "$MIX" --format pcap -w "$LAB_DIR/ours/x" "$@" || return 1
	tcpdump -r "$MIX" -Z "$(id -un)" -w "$LAB_DIR/theirs/x" "$@" 2> /dev/null
	diff <(ls "$LAB_DIR/ours") <(ls "$LAB_DIR/theirs") || return 1
	for f in "$LAB_DIR"/ours/*; do
		cmp <(tcpdump -ttner "$f" 2> /dev/null) <(tcpdump -ttner "$LAB_DIR/theirs/${f##*/}" 2> /dev/null) || return 1
	done
}
run_step "files by size, as tcpdump -C" rotated -C 2
run_step "a ring of files, as tcpdump -C -W" rotated -C 1 -W 5
with_unit() {
	rm -rf "$LAB_DIR/ours" && mkdir "$LAB_DIR/ours" && "$PACKRACK" export -r "$MIX" --format pcap -C 3000K -w "$LAB_DIR/ours/x" || return 1
	local size
	size=$(stat -c %s "$LAB_DIR/ours/x2")
	((size > 3000 * 1024 && size < 3000 * 1024 + 10000))
}
run_step "by a size with a unit" with_unit
by_time() {
	local f sum=0
	rm -rf "$LAB_DIR/ours" && mkdir "$LAB_DIR/ours" || return 1
	TZ=Asia/Kolkata "$PACKRACK" export -r "$MIX" -G 60 -w "$LAB_DIR/ours/x-%Y%m%d-%H%M%S.pcapng" || return 1
	ls "$LAB_DIR/ours"
	for f in "$LAB_DIR"/ours/*; do
		[ "$(TZ=Asia/Kolkata tcpdump -r "$f" -c 1 -ttttn 2> /dev/null | sed 's/[-:]//g; s/ /-/; s/\..*//')" = \
			"$(basename "$f" .pcapng | cut -c3-)" ] || { echo "$f"; return 1; }
		((sum += $(count "$f")))
	done
	((sum == $(count "$MIX"))) && says 0 "2 files are written" "$PACKRACK" export -r "$MIX" -G 60 -W 2 -w "$LAB_DIR/ours/y-%H%M%S" &&
		(($(find "$LAB_DIR/ours" -name 'y-*' | wc -l) == 2))
}
run_step "files by the packets' time" by_time
run_step "a time that is too coarse" says 1 "would overwrite itself" "$PACKRACK" export -r "$MIX" -G 60 -w "$LAB_DIR/ours/z-%Y"
run_step "and a name without time" says 2 "-G needs a time" "$PACKRACK" export -r "$MIX" -G 60 -w "$LAB_DIR/ours/z"

import_packed() {
	"$PACKRACK" import "$LAB_DIR/mix.pcap.zst" --volume "$LAB_DIR/packed.vol" --create 64M &&
		"$PACKRACK" export --volume "$LAB_DIR/packed.vol" -w "$OUT" && "$COMPARE" -q "$MIX" "$OUT" &&
		exits 3 "$PACKRACK" import "$LAB_DIR/cut.pcap.gz" --volume "$LAB_DIR/packed.vol"
}
run_step "import takes compressed files too" import_packed

progress() { # on a terminal, of an import that goes on for more than two seconds
	python3 - "$PACKRACK" "$LAB_DIR/slow.vol" "$MIX" <<- 'P'
		import os, pty, re, select, subprocess, sys, time
		ours, theirs = pty.openpty()
		with open(sys.argv[3], "rb") as f:
		    data = f.read(500000)
		p = subprocess.Popen([sys.argv[1], "import", "-", "--volume", sys.argv[2], "--create", "64M"],
		                     stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=theirs)
		said, at, end = b"", 1000, time.monotonic() + 10
		p.stdin.write(data[:at])
		while not re.search(rb"-: \d+ packets, \d+/s", said) and time.monotonic() < end:
		    p.stdin.write(data[at:at + 1000])
		    p.stdin.flush()
		    at += 1000
		    if select.select([ours], [], [], 0.05)[0]:
		        said += os.read(ours, 4096)
		p.stdin.close()
		p.wait()
		sys.exit(time.monotonic() >= end and said)
	P
}
run_step "progress and rate on a terminal" progress

# ---- what cannot be read, and what was imported before ----

made_nothing() { # STATUS TEXT FILE...
	local want=$1 text=$2
	shift 2
	exits "$want" "$PACKRACK" import "$@" --volume "$LAB_DIR/new.vol" --create 64M < /dev/null > "$LAB_DIR/said" 2>&1 ||
		{ cat "$LAB_DIR/said"; return 1; }
	grep -F "$text" "$LAB_DIR/said" && [ "$(wc -l < "$LAB_DIR/said")" = 1 ] && [ ! -e "$LAB_DIR/new.vol" ]
}
: > "$LAB_DIR/empty.pcap"
echo "this is no trace" > "$LAB_DIR/text.pcap"
run_step "a file that is missing: nothing is made, nothing is stored" made_nothing 1 "No such file" "$MIX" "$LAB_DIR/none.pcap"
run_step "nor of one that is empty" made_nothing 1 "empty.pcap" "$MIX" "$LAB_DIR/empty.pcap"
run_step "nor of one that is no trace" made_nothing 1 "text.pcap" "$LAB_DIR/text.pcap"
run_step "nor of an empty pipe" made_nothing 1 "cannot read -" -
cut_off() {
	head -c 500000 "$MIX" > "$LAB_DIR/cut.pcap"
	exits 3 "$PACKRACK" import "$LAB_DIR/cut.pcap" --volume "$LAB_DIR/again.vol" --create 256M
}
run_step "a file that is cut off: exit status 3" cut_off
again() { # STATUS TEXT ARGUMENT...: what is said of an earlier import; nothing, if TEXT is -
	local want=$1 text=$2
	shift 2
	exits "$want" "$PACKRACK" import "$@" --volume "$LAB_DIR/again.vol" > "$LAB_DIR/said" 2>&1 || { cat "$LAB_DIR/said"; return 1; }
	cat "$LAB_DIR/said"
	if [ "$text" = - ]; then ! grep "imported before" "$LAB_DIR/said"; else grep -q "imported before, as $text" "$LAB_DIR/said"; fi
}
# as long as the first, and one byte of its last packet is another
{ head -c -1 "$MIX"; tail -c 1 "$MIX" | tr '\0-\377' '\1-\377\0'; } > "$LAB_DIR/other.pcap"
cp "$MIX" "$LAB_DIR/copy.pcap"
run_step "a new file: nothing is said" again 0 - "$MIX"
run_step "the same file: said" again 0 "$(basename "$MIX") at 20.*Z (link 1" "$MIX"
run_step "by another name, too" again 0 "$(basename "$MIX") at " "$LAB_DIR/copy.pcap"
run_step "and from a pipe" again 0 "$(basename "$MIX") at " - < <(cat "$MIX")
run_step "a file that differs in a byte: nothing is said" again 0 - "$LAB_DIR/other.pcap"
run_step "a damaged one a second time" again 3 "cut.pcap at " "$LAB_DIR/cut.pcap"
in_json() {
	"$PACKRACK" import "$MIX" --volume "$LAB_DIR/again.vol" --json 2> /dev/null |
		python3 -c 'import json, sys; e = json.load(sys.stdin)["files"][0]["earlier"]; sys.exit(e["link"] != 1 or not e["packets"])'
}
run_step "and in JSON" in_json
done_testing
