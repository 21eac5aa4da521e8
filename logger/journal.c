/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/journal.h"

#include <stdlib.h>

/* ---- small entries, gathered into records ---- */

enum { JOURNAL_ROOM = 32768, GUARANTEE_BLOCKS = 4 };

struct prl_journal {
	struct sfs *sfs;
	int stream;
	struct pr_writer w;
	int64_t min, max;
	/* of a directory */
	struct pr_directory_coder coder;
	struct sfs_handle segment, index; /* the handles before */
	int64_t began;
	unsigned entries;
	uint8_t buf[JOURNAL_ROOM];
};

static uint64_t
guarantee(struct sfs *sfs, unsigned share)
{
	struct sfs_volume_info info;

	sfs_info(sfs, &info, NULL);
	uint64_t size = info.blocks * info.block_size;
	uint64_t least = (uint64_t)GUARANTEE_BLOCKS * info.block_size;
	if (size / share >= least)
		return size / share;
	return least <= size / 8 ? least : 0;
}

static void
journal_clear(struct prl_journal *j)
{
	size_t room = sfs_record_max(j->sfs);

	j->w = pr_writer_make(j->buf, PR_MIN(room, sizeof(j->buf)));
	j->min = PR_TIME_MAX;
	j->max = PR_TIME_MIN;
}

struct prl_journal *
prl_journal_create(
	struct sfs *sfs, const char *stream, unsigned share, struct pr_error *err)
{
	struct prl_journal *j = calloc(1, sizeof(*j));

	if (!j)
		return pr_error_null(err, "no memory for stream \"%s\"", stream);
	j->sfs = sfs;
	j->stream = sfs_stream_open(sfs, stream, guarantee(sfs, share), 0, err);
	if (j->stream < 0) {
		free(j);
		return NULL;
	}
	journal_clear(j);
	return j;
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
	pr_time_widen(&j->min, &j->max, min, max);
	return 0;
}

/* ---- directories ---- */

/*
 * How long entries wait for others. Each record costs a sector of the volume when it is
 * flushed, and a read when the volume is opened. Each segment that is not listed yet must
 * be read itself.
 */
#define LATE_NS (200 * PR_NS_PER_MS)
#define LATE_ENTRIES 16
#define UNHURRIED_NS PR_NS_PER_S
#define UNHURRIED_ENTRIES 64 /* an indexer beside finds this many in shared memory */

int
prl_journal_add_place(struct prl_journal *j, struct pr_directory_entry *e,
	const struct sfs_handle *handle, int64_t min, int64_t max, struct pr_error *err)
{
	struct sfs_handle *before = e->kind == PR_DIRECTORY_INDEX ? &j->index : &j->segment;

	if (pr_writer_room(&j->w) < PR_DIRECTORY_ENTRY_MAX && prl_journal_write(j, err))
		return -1;
	if (pr_writer_len(&j->w) == 0) {
		j->segment = j->index = (struct sfs_handle){0};
		j->began = pr_now_mono();
		j->entries = 0;
		if (!pr_directory_begin(&j->coder, &j->w))
			return pr_error_set(err, "no room for a directory");
	}
	e->handle_len = sfs_handle_pack(handle, before, e->handle);
	if (!pr_directory_store(&j->coder, &j->w, e))
		return pr_error_set(err, "an entry of a directory contradicts itself");
	*before = *handle;
	j->entries++;
	pr_time_widen(&j->min, &j->max, min, max);
	return 0;
}

int
prl_journal_write_late(struct prl_journal *j, bool lazy, int64_t now, struct pr_error *err)
{
	if (j->entries < (lazy ? UNHURRIED_ENTRIES : LATE_ENTRIES) &&
		now - j->began < (lazy ? UNHURRIED_NS : LATE_NS))
		return 0;
	return prl_journal_write(j, err);
}

/* ---- records of the index ---- */

int
prl_data_stream(struct sfs *sfs, uint16_t link)
{
	char name[SFS_NAME_MAX + 1];

	PR_PRINT(name, "packets.%u", link);
	return sfs_stream_find(sfs, name);
}

int
prl_index_check(struct sfs *sfs, const struct pr_index_record *i, struct pr_error *err)
{
	int stream = prl_data_stream(sfs, i->link);
	uint64_t stored = stream >= 0 ? sfs_appended(sfs, stream) : 0;

	if (i->level < 1 || i->level > 3)
		return pr_error_set(err, "an index of level %u", i->level);
	if (i->len == 0 || i->len > sfs_record_max(sfs))
		return pr_error_set(err, "an index of %zu bytes, where %zu are the most",
			i->len, sfs_record_max(sfs));
	if (i->segments == 0 || i->first_sequence == 0 || i->segments > stored ||
		i->first_sequence > stored - i->segments + 1)
		return pr_error_set(err,
			"an index of segments %llu on, %u in all, of link %u with %llu",
			(unsigned long long)i->first_sequence, i->segments, i->link,
			(unsigned long long)stored);
	if (i->min_time > i->max_time)
		return pr_error_set(err, "an index of times that contradict each other");
	return 0;
}
