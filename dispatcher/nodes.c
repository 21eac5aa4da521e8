/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/nodes.h"

#include <stdlib.h>
#include <utlist.h>

#include "proto/wire/decode.h"

/* ---- the table: who announced itself, who is alive ---- */

const char *
prd_node_phase_name(enum prd_node_phase phase)
{
	static const char *const names[] = {"active", "gone", "quit", "disconnected"};

	return phase < sizeof names / sizeof names[0] ? names[phase] : "?";
}

void
prd_nodes_init(struct prd_nodes *nodes, uint64_t epoch, uint32_t own_nonce, uint32_t mtu)
{
	memset(nodes, 0, sizeof *nodes);
	nodes->epoch = epoch;
	nodes->own_nonce = own_nonce;
	nodes->mtu = mtu;
}

void
prd_nodes_free(struct prd_nodes *nodes)
{
	for (unsigned i = 0; i < nodes->count; i++)
		free(nodes->list[i]);
	nodes->count = 0;
}

static struct prd_node *
by_mac(const struct prd_nodes *nodes, const uint8_t mac[PR_MAC_LEN])
{
	for (unsigned i = 0; i < nodes->count; i++)
		if (memcmp(nodes->list[i]->mac, mac, PR_MAC_LEN) == 0)
			return nodes->list[i];
	return NULL;
}

struct prd_node *
prd_nodes_by_name(const struct prd_nodes *nodes, const char *name)
{
	struct prd_node *found = NULL;

	for (unsigned i = 0; i < nodes->count; i++) {
		if (strcmp(nodes->list[i]->ann.name, name) != 0)
			continue;
		if (nodes->list[i]->phase == PRD_NODE_ACTIVE)
			return nodes->list[i];
		found = nodes->list[i];
	}
	return found;
}

unsigned
prd_nodes_active(const struct prd_nodes *nodes)
{
	unsigned n = 0;

	for (unsigned i = 0; i < nodes->count; i++)
		n += nodes->list[i]->phase == PRD_NODE_ACTIVE;
	return n;
}

/* The node starts from nothing: it does not know what an earlier run of the program was sent. */
static void
node_admit(struct prd_nodes *nodes, struct prd_node *node, uint32_t nonce,
	const struct pr_ann *ann, int64_t now)
{
	if (node->nonce != 0)
		node->retired[node->retired_at++ % PRD_RETIRED_MAX] = node->nonce;
	node->nonce = nonce;
	node->ann = *ann;
	node->phase = PRD_NODE_ACTIVE;
	node->last_heard = now;
	memset(&node->status, 0, sizeof node->status);
	memset(&node->window, 0, sizeof node->window);
	node->window.size = ann->buffer_size ? ann->buffer_size : PRD_WINDOW_DEFAULT;
	node->next_ordinal = 0;
	node->primaries = node->seconds = node->bytes_sent = 0;
	node->mtu = ann->mtu != 0 && ann->mtu < nodes->mtu ? ann->mtu : nodes->mtu;
	nodes->change_count++;
}

static struct prd_node *
node_create(struct prd_nodes *nodes, const uint8_t mac[PR_MAC_LEN])
{
	struct prd_node *node;

	if (nodes->count == PRD_NODES_MAX || !(node = calloc(1, sizeof *node))) {
		nodes->refused_full++;
		return NULL;
	}
	memcpy(node->mac, mac, PR_MAC_LEN);
	node->number = nodes->count;
	nodes->list[nodes->count++] = node;
	return node;
}

static enum prd_ann_result
wake_up(struct prd_nodes *nodes, struct prd_node *node)
{
	if (node->phase == PRD_NODE_ACTIVE)
		return PRD_ANN_KNOWN;
	node->phase = PRD_NODE_ACTIVE;
	nodes->change_count++;
	return PRD_ANN_BACK;
}

/* ---- announcements that are not confirmed yet ---- */

static struct prd_announced *
announced_find(struct prd_nodes *nodes, const uint8_t mac[PR_MAC_LEN], uint32_t nonce)
{
	for (unsigned i = 0; i < PRD_NODES_MAX; i++) {
		struct prd_announced *a = &nodes->announced[i];

		if (a->nonce == nonce && memcmp(a->mac, mac, PR_MAC_LEN) == 0)
			return a;
	}
	return NULL;
}

static void
announced_drop(struct prd_nodes *nodes, struct prd_announced *a)
{
	nodes->refused_unconfirmed += a->frames;
	*a = (struct prd_announced){.nonce = 0};
}

/* A free place, or that of the one heard longest ago. */
static struct prd_announced *
announced_place(struct prd_nodes *nodes)
{
	struct prd_announced *oldest = &nodes->announced[0];

	for (unsigned i = 1; i < PRD_NODES_MAX && oldest->nonce != 0; i++) {
		struct prd_announced *a = &nodes->announced[i];

		if (a->nonce == 0 || a->heard < oldest->heard)
			oldest = a;
	}
	announced_drop(nodes, oldest);
	return oldest;
}

void
prd_nodes_expire_announced(struct prd_nodes *nodes, int64_t now)
{
	for (unsigned i = 0; i < PRD_NODES_MAX; i++) {
		struct prd_announced *a = &nodes->announced[i];

		if (a->nonce != 0 && now - a->heard >= PRD_NODE_SILENCE)
			announced_drop(nodes, a);
	}
}

static enum prd_ann_result
announced_note(struct prd_nodes *nodes, const uint8_t mac[PR_MAC_LEN],
	const struct pr_frame_header *header, const struct pr_ann *ann, int64_t now)
{
	uint32_t nonce = header->sender_nonce;
	struct prd_announced *a = announced_find(nodes, mac, nonce);

	if (a && header->number <= a->number) {
		nodes->refused_replay++;
		return PRD_ANN_REFUSED;
	}
	if (!a) {
		a = announced_place(nodes);
		memcpy(a->mac, mac, PR_MAC_LEN);
		a->nonce = nonce;
	}
	a->number = header->number;
	a->frames++;
	a->heard = now;
	a->ann = *ann;
	return PRD_ANN_PENDING;
}

/* The sender of this STATUS has announced itself, and names our nonce: it is here, now. */
static enum prd_ann_result
announced_confirm(struct prd_nodes *nodes, struct prd_announced *a, struct prd_node *node,
	int64_t now)
{
	enum prd_ann_result result = node->nonce ? PRD_ANN_RESTART : PRD_ANN_NEW;

	pr_replay_accept(&node->replay[PR_FRAME_ANN], a->nonce, a->number);
	node_admit(nodes, node, a->nonce, &a->ann, now);
	*a = (struct prd_announced){.nonce = 0};
	return result;
}

enum prd_ann_result
prd_nodes_ann(struct prd_nodes *nodes, const uint8_t mac[PR_MAC_LEN],
	const struct pr_frame_header *header, const struct pr_ann *ann, int64_t now,
	struct prd_node **out)
{
	static const uint8_t zero[PR_MAC_LEN];
	struct prd_node *node = by_mac(nodes, mac);
	uint32_t nonce = header->sender_nonce;
	bool replayed = false;

	*out = node;
	if ((mac[0] & 1) || memcmp(mac, zero, PR_MAC_LEN) == 0 || nonce == 0)
		return PRD_ANN_REFUSED;
	if (!node)
		return announced_note(nodes, mac, header, ann, now);
	if (node->phase == PRD_NODE_DISCONNECTED)
		return PRD_ANN_REFUSED;
	for (unsigned i = 0; i < PRD_RETIRED_MAX; i++)
		replayed |= node->retired[i] == nonce;
	if (nonce == node->nonce)
		replayed = !pr_replay_accept(
			&node->replay[PR_FRAME_ANN], nonce, header->number);
	if (replayed) {
		nodes->refused_replay++;
		return PRD_ANN_REFUSED;
	}
	if (nonce != node->nonce)
		return announced_note(nodes, mac, header, ann, now);
	node->ann = *ann;
	node->last_heard = now;
	return wake_up(nodes, node);
}

struct prd_node *
prd_nodes_accept_frame(struct prd_nodes *nodes, const struct pr_frame *frame, int64_t now,
	enum prd_ann_result *admitted)
{
	const struct pr_frame_header *h = &frame->header;
	struct prd_node *node = by_mac(nodes, frame->src);
	struct prd_announced *a = NULL;

	*admitted = PRD_ANN_KNOWN;
	if (h->type == PR_FRAME_STATUS && h->sender_nonce != 0 &&
		(!node || node->phase != PRD_NODE_DISCONNECTED))
		a = announced_find(nodes, frame->src, h->sender_nonce);
	if (h->epoch != nodes->epoch || h->receiver_nonce != nodes->own_nonce ||
		!(a || (node && node->nonce == h->sender_nonce))) {
		nodes->refused_stale++;
		return NULL;
	}
	if (!node && !(node = node_create(nodes, frame->src)))
		return NULL;
	if (!pr_replay_accept(&node->replay[h->type], h->sender_nonce, h->number)) {
		nodes->refused_replay++;
		return NULL;
	}
	if (a)
		*admitted = announced_confirm(nodes, a, node, now);
	node->last_heard = now;
	node->controls_received++;
	if (node->phase == PRD_NODE_GONE && h->type == PR_FRAME_STATUS)
		*admitted = wake_up(nodes, node);
	return node;
}

void
prd_node_leave(struct prd_nodes *nodes, struct prd_node *node, enum prd_node_phase phase)
{
	if (node->phase == PRD_NODE_ACTIVE && phase == PRD_NODE_GONE)
		node->lost_unacknowledged += node->next_ordinal - node->window.acknowledged;
	node->phase = phase;
	nodes->change_count++;
}

struct prd_node *
prd_nodes_next_silent(struct prd_nodes *nodes, int64_t now, int64_t silence)
{
	for (unsigned i = 0; i < nodes->count; i++) {
		struct prd_node *node = nodes->list[i];

		if (node->phase != PRD_NODE_ACTIVE || now - node->last_heard < silence)
			continue;
		prd_node_leave(nodes, node, PRD_NODE_GONE);
		return node;
	}
	return NULL;
}

/* ---- the window: what a node holds unacknowledged ---- */

/*
 * Maps acknowledged ordinals, which STATUS names, to bytes: there is a sample point at each 1/128 of the
 * window, and the last point passed counts.
 */

static uint64_t
window_step(const struct prd_window *w)
{
	return w->size / (PRD_WINDOW_POINTS / 2) + 1;
}

uint64_t
prd_node_sent(struct prd_node *node, size_t len)
{
	struct prd_window *w = &node->window;

	w->sent_cost += len + PRD_FRAME_COST;
	node->bytes_sent += len;
	if (w->sent_cost >= w->next_point_cost && w->count != PRD_WINDOW_POINTS) {
		uint32_t at = (w->first + w->count++) % PRD_WINDOW_POINTS;

		w->points[at].ordinal = node->next_ordinal + 1;
		w->points[at].cost = w->sent_cost;
		w->next_point_cost = w->sent_cost + window_step(w);
	}
	return node->next_ordinal++;
}

static uint64_t
held(const struct prd_window *w)
{
	return w->sent_cost + w->placed_cost - w->acked_cost;
}

bool
prd_node_has_room(const struct prd_node *node, size_t len)
{
	const struct prd_window *w = &node->window;

	return held(w) == 0 || held(w) + len + PRD_FRAME_COST <= w->size;
}

uint64_t
prd_node_room(const struct prd_node *node)
{
	const struct prd_window *w = &node->window;

	return w->size > held(w) ? w->size - held(w) : 0;
}

void
prd_node_status(struct prd_nodes *nodes, struct prd_node *node, const struct pr_status *s)
{
	bool usable = prd_node_usable(node);
	uint64_t ordinal = s->ordinal_settled;
	struct prd_window *w = &node->window;

	node->status = *s;
	if (ordinal > w->acknowledged && ordinal <= node->next_ordinal) {
		w->acknowledged = ordinal;
		while (w->count > 0 && w->points[w->first].ordinal <= ordinal) {
			w->acked_cost = w->points[w->first].cost;
			w->first = (w->first + 1) % PRD_WINDOW_POINTS;
			w->count--;
		}
		if (ordinal == node->next_ordinal) {
			w->acked_cost = w->sent_cost;
			w->next_point_cost = w->sent_cost + window_step(w);
			w->count = 0;
		}
	}
	if (usable != prd_node_usable(node))
		nodes->change_count++;
}

/* ---- the spread: which node gets a packet ---- */

const char *const prd_spread_names[] = {"round-robin", "weighted", "flow", NULL};

enum { WEIGHT_MAX = 1000, NO_NODE = UINT16_MAX };

void
prd_spread_init(struct prd_spread *spread, enum prd_spread_mode mode, bool strict,
	struct prd_nodes *nodes)
{
	memset(spread, 0, sizeof *spread);
	spread->mode = mode;
	spread->strict = strict;
	spread->nodes = nodes;
	spread->change_count = UINT64_MAX;
}

static void
bucket_fill(struct prd_spread *spread, unsigned bucket)
{
	uint64_t best[2] = {0, 0};
	uint16_t *top = spread->top[bucket];

	top[0] = top[1] = NO_NODE;
	for (unsigned i = 0; i < spread->nodes->count; i++) {
		const struct prd_node *node = spread->nodes->list[i];
		/* splitmix64's finaliser over flow bucket and MAC: each pair gets a rank of its own */
		uint64_t x = bucket * UINT64_C(0x9E3779B97F4A7C15);

		if (!prd_node_usable(node))
			continue;
		for (int k = 0; k < PR_MAC_LEN; k++)
			x = (x ^ node->mac[k]) * UINT64_C(0x100000001B3);
		x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
		x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
		x ^= x >> 31;
		if (top[0] == NO_NODE || x > best[0]) {
			best[1] = best[0];
			top[1] = top[0];
			best[0] = x;
			top[0] = i;
		} else if (top[1] == NO_NODE || x > best[1]) {
			best[1] = x;
			top[1] = i;
		}
	}
}

static uint64_t
rate_of(const struct prd_node *n)
{
	return n->status.write_rate ? n->status.write_rate : n->ann.write_rate;
}

static uint64_t
space_of(const struct prd_node *n)
{
	return n->status.disk_total ? n->status.disk_free : n->ann.disk_free;
}

void
prd_spread_weigh(struct prd_spread *spread)
{
	uint64_t rate_max = 1, free_max = 1;

	for (struct prd_node *n = spread->queue; n; n = n->lru_next) {
		rate_max = rate_of(n) > rate_max ? rate_of(n) : rate_max;
		free_max = space_of(n) > free_max ? space_of(n) : free_max;
	}
	spread->total_weight = 0;
	for (struct prd_node *n = spread->queue; n; n = n->lru_next) {
		double share = rate_of(n) ? (double)rate_of(n) / (double)rate_max : 1.0;

		/* a full volume overwrites its oldest data: it counts for less, but not for nothing */
		share *= 0.1 + 0.9 * (double)space_of(n) / (double)free_max;
		n->weight = 1 + (int64_t)(share * WEIGHT_MAX);
		spread->total_weight += n->weight;
	}
}

static void
spread_rebuild(struct prd_spread *spread)
{
	spread->change_count = spread->nodes->change_count;
	spread->usable = 0;
	for (unsigned i = 0; i < spread->nodes->count; i++) {
		struct prd_node *node = spread->nodes->list[i];
		bool queued = node->lru_prev != NULL;

		if (queued && !prd_node_usable(node)) {
			DL_DELETE2(spread->queue, node, lru_prev, lru_next);
			node->lru_prev = NULL;
		}
		if (!queued && prd_node_usable(node)) {
			node->credit = 0;
			DL_APPEND2(spread->queue, node, lru_prev, lru_next);
		}
		spread->usable += prd_node_usable(node);
	}
	prd_spread_weigh(spread);
	if (spread->mode == PRD_SPREAD_FLOW)
		for (unsigned b = 0; b < PRD_FLOW_BUCKETS; b++)
			bucket_fill(spread, b);
}

void
prd_spread_change(struct prd_spread *spread, enum prd_spread_mode mode)
{
	spread->mode = mode;
	spread_rebuild(spread);
}

/* The longest waiting node with room; if none has room and unless strict, the longest waiting node. */
static struct prd_node *
pick_round_robin(struct prd_spread *spread, size_t len, const struct prd_node *except)
{
	struct prd_node *n, *fallback = NULL;

	for (n = spread->queue; n; n = n->lru_next) {
		if (n == except)
			continue;
		if (prd_node_has_room(n, len))
			break;
		if (!fallback)
			fallback = n;
	}
	if (!n && !spread->strict)
		n = fallback;
	if (n) {
		DL_DELETE2(spread->queue, n, lru_prev, lru_next);
		DL_APPEND2(spread->queue, n, lru_prev, lru_next);
	}
	return n;
}

/* Smooth weighted round robin: each node gets its weight as credit; the chosen one pays the sum of all weights. */
static struct prd_node *
pick_weighted(struct prd_spread *spread, size_t len, const struct prd_node *except)
{
	struct prd_node *n, *best = NULL, *fallback = NULL;

	for (n = spread->queue; n; n = n->lru_next) {
		n->credit += n->weight;
		if (n == except)
			continue;
		if (!prd_node_has_room(n, len)) {
			if (!fallback || n->credit > fallback->credit)
				fallback = n;
		} else if (!best || n->credit > best->credit) {
			best = n;
		}
	}
	if (!best)
		best = spread->strict ? NULL : fallback;
	if (best) {
		best->credit -= spread->total_weight;
		return best;
	}
	/* No frame was sent: undo the credit of this round. */
	for (n = spread->queue; n; n = n->lru_next)
		n->credit -= n->weight;
	return NULL;
}

/*
 * Picks a node for each copy. If strict, picks none unless all can be placed: else the
 * first copy would stay counted.
 */
static enum prd_spread_result
pick_two(struct prd_spread *spread, unsigned copies, size_t len, struct prd_node *out[2],
	struct prd_node *(*pick)(struct prd_spread *, size_t, const struct prd_node *))
{
	unsigned room = 0;
	const struct prd_node *n;

	if (spread->strict) {
		for (n = spread->queue; n && room < copies; n = n->lru_next)
			room += prd_node_has_room(n, len);
		if (room < copies && room < spread->usable)
			return PRD_SPREAD_FULL;
	}
	out[0] = pick(spread, len, NULL);
	if (copies > 1)
		out[1] = pick(spread, len, out[0]);
	return PRD_SPREAD_OK;
}

enum prd_spread_result
prd_spread_pick(struct prd_spread *spread, unsigned copies, const uint8_t *data, size_t len,
	struct prd_node *out[2])
{
	struct pr_decoded decoded;
	const uint16_t *top;

	out[0] = out[1] = NULL;
	if (spread->change_count != spread->nodes->change_count)
		spread_rebuild(spread);
	if (spread->usable == 0)
		return PRD_SPREAD_NONE;
	if (spread->mode == PRD_SPREAD_WEIGHTED)
		return pick_two(spread, copies, len, out, pick_weighted);
	if (spread->mode == PRD_SPREAD_ROUND_ROBIN)
		return pick_two(spread, copies, len, out, pick_round_robin);
	pr_decode(1, data, len, &decoded);
	top = spread->top[pr_flow_hash(&decoded, data, len, 0) % PRD_FLOW_BUCKETS];
	for (unsigned i = 0; i < copies && top[i] != NO_NODE; i++) {
		out[i] = spread->nodes->list[top[i]];
		if (spread->strict && !prd_node_has_room(out[i], len))
			return PRD_SPREAD_FULL;
	}
	return PRD_SPREAD_OK;
}
