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
static void
tell(struct pr_append *append, const struct sfs_stream_info *stream,
	const struct pr_delete_order *order, enum pr_deletion_phase phase, int64_t until,
	const struct sfs_trimmed *done)
{
	struct pr_ledger_deleted d = {.at = order->at,
		.until = until,
		.link = link_of(stream),
		.phase = (uint8_t)phase};

	if (done) {
		d.records = done->records;
		d.bytes = done->bytes;
	}
	snprintf(d.by, sizeof(d.by), "%s", order->by);
	snprintf(d.moved_to, sizeof(d.moved_to), "%s",
		order->moved_to ? order->moved_to : "");
	pr_append_deleted(append, &d);
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

/* false: nothing of the stream may go. */
static bool
fence_of(const struct pr_delete_order *order, const char *stream, uint64_t *last)
{
	*last = UINT64_MAX;
	for (size_t i = 0; i < order->fence_count; i++)
		if (!strcmp(order->fences[i].stream, stream)) {
			*last = order->fences[i].last;
			return true;
		}
	return !order->fenced;
}

/* How many of a stream's oldest blocks have no segment behind `last`; at most STEP_BLOCKS. */
static int
blocks_before(
	struct sfs *sfs, int stream, uint64_t last, uint32_t *blocks, struct pr_error *err)
{
	uint64_t generation = 0;
	struct sfs_cursor *cursor;
	struct sfs_record r;
	int rc = 1;

	*blocks = STEP_BLOCKS;
	if (last >= sfs_appended(sfs, stream))
		return 0;
	*blocks = 0;
	cursor = sfs_cursor_open(sfs, stream, NULL, err);
	if (!cursor)
		return -1;
	while (*blocks < STEP_BLOCKS && (rc = sfs_cursor_next(cursor, &r, err)) != 0) {
		if (rc == SFS_CORRUPT || rc == SFS_EXPIRED)
			continue;
		if (rc != 1)
			break;
		*blocks += generation && r.handle.generation != generation;
		generation = r.handle.generation;
		if (r.sequence > last)
			break;
	}
	sfs_cursor_close(&cursor);
	return rc < 0 && rc != SFS_CORRUPT && rc != SFS_EXPIRED ? -1 : 0;
}

static int
trim_stream(struct sfs *sfs, struct pr_append *append, const struct sfs_stream_info *stream,
	const struct pr_delete_order *order, struct pr_deleted *out, struct pr_error *err)
{
	struct sfs_stream_info now;
	struct sfs_trimmed done;
	uint32_t blocks;
	uint64_t last;
	int rc;

	if (!fence_of(order, stream->name, &last) || !stream->last_sequence)
		return 0;
	if (blocks_before(sfs, (int)stream->id, last, &blocks, err) < 0)
		return -1;
	if (blocks == 0)
		return 0;
	rc = sfs_trim(sfs, (int)stream->id, order->until, blocks, &done, err);
	out->segments += done.records;
	out->bytes += done.bytes;
	out->more |= done.more;
	if (done.blocks && sfs_stream_info(sfs, stream->id, &now, NULL) == SFS_OK)
		tell(append, stream, order, PR_DELETION_STEP, now.evicted_until, &done);
	if (rc != SFS_OK)
		return -1;
	return done.more ? 0 : trim_index(sfs, stream, order, &out->more, err);
}

/* Of all streams that it is about: that it begins, and how far it may go; or that it is over. */
static int
announce(struct sfs *sfs, struct pr_append *append, const struct pr_delete_order *order,
	enum pr_deletion_phase phase, struct pr_error *err)
{
	struct sfs_volume_info volume;
	struct sfs_stream_info s;
	uint64_t last;

	if (sfs_info(sfs, &volume, err) != SFS_OK)
		return -1;
	for (size_t i = 0; i < volume.stream_count; i++) {
		if (sfs_stream_info(sfs, i, &s, err) != SFS_OK)
			return -1;
		if (!is_packets(&s) || !fence_of(order, s.name, &last) ||
			(phase == PR_DELETION_BEGINS &&
				(!s.last_sequence || s.min_time > order->until)))
			continue;
		tell(append, &s, order, phase,
			s.max_time < order->until ? s.max_time : order->until, NULL);
	}
	return pr_append_flush(append, err);
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
	out->more = order->step == 0;
	if (out->more)
		return pr_append_flush(append, err) < 0
			       ? -1
			       : announce(sfs, append, order, PR_DELETION_BEGINS, err);
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
	if (rc == 0 && !out->more)
		rc = announce(sfs, append, order, PR_DELETION_OVER, err);
	else if (out->segments && pr_append_flush(append, rc == 0 ? err : NULL) < 0)
		rc = -1;
	if (!out->more)
		out->oldest = oldest_left(sfs);
	return rc;
}
