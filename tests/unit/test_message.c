/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"
#include "proto/rpc/message.h"
#include "tests/unit/unit.h"

static struct pr_error err;

/* A batch: one stretch of seqs 5..14 with bits, one edge, a frontier; id 300. */
static const uint8_t golden[] = {
	0x08, 0xac, 0x02, /* id 300 */
	0x32, 0x26, /* batch, 38 bytes */
	0x0a, 0x03, 'a', 'b', 'c', /* packets */
	0x12, 0x10, /* held, 16 bytes */
	0x08, 0x07, 0x10, 0x02, /* epoch 7, link 2 */
	0x18, 0x05, 0x20, 0x0e, /* first 5, last 14 */
	0x2a, 0x02, 0xff, 0x02, /* bits */
	0x30, 0x02, 0x38, 0x04, /* first otime 1, last 2 */
	0x1a, 0x0a, /* edge, 10 bytes */
	0x08, 0x07, 0x10, 0x02, /* epoch 7, link 2 */
	0x18, 0x04, 0x20, 0x04, 0x30, 0x00, /* first = last = 4, otime 0 */
	0x20, 0xc8, 0x01, /* frontier 100 */
};

static Packrack__Envelope *
unpack(const void *data, size_t len)
{
	return pr_message_unpack(data, len, &err);
}

START_TEST(golden_bytes)
{
	Packrack__Envelope *env = unpack(golden, sizeof(golden));
	const Packrack__Held *held;
	uint8_t *again;
	size_t len;

	ck_assert_msg(env != NULL, "%s", err.text);
	ck_assert_uint_eq(env->id, 300);
	ck_assert_str_eq(pr_message_name(env), "batch");
	ck_assert_uint_eq(env->batch->n_held, 1);
	held = env->batch->held[0];
	ck_assert_uint_eq(held->first, 5);
	ck_assert_uint_eq(held->last, 14);
	ck_assert_uint_eq(held->bits.len, 2);
	ck_assert_int_eq(held->last_otime, 2);
	ck_assert_int_eq(env->batch->frontier, 100);
	ck_assert_int_eq(pr_message_pack(env, &again, &len, &err), 0);
	ck_assert_uint_eq(len, sizeof(golden) - 2); /* but for the zero that says nothing */
	free(again);
	pr_message_free(&env);
	ck_assert_ptr_null(env);
}
END_TEST

/* id and kind of a message are known before it is unpacked, wherever the id stands; there is one body. */
START_TEST(peeked)
{
	static const uint8_t last[] = {0x4a, 0, 0x08, 5}; /* status_request, id */
	static const uint8_t twice[] = {0x08, 5, 0x4a, 0, 0x4a, 0};
	static const uint8_t no_body[] = {0x08, 5, 0x0a, 0}; /* field 1 is the id */
	static const uint8_t group[] = {0x08, 5, 0x4a, 0, 0x7b, 0};
	uint8_t many[2 * 17];
	Packrack__Envelope head, *env;
	ProtobufCBinaryData body = pr_message_peek(golden, sizeof(golden), &head);

	ck_assert_uint_eq(head.id, 300);
	ck_assert_int_eq(head.body_case, PACKRACK__ENVELOPE__BODY_BATCH);
	ck_assert_uint_eq(body.len, 38);
	ck_assert_ptr_eq(body.data, golden + 5);
	pr_message_peek(last, sizeof(last), &head);
	ck_assert_uint_eq(head.id, 5);
	ck_assert_int_eq(head.body_case, PACKRACK__ENVELOPE__BODY_STATUS_REQUEST);
	env = unpack(last, sizeof(last));
	ck_assert_msg(env && env->id == 5 && env->status_request, "%s", err.text);
	pr_message_free(&env);
	ck_assert_ptr_null(unpack(twice, sizeof(twice)));
	ck_assert_ptr_null(unpack(no_body, sizeof(no_body)));
	ck_assert_ptr_null(unpack(group, sizeof(group)));
	memset(many, 0x08, sizeof(many)); /* id 8, again and again */
	memcpy(many, last, 2);
	ck_assert_ptr_null(unpack(many, sizeof(many)));
	env = unpack(many, sizeof(many) - 2);
	ck_assert_ptr_nonnull(env);
	pr_message_free(&env);
}
END_TEST

/* Whatever the bytes: no crash, and what gets through keeps the promises of message.h. */
START_TEST(flipped_and_cut)
{
	uint8_t copy[sizeof(golden)];

	for (size_t len = 0; len < sizeof(golden); len++) {
		Packrack__Envelope *env = unpack(golden, len);
		pr_message_free(&env);
	}
	for (size_t bit = 0; bit < sizeof(golden) * 8; bit++) {
		Packrack__Envelope *env;
		memcpy(copy, golden, sizeof(copy));
		copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
		env = unpack(copy, sizeof(copy));
		if (!env)
			continue;
		ck_assert_int_ne(env->body_case, PACKRACK__ENVELOPE__BODY__NOT_SET);
		for (size_t i = 0;
			env->batch && env->body_case == 6 && i < env->batch->n_held; i++) {
			const Packrack__Held *h = env->batch->held[i];
			ck_assert_uint_le(h->first, h->last);
			ck_assert(h->bits.len == 0 ||
				  h->bits.len == (h->last - h->first) / 8 + 1);
		}
		pr_message_free(&env);
	}
}
END_TEST

/* What a name must not have: no UTF-8, C1, the other direction. */
static const char *const not_plain[] = {"\xff", "a\xe9", "\xc3", "\xed\xa0\x80", "\xc2\x9b",
	"\xe2\x80\xae", "\xe2\x81\xa6", "\xd8\x9c", "\xef\xbb\xbf"};

static bool
passes(Packrack__Envelope *env)
{
	Packrack__Envelope *got;
	uint8_t *buf;
	size_t len;

	ck_assert_int_eq(pr_message_pack(env, &buf, &len, &err), 0);
	got = unpack(buf, len);
	free(buf);
	if (!got)
		return false;
	pr_message_free(&got);
	return true;
}

START_TEST(queries_are_checked)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	Packrack__Query query = PACKRACK__QUERY__INIT;
	Packrack__Program program = PACKRACK__PROGRAM__INIT, *programs[] = {&program};
	Packrack__Instruction in = PACKRACK__INSTRUCTION__INIT, *ins[] = {&in};
	char *long_name = calloc(1, PR_MESSAGE_TEXT_MAX + 2);

	ck_assert(!passes(&env));
	env.body_case = PACKRACK__ENVELOPE__BODY_QUERY;
	env.query = &query;
	query.programs = programs;
	query.n_programs = 1;
	program.instructions = ins;
	program.n_instructions = 1;
	query.text = (char *)"tcp\nand\tudp";
	ck_assert(passes(&env));
	query.text = (char *)"\033[31m";
	ck_assert(!passes(&env));
	ck_assert_ptr_nonnull(strstr(err.text, "query: text"));
	query.text = (char *)"";
	query.link = (char *)"\xe2\x82\xac";
	ck_assert(passes(&env));
	for (size_t i = 0; i < PR_COUNT(not_plain); i++) {
		query.link = (char *)not_plain[i];
		ck_assert(!passes(&env));
	}
	query.link = (char *)"eth\n0";
	ck_assert(!passes(&env));
	memset(long_name, 'x', PR_MESSAGE_NAME_MAX + 1);
	query.link = long_name;
	ck_assert(!passes(&env));
	query.link = (char *)"";
	memset(long_name, 'x', PR_MESSAGE_TEXT_MAX + 1);
	query.text = long_name;
	ck_assert(!passes(&env));
	query.text = (char *)"";
	in.code = 65536;
	ck_assert(!passes(&env));
	in.code = 6;
	in.jt = 256;
	ck_assert(!passes(&env));
	in.jt = 0;
	program.linktype = 65536;
	ck_assert(!passes(&env));
	program.linktype = 1;
	ck_assert(passes(&env));
	free(long_name);
}
END_TEST

/* Free texts may quote anything: what is not plain is replaced, and the message is taken. */
START_TEST(texts_are_cleaned)
{
	Packrack__Failure failure = PACKRACK__FAILURE__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT, *got;
	char text[32];
	uint8_t *buf;
	size_t len;

	env.body_case = PACKRACK__ENVELOPE__BODY_FAILURE;
	env.failure = &failure;
	failure.text = text;
	for (size_t i = 0; i < PR_COUNT(not_plain); i++) {
		snprintf(text, sizeof text, "\xe2\x82\xac %s", not_plain[i]);
		ck_assert_int_eq(pr_message_pack(&env, &buf, &len, &err), 0);
		got = unpack(buf, len);
		free(buf);
		ck_assert_ptr_nonnull(got);
		ck_assert_int_eq(memcmp(got->failure->text, "\xe2\x82\xac ", 4), 0);
		ck_assert_ptr_nonnull(strchr(got->failure->text, '?'));
		ck_assert_ptr_null(strstr(got->failure->text, not_plain[i]));
		pr_message_free(&got);
	}
}
END_TEST

START_TEST(ranges_are_checked)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	Packrack__Batch batch = PACKRACK__BATCH__INIT;
	Packrack__Held held = PACKRACK__HELD__INIT, *list[] = {&held};
	uint8_t bits[9] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1};

	env.body_case = PACKRACK__ENVELOPE__BODY_BATCH;
	env.batch = &batch;
	batch.held = list;
	batch.n_held = 1;
	held.first = 1;
	held.last = 65;
	held.bits.data = bits;
	held.bits.len = 9;
	ck_assert(passes(&env));
	held.bits.len = 8;
	ck_assert(!passes(&env));
	held.bits.len = 9;
	bits[8] = 2;
	ck_assert(!passes(&env));
	bits[8] = 1;
	held.last = UINT64_MAX;
	ck_assert(!passes(&env));
	held.last = 0;
	ck_assert(!passes(&env));
	held.last = 65;
	held.first_otime = 1;
	ck_assert(!passes(&env));
	held.last_otime = 1;
	held.link = 65536;
	ck_assert(!passes(&env));
}
END_TEST

/* Lists that stand side by side are equally long. */
START_TEST(lists_are_checked)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	Packrack__End end = PACKRACK__END__INIT;
	Packrack__Ledger ledger = PACKRACK__LEDGER__INIT, *list[] = {&ledger};
	uint32_t reason = 1;
	int64_t time = 1;
	char *by = (char *)"ann";

	env.body_case = PACKRACK__ENVELOPE__BODY_END;
	env.end = &end;
	end.ledgers = list;
	end.n_ledgers = 1;
	ledger.unobserved_reason = &reason;
	ledger.unobserved_since = ledger.unobserved_until = &time;
	ledger.unobserved_by = &by;
	ledger.n_unobserved_reason = ledger.n_unobserved_since = 1;
	ledger.n_unobserved_until = ledger.n_unobserved_by = 1;
	ck_assert(passes(&env));
	ledger.n_unobserved_by = 0;
	ck_assert(!passes(&env));
	ledger.n_unobserved_by = 1;
	ledger.n_unobserved_since = 0;
	ck_assert(!passes(&env));
	ledger.n_unobserved_since = 1;
	ledger.n_unobserved_until = 0;
	ck_assert(!passes(&env));
}
END_TEST

/* Two bytes on the wire are an empty message of a hundred in memory: the budget must hold. */
START_TEST(memory_is_bounded)
{
	size_t count = PR_RPC_MESSAGE_MAX / 2 - 16, len = 0;
	uint8_t *bomb = malloc(PR_RPC_MESSAGE_MAX + 1);
	Packrack__Envelope *env;

	bomb[len++] = 0x32; /* batch */
	for (size_t body = count * 2, i = 0; i < 4; i++, body >>= 7)
		bomb[len++] = (uint8_t)(body & 0x7f) | (i < 3 ? 0x80 : 0);
	for (size_t i = 0; i < count; i++) {
		bomb[len++] = 0x12; /* held, empty */
		bomb[len++] = 0;
	}
	ck_assert_uint_le(len, PR_RPC_MESSAGE_MAX);
	ck_assert_ptr_null(unpack(bomb, len));
	env = unpack(bomb, PR_RPC_MESSAGE_MAX + 1);
	ck_assert_ptr_null(env);
	ck_assert_ptr_nonnull(strstr(err.text, "at most"));
	free(bomb);
}
END_TEST

/* By name and type, between messages of different types too; the exceptions of message.c hold. */
START_TEST(numbers_are_copied_and_added)
{
	Packrack__End sum = PACKRACK__END__INIT, end = PACKRACK__END__INIT;
	Packrack__NodeAnswer node = PACKRACK__NODE_ANSWER__INIT;
	Packrack__Completeness all = PACKRACK__COMPLETENESS__INIT, part = all;

	end.matched = 3;
	end.related = end.truncated = 2;
	end.scanned_packets = 40;
	end.index_damaged = 1;
	end.limit_reached = true;
	pr_message_add_numbers(&sum.base, &end.base);
	pr_message_add_numbers(&sum.base, &end.base);
	ck_assert_uint_eq(sum.scanned_packets, 80);
	ck_assert_uint_eq(sum.index_damaged, 2);
	ck_assert_uint_eq(sum.matched, 0);
	ck_assert_uint_eq(sum.related, 0);
	ck_assert_uint_eq(sum.truncated, 0);
	ck_assert(!sum.limit_reached);

	node.answered = true;
	pr_message_copy_numbers(&node.base, &end.base);
	ck_assert_uint_eq(node.matched, 3);
	ck_assert_uint_eq(node.scanned_packets, 40);
	ck_assert(node.answered);

	all.complete = true;
	all.dropped_packets = 9;
	part.held_at_most = true;
	part.missing_packets = 5;
	part.dropped_packets = 4;
	pr_message_add_numbers(&all.base, &part.base);
	ck_assert(!all.complete);
	ck_assert(all.held_at_most);
	ck_assert_uint_eq(all.missing_packets, 5);
	ck_assert_uint_eq(all.dropped_packets, 9);
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, golden_bytes);
	tcase_add_test(tests, peeked);
	tcase_add_test(tests, flipped_and_cut);
	tcase_add_test(tests, queries_are_checked);
	tcase_add_test(tests, texts_are_cleaned);
	tcase_add_test(tests, ranges_are_checked);
	tcase_add_test(tests, lists_are_checked);
	tcase_add_test(tests, memory_is_bounded);
	tcase_add_test(tests, numbers_are_copied_and_added);
}

int
main(void)
{
	return unit_run("message", fill);
}
