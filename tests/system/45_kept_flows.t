#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Flows that are kept in a volume of their own: they equal those that the packets give, each once however often the
# keeper is killed, and they are there when the packets are not.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands jq tcpdump
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
new_lab
export PACKRACK=$BUILD/packrack
FULL=$DATA/mix-gateway-full-a.pcap
CUT=$DATA/mix-gateway-hdr96-a.pcap
V=$LAB_DIR/flows

kept() { # OPTION...: as text on standard output, its words in said
	"$PACKRACK" flows --kept "$V" --format csv "$@" 2> "$LAB_DIR/said"
}

# ---- of a trace ----

of_a_trace() {
	"$PACKRACK" volume create "$V" --size 64M && says 0 'flows kept' "$PACKRACK" flows -r "$CUT" --keep "$V"
}
run_step "flows of a trace are kept" of_a_trace
same() { # OPTION...: as if the packets were asked
	"$PACKRACK" flows -r "$CUT" "$@" > "$LAB_DIR/want" 2> /dev/null || return 1
	"$PACKRACK" flows --kept "$V" "$@" > "$LAB_DIR/have" 2> "$LAB_DIR/said" || { cat "$LAB_DIR/said"; return 1; }
	[ -s "$LAB_DIR/want" ] && cmp "$LAB_DIR/want" "$LAB_DIR/have"
}
for form in text csv json zeek eve; do
	run_step "the same as $form" same --format "$form"
done
same_second() { # a message has the second in which it was made
	same --format ipfix || same --format ipfix || same --format ipfix || same --format ipfix
}
run_step "the same as ipfix" same_second
run_step "the same trace is kept once" says 1 'are kept already' "$PACKRACK" flows -r "$CUT" --keep "$V"
of_a_volume() { # ranges beside each other, none twice
	local from=2024-03-06T09:01:00Z
	"$PACKRACK" import "$CUT" --volume "$LAB_DIR/packets" --create 64M > "$LAB_DIR/out" 2>&1 && "$PACKRACK" volume create "$LAB_DIR/ranges" --size 64M > "$LAB_DIR/out" &&
		"$PACKRACK" flows --volume "$LAB_DIR/packets" --keep "$LAB_DIR/ranges" --since "$from" --until 2024-03-06T09:02:00Z || return 1
	says 1 'are kept already' "$PACKRACK" flows --volume "$LAB_DIR/packets" --keep "$LAB_DIR/ranges" --since 2024-03-06T09:01:30Z --until 2024-03-06T09:02:30Z &&
		says 1 'are kept already' "$PACKRACK" flows --volume "$LAB_DIR/packets" --keep "$LAB_DIR/ranges" &&
		"$PACKRACK" flows --volume "$LAB_DIR/packets" --keep "$LAB_DIR/ranges" --since 2024-03-06T09:02:01Z || return 1
	"$PACKRACK" flows --kept "$LAB_DIR/ranges" 2>&1 > "$LAB_DIR/out" | grep 'kept of 2024-03-06T09:01:00'
}
run_step "ranges of a volume are kept once" of_a_volume
run_step "the same sums" same --by src/16,dport --top 20
same_largest() {
	local of
	for of in bytes packets payload duration flows; do
		{ [ "$of" = flows ] || same --top 7 --of "$of"; } && same --by src,state --top 7 --of "$of" || return 1
	done
	"$PACKRACK" flows --kept "$V" --top 7 2>&1 > /dev/null | grep "$("$PACKRACK" flows --kept "$V" 2> /dev/null | wc -l) flows match"
}
run_step "the same are the largest, and small ones are counted" same_largest
for filter in tcp 'tcp port 80' 'icmp' 'state = S0' 'bytes > 10k and tcp' 'not state = SF and port 443' \
	'udp and packets > 5 and duration > 1s or ip6' 'bytes > 1k and packets > 2 and payload > 100 and duration > 1s or port 53' \
	'not (bytes > 100)' 'net 10.0.0.0/8 and tcp[tcpflags] & tcp-rst != 0'; do
	run_step "the same of $filter" same --format csv "$filter"
done
accounted() {
	local all not_ip
	all=$(tcpdump -r "$CUT" --count 2> /dev/null | awk '{ print $1 + 0 }')
	kept | awk -F, 'NR > 1 { n += $12 + $13 } END { print n }' > "$LAB_DIR/in_flows"
	not_ip=$(sed -n "s/^kept of .*: $all packets, \([0-9]*\) of them not IP; 0 missing$/\1/p" "$LAB_DIR/said")
	cat "$LAB_DIR/said"
	(($(cat "$LAB_DIR/in_flows") + not_ip == all))
}
run_step "each packet is in a flow, or is not IP" accounted
range() { # those that were active in it
	kept > "$LAB_DIR/all"
	kept --since 2024-03-06T09:01:00Z --until 2024-03-06T09:01:10Z > "$LAB_DIR/range" || return 1
	awk -F, 'NR == 1 || ($1 <= 1709715670 && $1 + $2 >= 1709715660)' "$LAB_DIR/all" | diff - "$LAB_DIR/range" > "$LAB_DIR/diff"
	[ ! -s "$LAB_DIR/diff" ] && (($(wc -l < "$LAB_DIR/range") > 10))
}
run_step "a range has what was active in it" range
not_all() { # of a time without any
	says 3 'nothing was kept' "$PACKRACK" flows --kept "$V" --until 2020-01-01 &&
		says 3 'not kept: 2024-03-06T09:04' "$PACKRACK" flows --kept "$V" --since 2024-03-06T09:04:00Z --until 2024-03-06T10:00:00Z
}
run_step "what was not kept is said" not_all
with_sql() {
	! ldconfig -p | grep -q libduckdb && [ ! -e /usr/local/lib/packrack/libduckdb.so ] && return 0
	local statement='select * from flows order by uid'
	"$PACKRACK" sql -r "$CUT" --format csv "$statement" > "$LAB_DIR/want" 2> /dev/null &&
		"$PACKRACK" sql --kept "$V" --format csv "$statement" > "$LAB_DIR/have" 2> "$LAB_DIR/said" && cmp "$LAB_DIR/want" "$LAB_DIR/have" &&
		says 2 'packets does not exist' "$PACKRACK" sql --kept "$V" 'select * from packets' || return 1
	# a short text must have zeros behind it, as one that DuckDB makes, or it is not equal to itself: ::1 and the like
	"$PACKRACK" sql --kept "$V" --format csv "select count(*) from flows where src_ip <> concat(src_ip, '') or dst_ip <> concat(dst_ip, '')
		union all select count(*) from flows where length(dst_ip) < 10 and dst_ip like '%:%'" 2> /dev/null | paste -sd' ' > "$LAB_DIR/have"
	cat "$LAB_DIR/have"
	grep -Eq ' 0 [1-9]' "$LAB_DIR/have"
}
run_step "the same in SQL" with_sql
any_statement() { # what is pushed down changes no answer: after a statement that is no query nothing is
	! ldconfig -p | grep -q libduckdb && [ ! -e /usr/local/lib/packrack/libduckdb.so ] && return 0
	local small=$LAB_DIR/small from # of many batches
	"$PACKRACK" volume create "$small" --size 64M --block-size 64K > /dev/null || return 1
	for from in 09:0{0..4}:{00,20,40}; do
		"$PACKRACK" flows -r "$CUT" --since "2024-03-06T${from}Z" --until "2024-03-06T${from%?}9.999999999Z" --keep "$small" 2> /dev/null
		"$PACKRACK" flows -r "$CUT" --since "2024-03-06T${from%??}$((10#${from##*:} + 10))Z" --until "2024-03-06T${from%??}$((10#${from##*:} + 19)).999999999Z" \
			--keep "$small" 2> /dev/null
	done
	"$PACKRACK" sql --kept "$small" --format csv 'select * from flows' 2> /dev/null > "$LAB_DIR/rows"
	python3 tests/system/kept_statements.py "${SEED:-1}" "${STATEMENTS:-300}" < "$LAB_DIR/rows" > "$LAB_DIR/statements"
	"$PACKRACK" sql --kept "$small" --inside 10.0.0.0/8 --format csv --explain < "$LAB_DIR/statements" > "$LAB_DIR/have" 2> "$LAB_DIR/pushed"
	{ echo 'create table t (a int);'; cat "$LAB_DIR/statements"; } |
		"$PACKRACK" sql --kept "$small" --inside 10.0.0.0/8 --format csv --explain 2> "$LAB_DIR/said" | tail -n +2 > "$LAB_DIR/want"
	diff "$LAB_DIR/want" "$LAB_DIR/have" | head -n 5
	grep batches "$LAB_DIR/said" "$LAB_DIR/pushed"
	cmp "$LAB_DIR/want" "$LAB_DIR/have" && (($(wc -l < "$LAB_DIR/have") > 400)) || return 1
	(($(grep -c 'SQL:' "$LAB_DIR/said") == $(grep -c 'SQL:' "$LAB_DIR/pushed"))) || return 1
	(($(given "$LAB_DIR/pushed") < $(given "$LAB_DIR/said") * 98 / 100))
}
one_way() { # batches that have no row of the way that is asked for are passed over
	! ldconfig -p | grep -q libduckdb && [ ! -e /usr/local/lib/packrack/libduckdb.so ] && return 0
	local ways=$LAB_DIR/ways way having
	"$PACKRACK" volume create "$ways" --size 64M --block-size 64K > /dev/null || return 1
	"$PACKRACK" flows -r "$CUT" --until 2024-03-06T09:01:00Z --keep "$ways" src net 10.0.0.0/8 and not dst net 10.0.0.0/8 2> /dev/null &&
		"$PACKRACK" flows -r "$CUT" --since 2024-03-06T09:02:00Z --until 2024-03-06T09:03:00Z --keep "$ways" not src net 10.0.0.0/8 2> /dev/null &&
		"$PACKRACK" flows -r "$CUT" --since 2024-03-06T09:04:00Z --keep "$ways" src net 10.0.0.0/8 and not dst net 10.0.0.0/8 2> /dev/null || return 1
	for way in 'not outgoing' outgoing; do # by one thread; what counts rows has them all
		for having in '' 'having count(*) > 0'; do
			printf '%s\0' --kept "$ways" --inside 10.0.0.0/8 --format csv \
				"select count(*), sum(s) from (select src_ip, sum(bytes_sent) s from flows where $way group by src_ip $having)" ''
		done | "$PACKRACK" sql --serve | grep '^[0-9]' > "$LAB_DIR/have"
		cat "$LAB_DIR/have"
		(($(wc -l < "$LAB_DIR/have") == 2 && $(sort -u "$LAB_DIR/have" | wc -l) == 1)) && ! grep '^0,' "$LAB_DIR/have" || return 1
	done
}
run_step "batches of one way" one_way
given() { # FILE: rows that SQL got
	sed -n 's/^batches.* \([0-9]*\) rows given to SQL$/\1/p' "$1"
}
run_step "any statement: the same with what it asks for pushed down" any_statement
pruned() { # a needle reads no other batch, and of columns those that are named
	! ldconfig -p | grep -q libduckdb && [ ! -e /usr/local/lib/packrack/libduckdb.so ] && return 0
	local host
	host=$("$PACKRACK" sql --kept "$V" --format csv 'select src_ip from flows group by 1 having count(*) = 1 limit 1' 2> /dev/null | tail -n 1)
	"$PACKRACK" sql --kept "$V" --explain "select count(*) from flows where src_ip = '192.0.2.99'" 2>&1 | grep ' 0 read; 0 rows' &&
		"$PACKRACK" sql --kept "$V" --explain "select count(*) from flows where tcqtime < '2020-01-01'" 2>&1 | grep ' 0 read; 0 rows' &&
		"$PACKRACK" sql --kept "$V" --explain "select * from flows where src_ip = '$host' and state <> ''" 2>&1 | grep ' 1 rows given' &&
		"$PACKRACK" sql --kept "$V" --explain "select prefix(dst_ip, 8), sum(bytes_sent) from flows where protocol = 6 group by all" 2>&1 | grep -x 'columns read: dst_ip protocol bytes_sent'
}
run_step "a needle" pruned
several() { # uses of the table in one statement, on several threads, with the open flows: each has all rows
	! ldconfig -p | grep -q libduckdb && [ ! -e /usr/local/lib/packrack/libduckdb.so ] && return 0
	[ "$("$PACKRACK" sql --kept "$V" --format csv 'select count(*), count(distinct a.uid) from flows a join flows b using (uid)' 2> /dev/null | tail -n 1)" = \
		"$(kept | tail -n +2 | wc -l | sed 's/.*/&,&/')" ]
}
run_step "the table twice" several
served() { # each question has the flows that are there then, the conditions of its own statement, and no other's tables
	! ldconfig -p | grep -q libduckdb && [ ! -e /usr/local/lib/packrack/libduckdb.so ] && return 0
	local count='select count(*) n from flows' volume=$LAB_DIR/growing n
	"$PACKRACK" volume create "$volume" --size 64M > /dev/null && "$PACKRACK" flows -r "$CUT" --until 2024-03-06T09:01:30Z --keep "$volume" 2> /dev/null || return 1
	coproc SERVER { "$PACKRACK" sql --serve; }
	ask() {
		printf '%s\0' --format json "$@" '' >&"${SERVER[1]}"
		while read -r -t 60 line <&"${SERVER[0]}" && [ "$line" ]; do echo "$line"; done
		read -r line <&"${SERVER[0]}"
		jq -e '.status == 0 or .status == 3' <<< "$line" > /dev/null || echo "$line"
	}
	{
		ask --kept "$volume" "$count"
		"$PACKRACK" flows -r "$CUT" --since 2024-03-06T09:01:30.000000001Z --keep "$volume" 2> /dev/null
		ask --kept "$volume" "$count where src_ip = '192.0.2.99'"
		ask --kept "$volume" --as growing 'select * from flows'
		ask -r "$CUT" "$count"
		ask --kept "$volume" "$count"
		ask --kept "$volume" 'select count(*) n from growing'
		ask --kept "$V" "$count"
	} > "$LAB_DIR/answers"
	# shellcheck disable=SC2093,SC1083 # it closes a descriptor
	exec {SERVER[1]}>&-
	wait "$SERVER_PID" || return 1
	mapfile -t n < <(jq .n "$LAB_DIR/answers")
	echo "${n[*]}"
	((${#n[@]} == 6 && n[0] > 100 && n[0] < n[3] && n[1] == 0 && n[3] == n[4] && n[2] == n[5] && n[2] <= n[3]))
}
run_step "the table of questions that are served" served
watched() { # the past of a watch is asked of it
	! ldconfig -p | grep -q libduckdb && [ ! -e /usr/local/lib/packrack/libduckdb.so ] && return 0
	cat > "$LAB_DIR/kept.watch" <<- END
		[watch]
		window = 10s
		[live]
		sql = select count(*) n from flows
		[history]
		kept = $V
		back = 120s
		length = 60s
		sql = select count(*) n, sum(bytes_sent) b from flows
		[rule]
		sql = select live.n, history.n past, history.b from live, history
	END
	"$PACKRACK" watch test "$LAB_DIR/kept.watch" -r "$CUT" --since 2024-03-06T09:03:00Z --until 2024-03-06T09:03:10Z --format json > "$LAB_DIR/out" 2> "$LAB_DIR/said" || { cat "$LAB_DIR/said"; return 1; }
	"$PACKRACK" sql --kept "$V" --format json --since 2024-03-06T09:01:10Z --until 2024-03-06T09:02:09.999999999Z \
		'select count(*) n, sum(bytes_sent) b from flows' 2> /dev/null > "$LAB_DIR/want"
	cat "$LAB_DIR/want"
	jq -c '.rows[0] | {n: .past, b}' "$LAB_DIR/out"
	[ "$(jq -c '{n, b}' "$LAB_DIR/want")" = "$(jq -c '.rows[0] | {n: .past, b}' "$LAB_DIR/out")" ] && jq -e '.n > 10' "$LAB_DIR/want"
}
run_step "the past of a watch" watched

older() { # a volume whose Bloom filters have no pages
	python3 -c 'import lzma, sys; open(sys.argv[2], "wb").write(lzma.open(sys.argv[1]).read())' tests/data/flows-6c3767a4.xz "$LAB_DIR/older" || return 1
	"$PACKRACK" flows --kept "$LAB_DIR/older" --format csv > "$LAB_DIR/want" 2> /dev/null
	[ "$(sha256sum < "$LAB_DIR/want")" = "8c9f56aeb4829d787de29127097eb54c3ac6c808a55d70ad7c0cbaaac9da43a3  -" ] || return 1
	local host
	for host in $(sed 1d "$LAB_DIR/want" | cut -d, -f3 | sort -u | sed -n '1~9p') 192.0.2.99; do
		"$PACKRACK" flows --kept "$LAB_DIR/older" --format csv "src host $host" 2> /dev/null > "$LAB_DIR/have"
		awk -F, -v host="$host" 'NR == 1 || $3 == host' "$LAB_DIR/want" | cmp - "$LAB_DIR/have" || return 1
	done
}
run_step "a volume of an older version" older
shares() { # of three keepers as one relation
	local i volumes=()
	for i in 1 2 3; do
		"$PACKRACK" volume create "$LAB_DIR/share$i" --size 64M > /dev/null && "$PACKRACK" flows -r "$CUT" --share "$i/3" --keep "$LAB_DIR/share$i" 2> /dev/null || return 1
		volumes+=(--kept "$LAB_DIR/share$i")
	done
	kept | LC_ALL=C sort > "$LAB_DIR/want"
	"$PACKRACK" flows "${volumes[@]}" --format csv 2> "$LAB_DIR/said" | LC_ALL=C sort | cmp "$LAB_DIR/want" - || return 1
	cat "$LAB_DIR/said"
	(($(sed -n 's/^kept of .*: \([0-9]*\) packets, .*/\1/p' "$LAB_DIR/said" | awk '{ n += $1 } END { print n }') == 130930)) && grep 'share2, share 2/3:' "$LAB_DIR/said" &&
		says 3 'not kept: 2024-03-06T09:04' "$PACKRACK" flows "${volumes[@]}" --limit 1 --until 2024-03-06T10:00:00Z &&
		says 1 'some flows would be there twice' "$PACKRACK" flows "${volumes[@]}" --kept "$LAB_DIR/share2" &&
		says 1 'flows 0/0 of the same time' "$PACKRACK" flows "${volumes[@]}" --kept "$V" &&
		says 2 'of one volume' "$PACKRACK" flows "${volumes[@]}" --from-window 1 || return 1
	for i in "$V" "$LAB_DIR/share1, $LAB_DIR/share2,$LAB_DIR/share3"; do # and of a watch
		printf '[watch]\nwindow = 20s\nkept = %s\n[live]\nsql = select src_ip, sum(bytes_sent) as sent, count(uid) as flows from flows group by src_ip
[history]\nback = 60s\nsql = select count(*) as before from flows\n[rule]\nsql = select live.*, before from live, history order by sent desc, src_ip\n' "$i" > "$LAB_DIR/shares.watch"
		"$PACKRACK" watch test "$LAB_DIR/shares.watch" --since 2024-03-06T09:02:00Z --until 2024-03-06T09:03:00Z --format json | jq -c '[.complete, .begin, .rows]' > "$LAB_DIR/shares${#i}" || return 1
	done
	cmp "$LAB_DIR/shares${#V}" "$LAB_DIR/shares${#i}" && [ "$(jq -c '.[0] and (.[2] | length > 10)' "$LAB_DIR/shares${#V}" | uniq)" = true ]
}
run_step "shares of several keepers" shares
shares_in_sql() { # sums, what a WHERE chooses, and each row are those of one volume that has all
	! ldconfig -p | grep -q libduckdb && [ ! -e /usr/local/lib/packrack/libduckdb.so ] && return 0
	local volumes=(--kept "$LAB_DIR/share1" --kept "$LAB_DIR/share2" --kept "$LAB_DIR/share3") statement host
	host=$(kept | sed -n 2p | cut -d, -f3)
	for statement in 'select state, count(*), sum(bytes_sent), sum(packets_recv) from flows group by 1 order by 1' 'select * from flows order by uid' \
		"select count(*), sum(bytes_recv) from flows where src_ip = '$host'" 'select count(*), sum(bytes_sent) from flows where dst_port = 53 and bytes_sent > 100'; do
		"$PACKRACK" sql --kept "$V" --format csv "$statement" 2> /dev/null > "$LAB_DIR/want"
		"$PACKRACK" sql "${volumes[@]}" --format csv "$statement" 2> "$LAB_DIR/said" > "$LAB_DIR/have" || { cat "$LAB_DIR/said"; return 1; }
		(($(wc -l < "$LAB_DIR/want") > 1)) && cmp "$LAB_DIR/want" "$LAB_DIR/have" || return 1
	done
	cat "$LAB_DIR/said"
	(($(sed -n 's/^kept of .*: \([0-9]*\) packets, .*/\1/p' "$LAB_DIR/said" | awk '{ n += $1 } END { print n }') == 130930)) && grep 'share2, share 2/3:' "$LAB_DIR/said" &&
		says 3 'not kept: 2024-03-06T09:04' "$PACKRACK" sql "${volumes[@]}" --until 2024-03-06T10:00:00Z 'select count(*) from flows' &&
		says 1 'some flows would be there twice' "$PACKRACK" sql "${volumes[@]}" --kept "$LAB_DIR/share2" 'select count(*) from flows' &&
		says 3 'share2, share 2/3' "$PACKRACK" sql "${volumes[@]}" --until 2024-03-06T10:00:00Z 'select 1'
}
run_step "shares in SQL" shares_in_sql
one_after_the_other() { # volumes of two times
	"$PACKRACK" volume create "$LAB_DIR/half1" --size 64M > /dev/null && "$PACKRACK" volume create "$LAB_DIR/half2" --size 64M > /dev/null || return 1
	"$PACKRACK" flows -r "$CUT" --until 2024-03-06T09:02:00Z --keep "$LAB_DIR/half1" 2> /dev/null
	"$PACKRACK" flows -r "$CUT" --since 2024-03-06T09:02:00.000000001Z --keep "$LAB_DIR/half2" 2> /dev/null
	"$PACKRACK" flows --kept "$LAB_DIR/half2" --kept "$LAB_DIR/half1" --format csv 2> "$LAB_DIR/said" | awk -F, 'NR > 1 { n += $12 + $13 } END { print n }' > "$LAB_DIR/both"
	cat "$LAB_DIR/said" "$LAB_DIR/both"
	(($(cat "$LAB_DIR/both") == $(kept | awk -F, 'NR > 1 { n += $12 + $13 } END { print n }')))
}
run_step "volumes of two times" one_after_the_other

# ---- mistakes ----

run_step "a volume that keeps none" says 1 'keeps no flows: packrack flows --keep' bash -c "
	'$PACKRACK' volume create '$LAB_DIR/other' --size 64M && '$PACKRACK' flows --kept '$LAB_DIR/other'"
run_step "a volume that is none" says 1 'No such file' "$PACKRACK" flows --kept "$LAB_DIR/none"
run_step "nor to keep in" says 1 'No such file' "$PACKRACK" flows -r "$CUT" --keep "$LAB_DIR/none"
run_step "kept flows of a rack" says 2 'of that volume alone' "$PACKRACK" flows --kept "$V" -r "$CUT"
run_step "their packets" says 2 'there are no packets' "$PACKRACK" flows --kept "$V" --packets -w "$LAB_DIR/x"
run_step "kept and shown" says 2 'stores flows' "$PACKRACK" flows -r "$CUT" --keep "$V" --top 3
run_step "followed files" says 2 'of a rack' "$PACKRACK" flows -r "$CUT" --keep "$V" --follow
of_packets() { # a volume of a network's packets is none of flows
	"$PACKRACK" import "$CUT" --volume "$LAB_DIR/other" > /dev/null && says 1 'give flows a volume of their own' \
		"$PACKRACK" flows -r "$CUT" --keep "$LAB_DIR/other"
}
run_step "among packets of a network" of_packets
bytes() { # tests of bytes read all records
	local filter
	for filter in 'ip[8] < 10' 'ip[2:2] < 100' 'not ip[8] = 64 and bytes > 10' 'tcp[20] = 0 or udp[4:2] = 0'; do
		same --format csv "$filter" || { echo "$filter"; return 1; }
	done
}
run_step "tests of bytes" bytes
quiet_times() { # flows that ended before hours without a packet are where they were
	local trace=$DATA/mta-1year-hdr96-a.pcap second want have
	"$PACKRACK" volume create "$LAB_DIR/year" --size 64M > /dev/null && "$PACKRACK" flows -r "$trace" --keep "$LAB_DIR/year" 2> /dev/null || return 1
	"$PACKRACK" flows -r "$trace" --format csv 2> /dev/null | sed 1d > "$LAB_DIR/all"
	while read -r second; do
		want=$(awk -F, -v a="$second" '$1 < a + 1 && $1 + $2 >= a' "$LAB_DIR/all" | wc -l)
		have=$("$PACKRACK" flows --kept "$LAB_DIR/year" --since "@$second" --until "@$second.999999999" --format json 2> /dev/null | wc -l)
		((have == want)) || { echo "$second: $have of $want"; return 1; }
	done < <(awk -F, 'NR % 97 == 1 { print int($1) }' "$LAB_DIR/all")
}
run_step "ranges in a trace of a year" quiet_times

# ---- of a rack ----

FROM=2024-03-05T09:00:00Z UNTIL=2024-03-05T09:12:00Z # the trace's five minutes, and the time-outs
"$PACKRACK" flows -r "$FULL" --format csv 2> /dev/null | LC_ALL=C sort > "$LAB_DIR/want.csv"
KEEP_ON=("$PACKRACK" flows --follow --since "$FROM" --until "$UNTIL" --every 1s --keep "$V")
killed() { # often, at any moment: all there once
	"$RACK" up -n 3 --size 96M -- --read "$FULL" && "$RACK" drain --stored --timeout 120 || return 1
	"$PACKRACK" volume create "$V" --force --size 64M || return 1
	local n pid rounds=0
	for n in 0.05 0.1 0.2 0.3 0.4 0.5 0.25 0.35 0.15 0.6; do
		"${KEEP_ON[@]}" 2> "$LAB_DIR/keeper" &
		pid=$!
		sleep "$n"
		kill -KILL "$pid" && rounds=$((rounds + 1))
		wait "$pid"
	done
	((rounds > 3)) || return 1
	"${KEEP_ON[@]}" 2> "$LAB_DIR/keeper"
	kept | LC_ALL=C sort | diff "$LAB_DIR/want.csv" - > "$LAB_DIR/diff"
	head -n 5 "$LAB_DIR/diff"
	cat "$LAB_DIR/said"
	[ ! -s "$LAB_DIR/diff" ] && grep -q "$(tcpdump -r "$FULL" --count 2> /dev/null | awk '{ print $1 + 0 }') packets, .* 0 missing" "$LAB_DIR/said"
}
run_step "killed at any moment, all flows are kept once" killed
again() { # there is nothing to do, and a range of it is refused
	"${KEEP_ON[@]}" 2> /dev/null
	kept | LC_ALL=C sort | cmp "$LAB_DIR/want.csv" - &&
		says 1 'are kept already' "$PACKRACK" flows --since "$FROM" --until "$UNTIL" --keep "$V"
}
run_step "nothing is kept twice" again
first_window() { # killed in its first, and then with shorter ones; and behind a range that is there
	local pid n
	"$PACKRACK" volume create "$V" --force --size 64M > /dev/null || return 1
	for n in 0.01 0.02 0.03; do
		"$PACKRACK" flows --follow --since "$FROM" --until "$UNTIL" --every 1h --keep "$V" 2> /dev/null &
		pid=$!
		sleep "$n"
		kill -KILL "$pid"
		wait "$pid"
	done
	"$PACKRACK" flows --since 2024-03-05T09:08:00.5Z --until 2024-03-05T09:08:59Z --keep "$V" 2> "$LAB_DIR/keeper"
	cat "$LAB_DIR/keeper"
	"${KEEP_ON[@]}" 2> "$LAB_DIR/keeper"
	kept | LC_ALL=C sort | diff "$LAB_DIR/want.csv" - > "$LAB_DIR/diff"
	head -n 5 "$LAB_DIR/diff"
	[ ! -s "$LAB_DIR/diff" ] && ! grep -q 'not kept' "$LAB_DIR/said"
}
run_step "killed in its first window, and beside a range" first_window
in_the_midst() { # flows that are open when a window ends are told as they are then
	"$PACKRACK" volume create "$V" --force --size 64M > /dev/null || return 1
	"$PACKRACK" flows --follow --since "$FROM" --until 2024-03-05T09:01:59Z --every 1s --keep "$V" 2> /dev/null
	"$PACKRACK" flows --since "$FROM" --until 2024-03-05T09:01:59.999999999Z --format csv 2> /dev/null | LC_ALL=C sort > "$LAB_DIR/want"
	kept | LC_ALL=C sort | diff "$LAB_DIR/want" - > "$LAB_DIR/diff"
	head -n 5 "$LAB_DIR/diff"
	[ ! -s "$LAB_DIR/diff" ] || return 1
	"$PACKRACK" flows --since "$FROM" --until 2024-03-05T09:01:59.999999999Z --format csv 'tcp and bytes > 1k' 2> /dev/null | LC_ALL=C sort > "$LAB_DIR/want"
	kept 'tcp and bytes > 1k' | LC_ALL=C sort | cmp "$LAB_DIR/want" - && several
}
run_step "flows that go on" in_the_midst
outlive() { # the rest is kept first
	"${KEEP_ON[@]}" 2> /dev/null
	"$PACKRACK" data delete --node log1 --yes && "$PACKRACK" data delete --node log2 --yes && "$PACKRACK" data delete --node log3 --yes || return 1
	kept | LC_ALL=C sort | cmp "$LAB_DIR/want.csv" -
}
run_step "the packets are deleted, the flows are there" outlive

# ---- live ----

live() { # a node is lost meanwhile: what is missing is told
	"$RACK" down > /dev/null
	"$RACK" up -n 3 --size 96M || return 1
	"$PACKRACK" volume create "$V" --force --size 64M || return 1
	"$RACK" play "$FULL" --pps=2000 --loop=100000 --quiet > /dev/null 2>&1 &
	local player=$! keeper rc=0
	"$PACKRACK" flows --follow --every 1s --idle 2s --idle-tcp 2s --keep "$V" 2> "$LAB_DIR/keeper" &
	keeper=$!
	poll_until 30 windows 3 || rc=1
	"$RACK" kill idx2 && "$RACK" kill log2
	poll_until 30 told || rc=1
	kill "$player"
	kill -TERM "$keeper"
	wait "$keeper" || rc=1
	tail -n 5 "$LAB_DIR/keeper"
	return "$rc"
}
windows() { # COUNT
	(($("$PACKRACK" volume streams "$V" --json | jq '.streams[] | select(.name == "flow.windows") | .records // .last_sequence') >= $1))
}
told() {
	kept > "$LAB_DIR/out"
	(($? == 3)) && grep 'not complete when they were kept' "$LAB_DIR/said" && (($(wc -l < "$LAB_DIR/out") > 100))
}
run_step "live: a lost node is told" live

# ---- full ----

wraps() { # the oldest go, and that is said
	local n
	"$PACKRACK" volume create "$V" --force --size 16M --block-size 64K || return 1
	for n in $(seq 40); do
		"$PACKRACK" flows -r "$CUT" --since "@$((1709715600 + n))" --keep "$V" 2> /dev/null || return 1
	done
	says 3 "overwritten or deleted: flows that ended by" "$PACKRACK" flows --kept "$V" --since 2024-03-06T09:00:00Z --limit 1
}
run_step "a full volume overwrites its oldest flows, and says so" wraps

"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
