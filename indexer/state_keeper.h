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
struct pri_state_keeper;

/* The volume must be loaded; both must outlive it. */
struct pri_state_keeper *pri_state_keeper_create(
	struct pri_volume *volume, struct pri_record_sender *sender, struct pr_error *err);
void pri_state_keeper_destroy(struct pri_state_keeper **keeper);
/* Some times a second. */
void pri_state_keeper_step(struct pri_state_keeper *keeper);
/* To exchange it with a merger. */
struct pr_rack_state *pri_state_keeper_state(struct pri_state_keeper *keeper);
