/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/cli/console/terminal.h"

/* The row as UTF-8 without trailing blanks; size of at least 4 bytes a column and 1. */
static inline char *
canvas_row(const struct canvas *c, int row, char *buf, int size)
{
	const struct console_cell *cells = &c->cells[row * c->cols];
	int last = c->cols;
	char *to = buf;

	while (last > 0 && cells[last - 1].ch == ' ')
		last--;
	/* characters that we draw are ASCII (one byte) or block elements (three bytes) */
	for (int i = 0; i < last && to - buf + 4 < size; i++) {
		uint32_t ch = cells[i].ch;

		if (ch < 0x80) {
			*to++ = ch;
			continue;
		}
		*to++ = 0xe0 | (ch >> 12 & 0x0f);
		*to++ = 0x80 | (ch >> 6 & 0x3f);
		*to++ = 0x80 | (ch & 0x3f);
	}
	*to = '\0';
	return buf;
}
