/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"
#include "proto/wire/ledger.h"
#include "tests/unit/unit.h"

/* clang-format off */
static const uint8_t golden_loss[] = {
	0x02, 0x01, 0x34, 0x00,                         /* LOSS, version, length 52 */
	0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* epoch */
	0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* first seq */
	0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* last seq */
	0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* count */
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* first time -1 */
	0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* last time */
	0x03, 0x00, 0x01, 0x01,                         /* link, switch, second */
};

static const uint8_t golden_boot[] = {
	0x03, 0x01, 0x0f, 0x00,
	0x00, 0xca, 0x9a, 0x3b, 0x00, 0x00, 0x00, 0x00, /* time: 1 s */
	0x0d, 0x0c, 0x0b, 0x0a,                         /* nonce */
	0x02, 'n', '1',
};

static const uint8_t golden_link[] = {
	0x04, 0x01, 0x15, 0x00,
	0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, /* epoch */
	0x02, 0x00, 0x01, 0x00, 0xff, 0xff, 0x00, 0x00, /* link, link type, snap length */
	0x04, 't', 'a', 'p', '0',
};

static const uint8_t golden_mark[] = {
	0x01, 0x01, 0x7b, 0x00,
	0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* epoch */
	0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* said until */
	0x01,                                           /* stopping */
	0x03, 0x00, 0x71, 0x00, 0x04, 0x00, 0x00, 0x00, /* link, link type, snap length */
	0x01,                                           /* ended */
	0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* last seq */
	0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* last otime -2 */
	0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* last log */
	0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* assigned */
	0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* dropped: kernel, interface, ring, */
	0x0a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x0b, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x0c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* no node, send */
	0x0d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x0e, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* cut */
	0x0f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* undelivered */
	0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00,                                           /* no name */
};

static const uint8_t golden_deleted[] = {
	0x07, 0x01, 0x32, 0x00,
	0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* at */
	0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, /* since */
	0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* until */
	0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* records */
	0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* bytes */
	0x05, 0x00, 0x01, 0x03, 'a', 'n', 'n',          /* link, phase, by */
	0x02, 'n', '2',                                 /* moved to */
};

static const uint8_t golden_port[] = {
	0x08, 0x01, 0x12, 0x00,
	0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, /* epoch */
	0x02, 0x00,                                     /* link */
	0x00, 0xe4, 0x0b, 0x54, 0x02, 0x00, 0x00, 0x00, /* speed: 10 Gbit/s */
};

static const uint8_t golden_import[] = {
	0x0a, 0x01, 0x26, 0x00,
	0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, /* epoch */
	0x02, 0x00,                                     /* link */
	0x18, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* size of the file */
	0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* packets */
	0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* their fingerprint */
	0x03, 'a', '.', 'c',                            /* file name */
};

static const uint8_t golden_unobserved[] = {
	0x09, 0x01, 0x1f, 0x00,
	0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, /* epoch */
	0x02, 0x00, 0x04,                               /* link, reason: stopped */
	0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* since */
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, /* until: still */
	0x03, 'a', 'n', 'n',                            /* by */
};

static const uint8_t golden_durable[] = {
	0x0b, 0x01, 0x12, 0x00,
	0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, /* epoch */
	0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* seq */
	0x02, 0x00,                                     /* link */
};

static const uint8_t golden_class[] = {
	0x0c, 0x01, 0x10, 0x00,
	0x05, 0x7d, 0x00,                               /* number, guarantee: 12.5 % */
	0x00, 0x40, 0x71, 0x61, 0x8c, 0x06, 0x00, 0x00, /* keep: 2 hours */
	0x04, 'b', 'u', 'l', 'k',
};
/* clang-format on */

#define GOLDEN(bytes)                                                                      \
	{                                                                                  \
		bytes, sizeof bytes                                                        \
	}
static const struct {
	const uint8_t *data;
	size_t len;
} goldens[] = {GOLDEN(golden_mark), GOLDEN(golden_loss), GOLDEN(golden_boot),
	GOLDEN(golden_link), GOLDEN(golden_deleted), GOLDEN(golden_port),
	GOLDEN(golden_import), GOLDEN(golden_unobserved), GOLDEN(golden_durable),
	GOLDEN(golden_class)};
#define GOLDENS 10

/* Loads from a copy of exactly len bytes: entries, or -1. */
static int
load_all(const uint8_t *data, size_t len, struct pr_ledger_entry *last)
{
	uint8_t *copy = malloc(len ? len : 1);
	struct pr_cursor c = pr_cursor_make(copy, len);
	struct pr_ledger_entry e;
	int n = 0, got;

	memcpy(copy, data, len);
	for (; (got = pr_ledger_load(&c, &e)) == 1; n++)
		*last = e;
	ck_assert_int_eq(pr_ledger_load(&c, &e), got);
	free(copy);
	return got == 0 ? n : -1;
}

START_TEST(golden_round_trip)
{
	struct pr_ledger_entry e;
	size_t len = goldens[_i].len;
	uint8_t *buf = malloc(len);

	ck_assert_uint_le(len, PR_LEDGER_ENTRY_MAX);
	ck_assert_int_eq(load_all(goldens[_i].data, len, &e), 1);
	for (size_t room = 0; room < len; room++) {
		struct pr_writer w = pr_writer_make(buf, room);
		ck_assert(!pr_ledger_store(&w, &e));
		ck_assert_uint_eq(pr_writer_len(&w), 0);
	}
	struct pr_writer w = pr_writer_make(buf, len);
	ck_assert(pr_ledger_store(&w, &e));
	ck_assert_mem_eq(buf, goldens[_i].data, len);
	free(buf);
}
END_TEST

START_TEST(golden_truncated)
{
	struct pr_ledger_entry e;
	for (size_t len = 1; len < goldens[_i].len; len++)
		ck_assert_int_eq(load_all(goldens[_i].data, len, &e), -1);
	ck_assert_int_eq(load_all(goldens[_i].data, 0, &e), 0);
}
END_TEST

START_TEST(golden_lengths)
{
	struct pr_ledger_entry e;
	uint8_t buf[256] = {0};
	size_t len = goldens[_i].len;

	memcpy(buf, goldens[_i].data, len);
	buf[2]++; /* one byte more than the fields have */
	ck_assert_int_eq(load_all(buf, len + 1, &e), -1);
	buf[2] -= 2;
	ck_assert_int_eq(load_all(buf, len - 1, &e), -1);
	for (size_t bit = 0; bit < len * 8; bit++) {
		memcpy(buf, goldens[_i].data, len);
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
		(void)load_all(buf, len, &e);
	}
}
END_TEST

START_TEST(golden_values)
{
	struct pr_ledger_entry e;

	load_all(golden_loss, sizeof golden_loss, &e);
	ck_assert_uint_eq(e.type, PR_LEDGER_LOSS);
	ck_assert_uint_eq(e.u.loss.epoch, 0x0102030405060708);
	ck_assert_int_eq(e.u.loss.first_time, -1);
	ck_assert_uint_eq(e.u.loss.reason, PR_LOSS_SWITCH);
	load_all(golden_mark, sizeof golden_mark, &e);
	ck_assert_uint_eq(e.u.mark.link.linktype, 113);
	ck_assert_uint_eq(e.u.mark.link.undelivered_last, 16);
	load_all(golden_class, sizeof golden_class, &e);
	ck_assert_uint_eq(e.type, PR_LEDGER_CLASS);
	ck_assert_uint_eq(e.u.class.number, 5);
	ck_assert_uint_eq(e.u.class.guarantee, 125);
	ck_assert_int_eq(e.u.class.keep, 7200 * PR_NS_PER_S);
	ck_assert_str_eq(e.u.class.name, "bulk");
	ck_assert_str_eq(pr_loss_reason_name(PR_LOSS_SWITCH), "switch");
	ck_assert_str_eq(pr_loss_reason_name(0), "?");
	ck_assert_str_eq(pr_loss_reason_name(PR_LOSS_UNSAVED + 1), "?");
}
END_TEST

/* Each field of a class, when it is what no dispatcher sends. */
START_TEST(odd_classes)
{
	static const struct {
		size_t at;
		uint8_t value;
	} cases[] = {
		{4, 0}, {4, 64}, {4, 255}, /* number */
		{6, 4}, /* guarantee: 1149 */
		{14, 0x80}, /* keep: less than 0 */
		{15, 3}, {15, 5}, /* the length of the name */
	};
	uint8_t buf[sizeof golden_class];
	struct pr_ledger_entry e;

	for (size_t i = 0; i < PR_COUNT(cases); i++) {
		memcpy(buf, golden_class, sizeof buf);
		buf[cases[i].at] = cases[i].value;
		ck_assert_int_eq(load_all(buf, sizeof buf, &e), -1);
	}
	memcpy(buf, golden_class, sizeof buf);
	buf[2] -= 4;
	buf[15] = 0; /* no name */
	ck_assert_int_eq(load_all(buf, sizeof buf - 4, &e), -1);
}
END_TEST

/* A share of memory makes version 2, which ends with it. */
START_TEST(class_with_memory)
{
	struct pr_ledger_entry e = {PR_LEDGER_CLASS, .u.class = {3, 5, 7, "bulk", 200}};
	uint8_t buf[64];
	struct pr_writer w = pr_writer_make(buf, sizeof buf);

	ck_assert(pr_ledger_store(&w, &e));
	size_t len = pr_writer_len(&w);
	ck_assert_uint_eq(buf[1], 2);
	ck_assert_uint_eq(buf[len - 2] | buf[len - 1] << 8, 200);
	ck_assert_int_eq(load_all(buf, len, &e), 1);
	ck_assert_uint_eq(e.u.class.memory, 200);
	buf[len - 1] = 4; /* 1,224 of 1,000 */
	ck_assert_int_eq(load_all(buf, len, &e), -1);
}
END_TEST

/* Types and versions of a later program do not hide what stands behind them. */
START_TEST(unknown_is_skipped)
{
	uint8_t buf[300] = {0x63, 0x01, 0x02, 0x00, 1, 2, 0x00, 0x01, 0x00, 0x00};
	struct pr_ledger_entry e;
	size_t at = 10;

	memcpy(buf + at, golden_boot, sizeof golden_boot);
	buf[at + 1] = 2;
	at += sizeof golden_boot;
	ck_assert_int_eq(load_all(buf, at, &e), 0);
	memcpy(buf + at, golden_link, sizeof golden_link);
	at += sizeof golden_link;
	ck_assert_int_eq(load_all(buf, at, &e), 1);
	ck_assert_str_eq(e.u.link.name, "tap0");
	memcpy(buf + at, golden_loss, sizeof golden_loss);
	ck_assert_int_eq(load_all(buf, at + sizeof golden_loss, &e), 2);
	buf[0 + 2] = 3; /* and a wrong length is no way to skip */
	ck_assert_int_eq(load_all(buf, at + sizeof golden_loss, &e), -1);
}
END_TEST

/* Which seqs are lost; readers that know only version 1 skip such an entry. */
START_TEST(loss_with_bits)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_LOSS,
				       .u.loss = {.epoch = 1,
					       .first_seq = 10,
					       .last_seq = 19,
					       .count = 3,
					       .bits = 0x205,
					       .reason = PR_LOSS_SWITCH}},
			       read;
	const struct pr_loss bad[] = {
		{.first_seq = 10, .last_seq = 19, .count = 2, .bits = 5},
		{.first_seq = 10, .last_seq = 19, .count = 2, .bits = 0x205},
		{.first_seq = 10, .last_seq = 19, .count = 1, .bits = 0x200},
		{.first_seq = 10, .last_seq = 11, .count = 2, .bits = 3},
		{.first_seq = 10, .last_seq = 80, .count = 2, .bits = 0x205}};
	uint8_t buf[300];
	struct pr_writer w = pr_writer_make(buf, sizeof buf);

	ck_assert(pr_ledger_store(&w, &e));
	ck_assert_uint_eq(buf[1], 2);
	ck_assert_uint_eq(pr_writer_len(&w), sizeof golden_loss + 8);
	ck_assert_int_eq(load_all(buf, pr_writer_len(&w), &read), 1);
	ck_assert_uint_eq(read.u.loss.bits, 0x205);
	ck_assert_uint_eq(read.u.loss.last_seq, 19);
	for (size_t i = 0; i < PR_COUNT(bad); i++) {
		e.u.loss = bad[i];
		w = pr_writer_make(buf, sizeof buf);
		ck_assert(!pr_ledger_store(&w, &e));
	}
}
END_TEST

START_TEST(losses_join)
{
	struct pr_loss l = {0}, one = {.first_seq = 10, .last_seq = 10, .count = 1},
		       none = {.first_seq = 11, .last_seq = 20, .count = 5};

	ck_assert(!pr_loss_join(&l, &one)); /* there is none yet */
	l = one;
	ck_assert(!pr_loss_join(&l, &one)); /* not a later one */
	ck_assert(!pr_loss_join(&l, &none)); /* it does not name its seqs */
	one.first_seq = one.last_seq = 11;
	ck_assert(pr_loss_join(&l, &one));
	ck_assert_uint_eq(l.bits, 0);
	one.first_seq = one.last_seq = 73;
	ck_assert(pr_loss_join(&l, &one));
	ck_assert_uint_eq(l.bits, 3 | UINT64_C(1) << 63);
	ck_assert_uint_eq(l.count, 3);
	one.first_seq = one.last_seq = 74;
	ck_assert(!pr_loss_join(&l, &one)); /* too far */
	l = (struct pr_loss){.first_seq = 1, .last_seq = 100, .count = 100};
	one.first_seq = one.last_seq = 101;
	one.first_time = one.last_time = INT64_C(1000000000);
	ck_assert(pr_loss_join(&l, &one));
	ck_assert_int_eq(l.last_time, one.last_time);
	l.first_seq = l.last_seq = 99;
	l.count = 1;
	ck_assert(!pr_loss_join(&l, &one)); /* much later, and a packet between them */
	l.first_time = one.first_time;
	one.reason = PR_LOSS_WRITE;
	ck_assert(!pr_loss_join(&l, &one));
	one.reason = 0;
	ck_assert(pr_loss_join(&l, &one));
	ck_assert_uint_eq(l.bits, 5);
}
END_TEST

START_TEST(odd_entries)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_BOOT};
	uint8_t buf[300], bytes[sizeof golden_loss];
	struct pr_writer w = pr_writer_make(buf, sizeof buf);

	strcpy(e.u.boot.name, "a\tb");
	ck_assert(!pr_ledger_store(&w, &e));
	memset(e.u.boot.name, 'x', sizeof e.u.boot.name);
	ck_assert(!pr_ledger_store(&w, &e));
	e = (struct pr_ledger_entry){.type = 0};
	ck_assert(!pr_ledger_store(&w, &e));
	e.type = 6;
	ck_assert(!pr_ledger_store(&w, &e));
	e = (struct pr_ledger_entry){.type = PR_LEDGER_LOSS, .u.loss.first_seq = 1};
	ck_assert(!pr_ledger_store(&w, &e));
	e = (struct pr_ledger_entry){.type = PR_LEDGER_PORT, .u.port.epoch = 1};
	ck_assert(!pr_ledger_store(&w, &e)); /* a speed of 0 */
	ck_assert_uint_eq(pr_writer_len(&w), 0);
	memcpy(bytes, golden_loss, sizeof bytes);
	bytes[12] = 10; /* first seq above the last */
	ck_assert_int_eq(load_all(bytes, sizeof bytes, &e), -1);
	bytes[12] = 9;
	ck_assert_int_eq(load_all(bytes, sizeof bytes, &e), 1);
	bytes[sizeof bytes - 1] = 2; /* a bool that is none */
	ck_assert_int_eq(load_all(bytes, sizeof bytes, &e), -1);
}
END_TEST

/* The longest of entries fits where PR_LEDGER_ENTRY_MAX bytes are. */
START_TEST(longest)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_MARK}, got;
	uint8_t buf[PR_LEDGER_ENTRY_MAX];
	struct pr_writer w = pr_writer_make(buf, sizeof buf);

	memset(e.u.mark.link.name, 'x', PR_NAME_MAX);
	ck_assert(pr_ledger_store(&w, &e));
	ck_assert_int_eq(load_all(buf, pr_writer_len(&w), &got), 1);
	ck_assert_mem_eq(&e.u.mark.link, &got.u.mark.link, sizeof e.u.mark.link);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_loop_test(t, golden_round_trip, 0, GOLDENS);
	tcase_add_loop_test(t, golden_truncated, 0, GOLDENS);
	tcase_add_test(t, odd_classes);
	tcase_add_test(t, class_with_memory);
	tcase_add_loop_test(t, golden_lengths, 0, GOLDENS);
	tcase_add_test(t, golden_values);
	tcase_add_test(t, unknown_is_skipped);
	tcase_add_test(t, odd_entries);
	tcase_add_test(t, loss_with_bits);
	tcase_add_test(t, losses_join);
	tcase_add_test(t, longest);
}

int
main(void)
{
	return unit_run("wire_ledger", fill);
}
