/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/indexes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
guarantee(struct sfs *sfs, int data)
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
		x->sfs, name, guarantee(x->sfs, data_stream(x->sfs, link)), 0, err);
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
