/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/report.h"

/* All of what an answer says of itself; report.c has the block for people. */

static void
render_loss(struct render *r, const Packrack__Loss *l)
{
	render_object(r, NULL);
	render_epoch(r, "epoch", l->epoch);
	render_uint(r, "link", l->link);
	render_uint(r, "first_seq", l->first_seq);
	render_uint(r, "last_seq", l->last_seq);
	render_uint(r, "count", l->count);
	if (l->among_last) {
		render_uint(r, "among_first", l->among_first);
		render_uint(r, "among_last", l->among_last);
	}
	render_time(r, "first_time", l->first_time);
	render_time(r, "last_time", l->last_time);
	render_string(r, "reason", l->reason);
	render_string(r, "node", l->node);
	render_close(r);
}

static void
render_ledger(struct render *r, const Packrack__Ledger *l)
{
	render_object(r, NULL);
	render_epoch(r, "epoch", l->epoch);
	render_uint(r, "link", l->link);
	render_string(r, "name", l->name);
	render_uint(r, "linktype", l->linktype);
	render_uint(r, "snaplen", l->snaplen);
	render_uint(r, "last_seq", l->last_seq);
	render_time(r, "last_otime", l->last_otime);
	render_time(r, "said_until", l->said_until);
	render_bool(r, "ended", l->ended);
	render_uint(r, "dropped_kernel", l->dropped_kernel);
	render_uint(r, "dropped_interface", l->dropped_interface);
	render_uint(r, "dropped_ring", l->dropped_ring);
	render_uint(r, "dropped_no_node", l->dropped_no_node);
	render_uint(r, "dropped_send", l->dropped_send);
	render_uint(r, "cut", l->cut);
	render_close(r);
}

static void
render_evicted(struct render *r, const Packrack__Evicted *e)
{
	render_object(r, NULL);
	render_string(r, "node", e->node);
	render_string(r, "stream", e->stream);
	if (e->midst)
		render_time(r, "since", e->since);
	render_time(r, "until", e->until);
	render_epoch(r, "epoch", e->epoch);
	render_uint(r, "link", e->link);
	render_uint(r, "last_seq", e->last_seq);
	if (e->deleted) {
		render_string(r, "deleted_by", e->deleted->by);
		render_time(r, "deleted_at", e->deleted->at);
		if (e->deleted->since)
			render_time(r, "deleted_since", e->deleted->since);
		render_time(r, "deleted_until", e->deleted->until);
		render_string(r, "moved_to", e->deleted->moved_to);
	}
	render_close(r);
}

static void
render_node(struct render *r, const Packrack__NodeAnswer *n)
{
	render_object(r, NULL);
	render_string(r, "node", n->node);
	render_bool(r, "answered", n->answered);
	render_string(r, "error", n->error);
	render_uint(r, "matched", n->matched);
	render_uint(r, "scanned_packets", n->scanned_packets);
	render_uint(r, "scanned_bytes", n->scanned_bytes);
	render_uint(r, "scanned_segments", n->scanned_segments);
	render_uint(r, "skipped_segments", n->skipped_segments);
	render_uint(r, "skipped_bytes", n->skipped_bytes);
	render_bool(r, "left_out", n->left_out);
	render_bool(r, "stopped", n->stopped);
	render_string(r, "why", n->why);
	render_close(r);
}

static void
render_completeness(struct render *r, const Packrack__Completeness *c)
{
	render_object(r, "completeness");
	render_bool(r, "complete", c->complete);
	render_uint(r, "held_packets", c->held_packets);
	render_bool(r, "held_at_most", c->held_at_most);
	render_uint(r, "missing_packets", c->missing_packets);
	render_uint(r, "missing_ranges", c->missing_ranges);
	render_uint(r, "pending_packets", c->pending_packets);
	render_uint(r, "dropped_packets", c->dropped_packets);
	render_list(r, "missing");
	for (size_t i = 0; i < c->n_missing; i++)
		render_loss(r, c->missing[i]);
	render_close(r);
	render_list(r, "evicted");
	for (size_t i = 0; i < c->n_evicted; i++)
		render_evicted(r, c->evicted[i]);
	render_close(r);
	render_list(r, "nodes");
	for (size_t i = 0; i < c->n_nodes; i++)
		render_node(r, c->nodes[i]);
	render_close(r);
	render_list(r, "ledgers");
	for (size_t i = 0; i < c->n_ledgers; i++)
		render_ledger(r, c->ledgers[i]);
	render_close(r);
	render_close(r);
}

void
report_render(struct render *r, const Packrack__End *end, const struct sink *sink)
{
	char hash[PRM_TRACE_HASH_TEXT];

	render_uint(r, "matched", end->matched);
	render_uint(r, "related", end->related);
	render_uint(r, "scanned_packets", end->scanned_packets);
	render_uint(r, "scanned_bytes", end->scanned_bytes);
	render_uint(r, "scanned_segments", end->scanned_segments);
	render_uint(r, "skipped_segments", end->skipped_segments);
	render_uint(r, "skipped_level1", end->skipped_level1);
	render_uint(r, "skipped_level2", end->skipped_level2);
	render_uint(r, "skipped_linktype", end->skipped_linktype);
	render_uint(r, "skipped_bytes", end->skipped_bytes);
	render_uint(r, "index_reads", end->index_reads);
	render_uint(r, "index_bytes", end->index_bytes);
	render_uint(r, "index_damaged", end->index_damaged);
	render_uint(r, "counted_packets", end->counted_packets);
	render_uint(r, "corrupt_records", end->corrupt_records);
	render_uint(r, "strays", end->strays);
	render_uint(r, "unsure_packets", sink->unsure);
	render_uint(r, "clamped_times", sink->trace ? prm_trace_clamped(sink->trace) : 0);
	if (sink->trace)
		render_string(r, "hash", prm_trace_hash_of(sink->trace, hash));
	render_bool(r, "limit_reached", end->limit_reached);
	render_bool(r, "cancelled", end->cancelled);
	if (end->completeness)
		render_completeness(r, end->completeness);
}
