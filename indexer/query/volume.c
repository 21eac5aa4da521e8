/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/volume.h"

#include "proto/base/array.h"
#include "proto/wire/segment.h"

/*
 * Sections: streams; listing segments from the data; listing them from the directory; the
 * streams of entries; refreshing; functions for other files.
 */

#define STREAM_LEDGER "ledger"
#define DATA_PREFIX "packets."

/*
 * A directory that lacks more segments than this is not being written: list by reading the
 * data.
 */
#define UNLISTED_MAX 64
#define PENDING_MAX 32768 /* entries; a larger directory is processed in pieces */

#define BUFFER_ALIGNMENT 4096

/* A segment that is to be added to the catalog. */
struct listed {
	struct pri_segment_entry entry;
	uint64_t epoch;
	uint16_t link;
};

struct pri_volume_stream {
	bool data, strays; /* strays are data too */
	uint16_t link; /* data but not strays */
	bool any; /* last and last_sequence are set: the last segment that was listed */
	struct sfs_handle last;
	uint64_t last_sequence;
	uint64_t corrupt_tail; /* bad records after `last`: each walk reads them again */
	struct sfs_stream_info info; /* as of the last refresh */
	/* info.deleted_records when the catalog was last updated */
	uint64_t deleted_records;
	struct listed *pending; /* from the directory; their sequences are not known yet */
	size_t pending_count;
};

struct pri_volume *
pri_volume_open(
	const char *const *paths, size_t count, unsigned options, struct pr_error *err)
{
	struct pri_volume *v = calloc(1, sizeof *v);
	const struct sfs_open_options open = {
		.no_direct = (options & PRI_VOLUME_CACHED) != 0};

	if (!v)
		return pr_error_null(err, "no memory");
	v->with_summaries = options & PRI_VOLUME_SUMMARIES;
	v->sfs = sfs_open(paths, count, &open, err);
	if (!v->sfs)
		pri_volume_close(&v);
	return v;
}

/* The view that takes what is read of the ledger. */
static struct pri_ledger_view *
ledger_read(struct pri_volume *v)
{
	return v->ledger_again ? &v->ledger_anew : &v->ledger;
}

/* All of the ledger has been read. Until now answers used the old view: a part of a ledger would hide losses. */
static void
ledger_exchange(struct pri_volume *v)
{
	if (!v->ledger_again)
		return;
	v->ledger_anew.writer_gone = v->ledger.writer_gone;
	pri_ledger_view_free(&v->ledger);
	v->ledger = v->ledger_anew;
	v->ledger_anew = (struct pri_ledger_view){0};
	v->ledger_again = false;
}

static void
close_cursors(struct pri_volume *v)
{
	for (int i = 0; i < PRI_VOLUME_LISTS; i++)
		sfs_cursor_close(&v->cursors[i]);
}

void
pri_volume_close(struct pri_volume **volume)
{
	struct pri_volume *v = PR_TAKE(volume);

	if (!v)
		return;
	close_cursors(v);
	sfs_close(&v->sfs);
	pri_catalog_free(&v->catalog);
	pri_ledger_view_free(&v->ledger);
	pri_ledger_view_free(&v->ledger_anew);
	pri_index_map_free(&v->index_map);
	for (size_t i = 0; i < v->stream_count; i++)
		free(v->streams[i].pending);
	free(v->streams);
	free(v);
}

/* ---- streams ---- */

bool
pri_stream_is_link(const char *name, uint16_t *link)
{
	if (strncmp(name, DATA_PREFIX, strlen(DATA_PREFIX)) != 0)
		return false;
	*link = strtoul(name + strlen(DATA_PREFIX), NULL, 10);
	return true;
}

static struct pri_volume_stream *
find_stream(const struct pri_volume *v, uint32_t id)
{
	for (size_t i = 0; i < v->stream_count; i++)
		if (v->streams[i].info.id == id)
			return &v->streams[i];
	return NULL;
}

/*
 * The logger may have been killed: what it had not made durable is gone from the stream's end, and the next one uses the
 * sequences again. Returns the last that is still what is listed; entries up to it stay, as queries are reading them.
 * 0: none, the volume was reset.
 */
static uint64_t
step_back(const struct pri_volume *v, struct pri_volume_stream *s)
{
	uint64_t at = PR_MIN(s->info.last_sequence, s->last_sequence);
	const struct sfs_handle *last = NULL;
	struct sfs_record record;

	for (; at >= s->info.first_sequence && at; at--) {
		last = pri_catalog_handle(&v->catalog, s->info.id, at);
		if (last && sfs_read_header_of(v->sfs, last, &record, NULL) == SFS_OK)
			break;
	}
	if (!at || at < s->info.first_sequence)
		return 0;
	s->last = *last;
	s->last_sequence = at;
	s->corrupt_tail = 0;
	return at;
}

static void
update_data(struct pri_volume *v, struct pri_volume_stream *s, bool another_writer)
{
	const struct sfs_stream_info *info = &s->info;
	uint64_t last = info->last_sequence;
	struct sfs_deleted range = {0};

	if (s->any && (another_writer || last < s->last_sequence))
		last = step_back(v, s);
	/*
	 * otherwise nothing listed exists any more: the volume was reset, or all was
	 * overwritten
	 */
	bool some = last >= s->last_sequence && info->first_sequence <= s->last_sequence;
	uint64_t first = some ? info->first_sequence : UINT64_MAX;

	if (!s->any)
		return;
	pri_catalog_expire(&v->catalog, info->id, first, last);
	if (!s->strays)
		pri_index_map_expire(&v->index_map, s->link, first);
	if (!some) {
		s->any = false;
		s->last_sequence = s->corrupt_tail = 0;
		s->pending_count = 0;
	}
	if (info->deleted_records == s->deleted_records)
		return;
	while (sfs_stream_deleted(v->sfs, info->id, range.last + 1, &range))
		pri_catalog_delete(&v->catalog, info->id, range.first, range.last);
	s->deleted_records = info->deleted_records;
}

static int
update_streams(struct pri_volume *v, struct pr_error *err)
{
	struct sfs_volume_info whole;
	struct sfs_stream_info info;

	if (sfs_refresh(v->sfs, err) < 0 || sfs_info(v->sfs, &whole, err) < 0)
		return -1;
	for (size_t i = 0; i < whole.stream_count; i++) {
		if (sfs_stream_info(v->sfs, i, &info, err) < 0)
			return -1;
		struct pri_volume_stream *s = find_stream(v, info.id);
		if (!s) {
			if (PR_ARRAY_GROW(v->streams, v->stream_count) < 0)
				return pr_error_set(err, "no memory");
			s = &v->streams[v->stream_count++];
			*s = (struct pri_volume_stream){
				.strays = !strcmp(info.name, PRI_STREAM_STRAYS)};
			s->data = s->strays || pri_stream_is_link(info.name, &s->link);
		}
		s->info = info;
		if (s->data) {
			update_data(v, s, whole.writers != v->writers);
		} else if (!strcmp(info.name, STREAM_LEDGER)) {
			struct pri_ledger_view *l = ledger_read(v);

			/* the volume was reset, a logger killed, or entries were overwritten before they were read */
			if (info.last_sequence < l->record || whole.writers != v->writers ||
				(l->record && info.first_sequence > l->record + 1)) {
				pri_ledger_view_free(&v->ledger_anew);
				v->ledger_again = true;
				close_cursors(v);
			}
			pri_ledger_view_expire(&v->ledger_anew, &v->catalog,
				info.first_sequence, info.evicted_until);
			pri_ledger_view_expire(&v->ledger, &v->catalog, info.first_sequence,
				info.evicted_until);
		}
	}
	v->writers = whole.writers;
	v->had_writer |= whole.writer_alive;
	v->ledger.writer_gone = v->had_writer && !whole.writer_alive;
	return 0;
}

/* ---- listing segments, from the data itself ---- */

/*
 * Orders by block generation. Generations grow over the whole volume, so this is the order
 * of writing.
 */
static bool
handle_before(const struct sfs_handle *a, const struct sfs_handle *b)
{
	return a->generation != b->generation ? a->generation < b->generation
					      : a->offset < b->offset;
}

static int
add_to_catalog(struct pri_volume *v, struct pri_volume_stream *s, const struct listed *l,
	struct pr_error *err)
{
	uint64_t sequence = l->entry.sequence;
	struct pri_epoch_series *series =
		pri_catalog_series(&v->catalog, s->info.id, s->strays, l->epoch, l->link);
	struct sfs_deleted range;

	if (!series)
		return pr_error_set(err, "no memory for the list of segments");
	series->number = s->link;
	if (pri_catalog_add(&v->catalog, series, &l->entry, err) < 0)
		return -1;
	if (s->info.deleted_records > 0 &&
		sfs_stream_deleted(v->sfs, s->info.id, sequence, &range) &&
		range.first <= sequence)
		pri_catalog_delete(&v->catalog, s->info.id, sequence, sequence);
	if (!s->strays && pri_index_map_proof(&v->index_map, s->link, sequence,
				  l->entry.handle.proof, err) < 0)
		return -1;
	s->any = true;
	s->last = l->entry.handle;
	s->last_sequence = sequence;
	return 0;
}

/* The first sequence at or after this one that is not deleted. */
static uint64_t
pass_deleted(const struct pri_volume *v, const struct pri_volume_stream *s, uint64_t next)
{
	struct sfs_deleted range;

	while (s->info.deleted_records > 0 &&
		sfs_stream_deleted(v->sfs, s->info.id, next, &range) && range.first <= next)
		next = range.last + 1;
	return next;
}

/*
 * True if the directory's values for a segment are possible. Then fills out, except its
 * sequence.
 */
static bool
list(const struct pr_directory_segment *d, const struct sfs_handle *handle, bool strays,
	struct listed *out)
{
	*out = (struct listed){.epoch = d->epoch,
		.link = d->link,
		.entry = {.handle = *handle, .seq_span = d->last_seq - d->first_seq}};
	PR_COPY(&out->entry, d, first_seq, count, linktype, min_time, max_time, first_otime,
		last_otime);
	return (d->first_seq > 0 || strays) && /* seqs start at 1 */
	       d->first_seq <= d->last_seq && d->last_seq - d->first_seq <= UINT32_MAX &&
	       d->count > 0 && d->min_time <= d->max_time;
}

/*
 * Fills out from the segment itself. The header does not have the last seq, so all packets
 * are walked over. False: not a valid segment.
 */
static bool
list_record(const struct sfs_record *record, bool strays, struct listed *out)
{
	struct pr_segment_reader reader;
	const struct pr_segment_header *h = &reader.header;
	struct pr_directory_segment d = {0};
	struct pr_packet packet;
	int rc;

	if (pr_segment_open(&reader, record->body, record->length, NULL) < 0)
		return false;
	while ((rc = pr_segment_next(&reader, &packet, NULL)) == 1)
		d.last_seq = packet.seq;
	PR_COPY(&d, h, epoch, link, linktype, first_seq, min_time);
	PR_COPY(&d, h, max_time, first_otime, last_otime, count);
	if (rc < 0 || !list(&d, &record->handle, strays, out))
		return false;
	out->entry.sequence = record->sequence;
	return true;
}

/*
 * Lists records after the last one listed, up to the sequence `before` (0: all). Returns 1,
 * 0 or -1 as pri_volume_refresh.
 */
static int
walk(struct pri_volume *v, struct pri_volume_stream *s, uint64_t before, int64_t deadline,
	struct pr_error *err)
{
	struct sfs_record record;
	struct listed listed;
	uint64_t bad = 0;
	int rc = 0, got;

	struct sfs_cursor *cursor =
		s->any ? sfs_cursor_open(v->sfs, s->info.id, &s->last, NULL) : NULL;
	if (!cursor) /* from the start, skipping records that are listed already */
		cursor = sfs_cursor_open(v->sfs, s->info.id, NULL, err);
	if (!cursor)
		return -1;
	while (rc == 0 && (got = sfs_cursor_next(cursor, &record, err)) != 0) {
		if (got == SFS_EXPIRED || got == SFS_DELETED)
			continue;
		if (got != 1 && got != SFS_CORRUPT)
			rc = -1;
		else if (got == 1 && before && record.sequence >= before)
			break;
		else if (got == 1 && s->any && !handle_before(&s->last, &record.handle))
			continue;
		else if (got == SFS_CORRUPT || !list_record(&record, s->strays, &listed))
			bad++;
		else if ((rc = add_to_catalog(v, s, &listed, err)) == 0) {
			v->corrupt += bad;
			bad = 0;
		}
		if (rc == 0 && pr_now_mono() >= deadline)
			rc = 1;
	}
	sfs_cursor_close(&cursor);
	s->corrupt_tail = bad;
	return rc;
}

/*
 * ---- listing segments, from the directory ----
 *
 * The directory gives handles, not sequences, and after a crash of the logger it may lack some; but the records
 * of a stream are numbered without gaps. So the sequences of a few records, read from the volume, show by
 * halving where entries are missing.
 */

/* Returns SFS_OK and sets *sequence; SFS_EXPIRED; or another error of this record. */
static int
sequence_of(const struct pri_volume *v, const struct listed *l, uint64_t *sequence)
{
	struct sfs_record record;
	int rc = sfs_read_header_of(v->sfs, &l->entry.handle, &record, NULL);

	if (rc == SFS_OK)
		*sequence = record.sequence;
	return rc;
}

/*
 * The index of the first of pending[low..high) that can be read, and its sequence; high:
 * none.
 */
static size_t
readable(const struct pri_volume *v, const struct pri_volume_stream *s, size_t low,
	size_t high, uint64_t *sequence)
{
	while (low < high && sequence_of(v, &s->pending[low], sequence) != SFS_OK)
		low++;
	return low;
}

/*
 * Adds pending[low..high) to the catalog. end: the sequence of pending[high], or one more
 * than that of the last entry. Segments missing between them are read from the data.
 */
static int
add_range(struct pri_volume *v, struct pri_volume_stream *s, size_t low, size_t high,
	uint64_t end, struct pr_error *err)
{
	uint64_t next = s->any ? s->last_sequence + 1 : s->info.first_sequence;
	uint64_t sequence = 0;

	if (end <= next || end - next == high - low) { /* complete */
		for (size_t i = low; i < high; i++) {
			s->pending[i].entry.sequence = next + (i - low);
			if (add_to_catalog(v, s, &s->pending[i], err) < 0)
				return -1;
		}
		return 0;
	}
	size_t mid = readable(v, s, low + (high - low) / 2, high, &sequence);
	if (mid == high)
		mid = readable(v, s, low, high, &sequence);
	if (mid == high) /* no entry is left or readable: the walk counts what is wrong */
		return walk(v, s, end, INT64_MAX, err) < 0 ? -1 : 0;
	if (add_range(v, s, low, mid, sequence, err) < 0)
		return -1;
	s->pending[mid].entry.sequence = sequence;
	if (add_to_catalog(v, s, &s->pending[mid], err) < 0)
		return -1;
	return add_range(v, s, mid + 1, high, end, err);
}

/* Finds the sequences of the pending entries, fills gaps among them, and adds them to the catalog. */
static int
resolve_sequences(struct pri_volume *v, struct pri_volume_stream *s, struct pr_error *err)
{
	size_t low = 0, count = s->pending_count;
	uint64_t sequence = 0;

	if (s->pending_count == 0)
		return 0;
	/* the entries of overwritten records are the first ones */
	if (sequence_of(v, &s->pending[0], &sequence) == SFS_EXPIRED)
		low = PR_ARRAY_SEARCH(
			count, sequence_of(v, &s->pending[mid], &sequence) == SFS_EXPIRED);
	while (count > low && sequence_of(v, &s->pending[count - 1], &sequence) != SFS_OK)
		count--; /* the walk after the last good entry reports what they are */
	int rc = count > low ? add_range(v, s, low, count, sequence + 1, err) : 0;
	s->pending_count = 0;
	return rc;
}

/* ---- the streams of entries: the ledger, and the directories of segments and of summaries ---- */

static int
take_ledger(struct pri_volume *v, const struct sfs_record *record, struct pr_error *err)
{
	struct pr_cursor c = pr_cursor_make(record->body, record->length);
	struct pr_ledger_entry entry;
	int rc;

	ledger_read(v)->record = record->sequence;
	while ((rc = pr_ledger_load(&c, &entry)) == 1)
		if (pri_ledger_view_take(ledger_read(v), &entry, err) < 0)
			return -1;
	v->corrupt += rc < 0;
	return 0;
}

/*
 * Adds a directory entry to the pending ones. Segments that are listed already are skipped.
 */
static int
take_segment(struct pri_volume *v, const struct pr_directory_segment *d,
	const struct sfs_handle *handle, struct pr_error *err)
{
	struct pri_volume_stream *s = find_stream(v, handle->stream);
	struct listed listed;

	if (!s || !s->data || d->first_otime > d->last_otime ||
		!list(d, handle, s->strays, &listed))
		return 0;
	const struct sfs_handle *last =
		s->pending_count ? &s->pending[s->pending_count - 1].entry.handle
				 : &s->last;
	if ((s->pending_count || s->any) && !handle_before(last, handle))
		return 0;
	if (PR_ARRAY_ADD(s->pending, s->pending_count, listed) < 0)
		return pr_error_set(err, "no memory for the list of segments");
	return s->pending_count < PENDING_MAX ? 0 : resolve_sequences(v, s, err);
}

/* Segments that a damaged record named are found by reading, but not the index. */
static int
take_directory(struct pri_volume *v, const struct sfs_record *record, struct pr_error *err)
{
	struct pr_cursor c = pr_cursor_make(record->body, record->length);
	struct sfs_handle segment = {0}, index = {0}, *handle;
	struct pr_directory_coder coder;
	struct pr_directory_entry e;
	int rc = pr_directory_open(&coder, &c) ? 1 : -1;

	while (rc > 0 && (rc = pr_directory_load(&coder, &c, &e)) > 0) {
		bool is_index = e.kind == PR_DIRECTORY_INDEX;

		/*
		 * each handle is stored as its difference to the previous handle of the
		 * same kind
		 */
		handle = is_index ? &index : &segment;
		if (!e.handle_len || sfs_handle_unpack(v->sfs, e.handle, e.handle_len,
					     handle, handle) != e.handle_len)
			rc = -1;
		else if ((is_index ? pri_index_map_take(
					     &v->index_map, &e.u.index, handle, err)
				   : take_segment(v, &e.u.segment, handle, err)) < 0)
			return -1;
	}
	v->corrupt += rc < 0;
	return 0;
}

/*
 * Processes new records of one of these streams. Returns 1, 0 or -1 as pri_volume_refresh.
 */
static int
follow(struct pri_volume *v, int list, int64_t deadline, struct pr_error *err)
{
	static const char *const names[PRI_VOLUME_LISTS] = {
		STREAM_LEDGER, "segments", "summaries"};
	struct sfs_cursor **cursor = &v->cursors[list];
	struct sfs_record record;
	int rc;

	if (!*cursor) {
		int stream = sfs_stream_find(v->sfs, names[list]);
		if (stream < 0)
			return 0;
		*cursor = sfs_cursor_open(v->sfs, stream, NULL, err);
		if (!*cursor)
			return -1;
	}
	while ((rc = sfs_cursor_next(*cursor, &record, err)) != 0) {
		if (rc == SFS_CORRUPT)
			v->corrupt++;
		else if (rc < 0 && rc != SFS_EXPIRED && rc != SFS_DELETED)
			return -1;
		if (rc == 1 && (list == 0 ? take_ledger(v, &record, err)
					  : take_directory(v, &record, err)) < 0)
			return -1;
		if (pr_now_mono() >= deadline)
			return 1;
	}
	return 0;
}

/* ---- refreshing ---- */

static uint64_t
unlisted(const struct pri_volume *v, const struct pri_volume_stream *s)
{
	uint64_t first =
		pass_deleted(v, s, s->any ? s->last_sequence + 1 : s->info.first_sequence);

	return s->info.last_sequence >= first && s->info.last_sequence
		       ? s->info.last_sequence - first + 1
		       : 0;
}

static int
list_data(struct pri_volume *v, bool all, int64_t deadline, struct pr_error *err)
{
	for (size_t i = 0; i < v->stream_count; i++) {
		struct pri_volume_stream *s = &v->streams[i];

		if (!s->data)
			continue;
		if (resolve_sequences(v, s, err) < 0)
			return -1;
		if (s->any)
			s->last_sequence = pass_deleted(v, s, s->last_sequence + 1) - 1;
		int rc = all || unlisted(v, s) > UNLISTED_MAX ? walk(v, s, 0, deadline, err)
							      : 0;
		if (rc != 0)
			return rc;
	}
	return 0;
}

int
pri_volume_refresh(struct pri_volume *v, bool all, int64_t deadline, struct pr_error *err)
{
	int lists = v->with_summaries ? PRI_VOLUME_LISTS : PRI_VOLUME_LISTS - 1, rc;

	if (update_streams(v, err) < 0)
		return -1;
	/* The ledger first: what it declares was stored before it. */
	for (int i = 0; i < lists; i++) {
		do {
			rc = follow(v, i, deadline, err);
			if (rc == 0 && i == 0) {
				ledger_exchange(v);
				rc = update_streams(v, err);
			}
		} while (rc == 0 && i == 0 && v->ledger_again);
		if (rc != 0)
			return rc;
	}
	return list_data(v, all, deadline, err);
}

/* ---- functions for other files ---- */

int64_t
pri_volume_evicted_until(const struct pri_volume *v, uint32_t stream)
{
	const struct pri_volume_stream *s = find_stream(v, stream);

	return s ? s->info.evicted_until : PR_TIME_MIN;
}

bool
pri_volume_in_memory(const struct pri_volume *v, int64_t since, int64_t until)
{
	const struct pri_catalog *c = &v->catalog;
	const struct pri_segment_entry *e;

	for (size_t i = 0; i < c->series_count; i++)
		for (size_t j = 0; j < c->series[i]->run_count; j++) {
			const struct pri_sorted_run *run = c->series[i]->runs[j];
			uint64_t at = pri_sorted_run_search(run, since);

			for (; (e = pri_sorted_run_at(run, at)) &&
				pr_time_minus(e->first_otime, run->most_back) <= until;
				at++)
				if (!e->deleted && sfs_read_plan(v->sfs, &e->handle, NULL))
					return false;
		}
	return c->series_count > 0; /* else it is not listed yet */
}

int64_t
pri_volume_memory_since(const struct pri_volume *v, int stream)
{
	const struct pri_catalog *c = &v->catalog;
	int64_t since = PR_TIME_MIN;

	for (size_t i = 0; i < c->series_count; i++)
		for (size_t j = 0; j < c->series[i]->run_count &&
				   (stream < 0 || c->series[i]->stream == (uint32_t)stream);
			j++) {
			const struct pri_sorted_run *run = c->series[i]->runs[j];
			const struct pri_segment_entry *e = &run->items[run->head];
			/* blocks leave memory in the order in which they were filled */
			size_t stored = PR_ARRAY_SEARCH(
				run->count, sfs_read_plan(v->sfs, &e[mid].handle, NULL));

			if (stored)
				since = PR_MAX(since, e[stored - 1].last_otime + 1);
		}
	return since;
}

const char *
pri_volume_stream_name(const struct pri_volume *v, uint32_t stream)
{
	const struct pri_volume_stream *s = find_stream(v, stream);

	return s ? s->info.name : "";
}

void
pri_volume_stats(const struct pri_volume *v, struct pri_volume_stats *out)
{
	*out = (struct pri_volume_stats){.corrupt_records = v->corrupt};
	for (size_t i = 0; i < v->stream_count; i++)
		if (v->streams[i].data) {
			out->unlisted += unlisted(v, &v->streams[i]);
			out->corrupt_records += v->streams[i].corrupt_tail;
		}
}

int
pri_read_buffer_grow(struct pri_read_buffer *buffer, size_t capacity)
{
	if (capacity <= buffer->capacity)
		return 0;
	capacity = (capacity + BUFFER_ALIGNMENT - 1) & ~(BUFFER_ALIGNMENT - 1);
	uint8_t *bytes = aligned_alloc(BUFFER_ALIGNMENT, capacity);
	if (!bytes)
		return -1;
	free(buffer->bytes);
	buffer->bytes = bytes;
	buffer->capacity = capacity;
	return 0;
}

int
pri_volume_read_record(struct pri_volume *v, const struct sfs_handle *handle,
	struct pri_read_buffer *buffer, const uint8_t **body)
{
	struct sfs_record record;

	if (handle->length > SFS_BLOCK_MAX)
		return SFS_FORGED;
	if (pri_read_buffer_grow(buffer, sfs_read_room(handle)) < 0)
		return SFS_ERROR;
	int rc =
		sfs_read_in(v->sfs, handle, buffer->bytes, buffer->capacity, &record, NULL);
	if (rc == SFS_OK)
		*body = record.body;
	return rc;
}

int
pri_volume_read_part(struct pri_volume *v, const struct sfs_handle *handle, size_t offset,
	size_t len, struct pri_read_buffer *buffer, const uint8_t **at)
{
	enum { SECTOR = 4096 };

	if (pri_read_buffer_grow(buffer, len + 2 * SECTOR) < 0)
		return SFS_ERROR;
	return sfs_read_part(
		v->sfs, handle, offset, len, buffer->bytes, buffer->capacity, at, NULL);
}
