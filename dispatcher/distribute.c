/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/sender.h"
#include "proto/base/log.h"
#include "proto/port/trace.h"

/*
 * The packet's way, top to bottom: taken from a ring, given a seq and a node, made a frame for the node,
 * sent, entered in the node's timestamp log. No allocation, no lock, one system call a batch.
 */

/* ---- a frame for a node ---- */

enum { MACS = 2 * PR_MAC_LEN, VLAN_TAG = 4 };

size_t
prd_frame_limit(const uint8_t *frame, size_t len, uint32_t mtu)
{
	bool tagged = len >= PR_ETHER_LEN && frame[12] == 0x81 && frame[13] == 0x00;

	return (size_t)mtu + PR_ETHER_LEN + (tagged ? VLAN_TAG : 0);
}

/* Escapes our Ethertype in a captured frame: a node would take it for a control frame. */
static void
prepare_escape(const struct prd_prepare *p, struct prd_record *rec, struct pr_entry *e)
{
	size_t at = pr_ethertype_offset(rec->data, rec->caplen);

	if (at == 0 || at + 2 > rec->caplen || rec->data[at] != p->ethertype >> 8 ||
		rec->data[at + 1] != (p->ethertype & 0xff))
		return;
	e->flags |= PR_ENTRY_ETHERTYPE;
	e->ethertype = p->ethertype;
	rec->data[at] = PR_ETHERTYPE_ESCAPE >> 8;
	rec->data[at + 1] = PR_ETHERTYPE_ESCAPE & 0xff;
}

size_t
prd_prepare(const struct prd_prepare *p, struct prd_record *rec,
	const uint8_t dst[PR_MAC_LEN], uint32_t mtu, struct pr_entry *e)
{
	size_t len = PR_FRAME_MIN;

	e->flags = e->runt_len = 0;
	PR_COPY(e, rec, time, caplen, class);
	if (rec->caplen < PR_ETHER_LEN) {
		/* Too short for an Ethernet header: its bytes travel in the log, and a frame of zeros is sent. */
		e->flags |= PR_ENTRY_RUNT;
		e->runt_len = rec->caplen;
		memcpy(e->runt, rec->data, rec->caplen);
		memset(e->macs, 0, sizeof e->macs);
		memset(rec->data, 0, PR_FRAME_MIN);
	} else {
		size_t limit = prd_frame_limit(rec->data, rec->caplen, mtu);

		memcpy(e->macs, rec->data, MACS);
		prepare_escape(p, rec, e);
		if (rec->caplen > limit) {
			e->caplen = limit;
			e->flags |= PR_ENTRY_CUT;
		}
		if (e->caplen < PR_FRAME_MIN)
			memset(rec->data + e->caplen, 0, PR_FRAME_MIN - e->caplen);
		else
			len = e->caplen;
	}
	e->len = rec->len;
	if (e->caplen != len)
		e->flags |= PR_ENTRY_CAPLEN;
	if (e->len != e->caplen)
		e->flags |= PR_ENTRY_LEN;
	memcpy(rec->data, dst, PR_MAC_LEN);
	memcpy(rec->data + PR_MAC_LEN, p->src, PR_MAC_LEN);
	e->fingerprint = pr_fingerprint_of(p->whole, rec->data, len, p->epoch);
	return len;
}

/* ---- a batch ---- */

static uint64_t
give_seq(struct prd_link *link, int64_t time, int64_t *otime)
{
	uint64_t seq = pr_counter_get(&link->last_seq) + 1;

	*otime = time;
	if (seq > 1 &&
		*otime < atomic_load_explicit(&link->last_otime, memory_order_relaxed))
		*otime = atomic_load_explicit(&link->last_otime, memory_order_relaxed);
	atomic_store_explicit(&link->last_otime, *otime, memory_order_relaxed);
	atomic_store_explicit(&link->last_time, time, memory_order_relaxed);
	pr_counter_set(&link->last_seq, seq);
	return seq;
}

static void
note_undelivered(struct prd_link *link, uint64_t seq)
{
	uint64_t last = pr_counter_get(&link->undelivered_last);

	if (last == 0 || last + 1 != seq)
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
	if (s->cut_warnings++ == 0)
		pr_log_link(PR_LOG_WARNING, link->name,
			"%s: a packet of %u bytes was truncated to %u to fit the rack "
			"interface or the node; the counter `cut` counts all",
			link->name, rec->caplen, e->caplen);
}

static struct prd_item *
add_item(struct prd_sender *s, struct prd_node *node, struct prd_link *link, size_t len)
{
	struct prd_item *item = &s->items[s->item_count++];

	item->node = node;
	item->link = link;
	item->len = len;
	item->sent = false;
	node->window.placed_cost += len + PRD_FRAME_COST;
	return item;
}

/* Chooses the packet's nodes, if first is NULL, and makes it frames of the batch. False: no node has room for now. */
static bool
assign_nodes(struct prd_sender *s, struct prd_record *rec, struct prd_node *first,
	struct prd_node *other)
{
	struct prd_link *link = &s->inputs->links[rec->link];
	struct prd_node *to[2] = {first, other};
	enum prd_spread_result result =
		first ? PRD_SPREAD_OK
		      : prd_spread_pick(&s->spread, s->copies, rec->data, rec->caplen, to);

	if (result == PRD_SPREAD_FULL ||
		(result == PRD_SPREAD_NONE && s->strict && s->state == PRD_STATE_CAPTURING))
		return false;
	if (result == PRD_SPREAD_NONE) {
		int64_t otime;

		note_undelivered(link, give_seq(link, rec->time, &otime));
		pr_count(&link->dropped_no_node, 1);
		return true;
	}
	struct prd_item *item = add_item(s, to[0], link, 0);
	item->entry.seq = give_seq(link, rec->time, &item->entry.otime);
	uint32_t mtu = to[1] && to[1]->mtu < to[0]->mtu ? to[1]->mtu : to[0]->mtu;
	item->len = prd_prepare(&s->prepare, rec, to[0]->mac, mtu, &item->entry);
	to[0]->window.placed_cost += item->len;
	if (item->entry.flags & (PR_ENTRY_ETHERTYPE | PR_ENTRY_RUNT | PR_ENTRY_CUT))
		note_hidden(s, link, rec, &item->entry);
	pr_transmit_add(s->transmit, rec->data, item->len, NULL);
	if (to[1]) {
		uint8_t *head = s->heads[s->item_count];
		struct prd_item *second = add_item(s, to[1], link, item->len);

		second->entry = item->entry;
		second->entry.flags |= PR_ENTRY_SECOND;
		memcpy(head, rec->data, PR_ETHER_LEN);
		memcpy(head, to[1]->mac, PR_MAC_LEN);
		pr_transmit_add(s->transmit, rec->data, second->len, head);
	}
	return true;
}

/* False: a cutoff keeps the packet back: it gets no seq. */
static bool
keeps(struct prd_sender *s, struct prd_record *rec)
{
	struct prd_link *link = &s->inputs->links[rec->link];

	if (!s->cutoff)
		return true;
	if (prd_cutoff_keeps(
		    s->cutoff, rec->link, rec->time, rec->data, rec->caplen, rec->len)) {
		prd_cutoff_kept(s->cutoff, &rec->caplen, &rec->class);
		return true;
	}
	pr_count(&link->beyond_packets, 1);
	pr_count(&link->beyond_bytes, rec->len);
	atomic_store_explicit(&link->last_time, rec->time, memory_order_relaxed);
	return false;
}

/* The next record of a ring. The cutoff looks at it some records before: here. */
static struct prd_record *
next_record(struct prd_sender *s, unsigned i)
{
	struct pr_ring *ring = s->inputs->rings[i];
	struct prd_record *later;
	size_t len;

	while (s->cutoff && prd_cutoff_looks(s->cutoff, i) && (later = pr_ring_peek(ring)))
		prd_cutoff_look(s->cutoff, i, later->data, later->caplen);
	return pr_ring_next(ring, &len);
}

/* Takes packets from one ring while the batch has room. Returns how many. */
static unsigned
take_ring(struct prd_sender *s, unsigned i)
{
	struct prd_record *rec = s->unplaced[i];
	unsigned taken = 0;
	bool placed;

	while (s->item_count + s->copies <= PR_TRANSMIT_BATCH &&
		taken < PR_TRANSMIT_BATCH) {
		if (!rec && !(rec = next_record(s, i)))
			break;
		placed = rec != s->unplaced[i] && !keeps(s, rec);
		s->unplaced[i] = rec;
		if (!placed && !assign_nodes(s, rec, NULL, NULL))
			break;
		s->unplaced[i] = rec = NULL;
		taken++;
	}
	s->used[i] = taken > 0;
	return taken;
}

/* A packet is on its way to the node: into the node's log. */
static void
enter(struct prd_sender *s, struct prd_node *node, struct prd_link *link,
	struct pr_entry *e, size_t len)
{
	e->ordinal = prd_node_sent(node, len);
	if (e->flags & PR_ENTRY_SECOND) {
		node->seconds++;
	} else {
		node->primaries++;
		pr_count(&link->sent_packets, 1);
		pr_count(&link->sent_bytes, len);
	}
	prd_logs_add(&s->logs, node, link - s->inputs->links, e, s->now);
}

/*
 * A packet whose first copy was not sent survives by its second copy, which becomes the primary. If the second
 * copy has failed too, the packet is lost.
 */
static void
account(struct prd_sender *s, const bool failed[PR_TRANSMIT_BATCH])
{
	for (unsigned i = 0, given = 0; i < s->item_count; i++) {
		struct prd_item *item = &s->items[i], *next = item + 1;
		bool lost = !item->sent && failed[given++];
		struct prd_node *node = item->node;
		struct pr_entry *e = &item->entry;

		node->window.placed_cost -= item->len + PRD_FRAME_COST;
		if (!lost) {
			enter(s, node, item->link, e, item->len);
		} else if (e->flags & PR_ENTRY_SECOND) {
			continue;
		} else if (i + 1 < s->item_count && next->link == item->link &&
			   next->entry.seq == e->seq) {
			next->entry.flags &= (uint8_t)~PR_ENTRY_SECOND;
		} else {
			pr_count(&item->link->dropped_send, 1);
			note_undelivered(item->link, e->seq);
		}
	}
	s->item_count = 0;
}

/* ---- the XDP path (proto/port/fast.h) ---- */

enum {
	WEIGHTED_SLOTS = 1024,
	ROOM_LEAST = 4 << 20, /* for a round, which may sleep for 4 ms */
	BACKLOG_MOST = 256 * (PR_FRAME_MIN + PR_FAST_COST)
};
#define BACKLOG_NS PR_NS_PER_S /* then what comes is refused until it is done */

/* NULL: none, or it has no logs, as a node that could not join. */
static struct prd_node *
node_of(const struct prd_sender *s, uint16_t number)
{
	struct prd_node *node = number < s->nodes.count ? s->nodes.list[number] : NULL;

	return node && node->logs ? node : NULL;
}

/* A copy that the program has sent. Where others of the batch come before it in the logs, it waits for them. */
static void
enter_sent(struct prd_sender *s, struct prd_node *node, struct prd_link *link,
	struct pr_entry *e, size_t len)
{
	if (s->item_count == 0) {
		enter(s, node, link, e, len);
		return;
	}
	struct prd_item *item = add_item(s, node, link, len);
	item->sent = true;
	item->entry = *e;
}

static void
add_sent(struct prd_sender *s, const struct pr_fast_record *rec)
{
	struct prd_link *link = &s->inputs->links[rec->link];
	struct prd_node *node = node_of(s, rec->node), *second = node_of(s, rec->second);
	struct pr_entry e;

	e.seq = give_seq(link, rec->time, &e.otime);
	if (!node && !second) {
		pr_count(&link->dropped_send, 1);
		note_undelivered(link, e.seq);
		return;
	}
	e.flags = rec->len != rec->caplen ? PR_ENTRY_LEN : 0;
	e.runt_len = e.class = 0;
	PR_COPY(&e, rec, time, fingerprint, len, caplen);
	memcpy(e.macs, rec->macs, sizeof e.macs);
	if (node)
		enter_sent(s, node, link, &e, rec->caplen);
	if (node && second)
		e.flags |= PR_ENTRY_SECOND;
	if (second)
		enter_sent(s, second, link, &e, rec->caplen);
}

/* A frame that the program left to us. */
static void
add_whole(struct prd_sender *s, const struct pr_fast_record *from, const uint8_t *data)
{
	struct prd_record *rec =
		(void *)(s->whole + (size_t)s->item_count * PRD_WHOLE_SIZE);
	struct prd_node *first = node_of(s, from->node), *second = node_of(s, from->second);

	PR_COPY(rec, from, time, len, caplen, link);
	rec->class = 0;
	memcpy(rec->data, data, from->caplen);
	if (!keeps(s, rec))
		return;
	if (!first || !prd_node_usable(first))
		first = second = NULL;
	else if (second && !prd_node_usable(second))
		second = NULL;
	assign_nodes(s, rec, first, second);
}

/* Takes records while the batch has room. */
static unsigned
take_fast(struct prd_sender *s)
{
	const struct pr_packet_filter *filter = s->inputs->filter;
	struct pr_fast_record rec;
	const uint8_t *data;
	unsigned taken = 0;

	while (s->item_count + s->copies <= PR_TRANSMIT_BATCH &&
		taken < PR_TRANSMIT_BATCH && pr_fast_next(s->inputs->fast, &rec, &data)) {
		struct prd_link *link = &s->inputs->links[rec.link];

		taken++;
		if (filter && !rec.sent &&
			!pr_packet_filter_match(filter, data, rec.caplen, rec.len))
			continue;
		pr_count(&link->captured_packets, 1);
		pr_count(&link->captured_bytes, rec.len);
		if (rec.sent)
			add_sent(s, &rec);
		else
			add_whole(s, &rec, data);
	}
	return taken;
}

/* As many packets are spread as the program then spreads alike, again and again. */
static void
fill_schedule(struct prd_sender *s, struct pr_fast_schedule *to, unsigned with_room)
{
	struct prd_node *node[2];
	unsigned picks = s->spread.mode == PRD_SPREAD_WEIGHTED ? WEIGHTED_SLOTS : with_room;

	to->count = to->twice = 0;
	to->by_flow = s->spread.mode == PRD_SPREAD_FLOW;
	if (to->by_flow)
		picks = 1; /* this makes the table */
	while (to->count < picks && prd_spread_pick(&s->spread, s->copies, s->prepare.src,
					    0, node) == PRD_SPREAD_OK) {
		to->twice = node[1] != NULL;
		to->slot[to->count][0] = node[0]->number;
		to->slot[to->count++][1] = node[to->twice]->number;
	}
	if (to->by_flow && to->count)
		for (to->count = 0; to->count < PRD_FLOW_BUCKETS; to->count++)
			for (unsigned i = 0; i < 2; i++)
				to->slot[to->count][i] =
					s->spread.top[to->count][i & to->twice];
}

void
prd_tx_schedule(struct prd_sender *s, bool reads)
{
	bool on = s->state == PRD_STATE_CAPTURING || s->state == PRD_STATE_DRAINING;
	uint64_t which = 0; /* of them have room */
	unsigned usable = 0, with_room = 0;
	uint32_t mtu = s->config.mtu;
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < s->nodes.count; i++) {
		const struct prd_node *node = s->nodes.list[i];

		if (!prd_node_usable(node))
			continue;
		usable++;
		mtu = PR_MIN(mtu, node->mtu);
		if (!prd_node_has_room(node, mtu))
			continue;
		with_room++;
		least = PR_MIN(least, prd_node_room(node));
		which = (which + i + 1) * UINT64_C(0x9E3779B97F4A7C15);
	}
	/* as the packet path, it goes on slowly where no node has room */
	pr_fast_room(s->inputs->fast,
		with_room ? with_room * least : (uint64_t)(usable + 1) * ROOM_LEAST);
	if (s->scheduled.on == on && s->scheduled.changes == s->nodes.change_count &&
		s->scheduled.which == which && s->scheduled.mode == s->spread.mode &&
		(s->spread.mode != PRD_SPREAD_WEIGHTED ||
			s->scheduled.weighed == s->last_weigh))
		return;
	/* What the program sends would overtake those that came before, for more places than a node looks for them. */
	if (on && usable && pr_fast_backlog(s->inputs->fast) > BACKLOG_MOST) {
		int64_t now = pr_now_mono();

		if (!reads || !s->scheduled.waits)
			s->scheduled.waits = now;
		if (now - s->scheduled.waits > BACKLOG_NS)
			pr_fast_room(s->inputs->fast, 0);
		return;
	}
	s->scheduled.waits = 0;
	struct pr_fast_schedule *next = pr_fast_schedule(s->inputs->fast);
	for (unsigned i = 0; i < s->nodes.count; i++)
		pr_fast_node(s->inputs->fast, i, s->nodes.list[i]->mac);
	if (on)
		fill_schedule(s, next, with_room ? with_room : usable);
	else
		next->count = next->twice = 0;
	next->frame_max = PR_MIN(mtu + PR_ETHER_LEN, UINT16_MAX - VLAN_TAG);
	pr_fast_swap(s->inputs->fast);
	s->scheduled.on = on;
	s->scheduled.changes = s->nodes.change_count;
	s->scheduled.which = which;
	s->scheduled.mode = s->spread.mode;
	s->scheduled.weighed = s->last_weigh;
}

#define CANARY_NS PR_NS_PER_S
/* To and from an address of no card; the Ethertype is that of test packets (ECTP). */
static const uint8_t canary_head[PR_ETHER_LEN] = {
	2, 'c', 'a', 'n', 'a', 'r', 2, 'c', 'a', 'n', 'a', 'r', 0x90, 0x00};

/*
 * The rack's test of itself: a packet that is made here, and then treated as all others are. Its
 * payload begins with its time.
 */
static void
add_canary(struct prd_sender *s, struct prd_record *rec)
{
	struct prd_link *link = &s->inputs->links[s->inputs->all_links - 1];

	rec->time = pr_now_real();
	rec->caplen = rec->len = PR_FRAME_MIN;
	rec->link = s->inputs->all_links - 1;
	rec->class = 0;
	memset(rec->data, 0, PR_FRAME_MIN);
	memcpy(rec->data, canary_head, PR_ETHER_LEN);
	memcpy(rec->data + PR_ETHER_LEN, &rec->time, sizeof rec->time);
	pr_count(&link->captured_packets, 1);
	pr_count(&link->captured_bytes, PR_FRAME_MIN);
	assign_nodes(s, rec, NULL, NULL);
	s->last_canary = s->now;
}

/*
 * What a cutoff kept back in a second that is over becomes packets. Those of trace files have no clock but that of the
 * file. Returns how many.
 */
static unsigned
add_beyond(struct prd_sender *s)
{
	const struct prd_inputs *in = s->inputs;
	/* the batch refers to those that are placed: what waits keeps its place */
	unsigned n = 0, first = s->first_beyond;
	struct prd_record *rec = &s->beyond[first].record;

	if (s->beyond_waits && !assign_nodes(s, rec, NULL, NULL))
		return 0;
	n += s->beyond_waits;
	s->beyond_waits = false;
	for (unsigned i = 0; i < in->link_count; i++) {
		int64_t until = in->live ? s->drained_until[i] - 1
					 : atomic_load(&in->links[i].last_time);

		while (n < PRD_BEYOND_BATCH) {
			rec = &s->beyond[(first + n) % PRD_BEYOND_BATCH].record;
			rec->caplen = rec->len = prd_cutoff_take(s->cutoff, i,
				s->flush_beyond ? PR_TIME_MAX : until, rec->data,
				&rec->time);
			if (!rec->len)
				break;
			rec->link = in->link_count + i;
			rec->class = 0;
			pr_count(&in->links[rec->link].captured_packets, 1);
			pr_count(&in->links[rec->link].captured_bytes, rec->len);
			if (!assign_nodes(s, rec, NULL, NULL)) {
				s->first_beyond = (first + n) % PRD_BEYOND_BATCH;
				s->beyond_waits = true;
				return n;
			}
			n++;
		}
		uint64_t packets, bytes;
		prd_cutoff_shunted(s->cutoff, i, &packets, &bytes);
		pr_count(&in->links[i].captured_packets, packets);
		pr_count(&in->links[i].captured_bytes, bytes);
		pr_count(&in->links[i].beyond_packets, packets);
		pr_count(&in->links[i].beyond_bytes, bytes);
		pr_count(&in->links[i].shunted_packets, packets);
	}
	return n;
}

unsigned
prd_tx_batch(struct prd_sender *s)
{
	alignas(struct prd_record) uint8_t canary[sizeof(struct prd_record) + PR_FRAME_MIN];
	bool failed[PR_TRANSMIT_BATCH] = {false};
	unsigned taken = 0, rings = s->inputs->ring_count;

	if (s->inputs->links[s->inputs->all_links - 1].number == PR_LINK_CANARY &&
		s->state == PRD_STATE_CAPTURING && s->now - s->last_canary >= CANARY_NS)
		add_canary(s, (struct prd_record *)(void *)canary);
	if (s->cutoff)
		taken += add_beyond(s);
	if (s->inputs->fast)
		taken += take_fast(s);
	for (unsigned k = 0; k < rings; k++)
		taken += take_ring(s, (s->first_ring + k) % rings);
	s->first_ring = (s->first_ring + 1) % rings;
	if (s->item_count > 0) {
		pr_transmit_send(s->transmit, failed);
		account(s, failed);
	}
	if (s->inputs->fast)
		pr_fast_release(s->inputs->fast);
	for (unsigned i = 0; i < rings; i++) {
		if (!s->used[i])
			continue;
		if (s->unplaced[i])
			pr_ring_release_before(s->inputs->rings[i], s->unplaced[i]);
		else
			pr_ring_release(s->inputs->rings[i]);
		s->used[i] = false;
	}
	s->stuck = taken == 0 && prd_tx_batch_unplaced(s);
	return taken;
}

bool
prd_tx_batch_unplaced(const struct prd_sender *s)
{
	for (unsigned i = 0; i < s->inputs->ring_count; i++)
		if (s->unplaced[i])
			return true;
	return s->beyond_waits;
}
