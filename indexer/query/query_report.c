/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/query/query_internal.h"
#include "proto/base/clock.h"

static bool
at_end(const struct pri_query *q)
{
	return !pr_heap_top(&q->heap);
}

/* The next packet's otime, known without reading it; a query cut by its limit ends where it is. */
static int64_t
frontier(const struct pri_query *q)
{
	const struct pri_run_reader *r = pr_heap_top(&q->heap);

	return r ? r->packet.otime : PR_TIME_MAX;
}

/* 8 KiB each: of many links only those under way should have one. */
static void
free_stretches(struct pri_query *q)
{
	for (size_t i = 0; i < q->line_count; i++) {
		free(q->lines[i].stretch);
		q->lines[i].stretch = NULL;
	}
}

int
pri_query_take_held(struct pri_query *q, struct pri_range_list *list, int64_t *out,
	struct pr_error *err)
{
	for (size_t i = 0; i < q->line_count; i++)
		if (q->lines[i].stretch &&
			pri_range_builder_end(q->lines[i].stretch, &q->held, err) < 0)
			return -1;
	free_stretches(q);
	*out = frontier(q);
	*list = q->held;
	q->held = (struct pri_range_list){0};
	return 0;
}

size_t
pri_query_held_bytes(const struct pri_query *q)
{
	return q->held.bytes + q->held.count * sizeof(struct pri_range);
}

static int
add_edge(struct pri_range_list *list, const struct pri_line *line, uint64_t seq,
	int64_t otime, struct pr_error *err)
{
	/* a stretch of one seq has no bits */
	struct pri_range_builder *one = calloc(1, sizeof(*one));
	int rc;

	if (!one)
		return pr_error_set(err, "no memory for the list of seqs held");
	one->epoch = line->run->epoch;
	one->link = line->run->link;
	rc = pri_range_builder_add(one, seq, otime, list, err);
	if (rc == 0)
		rc = pri_range_builder_end(one, list, err);
	free(one);
	return rc;
}

static int
line_edges(const struct pri_query *q, struct pri_line *line, struct pri_range_list *list,
	struct pr_error *err)
{
	const struct pri_run_bounds *b = &line->bounds;
	bool done = at_end(q);

	if ((line->passed || done) && !line->lower_given) {
		line->lower_given = true;
		if (b->lower_seq &&
			add_edge(list, line, b->lower_seq, b->lower_otime, err) < 0)
			return -1;
	}
	if (done && !line->upper_given) {
		line->upper_given = true;
		if (b->upper_seq)
			return add_edge(list, line, b->upper_seq, b->upper_otime, err);
	}
	return 0;
}

int
pri_query_take_edges(struct pri_query *q, struct pri_range_list *list, struct pr_error *err)
{
	for (size_t i = 0; i < q->line_count; i++)
		if (!q->lines[i].run->strays && line_edges(q, &q->lines[i], list, err) < 0)
			return -1;
	return 0;
}

static void
add_index_figures(Packrack__End *f, const struct pri_prune *prune)
{
	const struct pri_prune_stats *p = prune ? pri_prune_stats(prune) : NULL;

	if (!p)
		return;
	f->index_reads += p->reads;
	f->index_bytes += p->bytes;
	f->index_damaged += p->damaged;
}

const Packrack__End *
pri_query_stats(struct pri_query *q)
{
	Packrack__End *f = &q->figures;
	struct pri_volume_stats view;

	pri_volume_stats(q->view, &view);
	f->scanned_segments = q->lane_figures.scanned_segments;
	f->scanned_bytes = q->lane_figures.scanned_bytes;
	f->skipped_segments = q->lane_figures.skipped_segments + f->skipped_level2 +
			      f->skipped_level1 + f->skipped_linktype;
	f->index_reads = f->index_bytes = f->index_damaged = 0;
	add_index_figures(f, q->prune);
	add_index_figures(f, q->core_prune);
	f->corrupt_records = q->lane_figures.corrupt_records + view.corrupt_records;
	return f;
}

const struct pri_query_spec *
pri_query_spec(const struct pri_query *q)
{
	return &q->spec;
}

/* ---- evicted ---- */

struct evicted_list {
	struct pri_evicted *items;
	size_t count;
};

static int
add_evicted(struct evicted_list *list, const struct pri_evicted *e, struct pr_error *err)
{
	struct pri_evicted *items =
		realloc(list->items, (list->count + 1) * sizeof(*items));

	if (!items)
		return pr_error_set(err, "no memory for the list of what is evicted");
	list->items = items;
	list->items[list->count++] = *e;
	return 0;
}

/* The oldest segment of a stream, by sequence, is it of this run? Then what it lacks is evicted. */
static const struct pri_segment_entry *
first_entry(const struct pri_epoch_series *run)
{
	const struct pri_segment_entry *first = NULL, *e;

	for (size_t i = 0; i < run->run_count; i++) {
		e = pri_sorted_run_at(run->runs[i], run->runs[i]->base);
		if (e && (!first || e->sequence < first->sequence))
			first = e;
	}
	return first;
}

static bool
oldest_of_stream(const struct pri_query *q, const struct pri_epoch_series *run)
{
	const struct pri_catalog *catalog = &q->view->catalog;
	const struct pri_segment_entry *first = first_entry(run), *other;

	for (size_t i = 0; first && i < catalog->series_count; i++) {
		if (catalog->series[i]->stream != run->stream)
			continue;
		other = first_entry(catalog->series[i]);
		if (other && other->sequence < first->sequence)
			return false;
	}
	return first != NULL;
}

/*
 * How far a run is evicted: what was seen to go, now or while the query ran; and of what went unseen,
 * before this program started or before it was listed, the oldest run of a stream lacks all in front.
 */
static uint64_t
evicted_seq(const struct pri_query *q, const struct pri_line *line)
{
	const struct pri_epoch_series *run = line->run;
	uint64_t seq = run->evicted_seq;

	if (line->bounds.evicted_seq > seq)
		seq = line->bounds.evicted_seq;
	if (oldest_of_stream(q, run) && first_entry(run)->first_seq - 1 > seq)
		seq = first_entry(run)->first_seq - 1;
	return seq;
}

/* All of its stream has gone, with what was never listed: then the stream's time must do. */
static bool
stream_is_empty(const struct pri_query *q, const struct pri_epoch_series *run)
{
	struct sfs_stream_info info;

	return !first_entry(run) &&
	       sfs_stream_info(q->view->sfs, run->stream, &info, NULL) == SFS_OK &&
	       info.last_sequence == 0;
}

/* Sets until as low as is sure; false: nothing of the time range is evicted. */
static bool
bound_evicted(const struct pri_query *q, const struct pri_line *line, struct pri_evicted *e)
{
	const struct pri_epoch_series *run = line->run;

	if (line->bounds.evicted_seq) { /* under our hands: the stream's word may be older */
		e->until = line->bounds.evicted_otime;
		return e->until >= q->spec.since;
	}
	if (run->evicted_seq && run->evicted_otime < e->until &&
		!oldest_of_stream(q, run) && !stream_is_empty(q, run))
		e->until = run->evicted_otime;
	return e->until != PR_TIME_MIN && e->until >= q->spec.since;
}

static int
evicted_runs(const struct pri_query *q, struct evicted_list *list, struct pr_error *err)
{
	for (size_t i = 0; i < q->line_count; i++) {
		const struct pri_line *line = &q->lines[i];
		struct pri_evicted e = {.epoch = line->run->epoch,
			.since = PR_TIME_MIN,
			.link = line->run->link,
			.stream = line->run->stream,
			.until = pri_volume_evicted_until(q->view, line->run->stream),
			.overtaken = line->bounds.evicted_seq > 0};
		if (line->run->strays || !bound_evicted(q, line, &e))
			continue;
		if (!stream_is_empty(q, line->run))
			e.last_seq = evicted_seq(q, line);
		if ((e.last_seq || stream_is_empty(q, line->run)) &&
			add_evicted(list, &e, err) < 0)
			return -1;
	}
	return 0;
}

static bool
has_run(const struct pri_query *q, const struct pri_series_ledger *facts)
{
	for (size_t i = 0; i < q->line_count; i++) {
		const struct pri_epoch_series *run = q->lines[i].run;
		if (run->epoch == facts->epoch && run->link == facts->link)
			return true;
	}
	return false;
}

/* Links that the ledger still knows and of which all packets were recycled before we started. */
static int
evicted_facts(const struct pri_query *q, struct evicted_list *list, struct pr_error *err)
{
	const struct pri_ledger_view *book = &q->view->ledger;
	char name[32];

	for (size_t i = 0; i < book->count; i++) {
		const struct pri_series_ledger *f = book->series[i];
		struct pri_evicted e = {
			.epoch = f->epoch, .since = PR_TIME_MIN, .link = f->link};
		int stream;
		bool declared = f->have_mark && f->mark.link.last_seq;

		if ((!declared && !f->have_link) || !pri_query_selects(q, f) ||
			(declared && f->mark.link.last_otime < q->spec.since) ||
			has_run(q, f))
			continue;
		snprintf(name, sizeof(name), "packets.%u", f->link);
		stream = sfs_stream_find(q->view->sfs, name);
		if (stream < 0)
			continue;
		e.stream = (uint32_t)stream;
		e.until = pri_volume_evicted_until(q->view, e.stream);
		/* the link's last packets may have gone to other nodes: then its time must do */
		if (declared && e.until >= f->mark.link.last_otime)
			e.last_seq = f->mark.link.last_seq;
		if (e.until != PR_TIME_MIN && e.until >= q->spec.since &&
			add_evicted(list, &e, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- what was deleted from the midst ---- */

#define DELETED_MAX 100 /* of a stream: beyond, neighbours are put together */

static bool
concerns(const struct pri_query *q, uint32_t stream, unsigned link)
{
	const struct pri_ledger_view *book = &q->view->ledger;

	for (size_t i = 0; i < q->line_count; i++)
		if (q->lines[i].run->stream == stream)
			return true;
	for (size_t i = 0; i < book->count; i++)
		if (book->series[i]->link == link && pri_query_selects(q, book->series[i]))
			return true;
	return false;
}

static int
deleted_of(const struct pri_query *q, const struct pri_evicted *of,
	struct evicted_list *list, struct pr_error *err)
{
	struct sfs *sfs = q->view->sfs;
	struct sfs_deleted hole = {0};
	size_t count = 0;

	while (sfs_stream_deleted(sfs, (int)of->stream, hole.last + 1, &hole)) {
		struct pri_evicted e = *of;

		e.since = hole.min_time;
		e.until = hole.max_time;
		if (e.until < q->spec.since || e.since > q->spec.until)
			continue;
		if (count == DELETED_MAX && e.until > list->items[list->count - 1].until)
			list->items[list->count - 1].until = e.until;
		if (count < DELETED_MAX && (count++, add_evicted(list, &e, err)) < 0)
			return -1;
	}
	return 0;
}

static int
evicted_midst(const struct pri_query *q, struct evicted_list *list, struct pr_error *err)
{
	struct sfs *sfs = q->view->sfs;
	struct sfs_volume_info volume;
	struct sfs_stream_info info;
	unsigned link;

	if (sfs_info(sfs, &volume, err) != SFS_OK)
		return -1;
	for (size_t i = 0; volume.deletions > 0 && i < volume.stream_count; i++) {
		struct pri_evicted of = {.stream = (uint32_t)i,
			.overtaken = q->lane_figures.deleted_segments > 0};

		if (sfs_stream_info(sfs, i, &info, err) != SFS_OK)
			return -1;
		if (!info.deleted_records || sscanf(info.name, "packets.%u", &link) != 1 ||
			!concerns(q, of.stream, link))
			continue;
		of.link = (uint16_t)link;
		if (deleted_of(q, &of, list, err) < 0)
			return -1;
	}
	return 0;
}

int
pri_query_evicted(const struct pri_query *q, struct pri_evicted **out, size_t *count,
	struct pr_error *err)
{
	struct evicted_list list = {0};

	if (evicted_runs(q, &list, err) < 0 || evicted_facts(q, &list, err) < 0 ||
		evicted_midst(q, &list, err) < 0) {
		free(list.items);
		return -1;
	}
	*out = list.items;
	*count = list.count;
	return 0;
}
