/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "indexer/query/tally_key.h"
#include "merger/cli/query/rate.h"

/*
 * Prints the result of `packrack top`: a tally reduced to the largest items (pr_tally_cut).
 * Counts from the index are bounds: at least, and at most.
 */

/* Values of a tally that are used for text and for data. */
struct top {
	const struct pr_tally *tally;
	enum pri_tally_key group;
	bool by_packets, exact;
	const Packrack__Tally *sums;
	const struct pr_tally_item *items;
	size_t count, sure; /* items listed; those certainly among the `count` largest */
	uint64_t unlisted; /* upper bound of any other item, in bytes or packets */
};

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
top_print(const struct top *t)
{
	uint64_t all = t->by_packets ? t->sums->packets : t->sums->bytes;
	int width = t->exact ? 12 : 24;
	char text[PRI_TALLY_KEY_TEXT];

	printf("%*s %*s  share  %s\n", width, "packets", width + 4, "bytes",
		pri_tally_key_name(t->group));
	for (size_t i = 0; i < t->count; i++) {
		const struct pr_tally_item *item = &t->items[i];
		uint64_t mine = t->by_packets ? item->packets : item->bytes;

		print_count(item->packets, pr_tally_most_packets(t->tally, item), width);
		fputs(" ", stdout);
		print_count(item->bytes, pr_tally_most_bytes(t->tally, item), width + 4);
		pri_tally_key_text(t->group, item, false, text);
		printf(" %5.1f%%  %s\n", all ? 100.0 * mine / all : 0.0, text);
	}
	printf("%*" PRIu64 " %*" PRIu64 " 100.0%%  all\n", width, t->sums->packets,
		width + 4, t->sums->bytes);
	if (!t->exact)
		printf("LOW..HIGH are bounds from the index. %zu of the %zu are certainly "
		       "among the largest; any key not listed has at most %" PRIu64
		       " %s. --exact counts the packets.\n",
			t->sure, t->count, t->unlisted,
			t->by_packets ? "packets" : "bytes");
}

/* ---- as data ---- */

static void
top_render(struct render *r, const struct top *t)
{
	char text[PRI_TALLY_KEY_TEXT];

	render_string(r, "group", pri_tally_key_name(t->group));
	RENDER_UINTS(r, {"packets", t->sums->packets}, {"bytes", t->sums->bytes});
	render_bool(r, "exact", t->exact);
	RENDER_UINTS(r, {"sure", t->sure}, {"left_out", t->sums->left_out},
		{"unlisted_most", t->unlisted});
	render_list(r, "top");
	for (size_t i = 0; i < t->count; i++) {
		const struct pr_tally_item *item = &t->items[i];

		render_object(r, NULL);
		pri_tally_key_text(t->group, item, false, text);
		render_string(r, "key", text);
		if (t->group != PRI_TALLY_KEY_LINK &&
			pri_tally_key_text(t->group, item, true, text))
			render_string(r, "filter", text);
		RENDER_UINTS(r, {"packets", item->packets},
			{"packets_most", pr_tally_most_packets(t->tally, item)},
			{"bytes", item->bytes},
			{"bytes_most", pr_tally_most_bytes(t->tally, item)});
		render_close(r);
	}
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

static void
print_answer(void *arg, const struct sink *sink, struct render *r)
{
	const struct top_args *a = arg;
	struct top t = {.tally = sink->tally,
		.group = a->query.tally.group,
		.by_packets = a->query.tally.by_packets};

	pr_tally_cut(sink->tally, a->best);
	t.items = pr_tally_items(t.tally, &t.count);
	t.sums = pr_tally_total(t.tally);
	t.exact = !t.sums->slack_packets && !t.sums->slack_bytes;
	uint64_t slack = t.by_packets ? t.sums->slack_packets : t.sums->slack_bytes;
	t.unlisted = t.by_packets ? t.sums->most_packets : t.sums->most_bytes;
	t.unlisted = t.unlisted > slack ? t.unlisted : slack;
	while (t.sure < t.count && (t.by_packets ? t.items[t.sure].packets
						 : t.items[t.sure].bytes) >= t.unlisted)
		t.sure++;
	if (r)
		top_render(r, &t);
	else
		top_print(&t);
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct top_args *a = call->values;
	int group = call->count > 0 ? pri_tally_key_find(call->operands[0]) : -1;
	bool named = group >= 0;
	int status = CLI_USAGE;

	a->query.tally.group = named ? group : PRI_TALLY_KEY_HOST;
	a->query.tally.best = a->best;
	a->query.tally.by_packets = a->by == 1;
	a->query.tally.exact = a->exact;
	if (query_args_take(&a->query, call->count - named, call->operands + named, err) ==
		0)
		status = tally_answer(&a->query, print_answer, a, err);
	free(a->query.filter);
	return status;
}

const struct cli_command top_command = {"top",
	"show which hosts, ports, flows ... had most of the traffic",
	.summary = "Shows which hosts, ports, flows ... had most of the traffic.",
	.usage = "[options] [KEY] [FILTER...]", PR_OPTIONS(options),
	.footer =
		"KEY is src, dst, host (the default), port, sport, dport, pair, flow, "
		"proto, ethertype, vlan,\nmac or link. For host without FILTER the index "
		"gives a lower and an upper bound; all else\nis counted packet by packet, "
		"and exact.\n\n"
		"  packrack top --since \"1h ago\"\n"
		"  packrack top flow -n 20 --by packets udp port 53",
	.operands = -1, .call = run, .values = &(struct top_args){.query = QUERY_ARGS}};
