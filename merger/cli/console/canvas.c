/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/console/canvas.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 1100

static int
bound(int n, int max)
{
	return n < 1 ? 1 : n > max ? max : n;
}

int
canvas_reset(struct canvas *c, int rows, int cols, struct pr_error *err)
{
	struct console_cell *cells;

	rows = bound(rows, CONSOLE_ROWS_MAX);
	cols = bound(cols, CONSOLE_COLS_MAX);
	if (!c->cells || rows != c->rows || cols != c->cols) {
		cells = reallocarray(c->cells, (size_t)rows * (size_t)cols, sizeof(*cells));
		if (!cells)
			return pr_error_set(
				err, "no memory for a screen of %d by %d", cols, rows);
		c->cells = cells;
		c->rows = rows;
		c->cols = cols;
	}
	for (int i = 0; i < rows * cols; i++)
		c->cells[i] = (struct console_cell){' ', STYLE_PLAIN};
	c->zone_count = 0;
	return 0;
}

void
canvas_free(struct canvas *c)
{
	free(c->cells);
	c->cells = NULL;
	c->rows = c->cols = 0;
}

int
canvas_put(struct canvas *c, int row, int col, enum console_style style, uint32_t ch)
{
	if (row >= 0 && row < c->rows && col >= 0 && col < c->cols)
		c->cells[row * c->cols + col] = (struct console_cell){ch, (uint8_t)style};
	return col + 1;
}

static int
put_ascii(struct canvas *c, int row, int col, enum console_style style, const char *s)
{
	for (; *s; s++)
		col = canvas_put(
			c, row, col, style, *s >= 0x20 && *s < 0x7f ? (uint32_t)*s : '?');
	return col;
}

int
canvas_text(
	struct canvas *c, int row, int col, enum console_style style, const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return put_ascii(c, row, col, style, text);
}

int
canvas_right(struct canvas *c, int row, int until, enum console_style style,
	const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return put_ascii(c, row, until - (int)strlen(text), style, text);
}

int
canvas_bar(struct canvas *c, int row, int col, int width, double part,
	enum console_style style)
{
	int room = width - 2, filled;

	part = part > 0 ? part < 1 ? part : 1 : 0;
	filled = (int)(part * room + 0.5);
	if (part > 0 && !filled)
		filled = 1; /* a little is not nothing */
	col = canvas_put(c, row, col, STYLE_PLAIN, '[');
	for (int i = 0; i < room; i++)
		col = i < filled ? canvas_put(c, row, col, style, '#')
				 : canvas_put(c, row, col, STYLE_DIM, '.');
	return canvas_put(c, row, col, STYLE_PLAIN, ']');
}

int
canvas_spark(struct canvas *c, int row, int col, int width, const uint64_t *values,
	unsigned count)
{
	static const char levels[] = "_.:-=+*#%";
	uint64_t top = 1;
	unsigned use = count < (unsigned)width ? count : (unsigned)width;

	values += count - use;
	for (unsigned i = 0; i < use; i++)
		if (values[i] > top)
			top = values[i];
	col += width - (int)use;
	for (unsigned i = 0; i < use; i++) {
		unsigned level = (unsigned)((double)values[i] / (double)top * 8 + 0.5);

		if (values[i] && !level)
			level = 1;
		if (!level)
			col = canvas_put(c, row, col, STYLE_DIM, '_');
		else
			col = canvas_put(c, row, col, STYLE_GOOD,
				c->ascii ? (uint32_t)levels[level] : 0x2580 + level);
	}
	return col;
}

void
canvas_style_row(struct canvas *c, int row, enum console_style style)
{
	if (row < 0 || row >= c->rows)
		return;
	for (int i = 0; i < c->cols; i++)
		c->cells[row * c->cols + i].style = (uint8_t)style;
}

void
canvas_zone(struct canvas *c, int row, int from, int until, int key)
{
	if (c->zone_count < CONSOLE_ZONES)
		c->zones[c->zone_count++] = (struct console_zone){row, from, until, key};
}

int
canvas_pressed(const struct canvas *c, int row, int col)
{
	for (int i = 0; i < c->zone_count; i++)
		if (c->zones[i].row == row && col >= c->zones[i].from &&
			col < c->zones[i].until)
			return c->zones[i].key;
	return 0;
}

/* Our own characters are ASCII or of the block elements: one or three bytes. */
static char *
put_utf8(char *to, uint32_t ch)
{
	if (ch < 0x80) {
		*to++ = (char)ch;
		return to;
	}
	*to++ = (char)(0xe0 | (ch >> 12 & 0x0f));
	*to++ = (char)(0x80 | (ch >> 6 & 0x3f));
	*to++ = (char)(0x80 | (ch & 0x3f));
	return to;
}

char *
canvas_row(const struct canvas *c, int row, char *buf, int size)
{
	const struct console_cell *cells = &c->cells[row * c->cols];
	int last = c->cols;
	char *to = buf;

	while (last > 0 && cells[last - 1].ch == ' ')
		last--;
	for (int i = 0; i < last && to - buf + 4 < size; i++)
		to = put_utf8(to, cells[i].ch);
	*to = '\0';
	return buf;
}
