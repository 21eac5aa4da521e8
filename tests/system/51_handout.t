#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Packets for those who may not know whose they are: the role read-anonymized, and limits of users.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpdump jq
need_programs packrack packrack-stage packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_python
need_data
new_lab
export PACKRACK=$BUILD/packrack
KEYS=$LAB_DIR/keys
FULL=$DATA/mix-gateway-full-a.pcap

"$PACKRACK" keys anonymize "$LAB_DIR/a.key"
chown "$DAEMON_USER" "$LAB_DIR/a.key" 2> /dev/null
mkdir "$LAB_DIR/audit"
for_daemons "$LAB_DIR/audit"
cat > "$LAB_DIR/packrack.conf" << END
[merger]
anonymize-key = $LAB_DIR/a.key
audit = $LAB_DIR/audit/a.vol
limit = bob links=tap0 max-age=1h max-rate=2M
limit = carl links=tap7
limit = dan max-age=1s
END

member() { # NAME ROLE
	"$PACKRACK" keys generate --key-dir "$KEYS/$1" 2> /dev/null |
		"$PACKRACK" keys enroll "$1" "$2" - --key-dir "$KEYS/head" --bundle - |
		"$PACKRACK" keys join - --key-dir "$KEYS/$1"
}
by() { # NAME CMD
	PACKRACK_KEY=$KEYS/$1 timeout 300 "${@:2}"
}

run_step "a rack" "$RACK" up -n 3
run_step "a user who reads anonymized" member eve read-anonymized
members() { member ann read && member bob read && member carl read && member dan read; }
run_step "others" members
tcpdump -nr "$FULL" -w "$LAB_DIR/played.pcap" 'less 1514' 2> /dev/null
"$RACK" play "$LAB_DIR/played.pcap" --pps=8000 --quiet > /dev/null 2>&1
run_step "recorded" "$RACK" drain --keep-running --timeout 120

same_as_stage() {
	by ann "$PACKRACK" query -w "$LAB_DIR/all.pcapng" -q &&
		"$PACKRACK" stage anonymize -o key="$LAB_DIR/a.key" -r "$LAB_DIR/all.pcapng" -q -w "$LAB_DIR/want.pcapng" &&
		by eve "$PACKRACK" query -w "$LAB_DIR/have.pcapng" &&
		"$COMPARE" "$LAB_DIR/want.pcapng" "$LAB_DIR/have.pcapng"
}
run_step "what she gets is what the stage gives" same_as_stage
filters() {
	local filter
	for filter in tcp 'udp port 53' 'net 0.0.0.0/1' 'ip[8] < 64' arp 'greater 200 and not ip6'; do
		[ "$(by eve "$PACKRACK" query --count "$filter" 2> /dev/null)" = "$(tcpdump -nr "$LAB_DIR/want.pcapng" --count "$filter" 2> /dev/null | tail -n 1 | cut -d ' ' -f 1)" ] || { echo "$filter"; return 1; }
	done
}
run_step "filters are of what she gets" filters
limited() {
	by eve "$PACKRACK" query -c 7 tcp 2>&1 | tail -n 9
	by eve "$PACKRACK" top host 2>&1 | head -n 9
	[ "$(by eve "$PACKRACK" query -c 7 tcp 2> /dev/null | wc -l)" = 7 ] &&
		[ "$(by eve "$PACKRACK" top host 2> /dev/null | wc -l)" -gt 5 ] &&
		[ "$(by eve "$PACKRACK" flows 2> /dev/null | wc -l)" -gt 500 ]
}
run_step "a number of packets, and sums" limited
run_step "ways to see an original address" by eve tests/system/handout_ways.py "$LAB_DIR/played.pcap" "$LAB_DIR/a.key" "$LAB_DIR"
run_step "the dispatcher tells her nothing" bash -c "PACKRACK_KEY=$KEYS/eve '$PACKRACK' status -d $PACKRACK_DISPATCHER 2>&1 | grep -q 'read-anonymized'"

of_bob() {
	local before=$SECONDS size
	size=$(by bob "$PACKRACK" query --link tap0 --since "59m ago" -w - 2> "$LAB_DIR/err" | wc -c)
	echo "$size bytes in $((SECONDS - before)) s"
	((size > 8000000 && SECONDS - before >= 2))
}
run_step "a rate" of_bob
says_by() { # NAME STATUS TEXT CMD
	PACKRACK_KEY=$KEYS/$1 says "${@:2}"
}
run_step "a link that he may not read" says_by carl 1 "choose one of tap7" "$PACKRACK" query --count --link tap0
run_step "his own one" says_by carl 3 "link tap7" "$PACKRACK" query --count --link tap7
run_step "packets that are too old for him" says_by dan 1 "ask for those" "$PACKRACK" query --count --until "2m ago"
run_step "a question for more than he may read" says_by bob 1 "ask for those" "$PACKRACK" query --count --link tap0
run_step "for all links" says_by bob 1 "choose one of tap0" "$PACKRACK" query --count --since "10m ago"
run_step "no limit for others" says_by ann 0 "complete" "$PACKRACK" query --count

# ---- the audit ----

audited() {
	local lines
	"$PACKRACK" hold add leak host 10.0.0.1 > /dev/null && "$PACKRACK" hold release leak > /dev/null
	poll_until 5 bash -c "'$PACKRACK' audit '$LAB_DIR/audit/a.vol' | grep -q 'command .*leak'" || return 1
	"$PACKRACK" audit "$LAB_DIR/audit/a.vol" --json > "$LAB_DIR/audit.json"
	tail -n 3 "$LAB_DIR/audit.json"
	lines=$(by ann "$PACKRACK" query --count tcp 2> /dev/null)
	poll_until 5 bash -c "'$PACKRACK' audit '$LAB_DIR/audit/a.vol' -u ann --json | jq -es 'map(select(.event == \"end\" and .filter == \"tcp\" and .complete)) | length > 0 and .[-1].packets == $lines and .[-1].role == \"read\"'" &&
		jq -es 'map(select(.user == "dan" and .event == "refused" and (.why | test("ask for those")))) | length == 1' "$LAB_DIR/audit.json" &&
		jq -es 'map(select(.user == "eve" and .event == "query" and .role == "read-anonymized")) | length > 40' "$LAB_DIR/audit.json" &&
		jq -es 'map(select(.event == "query")) as $q | map(select(.event == "end")) as $e | ($q | length) == ($e | length) and ($q | map(.number) | sort) == ($e | map(.number) | sort)' "$LAB_DIR/audit.json"
}
run_step "each query has two records" audited
ranges() { # what was asked for is in the text, too
	by ann "$PACKRACK" query --count --link tap0 --since 2026-01-02T00:00:00Z --until 2026-01-03T00:00:00Z udp
	poll_until 5 bash -c "'$PACKRACK' audit '$LAB_DIR/audit/a.vol' | grep -E 'ann +query +#[0-9]+ udp of link tap0 since 2026-01-02T00:00:00.* until 2026-01-03T00:00:00'"
}
run_step "the text has link and times" ranges
survives() {
	"$RACK" kill merger && "$RACK" restart merger > /dev/null || return 1
	poll_until 20 by ann "$PACKRACK" query --count arp
	# but for those of the last moments before it
	"$PACKRACK" audit "$LAB_DIR/audit/a.vol" --json | head -n 60 | cmp - <(head -n 60 "$LAB_DIR/audit.json")
}
run_step "they survive kill -9" survives
run_step "a volume that is none" says 1 "README.md" "$PACKRACK" audit README.md
of_a_volume() { # also damaged
	local copy=$LAB_DIR/copy.vol at
	cp "$LAB_DIR/audit/a.vol" "$copy"
	[ -z "$("$PACKRACK" audit "$copy" --until 2001-02-03)" ] && "$PACKRACK" audit "$copy" --since 2001-02-03 | grep -q 'command .*leak' || return 1
	says 2 "packrack audit: --since: 'never' is not a time" "$PACKRACK" audit "$copy" --since never &&
		says 2 'usage: packrack audit VOLUME' "$PACKRACK" audit "$copy" b || return 1
	at=$(grep -abo '"event"' "$copy" | sed -n '3s/:.*//p')
	printf '\377' | dd of="$copy" bs=1 seek="$at" conv=notrunc status=none
	says 3 'packrack audit: 1 places are damaged or were overwritten' "$PACKRACK" audit "$copy" > /dev/null || return 1
	"$PACKRACK" volume create "$LAB_DIR/empty.vol" --size 64M && says 1 "packrack audit: $LAB_DIR/empty.vol has no records of an audit" "$PACKRACK" audit "$LAB_DIR/empty.vol"
}
run_step "a damaged one" of_a_volume
each_event() { # given by another reader beside it
	local node=$LAB_DIR/node
	mkdir "$node" && cp "$BUILD/packrack-node" "$BUILD/packrack_cli.py" "$node" || return 1
	cat > "$node/packrack" <<- 'END'
		#!/usr/bin/python3
		import sys
		assert sys.argv[1:] == ["volume", "records", "--raw", "--since=5m", "--", "-v", "audit"], sys.argv
		for text in ('{"time":"T1","event":"query","user":"ann","filter":"tcp","link":"tap0","since":"S","until":"U","number":7}',
		             '{"time":"T2","event":"query","user":"bob","follow":true,"number":8}', "", 5,
		             '{"time":"T3","event":"end","user":"bob","number":8,"packets":12,"complete":true,"cancelled":false}',
		             '{"time":"T4","event":"end","user":"ann","number":7,"filter":"tcp","packets":0,"complete":false}',
		             '{"time":"T5","event":"refused","user":"ann","filter":"u\\u00e4\\n","why":"ask for those"}', "[", "3",
		             '{"time":"T6","event":"command","user":"bob","verb":"hold","case":"leak"}'):
		    body = b"{}" if text == 5 else text.encode() + b"\0"
		    sys.stdout.buffer.write(b"%d 1 1 %d\n%s" % (text != "", len(body) * (text != ""), body * (text != "")))
	END
	chmod +x "$node/packrack"
	"$node/packrack-node" audit --since 5m -- -v > "$LAB_DIR/texts" 2> "$LAB_DIR/err"
	(($? == 3)) && grep -qx 'packrack audit: 1 places are damaged or were overwritten' "$LAB_DIR/err" || return 1
	diff "$LAB_DIR/texts" - <<- 'END' || return 1
		T1 ann          query   #7 tcp of link tap0 since S until U
		T2 bob          query   #8 all packets and new ones
		(a record that is not JSON)
		T3 bob          end     #8 all packets: 12 packets
		T4 ann          end     #7 tcp: 0 packets, not complete
		T5 ann          refused uä?: ask for those
		(a record that is not JSON)
		(a record that is not JSON)
		T6 bob          command hold  leak
	END
	[ "$("$node/packrack-node" audit --since 5m -u ann --json -- -v 2> /dev/null | jq -rR 'fromjson? | objects | .time' | tr '\n' ' ')" = "T1 T4 T5 " ]
}
run_step "each kind of record" each_event
# ---- manifests ----

given() {
	local key
	by eve "$PACKRACK" export -w "$LAB_DIR/given.pcapng" --manifest -q tcp && cat "$LAB_DIR/given.pcapng.manifest" &&
		key=$("$PACKRACK" keys list --key-dir "$KEYS/head" --json | jq -r .manifest_key) &&
		says 0 "signed by $key" "$PACKRACK" compare "$LAB_DIR/given.pcapng" --manifest "$LAB_DIR/given.pcapng.manifest" --manifest-key "$key" &&
		head -n 1 "$LAB_DIR/given.pcapng.manifest" | jq -e '.user == "eve" and .role == "read-anonymized" and .filter == "tcp" and .complete and .packets > 1000'
}
run_step "an export and its manifest" given
changed() { # FILE OFFSET: one bit of it
	python3 - "$@" <<- 'END'
		import sys
		data = bytearray(open(sys.argv[1], "rb").read())
		data[int(sys.argv[2])] ^= 1
		open(sys.argv[1] + ".bad", "wb").write(data)
	END
}
altered() {
	local at size
	size=$(stat -c %s "$LAB_DIR/given.pcapng.manifest")
	for at in 1 20 $((size / 2)) $((size - 150)) $((size - 20)) $((size - 1)); do
		changed "$LAB_DIR/given.pcapng.manifest" "$at"
		says 1 "different" "$PACKRACK" compare "$LAB_DIR/given.pcapng" --manifest "$LAB_DIR/given.pcapng.manifest.bad" || return 1
	done
	size=$(stat -c %s "$LAB_DIR/given.pcapng")
	changed "$LAB_DIR/given.pcapng" $((size / 2))
	"$PACKRACK" compare "$LAB_DIR/given.pcapng.bad" --manifest "$LAB_DIR/given.pcapng.manifest" && return 1
	tcpdump -r "$LAB_DIR/given.pcapng" -w "$LAB_DIR/less.pcap" --time-stamp-precision=nano -c 100 2> /dev/null
	says 1 "100 packets" "$PACKRACK" compare "$LAB_DIR/less.pcap" --manifest "$LAB_DIR/given.pcapng.manifest" &&
		says 1 "another key" "$PACKRACK" compare "$LAB_DIR/given.pcapng" --manifest "$LAB_DIR/given.pcapng.manifest" --manifest-key 00
}
run_step "one bit of it, or of the packets, is changed" altered
run_step "where there is none" says 2 "does not go together with --volume, -r" "$PACKRACK" query --manifest -r "$FULL" -w "$LAB_DIR/x.pcapng"
run_step "a key without a manifest" says 2 "--manifest-key needs --manifest" "$PACKRACK" compare "$FULL" --manifest-key 00
run_step "a manifest of two traces" says 2 "leave out" "$PACKRACK" compare "$FULL" "$FULL" --manifest x

bad() { # TEXT LINES
	printf '[merger]\n%s\n' "$2" > "$LAB_DIR/bad.conf"
	says 2 "$1" "$BUILD/packrack-merger" --config "$LAB_DIR/bad.conf" --listen "ipc://$LAB_DIR/x.sock"
}
run_step "a policy without a key" bad "without anonymize-key" "anonymize-policy = /dev/null"
echo x > "$LAB_DIR/none.key"
chmod 600 "$LAB_DIR/none.key"
run_step "a key that is none" bad "hex digits" "anonymize-key = $LAB_DIR/none.key"
run_step "a limit that is none" bad "max-age" "limit = ann max-age=soon"
run_step "a limit of nobody" bad "USER" "limit = ann"

done_testing
