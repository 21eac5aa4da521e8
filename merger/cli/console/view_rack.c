/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "merger/cli/console/format.h"
#include "merger/cli/console/view_internal.h"

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

/* As wide as lets all be seen, if any width does. */
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
	double total = (double)node_out(m, n, "volume_size_bytes");
	double full =
		total > 0 ? 1 - (double)node_out(m, n, "volume_free_bytes") / total : 0;
	int name = width >= 31 ? 12 : 8, end = col + width - 1, spark = width - name - 19;

	canvas_zone(c, row, col, end, KEY_IS_ROW + at);
	canvas_text(c, row, col, chosen ? STYLE_CHOSEN : STYLE_PLAIN, "%c%-*.*s",
		chosen ? '>' : ' ', name, name, n->name);
	if (bad) {
		canvas_text(c, row, col + name + 2, STYLE_BAD, "%-.*s", width - name - 3,
			state);
		return;
	}
	format_count(rate, n->sent ? series_rate(&n->out, &m->out_names, "stored_packets")
				   : series_rate(&n->in, &m->in_names, "packets"));
	canvas_right(c, row, col + name + 9, STYLE_GOOD, "%s/s", rate);
	if (spark > 0)
		canvas_spark(
			c, row, col + name + 10, spark, n->out.spark, n->out.spark_count);
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

void
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
