/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>

#include "indexer/flows/flow_filter.h"
#include "merger/cli/flows/flow_keep.h"
#include "merger/cli/flows/flow_record.h"
#include "merger/cli/query/ask.h"

/* Where the keeper is far behind, it takes so many windows as one. */
#define CATCH_UP 6
#define WAIT_MS 100

static volatile sig_atomic_t stopped;

static void
on_signal(PR_UNUSED int number)
{
	stopped = 1;
}

struct run {
	const struct flow_keep_order *order;
	struct flow_keeper *keeper;
	struct pri_flow_table *table;
	struct flow_losses losses;
	int64_t first, now; /* otime, of the packets taken so far; first: of this window */
	uint64_t stored;
};

static int
on_ended(void *arg, const struct pri_flow *flow, struct pr_error *err)
{
	struct run *r = arg;
	int rc;

	if (!pri_flow_filter_match(r->order->filter, flow))
		return 0;
	rc = flow_keeper_put(r->keeper, flow,
		flow_losses_between(&r->losses, flow->key.link, pri_flow_first(flow),
			pri_flow_last(flow)),
		r->now, err);
	r->stored += rc > 0;
	return rc < 0 ? -1 : 0;
}

static int
on_packet(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct run *r = arg;

	if (p->otime < r->first)
		r->first = p->otime;
	if (p->otime > r->now)
		r->now = p->otime;
	return pri_flow_table_packet(r->table, p, err);
}

static int64_t
reach_of(const struct flow_keep_order *o)
{
	const struct pri_flow_limits *l = o->limits;
	int64_t idle = l->idle_tcp > l->idle ? l->idle_tcp : l->idle;

	idle = l->idle_closed > idle ? l->idle_closed : idle;
	return l->active + idle + CATCH_UP * o->every + 2 * PRI_FLOW_SLICE_NS;
}

/* What the answer says of the window. */
static void
account(const struct sink *sink, struct flow_window *w)
{
	const Packrack__Completeness *c = sink->end->completeness;

	w->complete = report_status(sink) == CLI_OK;
	if (c)
		w->missing = c->missing_packets + c->pending_packets + c->dropped_packets;
	if (!w->complete)
		report_text(stderr, sink);
}

/* Flows that end in since..until - 1. last: all end. CLI_OK, CLI_PARTIAL, or CLI_FAILED. */
static int
take_window(struct run *r, int64_t since, int64_t until, bool last, struct pr_error *err)
{
	const struct pri_flow_figures *figures = pri_flow_table_figures(r->table);
	const struct pri_flow_figures before = *figures;
	struct query_args packets = *r->order->query, losses;
	struct flow_window w = {.reach = reach_of(r->order)};
	int status = CLI_OK;
	struct sink sink;

	packets.since = since;
	packets.until = until == PR_TIME_MAX ? until : until - 1;
	packets.follow = false;
	packets.quiet |= r->order->query->follow;
	losses = packets;
	if (since != PR_TIME_MIN) /* of records that began before */
		losses.since = since - w.reach;
	r->first = PR_TIME_MAX;
	flow_losses_free(&r->losses);
	r->losses = (struct flow_losses){0};
	if (!packets.files.count)
		status = flow_losses_ask(&r->losses, &losses, err);
	sink_init(&sink, &packets);
	sink.take = on_packet;
	sink.take_arg = r;
	if (status == CLI_OK)
		status = ask_query(&sink, err);
	progress_end(&sink.progress);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	if (status == CLI_OK && (sink.end->cancelled || stopped)) {
		stopped = 1;
		sink_close(&sink);
		return CLI_OK;
	}
	if (status == CLI_OK && !last && until > r->now)
		r->now = until;
	if (status == CLI_OK &&
		pri_flow_table_advance(r->table, last ? PRI_FLOW_NEVER : until, err) < 0)
		status = CLI_FAILED;
	if (status == CLI_OK) {
		account(&sink, &w);
		w.since = since == PR_TIME_MIN ? r->first : since;
		w.until = until == PR_TIME_MAX ? r->now + 1 : until;
		w.packets = figures->packets - before.packets;
		w.not_ip = figures->not_ip - before.not_ip;
		if (w.since < w.until &&
			flow_keeper_commit(r->keeper, &w, last ? NULL : r->table, err) < 0)
			status = CLI_FAILED;
		else if (!w.complete)
			status = CLI_PARTIAL;
	}
	sink_close(&sink);
	return status;
}

/* One range, whose flows end with it. */
static int
keep_range(struct run *r, struct pr_error *err)
{
	const struct query_args *q = r->order->query;
	char since[PR_TIME_TEXT], until[PR_TIME_TEXT];
	struct flow_window other;
	int status;

	if (!q->files.count && !q->volumes.count &&
		flow_keeper_has(r->keeper, q->since, q->until, &other)) {
		pr_error_set(err,
			"%s: flows of %s to %s are kept already: give another --since or "
			"--until",
			r->order->volume, pr_time_format(other.since, since, sizeof(since)),
			pr_time_format(other.until, until, sizeof(until)));
		return CLI_FAILED;
	}
	status = take_window(
		r, q->since, q->until == PR_TIME_MAX ? q->until : q->until + 1, true, err);
	if (status == CLI_OK || status == CLI_PARTIAL)
		fprintf(stderr, "%" PRIu64 " flow%s kept\n", r->stored,
			pr_plural(r->stored));
	return stopped ? CLI_PARTIAL : status;
}

/* Waits until that time is over. False: stopped. */
static bool
await(int64_t time)
{
	while (!stopped && pr_now_real() < time)
		poll(NULL, 0, WAIT_MS);
	return !stopped;
}

static int64_t
whole_slice(int64_t time)
{
	return time - time % PRI_FLOW_SLICE_NS;
}

/* Window by window, until it is stopped. */
static int
keep_on(struct run *r, struct pr_error *err)
{
	const struct query_args *q = r->order->query;
	int64_t every = r->order->every, until = 0;
	int64_t at = whole_slice(q->since == PR_TIME_MIN ? pr_now_real() : q->since);
	struct flow_window last;
	int status = CLI_OK, rc;

	rc = flow_keeper_resume(r->keeper, r->table, &last, err);
	if (rc < 0)
		return CLI_FAILED;
	if (rc > 0)
		at = r->now = last.until;
	for (; !stopped && at <= q->until && until <= q->until; at = until) {
		until = at + every;
		if (pr_now_real() - at > 2 * CATCH_UP * every)
			until = at + CATCH_UP * every;
		if (until > q->until)
			until = whole_slice(q->until) + PRI_FLOW_SLICE_NS;
		if (!await(until))
			break;
		status = take_window(r, at, until, false, err);
		if (status == CLI_FAILED || status == CLI_USAGE)
			return status;
	}
	return CLI_OK;
}

int
flow_keep_run(const struct flow_keep_order *order, struct pr_error *err)
{
	struct run r = {.order = order, .now = PR_TIME_MIN};
	int status = CLI_FAILED;

	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	r.keeper = flow_keeper_open(order->volume, err);
	if (r.keeper)
		r.table = pri_flow_table_create(order->limits, on_ended, &r, err);
	if (r.table)
		status = order->query->follow ? keep_on(&r, err) : keep_range(&r, err);
	pri_flow_table_destroy(&r.table);
	flow_keeper_close(&r.keeper);
	flow_losses_free(&r.losses);
	return status;
}
