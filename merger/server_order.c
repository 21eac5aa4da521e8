/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "merger/server_internal.h"
#include "proto/base/clock.h"

/*
 * Commands about a node's packets: they go to its indexer, which has its logger do them. The node is
 * told on whose word; who has a key cannot claim to be another.
 */
#define ORDER_NS (60 * PR_NS_PER_S) /* a step takes a fraction of a second */

struct order {
	struct order *next;
	struct prm_address from, node;
	uint64_t id, node_id; /* the client's; ours, to the node */
	int64_t deadline;
};

static void
answer(const struct prm_address *to, uint64_t id, const char *text)
{
	Packrack__CommandDone done = PACKRACK__COMMAND_DONE__INIT;
	Packrack__Envelope reply = PACKRACK__ENVELOPE__INIT;

	done.text = (char *)text;
	reply.body_case = PACKRACK__ENVELOPE__BODY_COMMAND_DONE;
	reply.command_done = &done;
	prm_merger_reply(to, id, &reply);
}

static struct order *
add(struct prm_merger *m, const struct prm_address *from, uint64_t id,
	const struct prm_node *node)
{
	struct order *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	*o = (struct order){.next = m->orders,
		.from = *from,
		.node = node->address,
		.id = id,
		.node_id = ++m->next_id,
		.deadline = pr_now_mono() + ORDER_NS};
	m->orders = o;
	return o;
}

static void
drop(struct prm_merger *m, struct order *order)
{
	struct order **at = &m->orders;

	while (*at != order)
		at = &(*at)->next;
	*at = order->next;
	free(order);
}

static void
send_order(struct prm_merger *m, const struct prm_address *from,
	const Packrack__Envelope *env, const struct prm_node *node)
{
	struct order *o = add(m, from, env->id, node);
	Packrack__Command command = *env->command;
	Packrack__Envelope out = PACKRACK__ENVELOPE__INIT;

	if (!o) {
		answer(from, env->id, "the merger has no memory for a command");
		return;
	}
	if (from->peer.user[0])
		command.user = (char *)from->peer.user;
	out.id = o->node_id;
	out.body_case = PACKRACK__ENVELOPE__BODY_COMMAND;
	out.command = &command;
	if (pr_rpc_send(o->node.rpc, &o->node.peer, &out, NULL) == 0)
		return;
	drop(m, o);
	answer(from, env->id, "the node's connection is gone: try again");
}

void
prm_merger_order(
	struct prm_merger *m, const struct prm_address *from, const Packrack__Envelope *env)
{
	const struct prm_node *node = prm_registry_find(&m->registry, env->command->node);
	struct pr_error text;

	if (node && prm_node_connected(node, pr_now_mono())) {
		send_order(m, from, env, node);
		return;
	}
	if (node)
		pr_error_set(&text,
			"node %s is silent: when its indexer is back, try again",
			env->command->node);
	else
		pr_error_set(&text,
			"the merger knows no node %s: packrack data list names them",
			env->command->node);
	answer(from, env->id, text.text);
}

void
prm_merger_ordered(
	struct prm_merger *m, const struct prm_address *from, const Packrack__Envelope *env)
{
	Packrack__Envelope reply = PACKRACK__ENVELOPE__INIT;

	for (struct order *o = m->orders; o; o = o->next)
		if (o->node_id == env->id && prm_address_equal(&o->node, from)) {
			reply.body_case = PACKRACK__ENVELOPE__BODY_COMMAND_DONE;
			reply.command_done = env->command_done;
			prm_merger_reply(&o->from, o->id, &reply);
			drop(m, o);
			return;
		}
	m->messages_unasked++;
}

void
prm_merger_orders_tick(struct prm_merger *m, int64_t mono)
{
	for (struct order *o = m->orders, *next; o; o = next) {
		next = o->next;
		if (mono < o->deadline)
			continue;
		answer(&o->from, o->id,
			"the node has not answered within a minute: how far it came, "
			"packrack data list says");
		drop(m, o);
	}
}

void
prm_merger_orders_end(struct prm_merger *m)
{
	while (m->orders) {
		answer(&m->orders->from, m->orders->id, "the merger was stopped");
		drop(m, m->orders);
	}
}
