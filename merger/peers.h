/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_MERGER_PEERS_H
#define PR_MERGER_PEERS_H

#include <stddef.h>
#include <stdint.h>

#include "merger/duty.h"
#include "merger/route.h"
#include "proto/base/error.h"
#include "proto/base/loop.h"
#include "proto/rpc/rpc.h"

/*
 * The other mergers, among which the duty for summaries rotates: which of them live, and questions to
 * those whose duty the summaries are that a query needs. One thread.
 */
struct pr_peers;

#define PR_PEERS_LATE_NS INT64_C(3500000000) /* each says its name every second */
#define PR_PEERS_WAIT_NS                                                                   \
	INT64_C(300000000) /* for their answers; then nodes are asked instead */

/* A question under way. Verdicts are the owner's, who waits until left is 0 or deadline has passed. */
struct pr_inquiry {
	struct pr_inquiry *next;
	uint64_t id;
	size_t left; /* answers that have not come */
	int64_t deadline; /* monotonic */
	struct pr_verdicts verdicts;
};

/* name: of this merger. duty: is kept up; both must outlive it. done: all answers have come. */
struct pr_peers *pr_peers_create(struct pr_loop *loop, const char *name,
	struct pr_duty *duty, void (*done)(void *arg), void *arg);
void pr_peers_destroy(struct pr_peers **peers);
/* keys as in pr_rpc_connect. */
int pr_peers_add(struct pr_peers *peers, const char *endpoint,
	const struct pr_rpc_keys *keys, struct pr_error *err);
/* A few times a second. */
void pr_peers_tick(struct pr_peers *peers, int64_t mono);

/*
 * Asks other mergers what this query's nodes lack here. false: there is nothing to ask, or nobody.
 * Else inquiry is one of those under way until pr_peers_forget.
 */
bool pr_peers_ask(struct pr_peers *peers, struct pr_route *route, const char *const *nodes,
	size_t count, int64_t mono, struct pr_inquiry *inquiry);
void pr_peers_forget(struct pr_peers *peers, struct pr_inquiry *inquiry);

/* What another merger asks of us; reply is to be freed with pr_peers_reply_free. */
int pr_peers_judge(struct pr_route *route, const Packrack__RouteRequest *request,
	Packrack__Route *reply);
void pr_peers_reply_free(Packrack__Route *reply);

size_t pr_peers_alive(const struct pr_peers *peers);

#endif
