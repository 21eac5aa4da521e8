/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/registry.h"
#include "merger/route.h"

/*
 * The other mergers, which share the summaries with this one: which of them are alive, and
 * requests to those responsible for the summaries that a query needs. One thread.
 */

#define PRM_PEERS_LATE_NS INT64_C(3500000000) /* each sends its name every second */
/* Wait for their answers; after that, the nodes are asked instead. */
#define PRM_PEERS_WAIT_NS INT64_C(300000000)

/*
 * A request to other mergers. The caller owns the exclusions, and waits until left is 0 or
 * deadline has passed.
 */
struct prm_inquiry {
	struct prm_inquiry *next;
	uint64_t id;
	size_t left; /* answers that have not come */
	int64_t deadline; /* monotonic */
	struct prm_exclusions exclusions;
};

/*
 * name: of this merger. ownership is kept up to date; both must outlive the peers. done:
 * called when all answers have come.
 */
struct prm_peers *prm_peers_create(struct pr_loop *loop, const char *name,
	struct prm_ownership *ownership, void (*done)(void *arg), void *arg);
void prm_peers_destroy(struct prm_peers **peers);
/* keys as in pr_rpc_connect. */
int prm_peers_add(struct prm_peers *peers, const char *endpoint, const char *keys,
	struct pr_error *err);
/* A few times a second. */
void prm_peers_tick(struct prm_peers *peers, int64_t mono);

/*
 * Asks other mergers about summaries of this query's nodes that are not here. False: there
 * is nothing to ask, or no merger to ask. True: the inquiry runs until prm_peers_forget.
 */
bool prm_peers_ask(struct prm_peers *peers, struct prm_route *route,
	const struct prm_registry *registry, int64_t mono, struct prm_inquiry *inquiry);
void prm_peers_forget(struct prm_peers *peers, struct prm_inquiry *inquiry);

/* Answers a request of another merger. The caller frees *excluded. */
void prm_peers_answer(struct prm_route *route, const Packrack__RouteRequest *request,
	struct prm_exclusions *excluded);

size_t prm_peers_alive(const struct prm_peers *peers);
