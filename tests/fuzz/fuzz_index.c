/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the index, and keys of packets. Covers indexer/index/level1.c indexer/index/level2.c
 * indexer/index/index_key.c
 * Options -max_len=16384
 */
#include <stdlib.h>
#include <string.h>

#include "indexer/index/index_key.h"
#include "indexer/index/level1.h"
#include "indexer/index/level2.h"
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

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	ask_packet(data, len);
	ask_index(data, len);
	ask_sealed(data, len);
	return 0;
}
