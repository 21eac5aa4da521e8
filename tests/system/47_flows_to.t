#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Flows sent to ClickHouse, into Parquet files and to an S3 store: each is there exactly once, whatever dies or lies.
# The peers are flows_to_peers.py's; tests/package/walk has the real ClickHouse.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands jq tcpdump
need_programs packrack packrack-flows-to packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
new_lab
export PACKRACK=$BUILD/packrack PYTHONDONTWRITEBYTECODE=1
V=$LAB_DIR/flows STATE='' PEER='' PORT=''
WANT=$LAB_DIR # has want and windows.json: what must arrive
INSIDE=(--inside 10.0.0.0/8)
peers() {
	"$PYTHON" tests/system/flows_to_peers.py "$@"
}
# Most of this test is waiting for time-outs, so its steps run beside each other, each in a folder and with a peer of its own.
BESIDE=()
beside() { # NAME CMD...
	local dir=$LAB_DIR/beside.${#BESIDE[@]}
	mkdir "$dir"
	while (($(jobs -rp | wc -l) >= 6)); do
		wait -n
	done
	BESIDE+=("$1")
	set -m # a process group, to end all of it
	(
		set +m
		trap stop_peer EXIT
		trap 'exit 130' INT TERM HUP
		LAB_DIR=$dir STATE=$dir/state "${@:2}" > "$dir/said_all" 2>&1
		echo $? > "$dir/status"
	) &
	set +m
}
beside_ends() {
	local i
	wait
	for i in "${!BESIDE[@]}"; do
		result "$(cat "$LAB_DIR/beside.$i/status" || echo 1)" "${BESIDE[i]}" "$LAB_DIR/beside.$i/said_all"
	done
}
job=
trap 'for job in $(jobs -p); do kill -- "-$job"; done 2> /dev/null; wait; end_labs' EXIT

# ---- what is sent ----

year=$DATA/mta-1year-hdr96-a.pcap
make_volume() { # windows of several hours and days
	local n
	"$PACKRACK" volume create "$V" --size 256M && "$PACKRACK" flows -r "$DATA/mix-gateway-full-a.pcap" --keep "$V" || return 1
	for n in 03-28 04-05 04-07 04-26 05-25 06-30 11-06 12-06; do
		"$PACKRACK" flows -r "$year" --since "2017-${n}T00:00:00Z" --until "2017-${n}T23:59:59Z" --keep "$V" || return 1
	done
	"$PACKRACK" flows -r "$DATA/mix-gateway-hdr96-a.pcap" --until 2024-03-06T09:01:30Z --keep "$V" &&
		"$PACKRACK" flows --kept "$V" "${INSIDE[@]}" --format json > "$LAB_DIR/kept.json"
	peers same < "$LAB_DIR/kept.json" > "$LAB_DIR/want"
	(($(wc -l < "$LAB_DIR/want") > 2000)) && grep -q '"outgoing": 1' "$LAB_DIR/want"
}
run_step "flows are kept, in windows" make_volume
windows_agree() { # all the records of all windows, each with its place
	"$PACKRACK" flows --kept "$V" "${INSIDE[@]}" --from-window 1 --format json 2> /dev/null > "$LAB_DIR/windows.json" || return 1
	jq -e -s 'map(select(.row)) | group_by(.window) | map(length == (map(.row) | unique | length) and (map(.row) | max) == length) | all' "$LAB_DIR/windows.json" &&
		grep '"row"' "$LAB_DIR/windows.json" | peers same | cmp - "$LAB_DIR/want" &&
		[ "$(jq -s 'map(.records // 0) | add' "$LAB_DIR/windows.json")" = "$(wc -l < "$LAB_DIR/want")" ] &&
		[ "$("$PACKRACK" flows --kept "$V" "${INSIDE[@]}" --from-window 2 --windows 3 --format json 2> /dev/null)" = "$(jq -c . "$LAB_DIR/windows.json" > /dev/null &&
			grep -E '^\{"window": [234],' "$LAB_DIR/windows.json")" ] && says 2 'with --kept' "$PACKRACK" flows -r "$year" --from-window 1
}
run_step "windows are what was kept" windows_agree

start_peer() { # KIND FAULT@N...
	stop_peer
	rm -f "$STATE" "$LAB_DIR/port"
	"$PYTHON" tests/system/flows_to_peers.py "$1" "$STATE" "${@:2}" > "$LAB_DIR/port" 2> "$LAB_DIR/peer.log" &
	PEER=$!
	poll_until 10 test -s "$LAB_DIR/port" && PORT=$(cat "$LAB_DIR/port")
}
stop_peer() {
	[ -z "$PEER" ] || { kill "$PEER"; wait "$PEER"; } 2> /dev/null
	PEER=''
}
SEND=("$PACKRACK" flows --kept "$V" "${INSIDE[@]}" --timeout 1 --rows 700 --to)
to_clickhouse() { # OPTION...
	timeout 60 "${SEND[@]}" "clickhouse://127.0.0.1:$PORT/rack.flows" "$@" 2> "$LAB_DIR/said"
}
killed_often() { # TIMES CMD...: at any moment; then it goes on to its end. Its status
	local n pid
	for n in $(seq "$1"); do
		"${@:2}" 2> "$LAB_DIR/said" &
		pid=$!
		sleep "0.$((RANDOM % 50 + 10))"
		kill -KILL "$pid"
		wait "$pid"
	done 2> /dev/null
	timeout 100 "${@:2}" 2> "$LAB_DIR/said"
	n=$?
	tail -n 3 "$LAB_DIR/said"
	return "$n"
}
same_there() {
	peers rows "$STATE" | diff "$WANT/want" - > "$LAB_DIR/diff" || { echo "$(grep -c '^<' "$LAB_DIR/diff") lack, $(grep -c '^>' "$LAB_DIR/diff") too many"; return 1; }
	[ "$(peers windows "$STATE" | jq -s -c 'map([.batch, .records])')" = "$(jq -c -s 'map(select(.records) | [.window, .records])' "$WANT/windows.json")" ]
}

# ---- of a rack ----

FROM=2024-03-05T09:00:00Z UNTIL=2024-03-05T09:12:00Z FULL=$DATA/mix-gateway-full-a.pcap
rack() { # keeper, sender and server are killed; behind the trace nothing was observed
	V=$LAB_DIR/spool WANT=$LAB_DIR
	"$RACK" up -n 3 --size 96M -- --read "$FULL" && "$RACK" drain --stored --timeout 120 || return 1
	start_peer clickhouse die@9 die-done@14 late@20 part@33 cut@44 || return 1
	killed_often 6 "$PACKRACK" flows --follow --since "$FROM" --until "$UNTIL" --every 1s --spool "$V" --spool-size 128M \
			"${INSIDE[@]}" --timeout 1 --to "clickhouse://127.0.0.1:$PORT/rack.flows"
	[ $? = 3 ] || return 1
	"$PACKRACK" flows -r "$FULL" "${INSIDE[@]}" --format json 2> /dev/null | peers same > "$WANT/want"
	"$PACKRACK" flows --kept "$V" --from-window 1 --format json 2> /dev/null > "$WANT/windows.json"
	same_there
}
beside "a rack's flows, by a spool" rack

# ---- ClickHouse ----

clickhouse() { # and then no more
	start_peer clickhouse && to_clickhouse && cat "$LAB_DIR/said" && same_there && grep -q " sent$" "$LAB_DIR/said" || return 1
	to_clickhouse && same_there && grep -q '^packrack flows --to: 0 flows of 0 windows sent$' "$LAB_DIR/said"
}
beside "all flows arrive, once" clickhouse
faulty() { # FAULT: at requests of all kinds
	start_peer clickhouse "$1"@{2,5,7,13,20} || return 1
	to_clickhouse || { cat "$LAB_DIR/said"; return 1; }
	cat "$LAB_DIR/said"
	poll_until 10 peers quiet "$STATE" && grep -q 'tries failed' "$LAB_DIR/said" && same_there
}
for fault in refuse cut cut-reply die die-done lie part late hang hang-done garbage redirect headers continue endless trickle; do
	beside "the server's fault: $fault" faulty "$fault"
done
bounded() { # who never ends an answer costs little
	start_peer clickhouse "$1"@1
	/usr/bin/time -f %M "$PACKRACK" flows --kept "$V" --timeout 1 --to "clickhouse://127.0.0.1:$PORT/rack.flows" 2> "$LAB_DIR/said" || return 1
	cat "$LAB_DIR/said"
	(($(tail -n 1 "$LAB_DIR/said") < 150000))
}
if [ -x /usr/bin/time ]; then
	for fault in headers continue endless; do
		beside "an endless answer costs little: $fault" bounded "$fault"
	done
fi
killed() { # SENDS FAULT@N...: the sender, at any moment
	start_peer clickhouse "${@:2}" && killed_often "$1" "${SEND[@]}" "clickhouse://127.0.0.1:$PORT/rack.flows" && poll_until 10 peers quiet "$STATE" && same_there
}
beside "the sender is killed at any moment" killed 8
beside "both are" killed 6 die@9 die-done@14 late@20 part@33 die-done@41 hang-done@47 die@60
seen() { # the check can tell
	PEER_TAKES_ALL=1 faulty "$1"
	(($? == 1))
}
beside "a flow that is there twice is seen" seen cut-reply
late_peer() { # the server comes later
	cp --sparse=always "$V" "$LAB_DIR/flows" && cp "$WANT/want" "$WANT/windows.json" "$LAB_DIR" || return 1
	V=$LAB_DIR/flows WANT=$LAB_DIR
	SEND[3]=$V
	start_peer clickhouse && stop_peer || return 1
	"${SEND[@]}" "clickhouse://127.0.0.1:$PORT/rack.flows" --follow 2> "$LAB_DIR/said" &
	local sender=$! rc=0
	poll_until 10 grep -q 'Connection refused; trying again' "$LAB_DIR/said" || rc=1
	PEER_PORT=$PORT "$PYTHON" tests/system/flows_to_peers.py clickhouse-once "$STATE" > /dev/null 2>&1 &
	PEER=$!
	poll_until 20 same_there || rc=1
	# and then what is kept meanwhile
	"$PACKRACK" flows -r "$year" --since 2017-12-26T00:00:00Z --until 2017-12-26T23:00:00Z --keep "$V" || rc=1
	"$PACKRACK" flows --kept "$V" "${INSIDE[@]}" --format json 2> /dev/null | peers same > "$WANT/want"
	"$PACKRACK" flows --kept "$V" "${INSIDE[@]}" --from-window 1 --format json 2> /dev/null > "$WANT/windows.json"
	poll_until 20 same_there || rc=1
	kill -TERM "$sender"
	wait "$sender" || rc=1
	cat "$LAB_DIR/said"
	return "$rc"
}
beside "it waits for the server, and for new flows" late_peer
since() { # what was before is not wanted, and not lost
	start_peer clickhouse && to_clickhouse --since 2024-03-06 || return 1
	peers windows "$STATE" | jq -e -s 'length == 1 and (map(.lost_windows) | add) == 0 and .[0].since > 1700000000000000000'
}
beside "from a time on" since
refused_words() {
	start_peer clickhouse || return 1
	PACKRACK_CLICKHOUSE_PASSWORD=wrong says 1 'status 401: Code: 193' "$PACKRACK" flows --kept "$V" --to "clickhouse://127.0.0.1:$PORT/rack.flows" &&
		says 1 'a password is seen in arguments' "$PACKRACK" flows --kept "$V" --to "clickhouse://ann:secret@127.0.0.1:$PORT/rack.flows" &&
		says 1 'DATABASE.TABLE' "$PACKRACK" flows --kept "$V" --to "clickhouse://127.0.0.1:$PORT/flows;drop" &&
		says 1 'parquet:DIR' "$PACKRACK" flows --kept "$V" --to "ftp://127.0.0.1" &&
		says 1 'with --kept VOLUME, or with --follow' "$PACKRACK" flows --to "clickhouse://127.0.0.1:$PORT/rack.flows" &&
		says 1 'sends all flows' "$PACKRACK" flows --kept "$V" tcp --to="clickhouse://127.0.0.1:$PORT/rack.flows" &&
		says 1 'No such file' "$PACKRACK" flows --kept "$LAB_DIR/none" --to "clickhouse://127.0.0.1:$PORT/rack.flows" &&
		[ ! -s "$LAB_DIR/out" ]
}
beside "mistakes are told in a line" refused_words
by_file() {
	echo secret > "$LAB_DIR/password"
	PEER_PASSWORD=secret start_peer clickhouse && to_clickhouse --password-file "$LAB_DIR/password" && same_there
}
beside "a password by file" by_file
gone() { # windows that are overwritten before they are sent
	local from
	start_peer clickhouse && "$PACKRACK" volume create "$LAB_DIR/small" --size 12M --block-size 128K || return 1
	for from in $(tcpdump -r "$year" -ntt -c 200 2> /dev/null | cut -d ' ' -f 1 | sort -u | head -n 36); do # each takes a block of each stream
		"$PACKRACK" flows -r "$year" --since "@$from" --until 2017-04-20T00:00:00Z --keep "$LAB_DIR/small" 2> /dev/null || return 1
	done
	says 3 'windows were overwritten before they were sent' "$PACKRACK" flows --kept "$LAB_DIR/small" --to "clickhouse://127.0.0.1:$PORT/rack.flows" || return 1
	peers windows "$STATE" | jq -e -s '(map(1 + .lost_windows) | add) == 36 and (map(.records - .lost) | add) == '"$(peers rows "$STATE" | wc -l)"
}
beside "what is overwritten is counted there" gone
not_complete() {
	printf '#!/bin/bash\n%s "$@" | sed '\''s/"missing": 0, "complete": 1/"missing": 7, "complete": 0/'\''\n' "$PACKRACK" > "$LAB_DIR/partial"
	chmod +x "$LAB_DIR/partial"
	start_peer clickhouse && PACKRACK_COMMAND=$LAB_DIR/partial says 3 'windows are not complete' \
		"$PACKRACK" flows --kept "$V" --to "clickhouse://127.0.0.1:$PORT/rack.flows" && peers windows "$STATE" | jq -e -s 'map(.complete == 0 and .missing == 7) | all'
}
beside "what is not complete is told there" not_complete

# ---- Parquet ----

has_duckdb() {
	ldconfig -p | grep -q libduckdb || [ -e /usr/local/lib/packrack/libduckdb.so ]
}
one_range() {
	"$PACKRACK" flows --kept "$V" "${INSIDE[@]}" --format parquet 2> /dev/null > "$LAB_DIR/range.parquet"
	[ $? = 3 ] && peers duckdb "$LAB_DIR/range.parquet" | cmp - "$WANT/want" &&
		"$PACKRACK" flows -r "$year" --format parquet 'tcp and bytes > 10k' 2> /dev/null | cat > "$LAB_DIR/trace.parquet" &&
		"$PACKRACK" flows -r "$year" --format json 'tcp and bytes > 10k' 2> /dev/null | peers same > "$LAB_DIR/of_trace" && peers duckdb "$LAB_DIR/trace.parquet" | cmp - "$LAB_DIR/of_trace" &&
		says 2 'all flows of a range' "$PACKRACK" flows --follow --format parquet && says 1 'No space left' bash -c "'$PACKRACK' flows -r '$year' --format parquet > /dev/full"
}
in_files() { # FOLDER: the same, in files of an hour each
	local files
	mapfile -t files < <(find "$1" -name 'flows-*.parquet')
	peers duckdb "${files[@]}" | cmp - "$WANT/want" && ((${#files[@]} > 5)) && [ "$(find "$1" -name 'windows-*.jsonl' | wc -l)" = "${#files[@]}" ] &&
		find "$1/date=2024-03-05/hour=09" | grep -q '/windows-.*-000000000001-000000000001.jsonl$' &&
		cat "$1"/*/*/windows-*.jsonl | jq -s -e '(map(.records) | add) == '"$(wc -l < "$WANT/want")"' and (map(.complete) | min) == 1'
}
folder() {
	killed_often 6 "${SEND[@]}" "parquet:$LAB_DIR/pq" && in_files "$LAB_DIR/pq" && [ -z "$(find "$LAB_DIR/pq" -name '.packrack-*' ! -name '*-lock' -size +0)" ] && one_sender "$LAB_DIR/pq"
}
one_sender() { # FOLDER
	flock "$1"/.packrack-*-lock -c "! '$PACKRACK' flows --kept '$V' --to 'parquet:$1'" 2>&1 | grep 'another sender'
}
export AWS_ACCESS_KEY_ID=AKIDEXAMPLE AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY
bucket() {
	start_peer s3 refuse@2 cut@5 die@8 lie@11 die-done@14 hang@17 garbage@20 endless@23 &&
		killed_often 6 "${SEND[@]}" "s3://flows/rack/a b" --s3-endpoint "http://127.0.0.1:$PORT" || return 1
	rm -rf "$LAB_DIR/objects"
	peers objects "$STATE" "$LAB_DIR/objects" && in_files "$LAB_DIR/objects/rack/a b"
}
wrong_key() {
	start_peer s3 || return 1
	AWS_SECRET_ACCESS_KEY=wrong says 1 'status 403: SignatureDoesNotMatch' "$PACKRACK" flows --kept "$V" --to s3://flows/x --s3-endpoint "http://127.0.0.1:$PORT" &&
		AWS_SECRET_ACCESS_KEY='' says 1 'AWS_SECRET_ACCESS_KEY' "$PACKRACK" flows --kept "$V" --to s3://flows/x --s3-endpoint "http://127.0.0.1:$PORT"
}
beside "Amazon's vector of Signature 4" peers vector "$BUILD/packrack-flows-to"
if has_duckdb; then
	beside "a range as Parquet" one_range
	beside "files by the hour, the sender is killed; only one sends" folder
		beside "a bucket, both fail" bucket
	beside "with another key" wrong_key
fi

beside_ends
"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
