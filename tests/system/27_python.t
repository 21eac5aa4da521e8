#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Python package asks a rack: the same packets as packrack export, and each fault an exception.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpreplay tshark
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
need_python
new_lab
PACKRACK=$BUILD/packrack
MIX=$DATA/mix-gateway-full-a.pcap
export PACKRACK_TEST_DIR=$LAB_DIR

api() { # SCRIPT.py CASE: one of tests/system/python_api.py
	"$PYTHON" tests/system/python_api.py "$@"
}

printf '[merger]\nmax-queries = 3\n' > "$LAB_DIR/packrack.conf"
up() {
	"$RACK" up -n 3 && "$RACK" play "$MIX" --pps=15000 --quiet &&
		"$RACK" exec tap ip link set t0 down && "$RACK" exec tap ip link set t1 down &&
		"$RACK" drain --timeout 120 && # stopped: no question waits for the present moment
		"$PACKRACK" export -w "$LAB_DIR/export.pcapng"
}
run_step "a rack has recorded a capture" up
same() {
	api all "$LAB_DIR/ours.pcap" && "$COMPARE" "$LAB_DIR/export.pcapng" "$LAB_DIR/ours.pcap"
}
run_step "all packets: those of packrack export" same
filtered() {
	local f n=0
	for f in 'udp port 53' 'tcp[13] & 2 != 0 and not port 443' 'vlan or ip6' 'greater 1000'; do
		echo "filter: $f"
		"$PACKRACK" query -w "$LAB_DIR/theirs.pcapng" "$f" || return 1
		api filter "$f" "$LAB_DIR/ours.pcap" || return 1
		"$COMPARE" -q "$LAB_DIR/theirs.pcapng" "$LAB_DIR/ours.pcap" || return 1
		n=$((n + $(stat -c %s "$LAB_DIR/ours.pcap")))
	done
	((n > 100000)) # they are not all empty
}
run_step "filters: those of packrack query" filtered
run_step "time ranges, links, nodes" api range
run_step "sources: nodes and links" api sources
run_step "limit" api limit
run_step "an answer's figures are those of packrack query --json" api figures "$PACKRACK"
run_step "a filter of 5,000 addresses" api long "$PACKRACK"
run_step "rate and top, counted with the packets" api counts "$PACKRACK"
run_step "connections, and files of alerts" api alerts "$PACKRACK" "$LAB_DIR"
run_step "stages in Python" api stages "$PACKRACK" "$LAB_DIR/stages.pcapng"
run_step "packets of a case are held" api holds "$PACKRACK"
run_step "leaving the loop cancels" api cancel
run_step "several answers at once, in threads" api several
run_step "question after question has one connection" api kept
run_step "more than the merger takes is refused in one line" api too_many
run_step "bad questions" api bad
run_step "times" api times
run_step "damaged segments are errors" api damaged
run_step "a volume without a daemon" api volume "$PACKRACK" "$MIX" "$LAB_DIR/mix.vol"
run_step "the example of the documentation" "$PYTHON" merger/python/examples/talkers.py "port 53"

# ---- memory ----

run_step "all is in the nodes' memory" api memory 1
forgotten() {
	local n
	for n in 1 2 3; do
		"$RACK" restart "log$n" || return 1
	done
	poll_until 10 api memory 0 || return 1
	"$PACKRACK" query --memory-only -w "$LAB_DIR/memory.pcap" 2> "$LAB_DIR/err"
	(($? == 2)) && grep 'memory has not all of this: packets of 20.*Z are on a disk alone' "$LAB_DIR/err"
}
run_step "loggers that begin have nothing in memory: it is refused" forgotten

# ---- keys ----

make_keys() {
	local name
	"$PACKRACK" keys generate --rack --key "$LAB_DIR/server" || return 1
	for name in reader node stranger fooled; do
		"$PACKRACK" keys generate --key "$LAB_DIR/$name" || return 1
		"$PACKRACK" keys enroll "$name" read "$LAB_DIR/$name/public" --key "$LAB_DIR/server" \
			--bundle "$LAB_DIR/$name/rack" || return 1
	done
	"$PACKRACK" keys revoke stranger --key "$LAB_DIR/server" &&
		"$PACKRACK" keys revoke node --key "$LAB_DIR/server" &&
		"$PACKRACK" keys enroll node node "$LAB_DIR/node/public" --key "$LAB_DIR/server" &&
		sed 's/^public/server/' "$LAB_DIR/stranger/public" > "$LAB_DIR/fooled/rack"
}
keyed_merger() {
	"$BUILD/packrack-merger" --config /dev/null --listen "ipc://$LAB_DIR/keyed.sock" \
		--key "$LAB_DIR/server" > "$LAB_DIR/keyed.log" 2>&1 &
	KEYED=$!
	poll_until 5 test -S "$LAB_DIR/keyed.sock" || { cat "$LAB_DIR/keyed.log"; return 1; }
}
run_step "keys are made" make_keys
run_step "a merger with keys" keyed_merger
run_step "keys: who is enrolled may ask, others are refused" api keys "ipc://$LAB_DIR/keyed.sock"
kill "$KEYED" && wait "$KEYED" 2> /dev/null

# ---- it goes away ----

run_step "a merger that is killed in the middle of an answer" api gone "$RACK"
run_step "and then is not there" api nobody
run_step "one that is long silent is asked whether it lives" api alive "$PACKRACK" "$LAB_DIR/alive.sock"
run_step "one that ends before it takes us in" api half_gone "$LAB_DIR/half.sock"

# ---- pip ----

installed() { # from the tree as it would be cloned
	git ls-files -z merger/python proto/rpc | tar -c --null -T - | tar -x -C "$LAB_DIR" &&
		(cd "$LAB_DIR/merger/python" && "$PYTHON" setup.py -q install --root "$LAB_DIR/root" \
			--single-version-externally-managed) 2>&1 || return 1
	local at
	at=$(find "$LAB_DIR/root" -name packrack_pb2.py)
	[ -n "$at" ] && PYTHONPATH=${at%/packrack/*} "$PYTHON" -c 'import packrack; packrack.connect' &&
		grep -rq pyzmq "$LAB_DIR/root" --include=METADATA --include=requires.txt
}
if "$PYTHON" -c 'import setuptools' 2> /dev/null; then
	run_step "setup.py builds it from a clone" installed
fi
"$RACK" down > /dev/null
run_step "nothing is left" nothing_left "$LAB_DIR"
done_testing
