/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node tells of its summaries, from a volume that is overwritten and whose programs end at any moment: a merger
 * that knows it never leaves the node out of a query for the time of a segment that the node has.
 */
#include "indexer/summary_announcer.h"
#include "logger/streamfs/internal.h"
#include "merger/route.h"
#include "tests/unit/feed_volume.h"
#include "tests/unit/loop_wait.h"

#define NEVER INT64_C(1000000000000000000) /* a time of which no packet is */

static struct pr_loop *loop;
static struct pr_rpc *server, *client;
static struct prm_ownership alone = {.count = 1};
static struct prm_summaries *known;
static unsigned reports;
static char place[64];

/* The indexer. */
static struct pri_volume *view;
static struct pri_index_follower *feed;
static struct pri_summary_announcer *offer;
static struct pri_announced line;

static void
on_report(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	(void)arg;
	(void)peer;
	ck_assert_int_eq(
		prm_summaries_coverage(known, "n", env->coverage, pr_now_mono(), &err), 0);
	reports++;
}

static void
begin_all(void)
{
	char endpoint[96];

	begin();
	snprintf(place, sizeof(place), "/tmp/packrack-told-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(place));
	snprintf(endpoint, sizeof(endpoint), "ipc://%s/s.sock", place);
	loop = pr_loop_create(NULL, &err);
	server = pr_rpc_listen(loop, endpoint, NULL, on_report, NULL, &err);
	client = pr_rpc_connect(loop, endpoint, NULL, on_report, NULL, &err);
	known = prm_summaries_create(0, &alone, &err);
	ck_assert(server && client && known);
}

static void
end_indexer(void)
{
	pri_announcer_destroy(&offer);
	pri_follower_destroy(&feed);
	pri_volume_close(&view);
}

static void
end_all(void)
{
	char command[80];

	end_indexer();
	if (append)
		close_writer();
	prm_summaries_destroy(&known);
	pr_rpc_destroy(&client);
	pr_rpc_destroy(&server);
	pr_loop_destroy(&loop);
	snprintf(command, sizeof(command), "rm -rf %s", place);
	ck_assert_int_eq(system(command), 0);
	end();
}

/* As the logger takes index records: not at once, and none of segments that it has lost. */
static int
store(void *arg, const struct pr_index_record *r)
{
	(void)arg;
	return append && pick(8) ? prl_writer_index(append, r, &err) : 1;
}

static void
refresh(void)
{
	if (!view)
		view = open_view();
	ck_assert_int_eq(pri_volume_refresh(view, false, INT64_MAX, &err), 0);
}

/* One step of the indexer; what it tells comes to the merger. */
static void
step_indexer(void)
{
	unsigned before = reports;

	if (!feed) {
		feed = pri_follower_create(view, NULL, store, NULL, &err);
		offer = pri_announcer_create(view, feed, NULL);
		line = (struct pri_announced){0};
	}
	for (int i = 0; i < 100; i++)
		ck_assert_int_ge(pri_follower_step(feed, INT64_MAX, &err), 0);
	if (pick(20) == 0)
		pri_follower_finish(feed, false, &err);
	pri_announcer_tick(offer);
	line.said = 0;
	pri_announcer_tell(offer, &line, client);
	ck_assert_uint_gt(loop_until(loop, &reports, before + 1, 10), before);
}

/* Would the merger leave the node out of a query for this time? */
static bool
left_out(int64_t since, int64_t until)
{
	Packrack__Query q = PACKRACK__QUERY__INIT;
	char why[PRM_ROUTE_WHY_MAX];
	struct prm_route route;
	bool out;

	q.since = since;
	q.until = until;
	ck_assert_int_eq(prm_route_begin(&route, known, &q, pr_now_mono()), 0);
	out = prm_route_decide(&route, "n", why);
	prm_route_end(&route);
	return out;
}

static void
ask_for_all(int step)
{
	struct pri_volume *now = open_view();
	const struct pri_catalog *c = &now->catalog;

	for (size_t i = 0; i < c->series_count; i++)
		for (size_t j = 0; j < c->series[i]->run_count; j++) {
			const struct pri_sorted_run *run = c->series[i]->runs[j];

			for (size_t k = run->head; k < run->head + run->count; k++)
				if (left_out(
					    run->items[k].min_time, run->items[k].max_time))
					ck_abort_msg(
						"step %d: left out, and has segment %llu",
						step,
						(unsigned long long)run->items[k].sequence);
		}
	pri_volume_close(&now);
}

/* Summaries are overwritten before the last of their segments: an indexer that begins then cannot read them. */
START_TEST(overwritten_summaries)
{
	unsigned left = 0;

	for (int i = 0; i < 40; i++) {
		put_packets(i < 15 ? 8000 : 2000, 1);
		refresh();
		step_indexer();
		if (i < 15)
			continue;
		end_indexer();
		refresh();
		step_indexer();
		ask_for_all(i);
		left += left_out(NEVER, NEVER + 1);
	}
	ck_assert_uint_gt(left, 10); /* of queries for another time */
}
END_TEST

START_TEST(whoever_is_killed)
{
	srandom((unsigned)_i + 1);
	for (int i = 0; i < 300; i++) {
		unsigned what = pick(100);

		if (what < 40 && append) {
			put_packets(pick(2000), 1);
		} else if (what < 45 && append) {
			prl_writer_flush(append, &err);
		} else if (what < 48 && append) {
			prl_writer_destroy(&append);
			sfs_dispose(&sfs, false); /* as a kill: nothing is flushed */
		} else if (what < 54 && !append) {
			open_writer();
		} else if (what < 56) {
			end_indexer();
		} else if (what < 70) {
			refresh();
		} else if (view) {
			step_indexer();
			ask_for_all(i);
		}
	}
}
END_TEST

static void
tests(TCase *tc)
{
	tcase_add_checked_fixture(tc, begin_all, end_all);
	tcase_set_timeout(tc, 120); /* the machine may be busy */
	tcase_add_test(tc, overwritten_summaries);
	tcase_add_loop_test(tc, whoever_is_killed, 0, 5);
}

int
main(void)
{
	return unit_run("announced", tests);
}
