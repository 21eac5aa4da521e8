/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/streamfs/internal.h"

/* ---- requests ---- */

/*
 * Writing out. The states of a flush are WRITING (until all writes that were under way when
 * it began have ended), SYNCING, and, with a checkpoint, ROOT_WRITING and ROOT_SYNCING.
 * Only after these may blocks be overwritten that the root lists as gone. Nothing here
 * waits unless told to.
 */
static struct sfs_request *
get_request(struct sfs_writer *w)
{
	struct sfs_request *r = w->idle;
	w->idle = r->next;
	w->idle_count--;
	return r;
}

/*
 * Waits for completions until a request is free that is not reserved for syncs and roots. False:
 * the devices fail, nothing is in flight any more.
 */
static bool
wait_for_request(struct sfs *sfs)
{
	struct sfs_writer *w = sfs->w;
	while (w->idle_count <= 2u * SFS_DEVICES_MAX)
		if (!sfs_pump(sfs, true) && w->queue.in_flight == 0)
			return false;
	return true;
}

/* Readers elsewhere see how far the devices are behind, and give way. */
static void
publish_backlog(struct sfs *sfs)
{
	uint64_t all = (uint64_t)sfs->shm.slots * sfs->shm.block_size;
	uint64_t backlog = sfs->w->bytes_in_flight * 1000 / all;
	atomic_store_explicit(
		&sfs->shm.header->backlog, PR_MIN(backlog, 1000), memory_order_relaxed);
}

static void
take(struct sfs *sfs, struct sfs_request *r)
{
	struct sfs_writer *w = sfs->w;
	bool control = r->flush_parity == SFS_CONTROL_WRITE;
	if ((r->error || r->disk->lost) && sfs_disk_drop_failed(sfs, r->disk, r->error))
		r->error = 0; /* the request counts as done: its device was given up */
	if (r->error) {
		errno = r->error;
		pr_error_errno(&w->error,
			"%s: cannot %s at byte %" PRIu64 ": recording is suspended",
			r->disk->path, r->buf ? "write" : "sync", r->offset);
		w->suspended = true;
	}
	if (r->error && !control) {
		r->next = w->failed;
		w->failed = r;
		return;
	}
	if (control) {
		w->control--;
		w->control_failed |= r->error != 0;
	} else {
		w->in_flight[r->flush_parity]--;
		w->bytes_in_flight -= r->len;
		publish_backlog(sfs);
		if (r->slot != SFS_NONE)
			w->slot[r->slot].in_flight--;
		else
			w->map_in_flight = false;
	}
	r->next = w->idle;
	w->idle = r;
	w->idle_count++;
}

/* Submits the request. For a device that was given up it counts as done without a write. */
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

/* A request must be free. slot: the slot that holds the bytes; SFS_NONE: a map. */
static void
submit_write(struct sfs *sfs, uint64_t block, uint32_t from, uint32_t to,
	const uint8_t *bytes, uint32_t slot)
{
	struct sfs_writer *w = sfs->w;
	struct sfs_request *r = get_request(w);
	struct sfs_spot at = sfs_locate(sfs, block);
	*r = (struct sfs_request){.disk = at.disk,
		.buf = bytes,
		.len = to - from,
		.offset = at.offset + from,
		.slot = slot,
		.flush_parity = w->flush_parity};
	w->in_flight[w->flush_parity]++;
	if (slot != SFS_NONE)
		w->slot[slot].in_flight++;
	w->bytes_in_flight += r->len;
	w->since_flush += r->len;
	publish_backlog(sfs);
	submit(sfs, r);
}

bool
sfs_map_submit(struct sfs *sfs, uint64_t block, size_t len)
{
	if (!wait_for_request(sfs))
		return false;
	sfs->w->map_in_flight = true;
	submit_write(sfs, block, 0, len, sfs->w->map_buf, SFS_NONE);
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
		.flush_parity = SFS_CONTROL_WRITE,
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

/* ---- the streams' open blocks ---- */

bool
sfs_tail_submit(struct sfs *sfs, uint32_t stream, uint32_t pad)
{
	struct sfs_tail *tail = &sfs->w->tail[stream];
	if (tail->block == SFS_NONE || tail->waiting == 0 || tail->slot == SFS_NONE)
		return true;
	uint32_t from = tail->submitted, full = tail->fill & ~(SFS_SECTOR - 1);
	uint32_t end = pad ? (tail->fill + pad - 1) & ~(pad - 1) : full;
	if (end == from)
		return true;
	if (!wait_for_request(sfs))
		return false;
	uint8_t *data = sfs_shm_data(&sfs->shm, tail->slot);
	if (pad) {
		memset(data + tail->fill, 0, end - tail->fill);
		tail->fill = end;
		tail->partial = 0;
	}
	tail->submitted = end;
	tail->waiting = tail->partial;
	submit_write(sfs, tail->block, from, end, data + from, tail->slot);
	return true;
}

/*
 * A record that fills [start, end) was added to the tail: once enough full sectors have
 * gathered they are submitted, so that the device has work between flushes, whatever a
 * block's size.
 */
static void
tail_grown(struct sfs *sfs, uint32_t stream, uint32_t start, uint32_t end)
{
	struct sfs_tail *tail = &sfs->w->tail[stream];
	uint32_t full = end & ~(SFS_SECTOR - 1), half = sfs->root.block_size / 2;
	tail->waiting++;
	if (full == end)
		tail->partial = 0;
	else
		tail->partial = full >= start ? 1 : tail->partial + 1;
	/* if no request is free, the next flush submits them */
	if (full >= tail->submitted + PR_MIN(half, SFS_BLOCK_DEFAULT))
		sfs_tail_submit(sfs, stream, 0);
}

void
sfs_flush_start(struct sfs *sfs, enum sfs_flush_kind kind)
{
	struct sfs_writer *w = sfs->w;
	bool timed = kind != SFS_FLUSH_FULL;
	if (w->state != SFS_IDLE)
		return;
	w->dirty = false;
	if (timed)
		w->last_flush = w->last_tick;
	for (uint32_t i = 0; i < sfs->table.streams; i++) {
		struct sfs_tail *tail = &w->tail[i];
		uint64_t last = sfs->table.stream[i].last_sequence;
		/* is the last sector, not full, written too? */
		bool pad = kind == SFS_FLUSH_ALL || tail->submitted == 0;
		if (kind == SFS_FLUSH_AGED)
			pad = last - tail->partial < tail->aged;
		bool good = sfs_tail_submit(sfs, i, pad ? SFS_SECTOR : 0);
		tail->target = good ? last - tail->waiting : 0;
		if (timed)
			tail->aged = last;
		w->dirty |= tail->waiting > 0;
	}
	if (timed)
		w->since_flush = 0;
	w->checkpoint = !timed || w->checkpoint_wanted;
	w->checkpoint_wanted = false;
	w->flush_position = sfs_frontier_position(&w->frontier);
	w->flush_parity ^= 1;
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
	sfs_drop_lost_blocks(sfs);
	w->root_has_loss = w->loss_unsaved;
	sfs_frontier_set_durable(&w->frontier, &sfs->table, w->flush_position);
	sfs_frontier_clear(&w->frontier, &sfs->table, sfs_block_release, sfs);
	w->root_pending = w->frontier.pending;
	size_t len = sfs_root_prepare(sfs, 0);
	w->state = SFS_ROOT_WRITING;
	for (uint16_t i = 0; i < sfs->disks; i++)
		if (!sfs->disk[i].missing)
			control(sfs, i, w->root_buf + i * SFS_ROOT_BYTES, len,
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

/*
 * Takes the next step of the flush if what it waits for has ended. True: something changed.
 */
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
		if (w->in_flight[w->flush_parity ^ 1] > 0)
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
		sfs_frontier_release_pending(&w->frontier, w->root_pending);
		/*
		 * with this root, what was written since a device was lost is durable, too
		 */
		if (w->root_has_loss) {
			now_durable(sfs);
			w->loss_unsaved = !sfs_loss_settled(sfs);
		}
		w->root_has_loss = false;
		w->checkpoint_wanted |= w->loss_unsaved;
		flush_over(sfs, true);
	}
	return true;
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

static void
retry_failed(struct sfs *sfs)
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
	while (w->state != SFS_IDLE && !failed) {
		enum sfs_flush_state before = w->state;
		sfs_pump(sfs, true);
		failed = w->state == before && w->queue.in_flight == 0 && w->failed;
	}
	return failed || w->suspended ? pr_error_set(err, "%s", w->error.text) : 0;
}

/* ---- appending ---- */

size_t
sfs_record_max(const struct sfs *sfs)
{
	return sfs->root.block_size - SFS_BLOCK_HEADER - SFS_RECORD_WIDE;
}

int
sfs_check_stream(const struct sfs *sfs, int stream, struct pr_error *err)
{
	if (!sfs->w)
		return pr_error_set(err, "the volume is open for reading only");
	if ((uint32_t)stream >= sfs->table.streams)
		return pr_error_set(err, "no stream %d in the volume", stream);
	return SFS_OK;
}

static uint32_t
part_of(const struct sfs *sfs, uint64_t start)
{
	return start / (sfs->root.block_size / SFS_WIDE_PARTS);
}

/* Would the open block, with a record up to then, have times further apart than the stream's blocks may? */
static bool
spans_too_long(const struct sfs *sfs, const struct sfs_tail *tail, int64_t max_time)
{
	const struct sfs_entry *e = &sfs->table.entry[tail->block];
	return tail->span > 0 && e->records > 0 &&
	       pr_time_minus(PR_MAX(max_time, e->max_time), e->min_time) > tail->span;
}

/*
 * Prepares the stream's tail: an open block in a slot, with room for the record at `fill`.
 * reserve: earlier records may have to be flushed while this one is made, so it starts at a
 * sector. narrow: the record's time span fits a narrow header.
 */
static int
prepare(struct sfs *sfs, int id, size_t length, bool reserve, bool narrow, int64_t max_time,
	struct pr_error *err)
{
	int rc = sfs_check_stream(sfs, id, err);
	if (rc != SFS_OK)
		return rc;
	uint32_t stream = id;
	struct sfs_tail *tail = &sfs->w->tail[stream];
	if (tail->reserved)
		return pr_error_set(err, "stream %s has a reservation already",
			sfs->table.stream[stream].name);
	if (length > sfs_record_max(sfs))
		return pr_error_as(SFS_TOO_BIG, err,
			"a record of %zu bytes: a block takes %zu at most", length,
			sfs_record_max(sfs));
	sfs_drop_lost_blocks(sfs);
	/* a flush pads the tails, so it must come before this tail is measured */
	if (sfs->w->checkpoint_wanted && sfs->w->state == SFS_IDLE)
		sfs_flush_start(sfs, SFS_FLUSH_FULL);
	uint64_t start = tail->fill;
	if (reserve && tail->waiting > 0)
		start = sfs_sector_up(start);
	tail->reserved = true;
	narrow = narrow && sfs->table.stream[stream].permission == 0 &&
		 part_of(sfs, start) == tail->part;
	tail->header = narrow ? SFS_RECORD_HEADER : SFS_RECORD_WIDE;
	if (tail->block == SFS_NONE || spans_too_long(sfs, tail, max_time) ||
		start + sfs_record_size(tail->header, length) > sfs->root.block_size) {
		rc = sfs_block_end(sfs, stream, err);
		if (rc == SFS_OK)
			rc = sfs_block_begin(sfs, stream, err);
		tail->header = SFS_RECORD_WIDE;
	} else if (start > tail->fill) {
		memset(sfs_shm_data(&sfs->shm, tail->slot) + tail->fill, 0,
			start - tail->fill);
		tail->fill = start;
		tail->partial = 0;
	}
	if (rc == SFS_OK && tail->slot == SFS_NONE)
		rc = sfs_slot_attach(sfs, stream, err);
	tail->reserved = rc == SFS_OK;
	return rc;
}

/* Appends the record to the stream; body NULL: its bytes are already in the slot. */
static void
finish(struct sfs *sfs, uint32_t stream, int64_t min_time, int64_t max_time,
	const void *body, size_t length, struct sfs_handle *handle)
{
	struct sfs_tail *tail = &sfs->w->tail[stream];
	struct sfs_stream *s = &sfs->table.stream[stream];
	const struct sfs_entry *e = &sfs->table.entry[tail->block];
	uint8_t *record = sfs_shm_data(&sfs->shm, tail->slot) + tail->fill;
	uint32_t start = tail->fill;
	uint32_t span = sfs_record_size(tail->header, length);
	struct sfs_record_header h = {.stream = stream,
		.permission = s->permission,
		.block = tail->block,
		.generation = e->generation,
		.sequence = s->last_sequence + 1,
		.index = e->records,
		.size = tail->header,
		.min_time = min_time,
		.max_time = max_time,
		.length = length,
		.offset = start};
	memset(record + tail->header + length, 0, span - tail->header - length);
	sfs_record_put(&sfs->key, &h, body, record);
	tail->fill += span;
	tail->part = part_of(sfs, start);
	tail->reserved = false;
	sfs->w->dirty = true;
	sfs->w->slot[tail->slot].used = ++sfs->w->clock;
	atomic_store_explicit(
		&sfs->shm.slot[tail->slot].fill, tail->fill, memory_order_release);
	sfs_table_record(&sfs->table, tail->block, tail->fill, min_time, max_time);
	if (handle)
		sfs_handle_make(&sfs->key, &h, handle);
	tail_grown(sfs, stream, start, tail->fill);
}

int
sfs_append(struct sfs *sfs, int stream, int64_t min_time, int64_t max_time,
	const void *body, size_t length, struct sfs_handle *handle, struct pr_error *err)
{
	bool narrow = (uint64_t)max_time - (uint64_t)min_time <= UINT32_MAX;
	int rc = prepare(sfs, stream, length, false, narrow, max_time, err);
	if (rc == SFS_OK)
		finish(sfs, stream, min_time, max_time, body, length, handle);
	return rc;
}

void *
sfs_reserve(struct sfs *sfs, int stream, size_t length, struct pr_error *err)
{
	if (prepare(sfs, stream, length, true, false, INT64_MIN, err) != SFS_OK)
		return NULL;
	struct sfs_tail *tail = &sfs->w->tail[stream];
	tail->reserve_room = length;
	return sfs_shm_data(&sfs->shm, tail->slot) + tail->fill + tail->header;
}

int
sfs_commit(struct sfs *sfs, int stream, int64_t min_time, int64_t max_time, size_t length,
	struct sfs_handle *handle, struct pr_error *err)
{
	if (!sfs->w || (uint32_t)stream >= sfs->table.streams ||
		!sfs->w->tail[stream].reserved)
		return pr_error_set(err, "nothing is reserved in stream %d", stream);
	if (length > sfs->w->tail[stream].reserve_room)
		return pr_error_as(SFS_TOO_BIG, err, "%zu bytes committed, %zu reserved",
			length, sfs->w->tail[stream].reserve_room);
	finish(sfs, stream, min_time, max_time, NULL, length, handle);
	return SFS_OK;
}

int
sfs_flush(struct sfs *sfs, struct pr_error *err)
{
	if (!sfs->w)
		return pr_error_set(err, "the volume is open for reading only");
	retry_failed(sfs);
	if (sfs_flush_finish(sfs, err) < 0 && sfs->w->state != SFS_IDLE)
		return SFS_ERROR;
	sfs_flush_start(sfs, SFS_FLUSH_ALL);
	return sfs_flush_finish(sfs, err);
}

/*
 * A timed flush comes every half interval, and leaves sectors that are not full to the next
 * one. If the data is more than a hundred times the padding of all streams, the flush waits
 * for a quarter of an interval more and writes everything: that saves syncs, and nothing
 * waits longer than a whole interval.
 */
static void
flush_in_time(struct sfs *sfs, int64_t since)
{
	struct sfs_writer *w = sfs->w;
	uint64_t pads = 0;
	for (uint32_t i = 0; i < sfs->table.streams; i++)
		pads += w->tail[i].waiting > 0;
	bool later = !w->checkpoint_wanted && !w->suspended &&
		     since < w->flush_interval / 4 * 3 && w->since_flush > 0 &&
		     w->since_flush >= pads * SFS_SECTOR * 100;
	if (!later)
		sfs_flush_start(sfs, w->put_off ? SFS_FLUSH_ALL : SFS_FLUSH_AGED);
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
		retry_failed(sfs);
		sfs_pump(sfs, false);
	}
	/* a record waits at most for the second flush */
	int64_t interval = w->flush_interval / 2;
	if (w->suspended && interval < RETRY)
		interval = RETRY;
	if (w->state == SFS_IDLE && (w->dirty || w->checkpoint_wanted) &&
		now_mono - w->last_flush >= interval)
		flush_in_time(sfs, now_mono - w->last_flush);
	return w->suspended ? pr_error_set(err, "%s", w->error.text) : SFS_OK;
}

uint64_t
sfs_appended(const struct sfs *sfs, int stream)
{
	return (uint32_t)stream < sfs->table.streams
		       ? sfs->table.stream[stream].last_sequence
		       : 0;
}

uint64_t
sfs_durable(const struct sfs *sfs, int stream)
{
	return (uint32_t)stream < sfs->table.streams
		       ? sfs->table.stream[stream].durable_sequence
		       : 0;
}
