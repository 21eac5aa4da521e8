#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A rack with keys, its programs on a management network: who may ask, who may steer, who is told what.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpreplay
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_python
new_lab
PACKRACK=$BUILD/packrack
KEYS=$LAB_DIR/keys
N=4000
export PACKRACK_MERGER=tcp://192.0.2.10:7100 PACKRACK_DISPATCHER=tcp://192.0.2.10:7101
tests/system/numbered.py make "$LAB_DIR/a.pcap" $N 1

head_of() { # CMD: where the head's network is
	"$RACK" exec disp "$@"
}

# Exits with STATUS, not by a time-out, and its one line on standard error holds TEXT.
says() { # STATUS TEXT CMD...
	local want=$1 text=$2 rc=0
	shift 2
	"$@" > "$LAB_DIR/out" 2> "$LAB_DIR/err" || rc=$?
	cat "$LAB_DIR/out" "$LAB_DIR/err"
	((rc == want)) || { echo "exit status $rc, wanted $want"; return 1; }
	(($(wc -l < "$LAB_DIR/err") == 1)) || { echo "not one line"; return 1; }
	grep -qF -- "$text" "$LAB_DIR/err" || { echo "not said: $text"; return 1; }
}

by() { # NAME CMD: with that one's keys, at the head
	local name=$1
	shift
	PACKRACK_KEY=$KEYS/$name "$RACK" exec disp timeout 120 "$@"
}

member() { # NAME ROLE: a key pair of its own, enrolled on the head
	"$PACKRACK" keys generate --key-dir "$KEYS/$1" 2> /dev/null |
		"$PACKRACK" keys enroll "$1" "$2" - --key-dir "$KEYS/head" --bundle - |
		"$PACKRACK" keys join - --key-dir "$KEYS/$1"
}

run_step "a rack with keys, over TCP" "$RACK" up -n 2 --tcp
run_step "a reader is enrolled" member ann read
played() {
	"$RACK" play "$LAB_DIR/a.pcap" --pps=4000 --quiet && "$RACK" drain --keep-running --timeout 120
}
run_step "packets are recorded" played

# ---- roles ----

run_step "the reader sees status" by ann "$PACKRACK" status --json
run_step "and queries" by ann "$PACKRACK" query --count
run_step "but does not stop the capture" says 1 "not allowed: key" by ann "$PACKRACK" capture stop
run_step "nor reset a node" says 1 "not allowed: key" by ann "$PACKRACK" node reset log1 --yes
run_step "nor cancel queries" says 1 "not allowed: key" by ann "$PACKRACK" queries cancel 1
capturing() {
	head_of "$PACKRACK" status --json | grep -q '"state": *"capturing"'
}
run_step "it captures still" capturing
run_step "a node's key does not read" says 1 "not allowed: key" by log1 "$PACKRACK" query --count
run_step "who may steer does" head_of "$PACKRACK" capture spread flow
run_step "as does the head itself" by head "$PACKRACK" capture spread round-robin

# ---- who is not known, and who is not who we think ----

refused() { # TEXT CMD...
	local text=$1 program
	shift
	for program in merger dispatcher; do
		local endpoint=$PACKRACK_MERGER
		[ "$program" = merger ] || endpoint=$PACKRACK_DISPATCHER
		says 1 "$text" "$@" "$endpoint" || return 1
	done
}
status_of() { # DIR ENDPOINT: whichever it is
	case $2 in
	*:7100) PACKRACK_DISPATCHER='' PACKRACK_KEY=$1 "$RACK" exec disp timeout 10 "$PACKRACK" queries list -m "$2" ;;
	*) PACKRACK_MERGER='' PACKRACK_KEY=$1 "$RACK" exec disp timeout 10 "$PACKRACK" node list -d "$2" ;;
	esac
}
run_step "without a key" refused "requires a key" status_of none
"$PACKRACK" keys generate --key-dir "$KEYS/stranger" > /dev/null 2>&1
cp "$KEYS/user/rack" "$KEYS/stranger/rack"
run_step "with a key that is not enrolled" refused "does not admit our key" status_of "$KEYS/stranger"
cp -a "$KEYS/user" "$KEYS/fooled"
sed 's/^public/server/' "$KEYS/stranger/public" > "$KEYS/fooled/rack"
run_step "a server with another key is told" refused "is not the server-key" status_of "$KEYS/fooled"
chmod 640 "$KEYS/fooled/rack"
run_step "a file that others may read" refused "chmod 600" status_of "$KEYS/fooled"
chmod 750 "$KEYS/fooled"
run_step "a directory that others may enter" refused "chmod 700" status_of "$KEYS/fooled"

no_bundle() {
	says 1 "line 1 of the bundle" "$PACKRACK" keys join "$LAB_DIR/a.pcap" --key-dir "$KEYS/stranger" &&
		says 1 "no server-key" "$PACKRACK" keys join /dev/null --key-dir "$KEYS/stranger" &&
		cmp "$KEYS/user/rack" "$KEYS/stranger/rack"
}
run_step "what is no bundle is not taken in" no_bundle
run_step "nor is a secret key enrolled" says 1 "SECRET" \
	"$PACKRACK" keys enroll eve read "$KEYS/stranger/secret" --key-dir "$KEYS/head"

# A path of 40 characters has the length of a key, and all its characters may be in one.
path_of_40() {
	local dir=/tmp/prk$$ key rc=0
	local path
	path=$dir/$(printf %040d 0)
	path=${path:0:33}/public
	mkdir -m 700 "$dir"
	key=$("$PACKRACK" keys generate --key-dir "${path%/public}" 2> /dev/null)
	"$PACKRACK" keys enroll forty read "$path" --key-dir "$KEYS/head" &&
		grep -qxF "forty read ${key#* }" "$KEYS/head/enrolled" || rc=1
	"$PACKRACK" keys revoke forty --key-dir "$KEYS/head" || rc=1
	says 1 "'public-key KEY'" "$PACKRACK" keys enroll forty read "${path%c}k" --key-dir "$KEYS/head" || rc=1
	touch "$dir/${key#* }"
	(cd "$dir" && says 1 "has the form of a key, and is a file" \
		"$PACKRACK" keys enroll forty read "${key#* }" --key-dir "$KEYS/head") || rc=1
	rm -r "$dir"
	((rc == 0 && ${#path} == 40)) || { cat "$KEYS/head/enrolled"; return 1; }
}
run_step "a path of 40 characters is not taken for a key" path_of_40

# The loggers' own sockets; what has no command is asked as the Python package asks.
run_step "a node's own socket admits the user, and nobody without a key" \
	head_of "$PYTHON" tests/system/ask_status.py "$KEYS/user" tcp://192.0.2.101:7102 packrack-logger

# ---- where keys are looked for ----

found() {
	local at=ipc://$LAB_DIR/etc.sock pid rc=0
	mkdir -p "$LAB_DIR/etc/packrack" "$LAB_DIR/home/.config/packrack"
	cp -a "$KEYS/head" "$LAB_DIR/etc/packrack/keys"
	cp -a "$KEYS/user" "$LAB_DIR/home/.config/packrack/keys"
	# shellcheck disable=SC2016 # the inner shell expands them
	unshare --mount sh -c 'mount --bind "$0" /etc && exec "$@"' "$LAB_DIR/etc" \
		"$BUILD/packrack-merger" --config /dev/null --listen "$at" 2> "$LAB_DIR/etc.log" &
	pid=$!
	poll_until 5 test -S "${at#ipc://}"
	says 1 "requires a key" timeout 10 env PACKRACK_KEY=none "$PACKRACK" queries list -m "$at" || rc=1
	env -u PACKRACK_KEY -u XDG_CONFIG_HOME HOME="$LAB_DIR/home" timeout 10 "$PACKRACK" queries list -m "$at" || rc=1
	kill "$pid" && wait "$pid" 2> /dev/null
	cat "$LAB_DIR/etc.log"
	((rc == 0)) && ! grep -q "no keys" "$LAB_DIR/etc.log"
}
if unshare --mount true 2> /dev/null; then
	run_step "daemons find /etc/packrack/keys, a user ~/.config/packrack/keys" found
else
	echo "no mount namespaces here (a plain chroot): where keys are looked for is not tested" | diag
fi

# ---- nodes ----

frameless() {
	cp -a "$KEYS/log2" "$KEYS/frameless"
	sed -i /frame-key/d "$KEYS/frameless/rack"
	says 1 "no frame-key" "$RACK" exec log2 timeout 10 "$BUILD/packrack-logger" --config /dev/null --key-dir "$KEYS/frameless" \
		--rack eth0 --name log2 --volume "$LAB_DIR/other.vol"
}
"$PACKRACK" volume create "$LAB_DIR/other.vol" --size 64M > /dev/null
run_step "a logger whose bundle has no frame key says so" frameless
bad_tags() {
	head_of "$PACKRACK" status --json | grep -o '"control_bad_tag_frames": *[0-9]*' | head -n 1 | grep -o '[0-9]*$'
}
keyless() {
	local before pid rc
	"$RACK" kill log2 && before=$(bad_tags) || return 1
	"$RACK" exec log2 "$BUILD/packrack-logger" --config /dev/null --key-dir none --rack eth0 --name log2 \
		--volume "$LAB_DIR/other.vol" 2> "$LAB_DIR/keyless.log" &
	pid=$!
	refused() { # and the logger that was killed has been silent for long enough
		head_of "$PACKRACK" node list > "$LAB_DIR/nodes"
		(($(bad_tags) > before + 1)) && ! grep -q '^[0-9].* log2 .* active' "$LAB_DIR/nodes"
	}
	poll_until 8 refused
	rc=$?
	cat "$LAB_DIR/nodes" "$LAB_DIR/keyless.log"
	kill "$pid"
	wait "$pid" 2> /dev/null
	((rc == 0)) && grep -q "no keys" "$LAB_DIR/keyless.log"
}
run_step "a logger without the frame key is not admitted" keyless
run_step "with it, it is" "$RACK" restart log2
impostor() {
	"$RACK" exec log2 timeout 5 "$BUILD/packrack-indexer" --config /dev/null --key-dir "$KEYS/log2" --name log1 \
		--volume "$LAB_DIR/other.vol" --merger "$PACKRACK_MERGER" > "$LAB_DIR/impostor.log" 2>&1 &
	poll_until 5 grep -q "enrolled as log2" "$LAB_DIR/impostor.log" || { cat "$LAB_DIR/impostor.log"; return 1; }
	kill $! && wait $! 2> /dev/null
	grep -q "enrolled as log2" "$LAB_DIR/logs/merger.log"
}
run_step "a node does not speak for another" impostor

# ---- floods ----

HOSTILE=$TOP/tests/attack/hostile.py

# A merger without keys at the usual limit of descriptors, which libzmq would not survive.
flooded() {
	local at=ipc://$LAB_DIR/open.sock pid hostile rc=0
	(ulimit -n 1024 && exec "$BUILD/packrack-merger" --config /dev/null --key none --listen "$at") 2> "$LAB_DIR/open.log" &
	pid=$!
	poll_until 30 test -S "${at#ipc://}" || return 1
	mkfifo "$LAB_DIR/flood"
	"$PYTHON" "$HOSTILE" dealt "$at" --count 1100 --hold > "$LAB_DIR/flood.log" 2>&1 < "$LAB_DIR/flood" &
	hostile=$!
	exec 6> "$LAB_DIR/flood"
	poll_until 30 grep -q "1100 done" "$LAB_DIR/flood.log" || rc=1
	# those that were closed connect again all the time: one that has not spoken yet may be closed in its turn
	PACKRACK_KEY=none poll_until 10 timeout 30 "$PACKRACK" queries list -m "$at" || rc=1
	exec 6>&-
	wait "$hostile" || rc=1
	kill "$pid" && wait "$pid" || rc=1
	rm "$LAB_DIR/flood"
	cat "$LAB_DIR/flood.log" "$LAB_DIR/open.log"
	((rc == 0)) && grep -q "too many connections" "$LAB_DIR/open.log"
}
run_step "1,100 idle connections do not end a merger that has 1,024 descriptors, and it answers" flooded

# ann asks for 20 answers that go on and on.
crowded() {
	local pid rc=0
	mkfifo "$LAB_DIR/crowd"
	by ann "$PYTHON" "$HOSTILE" queries "$PACKRACK_MERGER" --keys "$KEYS/ann" --count 10 --hold \
		> "$LAB_DIR/crowd.log" 2>&1 < "$LAB_DIR/crowd" &
	pid=$!
	exec 6> "$LAB_DIR/crowd"
	poll_until 30 grep -q "max-user-queries" "$LAB_DIR/crowd.log" || rc=1
	head_of "$PACKRACK" queries list | grep -c ann | grep -qx 12 || rc=1
	head_of "$PACKRACK" query --count || rc=1
	exec 6>&-
	wait "$pid"
	rm "$LAB_DIR/crowd"
	cat "$LAB_DIR/crowd.log"
	return "$rc"
}
run_step "a reader's queries leave places for others" crowded

# log2 has its own name and eight at most.
phantoms() {
	by log2 "$PYTHON" "$HOSTILE" names "$PACKRACK_MERGER" --keys "$KEYS/log2" --name log2 --count 10 > "$LAB_DIR/phantoms" 2>&1 ||
		{ cat "$LAB_DIR/phantoms"; return 1; }
	cat "$LAB_DIR/phantoms"
	grep -q "as many as a key may have" "$LAB_DIR/phantoms" || return 1
	head_of "$PACKRACK" status | grep -c ^log2 | grep -qx 8 || return 1
	"$PACKRACK" keys revoke log2 --key-dir "$KEYS/head" || return 1
	no_names() { head_of "$PACKRACK" status | grep -c ^log2 | grep -qx 0; }
	poll_until 30 no_names || return 1
	"$PACKRACK" keys enroll log2 node "$KEYS/log2/public" --key-dir "$KEYS/head" || return 1
	poll_until 30 head_of "$PACKRACK" query --count
}
run_step "a node's key has eight names, which go with it" phantoms

# ---- revoked ----

revoked() {
	local rc=0 pid
	mkfifo "$LAB_DIR/trace" || return 1
	by ann "$PYTHON" tests/system/ask_status.py --wait "$KEYS/ann" "$PACKRACK_MERGER" packrack-merger \
		> "$LAB_DIR/held" 2>&1 < "$LAB_DIR/trace" &
	pid=$!
	exec 7> "$LAB_DIR/trace" # it has asked once, and asks again when told to, over the same connection
	poll_until 5 grep -q "answered" "$LAB_DIR/held" || { cat "$LAB_DIR/held"; exec 7>&-; return 1; }
	"$PACKRACK" keys revoke ann --key-dir "$KEYS/head" || return 1
	echo go >&7
	exec 7>&-
	wait "$pid" || rc=$?
	cat "$LAB_DIR/held"
	((rc == 3)) && grep -q "not enrolled here any more" "$LAB_DIR/held"
}
run_step "a revoked key is out at once, also on a connection that stands" revoked
run_step "and does not come in again" says 1 "does not admit our key" by ann "$PACKRACK" query --count
node_revoked() {
	"$PACKRACK" keys revoke log1 --key-dir "$KEYS/head" || return 1
	says_partial() { # its packets are missing; its name is gone with the key
		head_of "$PACKRACK" query --count > "$LAB_DIR/out" 2>&1
		(($? == 3)) && grep -q "missing" "$LAB_DIR/out" && ! head_of "$PACKRACK" status | grep -q ^log1
	}
	poll_until 10 says_partial || { cat "$LAB_DIR/out"; head_of "$PACKRACK" status; return 1; }
	"$PACKRACK" keys enroll log1 node "$KEYS/log1/public" --key-dir "$KEYS/head" || return 1
	poll_until 10 head_of "$PACKRACK" query --count
}
run_step "answers lack a node whose key is revoked, until it is enrolled again" node_revoked

# ---- secrets ----

hidden() { # in no argument, log or status
	local secret file
	for file in "$KEYS"/*/secret "$KEYS/head/rack"; do
		secret=$(sed -n 's/^\(secret\|frame\)-key //p' "$file")
		[ -n "$secret" ] || return 1
		printf '%s\n' "$secret" > "$LAB_DIR/pattern" # grep's own arguments are seen as well
		! grep -rlF -f "$LAB_DIR/pattern" "$LAB_DIR/logs" "$LAB_DIR/out" "$LAB_DIR/err" || return 1
		! cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2> /dev/null | tr '\0' '\n' |
			grep -qF -f "$LAB_DIR/pattern" || return 1
	done
	[ -z "$(find "$KEYS" -name secret -perm /077)" ] && [ -z "$(find "$KEYS" -name rack -perm /077 ! -path '*fooled*')" ]
}
run_step "secrets are in no argument, environment or log" hidden
done_testing
