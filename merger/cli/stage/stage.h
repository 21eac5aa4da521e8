/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/cli/query/ask.h"

extern const struct cli_command stage_command, grep_command;
