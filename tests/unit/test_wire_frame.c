/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "proto/base/cursor.h"
#include "proto/wire/frame.h"
#include "tests/unit/golden_frames.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire_whole.h"

#define TYPE PR_ETHERTYPE_DEFAULT

struct golden {
	const char *name;
	const uint8_t *data;
	size_t len;
	const struct pr_frame_key *key;
};

static const struct pr_frame_key rack_key = {.set = true,
	.active = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
		21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31}};
static const struct pr_frame_key no_key;

#define GOLDEN(name, bytes)                                                                \
	{                                                                                  \
		name, bytes, sizeof bytes, &no_key                                         \
	}
static const struct golden goldens[] = {
	GOLDEN("ANN", golden_ann),
	GOLDEN("ANN_ACK", golden_ann_ack),
	GOLDEN("STATUS", golden_status),
	GOLDEN("TSLOG", golden_tslog),
	GOLDEN("MARK", golden_mark),
	GOLDEN("RESEND", golden_resend),
	GOLDEN("GONE", golden_gone),
	GOLDEN("STOP", golden_stop),
	GOLDEN("QUIT", golden_quit),
	GOLDEN("IDENTIFY", golden_identify),
	GOLDEN("RESET", golden_reset),
	GOLDEN("DISCONNECT", golden_disconnect),
	GOLDEN("RECONNECT", golden_reconnect),
	GOLDEN("PORT", golden_port),
	GOLDEN("UNOBSERVED", golden_unobserved),
	GOLDEN("CLASS", golden_class),
	{"STOP", golden_keyed_stop, sizeof golden_keyed_stop, &rack_key},
};
#define GOLDENS (int)(sizeof goldens / sizeof goldens[0])

/* Decodes a copy of exactly len bytes, so that a read behind it is seen by the sanitizers. */
static enum pr_frame_result
decode(const uint8_t *data, size_t len, const struct pr_frame_key *key,
	struct pr_frame *out)
{
	uint8_t *copy = malloc(len ? len : 1);
	memcpy(copy, data, len);
	enum pr_frame_result result = pr_frame_decode(copy, len, TYPE, key, out);
	free(copy);
	return result;
}

START_TEST(golden_round_trip)
{
	const struct golden *g = &goldens[_i];
	struct pr_frame f;
	uint8_t buf[2048];

	ck_assert_int_eq(pr_frame_decode(g->data, g->len, TYPE, g->key, &f), PR_FRAME_OK);
	ck_assert_str_eq(pr_frame_type_name(f.header.type), g->name);
	memset(buf, 0xaa, sizeof buf);
	ck_assert_uint_eq(whole_frame(&f, TYPE, g->key, buf, g->len), g->len);
	ck_assert_mem_eq(buf, g->data, g->len);
	ck_assert_uint_eq(buf[g->len], 0xaa);
	ck_assert_uint_eq(pr_frame_encode_payload(&f, g->key, buf, sizeof buf),
		g->len - PR_ETHER_LEN);
	ck_assert_mem_eq(buf, g->data + PR_ETHER_LEN, g->len - PR_ETHER_LEN);
}
END_TEST

START_TEST(golden_no_room)
{
	const struct golden *g = &goldens[_i];
	struct pr_frame f;

	ck_assert_int_eq(pr_frame_decode(g->data, g->len, TYPE, g->key, &f), PR_FRAME_OK);
	for (size_t room = 0; room < g->len; room++) {
		uint8_t *buf = malloc(room ? room : 1);
		ck_assert_uint_eq(whole_frame(&f, TYPE, g->key, buf, room), 0);
		free(buf);
	}
}
END_TEST

START_TEST(golden_truncated)
{
	const struct golden *g = &goldens[_i];
	struct pr_frame f;

	for (size_t len = 0; len < g->len; len++)
		ck_assert_int_ne(decode(g->data, len, g->key, &f), PR_FRAME_OK);
	ck_assert_int_eq(decode(g->data, g->len, g->key, &f), PR_FRAME_OK);
}
END_TEST

START_TEST(golden_padded)
{
	const struct golden *g = &goldens[_i];
	struct pr_frame f;
	uint8_t buf[2048] = {0};

	memcpy(buf, g->data, g->len);
	memset(buf + g->len, 0x55, 20);
	ck_assert_int_eq(decode(buf, g->len + 20, g->key, &f), PR_FRAME_OK);
}
END_TEST

START_TEST(golden_bit_flips)
{
	const struct golden *g = &goldens[_i];
	struct pr_frame f;
	uint8_t buf[2048];

	for (size_t bit = 0; bit < g->len * 8; bit++) {
		memcpy(buf, g->data, g->len);
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_ne(decode(buf, g->len, g->key, &f), PR_FRAME_OK);
	}
}
END_TEST

START_TEST(results_by_name)
{
	struct pr_frame f;
	uint8_t buf[sizeof golden_stop];
	const struct {
		size_t at;
		enum pr_frame_result result;
	} cases[] = {
		{0, PR_FRAME_BAD_CHECK},
		{11, PR_FRAME_BAD_CHECK},
		{12, PR_FRAME_NOT_OURS},
		{13, PR_FRAME_NOT_OURS},
		{14, PR_FRAME_BAD_VERSION},
		{15, PR_FRAME_BAD_CHECK},
		{46, PR_FRAME_BAD_LENGTH},
		{54, PR_FRAME_BAD_CHECK},
		{sizeof buf - 1, PR_FRAME_BAD_TAG},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		memcpy(buf, golden_stop, sizeof buf);
		buf[cases[i].at] ^= 0x40;
		ck_assert_int_eq(decode(buf, sizeof buf, &no_key, &f), cases[i].result);
	}
	ck_assert_str_eq(pr_frame_type_name(0), "?");
	ck_assert_str_eq(pr_frame_type_name(PR_FRAME_TYPES), "?");
}
END_TEST

START_TEST(keys_must_agree)
{
	struct pr_frame f;
	struct pr_frame_key other = rack_key;
	other.active[31] ^= 1;

	ck_assert_int_eq(decode(golden_keyed_stop, sizeof golden_keyed_stop, &other, &f),
		PR_FRAME_BAD_TAG);
	ck_assert_int_eq(decode(golden_keyed_stop, sizeof golden_keyed_stop, &no_key, &f),
		PR_FRAME_BAD_TAG);
	ck_assert_int_eq(decode(golden_keyed_stop, sizeof golden_keyed_stop, NULL, &f),
		PR_FRAME_BAD_TAG);
	/* with a key set, zero tags are refused */
	ck_assert_int_eq(
		decode(golden_stop, sizeof golden_stop, &rack_key, &f), PR_FRAME_BAD_TAG);
	ck_assert_int_eq(decode(golden_stop, sizeof golden_stop, NULL, &f), PR_FRAME_OK);
}
END_TEST

/* Makes length and check right again after a body was changed. Not the way frame.c does it. */
static size_t
reseal(uint8_t *buf, size_t body_len)
{
	uint8_t flat[4096];
	size_t covered = PR_FRAME_HEADER + body_len;

	pr_put_be16(buf + 46, (uint16_t)body_len);
	pr_put_be32(buf + 50, 0);
	memcpy(flat, buf, 12);
	memcpy(flat + 12, buf + 14, covered);
	pr_put_be32(buf + 50, (uint32_t)XXH3_64bits(flat, 12 + covered));
	memset(buf + 14 + covered, 0, PR_FRAME_TAG);
	return 14 + covered + PR_FRAME_TAG;
}

static enum pr_frame_result
forge(const struct golden *g, size_t at, uint8_t value, long grow)
{
	struct pr_frame f;
	uint8_t buf[2048] = {0};

	memcpy(buf, g->data, g->len);
	buf[at] = value;
	size_t len = reseal(buf, (size_t)((long)(g->len - PR_FRAME_OVERHEAD) + grow));
	return decode(buf, len, g->key, &f);
}

static const struct golden *
golden_of(const char *name)
{
	for (int i = 0; i < GOLDENS; i++)
		if (strcmp(goldens[i].name, name) == 0)
			return &goldens[i];
	ck_abort_msg("no golden %s", name);
	return NULL;
}

START_TEST(body_length_must_fit)
{
	const struct golden *g = &goldens[_i];
	if (g->key->set || strcmp(g->name, "TSLOG") == 0)
		return;
	ck_assert_int_eq(forge(g, 0, g->data[0], 0), PR_FRAME_OK);
	ck_assert_int_eq(forge(g, 0, g->data[0], 1), PR_FRAME_BAD_BODY);
	for (long less = 1; less <= (long)(g->len - PR_FRAME_OVERHEAD); less++)
		ck_assert_int_eq(forge(g, 0, g->data[0], -less), PR_FRAME_BAD_BODY);
}
END_TEST

/* Frames with a right check, and something in them that nobody sends. */
START_TEST(odd_bodies)
{
	static const struct {
		const char *name;
		size_t at; /* in the frame */
		uint8_t value;
		enum pr_frame_result result;
	} cases[] = {
		{"STOP", 15, 0, PR_FRAME_BAD_TYPE},
		{"STOP", 15, PR_FRAME_TYPES, PR_FRAME_BAD_TYPE},
		{"STOP", 15, 255, PR_FRAME_BAD_TYPE}, {"STOP", 15, 14, PR_FRAME_BAD_BODY},
		{"STOP", 48, 1, PR_FRAME_BAD_VERSION}, /* reserved */
		{"ANN", 54, 65, PR_FRAME_BAD_BODY}, /* name too long */
		{"ANN", 54, 5, PR_FRAME_BAD_BODY}, /* everything shifts */
		{"ANN", 55, 0, PR_FRAME_BAD_BODY}, /* NUL in a name */
		{"ANN", 56, 0x1b, PR_FRAME_BAD_BODY}, {"ANN", 57, 0x7f, PR_FRAME_BAD_BODY},
		{"ANN", 57, 0xc3, PR_FRAME_OK},
		{"ANN_ACK", 56, 0x80, PR_FRAME_BAD_BODY}, /* hold time beyond reason */
		{"STATUS", 54, 3, PR_FRAME_BAD_BODY}, {"STATUS", 54, 2, PR_FRAME_OK},
		{"STATUS", 55, 101, PR_FRAME_BAD_BODY},
		{"STATUS", 200, PR_FRAME_TYPES, PR_FRAME_BAD_BODY},
		{"STATUS", 201, 2, PR_FRAME_BAD_BODY},
		{"MARK", 70, 2, PR_FRAME_BAD_BODY}, /* stopping */
		{"MARK", 72, 1, PR_FRAME_BAD_BODY}, /* more here than there are */
		{"MARK", 74, 3, PR_FRAME_BAD_BODY}, /* count */
		{"MARK", 74, 1, PR_FRAME_BAD_BODY}, {"MARK", 73, 1, PR_FRAME_BAD_BODY},
		{"MARK", 83, 2, PR_FRAME_BAD_BODY}, /* ended */
		{"MARK", 181, 7, PR_FRAME_BAD_BODY}, /* name */
		{"RESEND", 63, 0, PR_FRAME_BAD_BODY}, {"RESEND", 63, 9, PR_FRAME_BAD_BODY},
		{"RESEND", 63, 8, PR_FRAME_OK}, {"GONE", 63, 0, PR_FRAME_BAD_BODY},
		{"GONE", 63, 8, PR_FRAME_BAD_BODY},
		{"GONE", 78, 4, PR_FRAME_BAD_BODY}, /* first seq after the last */
		{"CLASS", 54, 0, PR_FRAME_BAD_BODY}, /* number */
		{"CLASS", 54, 64, PR_FRAME_BAD_BODY}, {"CLASS", 54, 63, PR_FRAME_OK},
		{"CLASS", 55, 4, PR_FRAME_BAD_BODY}, /* guarantee: more than all */
		{"CLASS", 57, 0x80, PR_FRAME_BAD_BODY}, /* keep: less than 0 */
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		ck_assert_msg(forge(golden_of(cases[i].name), cases[i].at, cases[i].value,
				      0) == cases[i].result,
			"case %zu: %s byte %zu", i, cases[i].name, cases[i].at);
}
END_TEST

START_TEST(golden_values)
{
	struct pr_frame f;

	decode(golden_mark, sizeof golden_mark, NULL, &f);
	ck_assert_uint_eq(f.header.epoch, 0x65537f00deadbeef);
	ck_assert_uint_eq(f.header.number, 77);
	ck_assert_uint_eq(f.header.rack, 7);
	ck_assert_uint_eq(f.header.sender_nonce, 0x01020304);
	ck_assert_uint_eq(f.header.receiver_nonce, 0x0a0b0c0d);
	ck_assert_uint_eq(f.body.mark.next_ordinal, 4711);
	ck_assert_uint_eq(f.body.mark.link_count, 5);
	ck_assert_int_eq(f.body.mark.links[1].last_otime, -5);
	const struct pr_mark_link *l = &f.body.mark.links[1];
	const uint64_t line[] = {l->last_seq, 2001, l->last_log, l->assigned,
		l->dropped_kernel, l->dropped_interface, l->dropped_ring,
		l->dropped_no_node, l->dropped_send, l->cut, l->undelivered_first,
		l->undelivered_last};
	for (uint64_t i = 0; i < sizeof line / sizeof line[0]; i++)
		ck_assert_uint_eq(line[i], 2000 + i);
	ck_assert_str_eq(f.body.mark.links[1].name, "mirror");
	decode(golden_status, sizeof golden_status, NULL, &f);
	ck_assert_uint_eq(f.body.status.buffer_fill, 25);
	/* u64 number i of the frame is 0x1000 * (i + 1) + i: in this order */
	const struct pr_status *st = &f.body.status;
	const uint64_t in_order[] = {st->ordinal_settled, st->frames_received,
		st->bytes_received, st->packets_stored, st->bytes_stored,
		st->packets_durable, st->missing, st->stray, st->duplicate, st->pending,
		st->kernel_drops, st->logs_received, st->logs_requested, st->logs_gone,
		st->disk_total, st->disk_free, st->write_rate, st->command};
	for (uint64_t i = 0; i < sizeof in_order / sizeof in_order[0]; i++)
		ck_assert_uint_eq(in_order[i], 0x1000 * (i + 1) + i);
	ck_assert_uint_eq(f.body.status.command_type, PR_FRAME_IDENTIFY);
	decode(golden_ann, sizeof golden_ann, NULL, &f);
	ck_assert_str_eq(f.body.ann.name, "node-1");
	ck_assert_uint_eq(f.body.ann.mtu, 1508);
}
END_TEST

static Suite *
suite(void)
{
	Suite *s = suite_create("wire_frame");
	TCase *t = tcase_create("golden");
	tcase_add_loop_test(t, golden_round_trip, 0, GOLDENS);
	tcase_add_loop_test(t, golden_no_room, 0, GOLDENS);
	tcase_add_loop_test(t, golden_truncated, 0, GOLDENS);
	tcase_add_loop_test(t, golden_padded, 0, GOLDENS);
	tcase_add_loop_test(t, golden_bit_flips, 0, GOLDENS);
	tcase_add_loop_test(t, body_length_must_fit, 0, GOLDENS);
	tcase_add_test(t, golden_values);
	suite_add_tcase(s, t);
	t = tcase_create("frame");
	tcase_add_test(t, results_by_name);
	tcase_add_test(t, keys_must_agree);
	tcase_add_test(t, odd_bodies);
	suite_add_tcase(s, t);
	return s;
}

int
main(void)
{
	return unit_run_suite(suite());
}
