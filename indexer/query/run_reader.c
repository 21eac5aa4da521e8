/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/run_reader.h"

#include <stdlib.h>

static bool
overlaps(int64_t first, int64_t last, const struct pri_run_bounds *b)
{
	return last >= b->since && first <= b->until;
}

bool
pri_entry_wanted(const struct pri_segment_entry *e, const struct pri_run_bounds *b)
{
	return !e->deleted && (overlaps(e->min_time, e->max_time, b) ||
				      overlaps(e->first_otime, e->last_otime, b));
}

static void
note_lower(struct pri_run_bounds *b, uint64_t seq, int64_t otime)
{
	if (seq > b->lower_seq) {
		b->lower_seq = seq;
		b->lower_otime = otime;
	}
}

static void
note_upper(struct pri_run_bounds *b, uint64_t seq, int64_t otime)
{
	if (!b->upper_seq || seq < b->upper_seq) {
		b->upper_seq = seq;
		b->upper_otime = otime;
	}
}

static void
note_evicted(struct pri_run_bounds *b, uint64_t seq, int64_t otime)
{
	if (seq > b->evicted_seq) {
		b->evicted_seq = seq;
		b->evicted_otime = otime;
	}
}

/* Nothing from this entry on can have a true time before until: stamps lie at most so far back. */
static bool
beyond(const struct pri_sorted_run *lane, const struct pri_segment_entry *e, int64_t until)
{
	int64_t earliest;

	if (__builtin_sub_overflow(e->first_otime, lane->most_back, &earliest))
		return false;
	return earliest > until;
}

/* The entries may have been recycled since: what is left of the lane begins at its base. */
static void
skip_expired(struct pri_run_reader *r, struct pri_run_bounds *b)
{
	if (r->next >= r->lane->base)
		return;
	note_evicted(b, r->run->evicted_seq, r->run->evicted_otime);
	r->next = r->lane->base;
}

static bool
find_entry(struct pri_run_reader *r, struct pri_run_bounds *b, struct pri_run_stats *f)
{
	const struct pri_segment_entry *e;

	r->open = r->chosen = r->leaping = false;
	r->done = true;
	for (skip_expired(r, b); r->next < r->end; r->next++) {
		e = pri_sorted_run_at(r->lane, r->next);
		if (!e)
			return false;
		if (e->first_otime > b->until)
			note_upper(b, e->first_seq, e->first_otime);
		if (beyond(r->lane, e, b->until))
			return false;
		if (pri_entry_wanted(e, b)) {
			r->entry = *e;
			r->next++;
			r->done = false;
			r->packet = (struct pr_packet){.otime = e->first_otime,
				.epoch = r->run->epoch,
				.link = r->run->link,
				.seq = e->first_seq};
			return true;
		}
		f->skipped_segments++;
	}
	return false;
}

bool
pri_run_reader_start(struct pri_run_reader *r, struct pri_epoch_series *run,
	const struct pri_sorted_run *lane, struct pri_run_bounds *b,
	struct pri_run_stats *f)
{
	const struct pri_segment_entry *before;

	r->run = run;
	r->lane = lane;
	r->end = pri_sorted_run_end(lane);
	r->next = pri_sorted_run_search(lane, b->since);
	before = pri_sorted_run_at(lane, r->next - 1);
	if (before)
		note_lower(b, pri_entry_last_seq(before), before->last_otime);
	f->skipped_segments += r->next - lane->base;
	return find_entry(r, b, f);
}

void
pri_run_reader_free(struct pri_run_reader *r)
{
	free(r->buffer.bytes);
	pri_matches_free(&r->matches);
	r->buffer = (struct pri_read_buffer){0};
}

void
pri_run_reader_give(struct pri_run_reader *r, struct pri_read_buffer *spare)
{
	if (!r->buffer.bytes)
		return;
	free(spare->bytes);
	*spare = r->buffer;
	r->buffer = (struct pri_read_buffer){0};
}

void
pri_run_reader_take(struct pri_run_reader *r, struct pri_read_buffer *spare)
{
	if (r->buffer.bytes)
		return;
	r->buffer = *spare;
	*spare = (struct pri_read_buffer){0};
}

/* Is it what the catalog says it is? Handles are proof enough, but a lane must stay in order. */
static bool
fits(const struct pri_run_reader *r)
{
	const struct pr_segment_header *h = &r->reader.header;

	return h->epoch == r->run->epoch && h->link == r->run->link &&
	       h->first_seq == r->entry.first_seq &&
	       h->first_otime == r->entry.first_otime && !(h->flags & PR_SEGMENT_MIXED);
}

static bool
read_entry(struct pri_run_reader *r, struct pri_volume *view, struct pri_run_bounds *b,
	struct pri_run_stats *f)
{
	int rc = r->ready ? SFS_OK
			  : pri_volume_read_record(
				    view, &r->entry.handle, &r->buffer, &r->body, NULL);

	r->ready = r->distrusted = false;
	if (rc == SFS_DELETED) {
		f->deleted_segments++;
		return false;
	}
	if (rc == SFS_EXPIRED) {
		note_evicted(b, pri_entry_last_seq(&r->entry), r->entry.last_otime);
		return false;
	}
	if (rc == SFS_OK &&
		pr_segment_open(&r->reader, r->body, r->entry.handle.length, NULL) == 0 &&
		fits(r) && pr_segment_next(&r->reader, &r->packet, NULL) == 1 &&
		r->packet.otime == r->entry.first_otime) {
		f->scanned_segments++;
		f->scanned_bytes += r->entry.handle.length;
		return true;
	}
	f->corrupt_records++;
	return false;
}

bool
pri_run_reader_open(struct pri_run_reader *r, struct pri_volume *view,
	struct pri_run_bounds *b, struct pri_run_stats *f)
{
	r->open = read_entry(r, view, b, f);
	return r->open || find_entry(r, b, f);
}

/* Before the next packet that matches; false: there is none. */
static bool
leap(struct pri_run_reader *r)
{
	if (r->leaps == r->matches.count)
		return false;
	r->reader = r->matches.places[r->leaps++];
	return true;
}

bool
pri_run_reader_leap(
	struct pri_run_reader *r, struct pri_run_bounds *b, struct pri_run_stats *f)
{
	r->leaping = true;
	r->leaps = 0;
	if (!leap(r))
		return find_entry(r, b, f);
	return pr_segment_next(&r->reader, &r->packet, NULL) == 1 || find_entry(r, b, f);
}

bool
pri_run_reader_next(
	struct pri_run_reader *r, struct pri_run_bounds *b, struct pri_run_stats *f)
{
	struct pr_packet last = r->packet;
	int rc;

	if (r->leaping && !leap(r))
		return find_entry(r, b, f);
	rc = pr_segment_next(&r->reader, &r->packet, NULL);

	if (rc == 1 && pr_packet_compare(&r->packet, &last) > 0)
		return true;
	if (rc != 0) /* damaged, or out of order: the rest of it is not to be trusted */
		f->corrupt_records++;
	return find_entry(r, b, f);
}

/* ---- whole segments ---- */

bool
pri_run_reader_untouched(const struct pri_run_reader *r, const struct pri_run_bounds *b)
{
	const struct pr_segment_header *h = &r->reader.header;

	return r->open && r->reader.left == h->count - 1 && !r->distrusted &&
	       h->min_time >= b->since && h->max_time <= b->until &&
	       h->first_otime >= b->since && h->last_otime <= b->until;
}

static bool
within(const struct pr_packet *p, const struct pri_run_bounds *b)
{
	return p->time >= b->since && p->time <= b->until && p->otime >= b->since &&
	       p->otime <= b->until;
}

bool
pri_run_reader_prove(const struct pri_run_reader *r, const struct pri_run_bounds *b,
	struct pr_packet *last)
{
	struct pr_segment_reader reader = r->reader;
	struct pr_packet p;
	int rc;

	*last = r->packet;
	if (!within(last, b))
		return false;
	while ((rc = pr_segment_next(&reader, &p, NULL)) == 1) {
		/* seqs grow, which the reader has seen to */
		if (p.otime < last->otime || !within(&p, b))
			return false;
		*last = p;
	}
	return rc == 0 && last->otime == r->reader.header.last_otime;
}

bool
pri_entry_inside(const struct pri_segment_entry *e, const struct pri_run_bounds *b)
{
	return e->min_time >= b->since && e->max_time <= b->until &&
	       e->first_otime >= b->since && e->last_otime <= b->until;
}

bool
pri_run_reader_inside(const struct pri_run_reader *r, const struct pri_run_bounds *b)
{
	return pri_entry_inside(&r->entry, b);
}

bool
pri_run_reader_pass(
	struct pri_run_reader *r, struct pri_run_bounds *b, struct pri_run_stats *f)
{
	return find_entry(r, b, f);
}

bool
pri_run_reader_less(const void *va, const void *vb)
{
	const struct pri_run_reader *a = va, *b = vb;
	int order;

	if (a->packet.otime != b->packet.otime)
		return a->packet.otime < b->packet.otime;
	order = pr_packet_compare(&a->packet, &b->packet);
	if (order == 0)
		order = (a->packet.flags & PR_PACKET_SECOND) -
			(b->packet.flags & PR_PACKET_SECOND);
	return order < 0;
}
