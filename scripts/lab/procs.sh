# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Processes of the lab: started in a session of their own, known by pid and start time, so
# that a pid used again by somebody else is never taken for ours. Needs: STATE.

proc_start_time() { # PID: clock ticks since boot; the name before it may hold anything
	local stat
	{ read -r stat < "/proc/$1/stat"; } 2> /dev/null || return 1
	read -ra stat <<< "${stat##*) }"
	echo "${stat[19]}"
}

proc_pid() { # NAME: its pid, if it runs
	local pid began threads
	{ read -r pid began < "$STATE/pids/$1"; } 2> /dev/null || return 1
	[ "$(proc_start_time "$pid")" = "$began" ] || return 1
	# A zombie holds its start time but runs no more; while others of its threads end, its sockets are still open.
	if grep -q '^State:[[:space:]]*Z' "/proc/$pid/status" 2> /dev/null; then
		threads=("/proc/$pid/task"/*)
		((${#threads[@]} > 1)) || return 1
	fi
	echo "$pid"
}

proc_names() {
	[ ! -d "$STATE/pids" ] || ls "$STATE/pids"
}

# With a /sys of the namespace, which counts how often a carrier went. Where mounts are refused (a plain chroot), it is
# without: losses of a carrier for less than a second may then be missed.
proc_start() { # NAME NAMESPACE CMD...
	local name=$1 ns=$2 pid sys=(unshare --mount sh -c 'mount -t sysfs sysfs /sys && exec "$@"' sh)
	shift 2
	nsenter --net="/run/netns/$ns" unshare --mount mount -t sysfs sysfs /sys 2> /dev/null || sys=()
	mkdir -p "$STATE/pids" "$STATE/logs"
	setsid nsenter --net="/run/netns/$ns" "${sys[@]}" "$@" >> "$STATE/logs/$name.log" 2>&1 < /dev/null 9>&- &
	pid=$!
	echo "$pid $(proc_start_time "$pid")" > "$STATE/pids/$name"
}

proc_signal() { # SIGNAL NAME
	local pid
	pid=$(proc_pid "$2") && kill -"$1" "$pid" 2> /dev/null
}

proc_wait_gone() { # NAME SECONDS
	local end=$((SECONDS + $2))
	while proc_pid "$1" > /dev/null; do
		((SECONDS < end)) || return 1
		sleep 0.02
	done
}

proc_stop_all() { # ends all: asked first, then made to
	local name
	for name in $(proc_names); do
		proc_signal TERM "$name" || true
	done
	for name in $(proc_names); do
		proc_wait_gone "$name" 3 || proc_signal KILL "$name" || true
	done
	for name in $(proc_names); do
		proc_wait_gone "$name" 5 || true
		rm -f "$STATE/pids/$name"
	done
}

proc_last_words() { # NAME: the last line that it logged
	tail -n 1 "$STATE/logs/$1.log" 2> /dev/null
}

# Polls CMD until it succeeds. Fails at once when process NAME has died, or at the deadline.
proc_await() { # NAME SECONDS WHAT CMD...
	local name=$1 end=$((SECONDS + $2)) what=$3
	shift 3
	until "$@"; do
		if ! proc_pid "$name" > /dev/null; then
			fail "$name ended before $what: $(proc_last_words "$name")"
			return 1
		fi
		if ((SECONDS >= end)); then
			fail "$name: no $what in time; see $STATE/logs/$name.log"
			return 1
		fi
		sleep 0.02
	done
}
