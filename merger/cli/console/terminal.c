/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/console/terminal.h"

#include <curses.h>
#include <locale.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "merger/cli/console/ui.h"
#include "proto/base/array.h"

#define CONSOLE_ROWS_MAX 500

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
	cells = reallocarray(c->cells, rows * (size_t)cols, sizeof(*cells));
	if (!cells)
		return pr_error_set(err, "no memory for a screen of %d by %d", cols, rows);
	c->cells = cells;
	c->rows = rows;
	c->cols = cols;
	for (int i = 0; i < rows * cols; i++)
		cells[i] = (struct console_cell){' ', STYLE_PLAIN};
	c->zone_count = 0;
	return 0;
}

void
canvas_free(struct canvas *c)
{
	free(c->cells);
	*c = (struct canvas){0};
}

int
canvas_put(struct canvas *c, int col, enum console_style style, uint32_t ch)
{
	if (c->row >= 0 && c->row < c->rows && col >= 0 && col < c->cols)
		c->cells[c->row * c->cols + col] = (struct console_cell){ch, style};
	return col + 1;
}

int
canvas_print(struct canvas *c, enum canvas_place place, int col, enum console_style style,
	const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (place == CANVAS_UNTIL)
		col -= strlen(text);
	for (const char *s = text; *s; s++)
		col = canvas_put(c, col, style, *s >= 0x20 && *s < 0x7f ? *s : '?');
	c->row += place == CANVAS_LINE;
	return col;
}

void
canvas_style(struct canvas *c, int from, int until, enum console_style style)
{
	if (c->row < 0 || c->row >= c->rows)
		return;
	for (int i = from < 0 ? 0 : from; i < until && i < c->cols; i++)
		c->cells[c->row * c->cols + i].style = style;
}

void
canvas_zone(struct canvas *c, int from, int until, int key)
{
	if (c->zone_count < CONSOLE_ZONES)
		c->zones[c->zone_count++] = (struct console_zone){c->row, from, until, key};
}

#define NCURSES_WIDECHAR 1

#define ESC_MS 25 /* a terminal sends the rest of a key's sequence at once */
#define CTRL_L 12

static SCREEN *screen;
static WINDOW *window; /* all of it */

/* Bold, dim and reverse carry the meaning too, for terminals without colour. */
static const struct {
	short colour; /* of the letters; -1: the terminal's own */
	attr_t attributes;
} looks[STYLES] = {[STYLE_PLAIN] = {-1, A_NORMAL},
	[STYLE_DIM] = {-1, A_DIM},
	[STYLE_HEAD] = {-1, A_BOLD},
	[STYLE_BAR] = {-1, A_REVERSE},
	[STYLE_CHOSEN] = {-1, A_REVERSE | A_BOLD},
	[STYLE_GOOD] = {COLOR_GREEN, A_NORMAL},
	[STYLE_WARN] = {COLOR_YELLOW, A_BOLD},
	[STYLE_BAD] = {COLOR_RED, A_BOLD | A_UNDERLINE}};

static const struct {
	int theirs, ours;
} keys[] = {
	{KEY_UP, KEY_IS_UP},
	{KEY_DOWN, KEY_IS_DOWN},
	{KEY_LEFT, KEY_IS_LEFT},
	{KEY_RIGHT, KEY_IS_RIGHT},
	{KEY_PPAGE, KEY_IS_PAGE_UP},
	{KEY_NPAGE, KEY_IS_PAGE_DOWN},
	{KEY_HOME, KEY_IS_HOME},
	{KEY_END, KEY_IS_END},
	{KEY_BACKSPACE, KEY_IS_RUBOUT},
	{0x7f, KEY_IS_RUBOUT},
	{'\b', KEY_IS_RUBOUT},
	{KEY_ENTER, KEY_IS_ENTER},
	{'\r', KEY_IS_ENTER},
};

int
terminal_open(bool colour, struct pr_error *err)
{
	const char *term = getenv("TERM");

	setlocale(LC_ALL, "");
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return pr_error_set(err, "the console needs a terminal; scripts take "
					 "packrack status --json");
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return pr_error_set(err,
			"TERM is '%s', which curses cannot drive: set it to what your "
			"terminal is",
			term ? term : "");
	set_term(screen);
	window = newwin(0, 0, 0, 0);
	if (!window) {
		terminal_close();
		return pr_error_set(err, "no memory for the console's window");
	}
	set_escdelay(ESC_MS);
	cbreak();
	noecho();
	keypad(window, TRUE);
	nodelay(window, TRUE);
	curs_set(0);
	mousemask(BUTTON1_PRESSED | BUTTON1_CLICKED | BUTTON4_PRESSED | BUTTON5_PRESSED,
		NULL);
	mouseinterval(0);
	if (colour && has_colors()) {
		start_color();
		use_default_colors();
		for (short i = 0; i < STYLES; i++)
			init_pair((short)(i + 1), looks[i].colour, -1);
	}
	return 0;
}

void
terminal_close(void)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen);
	screen = NULL;
}

void
terminal_size(int *rows, int *cols)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col &&
		(size.ws_row != getmaxy(window) || size.ws_col != getmaxx(window)))
		resizeterm(size.ws_row, size.ws_col);
	*rows = getmaxy(window);
	*cols = getmaxx(window);
}

/* curses finds out by itself what has changed since the last time. */
void
terminal_paint(const struct canvas *c)
{
	int rows = getmaxy(window), cols = getmaxx(window);

	for (int row = 0; row < c->rows && row < rows; row++)
		for (int col = 0; col < c->cols && col < cols; col++) {
			const struct console_cell *cell = &c->cells[row * c->cols + col];
			wchar_t text[2] = {(wchar_t)cell->ch, 0};
			cchar_t ch;

			setcchar(&ch, text, looks[cell->style].attributes,
				(short)(cell->style + 1), NULL);
			mvwadd_wch(window, row, col, &ch);
		}
	wrefresh(window);
}

/* The key of the zone that was clicked. */
static int
mouse_key(const struct canvas *c)
{
	const struct console_zone *zone = c->zones;
	MEVENT event;

	if (getmouse(&event) != OK)
		return 0;
	if (event.bstate & BUTTON4_PRESSED)
		return KEY_IS_UP;
	if (event.bstate & BUTTON5_PRESSED)
		return KEY_IS_DOWN;
	for (int i = 0; i < c->zone_count; i++, zone++)
		if (zone->row == event.y && event.x >= zone->from && event.x < zone->until)
			return zone->key;
	return 0;
}

int
terminal_key(const struct canvas *c)
{
	struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
	int key, ours;

	while ((key = wgetch(window)) != ERR) {
		ours = key == KEY_MOUSE ? mouse_key(c) : key < 0x80 ? key : 0;
		for (size_t i = 0; i < PR_COUNT(keys); i++)
			if (keys[i].theirs == key)
				ours = keys[i].ours;
		if (key == CTRL_L)
			clearok(window, TRUE); /* the next paint draws all of it */
		if (ours)
			return ours;
	}
	/* ERR is both "nothing" and "gone"; only the descriptor tells them apart */
	return poll(&fd, 1, 0) > 0 && fd.revents & (POLLHUP | POLLERR | POLLNVAL) ? -1 : 0;
}
