/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_LOGGER_MARKS_H
#define PR_LOGGER_MARKS_H

#include <stdint.h>

#include "proto/wire/ledger.h"

/*
 * What MARKs said last, per (epoch, link): decides which are worth a line in the ledger. Ten MARKs a
 * second say the same on an idle link; then one a second is written, so that the time is on record.
 * One thread.
 */
struct pr_marks;
typedef void (*pr_marks_call)(void *arg, const struct pr_ledger_mark *mark);

struct pr_marks *pr_marks_create(struct pr_error *err);
void pr_marks_destroy(struct pr_marks **marks);

void pr_marks_note(struct pr_marks *m, const struct pr_ledger_mark *mark, int64_t now,
	pr_marks_call write, void *arg);
/* Writes those that were noted and not written. */
void pr_marks_write(struct pr_marks *m, pr_marks_call write, void *arg);

#endif
