/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/logger.h"

int
main(int argc, char **argv)
{
	return prl_logger_main(argc, argv);
}
