/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "proto/base/error.h"
#include "proto/rpc/message.h"

/*
 * The state of the rack that users change while it runs: classes, suspended cutoffs, moved addresses, holds. Dispatchers,
 * nodes and mergers keep it, and tell each other. An item has a key; of two with one key the later counts (of one time, that whose bytes
 * are greater). So the order in which changes arrive does not matter, and all end with the same. Removed items stay until
 * their end, so that nobody brings them back. Loop's thread; time is an argument.
 */
#define PR_STATE_MAX 4352 /* items */
#define PR_STATE_CLASS_TEXT 4096 /* bytes of a class */
#define PR_STATE_HOLD_BYTES 16384 /* with its query */
#define PR_STATE_HOLDS 16 /* that are not released */
#define PR_STATE_REMOVED_NS                                                                \
	(30 * INT64_C(86400) * 1000000000) /* what is remembered of a removed class */

struct pr_rack_state {
	Packrack__SteerRule **items; /* by key */
	size_t count;
	uint64_t digest; /* of all items; 0: there are none */
	uint64_t
		refused; /* the digest of what was merged last with items that were refused: that is logged once */
	/*
	 * Called before an item is taken, and (with removed) when its end has come. -1: it is not taken, err says why; it is offered
	 * again. Optional; what is taken is logged, with its user and reason.
	 */
	int (*apply)(void *arg, const Packrack__SteerRule *item, struct pr_error *err);
	void *arg;
};

/* The verbs of commands that change the state. */
struct pr_state_verb {
	const char *name;
	const char *of; /* an item's verb */
	bool removed;
};
/* NULL: another verb. */
const struct pr_state_verb *pr_state_verb(const char *name);
/* NULL: there is none. */
const Packrack__SteerRule *pr_state_find(const struct pr_rack_state *s, const char *key);
/* A time for a change: later than all that are known. */
int64_t pr_state_time(const struct pr_rack_state *s, int64_t now);
/* Takes a copy of an item. 1: taken; 0: we have it, or a later one, or it has ended; -1: refused, or there are too many. */
int pr_state_put(struct pr_rack_state *s, const Packrack__SteerRule *item, int64_t now,
	struct pr_error *err);
/* Takes what is new. The number of items taken; those that are refused are logged. */
unsigned pr_state_merge(
	struct pr_rack_state *s, const Packrack__RackState *from, int64_t now);
/* Drops items that have ended. */
void pr_state_expire(struct pr_rack_state *s, int64_t now);
/* All items; borrowed, valid until the next change. */
Packrack__RackState pr_state_message(const struct pr_rack_state *s);
/* Merges what another says that it knows. True: we know other things; *reply has all that we know. */
bool pr_state_exchange(struct pr_rack_state *s, const Packrack__RackState *from,
	int64_t now, Packrack__RackState *reply);
/* Is its digest that of its items? */
bool pr_state_is(const Packrack__RackState *message);
void pr_state_free(struct pr_rack_state *s);
