/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "dispatcher/send_private.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

static void
fill_header(const struct prd_sender *s, struct pr_frame *f, enum pr_frame_type type,
	uint64_t number, uint32_t receiver)
{
	f->header = (struct pr_frame_header){.type = (uint8_t)type,
		.rack = (uint32_t)s->config.options->rack_id,
		.epoch = s->config.epoch,
		.number = number,
		.sender_nonce = s->config.nonce,
		.receiver_nonce = receiver};
}

void
prd_talk(struct prd_sender *s, struct prd_node *node, enum pr_frame_type type,
	struct pr_frame *frame)
{
	/* RECONNECT is also broadcast: one series for all, or nodes would take one for old */
	uint64_t number =
		type == PR_FRAME_RECONNECT ? ++s->reconnects : ++node->numbers[type];

	memcpy(frame->dst, node->mac, PR_MAC_LEN);
	fill_header(s, frame, type, number, node->nonce);
	if (pr_control_add(s->control, frame) < 0)
		pr_log_node(PR_LOG_WARNING, node->ann.name,
			"node %s: a %s frame could not be built", node->ann.name,
			pr_frame_type_name(type));
}

void
prd_talk_ack(struct prd_sender *s, const uint8_t mac[PR_MAC_LEN], uint32_t nonce,
	uint16_t number)
{
	struct prd_node *node = s->nodes.list[number];
	struct pr_frame frame;

	frame.body.ann_ack = (struct pr_ann_ack){.node = number,
		.hold_ns = (uint64_t)s->config.options->hold_time,
		.snaplen = (uint32_t)s->config.options->snaplen};
	memcpy(frame.dst, mac, PR_MAC_LEN);
	fill_header(s, &frame, PR_FRAME_ANN_ACK, ++node->numbers[PR_FRAME_ANN_ACK], nonce);
	pr_control_add(s->control, &frame);
}

/* So that nodes which wait for a dispatcher, or for one that died, announce themselves at once. */
void
prd_talk_reconnect_all(struct prd_sender *s)
{
	struct pr_frame frame;

	frame.body.command = (struct pr_command){.command = ++s->commands};
	memset(frame.dst, 0xff, PR_MAC_LEN);
	fill_header(s, &frame, PR_FRAME_RECONNECT, ++s->reconnects, 0);
	pr_control_add(s->control, &frame);
}

static void
command_send(struct prd_sender *s, struct prd_node *node)
{
	struct pr_frame frame;

	frame.body.command = (struct pr_command){
		.command = node->command, .seconds = node->command_seconds};
	node->command_next = s->now + PRD_MARK_EVERY;
	prd_talk(s, node, node->command_type, &frame);
}

void
prd_talk_command(struct prd_sender *s, struct prd_node *node, enum pr_frame_type type,
	uint32_t seconds, uint64_t request, int64_t patience)
{
	if (node->command_type != 0)
		prd_talk_command_end(s, node, false, "another command came in between");
	node->command_type = (uint8_t)type;
	node->command = ++s->commands;
	node->command_seconds = seconds;
	node->command_request = request;
	node->command_deadline = s->now + patience;
	command_send(s, node);
}

void
prd_talk_command_end(struct prd_sender *s, struct prd_node *node, bool ok, const char *text)
{
	prd_view_publish(s); /* whoever is answered finds it so */
	if (node->command_request != 0)
		prd_reply(s, PRD_REPLY_DONE, node->command_request, ok, "node %s: %s: %s",
			node->ann.name, pr_frame_type_name(node->command_type), text);
	node->command_type = 0;
	node->command_request = 0;
}

static void
command_expired(struct prd_sender *s, struct prd_node *node)
{
	pr_log_node(PR_LOG_WARNING, node->ann.name, "node %s did not acknowledge %s",
		node->ann.name, pr_frame_type_name(node->command_type));
	prd_talk_command_end(s, node, false, "no acknowledgement");
}

void
prd_talk_commands_again(struct prd_sender *s)
{
	for (unsigned i = 0; i < s->nodes.count; i++) {
		struct prd_node *node = s->nodes.list[i];

		if (node->command_type == 0 || s->now < node->command_next)
			continue;
		if (s->now >= node->command_deadline)
			command_expired(s, node);
		else
			command_send(s, node);
	}
}

void
prd_talk_status(struct prd_sender *s, struct prd_node *node)
{
	const struct pr_status *status = &node->status;
	bool good = status->command_result == 0;

	if (node->command_type == 0 || status->command != node->command ||
		status->command_type != node->command_type)
		return;
	if (node->command_type == PR_FRAME_STOP && status->state != PR_NODE_STOPPED)
		return;
	if (node->command_type == PR_FRAME_DISCONNECT && good)
		pr_log_node(PR_LOG_INFO, node->ann.name, "node %s is disconnected",
			node->ann.name);
	prd_talk_command_end(
		s, node, good, good ? "done" : "it cannot; its own log says why");
}
