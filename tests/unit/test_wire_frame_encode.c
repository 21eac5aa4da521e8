/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding control frames: what is refused, a log from where it lies, and the largest MARK. */
#include <string.h>

#include "proto/base/clock.h"
#include "proto/wire/frame.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire_whole.h"

#define TYPE PR_ETHERTYPE_DEFAULT

static const struct pr_frame_key key = {.set = true, .active = {1, 2, 3}};

START_TEST(encoder_refuses)
{
	struct pr_frame f = {.header.type = PR_FRAME_ANN};
	struct pr_mark_link link = {.link = 1};
	uint8_t buf[2048];
#define REFUSED() ck_assert_uint_eq(whole_frame(&f, TYPE, NULL, buf, sizeof buf), 0)
#define TAKEN() ck_assert_uint_gt(whole_frame(&f, TYPE, NULL, buf, sizeof buf), 0)
	REFUSED(); /* no name */
	strcpy(f.body.ann.name, "n");
	TAKEN();
	strcpy(f.body.ann.version, "a\nb");
	REFUSED();
	memset(f.body.ann.version, 'v', sizeof f.body.ann.version); /* no end */
	REFUSED();
	f.body.ann.version[PR_NAME_MAX] = '\0';
	TAKEN();
	f.header.type = 0;
	REFUSED();
	f.header.type = PR_FRAME_TYPES;
	REFUSED();
	memset(&f.body, 0, sizeof f.body);
	f.header.type = PR_FRAME_PORT;
	REFUSED(); /* a speed that is not known is not told */
	f.body.port.speed = 1;
	TAKEN();
	memset(&f.body, 0, sizeof f.body);
	f.header.type = PR_FRAME_UNOBSERVED;
	REFUSED(); /* generation 0 stands for a dispatcher that has none */
	f.body.observation.generation = 1;
	TAKEN();
	f.body.observation.count = 1;
	REFUSED(); /* no reason */
	f.body.observation.items[0] =
		(struct pr_unobserved){.reason = 1, .since = 5, .until = 4};
	REFUSED();
	f.body.observation.items[0].until = 5;
	TAKEN();
	f.body.observation.count = PR_UNOBSERVED_MAX + 1;
	REFUSED();
	memset(&f.body, 0, sizeof f.body);
	f.header.type = PR_FRAME_MARK;
	TAKEN(); /* a dispatcher without links */
	f.body.mark.links = &link;
	f.body.mark.count = 1;
	REFUSED(); /* link_count is 0 */
	f.body.mark.link_count = 1;
	TAKEN();
	f.body.mark.count = f.body.mark.link_count = PR_MARK_LINKS_MAX + 1;
	REFUSED();
}
END_TEST

START_TEST(encoder_refuses_classes)
{
	struct pr_frame f = {.header.type = PR_FRAME_CLASS};
	uint8_t buf[2048];

	f.body.class = (struct pr_class){.number = PR_CLASS_MAX, .name = "c"};
	TAKEN(); /* neither a guarantee nor a limit */
	f.body.class.number = 0;
	REFUSED(); /* stands for none */
	f.body.class.number = PR_CLASS_MAX + 1;
	REFUSED();
	f.body.class = (struct pr_class){1, 1000, INT64_MAX, "c", 0};
	TAKEN();
	f.body.class.memory = 1000;
	TAKEN();
	f.body.class.memory = 1001;
	REFUSED();
	f.body.class.memory = 0;
	f.body.class.guarantee = 1001;
	REFUSED();
	f.body.class = (struct pr_class){1, 0, -1, "c", 0};
	REFUSED();
	f.body.class = (struct pr_class){1, 0, 0, "", 0};
	REFUSED();
}
END_TEST

/* A class without a share of memory has the bytes of older versions; with one, two more. */
START_TEST(class_with_memory)
{
	struct pr_frame f = {.header.type = PR_FRAME_CLASS,
				.body.class = {3, 5, 7, "bulk", 0}},
			out;
	uint8_t buf[256];
	size_t without = whole_frame(&f, TYPE, NULL, buf, sizeof buf);

	ck_assert_int_eq(pr_frame_decode(buf, without, TYPE, NULL, &out), PR_FRAME_OK);
	ck_assert_uint_eq(out.body.class.memory, 0);
	f.body.class.memory = 200;
	size_t with = whole_frame(&f, TYPE, NULL, buf, sizeof buf);
	ck_assert_uint_eq(with, without + 2);
	ck_assert_int_eq(pr_frame_decode(buf, with, TYPE, NULL, &out), PR_FRAME_OK);
	ck_assert_uint_eq(out.body.class.memory, 200);
	ck_assert_str_eq(out.body.class.name, "bulk");
}
END_TEST

START_TEST(tslog_in_place)
{
	struct pr_frame f = {.header.type = PR_FRAME_TSLOG}, out;
	uint8_t buf[256], body[100];

	for (size_t i = 0; i < sizeof body; i++)
		body[i] = (uint8_t)(i + 1);
	for (size_t at = 0; at + sizeof body <= sizeof buf; at++) {
		memcpy(buf + at, body, sizeof body);
		f.body.raw.data = buf + at;
		f.body.raw.len = sizeof body;
		size_t len = whole_frame(&f, TYPE, NULL, buf, sizeof buf);
		ck_assert_uint_eq(len, PR_FRAME_OVERHEAD + sizeof body);
		ck_assert_int_eq(pr_frame_decode(buf, len, TYPE, NULL, &out), PR_FRAME_OK);
		ck_assert_uint_eq(out.body.raw.len, sizeof body);
		ck_assert_mem_eq(out.body.raw.data, body, sizeof body);
	}
}
END_TEST

START_TEST(full_mark_fits_an_ethernet_frame)
{
	struct pr_mark_link links[PR_MARK_LINKS_MAX] = {{0}};
	struct pr_frame f = {.header.type = PR_FRAME_MARK}, out;
	uint8_t buf[PR_ETHER_LEN + 1500];

	for (int i = 0; i < PR_MARK_LINKS_MAX; i++) {
		links[i].link = (uint16_t)i;
		links[i].last_seq = UINT64_MAX;
		memset(links[i].name, 'a' + i, PR_NAME_MAX);
	}
	f.body.mark = (struct pr_mark){.link_count = UINT16_MAX,
		.count = PR_MARK_LINKS_MAX,
		.links = links,
		.said_until = INT64_MIN};
	size_t len = whole_frame(&f, TYPE, &key, buf, sizeof buf);
	ck_assert_uint_gt(len, 0);
	ck_assert_int_eq(pr_frame_decode(buf, len, TYPE, &key, &out), PR_FRAME_OK);
	ck_assert_ptr_eq(out.body.mark.links, out.link_room);
	ck_assert_int_eq(out.body.mark.said_until, INT64_MIN);
	for (int i = 0; i < PR_MARK_LINKS_MAX; i++)
		ck_assert_mem_eq(&out.link_room[i], &links[i], sizeof links[i]);
}
END_TEST

/* A link whose carrier comes and goes: the frame stays short, and no time without carrier is forgotten. */
START_TEST(observation_is_bounded)
{
	struct pr_frame f = {.header.type = PR_FRAME_UNOBSERVED}, out;
	struct pr_observation *o = &f.body.observation;
	uint8_t buf[2048];
	size_t len;

	o->link = 3;
	o->generation = 9;
	ck_assert(!pr_observation_again(o, 1));
	pr_observation_begin(o, PR_UNOBSERVED_BEGIN, PR_TIME_MAX, "");
	pr_observation_begin(o, PR_UNOBSERVED_BEGIN, 50, "");
	for (int64_t i = 1; i <= 100; i++) {
		pr_observation_lost(o, PR_UNOBSERVED_NO_CARRIER, 100 * i, "");
		ck_assert(pr_observation_again(o, 100 * i + 10));
		ck_assert(!pr_observation_again(o, 100 * i + 20));
	}
	pr_observation_lost(o, PR_UNOBSERVED_NO_CARRIER, 20000, "");
	pr_observation_lost(o, PR_UNOBSERVED_STOPPED, 20005, "ann");
	ck_assert_uint_eq(o->count, PR_UNOBSERVED_MAX);
	ck_assert_int_eq(o->items[0].until, 50);
	ck_assert_int_eq(o->items[1].since, 100);
	for (int64_t t = 100; t <= 10010; t += 5) {
		bool has = t % 100 > 10;

		for (unsigned i = 1; i < o->count; i++)
			has |= o->items[i].since <= t && t <= o->items[i].until;
		ck_assert(has);
	}
	ck_assert_int_eq(o->items[PR_UNOBSERVED_MAX - 2].until, 20005);
	len = whole_frame(&f, TYPE, NULL, buf, sizeof buf);
	ck_assert_uint_gt(len, 0);
	ck_assert_uint_le(len, 1514);
	ck_assert_int_eq(pr_frame_decode(buf, len, TYPE, NULL, &out), PR_FRAME_OK);
	ck_assert_mem_eq(&out.body.observation, o, sizeof(*o));
}
END_TEST

/* Of a link that was stopped twenty times in a day, the list has the last ones, each as long as it was. */
START_TEST(observation_of_long_ago)
{
	struct pr_observation o = {.link = 3};

	pr_observation_begin(&o, PR_UNOBSERVED_BEGIN, 50, "");
	for (int64_t i = 1; i <= 20; i++) {
		pr_observation_lost(
			&o, PR_UNOBSERVED_STOPPED, 3600 * i * PR_NS_PER_S, "ann");
		ck_assert(pr_observation_again(&o, (3600 * i + 1) * PR_NS_PER_S));
	}
	ck_assert_uint_eq(o.count, PR_UNOBSERVED_MAX);
	ck_assert_int_eq(o.items[0].until, 50);
	for (int64_t i = 1; i < PR_UNOBSERVED_MAX; i++) {
		ck_assert_int_eq(o.items[i].since, 3600 * (i + 5) * PR_NS_PER_S);
		ck_assert_int_eq(o.items[i].until - o.items[i].since, PR_NS_PER_S);
	}
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_test(t, encoder_refuses);
	tcase_add_test(t, observation_is_bounded);
	tcase_add_test(t, observation_of_long_ago);
	tcase_add_test(t, encoder_refuses_classes);
	tcase_add_test(t, class_with_memory);
	tcase_add_test(t, tslog_in_place);
	tcase_add_test(t, full_mark_fits_an_ethernet_frame);
}

int
main(void)
{
	return unit_run("wire_frame encode", fill);
}
