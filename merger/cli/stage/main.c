/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "merger/cli/stage/stage.h"

/* A program of its own: it alone loads a pattern matcher and the stages of users. */
int
main(int argc, char **argv)
{
	bool grep = !strcmp(argv[0], "grep") ||
		    !strcmp(program_invocation_short_name, "packrack-grep");

	return cli_run_command(
		"packrack", grep ? &grep_command : &stage_command, NULL, argc, argv);
}
