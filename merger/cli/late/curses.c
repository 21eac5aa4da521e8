/* SPDX-License-Identifier: Apache-2.0 */
#define NCURSES_WIDECHAR 1
#define NCURSES_NOMACROS 1 /* what are macros there are functions here */
#include <curses.h>

#include "merger/cli/late/late.h"

/* The console's alone. It takes a window of its own: a library's variables cannot be had late. */
static struct late library = {
	.names = {"libncursesw.so.6"}, .lock = PTHREAD_MUTEX_INITIALIZER};

LATE(SCREEN *, newterm, (const char *term, FILE *out, FILE *in), (term, out, in))
LATE(SCREEN *, set_term, (SCREEN * screen), (screen))
LATE(void, delscreen, (SCREEN * screen), (screen))
LATE(int, endwin, (void), ())
LATE(WINDOW *, newwin, (int rows, int cols, int row, int col), (rows, cols, row, col))
LATE(int, set_escdelay, (int ms), (ms))
LATE(int, cbreak, (void), ())
LATE(int, noecho, (void), ())
LATE(int, keypad, (WINDOW * window, bool on), (window, on))
LATE(int, nodelay, (WINDOW * window, bool on), (window, on))
LATE(int, clearok, (WINDOW * window, bool on), (window, on))
LATE(int, curs_set, (int visible), (visible))
LATE(mmask_t, mousemask, (mmask_t new_mask, mmask_t *old), (new_mask, old))
LATE(int, mouseinterval, (int ms), (ms))
LATE(int, getmouse, (MEVENT * event), (event))
LATE(bool, has_colors, (void), ())
LATE(int, start_color, (void), ())
LATE(int, use_default_colors, (void), ())
LATE(int, init_pair, (short pair, short letters, short behind), (pair, letters, behind))
LATE(int, resizeterm, (int rows, int cols), (rows, cols))
LATE(int, setcchar,
	(cchar_t * ch, const wchar_t *text, const attr_t attributes, short pair,
		const void *more),
	(ch, text, attributes, pair, more))
LATE(int, wmove, (WINDOW * window, int row, int col), (window, row, col))
LATE(int, wadd_wch, (WINDOW * window, const cchar_t *ch), (window, ch))
LATE(int, wrefresh, (WINDOW * window), (window))
LATE(int, wgetch, (WINDOW * window), (window))
