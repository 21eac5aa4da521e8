/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/console/ui.h"

#include <stdarg.h>

#include "proto/base/array.h"
#include "proto/base/text.h"

void
ui_say(struct ui *ui, bool bad, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(ui->message, sizeof(ui->message), fmt, args);
	va_end(args);
	ui->message_bad = bad;
}

/* ---- cursors ---- */

static bool
lists_nodes(const struct ui *ui)
{
	return ui->screen == SCREEN_NODES || ui->screen == SCREEN_RACK;
}

int
ui_count(const struct ui *ui, const struct model *m)
{
	return lists_nodes(ui)                ? m->node_count
	       : ui->screen == SCREEN_QUERIES ? m->query_count
	       : ui->screen == SCREEN_DATA    ? m->store_count
	       : ui->screen == SCREEN_PACKETS ? m->link_count
					      : 0;
}

/* Moves the cursor to this row of the screen's list, or to the nearest row that exists. */
static void
choose(struct ui *ui, const struct model *m, int at)
{
	int last = ui_count(ui, m) - 1;

	at = at > last ? last : at;
	at = at < 0 ? 0 : at;
	ui->place[ui->screen] = at;
	if (ui->screen == SCREEN_QUERIES && last >= 0)
		ui->query = m->queries[at]->number;
	else if (lists_nodes(ui) && last >= 0)
		PR_PRINT(ui->node, "%s", m->nodes[at]->name);
}

int
ui_chosen(struct ui *ui, const struct model *m)
{
	int count = ui_count(ui, m), at = 0;

	if (lists_nodes(ui))
		while (at < count && strcmp(m->nodes[at]->name, ui->node))
			at++;
	else if (ui->screen == SCREEN_QUERIES)
		while (at < count && m->queries[at]->number != ui->query)
			at++;
	else
		at = ui->place[ui->screen] < count ? ui->place[ui->screen] : count - 1;
	if (at < count)
		return at;
	if (!count || ui->detail)
		return -1; /* do not show the details of another node instead */
	choose(ui, m, 0);
	return 0;
}

static bool
moves(struct ui *ui, const struct model *m, int key)
{
	int page = ui->page > 1 ? ui->page - 1 : 1;
	const struct {
		int key, by;
	} keys[] = {{KEY_IS_UP, -1}, {KEY_IS_DOWN, 1}, {KEY_IS_PAGE_UP, -page},
		{KEY_IS_PAGE_DOWN, page}, {KEY_IS_HOME, -(1 << 20)}, {KEY_IS_END, 1 << 20}};

	for (size_t i = 0; i < PR_COUNT(keys); i++) {
		if (keys[i].key != key)
			continue;
		if (ui->screen == SCREEN_LOGFILE)
			ui->scroll = ui->scroll > keys[i].by ? ui->scroll - keys[i].by : 0;
		else if (ui_count(ui, m))
			choose(ui, m, ui_chosen(ui, m) + keys[i].by);
		return true;
	}
	return false;
}

/* ---- orders ---- */

bool
ui_order_is_data(const struct console_order *o)
{
	return !strcmp(o->verb, "export") || !strcmp(o->verb, "move") ||
	       !strcmp(o->verb, "delete");
}

static bool
give(struct ui *ui, struct console_order *order)
{
	*order = ui->pending;
	ui->pending.verb = NULL;
	ui_say(ui, false, "%s %s ...", order->verb, order->node);
	return true;
}

static void
drop(struct ui *ui)
{
	ui_say(ui, false, "%s: not done", ui->pending.verb);
	ui->pending.verb = NULL;
}

/*
 * Handles a key of the text or name that the command needs. True: the command is complete.
 */
static bool
answer_typed(struct ui *ui, int key, struct console_order *order)
{
	size_t len = strlen(ui->answer);
	bool delete = !strcmp(ui->pending.verb, "delete");

	if (key == KEY_IS_RUBOUT && len) {
		ui->answer[len - 1] = '\0';
	} else if (key >= 0x20 && key < 0x7f && len + 1 < sizeof(ui->answer)) {
		snprintf(ui->answer + len, 2, "%c", key);
	} else if (key == KEY_IS_ENTER && ui->needs_text && (len || delete)) {
		PR_PRINT(ui->pending.text, "%s", ui->answer);
		ui->needs_text = false;
		ui->needs_name = delete; /* the name is asked for next */
		ui->answer[0] = '\0';
		return !delete &&give(ui, order);
	} else if (key == KEY_IS_ENTER && !ui->needs_text &&
		   !strcmp(ui->answer, ui->pending.node)) {
		return give(ui, order);
	} else if (key == KEY_IS_ENTER || key == KEY_IS_ESC) {
		drop(ui);
	}
	return false;
}

const struct order_key ui_order_keys[] = {{SCREEN_NODES, 'i', "identify", NULL, true},
	{SCREEN_NODES, 'd', "disconnect", NULL, false},
	{SCREEN_NODES, 'r', "reconnect", NULL, true},
	{SCREEN_NODES, 'R', "reset", NULL, false},
	{SCREEN_DATA, 'e', "export", NULL, false}, {SCREEN_DATA, 'v', "move", NULL, false},
	{SCREEN_DATA, 'x', "delete", NULL, false},
	{SCREEN_CONTROL, 's', "start", "", false}, {SCREEN_CONTROL, 'S', "stop", "", false},
	{SCREEN_CONTROL, 'o', "spread", "round-robin", false},
	{SCREEN_CONTROL, 'w', "spread", "weighted", false},
	{SCREEN_CONTROL, 'f', "spread", "flow", false},
	{SCREEN_QUERIES, 'c', "cancel", "", false}, {0}};

static bool
screen_key(struct ui *ui, const struct model *m, int key, struct console_order *order)
{
	bool nodes = lists_nodes(ui);
	enum console_screen screen = nodes ? SCREEN_NODES : ui->screen;
	const struct order_key *k = ui_order_keys;
	int at = ui_chosen(ui, m);

	while (k->verb && (k->screen != screen || k->key != key))
		k++;
	if (k->verb && (at >= 0 || screen == SCREEN_CONTROL)) {
		ui->pending = (struct console_order){.verb = k->verb,
			.number = screen == SCREEN_QUERIES ? ui->query : 0};
		PR_PRINT(ui->pending.node, "%s",
			k->node ? k->node
			: nodes ? m->nodes[at]->name
				: m->stores[at].node->name);
		ui->needs_text = ui_order_is_data(&ui->pending);
		ui->needs_name = !strcmp(k->verb, "reset");
		ui->answer[0] = ui->message[0] = '\0';
		return k->at_once && give(ui, order);
	}
	if (nodes && (key == KEY_IS_ENTER || key == KEY_IS_RIGHT) && at >= 0) {
		ui->screen = SCREEN_NODES;
		ui->detail = true;
	} else if (screen == SCREEN_LOGFILE && key == 'l') {
		ui->log = (ui->log + 1) % (ui->logs + 1);
		ui->scroll = 0;
	}
	return false;
}

bool
ui_key(struct ui *ui, const struct model *m, int key, struct console_order *order)
{
	if (ui->pending.verb && (ui->needs_name || ui->needs_text))
		return answer_typed(ui, key, order);
	if (ui->pending.verb && (key == 'y' || key == 'Y'))
		return give(ui, order);
	if (ui->pending.verb) {
		drop(ui);
	} else if (ui->help && (key == KEY_IS_DOWN || key == KEY_IS_PAGE_DOWN)) {
		ui->scroll++;
	} else if (ui->help && (key == KEY_IS_UP || key == KEY_IS_PAGE_UP)) {
		ui->scroll -= ui->scroll > 0;
	} else if (ui->help || key == '?') {
		ui->help = !ui->help;
		ui->scroll = 0;
	} else if (key >= KEY_IS_ROW) {
		choose(ui, m, key - KEY_IS_ROW);
	} else if (key == '\t' || (key >= '1' && key < '1' + SCREENS)) {
		key = key == '\t' ? (int)ui->screen + 1 : key - '1';
		ui->screen = key % SCREENS;
		ui->detail = false;
		ui->top = ui->scroll = 0;
	} else if (key == 'q') {
		ui->quit = true;
	} else if (key == KEY_IS_ESC || key == KEY_IS_LEFT || key == KEY_IS_RUBOUT) {
		ui->detail = false;
		ui->message[0] = '\0';
	} else if (!moves(ui, m, key)) {
		return screen_key(ui, m, key, order);
	}
	return false;
}
