/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index_follower.h"

#include "indexer/index/level2.h"

#define UNSUMMARIZED_MAX (PRI_FOLLOWER_SPANS - 2)

struct stream {
	struct pri_index_follower *feed;
	uint32_t id;
	uint16_t link;
	struct pri_builder *builder;
	struct sfs_cursor *cursor;
	uint64_t next; /* sequence; what comes before it is indexed or lost */
	uint64_t last; /* of the stream, as of the last step */
	struct sfs_record waiting; /* length 0: none. Its body is the cursor's */
	int64_t added; /* monotonic ns: when a segment was added last */
	int64_t rested; /* as added, or when the record was finished */
	uint64_t first; /* lowest sequence that is not overwritten, as of the last step */
	/* without summary in the index */
	struct pr_summary_span unsummarized[UNSUMMARIZED_MAX];
	size_t unsummarized_count;
	uint64_t unknown; /* also none up to this sequence, times unknown; 0: no such */
};

struct pri_index_follower {
	struct pri_volume *volume;
	pri_index_sink sink;
	void *arg;
	struct stream **streams;
	size_t count;
	struct pri_composites composites;
	uint64_t restarts, writers; /* writers: sfs_volume_info */
};

static void
note_unknown(struct stream *s, uint64_t upto)
{
	s->unknown = PR_MAX(s->unknown, upto);
}

static void
pri_follower_add_unsummarized(struct stream *s, const struct pr_summary_span *span)
{
	struct pr_summary_span *last = &s->unsummarized[UNSUMMARIZED_MAX - 1];

	if (s->unsummarized_count < UNSUMMARIZED_MAX) {
		s->unsummarized[s->unsummarized_count++] = *span;
		return;
	}
	/* table full: merge into the last extent. Its times stay right; across epochs its seqs mean nothing */
	if (last->epoch != span->epoch)
		note_unknown(s, span->first_sequence + span->segments);
	pr_summary_span_unite(last, span);
	if (s->unknown)
		note_unknown(s, last->first_sequence + last->segments);
}

/* Sequences from..to have no summary, and will not get one. */
static void
pri_follower_mark_gap(struct stream *s, uint64_t from, uint64_t to)
{
	struct pr_summary_span spans[8];
	uint64_t found;
	size_t count = pri_catalog_spans(
		&s->feed->volume->catalog, s->id, from, to, spans, 8, &found);

	for (size_t i = 0; i < count; i++)
		pri_follower_add_unsummarized(s, &spans[i]);
	if (found < to - from + 1)
		note_unknown(s, to);
}

void
pri_follower_summarized(struct pri_index_follower *f, uint16_t link,
	uint64_t first_sequence, uint32_t segments, bool readable)
{
	uint64_t end = first_sequence + segments;

	for (size_t i = 0; i < f->count; i++) {
		struct stream *s = f->streams[i];
		size_t kept = 0;

		if (s->link != link)
			continue;
		for (size_t j = 0; j < s->unsummarized_count; j++)
			if (s->unsummarized[j].first_sequence != first_sequence ||
				s->unsummarized[j].segments != segments)
				s->unsummarized[kept++] = s->unsummarized[j];
		s->unsummarized_count = kept;
		if (!readable && s->first < end)
			pri_follower_mark_gap(s, PR_MAX(s->first, first_sequence), end - 1);
	}
}

/* Forgets overwritten segments: they need no summary. */
static void
pri_follower_expire(struct stream *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->unsummarized_count; i++)
		if (s->unsummarized[i].first_sequence + s->unsummarized[i].segments >
			s->first)
			s->unsummarized[kept++] = s->unsummarized[i];
	s->unsummarized_count = kept;
	if (s->unknown < s->first)
		s->unknown = 0;
}

size_t
pri_follower_unsummarized(const struct pri_index_follower *f,
	struct pr_summary_span out[PRI_FOLLOWER_SPANS], bool *unknown)
{
	struct pr_summary_span tail[2];
	size_t count = 0;

	*unknown = false;
	for (size_t i = 0; i < f->count; i++) {
		const struct stream *s = f->streams[i];
		size_t more = pri_builder_tail(s->builder, tail);

		*unknown |= s->unknown || s->last >= s->next ||
			    count + s->unsummarized_count + more > PRI_FOLLOWER_SPANS;
		for (size_t j = 0; j < s->unsummarized_count && count < PRI_FOLLOWER_SPANS;
			j++)
			out[count++] = s->unsummarized[j];
		for (size_t j = 0; j < more && count < PRI_FOLLOWER_SPANS; j++)
			out[count++] = tail[j];
	}
	return count;
}

/* 1: waiting is set; 0: nothing new; -1. */
static int
fetch(struct stream *s, int64_t deadline, struct pr_error *err)
{
	struct pri_volume *volume = s->feed->volume;
	const struct sfs_handle *after;
	int rc;

	if (s->waiting.length)
		return 1;
	if (s->next > s->last)
		return 0;
	/* behind the last indexed segment if its handle is known; else from the start */
	if (!s->cursor &&
		(after = pri_catalog_handle(&volume->catalog, s->id, s->next - 1)))
		s->cursor = sfs_cursor_open(volume->sfs, s->id, after, NULL);
	if (!s->cursor)
		s->cursor = sfs_cursor_open(volume->sfs, s->id, NULL, err);
	if (!s->cursor)
		return -1;
	while ((rc = sfs_cursor_next(s->cursor, &s->waiting, err)) != 0) {
		if (rc == 1 && s->waiting.sequence >= s->next)
			return 1;
		s->waiting.length = 0;
		if (rc < 0 && rc != SFS_EXPIRED && rc != SFS_CORRUPT && rc != SFS_DELETED)
			return -1;
		if (pr_now_mono() >= deadline)
			return 0;
	}
	s->waiting.length = 0;
	return 0;
}

static void
passed(struct stream *s)
{
	s->next = s->waiting.sequence + 1;
	s->waiting.length = 0;
	s->added = s->rested = pr_now_mono();
}

static bool
whole(void *arg)
{
	struct stream *s = arg;

	return sfs_cursor_confirm(s->cursor, &s->waiting);
}

/*
 * Indexes the next segment in the writer's shared memory, without a copy. 1: done; 0: not
 * now; 2: it must be copied; -1: err.
 */
static int
advance_there(struct stream *s, struct pr_error *err)
{
	if (s->waiting.length || s->next > s->last || !s->cursor ||
		sfs_cursor_peek_shared(s->cursor, &s->waiting) != 1)
		return 2;
	int rc = s->waiting.sequence == s->next
			 ? pri_builder_add_shared(s->builder, s->waiting.sequence,
				   s->waiting.handle.proof, s->waiting.body,
				   s->waiting.length, whole, s, err)
			 : 2;
	if (rc == 1)
		passed(s);
	s->waiting.length = 0;
	return rc;
}

static int
pri_follower_advance(struct stream *s, int64_t deadline, struct pr_error *err)
{
	uint64_t damaged = pri_builder_figures(s->builder)->damaged;
	int rc = advance_there(s, err);

	if (rc != 2)
		return rc;
	rc = fetch(s, deadline, err);
	if (rc <= 0)
		return rc;
	rc = pri_builder_add_shared(s->builder, s->waiting.sequence,
		s->waiting.handle.proof, s->waiting.body, s->waiting.length, NULL, NULL,
		err);
	if (rc <= 0)
		return rc;
	if (s->waiting.sequence > s->next)
		pri_follower_mark_gap(s, s->next, s->waiting.sequence - 1);
	if (pri_builder_figures(s->builder)->damaged > damaged)
		pri_follower_mark_gap(s, s->waiting.sequence, s->waiting.sequence);
	passed(s);
	return 1;
}

/*
 * A record of level 1 is finished when nothing was added to it for IDLE_NS; the summary,
 * for IDLE_SUMMARY_NS.
 */
#define IDLE_NS (2 * PR_NS_PER_S)
#define IDLE_SUMMARY_NS (6 * PR_NS_PER_S)
/*
 * After a crash some segments have level 1 and no summary: at most this many are indexed
 * again.
 */
#define AGAIN_MAX 4096

struct pri_index_follower *
pri_follower_create(struct pri_volume *volume, const struct pri_composites *composites,
	pri_index_sink sink, void *arg, struct pr_error *err)
{
	struct pri_index_follower *f = calloc(1, sizeof *f);

	if (!f)
		return pr_error_null(err, "no memory for indexing");
	f->volume = volume;
	if (composites)
		f->composites = *composites;
	f->sink = sink;
	f->arg = arg;
	return f;
}

static void
stream_free(struct stream *s)
{
	if (!s)
		return;
	sfs_cursor_close(&s->cursor);
	pri_builder_destroy(&s->builder);
	free(s);
}

void
pri_follower_destroy(struct pri_index_follower **feed)
{
	struct pri_index_follower *f = PR_TAKE(feed);

	if (!f)
		return;
	for (size_t i = 0; i < f->count; i++)
		stream_free(f->streams[i]);
	free(f->streams);
	free(f);
}

/* ---- streams ---- */

uint64_t
pri_follower_restarts(const struct pri_index_follower *f)
{
	return f->restarts;
}

/*
 * Hands a record to the sink. A summary counts as missing until it is in the volume's
 * index, also if the volume refuses it.
 */
static int
sink_of(void *arg, const struct pr_index_record *record)
{
	struct stream *s = arg;
	struct pr_summary_span span;
	int rc = s->feed->sink(s->feed->arg, record);

	if (record->level == 3 && rc != 1 &&
		pr_summary_peek(&span, record->body, record->len, NULL) == 0)
		pri_follower_add_unsummarized(s, &span);
	return rc;
}

/* ---- where to begin ---- */

/*
 * Begins where the index ends; or earlier, if an indexer was killed and its last groups or
 * summaries must be made again. Notes what is left without summary before that.
 */
static void
begin(struct stream *s, const struct sfs_stream_info *info)
{
	struct pri_index_stream *known =
		pri_index_map_find(&s->feed->volume->index_map, s->link);
	struct pri_index_list *list = known ? &known->level[2] : NULL;
	uint64_t first = info->first_sequence ? info->first_sequence : 1, end = first;
	uint64_t grouped = first, summaries = first, at = first;

	if (known) {
		end = pri_index_uncovered(known, 1, first);
		grouped = pri_index_ungrouped(known, end, PRI_LEVEL2_COLUMNS_MIN);
	}
	pri_builder_resume(s->builder, end, grouped);
	for (size_t i = list ? list->count : 0; i-- > 0 && summaries == first;) {
		struct pri_index_ref *ref = &list->items[i];

		if (pri_index_ref_usable(known, ref) &&
			ref->first_sequence + ref->segments > first)
			summaries = ref->first_sequence + ref->segments;
	}
	s->next = summaries < grouped && end - summaries <= AGAIN_MAX ? summaries : grouped;
	for (size_t i = 0; list && i < list->count; i++) {
		struct pri_index_ref *ref = &list->items[i];

		if (!pri_index_ref_usable(known, ref))
			continue;
		if (ref->first_sequence > at)
			pri_follower_mark_gap(s, at, ref->first_sequence - 1);
		at = PR_MAX(at, ref->first_sequence + ref->segments);
	}
	if (at < s->next)
		pri_follower_mark_gap(s, at, s->next - 1);
}

static struct stream *
find_or_add(struct pri_index_follower *f, const struct sfs_stream_info *info, uint16_t link,
	struct pr_error *err)
{
	for (size_t i = 0; i < f->count; i++)
		if (f->streams[i]->id == info->id)
			return f->streams[i];
	struct stream *s = calloc(1, sizeof *s);
	if (s)
		s->builder = pri_builder_create(
			link, sfs_record_max(f->volume->sfs), sink_of, s, err);
	if (!s || !s->builder || PR_ARRAY_GROW(f->streams, f->count) < 0) {
		stream_free(s);
		return pr_error_null(err, "no memory for indexing");
	}
	f->streams[f->count++] = s;
	s->feed = f;
	s->id = info->id;
	s->link = link;
	s->added = s->rested = pr_now_mono();
	pri_builder_composites(s->builder, &f->composites);
	begin(s, info);
	return s;
}

static int
look(struct pri_index_follower *f, struct pr_error *err)
{
	struct sfs *sfs = f->volume->sfs;
	struct sfs_volume_info whole;
	struct sfs_stream_info info;
	struct sfs_deleted hole;
	uint16_t link;

	if (sfs_refresh(sfs, err) < 0 || sfs_info(sfs, &whole, err) < 0)
		return -1;
	for (size_t i = 0; i < whole.stream_count; i++) {
		if (sfs_stream_info(sfs, i, &info, err) < 0)
			return -1;
		if (!pri_stream_is_link(info.name, &link))
			continue;
		struct stream *s = find_or_add(f, &info, link, err);
		if (!s)
			return -1;
		/* the volume was reset, or what a killed logger had not made durable is gone: sequences are used again */
		if (info.last_sequence < s->last ||
			(s->last && whole.writers != f->writers)) {
			sfs_cursor_close(&s->cursor);
			s->waiting.length = s->unsummarized_count = 0;
			s->unknown = 0;
			f->restarts++;
			begin(s, &info);
		}
		s->last = info.last_sequence;
		s->first = info.first_sequence ? info.first_sequence : 1;
		pri_follower_expire(s);
		s->next = PR_MAX(s->next, info.first_sequence);
		/* skips deleted ranges: they have nothing to index */
		while (sfs_stream_deleted(sfs, s->id, s->next, &hole) &&
			hole.first <= s->next)
			s->next = hole.last + 1;
	}
	f->writers = whole.writers;
	return 0;
}

/* ---- following ---- */

/*
 * Offers again what the sink could not take. Finishes a record to which nothing was added
 * for a while.
 */
static int
finish_idle(struct stream *s, struct pr_error *err)
{
	int64_t now = pr_now_mono();
	const struct pri_series_ledger *known = NULL;
	struct pr_summary_span tail[2];
	int rc = 0;

	if (!pri_builder_offer(s->builder))
		return 0;
	size_t tails = pri_builder_tail(s->builder, tail);
	if (tails && s->next > s->last)
		known = pri_ledger_view_find(
			&s->feed->volume->ledger, tail[0].epoch, tail[0].link);
	if (known && known->have_mark && known->mark.link.ended) {
		/* all of the series is indexed, and nothing more will follow */
		rc = pri_builder_finish(s->builder, PRI_BUILDER_SUMMARY, err);
	} else if (now - s->rested > IDLE_NS) {
		s->rested = now;
		if (tails && now - s->added > IDLE_SUMMARY_NS)
			rc = pri_builder_finish(s->builder, PRI_BUILDER_SUMMARY, err);
		else if (pri_builder_figures(s->builder)->open)
			rc = pri_builder_finish(s->builder, PRI_BUILDER_BATCH_ONLY, err);
	}
	return rc < 0 ? -1 : 0;
}

int
pri_follower_step(struct pri_index_follower *f, int64_t deadline, struct pr_error *err)
{
	bool more = true;

	if (look(f, err) < 0)
		return -1;
	while (more && pr_now_mono() < deadline) {
		more = false;
		for (size_t i = 0; i < f->count; i++) {
			int rc = pri_follower_advance(f->streams[i], deadline, err);

			if (rc < 0 || finish_idle(f->streams[i], err) < 0)
				return -1;
			more |= rc > 0;
		}
	}
	return more;
}

int
pri_follower_finish(struct pri_index_follower *f, bool all, struct pr_error *err)
{
	int done = 1;

	for (size_t i = 0; i < f->count; i++) {
		int rc = pri_builder_finish(f->streams[i]->builder,
			all ? PRI_BUILDER_ALL : PRI_BUILDER_SUMMARY, err);

		if (rc < 0)
			return -1;
		done &= rc;
	}
	return done;
}

void
pri_follower_stats(const struct pri_index_follower *f, struct pri_follower_stats *out)
{
	*out = (struct pri_follower_stats){0};
	for (size_t i = 0; i < f->count; i++) {
		const struct stream *s = f->streams[i];
		const struct pri_builder_figures *by = pri_builder_figures(s->builder);

		PR_ADD(out, by, segments, packets, damaged, index_bytes);
		out->behind += s->last >= s->next ? s->last - s->next + 1 : 0;
	}
}
