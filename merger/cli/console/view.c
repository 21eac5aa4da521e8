/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/console/ui.h"

#include <inttypes.h>
#include <time.h>

#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"

/* Rows that a screen may fill: from VIEW_TOP to VIEW_END(c). */
#define VIEW_TOP 2
#define VIEW_END(c) ((c)->rows - 2)
#define WIDE 150 /* columns from which lists show more */

/* ---- figures for people ---- */

struct figure {
	char text[32];
};

/*
 * Values below `plain` are shown as integers without unit; larger ones in units, each
 * `step` times the one before.
 */
struct scale {
	double plain, step;
	const char *units[8];
};
static const struct scale in_bytes = {
	0, 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}};
static const struct scale in_bits = {
	0, 1000, {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"}};
static const struct scale in_counts = {9999.5, 1000, {"k", "M", "G", "T", "P", "E"}};

static struct figure
scaled(const struct scale *scale, double n)
{
	struct figure f;
	int i = 0;

	if (n < scale->plain) {
		PR_PRINT(f.text, "%.0f", n);
		return f;
	}
	if (scale->plain > 0)
		n /= scale->step;
	for (; n >= scale->step * 0.9995 && scale->units[i + 1]; i++)
		n /= scale->step;
	PR_PRINT(f.text, "%.*f %s", i ? 1 : 0, n, scale->units[i]);
	return f;
}

/* "62:07" (hours:minutes, as in CLog); "12 min" below an hour; "9 d" from four days on. */
static struct figure
time_left(double seconds)
{
	struct figure f = {"-"};

	if (seconds >= 36500 * 86400.0)
		PR_PRINT(f.text, "> 100 years");
	else if (seconds >= 4 * 86400)
		PR_PRINT(f.text, "%.0f d", seconds / 86400);
	else if (seconds >= 3600)
		PR_PRINT(
			f.text, "%d:%02d", (int)(seconds / 3600), (int)(seconds / 60) % 60);
	else if (seconds >= 0)
		PR_PRINT(f.text, "%.0f min", seconds / 60);
	return f;
}

static struct figure
clock_at(int64_t time)
{
	time_t seconds = (time_t)(time / PR_NS_PER_S);
	struct figure f;
	struct tm tm;

	if (!localtime_r(&seconds, &tm) ||
		!strftime(f.text, sizeof(f.text), "%H:%M:%S %Z", &tm))
		PR_PRINT(f.text, "-");
	return f;
}

/* ---- parts of screens ---- */

/* Says so if the program is missing, and goes to the first row for its figures. */
static void
view_top(struct canvas *c, const char *what, const struct model_peer *peer)
{
	c->row = VIEW_TOP;
	if (peer->answers)
		return;
	canvas_line(c, STYLE_BAD, "no %s: %s", what,
		peer->error[0] ? peer->error : "asking ...");
	if (peer->status)
		canvas_line(c, STYLE_DIM,
			"Showing the last values received; they are out of date.");
	c->row++;
}

/* [####....]: `width` columns including the brackets; part (0 to 1) of it is filled. */
static int
bar(struct canvas *c, int col, int width, double part, enum console_style style)
{
	int room = width - 2, filled;

	part = part > 0 ? part < 1 ? part : 1 : 0;
	filled = (int)(part * room + 0.5);
	if (part > 0 && !filled)
		filled = 1; /* a small value must be visible */
	col = canvas_put(c, col, STYLE_PLAIN, '[');
	for (int i = 0; i < room; i++)
		col = i < filled ? canvas_put(c, col, style, '#')
				 : canvas_put(c, col, STYLE_DIM, '.');
	return canvas_put(c, col, STYLE_PLAIN, ']');
}

/*
 * A sparkline of the last `width` values of the series. The highest one has the full height
 * of a row.
 */
static void
spark(struct canvas *c, int col, int width, const struct series *s)
{
	static const char levels[] = "_.:-=+*#%";
	int use = (int)s->spark_count < width ? (int)s->spark_count : width;
	const uint64_t *values = s->spark + s->spark_count - (use > 0 ? use : 0);
	uint64_t top = 1;

	for (int i = 0; i < use; i++)
		if (values[i] > top)
			top = values[i];
	col += width - use;
	for (int i = 0; i < use; i++) {
		unsigned level = (unsigned)(values[i] / (double)top * 8 + 0.5);

		if (values[i] && !level)
			level = 1;
		if (!level)
			col = canvas_put(c, col, STYLE_DIM, '_');
		else
			col = canvas_put(c, col, STYLE_GOOD,
				c->ascii ? (uint32_t)levels[level] : 0x2580 + level);
	}
}

/* Column at which the last of CLog's three columns ends; the other two end before it. */
static int
columns_end(const struct canvas *c)
{
	int end = c->left + 77;

	return c->cols - 1 > end ? end : c->cols - 1;
}
enum { RATE_END = 22, INSTANT_END = 37 };

static void
columns_head(struct canvas *c, const char *title, const char *name)
{
	int end = columns_end(c);

	canvas_text(c, c->left + 1, STYLE_HEAD, "%s%s", title, name);
	canvas_right(c, end - INSTANT_END, STYLE_HEAD, "INSTANT");
	canvas_right(c, end - RATE_END, STYLE_HEAD, "PER-SECOND");
	canvas_right(c, end, STYLE_HEAD, "CUMULATIVE");
	c->row++;
}

/* A line of three columns. */
struct row {
	const char *label, *names; /* of counters */
	enum console_style style; /* for a total that is not 0 */
};

#define BY_KERNEL "dropped_kernel+dropped_interface"
#define BY_US "dropped_ring+dropped_no_node+dropped_send"

/* Draws a row. s NULL: the total only. */
static void
row_draw(struct canvas *c, const struct row *r, const struct series *s, uint64_t total)
{
	enum console_style style = total ? r->style : STYLE_PLAIN;
	int end = columns_end(c);

	canvas_text(c, c->left + 1, style, "%s", r->label);
	if (!s || s->count)
		canvas_right(c, end, style, "%" PRIu64, total);
	else
		canvas_right(c, end, STYLE_DIM, "-");
	if (s && s->count) {
		canvas_right(c, end - INSTANT_END, style, "%" PRIu64,
			series_instant(s, r->names));
		canvas_right(c, end - RATE_END, style, "%.0f", series_rate(s, r->names));
	}
	c->row++;
}

/* Draws rows up to one without a label. */
static void
rows_draw(struct canvas *c, const struct row *rows, const struct series *s)
{
	for (; rows->label; rows++)
		row_draw(c, rows, s, series_now(s, rows->names));
}

/*
 * Scrolls a list of `count` rows so that row `at` is among the `room` rows shown. Returns
 * the first row shown.
 */
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

typedef void list_line(struct canvas *c, const struct model *m, int at);

/*
 * Draws the rows of the screen's list around its cursor, up to row `end`; a mouse click can
 * choose each. named: columns that are marked in the row at the cursor. empty: the text
 * shown if the list is empty.
 */
static void
view_list(struct canvas *c, const struct model *m, struct ui *ui, int end, int named,
	const char *empty, list_line *line)
{
	int count = ui_count(ui, m), at = ui_chosen(ui, m);
	int first = view_scroll(ui, at, count, end - c->row);

	if (!count)
		canvas_text(c, 1, STYLE_DIM, "%s", empty);
	for (int i = first; i < count && c->row < end; i++, c->row++) {
		line(c, m, i);
		if (i == at) {
			canvas_put(c, 0, STYLE_PLAIN, '>');
			canvas_style(c, 0, named, STYLE_CHOSEN);
		}
		canvas_zone(c, 0, c->cols, KEY_IS_ROW + i);
	}
}

/* How many lines the user has scrolled, limited to the lines that exist. */
static int
scrolled(struct ui *ui, int lines, int room)
{
	ui->page = room;
	if (ui->scroll > lines - room)
		ui->scroll = lines > room ? lines - room : 0;
	return ui->scroll;
}

/* A figure that ends before column until. */
static void
figure(struct canvas *c, int until, const struct scale *scale, double value)
{
	canvas_right(c, until, STYLE_PLAIN, "%s", scaled(scale, value).text);
}

/* ---- METRICS ---- */

static void
view_metrics(struct canvas *c, const struct model *m, PR_UNUSED struct ui *ui)
{
	static const struct row frames[] = {
		{"Captured frames", "captured_packets", STYLE_PLAIN},
		{"> Delivered", "sent_packets", STYLE_GOOD},
		{"> Cut (shorter than captured)", "cut_packets", STYLE_WARN},
		{"> Dropped by kernel", BY_KERNEL, STYLE_BAD},
		{"> Dropped by packrack", BY_US, STYLE_BAD}, {0}};
	static const struct row overhead[] = {
		{"> Commands sent", "control_frames", STYLE_PLAIN},
		{"> Commands received", "control_received_frames", STYLE_PLAIN},
		{"> Commands refused", "control_refused_frames", STYLE_BAD},
		{"> Timestamp frames sent", "log_frames", STYLE_PLAIN},
		{"> Timestamp bytes sent", "log_bytes", STYLE_PLAIN},
		{"> Data bytes sent", "data_bytes", STYLE_PLAIN}, {0}};
	/* nodes report totals only */
	static const struct row nodes[] = {
		{"> Dropped by nodes", "dropped_kernel", STYLE_BAD},
		{"> Missing at nodes", "missing_packets", STYLE_BAD}, {0}};
	const struct series *d = &m->dispatcher.series;
	double used = series_now(d, "buffer_used_bytes");
	double size = series_now(d, "buffer_size_bytes");
	double part = size > 0 ? used / size : 0;

	view_top(c, "dispatcher", &m->dispatcher);
	int top = c->row;
	columns_head(c, "Frames", "");
	rows_draw(c, frames, d);
	for (const struct row *r = nodes; r->label; r++)
		row_draw(c, r, NULL, nodes_sum(m, r->names));
	c->row++;
	if (c->cols >= WIDE) { /* beside it: the first is the longer one */
		int below = c->row;

		c->row = top;
		top = below;
		c->left = 80;
	}
	columns_head(c, "Overhead", "");
	rows_draw(c, overhead, d);
	c->row = c->left ? top : c->row + 1;
	c->left = 0;
	int col = canvas_text(c, 1, STYLE_HEAD, "Buffer status ");
	if (size <= 0) { /* an older dispatcher, which does not report it */
		canvas_text(c, col, STYLE_PLAIN, "%s used", scaled(&in_bytes, used).text);
	} else {
		col = bar(c, col, c->cols - 40, part,
			part > 0.9   ? STYLE_BAD
			: part > 0.5 ? STYLE_WARN
				     : STYLE_GOOD);
		canvas_text(c, col, STYLE_PLAIN, " %s of %s%s",
			scaled(&in_bytes, used).text, scaled(&in_bytes, size).text,
			used > 0 ? "" : ", empty");
	}
	c->row += 2;
	canvas_text(c, 1, STYLE_HEAD, "Input, packets/s");
	spark(c, 18, c->cols - 19, d);
}

/* ---- PACKETS ---- */

static void
link_line(struct canvas *c, const struct model *m, int at)
{
	const struct model_link *l = &m->links[at];
	const struct series *s = &l->series;
	uint64_t packets = series_now(s, "captured_packets");
	uint64_t dropped = series_now(s, BY_KERNEL "+" BY_US);
	double bytes = series_now(s, "captured_bytes");

	canvas_text(c, 1, STYLE_PLAIN, "%-14.14s %5u", l->name, l->number);
	figure(c, 34, &in_bits, 8 * series_rate(s, "captured_bytes"));
	figure(c, 44, &in_counts, series_rate(s, "captured_packets"));
	canvas_right(c, 57, STYLE_PLAIN, "%" PRIu64, packets);
	canvas_right(c, 63, STYLE_PLAIN, "%.0f", packets ? bytes / packets : 0);
	canvas_right(c, 73, dropped ? STYLE_BAD : STYLE_PLAIN, "%" PRIu64, dropped);
	canvas_text(c, 74, STYLE_PLAIN, "%s", l->ended ? "ended" : "open");
	if (c->cols >= WIDE)
		spark(c, 84, c->cols - 85, s);
}

static void
view_packets(struct canvas *c, const struct model *m, struct ui *ui)
{
	static const struct row rows[] = {
		{"Captured frames", "captured_packets", STYLE_PLAIN},
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
		{"> Dropped: sending failed", "dropped_send", STYLE_BAD}, {0}};
	int room, count = (int)m->link_count;

	view_top(c, "dispatcher", &m->dispatcher);
	canvas_line(c, STYLE_HEAD, "%-14s %5s %13s %9s %12s %5s %9s %s", "link", "no.",
		"speed", "packets/s", "packets", "mean", "dropped", "state");
	room = VIEW_END(c) - c->row - 15;
	room = room < 1 ? 1 : room > count ? count : room;
	view_list(c, m, ui, c->row + room, 22, "No link is known.", link_line);
	if (!count)
		return;
	const struct model_link *l = &m->links[ui_chosen(ui, m)];
	c->row++;
	columns_head(c, "Link ", l->name);
	rows_draw(c, rows, &l->series);
	canvas_text(c, 1, STYLE_PLAIN, "Last number given (seq)");
	canvas_right(c, columns_end(c), STYLE_PLAIN, "%" PRIu64, l->last_seq);
}

/* ---- RACK ---- */

#define CELL_MAX 64
#define ENDPOINT_COLUMNS 31 /* the local merger's own: ipc:///run/packrack/merger.sock */
#define ENDPOINT_COLUMNS_WIDE 60

static void
link_lines(struct canvas *c, const struct model *m)
{
	unsigned most = c->rows < 13 ? 1 : (unsigned)(c->rows - 10) / 3;

	for (unsigned i = 0; i < m->link_count; i++) {
		const struct model_link *l = &m->links[i];

		if (i + 1 == most && m->link_count > most) {
			canvas_line(c, STYLE_DIM, "and %u more: see PACKETS",
				m->link_count - i);
			return;
		}
		canvas_text(c, 1, STYLE_PLAIN, "link %-14.14s %12s %-6s", l->name,
			scaled(&in_bits, 8 * series_rate(&l->series, "captured_bytes"))
				.text,
			l->ended ? "ended" : "");
		spark(c, 42, c->cols - 43, &l->series);
		c->row++;
	}
}

/* A cell: name, a mark (a letter if something is wrong), stored rate, disk use. */
static void
cell(struct canvas *c, int col, int width, const struct model *m, int at, bool chosen)
{
	const struct model_node *n = m->nodes[at];
	const struct series *s = &n->dispatcher_values;
	bool bad;
	const char *state = node_state(m, n, &bad);
	double total = series_now(s, "volume_size_bytes");
	double free = series_now(s, "volume_free_bytes");
	double full = total > 0 ? 1 - free / total : 0;
	int name = width >= 31 ? 12 : 8, end = col + width - 1;

	canvas_zone(c, col, end, KEY_IS_ROW + at);
	canvas_text(c, col, chosen ? STYLE_CHOSEN : STYLE_PLAIN, "%c%-*.*s",
		chosen ? '>' : ' ', name, name, n->name);
	if (bad) {
		canvas_text(c, col + name + 2, STYLE_BAD, "%-.*s", width - name - 3, state);
		return;
	}
	canvas_right(c, col + name + 9, STYLE_GOOD, "%s/s",
		scaled(&in_counts, n->sent ? series_rate(s, "stored_packets")
					   : series_rate(&n->merger_values, "packets"))
			.text);
	if (width > name + 19)
		spark(c, col + name + 10, width - name - 19, s);
	if (width >= 25)
		canvas_right(c, end, full > 0.98 ? STYLE_WARN : STYLE_PLAIN, "%.0f%%",
			full * 100);
}

static void
node_cells(struct canvas *c, const struct model *m, struct ui *ui)
{
	static const int widths[] = {CELL_MAX, 48, 38, 31, 25, 19};
	int count = (int)m->node_count, top = c->row, rows = VIEW_END(c) - top;
	int at = ui_chosen(ui, m), width, across, lines, first;
	unsigned i = 0;

	if (rows < 1)
		return;
	/* the largest width at which all cells fit, if there is one */
	while (i + 1 < PR_COUNT(widths) &&
		(widths[i] > c->cols || c->cols / widths[i] * rows < count))
		i++;
	width = widths[i] < c->cols ? widths[i] : c->cols;
	across = c->cols / width;
	lines = (count + across - 1) / across;
	first = view_scroll(ui, at / across, lines, rows);
	/* fill column by column if all cells fit, otherwise row by row */
	for (int n = 0; n < count; n++) {
		int line = lines > rows ? n / across - first : n % lines;
		int column = lines > rows ? n % across : n / lines;

		c->row = top + line;
		if (line >= 0 && line < rows)
			cell(c, column * width, width, m, n, n == at);
	}
}

static void
view_rack(struct canvas *c, const struct model *m, struct ui *ui)
{
	int wide = c->cols >= WIDE ? ENDPOINT_COLUMNS_WIDE : ENDPOINT_COLUMNS, good = 0;
	bool bad;

	view_top(c, "dispatcher", &m->dispatcher);
	for (unsigned i = 0; i < m->merger_count; i++, c->row++) {
		const struct model_peer *p = &m->mergers[i];
		uint64_t queries = series_now(&p->series, "running_query_count");
		int col = canvas_text(
			c, 1, STYLE_PLAIN, "merger %-*.*s ", wide, wide, p->endpoint);

		if (p->answers)
			canvas_text(c, col, STYLE_GOOD,
				"running, %zu node%s, %" PRIu64 " quer%s at work",
				p->status->n_nodes, pr_plural(p->status->n_nodes), queries,
				queries == 1 ? "y" : "ies");
		else
			canvas_text(c, col, STYLE_BAD, "%s%s%s",
				p->error[0] ? p->error : "asking ...",
				p->status ? ", last at " : "",
				p->status ? clock_at(p->status->time).text : "");
	}
	link_lines(c, m);
	for (size_t i = 0; i < m->node_count; i++) {
		node_state(m, m->nodes[i], &bad);
		good += !bad;
	}
	canvas_line(c, STYLE_HEAD,
		"%zu node%s, %d healthy (columns: packets/s stored, their curve, disk use)",
		m->node_count, pr_plural(m->node_count), good);
	node_cells(c, m, ui);
}

/* ---- NODES ---- */

static void
node_line(struct canvas *c, const struct model *m, int at)
{
	const struct model_node *n = m->nodes[at];
	const struct series *s = &n->dispatcher_values;
	/* if both report a value, use the dispatcher's */
	uint64_t missing = series_now(n->sent ? s : &n->merger_values, "missing_packets");
	bool bad;
	const char *state = node_state(m, n, &bad);

	canvas_text(c, 1, STYLE_PLAIN, "%-15.15s", n->name);
	canvas_text(c, 17, bad ? STYLE_BAD : STYLE_GOOD, "%-12.12s", state);
	if (n->sent)
		figure(c, 40, &in_bytes, series_now(s, "volume_free_bytes"));
	else
		canvas_right(c, 40, STYLE_PLAIN, "-");
	canvas_right(c, 49, STYLE_PLAIN, "%s", time_left(node_full_in(n)).text);
	canvas_right(c, 63, STYLE_PLAIN, "%" PRIu64,
		n->sent ? series_now(s, "sent_frames")
			: series_now(&n->merger_values, "packets"));
	canvas_right(c, 71, missing ? STYLE_BAD : STYLE_PLAIN, "%" PRIu64, missing);
	if (c->cols < WIDE) {
		spark(c, 72, 7, s);
		return;
	}
	canvas_text(c, 73, STYLE_PLAIN, "%-18s", n->mac);
	bar(c, 92, 22, (double)series_now(s, "buffer_fill_percent") / 100, STYLE_GOOD);
	spark(c, 116, c->cols - 117, s);
}

static void
list_nodes(struct canvas *c, const struct model *m, struct ui *ui)
{
	int end = VIEW_END(c) - 1, room = end - c->row - 1;

	canvas_text(c, 1, STYLE_HEAD, "%-15s %-12s %10s %8s %13s %7s", "node", "state",
		"free", "full in", "frames", "missing");
	if (c->cols >= WIDE)
		canvas_text(c, 73, STYLE_HEAD, "%-18s %-23s %s", "MAC", "buffer",
			"packets stored per second");
	else
		canvas_text(c, 72, STYLE_HEAD, "stored");
	c->row++;
	view_list(c, m, ui, end, 16, "No node is known.", node_line);
	c->row = end;
	canvas_text(c, 1, STYLE_DIM, "%zu node%s%s", m->node_count,
		pr_plural(m->node_count),
		(int)m->node_count > room ? ", more above or below" : "");
}

/* ---- detail ---- */

static void
bytes_line(struct canvas *c, const char *label, uint64_t bytes)
{
	canvas_line(c, STYLE_PLAIN, "%-18s %s (%" PRIu64 ")", label,
		scaled(&in_bytes, bytes).text, bytes);
}

static void
detail_head(struct canvas *c, const struct model *m, const struct model_node *n)
{
	const struct series *s = &n->dispatcher_values;
	bool bad;
	const char *state = node_state(m, n, &bad);

	canvas_line(c, STYLE_HEAD, "Detail of node %u: %s", n->sent ? n->sent->number : 0,
		n->name);
	canvas_line(c, STYLE_PLAIN, "%-18s %s", "MAC address:", n->mac[0] ? n->mac : "-");
	bytes_line(c, "Free space:", series_now(s, "volume_free_bytes"));
	bytes_line(c, "Total space:", series_now(s, "volume_size_bytes"));
	canvas_line(c, STYLE_PLAIN, "%-18s %s",
		"Time until full:", time_left(node_full_in(n)).text);
	canvas_text(c, 20, bad ? STYLE_BAD : STYLE_GOOD, "%s", state);
	canvas_line(c, STYLE_PLAIN, "State:");
	if (n->sent) {
		double ago = (m->dispatcher.status->time - n->sent->last_seen) / 1e9;

		canvas_text(c, 1, STYLE_PLAIN, "%-18s %.1f s ago, at %s",
			"Heard:", ago > 0 ? ago : 0, clock_at(n->sent->last_seen).text);
	}
	c->row++;
}

static const struct row left_rows[] = {{"Data frames sent", "sent_frames", STYLE_PLAIN},
	{"Bytes sent", "sent_bytes", STYLE_PLAIN},
	{"Timestamp logs sent", "sent_tslogs", STYLE_PLAIN},
	{"Timestamp logs received", "received_tslogs", STYLE_PLAIN},
	{"Controls received", "received_controls", STYLE_PLAIN},
	{"Controls sent", "sent_controls", STYLE_PLAIN},
	{"Frames received", "received_frames", STYLE_PLAIN},
	{"Packets stored", "stored_packets", STYLE_PLAIN},
	{"Packets durable", "durable_packets", STYLE_PLAIN},
	{"Bytes stored", "stored_bytes", STYLE_PLAIN}, {0}};
static const struct row right_rows[] = {{"Missing", "missing_packets", STYLE_BAD},
	{"Dropped by its kernel", "dropped_kernel", STYLE_BAD},
	{"Strays", "stray_frames", STYLE_BAD},
	{"Duplicates", "duplicate_frames", STYLE_PLAIN},
	{"Pending", "pending_frames", STYLE_PLAIN},
	{"Logs asked again", "requested_tslogs", STYLE_PLAIN},
	{"Logs gone", "gone_tslogs", STYLE_BAD}, {0}};
static const struct row indexer_rows[] = {{"Packets indexed", "packets", STYLE_PLAIN},
	{"Queries", "queries_total", STYLE_PLAIN},
	{"Queries running", "running_query_count", STYLE_PLAIN}, {0}};

/* Draws the rows whose counters were reported. */
static void
detail_rows(struct canvas *c, int col, const struct series *s, const struct row *r)
{
	for (; r->label; r++) {
		uint64_t number = series_now(s, r->names);

		if (!series_has(s, r->names))
			continue;
		canvas_text(c, col, STYLE_PLAIN, "%s:", r->label);
		canvas_right(
			c, col + 38, number ? r->style : STYLE_PLAIN, "%" PRIu64, number);
		c->row++;
	}
}

static void
view_nodes(struct canvas *c, const struct model *m, struct ui *ui)
{
	int at = ui_chosen(ui, m), top;

	view_top(c, "dispatcher", &m->dispatcher);
	if (!ui->detail) {
		list_nodes(c, m, ui);
		return;
	}
	if (at < 0) {
		canvas_text(c, 1, STYLE_BAD, "Node %s is known no more.", ui->node);
		return;
	}
	const struct series *s = &m->nodes[at]->dispatcher_values;
	double fill = (double)series_now(s, "buffer_fill_percent") / 100;
	detail_head(c, m, m->nodes[at]);
	canvas_text(c, 1, STYLE_PLAIN, "%-18s ", "Buffer:");
	bar(c, 20, 32, fill, fill > 0.5 ? STYLE_WARN : STYLE_GOOD);
	canvas_text(c, 53, STYLE_PLAIN, "%.0f %%", fill * 100);
	c->row++;
	spark(c, 20, c->cols - 21, s);
	canvas_line(c, STYLE_PLAIN, "Stored per second:");
	top = c->row;
	detail_rows(c, 1, s, left_rows);
	c->row = top;
	detail_rows(c, 41, s, right_rows);
	detail_rows(c, 41, &m->nodes[at]->merger_values, indexer_rows);
}

/* ---- CONTROL ---- */

static void
view_control(struct canvas *c, const struct model *m, PR_UNUSED struct ui *ui)
{
	static const char *const modes[] = {"round-robin", "weighted", "flow"};
	const struct model_peer *d = &m->dispatcher;
	uint64_t mode = series_now(&d->series, "spread_mode");
	const char *state = d->status && d->status->state[0] ? d->status->state : "-";

	view_top(c, "dispatcher", d);
	canvas_line(c, STYLE_HEAD, "Capture");
	canvas_text(
		c, 22, strcmp(state, "capturing") ? STYLE_WARN : STYLE_GOOD, "%s", state);
	canvas_line(c, STYLE_PLAIN, "State:");
	canvas_line(c, STYLE_PLAIN, "%-20s %016" PRIx64,
		"Epoch:", d->status ? d->status->epoch : 0);
	canvas_line(c, STYLE_PLAIN, "%-20s %s", "Dispatcher:", d->endpoint);
	canvas_line(c, STYLE_PLAIN, "%-20s %zu known", "Nodes:", m->node_count);
	c->row++;
	canvas_line(c, STYLE_PLAIN, "s  start: capture, and send to the nodes");
	canvas_line(c, STYLE_PLAIN,
		"S  stop: returns when all nodes have stored what they have");
	c->row++;
	canvas_line(c, STYLE_HEAD, "Spread over nodes");
	if (!series_has(&d->series, "spread_mode")) {
		canvas_text(c, 1, STYLE_DIM, "This dispatcher does not say.");
		return;
	}
	canvas_line(c, STYLE_PLAIN, "%-20s %s", "Mode:", mode < 3 ? modes[mode] : "?");
	c->row++;
	canvas_line(c, STYLE_PLAIN,
		"o  round-robin: each packet to the node that has waited longest");
	canvas_line(c, STYLE_PLAIN, "w  weighted: by announced write speed and free space");
	canvas_line(c, STYLE_PLAIN, "f  flow: all packets of a connection to one node");
}

/* ---- LOGFILE ---- */

static void
log_lines(struct canvas *c, const char *text, struct ui *ui)
{
	int room = VIEW_END(c) - c->row, lines = 0, skip;
	const char *end;

	for (const char *s = text; *s; s++)
		lines += *s == '\n';
	skip = lines - room - scrolled(ui, lines, room);
	for (; (end = strchr(text, '\n')) && c->row < VIEW_END(c); text = end + 1) {
		size_t len = (size_t)(end - text);

		if (skip-- > 0)
			continue;
		canvas_line(c,
			memmem(text, len, "error", 5)     ? STYLE_BAD
			: memmem(text, len, "warning", 7) ? STYLE_WARN
							  : STYLE_PLAIN,
			"%.*s", (int)len, text);
	}
}

static void
view_logfile(
	struct canvas *c, const struct model *m, struct ui *ui, const struct logtail *log)
{
	int count = (int)(m->event_count < MODEL_EVENTS ? m->event_count : MODEL_EVENTS);
	int room = VIEW_END(c) - c->row - 1, skip;

	if (ui->log && log) {
		canvas_line(
			c, STYLE_HEAD, "%s, log %u of %u", log->path, ui->log, ui->logs);
		if (log->error[0])
			canvas_text(c, 1, STYLE_BAD, "%s", log->error);
		else
			log_lines(c, log->text, ui);
		return;
	}
	canvas_line(c, STYLE_HEAD, "What this console has seen%s",
		ui->logs ? " (l: the log files)" : "");
	skip = scrolled(ui, count, room);
	for (int i = (count > room ? room : count) - 1; i >= 0; i--) {
		unsigned place = m->event_count - 1 - (unsigned)(skip + i);
		const struct model_event *e = &m->events[place % MODEL_EVENTS];

		canvas_line(c, STYLE_PLAIN, "%s  %s", clock_at(e->time).text, e->text);
	}
}

/* ---- QUERIES ---- */

static void
query_line(struct canvas *c, const struct model *m, int at)
{
	const Packrack__RunningQuery *q = m->queries[at];
	double took = (m->mergers[0].status->time - q->started) / 1e9;

	canvas_text(c, 1, STYLE_PLAIN, "%6" PRIu64 " %-9.9s", q->number,
		q->user[0] ? q->user : "-");
	canvas_right(
		c, 25, took > 60 ? STYLE_WARN : STYLE_PLAIN, "%.1f s", took > 0 ? took : 0);
	canvas_right(c, 33, STYLE_PLAIN, "%u/%u", q->nodes - q->nodes_left, q->nodes);
	figure(c, 43, &in_counts, q->matched);
	figure(c, 54, &in_bytes, q->bytes);
	canvas_text(c, 56, STYLE_PLAIN, "%s", q->text[0] ? q->text : "(all packets)");
}

static void
view_queries(struct canvas *c, const struct model *m, struct ui *ui)
{
	const struct series *s = &m->mergers[0].series;

	view_top(c, "merger", &m->mergers[0]);
	canvas_line(c, STYLE_PLAIN,
		"%" PRIu64 " running, %" PRIu64 " asked in all, %" PRIu64
		" refused, %" PRIu64 " packets merged",
		series_now(s, "running_query_count"), series_now(s, "queries_total"),
		series_now(s, "queries_refused"), series_now(s, "merged_packets"));
	c->row++;
	canvas_line(c, STYLE_HEAD, "%6s %-9s %7s %7s %9s %10s  %s", "number", "user",
		"runs", "nodes", "matched", "got", "filter");
	view_list(c, m, ui, VIEW_END(c), 17, "None is running.", query_line);
}

/* ---- help ---- */

static const char *const help[] = {
	"1 to 8, Tab      screens; the mouse presses all that is a key or a row",
	"Up, Down, PgUp   move in a list, or in a log; Home and End go to its ends",
	"Enter, Esc       NODES, RACK: a node's details, and back to the list",
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
	"The line of a sparkline's height is its own highest value.",
	"A reset deletes a node's packets, so its name has to be typed.",
	"States: active, silent (not heard for 2 s), suspended (cannot write),",
	"disconnected, quit, gone; unindexed: it stores, but answers no queries.",
};

/* DATA: what each node holds, stream by stream. */

#define DATES 90 /* columns from which times are shown with their year */

static void
store_line(struct canvas *c, const struct model *m, int at)
{
	const Packrack__NodeStatus *node = m->stores[at].node;
	const Packrack__StreamHeld *s = m->stores[at].held;
	const Packrack__Deleted *d = s->n_deleted ? s->deleted[s->n_deleted - 1] : NULL;
	char from[PR_TIME_TEXT], to[PR_TIME_TEXT];
	int skip = c->cols < DATES ? 5 : 0, len = 19 - skip;

	canvas_text(c, 1, STYLE_PLAIN, "%-12.12s %-10.10s", node->name,
		s->link_name[0] ? s->link_name : s->name);
	figure(c, 33, &in_counts, s->packets);
	figure(c, 43, &in_bytes, s->bytes);
	if (s->packets)
		canvas_text(c, 45, node->connected ? STYLE_PLAIN : STYLE_DIM, "%.*s  %.*s",
			len, pr_time_format(s->first_time, from, sizeof(from)) + skip, len,
			pr_time_format(s->last_time, to, sizeof(to)) + skip);
	else
		canvas_text(c, 45, STYLE_DIM, "nothing");
	if (d)
		canvas_text(c, 87, STYLE_DIM, "%s to %s %s%s by %s",
			d->since ? pr_time_format(d->since, from, sizeof(from)) : "up",
			pr_time_format(d->until, to, sizeof(to)),
			d->moved_to[0] ? "moved to " : "deleted", d->moved_to, d->by);
}

static void
view_data(struct canvas *c, const struct model *m, struct ui *ui)
{
	view_top(c, "merger", &m->mergers[0]);
	canvas_text(c, 87, STYLE_HEAD, "last deleted");
	canvas_line(c, STYLE_HEAD, "%-12s %-10s %8s %9s  %-*s  %s", "node", "link",
		"packets", "bytes", c->cols < DATES ? 14 : 19, "oldest (UTC)",
		"newest (UTC)");
	view_list(c, m, ui, VIEW_END(c), 24, "No node has told of packets.", store_line);
}

static const char *const tabs[SCREENS] = {
	"METRICS", "PACKETS", "NODES", "CONTROL", "LOGFILE", "QUERIES", "RACK", "DATA"};

/* ---- the lines that are always there ---- */

static void
top_line(struct canvas *c, const struct model *m, const struct ui *ui)
{
	const struct model_peer *d = &m->dispatcher;
	uint64_t good = series_now(&d->series, "goodness_permille");

	c->row = 0;
	canvas_style(c, 0, c->cols, STYLE_BAR);
	int col = canvas_text(c, 0, STYLE_BAR, " packrack %s | %s", PACKRACK_VERSION,
		d->answers              ? d->status->state
		: m->mergers[0].answers ? "no dispatcher"
					: "nobody answers");
	if (d->answers)
		canvas_text(c, col, STYLE_BAR, " | input ~ %s | goodness %u.%u%%",
			scaled(&in_bits,
				8 * (double)series_now(&d->series, "input_bytes_per_s"))
				.text,
			(unsigned)(good / 10), (unsigned)(good % 10));
	canvas_text(c, c->cols - 4, STYLE_BAR, ">%c<", "-\\|/"[ui->frame_count % 4]);
}

static void
tab_line(struct canvas *c, const struct ui *ui)
{
	int col = 0, on = (int)ui->screen;

	/* brackets take the place of blanks, so that 80 columns hold all screens */
	c->row = 1;
	for (int i = 0; i < SCREENS; i++) {
		int from = col;

		col = canvas_put(c, col,
			i == on || i == on + 1 ? STYLE_CHOSEN : STYLE_PLAIN,
			i == on       ? '['
			: i == on + 1 ? ']'
				      : ' ');
		col = canvas_text(c, col, i == on ? STYLE_CHOSEN : STYLE_PLAIN, "%d %s",
			i + 1, tabs[i]);
		canvas_zone(c, from, col, '1' + i);
	}
	if (on == SCREENS - 1)
		canvas_put(c, col, STYLE_CHOSEN, ']');
}

/* Keys shown in the bottom line, besides those that send a command. */
static const struct hint {
	enum console_screen screen;
	int key;
	const char *label, *text;
} hints[] = {{SCREEN_PACKETS, KEY_IS_UP, "Up", "link"},
	{SCREEN_PACKETS, KEY_IS_DOWN, "Down", "link"},
	{SCREEN_LOGFILE, 'l', "l", "next log"},
	{SCREEN_LOGFILE, KEY_IS_PAGE_UP, "PgUp", "back"},
	{SCREEN_LOGFILE, KEY_IS_PAGE_DOWN, "PgDn", "on"},
	{SCREEN_LOGFILE, KEY_IS_END, "End", "newest"}};

static int
hint(struct canvas *c, int col, int key, const char *label, const char *text)
{
	int from = col;

	col = canvas_text(c, col, STYLE_CHOSEN, "%s", label);
	col = canvas_text(c, col, STYLE_BAR, " %s  ", text);
	canvas_zone(c, from, col - 2, key);
	return col;
}

/* The question that is shown before the pending command is sent. */
static void
question(struct canvas *c, const struct ui *ui)
{
	const struct console_order *o = &ui->pending;

	if (ui->needs_text && !strcmp(o->verb, "delete"))
		canvas_line(c, STYLE_WARN,
			"Delete packets on %s up to TIME, included (empty: ALL packets): "
			"%s_",
			o->node, ui->answer);
	else if (ui->needs_text)
		canvas_line(c, STYLE_WARN, "%s the packets of %s to which %s: %s_",
			strcmp(o->verb, "move") ? "Export" : "Move", o->node,
			strcmp(o->verb, "move") ? "file" : "node", ui->answer);
	else if (ui->needs_name && o->text[0])
		canvas_line(c, STYLE_WARN,
			"Permanently deletes packets on %s up to %s. Type the node name: "
			"%s_",
			o->node, o->text, ui->answer);
	else if (ui->needs_name)
		canvas_line(c, STYLE_WARN,
			"Permanently deletes ALL packets on %s. Type the node name: %s_",
			o->node, ui->answer);
	else if (!strcmp(o->verb, "cancel"))
		canvas_line(c, STYLE_WARN, "Cancel query %" PRIu64 "? (y/n)", o->number);
	else if (!strcmp(o->verb, "spread"))
		canvas_line(c, STYLE_WARN, "Spread packets %s from now on? (y/n)", o->node);
	else
		canvas_line(c, STYLE_WARN, "Really %s %s? (y/n)", o->verb,
			o->node[0] ? o->node : "the capture");
}

static void
bottom_lines(struct canvas *c, const struct ui *ui)
{
	bool nodes = ui->screen == SCREEN_NODES || ui->screen == SCREEN_RACK;
	enum console_screen screen = nodes ? SCREEN_NODES : ui->screen;
	char label[2] = "";
	int col = 1;

	c->row = c->rows - 2;
	if (ui->pending.verb)
		question(c, ui);
	else
		canvas_line(c, ui->message_bad ? STYLE_BAD : STYLE_GOOD, "%s%s",
			ui->message_bad ? "! " : "", ui->message);
	canvas_style(c, 0, c->cols, STYLE_BAR);
	if (ui->help) {
		hint(c, col, KEY_IS_ESC, "Esc", "back");
		return;
	}
	for (const struct order_key *k = ui_order_keys; k->verb; k++) {
		label[0] = (char)k->key;
		if (k->screen == screen)
			col = hint(c, col, k->key, label,
				k->node && k->node[0] ? k->node : k->verb);
	}
	for (size_t i = 0; i < PR_COUNT(hints); i++)
		if (hints[i].screen == screen)
			col = hint(c, col, hints[i].key, hints[i].label, hints[i].text);
	if (nodes)
		col = ui->detail ? hint(c, col, KEY_IS_ESC, "Esc", "list")
				 : hint(c, col, KEY_IS_ENTER, "Enter", "detail");
	hint(c, hint(c, col, '?', "?", "help"), 'q', "q", "quit");
}

void
view_draw(struct canvas *c, const struct model *m, struct ui *ui, const struct logtail *log)
{
	static void (*const screens[SCREENS])(struct canvas *, const struct model *,
		struct ui *) = {view_metrics, view_packets, view_nodes, view_control, NULL,
		view_queries, view_rack, view_data};
	int lines = (int)PR_COUNT(help);

	c->row = VIEW_TOP;
	if (ui->help) {
		canvas_line(c, STYLE_HEAD, "Help");
		for (int i = scrolled(ui, lines, VIEW_END(c) - c->row);
			i < lines && c->row < VIEW_END(c); i++)
			canvas_line(c, STYLE_PLAIN, "%s", help[i]);
	} else if (ui->screen == SCREEN_LOGFILE) {
		view_logfile(c, m, ui, log);
	} else {
		screens[ui->screen](c, m, ui);
	}
	/* drawn last, so that a screen that is too long cannot cover them */
	for (c->row = 0; c->row < c->rows; c->row++)
		for (int col = 0; col < c->cols; col++)
			if (c->row < VIEW_TOP || c->row >= VIEW_END(c))
				canvas_put(c, col, STYLE_PLAIN, ' ');
	tab_line(c, ui);
	top_line(c, m, ui);
	bottom_lines(c, ui);
}
