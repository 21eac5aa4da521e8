/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/delete.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"

#define STEP_BLOCKS 8
#define STEP_NS (50 * PR_NS_PER_MS)

static const char data_prefix[] = "packets.", index_prefix[] = "index.";

static bool
is_packets(const struct sfs_stream_info *s)
{
	return !strncmp(s->name, data_prefix, strlen(data_prefix)) ||
	       !strcmp(s->name, "strays");
}

static uint16_t
link_of(const struct sfs_stream_info *s)
{
	return s->name[0] == 's'
		       ? PR_STRAY_LINK
		       : (uint16_t)strtoul(s->name + strlen(data_prefix), NULL, 10);
}

/* Who reads the ledger learns by whom; what is recycled later is nobody's doing. */
static int
tell(struct sfs *sfs, struct pr_append *append, const struct sfs_stream_info *stream,
	const struct pr_delete_order *order, const struct sfs_trimmed *done,
	struct pr_error *err)
{
	struct pr_ledger_deleted d = {.at = order->at,
		.records = done->records,
		.bytes = done->bytes,
		.link = link_of(stream)};
	struct sfs_stream_info now;

	if (sfs_stream_info(sfs, stream->id, &now, err) != SFS_OK)
		return -1;
	d.until = now.evicted_until;
	snprintf(d.by, sizeof(d.by), "%s", order->by);
	pr_append_deleted(append, &d);
	return 0;
}

/* The index of packets that are kept stays, as far as it lies in blocks of its own. */
static int
trim_index(struct sfs *sfs, const struct sfs_stream_info *stream,
	const struct pr_delete_order *order, bool *more, struct pr_error *err)
{
	int64_t until = order->until;
	struct sfs_stream_info now;
	struct sfs_trimmed done;
	char name[SFS_NAME_MAX + 1];
	int index;

	snprintf(name, sizeof(name), "%s%u", index_prefix, link_of(stream));
	index = sfs_stream_find(sfs, name);
	if (index < 0 || link_of(stream) == PR_STRAY_LINK)
		return 0;
	if (sfs_stream_info(sfs, stream->id, &now, err) != SFS_OK)
		return -1;
	if (now.last_sequence && until > now.evicted_until)
		until = now.evicted_until;
	if (sfs_trim(sfs, index, until, STEP_BLOCKS, &done, err) != SFS_OK)
		return -1;
	*more |= done.more;
	return 0;
}

static int
trim_stream(struct sfs *sfs, struct pr_append *append, const struct sfs_stream_info *stream,
	const struct pr_delete_order *order, struct pr_deleted *out, struct pr_error *err)
{
	struct sfs_trimmed done;
	int rc = sfs_trim(sfs, (int)stream->id, order->until, STEP_BLOCKS, &done, err);

	out->segments += done.records;
	out->bytes += done.bytes;
	out->more |= done.more;
	if (done.blocks &&
		tell(sfs, append, stream, order, &done, rc == SFS_OK ? err : NULL) < 0)
		return -1;
	if (rc != SFS_OK)
		return -1;
	return done.more ? 0 : trim_index(sfs, stream, order, &out->more, err);
}

/* What shares a block with later packets is still there. */
static int64_t
oldest_left(struct sfs *sfs)
{
	int64_t oldest = PR_TIME_MAX;
	struct sfs_volume_info volume;
	struct sfs_stream_info s;

	if (sfs_info(sfs, &volume, NULL) != SFS_OK)
		return oldest;
	for (size_t i = 0; i < volume.stream_count; i++)
		if (sfs_stream_info(sfs, i, &s, NULL) == SFS_OK && is_packets(&s) &&
			s.last_sequence && s.min_time < oldest)
			oldest = s.min_time;
	return oldest;
}

int
pr_delete_step(struct sfs *sfs, struct pr_append *append,
	const struct pr_delete_order *order, struct pr_deleted *out, struct pr_error *err)
{
	int64_t deadline = pr_now_mono() + STEP_NS;
	struct sfs_volume_info volume;
	struct sfs_stream_info stream;
	int rc = 0;

	*out = (struct pr_deleted){.oldest = PR_TIME_MAX};
	if (pr_append_flush(append, err) < 0 || sfs_info(sfs, &volume, err) != SFS_OK)
		return -1;
	for (size_t i = 0; rc == 0 && i < volume.stream_count; i++) {
		if (sfs_stream_info(sfs, i, &stream, err) != SFS_OK || !is_packets(&stream))
			continue;
		do {
			out->more = false;
			rc = trim_stream(sfs, append, &stream, order, out, err);
		} while (rc == 0 && out->more && pr_now_mono() < deadline);
		if (out->more)
			break;
	}
	if (out->segments && pr_append_flush(append, rc == 0 ? err : NULL) < 0)
		rc = -1;
	if (!out->more)
		out->oldest = oldest_left(sfs);
	return rc;
}
