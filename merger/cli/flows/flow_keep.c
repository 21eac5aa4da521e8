/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/flows/flow_keep.h"

#include <inttypes.h>
#include <pthread.h>

#include <sodium.h>

#include "indexer/flows/flow_filter.h"
#include "indexer/query/volume.h"
#include "merger/cli/flows/flow_record.h"
#include "merger/cli/query/ask.h"
#include "merger/cli/volume/volume.h"

static const char windows_stream[] = "flow.windows", open_stream[] = "flow.open",
		  batches_stream[] = "flow.batches", columns_stream[] = "flow.columns";
#define EXACT_MAX 16 /* a longer plan chooses batches, but no rows */
#define LOOK 256 /* records between two looks at the clock */

/* ---- entries of windows ---- */

/* "PFW" version u8; u32 flags; then all numbers of struct flow_window as u64. */
enum { NUMBERS = 11, WINDOW_BYTES = 8 + NUMBERS * 8 };
enum { COMPLETE = 1, GOES_ON = 2, COLLECTED = 4, FILTERED = 8 };
enum { SHARE = 8, SHARES = 18, SHARE_MASK = 0x3ff }; /* above the flags */
static const uint8_t window_magic[4] = {'P', 'F', 'W', 3};

static void
window_write(const struct flow_window *w, uint8_t out[WINDOW_BYTES])
{
	const uint64_t numbers[NUMBERS] = {w->number, (uint64_t)w->since,
		(uint64_t)w->until, w->packets, w->not_ip, w->missing, w->records,
		(uint64_t)w->reach, w->open, w->tag, w->file};

	memcpy(out, window_magic, 4);
	pr_put_le32(out + 4, (w->complete ? COMPLETE : 0) | (w->goes_on ? GOES_ON : 0) |
				     (w->collected ? COLLECTED : 0) |
				     (w->filtered ? FILTERED : 0) | w->share << SHARE |
				     w->shares << SHARES);
	for (size_t i = 0; i < NUMBERS; i++)
		pr_put_le64(out + 8 + i * 8, numbers[i]);
}

static bool
window_read(const uint8_t *p, size_t len, struct flow_window *w)
{
	uint64_t n[NUMBERS];
	uint32_t flags;

	if (len != WINDOW_BYTES || memcmp(p, window_magic, 4) != 0)
		return false;
	flags = pr_get_le32(p + 4);
	for (size_t i = 0; i < NUMBERS; i++)
		n[i] = pr_get_le64(p + 8 + i * 8);
	*w = (struct flow_window){n[0], (int64_t)n[1], (int64_t)n[2], n[3], n[4], n[5],
		n[6], (int64_t)n[7], n[8], n[9], n[10], .complete = (flags & COMPLETE) != 0,
		.goes_on = (flags & GOES_ON) != 0, .collected = (flags & COLLECTED) != 0,
		.filtered = (flags & FILTERED) != 0, .share = flags >> SHARE & SHARE_MASK,
		.shares = flags >> SHARES & SHARE_MASK};
	return w->since <= w->until && w->reach >= 0;
}

/* The windows of a volume, in order of number. */
struct windows {
	struct flow_window *all;
	size_t count;
	uint64_t damaged; /* entries */
	int64_t evicted_until; /* of records; PR_TIME_MIN: none */
};

/* Each record of a stream. take: -1 ends. -1: err; damaged ones are counted. */
static int
each_record(struct sfs *sfs, const char *stream,
	int (*take)(void *arg, const struct sfs_record *r, struct pr_error *err), void *arg,
	uint64_t *damaged, struct pr_error *err)
{
	int id = sfs_stream_find(sfs, stream), rc = 0, got;
	struct sfs_cursor *c;
	struct sfs_record r;

	if (id < 0)
		return 0;
	c = sfs_cursor_open(sfs, id, NULL, err);
	if (!c)
		return -1;
	while (rc == 0 && (got = sfs_cursor_next(c, &r, err)) != 0) {
		if (got == 1)
			rc = take(arg, &r, err);
		else if (got == SFS_CORRUPT)
			++*damaged;
		else if (got != SFS_EXPIRED && got != SFS_DELETED)
			rc = -1;
	}
	sfs_cursor_close(&c);
	return rc;
}

static int
take_window(void *arg, const struct sfs_record *r, struct pr_error *err)
{
	struct windows *w = arg;

	if (PR_ARRAY_GROW(w->all, w->count) < 0)
		return pr_error_set(err, "no memory for windows");
	if (r->length > 4 && !memcmp(r->body, window_magic, 3) &&
		r->body[3] != window_magic[3])
		return pr_error_set(err, "the flows are of another version of packrack: "
					 "keep them again, in a "
					 "new volume");
	if (!window_read(r->body, r->length, &w->all[w->count])) {
		w->damaged++;
		return 0;
	}
	w->count++;
	return 0;
}

/* windows_free in any case */
static int
windows_read(struct windows *w, struct sfs *sfs, struct pr_error *err)
{
	const char *const streams[] = {batches_stream, columns_stream};

	*w = (struct windows){.evicted_until = PR_TIME_MIN};
	for (size_t i = 0; i < PR_COUNT(streams); i++) {
		int id = sfs_stream_find(sfs, streams[i]);
		struct sfs_stream_info info;

		if (id >= 0 && sfs_stream_info(sfs, id, &info, NULL) == SFS_OK &&
			info.evicted_until > w->evicted_until)
			w->evicted_until = info.evicted_until;
	}
	return each_record(sfs, windows_stream, take_window, w, &w->damaged, err);
}

static void
windows_free(struct windows *w)
{
	free(w->all);
}

/* The last window that goes on, or NULL. */
static const struct flow_window *
last_open(const struct windows *w)
{
	for (size_t i = w->count; i > 0; i--)
		if (w->all[i - 1].goes_on)
			return &w->all[i - 1];
	return NULL;
}

/* ---- batches ---- */

/*
 * A batch: its columns, each a record, and then its head in "flow.batches"; the flows that are open have both in
 * "flow.open". "PFB" version u8; rows u32; tag of the window u64; addresses u32; rows of the window before these u64; of
 * each column, as varints: the least value, how much greater the greatest is, and, if it is, the record's handle
 * (sfs_handle_pack, as the one before it in the head); at last the handle of the addresses' Bloom filter, of open flows
 * none.
 */
enum {
	COLUMNS_AT = 28,
	HEAD_MAX = COLUMNS_AT + (PRI_COLUMNS + 1) * (20 + SFS_HANDLE_PACKED_MAX)
};
static const uint8_t head_magic[4] = {'P', 'F', 'B', 1};

struct head {
	uint32_t rows, addresses;
	uint64_t before; /* rows of the window */
	bool open; /* flows that are open at the end of the last window */
	struct column {
		uint64_t least, most;
		struct sfs_handle at; /* if most is greater */
	} columns[PRI_COLUMNS];
	struct sfs_handle bloom; /* length 0: none */
};

/* As it is stored, and copies of the columns, if they may go while they are read. */
struct stored_head {
	uint8_t *bytes;
	size_t len;
	bool open, all; /* all: also those that the filter leaves out */
	uint8_t *copies[];
};

static bool
take_handle(const struct sfs *sfs, struct pr_cursor *c, struct sfs_handle *last)
{
	struct sfs_handle before = *last;
	size_t len = sfs_handle_unpack(sfs, c->at, pr_cursor_left(c), &before, last);
	const uint8_t *at;

	return len && pr_load_bytes(c, &at, len) && last->length <= SFS_BLOCK_MAX;
}

/* Any bytes may come. */
static bool
head_read(const struct sfs *sfs, const uint8_t *p, size_t len, struct head *h)
{
	struct pr_cursor c = pr_cursor_make(p, len);
	struct sfs_handle last = {0};
	const uint8_t *begin;

	if (!pr_load_bytes(&c, &begin, COLUMNS_AT) || memcmp(p, head_magic, 4) != 0)
		return false;
	*h = (struct head){.rows = pr_get_le32(p + 4),
		.addresses = pr_get_le32(p + 16),
		.before = pr_get_le64(p + 20)};
	for (unsigned i = 0; i < PRI_COLUMNS; i++) {
		struct column *column = &h->columns[i];

		if (!pr_load_varint(&c, &column->least) ||
			!pr_load_varint(&c, &column->most))
			return false;
		column->most += column->least;
		if (column->most != column->least && !take_handle(sfs, &c, &last))
			return false;
		column->at = last;
	}
	if (pr_cursor_left(&c) && take_handle(sfs, &c, &last))
		h->bloom = last;
	return pr_cursor_left(&c) == 0 && h->rows && h->rows <= PRI_BATCH_ROWS &&
	       h->addresses && h->addresses <= 2 * h->rows;
}

/* ---- records of flow.open ---- */

/* What the maker has to know: u64 tag of the window; u64 kind, and the items' size << 8: those of another version are left out */
enum { OPEN_HEADER = 16, OPEN_STATE = 1 };

static bool
is_state(const struct sfs_record *r, uint64_t tag, size_t size)
{
	return r->length >= OPEN_HEADER && pr_get_le64(r->body) == tag &&
	       pr_get_le64(r->body + 8) == (OPEN_STATE | (uint64_t)size << 8) &&
	       (r->length - OPEN_HEADER) % size == 0;
}

/* ---- reading batches ---- */

struct flow_kept {
	const char *volume;
	const struct query_args *range;
	struct pri_volume *view; /* NULL: sfs is a keeper's */
	struct sfs *sfs;
	pthread_mutex_t lock; /* of sfs, and of what follows */
	struct windows windows;
	struct stored_head **heads; /* those that the range does not exclude */
	size_t count;
	uint64_t damaged; /* heads and entries */
	uint64_t open; /* rows of heads of flow.open */
	struct flow_kept_figures figures;
	/* for taking heads: of these windows */
	uint64_t *tags;
	size_t tag_count;
	bool taking_open;
};

struct flow_scan {
	struct flow_kept *kept;
	const struct pri_plan *plan; /* NULL: all */
	const struct flow_window *only; /* NULL: of all windows */
	uint64_t needed; /* columns that the plan asks for */
	size_t next; /* head; under the lock */
};

struct flow_reader {
	struct flow_scan *scan;
	struct head head; /* of the batch */
	uint8_t *const *copies;
	bool all;
	struct pri_batch *batch;
	struct pri_read_buffer room;
	uint8_t *scratch; /* of the plan */
	uint32_t rows[PRI_BATCH_ROWS];
	size_t count;
};

/* What a plan asks, of a row, of all addresses of a batch, or of what its head says. */
struct asked {
	const struct head *head;
	const struct pri_batch *batch; /* NULL: not read yet */
	size_t row; /* SIZE_MAX: of any row */
	bool every; /* of every row, by the head */
	const uint8_t *bloom; /* NULL: not read */
	size_t bloom_size;
};

/* side: PRI_COL_SRC, PRI_COL_DST, or PRI_COLUMNS for either */
static bool
has_address(const struct asked *a, unsigned side, const uint8_t *address, size_t len)
{
	uint64_t high = len == 16 ? pr_get_be64(address) : 0;
	uint64_t low = len == 16 ? pr_get_be64(address + 8) : pr_get_be32(address);
	const struct pri_batch *b = a->batch;
	size_t from = 0, until = b ? b->addresses : 0;

	if (!b)
		return !a->bloom || pri_bloom_has(a->bloom, a->bloom_size, address, len);
	if (a->row != SIZE_MAX && side == PRI_COLUMNS)
		return has_address(a, PRI_COL_SRC, address, len) ||
		       has_address(a, PRI_COL_DST, address, len);
	if (a->row != SIZE_MAX) {
		from = b->values[side][a->row];
		until = from + 1;
	}
	for (size_t i = from; i < until; i++)
		if (b->values[PRI_COL_LOW][i] == low &&
			b->values[PRI_COL_HIGH][i] == high &&
			b->values[PRI_COL_SIX][i] == (len == 16))
			return true;
	return false;
}

static bool
has_key(void *arg, const struct pri_key *key)
{
	const struct asked *a = arg;
	size_t half = key->len / 2;

	if (a->every)
		return false;
	switch (key->kind) {
	case PRI_KEY_SRC:
	case PRI_KEY_DST:
		return (key->len != 4 && key->len != 16) ||
		       has_address(arg,
			       key->kind == PRI_KEY_SRC ? PRI_COL_SRC : PRI_COL_DST,
			       key->bytes, key->len);
	case PRI_KEY_PAIR:
		return (half != 4 && half != 16) ||
		       (has_address(arg, PRI_COLUMNS, key->bytes, half) &&
			       has_address(arg, PRI_COLUMNS, key->bytes + half, half));
	default:
		return true;
	}
}

/* A column's value in the order of signed numbers. */
static int64_t
signed_value(unsigned column, uint64_t v)
{
	if (column == PRI_COL_FIRST)
		return pri_time_of_column(v);
	return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

static bool
has_range(void *arg, const struct pri_plan_range *r)
{
	const struct asked *a = arg;
	unsigned c = (unsigned)(r->number - FLOW_NUMBER(0));
	int64_t least, most;

	if (r->number < FLOW_NUMBER(0) || c >= PRI_COLUMNS)
		return !a->every;
	least = signed_value(c, a->row == SIZE_MAX ? a->head->columns[c].least
						   : a->batch->values[c][a->row]);
	most = a->row == SIZE_MAX ? signed_value(c, a->head->columns[c].most) : least;
	if (a->every)
		return least >= r->least && most <= r->most;
	return least <= r->most && most >= r->least;
}

static bool
plan_holds(const struct flow_reader *r, const struct asked *a)
{
	const struct pri_plan_index index = {has_key, has_range, NULL, (void *)a};

	return !r->scan->plan || pri_plan_holds(r->scan->plan, &index, r->scratch);
}

#define COLUMN(c) (UINT64_C(1) << (c))

/* Columns that the plan's tests of a row need. */
static uint64_t
columns_of_plan(const struct pri_plan *plan)
{
	uint64_t out = 0;

	for (size_t i = 0; plan && i < plan->key_count; i++)
		if (plan->keys[i].kind == PRI_KEY_SRC ||
			plan->keys[i].kind == PRI_KEY_DST ||
			plan->keys[i].kind == PRI_KEY_PAIR)
			out |= COLUMN(PRI_COL_SRC) | COLUMN(PRI_COL_DST) |
			       PRI_COLUMNS_ADDRESSES;
	for (size_t i = 0; plan && i < plan->range_count; i++)
		if (plan->ranges[i].number >= FLOW_NUMBER(0) &&
			plan->ranges[i].number < FLOW_NUMBER(PRI_COLUMNS))
			out |= COLUMN(plan->ranges[i].number - FLOW_NUMBER(0));
	return out;
}

/* How a batch lies to the range: 1 within, 0 partly, -1 outside, as far as its head tells. */
static int
lies(const struct flow_kept *k, const struct head *h)
{
	const struct column *c = h->columns;
	int64_t first = pri_time_of_column(c[PRI_COL_FIRST].least);
	int64_t since, last = pri_time_of_column(c[PRI_COL_FIRST].most);
	uint64_t span = c[PRI_COL_SPAN].most;

	since = last;
	last = span > INT64_MAX ? PR_TIME_MAX : pr_time_minus(last, -(int64_t)span);
	if (first > k->range->until || last < k->range->since)
		return -1;
	return since <= k->range->until && first >= k->range->since;
}

/* A record's bytes, in the reader's room until the next one. enum sfs_result */
static int
read_body(struct flow_reader *r, const struct sfs_handle *at, const uint8_t **body)
{
	struct flow_kept *k = r->scan->kept;
	struct sfs_record record;
	struct sfs_plan plan;
	int rc = SFS_ERROR;
	bool planned;

	if (pri_read_buffer_grow(&r->room, sfs_read_room(at)) < 0)
		return SFS_ERROR;
	pthread_mutex_lock(&k->lock);
	planned = sfs_read_plan(k->sfs, at, &plan) == 1;
	pthread_mutex_unlock(&k->lock);
	if (planned)
		rc = sfs_read_planned(&plan, r->room.bytes, r->room.capacity, &record);
	if (rc != SFS_OK) {
		pthread_mutex_lock(&k->lock);
		rc = sfs_read_in(
			k->sfs, at, r->room.bytes, r->room.capacity, &record, NULL);
		pthread_mutex_unlock(&k->lock);
	}
	*body = record.body;
	return rc;
}

/* Reads columns into the batch. SFS_OK, or what the first that cannot be read gave. */
static int
read_columns(struct flow_reader *r, const struct head *h, uint64_t want)
{
	for (unsigned i = 0; i < PRI_COLUMNS; i++) {
		const struct column *c = &h->columns[i];
		const uint8_t *body = r->copies[i];
		bool packed = c->most != c->least;
		int rc = SFS_OK;

		if (!(want & COLUMN(i)))
			continue;
		if (packed && !h->open)
			rc = read_body(r, &c->at, &body);
		if (rc == SFS_OK && !pri_column_unpack(r->batch, i, c->least, c->most, body,
					    packed ? c->at.length : 0))
			rc = SFS_CORRUPT;
		if (rc != SFS_OK)
			return rc;
	}
	return SFS_OK;
}

/* The rows of the batch that are of the range, and that the plan does not exclude. */
static void
choose_rows(struct flow_reader *r, const struct head *h, bool within)
{
	const struct query_args *range = r->scan->kept->range;
	uint64_t *const *v = r->batch->values;
	const struct pri_plan *plan = r->scan->plan;
	struct asked a = {.head = h, .batch = r->batch, .row = SIZE_MAX, .every = true};
	bool exact = plan && plan->count <= EXACT_MAX && !plan_holds(r, &a);

	a.every = false;
	if (within && !exact && !h->open) {
		for (; r->count < h->rows; r->count++)
			r->rows[r->count] = (uint32_t)r->count;
		return;
	}

	for (size_t i = 0; i < h->rows; i++) {
		if (!within) {
			int64_t first = pri_time_of_column(v[PRI_COL_FIRST][i]);
			uint64_t span = v[PRI_COL_SPAN][i];

			if (first > range->until ||
				(first < range->since &&
					(uint64_t)range->since - (uint64_t)first > span))
				continue;
		}
		a.row = i;
		if (!(h->open && !r->all && v[PRI_COL_BITS][i] & PRI_LEFT_OUT) &&
			(!exact || plan_holds(r, &a)))
			r->rows[r->count++] = (uint32_t)i;
	}
}

/* May the batch have what the plan asks for? Looks at the head, the Bloom filter, and the addresses, which are read. */
static bool
may_have(struct flow_reader *r, const struct head *h, int *rc)
{
	struct asked a = {.head = h, .row = SIZE_MAX};

	if (!plan_holds(r, &a))
		return false;
	if (!(r->scan->needed & PRI_COLUMNS_ADDRESSES))
		return true;
	if (h->bloom.length && read_body(r, &h->bloom, &a.bloom) == SFS_OK) {
		a.bloom_size = h->bloom.length;
		if (!plan_holds(r, &a))
			return false;
	}
	*rc = read_columns(r, h, PRI_COLUMNS_ADDRESSES);
	a.batch = r->batch;
	return *rc == SFS_OK && (r->scan->plan->key_count > EXACT_MAX || plan_holds(r, &a));
}

/* The rows of one batch; of the columns first those that tell which rows. enum sfs_result */
static int
read_batch(struct flow_reader *r, const struct head *h, uint64_t want)
{
	uint64_t first = r->scan->needed, there = first & PRI_COLUMNS_ADDRESSES;
	int within = lies(r->scan->kept, h), rc = SFS_OK;

	r->count = 0;
	r->batch->rows = h->rows;
	r->batch->addresses = h->addresses;
	first |= h->open ? COLUMN(PRI_COL_BITS) : 0;
	if (within != 1)
		first |= COLUMN(PRI_COL_FIRST) | COLUMN(PRI_COL_SPAN);
	if (!may_have(r, h, &rc))
		return rc;
	rc = read_columns(r, h, first & ~there);
	if (rc == SFS_OK)
		choose_rows(r, h, within == 1);
	if (rc == SFS_OK && r->count)
		rc = read_columns(r, h, want & ~(first | there));
	if (rc != SFS_OK)
		r->count = 0;
	return rc;
}

/* The next head. Those of a window come one behind the other, and windows by their numbers. */
static bool
is_asked(const struct flow_scan *s)
{
	return !s->only || pr_get_le64(s->kept->heads[s->next]->bytes + 8) == s->only->tag;
}

bool
flow_reader_next(struct flow_reader *r, uint64_t want)
{
	struct flow_kept *k = r->scan->kept;

	for (;;) {
		struct head *h = &r->head;
		const struct stored_head *stored = NULL;
		int rc;

		pthread_mutex_lock(&k->lock);
		if (r->scan->next < k->count && is_asked(r->scan))
			stored = k->heads[r->scan->next++];
		/* it was read before, so it can be */
		if (stored && head_read(k->sfs, stored->bytes, stored->len, h))
			h->open = stored->open;
		pthread_mutex_unlock(&k->lock);
		if (!stored)
			return false;
		r->copies = stored->copies;
		r->all = stored->all;
		rc = read_batch(r, h, want);
		pthread_mutex_lock(&k->lock);
		k->figures.read += r->count > 0;
		k->figures.rows += r->count;
		if (rc == SFS_EXPIRED || rc == SFS_DELETED)
			k->figures.gone += h->rows;
		else if (rc != SFS_OK)
			k->figures.lost += h->rows;
		pthread_mutex_unlock(&k->lock);
		if (r->count)
			return true;
	}
}

struct flow_scan *
flow_scan_create(struct flow_kept *kept, const struct pri_plan *plan)
{
	struct flow_scan *s = calloc(1, sizeof(*s));

	if (s)
		*s = (struct flow_scan){
			.kept = kept, .plan = plan, .needed = columns_of_plan(plan)};
	return s;
}

struct flow_reader *
flow_reader_create(struct flow_scan *scan)
{
	struct flow_reader *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->scan = scan;
	r->batch = pri_batch_create();
	r->scratch = malloc(scan->plan ? scan->plan->count : 1);
	if (!r->batch || !r->scratch)
		flow_reader_destroy(&r);
	return r;
}

void
flow_reader_destroy(struct flow_reader **reader)
{
	struct flow_reader *r = *reader;

	*reader = NULL;
	if (!r)
		return;
	pri_batch_destroy(&r->batch);
	free(r->room.bytes);
	free(r->scratch);
	free(r);
}

const struct pri_batch *
flow_reader_batch(const struct flow_reader *r, const uint32_t **rows, size_t *count)
{
	*rows = r->rows;
	*count = r->count;
	return r->batch;
}

static int
compare_tags(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

static void
stored_free(struct stored_head *h)
{
	for (unsigned i = 0; h && h->open && i < PRI_COLUMNS; i++)
		free(h->copies[i]);
	free(h);
}

/* Keeps a copy of the columns of flows that are open: a keeper that goes on deletes them. */
static bool
copy_columns(struct flow_kept *k, const struct head *h, struct stored_head *to)
{
	for (unsigned i = 0; i < PRI_COLUMNS && to->open; i++) {
		const struct column *c = &h->columns[i];

		if (c->most == c->least)
			continue;
		to->copies[i] = malloc(c->at.length);
		if (!to->copies[i] || sfs_read(k->sfs, &c->at, to->copies[i], c->at.length,
					      NULL, NULL, NULL) != SFS_OK)
			return false;
	}
	return true;
}

static int
take_head(void *arg, const struct sfs_record *r, struct pr_error *err)
{
	struct flow_kept *k = arg;
	struct stored_head *to;
	struct head h;
	uint64_t tag;

	if (r->length < COLUMNS_AT || memcmp(r->body, head_magic, 4) != 0) {
		k->damaged += !k->taking_open;
		return 0;
	}
	tag = pr_get_le64(r->body + 8);
	if (!bsearch(&tag, k->tags, k->tag_count, sizeof(tag), compare_tags))
		return 0;
	if (!head_read(k->sfs, r->body, r->length, &h)) {
		k->damaged++;
		return 0;
	}
	k->figures.batches++;
	k->open += k->taking_open ? h.rows : 0;
	if (lies(k, &h) < 0)
		return 0;
	to = calloc(1, sizeof(*to) + PRI_COLUMNS * sizeof(*to->copies) + r->length);
	if (!to || PR_ARRAY_GROW(k->heads, k->count) < 0) {
		free(to);
		return pr_error_set(err, "no memory for batches of flows");
	}
	to->bytes = (uint8_t *)&to->copies[PRI_COLUMNS];
	memcpy(to->bytes, r->body, r->length);
	to->len = r->length;
	to->open = k->taking_open;
	k->heads[k->count++] = to;
	if (!copy_columns(k, &h, to)) { /* it is not found */
		k->open -= h.rows;
		k->count--;
		stored_free(to);
	}
	return 0;
}

/* The flows that are open at the end of the window with this tag. */
static int
take_open(struct flow_kept *k, uint64_t tag, struct pr_error *err)
{
	uint64_t *tags = k->tags;
	size_t count = k->tag_count;
	int rc;

	k->tags = &tag;
	k->tag_count = 1;
	k->taking_open = true;
	k->open = 0;
	rc = each_record(k->sfs, open_stream, take_head, k, &k->damaged, err);
	k->taking_open = false;
	k->tags = tags;
	k->tag_count = count;
	return rc;
}

static void
heads_free(struct flow_kept *k)
{
	for (size_t i = 0; i < k->count; i++)
		stored_free(k->heads[i]);
	free(k->heads);
	k->heads = NULL;
	k->count = 0;
}

int
flow_kept_alone(const struct query_args *q, struct pr_error *err)
{
	if (!q->volumes.count && !q->files.count && !q->nodes.count && !q->link &&
		!q->follow && !q->merger.endpoint)
		return 0;
	return pr_error_set(err,
		"--kept: flows of that volume alone, without --volume, -r, --node, "
		"--link, --follow and --merger");
}

/* Those of the batches of all windows that there are. */
static int
take_heads(struct flow_kept *k, struct pr_error *err)
{
	k->tags = calloc(k->windows.count + 1, sizeof(*k->tags));
	if (!k->tags)
		return pr_error_set(err, "no memory for windows");
	for (; k->tag_count < k->windows.count; k->tag_count++)
		k->tags[k->tag_count] = k->windows.all[k->tag_count].tag;
	qsort(k->tags, k->tag_count, sizeof(*k->tags), compare_tags);
	return each_record(k->sfs, batches_stream, take_head, k, &k->damaged, err);
}

/* All that there is to know before columns are read: windows, heads, and flows that are open at the end of the last. */
static int
begin_reading(struct flow_kept *k, struct pr_error *err)
{
	const struct flow_window *last = NULL;
	int rc = 0;

	/* a keeper that runs may end a window meanwhile, and what was open before it goes */
	for (int tries = 0; rc == 0 && tries < 3; tries++) {
		windows_free(&k->windows);
		heads_free(k);
		rc = windows_read(&k->windows, k->sfs, err);
		last = last_open(&k->windows);
		if (rc == 0 && last)
			rc = take_open(k, last->tag, err);
		if (!last || k->open == last->open)
			break;
		rc = rc == 0 && sfs_refresh(k->sfs, err) != SFS_OK ? -1 : rc;
	}
	if (rc == 0 && !k->windows.count && !k->windows.damaged)
		rc = pr_error_set(err,
			"%s keeps no flows: packrack flows --keep %s stores them there",
			k->volume, k->volume);
	if (rc == 0 && last && k->open < last->open) {
		fprintf(stderr, "  lost: %" PRIu64 " flows that were open\n",
			last->open - k->open);
		k->figures.lost += last->open - k->open;
	}
	return rc < 0 ? -1 : take_heads(k, err);
}

/* Nothing is read yet. */
static struct flow_kept *
kept_create(const char *volume, const struct query_args *range, struct pr_error *err)
{
	struct flow_kept *k = calloc(1, sizeof(*k));

	if (!k)
		return pr_error_null(err, "no memory for kept flows");
	*k = (struct flow_kept){
		.volume = volume, .range = range, .lock = PTHREAD_MUTEX_INITIALIZER};
	k->view = ask_volume_open(volume, PRI_VOLUME_CACHED, err);
	k->sfs = k->view ? k->view->sfs : NULL;
	if (!k->sfs)
		flow_kept_close(&k);
	return k;
}

struct flow_kept *
flow_kept_open(const char *volume, const struct query_args *range, struct pr_error *err)
{
	struct flow_kept *k = kept_create(volume, range, err);

	if (k && begin_reading(k, err) < 0)
		flow_kept_close(&k);
	return k;
}

void
flow_kept_close(struct flow_kept **kept)
{
	struct flow_kept *k = *kept;

	*kept = NULL;
	if (!k)
		return;
	heads_free(k);
	windows_free(&k->windows);
	free(k->tags);
	pri_volume_close(&k->view);
	free(k);
}

int
flow_kept_lacks(const struct flow_kept *k, struct flow_kept_figures *out)
{
	bool gone = k->windows.evicted_until > PR_TIME_MIN &&
		    k->windows.evicted_until >= k->range->since;
	uint64_t damaged = k->windows.damaged + k->damaged;
	char time[PR_TIME_TEXT];

	*out = k->figures;
	if (gone)
		fprintf(stderr, "  overwritten or deleted: flows that ended by %s\n",
			pr_time_format(k->windows.evicted_until, time, sizeof(time)));
	if (k->figures.lost)
		fprintf(stderr, "  lost: %" PRIu64 " records of flows\n", k->figures.lost);
	if (k->figures.gone)
		fprintf(stderr, "  overwritten: %" PRIu64 " records of flows\n",
			k->figures.gone);
	if (k->damaged)
		fprintf(stderr, "  %" PRIu64 " damaged batches of flows\n", k->damaged);
	return gone || k->figures.gone || k->figures.lost || damaged ? CLI_PARTIAL : CLI_OK;
}

/* Of a window a row is its place there; *found: how many there were. */
static int
take_rows(struct flow_reader *r, flow_take *take, void *arg, uint64_t *found,
	struct pr_error *err)
{
	const struct flow_window *w = r->scan->only;
	struct pri_flow flow;
	uint64_t missing;

	while (flow_reader_next(r, PRI_COLUMNS_ALL))
		for (size_t i = 0; i < r->count; i++) {
			uint64_t before = r->head.before + r->rows[i];

			if (!pri_batch_flow(r->batch, r->rows[i], &flow, &missing) ||
				(w && before >= w->records)) {
				r->scan->kept->figures.lost++;
				continue;
			}
			++*found;
			if (take(arg, &flow, missing, w ? before + 1 : 0, err) < 0)
				return -1;
		}
	return 0;
}

int
flow_kept_read(const char *volume, const struct query_args *args,
	const struct pri_plan *plan, flow_take *take, void *arg, struct pr_error *err)
{
	struct flow_kept *k = flow_kept_open(volume, args, err);
	struct flow_scan *s = k ? flow_scan_create(k, plan) : NULL;
	struct flow_reader *r = s ? flow_reader_create(s) : NULL;
	struct flow_kept_figures figures;
	int status = CLI_FAILED;
	uint64_t found = 0;

	if (k && !r)
		pr_error_set(err, "no memory for kept flows");
	if (r && take_rows(r, take, arg, &found, err) == 0)
		status = flow_kept_lacks(k, &figures);
	flow_reader_destroy(&r);
	free(s);
	flow_kept_close(&k);
	return status;
}

/* Leaves the windows that lie in the range, at least in part, and have these numbers. */
static void
choose_windows(
	struct windows *w, const struct query_args *args, uint64_t first, uint64_t count)
{
	size_t chosen = 0;

	for (size_t i = 0; i < w->count; i++) {
		const struct flow_window *of = &w->all[i];

		if (of->number >= first && (!count || of->number - first < count) &&
			of->until > args->since && of->since <= args->until)
			w->all[chosen++] = *of;
	}
	w->count = chosen;
}

/* The records of one window. */
static int
read_window(struct flow_reader *r, const struct flow_window *w, flow_take *take, void *arg,
	struct pr_error *err)
{
	uint64_t found = 0;

	r->scan->only = w;
	if (take_rows(r, take, arg, &found, err) < 0)
		return CLI_FAILED;
	if (found == w->records)
		return CLI_OK;
	fprintf(stderr,
		"window %" PRIu64 ": %" PRIu64 " of its %" PRIu64 " flows are lost\n",
		w->number, w->records - found, w->records);
	return CLI_PARTIAL;
}

/* k has the windows and their heads. */
static int
read_windows(struct flow_kept *k,
	void (*begin)(void *arg, const struct flow_window *w, bool head), flow_take *take,
	void *arg, struct pr_error *err)
{
	struct flow_scan scan = {.kept = k};
	struct flow_reader *r = flow_reader_create(&scan);
	int status = k->windows.damaged ? CLI_PARTIAL : CLI_OK;

	if (!r) {
		pr_error_set(err, "no memory for kept flows");
		return CLI_FAILED;
	}
	for (size_t i = 0; i < k->windows.count; i++)
		begin(arg, &k->windows.all[i], true);
	for (size_t i = 0; i < k->windows.count && status != CLI_FAILED; i++) {
		int said;

		begin(arg, &k->windows.all[i], false);
		said = read_window(r, &k->windows.all[i], take, arg, err);
		status = said == CLI_OK ? status : said;
	}
	flow_reader_destroy(&r);
	return status;
}

int
flow_kept_windows(const char *volume, const struct query_args *args, uint64_t first,
	uint64_t count, void (*begin)(void *arg, const struct flow_window *w, bool head),
	flow_take *take, void *arg, struct pr_error *err)
{
	const struct query_args all = {.since = PR_TIME_MIN, .until = PR_TIME_MAX};
	struct flow_kept *k = kept_create(volume, &all, err);
	int status = CLI_FAILED;

	if (k && windows_read(&k->windows, k->sfs, err) == 0) {
		choose_windows(&k->windows, args, first, count);
		if (take_heads(k, err) == 0)
			status = read_windows(k, begin, take, arg, err);
	}
	flow_kept_close(&k);
	return status;
}

/* windows_free in any case */
static int
windows_of(struct windows *w, const char *volume, struct pr_error *err)
{
	struct pri_volume *view = ask_volume_open(volume, 0, err);
	int rc;

	*w = (struct windows){0};
	rc = view ? windows_read(w, view->sfs, err) : -1;
	pri_volume_close(&view);
	return rc;
}

static int
compare_windows(const void *a, const void *b)
{
	const struct flow_window *x = a, *y = b;

	return (x->since > y->since) - (x->since < y->since);
}

/* Says that nothing was kept from .. until; the ends of a range that is open are no gap. */
static int
say_gap(int64_t from, int64_t until)
{
	char since[PR_TIME_TEXT], to[PR_TIME_TEXT];

	if (from == PR_TIME_MIN || until == PR_TIME_MAX || from >= until)
		return CLI_OK;
	fprintf(stderr, "  not kept: %s to %s\n",
		pr_time_format(from, since, sizeof(since)),
		pr_time_format(until, to, sizeof(to)));
	return CLI_PARTIAL;
}

struct sums {
	uint64_t packets, not_ip, missing, partial, lost, filtered;
	int64_t first, last;
	int status;
};

/* Adds windows of the range, and says what lies between them. */
static void
add_windows(struct sums *s, const struct windows *w, const struct query_args *args)
{
	/* without a begin it is that of what was not overwritten yet */
	int64_t at = args->since, reach = 0;
	int64_t from = at > PR_TIME_MIN ? at : w->evicted_until, to;

	/* flows of exporters come some time after, or before, they were; so does what is lost of them */
	for (size_t i = 0; i < w->count; i++)
		if (w->all[i].collected && w->all[i].reach > reach)
			reach = w->all[i].reach;
	from = at > PR_TIME_MIN ? pr_time_minus(from, reach) : from;
	to = pr_time_minus(args->until, -reach);
	for (size_t i = 0; i < w->count; i++) {
		const struct flow_window *of = &w->all[i];

		if (of->until <= from || of->since > to)
			continue;
		s->first = of->since < s->first ? of->since : s->first;
		if (say_gap(at, of->since) != CLI_OK)
			s->status = CLI_PARTIAL;
		at = of->until > at ? of->until : at;
		s->last = at;
		s->packets += of->packets;
		s->not_ip += of->not_ip;
		*(of->collected ? &s->lost : &s->missing) += of->missing;
		s->partial += !of->complete;
		s->filtered += of->filtered;
	}
	if (s->last != PR_TIME_MIN && say_gap(at, args->until) != CLI_OK)
		s->status = CLI_PARTIAL;
}

static void
say_sums(const struct sums *s)
{
	char since[PR_TIME_TEXT], until[PR_TIME_TEXT];

	fprintf(stderr,
		"kept of %s to %s: %" PRIu64 " packet%s, %" PRIu64
		" of them not IP; %" PRIu64 " missing\n",
		pr_time_format(s->first, since, sizeof(since)),
		pr_time_format(s->last, until, sizeof(until)), s->packets,
		pr_plural(s->packets), s->not_ip, s->missing);
	if (s->lost)
		fprintf(stderr,
			"  lost on the way from exporters: %" PRIu64
			" records (version 9: messages)\n",
			s->lost);
	if (s->partial)
		fprintf(stderr, "  %" PRIu64 " window%s not complete when they were kept\n",
			s->partial, pr_plural(s->partial));
	if (s->filtered)
		fputs("  only flows that a filter, a link, a node or a share chose were "
		      "kept\n",
			stderr);
}

int
flow_kept_report(const char *volume, const struct query_args *args, struct pr_error *err)
{
	struct sums s = {.first = PR_TIME_MAX, .last = PR_TIME_MIN, .status = CLI_OK};
	struct windows w;

	if (windows_of(&w, volume, err) < 0) {
		windows_free(&w);
		return CLI_FAILED;
	}
	if (w.count)
		qsort(w.all, w.count, sizeof(*w.all), compare_windows);
	add_windows(&s, &w, args);
	if (s.last == PR_TIME_MIN) {
		fputs("nothing was kept of this time\n", stderr);
		s.status = CLI_PARTIAL;
	} else {
		say_sums(&s);
	}
	if (w.damaged)
		fprintf(stderr, "  %" PRIu64 " damaged entries of windows\n", w.damaged);
	if (s.partial || s.missing || s.lost || w.damaged)
		s.status = CLI_PARTIAL;
	windows_free(&w);
	return s.status;
}

/* ---- keeping ---- */

struct flow_keeper {
	char *volume;
	struct sfs *sfs;
	struct pri_batch *batch; /* the records that are not stored yet */
	int64_t since, until; /* ends of these */
	size_t most; /* rows of a batch */
	struct windows windows; /* those that follow on each other as one */
	struct flow_window last; /* that goes on; number 0: none */
	int windows_id, open_id, batches_id, columns_id;
	uint64_t number; /* of the last window */
	uint64_t tag, file; /* of the next window */
	uint64_t records; /* of this window */
	int64_t reach;
	uint8_t *room; /* for a record */
	size_t room_size;
	uint64_t open;
	bool collected;
	uint64_t *files; /* that windows are of */
	size_t file_count;
};

/* Windows that follow on each other are one. */
static int
note_window(struct flow_keeper *k, const struct flow_window *next, struct pr_error *err)
{
	struct windows *w = &k->windows;
	struct flow_window *last = w->count ? &w->all[w->count - 1] : NULL;

	if (next->file && PR_ARRAY_GROW(k->files, k->file_count) < 0)
		return pr_error_set(err, "no memory for windows");
	if (next->file)
		k->files[k->file_count++] = next->file;
	if (last && last->until == next->since) {
		last->until = next->until;
		return 0;
	}
	if (PR_ARRAY_GROW(w->all, w->count) < 0)
		return pr_error_set(err, "no memory for windows");
	w->all[w->count++] = *next;
	return 0;
}

/* It goes on. When a file's flows were says nothing of when that is. */
static void
note_last(struct flow_keeper *k, const struct flow_window *w)
{
	int64_t until = k->last.until;

	k->last = *w;
	if (w->file)
		k->last.until = until;
}

/* Reads what there is, before the volume is written. */
static int
look(struct flow_keeper *k, struct pr_error *err)
{
	struct windows w;
	int rc = windows_of(&w, k->volume, err);

	for (size_t i = 0; i < w.count && rc == 0; i++) {
		if (w.all[i].collected != k->collected)
			rc = pr_error_set(err,
				"%s has flows %s: give these a volume of their own",
				k->volume,
				k->collected ? "made of packets (packrack flows --keep)"
					     : "of exporters (packrack collect)");
		else
			rc = note_window(k, &w.all[i], err);
		if (w.all[i].goes_on)
			note_last(k, &w.all[i]);
		k->number = w.all[i].number;
	}
	windows_free(&w);
	return rc;
}

/* A volume that has others' records, as packets have. */
static bool
has_others(struct sfs *sfs)
{
	struct sfs_stream_info info;
	int id = sfs_stream_find(sfs, "ledger");

	return id >= 0 && sfs_stream_info(sfs, id, &info, NULL) == SFS_OK &&
	       info.last_sequence;
}

static int
streams_open(struct flow_keeper *k, struct pr_error *err)
{
	struct sfs_volume_info volume;
	uint64_t guarantee;

	if (sfs_info(k->sfs, &volume, err) != SFS_OK)
		return -1;
	guarantee = volume.blocks / 16 * volume.block_size;
	k->windows_id = sfs_stream_open(k->sfs, windows_stream, guarantee, 0, err);
	k->open_id = sfs_stream_open(k->sfs, open_stream, guarantee, 0, err);
	k->batches_id = sfs_stream_open(k->sfs, batches_stream, guarantee, 0, err);
	k->columns_id = sfs_stream_open(k->sfs, columns_stream, 0, 0, err);
	return k->windows_id < 0 || k->open_id < 0 || k->batches_id < 0 || k->columns_id < 0
		       ? -1
		       : 0;
}

static int
begin_writing(struct flow_keeper *k, struct pr_error *err)
{
	struct sfs_open_options writing = {.writer = true};
	struct volume_paths paths;

	if (volume_paths_parse(k->volume, &paths, err) == 0)
		k->sfs = sfs_open(paths.path, paths.count, &writing, err);
	volume_paths_free(&paths);
	if (!k->sfs)
		return -1;
	if (has_others(k->sfs))
		return pr_error_set(err,
			"%s holds packets: give flows a volume of their own (packrack "
			"volume create)",
			k->volume);
	if (streams_open(k, err) < 0)
		return -1;
	k->room_size = sfs_record_max(k->sfs);
	/* the longest column, of two addresses a row, fits a record */
	k->most = k->room_size / 256 * 15;
	k->most = k->most < PRI_BATCH_ROWS ? k->most : PRI_BATCH_ROWS;
	k->room = malloc(k->room_size);
	k->batch = pri_batch_create();
	if (!k->room || !k->batch)
		return pr_error_set(err, "no memory for flows");
	randombytes_buf(&k->tag, sizeof(k->tag));
	return 0;
}

int
flow_keeper_file(struct flow_keeper *k, uint64_t file, struct pr_error *err)
{
	for (size_t i = 0; i < k->file_count; i++)
		if (k->files[i] == file)
			return pr_error_set(
				err, "%s has the flows of this file already", k->volume);
	k->file = file;
	k->records = 0;
	k->reach = 0;
	pri_batch_clear(k->batch);
	randombytes_buf(&k->tag, sizeof(k->tag));
	return 0;
}

struct flow_keeper *
flow_keeper_open(const char *volume, bool collected, struct pr_error *err)
{
	struct flow_keeper *k = calloc(1, sizeof(*k));

	if (k) {
		k->collected = collected;
		k->volume = strdup(volume);
	}
	if (!k || !k->volume)
		pr_error_set(err, "no memory for a keeper of flows");
	else if (look(k, err) == 0 && begin_writing(k, err) == 0)
		return k;
	flow_keeper_close(&k);
	return NULL;
}

void
flow_keeper_close(struct flow_keeper **keeper)
{
	struct flow_keeper *k = *keeper;

	*keeper = NULL;
	if (!k)
		return;
	sfs_close(&k->sfs);
	pri_batch_destroy(&k->batch);
	windows_free(&k->windows);
	free(k->files);
	free(k->room);
	free(k->volume);
	free(k);
}

bool
flow_keeper_has(const struct flow_keeper *k, int64_t since, int64_t until,
	struct flow_window *other)
{
	for (size_t i = 0; i < k->windows.count; i++) {
		*other = k->windows.all[i];
		if (other->since < until && since < other->until)
			return true;
	}
	return false;
}

/* ---- batches ---- */

/* A record of the batch; its handle goes to its head. */
static int
store(struct flow_keeper *k, int stream, size_t len, struct pr_writer *head,
	struct sfs_handle *last, struct pr_error *err)
{
	struct sfs_handle at;

	if (sfs_append(k->sfs, stream, k->since, k->until, k->room, len, &at, err) !=
		SFS_OK)
		return -1;
	head->at += sfs_handle_pack(&at, last, head->at);
	*last = at;
	return 0;
}

/* Stores the batch, if there is one, and begins the next. */
static int
store_batch(struct flow_keeper *k, int heads, int columns, struct pr_error *err)
{
	uint8_t head[HEAD_MAX];
	struct pr_writer w = pr_writer_make(head, sizeof(head));
	struct pri_batch *b = k->batch;
	struct sfs_handle last = {0};
	uint64_t least, most;

	if (!b->rows)
		return 0;
	memcpy(head, head_magic, 4);
	pr_put_le32(head + 4, (uint32_t)b->rows);
	pr_put_le64(head + 8, k->tag);
	pr_put_le32(head + 16, (uint32_t)b->addresses);
	pr_put_le64(head + 20, (heads == k->open_id ? k->open : k->records) - b->rows);
	w.at += COLUMNS_AT;
	for (unsigned c = 0; c < PRI_COLUMNS; c++) {
		size_t len = pri_column_pack(b, c, &least, &most, k->room, k->room_size);

		if (len == SIZE_MAX || !pr_store_varint(&w, least) ||
			!pr_store_varint(&w, most - least))
			return pr_error_set(err, "%s: a column does not fit", k->volume);
		if (len && store(k, columns, len, &w, &last, err) < 0)
			return -1;
	}
	pri_batch_bloom(b, k->room);
	if (heads == k->batches_id &&
		store(k, columns, pri_batch_bloom_size(b), &w, &last, err) < 0)
		return -1;
	pri_batch_clear(b);
	return sfs_append(k->sfs, heads, k->since, k->until, head, pr_writer_len(&w), NULL,
		       err) != SFS_OK
		       ? -1
		       : 0;
}

static int
add_row(struct flow_keeper *k, const struct pri_flow *flow, uint64_t missing, bool left_out,
	int64_t now)
{
	if (!k->batch->rows)
		k->since = k->until = now;
	k->until = now > k->until ? now : k->until;
	pri_batch_add(k->batch, flow, missing, left_out);
	return k->batch->rows == k->most;
}

int
flow_keeper_put(struct flow_keeper *k, const struct pri_flow *flow, uint64_t missing,
	int64_t now, struct pr_error *err)
{
	int64_t reach = pr_time_minus(now, pri_flow_first(flow));
	bool full = add_row(k, flow, missing, false, now);

	k->records++;
	k->reach = reach > k->reach ? reach : k->reach;
	if (k->records % LOOK == 0 && sfs_tick(k->sfs, pr_now_mono(), err) != SFS_OK)
		return -1;
	return full ? store_batch(k, k->batches_id, k->columns_id, err) : 0;
}

/* ---- the open flows ---- */

struct storing {
	struct flow_keeper *keeper;
	const struct flow_keep_open *open;
	int64_t time;
};

static int
add_open(void *arg, const struct pri_flow *flow, struct pr_error *err)
{
	const struct storing *to = arg;
	struct flow_keeper *k = to->keeper;
	bool full = add_row(k, flow,
		flow_losses_between(to->open->losses, flow->key.link, pri_flow_first(flow),
			pri_flow_last(flow)),
		to->open->filter && !pri_flow_filter_match(to->open->filter, flow),
		to->time);

	k->open++;
	return full ? store_batch(k, k->open_id, k->open_id, err) : 0;
}

int
flow_keeper_resume(struct flow_keeper *k, struct pri_flow_table *table,
	struct flow_window *last, struct pr_error *err)
{
	const struct query_args all = {.since = PR_TIME_MIN, .until = PR_TIME_MAX};
	struct flow_kept kept = {
		.range = &all, .sfs = k->sfs, .lock = PTHREAD_MUTEX_INITIALIZER};
	struct flow_scan scan = {.kept = &kept};
	struct flow_reader *r = NULL;
	struct pri_flow flow;
	uint64_t missing;
	int rc = 0;

	if (!k->last.number)
		return 0;
	*last = k->last;
	if (take_open(&kept, last->tag, err) < 0 ||
		pri_flow_table_advance(table, last->until, err) < 0)
		rc = -1;
	/* all of them, or none */
	last->complete = rc == 0 && kept.open == last->open;
	r = last->complete ? flow_reader_create(&scan) : NULL;
	if (last->complete && !r)
		rc = pr_error_set(err, "no memory for open flows");
	for (size_t i = 0; r && i < kept.count; i++)
		kept.heads[i]->all = true; /* those that the filter leaves out, too */
	while (rc == 0 && r && flow_reader_next(r, PRI_COLUMNS_ALL))
		for (size_t i = 0; i < r->count && rc == 0; i++)
			if (pri_batch_flow(r->batch, r->rows[i], &flow, &missing))
				rc = pri_flow_table_restore(table, &flow, err);
	flow_reader_destroy(&r);
	heads_free(&kept);
	return rc < 0 ? -1 : 1;
}

/* ---- what its maker has to know ---- */

int
flow_keeper_state(struct flow_keeper *k, int64_t time, const void *items, size_t size,
	size_t count, struct pr_error *err)
{
	pr_put_le64(k->room, k->tag);
	pr_put_le64(k->room + 8, OPEN_STATE | (uint64_t)size << 8);
	for (size_t at = 0; at < count;) {
		size_t n = (k->room_size - OPEN_HEADER) / size;

		n = n < count - at ? n : count - at;
		memcpy(k->room + OPEN_HEADER, (const uint8_t *)items + at * size, n * size);
		if (sfs_append(k->sfs, k->open_id, time, time, k->room,
			    OPEN_HEADER + n * size, NULL, err) != SFS_OK)
			return -1;
		at += n;
	}
	return 0;
}

struct state {
	uint64_t tag;
	size_t size;
	int (*take)(void *arg, const void *item, struct pr_error *err);
	void *arg;
};

static int
take_state(void *arg, const struct sfs_record *r, struct pr_error *err)
{
	struct state *s = arg;

	if (!is_state(r, s->tag, s->size))
		return 0;
	for (size_t at = OPEN_HEADER; at < r->length; at += s->size)
		if (s->take(s->arg, r->body + at, err) < 0)
			return -1;
	return 0;
}

int
flow_state_each(const char *volume, size_t size,
	int (*take)(void *arg, const void *item, struct pr_error *err), void *arg,
	struct pr_error *err)
{
	struct state s = {.size = size, .take = take, .arg = arg};
	struct windows w = {0};
	struct pri_volume *view = ask_volume_open(volume, 0, err);
	uint64_t damaged = 0;
	int rc = view ? windows_read(&w, view->sfs, err) : -1;

	if (rc == 0 && w.count) {
		s.tag = w.all[w.count - 1].tag;
		rc = each_record(view->sfs, open_stream, take_state, &s, &damaged, err);
	}
	if (rc == 0 && damaged) /* of those that count, or of older ones */
		fprintf(stderr, "%s: %" PRIu64 " damaged entries are left out\n", volume,
			damaged);
	pri_volume_close(&view);
	windows_free(&w);
	return rc;
}

/* ---- the end of a window ---- */

/* All that it is made of. */
static int
store_window(struct flow_keeper *k, struct flow_window *w,
	const struct flow_keep_open *open, struct pr_error *err)
{
	struct storing to = {
		.keeper = k, .open = open, .time = k->file ? pr_now_real() : w->until};

	k->open = 0;
	if (store_batch(k, k->batches_id, k->columns_id, err) < 0 ||
		(open && (pri_flow_table_open_flows(open->table, add_open, &to, err) < 0 ||
				 store_batch(k, k->open_id, k->open_id, err) < 0)))
		return -1;
	return sfs_flush(k->sfs, err) != SFS_OK ? -1 : 0;
}

int
flow_keeper_commit(struct flow_keeper *k, struct flow_window *window,
	const struct flow_keep_open *open, struct pr_error *err)
{
	uint8_t entry[WINDOW_BYTES];
	struct sfs_trimmed trimmed;

	if (store_window(k, window, open, err) < 0)
		return -1;
	window->number = ++k->number;
	window->records = k->records;
	window->reach = k->reach > window->reach ? k->reach : window->reach;
	window->open = k->open;
	window->tag = k->tag;
	window->goes_on = open != NULL;
	window->collected = k->collected;
	window->file = k->file;
	window_write(window, entry);
	if (sfs_append(k->sfs, k->windows_id, window->since, window->until, entry,
		    sizeof(entry), NULL, err) != SFS_OK ||
		sfs_flush(k->sfs, err) != SFS_OK || note_window(k, window, err) < 0)
		return -1;
	k->records = 0;
	k->reach = 0;
	randombytes_buf(&k->tag, sizeof(k->tag));
	/* a range leaves what a keeper that goes on has there */
	if ((open || k->collected) && k->last.number &&
		sfs_trim(k->sfs, k->open_id, k->last.until, 0, &trimmed, err) != SFS_OK)
		return -1;
	if (open || k->collected)
		note_last(k, window);
	return 0;
}
