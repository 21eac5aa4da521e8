/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "dispatcher/send_private.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* A node that lives and never says STOPPED is not waited for longer than this. */
#define STOP_PATIENCE (60 * PR_NS_PER_S)

const char *const prd_state_names[] = {
	"waiting", "capturing", "draining", "stopping", "stopped", NULL};

static void
state_set(struct prd_sender *s, enum prd_state state)
{
	s->state = state;
	s->state_since = s->now;
	prd_view_publish(s); /* whoever is answered next finds it so */
	pr_log_debug("%s", prd_state_names[state]);
}

bool
prd_state_takes(const struct prd_sender *s)
{
	return s->state == PRD_STATE_CAPTURING || s->state == PRD_STATE_DRAINING;
}

static void
begin_capture(struct prd_sender *s)
{
	s->marking_stop = false;
	for (unsigned i = 0; i < s->inputs->link_count; i++)
		atomic_store(&s->inputs->links[i].ended, false);
	state_set(s, PRD_STATE_CAPTURING);
	prd_inputs_set_running(s->inputs, true);
	pr_log_info("capturing, %u nodes active", prd_nodes_active(&s->nodes));
}

static void
tell_stop(struct prd_sender *s, struct prd_node *node)
{
	prd_logs_flush(&s->logs, node, INT64_MAX, s->now);
	prd_mark(s, node);
	prd_talk_command(s, node, PR_FRAME_STOP, 0, 0, STOP_PATIENCE);
}

/* Everything that was captured has gone out. */
static void
begin_stopping(struct prd_sender *s)
{
	state_set(s, PRD_STATE_STOPPING);
	s->marking_stop = true;
	for (unsigned i = 0; i < s->inputs->link_count; i++)
		atomic_store(&s->inputs->links[i].ended, true);
	for (unsigned i = 0; i < s->nodes.count; i++)
		if (s->nodes.list[i]->phase == PRD_NODE_ACTIVE)
			tell_stop(s, s->nodes.list[i]);
}

static bool
all_stopped(const struct prd_sender *s)
{
	for (unsigned i = 0; i < s->nodes.count; i++) {
		const struct prd_node *node = s->nodes.list[i];

		if (node->phase != PRD_NODE_ACTIVE || node->command_type != PR_FRAME_STOP)
			continue;
		if (node->status.state == PR_NODE_SUSPENDED &&
			s->now - s->state_since > PRD_STOP_SUSPENDED)
			continue;
		return false;
	}
	return true;
}

/* Did everything arrive and get stored, as far as nodes have said? */
static bool
stored_all(const struct prd_sender *s, char *text, size_t size)
{
	for (unsigned i = 0; i < s->nodes.count; i++) {
		const struct prd_node *node = s->nodes.list[i];

		uint64_t open = node->lost_unacknowledged;

		if (node->phase == PRD_NODE_ACTIVE) /* else they are counted as lost */
			open += node->next_ordinal - node->window.settled;
		if (open == 0)
			continue;
		snprintf(text, size, "node %s (%s) has not acknowledged %llu packets",
			node->ann.name, prd_node_phase_name(node->phase),
			(unsigned long long)open);
		return false;
	}
	for (unsigned i = 0; i < s->inputs->link_count; i++) {
		const struct prd_link *link = &s->inputs->links[i];

		if (pr_counter_get(&link->dropped_no_node) == 0 &&
			pr_counter_get(&link->dropped_send) == 0)
			continue;
		snprintf(text, size,
			"%s: packets were dropped for want of a node, or sending",
			link->name);
		return false;
	}
	snprintf(text, size, "stopped; the nodes have stored what they were sent");
	return true;
}

static void
stopped(struct prd_sender *s)
{
	char text[256];
	bool ok = stored_all(s, text, sizeof text);

	state_set(s, PRD_STATE_STOPPED);
	if (ok)
		pr_log_info("%s", text);
	else
		pr_log_warning("%s", text);
	prd_reply(s, PRD_REPLY_STOPPED, 0, ok, "%s", text);
	if (s->stop_request != 0)
		prd_reply(s, PRD_REPLY_DONE, s->stop_request, ok, "%s", text);
	s->stop_request = 0;
}

void
prd_state_start(struct prd_sender *s, uint64_t request)
{
	if (s->state != PRD_STATE_STOPPED && s->state != PRD_STATE_STOPPING) {
		prd_reply(s, PRD_REPLY_DONE, request, s->state != PRD_STATE_DRAINING, "%s",
			s->state == PRD_STATE_DRAINING ? "it is being stopped: try again"
						       : "capturing already");
		return;
	}
	if (prd_inputs_at_end(s->inputs)) {
		prd_reply(s, PRD_REPLY_DONE, request, false,
			"the trace files have been read: start another dispatcher for "
			"more");
		return;
	}
	for (unsigned i = 0; i < s->nodes.count; i++)
		if (s->nodes.list[i]->command_type == PR_FRAME_STOP)
			prd_talk_command_end(s, s->nodes.list[i], false, "started again");
	if (s->stop_request != 0)
		prd_reply(s, PRD_REPLY_DONE, s->stop_request, false, "started again");
	s->stop_request = 0;
	begin_capture(s);
	prd_reply(s, PRD_REPLY_DONE, request, true, "capturing");
}

void
prd_state_stop(struct prd_sender *s, uint64_t request)
{
	char text[256];

	if (s->state == PRD_STATE_STOPPED) {
		prd_reply(s, PRD_REPLY_STOPPED, 0, stored_all(s, text, sizeof text),
			"stopped already");
		prd_reply(s, PRD_REPLY_DONE, request, true, "stopped already");
		return;
	}
	if (s->stop_request != 0)
		prd_reply(s, PRD_REPLY_DONE, s->stop_request, false,
			"another one asked for it as well");
	s->stop_request = request;
	if (s->state == PRD_STATE_WAITING || s->state == PRD_STATE_CAPTURING) {
		prd_inputs_set_running(s->inputs, false);
		state_set(s, PRD_STATE_DRAINING);
	}
}

static void
step_waiting(struct prd_sender *s)
{
	const struct prd_options *o = s->config.options;
	unsigned active = prd_nodes_active(&s->nodes);

	if (active >= o->wait_nodes) {
		begin_capture(s);
		return;
	}
	if (o->wait_time == 0 || s->now - s->state_since < o->wait_time)
		return;
	if (s->strict) {
		prd_reply(s, PRD_REPLY_FAILED, 0, false,
			"%u of %llu nodes have announced themselves within --wait-time",
			active, (unsigned long long)o->wait_nodes);
		s->state_since = s->now;
		return;
	}
	pr_log_warning(
		"only %u of %llu nodes have announced themselves: going on with them",
		active, (unsigned long long)o->wait_nodes);
	begin_capture(s);
}

void
prd_state_step(struct prd_sender *s, unsigned taken, bool at_end, bool quiet)
{
	bool empty = taken == 0 && !prd_batch_holds(s);

	switch (s->state) {
	case PRD_STATE_WAITING:
		step_waiting(s);
		break;
	case PRD_STATE_CAPTURING:
		if (at_end && empty)
			begin_stopping(s);
		break;
	case PRD_STATE_DRAINING:
		if (quiet && empty)
			begin_stopping(s);
		break;
	case PRD_STATE_STOPPING:
		if (all_stopped(s))
			stopped(s);
		break;
	case PRD_STATE_STOPPED:
		break;
	}
}

void
prd_state_node_joined(struct prd_sender *s, struct prd_node *node)
{
	if (s->state == PRD_STATE_STOPPING || s->state == PRD_STATE_STOPPED)
		tell_stop(s, node);
}
