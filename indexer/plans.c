/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/plan.h"

#include <stdlib.h>

int
pr_plans_create(
	const struct pr_programs *programs, struct pr_plans *out, struct pr_error *err)
{
	*out = (struct pr_plans){.items = calloc(programs->count + 1, sizeof(*out->items))};
	if (!out->items)
		return pr_error_set(err, "no memory to plan a filter");
	for (; out->count < programs->count; out->count++) {
		out->items[out->count] = pr_plan_create(programs->items[out->count], err);
		if (!out->items[out->count]) {
			pr_plans_free(out);
			return -1;
		}
	}
	return 0;
}

void
pr_plans_free(struct pr_plans *plans)
{
	for (size_t i = 0; i < plans->count; i++)
		pr_plan_destroy(&plans->items[i]);
	free(plans->items);
	*plans = (struct pr_plans){0};
}

const struct pr_plan *
pr_plans_find(const struct pr_plans *plans, uint16_t linktype)
{
	for (size_t i = 0; i < plans->count; i++)
		if (plans->items[i]->linktype == linktype)
			return plans->items[i];
	return NULL;
}
