/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/prune_batch.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/index/index_key.h"
#include "indexer/filter/plan.h"
#include "indexer/query/prune_read.h"
#include "proto/base/cursor.h"

#define SHORT 10240 /* not longer: read as a whole, two parts would cost as much */
#define PARTS_MAX 4 /* pages, of one record: who wants more reads all of it */
#define PAGES_GUESSED 64 /* a record of more has a longer head than what is read at first */
#define ASKED 32 /* keys that are remembered */

enum { NONE, HEAD, WHOLE };
enum { UNKNOWN, DAMAGED, READ };

struct pri_prune_batch {
	uint16_t link;
	struct pri_prune_reader read;
	/* the record at hand */
	uint64_t tried; /* its first sequence; also when it cannot be used */
	int have; /* NONE, HEAD, WHOLE */
	struct pri_level1 level1;
	struct pri_read_buffer head, part, whole;
	size_t pages_at; /* in the record */
	uint8_t *pages; /* those that were read, in their places */
	size_t pages_room;
	uint8_t state[PRI_LEVEL1_PAGES_MAX]; /* of each page */
	unsigned parts; /* pages that were read */
	/* what was asked of it lately */
	struct {
		uint64_t signature;
		uint64_t segments;
	} asked[ASKED];
	unsigned asked_count;
	/* the plan at hand */
	const struct pri_plan *plan;
	size_t ranks[PRI_RANKS]; /* keys that are worth asking for */
};

struct pri_prune_batch *
pri_prune_batch_create(
	struct pri_volume *view, uint16_t link, struct pri_prune_stats *figures)
{
	struct pri_prune_batch *b = calloc(1, sizeof(*b));

	if (b) {
		b->link = link;
		b->read.view = view;
		b->read.figures = figures;
	}
	return b;
}

void
pri_prune_batch_destroy(struct pri_prune_batch **batch)
{
	struct pri_prune_batch *b = *batch;

	if (!b)
		return;
	free(b->head.bytes);
	free(b->part.bytes);
	free(b->whole.bytes);
	free(b->pages);
	free(b);
	*batch = NULL;
}

const struct pri_level1 *
pri_prune_batch_record(const struct pri_prune_batch *b)
{
	return &b->level1;
}

/* ---- reading ---- */

static bool
fits(const struct pri_level1 *l, uint16_t link, const struct pri_index_ref *ref)
{
	return l->link == link && l->first_sequence == ref->first_sequence &&
	       l->segments == ref->segments;
}

/* What is not as it should be is counted, unless it is no longer there. */
static bool
damaged(struct pri_prune_batch *b)
{
	b->read.figures->damaged += !b->read.expired;
	return false;
}

static bool
read_whole(struct pri_prune_batch *b)
{
	size_t len = b->read.handle.length;
	const uint8_t *body = pri_prune_read_whole(&b->read, &b->whole);

	b->have = NONE;
	if (!body || pri_level1_open(&b->level1, body, len, len, NULL) < 0)
		return false;
	b->have = WHOLE;
	return true;
}

static bool
prepare_pages(struct pri_prune_batch *b)
{
	size_t len, end = pri_level1_page_at(&b->level1, b->level1.pages, &len);
	uint8_t *grown;

	b->pages_at = pri_level1_head(b->level1.segments, b->level1.pages);
	len = end - b->pages_at;
	if (len > b->pages_room) {
		grown = realloc(b->pages, len);
		if (!grown)
			return false;
		b->pages = grown;
		b->pages_room = len;
	}
	memset(b->state, UNKNOWN, b->level1.pages);
	b->parts = 0;
	return true;
}

/* The length of the head stands in its beginning. */
static const uint8_t *
read_head_of(struct pri_prune_batch *b, const struct pri_index_ref *ref, size_t *len)
{
	const uint8_t *at;

	*len = pri_level1_head(ref->segments, PAGES_GUESSED);
	if (*len > b->read.handle.length)
		*len = b->read.handle.length;
	at = *len > PRI_LEVEL1_HEADER ? pri_prune_read_part(&b->read, 0, *len, &b->head)
				      : NULL;
	if (!at || pri_level1_head_of(at) <= *len ||
		pri_level1_head_of(at) > b->read.handle.length)
		return at;
	*len = pri_level1_head_of(at);
	return pri_prune_read_part(&b->read, 0, *len, &b->head);
}

static bool
read_head(struct pri_prune_batch *b, const struct pri_index_ref *ref)
{
	const uint8_t *at;
	size_t len;

	b->have = NONE;
	at = read_head_of(b, ref, &len);
	if (!at || pri_level1_open(&b->level1, at, len, b->read.handle.length, NULL) < 0 ||
		!prepare_pages(b))
		return false;
	b->have = HEAD;
	return true;
}

static bool
take(struct pri_prune_batch *b, const struct pri_index_ref *ref, bool whole)
{
	bool same = b->tried == ref->first_sequence &&
		    b->read.handle.proof == ref->handle.proof;

	if (same && (b->have != HEAD || !whole))
		return b->have != NONE;
	b->tried = ref->first_sequence;
	b->read.handle = ref->handle;
	b->asked_count = 0;
	whole = whole || b->read.handle.length <= SHORT;
	if ((whole ? read_whole(b) : read_head(b, ref)) && fits(&b->level1, b->link, ref))
		return true;
	b->have = NONE;
	return damaged(b);
}

bool
pri_prune_batch_find(struct pri_prune_batch *b, const struct pri_index_stream *known,
	const struct pri_segment_entry *entry, bool whole, struct pri_level1_segment *out,
	bool *worked)
{
	const struct pri_index_ref *ref = pri_index_find(known, 1, entry->sequence);
	uint64_t reads = b->read.figures->reads, index;
	bool found;

	if (!ref)
		return false;
	found = take(b, ref, whole);
	*worked |= b->read.figures->reads != reads;
	index = entry->sequence - b->level1.first_sequence;
	if (!found || entry->sequence < b->level1.first_sequence ||
		index >= b->level1.segments)
		return false;
	pri_level1_get(&b->level1, (unsigned)index, out);
	return out->proof == entry->handle.proof;
}

static void
read_page(struct pri_prune_batch *b, uint32_t number, size_t offset, size_t len)
{
	const uint8_t *at = pri_prune_read_part(&b->read, offset, len, &b->part);

	b->parts++;
	b->state[number] = DAMAGED;
	if (at && pri_level1_page_valid(&b->level1, number, at, len)) {
		memcpy(b->pages + (offset - b->pages_at), at, len);
		b->state[number] = READ;
	}
	if (b->state[number] == DAMAGED)
		damaged(b);
}

/* In place of the head that was read, if it is of the same record. */
static void
read_rest(struct pri_prune_batch *b)
{
	uint64_t check = b->level1.check;

	if (read_whole(b) && b->level1.check == check)
		return;
	b->have = NONE;
	damaged(b);
}

/* NULL: it cannot be read, and says nothing. */
static const uint8_t *
page(struct pri_prune_batch *b, uint32_t number, size_t *len)
{
	size_t offset;

	if (b->have == HEAD && b->state[number] == UNKNOWN && b->parts == PARTS_MAX)
		read_rest(b);
	if (b->have == NONE)
		return NULL;
	offset = pri_level1_page_at(&b->level1, number, len);
	if (b->have == WHOLE)
		return b->level1.body + offset;
	if (b->state[number] == UNKNOWN)
		read_page(b, number, offset, *len);
	return b->state[number] == READ ? b->pages + (offset - b->pages_at) : NULL;
}

/* Which segments have the key, or may have it. */
static uint64_t
having(struct pri_prune_batch *b, uint64_t signature)
{
	unsigned at = b->asked_count % ASKED;
	const uint8_t *bytes;
	size_t len;

	for (unsigned i = 0; i < b->asked_count && i < ASKED; i++)
		if (b->asked[i].signature == signature)
			return b->asked[i].segments;
	bytes = page(b, pri_level1_page_of(&b->level1, signature), &len);
	if (!bytes)
		return UINT64_MAX;
	b->asked[at].signature = signature;
	b->asked[at].segments = pri_level1_find(&b->level1, signature, bytes, len);
	b->asked_count++;
	return b->asked[at].segments;
}

/* ---- the plan ---- */

struct question {
	struct pri_prune_batch *batch;
	const struct pri_level1_segment *segment;
	unsigned rank; /* keys up to this rank are asked for */
};

static bool
test(struct question *q, const struct pri_key *key)
{
	uint64_t signatures[PRI_SIGNATURES_MAX], have = 0;
	bool has = true;
	size_t count;

	if (!q->segment->keyed || pri_level1_item_has(q->segment, key, &has))
		return has;
	count = pri_key_signatures(key, signatures);
	for (size_t i = 0; i < count; i++)
		have |= having(q->batch, signatures[i]);
	return have >> q->segment->index & 1;
}

static bool
has_key(void *arg, const struct pri_key *key)
{
	struct question *q = arg;
	bool address = key->kind == PRI_KEY_SRC || key->kind == PRI_KEY_DST;
	unsigned rank = pri_key_rank(key);

	if (rank > q->rank || !q->batch->ranks[rank])
		return true;
	if (address && key->len == 4 &&
		!pri_level1_has_range(q->segment, PRI_NUMBER_SRC4, pr_get_be32(key->bytes),
			pr_get_be32(key->bytes)))
		return false;
	return test(q, key);
}

/* The record's composites of which the filter fixes all parts; last of all. */
static bool
has_parts(void *arg, const struct pri_key *parts)
{
	struct question *q = arg;
	struct pri_key key;

	if (q->rank < PRI_RANKS - 1)
		return true;
	for (size_t i = 0; i < PRI_COMPOSITES_MAX; i++)
		if (pri_key_composite(parts, q->segment->composites[i], &key) &&
			!test(q, &key))
			return false;
	return true;
}

static bool
has_range(void *arg, const struct pri_plan_range *r)
{
	struct question *q = arg;
	unsigned ports = pri_plan_range_ports(r);
	struct pri_key key;

	if (!pri_level1_has_range(q->segment, r->number, r->least, r->most))
		return false;
	if (q->rank < PRI_RANK_PORTS || !ports)
		return true;
	for (unsigned i = 0; i < ports; i++) {
		key = pri_plan_range_port(r, i);
		if (test(q, &key))
			return true;
	}
	return false;
}

/* Rank by rank: what is asked for first leaves little to be asked about. */
bool
pri_prune_batch_may(struct pri_prune_batch *b, const struct pri_level1_segment *segment,
	const struct pri_plan *plan, uint8_t *scratch)
{
	struct question question = {.batch = b, .segment = segment};
	const struct pri_plan_index index = {.has_key = has_key,
		.has_range = has_range,
		.has_parts = has_parts,
		.arg = &question};

	if (b->plan != plan)
		pri_plan_ranks(plan, b->ranks, scratch);
	b->plan = plan;
	for (unsigned *rank = &question.rank; *rank < PRI_RANKS; ++*rank)
		if ((b->ranks[*rank] || *rank == PRI_RANKS - 1) &&
			!pri_plan_holds(plan, &index, scratch))
			return false;
	return true;
}
