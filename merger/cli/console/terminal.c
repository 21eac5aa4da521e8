/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/console/terminal.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "merger/cli/console/ui.h"

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

static int
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

#define NCURSES_WIDECHAR 1

#define ESC_MS 25 /* a terminal sends the rest of a key's sequence at once */
#define CTRL_L 12

static SCREEN *screen;
static WINDOW *window; /* all of it */

/* Bold, dim and reverse carry the meaning too, for terminals without colour. */
static const struct {
	short colour; /* of the letters; -1: the terminal's own */
	attr_t attributes;
} looks[STYLES] = {
	[STYLE_PLAIN] = {-1, A_NORMAL},
	[STYLE_DIM] = {-1, A_DIM},
	[STYLE_HEAD] = {-1, A_BOLD},
	[STYLE_BAR] = {-1, A_REVERSE},
	[STYLE_CHOSEN] = {-1, A_REVERSE | A_BOLD},
	[STYLE_GOOD] = {COLOR_GREEN, A_NORMAL},
	[STYLE_WARN] = {COLOR_YELLOW, A_BOLD},
	[STYLE_BAD] = {COLOR_RED, A_BOLD | A_UNDERLINE},
};

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

static void
set_colours(void)
{
	start_color();
	use_default_colors();
	for (short i = 0; i < STYLES; i++)
		init_pair((short)(i + 1), looks[i].colour, -1);
}

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
	if (colour && has_colors())
		set_colours();
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

bool
terminal_is_utf8(void)
{
	return !strcmp(nl_langinfo(CODESET), "UTF-8");
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

static void
terminal_redraw(void)
{
	clearok(window, TRUE);
}

static int
mouse_key(const struct canvas *c)
{
	MEVENT event;

	if (getmouse(&event) != OK)
		return 0;
	if (event.bstate & BUTTON4_PRESSED)
		return KEY_IS_UP;
	if (event.bstate & BUTTON5_PRESSED)
		return KEY_IS_DOWN;
	return canvas_pressed(c, event.y, event.x);
}

/* wgetch says ERR for both "nothing" and "gone"; only the descriptor tells them apart. */
static bool
hung_up(void)
{
	struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLHUP | POLLERR | POLLNVAL));
}

int
terminal_key(const struct canvas *c)
{
	int key, ours;

	while ((key = wgetch(window)) != ERR) {
		ours = key == KEY_MOUSE ? mouse_key(c) : key < 0x80 ? key : 0;
		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
			if (keys[i].theirs == key)
				ours = keys[i].ours;
		if (key == CTRL_L)
			terminal_redraw();
		if (ours)
			return ours;
	}
	return hung_up() ? -1 : 0;
}
