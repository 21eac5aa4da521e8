/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/prune.h"

#include <time.h>

#include "proto/base/thread.h"

/* Sections: sets of columns, reading records, level 2, level 1, asking a plan, plans, the verdict. */

#define PLAN_AT_ONCE 1000 /* instructions: about a millisecond */
/* Nodes of the longest plan that is asked, a few milliseconds a record: else all is read. */
#define PLAN_ASKED_MAX 65536
#define PLAN_LONG 2048 /* nodes: asking such a plan takes as long as a read */

#define SECTOR 4096u
/* Bytes. A record up to this length is read as a whole: two parts would cost as much. */
#define SHORT_RECORD 10240
/* pages of one record that are read singly; for more, the whole record is read */
#define PARTS_MAX 4
/* a record with more pages has a longer head than is read at first */
#define PAGES_GUESSED 64
/*
 * About how many bytes must be read to look into a record of level 1 (LEVEL1_COST), and to
 * look up a key in level 2 (KEY_COST).
 */
#define LEVEL1_COST 11264
#define KEY_COST (PRI_SLICES_PAGES * PRI_SLICES_PAGE)

/* ---- sets of columns: records of level 1 (for level 2), or segments (for level 1) ---- */

#define WORDS ((PRI_LEVEL2_VECTOR + 7) / 8)

struct columns {
	uint64_t w[WORDS];
};

_Static_assert(PRI_LEVEL1_SEGMENTS_MAX <= 64, "the segments of a record are one word");

static struct columns
first_columns(unsigned count)
{
	struct columns c = {{0}};

	for (unsigned i = 0; i < count; i++)
		c.w[i / 64] |= UINT64_C(1) << i % 64;
	return c;
}

static bool
has_column(const struct columns *c, unsigned column)
{
	return c->w[column / 64] >> column % 64 & 1;
}

static size_t
count_columns(const struct columns *c)
{
	size_t count = 0;

	for (unsigned i = 0; i < WORDS; i++)
		count += __builtin_popcountll(c->w[i]);
	return count;
}

#define COLUMNS_OF(name, op)                                                               \
	static struct columns name(struct columns a, struct columns b)                     \
	{                                                                                  \
		for (unsigned i = 0; i < WORDS; i++)                                       \
			a.w[i] = a.w[i] op b.w[i];                                         \
		return a;                                                                  \
	}
COLUMNS_OF(both, &)
COLUMNS_OF(either, |)
COLUMNS_OF(without, &~)

/* ---- types ---- */

enum { UNKNOWN, DAMAGED, READ };

/* A record of the index: its head, and those of its pages that were asked for. */
struct record {
	uint64_t first_sequence; /* also of a record that cannot be used */
	struct sfs_handle handle;
	bool usable;
	struct pri_read_buffer head, part, whole;
	uint8_t *pages; /* the pages that were read, each at its offset minus pages_at */
	size_t pages_at, pages_capacity;
	uint8_t *state; /* of each page */
	size_t state_capacity;
	unsigned parts; /* pages that were read one by one */
	/* the last read found it overwritten or deleted, which is no damage */
	bool expired;
};

/*
 * What is known of a plan's node: sets of columns. asked: about these it was asked; value:
 * of these, it may hold; now: about these it is being asked.
 */
struct node {
	struct columns asked, value, now;
};

/* A plan that is asked of the stream's record of this level. */
struct inquiry {
	struct stream *stream;
	unsigned level;
	const struct pri_plan *plan; /* NULL: none yet */
	struct node *nodes;
	size_t capacity;
	size_t ranks[PRI_RANKS]; /* number of keys of each rank */
	unsigned rank; /* keys up to this rank are asked for */
	struct columns asked, may;
};

/* The index of one stream. */
struct stream {
	struct pri_prune *prune;
	uint16_t link;
	struct record record1, record2;
	struct inquiry inquiry1, inquiry2;
	struct pri_level1 level1;
	struct pri_level1_segment segments[PRI_LEVEL1_SEGMENTS_MAX];
	struct pri_level2 level2;
	uint64_t starts[PRI_LEVEL2_COLUMNS_MAX + 1]; /* sequences */
	/* READ: the column is about segments that the volume still has; DAMAGED: not. */
	uint8_t proven[PRI_LEVEL2_COLUMNS_MAX];
};

struct pri_prune {
	struct pri_volume *volume;
	struct pr_bpf_set *programs;
	struct planning *planning; /* NULL: the plans are there */
	uint64_t long_asked; /* times that a long plan was asked */
	struct pri_plans plans;
	uint8_t *scratch; /* for the longest plan */
	struct stream **streams;
	size_t count;
	Packrack__End *stats;
};

/* ---- reading records ---- */

static const uint8_t *
count_read(struct pri_prune *p, struct record *r, uint64_t bytes, int rc, const uint8_t *at)
{
	p->stats->index_reads++;
	p->stats->index_bytes += bytes;
	r->expired = rc == SFS_EXPIRED || rc == SFS_DELETED;
	return rc == SFS_OK ? at : NULL;
}

static const uint8_t *
read_part(struct pri_prune *p, struct record *r, size_t offset, size_t len,
	struct pri_read_buffer *buffer)
{
	size_t from = (size_t)r->handle.offset + r->handle.header + offset;
	uint64_t sectors = (from + len - 1) / SECTOR - from / SECTOR + 1;
	const uint8_t *at = NULL;
	int rc = pri_volume_read_part(p->volume, &r->handle, offset, len, buffer, &at);

	return count_read(p, r, sectors * SECTOR, rc, at);
}

/* Counts a damaged record, unless it was overwritten or deleted. Returns false. */
static bool
damaged(struct pri_prune *p, const struct record *r)
{
	p->stats->index_damaged += !r->expired;
	return false;
}

static bool
is_at(const struct record *r, const struct pri_index_ref *ref)
{
	return r->first_sequence == ref->first_sequence &&
	       r->handle.proof == ref->handle.proof;
}

static bool
prepare_pages(struct record *r, size_t count, size_t from, size_t to)
{
	if (PR_ARRAY_RESERVE(r->pages, r->pages_capacity, to - from) < 0 ||
		PR_ARRAY_RESERVE(r->state, r->state_capacity, count + 1) < 0)
		return false;
	memset(r->state, UNKNOWN, count);
	r->pages_at = from;
	r->parts = 0;
	return true;
}

static void
free_record(struct record *r)
{
	PR_FREE(r, head.bytes, part.bytes, whole.bytes, pages, state);
}

/* ---- level 2: records of level 1 are its columns ---- */

static bool
take_level2(struct stream *s, const struct pri_index_ref *ref)
{
	struct record *r = &s->record2;
	struct pri_level2 *l = &s->level2;
	size_t len = PR_MIN(ref->handle.length, PRI_LEVEL2_HEAD_MAX);

	if (is_at(r, ref))
		return r->usable;
	PR_COPY(r, ref, first_sequence, handle);
	s->inquiry2.plan = NULL;
	const uint8_t *at = read_part(s->prune, r, 0, len, &r->head);
	r->usable = at && pri_level2_open(l, at, len, ref->handle.length, NULL) == 0 &&
		    l->link == s->link && l->first_sequence == ref->first_sequence &&
		    l->segments == ref->segments &&
		    prepare_pages(r, l->pages, pri_level2_page_at(l, 0),
			    pri_level2_page_at(l, l->pages));
	if (!r->usable)
		return damaged(s->prune, r);
	s->starts[0] = l->first_sequence;
	for (unsigned i = 0; i < l->columns; i++)
		s->starts[i + 1] = s->starts[i] + l->column[i].segments;
	memset(s->proven, UNKNOWN, sizeof s->proven);
	return true;
}

static void
keep_page2(struct stream *s, uint32_t number, const uint8_t *bytes)
{
	struct record *r = &s->record2;

	r->state[number] =
		bytes && pri_level2_page_valid(&s->level2, number, bytes) ? READ : DAMAGED;
	if (r->state[number] == READ)
		memcpy(r->pages + (size_t)number * PRI_SLICES_PAGE, bytes, PRI_SLICES_PAGE);
	else
		damaged(s->prune, r);
}

static struct columns
apply_key2(struct stream *s, const struct pri_key *key)
{
	struct record *r = &s->record2;
	uint8_t vector[PRI_LEVEL2_VECTOR];
	struct columns c = {{0}};

	memset(vector, 0xff, sizeof vector);
	for (unsigned i = 0; i < PRI_SLICES_PAGES; i++) {
		struct pri_slice_walk walk =
			pri_slice_walk_begin(pri_key_hash(key), i, s->level2.pages);
		uint32_t number = walk.page;

		if (r->state[number] == UNKNOWN)
			keep_page2(s, number,
				read_part(s->prune, r,
					pri_level2_page_at(&s->level2, number),
					PRI_SLICES_PAGE, &r->part));
		if (r->state[number] == READ) /* else it excludes nothing */
			pri_level2_apply(&s->level2, walk,
				r->pages + (size_t)number * PRI_SLICES_PAGE, vector);
	}
	for (unsigned i = 0; i < PRI_LEVEL2_VECTOR; i++)
		c.w[i / 8] |= (uint64_t)vector[i] << i % 8 * 8;
	return both(c, first_columns(s->level2.columns));
}

/* ---- level 1: segments are its columns ---- */

static bool
read_head1(struct stream *s, const struct pri_index_ref *ref)
{
	struct record *r = &s->record1;
	struct pri_level1 *l = &s->level1;
	size_t len = pri_level1_head(ref->segments, PAGES_GUESSED), last;

	len = PR_MIN(len, r->handle.length);
	const uint8_t *at =
		len > PRI_LEVEL1_HEADER ? read_part(s->prune, r, 0, len, &r->head) : NULL;
	/* the beginning of the head contains its length */
	if (at && pri_level1_head_of(at) > len &&
		pri_level1_head_of(at) <= r->handle.length) {
		len = pri_level1_head_of(at);
		at = read_part(s->prune, r, 0, len, &r->head);
	}
	return at && pri_level1_open(l, at, len, r->handle.length, NULL) == 0 &&
	       prepare_pages(r, l->pages, pri_level1_head(l->segments, l->pages),
		       pri_level1_page_at(l, l->pages, &last));
}

static bool
read_whole1(struct stream *s)
{
	struct record *r = &s->record1;
	size_t len = r->handle.length;
	const uint8_t *body = NULL;
	int rc = pri_volume_read_record(s->prune->volume, &r->handle, &r->whole, &body);

	body = count_read(s->prune, r, len, rc, body);
	return body && pri_level1_open(&s->level1, body, len, len, NULL) == 0;
}

/* whole: read the whole record, as the series and the held seqs are needed. */
static bool
take_level1(struct stream *s, const struct pri_index_ref *ref, bool whole)
{
	struct record *r = &s->record1;
	struct pri_level1 *l = &s->level1;

	if (is_at(r, ref) && (!r->usable || l->whole || !whole))
		return r->usable;
	PR_COPY(r, ref, first_sequence, handle);
	s->inquiry1.plan = NULL;
	r->usable = (whole || r->handle.length <= SHORT_RECORD ? read_whole1(s)
							       : read_head1(s, ref)) &&
		    l->link == s->link && l->first_sequence == ref->first_sequence &&
		    l->segments == ref->segments;
	if (!r->usable)
		return damaged(s->prune, r);
	for (unsigned i = 0; i < l->segments; i++)
		pri_level1_get(l, i, &s->segments[i]);
	return true;
}

/* NULL: level 1 knows nothing of the segment. */
static const struct pri_level1_segment *
find_segment(struct stream *s, const struct pri_index_stream *known,
	const struct pri_segment_entry *entry, bool whole)
{
	const struct pri_index_ref *ref = pri_index_find(known, 1, entry->sequence);

	if (!ref || !take_level1(s, ref, whole) ||
		entry->sequence - s->level1.first_sequence >= s->level1.segments)
		return NULL;
	const struct pri_level1_segment *segment =
		&s->segments[entry->sequence - s->level1.first_sequence];
	return segment->proof == entry->handle.proof ? segment : NULL;
}

/* NULL: the page cannot be read, and excludes nothing. */
static const uint8_t *
page1(struct stream *s, uint32_t number, size_t *len)
{
	struct record *r = &s->record1;
	struct pri_level1 *l = &s->level1;
	size_t offset = pri_level1_page_at(l, number, len);
	uint64_t check = l->check;

	if (!l->whole && r->state[number] == UNKNOWN && r->parts == PARTS_MAX) {
		r->usable = read_whole1(s) && l->check == check;
		for (unsigned i = 0; r->usable && i < l->segments; i++)
			pri_level1_get(l, i, &s->segments[i]);
		if (!r->usable)
			damaged(s->prune, r);
	}
	if (!r->usable)
		return NULL;
	if (l->whole)
		return l->body + offset;
	if (r->state[number] == UNKNOWN) {
		const uint8_t *at = read_part(s->prune, r, offset, *len, &r->part);
		r->parts++;
		r->state[number] =
			at && pri_level1_page_valid(l, number, at, *len) ? READ : DAMAGED;
		if (r->state[number] == READ)
			memcpy(r->pages + (offset - r->pages_at), at, *len);
		else
			damaged(s->prune, r);
	}
	return r->state[number] == READ ? r->pages + (offset - r->pages_at) : NULL;
}

/* Segments that may have the key, as the record's pages report it. */
static uint64_t
in_pages1(struct stream *s, const struct pri_key *key)
{
	uint64_t signatures[PRI_SIGNATURES_MAX], have = 0;
	size_t count = pri_key_signatures(key, signatures), len;

	for (size_t i = 0; i < count; i++) {
		const uint8_t *bytes =
			page1(s, pri_level1_page_of(&s->level1, signatures[i]), &len);

		if (!bytes)
			return UINT64_MAX;
		have |= pri_level1_find(&s->level1, signatures[i], bytes, len);
	}
	return have;
}

/*
 * Segments of interest that may have the key. The pages are read only if the segments'
 * heads do not decide for all.
 */
static struct columns
having_key1(struct stream *s, const struct pri_key *key, const struct columns *interest)
{
	bool address4 =
		(key->kind == PRI_KEY_SRC || key->kind == PRI_KEY_DST) && key->len == 4;
	uint32_t address = address4 ? pr_get_be32(key->bytes) : 0;
	struct columns yes = {{0}}, open = {{0}};

	for (unsigned i = 0; i < s->level1.segments; i++) {
		const struct pri_level1_segment *segment = &s->segments[i];
		uint64_t bit = UINT64_C(1) << i;
		bool has = true;

		if (!(interest->w[0] & bit) ||
			(address4 && !pri_level1_has_range(
					     segment, PRI_NUMBER_SRC4, address, address)))
			continue;
		if (!segment->keyed || pri_level1_item_has(segment, key, &has))
			yes.w[0] |= has ? bit : 0;
		else
			open.w[0] |= bit;
	}
	if (open.w[0])
		yes.w[0] |= open.w[0] & in_pages1(s, key);
	return yes;
}

/* ---- asking a plan ---- */

static struct columns
having_key(const struct inquiry *q, const struct pri_key *asked,
	const struct columns *interest)
{
	if (q->level == 1)
		return having_key1(q->stream, asked, interest);
	struct pri_key key = pri_key_either(asked);
	struct columns c = apply_key2(q->stream, &key);
	/*
	 * a segment that has an address also has the key of its longest prefix: look this
	 * up too, if it costs less than it may save
	 */
	if (key.kind != PRI_KEY_ADDRESS || (key.len != 4 && key.len != 16) ||
		count_columns(&c) * LEVEL1_COST <= 2 * KEY_COST)
		return c;
	struct pri_key net = pri_key_bytes(PRI_KEY_NET, key.bytes, key.len == 4 ? 3 : 8);
	return both(c, apply_key2(q->stream, &net));
}

static struct columns
having_range(const struct inquiry *q, const struct pri_plan_range *range,
	const struct columns *interest)
{
	unsigned ports = pri_plan_range_ports(range);
	const struct stream *s = q->stream;
	struct columns yes = {{0}}, left = *interest;

	if (range->least > range->most)
		return yes;
	for (unsigned i = 0; q->level == 1 && i < s->level1.segments; i++)
		if (!pri_level1_has_range(
			    &s->segments[i], range->number, range->least, range->most))
			left.w[0] &= ~(UINT64_C(1) << i);
	if (q->rank < PRI_RANK_PORTS || !ports)
		return left;
	for (unsigned i = 0; i < ports && count_columns(&left); i++) {
		struct pri_key key = pri_plan_range_port(range, i);
		struct columns has = both(left, having_key(q, &key, &left));

		yes = either(yes, has);
		left = without(left, has);
	}
	return yes;
}

/*
 * Columns of interest that may have what the leaf tests. Keys above the inquiry's rank are
 * not looked up, and may be present.
 */
static struct columns
ask_leaf(const struct inquiry *q, const struct pri_plan_node *n,
	const struct columns *interest)
{
	const struct stream *s = q->stream;
	const struct pri_key *keys = &q->plan->keys[n->left];
	struct columns left = *interest;
	struct pri_key key;
	unsigned rank;

	switch (n->op) {
	case PRI_PLAN_FALSE:
		return (struct columns){{0}};
	case PRI_PLAN_KEY:
		rank = pri_key_rank(keys);
		if (rank > q->rank || !q->ranks[rank])
			return left;
		return both(left, having_key(q, keys, interest));
	case PRI_PLAN_PARTS:
		if (q->level == 2 || q->rank < PRI_RANKS - 1)
			return left;
		/* composites of the record all of whose parts the filter fixes */
		for (size_t c = 0; s->level1.segments && c < PRI_COMPOSITES_MAX; c++)
			if (pri_key_composite(keys, s->segments[0].composites[c], &key))
				left = both(left, having_key(q, &key, &left));
		return left;
	case PRI_PLAN_RANGE:
		return having_range(q, &q->plan->ranges[n->left], interest);
	default:
		return left;
	}
}

/*
 * Columns of interest for which the node may hold. The function recurses to the left and
 * loops to the right: chains of alternatives lean to the right, and plans have a bounded
 * depth to the left. The right side is evaluated only for columns that the left has not
 * decided, and each node only once for each column.
 */
static struct columns
ask_node(const struct inquiry *q, uint32_t from, struct columns interest)
{
	struct node *nodes = q->nodes;
	struct columns result = {{0}}, left;
	uint32_t at = from;

	for (;;) {
		const struct pri_plan_node *n = &q->plan->nodes[at];

		nodes[at].now = without(interest, nodes[at].asked);
		result = either(result, both(nodes[at].value, interest));
		interest = nodes[at].now;
		if (!count_columns(&interest))
			break;
		if (n->op != PRI_PLAN_AND && n->op != PRI_PLAN_OR) {
			result = either(result, ask_leaf(q, n, &interest));
			break;
		}
		left = ask_node(q, n->left, interest);
		if (n->op == PRI_PLAN_OR)
			result = either(result, left);
		interest = n->op == PRI_PLAN_OR ? without(interest, left) : left;
		at = n->right;
	}
	for (;; from = q->plan->nodes[from].right) {
		nodes[from].asked = either(nodes[from].asked, nodes[from].now);
		nodes[from].value =
			either(nodes[from].value, both(result, nodes[from].now));
		if (from == at)
			return result;
	}
}

static bool
begin_inquiry(struct inquiry *i, const struct pri_plan *plan, struct columns all)
{
	if (PR_ARRAY_RESERVE(i->nodes, i->capacity, plan->count) < 0)
		return false;
	i->plan = plan;
	i->asked = (struct columns){{0}};
	i->may = all;
	pri_plan_ranks(plan, i->ranks);
	return true;
}

/* Columns of interest for which the plan may hold, by keys up to the inquiry's rank. */
static struct columns
ask_rank(const struct inquiry *q, struct columns interest)
{
	q->stream->prune->long_asked += q->plan->count > PLAN_LONG;
	memset(q->nodes, 0, q->plan->count * sizeof *q->nodes);
	return ask_node(q, q->plan->count - 1, interest);
}

/*
 * Looks up the plan's keys in a record of level 2, rank by rank. Stops when reading the
 * next rank costs more than reading the level-1 records that it may exclude.
 */
static void
ask_level2(struct inquiry *q)
{
	uint32_t pages = q->stream->level2.pages;
	struct record *r = &q->stream->record2;
	const uint8_t *at = NULL;
	bool asked = false;

	/* Most pages would be read singly: read all of them at once. */
	if (q->plan->key_count > pages / 4)
		at = read_part(q->stream->prune, r,
			pri_level2_page_at(&q->stream->level2, 0),
			(size_t)pages * PRI_SLICES_PAGE, &r->part);
	for (uint32_t page = 0; at && page < pages; page++)
		keep_page2(q->stream, page, at + (size_t)page * PRI_SLICES_PAGE);
	for (q->rank = 0; q->rank < PRI_RANKS; q->rank++) {
		if (!q->ranks[q->rank] && (asked || q->rank < PRI_RANKS - 1))
			continue;
		if (asked && count_columns(&q->may) * LEVEL1_COST <=
				     q->ranks[q->rank] * KEY_COST)
			break;
		q->may = ask_rank(q, q->may);
		asked = true;
	}
}

/* false: level 2 excludes the segment. */
static bool
level2_may(struct stream *s, const struct pri_index_stream *known,
	const struct pri_plan *plan, uint64_t sequence)
{
	const struct pri_index_ref *ref = pri_index_find(known, 2, sequence);
	uint64_t check;

	if (!ref || !take_level2(s, ref))
		return true;
	if (s->inquiry2.plan != plan) {
		if (!begin_inquiry(&s->inquiry2, plan, first_columns(s->level2.columns)))
			return true;
		ask_level2(&s->inquiry2);
	}
	unsigned c = PR_ARRAY_SEARCH(s->level2.columns - 1, s->starts[mid + 1] <= sequence);
	if (s->proven[c] == UNKNOWN)
		s->proven[c] = pri_index_check(known, s->starts[c],
				       s->level2.column[c].segments, &check) &&
					       check == s->level2.column[c].check
				       ? READ
				       : DAMAGED;
	return has_column(&s->inquiry2.may, c) || s->proven[c] == DAMAGED;
}

/*
 * False: level 1 excludes the segment. Evaluates all later segments of the record as well.
 */
static bool
level1_may(struct stream *s, const struct pri_plan *plan,
	const struct pri_level1_segment *segment)
{
	struct inquiry *i = &s->inquiry1;
	struct columns all = first_columns(s->level1.segments), interest, may;

	if (i->plan != plan && !begin_inquiry(i, plan, all))
		return true;
	if (has_column(&i->asked, segment->index))
		return has_column(&i->may, segment->index);
	interest = without(all, first_columns(segment->index));
	interest = without(interest, i->asked);
	i->asked = either(i->asked, interest);
	/* rank by rank: after the first ranks, few segments are left to look up */
	for (i->rank = 0; i->rank < PRI_RANKS && count_columns(&interest); i->rank++)
		if (i->ranks[i->rank] || i->rank == PRI_RANKS - 1) {
			may = ask_rank(i, interest);
			i->may = without(i->may, without(interest, may));
			interest = may;
		}
	return has_column(&i->may, segment->index);
}

/*
 * ---- plans ----
 *
 * The plans of long filters are made by a thread, one at a time in the process. It and the
 * query share this; whoever is done with it last frees it.
 */
struct planning {
	struct pr_bpf_set programs; /* the query's, or its own if the query is gone */
	struct pri_plans plans;
	int rc;
	struct pr_error err;
	atomic_bool stop, done;
	atomic_uint users;
};

static void
planning_leave(struct planning *p)
{
	if (atomic_fetch_sub(&p->users, 1) > 1)
		return;
	pri_plans_free(&p->plans);
	pr_bpf_set_free(&p->programs);
	free(p);
}

static void *
make_plans(void *arg)
{
	static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
	struct planning *p = arg;

	pthread_mutex_lock(&one_at_a_time);
	p->rc = p->stop ? -1 : pri_plans_create(&p->programs, &p->stop, &p->plans, &p->err);
	pthread_mutex_unlock(&one_at_a_time);
	p->done = true;
	planning_leave(p);
	return NULL;
}

static int
start_planning(struct pri_prune *p, struct pr_error *err)
{
	struct planning *planning = calloc(1, sizeof *planning);
	size_t instructions = 0;
	pthread_t thread;

	if (!planning)
		return pr_error_set(err, "no memory for a query");
	for (size_t i = 0; i < p->programs->count; i++)
		instructions += p->programs->items[i]->count;
	p->planning = planning;
	planning->programs = *p->programs;
	planning->users = 2;
	if (instructions > PLAN_AT_ONCE &&
		pr_thread_start(&thread, make_plans, planning, "the planner", NULL) == 0)
		pthread_detach(thread);
	else
		make_plans(planning);
	return 0;
}

int
pri_prune_ready(struct pri_prune *p, struct pr_error *err)
{
	const struct timespec wait = {.tv_nsec = PR_NS_PER_MS};
	struct planning *planning = p->planning;
	size_t longest = 1;

	if (!planning)
		return 1;
	if (!planning->done) {
		nanosleep(&wait, NULL);
		return 0;
	}
	if (planning->rc < 0)
		return pr_error_set(err, "%s", planning->err.text);
	p->planning = NULL;
	p->plans = planning->plans;
	planning->plans = (struct pri_plans){0};
	planning->programs = (struct pr_bpf_set){0};
	planning_leave(planning);
	for (size_t i = 0; i < p->plans.count; i++)
		longest = PR_MAX(longest, p->plans.items[i]->count);
	p->scratch = malloc(longest);
	return p->scratch ? 1 : pr_error_set(err, "no memory for a query");
}

/* ---- the verdict ---- */

struct pri_prune *
pri_prune_create(struct pri_volume *volume, struct pr_bpf_set *programs,
	Packrack__End *stats, struct pr_error *err)
{
	struct pri_prune *p = calloc(1, sizeof *p);

	if (!p)
		return pr_error_null(err, "no memory for a query");
	p->volume = volume;
	p->programs = programs;
	p->stats = stats;
	if (start_planning(p, err) < 0 || pri_prune_ready(p, err) < 0)
		pri_prune_destroy(&p);
	return p;
}

void
pri_prune_destroy(struct pri_prune **prune)
{
	struct pri_prune *p = PR_TAKE(prune);

	if (!p)
		return;
	if (p->planning) {
		p->planning->stop = true;
		*p->programs = (struct pr_bpf_set){0};
		planning_leave(p->planning);
	}
	for (size_t i = 0; i < p->count; i++) {
		struct stream *s = p->streams[i];

		free_record(&s->record1);
		free_record(&s->record2);
		PR_FREE(s, inquiry1.nodes, inquiry2.nodes);
		free(s);
	}
	pri_plans_free(&p->plans);
	PR_FREE(p, streams, scratch);
	free(p);
}

/*
 * NULL: the stream has no index, or no memory. *known: the index records of the same
 * stream.
 */
static struct stream *
find_or_add_stream(
	struct pri_prune *p, uint16_t link, const struct pri_index_stream **known)
{
	*known = pri_index_map_find(&p->volume->index_map, link);
	if (!*known)
		return NULL;
	for (size_t i = 0; i < p->count; i++)
		if (p->streams[i]->link == link)
			return p->streams[i];
	if (PR_ARRAY_GROW(p->streams, p->count) < 0)
		return NULL;
	struct stream *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->prune = p;
	s->link = link;
	s->inquiry1 = (struct inquiry){.stream = s, .level = 1};
	s->inquiry2 = (struct inquiry){.stream = s, .level = 2};
	p->streams[p->count++] = s;
	return s;
}

const struct pri_plans *
pri_prune_plans(const struct pri_prune *p)
{
	return &p->plans;
}

static bool
in_time(void *arg, const struct pri_plan_range *r)
{
	const struct pri_segment_entry *entry = *(const struct pri_segment_entry **)arg;

	return r->number != PRI_NUMBER_TIME ||
	       (entry->min_time <= r->most && entry->max_time >= r->least);
}

/*
 * False: the filter's own terms of time exclude the segment. The catalog is enough to
 * decide this.
 */
static bool
time_may(struct pri_prune *p, const struct pri_plan *plan,
	const struct pri_segment_entry *entry)
{
	const struct pri_plan_index index = {.has_range = in_time, .arg = &entry};

	for (size_t i = 0; i < plan->range_count; i++)
		if (plan->ranges[i].number == PRI_NUMBER_TIME)
			return pri_plan_holds(plan, &index, p->scratch);
	return true;
}

static enum pri_prune_verdict
ask_levels(struct pri_prune *p, const struct pri_plan *plan, uint16_t link,
	const struct pri_segment_entry *entry, struct pri_held_walk *held)
{
	/* without holes, the catalog's entry gives the seqs; otherwise level 1 is needed */
	bool dense = entry->count == (uint64_t)entry->seq_span + 1;
	const struct pri_level1_segment all = {.held_form = PRI_HELD_ALL}, *segment = &all;
	enum pri_prune_verdict verdict = PRI_PRUNE_LEVEL1;
	const struct pri_index_stream *known;

	if (!plan && dense) {
		pri_held_walk_begin(held, &all, entry->seq_span);
		return PRI_PRUNE_LINKTYPE;
	}
	if (!plan || pri_plan_is(plan, PRI_PLAN_TRUE) || plan->count > PLAN_ASKED_MAX)
		return PRI_PRUNE_READ;
	struct stream *s = find_or_add_stream(p, link, &known);
	if (!s)
		return PRI_PRUNE_READ;
	if (!time_may(p, plan, entry))
		verdict = PRI_PRUNE_TIME;
	else if (!level2_may(s, known, plan, entry->sequence))
		verdict = PRI_PRUNE_LEVEL2;
	if (verdict == PRI_PRUNE_LEVEL1 || !dense) {
		segment = find_segment(s, known, entry, !dense);
		if (!segment ||
			(verdict == PRI_PRUNE_LEVEL1 && level1_may(s, plan, segment)))
			return PRI_PRUNE_READ;
	}
	pri_held_walk_begin(held, dense ? &all : segment, entry->seq_span);
	return verdict;
}

enum pri_prune_verdict
pri_prune_ask(struct pri_prune *p, uint16_t link, const struct pri_segment_entry *entry,
	struct pri_held_walk *held, bool *did_io)
{
	uint64_t reads = p->stats->index_reads, asked = p->long_asked;
	enum pri_prune_verdict verdict = PRI_PRUNE_READ;

	if (p->plans.count)
		verdict = ask_levels(
			p, pri_plans_find(&p->plans, entry->linktype), link, entry, held);
	*did_io = p->stats->index_reads != reads || p->long_asked != asked;
	return verdict;
}

const struct pri_level1_segment *
pri_prune_segment(struct pri_prune *p, uint16_t link, const struct pri_segment_entry *entry,
	const struct pri_level1 **record, bool *did_io)
{
	uint64_t reads = p->stats->index_reads;
	const struct pri_level1_segment *segment = NULL;
	const struct pri_index_stream *known;
	struct stream *s = find_or_add_stream(p, link, &known);

	if (s) {
		segment = find_segment(s, known, entry, true);
		*record = &s->level1;
	}
	*did_io = p->stats->index_reads != reads;
	return segment;
}
