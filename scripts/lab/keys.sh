# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The lab's keys, made as an operator would (packrack-keys(7)): a directory each for the head (dispatcher
# and merger), for every node, and for a user with the role operate. Needs: program, STATE, LOGGERS, KEYS, KEEP.

key_of() { # NAME: for --key
	if ((KEYS)); then
		echo "$STATE/keys/$1"
	else
		echo none
	fi
}

keys_tool() { # OWNER VERB ...
	"$(program packrack)" keys "$2" --key "$STATE/keys/$1" "${@:3}" > "$STATE/logs/keys.log" 2>&1 ||
		die "keys $2 of $1: $(proc_last_words keys)"
}

keys_member() { # NAME ROLE
	keys_tool "$1" generate
	keys_tool head enroll "$1" "$2" "$STATE/keys/$1/public" --bundle "$STATE/keys/$1/rack"
}

keys_make() { # ROLE: of the user
	local i

	keys_tool head generate --rack
	keys_member user "$1"
	for ((i = 1; i <= LOGGERS; i++)); do
		keys_member "log$i" node
		# a node's own sockets admit the user
		keys_tool "log$i" enroll user read "$STATE/keys/user/public"
	done
}

# Tests have the same keys in racks of the same size, made once.
keys_up() {
	local i build made=${PACKRACK_LAB_KEYS:+$PACKRACK_LAB_KEYS/$LOGGERS} role=operate
	((KEYS)) || return 0
	build=$(build_of keys)
	[ "$build" = "$BUILD" ] || made='' role=steer # as it was called first
	local BUILD=$build
	if ((KEEP)) && [ -d "$STATE/keys" ]; then
		return 0
	fi
	rm -rf -- "${STATE:?}/keys"
	[ -z "$made" ] || [ "$made" -nt "$BUILD/packrack-keys" ] || rm -rf -- "$made"
	if [ "$made" ] && [ -d "$made" ]; then
		cp -a -- "$made" "$STATE/keys"
	else
		keys_make "$role"
	fi
	if [ "$made" ] && [ ! -d "$made" ]; then
		mkdir -p -- "$PACKRACK_LAB_KEYS"
		cp -a -- "$STATE/keys" "$made.$$"
		mv -nT -- "$made.$$" "$made"
		rm -rf -- "$made.$$"
	fi
	# who has to know the nodes' keys
	for ((i = 1; i <= LOGGERS; i++)); do
		sed "s,^public-key ,server-key $(endpoint_of "log$i") ," "$STATE/keys/log$i/public" >> "$STATE/keys/user/rack"
	done
}
