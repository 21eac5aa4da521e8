# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests/system/*.t, which are run by prove from the top of the tree and speak TAP.
#
#   . tests/system/lib.sh
#   need_root; need_programs packrack ...     or the whole file is skipped, with the reason
#   need_python                               sets PYTHON, and PYTHONPATH to merger/python as built
#   new_lab                                   sets LAB_DIR; taken down and removed at the end
#   run_step "what holds" CMD...              one test: ok if CMD succeeds
#   refute_step "what fails" STATUS CMD...    one test: ok if CMD exits with STATUS
#   says STATUS TEXT CMD...                   does it exit so, with TEXT among its words? Leaves $LAB_DIR/out and err
#   broken_off CMD...                         is what it gave and counts the same, ended in the middle?
#   recorded TRACE UP-OPTION...               a rack that has stored it: read from the file, or by XDP, which reads no files,
#                                             played onto a link without hosts
#   poll_until SECONDS CMD...                 until CMD succeeds, or fails at three times SECONDS
#   done_testing

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=$(cd "$TOP" && realpath -m "${PACKRACK_BUILD:-build}")
DATA=$(cd "$TOP" && realpath -m "${PACKRACK_DATA:-../shared/data}")
export PACKRACK_BUILD=$BUILD
# XDP stamps for itself: tcpdump is then at the other end of the link (PACKRACK_PATH=auto make check-system).
[ -z "${PACKRACK_PATH-}" ] || export PACKRACK_TIMES=ignore
RACK=$TOP/scripts/rack
# shellcheck disable=SC2034 # for the tests
COMPARE=$TOP/tests/system/compare.py
TESTS=0
FAILED=0
LABS=()
STEP_OUT= # what the step at work has said

skip_all() { # REASON
	echo "1..0 # SKIP $*"
	exit 0
}

need_root() {
	[ "$(id -u)" = 0 ] || skip_all "needs root for network namespaces"
	ip netns list > /dev/null 2>&1 || skip_all "no network namespaces here"
}

need_commands() {
	local c
	for c in "$@"; do
		command -v "$c" > /dev/null || skip_all "needs $c"
	done
}

need_programs() { # names under the build directory
	local p
	for p in "$@"; do
		[ -x "$BUILD/$p" ] || skip_all "$p is not built"
	done
}

need_data() {
	[ -d "$DATA" ] || skip_all "no captures in $DATA (set PACKRACK_DATA)"
}

# Debian's interpreter finds Debian's modules (python3-zmq, python3-protobuf, python3-yaml); another may be first in PATH.
PYTHON=/usr/bin/python3
need_python() {
	"$PYTHON" -c 'import zmq, google.protobuf' 2> /dev/null || skip_all "needs python3-zmq and python3-protobuf"
	export PYTHONPATH=$BUILD/python${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
}

# The user that daemons become when root starts them: folders that they make sockets in are its own.
DAEMON_USER=packrack
id -u "$DAEMON_USER" > /dev/null 2>&1 || DAEMON_USER=nobody
for_daemons() { # FOLDER...
	[ "$(id -u)" != 0 ] || chown "$DAEMON_USER" "$@"
	chmod 711 "$@" # tshark as root drops its rights
}

# A short path, as sockets lie in it; listed, so that scripts/check finds what a killed test left.
new_lab() {
	LAB_DIR=$(mktemp -d /tmp/packrack-lab.XXXXXX)
	for_daemons "$LAB_DIR"
	mkdir -p "$BUILD"
	echo "$LAB_DIR" >> "$BUILD/labs"
	LABS+=("$LAB_DIR")
	export RACK_STATE=$LAB_DIR PACKRACK_LAB_KEYS=$BUILD/lab-keys
	export PACKRACK_MERGER=ipc://$LAB_DIR/merger.sock
	export PACKRACK_DISPATCHER=ipc://$LAB_DIR/dispatcher.sock
	# The rack's daemons have keys; those that a test without a rack starts by itself have none.
	export PACKRACK_KEY=none
	# shellcheck disable=SC2016 # as it stands in the test
	! grep -q -e '"$RACK" up' -e '\brecorded "' "$0" || PACKRACK_KEY=$LAB_DIR/keys/user
}

end_labs() {
	local dir
	[ -z "$STEP_OUT" ] || rm -f "$STEP_OUT"
	for dir in "${LABS[@]}"; do
		"$RACK" down -d "$dir" > /dev/null 2>&1
		rm -rf -- "$dir"
	done
}

# The whole of bash's traps: EXIT also runs when a signal ends us.
trap end_labs EXIT
trap 'exit 130' INT TERM HUP

diag() {
	sed 's/^/# /' >&2
}

result() { # STATUS NAME OUTPUT-FILE
	TESTS=$((TESTS + 1))
	if [ "$1" = 0 ]; then
		echo "ok $TESTS - $2"
	else
		FAILED=$((FAILED + 1))
		echo "not ok $TESTS - $2"
		echo "failed: $0, step $TESTS: $2" | diag # prove shows only what is on stderr
		[ ! -s "${3-}" ] || tail -n 20 "$3" | diag
	fi
	[ -z "${3-}" ] || rm -f "$3"
}

run_step() { # NAME CMD...
	local name=$1 rc=0
	shift
	STEP_OUT=$(mktemp)
	"$@" > "$STEP_OUT" 2>&1 || rc=$?
	result "$rc" "$name" "$STEP_OUT"
	return "$rc"
}

refute_step() { # NAME STATUS CMD...
	local name=$1 want=$2 rc=0
	shift 2
	STEP_OUT=$(mktemp)
	"$@" > "$STEP_OUT" 2>&1 || rc=$?
	echo "exit status $rc, wanted $want" >> "$STEP_OUT"
	[ "$rc" = "$want" ]
	result $? "$name" "$STEP_OUT"
}

says() { # STATUS TEXT CMD...
	local want=$1 text=$2 rc=0
	shift 2
	timeout 60 "$@" > "$LAB_DIR/out" 2> "$LAB_DIR/err" < /dev/null || rc=$?
	cat "$LAB_DIR/out" "$LAB_DIR/err"
	((rc == want)) || { echo "exit status $rc, wanted $want"; return 1; }
	cat "$LAB_DIR/out" "$LAB_DIR/err" | grep -qF -- "$text" || { echo "not said: $text"; return 1; }
}

broken_off() { # CMD...: it writes lines, more than a pipe holds
	local pid lines rc=0
	rm -f "$LAB_DIR/fifo"
	mkfifo "$LAB_DIR/fifo" || return 1
	"$@" > "$LAB_DIR/fifo" 2> "$LAB_DIR/err" &
	pid=$!
	exec 8< "$LAB_DIR/fifo"
	read -r lines <&8
	kill -TERM "$pid"
	lines=$(($(wc -l <&8) + 1))
	exec 8<&-
	wait "$pid" || rc=$?
	echo "exit status $rc, $lines lines"
	cat "$LAB_DIR/err"
	((rc == 3)) && grep -q "^partial: $lines packets match; interrupted" "$LAB_DIR/err"
}

capturing() {
	"$RACK" logs dispatcher | grep -q ': capturing, '
}

recorded() { # TRACE UP-OPTION...
	local trace=$1
	shift
	if [ "${PACKRACK_PATH:-packet}" = packet ]; then
		"$RACK" up "$@" -- --read "$trace" || return 1
	else
		"$RACK" up --no-hosts "$@" || return 1
		"$RACK" logs dispatcher | grep 'path xdp: ' || { echo "not by XDP"; return 1; }
		# what comes before is bounded by the room of the nodes that are there, of which one may be late here
		poll_until 10 capturing || { echo "no capture"; return 1; }
		"$RACK" play "$trace" --pps=10000 --quiet || return 1
	fi
	"$RACK" drain --stored --timeout 120 || { "$RACK" logs | tail -n 30; return 1; }
}

poll_until() { # SECONDS CMD...: so long on a machine that does nothing else, three times that at most
	local end=$((SECONDS + 3 * $1))
	shift
	until "$@" > /dev/null 2>&1; do
		((SECONDS < end)) || return 1
		sleep 0.05
	done
}

done_testing() {
	echo "1..$TESTS"
	exit $((FAILED != 0))
}

# What a lab could leave: nothing of it may be found after down.
lab_namespace_prefix() { # DIR
	printf 'pr-%s-' "$(printf %s "$(realpath -m "$1")" | sha256sum | cut -c 1-6)"
}

nothing_left() { # DIR
	local left
	left=$(ip netns list | grep -F "$(lab_namespace_prefix "$1")")
	left+=$(ip -br link | grep -E '^(tap0|out0|mirror0|p[0-9]+|a0|b0)@')
	left+=$(find "$1" -name '*.sock' -o -path '*/pids/*' 2> /dev/null)
	left+=$(pgrep -af -- "$1/" | grep -v -e pgrep -e "^$$ ")
	[ -z "$left" ] || echo "left: $left"
	[ -z "$left" ]
}
