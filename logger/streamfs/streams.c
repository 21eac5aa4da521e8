/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "logger/streamfs/internal.h"
#include "proto/base/clock.h"

int
sfs_stream_find(struct sfs *sfs, const char *name)
{
	struct sfs_stream s;
	uint32_t n = sfs_view_streams(sfs);
	for (uint32_t i = 0; i < n; i++)
		if (sfs_view_stream(sfs, i, &s) && strcmp(s.name, name) == 0)
			return (int)i;
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
	*s = (struct sfs_stream){
		.id = t->streams,
		.created = pr_now_real(),
		.oldest = SFS_NONE,
		.newest = SFS_NONE,
		.first_sequence = 1,
		.evicted_until = INT64_MIN,
	};
	snprintf(s->name, sizeof(s->name), "%s", name);
	return (int)s->id;
}

/* What was changed of a stream counts when a root says so; else it is as before. */
int
sfs_stream_store(
	struct sfs *sfs, uint32_t id, const struct sfs_stream *old, struct pr_error *err)
{
	struct sfs_stream *s = &sfs->table.stream[id];
	if (sfs_flush_finish(sfs, err) < 0 || sfs_root_store(sfs, 0, err) < 0) {
		s->guarantee = old->guarantee;
		s->permission = old->permission;
		s->flags = old->flags;
		return -1;
	}
	sfs_table_notify_stream(&sfs->table, id);
	return 0;
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
	if (sfs_guarantee_check(sfs, id, guarantee, err) < 0 ||
		(fresh && (id = add_stream(sfs, name, err)) < 0))
		return -1;
	struct sfs_stream *s = &t->stream[id];
	if (!fresh && s->guarantee == guarantee && s->permission == permission)
		return id;
	struct sfs_stream old = *s;
	s->guarantee = guarantee;
	s->permission = permission;
	t->streams += fresh;
	if (sfs_stream_store(sfs, (uint32_t)id, &old, err) < 0) {
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
	int id = sfs_stream_find(sfs, name);
	if (!sfs->w)
		return pr_error_set(err, "the volume is open for reading only");
	if (id < 0)
		return pr_error_set(err, "no stream '%.60s' in the volume", name);
	struct sfs_stream *s = &sfs->table.stream[id], old = *s;
	s->permission = permission;
	s->flags |= SFS_STREAM_PERMISSION;
	return sfs_stream_store(sfs, (uint32_t)id, &old, err);
}

/* All blocks go; sequences go on, so that no number is given twice. */
int
sfs_reset(struct sfs *sfs, struct pr_error *err)
{
	struct sfs_table *t = &sfs->table;
	if (!sfs->w)
		return pr_error_set(err, "the volume is open for reading only"), SFS_ERROR;
	if (sfs_flush(sfs, err) != SFS_OK)
		return SFS_ERROR;
	for (uint32_t i = 0; i < t->streams; i++) {
		struct sfs_tail *tail = &sfs->w->tail[i];
		if (tail->reserved)
			return pr_error_set(err,
				       "stream %s has a reservation: commit it first",
				       t->stream[i].name),
			       SFS_ERROR;
		if (tail->slot != SFS_NONE)
			sfs_slot_release(sfs, tail->slot);
		*tail = (struct sfs_tail){.block = SFS_NONE, .slot = SFS_NONE};
		if (t->stream[i].newest != SFS_NONE)
			sfs_table_evict(t, t->stream[i].newest);
	}
	sfs->root.reset_generation = sfs->w->frontier.next_generation - 1;
	return sfs_root_store(sfs, 0, err) < 0 ? SFS_ERROR : SFS_OK;
}

static void
text_uuid(const uint8_t u[16], char *out, size_t size)
{
	snprintf(out, size,
		"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
		u[12], u[13], u[14], u[15]);
}

int
sfs_info(struct sfs *sfs, struct sfs_volume_info *out, struct pr_error *err)
{
	struct sfs_stream s;
	(void)err;
	sfs_holes_look(sfs);
	*out = (struct sfs_volume_info){
		.version = SFS_VERSION,
		.block_size = sfs->root.block_size,
		.blocks = sfs->root.blocks,
		.generation = sfs_view_next_generation(sfs) - 1,
		.writer_alive = sfs_writer_alive(sfs),
		.devices = sfs->disks,
		.devices_missing = sfs->missing,
		.zones = sfs->root.zone_region != 0,
		.stream_count = sfs_view_streams(sfs),
		.recovered_records = sfs->recovered_records,
		.lost_tail_bytes = sfs->lost_tail_bytes,
		.repairs = sfs->repairs - sfs->wipes,
		.wiping = sfs->wipes + sfs->erasing,
		.deletions = sfs->holes,
	};
	text_uuid(sfs->root.uuid, out->uuid, sizeof(out->uuid));
	sfs_guarantee_info(sfs, out);
	for (uint16_t i = 0; i < sfs->disks; i++)
		out->devices_lost += sfs->disk[i].lost;
	for (uint32_t i = 0; i < out->stream_count; i++) {
		if (!sfs_view_stream(sfs, i, &s))
			continue;
		out->blocks_used += s.blocks;
		out->bytes += s.bytes;
	}
	return SFS_OK;
}

/*
 * Of a block with deleted records the times of those that are left, nearly: as if they rose. No records: none
 * are left.
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

/* Walks the blocks for their times; a stream that moves on meanwhile gives what was found. */
static void
stream_times(struct sfs *sfs, const struct sfs_stream *s, struct sfs_stream_info *out)
{
	uint32_t block = s->oldest;
	uint64_t generation = 0;
	struct sfs_entry e;
	while (block != SFS_NONE && sfs_view_entry(sfs, block, &e) && e.stream == s->id &&
		e.generation > generation) {
		generation = e.generation;
		if (e.flags & SFS_ENTRY_CUT)
			times_left(sfs, &e);
		if (e.records && e.min_time < out->min_time)
			out->min_time = e.min_time;
		if (e.records && e.max_time > out->max_time)
			out->max_time = e.max_time;
		block = e.next;
	}
}

/* Of a hole that is recycled in part, its bytes by its records. */
static void
stream_deleted(struct sfs *sfs, const struct sfs_stream *s, struct sfs_stream_info *out)
{
	struct sfs_map_entry h;
	uint64_t at = s->first_sequence, bytes = 0;
	while (sfs_hole_next(sfs, s->id, at, &h)) {
		uint64_t from = h.first_sequence > at ? h.first_sequence : at, held;
		at = h.first_sequence + h.records;
		held = at - from;
		out->deleted_records += held;
		bytes += h.ordinal / h.records * held +
			 h.ordinal % h.records * held / h.records;
	}
	out->deleted_bytes = bytes < s->bytes ? bytes : s->bytes;
	out->bytes = s->bytes - out->deleted_bytes;
}

int
sfs_stream_info(
	struct sfs *sfs, size_t index, struct sfs_stream_info *out, struct pr_error *err)
{
	struct sfs_stream s;
	if (index >= SFS_STREAMS_MAX || !sfs_view_stream(sfs, (uint32_t)index, &s))
		return pr_error_set(err, "no stream %zu in the volume", index), SFS_ERROR;
	*out = (struct sfs_stream_info){
		.id = s.id,
		.permission = s.permission,
		.guarantee = s.guarantee,
		.blocks = s.blocks,
		.bytes = s.bytes,
		.recycled_records = s.first_sequence - 1,
		.min_time = INT64_MAX,
		.max_time = INT64_MIN,
		.evicted_until = s.evicted_until,
	};
	memcpy(out->name, s.name, sizeof(out->name));
	if (s.last_sequence < s.first_sequence)
		return SFS_OK;
	out->first_sequence = s.first_sequence;
	out->last_sequence = s.last_sequence;
	stream_times(sfs, &s, out);
	stream_deleted(sfs, &s, out);
	return SFS_OK;
}

bool
sfs_stream_deleted(struct sfs *sfs, int stream, uint64_t sequence, struct sfs_deleted *out)
{
	struct sfs_map_entry h;
	if (stream < 0 || !sfs_hole_next(sfs, (uint32_t)stream, sequence, &h))
		return false;
	*out = (struct sfs_deleted){.first = h.first_sequence,
		.last = h.first_sequence + h.records - 1,
		.bytes = h.ordinal,
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
	snprintf(note, sizeof(note), "%s", text);
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
