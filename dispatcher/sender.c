/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/sender.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>

#include "proto/base/log.h"
#include "proto/base/thread.h"

/* How long a node may take to acknowledge a command, and STOP when it lives but never stops. */
#define COMMAND_PATIENCE (5 * PR_NS_PER_S)
#define STOP_PATIENCE (60 * PR_NS_PER_S)
/*
 * While stopping: when a silent node counts as gone; how long to wait for one that cannot
 * write.
 */
#define STOP_SILENCE (5 * PR_NS_PER_S)
#define STOP_SUSPENDED (10 * PR_NS_PER_S)
/* Timestamps of one link may come out of order by a little when several CPUs receive. */
#define TIMESTAMP_SLACK PR_NS_PER_MS
#define LAST_BATCHES 1000 /* of the XDP path: more than it has under way */
/* The XDP program wakes nobody; its rings hold what comes meanwhile. */
#define FAST_NAP (3 * PR_NS_PER_MS)
#define SNAPSHOT_NEW 4U

/* ---- what others see: replies, and a copy of the node table ---- */

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

/* Called every 100 ms, and when the state changes: not for each packet. */
void
prd_snapshot_publish(struct prd_sender *s)
{
	struct prd_snapshot *view = &s->snapshots[s->snapshot_written];

	view->state = s->state;
	view->spread_mode = s->spread.mode;
	view->node_count = s->nodes.count;
	for (unsigned i = 0; i < s->nodes.count; i++) {
		const struct prd_node *node = s->nodes.list[i];
		struct prd_node_snapshot *v = &view->nodes[i];

		*v = (struct prd_node_snapshot){.frames_sent = node->next_ordinal,
			.unacknowledged = node->next_ordinal - node->window.acknowledged,
			.buffer_size = node->window.size};
		PR_COPY(v, node, number, phase, last_heard, status, bytes_sent, primaries,
			seconds, lost_unacknowledged);
		PR_COPY(v, node, logs_sent, resend_asked, resend_answered, gone_answered,
			controls_received);
		memcpy(v->name, node->ann.name, sizeof v->name);
		memcpy(v->mac, node->mac, sizeof v->mac);
		for (unsigned k = 0; k < PR_FRAME_TYPES; k++)
			v->controls_sent += node->numbers[k];
	}
	PR_COPY(view, &s->nodes, refused_stale, refused_replay, refused_full,
		refused_unconfirmed);
	view->log_memory_used = s->logs.kept;
	view->sent = *pr_transmit_counters(s->transmit);
	if (s->inputs->fast)
		pr_fast_sent(s->inputs->fast, &view->xdp_sent, &view->xdp_redirect_failed,
			&view->xdp_transmit_dropped);
	if (s->cutoff)
		view->cutoff = *prd_cutoff_figures(s->cutoff);
	s->snapshot_written =
		atomic_exchange(&s->snapshot_between, s->snapshot_written | SNAPSHOT_NEW) &
		~SNAPSHOT_NEW;
}

void
prd_sender_snapshot(struct prd_sender *s, struct prd_snapshot *out)
{
	if (atomic_load(&s->snapshot_between) & SNAPSHOT_NEW)
		s->snapshot_read = atomic_exchange(&s->snapshot_between, s->snapshot_read) &
				   ~SNAPSHOT_NEW;
	*out = s->snapshots[s->snapshot_read];
}

/* ---- the states of capture ---- */

const char *const prd_capture_state_names[] = {
	"waiting", "capturing", "draining", "stopping", "stopped", NULL};

static void
state_set(struct prd_sender *s, enum prd_capture_state state)
{
	s->state = state;
	s->state_since = s->now;
	prd_snapshot_publish(s); /* before the next reply goes out */
	pr_log_debug("%s", prd_capture_state_names[state]);
}

static bool
takes_packets(const struct prd_sender *s)
{
	return s->state == PRD_STATE_CAPTURING || s->state == PRD_STATE_DRAINING;
}

static void
begin_capture(struct prd_sender *s)
{
	s->marking_stop = s->flush_beyond = false;
	for (unsigned i = 0; i < s->inputs->all_links; i++)
		atomic_store(&s->inputs->links[i].ended, false);
	state_set(s, PRD_STATE_CAPTURING);
	prd_inputs_set_running(s->inputs, true);
	pr_log_info("capturing, %u nodes active", prd_nodes_active(&s->nodes));
}

static void
tell_stop(struct prd_sender *s, struct prd_node *node)
{
	prd_send_mark(s, node);
	prd_control_command(s, node, PR_FRAME_STOP, 0, 0, STOP_PATIENCE);
}

/* Call when everything that was captured has been sent. */
static void
begin_stopping(struct prd_sender *s)
{
	state_set(s, PRD_STATE_STOPPING);
	s->marking_stop = true;
	for (unsigned i = 0; i < s->inputs->all_links; i++)
		atomic_store(&s->inputs->links[i].ended, true);
	for (unsigned i = 0; i < s->nodes.count; i++)
		if (s->nodes.list[i]->phase == PRD_NODE_ACTIVE)
			tell_stop(s, s->nodes.list[i]);
}

/* True if the nodes have acknowledged everything as stored, and nothing was dropped here; else text says what. */
static bool
stored_all(const struct prd_sender *s, char *text, size_t size)
{
	for (unsigned i = 0; i < s->nodes.count; i++) {
		const struct prd_node *node = s->nodes.list[i];
		uint64_t open = node->lost_unacknowledged;

		/* those of other nodes are in lost_unacknowledged already */
		if (node->phase == PRD_NODE_ACTIVE)
			open += node->next_ordinal - node->window.acknowledged;
		if (open == 0)
			continue;
		snprintf(text, size,
			"node %s (%s) has not confirmed that it stored %llu packets",
			node->ann.name, prd_node_phase_name(node->phase),
			(unsigned long long)open);
		return false;
	}
	for (unsigned i = 0; i < s->inputs->all_links; i++) {
		const struct prd_link *link = &s->inputs->links[i];

		if (link->number == PR_LINK_CANARY ||
			(pr_counter_get(&link->dropped_no_node) == 0 &&
				pr_counter_get(&link->dropped_send) == 0))
			continue;
		snprintf(text, size,
			"link %s: packets were dropped because no node was available or "
			"sending failed",
			link->name);
		return false;
	}
	snprintf(text, size, "stopped; the nodes have stored what they were sent");
	return true;
}

/* Ends the capture when all nodes have acknowledged STOP, or cannot. */
static void
stop_if_all_have(struct prd_sender *s)
{
	char text[256];

	for (unsigned i = 0; i < s->nodes.count; i++) {
		const struct prd_node *node = s->nodes.list[i];

		if (node->phase == PRD_NODE_ACTIVE && node->command_type == PR_FRAME_STOP &&
			(node->status.state != PR_NODE_SUSPENDED ||
				s->now - s->state_since <= STOP_SUSPENDED))
			return;
	}
	bool ok = stored_all(s, text, sizeof text);
	state_set(s, PRD_STATE_STOPPED);
	if (ok)
		pr_log_info("%s", text);
	else
		pr_log_warning("%s", text);
	prd_reply(s, PRD_REPLY_STOPPED, 0, ok, "%s", text);
	if (s->stop_request != 0)
		prd_done(s, s->stop_request, ok, "%s", text);
	s->stop_request = 0;
}

static void
capture_start(struct prd_sender *s, uint64_t request)
{
	if (s->state != PRD_STATE_STOPPED && s->state != PRD_STATE_STOPPING) {
		prd_done(s, request, s->state != PRD_STATE_DRAINING, "%s",
			s->state == PRD_STATE_DRAINING
				? "capture is being stopped: try again"
				: "capturing already");
		return;
	}
	if (prd_inputs_at_end(s->inputs)) {
		prd_done(s, request, false,
			"the trace files have been read: start another dispatcher for "
			"more");
		return;
	}
	for (unsigned i = 0; i < s->nodes.count; i++)
		if (s->nodes.list[i]->command_type == PR_FRAME_STOP)
			prd_control_command_end(
				s, s->nodes.list[i], false, "started again");
	if (s->stop_request != 0)
		prd_done(s, s->stop_request, false, "started again");
	s->stop_request = 0;
	begin_capture(s);
	prd_done(s, request, true, "capturing");
}

static void
capture_stop(struct prd_sender *s, uint64_t request, const char *by)
{
	char text[256];

	if (s->state == PRD_STATE_STOPPED) {
		prd_reply(s, PRD_REPLY_STOPPED, 0, stored_all(s, text, sizeof text),
			"stopped already");
		prd_done(s, request, true, "stopped already");
		return;
	}
	if (s->stop_request != 0)
		prd_done(s, s->stop_request, false,
			"another stop request came in the meantime");
	s->stop_request = request;
	if (s->state == PRD_STATE_WAITING || s->state == PRD_STATE_CAPTURING) {
		prd_inputs_stop(s->inputs, by);
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
		"only %u of %llu nodes have announced themselves: capturing with these",
		active, (unsigned long long)o->wait_nodes);
	begin_capture(s);
}

static void
capture_step(struct prd_sender *s, unsigned taken, bool at_end, bool quiet)
{
	bool empty = taken == 0 && !prd_tx_batch_unplaced(s);
	bool last = empty && ((s->state == PRD_STATE_CAPTURING && at_end) ||
				     (s->state == PRD_STATE_DRAINING && quiet));

	if (s->state == PRD_STATE_WAITING)
		step_waiting(s);
	else if (s->state == PRD_STATE_STOPPING)
		stop_if_all_have(s);
	else if (last && s->cutoff && !s->flush_beyond)
		s->flush_beyond = true; /* in the next round */
	else if (last)
		begin_stopping(s);
}

/* ---- events: from nodes and managers ---- */

static void
warn_of(const struct prd_sender *s, const struct prd_node *node)
{
	for (unsigned i = 0; i < s->nodes.count; i++) {
		const struct prd_node *other = s->nodes.list[i];

		if (other != node && other->phase == PRD_NODE_ACTIVE &&
			strcmp(other->ann.name, node->ann.name) == 0)
			pr_log_warning("two nodes are named %s, " PR_MAC_FORMAT
				       " and " PR_MAC_FORMAT
				       ": give one of them another --name",
				node->ann.name, PR_MAC_ARGS(other->mac),
				PR_MAC_ARGS(node->mac));
	}
	if (node->ann.mtu != 0 && node->ann.mtu < s->config.mtu)
		prd_log_node(PR_LOG_WARNING, node,
			": its MTU of %u is below the %u of the rack interface: "
			"longer packets for it are truncated",
			node->ann.mtu, s->config.mtu);
}

/* A node that starts, or starts again, gets new timestamp logs; without memory for them it cannot take part. */
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
		prd_control_command_end(s, node, true, "done");
	else if (node->command_type != 0 && how != PRD_ANN_BACK)
		prd_control_command_end(s, node, false, "the node was started again");
	prd_log_node(PR_LOG_INFO, node, " (" PR_MAC_FORMAT ") %s, %u active",
		PR_MAC_ARGS(node->mac),
		how == PRD_ANN_NEW    ? "has joined"
		: how == PRD_ANN_BACK ? "is back"
				      : "was started again",
		prd_nodes_active(&s->nodes));
	warn_of(s, node);
	if (s->state == PRD_STATE_STOPPING || s->state == PRD_STATE_STOPPED)
		tell_stop(s, node);
}

static void
on_ann(struct prd_sender *s, const struct pr_frame *f)
{
	struct prd_node *node;
	enum prd_ann_result result =
		prd_nodes_ann(&s->nodes, f->src, &f->header, &f->body.ann, s->now, &node);

	if (result == PRD_ANN_REFUSED)
		return;
	prd_control_ack(s, f, node ? node->number : s->nodes.count);
	if (result == PRD_ANN_PENDING)
		return;
	if (result == PRD_ANN_BACK)
		node_joined(s, node, result);
	prd_send_mark(s, node);
}

static void
on_status(struct prd_sender *s, struct prd_node *node, const struct pr_status *status)
{
	bool suspended = node->status.state == PR_NODE_SUSPENDED;

	prd_node_status(&s->nodes, node, status);
	if (!suspended && status->state == PR_NODE_SUSPENDED)
		prd_log_node(PR_LOG_WARNING, node,
			" cannot write: it gets no more packets until it can");
	else if (suspended && status->state != PR_NODE_SUSPENDED)
		prd_log_node(PR_LOG_INFO, node, " can write again");
	prd_control_status(s, node);
}

/* Takes the node out of the spread, and sends its open timestamp logs and a last MARK. */
static void
part_from(struct prd_sender *s, struct prd_node *node, enum prd_node_phase phase)
{
	prd_node_leave(&s->nodes, node, phase);
	/* what the XDP program has sent to it already comes into its last logs */
	if (s->inputs->fast && takes_packets(s)) {
		prd_tx_schedule(s, true);
		for (int i = 0; i < LAST_BATCHES && prd_tx_batch(s) > 0; i++)
			;
	}
	prd_send_mark(s, node);
}

static void
on_quit(struct prd_sender *s, struct prd_node *node)
{
	bool told = node->command_type == PR_FRAME_DISCONNECT;

	if (node->phase != PRD_NODE_ACTIVE && !told)
		return;
	part_from(s, node, told ? PRD_NODE_DISCONNECTED : PRD_NODE_QUIT);
	prd_log_node(
		PR_LOG_INFO, node, " has left, %u active", prd_nodes_active(&s->nodes));
	if (node->command_type != 0)
		prd_control_command_end(s, node, told, told ? "done" : "the node has left");
}

static void
on_frame(struct prd_sender *s, const struct pr_frame *f)
{
	enum prd_ann_result admitted;

	if (f->header.type == PR_FRAME_ANN) {
		on_ann(s, f);
		return;
	}
	struct prd_node *node = prd_nodes_accept_frame(&s->nodes, f, s->now, &admitted);
	if (!node)
		return;
	if (admitted != PRD_ANN_KNOWN) {
		node_joined(s, node, admitted);
		prd_send_mark(s, node);
	}
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
		prd_done(s, e->request, false, "no node is named '%s'", e->u.node.name);
		return;
	}
	if (type == PR_FRAME_RECONNECT) {
		if (node->phase == PRD_NODE_DISCONNECTED)
			node->phase = PRD_NODE_QUIT; /* its next ANN is accepted */
	} else if (node->phase != PRD_NODE_ACTIVE) {
		prd_done(s, e->request, false, "node %s is %s", node->ann.name,
			prd_node_phase_name(node->phase));
		return;
	}
	if (node->command_type == PR_FRAME_STOP) {
		prd_done(s, e->request, false, "node %s is being stopped", node->ann.name);
		return;
	}
	if (type == PR_FRAME_DISCONNECT)
		part_from(s, node, PRD_NODE_DISCONNECTED);
	prd_control_command(s, node, type, e->u.node.seconds, e->request, COMMAND_PATIENCE);
}

static void
on_rule(struct prd_sender *s, const struct prd_event *e)
{
	struct pr_error err = {""};
	bool ok = prd_cutoff_rule(s->cutoff, &e->u.steer.rule, e->u.steer.comes, &err) == 0;

	if (e->request)
		prd_done(s, e->request, ok, "%s", ok ? "done" : err.text);
}

static void
handle_events(struct prd_sender *s)
{
	struct prd_event *e;
	size_t len;

	while ((e = pr_ring_next(s->config.events, &len))) {
		switch (e->kind) {
		case PRD_EVENT_FRAME:
			on_frame(s, &e->u.frame);
			break;
		case PRD_EVENT_START:
			capture_start(s, e->request);
			break;
		case PRD_EVENT_STOP:
			capture_stop(s, e->request, e->u.node.name);
			break;
		case PRD_EVENT_SPREAD:
			prd_spread_change(&s->spread, e->u.node.type);
			prd_snapshot_publish(s);
			prd_done(s, e->request, true, "spread is %s from now on",
				prd_spread_names[s->spread.mode]);
			break;
		case PRD_EVENT_RULE:
			on_rule(s, e);
			break;
		case PRD_EVENT_CLASSES:
			prd_cutoff_set_classes(s->cutoff, e->u.classes);
			if (e->request)
				prd_done(s, e->request, true, "done");
			break;
		case PRD_EVENT_NODE:
			on_node_command(s, e);
			break;
		}
		pr_ring_release(s->config.events);
	}
}

/* ---- the thread ---- */

static void
expire_nodes(struct prd_sender *s)
{
	bool stopping = s->state >= PRD_STATE_STOPPING;
	struct prd_node *node;

	while ((node = prd_nodes_next_silent(
			&s->nodes, s->now, stopping ? STOP_SILENCE : PRD_NODE_SILENCE))) {
		prd_log_node(PR_LOG_WARNING, node,
			" is silent: it gets no more packets; %llu that it got "
			"are not acknowledged",
			(unsigned long long)(node->next_ordinal -
					     node->window.acknowledged));
		if (node->command_type != 0)
			prd_control_command_end(s, node, false, "the node is silent");
	}
}

static void
look_at_clock(struct prd_sender *s)
{
	struct pr_clock_reading now;

	s->clock.timestamps = (uint8_t)s->config.options->timestamps;
	if (pr_clock_read(&now) && pr_clock_look(&s->clock_watch, &now, &s->clock))
		pr_log_warning("the clock was set by %+.9f s: times of packets before and "
			       "after it do not follow each other",
			(double)s->clock.step / 1e9);
}

static void
tick(struct prd_sender *s)
{
	/* When every node is full, timestamp logs must go out at once: without them nodes acknowledge nothing. */
	int64_t old = s->stuck ? INT64_MAX : s->now - s->config.options->log_age;
	struct pr_error err;

	if (s->now - s->last_tick >= PRD_TICK || s->stuck) {
		s->last_tick = s->now;
		for (unsigned i = 0; i < s->nodes.count; i++)
			prd_logs_flush(&s->logs, s->nodes.list[i], old, s->now);
		prd_control_repeat(s);
	}
	if (s->now - s->last_mark < PRD_MARK_PERIOD)
		return;
	expire_nodes(s);
	prd_nodes_expire_announced(&s->nodes, s->now);
	look_at_clock(s);
	for (unsigned i = 0; i < s->nodes.count; i++) {
		struct prd_node *node = s->nodes.list[i];

		prd_logs_refill(node, s->now - s->last_mark);
		if (node->phase == PRD_NODE_ACTIVE)
			prd_send_mark(s, node);
	}
	s->last_mark = s->now;
	if (s->now - s->last_weigh >= PR_NS_PER_S) {
		s->last_weigh = s->now;
		prd_spread_weigh(&s->spread);
	}
	if (s->now - s->last_trouble >= PR_NS_PER_S &&
		pr_transmit_trouble(s->transmit, &err)) {
		s->last_trouble = s->now;
		pr_log_error("%s", err.text);
	}
	prd_snapshot_publish(s);
}

/* Sleeps until packets or events come, or until the next tick or MARK. A ring with an unplaced packet does not wake it. */
static void
sleep_until_due(struct prd_sender *s)
{
	struct pollfd pfd = {.fd = pr_ring_fd(s->config.events), .events = POLLIN};
	int64_t due = s->last_mark + PRD_MARK_PERIOD, left;
	bool ready = pr_ring_arm(s->config.events), open = s->state == PRD_STATE_DRAINING;

	for (unsigned i = 0; i < s->nodes.count && !open; i++)
		open = prd_logs_oldest(&s->logs, s->nodes.list[i]) != PR_TIME_MAX;
	if (open)
		due = s->now + PRD_TICK;
	for (unsigned i = 0; takes_packets(s) && i < s->inputs->ring_count; i++)
		if (!s->unplaced[i])
			ready = pr_ring_arm(s->inputs->rings[i]) || ready;
	left = due - pr_now_mono();
	if (s->inputs->fast && takes_packets(s))
		left = pr_fast_empty(s->inputs->fast) ? PR_MIN(left, FAST_NAP) : 0;
	if (!ready && left > 0)
		poll(&pfd, 1, (left / PR_NS_PER_MS) + 1);
}

/* Takes a batch of packets, and notes up to which time all have been taken. Returns how many came. */
static unsigned
take_packets(struct prd_sender *s)
{
	const struct prd_link *links = s->inputs->links;
	bool live = s->inputs->live;
	int64_t until[PRD_LINKS_MAX], last;

	/* captured_until of each link is read before its ring, so that all up to it has been taken */
	for (unsigned i = 0; i < s->inputs->ring_count; i++)
		until[i] = live ? atomic_load(&links[i].captured_until) : pr_now_real();
	unsigned taken = prd_tx_batch(s);
	if (s->inputs->fast) {
		/* these were read before it, so all that is stamped up to them is taken as soon as the next call is true */
		bool passed = pr_fast_passed(s->inputs->fast);

		for (unsigned i = 0; passed && i < s->inputs->ring_count; i++) {
			s->drained_until[i] = s->fast_until[i];
			s->fast_until[i] = until[i];
		}
		return taken;
	}
	for (unsigned i = 0; i < s->inputs->ring_count; i++) {
		bool more = pr_ring_used(s->inputs->rings[i]) > 0;

		if (s->unplaced[i])
			continue;
		if (taken > 0 && (!live || more)) {
			/* not all were taken: counts only up to the last one taken */
			if (!live || atomic_load(&links[i].last_time) == 0)
				continue;
			last = atomic_load(&links[i].last_time) - TIMESTAMP_SLACK;
			until[i] = last < until[i] ? last : until[i];
		}
		/* may step back, as the clock may */
		s->drained_until[i] = until[i];
	}
	return taken;
}

unsigned
prd_sender_round(struct prd_sender *s)
{
	bool at_end = prd_inputs_at_end(s->inputs);
	bool quiet = prd_inputs_quiet(s->inputs);

	s->now = pr_now_mono();
	handle_events(s);
	if (s->inputs->fast)
		prd_tx_schedule(s, takes_packets(s));
	unsigned taken = takes_packets(s) ? take_packets(s) : 0;
	/* a capture that is stopped has nothing that is not said */
	for (unsigned i = 0; s->state == PRD_STATE_STOPPED && i < s->inputs->ring_count;
		i++)
		s->drained_until[i] = s->fast_until[i] = pr_now_real();
	capture_step(s, taken, at_end, quiet);
	tick(s);
	pr_control_flush(s->control);
	return taken;
}

static void *
sender_main(void *arg)
{
	struct prd_sender *s = arg;
	int cpu = sched_getcpu();
	cpu_set_t set;

	pr_priority_thread(PR_NICE_STORE);
	/*
	 * Frames that a thread sends from two CPUs may lie in two queues of the kernel, and
	 * one of these may wait long. A thread that stays on one CPU keeps its frames in
	 * order.
	 */
	CPU_ZERO(&set);
	if (cpu >= 0 && cpu < CPU_SETSIZE) {
		CPU_SET(cpu, &set);
		if (sched_setaffinity(0, sizeof set, &set) < 0)
			pr_log_warning("the send thread cannot stay on one CPU: %s",
				strerror(errno));
	}
	s->now = s->state_since = pr_now_mono();
	if (s->inputs->live)
		/* the cyclic buffer holds packets until a node has joined */
		prd_inputs_set_running(s->inputs, true);
	prd_control_reconnect_all(s);
	while (!atomic_load(&s->quit))
		if (prd_sender_round(s) == 0)
			sleep_until_due(s);
	return NULL;
}

static void
send_log(void *arg, struct prd_node *node, enum pr_frame_type type,
	const struct pr_frame *frame)
{
	struct pr_frame copy;

	/* not the whole struct: most of it is for the links of a MARK */
	copy.body = frame->body;
	prd_control_send(arg, node, type, &copy);
}

struct prd_sender *
prd_sender_create(const struct prd_sender_config *config, struct pr_error *err)
{
	const struct prd_options *o = config->options;
	struct prd_sender *s = calloc(1, sizeof *s);

	if (!s)
		return pr_error_null(err, "no memory for the sender");
	s->config = *config;
	PR_COPY(s, config, inputs, transmit, control, cutoff);
	s->copies = o->copies;
	s->strict = !config->inputs->live;
	s->prepare.whole = s->inputs->fast != NULL;
	memcpy(s->prepare.src, config->mac, PR_MAC_LEN);
	s->prepare.ethertype = o->ethertype;
	s->prepare.epoch = config->epoch;
	prd_nodes_init(&s->nodes, config->epoch, config->nonce, config->mtu);
	prd_spread_init(&s->spread, o->spread, s->strict, &s->nodes);
	if (prd_logs_init(&s->logs, config->inputs->all_links, o->log_memory,
		    3 * o->hold_time, err) < 0) {
		prd_sender_destroy(&s);
		return NULL;
	}
	for (unsigned i = 0; i < config->inputs->all_links; i++)
		s->logs.numbers[i] = config->inputs->links[i].number;
	if (s->inputs->fast) {
		s->logs.flags = PR_TSLOG_WHOLE;
		s->whole = calloc(PR_TRANSMIT_BATCH, PRD_WHOLE_SIZE);
		if (!s->whole) {
			prd_sender_destroy(&s);
			return pr_error_null(err, "no memory for the XDP path");
		}
	}
	if (s->cutoff) /* classes that nodes keep in a way of their own may come */
		s->logs.flags |= PR_TSLOG_CLASSES;
	s->logs.send = send_log;
	s->logs.arg = s;
	for (unsigned i = 0; i < config->inputs->ring_count; i++)
		pr_ring_share_fd(config->inputs->rings[i], config->events);
	s->snapshot_between = 1;
	s->snapshot_read = 2;
	return s;
}

int
prd_sender_start_thread(struct prd_sender *s, struct pr_error *err)
{
	if (pr_thread_start(&s->thread, sender_main, s, "the send thread", err) < 0)
		return -1;
	s->started = true;
	return 0;
}

void
prd_sender_destroy(struct prd_sender **sender)
{
	struct prd_sender *s = PR_TAKE(sender);

	if (!s)
		return;
	if (s->started) {
		atomic_store(&s->quit, true);
		pthread_join(s->thread, NULL); /* it wakes up for every MARK */
	}
	for (unsigned i = 0; i < s->nodes.count; i++)
		prd_logs_forget(s->nodes.list[i]);
	prd_nodes_free(&s->nodes);
	prd_logs_free(&s->logs);
	free(s->whole);
	free(s);
}
