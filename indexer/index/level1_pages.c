/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/level1_pages.h"

/* ---- writing ---- */

/*
 * Size of pages: 10 bits for each key and segment. In segments with fewer than FEW keys, 12
 * bits of each hash are kept: that is cheap there, and a false positive costs the read of a
 * segment, a thousand times the cost of a key.
 */
#define BITS_A_KEY 10
#define FEW 2048 /* of a segment */
enum { LOW_OF_FEW = 12, LOW_MIN = 3 };
#define CROWD 6000 /* keys of a page, at most */

/* An item: page, 45 bits of the hash, segment. */
enum { PAGE_SHIFT = 52, SEGMENT_BITS = 7 };
#define SEGMENT(item) ((unsigned)((item) & ((1u << SEGMENT_BITS) - 1)))
#define PAGE_OF(item) ((uint32_t)((item) >> PAGE_SHIFT))
#define VALUE_BITS(item) ((uint32_t)((item) >> (PAGE_SHIFT - 32)))

_Static_assert(PRI_LEVEL1_SEGMENTS_MAX <= 64, "a set is a word");
_Static_assert(PRI_LEVEL1_PAGES_MAX < 1 << (64 - PAGE_SHIFT), "pages of an item");
_Static_assert(
	PAGE_HEADER + 4 +
			CROWD * (PRI_LEVEL1_LOW_MAX + 2 + 2 + PRI_LEVEL1_SEGMENTS_MAX) /
				8 <=
		UINT16_MAX,
	"the bytes of a page");

static uint32_t
pages_for(size_t count)
{
	size_t pages = (count * BITS_A_KEY / 8 + PAGE / 2) / PAGE;

	return PR_MAX(PR_MIN(pages, PRI_LEVEL1_PAGES_MAX), 1);
}

/* A key of one segment takes most: of more, each takes less than that. */
size_t
pri_level1_keys_bound(size_t count, unsigned segments, unsigned low_bits)
{
	size_t bits = count * (low_bits + 3 + index_bits(segments));

	return bits / 8 + pages_for(count) * (PAGE_HEADER + 3);
}

/* ---- sorting ---- */

/*
 * Sort key: the page and some bits of the hash. Keys that agree in these are treated as
 * one.
 */
enum { DIGITS = 3, DIGIT_BITS = 9 };

static inline unsigned
digit_of(uint64_t item, unsigned shift, unsigned digit)
{
	return item >> (shift + digit * DIGIT_BITS) & ((1u << DIGIT_BITS) - 1);
}

/* Makes items of the hashes, and counts how often each digit has each value. */
static void
make_items(uint64_t *hashes, const size_t *ends, const struct pri_level1_keys *k,
	unsigned shift, uint32_t starts[DIGITS][1 << DIGIT_BITS])
{
	size_t i = 0;

	memset(starts, 0, DIGITS * sizeof(starts[0]));
	for (unsigned s = 0; s < k->segments; s++)
		for (; i < ends[s]; i++) {
			uint64_t item = (uint64_t)page_of(hashes[i], k->pages)
						<< PAGE_SHIFT |
					(hashes[i] & UINT64_C(0xfffffffffff8)) << 4 | s;

			hashes[i] = item;
#pragma GCC unroll 3
			for (unsigned d = 0; d < DIGITS; d++)
				starts[d][digit_of(item, shift, d)]++;
		}
}

/*
 * Radix sort from the least digit on, so segments stay in order. Returns where the result
 * is: in hashes, or in the memory after them.
 */
static uint64_t *
sort(uint64_t *hashes, const size_t *ends, const struct pri_level1_keys *k, unsigned shift)
{
	uint32_t starts[DIGITS][1 << DIGIT_BITS];
	size_t count = ends[k->segments - 1];
	uint64_t *from = hashes;

	if (!count)
		return hashes;
	uint64_t *to = hashes + count;
	make_items(hashes, ends, k, shift, starts);
	for (unsigned d = 0; d < DIGITS; d++) {
		for (unsigned i = 0, at = 0; i < 1u << DIGIT_BITS; i++) {
			uint32_t n = starts[d][i];

			starts[d][i] = at;
			at += n;
		}
		for (size_t i = 0; i < count; i++)
			to[starts[d][digit_of(from[i], shift, d)]++] = from[i];
		uint64_t *swap = from;
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
	return __builtin_ctzll(set);
}

static inline bool
is_stretch(uint64_t set)
{
	uint64_t low = set >> first_of(set);

	return (low & (low + 1)) == 0;
}

/*
 * Merges the items of a key into one, and writes its set of segments beside it. Returns the
 * number of keys. Without branches, which could not be predicted.
 */
static size_t
gather(uint64_t *items, uint64_t *sets, size_t count, unsigned shift)
{
	uint64_t last = ~(items[0] >> shift), set = 0;
	size_t n = SIZE_MAX;

	for (size_t i = 0; i < count; i++) {
		uint64_t item = items[i], key = item >> shift;

		set = (key == last ? set : 0) | UINT64_C(1) << SEGMENT(item);
		n += key != last;
		last = key;
		items[n] = item;
		sets[n] = set;
	}
	return n + 1;
}

static void
count_sets(struct pri_level1_keys *k)
{
	unsigned one = 1 + k->index_bits, stretch = 2 + 2 * k->index_bits,
		 each = 2 + k->segments;
	uint32_t ends[PRI_LEVEL1_PAGES_MAX], end = 0;

	memset(ends, 0, k->pages * sizeof(ends[0]));
	for (size_t i = 0; i < k->distinct; i++) {
		uint64_t set = k->sets[i];

		k->set_bits += is_one(set) ? one : is_stretch(set) ? stretch : each;
		ends[PAGE_OF(k->items[i])] = i + 1;
	}
	for (uint32_t page = 0; page < k->pages; page++) {
		k->of_page[page] = ends[page] ? ends[page] - end : 0;
		end += k->of_page[page];
		k->crowd = PR_MAX(k->crowd, k->of_page[page]);
	}
}

/* ---- how well keys are told apart ---- */

/* Upper bound of the bytes: the upper part of a value takes less than 2 bits on average. */
static size_t
size_with(const struct pri_level1_keys *k, unsigned low_bits)
{
	return (k->distinct * (low_bits + 2) + k->set_bits) / 8 +
	       (size_t)k->pages * (PAGE_HEADER + 3);
}

void
pri_level1_keys_sort(struct pri_level1_keys *k, uint64_t *hashes, const size_t *ends,
	unsigned segments, size_t room)
{
	size_t count = ends[segments - 1], bits = count * BITS_A_KEY;

	*k = (struct pri_level1_keys){.segments = segments,
		.index_bits = index_bits(segments),
		.pages = pages_for(count)};
	/*
	 * the sort key leaves out unused bits of the page number, for more bits of the hash
	 */
	k->hash_bits = DIGITS * DIGIT_BITS - index_bits(k->pages);
	unsigned shift = PAGE_SHIFT - k->hash_bits;
	k->items = sort(hashes, ends, k, shift);
	k->sets = count && k->items == hashes ? hashes + count : hashes;
	k->distinct = count ? gather(k->items, k->sets, count, shift) : 0;
	count_sets(k);
	size_t rest = bits > k->set_bits ? (bits - k->set_bits) / (k->distinct + 1) : 0;
	rest = rest > 2 + LOW_MIN ? rest - 2 : LOW_MIN;
	if (rest < LOW_OF_FEW && count <= (size_t)segments * FEW)
		rest = LOW_OF_FEW;
	k->low_bits = rest < PRI_LEVEL1_LOW_MAX ? (unsigned)rest : PRI_LEVEL1_LOW_MAX;
	while (k->low_bits && size_with(k, k->low_bits) > room)
		k->low_bits--;
	if (size_with(k, k->low_bits) > room || k->crowd > CROWD)
		k->pages = 0;
}

/* ---- writing ---- */

struct bit_writer {
	uint8_t *at;
	uint64_t have;
	unsigned count; /* less than 8 */
};
#define PUT_MAX 56

/*
 * Writes bits without a branch: bytes after them are written too, and overwritten by the
 * next call.
 */
static inline void
put(struct bit_writer *b, uint64_t value, unsigned n)
{
	uint64_t have = b->have | value << b->count;
	unsigned count = b->count + n;

	pr_put_le64(b->at, have);
	b->at += count / 8;
	b->have = have >> (count & ~7u);
	b->count = count % 8;
}

/* Some bits that are written at once. */
struct some {
	uint64_t value;
	unsigned n;
};

static inline struct some
with(struct some a, struct some b)
{
	return (struct some){a.value | b.value << a.n, a.n + b.n};
}

/* Of one segment, or of a stretch of them. */
static inline struct some
set_of(uint64_t set, unsigned bits)
{
	unsigned first = first_of(set);
	struct some one = {first << 1, 1 + bits},
		    stretch = {1 | first << 2 |
				       (63 - (uint64_t)__builtin_clzll(set)) << (2 + bits),
			    2 + 2 * bits};

	return is_one(set) ? one : stretch;
}

#define ONES_MAX 24
_Static_assert(ONES_MAX + 1 + PRI_LEVEL1_LOW_MAX + 14 <= PUT_MAX, "a key at once");

static inline void
put_key(struct bit_writer *b, const struct pri_level1_keys *k, uint32_t step, uint64_t set)
{
	uint32_t ones = step >> k->low_bits;

	for (; ones > ONES_MAX; ones -= 16)
		put(b, 0xffff, 16);
	struct some key = with((struct some){(UINT64_C(1) << ones) - 1, ones + 1},
		(struct some){step & ((1u << k->low_bits) - 1), k->low_bits});
	if (is_stretch(set)) {
		key = with(key, set_of(set, k->index_bits));
		put(b, key.value, key.n);
	} else {
		put(b, key.value, key.n);
		put(b, 3, 2);
		for (unsigned n = k->segments, some; n; n -= some, set >>= some) {
			some = PR_MIN(n, 32);
			put(b, set & ((UINT64_C(1) << some) - 1), some);
		}
	}
}

/* Writes the page whose keys begin at `at`. Returns its bytes. */
static size_t
put_page(const struct pri_level1_keys *keys, size_t at, uint32_t count, uint8_t *out)
{
	/* a local copy: stores through `out` cannot change it */
	const struct pri_level1_keys k = *keys;
	struct bit_writer b = {.at = out + PAGE_HEADER};
	uint32_t value, last = 0;

	memset(out, 0, 8);
	pr_put_le16(out + 8, count);
	for (size_t end = at + count; at < end; at++, last = value) {
		value = value_of(VALUE_BITS(k.items[at]), k.hash_bits, count, k.low_bits);
		put_key(&b, &k, value - last, k.sets[at]);
	}
	if (b.count)
		*b.at++ = b.have;
	return b.at - out;
}

size_t
pri_level1_keys_put(const struct pri_level1_keys *k, uint8_t *out, uint8_t *lens)
{
	size_t used = 0, at = 0;

	for (uint32_t page = 0; page < k->pages; page++, at += k->of_page[page - 1]) {
		size_t len = put_page(k, at, k->of_page[page], out + used);
		pr_put_le16(lens + 2 * page, len);
		used += len;
	}
	return used;
}

/* ---- reading ---- */

/* ---- bits: behind the end all are 0 ---- */

struct bit_reader {
	const uint8_t *at, *end;
	uint64_t have; /* the next bits are the lowest ones */
	unsigned count;
};

/* n: up to 32 */
static uint32_t
get(struct bit_reader *b, unsigned n)
{
	for (; b->count <= 56; b->count += 8)
		b->have |= (uint64_t)(b->at < b->end ? *b->at++ : 0) << b->count;
	uint32_t value = (uint32_t)(b->have & ((UINT64_C(1) << n) - 1));
	b->have >>= n;
	b->count -= n;
	return value;
}

/* ---- which segments ---- */

static uint64_t
stretch_set(unsigned first, unsigned last)
{
	return first <= last && last < 64 ? UINT64_MAX >> (63 - last) & UINT64_MAX << first
					  : 0;
}

static uint64_t
get_set(struct bit_reader *b, unsigned segments, unsigned index_bits)
{
	if (!get(b, 1)) {
		unsigned first = get(b, index_bits);
		return stretch_set(first, first);
	}
	if (!get(b, 1)) {
		unsigned first = get(b, index_bits);
		return stretch_set(first, get(b, index_bits));
	}
	unsigned lower = PR_MIN(segments, 32);
	uint64_t set = get(b, lower);
	return set | (uint64_t)get(b, segments - lower) << 32;
}

uint64_t
pri_level1_find(
	const struct pri_level1 *l, uint64_t signature, const uint8_t *page, size_t len)
{
	struct bit_reader b = {.at = page + PAGE_HEADER, .end = page + len};
	uint32_t keys = pr_get_le16(page + 8), wanted, value = 0;
	unsigned bits = index_bits(l->segments);
	uint64_t found = 0;

	wanted = value_of(signature >> 16, l->hash_bits, keys, l->low_bits);
	for (uint32_t i = 0; i < keys && value <= wanted; i++) {
		while (get(&b, 1))
			value += 1u << l->low_bits;
		value += get(&b, l->low_bits);
		uint64_t set = get_set(&b, l->segments, bits);
		found |= value == wanted ? set : 0;
	}
	return found;
}
