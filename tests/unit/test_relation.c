/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/cursor.h"
#include "proto/wire/relation.h"
#include "tests/unit/unit.h"

#define W PR_RELATION_WINDOW
#define S PR_NS_PER_S

static struct pr_error err;

/* A UDP packet over raw IP; the first fragment of one, if asked for. */
static struct pr_packet
packet(uint8_t *data, uint16_t id, bool fragment, int64_t time)
{
	memset(data, 0, 28);
	data[0] = 0x45;
	pr_put_be16(data + 2, 28);
	pr_put_be16(data + 4, id);
	data[6] = fragment ? 0x20 : 0;
	data[9] = 17;
	data[12] = 10;
	data[16] = 11;
	pr_put_be16(data + 24, 8);
	return (struct pr_packet){.time = time,
		.otime = time,
		.linktype = 101,
		.caplen = 28,
		.len = 28,
		.data = data};
}

/* The same behind a tag, as a copy is. */
static uint16_t
test_copy(const struct pr_relations *r, uint16_t id, int64_t time)
{
	uint8_t frame[46] = {[12] = 0x81, [16] = 0x08};
	struct pr_packet p = packet(frame + 18, id, false, time);

	p.linktype = 1;
	p.data = frame;
	p.caplen = p.len = sizeof(frame);
	return pr_relations_test(r, &p);
}

START_TEST(within_the_window)
{
	struct pr_relations r = {.keys = NULL};
	uint8_t data[28];
	struct pr_packet p;

	for (int64_t t = 0; t < 3; t++) { /* seen again after 10 s, and long after that */
		p = packet(data, 7, true, t < 2 ? t * 10 * S : 1000 * S);
		ck_assert_int_eq(pr_relations_note(&r, &p, &err), 0);
	}
	pr_relations_finish(&r);
	ck_assert(pr_relations_valid(&r));
	ck_assert_uint_eq(r.count, 4); /* fragment and packet, twice */
	ck_assert_uint_eq(r.span_count, 2);
	for (int64_t t = -100 * S; t < 1100 * S; t += S) {
		bool near = (t >= -W && t <= 10 * S + W) ||
			    (t >= 1000 * S - W && t <= 1000 * S + W);

		p = packet(data, 7, true, t);
		ck_assert_int_eq(
			pr_relations_test(&r, &p), near ? PR_PACKET_FRAGMENT_OF : 0);
		ck_assert_int_eq(test_copy(&r, 7, t), near ? PR_PACKET_COPY_OF : 0);
		ck_assert_int_eq(test_copy(&r, 8, t), 0);
		ck_assert_int_eq(pr_relations_overlap(&r, t, t), near);
	}
	ck_assert(pr_relations_overlap(&r, 100 * S, 2000 * S));
	ck_assert(!pr_relations_overlap(&r, 100 * S, 900 * S));
	pr_relations_free(&r);
}
END_TEST

/* More stretches of time than are kept apart: what is put together covers all of them. */
START_TEST(many_spans)
{
	struct pr_relations r = {.keys = NULL};
	uint8_t data[28];
	int64_t times[3 * PR_RELATION_SPANS_MAX];
	size_t count = sizeof(times) / sizeof(times[0]);

	for (size_t i = 0; i < count; i++) {
		struct pr_packet p;

		times[i] = (int64_t)((i * 7919) % count) * 100 * S;
		p = packet(data, 1, false, times[i]);
		ck_assert_int_eq(pr_relations_note(&r, &p, &err), 0);
	}
	pr_relations_finish(&r);
	ck_assert(pr_relations_valid(&r));
	ck_assert_uint_le(r.span_count, PR_RELATION_SPANS_MAX);
	for (size_t i = 0; i < count; i++) {
		ck_assert(pr_relations_overlap(&r, times[i] - W, times[i] - W));
		ck_assert(pr_relations_overlap(&r, times[i] + W, times[i] + W));
		ck_assert_int_eq(test_copy(&r, 1, times[i]), PR_PACKET_COPY_OF);
	}
	pr_relations_free(&r);
}
END_TEST

START_TEST(bounded)
{
	struct pr_relations r = {.keys = NULL};
	uint8_t data[28];
	uint32_t n;

	for (n = 0; n <= PR_RELATION_KEYS_MAX; n++) {
		struct pr_packet p = packet(data, (uint16_t)n, false, 0);

		pr_put_be32(data + 12, n);
		if (pr_relations_note(&r, &p, &err) < 0)
			break;
	}
	ck_assert_uint_eq(n, PR_RELATION_KEYS_MAX);
	ck_assert_ptr_nonnull(strstr(err.text, "narrower"));
	pr_relations_free(&r);
}
END_TEST

/* Cut anywhere and with any byte changed: nothing is read that is not there. */
START_TEST(hostile)
{
	struct pr_relations r = {.keys = NULL};
	uint8_t data[28];
	struct pr_packet p = packet(data, 7, true, 0);

	ck_assert_int_eq(pr_relations_note(&r, &p, &err), 0);
	pr_relations_finish(&r);
	for (uint32_t cut = 0; cut <= 28; cut++)
		for (int change = -1; change < (int)cut; change++) {
			uint8_t *copy = malloc(cut + 1);

			memcpy(copy, data, cut);
			if (change >= 0)
				copy[change] ^= (uint8_t)(1 << cut % 8);
			p.data = copy;
			p.caplen = cut;
			pr_relations_test(&r, &p);
			free(copy);
		}
	pr_relations_free(&r);
}
END_TEST

START_TEST(disorder)
{
	struct pr_relation_key keys[] = {{1, 0, 5}, {2, 0, 5}};
	struct pr_relation_span spans[] = {{0, 5}, {6, 9}};
	struct pr_relations r = {.keys = keys, .count = 2, .spans = spans, .span_count = 2};

	ck_assert(pr_relations_valid(&r));
	keys[0].key = 3;
	ck_assert(!pr_relations_valid(&r));
	keys[0] = (struct pr_relation_key){1, 6, 5};
	ck_assert(!pr_relations_valid(&r));
	keys[0] = (struct pr_relation_key){1, 0, 5};
	spans[1].first = 5;
	ck_assert(!pr_relations_valid(&r));
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, within_the_window);
	tcase_add_test(tc, many_spans);
	tcase_add_test(tc, bounded);
	tcase_add_test(tc, hostile);
	tcase_add_test(tc, disorder);
}

int
main(void)
{
	return unit_run("relation", fill);
}
