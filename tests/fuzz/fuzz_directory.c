/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of segments. Covers proto/wire/directory.c
 * Options -max_len=2048
 */
#include <string.h>

#include "proto/wire/directory.h"
#include "tests/fuzz/fuzz.h"

/* What was taken is written and read again as the same; `before` is what came before it. */
static void
check_again(const struct pr_directory_coder *before, const struct pr_directory_entry *e)
{
	struct pr_directory_coder storing = *before, loading = *before;
	uint8_t bytes[PR_DIRECTORY_ENTRY_MAX];
	struct pr_writer w = pr_writer_make(bytes, sizeof bytes);
	struct pr_directory_entry read;
	struct pr_cursor c;

	MUST(pr_directory_store(&storing, &w, e));
	c = pr_cursor_make(bytes, pr_writer_len(&w));
	memset(&read, 0, sizeof read);
	MUST(pr_directory_load(&loading, &c, &read) == 1);
	MUST(pr_cursor_left(&c) == 0 && memcmp(&read, e, sizeof read) == 0);
	MUST(memcmp(&storing, &loading, sizeof storing) == 0);
	/* from where the first began: what follows itself is shorter */
	storing = *before;
	w = pr_writer_make(bytes, (size_t)(c.at - bytes) - 1);
	MUST(!pr_directory_store(&storing, &w, e));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pr_cursor c = pr_cursor_make(data, size);
	struct pr_directory_coder coder, before;
	struct pr_directory_entry e;
	int result;

	if (!pr_directory_open(&coder, &c))
		return 0;
	memset(&e, 0, sizeof e);
	for (before = coder; (result = pr_directory_load(&coder, &c, &e)) > 0;
		before = coder) {
		check_again(&before, &e);
		memset(&e, 0, sizeof e);
	}
	MUST(pr_directory_load(&coder, &c, &e) == result); /* it stays at its end */
	return 0;
}
