/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/summarize.h"

void
pri_range_list_free(struct pri_range_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free((void *)list->items[i].bits);
	free(list->items);
	*list = (struct pri_range_list){0};
}

int
pri_range_builder_end(
	struct pri_range_builder *s, struct pri_range_list *list, struct pr_error *err)
{
	uint64_t span = s->last - s->first + 1;
	size_t len = s->last && s->held < span ? (span + 7) / 8 : 0;

	if (s->last == 0)
		return 0;
	uint8_t *bits = len ? malloc(len) : NULL;
	if ((len && !bits) || PR_ARRAY_GROW(list->items, list->count) < 0) {
		free(bits);
		return pr_error_set(err, "no memory for the list of seqs held");
	}
	if (len) {
		memcpy(bits, s->bits, len);
		memset(s->bits, 0, len);
	}
	list->bytes += len;
	struct pr_summary_run *run = &list->items[list->count++];
	*run = (struct pr_summary_run){.bits = bits, .bits_len = len};
	PR_COPY(run, s, epoch, link, first, last, first_otime, last_otime);
	s->last = 0;
	return 0;
}

static void
set_bits(uint8_t *bits, uint64_t from, uint64_t to)
{
	for (; from <= to && from % 8; from++)
		bits[from / 8] |= 1u << from % 8;
	if (from + 7 <= to) {
		memset(bits + from / 8, 0xff, (to + 1 - from) / 8);
		from += (to + 1 - from) / 8 * 8;
	}
	for (; from <= to; from++)
		bits[from / 8] |= 1u << from % 8;
}

int
pri_range_builder_add_range(struct pri_range_builder *s, uint64_t first, uint64_t last,
	int64_t first_otime, int64_t last_otime, struct pri_range_list *list,
	struct pr_error *err)
{
	uint64_t end;

	if (s->last && first <= s->last)
		first = s->last + 1;
	for (; first <= last; first = end + 1) {
		if (s->last &&
			(first - s->last > PRI_RANGE_HOLE ||
				first - s->first >= PRI_RANGE_SPAN) &&
			pri_range_builder_end(s, list, err) < 0)
			return -1;
		if (s->last == 0) {
			s->first = first;
			s->first_otime = first_otime;
			s->held = 0;
		}
		end = s->first + PRI_RANGE_SPAN - 1;
		end = PR_MIN(end, last);
		/* bits are needed once the range has a hole; until then there are none */
		if (first - s->first != s->held) {
			if (s->held == s->last - s->first + 1)
				set_bits(s->bits, 0, s->last - s->first);
			set_bits(s->bits, first - s->first, end - s->first);
		}
		s->held += end - first + 1;
		s->last = end;
		s->last_otime = last_otime;
	}
	return 0;
}

/*
 * A range of held seqs covers at most this much time, so that a query whose time range ends
 * within a summary has the times of parts of it.
 */
#define STRETCH_NS PR_NS_PER_S

void
pri_summarizer_free(struct pri_summarizer *z)
{
	pri_hashset_free(&z->keys);
	pri_range_list_free(&z->held);
}

static int
add_held(struct pri_summarizer *z, const struct pr_segment_header *h,
	const struct pri_segment_keys *sketch, uint64_t last_seq)
{
	struct pri_range_builder *s = &z->stretch;
	int rc = 0;

	/* a late segment lies before the last seq: it begins a range of its own */
	if (s->last && (h->first_seq <= s->last ||
			       pr_time_minus(h->first_otime, s->first_otime) > STRETCH_NS))
		rc = pri_range_builder_end(s, &z->held, NULL);
	if (rc == 0 && last_seq - h->first_seq + 1 == sketch->seq_count)
		return pri_range_builder_add_range(s, h->first_seq, last_seq,
			h->first_otime, h->last_otime, &z->held, NULL);
	/*
	 * a range may end within a segment: both ranges then have the segment's times as
	 * bounds
	 */
	for (size_t i = 0; rc == 0 && i < sketch->seq_count; i++) {
		uint64_t seq = h->first_seq + sketch->seqs[i];

		rc = pri_range_builder_add_range(
			s, seq, seq, h->first_otime, h->last_otime, &z->held, NULL);
	}
	return rc;
}

int
pri_summarizer_segment(struct pri_summarizer *z, uint64_t sequence, uint64_t proof,
	const struct pr_segment_header *h, const struct pri_segment_keys *sketch)
{
	uint64_t last_seq = h->first_seq;

	if (sketch->seq_count)
		last_seq += sketch->seqs[sketch->seq_count - 1];
	if (z->span.segments == 0) {
		z->check = 0;
		PR_COPY(&z->stretch, h, epoch, link);
	}
	struct pr_summary_span one = {.first_sequence = sequence,
		.segments = 1,
		.last_seq = last_seq,
		.packets = h->count};
	PR_COPY(&one, h, link, epoch, first_seq);
	PR_COPY(&one, h, first_otime, last_otime, min_time, max_time);
	pr_summary_span_unite(&z->span, &one);
	z->check = pri_segments_digest_add(z->check, sequence, proof);
	return add_held(z, h, sketch, last_seq);
}

bool
pri_summarizer_due(const struct pri_summarizer *z, size_t record_max)
{
	return z->span.segments >= PRI_SUMMARIZE_SEGMENTS ||
	       z->keys.count >= record_max / 4 || z->keys.count >= PR_SUMMARY_KEYS_MAX ||
	       pr_time_minus(z->span.max_time, z->span.min_time) >= PRI_SUMMARIZE_TIME_NS;
}

/* ---- the record ---- */

int
pri_summarizer_size(struct pri_summarizer *z, size_t *size)
{
	if (pri_range_builder_end(&z->stretch, &z->held, NULL) < 0)
		return -1;
	*size = pr_summary_size(z->keys.count, z->held.items, z->held.count);
	return 0;
}

size_t
pri_summarizer_write(struct pri_summarizer *z, size_t record_max, uint8_t *out)
{
	/* rest: bytes of a record that the signature leaves */
	size_t used = pr_summary_size(z->keys.count, NULL, 0), len,
	       rest = used < record_max ? record_max - used : 0;

	rest = PR_MIN(rest, PRI_SUMMARIZE_RUNS_MAX);
	len = pr_summary_write(&z->span, z->keys.items, z->keys.count, z->held.items,
		z->held.count, rest, out);
	pri_hashset_clear(&z->keys);
	pri_range_list_free(&z->held);
	z->span.segments = 0;
	return len;
}
