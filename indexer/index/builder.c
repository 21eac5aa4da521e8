/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/builder.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/index/segment_tables.h"
#include "indexer/index/level1.h"
#include "indexer/index/level2.h"
#include "indexer/index/segment_keys.h"
#include "indexer/index/summarize.h"
#include "proto/base/clock.h"
#include "proto/wire/segment.h"

/*
 * Records of the index that are finished and that their sink has not taken yet: one of each level. Memory is kept from
 * record to record. Zeroed is empty.
 */
#define PRI_OUTBOX_LEVELS 3

struct pri_outbox {
	struct {
		struct pri_index_record record; /* len 0: none */
		uint8_t *buf;
		size_t room;
	} level[PRI_OUTBOX_LEVELS];
};

/* Where it goes. */
static inline uint8_t *
pri_outbox_body(struct pri_outbox *box, int level)
{
	return box->level[level - 1].buf;
}

/* ---- records that wait for the sink ---- */

static void
outbox_free(struct pri_outbox *box)
{
	for (int i = 0; i < PRI_OUTBOX_LEVELS; i++)
		free(box->level[i].buf);
	*box = (struct pri_outbox){0};
}

/* Makes room for a body. false: no memory. */
static bool
outbox_room(struct pri_outbox *box, int level, size_t len)
{
	uint8_t *grown;

	if (len <= box->level[level - 1].room)
		return true;
	grown = realloc(box->level[level - 1].buf, len);
	if (!grown)
		return false;
	box->level[level - 1].buf = grown;
	box->level[level - 1].room = len;
	return true;
}

/* The record of what is there as its level's body; none of that level waits. */
static void
outbox_put(struct pri_outbox *box, const struct pri_index_record *record)
{
	int at = record->level - 1;

	box->level[at].record = *record;
	box->level[at].record.body = box->level[at].buf;
}

static bool
outbox_waits(const struct pri_outbox *box, int level)
{
	return box->level[level - 1].record.len != 0;
}

/* Level by level; counts those that the sink never takes. true: nothing waits any more. */
static bool
outbox_offer(struct pri_outbox *box, pri_index_sink sink, void *arg, uint64_t *dropped)
{
	for (int i = 0; i < PRI_OUTBOX_LEVELS; i++) {
		struct pri_index_record *r = &box->level[i].record;
		int rc = r->len ? sink(arg, r) : 0;

		if (rc == 1)
			return false;
		*dropped += rc < 0;
		r->len = 0;
	}
	return true;
}

/*
 * Segments of a slow link span more time than this; a batch of them may span days, and summaries must not.
 * So their keys go into the summary segment by segment, which on a fast link would cost too much.
 */
#define SLOW_NS PR_NS_PER_S

struct span {
	uint64_t first, check;
	int64_t min_time, max_time;
};

struct pri_builder {
	uint16_t link;
	size_t record_max;
	pri_index_sink sink;
	void *arg;
	struct pri_segment_keys sketch;
	struct pri_heavy_hitters tops;
	struct pri_level1_writer level1;
	struct pri_hashset wide; /* of the batch */
	struct pri_level2_writer level2;
	struct pri_summarizer summarizer; /* level 3 */
	struct span batch, group;
	size_t batch_bytes;
	bool slow; /* the batch: its summaries need not wait for its end */
	uint64_t next; /* sequence that would follow */
	uint64_t known; /* first sequence that has no level 1 yet */
	uint64_t grouped; /* and that has no level 2 */
	struct pri_outbox out;
	struct pr_summary_span sealed; /* of the one of level 3 that waits */
	struct pri_builder_figures figures;
};

struct pri_builder *
pri_builder_create(uint16_t link, size_t record_max, pri_index_sink sink, void *arg,
	struct pr_error *err)
{
	struct pri_builder *b = calloc(1, sizeof(*b));

	if (!b) {
		pr_error_set(err, "no memory for indexing");
		return NULL;
	}
	b->link = link;
	b->record_max = record_max;
	b->sink = sink;
	b->arg = arg;
	pri_heavy_hitters_clear(&b->tops);
	return b;
}

void
pri_builder_composites(struct pri_builder *b, const struct pri_composites *composites)
{
	b->sketch.composites = b->level1.composites = *composites;
}

void
pri_builder_destroy(struct pri_builder **builder)
{
	struct pri_builder *b = *builder;

	if (!b)
		return;
	pri_segment_keys_free(&b->sketch);
	pri_level1_free(&b->level1);
	pri_level2_free(&b->level2);
	pri_hashset_free(&b->wide);
	pri_summarizer_free(&b->summarizer);
	outbox_free(&b->out);
	free(b);
	*builder = NULL;
}

static int
no_memory(struct pr_error *err)
{
	return pr_error_set(err, "no memory for indexing");
}

void
pri_builder_resume(struct pri_builder *b, uint64_t level1, uint64_t level2)
{
	b->known = level1;
	b->grouped = level2;
}

/* ---- the sink ---- */

bool
pri_builder_offer(struct pri_builder *b)
{
	return outbox_offer(&b->out, b->sink, b->arg, &b->figures.dropped);
}

static void
put_out(struct pri_builder *b, int level, const struct span *span, uint32_t segments,
	size_t len)
{
	outbox_put(&b->out, &(struct pri_index_record){.link = b->link,
				    .level = (uint16_t)level,
				    .first_sequence = span->first,
				    .check = span->check,
				    .segments = segments,
				    .min_time = span->min_time,
				    .max_time = span->max_time,
				    .len = len});
}

/* ---- groups ---- */

static int
finish_group(struct pri_builder *b)
{
	size_t len = pri_level2_size(&b->level2);

	if (b->level2.columns < PRI_LEVEL2_COLUMNS_MIN) {
		pri_level2_begin(&b->level2);
		return 0;
	}
	if (!outbox_room(&b->out, 2, len))
		return -1;
	pri_level2_finish(&b->level2, b->link, pri_outbox_body(&b->out, 2));
	put_out(b, 2, &b->group, b->level2.segments, len);
	b->figures.level2_bytes += len;
	pri_level2_begin(&b->level2);
	return 0;
}

static void
widen(struct span *to, const struct span *by)
{
	if (by->min_time < to->min_time)
		to->min_time = by->min_time;
	if (by->max_time > to->max_time)
		to->max_time = by->max_time;
}

/* A column has its own check; the group's is over those of its columns. */
static void
extend_group(struct pri_builder *b)
{
	if (b->level2.columns == 1)
		b->group = (struct span){.first = b->batch.first,
			.min_time = b->batch.min_time,
			.max_time = b->batch.max_time};
	b->group.check =
		pri_segments_digest_add(b->group.check, b->batch.first, b->batch.check);
	widen(&b->group, &b->batch);
}

static int
add_column(struct pri_builder *b)
{
	const struct pri_level2_column column = {
		.check = b->batch.check, .segments = b->level1.segments};
	bool follows = !b->level2.columns ||
		       b->level2.first_sequence + b->level2.segments == b->batch.first;
	int rc = follows ? pri_level2_add(&b->level2, b->batch.first, &column,
				   b->wide.items, b->wide.count, b->record_max)
			 : 0;

	if (rc == 0) {
		if (finish_group(b) < 0)
			return -1;
		rc = pri_level2_add(&b->level2, b->batch.first, &column, b->wide.items,
			b->wide.count, b->record_max);
	}
	if (rc > 0)
		extend_group(b);
	return rc;
}

/* ---- summaries ---- */

/* Without bits of seqs it is short enough for any volume: those are what is left out, see there. */
static int
finish_summary(struct pri_builder *b)
{
	struct pri_summarizer *z = &b->summarizer;
	const struct span span = {.first = z->span.first_sequence,
		.check = z->check,
		.min_time = z->span.min_time,
		.max_time = z->span.max_time};
	size_t len;

	if (!z->span.segments)
		return 0;
	if (pri_summarizer_size(z, &len) < 0 || !outbox_room(&b->out, 3, len))
		return -1;
	b->sealed = z->span;
	len = pri_summarizer_write(z, b->record_max, pri_outbox_body(&b->out, 3));
	put_out(b, 3, &span, b->sealed.segments, len);
	b->figures.level3_bytes += len;
	return 0;
}

/* ---- batches ---- */

static void
finish_level1(struct pri_builder *b)
{
	struct pri_level1_top tops[PRI_LEVEL1_TOPS_MAX];
	struct pri_heavy_hitters *t = &b->tops;
	size_t len, count = pri_heavy_hitters_best(t, tops);

	len = pri_level1_finish(&b->level1, b->link, tops, count,
		t->packets_short < UINT32_MAX ? (uint32_t)t->packets_short : UINT32_MAX,
		t->bytes_short, pri_outbox_body(&b->out, 1));
	put_out(b, 1, &b->batch, b->level1.segments, len);
	b->figures.level1_bytes += len;
}

static int
finish_batch(struct pri_builder *b)
{
	if (!b->level1.segments)
		return 0;
	if (!outbox_room(&b->out, 1, pri_level1_size(&b->level1)) ||
		(b->next > b->grouped && add_column(b) < 0))
		return -1;
	if (b->next > b->known)
		finish_level1(b);
	b->figures.wide_keys += b->wide.count;
	b->figures.open = 0;
	b->batch_bytes = 0;
	pri_level1_begin(&b->level1);
	if (!b->slow && pri_summarizer_keys(&b->summarizer, &b->wide) < 0)
		return -1;
	pri_hashset_clear(&b->wide);
	pri_heavy_hitters_clear(&b->tops);
	return pri_summarizer_due(&b->summarizer, b->record_max) ? finish_summary(b) : 0;
}

static int
extend_batch(struct pri_builder *b, uint64_t sequence, uint64_t proof, size_t len)
{
	const struct pr_segment_header *h = &b->sketch.header;

	if (b->level1.segments == 1) {
		b->batch = (struct span){.first = sequence,
			.min_time = h->min_time,
			.max_time = h->max_time};
		b->slow = h->max_time - h->min_time >= SLOW_NS;
	}
	b->batch.check = pri_segments_digest_add(b->batch.check, sequence, proof);
	widen(&b->batch, &(struct span){.min_time = h->min_time, .max_time = h->max_time});
	b->batch_bytes += len;
	b->next = sequence + 1;
	b->figures.open = b->level1.segments;
	b->figures.segments++;
	b->figures.packets += h->count;
	b->figures.bytes += len;
	b->figures.keys += b->sketch.keys.count;
	if (b->slow && pri_summarizer_keys(&b->summarizer, &b->sketch.wide) < 0)
		return -1;
	return pri_summarizer_segment(&b->summarizer, sequence, proof, h, &b->sketch);
}

/* It does not follow the last one, or is of another epoch: then it is nobody's next. */
static bool
begins_anew(const struct pri_builder *b, uint64_t sequence, const void *body, size_t len)
{
	struct pr_segment_header h;

	if (!b->level1.segments && !b->summarizer.span.segments)
		return false;
	return sequence != b->next || (pr_segment_peek(body, len, &h, NULL) == 0 &&
					      h.epoch != b->summarizer.span.epoch);
}

static bool
batch_full(const struct pri_builder *b)
{
	return b->batch_bytes >= PRI_BUILDER_BATCH || b->wide.count >= PRI_BUILDER_KEYS ||
	       b->level1.segments == PRI_LEVEL1_SEGMENTS_MAX;
}

/* Into the batch; one that has no room for it is finished first. */
static int
put_segment(struct pri_builder *b, uint64_t sequence, uint64_t proof)
{
	int rc = pri_level1_add(&b->level1, sequence, proof, &b->sketch, b->record_max);

	if (rc == 0) {
		if (finish_batch(b) < 0)
			return -1;
		rc = pri_level1_add(&b->level1, sequence, proof, &b->sketch, b->record_max);
	}
	if (rc < 0)
		return -1;
	return pri_hashset_add_all(&b->wide, b->sketch.wide.items, b->sketch.wide.count);
}

/* The segment in the sketch. */
static int
add_sketch(struct pri_builder *b, uint64_t sequence, uint64_t proof, size_t len)
{
	if (put_segment(b, sequence, proof) < 0)
		return -1;
	pri_segment_keys_count_hosts(&b->sketch, &b->tops);
	if (extend_batch(b, sequence, proof, len) < 0)
		return -1;
	if (batch_full(b) && pri_builder_offer(b) && finish_batch(b) < 0)
		return -1;
	if (b->slow && pri_summarizer_due(&b->summarizer, b->record_max) &&
		pri_builder_offer(b) && finish_summary(b) < 0)
		return -1;
	pri_builder_offer(b);
	return 0;
}

int
pri_builder_add_shared(struct pri_builder *b, uint64_t sequence, uint64_t proof,
	const void *body, size_t len, bool (*whole)(void *arg), void *arg,
	struct pr_error *err)
{
	bool anew;
	int rc;

	if (!pri_builder_offer(b))
		return 0;
	anew = begins_anew(b, sequence, body, len);
	if (anew ||
		(b->level1.segments && (sequence == b->known || sequence == b->grouped))) {
		if (finish_batch(b) < 0 || (anew && finish_summary(b) < 0))
			return no_memory(err);
		if (!pri_builder_offer(b))
			return 0;
	}
	rc = pri_segment_keys_take(&b->sketch, body, len, err);
	if (rc < 0)
		return -1;
	if (whole && (rc > 0 || !whole(arg)))
		return 2;
	if (rc > 0) {
		b->figures.damaged++;
		return 1;
	}
	return add_sketch(b, sequence, proof, len) < 0 ? no_memory(err) : 1;
}

int
pri_builder_finish(struct pri_builder *b, enum pri_builder_end end, struct pr_error *err)
{
	if (!pri_builder_offer(b))
		return 0;
	if (finish_batch(b) < 0)
		return no_memory(err);
	if (!pri_builder_offer(b))
		return 0;
	if (end >= PRI_BUILDER_SUMMARY && finish_summary(b) < 0)
		return no_memory(err);
	if (end >= PRI_BUILDER_ALL && b->level2.columns && finish_group(b) < 0)
		return no_memory(err);
	return pri_builder_offer(b);
}

size_t
pri_builder_tail(const struct pri_builder *b, struct pr_summary_span out[2])
{
	size_t count = 0;

	if (outbox_waits(&b->out, 3))
		out[count++] = b->sealed;
	if (b->summarizer.span.segments)
		out[count++] = b->summarizer.span;
	return count;
}

const struct pri_builder_figures *
pri_builder_figures(const struct pri_builder *b)
{
	return &b->figures;
}
