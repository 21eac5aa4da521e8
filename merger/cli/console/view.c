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

/* CLog's three columns; from is the column of the name. */
struct view_columns {
	int instant, rate, total; /* columns at which they end */
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

/* A missing program, in place of its figures. Returns the next row. */
static int
view_missing(struct canvas *c, int row, const char *what, const struct model_peer *peer)
{
	canvas_text(c, row, 1, STYLE_BAD, "no %s: %s", what,
		peer->error[0] ? peer->error : "asking ...");
	if (peer->time)
		canvas_text(c, row + 1, 1, STYLE_DIM,
			"Showing the last values received; they are out of date.");
	return row + (peer->time ? 3 : 2);
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

/* The sum of the counters named, NULL-terminated. */
static void
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

/* A line of three columns. */
struct row {
	const char *label;
	const char *const *names;
	enum console_style style; /* when it is not 0 */
};

static const char *const captured[] = {"captured_packets", NULL};
static const char *const delivered[] = {"sent_packets", NULL};
static const char *const by_kernel[] = {"dropped_kernel", "dropped_interface", NULL};
static const char *const by_us[] = {
	"dropped_ring", "dropped_no_node", "dropped_send", NULL};
static const char *const cut[] = {"cut_packets", NULL};

static int
rows_draw(struct canvas *c, int row, const struct row *rows, struct view_columns at,
	const struct series *s, const struct series_names *n)
{
	for (; rows->label; rows++)
		view_columns_row(c, row++, rows->label, at, s, n, rows->names, rows->style);
	return row;
}

/* Nodes report totals only. */
static void
node_row(struct canvas *c, int row, const char *label, struct view_columns at, uint64_t sum)
{
	enum console_style style = sum ? STYLE_BAD : STYLE_PLAIN;

	canvas_text(c, row, 1, style, "%s", label);
	canvas_right(c, row, at.total, style, "%llu", (unsigned long long)sum);
}

/* No size: an older dispatcher, which does not say how large its buffer is. */
static void
buffer_line(struct canvas *c, int row, const struct model_peer *d)
{
	double used = (double)series_now(&d->series, &d->names, "buffer_used_bytes");
	double size = (double)series_now(&d->series, &d->names, "buffer_size_bytes");
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
	static const struct row frames[] = {{"Captured frames", captured, STYLE_PLAIN},
		{"> Delivered", delivered, STYLE_GOOD},
		{"> Cut (shorter than captured)", cut, STYLE_WARN},
		{"> Dropped by kernel", by_kernel, STYLE_BAD},
		{"> Dropped by packrack", by_us, STYLE_BAD}, {0}};
	static const char *const sent[] = {"control_frames", NULL};
	static const char *const received[] = {"control_received_frames", NULL};
	static const char *const refused[] = {"control_refused_frames", NULL};
	static const char *const logs[] = {"log_frames", NULL};
	static const char *const log_bytes[] = {"log_bytes", NULL};
	static const char *const data_bytes[] = {"data_bytes", NULL};
	static const struct row overhead[] = {{"> Commands sent", sent, STYLE_PLAIN},
		{"> Commands received", received, STYLE_PLAIN},
		{"> Commands refused", refused, STYLE_BAD},
		{"> Timestamp frames sent", logs, STYLE_PLAIN},
		{"> Timestamp bytes sent", log_bytes, STYLE_PLAIN},
		{"> Data bytes sent", data_bytes, STYLE_PLAIN}, {0}};
	const struct model_peer *d = &m->dispatcher;
	struct view_columns at = view_columns(c, 1);
	int row = VIEW_TOP;

	(void)ui;
	if (!d->answers)
		row = view_missing(c, row, "dispatcher", d);
	view_columns_head(c, row++, "Frames", at);
	row = rows_draw(c, row, frames, at, &d->series, &d->names);
	node_row(c, row++, "> Dropped by nodes", at, nodes_sum(m, "dropped_kernel", true));
	node_row(c, row++, "> Missing at nodes", at, nodes_sum(m, "missing_packets", true));
	view_columns_head(c, ++row, "Overhead", at);
	row = rows_draw(c, row + 1, overhead, at, &d->series, &d->names);
	buffer_line(c, row + 1, d);
	row += 3;
	canvas_text(c, row, 1, STYLE_HEAD, "Input, packets/s");
	canvas_spark(c, row, 18, SERIES_SPARK, d->series.spark, d->series.spark_count);
}

/* ---- PACKETS ---- */

static uint64_t
link_sum(const struct model *m, const struct model_link *l, const char *const *names)
{
	uint64_t sum = 0;

	for (; *names; names++)
		sum += series_now(&l->series, &m->link_names, *names);
	return sum;
}

static void
link_line(struct canvas *c, int row, const struct model *m, const struct model_link *l,
	bool chosen)
{
	uint64_t packets = link_sum(m, l, captured);
	uint64_t dropped = link_sum(m, l, by_kernel) + link_sum(m, l, by_us);
	uint64_t bytes = link_sum(m, l, NAMES("captured_bytes"));
	char speed[FORMAT_TEXT], rate[FORMAT_TEXT];

	format_bits(speed, series_rate(&l->series, &m->link_names, "captured_bytes"));
	format_count(rate, series_rate(&l->series, &m->link_names, "captured_packets"));
	canvas_text(c, row, 0, chosen ? STYLE_CHOSEN : STYLE_PLAIN, "%c%-14.14s %5u ",
		chosen ? '>' : ' ', l->name, l->number);
	canvas_right(c, row, 34, STYLE_PLAIN, "%s", speed);
	canvas_right(c, row, 44, STYLE_PLAIN, "%s", rate);
	canvas_right(c, row, 57, STYLE_PLAIN, "%llu", (unsigned long long)packets);
	canvas_right(c, row, 63, STYLE_PLAIN, "%.0f",
		packets ? (double)bytes / (double)packets : 0);
	canvas_right(c, row, 73, dropped ? STYLE_BAD : STYLE_PLAIN, "%llu",
		(unsigned long long)dropped);
	canvas_text(c, row, 74, STYLE_PLAIN, "%s", l->ended ? "ended" : "open");
	if (c->cols >= 150)
		canvas_spark(
			c, row, 84, SERIES_SPARK, l->series.spark, l->series.spark_count);
	canvas_zone(c, row, 0, 74, KEY_IS_ROW + (int)(l - m->links));
}

static void
link_detail(struct canvas *c, int row, const struct model *m, const struct model_link *l)
{
	static const struct {
		const char *label, *name;
		enum console_style style;
	} rows[] = {{"Captured frames", "captured_packets", STYLE_PLAIN},
		{"Captured bytes", "captured_bytes", STYLE_PLAIN},
		{"> Sent frames", "sent_packets", STYLE_GOOD},
		{"> Sent bytes", "sent_bytes", STYLE_PLAIN},
		{"> Cut", "cut_packets", STYLE_WARN},
		{"> Escaped", "escaped_packets", STYLE_PLAIN},
		{"> Runts", "runt_packets", STYLE_PLAIN},
		{"> Dropped: kernel", "dropped_kernel", STYLE_BAD},
		{"> Dropped: interface", "dropped_interface", STYLE_BAD},
		{"> Dropped: buffer full", "dropped_ring", STYLE_BAD},
		{"> Dropped: no node", "dropped_no_node", STYLE_BAD},
		{"> Dropped: sending failed", "dropped_send", STYLE_BAD}};
	struct view_columns at = view_columns(c, 1);
	char title[MODEL_NAME + 16] = "Link ";

	strcat(title, l->name);
	view_columns_head(c, row++, title, at);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		view_columns_row(c, row++, rows[i].label, at, &l->series, &m->link_names,
			NAMES(rows[i].name), rows[i].style);
	canvas_text(c, row, 1, STYLE_PLAIN, "Last number given (seq)");
	canvas_right(
		c, row, at.total, STYLE_PLAIN, "%llu", (unsigned long long)l->last_seq);
}

static void
view_packets(struct canvas *c, const struct model *m, struct ui *ui)
{
	int row = VIEW_TOP, room, first, count = (int)m->link_count;

	if (!m->dispatcher.answers)
		row = view_missing(c, row, "dispatcher", &m->dispatcher);
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
	first = view_scroll(ui, (int)ui->link, count, room);
	for (int i = first; i < count && i < first + room; i++)
		link_line(c, row++, m, &m->links[i], i == (int)ui->link);
	link_detail(c, row + 1, m, &m->links[ui->link]);
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
		uint64_t queries = series_now(&p->series, &p->names, "running_query_count");
		int wide = c->cols >= 150 ? ENDPOINT_COLUMNS_WIDE : ENDPOINT_COLUMNS;
		int col = canvas_text(
			c, row, 1, STYLE_PLAIN, "merger %-*.*s ", wide, wide, p->endpoint);

		if (p->answers)
			canvas_text(c, row, col, STYLE_GOOD,
				"running, %u node%s, %" PRIu64 " quer%s at work", p->nodes,
				p->nodes == 1 ? "" : "s", queries,
				queries == 1 ? "y" : "ies");
		else
			canvas_text(c, row, col, STYLE_BAD, "%s%s%s",
				p->error[0] ? p->error : "asking ...",
				p->time ? ", last at " : "",
				p->time ? format_clock(clock, p->time) : "");
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
			format_bits(speed,
				series_rate(&l->series, &m->link_names, "captured_bytes")),
			l->ended ? "ended" : "");
		canvas_spark(c, row, 42, c->cols - 43 > 60 ? 60 : c->cols - 43,
			l->series.spark, l->series.spark_count);
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
	double total = (double)node_dispatcher_value(m, n, "volume_size_bytes");
	double full =
		total > 0 ? 1 - (double)node_dispatcher_value(m, n, "volume_free_bytes") /
					    total
			  : 0;
	int name = width >= 31 ? 12 : 8, end = col + width - 1, spark = width - name - 19;

	canvas_zone(c, row, col, end, KEY_IS_ROW + at);
	canvas_text(c, row, col, chosen ? STYLE_CHOSEN : STYLE_PLAIN, "%c%-*.*s",
		chosen ? '>' : ' ', name, name, n->name);
	if (bad) {
		canvas_text(c, row, col + name + 2, STYLE_BAD, "%-.*s", width - name - 3,
			state);
		return;
	}
	format_count(rate,
		n->known_to_dispatcher
			? series_rate(&n->dispatcher_values, &m->dispatcher_names,
				  "stored_packets")
			: series_rate(&n->merger_values, &m->merger_names, "packets"));
	canvas_right(c, row, col + name + 9, STYLE_GOOD, "%s/s", rate);
	if (spark > 0)
		canvas_spark(c, row, col + name + 10, spark, n->dispatcher_values.spark,
			n->dispatcher_values.spark_count);
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
	int row = VIEW_TOP, good = 0;

	if (!m->dispatcher.answers)
		row = view_missing(c, row, "dispatcher", &m->dispatcher);
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
list_line(struct canvas *c, int row, const struct model *m, const struct model_node *n,
	bool chosen, int at)
{
	char space[FORMAT_TEXT], left[FORMAT_TEXT];
	uint64_t missing = node_dispatcher_value(m, n, "missing_packets") +
			   node_merger_value(m, n, "missing_packets");
	bool bad;
	const char *state = node_state(m, n, &bad);

	if (n->known_to_dispatcher && n->known_to_merger) /* both tell of the same */
		missing = node_dispatcher_value(m, n, "missing_packets");
	format_bytes(space, (double)node_dispatcher_value(m, n, "volume_free_bytes"));
	format_left(left, node_full_in(m, n));
	canvas_text(c, row, 0, chosen ? STYLE_CHOSEN : STYLE_PLAIN, "%c%-15.15s",
		chosen ? '>' : ' ', n->name);
	canvas_text(c, row, 17, bad ? STYLE_BAD : STYLE_GOOD, "%-12.12s", state);
	canvas_right(c, row, 40, STYLE_PLAIN, "%s", n->known_to_dispatcher ? space : "-");
	canvas_right(c, row, 49, STYLE_PLAIN, "%s", left);
	canvas_right(c, row, 63, STYLE_PLAIN, "%" PRIu64,
		n->known_to_dispatcher ? node_dispatcher_value(m, n, "sent_frames")
				       : node_merger_value(m, n, "packets"));
	canvas_right(c, row, 71, missing ? STYLE_BAD : STYLE_PLAIN, "%" PRIu64, missing);
	if (c->cols < 150) {
		canvas_spark(c, row, 72, 7, n->dispatcher_values.spark,
			n->dispatcher_values.spark_count);
	} else {
		canvas_text(c, row, 73, STYLE_PLAIN, "%-18s", n->mac);
		canvas_bar(c, row, 92, 22,
			(double)node_dispatcher_value(m, n, "buffer_fill_percent") / 100,
			STYLE_GOOD);
		canvas_spark(c, row, 116, SERIES_SPARK, n->dispatcher_values.spark,
			n->dispatcher_values.spark_count);
	}
	canvas_zone(c, row, 0, c->cols, KEY_IS_ROW + at);
}

static void
list_nodes(struct canvas *c, int row, const struct model *m, struct ui *ui)
{
	int at = ui_node(ui, m), count = (int)m->node_count, first;
	int room = VIEW_END(c) - row - 2;

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
	first = view_scroll(ui, at, count, room);
	for (int i = first; i < count && i < first + room; i++)
		list_line(c, row++, m, m->nodes[i], i == at, i);
	canvas_text(c, VIEW_END(c) - 1, 1, STYLE_DIM, "%d node%s%s", count,
		count == 1 ? "" : "s", count > room ? ", more above or below" : "");
}

/* ---- detail ---- */

static int
bytes_line(struct canvas *c, int row, const char *label, uint64_t bytes)
{
	char text[FORMAT_TEXT];

	canvas_text(c, row, 1, STYLE_PLAIN, "%-18s %s (%" PRIu64 ")", label,
		format_bytes(text, (double)bytes), bytes);
	return row + 1;
}

static int
detail_head(struct canvas *c, int row, const struct model *m, const struct model_node *n)
{
	char left[FORMAT_TEXT], heard[FORMAT_TEXT];
	bool bad;
	const char *state = node_state(m, n, &bad);
	double ago = (double)(m->dispatcher.time - n->heard) / 1e9;

	canvas_text(c, row++, 1, STYLE_HEAD, "Detail of node %u: %s", n->number, n->name);
	canvas_text(c, row++, 1, STYLE_PLAIN, "%-18s %s",
		"MAC address:", n->mac[0] ? n->mac : "-");
	row = bytes_line(
		c, row, "Free space:", node_dispatcher_value(m, n, "volume_free_bytes"));
	row = bytes_line(
		c, row, "Total space:", node_dispatcher_value(m, n, "volume_size_bytes"));
	canvas_text(c, row++, 1, STYLE_PLAIN, "%-18s %s",
		"Time until full:", format_left(left, node_full_in(m, n)));
	canvas_text(c, row, 1, STYLE_PLAIN, "%-18s", "State:");
	canvas_text(c, row++, 20, bad ? STYLE_BAD : STYLE_GOOD, "%s", state);
	if (n->known_to_dispatcher)
		canvas_text(c, row, 1, STYLE_PLAIN, "%-18s %.1f s ago, at %s",
			"Heard:", ago > 0 ? ago : 0, format_clock(heard, n->heard));
	return row + 1;
}

struct detail_row {
	const char *label, *name;
	bool in, trouble;
};

static const struct detail_row left_rows[] = {
	{"Data frames sent", "sent_frames", false, false},
	{"Bytes sent", "sent_bytes", false, false},
	{"Timestamp logs sent", "sent_tslogs", false, false},
	{"Timestamp logs received", "received_tslogs", false, false},
	{"Controls received", "received_controls", false, false},
	{"Controls sent", "sent_controls", false, false},
	{"Frames received", "received_frames", false, false},
	{"Packets stored", "stored_packets", false, false},
	{"Packets durable", "durable_packets", false, false},
	{"Bytes stored", "stored_bytes", false, false}, {0}};
static const struct detail_row right_rows[] = {{"Missing", "missing_packets", false, true},
	{"Dropped by its kernel", "dropped_kernel", false, true},
	{"Strays", "stray_frames", false, true},
	{"Duplicates", "duplicate_frames", false, false},
	{"Pending", "pending_frames", false, false},
	{"Logs asked again", "requested_tslogs", false, false},
	{"Logs gone", "gone_tslogs", false, true},
	{"Packets indexed", "packets", true, false},
	{"Queries", "queries_total", true, false},
	{"Queries running", "running_query_count", true, false}, {0}};

static void
detail_rows(struct canvas *c, int row, int col, const struct model *m,
	const struct model_node *n, const struct detail_row *r)
{
	for (; r->label; r++) {
		const struct series *s = r->in ? &n->merger_values : &n->dispatcher_values;
		const struct series_names *names =
			r->in ? &m->merger_names : &m->dispatcher_names;
		uint64_t number = r->in ? node_merger_value(m, n, r->name)
					: node_dispatcher_value(m, n, r->name);

		if (!series_has(s, names, r->name))
			continue;
		canvas_text(c, row, col, STYLE_PLAIN, "%s:", r->label);
		canvas_right(c, row++, col + 38,
			r->trouble && number ? STYLE_BAD : STYLE_PLAIN, "%" PRIu64, number);
	}
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
	fill = (double)node_dispatcher_value(m, n, "buffer_fill_percent") / 100;
	row = detail_head(c, row, m, n);
	col = canvas_text(c, row, 1, STYLE_PLAIN, "%-18s ", "Buffer:");
	canvas_bar(c, row, col, 32, fill, fill > 0.5 ? STYLE_WARN : STYLE_GOOD);
	canvas_text(c, row, col + 33, STYLE_PLAIN, "%.0f %%", fill * 100);
	canvas_text(c, row + 1, 1, STYLE_PLAIN, "%-18s", "Stored per second:");
	canvas_spark(c, row + 1, 20, c->cols > 90 ? SERIES_SPARK : 58,
		n->dispatcher_values.spark, n->dispatcher_values.spark_count);
	detail_rows(c, row + 2, 1, m, n, left_rows);
	detail_rows(c, row + 2, 41, m, n, right_rows);
}

static void
view_clients(struct canvas *c, const struct model *m, struct ui *ui)
{
	int row = VIEW_TOP;

	if (!m->dispatcher.answers)
		row = view_missing(c, row, "dispatcher", &m->dispatcher);
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

static void
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

static void
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
	"A reset deletes a node's packets, so its name has to be needs_name.",
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
store_line(struct canvas *c, int row, const struct model_store *s, int at, bool chosen)
{
	char count[FORMAT_TEXT], bytes[FORMAT_TEXT], from[PR_TIME_TEXT], to[PR_TIME_TEXT];
	int skip = c->cols < WIDE ? 5 : 0; /* the year */

	canvas_text(c, row, 0, chosen ? STYLE_CHOSEN : STYLE_PLAIN, "%c%-12.12s %-10.10s",
		chosen ? '>' : ' ', s->node, s->link[0] ? s->link : s->stream);
	canvas_right(
		c, row, 33, STYLE_PLAIN, "%s", format_count(count, (double)s->packets));
	canvas_right(c, row, 43, STYLE_PLAIN, "%s", format_bytes(bytes, (double)s->bytes));
	if (s->packets)
		canvas_text(c, row, 45, s->connected ? STYLE_PLAIN : STYLE_DIM,
			c->cols < WIDE ? "%.14s  %.14s" : "%.19s  %.19s",
			pr_time_format(s->oldest, from, sizeof(from)) + skip,
			pr_time_format(s->newest, to, sizeof(to)) + skip);
	else
		canvas_text(c, row, 45, STYLE_DIM, "nothing");
	if (s->deleted[0])
		canvas_text(c, row, 87, STYLE_DIM, "%s", s->deleted);
	canvas_zone(c, row, 0, c->cols, KEY_IS_ROW + at);
}

static void
view_data(struct canvas *c, const struct model *m, struct ui *ui)
{
	int row = VIEW_TOP, count = (int)m->store_count, first, room;

	if (!m->mergers[0].answers)
		row = view_missing(c, row, "merger", &m->mergers[0]);
	canvas_text(c, row, 1, STYLE_HEAD, "%-12s %-10s %8s %9s  %-*s  %s", "node", "link",
		"packets", "bytes", c->cols < WIDE ? 14 : 19, "oldest (UTC)",
		"newest (UTC)");
	canvas_text(c, row, 87, STYLE_HEAD, "%s", "last deleted");
	row++;
	room = VIEW_END(c) - row;
	if (!count)
		canvas_text(c, row, 1, STYLE_DIM, "No node has told of packets.");
	if (ui->store >= m->store_count)
		ui->store = count ? m->store_count - 1 : 0;
	first = view_scroll(ui, count ? (int)ui->store : -1, count, room);
	for (int i = first; i < count && i < first + room; i++)
		store_line(c, row++, &m->stores[i], i, i == (int)ui->store);
}

static const char *const tabs[SCREENS] = {
	"METRICS", "PACKETS", "CLIENTS", "CONTROL", "LOGFILE", "QUERIES", "RACK", "DATA"};

/* ---- what screens share ---- */

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
