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

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pr_cursor c = pr_cursor_make(data, size);
	struct pr_ledger_entry e;
	int result;

	while ((result = pr_ledger_load(&c, &e)) > 0) {
		check_again(&e);
		if (e.type == PR_LEDGER_LOSS)
			MUST(pr_loss_reason_name(e.u.loss.reason));
	}
	MUST(pr_ledger_load(&c, &e) == result); /* it stays at its end */
	return 0;
}
