/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/volume_writer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logger/journal.h"
#include "proto/base/clock.h"
#include "proto/wire/ledger.h"
#include "proto/wire/segment.h"
#include "proto/wire/segment_inline.h"

#define LINKS_MAX 300
#define DURABLE_POINTS 1024

struct durable_mark {
	uint64_t record, packets; /* packets in the stream up to this record */
};

struct link_segment {
	uint16_t link;
	int stream;
	struct pr_segment_builder b;
	uint8_t *buf;
	size_t sealed; /* length of a segment that the volume has refused so far */
	int64_t began;
	uint64_t packets, durable;
	struct durable_mark
		points[DURABLE_POINTS]; /* ring of records that are not durable yet */
	unsigned point_first, point_count;
	struct pr_loss lost; /* run of packets lost to a refusing volume */
};

struct prl_volume_writer {
	struct sfs *sfs;
	struct prl_writer_options o;
	size_t target, room;
	struct link_segment *outs[LINKS_MAX];
	size_t out_count;
	struct prl_journal *ledger;
	struct prl_directory_journal *segments, *summaries;
	struct prl_indexes *indexes;
	struct prl_marks *marks;
	struct pr_ledger_entry *
		link_facts; /* BOOT, LINK and PORT, the last of each: a reset tells them again */
	size_t link_facts_count;
	uint64_t stray_seq;
	bool suspended;
	int64_t retry_at;
	struct pr_error why;
	struct prl_writer_counters counters;
};

/*
 * What MARKs said last, per (epoch, link): decides which are worth a line in the ledger. Ten MARKs a
 * second say the same on an idle link; then one a second is written, so that the time is on record.
 * One thread.
 */
struct prl_marks;
typedef void (*prl_marks_call)(void *arg, const struct pr_ledger_mark *mark);

static void prl_writer_directory(struct prl_volume_writer *a, const struct link_segment *o,
	const struct sfs_handle *handle);
static void prl_writer_tell_again(struct prl_volume_writer *a);
static void prl_writer_marks_write(struct prl_volume_writer *a);

/* ---- MARKs: which are worth a ledger entry ---- */

#define MARKS_MAX 256

struct mark_row {
	struct pr_ledger_mark mark;
	int64_t written; /* monotonic */
	bool pending;
};

struct prl_marks {
	struct mark_row *lines;
	size_t count, next;
};

static struct prl_marks *
prl_marks_create(struct pr_error *err)
{
	struct prl_marks *m = calloc(1, sizeof(*m));

	if (!m)
		pr_error_set(err, "no memory for the ledger");
	return m;
}

static void
prl_marks_destroy(struct prl_marks **marks)
{
	if (*marks)
		free((*marks)->lines);
	free(*marks);
	*marks = NULL;
}

static struct mark_row *
line_of(struct prl_marks *m, const struct pr_ledger_mark *mark)
{
	struct mark_row *lines;

	for (size_t i = 0; i < m->count; i++) {
		if (m->lines[i].mark.epoch == mark->epoch &&
			m->lines[i].mark.link.link == mark->link.link)
			return &m->lines[i];
	}
	if (m->count == MARKS_MAX) { /* the oldest is of an epoch long gone */
		struct mark_row *line = &m->lines[m->next++ % MARKS_MAX];

		*line = (struct mark_row){.written = PR_TIME_MIN};
		return line;
	}
	lines = realloc(m->lines, (m->count + 1) * sizeof(*lines));
	if (!lines)
		return NULL;
	m->lines = lines;
	lines[m->count] = (struct mark_row){.written = PR_TIME_MIN};
	return &lines[m->count++];
}

static bool
same(const struct pr_ledger_mark *a, const struct pr_ledger_mark *b)
{
	const struct pr_mark_link *x = &a->link, *y = &b->link;

	return a->stopping == b->stopping && x->last_seq == y->last_seq &&
	       x->last_log == y->last_log && x->ended == y->ended &&
	       x->assigned == y->assigned && x->dropped_kernel == y->dropped_kernel &&
	       x->dropped_interface == y->dropped_interface &&
	       x->dropped_ring == y->dropped_ring &&
	       x->dropped_no_node == y->dropped_no_node &&
	       x->dropped_send == y->dropped_send && x->cut == y->cut &&
	       x->undelivered_first == y->undelivered_first &&
	       x->undelivered_last == y->undelivered_last && !strcmp(x->name, y->name);
}

static void
prl_marks_write_if_new(struct prl_marks *m, const struct pr_ledger_mark *mark, int64_t now,
	prl_marks_call write, void *arg)
{
	struct mark_row *line = line_of(m, mark);

	if (!line) {
		write(arg, mark);
		return;
	}
	line->pending = line->written == PR_TIME_MIN || !same(&line->mark, mark) ||
			now - line->written >= PR_NS_PER_S;
	line->mark = *mark;
	if (line->pending) {
		write(arg, mark);
		line->written = now;
		line->pending = false;
	} else {
		line->pending = true; /* only its time is new */
	}
}

static void
prl_marks_write(struct prl_marks *m, prl_marks_call write, void *arg)
{
	for (size_t i = 0; i < m->count; i++) {
		if (m->lines[i].pending)
			write(arg, &m->lines[i].mark);
		m->lines[i].pending = false;
	}
}

/* ---- packets ---- */

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

struct prl_volume_writer *
prl_writer_create(
	struct sfs *sfs, const struct prl_writer_options *options, struct pr_error *err)
{
	struct prl_volume_writer *a = calloc(1, sizeof(*a));

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
			sfs, "segments", SEGMENTS_SHARE, a->o.lazy_directory, err);
	if (a->segments)
		a->summaries = prl_directory_journal_create(
			sfs, "summaries", SUMMARIES_SHARE, a->o.lazy_directory, err);
	if (a->summaries)
		a->indexes = prl_indexes_create(sfs, a->segments, a->summaries, err);
	if (a->indexes)
		a->marks = prl_marks_create(err);
	if (!a->marks)
		prl_writer_destroy(&a);
	return a;
}

void
prl_writer_destroy(struct prl_volume_writer **append)
{
	struct prl_volume_writer *a = *append;

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
	free(a->link_facts);
	free(a);
	*append = NULL;
}

static void
prl_writer_suspend(struct prl_volume_writer *a, const struct pr_error *why)
{
	pr_count(&a->counters.write_errors, 1);
	a->suspended = true;
	a->why = *why;
	a->retry_at = pr_now_mono() + RETRY_NS;
}

static struct link_segment *
out_create(struct prl_volume_writer *a, uint16_t link, struct pr_error *err)
{
	char name[SFS_NAME_MAX + 1] = "strays";
	struct link_segment *o;

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

static struct link_segment *
out_new(struct prl_volume_writer *a, uint16_t link)
{
	struct pr_error err = {0};
	struct link_segment *o = out_create(a, link, &err);

	if (!o)
		prl_writer_suspend(a, &err);
	return o;
}

static inline struct link_segment *
out_of(struct prl_volume_writer *a, uint16_t link)
{
	for (size_t i = 0; i < a->out_count; i++) {
		if (a->outs[i]->link == link)
			return a->outs[i];
	}
	return out_new(a, link);
}

static void
point_add(struct prl_volume_writer *a, struct link_segment *o)
{
	if (o->point_count == DURABLE_POINTS) { /* reported later, with the next one */
		o->point_first++;
		o->point_count--;
	}
	o->points[(o->point_first + o->point_count++) % DURABLE_POINTS] =
		(struct durable_mark){sfs_appended(a->sfs, o->stream), o->packets};
}

static int
prl_writer_seal(struct prl_volume_writer *a, struct link_segment *o)
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
		prl_writer_suspend(a, &err);
		return -1;
	}
	pr_count(&a->counters.segments_stored, 1);
	if (o->link != PRL_STRAY_LINK) {
		point_add(a, o);
		prl_writer_directory(a, o, &handle);
	}
	o->sealed = 0;
	o->b.buf = NULL;
	return 0;
}

static void
lost_flush(struct prl_volume_writer *a, struct link_segment *o)
{
	if (o->lost.count)
		prl_writer_loss(a, &o->lost);
	o->lost.count = 0;
}

static int
lose(struct prl_volume_writer *a, struct link_segment *o, const struct pr_packet *p)
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
fits(const struct prl_volume_writer *a, const struct link_segment *o,
	const struct pr_packet *p)
{
	return o->b.buf && !o->sealed && o->b.header.linktype == p->linktype &&
	       o->b.used + pr_segment_cost(p->caplen) <= a->target;
}

/* Into the next segment. */
static int
out_add(struct prl_volume_writer *a, struct link_segment *o, const struct pr_packet *p)
{
	if (o->b.buf && prl_writer_seal(a, o))
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
out_packet(struct prl_volume_writer *a, struct link_segment *o, const struct pr_packet *p)
{
	return fits(a, o, p) && pr_segment_add_here(&o->b, p) ? 0 : out_add(a, o, p);
}

size_t
prl_writer_put_packets(struct prl_volume_writer *a, const struct pr_packet *p, size_t count)
{
	struct link_segment *o = out_of(a, p->link);
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
prl_writer_stray(struct prl_volume_writer *a, const struct pr_packet *p)
{
	struct pr_packet stray = *p;
	struct link_segment *o = out_of(a, PRL_STRAY_LINK);

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
durable_move(struct prl_volume_writer *a)
{
	uint64_t packets = 0;

	for (size_t i = 0; i < a->out_count; i++) {
		struct link_segment *o = a->outs[i];
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
old_enough(const struct prl_volume_writer *a, const struct link_segment *o, int64_t now,
	int64_t age)
{
	if (o->b.used >= a->target / SOON_FULL)
		age = a->o.tick_ns ? 0 : SOON_AGE(age);
	else if (age) /* the tick that is nearest */
		age -= a->o.tick_ns / 2;
	return o->sealed || now - o->began >= age;
}

/* Seals what is older than `age` (0: all), and writes the journals. -1: the volume refuses. */
static int
write_all(struct prl_volume_writer *a, int64_t now, int64_t age)
{
	struct pr_error err = {0};
	int64_t late;

	for (size_t i = 0; i < a->out_count; i++) {
		struct link_segment *o = a->outs[i];

		if (o->b.buf && old_enough(a, o, now, age) && prl_writer_seal(a, o))
			return -1;
		lost_flush(a, o);
	}
	late = age ? now : PR_TIME_MAX;
	if (prl_journal_write(a->ledger, &err) ||
		prl_directory_journal_write(a->segments, late, &err) ||
		prl_directory_journal_write(a->summaries, late, &err)) {
		prl_writer_suspend(a, &err);
		return -1;
	}
	return 0;
}

void
prl_writer_tick(struct prl_volume_writer *a, int64_t now)
{
	struct pr_error err = {0};

	if (a->suspended && now < a->retry_at)
		return;
	/* First the volume: what it could not write holds the memory that more would need. */
	if (a->suspended && sfs_tick(a->sfs, now, &err)) {
		prl_writer_suspend(a, &err);
		return;
	}
	a->suspended = false;
	if (write_all(a, now, a->o.segment_age))
		return;
	if (sfs_tick(a->sfs, now, &err))
		prl_writer_suspend(a, &err);
	durable_move(a);
}

int
prl_writer_flush(struct prl_volume_writer *a, struct pr_error *err)
{
	if (a->suspended)
		sfs_flush(a->sfs, &a->why); /* makes room, or fails again below */
	a->suspended = false;
	prl_writer_marks_write(a);
	if (write_all(a, pr_now_mono(), 0)) {
		if (err)
			*err = a->why;
		return -1;
	}
	if (sfs_flush(a->sfs, &a->why) != SFS_OK) {
		prl_writer_suspend(a, &a->why);
		if (err)
			*err = a->why;
		return -1;
	}
	durable_move(a);
	return 0;
}

int
prl_writer_reset(struct prl_volume_writer *a, struct pr_error *err)
{
	for (size_t i = 0; i < a->out_count; i++) {
		struct link_segment *o = a->outs[i];

		o->b.buf = NULL;
		o->sealed = 0;
		o->point_count = 0;
		o->lost.count = 0;
	}
	if (sfs_reset(a->sfs, err) != SFS_OK)
		return -1;
	prl_writer_tell_again(a);
	return 0;
}

/* ---- what is said of packets: ledger and directory ---- */

/*
 * What is stored beside packets: in the ledger losses, links, boots, marks; in the directory where segments
 * lie; and the index of them.
 */

static void
ledger_add(struct prl_volume_writer *a, const struct pr_ledger_entry *e, int64_t min,
	int64_t max)
{
	struct pr_error err = {0};

	if (prl_journal_add(a->ledger, e, min, max, &err)) {
		pr_count(&a->counters.ledger_refused, 1);
		prl_writer_suspend(a, &err);
	}
}

void
prl_writer_loss(struct prl_volume_writer *a, const struct pr_loss *loss)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_LOSS, .u.loss = *loss};

	ledger_add(a, &e, loss->first_time, loss->last_time);
}

static uint16_t
link_told(const struct pr_ledger_entry *e)
{
	return e->type == PR_LEDGER_PORT ? e->u.port.link : e->u.link.link;
}

/* Where memory lacks, a reset forgets the entry: until the next epoch the link has a number and no name. */
static void
keep_told(struct prl_volume_writer *a, const struct pr_ledger_entry *e)
{
	struct pr_ledger_entry *grown;

	for (size_t i = 0; i < a->link_facts_count; i++) {
		if (a->link_facts[i].type == e->type &&
			(e->type == PR_LEDGER_BOOT ||
				link_told(&a->link_facts[i]) == link_told(e))) {
			a->link_facts[i] = *e;
			return;
		}
	}
	grown = realloc(a->link_facts, (a->link_facts_count + 1) * sizeof(*grown));
	if (!grown)
		return;
	grown[a->link_facts_count++] = *e;
	a->link_facts = grown;
}

static void
tell(struct prl_volume_writer *a, const struct pr_ledger_entry *e)
{
	int64_t time = e->type == PR_LEDGER_BOOT ? e->u.boot.time : pr_now_real();

	ledger_add(a, e, time, time);
}

void
prl_writer_link(struct prl_volume_writer *a, const struct pr_ledger_link *link)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_LINK, .u.link = *link};

	keep_told(a, &e);
	tell(a, &e);
}

void
prl_writer_port(struct prl_volume_writer *a, uint64_t epoch, const struct pr_port *port)
{
	struct pr_ledger_entry e = {
		.type = PR_LEDGER_PORT, .u.port = {epoch, port->link, port->speed}};

	keep_told(a, &e);
	tell(a, &e);
}

void
prl_writer_moved_link(struct prl_volume_writer *a, const struct pr_ledger_link *link)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_LINK, .u.link = *link};

	tell(a, &e);
}

void
prl_writer_boot(struct prl_volume_writer *a, const struct pr_ledger_boot *boot)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_BOOT, .u.boot = *boot};

	keep_told(a, &e);
	tell(a, &e);
}

void
prl_writer_deleted(struct prl_volume_writer *a, const struct pr_ledger_deleted *deleted)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_DELETED, .u.deleted = *deleted};

	ledger_add(a, &e, deleted->at, deleted->at);
}

/* Behind the packets that it declares: who reads the ledger first then finds them all. */
static void
mark_write(void *arg, const struct pr_ledger_mark *mark)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_MARK, .u.mark = *mark};
	struct prl_volume_writer *a = arg;

	for (size_t i = 0; i < a->out_count; i++) {
		if (a->outs[i]->link == mark->link.link && a->outs[i]->b.buf)
			prl_writer_seal(a, a->outs[i]);
	}
	ledger_add(a, &e, mark->said_until, mark->said_until);
}

void
prl_writer_put_mark(struct prl_volume_writer *a, const struct pr_ledger_mark *mark)
{
	prl_marks_write_if_new(a->marks, mark, pr_now_mono(), mark_write, a);
}

static void
prl_writer_marks_write(struct prl_volume_writer *a)
{
	prl_marks_write(a->marks, mark_write, a);
}

static void
prl_writer_tell_again(struct prl_volume_writer *a)
{
	for (size_t i = 0; i < a->link_facts_count; i++)
		tell(a, &a->link_facts[i]);
}

static void
prl_writer_directory(struct prl_volume_writer *a, const struct link_segment *o,
	const struct sfs_handle *handle)
{
	const struct pr_segment_header *h = &o->b.header;
	struct pr_directory_entry e = {.kind = PR_DIRECTORY_SEGMENT,
		.u.segment = {
			.epoch = h->epoch,
			.first_seq = h->first_seq,
			.last_seq = o->b.last_seq,
			.min_time = h->min_time,
			.max_time = h->max_time,
			.first_otime = h->first_otime,
			.last_otime = h->last_otime,
			.count = h->count,
			.link = h->link,
			.linktype = h->linktype,
		}};
	struct pr_error err = {0};

	/* Without it an indexer reads the segment itself: no harm but work. */
	if (prl_directory_journal_add(
		    a->segments, &e, handle, h->min_time, h->max_time, &err))
		pr_count(&a->counters.ledger_refused, 1);
}

/* An index that is lost is made again: it must not suspend what it is about. */
int
prl_writer_index(struct prl_volume_writer *a, const struct pr_index_record *index,
	struct pr_error *err)
{
	if (prl_indexes_check(a->indexes, index, err) < 0)
		return -1;
	if (a->suspended)
		return 1;
	if (prl_indexes_append(a->indexes, index, err) < 0)
		return 1;
	pr_count(&a->counters.index_records, 1);
	pr_count(&a->counters.index_bytes, index->len);
	return 0;
}

const char *
prl_writer_suspend_reason(const struct prl_volume_writer *a)
{
	return a->suspended ? a->why.text : NULL;
}

const struct prl_writer_counters *
prl_writer_counters(const struct prl_volume_writer *a)
{
	return &a->counters;
}

/* ---- packets moved from another node ---- */

/* What a volume does not take is not to be declared lost: it still lies where it came from. */
static int
check(struct sfs *sfs, const void *body, size_t len, struct pr_error *err)
{
	size_t most = sfs_record_max(sfs);
	struct pr_segment_reader r;
	struct pr_packet p;
	int rc;

	if (pr_segment_open(&r, body, len, err) < 0)
		return -1;
	if (!(r.header.flags & PR_SEGMENT_MIXED))
		return pr_error_set(err, "packets of one link, where a mixed lot is due");
	while ((rc = pr_segment_next(&r, &p, err)) == 1) {
		if (p.link == PRL_STRAY_LINK || p.seq == 0)
			return pr_error_set(err, "a packet without a number");
		if (PR_SEGMENT_HEADER + pr_segment_cost(p.caplen) > most)
			return pr_error_set(err,
				"a packet of %u bytes is too long for a block of the "
				"volume",
				p.caplen);
	}
	return rc;
}

int
prl_writer_put_moved(struct sfs *sfs, struct prl_volume_writer *append, const void *body,
	size_t len, struct pr_error *err)
{
	struct pr_segment_reader r;
	struct pr_packet p;

	if (prl_writer_suspend_reason(append))
		return pr_error_set(err, "%s", prl_writer_suspend_reason(append));
	if (check(sfs, body, len, err) < 0 || pr_segment_open(&r, body, len, err) < 0)
		return -1;
	while (pr_segment_next(&r, &p, err) == 1)
		if (prl_writer_put_packet(append, &p) < 0)
			return pr_error_set(err, "%s",
				prl_writer_suspend_reason(append)
					? prl_writer_suspend_reason(append)
					: "the volume does not take it");
	return 0;
}
