#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Stages: each against a model of its own, on real captures; in shards, as a pipeline, over a rack, by a shared object.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tshark jq python3
need_programs packrack packrack-stage packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
new_lab
export PACKRACK=$BUILD/packrack
FULL=$DATA/mix-gateway-full-a.pcap
KEY=$LAB_DIR/a.key

# ---- count, flows, rtt ----

counts() { # OPTION...
	"$PACKRACK" stage count -r "$FULL" --json "$@" | jq -c '.stages.count | [.packets, .bytes, .protocol["6"].packets, .ethertype["0x86dd"].packets, .size["under 64"].packets, .size["over 1518"].packets]' > "$LAB_DIR/have"
	tshark -n -r "$FULL" -T fields -e frame.len -e frame.protocols -e eth.type -e ip.proto 2> /dev/null | python3 -c '
import sys
rows = [line.rstrip("\n").split("\t") for line in sys.stdin]
size = [int(r[0]) for r in rows]
print("%d,%d" % (len(size), sum(size)), sum(n < 64 for n in size), sum(n > 1518 for n in size))' > "$LAB_DIR/want"
	cat "$LAB_DIR/have" "$LAB_DIR/want"
	jq -r '"\(.[0]),\(.[1]) \(.[4]) \(.[5])"' "$LAB_DIR/have" | diff - "$LAB_DIR/want"
}
run_step "count adds up" counts
run_step "in shards" counts -j 3
run_step "as a pipeline" counts --pipeline

same_flows() { # OPTION...
	"$PACKRACK" stage flows -r "$FULL" --json "$@" | jq .stages.flows > "$LAB_DIR/stage.json"
	"$PACKRACK" flows -r "$FULL" --format json 2> /dev/null > "$LAB_DIR/flows.json"
	jq -s '[length, map(select(.proto == "tcp" or .protocol == 6)) | length]' "$LAB_DIR/flows.json"
	[ "$(jq .flows "$LAB_DIR/stage.json")" = "$(wc -l < "$LAB_DIR/flows.json")" ] &&
		[ "$(jq '.hash_chains | add' "$LAB_DIR/stage.json")" -gt 100 ]
}
run_step "flows are those of packrack flows" same_flows
run_step "in shards" same_flows -j 3

handshakes() { # OPTION...
	tshark -n -r "$FULL" -Y tcp.analysis.initial_rtt -T fields -e tcp.stream -e tcp.analysis.initial_rtt 2> /dev/null | sort -u -k 1,1n | wc -l > "$LAB_DIR/want"
	"$PACKRACK" stage rtt -r "$FULL" --json "$@" | jq .stages.rtt | tee "$LAB_DIR/rtt"
	cat "$LAB_DIR/want"
	# tshark has a value of a stream only where all three packets are there, as we have the client's
	jq -e --argjson want "$(cat "$LAB_DIR/want")" '.handshake_client.samples > $want * 0.95 and .handshake_client.samples < $want * 1.05 and .timestamps.samples > 1000' "$LAB_DIR/rtt"
}
run_step "round-trip times" handshakes

made_rtt() { # a connection of known times
	python3 - "$LAB_DIR/rtt.pcap" <<- 'END' || return 1
		import struct, sys
		sys.path.insert(0, "tests/system")
		import traces
		def tcp(src, dst, sport, dport, seq, ack, flags, value, echo, payload=b""):
		    options = struct.pack(">BBBBII", 1, 1, 8, 10, value, echo)
		    t = struct.pack(">HHIIBBHHH", sport, dport, seq, ack, 8 << 4, flags, 1000, 0, 0) + options + payload
		    ip = struct.pack(">BBHHHBBH4s4s", 69, 0, 20 + len(t), 0, 0, 64, 6, 0, src, dst)
		    return bytes(12) + b"\x08\x00" + ip + t
		a, b = bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))
		ms, packets = 10 ** 6, []
		def add(time, p):
		    packets.append((10 ** 18 + time * ms, p, len(p)))
		add(0, tcp(a, b, 1000, 80, 5, 0, 2, 1, 0))
		add(40, tcp(b, a, 80, 1000, 9, 6, 18, 70, 1))
		add(47, tcp(a, b, 1000, 80, 6, 10, 16, 48, 70))
		add(50, tcp(a, b, 1000, 80, 6, 10, 24, 51, 70, b"GET"))
		add(95, tcp(b, a, 80, 1000, 10, 9, 16, 125, 51))
		traces.write_pcap(sys.argv[1], packets)
	END
	"$PACKRACK" stage rtt -r "$LAB_DIR/rtt.pcap" --json | jq -c .stages.rtt | tee "$LAB_DIR/rtt"
	jq -e '.handshake_server.mean_us == 40000 and .handshake_client.mean_us == 7000 and .timestamps.mean_us == 45000 and .timestamps.samples == 1' "$LAB_DIR/rtt"
}
run_step "of known times" made_rtt

tests_of_fields() {
	"$PACKRACK" stage http -r "$FULL" --json -o 'test=dns:udp port 53' -o 'test=ttl:ip[8] < 32' -w "$LAB_DIR/http.pcapng" | jq -c .stages.http | tee "$LAB_DIR/http"
	[ "$(jq .test.dns.packets "$LAB_DIR/http")" = "$(tcpdump -nr "$FULL" --count 'udp port 53' 2> /dev/null | tail -n 1 | cut -d ' ' -f 1)" ] &&
		[ "$(jq .packets "$LAB_DIR/http")" = "$(tcpdump -nr "$LAB_DIR/http.pcapng" --count 'udp port 53 or ip[8] < 32' 2> /dev/null | tail -n 1 | cut -d ' ' -f 1)" ]
}
run_step "tests of header fields are tcpdump's" tests_of_fields

near() { # the truth is within three errors
	"$PACKRACK" stage count -r "$FULL" --json > "$LAB_DIR/all.json"
	"$PACKRACK" stage count -r "$FULL" --json --sample 10 > "$LAB_DIR/some.json"
	jq -c '[.stages.sampled, .stages.count.packets, .stages.count.packets_error]' "$LAB_DIR/some.json"
	jq -es '.[0].stages.count.packets as $t | .[1].stages.count | (.packets - $t | fabs) < .packets_error * 1.5 and .packets_error > 0 and .packets != $t' "$LAB_DIR/all.json" "$LAB_DIR/some.json"
}
run_step "a sample has its error" near

of_connections() { # packets that are not IP are multiplied, too
	"$PACKRACK" stage flows -r "$FULL" --json --sample 10 > "$LAB_DIR/some.json"
	jq -c '.stages.flows' "$LAB_DIR/some.json"
	jq -e '.stages.flows | .packets % 10 == 0 and .not_ip > 0 and .not_ip % 10 == 0 and has("flows_error")' "$LAB_DIR/some.json"
}
run_step "a sample of connections" of_connections

# ---- anonymize ----

run_step "a key" "$PACKRACK" keys anonymize "$KEY"
run_step "addresses are Crypto-PAn's" tests/system/anonymize_model.py addresses "${ADDRESSES:-3000}" "$KEY"
run_step "every capture: addresses in place, no MAC, no payload" tests/system/anonymize_model.py captures "$DATA" "$KEY" ${CUTOFF:+--tshark}
shards_equal() {
	"$PACKRACK" stage anonymize -o key="$KEY" -r "$FULL" -q -w "$LAB_DIR/one.pcapng" &&
		"$PACKRACK" stage anonymize -o key="$KEY" -j 3 -r "$FULL" -q -w - | cmp - "$LAB_DIR/one.pcapng"
}
run_step "shards give the same, in order" shards_equal
policy() {
	printf 'payload = keep\nshift = -1d\nports = map\nchecksums = fix\n' > "$LAB_DIR/policy"
	"$PACKRACK" stage anonymize -o key="$KEY" -o policy="$LAB_DIR/policy" -r "$FULL" -q -w "$LAB_DIR/kept.pcapng" &&
		"$PACKRACK" stage anonymize -o key="$KEY" -o policy="$LAB_DIR/policy" -r "$FULL" -q -w "$LAB_DIR/dns.pcapng" udp port 53 || return 1
	local bad
	bad=$(for f in "$FULL" "$LAB_DIR/kept.pcapng"; do
		tshark -n -r "$f" -o tcp.check_checksum:TRUE -o udp.check_checksum:TRUE -o ip.check_checksum:TRUE -Y 'ip.checksum.status == "Bad" || tcp.checksum.status == "Bad" || udp.checksum.status == "Bad"' 2> /dev/null | wc -l
	done)
	echo "bad checksums before and after: $bad"
	tshark -n -r "$LAB_DIR/kept.pcapng" -Y 'dns.a' -T fields -e dns.a -e dns.qry.name 2> /dev/null | head -n 3
	[ "$(tshark -n -r "$FULL" -Y 'dns && udp' 2> /dev/null | wc -l)" -gt 100 ] &&
		[ -z "$(comm -12 <(tshark -n -r "$FULL" -T fields -e dns.qry.name -Y 'udp.port == 53' 2> /dev/null | tr , '\n' | sort -u | awk 'length > 7') \
			<(tshark -n -r "$LAB_DIR/dns.pcapng" -T fields -e dns.qry.name -d udp.port==1-65535,dns 2> /dev/null | tr , "\n" | sort -u))" ] &&
		python3 -c 'import sys; a, b = map(int, sys.argv[1].split()); sys.exit(abs(a - b) > max(50, a * 0.1))' "$bad"
}
run_step "a policy: payload kept, checksums right where they were, names of DNS gone" policy
refuse_policy() { # TEXT LINE
	printf '%s\n' "$2" > "$LAB_DIR/bad"
	says 2 "$1" "$PACKRACK" stage anonymize -o key="$KEY" -o policy="$LAB_DIR/bad" -r "$FULL"
}
run_step "a bad policy" refuse_policy "payload" "payload = some"
run_step "an unknown key" refuse_policy "payloads" "payloads = cut"
chmod 644 "$KEY"
run_step "a key that others can read" says 2 "a.key" "$PACKRACK" stage anonymize -o key="$KEY" -r "$FULL"
chmod 600 "$KEY"
run_step "no key" says 2 "keys anonymize" "$PACKRACK" stage anonymize -r "$FULL"

# ---- detect, grep ----

run_step "alerts are a slow model's" tests/system/detect_model.py detect "${RULES:-40}" "$DATA"
run_step "grep finds what a search finds" tests/system/detect_model.py grep "$DATA"
refuse_rule() { # TEXT RULE
	printf '# a comment\n%s\n' "$2" > "$LAB_DIR/bad.rules"
	says 2 "bad.rules:2: " "$PACKRACK" stage detect -o rules="$LAB_DIR/bad.rules" -r "$FULL" &&
		says 2 "$1" "$PACKRACK" stage detect -o rules="$LAB_DIR/bad.rules" -r "$FULL"
}
run_step "an option that is not supported" refuse_rule "byte_test" 'alert tcp any any -> any any (byte_test:1,>,2,3; sid:1;)'
run_step "a flow option" refuse_rule "flow" 'alert tcp any any -> any any (flow:established; sid:1;)'
run_step "no sid" refuse_rule "no sid" 'alert tcp any any -> any any (msg:"x";)'
# shellcheck disable=SC2016 # a rule's variable
run_step "an unknown variable" refuse_rule 'HOME_NET' 'alert tcp $HOME_NET any -> any any (sid:1;)'
run_step "hex without an end" refuse_rule 'second |' 'alert tcp any any -> any any (content:"|41"; sid:1;)'
run_step "a look-behind" says 2 "pcre" "$PACKRACK" stage detect -o rules=<(echo 'alert tcp any any -> any any (pcre:"/(?<=a)b/"; sid:7;)') -r "$FULL"
# shellcheck disable=SC2016 # as there
skipped() {
	printf 'alert tcp any any -> any any (flow:established; sid:1;)\nalert tcp [10.0.0.0/8,!10.0.0.9] any -> $W [80,8080:8090] (msg:"web \\"q\\""; content:"GET"; sid:2;)\n' > "$LAB_DIR/some.rules"
	"$PACKRACK" stage detect -o rules="$LAB_DIR/some.rules" -o unknown=skip -o 'vars=W=[0.0.0.0/0]' -r "$FULL" > "$LAB_DIR/eve.json" 2> "$LAB_DIR/err"
	cat "$LAB_DIR/err"
	grep -q 'refused  *1' "$LAB_DIR/err" && grep -q 'some.rules:1: option flow' "$LAB_DIR/err" &&
		jq -es 'length > 10 and all(.[]; .alert.signature_id == 2 and .community_id)' "$LAB_DIR/eve.json"
}
run_step "rules that are skipped are told" skipped
of_volume() {
	"$PACKRACK" import "$FULL" --volume "$LAB_DIR/v" --create 64M > /dev/null || return 1
	"$PACKRACK" grep 'GET /' --volume "$LAB_DIR/v" tcp port 80 | wc -l | tee "$LAB_DIR/n"
	[ "$(cat "$LAB_DIR/n")" -gt 100 ]
}
run_step "grep of a volume" of_volume

# ---- users' stages, pipes, bad usage ----

own_stage() {
	gcc -shared -fPIC -I indexer/stages -o "$LAB_DIR/large.so" tests/examples/stage_example.c || return 1
	"$PACKRACK" stage "$LAB_DIR/large.so" -o than=1000 -r "$FULL" -j 2 --json -w "$LAB_DIR/large.pcapng" | jq -c .stages.large
	[ "$(tcpdump -nr "$LAB_DIR/large.pcapng" --count 2> /dev/null | tail -n 1 | cut -d ' ' -f 1)" = "$(tcpdump -nr "$FULL" --count 'greater 1001' 2> /dev/null | tail -n 1 | cut -d ' ' -f 1)" ]
}
run_step "a stage of one's own" own_stage
run_step "from a pipe" bash -c "'$PACKRACK' query -r '$FULL' -w - udp 2> /dev/null | '$PACKRACK' stage count -q --json - | jq -e '.stages.count.protocol | keys == [\"17\"]'"
run_step "no such stage" says 2 "no stage nothing" "$PACKRACK" stage nothing -r "$FULL"
run_step "a file that is none" says 2 "cannot load" "$PACKRACK" stage ./README.md -r "$FULL"
run_step "a stage behind one that gives nothing" says 2 "gives no packets" "$PACKRACK" stage count,flows -r "$FULL"
run_step "--live of the past" says 2 "--live takes all links" "$PACKRACK" stage count --live v --since 1m
run_step "no stage" says 2 "no stage given" "$PACKRACK" stage
run_step "no such option" says 2 "no such option" "$PACKRACK" stage count -o key=1 -r "$FULL"
run_step "the reader has gone" bash -c "'$PACKRACK' grep e -r '$FULL' 2> /dev/null | head -n 1; exit \${PIPESTATUS[0]}"

# ---- over a rack ----

run_step "a rack of three" "$RACK" up -n 3
"$RACK" play "$FULL" --pps=8000 --quiet > /dev/null 2>&1
of_rack() {
	"$PACKRACK" stage count -j 2 --json > "$LAB_DIR/rack.json" 2> "$LAB_DIR/err" || { cat "$LAB_DIR/err"; return 1; }
	jq -c '[.stages.count.packets, .completeness.complete]' "$LAB_DIR/rack.json"
	[ "$(jq -r '"\(.stages.count.packets) \(.completeness.complete)"' "$LAB_DIR/rack.json")" = "$("$PACKRACK" query --count 2> /dev/null) true" ] &&
		[ "$(jq .stages.count.packets "$LAB_DIR/rack.json")" -gt 39000 ] &&
		"$PACKRACK" grep 'GET /' tcp port 80 2> /dev/null | wc -l | diff - "$LAB_DIR/n"
}
run_step "stages over the rack" of_rack

# ---- on a link as it is recorded ----

stored_on() { # NODE
	"$PACKRACK" query --count --node "$1" 2> /dev/null
}
live() {
	local one two before pids=()
	before=$(stored_on log1)
	two=$("$PACKRACK" query --count --node log2 tcp 2> /dev/null)
	"$PACKRACK" stage count --live "$LAB_DIR/log1.vol" --json > "$LAB_DIR/one.json" 2> "$LAB_DIR/one.err" &
	pids+=($!)
	"$PACKRACK" stage anonymize -o key="$KEY" --live "$LAB_DIR/log2.vol" -w "$LAB_DIR/two.pcapng" -q tcp 2> "$LAB_DIR/two.err" &
	pids+=($!)
	poll_until 10 grep -q following "$LAB_DIR/one.err" && poll_until 10 grep -q following "$LAB_DIR/two.err" || return 1
	"$RACK" play "$FULL" --pps=8000 --quiet > /dev/null 2>&1
	"$RACK" drain --keep-running --timeout 120
	one=$(($(stored_on log1) - before))
	two=$(($("$PACKRACK" query --count --node log2 tcp 2> /dev/null) - two))
	kill -INT "${pids[@]}"
	wait "${pids[@]}"
	cat "$LAB_DIR/one.err" "$LAB_DIR/two.err"
	jq .stages.count.packets "$LAB_DIR/one.json"
	[ "$(jq .stages.count.packets "$LAB_DIR/one.json")" = "$one" ] && ((one > 10000)) &&
		[ "$(tcpdump -nr "$LAB_DIR/two.pcapng" --count 2> /dev/null | tail -n 1 | cut -d ' ' -f 1)" = "$two" ]
}
run_step "stages on a link" live
run_step "what does not go with it" says 2 "from now on" "$PACKRACK" stage count --live "$LAB_DIR/log1.vol" --since "1h ago"
behind() { # one that sleeps on its first packet
	local pid before stored given
	cat > "$LAB_DIR/slow.c" <<- 'END'
		#include <packrack-stage.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <unistd.h>
		static void *slow_open(const char *const *o, char *e, size_t n) { (void)o; (void)e; (void)n; return calloc(1, 8); }
		static int slow_packet(void *s, struct packrack_packet *p) { (void)p; if (!(*(long *)s)++) sleep(4); return 0; }
		static char *slow_report(void *s) { char *t = malloc(64); snprintf(t, 64, "{\"packets\": %ld}", *(long *)s); return t; }
		const struct packrack_stage packrack_stage = {PACKRACK_STAGE_VERSION, 0, "slow", "sleeps", 0, slow_open, slow_packet, 0, 0, slow_report, free};
	END
	gcc -shared -fPIC -I indexer/stages -o "$LAB_DIR/slow.so" "$LAB_DIR/slow.c" || return 1
	before=$(stored_on log1)
	"$PACKRACK" stage "$LAB_DIR/slow.so" --live "$LAB_DIR/log1.vol" --behind 10 --json > "$LAB_DIR/slow.json" 2> "$LAB_DIR/slow.err" &
	pid=$!
	poll_until 10 grep -q following "$LAB_DIR/slow.err" || return 1
	"$RACK" play "$FULL" --pps=5000 --quiet > /dev/null 2>&1
	"$RACK" drain --keep-running --timeout 120
	stored=$(($(stored_on log1) - before))
	kill -INT "$pid"
	wait "$pid"
	cat "$LAB_DIR/slow.err"
	given=$(jq .stages.slow.packets "$LAB_DIR/slow.json")
	echo "$stored stored, $given given"
	sed -n 's/.*; \([0-9]*\) skipped.*/\1/p' "$LAB_DIR/slow.err" > "$LAB_DIR/skipped"
	(($(cat "$LAB_DIR/skipped") > 1000 && $(cat "$LAB_DIR/skipped") + given == stored))
}
run_step "one that falls behind counts what it passes over" behind
crashes() {
	printf '#include <packrack-stage.h>\n#include <stdlib.h>\nstatic int p(void *s, struct packrack_packet *k) { (void)s; (void)k; abort(); }\nstatic void *o(const char *const *a, char *e, size_t n) { (void)a; (void)e; (void)n; return malloc(1); }\nstatic char *r(void *s) { (void)s; return 0; }\nconst struct packrack_stage packrack_stage = {1, 0, "bad", "", 0, o, p, 0, 0, r, free};\n' > "$LAB_DIR/bad.c"
	gcc -shared -fPIC -I indexer/stages -o "$LAB_DIR/bad.so" "$LAB_DIR/bad.c" || return 1
	"$PACKRACK" stage "$LAB_DIR/bad.so" -c 10 > /dev/null 2>&1 && return 1
	"$PACKRACK" status --json | jq -e '.nodes | map(select(.connected)) | length == 3'
}
run_step "one that crashes hurts nothing" crashes

degrees() { # each packet is stored two or three times, and taken once
	local pid before
	"$RACK" down > /dev/null
	"$RACK" up -n 1 -- --class 'bulk; filter=tcp; cutoff=4K; degrees=full 1000d, cut 2000d, headers 3000d' > /dev/null || return 1
	# what the hosts have said by now is stored before the stage begins
	"$RACK" exec tap ip link set t0 down && "$RACK" exec tap ip link set t1 down && "$RACK" drain --keep-running --timeout 120 || return 1
	before=$(stored_on log1)
	rm "$LAB_DIR/one.err"
	"$PACKRACK" stage count --live "$LAB_DIR/log1.vol" --json > "$LAB_DIR/one.json" 2> "$LAB_DIR/one.err" &
	pid=$!
	poll_until 10 grep -qs following "$LAB_DIR/one.err" || return 1
	"$RACK" play "$FULL" --pps=8000 --quiet > /dev/null 2>&1
	"$RACK" drain --keep-running --timeout 120
	kill -INT "$pid"
	wait "$pid"
	cat "$LAB_DIR/one.err"
	"$PACKRACK" data list --json | jq -e '[.nodes[].streams[].class] | index("bulk") and index("bulk.cut") and index("bulk.headers")' || return 1
	(($(jq .stages.count.packets "$LAB_DIR/one.json") == $(stored_on log1) - before && $(stored_on log1) > 39000))
}
run_step "degrees: a packet is taken once" degrees

done_testing
