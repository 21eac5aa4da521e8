/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/view_internal.h"
#include "proto/base/clock.h"

/* The streams of entries: the ledger, and the directories of segments and of summaries. */

typedef int (*take_record)(
	struct pri_volume *view, const struct sfs_record *record, struct pr_error *err);

static int
take_ledger(struct pri_volume *view, const struct sfs_record *record, struct pr_error *err)
{
	struct pr_cursor c = pr_cursor_make(record->body, record->length);
	struct pr_ledger_entry entry;
	int rc;

	while ((rc = pr_ledger_load(&c, &entry)) == 1)
		if (pri_ledger_view_take(&view->book, &entry, err) < 0)
			return -1;
	if (rc < 0)
		view->corrupt++;
	return 0;
}

/* handle: the one before of its kind, as they are packed one after the other. */
static bool
take_handle(const struct pri_volume *view, const struct pr_directory_entry *e,
	struct sfs_handle *handle)
{
	return e->handle_len && sfs_handle_unpack(view->sfs, e->handle, e->handle_len,
					handle, handle) == e->handle_len;
}

static int
take_entry(struct pri_volume *view, const struct pr_directory_entry *e,
	const struct sfs_handle *handle, struct pr_error *err)
{
	return e->kind == PR_DIRECTORY_INDEX
		       ? pri_index_map_take(&view->index, &e->u.index, handle, err)
		       : pri_volume_list(view, &e->u.segment, handle, err);
}

/* What it would have said is found by reading, but for the index. */
static int
take_directory(
	struct pri_volume *view, const struct sfs_record *record, struct pr_error *err)
{
	struct pr_cursor c = pr_cursor_make(record->body, record->length);
	struct sfs_handle segment = {0}, index = {0}, *handle;
	struct pr_directory_coder coder;
	struct pr_directory_entry entry;
	int rc = pr_directory_open(&coder, &c) ? 1 : -1;

	while (rc > 0 && (rc = pr_directory_load(&coder, &c, &entry)) > 0) {
		handle = entry.kind == PR_DIRECTORY_INDEX ? &index : &segment;
		if (!take_handle(view, &entry, handle))
			rc = -1;
		else if (take_entry(view, &entry, handle, err) < 0)
			return -1;
	}
	if (rc < 0)
		view->corrupt++;
	return 0;
}

/* Follows one of the streams of entries. As pri_volume_refresh. */
static int
follow(struct pri_volume *view, struct sfs_cursor **cursor, const char *name,
	take_record take, uint64_t *sequence, int64_t deadline, struct pr_error *err)
{
	struct sfs_record record;
	int stream, rc;

	if (!*cursor) {
		stream = sfs_stream_find(view->sfs, name);
		if (stream < 0)
			return 0;
		*cursor = sfs_cursor_open(view->sfs, stream, NULL, err);
		if (!*cursor)
			return -1;
	}
	while ((rc = sfs_cursor_next(*cursor, &record, err)) != 0) {
		if (rc == SFS_CORRUPT)
			view->corrupt++;
		else if (rc < 0 && rc != SFS_EXPIRED && rc != SFS_DELETED)
			return -1;
		if (rc == 1) {
			*sequence = record.sequence;
			if (take(view, &record, err) < 0)
				return -1;
		}
		if (pr_now_mono() >= deadline)
			return 1;
	}
	return 0;
}

int
pri_volume_follow_ledger(struct pri_volume *view, int64_t deadline, struct pr_error *err)
{
	return follow(view, &view->ledger, PRI_STREAM_LEDGER, take_ledger,
		&view->ledger_sequence, deadline, err);
}

int
pri_volume_follow_directory(struct pri_volume *view, int64_t deadline, struct pr_error *err)
{
	uint64_t ignored;
	int rc = follow(view, &view->directory, "segments", take_directory, &ignored,
		deadline, err);

	if (rc != 0 || !view->with_summaries)
		return rc;
	return follow(view, &view->summaries, "summaries", take_directory, &ignored,
		deadline, err);
}
