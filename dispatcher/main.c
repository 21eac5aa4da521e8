/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "dispatcher/dispatcher.h"

int
main(int argc, char **argv)
{
	struct pr_error err = {""};
	int status = prd_dispatcher_main(argc, argv, &err);

	if (status != 0)
		fprintf(stderr, "packrack-dispatcher: %s\n", err.text);
	return status;
}
