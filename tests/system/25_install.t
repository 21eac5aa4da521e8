#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What make install puts where, the units' sandboxes, and what completion offers.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh

ROOT=$(mktemp -d)
trap 'scripts/rack down -d "$ROOT/rack" > /dev/null 2>&1; rm -rf -- "$ROOT"; end_labs' EXIT

run_step "make install" make -s install DESTDIR="$ROOT" BUILD="$BUILD"
for program in bin/packrack{,-stage,-node,-keys,-setup,-sizing,-status,-extcap,-pcap-over-ip,-replay} sbin/packrack-{dispatcher,logger,indexer,merger}; do
	run_step "$program runs from there" "$ROOT/usr/$program" --version
done
console_runs() { # PREFIX: with the Python package there
	! "$PYTHON" -c 'import zmq, google.protobuf' 2> /dev/null || PYTHONDONTWRITEBYTECODE=1 "$1/bin/packrack" console --version
}
run_step "packrack console runs from there" console_runs "$ROOT/usr"
run_step "what writes the forms of flows is there" test -x "$ROOT/usr/bin/packrack-flows-form"
# What a packet may do to a program is bounded at build time. crt1.o of Debian has no mark of CET, and so no program has
# one: the landing pads themselves are counted.
hardened() { # PROGRAM
	local head names
	head=$(readelf -hldW "$1") names=$(readelf -sW "$1")
	grep -q 'Type: *DYN (Position-Independent' <<< "$head" || { echo "not position-independent"; return 1; }
	grep -q GNU_RELRO <<< "$head" || { echo "no RELRO"; return 1; }
	grep -q 'FLAGS_1.* NOW' <<< "$head" || { echo "not fully RELRO"; return 1; }
	! grep -E 'GNU_STACK.* RWE' <<< "$head" || { echo "executable stack"; return 1; }
	grep -q __stack_chk_fail <<< "$names" || { echo "no stack protector"; return 1; }
	# sanitizers check copies themselves
	grep -q __asan_init <<< "$names" || grep -qE '__(mem|str)[a-z]*_chk' <<< "$names" || { echo "no checked copies"; return 1; }
	[ "$(uname -m)" != x86_64 ] || [ "$(objdump -d "$1" | grep -c endbr64)" -gt 50 ] || { echo "no landing pads"; return 1; }
}
for program in "$ROOT"/usr/bin/packrack{,-stage} "$ROOT"/usr/sbin/packrack-*r; do
	run_step "${program##*/} is built hardened" hardened "$program"
done
soft() { # the check can tell
	echo 'int main(void) { return 0; }' | cc "$@" -x c - -o "$ROOT/soft" && ! hardened "$ROOT/soft"
}
run_step "one that is not is found" soft -no-pie -z lazy
pages_there() {
	local page
	for page in $(git ls-files '*.[1-8]' 2> /dev/null || ls ./*/*.[1-8] ./*/*/*.[1-8]); do
		[ -s "$ROOT/usr/share/man/man${page##*.}/${page##*/}" ] || { echo "$page is not there"; return 1; }
	done
}
run_step "with all man pages" pages_there
finds_watches() {
	[ "$("$ROOT/usr/bin/packrack" watch list --watches /nonexistent | grep -c ' example ')" = 8 ]
}
run_step "watches, and the program finds them" finds_watches
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
for unit in dispatcher logger indexer merger watch flows flows-to pivot pcap-over-ip@; do
	file=$ROOT/usr/lib/systemd/system/packrack-$unit.service
	run_step "the unit of the $unit starts what is there" starts_what_is_there "$file"
	if command -v systemd-analyze > /dev/null; then
		run_step "and exposes little" sandboxed "$file"
	fi
done
refute_step "no unit opens every disk" 1 grep -rE '^DeviceAllow=block-' "$ROOT/usr/lib/systemd/system"
elsewhere() {
	make -s install DESTDIR="$ROOT/x" PREFIX=/usr/local BUILD="$BUILD" &&
		[ -x "$ROOT/x/usr/local/bin/packrack" ] &&
		grep -q '^ExecStart=/usr/local/sbin/' "$ROOT"/x/usr/local/lib/systemd/system/*.service &&
		grep -q '^prefix=/usr/local$' "$ROOT"/x/usr/local/lib/*/pkgconfig/streamfs.pc &&
		find "$ROOT/x/usr/local/lib" -path '*/python3.*/dist-packages/packrack/rack.py' | grep -q . &&
		console_runs "$ROOT/x/usr/local"
}
run_step "PREFIX moves the programs, and those who start or use them know" elsewhere
uninstalled() { # and what is another's stays
	touch "$ROOT/x/usr/local/bin/others"
	make -s uninstall DESTDIR="$ROOT/x" PREFIX=/usr/local BUILD="$BUILD" && [ "$(find "$ROOT/x" ! -type d)" = "$ROOT/x/usr/local/bin/others" ] &&
		[ "$(find "$ROOT/x" -mindepth 1 -type d | wc -l)" = 3 ]
}
run_step "make uninstall takes all of it away" uninstalled

# ---- the store, for programs in C ----

with_streamfs() { # SOURCE: with what is installed and nothing else of ours
	local flags
	read -ra flags < <(PKG_CONFIG_SYSROOT_DIR=$ROOT PKG_CONFIG_PATH=$(echo "$ROOT"/usr/lib/*/pkgconfig) \
		pkg-config --cflags --libs streamfs)
	(cd "$ROOT" && cc -Wall -Wextra -Werror -o "$ROOT/example" -x c "$1" -x none "${flags[@]}" "${SANITIZED[@]}") &&
		rm -f "$ROOT/example.vol" && "$ROOT/example" "$ROOT/example.vol"
}
SANITIZED=()
# a library built with sanitizers wants their runtime
! nm "$BUILD/libstreamfs.a" 2> /dev/null | grep -q __asan_init || SANITIZED=("-fsanitize=address,undefined")
run_step "a program in C finds the store by pkg-config" with_streamfs "$ROOT/usr/share/doc/packrack/examples/streamfs_example.c"
sed '/sfs_create(/s/sfs_create/sfs_make/' tests/examples/streamfs_example.c > "$ROOT/wrong.c"
refute_step "one that uses what it has not does not build" 1 with_streamfs "$ROOT/wrong.c"

# ---- the Python package ----

imports() {
	(cd "$ROOT" && PYTHONPATH=$ROOT/usr/lib/python3/dist-packages PYTHONDONTWRITEBYTECODE=1 "$PYTHON" -c '
import packrack, sys
from packrack import packrack_pb2
assert packrack.__file__.startswith(sys.argv[1]), packrack.__file__
assert packrack.__version__ == sys.argv[2], packrack.__version__
try:
    packrack.connect("ipc:///nonexistent/merger.sock", key="none").count()
except packrack.Unreachable as e:
    print(e)
' "$ROOT" "$("$ROOT/usr/bin/packrack" --version | awk '{ print $NF }')")
}
if "$PYTHON" -c 'import zmq, google.protobuf' 2> /dev/null; then
	run_step "the Python package is imported from there, and works" imports
fi

# ---- the lab ----

of_installed() ( # COMMAND...
	unset PACKRACK_BUILD
	"$ROOT/usr/sbin/packrack-lab" "$@"
)
lab_says() {
	of_installed --help | grep -q '^usage: packrack-lab '
}
lacks_one() { # it takes the programs beside it, and no others
	local said
	mv "$ROOT/usr/sbin/packrack-merger" "$ROOT/gone"
	said=$(of_installed up -n 1 -d "$ROOT/rack" 2>&1)
	mv "$ROOT/gone" "$ROOT/usr/sbin/packrack-merger"
	grep -qF "no $ROOT/usr/sbin/packrack-merger: install" <<< "$said" || { echo "$said"; return 1; }
}
rack_of_one() {
	of_installed up -n 1 --size 64M -d "$ROOT/rack" > "$ROOT/said" || { cat "$ROOT/said"; return 1; }
	(eval "$(sed -n 's/^rack: to ask it: //p' "$ROOT/said")" && "$ROOT/usr/bin/packrack" status | grep log1) &&
		of_installed status -d "$ROOT/rack" | grep -q "^program dispatcher pid"
}
run_step "the lab goes by its installed name" lab_says
if [ "$(id -u)" = 0 ] && ip netns list > /dev/null 2>&1; then
	run_step "it misses a program that is not installed" lacks_one
	run_step "a rack of installed programs, asked as it says" rack_of_one
	of_installed down -d "$ROOT/rack" > /dev/null
	run_step "nothing is left" nothing_left "$ROOT/rack"
fi

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
