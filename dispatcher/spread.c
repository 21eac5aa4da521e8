/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/spread.h"

#include <string.h>

#include "proto/wire/decode.h"

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
	spread->generation = UINT64_MAX;
	spread->queue.lru_next = spread->queue.lru_prev = &spread->queue;
}

static void
queue_remove(struct prd_node *node)
{
	if (!node->lru_next)
		return;
	node->lru_next->lru_prev = node->lru_prev;
	node->lru_prev->lru_next = node->lru_next;
	node->lru_next = node->lru_prev = NULL;
}

static void
queue_append(struct prd_spread *spread, struct prd_node *node)
{
	struct prd_node *head = &spread->queue;

	node->lru_prev = head->lru_prev;
	node->lru_next = head;
	head->lru_prev->lru_next = node;
	head->lru_prev = node;
}

/* splitmix64's finaliser over flow bucket and MAC: each pair gets a rank of its own */
static uint64_t
rendezvous(uint64_t bucket, const struct prd_node *node)
{
	uint64_t x = bucket * UINT64_C(0x9E3779B97F4A7C15);

	for (int i = 0; i < PR_MAC_LEN; i++)
		x = (x ^ node->mac[i]) * UINT64_C(0x100000001B3);
	x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
	return x ^ (x >> 31);
}

static void
bucket_fill(struct prd_spread *spread, unsigned bucket)
{
	uint64_t best[2] = {0, 0};
	uint16_t *top = spread->top[bucket];

	top[0] = top[1] = NO_NODE;
	for (unsigned i = 0; i < spread->nodes->count; i++) {
		uint64_t rank;

		if (!prd_node_usable(spread->nodes->list[i]))
			continue;
		rank = rendezvous(bucket, spread->nodes->list[i]);
		if (top[0] == NO_NODE || rank > best[0]) {
			best[1] = best[0];
			top[1] = top[0];
			best[0] = rank;
			top[0] = (uint16_t)i;
		} else if (top[1] == NO_NODE || rank > best[1]) {
			best[1] = rank;
			top[1] = (uint16_t)i;
		}
	}
}

void
prd_spread_weigh(struct prd_spread *spread)
{
	uint64_t rate_max = 1, free_max = 1;
	struct prd_node *n, *head = &spread->queue;

	for (n = head->lru_next; n != head; n = n->lru_next) {
		uint64_t rate =
			n->status.write_rate ? n->status.write_rate : n->ann.write_rate;
		uint64_t space =
			n->status.disk_total ? n->status.disk_free : n->ann.disk_free;

		rate_max = rate > rate_max ? rate : rate_max;
		free_max = space > free_max ? space : free_max;
	}
	spread->total_weight = 0;
	for (n = head->lru_next; n != head; n = n->lru_next) {
		uint64_t rate =
			n->status.write_rate ? n->status.write_rate : n->ann.write_rate;
		uint64_t space =
			n->status.disk_total ? n->status.disk_free : n->ann.disk_free;
		double share = rate ? (double)rate / (double)rate_max : 1.0;

		/* a full volume recycles: it counts for less, not for nothing */
		share *= 0.1 + 0.9 * (double)space / (double)free_max;
		n->weight = 1 + (int64_t)(share * WEIGHT_MAX);
		spread->total_weight += n->weight;
	}
}

static void
spread_rebuild(struct prd_spread *spread)
{
	spread->generation = spread->nodes->generation;
	spread->usable = 0;
	for (unsigned i = 0; i < spread->nodes->count; i++) {
		struct prd_node *node = spread->nodes->list[i];
		bool queued = node->lru_next != NULL;

		if (queued && !prd_node_usable(node))
			queue_remove(node);
		if (!queued && prd_node_usable(node)) {
			node->credit = 0;
			queue_append(spread, node);
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

/* The longest waiting node with room; failing that, unless strict, the longest waiting one. */
static struct prd_node *
pick_round_robin(struct prd_spread *spread, size_t len, const struct prd_node * not )
{
	struct prd_node *n, *head = &spread->queue, *fallback = NULL;

	for (n = head->lru_next; n != head; n = n->lru_next) {
		if (n == not )
			continue;
		if (prd_node_room(n, len))
			break;
		if (!fallback)
			fallback = n;
	}
	if (n == head)
		n = spread->strict ? NULL : fallback;
	if (n) {
		queue_remove(n);
		queue_append(spread, n);
	}
	return n;
}

/* Smooth weighted round robin: everyone earns its weight, the richest pays for all. */
static struct prd_node *
pick_weighted(struct prd_spread *spread, size_t len, const struct prd_node * not )
{
	struct prd_node *n, *head = &spread->queue, *best = NULL, *fallback = NULL;

	for (n = head->lru_next; n != head; n = n->lru_next) {
		n->credit += n->weight;
		if (n == not )
			continue;
		if (!prd_node_room(n, len)) {
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
	/* nothing was sent: nobody may grow rich by waiting */
	for (n = head->lru_next; n != head; n = n->lru_next)
		n->credit -= n->weight;
	return NULL;
}

static enum prd_spread_result
pick_flow(struct prd_spread *spread, unsigned copies, const uint8_t *data, size_t len,
	struct prd_node *out[2])
{
	struct pr_decoded decoded;
	const uint16_t *top;

	pr_decode(1, data, len, &decoded);
	top = spread->top[pr_flow_hash(&decoded, data, len, 0) % PRD_FLOW_BUCKETS];
	for (unsigned i = 0; i < copies && top[i] != NO_NODE; i++) {
		out[i] = spread->nodes->list[top[i]];
		if (spread->strict && !prd_node_room(out[i], len))
			return PRD_SPREAD_FULL;
	}
	return PRD_SPREAD_OK;
}

/* A copy that cannot be placed now must not leave the first one counted. */
static enum prd_spread_result
pick_two(struct prd_spread *spread, unsigned copies, size_t len, struct prd_node *out[2],
	struct prd_node *(*pick)(struct prd_spread *, size_t, const struct prd_node *))
{
	unsigned room = 0;
	const struct prd_node *n, *head = &spread->queue;

	if (spread->strict) {
		for (n = head->lru_next; n != head && room < copies; n = n->lru_next)
			room += prd_node_room(n, len);
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
	out[0] = out[1] = NULL;
	if (spread->generation != spread->nodes->generation)
		spread_rebuild(spread);
	if (spread->usable == 0)
		return PRD_SPREAD_NONE;
	switch (spread->mode) {
	case PRD_SPREAD_FLOW:
		return pick_flow(spread, copies, data, len, out);
	case PRD_SPREAD_WEIGHTED:
		return pick_two(spread, copies, len, out, pick_weighted);
	default:
		return pick_two(spread, copies, len, out, pick_round_robin);
	}
}
