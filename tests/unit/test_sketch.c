/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/segment_keys.h"
#include "proto/wire/segment.h"
#include "tests/unit/frames.h"
#include "tests/unit/port_keys.h"
#include "tests/unit/unit.h"
#include "tests/unit/index_keys.h"

#define PACKETS 60
#define KEYS_MAX                                                                           \
	(PACKETS * (PRI_KEYS_MAX + PORT_KEYS_MAX + PRI_COMPOSITES_MAX * PRI_COMPOSITE_KEYS))

struct set {
	uint64_t items[KEYS_MAX];
	size_t count;
};

static int
order(const void *va, const void *vb)
{
	const uint64_t a = *(const uint64_t *)va, b = *(const uint64_t *)vb;

	return a < b ? -1 : a > b;
}

static void
put_key(struct set *s, const struct pri_key *key)
{
	s->items[s->count++] = pri_key_signature(key);
}

static void
distinct(struct set *s)
{
	size_t kept = 0;

	qsort(s->items, s->count, sizeof(s->items[0]), order);
	for (size_t i = 0; i < s->count; i++)
		if (i == 0 || s->items[i] != s->items[i - 1])
			s->items[kept++] = s->items[i];
	s->count = kept;
}

/* What the sketch promises, packet by packet and key by key. */
static void
take_keys(const struct pr_packet *p, const struct pri_composites *composites,
	struct set *keys, struct set *wide)
{
	struct pri_key own[PRI_KEYS_MAX], made[PRI_COMPOSITE_KEYS];
	size_t count = keys_of_packet(p, own);
	struct pri_packet_fields fields;

	for (size_t i = 0; i < count; i++) {
		struct pri_key either = pri_key_either(&own[i]);

		/* level 1 has it as an octet, or with its protocol */
		if ((own[i].kind != PRI_KEY_NET || own[i].len > 1) &&
			own[i].kind != PRI_KEY_SPORT && own[i].kind != PRI_KEY_DPORT)
			put_key(keys, &own[i]);
		put_key(wide, &either);
	}
	pri_packet_fields_parse(
		pri_linktype_layout_find(p->linktype), p->data, p->caplen, &fields);
	count = port_keys(&fields, own);
	for (size_t i = 0; i < count; i++)
		put_key(keys, &own[i]);
	for (size_t i = 0; i < PRI_COMPOSITES_MAX && composites->masks[i]; i++) {
		count = pri_composite_keys(&fields, composites->masks[i], made);
		for (size_t j = 0; j < count; j++)
			put_key(keys, &made[j]);
	}
}

static void
check_set(const struct pri_hashset *got, struct set *wanted, const char *what)
{
	static struct set own;

	own.count = got->count;
	memcpy(own.items, got->items, got->count * sizeof(got->items[0]));
	distinct(&own);
	distinct(wanted);
	ck_assert_msg(own.count == got->count, "%s: a key is there twice", what);
	ck_assert_msg(
		own.count == wanted->count &&
			!memcmp(own.items, wanted->items, own.count * sizeof(own.items[0])),
		"%s: %zu keys, %zu wanted", what, own.count, wanted->count);
}

/* Counted as the segment's kinds are, to be held against what its addresses have. */
static uint64_t
traffic(const struct pr_packet *p)
{
	struct pri_packet_fields f;
	bool src, dst;

	pri_packet_fields_parse(
		pri_linktype_layout_find(p->linktype), p->data, p->caplen, &f);
	src = f.have & PRI_FIELD_SRC;
	dst = f.have & PRI_FIELD_DST;
	if (src && dst && !memcmp(f.src, f.dst, f.address_len))
		dst = false;
	return p->len * ((uint64_t)src + dst);
}

static void
check_segment(struct pri_segment_keys *s, uint16_t linktype)
{
	static struct set keys, wide;
	static uint8_t body[PACKETS * 300];
	struct frame frames[PACKETS];
	struct pr_segment_builder b;
	uint32_t count = 1 + pick(PACKETS);
	uint64_t bytes = 0, counted = 0;
	struct pr_error err;

	keys.count = wide.count = 0;
	pr_segment_begin(&b, body, sizeof(body), 0);
	for (uint32_t i = 0; i < count; i++) {
		struct frame *f = &frames[i];
		struct pr_packet p = {.seq = 7 + i, .linktype = linktype};

		if (i && pick(4) == 0)
			*f = frames[pick(i)];
		else
			make_frame(f, linktype);
		if (f->len && pick(2))
			spoil(f);
		p.data = f->data;
		p.caplen = f->len;
		p.len = f->len + 4;
		ck_assert(pr_segment_add(&b, &p));
		take_keys(&p, &s->composites, &keys, &wide);
		bytes += traffic(&p);
	}
	ck_assert_int_eq(pri_segment_keys_take(s, body, pr_segment_seal(&b), &err), 0);
	check_set(&s->keys, &keys, "keys");
	check_set(&s->wide, &wide, "keys of level 2");
	for (size_t i = 0; i < s->hosts.count; i++)
		counted += s->hosts.items[i].traffic;
	ck_assert_uint_eq(counted, bytes);
}

START_TEST(has_the_keys_of_its_packets_and_no_others)
{
	static const uint16_t linktypes[] = {1, 1, 1, 113, 276, 101, 0, 9};
	const struct pri_composites sets[] = {
		{{0}}, {{PRI_PART_SRC | PRI_PART_DPORT, PRI_PART_DST | PRI_PART_VLAN}}};
	struct pri_segment_keys s = {0};

	srandom(11);
	for (unsigned i = 0; i < 4000; i++) {
		s.composites = sets[i % 2];
		check_segment(&s, linktypes[pick(COUNT(linktypes))]);
	}
	pri_segment_keys_free(&s);
}
END_TEST

static void
add_tests(TCase *tc)
{
	tcase_add_test(tc, has_the_keys_of_its_packets_and_no_others);
}

int
main(void)
{
	return unit_run("sketch", add_tests);
}
