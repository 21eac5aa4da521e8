/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "merger/cli/console/format.h"
#include "merger/cli/console/view_internal.h"

/* CONTROL, LOGFILE, QUERIES and the help. */

static int
field(struct canvas *c, int row, const char *label, enum console_style style,
	const char *value)
{
	canvas_text(c, row, 1, STYLE_PLAIN, "%-20s", label);
	canvas_text(c, row, 22, style, "%s", value);
	return row + 1;
}

void
view_control(struct canvas *c, const struct model *m, struct ui *ui)
{
	static const char *const modes[] = {"round-robin", "weighted", "flow"};
	const struct model_peer *d = &m->dispatcher;
	uint64_t mode = series_now(&d->series, &d->names, "spread_mode");
	char text[64];
	int row = VIEW_TOP;

	(void)ui;
	if (!d->answers)
		row = view_missing(c, row, "dispatcher", d);
	canvas_text(c, row++, 1, STYLE_HEAD, "Capture");
	row = field(c, row,
		"State:", strcmp(d->state, "capturing") ? STYLE_WARN : STYLE_GOOD,
		d->state[0] ? d->state : "-");
	snprintf(text, sizeof(text), "%016" PRIx64, d->epoch);
	row = field(c, row, "Epoch:", STYLE_PLAIN, text);
	row = field(c, row, "Dispatcher:", STYLE_PLAIN, d->endpoint);
	snprintf(text, sizeof(text), "%zu known", m->node_count);
	row = field(c, row, "Nodes:", STYLE_PLAIN, text);
	row++;
	canvas_text(c, row++, 1, STYLE_PLAIN, "s  start: capture, and send to the nodes");
	canvas_text(c, row++, 1, STYLE_PLAIN,
		"S  stop: returns when all nodes have stored what they have");
	row++;
	canvas_text(c, row++, 1, STYLE_HEAD, "Spread over nodes");
	if (!series_has(&d->series, &d->names, "spread_mode")) {
		canvas_text(c, row, 1, STYLE_DIM, "This dispatcher does not say.");
		return;
	}
	row = field(c, row, "Mode:", STYLE_PLAIN, mode < 3 ? modes[mode] : "?");
	row++;
	canvas_text(c, row++, 1, STYLE_PLAIN,
		"o  round-robin: each packet to the node that has waited longest");
	canvas_text(c, row++, 1, STYLE_PLAIN,
		"w  weighted: by announced write speed and free space");
	canvas_text(c, row++, 1, STYLE_PLAIN,
		"f  flow: all packets of a connection to one node");
}

/* ---- LOGFILE ---- */

static void
event_lines(struct canvas *c, int row, const struct model *m, struct ui *ui)
{
	int room = VIEW_END(c) - row, last = (int)m->event_count;
	char clock[FORMAT_TEXT];

	last = last > MODEL_EVENTS ? MODEL_EVENTS : last;
	ui->page = room;
	if (ui->scroll > last - room)
		ui->scroll = last > room ? last - room : 0;
	if (last > room)
		last = room;
	for (int i = 0; i < last; i++) {
		const struct model_event *e =
			model_event_at(m, (unsigned)(ui->scroll + last - 1 - i));

		if (e)
			canvas_text(c, row + i, 1, STYLE_PLAIN, "%s  %s",
				format_clock(clock, e->time), e->text);
	}
}

static enum console_style
log_style(const char *line, int len)
{
	if (memmem(line, (size_t)len, "error", 5))
		return STYLE_BAD;
	return memmem(line, (size_t)len, "warning", 7) ? STYLE_WARN : STYLE_PLAIN;
}

static void
log_lines(struct canvas *c, int row, const char *text, struct ui *ui)
{
	int room = VIEW_END(c) - row, lines = 0, skip;
	const char *end;

	for (const char *s = text; *s; s++)
		lines += *s == '\n';
	ui->page = room;
	if (ui->scroll > lines - room)
		ui->scroll = lines > room ? lines - room : 0;
	skip = lines - room - ui->scroll;
	for (; (end = strchr(text, '\n')) && row < VIEW_END(c); text = end + 1) {
		int len = (int)(end - text);

		if (skip-- > 0)
			continue;
		canvas_text(c, row++, 1, log_style(text, len), "%.*s", len, text);
	}
}

void
view_logfile(
	struct canvas *c, const struct model *m, struct ui *ui, const struct view_log *log)
{
	if (!ui->log || !log) {
		canvas_text(c, VIEW_TOP, 1, STYLE_HEAD, "What this console has seen%s",
			ui->logs ? " (l: the log files)" : "");
		event_lines(c, VIEW_TOP + 1, m, ui);
		return;
	}
	canvas_text(c, VIEW_TOP, 1, STYLE_HEAD, "%s, log %u of %u", log->name, ui->log,
		ui->logs);
	if (log->error)
		canvas_text(c, VIEW_TOP + 1, 1, STYLE_BAD, "%s", log->error);
	else
		log_lines(c, VIEW_TOP + 1, log->text, ui);
}

/* ---- QUERIES ---- */

static void
query_line(struct canvas *c, int row, const struct model *m, unsigned at, bool chosen)
{
	const struct model_query *q = &m->queries[at];
	double took = (double)(m->mergers[0].time - q->started) / 1e9;
	char bytes[FORMAT_TEXT], count[FORMAT_TEXT];

	canvas_text(c, row, 0, chosen ? STYLE_CHOSEN : STYLE_PLAIN, "%c%6" PRIu64 " %-9.9s",
		chosen ? '>' : ' ', q->number, q->user[0] ? q->user : "-");
	canvas_right(c, row, 25, took > 60 ? STYLE_WARN : STYLE_PLAIN, "%.1f s",
		took > 0 ? took : 0);
	canvas_right(c, row, 33, STYLE_PLAIN, "%u/%u", q->nodes - q->nodes_left, q->nodes);
	canvas_right(
		c, row, 43, STYLE_PLAIN, "%s", format_count(count, (double)q->matched));
	canvas_right(c, row, 54, STYLE_PLAIN, "%s", format_bytes(bytes, (double)q->bytes));
	canvas_text(c, row, 56, STYLE_PLAIN, "%s", q->text[0] ? q->text : "(all packets)");
	canvas_zone(c, row, 0, c->cols, KEY_IS_ROW + (int)at);
}

void
view_queries(struct canvas *c, const struct model *m, struct ui *ui)
{
	const struct model_peer *p = &m->mergers[0];
	int row = VIEW_TOP, at = ui_query(ui, m), count = (int)m->query_count, first, room;

	if (!p->answers)
		row = view_missing(c, row, "merger", p);
	canvas_text(c, row++, 1, STYLE_PLAIN,
		"%" PRIu64 " running, %" PRIu64 " asked in all, %" PRIu64
		" refused, %" PRIu64 " packets merged",
		series_now(&p->series, &p->names, "running_query_count"),
		series_now(&p->series, &p->names, "queries_total"),
		series_now(&p->series, &p->names, "queries_refused"),
		series_now(&p->series, &p->names, "merged_packets"));
	canvas_text(c, ++row, 1, STYLE_HEAD, "%6s %-9s %7s %7s %9s %10s  %s", "number",
		"user", "runs", "nodes", "matched", "got", "filter");
	row++;
	room = VIEW_END(c) - row;
	if (!count)
		canvas_text(c, row, 1, STYLE_DIM, "None is running.");
	first = view_scroll(ui, at, count, room);
	for (int i = first; i < count && i < first + room; i++)
		query_line(c, row++, m, (unsigned)i, i == at);
}

/* ---- help ---- */

static const char *const help[] = {
	"1 to 8, Tab      screens; the mouse presses all that is a key or a row",
	"Up, Down, PgUp   move in a list, or in a log; Home and End go to its ends",
	"Enter, Esc       CLIENTS, RACK: a node's details, and back to the list",
	"i d r R          identify, disconnect, reconnect or reset the node at >",
	"s S o w f        CONTROL: start, stop the capture; mode of spreading",
	"c                QUERIES: cancel the one at >",
	"e v x            DATA: export, move or delete packets of the node at >",
	"l                LOGFILE: next log (--log FILE), or what the console saw",
	"q                quit; the rack goes on",
	"",
	"INSTANT is what came since the last refresh, PER-SECOND the mean over the",
	"last ten, CUMULATIVE all since the program began: what packrack status says.",
	"Goodness is the part of all packets on the links that was sent to a node.",
	"The line of a sparkline's height is its own highest value in the minute.",
	"A reset deletes a node's packets, so its name has to be typed.",
	"States: active, silent (not heard for 2 s), suspended (cannot write),",
	"disconnected, quit, gone; unindexed: it stores, but answers no queries.",
};

void
view_help(struct canvas *c, struct ui *ui)
{
	int count = (int)(sizeof(help) / sizeof(help[0])),
	    room = VIEW_END(c) - VIEW_TOP - 1;

	if (ui->scroll > count - room)
		ui->scroll = count > room ? count - room : 0;
	canvas_text(c, VIEW_TOP, 1, STYLE_HEAD, "Help");
	for (int i = 0; i < room && i + ui->scroll < count; i++)
		canvas_text(
			c, VIEW_TOP + 1 + i, 1, STYLE_PLAIN, "%s", help[i + ui->scroll]);
}
