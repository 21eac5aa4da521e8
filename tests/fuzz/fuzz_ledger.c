/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger. Covers proto/wire/ledger.c proto/base/field_table.c
 * Options -max_len=2048
 */
#include <string.h>

#include "proto/wire/ledger.h"
#include "tests/fuzz/fuzz.h"

/* What was taken is written, read and written again as the same bytes. */
static void
check_again(const struct pr_ledger_entry *e)
{
	uint8_t first[512], second[512];
	struct pr_writer w = pr_writer_make(first, sizeof first);
	struct pr_writer again = pr_writer_make(second, sizeof second);
	struct pr_ledger_entry read;
	struct pr_cursor c;
	size_t len;

	MUST(pr_ledger_store(&w, e));
	len = pr_writer_len(&w);
	c = pr_cursor_make(first, len);
	MUST(pr_ledger_load(&c, &read) == 1);
	MUST(pr_ledger_load(&c, &read) == 0);
	MUST(pr_ledger_store(&again, &read));
	MUST(pr_writer_len(&again) == len && memcmp(first, second, len) == 0);
	again = pr_writer_make(second, len - 1);
	MUST(!pr_ledger_store(&again, &read));
}

/* A loss that is widened names the seqs of both; one that is not stays as it is. */
static void
check_joins(struct pr_ledger_entry *e, uint64_t step)
{
	struct pr_loss *l = &e->u.loss, was = *l, next;

	for (unsigned i = 0; i < 70 && l->last_seq < UINT64_MAX - step; i++, was = *l) {
		next = pr_loss_of(l->epoch, l->link, l->last_seq + step, l->last_time,
			(enum pr_loss_reason)l->reason, l->second);
		if (!pr_loss_join(l, &next))
			break;
		MUST(l->first_seq == was.first_seq && l->last_seq == next.first_seq);
		MUST(l->count == was.count + 1);
		check_again(e);
	}
	MUST(memcmp(l, &was, sizeof(was)) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pr_cursor c = pr_cursor_make(data, size);
	struct pr_ledger_entry e;
	int result;

	while ((result = pr_ledger_load(&c, &e)) > 0) {
		check_again(&e);
		if (e.type == PR_LEDGER_LOSS) {
			MUST(pr_loss_reason_name(e.u.loss.reason));
			check_joins(&e, 1 + e.u.loss.epoch % 3);
		}
	}
	MUST(pr_ledger_load(&c, &e) == result); /* it stays at its end */
	return 0;
}
