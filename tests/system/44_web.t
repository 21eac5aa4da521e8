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
	"$PACKRACK" web --listen 127.0.0.1:0 "$@" > "$LAB_DIR/address" 2> "$LAB_DIR/web.err" &
	WEB=$!
	echo $WEB >> "$LAB_DIR/pids/web"
	poll_until 20 grep -q token= "$LAB_DIR/address" || return 1
	SITE=$(sed 's/?.*//' "$LAB_DIR/address")
	[ "$(curl -s -o /dev/null -w '%{http_code}' -c "$LAB_DIR/jar" "$(cat "$LAB_DIR/address")")" = 303 ]
}
get() { # PATH NAME=VALUE...
	local words=()
	for word in "${@:2}"; do
		words+=(--data-urlencode "$word")
	done
	curl -sG -m 60 -b "$LAB_DIR/jar" "$SITE$1" "${words[@]}"
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

run_step "not without the token" refused 403 'it has a token' "$SITE"
run_step "not with another" refused 403 'it has a token' "$SITE?token=x" -b "packrack-${SITE//[^0-9]/}=x"
run_step "not by another name, as another site's page would" refused 403 'this is not example.org' -b "$LAB_DIR/jar" -H 'Host: example.org' "$SITE"
run_step "on loopback only" says 1 'ssh -L' "$PACKRACK" web --listen 0.0.0.0:0
run_step "no port" says 1 'a port from 0' "$PACKRACK" web --listen 127.0.0.1:http
run_step "no address" says 1 'an address and a port' "$PACKRACK" web --listen example.org:80
run_step "a port that is taken" says 1 'Address already in use' "$PACKRACK" web --listen "$(sed 's|http://||; s|/$||' <<< "$SITE")"
the_page() { # asks nobody else, and may not
	curl -s -D "$LAB_DIR/head" -b "$LAB_DIR/jar" "$SITE" > "$LAB_DIR/page" && grep -qi "^content-security-policy: default-src 'none'" "$LAB_DIR/head" &&
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
		[ "$(get api/count "${RANGE[@]}" filter="$filter" | jq .matched)" = "$("$PACKRACK" query --count --volume "$VOLUME" "${TIMES[@]}" -- "$filter" 2> /dev/null)" ] ||
			{ echo "$filter"; return 1; }
	done
	get api/count "${RANGE[@]}" | jq -e '.complete and .links == [[0, "mix-gateway-hdr96-a.pcap"]] and .missing == [] and .unobserved == []'
}
run_step "counts" as_counted
as_rates() {
	get api/rate "${RANGE[@]}" | jq -c '.series[] | .[:3]' > "$LAB_DIR/got"
	"$PACKRACK" rate --volume "$VOLUME" "${TIMES[@]}" --json 2> /dev/null | jq -c '.series[] | [.since, .packets, .bytes]' | cmp - "$LAB_DIR/got" || return 1
	[ "$(get api/rate link=0 | jq '[.series[][1]] | add')" = 130930 ] && [ "$(get api/rate link=0 filter='udp port 53' since=1709715600000000000 until=1709715899999999999 |
		jq '[.series[][1]] | add')" = "$("$PACKRACK" query --count --volume "$VOLUME" udp port 53 2> /dev/null)" ]
}
run_step "rates" as_rates
as_flows() {
	get api/flows "${RANGE[@]}" filter='tcp' | jq -c '.rows[]' > "$LAB_DIR/got"
	"$PACKRACK" flows --volume "$VOLUME" "${TIMES[@]}" --top 25 --format json tcp 2> /dev/null | jq -c . | cmp - "$LAB_DIR/got" || return 1
	get api/flows "${RANGE[@]}" by=src,dst,dport | jq -c '.rows[]' > "$LAB_DIR/got"
	"$PACKRACK" flows --volume "$VOLUME" "${TIMES[@]}" --top 25 --by src,dst,dport --format json 2> /dev/null | jq -c . | cmp - "$LAB_DIR/got" && [ -s "$LAB_DIR/got" ]
}
run_step "flows" as_flows
as_saved() {
	get packets.pcapng "${RANGE[@]}" filter='udp port 53' > "$LAB_DIR/got.pcapng"
	"$PACKRACK" query --volume "$VOLUME" "${TIMES[@]}" -w "$LAB_DIR/want.pcapng" udp port 53 2> /dev/null
	"$COMPARE" "$LAB_DIR/want.pcapng" "$LAB_DIR/got.pcapng" && [ -s "$LAB_DIR/got.pcapng" ]
}
run_step "packets" as_saved
outside() { # what was not observed is drawn: it is in the answer
	get api/count since=1709715000000000000 until=1709715779999999999 | jq -e '(.complete | not) and .unobserved[0].link == 0 and (.said | test("^partial"))'
}
run_step "and what was not observed" outside

# ---- what is no question ----

hostile() { # one line each, status 400 or 404; nothing is written
	local query
	while read -r query; do
		refused "${query%% *}" '' -b "$LAB_DIR/jar" "$SITE${query#* }" || { echo "$query"; return 1; }
	done <<- END
		400 api/count?filter=portt+80
		400 api/count?filter=--write=$LAB_DIR/stolen
		400 api/count?filter=-w+$LAB_DIR/stolen
		400 api/count?since=yesterday
		400 api/count?since=-1
		400 api/count?since=99999999999999999999
		400 api/rate?link=--help
		400 api/rate?link=nosuch
		400 api/flows?by=nosuch
		400 api/flows?by=--write=$LAB_DIR/stolen
		400 api/count?a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1&i=1&j=1&k=1
		400 api/count?filter=%ff%fe
		400 api/count?filter=a%00b
		400 packets.pcapng?filter=portt
		404 etc/passwd
		404 ../../../../etc/passwd
		404 page.html
	END
	[ ! -e "$LAB_DIR/stolen" ] && [ "$(get api/count | jq .matched)" = 130930 ]
}
run_step "each gets one line" hostile
many_at_once() { # all are answered, four at a time
	seq 40 | xargs -P 40 -I{} curl -s -m 60 -b "$LAB_DIR/jar" "${SITE}api/count?filter=udp" | jq -s 'map(.matched) | (length == 40) and (unique | length == 1)' | grep -q true
}
run_step "forty at once" many_at_once
goes_away() { # who asks leaves in the midst: the command that reads for it ends
	timeout -s KILL 0.2 curl -s -b "$LAB_DIR/jar" "${SITE}packets.pcapng" --limit-rate 1000 > /dev/null
	poll_until 20 nothing_runs
}
nothing_runs() {
	! pgrep -P "$WEB" > /dev/null
}
run_step "who leaves takes the work along" goes_away
stops() {
	kill -TERM "$WEB"
	poll_until 10 ended
}
ended() {
	! kill -0 "$WEB" 2> /dev/null
}
run_step "a signal ends it" stops
run_step "it said nothing else" test ! -s "$LAB_DIR/web.err"
done_testing
