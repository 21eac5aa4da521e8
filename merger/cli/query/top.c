/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "indexer/query/tally_key.h"
#include "merger/cli/cli.h"
#include "merger/cli/query/tally_answer.h"
#include "proto/base/clock.h"

/*
 * What `packrack top` says of a tally that was cut to the best (pr_tally_cut). Counts are bounds where
 * the index gave them: at least, and at most.
 */

static bool
exact(const Packrack__Tally *sums)
{
	return !sums->slack_packets && !sums->slack_bytes;
}

static enum pri_tally_key
group_of(const struct tally_answer *c)
{
	return (enum pri_tally_key)c->sink.args->tally.group;
}

static bool
by_packets(const struct tally_answer *c)
{
	return c->sink.args->tally.by_packets;
}

/* The most that one that is not listed can have, of what was asked for. */
static uint64_t
unlisted(const struct tally_answer *c)
{
	const Packrack__Tally *s = pr_tally_total(c->sink.tally);
	uint64_t most = by_packets(c) ? s->most_packets : s->most_bytes;
	uint64_t slack = by_packets(c) ? s->slack_packets : s->slack_bytes;

	return most > slack ? most : slack;
}

/* How many of those listed are sure to be among the so many largest. */
static size_t
sure(const struct tally_answer *c)
{
	size_t count, n = 0;
	const struct pr_tally_item *items = pr_tally_items(c->sink.tally, &count);
	uint64_t others = unlisted(c);

	while (n < count && (by_packets(c) ? items[n].packets : items[n].bytes) >= others)
		n++;
	return n;
}

/* ---- for people ---- */

static void
print_count(uint64_t least, uint64_t most, int width)
{
	char text[64];

	if (least == most)
		snprintf(text, sizeof(text), "%" PRIu64, least);
	else
		snprintf(text, sizeof(text), "%" PRIu64 "..%" PRIu64, least, most);
	printf("%*s", width, text);
}

static void
print_item(const struct tally_answer *c, const struct pr_tally_item *item, int width)
{
	const struct pr_tally *t = c->sink.tally;
	const Packrack__Tally *sums = pr_tally_total(t);
	uint64_t all = by_packets(c) ? sums->packets : sums->bytes;
	uint64_t mine = by_packets(c) ? item->packets : item->bytes;
	char text[PRI_TALLY_KEY_TEXT];

	print_count(item->packets, pr_tally_most_packets(t, item), width);
	fputs(" ", stdout);
	print_count(item->bytes, pr_tally_most_bytes(t, item), width + 4);
	printf(" %5.1f%%", all ? 100.0 * (double)mine / (double)all : 0.0);
	pri_tally_key_text(group_of(c), item, false, text);
	printf("  %s\n", text);
}

static void
print_bounds(const struct tally_answer *c)
{
	size_t count;

	pr_tally_items(c->sink.tally, &count);
	printf("LOW..HIGH are bounds from the index. %zu of the %zu are certainly among "
	       "the "
	       "largest; any key not listed has at most %" PRIu64
	       " %s. --exact counts the packets.\n",
		sure(c), count, unlisted(c), by_packets(c) ? "packets" : "bytes");
}

/* For people, on standard output. */
static void
top_print(const struct tally_answer *c)
{
	const Packrack__Tally *sums = pr_tally_total(c->sink.tally);
	int width = exact(sums) ? 12 : 24;
	size_t count;
	const struct pr_tally_item *items = pr_tally_items(c->sink.tally, &count);

	printf("%*s %*s  share  %s\n", width, "packets", width + 4, "bytes",
		pri_tally_key_name(group_of(c)));
	for (size_t i = 0; i < count; i++)
		print_item(c, &items[i], width);
	printf("%*" PRIu64 " %*" PRIu64 " 100.0%%  all\n", width, sums->packets, width + 4,
		sums->bytes);
	if (!exact(sums))
		print_bounds(c);
}

/* ---- as data ---- */

static void
render_item(
	struct render *r, const struct tally_answer *c, const struct pr_tally_item *item)
{
	const struct pr_tally *t = c->sink.tally;
	char text[PRI_TALLY_KEY_TEXT];

	render_object(r, NULL);
	pri_tally_key_text(group_of(c), item, false, text);
	render_string(r, "key", text);
	if (group_of(c) != PRI_TALLY_KEY_LINK &&
		pri_tally_key_text(group_of(c), item, true, text))
		render_string(r, "filter", text);
	render_uint(r, "packets", item->packets);
	render_uint(r, "packets_most", pr_tally_most_packets(t, item));
	render_uint(r, "bytes", item->bytes);
	render_uint(r, "bytes_most", pr_tally_most_bytes(t, item));
	render_close(r);
}

static void
top_render(struct render *r, const struct tally_answer *c)
{
	const Packrack__Tally *sums = pr_tally_total(c->sink.tally);
	size_t count;
	const struct pr_tally_item *items = pr_tally_items(c->sink.tally, &count);

	render_string(r, "group", pri_tally_key_name(group_of(c)));
	render_uint(r, "packets", sums->packets);
	render_uint(r, "bytes", sums->bytes);
	render_bool(r, "exact", exact(sums));
	render_uint(r, "sure", sure(c));
	render_uint(r, "left_out", sums->left_out);
	render_uint(r, "unlisted_most", unlisted(c));
	render_list(r, "top");
	for (size_t i = 0; i < count; i++)
		render_item(r, c, &items[i]);
	render_close(r);
}

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
	PR_OPT_UINT(best, "limit", 'n', "N", 1, BEST_MAX, "number of rows", .def = "10",
		.aliases = {"best"}),
	PR_OPT_ENUM(by, "by", 0, "WHAT", measures, "largest by bytes or packets"),
	PR_OPT_FLAG(exact, "exact", 0, "read the packets where the index has only bounds"),
	CLI_FORM_OPTIONS(query.),
	CLI_KEY_OPTION(query.merger.key),
};

static const char footer[] =
	"KEY is src, dst, host (the default), port, sport, dport, pair, flow, proto, "
	"ethertype, "
	"vlan,\nmac or link. For host without FILTER the index gives a lower and an upper "
	"bound; "
	"all else\nis counted packet by packet, and exact.\n\n"
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
print_answer(void *arg, const struct tally_answer *c, struct render *r)
{
	const struct top_args *a = arg;

	pr_tally_cut(c->sink.tally, a->best);
	if (r)
		top_render(r, c);
	else
		top_print(c);
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct top_args *a = call->values;
	int status = CLI_USAGE;

	if (take(a, call->count, call->operands, err) == 0)
		status = tally_answer_run(&a->query, print_answer, a);
	free(a->query.filter);
	return status;
}

int
cmd_top(int argc, char **argv)
{
	struct top_args a = {.query = QUERY_ARGS(program.name)};

	return cli_run(&program, &a, -1, argc, argv, run);
}
