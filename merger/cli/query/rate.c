/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/rate.h"

#include <inttypes.h>

#include "indexer/query/tally_key.h"
#include "proto/base/units.h"

int
tally_answer(const struct query_args *a,
	void (*print)(void *arg, const struct sink *sink, struct render *r), void *arg,
	struct pr_error *err)
{
	struct sink sink;

	sink_init(&sink, a);
	int status = ask_query(&sink, err);
	if (status == CLI_OK && sink.end->cancelled) {
		status = pr_error_set(
			err, "interrupted: no result, because the count is incomplete");
	} else if (status == CLI_OK) {
		struct render *r = cli_render(a->json, a->keyvalue, NULL);
		print(arg, &sink, r);
		fflush(stdout);
		report_text(stderr, &sink);
		if (r)
			report_render(r, &sink);
		status = report_status(&sink);
		if (render_end(&r) < 0 || ferror(stdout))
			status = pr_error_set(err, "cannot write the answer");
	}
	sink_close(&sink);
	return status;
}

int
rate_limit_parse(const char *text, struct rate_limit *out, struct pr_error *err)
{
	struct pr_rate rate;

	if (pr_parse_rate(text, &rate) < 0 || rate.per_second >= 1e18)
		return pr_error_set(err,
			"'%s' is not a rate: a number and bit, B or pps, as in 100Mbit, "
			"12.5MB, 5kpps",
			text);
	out->packets = rate.packets;
	out->per_second = rate.per_second + 0.5;
	return 0;
}

bool
rate_limit_exceeded(
	const struct rate_limit *limit, uint64_t packets, uint64_t bytes, int64_t ns)
{
	unsigned __int128 count = limit->packets ? packets : (unsigned __int128)bytes * 8;

	return count * PR_NS_PER_S > (unsigned __int128)limit->per_second * ns;
}

/* One interval of a tally over time; the ends are kept within int64_t. */
static void
rate_step(const struct pr_tally_item *item, int64_t step, struct rate_stretch *out)
{
	int64_t interval = pri_tally_key_interval_of(item);

	*out = (struct rate_stretch){.steps = 1,
		.packets = item->packets,
		.bytes = item->bytes,
		.peak_packets = item->packets,
		.peak_bytes = item->bytes};
	if (__builtin_mul_overflow(interval, step, &out->first))
		out->first = interval < 0 ? PR_TIME_MIN : PR_TIME_MAX;
	if (__builtin_mul_overflow(interval, step, &out->last) ||
		__builtin_add_overflow(out->last, step - 1, &out->last))
		out->last = interval < 0 ? out->first + step - 1 : PR_TIME_MAX;
	out->peak_first = out->first;
}

/* Finds the next busy step at or after w->at, and moves w->at after it. */
static bool
next_busy(struct rate_walk *w, struct rate_stretch *out)
{
	size_t count;
	const struct pr_tally_item *items = pr_tally_items(w->tally, &count);

	while (w->at < count) {
		rate_step(&items[w->at++], w->step, out);
		if (rate_limit_exceeded(w->limit, out->packets, out->bytes, w->step))
			return true;
	}
	return false;
}

bool
rate_next(struct rate_walk *w, struct rate_stretch *out)
{
	bool by_packets = w->limit->packets;
	struct rate_stretch s;

	while (next_busy(w, out)) {
		for (size_t before = w->at; next_busy(w, &s); before = w->at) {
			if (out->last == PR_TIME_MAX || s.first != out->last + 1) {
				/* quiet steps between are read twice: no harm */
				w->at = before;
				break;
			}
			out->last = s.last;
			out->steps++;
			PR_ADD(out, &s, packets, bytes);
			if (by_packets ? s.packets > out->peak_packets
				       : s.bytes > out->peak_bytes)
				out->peak_first = s.first;
			out->peak_packets = PR_MAX(out->peak_packets, s.packets);
			out->peak_bytes = PR_MAX(out->peak_bytes, s.bytes);
		}
		if ((unsigned __int128)out->steps * w->step >=
			(unsigned __int128)w->at_least)
			return true;
	}
	return false;
}

#define BAR 40

struct rate_args {
	struct query_args query;
	char *above;
	int64_t lasting, step;
	struct rate_limit limit; /* parsed from `above` */
};

#define PR_VALUES struct rate_args

static const struct pr_option options[] = {
	QUERY_RANGE_OPTIONS(query.),
	PR_OPT_STRING(above, "above", 0, "RATE",
		"show when it was busier than this: 100Mbit, 12.5MB, 5kpps"),
	PR_OPT_DURATION(lasting, "for", 0, "DURATION", 0, 0, "and for at least this long"),
	PR_OPT_DURATION(step, "step", 0, "DURATION", PR_NS_PER_MS,
		366 * 86400 * (uint64_t)PR_NS_PER_S, "length of a step", .def = "1s"),
	CLI_FORM_OPTIONS(query.),
	CLI_KEY_OPTION(query.merger.key),
};

static double
per_second(uint64_t count, uint64_t steps, int64_t step)
{
	return (double)count * PR_NS_PER_S / ((double)step * steps);
}

/* 1234567 -> "1.23M"; buf of SI_TEXT. */
#define SI_TEXT 32
static const char *
si(double value, char *buf)
{
	static const char units[] = " kMGTPE";
	size_t unit = 0;

	for (; value >= 999.5 && unit < sizeof(units) - 2; unit++)
		value /= 1000;
	if (unit == 0)
		snprintf(buf, SI_TEXT,
			value < 99.95 && value != (long)value ? "%.1f" : "%.0f", value);
	else
		snprintf(buf, SI_TEXT, "%.*f%c",
			value < 9.995   ? 2
			: value < 99.95 ? 1
					: 0,
			value, units[unit]);
	return buf;
}

/* True if packets of the stretch may be missing. */
static bool
is_partial(const struct sink *sink, const struct rate_stretch *s)
{
	const Packrack__Completeness *k = sink->end->completeness;

	if (!k || report_untold(k))
		return true;
	for (size_t i = 0; i < k->n_nodes; i++)
		if (!k->nodes[i]->answered)
			return true;
	for (size_t i = 0; i < k->n_missing + k->n_missing_classes; i++)
		if (report_missing(k, i)->first_time <= s->last &&
			report_missing(k, i)->last_time >= s->first)
			return true;
	for (size_t i = 0; i < k->n_evicted; i++)
		if (k->evicted[i]->until >= s->first)
			return true;
	return false;
}

/* Prints a step for people. most: bytes of the busiest step, which has the longest bar. */
static void
print_row(const struct rate_args *a, const struct rate_stretch *s, bool partial,
	uint64_t most)
{
	char first[PR_TIME_TEXT], last[PR_TIME_TEXT], bar[BAR + 1];
	char bps[SI_TEXT], bps_most[SI_TEXT], pps[SI_TEXT], pps_most[SI_TEXT];
	size_t len = most ? (double)s->bytes * BAR / most + 0.5 : 0;

	pr_time_local(s->first, first, sizeof(first));
	si(per_second(s->bytes, s->steps, a->step) * 8, bps);
	si(per_second(s->packets, s->steps, a->step), pps);
	if (a->above) {
		printf("%s %s %9g %11" PRIu64 "%c %14" PRIu64 " %8s %8s %8s %8s\n", first,
			pr_time_local(s->last, last, sizeof(last)),
			(double)s->steps * a->step / PR_NS_PER_S, s->packets,
			partial ? '+' : ' ', s->bytes, bps,
			si(per_second(s->peak_bytes, 1, a->step) * 8, bps_most), pps,
			si(per_second(s->peak_packets, 1, a->step), pps_most));
		return;
	}
	memset(bar, '#', sizeof(bar));
	bar[len < BAR ? len : BAR] = 0;
	printf("%s %10" PRIu64 "%c %14" PRIu64 " %8s %8s  %s\n", first, s->packets,
		partial ? '+' : ' ', s->bytes, pps, bps, bar);
}

static void
render_row(struct render *r, const struct rate_args *a, const struct rate_stretch *s,
	bool partial)
{
	char first[PR_TIME_TEXT], last[PR_TIME_TEXT], text[128];

	render_object(r, NULL);
	render_time(r, "since", s->first);
	render_time(r, "until", s->last);
	RENDER_UINTS(r, {"packets", s->packets}, {"bytes", s->bytes});
	render_bool(r, "partial", partial);
	snprintf(text, sizeof(text), "--since %s --until %s",
		pr_time_format(s->first, first, sizeof(first)),
		pr_time_format(s->last, last, sizeof(last)));
	render_string(r, "options", text);
	if (a->above) {
		RENDER_UINTS(r, {"steps", s->steps},
			{"mean_bits_per_second",
				per_second(s->bytes, s->steps, a->step) * 8 + 0.5},
			{"mean_packets_per_second",
				per_second(s->packets, s->steps, a->step) + 0.5},
			{"peak_step_bytes", s->peak_bytes},
			{"peak_step_packets", s->peak_packets});
		render_time(r, "peak_since", s->peak_first);
	}
	render_close(r);
}

/*
 * Prints the steps that have packets, or with a limit the busy stretches. r NULL: for
 * people.
 */
static void
print_answer(void *arg, const struct sink *sink, struct render *r)
{
	const struct rate_args *a = arg;
	struct rate_walk w = {.tally = sink->tally,
		.step = a->step,
		.at_least = a->lasting,
		.limit = &a->limit};
	struct rate_stretch s, last;
	char text[PR_TIME_TEXT];
	int wide = strlen(pr_time_local(pr_now_real(), text, sizeof(text)));
	uint64_t most = 0;
	size_t count;

	pr_tally_cut(sink->tally, SIZE_MAX);
	const struct pr_tally_item *items = pr_tally_items(sink->tally, &count);
	for (size_t i = 0; i < count; i++)
		most = PR_MAX(most, items[i].bytes);
	if (r) {
		RENDER_UINTS(r, {"step_ns", a->step},
			{"packets", pr_tally_total(sink->tally)->packets},
			{"bytes", pr_tally_total(sink->tally)->bytes});
		render_list(r, a->above ? "stretches" : "series");
	} else if (a->above) {
		printf("%-*s %-*s %9s %12s %14s %8s %8s %8s %8s\n", wide, "since", wide,
			"until", "seconds", "packets", "bytes", "bit/s", "peak", "pps",
			"peak");
	} else {
		printf("%-*s %10s  %14s %8s %8s\n", wide, "from", "packets", "bytes", "pps",
			"bit/s");
	}
	for (bool more = false;; last = s, more = true) {
		uint64_t quiet = 0; /* steps without packets are left out, and counted */

		if (a->above ? !rate_next(&w, &s) : w.at == count)
			break;
		if (!a->above)
			rate_step(&items[w.at++], a->step, &s);
		if (r) {
			render_row(r, a, &s, is_partial(sink, &s));
			continue;
		}
		if (more && !a->above)
			quiet = ((uint64_t)s.first - last.last - 1) / a->step;
		if (quiet)
			printf("... %" PRIu64 " step%s without packets\n", quiet,
				pr_plural(quiet));
		print_row(a, &s, is_partial(sink, &s), most);
	}
	if (r)
		render_close(r);
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct rate_args *a = call->values;
	struct query_args *q = &a->query;
	int status = CLI_USAGE;

	q->tally.step = a->step;
	q->tally.group = PRI_TALLY_KEY_TIME;
	if (query_args_take(q, call->count, call->operands, err) == 0) {
		if (a->lasting && !a->above)
			pr_error_set(err, "--for needs --above RATE");
		else if (a->above && rate_limit_parse(a->above, &a->limit, err) < 0)
			pr_error_prefix(err, "--above");
		else
			status = tally_answer(q, print_answer, a, err);
	}
	free(q->filter);
	return status;
}

const struct cli_command rate_command = {"rate",
	"show how busy the links were, or when they were busier than a rate",
	.summary = "Shows how busy the links were over time, or when they were busier than "
		   "a rate.",
	.usage = "[options] [FILTER...]", PR_OPTIONS(options),
	.footer = "A step begins at a multiple of its length since 1970 (UTC). "
		  "Without FILTER, and with steps of\nwhole seconds, the index "
		  "answers, and packets are read only where there is none.\n\n"
		  "  packrack rate --since \"1h ago\" --above 800Mbit --for 5s\n"
		  "  packrack rate --step 1m udp port 53",
	.operands = -1, .call = run, .values = &(struct rate_args){.query = QUERY_ARGS}};
