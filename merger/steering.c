/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/steering.h"

#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/text.h"

#define SAY_NS PR_NS_PER_S

static void
tell(const struct prm_steering *s, const struct prm_peer_ref *to, bool all)
{
	Packrack__RackState message = pr_state_message(&s->state);

	if (!all)
		message.n_items = 0;
	prm_send(to, 0, PACKRACK__ENVELOPE__BODY_STATE, &message);
}

static void
tell_dispatchers(struct prm_steering *s, bool all)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->items[i].connected)
			tell(s, &(struct prm_peer_ref){.rpc = s->items[i].rpc}, all);
	s->said = pr_now_mono();
}

/* Something has changed here: all who do not have it hear of it. */
static void
spread(struct prm_steering *s)
{
	tell_dispatchers(s, true);
	for (size_t i = 0; i < s->registry->count; i++)
		prm_steering_hello(s, s->registry->nodes[i]);
}

/* ---- dispatchers ---- */

static void
on_message(
	void *arg, PR_UNUSED const struct pr_rpc_peer *from, const Packrack__Envelope *env)
{
	struct prm_dispatcher *d = arg;
	struct prm_steering *s = d->steering;
	const struct prm_peer_ref ref = {.rpc = d->rpc};

	if (env->body_case != PACKRACK__ENVELOPE__BODY_STATE) {
		if (env->id)
			s->answer(s->arg, &ref, env);
		else if (env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE &&
			 !d->said_refused)
			pr_log_warning(
				"dispatcher %s: %s", d->endpoint, env->failure->text);
		if (env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE)
			d->said_refused = true;
		else
			tell_dispatchers(s, false); /* it may have changed something */
	} else if (pr_state_merge(&s->state, env->state, pr_now_real())) {
		spread(s);
	} else if (s->state.digest != env->state->digest) {
		tell(s, &ref, true);
	}
}

static void
on_state(void *arg, enum pr_rpc_state state)
{
	struct prm_dispatcher *d = arg;

	if (state == PR_RPC_REFUSED && !d->said_refused)
		pr_log_warning("%s: %s", d->endpoint, pr_rpc_refusal(d->rpc));
	d->said_refused |= state == PR_RPC_REFUSED;
	if (d->connected != (state == PR_RPC_CONNECTED))
		pr_log_info("dispatcher %s is %s", d->endpoint,
			d->connected ? "gone; trying again" : "here");
	d->connected = state == PR_RPC_CONNECTED;
	if (d->connected) {
		d->said_refused = false;
		tell(d->steering, &(struct prm_peer_ref){.rpc = d->rpc}, false);
	}
}

bool
prm_steering_dispatcher(
	const struct prm_steering *s, struct prm_peer_ref *to, struct pr_error *err)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->items[i].connected) {
			*to = (struct prm_peer_ref){.rpc = s->items[i].rpc};
			return true;
		}
	pr_error_set(
		err, s->count ? "none of this merger's dispatchers is connected: try again"
			      : "this merger knows no dispatcher: see --dispatcher");
	return false;
}

int
prm_steering_add(struct prm_steering *s, const char *endpoint, const char *keys,
	struct pr_error *err)
{
	if (s->count == PRM_DISPATCHERS_MAX)
		return pr_error_set(err, "--dispatcher: at most %d", PRM_DISPATCHERS_MAX);
	struct prm_dispatcher *d = &s->items[s->count++];
	d->steering = s;
	d->endpoint = strdup(endpoint);
	d->rpc = pr_rpc_connect(s->loop, endpoint, keys, on_message, d, err);
	if (!d->endpoint || !d->rpc)
		return -1;
	pr_rpc_watch(d->rpc, on_state, d);
	return 0;
}

/* ---- nodes ---- */

void
prm_steering_hello(struct prm_steering *s, const struct prm_node_info *node)
{
	const Packrack__NodeStatus *status = node->hello->status;

	if (status && status->state_digest != s->state.digest)
		tell(s, &node->address, true);
}

void
prm_steering_state(struct prm_steering *s, const Packrack__RackState *from)
{
	size_t same = 0;

	for (size_t i = 0; i < s->registry->count; i++) {
		const Packrack__NodeStatus *status = s->registry->nodes[i]->hello->status;

		same += status && status->state_digest == from->digest;
	}
	/*
	 * One node must not steer the rack, nor by being the first after a start: its digest is that of most, when all
	 * had time to come, and that of what it sends.
	 */
	if (pr_now_mono() - s->began > PRM_NODE_SILENT_NS &&
		2 * same > s->registry->count && pr_state_is(from) &&
		pr_state_merge(&s->state, from, pr_now_real()))
		spread(s);
}

/* ---- holds ---- */

int
prm_steering_hold(struct prm_steering *s, const Packrack__Command *c, struct pr_error *err)
{
	Packrack__SteerRule item = PACKRACK__STEER_RULE__INIT;
	Packrack__Hold released = PACKRACK__HOLD__INIT;
	char key[PR_MESSAGE_NAME_MAX + sizeof "hold "];

	item.removed = !c->hold;
	item.what = item.removed ? c->node : c->hold->name;
	PR_PRINT(key, "hold %s", item.what);
	const Packrack__SteerRule *was = pr_state_find(&s->state, key);
	bool active = was && !was->removed;
	if (item.removed != active)
		return pr_error_set(err,
			active ? "there is a hold %s already" : "there is no hold %s",
			item.what);
	if (!item.removed && (!c->hold->query || !c->hold->id))
		return pr_error_set(err, "a hold without a query, or without an id");
	item.verb = (char *)"hold";
	item.key = key;
	item.user = c->user;
	item.at = pr_state_time(&s->state, pr_now_real());
	if (item.removed) {
		PR_COPY(&released, was->hold, name, id);
		item.hold = &released;
		item.reason = c->reason;
		item.until = item.at + PR_STATE_REMOVED_NS;
	} else {
		c->hold->replaced = was ? was->hold->id : 0;
		item.hold = c->hold;
		item.reason = c->hold->reason;
	}
	if (pr_state_put(&s->state, &item, item.at, err) < 0)
		return -1;
	spread(s);
	return 0;
}

/* ---- the whole ---- */

void
prm_steering_tick(struct prm_steering *s, int64_t mono)
{
	if (mono - s->said < SAY_NS)
		return;
	pr_state_expire(&s->state, pr_now_real());
	tell_dispatchers(s, false);
}

void
prm_steering_init(struct prm_steering *s, struct pr_loop *loop,
	const struct prm_registry *registry, prm_steering_answer *answer, void *arg)
{
	*s = (struct prm_steering){.loop = loop,
		.registry = registry,
		.answer = answer,
		.arg = arg,
		.began = pr_now_mono()};
}

void
prm_steering_close(struct prm_steering *s)
{
	for (size_t i = 0; i < s->count; i++) {
		pr_rpc_destroy(&s->items[i].rpc);
		free(s->items[i].endpoint);
	}
	pr_state_free(&s->state);
}
