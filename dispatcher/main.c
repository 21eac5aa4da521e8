/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/dispatcher.h"
#include "proto/base/log.h"

int
main(int argc, char **argv)
{
	struct pr_error err = {""};
	int status = prd_dispatcher_main(argc, argv, &err);

	if (status != 0)
		pr_log_last("packrack-dispatcher", err.text);
	return status;
}
