/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/stage/live.h"

#include <poll.h>

#include "indexer/filter/filter.h"
#include "indexer/query/volume.h"
#include "merger/cli/query/ask.h"
#include "proto/base/thread.h"
#include "proto/wire/frame.h"
#include "proto/wire/segment.h"

#define POLL_MS 10

struct stream {
	struct sfs_cursor *cursor;
	uint32_t id;
	size_t index; /* among the volume's streams */
	uint64_t next; /* sequence */
};

struct live {
	const struct query_args *args;
	struct pri_volume *volume;
	struct stream streams[SFS_STREAMS_MAX];
	size_t count;
	struct pr_bpf_set programs;
	struct pri_stage_run *run;
	struct live_figures *figures;
	bool enough; /* of packets */
};

/* Where the directory has the segment before, the cursor begins behind it. */
static int
begin_at(struct live *l, struct stream *s, uint64_t next, struct pr_error *err)
{
	if (s->cursor)
		sfs_cursor_close(&s->cursor);
	if (pri_volume_refresh(l->volume, true, INT64_MAX, err) < 0)
		return -1;
	const struct sfs_handle *before =
		next > 1 ? pri_catalog_handle(&l->volume->catalog, s->id, next - 1) : NULL;
	/* those that are passed over have their number of packets in the directory */
	for (uint64_t i = s->next; s->next && i < next; i++) {
		const struct sfs_handle *h =
			pri_catalog_handle(&l->volume->catalog, s->id, i);

		l->figures->skipped += h ? ((const struct pri_segment_entry *)h)->count : 0;
	}
	s->next = next;
	s->cursor = sfs_cursor_open(l->volume->sfs, (int)s->id, before, err);
	return s->cursor ? 0 : -1;
}

_Static_assert(offsetof(struct pri_segment_entry, handle) == 0, "a handle is its entry");

/* Packets of links of users; first: at the start, what is there is not for us. */
static int
find_streams(struct live *l, bool first, struct pr_error *err)
{
	struct sfs_stream_info info;

	for (size_t i = 0; sfs_stream_info(l->volume->sfs, i, &info, NULL) == SFS_OK; i++) {
		unsigned number;
		size_t at = 0;
		char end;

		if (sscanf(info.name, "packets.%u%c", &number, &end) != 1 ||
			pr_link_is_internal(pr_stream_link((uint16_t)number)) ||
			pr_stream_class((uint16_t)number) >= PR_CLASS_HOLDS ||
			number - PR_STREAM_COPIES < (unsigned)PR_STREAM_COPIES_MAX)
			continue;
		while (at < l->count && l->streams[at].id != info.id)
			at++;
		if (at < l->count)
			continue;
		l->streams[l->count++] = (struct stream){.id = info.id, .index = i};
		if (begin_at(l, &l->streams[at], first ? info.last_sequence + 1 : 1, err) <
			0)
			return -1;
	}
	return 0;
}

static int
take_segment(struct live *l, const struct sfs_record *r, struct pr_error *err)
{
	struct pr_segment_reader reader;
	struct pr_packet p;
	int got;

	if (pr_segment_open(&reader, r->body, r->length, err) < 0)
		return -1;
	l->figures->segments++;
	while ((got = pr_segment_next(&reader, &p, err)) > 0) {
		/* a copy of a shorter degree: the packet itself is in another stream */
		if (p.flags & PR_PACKET_DEGREES || !pr_bpf_set_match(&l->programs, &p))
			continue;
		if (pri_stage_packet(l->run, &p, err) < 0)
			return -1;
		if (++l->figures->packets == l->args->limit) {
			l->enough = true;
			return 0;
		}
	}
	return got;
}

/* Passes over what a stage that is too slow has not taken. */
static int
catch_up(struct live *l, struct stream *s, struct pr_error *err)
{
	struct sfs_stream_info info;

	return sfs_stream_info(l->volume->sfs, s->index, &info, err) == SFS_OK &&
			       info.last_sequence > s->next + l->figures->behind
		       ? begin_at(l, s, info.last_sequence, err)
		       : 0;
}

/* What there is of a stream. 1: something; 0: nothing. */
static int
take_stream(struct live *l, struct stream *s, struct pr_error *err)
{
	struct sfs_record r;
	int rc, some = 0;

	while (!l->enough) {
		if (catch_up(l, s, err) < 0)
			return -1;
		rc = sfs_cursor_next(s->cursor, &r, err);
		if (rc == 0 || rc == SFS_ERROR)
			return rc ? -1 : some;
		if (rc != 1 || r.sequence < s->next)
			continue; /* overwritten or damaged; or from before the start */
		s->next = r.sequence + 1;
		if (take_segment(l, &r, err) < 0)
			return -1;
		some = 1;
	}
	return some;
}

/* After a signal what is stored by then is still taken. */
static int
follow(struct live *l, struct pr_error *err)
{
	bool last = false;
	int some, rc = 0;

	while (!last && !l->enough && rc == 0) {
		last = cli_interrupted;
		some = 0;
		for (size_t i = 0; i < l->count && rc == 0; i++) {
			int got = take_stream(l, &l->streams[i], err);

			rc = got < 0 ? -1 : 0;
			some |= got;
		}
		if (rc == 0 && !some && !last) {
			rc = pri_stage_pause(l->run, err);
			if (rc == 0)
				rc = find_streams(l, false, err);
			poll(NULL, 0, POLL_MS);
		}
	}
	return rc;
}

int
live_run(const char *volume, const struct query_args *q, struct pri_stage_run *run,
	struct live_figures *figures, struct pr_error *err)
{
	static struct live l;
	int rc = -1;

	l = (struct live){.args = q, .run = run, .figures = figures};
	cli_catch_signals();
	pr_priority_give_way();
	l.volume = ask_volume_open(volume, PRI_VOLUME_CACHED, err);
	if (l.volume &&
		(!q->filter[0] || pri_filter_compile_all(pri_linktypes, PRI_LINKTYPES,
					  q->filter, q->tagged, &l.programs, err) == 0))
		rc = find_streams(&l, true, err);
	if (rc == 0) {
		fprintf(stderr, "packrack: following %s\n", volume);
		rc = follow(&l, err);
	}
	for (size_t i = 0; i < l.count; i++)
		if (l.streams[i].cursor)
			sfs_cursor_close(&l.streams[i].cursor);
	pri_volume_close(&l.volume);
	pr_bpf_set_free(&l.programs);
	return rc;
}
