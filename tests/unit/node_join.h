/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "dispatcher/nodes.h"

/* A node announces itself, and confirms it by a STATUS, as one that is there does. */
static inline struct prd_node *
node_join(struct prd_nodes *nodes, const uint8_t mac[PR_MAC_LEN], uint32_t nonce,
	const struct pr_ann *ann, int64_t now)
{
	struct pr_frame f = {
		.header = {.type = PR_FRAME_ANN, .sender_nonce = nonce, .number = 1}};
	enum prd_ann_result how;
	struct prd_node *node;

	if (prd_nodes_ann(nodes, mac, &f.header, ann, now, &node) != PRD_ANN_PENDING)
		return NULL;
	memcpy(f.src, mac, PR_MAC_LEN);
	f.header.type = PR_FRAME_STATUS;
	f.header.epoch = nodes->epoch;
	f.header.receiver_nonce = nodes->own_nonce;
	return prd_nodes_accept_frame(nodes, &f, now, &how);
}
