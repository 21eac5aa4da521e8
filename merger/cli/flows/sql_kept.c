/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/flows/sql_kept.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"
#include "proto/base/units.h"

#define TABLE "flows"
#define THREADS 64 /* at most: DuckDB has one a processor */

/* How a column of the table is made of those of a batch. */
enum how { NUMBER, TIME, LAST, DURATION, OUTGOING, ADDRESS, STATE, UID, COMMUNITY };
#define BIT(column) (UINT64_C(1) << (column))
#define SOURCE (BIT(PRI_COL_SRC) | PRI_COLUMNS_ADDRESSES)
#define TARGET (BIT(PRI_COL_DST) | PRI_COLUMNS_ADDRESSES)
#define SENT(c) (PRI_COL_SENT + (c))
#define RECEIVED(c) (PRI_COL_RECEIVED + (c))
#define ONE(X, name, type, how, column) X(name, type, how, column, BIT(column), 0)
/* X(name, type, how, first of the stored columns, all of them, of VLAN and sampling the value that is NULL) */
#define COLUMNS(X)                                                                         \
	ONE(X, "tcqtime", SQL_TIME, TIME, PRI_COL_FIRST)                                   \
	ONE(X, "duration", SQL_DOUBLE, DURATION, PRI_COL_SPAN)                             \
	X("src_ip", SQL_TEXT, ADDRESS, PRI_COL_SRC, SOURCE, 0)                             \
	X("dst_ip", SQL_TEXT, ADDRESS, PRI_COL_DST, TARGET, 0)                             \
	ONE(X, "src_port", SQL_U16, NUMBER, PRI_COL_SPORT)                                 \
	ONE(X, "dst_port", SQL_U16, NUMBER, PRI_COL_DPORT)                                 \
	ONE(X, "protocol", SQL_U8, NUMBER, PRI_COL_PROTOCOL)                               \
	ONE(X, "bytes_sent", SQL_U64, NUMBER, SENT(PRI_SIDE_BYTES))                        \
	ONE(X, "bytes_recv", SQL_U64, NUMBER, RECEIVED(PRI_SIDE_BYTES))                    \
	X("outgoing", SQL_BOOL, OUTGOING, PRI_COL_SRC, SOURCE | TARGET, 0)                 \
	ONE(X, "state", SQL_TEXT, STATE, PRI_COL_STATE)                                    \
	ONE(X, "packets_sent", SQL_U64, NUMBER, SENT(PRI_SIDE_PACKETS))                    \
	ONE(X, "packets_recv", SQL_U64, NUMBER, RECEIVED(PRI_SIDE_PACKETS))                \
	ONE(X, "payload_sent", SQL_U64, NUMBER, SENT(PRI_SIDE_PAYLOAD))                    \
	ONE(X, "payload_recv", SQL_U64, NUMBER, RECEIVED(PRI_SIDE_PAYLOAD))                \
	ONE(X, "flags_sent", SQL_U8, NUMBER, SENT(PRI_SIDE_FLAGS))                         \
	ONE(X, "flags_recv", SQL_U8, NUMBER, RECEIVED(PRI_SIDE_FLAGS))                     \
	X("vlan", SQL_U16, NUMBER, PRI_COL_VLAN, BIT(PRI_COL_VLAN), PRI_FLOW_UNTAGGED)     \
	ONE(X, "link", SQL_U16, NUMBER, PRI_COL_LINK)                                      \
	X("last", SQL_TIME, LAST, PRI_COL_FIRST, BIT(PRI_COL_FIRST) | BIT(PRI_COL_SPAN),   \
		0)                                                                         \
	X("community_id", SQL_TEXT, COMMUNITY, 0, PRI_COLUMNS_ALL, 0)                      \
	X("uid", SQL_TEXT, UID, 0, PRI_COLUMNS_ALL, 0)                                     \
	ONE(X, "missing", SQL_U64, NUMBER, PRI_COL_MISSING)                                \
	ONE(X, "sampling", SQL_U32, NUMBER, PRI_COL_SAMPLING)

#define COLUMN(name, type, ...) {name, type},
const struct sql_column flow_columns[SQL_FLOW_COLUMNS] = {COLUMNS(COLUMN)};
#define MAKING(...) {__VA_ARGS__},
static const struct making {
	const char *name;
	enum sql_type type;
	enum how how;
	unsigned column;
	uint64_t stored, null;
} makings[SQL_FLOW_COLUMNS] = {COLUMNS(MAKING)};

static const struct making *
making_of(const char *name)
{
	for (size_t i = 0; i < SQL_FLOW_COLUMNS; i++)
		if (!strcasecmp(makings[i].name, name))
			return &makings[i];
	return NULL;
}

/* ---- rows ---- */

/* A use of the table by a statement. */
struct use {
	const struct sql_kept *kept;
	struct flow_scan *scan;
	uint64_t stored; /* columns of a batch */
	size_t count; /* columns of the table */
	const struct making *columns[64]; /* NULL: none, as for count(*) */
	bool texts[PRI_COLUMNS]; /* of addresses, by the column that names them */
	bool places; /* of addresses: inside or not */
	bool merges; /* rows that are equal in the keys become one, with the sums */
	unsigned keys[PRI_COLUMNS], sums[PRI_COLUMNS]; /* columns of a batch */
	size_t key_count, sum_count;
	bool by_outgoing; /* a key, too */
	enum sql_way way; /* of rows that are left, when they are merged */
	uint64_t moved; /* columns of rows that are read */
};

#define SLOT_BITS 16
#define SLOTS (1 << SLOT_BITS) /* twice the rows */
#define VAIN 63 /* batches, behind one that had few rows alike */
#define SUM_MAX (UINT64_C(1) << 60) /* a sum of all columns does not overflow */

struct worker { /* a thread of it */
	struct flow_reader *reader;
	const struct pri_batch *batch;
	const uint32_t *rows;
	size_t count, at;
	struct addresses { /* of the batch; what each row takes lies close together */
		struct sql_text text[2 * PRI_BATCH_ROWS];
		bool inside[2 * PRI_BATCH_ROWS];
		uint8_t uses[2 * PRI_BATCH_ROWS];
		char far[2 * PRI_BATCH_ROWS * INET6_ADDRSTRLEN];
	} * addresses;
	struct merging {
		uint64_t hashes[PRI_BATCH_ROWS];
		uint32_t rows[PRI_BATCH_ROWS], parted[PRI_BATCH_ROWS];
		uint16_t slots[SLOTS];
	} * merging;
	size_t in_vain; /* so many batches to come are not merged */
};

static void
use_end(void *arg)
{
	struct use *u = arg;

	free(u->scan);
	free(u);
}

static void
begin_binding(handle info)
{
	for (size_t i = 0; i < SQL_FLOW_COLUMNS; i++) {
		handle type = duckdb_create_logical_type((int)makings[i].type);

		duckdb_bind_add_result_column(info, makings[i].name, type);
		duckdb_destroy_logical_type(&type);
	}
}

/* What a column is to rows that are merged. */
static void
take_column(struct use *u, const struct making *m, bool summed, bool tested)
{
	if (summed)
		u->sums[u->sum_count++] = m->column;
	else if (m->how == OUTGOING && tested)
		u->way = u->kept->sums.way;
	else if (m->how == OUTGOING)
		u->by_outgoing = true;
	else if (m->how == NUMBER || m->how == ADDRESS || m->how == STATE)
		u->keys[u->key_count++] = m->column;
	else if (!tested)
		u->merges = false; /* few are alike */
}

static void
begin(handle info)
{
	struct sql_kept *k = duckdb_init_get_extra_info(info);
	struct use *u = calloc(1, sizeof(*u));
	/* there for a test alone, not for other columns that are made of it */
	uint64_t spare = k->sums.tested & BIT(0) ? PRI_COLUMN(PRI_COL_FIRST) : 0;

	if (!u) {
		duckdb_init_set_error(info, "no memory for table " TABLE);
		return;
	}
	u->kept = k;
	u->merges = k->sums.may && (!k->plan || k->plan->count <= FLOW_EXACT_MAX);
	u->count = duckdb_init_get_column_count(info);
	for (size_t i = 0; i < u->count; i++) {
		uint64_t column = duckdb_init_get_column_index(info, i);
		const struct making *m =
			column < SQL_FLOW_COLUMNS ? &makings[column] : NULL;

		u->columns[i] = m;
		if (m)
			take_column(u, m, k->sums.summed >> column & 1,
				k->sums.tested >> column & 1);
		spare &= m && column ? ~m->stored : UINT64_MAX;
		k->read |= m ? UINT64_C(1) << column : 0;
		u->stored |= m ? m->stored : 0;
		if (m && m->how == ADDRESS)
			u->texts[m->column] = true;
		u->places |= m && m->how == OUTGOING;
	}
	u->moved = u->stored & ~PRI_COLUMNS_ADDRESSES;
	u->scan = flow_scan_create(k->volume, k->plan, spare);
	if (!u->scan)
		duckdb_init_set_error(info, "no memory for table " TABLE);
	duckdb_init_set_max_threads(info, THREADS);
	duckdb_init_set_init_data(info, u, use_end);
}

static void
worker_end(void *arg)
{
	struct worker *w = arg;

	flow_reader_destroy(&w->reader);
	PR_FREE(w, addresses, merging);
	free(w);
}

static void
begin_thread(handle info)
{
	struct worker *w = calloc(1, sizeof(*w));

	if (w)
		duckdb_init_set_init_data(info, w, worker_end);
	else
		duckdb_init_set_error(info, "no memory for table " TABLE);
}

/* ---- addresses of a batch ---- */

static void
make_places(const struct worker *w, const struct use *u)
{
	uint64_t *const *v = w->batch->values;

	for (size_t i = 0; u->places && i < w->batch->addresses; i++)
		w->addresses->inside[i] = networks_have_number(&u->kept->context.inside,
			v[PRI_COL_HIGH][i], v[PRI_COL_LOW][i], v[PRI_COL_SIX][i] != 0);
}

/* Those that the rows need. */
static const uint8_t *
mark_addresses(const struct worker *w, const struct use *u)
{
	uint8_t *uses = w->addresses->uses;
	bool all = u->texts[PRI_COL_SRC] && u->texts[PRI_COL_DST] &&
		   w->count == w->batch->rows;

	memset(uses, all, w->batch->addresses);
	for (unsigned c = PRI_COL_SRC; c <= PRI_COL_DST && !all; c++)
		for (size_t i = 0; u->texts[c] && i < w->count; i++)
			uses[w->batch->values[c][w->rows[i]]] = 1;
	return uses;
}

/* A text that lies in its own place leaves its bytes to the next one. */
static void
make_texts(const struct worker *w, const struct use *u)
{
	const uint8_t *uses = mark_addresses(w, u);
	struct addresses *a = w->addresses;
	uint64_t *const *v = w->batch->values;
	char *far = a->far;
	uint8_t bytes[16];

	for (size_t i = 0; i < w->batch->addresses; i++)
		if (uses[i]) {
			size_t size;

			if (v[PRI_COL_SIX][i]) {
				pri_batch_address(w->batch, i, bytes);
				size = flow_address_text(bytes, 16, far);
				memset(far + size, 0, SQL_TEXT_NEAR);
			} else {
				size = flow_four_text((uint32_t)v[PRI_COL_LOW][i], far);
			}
			sql_text_set(&a->text[i], far, size);
			far += size > SQL_TEXT_NEAR ? size : 0;
		}
}

/* ---- rows that become one ---- */

#define SPREAD(h, value) (((h) + (value)) * UINT64_C(0x9e3779b97f4a7c15))

static inline bool
is_outgoing(const struct worker *w, uint32_t row)
{
	uint64_t *const *v = w->batch->values;
	const bool *inside = w->addresses->inside;

	return inside[v[PRI_COL_SRC][row]] & !inside[v[PRI_COL_DST][row]];
}

/*
 * Outgoing rows come first, the others behind them in reverse: DuckDB then decides a CASE for whole vectors, and copies
 * nothing. With a way, only its rows are left, in their order.
 */
static void
part_ways(struct worker *w, enum sql_way way)
{
	uint32_t *rows = w->merging->parted;
	size_t front = 0, others = w->count;

	for (size_t i = 0; i < w->count; i++) {
		bool is = is_outgoing(w, w->rows[i]) == (way != SQL_NOT_OUTGOING);

		/* without a branch: one of both is overwritten */
		rows[front] = rows[others - 1] = w->rows[i];
		front += is;
		others -= !is;
	}
	w->rows = rows;
	w->count = way ? front : w->count;
}

/* Where a row's slots begin: by its keys; rows that are outgoing have odd ones, if that matters. */
static void
find_slots(const struct worker *w, const struct use *u)
{
	uint64_t *const *v = w->batch->values, *h = w->merging->hashes;

	memset(h, 0, w->count * sizeof(*h));
	for (size_t k = 0; k < u->key_count; k++)
		for (size_t i = 0; i < w->count; i++)
			h[i] = SPREAD(h[i], v[u->keys[k]][w->rows[i]]);
	for (size_t i = 0; i < w->count; i++)
		h[i] >>= 64 - SLOT_BITS;
	for (size_t i = 0; i < w->count && u->by_outgoing; i++)
		h[i] = (h[i] & ~UINT64_C(1)) | is_outgoing(w, w->rows[i]);
}

static inline bool
same_keys(uint64_t *const *v, const struct use *u, uint32_t to, uint32_t row)
{
	for (size_t k = 0; k < u->key_count; k++)
		if (v[u->keys[k]][to] != v[u->keys[k]][row])
			return false;
	return true;
}

/* Adds a row to one of the same keys; false: the sums would be too large. */
static inline bool
add_row(uint64_t *const *v, const struct use *u, uint32_t to, uint32_t row)
{
	uint64_t all = 0;

	for (size_t k = 0; k < u->sum_count; k++)
		all |= v[u->sums[k]][to] | v[u->sums[k]][row];
	for (size_t k = 0; k < u->sum_count && all < SUM_MAX; k++)
		v[u->sums[k]][to] += v[u->sums[k]][row];
	return all < SUM_MAX;
}

/* The sums take the place of what was read, from the first row on: they lie close together. */
static void
merge_rows(struct worker *w, const struct use *u)
{
	uint64_t *const *v = w->batch->values;
	struct merging *m = w->merging;
	uint32_t count = 0, step = u->by_outgoing ? 2 : 1;

	if (u->way)
		part_ways(w, u->way);
	memset(m->slots, 0, sizeof(m->slots));
	find_slots(w, u);
	for (size_t i = 0; i < w->count; i++) {
		uint32_t row = w->rows[i], at = (uint32_t)m->hashes[i];

		while (m->slots[at] && !same_keys(v, u, m->slots[at] - 1, row))
			at = (at + step) % SLOTS;
		if (m->slots[at] && add_row(v, u, m->slots[at] - 1, row))
			continue; /* else this one takes the place of a sum that is full */
		for (uint64_t c = u->moved; c; c &= c - 1)
			v[__builtin_ctzll(c)][count] = v[__builtin_ctzll(c)][row];
		m->rows[count] = count;
		m->slots[at] = (uint16_t)++count;
	}
	w->in_vain = count > w->count / 4 * 3 ? VAIN : 0;
	w->rows = m->rows;
	w->count = count;
}

/* The next batch. False: there is none. */
static bool
next_batch(struct worker *w, const struct use *u)
{
	w->at = w->count = 0;
	if (!flow_reader_next(w->reader, u->stored))
		return false;
	w->batch = flow_reader_batch(w->reader, &w->rows, &w->count);
	make_places(w, u);
	if (u->merges && w->in_vain > 0)
		w->in_vain--;
	else if (u->merges)
		merge_rows(w, u);
	if (u->merges && u->by_outgoing)
		part_ways(w, SQL_BOTH_WAYS);
	make_texts(w, u);
	return true;
}

#define EACH for (size_t i = 0; i < count; i++)
#define VALUE(column) v[column][from[i]]

static void
fill_numbers(const struct worker *w, const struct making *m, handle vector, size_t count)
{
	uint64_t *const *v = w->batch->values;
	const uint32_t *from = w->rows + w->at;
	void *to = duckdb_vector_get_data(vector);

	switch (m->type) {
	case SQL_U8:
		EACH((uint8_t *)to)[i] = (uint8_t)VALUE(m->column);
		break;
	case SQL_U16:
		EACH((uint16_t *)to)[i] = (uint16_t)VALUE(m->column);
		break;
	case SQL_U32:
		EACH((uint32_t *)to)[i] = (uint32_t)VALUE(m->column);
		break;
	default:
		EACH((uint64_t *)to)[i] = VALUE(m->column);
	}
	if (m->column == PRI_COL_VLAN || m->column == PRI_COL_SAMPLING)
		EACH if (VALUE(m->column) == m->null) sql_set_null(vector, i);
}

static void
fill_texts(const struct use *u, const struct worker *w, const struct making *m,
	handle vector, size_t count)
{
	uint64_t *const *v = w->batch->values;
	const uint32_t *from = w->rows + w->at;
	struct sql_text *to = duckdb_vector_get_data(vector);
	struct flow_record r;
	struct pri_flow flow;
	const char *text;
	uint64_t missing;

	if (m->how == ADDRESS) {
		EACH to[i] = w->addresses->text[VALUE(m->column)];
		return;
	}
	EACH
	{
		if (m->how == STATE) {
			text = pri_flow_state_name((enum pri_flow_state)VALUE(m->column));
		} else if (pri_batch_flow(w->batch, from[i], &flow, &missing)) {
			flow_record_make(&r, &flow, &u->kept->context);
			text = m->how == UID ? r.uid : r.community_id;
		} else {
			text = "";
		}
		duckdb_vector_assign_string_element_len(vector, i, text, strlen(text));
	}
}

static void
fill_column(const struct use *u, const struct worker *w, const struct making *m,
	handle vector, size_t count)
{
	uint64_t *const *v = w->batch->values;
	const uint32_t *from = w->rows + w->at;
	int64_t *times = duckdb_vector_get_data(vector);
	double *seconds = (double *)times;
	bool *truth = (bool *)times;

	switch (m->how) {
	case NUMBER:
		fill_numbers(w, m, vector, count);
		break;
	case TIME:
		EACH times[i] = pri_time_of_column(VALUE(PRI_COL_FIRST));
		break;
	case LAST:
		EACH times[i] =
			(int64_t)((uint64_t)pri_time_of_column(VALUE(PRI_COL_FIRST)) +
				  VALUE(PRI_COL_SPAN));
		break;
	case DURATION: /* as pr_time_minus has it */
		EACH seconds[i] = (double)(VALUE(PRI_COL_SPAN) > INT64_MAX
						   ? INT64_MAX
						   : (int64_t)VALUE(PRI_COL_SPAN)) /
				  PR_NS_PER_S;
		break;
	case OUTGOING:
		EACH truth[i] = is_outgoing(w, from[i]);
		for (size_t i = 0; i < count && !u->kept->context.inside.count; i++)
			sql_set_null(vector, i);
		break;
	default:
		fill_texts(u, w, m, vector, count);
	}
}

static void
fill(handle info, handle out)
{
	const struct use *u = duckdb_function_get_init_data(info);
	struct worker *w = duckdb_function_get_local_init_data(info);
	size_t count = duckdb_vector_size();

	if (!w->reader) {
		w->reader = flow_reader_create(u->scan);
		w->addresses = malloc(sizeof(*w->addresses));
		w->merging = malloc(sizeof(*w->merging));
	}
	if (!w->reader || !w->addresses || !w->merging) {
		duckdb_function_set_error(info, "no memory for table " TABLE);
		return;
	}
	/* a batch may have no row of the way that is asked for */
	while (w->at == w->count && next_batch(w, u))
		;
	count = PR_MIN(count, w->count - w->at);
	for (size_t i = 0; i < u->count && count; i++)
		if (u->columns[i])
			fill_column(u, w, u->columns[i],
				duckdb_data_chunk_get_vector(out, i), count);
	w->at += count;
	duckdb_data_chunk_set_size(out, count);
}

static int
register_rows(struct sql_kept *k, struct sql_engine *engine, struct pr_error *err)
{
	handle function = duckdb_create_table_function();

	duckdb_table_function_set_extra_info(function, k, NULL);
	duckdb_table_function_set_bind(function, begin_binding);
	duckdb_table_function_set_init(function, begin);
	duckdb_table_function_set_local_init(function, begin_thread);
	duckdb_table_function_set_function(function, fill);
	duckdb_table_function_supports_projection_pushdown(function, true);
	int rc = sql_function_add(engine, function, TABLE "_rows", err);
	duckdb_destroy_table_function(&function);
	return rc;
}

int
sql_kept_create(struct sql_kept *k, struct sql_engine *engine, struct pr_error *err)
{
	if (!k->engine && register_rows(k, engine, err) < 0)
		return -1;
	k->engine = engine;
	return sql_execute(engine, "CREATE VIEW " TABLE " AS FROM " TABLE "_rows()",
		SQL_AS_TEXT, NULL, err);
}

/* ---- what a statement asks for ---- */

/* Nodes have an index; NONE: not understood, so any row may be. */
#define NONE UINT32_MAX

struct asking {
	struct sql_engine *engine;
	struct pri_plan *plan;
	const char *alias; /* of the table */
	const json_t *select; /* the SELECT that reads it */
	size_t uses; /* times that the table is named; more than once: nothing is understood */
	bool failed; /* no memory */
	bool wide; /* the plan excludes less than what was asked */
	bool sums; /* there is a sum */
	bool other; /* there is what would change if rows became one */
	bool unknown; /* it may name any column */
	bool order; /* within an ORDER BY, where ALL is what the SELECT names */
	enum sql_way way; /* of rows that are asked for */
	/* columns, as bits: in sums, in tests of the plan, elsewhere */
	uint64_t summed, tested, named;
};

static uint32_t
node(struct asking *a, enum pri_plan_op op, size_t left, size_t right)
{
	struct pri_plan *p = a->plan;

	a->failed |= PR_ARRAY_ADD(p->nodes, p->count,
			     (struct pri_plan_node){
				     (uint32_t)op, (uint32_t)left, (uint32_t)right}) < 0;
	return a->failed ? NONE : (uint32_t)p->count - 1;
}

/* One that is not understood leaves the other of an AND, and nothing of an OR. */
static uint32_t
join(struct asking *a, enum pri_plan_op op, uint32_t left, uint32_t right)
{
	a->wide |= left == NONE || right == NONE;
	if (left == NONE || right == NONE)
		return op == PRI_PLAN_OR ? NONE : left == NONE ? right : left;
	return node(a, op, left, right);
}

static const char *
text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

static bool
is(const json_t *object, const char *name, const char *value)
{
	return !strcmp(text_of(object, name), value);
}

static const struct making *
column_of(const struct asking *a, const json_t *e)
{
	const json_t *names = json_object_get(e, "column_names");
	size_t count = json_array_size(names);
	const char *table = json_string_value(json_array_get(names, 0));
	const char *name = json_string_value(json_array_get(names, count - 1));

	if (!is(e, "class", "COLUMN_REF") || !count || count > 2 || !name || !table ||
		(count == 2 && strcasecmp(table, a->alias) != 0))
		return NULL;
	return making_of(name);
}

/* A text or a whole number as it stands there, a text perhaps cast to a time. NULL: something else. */
static const json_t *
constant_of(const json_t *e)
{
	const json_t *cast = json_object_get(e, "cast_type"), *value;

	if (is(e, "class", "CAST") &&
		(is(cast, "id", "TIMESTAMP") || is(cast, "id", "TIMESTAMP_NS")))
		e = json_object_get(e, "child");
	else
		cast = NULL;
	value = json_object_get(e, "value");
	if (!is(e, "class", "CONSTANT") ||
		!json_is_false(json_object_get(value, "is_null")))
		return NULL;
	e = json_object_get(value, "type");
	value = json_object_get(value, "value");
	return (json_is_string(value) && is(e, "id", "VARCHAR")) ||
			       (!cast && json_is_integer(value) &&
				       (is(e, "id", "INTEGER") || is(e, "id", "BIGINT")))
		       ? value
		       : NULL;
}

static uint32_t
range(struct asking *a, const struct making *m, int64_t least, int64_t most)
{
	struct pri_plan *p = a->plan;

	a->failed |=
		PR_ARRAY_ADD(p->ranges, p->range_count,
			(struct pri_plan_range){FLOW_NUMBER(m->column), least, most}) < 0;
	return a->failed ? NONE : node(a, PRI_PLAN_RANGE, p->range_count - 1, 0);
}

static uint32_t
address(struct asking *a, const struct making *m, const char *text)
{
	struct pri_plan *p = a->plan;
	uint8_t bytes[16];
	size_t len = pr_parse_address(text, bytes);

	if (!len)
		return NONE;
	a->failed |=
		PR_ARRAY_ADD(p->keys, p->key_count,
			pri_key_bytes(m->column == PRI_COL_SRC ? PRI_KEY_SRC : PRI_KEY_DST,
				bytes, len)) < 0;
	return a->failed ? NONE : node(a, PRI_PLAN_KEY, p->key_count - 1, 0);
}

/* A time as DuckDB reads it: a TIMESTAMP without its zone. */
static bool
time_of(const struct asking *a, const json_t *constant, int64_t *out)
{
	const char *text = json_string_value(constant_of(constant));
	bool zoneless = is(json_object_get(constant, "cast_type"), "id", "TIMESTAMP");
	char *ns =
		text ? sql_value_of(a->engine,
			       zoneless ? "epoch_ns(TIMESTAMP " : "epoch_ns(TIMESTAMP_NS ",
			       text)
		     : NULL;
	char *end = NULL;

	*out = ns ? strtoll(ns, &end, 10) : 0;
	free(ns);
	return end != NULL;
}

/* How a column may lie to the constant; STRICT: not EQUAL, which the plan takes all the same where it is not exact. */
enum { LESS = 1, EQUAL = 2, GREATER = 4, STRICT = 8 };

static unsigned
sense_of(const char *type)
{
	unsigned strict = strstr(type, "OREQUALTO") ? 0 : STRICT;

	return !strcmp(type, "COMPARE_EQUAL")              ? EQUAL
	       : !strncmp(type, "COMPARE_LESSTHAN", 16)    ? LESS | EQUAL | strict
	       : !strncmp(type, "COMPARE_GREATERTHAN", 19) ? GREATER | EQUAL | strict
							   : 0;
}

static uint32_t
compare(struct asking *a, const json_t *column, unsigned sense, const json_t *constant)
{
	const struct making *m = column_of(a, column);
	const json_t *value = constant_of(constant);
	int64_t least = INT64_MIN, most = INT64_MAX, n = json_integer_value(value);

	if (!m || !value || !sense)
		return NONE;
	if (m->how == ADDRESS)
		return sense == EQUAL && json_is_string(value)
			       ? address(a, m, json_string_value(value))
			       : NONE;
	if (m->how == TIME || m->how == LAST) {
		if (!time_of(a, constant, &n))
			return NONE;
		/* these are the same in microseconds, in which DuckDB may compare */
		bool exact =
			m->how == TIME && n % (PR_NS_PER_MS / 1000) == 0 &&
			(sense == (GREATER | EQUAL) || sense == (LESS | EQUAL | STRICT));
		/* digits may be rounded; a flow begins before its last packet */
		int64_t more = exact ? 0 : PR_NS_PER_S;
		a->wide |= !exact;
		least = m->how == LAST ? least : pr_time_minus(n, more);
		most = pr_time_minus(n, exact ? 1 : -more);
	} else if (m->how == NUMBER && json_is_integer(value)) {
		least = most = n;
	} else {
		return NONE;
	}
	return range(
		a, m, sense & LESS ? INT64_MIN : least, sense & GREATER ? INT64_MAX : most);
}

/* COLUMN IN (...): any of them */
static uint32_t
one_of(struct asking *a, const json_t *list)
{
	size_t i = json_array_size(list);
	uint32_t out =
		compare(a, json_array_get(list, 0), EQUAL, json_array_get(list, --i));

	while (--i > 0)
		out = join(a, PRI_PLAN_OR,
			compare(a, json_array_get(list, 0), EQUAL, json_array_get(list, i)),
			out);
	return out;
}

static uint32_t
condition(struct asking *a, const json_t *e)
{
	const char *type = text_of(e, "type");
	const json_t *list = json_object_get(e, "children");
	const json_t *left = json_object_get(e, "left"),
		     *right = json_object_get(e, "right"),
		     *input = json_object_get(e, "input");
	unsigned sense = sense_of(type);
	uint32_t out = NONE;

	if (!strcmp(type, "CONJUNCTION_AND") || !strcmp(type, "CONJUNCTION_OR")) {
		out = condition(a, json_array_get(list, 0));
		for (size_t i = 1; i < json_array_size(list); i++)
			out = join(a, type[12] == 'A' ? PRI_PLAN_AND : PRI_PLAN_OR, out,
				condition(a, json_array_get(list, i)));
	} else if (!strcmp(type, "COMPARE_IN") && json_array_size(list) > 1) {
		out = one_of(a, list);
	} else if (!strcmp(type, "COMPARE_BETWEEN")) {
		out = join(a, PRI_PLAN_AND,
			compare(a, input, GREATER | EQUAL, json_object_get(e, "lower")),
			compare(a, input, LESS | EQUAL, json_object_get(e, "upper")));
	} else if (is(e, "class", "COMPARISON")) {
		out = compare(a, left, sense, right);
		if (out == NONE) /* LESS and GREATER change places */
			out = compare(a, right,
				(sense & (EQUAL | STRICT)) | (sense & LESS) << 2 |
					(sense & GREATER) >> 2,
				left);
	}
	return out;
}

/* Finds the uses of the table; what else may read it counts as several. */
static void
find_uses(struct asking *a, json_t *e, unsigned depth)
{
	const json_t *from = json_object_get(e, "from_table");
	const char *function = text_of(json_object_get(e, "function"), "function_name");
	const char *key;
	json_t *child;
	size_t i;

	if (is(from, "type", "BASE_TABLE") &&
		!strcasecmp(text_of(from, "table_name"), TABLE))
		a->select = e;
	a->uses +=
		is(e, "type", "BASE_TABLE") && !strcasecmp(text_of(e, "table_name"), TABLE);
	/* WITH flows AS ..., functions that read tables by their names, and what is too deep */
	if (depth > 500 || !strcasecmp(text_of(e, "key"), TABLE) ||
		!strcasecmp(text_of(e, "cte_name"), TABLE) ||
		(is(e, "type", "TABLE_FUNCTION") && strcmp(function, "unnest") != 0 &&
			strcmp(function, "range") != 0)) {
		a->uses += 2;
		return;
	}
	json_array_foreach(e, i, child) find_uses(a, child, depth + 1);
	json_object_foreach(e, key, child) find_uses(a, child, depth + 1);
}

/* The FROM has the table alone, all rows of it, by its own columns' names. */
static bool
is_alone(const json_t *select)
{
	const json_t *from = json_object_get(select, "from_table");

	return is(select, "type", "SELECT_NODE") &&
	       json_is_null(json_object_get(select, "sample")) &&
	       json_is_null(json_object_get(from, "sample")) &&
	       json_array_size(json_object_get(from, "column_name_alias")) == 0;
}

/* ---- whether rows may become one ---- */

/* Functions of rows, and aggregates that are the same if a row is there twice. */
static bool
is_plain(const json_t *e)
{
	static const char *const names[] = {
		"min", "max", "prefix", "within", "hash", "concat_ws"};
	bool plain = json_is_true(json_object_get(e, "is_operator"));
	bool one = json_array_size(json_object_get(e, "children")) == 1;

	/* max(c, 3) has values as often as they are there */
	for (size_t i = one ? 0 : 2; i < PR_COUNT(names); i++)
		plain |= is(e, "function_name", names[i]);
	return plain;
}

/* Is it a sum of columns that add up? Notes them. */
static bool
take_sum(struct asking *a, const json_t *e)
{
	const json_t *children = json_object_get(e, "children"),
		     *type = json_object_get(e, "cast_type");
	const struct making *m = column_of(a, e);

	if (is(e, "class", "CAST"))
		return (is(type, "id", "DOUBLE") || is(type, "id", "HUGEINT")) &&
		       take_sum(a, json_object_get(e, "child"));
	if (is(e, "class", "FUNCTION"))
		return is(e, "function_name", "+") && json_array_size(children) == 2 &&
		       take_sum(a, json_array_get(children, 0)) &&
		       take_sum(a, json_array_get(children, 1));
	if (!m || m->type != SQL_U64 || m->column == PRI_COL_MISSING)
		return false;
	a->summed |= BIT(m - makings);
	return true;
}

/* Notes what an expression, or a list of them, names and calls. */
static void
take_names(struct asking *a, json_t *e)
{
	static const char *const known[] = {"", "BETWEEN", "CASE", "CAST", "COLUMN_REF",
		"COMPARISON", "CONJUNCTION", "CONSTANT", "OPERATOR", "STAR"};
	const json_t *names = json_object_get(e, "column_names");
	const char *name = json_string_value(json_array_get(names, 0)), *key;
	bool call = is(e, "class", "FUNCTION"), plain = call && is_plain(e);
	bool sum = call && is(e, "function_name", "sum");
	const struct making *m = column_of(a, e);
	json_t *child, *children = json_object_get(e, "children");
	size_t i;

	for (i = 0; i < PR_COUNT(known) && !call; i++)
		plain |= is(e, "class", known[i]);
	if (m)
		a->named |= BIT(m - makings);
	else if (name) /* one that the statement gives, or of all columns */
		a->unknown |= json_array_size(names) > 1 || !strcasecmp(name, a->alias);
	else if (is(e, "class", "STAR"))
		a->unknown |= !a->order || !json_is_null(json_object_get(e, "expr"));
	else if (is(e, "class", "POSITIONAL_REFERENCE"))
		a->unknown = true;
	/* a.f() is f(a) */
	a->unknown |= *text_of(e, "schema") || *text_of(e, "catalog");
	if (sum)
		plain = json_is_false(json_object_get(e, "distinct")) &&
			take_sum(a, json_array_get(children, 0));
	a->sums |= sum;
	a->other |= !plain;
	json_array_foreach(e, i, child) take_names(a, child);
	json_object_foreach(e, key, child)
	{
		/* ORDER BY * EXCLUDE (...) is of all others; ALL is of none */
		a->unknown |= is(e, "class", "STAR") && json_array_size(child) > 0;
		if (!sum || !plain || child != children)
			take_names(a, child);
	}
}

/* The WHERE: what is in conditions of the plan alone, or is the way alone, need not be equal. */
static uint32_t
take_where(struct asking *a, json_t *e)
{
	json_t *list = json_object_get(e, "children");
	uint64_t named = a->named, here;
	uint32_t out = NONE;
	bool other = a->other;

	if (is(e, "type", "CONJUNCTION_AND")) {
		for (size_t i = 0; i < json_array_size(list); i++)
			out = join(a, PRI_PLAN_AND, out,
				take_where(a, json_array_get(list, i)));
		return out;
	}
	const json_t *of = is(e, "type", "OPERATOR_NOT") ? json_array_get(list, 0) : e;
	const struct making *m = column_of(a, of);
	if (m && m->how == OUTGOING) {
		a->way = of == e ? SQL_OUTGOING : SQL_NOT_OUTGOING;
		a->tested |= BIT(m - makings);
		return NONE;
	}
	a->wide = false;
	a->named = 0;
	out = condition(a, e);
	take_names(a, e);
	here = a->named;
	a->named = named;
	if (out != NONE && !a->wide && here == BIT(0)) { /* tcqtime */
		a->tested |= here;
		a->other = other;
	} else {
		a->named |= here;
	}
	return out;
}

/* How its rows may become one, if at all. */
static struct sql_sums
sums_of(struct asking *a)
{
	static const char *const parts[] = {
		"select_list", "group_expressions", "having", "qualify"};
	const json_t *s = a->select;
	json_t *modifier;
	size_t i;
	bool few = json_array_size(json_object_get(s, "group_expressions")) > 0 ||
		   is(s, "aggregate_handling", "FORCE_AGGREGATES");

	for (i = 0; i < PR_COUNT(parts); i++)
		take_names(a, json_object_get(s, parts[i]));
	json_array_foreach(json_object_get(s, "modifiers"), i, modifier)
	{
		few |= is(modifier, "type", "DISTINCT_MODIFIER");
		a->order = is(modifier, "type", "ORDER_MODIFIER");
		take_names(a, modifier);
	}
	if (a->unknown || a->failed)
		return (struct sql_sums){0};
	return (struct sql_sums){
		.may = (few || a->sums) && !a->other && !(a->summed & a->named),
		.summed = a->summed,
		.tested = a->tested & ~a->named,
		.way = a->way};
}

struct pri_plan *
sql_kept_plan(struct sql_engine *engine, const char *statement, bool *query,
	struct sql_sums *sums)
{
	char *text = sql_value_of(engine, "json_serialize_sql(", statement);
	json_t *statements;
	struct asking a = {.engine = engine};
	uint32_t root = NONE;

	/* where the text has no place for a node: more than Jansson takes */
	for (char *p = text; p && (p = strstr(p, "18446744073709551615"));)
		memcpy(p, "                   0", 20);
	json_t *tree = text ? json_loads(text, 0, NULL) : NULL;
	statements = json_object_get(tree, "statements");
	/* what is written out is a query, also if it has numbers that Jansson does not take */
	*query = text && (!tree || json_is_false(json_object_get(tree, "error")));
	*sums = (struct sql_sums){0};
	if (*query)
		find_uses(&a, statements, 0);
	if (a.uses == 1 && a.select && is_alone(a.select))
		a.plan = calloc(1, sizeof(*a.plan));
	if (a.plan) {
		a.alias = text_of(json_object_get(a.select, "from_table"), "alias");
		a.alias = *a.alias ? a.alias : TABLE;
		root = take_where(&a, json_object_get(a.select, "where_clause"));
		if (root != NONE && root + 1 != a.plan->count)
			root = node(&a, PRI_PLAN_AND, root, root); /* the last one counts */
		*sums = sums_of(&a);
	}
	if (root == NONE || a.failed)
		pri_plan_destroy(&a.plan);
	json_decref(tree);
	free(text);
	return a.plan;
}

void
sql_kept_ask(struct sql_kept *k, const char *statement)
{
	bool query;

	pri_plan_destroy(&k->plan);
	k->read = 0;
	k->plan = sql_kept_plan(k->engine, statement, &query, &k->sums);
	if (k->changed) {
		pri_plan_destroy(&k->plan);
		k->sums = (struct sql_sums){0};
	}
	k->changed |= !query;
}
