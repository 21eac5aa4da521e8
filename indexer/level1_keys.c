/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/level1_keys.h"

#include <string.h>

#include "indexer/level1_format.h"
#include "proto/wire/cursor.h"

/*
 * As many bits as a Bloom filter of ten bits a key of each segment would take, but for few keys: each must
 * tell the segments that have it from those that have not with hardly an error, for a segment costs
 * a thousand times as much to read.
 */
#define BITS_A_KEY 10
#define FEW 2048 /* of a segment */
#define LOW_OF_FEW 12
#define LOW_MIN 3
#define CROWD 6000 /* keys of a page, at most */

/* An item: page, 45 bits of the hash, segment. */
#define PAGE_SHIFT 52
#define SEGMENT_BITS 7
#define SEGMENT(item) ((unsigned)((item) & ((1u << SEGMENT_BITS) - 1)))
#define PAGE_OF(item) ((uint32_t)((item) >> PAGE_SHIFT))
#define VALUE_BITS(item) ((uint32_t)((item) >> (PAGE_SHIFT - 32)))

_Static_assert(PR_LEVEL1_SEGMENTS_MAX <= 64, "a set is a word");
_Static_assert(PR_LEVEL1_PAGES_MAX < 1 << (64 - PAGE_SHIFT), "pages of an item");
_Static_assert(
	PAGE_HEADER + 4 +
			CROWD * (PR_LEVEL1_LOW_MAX + 2 + 2 + PR_LEVEL1_SEGMENTS_MAX) / 8 <=
		UINT16_MAX,
	"the bytes of a page");

static uint32_t
pages_for(size_t count)
{
	size_t pages = (count * BITS_A_KEY / 8 + PAGE / 2) / PAGE;

	if (pages == 0)
		return 1;
	return pages < PR_LEVEL1_PAGES_MAX ? (uint32_t)pages : PR_LEVEL1_PAGES_MAX;
}

/* A key of one segment takes most: of more, each takes less than that. */
size_t
pr_level1_keys_bound(size_t count, unsigned segments, unsigned low_bits)
{
	size_t bits = count * (low_bits + 3 + index_bits(segments));

	return bits / 8 + pages_for(count) * (PAGE_HEADER + 3);
}

/* ---- sorting ---- */

/* What is sorted by: page and some of the hash. Keys that have these in common are one, as seldom as need be. */
struct digits {
	unsigned count, bits;
};
#define DIGITS_MAX 3
#define DIGIT_MAX 11
static const struct digits of_few = {3, 9}, of_many = {2, 11};

/* As many bits as pages have are left out above, so that more of the hash is looked at. */
static unsigned
page_bits(uint32_t pages)
{
	unsigned bits = 0;

	while (1u << bits < pages)
		bits++;
	return bits;
}

static void
make_items(uint64_t *hashes, const size_t *ends, unsigned segments, uint32_t pages)
{
	size_t i = 0;

	for (unsigned s = 0; s < segments; s++)
		for (; i < ends[s]; i++)
			hashes[i] = (uint64_t)page_of(hashes[i], pages) << PAGE_SHIFT |
				    (hashes[i] & UINT64_C(0xfffffffffff8)) << 4 | s;
}

static void
pass(const uint64_t *from, uint64_t *to, size_t count, uint32_t *starts, unsigned shift,
	unsigned bits)
{
	uint32_t at = 0;

	for (unsigned i = 0; i < 1u << bits; i++) {
		uint32_t n = starts[i];

		starts[i] = at;
		at += n;
	}
	for (size_t i = 0; i < count; i++)
		to[starts[from[i] >> shift & ((1u << bits) - 1)]++] = from[i];
}

/* By radix, from the least digit on: segments stay in order. Returns where they are then: items or other. */
static uint64_t *
sort(uint64_t *items, uint64_t *other, size_t count, unsigned shift, struct digits digits)
{
	uint32_t starts[DIGITS_MAX][1 << DIGIT_MAX];
	uint64_t *from = items, *to = other, *swap;

	for (unsigned d = 0; d < digits.count; d++)
		memset(starts[d], 0, sizeof(starts[d][0]) << digits.bits);
	for (size_t i = 0; i < count; i++)
		for (unsigned d = 0; d < digits.count; d++)
			starts[d][items[i] >> (shift + d * digits.bits) &
				  ((1u << digits.bits) - 1)]++;
	for (unsigned d = 0; d < digits.count; d++) {
		pass(from, to, count, starts[d], shift + d * digits.bits, digits.bits);
		swap = from;
		from = to;
		to = swap;
	}
	return from;
}

/* ---- which segments ---- */

static inline bool
is_one(uint64_t set)
{
	return (set & (set - 1)) == 0;
}

static inline unsigned
first_of(uint64_t set)
{
	return (unsigned)__builtin_ctzll(set);
}

static inline unsigned
last_of(uint64_t set)
{
	return 63 - (unsigned)__builtin_clzll(set);
}

static inline bool
is_stretch(uint64_t set)
{
	uint64_t low = set >> first_of(set);

	return (low & (low + 1)) == 0;
}

/* Items of one key become one, with a set beside it; returns how many. Without a branch, which none could foresee. */
static size_t
gather(uint64_t *items, uint64_t *sets, size_t count, unsigned shift)
{
	uint64_t key, last = ~(items[0] >> shift);
	size_t n = SIZE_MAX;

	for (size_t i = 0; i < count; i++) {
		uint64_t item = items[i], have;

		key = item >> shift;
		have = key == last ? sets[n] : 0;
		n += key != last;
		last = key;
		items[n] = item;
		sets[n] = have | UINT64_C(1) << SEGMENT(item);
	}
	return n + 1;
}

static void
count_sets(struct pr_level1_keys *k)
{
	unsigned one = 1 + k->index_bits, stretch = 2 + 2 * k->index_bits,
		 each = 2 + k->segments;

	memset(k->of_page, 0, k->pages * sizeof(k->of_page[0]));
	for (size_t i = 0; i < k->distinct; i++) {
		uint64_t set = k->sets[i];

		k->set_bits += is_one(set) ? one : is_stretch(set) ? stretch : each;
		k->of_page[PAGE_OF(k->items[i])]++;
	}
}

/* ---- how well keys are told apart ---- */

/* In bytes, at most: a value's upper part takes less than 2 bits on the mean. */
static size_t
size_with(const struct pr_level1_keys *k, unsigned low_bits)
{
	return (k->distinct * (low_bits + 2) + k->set_bits) / 8 +
	       (size_t)k->pages * (PAGE_HEADER + 3);
}

static unsigned
low_bits_for(const struct pr_level1_keys *k, size_t count)
{
	size_t bits = count * BITS_A_KEY, rest;

	rest = bits > k->set_bits ? (bits - k->set_bits) / (k->distinct + 1) : 0;
	rest = rest > 2 + LOW_MIN ? rest - 2 : LOW_MIN;
	if (rest < LOW_OF_FEW && count <= (size_t)k->segments * FEW)
		rest = LOW_OF_FEW;
	return rest < PR_LEVEL1_LOW_MAX ? (unsigned)rest : PR_LEVEL1_LOW_MAX;
}

static bool
crowded(const struct pr_level1_keys *k)
{
	for (uint32_t i = 0; i < k->pages; i++)
		if (k->of_page[i] > CROWD)
			return true;
	return false;
}

void
pr_level1_keys_sort(struct pr_level1_keys *k, uint64_t *hashes, const size_t *ends,
	unsigned segments, size_t room)
{
	size_t count = ends[segments - 1];
	struct digits digits = count <= (size_t)segments * FEW ? of_few : of_many;
	unsigned shift;

	*k = (struct pr_level1_keys){.segments = segments,
		.index_bits = index_bits(segments),
		.pages = pages_for(count)};
	k->hash_bits = digits.count * digits.bits - page_bits(k->pages);
	shift = PAGE_SHIFT - k->hash_bits;
	make_items(hashes, ends, segments, k->pages);
	k->items = sort(hashes, hashes + count, count, shift, digits);
	k->sets = k->items == hashes ? hashes + count : hashes;
	k->distinct = count ? gather(k->items, k->sets, count, shift) : 0;
	count_sets(k);
	k->low_bits = low_bits_for(k, count);
	while (k->low_bits && size_with(k, k->low_bits) > room)
		k->low_bits--;
	if (size_with(k, k->low_bits) > room || crowded(k))
		k->pages = 0;
}

/* ---- writing ---- */

struct bits {
	uint8_t *at;
	uint64_t have;
	unsigned count;
};

/* n: up to 32 */
static inline void
put(struct bits *b, uint32_t value, unsigned n)
{
	b->have |= (uint64_t)value << b->count;
	b->count += n;
	if (b->count < 32)
		return;
	pr_put_le32(b->at, (uint32_t)b->have);
	b->at += 4;
	b->have >>= 32;
	b->count -= 32;
}

static inline void
put_upper(struct bits *b, uint32_t ones)
{
	for (; ones >= 16; ones -= 16)
		put(b, 0xffff, 16);
	put(b, (1u << ones) - 1, ones + 1);
}

static inline void
put_set(struct bits *b, const struct pr_level1_keys *k, uint64_t set)
{
	unsigned bits = k->index_bits, first = first_of(set);

	if (is_one(set)) {
		put(b, first << 1, 1 + bits);
	} else if (is_stretch(set)) {
		put(b, 1 | first << 2 | last_of(set) << (2 + bits), 2 + 2 * bits);
	} else {
		put(b, 3, 2);
		for (unsigned n = k->segments, some; n; n -= some, set >>= some) {
			some = n < 32 ? n : 32;
			put(b, (uint32_t)set, some);
		}
	}
}

static uint8_t *
end_of(struct bits *b)
{
	for (unsigned i = 0; i < b->count; i += 8)
		*b->at++ = (uint8_t)(b->have >> i);
	return b->at;
}

/* Keys from at on. Returns its bytes. */
static size_t
put_page(const struct pr_level1_keys *k, size_t at, uint32_t keys, uint8_t *out)
{
	struct bits b = {.at = out + PAGE_HEADER};
	unsigned low = k->low_bits;
	uint32_t value, step, last = 0;

	memset(out, 0, 8);
	pr_put_le16(out + 8, (uint16_t)keys);
	for (size_t end = at + keys; at < end; at++, last = value) {
		value = value_of(VALUE_BITS(k->items[at]), k->hash_bits, keys, low);
		step = value - last;
		put_upper(&b, step >> low);
		put(&b, step & ((1u << low) - 1), low);
		put_set(&b, k, k->sets[at]);
	}
	return (size_t)(end_of(&b) - out);
}

size_t
pr_level1_keys_put(const struct pr_level1_keys *k, uint8_t *out, uint8_t *lens)
{
	size_t used = 0, len, at = 0;

	for (uint32_t page = 0; page < k->pages; page++, at += k->of_page[page - 1]) {
		len = put_page(k, at, k->of_page[page], out + used);
		pr_put_le16(lens + 2 * page, (uint16_t)len);
		used += len;
	}
	return used;
}
