/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/offer_message.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/query/answer_end.h"
#include "indexer/hello.h"
#include "proto/base/clock.h"

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
	pri_answer_ledger(out, facts);
	m->ledger_pointers[m->coverage.n_ledgers++] = out;
}

/* The book is sorted by epoch, and epochs begin with their start time: the newest are last. */
static void
fill_book(struct message *m, const struct pri_ledger_view *book)
{
	m->coverage.ledgers_until = PR_TIME_MIN;
	for (size_t i = book->count; i-- > 0;) {
		const struct pri_series_ledger *f = book->facts[i];

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
fill_deleted(struct message *m, struct pri_volume *view)
{
	struct sfs *sfs = pri_volume_sfs(view);
	struct sfs_volume_info volume;
	struct sfs_stream_info info;

	m->coverage.deleted = m->deleted_pointers;
	if (sfs_info(sfs, &volume, NULL) != SFS_OK || volume.deletions == 0)
		return;
	for (size_t i = 0; i < volume.stream_count; i++) {
		struct sfs_deleted hole = {0};

		if (sfs_stream_info(sfs, i, &info, NULL) != SFS_OK ||
			strncmp(info.name, "packets.", 8) != 0)
			continue;
		while (sfs_stream_deleted(sfs, (int)i, hole.last + 1, &hole))
			add_deleted(m, &hole);
	}
}

static int64_t
evicted_until(struct pri_volume *view)
{
	struct sfs *sfs = pri_volume_sfs(view);
	int64_t until = PR_TIME_MIN;
	struct sfs_volume_info volume;
	struct sfs_stream_info info;

	if (sfs_info(sfs, &volume, NULL) != SFS_OK)
		return PR_TIME_MAX;
	for (size_t i = 0; i < volume.stream_count; i++)
		if (sfs_stream_info(sfs, i, &info, NULL) == SFS_OK &&
			!strncmp(info.name, "packets.", 8) &&
			pri_volume_evicted_until(view, info.id) > until)
			until = pri_volume_evicted_until(view, info.id);
	return until;
}

static const char *
why_unknown(struct pri_volume *view, const struct pri_announcer_input *facts)
{
	struct pri_volume_stats figures;

	pri_volume_stats(view, &figures);
	if (figures.corrupt_records)
		return "some of its records are damaged";
	return facts->text ? facts->text : "";
}

int
pri_announcer_send(struct pri_volume *view, const struct pri_announcer_input *facts,
	struct pr_rpc *rpc, uint64_t *bytes)
{
	struct message *m = calloc(1, sizeof(*m));
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	int rc = -1;

	if (!m)
		return -1;
	packrack__coverage__init(&m->coverage);
	m->coverage.boot = facts->boot;
	m->coverage.text = (char *)why_unknown(view, facts);
	m->coverage.cluster = (char *)(facts->cluster ? facts->cluster : "");
	m->coverage.settled_until = facts->settled_until;
	m->coverage.evicted_until = evicted_until(view);
	fill_open(m, facts);
	fill_book(m, pri_volume_ledger(view));
	fill_deleted(m, view);
	if (fill_items(m, pri_volume_ledger(view), facts) == 0) {
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
