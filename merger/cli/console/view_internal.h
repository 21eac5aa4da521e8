/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CONSOLE_VIEW_INTERNAL_H
#define PR_CONSOLE_VIEW_INTERNAL_H

#include <stddef.h>

#include "merger/cli/console/view.h"

/* Rows that a screen may fill: from VIEW_TOP to VIEW_END(c). */
#define VIEW_TOP 2
#define VIEW_END(c) ((c)->rows - 2)

void view_metrics(struct canvas *c, const struct model *m, struct ui *ui);
void view_packets(struct canvas *c, const struct model *m, struct ui *ui);
void view_clients(struct canvas *c, const struct model *m, struct ui *ui);
void view_control(struct canvas *c, const struct model *m, struct ui *ui);
void view_logfile(
	struct canvas *c, const struct model *m, struct ui *ui, const struct view_log *log);
void view_queries(struct canvas *c, const struct model *m, struct ui *ui);
void view_rack(struct canvas *c, const struct model *m, struct ui *ui);
void view_data(struct canvas *c, const struct model *m, struct ui *ui);
void view_help(struct canvas *c, struct ui *ui);

/* A missing program, in place of its figures. Returns the next row. */
int view_missing(
	struct canvas *c, int row, const char *what, const struct model_peer *peer);
/* CLog's three columns; from is the column of the name. */
struct view_columns {
	int instant, rate, total; /* columns at which they end */
};
struct view_columns view_columns(const struct canvas *c, int from);
void view_columns_head(
	struct canvas *c, int row, const char *title, struct view_columns at);
/* The sum of the counters named, NULL-terminated. */
void view_columns_row(struct canvas *c, int row, const char *label, struct view_columns at,
	const struct series *s, const struct series_names *n, const char *const *names,
	enum console_style style);
/* Keeps row `at` of count within what is shown of a list of `room` rows; returns the first. */
int view_scroll(struct ui *ui, int at, int count, int room);

#endif
