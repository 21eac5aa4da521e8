/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/volume_writer.h"

#include "proto/base/array.h"
#include "proto/base/log.h"
#include "proto/wire/decode.h"
#include "proto/wire/segment_inline.h"

enum { LINKS_MAX = 300, DURABLE_POINTS = 1024 };

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
	uint64_t awaited_record; /* when it is durable, so is what the last MARK declares */
	/* ring of records that are not durable yet */
	struct durable_mark points[DURABLE_POINTS];
	unsigned point_first, point_count;
	struct pr_loss lost; /* run of packets lost to a refusing volume */
};

enum { LINKS = 65536, MARKS_MAX = 256 };

/*
 * The last MARK for each (epoch, link): decides which MARKs are written to the ledger. On
 * an idle link ten MARKs a second are equal; then one a second is written, for its time.
 */
struct mark_row {
	struct pr_ledger_mark mark;
	int64_t written; /* monotonic */
	bool pending;
	/* When the awaited records of the link's streams are durable, so is all up to seq; 0: nothing is waited for. */
	uint64_t awaited_seq;
	uint64_t durable_seq; /* as the ledger has it */
};

struct prl_volume_writer {
	struct sfs *sfs;
	struct prl_writer_options o;
	size_t target, room;
	struct link_segment *outs[LINKS_MAX];
	size_t out_count;
	struct prl_journal *ledger;
	struct prl_journal *segments, *summaries; /* directories */
	int16_t index_streams[LINKS]; /* 1 + id; 0: not opened yet */
	struct mark_row *marks;
	size_t mark_count, mark_next;
	/* The last BOOT, LINK and PORT entries; written again after a reset, and before the ledger overwrites them. */
	struct pr_ledger_entry *link_facts;
	size_t link_facts_count;
	uint64_t told_at; /* these and the classes: sequence of the ledger */
	struct pr_class classes[PR_CLASS_MAX + 1];
	/* by class: the number of its copies of that degree; 0: none */
	uint8_t copies[PR_CLASS_MAX + 1][PR_DEGREES];
	bool said_link; /* one that no class can have */
	uint64_t stray_seq;
	bool suspended;
	int64_t retry_at, trim_at;
	struct pr_error why;
	struct prl_writer_counters counters;
};

#define RETRY_NS (100 * PR_NS_PER_MS)
/*
 * The canary tests the rack of the moment. Its older packets go: each is a segment of its own, and would take
 * more of indexers' memory than a busy link.
 */
#define CANARY_KEPT_NS (10 * 60 * PR_NS_PER_S)
#define TRIM_NS (10 * PR_NS_PER_S) /* how often what is kept too long is removed */
/* Only whole blocks are removed. So that those of a slow class are not open for months, a block spans at most: */
#define KEEP_SPAN(keep) ((keep) ? PR_MAX((keep) / 8, TRIM_NS) : 0)
/*
 * Divisors: shares of the volume guaranteed to the journals, so that they outlive the data.
 */
enum { LEDGER_SHARE = 50, SEGMENTS_SHARE = 200, SUMMARIES_SHARE = 800 };
/*
 * A segment that is a quarter full is sealed at 40 % of segment_age: packets of a fast link
 * can be found soon, and a slow link does not get many segments. If ticks are far apart, it
 * is sealed at the next tick.
 */
#define SOON_FULL 4
#define SOON_AGE(age) ((age) / 5 * 2)

struct prl_volume_writer *
prl_writer_create(
	struct sfs *sfs, const struct prl_writer_options *options, struct pr_error *err)
{
	struct prl_volume_writer *a = calloc(1, sizeof(*a));

	if (!a)
		return pr_error_null(err, "no memory for writing");
	a->sfs = sfs;
	a->trim_at = pr_now_mono() + TRIM_NS;
	a->o = *options;
	if (a->o.segment_age <= 0)
		a->o.segment_age = PRL_SEGMENT_AGE_DEFAULT;
	a->room = sfs_record_max(sfs);
	/*
	 * Four segments fill a block: segments a bit larger would leave a quarter of it
	 * empty.
	 */
	a->target = a->room / 4 > 256 ? a->room / 4 - 128 : a->room;
	a->target = PR_MIN(a->target, PR_SEGMENT_TARGET);
	if (!(a->ledger = prl_journal_create(sfs, "ledger", LEDGER_SHARE, err)) ||
		!(a->segments = prl_journal_create(sfs, "segments", SEGMENTS_SHARE, err)) ||
		!(a->summaries =
				prl_journal_create(sfs, "summaries", SUMMARIES_SHARE, err)))
		prl_writer_destroy(&a);
	return a;
}

void
prl_writer_destroy(struct prl_volume_writer **append)
{
	struct prl_volume_writer *a = PR_TAKE(append);

	if (!a)
		return;
	for (size_t i = 0; i < a->out_count; i++) {
		free(a->outs[i]->buf);
		free(a->outs[i]);
	}
	PR_FREE(a, ledger, segments, summaries, marks, link_facts);
	free(a);
}

static void
prl_writer_suspend(struct prl_volume_writer *a, const struct pr_error *why)
{
	pr_count(&a->counters.write_errors, 1);
	a->suspended = true;
	a->why = *why;
	a->retry_at = pr_now_mono() + RETRY_NS;
}

/* ---- ledger and directory ---- */

void
prl_writer_tell(struct prl_volume_writer *a, const struct pr_ledger_entry *e)
{
	struct pr_error err = {0};
	int64_t min = e->type == PR_LEDGER_LOSS      ? e->u.loss.first_time
		      : e->type == PR_LEDGER_MARK    ? e->u.mark.said_until
		      : e->type == PR_LEDGER_BOOT    ? e->u.boot.time
		      : e->type == PR_LEDGER_DELETED ? e->u.deleted.at
						     : pr_now_real();
	int64_t max = e->type == PR_LEDGER_LOSS ? e->u.loss.last_time : min;

	if (prl_journal_add(a->ledger, e, min, max, &err)) {
		pr_count(&a->counters.ledger_refused, 1);
		prl_writer_suspend(a, &err);
	}
}

void
prl_writer_tell_observation(struct prl_volume_writer *a, uint64_t epoch,
	struct pr_observation *told, const struct pr_observation *now)
{
	for (unsigned i = 0; i < now->count; i++) {
		const struct pr_ledger_entry e = {PR_LEDGER_UNOBSERVED,
			.u.unobserved = {epoch, now->link, now->items[i]}};
		bool known = false;

		for (unsigned j = 0; j < told->count && !known; j++)
			known = !memcmp(
				&told->items[j], &now->items[i], sizeof(now->items[i]));
		if (!known)
			prl_writer_tell(a, &e);
	}
	*told = *now;
}

struct pr_ledger_entry
prl_link_entry(uint64_t epoch, uint16_t link, uint16_t linktype, uint32_t snaplen,
	const char *name)
{
	struct pr_ledger_entry e = {
		.type = PR_LEDGER_LINK, .u.link = {epoch, link, linktype, snaplen, ""}};

	PR_PRINT(e.u.link.name, "%s", name);
	return e;
}

static uint16_t
link_told(const struct pr_ledger_entry *e)
{
	return e->type == PR_LEDGER_PORT ? e->u.port.link : e->u.link.link;
}

/* Without memory, a reset forgets the entry: until the next epoch the link has no name. */
void
prl_writer_keep(struct prl_volume_writer *a, const struct pr_ledger_entry *e)
{
	size_t i = 0;

	for (; i < a->link_facts_count; i++)
		if (a->link_facts[i].type == e->type &&
			(e->type == PR_LEDGER_BOOT ||
				link_told(&a->link_facts[i]) == link_told(e)))
			break;
	if (i < a->link_facts_count || PR_ARRAY_GROW(a->link_facts, i) == 0) {
		a->link_facts[i] = *e;
		a->link_facts_count += i == a->link_facts_count;
	}
	prl_writer_tell(a, e);
	if (e->type ==
		PR_LEDGER_BOOT) /* so that who is killed is not taken for new when it is started again */
		prl_writer_flush(a, NULL);
}

static void
tell_facts(struct prl_volume_writer *a)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_CLASS};

	for (size_t i = 0; i < a->link_facts_count; i++)
		prl_writer_tell(a, &a->link_facts[i]);
	for (size_t i = 0; i < PR_COUNT(a->classes); i++) {
		e.u.class = a->classes[i];
		if (e.u.class.number)
			prl_writer_tell(a, &e);
	}
}

/* Half of the ledger is newer than they are. */
static void
tell_facts_again(struct prl_volume_writer *a)
{
	struct sfs_stream_info ledger;
	int stream = sfs_stream_find(a->sfs, "ledger");

	if (stream < 0 || sfs_stream_info(a->sfs, stream, &ledger, NULL) != SFS_OK ||
		a->told_at >= ledger.first_sequence +
				      (ledger.last_sequence - ledger.first_sequence) / 2)
		return;
	a->told_at = ledger.last_sequence;
	tell_facts(a);
}

static void
directory_add(struct prl_volume_writer *a, const struct link_segment *o,
	const struct sfs_handle *handle)
{
	const struct pr_segment_header *h = &o->b.header;
	struct pr_directory_entry e = {
		.kind = PR_DIRECTORY_SEGMENT, .u.segment.last_seq = o->b.last_seq};
	struct pr_error err = {0};

	PR_COPY(&e.u.segment, h, epoch, link, linktype, first_seq, count);
	PR_COPY(&e.u.segment, h, min_time, max_time, first_otime, last_otime);
	/* Without the entry an indexer reads the segment itself: that costs only work. */
	if (prl_journal_add_place(a->segments, &e, handle, h->min_time, h->max_time, &err))
		pr_count(&a->counters.ledger_refused, 1);
}

/* An index takes at most 0.5 % of full packets; of small ones it takes more. */
#define INDEX_SHARE 128

/*
 * Stream "index.N", opened when needed; -1. Its storage guarantee is in proportion to that of "packets.N", the
 * packets that it indexes, so that the two age together.
 */
static int
index_stream(struct prl_volume_writer *a, uint16_t link, struct pr_error *err)
{
	struct sfs_stream_info packets = {0};
	char name[SFS_NAME_MAX + 1];

	if (a->index_streams[link] <= 0) {
		sfs_stream_info(a->sfs, prl_data_stream(a->sfs, link), &packets, NULL);
		PR_PRINT(name, "index.%u", link);
		a->index_streams[link] = sfs_stream_open(a->sfs, name,
						 packets.guarantee / INDEX_SHARE, 0, err) +
					 1;
	}
	return a->index_streams[link] - 1;
}

/* A lost index is made again, so a failure here must not suspend the writer. */
int
prl_writer_index(struct prl_volume_writer *a, const struct pr_index_record *index,
	struct pr_error *err)
{
	struct pr_directory_entry e = {.kind = PR_DIRECTORY_INDEX};
	struct sfs_handle handle;
	int stream;

	_Static_assert(SFS_STREAMS_MAX < INT16_MAX, "stream ids fit");
	PR_COPY(&e.u.index, index, first_sequence, check, segments, link, level);
	if (prl_index_check(a->sfs, index, err) < 0)
		return -1;
	if (a->suspended || (stream = index_stream(a, index->link, err)) < 0)
		return 1;
	/* Level 2 is read in sectors: a reserved record begins at a sector. */
	void *room =
		index->level == 2 ? sfs_reserve(a->sfs, stream, index->len, err) : NULL;
	if (room)
		memcpy(room, index->body, index->len);
	int rc = room ? sfs_commit(a->sfs, stream, index->min_time, index->max_time,
				index->len, &handle, err)
		      : sfs_append(a->sfs, stream, index->min_time, index->max_time,
				index->body, index->len, &handle, err);
	if (rc != SFS_OK ||
		prl_journal_add_place(index->level == 3 ? a->summaries : a->segments, &e,
			&handle, index->min_time, index->max_time, err) < 0)
		return 1;
	pr_count(&a->counters.index_records, 1);
	pr_count(&a->counters.index_bytes, index->len);
	return 0;
}

/* ---- packets ---- */

/* Gives a stream of a class its guarantee. If the volume refuses it, the class is stored without. */
static void
class_apply(struct prl_volume_writer *a, uint16_t stream)
{
	const struct pr_class *class = &a->classes[pr_stream_class(stream)];
	struct sfs_volume_info volume;
	struct pr_error err = {0};
	char name[SFS_NAME_MAX + 1];

	if (!class->number || sfs_info(a->sfs, &volume, NULL) != SFS_OK)
		return;
	PR_PRINT(name, "packets.%u", stream);
	int number = sfs_stream_open(a->sfs, name,
		volume.blocks * volume.block_size / 1000 * class->guarantee, 0, &err);
	if (number < 0)
		pr_log_warning("class %s: %s", class->name, err.text);
	else
		sfs_memory_set(a->sfs, number, class->memory, NULL);
}

void
prl_writer_set_class(struct prl_volume_writer *a, const struct pr_class *class)
{
	if (!memcmp(&a->classes[class->number], class, sizeof(*class)))
		return;
	const struct pr_ledger_entry e = {PR_LEDGER_CLASS, .u.class = *class};

	a->classes[class->number] = *class;
	prl_writer_tell(a, &e);
	memset(a->copies, 0, sizeof a->copies);
	for (unsigned i = 0; i < PR_COUNT(a->classes) * PR_COUNT(a->classes); i++) {
		const struct pr_class *of = &a->classes[i / PR_COUNT(a->classes)],
				      *copy = &a->classes[i % PR_COUNT(a->classes)];
		enum pr_degree degree = pr_class_degree(copy->name);

		if (of->number && pr_class_is_degree(copy->name, of->name, degree))
			a->copies[of->number][degree] = copy->number;
	}
	for (size_t i = 0; i < a->out_count; i++)
		if (pr_stream_class(a->outs[i]->link) == class->number)
			class_apply(a, a->outs[i]->link);
}

static struct link_segment *
out_new(struct prl_volume_writer *a, uint16_t link)
{
	char name[SFS_NAME_MAX + 1] = "strays";
	struct link_segment *o = NULL;
	struct pr_error err = {0};

	if (link != PRL_STRAY_LINK)
		PR_PRINT(name, "packets.%u", link);
	if (a->out_count == LINKS_MAX) {
		pr_error_set(&err, "more than %d links", LINKS_MAX);
	} else if (!(o = calloc(1, sizeof(*o))) || !(o->buf = malloc(a->room))) {
		pr_error_set(&err, "no memory for link %u", link);
	} else if (/* one that is there keeps its guarantee until its class is told */
		(o->stream = sfs_stream_find(a->sfs, name)) >= 0 ||
		(o->stream = sfs_stream_open(a->sfs, name, 0, 0, &err)) >= 0) {
		o->link = link;
		a->outs[a->out_count++] = o;
		class_apply(a, link);
		return o;
	}
	if (o)
		free(o->buf);
	free(o);
	prl_writer_suspend(a, &err);
	return NULL;
}

static inline struct link_segment *
link_find(const struct prl_volume_writer *a, uint16_t link)
{
	for (size_t i = 0; i < a->out_count; i++)
		if (a->outs[i]->link == link)
			return a->outs[i];
	return NULL;
}

static inline struct link_segment *
out_of(struct prl_volume_writer *a, uint16_t link)
{
	struct link_segment *o = link_find(a, link);

	return o ? o : out_new(a, link);
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
		if (o->point_count == DURABLE_POINTS) { /* reported later, with the next */
			o->point_first++;
			o->point_count--;
		}
		o->points[(o->point_first + o->point_count++) % DURABLE_POINTS] =
			(struct durable_mark){sfs_appended(a->sfs, o->stream), o->packets};
		directory_add(a, o, &handle);
	}
	o->sealed = 0;
	o->b.buf = NULL;
	return 0;
}

static void
lost_flush(struct prl_volume_writer *a, struct link_segment *o)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_LOSS, .u.loss = o->lost};

	if (o->lost.count)
		prl_writer_tell(a, &e);
	o->lost.count = 0;
}

static int
lose(struct prl_volume_writer *a, struct link_segment *o, const struct pr_packet *p)
{
	const struct pr_loss lost = pr_loss_of(p->epoch, p->link, p->seq, p->otime,
		PR_LOSS_WRITE, p->flags & PR_PACKET_SECOND);

	pr_count(&a->counters.lost_write, 1);
	if (!pr_loss_join(&o->lost, &lost)) {
		lost_flush(a, o);
		o->lost = lost;
	}
	return -1;
}

/* Adds the packet to a new segment. */
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
	bool fits = o->b.buf && !o->sealed && o->b.header.linktype == p->linktype &&
		    o->b.used + pr_segment_cost(p->caplen) <= a->target;

	return fits && pr_segment_add_here(&o->b, p) ? 0 : out_add(a, o, p);
}

/* more: 1 if the packet counts; 0: it is one more copy of it. */
static int
put_packet(struct prl_volume_writer *a, uint16_t stream, const struct pr_packet *p,
	unsigned more)
{
	struct link_segment *o = out_of(a, stream);

	if (!o)
		pr_count(&a->counters.lost_write, 1);
	if (!o || out_packet(a, o, p))
		return -1;
	if (o->lost.count)
		lost_flush(a, o);
	o->packets += more;
	pr_count(&a->counters.packets_stored, more);
	pr_count(&a->counters.bytes_stored, p->caplen);
	return 0;
}

/* The captured bytes up to the end of the transport header; of other packets, the Ethernet header. */
static uint32_t
headers_len(const struct pr_packet *p)
{
	enum { ETHER = 14 };
	struct pr_decoded d;

	pr_decode(p->linktype, p->data, p->caplen, &d);
	size_t len = d.outer.payload_offset ? d.outer.payload_offset
		     : d.outer.l4_offset    ? d.outer.l4_offset
					    : ETHER;
	return (uint32_t)PR_MIN(len, p->caplen);
}

/* Into the streams of shorter degrees, which are kept longer. */
static void
put_copies(struct prl_volume_writer *a, const struct pr_packet *p, const uint8_t *copies)
{
	struct pr_packet copy = *p;
	uint8_t cut = copies[PR_DEGREE_CUT], headers = copies[PR_DEGREE_HEADERS];

	copy.flags |= PR_PACKET_FROM_CUT;
	if (cut && !(p->class & PR_CLASS_BEYOND))
		put_packet(a, pr_stream_of_class(p->link, cut), &copy, 0);
	if (!headers)
		return;
	copy.flags = p->flags | PR_PACKET_FROM_HEADERS;
	copy.caplen = headers_len(p);
	put_packet(a, pr_stream_of_class(p->link, headers), &copy, 0);
}

int
prl_writer_put_packet(struct prl_volume_writer *a, const struct pr_packet *p)
{
	unsigned class = p->class & PR_CLASS_MAX;
	int rc = put_packet(a, pr_stream_of_class(p->link, class), p, 1);

	if (class && p->link < PR_STREAM_CLASS_LINKS)
		put_copies(a, p, a->copies[class]);
	return rc;
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

/* Is it a stream of the link, its own or that of a class? */
static bool
is_of(const struct link_segment *o, uint16_t link)
{
	return o->link == link ||
	       (pr_stream_class(o->link) && pr_stream_link(o->link) == link);
}

/* What the MARK declares was just given to the volume. */
static void
durable_await(struct prl_volume_writer *a, struct mark_row *row)
{
	if (row->awaited_seq || row->mark.link.last_seq <= row->durable_seq || a->suspended)
		return;
	row->awaited_seq = row->mark.link.last_seq;
	for (size_t i = 0; i < a->out_count; i++)
		if (is_of(a->outs[i], row->mark.link.link))
			a->outs[i]->awaited_record =
				sfs_appended(a->sfs, a->outs[i]->stream);
}

static void
durable_tell(struct prl_volume_writer *a, struct mark_row *row)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_DURABLE,
		.u.durable = {row->mark.epoch, row->awaited_seq, row->mark.link.link}};

	if (!row->awaited_seq)
		return;
	for (size_t i = 0; i < a->out_count; i++)
		if (is_of(a->outs[i], row->mark.link.link) &&
			sfs_durable(a->sfs, a->outs[i]->stream) <
				a->outs[i]->awaited_record)
			return;
	row->durable_seq = row->awaited_seq;
	row->awaited_seq = 0;
	prl_writer_tell(a, &e);
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
	for (size_t i = 0; i < a->mark_count; i++)
		durable_tell(a, &a->marks[i]);
}

/* Seals what is older than `age` (0: all), and writes the journals. -1: the volume refuses. */
static int
write_all(struct prl_volume_writer *a, int64_t now, int64_t age)
{
	bool lazy = a->o.lazy_directory;
	int64_t late = age ? now : PR_TIME_MAX;
	struct pr_error err = {0};

	for (size_t i = 0; i < a->out_count; i++) {
		struct link_segment *o = a->outs[i];
		int64_t due = age;

		if (o->b.used >= a->target / SOON_FULL)
			due = a->o.tick_ns ? 0 : SOON_AGE(age);
		else if (age) /* seal at the nearest tick */
			due -= a->o.tick_ns / 2;
		if (o->b.buf && (o->sealed || now - o->began >= due) &&
			prl_writer_seal(a, o))
			return -1;
		lost_flush(a, o);
	}
	if (prl_journal_write(a->ledger, &err) ||
		prl_journal_write_late(a->segments, lazy, late, &err) ||
		prl_journal_write_late(a->summaries, lazy, late, &err)) {
		prl_writer_suspend(a, &err);
		return -1;
	}
	return 0;
}

/*
 * For packets.NUMBER and its index. keep: how long they are kept, 0: while there is room. Bounds the time that a new block
 * spans, and with `old` removes blocks that are too old. True: there are more of these.
 */
static bool
trim_stream(struct prl_volume_writer *a, unsigned number, int64_t keep, bool old)
{
	static const char *const names[] = {"packets.%u", "index.%u"};
	struct sfs_trimmed done = SFS_TRIMMED_NONE;
	char name[SFS_NAME_MAX + 1];
	bool more = false;

	for (size_t i = 0; i < PR_COUNT(names); i++) {
		PR_PRINT(name, names[i], number);
		int stream = sfs_stream_find(a->sfs, name);

		if (stream < 0)
			continue;
		sfs_span_set(a->sfs, stream, KEEP_SPAN(keep), NULL);
		if (old && sfs_trim(a->sfs, stream, pr_now_real() - keep, 0, &done, NULL) ==
				   SFS_OK)
			more |= done.more;
	}
	return more;
}

/* Now and then: removes what is older than its class keeps it. */
static void
trim_old(struct prl_volume_writer *a, int64_t now)
{
	struct sfs_volume_info volume;
	struct sfs_stream_info info;
	int64_t real = pr_now_real();
	bool more = false;

	if (now < a->trim_at || sfs_info(a->sfs, &volume, NULL) != SFS_OK)
		return;
	tell_facts_again(a);
	for (uint32_t i = 0; i < volume.stream_count; i++) {
		unsigned number = 0;

		if (sfs_stream_info(a->sfs, (int)i, &info, NULL) != SFS_OK ||
			sscanf(info.name, "packets.%u", &number) != 1)
			continue;
		int64_t keep = number == PR_LINK_CANARY
				       ? CANARY_KEPT_NS
				       : a->classes[pr_stream_class((uint16_t)number)].keep;
		bool old = keep && info.last_sequence && info.min_time < real - keep;
		if (old || pr_stream_class((uint16_t)number))
			more |= trim_stream(a, number, keep, old);
	}
	a->trim_at = now + (more ? RETRY_NS : TRIM_NS);
}

void
prl_writer_tick(struct prl_volume_writer *a, int64_t now)
{
	struct pr_error err = {0};

	if (a->suspended && now < a->retry_at)
		return;
	/*
	 * First lets the volume retry: its unwritten blocks occupy the memory that new ones
	 * need.
	 */
	if (a->suspended && sfs_tick(a->sfs, now, &err)) {
		prl_writer_suspend(a, &err);
		return;
	}
	a->suspended = false;
	if (write_all(a, now, a->o.segment_age))
		return;
	if (sfs_tick(a->sfs, now, &err))
		prl_writer_suspend(a, &err);
	else
		trim_old(a, now);
	durable_move(a);
}

/*
 * Seals the link's segment first: a reader of the ledger then finds all packets that a MARK
 * declares.
 */
static void
mark_write(struct prl_volume_writer *a, const struct pr_ledger_mark *mark)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_MARK, .u.mark = *mark};

	for (size_t i = 0; i < a->out_count; i++)
		if (is_of(a->outs[i], mark->link.link) && a->outs[i]->b.buf)
			prl_writer_seal(a, a->outs[i]);
	prl_writer_tell(a, &e);
}

int
prl_writer_flush(struct prl_volume_writer *a, struct pr_error *err)
{
	if (a->suspended)
		sfs_flush(a->sfs, &a->why); /* makes room, or fails again below */
	a->suspended = false;
	for (size_t i = 0; i < a->mark_count; i++) {
		if (a->marks[i].pending)
			mark_write(a, &a->marks[i].mark);
		a->marks[i].pending = false;
	}
	bool failed = write_all(a, pr_now_mono(), 0) < 0;
	if (!failed && sfs_flush(a->sfs, &a->why) != SFS_OK) {
		prl_writer_suspend(a, &a->why);
		failed = true;
	}
	if (failed)
		return pr_error_set(err, "%s", a->why.text);
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
	for (size_t i = 0; i < a->mark_count; i++)
		a->marks[i].awaited_seq = 0;
	if (sfs_reset(a->sfs, err) != SFS_OK)
		return -1;
	memset(a->classes, 0, sizeof(a->classes)); /* so that the ledger gets them again */
	memset(a->copies, 0, sizeof(a->copies));
	tell_facts(a);
	return 0;
}

/* ---- MARKs: which are worth a ledger entry ---- */

static struct mark_row *
row_of(struct prl_volume_writer *a, const struct pr_ledger_mark *mark)
{
	struct mark_row *row;

	for (size_t i = 0; i < a->mark_count; i++) {
		row = &a->marks[i];
		if (row->mark.epoch == mark->epoch &&
			row->mark.link.link == mark->link.link)
			return row;
	}
	if (a->mark_count == MARKS_MAX) /* the oldest is of an epoch long gone */
		row = &a->marks[a->mark_next++ % MARKS_MAX];
	else if (PR_ARRAY_GROW(a->marks, a->mark_count) == 0)
		row = &a->marks[a->mark_count++];
	else
		return NULL;
	*row = (struct mark_row){.written = PR_TIME_MIN};
	return row;
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

/* Of an idle link: a query up to now waits so long at most. */
#define MARK_PERIOD (250 * PR_NS_PER_MS)

void
prl_writer_put_mark(struct prl_volume_writer *a, const struct pr_ledger_mark *mark)
{
	struct mark_row *row = row_of(a, mark);
	int64_t now = pr_now_mono();
	bool fresh = !row || row->written == PR_TIME_MIN || !same(&row->mark, mark) ||
		     now - row->written >= MARK_PERIOD;

	if (fresh)
		mark_write(a, mark);
	if (!row)
		return;
	row->mark = *mark;
	row->pending = !fresh; /* only its time is new */
	if (fresh) {
		row->written = now;
		durable_await(a, row);
	}
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

static int
open_sound(struct prl_volume_writer *a, struct pr_segment_reader *r, const void *body,
	size_t len, struct pr_error *err)
{
	struct pr_packet p;
	int rc;

	if (a->suspended)
		return pr_error_set(err, "%s", a->why.text);
	if (pr_segment_open(r, body, len, err) < 0)
		return -1;
	/* A refused packet must not be declared lost: its source still has it. */
	while ((rc = pr_segment_next(r, &p, err)) == 1) {
		if (p.link == PRL_STRAY_LINK || p.seq == 0)
			return pr_error_set(err, "a packet without a number");
		if (PR_SEGMENT_HEADER + pr_segment_cost(p.caplen) > a->room)
			return pr_error_set(err,
				"a packet of %u bytes is too long for a block of the "
				"volume",
				p.caplen);
	}
	return rc < 0 ? -1 : pr_segment_open(r, body, len, err);
}

int
prl_writer_put_moved(struct prl_volume_writer *a, const void *body, size_t len, bool copies,
	struct pr_error *err)
{
	struct pr_segment_reader r;
	struct pr_packet p;

	if (open_sound(a, &r, body, len, err) < 0)
		return -1;
	if (!(r.header.flags & PR_SEGMENT_MIXED))
		return pr_error_set(err, "not a MIXED segment, but one of a single link");
	while (pr_segment_next(&r, &p, err) == 1) {
		bool copy = copies && p.link < PR_STREAM_COPIES_MAX;

		if (put_packet(a, copy ? PR_STREAM_COPIES + p.link : p.link, &p, 1) < 0)
			return pr_error_set(err, "%s",
				a->suspended ? a->why.text : "the volume does not take it");
	}
	return 0;
}

/* ---- holds ---- */

/*
 * Of the streams of a class, of each link that there is: then a guarantee that cannot be given is refused at once. 0: also
 * of their indexes.
 */
static int
set_guarantees(
	struct prl_volume_writer *a, unsigned class, uint64_t bytes, struct pr_error *err)
{
	char name[SFS_NAME_MAX + 1];

	for (uint16_t link = 0; link < PR_STREAM_CLASS_LINKS; link++) {
		unsigned stream = pr_stream_of_class(link, class);

		PR_PRINT(name, "packets.%u", stream);
		if ((sfs_stream_find(a->sfs, name) >= 0 || (bytes && link_find(a, link))) &&
			sfs_stream_open(a->sfs, name, bytes, 0, err) < 0)
			return -1;
		PR_PRINT(name, "index.%u", stream);
		if (!bytes && sfs_stream_find(a->sfs, name) >= 0)
			sfs_stream_open(a->sfs, name, 0, 0, NULL);
	}
	return 0;
}

int
prl_writer_record(struct prl_volume_writer *a, const char *stream, const void *bytes,
	size_t len, struct pr_error *err)
{
	struct sfs_volume_info volume;
	struct sfs_handle handle;
	int64_t now = pr_now_real();

	if (sfs_info(a->sfs, &volume, err) != SFS_OK)
		return -1;
	int number = sfs_stream_open(a->sfs, stream, volume.block_size, 0, err);
	if (number < 0 ||
		sfs_append(a->sfs, number, now, now, bytes, len, &handle, err) != SFS_OK)
		return -1;
	return prl_writer_flush(a, err);
}

int
prl_writer_hold(struct prl_volume_writer *a, const struct pr_class *class,
	const void *definition, size_t len, struct pr_error *err)
{
	struct sfs_volume_info volume;

	if (sfs_info(a->sfs, &volume, err) != SFS_OK)
		return -1;
	uint64_t bytes = volume.blocks * volume.block_size / 1000 * class->guarantee;
	if (set_guarantees(a, class->number, bytes, err) < 0) {
		set_guarantees(a, class->number, 0, NULL);
		return pr_error_prefix(err, "guarantee");
	}
	if (prl_writer_record(a, "holds", definition, len, err) < 0)
		return -1;
	prl_writer_set_class(a, class);
	return 0;
}

int
prl_writer_put_held(struct prl_volume_writer *a, const struct pr_class *class,
	const void *body, size_t len, struct pr_error *err)
{
	struct pr_segment_reader r;
	struct pr_packet p;

	prl_writer_set_class(a, class);
	if (open_sound(a, &r, body, len, err) < 0)
		return -1;
	while (pr_segment_next(&r, &p, err) == 1) {
		if (p.link >= PR_STREAM_CLASS_LINKS) {
			if (!a->said_link)
				pr_log_warning("class %s: only links up to %d can be held, "
					       "and not link %u",
					class->name, PR_STREAM_CLASS_LINKS - 1, p.link);
			a->said_link = true;
			continue;
		}
		p.flags &= (uint16_t)~PR_PACKET_RELATED;
		if (put_packet(a, pr_stream_of_class(p.link, class->number), &p, 0) < 0)
			return pr_error_set(err, "%s",
				a->suspended ? a->why.text : "the volume does not take it");
	}
	return 0;
}
