/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <check.h>
#include <stdlib.h>

#include "indexer/filter/filter.h"
#include "indexer/filter/plan.h"

/* May a packet of Ethernet match the filter, by its plan, where the index has this? */
static bool
plan_may(const char *filter, const struct pri_plan_index *index)
{
	struct pr_error err;
	struct pr_bpf *program = pri_filter_compile(1, filter, &err);
	struct pri_plan *plan;
	uint8_t *scratch;
	bool result;

	ck_assert_msg(program != NULL, "%s: %s", filter, err.text);
	plan = pri_plan_create(program, NULL, &err);
	ck_assert_ptr_nonnull(plan);
	scratch = malloc(plan->count);
	result = pri_plan_holds(plan, index, scratch);
	free(scratch);
	pri_plan_destroy(&plan);
	pr_bpf_destroy(&program);
	return result;
}
