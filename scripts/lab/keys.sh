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

# A node's own sockets admit the user, who has to know that node's key.
keys_node_sockets() { # NAME
	keys_tool "$1" enroll user read "$STATE/keys/user/public"
	sed "s,^public-key ,server-key $(endpoint_of "$1") ," "$STATE/keys/$1/public" >> "$STATE/keys/user/rack"
}

keys_up() {
	local i build role=operate
	((KEYS)) || return 0
	build=$(build_of keys)
	[ "$build" = "$BUILD" ] || role=steer # as it was called first
	local BUILD=$build
	if ((KEEP)) && [ -d "$STATE/keys" ]; then
		return 0
	fi
	rm -rf -- "${STATE:?}/keys"
	keys_tool head generate --rack
	keys_member user "$role"
	for ((i = 1; i <= LOGGERS; i++)); do
		keys_member "log$i" node
		keys_node_sockets "log$i"
	done
}
