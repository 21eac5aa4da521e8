/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/status.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "proto/base/clock.h"
#include "proto/rpc/status.h"

/* ---- the counters: one row each, in status and in metrics ---- */

#define AT(field) PR_AT(struct prd_link, field)
static const struct pr_counter_row link_rows[] = {
	{AT(captured_packets),
		PR_COUNTER_OF("captured_packets", "Packets taken from the link.")},
	{AT(captured_bytes), PR_COUNTER_OF("captured_bytes",
				     "Bytes of the packets taken from the link.")},
	{AT(sent_packets), PR_COUNTER_OF("sent_packets",
				   "Packets sent to a node, second copies not counted.")},
	{AT(sent_bytes), PR_COUNTER_OF("sent_bytes",
				 "Bytes of the packets sent to a node, as sent.")},
	{AT(dropped_kernel),
		PR_METRIC("dropped_kernel", PR_COUNTER, "dropped_packets_total", PR_ONE,
			"place=\"kernel\",reason=\"ring_full\"",
			"Packets of the link that were lost, by place and reason.")},
	{AT(dropped_interface),
		PR_METRIC("dropped_interface", PR_COUNTER, "dropped_packets_total", PR_ONE,
			"place=\"interface\",reason=\"card_or_backlog\"",
			"Packets of the link that were lost, by place and reason.")},
	{AT(dropped_ring),
		PR_METRIC("dropped_ring", PR_COUNTER, "dropped_packets_total", PR_ONE,
			"place=\"dispatcher\",reason=\"buffer_full\"",
			"Packets of the link that were lost, by place and reason.")},
	{AT(dropped_no_node),
		PR_METRIC("dropped_no_node", PR_COUNTER, "dropped_packets_total", PR_ONE,
			"place=\"dispatcher\",reason=\"no_node\"",
			"Packets of the link that were lost, by place and reason.")},
	{AT(dropped_send),
		PR_METRIC("dropped_send", PR_COUNTER, "dropped_packets_total", PR_ONE,
			"place=\"oport\",reason=\"send_failed\"",
			"Packets of the link that were lost, by place and reason.")},
	{AT(cut), PR_COUNTER_OF("cut_packets",
			  "Packets sent shorter than they were, because of "
			  "the snap length, the cutoff or --allow-cut.")},
	{AT(escaped), PR_COUNTER_OF("escaped_packets",
			      "Packets of the link that carried the Ethertype of the rack, "
			      "and were marked.")},
	{AT(runts),
		PR_COUNTER_OF("runt_packets", "Packets shorter than an Ethernet header.")},
};
#undef AT
enum { LINK_ROWS = sizeof link_rows / sizeof link_rows[0] };

/* What DispatcherLink and DispatcherNode have as fields of their own. */
#define AT(field) PR_AT(Packrack__DispatcherLink, field)
static const struct pr_counter_row link_fields[] = {
	{AT(last_seq),
		PR_METRIC("last_seq", PR_COUNTER, "numbered_packets_total", PR_ONE, NULL,
			"Packets that were given a number: each is in the trace or on the "
			"loss list.")},
	{AT(ended), PR_METRIC("ended", PR_GAUGE, "link_ended", PR_ONE, NULL,
			    "1 when capture of the link is over, else 0.")},
};
#undef AT
#define AT(field) PR_AT(Packrack__DispatcherNode, field)
static const struct pr_counter_row node_fields[] = {
	{AT(last_seen),
		PR_METRIC("last_seen", PR_GAUGE, "last_seen_timestamp_seconds", PR_NS, NULL,
			"When the node was last heard, seconds since 1970.")},
};
#undef AT

#define AT(field) PR_AT(struct prd_node_view, field)
static const struct pr_counter_row node_rows[] = {
	{AT(frames_sent), PR_COUNTER_OF("sent_frames", "Data frames sent to the node.")},
	{AT(bytes_sent),
		PR_COUNTER_OF("sent_bytes", "Bytes of the data frames sent to the node.")},
	{AT(primaries), PR_COUNTER_OF("primary_packets",
				"First copies among the frames sent to the node.")},
	{AT(seconds),
		PR_COUNTER_OF("second_packets",
			"Second copies among the frames sent to the node (--copies 2).")},
	{AT(unacknowledged),
		PR_GAUGE_OF("unacknowledged_frames",
			"Frames sent that the node has not yet stored or given up.")},
	{AT(lost_unacknowledged),
		PR_COUNTER_OF("lost_unacknowledged_frames",
			"Frames that were unacknowledged when the node fell silent.")},
	{AT(logs_sent), PR_METRIC("sent_tslogs", PR_COUNTER, "sent_logs_total", PR_ONE,
				NULL, "Timestamp logs sent to the node.")},
	{AT(resend_asked), PR_COUNTER_OF("resends_asked",
				   "Timestamp logs that the node asked for again.")},
	{AT(resend_answered),
		PR_COUNTER_OF("resends_answered", "Timestamp logs that were sent again.")},
	{AT(gone_answered), PR_COUNTER_OF("gone_answered",
				    "Timestamp logs asked for that were kept no more.")},
	{AT(buffer_size),
		PR_GAUGE_OF("buffer_size_bytes",
			"What the node may have unacknowledged, as it announced.")},
	{AT(controls_sent),
		PR_COUNTER_OF("sent_controls", "Control frames sent to the node.")},
	{AT(controls_received), PR_COUNTER_OF("received_controls",
					"Control frames of the node that were in order.")},
	{AT(status.frames_received),
		PR_COUNTER_OF(
			"received_frames", "Data frames that the node says it received.")},
	{AT(status.packets_stored),
		PR_COUNTER_OF("stored_packets", "Packets that the node says it stored.")},
	{AT(status.packets_durable),
		PR_COUNTER_OF(
			"durable_packets", "Packets that the node says are on its disk.")},
	{AT(status.bytes_stored),
		PR_COUNTER_OF("stored_bytes", "Bytes that the node says it stored.")},
	{AT(status.missing),
		PR_COUNTER_OF("missing_packets", "Packets listed in a timestamp log whose "
						 "frame never reached the node.")},
	{AT(status.stray),
		PR_COUNTER_OF("stray_frames", "Frames received by the node without an "
					      "entry in any timestamp log.")},
	{AT(status.duplicate),
		PR_COUNTER_OF("duplicate_frames", "Frames that came to the node twice.")},
	{AT(status.pending), PR_GAUGE_OF("pending_frames",
				     "Frames at the node that wait for their log.")},
	{AT(status.kernel_drops),
		PR_METRIC("dropped_kernel", PR_COUNTER, "kernel_dropped_frames_total",
			PR_ONE, NULL, "Frames that the kernel of the node dropped.")},
	{AT(status.logs_received),
		PR_METRIC("received_tslogs", PR_COUNTER, "received_logs_total", PR_ONE,
			NULL, "Timestamp logs that the node received.")},
	{AT(status.logs_requested),
		PR_METRIC("requested_tslogs", PR_COUNTER, "requested_logs_total", PR_ONE,
			NULL, "Timestamp logs that the node asked for again, as it says.")},
	{AT(status.logs_gone),
		PR_METRIC("gone_tslogs", PR_COUNTER, "gone_logs_total", PR_ONE, NULL,
			"Timestamp logs that the node was told are kept no more.")},
	{AT(status.disk_total), PR_METRIC("volume_size_bytes", PR_GAUGE, "disk_size_bytes",
					PR_ONE, NULL, "Size of the volume of the node.")},
	{AT(status.disk_free),
		PR_METRIC("volume_free_bytes", PR_GAUGE, "disk_free_bytes", PR_ONE, NULL,
			"What of the volume has never been written; a full one overwrites "
			"its oldest packets.")},
	{AT(status.write_rate),
		PR_METRIC("write_bytes_per_s", PR_GAUGE, "write_bytes_per_second", PR_ONE,
			NULL, "How fast the node stores at present.")},
	{AT(status.buffer_fill),
		PR_METRIC("buffer_fill_percent", PR_GAUGE, "buffer_fill_ratio", PR_PERCENT,
			NULL, "How full the buffer of the node is.")},
};
#undef AT
enum { NODE_ROWS = sizeof node_rows / sizeof node_rows[0] };

/* Figures that are computed for each message. */
struct totals {
	uint64_t goodness_permille, input_bytes_per_s, input_packets_per_s;
	uint64_t buffer_bytes_used, buffer_bytes;
	uint64_t cpu_user_us, cpu_system_us, memory_peak_kib;
	uint64_t control_received, control_refused;
};

#define AT(field) PR_AT(struct totals, field)
static const struct pr_counter_row total_rows[] = {
	{AT(goodness_permille), PR_METRIC("goodness_permille", PR_GAUGE, "goodness_ratio",
					PR_PERMILLE, NULL,
					"Share of the packets of all links that were "
					"captured and sent, since the start.")},
	{AT(input_bytes_per_s),
		PR_METRIC("input_bytes_per_s", PR_GAUGE, "input_bytes_per_second", PR_ONE,
			NULL, "Speed of all links over the last second.")},
	{AT(input_packets_per_s),
		PR_METRIC("input_packets_per_s", PR_GAUGE, "input_packets_per_second",
			PR_ONE, NULL,
			"Packets a second of all links over the last second.")},
	{AT(buffer_bytes_used), PR_GAUGE_OF("buffer_used_bytes",
					"What lies in the cyclic buffers of all links.")},
	{AT(buffer_bytes), PR_GAUGE_OF("buffer_size_bytes",
				   "Size of the cyclic buffers of all links.")},
	{AT(cpu_user_us), PR_METRIC("cpu_user_us", PR_COUNTER, "cpu_seconds_total", PR_US,
				  "mode=\"user\"", "Processor time of the dispatcher.")},
	{AT(cpu_system_us),
		PR_METRIC("cpu_system_us", PR_COUNTER, "cpu_seconds_total", PR_US,
			"mode=\"system\"", "Processor time of the dispatcher.")},
	{AT(memory_peak_kib),
		PR_METRIC("memory_peak_kib", PR_GAUGE, "memory_peak_bytes", PR_KIB, NULL,
			"The most memory that the dispatcher had in RAM.")},
	{AT(control_received), PR_COUNTER_OF("control_received_frames",
				       "Control frames of nodes that were in order.")},
	{AT(control_refused),
		PR_COUNTER_OF("control_refused_frames",
			"Control frames that were refused, for whatever reason.")},
};
#undef AT
#define AT(field) PR_AT(struct prd_view, field)
static const struct pr_counter_row view_rows[] = {
	{AT(spread_mode),
		PR_GAUGE_OF("spread_mode",
			"How packets are spread: 0 round-robin, 1 weighted, 2 flow.")},
	{AT(log_memory_used), PR_GAUGE_OF("log_memory_used_bytes",
				      "Timestamp logs kept for nodes that ask again.")},
	{AT(refused_stale),
		PR_COUNTER_OF("control_stale_frames", "Control frames of a node that name "
						      "an epoch or a start that is over.")},
	{AT(refused_replay), PR_COUNTER_OF("control_replayed_frames",
				     "Control frames with a number that was used before.")},
	{AT(refused_full),
		PR_COUNTER_OF("nodes_refused",
			"Announcements refused for want of room in the table of nodes.")},
};
#undef AT
#define AT(field) PR_AT(struct pr_transmit_counters, field)
static const struct pr_counter_row sent_rows[] = {
	{AT(data_frames), PR_COUNTER_OF("data_frames",
				  "Data frames sent on the o-port, second copies too.")},
	{AT(data_bytes), PR_COUNTER_OF("data_bytes", "Bytes of the data frames.")},
	{AT(data_failed), PR_COUNTER_OF("data_frames_failed",
				  "Data frames that the o-port did not take.")},
	{AT(control_frames),
		PR_COUNTER_OF("control_frames",
			"Control frames sent on the o-port, timestamp logs not counted.")},
	{AT(control_bytes), PR_COUNTER_OF("control_bytes", "Bytes of the control frames.")},
	{AT(control_failed),
		PR_COUNTER_OF("control_frames_failed",
			"Control frames and logs that the o-port did not take.")},
	{AT(log_frames), PR_COUNTER_OF("log_frames", "Timestamp logs sent on the o-port.")},
	{AT(log_bytes), PR_COUNTER_OF("log_bytes", "Bytes of the timestamp logs.")},
	{AT(queue_full),
		PR_COUNTER_OF("send_queue_full",
			"Times that sending waited for room in the queue of the o-port.")},
	{AT(calls), PR_COUNTER_OF("send_calls", "System calls that sent frames.")},
};
#undef AT
#define AT(field) PR_AT(struct prd_oport_counters, field)
static const struct pr_counter_row received_rows[] = {
	{AT(refused[PR_FRAME_BAD_TAG]), PR_COUNTER_OF("control_bad_tag_frames",
						"Of the refused, those whose tag does not "
						"fit the key of the rack.")},
	{AT(other_rack), PR_COUNTER_OF("control_other_rack_frames",
				 "Control frames of another rack on the same switch.")},
	{AT(not_from_node), PR_COUNTER_OF("control_not_from_node_frames",
				    "Control frames of a kind that nodes do not send.")},
	{AT(dropped), PR_COUNTER_OF("control_dropped_frames",
			      "Control frames that the dispatcher had no room for.")},
};
#undef AT

/* "state" of the dispatcher, and of a node. */
static const struct pr_counter_row state_row = {0, 0,
	PR_GAUGE_OF(
		"state", "1 for the state that the dispatcher is in, 0 for the others.")};
static const struct pr_counter_row node_state_row = {0, 0,
	PR_GAUGE_OF("state", "1 for the state that the node is in, as the dispatcher sees "
			     "it, 0 for the others.")};

enum { TABLES = 4, VALUES_MAX = 64 };

struct link_part {
	Packrack__DispatcherLink message;
	Packrack__Value items[LINK_ROWS], *pointers[LINK_ROWS];
};

struct node_part {
	Packrack__DispatcherNode message;
	Packrack__Value items[NODE_ROWS], *pointers[NODE_ROWS];
	char name[PR_NAME_MAX + 1], mac[18];
};

struct prd_status {
	struct prd_status_from from;
	struct prd_view view;
	struct totals totals;
	struct pr_counter_table tables[TABLES]; /* of the dispatcher as a whole */
	Packrack__Status message;
	Packrack__Value items[VALUES_MAX], *pointers[VALUES_MAX];
	struct link_part links[PRD_LINKS_MAX];
	Packrack__DispatcherLink *link_pointers[PRD_LINKS_MAX];
	struct node_part nodes[PRD_NODES_MAX];
	Packrack__DispatcherNode *node_pointers[PRD_NODES_MAX];

	int64_t ticked; /* monotonic */
	uint64_t bytes_before, packets_before;
};

struct prd_status *
prd_status_create(const struct prd_status_from *from, struct pr_error *err)
{
	struct prd_status *status = calloc(1, sizeof *status);

	if (!status) {
		pr_error_set(err, "no memory for figures");
		return NULL;
	}
	status->from = *from;
	status->ticked = pr_now_mono();
	status->tables[0] = PR_COUNTER_TABLE(total_rows, &status->totals);
	status->tables[1] = PR_COUNTER_TABLE(view_rows, &status->view);
	status->tables[2] = PR_COUNTER_TABLE(sent_rows, &status->view.sent);
	status->tables[3] =
		PR_COUNTER_TABLE(received_rows, prd_oport_counters(from->oport));
	return status;
}

void
prd_status_destroy(struct prd_status **status)
{
	free(*status);
	*status = NULL;
}

static uint64_t
sum_links(const struct prd_status *s, const struct pr_counter_row *row)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < s->from.inputs->link_count; i++)
		sum += pr_counter_read(row, &s->from.inputs->links[i]);
	return sum;
}

void
prd_status_tick(struct prd_status *s)
{
	uint64_t packets = sum_links(s, &link_rows[0]), bytes = sum_links(s, &link_rows[1]);
	int64_t now = pr_now_mono(), elapsed = now - s->ticked;

	if (elapsed < PR_NS_PER_S / 10)
		return;
	s->totals.input_bytes_per_s =
		(uint64_t)((double)(bytes - s->bytes_before) * 1e9 / (double)elapsed);
	s->totals.input_packets_per_s =
		(uint64_t)((double)(packets - s->packets_before) * 1e9 / (double)elapsed);
	s->bytes_before = bytes;
	s->packets_before = packets;
	s->ticked = now;
}

static void
make_link(const struct prd_link *link, struct link_part *part)
{
	struct pr_values values = PR_VALUE_LIST(part->items, part->pointers);

	packrack__dispatcher_link__init(&part->message);
	part->message.link = link->number;
	part->message.name = (char *)(uintptr_t)link->name;
	part->message.last_seq = pr_counter_get(&link->last_seq);
	part->message.ended = atomic_load(&link->ended);
	pr_values_add_table(&values, PR_COUNTER_TABLE(link_rows, link));
	part->message.values = part->pointers;
	part->message.n_values = values.count;
}

static const char *const node_states[] = {
	"active", "suspended", "stopped", "gone", "quit", "disconnected", NULL};

static const char *
node_state(const struct prd_node_view *v)
{
	if (v->phase != PRD_NODE_ACTIVE)
		return prd_node_phase_name(v->phase);
	return v->status.state == PR_NODE_SUSPENDED ? "suspended"
	       : v->status.state == PR_NODE_STOPPED ? "stopped"
						    : "active";
}

static void
make_node(const struct prd_node_view *v, struct node_part *part)
{
	struct pr_values values = PR_VALUE_LIST(part->items, part->pointers);

	packrack__dispatcher_node__init(&part->message);
	memcpy(part->name, v->name, sizeof part->name);
	snprintf(part->mac, sizeof part->mac, "%02x:%02x:%02x:%02x:%02x:%02x", v->mac[0],
		v->mac[1], v->mac[2], v->mac[3], v->mac[4], v->mac[5]);
	part->message.name = part->name;
	part->message.mac = part->mac;
	part->message.state = (char *)(uintptr_t)node_state(v);
	part->message.number = v->number;
	part->message.last_seen = pr_now_real() - (pr_now_mono() - v->heard);
	pr_values_add_table(&values, PR_COUNTER_TABLE(node_rows, v));
	part->message.values = part->pointers;
	part->message.n_values = values.count;
}

/* Per mille of all that came to the link and has been sent; CLog shows it in percent. */
static uint64_t
goodness(uint64_t captured, uint64_t lost)
{
	return captured + lost == 0
		       ? 1000
		       : (uint64_t)((double)captured * 1000.0 / (double)(captured + lost));
}

static uint64_t
micros(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

static void
make_totals(struct prd_status *s)
{
	const struct prd_oport_counters *c = prd_oport_counters(s->from.oport);
	struct totals *t = &s->totals;
	struct rusage usage;

	t->buffer_bytes_used = t->buffer_bytes = 0;
	for (unsigned i = 0; i < s->from.inputs->ring_count; i++) {
		t->buffer_bytes_used += pr_ring_used(s->from.inputs->rings[i]);
		t->buffer_bytes += pr_ring_size(s->from.inputs->rings[i]);
	}
	if (getrusage(RUSAGE_SELF, &usage) == 0) {
		t->cpu_user_us = micros(usage.ru_utime);
		t->cpu_system_us = micros(usage.ru_stime);
		t->memory_peak_kib = (uint64_t)usage.ru_maxrss;
	}
	t->control_received = t->control_refused = 0;
	for (unsigned i = 0; i < PR_FRAME_TYPES; i++)
		t->control_received += pr_counter_get(&c->received[i]);
	for (unsigned i = 0; i < PR_FRAME_RESULTS; i++)
		t->control_refused += pr_counter_get(&c->refused[i]);
}

/* The sums of all links, then what is the dispatcher's own. */
static void
make_values(struct prd_status *s)
{
	struct pr_values values = PR_VALUE_LIST(s->items, s->pointers);
	uint64_t lost = 0, late = 0;

	_Static_assert(
		(int)VALUES_MAX >=
			(int)LINK_ROWS + (sizeof total_rows + sizeof view_rows +
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
	s->totals.goodness_permille = goodness(s->items[0].number - late, lost);
	for (unsigned i = 0; i < TABLES; i++)
		pr_values_add_table(&values, s->tables[i]);
	s->message.values = s->pointers;
	s->message.n_values = values.count;
}

Packrack__Status *
prd_status_make(struct prd_status *s)
{
	Packrack__Status *m = &s->message;

	prd_sender_view(s->from.sender, &s->view);
	packrack__status__init(m);
	make_totals(s);
	make_values(s);
	m->program = (char *)(uintptr_t) "packrack-dispatcher";
	m->version = (char *)(uintptr_t)PACKRACK_VERSION;
	m->time = pr_now_real();
	m->epoch = s->from.epoch;
	m->state = (char *)(uintptr_t)prd_state_names[s->view.state];
	for (unsigned i = 0; i < s->from.inputs->link_count; i++) {
		make_link(&s->from.inputs->links[i], &s->links[i]);
		s->link_pointers[i] = &s->links[i].message;
	}
	for (unsigned i = 0; i < s->view.node_count; i++) {
		make_node(&s->view.nodes[i], &s->nodes[i]);
		s->node_pointers[i] = &s->nodes[i].message;
	}
	m->dispatcher_links = s->link_pointers;
	m->n_dispatcher_links = s->from.inputs->link_count;
	m->dispatcher_nodes = s->node_pointers;
	m->n_dispatcher_nodes = s->view.node_count;
	return m;
}

/* Two links or nodes may have one name, but never one number or one MAC. */
void
prd_status_metrics(struct prd_status *s, struct pr_metrics_page *page)
{
	static const char prefix[] = "packrack_dispatcher_",
			  of_node[] = "packrack_dispatcher_node_";

	prd_status_make(s);
	pr_status_metrics_build(page, s->message.program);
	pr_metrics_states(page, prefix, &state_row, prd_state_names, s->message.state);
	for (unsigned i = 0; i < TABLES; i++)
		pr_metrics_table(page, prefix, s->tables[i]);
	for (unsigned i = 0; i < s->from.inputs->link_count; i++) {
		const struct prd_link *link = &s->from.inputs->links[i];
		char number[16];

		snprintf(number, sizeof number, "%u", link->number);
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
