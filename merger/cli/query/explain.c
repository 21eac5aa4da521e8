/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/explain.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/filter/filter.h"
#include "proto/base/clock.h"

static bool
same_words(const struct pri_plan *a, const struct pri_plan *b)
{
	return pri_plan_is(a, PRI_PLAN_TRUE) && pri_plan_is(b, PRI_PLAN_TRUE);
}

/* Several link types of which nothing is known are one line. */
static void
print_linktypes(FILE *to, const struct pri_plans *plans, size_t at)
{
	char name[PRI_LINKTYPE_TEXT];

	fprintf(to, "  plan for %s",
		pri_linktype_name(plans->items[at]->linktype, name, sizeof(name)));
	for (size_t i = at + 1; i < plans->count; i++)
		if (same_words(plans->items[at], plans->items[i]))
			fprintf(to, ", %s",
				pri_linktype_name(
					plans->items[i]->linktype, name, sizeof(name)));
	fputs(": look for packets with\n", to);
}

static bool
said_before(const struct pri_plans *plans, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (same_words(plans->items[i], plans->items[at]))
			return true;
	return false;
}

static void
print_plans(FILE *to, const struct pri_plans *plans)
{
	if (!plans->count)
		fputs("  plan: all packets of the time range\n", to);
	for (size_t i = 0; i < plans->count; i++)
		if (!said_before(plans, i)) {
			print_linktypes(to, plans, i);
			pri_plan_print(to, plans->items[i], 1);
		}
}

static void
print_node(FILE *to, const Packrack__NodeAnswer *n)
{
	if (n->left_out) {
		fprintf(to, "    %s: not asked: %s\n", n->node, n->why);
		return;
	}
	fprintf(to, "    %s: %s%s%s", n->node, n->why[0] ? "asked: " : "", n->why,
		n->why[0] ? "; " : "");
	if (n->stopped)
		fputs("stopped before its end\n", to);
	else if (n->answered)
		fprintf(to,
			"%" PRIu64 " match of %" PRIu64 " packets, %" PRIu64
			" bytes in %" PRIu64 " segments; skipped: %" PRIu64
			" segments, %" PRIu64 " bytes\n",
			n->matched, n->scanned_packets, n->scanned_bytes,
			n->scanned_segments, n->skipped_segments, n->skipped_bytes);
	else
		fprintf(to, "%s\n", n->error);
}

static const char *
end_of_range(int64_t time, char *buf)
{
	return time == PR_TIME_MIN   ? "the beginning"
	       : time == PR_TIME_MAX ? "the end"
				     : pr_time_format(time, buf, PR_TIME_TEXT);
}

void
explain_range(FILE *to, int64_t since, int64_t until)
{
	char first[PR_TIME_TEXT], last[PR_TIME_TEXT];

	fprintf(to, "  time range: %s to %s\n", end_of_range(since, first),
		end_of_range(until, last));
}

void
explain_text(FILE *to, const struct pri_plans *plans, const Packrack__End *end)
{
	const Packrack__Completeness *c = end->completeness;

	print_plans(to, plans);
	fprintf(to,
		"  searched: %" PRIu64 " packets, %" PRIu64 " bytes in %" PRIu64
		" segments; skipped: %" PRIu64 " segments\n",
		end->scanned_packets, end->scanned_bytes, end->scanned_segments,
		end->skipped_segments);
	if (end->index_damaged)
		fprintf(to, "  of the index %" PRIu64 " records are damaged: not used\n",
			end->index_damaged);
	for (size_t i = 0; c && i < c->n_nodes; i++)
		print_node(to, c->nodes[i]);
}

/* ---- as data ---- */

static void
render_words(struct render *r, const struct pri_plan *plan)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return;
	pri_plan_print(f, plan, 0);
	fclose(f);
	if (text && size)
		text[size - 1] = 0; /* the last line's end */
	render_string(r, "words", text ? text : "");
	free(text);
}

void
explain_render(struct render *r, const struct pri_plans *plans)
{
	char name[PRI_LINKTYPE_TEXT];

	render_list(r, "plans");
	for (size_t i = 0; i < plans->count; i++) {
		const struct pri_plan *plan = plans->items[i];

		render_object(r, NULL);
		render_string(r, "linktype",
			pri_linktype_name(plan->linktype, name, sizeof(name)));
		render_uint(r, "keys", plan->key_count);
		render_uint(r, "ranges", plan->range_count);
		render_bool(r, "may_match_all", pri_plan_is(plan, PRI_PLAN_TRUE));
		render_words(r, plan);
		render_close(r);
	}
	render_close(r);
}
