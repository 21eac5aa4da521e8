#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Bad input gets one line that names the thing, and the right exit status; never a crash.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_programs packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
new_lab
cd "$LAB_DIR" || exit 1

# Exits with STATUS, says one line on stderr, and WORD is in it.
says() { # STATUS WORD CMD...
	local want=$1 word=$2 rc=0 lines
	shift 2
	timeout 20 "$@" > out 2> err < /dev/null || rc=$?
	cat err
	lines=$(grep -vc -e '^$' -e ' warning: ' -e ' info: ' err)
	((rc == want)) || { echo "exit status $rc, wanted $want"; return 1; }
	((lines == 1)) || { echo "$lines lines on stderr, wanted 1"; return 1; }
	grep -qi -- "$word" err || { echo "nothing of '$word'"; return 1; }
}
bad() {
	local name=$1
	shift
	run_step "$name" says "$@"
}

DISPATCHER=$BUILD/packrack-dispatcher LOGGER=$BUILD/packrack-logger PACKRACK=$BUILD/packrack

for p in "$DISPATCHER" "$LOGGER" "$BUILD/packrack-indexer" "$BUILD/packrack-merger" "$PACKRACK"; do
	run_step "$(basename "$p") --help" "$p" --help
	run_step "$(basename "$p") --version" "$p" --version
	bad "$(basename "$p"): an unknown flag" 2 nonsense "$p" --nonsense
done
printf '[dispatcher]\nsparkle = 3\n' > bad.conf
bad "config with an unknown key" 2 sparkle "$DISPATCHER" --config bad.conf --in lo --out lo
bad "config that is not there" 2 none.conf "$DISPATCHER" --config none.conf --in lo --out lo
bad "filter that does not compile" 2 prot "$PACKRACK" query --volume nowhere.vol prot tcp
bad "and where" 2 "hsot', at word 5: hsot$" "$PACKRACK" query --volume nowhere.vol tcp port 80 and hsot 192.0.2.1
bad "and where it ends too early" 2 "syntax error, at its end$" "$PACKRACK" query --volume nowhere.vol tcp port 80 and
bad "interface that is not there" 1 nope "$DISPATCHER" --in nope0 --out nope1 --manage ipc://m.sock
bad "volume that is not there" 1 nowhere.vol "$PACKRACK" query --volume nowhere.vol
bad "unknown spread" 2 spiral "$DISPATCHER" --in lo --out lo --spread spiral
bad "to change to an unknown spread" 2 round-robin "$PACKRACK" capture spread spiral
bad "unknown command" 2 frobnicate "$PACKRACK" frobnicate
bad "mistyped command" 2 "did you mean 'packrack query'?" "$PACKRACK" qeury
bad "mistyped command, for help" 2 "did you mean 'packrack status'?" "$PACKRACK" help staus
bad "mistyped command of a command" 2 "did you mean 'packrack volume create'?" "$PACKRACK" volume craete
helps() { # COMMAND...
	local want
	want=$("$PACKRACK" "$@" --help) && [ -n "$want" ] && [ "$("$PACKRACK" help "$@")" = "$want" ]
}
run_step "help of a command" helps query
run_step "help of a command of a command" helps volume create
bad "count that is none" 2 "10k or 2M" "$PACKRACK" query -c many
bad "bad time" 2 yesterdayish "$PACKRACK" query --since yesterdayish
run_step "a bare rack" "$RACK" up --bare -n 1
bad "capture filter that does not compile" 2 "'prot tcp'" "$RACK" exec disp "$DISPATCHER" --in tap0 --out out0 \
	--filter 'prot tcp' --manage "ipc://$LAB_DIR/m.sock"
other=$DATA/c-odd/zeek__llc.pcap
[ ! -f "$other" ] || bad "trace of another link type" 1 zeek__llc.pcap "$RACK" exec disp \
	"$DISPATCHER" --read "$other" --out out0 --manage "ipc://$LAB_DIR/m.sock"
run_step "volume create" "$PACKRACK" volume create good.vol --size 16M
bad "volume that is there already" 1 good.vol "$PACKRACK" volume create good.vol --size 16M
bad "absurd volume size" 2 12parsecs "$PACKRACK" volume create other.vol --size 12parsecs
head -c 16777216 /dev/urandom > noise.vol
bad "volume of noise" 1 noise.vol "$PACKRACK" volume show noise.vol
"$TOP/tests/system/numbered.py" make whole.pcap 100
head -c 5000 whole.pcap > cut.pcap
bad "truncated pcap" 3 cut.pcap "$PACKRACK" import cut.pcap --volume good.vol
head -c 5000 /dev/urandom > noise.pcap
bad "pcap of noise" 1 noise.pcap "$PACKRACK" import noise.pcap --volume good.vol
long=ipc:///tmp/$(printf 'x%.0s' {1..120})
bad "ipc path over 107 bytes" 2 107 "$BUILD/packrack-merger" --listen "$long"
bad "no merger there" 1 none.sock "$PACKRACK" query -m "ipc://$LAB_DIR/none.sock" --count
run_step "volume check finds nothing wrong" "$PACKRACK" volume check good.vol
cd "$TOP" || exit 1
done_testing
