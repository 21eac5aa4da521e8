/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"

/*
 * A canvas: rows of characters with a style each, and the zones that react to the mouse. It
 * does not depend on a terminal. Drawing outside is cut off, so callers need not check the
 * size. Text from outside is shown as printable ASCII, with '?' for all else.
 */
enum console_style {
	STYLE_PLAIN,
	STYLE_DIM,
	STYLE_HEAD, /* headings */
	STYLE_BAR, /* the top line and the line of keys */
	STYLE_CHOSEN, /* the present screen, the row at the cursor */
	STYLE_GOOD,
	STYLE_WARN,
	STYLE_BAD,
	STYLES
};

struct console_cell {
	uint32_t ch; /* Unicode */
	uint8_t style;
};

/* A mouse click in this zone acts like the key. */
struct console_zone {
	int row, from, until; /* columns [from, until) */
	int key;
};
enum { CONSOLE_ZONES = 512, CONSOLE_COLS_MAX = 1000 };

struct canvas {
	int rows, cols;
	int row; /* the one that is drawn */
	int left; /* where a table of figures begins */
	bool ascii; /* bars and sparklines in ASCII */
	struct console_cell *cells;
	struct console_zone zones[CONSOLE_ZONES];
	int zone_count;
};

/* Clears it to this size, which is bounded by 1 and the above. -1: no memory. */
int canvas_reset(struct canvas *c, int rows, int cols, struct pr_error *err);
void canvas_free(struct canvas *c);

/* All draw in c->row. Those with a result return the column after the text. */
int canvas_put(struct canvas *c, int col, enum console_style style, uint32_t ch);

/*
 * Draws text. CANVAS_FROM: from column `col` on. CANVAS_UNTIL: right-aligned, ends before
 * column `col`; text that is too long loses its end. CANVAS_LINE: from column 1 on, and
 * moves to the next row. A style, a format and its arguments follow.
 */
enum canvas_place { CANVAS_FROM, CANVAS_UNTIL, CANVAS_LINE };
#define canvas_text(c, col, ...) canvas_print(c, CANVAS_FROM, col, __VA_ARGS__)
#define canvas_right(c, until, ...) canvas_print(c, CANVAS_UNTIL, until, __VA_ARGS__)
#define canvas_line(c, ...) canvas_print(c, CANVAS_LINE, 1, __VA_ARGS__)
int canvas_print(struct canvas *c, enum canvas_place place, int col,
	enum console_style style, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
void canvas_style(struct canvas *c, int from, int until, enum console_style style);
void canvas_zone(struct canvas *c, int from, int until, int key);

/* The terminal, by curses: paints a canvas and reads keys. One at a time. */

int terminal_open(bool colour, struct pr_error *err);
void terminal_close(void);

/* Gets the terminal's present size from the kernel, and informs curses. */
void terminal_size(int *rows, int *cols);
void terminal_paint(const struct canvas *c);

/*
 * Returns the next key (names in ui.h) without waiting; 0: there is none; -1: the terminal
 * has gone. A mouse click gives the key of the zone on the canvas.
 */
int terminal_key(const struct canvas *c);
