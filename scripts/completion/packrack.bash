# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion for packrack and its daemons: flags and commands are those that --help names, so it is never out of date.

_packrack_flags() { # COMMAND...: its flags
	"$@" --help 2> /dev/null | grep -oE '(^|[ ,])--[a-z][a-z0-9-]*' | tr -d ' ,' | sort -u
}

_packrack_commands() { # COMMAND...: what follows "Commands:"
	"$@" --help 2> /dev/null | awk '/^Commands:/ { on = 1; next } on && /^  [a-z]/ { print $1; next } on && !/^  / { on = 0 }'
}

_packrack() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} path=("${COMP_WORDS[0]}") i names
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		names=$(_packrack_commands "${path[@]}")
		grep -qxF -- "${COMP_WORDS[i]}" <<< "$names" && path+=("${COMP_WORDS[i]}")
	done
	case $before in
	--in | --out | --rack | --tap | -i | -o)
		mapfile -t COMPREPLY < <(compgen -W "$(ls /sys/class/net)" -- "$word")
		return
		;;
	--spread)
		mapfile -t COMPREPLY < <(compgen -W "round-robin weighted flow" -- "$word")
		return
		;;
	--format)
		mapfile -t COMPREPLY < <(compgen -W "pcapng pcap pcap-ns" -- "$word")
		return
		;;
	esac
	if [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_packrack_flags "${path[@]}")" -- "$word")
		return
	fi
	mapfile -t COMPREPLY < <(compgen -W "$(_packrack_commands "${path[@]}")" -- "$word")
	((${#COMPREPLY[@]})) || mapfile -t COMPREPLY < <(compgen -f -- "$word")
}

complete -o filenames -F _packrack packrack packrack-dispatcher packrack-logger packrack-indexer packrack-merger
