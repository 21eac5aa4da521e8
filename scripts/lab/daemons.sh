# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The rack's programs: which there are, how each is started, when each is ready.
# Needs: TOP, BUILD (empty: installed), STATE, LAB, LOGGERS, LINKS, MERGERS, SIZE, FAULTY, KEEP, TCP, DISPATCHER_ARGS.

program() { # NAME: where it is
	if [ -n "$BUILD" ]; then
		echo "$BUILD/$1"
	elif [ "$1" = packrack ]; then
		echo "${TOP%/share/packrack}/bin/$1"
	else
		echo "${TOP%/share/packrack}/sbin/$1"
	fi
}

daemons_present() {
	local p lacking="build it first with 'make'"
	[ -n "$BUILD" ] || lacking="install the dispatcher's, logger's and merger's packages"
	for p in packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger; do
		[ -x "$(program "$p")" ] || die "no $(program "$p"): $lacking"
	done
	[ -z "$FAULTY" ] || [ -n "$BUILD" ] || die "--faulty: only in a clone"
	[ -z "$FAULTY" ] || [ -x "$BUILD/tests/system/faulty_switch" ] ||
		die "no $BUILD/tests/system/faulty_switch: 'make $BUILD/tests/system/faulty_switch'"
}

endpoint_of() { # merger|merger2|dispatcher|log1...
	local n=${1##*[a-z]}
	if ((TCP)); then
		case $1 in
		merger) echo "tcp://$(lab_address 0):7100" ;;
		merger*) echo "tcp://$(lab_address 0):$((7108 + n))" ;;
		dispatcher) echo "tcp://$(lab_address 0):7101" ;;
		*) echo "tcp://$(lab_address "$n"):7102" ;;
		esac
	else
		echo "ipc://$STATE/$1.sock"
	fi
}

listens() { # ENDPOINT ROLE
	local at=${1#tcp://}
	if [ "$at" = "$1" ]; then
		[ -S "${1#ipc://}" ]
	else
		lab_in "$2" bash -c "exec 3<> /dev/tcp/${at%:*}/${at##*:}" 2> /dev/null
	fi
}

mergers() { # a name a line
	local i
	echo merger
	for ((i = 2; i <= MERGERS; i++)); do
		echo "merger$i"
	done
}

# The user's command, where the management network is.
ask() {
	PACKRACK_KEY=$(key_of user) PACKRACK_MERGER=$(endpoint_of merger) \
		PACKRACK_DISPATCHER=$(endpoint_of dispatcher) lab_in disp "$@"
}

# Tests of mixed racks name daemons in RACK_OLD, which are those of PACKRACK_OLD_BUILD.
build_of() { # NAME
	case " ${RACK_OLD-} " in
	*" $1 "*) echo "$PACKRACK_OLD_BUILD" ;;
	*) echo "$BUILD" ;;
	esac
}

volume_make() { # NUMBER
	local volume=$STATE/log$1.vol build
	build=$(build_of "log$1")
	local BUILD=$build
	if ((KEEP)) && [ -e "$volume" ]; then
		return
	fi
	rm -f "$volume"
	"$(program packrack)" volume create "$volume" --size "$SIZE" > "$STATE/logs/volume$1.log" 2>&1 ||
		die "volume $volume: $(proc_last_words "volume$1")"
}

# A socket that a killed program left would look like a ready one.
fresh_socket() { # NAME
	rm -f "$STATE/$1.sock"
}

dispatcher_files() { # that it reads, in place of an interface: one a line
	local i
	for ((i = 0; i < ${#DISPATCHER_ARGS[@]}; i++)); do
		case ${DISPATCHER_ARGS[i]} in
		--read | -r) echo "${DISPATCHER_ARGS[i + 1]-}" ;;
		--read=*) echo "${DISPATCHER_ARGS[i]#--read=}" ;;
		esac
	done
}

dispatcher_reads() {
	[ -n "$(dispatcher_files)" ]
}

dispatcher_inputs() {
	local i arg
	! dispatcher_reads || return 0
	for arg in "${DISPATCHER_ARGS[@]}"; do
		case $arg in --in | --in=*) return ;; esac
	done
	printf %s --in=tap0
	for ((i = 1; i < LINKS; i++)); do
		printf ',tap%d' "$i"
	done
}

daemon_start() { # NAME: and wait until it is ready
	daemon_spawn "$1"
	daemon_await "$1"
}

daemon_spawn() { # NAME
	local n=${1##*[a-z]} in=() more=() canary=() m CONF=$STATE/packrack.conf build
	build=$(build_of "$1")
	[ "$build" = "$BUILD" ] || local DAEMON_ARGS=() # --user is new
	local BUILD=$build
	# The machine's own configuration is not the lab's.
	[ -e "$CONF" ] || echo "# options of the lab's programs, a section each" > "$CONF"
	case $1 in
	merger*)
		fresh_socket "$1"
		for m in $(mergers); do
			[ "$m" = "$1" ] || more+=(--peer "$(endpoint_of "$m")")
		done
		((MERGERS == 1)) || more+=(--name "$1")
		[[ $("$(program packrack-merger)" --help) != *--dispatcher* ]] || # an older one has none
			more+=(--dispatcher "$(endpoint_of dispatcher)")
		proc_start "$1" "$LAB-disp" "$(program packrack-merger)" "${DAEMON_ARGS[@]}" --config "$CONF" --key "$(key_of head)" \
			--listen "$(endpoint_of "$1")" --metrics "127.0.0.1:$((9474 + ${n:-0}))" "${more[@]}"
		;;
	switch)
		read -ra in <<< "$FAULTY $(seq -s ' ' -f p%g 0 "$LOGGERS")"
		rm -f "$STATE/logs/switch.log" # daemon_await looks for its "ready"
		proc_start switch "$LAB-sw" "$BUILD/tests/system/faulty_switch" \
			--stats "$STATE/switch.json" "${in[@]}"
		;;
	log[0-9]*)
		fresh_socket "$1"
		proc_start "$1" "$LAB-$1" "$(program packrack-logger)" "${DAEMON_ARGS[@]}" --config "$CONF" --key "$(key_of "$1")" \
			--rack eth0 --name "$1" \
			--volume "$STATE/$1.vol" --manage "$(endpoint_of "$1")" --metrics 127.0.0.1:9472
		;;
	idx[0-9]*)
		for m in $(mergers); do
			more+=(--merger "$(endpoint_of "$m")")
		done
		proc_start "$1" "$LAB-log$n" "$(program packrack-indexer)" "${DAEMON_ARGS[@]}" --config "$CONF" --key "$(key_of "log$n")" \
			--name "log$n" \
			--volume "$STATE/log$n.vol" "${more[@]}" --metrics 127.0.0.1:9473
		;;
	dispatcher)
		fresh_socket dispatcher
		mapfile -t in < <(dispatcher_inputs)
		# off here, unless it is asked for: what is counted is then what was sent
		[[ $("$(program packrack-dispatcher)" --help) != *--canary* ]] || canary=(--canary=off)
		proc_start dispatcher "$LAB-disp" "$(program packrack-dispatcher)" "${DAEMON_ARGS[@]}" --config "$CONF" --key "$(key_of head)" \
			"${in[@]}" "${canary[@]}" \
			--out out0 --wait-nodes "$LOGGERS" \
			--manage "$(endpoint_of dispatcher)" --metrics 127.0.0.1:9471 "${DISPATCHER_ARGS[@]}"
		;;
	tcpdump)
		local at=(disp -i tap0 -Q in)
		# what XDP takes, nobody else sees on the capture interface
		! grep -q -e 'path xdp: ' -e 'shunting: ' "$STATE/logs/dispatcher.log" || at=(tap -i mirror0 -Q out)
		proc_start tcpdump "$LAB-${at[0]}" tcpdump "${at[@]:1}" -Z root -s 262144 -B 65536 \
			--time-stamp-precision=nano -w "$RECORD"
		;;
	*) die "no program '$1' here" ;;
	esac
}

daemon_await() { # NAME: until it is ready
	case $1 in
	merger* | dispatcher) proc_await "$1" 30 "socket" listens "$(endpoint_of "$1")" disp ;;
	log[0-9]*) proc_await "$1" 30 "socket" listens "$(endpoint_of "$1")" "$1" ;;
	switch) proc_await switch 30 "start" grep -q ready "$STATE/logs/switch.log" ;;
	tcpdump) proc_await tcpdump 30 "start" grep -q listening "$STATE/logs/tcpdump.log" ;;
	esac
}

# What the programs need of their own; nothing of it needs the network.
daemons_prepare() {
	local i
	rm -f "$STATE"/logs/*.log
	keys_up
	for ((i = 1; i <= LOGGERS; i++)); do
		volume_make "$i"
	done
}

daemons_up() {
	local i m
	[ -z "$FAULTY" ] || daemon_start switch
	for m in $(mergers); do
		daemon_start "$m"
	done
	for ((i = 1; i <= LOGGERS; i++)); do
		daemon_spawn "log$i"
	done
	for ((i = 1; i <= LOGGERS; i++)); do
		daemon_await "log$i"
		daemon_spawn "idx$i"
	done
	daemon_start dispatcher
}

daemons_status() {
	ask "$(program packrack)" status || true
}

tcpdump_captured() { # what it has read by now, by its own word
	local log=$STATE/logs/tcpdump.log told end=$((SECONDS + 5))
	told=$(grep -c 'packets captured' "$log" || true)
	proc_signal USR1 tcpdump || return 0
	while (($(grep -c 'packets captured' "$log") == told && SECONDS < end)); do
		sleep 0.02
	done
	sed -n 's/.*\b\([0-9]* packets captured\).*/\1/p' "$log" | tail -n 1
}

daemons_stop_capture() { # SECONDS
	local name tries before now=
	if proc_pid dispatcher > /dev/null; then
		# 3: stopped, and a node that is gone has not said that it stored all
		ask timeout "$1" "$(program packrack)" capture stop ||
			(($? == 3)) ||
			die "drain: capture would not stop; see $STATE/logs/dispatcher.log"
	fi
	for name in $(proc_names); do
		[ "$name" = tcpdump ] || continue
		# The kernel hands the last block of its ring over within tcpdump's time-out of 1 s.
		sleep 1.3
		for ((tries = 0; tries < 25; tries++)); do # it may have more to read
			before=$now
			now=$(tcpdump_captured) && [ "$now" != "$before" ] || break
			sleep 0.2
		done
		proc_signal INT tcpdump || true
		proc_wait_gone tcpdump 10 || die "drain: tcpdump would not end"
	done
}

daemons_await() { # SECONDS stored|indexed|up-to-now
	ask "$TOP/scripts/lab/figures.py" "$2" "$(program packrack)" "$STATE" "$1"
}

# What a killed logger left is named after its volume.
daemons_clean() {
	local volume uuid
	for volume in "$STATE"/*.vol; do
		if [ ! -e "$volume" ] || [ ! -x "$(program packrack)" ]; then continue; fi
		uuid=$(timeout 10 "$(program packrack)" volume show "$volume" --json 2> /dev/null |
			sed -n 's/.*"uuid": *"\([0-9a-f-]*\)".*/\1/p' | head -n 1)
		[ -z "$uuid" ] || rm -f "/dev/shm/packrack-$uuid"* "/run/packrack/$uuid".*
	done
	rm -f "$STATE"/*.sock
}
