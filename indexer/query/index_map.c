/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/index_map.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/index/level2.h"

#define PROOFS_MAX (1u << 28) /* of a stream: 64 TB of segments */

void
pri_index_map_free(struct pri_index_map *book)
{
	for (size_t i = 0; i < book->count; i++) {
		for (int level = 0; level < PRI_INDEX_LEVELS; level++)
			free(book->streams[i]->level[level].items);
		free(book->streams[i]->proofs);
		free(book->streams[i]);
	}
	free(book->streams);
	*book = (struct pri_index_map){0};
}

struct pri_index_stream *
pri_index_map_find(const struct pri_index_map *book, uint16_t link)
{
	for (size_t i = 0; i < book->count; i++)
		if (book->streams[i]->link == link)
			return book->streams[i];
	return NULL;
}

static struct pri_index_stream *
find_or_make(struct pri_index_map *book, uint16_t link)
{
	struct pri_index_stream **streams, *s = pri_index_map_find(book, link);

	if (s)
		return s;
	streams = realloc(book->streams, (book->count + 1) * sizeof(*streams));
	if (!streams)
		return NULL;
	book->streams = streams;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->link = link;
	streams[book->count++] = s;
	return s;
}

/* ---- proofs ---- */

uint64_t
pri_index_proof(const struct pri_index_stream *s, uint64_t sequence)
{
	return sequence >= s->base && sequence - s->base < s->proof_count
		       ? s->proofs[sequence - s->base]
		       : 0;
}

static int
proof_room(struct pri_index_stream *s, size_t want)
{
	size_t room = s->proof_room;
	uint64_t *grown;

	if (want <= room)
		return 0;
	room = want + want / 2 + 64;
	grown = realloc(s->proofs, room * sizeof(*grown));
	if (!grown)
		return -1;
	memset(grown + s->proof_room, 0, (room - s->proof_room) * sizeof(*grown));
	s->proofs = grown;
	s->proof_room = room;
	return 0;
}

int
pri_index_map_proof(struct pri_index_map *book, uint16_t link, uint64_t sequence,
	uint64_t proof, struct pr_error *err)
{
	struct pri_index_stream *s = find_or_make(book, link);
	size_t at;

	if (!s)
		return pr_error_set(err, "no memory for the list of segments");
	if (s->proof_count == 0)
		s->base = sequence;
	if (sequence < s->base || sequence - s->base >= PROOFS_MAX)
		return 0; /* such a one is without index */
	at = (size_t)(sequence - s->base);
	if (proof_room(s, at + 1) < 0)
		return pr_error_set(err, "no memory for the list of segments");
	if (at >= s->proof_count) {
		memset(s->proofs + s->proof_count, 0,
			(at - s->proof_count) * sizeof(*s->proofs));
		s->proof_count = at + 1;
	}
	s->proofs[at] = proof;
	return 0;
}

bool
pri_index_check(const struct pri_index_stream *s, uint64_t first, uint32_t segments,
	uint64_t *check)
{
	*check = 0;
	if (first < s->base || first - s->base > s->proof_count ||
		segments > s->proof_count - (first - s->base))
		return false;
	for (uint64_t i = first; i < first + segments; i++) {
		uint64_t proof = s->proofs[i - s->base];

		if (!proof)
			return false;
		*check = pri_segments_digest_add(*check, i, proof);
	}
	return true;
}

/* ---- records ---- */

static uint64_t
end_of(const struct pri_index_ref *ref)
{
	return ref->first_sequence + ref->segments;
}

/* The first that ends behind the sequence. */
static size_t
search(const struct pri_index_list *l, uint64_t sequence)
{
	size_t low = 0, high = l->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (end_of(&l->items[mid]) > sequence)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

static int
list_insert(struct pri_index_list *l, const struct pri_index_ref *ref)
{
	size_t from = search(l, ref->first_sequence), to = from;
	size_t room = l->room ? l->room + l->room / 2 : 16;
	struct pri_index_ref *grown;

	/* what it overlaps is older, and was about segments that are no more */
	while (to < l->count && l->items[to].first_sequence < end_of(ref))
		to++;
	if (from == to && l->count == l->room) {
		grown = realloc(l->items, room * sizeof(*grown));
		if (!grown)
			return -1;
		l->items = grown;
		l->room = room;
	}
	memmove(l->items + from + 1, l->items + to, (l->count - to) * sizeof(*l->items));
	l->items[from] = *ref;
	l->count += 1 - (to - from);
	return 0;
}

int
pri_index_map_take(struct pri_index_map *book, const struct pr_directory_index *entry,
	const struct sfs_handle *handle, struct pr_error *err)
{
	struct pri_index_ref ref = {.handle = *handle,
		.first_sequence = entry->first_sequence,
		.check = entry->check,
		.segments = entry->segments};
	struct pri_index_stream *s;

	if (entry->level < 1 || entry->level > PRI_INDEX_LEVELS)
		return 0;
	s = find_or_make(book, entry->link);
	if (!s || list_insert(&s->level[entry->level - 1], &ref) < 0)
		return pr_error_set(err, "no memory for the list of indexes");
	return 0;
}

static void
list_expire(struct pri_index_list *l, uint64_t sequence)
{
	size_t gone = search(l, sequence);

	if (!gone)
		return;
	l->count -= gone;
	memmove(l->items, l->items + gone, l->count * sizeof(*l->items));
}

void
pri_index_map_expire(struct pri_index_map *book, uint16_t link, uint64_t sequence)
{
	struct pri_index_stream *s = pri_index_map_find(book, link);
	uint64_t gone;

	if (!s || sequence == 0)
		return;
	for (int level = 0; level < PRI_INDEX_LEVELS; level++)
		list_expire(&s->level[level], sequence);
	if (sequence <= s->base)
		return;
	gone = sequence - s->base;
	if (gone >= s->proof_count) {
		s->proof_count = 0;
	} else if (gone > s->proof_count / 4) { /* not for each single one */
		s->proof_count -= (size_t)gone;
		memmove(s->proofs, s->proofs + gone, s->proof_count * sizeof(*s->proofs));
		s->base = sequence;
	}
}

struct pri_index_ref *
pri_index_find(const struct pri_index_stream *s, unsigned level, uint64_t sequence)
{
	const struct pri_index_list *l = &s->level[level - 1];
	size_t at = search(l, sequence);

	return at < l->count && l->items[at].first_sequence <= sequence ? &l->items[at]
									: NULL;
}

bool
pri_index_ref_usable(const struct pri_index_stream *s, struct pri_index_ref *ref)
{
	uint64_t check;

	if (!ref->proven)
		ref->proven =
			pri_index_check(s, ref->first_sequence, ref->segments, &check) &&
			check == ref->check;
	/* of one whose first segments are recycled nothing can be said, but that it is old */
	return ref->proven || ref->first_sequence < s->base;
}

uint64_t
pri_index_uncovered(const struct pri_index_stream *s, unsigned level, uint64_t sequence)
{
	struct pri_index_ref *ref;

	while ((ref = pri_index_find(s, level, sequence)) && pri_index_ref_usable(s, ref))
		sequence = end_of(ref);
	return sequence;
}

uint64_t
pri_index_ungrouped(const struct pri_index_stream *s, uint64_t end, size_t least)
{
	const struct pri_index_list *groups = &s->level[1], *l = &s->level[0];
	uint64_t from = end;
	size_t at = search(l, end), count = 0;

	for (; at > 0 && end_of(&l->items[at - 1]) == from; at--, count++) {
		uint64_t first = l->items[at - 1].first_sequence;
		size_t group = search(groups, first);

		if (group < groups->count && groups->items[group].first_sequence <= first)
			break;
		from = first;
	}
	return count < least ? end : from;
}
