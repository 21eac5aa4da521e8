/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "dispatcher/send_private.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* The packet path: no allocation, no lock, one system call a batch. */

static uint64_t
give_seq(struct prd_link *link, const struct prd_record *rec, int64_t *otime)
{
	uint64_t seq = pr_counter_get(&link->last_seq) + 1;

	*otime = rec->time;
	if (seq > 1 &&
		*otime < atomic_load_explicit(&link->last_otime, memory_order_relaxed))
		*otime = atomic_load_explicit(&link->last_otime, memory_order_relaxed);
	atomic_store_explicit(&link->last_otime, *otime, memory_order_relaxed);
	pr_counter_set(&link->last_seq, seq);
	return seq;
}

static void
note_undelivered(struct prd_link *link, uint64_t seq)
{
	if (pr_counter_get(&link->undelivered_last) + 1 != seq)
		pr_counter_set(&link->undelivered_first, seq);
	pr_counter_set(&link->undelivered_last, seq);
}

static void
note_hidden(struct prd_sender *s, struct prd_link *link, const struct prd_record *rec,
	const struct pr_entry *e)
{
	if (e->flags & PR_ENTRY_ETHERTYPE)
		pr_count(&link->escaped, 1);
	if (e->flags & PR_ENTRY_RUNT)
		pr_count(&link->runts, 1);
	if (!(e->flags & PR_ENTRY_CUT))
		return;
	pr_count(&link->cut, 1);
	if (s->warned_cut++ == 0)
		pr_log_link(PR_LOG_WARNING, link->name,
			"%s: a packet of %u bytes was cut to %u to fit the o-port or "
			"node; there may be more, see the counter `cut`",
			link->name, (unsigned)rec->caplen, (unsigned)e->caplen);
}

static struct prd_item *
add_item(struct prd_sender *s, struct prd_node *node, struct prd_link *link, size_t len)
{
	struct prd_item *item = &s->items[s->item_count++];

	item->node = node;
	item->link = link;
	item->len = len;
	node->window.placed_cost += len + PRD_FRAME_COST;
	return item;
}

static void
add_second(struct prd_sender *s, const struct prd_item *first, struct prd_node *node,
	const uint8_t *frame)
{
	uint8_t *head = s->heads[s->item_count];
	struct prd_item *item = add_item(s, node, first->link, first->len);

	item->entry = first->entry;
	item->entry.flags |= PR_ENTRY_SECOND;
	memcpy(head, frame, PR_ETHER_LEN);
	memcpy(head, node->mac, PR_MAC_LEN);
	pr_transmit_add(s->transmit, frame, item->len, head);
}

/* false: no room anywhere for now. */
static bool
place(struct prd_sender *s, struct prd_record *rec)
{
	struct prd_link *link = &s->inputs->links[rec->link];
	struct prd_node *to[2];
	enum prd_spread_result result =
		prd_spread_pick(&s->spread, s->copies, rec->data, rec->caplen, to);
	struct prd_item *item;
	uint32_t mtu;

	if (result == PRD_SPREAD_FULL ||
		(result == PRD_SPREAD_NONE && s->strict && s->state == PRD_STATE_CAPTURING))
		return false;
	if (result == PRD_SPREAD_NONE) {
		int64_t otime;

		note_undelivered(link, give_seq(link, rec, &otime));
		pr_count(&link->dropped_no_node, 1);
		return true;
	}
	item = add_item(s, to[0], link, 0);
	item->entry.seq = give_seq(link, rec, &item->entry.otime);
	mtu = to[1] && to[1]->mtu < to[0]->mtu ? to[1]->mtu : to[0]->mtu;
	item->len = prd_prepare(&s->prepare, rec, to[0]->mac, mtu, &item->entry);
	to[0]->window.placed_cost += item->len;
	if (item->entry.flags & (PR_ENTRY_ETHERTYPE | PR_ENTRY_RUNT | PR_ENTRY_CUT))
		note_hidden(s, link, rec, &item->entry);
	pr_transmit_add(s->transmit, rec->data, item->len, NULL);
	if (to[1])
		add_second(s, item, to[1], rec->data);
	return true;
}

/* Takes from one ring what fits into the batch. */
static unsigned
take_ring(struct prd_sender *s, unsigned i)
{
	struct prd_record *rec = s->held[i];
	unsigned taken = 0;
	size_t len;

	while (s->item_count + s->copies <= PR_TRANSMIT_BATCH &&
		taken < PR_TRANSMIT_BATCH) {
		if (!rec && !(rec = pr_ring_next(s->inputs->rings[i], &len)))
			break;
		s->held[i] = rec;
		if (!place(s, rec))
			break;
		s->held[i] = rec = NULL;
		taken++;
	}
	s->used[i] = taken > 0;
	return taken;
}

/* A packet whose first copy the o-port refused lives on in its second. */
static void
settle_failed(struct prd_sender *s, unsigned i)
{
	struct prd_item *item = &s->items[i], *next = item + 1;
	uint64_t seq = item->entry.seq;

	if (item->entry.flags & PR_ENTRY_SECOND)
		return;
	if (i + 1 < s->item_count && next->link == item->link && next->entry.seq == seq) {
		next->entry.flags &= (uint8_t)~PR_ENTRY_SECOND;
		return;
	}
	pr_count(&item->link->dropped_send, 1);
	note_undelivered(item->link, seq);
}

static void
settle_sent(struct prd_sender *s, struct prd_item *item)
{
	struct prd_node *node = item->node;

	item->entry.ordinal = prd_node_sent(node, item->len);
	if (item->entry.flags & PR_ENTRY_SECOND) {
		node->seconds++;
	} else {
		node->primaries++;
		pr_count(&item->link->sent_packets, 1);
		pr_count(&item->link->sent_bytes, item->len);
	}
	prd_logs_add(&s->logs, node, item->link->number, &item->entry, s->now);
}

/* The second copy of a failed one may have failed too: then the packet is lost after all. */
static void
settle(struct prd_sender *s, const bool failed[PR_TRANSMIT_BATCH])
{
	for (unsigned i = 0; i < s->item_count; i++) {
		struct prd_item *item = &s->items[i];

		item->node->window.placed_cost -= item->len + PRD_FRAME_COST;
		if (failed[i])
			settle_failed(s, i);
		else
			settle_sent(s, item);
	}
	s->item_count = 0;
}

static void
give_back(struct prd_sender *s)
{
	for (unsigned i = 0; i < s->inputs->ring_count; i++) {
		if (!s->used[i])
			continue;
		if (s->held[i])
			pr_ring_release_before(s->inputs->rings[i], s->held[i]);
		else
			pr_ring_release(s->inputs->rings[i]);
		s->used[i] = false;
	}
}

unsigned
prd_batch(struct prd_sender *s)
{
	bool failed[PR_TRANSMIT_BATCH] = {false};
	unsigned taken = 0, rings = s->inputs->ring_count;

	for (unsigned k = 0; k < rings; k++)
		taken += take_ring(s, (s->first_ring + k) % rings);
	s->first_ring = (s->first_ring + 1) % rings;
	if (s->item_count > 0) {
		pr_transmit_send(s->transmit, failed);
		settle(s, failed);
	}
	give_back(s);
	s->stuck = taken == 0 && prd_batch_holds(s);
	return taken;
}

bool
prd_batch_holds(const struct prd_sender *s)
{
	for (unsigned i = 0; i < s->inputs->ring_count; i++)
		if (s->held[i])
			return true;
	return false;
}
