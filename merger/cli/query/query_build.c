/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/query_args.h"

#include "indexer/filter/filter.h"
#include "indexer/filter/plan.h"
#include "indexer/query/answer.h"
#include "indexer/query/beyond.h"
#include "indexer/query/tally_key.h"

/*
 * What mergers get to know of a filter, so that they can leave out nodes: the plan of each program, as
 * look-ups of the hashes that summaries have. The plan is made here, where filters are compiled, so that
 * mergers need neither filters nor keys.
 */
enum { NOTHING, MAY, KEY, AND, OR };

/*
 * A plan that is being written into a message. A node of the plan can take several
 * operations.
 */
struct making {
	Packrack__Lookups *to;
	bool failed; /* no memory, or too long */
};

static uint32_t
put(struct making *m, uint32_t op, uint32_t left, uint32_t right)
{
	Packrack__Lookups *to = m->to;
	size_t at = to->n_op;

	if (at == PR_MESSAGE_LOOKUPS_MAX || PR_ARRAY_GROW(to->op, at) < 0 ||
		PR_ARRAY_GROW(to->left, at) < 0 || PR_ARRAY_GROW(to->right, at) < 0) {
		m->failed = true;
		return 0;
	}
	to->op[at] = op;
	to->left[at] = left;
	to->right[at] = right;
	to->n_op = to->n_left = to->n_right = at + 1;
	return at;
}

static uint32_t
put_key(struct making *m, struct pri_key key)
{
	Packrack__Lookups *to = m->to;
	uint32_t made = put(m, KEY, to->n_hash, 0);

	key = pri_key_either(&key);
	if (PR_ARRAY_GROW(to->hash, to->n_hash) < 0)
		m->failed = true;
	else if (!m->failed)
		to->hash[to->n_hash++] = pri_key_hash(&key);
	return made;
}

static uint32_t
put_lookup(struct making *m, const struct pri_key *key)
{
	static const uint8_t lens[2][3] = {{3, 2, 1}, {8, 6, 4}};

	if (key->kind >= PRI_KEY_COMPOSITE) /* summaries have none */
		return put(m, MAY, 0, 0);
	uint32_t all = put_key(m, *key);
	if ((key->kind != PRI_KEY_SRC && key->kind != PRI_KEY_DST &&
		    key->kind != PRI_KEY_ADDRESS) ||
		(key->len != 4 && key->len != 16))
		return all;
	/* an address has its prefixes: asking for them too makes false positives rare */
	for (int i = 0; i < 3; i++)
		all = put(m, AND, all,
			put_key(m, pri_key_bytes(PRI_KEY_NET, key->bytes,
					   lens[key->len == 16][i])));
	return all;
}

static uint32_t
put_range(struct making *m, const struct pri_plan_range *r)
{
	unsigned ports = pri_plan_range_ports(r);
	uint32_t any = put(m, ports || r->least > r->most ? NOTHING : MAY, 0, 0);

	for (unsigned i = 0; i < ports; i++)
		any = put(m, OR, any, put_key(m, pri_plan_range_port(r, i)));
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

/* One for each program, in their order. -1: no memory. */
static int
make_lookups(
	Packrack__Query *query, const struct pr_bpf_set *programs, struct pr_error *err)
{
	struct pri_plans plans;
	int rc = pri_plans_create(programs, NULL, &plans, err);

	query->lookups = calloc(programs->count + 1, sizeof(*query->lookups));
	query->of_connections = rc == 0 && pri_plans_of_connections(&plans);
	for (size_t i = 0; rc == 0 && i < plans.count; i++) {
		const struct pri_plan *plan = plans.items[i];
		struct making m = {.to = query->lookups ? malloc(sizeof(*m.to)) : NULL};
		uint32_t *map = calloc(plan->count, sizeof(*map));

		m.failed = !m.to || !map;
		if (m.to) {
			packrack__lookups__init(m.to);
			m.to->linktype = programs->items[i]->linktype;
			query->lookups[query->n_lookups++] = m.to;
		}
		for (size_t j = 0; !m.failed && j < plan->count; j++)
			map[j] = put_node(&m, plan, &plan->nodes[j], map);
		if (m.failed && m.to && m.to->n_op) { /* too long: all may match */
			m.to->n_op = m.to->n_left = m.to->n_right = m.to->n_hash = 0;
			m.failed = false;
			put(&m, MAY, 0, 0);
		}
		free(map);
		if (m.failed)
			rc = pr_error_set(err, "no memory to plan a filter");
	}
	pri_plans_free(&plans);
	return rc;
}

/*
 * What could be related to anything: fragments, IPv6 with extension headers (fragments may be behind
 * them), ICMP, tunnels; and on Ethernet tags, labels and PPPoE. Tags are tested by
 * Ethertype, because `vlan` and its like move the offsets of all terms that follow.
 */
#define CANDIDATES_IP                                                                      \
	"ip[6:2] & 0x3fff != 0 or icmp or icmp6 or ip proto 4 or ip proto 41 or ip proto " \
	"47 or ip6 proto 4 or ip6 proto 41 or ip6 proto 47 or udp dst port 4789 or "       \
	"ip6[6] = 0 or ip6[6] = 43 or ip6[6] = 44 or ip6[6] = 51 or ip6[6] = 60 or "       \
	"ip6[6] = 135"
#define CANDIDATES_TAGGED                                                                  \
	"ether proto 0x8100 or ether proto 0x88a8 or ether proto 0x9100 or ether proto "   \
	"0x8847 or ether proto 0x8848 or ether proto 0x8864"

/*
 * The widest program that compiles for this link type: without tags, or without the filter,
 * if the filter is for another link type.
 */
static struct pr_bpf *
widest(uint16_t linktype, const char *filter)
{
	static const char *const candidates[] = {
		CANDIDATES_TAGGED " or " CANDIDATES_IP, CANDIDATES_IP};
	struct pr_bpf *program = NULL;
	char *text;

	for (size_t i = 0; !program && i < 4; i++) {
		if (asprintf(&text, i < 2 ? "(%s) or (%s)" : "%s", candidates[i % 2],
			    filter) < 0)
			continue;
		program = pri_filter_compile(linktype, text, NULL);
		free(text);
	}
	return program ? program : pri_filter_compile(linktype, filter, NULL);
}

/*
 * The filter's programs become the core of the question, and their place is taken by wider ones: they let
 * through what matches and what could be related to it, where the filter makes sense or not.
 */
static int
relate(struct question *q, const struct query_args *a, const uint16_t *linktypes,
	size_t count, struct pr_error *err)
{
	const struct pr_relations *noted = a->noted;
	Packrack__Related *m = &q->related;

	packrack__related__init(m);
	packrack__query__init(&q->core);
	m->keys = calloc(noted->count + 1, sizeof(*m->keys));
	m->first = calloc(noted->count + 1, sizeof(*m->first));
	m->lasting = calloc(noted->count + 1, sizeof(*m->lasting));
	m->spans = calloc(2 * noted->span_count + 1, sizeof(*m->spans));
	if (!m->keys || !m->first || !m->lasting || !m->spans)
		return pr_error_set(err, "no memory for related packets");
	if (pri_query_set_programs(&q->core, &q->programs, err) < 0)
		return -1;
	m->core = q->core.programs;
	m->n_core = q->core.n_programs;
	for (size_t i = 0; i < noted->count; i++) {
		m->keys[i] = noted->keys[i].key;
		m->first[i] = noted->keys[i].first;
		m->lasting[i] = (uint64_t)noted->keys[i].last - noted->keys[i].first;
	}
	m->n_keys = m->n_first = m->n_lasting = noted->count;
	for (size_t i = 0; i < noted->span_count; i++) {
		m->spans[m->n_spans++] = noted->spans[i].first;
		m->spans[m->n_spans++] = noted->spans[i].last;
	}
	q->query.related = m;
	q->direct = q->programs;
	q->programs = (struct pr_bpf_set){0};
	for (size_t i = 0; i < count; i++) {
		struct pr_bpf *program = widest(linktypes[i], a->filter);

		if (program && pr_bpf_set_add(&q->programs, program, err) < 0)
			return -1;
	}
	return 0;
}

int
question_check(const struct query_args *a, struct pr_error *err)
{
	if (!a->filter[0])
		return 0;
	return pri_filter_check(pri_linktypes, PRI_LINKTYPES, a->filter, err);
}

bool
query_takes_sums(const struct query_args *a)
{
	return a->parts || (a->tally.group && a->tally.group != PRI_TALLY_KEY_TIME);
}

int
question_make(struct question *q, const struct query_args *a, const uint16_t *linktypes,
	size_t count, struct pr_error *err)
{
	Packrack__Query *query = &q->query;
	const char *text = a->purpose ? a->purpose : a->filter;
	size_t len = strlen(text);

	memset(q, 0, sizeof(*q));
	packrack__query__init(query);
	PR_COPY(query, a, since, until, limit, estimate, memory_only, follow, manifest);
	PR_COPY(query, a, strays, share, shares);
	query->link = a->link ? a->link : "";
	query->count_only =
		a->tally.group ||
		(!a->note && (a->count || (!a->write && (a->json || a->keyvalue))));
	query->nodes = a->nodes.items;
	query->n_nodes = a->nodes.count;
	query->settle = !a->no_wait;
	/* of a long filter its beginning, in whole characters */
	query->text = q->text;
	if (len >= QUESTION_TEXT)
		for (len = QUESTION_TEXT - 4; len && (text[len] & 0xc0) == 0x80;)
			len--;
	memcpy(q->text, text, len);
	strcpy(q->text + len, text[len] ? "..." : "");
	query->flow_parts = a->parts;
	query->sums = query_takes_sums(a);
	query->tally = a->tally.group ? (Packrack__TallySpec *)&a->tally : NULL;
	if (!a->filter[0])
		return 0;
	if (!count)
		linktypes = pri_linktypes;
	count = count ? count : 1;
	if (pri_filter_compile_all(
		    linktypes, count, a->filter, a->tagged, &q->programs, err) < 0 ||
		(a->noted && relate(q, a, linktypes, count, err) < 0) ||
		pri_query_set_programs(query, &q->programs, err) < 0)
		return -1;
	return make_lookups(query, &q->programs, err);
}

void
question_free(struct question *q)
{
	for (size_t i = 0; i < q->query.n_lookups; i++)
		packrack__lookups__free_unpacked(q->query.lookups[i], NULL);
	free(q->query.lookups);
	pri_query_message_free(&q->query);
	pri_query_message_free(&q->core);
	pr_bpf_set_free(&q->programs);
	pr_bpf_set_free(&q->direct);
	free(q->related.keys);
	free(q->related.first);
	free(q->related.lasting);
	free(q->related.spans);
}
