/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/daemon.h"

int
main(int argc, char **argv)
{
	return pri_indexer_main(argc, argv);
}
