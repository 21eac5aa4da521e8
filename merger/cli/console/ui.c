/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/console/ui.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

static void
node_choose(struct ui *ui, const struct model *m, int at)
{
	int last = (int)m->node_count - 1;

	at = at > last ? last : at < 0 ? 0 : at;
	if (last >= 0)
		snprintf(ui->node, sizeof(ui->node), "%s", m->nodes[at]->name);
}

int
ui_node(struct ui *ui, const struct model *m)
{
	for (size_t i = 0; i < m->node_count; i++)
		if (!strcmp(m->nodes[i]->name, ui->node))
			return (int)i;
	if (!m->node_count || ui->detail)
		return -1; /* its details do not become another's */
	node_choose(ui, m, 0);
	return 0;
}

static void
query_choose(struct ui *ui, const struct model *m, int at)
{
	int last = (int)m->query_count - 1;

	at = at > last ? last : at < 0 ? 0 : at;
	if (last >= 0)
		ui->query = m->queries[at]->number;
}

int
ui_query(struct ui *ui, const struct model *m)
{
	for (unsigned i = 0; i < m->query_count; i++)
		if (m->queries[i]->number == ui->query)
			return (int)i;
	query_choose(ui, m, 0);
	return m->query_count ? 0 : -1;
}

static void
store_choose(struct ui *ui, const struct model *m, int at)
{
	int last = (int)m->store_count - 1;

	at = at > last ? last : at;
	ui->store = at > 0 ? (unsigned)at : 0;
}

static void
choose(struct ui *ui, const struct model *m, int by)
{
	int link = (int)ui->link + by, links = (int)m->link_count;

	switch (ui->screen) {
	case SCREEN_CLIENTS:
	case SCREEN_RACK:
		node_choose(ui, m, ui_node(ui, m) + by);
		break;
	case SCREEN_QUERIES:
		query_choose(ui, m, ui_query(ui, m) + by);
		break;
	case SCREEN_DATA:
		store_choose(ui, m, (int)ui->store + by);
		break;
	case SCREEN_PACKETS:
		link = link >= links ? links - 1 : link;
		ui->link = link > 0 ? (unsigned)link : 0;
		break;
	case SCREEN_LOGFILE:
		ui->scroll = ui->scroll > by ? ui->scroll - by : 0;
		break;
	default:
		break;
	}
}

static bool
moves(struct ui *ui, const struct model *m, int key)
{
	int page = ui->page > 1 ? ui->page - 1 : 1;
	static const int all = 1 << 20;

	switch (key) {
	case KEY_IS_UP:
		choose(ui, m, -1);
		return true;
	case KEY_IS_DOWN:
		choose(ui, m, 1);
		return true;
	case KEY_IS_PAGE_UP:
		choose(ui, m, -page);
		return true;
	case KEY_IS_PAGE_DOWN:
		choose(ui, m, page);
		return true;
	case KEY_IS_HOME:
		choose(ui, m, -all);
		return true;
	case KEY_IS_END:
		choose(ui, m, all);
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

static void
ask(struct ui *ui, const char *verb, const char *node, uint64_t number)
{
	ui->pending = (struct console_order){.verb = verb, .number = number};
	snprintf(ui->pending.node, sizeof(ui->pending.node), "%s", node);
	ui->needs_text = ui_order_is_data(&ui->pending);
	ui->needs_name = !strcmp(verb, "reset");
	ui->answer[0] = '\0';
	ui->message[0] = '\0';
}

char *
ui_question(const struct ui *ui, char *buf, size_t size)
{
	const struct console_order *o = &ui->pending;

	if (ui->needs_text && !strcmp(o->verb, "delete"))
		snprintf(buf, size,
			"Delete packets on %s up to TIME, included (empty: ALL packets): "
			"%s_",
			o->node, ui->answer);
	else if (ui->needs_text)
		snprintf(buf, size, "%s the packets of %s to which %s: %s_",
			strcmp(o->verb, "move") ? "Export" : "Move", o->node,
			strcmp(o->verb, "move") ? "file" : "node", ui->answer);
	else if (ui->needs_name && o->text[0])
		snprintf(buf, size,
			"Permanently deletes packets on %s up to %s. Type the node name: "
			"%s_",
			o->node, o->text, ui->answer);
	else if (ui->needs_name)
		snprintf(buf, size,
			"Permanently deletes ALL packets on %s. Type the node name: %s_",
			o->node, ui->answer);
	else if (!strcmp(o->verb, "cancel"))
		snprintf(buf, size, "Cancel query %" PRIu64 "? (y/n)", o->number);
	else if (!strcmp(o->verb, "spread"))
		snprintf(buf, size, "Spread packets %s from now on? (y/n)", o->node);
	else
		snprintf(buf, size, "Really %s %s? (y/n)", o->verb,
			o->node[0] ? o->node : "the capture");
	return buf;
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

/* A delete goes on to ask for the name. true: it is complete. */
static bool
text_done(struct ui *ui)
{
	snprintf(ui->pending.text, sizeof(ui->pending.text), "%s", ui->answer);
	ui->needs_text = false;
	ui->needs_name = !strcmp(ui->pending.verb, "delete");
	ui->answer[0] = '\0';
	return !ui->needs_name;
}

static bool
answer_typed(struct ui *ui, int key, struct console_order *order)
{
	size_t len = strlen(ui->answer);

	if (key == KEY_IS_ENTER && ui->needs_text &&
		(len || !strcmp(ui->pending.verb, "delete")))
		return text_done(ui) ? give(ui, order) : false;
	if (key == KEY_IS_ENTER && !ui->needs_text && !strcmp(ui->answer, ui->pending.node))
		return give(ui, order);
	if (key == KEY_IS_ENTER || key == KEY_IS_ESC)
		drop(ui);
	else if (key == KEY_IS_RUBOUT && len)
		ui->answer[len - 1] = '\0';
	else if (key >= 0x20 && key < 0x7f && len + 1 < sizeof(ui->answer))
		snprintf(ui->answer + len, 2, "%c", key);
	return false;
}

static bool
answer(struct ui *ui, int key, struct console_order *order)
{
	if (ui->needs_name || ui->needs_text)
		return answer_typed(ui, key, order);
	if (key == 'y' || key == 'Y')
		return give(ui, order);
	drop(ui);
	return false;
}

static bool
node_key(struct ui *ui, const struct model *m, int key, struct console_order *order)
{
	int at = ui_node(ui, m);

	if (at < 0)
		return false;
	switch (key) {
	case 'i':
		ask(ui, "identify", m->nodes[at]->name, 0);
		return give(ui, order);
	case 'd':
		ask(ui, "disconnect", m->nodes[at]->name, 0);
		break;
	case 'r':
		ask(ui, "reconnect", m->nodes[at]->name, 0);
		return give(ui, order);
	case 'R':
		ask(ui, "reset", m->nodes[at]->name, 0);
		break;
	case KEY_IS_ENTER:
	case KEY_IS_RIGHT:
		ui->screen = SCREEN_CLIENTS;
		ui->detail = true;
	}
	return false;
}

static void
data_key(struct ui *ui, const struct model *m, int key)
{
	const char *node;

	if (ui->store >= m->store_count)
		return;
	node = m->stores[ui->store].node->name;
	if (key == 'e' || key == 'v' || key == 'x')
		ask(ui, key == 'e' ? "export" : key == 'v' ? "move" : "delete", node, 0);
}

static bool
screen_key(struct ui *ui, const struct model *m, int key, struct console_order *order)
{
	switch (ui->screen) {
	case SCREEN_CLIENTS:
	case SCREEN_RACK:
		return node_key(ui, m, key, order);
	case SCREEN_CONTROL:
		if (key == 's' || key == 'S')
			ask(ui, key == 's' ? "start" : "stop", "", 0);
		else if (key == 'o' || key == 'w' || key == 'f')
			ask(ui, "spread",
				key == 'o'   ? "round-robin"
				: key == 'w' ? "weighted"
					     : "flow",
				0);
		return false;
	case SCREEN_DATA:
		data_key(ui, m, key);
		return false;
	case SCREEN_QUERIES:
		if (key == 'c' && ui_query(ui, m) >= 0)
			ask(ui, "cancel", "", ui->query);
		return false;
	case SCREEN_LOGFILE:
		if (key == 'l') {
			ui->log = (ui->log + 1) % (ui->logs + 1);
			ui->scroll = 0;
		}
		return false;
	default:
		return false;
	}
}

static void
go(struct ui *ui, enum console_screen screen)
{
	ui->screen = screen;
	ui->detail = false;
	ui->top = ui->scroll = 0;
}

/* Keys that mean the same everywhere. */
static bool
common_key(struct ui *ui, int key)
{
	if (key >= '1' && key < '1' + SCREENS) {
		go(ui, (enum console_screen)(key - '1'));
	} else if (key == '\t') {
		go(ui, (enum console_screen)((ui->screen + 1) % SCREENS));
	} else if (key == '?') {
		ui->help = true;
		ui->scroll = 0;
	} else if (key == 'q') {
		ui->quit = true;
	} else if (key == KEY_IS_ESC || key == KEY_IS_LEFT || key == KEY_IS_RUBOUT) {
		ui->detail = false;
		ui->message[0] = '\0';
	} else {
		return false;
	}
	return true;
}

static void
help_key(struct ui *ui, int key)
{
	if (key == KEY_IS_DOWN || key == KEY_IS_PAGE_DOWN)
		ui->scroll++;
	else if (key == KEY_IS_UP || key == KEY_IS_PAGE_UP)
		ui->scroll -= ui->scroll > 0;
	else {
		ui->help = false;
		ui->scroll = 0;
	}
}

bool
ui_key(struct ui *ui, const struct model *m, int key, struct console_order *order)
{
	if (ui->pending.verb)
		return answer(ui, key, order);
	if (ui->help) {
		help_key(ui, key);
		return false;
	}
	if (key >= KEY_IS_ROW) {
		if (ui->screen == SCREEN_QUERIES)
			query_choose(ui, m, key - KEY_IS_ROW);
		else if (ui->screen == SCREEN_DATA)
			store_choose(ui, m, key - KEY_IS_ROW);
		else if (ui->screen == SCREEN_PACKETS)
			ui->link = (unsigned)(key - KEY_IS_ROW);
		else
			node_choose(ui, m, key - KEY_IS_ROW);
		return false;
	}
	if (common_key(ui, key) || moves(ui, m, key))
		return false;
	return screen_key(ui, m, key, order);
}
