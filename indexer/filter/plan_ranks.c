/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/plan_ranks.h"

#include <string.h>

unsigned
pri_plan_range_ports(const struct pri_plan_range *r)
{
	if ((r->number != PRI_NUMBER_SPORT && r->number != PRI_NUMBER_DPORT) ||
		r->least < 0 || r->most > UINT16_MAX || r->least > r->most ||
		r->most - r->least >= PRI_RANGE_PORTS)
		return 0;
	return (unsigned)(r->most - r->least) + 1;
}

struct pri_key
pri_plan_range_port(const struct pri_plan_range *r, unsigned index)
{
	return pri_key_number(r->number == PRI_NUMBER_SPORT ? PRI_KEY_SPORT : PRI_KEY_DPORT,
		(uint32_t)r->least + index);
}

/* ---- what is not worth it ---- */

static bool
is_type(void *arg, const struct pri_key *key)
{
	(void)arg;
	return pri_key_rank(key) == PRI_RANK_TYPES;
}

static bool
is_no_pair(void *arg, const struct pri_key *key)
{
	(void)arg;
	return key->kind != PRI_KEY_PAIR;
}

static bool
any_range(void *arg, const struct pri_plan_range *range)
{
	(void)arg;
	return range->least <= range->most;
}

/*
 * Can it hold by types and ranges alone? If not, what has all else that is asked for will as good as never
 * lack the type, which is one that all traffic has.
 */
static bool
by_types(const struct pri_plan *plan, uint8_t *scratch)
{
	const struct pri_plan_index types = {
		.has_key = is_type, .has_parts = is_type, .has_range = any_range};

	return pri_plan_holds(plan, &types, scratch);
}

/* Can it hold without a pair of addresses? If not, the pair tells as good as all that its addresses do. */
static bool
without_pairs(const struct pri_plan *plan, uint8_t *scratch)
{
	const struct pri_plan_index no_pairs = {
		.has_key = is_no_pair, .has_range = any_range};

	return pri_plan_holds(plan, &no_pairs, scratch);
}

/* ---- counting ---- */

#define KEYS_COMPARED 32

static bool
is_other_side(const struct pri_plan *plan, size_t index)
{
	struct pri_key either = pri_key_either(&plan->keys[index]), other;

	for (size_t i = 0; i < index && index < KEYS_COMPARED; i++) {
		other = pri_key_either(&plan->keys[i]);
		if (other.kind == either.kind && other.len == either.len &&
			!memcmp(other.bytes, either.bytes, either.len))
			return true;
	}
	return false;
}

static bool
is_other_range(const struct pri_plan *plan, size_t index)
{
	const struct pri_plan_range *r = &plan->ranges[index];

	for (size_t i = 0; i < index && index < KEYS_COMPARED; i++)
		if (plan->ranges[i].number != r->number &&
			plan->ranges[i].least == r->least &&
			plan->ranges[i].most == r->most)
			return true;
	return false;
}

void
pri_plan_ranks(const struct pri_plan *plan, size_t keys[PRI_RANKS], uint8_t *scratch)
{
	memset(keys, 0, PRI_RANKS * sizeof(*keys));
	for (size_t i = 0; i < plan->key_count; i++)
		if (plan->keys[i].kind != PRI_KEY_OTHER)
			keys[pri_key_rank(&plan->keys[i])] += !is_other_side(plan, i);
	for (size_t i = 0; i < plan->range_count; i++)
		if (!is_other_range(plan, i))
			keys[PRI_RANK_PORTS] += pri_plan_range_ports(&plan->ranges[i]);
	if (!without_pairs(plan, scratch))
		keys[PRI_RANK_ADDRESSES] = 0;
	if (!by_types(plan, scratch))
		keys[PRI_RANK_TYPES] = 0;
}
