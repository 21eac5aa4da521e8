/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "merger/cli/cli.h"
#include "merger/completeness.h"
#include "proto/base/clock.h"

#define RANGES_SHOWN 20
#define RANGES_COMMENTED 500

int
report_status(const Packrack__End *end)
{
	return end->completeness && end->completeness->complete && !end->cancelled
		       ? CLI_OK
		       : CLI_PARTIAL;
}

static const char *
plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* Reasons are names in messages; this is what people are told. */
static const char *
reason_text(const char *reason)
{
	static const struct {
		const char *name, *text;
	} texts[] = {{PR_MISSING_NO_ANSWER, "a node that may have it did not answer"},
		{PR_MISSING_CORRUPT, "records that cannot be read"},
		{PR_MISSING_DROPPED,
			"the dispatcher had no node for it, or could not send"},
		{PR_MISSING_UNDELIVERED,
			"declared by a dispatcher that is gone, never stored"},
		{PR_MISSING_UNKNOWN, "declared, and no node knows of it"},
		{"switch", "lost or damaged on the way to the node"},
		{"log_gone", "its timestamp was lost"},
		{"node_kernel", "dropped by the node's kernel"},
		{"write", "the volume refused it"},
		{"node_stop", "the node stopped before storing it"}};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!strcmp(texts[i].name, reason))
			return texts[i].text;
	return reason;
}

static void
print_time(FILE *to, int64_t t)
{
	char text[PR_TIME_TEXT];

	fputs(t == PR_TIME_MIN     ? "the beginning"
		: t == PR_TIME_MAX ? "the end"
				   : pr_time_format(t, text, sizeof(text)),
		to);
}

static void
print_span(FILE *to, int64_t first, int64_t last)
{
	print_time(to, first);
	if (first == last)
		return;
	fputs(" to ", to);
	print_time(to, last);
}

static void
print_range(FILE *to, const Packrack__Loss *l)
{
	fprintf(to, "    link %u seq %" PRIu64, l->link, l->first_seq);
	if (l->last_seq != l->first_seq)
		fprintf(to, "..%" PRIu64, l->last_seq);
	if (l->among_last)
		fprintf(to, " (among seq %" PRIu64 "..%" PRIu64 ")", l->among_first,
			l->among_last);
	fputs(", ", to);
	print_span(to, l->first_time, l->last_time);
	fprintf(to, ": %s%s%s\n", reason_text(l->reason), l->node[0] ? ", " : "", l->node);
}

static bool
same_cause(const Packrack__Loss *a, const Packrack__Loss *b)
{
	return !strcmp(a->reason, b->reason) && !strcmp(a->node, b->node);
}

/* All listed ranges of the cause of missing[at] in one line, unless a range before had it. */
static void
print_cause(FILE *to, const Packrack__Completeness *c, size_t at)
{
	const Packrack__Loss *first = c->missing[at];
	uint64_t packets = 0, ranges = 0;
	int64_t last = first->last_time;

	for (size_t i = 0; i < at; i++)
		if (same_cause(c->missing[i], first))
			return;
	for (size_t i = at; i < c->n_missing; i++)
		if (same_cause(c->missing[i], first)) {
			packets += c->missing[i]->count;
			ranges++;
			if (c->missing[i]->last_time > last)
				last = c->missing[i]->last_time;
		}
	fprintf(to, "    %" PRIu64 " in %" PRIu64 " range%s, ", packets, ranges,
		plural(ranges));
	print_span(to, first->first_time, last);
	fprintf(to, ": %s%s%s\n", reason_text(first->reason), first->node[0] ? ", " : "",
		first->node);
}

#define CAUSES_LOOKED_AT 1000 /* keeps the search for causes seen before short */

static void
print_missing(FILE *to, const Packrack__Completeness *c, size_t shown)
{
	fprintf(to, "  missing: %" PRIu64 " packet%s in %" PRIu64 " range%s%s\n",
		c->missing_packets, plural(c->missing_packets), c->missing_ranges,
		plural(c->missing_ranges),
		c->missing_ranges > shown ? "; --json lists them; by cause" : "");
	for (size_t i = 0; i < c->n_missing; i++)
		if (c->missing_ranges <= shown)
			print_range(to, c->missing[i]);
		else if (i < CAUSES_LOOKED_AT)
			print_cause(to, c, i);
	if (c->n_missing < c->missing_ranges)
		fprintf(to,
			"    and %" PRIu64
			" more ranges, which are counted and not listed\n",
			c->missing_ranges - c->n_missing);
}

/* What went since, or had gone before, the volume has recycled. */
static void
print_deleted(FILE *to, const Packrack__Evicted *e)
{
	const Packrack__Deleted *d = e->deleted;

	fputs(" is gone: ", to);
	if (d->until < e->until && !e->midst) {
		fputs("of it, up to ", to);
		print_time(to, d->until);
		fputs(" ", to);
	}
	if (d->moved_to[0])
		fprintf(to, "moved to %s", d->moved_to);
	else
		fputs("deleted", to);
	fprintf(to, " by %s at ", d->by[0] ? d->by : "somebody");
	print_time(to, d->at);
	fputc('\n', to);
}

static void
print_evicted(FILE *to, const Packrack__Completeness *c)
{
	for (size_t i = 0; i < c->n_evicted && i < RANGES_SHOWN; i++) {
		const Packrack__Evicted *e = c->evicted[i];

		fprintf(to, "  evicted: %s%s%s, ", e->node, e->node[0] ? " " : "",
			e->stream);
		if (e->midst) {
			print_time(to, e->since);
			fputs(" to ", to);
		} else {
			fputs("all up to ", to);
		}
		print_time(to, e->until);
		if (e->deleted)
			print_deleted(to, e);
		else
			fputs(e->midst ? " is gone: it was deleted\n"
				       : " is gone: the volume was full, or reset\n",
				to);
	}
	if (c->n_evicted > RANGES_SHOWN)
		fprintf(to, "  evicted: and %zu more\n", c->n_evicted - RANGES_SHOWN);
}

static void
print_nodes(FILE *to, const Packrack__Completeness *c)
{
	for (size_t i = 0; i < c->n_nodes; i++)
		if (!c->nodes[i]->answered)
			fprintf(to, "  not answered: %s: %s\n", c->nodes[i]->node,
				c->nodes[i]->error);
}

static void
print_block(FILE *to, const Packrack__End *end, size_t shown)
{
	const Packrack__Completeness *c = end->completeness;
	uint64_t matching =
		end->matched - (end->related < end->matched ? end->related : end->matched);

	if (!c) {
		fputs("partial: the answer does not say what is missing\n", to);
		return;
	}
	fprintf(to, "%s: %" PRIu64 " packet%s match%s",
		report_status(end) ? "partial" : "complete", matching, plural(matching),
		matching == 1 ? "es" : "");
	if (end->related)
		fprintf(to, " and %" PRIu64 " %s related", end->related,
			end->related == 1 ? "is" : "are");
	if (end->limit_reached)
		fprintf(to, ", where the limit is");
	else if (end->cancelled)
		fprintf(to, "; broken off");
	else
		fprintf(to, ", of %s%" PRIu64 " in the time range",
			c->held_at_most ? "at most " : "", c->held_packets);
	fprintf(to, " (%zu node%s)\n", c->n_nodes, plural(c->n_nodes));
	if (c->missing_packets)
		print_missing(to, c, shown);
	if (c->pending_packets)
		fprintf(to,
			"  pending: %" PRIu64
			" packet%s on the way to the nodes' volumes\n",
			c->pending_packets, plural(c->pending_packets));
	print_evicted(to, c);
	print_nodes(to, c);
	if (c->dropped_packets)
		fprintf(to,
			"  dropped: %" PRIu64
			" packet%s at the dispatcher, before they had a number\n",
			c->dropped_packets, plural(c->dropped_packets));
	if (end->corrupt_records)
		fprintf(to, "  corrupt: %" PRIu64 " record%s that cannot be read\n",
			end->corrupt_records, plural(end->corrupt_records));
}

void
report_text(FILE *to, const Packrack__End *end, const struct sink *sink)
{
	print_block(to, end, RANGES_SHOWN);
	if (sink->unsure)
		fprintf(to,
			"  note: %" PRIu64
			" packet%s had identical neighbours, one of which was "
			"lost: their times may be swapped\n",
			sink->unsure, plural(sink->unsure));
	if (sink->trace && pr_trace_clamped(sink->trace))
		fprintf(to,
			"  note: %" PRIu64
			" time%s outside 1901..2106 clamped, as pcap has 32 "
			"bits for seconds; pcapng holds all\n",
			pr_trace_clamped(sink->trace),
			plural(pr_trace_clamped(sink->trace)));
	if (end->strays && !sink->strays)
		fprintf(to,
			"  note: %" PRIu64
			" packet%s without a timestamp; --strays gives them\n",
			end->strays, plural(end->strays));
}

char *
report_comment(const Packrack__End *end)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	print_block(f, end, RANGES_COMMENTED);
	fclose(f);
	if (text && size && text[size - 1] == '\n')
		text[size - 1] = 0;
	return text;
}

/* ---- all of it ---- */

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
	char hash[PR_TRACE_HASH_TEXT];

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
	render_uint(r, "clamped_times", sink->trace ? pr_trace_clamped(sink->trace) : 0);
	if (sink->trace)
		render_string(r, "hash", pr_trace_hash_of(sink->trace, hash));
	render_bool(r, "limit_reached", end->limit_reached);
	render_bool(r, "cancelled", end->cancelled);
	if (end->completeness)
		render_completeness(r, end->completeness);
}
