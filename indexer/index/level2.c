/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/level2.h"

#include "indexer/index/level2_format.h"
#include "proto/wire/cursor.h"

uint64_t
pri_segments_digest_add(uint64_t check, uint64_t sequence, uint64_t proof)
{
	uint8_t both[16];

	pr_put_le64(both, sequence);
	pr_put_le64(both + 8, proof);
	return XXH3_64bits_withSeed(both, sizeof(both), check);
}

/* ---- reading ---- */

/* Do its numbers fit each other? Then nothing that follows can go wrong. */
static bool
plausible(const struct pri_level2 *l, size_t len, size_t total)
{
	return l->columns > 0 && l->columns <= PRI_LEVEL2_COLUMNS_MAX &&
	       l->stride == (l->columns + 7) / 8 && l->pages > 0 &&
	       len >= (size_t)HEADER + (size_t)COLUMN * l->columns &&
	       total == l->lead + (uint64_t)l->pages * PRI_SLICES_PAGE;
}

static bool
take_columns(struct pri_level2 *l, const uint8_t *table)
{
	uint64_t segments = 0;

	for (unsigned i = 0; i < l->columns; i++, table += COLUMN) {
		l->column[i].check = pr_get_le64(table);
		l->column[i].segments = pr_get_le32(table + 8);
		segments += l->column[i].segments;
		if (l->column[i].segments == 0)
			return false;
	}
	return segments == l->segments;
}

int
pri_level2_open(struct pri_level2 *l, const void *head, size_t len, size_t total,
	struct pr_error *err)
{
	const uint8_t *p = head;

	if (len < HEADER || pr_get_le32(p) != PRI_LEVEL2_MAGIC)
		return pr_error_set(err, "index: not a record of level 2");
	if (pr_get_le16(p + 4) != PRI_LEVEL2_VERSION)
		return pr_error_set(err, "index: version %u, this program reads version %u",
			pr_get_le16(p + 4), PRI_LEVEL2_VERSION);
	l->link = pr_get_le16(p + 6);
	l->first_sequence = pr_get_le64(p + 8);
	l->segments = pr_get_le32(p + 16);
	l->columns = pr_get_le16(p + 20);
	l->stride = pr_get_le16(p + 22);
	l->pages = pr_get_le32(p + 24);
	l->check = pr_get_le64(p + 32);
	l->lead = lead_of(l->pages);
	if (!plausible(l, len, total) || head_check(p, l->columns) != l->check ||
		!take_columns(l, p + HEADER))
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
pri_level2_apply(const struct pri_level2 *l, const struct pri_slices *slices, int which,
	const uint8_t *page, uint8_t *vector)
{
	for (int i = 0; i < PRI_SLICES_PROBES; i++) {
		const uint8_t *slice =
			page + PAGE_HEADER + (size_t)slices->slice[which][i] * l->stride;

		for (unsigned j = 0; j < l->stride; j++)
			vector[j] &= slice[j];
	}
}
