#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each option of each program is in its man page, with its default, and the pages are well formed.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh

# What the configuration of the machine says is no matter here.
page_agrees() { # PAGE SUBSECTION COMMAND...
	local page=$1 subsection=$2
	shift 2
	"$@" --help | tests/system/manpage.py "$page" ${subsection:+"$subsection"}
}

well_formed() { # PAGE
	local said
	said=$(mandoc -T lint -W warning "$1") || { echo "$said"; return 1; }
}

pages=0
for page in dispatcher/*.8 logger/*.8 indexer/*.8 merger/*.8 merger/cli/*.1 proto/*.5; do
	[ -f "$page" ] || continue
	pages=$((pages + 1))
	if command -v mandoc > /dev/null; then
		run_step "$page is well formed" well_formed "$page"
	fi
done
for module in dispatcher logger indexer merger; do
	program=packrack-$module
	[ -x "$BUILD/$program" ] || continue
	run_step "$program has a page" test -f "$module/$program.8"
	run_step "its options are those of --help" page_agrees "$module/$program.8" "" "$BUILD/$program"
	refute_step "an unknown one is refused" 2 "$BUILD/$program" --no-such-option
done

# the check itself sees what is missing, too much, or different
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
dispatcher_page() { # SED_EXPRESSION
	sed "$1" dispatcher/packrack-dispatcher.8 > "$planted/page"
	page_agrees "$planted/page" "" "$BUILD/packrack-dispatcher"
}
refute_step "an option that is missing is seen" 1 dispatcher_page '/^.It Fl -copies/d'
refute_step "one too many is seen" 1 dispatcher_page 's/^.It Fl -copies/&x/'
refute_step "another default is seen" 1 dispatcher_page 's/^The default is 50ms/The default is 60ms/'
refute_step "another letter is seen" 1 dispatcher_page 's/^.It Fl n ,/.It Fl m ,/'
done_testing
