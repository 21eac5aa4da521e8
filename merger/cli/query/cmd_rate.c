/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/query/tally_key.h"
#include "merger/cli/cli.h"
#include "merger/cli/query/counted.h"
#include "merger/cli/query/rate.h"
#include "proto/base/clock.h"

struct rate_args {
	struct query_args query;
	char *above;
	int64_t lasting, step;
};

#define PR_VALUES struct rate_args

static const struct pr_option options[] = {
	QUERY_RANGE_OPTIONS(query.),
	PR_OPT_STRING(above, "above", 0, "RATE",
		"only when it was busier than this: 100Mbit, 12.5MB, 5kpps"),
	PR_OPT_DURATION(lasting, "for", 0, "TIME", 0, 0, "and for at least so long"),
	PR_OPT_DURATION(step, "step", 0, "TIME", PR_NS_PER_MS,
		366 * 86400 * (uint64_t)PR_NS_PER_S, "what is counted together",
		.def = "1s"),
	CLI_FORM_OPTIONS(query.),
	CLI_KEY_OPTION(query.merger.key),
};

static const char footer[] =
	"A step begins at a multiple of its length since 1970 (UTC). Without FILTER, and "
	"with "
	"steps of\nwhole seconds, the index answers, and packets are read only where there "
	"is "
	"none.\nExit status: 0 complete, 3 partial, 1 failed, 2 bad usage.\n\n"
	"  packrack rate --since \"1h ago\" --above 800Mbit --for 5s\n"
	"  packrack rate --step 1m udp port 53";

static const struct pr_cmdline program = {.name = "packrack rate",
	.summary =
		"Shows how busy the links were over time, or when they were busier than a "
		"rate.",
	.usage = "[options] [FILTER...]",
	PR_OPTIONS(options),
	.footer = footer};

static int
take(struct rate_args *a, struct rate_text *t, int count, char **words,
	struct pr_error *err)
{
	t->step = a->query.tally.step = a->step;
	t->at_least = a->lasting;
	t->limited = a->above != NULL;
	a->query.tally.group = PRI_TALLY_KEY_TIME;
	if (query_args_take(&a->query, count, words, err) < 0)
		return -1;
	if (a->lasting && !a->above)
		return pr_error_set(err, "--for needs --above: busier than what?");
	if (a->above && rate_limit_parse(a->above, &t->limit, err) < 0)
		return pr_error_prefix(err, "--above");
	return 0;
}

static void
print(void *arg, const struct counted *c, struct render *r)
{
	struct rate_text *t = arg;

	pr_tally_sort(c->sink.tally);
	t->counted = c;
	if (r)
		rate_render(r, t);
	else
		rate_print(t);
}

int
cmd_rate(int argc, char **argv)
{
	struct rate_args a = {.query = {.since = PR_TIME_MIN,
				      .until = PR_TIME_MAX,
				      .program = program.name},
		.step = PR_NS_PER_S};
	struct rate_text text = {.step = 0};
	struct pr_error err;
	int operand, status = cli_parse(&program, &a, argc, argv, &operand);

	if (status < 0 && take(&a, &text, argc - operand, argv + operand, &err) < 0)
		status = cli_fail(program.name, CLI_USAGE, &err);
	if (status < 0)
		status = counted_run(&a.query, print, &text);
	free(a.query.filter);
	pr_options_free(&program, &a);
	return status;
}
