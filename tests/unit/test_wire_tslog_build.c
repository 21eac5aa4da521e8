/* SPDX-License-Identifier: Apache-2.0 */
/* Building timestamp logs: any entries come back, what does not fit is refused, and how much they take. */
#include "tests/unit/tslog_read.h"

#define ROOM (1508 - PR_FRAME_HEADER - PR_FRAME_TAG)
#define T0 INT64_C(1700000000123456789)

static void
macs_of(struct pr_entry *e, unsigned n)
{
	memset(e->macs, 0, sizeof e->macs);
	e->macs[5] = (uint8_t)n;
	e->macs[11] = (uint8_t)(n >> 8);
}

static uint64_t
rand64(void)
{
	return (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();
}

static void
random_entry(
	struct pr_entry *e, const struct pr_entry *before, bool interleaved, unsigned pairs)
{
	memset(e, 0, sizeof *e);
	e->seq = before->seq + 1 + (rand() % 10 == 0 ? rand64() >> (20 + rand() % 44) : 0);
	e->ordinal = before->ordinal + 1 + (interleaved ? (uint64_t)(rand() % 200) : 0);
	/* any step at all, also over the end of int64_t */
	e->time = (int64_t)((uint64_t)before->time + (rand64() >> (2 + rand() % 62)) -
			    (rand() % 10 == 0 ? 100000 : 0));
	e->otime = e->time > INT64_MAX / 2 || rand() % 10 ? e->time : e->time + rand();
	e->fingerprint = (uint32_t)rand64();
	e->flags = rand() % 3 == 0 ? (uint8_t)rand64() : 0;
	e->flags &= (uint8_t) ~(PR_ENTRY_PAIR | PR_ENTRY_OTIME);
	if (e->otime > e->time)
		e->flags |= PR_ENTRY_OTIME;
	if (e->flags & PR_ENTRY_CAPLEN)
		e->len = e->caplen = (uint32_t)rand64();
	if (e->flags & PR_ENTRY_LEN)
		e->len = (uint32_t)(rand64() >> rand() % 64);
	if (e->flags & PR_ENTRY_ETHERTYPE)
		e->ethertype = (uint16_t)rand();
	if (e->flags & PR_ENTRY_RUNT) {
		e->runt_len = (uint8_t)(rand() % 14);
		for (int i = 0; i < e->runt_len; i++)
			e->runt[i] = (uint8_t)rand();
	} else {
		macs_of(e, (unsigned)rand() % pairs);
	}
}

static void
check_log(struct pr_tslog_builder *b, const struct pr_entry *entries, int n)
{
	static struct pr_entry got[PR_TSLOG_ENTRIES_MAX];
	const uint8_t *body;
	size_t len = pr_tslog_finish(b, &body);

	ck_assert_uint_le(len, b->room);
	ck_assert_int_eq(read_all(body, len, got, PR_TSLOG_ENTRIES_MAX), n);
	for (int i = 0; i < n; i++)
		ck_assert_mem_eq(&got[i], &entries[i], sizeof got[i]);
}

/* Any entries come back as they were, from logs of any size, each alone. */
START_TEST(property_round_trip)
{
	static struct pr_entry in_log[PR_TSLOG_ENTRIES_MAX];
	struct pr_tslog_builder b;

	srand(11 + (unsigned)_i);
	for (int round = 0; round < 40; round++) {
		size_t room = 256 + (size_t)(rand() % (round % 10 == 0 ? 60000 : 1500));
		uint8_t *buf = malloc(room);
		bool interleaved = rand() % 2, classes = rand() % 2;
		unsigned pairs = 1 + (unsigned)rand() % (rand() % 4 ? 3 : 60);
		struct pr_entry e,
			before = {.time = (int64_t)rand64(), .seq = (uint64_t)rand()};
		int n = 0, refused = 0;

		before.ordinal = (uint64_t)rand();
		pr_tslog_begin(&b, 5,
			(interleaved ? PR_TSLOG_INTERLEAVED : 0) |
				(classes ? PR_TSLOG_CLASSES : 0),
			1, buf, room);
		for (int i = 0; i < 2000; i++) {
			random_entry(&e, &before, interleaved, pairs);
			e.class = classes ? (uint8_t)rand() : 0;
			if (e.seq <= before.seq)
				break; /* over the end of 64 bits */
			if (!pr_tslog_add(&b, &e)) {
				ck_assert_int_gt(n, 0);
				check_log(&b, in_log, n);
				pr_tslog_begin(&b, 5, b.header.flags, 2, buf, room);
				ck_assert(pr_tslog_add(&b, &e));
				n = 0;
				refused++;
			}
			in_log[n++] = before = e;
		}
		if (n)
			check_log(&b, in_log, n);
		free(buf);
	}
}
END_TEST

START_TEST(pair_table_is_full)
{
	static uint8_t buf[4000];
	struct pr_tslog_builder b;
	struct pr_entry e = {.seq = 0, .ordinal = 9};

	pr_tslog_begin(&b, 0, 0, 1, buf, sizeof buf);
	for (unsigned i = 0; i < PR_TSLOG_PAIRS_MAX; i++) {
		e.seq++, e.ordinal++;
		macs_of(&e, i);
		ck_assert(pr_tslog_add(&b, &e));
	}
	e.seq++, e.ordinal++;
	macs_of(&e, 1000);
	ck_assert(!pr_tslog_add(&b, &e));
	macs_of(&e, 7);
	ck_assert(pr_tslog_add(&b, &e)); /* a pair of the table still goes in */
	const uint8_t *body;
	size_t len = pr_tslog_finish(&b, &body);
	ck_assert_int_eq(read_all(body, len, NULL, 0), PR_TSLOG_PAIRS_MAX + 1);
}
END_TEST

START_TEST(builder_refuses)
{
	static uint8_t buf[70000];
	struct pr_tslog_builder b;
	struct pr_entry e = {.seq = 0, .ordinal = 9};
	const uint8_t *body;

	pr_tslog_begin(&b, 0, 0, 1, buf, sizeof buf);
	ck_assert_uint_eq(pr_tslog_finish(&b, &body), 0);
	ck_assert(!pr_tslog_add(&b, &e)); /* seq 0 */
	e.seq = 5;
	ck_assert(pr_tslog_add(&b, &e));
	e.ordinal++;
	ck_assert(!pr_tslog_add(&b, &e)); /* the same seq */
	e.seq++;
	e.ordinal++;
	ck_assert(!pr_tslog_add(&b, &e)); /* an ordinal left out */
	e.ordinal--;
	ck_assert(pr_tslog_add(&b, &e));
	while (b.header.count < PR_TSLOG_ENTRIES_MAX) {
		e.seq++, e.ordinal++;
		ck_assert(pr_tslog_add(&b, &e));
	}
	e.seq++, e.ordinal++;
	ck_assert(!pr_tslog_add(&b, &e));
	pr_tslog_begin(&b, 0, PR_TSLOG_INTERLEAVED, 2, buf, sizeof buf);
	ck_assert(pr_tslog_add(&b, &e));
	e.seq++;
	ck_assert(!pr_tslog_add(&b, &e)); /* the same ordinal */
	e.ordinal += 1000;
	ck_assert(pr_tslog_add(&b, &e));
}
END_TEST

/* Exponential gaps, without libm's log: the sum of coin tosses of a geometric. */
static int64_t
gap(double mean)
{
	double u = (rand() + 1.0) / (RAND_MAX + 2.0), sum = 0;
	/* -ln u = 2 artanh((1 - u) / (1 + u)), by its series */
	double z = (1 - u) / (1 + u), zz = z * z;
	for (int k = 1; k < 400; k += 2, z *= zz)
		sum += z / k;
	return (int64_t)(2 * sum * mean);
}

/* Bytes an entry with all headers, one node of four, 150,000 packets/s on the link. */
static double
bytes_per_entry(int short_percent)
{
	static uint8_t buf[ROOM];
	struct pr_tslog_builder b;
	struct pr_entry e = {.time = T0, .ordinal = 0};
	const uint8_t *body;
	size_t bytes = 0;
	uint64_t number = 1;
	int entries = 100000;

	pr_tslog_begin(&b, 0, 0, number, buf, sizeof buf);
	for (int i = 0; i < entries; i++) {
		e.seq = 4 * (uint64_t)i + 1;
		e.ordinal = (uint64_t)i;
		for (int k = 0; k < 4; k++)
			e.time += gap(1e9 / 150000);
		e.otime = e.time;
		e.fingerprint = (uint32_t)rand();
		e.flags = rand() % 100 < short_percent ? PR_ENTRY_CAPLEN : 0;
		e.caplen = e.flags ? 54 : 0;
		macs_of(&e, (unsigned)rand() % 2);
		if (!pr_tslog_add(&b, &e)) {
			bytes += pr_tslog_finish(&b, &body) + PR_FRAME_OVERHEAD;
			pr_tslog_begin(&b, 0, 0, ++number, buf, sizeof buf);
			ck_assert(pr_tslog_add(&b, &e));
		}
	}
	return (double)(bytes + pr_tslog_finish(&b, &body) + PR_FRAME_OVERHEAD) / entries;
}

START_TEST(under_two_percent)
{
	double plain = bytes_per_entry(0), mixed = bytes_per_entry(30);

	ck_assert_msg(plain < 9.0, "%.2f bytes an entry", plain);
	ck_assert_msg(mixed < 9.7, "%.2f bytes an entry", mixed);
	/* of a mean of 450 bytes a packet (CLog's mix) */
	ck_assert(plain < 0.02 * 450);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_loop_test(t, property_round_trip, 0, 4);
	tcase_add_test(t, pair_table_is_full);
	tcase_add_test(t, builder_refuses);
	tcase_add_test(t, under_two_percent);
}

int
main(void)
{
	return unit_run("wire_tslog build", fill);
}
