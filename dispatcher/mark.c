/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "dispatcher/send_private.h"
#include "proto/base/clock.h"

#define PORT_EVERY 10 /* MARKs of a node: a lost one is made good within a second */

/*
 * The ledger: what was captured, where it went, what was dropped, so that every packet is
 * accounted for when logs, nodes or this dispatcher are lost. Counters are those of the epoch.
 */

static void
mark_link(
	const struct prd_node *node, const struct prd_link *link, struct pr_mark_link *out)
{
	const struct prd_node_log *log = &node->logs[link->number];

	*out = (struct pr_mark_link){
		.link = link->number,
		.linktype = link->linktype,
		.snaplen = link->snaplen,
		.ended = atomic_load(&link->ended),
		.last_seq = pr_counter_get(&link->last_seq),
		.last_otime = atomic_load(&link->last_otime),
		.last_log = log->last_log,
		.assigned = log->assigned,
		.dropped_kernel = pr_counter_get(&link->dropped_kernel),
		.dropped_interface = pr_counter_get(&link->dropped_interface),
		.dropped_ring = pr_counter_get(&link->dropped_ring),
		.dropped_no_node = pr_counter_get(&link->dropped_no_node),
		.dropped_send = pr_counter_get(&link->dropped_send),
		.cut = pr_counter_get(&link->cut),
		.undelivered_first = pr_counter_get(&link->undelivered_first),
		.undelivered_last = pr_counter_get(&link->undelivered_last),
	};
	memcpy(out->name, link->name, sizeof out->name);
}

/*
 * All captured before it lies in logs sent before: taken from the rings on every link, and not
 * in a log that this node has yet to get.
 */
static int64_t
said_until(const struct prd_sender *s, const struct prd_node *node)
{
	int64_t said = PR_TIME_MAX, oldest;

	for (unsigned i = 0; i < s->inputs->ring_count; i++)
		if (s->drained_until[i] < said)
			said = s->drained_until[i];
	oldest = prd_logs_oldest(&s->logs, node);
	return s->inputs->live && oldest <= said ? oldest - 1 : said;
}

/* What changes seldom is told seldom. */
static void
tell_ports(struct prd_sender *s, struct prd_node *node)
{
	for (unsigned i = 0; i < s->inputs->link_count; i++) {
		const struct prd_link *link = &s->inputs->links[i];
		struct pr_frame frame;

		if (!link->speed)
			continue;
		frame.body.port = (struct pr_port){link->number, link->speed};
		prd_talk(s, node, PR_FRAME_PORT, &frame);
	}
}

void
prd_mark(struct prd_sender *s, struct prd_node *node)
{
	unsigned links = s->inputs->link_count;
	struct pr_frame frame;

	if (!node->logs)
		return;
	/* last_seq is declared: all up to it must be in logs that this node has been sent */
	prd_logs_flush(&s->logs, node, INT64_MAX, s->now);
	for (unsigned at = 0; at < links; at += PR_MARK_LINKS_MAX) {
		unsigned count = links - at;
		struct pr_mark *mark = &frame.body.mark;

		if (count > PR_MARK_LINKS_MAX)
			count = PR_MARK_LINKS_MAX;
		*mark = (struct pr_mark){.said_until = said_until(s, node),
			.next_ordinal = node->next_ordinal,
			.stopping = s->marking_stop,
			.link_count = (uint16_t)links,
			.count = (uint16_t)count,
			.links = frame.link_room};
		for (unsigned i = 0; i < count; i++)
			mark_link(node, &s->inputs->links[at + i], &frame.link_room[i]);
		prd_talk(s, node, PR_FRAME_MARK, &frame);
	}
	if (node->marks++ % PORT_EVERY == 0)
		tell_ports(s, node);
}
