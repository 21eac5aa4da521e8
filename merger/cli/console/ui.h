/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/cli/console/model.h"
#include "merger/cli/console/terminal.h"

/*
 * State of the user interface, and what each key does. No I/O: a key is the input; a
 * command for a daemon may be the result. The terminal's keys have names here, so that only
 * terminal.c needs curses.
 */
enum console_screen {
	SCREEN_METRICS,
	SCREEN_PACKETS,
	SCREEN_NODES,
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
 * A command for the dispatcher, with two exceptions. "cancel" goes to the merger. "export",
 * "move" and "delete" run packrack data, with text: a file, a node, or a time.
 */
#define UI_TEXT 200
struct console_order {
	const char *verb;
	char node[MODEL_NAME];
	uint64_t number;
	char text[UI_TEXT];
};

/* Keys that send a command. The list ends with an item without a verb. */
extern const struct order_key {
	enum console_screen screen; /* NODES also means RACK */
	int key;
	const char *verb;
	const char *node; /* NULL: the one at the cursor */
	bool at_once; /* sent without confirmation: it does no harm */
} ui_order_keys[];

/* True if the command is one of `packrack data`. */
bool ui_order_is_data(const struct console_order *order);

struct ui {
	enum console_screen screen;
	bool detail; /* NODES: one node, not the list */
	bool help, quit;
	char node[MODEL_NAME]; /* node at the cursor, by name, because its row may change */
	uint64_t query; /* query at the cursor, by number */
	int place[SCREENS]; /* DATA, PACKETS: row at the cursor */
	int top; /* first row of the list that is shown */
	int scroll; /* LOGFILE: lines back from the end; help: down from the top */
	int page; /* rows that the last view had for its list */
	unsigned log; /* LOGFILE: 0: the console's events; 1 and above: the log files */
	unsigned logs; /* number of log files */
	/* if it has a verb, the user is asked to confirm it */
	struct console_order pending;
	bool needs_text; /* the user must type a text first */
	bool needs_name; /* the user must confirm by typing the node's name */
	char answer[UI_TEXT];
	char message[256]; /* result of the last command */
	bool message_bad;
	unsigned frame_count;
};

/* Handles a key. True: the caller must send *order. */
bool ui_key(struct ui *ui, const struct model *m, int key, struct console_order *order);
/* Rows of the screen's list, 0 if it has none. */
int ui_count(const struct ui *ui, const struct model *m);
/*
 * The row at the cursor; -1: the list is empty. Moves the cursor to the first row if its
 * item no longer exists.
 */
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
