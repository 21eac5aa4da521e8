/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "indexer/query/view_internal.h"
#include "proto/base/clock.h"
#include "proto/wire/segment.h"

/*
 * Listing segments. The directory gives handles, not sequences, and after a crash of the logger it
 * may lack some; but the records of a stream are numbered without gaps. So the sequences of a few
 * records, read from the volume, show by halving where entries are missing.
 */

#define PENDING_MAX 32768 /* a large directory goes through in pieces */

/* Generations grow over the whole volume, so this is the order of writing. */
static bool
handle_before(const struct sfs_handle *a, const struct sfs_handle *b)
{
	if (a->generation != b->generation)
		return a->generation < b->generation;
	return a->offset < b->offset;
}

static int
add_to_catalog(struct pri_volume *view, struct pri_volume_stream *s,
	const struct pri_listed *l, struct pr_error *err)
{
	struct pri_epoch_series *run =
		pri_catalog_series(&view->catalog, s->id, s->strays, l->epoch, l->link);
	struct sfs_deleted hole;

	if (!run)
		return pr_error_set(err, "no memory for the list of segments");
	if (pri_catalog_add(&view->catalog, run, &l->entry, err) < 0)
		return -1;
	if (s->info.deleted_records > 0 &&
		sfs_stream_deleted(view->sfs, (int)s->id, l->entry.sequence, &hole) &&
		hole.first <= l->entry.sequence)
		pri_catalog_delete(
			&view->catalog, s->id, l->entry.sequence, l->entry.sequence);
	if (!s->strays && pri_index_map_proof(&view->index, s->link, l->entry.sequence,
				  l->entry.handle.proof, err) < 0)
		return -1;
	s->any = true;
	s->last = l->entry.handle;
	s->last_sequence = l->entry.sequence;
	return 0;
}

void
pri_volume_pass_deleted(struct pri_volume *view, struct pri_volume_stream *s)
{
	uint64_t next = s->any ? s->last_sequence + 1 : s->info.first_sequence;
	struct sfs_deleted hole;

	while (s->any && sfs_stream_deleted(view->sfs, (int)s->id, next, &hole) &&
		hole.first <= next) {
		s->last_sequence = hole.last;
		next = hole.last + 1;
	}
}

/* ---- from the data itself ---- */

/* The header lacks the last seq: walk the packets. -1: no segment. */
static int
list_record(const struct sfs_record *record, bool strays, struct pri_listed *out)
{
	struct pr_segment_reader reader;
	struct pr_segment_header *h = &reader.header;
	struct pr_packet packet;
	uint64_t last_seq = 0;
	int rc;

	if (pr_segment_open(&reader, record->body, record->length, NULL) < 0)
		return -1;
	while ((rc = pr_segment_next(&reader, &packet, NULL)) == 1)
		last_seq = packet.seq;
	if (rc < 0 || last_seq < h->first_seq || last_seq - h->first_seq > UINT32_MAX)
		return -1;
	if (h->first_seq == 0 && !strays) /* seqs start at 1 */
		return -1;
	*out = (struct pri_listed){.epoch = h->epoch, .link = h->link};
	out->entry = (struct pri_segment_entry){.handle = record->handle,
		.sequence = record->sequence,
		.first_seq = h->first_seq,
		.min_time = h->min_time,
		.max_time = h->max_time,
		.first_otime = h->first_otime,
		.last_otime = h->last_otime,
		.seq_span = (uint32_t)(last_seq - h->first_seq),
		.count = h->count,
		.linktype = h->linktype};
	return 0;
}

/*
 * Lists records behind the last one listed, up to the sequence `before` (0: all there are).
 * As pri_volume_refresh.
 */
static int
walk(struct pri_volume *view, struct pri_volume_stream *s, uint64_t before,
	int64_t deadline, struct pr_error *err)
{
	struct sfs_cursor *cursor = NULL;
	struct sfs_record record;
	struct pri_listed listed;
	uint64_t bad = 0;
	int rc = 0, got;

	if (s->any)
		cursor = sfs_cursor_open(view->sfs, (int)s->id, &s->last, NULL);
	if (!cursor) /* from the start, passing over what is listed */
		cursor = sfs_cursor_open(view->sfs, (int)s->id, NULL, err);
	if (!cursor)
		return -1;
	while (rc == 0 && (got = sfs_cursor_next(cursor, &record, err)) != 0) {
		if (got == SFS_EXPIRED || got == SFS_DELETED)
			continue;
		if (got != 1 && got != SFS_CORRUPT)
			rc = -1;
		else if (got == 1 && before && record.sequence >= before)
			break;
		else if (got == SFS_CORRUPT)
			bad++;
		else if (s->any && !handle_before(&s->last, &record.handle))
			continue;
		else if (list_record(&record, s->strays, &listed) < 0)
			bad++;
		else if ((rc = add_to_catalog(view, s, &listed, err)) == 0) {
			view->corrupt += bad;
			bad = 0;
		}
		if (rc == 0 && pr_now_mono() >= deadline)
			rc = 1;
	}
	sfs_cursor_close(&cursor);
	s->corrupt_tail = bad;
	return rc;
}

int
pri_volume_walk(struct pri_volume *view, struct pri_volume_stream *stream, int64_t deadline,
	struct pr_error *err)
{
	return walk(view, stream, 0, deadline, err);
}

/* ---- from the directory ---- */

static int
pending_push(struct pri_volume_stream *s, const struct pri_listed *l)
{
	size_t room = s->pending_room ? s->pending_room * 2 : 64;
	struct pri_listed *grown;

	if (s->pending_count == s->pending_room) {
		grown = realloc(s->pending, room * sizeof(*grown));
		if (!grown)
			return -1;
		s->pending = grown;
		s->pending_room = room;
	}
	s->pending[s->pending_count++] = *l;
	return 0;
}

static bool
plausible(const struct pr_directory_segment *d, bool strays)
{
	return (d->first_seq > 0 || strays) && d->first_seq <= d->last_seq &&
	       d->last_seq - d->first_seq <= UINT32_MAX && d->count > 0 &&
	       d->min_time <= d->max_time && d->first_otime <= d->last_otime;
}

int
pri_volume_list(struct pri_volume *view, const struct pr_directory_segment *d,
	const struct sfs_handle *handle, struct pr_error *err)
{
	struct pri_listed l = {.epoch = d->epoch, .link = d->link, .entry.handle = *handle};
	struct pri_volume_stream *s = pri_volume_stream(view, handle->stream);
	const struct sfs_handle *last;

	if (!s || !s->data || !plausible(d, s->strays))
		return 0;
	last = s->pending_count ? &s->pending[s->pending_count - 1].entry.handle : &s->last;
	if ((s->pending_count || s->any) && !handle_before(last, &l.entry.handle))
		return 0;
	l.entry.first_seq = d->first_seq;
	l.entry.seq_span = (uint32_t)(d->last_seq - d->first_seq);
	l.entry.min_time = d->min_time;
	l.entry.max_time = d->max_time;
	l.entry.first_otime = d->first_otime;
	l.entry.last_otime = d->last_otime;
	l.entry.count = d->count;
	l.entry.linktype = d->linktype;
	if (pending_push(s, &l) < 0)
		return pr_error_set(err, "no memory for the list of segments");
	return s->pending_count < PENDING_MAX ? 0 : pri_volume_settle(view, s, err);
}

/* SFS_OK and *sequence, SFS_EXPIRED, or another fault of this record. */
static int
sequence_of(
	struct pri_volume *view, const struct pri_segment_entry *entry, uint64_t *sequence)
{
	struct sfs_record record;
	int rc = sfs_look(view->sfs, &entry->handle, &record, NULL);

	if (rc == SFS_OK)
		*sequence = record.sequence;
	return rc;
}

/* Drops the entries whose records are recycled: they are the first ones. */
static void
drop_expired(struct pri_volume *view, struct pri_volume_stream *s)
{
	size_t low = 0, high = s->pending_count;
	uint64_t sequence;

	if (sequence_of(view, &s->pending[0].entry, &sequence) != SFS_EXPIRED)
		return;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (sequence_of(view, &s->pending[mid].entry, &sequence) == SFS_EXPIRED)
			low = mid + 1;
		else
			high = mid;
	}
	s->pending_count -= low;
	memmove(s->pending, s->pending + low, s->pending_count * sizeof(*s->pending));
}

/* The first of pending[low..high) that can be read, and its sequence; high: none. */
static size_t
readable(struct pri_volume *view, struct pri_volume_stream *s, size_t low, size_t high,
	uint64_t *sequence)
{
	while (low < high && sequence_of(view, &s->pending[low].entry, sequence) != SFS_OK)
		low++;
	return low;
}

/*
 * Puts pending[low..high) into the catalog, where `end` is the sequence of pending[high], or one
 * more than that of the last; what is missing between is read from the data.
 */
static int
settle_range(struct pri_volume *view, struct pri_volume_stream *s, size_t low, size_t high,
	uint64_t end, struct pr_error *err)
{
	uint64_t next = s->any ? s->last_sequence + 1 : s->info.first_sequence;
	uint64_t sequence = 0;
	size_t mid;

	if (end <= next || end - next == high - low) { /* complete */
		for (size_t i = low; i < high; i++) {
			s->pending[i].entry.sequence = next + (i - low);
			if (add_to_catalog(view, s, &s->pending[i], err) < 0)
				return -1;
		}
		return 0;
	}
	if (low == high)
		return walk(view, s, end, INT64_MAX, err) < 0 ? -1 : 0;
	mid = readable(view, s, low + (high - low) / 2, high, &sequence);
	if (mid == high)
		mid = readable(view, s, low, high, &sequence);
	if (mid == high) /* none can be read: walking tells of each what is wrong */
		return walk(view, s, end, INT64_MAX, err) < 0 ? -1 : 0;
	if (settle_range(view, s, low, mid, sequence, err) < 0)
		return -1;
	s->pending[mid].entry.sequence = sequence;
	if (add_to_catalog(view, s, &s->pending[mid], err) < 0)
		return -1;
	return settle_range(view, s, mid + 1, high, end, err);
}

int
pri_volume_settle(
	struct pri_volume *view, struct pri_volume_stream *s, struct pr_error *err)
{
	uint64_t sequence = 0;
	size_t count;
	int rc = 0;

	if (s->pending_count == 0)
		return 0;
	drop_expired(view, s);
	count = s->pending_count;
	while (count > 0 &&
		sequence_of(view, &s->pending[count - 1].entry, &sequence) != SFS_OK)
		count--; /* the walk behind the last good one will say what they are */
	if (count > 0)
		rc = settle_range(view, s, 0, count, sequence + 1, err);
	s->pending_count = 0;
	return rc;
}
