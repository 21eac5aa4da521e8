/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/server.h"

int
main(int argc, char **argv)
{
	return prm_merger_main(argc, argv);
}
