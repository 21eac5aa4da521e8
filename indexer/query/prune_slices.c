/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/prune_slices.h"

#include <stdlib.h>
#include <string.h>

enum { UNKNOWN, DAMAGED, READ };

void
pri_prune_slices_free(struct pri_prune_slices *s)
{
	free(s->part.bytes);
	free(s->pages.bytes);
	free(s->have);
}

static bool
prepare_pages(struct pri_prune_slices *s)
{
	size_t pages = s->head.pages;
	uint8_t *grown;

	if (pages > s->have_room) {
		grown = realloc(s->have, pages);
		if (!grown)
			return false;
		s->have = grown;
		s->have_room = pages;
	}
	memset(s->have, UNKNOWN, pages);
	return pri_read_buffer_grow(&s->pages, pages * PRI_SLICES_PAGE) == 0;
}

static bool
read_head(struct pri_prune_slices *s, const struct pri_index_ref *ref)
{
	size_t len = ref->handle.length;
	const uint8_t *at;

	if (len > PRI_LEVEL2_HEAD_MAX)
		len = PRI_LEVEL2_HEAD_MAX;
	at = pri_prune_read_part(&s->read, 0, len, &s->part);
	return at && pri_level2_open(&s->head, at, len, ref->handle.length, NULL) == 0 &&
	       s->head.link == s->link && s->head.first_sequence == ref->first_sequence &&
	       s->head.segments == ref->segments && prepare_pages(s);
}

bool
pri_prune_slices_take(struct pri_prune_slices *s, const struct pri_index_ref *ref)
{
	s->read.handle = ref->handle;
	if (read_head(s, ref))
		return true;
	s->read.figures->damaged += !s->read.expired;
	return false;
}

static const uint8_t *
page(struct pri_prune_slices *s, uint32_t number)
{
	uint8_t *to = s->pages.bytes + (size_t)number * PRI_SLICES_PAGE;
	const uint8_t *at;

	if (s->have[number] == UNKNOWN) {
		at = pri_prune_read_part(&s->read, pri_level2_page_at(&s->head, number),
			PRI_SLICES_PAGE, &s->part);
		s->have[number] =
			at && pri_level2_page_valid(&s->head, number, at) ? READ : DAMAGED;
		if (s->have[number] == READ)
			memcpy(to, at, PRI_SLICES_PAGE);
		else
			s->read.figures->damaged += !s->read.expired;
	}
	return s->have[number] == READ ? to : NULL;
}

void
pri_prune_slices_all(struct pri_prune_slices *s)
{
	size_t len = (size_t)s->head.pages * PRI_SLICES_PAGE;
	const uint8_t *at = pri_prune_read_part(
		&s->read, pri_level2_page_at(&s->head, 0), len, &s->part);

	for (uint32_t i = 0; at && i < s->head.pages; i++, at += PRI_SLICES_PAGE) {
		if (!pri_level2_page_valid(&s->head, i, at))
			continue;
		memcpy(s->pages.bytes + (size_t)i * PRI_SLICES_PAGE, at, PRI_SLICES_PAGE);
		s->have[i] = READ;
	}
}

void
pri_prune_slices_apply(struct pri_prune_slices *s, uint64_t hash, uint8_t *vector)
{
	struct pri_slices slices;
	const uint8_t *bytes;

	pri_slices_of(hash, s->head.pages, s->head.slices_a_page, &slices);
	for (int i = 0; i < PRI_SLICES_PAGES; i++) {
		bytes = page(s, slices.page[i]);
		if (bytes)
			pri_level2_apply(&s->head, &slices, i, bytes, vector);
	}
}
