/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/nodes.h"

#include <stdlib.h>
#include <string.h>

const char *
prd_node_phase_name(enum prd_node_phase phase)
{
	static const char *const names[] = {"active", "gone", "quit", "disconnected"};

	return (unsigned)phase < sizeof names / sizeof names[0] ? names[phase] : "?";
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

struct prd_node *
prd_nodes_by_mac(const struct prd_nodes *nodes, const uint8_t mac[PR_MAC_LEN])
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

static bool
mac_valid(const uint8_t mac[PR_MAC_LEN])
{
	static const uint8_t zero[PR_MAC_LEN];

	return !(mac[0] & 1) && memcmp(mac, zero, PR_MAC_LEN) != 0;
}

static bool
nonce_retired(const struct prd_node *node, uint32_t nonce)
{
	for (unsigned i = 0; i < PRD_RETIRED_MAX; i++)
		if (node->retired[i] == nonce)
			return true;
	return false;
}

/* The node starts from nothing: it does not know what an earlier run of it was sent. */
static void
node_admit(struct prd_nodes *nodes, struct prd_node *node, uint32_t nonce,
	const struct pr_ann *ann, int64_t now)
{
	if (node->nonce != 0)
		node->retired[node->retired_at++ % PRD_RETIRED_MAX] = node->nonce;
	node->nonce = nonce;
	node->pending_nonce = 0;
	node->ann = *ann;
	node->phase = PRD_NODE_ACTIVE;
	node->heard = now;
	memset(&node->status, 0, sizeof node->status);
	memset(&node->window, 0, sizeof node->window);
	node->window.size = ann->buffer_size ? ann->buffer_size : PRD_WINDOW_DEFAULT;
	node->next_ordinal = 0;
	node->primaries = node->seconds = node->bytes_sent = 0;
	node->mtu = ann->mtu != 0 && ann->mtu < nodes->mtu ? ann->mtu : nodes->mtu;
	nodes->generation++;
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
	node->number = (uint16_t)nodes->count;
	nodes->list[nodes->count++] = node;
	return node;
}

static enum prd_ann_result
ann_same_nonce(struct prd_nodes *nodes, struct prd_node *node, const struct pr_ann *ann,
	int64_t now)
{
	enum prd_ann_result result = PRD_ANN_KNOWN;

	node->ann = *ann;
	node->heard = now;
	if (node->phase != PRD_NODE_ACTIVE) {
		node->phase = PRD_NODE_ACTIVE;
		nodes->generation++;
		result = PRD_ANN_BACK;
	}
	return result;
}

enum prd_ann_result
prd_nodes_ann(struct prd_nodes *nodes, const uint8_t mac[PR_MAC_LEN],
	const struct pr_frame_header *header, const struct pr_ann *ann, int64_t now,
	struct prd_node **out)
{
	struct prd_node *node = prd_nodes_by_mac(nodes, mac);
	uint32_t nonce = header->sender_nonce;

	*out = node;
	if (!mac_valid(mac) || nonce == 0)
		return PRD_ANN_REFUSED;
	if (!node) {
		*out = node = node_create(nodes, mac);
		if (!node)
			return PRD_ANN_REFUSED;
		pr_replay_accept(&node->replay[PR_FRAME_ANN], nonce, header->number);
		node_admit(nodes, node, nonce, ann, now);
		return PRD_ANN_NEW;
	}
	if (node->phase == PRD_NODE_DISCONNECTED)
		return PRD_ANN_REFUSED;
	if (nonce_retired(node, nonce) ||
		!pr_replay_accept(&node->replay[PR_FRAME_ANN], nonce, header->number)) {
		nodes->refused_replay++;
		return PRD_ANN_REFUSED;
	}
	if (nonce == node->nonce)
		return ann_same_nonce(nodes, node, ann, now);
	if (node->phase == PRD_NODE_ACTIVE) {
		node->pending_nonce = nonce;
		node->pending_ann = *ann;
		return PRD_ANN_PENDING;
	}
	node_admit(nodes, node, nonce, ann, now);
	return PRD_ANN_RESTART;
}

struct prd_node *
prd_nodes_hear(struct prd_nodes *nodes, const struct pr_frame *frame, int64_t now,
	enum prd_ann_result *admitted)
{
	const struct pr_frame_header *h = &frame->header;
	struct prd_node *node = prd_nodes_by_mac(nodes, frame->src);
	bool pending =
		node && h->sender_nonce != 0 && h->sender_nonce == node->pending_nonce;

	*admitted = PRD_ANN_KNOWN;
	if (!node || h->epoch != nodes->epoch || h->receiver_nonce != nodes->own_nonce ||
		(h->sender_nonce != node->nonce && !pending)) {
		nodes->refused_stale++;
		return NULL;
	}
	if (!pr_replay_accept(&node->replay[h->type], h->sender_nonce, h->number)) {
		nodes->refused_replay++;
		return NULL;
	}
	if (pending) {
		struct pr_ann ann = node->pending_ann;

		node_admit(nodes, node, h->sender_nonce, &ann, now);
		*admitted = PRD_ANN_RESTART;
	}
	node->heard = now;
	node->controls_received++;
	if (node->phase == PRD_NODE_GONE && h->type == PR_FRAME_STATUS) {
		node->phase = PRD_NODE_ACTIVE;
		nodes->generation++;
		*admitted = PRD_ANN_BACK;
	}
	return node;
}

void
prd_node_leave(struct prd_nodes *nodes, struct prd_node *node, enum prd_node_phase phase)
{
	if (node->phase == PRD_NODE_ACTIVE && phase == PRD_NODE_GONE)
		node->lost_unacknowledged += node->next_ordinal - node->window.settled;
	node->phase = phase;
	nodes->generation++;
}

struct prd_node *
prd_nodes_expire(struct prd_nodes *nodes, int64_t now, int64_t silence)
{
	for (unsigned i = 0; i < nodes->count; i++) {
		struct prd_node *node = nodes->list[i];

		if (node->phase != PRD_NODE_ACTIVE || now - node->heard < silence)
			continue;
		prd_node_leave(nodes, node, PRD_NODE_GONE);
		return node;
	}
	return NULL;
}
