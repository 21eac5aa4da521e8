/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_SERVE_H
#define PR_INDEXER_SERVE_H

#include <stddef.h>
#include <stdint.h>

#include "indexer/view.h"
#include "proto/base/error.h"
#include "proto/base/loop.h"
#include "proto/rpc/rpc.h"

/*
 * Answers queries in the loop: each that runs gets a slice of a few milliseconds in turn, so that
 * credit, Cancel and signs of life are dealt with meanwhile. Queries beyond the limit wait their
 * turn; those whose asker gives no credit do not count. Call from the loop's thread only.
 */
struct pr_serve;

#define PR_SERVE_RUNNING_DEFAULT 4
#define PR_SERVE_RUNNING_MAX 64
#define PR_SERVE_WAITING_MAX 256

struct pr_serve *pr_serve_create(
	struct pr_loop *loop, size_t running_max, struct pr_error *err);
void pr_serve_destroy(struct pr_serve **serve);

/*
 * The volume, once it is there; NULL when it is not (any more): then queries fail with `why`. The
 * view stays the caller's; queries that run on the one before fail.
 */
void pr_serve_set_view(struct pr_serve *serve, struct pr_view *view, const char *why);

/* Query, Credit and Cancel; others are left alone. peer NULL: rpc is our connection to a merger. */
void pr_serve_message(struct pr_serve *serve, struct pr_rpc *rpc,
	const struct pr_rpc_peer *peer, const Packrack__Envelope *env);
/* The connection is gone, and with it who asked over it. */
void pr_serve_drop(struct pr_serve *serve, struct pr_rpc *rpc);
/* Every second or so: forgets askers that are gone. */
void pr_serve_tick(struct pr_serve *serve);

uint64_t pr_serve_queries(const struct pr_serve *serve); /* so far */
size_t pr_serve_running(const struct pr_serve *serve);

#endif
