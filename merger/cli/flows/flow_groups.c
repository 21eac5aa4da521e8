/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/flows/flow_groups.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "merger/cli/cli.h"
#include "proto/base/array.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

const char *const flow_measures[] = {
	"bytes", "packets", "payload", "duration", "flows", NULL};

/* ---- keys ---- */

enum key { SRC, DST, SPORT, DPORT, PROTO, VLAN, LINK, STATE };
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
	struct pri_flow *flows; /* of no keys */
	size_t flow_count, room;
	uint64_t least; /* a smaller one is not among the `top` */
};

static int
key_parse(struct by *by, const char *name, size_t len, struct pr_error *err)
{
	const char *slash = memchr(name, '/', len);
	size_t word = slash ? (size_t)(slash - name) : len;
	unsigned long bits = 128;
	char *end = NULL;

	snprintf(by->name, sizeof(by->name), "%.*s", (int)len, name);
	for (size_t i = 0; i < PR_COUNT(keys); i++) {
		if (strlen(keys[i]) != word || strncmp(keys[i], name, word) != 0)
			continue;
		if (slash && slash[1] >= '1' && slash[1] <= '9')
			bits = strtoul(slash + 1, &end, 10);
		if (slash && (i > DST || end != name + len || bits == 0 || bits > 128))
			break;
		by->key = (enum key)i;
		by->bits = (unsigned)bits;
		return 0;
	}
	return pr_error_set(err,
		"--by %.*s: there are src, dst, sport, dport, proto, vlan, link and state; "
		"src/24 and dst/24 for networks",
		(int)len, name);
}

struct flow_groups *
flow_groups_create(const char *by, enum flow_measure of, uint64_t top, struct pr_error *err)
{
	struct flow_groups *g = calloc(1, sizeof(*g));

	if (!g)
		return pr_error_null(err, "no memory for sums of flows");
	g->of = of;
	g->top = top;
	while (by) {
		const char *comma = strchr(by, ',');
		size_t len = comma ? (size_t)(comma - by) : strlen(by);
		int rc = g->by_count < KEYS_MAX
				 ? key_parse(&g->by[g->by_count++], by, len, err)
				 : pr_error_set(err, "--by: at most %d keys", KEYS_MAX);

		for (size_t i = 0; rc == 0 && i + 1 < g->by_count; i++)
			if (!strcmp(g->by[i].name, g->by[g->by_count - 1].name))
				rc = pr_error_set(
					err, "--by: %s is there twice", g->by[i].name);
		if (rc < 0) {
			flow_groups_destroy(&g);
			return NULL;
		}
		by = comma ? comma + 1 : NULL;
	}
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
set_address(union value *v, const uint8_t *address, uint8_t len, unsigned bits)
{
	unsigned whole = bits / 8 < len ? bits / 8 : len, rest = bits % 8;

	memcpy(v->address, address, whole);
	if (whole < len && rest)
		v->address[whole] = address[whole] & (uint8_t)(0xff00u >> rest);
	v->address[16] = len;
}

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

	if (by->key <= DST)
		set_address(
			v, k->address[by->key == SRC ? o : !o], k->address_len, by->bits);
	else
		v->number = numbers[by->key];
}

static int64_t
duration_of(const struct pri_flow *f)
{
	return (uint64_t)pri_flow_last(f) - (uint64_t)pri_flow_first(f);
}

static int add_flow(
	struct flow_groups *g, const struct pri_flow *flow, struct pr_error *err);

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
	e->duration += duration_of(flow);
}

int
flow_groups_add(struct flow_groups *g, const struct pri_flow *flow, struct pr_error *err)
{
	struct group key, *e;

	if (!g->by_count)
		return add_flow(g, flow, err);
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
	uint64_t p = size_of_flow(a, g->of), q = size_of_flow(b, g->of);
	int64_t s = pri_flow_first(a), t = pri_flow_first(b);

	return p != q ? (p < q) - (p > q) : (s > t) - (s < t);
}

/* Keeps twice the largest that are wanted: then half of them go. */
static int
add_flow(struct flow_groups *g, const struct pri_flow *flow, struct pr_error *err)
{
	if (g->top && g->flow_count / 2 >= g->top) {
		qsort_r(g->flows, g->flow_count, sizeof(*g->flows), compare_flows, g);
		g->flow_count = g->top;
		g->least = size_of_flow(&g->flows[g->top - 1], g->of);
	}
	if (PR_ARRAY_RESERVE(g->flows, g->room, g->flow_count + 1) < 0)
		return pr_error_set(
			err, "no memory for more than %zu flows", g->flow_count);
	g->flows[g->flow_count++] = *flow;
	return 0;
}

#define COLUMN(c) (UINT64_C(1) << (c))
#define BOTH(c) (COLUMN(PRI_COL_SENT + (c)) | COLUMN(PRI_COL_RECEIVED + (c)))

struct flow_choice
flow_groups_choice(const struct flow_groups *g)
{
	static const uint64_t measures[] = {BOTH(PRI_SIDE_BYTES), BOTH(PRI_SIDE_PACKETS),
		BOTH(PRI_SIDE_PAYLOAD), COLUMN(PRI_COL_SPAN), 0};
	/* of sums; a state is made of all that a flow has */
	uint64_t columns = (COLUMN(PRI_COL_MISSING) - 1) | PRI_COLUMNS_ADDRESSES |
			   BOTH(PRI_SIDE_PACKETS) | BOTH(PRI_SIDE_BYTES) |
			   BOTH(PRI_SIDE_PAYLOAD) | BOTH(PRI_SIDE_FIRST) |
			   BOTH(PRI_SIDE_LAST);

	for (size_t i = 0; i < g->by_count; i++)
		columns |= g->by[i].key == STATE ? PRI_COLUMNS_ALL : 0;
	return (struct flow_choice){.columns = g->by_count ? columns : PRI_COLUMNS_ALL,
		.measure = g->by_count || !g->top ? 0 : measures[g->of],
		.least = &g->least};
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
	inet_ntop(len == 4 ? AF_INET : AF_INET6, v->address, buf, INET6_ADDRSTRLEN);
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
	qsort_r(sorted, count, sizeof(struct group *), compare_groups, g);
	count = g->top && g->top < count ? g->top : count;
	print_head(g, form);
	for (size_t i = 0; i < count; i++)
		print_group(g, sorted[i], form, all);
	free(sorted);
	return count;
}

const struct pri_flow *
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
	const struct pri_flow *flows;
	struct flow_record r;
	size_t count;

	if (g->by_count)
		return print_groups(g, form);
	flows = flow_groups_flows(g, &count);
	flow_head_print(form);
	for (size_t i = 0; i < count; i++) {
		flow_record_make(&r, &flows[i], context);
		flow_record_print(&r, form);
	}
	return count;
}
