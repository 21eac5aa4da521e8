/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/feed_private.h"
#include "indexer/index/level2.h"

static void
note_unknown(struct stream *s, uint64_t upto)
{
	if (upto > s->unknown)
		s->unknown = upto;
}

void
pri_follower_add_unsummarized(struct stream *s, const struct pr_summary_span *span)
{
	struct pr_summary_span *last = &s->open[OPEN_MAX - 1];

	if (s->open_count < OPEN_MAX) {
		s->open[s->open_count++] = *span;
		return;
	}
	/* one for two: times are what counts, and seqs of two epochs are none */
	if (last->epoch != span->epoch)
		note_unknown(s, span->first_sequence + span->segments);
	pr_summary_span_unite(last, span);
	if (s->unknown)
		note_unknown(s, last->first_sequence + last->segments);
}

/* Sequences from..to have no summary, and will not get one. */
void
pri_follower_mark_gap(struct stream *s, uint64_t from, uint64_t to)
{
	struct pr_summary_span spans[8];
	uint64_t found;
	size_t count = pri_catalog_spans(
		pri_volume_catalog(s->feed->view), s->id, from, to, spans, 8, &found);

	for (size_t i = 0; i < count; i++)
		pri_follower_add_unsummarized(s, &spans[i]);
	if (found < to - from + 1)
		note_unknown(s, to);
}

/* What an earlier run left without summary, before the sequence next. */
void
pri_follower_mark_old_gaps(struct stream *s)
{
	struct pri_index_stream *known =
		pri_index_map_find(pri_volume_index_map(s->feed->view), s->link);
	struct pri_index_list *list = known ? &known->level[2] : NULL;
	uint64_t at = s->first;

	for (size_t i = 0; list && i < list->count; i++) {
		struct pri_index_ref *ref = &list->items[i];

		if (!pri_index_ref_usable(known, ref))
			continue;
		if (ref->first_sequence > at)
			pri_follower_mark_gap(s, at, ref->first_sequence - 1);
		if (ref->first_sequence + ref->segments > at)
			at = ref->first_sequence + ref->segments;
	}
	if (at < s->next)
		pri_follower_mark_gap(s, at, s->next - 1);
}

void
pri_follower_summarized(struct pri_index_follower *f, uint16_t link,
	uint64_t first_sequence, uint32_t segments)
{
	for (size_t i = 0; i < f->count; i++) {
		struct stream *s = f->streams[i];
		size_t kept = 0;

		for (size_t j = 0; j < s->open_count; j++)
			if (s->link != link ||
				s->open[j].first_sequence != first_sequence ||
				s->open[j].segments != segments)
				s->open[kept++] = s->open[j];
		s->open_count = kept;
	}
}

/* What is recycled needs none. */
void
pri_follower_expire(struct stream *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->open_count; i++)
		if (s->open[i].first_sequence + s->open[i].segments > s->first)
			s->open[kept++] = s->open[i];
	s->open_count = kept;
	if (s->unknown < s->first)
		s->unknown = 0;
}

size_t
pri_follower_unsummarized(const struct pri_index_follower *f,
	struct pr_summary_span out[PRI_FOLLOWER_SPANS], bool *unknown)
{
	struct pr_summary_span tail[2];
	size_t count = 0;

	*unknown = false;
	for (size_t i = 0; i < f->count; i++) {
		const struct stream *s = f->streams[i];
		size_t more = pri_builder_tail(s->builder, tail);

		*unknown |= s->unknown || s->last >= s->next ||
			    count + s->open_count + more > PRI_FOLLOWER_SPANS;
		for (size_t j = 0; j < s->open_count && count < PRI_FOLLOWER_SPANS; j++)
			out[count++] = s->open[j];
		for (size_t j = 0; j < more && count < PRI_FOLLOWER_SPANS; j++)
			out[count++] = tail[j];
	}
	return count;
}
