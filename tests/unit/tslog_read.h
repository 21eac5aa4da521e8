/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "proto/wire/tslog.h"
#include "tests/unit/unit.h"

/* Reads a copy of exactly len bytes to its end: the number of entries, or -1. */
static inline int
read_all(const uint8_t *data, size_t len, struct pr_entry *out, int room)
{
	struct pr_tslog_reader r;
	struct pr_entry e;
	int n = 0, got = -1;
	uint8_t *copy = malloc(len ? len : 1);

	memcpy(copy, data, len);
	if (pr_tslog_open(&r, copy, len) == 0) {
		while ((got = pr_tslog_next(&r, &e)) == 1) {
			if (n < room)
				out[n] = e;
			n++;
		}
		ck_assert_int_eq(pr_tslog_next(&r, &e), got);
	}
	free(copy);
	return got == 0 ? n : -1;
}
