/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/delete.h"

#include <stdlib.h>

#define STEP_BLOCKS 8
#define STEP_NS (50 * PR_NS_PER_MS)

static const char data_prefix[] = "packets.", index_prefix[] = "index.";

static uint16_t
link_of(const struct sfs_stream_info *s)
{
	return s->name[0] == 's' ? PRL_STRAY_LINK
				 : strtoul(s->name + strlen(data_prefix), NULL, 10);
}

/* Not what is held: that stays until its case is released. */
static bool
is_packets(const struct sfs_stream_info *s)
{
	return !strcmp(s->name, "strays") ||
	       (!strncmp(s->name, data_prefix, strlen(data_prefix)) &&
		       pr_stream_class(link_of(s)) < PR_CLASS_HOLDS);
}

/* Writes to the ledger who deleted what; packets overwritten later are not part of it. */
static void
tell(struct prl_volume_writer *append, const struct sfs_stream_info *stream,
	const struct prl_delete_order *order, enum pr_deletion_phase phase, int64_t until,
	const struct sfs_trimmed *done)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_DELETED};
	struct pr_ledger_deleted *d = &e.u.deleted;
	/*
	 * From the stream's oldest packets on: then overwritten packets lie before the
	 * range.
	 */
	bool oldest = order->since <= stream->min_time;

	*d = (struct pr_ledger_deleted){.at = order->at,
		.since = oldest ? PR_TIME_MIN : order->since,
		.until = until,
		.link = pr_stream_link(link_of(stream)),
		.phase = phase,
		.records = done ? done->records : 0,
		.bytes = done ? done->bytes : 0};
	PR_PRINT(d->by, "%s", order->by);
	PR_PRINT(d->moved_to, "%s", order->moved_to ? order->moved_to : "");
	prl_writer_tell(append, &e);
}

/* Deletes index records, but none that covers packets that are kept. */
static int
delete_index(struct sfs *sfs, const struct sfs_stream_info *stream,
	const struct prl_delete_order *order, bool *more, struct pr_error *err)
{
	struct sfs_delete_range range = {
		.since = order->since, .until = order->until, .last = UINT64_MAX};
	struct sfs_deleted hole = {0};
	struct sfs_stream_info now;
	struct sfs_trimmed done;
	char name[SFS_NAME_MAX + 1];

	PR_PRINT(name, "%s%u", index_prefix, link_of(stream));
	int index = sfs_stream_find(sfs, name);
	if (index < 0 || link_of(stream) == PRL_STRAY_LINK)
		return 0;
	if (sfs_stream_info(sfs, stream->id, &now, err) != SFS_OK)
		return -1;
	/* Limits the range to times whose packets are gone; PR_TIME_MIN: none are. */
	if (now.last_sequence) {
		int64_t gone = now.evicted_until;

		while (sfs_stream_deleted(sfs, stream->id, hole.last + 1, &hole))
			if (hole.max_time > gone && hole.min_time <= order->until)
				gone = hole.max_time;
		range.until = PR_MIN(range.until, gone);
	}
	if (range.until < range.since)
		return 0;
	if (sfs_delete(sfs, index, &range, STEP_BLOCKS, &done, err) != SFS_OK)
		return -1;
	*more |= done.more;
	return 0;
}

/* false: nothing of the stream may go. */
static bool
fence_of(const struct prl_delete_order *order, const char *stream, uint64_t *last)
{
	*last = UINT64_MAX;
	for (size_t i = 0; i < order->fence_count; i++)
		if (!strcmp(order->fences[i].stream, stream)) {
			*last = order->fences[i].last;
			return true;
		}
	return !order->fenced;
}

static int
delete_from(struct sfs *sfs, struct prl_volume_writer *append,
	const struct sfs_stream_info *stream, const struct prl_delete_order *order,
	struct prl_deleted *out, struct pr_error *err)
{
	struct sfs_delete_range range = {.since = order->since, .until = order->until};
	struct sfs_stream_info now;
	struct sfs_trimmed done;

	if (!fence_of(order, stream->name, &range.last) || !stream->last_sequence)
		return 0;
	int rc = sfs_delete(sfs, stream->id, &range, STEP_BLOCKS, &done, err);
	out->segments += done.records;
	out->bytes += done.bytes;
	out->more |= done.more;
	if (done.records && sfs_stream_info(sfs, stream->id, &now, NULL) == SFS_OK) {
		int64_t until = done.max_time;
		if (order->since <= stream->min_time && now.evicted_until > until)
			until = now.evicted_until;
		tell(append, stream, order, PR_DELETION_STEP, until, &done);
	}
	if (rc != SFS_OK)
		return -1;
	return done.more ? 0 : delete_index(sfs, stream, order, &out->more, err);
}

/*
 * Writes to the ledger, for each stream of the deletion: its begin, with the time that it
 * may reach, or its end.
 */
static int
announce(struct sfs *sfs, struct prl_volume_writer *append,
	const struct prl_delete_order *order, enum pr_deletion_phase phase,
	struct pr_error *err)
{
	struct sfs_stream_info s;
	uint64_t last;

	for (size_t i = 0; sfs_stream_info(sfs, i, &s, NULL) == SFS_OK; i++) {
		if (!is_packets(&s) || !fence_of(order, s.name, &last) ||
			(phase == PR_DELETION_BEGINS &&
				(!s.last_sequence || s.min_time > order->until ||
					s.max_time < order->since)))
			continue;
		tell(append, &s, order, phase, PR_MIN(s.max_time, order->until), NULL);
	}
	return prl_writer_flush(append, err);
}

int
prl_delete_step(struct sfs *sfs, struct prl_volume_writer *append,
	const struct prl_delete_order *order, struct prl_deleted *out, struct pr_error *err)
{
	int64_t deadline = pr_now_mono() + STEP_NS;
	struct sfs_stream_info stream;
	int rc = 0;

	*out = (struct prl_deleted){0};
	out->more = order->step == 0;
	if (prl_writer_flush(append, err) < 0)
		return -1;
	if (out->more)
		return announce(sfs, append, order, PR_DELETION_BEGINS, err);
	for (size_t i = 0; rc == 0 && sfs_stream_info(sfs, i, &stream, NULL) == SFS_OK;
		i++) {
		if (!is_packets(&stream))
			continue;
		do {
			out->more = false;
			rc = delete_from(sfs, append, &stream, order, out, err);
		} while (rc == 0 && out->more && pr_now_mono() < deadline);
		if (out->more)
			break;
	}
	if (rc == 0 && !out->more)
		rc = announce(sfs, append, order, PR_DELETION_OVER, err);
	else if (out->segments && prl_writer_flush(append, rc == 0 ? err : NULL) < 0)
		rc = -1;
	return rc;
}
