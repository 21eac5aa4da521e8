/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/summary_announcer.h"
#include "indexer/index/summarize.h"
#include "merger/route.h"
#include "tests/unit/unit.h"

/*
 * A link's packets spread over nodes by flow, some of them lost, and all nodes left out: what their
 * summaries tell of a time range is whole, wherever it cuts them, and hides no loss.
 */
#define NODES 6
static const char *const names[NODES] = {"a", "b", "c", "d", "e", "f"};
#define PACKETS 30000
#define LOST NODES /* the node of what nobody has */
#define STEP INT64_C(1000000) /* ns between packets */
#define SEGMENT 40 /* packets of one */
#define SUMMARY 8 /* segments of one */
#define SUMMARIES_MAX (PACKETS / SEGMENT)
#define EPOCH 9
#define HOUR INT64_C(3600000000000)

static struct pr_error err;
static struct prm_summaries *summaries;
static uint8_t owner[PACKETS + 1]; /* by seq, from 1 */
static struct pri_summarizer summarizer;

/* One node's. */
static struct {
	struct pr_summary_span spans[SUMMARIES_MAX];
	uint8_t *bodies[SUMMARIES_MAX];
	size_t lens[SUMMARIES_MAX], count;
} made;

static int64_t
time_of(uint64_t seq)
{
	return (int64_t)seq * STEP;
}

/* Few packets are of the last node: its stretches have wide holes, and end within segments. */
static void
spread(bool losses)
{
	for (unsigned i = 1; i <= PACKETS; i++) {
		owner[i] = (uint8_t)(random() % (NODES - 1));
		if (random() % 4000 == 0)
			owner[i] = NODES - 1;
		if (losses && random() % 20 == 0)
			owner[i] = LOST;
	}
}

static void
end_summary(void)
{
	size_t size;

	if (!summarizer.span.segments)
		return;
	made.spans[made.count] = summarizer.span;
	ck_assert_int_eq(pri_summarizer_size(&summarizer, &size), 0);
	made.bodies[made.count] = malloc(size);
	made.lens[made.count] =
		pri_summarizer_write(&summarizer, size, made.bodies[made.count]);
	made.count++;
}

static void
end_segment(uint64_t number, uint64_t first, uint64_t *seqs, size_t count)
{
	const struct pri_segment_keys sketch = {.seqs = seqs, .seq_count = count};
	const struct pr_segment_header h = {.epoch = EPOCH,
		.link = 1,
		.first_seq = first,
		.count = (uint32_t)count,
		.first_otime = time_of(first),
		.last_otime = time_of(first + seqs[count - 1]),
		.min_time = time_of(first),
		.max_time = time_of(first + seqs[count - 1])};

	ck_assert_int_eq(pri_summarizer_segment(&summarizer, number, 1, &h, &sketch), 0);
	if (summarizer.span.segments == SUMMARY)
		end_summary();
}

static void
make_summaries(unsigned node)
{
	uint64_t seqs[SEGMENT], first = 0, number = 1;
	size_t count = 0;

	for (unsigned seq = 1; seq <= PACKETS; seq++) {
		if (owner[seq] != node)
			continue;
		first = count ? first : seq;
		seqs[count++] = seq - first;
		if (count == SEGMENT) {
			end_segment(number++, first, seqs, count);
			count = 0;
		}
	}
	if (count)
		end_segment(number, first, seqs, count);
	end_summary();
}

static void
send_bodies(const char *name, uint64_t boot)
{
	uint64_t wanted[PRM_SUMMARIES_WANT_MAX], as_asked;
	size_t count;

	while ((count = prm_summaries_want(summaries, name, HOUR, &as_asked, wanted)) > 0)
		for (size_t i = 0; i < count; i++) {
			Packrack__Summary body = PACKRACK__SUMMARY__INIT;

			body.boot = boot;
			body.number = wanted[i];
			body.body.data = made.bodies[wanted[i]];
			body.body.len = made.lens[wanted[i]];
			prm_summaries_body(summaries, name, &body);
		}
}

/* All that the node has, and that the link has ended. */
static void
tell(const char *name, uint64_t boot)
{
	static Packrack__SummaryInfo infos[SUMMARIES_MAX], *list[SUMMARIES_MAX];
	Packrack__Coverage said = PACKRACK__COVERAGE__INIT;
	Packrack__Ledger ledger = PACKRACK__LEDGER__INIT, *ledgers[] = {&ledger};

	ledger.epoch = EPOCH;
	ledger.link = 1;
	ledger.last_seq = PACKETS;
	ledger.last_otime = time_of(PACKETS);
	ledger.said_until = INT64_MAX;
	ledger.ended = true;
	said.boot = boot;
	said.settled_until = INT64_MAX;
	said.evicted_until = said.ledgers_until = INT64_MIN;
	said.ledgers = ledgers;
	said.n_ledgers = 1;
	for (size_t i = 0; i < made.count; i++) {
		pri_announcer_info(&infos[i], &made.spans[i]);
		infos[i].number = i;
		list[i] = &infos[i];
	}
	said.summaries = list;
	said.n_summaries = said.total = made.count;
	ck_assert_int_eq(prm_summaries_coverage(summaries, name, &said, HOUR, &err), 0);
	send_bodies(name, boot);
}

static void
begin(bool losses)
{
	static const struct prm_ownership duty = {.count = 1};

	srandom(7);
	spread(losses);
	summaries = prm_summaries_create(0, &duty, &err);
	for (unsigned i = 0; i < NODES; i++) {
		make_summaries(i);
		tell(names[i], 100 + i);
		while (made.count > 0)
			free(made.bodies[--made.count]);
	}
	pri_summarizer_free(&summarizer);
}

/* What all nodes, left out, tell of the range. */
static Packrack__Completeness *
answer(int64_t since, int64_t until)
{
	const struct prm_completeness_options o = {
		.since = since, .until = until, .now = HOUR};
	struct prm_completeness *c = prm_completeness_create(&o, &err);
	Packrack__Query q = PACKRACK__QUERY__INIT;
	Packrack__Completeness *out;
	struct prm_route route;

	q.since = since;
	q.until = until;
	ck_assert_int_eq(prm_route_begin(&route, summaries, &q, HOUR), 0);
	for (size_t i = 0; i < NODES; i++)
		ck_assert_int_eq(prm_route_tell(&route, names[i], c,
					 prm_completeness_node(c, names[i], &err), &err),
			0);
	prm_route_end(&route);
	ck_assert_int_eq(prm_completeness_finish(c, &out, &err), 0);
	prm_completeness_destroy(&c);
	return out;
}

static bool
says_missing(const Packrack__Completeness *c, uint64_t seq)
{
	for (size_t i = 0; i < c->n_missing; i++) {
		const Packrack__Loss *l = c->missing[i];

		if (seq >= l->first_seq && seq <= l->last_seq &&
			(!l->step || (seq - l->first_seq) % l->step < l->count / l->ranges))
			return true;
	}
	return false;
}

static void
check_range(int64_t since, int64_t until, bool losses)
{
	Packrack__Completeness *out = answer(since, until);
	uint64_t held = 0;

	for (uint64_t seq = 1; seq <= PACKETS; seq++)
		if (time_of(seq) >= since && time_of(seq) <= until) {
			held += owner[seq] != LOST;
			unit_must(owner[seq] != LOST || says_missing(out, seq));
		}
	ck_assert_msg(losses || out->complete, "%llu missing that are there",
		(unsigned long long)out->missing_packets);
	ck_assert_uint_ge(out->held_packets, held);
	ck_assert(out->held_at_most || out->held_packets == held);
	packrack__completeness__free_unpacked(out, NULL);
}

static void
check_ranges(bool losses)
{
	const int64_t length[] = {3 * STEP, 100 * STEP, 3000 * STEP, time_of(PACKETS)};

	begin(losses);
	for (unsigned i = 0; i < 120; i++) {
		int64_t since = random() % time_of(PACKETS);

		check_range(since, since + length[i % 4], losses);
	}
	check_range(0, time_of(PACKETS), losses);
	prm_summaries_destroy(&summaries);
}

START_TEST(a_range_that_cuts_summaries_is_whole)
{
	check_ranges(false);
}
END_TEST

START_TEST(and_hides_no_loss)
{
	check_ranges(true);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, a_range_that_cuts_summaries_is_whole);
	tcase_add_test(tc, and_hides_no_loss);
}

int
main(void)
{
	return unit_run("route_spread", fill);
}
