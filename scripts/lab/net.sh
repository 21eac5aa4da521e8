# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The lab's network: namespaces and veth pairs of its own, never seen outside them.
#
#   hosta a0 ──── t0 [tap] t1 ──── b0 hostb      the monitored link, cut by an inline tap
#                    mirror0 ──── tap0 [disp] out0 ──── p0 [sw] p1 ──── eth0 [log1] ...
#
# Needs: LAB (prefix of the namespaces, unique to the state directory), LOGGERS, LINKS,
# IN_MTU, OUT_MTU, PIN, FAULTY, TCP.

lab_mac() { # ROLE INDEX: a stable, locally administered address, told by the lab's hash
	local h=${LAB#pr-}
	printf '02:%s:%s:%s:%02x:%02x' "${h:0:2}" "${h:2:2}" "${h:4:2}" "$1" "$2"
}

lab_namespaces() { # those that exist
	ip netns list 2> /dev/null | awk -v p="$LAB-" 'index($1, p) == 1 { print $1 }'
}

# Not `ip netns exec` nor `ip -n`: they want to mount, which fails in a plain chroot.
lab_in() { # ROLE CMD...
	local ns=$LAB-$1
	shift
	nsenter --net="/run/netns/$ns" "$@"
}

lab_sysctl() { # ROLE NAME VALUE, where the kernel has NAME at all
	local file=/proc/sys/${2//./\/}
	# shellcheck disable=SC2016 # the inner shell expands them
	lab_in "$1" sh -c '[ ! -e "$1" ] || echo "$2" > "$1"' sh "$file" "$3"
}

lab_add_ns() { # ROLE: quiet, no IPv6 unless a host asks for it
	ip netns add "$LAB-$1"
	lab_sysctl "$1" net.ipv6.conf.all.disable_ipv6 1
	lab_sysctl "$1" net.ipv6.conf.default.disable_ipv6 1
	lab_in "$1" ip link set lo up
}

lab_add_pair() { # ROLE1 IF1 MAC1 ROLE2 IF2 MAC2 MTU [INDEX1]
	lab_in "$1" ip link add "$2" ${8:+index "$8"} address "$3" mtu "$7" type veth \
		peer name "$5" address "$6" mtu "$7" netns "$LAB-$4"
	lab_quiet "$1" "$2"
	lab_quiet "$4" "$5"
}

# Merged or half-checksummed packets are no packets of a wire.
lab_quiet() { # ROLE IF
	lab_in "$1" ethtool -K "$2" tso off gso off gro off tx off txvlan off > /dev/null 2>&1 || true
	lab_in "$1" ip link set "$2" txqueuelen 10000
	lab_in "$1" ip link set "$2" up
}

lab_host() { # ROLE IF NUMBER
	lab_sysctl "$1" net.ipv6.conf.all.disable_ipv6 0
	lab_sysctl "$1" net.ipv6.conf.default.disable_ipv6 0
	lab_sysctl "$1" "net.ipv6.conf.$2.disable_ipv6" 0
	lab_sysctl "$1" "net.ipv6.conf.$2.router_solicitations" 0
	lab_in "$1" ip address add "192.0.2.$3/24" dev "$2"
	lab_in "$1" ip address add "2001:db8::$3/64" dev "$2" nodad
}

# The tap passes every packet on and gives a copy of it to mirror0, in one place each way.
# u32 that matches all, as not every kernel has matchall.
lab_tap_direction() { # FROM TO
	lab_in tap tc qdisc add dev "$1" clsact
	lab_in tap tc filter add dev "$1" ingress protocol all prio 1 u32 match u32 0 0 \
		action mirred egress mirror dev mirror0 \
		pipe action mirred egress redirect dev "$2"
}

lab_monitored_link() {
	lab_add_pair hosta a0 "$(lab_mac 1 1)" tap t0 "$(lab_mac 2 1)" 1500
	lab_add_pair hostb b0 "$(lab_mac 1 2)" tap t1 "$(lab_mac 2 2)" 1500
	lab_host hosta a0 1
	lab_host hostb b0 2
	lab_tap_direction t0 t1
	lab_tap_direction t1 t0
	# the mirrored packets of both have one order, also where they leave
	((!PIN)) || { lab_pin tap t0; lab_pin tap t1; }
	lab_unplug
}

# Hosts talk as soon as they have a link: plugged in last, unplugged first, so that all who
# listen hear the same.
lab_plug() {
	lab_in tap ip link set t0 up
	lab_in tap ip link set t1 up
	lab_await_carrier hosta
	lab_await_carrier hostb
}

lab_unplug() {
	lab_in tap ip link set t0 down
	lab_in tap ip link set t1 down
}

lab_iport() { # LINK
	local mtu=$IN_MTU
	lab_add_pair tap "mirror$1" "$(lab_mac 3 "$1")" disp "tap$1" "$(lab_mac 4 "$1")" "$mtu"
	# Two senders on two CPUs would otherwise race to the packet sockets, each of which
	# could see another order.
	((!PIN)) || lab_pin disp "tap$1"
}

# /sys shows the interfaces of the namespace in which it was mounted.
lab_pin() { # ROLE IF
	local sys=$STATE/sys
	mkdir -p "$sys"
	# shellcheck disable=SC2016 # the inner shell expands them
	lab_in "$1" sh -c 'mount -t sysfs lab "$1" && {
		echo 1 > "$1/class/net/$2/queues/rx-0/rps_cpus"; umount "$1"; }' sh "$sys" "$2" ||
		fail "$2: receive work could not be pinned to one CPU; orders may differ"
	rmdir "$sys" 2> /dev/null || true
}

lab_switch() {
	local i name
	for name in iptables ip6tables arptables; do
		lab_sysctl sw "net.bridge.bridge-nf-call-$name" 0
	done
	lab_add_pair disp out0 "$(lab_mac 5 0)" sw p0 "$(lab_mac 6 0)" "$OUT_MTU"
	for ((i = 1; i <= LOGGERS; i++)); do
		lab_add_ns "log$i"
		lab_add_pair sw "p$i" "$(lab_mac 6 "$i")" "log$i" eth0 "$(lab_mac 5 "$i")" "$OUT_MTU" $((1000 + i))
	done
	[ -n "$FAULTY" ] || lab_bridge
	lab_takes_redirected
}

# A veth takes frames of XDP only if its peer polls, as it does with a program of its own. Without it, or where frames are
# too long for it, or with PACKRACK_LAB_GENERIC set, the dispatcher finds that out. With PACKRACK_LAB_SWITCH frames for
# nodes do not go through the bridge, which costs this machine more than a switch of its own would; nor past tcpdump.
lab_takes_redirected() {
	local pass=${BUILD:-$TOP}/scripts/lab/pass.bpf.o
	[[ " ${DISPATCHER_ARGS[*]} " =~ " --path "(xdp|auto)" " && -e $pass && -z ${PACKRACK_LAB_GENERIC-} ]] ||
		return 0
	lab_in sw ip link set p0 xdpdrv obj "$pass" sec "xdp${PACKRACK_LAB_SWITCH:+.switch}" || {
		fail "p0: no XDP program: the dispatcher uses generic XDP"
		return 0
	}
	for ((i = 1; i <= LOGGERS; i++)); do
		[ -z "${PACKRACK_LAB_SWITCH-}" ] || lab_in "log$i" ip link set eth0 xdpdrv obj "$pass" sec xdp
	done
}

lab_bridge() {
	local i
	for i in arptables ip6tables iptables; do # a switch looks at MACs alone; these cost a twentieth of a frame's way
		lab_sysctl sw "net.bridge.bridge-nf-call-$i" 0
	done
	lab_in sw ip link add br0 type bridge stp_state 0 mcast_snooping 0
	for ((i = 0; i <= LOGGERS; i++)); do
		lab_in sw ip link set "p$i" master br0
	done
	lab_in sw ip link set br0 mtu "$OUT_MTU" up
}

# Management apart from the rack's switch: m0 in the head's namespace and in each node's.
lab_management() {
	local i
	((TCP)) || return 0
	lab_add_ns mgmt
	lab_in mgmt ip link add mg0 type bridge stp_state 0 mcast_snooping 0
	for ((i = 0; i <= LOGGERS; i++)); do
		lab_add_pair mgmt "mg$((i + 1))" "$(lab_mac 8 "$i")" "$(lab_role "$i")" m0 "$(lab_mac 7 "$i")" 1500
		lab_in mgmt ip link set "mg$((i + 1))" master mg0
		lab_in "$(lab_role "$i")" ip address add "$(lab_address "$i")/24" dev m0
	done
	lab_in mgmt ip link set mg0 up
}

lab_role() { # 0: the head, else the node
	if (($1)); then echo "log$1"; else echo disp; fi
}

lab_address() { # 0: the head's, else the node's
	if (($1)); then echo "192.0.2.$((100 + $1))"; else echo 192.0.2.10; fi
}

lab_up() {
	local role i
	for role in tap hosta hostb disp sw; do
		lab_add_ns "$role"
	done
	for ((i = 0; i < LINKS; i++)); do
		lab_iport "$i"
	done
	lab_monitored_link
	lab_switch
	lab_management
}

lab_await_carriers() {
	local i
	for ((i = 1; i <= LOGGERS; i++)); do
		lab_await_carrier "log$i"
	done
	lab_await_carrier disp
	lab_await_carrier sw
}

# A pair reports its carrier a moment after both ends are up; frames until then are lost. A bridge says so of
# itself up to a second later, but passes frames on from the moment that its ports have theirs.
lab_await_carrier() { # ROLE
	local tries
	for ((tries = 0; tries < 250; tries++)); do
		[[ $(lab_in "$1" ip -br link show type veth) == *NO-CARRIER* ]] || return 0
		sleep 0.02
	done
}

# Also what a crash left half built: found by name, nothing is remembered.
lab_down() {
	local ns pid tries
	[ ! -d "$STATE/sys" ] || { umount "$STATE/sys" 2> /dev/null || true; rmdir "$STATE/sys"; }
	for ns in $(lab_namespaces); do
		for ((tries = 0; tries < 50; tries++)); do
			pid=$(ip netns pids "$ns" 2> /dev/null | tr '\n' ' ')
			[ -n "$pid" ] || break
			# shellcheck disable=SC2086 # a list of numbers
			kill -KILL $pid 2> /dev/null || true
			sleep 0.02
		done
		ip netns delete "$ns" 2> /dev/null || true
	done
	[ -z "$(lab_namespaces)" ]
}
