/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "merger/cli/console/format.h"
#include "merger/cli/console/view_internal.h"

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

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

/* Not of the dispatcher: nodes say in all only. */
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

void
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

void
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
