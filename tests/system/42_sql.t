#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SQL over a trace and over a rack: rows are those of packrack flows, tcpdump and the completeness report; a statement
# reaches no file, no address, no extension; what is missing is said. Without DuckDB one line tells how to get it.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands python3 jq tcpdump
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
new_lab
PACKRACK=$BUILD/packrack
CUT=$DATA/mix-gateway-hdr96-a.pcap

run_step "without DuckDB a line says how to get it" says 1 'install-deps --sql' \
	env PACKRACK_DUCKDB=/nonexistent "$PACKRACK" sql -r "$CUT" 'select 1'
if ! "$PACKRACK" sql -r "$CUT" 'select 1' > /dev/null 2>&1; then
	echo "# no DuckDB here (scripts/install-deps --sql): SQL itself is not tested"
	done_testing
	exit
fi

sql() { # STATEMENT OPTION...: CSV, without its head
	"$PACKRACK" sql --format csv "${@:2}" "$1" 2> "$LAB_DIR/said" | tail -n +2
}

# ---- rows ----

as_flows() {
	sql "select tcqtime::varchar, src_ip, dst_ip, src_port, dst_port, protocol, bytes_sent, bytes_recv, state, packets_sent,
		packets_recv, uid from flows order by uid" -r "$CUT" | cut -d, -f2- > "$LAB_DIR/sql.csv"
	"$PACKRACK" flows -r "$CUT" --format csv 2> /dev/null | tail -n +2 |
		awk -F, -v OFS=, '{ print $3, $4, $5, $6, $7, $8, $9, $11, $12, $13, $21 }' | LC_ALL=C sort -t, -k11 > "$LAB_DIR/flows.csv"
	diff "$LAB_DIR/sql.csv" "$LAB_DIR/flows.csv" | head -n 5
	cmp "$LAB_DIR/sql.csv" "$LAB_DIR/flows.csv"
}
run_step "flows are those of packrack flows, in the order that was asked for" as_flows
as_tcpdump() {
	local all tls
	all=$(tcpdump -r "$CUT" --count 2> /dev/null | awk '{ print $1 + 0 }')
	tls=$(tcpdump -r "$CUT" --count 'ip and tcp port 443 and ip[6:2] & 0x1fff = 0' 2> /dev/null | awk '{ print $1 + 0 }')
	[ "$(sql 'select count(*) from packets' -r "$CUT")" = "$all" ] &&
		[ "$(sql "select count(*) from packets where protocol = 6 and 443 in (src_port, dst_port) and src_ip like '%.%' and vlan is null" -r "$CUT")" -ge "$tls" ] &&
		[ "$(sql 'select sum(packets) from rate' -r "$CUT")" = "$all" ] &&
		[ "$(sql 'select count(*) from packets' -r "$CUT" --filter 'udp port 53')" = "$(tcpdump -r "$CUT" --count 'udp port 53' 2> /dev/null | awk '{ print $1 + 0 }')" ]
}
run_step "packets and rates are the trace's" as_tcpdump
as_rate() {
	"$PACKRACK" import "$CUT" --volume "$LAB_DIR/cut.vol" --create 64M > /dev/null 2>&1 || return 1
	sql "select epoch_ns(time), packets, bytes from rate order by 1" --volume "$LAB_DIR/cut.vol" > "$LAB_DIR/rate.csv"
	"$PACKRACK" rate --volume "$LAB_DIR/cut.vol" --json 2> /dev/null |
		jq -r '.series[] | select(.packets > 0) | [.since, .packets, .bytes] | @csv' > "$LAB_DIR/want.csv" || return 1
	[ -s "$LAB_DIR/want.csv" ] && diff "$LAB_DIR/want.csv" "$LAB_DIR/rate.csv"
}
run_step "of a volume, too" as_rate
addresses() {
	"$PACKRACK" sql -r "$CUT" --format json "select src_ip a, prefix(src_ip, 11) p, prefix(src_ip, 128) h, within(src_ip, '10.0.0.0/9') t,
		within(src_ip, 'fe80::/10') s, within(src_ip, '10.0.0.0/40') n from flows" 2> /dev/null | python3 -c '
import ipaddress, json, sys
rows = [json.loads(line) for line in sys.stdin]
for r in rows:
    a = ipaddress.ip_address(r["a"])
    assert r["p"] == str(ipaddress.ip_network(r["a"] + "/11", False)), r
    assert r["h"] == str(ipaddress.ip_network(r["a"])), r
    assert r["t"] is (a.version == 4 and a in ipaddress.ip_network("10.0.0.0/9")), r
    assert r["s"] is (a.version == 6 and a in ipaddress.ip_network("fe80::/10")), r
    assert r["n"] is None, r
print(len(rows))
sys.exit(len(rows) < 100)'
}
run_step "prefix and within" addresses
forms() { # of values that could be written otherwise
	local statement form
	statement="select 1.50 \"a,\"\"b\", 'x,\"y' t, true b, null n, 'inf'::double i, 'nan'::float f, 1e20::double d, 170141183460469231731687303715884105727::hugeint h,
		[1, 2] l, {'k': 'v'} s, '2026-01-01 00:00:00.5'::timestamp w, e'1\\t\\\\' c
		union all select 22, 'ä', false, 'null', -1, 2, 0.1, -1, [], null, null, 'z' order by 1"
	for form in json csv text; do
		"$PACKRACK" sql -r "$CUT" --format "$form" "$statement" 2> /dev/null
	done > "$LAB_DIR/forms"
	diff "$LAB_DIR/forms" - <<- 'END' || return 1
		{"a,\u0022b": 1.50, "t": "x,\u0022y", "b": true, "n": null, "i": "inf", "f": "nan", "d": 1e+20, "h": 170141183460469231731687303715884105727, "l": "[1, 2]", "s": "{'k': v}", "w": "2026-01-01 00:00:00.5", "c": "1\u0009\u005c"}
		{"a,\u0022b": 22.00, "t": "ä", "b": false, "n": "null", "i": -1.0, "f": 2.0, "d": 0.1, "h": -1, "l": "[]", "s": null, "w": null, "c": "z"}
		"a,""b",t,b,n,i,f,d,h,l,s,w,c
		1.50,"x,""y",true,,inf,nan,1e+20,170141183460469231731687303715884105727,"[1, 2]",{'k': v},2026-01-01 00:00:00.5,1	\
		22.00,ä,false,null,-1.0,2.0,0.1,-1,[],,,z
		 a,"b  t     b      n        i    f      d                                        h  l       s         w                      c
		 1.50  x,"y  true          inf  nan  1e+20  170141183460469231731687303715884105727  [1, 2]  {'k': v}  2026-01-01 00:00:00.5  1	\
		22.00  ä    false  null  -1.0  2.0    0.1                                       -1  []                                       z
	END
	"$PACKRACK" sql -r "$CUT" --format json 'explain select 1' 2> /dev/null | jq -e '.explain_key == "physical_plan" and (.explain_value | length > 9)'
}
run_step "text, CSV and JSON" forms
statements_of_input() {
	printf 'select count(*) n\nfrom flows;\nselect nope;\nselect sum(packets) from losses;\n' |
		"$PACKRACK" sql -r "$CUT" --format csv > "$LAB_DIR/out" 2> "$LAB_DIR/err"
	(($? == 1)) && [ "$(wc -l < "$LAB_DIR/out")" = 4 ] && grep -q 'nope' "$LAB_DIR/err"
}
run_step "statements of standard input; a mistake ends only its own" statements_of_input

one_of_input() { # longer than an argument may be
	[ "$({ printf 'select count(*) n, (select length(%c' "'"; head -c 300000 /dev/zero | tr '\0' x; printf '%c)) l from flows\n' "'"; } |
		"$PACKRACK" sql -r "$CUT" --format json - 2> /dev/null)" = "{\"n\": $("$PACKRACK" flows -r "$CUT" 2> /dev/null | wc -l), \"l\": 300000}" ] &&
		says 2 'no statement on standard input' "$PACKRACK" sql -r "$CUT" -
}
run_step "one long statement of standard input" one_of_input
with_carriage_returns() {
	[ "$(printf ';\r\nselect 1 a;\r\n-- a comment;\nselect 2 a;\r\n' | "$PACKRACK" sql -r "$CUT" --format json 2> "$LAB_DIR/err" | tr -d '\n')" = '{"a": 1}{"a": 2}' ]
}
run_step "lines of another system, and comments" with_carriage_returns
after_a_mistake() { # of piped statements, what is missing is told, also of kept flows
	"$PACKRACK" volume create "$LAB_DIR/flows" --size 64M > /dev/null && "$PACKRACK" flows -r "$CUT" --keep "$LAB_DIR/flows" 2> /dev/null || return 1
	says 1 'complete: ' bash -c "echo 'selct;' | '$PACKRACK' sql -r '$CUT'" &&
		says 1 '0 missing' bash -c "echo 'selct;' | '$PACKRACK' sql --kept '$LAB_DIR/flows'"
}
run_step "after a mistake" after_a_mistake
on_a_terminal() { # LINE...: what it shows, and that it ends with the last one
	python3 - "$PACKRACK" "$CUT" "$@" <<- 'END'
		import os, pty, select, sys, time
		program, trace, lines = sys.argv[1], sys.argv[2], sys.argv[3:]
		pid, fd = pty.fork()
		if pid == 0:
		    os.execv(program, [program, "sql", "-r", trace])
		shown, deadline, prompts = b"", time.monotonic() + 30, 0
		while time.monotonic() < deadline:
		    if lines and shown.count(b"sql> ") > prompts:
		        prompts = shown.count(b"sql> ")
		        os.write(fd, lines.pop(0).encode() + b"\n")
		    if select.select([fd], [], [], 0.1)[0]:
		        try:
		            data = os.read(fd, 4096)
		        except OSError:
		            data = b""
		        if not data:
		            break
		        shown += data
		else:
		    os.kill(pid, 9)
		print(shown.decode().replace("\r", ""))
		sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0 or bool(lines))
	END
}
words() {
	local word
	for word in quit 'quit;' exit .quit ' EXIT ; ' $'\4'; do
		on_a_terminal 'select 6 * 7 as answer;' help 'help;' .tables '.schema flows' 'show tables;' "$word" > "$LAB_DIR/shown" ||
			{ cat "$LAB_DIR/shown"; return 1; }
		if ! { [ "$(grep -c "^Statements end with ';'.*show tables; describe flows;" "$LAB_DIR/shown")" = 5 ] && grep -qx ' *42' "$LAB_DIR/shown" && grep -q '^losses' "$LAB_DIR/shown" &&
			grep -q 'complete: ' "$LAB_DIR/shown"; } || grep -q Error "$LAB_DIR/shown"; then
			cat "$LAB_DIR/shown"
			return 1
		fi
	done
}
run_step "on a terminal" words
times_in_the_filter() {
	local count
	count=$(sql 'select count(*) from packets' -r "$CUT" --filter 'tcp and after 2024-03-06T09:04:00Z')
	((count > 0)) && [ "$count" = "$("$PACKRACK" query -r "$CUT" --count 'tcp and after 2024-03-06T09:04:00Z' 2> /dev/null)" ]
}
run_step "times in the filter" times_in_the_filter
ends_at_once() { # a statement that would take hours
	"$PACKRACK" sql -r "$CUT" 'select count(*) from range(20000000000) t(i) where i % 7 = 3' > "$LAB_DIR/out" 2> "$LAB_DIR/err" &
	local pid=$!
	poll_until 20 is_counting "$pid" || { kill -9 "$pid"; return 1; }
	kill -INT "$pid"
	poll_until 10 gone "$pid" || { kill -9 "$pid"; return 1; }
}
is_counting() { # it has read the trace: more CPU than that takes
	(($(awk '{ print $14 + $15 }' "/proc/$1/stat") > 150))
}
gone() {
	! kill -0 "$1" 2> /dev/null
}
run_step "an interrupt ends a long statement" ends_at_once
run_step "a file that is no library" says 1 'does not load' env PACKRACK_DUCKDB=/etc/passwd "$PACKRACK" sql -r "$CUT" 'select 1'

# ---- what a statement may not do ----

refused() { # each is refused with one line, and nothing has been made
	local statement rc
	while read -r statement; do
		rc=0
		"$PACKRACK" sql -r "$CUT" "$statement" > "$LAB_DIR/out" 2> "$LAB_DIR/err" || rc=$?
		if ((rc != 1 && rc != 2)) || (($(wc -l < "$LAB_DIR/err") != 1)) || [ -s "$LAB_DIR/out" ]; then
			echo "$statement: status $rc"
			cat "$LAB_DIR/out" "$LAB_DIR/err"
			return 1
		fi
	done <<- END
		select * from read_csv('/etc/passwd')
		select * from read_text('/etc/passwd')
		select * from '/etc/passwd'
		select * from glob('/*')
		copy (select 1) to '$LAB_DIR/stolen'
		copy (select 1) to '/dev/stdout'
		select * from read_text('/dev/stdout')
		select * from read_text('/dev/stdin')
		copy flows from '/etc/passwd'
		export database '$LAB_DIR/stolen'
		attach '$LAB_DIR/stolen'
		install httpfs
		load '$LAB_DIR/stolen.duckdb_extension'
		set enable_external_access = true
		set allowed_paths = ['/etc/passwd']
		set threads = 2
		set temp_directory = '$LAB_DIR/stolen'
		select getenv('HOME')
		select 1; select 2
		selct 1
		select * from nosuch
	END
	[ ! -e "$LAB_DIR/stolen" ]
}
run_step "no file, no address, no extension" refused
run_step "a filter that is wrong" says 2 'illegal port' "$PACKRACK" sql -r "$CUT" --filter 'port 99999' 'select 1'
run_step "two statements" says 2 'one STATEMENT' "$PACKRACK" sql -r "$CUT" select 1
run_step "two statements in one" says 2 "one statement; packrack sql takes more on standard input" "$PACKRACK" sql -r "$CUT" 'select 1; select 2'
other_names() { # that there are, told in the same line
	says 2 '"src" not found in FROM clause!: Candidate bindings: "src_ip"' "$PACKRACK" sql -r "$CUT" 'select src from flows' &&
		says 2 'flow does not exist!: Did you mean "flows' "$PACKRACK" sql -r "$CUT" 'select * from flow' && (($(wc -l < "$LAB_DIR/err") == 1))
}
run_step "a wrong name: names that there are" other_names

# ---- questions that are served ----

"$PACKRACK" query -q -r "$CUT" --since @1709715700 --until @1709715712 -w "$LAB_DIR/small.pcap"
run_step "each answer is that of one question alone" tests/system/served.py "$PACKRACK" "$LAB_DIR/small.pcap" same "$LAB_DIR"
run_step "a faulty question is told in a line, and ends only itself" tests/system/served.py "$PACKRACK" "$LAB_DIR/small.pcap" faults "$LAB_DIR"
run_step "2,000 questions take no more memory" tests/system/served.py "$PACKRACK" "$LAB_DIR/small.pcap" memory "$LAB_DIR"
run_step "a statement beside --serve" says 2 'each question has its STATEMENT' "$PACKRACK" sql --serve 'select 1'
run_step "--as alone" says 2 'in a question to --serve' "$PACKRACK" sql --as live 'select 1'
ends_with_its_input() { # also within a question
	"$PACKRACK" sql --serve < /dev/null && printf 'select 1' > "$LAB_DIR/half" && "$PACKRACK" sql --serve < "$LAB_DIR/half" > "$LAB_DIR/out" && [ ! -s "$LAB_DIR/out" ]
}
run_step "it ends with its input" ends_with_its_input

# ---- over nodes ----

on_the_rack() {
	"$RACK" up -n 3 --size 96M -- --read "$CUT" || return 1
	"$RACK" drain --stored --timeout 120 || return 1
	poll_until 30 same_rows
}
same_rows() {
	sql "select src_ip, count(*), sum(bytes_sent + bytes_recv) from flows group by 1 order by 1" > "$LAB_DIR/rack.csv"
	sql "select src_ip, count(*), sum(bytes_sent + bytes_recv) from flows group by 1 order by 1" -r "$CUT" > "$LAB_DIR/file.csv"
	cmp "$LAB_DIR/rack.csv" "$LAB_DIR/file.csv" && [ "$(sql 'select count(*) from nodes where answered')" = 3 ]
}
run_step "three nodes have the rows of the trace" on_the_rack
what_is_missing() {
	local rc=0 all
	"$RACK" kill idx2 || return 1
	all=$(tcpdump -r "$CUT" --count 2> /dev/null | awk '{ print $1 + 0 }')
	"$PACKRACK" sql --format csv "select (select sum(packets) from losses) + (select count(*) from packets),
		(select string_agg(node) from nodes where not answered)" > "$LAB_DIR/out" 2> "$LAB_DIR/said" || rc=$?
	cat "$LAB_DIR/out" "$LAB_DIR/said"
	((rc == 3)) && [ "$(tail -n 1 "$LAB_DIR/out")" = "$all,log2" ]
}
run_step "without a node: packets and losses are all that there were" what_is_missing

"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
