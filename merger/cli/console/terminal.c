/* SPDX-License-Identifier: Apache-2.0 */
#define NCURSES_WIDECHAR 1
#include "merger/cli/console/terminal.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "merger/cli/console/ui.h"

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

void
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
