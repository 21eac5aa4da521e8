/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/flows/flow_groups.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "indexer/flows/flow_filter.h"
#include "merger/cli/cli.h"
#include "proto/base/array.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

const char *const flow_measures[] = {
	"bytes", "packets", "payload", "duration", "flows", NULL};

/* ---- keys ---- */

/* As columns of kept flows follow each other. */
enum key { SRC, DST, SPORT, DPORT, PROTO, VLAN, LINK, STATE };
#define COLUMN_OF(key) ((unsigned)PRI_COL_SRC + (unsigned)(key))
_Static_assert(COLUMN_OF(STATE) == PRI_COL_STATE, "a column was added");
static const char *const keys[] = {
	"src", "dst", "sport", "dport", "proto", "vlan", "link", "state"};
#define KEYS_MAX 8

struct by {
	enum key key;
	unsigned bits; /* of an address that count */
	char name[16]; /* as it was given */
};

/* A value of each key: an address with its length behind it, or a number. */
union value {
	uint8_t address[17];
	uint32_t number;
	uint64_t aligned[3];
};

struct group {
	union value values[KEYS_MAX];
	uint64_t flows, packets[2], bytes[2], payload[2]; /* sent, received */
	int64_t duration;
	UT_hash_handle hh;
};

struct flow_groups {
	struct by by[KEYS_MAX];
	size_t by_count;
	enum flow_measure of;
	uint64_t top;
	struct group *all;
	struct flow_found *flows; /* of no keys */
	size_t flow_count, room;
	uint64_t least; /* a smaller one is not among the `top` */
	uint64_t total; /* of all, if there are not all groups */
	struct scan *scan; /* while kept flows are read */
};

/* text: with the key in its first len bytes. */
static int
key_parse(struct by *by, const char *text, size_t len, struct pr_error *err)
{
	char name[sizeof(by->name)] = "", bits[4] = "128", more;

	PR_PRINT(by->name, "%.*s", (int)len, text);
	int got = sscanf(by->name, "%15[^/]/%3[0-9]%c", name, bits, &more);

	by->bits = (unsigned)atoi(bits);
	if (got != (strchr(by->name, '/') ? 2 : 1) || *bits == '0' || by->bits > 128)
		*name = '\0'; /* there is no such key */
	for (size_t i = 0; i < PR_COUNT(keys) && (got == 1 || i <= DST); i++)
		if (!strcmp(keys[i], name)) {
			by->key = (enum key)i;
			return 0;
		}
	return pr_error_set(err,
		"--by %s: there are src, dst, sport, dport, proto, vlan, link and state; "
		"src/24 and dst/24 for networks",
		by->name);
}

struct flow_groups *
flow_groups_create(const char *by, enum flow_measure of, uint64_t top, struct pr_error *err)
{
	struct flow_groups *g = calloc(1, sizeof(*g));

	if (!g)
		return pr_error_null(err, "no memory for sums of flows");
	g->of = of;
	g->top = top;
	int rc = 0;
	for (size_t len; by && rc == 0; by = by[len] ? by + len + 1 : NULL) {
		struct by *key = &g->by[g->by_count];

		len = strcspn(by, ",");
		rc = g->by_count < KEYS_MAX
			     ? key_parse(key, by, len, err)
			     : pr_error_set(err, "--by: at most %d keys", KEYS_MAX);
		for (size_t i = 0; rc == 0 && i < g->by_count; i++)
			if (!strcmp(g->by[i].name, key->name))
				rc = pr_error_set(
					err, "--by: %s is there twice", key->name);
		g->by_count++;
	}
	if (rc < 0)
		flow_groups_destroy(&g);
	return g;
}

void
flow_groups_destroy(struct flow_groups **groups)
{
	struct flow_groups *g = PR_TAKE(groups);
	struct group *e, *next;

	if (!g)
		return;
	HASH_ITER(hh, g->all, e, next)
	{
		HASH_DEL(g->all, e);
		free(e);
	}
	free(g->flows);
	free(g);
}

/* ---- sums ---- */

static void
set_value(union value *v, const struct by *by, const struct pri_flow *f)
{
	const struct pri_flow_key *k = &f->key;
	unsigned o = f->originator;

	const uint32_t numbers[] = {[SPORT] = k->port[o],
		[DPORT] = k->port[!o],
		[PROTO] = k->protocol,
		[VLAN] = k->vlan,
		[LINK] = k->link,
		[STATE] = by->key == STATE ? pri_flow_state(f) : 0};

	if (by->key > DST) {
		v->number = numbers[by->key];
		return;
	}
	const uint8_t *address = k->address[by->key == SRC ? o : !o];
	unsigned whole = PR_MIN(by->bits / 8, k->address_len), rest = by->bits % 8;
	memcpy(v->address, address, whole);
	if (whole < k->address_len && rest)
		v->address[whole] = address[whole] & (uint8_t)(0xff00u >> rest);
	v->address[16] = k->address_len;
}

static void
add_sums(struct group *e, const struct pri_flow *flow)
{
	e->flows++;
	for (unsigned i = 0; i < 2; i++) {
		const struct pri_flow_side *s = &flow->side[flow->originator ^ i];

		e->packets[i] += s->packets;
		e->bytes[i] += s->bytes;
		e->payload[i] += s->payload;
	}
	e->duration +=
		(int64_t)((uint64_t)pri_flow_last(flow) - (uint64_t)pri_flow_first(flow));
}

/* ---- the largest ---- */

static uint64_t
size_of_group(const struct group *e, enum flow_measure of)
{
	const uint64_t sizes[] = {[FLOW_BY_BYTES] = e->bytes[0] + e->bytes[1],
		[FLOW_BY_PACKETS] = e->packets[0] + e->packets[1],
		[FLOW_BY_PAYLOAD] = e->payload[0] + e->payload[1],
		[FLOW_BY_DURATION] = (uint64_t)e->duration,
		[FLOW_BY_FLOWS] = e->flows};

	return sizes[of];
}

static uint64_t
size_of_flow(const struct pri_flow *f, enum flow_measure of)
{
	struct group one = {.flows = 0};

	add_sums(&one, f);
	return size_of_group(&one, of);
}

static int
compare_groups(const void *a, const void *b, void *arg)
{
	const struct flow_groups *g = arg;
	const struct group *x = *(struct group *const *)a, *y = *(struct group *const *)b;
	uint64_t p = size_of_group(x, g->of), q = size_of_group(y, g->of);
	int order = p != q ? (p < q) - (p > q) : 0;

	for (size_t i = 0; i < g->by_count && !order; i++) {
		const union value *v = &x->values[i], *w = &y->values[i];

		order = g->by[i].key <= DST
				? memcmp(v->address, w->address, sizeof(v->address))
				: (v->number > w->number) - (v->number < w->number);
	}
	return order;
}

static int
compare_flows(const void *a, const void *b, void *arg)
{
	const struct flow_groups *g = arg;
	const struct pri_flow *x = &((const struct flow_found *)a)->flow;
	const struct pri_flow *y = &((const struct flow_found *)b)->flow;
	uint64_t p = size_of_flow(x, g->of), q = size_of_flow(y, g->of);
	int64_t s = pri_flow_first(x), t = pri_flow_first(y);

	return p != q   ? (p < q) - (p > q)
	       : s != t ? (s > t) - (s < t)
			: memcmp(&x->key, &y->key, sizeof(x->key));
}

/* Keeps twice the largest that are wanted: then half of them go. */
static int
add_flow(struct flow_groups *g, const struct pri_flow *flow, uint64_t missing,
	struct pr_error *err)
{
	if (g->top && g->flow_count / 2 >= g->top) {
		qsort_r(g->flows, g->flow_count, sizeof(*g->flows), compare_flows, g);
		g->flow_count = g->top;
		g->least = size_of_flow(&g->flows[g->top - 1].flow, g->of);
	}
	if (PR_ARRAY_RESERVE(g->flows, g->room, g->flow_count + 1) < 0)
		return pr_error_set(
			err, "no memory for more than %zu flows", g->flow_count);
	g->flows[g->flow_count++] = (struct flow_found){*flow, missing};
	return 0;
}

/* ---- a flow ---- */

int
flow_groups_add(void *groups, const struct pri_flow *flow, uint64_t missing, uint64_t row,
	struct pr_error *err)
{
	struct flow_groups *g = groups;
	struct group key, *e;

	(void)row;
	if (!g->by_count)
		return add_flow(g, flow, missing, err);
	size_t len = g->by_count * sizeof(*key.values);
	memset(key.values, 0, len);
	for (size_t i = 0; i < g->by_count; i++)
		set_value(&key.values[i], &g->by[i], flow);
	HASH_FIND(hh, g->all, key.values, len, e);
	if (!e && HASH_COUNT(g->all) >= FLOW_GROUPS_MAX)
		return pr_error_set(err,
			"--by: more than %d rows; name fewer keys, or networks (src/24)",
			FLOW_GROUPS_MAX);
	if (!e && (e = calloc(1, sizeof(*e)))) {
		memcpy(e->values, key.values, len);
		HASH_ADD(hh, g->all, values, len, e);
	}
	if (!e || !e->hh.tbl) {
		free(e);
		return pr_error_set(err, "no memory for sums of flows");
	}
	add_sums(e, flow);
	return 0;
}

/* ---- of kept flows ---- */

/*
 * The largest of more groups than fit into memory. First only sums by a hash of the keys are made: no group is larger
 * than the sum that it is in. Then those that are in the largest sums are made, until there are as many as are wanted
 * that are not smaller than any sum that is left.
 */
#ifndef BUCKET_BITS
#define BUCKET_BITS 18
#endif
#define BUCKETS (1 << BUCKET_BITS)
#define BUCKETS_FIRST (BUCKETS / 2048)

struct scan {
	const struct pri_flow_filter *filter; /* NULL: all flows */
	uint64_t found;
	bool again; /* the sums are there, and which are wanted */
	bool wanted[BUCKETS];
	uint64_t sums[BUCKETS];
	uint64_t hashes[PRI_BATCH_ROWS], addresses[2 * PRI_BATCH_ROWS];
};

static uint64_t
add_bounded(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

static uint64_t
mix(uint64_t h, uint64_t value)
{
	h = (h ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 29;
}

/* Of the bits of each address that count. */
static void
hash_addresses(struct scan *s, const struct pri_batch *b, unsigned bits)
{
	for (size_t i = 0; i < b->addresses; i++) {
		uint64_t high = b->values[PRI_COL_HIGH][i];
		uint64_t low = b->values[PRI_COL_LOW][i];
		unsigned n = b->values[PRI_COL_SIX][i] ? bits : 96 + PR_MIN(bits, 32);

		high = n < 64 ? high & ~(UINT64_MAX >> n) : high;
		low = n <= 64 ? 0 : n < 128 ? low & ~(UINT64_MAX >> (n - 64)) : low;
		s->addresses[i] = mix(mix(0, high), low);
	}
}

static void
hash_rows(const struct flow_groups *g, const struct pri_batch *b, const uint32_t *rows,
	size_t count)
{
	struct scan *s = g->scan;

	memset(s->hashes, 0, count * sizeof(*s->hashes));
	for (size_t k = 0; k < g->by_count; k++) {
		const struct by *by = &g->by[k];
		const uint64_t *v = b->values[COLUMN_OF(by->key)];
		const uint64_t *of = by->key <= DST ? s->addresses : NULL;

		if (of)
			hash_addresses(s, b, by->bits);
		for (size_t i = 0; i < count; i++)
			s->hashes[i] = mix(s->hashes[i], of ? of[v[rows[i]]] : v[rows[i]]);
	}
	for (size_t i = 0; i < count; i++)
		s->hashes[i] >>= 64 - BUCKET_BITS;
}

static const uint64_t measures[] = {[FLOW_BY_BYTES] = PRI_COLUMN_OF_SIDES(PRI_SIDE_BYTES),
	[FLOW_BY_PACKETS] = PRI_COLUMN_OF_SIDES(PRI_SIDE_PACKETS),
	[FLOW_BY_PAYLOAD] = PRI_COLUMN_OF_SIDES(PRI_SIDE_PAYLOAD),
	[FLOW_BY_DURATION] = PRI_COLUMN(PRI_COL_SPAN),
	[FLOW_BY_FLOWS] = 0};

static uint64_t
size_of_row(const struct pri_batch *b, uint32_t row, uint64_t measure)
{
	uint64_t sum = !measure;

	for (; measure; measure &= measure - 1)
		sum = add_bounded(sum, b->values[__builtin_ctzll(measure)][row]);
	return sum;
}

static size_t
match_rows(const struct scan *s, const struct pri_batch *b, uint32_t *rows, size_t count)
{
	struct pri_flow flow;
	size_t n = 0;

	for (size_t i = 0; s->filter && i < count; i++)
		if (pri_batch_sums(b, rows[i], &flow) &&
			pri_flow_filter_match(s->filter, &flow))
			rows[n++] = rows[i];
	return s->filter ? n : count;
}

static size_t
choose(void *arg, const struct pri_batch *b, uint32_t *rows, size_t count)
{
	struct flow_groups *g = arg;
	struct scan *s = g->scan;
	size_t n = 0;

	if (s->again) {
		hash_rows(g, b, rows, count);
		for (size_t i = 0; i < count; i++)
			if (s->wanted[s->hashes[i]])
				rows[n++] = rows[i];
		return match_rows(s, b, rows, n);
	}
	count = match_rows(s, b, rows, count);
	s->found += count;
	if (!g->top)
		return count;
	if (g->by_count)
		hash_rows(g, b, rows, count);
	for (size_t i = 0; i < count; i++) {
		uint64_t size = size_of_row(b, rows[i], measures[g->of]);

		if (g->by_count) {
			uint64_t *sum = &s->sums[s->hashes[i]];

			*sum = add_bounded(*sum, size);
			g->total += size;
		} else if (size >= g->least) {
			rows[n++] = rows[i];
		}
	}
	return n;
}

static int
read_once(struct flow_groups *g, struct flow_kept *kept, const struct pri_plan *plan,
	struct pr_error *err)
{
	const struct scan *s = g->scan;
	struct flow_taker to = {.take = flow_groups_add, .choose = choose, .arg = g};
	long threads = sysconf(_SC_NPROCESSORS_ONLN);

	to.first = (g->top && !s->again ? measures[g->of] : 0) |
		   (s->filter ? pri_flow_filter_columns(s->filter) : 0);
	for (size_t i = 0; i < g->by_count; i++)
		to.first |= PRI_COLUMN(COLUMN_OF(g->by[i].key)) |
			    (g->by[i].key <= DST ? PRI_COLUMNS_ADDRESSES : 0);
	to.columns = !g->by_count
			     ? PRI_COLUMNS_ALL
			     : to.first | PRI_COLUMNS_ADDRESSES | PRI_COLUMNS_SUMS |
				       PRI_COLUMN(PRI_COL_SRC) | PRI_COLUMN(PRI_COL_DST);
	return flow_kept_read(
		kept, plan, &to, (size_t)PR_MIN(PR_MAX(threads, 1), FLOW_THREADS_MAX), err);
}

/* A size that some sums have. */
static uint64_t
first_least(const struct scan *s, uint64_t top)
{
	size_t with[65] = {0}, count = 0;
	unsigned bits = 64;

	for (size_t i = 0; i < BUCKETS; i++)
		with[s->sums[i] ? 64 - __builtin_clzll(s->sums[i]) : 0]++;
	while (bits && (count += with[bits]) < BUCKETS_FIRST + top)
		bits--;
	return bits ? UINT64_C(1) << (bits - 1) : 0;
}

int
flow_groups_kept(struct flow_groups *g, struct flow_kept *kept, const struct pri_plan *plan,
	const struct pri_flow_filter *filter, uint64_t *found, struct pr_error *err)
{
	struct scan *s = calloc(1, sizeof(*s));
	uint64_t least, most = UINT64_MAX, count = 0;

	if (!s)
		return pr_error_set(err, "no memory for sums of flows");
	g->scan = s;
	s->filter = filter;
	int rc = read_once(g, kept, plan, err);
	*found += s->found;
	s->again = g->by_count && g->top;
	least = first_least(s, g->top);
	while (rc == 0 && s->again) {
		for (size_t i = 0; i < BUCKETS; i++)
			s->wanted[i] = s->sums[i] >= least && s->sums[i] <= most;
		rc = read_once(g, kept, plan, err);
		for (const struct group *e = g->all; e; e = e->hh.next)
			count += size_of_group(e, g->of) >= least;
		s->again = least && count < g->top;
		most = least - 1;
		least >>= 8;
		count = 0;
	}
	free(s);
	return rc;
}

/* ---- rows ---- */

static const char *
value_text(const union value *v, const struct by *by, char buf[80])
{
	unsigned len = v->address[16];

	if (by->key == PROTO)
		return flow_protocol_name((uint8_t)v->number, buf);
	if (by->key == STATE)
		return pri_flow_state_name((enum pri_flow_state)v->number);
	if (by->key == VLAN && v->number == PRI_FLOW_UNTAGGED)
		return "-";
	if (by->key > DST) {
		snprintf(buf, 80, "%u", v->number);
		return buf;
	}
	flow_address_text(v->address, len, buf);
	if (by->bits < 8 * len)
		snprintf(buf + strlen(buf), 8, "/%u", by->bits);
	return buf;
}

static const char *const sums[] = {"flows", "packets_sent", "packets_recv", "bytes_sent",
	"bytes_recv", "payload_sent", "payload_recv"};

static void
print_group(const struct flow_groups *g, const struct group *e, enum flow_form form,
	uint64_t all)
{
	const uint64_t values[] = {e->flows, e->packets[0], e->packets[1], e->bytes[0],
		e->bytes[1], e->payload[0], e->payload[1]};
	uint64_t size = size_of_group(e, g->of);
	char text[80], time[32];

	if (form == FLOW_TEXT) {
		printf("%10" PRIu64 " %12" PRIu64 " %16" PRIu64 " %5.1f%% ", e->flows,
			e->packets[0] + e->packets[1], e->bytes[0] + e->bytes[1],
			all ? 100.0 * (double)size / (double)all : 0.0);
		for (size_t i = 0; i < g->by_count; i++)
			printf(" %s", value_text(&e->values[i], &g->by[i], text));
		putchar('\n');
		return;
	}
	for (size_t i = 0; i < g->by_count; i++) {
		const char *value = value_text(&e->values[i], &g->by[i], text);

		if (form == FLOW_CSV)
			printf("%s,", value);
		else
			printf("%s\"%s\": \"%s\"", i ? ", " : "{", g->by[i].name, value);
	}
	for (size_t i = 0; i < PR_COUNT(sums); i++)
		if (form == FLOW_CSV)
			printf("%" PRIu64 ",", values[i]);
		else
			printf(", \"%s\": %" PRIu64, sums[i], values[i]);
	printf(form == FLOW_CSV ? "%s\n" : ", \"duration\": %s}\n",
		flow_seconds(e->duration, time));
}

static void
print_head(const struct flow_groups *g, enum flow_form form)
{
	if (form == FLOW_TEXT)
		printf("%10s %12s %16s %6s ", "flows", "packets", "bytes", "share");
	for (size_t i = 0; form <= FLOW_CSV && i < g->by_count; i++)
		printf(form == FLOW_TEXT ? " %s" : "%s,", g->by[i].name);
	for (size_t i = 0; form == FLOW_CSV && i < PR_COUNT(sums); i++)
		printf("%s,", sums[i]);
	if (form <= FLOW_CSV)
		puts(form == FLOW_TEXT ? "" : "duration");
}

static size_t
print_groups(struct flow_groups *g, enum flow_form form)
{
	size_t count = HASH_COUNT(g->all), n = 0;
	struct group **sorted = calloc(count + 1, sizeof(*sorted));
	uint64_t all = 0;

	if (!sorted)
		return SIZE_MAX;
	for (struct group *e = g->all; e; e = e->hh.next) {
		sorted[n++] = e;
		all += size_of_group(e, g->of);
	}
	all = g->total ? g->total : all;
	qsort_r(sorted, count, sizeof(struct group *), compare_groups, g);
	count = g->top && g->top < count ? g->top : count;
	print_head(g, form);
	for (size_t i = 0; i < count; i++)
		print_group(g, sorted[i], form, all);
	free(sorted);
	return count;
}

const struct flow_found *
flow_groups_flows(struct flow_groups *g, size_t *count)
{
	if (g->flow_count)
		qsort_r(g->flows, g->flow_count, sizeof(*g->flows), compare_flows, g);
	*count = g->top && g->top < g->flow_count ? g->top : g->flow_count;
	return g->flows;
}

size_t
flow_groups_print(
	struct flow_groups *g, enum flow_form form, const struct flow_context *context)
{
	struct flow_context c = *context;
	struct flow_record r;
	size_t count;

	if (g->by_count)
		return print_groups(g, form);
	const struct flow_found *flows = flow_groups_flows(g, &count);
	flow_head_print(form);
	for (size_t i = 0; i < count; i++) {
		c.missing = flows[i].missing;
		flow_record_make(&r, &flows[i].flow, &c);
		flow_record_print(&r, form);
	}
	return count;
}
