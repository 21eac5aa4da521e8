/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "indexer/flows/flow_filter.h"
#include "indexer/flows/flow_parts.h"
#include "merger/cli/flows/flow_keep.h"
#include "merger/cli/flows/flow_record.h"
#include "merger/cli/query/ask.h"

/* Where the keeper is far behind, it takes so many windows as one. */
#define CATCH_UP 6
#define WAIT_MS 100
#define IDLE_NS (60 * PR_NS_PER_S)
/* With nodes that do not answer: so many windows, and so long. */
#define PATIENT_WINDOWS 3
#define PATIENCE (10 * PR_NS_PER_S)

struct run {
	const struct flow_keep_order *order;
	struct flow_keeper *keeper;
	struct pri_flow_table *table;
	struct flow_losses losses;
	int64_t first, now; /* otime, of the packets taken so far; first: of this window */
	uint64_t kept, stored; /* kept: in windows that are durable; stored: in this one */
	int64_t idle_since; /* of windows without anything, which are put together; PR_TIME_MIN: none */
	bool partial;
	bool closed; /* the last window: it was stored */
};

static int
on_ended(void *arg, const struct pri_flow *flow, struct pr_error *err)
{
	struct run *r = arg;

	if (!pri_flow_filter_match(r->order->filter, flow))
		return 0;
	r->stored++;
	return flow_keeper_put(
		r->keeper, flow, flow_losses_of(&r->losses, flow), r->now, err);
}

static int
on_packet(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct run *r = arg;
	struct pri_flow_parts_reader parts;

	if (!(p->flags & PR_PACKET_PARTS))
		pr_time_widen(&r->first, &r->now, p->otime, p->otime);
	else if (pri_flow_parts_open(&parts, p))
		pr_time_widen(&r->first, &r->now, parts.head.first, parts.head.last);
	return pri_flow_table_packet(r->table, p, err);
}

static int64_t
whole_slice(int64_t time)
{
	return time - time % PRI_FLOW_SLICE_NS;
}

/*
 * What is missing while flows last that end now. A node that does not answer may come back: with query.follow it is waited
 * for.
 */
static int
ask_losses(struct run *r, const struct query_args *window, struct pr_error *err)
{
	const struct pri_flow_limits *l = r->order->limits;
	int64_t idle = PR_MAX(PR_MAX(l->idle_tcp, l->idle), l->idle_closed);
	int64_t back =
		l->active + idle + CATCH_UP * r->order->every + 2 * PRI_FLOW_SLICE_NS;
	int64_t patience = PR_MAX(PATIENT_WINDOWS * r->order->every, PATIENCE);
	struct query_args a = *window;
	int status = CLI_OK;

	if (a.since != PR_TIME_MIN)
		a.since = pr_time_minus(a.since, back);
	do {
		flow_losses_free(&r->losses);
		r->losses = (struct flow_losses){0};
		status = flow_losses_ask(&r->losses, &a, err);
		if (status == CLI_FAILED && !strcmp(err->text, "interrupted"))
			cli_interrupted = 1;
	} while (status == CLI_OK && !cli_interrupted && r->order->query->follow &&
		 r->losses.unanswered && pr_now_real() - window->until < patience &&
		 poll(NULL, 0, 10 * WAIT_MS) == 0);
	return cli_interrupted ? CLI_OK : status;
}

/* -1: err: flows of this time are kept already. Trace files may overlap: of them only the same flows are refused. */
static int
check_new(const struct run *r, int64_t begin, int64_t end, const struct flow_window *w,
	struct pr_error *err)
{
	const struct query_args *q = r->order->query;
	char since[PR_TIME_TEXT], until[PR_TIME_TEXT];
	struct flow_window other;

	if (!flow_keeper_has(r->keeper, begin, end, q->files.count ? w : NULL, &other))
		return 0;
	return pr_error_set(err,
		"%s: flows of %s to %s are kept already: give another --since or --until",
		r->order->volume, pr_time_format(other.since, since, sizeof(since)),
		pr_time_format(other.until, until, sizeof(until)));
}

/* The packets of the window are in the table: its records become durable. */
static int
end_window(struct run *r, struct flow_window *w, bool last, struct pr_error *err)
{
	const struct flow_keep_open open = {r->table, r->order->filter, &r->losses};

	if (w->since >= w->until)
		return CLI_OK;
	w->records = r->stored;
	if (last && check_new(r, w->since, w->until, w, err) < 0)
		return CLI_FAILED;
	if (r->idle_since != PR_TIME_MIN)
		w->since = r->idle_since;
	r->idle_since = PR_TIME_MIN;
	if (!last && w->complete && !r->stored && !w->packets && !w->missing &&
		w->until - w->since < IDLE_NS) {
		r->idle_since = w->since;
		return CLI_OK;
	}
	if (flow_keeper_commit(r->keeper, w, last ? NULL : &open, err) < 0)
		return CLI_FAILED;
	r->kept += r->stored;
	r->stored = 0;
	r->partial |= !w->complete;
	return CLI_OK;
}

/* The packets are taken: flows end, and are stored. */
static int
close_window(struct run *r, const struct sink *sink, int64_t since, int64_t until,
	bool last, const struct pri_flow_figures *before, struct pr_error *err)
{
	const struct pri_flow_figures *now = pri_flow_table_figures(r->table);
	const Packrack__Completeness *c = sink->end->completeness;
	const struct query_args *q = r->order->query;
	bool files = q->files.count > 0;
	struct flow_window w = {.since = since,
		.until = until,
		.complete = !c || c->complete,
		.filtered =
			r->order->filtered || q->link || q->nodes.count || q->shares > 1};

	if (!last && until > r->now)
		r->now = until;
	/* a range that is there already may begin within a slice: it ends here */
	int64_t end = last ? PRI_FLOW_NEVER : whole_slice(until + PRI_FLOW_SLICE_NS - 1);
	if (pri_flow_table_advance(r->table, end, err) < 0)
		return CLI_FAILED;
	if (since == PR_TIME_MIN || (files && since < r->first))
		w.since = r->first;
	if (until == PR_TIME_MAX || (files && until > r->now))
		w.until = r->now == PR_TIME_MIN ? r->now : r->now + 1;
	else if (last && until > pr_now_real())
		w.until = pr_now_real();
	w.packets = now->packets - before->packets;
	w.not_ip = now->not_ip - before->not_ip;
	PR_COPY(&w, q, share, shares);
	if (c)
		w.missing = c->missing_packets + c->pending_packets + c->dropped_packets;
	if (!w.complete)
		report_text(stderr, sink);
	return end_window(r, &w, last, err);
}

/* Flows that end in since..until - 1. last: all end. CLI_OK, also if it was interrupted; else the exit status. */
static int
take_window(struct run *r, int64_t since, int64_t until, bool last, struct pr_error *err)
{
	const struct pri_flow_figures before = *pri_flow_table_figures(r->table);
	struct query_args packets = *r->order->query;
	int status = CLI_OK;
	struct sink sink;

	packets.since = since;
	packets.until = until == PR_TIME_MAX ? until : until - 1;
	packets.follow = false;
	packets.parts = true;
	packets.quiet |= r->order->query->follow;
	r->first = PR_TIME_MAX;
	if (!packets.files.count)
		status = ask_losses(r, &packets, err);
	if (cli_interrupted || status != CLI_OK)
		return status;
	sink_init(&sink, &packets);
	sink.take = on_packet;
	sink.take_arg = r;
	status = ask_query(&sink, err);
	bool stopped = status == CLI_FAILED && !strcmp(err->text, "interrupted");
	if (stopped)
		status = CLI_OK;
	if (stopped || (status == CLI_OK && sink.end->cancelled))
		cli_interrupted = 1;
	/* its failure counts, also if it was interrupted meanwhile */
	r->closed = status == CLI_OK && !cli_interrupted;
	if (r->closed)
		status = close_window(r, &sink, since, until, last, &before, err);
	sink_close(&sink);
	return status;
}

/* One range, whose flows end with it. */
static int
keep_range(struct run *r, struct pr_error *err)
{
	const struct query_args *q = r->order->query;

	/* the times of trace files are known when they are read, and those of a volume if none are given */
	bool given = q->since != PR_TIME_MIN && q->until != PR_TIME_MAX;
	if (!q->files.count && (!q->volumes.count || given) &&
		check_new(r, q->since, q->until, NULL, err) < 0)
		return CLI_FAILED;
	int status = take_window(
		r, q->since, q->until == PR_TIME_MAX ? q->until : q->until + 1, true, err);
	if (status != CLI_OK)
		return status;
	if (cli_interrupted && !r->closed)
		return pr_error_as(CLI_FAILED, err, "interrupted: nothing was kept");
	fprintf(stderr, "%" PRIu64 " flow%s kept\n", r->kept, pr_plural(r->kept));
	return r->partial ? CLI_PARTIAL : CLI_OK;
}

/* The next window at `at` or later that is not there yet; until: the longest one. */
static bool
next_window(const struct run *r, int64_t *at, int64_t *until)
{
	const struct flow_keep_order *o = r->order;
	struct flow_window other;

	bool behind = pr_now_real() - *at > 2 * CATCH_UP * o->every;
	*until = *at + (behind ? CATCH_UP : 1) * o->every;
	if (*until > o->query->until)
		*until = whole_slice(o->query->until) + PRI_FLOW_SLICE_NS;
	if (!flow_keeper_has(r->keeper, *at, *until, NULL, &other))
		return true;
	if (other.since > *at) {
		*until = other.since;
		return true;
	}
	*at = other.until;
	return false;
}

/* Window by window, until it is interrupted. */
static int
keep_on(struct run *r, struct pr_error *err)
{
	const struct query_args *q = r->order->query;
	int64_t until, at = whole_slice(q->since == PR_TIME_MIN ? pr_now_real() : q->since);
	char time[PR_TIME_TEXT];
	struct flow_window last;
	int status;

	int rc = flow_keeper_resume(r->keeper, r->table, &last, err);
	if (rc < 0)
		return CLI_FAILED;
	if (rc > 0 && (last.share != q->share || last.shares != q->shares))
		return pr_error_as(CLI_FAILED, err,
			"%s has share %u/%u of the flows (0/0: all): go on with that, or "
			"take another volume",
			r->order->volume, last.share, last.shares);
	if (rc > 0)
		at = r->now = last.until;
	if (rc > 0 && !last.complete) {
		fprintf(stderr, "%s: the %" PRIu64 " flows that were open at %s are lost\n",
			r->order->volume, last.open,
			pr_time_format(at, time, sizeof(time)));
		r->partial = true;
	}
	if (at > pr_now_real() + 2 * r->order->every)
		fprintf(stderr,
			"%s: flows are kept up to %s already, which is in the future: "
			"waiting until then\n",
			r->order->volume, pr_time_format(at, time, sizeof(time)));
	for (; !cli_interrupted && at <= q->until; at = until) {
		while (!next_window(r, &at, &until))
			;
		while (at <= q->until && !cli_interrupted && pr_now_real() < until)
			poll(NULL, 0, WAIT_MS);
		if (at > q->until || cli_interrupted)
			break;
		status = take_window(r, at, until, false, err);
		if (status != CLI_OK)
			return status;
	}
	return r->partial && !cli_interrupted ? CLI_PARTIAL : CLI_OK;
}

int
flow_keep_run(const struct flow_keep_order *order, struct pr_error *err)
{
	struct run r = {.order = order, .now = PR_TIME_MIN, .idle_since = PR_TIME_MIN};
	int status = CLI_FAILED;

	r.keeper = flow_keeper_open(order->volume, false, err);
	cli_catch_signals();
	if (r.keeper)
		r.table = pri_flow_table_create(order->limits, on_ended, &r, err);
	if (r.table)
		status = order->query->follow ? keep_on(&r, err) : keep_range(&r, err);
	pri_flow_table_destroy(&r.table);
	flow_keeper_close(&r.keeper);
	flow_losses_free(&r.losses);
	return status;
}
