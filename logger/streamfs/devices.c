/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/streamfs/internal.h"

/* ---- which devices are there ---- */

const struct sfs_disk *
sfs_first_disk(const struct sfs *sfs)
{
	for (uint16_t i = 0; i < sfs->disks; i++)
		if (!sfs->disk[i].missing)
			return &sfs->disk[i];
	return &sfs->disk[0];
}

bool
sfs_degraded(const struct sfs *sfs, char *text, size_t size)
{
	for (uint16_t i = 0; i < sfs->disks; i++) {
		const struct sfs_disk *d = &sfs->disk[i];
		if (!d->missing || d->lost)
			continue;
		char others[40] = "";
		if (sfs->missing > 1)
			PR_PRINT(others, ", and %u more", sfs->missing - 1u);
		snprintf(text, size,
			"device %u of %u is missing%s (%.200s): %" PRIu64
			" of the volume's %" PRIu64 " blocks lie on it",
			i + 1u, sfs->disks, others, d->why, sfs->layout.rows[i],
			sfs->root.blocks);
		return true;
	}
	return false;
}

int
sfs_device_info(
	struct sfs *sfs, size_t index, struct sfs_device_info *out, struct pr_error *err)
{
	if (index >= sfs->disks)
		return pr_error_set(err, "the volume has %u devices", sfs->disks);
	const struct sfs_disk *d = &sfs->disk[index];
	*out = (struct sfs_device_info){.state = d->lost      ? SFS_DEVICE_IS_LOST
						 : d->missing ? SFS_DEVICE_IS_MISSING
							      : SFS_DEVICE_IS_THERE,
		.blocks = sfs->layout.rows[index],
		.lost_records = sfs->root.device[index].lost_records};
	PR_PRINT(out->path, "%s", d->path);
	PR_PRINT(out->why, "%s", d->why);
	return 0;
}

int
sfs_open_queue(const struct sfs *sfs, struct sfs_queue *q, enum sfs_queue_kind kind,
	struct pr_error *err)
{
	const struct sfs_disk_ops *ops = sfs_first_disk(sfs)->ops;
	return ops->open_queue ? ops->open_queue(q) : sfs_queue_open(q, kind, err);
}

bool
sfs_block_there(const struct sfs *sfs, uint64_t block)
{
	return !sfs_locate(sfs, block).disk->missing;
}

/* ---- going on without a device ---- */

/*
 * Continues without a device, if the writer was opened as degraded. The device's blocks no
 * longer exist: streams have gaps, and the frontier skips the blocks. A root must record
 * the loss before anything written later counts as durable: recovery takes a gap for the
 * end of the stream unless it knows of durable records behind it. The device's descriptor
 * stays open, because requests may be under way; their results are ignored.
 */
static uint64_t
records_lost(const struct sfs *sfs)
{
	uint64_t sum = 0;
	for (uint16_t i = 0; i < sfs->disks; i++)
		sum += sfs->root.device[i].lost_records;
	return sum;
}

/* The volume has shrunk: reduces the guarantees in proportion to what fits. */
static void
fit_guarantees(struct sfs *sfs)
{
	struct sfs_table *t = &sfs->table;
	uint64_t sum = 0, most = sfs_guarantee_most(sfs), streams = 0;
	for (uint32_t i = 0; i < t->streams; i++) {
		sum += sfs_table_blocks_for(t, t->stream[i].guarantee);
		streams += t->stream[i].guarantee > 0;
	}
	most = most > streams ? most - streams : 0;
	if (sum <= most)
		return;
	for (uint32_t i = 0; i < t->streams; i++) {
		struct sfs_stream *s = &t->stream[i];
		uint64_t blocks = sfs_table_blocks_for(t, s->guarantee) * most / sum;
		s->guarantee = PR_MIN(s->guarantee, blocks * t->block_size);
		sfs_table_notify_stream(t, i);
	}
}

bool
sfs_disk_drop_failed(struct sfs *sfs, struct sfs_disk *disk, int error)
{
	if (disk->lost)
		return true;
	/* a full file system is not a broken disk */
	if (!sfs->degraded || sfs->disks - sfs->missing - sfs->lost < 2 ||
		error == ENOSPC || error == EDQUOT)
		return false;
	PR_PRINT(disk->why, "%s", strerror(error));
	disk->missing = disk->lost = true;
	sfs->lost++;
	sfs->root.device[disk - sfs->disk].flags |= SFS_DEVICE_LOST;
	sfs->w->drop_pending = sfs->w->loss_unsaved = sfs->w->checkpoint_wanted = true;
	return true;
}

/* Drops a block of a lost device. False: an append is filling it just now. */
static bool
lose_block(struct sfs *sfs, uint32_t block)
{
	struct sfs_device *device =
		&sfs->root.device[sfs_locate(sfs, block).disk - sfs->disk];
	struct sfs_entry *e = &sfs->table.entry[block];
	struct sfs_tail *tail = &sfs->w->tail[e->stream];
	if (e->state == SFS_LOST)
		return true;
	if (e->state == SFS_OPEN && tail->reserved)
		return false;
	if (sfs_entry_holds(e) && e->records > 0) {
		uint64_t last = sfs_entry_end(e) - 1;
		tail->lost_until = PR_MAX(last, tail->lost_until);
	}
	/* the slot becomes free when the last request that uses it has ended */
	if (e->state == SFS_OPEN) {
		if (tail->slot != SFS_NONE)
			sfs->w->slot[tail->slot].open = false;
		tail->block = tail->slot = SFS_NONE;
		tail->fill = tail->submitted = tail->waiting = tail->partial = 0;
	}
	if (sfs_entry_holds(e) && e->slot != SFS_NONE) {
		sfs_shm_slot_set(&sfs->shm, e->slot, 0, 0, 0);
		e->slot = SFS_NONE;
	}
	device->lost_records += sfs_table_lose(&sfs->table, block);
	return true;
}

void
sfs_drop_lost_blocks(struct sfs *sfs)
{
	bool all = true;
	if (!sfs->w->drop_pending)
		return;
	for (uint32_t b = 0; b < sfs->table.blocks; b++)
		if (!sfs_block_there(sfs, b))
			all = lose_block(sfs, b) && all;
	sfs->w->drop_pending = !all;
	fit_guarantees(sfs);
}

bool
sfs_loss_settled(const struct sfs *sfs)
{
	for (uint32_t i = 0; i < sfs->table.streams; i++)
		if (sfs->w->tail[i].lost_until > sfs->table.stream[i].durable_sequence)
			return false;
	return !sfs->w->drop_pending;
}

void
sfs_note_losses(struct sfs *sfs)
{
	const struct sfs_table *t = &sfs->table;
	uint64_t before = records_lost(sfs), now = 0;
	bool fresh = false;
	/* counts the gaps between the blocks of each stream: lost with devices */
	for (uint32_t i = 0; i < t->streams; i++) {
		uint64_t next = t->stream[i].first_sequence;
		for (uint32_t b = t->stream[i].oldest; b != SFS_NONE;
			b = t->entry[b].next) {
			if (t->entry[b].first_sequence > next)
				now += t->entry[b].first_sequence - next;
			next = t->entry[b].first_sequence + t->entry[b].records;
		}
		if (t->stream[i].last_sequence + 1 > next)
			now += t->stream[i].last_sequence + 1 - next;
	}
	for (uint16_t i = 0; i < sfs->disks; i++) {
		struct sfs_device *d = &sfs->root.device[i];
		if (!sfs->disk[i].lost || d->flags & SFS_DEVICE_LOST)
			continue;
		d->flags |= SFS_DEVICE_LOST;
		d->lost_records += now > before ? now - before : 0;
		before = now;
		fresh = true;
	}
	if (fresh)
		fit_guarantees(sfs);
}

bool
sfs_losses(const struct sfs *sfs, char *text, size_t size)
{
	const struct sfs_disk *last = NULL;
	for (uint16_t i = 0; i < sfs->disks; i++)
		if (sfs->disk[i].lost)
			last = &sfs->disk[i];
	if (!last)
		return false;
	snprintf(text, size,
		"going on without %u of the volume's %u devices (%s%s%.200s): %" PRIu64
		" records that lay there are lost",
		sfs->lost, sfs->disks, last->path, last->path[0] ? ": " : "", last->why,
		records_lost(sfs));
	return true;
}
