/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "logger/streamfs/internal.h"

size_t
sfs_record_max(const struct sfs *sfs)
{
	return sfs->root.block_size - SFS_BLOCK_HEADER - SFS_RECORD_WIDE;
}

static int
check_stream(const struct sfs *sfs, int stream, size_t length, struct pr_error *err)
{
	if (!sfs->w)
		return pr_error_set(err, "the volume is open for reading only"), SFS_ERROR;
	if (stream < 0 || (uint32_t)stream >= sfs->table.streams)
		return pr_error_set(err, "no stream %d in the volume", stream), SFS_ERROR;
	if (sfs->w->tail[stream].reserved)
		return pr_error_set(err, "stream %s has a reservation already",
			       sfs->table.stream[stream].name),
		       SFS_ERROR;
	if (length > sfs_record_max(sfs))
		return pr_error_set(err, "a record of %zu bytes: a block takes %zu at most",
			       length, sfs_record_max(sfs)),
		       SFS_TOO_BIG;
	return SFS_OK;
}

static int
roll(struct sfs *sfs, uint32_t stream, struct pr_error *err)
{
	if (sfs_block_end(sfs, stream, err) < 0)
		return SFS_ERROR;
	return sfs_block_begin(sfs, stream, err);
}

static uint32_t
part_of(const struct sfs *sfs, uint64_t start)
{
	return (uint32_t)(start / (sfs->root.block_size / SFS_WIDE_PARTS));
}

/*
 * Makes the stream's tail a block in a slot, with room for the record at its fill. reserve: what is
 * there may have to be flushed while the record is made, so the record starts a sector; and what its
 * header must hold is not known yet.
 */
static int
prepare(struct sfs *sfs, uint32_t stream, size_t length, bool reserve, bool narrow,
	struct pr_error *err)
{
	struct sfs_tail *tail = &sfs->w->tail[stream];
	int rc = SFS_OK;
	sfs_lose_blocks(sfs);
	/* pads the tails: before this one is measured, never after */
	if (sfs->w->checkpoint_wanted && sfs->w->state == SFS_IDLE)
		sfs_flush_start(sfs, SFS_FLUSH_FULL, true);
	uint64_t start = tail->fill;
	if (reserve && tail->waiting > 0)
		start = sfs_sector_up(start);
	tail->reserved = true;
	uint32_t header = narrow && part_of(sfs, start) == tail->part ? SFS_RECORD_HEADER
								      : SFS_RECORD_WIDE;
	if (tail->block == SFS_NONE ||
		start + sfs_record_span(header, length) > sfs->root.block_size) {
		rc = roll(sfs, stream, err);
		header = SFS_RECORD_WIDE;
	} else if (start > tail->fill) {
		memset(sfs_shm_data(&sfs->shm, tail->slot) + tail->fill, 0,
			start - tail->fill);
		tail->fill = (uint32_t)start;
		tail->partial = 0;
	}
	tail->header = header;
	if (rc == SFS_OK && tail->slot == SFS_NONE)
		rc = sfs_slot_attach(sfs, stream, err);
	tail->reserved = rc == SFS_OK;
	return rc;
}

/* Makes the record a part of the stream; NULL: its body is in place. */
static void
finish(struct sfs *sfs, uint32_t stream, int64_t min_time, int64_t max_time,
	const void *body, size_t length, struct sfs_handle *handle)
{
	struct sfs_tail *tail = &sfs->w->tail[stream];
	struct sfs_stream *s = &sfs->table.stream[stream];
	const struct sfs_entry *e = &sfs->table.entry[tail->block];
	uint8_t *record = sfs_shm_data(&sfs->shm, tail->slot) + tail->fill;
	uint32_t start = tail->fill;
	uint32_t span = (uint32_t)sfs_record_span(tail->header, length);
	struct sfs_record_header h = {
		.stream = stream,
		.permission = s->permission,
		.block = tail->block,
		.generation = e->generation,
		.sequence = s->last_sequence + 1,
		.index = e->records,
		.size = tail->header,
		.min_time = min_time,
		.max_time = max_time,
		.length = (uint32_t)length,
		.offset = start,
	};
	memset(record + tail->header + length, 0, span - tail->header - length);
	if (body)
		sfs_record_put(&sfs->key, &h, body, record);
	else
		sfs_record_encode(&sfs->key, &h, record);
	tail->fill += span;
	tail->part = part_of(sfs, start);
	tail->reserved = false;
	sfs->w->dirty = true;
	sfs->w->slot[tail->slot].used = ++sfs->w->clock;
	sfs_shm_slot_fill(&sfs->shm, tail->slot, tail->fill);
	sfs_table_record(&sfs->table, tail->block, tail->fill, min_time, max_time);
	if (handle)
		sfs_handle_make(&sfs->key, &h, handle);
	sfs_tail_grown(sfs, stream, start, tail->fill);
}

int
sfs_append(struct sfs *sfs, int stream, int64_t min_time, int64_t max_time,
	const void *body, size_t length, struct sfs_handle *handle, struct pr_error *err)
{
	int rc = check_stream(sfs, stream, length, err);
	if (rc == SFS_OK)
		rc = prepare(sfs, (uint32_t)stream, length, false,
			sfs_record_narrow(
				sfs->table.stream[stream].permission, min_time, max_time),
			err);
	if (rc != SFS_OK)
		return rc;
	finish(sfs, (uint32_t)stream, min_time, max_time, body, length, handle);
	return SFS_OK;
}

void *
sfs_reserve(struct sfs *sfs, int stream, size_t length, struct pr_error *err)
{
	if (check_stream(sfs, stream, length, err) != SFS_OK ||
		prepare(sfs, (uint32_t)stream, length, true, false, err) != SFS_OK)
		return NULL;
	struct sfs_tail *tail = &sfs->w->tail[stream];
	tail->reserve_room = length;
	return sfs_shm_data(&sfs->shm, tail->slot) + tail->fill + tail->header;
}

int
sfs_commit(struct sfs *sfs, int stream, int64_t min_time, int64_t max_time, size_t length,
	struct sfs_handle *handle, struct pr_error *err)
{
	if (!sfs->w || stream < 0 || (uint32_t)stream >= sfs->table.streams ||
		!sfs->w->tail[stream].reserved)
		return pr_error_set(err, "nothing is reserved in stream %d", stream),
		       SFS_ERROR;
	if (length > sfs->w->tail[stream].reserve_room)
		return pr_error_set(err, "%zu bytes committed, %zu reserved", length,
			       sfs->w->tail[stream].reserve_room),
		       SFS_TOO_BIG;
	finish(sfs, (uint32_t)stream, min_time, max_time, NULL, length, handle);
	return SFS_OK;
}

int
sfs_flush(struct sfs *sfs, struct pr_error *err)
{
	if (!sfs->w)
		return pr_error_set(err, "the volume is open for reading only"), SFS_ERROR;
	sfs_retry_failed(sfs);
	if (sfs_flush_finish(sfs, err) < 0 && sfs->w->state != SFS_IDLE)
		return SFS_ERROR;
	sfs_flush_start(sfs, SFS_FLUSH_ALL, false);
	return sfs_flush_finish(sfs, err) < 0 ? SFS_ERROR : SFS_OK;
}

/* What goes to the devices makes up for the ends of all streams' sectors a hundred times. */
static bool
padding_is_small(const struct sfs *sfs)
{
	uint64_t pads = 0;
	for (uint32_t i = 0; i < sfs->table.streams; i++)
		pads += sfs->w->tail[i].waiting > 0;
	return sfs->w->since_flush > 0 && sfs->w->since_flush >= pads * SFS_SECTOR * 100;
}

/*
 * A flush half an interval after the last leaves open sectors to the next one. Where much comes it waits for a
 * quarter more, and takes all: fewer syncs, and nothing waits longer than a whole interval.
 */
static void
flush_in_time(struct sfs *sfs, int64_t since)
{
	struct sfs_writer *w = sfs->w;
	bool later = !w->checkpoint_wanted && !w->suspended &&
		     since < w->flush_interval / 4 * 3 && padding_is_small(sfs);
	if (!later)
		sfs_flush_start(sfs, w->put_off ? SFS_FLUSH_ALL : SFS_FLUSH_AGED, false);
	w->put_off = later;
}

/* Failed writes are tried again ten times a second, no more. */
#define RETRY 100000000

int
sfs_tick(struct sfs *sfs, int64_t now_mono, struct pr_error *err)
{
	struct sfs_writer *w = sfs->w;
	if (!w)
		return SFS_OK;
	w->last_tick = now_mono;
	sfs_pump(sfs, false);
	sfs_guarantee_serve(sfs);
	if (w->failed && now_mono - w->last_retry >= RETRY) {
		w->last_retry = now_mono;
		sfs_retry_failed(sfs);
		sfs_pump(sfs, false);
	}
	/* a record waits for the second of them at most */
	int64_t interval = w->flush_interval / 2;
	if (w->suspended && interval < RETRY)
		interval = RETRY;
	if (w->state == SFS_IDLE && (w->dirty || w->checkpoint_wanted) &&
		now_mono - w->last_flush >= interval)
		flush_in_time(sfs, now_mono - w->last_flush);
	if (w->suspended)
		return pr_error_set(err, "%s", w->error.text), SFS_ERROR;
	return SFS_OK;
}

uint64_t
sfs_appended(const struct sfs *sfs, int stream)
{
	if (stream < 0 || (uint32_t)stream >= sfs->table.streams)
		return 0;
	return sfs->table.stream[stream].last_sequence;
}

uint64_t
sfs_durable(const struct sfs *sfs, int stream)
{
	if (stream < 0 || (uint32_t)stream >= sfs->table.streams)
		return 0;
	return sfs->table.stream[stream].durable_sequence;
}
