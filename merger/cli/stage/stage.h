/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/cli/query/ask.h"

/* `packrack stage` and `packrack grep`; argv[0] is the command's name. */
int cmd_stage(int argc, char **argv);
int cmd_grep(int argc, char **argv);
