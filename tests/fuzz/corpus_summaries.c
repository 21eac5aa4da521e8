/* SPDX-License-Identifier: Apache-2.0 */
/* First inputs of fuzz_summary: envelopes, each behind its length. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/summary_announcer.h"
#include "proto/rpc/message.h"
#include "proto/base/cursor.h"
#include "proto/wire/summary.h"
#include "tests/fuzz/corpus.h"

static uint8_t talk[16384];
static size_t talk_len;

static void
say(Packrack__Envelope *env)
{
	struct pr_error err;
	uint8_t *buf;
	size_t len;

	if (pr_message_pack(env, &buf, &len, &err) < 0)
		corpus_die(err.text);
	pr_put_le16(talk + talk_len, (uint16_t)len);
	memcpy(talk + talk_len + 2, buf, len);
	talk_len += 2 + len;
	free(buf);
}

/* Two summaries, the second with seqs in bits; number 2 is not sent, and something has none. */
static void
say_coverage(struct pr_summary_span spans[3])
{
	Packrack__SummaryInfo infos[4], *list[] = {&infos[0], &infos[1], &infos[2]};
	Packrack__SummaryInfo *open[] = {&infos[3]};
	Packrack__Ledger ledger = PACKRACK__LEDGER__INIT, *ledgers[] = {&ledger};
	Packrack__Coverage c = PACKRACK__COVERAGE__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	for (unsigned i = 0; i < 4; i++) {
		pri_announcer_info(&infos[i], &spans[i < 3 ? i : 2]);
		infos[i].number = i;
	}
	ledger.epoch = spans[0].epoch;
	ledger.link = spans[0].link;
	ledger.last_seq = 300;
	ledger.last_otime = 3000;
	c.boot = 5;
	c.cluster = TEXT("rack");
	c.settled_until = INT64_MAX;
	c.evicted_until = c.ledgers_until = INT64_MIN;
	c.ledgers = ledgers;
	c.n_ledgers = 1;
	c.summaries = list;
	c.n_summaries = c.total = 3;
	c.open = open;
	c.n_open = 1;
	env.body_case = PACKRACK__ENVELOPE__BODY_COVERAGE;
	env.coverage = &c;
	say(&env);
}

static void
say_summary(unsigned number, const struct pr_summary_span *span)
{
	static const uint8_t bits[] = {0x55, 0xff, 0x0f, 0x80};
	const struct pr_summary_run runs[] = {{.first = span->first_seq,
						      .last = span->first_seq + 9,
						      .first_otime = span->first_otime,
						      .last_otime = span->first_otime + 90},
		{.first = span->first_seq + 20,
			.last = span->first_seq + 51,
			.first_otime = span->first_otime + 200,
			.last_otime = span->last_otime,
			.bits = bits,
			.bits_len = sizeof bits}};
	const uint64_t hashes[] = {1, 2, 3};
	Packrack__Summary s = PACKRACK__SUMMARY__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	uint8_t body[4096];

	s.boot = 5;
	s.number = number;
	s.body.data = body;
	s.body.len = pr_summary_write(
		span, hashes, COUNT(hashes), runs, COUNT(runs), 1000, body);
	env.body_case = PACKRACK__ENVELOPE__BODY_SUMMARY;
	env.summary = &s;
	say(&env);
}

/* key 1 or key 9, and 2 */
static void
say_query(int64_t since, int64_t until, uint64_t hash)
{
	uint64_t hashes[] = {hash, 9, 2};
	uint32_t op[] = {2, 2, 4, 2, 3}, left[] = {0, 1, 0, 2, 2},
		 right[] = {0, 0, 1, 0, 3};
	Packrack__Lookups lookups = PACKRACK__LOOKUPS__INIT, *list[] = {&lookups};
	Packrack__Program program = PACKRACK__PROGRAM__INIT, *programs[] = {&program};
	Packrack__Query q = PACKRACK__QUERY__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	program.linktype = 1;
	lookups.n_op = lookups.n_left = lookups.n_right = COUNT(op);
	lookups.op = op;
	lookups.left = left;
	lookups.right = right;
	lookups.hash = hashes;
	lookups.n_hash = COUNT(hashes);
	q.since = since;
	q.until = until;
	q.programs = programs;
	q.n_programs = 1;
	q.lookups = list;
	q.n_lookups = 1;
	q.count_only = hash == 77;
	env.body_case = PACKRACK__ENVELOPE__BODY_QUERY;
	env.query = &q;
	say(&env);
}

void
corpus_summaries(void)
{
	struct pr_summary_span spans[3];

	for (unsigned i = 0; i < 3; i++)
		spans[i] = (struct pr_summary_span){.first_sequence = 1 + i,
			.segments = 1,
			.link = 1,
			.epoch = 9,
			.first_seq = 1 + 100 * i,
			.last_seq = 100 + 100 * i,
			.packets = 14,
			.first_otime = 1000 * i,
			.last_otime = 1000 * i + 900,
			.min_time = 1000 * i,
			.max_time = 1000 * i + 900};
	for (unsigned i = 0; i < 16; i++) {
		const int64_t since[] = {0, 100, 1300, 2000},
			      until[] = {1999, 1050, 1350, 4000};
		char name[16];

		talk_len = 0;
		say_coverage(spans);
		say_summary(0, &spans[0]);
		say_summary(1, &spans[1]);
		say_query(since[i % 4], until[i % 4], 1);
		say_coverage(spans);
		say_query(since[i % 4], until[i % 4], 77);
		while (talk_len % 4 != i / 4) /* the length says more: fuzz_summary.c */
			talk[talk_len++] = 0;
		snprintf(name, sizeof name, "talk-%u", i);
		corpus_put("summary", name, talk, talk_len, END);
	}
}
