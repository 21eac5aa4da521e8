/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/query_ahead.h"
#include "proto/wire/segment.h"

/* Segments that are given as they lie in the volume. */

#define WHOLE_MIN (PR_SEGMENT_TARGET / 16) /* smaller ones are better put together */
#define WHOLE_MAX (2 * (size_t)PR_SEGMENT_TARGET) /* what buffers on the way are made for */

/* Nothing of another lane or link comes before its end, and it is not what was given last. */
static bool
stands_alone(const struct pri_query *q, const struct pri_run_reader *r)
{
	const struct pri_run_reader *second = pr_heap_second(&q->heap);

	if (q->any_last && r->packet.seq == q->last_seq &&
		r->packet.epoch == q->last_epoch && r->packet.link == q->last_link)
		return false;
	return !second || r->reader.header.last_otime < second->packet.otime;
}

static bool
may_be_whole(const struct pri_query *q, const struct pri_run_reader *r)
{
	const struct pri_line *line = &q->lines[r->line];
	size_t len = r->entry.handle.length;

	return !line->run->strays && !q->spec.limit && !q->spec.relations &&
	       len >= WHOLE_MIN && len <= WHOLE_MAX &&
	       pri_bpf_set_all(&q->spec.programs, r->entry.linktype);
}

bool
pri_query_whole(struct pri_query *q)
{
	struct pri_run_reader *r;
	struct pri_line *line;

	pri_query_release(q);
	r = pr_heap_top(&q->heap);
	if (!r || !may_be_whole(q, r))
		return false;
	line = &q->lines[r->line];
	if (!r->open) {
		pri_query_move_on(q, pri_query_open(q, r, NULL) > 0);
		if (pr_heap_top(&q->heap) != r)
			return false;
	}
	return pri_run_reader_untouched(r, &line->bounds) &&
	       r->reader.header.linktype == r->entry.linktype && stands_alone(q, r);
}

static int
account_whole(struct pri_query *q, const struct pri_run_reader *r, struct pr_error *err)
{
	struct pri_line *line = &q->lines[r->line];
	struct pr_segment_reader reader = r->reader;
	struct pr_packet p = r->packet;

	do
		if (pri_query_account(q, line, &p, err) < 0)
			return -1;
	while (pr_segment_next(&reader, &p, NULL) == 1);
	return 0;
}

int
pri_query_take_whole(struct pri_query *q, const uint8_t **body, size_t *len,
	struct pri_read_buffer **buffer, struct pr_error *err)
{
	struct pri_run_reader *r = pr_heap_top(&q->heap);
	struct pri_line *line = &q->lines[r->line];
	uint32_t count = r->reader.header.count;
	struct pr_packet last;

	r->distrusted = !pri_run_reader_prove(r, &line->bounds, &last);
	if (r->distrusted)
		return 0;
	if (account_whole(q, r, err) < 0)
		return -1;
	pri_query_same_as_last(q, &last);
	q->figures.scanned_packets += count;
	q->figures.matched += count;
	*body = r->body;
	*len = r->entry.handle.length;
	*buffer = &r->buffer;
	q->spent = r;
	pri_query_move_on(q, pri_run_reader_pass(r, &line->bounds, &q->lane_figures));
	return 1;
}
