/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CONSOLE_ACTION_H
#define PR_CONSOLE_ACTION_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "merger/cli/console/ui.h"
#include "proto/base/error.h"

/*
 * An order of the screen DATA: `packrack data ...` as a process of its own, one at a time, so that the
 * console goes on meanwhile. It goes on by itself when the console ends. Zeroed: none.
 */
struct action {
	pid_t pid;
	int out; /* what it says */
	char text[256]; /* its first line so far */
	size_t used;
	bool line; /* which is complete */
};

/* merger, key: as the console was given them; key may be NULL. */
int action_start(struct action *a, const struct console_order *order, const char *merger,
	const char *key, struct pr_error *err);
/* true: it has ended; *ok and a->text say how. Never waits. */
bool action_ended(struct action *a, bool *ok);

#endif
