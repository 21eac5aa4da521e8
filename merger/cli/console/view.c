/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "merger/cli/console/format.h"
#include "merger/cli/console/view_internal.h"

static const char *const tabs[SCREENS] = {
	"METRICS", "PACKETS", "CLIENTS", "CONTROL", "LOGFILE", "QUERIES", "RACK", "DATA"};

/* ---- what screens share ---- */

int
view_missing(struct canvas *c, int row, const char *what, const struct model_peer *peer)
{
	canvas_text(c, row, 1, STYLE_BAD, "no %s: %s", what,
		peer->error[0] ? peer->error : "asking ...");
	if (peer->time)
		canvas_text(c, row + 1, 1, STYLE_DIM,
			"Showing the last values received; they are out of date.");
	return row + (peer->time ? 3 : 2);
}

struct view_columns
view_columns(const struct canvas *c, int from)
{
	int width = c->cols - 1 - from > 76 ? 76 : c->cols - 1 - from;

	return (struct view_columns){from + width - 37, from + width - 22, from + width};
}

void
view_columns_head(struct canvas *c, int row, const char *title, struct view_columns at)
{
	canvas_text(c, row, 1, STYLE_HEAD, "%s", title);
	canvas_right(c, row, at.instant, STYLE_HEAD, "INSTANT");
	canvas_right(c, row, at.rate, STYLE_HEAD, "PER-SECOND");
	canvas_right(c, row, at.total, STYLE_HEAD, "CUMULATIVE");
}

void
view_columns_row(struct canvas *c, int row, const char *label, struct view_columns at,
	const struct series *s, const struct series_names *n, const char *const *names,
	enum console_style style)
{
	uint64_t instant = 0, total = 0;
	double rate = 0;

	for (; *names; names++) {
		instant += series_instant(s, n, *names);
		rate += series_rate(s, n, *names);
		total += series_now(s, n, *names);
	}
	if (!total)
		style = STYLE_PLAIN;
	canvas_text(c, row, 1, style, "%s", label);
	if (!s->count) {
		canvas_right(c, row, at.total, STYLE_DIM, "-");
		return;
	}
	canvas_right(c, row, at.instant, style, "%llu", (unsigned long long)instant);
	canvas_right(c, row, at.rate, style, "%.0f", rate);
	canvas_right(c, row, at.total, style, "%llu", (unsigned long long)total);
}

int
view_scroll(struct ui *ui, int at, int count, int room)
{
	room = room < 1 ? 1 : room;
	ui->page = room;
	if (at >= 0 && at < ui->top)
		ui->top = at;
	if (at >= ui->top + room)
		ui->top = at - room + 1;
	if (ui->top > count - room)
		ui->top = count - room;
	if (ui->top < 0)
		ui->top = 0;
	return ui->top;
}

/* ---- the lines that are always there ---- */

static void
top_line(struct canvas *c, const struct model *m, const struct ui *ui)
{
	const struct model_peer *d = &m->dispatcher, *p = &m->mergers[0];
	char speed[FORMAT_TEXT];
	uint64_t good = series_now(&d->series, &d->names, "goodness_permille");
	int col;

	canvas_style_row(c, 0, STYLE_BAR);
	col = canvas_text(c, 0, 0, STYLE_BAR, " packrack %s | %s", PACKRACK_VERSION,
		d->answers   ? d->state
		: p->answers ? "no dispatcher"
			     : "nobody answers");
	if (d->answers) {
		format_bits(speed,
			(double)series_now(&d->series, &d->names, "input_bytes_per_s"));
		col = canvas_text(c, 0, col, STYLE_BAR, " | input ~ %s", speed);
		canvas_text(c, 0, col, STYLE_BAR, " | goodness %u.%u%%",
			(unsigned)(good / 10), (unsigned)(good % 10));
	}
	canvas_text(c, 0, c->cols - 4, STYLE_BAR, ">%c<", "-\\|/"[ui->spin % 4]);
}

static void
tab_line(struct canvas *c, const struct ui *ui)
{
	int col = 0;

	/* brackets stand where blanks would: 80 columns hold them all */
	for (int i = 0; i < SCREENS; i++) {
		bool on = (int)ui->screen == i, behind = i > 0 && (int)ui->screen == i - 1;
		int from = col;

		col = canvas_text(c, 1, col, on || behind ? STYLE_CHOSEN : STYLE_PLAIN,
			"%c",
			on       ? '['
			: behind ? ']'
				 : ' ');
		col = canvas_text(c, 1, col, on ? STYLE_CHOSEN : STYLE_PLAIN, "%d %s",
			i + 1, tabs[i]);
		canvas_zone(c, 1, from, col, '1' + i);
	}
	if (ui->screen == SCREENS - 1)
		canvas_text(c, 1, col, STYLE_CHOSEN, "]");
}

struct hint {
	const char *label, *text;
	int key;
};

static const struct hint node_hints[] = {{"i", "identify", 'i'}, {"d", "disconnect", 'd'},
	{"r", "reconnect", 'r'}, {"R", "reset", 'R'}, {"Enter", "detail", KEY_IS_ENTER},
	{0}};
static const struct hint detail_hints[] = {{"i", "identify", 'i'}, {"d", "disconnect", 'd'},
	{"r", "reconnect", 'r'}, {"R", "reset", 'R'}, {"Esc", "list", KEY_IS_ESC}, {0}};
static const struct hint link_hints[] = {
	{"Up", "link", KEY_IS_UP}, {"Down", "link", KEY_IS_DOWN}, {0}};
static const struct hint control_hints[] = {{"s", "start", 's'}, {"S", "stop", 'S'},
	{"o", "round-robin", 'o'}, {"w", "weighted", 'w'}, {"f", "flow", 'f'}, {0}};
static const struct hint log_hints[] = {{"l", "next log", 'l'},
	{"PgUp", "back", KEY_IS_PAGE_UP}, {"PgDn", "on", KEY_IS_PAGE_DOWN},
	{"End", "newest", KEY_IS_END}, {0}};
static const struct hint query_hints[] = {{"c", "cancel", 'c'}, {0}};
static const struct hint data_hints[] = {
	{"e", "export", 'e'}, {"v", "move", 'v'}, {"x", "delete", 'x'}, {0}};
static const struct hint help_hints[] = {{"Esc", "back", KEY_IS_ESC}, {0}};
static const struct hint common_hints[] = {{"?", "help", '?'}, {"q", "quit", 'q'}, {0}};

static const struct hint *
hints_of(const struct ui *ui)
{
	static const struct hint none[] = {{0}};
	static const struct hint *const screens[SCREENS] = {none, link_hints, node_hints,
		control_hints, log_hints, query_hints, node_hints, data_hints};

	if (ui->help)
		return help_hints;
	if (ui->screen == SCREEN_CLIENTS && ui->detail)
		return detail_hints;
	return screens[ui->screen];
}

static int
hint_line(struct canvas *c, int col, const struct hint *h)
{
	for (; h->label; h++) {
		int from = col;

		col = canvas_text(c, c->rows - 1, col, STYLE_CHOSEN, "%s", h->label);
		col = canvas_text(c, c->rows - 1, col, STYLE_BAR, " %s  ", h->text);
		canvas_zone(c, c->rows - 1, from, col - 2, h->key);
	}
	return col;
}

static void
bottom_lines(struct canvas *c, const struct ui *ui)
{
	char question[256];

	if (ui->pending.verb)
		canvas_text(c, c->rows - 2, 1, STYLE_WARN, "%s",
			ui_question(ui, question, sizeof(question)));
	else
		canvas_text(c, c->rows - 2, 1, ui->message_bad ? STYLE_BAD : STYLE_GOOD,
			"%s%s", ui->message_bad ? "! " : "", ui->message);
	canvas_style_row(c, c->rows - 1, STYLE_BAR);
	hint_line(
		c, hint_line(c, 1, hints_of(ui)), ui->help ? help_hints + 1 : common_hints);
}

void
view_draw(
	struct canvas *c, const struct model *m, struct ui *ui, const struct view_log *log)
{
	static void (*const screens[SCREENS])(struct canvas *, const struct model *,
		struct ui *) = {view_metrics, view_packets, view_clients, view_control,
		NULL, view_queries, view_rack, view_data};

	if (ui->help)
		view_help(c, ui);
	else if (ui->screen == SCREEN_LOGFILE)
		view_logfile(c, m, ui, log);
	else
		screens[ui->screen](c, m, ui);
	/* last, so that a screen which is too long cannot cover them */
	for (int row = 0; row < c->rows; row++)
		for (int col = 0; col < c->cols; col++)
			if (row < VIEW_TOP || row >= VIEW_END(c))
				canvas_put(c, row, col, STYLE_PLAIN, ' ');
	tab_line(c, ui);
	top_line(c, m, ui);
	bottom_lines(c, ui);
}
