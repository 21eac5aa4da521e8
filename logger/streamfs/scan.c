/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/streamfs/internal.h"

struct sfs_scan
sfs_scan_of(const struct sfs *sfs, const uint8_t *bytes, uint64_t block,
	const struct sfs_entry *e)
{
	return (struct sfs_scan){.key = &sfs->key,
		.bytes = bytes,
		.place = {.block = block,
			.generation = e->generation,
			.first_sequence = e->first_sequence,
			.stream = e->stream}};
}

/* A record counts only where it was put, in the block's present life. */
static enum sfs_record_state
record_at(const struct sfs_scan *scan, uint32_t pos, uint32_t end,
	struct sfs_record_header *out)
{
	struct sfs_place place = scan->place;
	place.offset = pos;
	if (pos >= end)
		return SFS_RECORD_NONE;
	return sfs_record_decode(scan->key, &place, scan->bytes + pos, end - pos, out);
}

enum sfs_record_state
sfs_scan_next(const struct sfs_scan *scan, uint32_t pos, uint32_t end, uint64_t sequence,
	struct sfs_record_header *out)
{
	enum sfs_record_state state = record_at(scan, pos, end, out);
	uint32_t sector = (uint32_t)sfs_sector_up(pos);
	if (state == SFS_RECORD_NONE && sector != pos)
		state = record_at(scan, sector, end, out);
	if (state != SFS_RECORD_NONE && out->sequence != sequence)
		return SFS_RECORD_NONE;
	return state;
}

/* Bodies that do not fit a valid header cost a hash each: whoever made such a block gets no more. */
#define BAD_MAX 64

bool
sfs_scan_resync(const struct sfs_scan *scan, uint32_t pos, uint32_t end, uint64_t sequence,
	struct sfs_record_header *out)
{
	int bad = 0;
	for (pos = (pos + 7) & ~7u; pos < end && bad < BAD_MAX; pos += 8) {
		enum sfs_record_state state = record_at(scan, pos, end, out);
		if (state == SFS_RECORD_GOOD && out->sequence >= sequence)
			return true;
		if (state == SFS_RECORD_BAD)
			bad++;
	}
	return false;
}
