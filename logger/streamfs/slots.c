/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/streamfs/internal.h"

/*
 * Slots of shared memory hold blocks while they are filled and, until the slot is needed again, after.
 * A slot may be taken from a block when all its bytes have been written: of a sealed block, or of an
 * idle stream's open one, which goes on later in another slot from its next sector on.
 */
static bool
tail_clean(const struct sfs_tail *tail)
{
	return !tail->reserved && tail->waiting == 0 && tail->submitted == tail->fill;
}

static bool
slot_clean(const struct sfs *sfs, uint32_t slot)
{
	const struct sfs_slot *s = &sfs->w->slot[slot];
	if (s->flying > 0)
		return false;
	return s->state != SFS_SLOT_OPEN || tail_clean(&sfs->w->tail[s->stream]);
}

void
sfs_slot_release(struct sfs *sfs, uint32_t slot)
{
	struct sfs_slot *s = &sfs->w->slot[slot];
	struct sfs_entry *e = &sfs->table.entry[s->block];
	if (s->state == SFS_SLOT_OPEN)
		sfs->w->tail[s->stream].slot = SFS_NONE;
	sfs_shm_slot_set(&sfs->shm, slot, 0, 0, 0);
	if (e->slot == slot) {
		e->slot = SFS_NONE;
		sfs_table_notify(&sfs->table, s->block);
	}
	s->state = SFS_SLOT_FREE;
}

/* The slot that can be had at once and was not used for longest. */
static uint32_t
clean_slot(const struct sfs *sfs)
{
	const struct sfs_writer *w = sfs->w;
	uint32_t best = SFS_NONE;
	for (uint32_t i = 0; i < sfs->shm.slots; i++) {
		if (w->slot[i].state == SFS_SLOT_FREE)
			return i;
		if (slot_clean(sfs, i) &&
			(best == SFS_NONE || w->slot[i].used < w->slot[best].used))
			best = i;
	}
	return best;
}

/* Writes out the open blocks that were not appended to for longest, a quarter of the slots. */
static bool
write_idle_tails(struct sfs *sfs)
{
	struct sfs_writer *w = sfs->w;
	bool any = false;
	for (uint32_t n = 0; n <= sfs->shm.slots / 4; n++) {
		uint32_t best = SFS_NONE;
		for (uint32_t i = 0; i < sfs->shm.slots; i++)
			if (w->slot[i].state == SFS_SLOT_OPEN &&
				!w->tail[w->slot[i].stream].reserved &&
				w->tail[w->slot[i].stream].waiting > 0 &&
				(best == SFS_NONE || w->slot[i].used < w->slot[best].used))
				best = i;
		if (best == SFS_NONE || !sfs_tail_submit(sfs, w->slot[best].stream))
			break;
		any = true;
	}
	return any;
}

/* Sealed blocks on their way out: each gives its slot back without a sector's end being padded. */
static bool
enough_on_their_way(const struct sfs *sfs)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < sfs->shm.slots; i++)
		n += sfs->w->slot[i].state == SFS_SLOT_SEALED && sfs->w->slot[i].flying > 0;
	return n > 0 && n >= sfs->shm.slots / 4;
}

/* Appending waits here, and only here, when the device is slower than the packets. */
static uint32_t
get_slot(struct sfs *sfs, struct pr_error *err)
{
	struct sfs_writer *w = sfs->w;
	for (;;) {
		uint32_t slot = clean_slot(sfs);
		if (slot != SFS_NONE) {
			if (w->slot[slot].state != SFS_SLOT_FREE)
				sfs_slot_release(sfs, slot);
			return slot;
		}
		if (sfs_pump(sfs, false))
			continue;
		bool more = !enough_on_their_way(sfs) && write_idle_tails(sfs);
		w->waits++;
		if (!sfs_pump(sfs, true) && !more && w->queue.flying == 0)
			break;
	}
	pr_error_set(err, "no buffer is free: %s",
		w->suspended ? w->error.text : "all are reserved");
	return SFS_NONE;
}

static void
write_block_header(struct sfs *sfs, uint32_t stream, uint32_t block, uint8_t *to)
{
	const struct sfs_stream *s = &sfs->table.stream[stream];
	const struct sfs_entry *e = &sfs->table.entry[block];
	struct sfs_block_header h = {
		.kind = SFS_KIND_DATA,
		.stream = stream,
		.permission = s->permission,
		.block = block,
		.generation = e->generation,
		.ordinal = e->ordinal,
		.first_sequence = e->first_sequence,
		.durable_sequence = s->durable_sequence,
	};
	for (size_t i = 0; i < sizeof(h.name); i++)
		h.name[i] = s->name[i];
	if (e->prev != SFS_NONE) {
		const struct sfs_entry *p = &sfs->table.entry[e->prev];
		h.prev_block = e->prev;
		h.prev_generation = p->generation;
		h.prev_min = p->min_time;
		h.prev_max = p->max_time;
		h.prev_records = p->records;
		h.prev_end = p->end;
	}
	sfs_block_encode(&sfs->key, &h, to);
}

/* Gives the stream's open block a slot, from the bytes on that the device does not have yet. */
int
sfs_slot_attach(struct sfs *sfs, uint32_t stream, struct pr_error *err)
{
	struct sfs_writer *w = sfs->w;
	struct sfs_tail *tail = &w->tail[stream];
	uint32_t slot = get_slot(sfs, err);
	if (slot == SFS_NONE)
		return SFS_ERROR;
	struct sfs_entry *e = &sfs->table.entry[tail->block];
	w->slot[slot] = (struct sfs_slot){
		.block = tail->block,
		.stream = stream,
		.state = SFS_SLOT_OPEN,
		.used = ++w->clock,
	};
	sfs_shm_slot_set(&sfs->shm, slot, tail->block, e->generation, tail->submitted);
	if (tail->submitted == 0)
		write_block_header(sfs, stream, tail->block, sfs_shm_data(&sfs->shm, slot));
	tail->slot = slot;
	e->slot = slot;
	sfs_table_notify(&sfs->table, tail->block);
	return SFS_OK;
}

/*
 * The frontier asks whether a block may be had: not while a write to it is under way, and an open
 * one only when its stream is idle.
 */
bool
sfs_block_clearable(void *arg, uint32_t block)
{
	struct sfs *sfs = arg;
	struct sfs_writer *w = sfs->w;
	struct sfs_entry *e = &sfs->table.entry[block];
	if (sfs_wipe_noted(sfs, block) || sfs_erasing_in(sfs, e))
		return false;
	if (e->slot != SFS_NONE && !slot_clean(sfs, e->slot))
		return false;
	if (e->state == SFS_OPEN) {
		struct sfs_tail *tail = &w->tail[e->stream];
		if (!tail_clean(tail))
			return false;
		tail->block = SFS_NONE;
	}
	if (e->slot != SFS_NONE)
		sfs_slot_release(sfs, e->slot);
	return true;
}
