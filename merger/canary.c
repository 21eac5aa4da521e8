/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/server.h"

#include "proto/wire/segment.h"

#define PERIOD_NS PR_NS_PER_S
/* By then a packet is stored, or known to be lost. */
#define LAG_NS (3 * PR_NS_PER_S)
/* The dispatcher makes one a second. */
#define SILENT_NS (3 * PR_NS_PER_S)
/* batches: more than one comes only after the merger was not heard for long */
#define CREDIT 64

static void
take_packets(struct prm_canary *c, const Packrack__Batch *batch)
{
	struct prm_canary_figures *f = &c->figures;
	struct pr_segment_reader segment;
	struct pr_packet p;

	if (!batch->packets.len || pr_segment_open(&segment, batch->packets.data,
					   batch->packets.len, NULL) < 0)
		return;
	if (!c->found)
		f->first_packet_us = (uint64_t)(pr_now_mono() - c->asked) / 1000;
	c->found = true;
	while (pr_segment_next(&segment, &p, NULL) > 0) {
		f->packets++;
		c->newest = PR_MAX(c->newest, p.time);
	}
}

/* The fan-out's deliver function. */
static int
deliver(void *arg, const Packrack__Envelope *env)
{
	struct prm_canary *c = arg;

	if (env->body_case == PACKRACK__ENVELOPE__BODY_BATCH) {
		take_packets(c, env->batch);
		return 0;
	}
	c->figures.complete = 0;
	if (env->body_case != PACKRACK__ENVELOPE__BODY_END)
		return -1;
	c->figures.queries++;
	const Packrack__Completeness *said = env->end->completeness;
	if (said) {
		c->figures.missing += said->missing_packets + said->pending_packets;
		c->figures.complete = said->complete && c->until - c->newest <= SILENT_NS;
	}
	return -1;
}

static bool
has_canary(const struct prm_registry *registry)
{
	for (size_t i = 0; i < registry->count; i++) {
		const Packrack__Hello *hello = registry->nodes[i]->hello;

		for (size_t j = 0; j < hello->n_links; j++)
			if (hello->links[j]->link == PR_LINK_CANARY)
				return true;
	}
	return false;
}

void
prm_canary_tick(struct prm_canary *c, const struct prm_registry *registry,
	uint64_t *next_id, int64_t mono)
{
	static char link[] = PR_LINK_CANARY_NAME, text[] = "(canary)";
	Packrack__Query query = PACKRACK__QUERY__INIT;
	struct prm_fanout_options o = {.query = &query,
		.registry = registry,
		.next_id = next_id,
		.mono = mono,
		.real = pr_now_real(),
		.deliver = deliver,
		.deliver_arg = c};

	if (c->fanout) {
		prm_fanout_tick(c->fanout, mono);
		if (prm_fanout_state(c->fanout)->done)
			prm_fanout_destroy(&c->fanout, NULL);
	}
	if (c->fanout || mono - c->asked < PERIOD_NS || !has_canary(registry))
		return;
	query.until = o.real - LAG_NS;
	query.since =
		c->until && c->until < query.until ? c->until + 1 : query.until - PERIOD_NS;
	query.link = link;
	query.text = text;
	c->found = false;
	c->asked = mono;
	c->until = query.until;
	c->fanout = prm_fanout_create(&o, NULL);
	if (c->fanout)
		prm_fanout_credit(c->fanout, 0, CREDIT);
}
