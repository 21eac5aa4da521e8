/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/flows/flow_keep.h"

#include <sodium.h>

#include "indexer/flows/flow_filter.h"
#include "merger/cli/flows/flow_record.h"
#include "merger/cli/volume/volume.h"

#define LOOK 256 /* records between two looks at the clock */
/* ---- keeping ---- */

struct flow_keeper {
	char *volume;
	struct sfs *sfs;
	struct pri_batch *batch; /* the records that are not stored yet */
	int64_t since, until; /* ends of these */
	size_t most; /* rows of a batch */
	struct flow_windows windows; /* those that follow on each other as one */
	struct flow_window last; /* that goes on; number 0: none */
	int stream[FLOW_STREAMS];
	uint64_t number; /* of the last window */
	uint64_t tag, file; /* of the next window */
	uint64_t records; /* of this window */
	int64_t reach;
	uint8_t *room; /* for a record */
	size_t room_size;
	uint64_t open; /* flows that are stored as such */
	int64_t open_at;
	const struct flow_keep_open *storing;
	bool collected;
	uint64_t *files; /* that windows are of */
	size_t file_count;
};

/* Windows that follow on each other are one. */
static int
note_window(struct flow_keeper *k, const struct flow_window *next, struct pr_error *err)
{
	struct flow_windows *w = &k->windows;
	struct flow_window *last = w->count ? &w->all[w->count - 1] : NULL;
	bool one = last && last->until == next->since;

	if (one)
		last->until = next->until;
	if ((next->file && PR_ARRAY_ADD(k->files, k->file_count, next->file) < 0) ||
		(!one && PR_ARRAY_ADD(w->all, w->count, *next) < 0))
		return pr_error_set(err, "no memory for windows");
	return 0;
}

/* It goes on. When a file's flows were says nothing of when that is. */
static void
note_last(struct flow_keeper *k, const struct flow_window *w)
{
	int64_t until = w->file ? k->last.until : w->until;

	k->last = *w;
	k->last.until = until;
}

/* Reads what there is, before the volume is written. */
static int
look(struct flow_keeper *k, struct pr_error *err)
{
	struct flow_windows w;
	int rc = flow_windows_of(&w, k->volume, err);

	for (size_t i = 0; i < w.count && rc == 0; i++) {
		if (w.all[i].collected != k->collected)
			rc = pr_error_set(err,
				"%s has flows %s: give these a volume of their own",
				k->volume,
				k->collected ? "made of packets (packrack flows --keep)"
					     : "of exporters (packrack collect)");
		else
			rc = note_window(k, &w.all[i], err);
		if (w.all[i].goes_on)
			note_last(k, &w.all[i]);
		k->number = w.all[i].number;
	}
	free(w.all);
	return rc;
}

/* All but the columns are few, and needed to read these. */
static int
streams_open(struct flow_keeper *k, struct pr_error *err)
{
	struct sfs_volume_info volume;

	if (sfs_info(k->sfs, &volume, err) != SFS_OK)
		return -1;
	uint64_t guarantee = volume.blocks / 16 * volume.block_size;
	for (int i = 0; i < FLOW_STREAMS; i++) {
		k->stream[i] = sfs_stream_open(
			k->sfs, flow_streams[i], i == FLOW_COLUMNS ? 0 : guarantee, 0, err);
		if (k->stream[i] < 0)
			return -1;
	}
	return 0;
}

static void
begin_window(struct flow_keeper *k)
{
	k->records = 0;
	k->reach = 0;
	randombytes_buf(&k->tag, sizeof(k->tag));
}

static int
begin_writing(struct flow_keeper *k, struct pr_error *err)
{
	struct sfs_open_options writing = {.writer = true};
	struct sfs_stream_info ledger;
	struct volume_paths paths;

	if (volume_paths_parse(k->volume, &paths, err) == 0)
		k->sfs = sfs_open(paths.path, paths.count, &writing, err);
	volume_paths_free(&paths);
	if (!k->sfs)
		return -1;
	int others = sfs_stream_find(k->sfs, "ledger");
	if (others >= 0 && sfs_stream_info(k->sfs, others, &ledger, NULL) == SFS_OK &&
		ledger.last_sequence)
		return pr_error_set(err,
			"%s holds packets: give flows a volume of their own (packrack "
			"volume create)",
			k->volume);
	if (streams_open(k, err) < 0)
		return -1;
	k->room_size = sfs_record_max(k->sfs);
	/* the longest column, of two addresses a row, fits a record */
	k->most = PR_MIN(k->room_size / 256 * 15, PRI_BATCH_ROWS);
	k->room = malloc(k->room_size);
	k->batch = pri_batch_create();
	if (!k->room || !k->batch)
		return pr_error_set(err, "no memory for flows");
	begin_window(k);
	return 0;
}

int
flow_keeper_file(struct flow_keeper *k, uint64_t file, struct pr_error *err)
{
	for (size_t i = 0; i < k->file_count; i++)
		if (k->files[i] == file)
			return pr_error_set(
				err, "%s has the flows of this file already", k->volume);
	k->file = file;
	pri_batch_clear(k->batch);
	begin_window(k);
	return 0;
}

struct flow_keeper *
flow_keeper_open(const char *volume, bool collected, struct pr_error *err)
{
	struct flow_keeper *k = calloc(1, sizeof(*k));

	if (k) {
		k->collected = collected;
		k->volume = strdup(volume);
	}
	if (!k || !k->volume)
		pr_error_set(err, "no memory for a keeper of flows");
	else if (look(k, err) == 0 && begin_writing(k, err) == 0)
		return k;
	flow_keeper_close(&k);
	return NULL;
}

void
flow_keeper_close(struct flow_keeper **keeper)
{
	struct flow_keeper *k = PR_TAKE(keeper);

	if (!k)
		return;
	sfs_close(&k->sfs);
	pri_batch_destroy(&k->batch);
	free(k->windows.all);
	PR_FREE(k, files, room, volume);
	free(k);
}

bool
flow_keeper_has(const struct flow_keeper *k, int64_t since, int64_t until,
	const struct flow_window *same, struct flow_window *other)
{
	for (size_t i = 0; i < k->windows.count; i++) {
		*other = k->windows.all[i];
		if (other->since < until && since < other->until &&
			(!same || (other->since == same->since &&
					  other->until == same->until &&
					  other->packets == same->packets &&
					  other->not_ip == same->not_ip &&
					  other->records == same->records &&
					  other->share == same->share)))
			return true;
	}
	return false;
}

/* ---- batches ---- */

/* A record of the batch; its handle goes to `handles`. */
static int
store(struct flow_keeper *k, enum flow_stream stream, size_t len, struct pr_writer *handles,
	struct sfs_handle *last, struct pr_error *err)
{
	struct sfs_handle at;

	if (sfs_append(k->sfs, k->stream[stream], k->since, k->until, k->room, len, &at,
		    err) != SFS_OK)
		return -1;
	handles->at += sfs_handle_pack(&at, last, handles->at);
	*last = at;
	return 0;
}

/* Stores the batch, if there is one, and begins the next. open: of flows that are. */
static int
store_batch(struct flow_keeper *k, bool open, struct pr_error *err)
{
	enum flow_stream columns = open ? FLOW_OPEN : FLOW_COLUMNS;
	uint8_t head[FLOW_HEAD_MAX], behind[FLOW_HEAD_MAX];
	struct pr_writer w = pr_writer_make(head, sizeof(head));
	struct pr_writer handles = pr_writer_make(behind, sizeof(behind));
	struct pri_batch *b = k->batch;
	uint64_t least, most, before = (open ? k->open : k->records) - b->rows;
	struct sfs_handle last = {0};

	if (!b->rows)
		return 0;
	pri_batch_end(b);
	memcpy(head, FLOW_HEAD_MAGIC, 3);
	head[3] = FLOW_HEAD_VERSION;
	pr_put_le32(head + 4, (uint32_t)b->rows);
	pr_put_le64(head + 8, k->tag);
	pr_put_le32(head + 16, (uint32_t)b->addresses);
	pr_put_le64(head + 20, before);
	w.at += FLOW_HEAD;
	size_t len =
		open ? 0 : pri_batch_bloom(b, FLOW_BLOOM_SEED(k->tag, before), k->room);
	if (len && store(k, columns, len, &handles, &last, err) < 0)
		return -1;
	for (unsigned c = 0; c < PRI_COLUMNS; c++) {
		len = pri_column_pack(b, c, &least, &most, k->room, k->room_size);
		if (len == SIZE_MAX || !pr_store_varint(&w, least) ||
			!pr_store_varint(&w, most - least))
			return pr_error_set(err, "%s: a column does not fit", k->volume);
		if (len && store(k, columns, len, &handles, &last, err) < 0)
			return -1;
	}
	memcpy(w.at, behind, pr_writer_len(&handles));
	w.at += pr_writer_len(&handles);
	pri_batch_clear(b);
	return sfs_append(k->sfs, k->stream[open ? FLOW_OPEN : FLOW_BATCHES], k->since,
		k->until, head, pr_writer_len(&w), NULL, err);
}

static int
add_row(struct flow_keeper *k, const struct pri_flow *flow, uint64_t missing, bool left_out,
	int64_t now)
{
	if (!k->batch->rows)
		k->since = k->until = now;
	k->until = PR_MAX(k->until, now);
	pri_batch_add(k->batch, flow, missing, left_out);
	return k->batch->rows == k->most;
}

int
flow_keeper_put(struct flow_keeper *k, const struct pri_flow *flow, uint64_t missing,
	int64_t now, struct pr_error *err)
{
	bool full = add_row(k, flow, missing, false, now);

	k->records++;
	k->reach = PR_MAX(k->reach, pr_time_minus(now, pri_flow_first(flow)));
	if (k->records % LOOK == 0 && sfs_tick(k->sfs, pr_now_mono(), err) != SFS_OK)
		return -1;
	return full ? store_batch(k, false, err) : 0;
}

/* ---- the open flows ---- */

static int
add_open(void *arg, const struct pri_flow *flow, struct pr_error *err)
{
	struct flow_keeper *k = arg;
	const struct flow_keep_open *open = k->storing;
	bool full = add_row(k, flow, flow_losses_of(open->losses, flow),
		open->filter && !pri_flow_filter_match(open->filter, flow), k->open_at);

	k->open++;
	return full ? store_batch(k, true, err) : 0;
}

int
flow_keeper_resume(struct flow_keeper *k, struct pri_flow_table *table,
	struct flow_window *last, struct pr_error *err)
{
	if (!k->last.number)
		return 0;
	*last = k->last;
	if (pri_flow_table_advance(table, last->until, err) < 0 ||
		flow_kept_restore(k->sfs, last, table, err) < 0)
		return -1;
	return 1;
}

/* ---- what its maker has to know ---- */

int
flow_keeper_state(struct flow_keeper *k, int64_t time, const void *items, size_t size,
	size_t count, struct pr_error *err)
{
	pr_put_le64(k->room, k->tag);
	pr_put_le64(k->room + 8, FLOW_STATE_KIND(size));
	for (size_t at = 0; at < count;) {
		size_t n = PR_MIN((k->room_size - FLOW_STATE_HEAD) / size, count - at);

		memcpy(k->room + FLOW_STATE_HEAD, (const uint8_t *)items + at * size,
			n * size);
		if (sfs_append(k->sfs, k->stream[FLOW_OPEN], time, time, k->room,
			    FLOW_STATE_HEAD + n * size, NULL, err) != SFS_OK)
			return -1;
		at += n;
	}
	return 0;
}

/* ---- the end of a window ---- */

int
flow_keeper_commit(struct flow_keeper *k, struct flow_window *window,
	const struct flow_keep_open *open, struct pr_error *err)
{
	uint8_t entry[FLOW_WINDOW_BYTES];
	struct sfs_trimmed trimmed;

	k->storing = open;
	k->open_at = k->file ? pr_now_real() : window->until;
	k->open = 0;
	/* all that it is made of, before its entry */
	if (store_batch(k, false, err) < 0 ||
		(open && (pri_flow_table_open_flows(open->table, add_open, k, err) < 0 ||
				 store_batch(k, true, err) < 0)) ||
		sfs_flush(k->sfs, err) != SFS_OK)
		return -1;
	window->number = ++k->number;
	window->records = k->records;
	window->reach = PR_MAX(window->reach, k->reach);
	PR_COPY(window, k, open, tag, collected, file);
	window->goes_on = open != NULL;
	flow_window_write(window, entry);
	if (sfs_append(k->sfs, k->stream[FLOW_WINDOWS], window->since, window->until, entry,
		    sizeof(entry), NULL, err) != SFS_OK ||
		sfs_flush(k->sfs, err) != SFS_OK || note_window(k, window, err) < 0)
		return -1;
	begin_window(k);
	/* a range leaves what a keeper that goes on has there */
	if (!open && !k->collected)
		return 0;
	if (k->last.number && sfs_trim(k->sfs, k->stream[FLOW_OPEN], k->last.until, 0,
				      &trimmed, err) != SFS_OK)
		return -1;
	note_last(k, window);
	return 0;
}
