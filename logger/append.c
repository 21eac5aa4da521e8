/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logger/append_state.h"
#include "proto/base/clock.h"
#include "proto/wire/segment_inline.h"

#define RETRY_NS (100 * PR_NS_PER_MS)
/* These parts of the volume are kept for what speaks of the data, so that it outlives it. */
#define LEDGER_SHARE 50
#define SEGMENTS_SHARE 200
#define SUMMARIES_SHARE 800
/*
 * A segment that is this part full is sealed at this part of its age: on a fast link a packet is found soon,
 * and on a slow one segments do not become many. Where ticks are far apart, it is sealed at the next.
 */
#define SOON_FULL 4
#define SOON_AGE(age) ((age) / 5 * 2)

struct prl_append *
prl_append_create(
	struct sfs *sfs, const struct prl_append_options *options, struct pr_error *err)
{
	struct prl_append *a = calloc(1, sizeof(*a));

	if (!a) {
		pr_error_set(err, "no memory for writing");
		return NULL;
	}
	a->sfs = sfs;
	a->o = *options;
	if (a->o.segment_age <= 0)
		a->o.segment_age = PRL_SEGMENT_AGE_DEFAULT;
	a->room = sfs_record_max(sfs);
	/* Four to a block: a quarter left over in each would be a quarter of the disk. */
	a->target = a->room / 4 > 256 ? a->room / 4 - 128 : a->room;
	if (a->target > PR_SEGMENT_TARGET)
		a->target = PR_SEGMENT_TARGET;
	a->ledger = prl_journal_create(sfs, "ledger", LEDGER_SHARE, err);
	if (a->ledger)
		a->segments = prl_directory_journal_create(
			sfs, "segments", SEGMENTS_SHARE, a->o.unhurried, err);
	if (a->segments)
		a->summaries = prl_directory_journal_create(
			sfs, "summaries", SUMMARIES_SHARE, a->o.unhurried, err);
	if (a->summaries)
		a->indexes = prl_indexes_create(sfs, a->segments, a->summaries, err);
	if (a->indexes)
		a->marks = prl_marks_create(err);
	if (!a->marks)
		prl_append_destroy(&a);
	return a;
}

void
prl_append_destroy(struct prl_append **append)
{
	struct prl_append *a = *append;

	if (!a)
		return;
	for (size_t i = 0; i < a->out_count; i++) {
		free(a->outs[i]->buf);
		free(a->outs[i]);
	}
	prl_indexes_destroy(&a->indexes);
	prl_journal_destroy(&a->ledger);
	prl_directory_journal_destroy(&a->segments);
	prl_directory_journal_destroy(&a->summaries);
	prl_marks_destroy(&a->marks);
	free(a->told);
	free(a);
	*append = NULL;
}

void
prl_append_suspend(struct prl_append *a, const struct pr_error *why)
{
	pr_count(&a->counters.write_errors, 1);
	a->suspended = true;
	a->why = *why;
	a->retry_at = pr_now_mono() + RETRY_NS;
}

static struct out *
out_create(struct prl_append *a, uint16_t link, struct pr_error *err)
{
	char name[SFS_NAME_MAX + 1] = "strays";
	struct out *o;

	if (a->out_count == LINKS_MAX) {
		pr_error_set(err, "more than %d links", LINKS_MAX);
		return NULL;
	}
	o = calloc(1, sizeof(*o));
	if (!o || !(o->buf = malloc(a->room))) {
		free(o);
		pr_error_set(err, "no memory for link %u", link);
		return NULL;
	}
	if (link != PRL_STRAY_LINK)
		snprintf(name, sizeof(name), "packets.%u", link);
	o->link = link;
	o->stream = sfs_stream_open(a->sfs, name, 0, 0, err);
	if (o->stream < 0) {
		free(o->buf);
		free(o);
		return NULL;
	}
	a->outs[a->out_count++] = o;
	return o;
}

static struct out *
out_new(struct prl_append *a, uint16_t link)
{
	struct pr_error err = {0};
	struct out *o = out_create(a, link, &err);

	if (!o)
		prl_append_suspend(a, &err);
	return o;
}

static inline struct out *
out_of(struct prl_append *a, uint16_t link)
{
	for (size_t i = 0; i < a->out_count; i++) {
		if (a->outs[i]->link == link)
			return a->outs[i];
	}
	return out_new(a, link);
}

static void
point_add(struct prl_append *a, struct out *o)
{
	if (o->point_count == DURABLE_POINTS) { /* reported later, with the next one */
		o->point_first++;
		o->point_count--;
	}
	o->points[(o->point_first + o->point_count++) % DURABLE_POINTS] =
		(struct point){sfs_appended(a->sfs, o->stream), o->packets};
}

int
prl_append_seal(struct prl_append *a, struct out *o)
{
	const struct pr_segment_header *h = &o->b.header;
	struct sfs_handle handle;
	struct pr_error err = {0};

	if (!o->sealed && o->b.buf)
		o->sealed = pr_segment_seal(&o->b);
	if (!o->sealed)
		return 0;
	if (sfs_append(a->sfs, o->stream, h->min_time, h->max_time, o->buf, o->sealed,
		    &handle, &err) != SFS_OK) {
		prl_append_suspend(a, &err);
		return -1;
	}
	pr_count(&a->counters.segments_stored, 1);
	if (o->link != PRL_STRAY_LINK) {
		point_add(a, o);
		prl_append_directory(a, o, &handle);
	}
	o->sealed = 0;
	o->b.buf = NULL;
	return 0;
}

static void
lost_flush(struct prl_append *a, struct out *o)
{
	if (o->lost.count)
		prl_append_loss(a, &o->lost);
	o->lost.count = 0;
}

static int
lose(struct prl_append *a, struct out *o, const struct pr_packet *p)
{
	bool second = (p->flags & PR_PACKET_SECOND) != 0;
	struct pr_loss *lost = &o->lost;

	pr_count(&a->counters.lost_write, 1);
	if (lost->count && (lost->epoch != p->epoch || (lost->second != 0) != second))
		lost_flush(a, o);
	if (!lost->count)
		*lost = (struct pr_loss){
			.epoch = p->epoch,
			.link = p->link,
			.first_seq = p->seq,
			.first_time = p->otime,
			.reason = PR_LOSS_WRITE,
			.second = second,
		};
	lost->count++;
	lost->last_seq = p->seq;
	lost->last_time = p->otime;
	return -1;
}

static inline bool
fits(const struct prl_append *a, const struct out *o, const struct pr_packet *p)
{
	return o->b.buf && !o->sealed && o->b.header.linktype == p->linktype &&
	       o->b.used + pr_segment_cost(p->caplen) <= a->target;
}

/* Into the next segment. */
static int
out_add(struct prl_append *a, struct out *o, const struct pr_packet *p)
{
	if (o->b.buf && prl_append_seal(a, o))
		return lose(a, o, p);
	pr_segment_begin(&o->b, o->buf, a->room, 0);
	o->began = pr_now_mono();
	if (!pr_segment_add(&o->b, p)) { /* longer than a block */
		o->b.buf = NULL;
		return lose(a, o, p);
	}
	return 0;
}

static inline int
out_packet(struct prl_append *a, struct out *o, const struct pr_packet *p)
{
	return fits(a, o, p) && pr_segment_add_here(&o->b, p) ? 0 : out_add(a, o, p);
}

size_t
prl_append_packets(struct prl_append *a, const struct pr_packet *p, size_t count)
{
	struct out *o = out_of(a, p->link);
	uint64_t bytes = 0;
	size_t lost = 0;

	if (!o) {
		pr_count(&a->counters.lost_write, count);
		return count;
	}
	for (size_t i = 0; i < count; i++) {
		if (out_packet(a, o, &p[i])) {
			lost++;
			continue;
		}
		if (o->lost.count)
			lost_flush(a, o);
		o->packets++;
		bytes += p[i].caplen;
	}
	pr_count(&a->counters.packets_stored, count - lost);
	pr_count(&a->counters.bytes_stored, bytes);
	return lost;
}

int
prl_append_stray(struct prl_append *a, const struct pr_packet *p)
{
	struct pr_packet stray = *p;
	struct out *o = out_of(a, PRL_STRAY_LINK);

	stray.seq = ++a->stray_seq;
	stray.link = PRL_STRAY_LINK;
	stray.otime = stray.time;
	stray.flags |= PR_PACKET_STRAY;
	if (!o)
		return -1;
	if (out_packet(a, o, &stray)) {
		o->lost.count = 0; /* a stray has no seq that anyone would miss */
		return -1;
	}
	pr_count(&a->counters.strays_stored, 1);
	return 0;
}

static void
durable_move(struct prl_append *a)
{
	uint64_t packets = 0;

	for (size_t i = 0; i < a->out_count; i++) {
		struct out *o = a->outs[i];
		uint64_t record = sfs_durable(a->sfs, o->stream);

		while (o->point_count &&
			o->points[o->point_first % DURABLE_POINTS].record <= record) {
			o->durable = o->points[o->point_first % DURABLE_POINTS].packets;
			o->point_first++;
			o->point_count--;
		}
		packets += o->durable;
	}
	pr_counter_set(&a->counters.packets_durable, packets);
}

static bool
old_enough(const struct prl_append *a, const struct out *o, int64_t now, int64_t age)
{
	if (o->b.used >= a->target / SOON_FULL)
		age = a->o.far_ticks ? 0 : SOON_AGE(age);
	else if (age) /* the tick that is nearest */
		age -= a->o.far_ticks / 2;
	return o->sealed || now - o->began >= age;
}

/* Seals what is older than `age` (0: all), and writes the journals. -1: the volume refuses. */
static int
write_all(struct prl_append *a, int64_t now, int64_t age)
{
	struct pr_error err = {0};
	int64_t late;

	for (size_t i = 0; i < a->out_count; i++) {
		struct out *o = a->outs[i];

		if (o->b.buf && old_enough(a, o, now, age) && prl_append_seal(a, o))
			return -1;
		lost_flush(a, o);
	}
	late = age ? now : PR_TIME_MAX;
	if (prl_journal_write(a->ledger, &err) ||
		prl_directory_journal_write(a->segments, late, &err) ||
		prl_directory_journal_write(a->summaries, late, &err)) {
		prl_append_suspend(a, &err);
		return -1;
	}
	return 0;
}

void
prl_append_tick(struct prl_append *a, int64_t now)
{
	struct pr_error err = {0};

	if (a->suspended && now < a->retry_at)
		return;
	/* First the volume: what it could not write holds the memory that more would need. */
	if (a->suspended && sfs_tick(a->sfs, now, &err)) {
		prl_append_suspend(a, &err);
		return;
	}
	a->suspended = false;
	if (write_all(a, now, a->o.segment_age))
		return;
	if (sfs_tick(a->sfs, now, &err))
		prl_append_suspend(a, &err);
	durable_move(a);
}

int
prl_append_flush(struct prl_append *a, struct pr_error *err)
{
	if (a->suspended)
		sfs_flush(a->sfs, &a->why); /* makes room, or fails again below */
	a->suspended = false;
	prl_append_marks_write(a);
	if (write_all(a, pr_now_mono(), 0)) {
		if (err)
			*err = a->why;
		return -1;
	}
	if (sfs_flush(a->sfs, &a->why) != SFS_OK) {
		prl_append_suspend(a, &a->why);
		if (err)
			*err = a->why;
		return -1;
	}
	durable_move(a);
	return 0;
}

int
prl_append_reset(struct prl_append *a, struct pr_error *err)
{
	for (size_t i = 0; i < a->out_count; i++) {
		struct out *o = a->outs[i];

		o->b.buf = NULL;
		o->sealed = 0;
		o->point_count = 0;
		o->lost.count = 0;
	}
	if (sfs_reset(a->sfs, err) != SFS_OK)
		return -1;
	prl_append_tell_again(a);
	return 0;
}
