/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"

/* ---- small entries, gathered into records ---- */

#define JOURNAL_ROOM 32768
#define GUARANTEE_BLOCKS 4

struct prl_journal {
	struct sfs *sfs;
	int stream;
	struct pr_writer w;
	int64_t min, max;
	uint8_t buf[JOURNAL_ROOM];
};

static uint64_t
guarantee(struct sfs *sfs, unsigned share)
{
	struct sfs_volume_info info;
	uint64_t least, size;

	if (sfs_info(sfs, &info, NULL))
		return 0;
	size = info.blocks * info.block_size;
	least = (uint64_t)GUARANTEE_BLOCKS * info.block_size;
	if (size / share >= least)
		return size / share;
	return least <= size / 8 ? least : 0;
}

static void
journal_clear(struct prl_journal *j)
{
	size_t room = sfs_record_max(j->sfs);

	j->w = pr_writer_make(j->buf, room < sizeof(j->buf) ? room : sizeof(j->buf));
	j->min = PR_TIME_MAX;
	j->max = PR_TIME_MIN;
}

struct prl_journal *
prl_journal_create(
	struct sfs *sfs, const char *stream, unsigned share, struct pr_error *err)
{
	struct prl_journal *j = calloc(1, sizeof(*j));

	if (!j) {
		pr_error_set(err, "no memory for stream \"%s\"", stream);
		return NULL;
	}
	j->sfs = sfs;
	j->stream = sfs_stream_open(sfs, stream, guarantee(sfs, share), 0, err);
	if (j->stream < 0) {
		free(j);
		return NULL;
	}
	journal_clear(j);
	return j;
}

void
prl_journal_destroy(struct prl_journal **journal)
{
	free(*journal);
	*journal = NULL;
}

int
prl_journal_write(struct prl_journal *j, struct pr_error *err)
{
	size_t len = pr_writer_len(&j->w);

	if (len == 0)
		return 0;
	if (sfs_append(j->sfs, j->stream, j->min, j->max, j->buf, len, NULL, err) != SFS_OK)
		return -1;
	journal_clear(j);
	return 0;
}

static void
prl_journal_added(struct prl_journal *j, int64_t min, int64_t max)
{
	if (min < j->min)
		j->min = min;
	if (max > j->max)
		j->max = max;
}

int
prl_journal_add(struct prl_journal *j, const struct pr_ledger_entry *e, int64_t min,
	int64_t max, struct pr_error *err)
{
	if (!pr_ledger_store(&j->w, e)) {
		if (prl_journal_write(j, err))
			return -1;
		if (!pr_ledger_store(&j->w, e))
			return pr_error_set(
				err, "a ledger entry of type %u is too long", e->type);
	}
	prl_journal_added(j, min, max);
	return 0;
}

/*
 * For entries of another form: where to write the next one, of at most that many bytes; a record that has
 * no such room left is written first. NULL: it could not be. Then prl_journal_added, with its times.
 */
static struct pr_writer *
prl_journal_room(struct prl_journal *j, size_t most, struct pr_error *err)
{
	if (pr_writer_room(&j->w) < most && prl_journal_write(j, err))
		return NULL;
	return &j->w;
}

/* ---- directories ---- */

/*
 * Each record costs a sector of the volume when it is flushed, and is read by who opens it; each segment that
 * is not listed costs who asks meanwhile a look at it.
 */
#define LATE_NS (200 * PR_NS_PER_MS)
#define LATE_ENTRIES 16
#define UNHURRIED_NS PR_NS_PER_S
#define UNHURRIED_ENTRIES 64 /* an indexer beside finds so many in shared memory */

struct prl_directory_journal {
	struct prl_journal *journal;
	struct pr_directory_coder coder;
	struct sfs_handle segment, index; /* the handles before */
	bool lazy_directory;
	int64_t began;
	unsigned entries;
};

struct prl_directory_journal *
prl_directory_journal_create(struct sfs *sfs, const char *stream, unsigned share,
	bool lazy_directory, struct pr_error *err)
{
	struct prl_directory_journal *j = calloc(1, sizeof(*j));

	if (!j) {
		pr_error_set(err, "no memory for stream \"%s\"", stream);
		return NULL;
	}
	j->lazy_directory = lazy_directory;
	j->journal = prl_journal_create(sfs, stream, share, err);
	if (!j->journal)
		prl_directory_journal_destroy(&j);
	return j;
}

void
prl_directory_journal_destroy(struct prl_directory_journal **journal)
{
	if (*journal)
		prl_journal_destroy(&(*journal)->journal);
	free(*journal);
	*journal = NULL;
}

static bool
begin(struct prl_directory_journal *j, struct pr_writer *w)
{
	j->segment = j->index = (struct sfs_handle){0};
	j->began = pr_now_mono();
	j->entries = 0;
	return pr_directory_begin(&j->coder, w);
}

int
prl_directory_journal_add(struct prl_directory_journal *j, struct pr_directory_entry *e,
	const struct sfs_handle *handle, int64_t min, int64_t max, struct pr_error *err)
{
	struct sfs_handle *before = e->kind == PR_DIRECTORY_INDEX ? &j->index : &j->segment;
	struct pr_writer *w = prl_journal_room(j->journal, PR_DIRECTORY_ENTRY_MAX, err);

	if (!w)
		return -1;
	if (pr_writer_len(w) == 0 && !begin(j, w))
		return pr_error_set(err, "no room for a directory");
	e->handle_len = (uint8_t)sfs_handle_pack(handle, before, e->handle);
	if (!pr_directory_store(&j->coder, w, e))
		return pr_error_set(err, "an entry of a directory contradicts itself");
	*before = *handle;
	j->entries++;
	prl_journal_added(j->journal, min, max);
	return 0;
}

int
prl_directory_journal_write(
	struct prl_directory_journal *j, int64_t now, struct pr_error *err)
{
	unsigned many = j->lazy_directory ? UNHURRIED_ENTRIES : LATE_ENTRIES;
	int64_t late = j->lazy_directory ? UNHURRIED_NS : LATE_NS;

	if (j->entries < many && now - j->began < late)
		return 0;
	return prl_journal_write(j->journal, err);
}

/* ---- records of the index ---- */

/* An index takes at most 0.5 % of full packets; of small ones it takes more. */
#define GUARANTEE_SHARE 128
#define LINKS 65536

struct prl_indexes {
	struct sfs *sfs;
	struct prl_directory_journal *segments, *summaries;
	int16_t streams[LINKS]; /* 1 + id; 0: not opened yet */
};

struct prl_indexes *
prl_indexes_create(struct sfs *sfs, struct prl_directory_journal *segments,
	struct prl_directory_journal *summaries, struct pr_error *err)
{
	struct prl_indexes *x = calloc(1, sizeof(*x));

	_Static_assert(SFS_STREAMS_MAX < INT16_MAX, "stream ids fit");
	if (!x) {
		pr_error_set(err, "no memory for indexes");
		return NULL;
	}
	x->sfs = sfs;
	x->segments = segments;
	x->summaries = summaries;
	return x;
}

void
prl_indexes_destroy(struct prl_indexes **indexes)
{
	free(*indexes);
	*indexes = NULL;
}

static int
data_stream(struct sfs *sfs, uint16_t link)
{
	char name[SFS_NAME_MAX + 1];

	snprintf(name, sizeof(name), "packets.%u", link);
	return sfs_stream_find(sfs, name);
}

int
prl_indexes_check(
	struct prl_indexes *x, const struct pr_index_record *i, struct pr_error *err)
{
	int stream = data_stream(x->sfs, i->link);
	uint64_t stored = stream >= 0 ? sfs_appended(x->sfs, stream) : 0;

	if (i->level < 1 || i->level > 3)
		return pr_error_set(err, "an index of level %u", i->level);
	if (i->len == 0 || i->len > sfs_record_max(x->sfs))
		return pr_error_set(err, "an index of %zu bytes, where %zu are the most",
			i->len, sfs_record_max(x->sfs));
	if (i->segments == 0 || i->first_sequence == 0 || i->segments > stored ||
		i->first_sequence > stored - i->segments + 1)
		return pr_error_set(err,
			"an index of segments %llu and %u more of link %u, which has %llu",
			(unsigned long long)i->first_sequence, i->segments, i->link,
			(unsigned long long)stored);
	if (i->min_time > i->max_time)
		return pr_error_set(err, "an index of times that contradict each other");
	return 0;
}

static uint64_t
index_guarantee(struct sfs *sfs, int data)
{
	struct sfs_stream_info info;
	struct sfs_volume_info volume;

	if (sfs_info(sfs, &volume, NULL) != SFS_OK)
		return 0;
	for (size_t i = 0; i < volume.stream_count; i++)
		if (sfs_stream_info(sfs, i, &info, NULL) == SFS_OK &&
			info.id == (uint32_t)data)
			return info.guarantee / GUARANTEE_SHARE;
	return 0;
}

static int
index_stream(struct prl_indexes *x, uint16_t link, struct pr_error *err)
{
	char name[SFS_NAME_MAX + 1];
	int stream;

	if (x->streams[link])
		return x->streams[link] - 1;
	snprintf(name, sizeof(name), "index.%u", link);
	stream = sfs_stream_open(
		x->sfs, name, index_guarantee(x->sfs, data_stream(x->sfs, link)), 0, err);
	if (stream >= 0)
		x->streams[link] = (int16_t)(stream + 1);
	return stream;
}

/* Level 2 is read in sectors: there it begins at one. */
static int
store(struct prl_indexes *x, int stream, const struct pr_index_record *i,
	struct sfs_handle *handle, struct pr_error *err)
{
	void *room;

	if (i->level != 2)
		return sfs_append(x->sfs, stream, i->min_time, i->max_time, i->body, i->len,
			handle, err);
	room = sfs_reserve(x->sfs, stream, i->len, err);
	if (!room)
		return sfs_append(x->sfs, stream, i->min_time, i->max_time, i->body, i->len,
			handle, err);
	memcpy(room, i->body, i->len);
	return sfs_commit(x->sfs, stream, i->min_time, i->max_time, i->len, handle, err);
}

int
prl_indexes_append(
	struct prl_indexes *x, const struct pr_index_record *i, struct pr_error *err)
{
	struct pr_directory_entry e = {.kind = PR_DIRECTORY_INDEX,
		.u.index = {.first_sequence = i->first_sequence,
			.check = i->check,
			.segments = i->segments,
			.link = i->link,
			.level = (uint8_t)i->level}};
	struct sfs_handle handle;
	int stream = index_stream(x, i->link, err);

	if (stream < 0 || store(x, stream, i, &handle, err) != SFS_OK)
		return -1;
	return prl_directory_journal_add(i->level == 3 ? x->summaries : x->segments, &e,
		&handle, i->min_time, i->max_time, err);
}
