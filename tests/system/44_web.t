#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# packrack web: its answers are those of the command line; who has no token, and what is no question, gets one line.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_commands python3 curl jq
need_programs packrack packrack-web
need_data
new_lab
PACKRACK=$BUILD/packrack
CUT=$DATA/mix-gateway-hdr96-a.pcap
VOLUME=$LAB_DIR/cut.vol
"$PACKRACK" import "$CUT" --volume "$VOLUME" --create 64M > /dev/null 2>&1

serve() { # OPTION...
	rm -f "$LAB_DIR/address" # of the one before: the shell may empty it later than we read it
	setpriv --pdeathsig TERM "$PACKRACK" web --listen 127.0.0.1:0 "$@" > "$LAB_DIR/address" 2> "$LAB_DIR/web.err" &
	WEB=$!
	poll_until 20 grep -qs token= "$LAB_DIR/address" || return 1
	SITE=$(sed 's/#.*//' "$LAB_DIR/address")
	TOKEN="X-Packrack-Token: $(sed 's/.*token=//' "$LAB_DIR/address")"
}
get() { # PATH NAME=VALUE...
	local words=()
	for word in "${@:2}"; do
		words+=(--data-urlencode "$word")
	done
	curl -sG -m 60 -H "$TOKEN" "$SITE$1" "${words[@]}"
}
refused() { # STATUS TEXT CURL-WORD...
	local got
	got=$(curl -sG -m 60 -o "$LAB_DIR/said" -w '%{http_code}' "${@:3}")
	cat "$LAB_DIR/said"
	[ "$got" = "$1" ] && grep -qF -- "$2" "$LAB_DIR/said" && (($(wc -l < "$LAB_DIR/said") == 1))
}
WEB=
serve --volume "$VOLUME" > "$LAB_DIR/out" 2>&1 && rc=0 || rc=$?
result "$rc" "it prints its address" "$LAB_DIR/out"

# ---- who may ask ----

run_step "no data without the token" refused 403 'it has a token' "${SITE}api/rate"
run_step "nor with another" refused 403 'it has a token' "${SITE}api/flows?token=x" -H "X-Packrack-Token: x"
run_step "no packets without a ticket" refused 403 'it has a token' "${SITE}packets.pcapng?ticket=x"
run_step "not by another name, as another site's page would" refused 403 'this is not example.org' -H "$TOKEN" -H 'Host: example.org' "$SITE"
run_step "on loopback only" says 1 'ssh -L' "$PACKRACK" web --listen 0.0.0.0:0
run_step "no port" says 1 'a port from 0' "$PACKRACK" web --listen 127.0.0.1:http
run_step "no address" says 1 'an address and a port' "$PACKRACK" web --listen example.org:80
run_step "a port that is taken" says 1 'Address already in use' "$PACKRACK" web --listen "$(sed 's|http://||; s|/$||' <<< "$SITE")"
run_step "no volume" says 1 'No such file or directory' "$PACKRACK" web --volume "$LAB_DIR/nosuch"
run_step "no kept flows" says 1 'keeps no flows' "$PACKRACK" web --volume "$VOLUME" --kept "$VOLUME"
run_step "no reports" says 1 'no such folder' "$PACKRACK" web --volume "$VOLUME" --reports "$LAB_DIR/nosuch"
the_page() { # asks nobody else, and may not
	curl -s -D "$LAB_DIR/head" "$SITE" > "$LAB_DIR/page" && grep -qi "^content-security-policy: default-src 'none'" "$LAB_DIR/head" &&
		grep -qi '^x-frame-options: deny' "$LAB_DIR/head" && ! grep -oE '(src|href)="?(https?:)?//' "$LAB_DIR/page" &&
		[ "$(sed -n "s/.*script-src 'nonce-\([^']*\)'.*/\1/p" "$LAB_DIR/head")" = "$(sed -n 's/.*<script nonce="\([^"]*\)".*/\1/p' "$LAB_DIR/page")" ]
}
run_step "the page" the_page

# ---- what it answers ----

RANGE=(since=1709715720000000000 until=1709715779999999999)
TIMES=(--since 2024-03-06T09:02:00Z --until 2024-03-06T09:02:59.999999999Z)
as_counted() {
	local filter
	for filter in '' 'udp port 53' 'tcp and not port 443' '- 1 = 0 or icmp'; do
		[ "$(get api/rate "${RANGE[@]}" filter="$filter" | jq .packets)" = "$("$PACKRACK" query --count --volume "$VOLUME" "${TIMES[@]}" -- "$filter" 2> /dev/null)" ] ||
			{ echo "$filter"; return 1; }
	done
	get api/rate "${RANGE[@]}" | jq -e '.complete and .links == [[0, "mix-gateway-hdr96-a.pcap"]] and .missing == [] and .unobserved == []'
}
run_step "counts" as_counted
as_rates() {
	get api/rate "${RANGE[@]}" | jq -c '.series[] | [(.[0] | tonumber), .[1], .[2]]' > "$LAB_DIR/got"
	"$PACKRACK" rate --volume "$VOLUME" "${TIMES[@]}" --json 2> /dev/null | jq -c '.series[] | [.since, .packets, .bytes]' | cmp - "$LAB_DIR/got" || return 1
	[ "$(get api/rate link=0 | jq '[.series[][1]] | add')" = 130930 ] && [ "$(get api/rate link=0 filter='udp port 53' since=1709715600000000000 until=1709715899999999999 |
		jq '[.series[][1]] | add')" = "$("$PACKRACK" query --count --volume "$VOLUME" udp port 53 2> /dev/null)" ]
}
run_step "rates" as_rates
as_flows() {
	get api/flows "${RANGE[@]}" filter='tcp' | jq -c '.rows[] | with_entries(if .key == "tcqtime" or .key == "last" then .value |= tonumber else . end)' > "$LAB_DIR/got"
	"$PACKRACK" flows --volume "$VOLUME" "${TIMES[@]}" --top 25 --format json tcp 2> /dev/null | jq -c . | cmp - "$LAB_DIR/got" || return 1
	get api/flows "${RANGE[@]}" by=src,dst,dport | jq -c '.rows[] | with_entries(if .key == "tcqtime" or .key == "last" then .value |= tonumber else . end)' > "$LAB_DIR/got"
	"$PACKRACK" flows --volume "$VOLUME" "${TIMES[@]}" --top 25 --by src,dst,dport --format json 2> /dev/null | jq -c . | cmp - "$LAB_DIR/got" && [ -s "$LAB_DIR/got" ]
}
run_step "flows" as_flows
as_planned() {
	local filter
	for filter in 'udp port 53' 'host 192.0.2.7' 'tcp[13] & 2 != 0'; do
		get api/plan "${RANGE[@]}" filter="$filter" | jq -c '[.packets, .bytes, .segments, .skipped]' > "$LAB_DIR/got"
		"$PACKRACK" query --volume "$VOLUME" "${TIMES[@]}" --count --json "$filter" 2> /dev/null |
			jq -c '[.scanned_packets, .scanned_bytes, .scanned_segments, .skipped_segments]' | cmp - "$LAB_DIR/got" || return 1
	done
	get api/plan filter='udp port 53' | jq -e '.words == ["all of\n\tprotocol UDP\n\tport 53"] and .skipped > 0'
}
run_step "what a search would read" as_planned
as_saved() {
	get packets.pcapng "ticket=$(get api/ticket | jq -r .ticket)" "${RANGE[@]}" filter='udp port 53' > "$LAB_DIR/got.pcapng"
	"$PACKRACK" query --volume "$VOLUME" "${TIMES[@]}" -w "$LAB_DIR/want.pcapng" udp port 53 2> /dev/null
	"$COMPARE" "$LAB_DIR/want.pcapng" "$LAB_DIR/got.pcapng" && [ -s "$LAB_DIR/got.pcapng" ]
}
run_step "packets" as_saved
outside() { # what was not observed is drawn: it is in the answer
	get api/rate since=1709715000000000000 until=1709715779999999999 | jq -e '(.complete | not) and .unobserved[0].link == 0 and (.said | test("^partial"))'
}
run_step "and what was not observed" outside

# ---- what is no question ----

hostile() { # one line each, status 400 or 404; nothing is written
	local query
	while read -r query; do
		refused "${query%% *}" '' -H "$TOKEN" "$SITE${query#* }" || { echo "$query"; return 1; }
	done <<- END
		400 api/rate?filter=portt+80
		400 api/rate?filter=--write=$LAB_DIR/stolen
		400 api/rate?filter=-w+$LAB_DIR/stolen
		400 api/rate?since=yesterday
		400 api/rate?since=-1
		400 api/rate?since=99999999999999999999
		400 api/rate?link=--help
		400 api/rate?link=nosuch
		400 api/flows?by=nosuch
		400 api/flows?by=--write=$LAB_DIR/stolen
		400 api/rate?a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1&i=1&j=1&k=1
		400 api/rate?filter=%ff%fe
		400 api/rate?filter=a%00b
		404 packets.pcapng?filter=portt
		404 api/count
		400 api/rate?since=abc&until=def
		404 etc/passwd
		404 ../../../../etc/passwd
		404 page.html
	END
	[ ! -e "$LAB_DIR/stolen" ] && [ "$(get api/rate | jq .packets)" = 130930 ]
}
run_step "each gets one line" hostile
many_at_once() { # all are answered, four at a time
	seq 40 | xargs -P 40 -I{} curl -s -m 100 -o "$LAB_DIR/many.{}" -H "$TOKEN" "${SITE}api/rate?filter=udp"
	jq -s 'map(.packets) | (length == 40) and (unique | length == 1)' "$LAB_DIR"/many.* | grep -q true
}
run_step "forty at once" many_at_once
goes_away() { # who asks leaves in the midst: the command that reads for it ends
	timeout -s KILL 0.2 curl -s -H "$TOKEN" "${SITE}packets.pcapng?ticket=$(get api/ticket | jq -r .ticket)" --limit-rate 1000 > /dev/null
	poll_until 20 nothing_runs
}
nothing_runs() {
	! pgrep -P "$WEB" > /dev/null
}
run_step "who leaves takes the work along" goes_away
a_ticket_is_for_once() {
	local ticket
	ticket=$(get api/ticket | jq -r .ticket)
	refused 400 'syntax error' "${SITE}packets.pcapng?filter=portt&ticket=$ticket" && refused 403 'it has a token' "${SITE}packets.pcapng?ticket=$ticket"
}
run_step "a ticket is for one download" a_ticket_is_for_once
oddities() { # half requests, odd ones, silent ones, resets: all without the token
	python3 - "$SITE" <<- 'END' || return 1
		import socket, struct, sys
		host, port = sys.argv[1].split("/")[2].split(":")
		held = [socket.create_connection((host, int(port))) for _ in range(40)]
		for text in (b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HEAD / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n", b"\0" * 70000,
		             b"GET /api/rate HTTP/1.1\r\nHost: localhost\r\nX-Packrack-Token: \xff\r\n\r\n"):
		    s = socket.create_connection((host, int(port)))
		    s.sendall(text)
		    s.settimeout(10)
		    try:
		        s.recv(100)
		    except OSError:
		        pass
		    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
		    s.close()
	END
	[ "$(get api/rate | jq .packets)" = 130930 ]
}
run_step "odd and silent clients" oddities
stops() {
	kill -TERM "$WEB"
	poll_until 10 ended
}
ended() {
	! kill -0 "$WEB" 2> /dev/null
}
run_step "a signal ends it" stops
kept() { # flows come from the volume that keeps them; of reports those of the range that say something
	"$PACKRACK" volume create "$LAB_DIR/kept.vol" --size 64M > /dev/null && "$PACKRACK" flows --volume "$VOLUME" --keep "$LAB_DIR/kept.vol" 2> /dev/null || return 1
	mkdir "$LAB_DIR/reports"
	python3 - > "$LAB_DIR/reports/elephants.jsonl" <<- 'END'
		import json
		for i in range(60):
		    print(json.dumps({"watch": "elephants", "begin": (1709715720 + i) * 10**9, "end": (1709715721 + i) * 10**9, "complete": i != 7,
		                      "live": {"rows": 9, "status": 0, "said": ""}, "history": [], "not_shown": i,
		                      "rows": [{"src_ip": "192.0.2.%d" % j, "bytes": j} for j in range(i % 8)]}))
	END
	serve --volume "$VOLUME" --kept "$LAB_DIR/kept.vol" --reports "$LAB_DIR/reports" || return 1
	get api/flows by=src,dst,dport filter=tcp | jq -c '.rows[]' > "$LAB_DIR/got"
	"$PACKRACK" flows --kept "$LAB_DIR/kept.vol" --by src,dst,dport --top 25 --format json tcp 2> /dev/null |
		jq -c 'with_entries(if .key == "tcqtime" or .key == "last" then .value |= tostring else . end)' | cmp - "$LAB_DIR/got" && [ -s "$LAB_DIR/got" ] || return 1
	get api/reports since=1709715726000000000 until=1709715728999999999 | jq -ce '.rows | map([.begin, .complete, (.rows | length), .more]) ==
		[["1709715727000000000", false, 5, 9], ["1709715726000000000", true, 5, 7]]' ||
		{ get api/reports since=1709715726000000000 until=1709715728999999999; return 1; }
	get api/reports | jq -e '.rows | length == 40' && stops &&
		says 1 'keeps flows, no packets' "$PACKRACK" query --volume "$LAB_DIR/kept.vol"
}
run_step "kept flows, and reports" kept
fewer_keys() { # where sums are too many, the answer says that it has others
	printf '#!/bin/sh\ncase "$*" in *--by=src,dst*) echo "--by: name fewer keys" >&2; exit 1 ;; esac\nexec "%s" "$@"\n' "$PACKRACK" > "$LAB_DIR/command" && chmod +x "$LAB_DIR/command" &&
		PACKRACK_COMMAND=$LAB_DIR/command serve --volume "$VOLUME" || return 1
	get api/flows by=src,dst,dport | jq -e '.instead_of == "src,dst,dport" and (.rows | length == 25 and all(has("src") and (has("dst") | not)))' &&
		get api/flows by=src | jq -e 'has("instead_of") | not' && stops
}
run_step "who talks, with fewer keys" fewer_keys
silent() {
	cat "$LAB_DIR/web.err"
	[ ! -s "$LAB_DIR/web.err" ]
}
run_step "it said nothing else" silent
done_testing
