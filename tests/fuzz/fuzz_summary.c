/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nodes tell a merger of themselves, their summaries, and queries with look-ups of clients.
 * Covers proto/wire/summary.c merger/summaries.c
 * merger/route.c merger/clusters.c
 * Options -max_len=8192
 *
 * Envelopes, each behind its length in two bytes. A summary's checksum is made to fit. The input's length says
 * whether there is another merger, and room for all summaries. Two reports of a node are 2 s apart.
 */
#include <string.h>
#include <xxhash.h>

#include "merger/route.h"
#include "proto/rpc/message.h"
#include "proto/base/clock.h"
#include "proto/base/cursor.h"
#include "tests/fuzz/fuzz.h"

#define CHECK_AT 104 /* in a summary's head */
#define NOW INT64_C(1000000000000)
enum { MEMORY = 64 * 1024, MEMORY_SMALL = 256 };

static const struct prm_ownership alone = {.count = 1},
				  two = {.count = 2, .mergers = {{"a", true}, {"b", true}}};
static int64_t now;

static void
seal(ProtobufCBinaryData *body)
{
	uint64_t seed;

	if (body->len < PR_SUMMARY_HEADER)
		return;
	seed = XXH3_64bits(body->data, CHECK_AT);
	pr_put_le64(
		body->data + CHECK_AT, XXH3_64bits_withSeed(body->data + PR_SUMMARY_HEADER,
					       body->len - PR_SUMMARY_HEADER, seed));
}

#define RUNS 64

/* What was read, written again, is read as the same. */
static void
write_again(
	const struct pr_summary_span *span, const struct pr_summary_run *runs, size_t count)
{
	const uint64_t hashes[] = {span->first_seq, span->epoch};
	size_t room = pr_summary_size(2, runs, count), at = 0, len;
	uint8_t *body = malloc(room);
	struct pr_summary_walk walk;
	struct pr_summary_run run;
	struct pr_summary s;

	MUST(body);
	len = pr_summary_write(span, hashes, 2, runs, count, room, body);
	MUST(len <= room && pr_summary_open(&s, body, len, NULL) == 0 &&
		!(s.flags & PR_SUMMARY_NO_RUNS));
	MUST(pr_summary_has(s.bits, s.log2, hashes[0]) &&
		pr_summary_has(s.bits, s.log2, hashes[1]));
	pr_summary_walk_begin(&walk, &s);
	for (; pr_summary_walk_next(&walk, &run); at++)
		MUST(at < count && run.first == runs[at].first &&
			run.last == runs[at].last &&
			run.first_otime == runs[at].first_otime &&
			run.last_otime == runs[at].last_otime &&
			run.bits_len == runs[at].bits_len &&
			(!run.bits || !memcmp(run.bits, runs[at].bits, run.bits_len)));
	MUST(at == count);
	free(body);
}

static bool
same(const struct pr_summary_span *a, const struct pr_summary_span *b)
{
	return a->first_sequence == b->first_sequence && a->segments == b->segments &&
	       a->link == b->link && a->epoch == b->epoch && a->first_seq == b->first_seq &&
	       a->last_seq == b->last_seq && a->packets == b->packets &&
	       a->first_otime == b->first_otime && a->last_otime == b->last_otime &&
	       a->min_time == b->min_time && a->max_time == b->max_time;
}

/* Of two summaries: it covers both. */
static void
unite(const Packrack__Summary *m, const struct pr_summary_span *span)
{
	struct pr_summary_span peeked, both = {0};

	MUST(pr_summary_peek(&peeked, m->body.data, m->body.len, NULL) == 0);
	MUST(same(&peeked, span));
	pr_summary_span_unite(&both, span);
	MUST(span->segments == 0 || same(&both, span));
	peeked.first_seq = m->number;
	peeked.min_time = (int64_t)m->boot;
	pr_summary_span_unite(&both, &peeked);
	if (span->segments == 0 || span->segments > UINT32_MAX / 2)
		return;
	MUST(both.first_sequence == span->first_sequence &&
		both.segments == span->segments);
	MUST(both.first_seq <= m->number && both.first_seq <= span->first_seq &&
		both.last_seq == span->last_seq);
	MUST(both.min_time <= peeked.min_time && both.min_time <= span->min_time &&
		both.max_time == span->max_time);
}

/* A node tells of what is in the order of its numbers; what it sends was asked for. */
static void
walk(const Packrack__Summary *m)
{
	struct pr_summary_walk walk;
	struct pr_summary_run run, runs[RUNS];
	struct pr_summary s;
	size_t count = 0;

	if (pr_summary_open(&s, m->body.data, m->body.len, NULL) < 0)
		return;
	pr_summary_has(s.bits, s.log2, m->number * 0x9e3779b97f4a7c15u);
	pr_summary_walk_begin(&walk, &s);
	while (pr_summary_walk_next(&walk, &run)) {
		MUST(run.first >= s.span.first_seq && run.first <= run.last &&
			run.last <= s.span.last_seq);
		MUST(run.first_otime <= run.last_otime);
		MUST(!run.bits || run.bits_len == (run.last - run.first) / 8 + 1);
		if (count < RUNS)
			runs[count++] = run;
	}
	write_again(&s.span, runs, count);
	unite(m, &s.span);
}

static void
tell(struct prm_route *route, const char *node)
{
	const struct prm_completeness_options o = {
		.since = route->query->since, .until = route->query->until, .now = now};
	struct prm_completeness *c = prm_completeness_create(&o, NULL);
	Packrack__Completeness *out;
	struct pr_error err = {""};
	int index = prm_completeness_node(c, node, NULL);

	MUST(index == 0);
	if (prm_route_tell(route, node, c, index, &err) < 0)
		MUST(err.text[0]);
	if (prm_completeness_finish(c, &out, NULL) == 0)
		packrack__completeness__free_unpacked(out, NULL);
	prm_completeness_destroy(&c);
}

/* As if another merger had each of them, and said so. */
static void
lacks(void *arg, int64_t time, uint64_t boot, uint64_t number)
{
	(void)time;
	prm_exclusions_add(arg, boot, number);
}

static uint64_t
boot_of(const struct prm_summaries *s)
{
	const struct prm_node_summaries *c = prm_summaries_find(s, "n");

	return c ? c->coverage->boot : 0;
}

static void
ask(const struct prm_summaries *s, const Packrack__Query *query)
{
	char why[PRM_ROUTE_WHY_MAX];
	struct prm_exclusions exclusions = {0};
	struct prm_route route;

	if (query->since > query->until)
		return;
	MUST(prm_route_begin(&route, s, query, now) == 0);
	prm_route_lacks(&route, "n", 100, lacks, &exclusions);
	for (uint64_t number = 0; number < 3; number++)
		prm_route_excludes(&route, boot_of(s), number);
	route.exclusions = query->count_only ? &exclusions : NULL;
	if (prm_route_decide(&route, "n", why))
		tell(&route, "n");
	MUST(why[0] && strlen(why) < sizeof why);
	MUST(route.asked + route.left_out == 1);
	MUST(route.lookups.steps <= PRM_LOOKUPS_STEPS_MAX);
	prm_route_end(&route);
	prm_exclusions_free(&exclusions);
}

static void
take(struct prm_summaries *s, Packrack__Envelope *env)
{
	uint64_t boot, numbers[PRM_SUMMARIES_WANT_MAX];

	if (env->body_case == PACKRACK__ENVELOPE__BODY_COVERAGE) {
		now += 2 * PR_NS_PER_S;
		prm_summaries_coverage(s, "n", env->coverage, now, NULL);
		prm_summaries_want(s, "n", now, &boot, numbers);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_SUMMARY) {
		seal(&env->summary->body);
		walk(env->summary);
		prm_summaries_body(s, "n", env->summary);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_QUERY) {
		ask(s, env->query);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint64_t memory = size % 4 < 2 ? MEMORY : MEMORY_SMALL;
	struct prm_summaries *s =
		prm_summaries_create(memory, size % 2 ? &two : &alone, NULL);
	struct prm_summaries_figures f;

	MUST(s);
	now = NOW;
	while (size >= 2) {
		size_t len = pr_get_le16(data);
		Packrack__Envelope *env;

		data += 2;
		size -= 2;
		len = len < size ? len : size;
		env = pr_message_unpack(data, len, NULL);
		if (env)
			take(s, env);
		pr_message_free(&env);
		data += len;
		size -= len;
	}
	prm_summaries_figures(s, &f);
	MUST(f.bytes <= memory && f.bodies <= f.listed);
	prm_summaries_forget(s, "n");
	prm_summaries_figures(s, &f);
	MUST(f.bytes == 0 && f.bodies == 0 && f.listed == 0 && f.cluster_bytes == 0);
	prm_summaries_destroy(&s);
	return 0;
}
