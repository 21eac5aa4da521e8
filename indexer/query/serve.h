/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/query/volume.h"
#include "proto/rpc/rpc.h"

/*
 * Answers queries in the loop. Each running query gets a slice of a few milliseconds in
 * turn, so that credit, Cancel and signs of life are handled in between. Queries beyond the
 * limit wait. Queries whose client gives no credit do not count for the limit. Queries whose time
 * range is in shared memory have places of their own, and come first. Call from the loop's thread only.
 */

enum { PRI_SERVE_RUNNING_DEFAULT = 4, PRI_SERVE_RUNNING_MAX = 64 };
#define PRI_SERVE_WAITING_MAX 256

struct pri_serve *pri_serve_create(
	struct pr_loop *loop, size_t running_max, struct pr_error *err);
void pri_serve_destroy(struct pri_serve **serve);

/*
 * Sets the volume; NULL: there is none yet or any more, and queries fail with `why`. The
 * caller owns the volume. Running queries on the previous volume fail.
 */
void pri_serve_set_volume(
	struct pri_serve *serve, struct pri_volume *volume, const char *why);

/*
 * Handles Query, Credit and Cancel; ignores other messages. peer NULL: rpc is our
 * connection to a merger.
 */
void pri_serve_message(struct pri_serve *serve, struct pr_rpc *rpc,
	const struct pr_rpc_peer *peer, const Packrack__Envelope *env);
/* The connection is gone: drops the queries that came over it. */
void pri_serve_drop(struct pri_serve *serve, struct pr_rpc *rpc);
/*
 * A timer's callback, called about every second; arg is the struct pri_serve. Drops queries
 * of clients that are gone.
 */
void pri_serve_tick(void *arg);

/* Adds the counts of queries to a new status. */
void pri_serve_status(const struct pri_serve *serve, Packrack__NodeStatus *status);
