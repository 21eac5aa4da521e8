/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/send.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/send_private.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/thread.h"

/* Stamps of one link may come out of order by a little when several CPUs receive. */
#define STAMP_SLACK PR_NS_PER_MS

static void
send_log(void *arg, struct prd_node *node, enum pr_frame_type type,
	const struct pr_frame *frame)
{
	struct pr_frame copy;

	/* not the whole struct: most of it is room for a MARK's links */
	copy.body = frame->body;
	prd_talk(arg, node, type, &copy);
}

static int
sender_set_up(
	struct prd_sender *s, const struct prd_sender_config *config, struct pr_error *err)
{
	const struct prd_options *o = config->options;

	s->config = *config;
	s->inputs = config->inputs;
	s->transmit = config->transmit;
	s->control = config->control;
	s->copies = (unsigned)o->copies;
	s->strict = !config->inputs->live;
	memcpy(s->prepare.src, config->mac, PR_MAC_LEN);
	s->prepare.ethertype = (uint16_t)o->ethertype;
	s->prepare.epoch = config->epoch;
	prd_nodes_init(&s->nodes, config->epoch, config->nonce, config->mtu);
	prd_spread_init(&s->spread, (enum prd_spread_mode)o->spread, s->strict, &s->nodes);
	if (prd_logs_init(&s->logs, config->inputs->link_count, o->log_memory,
		    3 * o->hold_time, err) < 0)
		return -1;
	s->logs.send = send_log;
	s->logs.arg = s;
	for (unsigned i = 0; i < config->inputs->ring_count; i++)
		pr_ring_share_fd(config->inputs->rings[i], config->events);
	s->view_between = 1;
	s->view_read = 2;
	return 0;
}

struct prd_sender *
prd_sender_create(const struct prd_sender_config *config, struct pr_error *err)
{
	struct prd_sender *s = calloc(1, sizeof *s);

	if (!s)
		pr_error_set(err, "no memory for the sender");
	else if (sender_set_up(s, config, err) < 0)
		prd_sender_destroy(&s);
	return s;
}

/* Before the rings are looked at: what a link has captured until then will have been taken. */
static void
note_captured(const struct prd_sender *s, int64_t until[PRD_LINKS_MAX])
{
	for (unsigned i = 0; i < s->inputs->ring_count; i++)
		until[i] = s->inputs->live
				   ? atomic_load(&s->inputs->links[i].captured_until)
				   : pr_now_real();
}

static void
note_drained(struct prd_sender *s, unsigned taken, const int64_t until[PRD_LINKS_MAX])
{
	bool live = s->inputs->live;

	for (unsigned i = 0; i < s->inputs->ring_count; i++) {
		int64_t said = until[i];

		if (s->held[i])
			continue;
		if (taken >
			0) { /* maybe not all: only what is older than the last one taken */
			if (!live || pr_counter_get(&s->inputs->links[i].last_seq) == 0)
				continue;
			said = atomic_load(&s->inputs->links[i].last_otime) - STAMP_SLACK;
		}
		if (said > s->drained_until[i])
			s->drained_until[i] = said;
	}
}

static void
expire_nodes(struct prd_sender *s)
{
	bool stopping = s->state >= PRD_STATE_STOPPING;
	struct prd_node *node;

	while ((node = prd_nodes_expire(&s->nodes, s->now,
			stopping ? PRD_STOP_SILENCE : PRD_NODE_SILENCE))) {
		pr_log_node(PR_LOG_WARNING, node->ann.name,
			"node %s is silent: it gets no more packets; %llu that it got "
			"are not acknowledged",
			node->ann.name,
			(unsigned long long)(node->next_ordinal - node->window.settled));
		if (node->command_type != 0)
			prd_talk_command_end(s, node, false, "the node is silent");
	}
}

static void
view_node(const struct prd_node *node, struct prd_node_view *v)
{
	memcpy(v->name, node->ann.name, sizeof v->name);
	memcpy(v->mac, node->mac, sizeof v->mac);
	v->number = node->number;
	v->phase = node->phase;
	v->heard = node->heard;
	v->status = node->status;
	v->frames_sent = node->next_ordinal;
	v->bytes_sent = node->bytes_sent;
	v->primaries = node->primaries;
	v->seconds = node->seconds;
	v->unacknowledged = node->next_ordinal - node->window.settled;
	v->lost_unacknowledged = node->lost_unacknowledged;
	v->logs_sent = node->logs_sent;
	v->resend_asked = node->resend_asked;
	v->resend_answered = node->resend_answered;
	v->gone_answered = node->gone_answered;
	v->buffer_size = node->window.size;
	v->controls_received = node->controls_received;
	v->controls_sent = 0;
	for (unsigned i = 0; i < PR_FRAME_TYPES; i++)
		v->controls_sent += node->numbers[i];
}

/* Not in the packets' way: every 100 ms, and when the state changes. */
void
prd_view_publish(struct prd_sender *s)
{
	struct prd_view *view = &s->views[s->view_written];

	view->state = s->state;
	view->spread_mode = s->spread.mode;
	view->node_count = s->nodes.count;
	for (unsigned i = 0; i < s->nodes.count; i++)
		view_node(s->nodes.list[i], &view->nodes[i]);
	view->refused_stale = s->nodes.refused_stale;
	view->refused_replay = s->nodes.refused_replay;
	view->refused_full = s->nodes.refused_full;
	view->log_memory_used = prd_store_used(s->logs.store);
	view->sent = *pr_transmit_counters(s->transmit);
	s->view_written =
		atomic_exchange(&s->view_between, s->view_written | PRD_VIEW_NEW) &
		~PRD_VIEW_NEW;
}

static void
mark_all(struct prd_sender *s)
{
	struct pr_error err;

	expire_nodes(s);
	for (unsigned i = 0; i < s->nodes.count; i++) {
		struct prd_node *node = s->nodes.list[i];

		prd_logs_refill(node, s->now - s->marked);
		if (node->phase == PRD_NODE_ACTIVE)
			prd_mark(s, node);
	}
	s->marked = s->now;
	if (s->now - s->weighed >= PR_NS_PER_S) {
		s->weighed = s->now;
		prd_spread_weigh(&s->spread);
	}
	if (s->now - s->troubled >= PR_NS_PER_S && pr_transmit_trouble(s->transmit, &err)) {
		s->troubled = s->now;
		pr_log_error("%s", err.text);
	}
	prd_view_publish(s);
}

/* When every node is full, logs must go out at once: without them nothing is acknowledged. */
static void
tick(struct prd_sender *s)
{
	int64_t old = s->stuck ? INT64_MAX : s->now - s->config.options->log_age;

	if (s->now - s->ticked >= PRD_TICK || s->stuck) {
		s->ticked = s->now;
		for (unsigned i = 0; i < s->nodes.count; i++)
			prd_logs_flush(&s->logs, s->nodes.list[i], old, s->now);
		prd_talk_commands_again(s);
	}
	if (s->now - s->marked >= PRD_MARK_EVERY)
		mark_all(s);
}

static bool
logs_open(const struct prd_sender *s)
{
	for (unsigned i = 0; i < s->nodes.count; i++)
		if (prd_logs_oldest(&s->logs, s->nodes.list[i]) != PR_TIME_MAX)
			return true;
	return false;
}

/*
 * Until something comes, or the next thing is due. Rings whose packets cannot be taken now are
 * not waited for.
 */
static void
sleep_until_due(struct prd_sender *s)
{
	struct pollfd pfd = {.fd = pr_ring_fd(s->config.events), .events = POLLIN};
	int64_t due = s->marked + PRD_MARK_EVERY, left;
	bool ready = pr_ring_arm(s->config.events);

	if (logs_open(s) || s->state == PRD_STATE_DRAINING)
		due = s->now + PRD_TICK;
	for (unsigned i = 0; prd_state_takes(s) && i < s->inputs->ring_count; i++)
		if (!s->held[i])
			ready = pr_ring_arm(s->inputs->rings[i]) || ready;
	left = due - pr_now_mono();
	if (!ready && left > 0)
		poll(&pfd, 1, (int)(left / PR_NS_PER_MS) + 1);
}

static void
round_of_work(struct prd_sender *s)
{
	int64_t until[PRD_LINKS_MAX];
	bool at_end = prd_inputs_at_end(s->inputs), quiet = prd_inputs_quiet(s->inputs);
	unsigned taken = 0;

	s->now = pr_now_mono();
	prd_events(s);
	if (prd_state_takes(s)) {
		note_captured(s, until);
		taken = prd_batch(s);
		note_drained(s, taken, until);
	}
	prd_state_step(s, taken, at_end, quiet);
	tick(s);
	pr_control_flush(s->control);
	if (taken == 0)
		sleep_until_due(s);
}

/*
 * Frames that one thread sends from two CPUs may lie in two of the kernel's queues, and one of them
 * may wait for long: a thread that stays where it is keeps them in order.
 */
static void
stay_on_this_cpu(void)
{
	int cpu = sched_getcpu();
	cpu_set_t set;

	CPU_ZERO(&set);
	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return;
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set) < 0)
		pr_log_warning(
			"the send thread cannot stay on one CPU: %s", strerror(errno));
}

static void *
sender_main(void *arg)
{
	struct prd_sender *s = arg;

	pr_priority_thread(PR_NICE_STORE);
	stay_on_this_cpu();
	s->now = s->state_since = pr_now_mono();
	if (s->inputs->live)
		prd_inputs_set_running(
			s->inputs, true); /* the cyclic buffer holds what comes early */
	prd_talk_reconnect_all(s);
	while (!atomic_load(&s->quit))
		round_of_work(s);
	return NULL;
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
	struct prd_sender *s = *sender;

	*sender = NULL;
	if (!s)
		return;
	if (s->started) {
		atomic_store(&s->quit, true);
		pthread_join(s->thread, NULL); /* it wakes for every MARK */
	}
	for (unsigned i = 0; i < s->nodes.count; i++)
		prd_logs_forget(s->nodes.list[i]);
	prd_nodes_free(&s->nodes);
	prd_logs_free(&s->logs);
	free(s);
}

void
prd_sender_view(struct prd_sender *s, struct prd_view *out)
{
	if (atomic_load(&s->view_between) & PRD_VIEW_NEW)
		s->view_read =
			atomic_exchange(&s->view_between, s->view_read) & ~PRD_VIEW_NEW;
	*out = s->views[s->view_read];
}
