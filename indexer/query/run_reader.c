/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/run_reader.h"

/* Sections: entries, reading ahead, segments, as a source. */

/* ---- entries ---- */

static bool
overlaps(int64_t first, int64_t last, const struct pri_run_bounds *b)
{
	return last >= b->since && first <= b->until;
}

/*
 * True if a packet of the segment may match by its time, or its seqs belong to the range by
 * otime and must be accounted for.
 */
static bool
is_wanted(const struct pri_segment_entry *e, const struct pri_run_bounds *b)
{
	return !e->deleted && (overlaps(e->min_time, e->max_time, b) ||
				      overlaps(e->first_otime, e->last_otime, b));
}

bool
pri_entry_inside(const struct pri_segment_entry *e, const struct pri_run_bounds *b)
{
	return e->min_time >= b->since && e->max_time <= b->until &&
	       e->first_otime >= b->since && e->last_otime <= b->until;
}

static void
note_evicted(struct pri_run_bounds *b, int64_t until)
{
	b->evicted_until = PR_MAX(b->evicted_until, until);
}

/* Moves to the next entry that can matter. False: there is none. */
static bool
next_entry(struct pri_run_reader *r)
{
	struct pri_run_bounds *b = r->bounds;
	const struct pri_segment_entry *e;
	int64_t earliest;

	/* its packets are no longer used: keep the buffer for the next segment */
	if (r->buffer.bytes) {
		free(r->context->spare.bytes);
		r->context->spare = r->buffer;
		r->buffer = (struct pri_read_buffer){0};
	}
	r->state = PRI_RUN_DONE;
	if (r->next < r->run->base) { /* overwritten meanwhile */
		note_evicted(
			b, pri_volume_evicted_until(r->context->volume, r->series->stream));
		r->next = r->run->base;
	}
	while (r->next < r->end && (e = pri_sorted_run_at(r->run, r->next))) {
		if (e->first_otime > b->until &&
			(!b->upper.seq || e->first_seq < b->upper.seq))
			b->upper = (struct pri_seq_time){e->first_seq, e->first_otime};
		/*
		 * past the range: a packet's time is at most most_back before its otime, so
		 * all times are later than until
		 */
		if (!__builtin_sub_overflow(e->first_otime, r->run->most_back, &earliest) &&
			earliest > b->until)
			return false;
		r->next++;
		if (is_wanted(e, b)) {
			r->entry = *e;
			r->state = PRI_RUN_WAITING;
			r->packet = (struct pr_packet){.otime = e->first_otime,
				.epoch = r->series->epoch,
				.link = r->series->link,
				.seq = e->first_seq};
			return true;
		}
		r->context->stats->skipped_segments++;
	}
	return false;
}

/*
 * Decides before their turn which of the next segments must be read, so that other threads
 * can read and filter them (scans.h). The index is asked about each segment once. A
 * decision does not change what the query does with the segment, only which thread reads
 * it.
 */

#define DECIDED_MAX 64 /* segments of a run; two thirds of a millisecond */
/* Segments for which the index is read from disk at one time: the query waits for it. */
#define IO_MAX 4

struct decision {
	uint64_t number; /* of the run's entry */
	enum pri_prune_verdict verdict;
	struct pri_held_walk held;
	uint8_t *own; /* what held walks over */
	struct pri_scan *scan; /* or NULL */
};

struct pri_run_ahead {
	struct decision at[DECIDED_MAX];
	unsigned head, count;
	uint64_t next; /* number to go on at */
};

static void
pop_decision(struct pri_run_reader *r)
{
	struct pri_run_ahead *a = r->ahead;
	struct decision *d = &a->at[a->head];

	if (d->scan)
		pri_scan_drop(r->context->scans, d->scan);
	free(d->own);
	a->head = (a->head + 1) % DECIDED_MAX;
	a->count--;
}

/* The decision about the segment that waits, or NULL; those about segments before it are dropped. */
static struct decision *
current_decision(struct pri_run_reader *r)
{
	struct pri_run_ahead *a = r->ahead;
	uint64_t number = r->next - 1;

	while (a && a->count && a->at[a->head].number < number)
		pop_decision(r);
	return a && a->count && a->at[a->head].number == number ? &a->at[a->head] : NULL;
}

enum pri_prune_verdict
pri_run_reader_ask(struct pri_run_reader *r, struct pri_held_walk *held, bool *did_io)
{
	const struct decision *d = current_decision(r);

	*did_io = false;
	if (!d)
		return pri_prune_ask(
			r->context->prune, r->series->link, &r->entry, held, did_io);
	*held = d->held;
	return d->verdict;
}

/* Decides about one more entry. False: enough is decided for now. */
static bool
decide(struct pri_run_reader *r, const struct pri_segment_entry *e, unsigned *ios)
{
	struct pri_run_context *c = r->context;
	struct pri_run_ahead *a = r->ahead;
	struct decision *d = &a->at[(a->head + a->count) % DECIDED_MAX];
	struct sfs_plan plan;
	bool did_io = false;

	*d = (struct decision){.number = a->next, .verdict = PRI_PRUNE_READ};
	if (pri_entry_inside(e, r->bounds))
		d->verdict = pri_prune_ask(c->prune, r->series->link, e, &d->held, &did_io);
	/*
	 * the bytes under `held` are valid only until the index is asked again: copy them
	 */
	size_t len = d->held.end - d->held.at;
	if (d->verdict != PRI_PRUNE_READ && d->held.form != PRI_HELD_ALL && len) {
		d->own = malloc(len);
		if (!d->own)
			return false;
		memcpy(d->own, d->held.at, len);
		d->held.at = d->own;
		d->held.end = d->own + len;
	}
	a->next++;
	a->count++;
	*ios += did_io;
	if (d->verdict == PRI_PRUNE_READ) {
		if (sfs_read_plan(c->volume->sfs, &e->handle, &plan) == 1)
			d->scan = pri_scans_begin(c->scans, &plan, &e->handle);
		if (!d->scan) /* the query will read it itself */
			return false;
	}
	return *ios < IO_MAX;
}

static void
look_ahead(struct pri_run_reader *r)
{
	struct pri_run_context *c = r->context;
	unsigned ios = 0;

	if (!c->ahead || r->series->strays)
		return;
	if (!c->scans)
		c->scans = pri_scans_create(c->programs);
	if (c->scans && !r->ahead)
		r->ahead = calloc(1, sizeof *r->ahead);
	struct pri_run_ahead *a = r->ahead;
	if (!c->scans || !a)
		return;
	/* few segments at first: they may be all that is wanted */
	c->window = c->window < PRI_SCANS_AHEAD / 2 ? c->window * 2 + 1 : PRI_SCANS_AHEAD;
	a->next = PR_MAX(a->next, r->next);
	while (a->next < r->end && a->count < DECIDED_MAX &&
		pri_scans_free(c->scans) > PRI_SCANS_AHEAD - c->window) {
		const struct pri_segment_entry *e = pri_sorted_run_at(r->run, a->next);

		if (!e || e->first_otime > r->bounds->until)
			return;
		if (!is_wanted(e, r->bounds))
			a->next++;
		else if (!decide(r, e, &ios))
			return;
	}
}

/* ---- segments ---- */

/* Only what lies before a stream's oldest record was overwritten. */
static bool
was_overwritten(const struct pri_run_reader *r)
{
	struct sfs_stream_info info;

	return sfs_stream_info(r->context->volume->sfs, r->series->stream, &info, NULL) !=
		       SFS_OK ||
	       r->entry.sequence <= info.recycled_records;
}

#define DAMAGED_MAX 20000 /* the surplus is only counted: then nobody knows its seqs */

static void
note_damaged(struct pri_run_reader *r, enum pr_loss_reason reason)
{
	struct pri_run_context *c = r->context;
	const struct pri_segment_entry *e = &r->entry;

	c->stats->corrupt_records++;
	if (r->series->strays || c->damaged_count >= DAMAGED_MAX ||
		PR_ARRAY_GROW(c->damaged, c->damaged_count) < 0)
		return;
	c->damaged[c->damaged_count++] = (struct pr_loss){.epoch = r->series->epoch,
		.link = r->series->link,
		.first_seq = e->first_seq,
		.last_seq = pri_entry_last_seq(e),
		.count = e->count,
		.first_time = e->first_otime,
		.last_time = e->last_otime,
		.reason = reason};
}

/* Opens the segment. scanned: its body was read already. */
static bool
read_segment(struct pri_run_reader *r, bool scanned)
{
	struct pri_run_context *c = r->context;
	const struct pri_segment_entry *e = &r->entry;
	const struct pr_segment_header *h = &r->reader.header;
	int rc = scanned ? SFS_OK
			 : pri_volume_read_record(
				   c->volume, &e->handle, &r->buffer, &r->body);

	/*
	 * the handle proves the record; check also that it agrees with the catalog, since
	 * the run must stay in order
	 */
	if (rc == SFS_OK &&
		pr_segment_open(&r->reader, r->body, e->handle.length, NULL) == 0 &&
		h->epoch == r->series->epoch && h->link == r->series->link &&
		h->first_seq == e->first_seq && h->first_otime == e->first_otime &&
		!(h->flags & PR_SEGMENT_MIXED) &&
		pr_segment_next(&r->reader, &r->packet, NULL) == 1 &&
		r->packet.otime == e->first_otime) {
		c->stats->scanned_segments++;
		c->stats->scanned_bytes += e->handle.length;
		return true;
	}
	if (rc == SFS_DELETED)
		c->deleted_segments++;
	else if (rc == SFS_EXPIRED && was_overwritten(r))
		note_evicted(r->bounds, e->last_otime);
	else
		note_damaged(r, rc == SFS_EXPIRED ? PR_LOSS_UNSAVED : PR_LOSS_UNREADABLE);
	return false;
}

/*
 * True if all matching packets are known, and the segment has no holes and agrees with the
 * catalog.
 */
static bool
can_skip(const struct pri_run_reader *r, int64_t skip_max)
{
	const struct pr_segment_header *h = &r->reader.header;
	const struct pri_segment_entry *e = &r->entry;

	return r->matches.sound && r->matches.count <= skip_max &&
	       e->count == (uint64_t)e->seq_span + 1 && h->count == e->count &&
	       r->matches.last_seq == pri_entry_last_seq(e) &&
	       h->last_otime == e->last_otime && h->min_time == e->min_time &&
	       h->max_time == e->max_time && pri_entry_inside(e, r->bounds);
}

/* Loads the next packet that matches; false: there is none. */
static bool
next_match(struct pri_run_reader *r)
{
	if (r->skips == r->matches.count)
		return false;
	r->reader = r->matches.places[r->skips++];
	return pr_segment_next(&r->reader, &r->packet, NULL) == 1;
}

bool
pri_run_reader_ready(struct pri_run_reader *r)
{
	const struct decision *d = current_decision(r);

	return !d || !d->scan || pri_scan_ready(d->scan);
}

bool
pri_run_reader_open(struct pri_run_reader *r, int64_t skip_max)
{
	struct pri_run_context *c = r->context;
	struct decision *d = current_decision(r);
	struct pri_scan *scan = d ? d->scan : NULL;

	if (d)
		d->scan = NULL; /* the scan is used up, even if it failed */
	if (!r->buffer.bytes) {
		r->buffer = c->spare;
		c->spare = (struct pri_read_buffer){0};
	}
	bool scanned =
		scan && pri_scan_take(c->scans, scan, &r->buffer, &r->body, &r->matches);
	if (!scanned) {
		r->matches.judged = 0;
		r->matches.sound = false;
	}
	look_ahead(r);
	r->not_whole = r->skipping = false;
	r->state = read_segment(r, scanned) ? PRI_RUN_OPENED : PRI_RUN_WAITING;
	if (r->state == PRI_RUN_WAITING || !can_skip(r, skip_max))
		return false;
	r->skipping = true;
	r->skips = 0;
	if (!next_match(r))
		r->state = PRI_RUN_WAITING;
	return true;
}

enum pri_match
pri_run_reader_match(const struct pri_run_reader *r)
{
	uint32_t index = r->reader.header.count - r->reader.left - 1;

	if (index >= r->matches.judged)
		return PRI_MATCH_UNKNOWN;
	return r->matches.bits[index / 8] >> index % 8 & 1 ? PRI_MATCH_YES : PRI_MATCH_NO;
}

bool
pri_run_reader_untouched(const struct pri_run_reader *r)
{
	const struct pr_segment_header *h = &r->reader.header;

	return r->state == PRI_RUN_OPEN && !r->skipping && !r->not_whole &&
	       r->reader.left == h->count - 1 && h->min_time >= r->bounds->since &&
	       h->max_time <= r->bounds->until && h->first_otime >= r->bounds->since &&
	       h->last_otime <= r->bounds->until;
}

bool
pri_run_reader_verify(const struct pri_run_reader *r, struct pr_segment_walk *walk,
	struct pr_packet *last)
{
	const struct pri_run_bounds *b = r->bounds;
	const struct pr_segment_header *h = &r->reader.header;
	struct pr_segment_reader from_start;
	struct pr_segment_step p = {0};
	int rc;

	*last = r->packet;
	if (pr_segment_open(&from_start, r->body, r->entry.handle.length, NULL) < 0)
		return false;
	pr_segment_walk_begin(walk, &from_start);
	struct pr_segment_walk w = *walk;
	while ((rc = pr_segment_walk_next(&w, &p)) == 1) {
		/* the walk has checked that seqs grow */
		if (p.otime < last->otime || p.otime > b->until || p.time < b->since ||
			p.time > b->until)
			return false;
		last->otime = p.otime;
	}
	last->seq = h->first_seq + p.seq;
	return rc == 0 && r->packet.otime >= b->since && last->otime == h->last_otime;
}

/* ---- as a source ---- */

static int
source_next(struct pr_source *source, struct pr_packet *out, PR_UNUSED struct pr_error *err)
{
	struct pri_run_reader *r = (struct pri_run_reader *)source;
	int64_t otime = r->packet.otime;
	bool more = true;

	if (r->state == PRI_RUN_OPENED) {
		r->state = PRI_RUN_OPEN;
	} else if (r->state != PRI_RUN_OPEN) {
		more = next_entry(r);
	} else if (r->skipping) {
		more = next_match(r) || next_entry(r);
	} else {
		int rc = pr_segment_next(&r->reader, &r->packet, NULL);
		if (rc != 1 || r->packet.otime < otime) {
			/* damaged, or out of order: do not use the rest of the segment */
			r->context->stats->corrupt_records += rc != 0;
			more = next_entry(r);
		}
	}
	*out = r->packet;
	return more ? PR_SOURCE_PACKET : PR_SOURCE_END;
}

void
pri_run_reader_start(struct pri_run_reader *r, struct pri_run_context *context,
	const struct pri_epoch_series *series, const struct pri_sorted_run *run,
	struct pri_run_bounds *b)
{
	r->source.next = source_next;
	r->context = context;
	r->series = series;
	r->run = run;
	r->bounds = b;
	r->end = pri_sorted_run_end(run);
	r->next = pri_sorted_run_search(run, b->since);
	const struct pri_segment_entry *before = pri_sorted_run_at(run, r->next - 1);
	if (before && pri_entry_last_seq(before) > b->lower.seq)
		b->lower = (struct pri_seq_time){
			pri_entry_last_seq(before), before->last_otime};
	context->stats->skipped_segments += r->next - run->base;
}

void
pri_run_reader_free(struct pri_run_reader *r)
{
	while (r->ahead && r->ahead->count)
		pop_decision(r);
	PR_FREE(r, ahead, buffer.bytes);
	pri_matches_free(&r->matches);
}
