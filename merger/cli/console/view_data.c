/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "merger/cli/console/format.h"
#include "merger/cli/console/view_internal.h"
#include "proto/base/clock.h"

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

void
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
