/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "logger/streamfs/tail.h"

/*
 * Writing out. A flush goes WRITING (all writes that were under way when it began), SYNCING, and, with
 * a checkpoint, ROOT_WRITING and ROOT_SYNCING: only then may the blocks be written that the root says
 * are gone. Nothing here waits unless told to.
 */
static struct sfs_request *
get_request(struct sfs_writer *w)
{
	struct sfs_request *r = w->idle;
	w->idle = r->next;
	w->idle_count--;
	return r;
}

static void
put_request(struct sfs_writer *w, struct sfs_request *r)
{
	r->next = w->idle;
	w->idle = r;
	w->idle_count++;
}

bool
sfs_request_free(struct sfs *sfs)
{
	struct sfs_writer *w = sfs->w;
	while (w->idle_count <= 2u * SFS_DEVICES_MAX)
		if (!sfs_pump(sfs, true) && w->queue.flying == 0)
			return false;
	return true;
}

/* Readers elsewhere see how far the devices are behind, and give way. */
static void
publish_backlog(struct sfs *sfs)
{
	uint64_t all = (uint64_t)sfs->shm.slots * sfs->shm.block_size;
	uint64_t backlog = sfs->w->under_way * 1000 / all;
	atomic_store_explicit(&sfs->shm.header->backlog,
		(uint32_t)(backlog < 1000 ? backlog : 1000), memory_order_relaxed);
}

static void take(struct sfs *sfs, struct sfs_request *r);

/* To a block that was being filled when its device went, nothing is written any more. */
static void
submit(struct sfs *sfs, struct sfs_request *r)
{
	if (!r->disk->lost) {
		sfs_queue_submit(&sfs->w->queue, r);
		return;
	}
	r->error = 0;
	take(sfs, r);
}

void
sfs_write_submit(struct sfs *sfs, uint64_t block, uint32_t from, uint32_t to,
	const uint8_t *bytes, uint32_t slot)
{
	struct sfs_writer *w = sfs->w;
	struct sfs_request *r = get_request(w);
	sfs_locate(sfs, block, &r->disk, &r->offset);
	r->offset += from;
	r->buf = bytes;
	r->len = to - from;
	r->slot = slot;
	r->epoch = w->epoch;
	r->first = false;
	w->flying[w->epoch]++;
	if (slot != SFS_NONE)
		w->slot[slot].flying++;
	w->under_way += r->len;
	w->since_flush += r->len;
	publish_backlog(sfs);
	submit(sfs, r);
}

bool
sfs_map_submit(struct sfs *sfs, uint64_t block, size_t len)
{
	if (!sfs_request_free(sfs))
		return false;
	sfs->w->map_flying = true;
	sfs_write_submit(sfs, block, 0, (uint32_t)len, sfs->w->map_buf, SFS_NONE);
	return true;
}

static void
control(struct sfs *sfs, uint16_t disk, const uint8_t *buf, size_t len, uint64_t offset)
{
	struct sfs_writer *w = sfs->w;
	struct sfs_request *r = get_request(w);
	*r = (struct sfs_request){.disk = &sfs->disk[disk],
		.buf = buf,
		.len = len,
		.offset = offset,
		.slot = SFS_NONE,
		.epoch = 2,
		.first = true};
	w->control++;
	sfs_queue_submit(&w->queue, r);
}

static void
submit_syncs(struct sfs *sfs, enum sfs_flush_state state)
{
	sfs->w->state = state;
	for (uint16_t i = 0; i < sfs->disks; i++)
		if (!sfs->disk[i].missing)
			control(sfs, i, NULL, 0, 0);
}

void
sfs_flush_start(struct sfs *sfs, enum sfs_flush_kind kind, bool checkpoint)
{
	struct sfs_writer *w = sfs->w;
	if (w->state != SFS_IDLE)
		return;
	w->dirty = false;
	if (kind != SFS_FLUSH_FULL)
		w->last_flush = w->last_tick;
	for (uint32_t i = 0; i < sfs->table.streams; i++)
		sfs_tail_flush(sfs, i, kind);
	if (kind != SFS_FLUSH_FULL)
		w->since_flush = 0;
	w->checkpoint = checkpoint || w->checkpoint_wanted;
	w->checkpoint_wanted = false;
	w->flush_position = sfs_frontier_position(&w->frontier);
	w->epoch ^= 1;
	w->control_failed = false;
	w->state = SFS_WRITING;
	sfs_pump(sfs, false);
}

static void
now_durable(struct sfs *sfs)
{
	for (uint32_t i = 0; i < sfs->table.streams; i++) {
		struct sfs_stream *s = &sfs->table.stream[i];
		if (sfs->w->tail[i].target <= s->durable_sequence)
			continue;
		s->durable_sequence = sfs->w->tail[i].target;
		sfs_table_notify_stream(&sfs->table, i);
	}
}

static void
write_roots(struct sfs *sfs)
{
	struct sfs_writer *w = sfs->w;
	sfs_lose_blocks(sfs);
	w->root_speaks = w->loss_unsaved;
	sfs_frontier_stable(&w->frontier, &sfs->table, w->flush_position);
	w->full = !sfs_frontier_clear(&w->frontier, &sfs->table, sfs_block_clearable, sfs);
	w->root_pending = w->frontier.pending;
	size_t len = sfs_root_prepare(sfs, 0);
	w->state = SFS_ROOT_WRITING;
	for (uint16_t i = 0; i < sfs->disks; i++)
		if (!sfs->disk[i].missing)
			control(sfs, i, w->root_buf + (size_t)i * SFS_ROOT_BYTES, len,
				sfs_root_offset(sfs, i));
}

static void
flush_over(struct sfs *sfs, bool good)
{
	struct sfs_writer *w = sfs->w;
	w->state = SFS_IDLE;
	if (good) {
		w->suspended = w->suspended && w->failed;
		return;
	}
	w->suspended = true;
	w->dirty = true;
	w->checkpoint_wanted = w->checkpoint;
}

/* The root is durable: what was written since a device was lost may be called so. */
static void
loss_saved(struct sfs *sfs)
{
	struct sfs_writer *w = sfs->w;
	if (w->root_speaks) {
		now_durable(sfs);
		w->loss_unsaved = !sfs_loss_settled(sfs);
	}
	w->root_speaks = false;
	w->checkpoint_wanted = w->checkpoint_wanted || w->loss_unsaved;
}

/* One step of the flush, when what it waits for is through. True: something changed. */
static bool
step(struct sfs *sfs)
{
	struct sfs_writer *w = sfs->w;
	if (w->state == SFS_IDLE || w->control > 0)
		return false;
	if (w->control_failed) {
		flush_over(sfs, false);
		return true;
	}
	switch (w->state) {
	case SFS_WRITING:
		if (w->flying[w->epoch ^ 1] > 0)
			return false;
		submit_syncs(sfs, SFS_SYNCING);
		break;
	case SFS_SYNCING:
		if (!w->loss_unsaved)
			now_durable(sfs);
		if (w->checkpoint || w->loss_unsaved)
			write_roots(sfs);
		else
			flush_over(sfs, true);
		break;
	case SFS_ROOT_WRITING:
		submit_syncs(sfs, SFS_ROOT_SYNCING);
		break;
	default:
		sfs_root_done(sfs);
		sfs_frontier_ready(&w->frontier, w->root_pending);
		loss_saved(sfs);
		flush_over(sfs, true);
	}
	return true;
}

static void
note_error(struct sfs *sfs, const struct sfs_request *r)
{
	errno = r->error;
	pr_error_errno(&sfs->w->error, "%s: cannot %s at byte %llu: recording is suspended",
		r->disk->path, r->buf ? "write" : "sync", (unsigned long long)r->offset);
	sfs->w->write_errors++;
	sfs->w->suspended = true;
}

static void
take(struct sfs *sfs, struct sfs_request *r)
{
	struct sfs_writer *w = sfs->w;
	if ((r->error || r->disk->lost) && sfs_disk_fails(sfs, r->disk, r->error))
		r->error = 0; /* it has come to nothing */
	if (r->error)
		note_error(sfs, r);
	if (r->epoch == 2) {
		w->control--;
		w->control_failed = w->control_failed || r->error;
		put_request(w, r);
	} else if (r->error) {
		r->next = w->failed;
		w->failed = r;
	} else {
		w->flying[r->epoch]--;
		w->under_way -= r->len;
		publish_backlog(sfs);
		if (r->slot != SFS_NONE)
			w->slot[r->slot].flying--;
		else
			w->map_flying = false;
		put_request(w, r);
	}
}

bool
sfs_pump(struct sfs *sfs, bool wait)
{
	struct sfs_writer *w = sfs->w;
	bool moved = false;
	struct sfs_request *list = sfs_queue_reap(&w->queue, wait);
	while (list) {
		struct sfs_request *r = list;
		list = r->next;
		take(sfs, r);
		moved = moved || !r->error;
	}
	while (step(sfs))
		moved = true;
	return moved;
}

void
sfs_retry_failed(struct sfs *sfs)
{
	struct sfs_request *list = sfs->w->failed;
	sfs->w->failed = NULL;
	while (list) {
		struct sfs_request *r = list;
		list = r->next;
		submit(sfs, r);
	}
}

int
sfs_flush_finish(struct sfs *sfs, struct pr_error *err)
{
	struct sfs_writer *w = sfs->w;
	bool failed = false;
	while (w->state != SFS_IDLE) {
		enum sfs_flush_state before = w->state;
		sfs_pump(sfs, true);
		if (w->state == before && w->queue.flying == 0 && w->failed) {
			failed = true;
			break;
		}
	}
	if (failed || w->suspended)
		return pr_error_set(err, "%s", w->error.text);
	return 0;
}
