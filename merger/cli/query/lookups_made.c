/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/lookups_made.h"

#include <stdlib.h>

#include "indexer/filter/plan.h"
#include "proto/rpc/message.h"

enum { NOTHING, MAY, KEY, AND, OR };

#define PORTS_MAX 16 /* a range of more may match */

/* A plan under way into a message; a node of the plan can take several operations. */
struct making {
	Packrack__Lookups *to;
	size_t room, hash_room;
	bool failed; /* no memory, or too long */
};

static bool
grow(void *array, size_t count, size_t *room, size_t size)
{
	size_t want = *room ? *room * 2 : 64;
	void *grown;

	if (count < *room)
		return true;
	grown = reallocarray(*(void **)array, want, size);
	if (!grown)
		return false;
	*(void **)array = grown;
	*room = want;
	return true;
}

static uint32_t
put(struct making *m, uint32_t op, uint32_t left, uint32_t right)
{
	Packrack__Lookups *to = m->to;
	size_t at = to->n_op, rooms[3] = {m->room, m->room, m->room};

	if (at == PR_MESSAGE_LOOKUPS_MAX ||
		!grow(&to->op, at, &rooms[0], sizeof(*to->op)) ||
		!grow(&to->left, at, &rooms[1], sizeof(*to->left)) ||
		!grow(&to->right, at, &rooms[2], sizeof(*to->right))) {
		m->failed = true;
		return 0;
	}
	m->room = rooms[0];
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

	if (!grow(&m->to->hash, at, &m->hash_room, sizeof(*m->to->hash))) {
		m->failed = true;
		return 0;
	}
	m->to->hash[m->to->n_hash++] = pri_key_hash(&either);
	return put(m, KEY, (uint32_t)at, 0);
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

int
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
		to->linktype = pri_bpf_linktype(programs->items[i]);
		out->count++;
		rc = plan ? make(to, plan, err) : -1;
		pri_plan_destroy(&plan);
		if (rc < 0)
			return -1;
	}
	return 0;
}

void
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
