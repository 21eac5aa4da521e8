#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Watches: the shipped analyses report what the flows say, computed without SQL; faulty files are told in a line; on a rack
# each window is reported once, also past a kill of the daemon, and says what it lacks.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands python3 jq
need_programs packrack packrack-watch packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
new_lab
PACKRACK=$BUILD/packrack
CUT=$DATA/mix-gateway-hdr96-a.pcap
export PACKRACK_WATCHES=$LAB_DIR/watch.d PACKRACK_WATCH_STATE=$LAB_DIR/state
mkdir "$LAB_DIR/watch.d" "$LAB_DIR/short"

run_step "without DuckDB a line says how to get it" says 1 'install-deps --sql' \
	env PACKRACK_DUCKDB=/nonexistent "$PACKRACK" watch test matrix -r "$CUT" --since 2024-03-06T09:02:00Z
listed_without_duckdb() {
	says 0 'statements not tried: packrack sql: SQL needs DuckDB' env PACKRACK_DUCKDB=/nonexistent "$PACKRACK" watch list && (($(grep -c ' example ' "$LAB_DIR/out") == 8))
}
run_step "without DuckDB watches are listed" listed_without_duckdb
if ! "$PACKRACK" sql -r "$CUT" 'select 1' > /dev/null 2>&1; then
	echo "# no DuckDB here (scripts/install-deps --sql): watches are not tested"
	done_testing
	exit
fi

# ---- the shipped ones ----

all_are_sound() {
	local name
	[ "$("$PACKRACK" watch list | grep -c ' example ')" = 8 ] || return 1
	for name in "$BUILD"/watch.d/*.watch; do
		"$PACKRACK" watch show "$(basename "$name" .watch)" > "$LAB_DIR/out" || return 1
		grep -q '^-- rule' "$LAB_DIR/out" || return 1
	done
}
run_step "the shipped ones' statements can be executed" all_are_sound

# with a history that a trace of minutes has
for name in elephants mice portscans anomaly dispersion entropy; do
	sed -E 's/^back = .*/back = 80s/; s/^every = .*/every = 1s/; s/^threshold = .*/threshold = 0.1/; s/^k = 100/k = 20/' \
		"$BUILD/watch.d/$name.watch" > "$LAB_DIR/short/$name.watch"
done
sed -i 's/^back = .*/back = 60s 40s/; s/^length = .*/length = 20s/' "$LAB_DIR/short/elephants.watch"
BEGIN=$(date -d 2024-03-06T09:02:00Z +%s)
for name in elephants mice portscans anomaly:{cosine,jaccard,jensen_shannon,l1} dispersion entropy flow-sizes matrix; do
	run_step "$name, as computed without SQL" tests/system/watch_oracle.py "$PACKRACK" "$CUT" "$BEGIN" $((BEGIN + 120)) 20 "$name" "$LAB_DIR/short"
done
of_kept_flows() { # each flow is in one window; windows made together are as those made alone
	local name
	mkdir "$LAB_DIR/kept"
	"$PACKRACK" volume create "$LAB_DIR/flows" --size 64M > /dev/null && "$PACKRACK" flows -r "$CUT" --keep "$LAB_DIR/flows" 2> /dev/null || return 1
	for name in elephants mice portscans anomaly dispersion entropy flow-sizes matrix; do
		[ -e "$LAB_DIR/short/$name.watch" ] || cp "$BUILD/watch.d/$name.watch" "$LAB_DIR/short/"
		sed "s#^window = .*#window = 2s\nkept = $LAB_DIR/flows#; s/^every = 1s/every = 20s/; s/^least = 20/least = 4/" "$LAB_DIR/short/$name.watch" > "$LAB_DIR/kept/$name.watch"
	done
	# empty windows, all columns, times of the window; and an order that the windows together would lose
	printf '[watch]\nwindow = 2s\nkept = %s\nkeep = 2\n[live]\nsql = select *, :begin as begin_ from flows where last < :end\n[rule]\nsql = select count(*) as n, count(uid) as uids,
	 min(begin_) as at, (select count(*) from past) as before, sum(hash(live)::hugeint) as all_ from live order by n %s\n' "$LAB_DIR/flows" '' > "$LAB_DIR/kept/wide.watch"
	sed 's/order by n $/order by n + 1/' "$LAB_DIR/kept/wide.watch" > "$LAB_DIR/kept/ordered.watch"
	tests/system/watch_together.py "$PACKRACK" "$LAB_DIR/flows" "$BEGIN" $((BEGIN + 30)) "$LAB_DIR"/kept/*.watch > "$LAB_DIR/together" || { cat "$LAB_DIR/together"; return 1; }
	cat "$LAB_DIR/together"
	(($(grep -c ' 1[45] of them made together' "$LAB_DIR/together") == 9)) && grep -q 'ordered.*, 0 of them made together' "$LAB_DIR/together" || return 1
	! grep -q ', 0 rows' "$LAB_DIR/together" || return 1
	watch_file ended "[watch]\nwindow = 10s\nkept = $LAB_DIR/flows\n[live]\nsql = select uid from flows\n[report]\nmost = 100000\n[rule]\nsql = select * from live\n"
	"$PACKRACK" watch test ended --since 2024-03-06T09:00:00Z --until 2024-03-06T09:05:00Z --format json | jq -r '.rows[].uid' | sort > "$LAB_DIR/ended"
	"$PACKRACK" sql --kept "$LAB_DIR/flows" --format csv 'select uid from flows' 2> /dev/null | tail -n +2 | sort | cmp - "$LAB_DIR/ended" || return 1
	rm "$LAB_DIR/watch.d/ended.watch"
}
forms() { # text, JSON and a page have the same rows
	test_matrix() { "$PACKRACK" watch test matrix -r "$CUT" --since @"$BEGIN" --until @$((BEGIN + 60)) --set k=7 --format "$1"; }
	[ "$(test_matrix json | jq '.rows | length')" = 7 ] && (($(test_matrix text | wc -l) == 10)) &&
		test_matrix html > "$LAB_DIR/page.html" && [ "$(grep -o '<tr>' "$LAB_DIR/page.html" | wc -l)" = 8 ] &&
		grep -q '<svg' "$LAB_DIR/page.html" && ! grep -qE 'src=|href=|@import' "$LAB_DIR/page.html"
}
run_step "as text, JSON and a page" forms
watch_file() { # NAME TEXT: with \n
	printf '%b' "$2" > "$LAB_DIR/watch.d/$1.watch"
}
run_step "windows of kept flows, together and alone" of_kept_flows
sampled() { # windows of more records than it says, to what the report says; the others whole
	local text
	for text in '' 'sample = 100\n'; do
		watch_file sampled "[watch]\nwindow = 20s\nkept = $LAB_DIR/flows\n${text}[live]\nsql = select count(*) as n, count(*) / :share as about, (select count(*) from flows) as again from flows\n[rule]\nsql = select *, :share as share from live\n"
		"$PACKRACK" watch test sampled --since @"$BEGIN" --until @$((BEGIN + 160)) --format json > "$LAB_DIR/sampled$text" || return 1
	done
	"$PACKRACK" watch test sampled --since @"$BEGIN" --until @$((BEGIN + 160)) --format json | jq -c .rows > "$LAB_DIR/again" || return 1
	jq -c .rows "$LAB_DIR/sampled$text" | cmp - "$LAB_DIR/again" || return 1
	"$PACKRACK" watch test sampled --since @"$BEGIN" --until @$((BEGIN + 20)) | grep 'sampled: 1 of [0-9.]* of [0-9]* records' || return 1
	# each within five standard errors; and some are whole: the last ones have no flows
	paste -d '[' "$LAB_DIR/sampled" "$LAB_DIR/sampled$text" | sed 's/}\[{/}\n{/' | jq -s '[range(0; length; 2) as $i | .[$i:$i + 2]] |
		(map(select(.[1].sampled)) | length >= 4) and (map(select(.[1].sampled | not)) | length >= 1) and all(.[];
		.[0].rows[0] as $all | .[1] as $s | $s.rows[0] as $r | $r.n == $r.again and $s.complete and if $s.sampled then $s.sampled.records == $all.n and
		($s.sampled.share * $all.n - 100 | fabs) < 0.01 and $r.share < 1 and ($r.n - 100 | fabs) < 45 and ($r.about * $r.share - $r.n | fabs) < 0.01
		else $r.n == $all.n and $all.n <= 100 end)' | grep true
	rm "$LAB_DIR/watch.d/sampled.watch"
}
run_step "a sample of large windows" sampled
auto() { # a window that takes 0.6 s to make is longer than 1 s; they follow each other, and the report says so
	watch_file auto "[watch]\nwindow = auto\nkept = $LAB_DIR/flows\n[live]\nsql = select count(*) as n from flows\n[rule]\npython = auto.py\n"
	printf 'import time\n\n\ndef report(live, **more):\n    time.sleep(0.6)\n    return live\n' > "$LAB_DIR/watch.d/auto.py"
	"$PACKRACK" watch test auto --since @$((BEGIN + 1)) --until @$((BEGIN + 15)) --format json > "$LAB_DIR/auto" || return 1
	jq -se '(map(.end - .begin == .auto * 1000000000 and .begin % (.end - .begin) == 0) | all) and .[0].auto == 1 and .[-1].auto > 1 and
		([.[:-1], .[1:]] | transpose | map(.[0].end == .[1].begin) | all)' "$LAB_DIR/auto" || return 1
	"$PACKRACK" watch test auto --since @$((BEGIN + 1)) --until @$((BEGIN + 5)) | grep 'window of 2 s' || return 1
	"$PACKRACK" watch test auto --set window=7s --since @"$BEGIN" --until @$((BEGIN + 7)) --format json | jq -e '.auto == null' || return 1
	python3 - "$BUILD/packrack-watch" "$LAB_DIR/watch.d/auto.watch" <<- 'END'
		import importlib.machinery, importlib.util, sys
		loader = importlib.machinery.SourceFileLoader("packrack_watch", sys.argv[1])
		w = importlib.util.module_from_spec(importlib.util.spec_from_loader("packrack_watch", loader))
		loader.exec_module(w)
		for window, took, end, want in ((4, 2.1, 8, 8), (4, 2.1, 4, None), (4, 1.9, 8, None), (4, 0.51, 8, None), (4, 0.4, 8, 2), (1, 0.01, 8, None), (512, 300, 1024, None)):
		    found = w.resized(w.Watch(sys.argv[2], None, window * w.NS), [{"took": took, "end": end * w.NS, "history": []}])
		    assert (found and found.window // w.NS) == want, (window, took, end)
	END
	rm "$LAB_DIR"/watch.d/auto.*
}
run_step "a window as long as the machine needs" auto
summed_once() { # [history] all: the rows of several ranges, as the rule would sum them
	local name text="[watch]\nwindow = 10s\nkept = $LAB_DIR/flows\n[live]\nsql = select protocol, count(*) as n from flows group by all\n[history]\nback = 70s 40s\nlength = 20s\nevery = 20s
sql = select protocol, sum(bytes_sent) as sent from flows group by all\n"
	watch_file all "${text}all = select protocol, sum(sent) as sent from history group by all\n[rule]\nsql = select * from live join history using (protocol) order by protocol\n"
	watch_file each "${text}[rule]\nsql = select * from live join (select protocol, sum(sent) as sent from history group by all) using (protocol) order by protocol\n"
	for name in all each; do
		"$PACKRACK" watch test "$name" --since @"$BEGIN" --until @$((BEGIN + 60)) --format json | jq -c '[.begin, .rows]' > "$LAB_DIR/$name.rows" || return 1
	done
	cmp "$LAB_DIR/all.rows" "$LAB_DIR/each.rows" && (($(wc -l < "$LAB_DIR/all.rows") == 6)) && grep -q sent "$LAB_DIR/all.rows" || return 1
	rm "$LAB_DIR"/watch.d/{all,each}.watch
}
run_step "the rows of several ranges become one relation" summed_once

first_week() { # of the past that began before the first capture: complete, and told; of the window itself: partial
	local since=2024-03-06T09:03:00Z
	"$PACKRACK" import "$CUT" --volume "$LAB_DIR/v" --create 1G > /dev/null || return 1
	TZ=UTC "$PACKRACK" watch test portscans --volume "$LAB_DIR/v" --since "$since" --until 2024-03-06T09:04:00Z > "$LAB_DIR/out" || return 1
	sed -n '/^    \$ packrack watch test portscans/,/^    \$ mkdir/p' README.md | sed '1d; $d; s/^    //' > "$LAB_DIR/want"
	diff <(grep . "$LAB_DIR/out") "$LAB_DIR/want" && grep -q 'before its first capture$' "$LAB_DIR/want" || return 1
	scans() { "$PACKRACK" watch test portscans --volume "$LAB_DIR/v" --since "$since" --until 2024-03-06T09:04:00Z --format "$1"; }
	scans json | jq -e '.complete and (.history[0] | .status == 0 and (.said | test("\n.*before its first capture")))' &&
		scans html | grep -q '<p>history .* before its first capture</p>' || return 1
	"$PACKRACK" watch test matrix --volume "$LAB_DIR/v" --since 2024-03-06T08:59:00Z --until 2024-03-06T09:01:00Z > "$LAB_DIR/out"
	(($? == 3)) && [ "$(grep -c 'PARTIAL$' "$LAB_DIR/out")" = 2 ] && [ "$(grep -c '^    not observed: .* before its first capture$' "$LAB_DIR/out")" = 2 ]
}
run_step "a first week: the past begins before the first capture" first_week
kept_begins_later() { # kept flows: the report is partial, and says why
	sed "s#^window = .*#window = 60s\nkept = $LAB_DIR/flows#" "$BUILD/watch.d/mice.watch" > "$LAB_DIR/watch.d/later.watch"
	says 3 ': not kept: ' "$PACKRACK" watch test later --since 2024-03-06T09:03:00Z --until 2024-03-06T09:04:00Z &&
		grep -A 1 '^  history .*: not kept: ' "$LAB_DIR/out" | grep '^    kept of ' || return 1
	rm "$LAB_DIR/watch.d/later.watch"
}
run_step "a past before kept flows" kept_begins_later

# ---- watch files ----

parameters_are_told() { # each one of those that come along
	local path name
	for path in "$BUILD"/watch.d/*.watch; do
		name=$(basename "$path" .watch)
		"$PACKRACK" watch show "$name" > "$LAB_DIR/out" || return 1
		awk '/^parameter/ && before !~ /^# [a-z]/ { print; bad = 1 } { before = $0 } END { exit bad }' "$LAB_DIR/out" || { echo "$name"; return 1; }
	done
	"$PACKRACK" watch show portscans --set least=9 | grep -A 1 '^# pairs of one host' | grep -q '^parameter least = 9$'
}
run_step "show tells what parameters are" parameters_are_told
manual_example() {
	sed -n '/^\[watch\]$/,/^\.Ed$/p' merger/watch/packrack-watch.1 | sed '$d' > "$LAB_DIR/watch.d/talkers.watch"
	"$PACKRACK" watch show talkers | grep -A 1 '^# so many times' | grep '^parameter times = 10$' || return 1
	"$PACKRACK" watch test talkers --volume "$LAB_DIR/v" --since 2024-03-06T09:02:00Z --until 2024-03-06T09:04:00Z --format json |
		jq -se 'length == 2 and all(.[]; .complete and all(.rows[]; .sent > 10 * .usual)) and (map(.rows | length) | add > 0)' || return 1
	says 1 'talkers has made no report yet' "$PACKRACK" watch report talkers && says 1 'no watch "nosuch": ' "$PACKRACK" watch report nosuch || return 1
	"$PACKRACK" watch list > "$LAB_DIR/out" && tail -n 1 "$LAB_DIR/out" | grep -x 'not running: packrack watch run' && grep '^talkers *on ' "$LAB_DIR/out" || return 1
	sed -i 's/select src_ip, sum/selct src_ip, sum/' "$LAB_DIR/watch.d/talkers.watch"
	"$PACKRACK" watch list | grep '^talkers *faulty .*Parser Error' || return 1
	rm "$LAB_DIR/watch.d/talkers.watch"
}
run_step "the manual's example; no report; a wrong statement" manual_example
titles() { # of a page: the watch's, while there is one; and one window is no windows
	watch_file titled "${COUNT/window/title = Its title\\nwindow}"
	python3 - "$BUILD/packrack-watch" "$LAB_DIR/watch.d/titled.watch" "$PACKRACK_WATCH_STATE" <<- 'END' || return 1
		import argparse, importlib.machinery, importlib.util, os, sys
		loader = importlib.machinery.SourceFileLoader("packrack_watch", sys.argv[1])
		w = importlib.util.module_from_spec(importlib.util.spec_from_loader("packrack_watch", loader))
		loader.exec_module(w)
		os.makedirs(sys.argv[3], exist_ok=True)
		r = w.Runner(argparse.Namespace(state=sys.argv[3]), sys.argv[2], w.Asker([], 1))
		r.watch = w.Watch(sys.argv[2])
		assert r.skip(r.skip(9 * w.NS, 9 * w.NS, "why"), 11 * w.NS, "why") == 12 * w.NS
	END
	"$PACKRACK" watch report titled -n 2 | grep . | cut -d : -f 6 | diff - <(printf '%s\n' ' 1 window skipped' ' 2 windows skipped') || return 1
	"$PACKRACK" watch report titled --format html | grep -q '<title>Its title<' || return 1
	rm "$LAB_DIR/watch.d/titled.watch"
	"$PACKRACK" watch report titled --format html | grep -q '<title>titled<' || return 1
	rm "$PACKRACK_WATCH_STATE"/titled.*
}

COUNT='[watch]\nwindow = 1s\n[live]\nsql = select count(*) as n from packets\n[rule]\nsql = select n from live\n'
run_step "a page has the title of its watch" titles
faulty() { # each has one line, which names the file, and what is wrong
	local text said
	while IFS='|' read -r text said; do
		watch_file faulty "$text"
		says 1 "$said" "$PACKRACK" watch show faulty > "$LAB_DIR/said" 2>&1 || { echo "$text"; cat "$LAB_DIR/said"; return 1; }
	done <<- 'END'
		window = 1s|no section headers
		[watch]\nwindow = 1x|1x
		[watch]\nslide = 1s|[watch] window
		[watch]\nwindow = 1s\nslide = 2s|slide is longer
		[watch]\nwindow = 1s\nwindom = 1s|no "windom"
		[wotch]\nwindow = 1s|no section [wotch]
		[watch]\nwindow = 1s\n[rule]\nsql = select 1|[live] has no sql
		[watch]\nwindow = 1s\n[live]\nsql = select 1 as a|either sql or python
		[watch]\nwindow = 1s\n[live]\nsql = select :k as a\n[rule]\nsql = select 1|no parameter :k
		[watch]\nwindow = 1s\n[live]\nsql = selct 1 as a\n[rule]\nsql = select 1|[live] sql: packrack sql: SQL: Parser Error
		[watch]\nwindow = 1s\n[live]\nsql = select 1 as a\n[rule]\nsql = select b from live|[rule] sql: packrack sql: SQL: Binder Error
		[watch]\nwindow = 1s\n[live]\nsql = select 1 as a\n[history]\nsql = select 1 as a\n[rule]\nsql = select 1|[history] has no back
		[watch]\nwindow = 1s\n[live]\nsql = select 1 as a\n[rule]\npython = nosuch.py|nosuch.py
		[watch]\nwindow = 1s\n[live]\nsql = select * from read_text('/etc/passwd')\n[rule]\nsql = select 1|disabled
		[watch]\nwindow = 1s\nkeep = many\n[live]\nsql = select 1 as a\n[rule]\nsql = select 1|"many" is no number
		[watch]\nwindow = 1s\n[live]\nsql = select 1 as a\n[history]\nback = 1s\nsql = select 1 as a\n[rule]\nsql = select 1|is not before the window
		[watch]\nwindow = 1s\n[live]\nsql = select 1 as a\n[history]\nback = 1h\nevery = 1m\nsql = select a from live\n[rule]\nsql = select 1|its sql names live
		[watch]\nwindow = 1s\n[live]\nsql = select 1 as a\n[history]\nback = 1h\nby = a\nsql = select 1 as a\n[rule]\nsql = select 1|by and :keys
		[watch]\nwindow = 1s\n[live]\nsql = select 1 as a\n[history]\nback = 1h\nby = b\nsql = select 1 as a where 1 in (:keys)\n[rule]\nsql = select 1|[history] sql: packrack sql: SQL: Binder Error
		[watch]\nwindow = 1s\n[live]\nsql = select 1 as a\n[rule]\nsql = select 1\n[report]\nsyslog = true|syslog: yes or no
		[watch]\nwindow = 1s\n[parameters]\nshare = 1\n[live]\nsql = select 1 as a\n[rule]\nsql = select 1|share: another name
		[watch]\nwindow = auto\nslide = 1s\n[live]\nsql = select 1 as a\n[rule]\nsql = select 1|window = auto: without slide
		[watch]\nwindow = 1s\nsample = 10\n[live]\nsql = select 1 as a\n[rule]\nsql = select 1|sample: of windows of kept flows
		[watch]\nwindow = 1s\nkept = /v\nfilter = tcp\n[live]\nsql = select 1 as a\n[rule]\nsql = select 1|kept: of all flows
		[watch]\nwindow = 1s\nkeep = many\n[live]\nsql = select 1 as a\n[rule]\nsql = select 1|"many" is no number
	END
	ln -s /nonexistent "$LAB_DIR/watch.d/dangling.watch"
	"$PACKRACK" watch list | grep -q 'dangling *faulty' || return 1
	rm "$LAB_DIR/watch.d/dangling.watch"
	"$PACKRACK" watch list | grep -q 'faulty .*"many"' || return 1
	rm "$LAB_DIR/watch.d/faulty.watch"
}
run_step "a faulty file is told in a line" faulty
told_in_a_line() { # TEXT OPTION...: of a test
	says 1 "$1" "$PACKRACK" watch test matrix -r "$CUT" "${@:2}" && (($(wc -l < "$LAB_DIR/err") == 1))
}
run_step "a time before all" told_in_a_line 'is no time' --since 0001-01-01
run_step "an empty value" told_in_a_line 'a value, in UTF-8' --since @"$BEGIN" --set window=
run_step "no UTF-8" told_in_a_line 'a value, in UTF-8' --since @"$BEGIN" --set k=$'\xff'
run_step "no duration" told_in_a_line 'is no duration' --since @"$BEGIN" --set window="$(printf '9%.0s' {1..400})d"
comments_and_capitals() {
	watch_file odd "[watch]\nwindow = 20s\n[live]\nsql = -- a count\n /* of\n flows */ with f as (select * from flows) select count(*) as n from f
[rule]\nsql = /* x */ -- y\n with recursive r as (select N from LIVE) select n from R\n"
	[ "$("$PACKRACK" watch test odd -r "$CUT" --since @"$BEGIN" --until @$((BEGIN + 20)) --format json | jq '.rows[0].n > 100')" = true ] || return 1
	rm "$LAB_DIR/watch.d/odd.watch"
}
run_step "comments, WITH, capitals" comments_and_capitals
its_question_ends() { # with it, when it is killed
	watch_file slow "[watch]\nwindow = 20s\n[live]\nsql = select count(*) as n from range(20000000000) t(i) where i % 7 = 3\n[rule]\nsql = select n from live\n"
	"$PACKRACK" watch test slow -r "$CUT" --since @"$BEGIN" --until @$((BEGIN + 20)) > /dev/null 2>&1 &
	local watch=$! question
	# of its process group, the one that counts; the first tries the statements on an empty trace and ends
	poll_until 20 asks "$watch" || { kill -9 "$watch"; return 1; }
	question=$(pgrep -P "$watch")
	kill -9 "$watch"
	rm "$LAB_DIR/watch.d/slow.watch"
	poll_until 10 has_ended "$question" || { kill -9 "$question"; return 1; }
}
server_dies() { # once: it is asked again; twice: a line
	local watch times i rc
	watch_file slow "[watch]\nwindow = 20s\nkeep = 3\n[live]\nsql = select count(*) + (select count(*) from range(2000000000) t(i) where i % 7 = 3) - (select count(*) from range(2000000000) t(i) where i % 7 = 3) as n from flows
[rule]\nsql = select n, (select count(*) from past) as before from live\n"
	for times in 1 2; do
		"$PACKRACK" watch test slow -r "$CUT" --since @"$BEGIN" --until @$((BEGIN + 20)) --format json > "$LAB_DIR/slow" 2> "$LAB_DIR/said" &
		watch=$!
		for ((i = 0; i < times; i++)); do
			poll_until 30 asks "$watch" || { kill -9 "$watch"; return 1; }
			kill -9 "$(pgrep -P "$watch")"
		done
		wait "$watch" && rc=0 || rc=$?
		cat "$LAB_DIR/said"
		((times == rc + 1)) || return 1
		((times == 2)) || one_answer || return 1
	done
	rm "$LAB_DIR/watch.d/slow.watch"
	grep -q 'ended with status -9' "$LAB_DIR/said" && (($(wc -l < "$LAB_DIR/said") == 1))
}
one_answer() { # the one that there would have been
	[ "$(jq '.rows[0].n' "$LAB_DIR/slow")" = "$("$PACKRACK" sql -r "$CUT" --since @"$BEGIN" --until @$((BEGIN + 19)).999999999 --active 1d --format csv 'select count(*) from flows' 2> /dev/null | tail -n 1)" ]
}
asks() { # it has counted for a while
	local question
	question=$(pgrep -P "$1") && (($(awk '{ print $14 + $15 }' "/proc/$question/stat") > 100))
}
has_ended() {
	! kill -0 "$1" 2> /dev/null
}
run_step "its question ends with it" its_question_ends
run_step "a server that is killed is asked again; twice is told in a line" server_dies
run_step "no such parameter" says 1 'no parameter "kk"' "$PACKRACK" watch test matrix --set kk=1 -r "$CUT" --since @"$BEGIN"
run_step "no such watch" says 1 'no watch "nosuch"' "$PACKRACK" watch show nosuch
run_step "no whole window" says 1 'no whole window' "$PACKRACK" watch test matrix -r "$CUT" --since @"$BEGIN" --until @$((BEGIN + 59))
of_python() { # quotes and nothing at all arrive as they are
	watch_file python "[watch]\nwindow = 20s\n[parameters]\nleast = 3\n[live]\nsql = select src_ip, count(distinct dst_port) as ports,
 'it''s' as quoted, null as nothing from flows group by src_ip\n[rule]\npython = ports.py\n"
	cat > "$LAB_DIR/watch.d/ports.py" <<- 'END'
		def report(live, history, past, parameters, begin, end):
		    assert all(row["quoted"] == "it's" and row["nothing"] is None for row in live)
		    return [{"src_ip": row["src_ip"], "ports": row["ports"]} for row in live if row["ports"] >= int(parameters["least"])]
	END
	"$PACKRACK" watch test python -r "$CUT" --since @"$BEGIN" --until @$((BEGIN + 20)) --format json > "$LAB_DIR/out" || return 1
	"$PACKRACK" sql -r "$CUT" --since @"$BEGIN" --until @$((BEGIN + 19)).999999999 --active 1d --format csv \
		"select src_ip, count(distinct dst_port) n from flows group by 1 having n >= 3 order by 1" 2> /dev/null | tail -n +2 > "$LAB_DIR/want"
	jq -r '.rows[] | "\(.src_ip),\(.ports)"' "$LAB_DIR/out" | LC_ALL=C sort > "$LAB_DIR/got"
	[ -s "$LAB_DIR/want" ] && LC_ALL=C sort "$LAB_DIR/want" | cmp - "$LAB_DIR/got" || return 1
	printf 'def report(**more):\n    raise ValueError("its own")\n' > "$LAB_DIR/watch.d/ports.py"
	says 1 'ValueError: its own' "$PACKRACK" watch test python -r "$CUT" --since @"$BEGIN" --until @$((BEGIN + 20)) || return 1
	rm "$LAB_DIR"/watch.d/python.watch "$LAB_DIR/watch.d/ports.py"
}
run_step "a rule in Python" of_python
long_relations() { # longer than an argument of a program may be
	watch_file long "[watch]\nwindow = 20s\nkeep = 9\n[live]\nsql = select uid, repeat(uid, 100) as words from flows\n[rule]\nsql = select (select count(*) from live) as n,
 (select count(*) from past) as before, (select sum(length(words)) from past) as letters\n"
	"$PACKRACK" watch test long -r "$CUT" --since @"$BEGIN" --until @$((BEGIN + 60)) --format json > "$LAB_DIR/out" || return 1
	rm "$LAB_DIR/watch.d/long.watch"
	jq -se '(.[0].rows[0].n > 100) and (.[2].rows[0].before == .[0].rows[0].n + .[1].rows[0].n) and (.[2].rows[0].letters > 200000)' "$LAB_DIR/out"
}
run_step "relations of any length" long_relations

# ---- on a rack ----

run_step "no watch is there" says 1 'no watch to run' "$PACKRACK" watch run
run_step "no folder is there" says 1 'no such folder' "$PACKRACK" watch run --watches /nonexistent
reports() { # JQ-FILTER: over all reports of the watch `count`
	jq -s "$1" "$PACKRACK_WATCH_STATE/count.jsonl" 2> /dev/null
}
has_reports() { # NUMBER
	(($(reports length) >= $1))
}
start_watch() {
	"$PACKRACK" watch run > "$LAB_DIR/watch.out" 2>> "$LAB_DIR/watch.err" &
	WATCH=$!
	echo $WATCH >> "$LAB_DIR/pids/watch"
}
runs() {
	watch_file count "${COUNT}[report]\ncommand = cat >> '$PACKRACK_WATCH_STATE/told'\n"
	"$RACK" up -n 3 --size 96M > "$LAB_DIR/up" 2>&1 || { cat "$LAB_DIR/up"; return 1; }
	tests/system/numbered.py make "$LAB_DIR/numbered.pcap" 1000 > /dev/null || return 1
	"$RACK" play "$LAB_DIR/numbered.pcap" --pps=1000 --loop=1000000 --quiet > /dev/null 2>&1 &
	PLAYER=$!
	start_watch
	poll_until 30 has_reports 4 && grep -qx 'packrack watch: watching 1: count' "$LAB_DIR/watch.err"
}
# In the shell of the test, which ends them.
PLAYER='' WATCH=''
runs > "$LAB_DIR/out" 2>&1 && rc=0 || rc=$?
result "$rc" "a report a second" "$LAB_DIR/out"
run_step "two at once" says 1 'another packrack watch runs' "$PACKRACK" watch run
again() {
	local before
	kill -9 "$WATCH"
	poll_until 10 ended || return 1
	before=$(reports length)
	# what a kill leaves of a line
	printf '{"watch": "count", "beg' >> "$PACKRACK_WATCH_STATE/count.jsonl"
	start_watch
	poll_until 30 has_reports $((before + 4))
}
ended() {
	! kill -0 "$WATCH" 2> /dev/null
}
again > "$LAB_DIR/out" 2>&1 && rc=0 || rc=$?
result "$rc" "it goes on after kill -9" "$LAB_DIR/out"
rests() {
	local before
	"$PACKRACK" watch pause count | grep -x 'count rests, until packrack watch resume' || return 1
	before=$(reports length)
	"$PACKRACK" watch list > "$LAB_DIR/list" && grep -q '^count *paused' "$LAB_DIR/list" && ! grep 'not running' "$LAB_DIR/list" || return 1
	poll_until 10 has_skipped_time || return 1
	"$PACKRACK" watch resume count | grep -x 'count goes on with the present window' || return 1
	poll_until 20 has_reports $((before + 3)) && (($(reports '[.[] | select(.skipped // "" | test("paused"))] | length') == 1))
}
has_skipped_time() { # no report for three windows
	(($(date +%s) - $(reports '.[-1].end') / 1000000000 >= 3))
}
run_step "a pause is told as windows that were skipped" rests
reads_again() {
	watch_file count "${COUNT/select n from live/select n, 1 as changed from live}"
	poll_until 20 has_changed
}
has_changed() {
	[ "$(reports '.[-1].rows[0].changed')" = 1 ]
}
run_step "a file that changes is read again" reads_again
no_gaps() {
	reports '[.[:-1], .[1:]] | transpose | map(.[0].end == .[1].begin) | all' | grep -q true
}
is_over() { # SECONDS
	((SECONDS >= $1))
}
goes_and_comes() {
	local before seen=$((SECONDS + 3))
	mv "$LAB_DIR/watch.d/count.watch" "$LAB_DIR/count.away"
	before=$(reports length)
	poll_until 10 has_skipped_time && poll_until 10 is_over "$seen" || return 1
	mv "$LAB_DIR/count.away" "$LAB_DIR/watch.d/count.watch"
	poll_until 20 has_reports $((before + 3)) && (($(reports '[.[] | select(.skipped // "" | test("file was gone"))] | length') == 1))
}
run_step "a file that goes and comes back" goes_and_comes
faulty_while_it_runs() { # no report is made of it, and afterwards the windows are made up
	local before
	cp "$LAB_DIR/watch.d/count.watch" "$LAB_DIR/count.good"
	watch_file count "${COUNT/select count/selct count}"
	poll_until 20 grep -q 'count.watch: \[live\] sql' "$LAB_DIR/watch.err" || return 1
	before=$(reports length)
	poll_until 10 has_skipped_time && (($(reports length) == before)) || return 1
	mkdir "$PACKRACK_WATCH_STATE/count.html.new" # and a page that cannot be made ends nothing
	cp "$LAB_DIR/count.good" "$LAB_DIR/watch.d/count.watch"
	poll_until 20 has_reports $((before + 5)) && grep -q 'its page was not made' "$LAB_DIR/watch.err" && rmdir "$PACKRACK_WATCH_STATE/count.html.new"
}
run_step "a file that becomes faulty, and a page that cannot be made" faulty_while_it_runs
each_window_once() { # and its count is that of a query for the same time
	local begin end n
	kill -TERM "$WATCH"
	poll_until 10 ended || return 1
	"$RACK" drain --timeout 120 > /dev/null 2>&1
	reports '[.[] | select(.skipped | not)] | map([.begin, .end]) | (map(.[1]) | unique | length) == length' | grep -q true || return 1
	no_gaps || { reports 'map([.begin, .end])'; return 1; }
	while read -r begin end n; do
		[ "$("$PACKRACK" query --count --since "@${begin:0:10}" --until "@$((${end:0:10} - 1)).999999999" 2> /dev/null)" = "$n" ] ||
			{ echo "$begin to $end: $n"; return 1; }
	done < <(reports '.[] | select(.complete) | "\(.begin) \(.end) \(.rows[0].n)"' -r | tr -d '"')
	(($(reports '[.[] | select(.complete)] | length') >= 6)) && [ -s "$PACKRACK_WATCH_STATE/told" ] && [ -s "$PACKRACK_WATCH_STATE/count.html" ]
}
run_step "each window is reported once, with the packets of a query" each_window_once
without_a_node() {
	"$RACK" kill idx2 || return 1
	start_watch
	poll_until 40 is_partial || return 1
	"$PACKRACK" watch report count > "$LAB_DIR/out"
	(($? == 3)) && grep -q PARTIAL "$LAB_DIR/out" && grep -q log2 "$LAB_DIR/out"
}
is_partial() {
	[ "$(reports '.[-1] | (.complete == false) and (.live.said | test("log2"))')" = true ]
}
without_a_node > "$LAB_DIR/out" 2>&1 && rc=0 || rc=$?
result "$rc" "without a node a report is partial, and says why" "$LAB_DIR/out"
without_the_merger() { # no window is lost
	local before
	"$RACK" kill merger || return 1
	poll_until 20 grep -q 'packrack watch: packrack sql' "$LAB_DIR/watch.err" || return 1
	before=$(reports length)
	"$RACK" restart merger > /dev/null || return 1
	poll_until 40 has_reports $((before + 4)) || return 1
	no_gaps
}
without_the_merger > "$LAB_DIR/out" 2>&1 && rc=0 || rc=$?
result "$rc" "without a merger it waits, and no window is lost" "$LAB_DIR/out"
stops() {
	kill -TERM "$WATCH"
	poll_until 10 ended
}
run_step "a signal ends it" stops
kill "$PLAYER" 2> /dev/null
"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
