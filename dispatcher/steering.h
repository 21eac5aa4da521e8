/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dispatcher/cutoff.h"
#include "proto/base/ring.h"
#include "proto/rpc/rack_state.h"

/*
 * The state of the rack at a dispatcher (proto/rpc/rack_state.h): checks changes, and passes them to the send thread as
 * events. The classes of the configuration are the base; a live one of the same name counts until it is removed. Loop's thread.
 */
enum { PRD_STEERING_CLASSES = 2 * PRD_CLASSES_MAX };
struct prd_steering {
	struct prd_cutoff *cutoff;
	const struct prd_classes *classes; /* the last ones that were made */
	const struct pr_string_list *configured;
	struct pr_ring *events;
	/* the owner's: to exchange it with a merger, to end what is over, to free it */
	struct pr_rack_state state;
	uint64_t request; /* of the change that is being made; 0: of nobody */
	/* for status */
	Packrack__SteerRule *rules[PR_STATE_MAX];
	Packrack__RackClass class_items[PRD_STEERING_CLASSES],
		*class_pointers[PRD_STEERING_CLASSES];
};

/* s is zeroed. cutoff NULL: this dispatcher has no classes: it keeps the state, and refuses changes. All must outlive it. */
void prd_steering_init(struct prd_steering *s, struct prd_cutoff *cutoff,
	const struct pr_string_list *classes, struct pr_ring *events);

/*
 * A user's command, of a verb that changes the state. The send thread answers `request`. -1: it
 * is refused, err says why.
 */
int prd_steering_command(struct prd_steering *s, const Packrack__Command *command,
	const char *user, uint64_t request, struct pr_error *err);
/* Fills in rules and classes, borrowed until the next call of any function. */
void prd_steering_status(struct prd_steering *s, Packrack__Status *status);
