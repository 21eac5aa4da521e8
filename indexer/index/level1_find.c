/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/level1_format.h"
#include "proto/wire/cursor.h"

/* ---- bits: behind the end all are 0 ---- */

struct bits {
	const uint8_t *at, *end;
	uint64_t have; /* the next are the lowest */
	unsigned count;
};

static void
fill(struct bits *b)
{
	for (; b->count <= 56; b->count += 8)
		b->have |= (uint64_t)(b->at < b->end ? *b->at++ : 0) << b->count;
}

/* n: up to 32 */
static uint32_t
get(struct bits *b, unsigned n)
{
	uint32_t value;

	fill(b);
	value = (uint32_t)(b->have & ((UINT64_C(1) << n) - 1));
	b->have >>= n;
	b->count -= n;
	return value;
}

static uint32_t
get_upper(struct bits *b)
{
	uint32_t ones = 0;

	while (get(b, 1))
		ones++;
	return ones;
}

/* ---- which segments ---- */

static uint64_t
stretch(unsigned first, unsigned last)
{
	return first <= last && last < 64 ? UINT64_MAX >> (63 - last) & UINT64_MAX << first
					  : 0;
}

static uint64_t
get_set(struct bits *b, unsigned segments, unsigned index_bits)
{
	unsigned first, lower;
	uint64_t set;

	if (!get(b, 1)) {
		first = get(b, index_bits);
		return stretch(first, first);
	}
	if (!get(b, 1)) {
		first = get(b, index_bits);
		return stretch(first, get(b, index_bits));
	}
	lower = segments < 32 ? segments : 32;
	set = get(b, lower);
	return set | (uint64_t)get(b, segments - lower) << 32;
}

uint64_t
pri_level1_find(
	const struct pri_level1 *l, uint64_t signature, const uint8_t *page, size_t len)
{
	struct bits b = {.at = page + PAGE_HEADER, .end = page + len};
	uint32_t keys = pr_get_le16(page + 8), wanted, value = 0;
	unsigned bits = index_bits(l->segments);
	uint64_t found = 0, set;

	wanted = value_of((uint32_t)(signature >> 16), l->hash_bits, keys, l->low_bits);
	for (uint32_t i = 0; i < keys && value <= wanted; i++) {
		value += get_upper(&b) << l->low_bits;
		value += get(&b, l->low_bits);
		set = get_set(&b, l->segments, bits);
		found |= value == wanted ? set : 0;
	}
	return found;
}
