/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/nodes.h"

/*
 * What a node holds unacknowledged. Its STATUS names an ordinal, not bytes, so the costs at a few
 * ordinals are remembered: a point each 1/128 of the window, the last one passed counts.
 */

static uint64_t
window_step(const struct prd_window *w)
{
	return w->size / (PRD_WINDOW_POINTS / 2) + 1;
}

static void
window_point(struct prd_window *w, uint64_t ordinal)
{
	uint32_t at;

	if (w->sent_cost < w->next_point_cost || w->count == PRD_WINDOW_POINTS)
		return;
	at = (w->first + w->count++) % PRD_WINDOW_POINTS;
	w->points[at].ordinal = ordinal;
	w->points[at].cost = w->sent_cost;
	w->next_point_cost = w->sent_cost + window_step(w);
}

uint64_t
prd_node_sent(struct prd_node *node, size_t len)
{
	struct prd_window *w = &node->window;

	w->sent_cost += len + PRD_FRAME_COST;
	node->bytes_sent += len;
	window_point(w, node->next_ordinal + 1);
	return node->next_ordinal++;
}

bool
prd_node_room(const struct prd_node *node, size_t len)
{
	const struct prd_window *w = &node->window;
	uint64_t held = w->sent_cost + w->placed_cost - w->acked_cost;

	return held == 0 || held + len + PRD_FRAME_COST <= w->size;
}

/* settled has been checked: not less than before, not more than was sent. */
static void
window_settle(struct prd_node *node, uint64_t settled)
{
	struct prd_window *w = &node->window;

	w->settled = settled;
	while (w->count > 0 && w->points[w->first].ordinal <= settled) {
		w->acked_cost = w->points[w->first].cost;
		w->first = (w->first + 1) % PRD_WINDOW_POINTS;
		w->count--;
	}
	if (settled == node->next_ordinal) {
		w->acked_cost = w->sent_cost;
		w->next_point_cost = w->sent_cost + window_step(w);
		w->count = 0;
	}
}

void
prd_node_status(struct prd_nodes *nodes, struct prd_node *node, const struct pr_status *s)
{
	bool usable = prd_node_usable(node);

	node->status = *s;
	if (s->ordinal_settled > node->window.settled &&
		s->ordinal_settled <= node->next_ordinal)
		window_settle(node, s->ordinal_settled);
	if (usable != prd_node_usable(node))
		nodes->generation++;
}
