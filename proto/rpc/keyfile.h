/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_KEYFILE_H
#define PR_RPC_KEYFILE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "proto/base/error.h"

/* Inside proto/rpc: key files as text. Both check type, owner and mode of what they have opened. */

/*
 * The whole file, NUL-terminated, from malloc; wipe it when it held a secret. st may be NULL.
 * private: refused when group or others may read it.
 */
char *pr_keyfile_read(
	const char *path, bool private, struct stat *st, struct pr_error *err);

#endif
