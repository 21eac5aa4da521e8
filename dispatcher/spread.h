/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_SPREAD_H
#define PR_DISPATCHER_SPREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dispatcher/nodes.h"

/*
 * Which node gets a packet. Pure: no I/O. Used by the send thread only.
 *   round-robin  the node that has waited longest (CLog's least-recently-used queue)
 *   weighted     in proportion to announced write rate and free space, evenly in time
 *   flow         all packets of a connection to one node; when a node goes, only its flows move
 */
enum prd_spread_mode { PRD_SPREAD_ROUND_ROBIN, PRD_SPREAD_WEIGHTED, PRD_SPREAD_FLOW };
extern const char *const prd_spread_names[]; /* NULL-terminated, for the option */

#define PRD_FLOW_BUCKETS 4096

struct prd_spread {
	enum prd_spread_mode mode;
	bool strict; /* never beyond a node's announced buffer: rather wait */
	struct prd_nodes *nodes;
	uint64_t generation; /* of nodes, at the last rebuild */
	struct prd_node
		queue; /* head of the ring of usable nodes; only its lru pointers are used */
	unsigned usable;
	int64_t total_weight;
	uint16_t top[PRD_FLOW_BUCKETS][2]; /* node numbers, best and second best */
};

void prd_spread_init(struct prd_spread *spread, enum prd_spread_mode mode, bool strict,
	struct prd_nodes *nodes);

enum prd_spread_result {
	PRD_SPREAD_OK,
	PRD_SPREAD_NONE, /* no usable node */
	PRD_SPREAD_FULL, /* strict: there are nodes, but they hold all that they can */
};

/* From the next packet on; to which nodes earlier ones went does not matter to anybody. */
void prd_spread_change(struct prd_spread *spread, enum prd_spread_mode mode);

/*
 * Chooses out[0], and for copies = 2 another node as out[1] (NULL when there is only one).
 * data, len: the packet as captured.
 */
enum prd_spread_result prd_spread_pick(struct prd_spread *spread, unsigned copies,
	const uint8_t *data, size_t len, struct prd_node *out[2]);

/* Recomputes weights; call when STATUS has changed rates or free space, e.g. once a second. */
void prd_spread_weigh(struct prd_spread *spread);

#endif
