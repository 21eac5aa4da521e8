/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/query/volume.h"
#include "indexer/record_sender.h"
#include "proto/rpc/rack_state.h"

/*
 * The state of the rack at a node (proto/rpc/rack_state.h): the node does not use it, but keeps it in its volume's stream
 * "state", so that it is there when dispatchers and mergers are lost. The logger writes it, whole, after each change. Loop's
 * thread.
 */
struct pri_state_keeper {
	struct pri_volume *volume; /* NULL: not open */
	struct pri_record_sender *sender;
	struct sfs_cursor *cursor; /* of stream "state"; NULL: there is none yet */
	uint64_t sequence; /* of the newest record */
	struct pr_rack_state state; /* for all to read, and to exchange with a merger */
	uint64_t stored, storing; /* digests */
	int64_t next; /* monotonic */
};

/* The volume must be loaded; both must outlive it. */
void pri_state_keeper_open(struct pri_state_keeper *keeper, struct pri_volume *volume,
	struct pri_record_sender *sender);
/* Also if it is not open. */
void pri_state_keeper_close(struct pri_state_keeper *keeper);
/* Some times a second. */
void pri_state_keeper_step(struct pri_state_keeper *keeper);
