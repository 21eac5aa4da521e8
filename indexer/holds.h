/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/query/volume.h"
#include "indexer/record_sender.h"
#include "proto/rpc/rack_state.h"

/*
 * Holds: cases whose packets, past and future, this node copies into streams of their own until they are released, so that an
 * alarm's packets are there when somebody comes to look (Maier et al., SIGCOMM 2008, section 5). Their definitions are records of
 * the volume's stream "holds", which the logger writes, as it writes the copies; what is copied already is known by the
 * copies. A volume that fills its memory goes before a hold: copying waits for the logger. Loop's thread.
 */
#define PRI_HOLDS_MAX (PR_CLASS_MAX - PR_CLASS_HOLDS + 1)

/* The volume must be loaded; both must outlive it. */
struct pri_holds *pri_holds_create(
	struct pri_volume *volume, struct pri_record_sender *sender, struct pr_error *err);
void pri_holds_destroy(struct pri_holds **holds);
/*
 * Call some ten times a second: copies for a few milliseconds. Holds that the rack's state has, and this node missed, begin;
 * those that were released meanwhile end.
 */
void pri_holds_step(struct pri_holds *holds, const struct pr_rack_state *state);
/*
 * Makes a merger's command "hold" ready for the logger: finds the number of its class, or that of the hold that is released. -1:
 * err says why it is refused. The command is changed in place.
 */
int pri_holds_prepare(
	struct pri_holds *holds, Packrack__Command *command, struct pr_error *err);
/* The holds that are not released, for status; the list is valid until the next call of any function. */
Packrack__Hold **pri_holds_list(struct pri_holds *holds, size_t *count);
