/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/status.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "proto/base/clock.h"

enum { VALUES_ALL = 64, VALUES_EACH = 32 };

/* A list of named numbers, in memory that is used again for each message. */
struct values {
	Packrack__Value items[VALUES_ALL], *pointers[VALUES_ALL];
	size_t count;
};

struct link_part {
	Packrack__DispatcherLink message;
	Packrack__Value items[VALUES_EACH], *pointers[VALUES_EACH];
};

struct node_part {
	Packrack__DispatcherNode message;
	Packrack__Value items[VALUES_EACH], *pointers[VALUES_EACH];
	char name[PR_NAME_MAX + 1], mac[18];
};

struct prd_status {
	struct prd_status_from from;
	struct prd_view view;
	Packrack__Status message;
	struct values values;
	struct link_part links[PRD_LINKS_MAX];
	Packrack__DispatcherLink *link_pointers[PRD_LINKS_MAX];
	struct node_part nodes[PRD_NODES_MAX];
	Packrack__DispatcherNode *node_pointers[PRD_NODES_MAX];

	int64_t ticked; /* monotonic */
	uint64_t bytes_before, packets_before;
	uint64_t bytes_per_s, packets_per_s;
};

static const struct pr_counter_desc link_counters[] = {
	{"captured_packets", "", offsetof(struct prd_link, captured_packets)},
	{"captured_bytes", "", offsetof(struct prd_link, captured_bytes)},
	{"sent_packets", "", offsetof(struct prd_link, sent_packets)},
	{"sent_bytes", "", offsetof(struct prd_link, sent_bytes)},
	{"dropped_kernel", "", offsetof(struct prd_link, dropped_kernel)},
	{"dropped_interface", "", offsetof(struct prd_link, dropped_interface)},
	{"dropped_ring", "", offsetof(struct prd_link, dropped_ring)},
	{"dropped_no_node", "", offsetof(struct prd_link, dropped_no_node)},
	{"dropped_send", "", offsetof(struct prd_link, dropped_send)},
	{"cut", "", offsetof(struct prd_link, cut)},
	{"escaped", "", offsetof(struct prd_link, escaped)},
	{"runts", "", offsetof(struct prd_link, runts)},
};
enum { LINK_COUNTERS = sizeof link_counters / sizeof link_counters[0] };

static const struct pr_counter_desc sent_counters[] = {
	{"data_frames", "", offsetof(struct pr_transmit_counters, data_frames)},
	{"data_bytes", "", offsetof(struct pr_transmit_counters, data_bytes)},
	{"data_failed", "", offsetof(struct pr_transmit_counters, data_failed)},
	{"control_frames", "", offsetof(struct pr_transmit_counters, control_frames)},
	{"control_bytes", "", offsetof(struct pr_transmit_counters, control_bytes)},
	{"control_failed", "", offsetof(struct pr_transmit_counters, control_failed)},
	{"log_frames", "", offsetof(struct pr_transmit_counters, log_frames)},
	{"log_bytes", "", offsetof(struct pr_transmit_counters, log_bytes)},
	{"queue_full", "", offsetof(struct pr_transmit_counters, queue_full)},
	{"send_calls", "", offsetof(struct pr_transmit_counters, calls)},
};
enum { SENT_COUNTERS = sizeof sent_counters / sizeof sent_counters[0] };

static const struct pr_counter_desc node_fields[] = {
	{"frames_sent", "", offsetof(struct prd_node_view, frames_sent)},
	{"bytes_sent", "", offsetof(struct prd_node_view, bytes_sent)},
	{"primaries", "", offsetof(struct prd_node_view, primaries)},
	{"second_copies", "", offsetof(struct prd_node_view, seconds)},
	{"unacknowledged", "", offsetof(struct prd_node_view, unacknowledged)},
	{"lost_unacknowledged", "", offsetof(struct prd_node_view, lost_unacknowledged)},
	{"logs_sent", "", offsetof(struct prd_node_view, logs_sent)},
	{"resend_asked", "", offsetof(struct prd_node_view, resend_asked)},
	{"resend_answered", "", offsetof(struct prd_node_view, resend_answered)},
	{"gone_answered", "", offsetof(struct prd_node_view, gone_answered)},
	{"buffer_bytes", "", offsetof(struct prd_node_view, buffer_size)},
	{"controls_sent", "", offsetof(struct prd_node_view, controls_sent)},
	{"controls_received", "", offsetof(struct prd_node_view, controls_received)},
	{"frames_received", "", offsetof(struct prd_node_view, status.frames_received)},
	{"packets_stored", "", offsetof(struct prd_node_view, status.packets_stored)},
	{"packets_durable", "", offsetof(struct prd_node_view, status.packets_durable)},
	{"bytes_stored", "", offsetof(struct prd_node_view, status.bytes_stored)},
	{"missing", "", offsetof(struct prd_node_view, status.missing)},
	{"stray", "", offsetof(struct prd_node_view, status.stray)},
	{"duplicate", "", offsetof(struct prd_node_view, status.duplicate)},
	{"pending", "", offsetof(struct prd_node_view, status.pending)},
	{"kernel_drops", "", offsetof(struct prd_node_view, status.kernel_drops)},
	{"logs_received", "", offsetof(struct prd_node_view, status.logs_received)},
	{"logs_requested", "", offsetof(struct prd_node_view, status.logs_requested)},
	{"logs_gone", "", offsetof(struct prd_node_view, status.logs_gone)},
	{"disk_total", "", offsetof(struct prd_node_view, status.disk_total)},
	{"disk_free", "", offsetof(struct prd_node_view, status.disk_free)},
	{"write_rate", "", offsetof(struct prd_node_view, status.write_rate)},
};
enum { NODE_FIELDS = sizeof node_fields / sizeof node_fields[0] };
_Static_assert((int)NODE_FIELDS + 1 <= (int)VALUES_EACH, "room for a node");
_Static_assert((int)LINK_COUNTERS <= (int)VALUES_EACH, "room for a link");

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
	return status;
}

void
prd_status_destroy(struct prd_status **status)
{
	free(*status);
	*status = NULL;
}

static uint64_t
sum_links(const struct prd_status *s, size_t offset)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < s->from.inputs->link_count; i++)
		sum += pr_counter_get((const pr_counter *)(const void
				*)((const char *)&s->from.inputs->links[i] + offset));
	return sum;
}

void
prd_status_tick(struct prd_status *s)
{
	uint64_t bytes = sum_links(s, offsetof(struct prd_link, captured_bytes));
	uint64_t packets = sum_links(s, offsetof(struct prd_link, captured_packets));
	int64_t now = pr_now_mono(), elapsed = now - s->ticked;

	if (elapsed < PR_NS_PER_S / 10)
		return;
	s->bytes_per_s =
		(uint64_t)((double)(bytes - s->bytes_before) * 1e9 / (double)elapsed);
	s->packets_per_s =
		(uint64_t)((double)(packets - s->packets_before) * 1e9 / (double)elapsed);
	s->bytes_before = bytes;
	s->packets_before = packets;
	s->ticked = now;
}

static void
set_value(Packrack__Value *value, const char *name, uint64_t number)
{
	packrack__value__init(value);
	value->name = (char *)(uintptr_t)name;
	value->number = number;
}

static void
add(struct values *v, const char *name, uint64_t number)
{
	if (v->count == VALUES_ALL)
		return;
	set_value(&v->items[v->count], name, number);
	v->pointers[v->count] = &v->items[v->count];
	v->count++;
}

static void
make_link(const struct prd_link *link, struct link_part *part)
{
	packrack__dispatcher_link__init(&part->message);
	part->message.link = link->number;
	part->message.name = (char *)(uintptr_t)link->name;
	part->message.last_seq = pr_counter_get(&link->last_seq);
	part->message.ended = atomic_load(&link->ended);
	for (unsigned i = 0; i < LINK_COUNTERS; i++) {
		const void *at = (const char *)link + link_counters[i].offset;

		set_value(&part->items[i], link_counters[i].name, pr_counter_get(at));
		part->pointers[i] = &part->items[i];
	}
	part->message.values = part->pointers;
	part->message.n_values = LINK_COUNTERS;
}

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
	packrack__dispatcher_node__init(&part->message);
	memcpy(part->name, v->name, sizeof part->name);
	snprintf(part->mac, sizeof part->mac, "%02x:%02x:%02x:%02x:%02x:%02x", v->mac[0],
		v->mac[1], v->mac[2], v->mac[3], v->mac[4], v->mac[5]);
	part->message.name = part->name;
	part->message.mac = part->mac;
	part->message.state = (char *)(uintptr_t)node_state(v);
	part->message.number = v->number;
	part->message.last_seen = pr_now_real() - (pr_now_mono() - v->heard);
	for (unsigned i = 0; i < NODE_FIELDS; i++) {
		uint64_t number;

		memcpy(&number, (const char *)v + node_fields[i].offset, sizeof number);
		set_value(&part->items[i], node_fields[i].name, number);
		part->pointers[i] = &part->items[i];
	}
	set_value(&part->items[NODE_FIELDS], "buffer_fill_percent", v->status.buffer_fill);
	part->pointers[NODE_FIELDS] = &part->items[NODE_FIELDS];
	part->message.values = part->pointers;
	part->message.n_values = NODE_FIELDS + 1;
}

/* Per mille of all that came to the link and has been sent; CLog shows it in percent. */
static uint64_t
goodness(uint64_t captured, uint64_t lost)
{
	return captured + lost == 0
		       ? 1000
		       : (uint64_t)((double)captured * 1000.0 / (double)(captured + lost));
}

static void
make_totals(struct prd_status *s)
{
	struct values *v = &s->values;
	uint64_t lost = 0, late = 0, used = 0, size = 0;
	struct rusage usage;

	for (unsigned i = 0; i < LINK_COUNTERS; i++) {
		size_t at = link_counters[i].offset;
		uint64_t sum = sum_links(s, at);

		add(v, link_counters[i].name, sum);
		if (strncmp(link_counters[i].name, "dropped", 7) == 0)
			lost += sum;
		if (at == offsetof(struct prd_link, dropped_no_node) ||
			at == offsetof(struct prd_link, dropped_send))
			late += sum; /* counted as captured before */
	}
	add(v, "goodness_permille", goodness(v->items[0].number - late, lost));
	add(v, "input_bytes_per_s", s->bytes_per_s);
	add(v, "input_packets_per_s", s->packets_per_s);
	for (unsigned i = 0; i < s->from.inputs->ring_count; i++) {
		used += pr_ring_used(s->from.inputs->rings[i]);
		size += pr_ring_size(s->from.inputs->rings[i]);
	}
	add(v, "buffer_bytes_used", used);
	add(v, "buffer_bytes", size);
	add(v, "spread_mode", s->view.spread_mode);
	add(v, "log_memory_used", s->view.log_memory_used);
	if (getrusage(RUSAGE_SELF, &usage) == 0) {
		add(v, "cpu_user_us",
			(uint64_t)usage.ru_utime.tv_sec * 1000000 +
				(uint64_t)usage.ru_utime.tv_usec);
		add(v, "cpu_system_us",
			(uint64_t)usage.ru_stime.tv_sec * 1000000 +
				(uint64_t)usage.ru_stime.tv_usec);
		add(v, "memory_peak_kib", (uint64_t)usage.ru_maxrss);
	}
}

static void
make_frames(struct prd_status *s)
{
	const struct prd_oport_counters *c = prd_oport_counters(s->from.oport);
	uint64_t good = 0, bad = 0;

	for (unsigned i = 0; i < SENT_COUNTERS; i++)
		add(&s->values, sent_counters[i].name,
			pr_counter_get((const pr_counter *)(const void
					*)((const char *)&s->view.sent +
					   sent_counters[i].offset)));
	for (unsigned i = 0; i < PR_FRAME_TYPES; i++)
		good += pr_counter_get(&c->received[i]);
	for (unsigned i = 0; i < PR_FRAME_RESULTS; i++)
		bad += pr_counter_get(&c->refused[i]);
	add(&s->values, "control_received", good);
	add(&s->values, "control_refused", bad);
	add(&s->values, "control_bad_tag", pr_counter_get(&c->refused[PR_FRAME_BAD_TAG]));
	add(&s->values, "control_other_rack", pr_counter_get(&c->other_rack));
	add(&s->values, "control_not_from_node", pr_counter_get(&c->not_from_node));
	add(&s->values, "control_dropped", pr_counter_get(&c->dropped));
	add(&s->values, "control_stale", s->view.refused_stale);
	add(&s->values, "control_replayed", s->view.refused_replay);
	add(&s->values, "nodes_refused", s->view.refused_full);
}

Packrack__Status *
prd_status_make(struct prd_status *s)
{
	Packrack__Status *m = &s->message;

	prd_sender_view(s->from.sender, &s->view);
	packrack__status__init(m);
	s->values.count = 0;
	make_totals(s);
	make_frames(s);
	m->program = (char *)(uintptr_t) "packrack-dispatcher";
	m->version = (char *)(uintptr_t)PACKRACK_VERSION;
	m->time = pr_now_real();
	m->epoch = s->from.epoch;
	m->state = (char *)(uintptr_t)prd_state_name(s->view.state);
	for (unsigned i = 0; i < s->from.inputs->link_count; i++) {
		make_link(&s->from.inputs->links[i], &s->links[i]);
		s->link_pointers[i] = &s->links[i].message;
	}
	for (unsigned i = 0; i < s->view.node_count; i++) {
		make_node(&s->view.nodes[i], &s->nodes[i]);
		s->node_pointers[i] = &s->nodes[i].message;
	}
	m->values = s->values.pointers;
	m->n_values = s->values.count;
	m->dispatcher_links = s->link_pointers;
	m->n_dispatcher_links = s->from.inputs->link_count;
	m->dispatcher_nodes = s->node_pointers;
	m->n_dispatcher_nodes = s->view.node_count;
	return m;
}
