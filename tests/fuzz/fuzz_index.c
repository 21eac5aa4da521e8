/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the index, and keys of packets. Covers indexer/index/level1.c indexer/index/level2.c
 * indexer/index/index_key.c
 * Options -max_len=16384
 *
 * The input is a record, a packet, and composite keys as configured.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/builder_add.h"
#include "indexer/index/index_key.h"
#include "indexer/index/level1.h"
#include "indexer/index/level2.h"
#include "proto/wire/segment.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/index_seal.h"
#include "tests/unit/index_keys.h"

static void
ask_segment(const struct pri_level1 *l, const struct pri_level1_segment *s)
{
	struct pri_key key = pri_key_number(PRI_KEY_DPORT, 53);
	struct pri_series_bucket bucket;
	struct pri_held_walk walk;
	uint64_t seq, last = 0, count = 0;
	size_t at = 0;

	if (l->whole)
		level1_has_key(l, s, &key);
	for (int number = PRI_NUMBER_TIME; number <= PRI_NUMBER_DST4; number++)
		pri_level1_has_range(s, (enum pri_number)number, 1, 70000);
	pri_held_walk_begin(&walk, s, 5000);
	while (pri_held_walk_next(&walk, &seq)) {
		MUST(seq <= 5000 && (!count++ || seq > last));
		last = seq;
	}
	while (pri_level1_series(s, &at, &bucket))
		;
}

static void
ask_pages(const struct pri_level1 *l)
{
	size_t at, len;

	for (uint64_t i = 0; l->pages && i < 8; i++) {
		uint64_t signature = i * 0x9e3779b97f4a7c15u;

		at = pri_level1_page_at(l, pri_level1_page_of(l, signature), &len);
		pri_level1_find(l, signature, l->body + at, len);
	}
}

static void
ask_group(const uint8_t *data, size_t len)
{
	static struct pri_level2 l;
	uint8_t vector[PRI_LEVEL2_VECTOR];

	if (pri_level2_open(&l, data, len, len, NULL) < 0)
		return;
	memset(vector, 0xff, sizeof(vector));
	for (unsigned i = 0; i < PRI_SLICES_PAGES; i++) {
		struct pri_slice_walk walk =
			pri_slice_walk_begin(len * 0x9e3779b97f4a7c15u, i, l.pages);
		const uint8_t *page = data + pri_level2_page_at(&l, walk.page);

		pri_level2_page_valid(&l, walk.page, page);
		pri_level2_apply(&l, walk, page, vector);
	}
}

/* What is there, a head or all of a record of `total` bytes. */
static void
ask_record(const uint8_t *data, size_t len, size_t total)
{
	struct pri_level1_top tops[PRI_LEVEL1_TOPS_MAX];
	struct pri_level1_segment s;
	struct pri_level1 l;

	if (pri_level1_open(&l, data, len, total, NULL) < 0)
		return;
	if (l.whole) {
		pri_level1_tops(&l, tops);
		ask_pages(&l);
	}
	for (unsigned i = 0; i < l.segments; i++) {
		pri_level1_get(&l, i, &s);
		ask_segment(&l, &s);
	}
}

static void
ask_index(const uint8_t *data, size_t len)
{
	ask_group(data, len);
	ask_record(data, len, len);
	ask_record(data, len, len + 65536);
}

/* The same with a head that is checked: no mutation finds a check by itself. */
static void
ask_sealed(const uint8_t *data, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);

	memcpy(copy, data, len);
	if (index_seal(copy, len))
		ask_index(copy, len);
	free(copy);
}

static void
ask_packet(const uint8_t *data, size_t len)
{
	static const uint16_t linktypes[] = {1, 113, 276, 101, 0, 9};
	struct pri_key keys[PRI_KEYS_MAX];
	struct pr_packet p = {.data = data, .caplen = (uint32_t)len, .len = (uint32_t)len};

	for (size_t i = 0; i < sizeof(linktypes) / sizeof(linktypes[0]); i++) {
		p.linktype = linktypes[i];
		unsigned count = keys_of_packet(&p, keys);

		MUST(count <= PRI_KEYS_MAX);
		/* either side in one is asked for in its place */
		for (unsigned k = 0; k < count; k++) {
			struct pri_key either = pri_key_either(&keys[k]);
			struct pri_key again = pri_key_either(&either);

			MUST(pri_key_hash(&either) == pri_key_hash(&again));
		}
	}
}

/* What an index has to know of the packet that it was made of. */
struct known {
	struct pri_key keys[PRI_KEYS_MAX + PRI_COMPOSITES_MAX * PRI_COMPOSITE_KEYS];
	size_t count;
	bool asked;
};

static int
check_record(void *arg, const struct pr_index_record *r)
{
	struct known *known = arg;
	struct pri_level1_segment s;
	struct pri_level1 l;

	if (r->level != 1)
		return 0;
	MUST(pri_level1_open(&l, r->body, r->len, r->len, NULL) == 0 && l.segments == 1);
	for (uint32_t page = 0; page < l.pages; page++) {
		size_t len, at = pri_level1_page_at(&l, page, &len);

		MUST(pri_level1_page_valid(&l, page, l.body + at, len));
	}
	pri_level1_get(&l, 0, &s);
	for (size_t i = 0; i < known->count; i++)
		MUST(level1_has_key(&l, &s, &known->keys[i]));
	ask_record(r->body, r->len, r->len);
	known->asked = true;
	return 0;
}

/* Every second key is in another of two columns. */
static void
check_group(const struct known *known)
{
	static struct pri_level2 l;
	struct pri_level2_writer w = {0};
	uint64_t hashes[2][PRI_KEYS_MAX + PRI_COMPOSITES_MAX * PRI_COMPOSITE_KEYS];
	size_t counts[2] = {0, 0}, size;
	uint8_t *body;

	for (size_t i = 0; i < known->count; i++)
		hashes[i % 2][counts[i % 2]++] = pri_key_hash(&known->keys[i]);
	pri_level2_begin(&w);
	for (unsigned i = 0; i < 2; i++) {
		struct pri_level2_column column = {
			.check = pri_segments_digest_add(0, 7 + i, i), .segments = 1};

		MUST(pri_level2_add(&w, 7 + i, &column, hashes[i], counts[i], SIZE_MAX) ==
			1);
	}
	size = pri_level2_size(&w);
	body = malloc(size);
	MUST(body);
	pri_level2_finish(&w, 3, body);
	MUST(pri_level2_open(&l, body, size, size, NULL) == 0 && l.columns == 2);
	for (size_t i = 0; i < known->count; i++) {
		uint8_t vector[PRI_LEVEL2_VECTOR];

		memset(vector, 0xff, sizeof(vector));
		for (unsigned j = 0; j < PRI_SLICES_PAGES; j++) {
			struct pri_slice_walk walk =
				pri_slice_walk_begin(hashes[i % 2][i / 2], j, l.pages);
			const uint8_t *page = body + pri_level2_page_at(&l, walk.page);

			MUST(pri_level2_page_valid(&l, walk.page, page));
			pri_level2_apply(&l, walk, page, vector);
		}
		MUST(vector[0] & 1u << i % 2);
	}
	free(body);
	pri_level2_free(&w);
}

/* An index never leaves out a key that a packet has. */
static void
check_promise(const uint8_t *data, size_t len, const struct pri_composites *composites)
{
	static struct known known;
	static uint8_t room[PR_SEGMENT_HEADER + 20000];
	struct pri_builder *b =
		pri_builder_create(3, sizeof(room) * 8, check_record, &known, NULL);
	struct pr_packet p = {.epoch = 5,
		.link = 3,
		.linktype = 1,
		.seq = 1,
		.data = data,
		.caplen = (uint32_t)len,
		.len = (uint32_t)len};
	struct pr_segment_builder segment;
	struct pri_packet_fields fields;

	MUST(b);
	pri_packet_fields_parse(pri_linktype_layout_find(1), data, len, &fields);
	known.asked = false;
	known.count = pri_keys_of_fields(&fields, known.keys);
	for (size_t i = 0; i < PRI_COMPOSITES_MAX && composites->masks[i]; i++)
		known.count += pri_composite_keys(
			&fields, composites->masks[i], &known.keys[known.count]);
	check_group(&known);
	pri_builder_composites(b, composites);
	pr_segment_begin(&segment, room, sizeof(room), 0);
	segment.header.epoch = p.epoch;
	segment.header.link = p.link;
	segment.header.linktype = p.linktype;
	MUST(pr_segment_add(&segment, &p));
	MUST(pri_builder_add(b, 1, 1, room, pr_segment_seal(&segment), NULL) == 1);
	MUST(pri_builder_finish(b, PRI_BUILDER_ALL, NULL) == 1 && known.asked);
	pri_builder_destroy(&b);
}

/* The input as the value of an option; if it is none, *out is what it may be. */
static void
ask_composites(const uint8_t *data, size_t len, struct pri_composites *out)
{
	char *text = strndup((const char *)data, len < 100 ? len : 100);
	const struct pr_string_list list = {.items = &text, .count = 1};
	struct pr_error err = {""};

	MUST(text);
	if (pri_composites_parse(&list, out, &err) < 0) {
		MUST(err.text[0]);
		*out = (struct pri_composites){{PRI_PART_SRC | PRI_PART_DPORT,
			PRI_PART_DST | PRI_PART_PROTO | PRI_PART_VLAN,
			PRI_PART_SPORT | PRI_PART_DPORT, PRI_PART_SRC | PRI_PART_DST}};
	}
	for (size_t i = 0; i < PRI_COMPOSITES_MAX && out->masks[i]; i++)
		MUST(out->masks[i] >> PRI_PARTS == 0 &&
			__builtin_popcount(out->masks[i]) >= 2);
	free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct pri_composites composites;

	ask_packet(data, len);
	ask_composites(data, len, &composites);
	check_promise(data, len, &composites);
	ask_index(data, len);
	ask_sealed(data, len);
	return 0;
}
