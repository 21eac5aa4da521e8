/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/summary_announcer.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/query/hello.h"
#include "proto/base/clock.h"
#include "proto/wire/frame.h"

#define LOSSES 16
#define LEDGERS 64
#define DELETED 64 /* ranges that are told; of more, the rest are one */
#define LOSS_GAP_NS (60 * PR_NS_PER_S) /* losses nearer to each other are one range */

struct message {
	Packrack__Coverage coverage;
	Packrack__SummaryInfo *infos, **pointers, open[PRI_FOLLOWER_SPANS];
	Packrack__SummaryInfo *open_pointers[PRI_FOLLOWER_SPANS];
	Packrack__TimeRange losses[LOSSES], *loss_pointers[LOSSES];
	Packrack__TimeRange deleted[DELETED], *deleted_pointers[DELETED];
	Packrack__Ledger ledgers[LEDGERS], *ledger_pointers[LEDGERS];
};

void
pri_announcer_info(Packrack__SummaryInfo *out, const struct pr_summary_span *s)
{
	packrack__summary_info__init(out);
	out->link = s->link;
	out->first_sequence = s->first_sequence;
	out->segments = s->segments;
	out->epoch = s->epoch;
	out->first_seq = s->first_seq;
	out->last_seq = s->last_seq;
	out->packets = s->packets;
	out->first_otime = s->first_otime;
	out->last_otime = s->last_otime;
	out->min_time = s->min_time;
	out->max_time = s->max_time;
}

static void
fill_open(struct message *m, const struct pri_announcer_input *facts)
{
	for (size_t i = 0; i < facts->span_count; i++) {
		pri_announcer_info(&m->open[i], &facts->spans[i]);
		m->open_pointers[i] = &m->open[i];
	}
	m->coverage.open = m->open_pointers;
	m->coverage.n_open = facts->span_count;
}

/* As Hello says it, by which users compile filters. */
static uint32_t
linktype_of(const struct pri_ledger_view *book, const struct pr_summary_span *span)
{
	const struct pri_series_ledger *facts =
		pri_ledger_view_find(book, span->epoch, span->link);
	Packrack__LinkInfo info;

	if (!facts)
		return 0;
	pri_hello_link(&info, facts);
	return 1 + info.linktype;
}

static int
fill_items(struct message *m, const struct pri_ledger_view *book,
	const struct pri_announcer_input *facts)
{
	m->infos = calloc(facts->item_count + 1, sizeof(*m->infos));
	m->pointers = calloc(facts->item_count + 1, sizeof(*m->pointers));
	if (!m->infos || !m->pointers)
		return -1;
	for (size_t i = 0; i < facts->item_count; i++) {
		const struct pri_announced_summary *item = &facts->items[i];

		pri_announcer_info(&m->infos[i], &item->span);
		m->infos[i].number = facts->first_number + i;
		m->infos[i].check = item->check;
		m->infos[i].bytes = item->handle.length;
		m->infos[i].linktype = linktype_of(book, &item->span);
		m->pointers[i] = &m->infos[i];
	}
	m->coverage.summaries = m->pointers;
	m->coverage.n_summaries = facts->item_count;
	m->coverage.first_number = facts->first_number;
	m->coverage.total = facts->total;
	return 0;
}

/* ---- what the volume says ---- */

/* A loss whose seqs are not known explains no hole, and answers do not tell it. */
static void
add_loss(struct message *m, const struct pr_loss *loss)
{
	Packrack__Coverage *c = &m->coverage;
	Packrack__TimeRange *last = c->n_losses ? &m->losses[c->n_losses - 1] : NULL;

	if (!loss->first_seq)
		return;
	if (last && (c->n_losses == LOSSES ||
			    (loss->first_time < last->until + LOSS_GAP_NS &&
				    loss->last_time > last->since - LOSS_GAP_NS))) {
		if (loss->first_time < last->since)
			last->since = loss->first_time;
		if (loss->last_time > last->until)
			last->until = loss->last_time;
		return;
	}
	last = &m->losses[c->n_losses];
	packrack__time_range__init(last);
	last->since = loss->first_time;
	last->until = loss->last_time;
	m->loss_pointers[c->n_losses++] = last;
}

static void
add_ledger(struct message *m, const struct pri_series_ledger *facts)
{
	const struct pr_mark_link *l = &facts->mark.link;
	Packrack__Ledger *out = &m->ledgers[m->coverage.n_ledgers];

	if (m->coverage.n_ledgers == LEDGERS) {
		if (m->coverage.ledgers_until < l->last_otime)
			m->coverage.ledgers_until = l->last_otime;
		return;
	}
	pri_hello_ledger(out, facts);
	m->ledger_pointers[m->coverage.n_ledgers++] = out;
}

/* The book is sorted by epoch, and epochs begin with their start time: the newest are last. */
static void
fill_book(struct message *m, const struct pri_ledger_view *book)
{
	m->coverage.ledgers_until = PR_TIME_MIN;
	for (size_t i = book->count; i-- > 0;) {
		const struct pri_series_ledger *f = book->series[i];

		if (f->have_mark)
			add_ledger(m, f);
		for (size_t j = 0; j < f->loss_count; j++)
			add_loss(m, &f->losses[j]);
	}
	m->coverage.losses = m->loss_pointers;
	m->coverage.ledgers = m->ledger_pointers;
}

static void
add_deleted(struct message *m, const struct sfs_deleted *hole)
{
	Packrack__Coverage *c = &m->coverage;
	size_t at = c->n_deleted < DELETED ? c->n_deleted : DELETED - 1;
	Packrack__TimeRange *r = &m->deleted[at];

	if (c->n_deleted < DELETED) {
		packrack__time_range__init(r);
		r->since = hole->min_time;
		r->until = hole->max_time;
		m->deleted_pointers[c->n_deleted++] = r;
	}
	r->since = hole->min_time < r->since ? hole->min_time : r->since;
	r->until = hole->max_time > r->until ? hole->max_time : r->until;
}

/* What was deleted from the midst of streams of packets. */
static void
fill_deleted(struct message *m, struct pri_volume *volume)
{
	struct sfs *sfs = volume->sfs;
	struct sfs_volume_info whole;
	struct sfs_stream_info info;

	m->coverage.deleted = m->deleted_pointers;
	if (sfs_info(sfs, &whole, NULL) != SFS_OK || whole.deletions == 0)
		return;
	for (size_t i = 0; i < whole.stream_count; i++) {
		struct sfs_deleted hole = {0};

		if (sfs_stream_info(sfs, i, &info, NULL) != SFS_OK ||
			strncmp(info.name, "packets.", 8) != 0)
			continue;
		while (sfs_stream_deleted(sfs, (int)i, hole.last + 1, &hole))
			add_deleted(m, &hole);
	}
}

static int64_t
evicted_until(struct pri_volume *volume)
{
	struct sfs *sfs = volume->sfs;
	int64_t until = PR_TIME_MIN;
	struct sfs_volume_info whole;
	struct sfs_stream_info info;

	if (sfs_info(sfs, &whole, NULL) != SFS_OK)
		return PR_TIME_MAX;
	for (size_t i = 0; i < whole.stream_count; i++)
		if (sfs_stream_info(sfs, i, &info, NULL) == SFS_OK &&
			!strncmp(info.name, "packets.", 8) &&
			pri_volume_evicted_until(volume, info.id) > until)
			until = pri_volume_evicted_until(volume, info.id);
	return until;
}

static const char *
why_unknown(struct pri_volume *volume, const struct pri_announcer_input *facts)
{
	struct pri_volume_stats figures;

	pri_volume_stats(volume, &figures);
	if (figures.corrupt_records)
		return "some of its records are damaged";
	return facts->text ? facts->text : "";
}

int
pri_announcer_send(struct pri_volume *volume, const struct pri_announcer_input *facts,
	struct pr_rpc *rpc, uint64_t *bytes)
{
	struct message *m = calloc(1, sizeof(*m));
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	int rc = -1;

	if (!m)
		return -1;
	packrack__coverage__init(&m->coverage);
	m->coverage.boot = facts->boot;
	m->coverage.text = (char *)why_unknown(volume, facts);
	m->coverage.cluster = (char *)(facts->cluster ? facts->cluster : "");
	m->coverage.settled_until = facts->settled_until;
	m->coverage.evicted_until = evicted_until(volume);
	fill_open(m, facts);
	fill_book(m, &volume->ledger);
	fill_deleted(m, volume);
	if (fill_items(m, &volume->ledger, facts) == 0) {
		env.body_case = PACKRACK__ENVELOPE__BODY_COVERAGE;
		env.coverage = &m->coverage;
		*bytes = packrack__envelope__get_packed_size(&env);
		rc = pr_rpc_send(rpc, NULL, &env, NULL);
	}
	free(m->infos);
	free(m->pointers);
	free(m);
	return rc;
}

#define READS_A_TICK 64
#define TELL_NS PR_NS_PER_S /* without news */
#define WANT_MAX 16 /* summaries for one request */
#define CHUNK 1000 /* told of in one message */
/* A packet of a live link is stored and listed so long after its time: twice the match timeout, and to spare. */
#define STORED_NS (5 * PR_NS_PER_S)

struct stream {
	uint16_t link;
	uint64_t next; /* summaries of segments before this one are taken in */
};

struct pri_summary_announcer {
	struct pri_volume *volume;
	struct pri_index_follower *feed;
	const char *cluster;
	uint64_t boot, restarts;
	struct pri_announced_summary *items; /* numbered from base on */
	size_t count, room;
	uint64_t base;
	struct stream *streams;
	size_t stream_count;
	bool listing; /* there are more to take in */
	struct pri_read_buffer buffer;
};

static void
begin_anew(struct pri_summary_announcer *o)
{
	o->boot = (uint64_t)pr_nonce_make() << 32 | pr_nonce_make();
	o->restarts = pri_follower_restarts(o->feed);
	o->base = 0;
	o->count = 0;
	o->stream_count = 0;
	o->listing = true;
}

struct pri_summary_announcer *
pri_announcer_create(struct pri_volume *volume, struct pri_index_follower *feed,
	const char *cluster, struct pr_error *err)
{
	struct pri_summary_announcer *o = calloc(1, sizeof(*o));

	if (!o) {
		pr_error_set(err, "no memory for summaries");
		return NULL;
	}
	o->volume = volume;
	o->feed = feed;
	o->cluster = cluster;
	begin_anew(o);
	return o;
}

void
pri_announcer_destroy(struct pri_summary_announcer **offer)
{
	struct pri_summary_announcer *o = *offer;

	if (!o)
		return;
	free(o->items);
	free(o->streams);
	free(o->buffer.bytes);
	free(o);
	*offer = NULL;
}

/* ---- taking in ---- */

static struct stream *
stream_of(struct pri_summary_announcer *o, uint16_t link)
{
	struct stream *grown;

	for (size_t i = 0; i < o->stream_count; i++)
		if (o->streams[i].link == link)
			return &o->streams[i];
	grown = realloc(o->streams, (o->stream_count + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	o->streams = grown;
	o->streams[o->stream_count] = (struct stream){.link = link};
	return &o->streams[o->stream_count++];
}

static struct pri_announced_summary *
new_item(struct pri_summary_announcer *o)
{
	size_t room = o->room ? o->room * 2 : 64;
	struct pri_announced_summary *grown;

	if (o->count < o->room)
		return &o->items[o->count];
	grown = realloc(o->items, room * sizeof(*grown));
	if (!grown)
		return NULL;
	o->items = grown;
	o->room = room;
	return &o->items[o->count];
}

/* Its head alone is read. */
static bool
read_span(struct pri_summary_announcer *o, const struct pri_index_ref *ref,
	struct pr_summary_span *span)
{
	const uint8_t *at;

	return pri_volume_read_part(o->volume, &ref->handle, 0, PR_SUMMARY_HEADER,
		       &o->buffer, &at, NULL) == SFS_OK &&
	       pr_summary_peek(span, at, PR_SUMMARY_HEADER, NULL) == 0 &&
	       span->first_sequence == ref->first_sequence &&
	       span->segments == ref->segments;
}

static void
take(struct pri_summary_announcer *o, const struct pri_index_stream *s,
	const struct pri_index_ref *ref)
{
	struct pri_announced_summary *item = new_item(o);

	if (!item || !read_span(o, ref, &item->span) || item->span.link != s->link)
		return; /* it is as if there were none: the feed's spans have it */
	item->check = ref->check;
	item->handle = ref->handle;
	o->count++;
	pri_follower_summarized(o->feed, s->link, ref->first_sequence, ref->segments);
}

/* Whether it is about the segments that are there: not known as long as these are not listed. */
static bool
known(const struct pri_index_stream *s, const struct pri_index_ref *ref)
{
	uint64_t check;

	return ref->first_sequence < s->base ||
	       pri_index_check(s, ref->first_sequence, ref->segments, &check);
}

static void
take_stream(struct pri_summary_announcer *o, struct pri_index_stream *s, unsigned *reads)
{
	struct stream *mine = stream_of(o, s->link);
	struct pri_index_list *list = &s->level[2];
	size_t at = list->count;

	if (!mine)
		return;
	while (at > 0 && list->items[at - 1].first_sequence >= mine->next)
		at--;
	for (; at < list->count && known(s, &list->items[at]); at++) {
		struct pri_index_ref *ref = &list->items[at];

		if (*reads == 0)
			break;
		--*reads;
		if (pri_index_ref_usable(s, ref))
			take(o, s, ref);
		mine->next = ref->first_sequence + ref->segments;
	}
	o->listing |= at < list->count;
}

/* Those whose data was recycled; numbers stay. */
static void
expire(struct pri_summary_announcer *o)
{
	size_t gone = 0;

	while (gone < o->count) {
		const struct pr_summary_span *span = &o->items[gone].span;
		const struct pri_index_stream *s =
			pri_index_map_find(&o->volume->index_map, span->link);

		if (s && span->first_sequence + span->segments > s->base)
			break;
		gone++;
	}
	if (gone <= o->count / 4)
		return;
	o->count -= gone;
	o->base += gone;
	memmove(o->items, o->items + gone, o->count * sizeof(*o->items));
}

void
pri_announcer_tick(struct pri_summary_announcer *o)
{
	struct pri_index_map *book = &o->volume->index_map;
	unsigned reads = READS_A_TICK;

	if (o->restarts != pri_follower_restarts(o->feed))
		begin_anew(o);
	o->listing = false;
	for (size_t i = 0; i < book->count; i++)
		take_stream(o, book->streams[i], &reads);
	expire(o);
}

/* ---- telling ---- */

static int64_t
settled_until(struct pri_summary_announcer *o)
{
	struct sfs_volume_info whole;

	if (sfs_info(o->volume->sfs, &whole, NULL) == SFS_OK && !whole.writer_alive)
		return PR_TIME_MAX;
	return pr_now_real() - STORED_NS;
}

/*
 * Hash of the extents without a summary that begin before `settled`. When it changes mergers are told again; newer
 * extents are left out of it, as they change all the time.
 */
static uint64_t
open_mark(const struct pri_announcer_input *facts, int64_t settled)
{
	uint64_t mark = facts->text ? 1 : 0;

	for (size_t i = 0; i < facts->span_count; i++) {
		const struct pr_summary_span *s = &facts->spans[i];
		int64_t most = s->max_time < settled ? s->max_time : settled;

		if (s->min_time < settled)
			mark = (mark + (uint64_t)s->min_time) * 0x9e3779b97f4a7c15u +
			       (uint64_t)most;
	}
	return mark;
}

static void
gather(struct pri_summary_announcer *o, struct pri_announced *line,
	struct pri_announcer_input *facts)
{
	bool unknown;

	facts->boot = o->boot;
	facts->cluster = o->cluster;
	facts->total = o->base + o->count;
	facts->first_number = line->sent > o->base ? line->sent : o->base;
	facts->span_count = pri_follower_unsummarized(o->feed, facts->spans, &unknown);
	facts->settled_until = settled_until(o);
	facts->text = unknown      ? "some of its data is not indexed"
		      : o->listing ? "it lists its summaries"
				   : NULL;
	facts->items = o->items + (facts->first_number - o->base);
	facts->item_count = (size_t)(facts->total - facts->first_number);
	if (facts->item_count > CHUNK)
		facts->item_count = CHUNK;
}

void
pri_announcer_tell(
	struct pri_summary_announcer *o, struct pri_announced *line, struct pr_rpc *rpc)
{
	struct pri_announcer_input facts;
	int64_t now = pr_now_mono();
	uint64_t bytes;

	if (line->boot != o->boot)
		*line = (struct pri_announced){.bytes = line->bytes};
	gather(o, line, &facts);
	if (line->boot && !facts.item_count && now - line->said < TELL_NS &&
		open_mark(&facts, line->settled_until) == line->open)
		return;
	if (pri_announcer_send(o->volume, &facts, rpc, &bytes) < 0)
		return; /* the next tick tries again */
	line->boot = o->boot;
	line->said = now;
	line->bytes += bytes;
	line->settled_until = facts.settled_until;
	line->open = open_mark(&facts, line->settled_until);
	line->sent = facts.first_number + facts.item_count;
}

static void
send_summary(struct pri_summary_announcer *o, struct pri_announced *line,
	struct pr_rpc *rpc, uint64_t number)
{
	Packrack__Summary m = PACKRACK__SUMMARY__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	const struct pri_announced_summary *item = NULL;
	const uint8_t *body;

	if (number >= o->base && number - o->base < o->count)
		item = &o->items[number - o->base];
	m.boot = o->boot;
	m.number = number;
	if (item && pri_volume_read_record(
			    o->volume, &item->handle, &o->buffer, &body, NULL) == SFS_OK) {
		m.body.data = (uint8_t *)body;
		m.body.len = item->handle.length;
	}
	env.body_case = PACKRACK__ENVELOPE__BODY_SUMMARY;
	env.summary = &m;
	line->bytes += packrack__envelope__get_packed_size(&env);
	pr_rpc_send(rpc, NULL, &env, NULL);
}

void
pri_announcer_want(struct pri_summary_announcer *o, struct pri_announced *line,
	struct pr_rpc *rpc, const Packrack__SummaryWant *want)
{
	if (want->boot != o->boot)
		return;
	for (size_t i = 0; i < want->n_numbers && i < WANT_MAX; i++)
		send_summary(o, line, rpc, want->numbers[i]);
}
