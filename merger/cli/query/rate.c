/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/rate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/query/tally_key.h"
#include "merger/cli/cli.h"
#include "proto/base/clock.h"
#include "proto/base/units.h"

/* What `packrack rate` says: the steps with any packets, or with a limit the busy stretches. */
struct rate_text {
	const struct tally_answer *counted; /* its tally sorted */
	int64_t step, at_least;
	bool limited;
	struct rate_limit limit;
};

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
	out->per_second = (uint64_t)(rate.per_second + 0.5);
	return 0;
}

bool
rate_limit_exceeded(
	const struct rate_limit *limit, uint64_t packets, uint64_t bytes, int64_t ns)
{
	unsigned __int128 count = limit->packets ? packets : (unsigned __int128)bytes * 8;

	return count * (uint64_t)PR_NS_PER_S >
	       (unsigned __int128)limit->per_second * (uint64_t)ns;
}

/* One interval of a tally over time; the ends are kept within int64_t. */
static void
rate_step(const struct pr_tally_item *item, int64_t step, struct rate_stretch *out)
{
	int64_t interval = pri_tally_key_interval_of(item), end;

	*out = (struct rate_stretch){.steps = 1,
		.packets = item->packets,
		.bytes = item->bytes,
		.peak_packets = item->packets,
		.peak_bytes = item->bytes};
	if (__builtin_mul_overflow(interval, step, &out->first))
		out->first = interval < 0 ? PR_TIME_MIN : PR_TIME_MAX;
	if (__builtin_mul_overflow(interval, step, &end) ||
		__builtin_add_overflow(end, step - 1, &end))
		end = interval < 0 ? out->first + step - 1 : PR_TIME_MAX;
	out->last = end;
	out->peak_first = out->first;
}

static void
extend(struct rate_stretch *s, const struct rate_stretch *step, bool by_packets)
{
	s->last = step->last;
	s->steps++;
	s->packets += step->packets;
	s->bytes += step->bytes;
	if (by_packets ? step->packets > s->peak_packets : step->bytes > s->peak_bytes)
		s->peak_first = step->first;
	if (step->packets > s->peak_packets)
		s->peak_packets = step->packets;
	if (step->bytes > s->peak_bytes)
		s->peak_bytes = step->bytes;
}

/* A step that is busy, at or behind w->at; w->at then stands behind it. */
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

static bool
next_stretch(struct rate_walk *w, struct rate_stretch *out)
{
	struct rate_stretch step;

	if (!next_busy(w, out))
		return false;
	for (size_t before = w->at; next_busy(w, &step); before = w->at) {
		if (out->last == PR_TIME_MAX || step.first != out->last + 1) {
			w->at = before; /* quiet steps between cost a second look, no more */
			break;
		}
		extend(out, &step, w->limit->packets);
	}
	return true;
}

bool
rate_next(struct rate_walk *w, struct rate_stretch *out)
{
	while (next_stretch(w, out)) {
		unsigned __int128 lasts = (unsigned __int128)out->steps * (uint64_t)w->step;

		if (lasts >= (unsigned __int128)w->at_least)
			return true;
	}
	return false;
}

#define BAR 40

static double
per_second(uint64_t count, uint64_t steps, int64_t step)
{
	return (double)count * (double)PR_NS_PER_S / ((double)step * (double)steps);
}

/* The next stretch above the limit, or without one the next step. */
static bool
next_row(const struct rate_text *t, struct rate_walk *w, struct rate_stretch *out)
{
	size_t count;
	const struct pr_tally_item *items = pr_tally_items(w->tally, &count);

	if (t->limited)
		return rate_next(w, out);
	if (w->at == count)
		return false;
	rate_step(&items[w->at++], w->step, out);
	return true;
}

/* ---- for people ---- */

static uint64_t
peak(const struct pr_tally *tally)
{
	size_t count;
	const struct pr_tally_item *items = pr_tally_items(tally, &count);
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		if (items[i].bytes > bytes)
			bytes = items[i].bytes;
	return bytes;
}

static void
print_head(const struct rate_text *t)
{
	if (t->limited)
		printf("%-30s %-30s %9s %12s %14s %8s %8s %8s %8s\n", "since", "until",
			"seconds", "packets", "bytes", "bit/s", "peak", "pps", "peak");
	else
		printf("%-30s %10s  %14s %8s %8s\n", "from", "packets", "bytes", "pps",
			"bit/s");
}

/* Steps without packets are left out, and counted. */
static void
print_gap(const struct rate_stretch *last, const struct rate_stretch *s, int64_t step)
{
	uint64_t quiet = ((uint64_t)s->first - (uint64_t)last->last - 1) / (uint64_t)step;

	if (quiet)
		printf("... %" PRIu64 " step%s without packets\n", quiet,
			quiet == 1 ? "" : "s");
}

static void
print_row(const struct rate_text *t, const struct rate_stretch *s, uint64_t most)
{
	char partial = tally_answer_partial(t->counted, s->first, s->last) ? '+' : ' ';
	char first[PR_TIME_TEXT], last[PR_TIME_TEXT], bar[BAR + 1];
	char bps[TALLY_SI_TEXT], bps_most[TALLY_SI_TEXT];
	char pps[TALLY_SI_TEXT], pps_most[TALLY_SI_TEXT];
	size_t len = most ? (size_t)((double)s->bytes * BAR / (double)most + 0.5) : 0;

	pr_time_format(s->first, first, sizeof(first));
	tally_answer_si(per_second(s->bytes, s->steps, t->step) * 8, bps);
	tally_answer_si(per_second(s->packets, s->steps, t->step), pps);
	if (t->limited) {
		printf("%s %s %9g %11" PRIu64 "%c %14" PRIu64 " %8s %8s %8s %8s\n", first,
			pr_time_format(s->last, last, sizeof(last)),
			(double)s->steps * (double)t->step / (double)PR_NS_PER_S,
			s->packets, partial, s->bytes, bps,
			tally_answer_si(
				per_second(s->peak_bytes, 1, t->step) * 8, bps_most),
			pps,
			tally_answer_si(per_second(s->peak_packets, 1, t->step), pps_most));
		return;
	}
	memset(bar, '#', sizeof(bar));
	bar[len < BAR ? len : BAR] = 0;
	printf("%s %10" PRIu64 "%c %14" PRIu64 " %8s %8s  %s\n", first, s->packets, partial,
		s->bytes, pps, bps, bar);
}

/* ---- as data ---- */

static void
render_row(struct render *r, const struct rate_text *t, const struct rate_stretch *s)
{
	char first[PR_TIME_TEXT], last[PR_TIME_TEXT], text[128];

	render_object(r, NULL);
	render_time(r, "since", s->first);
	render_time(r, "until", s->last);
	render_uint(r, "packets", s->packets);
	render_uint(r, "bytes", s->bytes);
	render_bool(r, "partial", tally_answer_partial(t->counted, s->first, s->last));
	snprintf(text, sizeof(text), "--since %s --until %s",
		pr_time_format(s->first, first, sizeof(first)),
		pr_time_format(s->last, last, sizeof(last)));
	render_string(r, "options", text);
	if (t->limited) {
		render_uint(r, "steps", s->steps);
		render_uint(r, "mean_bits_per_second",
			(uint64_t)(per_second(s->bytes, s->steps, t->step) * 8 + 0.5));
		render_uint(r, "mean_packets_per_second",
			(uint64_t)(per_second(s->packets, s->steps, t->step) + 0.5));
		render_uint(r, "peak_step_bytes", s->peak_bytes);
		render_uint(r, "peak_step_packets", s->peak_packets);
		render_time(r, "peak_since", s->peak_first);
	}
	render_close(r);
}

/* r NULL: for people, on standard output. */
static void
rate_show(struct render *r, const struct rate_text *t)
{
	const struct pr_tally *tally = t->counted->sink.tally;
	struct rate_walk w = {.tally = tally,
		.step = t->step,
		.at_least = t->at_least,
		.limit = &t->limit};
	struct rate_stretch s, last;
	uint64_t most = peak(tally);

	if (r) {
		render_uint(r, "step_ns", (uint64_t)t->step);
		render_uint(r, "packets", pr_tally_total(tally)->packets);
		render_uint(r, "bytes", pr_tally_total(tally)->bytes);
		render_list(r, t->limited ? "stretches" : "series");
	} else {
		print_head(t);
	}
	for (bool more = false; next_row(t, &w, &s); last = s, more = true) {
		if (r) {
			render_row(r, t, &s);
			continue;
		}
		if (more && !t->limited)
			print_gap(&last, &s, t->step);
		print_row(t, &s, most);
	}
	if (r)
		render_close(r);
}

struct rate_args {
	struct query_args query;
	char *above;
	int64_t lasting, step;
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

static const char footer[] =
	"A step begins at a multiple of its length since 1970 (UTC). Without FILTER, and "
	"with "
	"steps of\nwhole seconds, the index answers, and packets are read only where there "
	"is "
	"none.\n\n"
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
		return pr_error_set(err, "--for needs --above RATE");
	if (a->above && rate_limit_parse(a->above, &t->limit, err) < 0)
		return pr_error_prefix(err, "--above");
	return 0;
}

static void
print_answer(void *arg, const struct tally_answer *c, struct render *r)
{
	struct rate_text *t = arg;

	pr_tally_cut(c->sink.tally, SIZE_MAX);
	t->counted = c;
	rate_show(r, t);
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct rate_args *a = call->values;
	struct rate_text text = {.step = 0};
	int status = CLI_USAGE;

	if (take(a, &text, call->count, call->operands, err) == 0)
		status = tally_answer_run(&a->query, print_answer, &text);
	free(a->query.filter);
	return status;
}

int
cmd_rate(int argc, char **argv)
{
	struct rate_args a = {.query = QUERY_ARGS(program.name)};

	return cli_run(&program, &a, -1, argc, argv, run);
}
