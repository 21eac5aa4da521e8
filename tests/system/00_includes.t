#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Includes point one way, and the check can tell when one does not.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh

run_step "includes point one way" tests/lint_includes .
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted/proto/base" "$planted/logger"
echo '#include "merger/summary.h"' > "$planted/proto/base/low.c"
echo '#include <zmq.h>' > "$planted/logger/append.c"
refute_step "planted ones are found" 1 tests/lint_includes "$planted"
done_testing
