/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/level2.h"
#include "proto/base/clock.h"

/* A batch that nothing was added to for so long is finished as it is. */
#define IDLE_NS (2 * PR_NS_PER_S)

struct stream {
	uint32_t id;
	uint16_t link;
	struct pr_builder *builder;
	struct sfs_cursor *cursor;
	uint64_t next; /* sequence; what comes before it is indexed or lost */
	uint64_t last; /* of the stream, as of the last step */
	struct sfs_record waiting; /* length 0: none. Its body is the cursor's */
	int64_t added; /* monotonic: last time that something was */
	uint64_t lost;
};

struct pr_feed {
	struct pr_view *view;
	pr_index_sink sink;
	void *arg;
	struct stream **streams;
	size_t count;
	struct pr_composites composites;
};

struct pr_feed *
pr_feed_create(struct pr_view *view, pr_index_sink sink, void *arg, struct pr_error *err)
{
	struct pr_feed *f = calloc(1, sizeof(*f));

	if (!f) {
		pr_error_set(err, "no memory for indexing");
		return NULL;
	}
	f->view = view;
	f->sink = sink;
	f->arg = arg;
	return f;
}

void
pr_feed_composites(struct pr_feed *f, const struct pr_composites *composites)
{
	f->composites = *composites;
}

static void
stream_free(struct stream *s)
{
	if (!s)
		return;
	sfs_cursor_close(&s->cursor);
	pr_builder_destroy(&s->builder);
	free(s);
}

void
pr_feed_destroy(struct pr_feed **feed)
{
	struct pr_feed *f = *feed;

	if (!f)
		return;
	for (size_t i = 0; i < f->count; i++)
		stream_free(f->streams[i]);
	free(f->streams);
	free(f);
	*feed = NULL;
}

/* ---- streams ---- */

static struct stream *
find(const struct pr_feed *f, uint32_t id)
{
	for (size_t i = 0; i < f->count; i++)
		if (f->streams[i]->id == id)
			return f->streams[i];
	return NULL;
}

/*
 * Where the index that is there ends; or before that, where its last groups were lost with an indexer that
 * was killed: they are made again.
 */
static uint64_t
begin_at(const struct pr_feed *f, struct stream *stream, uint64_t first)
{
	const struct pr_index_stream *s =
		pr_index_book_find(pr_view_index(f->view), stream->link);
	uint64_t end = s ? pr_index_uncovered(s, first) : first;

	pr_builder_know(stream->builder, end);
	return s ? pr_index_ungrouped(s, end, PR_LEVEL2_COLUMNS_MIN) : end;
}

static int
add(struct pr_feed *f, const struct sfs_stream_info *info, uint16_t link,
	struct pr_error *err)
{
	struct stream **streams, *s = calloc(1, sizeof(*s));

	if (!s)
		return pr_error_set(err, "no memory for indexing");
	s->id = info->id;
	s->link = link;
	s->added = pr_now_mono();
	s->builder = pr_builder_create(
		link, sfs_record_max(pr_view_sfs(f->view)), f->sink, f->arg, err);
	if (s->builder)
		pr_builder_composites(s->builder, &f->composites);
	streams = realloc(f->streams, (f->count + 1) * sizeof(*streams));
	if (streams)
		f->streams = streams;
	if (!s->builder || !streams) {
		stream_free(s);
		return pr_error_set(err, "no memory for indexing");
	}
	s->next = begin_at(f, s, info->first_sequence ? info->first_sequence : 1);
	f->streams[f->count++] = s;
	return 0;
}

/* The volume was reset: its sequences begin anew. */
static void
restart(struct pr_feed *f, struct stream *s, const struct sfs_stream_info *info)
{
	sfs_cursor_close(&s->cursor);
	s->waiting.length = 0;
	s->next = begin_at(f, s, info->first_sequence ? info->first_sequence : 1);
}

static int
look(struct pr_feed *f, struct pr_error *err)
{
	struct sfs *sfs = pr_view_sfs(f->view);
	struct sfs_volume_info volume;
	struct sfs_stream_info info;
	unsigned link;

	if (sfs_refresh(sfs, err) < 0 || sfs_info(sfs, &volume, err) < 0)
		return -1;
	for (size_t i = 0; i < volume.stream_count; i++) {
		struct stream *s;

		if (sfs_stream_info(sfs, i, &info, err) < 0)
			return -1;
		if (sscanf(info.name, "packets.%u", &link) != 1 || link > UINT16_MAX)
			continue;
		s = find(f, info.id);
		if (!s && add(f, &info, (uint16_t)link, err) < 0)
			return -1;
		s = find(f, info.id);
		if (info.last_sequence < s->last)
			restart(f, s, &info);
		s->last = info.last_sequence;
		if (info.first_sequence > s->next) {
			s->lost += info.first_sequence - s->next;
			s->next = info.first_sequence;
		}
	}
	return 0;
}

/* ---- following ---- */

/* Behind the last one that is indexed, when its handle is known; else from the start. */
static int
open_cursor(struct pr_feed *f, struct stream *s, struct pr_error *err)
{
	const struct sfs_handle *after =
		pr_catalog_handle(pr_view_catalog(f->view), s->id, s->next - 1);

	if (after)
		s->cursor = sfs_cursor_open(pr_view_sfs(f->view), (int)s->id, after, NULL);
	if (!s->cursor)
		s->cursor = sfs_cursor_open(pr_view_sfs(f->view), (int)s->id, NULL, err);
	return s->cursor ? 0 : -1;
}

/* 1: waiting is set; 0: nothing new; -1. */
static int
fetch(struct pr_feed *f, struct stream *s, int64_t deadline, struct pr_error *err)
{
	int rc;

	if (s->waiting.length)
		return 1;
	if (s->next > s->last)
		return 0;
	if (!s->cursor && open_cursor(f, s, err) < 0)
		return -1;
	while ((rc = sfs_cursor_next(s->cursor, &s->waiting, err)) != 0) {
		if (rc == 1 && s->waiting.sequence >= s->next)
			return 1;
		s->waiting.length = 0;
		if (rc < 0 && rc != SFS_EXPIRED && rc != SFS_CORRUPT)
			return -1;
		if (pr_now_mono() >= deadline)
			return 0;
	}
	s->waiting.length = 0;
	return 0;
}

/* 1: a segment was indexed; 0: none is there, or the sink is full; -1. */
static int
advance(struct pr_feed *f, struct stream *s, int64_t deadline, struct pr_error *err)
{
	int rc = fetch(f, s, deadline, err);

	if (rc <= 0)
		return rc;
	rc = pr_builder_add(s->builder, s->waiting.sequence, s->waiting.handle.proof,
		s->waiting.body, s->waiting.length, err);
	if (rc <= 0)
		return rc;
	s->lost += s->waiting.sequence - s->next;
	s->next = s->waiting.sequence + 1;
	s->waiting.length = 0;
	s->added = pr_now_mono();
	return 1;
}

/* What came to rest is indexed as it is. */
static int
settle(struct stream *s, struct pr_error *err)
{
	int rc = 0;

	if (pr_now_mono() - s->added > IDLE_NS && pr_builder_figures(s->builder)->open) {
		rc = pr_builder_finish(s->builder, false, err);
		s->added = pr_now_mono();
	}
	return rc < 0 ? -1 : 0;
}

int
pr_feed_step(struct pr_feed *f, int64_t deadline, struct pr_error *err)
{
	bool more = true;

	if (look(f, err) < 0)
		return -1;
	while (more && pr_now_mono() < deadline) {
		more = false;
		for (size_t i = 0; i < f->count; i++) {
			int rc = advance(f, f->streams[i], deadline, err);

			if (rc < 0 || settle(f->streams[i], err) < 0)
				return -1;
			more |= rc > 0;
		}
	}
	return more;
}

int
pr_feed_finish(struct pr_feed *f, bool all, struct pr_error *err)
{
	int done = 1;

	for (size_t i = 0; i < f->count; i++) {
		int rc = pr_builder_finish(f->streams[i]->builder, all, err);

		if (rc < 0)
			return -1;
		done &= rc;
	}
	return done;
}

static void
add_figures(struct pr_builder_figures *to, const struct pr_builder_figures *by)
{
	to->segments += by->segments;
	to->packets += by->packets;
	to->bytes += by->bytes;
	to->keys += by->keys;
	to->wide_keys += by->wide_keys;
	to->damaged += by->damaged;
	to->dropped += by->dropped;
	to->level1_bytes += by->level1_bytes;
	to->level2_bytes += by->level2_bytes;
	to->open += by->open;
}

void
pr_feed_figures(const struct pr_feed *f, struct pr_feed_figures *out)
{
	*out = (struct pr_feed_figures){0};
	for (size_t i = 0; i < f->count; i++) {
		const struct stream *s = f->streams[i];

		add_figures(&out->built, pr_builder_figures(s->builder));
		out->behind += s->last >= s->next ? s->last - s->next + 1 : 0;
		out->lost += s->lost;
	}
}
