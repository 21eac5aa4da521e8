/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "indexer/stages/stage_common.h"
#include "indexer/stages/stage_run.h"

const struct packrack_stage *const pri_stages[] = {&pri_stage_count, &pri_stage_flows,
	&pri_stage_http, &pri_stage_anonymize, &pri_stage_detect, &pri_stage_grep,
	&pri_stage_rtt, NULL};

const char *
pri_stage_option(const char *const *options, const char *key)
{
	const char *value = NULL;
	size_t len = strlen(key);

	for (; *options; options++)
		if (!strncmp(*options, key, len) && (*options)[len] == '=')
			value = *options + len + 1;
	return value;
}

void
pri_stage_put(json_t *to, const char *name, uint64_t count, uint32_t scale)
{
	char error[80];

	json_object_set_new(
		to, name, json_integer((json_int_t)(count * PR_MAX(scale, 1u))));
	if (scale < 2)
		return;
	PR_PRINT(error, "%s_error", name);
	pri_stage_put(to, error, 1.96 * sqrt((double)count * scale * (scale - 1)), 1);
}

void
pri_stage_put_tally(
	json_t *to, const char *name, const struct pri_stage_tally *t, uint32_t scale)
{
	json_t *row = name ? json_object() : to;

	pri_stage_put(row, "packets", t->packets, scale);
	pri_stage_put(row, "bytes", t->bytes * PR_MAX(scale, 1u), 1);
	if (name)
		json_object_set_new(to, name, row);
}

char *
pri_stage_text(json_t *report)
{
	char *text = report ? json_dumps(report, JSON_COMPACT) : NULL;

	json_decref(report);
	return text;
}
