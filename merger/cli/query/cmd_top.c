/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "indexer/query/tally_key.h"
#include "merger/cli/cli.h"
#include "merger/cli/query/counted.h"
#include "merger/cli/query/top_text.h"
#include "proto/base/clock.h"

#define BEST_DEFAULT 10
#define BEST_MAX 100000

struct top_args {
	struct query_args query;
	uint64_t best;
	int by; /* 0 bytes, 1 packets */
	bool exact;
};

#define PR_VALUES struct top_args

static const char *const measures[] = {"bytes", "packets", NULL};

static const struct pr_option options[] = {
	QUERY_RANGE_OPTIONS(query.),
	PR_OPT_UINT(best, "best", 'n', "N", 1, BEST_MAX, "so many"),
	PR_OPT_ENUM(by, "by", 0, "WHAT", measures, "largest by bytes or packets"),
	PR_OPT_FLAG(exact, "exact", 0, "read the packets where the index has only bounds"),
	CLI_FORM_OPTIONS(query.),
	CLI_KEY_OPTION(query.merger.key),
};

static const char footer[] =
	"KEY is src, dst, host (the default), port, sport, dport, pair, flow, proto, "
	"ethertype, "
	"vlan,\nmac or link. For host without FILTER the index says between what and what "
	"each "
	"lies; all else is\ncounted packet by packet, and exact.\n"
	"Exit status: 0 complete, 3 partial, 1 failed, 2 bad usage.\n\n"
	"  packrack top --since \"1h ago\"\n"
	"  packrack top flow -n 20 --by packets udp port 53";

static const struct pr_cmdline program = {.name = "packrack top",
	.summary = "Shows which hosts, ports, flows ... had most of the traffic.",
	.usage = "[options] [KEY] [FILTER...]",
	PR_OPTIONS(options),
	.footer = footer};

static int
take(struct top_args *a, int count, char **words, struct pr_error *err)
{
	int group = count > 0 ? pri_tally_key_find(words[0]) : -1;

	a->query.tally.group = group < 0 ? PRI_TALLY_KEY_HOST : group;
	a->query.tally.best = a->best;
	a->query.tally.by_packets = a->by == 1;
	a->query.tally.exact = a->exact;
	return query_args_take(&a->query, count - (group >= 0), words + (group >= 0), err);
}

static void
print(void *arg, const struct counted *c, struct render *r)
{
	const struct top_args *a = arg;

	pr_tally_cut(c->sink.tally, a->best);
	if (r)
		top_render(r, c);
	else
		top_print(c);
}

int
cmd_top(int argc, char **argv)
{
	struct top_args a = {.query = {.since = PR_TIME_MIN,
				     .until = PR_TIME_MAX,
				     .program = program.name},
		.best = BEST_DEFAULT};
	struct pr_error err;
	int operand, status = cli_parse(&program, &a, argc, argv, &operand);

	if (status < 0 && take(&a, argc - operand, argv + operand, &err) < 0)
		status = cli_fail(program.name, CLI_USAGE, &err);
	if (status < 0)
		status = counted_run(&a.query, print, &a);
	free(a.query.filter);
	pr_options_free(&program, &a);
	return status;
}
