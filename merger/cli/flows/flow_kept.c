/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/flows/flow_keep.h"

#include <inttypes.h>
#include <pthread.h>

#include "merger/cli/query/ask.h"
#include "proto/base/field_table.h"
#include "proto/base/thread.h"

const char *const flow_streams[FLOW_STREAMS] = {
	"flow.windows", "flow.open", "flow.batches", "flow.columns"};

/* ---- entries of windows ---- */

/* "PFW" version u8; u32 flags; then numbers as u64. */
static const struct pr_field numbers[] = {PR_INTS(flow_window, number, since, until,
						  packets, not_ip, missing, records, reach),
	PR_INTS(flow_window, open, tag, file)};
static const struct pr_field_table numbers_table = PR_FIELD_TABLE(numbers);
enum { COMPLETE = 1, GOES_ON = 2, COLLECTED = 4, FILTERED = 8 };
enum { SHARE = 8, SHARES = 18, SHARE_MASK = 0x3ff }; /* above the flags */
static const uint8_t window_magic[4] = {'P', 'F', 'W', 3};

void
flow_window_write(const struct flow_window *w, uint8_t out[FLOW_WINDOW_BYTES])
{
	struct pr_writer to = pr_writer_make(out + 8, FLOW_WINDOW_BYTES - 8);

	memcpy(out, window_magic, 4);
	pr_put_le32(out + 4, (w->complete ? COMPLETE : 0) | (w->goes_on ? GOES_ON : 0) |
				     (w->collected ? COLLECTED : 0) |
				     (w->filtered ? FILTERED : 0) | w->share << SHARE |
				     w->shares << SHARES);
	/* there is room */
	(void)!pr_field_table_store(&to, w, &numbers_table, PR_LITTLE_ENDIAN);
}

static bool
window_read(const uint8_t *p, size_t len, struct flow_window *w)
{
	struct pr_cursor c = pr_cursor_make(p + 8, FLOW_WINDOW_BYTES - 8);

	if (len != FLOW_WINDOW_BYTES || memcmp(p, window_magic, 4) != 0)
		return false;
	uint32_t flags = pr_get_le32(p + 4);
	*w = (struct flow_window){.complete = flags & COMPLETE,
		.goes_on = flags & GOES_ON,
		.collected = flags & COLLECTED,
		.filtered = flags & FILTERED,
		.share = flags >> SHARE & SHARE_MASK,
		.shares = flags >> SHARES & SHARE_MASK};
	return pr_field_table_load(&c, w, &numbers_table, PR_LITTLE_ENDIAN) &&
	       w->since <= w->until && w->reach >= 0;
}

typedef int take_record(void *arg, const struct sfs_record *r, struct pr_error *err);
/* Each record of a stream. take: -1 ends. -1: err; damaged ones are counted. */
static int
each_record(struct sfs *sfs, enum flow_stream stream, take_record *take, void *arg,
	uint64_t *damaged, struct pr_error *err)
{
	int id = sfs_stream_find(sfs, flow_streams[stream]), rc = 0, got;
	struct sfs_record r;

	if (id < 0)
		return 0;
	struct sfs_cursor *c = sfs_cursor_open(sfs, id, NULL, err);
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
	struct flow_windows *w = arg;
	struct flow_window window;

	if (r->length > 4 && !memcmp(r->body, window_magic, 3) &&
		r->body[3] != window_magic[3])
		return pr_error_set(err, "the flows are of another version of packrack: "
					 "keep them again, in a new volume");
	if (!window_read(r->body, r->length, &window))
		w->damaged++;
	else if (PR_ARRAY_ADD(w->all, w->count, window) < 0)
		return pr_error_set(err, "no memory for windows");
	return 0;
}

/* Free w->all in any case. */
static int
windows_read(struct flow_windows *w, struct sfs *sfs, struct pr_error *err)
{
	*w = (struct flow_windows){.evicted_until = PR_TIME_MIN};
	for (int i = FLOW_BATCHES; i < FLOW_STREAMS; i++) {
		int id = sfs_stream_find(sfs, flow_streams[i]);
		struct sfs_stream_info info;

		if (id >= 0 && sfs_stream_info(sfs, id, &info, NULL) == SFS_OK &&
			info.evicted_until > w->evicted_until)
			w->evicted_until = info.evicted_until;
	}
	return each_record(sfs, FLOW_WINDOWS, take_window, w, &w->damaged, err);
}

int
flow_windows_of(struct flow_windows *w, const char *volume, struct pr_error *err)
{
	struct pri_volume *view = ask_volume_open(volume, PRI_VOLUME_CACHED, err);

	*w = (struct flow_windows){0};
	int rc = view ? windows_read(w, view->sfs, err) : -1;
	pri_volume_close(&view);
	return rc;
}

/* The last window that goes on, or NULL. */
static const struct flow_window *
last_open(const struct flow_windows *w)
{
	for (size_t i = w->count; i > 0; i--)
		if (w->all[i - 1].goes_on)
			return &w->all[i - 1];
	return NULL;
}

/* ---- batches ---- */

struct head {
	uint32_t rows, addresses;
	uint64_t tag, before; /* rows of the window */
	bool paged; /* of this version: the Bloom filter has pages */
	struct column {
		uint64_t least, most;
		struct sfs_handle at; /* if most is greater */
	} columns[PRI_COLUMNS];
	struct sfs_handle bloom; /* length 0: none */
	struct pr_cursor rest; /* handles of the columns */
};

/* As it is stored, and copies of the columns, if they may go while they are read. */
struct stored_head {
	const struct volume *of;
	uint8_t *bytes;
	size_t len;
	bool open, all; /* flows that are open; also those that the filter leaves out */
	uint8_t *copies[]; /* if they are open */
};

static bool
is_head(const uint8_t *p, size_t len)
{
	return len >= FLOW_HEAD && !memcmp(p, FLOW_HEAD_MAGIC, 3) && p[3] &&
	       p[3] <= FLOW_HEAD_VERSION;
}

static bool
take_handle(const struct sfs *sfs, struct pr_cursor *c, struct sfs_handle *last)
{
	struct sfs_handle before = *last;
	size_t len = sfs_handle_unpack(sfs, c->at, pr_cursor_left(c), &before, last);
	const uint8_t *at;

	return len && pr_load_bytes(c, &at, len) && last->length <= SFS_BLOCK_MAX;
}

/* Any bytes may come. columns: the numbers of so many are enough, all or the first ones. */
static bool
head_read(const struct sfs *sfs, const struct stored_head *stored, unsigned columns,
	struct head *h)
{
	const uint8_t *p = stored->bytes;
	struct pr_cursor c = pr_cursor_make(p + FLOW_HEAD, stored->len - FLOW_HEAD);
	struct sfs_handle last = {0};

	*h = (struct head){.rows = pr_get_le32(p + 4),
		.tag = pr_get_le64(p + 8),
		.addresses = pr_get_le32(p + 16),
		.before = pr_get_le64(p + 20),
		.paged = p[3] == FLOW_HEAD_VERSION};
	if (!h->rows || h->rows > PRI_BATCH_ROWS || !h->addresses ||
		h->addresses > 2 * h->rows)
		return false;
	for (unsigned i = 0; i < columns; i++) {
		struct column *column = &h->columns[i];

		if (!pr_load_varint(&c, &column->least) ||
			!pr_load_varint(&c, &column->most))
			return false;
		column->most += column->least;
		if (!h->paged && column->most != column->least &&
			!take_handle(sfs, &c, &last))
			return false;
		column->at = last;
	}
	if (columns == PRI_COLUMNS && (h->paged ? !stored->open : pr_cursor_left(&c) > 0)) {
		if (!take_handle(sfs, &c, &last))
			return false;
		h->bloom = last;
	}
	h->rest = c;
	return !(h->paged && h->bloom.length % PRI_BLOOM_PAGE);
}

/* ---- reading batches ---- */

struct volume {
	const char *name;
	struct pri_volume *view; /* NULL: sfs is a keeper's */
	struct sfs *sfs;
	struct flow_windows windows;
	uint64_t open; /* rows of heads of flow.open */
};

struct flow_kept {
	const struct query_args *range;
	struct volume *volumes;
	size_t volume_count;
	pthread_mutex_t lock; /* of the volumes, and of what follows */
	struct stored_head **heads; /* those that the range does not exclude */
	size_t count;
	struct flow_kept_figures figures, opened; /* opened: before rows were read */
};

/* The handles of the columns, if they were not among the numbers. */
static bool
head_handles(struct flow_kept *k, const struct sfs *sfs, struct head *h)
{
	struct sfs_handle last = h->bloom;
	bool good = true;

	pthread_mutex_lock(&k->lock);
	for (unsigned i = 0; i < PRI_COLUMNS && h->paged && good; i++) {
		struct column *c = &h->columns[i];

		good = c->most == c->least || take_handle(sfs, &h->rest, &last);
		c->at = last;
	}
	pthread_mutex_unlock(&k->lock);
	return good && pr_cursor_left(&h->rest) == 0;
}

struct flow_scan {
	struct flow_kept *kept;
	const struct pri_plan *plan; /* NULL: all */
	const struct flow_window *only; /* NULL: of all windows */
	uint64_t needed; /* columns that the plan asks for */
	uint64_t spare; /* columns: any value will do that the plan does not exclude */
	size_t next; /* head; under the lock */
	const struct flow_taker *taker; /* NULL: others take what the readers have */
	pthread_mutex_t taking; /* of the taker, and of what follows */
	uint64_t found;
	int rc;
	struct pr_error *err;
};

struct flow_reader {
	struct flow_scan *scan;
	const struct stored_head *stored;
	struct head head; /* of the batch */
	struct pri_batch *batch;
	struct pri_read_buffer room;
	uint8_t *scratch; /* of the plan */
	uint32_t rows[PRI_BATCH_ROWS];
	size_t count;
	bool asked[2 * PRI_BATCH_ROWS]; /* addresses of the batch that the plan asks for */
};

/* What a plan asks, of a row, of all addresses of a batch, or of what its head says. */
struct asked {
	const struct head *head;
	const struct pri_batch *batch; /* NULL: not read yet */
	size_t row; /* SIZE_MAX: of any row */
	bool every; /* of every row, by the head */
	bool none; /* of rows that have no address that the plan asks for */
	struct flow_reader *reader; /* of the Bloom filter; NULL: it tells nothing */
	const uint8_t *bloom; /* all of it; NULL: its pages are read one by one */
	bool *asked; /* notes those that are found; NULL: does not */
};

/* What the batch's Bloom filter says of an address. */
static bool
bloom_has(const struct asked *a, unsigned side, const uint8_t *address, size_t len)
{
	const struct head *h = a->head;
	struct flow_kept *k = a->reader->scan->kept;
	size_t at = h->paged ? pri_bloom_page(h->bloom.length, side, address, len) : 0;
	const uint8_t *bits = a->bloom ? a->bloom + at : NULL;
	int rc = SFS_OK;

	if (!h->paged)
		return pri_bloom_has(bits, h->bloom.length, PRI_BLOOM_ANY, address, len);
	if (!a->bloom) {
		pthread_mutex_lock(&k->lock);
		rc = pri_volume_read_part(a->reader->stored->of->view, &h->bloom, at,
			PRI_BLOOM_PAGE, &a->reader->room, &bits);
		pthread_mutex_unlock(&k->lock);
	}
	return rc != SFS_OK ||
	       !pri_bloom_page_valid(bits, FLOW_BLOOM_SEED(h->tag, h->before) + at) ||
	       pri_bloom_has(bits, PRI_BLOOM_BYTES, side, address, len);
}

/* side: PRI_COL_SRC, PRI_COL_DST, or PRI_COLUMNS for either */
static bool
has_address(const struct asked *a, unsigned side, const uint8_t *address, size_t len)
{
	uint64_t high = len == 16 ? pr_get_be64(address) : 0;
	uint64_t low = len == 16 ? pr_get_be64(address + 8) : pr_get_be32(address);
	const struct pri_batch *b = a->batch;
	size_t from = 0, until = b ? b->addresses : 0;

	if (side == PRI_COLUMNS && (!b || a->row != SIZE_MAX))
		return has_address(a, PRI_COL_SRC, address, len) ||
		       has_address(a, PRI_COL_DST, address, len);
	if (!b)
		return !a->reader ||
		       bloom_has(a, side == PRI_COL_SRC ? PRI_BLOOM_SRC : PRI_BLOOM_DST,
			       address, len);
	if (a->row != SIZE_MAX) {
		from = b->values[side][a->row];
		until = from + 1;
	}
	for (size_t i = from; i < until; i++)
		if (b->values[PRI_COL_LOW][i] == low &&
			b->values[PRI_COL_HIGH][i] == high &&
			b->values[PRI_COL_SIX][i] == (len == 16)) {
			if (a->asked)
				a->asked[i] = true;
			return true;
		}
	return false;
}

/* How many addresses a key asks for. */
static unsigned
addresses_of(const struct pri_key *key)
{
	unsigned n = key->kind == PRI_KEY_PAIR                              ? 2
		     : key->kind == PRI_KEY_SRC || key->kind == PRI_KEY_DST ? 1
									    : 0;

	return key->len == 4 * n || key->len == 16 * n ? n : 0;
}

static bool
has_key(void *arg, const struct pri_key *key)
{
	const struct asked *a = arg;
	unsigned n = addresses_of(key);

	if (a->every || (a->none && n))
		return false;
	if (n == 2)
		return has_address(a, PRI_COLUMNS, key->bytes, key->len / 2) &&
		       has_address(a, PRI_COLUMNS, key->bytes + key->len / 2, key->len / 2);
	return n == 0 ||
	       has_address(a, key->kind == PRI_KEY_SRC ? PRI_COL_SRC : PRI_COL_DST,
		       key->bytes, key->len);
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

	if (a->none || r->number < FLOW_NUMBER(0) || c >= PRI_COLUMNS)
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

/* Columns that the plan's tests of a row need. */
static uint64_t
columns_of_plan(const struct pri_plan *plan)
{
	uint64_t out = 0;

	for (size_t i = 0; plan && i < plan->key_count; i++)
		if (addresses_of(&plan->keys[i]))
			out |= PRI_COLUMN(PRI_COL_SRC) | PRI_COLUMN(PRI_COL_DST) |
			       PRI_COLUMNS_ADDRESSES;
	for (size_t i = 0; plan && i < plan->range_count; i++)
		if (plan->ranges[i].number >= FLOW_NUMBER(0) &&
			plan->ranges[i].number < FLOW_NUMBER(PRI_COLUMNS))
			out |= PRI_COLUMN(plan->ranges[i].number - FLOW_NUMBER(0));
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
	struct sfs *sfs = r->stored->of->sfs;
	struct sfs_record record;
	struct sfs_plan plan;
	int rc = SFS_ERROR;

	if (pri_read_buffer_grow(&r->room, sfs_read_room(at)) < 0)
		return SFS_ERROR;
	pthread_mutex_lock(&k->lock);
	if (sfs_read_plan(sfs, at, &plan) == 1) {
		pthread_mutex_unlock(&k->lock);
		rc = sfs_read_planned(&plan, r->room.bytes, r->room.capacity, &record);
		pthread_mutex_lock(&k->lock);
	}
	if (rc != SFS_OK)
		rc = sfs_read_in(sfs, at, r->room.bytes, r->room.capacity, &record, NULL);
	pthread_mutex_unlock(&k->lock);
	*body = record.body;
	return rc;
}

/* Reads columns into the batch; of spare ones the least value. SFS_OK, or what the first that cannot be read gave. */
static int
read_columns(struct flow_reader *r, uint64_t want, uint64_t spare)
{
	for (unsigned i = 0; i < PRI_COLUMNS; i++) {
		const struct column *c = &r->head.columns[i];
		const uint8_t *body = r->stored->open ? r->stored->copies[i] : NULL;
		uint64_t most = spare & PRI_COLUMN(i) ? c->least : c->most;
		bool packed = most != c->least;
		int rc = SFS_OK;

		if (!(want & PRI_COLUMN(i)))
			continue;
		if (packed && !r->stored->open)
			rc = read_body(r, &c->at, &body);
		if (rc == SFS_OK && !pri_column_unpack(r->batch, i, c->least, most, body,
					    packed ? c->at.length : 0))
			rc = SFS_CORRUPT;
		if (rc != SFS_OK)
			return rc;
	}
	return SFS_OK;
}

/* Must rows be tested? Not if the head says that all are within the plan. */
static bool
tests_rows(const struct flow_reader *r)
{
	const struct asked a = {.head = &r->head, .row = SIZE_MAX, .every = true};

	return r->scan->needed && r->scan->plan->count <= FLOW_EXACT_MAX &&
	       !plan_holds(r, &a);
}

/* The rows of the batch that are of the range, and that the plan does not exclude; exact: it tests them. */
static void
choose_rows(struct flow_reader *r, const struct head *h, bool within, bool exact)
{
	const struct query_args *range = r->scan->kept->range;
	uint64_t *const *v = r->batch->values;
	const struct pri_plan *plan = r->scan->plan;
	struct asked a = {.head = h, .batch = r->batch, .row = SIZE_MAX, .none = true};
	bool few; /* a row must have an address that is asked for */

	few = exact && !plan_holds(r, &a);
	a.none = false;
	if (within && !exact && !r->stored->open) {
		for (; r->count < h->rows; r->count++)
			r->rows[r->count] = (uint32_t)r->count;
		return;
	}
	if (few) {
		memset(r->asked, 0, h->addresses);
		a.asked = r->asked;
		for (size_t i = 0; i < plan->key_count; i++)
			has_key(&a, &plan->keys[i]);
		a.asked = NULL;
	}
	for (size_t i = 0; i < h->rows; i++) {
		if (few && !r->asked[v[PRI_COL_SRC][i]] && !r->asked[v[PRI_COL_DST][i]])
			continue;
		if (!within) {
			int64_t first = pri_time_of_column(v[PRI_COL_FIRST][i]);
			uint64_t span = v[PRI_COL_SPAN][i];

			if (first > range->until ||
				(first < range->since &&
					(uint64_t)range->since - (uint64_t)first > span))
				continue;
		}
		a.row = i;
		if (!(r->stored->open && !r->stored->all &&
			    v[PRI_COL_BITS][i] & PRI_LEFT_OUT) &&
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
	/* of many addresses the whole filter is read */
	if (r->scan->needed & PRI_COLUMNS_ADDRESSES && h->bloom.length &&
		((h->paged && r->scan->plan->key_count <= FLOW_EXACT_MAX) ||
			read_body(r, &h->bloom, &a.bloom) == SFS_OK)) {
		a.reader = r;
		if (!plan_holds(r, &a))
			return false;
	}
	if (!head_handles(r->scan->kept, r->stored->of->sfs, &r->head))
		*rc = SFS_CORRUPT;
	if (*rc != SFS_OK || !(r->scan->needed & PRI_COLUMNS_ADDRESSES))
		return *rc == SFS_OK;
	*rc = read_columns(r, PRI_COLUMNS_ADDRESSES, 0);
	a.batch = r->batch;
	return *rc == SFS_OK &&
	       (r->scan->plan->key_count > FLOW_EXACT_MAX || plan_holds(r, &a));
}

/* The rows of one batch; of the columns first those that tell which rows. enum sfs_result */
static int
read_batch(struct flow_reader *r, uint64_t want)
{
	const struct head *h = &r->head;
	const struct flow_taker *taker = r->scan->taker;
	bool exact = tests_rows(r);
	uint64_t first = (exact ? r->scan->needed : 0) | (taker ? taker->first : 0),
		 there = r->scan->needed & PRI_COLUMNS_ADDRESSES;
	int within = lies(r->scan->kept, h), rc = SFS_OK;

	PR_COPY(r->batch, h, rows, addresses);
	first |= r->stored->open ? PRI_COLUMN(PRI_COL_BITS) : 0;
	if (within != 1)
		first |= PRI_COLUMN(PRI_COL_FIRST) | PRI_COLUMN(PRI_COL_SPAN);
	if (!may_have(r, h, &rc))
		return rc;
	rc = read_columns(r, first & ~there, 0);
	if (rc == SFS_OK)
		choose_rows(r, h, within == 1, exact);
	if (rc == SFS_OK && r->count && taker && taker->choose) {
		pthread_mutex_lock(&r->scan->taking);
		r->count = taker->choose(taker->arg, r->batch, r->rows, r->count);
		pthread_mutex_unlock(&r->scan->taking);
	}
	r->batch->only = r->count < h->rows / 8 ? r->rows : NULL;
	r->batch->only_count = r->count;
	if (rc == SFS_OK && r->count)
		rc = read_columns(r, want & ~(first | there), exact ? 0 : r->scan->spare);
	r->batch->only = NULL;
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
	struct flow_scan *s = r->scan;
	struct flow_kept *k = s->kept;
	int rc;

	r->count = 0;
	pthread_mutex_lock(&k->lock);
	while (!r->count && s->next < k->count && is_asked(s)) {
		const struct stored_head *h = k->heads[s->next++];

		r->stored = h;
		if (!head_read(h->of->sfs, h, PRI_COLUMNS, &r->head)) {
			k->figures.damaged++;
			continue;
		}
		pthread_mutex_unlock(&k->lock);
		rc = read_batch(r, want);
		pthread_mutex_lock(&k->lock);
		k->figures.read += r->count > 0;
		k->figures.rows += r->count;
		if (rc == SFS_EXPIRED || rc == SFS_DELETED)
			k->figures.gone += r->head.rows;
		else if (rc != SFS_OK)
			k->figures.lost += r->head.rows;
	}
	pthread_mutex_unlock(&k->lock);
	return r->count > 0;
}

struct flow_scan *
flow_scan_create(struct flow_kept *kept, const struct pri_plan *plan, uint64_t spare)
{
	struct flow_scan *s = calloc(1, sizeof(*s));

	if (s)
		*s = (struct flow_scan){.kept = kept,
			.plan = plan,
			.needed = columns_of_plan(plan),
			.spare = plan && plan->count <= FLOW_EXACT_MAX ? spare : 0};
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
	struct flow_reader *r = PR_TAKE(reader);

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
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
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
copy_columns(const struct head *h, struct stored_head *to)
{
	for (unsigned i = 0; i < PRI_COLUMNS && to->open; i++) {
		const struct column *c = &h->columns[i];

		if (c->most == c->least)
			continue;
		to->copies[i] = malloc(c->at.length);
		if (!to->copies[i] || sfs_read(to->of->sfs, &c->at, to->copies[i],
					      c->at.length, NULL, NULL, NULL) != SFS_OK)
			return false;
	}
	return true;
}

/* Heads of a volume's windows that have these tags. */
struct taking {
	struct flow_kept *kept;
	struct volume *of;
	uint64_t *tags;
	size_t count;
	bool open;
};

static int
take_head(void *arg, const struct sfs_record *r, struct pr_error *err)
{
	const struct taking *t = arg;
	struct flow_kept *k = t->kept;
	struct stored_head *to;
	struct head h;

	if (!is_head(r->body, r->length)) {
		k->figures.damaged += !t->open;
		return 0;
	}
	uint64_t tag = pr_get_le64(r->body + 8);
	if (!bsearch(&tag, t->tags, t->count, sizeof(tag), compare_tags))
		return 0;
	size_t copies = t->open ? PRI_COLUMNS : 0;
	to = calloc(1, sizeof(*to) + copies * sizeof(*to->copies) + r->length);
	if (!to || PR_ARRAY_GROW(k->heads, k->count) < 0) {
		free(to);
		return pr_error_set(err, "no memory for batches of flows");
	}
	to->bytes = (uint8_t *)&to->copies[copies];
	memcpy(to->bytes, r->body, r->length);
	to->of = t->of;
	to->len = r->length;
	to->open = t->open;
	/* the time, and of open flows all */
	bool good =
		head_read(t->of->sfs, to, t->open ? PRI_COLUMNS : PRI_COL_SPAN + 1, &h) &&
		(!t->open || head_handles(k, t->of->sfs, &h));
	k->figures.damaged += !good;
	k->figures.batches += good;
	bool wanted = good && lies(k, &h) >= 0;
	good = good && (!wanted || copy_columns(&h, to));
	t->of->open += t->open && good ? h.rows : 0;
	if (wanted && good)
		k->heads[k->count++] = to;
	else
		stored_free(to);
	return 0;
}

/* The flows that are open at the end of the window with this tag. */
static int
take_open(struct flow_kept *k, struct volume *v, uint64_t tag, struct pr_error *err)
{
	struct taking t = {k, v, &tag, 1, true};

	v->open = 0;
	return each_record(v->sfs, FLOW_OPEN, take_head, &t, &k->figures.damaged, err);
}

/* Those of the batches of all windows that there are. */
static int
take_heads(struct flow_kept *k, struct volume *v, struct pr_error *err)
{
	struct taking t = {k, v, calloc(v->windows.count + 1, sizeof(*t.tags)),
		v->windows.count, false};

	if (!t.tags)
		return pr_error_set(err, "no memory for windows");
	for (size_t i = 0; i < t.count; i++)
		t.tags[i] = v->windows.all[i].tag;
	qsort(t.tags, t.count, sizeof(*t.tags), compare_tags);
	int rc = each_record(v->sfs, FLOW_BATCHES, take_head, &t, &k->figures.damaged, err);
	free(t.tags);
	return rc;
}

/* Leaves the first `count`. */
static void
heads_free(struct flow_kept *k, size_t count)
{
	while (k->count > count)
		stored_free(k->heads[--k->count]);
}

int
flow_kept_restore(struct sfs *sfs, struct flow_window *last, struct pri_flow_table *table,
	struct pr_error *err)
{
	const struct query_args all = {.since = PR_TIME_MIN, .until = PR_TIME_MAX};
	struct volume v = {.sfs = sfs};
	struct flow_kept kept = {.range = &all, .lock = PTHREAD_MUTEX_INITIALIZER};
	struct flow_scan scan = {.kept = &kept};
	struct flow_reader *r = NULL;
	struct pri_flow flow;
	uint64_t missing;
	int rc = take_open(&kept, &v, last->tag, err);

	/* all of them, or none */
	last->complete = rc == 0 && v.open == last->open;
	if (last->complete && !(r = flow_reader_create(&scan)))
		rc = pr_error_set(err, "no memory for open flows");
	for (size_t i = 0; i < kept.count; i++)
		kept.heads[i]->all = true;
	while (rc == 0 && r && flow_reader_next(r, PRI_COLUMNS_ALL))
		for (size_t i = 0; i < r->count && rc == 0; i++)
			if (pri_batch_flow(r->batch, r->rows[i], &flow, &missing))
				rc = pri_flow_table_restore(table, &flow, err);
	flow_reader_destroy(&r);
	heads_free(&kept, 0);
	free(kept.heads);
	return rc;
}

/* ---- volumes ---- */

int
flow_kept_alone(const struct query_args *q, struct pr_error *err)
{
	if (!q->volumes.count && !q->files.count && !q->nodes.count && !q->link &&
		!q->follow && !q->merger.endpoint)
		return 0;
	return pr_error_set(err,
		"--kept: flows of that volume alone, without --volume, -r, --node, "
		"--link and --merger; --follow: with --to");
}

/* All that there is to know before columns are read: windows, heads, and flows that are open at the end of the last. */
static int
begin_reading(struct flow_kept *k, struct volume *v, struct pr_error *err)
{
	const struct flow_window *last = NULL;
	size_t others = k->count;
	int rc = 0;

	/* a keeper that runs may end a window meanwhile, and what was open before it goes */
	for (int tries = 0; rc == 0 && tries < 3; tries++) {
		free(v->windows.all);
		heads_free(k, others);
		rc = windows_read(&v->windows, v->sfs, err);
		last = last_open(&v->windows);
		if (rc == 0 && last)
			rc = take_open(k, v, last->tag, err);
		if (!last || v->open == last->open)
			break;
		rc = rc == 0 && sfs_refresh(v->sfs, err) != SFS_OK ? -1 : rc;
	}
	if (rc == 0 && !v->windows.count && !v->windows.damaged)
		rc = pr_error_set(err,
			"%s keeps no flows: packrack flows --keep %s stores them there",
			v->name, v->name);
	if (rc == 0 && last && v->open < last->open) {
		fprintf(stderr, "  lost: %" PRIu64 " flows that were open\n",
			last->open - v->open);
		k->figures.lost += last->open - v->open;
	}
	return rc < 0 ? -1 : take_heads(k, v, err);
}

PR_ORDER(compare_windows, struct flow_window, since)

/* Shares of the same flows, and volumes of different times, have each flow once. */
static int
check_volumes(const struct volume *v, const struct volume *w, struct pr_error *err)
{
	const struct flow_window *a = v->windows.all, *a_end = a + v->windows.count;
	const struct flow_window *b = w->windows.all, *b_end = b + w->windows.count;

	while (a < a_end && b < b_end) {
		if (a->since < b->until && b->since < a->until &&
			(a->shares != b->shares || a->share == b->share))
			return pr_error_set(err,
				"%s has share %u/%u (0/0: all), and %s %u/%u of the same "
				"time: some flows would be there twice; ask each alone",
				v->name, a->share, a->shares, w->name, b->share, b->shares);
		*(a->until < b->until ? &a : &b) += 1;
	}
	return 0;
}

/* Nothing is read yet. */
static struct flow_kept *
kept_create(const struct pr_string_list *volumes, const struct query_args *range,
	struct pr_error *err)
{
	struct flow_kept *k = calloc(1, sizeof(*k));
	bool good = k && (k->volumes = calloc(volumes->count, sizeof(*k->volumes)));

	if (!good)
		pr_error_set(err, "no memory for kept flows");
	else
		k->range = range;
	if (k)
		pthread_mutex_init(&k->lock, NULL);
	while (good && k->volume_count < volumes->count) {
		struct volume *v = &k->volumes[k->volume_count];

		v->name = volumes->items[k->volume_count++];
		v->view = ask_volume_open(v->name, PRI_VOLUME_CACHED, err);
		good = v->view;
		v->sfs = good ? v->view->sfs : NULL;
	}
	if (!good)
		flow_kept_close(&k);
	return k;
}

struct flow_kept *
flow_kept_open_all(const struct pr_string_list *volumes, const struct query_args *range,
	struct pr_error *err)
{
	struct flow_kept *k = kept_create(volumes, range, err);
	int rc = k ? 0 : -1;

	for (size_t i = 0; rc == 0 && i < k->volume_count; i++) {
		struct volume *v = &k->volumes[i];

		rc = begin_reading(k, v, err);
		PR_SORT(v->windows.all, v->windows.count, compare_windows);
		for (size_t j = 0; rc == 0 && j < i; j++)
			rc = check_volumes(&k->volumes[j], v, err);
	}
	if (k && rc < 0)
		flow_kept_close(&k);
	if (k)
		k->opened = k->figures;
	return k;
}

void
flow_kept_close(struct flow_kept **kept)
{
	struct flow_kept *k = PR_TAKE(kept);

	if (!k)
		return;
	heads_free(k, 0);
	for (size_t i = 0; i < k->volume_count; i++) {
		free(k->volumes[i].windows.all);
		pri_volume_close(&k->volumes[i].view);
	}
	PR_FREE(k, volumes, heads);
	free(k);
}

/* ---- reading records ---- */

/* Which volume it is of, if there are several. */
#define OF(k, v) (k)->volume_count > 1 ? (v)->name : "", (k)->volume_count > 1 ? ": " : ""

int
flow_kept_lacks(const struct flow_kept *k, struct flow_kept_figures *out)
{
	bool lacks = k->figures.damaged || k->figures.lost || k->figures.gone;
	char time[PR_TIME_TEXT];

	*out = k->figures;
	for (const struct volume *v = k->volumes; v < k->volumes + k->volume_count; v++) {
		int64_t gone = v->windows.evicted_until;

		lacks |= v->windows.damaged > 0;
		if (gone == PR_TIME_MIN || gone < k->range->since)
			continue;
		fprintf(stderr, "  %s%soverwritten or deleted: flows that ended by %s\n",
			OF(k, v), pr_time_format(gone, time, sizeof(time)));
		lacks = true;
	}
	if (k->figures.lost)
		fprintf(stderr, "  lost: %" PRIu64 " records of flows\n", k->figures.lost);
	if (k->figures.gone)
		fprintf(stderr, "  overwritten: %" PRIu64 " records of flows\n",
			k->figures.gone);
	if (k->figures.damaged)
		fprintf(stderr, "  %" PRIu64 " damaged batches of flows\n",
			k->figures.damaged);
	return lacks ? CLI_PARTIAL : CLI_OK;
}

/* Of a window a row is its place there. */
static void
take_batch(struct flow_scan *s, const struct flow_reader *r)
{
	const struct flow_window *w = s->only;
	bool whole = s->taker->columns == PRI_COLUMNS_ALL;
	struct pri_flow flow;
	uint64_t missing = 0, lost = 0;

	for (size_t i = 0; i < r->count && s->rc == 0; i++) {
		uint64_t before = r->head.before + r->rows[i];

		if (!(whole ? pri_batch_flow(r->batch, r->rows[i], &flow, &missing)
			    : pri_batch_sums(r->batch, r->rows[i], &flow)) ||
			(w && before >= w->records)) {
			lost++;
			continue;
		}
		s->found++;
		s->rc = s->taker->take(
			s->taker->arg, &flow, missing, w ? before + 1 : 0, s->err);
	}
	pthread_mutex_lock(&s->kept->lock);
	s->kept->figures.lost += lost;
	pthread_mutex_unlock(&s->kept->lock);
}

static void *
take_all(void *reader)
{
	struct flow_reader *r = reader;
	struct flow_scan *s = r->scan;
	int rc = 0;

	while (rc == 0 && flow_reader_next(r, s->taker->columns)) {
		pthread_mutex_lock(&s->taking);
		take_batch(s, r);
		rc = s->rc;
		pthread_mutex_unlock(&s->taking);
	}
	return NULL;
}

int
flow_kept_read(struct flow_kept *k, const struct pri_plan *plan,
	const struct flow_taker *taker, size_t threads, struct pr_error *err)
{
	struct flow_scan *s = flow_scan_create(k, plan, 0);
	struct flow_reader *readers[FLOW_THREADS_MAX] = {NULL};
	pthread_t others[FLOW_THREADS_MAX];
	size_t count = 0, started = 0;
	int rc = -1;

	k->figures = k->opened;
	while (s && count < threads && (readers[count] = flow_reader_create(s)))
		count++;
	if (count < threads) {
		pr_error_set(err, "no memory for kept flows");
	} else {
		s->taker = taker;
		s->err = err;
		pthread_mutex_init(&s->taking, NULL);
		while (started + 1 < threads &&
			pr_thread_start(&others[started], take_all, readers[started + 1],
				"", NULL) == 0)
			started++;
		take_all(readers[0]);
		while (started > 0)
			pthread_join(others[--started], NULL);
		rc = s->rc;
	}
	while (count > 0)
		flow_reader_destroy(&readers[--count]);
	free(s);
	return rc;
}

/* The records of one window. */
static int
read_window(struct flow_reader *r, const struct flow_window *w)
{
	struct flow_scan *s = r->scan;

	s->only = w;
	s->found = 0;
	take_all(r);
	if (s->rc < 0)
		return CLI_FAILED;
	if (s->found == w->records)
		return CLI_OK;
	fprintf(stderr,
		"window %" PRIu64 ": %" PRIu64 " of its %" PRIu64 " flows are lost\n",
		w->number, w->records - s->found, w->records);
	return CLI_PARTIAL;
}

int
flow_kept_windows(const struct pr_string_list *volume, const struct query_args *args,
	uint64_t first, uint64_t count,
	void (*begin)(void *arg, const struct flow_window *w, bool head), flow_take *take,
	void *arg, struct pr_error *err)
{
	const struct query_args all = {.since = PR_TIME_MIN, .until = PR_TIME_MAX};
	struct flow_kept *k = kept_create(volume, &all, err);
	struct flow_windows *w = k ? &k->volumes->windows : NULL;
	const struct flow_taker taker = {
		.take = take, .arg = arg, .columns = PRI_COLUMNS_ALL};
	struct flow_scan scan = {.kept = k,
		.taker = &taker,
		.taking = PTHREAD_MUTEX_INITIALIZER,
		.err = err};
	struct flow_reader *r = NULL;
	int status = CLI_FAILED;

	if (k && windows_read(w, k->volumes->sfs, err) == 0) {
		size_t chosen = 0;

		for (const struct flow_window *of = w->all; of < w->all + w->count; of++)
			if (of->number >= first && (!count || of->number - first < count) &&
				of->until > args->since && of->since <= args->until)
				w->all[chosen++] = *of;
		w->count = chosen;
		if (take_heads(k, k->volumes, err) == 0 && !(r = flow_reader_create(&scan)))
			pr_error_set(err, "no memory for kept flows");
	}
	for (size_t i = 0; r && i < w->count; i++)
		begin(arg, &w->all[i], true);
	if (r)
		status = w->damaged ? CLI_PARTIAL : CLI_OK;
	for (size_t i = 0; r && i < w->count && status != CLI_FAILED; i++) {
		begin(arg, &w->all[i], false);
		int said = read_window(r, &w->all[i]);
		status = said == CLI_OK ? status : said;
	}
	flow_reader_destroy(&r);
	flow_kept_close(&k);
	return status;
}

/* ---- what was kept ---- */

struct sums {
	uint64_t packets, not_ip, missing, partial, lost, filtered;
	int64_t first, last;
	int status;
};

/* Says that nothing was kept from .. until; the ends of a range that is open are no gap. */
static void
say_gap(struct sums *s, int64_t from, int64_t until)
{
	char since[PR_TIME_TEXT], to[PR_TIME_TEXT];

	if (from == PR_TIME_MIN || until == PR_TIME_MAX || from >= until)
		return;
	fprintf(stderr, "  not kept: %s to %s\n",
		pr_time_format(from, since, sizeof(since)),
		pr_time_format(until, to, sizeof(to)));
	s->status = CLI_PARTIAL;
}

/* Adds windows of the range, which are in order of time, and says what lies between them. */
static void
add_windows(struct sums *s, const struct flow_windows *w, const struct query_args *args)
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
		s->first = PR_MIN(s->first, of->since);
		say_gap(s, at, of->since);
		at = PR_MAX(at, of->until);
		s->last = at;
		PR_ADD(s, of, packets, not_ip, filtered);
		*(of->collected ? &s->lost : &s->missing) += of->missing;
		s->partial += !of->complete;
	}
	if (s->last != PR_TIME_MIN)
		say_gap(s, at, args->until);
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

static int
tell_volume(const struct flow_windows *w, const struct query_args *range)
{
	struct sums s = {.first = PR_TIME_MAX, .last = PR_TIME_MIN, .status = CLI_OK};

	add_windows(&s, w, range);
	if (s.last == PR_TIME_MIN) {
		fputs("nothing was kept of this time\n", stderr);
		s.status = CLI_PARTIAL;
	} else {
		say_sums(&s);
	}
	if (w->damaged)
		fprintf(stderr, "  %" PRIu64 " damaged entries of windows\n", w->damaged);
	return s.partial || s.missing || s.lost || w->damaged ? CLI_PARTIAL : s.status;
}

int
flow_kept_tell(const struct flow_kept *k)
{
	int status = CLI_OK;

	for (const struct volume *v = k->volumes; v < k->volumes + k->volume_count; v++) {
		const struct flow_windows *w = &v->windows;

		if (k->volume_count > 1 && w->count)
			fprintf(stderr, "%s, share %u/%u:\n", v->name, w->all->share,
				w->all->shares);
		if (tell_volume(w, k->range) != CLI_OK)
			status = CLI_PARTIAL;
	}
	return status;
}

/* ---- what the maker of records has to know ---- */

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

	if (r->length < FLOW_STATE_HEAD || pr_get_le64(r->body) != s->tag ||
		pr_get_le64(r->body + 8) != FLOW_STATE_KIND(s->size) ||
		(r->length - FLOW_STATE_HEAD) % s->size)
		return 0;
	for (size_t at = FLOW_STATE_HEAD; at < r->length; at += s->size)
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
	struct flow_windows w = {0};
	struct pri_volume *view = ask_volume_open(volume, 0, err);
	uint64_t damaged = 0;
	int rc = view ? windows_read(&w, view->sfs, err) : -1;

	if (rc == 0 && w.count) {
		s.tag = w.all[w.count - 1].tag;
		rc = each_record(view->sfs, FLOW_OPEN, take_state, &s, &damaged, err);
	}
	if (rc == 0 && damaged) /* of those that count, or of older ones */
		fprintf(stderr, "%s: %" PRIu64 " damaged entries are left out\n", volume,
			damaged);
	pri_volume_close(&view);
	free(w.all);
	return rc;
}
