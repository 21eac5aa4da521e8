#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the daemons tell of themselves. To Prometheus: well formed, documented, the figures of status, and
# hostile requests bounded. In their logs: lines of JSON, and no secret.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpreplay python3
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
new_lab
METRICS=$TOP/tests/system/metrics.py
PAGE=$TOP/proto/packrack-metrics.7
declare -A AT=([dispatcher]=disp:9471 [merger]=disp:9474 [logger]=log1:9472 [indexer]=log1:9473)
tests/system/numbered.py make "$LAB_DIR/a.pcap" 500 1

for section in dispatcher logger indexer merger; do
	printf '[%s]\nlog-format = json\nverbose = yes\n' $section
done > "$LAB_DIR/packrack.conf"

"$RACK" up -n 2 -- --canary on > "$LAB_DIR/up" 2>&1 || { diag < "$LAB_DIR/up"; exit 1; }
"$RACK" play "$LAB_DIR/a.pcap" --pps=5000 --quiet > /dev/null
run_step "a rack records" "$RACK" drain --keep-running --timeout 120

get() { # PROGRAM: into a file of its name
	local at=${AT[$1]}
	"$RACK" exec "${at%:*}" "$METRICS" get "http://127.0.0.1:${at#*:}/metrics" > "$LAB_DIR/$1.prom"
}
for program in dispatcher merger logger indexer; do
	run_step "the $program serves what is well formed" get $program
done

# One byte after another: no time-out for silence ends that.
drip() {
	"$RACK" exec disp python3 -c '
import socket, sys
s = socket.create_connection(("127.0.0.1", 9474), timeout=20)
s.settimeout(0.2)
for i in range(150):
    try:
        s.sendall(b"G" if i else b"GET /")
        if s.recv(1) == b"":
            sys.exit(0)
    except socket.timeout:
        continue
    except OSError:
        sys.exit(0)
sys.exit("still open after %d bytes" % i)'
}
drip > "$LAB_DIR/drip" 2>&1 &
drip=$!

# Nodes tell the merger of their packets every two seconds.
merger_knows() {
	get merger && grep -q '^packrack_merger_node_newest_packet_timestamp_seconds{node="log1"}' "$LAB_DIR/merger.prom"
}
run_step "the merger has heard of the packets" poll_until 10 merger_knows

# A logger of the other kind has figures of its own.
"$BUILD/packrack" volume create "$LAB_DIR/tap.vol" --size 64M > /dev/null
"$RACK" exec hosta "$BUILD/packrack-logger" --tap a0 --name tapper --volume "$LAB_DIR/tap.vol" \
	--metrics '[::1]:9475' > "$LAB_DIR/tap.log" 2>&1 &
tap=$!
trap 'kill $tap $drip 2> /dev/null; end_labs' EXIT
tap_answers() {
	"$RACK" exec hosta "$METRICS" get 'http://[::1]:9475/metrics' > "$LAB_DIR/tap.prom"
}
run_step "a tap serves them, on IPv6 as well" poll_until 10 tap_answers

run_step "each metric is in packrack-metrics(7), and each of that page is served" \
	"$METRICS" documented "$PAGE" "$LAB_DIR"/{dispatcher,merger,logger,indexer,tap}.prom
planted() { # SED_EXPRESSION
	sed "$1" "$PAGE" > "$LAB_DIR/page"
	"$METRICS" documented "$LAB_DIR/page" "$LAB_DIR"/{dispatcher,merger,logger,indexer,tap}.prom
}
refute_step "one that is missing there is seen" 1 planted '/^.It Li packrack_logger_missing_packets_total/,/^.Li missing_packets/d'
refute_step "one too many is seen" 1 planted 's/^\(.It Li packrack_logger_\)late_frames_total/\1later_total/'
refute_step "another type is seen" 1 planted 's/\(packrack_merger_queries_running Pq \)gauge/\1counter/'
refute_step "other words are seen" 1 planted 's/^Packets taken from the link./Packets lost on the link./'

# A figure that goes up and down again between two looks is between neither pair: then it is looked at again.
figures_agree() {
	"$BUILD/packrack" status --json > "$LAB_DIR/before.json" 2>> "$LAB_DIR/err"
	for program in dispatcher merger logger indexer; do get "$program" || return 1; done
	poll_until 5 status_follows agreed="$LAB_DIR/agreed" || { status_follows agreed="$LAB_DIR/agreed" > "$LAB_DIR/differ"; return 1; }
}
# The figures of loggers come to status by way of the indexers, a little later.
status_follows() { # [agreed=FILE]
	"$BUILD/packrack" status --json > "$LAB_DIR/after.json" 2>> "$LAB_DIR/err"
	"$METRICS" compare "$PAGE" "$LAB_DIR"/{before,after}.json "$@" dispatcher="$LAB_DIR/dispatcher.prom" \
		merger="$LAB_DIR/merger.prom" logger:log1="$LAB_DIR/logger.prom" indexer:log1="$LAB_DIR/indexer.prom"
}
agree() {
	poll_until 20 figures_agree || { cat "$LAB_DIR/differ"; return 1; }
}
run_step "the figures are those of packrack status" agree
wrong_figure() {
	sed -i 's/^\(packrack_dispatcher_captured_packets_total{.*} \)/\11/' "$LAB_DIR/dispatcher.prom"
	status_follows
}
refute_step "a figure that is not is seen" 1 wrong_figure

# ---- the canary ----
canary_is() { # METRIC: its value is above 0
	get merger && grep -qE "^packrack_merger_canary_$1 [0-9.e+-]*[1-9]" "$LAB_DIR/merger.prom"
}
run_step "the merger finds the canary" poll_until 10 canary_is packets_total
run_step "at once" canary_is first_packet_seconds
run_step "and all of it" poll_until 10 canary_is complete
refute_step "nothing is lost" 1 canary_is missing_packets_total
named() {
	"$BUILD/packrack" query --link canary > "$LAB_DIR/out" && grep -q 'ethertype 0x9000, len 60' "$LAB_DIR/out"
}
run_step "who names it gets it" poll_until 10 named # one may be on its way
# What was played, in the 2 s of that: neither answers nor sums have a packet of the canary.
users_only() {
	local p=$BUILD/packrack
	{
		"$p" query && "$p" query -w - | tcpdump -nr - && "$p" query --follow --limit 500 --since '1h ago' &&
			"$p" top ethertype && "$p" top link && "$p" data list && "$p" status && "$p" status --json &&
			"$p" rate --json && "$p" data list --json &&
			"$p" export --since '1h ago' --to "$LAB_DIR/all.pcapng" &&
			tcpdump -nr "$LAB_DIR/all.pcapng"
	} > "$LAB_DIR/out" 2>> "$LAB_DIR/err"
	! grep -iwE '0x9000|loopback|65534|canary' "$LAB_DIR/out" # words: a time may have 65534 in its digits
}
run_step "answers, sums and lists of users do not have it" users_only
silent() {
	get merger && grep -qx 'packrack_merger_canary_complete 0' "$LAB_DIR/merger.prom"
}
silenced() {
	"$RACK" exec disp "$BUILD/packrack" capture stop > /dev/null && poll_until 15 silent &&
		"$RACK" exec disp "$BUILD/packrack" capture start > /dev/null && poll_until 15 canary_is complete
}
run_step "a canary that is silent is told, until it is back" silenced

checks() {
	"$BUILD/packrack" status --check --loss 0,1 --full-within 1s --kept 1s --last "$LAB_DIR/last" > "$LAB_DIR/check"
	local rc=$?
	cat "$LAB_DIR/check"
	return "$rc"
}
run_step "status --check: all is well" checks
one_line() {
	grep -qE '^PACKRACK OK - 2 nodes, capturing \| silent=0;0;1;0;2 loss=0\.000000%;0;1;0;100 captured=[0-9]+c lost=0c( full_in=[0-9]+s;1:;;0;)?$' \
		"$LAB_DIR/check" && [ "$(wc -l < "$LAB_DIR/check")" = 1 ] && grep -q '"lost": 0' "$LAB_DIR/last"
}
run_step "in one line with figures" one_line
refute_step "limits are for --check" 2 "$BUILD/packrack" status --loss 1
refute_step "limits that are none are refused, and are not critical" 3 "$BUILD/packrack" status --check --loss much

# ---- hostile requests ----
run_step "what is no scrape is refused" "$RACK" exec disp "$METRICS" refused 127.0.0.1 9471
files_open() {
	find "/proc/$(cut -d' ' -f1 "$LAB_DIR/pids/dispatcher")/fd" -mindepth 1 | wc -l
}
# 30 connections that say nothing: 16 are taken, and a scrape is answered when they are gone.
crowd() {
	local before among
	before=$(files_open)
	"$RACK" exec disp python3 -c '
import signal, socket
held = [socket.create_connection(("127.0.0.1", 9471), timeout=20) for _ in range(30)]
print("held", flush=True)
signal.alarm(60)
signal.pause()' > "$LAB_DIR/crowd" 2>&1 &
	local pid=$!
	poll_until 10 grep -q held "$LAB_DIR/crowd" || { cat "$LAB_DIR/crowd"; return 1; }
	poll_until 5 more_open "$before"
	among=$(files_open)
	kill "$pid"
	wait "$pid" 2> /dev/null
	echo "$before files open before, $among among them"
	((among > before && among <= before + 17)) && get dispatcher
}
more_open() {
	(($(files_open) > $1))
}
run_step "a crowd is bounded, and does not keep a scrape out" crowd
cut_off() {
	wait "$drip" || { cat "$LAB_DIR/drip"; return 1; }
}
run_step "who sends without end is cut off" cut_off
ends_at_once() {
	"$RACK" kill -s TERM merger && poll_until 10 gone merger
}
gone() {
	! "$RACK" status | grep -q "program $1 pid"
}
run_step "a program that serves ends when told" ends_at_once
refute_step "status --check: critical without it" 2 checks
refute_step "an address that is none is refused" 2 "$BUILD/packrack-merger" --metrics nonsense
refute_step "a port that is none is refused" 2 "$BUILD/packrack-merger" --metrics 127.0.0.1:99999
kill $tap
wait $tap
logs_hold() {
	sed -n 's/^\(secret\|frame\)-key //p' "$LAB_DIR"/keys/*/{secret,rack} > "$LAB_DIR/secrets"
	"$METRICS" logs "$LAB_DIR/secrets" -- "$LAB_DIR"/logs/{dispatcher,merger,log1,log2,idx1,idx2}.log
}
run_step "their logs are lines of JSON, and hold no secret" logs_hold
plant_secret() {
	sed -n 's/^frame-key //p' "$LAB_DIR/keys/log1/rack" | tr a-f A-F >> "$LAB_DIR/logs/log1.log"
	logs_hold
}
refute_step "one that does is seen" 1 plant_secret
bad_key() { # a key that is refused is not shown either
	local key
	key=$(sed -n 's/^frame-key //p' "$LAB_DIR/keys/log1/rack")
	cp -a "$LAB_DIR/keys/log1" "$LAB_DIR/short"
	sed -i "s/^frame-key .*/frame-key ${key:0:63}/" "$LAB_DIR/short/rack"
	"$BUILD/packrack-dispatcher" --config /dev/null --in lo --out lo0 --key "$LAB_DIR/short" \
		> "$LAB_DIR/refused" 2>&1
	! grep -qF "${key:0:16}" "$LAB_DIR/refused" && grep -q "short/rack: a frame-key" "$LAB_DIR/refused"
}
run_step "a key that is refused is not shown" bad_key
"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
