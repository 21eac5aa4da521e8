/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/level2.h"

#include <xxhash.h>

#include "proto/base/array.h"
#include "proto/base/field_table.h"

enum { HEADER = 40, CHECKED = 32, COLUMN = 16, PAGE_HEADER = 16 };
#define LEAD (PRI_SLICES_PAGE - SFS_RESERVED_HEADER)
#define LEAD_LONG (LEAD - 192) /* if the record follows the block's header */
#define LONG_PAGES 128 /* half of a block: the previous block rarely has room for it */

_Static_assert(HEADER + COLUMN * PRI_LEVEL2_COLUMNS_MAX == PRI_LEVEL2_HEAD_MAX,
	"header and table");
_Static_assert(PRI_LEVEL2_HEAD_MAX <= LEAD_LONG, "room for the table");

static inline uint32_t
lead_of(uint32_t pages)
{
	return pages < LONG_PAGES ? LEAD : LEAD_LONG;
}

static inline uint16_t
slices_of(unsigned stride)
{
	return (PRI_SLICES_PAGE - PAGE_HEADER) / stride;
}

static inline uint64_t
head_check(const uint8_t *head, unsigned columns)
{
	uint64_t seed = XXH3_64bits(head, CHECKED);

	return XXH3_64bits_withSeed(head + HEADER, (size_t)columns * COLUMN, seed);
}

static inline uint64_t
page_check(uint64_t head, uint32_t page, const uint8_t *bytes)
{
	return XXH3_64bits_withSeed(bytes + 8, PRI_SLICES_PAGE - 8, head + page);
}

uint64_t
pri_segments_digest_add(uint64_t check, uint64_t sequence, uint64_t proof)
{
	uint8_t both[16];

	pr_put_le64(both, sequence);
	pr_put_le64(both + 8, proof);
	return XXH3_64bits_withSeed(both, sizeof(both), check);
}

static const struct pr_field head_rows[] = {PR_ZEROS(6),
	PR_INTS(pri_level2, link, first_sequence, segments, columns, stride, pages),
	PR_ZEROS(4), PR_INT(pri_level2, check)};
static const struct pr_field_table head_fields = PR_FIELD_TABLE(head_rows);
static const struct pr_field column_rows[] = {
	PR_INTS(pri_level2_column, check, segments), PR_ZEROS(4)};
static const struct pr_field_table column_fields = PR_FIELD_TABLE(column_rows);

/* ---- reading ---- */

int
pri_level2_open(struct pri_level2 *l, const void *head, size_t len, size_t total,
	struct pr_error *err)
{
	struct pr_cursor c = pr_cursor_make(head, len);
	const uint8_t *p = head;
	uint64_t segments = 0;
	bool none = false;

	if (len < HEADER || pr_get_le32(p) != PRI_LEVEL2_MAGIC)
		return pr_error_set(err, "index: not a record of level 2");
	if (pr_get_le16(p + 4) != PRI_LEVEL2_VERSION)
		return pr_error_set(err, "index: version %u, this program reads version %u",
			pr_get_le16(p + 4), PRI_LEVEL2_VERSION);
	none = !pr_field_table_load(&c, l, &head_fields, PR_LITTLE_ENDIAN);
	l->lead = lead_of(l->pages);
	if (l->columns == 0 || l->columns > PRI_LEVEL2_COLUMNS_MAX ||
		l->stride != (l->columns + 7) / 8 || l->pages == 0 ||
		len < (size_t)HEADER + (size_t)COLUMN * l->columns ||
		total != l->lead + (uint64_t)l->pages * PRI_SLICES_PAGE ||
		head_check(p, l->columns) != l->check)
		return pr_error_set(err, "index: the head of a group is damaged");
	for (unsigned i = 0; i < l->columns; i++) {
		none |= !pr_field_table_load(
				&c, &l->column[i], &column_fields, PR_LITTLE_ENDIAN) ||
			l->column[i].segments == 0;
		segments += l->column[i].segments;
	}
	if (none || segments != l->segments)
		return pr_error_set(err, "index: the head of a group is damaged");
	l->slices_a_page = slices_of(l->stride);
	return 0;
}

bool
pri_level2_page_valid(const struct pri_level2 *l, uint32_t page, const uint8_t *bytes)
{
	return page_check(l->check, page, bytes) == pr_get_le64(bytes);
}

void
pri_level2_apply(const struct pri_level2 *l, struct pri_slice_walk walk,
	const uint8_t *page, uint8_t *vector)
{
	for (int i = 0; i < PRI_SLICES_PROBES; i++, walk.at += walk.step) {
		const uint8_t *slice =
			page + PAGE_HEADER +
			(size_t)pri_reduce(walk.at, l->slices_a_page) * l->stride;

		for (unsigned j = 0; j < l->stride; j++)
			vector[j] &= slice[j];
	}
}

/* ---- writing ---- */

void
pri_level2_begin(struct pri_level2_writer *w)
{
	w->count = 0;
	w->columns = w->segments = 0;
	w->squares = 0;
}

void
pri_level2_free(struct pri_level2_writer *w)
{
	free(w->hashes);
	*w = (struct pri_level2_writer){0};
}

/*
 * All columns have as many slices: enough for a column of the mean size, weighted by size, so that
 * the larger ones do not fill up.
 */
static uint32_t
pages_for(unsigned columns, size_t keys, double squares)
{
	double mean = keys ? squares / keys : 1;
	uint16_t slices = slices_of((columns + 7) / 8);
	double plain = columns ? (double)keys / columns : 1;
	/* the record must not grow without limit because of one full column */
	double want = PR_MIN(mean, 2 * plain);
	uint32_t pages = (uint32_t)(want * PRI_SIGNATURE_BITS_A_KEY / slices) + 1;

	return PR_MAX(pages, PRI_SLICES_PAGES);
}

static size_t
size_for(unsigned columns, size_t keys, double squares)
{
	uint32_t pages = pages_for(columns, keys, squares);

	return lead_of(pages) + (size_t)pages * PRI_SLICES_PAGE;
}

size_t
pri_level2_size(const struct pri_level2_writer *w)
{
	return size_for(w->columns, w->count, w->squares);
}

int
pri_level2_add(struct pri_level2_writer *w, uint64_t first_sequence,
	const struct pri_level2_column *column, const uint64_t *hashes, size_t count,
	size_t max)
{
	double squares = w->squares + count * (double)count;

	if (w->columns == PRI_LEVEL2_COLUMNS_MAX ||
		(w->columns && size_for(w->columns + 1, w->count + count, squares) > max))
		return 0;
	if (PR_ARRAY_RESERVE(w->hashes, w->room, w->count + count) < 0)
		return -1;
	if (w->columns == 0)
		w->first_sequence = first_sequence;
	if (count)
		memcpy(w->hashes + w->count, hashes, count * sizeof(*hashes));
	w->count += count;
	w->squares = squares;
	w->column[w->columns] = *column;
	w->ends[w->columns++] = w->count;
	w->segments += column->segments;
	return 1;
}

/* Place of one column's bit in a slice: its byte, and the bit in that byte. */
struct column {
	uint8_t *first; /* page, with that byte of the first slice */
	unsigned stride, slices;
	uint32_t pages;
	uint8_t bit;
};

static inline __attribute__((always_inline)) void
put_key(const struct column *c, uint64_t hash)
{
#pragma GCC unroll 2
	for (unsigned i = 0; i < PRI_SLICES_PAGES; i++) {
		struct pri_slice_walk walk = pri_slice_walk_begin(hash, i, c->pages);
		uint8_t *page = c->first + (size_t)walk.page * PRI_SLICES_PAGE;

#pragma GCC unroll 3
		for (int j = 0; j < PRI_SLICES_PROBES; j++, walk.at += walk.step)
			page[(size_t)pri_reduce(walk.at, c->slices) * c->stride] |= c->bit;
	}
}

static void
put_column(
	const struct pri_level2_writer *w, unsigned column, uint32_t pages, uint8_t *first)
{
	const unsigned stride = (w->columns + 7) / 8;
	const struct column c = {.first = first + PAGE_HEADER + column / 8,
		.stride = stride,
		.slices = slices_of(stride),
		.pages = pages,
		.bit = 1u << column % 8};

	for (size_t i = column ? w->ends[column - 1] : 0; i < w->ends[column]; i++)
		put_key(&c, w->hashes[i]);
}

void
pri_level2_finish(const struct pri_level2_writer *w, uint16_t link, uint8_t *out)
{
	uint32_t pages = pages_for(w->columns, w->count, w->squares);
	uint8_t *first = out + lead_of(pages);
	struct pr_writer to = pr_writer_make(out, PRI_LEVEL2_HEAD_MAX);
	struct pri_level2 l = {
		.link = link, .stride = (w->columns + 7) / 8, .pages = pages};

	PR_COPY(&l, w, first_sequence, segments, columns);
	memset(out, 0, lead_of(pages));
	bool fits = pr_field_table_store(&to, &l, &head_fields, PR_LITTLE_ENDIAN);
	for (unsigned i = 0; i < w->columns; i++)
		fits &= pr_field_table_store(
			&to, &w->column[i], &column_fields, PR_LITTLE_ENDIAN);
	(void)fits; /* there is room for all */
	pr_put_le32(out, PRI_LEVEL2_MAGIC);
	pr_put_le16(out + 4, PRI_LEVEL2_VERSION);
	uint64_t check = head_check(out, w->columns);
	pr_put_le64(out + CHECKED, check);
	memset(first, 0, (size_t)pages * PRI_SLICES_PAGE);
	for (unsigned i = 0; i < w->columns; i++)
		put_column(w, i, pages, first);
	for (uint32_t i = 0; i < pages; i++) {
		uint8_t *page = first + (size_t)i * PRI_SLICES_PAGE;

		pr_put_le64(page, page_check(check, i, page));
	}
}
