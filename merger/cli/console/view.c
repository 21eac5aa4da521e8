/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/console/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proto/base/clock.h"

/* Figures for people, in at most FORMAT_TEXT bytes; all return buf. */
#define FORMAT_TEXT 32

/* Rows that a screen may fill: from VIEW_TOP to VIEW_END(c). */
#define VIEW_TOP 2
#define VIEW_END(c) ((c)->rows - 2)

/* CLog's three columns: those at which they end. */
struct view_columns {
	int instant, rate, total;
};

static char *
scaled(char *buf, double n, double step, const char *const *units)
{
	int i = 0;

	while (n >= step * 0.9995 && units[i + 1]) {
		n /= step;
		i++;
	}
	snprintf(buf, FORMAT_TEXT, "%.*f %s", i ? 1 : 0, n, units[i]);
	return buf;
}

static char *
format_bytes(char *buf, double bytes)
{
	static const char *const units[] = {
		"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", NULL};

	return scaled(buf, bytes, 1024, units);
}

static char *
format_bits(char *buf, double bytes_per_s)
{
	static const char *const units[] = {
		"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", NULL};

	return scaled(buf, bytes_per_s * 8, 1000, units);
}

static char *
format_count(char *buf, double count)
{
	static const char *const units[] = {"k", "M", "G", "T", "P", "E", NULL};

	if (count >= 9999.5)
		return scaled(buf, count / 1000, 1000, units);
	snprintf(buf, FORMAT_TEXT, "%.0f", count);
	return buf;
}

/* 62:07 are hours and minutes, as CLog has them; below an hour "12 min", above four days "9 d". */
static char *
format_left(char *buf, double seconds)
{
	if (seconds < 0)
		snprintf(buf, FORMAT_TEXT, "-");
	else if (seconds < 3600)
		snprintf(buf, FORMAT_TEXT, "%.0f min", seconds / 60);
	else if (seconds < 4 * 86400)
		snprintf(buf, FORMAT_TEXT, "%d:%02d", (int)(seconds / 3600),
			(int)(seconds / 60) % 60);
	else if (seconds < 36500 * 86400.0)
		snprintf(buf, FORMAT_TEXT, "%.0f d", seconds / 86400);
	else
		snprintf(buf, FORMAT_TEXT, "> 100 years");
	return buf;
}

static char *
format_clock(char *buf, int64_t time)
{
	time_t seconds = (time_t)(time / PR_NS_PER_S);
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || !strftime(buf, FORMAT_TEXT, "%H:%M:%S", &tm))
		snprintf(buf, FORMAT_TEXT, "-");
	return buf;
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Says so if the program is missing. Returns the first row for its figures. */
static int
view_top(struct canvas *c, const char *what, const struct model_peer *peer)
{
	if (peer->answers)
		return VIEW_TOP;
	canvas_text(c, VIEW_TOP, 1, STYLE_BAD, "no %s: %s", what,
		peer->error[0] ? peer->error : "asking ...");
	if (!peer->status)
		return VIEW_TOP + 2;
	canvas_text(c, VIEW_TOP + 1, 1, STYLE_DIM,
		"Showing the last values received; they are out of date.");
	return VIEW_TOP + 3;
}

static struct view_columns
view_columns(const struct canvas *c, int from)
{
	int width = c->cols - 1 - from > 76 ? 76 : c->cols - 1 - from;

	return (struct view_columns){from + width - 37, from + width - 22, from + width};
}

static void
view_columns_head(struct canvas *c, int row, const char *title, struct view_columns at)
{
	canvas_text(c, row, 1, STYLE_HEAD, "%s", title);
	canvas_right(c, row, at.instant, STYLE_HEAD, "INSTANT");
	canvas_right(c, row, at.rate, STYLE_HEAD, "PER-SECOND");
	canvas_right(c, row, at.total, STYLE_HEAD, "CUMULATIVE");
}

#define ROW_NAMES 4

/* A line of three columns: the sum of these counters. */
struct row {
	const char *label;
	enum console_style style; /* when it is not 0 */
	const char *names[ROW_NAMES];
};

static const struct row captured = {"Captured frames", STYLE_PLAIN, {"captured_packets"}};
static const struct row by_kernel = {
	"> Dropped by kernel", STYLE_BAD, {"dropped_kernel", "dropped_interface"}};
static const struct row by_us = {"> Dropped by packrack", STYLE_BAD,
	{"dropped_ring", "dropped_no_node", "dropped_send"}};

static uint64_t
row_sum(const struct series *s, const struct row *r)
{
	uint64_t sum = 0;

	for (int i = 0; i < ROW_NAMES && r->names[i]; i++)
		sum += series_now(s, r->names[i]);
	return sum;
}

/* Without a series: the total only. Returns the next row. */
static int
row_draw(struct canvas *c, int row, const struct row *r, struct view_columns at,
	const struct series *s, uint64_t total)
{
	enum console_style style = total ? r->style : STYLE_PLAIN;
	uint64_t instant = 0;
	double rate = 0;

	canvas_text(c, row, 1, style, "%s", r->label);
	if (s && !s->count) {
		canvas_right(c, row, at.total, STYLE_DIM, "-");
		return row + 1;
	}
	canvas_right(c, row, at.total, style, "%" PRIu64, total);
	if (!s)
		return row + 1;
	for (int i = 0; i < ROW_NAMES && r->names[i]; i++) {
		instant += series_instant(s, r->names[i]);
		rate += series_rate(s, r->names[i]);
	}
	canvas_right(c, row, at.instant, style, "%" PRIu64, instant);
	canvas_right(c, row, at.rate, style, "%.0f", rate);
	return row + 1;
}

/* Up to a row without a label. */
static int
rows_draw(struct canvas *c, int row, const struct row *rows, struct view_columns at,
	const struct series *s)
{
	for (; rows->label; rows++)
		row = row_draw(c, row, rows, at, s, row_sum(s, rows));
	return row;
}

/* Keeps row `at` of count within what is shown of a list of `room` rows; returns the first. */
static int
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

typedef void list_line(
	struct canvas *c, int row, const struct model *m, int at, bool chosen);

/* The rows of a list from row to end that show its row `at`; each can be pressed. */
static void
view_list(struct canvas *c, int row, int end, const struct model *m, struct ui *ui, int at,
	int count, list_line *line)
{
	int first = view_scroll(ui, at, count, end - row);

	for (int i = first; i < count && row < end; i++, row++) {
		canvas_text(c, row, 0, i == at ? STYLE_CHOSEN : STYLE_PLAIN, "%c",
			i == at ? '>' : ' ');
		line(c, row, m, i, i == at);
		canvas_zone(c, row, 0, c->cols, KEY_IS_ROW + i);
	}
}

/* A figure that ends before column until. */
static void
figure(struct canvas *c, int row, int until, char *(*format)(char *, double), double value)
{
	char text[FORMAT_TEXT];

	canvas_right(c, row, until, STYLE_PLAIN, "%s", format(text, value));
}

static enum console_style
chosen_style(bool chosen)
{
	return chosen ? STYLE_CHOSEN : STYLE_PLAIN;
}

static void
series_line(struct canvas *c, int row, int col, int width, const struct series *s)
{
	canvas_spark(c, row, col, width, s->spark, s->spark_count);
}

/* No size: an older dispatcher, which does not say how large its buffer is. */
static void
buffer_line(struct canvas *c, int row, const struct model_peer *d)
{
	double used = (double)series_now(&d->series, "buffer_used_bytes");
	double size = (double)series_now(&d->series, "buffer_size_bytes");
	double part = size > 0 ? used / size : 0;
	int width = c->cols - 40 > 50 ? 50 : c->cols - 40;
	char a[FORMAT_TEXT], b[FORMAT_TEXT];
	int col = canvas_text(c, row, 1, STYLE_HEAD, "Buffer status ");

	if (size <= 0) {
		canvas_text(c, row, col, STYLE_PLAIN, "%s used", format_bytes(a, used));
		return;
	}
	col = canvas_bar(c, row, col, width, part,
		part > 0.9   ? STYLE_BAD
		: part > 0.5 ? STYLE_WARN
			     : STYLE_GOOD);
	canvas_text(c, row, col, STYLE_PLAIN, " %s of %s%s", format_bytes(a, used),
		format_bytes(b, size), used > 0 ? "" : ", empty");
}

static void
view_metrics(struct canvas *c, const struct model *m, struct ui *ui)
{
	const struct row frames[] = {captured,
		{"> Delivered", STYLE_GOOD, {"sent_packets"}},
		{"> Cut (shorter than captured)", STYLE_WARN, {"cut_packets"}}, by_kernel,
		by_us, {0}};
	static const struct row overhead[] = {
		{"> Commands sent", STYLE_PLAIN, {"control_frames"}},
		{"> Commands received", STYLE_PLAIN, {"control_received_frames"}},
		{"> Commands refused", STYLE_BAD, {"control_refused_frames"}},
		{"> Timestamp frames sent", STYLE_PLAIN, {"log_frames"}},
		{"> Timestamp bytes sent", STYLE_PLAIN, {"log_bytes"}},
		{"> Data bytes sent", STYLE_PLAIN, {"data_bytes"}}, {0}};
	/* nodes report totals only */
	static const struct row nodes[] = {
		{"> Dropped by nodes", STYLE_BAD, {"dropped_kernel"}},
		{"> Missing at nodes", STYLE_BAD, {"missing_packets"}}, {0}};
	const struct model_peer *d = &m->dispatcher;
	struct view_columns at = view_columns(c, 1);
	int row = view_top(c, "dispatcher", d);

	(void)ui;
	view_columns_head(c, row++, "Frames", at);
	row = rows_draw(c, row, frames, at, &d->series);
	for (const struct row *r = nodes; r->label; r++)
		row = row_draw(c, row, r, at, NULL, nodes_sum(m, r->names[0]));
	view_columns_head(c, ++row, "Overhead", at);
	row = rows_draw(c, row + 1, overhead, at, &d->series);
	buffer_line(c, row + 1, d);
	canvas_text(c, row + 3, 1, STYLE_HEAD, "Input, packets/s");
	series_line(c, row + 3, 18, SERIES_SPARK, &d->series);
}

/* ---- PACKETS ---- */

static void
link_line(struct canvas *c, int row, const struct model *m, int at, bool chosen)
{
	const struct model_link *l = &m->links[at];
	const struct series *s = &l->series;
	uint64_t packets = row_sum(s, &captured);
	uint64_t dropped = row_sum(s, &by_kernel) + row_sum(s, &by_us);
	double bytes = (double)series_now(s, "captured_bytes");

	canvas_text(c, row, 1, chosen_style(chosen), "%-14.14s %5u ", l->name, l->number);
	figure(c, row, 34, format_bits, series_rate(s, "captured_bytes"));
	figure(c, row, 44, format_count, series_rate(s, "captured_packets"));
	canvas_right(c, row, 57, STYLE_PLAIN, "%" PRIu64, packets);
	canvas_right(
		c, row, 63, STYLE_PLAIN, "%.0f", packets ? bytes / (double)packets : 0);
	canvas_right(c, row, 73, dropped ? STYLE_BAD : STYLE_PLAIN, "%" PRIu64, dropped);
	canvas_text(c, row, 74, STYLE_PLAIN, "%s", l->ended ? "ended" : "open");
	if (c->cols >= 150)
		series_line(c, row, 84, SERIES_SPARK, s);
}

static void
link_detail(struct canvas *c, int row, const struct model_link *l)
{
	const struct row rows[] = {captured,
		{"Captured bytes", STYLE_PLAIN, {"captured_bytes"}},
		{"> Sent frames", STYLE_GOOD, {"sent_packets"}},
		{"> Sent bytes", STYLE_PLAIN, {"sent_bytes"}},
		{"> Cut", STYLE_WARN, {"cut_packets"}},
		{"> Escaped", STYLE_PLAIN, {"escaped_packets"}},
		{"> Runts", STYLE_PLAIN, {"runt_packets"}},
		{"> Dropped: kernel", STYLE_BAD, {"dropped_kernel"}},
		{"> Dropped: interface", STYLE_BAD, {"dropped_interface"}},
		{"> Dropped: buffer full", STYLE_BAD, {"dropped_ring"}},
		{"> Dropped: no node", STYLE_BAD, {"dropped_no_node"}},
		{"> Dropped: sending failed", STYLE_BAD, {"dropped_send"}}, {0}};
	struct view_columns at = view_columns(c, 1);
	char title[MODEL_NAME + 16] = "Link ";

	strcat(title, l->name);
	view_columns_head(c, row++, title, at);
	row = rows_draw(c, row, rows, at, &l->series);
	canvas_text(c, row, 1, STYLE_PLAIN, "Last number given (seq)");
	canvas_right(c, row, at.total, STYLE_PLAIN, "%" PRIu64, l->last_seq);
}

static void
view_packets(struct canvas *c, const struct model *m, struct ui *ui)
{
	int row = view_top(c, "dispatcher", &m->dispatcher), room,
	    count = (int)m->link_count;

	canvas_text(c, row++, 1, STYLE_HEAD, "%-14s %5s %13s %9s %12s %5s %9s %s", "link",
		"no.", "speed", "packets/s", "packets", "mean", "dropped", "state");
	if (!count) {
		canvas_text(c, row, 1, STYLE_DIM, "No link is known.");
		return;
	}
	if (ui->link >= m->link_count)
		ui->link = m->link_count - 1;
	room = VIEW_END(c) - row - 15;
	room = room < 1 ? 1 : room > count ? count : room;
	view_list(c, row, row + room, m, ui, (int)ui->link, count, link_line);
	link_detail(c, row + room + 1, &m->links[ui->link]);
}

#define CELL_MAX 64
#define ENDPOINT_COLUMNS 31 /* the local merger's own: ipc:///run/packrack/merger.sock */
#define ENDPOINT_COLUMNS_WIDE 60

static int
merger_lines(struct canvas *c, int row, const struct model *m)
{
	char clock[FORMAT_TEXT];

	for (unsigned i = 0; i < m->merger_count; i++) {
		const struct model_peer *p = &m->mergers[i];
		uint64_t queries = series_now(&p->series, "running_query_count");
		int wide = c->cols >= 150 ? ENDPOINT_COLUMNS_WIDE : ENDPOINT_COLUMNS;
		int col = canvas_text(
			c, row, 1, STYLE_PLAIN, "merger %-*.*s ", wide, wide, p->endpoint);

		if (p->answers)
			canvas_text(c, row, col, STYLE_GOOD,
				"running, %zu node%s, %" PRIu64 " quer%s at work",
				p->status->n_nodes, p->status->n_nodes == 1 ? "" : "s",
				queries, queries == 1 ? "y" : "ies");
		else
			canvas_text(c, row, col, STYLE_BAD, "%s%s%s",
				p->error[0] ? p->error : "asking ...",
				p->status ? ", last at " : "",
				p->status ? format_clock(clock, p->status->time) : "");
		row++;
	}
	return row;
}

static int
link_lines(struct canvas *c, int row, const struct model *m)
{
	int most = (c->rows - 10) / 3;
	char speed[FORMAT_TEXT];

	if (most < 1)
		most = 1;
	for (unsigned i = 0; i < m->link_count; i++) {
		const struct model_link *l = &m->links[i];

		if (i + 1 == (unsigned)most && m->link_count > (unsigned)most) {
			canvas_text(c, row, 1, STYLE_DIM, "and %u more: see PACKETS",
				m->link_count - i);
			return row + 1;
		}
		canvas_text(c, row, 1, STYLE_PLAIN, "link %-14.14s %12s %-6s", l->name,
			format_bits(speed, series_rate(&l->series, "captured_bytes")),
			l->ended ? "ended" : "");
		series_line(c, row, 42, c->cols - 43 > 60 ? 60 : c->cols - 43, &l->series);
		row++;
	}
	return row;
}

/* The largest width at which all cells fit, if there is one. */
static int
cell_width(int cols, int rows, int count)
{
	static const int widths[] = {CELL_MAX, 48, 38, 31, 25, 19};
	unsigned i = 0;

	while (i + 1 < sizeof(widths) / sizeof(widths[0]) &&
		(widths[i] > cols || cols / widths[i] * rows < count))
		i++;
	return widths[i] < cols ? widths[i] : cols;
}

/* name, a mark (a letter where something is wrong), what it stores, its disk. */
static void
cell(struct canvas *c, int row, int col, int width, const struct model *m, int at,
	bool chosen)
{
	const struct model_node *n = m->nodes[at];
	char rate[FORMAT_TEXT];
	bool bad;
	const char *state = node_state(m, n, &bad);
	double total = (double)series_now(&n->dispatcher_values, "volume_size_bytes");
	double free = (double)series_now(&n->dispatcher_values, "volume_free_bytes");
	double full = total > 0 ? 1 - free / total : 0;
	int name = width >= 31 ? 12 : 8, end = col + width - 1, spark = width - name - 19;

	canvas_zone(c, row, col, end, KEY_IS_ROW + at);
	canvas_text(c, row, col, chosen ? STYLE_CHOSEN : STYLE_PLAIN, "%c%-*.*s",
		chosen ? '>' : ' ', name, name, n->name);
	if (bad) {
		canvas_text(c, row, col + name + 2, STYLE_BAD, "%-.*s", width - name - 3,
			state);
		return;
	}
	format_count(rate, n->sent ? series_rate(&n->dispatcher_values, "stored_packets")
				   : series_rate(&n->merger_values, "packets"));
	canvas_right(c, row, col + name + 9, STYLE_GOOD, "%s/s", rate);
	if (spark > 0)
		series_line(c, row, col + name + 10, spark, &n->dispatcher_values);
	if (width >= 25)
		canvas_right(c, row, end, full > 0.98 ? STYLE_WARN : STYLE_PLAIN, "%.0f%%",
			full * 100);
}

static void
node_cells(struct canvas *c, int row, const struct model *m, struct ui *ui)
{
	int count = (int)m->node_count, rows = VIEW_END(c) - row;
	int width = cell_width(c->cols, rows > 0 ? rows : 1, count);
	int across = c->cols / width, at = ui_node(ui, m);
	int lines = (count + across - 1) / across, first;

	/* down the columns while all are seen, else along the rows */
	if (rows < 1)
		return;
	first = view_scroll(ui, at / across, lines, rows);
	for (int i = 0; i < count; i++) {
		int line = lines > rows ? i / across - first : i % rows;
		int column = lines > rows ? i % across : i / rows;

		if (line >= 0 && line < rows)
			cell(c, row + line, column * width, width, m, i, i == at);
	}
}

static void
view_rack(struct canvas *c, const struct model *m, struct ui *ui)
{
	int row = view_top(c, "dispatcher", &m->dispatcher), good = 0;

	row = merger_lines(c, row, m);
	row = link_lines(c, row, m);
	for (size_t i = 0; i < m->node_count; i++) {
		bool bad;

		node_state(m, m->nodes[i], &bad);
		good += !bad;
	}
	canvas_text(c, row, 1, STYLE_HEAD,
		"%zu node%s, %d healthy (columns: packets/s stored, last minute, disk use)",
		m->node_count, m->node_count == 1 ? "" : "s", good);
	node_cells(c, row + 1, m, ui);
}

static void
node_line(struct canvas *c, int row, const struct model *m, int at, bool chosen)
{
	const struct model_node *n = m->nodes[at];
	const struct series *s = &n->dispatcher_values;
	/* where both tell of the same, the dispatcher counts */
	uint64_t missing = series_now(n->sent ? s : &n->merger_values, "missing_packets");
	bool bad;
	const char *state = node_state(m, n, &bad);

	canvas_text(c, row, 1, chosen_style(chosen), "%-15.15s", n->name);
	canvas_text(c, row, 17, bad ? STYLE_BAD : STYLE_GOOD, "%-12.12s", state);
	if (n->sent)
		figure(c, row, 40, format_bytes,
			(double)series_now(s, "volume_free_bytes"));
	else
		canvas_right(c, row, 40, STYLE_PLAIN, "-");
	figure(c, row, 49, format_left, node_full_in(n));
	canvas_right(c, row, 63, STYLE_PLAIN, "%" PRIu64,
		n->sent ? series_now(s, "sent_frames")
			: series_now(&n->merger_values, "packets"));
	canvas_right(c, row, 71, missing ? STYLE_BAD : STYLE_PLAIN, "%" PRIu64, missing);
	if (c->cols < 150) {
		series_line(c, row, 72, 7, s);
		return;
	}
	canvas_text(c, row, 73, STYLE_PLAIN, "%-18s", n->mac);
	canvas_bar(c, row, 92, 22, (double)series_now(s, "buffer_fill_percent") / 100,
		STYLE_GOOD);
	series_line(c, row, 116, SERIES_SPARK, s);
}

static void
list_nodes(struct canvas *c, int row, const struct model *m, struct ui *ui)
{
	int count = (int)m->node_count, end = VIEW_END(c) - 1;

	canvas_text(c, row, 1, STYLE_HEAD, "%-15s %-12s %10s %8s %13s %7s", "node", "state",
		"free", "full in", "frames", "missing");
	if (c->cols >= 150)
		canvas_text(c, row, 73, STYLE_HEAD, "%-18s %-23s %s", "MAC", "buffer",
			"packets stored per second, last minute");
	else
		canvas_text(c, row, 72, STYLE_HEAD, "stored");
	row++;
	if (!count)
		canvas_text(c, row, 1, STYLE_DIM, "No node is known.");
	view_list(c, row, end, m, ui, ui_node(ui, m), count, node_line);
	canvas_text(c, end, 1, STYLE_DIM, "%d node%s%s", count, count == 1 ? "" : "s",
		count > end - row ? ", more above or below" : "");
}

/* ---- detail ---- */

static void
bytes_line(struct canvas *c, int row, const char *label, uint64_t bytes)
{
	char text[FORMAT_TEXT];

	canvas_text(c, row, 1, STYLE_PLAIN, "%-18s %s (%" PRIu64 ")", label,
		format_bytes(text, (double)bytes), bytes);
}

static int
detail_head(struct canvas *c, int row, const struct model *m, const struct model_node *n)
{
	const struct series *s = &n->dispatcher_values;
	char left[FORMAT_TEXT], heard[FORMAT_TEXT];
	bool bad;
	const char *state = node_state(m, n, &bad);

	canvas_text(c, row++, 1, STYLE_HEAD, "Detail of node %u: %s",
		n->sent ? n->sent->number : 0, n->name);
	canvas_text(c, row++, 1, STYLE_PLAIN, "%-18s %s",
		"MAC address:", n->mac[0] ? n->mac : "-");
	bytes_line(c, row++, "Free space:", series_now(s, "volume_free_bytes"));
	bytes_line(c, row++, "Total space:", series_now(s, "volume_size_bytes"));
	canvas_text(c, row++, 1, STYLE_PLAIN, "%-18s %s",
		"Time until full:", format_left(left, node_full_in(n)));
	canvas_text(c, row, 1, STYLE_PLAIN, "%-18s", "State:");
	canvas_text(c, row++, 20, bad ? STYLE_BAD : STYLE_GOOD, "%s", state);
	if (n->sent) {
		double ago =
			(double)(m->dispatcher.status->time - n->sent->last_seen) / 1e9;

		canvas_text(c, row, 1, STYLE_PLAIN, "%-18s %.1f s ago, at %s",
			"Heard:", ago > 0 ? ago : 0,
			format_clock(heard, n->sent->last_seen));
	}
	return row + 1;
}

static const struct row left_rows[] = {{"Data frames sent", STYLE_PLAIN, {"sent_frames"}},
	{"Bytes sent", STYLE_PLAIN, {"sent_bytes"}},
	{"Timestamp logs sent", STYLE_PLAIN, {"sent_tslogs"}},
	{"Timestamp logs received", STYLE_PLAIN, {"received_tslogs"}},
	{"Controls received", STYLE_PLAIN, {"received_controls"}},
	{"Controls sent", STYLE_PLAIN, {"sent_controls"}},
	{"Frames received", STYLE_PLAIN, {"received_frames"}},
	{"Packets stored", STYLE_PLAIN, {"stored_packets"}},
	{"Packets durable", STYLE_PLAIN, {"durable_packets"}},
	{"Bytes stored", STYLE_PLAIN, {"stored_bytes"}}, {0}};
static const struct row right_rows[] = {{"Missing", STYLE_BAD, {"missing_packets"}},
	{"Dropped by its kernel", STYLE_BAD, {"dropped_kernel"}},
	{"Strays", STYLE_BAD, {"stray_frames"}},
	{"Duplicates", STYLE_PLAIN, {"duplicate_frames"}},
	{"Pending", STYLE_PLAIN, {"pending_frames"}},
	{"Logs asked again", STYLE_PLAIN, {"requested_tslogs"}},
	{"Logs gone", STYLE_BAD, {"gone_tslogs"}}, {0}};
static const struct row indexer_rows[] = {{"Packets indexed", STYLE_PLAIN, {"packets"}},
	{"Queries", STYLE_PLAIN, {"queries_total"}},
	{"Queries running", STYLE_PLAIN, {"running_query_count"}}, {0}};

/* Those that were reported. */
static int
detail_rows(struct canvas *c, int row, int col, const struct series *s, const struct row *r)
{
	for (; r->label; r++) {
		uint64_t number = row_sum(s, r);

		if (!series_has(s, r->names[0]))
			continue;
		canvas_text(c, row, col, STYLE_PLAIN, "%s:", r->label);
		canvas_right(c, row++, col + 38, number ? r->style : STYLE_PLAIN,
			"%" PRIu64, number);
	}
	return row;
}

static void
node_detail(struct canvas *c, int row, const struct model *m, struct ui *ui)
{
	int at = ui_node(ui, m), col;
	const struct model_node *n;
	double fill;

	if (at < 0) {
		canvas_text(c, row, 1, STYLE_BAD, "Node %s is known no more.", ui->node);
		return;
	}
	n = m->nodes[at];
	fill = (double)series_now(&n->dispatcher_values, "buffer_fill_percent") / 100;
	row = detail_head(c, row, m, n);
	col = canvas_text(c, row, 1, STYLE_PLAIN, "%-18s ", "Buffer:");
	canvas_bar(c, row, col, 32, fill, fill > 0.5 ? STYLE_WARN : STYLE_GOOD);
	canvas_text(c, row, col + 33, STYLE_PLAIN, "%.0f %%", fill * 100);
	canvas_text(c, row + 1, 1, STYLE_PLAIN, "%-18s", "Stored per second:");
	series_line(
		c, row + 1, 20, c->cols > 90 ? SERIES_SPARK : 58, &n->dispatcher_values);
	detail_rows(c, row + 2, 1, &n->dispatcher_values, left_rows);
	row = detail_rows(c, row + 2, 41, &n->dispatcher_values, right_rows);
	detail_rows(c, row, 41, &n->merger_values, indexer_rows);
}

static void
view_clients(struct canvas *c, const struct model *m, struct ui *ui)
{
	int row = view_top(c, "dispatcher", &m->dispatcher);

	if (ui->detail)
		node_detail(c, row, m, ui);
	else
		list_nodes(c, row, m, ui);
}

/* CONTROL, LOGFILE, QUERIES and the help. */

static int
field(struct canvas *c, int row, const char *label, enum console_style style,
	const char *value)
{
	canvas_text(c, row, 1, STYLE_PLAIN, "%-20s", label);
	canvas_text(c, row, 22, style, "%s", value);
	return row + 1;
}

static const char *const start_keys[] = {"s  start: capture, and send to the nodes",
	"S  stop: returns when all nodes have stored what they have", NULL};
static const char *const spread_keys[] = {
	"o  round-robin: each packet to the node that has waited longest",
	"w  weighted: by announced write speed and free space",
	"f  flow: all packets of a connection to one node", NULL};

static int
text_lines(struct canvas *c, int row, const char *const *lines)
{
	for (; *lines; lines++)
		canvas_text(c, row++, 1, STYLE_PLAIN, "%s", *lines);
	return row;
}

static void
view_control(struct canvas *c, const struct model *m, struct ui *ui)
{
	static const char *const modes[] = {"round-robin", "weighted", "flow"};
	const struct model_peer *d = &m->dispatcher;
	uint64_t mode = series_now(&d->series, "spread_mode");
	const char *state = d->status && d->status->state[0] ? d->status->state : "-";
	char text[64];
	int row = view_top(c, "dispatcher", d);

	(void)ui;
	canvas_text(c, row++, 1, STYLE_HEAD, "Capture");
	row = field(c, row, "State:", strcmp(state, "capturing") ? STYLE_WARN : STYLE_GOOD,
		state);
	snprintf(text, sizeof(text), "%016" PRIx64, d->status ? d->status->epoch : 0);
	row = field(c, row, "Epoch:", STYLE_PLAIN, text);
	row = field(c, row, "Dispatcher:", STYLE_PLAIN, d->endpoint);
	snprintf(text, sizeof(text), "%zu known", m->node_count);
	row = field(c, row, "Nodes:", STYLE_PLAIN, text);
	row++;
	row = text_lines(c, row, start_keys);
	row++;
	canvas_text(c, row++, 1, STYLE_HEAD, "Spread over nodes");
	if (!series_has(&d->series, "spread_mode")) {
		canvas_text(c, row, 1, STYLE_DIM, "This dispatcher does not say.");
		return;
	}
	row = field(c, row, "Mode:", STYLE_PLAIN, mode < 3 ? modes[mode] : "?");
	row++;
	text_lines(c, row, spread_keys);
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

static void
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
query_line(struct canvas *c, int row, const struct model *m, int at, bool chosen)
{
	const Packrack__RunningQuery *q = m->queries[at];
	double took = (double)(m->mergers[0].status->time - q->started) / 1e9;

	canvas_text(c, row, 1, chosen_style(chosen), "%6" PRIu64 " %-9.9s", q->number,
		q->user[0] ? q->user : "-");
	canvas_right(c, row, 25, took > 60 ? STYLE_WARN : STYLE_PLAIN, "%.1f s",
		took > 0 ? took : 0);
	canvas_right(c, row, 33, STYLE_PLAIN, "%u/%u", q->nodes - q->nodes_left, q->nodes);
	figure(c, row, 43, format_count, (double)q->matched);
	figure(c, row, 54, format_bytes, (double)q->bytes);
	canvas_text(c, row, 56, STYLE_PLAIN, "%s", q->text[0] ? q->text : "(all packets)");
}

static void
view_queries(struct canvas *c, const struct model *m, struct ui *ui)
{
	const struct model_peer *p = &m->mergers[0];
	int row = view_top(c, "merger", p), count = (int)m->query_count;

	canvas_text(c, row++, 1, STYLE_PLAIN,
		"%" PRIu64 " running, %" PRIu64 " asked in all, %" PRIu64
		" refused, %" PRIu64 " packets merged",
		series_now(&p->series, "running_query_count"),
		series_now(&p->series, "queries_total"),
		series_now(&p->series, "queries_refused"),
		series_now(&p->series, "merged_packets"));
	canvas_text(c, ++row, 1, STYLE_HEAD, "%6s %-9s %7s %7s %9s %10s  %s", "number",
		"user", "runs", "nodes", "matched", "got", "filter");
	row++;
	if (!count)
		canvas_text(c, row, 1, STYLE_DIM, "None is running.");
	view_list(c, row, VIEW_END(c), m, ui, ui_query(ui, m), count, query_line);
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

static void
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

#define WIDE 90 /* columns that hold all of it */

/* DATA: what each node holds, stream by stream. */

static void
store_line(struct canvas *c, int row, const struct model *m, int at, bool chosen)
{
	const Packrack__NodeStatus *node = m->stores[at].node;
	const Packrack__StreamHeld *s = m->stores[at].held;
	const Packrack__Deleted *d = s->n_deleted ? s->deleted[s->n_deleted - 1] : NULL;
	char from[PR_TIME_TEXT], to[PR_TIME_TEXT];
	int skip = c->cols < WIDE ? 5 : 0; /* the year */

	canvas_text(c, row, 1, chosen_style(chosen), "%-12.12s %-10.10s", node->name,
		s->link_name[0] ? s->link_name : s->name);
	figure(c, row, 33, format_count, (double)s->packets);
	figure(c, row, 43, format_bytes, (double)s->bytes);
	if (s->packets)
		canvas_text(c, row, 45, node->connected ? STYLE_PLAIN : STYLE_DIM,
			c->cols < WIDE ? "%.14s  %.14s" : "%.19s  %.19s",
			pr_time_format(s->first_time, from, sizeof(from)) + skip,
			pr_time_format(s->last_time, to, sizeof(to)) + skip);
	else
		canvas_text(c, row, 45, STYLE_DIM, "nothing");
	if (d)
		canvas_text(c, row, 87, STYLE_DIM, "%s to %s %s%s by %s",
			d->since ? pr_time_format(d->since, from, sizeof(from)) : "up",
			pr_time_format(d->until, to, sizeof(to)),
			d->moved_to[0] ? "moved to " : "deleted", d->moved_to, d->by);
}

static void
view_data(struct canvas *c, const struct model *m, struct ui *ui)
{
	int row = view_top(c, "merger", &m->mergers[0]), count = (int)m->store_count;

	canvas_text(c, row, 1, STYLE_HEAD, "%-12s %-10s %8s %9s  %-*s  %s", "node", "link",
		"packets", "bytes", c->cols < WIDE ? 14 : 19, "oldest (UTC)",
		"newest (UTC)");
	canvas_text(c, row, 87, STYLE_HEAD, "%s", "last deleted");
	row++;
	if (!count)
		canvas_text(c, row, 1, STYLE_DIM, "No node has told of packets.");
	if (ui->store >= m->store_count)
		ui->store = count ? m->store_count - 1 : 0;
	view_list(
		c, row, VIEW_END(c), m, ui, count ? (int)ui->store : -1, count, store_line);
}

static const char *const tabs[SCREENS] = {
	"METRICS", "PACKETS", "CLIENTS", "CONTROL", "LOGFILE", "QUERIES", "RACK", "DATA"};

/* ---- the lines that are always there ---- */

static void
top_line(struct canvas *c, const struct model *m, const struct ui *ui)
{
	const struct model_peer *d = &m->dispatcher, *p = &m->mergers[0];
	char speed[FORMAT_TEXT];
	uint64_t good = series_now(&d->series, "goodness_permille");
	int col;

	canvas_style_row(c, 0, STYLE_BAR);
	col = canvas_text(c, 0, 0, STYLE_BAR, " packrack %s | %s", PACKRACK_VERSION,
		d->answers   ? d->status->state
		: p->answers ? "no dispatcher"
			     : "nobody answers");
	if (d->answers) {
		format_bits(speed, (double)series_now(&d->series, "input_bytes_per_s"));
		col = canvas_text(c, 0, col, STYLE_BAR, " | input ~ %s", speed);
		canvas_text(c, 0, col, STYLE_BAR, " | goodness %u.%u%%",
			(unsigned)(good / 10), (unsigned)(good % 10));
	}
	canvas_text(c, 0, c->cols - 4, STYLE_BAR, ">%c<", "-\\|/"[ui->frame_count % 4]);
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
