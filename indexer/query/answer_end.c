/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/answer_end.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/rpc/message.h"

#define LEARN_NS (20 * PR_NS_PER_MS)

/* The ledger's word, kept: an end may be sent when the ledger has gone on. */
struct deleted {
	Packrack__Deleted message;
	struct pr_ledger_deleted word;
};

/* Each list: the messages, and the pointers that protobuf-c wants. */
struct pri_answer_end {
	Packrack__End message;
	Packrack__Loss *losses;
	Packrack__Evicted *evicted;
	struct deleted *deleted; /* one for each evicted, used or not */
	Packrack__Ledger *ledgers;
	bool filled;
};

/* pointers[i] = &items[i], for items of size bytes; NULL: no memory. */
static void *
point_at(void *items, size_t count, size_t size)
{
	void **pointers = calloc(count + 1, sizeof(*pointers));

	for (size_t i = 0; pointers && i < count; i++)
		pointers[i] = (char *)items + i * size;
	return pointers;
}

/* ---- losses ---- */

/* A loss whose seqs are not known explains no hole. */
static bool
loss_concerns(const struct pr_loss *loss, const struct pri_query_spec *spec)
{
	return loss->first_seq > 0 && loss->last_time >= spec->since &&
	       loss->first_time <= spec->until;
}

static size_t
count_losses(const struct pri_series_ledger *facts, const struct pri_query_spec *spec)
{
	size_t count = 0;

	for (size_t i = 0; i < facts->loss_count; i++)
		count += loss_concerns(&facts->losses[i], spec);
	return count;
}

static void
fill_loss(Packrack__Loss *out, const struct pr_loss *loss)
{
	uint64_t span = loss->last_seq - loss->first_seq + 1;

	packrack__loss__init(out);
	out->epoch = loss->epoch;
	out->link = loss->link;
	out->first_seq = loss->first_seq;
	out->last_seq = loss->last_seq;
	out->count = loss->count < span ? loss->count : span;
	out->first_time = loss->first_time;
	out->last_time = loss->last_time;
	out->reason = (char *)pr_loss_reason_name(loss->reason);
}

/* Those of one link, at most max. */
static int
add_losses(struct pri_answer_end *end, const struct pri_series_ledger *facts,
	const struct pri_query_spec *spec, size_t count, size_t max)
{
	struct pr_loss *some = calloc(count, sizeof(*some));
	size_t n = 0;

	if (!some)
		return -1;
	for (size_t i = 0; i < facts->loss_count; i++)
		if (loss_concerns(&facts->losses[i], spec))
			some[n++] = facts->losses[i];
	n = pri_losses_coalesce(some, n, max);
	for (size_t i = 0; i < n; i++)
		fill_loss(&end->losses[end->message.n_losses++], &some[i]);
	free(some);
	return 0;
}

static int
fill_losses(
	struct pri_answer_end *end, const struct pri_ledger_view *book, struct pri_query *q)
{
	const struct pri_query_spec *spec = pri_query_spec(q);
	size_t total = 0, room, links = 0;

	for (size_t i = 0; i < book->count; i++) {
		size_t count = pri_query_selects(q, book->facts[i])
				       ? count_losses(book->facts[i], spec)
				       : 0;
		total += count;
		links += count > 0;
	}
	room = total < PRI_ANSWER_LOSSES_MAX ? total : PRI_ANSWER_LOSSES_MAX + links;
	end->losses = calloc(room + 1, sizeof(*end->losses));
	if (!end->losses)
		return -1;
	for (size_t i = 0; i < book->count; i++) {
		const struct pri_series_ledger *f = book->facts[i];
		size_t count = pri_query_selects(q, f) ? count_losses(f, spec) : 0;
		size_t max = total <= room ? count : count * PRI_ANSWER_LOSSES_MAX / total;
		if (count && add_losses(end, f, spec, count, max) < 0)
			return -1;
	}
	end->message.losses =
		point_at(end->losses, end->message.n_losses, sizeof(*end->losses));
	return end->message.losses ? 0 : -1;
}

/* ---- what is evicted ---- */

/* By whom, as far as somebody had it deleted. deleted: room for it. since: of the query. */
static void
say_deleted(Packrack__Evicted *out, struct deleted *deleted,
	const struct pri_ledger_view *book, int64_t since)
{
	const struct pr_ledger_deleted *from =
		pri_ledger_view_deletion(book, (uint16_t)out->link, !out->midst,
			out->midst && out->since > since ? out->since : since, out->until);

	if (!from)
		return;
	deleted->word = *from;
	packrack__deleted__init(&deleted->message);
	deleted->message.at = from->at;
	deleted->message.since = from->since == PR_TIME_MIN ? 0 : from->since;
	deleted->message.until = from->until;
	deleted->message.by = deleted->word.by;
	deleted->message.moved_to = deleted->word.moved_to;
	deleted->message.segments = from->records;
	deleted->message.bytes = from->bytes;
	out->deleted = &deleted->message;
}

/* What went under a query's hands may be news to the view: before it goes, the ledger has who deletes it. */
static void
learn_why(struct pri_volume *view, const struct pri_evicted *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].overtaken) {
			pri_volume_refresh(view, false, pr_now_mono() + LEARN_NS, NULL);
			return;
		}
}

static int
fill_evicted(struct pri_answer_end *end, struct pri_volume *view, struct pri_query *q,
	struct pr_error *err)
{
	struct pri_evicted *list;
	size_t count;

	if (pri_query_evicted(q, &list, &count, err) < 0)
		return -1;
	learn_why(view, list, count);
	end->evicted = calloc(count + 1, sizeof(*end->evicted));
	end->deleted = calloc(count + 1, sizeof(*end->deleted));
	for (size_t i = 0; end->evicted && end->deleted && i < count; i++) {
		Packrack__Evicted *out = &end->evicted[i];
		packrack__evicted__init(out);
		out->stream = (char *)pri_volume_stream_name(view, list[i].stream);
		out->midst = list[i].since != PR_TIME_MIN;
		out->since = out->midst ? list[i].since : 0;
		out->until = list[i].until;
		out->epoch = list[i].epoch;
		out->link = list[i].link;
		out->last_seq = list[i].last_seq;
		say_deleted(out, &end->deleted[i], pri_volume_ledger(view),
			pri_query_spec(q)->since);
	}
	free(list);
	end->message.n_evicted = end->deleted ? count : 0;
	end->message.evicted = end->evicted && end->deleted ? point_at(end->evicted, count,
								      sizeof(*end->evicted))
							    : NULL;
	return end->message.evicted ? 0
				    : pr_error_set(err, "no memory for an answer's end");
}

/* ---- ledgers ---- */

/* An epoch that was over before the time range concerns nobody. */
static bool
ledger_concerns(const struct pri_series_ledger *facts, struct pri_query *q)
{
	return facts->have_mark && pri_query_selects(q, facts) &&
	       facts->mark.link.last_otime >= pri_query_spec(q)->since;
}

void
pri_answer_ledger(Packrack__Ledger *out, const struct pri_series_ledger *facts)
{
	const struct pr_mark_link *l = &facts->mark.link;

	packrack__ledger__init(out);
	out->epoch = facts->epoch;
	out->link = facts->link;
	out->last_seq = l->last_seq;
	out->last_otime = l->last_otime;
	out->said_until = facts->mark.said_until;
	out->ended = l->ended || facts->mark.stopping;
	out->dropped_kernel = l->dropped_kernel;
	out->dropped_interface = l->dropped_interface;
	out->dropped_ring = l->dropped_ring;
	out->dropped_no_node = l->dropped_no_node;
	out->dropped_send = l->dropped_send;
	out->cut = l->cut;
	out->name = (char *)pri_series_ledger_name(facts);
	out->linktype = l->linktype;
	out->snaplen = l->snaplen;
}

static int
fill_ledgers(
	struct pri_answer_end *end, const struct pri_ledger_view *book, struct pri_query *q)
{
	end->ledgers = calloc(book->count + 1, sizeof(*end->ledgers));
	if (!end->ledgers)
		return -1;
	for (size_t i = 0; i < book->count; i++)
		if (ledger_concerns(book->facts[i], q))
			pri_answer_ledger(
				&end->ledgers[end->message.n_ledgers++], book->facts[i]);
	end->message.ledgers =
		point_at(end->ledgers, end->message.n_ledgers, sizeof(*end->ledgers));
	return end->message.ledgers ? 0 : -1;
}

struct pri_answer_end *
pri_answer_end_create(
	struct pri_volume *view, struct pri_query *query, struct pr_error *err)
{
	const struct pri_ledger_view *book = pri_volume_ledger(view);
	struct pri_answer_end *end = calloc(1, sizeof(*end));

	if (!end) {
		pr_error_set(err, "no memory for an answer's end");
		return NULL;
	}
	packrack__end__init(&end->message);
	if (fill_ledgers(end, book, query) == 0)
		return end;
	pr_error_set(err, "no memory for an answer's end");
	pri_answer_end_destroy(&end);
	return NULL;
}

int
pri_answer_end_fill(struct pri_answer_end *end, struct pri_volume *view,
	struct pri_query *query, struct pr_error *err)
{
	if (end->filled)
		return 0;
	end->filled = true;
	pr_message_copy_numbers(&end->message.base, &pri_query_stats(query)->base);
	if (fill_losses(end, pri_volume_ledger(view), query) < 0)
		return pr_error_set(err, "no memory for an answer's end");
	return fill_evicted(end, view, query, err);
}

void
pri_answer_end_destroy(struct pri_answer_end **end)
{
	struct pri_answer_end *e = *end;

	if (!e)
		return;
	free(e->message.losses);
	free(e->message.evicted);
	free(e->message.ledgers);
	free(e->losses);
	free(e->evicted);
	free(e->deleted);
	free(e->ledgers);
	free(e);
	*end = NULL;
}

const Packrack__End *
pri_answer_end_message(const struct pri_answer_end *end)
{
	return &end->message;
}
