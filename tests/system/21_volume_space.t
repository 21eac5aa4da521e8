#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The room of a volume: guarantees, set beside a living writer too.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_programs packrack
need_commands python3

DIR=$(mktemp -d /tmp/packrack-space.XXXXXX)
trap 'rm -rf "$DIR"' EXIT
packrack=$BUILD/packrack
volume=$DIR/a.vol

volume_is() { # VOLUME STREAM FIELD VALUE
	local it=$1
	shift
	"$packrack" volume streams "$it" --json | python3 -c '
import json, sys
name, field, value = sys.argv[1:]
found = [s[field] for s in json.load(sys.stdin)["streams"] if s["name"] == name]
sys.exit(0 if found == [int(value)] else "%s.%s is %s" % (name, field, found))' "$@"
}
stream_is() { # STREAM FIELD VALUE
	volume_is "$volume" "$@"
}

# A trace of two packets makes the streams.
python3 -c '
import struct, sys
out = struct.pack("<IHHIIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1)
for n in (1, 2):
    out += struct.pack("<IIII", n, 0, 64, 64) + bytes(64)
sys.stdout.buffer.write(out)' > "$DIR/t.pcap"
packets_are() { # COUNT VOLUME
	local found
	found=$("$packrack" query --volume "$2" --count) || return 1
	[[ $found = "$1"* ]] || { echo "found: $found"; return 1; }
}
run_step "a volume with a utilization" "$packrack" volume create "$volume" --size 64M \
	--block-size 256K --utilization 50
run_step "an import" "$packrack" import "$DIR/t.pcap" --volume "$volume"
run_step "a guarantee is set" "$packrack" volume streams "$volume" --guarantee packets.0=8M
run_step "and kept" stream_is packets.0 guarantee 8388608
run_step "another import leaves it" "$packrack" import "$DIR/t.pcap" --volume "$volume"
run_step "as it is" stream_is packets.0 guarantee 8388608
refute_step "more than the utilization is refused" 1 \
	"$packrack" volume streams "$volume" --guarantee packets.0=40M
refute_step "so is a stream that is not there" 1 \
	"$packrack" volume streams "$volume" --guarantee packets.9=1M
refute_step "and a guarantee without size" 2 \
	"$packrack" volume streams "$volume" --guarantee packets.0
refute_step "and a utilization of all" 2 \
	"$packrack" volume create "$DIR/b.vol" --size 64M --utilization 100

# More than there is room for: refused before the disk is filled; and what failed is gone again.
no_room() { # SAYS CMD...: fails so, and leaves the folder as it was
	local before said=$1
	shift
	before=$(ls -ls --time-style=+ "$DIR")
	"$packrack" "$@" > "$DIR/said" 2>&1 && { echo "it is done"; return 1; }
	grep -F "$said" "$DIR/said" && rm "$DIR/said" && diff <(echo "$before") <(ls -ls --time-style=+ "$DIR")
}
echo mine > "$DIR/mine"
run_step "no volume larger than its file system" no_room "give a smaller size" \
	volume create "$DIR/huge.vol" --size 9999999G
run_step "nor by an import" no_room "give a smaller size" \
	import "$DIR/t.pcap" --volume "$DIR/huge.vol" --create 9999999G
run_step "nor does one of them remain" no_room "are too few for a volume" \
	volume create "$DIR/h1.vol,$DIR/h2.vol" --size 1M
run_step "an old file stays as it was" no_room "give a smaller size" \
	volume create "$DIR/mine" --size 9999999G
run_step "a small one too" no_room "are too few for a volume" volume create "$DIR/mine" --size 1M
run_step "nor does a volume grow so" no_room "give a smaller size" volume grow "$volume" --size 9999999G

# Imports overwrite nothing unless they are told to, and each file is a link of its own.
python3 -c '
import struct, sys
write = sys.stdout.buffer.write
write(struct.pack("<IHHIIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
for n in range(3000):
    write(struct.pack("<IIII", n, 0, 1400, 1400) + bytes(1400))' > "$DIR/large.pcap"
small=$DIR/small.vol
imports() { # STATUS SAYS OPTION...
	local rc=0 want=$1 text=$2
	shift 2
	"$packrack" import --volume "$small" "$@" > "$DIR/said" 2>&1 || rc=$?
	cat "$DIR/said"
	((rc == want)) && grep -qF "$text" "$DIR/said"
}
overwritten() { "$packrack" volume streams "$small" --json | python3 -c '
import json, sys
print(sum(s["recycled_records"] for s in json.load(sys.stdin)["streams"]))'; }
run_step "a small volume" "$packrack" volume create "$small" --size 16M --block-size 64K
cp "$DIR/large.pcap" "$DIR/input"
run_step "takes what fits" imports 0 "link 2" "$DIR/t.pcap" "$DIR/large.pcap" - < "$DIR/input"
until_full() { imports 3 "the volume is full" --link-name rest - < <(cat "$DIR/large.pcap"; tail -c +25 "$DIR/large.pcap"); }
run_step "more is stored until it is full" until_full
run_step "and reported before" imports 1 "give --overwrite" "$DIR/large.pcap"
run_step "nothing is overwritten" [ "$(overwritten)" = 0 ]
run_step "nor damaged" "$packrack" volume check "$small"
new_links() {
	local n
	for n in 1 2 3 4; do cp "$DIR/large.pcap" "$DIR/n$n"; done
	imports 0 "n4: 3000 packets" "$DIR"/n[1-4] --overwrite && [ "$(overwritten)" -gt 100 ] || return 1
	[ "$(grep -o 'packets, link [0-9]*' "$DIR/said" | sort -u | wc -l)" = 4 ]
}
run_step "unless it is told to, with numbers of their own" new_links

# Beside a living writer, here one whose pipe has gone silent.
live=$DIR/live.vol
run_step "a volume for a pipe" "$packrack" volume create "$live" --size 16M --block-size 256K
mkfifo "$DIR/pipe"
"$packrack" import - --name pipe --volume "$live" < "$DIR/pipe" > "$DIR/live.log" 2>&1 &
WRITER=$!
exec 9> "$DIR/pipe"
cat "$DIR/t.pcap" >&9
run_step "what came by it is found" poll_until 20 packets_are 2 "$live"
run_step "a guarantee is set meanwhile" "$packrack" volume streams "$live" --guarantee packets.0=4M
run_step "and counts at once" volume_is "$live" packets.0 guarantee 4194304
refute_step "more than there is is refused" 1 \
	"$packrack" volume streams "$live" --guarantee packets.0=16M
kill "$WRITER"
refute_step "it can be stopped" 3 wait "$WRITER"
exec 9>&-
run_step "the guarantee stays" volume_is "$live" packets.0 guarantee 4194304
run_step "and the packets" packets_are 2 "$live"

# Several devices; what is missing is said, and the rest can be read.
two=$DIR/x.vol,$DIR/y.vol
shows() { # VOLUME KEY=VALUE
	"$packrack" volume show "$1" --keyvalue | grep -qxF "$2"
}
warns() { # VOLUME WORD...
	local volume=$1 said
	shift
	said=$("$packrack" volume show "$volume" 2>&1 > /dev/null)
	for word in "$@"; do
		[[ $said = *"$word"* ]] || { echo "said: $said"; return 1; }
	done
}
run_step "a volume on two files, balanced over zones" "$packrack" volume create "$two" \
	--size 64M --block-size 256K --zones on
run_step "says so" shows "$two" zones=true
run_step "and names both" shows "$two" "device_list.1.path=$DIR/y.vol"
run_step "and takes a trace" "$packrack" import "$DIR/t.pcap" --volume "$two"
run_step "one is missing: it is said" warns "$DIR/y.vol" "device 1 of 2 is missing" "not named"
mv "$DIR/y.vol" "$DIR/z.vol"
run_step "one cannot be opened: why is said" warns "$two" "device 2 of 2 is missing" \
	"No such file"
run_step "which is which is known" shows "$DIR/z.vol,$DIR/x.vol" "device_list.0.path=$DIR/x.vol"
refute_step "nothing is written without it" 1 "$packrack" import "$DIR/t.pcap" --volume "$two"

# Growing: the file itself, and by another.
mv "$DIR/z.vol" "$DIR/y.vol"
has_blocks() { # VOLUME MORE_THAN
	local n
	n=$("$packrack" volume show "$1" --keyvalue | sed -n 's/^blocks=//p')
	[ "$n" -gt "$2" ] || { echo "$n blocks"; return 1; }
}
missing_is_found() {
	"$packrack" volume check "$volume" > /dev/null 2> "$DIR/said" && return 1
	grep -q "device 2 of 2 is missing (not named)" "$DIR/said"
}
run_step "a file grows" "$packrack" volume grow "$volume" --size 128M
run_step "the volume with it" has_blocks "$volume" 500
run_step "another is added" "$packrack" volume grow "$volume" --add "$DIR/more.vol"
run_step "which is as large" has_blocks "$volume,$DIR/more.vol" 1000
run_step "what was held is there" stream_is packets.0 guarantee 8388608
run_step "nothing is wrong" "$packrack" volume check "$volume,$DIR/more.vol"
run_step "and it is written" "$packrack" import "$DIR/t.pcap" --volume "$volume,$DIR/more.vol"
run_step "its packets are found" packets_are 6 "$volume,$DIR/more.vol"
run_step "a device that is missing is a fault" missing_is_found
refute_step "it does not shrink" 1 "$packrack" volume grow "$two" --size 32M
refute_step "nor grow by nothing" 1 "$packrack" volume grow "$two"
refute_step "nor by another volume" 1 "$packrack" volume grow "$two" --add "$DIR/more.vol"
done_testing
