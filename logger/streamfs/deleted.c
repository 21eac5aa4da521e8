/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/streamfs/internal.h"

/* What readers need to know of deleted records: of one that is still there, and of one that is not. */
bool
sfs_deleted_record(struct sfs *sfs, const struct sfs_entry *e, uint64_t sequence)
{
	struct sfs_map_entry hole;
	return (e->flags & SFS_ENTRY_CUT) && sfs_hole_at(sfs, e->stream, sequence, &hole);
}

/* The good records around the handle's place leave it the sequences [*first, *end). */
static bool
narrow(struct sfs *sfs, const struct sfs_handle *h, const struct sfs_entry *e,
	uint64_t *first, uint64_t *end)
{
	struct sfs_scan scan = sfs_scan_of(sfs, sfs->scratch, h->block, e);
	uint32_t pos = SFS_BLOCK_HEADER;
	struct sfs_record_header r;
	struct pr_error ignored;
	if (sfs_fetch(sfs, h->block, e, pos, e->end, sfs->scratch, &ignored) != SFS_OK)
		return false;
	/* behind the last that counts may lie some that a crash has lost */
	while (sfs_scan_resync(&scan, pos, h->offset, *first, &r) && r.sequence < *end) {
		pos = r.offset + (uint32_t)sfs_record_span(r.size, r.length);
		*first = r.sequence + 1;
	}
	pos = h->offset + (uint32_t)sfs_record_span(h->header, h->length);
	if (sfs_scan_resync(&scan, pos, e->end, *first, &r) && r.sequence < *end)
		*end = r.sequence;
	return *first < *end;
}

bool
sfs_deleted_handle(struct sfs *sfs, const struct sfs_handle *h, const struct sfs_entry *e,
	struct sfs_map_entry *hole)
{
	uint64_t first = e->first_sequence, end = first + e->records;
	if (!(e->flags & SFS_ENTRY_CUT))
		return false;
	if (!sfs_hole_covers(sfs, e) && !narrow(sfs, h, e, &first, &end))
		return false;
	return sfs_holes_records(sfs, e->stream, first, end) == end - first &&
	       sfs_hole_at(sfs, e->stream, first, hole);
}
