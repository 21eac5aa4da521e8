/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/volume.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/query/view_internal.h"
#include "proto/base/clock.h"

#define DATA_PREFIX "packets."
#define STREAM_STRAYS "strays"

/* A directory that is further behind than this is not being written: list by reading. */
#define UNLISTED_MAX 64

#define BUFFER_ALIGNMENT 4096

struct pri_volume *
pri_volume_open(
	const char *const *paths, size_t count, unsigned options, struct pr_error *err)
{
	struct pri_volume *view = calloc(1, sizeof(*view));
	const struct sfs_open_options open = {
		.no_direct = (options & PRI_VOLUME_CACHED) != 0};

	if (!view) {
		pr_error_set(err, "no memory");
		return NULL;
	}
	view->with_summaries = options & PRI_VOLUME_SUMMARIES;
	view->sfs = sfs_open(paths, count, &open, err);
	if (!view->sfs)
		pri_volume_close(&view);
	return view;
}

void
pri_volume_close(struct pri_volume **view)
{
	struct pri_volume *v = *view;

	if (!v)
		return;
	sfs_cursor_close(&v->ledger);
	sfs_cursor_close(&v->directory);
	sfs_cursor_close(&v->summaries);
	sfs_close(&v->sfs);
	pri_catalog_free(&v->catalog);
	pri_ledger_view_free(&v->book);
	pri_index_map_free(&v->index);
	for (size_t i = 0; i < v->stream_count; i++)
		free(v->streams[i].pending);
	free(v->streams);
	free(v);
	*view = NULL;
}

/* ---- streams ---- */

struct pri_volume_stream *
pri_volume_stream(struct pri_volume *view, uint32_t id)
{
	for (size_t i = 0; i < view->stream_count; i++)
		if (view->streams[i].id == id)
			return &view->streams[i];
	return NULL;
}

static struct pri_volume_stream *
add_stream(struct pri_volume *view, const struct sfs_stream_info *info)
{
	struct pri_volume_stream *streams, *s;

	streams = realloc(view->streams, (view->stream_count + 1) * sizeof(*streams));
	if (!streams)
		return NULL;
	view->streams = streams;
	s = &streams[view->stream_count++];
	memset(s, 0, sizeof(*s));
	s->id = info->id;
	s->strays = !strcmp(info->name, STREAM_STRAYS);
	s->data = s->strays || !strncmp(info->name, DATA_PREFIX, strlen(DATA_PREFIX));
	if (s->data && !s->strays)
		s->link = (uint16_t)strtoul(info->name + strlen(DATA_PREFIX), NULL, 10);
	return s;
}

/* All that we know of is gone: the volume was reset, or recycled while nobody looked. */
static void
forget_stream(struct pri_volume *view, struct pri_volume_stream *s)
{
	pri_catalog_expire(&view->catalog, s->id, UINT64_MAX);
	if (!s->strays)
		pri_index_map_expire(&view->index, s->link, UINT64_MAX);
	s->any = false;
	s->last_sequence = 0;
	s->corrupt_tail = 0;
	s->pending_count = 0;
}

static void
tell_deleted(struct pri_volume *view, struct pri_volume_stream *s)
{
	struct sfs_deleted hole = {0};

	while (sfs_stream_deleted(view->sfs, (int)s->id, hole.last + 1, &hole))
		pri_catalog_delete(&view->catalog, s->id, hole.first, hole.last);
	s->deleted_records = s->info.deleted_records;
}

static void
update_data(struct pri_volume *view, struct pri_volume_stream *s)
{
	const struct sfs_stream_info *info = &s->info;

	if (!s->any)
		return;
	if (info->last_sequence < s->last_sequence ||
		info->first_sequence > s->last_sequence)
		forget_stream(view, s);
	else {
		pri_catalog_expire(&view->catalog, s->id, info->first_sequence);
		if (!s->strays)
			pri_index_map_expire(&view->index, s->link, info->first_sequence);
	}
	if (info->deleted_records != s->deleted_records)
		tell_deleted(view, s);
}

static void
update_ledger(struct pri_volume *view, const struct sfs_stream_info *info)
{
	if (info->last_sequence >= view->ledger_sequence)
		return;
	pri_ledger_view_free(&view->book); /* the volume was reset */
	sfs_cursor_close(&view->ledger);
	sfs_cursor_close(&view->directory);
	sfs_cursor_close(&view->summaries);
	view->ledger_sequence = 0;
}

static int
update_streams(struct pri_volume *view, struct pr_error *err)
{
	struct sfs_volume_info volume;
	struct sfs_stream_info info;

	if (sfs_info(view->sfs, &volume, err) < 0)
		return -1;
	for (size_t i = 0; i < volume.stream_count; i++) {
		struct pri_volume_stream *s;
		if (sfs_stream_info(view->sfs, i, &info, err) < 0)
			return -1;
		s = pri_volume_stream(view, info.id);
		if (!s)
			s = add_stream(view, &info);
		if (!s)
			return pr_error_set(err, "no memory");
		s->info = info;
		if (s->data)
			update_data(view, s);
		else if (!strcmp(info.name, PRI_STREAM_LEDGER))
			update_ledger(view, &info);
	}
	return 0;
}

/* ---- refreshing ---- */

static uint64_t
unlisted(const struct pri_volume *view, const struct pri_volume_stream *s)
{
	uint64_t first = s->any ? s->last_sequence + 1 : s->info.first_sequence;
	struct sfs_deleted hole;

	while (s->info.deleted_records > 0 &&
		sfs_stream_deleted(view->sfs, (int)s->id, first, &hole) &&
		hole.first <= first)
		first = hole.last + 1;
	return s->info.last_sequence >= first && s->info.last_sequence
		       ? s->info.last_sequence - first + 1
		       : 0;
}

static int
list_data(struct pri_volume *view, bool all, int64_t deadline, struct pr_error *err)
{
	for (size_t i = 0; i < view->stream_count; i++) {
		struct pri_volume_stream *s = &view->streams[i];
		int rc = 0;
		if (!s->data)
			continue;
		if (pri_volume_settle(view, s, err) < 0)
			return -1;
		pri_volume_pass_deleted(view, s);
		if (all || unlisted(view, s) > UNLISTED_MAX)
			rc = pri_volume_walk(view, s, deadline, err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

int
pri_volume_refresh(
	struct pri_volume *view, bool all, int64_t deadline, struct pr_error *err)
{
	int rc;

	if (sfs_refresh(view->sfs, err) < 0 || update_streams(view, err) < 0)
		return -1;
	/* The ledger first: what it declares was stored before it. */
	rc = pri_volume_follow_ledger(view, deadline, err);
	if (rc == 0 && (sfs_refresh(view->sfs, err) < 0 || update_streams(view, err) < 0))
		return -1;
	if (rc == 0)
		rc = pri_volume_follow_directory(view, deadline, err);
	if (rc != 0)
		return rc;
	return list_data(view, all, deadline, err);
}

/* ---- what others ask ---- */

struct sfs *
pri_volume_sfs(struct pri_volume *view)
{
	return view->sfs;
}

const struct pri_catalog *
pri_volume_catalog(const struct pri_volume *view)
{
	return &view->catalog;
}

const struct pri_ledger_view *
pri_volume_ledger(const struct pri_volume *view)
{
	return &view->book;
}

struct pri_index_map *
pri_volume_index_map(struct pri_volume *view)
{
	return &view->index;
}

int64_t
pri_volume_evicted_until(const struct pri_volume *view, uint32_t stream)
{
	for (size_t i = 0; i < view->stream_count; i++)
		if (view->streams[i].id == stream)
			return view->streams[i].info.evicted_until;
	return PR_TIME_MIN;
}

const char *
pri_volume_stream_name(const struct pri_volume *view, uint32_t stream)
{
	for (size_t i = 0; i < view->stream_count; i++)
		if (view->streams[i].id == stream)
			return view->streams[i].info.name;
	return "";
}

void
pri_volume_stats(const struct pri_volume *view, struct pri_volume_stats *out)
{
	*out = (struct pri_volume_stats){.corrupt_records = view->corrupt};
	for (size_t i = 0; i < view->stream_count; i++)
		if (view->streams[i].data) {
			out->unlisted += unlisted(view, &view->streams[i]);
			out->corrupt_records += view->streams[i].corrupt_tail;
		}
}

int
pri_read_buffer_grow(struct pri_read_buffer *buffer, size_t room)
{
	uint8_t *bytes;

	if (room <= buffer->room)
		return 0;
	room = (room + BUFFER_ALIGNMENT - 1) & ~(size_t)(BUFFER_ALIGNMENT - 1);
	bytes = aligned_alloc(BUFFER_ALIGNMENT, room);
	if (!bytes)
		return -1;
	free(buffer->bytes);
	buffer->bytes = bytes;
	buffer->room = room;
	return 0;
}

int
pri_volume_read_record(struct pri_volume *view, const struct sfs_handle *handle,
	struct pri_read_buffer *buffer, const uint8_t **body, struct pr_error *err)
{
	size_t length = handle->length;
	struct sfs_record record;
	int rc;

	if (length > SFS_BLOCK_MAX)
		return SFS_FORGED;
	if (pri_read_buffer_grow(buffer, sfs_read_room(handle)) < 0) {
		pr_error_set(err, "no memory for a record of %zu bytes", length);
		return SFS_ERROR;
	}
	rc = sfs_read_in(view->sfs, handle, buffer->bytes, buffer->room, &record, err);
	if (rc == SFS_OK)
		*body = record.body;
	return rc;
}

int
pri_volume_read(struct pri_volume *view, const struct pri_segment_entry *entry,
	struct pri_read_buffer *buffer, const uint8_t **body, struct pr_error *err)
{
	return pri_volume_read_record(view, &entry->handle, buffer, body, err);
}

int
pri_volume_read_part(struct pri_volume *view, const struct sfs_handle *handle,
	size_t offset, size_t len, struct pri_read_buffer *buffer, const uint8_t **at,
	struct pr_error *err)
{
	enum { SECTOR = 4096 };

	if (pri_read_buffer_grow(buffer, len + 2 * SECTOR) < 0)
		return pr_error_set(err, "no memory to read %zu bytes", len);
	return sfs_read_part(
		view->sfs, handle, offset, len, buffer->bytes, buffer->room, at, err);
}
