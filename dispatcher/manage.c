/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/resource.h>

#include "dispatcher/sender.h"
#include "dispatcher/steering.h"
#include "proto/base/log.h"
#include "proto/base/metrics_server.h"
#include "proto/rpc/admission.h"
#include "proto/rpc/rpc.h"
#include "proto/rpc/status.h"

/* ---- the counters: one row each, in status and in metrics ---- */

#define PR_COUNTED struct prd_link
#define LOST(member, place, reason)                                                        \
	PR_METRIC(member, #member, PR_COUNTER, "dropped_packets_total", PR_ONE,            \
		"place=\"" place "\",reason=\"" reason "\"",                               \
		"Packets of the link that were lost, by place and reason.")
static const struct pr_counter_row link_rows[] = {
	PR_COUNTER_OF(captured_packets, "captured_packets", "Packets taken from the link."),
	PR_COUNTER_OF(captured_bytes, "captured_bytes",
		"Bytes of the packets taken from the link."),
	PR_COUNTER_OF(sent_packets, "sent_packets",
		"Packets sent to a node, second copies not counted."),
	PR_COUNTER_OF(
		sent_bytes, "sent_bytes", "Bytes of the packets sent to a node, as sent."),
	LOST(dropped_kernel, "kernel", "ring_full"),
	LOST(dropped_interface, "interface", "card_or_backlog"),
	LOST(dropped_ring, "dispatcher", "buffer_full"),
	LOST(dropped_no_node, "dispatcher", "no_node"),
	LOST(dropped_send, "oport", "send_failed"),
	PR_COUNTER_OF(cut, "cut_packets",
		"Packets sent shorter than they were, because of the snap length, the "
		"cutoff or --allow-truncation."),
	PR_COUNTER_OF(escaped, "escaped_packets",
		"Packets of the link that carried the Ethertype of the rack, and were "
		"marked."),
	PR_COUNTER_OF(unstamped, "unstamped_packets",
		"Packets without a usable time of the source that --timestamp names: "
		"they have the kernel's."),
	PR_COUNTER_OF(runts, "runt_packets", "Packets shorter than an Ethernet header."),
	PR_COUNTER_OF(beyond_packets, "beyond_cutoff_packets",
		"Packets beyond the cutoff of their connection: not sent, but accounted "
		"for."),
	PR_COUNTER_OF(beyond_bytes, "beyond_cutoff_bytes", "Bytes of these packets."),
	PR_COUNTER_OF(shunted_packets, "shunted_packets",
		"Packets of these that the XDP program of --shunt dropped.")};
#undef PR_COUNTED
enum { LINK_ROWS = PR_COUNT(link_rows) };

/* Counters that are fields of DispatcherLink and DispatcherNode. */
#define PR_COUNTED Packrack__DispatcherLink
static const struct pr_counter_row link_fields[] = {
	PR_COUNTER_AS(last_seq, "last_seq", "numbered_packets_total",
		"Packets that were given a number: each is in the trace or on the loss "
		"list."),
	PR_GAUGE_AS(ended, "ended", "link_ended",
		"1 when capture of the link is over, else 0.")};
#undef PR_COUNTED
#define PR_COUNTED Packrack__DispatcherNode
static const struct pr_counter_row node_fields[] = {
	PR_METRIC(last_seen, "last_seen", PR_GAUGE, "last_seen_timestamp_seconds", PR_NS,
		NULL, "When the node was last heard, seconds since 1970.")};
#undef PR_COUNTED

#define PR_COUNTED struct prd_node_snapshot
static const struct pr_counter_row node_rows[] = {
	PR_COUNTER_OF(frames_sent, "sent_frames", "Data frames sent to the node."),
	PR_COUNTER_OF(
		bytes_sent, "sent_bytes", "Bytes of the data frames sent to the node."),
	PR_COUNTER_OF(primaries, "primary_packets",
		"First copies among the frames sent to the node."),
	PR_COUNTER_OF(seconds, "second_packets",
		"Second copies among the frames sent to the node (--copies 2)."),
	PR_GAUGE_OF(unacknowledged, "unacknowledged_frames",
		"Frames sent that the node has not yet stored or given up."),
	PR_COUNTER_OF(lost_unacknowledged, "lost_unacknowledged_frames",
		"Frames that were unacknowledged when the node fell silent."),
	PR_COUNTER_AS(logs_sent, "sent_tslogs", "sent_logs_total",
		"Timestamp logs sent to the node."),
	PR_COUNTER_OF(resend_asked, "resends_asked",
		"Timestamp logs that the node asked for again."),
	PR_COUNTER_OF(resend_answered, "resends_answered",
		"Timestamp logs that were sent again."),
	PR_COUNTER_OF(gone_answered, "gone_answered",
		"Timestamp logs that were asked for again and no longer kept."),
	PR_GAUGE_OF(buffer_size, "buffer_size_bytes",
		"What the node may have unacknowledged, as it announced."),
	PR_COUNTER_OF(controls_sent, "sent_controls", "Control frames sent to the node."),
	PR_COUNTER_OF(controls_received, "received_controls",
		"Control frames of the node that were in order."),
	PR_COUNTER_OF(status.frames_received, "received_frames",
		"Data frames that the node says it received."),
	PR_COUNTER_OF(status.packets_stored, "stored_packets",
		"Packets that the node has stored, as it reports."),
	PR_COUNTER_OF(status.packets_durable, "durable_packets",
		"Packets on the disk of the node, as it reports."),
	PR_COUNTER_OF(
		status.bytes_stored, "stored_bytes", "Bytes that the node says it stored."),
	PR_COUNTER_OF(status.missing, "missing_packets",
		"Packets listed in a timestamp log whose frame never reached the node."),
	PR_COUNTER_OF(status.stray, "stray_frames",
		"Frames received by the node without an entry in any timestamp log."),
	PR_COUNTER_OF(status.duplicate, "duplicate_frames",
		"Frames that came to the node twice."),
	PR_GAUGE_OF(status.pending, "pending_frames",
		"Frames at the node that wait for their timestamp log."),
	PR_COUNTER_AS(status.kernel_drops, "dropped_kernel", "kernel_dropped_frames_total",
		"Frames that the kernel of the node dropped."),
	PR_COUNTER_AS(status.logs_received, "received_tslogs", "received_logs_total",
		"Timestamp logs that the node received."),
	PR_COUNTER_AS(status.logs_requested, "requested_tslogs", "requested_logs_total",
		"Timestamp logs that the node asked for again, as it reports."),
	PR_COUNTER_AS(status.logs_gone, "gone_tslogs", "gone_logs_total",
		"Timestamp logs that the node asked for again and that are no longer "
		"kept."),
	PR_GAUGE_AS(status.disk_total, "volume_size_bytes", "disk_size_bytes",
		"Size of the volume of the node."),
	PR_GAUGE_AS(status.disk_free, "volume_free_bytes", "disk_free_bytes",
		"Bytes of the volume that have never been written; a full volume "
		"overwrites its oldest packets."),
	PR_GAUGE_AS(status.write_rate, "write_bytes_per_s", "write_bytes_per_second",
		"How fast the node stores at present."),
	PR_METRIC(status.buffer_fill, "buffer_fill_percent", PR_GAUGE, "buffer_fill_ratio",
		PR_PERCENT, NULL, "How full the buffer of the node is.")};
#undef PR_COUNTED
enum { NODE_ROWS = PR_COUNT(node_rows) };

/* Figures that are computed for each message. */
struct totals {
	uint64_t goodness_permille, input_bytes_per_s, input_packets_per_s;
	uint64_t buffer_bytes_used, buffer_bytes;
	uint64_t cpu_user_us, cpu_system_us, memory_peak_kib;
	uint64_t control_received, control_refused;
};

#define PR_COUNTED struct totals
static const struct pr_counter_row total_rows[] = {
	PR_METRIC(goodness_permille, "goodness_permille", PR_GAUGE, "goodness_ratio",
		PR_PERMILLE, NULL,
		"Share of the packets of all links that were captured and sent, since the "
		"start."),
	PR_GAUGE_AS(input_bytes_per_s, "input_bytes_per_s", "input_bytes_per_second",
		"Speed of all links over the last second."),
	PR_GAUGE_AS(input_packets_per_s, "input_packets_per_s", "input_packets_per_second",
		"Packets a second of all links over the last second."),
	PR_GAUGE_OF(buffer_bytes_used, "buffer_used_bytes",
		"Bytes in the cyclic buffers of all links."),
	PR_GAUGE_OF(buffer_bytes, "buffer_size_bytes",
		"Size of the cyclic buffers of all links."),
	PR_METRIC(cpu_user_us, "cpu_user_us", PR_COUNTER, "cpu_seconds_total", PR_US,
		"mode=\"user\"", "Processor time of the dispatcher."),
	PR_METRIC(cpu_system_us, "cpu_system_us", PR_COUNTER, "cpu_seconds_total", PR_US,
		"mode=\"system\"", "Processor time of the dispatcher."),
	PR_METRIC(memory_peak_kib, "memory_peak_kib", PR_GAUGE, "memory_peak_bytes", PR_KIB,
		NULL, "The most memory that the dispatcher had in RAM."),
	PR_COUNTER_OF(control_received, "control_received_frames",
		"Control frames of nodes that were in order."),
	PR_COUNTER_OF(control_refused, "control_refused_frames",
		"Control frames that were refused, for whatever reason.")};
#undef PR_COUNTED
#define PR_COUNTED struct prd_snapshot
static const struct pr_counter_row view_rows[] = {
	PR_GAUGE_OF(spread_mode, "spread_mode",
		"How packets are spread: 0 round-robin, 1 weighted, 2 flow."),
	PR_GAUGE_OF(log_memory_used, "log_memory_used_bytes",
		"Timestamp logs kept for nodes that ask again."),
	PR_COUNTER_OF(refused_stale, "control_stale_frames",
		"Control frames of a node that name an epoch or a start that is over."),
	PR_COUNTER_OF(refused_replay, "control_replayed_frames",
		"Control frames with a number that was used before."),
	PR_COUNTER_OF(refused_full, "nodes_refused",
		"Announcements refused for want of room in the table of nodes."),
	PR_COUNTER_OF(refused_unconfirmed, "control_unconfirmed_frames",
		"Announcements that no STATUS confirmed within 2 s."),
	PR_COUNTER_OF(xdp_sent, "xdp_frames",
		"Data frames that the XDP path sent on the rack interface."),
	PR_COUNTER_OF(xdp_redirect_failed, "xdp_frames_not_redirected",
		"Data frames of the XDP path that the kernel did not pass to the rack "
		"interface: nodes report them as missing."),
	PR_COUNTER_OF(xdp_transmit_dropped, "xdp_frames_dropped",
		"Data frames of the XDP path that the rack interface had no room for: "
		"nodes report them as missing."),
	PR_GAUGE_OF(cutoff.connections, "tracked_connections",
		"With classes: connections in the table."),
	PR_COUNTER_OF(cutoff.connections_begun, "connections_begun",
		"Connections that have begun."),
	PR_COUNTER_OF(cutoff.connections_cut, "connections_cut",
		"Connections of which packets were beyond the cutoff."),
	PR_GAUGE_OF(cutoff.shunted, "shunted_connections",
		"Connections whose packets the XDP program of --shunt drops."),
	PR_COUNTER_OF(cutoff.evicted, "connections_evicted",
		"Connections forgotten before their time-out, as the table was full."),
	PR_COUNTER_OF(cutoff.fragments_unknown, "fragments_unknown",
		"Later fragments whose first one was not seen."),
	PR_COUNTER_OF(cutoff.suspended, "suspended_cutoff_packets",
		"Packets beyond a cutoff that were kept, as it was suspended."),
	PR_COUNTER_OF(cutoff.uncounted, "beyond_cutoff_kept_packets",
		"Packets beyond a cutoff that were kept, as there was no room to count "
		"them.")};
#undef PR_COUNTED
#define PR_COUNTED struct pr_transmit_counters
static const struct pr_counter_row sent_rows[] = {
	PR_COUNTER_OF(data_frames, "data_frames",
		"Data frames sent on the rack interface, second copies too."),
	PR_COUNTER_OF(data_bytes, "data_bytes", "Bytes of the data frames."),
	PR_COUNTER_OF(data_failed, "data_frames_failed",
		"Data frames that the rack interface did not take."),
	PR_COUNTER_OF(control_frames, "control_frames",
		"Control frames sent on the rack interface, timestamp logs not counted."),
	PR_COUNTER_OF(control_bytes, "control_bytes", "Bytes of the control frames."),
	PR_COUNTER_OF(control_failed, "control_frames_failed",
		"Control frames and logs that the rack interface did not take."),
	PR_COUNTER_OF(
		log_frames, "log_frames", "Timestamp logs sent on the rack interface."),
	PR_COUNTER_OF(log_bytes, "log_bytes", "Bytes of the timestamp logs."),
	PR_COUNTER_OF(queue_full, "send_queue_full",
		"Times that sending waited for room in the queue of the rack interface."),
	PR_COUNTER_OF(calls, "send_calls", "System calls that sent frames.")};
#undef PR_COUNTED
#define PR_COUNTED struct prd_receiver_counters
static const struct pr_counter_row received_rows[] = {
	PR_COUNTER_OF(refused[PR_FRAME_BAD_TAG], "control_bad_tag_frames",
		"Of the refused, those whose tag does not fit the key of the rack."),
	PR_COUNTER_OF(other_rack, "control_other_rack_frames",
		"Control frames of another rack on the same switch."),
	PR_COUNTER_OF(not_from_node, "control_not_from_node_frames",
		"Control frames of a kind that nodes do not send."),
	PR_COUNTER_OF(dropped, "control_dropped_frames",
		"Control frames that the dispatcher had no room for.")};

/* "state" of the dispatcher, and of a node. */
static const struct pr_counter_row state_row = PR_STATES_OF(
	"state", "1 for the state that the dispatcher is in, 0 for the others.");
static const struct pr_counter_row node_state_row =
	PR_STATES_OF("state", "1 for the state that the node is in, as the dispatcher sees "
			      "it, 0 for the others.");

enum { TABLES = 4, VALUES_MAX = 80, COMMANDS_MAX = 64 };

struct link_part {
	Packrack__DispatcherLink message;
	Packrack__Value items[LINK_ROWS], *pointers[LINK_ROWS];
};

struct node_part {
	Packrack__DispatcherNode message;
	Packrack__Value items[NODE_ROWS], *pointers[NODE_ROWS];
	char name[PR_NAME_MAX + 1], mac[18];
};

/* A command that the send thread has yet to answer. */
struct command {
	uint64_t request; /* 0: free */
	uint64_t id; /* of the message that asked for it */
	struct pr_rpc_peer peer;
};

struct prd_manage {
	struct prd_sender *sender;
	const struct prd_receiver_counters *received;
	const struct prd_inputs *inputs;
	struct pr_rpc *rpc;
	struct pr_metrics_server *metrics;
	struct pr_timer *timer;
	struct command commands[COMMANDS_MAX];
	uint64_t requests;
	struct prd_steering steering;

	/* status: in memory that is used again for each message */
	struct prd_snapshot view;
	struct totals totals;
	struct pr_counter_table tables[TABLES]; /* of the dispatcher as a whole */
	Packrack__Status message;
	Packrack__Value items[VALUES_MAX], *pointers[VALUES_MAX];
	struct link_part links[PRD_LINKS_MAX];
	Packrack__DispatcherLink *link_pointers[PRD_LINKS_MAX];
	struct node_part nodes[PRD_NODES_MAX];
	Packrack__DispatcherNode *node_pointers[PRD_NODES_MAX];
	int64_t last_rate; /* monotonic: when the rates were computed */
	uint64_t bytes_before, packets_before;
};

static uint64_t
sum_links(const struct prd_manage *s, const struct pr_counter_row *row)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < s->inputs->link_count; i++)
		sum += pr_counter_read(row, &s->inputs->links[i]);
	return sum;
}

/* Every second. */
static void
compute_rates(void *arg)
{
	struct prd_manage *s = arg;
	uint64_t packets = sum_links(s, &link_rows[0]), bytes = sum_links(s, &link_rows[1]);
	int64_t now = pr_now_mono(), elapsed = now - s->last_rate;

	if (elapsed < PR_NS_PER_S / 10)
		return;
	s->totals.input_bytes_per_s = (bytes - s->bytes_before) * 1e9 / elapsed;
	s->totals.input_packets_per_s = (packets - s->packets_before) * 1e9 / elapsed;
	s->bytes_before = bytes;
	s->packets_before = packets;
	s->last_rate = now;
	pr_state_expire(&s->steering.state, pr_now_real());
}

static const char *const node_states[] = {
	"active", "suspended", "stopped", "gone", "quit", "disconnected", NULL};

static void
make_node(const struct prd_node_snapshot *v, struct node_part *part)
{
	struct pr_values values = PR_VALUE_LIST(part->items, part->pointers);
	Packrack__DispatcherNode *m = &part->message;
	const char *state = prd_node_phase_name(v->phase);

	if (v->phase == PRD_NODE_ACTIVE && v->status.state == PR_NODE_SUSPENDED)
		state = "suspended";
	else if (v->phase == PRD_NODE_ACTIVE && v->status.state == PR_NODE_STOPPED)
		state = "stopped";
	packrack__dispatcher_node__init(m);
	memcpy(part->name, v->name, sizeof part->name);
	PR_PRINT(part->mac, PR_MAC_FORMAT, PR_MAC_ARGS(v->mac));
	PR_COPY(m, part, name, mac);
	m->state = (char *)state;
	m->number = v->number;
	m->last_seen = pr_now_real() - (pr_now_mono() - v->last_heard);
	pr_values_add_table(&values, PR_COUNTER_TABLE(node_rows, v));
	m->values = part->pointers;
	m->n_values = values.count;
}

/* Fills in the totals that are computed for each message. */
static void
make_totals(struct prd_manage *s)
{
	const struct prd_receiver_counters *c = s->received;
	struct totals *t = &s->totals;
	struct rusage usage;

	t->buffer_bytes_used = t->buffer_bytes = 0;
	for (unsigned i = 0; i < s->inputs->ring_count; i++) {
		t->buffer_bytes_used += pr_ring_used(s->inputs->rings[i]);
		t->buffer_bytes += pr_ring_size(s->inputs->rings[i]);
	}
	if (s->inputs->fast)
		t->buffer_bytes_used = pr_fast_used(s->inputs->fast, &t->buffer_bytes);
	if (getrusage(RUSAGE_SELF, &usage) == 0) {
		t->cpu_user_us = (uint64_t)usage.ru_utime.tv_sec * 1000000 +
				 (uint64_t)usage.ru_utime.tv_usec;
		t->cpu_system_us = (uint64_t)usage.ru_stime.tv_sec * 1000000 +
				   (uint64_t)usage.ru_stime.tv_usec;
		t->memory_peak_kib = usage.ru_maxrss;
	}
	t->control_received = t->control_refused = 0;
	for (unsigned i = 0; i < PR_FRAME_TYPES; i++)
		t->control_received += pr_counter_get(&c->received[i]);
	for (unsigned i = 0; i < PR_FRAME_RESULTS; i++)
		t->control_refused += pr_counter_get(&c->refused[i]);
}

/* Adds the sums of all links, then the dispatcher's own counters. */
static void
make_values(struct prd_manage *s)
{
	struct pr_values values = PR_VALUE_LIST(s->items, s->pointers);
	uint64_t lost = 0, late = 0, captured;

	_Static_assert(
		VALUES_MAX >= LINK_ROWS + PR_CONNECTIONS_ROWS +
				      (sizeof total_rows + sizeof view_rows +
					      sizeof sent_rows + sizeof received_rows) /
					      sizeof total_rows[0],
		"room for all");
	for (unsigned i = 0; i < LINK_ROWS; i++) {
		uint64_t sum = sum_links(s, &link_rows[i]);
		size_t at = link_rows[i].offset;

		pr_values_add(&values, link_rows[i].name, sum);
		if (strncmp(link_rows[i].name, "dropped", 7) == 0)
			lost += sum;
		if (at == offsetof(struct prd_link, dropped_no_node) ||
			at == offsetof(struct prd_link, dropped_send))
			late += sum; /* counted as captured before */
	}
	/* Per mille of the packets at the link that were sent; CLog shows it in percent. */
	captured = s->items[0].number - late;
	s->totals.goodness_permille = 1000;
	if (captured + lost)
		s->totals.goodness_permille = captured * 1000.0 / (captured + lost);
	for (unsigned i = 0; i < TABLES; i++)
		pr_values_add_table(&values, s->tables[i]);
	pr_values_add_table(&values, pr_connections_figures());
	s->message.values = s->pointers;
	s->message.n_values = values.count;
}

/* The message is valid until the next call. */
static Packrack__Status *
make_status(struct prd_manage *s)
{
	Packrack__Status *m = &s->message;

	prd_sender_snapshot(s->sender, &s->view);
	*m = pr_status_of("packrack-dispatcher");
	make_totals(s);
	make_values(s);
	m->epoch = s->sender->config.epoch;
	m->state = (char *)prd_capture_state_names[s->view.state];
	for (unsigned i = 0; i < s->inputs->link_count; i++) {
		const struct prd_link *link = &s->inputs->links[i];
		struct link_part *part = &s->links[i];
		struct pr_values values = PR_VALUE_LIST(part->items, part->pointers);

		s->link_pointers[i] = &part->message;
		packrack__dispatcher_link__init(&part->message);
		part->message.link = link->number;
		part->message.name = (char *)link->name;
		part->message.last_seq = pr_counter_get(&link->last_seq);
		part->message.ended = atomic_load(&link->ended);
		pr_values_add_table(&values, PR_COUNTER_TABLE(link_rows, link));
		part->message.values = part->pointers;
		part->message.n_values = values.count;
	}
	for (unsigned i = 0; i < s->view.node_count; i++) {
		make_node(&s->view.nodes[i], &s->nodes[i]);
		s->node_pointers[i] = &s->nodes[i].message;
	}
	m->dispatcher_links = s->link_pointers;
	m->n_dispatcher_links = s->inputs->link_count;
	m->dispatcher_nodes = s->node_pointers;
	m->n_dispatcher_nodes = s->view.node_count;
	prd_steering_status(&s->steering, m);
	return m;
}

/* Two links or nodes may have one name, but never one number or one MAC. */
static void
on_scrape(void *arg, struct pr_metrics_page *page)
{
	struct prd_manage *s = arg;
	static const char prefix[] = "packrack_dispatcher_",
			  of_node[] = "packrack_dispatcher_node_";

	make_status(s);
	pr_status_metrics_build(page, s->message.program);
	pr_metrics_states(
		page, prefix, &state_row, prd_capture_state_names, s->message.state);
	for (unsigned i = 0; i < TABLES; i++)
		pr_metrics_table(page, prefix, s->tables[i]);
	for (unsigned i = 0; i < s->inputs->link_count; i++) {
		const struct prd_link *link = &s->inputs->links[i];
		char number[16];

		PR_PRINT(number, "%u", link->number);
		pr_metrics_label(page, {"link", link->name}, {"number", number});
		pr_metrics_table(page, prefix, PR_COUNTER_TABLE(link_rows, link));
		pr_metrics_table(
			page, prefix, PR_COUNTER_TABLE(link_fields, &s->links[i].message));
	}
	for (unsigned i = 0; i < s->view.node_count; i++) {
		const Packrack__DispatcherNode *node = &s->nodes[i].message;

		pr_metrics_label(page, {"node", node->name}, {"mac", node->mac});
		pr_metrics_states(page, of_node, &node_state_row, node_states, node->state);
		pr_metrics_table(
			page, of_node, PR_COUNTER_TABLE(node_rows, &s->view.nodes[i]));
		pr_metrics_table(page, of_node, PR_COUNTER_TABLE(node_fields, node));
	}
}

/* ---- the socket: requests and commands ---- */

static void
answer(struct prd_manage *m, const struct pr_rpc_peer *peer, uint64_t id,
	Packrack__Envelope__BodyCase body_case, const void *body)
{
	Packrack__Envelope env = pr_message_of(id, body_case, body);
	struct pr_error err;

	if (pr_rpc_send(m->rpc, peer, &env, &err) < 0)
		pr_log_debug("%s", err.text);
}

static const struct verb {
	const char *name;
	enum prd_event_kind kind;
	uint8_t type;
} verbs[] = {
	{"start", PRD_EVENT_START, 0},
	{"stop", PRD_EVENT_STOP, 0},
	{"identify", PRD_EVENT_NODE, PR_FRAME_IDENTIFY},
	{"reset", PRD_EVENT_NODE, PR_FRAME_RESET},
	{"disconnect", PRD_EVENT_NODE, PR_FRAME_DISCONNECT},
	{"reconnect", PRD_EVENT_NODE, PR_FRAME_RECONNECT},
	{"spread", PRD_EVENT_SPREAD, 0},
};

static int
spread_mode(const char *name)
{
	for (int i = 0; prd_spread_names[i]; i++)
		if (strcmp(prd_spread_names[i], name) == 0)
			return i;
	return -1;
}

static struct command *
find_command(struct prd_manage *m, uint64_t request)
{
	for (unsigned i = 0; i < COMMANDS_MAX; i++)
		if (m->commands[i].request == request)
			return &m->commands[i];
	return NULL;
}

#define TOO_MANY "too many commands are under way: try again"

static int
pass_on(struct prd_manage *m, const struct verb *verb, const Packrack__Command *command,
	const struct pr_rpc_peer *peer, struct pr_error *err)
{
	struct pr_ring *events = m->sender->config.events;
	int type = verb->kind == PRD_EVENT_SPREAD ? spread_mode(command->node) : verb->type;

	if (type < 0)
		return pr_error_set(err, "spread is round-robin, weighted or flow");
	struct prd_event *event = pr_ring_reserve(events, sizeof *event);
	if (!event)
		return pr_error_set(err, TOO_MANY);
	memset(event, 0, sizeof *event);
	event->kind = verb->kind;
	event->request = m->requests + 1;
	event->u.node.type = type;
	event->u.node.seconds = command->seconds ? command->seconds : 10;
	strncpy(event->u.node.name,
		verb->kind == PRD_EVENT_STOP ? (peer->user[0] ? peer->user : command->user)
					     : command->node,
		PR_NAME_MAX);
	pr_ring_commit(events, sizeof *event);
	pr_ring_publish(events);
	return 0;
}

/* A change to classes or cutoff: what it says is checked here. */
static int
steer(struct prd_manage *m, const Packrack__Command *command,
	const struct pr_rpc_peer *peer, struct pr_error *err)
{
	char user[PR_MESSAGE_NAME_MAX + 1];

	/* a merger tells whose command it passes on; others may claim to */
	if (command->user[0] && peer->user[0])
		PR_PRINT(user, "%s (by %s)", command->user, peer->user);
	else
		PR_PRINT(user, "%s", command->user[0] ? command->user : peer->user);
	return prd_steering_command(&m->steering, command, user, m->requests + 1, err);
}

static void
on_command(struct prd_manage *m, const struct pr_rpc_peer *peer, uint64_t id,
	const Packrack__Command *command)
{
	bool steers = pr_state_verb(command->verb);
	const struct verb *verb = NULL;
	struct command *pending = find_command(m, 0);
	struct pr_error err;
	int rc;

	for (size_t i = 0; i < PR_COUNT(verbs); i++)
		if (command->verb && strcmp(verbs[i].name, command->verb) == 0)
			verb = &verbs[i];
	if (!verb && !steers)
		rc = pr_error_set(&err,
			"unknown command: start, stop, spread, identify, reset, "
			"disconnect, reconnect, suspend, resume, move, unmove, class-add, "
			"class-set or class-remove");
	else if (!pending)
		rc = pr_error_set(&err, TOO_MANY);
	else
		rc = steers ? steer(m, command, peer, &err)
			    : pass_on(m, verb, command, peer, &err);
	if (rc < 0) {
		pr_rpc_refuse(m->rpc, peer, id, err.text, true);
		return;
	}
	*pending = (struct command){.request = ++m->requests, .id = id, .peer = *peer};
	if (!steers) /* what steers was logged when it was taken */
		pr_log_with(PR_LOG_INFO,
			PR_LOG_FIELDS({"command", command->verb},
				{"node", command->node ? command->node : ""},
				{"user", peer->user}),
			"%s%s requested '%s %s'", peer->user[0] ? "user " : "a user",
			peer->user, command->verb,
			command->node && command->node[0] ? command->node : "capture");
}

static void
on_state(
	struct prd_manage *m, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	Packrack__RackState reply;

	/* nodes have this message, too, but for mergers */
	if (!(peer->role & PR_ROLE_OPERATE))
		pr_rpc_refuse(m->rpc, peer, env->id,
			"the state of the rack needs the role operate: enroll this "
			"merger's key with it",
			true);
	else if (pr_state_exchange(&m->steering.state, env->state, pr_now_real(), &reply))
		answer(m, peer, env->id, PACKRACK__ENVELOPE__BODY_STATE, &reply);
}

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct prd_manage *m = arg;

	/* classes and rules have addresses */
	if (!(peer->role & ~(unsigned)PR_ROLE_ANONYMIZED))
		pr_rpc_refuse(m->rpc, peer, env->id,
			"not for the role read-anonymized: ask the merger", true);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_STATUS_REQUEST)
		answer(m, peer, env->id, PACKRACK__ENVELOPE__BODY_STATUS, make_status(m));
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_COMMAND)
		on_command(m, peer, env->id, env->command);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_STATE)
		on_state(m, peer, env);
	else
		pr_rpc_refuse(m->rpc, peer, env->id,
			"a dispatcher answers status and commands only", true);
}

void
prd_manage_reply(struct prd_manage *m, const struct prd_reply *reply)
{
	struct command *pending = find_command(m, reply->request);
	Packrack__CommandDone done = PACKRACK__COMMAND_DONE__INIT;

	if (reply->request == 0 || !pending)
		return;
	done.ok = reply->ok;
	done.text = (char *)reply->text;
	done.status = make_status(m);
	answer(m, &pending->peer, pending->id, PACKRACK__ENVELOPE__BODY_COMMAND_DONE,
		&done);
	pending->request = 0;
}

struct prd_manage *
prd_manage_open(struct pr_loop *loop, struct prd_sender *sender,
	const struct prd_receiver_counters *received, struct pr_error *err)
{
	const struct prd_options *o = sender->config.options;
	struct prd_manage *m = calloc(1, sizeof *m);

	if (!m)
		return pr_error_null(err, "no memory for the management socket");
	m->sender = sender;
	m->received = received;
	m->inputs = sender->inputs;
	m->last_rate = pr_now_mono();
	m->tables[0] = PR_COUNTER_TABLE(total_rows, &m->totals);
	m->tables[1] = PR_COUNTER_TABLE(view_rows, &m->view);
	m->tables[2] = PR_COUNTER_TABLE(sent_rows, &m->view.sent);
	m->tables[3] = PR_COUNTER_TABLE(received_rows, received);
	prd_steering_init(
		&m->steering, sender->config.cutoff, &o->classes, sender->config.events);
	m->timer = pr_timer_create(loop, PR_NS_PER_S, compute_rates, m, err);
	if (m->timer)
		m->rpc = pr_rpc_listen(loop, o->manage, o->keys, on_message, m, err);
	if (m->rpc && o->metrics)
		m->metrics = pr_metrics_serve(loop, o->metrics, on_scrape, m, err);
	if (!m->rpc || (o->metrics && !m->metrics))
		prd_manage_close(&m);
	return m;
}

void
prd_manage_close(struct prd_manage **manage)
{
	struct prd_manage *m = PR_TAKE(manage);

	if (!m)
		return;
	pr_metrics_stop(&m->metrics);
	pr_rpc_destroy(&m->rpc);
	pr_timer_destroy(&m->timer);
	pr_state_free(&m->steering.state);
	free(m);
}
