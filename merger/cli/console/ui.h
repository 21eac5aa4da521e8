/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CONSOLE_UI_H
#define PR_CONSOLE_UI_H

#include "merger/cli/console/model.h"
#include "merger/cli/console/terminal.h"

/*
 * Where the user is, and what keys do. Pure: a key goes in, an order to a daemon may come out. The
 * terminal's keys are named here so that nobody else needs curses.
 */
enum console_screen {
	SCREEN_METRICS,
	SCREEN_PACKETS,
	SCREEN_CLIENTS,
	SCREEN_CONTROL,
	SCREEN_LOGFILE,
	SCREEN_QUERIES,
	SCREEN_RACK,
	SCREEN_DATA,
	SCREENS
};

/* Keys below 0x100 are their ASCII codes. */
enum console_key {
	KEY_IS_ESC = 27,
	KEY_IS_ENTER = '\n',
	KEY_IS_UP = 0x1000,
	KEY_IS_DOWN,
	KEY_IS_LEFT,
	KEY_IS_RIGHT,
	KEY_IS_PAGE_UP,
	KEY_IS_PAGE_DOWN,
	KEY_IS_HOME,
	KEY_IS_END,
	KEY_IS_RUBOUT,
	KEY_IS_ROW = 0x2000, /* + n: the mouse was pressed on the list's row n */
};

/*
 * To the dispatcher, but for "cancel", which the merger takes; "export", "move" and "delete" are commands
 * of packrack data, with text: a file, a node, and up to when.
 */
#define UI_TEXT 200
struct console_order {
	const char *verb;
	char node[MODEL_NAME];
	uint64_t number;
	char text[UI_TEXT];
};

/* Keys that order something, and of whom; up to one without a verb. */
extern const struct order_key {
	enum console_screen screen; /* CLIENTS: RACK as well */
	int key;
	const char *verb;
	const char *node; /* NULL: the one at the cursor */
	bool at_once; /* does no harm */
} ui_order_keys[];

/* True if the command is one of `packrack data`. */
bool ui_order_is_data(const struct console_order *order);

struct ui {
	enum console_screen screen;
	bool detail; /* CLIENTS: one node, not the list */
	bool help, quit;
	char node[MODEL_NAME]; /* at the cursor; a name, as places in the list move */
	uint64_t query; /* the same */
	int place[SCREENS]; /* DATA, PACKETS: row at the cursor */
	int top; /* first row of the list that is shown */
	int scroll; /* LOGFILE: lines back from the end; help: down from the top */
	int page; /* rows that the last view had for its list */
	unsigned log; /* LOGFILE: 0 the console's events, then the files */
	unsigned logs; /* files that there are */
	struct console_order pending; /* verb set: asks "really?" */
	bool needs_text; /* and the user types a text first */
	bool needs_name; /* and the user confirms it by typing the node's name */
	char answer[UI_TEXT];
	char message[256]; /* what came of the last order */
	bool message_bad;
	unsigned frame_count;
};

/* true: *order is to be sent. */
bool ui_key(struct ui *ui, const struct model *m, int key, struct console_order *order);
/* Rows of the screen's list, 0 if it has none. */
int ui_count(const struct ui *ui, const struct model *m);
/* The row at its cursor, which is put on the first one when it was on nothing; -1: there is none. */
int ui_chosen(struct ui *ui, const struct model *m);
void ui_say(struct ui *ui, bool bad, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- view.c ---- */

/* The last lines of a log file that others write, shorten or replace. */
#define LOGTAIL_BYTES 65536
struct logtail {
	const char *path; /* borrowed */
	char text[LOGTAIL_BYTES + 2]; /* whole lines, NUL-terminated */
	char error[256]; /* "" when text is good */
};

/*
 * Draws the whole screen from the model. No I/O. Cursors and scroll positions of ui are
 * corrected to what there is. log: that of ui->log, unused when it is 0. c has been reset
 * to its size.
 */
void view_draw(
	struct canvas *c, const struct model *m, struct ui *ui, const struct logtail *log);

#endif
