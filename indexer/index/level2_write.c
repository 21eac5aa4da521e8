/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "indexer/index/level2_format.h"
#include "proto/wire/cursor.h"

void
pri_level2_begin(struct pri_level2_writer *w)
{
	w->count = 0;
	w->columns = 0;
	w->segments = 0;
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
	double mean = keys ? squares / (double)keys : 1;
	uint16_t slices = slices_of((columns + 7) / 8);
	double plain = columns ? (double)keys / columns : 1;
	/* a group must not grow without bound for a single column that is full */
	double want = mean < 2 * plain ? mean : 2 * plain;
	uint32_t pages = (uint32_t)(want * PRI_SIGNATURE_BITS_A_KEY / slices) + 1;

	return pages < PRI_SLICES_PAGES ? PRI_SLICES_PAGES : pages;
}

static double
squares_of(const struct pri_level2_writer *w)
{
	double sum = 0;
	size_t from = 0;

	for (unsigned i = 0; i < w->columns; from = w->ends[i], i++)
		sum += (double)(w->ends[i] - from) * (double)(w->ends[i] - from);
	return sum;
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
	return size_for(w->columns, w->count, squares_of(w));
}

static int
make_room(struct pri_level2_writer *w, size_t more)
{
	uint64_t *grown;
	size_t room = w->count + more;

	if (room <= w->room)
		return 0;
	room += room / 2;
	grown = realloc(w->hashes, room * sizeof(*grown));
	if (!grown)
		return -1;
	w->hashes = grown;
	w->room = room;
	return 0;
}

int
pri_level2_add(struct pri_level2_writer *w, uint64_t first_sequence,
	const struct pri_level2_column *column, const uint64_t *hashes, size_t count,
	size_t max)
{
	double squares = squares_of(w) + (double)count * (double)count;

	if (w->columns == PRI_LEVEL2_COLUMNS_MAX ||
		(w->columns && size_for(w->columns + 1, w->count + count, squares) > max))
		return 0;
	if (make_room(w, count) < 0)
		return -1;
	if (w->columns == 0)
		w->first_sequence = first_sequence;
	memcpy(w->hashes + w->count, hashes, count * sizeof(*hashes));
	w->count += count;
	w->column[w->columns] = *column;
	w->ends[w->columns++] = w->count;
	w->segments += column->segments;
	return 1;
}

static void
put_head(const struct pri_level2_writer *w, uint16_t link, uint32_t pages, uint8_t *out)
{
	memset(out, 0, lead_of(pages));
	pr_put_le32(out, PRI_LEVEL2_MAGIC);
	pr_put_le16(out + 4, PRI_LEVEL2_VERSION);
	pr_put_le16(out + 6, link);
	pr_put_le64(out + 8, w->first_sequence);
	pr_put_le32(out + 16, w->segments);
	pr_put_le16(out + 20, (uint16_t)w->columns);
	pr_put_le16(out + 22, (uint16_t)((w->columns + 7) / 8));
	pr_put_le32(out + 24, pages);
	for (unsigned i = 0; i < w->columns; i++) {
		pr_put_le64(out + HEADER + i * COLUMN, w->column[i].check);
		pr_put_le32(out + HEADER + i * COLUMN + 8, w->column[i].segments);
	}
	pr_put_le64(out + 32, head_check(out, w->columns));
}

/* Of one column: where its bits are in a slice, and which of those bytes'. */
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
		.bit = (uint8_t)(1u << column % 8)};

	for (size_t i = column ? w->ends[column - 1] : 0; i < w->ends[column]; i++)
		put_key(&c, w->hashes[i]);
}

void
pri_level2_finish(const struct pri_level2_writer *w, uint16_t link, uint8_t *out)
{
	uint32_t pages = pages_for(w->columns, w->count, squares_of(w));
	uint8_t *first = out + lead_of(pages);

	put_head(w, link, pages, out);
	memset(first, 0, (size_t)pages * PRI_SLICES_PAGE);
	for (unsigned i = 0; i < w->columns; i++)
		put_column(w, i, pages, first);
	for (uint32_t i = 0; i < pages; i++) {
		uint8_t *page = first + (size_t)i * PRI_SLICES_PAGE;

		pr_put_le64(page, page_check(pr_get_le64(out + 32), i, page));
	}
}
