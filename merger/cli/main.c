/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/cli.h"

int
main(int argc, char **argv)
{
	return pr_cli_main(argc, argv);
}
