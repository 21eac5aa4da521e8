/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/streamfs/internal.h"

/* ---- the table ---- */

/*
 * Holes: ranges of a stream's records that were deleted from its middle (delete.c). Their
 * blocks stay in the stream until they are recycled. The root has an entry for each; here
 * they are sorted by stream and sequence, without overlap, and shared memory has the same
 * for readers. Blocks with deleted records are marked (SFS_ENTRY_CUT); only in these are
 * holes looked for.
 */
static uint64_t
end_of(const struct sfs_map_entry *h)
{
	return h->first_sequence + h->records;
}

/* Index of the first hole that ends behind the sequence. */
static uint32_t
search(const struct sfs *sfs, uint32_t stream, uint64_t sequence)
{
	const struct sfs_map_entry *h = sfs->hole;
	return PR_ARRAY_SEARCH(sfs->holes,
		h[mid].stream < stream ||
			(h[mid].stream == stream && end_of(&h[mid]) <= sequence));
}

PR_ORDER(by_sequence, struct sfs_map_entry, stream, first_sequence)

void
sfs_holes_load(struct sfs *sfs, const struct sfs_map_entry *entries, uint32_t count)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < count; i++)
		if (entries[i].flags & SFS_REPAIR_HOLE)
			sfs->hole[kept++] = entries[i];
	PR_SORT(sfs->hole, kept, by_sequence);
	sfs->holes = sfs->erasing = 0;
	for (uint32_t i = 0; i < kept; i++) {
		const struct sfs_map_entry h = sfs->hole[i];
		const struct sfs_map_entry *last =
			sfs->holes ? &sfs->hole[sfs->holes - 1] : NULL;
		if (h.records == 0 || h.first_sequence == 0 ||
			h.first_sequence >= UINT64_MAX / 2 || h.stream >= SFS_STREAMS_MAX ||
			(last && last->stream == h.stream &&
				end_of(last) > h.first_sequence))
			continue;
		sfs->hole[sfs->holes++] = h;
		sfs->erasing += (h.flags & SFS_REPAIR_WIPE) != 0;
	}
}

/* ---- between processes ---- */

struct image {
	uint64_t count;
	struct sfs_map_entry hole[SFS_REPAIRS_MAX];
};
_Static_assert(
	sizeof(struct image) == SFS_HOLES_WORDS * 8, "what was deleted, in shared memory");

void
sfs_holes_publish(struct sfs *sfs)
{
	_Atomic uint64_t *words = sfs->shm.header->holes;
	const uint64_t count = sfs->holes;
	uint64_t seq = sfs_seq_begin(words);
	sfs_words_put(words + 1, &count, 1);
	sfs_words_put(words + 2, sfs->hole, count * 8);
	sfs_seq_end(words, seq);
}

void
sfs_holes_reload(struct sfs *sfs)
{
	if (!sfs->live)
		return;
	uint64_t seen =
		atomic_load_explicit(&sfs->shm.header->holes[0], memory_order_acquire);
	if (seen == sfs->holes_seen)
		return;
	struct image *image = malloc(sizeof(*image));
	if (image && sfs_seq_read(sfs->shm.header->holes, image, SFS_HOLES_WORDS) &&
		image->count <= SFS_REPAIRS_MAX) {
		sfs_holes_load(sfs, image->hole, image->count);
		sfs->holes_seen = seen;
	}
	free(image);
}

/* ---- asking ---- */

bool
sfs_hole_next(
	struct sfs *sfs, uint32_t stream, uint64_t sequence, struct sfs_map_entry *out)
{
	sfs_holes_reload(sfs);
	uint32_t at = search(sfs, stream, sequence);
	if (at == sfs->holes || sfs->hole[at].stream != stream)
		return false;
	*out = sfs->hole[at];
	return true;
}

bool
sfs_hole_at(struct sfs *sfs, uint32_t stream, uint64_t sequence, struct sfs_map_entry *out)
{
	return sfs_hole_next(sfs, stream, sequence, out) && out->first_sequence <= sequence;
}

uint64_t
sfs_holes_records(struct sfs *sfs, uint32_t stream, uint64_t first, uint64_t end)
{
	struct sfs_map_entry h;
	uint64_t sum = 0, at = first;
	while (at < end && sfs_hole_next(sfs, stream, at, &h) && h.first_sequence < end) {
		uint64_t from = PR_MAX(h.first_sequence, at);
		at = end_of(&h);
		sum += PR_MIN(at, end) - from;
	}
	return sum;
}

bool
sfs_hole_covers(struct sfs *sfs, const struct sfs_entry *e)
{
	return (e->flags & SFS_ENTRY_CUT) && e->records > 0 &&
	       sfs_holes_records(sfs, e->stream, e->first_sequence, sfs_entry_end(e)) ==
		       e->records;
}

bool
sfs_erasing_in(struct sfs *sfs, const struct sfs_entry *e)
{
	uint64_t end = sfs_entry_end(e);
	for (uint32_t i = 0; sfs->erasing && i < sfs->holes; i++) {
		const struct sfs_map_entry *h = &sfs->hole[i];
		if ((h->flags & SFS_REPAIR_WIPE) && h->stream == e->stream &&
			h->first_sequence < end && end_of(h) > e->first_sequence)
			return true;
	}
	return false;
}

/* ---- the writer's ---- */

static bool
follows(const struct sfs_map_entry *a, const struct sfs_map_entry *b)
{
	return a->stream == b->stream && end_of(a) == b->first_sequence &&
	       a->records <= UINT32_MAX - b->records;
}

static void
join(struct sfs_map_entry *to, const struct sfs_map_entry *by)
{
	PR_ADD(to, by, records, block_number);
	pr_time_widen(&to->min_time, &to->max_time, by->min_time, by->max_time);
}

bool
sfs_hole_add(struct sfs *sfs, const struct sfs_map_entry *hole, uint32_t most)
{
	uint32_t at = search(sfs, hole->stream, hole->first_sequence);
	struct sfs_map_entry *last = at > 0 ? &sfs->hole[at - 1] : NULL;
	bool joins = last && follows(last, hole);
	if (joins && last->flags == hole->flags) {
		join(last, hole);
		return true;
	}
	joins = joins || (at < sfs->holes && follows(hole, &sfs->hole[at]));
	/* holes that will be joined once erased may use the last entries */
	if (sfs->repairs + sfs->holes >= (joins ? SFS_REPAIRS_MAX : most))
		return false;
	memmove(sfs->hole + at + 1, sfs->hole + at, (sfs->holes - at) * sizeof(*sfs->hole));
	sfs->hole[at] = *hole;
	sfs->holes++;
	sfs->erasing++;
	return true;
}

void
sfs_holes_erased(struct sfs *sfs)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < sfs->holes; i++) {
		struct sfs_map_entry h = sfs->hole[i];
		h.flags &= ~SFS_REPAIR_WIPE;
		if (kept > 0 && follows(&sfs->hole[kept - 1], &h))
			join(&sfs->hole[kept - 1], &h);
		else
			sfs->hole[kept++] = h;
	}
	sfs->holes = kept;
	sfs->erasing = sfs->redos = 0;
}

void
sfs_holes_prune(struct sfs *sfs)
{
	const struct sfs_table *t = &sfs->table;
	uint32_t kept = 0;
	sfs->erasing = 0;
	for (uint32_t i = 0; i < sfs->holes; i++) {
		const struct sfs_map_entry h = sfs->hole[i];
		if (h.stream >= t->streams ||
			end_of(&h) <= t->stream[h.stream].first_sequence)
			continue;
		sfs->hole[kept++] = h;
		sfs->erasing += (h.flags & SFS_REPAIR_WIPE) != 0;
	}
	sfs->holes = kept;
}

void
sfs_holes_mark(struct sfs *sfs)
{
	const struct sfs_table *t = &sfs->table;
	for (uint32_t at = 0, end = 0; at < sfs->holes; at = end) {
		uint32_t stream = sfs->hole[at].stream;
		while (end < sfs->holes && sfs->hole[end].stream == stream)
			end++;
		uint32_t b = stream < t->streams ? t->stream[stream].oldest : SFS_NONE;
		for (; b != SFS_NONE; b = t->entry[b].next) {
			struct sfs_entry *e = &t->entry[b];
			while (at < end && end_of(&sfs->hole[at]) <= e->first_sequence)
				at++;
			if (at == end)
				break;
			if (sfs->hole[at].first_sequence < sfs_entry_end(e))
				e->flags |= SFS_ENTRY_CUT;
		}
	}
}

/* ---- what readers ask ---- */

/* Tests for deleted records, whether their bytes are still there or not. */
bool
sfs_deleted_record(struct sfs *sfs, const struct sfs_entry *e, uint64_t sequence)
{
	struct sfs_map_entry hole;
	return (e->flags & SFS_ENTRY_CUT) && sfs_hole_at(sfs, e->stream, sequence, &hole);
}

bool
sfs_deleted_handle(struct sfs *sfs, const struct sfs_handle *h, const struct sfs_entry *e,
	struct sfs_map_entry *hole)
{
	struct sfs_scan scan = sfs_scan_of(sfs, sfs->scratch, h->block, e);
	uint64_t first = e->first_sequence, end = first + e->records;
	struct sfs_record_header r;
	if (!(e->flags & SFS_ENTRY_CUT))
		return false;
	/*
	 * the handle's sequence lies between those of the good records around it: [first,
	 * end)
	 */
	if (!sfs_hole_covers(sfs, e)) {
		if (sfs_fetch(sfs, h->block, e, scan.pos, e->end, sfs->scratch, NULL) !=
			SFS_OK)
			return false;
		/* records lost in a crash may lie behind the last that counts */
		scan.end = h->offset;
		while (sfs_scan_resync(&scan, end, &r))
			;
		first = scan.sequence;
		scan.pos = h->offset + sfs_handle_size(h);
		scan.end = e->end;
		if (sfs_scan_resync(&scan, end, &r))
			end = r.sequence;
		if (first >= end)
			return false;
	}
	return sfs_holes_records(sfs, e->stream, first, end) == end - first &&
	       sfs_hole_at(sfs, e->stream, first, hole);
}
