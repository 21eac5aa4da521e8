#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# packrack keys by itself: what it writes and how, and what it refuses, in one line. 33_keys.t is a rack with keys.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_programs packrack
need_python
new_lab
PACKRACK=$BUILD/packrack
cd "$LAB_DIR" || exit 1

keys() { # VERB WORD...
	"$PACKRACK" keys "$@"
}
refused() { # STATUS TEXT VERB WORD...: in one line, and no file is another one
	local status=$1 text=$2 before
	shift 2
	before=$(find . -type f ! -name out ! -name err -printf '%p %m %i ' -exec md5sum {} +)
	says "$status" "$text" "$PACKRACK" keys "$@" || return 1
	(($(wc -l < err) == 1)) && ! grep -q Traceback err || return 1
	[ "$before" = "$(find . -type f ! -name out ! -name err -printf '%p %m %i ' -exec md5sum {} +)" ]
}
public() { # DIR
	cut -d ' ' -f 2 "$1/public"
}

# ---- generate ----

generated() {
	(umask 0 && keys generate --key-dir a/b/keys > out) && cmp out a/b/keys/public &&
		[ "$(stat -c %a a a/b a/b/keys a/b/keys/secret a/b/keys/public | tr '\n' ' ')" = "755 755 700 600 644 " ] &&
		grep -qxE 'secret-key .{40}' a/b/keys/secret && [ "$(find a/b/keys | wc -l)" = 3 ] &&
		[ "$(keys list --key-dir a/b/keys --keyvalue | sed -n 's/^own=//p')" = "$(public a/b/keys)" ]
}
run_step "a key pair, and folders above it" generated
run_step "is not replaced" refused 1 "a key exists already: a/b/keys/secret" generate --key-dir a/b/keys
ln -s nowhere dangling
run_step "a directory that cannot be made" refused 1 "/proc/none" generate --key-dir /proc/none/keys
run_step "a file in its place" refused 1 "not a directory" generate --key-dir a/b/keys/public
run_step "none" refused 2 "no key directory: give --key-dir DIR" generate --key-dir none
run_step "a link that leads nowhere" refused 1 "dangling" generate --key-dir dangling
headed() {
	keys generate --head --key head > out && [ "$(stat -c %a head/rack head/enrolled | tr '\n' ' ')" = "600 600 " ] &&
		printf '# What members of this rack know (packrack-keys(7)). Mode 600.\nserver-key %s\n' "$(public head)" | cmp - <(head -n 2 head/rack) &&
		sed 1,2d head/rack | grep -qxE 'frame-key [0-9a-f]{64}' &&
		grep -qE '^[^ ]+ node,read,operate ' head/enrolled
}
run_step "a head has a frame key, and enrolls itself" headed
cp -a head other && rm other/secret other/public
run_step "but does not replace a rack" says 1 "there is a rack already, other/rack" "$PACKRACK" keys generate --head --key-dir other

# ---- enrolled ----

for name in ann bob; do
	keys generate --key-dir "$name" > /dev/null 2>&1
done
enrolls() {
	printf '# who may\n\n\tlast  read %s' "$(public a/b/keys)" > head/enrolled
	keys enroll ann operate,node,read-anonymized,steer,read ann/public --key-dir head &&
		printf '# who may\n\n\tlast  read %s\nann node,read,operate,read-anonymized %s\n' "$(public a/b/keys)" "$(public ann)" | cmp - head/enrolled &&
		keys revoke last --key-dir head && printf 'public-key %s\r\n' "$(public bob)" | keys enroll b.o_b-1 read - --key-dir head &&
		printf '# who may\n\nann node,read,operate,read-anonymized %s\nb.o_b-1 read %s\n' "$(public ann)" "$(public bob)" | cmp - head/enrolled &&
		[ "$(find head | wc -l)" = 5 ]
}
run_step "comments and order stay" enrolls
run_step "a name twice" refused 1 "'ann' is enrolled already; 'packrack keys revoke ann' first" enroll ann read a/b/keys/public --key-dir head
run_step "a key twice" refused 1 "enrolled already, as 'b.o_b-1'" enroll eve read bob/public --key-dir head
run_step "nobody of this name" refused 1 "nobody named 'eve'" revoke eve --key-dir head
for name in "" "b b" a/b -b "$(printf '%064d' 0)" $'b\n' é; do
	run_step "no name: '${name//[^ -~]/?}'" refused 1 "is not a name" enroll --key-dir head -- "$name" read a/b/keys/public
done
for role in "" "read," READ king; do
	run_step "no role: '$role'" refused 2 "'$role' is not a role" enroll eve "$role" a/b/keys/public --key-dir head
done
for key in /dev/null "$PACKRACK" 0123456789 '########################################' ''; do
	run_step "no key: '${key##*/}'" refused 1 "" enroll eve read "$key" --key-dir head
done
unlisted() { # a line that a daemon refuses as well: tests/unit/test_key_files.c
	local line
	for line in ann "ann read" "ann king KEY" "ann read KEY more" "-ann read KEY" "a/b read KEY" $'ann\e read KEY' $'ann\xa0 read KEY' "ann read, KEY" "ann read short"; do
		printf '# one\n\nbob read %s\n%s\n' "$(public bob)" "${line/KEY/$(public ann)}" > bad/enrolled
		refused 1 "enrolled line 4: expected NAME ROLE" list --key-dir bad && refused 1 "line 4" enroll new read a/b/keys/public --key-dir bad || return 1
	done
}
cp -a head bad
run_step "a list with a bad line is neither shown nor changed" unlisted
at_once() {
	local pid
	exec 9< ./head
	flock 9
	keys enroll eve read a/b/keys/public --key-dir head 9<&- &
	pid=$!
	waits() { grep -q -- "-> FLOCK .*:$(stat -c %i head) " /proc/locks; }
	poll_until 10 waits && ! grep -q eve head/enrolled || return 1
	exec 9<&-
	wait "$pid" && grep -q '^eve read' head/enrolled && keys revoke eve --key-dir head
}
run_step "who changes the list waits until another one has" at_once

# ---- bundles ----

bundled() {
	keys bundle ann made --key-dir head && (printf "# For ann: goes to its key directory as 'rack'. Secret: mode 600.\n" && sed 1d head/rack) | cmp - made && keys bundle ann - --key-dir head > ann.rack && cmp made ann.rack &&
		ln -sf ann.rack link && keys bundle b.o_b-1 link --key-dir head && [ ! -L link ] && [ "$(stat -c %a link)" = 600 ] &&
		! grep -q frame-key link && grep -qxF "server-key $(public head)" link && keys join - --key-dir bob < ann.rack && cmp made bob/rack
}
run_step "a bundle goes out, in place of what was there, and is taken in" bundled
run_step "nobody's" refused 1 "no key named 'eve' is enrolled in head" bundle eve - --key-dir head
run_step "of whom has no rack" refused 1 "only the head of a rack" renew --key-dir ann
run_step "into a folder that is not there" refused 1 "cannot write key file none/x: No such file" bundle ann none/x --key-dir head
run_step "the frame key is not shown on a terminal" says 1 "standard output is a terminal" "$PYTHON" -c \
	'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' "$PACKRACK" keys bundle ann - --key-dir head
unjoined() {
	local line
	for line in "server-key short" "server-key" "frame-key zz" "frame-key $(printf '%063d' 0)" "x" $'\xff'; do
		printf 'server-key %s\n%s\n' "$(public head)" "$line" > bundle
		refused 1 "line 2 of the bundle" join bundle --key-dir bob || return 1
	done
	printf '# a\0b\nserver-key %s\n' "$(public head)" > bundle
	refused 1 "line 1 of the bundle" join bundle --key-dir bob || return 1
	refused 1 "no server-key in this bundle" join /dev/null --key-dir bob && refused 1 "bundle of none" join "bundle of none" --key-dir bob
}
run_step "a bundle with a bad line is not taken in" unjoined
slash() {
	keys generate --key-dir made-with-slash/ && [ "$(stat -c %a made-with-slash)" = 700 ]
}
run_step "a directory whose name ends in a slash" slash
renewed() {
	local old
	old=$(grep frame-key head/rack)
	keys renew --key-dir head && [ "$(grep frame-key head/rack | tail -n 1)" = "$old" ] && [ "$(grep -c frame-key head/rack)" = 2 ] &&
		[ "$(keys bundle ann - --key-dir head | grep -c frame-key)" = 2 ] && refused 1 "a renewal is under way" renew --key-dir head &&
		keys renew --end --key-dir head && [ "$(grep -c frame-key head/rack)" = 1 ] && ! grep -qxF "$old" head/rack &&
		refused 1 "no renewal is under way" renew --end --key-dir head
}
run_step "a frame key is renewed" renewed

# ---- files that others may read or change ----

distrusted() { # FILE, what it is then
	rm -rf bad && cp -a head bad && chmod "$2" "bad/$1" && refused 1 "chmod ${3:-600}" list --key-dir bad
}
run_step "a directory that others may enter" distrusted . 750 700
for file in secret rack; do
	run_step "$file, which others may read" distrusted $file 640
done
run_step "enrolled, which others may change" distrusted enrolled 606
wrong_files() {
	local file
	for file in secret rack enrolled; do
		rm -rf bad && cp -a head bad && printf 'a\0b\n' > "bad/$file" && refused 1 "it holds NUL bytes" list --key-dir bad &&
			truncate -s 2M "bad/$file" && refused 1 "longer than 1 MiB" list --key-dir bad &&
			rm "bad/$file" && mkfifo -m 600 "bad/$file" && refused 1 "not a regular file" list --key-dir bad || return 1
	done
}
run_step "files that are none" wrong_files
owned() {
	rm -rf bad && cp -a head bad && chown 12345 bad/rack && refused 1 "belongs to user 12345" list --key-dir bad &&
		chown -R 12345 bad && keys enroll eve read a/b/keys/public --key-dir bad --bundle bad/new && [ "$(stat -c %u bad/enrolled bad/new | tr '\n' ' ')" = "12345 12345 " ]
}
[ "$(id -u)" != 0 ] || run_step "root writes for the owner of the directory" owned

coreless() { # VERB WORD...
	PYTHONPATH=$BUILD:$PYTHONPATH "$PYTHON" - "$BUILD/packrack-keys" "$@" <<-'EOF'
		import ctypes, runpy, sys
		sys.argv.pop(0)
		try:
		    runpy.run_path(sys.argv[0], run_name="__main__")
		except SystemExit as e:
		    sys.exit(e.code or ctypes.CDLL(None).prctl(3))  # PR_GET_DUMPABLE
	EOF
}
all_coreless() {
	coreless list --key-dir head && coreless bundle ann ann.rack --key-dir head && coreless join ann.rack --key-dir head &&
		coreless renew --key-dir head && coreless generate --key-dir new
}
run_step "who has read a secret leaves no core dump" all_coreless

# ---- list, anonymize ----

listed() {
	keys list --key-dir head > text && keys list --key-dir head --json > json && keys list --key-dir head --keyvalue > lines || return 1
	! grep -qF -f <(sed -n 's/^\(secret\|frame\)-key //p' head/secret head/rack) text json lines &&
		"$PYTHON" - <<-'EOF'
			import json
			found, lines = json.load(open("json")), dict(line.rstrip("\n").split("=", 1) for line in open("lines"))
			assert list(found) == ["directory", "own", "manifest_key", "servers", "frame_key_hash", "enrolled"], found
			assert found["servers"] == [found["own"]] == [lines["servers.0"]], found
			assert found["enrolled"][1]["name"] == lines["enrolled.1.name"] == "b.o_b-1" and found["enrolled"][0]["role"].startswith("node,"), found
			assert all(value in open("text").read() for value in lines.values()), lines
		EOF
}
run_step "a directory is listed, without secrets" listed
hashed() { # of keys that are known, as they always were
	rm -rf bad && mkdir -m 700 bad && (umask 077 && echo 'secret-key JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6' > bad/secret && printf 'frame-key %064d\n' 0 > bad/rack) &&
		keys list --key-dir bad --keyvalue > lines && cat lines && grep -qx 'own=rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8\]yf7' lines &&
		grep -qx 'manifest_key=d9331c74a8f33d2166fda7792f8ceab8e7144461b2e88c9ddee4ac6cad560a1a' lines && grep -qx 'frame_key_hash=167b0013ca4bdded' lines
}
run_step "the hash of a frame key and the key of manifests are what they were" hashed
mapped() {
	(umask 0 && keys anonymize lab.key --key-dir head) && grep -qxE '[0-9a-f]{64}' lab.key && [ "$(stat -c %a lab.key)" = 600 ] &&
		refused 1 "cannot write key file lab.key: File exists" anonymize lab.key --key-dir head && refused 1 "dangling: File exists" anonymize dangling --key-dir head
}
run_step "a key that anonymizes" mapped
done_testing
