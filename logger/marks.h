/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_MARKS_H
#define PRL_LOGGER_MARKS_H

#include <stdint.h>

#include "proto/wire/ledger.h"

/*
 * What MARKs said last, per (epoch, link): decides which are worth a line in the ledger. Ten MARKs a
 * second say the same on an idle link; then one a second is written, so that the time is on record.
 * One thread.
 */
struct prl_marks;
typedef void (*prl_marks_call)(void *arg, const struct pr_ledger_mark *mark);

struct prl_marks *prl_marks_create(struct pr_error *err);
void prl_marks_destroy(struct prl_marks **marks);

void prl_marks_note(struct prl_marks *m, const struct pr_ledger_mark *mark, int64_t now,
	prl_marks_call write, void *arg);
/* Writes those that were noted and not written. */
void prl_marks_write(struct prl_marks *m, prl_marks_call write, void *arg);

#endif
