/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/plan.h"

#include <stdlib.h>

int
pri_plans_create(
	const struct pri_bpf_set *programs, struct pri_plans *out, struct pr_error *err)
{
	*out = (struct pri_plans){
		.items = calloc(programs->count + 1, sizeof(*out->items))};
	if (!out->items)
		return pr_error_set(err, "no memory to plan a filter");
	for (; out->count < programs->count; out->count++) {
		out->items[out->count] = pri_plan_create(programs->items[out->count], err);
		if (!out->items[out->count]) {
			pri_plans_free(out);
			return -1;
		}
	}
	return 0;
}

void
pri_plans_free(struct pri_plans *plans)
{
	for (size_t i = 0; i < plans->count; i++)
		pri_plan_destroy(&plans->items[i]);
	free(plans->items);
	*plans = (struct pri_plans){0};
}

const struct pri_plan *
pri_plans_find(const struct pri_plans *plans, uint16_t linktype)
{
	for (size_t i = 0; i < plans->count; i++)
		if (plans->items[i]->linktype == linktype)
			return plans->items[i];
	return NULL;
}
