/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/journal.h"

#include <stdlib.h>

#include "proto/base/clock.h"

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

void
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

struct pr_writer *
prl_journal_room(struct prl_journal *j, size_t most, struct pr_error *err)
{
	if (pr_writer_room(&j->w) < most && prl_journal_write(j, err))
		return NULL;
	return &j->w;
}
