/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dispatcher/send_private.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#define COMMAND_PATIENCE (5 * PR_NS_PER_S)
#define MAC_FORMAT "%02x:%02x:%02x:%02x:%02x:%02x"
#define MAC_ARGS(m) (m)[0], (m)[1], (m)[2], (m)[3], (m)[4], (m)[5]

void
prd_reply(struct prd_sender *s, enum prd_reply_kind kind, uint64_t request, bool ok,
	const char *fmt, ...)
{
	struct prd_reply *reply = pr_ring_reserve(s->config.replies, sizeof *reply);
	va_list args;

	if (!reply)
		return;
	*reply = (struct prd_reply){.kind = kind, .request = request, .ok = ok};
	va_start(args, fmt);
	vsnprintf(reply->text, sizeof reply->text, fmt, args);
	va_end(args);
	pr_ring_commit(s->config.replies, sizeof *reply);
	pr_ring_publish(s->config.replies);
}

static void
warn_of_name(const struct prd_sender *s, const struct prd_node *node)
{
	for (unsigned i = 0; i < s->nodes.count; i++) {
		const struct prd_node *other = s->nodes.list[i];

		if (other != node && other->phase == PRD_NODE_ACTIVE &&
			strcmp(other->ann.name, node->ann.name) == 0)
			pr_log_warning("two nodes are named %s, " MAC_FORMAT
				       " and " MAC_FORMAT
				       ": give one of them another --name",
				node->ann.name, MAC_ARGS(other->mac), MAC_ARGS(node->mac));
	}
}

static void
warn_of_mtu(const struct prd_sender *s, const struct prd_node *node)
{
	if (node->ann.mtu != 0 && node->ann.mtu < s->config.mtu)
		pr_log_node(PR_LOG_WARNING, node->ann.name,
			"node %s: its MTU of %u is below the o-port's %u: longer packets "
			"for it are cut",
			node->ann.name, (unsigned)node->ann.mtu, (unsigned)s->config.mtu);
}

/* A node that (re)starts from nothing gets logs of its own; one without them is no node. */
static void
node_joined(struct prd_sender *s, struct prd_node *node, enum prd_ann_result how)
{
	struct pr_error err;

	if (how != PRD_ANN_BACK && prd_logs_admit(&s->logs, node, &err) < 0) {
		pr_log_error("%s", err.text);
		prd_node_leave(&s->nodes, node, PRD_NODE_GONE);
		return;
	}
	if (node->command_type == PR_FRAME_RECONNECT)
		prd_talk_command_end(s, node, true, "done");
	else if (node->command_type != 0 && how != PRD_ANN_BACK)
		prd_talk_command_end(s, node, false, "the node was started again");
	pr_log_node(PR_LOG_INFO, node->ann.name, "node %s (" MAC_FORMAT ") %s, %u active",
		node->ann.name, MAC_ARGS(node->mac),
		how == PRD_ANN_NEW    ? "has joined"
		: how == PRD_ANN_BACK ? "is back"
				      : "was started again",
		prd_nodes_active(&s->nodes));
	warn_of_name(s, node);
	warn_of_mtu(s, node);
	prd_state_node_joined(s, node);
}

static void
on_ann(struct prd_sender *s, const struct pr_frame *f)
{
	struct prd_node *node;
	enum prd_ann_result result =
		prd_nodes_ann(&s->nodes, f->src, &f->header, &f->body.ann, s->now, &node);

	if (result == PRD_ANN_REFUSED)
		return;
	prd_talk_ack(s, f->src, f->header.sender_nonce, node->number);
	if (result == PRD_ANN_NEW || result == PRD_ANN_RESTART || result == PRD_ANN_BACK)
		node_joined(s, node, result);
	else if (result == PRD_ANN_PENDING)
		pr_log_node(PR_LOG_INFO, f->body.ann.name,
			"node %s announces itself anew while it is still alive: its next "
			"status decides",
			f->body.ann.name);
	if (result != PRD_ANN_PENDING)
		prd_mark(s, node);
}

static void
on_status(struct prd_sender *s, struct prd_node *node, const struct pr_status *status)
{
	bool suspended = node->status.state == PR_NODE_SUSPENDED;

	prd_node_status(&s->nodes, node, status);
	if (!suspended && status->state == PR_NODE_SUSPENDED)
		pr_log_node(PR_LOG_WARNING, node->ann.name,
			"node %s cannot write: it gets no more packets until it can",
			node->ann.name);
	else if (suspended && status->state != PR_NODE_SUSPENDED)
		pr_log_node(PR_LOG_INFO, node->ann.name, "node %s can write again",
			node->ann.name);
	prd_talk_status(s, node);
}

/* What it has been sent is told to the end, then it gets nothing more. */
static void
part_from(struct prd_sender *s, struct prd_node *node, enum prd_node_phase phase)
{
	prd_logs_flush(&s->logs, node, INT64_MAX, s->now);
	prd_mark(s, node);
	prd_node_leave(&s->nodes, node, phase);
}

static void
on_quit(struct prd_sender *s, struct prd_node *node)
{
	bool told = node->command_type == PR_FRAME_DISCONNECT;

	if (node->phase != PRD_NODE_ACTIVE && !told)
		return;
	part_from(s, node, told ? PRD_NODE_DISCONNECTED : PRD_NODE_QUIT);
	pr_log_node(PR_LOG_INFO, node->ann.name, "node %s has left, %u active",
		node->ann.name, prd_nodes_active(&s->nodes));
	if (node->command_type != 0)
		prd_talk_command_end(s, node, told, told ? "done" : "the node has left");
}

static void
on_frame(struct prd_sender *s, const struct pr_frame *f)
{
	enum prd_ann_result admitted;
	struct prd_node *node;

	if (f->header.type == PR_FRAME_ANN) {
		on_ann(s, f);
		return;
	}
	node = prd_nodes_hear(&s->nodes, f, s->now, &admitted);
	if (!node)
		return;
	if (admitted != PRD_ANN_KNOWN)
		node_joined(s, node, admitted);
	if (f->header.type == PR_FRAME_STATUS)
		on_status(s, node, &f->body.status);
	else if (f->header.type == PR_FRAME_QUIT)
		on_quit(s, node);
	else if (f->header.type == PR_FRAME_RESEND)
		prd_logs_resend(&s->logs, node, &f->body.resend, s->now);
}

static void
on_node_command(struct prd_sender *s, const struct prd_event *e)
{
	struct prd_node *node = prd_nodes_by_name(&s->nodes, e->u.node.name);
	enum pr_frame_type type = e->u.node.type;

	if (!node) {
		prd_reply(s, PRD_REPLY_DONE, e->request, false, "no node is named '%s'",
			e->u.node.name);
		return;
	}
	if (type == PR_FRAME_RECONNECT) {
		if (node->phase == PRD_NODE_DISCONNECTED)
			node->phase = PRD_NODE_QUIT; /* its ANN will be welcome */
	} else if (node->phase != PRD_NODE_ACTIVE) {
		prd_reply(s, PRD_REPLY_DONE, e->request, false, "node %s is %s",
			node->ann.name, prd_node_phase_name(node->phase));
		return;
	}
	if (node->command_type == PR_FRAME_STOP) {
		prd_reply(s, PRD_REPLY_DONE, e->request, false, "node %s is being stopped",
			node->ann.name);
		return;
	}
	if (type == PR_FRAME_DISCONNECT)
		part_from(s, node, PRD_NODE_DISCONNECTED);
	prd_talk_command(s, node, type, e->u.node.seconds, e->request, COMMAND_PATIENCE);
}

void
prd_events(struct prd_sender *s)
{
	struct prd_event *e;
	size_t len;

	while ((e = pr_ring_next(s->config.events, &len))) {
		switch (e->kind) {
		case PRD_EVENT_FRAME:
			on_frame(s, &e->u.frame);
			break;
		case PRD_EVENT_START:
			prd_state_start(s, e->request);
			break;
		case PRD_EVENT_STOP:
			prd_state_stop(s, e->request);
			break;
		case PRD_EVENT_SPREAD:
			prd_spread_change(&s->spread, (enum prd_spread_mode)e->u.node.type);
			prd_view_publish(s);
			prd_reply(s, PRD_REPLY_DONE, e->request, true,
				"spread is %s from now on",
				prd_spread_names[s->spread.mode]);
			break;
		case PRD_EVENT_NODE:
			on_node_command(s, e);
			break;
		}
		pr_ring_release(s->config.events);
	}
}
