/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/registry.h"
#include "proto/rpc/rack_state.h"

/*
 * The state of the rack at a merger (proto/rpc/rack_state.h). It is connected to the dispatchers, which check changes and carry
 * them out, and to the nodes, which keep them: so a dispatcher that begins anew gets them back. Every second the merger compares
 * what each of them has by its digest. A dispatcher is believed; nodes only from 6 s after the merger's start on, if more than half
 * of all that it knows have the same. Loop's thread.
 */
/* Called with a dispatcher's answer to a command (CommandDone or Failure). */
typedef void prm_steering_answer(
	void *arg, const struct prm_peer_ref *from, const Packrack__Envelope *env);

struct prm_dispatcher {
	struct prm_steering *steering;
	char *endpoint;
	struct pr_rpc *rpc;
	bool connected, said_refused;
};

#define PRM_DISPATCHERS_MAX 64
struct prm_steering {
	struct pr_loop *loop;
	const struct prm_registry *registry;
	prm_steering_answer *answer;
	void *arg;
	struct prm_dispatcher items[PRM_DISPATCHERS_MAX];
	size_t count;
	int64_t began, said; /* monotonic */
	struct pr_rack_state state; /* for all to read */
};

/* registry must outlive it; it stays where it is. */
void prm_steering_init(struct prm_steering *s, struct pr_loop *loop,
	const struct prm_registry *registry, prm_steering_answer *answer, void *arg);
void prm_steering_close(struct prm_steering *s);
/* A dispatcher; keys as a client's, whose role must be operate. */
int prm_steering_add(struct prm_steering *s, const char *endpoint, const char *keys,
	struct pr_error *err);
/* A dispatcher that takes commands. False: err says why there is none. */
bool prm_steering_dispatcher(
	const struct prm_steering *s, struct prm_peer_ref *to, struct pr_error *err);
/* "hold-add" or "hold-release": nodes that are away learn of it when they are back. */
int prm_steering_hold(
	struct prm_steering *s, const Packrack__Command *c, struct pr_error *err);
/* A few times a second. */
void prm_steering_tick(struct prm_steering *s, int64_t mono);
/* A node has said Hello: tells it what it does not know. */
void prm_steering_hello(struct prm_steering *s, const struct prm_node_info *node);
/* What a node knows. */
void prm_steering_state(struct prm_steering *s, const Packrack__RackState *from);
