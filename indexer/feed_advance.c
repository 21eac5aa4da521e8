/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/feed_private.h"
#include "proto/base/clock.h"

/* Behind the last one that is indexed, when its handle is known; else from the start. */
static int
open_cursor(struct stream *s, struct pr_error *err)
{
	struct pri_volume *view = s->feed->view;
	const struct sfs_handle *after =
		pri_catalog_handle(pri_volume_catalog(view), s->id, s->next - 1);

	if (after)
		s->cursor = sfs_cursor_open(pri_volume_sfs(view), (int)s->id, after, NULL);
	if (!s->cursor)
		s->cursor = sfs_cursor_open(pri_volume_sfs(view), (int)s->id, NULL, err);
	return s->cursor ? 0 : -1;
}

/* 1: waiting is set; 0: nothing new; -1. */
static int
fetch(struct stream *s, int64_t deadline, struct pr_error *err)
{
	int rc;

	if (s->waiting.length)
		return 1;
	if (s->next > s->last)
		return 0;
	if (!s->cursor && open_cursor(s, err) < 0)
		return -1;
	while ((rc = sfs_cursor_next(s->cursor, &s->waiting, err)) != 0) {
		if (rc == 1 && s->waiting.sequence >= s->next)
			return 1;
		s->waiting.length = 0;
		if (rc < 0 && rc != SFS_EXPIRED && rc != SFS_CORRUPT && rc != SFS_DELETED)
			return -1;
		if (pr_now_mono() >= deadline)
			return 0;
	}
	s->waiting.length = 0;
	return 0;
}

static void
passed(struct stream *s)
{
	s->next = s->waiting.sequence + 1;
	s->waiting.length = 0;
	s->added = s->settled = pr_now_mono();
}

static bool
whole(void *arg)
{
	struct stream *s = arg;

	return sfs_cursor_pass(s->cursor, &s->waiting);
}

/* What the writer's memory has is indexed there, without a copy. 1; 0: not now; 2: it is to be copied; -1. */
static int
advance_there(struct stream *s, struct pr_error *err)
{
	int rc;

	if (s->waiting.length || s->next > s->last || !s->cursor ||
		sfs_cursor_there(s->cursor, &s->waiting) != 1)
		return 2;
	rc = s->waiting.sequence == s->next
		     ? pri_builder_add_shared(s->builder, s->waiting.sequence,
			       s->waiting.handle.proof, s->waiting.body, s->waiting.length,
			       whole, s, err)
		     : 2;
	if (rc == 1)
		passed(s);
	s->waiting.length = 0;
	return rc;
}

int
pri_follower_advance(struct stream *s, int64_t deadline, struct pr_error *err)
{
	uint64_t damaged = pri_builder_figures(s->builder)->damaged;
	int rc = advance_there(s, err);

	if (rc != 2)
		return rc;
	rc = fetch(s, deadline, err);
	if (rc <= 0)
		return rc;
	rc = pri_builder_add(s->builder, s->waiting.sequence, s->waiting.handle.proof,
		s->waiting.body, s->waiting.length, err);
	if (rc <= 0)
		return rc;
	s->lost += s->waiting.sequence - s->next;
	if (s->waiting.sequence > s->next)
		pri_follower_mark_gap(s, s->next, s->waiting.sequence - 1);
	if (pri_builder_figures(s->builder)->damaged > damaged)
		pri_follower_mark_gap(s, s->waiting.sequence, s->waiting.sequence);
	passed(s);
	return 1;
}
