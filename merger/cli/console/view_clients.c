/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "merger/cli/console/format.h"
#include "merger/cli/console/view_internal.h"

static void
list_line(struct canvas *c, int row, const struct model *m, const struct model_node *n,
	bool chosen, int at)
{
	char space[FORMAT_TEXT], left[FORMAT_TEXT];
	uint64_t missing =
		node_out(m, n, "missing_packets") + node_in(m, n, "missing_packets");
	bool bad;
	const char *state = node_state(m, n, &bad);

	if (n->sent && n->stored) /* both tell of the same */
		missing = node_out(m, n, "missing_packets");
	format_bytes(space, (double)node_out(m, n, "volume_free_bytes"));
	format_left(left, node_full_in(m, n));
	canvas_text(c, row, 0, chosen ? STYLE_CHOSEN : STYLE_PLAIN, "%c%-15.15s",
		chosen ? '>' : ' ', n->name);
	canvas_text(c, row, 17, bad ? STYLE_BAD : STYLE_GOOD, "%-12.12s", state);
	canvas_right(c, row, 40, STYLE_PLAIN, "%s", n->sent ? space : "-");
	canvas_right(c, row, 49, STYLE_PLAIN, "%s", left);
	canvas_right(c, row, 63, STYLE_PLAIN, "%" PRIu64,
		n->sent ? node_out(m, n, "sent_frames") : node_in(m, n, "packets"));
	canvas_right(c, row, 71, missing ? STYLE_BAD : STYLE_PLAIN, "%" PRIu64, missing);
	if (c->cols < 150) {
		canvas_spark(c, row, 72, 7, n->out.spark, n->out.spark_count);
	} else {
		canvas_text(c, row, 73, STYLE_PLAIN, "%-18s", n->mac);
		canvas_bar(c, row, 92, 22,
			(double)node_out(m, n, "buffer_fill_percent") / 100, STYLE_GOOD);
		canvas_spark(c, row, 116, SERIES_SPARK, n->out.spark, n->out.spark_count);
	}
	canvas_zone(c, row, 0, c->cols, KEY_IS_ROW + at);
}

static void
list(struct canvas *c, int row, const struct model *m, struct ui *ui)
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
	row = bytes_line(c, row, "Free space:", node_out(m, n, "volume_free_bytes"));
	row = bytes_line(c, row, "Total space:", node_out(m, n, "volume_size_bytes"));
	canvas_text(c, row++, 1, STYLE_PLAIN, "%-18s %s",
		"Time until full:", format_left(left, node_full_in(m, n)));
	canvas_text(c, row, 1, STYLE_PLAIN, "%-18s", "State:");
	canvas_text(c, row++, 20, bad ? STYLE_BAD : STYLE_GOOD, "%s", state);
	if (n->sent)
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
		const struct series *s = r->in ? &n->in : &n->out;
		const struct series_names *names = r->in ? &m->in_names : &m->out_names;
		uint64_t number = r->in ? node_in(m, n, r->name) : node_out(m, n, r->name);

		if (!series_has(s, names, r->name))
			continue;
		canvas_text(c, row, col, STYLE_PLAIN, "%s:", r->label);
		canvas_right(c, row++, col + 38,
			r->trouble && number ? STYLE_BAD : STYLE_PLAIN, "%" PRIu64, number);
	}
}

static void
detail(struct canvas *c, int row, const struct model *m, struct ui *ui)
{
	int at = ui_node(ui, m), col;
	const struct model_node *n;
	double fill;

	if (at < 0) {
		canvas_text(c, row, 1, STYLE_BAD, "Node %s is known no more.", ui->node);
		return;
	}
	n = m->nodes[at];
	fill = (double)node_out(m, n, "buffer_fill_percent") / 100;
	row = detail_head(c, row, m, n);
	col = canvas_text(c, row, 1, STYLE_PLAIN, "%-18s ", "Buffer:");
	canvas_bar(c, row, col, 32, fill, fill > 0.5 ? STYLE_WARN : STYLE_GOOD);
	canvas_text(c, row, col + 33, STYLE_PLAIN, "%.0f %%", fill * 100);
	canvas_text(c, row + 1, 1, STYLE_PLAIN, "%-18s", "Stored per second:");
	canvas_spark(c, row + 1, 20, c->cols > 90 ? SERIES_SPARK : 58, n->out.spark,
		n->out.spark_count);
	detail_rows(c, row + 2, 1, m, n, left_rows);
	detail_rows(c, row + 2, 41, m, n, right_rows);
}

void
view_clients(struct canvas *c, const struct model *m, struct ui *ui)
{
	int row = VIEW_TOP;

	if (!m->dispatcher.answers)
		row = view_missing(c, row, "dispatcher", &m->dispatcher);
	if (ui->detail)
		detail(c, row, m, ui);
	else
		list(c, row, m, ui);
}
