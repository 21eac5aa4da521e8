/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_KEYS_LIST_H
#define PR_CLI_KEYS_LIST_H

#include "merger/cli/render.h"
#include "proto/base/error.h"

/* Prints what a key directory holds; no secret. */
int keys_list(const char *dir, enum render_form form, struct pr_error *err);

#endif
