/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "proto/base/error.h"

/*
 * Key files as text. Type, owner and mode of what was opened are checked: a file must
 * belong to our user or to root, and others may not write it. If we are root, it may also
 * belong to the owner of its directory.
 */

/*
 * The whole file, NUL-terminated, in memory that is locked and in no core dump; free with
 * pr_keyfile_free, which wipes it. st may be NULL. errno says why it failed (EPERM: refused).
 * private: refused when group or others may read it. From the first private file on the process
 * leaves no core dump at all, as the libraries that use the secret keep copies of their own.
 */
char *pr_keyfile_read(
	const char *path, bool private, struct stat *st, struct pr_error *err);
void pr_keyfile_free(char *text);

/* A key directory: group and others may not enter it. */
int pr_keydir_check(const char *path, struct pr_error *err);
