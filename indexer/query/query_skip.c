/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/query_ahead.h"

/* Nothing of the same link, in another lane, comes before its end: its seqs can be told at once. */
static bool
alone_on_its_line(const struct pri_query *q, const struct pri_run_reader *r)
{
	if (r->run->run_count == 1)
		return true;
	for (size_t i = 0; i < q->reader_count; i++) {
		const struct pri_run_reader *other = &q->readers[i];

		if (other != r && other->run && other->line == r->line && !other->done &&
			other->packet.otime <= r->entry.last_otime)
			return false;
	}
	return true;
}

int
pri_query_hold_all(
	struct pri_query *q, const struct pri_run_reader *r, struct pr_error *err)
{
	struct pri_line *line = &q->lines[r->line];
	const struct pri_segment_entry *e = &r->entry;

	line->passed = true;
	if (pri_query_stretch(line, err) < 0)
		return -1;
	return pri_range_builder_add_range(line->stretch, e->first_seq,
		pri_entry_last_seq(e), e->first_otime, e->last_otime, &q->held, err);
}

static int
account(struct pri_query *q, const struct pri_run_reader *r, struct pri_held_walk *held,
	struct pr_error *err)
{
	struct pri_line *line = &q->lines[r->line];
	const struct pri_segment_entry *e = &r->entry;
	uint64_t seq;

	line->passed = true;
	if (pri_query_stretch(line, err) < 0)
		return -1;
	if (held->form == PRI_HELD_ALL)
		return pri_query_hold_all(q, r, err);
	for (bool first = true; pri_held_walk_next(held, &seq); first = false)
		if (pri_range_builder_add(line->stretch, e->first_seq + seq,
			    first ? e->first_otime : e->last_otime, &q->held, err) < 0)
			return -1;
	return 0;
}

bool
pri_query_alone(const struct pri_query *q, const struct pri_run_reader *r)
{
	const struct pri_line *line = &q->lines[r->line];

	return !line->run->strays && pri_run_reader_inside(r, &line->bounds) &&
	       alone_on_its_line(q, r);
}

int
pri_query_pass(struct pri_query *q, struct pri_run_reader *r, struct pri_held_walk *held,
	struct pr_error *err)
{
	if (account(q, r, held, err) < 0)
		return -1;
	pri_query_move_on(
		q, pri_run_reader_pass(r, &q->lines[r->line].bounds, &q->lane_figures));
	return 0;
}

static void
count(Packrack__End *f, enum pri_prune_verdict verdict, const struct pri_segment_entry *e)
{
	f->skipped_level2 += verdict == PRI_PRUNE_LEVEL2;
	f->skipped_level1 += verdict == PRI_PRUNE_LEVEL1;
	f->skipped_linktype += verdict == PRI_PRUNE_LINKTYPE;
	f->skipped_bytes += e->handle.length;
}

/* Far from all that was found nothing is related, and only what matches by itself is looked for. */
static struct pri_prune *
prune_for(const struct pri_query *q, const struct pri_segment_entry *e)
{
	if (q->spec.relations &&
		!pr_relations_overlap(q->spec.relations, e->min_time, e->max_time))
		return q->core_prune;
	return q->prune;
}

/* One that the time range cuts has seqs inside and outside of it: only its packets tell which. */
int
pri_query_skip(
	struct pri_query *q, struct pri_run_reader *r, bool *worked, struct pr_error *err)
{
	struct pri_line *line = &q->lines[r->line];
	enum pri_prune_verdict verdict;
	struct pri_held_walk held;

	*worked = false;
	if (r->chosen || !pri_query_alone(q, r))
		return 0;
	if (q->spec.tally) {
		int counted = pri_query_count(q, r, worked, err);
		if (counted)
			return counted;
	}
	if (!pri_query_decided(r, &verdict, &held))
		verdict = pri_prune_ask(
			prune_for(q, &r->entry), line->run->link, &r->entry, &held, worked);
	if (verdict == PRI_PRUNE_READ) {
		r->chosen = true;
		return 0;
	}
	count(&q->figures, verdict, &r->entry);
	q->lane_figures.skipped_segments += verdict == PRI_PRUNE_TIME;
	return pri_query_pass(q, r, &held, err) < 0 ? -1 : 1;
}
