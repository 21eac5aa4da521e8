/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nodes report of an answer, at any times. Covers merger/completeness.c
 * Options -max_len=768
 *
 * The input is bytes: since, until and now (a byte each says which), then reports: a byte (node, kind) and what it
 * needs. Reports go through the check of messages first, as those of nodes do.
 */
#include <string.h>

#include "merger/completeness.h"
#include "proto/rpc/message.h"
#include "tests/fuzz/fuzz.h"

enum { NODES = 3, ITEMS = 4 };

static const uint8_t *at, *end;

static uint8_t
byte(void)
{
	return at < end ? *at++ : 0;
}

/* Small numbers, the ends, and any. */
static int64_t
number(void)
{
	uint8_t which = byte();
	uint64_t any = 0;

	switch (which) {
	case 255:
		return INT64_MIN;
	case 254:
		return INT64_MAX;
	case 253:
		return -1;
	case 252:
		for (int i = 0; i < 8; i++)
			any = any << 8 | byte();
		return (int64_t)any;
	default:
		return which;
	}
}

static bool
taken(Packrack__Envelope *env)
{
	return pr_message_check(env, NULL) == 0;
}

static void
fill_held(Packrack__Held *h, uint8_t *bits)
{
	packrack__held__init(h);
	h->epoch = byte() % 3;
	h->link = byte() % 2;
	h->first = (uint64_t)number();
	h->last = h->first + byte();
	h->first_otime = number();
	h->last_otime = number();
	if (byte() % 2) {
		h->bits.data = bits;
		h->bits.len = (h->last - h->first) / 8 + 1;
		for (size_t i = 0; i < h->bits.len && i < 32; i++)
			bits[i] = byte();
		bits[h->bits.len - 1] &= 0xff >> (7 - (h->last - h->first) % 8);
	}
}

static void
give_batch(struct prm_completeness *c, int node)
{
	static uint8_t bits[ITEMS][40];
	Packrack__Held held[ITEMS], *items[ITEMS];
	Packrack__Batch batch = PACKRACK__BATCH__INIT;
	Packrack__Envelope env = pr_message_of(1, PACKRACK__ENVELOPE__BODY_BATCH, &batch);

	batch.n_held = byte() % ITEMS;
	batch.n_edge = byte() % (ITEMS - batch.n_held);
	for (size_t i = 0; i < batch.n_held + batch.n_edge; i++) {
		items[i] = &held[i];
		fill_held(&held[i], bits[i]);
	}
	batch.held = items;
	batch.edge = items + batch.n_held;
	batch.frontier = number();
	if (taken(&env) && prm_completeness_batch(c, node, &batch, NULL) < 0)
		prm_completeness_failed(c, node, "its batch");
}

static void
give_end(struct prm_completeness *c, int node)
{
	static const char *const reasons[] = {"lost", "late", "corrupt", ""};
	Packrack__Loss losses[ITEMS], *loss_items[ITEMS];
	Packrack__Evicted evicted[ITEMS], *evicted_items[ITEMS];
	Packrack__Ledger ledgers[ITEMS], *ledger_items[ITEMS];
	Packrack__End e = PACKRACK__END__INIT;
	Packrack__Envelope env = pr_message_of(1, PACKRACK__ENVELOPE__BODY_END, &e);

	for (size_t i = e.n_losses = byte() % ITEMS; i-- > 0;) {
		packrack__loss__init(loss_items[i] = &losses[i]);
		losses[i].epoch = byte() % 3;
		losses[i].link = byte() % 2;
		losses[i].first_seq = (uint64_t)number();
		losses[i].last_seq = losses[i].first_seq + byte();
		losses[i].count = (uint64_t)number();
		losses[i].first_time = number();
		losses[i].last_time = number();
		losses[i].reason = (char *)(uintptr_t)reasons[byte() % 4];
	}
	for (size_t i = e.n_evicted = byte() % ITEMS; i-- > 0;) {
		packrack__evicted__init(evicted_items[i] = &evicted[i]);
		evicted[i].epoch = byte() % 3;
		evicted[i].link = byte() % 2;
		evicted[i].until = number();
		evicted[i].since = number();
		evicted[i].last_seq = (uint64_t)number();
		evicted[i].midst = byte() % 2;
	}
	for (size_t i = e.n_ledgers = byte() % ITEMS; i-- > 0;) {
		packrack__ledger__init(ledger_items[i] = &ledgers[i]);
		ledgers[i].epoch = byte() % 3;
		ledgers[i].link = byte() % 2;
		ledgers[i].last_seq = (uint64_t)number();
		ledgers[i].last_otime = number();
		ledgers[i].said_until = number();
		ledgers[i].ended = byte() % 2;
		ledgers[i].dropped_no_node = (uint64_t)number();
	}
	e.losses = loss_items;
	e.evicted = evicted_items;
	e.ledgers = ledger_items;
	e.corrupt_records = byte() % 2;
	if (taken(&env) && prm_completeness_end(c, node, &e, NULL) < 0)
		prm_completeness_failed(c, node, "its end");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct prm_completeness_options o = {.sweep_bytes = 64};
	Packrack__Completeness *out = NULL;
	struct prm_completeness *c;
	uint8_t report;

	at = data;
	end = data + size;
	o.since = number();
	o.until = number();
	o.now = number();
	o.partial_scope = byte() % 2;
	if (o.since > o.until)
		return -1;
	c = prm_completeness_create(&o, NULL);
	MUST(c);
	for (int i = 0; i < NODES; i++)
		MUST(prm_completeness_node(c, (const char *[]){"a", "b", "c"}[i], NULL) ==
			i);
	for (int i = 0; i < 24 && at < end; i++) {
		report = byte();
		switch (report >> 4 & 7) {
		case 0:
			prm_completeness_truncate(
				c, &(struct pr_packet){.epoch = byte() % 3,
					   .link = byte() % 2,
					   .seq = (uint64_t)number(),
					   .otime = number()});
			break;
		case 1:
			prm_completeness_failed(c, report % NODES, "gone");
			break;
		case 2:
			give_end(c, report % NODES);
			break;
		default:
			give_batch(c, report % NODES);
		}
	}
	if (prm_completeness_finish(c, &out, NULL) == 0) {
		for (size_t i = 0; i < out->n_missing; i++)
			MUST(out->missing[i]->first_seq <= out->missing[i]->last_seq);
		MUST(!out->complete || (!out->missing_packets && !out->pending_packets));
		packrack__completeness__free_unpacked(out, NULL);
	}
	prm_completeness_destroy(&c);
	return 0;
}
