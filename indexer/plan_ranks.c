/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/plan_ranks.h"

#include <string.h>

unsigned
pr_plan_range_ports(const struct pr_plan_range *r)
{
	if ((r->number != PR_NUMBER_SPORT && r->number != PR_NUMBER_DPORT) ||
		r->least < 0 || r->most > UINT16_MAX || r->least > r->most ||
		r->most - r->least >= PR_RANGE_PORTS)
		return 0;
	return (unsigned)(r->most - r->least) + 1;
}

struct pr_key
pr_plan_range_port(const struct pr_plan_range *r, unsigned index)
{
	return pr_key_number(r->number == PR_NUMBER_SPORT ? PR_KEY_SPORT : PR_KEY_DPORT,
		(uint32_t)r->least + index);
}

/* ---- what is not worth it ---- */

static bool
is_type(void *arg, const struct pr_key *key)
{
	(void)arg;
	return pr_key_rank(key) == PR_RANK_TYPES;
}

static bool
is_no_pair(void *arg, const struct pr_key *key)
{
	(void)arg;
	return key->kind != PR_KEY_PAIR;
}

static bool
any_range(void *arg, const struct pr_plan_range *range)
{
	(void)arg;
	return range->least <= range->most;
}

/*
 * Can it hold by types and ranges alone? If not, what has all else that is asked for will as good as never
 * lack the type, which is one that all traffic has.
 */
static bool
by_types(const struct pr_plan *plan, uint8_t *scratch)
{
	const struct pr_plan_index types = {
		.has_key = is_type, .has_parts = is_type, .has_range = any_range};

	return pr_plan_holds(plan, &types, scratch);
}

/* Can it hold without a pair of addresses? If not, the pair tells as good as all that its addresses do. */
static bool
without_pairs(const struct pr_plan *plan, uint8_t *scratch)
{
	const struct pr_plan_index no_pairs = {
		.has_key = is_no_pair, .has_range = any_range};

	return pr_plan_holds(plan, &no_pairs, scratch);
}

/* ---- counting ---- */

#define KEYS_COMPARED 32

static bool
is_other_side(const struct pr_plan *plan, size_t index)
{
	struct pr_key either = pr_key_either(&plan->keys[index]), other;

	for (size_t i = 0; i < index && index < KEYS_COMPARED; i++) {
		other = pr_key_either(&plan->keys[i]);
		if (other.kind == either.kind && other.len == either.len &&
			!memcmp(other.bytes, either.bytes, either.len))
			return true;
	}
	return false;
}

static bool
is_other_range(const struct pr_plan *plan, size_t index)
{
	const struct pr_plan_range *r = &plan->ranges[index];

	for (size_t i = 0; i < index && index < KEYS_COMPARED; i++)
		if (plan->ranges[i].number != r->number &&
			plan->ranges[i].least == r->least &&
			plan->ranges[i].most == r->most)
			return true;
	return false;
}

void
pr_plan_ranks(const struct pr_plan *plan, size_t keys[PR_RANKS], uint8_t *scratch)
{
	memset(keys, 0, PR_RANKS * sizeof(*keys));
	for (size_t i = 0; i < plan->key_count; i++)
		if (plan->keys[i].kind != PR_KEY_OTHER)
			keys[pr_key_rank(&plan->keys[i])] += !is_other_side(plan, i);
	for (size_t i = 0; i < plan->range_count; i++)
		if (!is_other_range(plan, i))
			keys[PR_RANK_PORTS] += pr_plan_range_ports(&plan->ranges[i]);
	if (!without_pairs(plan, scratch))
		keys[PR_RANK_ADDRESSES] = 0;
	if (!by_types(plan, scratch))
		keys[PR_RANK_TYPES] = 0;
}
