#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each option of each program is in its man page, with its default, and the pages are well formed.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh

page_agrees() { # PAGE COMMAND...
	local page=$1
	shift
	"$@" --help | tests/system/manpage.py "$page"
}

# The user's command has a section for each of its commands, and two that several share.
command_agrees() { # COMMAND SECTION...
	local command=$1
	shift
	# shellcheck disable=SC2086 # "volume create" is two words
	"$BUILD/packrack" $command --help | tests/system/manpage.py merger/cli/packrack.1 "$@"
}

data_agrees() { # VERB SECTION...
	"$BUILD/packrack" data "$1" --help | tests/system/manpage.py merger/cli/packrack-data.1 "${@:2}"
}

# Options of several commands, told in one section.
keys_agree() {
	local verb
	for verb in generate enroll list renew; do
		"$BUILD/packrack" keys "$verb" --help
	done | awk '!seen[$0]++' | tests/system/manpage.py merger/cli/packrack.1 keys Output
}

nodes_agree() {
	local command
	for command in "node list" "node identify" "node reset" "node forget" "node rebuild" "capture stop" "class list" "class move" "hold add" "hold release"; do
		# shellcheck disable=SC2086 # two words
		"$BUILD/packrack" $command --help
	done | awk '!seen[$0]++' | tests/system/manpage.py merger/cli/packrack.1 "node, capture" Output Keys
}

# The lab's help has a form of its own; names of its options and commands agree.
lab_agrees() { # PAGE
	diff <(scripts/rack --help | grep -oE -- '--[a-z-]+' | sort -u) \
		<(grep -oE 'Fl -[a-z-]+' "$1" | sed 's/^Fl /-/' | sort -u) &&
		diff <(scripts/rack --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' | sort) \
			<(sed -n 's/^\.It Cm \([a-z]*\).*/\1/p' "$1" | sort)
}

# Of all commands of packrack watch; its help is Python's.
watch_agrees() {
	local command
	for command in list show test run pause resume report; do
		"$BUILD/packrack" watch "$command" --help || return 1
	done > "$LAB_DIR/help"
	diff <(grep -oE -- '--[a-z-]+' "$LAB_DIR/help" | grep -vx -- --help | sort -u) \
		<(grep -oE 'Fl -[a-z-]+' merger/watch/packrack-watch.1 | sed 's/^Fl /-/' | sort -u) &&
		diff <("$BUILD/packrack" watch --help | sed -nE 's/^    ([a-z]+) .*/\1/p' | sort) <(printf '%s\n' list show test run pause resume report | sort)
}

web_agrees() {
	diff <("$BUILD/packrack" web --help | grep -oE -- '--[a-z-]+' | grep -vx -- --help | sort -u) \
		<(grep -oE 'Fl -[a-z-]+' merger/web/packrack-web.1 | sed 's/^Fl /-/' | sort -u)
}

# Its options of a query are those of query.
stage_agrees() {
	local name
	for name in $("$BUILD/packrack" stage --list | sed -n 's/^\([a-z]*\) .*/\1/p'); do
		grep -qE "^\.It Cm $name\b" merger/cli/packrack-stage.1 || { echo "$name has no line"; return 1; }
	done
	diff <("$BUILD/packrack" stage --help | grep -oE -- '--[a-z-]+' | sort -u | grep -vxF -f <("$BUILD/packrack" query --help | grep -oE -- '--[a-z-]+')) \
		<(grep -oE -- ' -(list|option|shards|live|behind|pipeline|sample)\b' merger/cli/packrack-stage.1 | sed 's/^ /-/' | sort -u)
}

pivot_agrees() {
	diff <("$BUILD/packrack" pivot --help | grep -oE -- '--[a-z-]+' | grep -vx -- --help | sort -u) \
		<(sed '/^.Ss Suricata/,$d' merger/pivot/packrack-pivot.1 | grep -oE 'Fl -[a-z-]+' | sed 's/^Fl /-/' | sort -u)
}

flows_to_agrees() {
	diff <("$BUILD/packrack" flows --to x --help | grep -oE -- '--[a-z0-9-]+' | grep -vx -e --help -e --keep | sort -u) \
		<(grep -oE 'Fl -[a-z0-9-]+' merger/cli/packrack-flows-to.1 | sed 's/^Fl /-/' | grep -vx -- --keep | sort -u)
}

# Each command that `packrack --help` lists has been looked at below.
commands_listed() { # COMMAND...
	diff <("$BUILD/packrack" --help | sed -n '/^Commands:/,$s/^  \([a-z-]*\) .*/\1/p' | sort) \
		<(printf '%s\n' "$@" | sort)
}

# Each reason that --allow knows has a line.
reasons_told() {
	local reason reasons
	reasons=$("$BUILD/packrack" query --allow nonsense 2>&1 | sed -n 's/.*: the reasons are //p' | tr -d ,)
	[ -n "$reasons" ] || return 1
	for reason in $reasons; do
		grep -qxF ".It Cm $reason" merger/cli/packrack.1 || { echo "$reason has no line"; return 1; }
	done
}

well_formed() { # PAGE
	local said
	said=$(mandoc -T lint -W warning "$1") || { echo "$said"; return 1; }
}

formatted() { # PAGE: what man says of it
	local said
	said=$(man --warnings -E UTF-8 -l -Tutf8 -Z "$1" 2>&1 > /dev/null)
	[ -z "$said" ] || { echo "$said"; return 1; }
}

for page in dispatcher/*.8 logger/*.8 indexer/*.8 merger/*.8 merger/cli/*.[17] merger/watch/*.1 merger/web/*.1 merger/pivot/*.1 proto/*.[57] scripts/*.[78] logger/streamfs/*.3; do
	[ -f "$page" ] || continue
	if command -v mandoc > /dev/null; then
		run_step "$page is well formed" well_formed "$page"
	fi
	if command -v man > /dev/null && command -v groff > /dev/null; then
		run_step "man formats it without a warning" formatted "$page"
	fi
done
for module in dispatcher logger indexer merger; do
	program=packrack-$module
	[ -x "$BUILD/$program" ] || continue
	run_step "$program has a page" test -f "$module/$program.8"
	run_step "its options are those of --help" page_agrees "$module/$program.8" "$BUILD/$program"
	refute_step "an unknown one is refused" 2 "$BUILD/$program" --no-such-option
done

run_step "the lab's commands and options are in its page" lab_agrees scripts/packrack-lab.8

if [ -x "$BUILD/packrack" ]; then
	run_step "packrack's commands are these" commands_listed query export rate top flows sql collect stage grep audit watch pivot web status console import volume queries data class hold \
		node capture keys setup sizing extcap pcap-over-ip replay compare
	for command in query export; do
		run_step "packrack $command" command_agrees $command "query, export" Asking Output Keys
	done
	run_step "packrack data export" command_agrees "data export" "query, export" Asking Output Keys
	run_step "packrack data list" data_agrees list "Options of list, move and delete"
	run_step "packrack data move" data_agrees move "Options of list, move and delete" "Options of move alone"
	run_step "packrack data delete" data_agrees delete "Options of list, move and delete" "Options of delete alone"
	run_step "packrack rate" command_agrees rate rate Asking Output Keys
	run_step "packrack top" command_agrees top top Asking Output Keys
	run_step "packrack flows" command_agrees flows flows Asking Keys
	run_step "packrack sql" command_agrees sql sql Asking Keys
	run_step "packrack collect" command_agrees collect collect Output
	run_step "packrack watch" watch_agrees
	run_step "packrack audit" command_agrees audit audit
	run_step "packrack stage" stage_agrees
	run_step "packrack web" web_agrees
	run_step "packrack pivot" pivot_agrees
	run_step "packrack flows --to" flows_to_agrees
	run_step "packrack status" command_agrees status status Output Keys
	run_step "packrack setup" command_agrees setup setup Output
	run_step "packrack sizing" command_agrees sizing sizing Output
	run_step "packrack console" command_agrees console console Keys
	run_step "packrack queries" command_agrees "queries list" queries Output Keys
	run_step "packrack keys generate" keys_agree
	run_step "packrack compare" command_agrees compare compare Output
	run_step "packrack replay" command_agrees replay replay Asking Output Keys
	run_step "packrack extcap" command_agrees extcap extcap Keys
	run_step "packrack pcap-over-ip" command_agrees pcap-over-ip pcap-over-ip Keys
	run_step "packrack import" command_agrees import import Output
	run_step "packrack volume create" command_agrees "volume create" "volume create"
	run_step "packrack volume streams" command_agrees "volume streams" "volume streams" Output
	run_step "packrack volume grow" command_agrees "volume grow" "volume grow" Output
	run_step "packrack volume check" command_agrees "volume check" "volume check" Output
	for command in records dump; do
		run_step "packrack volume $command" command_agrees "volume $command" "volume $command" Output
	done
	run_step "packrack volume show" command_agrees "volume show" Output
	run_step "packrack node, capture" nodes_agree
fi

# each call of the public header is in its page, with a line of its own
calls_described() { # PAGE
	local name missing=0
	for name in $(grep -oE '\bsfs_[a-z_]+\(' logger/streamfs/streamfs.h | tr -d '(' | sort -u); do
		grep -q "^.Fn $name " "$1" || { echo "$name is not in $1"; missing=1; }
	done
	return "$missing"
}
run_step "streamfs(3) has every call" calls_described logger/streamfs/streamfs.3

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
export PYTHONDONTWRITEBYTECODE=1
uses_what_there_is() { # SED_EXPRESSION: for the dashboard and the rules
	sed "$1" scripts/grafana/packrack.json > "$planted/board"
	sed "$1" scripts/grafana/alerts.yaml > "$planted/rules"
	"$PYTHON" tests/system/grafana.py proto/packrack-metrics.7 "$planted/board" "$planted/rules"
}
# the operator's guide shows what the programs print
figures_of_guide() {
	local name unknown=0
	while read -r name; do
		grep -q "^.It Li $name " proto/packrack-metrics.7 || { echo "$name is no metric"; unknown=1; }
	done < <(grep -oE 'packrack_[a-z_]+' "$1" | sort -u)
	return "$unknown"
}
table_of_guide() {
	local words
	read -ra words < <(sed -n 's/^.Dl packrack \(sizing .*\)/\1/p' "$1")
	"$BUILD/packrack" "${words[@]}" | diff - <(sed -n '/^.Bd -literal$/,/^.Ed/p' "$1" | sed '1d;$d')
}
GUIDE=scripts/packrack-operations.7
run_step "the operator's guide names metrics that exist" figures_of_guide $GUIDE
run_step "and its table is what packrack sizing prints" table_of_guide $GUIDE
sed 's/20\.9$/21.9/; s/_queue_full_total/_queue_total/' $GUIDE > "$planted/guide"
refute_step "a metric that does not is seen" 1 figures_of_guide "$planted/guide"
refute_step "another figure in the table is seen" 1 table_of_guide "$planted/guide"

if "$PYTHON" -c 'import yaml' 2> /dev/null; then
	run_step "dashboard and alert rules use metrics and labels that exist" uses_what_there_is ''
	refute_step "a metric that does not is seen" 1 uses_what_there_is 's/goodness_ratio/goodness/'
	refute_step "a label that does not is seen" 1 uses_what_there_is 's/by (instance, link)/by (instance, line)/'
	refute_step "a state that does not is seen" 1 uses_what_there_is 's/gone|suspended/lost|suspended/'
	refute_step "a gauge taken for a counter is seen" 1 uses_what_there_is 's/rate(packrack_merger_queries_total/rate(packrack_merger_queries_running/'
fi

sed 's/Fl -keep$/Fl -kept/' scripts/packrack-lab.8 > "$planted/page"
refute_step "another option of the lab is seen" 1 lab_agrees "$planted/page"

run_step "each reason of an answer is told" reasons_told

# hardly anybody runs all benchmarks: they call what there is
benches_call() { # SED_EXPRESSION
	rm -rf "$planted/benches"
	cp -r tests/bench "$planted/benches"
	sed -i "$1" "$planted/benches"/*.py
	python3 tests/system/bench_names.py "$planted/benches" "$BUILD"
}
run_step "benchmarks call what there is" benches_call ''
refute_step "a name that nobody defines is seen" 1 benches_call 's/, flows(/, streams_of(/'
refute_step "one that another module has no longer is seen" 1 benches_call 's/^def until(/def wait_until(/'
refute_step "one that the Python package has not is seen" 1 benches_call 's/packrack\.volume(/packrack.stored(/'
refute_step "a program that is not built is seen" 1 benches_call 's/bench_grow/bench_growth/'

# the check itself sees what is missing, too much, or different
dispatcher_page() { # SED_EXPRESSION
	sed "$1" dispatcher/packrack-dispatcher.8 > "$planted/page"
	page_agrees "$planted/page" "$BUILD/packrack-dispatcher"
}
refute_step "an option that is missing is seen" 1 dispatcher_page '/^.It Fl -copies/d'
refute_step "one too many is seen" 1 dispatcher_page 's/^.It Fl -copies/&x/'
refute_step "another default is seen" 1 dispatcher_page 's/^The default is 50ms/The default is 60ms/'
refute_step "another letter is seen" 1 dispatcher_page 's/^.It Fl o ,/.It Fl m ,/'
done_testing
