/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/summary_announcer.h"

#include "indexer/query/hello.h"

#define READS_A_TICK 64
#define TELL_NS PR_NS_PER_S /* between messages without news */
#define WANT_MAX 16 /* summaries for one request */
/*
 * A packet of a live link is stored and listed at most this long after its time: twice the
 * match timeout, and some reserve.
 */
#define STORED_NS (5 * PR_NS_PER_S)

/* A summary in the volume. */
struct announced {
	struct sfs_handle handle;
	uint64_t check;
	struct pr_summary_span span;
};

struct pri_summary_announcer {
	struct pri_volume *volume;
	struct pri_index_follower *feed;
	const char *cluster;
	uint64_t boot, restarts;
	struct announced *items; /* numbered from base on */
	size_t count;
	uint64_t base;
	bool listing; /* not all summaries of the volume were taken in yet */
	struct pri_read_buffer buffer;
};

#define CHUNK 1000 /* summaries in one message */
enum { LEDGERS = 64, RANGES = 64 };
#define LOSSES 16 /* ranges of losses; RANGES of what was deleted */
#define LOSS_GAP_NS (60 * PR_NS_PER_S) /* losses nearer to each other are one range */

/* Ranges of time. If the list is full, its last range covers the rest. */
struct ranges {
	Packrack__TimeRange items[RANGES], *pointers[RANGES];
	size_t count;
};

struct message {
	Packrack__Coverage coverage;
	Packrack__SummaryInfo open[PRI_FOLLOWER_SPANS], *open_pointers[PRI_FOLLOWER_SPANS];
	Packrack__SummaryInfo infos[CHUNK], *pointers[CHUNK];
	Packrack__Ledger ledgers[LEDGERS], *ledger_pointers[LEDGERS];
	struct ranges losses, deleted;
};

/* The contents of a Coverage message. */
struct news {
	const char *text; /* why nothing is known; NULL: the rest is valid */
	int64_t settled_until;
	struct pr_summary_span spans[PRI_FOLLOWER_SPANS]; /* without summary */
	size_t span_count;
	const struct announced *items; /* the first is numbered first_number */
	size_t item_count;
	uint64_t first_number;
};

static void
begin_anew(struct pri_summary_announcer *o)
{
	o->boot = (uint64_t)pr_nonce_make() << 32 | pr_nonce_make();
	o->restarts = pri_follower_restarts(o->feed);
	o->base = 0;
	o->count = 0;
	o->listing = true;
	for (size_t i = 0; i < o->volume->index_map.count; i++)
		o->volume->index_map.streams[i]->announced = 0;
}

struct pri_summary_announcer *
pri_announcer_create(
	struct pri_volume *volume, struct pri_index_follower *feed, const char *cluster)
{
	struct pri_summary_announcer *o = calloc(1, sizeof *o);

	if (!o)
		return NULL;
	o->volume = volume;
	o->feed = feed;
	o->cluster = cluster;
	begin_anew(o);
	return o;
}

void
pri_announcer_destroy(struct pri_summary_announcer **offer)
{
	struct pri_summary_announcer *o = PR_TAKE(offer);

	if (!o)
		return;
	PR_FREE(o, items, buffer.bytes);
	free(o);
}

/* ---- taking in ---- */

static void
take(struct pri_summary_announcer *o, const struct pri_index_stream *s,
	const struct pri_index_ref *ref)
{
	struct announced item = {.check = ref->check, .handle = ref->handle};
	const uint8_t *at;
	/*
	 * reads only the summary's header. Its block may be overwritten before that of its segments; and of a
	 * summary whose first segments are gone nobody knows that it is about the others
	 */
	bool readable = ref->proven &&
			pri_volume_read_part(o->volume, &ref->handle, 0, PR_SUMMARY_HEADER,
				&o->buffer, &at) == SFS_OK &&
			pr_summary_peek(&item.span, at, PR_SUMMARY_HEADER, NULL) == 0 &&
			item.span.first_sequence == ref->first_sequence &&
			item.span.segments == ref->segments && item.span.link == s->link &&
			PR_ARRAY_GROW(o->items, o->count) == 0;

	if (readable)
		o->items[o->count++] = item;
	pri_follower_summarized(
		o->feed, s->link, ref->first_sequence, ref->segments, readable);
}

static void
take_stream(struct pri_summary_announcer *o, struct pri_index_stream *s, unsigned *reads)
{
	struct pri_index_list *list = &s->level[2];
	size_t at = list->count;
	uint64_t check;

	while (at > 0 && list->items[at - 1].first_sequence >= s->announced)
		at--;
	for (; at<list->count && * reads> 0; at++, --*reads) {
		struct pri_index_ref *ref = &list->items[at];

		/* is it about the present segments? Not known until these are listed */
		if (ref->first_sequence >= s->base &&
			!pri_index_check(s, ref->first_sequence, ref->segments, &check))
			break;
		if (pri_index_ref_usable(s, ref))
			take(o, s, ref);
		s->announced = ref->first_sequence + ref->segments;
	}
	o->listing |= at < list->count;
}

void
pri_announcer_tick(struct pri_summary_announcer *o)
{
	struct pri_index_map *map = &o->volume->index_map;
	unsigned reads = READS_A_TICK;
	size_t gone = 0;

	if (o->restarts != pri_follower_restarts(o->feed))
		begin_anew(o);
	o->listing = false;
	for (size_t i = 0; i < map->count; i++)
		take_stream(o, map->streams[i], &reads);
	/* drops summaries whose data was overwritten; the numbers of the others stay */
	for (; gone < o->count; gone++) {
		const struct pr_summary_span *span = &o->items[gone].span;
		const struct pri_index_stream *s = pri_index_map_find(map, span->link);

		if (s && span->first_sequence + span->segments > s->base)
			break;
	}
	if (gone <= o->count / 4)
		return;
	o->count -= gone;
	o->base += gone;
	memmove(o->items, o->items + gone, o->count * sizeof *o->items);
}

/* ---- contents of a message ---- */

void
pri_announcer_info(Packrack__SummaryInfo *out, const struct pr_summary_span *s)
{
	packrack__summary_info__init(out);
	out->link = pr_stream_link(s->link);
	PR_COPY(out, s, first_sequence, segments, epoch, first_seq, last_seq);
	PR_COPY(out, s, packets, first_otime, last_otime, min_time, max_time);
}

static void
fill_items(struct message *m, struct pri_summary_announcer *o, const struct news *news)
{
	for (size_t i = 0; i < news->item_count; i++) {
		const struct announced *item = &news->items[i];
		const struct pri_series_ledger *ledger =
			pri_ledger_view_find(&o->volume->ledger, item->span.epoch,
				pr_stream_link(item->span.link));
		Packrack__LinkInfo info;

		pri_announcer_info(&m->infos[i], &item->span);
		m->infos[i].number = news->first_number + i;
		m->infos[i].check = item->check;
		m->infos[i].bytes = item->handle.length;
		if (ledger) { /* as in Hello, from which users compile filters */
			pri_hello_link(&info, ledger);
			m->infos[i].linktype = 1 + info.linktype;
		}
		m->pointers[i] = &m->infos[i];
	}
	for (size_t i = 0; i < news->span_count; i++) {
		pri_announcer_info(&m->open[i], &news->spans[i]);
		m->open_pointers[i] = &m->open[i];
	}
	m->coverage.open = m->open_pointers;
	m->coverage.n_open = news->span_count;
	m->coverage.summaries = m->pointers;
	m->coverage.n_summaries = news->item_count;
	m->coverage.first_number = news->first_number;
	m->coverage.total = o->base + o->count;
}

/*
 * Adds a range. Merges it with the last one if the gap is below `gap`, or the list has
 * `max`.
 */
static void
add_range(struct ranges *r, size_t max, int64_t gap, int64_t since, int64_t until)
{
	Packrack__TimeRange *last = r->count ? &r->items[r->count - 1] : NULL;

	if (last && (r->count == max || (pr_time_minus(since, last->until) < gap &&
						pr_time_minus(last->since, until) < gap))) {
		pr_time_widen(&last->since, &last->until, since, until);
		return;
	}
	last = &r->items[r->count];
	packrack__time_range__init(last);
	last->since = since;
	last->until = until;
	r->pointers[r->count++] = last;
}

/* The ledger is sorted by epoch, and epochs begin with their start time: the newest are last. */
static void
fill_ledger(struct message *m, const struct pri_volume *volume)
{
	const struct pri_ledger_view *ledger = &volume->ledger;
	const struct pri_catalog *catalog = &volume->catalog;
	Packrack__Coverage *c = &m->coverage;

	c->ledgers_until = PR_TIME_MIN;
	for (size_t i = ledger->count; i-- > 0;) {
		const struct pri_series_ledger *s = ledger->series[i];
		int64_t last = s->mark.link.last_otime;
		Packrack__Ledger *l = &m->ledgers[c->n_ledgers];

		last = PR_MAX(last, s->mark.said_until);
		if (s->have_mark && c->n_ledgers < LEDGERS) {
			pri_hello_ledger(l, s);
			/* drops are told by their times, so that only queries of these times ask */
			l->dropped_kernel = l->dropped_interface = l->dropped_ring = 0;
			m->ledger_pointers[c->n_ledgers++] = l;
		} else if (s->have_mark && c->ledgers_until < last) {
			c->ledgers_until = last;
		}
		for (size_t j = 0; j < s->drop_count; j++)
			add_range(&m->losses, LOSSES, LOSS_GAP_NS, s->drops[j].since,
				s->drops[j].until);
		/* a loss without known seqs explains no hole, and answers do not list it */
		for (size_t j = 0; j < s->loss_count; j++)
			if (s->losses[j].first_seq)
				add_range(&m->losses, LOSSES, LOSS_GAP_NS,
					s->losses[j].first_time, s->losses[j].last_time);
	}
	/* strays may belong to any link */
	for (size_t i = 0; i < catalog->series_count; i++)
		for (size_t j = 0;
			catalog->series[i]->strays && j < catalog->series[i]->run_count;
			j++) {
			const struct pri_sorted_run *run = catalog->series[i]->runs[j];

			for (size_t k = run->head; k < run->head + run->count; k++)
				add_range(&m->losses, LOSSES, LOSS_GAP_NS,
					run->items[k].min_time, run->items[k].max_time);
		}
	c->losses = m->losses.pointers;
	c->n_losses = m->losses.count;
	c->ledgers = m->ledger_pointers;
}

/*
 * Adds what was overwritten of the packet streams, and what was deleted from their middle.
 */
static void
fill_gone(struct message *m, struct pri_volume *volume)
{
	Packrack__Coverage *c = &m->coverage;
	struct sfs_volume_info whole;
	struct sfs_stream_info info;

	c->evicted_until = PR_TIME_MIN;
	sfs_info(volume->sfs, &whole, NULL);
	for (size_t i = 0; i < whole.stream_count; i++) {
		struct sfs_deleted hole = {0};

		if (sfs_stream_info(volume->sfs, i, &info, NULL) != SFS_OK ||
			strncmp(info.name, "packets.", 8) != 0)
			continue;
		c->evicted_until = PR_MAX(c->evicted_until, info.evicted_until);
		while (sfs_stream_deleted(volume->sfs, i, hole.last + 1, &hole))
			add_range(&m->deleted, RANGES, 0, hole.min_time, hole.max_time);
	}
	c->deleted = m->deleted.pointers;
	c->n_deleted = m->deleted.count;
}

static int
send_coverage(struct pri_summary_announcer *o, const struct news *news, struct pr_rpc *rpc,
	uint64_t *bytes)
{
	struct message *m = calloc(1, sizeof *m);
	struct pri_volume_stats figures;

	if (!m)
		return -1;
	packrack__coverage__init(&m->coverage);
	pri_volume_stats(o->volume, &figures);
	m->coverage.boot = o->boot;
	const char *text =
		figures.corrupt_records ? "some of its records are damaged" : news->text;
	m->coverage.text = (char *)(text ? text : "");
	m->coverage.cluster = (char *)(o->cluster ? o->cluster : "");
	m->coverage.settled_until = news->settled_until;
	fill_items(m, o, news);
	fill_ledger(m, o->volume);
	fill_gone(m, o->volume);
	Packrack__Envelope env =
		pr_message_of(0, PACKRACK__ENVELOPE__BODY_COVERAGE, &m->coverage);
	*bytes = packrack__envelope__get_packed_size(&env);
	int rc = pr_rpc_send(rpc, NULL, &env, NULL);
	free(m);
	return rc;
}

/* ---- sending ---- */

/*
 * Hash of the extents without summary that begin before `settled`. When it changes, mergers
 * get a new report. Newer extents are not included, as they change all the time.
 */
static uint64_t
open_mark(const struct news *news, int64_t settled)
{
	uint64_t mark = news->text ? 1 : 0;

	for (size_t i = 0; i < news->span_count; i++) {
		const struct pr_summary_span *s = &news->spans[i];
		int64_t most = PR_MIN(s->max_time, settled);

		if (s->min_time < settled)
			mark = (mark + s->min_time) * 0x9e3779b97f4a7c15u + most;
	}
	return mark;
}

static void
gather(struct pri_summary_announcer *o, struct pri_announced *line, struct news *news)
{
	struct sfs_volume_info whole;
	bool unknown;

	news->first_number = PR_MAX(line->sent, o->base);
	news->span_count = pri_follower_unsummarized(o->feed, news->spans, &unknown);
	news->settled_until = pr_now_real() - STORED_NS;
	sfs_info(o->volume->sfs, &whole, NULL);
	if (!whole.writer_alive)
		news->settled_until = PR_TIME_MAX;
	news->text = unknown      ? "some of its data is not indexed"
		     : o->listing ? "it lists its summaries"
				  : NULL;
	news->items = o->items + (news->first_number - o->base);
	news->item_count = o->base + o->count - news->first_number;
	news->item_count = PR_MIN(news->item_count, CHUNK);
}

void
pri_announcer_tell(
	struct pri_summary_announcer *o, struct pri_announced *line, struct pr_rpc *rpc)
{
	struct news news;
	int64_t now = pr_now_mono();
	uint64_t bytes;

	if (line->boot != o->boot)
		*line = (struct pri_announced){.bytes = line->bytes};
	gather(o, line, &news);
	if (line->boot && !news.item_count && now - line->said < TELL_NS &&
		open_mark(&news, line->settled_until) == line->open)
		return;
	if (send_coverage(o, &news, rpc, &bytes) < 0)
		return; /* the next tick tries again */
	line->boot = o->boot;
	line->said = now;
	line->bytes += bytes;
	line->settled_until = news.settled_until;
	line->open = open_mark(&news, line->settled_until);
	line->sent = news.first_number + news.item_count;
}

void
pri_announcer_want(struct pri_summary_announcer *o, struct pri_announced *line,
	struct pr_rpc *rpc, const Packrack__SummaryWant *want)
{
	for (size_t i = 0; want->boot == o->boot && i < want->n_numbers && i < WANT_MAX;
		i++) {
		Packrack__Summary m = PACKRACK__SUMMARY__INIT;
		uint64_t number = want->numbers[i];
		const struct sfs_handle *handle = NULL;
		const uint8_t *body;

		if (number >= o->base && number - o->base < o->count)
			handle = &o->items[number - o->base].handle;
		m.boot = o->boot;
		m.number = number;
		if (handle && pri_volume_read_record(
				      o->volume, handle, &o->buffer, &body) == SFS_OK) {
			m.body.data = (uint8_t *)body;
			m.body.len = handle->length;
		}
		Packrack__Envelope env =
			pr_message_of(0, PACKRACK__ENVELOPE__BODY_SUMMARY, &m);
		line->bytes += packrack__envelope__get_packed_size(&env);
		pr_rpc_send(rpc, NULL, &env, NULL);
	}
}
