#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Volumes looked after from the command line: show, records, dump, permissions, damage found and dropped.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_commands jq tcpdump
need_programs packrack
new_lab
PACKRACK=$BUILD/packrack
cd "$LAB_DIR" || exit 1

says() { # TEXT STATUS CMD...
	local text=$1 want=$2 rc=0 out
	shift 2
	out=$("$@" 2>&1) || rc=$?
	if ((rc != want)) || ! grep -q -- "$text" <<< "$out"; then
		echo "status $rc: $out"
		return 1
	fi
}
volume() {
	"$PACKRACK" volume "$@"
}
poke() { # FILE OFFSET: changes a byte, whatever it was
	local now
	now=$(od -An -tu1 -j "$2" -N1 "$1" | tr -d ' ')
	printf '%b' "\\x$(printf %x $((now ^ 0x55)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

if [ -x "$BUILD/tests/examples/streamfs_example" ]; then
	run_step "the library's example" says "readings: 1000" 0 "$BUILD/tests/examples/streamfs_example" example.vol
	run_step "what it made is whole" says '"records": 1010' 0 volume check example.vol --json
fi

"$TOP/tests/system/numbered.py" make trace.pcap 40000
run_step "import" "$PACKRACK" import trace.pcap --volume v --create 64M

shown() {
	volume show v --json > show.json || return 1
	jq -e '.streams == (.stream_list | length) and .devices == ["v"] and .forecast.wrapped == false
		and .forecast.bytes_per_second > 0 and .forecast.until_full > 0
		and (.stream_list[] | select(.name == "packets.0") | .bytes > 1000000 and .blocks > 0)' show.json
}
run_step "show says what it holds and for how long" shown

handle() { # NUMBER
	volume records v packets.0 --json | jq -r ".records[$1].handle"
}
dumped() {
	volume dump v "$(handle 0)" --json | jq -e '.stream == "packets.0" and .sequence == 1' || return 1
	local length
	length=$(volume dump v "$(handle 0)" --json | jq .length)
	(($(volume dump v "$(handle 0)" --raw | wc -c) == length)) || return 1
	volume dump v "$(handle 0)" | grep -q '|PSEG'
}
run_step "a record by its handle: header, bytes, raw" dumped
all_raw() { # each with its body, whose length its line has
	python3 - "$PACKRACK" <<- 'END'
		import json, subprocess, sys
		def run(*words):
		    return subprocess.run([sys.argv[1], "volume", *words], stdout=subprocess.PIPE, check=True).stdout
		records, raw = json.loads(run("records", "v", "packets.0", "--json"))["records"], run("records", "v", "packets.0", "--raw")
		assert len(records) > 1 and json.loads(run("records", "v", "packets.0", "--json", "--since", "@9999999999"))["records"] == []
		for r in records:
		    head = "%d %d %d %d\n" % (r["sequence"], r["min_time"], r["max_time"], r["length"])
		    assert raw.startswith(head.encode() + run("dump", "v", r["handle"], "--raw")), head
		    raw = raw[len(head) + r["length"]:]
		    alone = json.loads(run("records", "v", "packets.0", "--json", *("--%s=@%d.%09d" % (w, *divmod(r[m], 10**9)) for w, m in (("since", "max_time"), ("until", "max_time")))))
		    assert r in alone["records"] and len(alone["records"]) < len(records), alone
		assert raw == b""
	END
}
run_step "records with their bodies, and of a time range" all_raw
GOOD=$(handle 1)
BAD=${GOOD%??}00
[ "$BAD" != "$GOOD" ] || BAD=${GOOD%??}01
run_step "a made-up handle" says forged 1 volume dump v "$BAD"
run_step "no handle at all" says "not a handle" 2 volume dump v nonsense
run_step "a stream that is not there" says "no stream" 1 volume records v nothing

# ---- permissions: of what is appended from now on ----
permitted() {
	local before
	before=$(volume records v ledger | wc -l)
	volume streams v --permission ledger=0x6 --json |
		jq -e '.streams[] | select(.name == "ledger") | .permission == 6' || return 1
	"$PACKRACK" import trace.pcap --name again --volume v || return 1
	(($(volume records v ledger | wc -l) > before)) || { echo "nothing more"; return 1; }
	(($(volume records v ledger --permission 1 | wc -l) == before)) || { echo "given"; return 1; }
	(($(volume records v ledger --permission 7 | wc -l) > before)) || { echo "not given"; return 1; }
	local last
	last=$(volume records v ledger --json | jq -r '.records[-1].handle')
	volume dump v "$last" --permission 6 > /dev/null || return 1
	says "permission denied" 1 volume dump v "$last" --permission 1
}
run_step "records ask for the bits that their stream was given" permitted
refute_step "only streams that are there" 1 volume streams v --permission nothing=1
refute_step "and only bits" 2 volume streams v --permission ledger=all

# ---- damage ----
run_step "nothing is wrong" says "fault count: 0" 0 volume check v
RECORD=$(volume dump v "$GOOD" --json)
BLOCK_SIZE=$(jq .block_size show.json)
# roots lie in the first 512 KiB, the blocks behind the next multiple of their size
START=$((BLOCK_SIZE > 524288 ? BLOCK_SIZE : 524288))
AT=$((START + $(jq .block <<< "$RECORD") * BLOCK_SIZE + $(jq .offset <<< "$RECORD")))
PACKETS=$("$PACKRACK" query --volume v --count)
volume records v packets.1 > before.txt
poke v $((AT + 200))
found() {
	says '"fault": "record"' 3 volume check v --json || return 1
	volume check v --json > faults.json
	jq -e --argjson at "$AT" '.fault_count == 1 and (.faults[0] | .device == "v" and .position == $at
		and .stream == "packets.0" and .first_record == 2 and .last_record == 2)' faults.json
}
run_step "a changed byte of a record is found, and named" found
run_step "the record is not given" says damaged 1 volume dump v "$GOOD"
listed() { # what is behind it is there
	says "damaged in 1 places" 1 volume records v packets.0 || return 1
	volume records v packets.0 --raw > records.raw && [ "$(grep -ac '0 0 0 0$' records.raw)" = 1 ] && grep -aq '^3 [0-9]* [0-9]* [0-9]*$' records.raw
}
run_step "nor in a list" listed
dropped() {
	volume check v --repair --json > repaired.json || return 1
	jq -e '.fault_count == 1 and .dropped_records == 1 and .faults_left == 0' repaired.json
}
run_step "and dropped" dropped
run_step "then it is gone" says expired 1 volume dump v "$GOOD"
run_step "and no fault any more" says "fault count: 0" 0 volume check v
others_there() {
	volume records v packets.1 | cmp before.txt - || return 1
	local left
	left=$("$PACKRACK" query --volume v --count 2> /dev/null)
	((left > 0 && left < PACKETS)) || { echo "$left of $PACKETS"; return 1; }
}
run_step "the others are there" others_there

poke v 5000
run_step "a damaged root is found" says '"fault": "root"' 3 volume check v --json
run_step "and written anew" says "faults left: 0" 0 volume check v --repair
run_step "so that nothing is wrong" says "fault count: 0" 0 volume check v
run_step "to force is for repairs" says "is for --repair" 2 volume check v --force

cp v short
truncate -s 20M short
run_step "a device that was cut short is named" says "short: the volume needs" 1 volume check short

# ---- several devices ----
run_step "a volume of two devices" volume create a.vol,b.vol --size 64M
run_step "is filled" "$PACKRACK" import trace.pcap --volume a.vol,b.vol
run_step "nothing is wrong with it" says "fault count: 0" 0 volume check a.vol,b.vol
run_step "one that is not named is missing" says '"fault": "device"' 3 volume check b.vol --json
run_step "then nothing is dropped" says "missing" 1 volume check --repair b.vol
poke b.vol 262344
run_step "the device is named that is damaged" says "device: b.vol" 3 volume check a.vol,b.vol
run_step "and it is mended" says "faults left: 0" 0 volume check a.vol,b.vol --repair

# ---- beside a writer ----
writer_lives() {
	volume show v --json | jq -e .writer_alive > /dev/null
}
mkfifo stream.pcap
"$PACKRACK" import - --name live --volume v < stream.pcap > live.log 2>&1 &
WRITER=$!
exec 9> stream.pcap
head -c 400000 trace.pcap >&9
beside() {
	poll_until 20 writer_lives || { cat live.log; return 1; }
	volume check v > /dev/null || return 1
	says "one writer" 1 volume check v --repair
}
run_step "beside a writer there is a check, and no repair" beside
exec 9>&-
wait "$WRITER"
run_step "afterwards all is well" says "fault count: 0" 0 volume check v
cd "$TOP" || exit 1
done_testing
