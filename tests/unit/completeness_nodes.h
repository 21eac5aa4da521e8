/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "merger/completeness.h"
#include "proto/wire/frame.h"

/* What nodes tell of one epoch, and what is made of it. */

#define NOW INT64_C(1000000000000000000)

static inline struct prm_completeness *
make(int64_t since, int64_t until, size_t sweep)
{
	struct prm_completeness_options o = {
		.since = since, .until = until, .now = NOW, .sweep_bytes = sweep};
	struct prm_completeness *c = prm_completeness_create(&o, NULL);

	ck_assert_ptr_nonnull(c);
	return c;
}

static inline void
batch_held(struct prm_completeness *c, int node, uint32_t link, uint64_t first,
	uint64_t last, int64_t t0, int64_t t1, const char *bits, int64_t frontier)
{
	Packrack__Held h = PACKRACK__HELD__INIT, *list = &h;
	Packrack__Batch b = PACKRACK__BATCH__INIT;
	struct pr_error err = {""};

	h.epoch = 7;
	h.link = link;
	h.first = first;
	h.last = last;
	h.first_otime = t0;
	h.last_otime = t1;
	if (bits) {
		h.bits.data = (uint8_t *)bits;
		h.bits.len = (size_t)(last - first) / 8 + 1;
	}
	b.held = &list;
	b.n_held = 1;
	b.frontier = frontier;
	ck_assert_msg(prm_completeness_batch(c, node, &b, &err) == 0, "%s", err.text);
}

static inline void
end_with(struct prm_completeness *c, int node, Packrack__Loss *loss,
	Packrack__Ledger *ledger, Packrack__Evicted *evicted)
{
	Packrack__End end = PACKRACK__END__INIT;
	struct pr_error err = {""};

	end.losses = &loss;
	end.n_losses = loss ? 1 : 0;
	end.ledgers = &ledger;
	end.n_ledgers = ledger ? 1 : 0;
	end.evicted = &evicted;
	end.n_evicted = evicted ? 1 : 0;
	ck_assert_msg(prm_completeness_end(c, node, &end, &err) == 0, "%s", err.text);
}

/* Has an entry of the list of missing packets this seq? */
static inline bool
loss_has(const Packrack__Loss *l, uint64_t seq)
{
	return seq >= l->first_seq && seq <= l->last_seq &&
	       (!l->step || (seq - l->first_seq) % l->step < l->count / l->ranges);
}

static inline Packrack__Completeness *
finish(struct prm_completeness *c)
{
	Packrack__Completeness *out;
	struct pr_error err = {""};

	ck_assert_msg(prm_completeness_finish(c, &out, &err) == 0, "%s", err.text);
	prm_completeness_destroy(&c);
	return out;
}

static inline void
out_free(Packrack__Completeness *out)
{
	packrack__completeness__free_unpacked(out, NULL);
}

static inline Packrack__Ledger
ledger(uint64_t last_seq, int64_t last_otime, int64_t said_until, bool ended)
{
	Packrack__Ledger l = PACKRACK__LEDGER__INIT;

	l.epoch = 7;
	l.last_seq = last_seq;
	l.last_otime = last_otime;
	/* of an epoch that has ended all time is confirmed */
	l.said_until = ended && !said_until ? INT64_MAX : said_until;
	l.first_said = -INT64_MAX;
	l.ended = ended;
	return l;
}

static inline Packrack__Loss
loss_of(uint64_t first, uint64_t last, uint64_t count, int64_t t0, int64_t t1)
{
	Packrack__Loss l = PACKRACK__LOSS__INIT;

	l.epoch = 7;
	l.first_seq = first;
	l.last_seq = last;
	l.count = count;
	l.first_time = t0;
	l.last_time = t1;
	l.reason = (char *)"switch";
	return l;
}

static inline void
batch_edge(struct prm_completeness *c, int node, uint64_t seq, int64_t time)
{
	Packrack__Held h = PACKRACK__HELD__INIT, *list = &h;
	Packrack__Batch b = PACKRACK__BATCH__INIT;
	struct pr_error err = {""};

	h.epoch = 7;
	h.first = h.last = seq;
	h.first_otime = h.last_otime = time;
	b.edge = &list;
	b.n_edge = 1;
	ck_assert_msg(prm_completeness_batch(c, node, &b, &err) == 0, "%s", err.text);
}
