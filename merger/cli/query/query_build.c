/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/query_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/filter/filter.h"
#include "indexer/query/answer.h"
#include "proto/rpc/message.h"

enum { NOTHING, MAY, KEY, AND, OR };

#define PORTS_MAX 16 /* a range of more may match */

/* A plan under way into a message; a node of the plan can take several operations. */
struct making {
	Packrack__Lookups *to;
	size_t capacity; /* of its arrays */
	bool failed; /* no memory, or too long */
};

/* Room for one more operation and one more hash, of which there are never more than operations. */
static bool
reserve(struct making *m)
{
	size_t want = m->capacity ? m->capacity * 2 : 64;
	uint32_t **arrays[] = {&m->to->op, &m->to->left, &m->to->right};
	uint64_t *hash;

	if (m->to->n_op < m->capacity)
		return true;
	for (size_t i = 0; i < 3; i++) {
		uint32_t *grown = reallocarray(*arrays[i], want, sizeof(*grown));

		if (!grown)
			return false;
		*arrays[i] = grown;
	}
	hash = reallocarray(m->to->hash, want, sizeof(*hash));
	if (!hash)
		return false;
	m->to->hash = hash;
	m->capacity = want;
	return true;
}

static uint32_t
put(struct making *m, uint32_t op, uint32_t left, uint32_t right)
{
	Packrack__Lookups *to = m->to;
	size_t at = to->n_op;

	if (at == PR_MESSAGE_LOOKUPS_MAX || !reserve(m)) {
		m->failed = true;
		return 0;
	}
	to->op[at] = op;
	to->left[at] = left;
	to->right[at] = right;
	to->n_op = to->n_left = to->n_right = at + 1;
	return (uint32_t)at;
}

static uint32_t
put_key(struct making *m, const struct pri_key *key)
{
	struct pri_key either = pri_key_either(key);
	size_t at = m->to->n_hash;
	uint32_t made = put(m, KEY, (uint32_t)at, 0);

	if (!m->failed)
		m->to->hash[m->to->n_hash++] = pri_key_hash(&either);
	return made;
}

/* An address has its prefixes: asking for them too makes false positives rare. */
static uint32_t
put_prefixes(struct making *m, const struct pri_key *key, uint32_t all)
{
	static const uint8_t lens[2][3] = {{3, 2, 1}, {8, 6, 4}};

	for (int i = 0; i < 3; i++) {
		struct pri_key net =
			pri_key_bytes(PRI_KEY_NET, key->bytes, lens[key->len == 16][i]);

		all = put(m, AND, all, put_key(m, &net));
	}
	return all;
}

static uint32_t
put_lookup(struct making *m, const struct pri_key *key)
{
	uint32_t at;

	if (key->kind >= PRI_KEY_COMPOSITE) /* summaries have none */
		return put(m, MAY, 0, 0);
	at = put_key(m, key);
	if ((key->kind == PRI_KEY_SRC || key->kind == PRI_KEY_DST ||
		    key->kind == PRI_KEY_ADDRESS) &&
		(key->len == 4 || key->len == 16))
		at = put_prefixes(m, key, at);
	return at;
}

static uint32_t
put_range(struct making *m, const struct pri_plan_range *r)
{
	bool ports = r->number == PRI_NUMBER_SPORT || r->number == PRI_NUMBER_DPORT;
	uint32_t any;

	if (r->least > r->most)
		return put(m, NOTHING, 0, 0);
	if (!ports || r->least < 0 || r->most > UINT16_MAX ||
		r->most - r->least >= PORTS_MAX)
		return put(m, MAY, 0, 0);
	any = put(m, NOTHING, 0, 0);
	for (int64_t port = r->least; port <= r->most; port++) {
		struct pri_key key = pri_key_number(PRI_KEY_PORT, (uint32_t)port);

		any = put(m, OR, any, put_key(m, &key));
	}
	return any;
}

static uint32_t
put_node(struct making *m, const struct pri_plan *plan, const struct pri_plan_node *n,
	const uint32_t *map)
{
	switch (n->op) {
	case PRI_PLAN_KEY:
		return put_lookup(m, &plan->keys[n->left]);
	case PRI_PLAN_RANGE:
		return put_range(m, &plan->ranges[n->left]);
	case PRI_PLAN_AND:
		return put(m, AND, map[n->left], map[n->right]);
	case PRI_PLAN_OR:
		return put(m, OR, map[n->left], map[n->right]);
	default:
		return put(m, n->op == PRI_PLAN_FALSE ? NOTHING : MAY, 0, 0);
	}
}

/* One that is too long says that all may match. */
static int
make(Packrack__Lookups *to, const struct pri_plan *plan, struct pr_error *err)
{
	struct making m = {.to = to};
	uint32_t *map = calloc(plan->count, sizeof(*map));

	for (size_t i = 0; map && i < plan->count && !m.failed; i++)
		map[i] = put_node(&m, plan, &plan->nodes[i], map);
	free(map);
	if (m.failed && to->n_op) {
		to->n_op = to->n_left = to->n_right = to->n_hash = 0;
		m.failed = false;
		put(&m, MAY, 0, 0);
	}
	return map && !m.failed ? 0 : pr_error_set(err, "no memory to plan a filter");
}

/* One for each program, in their order. -1: no memory. lookups_free in any case. */
static int
lookups_make(struct lookups *out, const struct pri_bpf_set *programs, struct pr_error *err)
{
	out->room = calloc(programs->count + 1, sizeof(*out->room));
	out->list = calloc(programs->count + 1, sizeof(*out->list));
	if (!out->room || !out->list)
		return pr_error_set(err, "no memory to plan a filter");
	for (size_t i = 0; i < programs->count; i++) {
		struct pri_plan *plan = pri_plan_create(programs->items[i], err);
		Packrack__Lookups *to = out->list[i] = &out->room[i];
		int rc;

		packrack__lookups__init(to);
		to->linktype = programs->items[i]->linktype;
		out->count++;
		rc = plan ? make(to, plan, err) : -1;
		pri_plan_destroy(&plan);
		if (rc < 0)
			return -1;
	}
	return 0;
}

static void
lookups_free(struct lookups *l)
{
	for (size_t i = 0; i < l->count; i++) {
		free(l->room[i].op);
		free(l->room[i].left);
		free(l->room[i].right);
		free(l->room[i].hash);
	}
	free(l->room);
	free(l->list);
	*l = (struct lookups){0};
}

/*
 * What could be related to anything: fragments, IPv6 with extension headers (fragments may be behind
 * them), ICMP, tunnels; and on Ethernet tags, labels and PPPoE. By Ethertype, as `vlan` and its like move
 * the offsets of all that stands behind them.
 */
#define CANDIDATES_IP                                                                      \
	"ip[6:2] & 0x3fff != 0 or icmp or icmp6 or ip proto 4 or ip proto 41 or ip proto " \
	"47 or ip6 proto 4 or ip6 proto 41 or ip6 proto 47 or udp dst port 4789 or "       \
	"ip6[6] = 0 or ip6[6] = 43 or ip6[6] = 44 or ip6[6] = 51 or ip6[6] = 60 or "       \
	"ip6[6] = 135"
#define CANDIDATES_TAGGED                                                                  \
	"ether proto 0x8100 or ether proto 0x88a8 or ether proto 0x9100 or ether proto "   \
	"0x8847 or ether proto 0x8848 or ether proto 0x8864"

static struct pri_bpf *
compile(uint16_t linktype, const char *candidates, const char *filter)
{
	struct pri_bpf *program;
	char *text;

	if (asprintf(&text, filter ? "(%s) or (%s)" : "%s", candidates, filter) < 0)
		return NULL;
	program = pri_filter_compile(linktype, text, NULL);
	free(text);
	return program;
}

/* As much as makes sense on this link type; the filter itself may be of another. */
static struct pri_bpf *
widest(uint16_t linktype, const char *filter)
{
	static const char *const candidates[] = {
		CANDIDATES_TAGGED " or " CANDIDATES_IP, CANDIDATES_IP};
	struct pri_bpf *program = NULL;

	for (size_t i = 0; !program && i < 4; i++)
		program = compile(linktype, candidates[i % 2], i < 2 ? filter : NULL);
	return program ? program : pri_filter_compile(linktype, filter, NULL);
}

/*
 * The programs that let through what matches and what could be related to it, where the filter
 * makes sense or not; -1 err.
 */
static int
related_programs(const char *filter, const uint16_t *linktypes, size_t count,
	struct pri_bpf_set *out, struct pr_error *err)
{
	for (size_t i = 0; i < count; i++) {
		struct pri_bpf *program = widest(linktypes[i], filter);

		if (program && pri_bpf_set_add(out, program, err) < 0)
			return -1;
	}
	return 0;
}

static int
allocate(struct related_question *q, const struct pr_relations *noted, struct pr_error *err)
{
	q->keys = calloc(noted->count + 1, sizeof(*q->keys));
	q->first = calloc(noted->count + 1, sizeof(*q->first));
	q->lasting = calloc(noted->count + 1, sizeof(*q->lasting));
	q->spans = calloc(2 * noted->span_count + 1, sizeof(*q->spans));
	return q->keys && q->first && q->lasting && q->spans
		       ? 0
		       : pr_error_set(err, "no memory for related packets");
}

/* The message, of what was noted and the filter's own programs. related_free in any case. */
static int
related_make(struct related_question *q, const struct pr_relations *noted,
	const struct pri_bpf_set *core, struct pr_error *err)
{
	packrack__related__init(&q->message);
	packrack__query__init(&q->core);
	if (allocate(q, noted, err) < 0 || pri_query_set_programs(&q->core, core, err) < 0)
		return -1;
	for (size_t i = 0; i < noted->count; i++) {
		q->keys[i] = noted->keys[i].key;
		q->first[i] = noted->keys[i].first;
		q->lasting[i] =
			(uint64_t)noted->keys[i].last - (uint64_t)noted->keys[i].first;
	}
	for (size_t i = 0; i < noted->span_count; i++) {
		q->spans[2 * i] = noted->spans[i].first;
		q->spans[2 * i + 1] = noted->spans[i].last;
	}
	q->message.core = q->core.programs;
	q->message.n_core = q->core.n_programs;
	q->message.keys = q->keys;
	q->message.first = q->first;
	q->message.lasting = q->lasting;
	q->message.n_keys = q->message.n_first = q->message.n_lasting = noted->count;
	q->message.spans = q->spans;
	q->message.n_spans = 2 * noted->span_count;
	return 0;
}

static void
related_free(struct related_question *q)
{
	if (q->core.programs)
		pri_query_message_free(&q->core);
	free(q->keys);
	free(q->first);
	free(q->lasting);
	free(q->spans);
}

#define ETHERNET 1

/*
 * Link types as in pcap files: Ethernet, 802.11 with radiotap, Linux cooked, raw IP, PPP, 802.11, ATM,
 * loopback, and those that alone have some filters: `on eth0` pflog, `vpi 0` SunATM, `fisu` MTP2,
 * `ifindex 1` Linux cooked v2.
 */
static const uint16_t common[] = {
	ETHERNET, 127, 113, 101, 9, 105, 100, 0, 117, 123, 140, 276};

int
question_check(const struct query_args *a, struct pr_error *err)
{
	if (!a->filter[0] || a->checked)
		return 0;
	return pri_filter_check(common, sizeof(common) / sizeof(common[0]), a->filter, err);
}

/* The filter's programs become the core of the question, and wider ones take their place. */
static int
relate(struct question *q, const struct query_args *a, const uint16_t *linktypes,
	size_t count, struct pr_error *err)
{
	struct pri_bpf_set core = q->programs;
	int rc;

	q->programs = (struct pri_bpf_set){0};
	rc = related_programs(a->filter, linktypes, count, &q->programs, err);
	if (rc == 0)
		rc = related_make(&q->related, a->noted, &core, err);
	pri_bpf_set_free(&core);
	q->query.related = rc == 0 ? &q->related.message : NULL;
	return rc;
}

/* Its beginning, in whole characters. */
static void
put_text(char text[QUESTION_TEXT], const char *filter)
{
	size_t len = strlen(filter);

	if (len >= QUESTION_TEXT)
		for (len = QUESTION_TEXT - 4; len && (filter[len] & 0xc0) == 0x80;)
			len--;
	memcpy(text, filter, len);
	strcpy(text + len, filter[len] ? "..." : "");
}

int
question_make(struct question *q, const struct query_args *a, const uint16_t *linktypes,
	size_t count, struct pr_error *err)
{
	static const uint16_t ethernet = ETHERNET;

	*q = (struct question){.programs = {0}};
	packrack__query__init(&q->query);
	q->query.since = a->since;
	q->query.until = a->until;
	q->query.limit = a->limit;
	q->query.link = a->link ? a->link : (char *)"";
	q->query.strays = a->strays;
	q->query.count_only =
		!a->note && (a->count || (!a->write && query_form(a) != RENDER_TEXT));
	q->query.nodes = a->nodes.items;
	q->query.n_nodes = a->nodes.count;
	q->query.text = q->text;
	put_text(q->text, a->filter);
	packrack__tally_spec__init(&q->tally);
	q->tally.group = (uint32_t)a->tally.group;
	q->tally.step = a->tally.step;
	q->tally.best = (uint32_t)a->tally.best;
	q->tally.by_packets = a->tally.by_packets;
	q->tally.exact = a->tally.exact;
	q->query.tally = a->tally.group ? &q->tally : NULL;
	q->query.count_only |= a->tally.group != 0;
	q->query.follow = a->follow;
	if (!a->filter[0])
		return 0;
	if (!count) {
		linktypes = &ethernet;
		count = 1;
	}
	if (pri_filter_compile_all(linktypes, count, a->filter, &q->programs, err) < 0 ||
		(a->noted && relate(q, a, linktypes, count, err) < 0))
		return -1;
	if (pri_query_set_programs(&q->query, &q->programs, err) < 0 ||
		lookups_make(&q->lookups, &q->programs, err) < 0)
		return -1;
	q->query.lookups = q->lookups.list;
	q->query.n_lookups = q->lookups.count;
	return 0;
}

int
question_explain(const struct question *q, const struct query_args *a,
	struct pri_plans *plans, struct pr_error *err)
{
	return a->explain ? pri_plans_create(&q->programs, plans, err) : 0;
}

void
question_free(struct question *q)
{
	pri_bpf_set_free(&q->programs);
	related_free(&q->related);
	if (q->query.programs)
		pri_query_message_free(&q->query);
	lookups_free(&q->lookups);
}
