/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dispatcher/cutoff.h"
#include "proto/base/ring.h"
#include "proto/rpc/rack_state.h"

/*
 * The state of the rack at a dispatcher (proto/rpc/rack_state.h): checks changes, and passes them to the send thread as
 * events. The classes of the configuration are the base; a live one of the same name counts until it is removed. Loop's thread.
 */
struct prd_steering;

/* cutoff NULL: this dispatcher has no classes: it keeps the state, and refuses changes. All must outlive it. */
struct prd_steering *prd_steering_create(struct prd_cutoff *cutoff,
	const struct pr_string_list *classes, struct pr_ring *events, struct pr_error *err);
void prd_steering_destroy(struct prd_steering **steering);

/*
 * A user's command, of a verb that changes the state. The send thread answers `request`. -1: it
 * is refused, err says why.
 */
int prd_steering_command(struct prd_steering *s, const Packrack__Command *command,
	const char *user, uint64_t request, struct pr_error *err);
/* To exchange it with a merger, and to end what is over. */
struct pr_rack_state *prd_steering_state(struct prd_steering *s);
/* Fills in rules and classes, borrowed until the next call of any function. */
void prd_steering_status(struct prd_steering *s, Packrack__Status *status);
