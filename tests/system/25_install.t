#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What make install puts where, the units' sandboxes, and what completion offers.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh

ROOT=$(mktemp -d)
trap 'rm -rf -- "$ROOT"; end_labs' EXIT

run_step "make install" make -s install DESTDIR="$ROOT" BUILD="$BUILD"
for program in bin/packrack sbin/packrack-{dispatcher,logger,indexer,merger}; do
	run_step "$program runs from there" "$ROOT/usr/$program" --version
done
pages_there() {
	local page
	for page in $(git ls-files '*.[1-8]' 2> /dev/null || ls ./*/*.[1-8] ./*/*/*.[1-8]); do
		[ -s "$ROOT/usr/share/man/man${page##*.}/${page##*/}" ] || { echo "$page is not there"; return 1; }
	done
}
run_step "with all man pages" pages_there
run_step "dashboard and alert rules" test -s "$ROOT/usr/share/doc/packrack/examples/grafana/alerts.yaml"
starts_what_is_there() { # UNIT
	local program
	program=$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$1")
	[ -x "$ROOT$program" ]
}
sandboxed() { # UNIT: exposure under 3.0 of 10
	systemd-analyze security --offline=true --threshold=30 "$1" | tail -n 1
	return "${PIPESTATUS[0]}"
}
for unit in dispatcher logger indexer merger; do
	file=$ROOT/usr/lib/systemd/system/packrack-$unit.service
	run_step "the unit of the $unit starts what is there" starts_what_is_there "$file"
	if command -v systemd-analyze > /dev/null; then
		run_step "and exposes little" sandboxed "$file"
	fi
done
elsewhere() {
	make -s install DESTDIR="$ROOT/x" PREFIX=/usr/local BUILD="$BUILD" &&
		[ -x "$ROOT/x/usr/local/bin/packrack" ] &&
		grep -q '^ExecStart=/usr/local/sbin/' "$ROOT"/x/usr/local/lib/systemd/system/*.service
}
run_step "PREFIX moves the programs, and the units know" elsewhere

offers() { # WANTED WORD...: among what is offered for the last word
	local wanted=$1
	shift
	(
		PATH=$ROOT/usr/bin:$ROOT/usr/sbin:$PATH
		# shellcheck source=/dev/null
		. "$ROOT/usr/share/bash-completion/completions/packrack"
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_packrack
		printf '%s\n' "${COMPREPLY[@]}"
	) | grep -qxF -- "$wanted"
}
run_step "completion offers commands" offers volume packrack vo
run_step "commands of commands" offers create packrack volume cr
run_step "their flags" offers --utilization packrack volume create --ut
run_step "a daemon's flags" offers --segment-age packrack-logger --seg
run_step "values" offers flow packrack-dispatcher --spread fl
no_flag_of_another() {
	! offers --size packrack query --si
}
run_step "and none that the command does not take" no_flag_of_another
done_testing
