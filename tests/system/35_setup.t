#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What packrack setup finds on a machine made for it and on real interfaces, what it changes, and how that
# is undone. And packrack sizing, held against a volume that was filled.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_commands python3 jq
need_programs packrack
PACKRACK=$BUILD/packrack
DIR=$(mktemp -d /tmp/packrack-setup.XXXXXX)
NS=prsetup-$$
trap 'ip netns del $NS 2> /dev/null; rm -rf -- "$DIR"; end_labs' EXIT

# ---- a machine made of files ----
put() { # PATH TEXT
	mkdir -p "$DIR/root/${1%/*}"
	echo "$2" > "$DIR/root/$1"
}
made() { # GOVERNOR BRIDGE BACKLOG DEFRAG WIDTH IRQ2
	rm -rf "$DIR/root"
	put sys/devices/system/cpu/online 0-3
	for cpu in 0 1; do put sys/devices/system/cpu/cpu$cpu/cpufreq/scaling_governor "$1"; done
	put sys/devices/system/clocksource/clocksource0/current_clocksource tsc
	for table in ip ip6 arp; do put proc/sys/net/bridge/bridge-nf-call-${table}tables "$2"; done
	put proc/sys/net/core/rmem_max 8388608
	put proc/sys/net/core/netdev_max_backlog "$3"
	put sys/kernel/mm/transparent_hugepage/defrag "$4"
	put sys/class/net/eth0/mtu 1500
	put sys/class/net/eth0/operstate up
	put sys/class/net/eth0/device/current_link_width "$5"
	put sys/class/net/eth0/device/max_link_width 8
	put sys/class/net/eth1/mtu 1508
	put sys/class/net/eth1/operstate up
	for irq in 40 41 42; do
		put sys/class/net/eth0/device/msi_irqs/$irq msix
		put proc/irq/$irq/smp_affinity_list 0
	done
	put proc/irq/41/smp_affinity_list "$6"
}
setup() {
	PACKRACK_SYSROOT=$DIR/root "$PACKRACK" setup --in eth0 --out eth1 "$@"
}
verdicts() { # VERDICT TOPIC...: exactly these topics have that verdict
	local verdict=$1
	shift
	setup --json | jq -r --arg v "$verdict" '.findings[] | select(.verdict == $v) | .topic' | sort -u > "$DIR/have"
	printf '%s\n' "$@" | sort -u | diff - "$DIR/have"
}

made performance 0 20000 '[madvise] never' 8 1
run_step "a good machine: nothing to change" setup
run_step "every topic is told of" verdicts ok governor clocksource bridge sockets "huge pages" link mtu interrupts slot
made powersave 1 1000 '[always] madvise' 4 0
refute_step "a bad one: status 3" 3 setup
run_step "and each fault is named" verdicts change governor bridge sockets "huge pages" interrupts slot
each_has_a_mend() {
	setup --json | jq -e '[.findings[] | select(.verdict == "change" and .topic != "slot") | .mend | length > 0] | all'
}
run_step "with the command that mends it" each_has_a_mend
one_line_each() {
	[ "$(setup | wc -l)" = "$(setup --json | jq '.findings | length')" ]
}
run_step "one line each" one_line_each
cp -r "$DIR/root" "$DIR/before"
refute_step "--fix does what can be done; a slot is not" 3 setup --fix
run_step "after that only the slot is left" verdicts change slot
# each undo command, run under the folder, brings back what was
undone() {
	rm -rf "$DIR/root"
	cp -r "$DIR/before" "$DIR/root"
	setup --fix --json | jq -r '.findings[] | select(.verdict == "fixed") | .undo' > "$DIR/undo"
	! diff -r "$DIR/before" "$DIR/root" > /dev/null || return 1
	sed "s|> /|> $DIR/root/|" "$DIR/undo" | sh -e
	grep -q always "$DIR/root/sys/kernel/mm/transparent_hugepage/defrag" # the kernel adds the other words
	diff -r -x defrag "$DIR/before" "$DIR/root"
}
run_step "and the undo that it names brings all back" undone
no_such() {
	setup --in nope > "$DIR/out"
	[ $? = 3 ] && grep -q '^change .* nope there is no such interface' "$DIR/out"
}
run_step "an interface that is not there is said" no_such
small_mtu() {
	made powersave 1 1000 '[always] madvise' 4 0
	put sys/class/net/eth1/mtu 1500
	verdicts change governor bridge sockets "huge pages" interrupts slot mtu
}
run_step "a rack interface that carries less than the link is seen" small_mtu
empty() {
	mkdir -p "$DIR/empty"
	PACKRACK_SYSROOT=$DIR/empty "$PACKRACK" setup --json |
		jq -e '[.findings[] | select(.verdict == "unknown")] | length >= 6'
}
run_step "of what it cannot see it says so" empty
hostile() { # a file of another machine holds a command: it is printed, and not one in what undoes the fix
	# shellcheck disable=SC2016 # it must not expand
	local was='$(touch pwned); `touch pwned`'
	made "$was" 0 20000 '[madvise] never' 8 1
	setup --fix --json | jq -r '.findings[] | select(.verdict == "fixed") | .undo' > "$DIR/undo"
	cat "$DIR/undo"
	(cd "$DIR" && sed "s|> /|> $DIR/root/|" undo | sh -e) && [ ! -e "$DIR/pwned" ] &&
		[ "$(cat "$DIR/root/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor")" = "$was" ]
}
run_step "what is copied into a shell does no more than it says" hostile
on_one_line() { # control characters do not reach the terminal
	made $'power\033[31msave' 0 20000 '[madvise] never' 8 1
	! setup --out $'\033[2Jeth\n1' | grep -a $'\033' && [ "$(setup --out $'eth\n1' | wc -l)" = "$(setup --json --out $'eth\n1' | jq '.findings | length')" ]
}
run_step "names and texts stay on their line" on_one_line
without_rights() {
	made powersave 0 20000 '[madvise] never' 8 1
	chmod 755 "$DIR"
	PACKRACK_SYSROOT=$DIR/root setpriv --reuid nobody --clear-groups "$PACKRACK" setup --fix > "$DIR/out"
	[ $? = 1 ] && [ "$(grep -c '^change .*, which failed: Permission denied$' "$DIR/out")" = 2 ]
}
if [ "$(id -u)" = 0 ] && setpriv --reuid nobody --clear-groups "$PACKRACK" --version > /dev/null; then
	run_step "a fix that is not permitted fails, and its reason is printed" without_rights
fi

# ---- disks ----
disk() { # PATH
	PACKRACK_SYSROOT='' "$PACKRACK" setup --disk "$1" --json | jq -r '.findings[] | select(.topic == "disk") | .verdict + " " + .text'
}
disk_measured() {
	disk "$DIR" > "$DIR/out"
	cat "$DIR/out"
	grep -qE '^(ok writes [0-9]+ MB/s|unknown its speed)' "$DIR/out" && [ -z "$(find "$DIR" -name '.packrack-*')" ]
}
run_step "a folder's disk is measured, and nothing is left" disk_measured
disk_only_read() {
	head -c 3000000 /dev/urandom > "$DIR/file"
	sha256sum "$DIR/file" > "$DIR/sum"
	disk "$DIR/file" > "$DIR/out" && sha256sum -c --quiet "$DIR/sum" && grep -qE 'reads [0-9]+ MB|unknown' "$DIR/out"
}
run_step "a file is only read" disk_only_read
too_slow() {
	PACKRACK_SYSROOT='' "$PACKRACK" setup --disk "$DIR" --disk-rate 900T --json |
		jq -e '[.findings[] | select(.topic == "disk") | .verdict] | any(. == "change" or . == "unknown")'
}
run_step "one that is slower than wanted is said" too_slow
refute_step "an operand is refused" 2 "$PACKRACK" setup eth0

# ---- real interfaces ----
if [ "$(id -u)" = 0 ] && ip netns add "$NS" 2> /dev/null; then
	queues=(numrxqueues 4 numtxqueues 4)
	ip -n "$NS" link add a0 "${queues[@]}" type veth peer name b0 "${queues[@]}" 2> /dev/null ||
		nsenter --net="/run/netns/$NS" ip link add a0 "${queues[@]}" type veth peer name b0 "${queues[@]}"
	for port in a0 b0; do nsenter --net="/run/netns/$NS" ip link set $port up; done
	real() {
		nsenter --net="/run/netns/$NS" "$PACKRACK" setup --rack a0 "$@"
	}
	of_a0() { # VERDICT TOPIC
		real --json | jq -e --arg v "$1" --arg t "$2" '[.findings[] | select(.where == "a0" and .topic == $t) | .verdict == $v] | any'
	}
	run_step "a veth's offloads are seen" of_a0 change offloads
	run_step "and its MTU" of_a0 change mtu
	nsenter --net="/run/netns/$NS" ip address add 192.0.2.1/24 dev a0
	run_step "and that it has an address" of_a0 change address
	fixed() {
		real --fix --json > "$DIR/fixed.json"
		jq -r '.findings[] | select(.where == "a0" and .verdict == "fixed") | .undo' "$DIR/fixed.json" > "$DIR/undo"
		cat "$DIR/undo"
		grep -q 'ethtool -K a0 tso on' "$DIR/undo" && grep -q 'ip link set a0 mtu 1500' "$DIR/undo" &&
			! of_a0 change offloads && ! of_a0 change mtu &&
			nsenter --net="/run/netns/$NS" ip link show a0 | grep -q 'mtu 1508 '
	}
	run_step "--fix changes them" fixed
	if command -v ethtool > /dev/null; then
		undone_there() {
			nsenter --net="/run/netns/$NS" sh -e "$DIR/undo" && of_a0 change offloads && of_a0 change mtu
		}
		run_step "and the undo that it names undoes it" undone_there
		few_queues() {
			nsenter --net="/run/netns/$NS" ethtool -L a0 rx 1 && of_a0 change queues && { real --fix > "$DIR/fixed"; of_a0 ok queues; } &&
				grep -q 'ethtool -L a0 rx' "$DIR/fixed"
		}
		[ "$(nproc --all)" = 1 ] || run_step "queues that are not used are" few_queues
	fi
fi

# ---- sizing ----
# A volume that was overwritten keeps what sizing says: 450 bytes a packet, 1000 packets a second.
make_trace() {
	python3 - "$DIR/t.pcap" <<'P'
import struct, sys
head = b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0" + struct.pack("!BBHHHBBHII", 0x45, 0, 436, 0, 0, 64, 17, 0, 0xC0000201, 0xC0000202)
data = head + bytes(450 - len(head))
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
    for i in range(620000):
        f.write(struct.pack("<IIII", 1700000000 + i // 1000, i % 1000 * 10**6, 450, 450) + data)
P
}
keeps_as_said() {
	make_trace &&
		"$PACKRACK" import "$DIR/t.pcap" --volume "$DIR/v" --create 256M --overwrite &&
		"$PACKRACK" volume show "$DIR/v" --json > "$DIR/volume.json" &&
		"$PACKRACK" sizing --rate 450kB --nodes 1 --disk-size 256M --index 0.1 --json > "$DIR/sizing.json" || return 1
	local kept said
	kept=$(jq '.stream_list[] | select(.name == "packets.0") | ((.newest - .oldest) / 1e9 | round)' "$DIR/volume.json")
	said=$(jq '.rows[] | select(.rate_percent == 100) | .kept_seconds' "$DIR/sizing.json")
	echo "kept $kept s, sizing says $said s"
	# a small volume loses more to the frontier than a disk does: within 8 %
	((kept > 0 && said * 100 > kept * 96 && said * 100 < kept * 108))
}
run_step "a full volume keeps as long as sizing says" keeps_as_said
the_other_way() {
	local disks kept
	disks=$("$PACKRACK" sizing --rate 2Gbit --nodes 8 --disk-size 4TB --keep 30d --json | jq '.rows[2].disks_per_node')
	kept=$("$PACKRACK" sizing --rate 2Gbit --nodes 8 --disk-size 4TB --disks "$disks" --json | jq '.rows[2].kept_seconds')
	less=$("$PACKRACK" sizing --rate 2Gbit --nodes 8 --disk-size 4TB --disks $((disks - 1)) --json | jq '.rows[2].kept_seconds')
	echo "$disks disks a node keep $kept s, one less $less s"
	((disks > 1 && kept >= 30 * 86400 && less < 30 * 86400))
}
run_step "disks for so many days keep so many days, one less does not" the_other_way
twice() { # OPTION...: halves what is kept
	local one other
	one=$("$PACKRACK" sizing --rate 1Gbit --json | jq '.rows[2].kept_seconds')
	other=$("$PACKRACK" sizing --rate 1Gbit --json "$@" | jq '.rows[2].kept_seconds')
	((other * 2 >= one - 2 && other * 2 <= one + 2))
}
run_step "two copies keep half as long" twice --copies 2
run_step "half the nodes as well" twice --nodes 2
refute_step "without a rate there is nothing to say" 2 "$PACKRACK" sizing
refute_step "a disk without a size is refused" 2 "$PACKRACK" sizing --rate 1Gbit --disk-size big
refute_step "a rate that is none is refused" 2 "$PACKRACK" sizing --rate fast
done_testing
