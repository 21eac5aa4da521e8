/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/summary_announcer.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/offer_message.h"
#include "proto/base/clock.h"
#include "proto/wire/frame.h"

#define READS_A_TICK 64
#define TELL_NS PR_NS_PER_S /* without news */
#define WANT_MAX 16 /* summaries for one request */
#define CHUNK 1000 /* told of in one message */
/* A packet of a live link is stored and listed within so much of its time: hold time, and to spare. */
#define SETTLE_NS (5 * PR_NS_PER_S)

struct stream {
	uint16_t link;
	uint64_t next; /* summaries of segments before this one are taken in */
};

struct pri_summary_announcer {
	struct pri_volume *view;
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
pri_announcer_create(struct pri_volume *view, struct pri_index_follower *feed,
	const char *cluster, struct pr_error *err)
{
	struct pri_summary_announcer *o = calloc(1, sizeof(*o));

	if (!o) {
		pr_error_set(err, "no memory for summaries");
		return NULL;
	}
	o->view = view;
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

	return pri_volume_read_part(o->view, &ref->handle, 0, PR_SUMMARY_HEADER, &o->buffer,
		       &at, NULL) == SFS_OK &&
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
			pri_index_map_find(pri_volume_index_map(o->view), span->link);

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
	struct pri_index_map *book = pri_volume_index_map(o->view);
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
	struct sfs_volume_info volume;

	if (sfs_info(pri_volume_sfs(o->view), &volume, NULL) == SFS_OK &&
		!volume.writer_alive)
		return PR_TIME_MAX;
	return pr_now_real() - SETTLE_NS;
}

/*
 * Stands for what is without summary and older than what is settled: news when it changes. What is
 * newer grows all the time, and nobody is left out because of it.
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
	if (pri_announcer_send(o->view, &facts, rpc, &bytes) < 0)
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
			    o->view, &item->handle, &o->buffer, &body, NULL) == SFS_OK) {
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
