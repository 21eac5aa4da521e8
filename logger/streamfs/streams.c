/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>

#include "logger/streamfs/internal.h"

/* ---- storage guarantees ---- */

/*
 * Storage guarantees (Hyperion, section 4.2): their limits, and how a guarantee is changed
 * on a volume that is being written.
 */

/* The frontier needs free blocks: even in the smallest volume not all may be guaranteed. */
#define FRONTIER_ROOM 4

/* Blocks for records, on devices that are not lost. */
static uint64_t
data_blocks(const struct sfs *sfs)
{
	uint64_t blocks = sfs->root.blocks;
	for (uint16_t i = 0; i < sfs->disks; i++)
		if (sfs->disk[i].lost)
			blocks -= sfs->layout.rows[i];
	return blocks - blocks / sfs->root.map_interval;
}

uint64_t
sfs_guarantee_most(const struct sfs *sfs)
{
	uint64_t data = data_blocks(sfs);
	uint64_t most = data * sfs->root.utilization / 1000;
	return data <= FRONTIER_ROOM ? 0 : PR_MIN(most, data - FRONTIER_ROOM);
}

/* 0 if the stream (an id, or -1: a new one) may have this guarantee beside the others. */
static int
check_guarantee(const struct sfs *sfs, int stream, uint64_t guarantee, struct pr_error *err)
{
	const struct sfs_table *t = &sfs->table;
	uint64_t data = data_blocks(sfs), most = sfs_guarantee_most(sfs);
	uint64_t blocks = sfs_table_blocks_for(t, guarantee), streams = guarantee > 0;
	for (uint32_t i = 0; i < t->streams; i++) {
		if ((int)i == stream)
			continue;
		blocks += sfs_table_blocks_for(t, t->stream[i].guarantee);
		streams += t->stream[i].guarantee > 0;
	}
	/* each stream's newest block comes on top of its guarantee */
	if (blocks <= most && blocks + streams + FRONTIER_ROOM <= data)
		return 0;
	return pr_error_set(err,
		"guarantees of %" PRIu64 " blocks in all: at most %" PRIu64
		" of the volume's %" PRIu64 " may be guaranteed (utilization %u.%u %%)",
		blocks, most, sfs->root.blocks, sfs->root.utilization / 10,
		sfs->root.utilization % 10);
}

/* Stores a root with the changed stream; on failure the stream is as before. */
static int
store_stream(
	struct sfs *sfs, uint32_t id, const struct sfs_stream *old, struct pr_error *err)
{
	struct sfs_stream *s = &sfs->table.stream[id];
	if (sfs_flush_finish(sfs, err) < 0 || sfs_root_store(sfs, 0, err) < 0) {
		PR_COPY(s, old, guarantee, permission, flags);
		return -1;
	}
	sfs_table_notify_stream(&sfs->table, id);
	return 0;
}

/* flag: of the stream, that its guarantee or permission was set by hand. */
static int
set_own(struct sfs *sfs, const char *name, uint32_t flag, uint64_t value,
	struct pr_error *err)
{
	int id = sfs_stream_find(sfs, name);
	if (id < 0)
		return pr_error_set(err, "no stream '%.60s' in the volume", name);
	struct sfs_stream *s = &sfs->table.stream[id], old = *s;
	if (flag == SFS_STREAM_PERMISSION)
		s->permission = value;
	else if (check_guarantee(sfs, id, value, err) < 0)
		return -1;
	else
		s->guarantee = value;
	s->flags |= flag;
	return store_stream(sfs, id, &old, err);
}

void
sfs_guarantee_serve(struct sfs *sfs)
{
	struct sfs_shm_header *h = sfs->shm.header;
	uint64_t state = atomic_load_explicit(&h->ask_state, memory_order_acquire);
	struct sfs_ask ask;
	struct sfs_answer answer = {0};
	struct pr_error err = {0};
	if ((state & 1) == 0)
		return;
	sfs_words_get(h->ask, &ask, SFS_ASK_WORDS);
	ask.name[SFS_NAME_MAX] = 0;
	answer.result = set_own(sfs, ask.name, SFS_STREAM_KEPT, ask.guarantee, &err);
	PR_PRINT(answer.text, "%s", err.text);
	sfs_words_put(h->answer, &answer, SFS_ANSWER_WORDS);
	atomic_store_explicit(&h->ask_state, state + 1, memory_order_release);
}

#define PATIENCE (10 * PR_NS_PER_S)

/* Waits until the writer has answered the request, ours or one whose asker gave up. */
static int
await(struct sfs *sfs, const struct sfs_shm_header *h, int64_t deadline,
	struct pr_error *err)
{
	while (atomic_load_explicit(&h->ask_state, memory_order_acquire) & 1) {
		if (!sfs_writer_alive(sfs))
			return pr_error_set(err, "the volume's writer has gone: try again");
		if (pr_now_mono() > deadline)
			return pr_error_set(err, "the volume's writer does not answer: it "
						 "may be busy, or its device may hang");
		poll(NULL, 0, 2);
	}
	return 0;
}

int
sfs_guarantee_set(
	struct sfs *sfs, const char *stream, uint64_t guarantee, struct pr_error *err)
{
	int64_t deadline = pr_now_mono() + PATIENCE;
	struct sfs_ask ask = {.guarantee = guarantee};
	struct sfs_answer answer;
	int fd;
	if (sfs->w)
		return set_own(sfs, stream, SFS_STREAM_KEPT, guarantee, err);
	if (sfs_refresh(sfs, err) != SFS_OK)
		return -1;
	if (!sfs->live)
		return pr_error_set(
			err, "no writer of the volume lives: open it for writing");
	if (strlen(stream) > SFS_NAME_MAX)
		return pr_error_set(err, "no stream '%.60s' in the volume", stream);
	PR_PRINT(ask.name, "%s", stream);
	struct sfs_shm_header *h = sfs_shm_ask_open(&sfs->shm, &fd, err);
	if (!h)
		return -1;
	int rc = await(sfs, h, deadline, err);
	if (rc == 0) {
		sfs_words_put(h->ask, &ask, SFS_ASK_WORDS);
		atomic_fetch_add_explicit(&h->ask_state, 1, memory_order_release);
		rc = await(sfs, h, deadline, err);
	}
	if (rc == 0) {
		sfs_words_get(h->answer, &answer, SFS_ANSWER_WORDS);
		answer.text[sizeof(answer.text) - 1] = 0;
		if (answer.result < 0)
			rc = pr_error_set(err, "%s", answer.text);
	}
	sfs_shm_ask_close(h, fd);
	return rc;
}

/* ---- streams and figures ---- */

int
sfs_stream_find(struct sfs *sfs, const char *name)
{
	struct sfs_stream s;
	uint32_t n = sfs_view_streams(sfs);
	for (uint32_t i = 0; i < n; i++)
		if (sfs_view_stream(sfs, i, &s) && strcmp(s.name, name) == 0)
			return i;
	return -1;
}

static int
add_stream(struct sfs *sfs, const char *name, struct pr_error *err)
{
	struct sfs_table *t = &sfs->table;
	if (name[0] == 0 || strlen(name) > SFS_NAME_MAX)
		return pr_error_set(
			err, "stream name '%.60s': 1 to %d bytes", name, SFS_NAME_MAX);
	if (t->streams == SFS_STREAMS_MAX)
		return pr_error_set(
			err, "the volume has %d streams already", SFS_STREAMS_MAX);
	if (sfs->redos > 0 && !sfs_root_has_room(sfs, 0))
		return pr_error_set(err, "the root has no room for a stream while a "
					 "deletion is under way");
	struct sfs_stream *s = &t->stream[t->streams];
	*s = (struct sfs_stream){.id = t->streams,
		.created = pr_now_real(),
		.oldest = SFS_NONE,
		.newest = SFS_NONE,
		.first_sequence = 1,
		.evicted_until = INT64_MIN};
	PR_PRINT(s->name, "%s", name);
	return s->id;
}

int
sfs_stream_open(struct sfs *sfs, const char *name, uint64_t guarantee, uint32_t permission,
	struct pr_error *err)
{
	if (!sfs->w)
		return pr_error_set(err, "the volume is open for reading only");
	struct sfs_table *t = &sfs->table;
	int id = sfs_stream_find(sfs, name);
	bool fresh = id < 0;
	if (!fresh && (t->stream[id].flags & SFS_STREAM_KEPT))
		guarantee = t->stream[id].guarantee;
	if (!fresh && (t->stream[id].flags & SFS_STREAM_PERMISSION))
		permission = t->stream[id].permission;
	if (check_guarantee(sfs, id, guarantee, err) < 0 ||
		(fresh && (id = add_stream(sfs, name, err)) < 0))
		return -1;
	struct sfs_stream *s = &t->stream[id];
	if (!fresh && s->guarantee == guarantee && s->permission == permission)
		return id;
	struct sfs_stream old = *s;
	s->guarantee = guarantee;
	s->permission = permission;
	t->streams += fresh;
	if (store_stream(sfs, id, &old, err) < 0) {
		t->streams -= fresh;
		return -1;
	}
	atomic_store_explicit(&sfs->shm.header->streams, t->streams, memory_order_release);
	return id;
}

int
sfs_permission_set(
	struct sfs *sfs, const char *name, uint32_t permission, struct pr_error *err)
{
	if (!sfs->w)
		return pr_error_set(err, "the volume is open for reading only");
	return set_own(sfs, name, SFS_STREAM_PERMISSION, permission, err);
}

int
sfs_span_set(struct sfs *sfs, int stream, int64_t span, struct pr_error *err)
{
	int rc = sfs_check_stream(sfs, stream, err);
	if (rc == SFS_OK)
		sfs->w->tail[stream].span = span;
	return rc;
}

int
sfs_memory_set(struct sfs *sfs, int stream, unsigned permille, struct pr_error *err)
{
	int rc = sfs_check_stream(sfs, stream, err);
	if (rc == SFS_OK)
		sfs->w->tail[stream].memory =
			(uint32_t)((uint64_t)sfs->shm.slots * permille / 1000);
	return rc;
}

/* Drops all blocks. Sequences continue, so that none is given twice. */
int
sfs_reset(struct sfs *sfs, struct pr_error *err)
{
	struct sfs_table *t = &sfs->table;
	if (!sfs->w)
		return pr_error_set(err, "the volume is open for reading only");
	if (sfs_flush(sfs, err) != SFS_OK)
		return SFS_ERROR;
	for (uint32_t i = 0; i < t->streams; i++) {
		struct sfs_tail *tail = &sfs->w->tail[i];
		if (tail->reserved)
			return pr_error_set(err,
				"stream %s has a reservation: commit it first",
				t->stream[i].name);
		if (tail->slot != SFS_NONE)
			sfs_slot_release(sfs, tail->slot);
		*tail = (struct sfs_tail){.block = SFS_NONE,
			.slot = SFS_NONE,
			.span = tail->span,
			.memory = tail->memory};
		if (t->stream[i].newest != SFS_NONE)
			sfs_table_evict(t, t->stream[i].newest);
	}
	sfs->root.reset_generation = sfs->w->frontier.next_generation - 1;
	return sfs_root_store(sfs, 0, err);
}

int
sfs_info(struct sfs *sfs, struct sfs_volume_info *out, PR_UNUSED struct pr_error *err)
{
	struct sfs_stream s;
	uint64_t next = sfs->root.generation_limit + 1;
	if (sfs->w)
		next = sfs->w->frontier.next_generation;
	else if (sfs->live)
		next = atomic_load_explicit(
			&sfs->shm.header->next_generation, memory_order_acquire);
	sfs_holes_reload(sfs);
	*out = (struct sfs_volume_info){.version = SFS_VERSION,
		.generation = next - 1,
		.writer_alive = sfs_writer_alive(sfs),
		.devices = sfs->disks,
		.devices_missing = sfs->missing,
		.devices_lost = sfs->lost,
		.zones = sfs->root.zone_region != 0,
		.guarantee_most = sfs_guarantee_most(sfs),
		.stream_count = sfs_view_streams(sfs),
		.repairs = sfs->repairs - sfs->wipes,
		.wiping = sfs->wipes + sfs->erasing,
		.deletions = sfs->holes};
	PR_COPY(out, &sfs->root, block_size, blocks, utilization);
	PR_COPY(out, sfs, writers, recovered_records, lost_tail_bytes);
	sfs_uuid_text(sfs->root.uuid, out->uuid);
	for (uint32_t i = 0; i < out->stream_count; i++) {
		if (!sfs_view_stream(sfs, i, &s))
			continue;
		out->blocks_used += s.blocks;
		out->bytes += s.bytes;
		out->guaranteed_blocks += s.guarantee / out->block_size +
					  (s.guarantee % out->block_size != 0);
	}
	out->blocks_free = data_blocks(sfs);
	out->blocks_free -= PR_MIN(out->blocks_used, out->blocks_free);
	return SFS_OK;
}

/*
 * Estimates the times of the records left in a block with deleted ones, as if record times
 * only increased. Sets e->records to 0 if none is left.
 */
static void
times_left(struct sfs *sfs, struct sfs_entry *e)
{
	uint64_t first = e->first_sequence, end = first + e->records;
	struct sfs_map_entry h;
	while (first < end && sfs_hole_at(sfs, e->stream, first, &h)) {
		first = h.first_sequence + h.records;
		if (h.max_time > e->min_time && h.max_time <= e->max_time)
			e->min_time = h.max_time;
	}
	if (first < end && sfs_hole_at(sfs, e->stream, end - 1, &h) &&
		h.min_time < e->max_time && h.min_time >= e->min_time)
		e->max_time = h.min_time;
	if (first >= end)
		e->records = 0;
}

/*
 * Sums up the deleted records and bytes. If a hole is partly overwritten, takes the share
 * of its bytes by its records.
 */
static void
stream_deleted(struct sfs *sfs, const struct sfs_stream *s, struct sfs_stream_info *out)
{
	struct sfs_map_entry h;
	uint64_t at = s->first_sequence, bytes = 0;
	while (sfs_hole_next(sfs, s->id, at, &h)) {
		uint64_t from = PR_MAX(h.first_sequence, at), held;
		at = h.first_sequence + h.records;
		held = at - from;
		out->deleted_records += held;
		bytes += h.block_number / h.records * held +
			 h.block_number % h.records * held / h.records;
	}
	out->deleted_bytes = PR_MIN(bytes, s->bytes);
	out->bytes = s->bytes - out->deleted_bytes;
}

int
sfs_stream_info(
	struct sfs *sfs, size_t index, struct sfs_stream_info *out, struct pr_error *err)
{
	struct sfs_stream s;
	struct sfs_entry e;
	uint64_t generation = 0;
	if (index >= SFS_STREAMS_MAX || !sfs_view_stream(sfs, index, &s))
		return pr_error_set(err, "no stream %zu in the volume", index);
	*out = (struct sfs_stream_info){.recycled_records = s.first_sequence - 1,
		.min_time = INT64_MAX,
		.max_time = INT64_MIN};
	PR_COPY(out, &s, id, permission, guarantee, blocks, bytes, evicted_until);
	memcpy(out->name, s.name, sizeof(out->name));
	if (s.last_sequence < s.first_sequence)
		return SFS_OK;
	PR_COPY(out, &s, first_sequence, last_sequence);
	/*
	 * the times of the blocks; if the stream changes meanwhile, as far as it can be
	 * followed
	 */
	for (uint32_t b = s.oldest; b != SFS_NONE && sfs_view_entry(sfs, b, &e) &&
				    e.stream == s.id && e.generation > generation;
		b = e.next) {
		generation = e.generation;
		if (e.flags & SFS_ENTRY_CUT)
			times_left(sfs, &e);
		if (e.records)
			pr_time_widen(
				&out->min_time, &out->max_time, e.min_time, e.max_time);
	}
	stream_deleted(sfs, &s, out);
	return SFS_OK;
}

bool
sfs_stream_deleted(struct sfs *sfs, int stream, uint64_t sequence, struct sfs_deleted *out)
{
	struct sfs_map_entry h;
	if (stream < 0 || !sfs_hole_next(sfs, stream, sequence, &h))
		return false;
	*out = (struct sfs_deleted){.first = h.first_sequence,
		.last = h.first_sequence + h.records - 1,
		.bytes = h.block_number,
		.min_time = h.min_time,
		.max_time = h.max_time};
	return true;
}

void
sfs_note_set(struct sfs *sfs, const char *text)
{
	char note[SFS_NOTE_BYTES] = {0};
	if (!sfs->w)
		return;
	PR_PRINT(note, "%s", text);
	sfs_seq_write(sfs->shm.header->note, note, SFS_NOTE_WORDS);
}

bool
sfs_note_get(struct sfs *sfs, char *buf, size_t size)
{
	char note[SFS_NOTE_BYTES];
	if ((!sfs->live && !sfs->w) || size == 0 || !sfs_writer_alive(sfs) ||
		!sfs_seq_read(sfs->shm.header->note, note, SFS_NOTE_WORDS))
		return false;
	note[SFS_NOTE_BYTES - 1] = 0;
	snprintf(buf, size, "%s", note);
	return note[0] != 0;
}

/* ---- forecast ---- */

/*
 * Estimates how long the volume will keep new data. A stream's rate is the size of its
 * blocks divided by the time span of their records. The recent rate counts only blocks of
 * the last minute, so it covers running captures. A stream of a single block has no useful
 * time span: its bytes are spread over the span of the longest stream.
 */
#define RECENT (60 * INT64_C(1000000000))
#define SECOND 1e9

struct rates {
	double whole, recent; /* bytes a second */
	double small, longest; /* bytes in streams of one block; ns of the longest stream */
};

/* Bytes per second; 0: no time, or not known. */
static double
over(double bytes, double ns)
{
	return ns < 1 ? 0 : bytes / ns * SECOND;
}

/* A full block counts with its whole size, the newest with its content. */
static void
stream_rates(struct sfs *sfs, const struct sfs_stream *s, int64_t now, struct rates *out)
{
	double bytes = 0, recent = 0;
	int64_t from = INT64_MAX, to = INT64_MIN, recent_from = INT64_MAX;
	uint64_t generation = 0;
	struct sfs_entry e;
	for (uint32_t b = s->oldest; b != SFS_NONE && sfs_view_entry(sfs, b, &e) &&
				     e.stream == s->id && e.generation > generation;
		b = e.next) {
		double size = e.next == SFS_NONE ? e.end : sfs->root.block_size;
		generation = e.generation;
		if (e.records == 0 || e.min_time == INT64_MIN || e.min_time > e.max_time)
			continue;
		pr_time_widen(&from, &to, e.min_time, e.max_time);
		bytes += size;
		if (e.max_time < now - RECENT || e.min_time > now)
			continue;
		recent += size;
		recent_from = PR_MIN(e.min_time, recent_from);
	}
	double time = (double)to - (double)from;
	if (s->blocks <= 1)
		out->small += bytes;
	else
		out->whole += over(bytes, time);
	out->longest = PR_MAX(time, out->longest);
	out->recent += over(recent, (double)now - (double)recent_from);
}

static int64_t
time_for(double bytes, double rate)
{
	double s = bytes / rate;
	/* a rate of nothing, or more than 292 years */
	return rate <= 0 || s > 9.2e9 ? INT64_MAX : (int64_t)(s * SECOND);
}

int
sfs_forecast(struct sfs *sfs, int64_t now, struct sfs_forecast *out, struct pr_error *err)
{
	struct sfs_volume_info volume;
	struct rates r = {0};
	struct sfs_stream s;
	if (!sfs->live && !sfs->table_valid)
		return pr_error_set(err, "the volume cannot be read at present");
	sfs_info(sfs, &volume, NULL);
	const uint64_t size = volume.block_size;
	uint64_t data = volume.blocks - volume.blocks / sfs->root.map_interval;
	uint64_t used = volume.blocks_used, bound = volume.guaranteed_blocks;
	*out = (struct sfs_forecast){.capacity = data * size};
	for (uint32_t i = 0; i < volume.stream_count; i++) {
		if (!sfs_view_stream(sfs, i, &s))
			continue;
		stream_rates(sfs, &s, now, &r);
		out->wrapped |= s.evicted_until != INT64_MIN;
	}
	r.whole += over(r.small, r.longest);
	out->rate = r.whole;
	out->recent_rate = volume.writer_alive ? r.recent : 0;
	double present = out->recent_rate > 0 ? r.recent : r.whole;
	out->kept = time_for(bound < data ? (double)((data - bound) * size) : 0, present);
	if (!out->wrapped)
		out->until_full =
			time_for(used < data ? (double)((data - used) * size) : 0, present);
	return SFS_OK;
}
