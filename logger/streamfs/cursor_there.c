/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "logger/streamfs/cursor.h"

/*
 * Records where the writer put them, in shared memory. A slot that is taken for another block loses its
 * generation first, and a block is marked before anything in it is erased: a record whose block and slot
 * are, after it was used, as they were before, was whole all the while. Its header is copied and proven, as
 * always; its body is not hashed, since what would be copied for that is what its writer hashed there.
 */

/* The cursor's block, which has the next record; or the one behind it. */
static bool
block_here(struct sfs_cursor *c, struct sfs_entry *e)
{
	struct sfs_entry n;

	if (!c->placed || c->seeking || c->sequence == 0 ||
		!sfs_view_entry(c->sfs, c->block, e) || e->generation != c->generation ||
		e->stream != c->stream)
		return false;
	if (c->sequence < e->first_sequence + e->records)
		return true;
	if (e->next == SFS_NONE || !sfs_view_entry(c->sfs, e->next, &n) ||
		n.stream != c->stream || n.generation <= e->generation ||
		n.first_sequence != c->sequence || n.records == 0)
		return false;
	sfs_cursor_place(c, e->next, &n);
	*e = n;
	return true;
}

static bool
header_at(struct sfs_cursor *c, const struct sfs_entry *e, uint32_t at,
	struct sfs_record_header *h)
{
	const struct sfs_place place = {.block = c->block,
		.generation = e->generation,
		.first_sequence = e->first_sequence,
		.stream = e->stream,
		.offset = at};
	uint8_t bytes[SFS_RECORD_WIDE];
	uint32_t end;

	if (at >= e->end)
		return false;
	end = e->end - at < sizeof(bytes) ? e->end : at + (uint32_t)sizeof(bytes);
	return sfs_shm_copy(
		       &c->sfs->shm, e->slot, c->block, e->generation, at, end, bytes) &&
	       sfs_record_peek(&c->sfs->key, &place, bytes, end - at, h) &&
	       h->sequence == c->sequence && h->length <= e->end - at - h->size;
}

int
sfs_cursor_there(struct sfs_cursor *c, struct sfs_record *out)
{
	struct sfs *sfs = c->sfs;
	struct sfs_record_header h;
	struct sfs_entry e;

	if (sfs->w)
		sfs_lose_blocks(sfs);
	if (!sfs->shm.header || !block_here(c, &e) || e.slot == SFS_NONE ||
		(e.flags & SFS_ENTRY_CUT))
		return 0;
	if (!header_at(c, &e, c->offset, &h) &&
		!header_at(c, &e, (uint32_t)sfs_sector_up(c->offset), &h))
		return 0;
	if (!sfs_permitted(sfs, h.permission))
		return 0;
	sfs_record_out(sfs, &h, sfs_shm_data(&sfs->shm, e.slot) + h.offset + h.size, out);
	return 1;
}

bool
sfs_cursor_pass(struct sfs_cursor *c, const struct sfs_record *there)
{
	struct sfs_entry e;
	uint8_t none;

	atomic_thread_fence(memory_order_acquire);
	if (there->sequence != c->sequence || there->handle.block != c->block ||
		!sfs_view_entry(c->sfs, c->block, &e) ||
		e.generation != there->handle.generation || e.slot == SFS_NONE ||
		(e.flags & SFS_ENTRY_CUT) ||
		!sfs_shm_copy(&c->sfs->shm, e.slot, c->block, e.generation,
			there->handle.offset, there->handle.offset, &none))
		return false;
	c->offset = there->handle.offset + sfs_handle_span(&there->handle);
	c->sequence++;
	return true;
}
