/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/builder.h"

#include "indexer/index/summarize.h"

/*
 * On a slow link a segment spans more time than SLOW_NS, so a batch may span days, which a
 * summary must not. There the keys go into the summary segment by segment. On a fast link
 * that would cost too much.
 */
#define SLOW_NS PR_NS_PER_S
#define LEVELS 3

/*
 * A finished record that the sink has not taken yet. Its memory is reused for later
 * records.
 */
struct waiting {
	struct pr_index_record record; /* len 0: none */
	uint8_t *buf;
	size_t room;
};

struct pri_builder {
	uint16_t link;
	size_t record_max;
	pri_index_sink sink;
	void *arg;
	struct pri_segment_keys segment;
	struct pr_tally *hitters; /* the addresses with the most bytes */
	struct pri_level1_writer level1;
	struct pri_hashset wide; /* keys of the batch, for level 2 */
	struct pri_level2_writer level2;
	struct pri_summarizer summarizer; /* level 3 */
	struct pr_index_record batch, columns; /* the open records of levels 1 and 2 */
	size_t batch_bytes;
	bool slow; /* the batch is of a slow link: summaries may end within it */
	uint64_t next; /* sequence of the next segment */
	uint64_t first_without_level1, first_without_level2;
	struct waiting waiting[LEVELS];
	struct pri_builder_figures figures;
};

static int
no_memory(struct pr_error *err)
{
	return pr_error_set(err, "no memory for indexing");
}

struct pri_builder *
pri_builder_create(uint16_t link, size_t record_max, pri_index_sink sink, void *arg,
	struct pr_error *err)
{
	struct pri_builder *b = calloc(1, sizeof(*b));

	if (b)
		b->hitters = pr_tally_create(false, false, PRI_LEVEL1_HITTERS, err);
	if (!b || !b->hitters) {
		free(b);
		return pr_error_null(err, "no memory for indexing");
	}
	b->link = link;
	b->record_max = record_max;
	b->sink = sink;
	b->arg = arg;
	return b;
}

void
pri_builder_composites(struct pri_builder *b, const struct pri_composites *composites)
{
	b->segment.composites = b->level1.composites = *composites;
}

void
pri_builder_destroy(struct pri_builder **builder)
{
	struct pri_builder *b = PR_TAKE(builder);

	if (!b)
		return;
	pri_segment_keys_free(&b->segment);
	pri_level1_free(&b->level1);
	pri_level2_free(&b->level2);
	pri_hashset_free(&b->wide);
	pr_tally_destroy(&b->hitters);
	pri_summarizer_free(&b->summarizer);
	for (int i = 0; i < LEVELS; i++)
		free(b->waiting[i].buf);
	free(b);
}

void
pri_builder_resume(struct pri_builder *b, uint64_t level1, uint64_t level2)
{
	b->first_without_level1 = level1;
	b->first_without_level2 = level2;
}

/* ---- the sink ---- */

bool
pri_builder_offer(struct pri_builder *b)
{
	for (int i = 0; i < LEVELS; i++) {
		struct pr_index_record *r = &b->waiting[i].record;

		if (r->len && b->sink(b->arg, r) == 1)
			return false;
		r->len = 0;
	}
	return true;
}

/* Memory for a record's body; no record of this level may be waiting. NULL: no memory. */
static uint8_t *
body_of(struct pri_builder *b, int level, size_t len)
{
	struct waiting *w = &b->waiting[level - 1];

	return PR_ARRAY_RESERVE(w->buf, w->room, len) < 0 ? NULL : w->buf;
}

/* Makes a record with the body in this memory wait for the sink. */
static void
put_out(struct pri_builder *b, int level, const struct pr_index_record *record, size_t len)
{
	struct waiting *w = &b->waiting[level - 1];

	w->record = *record;
	w->record.link = b->link;
	w->record.level = level;
	w->record.body = w->buf;
	w->record.len = len;
	b->figures.index_bytes += level < 3 ? len : 0;
}

/* ---- level 2 ---- */

static int
finish_level2(struct pri_builder *b)
{
	size_t len = pri_level2_size(&b->level2);

	if (b->level2.columns >= PRI_LEVEL2_COLUMNS_MIN) {
		uint8_t *body = body_of(b, 2, len);
		if (!body)
			return -1;
		pri_level2_finish(&b->level2, b->link, body);
		b->columns.segments = b->level2.segments;
		put_out(b, 2, &b->columns, len);
	}
	pri_level2_begin(&b->level2);
	return 0;
}

/*
 * Adds the batch to level 2 as a column with its own digest. The digest of the record is
 * made of those of its columns.
 */
static int
add_column(struct pri_builder *b)
{
	const struct pri_level2_column column = {
		.check = b->batch.check, .segments = b->level1.segments};
	bool follows =
		!b->level2.columns ||
		b->level2.first_sequence + b->level2.segments == b->batch.first_sequence;
	int rc = 0;

	for (int i = follows ? 0 : 1; i < 2 && rc == 0; i++) {
		if (i == 1 && finish_level2(b) < 0)
			return -1;
		rc = pri_level2_add(&b->level2, b->batch.first_sequence, &column,
			b->wide.items, b->wide.count, b->record_max);
	}
	if (rc <= 0)
		return rc;
	if (b->level2.columns == 1) {
		b->columns = b->batch;
		b->columns.check = 0;
	}
	b->columns.check = pri_segments_digest_add(
		b->columns.check, b->batch.first_sequence, b->batch.check);
	pr_time_widen(&b->columns.min_time, &b->columns.max_time, b->batch.min_time,
		b->batch.max_time);
	return rc;
}

/* ---- level 3 ---- */

/*
 * Finishes the summary. If it is too long for the volume, pri_summarizer_write leaves out
 * the held seqs; without them it always fits.
 */
static int
finish_summary(struct pri_builder *b)
{
	struct pri_summarizer *z = &b->summarizer;
	const struct pr_index_record record = {.first_sequence = z->span.first_sequence,
		.check = z->check,
		.segments = z->span.segments,
		.min_time = z->span.min_time,
		.max_time = z->span.max_time};
	size_t len;

	if (!z->span.segments)
		return 0;
	uint8_t *body = pri_summarizer_size(z, &len) < 0 ? NULL : body_of(b, 3, len);
	if (!body)
		return -1;
	len = pri_summarizer_write(z, b->record_max, body);
	put_out(b, 3, &record, len);
	return 0;
}

/* ---- level 1 ---- */

static int
finish_batch(struct pri_builder *b)
{
	if (!b->level1.segments)
		return 0;
	uint8_t *body = body_of(b, 1, pri_level1_size(&b->level1));
	if (!body || (b->next > b->first_without_level2 && add_column(b) < 0))
		return -1;
	if (b->next > b->first_without_level1) {
		size_t len = pri_level1_finish(&b->level1, b->link, b->hitters, body);
		b->batch.segments = b->level1.segments;
		put_out(b, 1, &b->batch, len);
	}
	b->figures.open = 0;
	b->batch_bytes = 0;
	pri_level1_begin(&b->level1);
	if (!b->slow && pri_hashset_add_all(&b->summarizer.keys, &b->wide) < 0)
		return -1;
	pri_hashset_clear(&b->wide);
	pr_tally_clear(b->hitters);
	return pri_summarizer_due(&b->summarizer, b->record_max) ? finish_summary(b) : 0;
}

/*
 * Adds the segment whose keys were taken to the batch. If the batch has no room for it,
 * finishes the batch first.
 */
static int
put_segment(struct pri_builder *b, uint64_t sequence, uint64_t proof, size_t len)
{
	const struct pri_segment_keys *s = &b->segment;
	const struct pr_segment_header *h = &s->header;
	int rc = pri_level1_add(&b->level1, sequence, proof, s, b->record_max);

	if (rc == 0) {
		if (finish_batch(b) < 0)
			return -1;
		rc = pri_level1_add(&b->level1, sequence, proof, s, b->record_max);
	}
	if (rc < 0 || pri_hashset_add_all(&b->wide, &s->wide) < 0)
		return -1;
	for (const struct pri_host_stats *a = s->hosts.items;
		a < s->hosts.items + s->hosts.count; a++)
		if (pr_tally_add(
			    b->hitters, a->bytes, a->len, a->packets, a->traffic, NULL) < 0)
			return -1;
	if (b->level1.segments == 1) {
		b->batch = (struct pr_index_record){.first_sequence = sequence,
			.min_time = h->min_time,
			.max_time = h->max_time};
		b->slow = pr_time_minus(h->max_time, h->min_time) >= SLOW_NS;
	}
	b->batch.check = pri_segments_digest_add(b->batch.check, sequence, proof);
	pr_time_widen(&b->batch.min_time, &b->batch.max_time, h->min_time, h->max_time);
	b->batch_bytes += len;
	b->next = sequence + 1;
	b->figures.open = b->level1.segments;
	b->figures.segments++;
	b->figures.packets += h->count;
	b->figures.bytes += len;
	b->figures.keys += s->keys.count;
	if ((b->slow && pri_hashset_add_all(&b->summarizer.keys, &s->wide) < 0) ||
		pri_summarizer_segment(&b->summarizer, sequence, proof, h, s) < 0)
		return -1;
	if ((b->batch_bytes >= PRI_BUILDER_BATCH || b->wide.count >= PRI_BUILDER_KEYS ||
		    b->level1.segments == PRI_LEVEL1_SEGMENTS_MAX) &&
		pri_builder_offer(b) && finish_batch(b) < 0)
		return -1;
	if (b->slow && pri_summarizer_due(&b->summarizer, b->record_max) &&
		pri_builder_offer(b) && finish_summary(b) < 0)
		return -1;
	pri_builder_offer(b);
	return 0;
}

int
pri_builder_add_shared(struct pri_builder *b, uint64_t sequence, uint64_t proof,
	const void *body, size_t len, bool (*still_valid)(void *arg), void *arg,
	struct pr_error *err)
{
	struct pr_segment_header h;

	if (!pri_builder_offer(b))
		return 0;
	/* the segment does not follow the last one, or is of another epoch */
	bool anew = (b->level1.segments || b->summarizer.span.segments) &&
		    (sequence != b->next || (pr_segment_peek(body, len, &h, NULL) == 0 &&
						    h.epoch != b->summarizer.span.epoch));
	if (anew || (b->level1.segments && (sequence == b->first_without_level1 ||
						   sequence == b->first_without_level2))) {
		if (finish_batch(b) < 0 || (anew && finish_summary(b) < 0))
			return no_memory(err);
		if (!pri_builder_offer(b))
			return 0;
	}
	int rc = pri_segment_keys_take(&b->segment, body, len, err);
	if (rc < 0)
		return -1;
	if (still_valid && (rc > 0 || !still_valid(arg)))
		return 2;
	if (rc > 0) {
		b->figures.damaged++;
		return 1;
	}
	return put_segment(b, sequence, proof, len) < 0 ? no_memory(err) : 1;
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
	if (end >= PRI_BUILDER_ALL && b->level2.columns && finish_level2(b) < 0)
		return no_memory(err);
	return pri_builder_offer(b);
}

size_t
pri_builder_tail(const struct pri_builder *b, struct pr_summary_span out[2])
{
	const struct pr_index_record *sealed = &b->waiting[2].record;
	size_t count = sealed->len &&
		       pr_summary_peek(&out[0], sealed->body, sealed->len, NULL) == 0;

	if (b->summarizer.span.segments)
		out[count++] = b->summarizer.span;
	return count;
}

const struct pri_builder_figures *
pri_builder_figures(const struct pri_builder *b)
{
	return &b->figures;
}
