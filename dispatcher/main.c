/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/dispatcher.h"

int
main(int argc, char **argv)
{
	return prd_dispatcher_main(argc, argv);
}
