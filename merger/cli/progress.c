/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "proto/base/clock.h"

#define FIRST_NS (2 * PR_NS_PER_S)
#define EVERY_NS (PR_NS_PER_S / 4)

void
progress_begin(struct progress *p)
{
	*p = (struct progress){.terminal = isatty(STDERR_FILENO), .begun = pr_now_mono()};
	p->next = p->begun + FIRST_NS;
}

bool
progress_due(struct progress *p)
{
	int64_t now;

	if (!p->terminal)
		return false;
	now = pr_now_mono();
	if (now < p->next)
		return false;
	p->next = now + EVERY_NS;
	return true;
}

void
progress_show(struct progress *p, const char *fmt, ...)
{
	va_list args;

	p->shown = true;
	va_start(args, fmt);
	fputc('\r', stderr);
	vfprintf(stderr, fmt, args);
	fputs("\033[K", stderr);
	fflush(stderr);
	va_end(args);
}

void
progress_end(struct progress *p)
{
	if (p->shown)
		fputs("\r\033[K", stderr);
	p->shown = false;
}
