/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/timestamp_logs.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/clock.h"
#include "tests/unit/node_join.h"
#include "tests/unit/unit.h"

enum { LINKS = 2, SENT_MAX = 20000 };
#define KEEP (6 * PR_NS_PER_S)

static struct prd_nodes nodes;
static struct prd_logs logs;
static struct prd_node *node;
static int64_t now;

/* What went out, in order. */
static struct {
	enum pr_frame_type type;
	struct pr_gone gone;
	struct pr_tslog_header log;
	struct pr_entry first, last;
} sent[SENT_MAX];
static unsigned sent_count;

static void
on_send(void *arg, struct prd_node *to, enum pr_frame_type type, const struct pr_frame *f)
{
	struct pr_tslog_reader r;
	struct pr_entry e;

	(void)arg;
	ck_assert_ptr_eq(to, node);
	ck_assert_uint_lt(sent_count, SENT_MAX);
	sent[sent_count].type = type;
	if (type == PR_FRAME_GONE) {
		sent[sent_count++].gone = f->body.gone;
		return;
	}
	ck_assert_uint_le(f->body.raw.len, node->mtu - PR_FRAME_HEADER - PR_FRAME_TAG);
	ck_assert_int_eq(pr_tslog_open(&r, f->body.raw.data, f->body.raw.len), 0);
	sent[sent_count].log = r.header;
	for (unsigned i = 0; pr_tslog_next(&r, &e) == 1; i++) {
		if (i == 0)
			sent[sent_count].first = e;
		sent[sent_count].last = e;
	}
	sent_count++;
}

static void
set_up(void)
{
	struct pr_ann ann = {.name = "n", .buffer_size = 1 << 20};
	const uint8_t mac[PR_MAC_LEN] = {2, 0, 0, 0, 0, 1};
	struct pr_error err;

	now = PR_NS_PER_S;
	sent_count = 0;
	prd_nodes_init(&nodes, 1, 1, 1508);
	node = node_join(&nodes, mac, 7, &ann, now);
	ck_assert_int_eq(prd_logs_init(&logs, LINKS, 1 << 20, KEEP, &err), 0);
	logs.send = on_send;
	ck_assert_int_eq(prd_logs_admit(&logs, node, &err), 0);
}

static void
tear_down(void)
{
	prd_logs_forget(node);
	prd_logs_free(&logs);
	prd_nodes_free(&nodes);
}

static void
add(uint16_t link, uint64_t seq, int64_t time)
{
	struct pr_entry e = {.seq = seq,
		.ordinal = node->next_ordinal++,
		.time = time,
		.otime = time,
		.fingerprint = (uint32_t)seq};

	prd_logs_add(&logs, node, link, &e, now);
}

START_TEST(full_and_old)
{
	unsigned full;

	for (uint64_t seq = 1; seq <= 1000; seq++)
		add(0, seq, (int64_t)seq * 1000);
	full = sent_count;
	ck_assert_uint_gt(full, 3);
	for (unsigned i = 0; i < full; i++) {
		ck_assert_uint_eq(sent[i].log.number, i + 1);
		ck_assert_uint_eq(sent[i].log.flags, PR_TSLOG_INTERLEAVED);
		ck_assert_uint_eq(sent[i].first.seq, i ? sent[i - 1].last.seq + 1 : 1);
	}
	ck_assert_int_eq(prd_logs_oldest(&logs, node),
		(int64_t)(sent[full - 1].last.seq + 1) * 1000);
	prd_logs_flush(&logs, node, now - 1, now);
	ck_assert_uint_eq(sent_count, full);
	prd_logs_flush(&logs, node, now, now);
	ck_assert_uint_eq(sent_count, full + 1);
	ck_assert_uint_eq(sent[full].last.seq, 1000);
	ck_assert_int_eq(prd_logs_oldest(&logs, node), PR_TIME_MAX);
	prd_logs_flush(&logs, node, INT64_MAX, now);
	ck_assert_uint_eq(sent_count, full + 1); /* empty logs do not exist */
	ck_assert_uint_eq(node->logs[0].last_log, full + 1);
	ck_assert_uint_eq(node->logs[0].assigned, 1000);
}
END_TEST

/* Two links in turn, then what a node that missed some asks for. */
static void
many(unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		add((uint16_t)(i % LINKS), i / LINKS + 1, 1000 + i);
	prd_logs_flush(&logs, node, INT64_MAX, now);
}

static void
ask(uint16_t link, uint64_t first, uint64_t last)
{
	struct pr_resend resend = {link, first, last};

	sent_count = 0;
	prd_logs_resend(&logs, node, &resend, now);
}

/* The last link has the canary's number in what is sent, and in what is asked for again. */
START_TEST(canary)
{
	struct pr_error err;

	logs.numbers[LINKS - 1] = PR_LINK_CANARY;
	ck_assert_int_eq(prd_logs_admit(&logs, node, &err), 0);
	many(2000);
	ck_assert_uint_eq(sent[sent_count - 1].log.link, PR_LINK_CANARY);
	ask(LINKS, 1, 1);
	ck_assert_uint_eq(sent_count, 0); /* no such link */
	ask(PR_LINK_CANARY, 1, 1);
	ck_assert_uint_eq(sent_count, 1);
	ck_assert_uint_eq(sent[0].log.link, PR_LINK_CANARY);
	now += KEEP;
	ask(PR_LINK_CANARY, 1, 1);
	ck_assert_uint_eq(sent_count, 1);
	ck_assert_int_eq(sent[0].type, PR_FRAME_GONE);
	ck_assert_uint_eq(sent[0].gone.link, PR_LINK_CANARY);
	now -= KEEP;
	logs.numbers[LINKS - 1] = LINKS - 1;
}
END_TEST

START_TEST(resend)
{
	uint64_t last;

	many(6000);
	last = node->logs[1].last_log;
	ck_assert_uint_gt(last, 12);
	ask(1, 3, 7);
	ck_assert_uint_eq(sent_count, 5);
	for (unsigned i = 0; i < 5; i++) {
		ck_assert_int_eq(sent[i].type, PR_FRAME_TSLOG);
		ck_assert_uint_eq(sent[i].log.number, 3 + i);
		ck_assert_uint_eq(sent[i].log.link, 1);
	}
	ask(1, last, last + 1000);
	ck_assert_uint_eq(sent_count, 1);
	ask(1, last + 1, last + 1000);
	ck_assert_uint_eq(sent_count, 0);
	ask(1, 0, 5);
	ck_assert_uint_eq(sent_count, 0);
	ask(9, 1, 1);
	ck_assert_uint_eq(sent_count, 0);
	ask(1, 8, 3);
	ck_assert_uint_eq(sent_count, 0);
}
END_TEST

START_TEST(gone_by_age)
{
	struct pr_gone *gone = &sent[0].gone;

	many(2000);
	now += KEEP;
	ask(0, 2, 3);
	ck_assert_uint_eq(sent_count, 1);
	ck_assert_int_eq(sent[0].type, PR_FRAME_GONE);
	ck_assert_uint_eq(gone->first_log, 2);
	ck_assert_uint_eq(gone->last_log, 3);
	ck_assert_uint_gt(gone->first_seq, 1);
	ck_assert_uint_eq(gone->count, gone->last_seq - gone->first_seq + 1);
	ck_assert_int_eq(gone->first_time, 1000 + ((int64_t)gone->first_seq - 1) * LINKS);
	ck_assert_int_eq(gone->last_time, 1000 + ((int64_t)gone->last_seq - 1) * LINKS);
}
END_TEST

/* More than the memory holds: the newest are there, older ones are gone with their seqs, the oldest
 * are forgotten. */
START_TEST(gone_by_room)
{
	uint64_t last, kept = 0;

	many(400000);
	last = node->logs[0].last_log;
	ck_assert_uint_gt(last, PRD_GONE_LOGS_MAX + 300);
	ask(0, last - 300, last);
	ck_assert_int_eq(sent[0].type, PR_FRAME_TSLOG);
	ck_assert_uint_eq(
		sent_count, PRD_RESEND_MAX); /* the older ones first, the rest when asked */
	ck_assert_uint_eq(sent[0].log.number, last - 300);
	node->resend_budget = PRD_RESEND_PER_S;
	ask(0, 1, last);
	ck_assert_int_eq(sent[0].type, PR_FRAME_GONE);
	ck_assert_uint_eq(sent[0].gone.first_log, 1);
	ck_assert_uint_eq(sent[0].gone.count, 0);
	kept = sent[0].gone.last_log + 1;
	ck_assert_uint_eq(sent[1].log.number, kept);
	ask(0, kept - 10, kept - 1);
	ck_assert_uint_eq(sent_count, 1);
	ck_assert_uint_gt(sent[0].gone.count, 10);
	ck_assert_uint_le(logs.kept, 1 << 20);
}
END_TEST

/* Logs leave by age, and their memory is used again: the rest of it is never touched. */
START_TEST(memory_by_need)
{
	size_t touched = 1 << 20;
	uint64_t last;

	memset(logs.mem, 0xa5, 1 << 20);
	for (unsigned round = 0; round < 300; round++) {
		many(2000);
		now += KEEP / 2;
	}
	last = node->logs[0].last_log;
	ask(0, last, last);
	ck_assert_uint_eq(sent[0].log.number, last);
	ck_assert_uint_gt(logs.kept, 0);
	while (touched > 0 && logs.mem[touched - 1] == 0xa5)
		touched--;
	ck_assert_uint_le(touched, 6 * logs.kept);
}
END_TEST

START_TEST(new_life)
{
	struct pr_error err;

	many(2000);
	node->nonce = 8;
	ck_assert_int_eq(prd_logs_admit(&logs, node, &err), 0);
	ask(0, 1, 5); /* nothing was sent to this nonce */
	ck_assert_uint_eq(sent_count, 0);
	node->next_ordinal = 0;
	many(2000);
	ask(0, 1, 2);
	ck_assert_uint_eq(sent_count, 2);
	ck_assert_uint_eq(sent[0].log.number, 1);
	ck_assert_uint_eq(sent[0].log.first_ordinal, 0);
}
END_TEST

START_TEST(rate)
{
	unsigned answers = 0;

	many(400000);
	for (unsigned i = 0; i < 1000; i++) {
		ask(0, node->logs[0].last_log - 100, node->logs[0].last_log);
		answers += sent_count;
	}
	ck_assert_uint_le(answers, PRD_RESEND_PER_S + 101);
	ask(0, 1, 1);
	ck_assert_uint_eq(sent_count, 0);
	prd_logs_refill(node, PR_NS_PER_S / 10);
	ask(0, node->logs[0].last_log, node->logs[0].last_log);
	ck_assert_uint_eq(sent_count, 1);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, full_and_old);
	tcase_add_test(tc, canary);
	tcase_add_test(tc, resend);
	tcase_add_test(tc, gone_by_age);
	tcase_add_test(tc, gone_by_room);
	tcase_add_test(tc, memory_by_need);
	tcase_add_test(tc, new_life);
	tcase_add_test(tc, rate);
}

int
main(void)
{
	return unit_run("dispatcher logs", fill);
}
