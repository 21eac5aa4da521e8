/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_PROGRESS_H
#define PR_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* A line on the terminal for work that takes more than two seconds; nothing where stderr is none. */
struct progress {
	bool terminal, shown;
	int64_t begun, next;
};

void progress_begin(struct progress *p);
/* Is a line due? Looks at the clock: call it once a batch, not once a packet. */
bool progress_due(struct progress *p);
__attribute__((format(printf, 2, 3))) void progress_show(
	struct progress *p, const char *fmt, ...);
void progress_end(struct progress *p); /* wipes the line */

#endif
