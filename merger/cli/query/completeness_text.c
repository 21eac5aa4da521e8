/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/ask.h"

#include <inttypes.h>

#include "proto/port/trace.h"
#include "merger/completeness.h"
#include "proto/base/units.h"

enum { RANGES_SHOWN = 20, RANGES_COMMENTED = 500 };

/* Reasons are names in messages and for --allow; these are the texts for people. */
static const struct {
	const char *name, *text;
} reasons[] = {{PRM_MISSING_NO_ANSWER, "a node that may have it did not answer"},
	{PRM_MISSING_CORRUPT, "records that cannot be read"},
	{"unsaved", "stored, and lost before it was durable, or by a repair"},
	{PRM_MISSING_ONE_OF, "for one of these reasons"},
	{PRM_MISSING_DROPPED,
		"dropped by the dispatcher: no node available, or sending failed"},
	{PRM_MISSING_UNDELIVERED, "announced by a dispatcher that has ended, but "
				  "on no node that was asked"},
	{PRM_MISSING_UNKNOWN, "announced by the dispatcher, but on no node that was asked"},
	{"switch", "lost or damaged on the way to the node"},
	{"log_gone", "its timestamp log was lost"},
	{"node_kernel", "dropped by the node's kernel"},
	{"write", "the node could not write it to its volume"},
	{"node_stop", "the node stopped before storing it"},
	{PRM_UNOBSERVED_BEFORE, "before its first capture"},
	{PRM_UNOBSERVED_STOPPED, "the capture was stopped"},
	{PRM_UNOBSERVED_NO_CARRIER, "its interface had no carrier"},
	{PRM_UNOBSERVED_GONE, "its dispatcher was not heard"},
	{PRM_UNOBSERVED_UNKNOWN, "not yet known"},
	{PRM_UNOBSERVED_NO_LINK, "no link has this name or number"},
	{PRM_UNOBSERVED_FILE, "outside of the trace file"}, {"overwritten", NULL},
	{"expired", NULL}, {"deleted", NULL}, {"moved", NULL}, {"pending", NULL},
	{"dropped", NULL}, {"strays", NULL}, {"truncated", NULL}, {"undecided", NULL}};

static const char *
reason_text(const char *reason)
{
	for (size_t i = 0; i < PR_COUNT(reasons); i++)
		if (!strcmp(reasons[i].name, reason) && reasons[i].text)
			return reasons[i].text;
	return reason;
}

/* ---- what the user accepts ---- */

int
allow_check(struct pr_string_list *allow, struct pr_error *err)
{
	struct pr_string_list given = *allow;
	char known[1024] = "";

	for (size_t i = 0; i < PR_COUNT(reasons); i++) {
		strcat(known, i ? ", " : "");
		strcat(known, reasons[i].name);
	}
	*allow = (struct pr_string_list){0};
	if (pr_string_list_split(allow, &given, err) < 0)
		return -1;
	pr_string_list_clear(&given);
	for (size_t i = 0, j; i < allow->count; i++) {
		for (j = 0;
			j < PR_COUNT(reasons) && strcmp(reasons[j].name, allow->items[i]);)
			j++;
		if (j == PR_COUNT(reasons))
			return pr_error_set(err, "--allow %s: the reasons are %s",
				allow->items[i], known);
	}
	return 0;
}

static bool
allowed(const struct sink *sink, const char *reason)
{
	const struct pr_string_list *allow = &sink->args->allow;

	for (size_t i = 0; i < allow->count; i++)
		if (!strcmp(allow->items[i], reason))
			return true;
	return false;
}

/* Were packets deleted, and did the volume overwrite more since? */
static bool
overwritten_since(const Packrack__Evicted *e)
{
	return e->deleted && !e->midst && e->deleted->until < e->until;
}

static const char *
deleted_reason(const Packrack__Deleted *d)
{
	return d && d->moved_to[0] ? "moved" : "deleted";
}

static const char *
evicted_reason(const Packrack__Evicted *e)
{
	return (e->deleted && !overwritten_since(e)) || e->midst
		       ? deleted_reason(e->deleted)
	       : e->keep && e->until < pr_now_real() - e->keep ? "expired"
							       : "overwritten";
}

const Packrack__Loss *
report_missing(const Packrack__Completeness *c, size_t at)
{
	return at < c->n_missing_classes ? c->missing_classes[at]
					 : c->missing[at - c->n_missing_classes];
}

uint64_t
report_untold(const Packrack__Completeness *c)
{
	uint64_t left = c->missing_packets;

	for (size_t i = 0; i < c->n_missing + c->n_missing_classes; i++)
		left -= report_missing(c, i)->count;
	return left;
}

int
report_status(const struct sink *sink)
{
	const Packrack__End *end = sink->end;
	const Packrack__Completeness *c = end->completeness;
	bool good = c && !end->cancelled;

	if (good && sink->args->strict && (c->n_beyond || c->beyond_until))
		return CLI_PARTIAL;
	if (good && c->complete)
		return CLI_OK;
	if (!good || !sink->args->allow.count || !c->n_nodes)
		return CLI_PARTIAL;
	good = !report_untold(c);
	for (size_t i = 0; i < c->n_missing + c->n_missing_classes; i++)
		good &= allowed(sink, report_missing(c, i)->reason);
	for (size_t i = 0; i < c->n_unobserved; i++)
		good &= allowed(sink, c->unobserved[i]->reason);
	for (size_t i = 0; i < c->n_evicted; i++)
		good &= allowed(sink, evicted_reason(c->evicted[i])) &&
			(!overwritten_since(c->evicted[i]) ||
				allowed(sink, deleted_reason(c->evicted[i]->deleted)));
	for (size_t i = 0; i < c->n_nodes; i++)
		good &= c->nodes[i]->answered || allowed(sink, PRM_MISSING_NO_ANSWER);
	good &= !c->pending_packets || allowed(sink, "pending");
	good &= !c->dropped_packets || allowed(sink, "dropped");
	good &= !c->stray_packets || allowed(sink, "strays");
	good &= !end->truncated || allowed(sink, "truncated");
	good &= !end->undecided || allowed(sink, "undecided");
	good &= !end->corrupt_records || allowed(sink, PRM_MISSING_CORRUPT);
	return good ? CLI_OK : CLI_PARTIAL;
}

/* "  label: n packets text", if there are any. */
static void
print_count(FILE *to, const char *label, uint64_t count, const char *what, const char *text)
{
	if (count)
		fprintf(to, "  %s: %" PRIu64 " %s%s %s\n", label, count, what,
			pr_plural(count), text);
}

static const char *
end_of_range(int64_t time, char *buf)
{
	return time == PR_TIME_MIN   ? "the beginning"
	       : time == PR_TIME_MAX ? "the end"
				     : pr_time_local(time, buf, PR_TIME_TEXT);
}

/* Prints what happened to the packets, why, and where. */
static void
print_span(FILE *to, int64_t first, int64_t last, const Packrack__Loss *l)
{
	char from[PR_TIME_TEXT], until[PR_TIME_TEXT];

	fprintf(to, "%s%s%s: %s%s%s\n", end_of_range(first, from),
		first == last ? "" : " to ", first == last ? "" : end_of_range(last, until),
		reason_text(l->reason), l->node[0] ? ", " : "", l->node);
}

static bool
same_cause(const Packrack__Loss *a, const Packrack__Loss *b)
{
	return !strcmp(a->reason, b->reason) && !strcmp(a->node, b->node);
}

/*
 * Prints all entries and classes with the same cause as the one at `at` in one line, unless an
 * earlier one has printed it.
 */
static void
print_cause(FILE *to, const Packrack__Completeness *c, size_t at)
{
	const Packrack__Loss *one = report_missing(c, at), *l;
	uint64_t packets = 0, ranges = 0;
	int64_t first = one->first_time, last = one->last_time;

	for (size_t i = 0; i < at; i++)
		if (same_cause(report_missing(c, i), one))
			return;
	for (size_t i = at; i < c->n_missing + c->n_missing_classes; i++) {
		l = report_missing(c, i);
		if (!same_cause(l, one))
			continue;
		packets += l->count;
		ranges += l->ranges ? l->ranges : 1;
		pr_time_widen(&first, &last, l->first_time, l->last_time);
	}
	fprintf(to, "    %" PRIu64 " in %" PRIu64 " range%s, ", packets, ranges,
		pr_plural(ranges));
	print_span(to, first, last, one);
}

#define CAUSES_LOOKED_AT 2000 /* keeps the search for causes seen before short */

static void
print_missing(FILE *to, const Packrack__Completeness *c, size_t shown)
{
	size_t listed = c->n_missing + c->n_missing_classes;

	fprintf(to, "  missing: %" PRIu64 " packet%s in %" PRIu64 " range%s%s\n",
		c->missing_packets, pr_plural(c->missing_packets), c->missing_ranges,
		pr_plural(c->missing_ranges),
		listed > shown ? "; --json lists them; by cause" : "");
	for (size_t i = 0; i < listed; i++) {
		const Packrack__Loss *l = report_missing(c, i);

		if (listed > shown) {
			if (i < CAUSES_LOOKED_AT)
				print_cause(to, c, i);
			continue;
		}
		fprintf(to, "    link %u%s seq %" PRIu64, pr_link_base(l->link),
			pr_link_is_beyond(l->link) ? ", sums beyond cutoff," : "",
			l->first_seq);
		if (l->last_seq != l->first_seq)
			fprintf(to, "..%" PRIu64, l->last_seq);
		if (l->step && l->ranges)
			fprintf(to, ", %" PRIu64 " of every %" PRIu64, l->count / l->ranges,
				l->step);
		else if (l->ranges > 1)
			fprintf(to, ", %" PRIu64 " in %" PRIu64 " ranges", l->count,
				l->ranges);
		if (l->among_last)
			fprintf(to, " (among seq %" PRIu64 "..%" PRIu64 ")", l->among_first,
				l->among_last);
		fputs(", ", to);
		print_span(to, l->first_time, l->last_time, l);
	}
	print_count(to, "  not listed", report_untold(c), "packet", "more");
}

/* Prints what was overwritten or deleted: which times, how, by whom. */
static void
print_evicted(FILE *to, const Packrack__Completeness *c)
{
	char first[PR_TIME_TEXT], last[PR_TIME_TEXT];

	for (size_t i = 0; i < c->n_evicted && i < RANGES_SHOWN; i++) {
		const Packrack__Evicted *e = c->evicted[i],
					*was = i ? c->evicted[i - 1] : NULL;
		const Packrack__Deleted *d = e->deleted;
		const char *moved_to = d ? d->moved_to : "";

		/* the same of another epoch */
		if (was && was->until == e->until && was->since == e->since &&
			!strcmp(was->node, e->node) && !strcmp(was->stream, e->stream))
			continue;
		fprintf(to, "  %s: %s%sstream %s: packets %s to %s", evicted_reason(e),
			e->node, e->node[0] ? ", " : "", e->stream,
			e->midst ? end_of_range(e->since, first) : "up",
			end_of_range(e->until, last));
		if (!d && !strcmp(evicted_reason(e), "expired")) {
			fprintf(to, " (class %s is kept for %s)\n", e->class_,
				pr_format_duration(e->keep, first, sizeof(first)));
			continue;
		}
		if (!d) {
			fputs(e->midst ? "\n" : " (volume full, or reset)\n", to);
			continue;
		}
		fputs(" (", to);
		if (overwritten_since(e))
			fprintf(to, "those up to %s were ", end_of_range(d->until, last));
		fprintf(to, "%s%s by %s at %s)\n", moved_to[0] ? "moved to " : "deleted",
			moved_to, d->by[0] ? d->by : "an unknown user",
			end_of_range(d->at, last));
	}
	if (c->n_evicted > RANGES_SHOWN)
		fprintf(to, "  overwritten or deleted: %zu more ranges\n",
			c->n_evicted - RANGES_SHOWN);
}

/* Prints at which times a link was not observed, and why. */
static void
print_unobserved(FILE *to, const Packrack__Completeness *c)
{
	char first[PR_TIME_TEXT], last[PR_TIME_TEXT];

	for (size_t i = 0; i < c->n_unobserved && i < RANGES_SHOWN; i++) {
		const Packrack__Unobserved *u = c->unobserved[i];

		fprintf(to, "  not observed: link %s, %s to %s: %s%s%s\n",
			u->name[0] ? u->name : "without a name",
			end_of_range(u->since, first), end_of_range(u->until, last),
			reason_text(u->reason), u->by[0] ? " by " : "", u->by);
	}
	if (c->n_unobserved > RANGES_SHOWN)
		fprintf(to, "  not observed: %zu more ranges; --json lists them\n",
			c->n_unobserved - RANGES_SHOWN);
}

/* Prints what a cutoff kept back: that is neither missing nor in the trace. */
static void
print_beyond(FILE *to, const Packrack__Completeness *c)
{
	char until[PR_TIME_TEXT];

	for (size_t i = 0; i < c->n_beyond; i++) {
		const Packrack__BeyondClass *b = c->beyond[i];

		fprintf(to,
			"  beyond cutoff: class %s, %s%" PRIu64 " packet%s of %" PRIu64
			" connection%s, %" PRIu64 " bytes\n",
			b->name, b->at_most ? "at most " : "", b->packets,
			pr_plural(b->packets), b->connections, pr_plural(b->connections),
			b->bytes);
	}
	if (c->beyond_until)
		fprintf(to, "  beyond cutoff: from %s on not all of it is counted\n",
			pr_time_local(c->beyond_until, until, sizeof(until)));
}

static void
print_block(FILE *to, const struct sink *sink, size_t shown)
{
	const Packrack__End *end = sink->end;
	const Packrack__Completeness *c = end->completeness;
	bool files = sink->args && sink->args->files.count;
	uint64_t matching =
		end->matched - (end->related < end->matched ? end->related : end->matched);

	if (!c) {
		fputs("partial: the answer does not say what is missing\n", to);
		return;
	}
	fprintf(to, "%s%s: %" PRIu64 " packet%s match%s",
		report_status(sink) ? "partial"
		: c->complete       ? "complete"
				    : "complete but for what --allow accepts",
		end->limit_reached && !report_status(sink) ? " up to the limit" : "",
		matching, pr_plural(matching), matching == 1 ? "es" : "");
	if (end->related)
		fprintf(to, " and %" PRIu64 " %s related", end->related,
			end->related == 1 ? "is" : "are");
	if (end->limit_reached)
		fprintf(to, ", stopped by --limit");
	else if (end->cancelled)
		fprintf(to, "; interrupted");
	else
		fprintf(to, ", of %s%" PRIu64 " in the time range",
			c->held_at_most ? "at most " : "", c->held_packets);
	fprintf(to, " (%zu %s%s)\n", c->n_nodes, files ? "file" : "node",
		pr_plural(c->n_nodes));
	if (c->missing_packets)
		print_missing(to, c, shown);
	print_count(to, "of these", c->missing_sums, "sum",
		"of packets beyond a cutoff: of these there are more than is told");
	print_count(to, "pending", c->pending_packets, "packet",
		"on the way to the nodes' volumes");
	print_beyond(to, c);
	print_unobserved(to, c);
	print_evicted(to, c);
	for (size_t i = 0; i < c->n_nodes; i++)
		if (!c->nodes[i]->answered)
			fprintf(to, "  %s: %s: %s%s\n", files ? "damaged" : "not answered",
				c->nodes[i]->node, c->nodes[i]->error,
				c->complete ? "; other nodes have its packets" : "");
	print_count(to, "dropped", c->dropped_packets, "packet",
		"by the dispatcher, before they were numbered");
	print_count(to, "truncated", end->truncated, "packet",
		"by the dispatcher: longer than the MTU of the rack interface allows");
	print_count(to, "degree cut", end->from_cut, "packet",
		"within the cutoff: longer copies are not kept any more");
	print_count(to, "degree headers", end->from_headers, "packet",
		"of which only the headers are still kept");
	print_count(to, "undecided", end->undecided, "packet",
		"of which only the headers are still kept, and the filter tests more");
	print_count(to, "corrupt", end->corrupt_records, "record", "that cannot be read");
	print_count(to, "strays", c->stray_packets, "packet",
		"without a timestamp, which may belong to the range; --strays gives them");
}

void
report_text(FILE *to, const struct sink *sink)
{
	print_block(to, sink, RANGES_SHOWN);
	print_count(to, "note", sink->unsure, "packet",
		"had identical neighbours, one of which was lost: their times may be "
		"swapped");
	print_count(to, "note", sink->trace ? prm_trace_clamped(sink->trace) : 0, "time",
		"outside 1901..2106 clamped, as pcap has 32 bits for seconds; pcapng holds "
		"all");
}

char *
report_comment(const struct sink *sink)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	print_block(f, sink, RANGES_COMMENTED);
	fclose(f);
	if (text && size && text[size - 1] == '\n')
		text[size - 1] = 0;
	return text;
}

void
report_render(struct render *r, const struct sink *sink)
{
	char hash[PRM_TRACE_HASH_TEXT];

	render_fields(r, &sink->end->base);
	RENDER_UINTS(r, {"unsure_packets", sink->unsure},
		{"clamped_times", sink->trace ? prm_trace_clamped(sink->trace) : 0});
	if (sink->trace)
		render_string(r, "hash", prm_trace_hash_of(sink->trace, hash));
}

static void
print_plans(FILE *to, const struct pri_plans *plans)
{
	char name[PR_LINKTYPE_TEXT];
	bool any = false; /* several link types of which nothing is known are one line */

	if (!plans->count)
		fputs("  plan: all packets of the time range\n", to);
	for (size_t i = 0; i < plans->count; i++) {
		const struct pri_plan *plan = plans->items[i];
		bool all = pri_plan_is(plan, PRI_PLAN_TRUE);

		if (all && any)
			continue;
		any |= all;
		fprintf(to, "  plan for %s", pr_linktype_name(plan->linktype, name));
		for (size_t j = i + 1; j < plans->count && all; j++)
			if (pri_plan_is(plans->items[j], PRI_PLAN_TRUE))
				fprintf(to, ", %s",
					pr_linktype_name(plans->items[j]->linktype, name));
		fputs(": look for packets with\n", to);
		pri_plan_print(to, plan, 1);
	}
}

static void
print_node(FILE *to, const Packrack__NodeAnswer *n, bool estimate)
{
	if (n->left_out) {
		fprintf(to, "    %s: not asked: %s\n", n->node, n->why);
		return;
	}
	fprintf(to, "    %s: %s%s%s", n->node, n->why[0] ? "asked: " : "", n->why,
		n->why[0] ? "; " : "");
	if (n->stopped || !n->answered) {
		fprintf(to, "%s\n", n->stopped ? "stopped before its end" : n->error);
		return;
	}
	if (!estimate)
		fprintf(to, "%" PRIu64 " match of ", n->matched);
	fprintf(to,
		"%" PRIu64 " packets, %" PRIu64 " bytes in %" PRIu64
		" segments; skipped: %" PRIu64 " segments, %" PRIu64 " bytes\n",
		n->scanned_packets, n->scanned_bytes, n->scanned_segments,
		n->skipped_segments, n->skipped_bytes);
}

void
explain_text(FILE *to, const struct sink *sink)
{
	const Packrack__End *end = sink->end;
	const Packrack__Completeness *c = end->completeness;
	char first[PR_TIME_TEXT], last[PR_TIME_TEXT];

	fprintf(to, "  time range: %s to %s\n", end_of_range(sink->args->since, first),
		end_of_range(sink->args->until, last));
	print_plans(to, &sink->plans);
	fprintf(to,
		"  %ssearched: %" PRIu64 " packets, %" PRIu64 " bytes in %" PRIu64
		" segments; skipped: %" PRIu64 " segments\n",
		sink->args->estimate ? "to be " : "", end->scanned_packets,
		end->scanned_bytes, end->scanned_segments, end->skipped_segments);
	if (end->index_damaged)
		fprintf(to, "  of the index %" PRIu64 " records are damaged: not used\n",
			end->index_damaged);
	for (size_t i = 0; c && i < c->n_nodes; i++)
		print_node(to, c->nodes[i], sink->args->estimate);
}

/* ---- as data ---- */

void
explain_render(struct render *r, const struct sink *sink)
{
	char name[PR_LINKTYPE_TEXT], *words = NULL;
	size_t size;

	render_time(r, "since", sink->args->since);
	render_time(r, "until", sink->args->until);
	render_list(r, "plans");
	for (size_t i = 0; i < sink->plans.count; i++) {
		const struct pri_plan *plan = sink->plans.items[i];

		render_object(r, NULL);
		render_string(r, "linktype", pr_linktype_name(plan->linktype, name));
		RENDER_UINTS(r, {"keys", plan->key_count}, {"ranges", plan->range_count});
		render_bool(r, "may_match_all", pri_plan_is(plan, PRI_PLAN_TRUE));
		FILE *f = open_memstream(&words, &size);
		if (f) {
			pri_plan_print(f, plan, 0);
			fclose(f);
			words[size ? size - 1 : 0] = 0; /* the last line's end */
			render_string(r, "words", words);
			free(words);
		}
		render_close(r);
	}
	render_close(r);
}
