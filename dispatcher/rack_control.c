/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <event2/event.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>

#include "dispatcher/sender.h"
#include "proto/base/log.h"

/* ---- to the nodes: frames, commands ---- */

/* node NULL: f->dst is set. receiver: the nonce that it is bound to. */
static int
add(struct prd_sender *s, struct prd_node *node, enum pr_frame_type type, uint32_t receiver,
	struct pr_frame *f)
{
	/* RECONNECT is also broadcast: with numbers per node, nodes would refuse one as old */
	uint64_t number = !node || type == PR_FRAME_RECONNECT ? ++s->unbound_number
							      : ++node->numbers[type];

	if (node)
		memcpy(f->dst, node->mac, PR_MAC_LEN);
	f->header = (struct pr_frame_header){.type = type,
		.flags = type == PR_FRAME_MARK                         ? f->header.flags
			 : type == PR_FRAME_ANN_ACK && s->inputs->fast ? PR_FRAME_WHOLE
								       : 0,
		.rack = s->config.options->rack_id,
		.epoch = s->config.epoch,
		.number = number,
		.sender_nonce = s->config.nonce,
		.receiver_nonce = receiver};
	return pr_control_add(s->control, f);
}

void
prd_control_send(struct prd_sender *s, struct prd_node *node, enum pr_frame_type type,
	struct pr_frame *frame)
{
	if (add(s, node, type, node->nonce, frame) < 0)
		prd_log_node(PR_LOG_WARNING, node, ": a %s frame could not be built",
			pr_frame_type_name(type));
}

void
prd_control_ack(struct prd_sender *s, const struct pr_frame *ann, uint16_t number)
{
	struct pr_frame frame;

	memcpy(frame.dst, ann->src, PR_MAC_LEN);
	frame.body.ann_ack = (struct pr_ann_ack){.node = number,
		.hold_ns = s->config.options->hold_time,
		.snaplen = s->config.options->snaplen};
	add(s, NULL, PR_FRAME_ANN_ACK, ann->header.sender_nonce, &frame);
}

/* Makes nodes that wait for a dispatcher, or for one that died, announce themselves at once. */
void
prd_control_reconnect_all(struct prd_sender *s)
{
	struct pr_frame frame;

	memset(frame.dst, 0xff, PR_MAC_LEN);
	frame.body.command = (struct pr_command){.command = ++s->commands};
	add(s, NULL, PR_FRAME_RECONNECT, 0, &frame);
}

static void
command_send(struct prd_sender *s, struct prd_node *node)
{
	struct pr_frame frame;

	frame.body.command = (struct pr_command){
		.command = node->command, .seconds = node->command_seconds};
	node->command_next = s->now + PRD_MARK_PERIOD;
	prd_control_send(s, node, node->command_type, &frame);
}

void
prd_control_command(struct prd_sender *s, struct prd_node *node, enum pr_frame_type type,
	uint32_t seconds, uint64_t request, int64_t patience)
{
	if (node->command_type != 0)
		prd_control_command_end(s, node, false, "another command came in between");
	node->command_type = type;
	node->command = ++s->commands;
	node->command_seconds = seconds;
	node->command_request = request;
	node->command_deadline = s->now + patience;
	command_send(s, node);
}

void
prd_control_command_end(
	struct prd_sender *s, struct prd_node *node, bool ok, const char *text)
{
	prd_snapshot_publish(s); /* before the reply goes out */
	if (node->command_request != 0)
		prd_done(s, node->command_request, ok, "node %s: %s: %s", node->ann.name,
			pr_frame_type_name(node->command_type), text);
	node->command_type = 0;
	node->command_request = 0;
}

void
prd_control_repeat(struct prd_sender *s)
{
	for (unsigned i = 0; i < s->nodes.count; i++) {
		struct prd_node *node = s->nodes.list[i];

		if (node->command_type == 0 || s->now < node->command_next)
			continue;
		if (s->now < node->command_deadline) {
			command_send(s, node);
			continue;
		}
		prd_log_node(PR_LOG_WARNING, node, " did not acknowledge %s",
			pr_frame_type_name(node->command_type));
		prd_control_command_end(s, node, false, "no acknowledgement");
	}
}

void
prd_control_status(struct prd_sender *s, struct prd_node *node)
{
	const struct pr_status *status = &node->status;
	bool good = status->command_result == 0;

	if (node->command_type == 0 || status->command != node->command ||
		status->command_type != node->command_type)
		return;
	if (node->command_type == PR_FRAME_STOP && status->state != PR_NODE_STOPPED)
		return;
	if (node->command_type == PR_FRAME_DISCONNECT && good)
		prd_log_node(PR_LOG_INFO, node, " is disconnected");
	prd_control_command_end(s, node, good,
		good ? "done"
		     : "could not be carried out: see the log of packrack-logger on it");
}

/* ---- to the nodes: MARK ---- */

#define PORT_EVERY 10 /* MARKs of a node: a lost PORT is repeated within a second */

/*
 * The ledger (loss accounting record) says what was captured, where it went, and what was dropped. With
 * it every packet is accounted for, even when timestamp logs, nodes or this dispatcher are lost. Its
 * counters are those of the epoch.
 */

#define REPEATS 10 /* times that a changed observation is sent */

/* Sends what is known of the links' observation, if it has changed or it is time; returns its generation. */
static uint16_t
send_observations(struct prd_sender *s, struct prd_node *node)
{
	uint16_t generation = prd_inputs_generation(s->inputs);
	struct pr_frame frame;

	if (node->generation != generation) {
		node->generation = generation;
		node->repeats = REPEATS;
	} else if (node->repeats == 0 && node->marks % PORT_EVERY != 0) {
		return generation;
	}
	node->repeats -= node->repeats > 0;
	for (unsigned i = 0; i < s->inputs->all_links; i++) {
		prd_inputs_observation(s->inputs, i, &frame.body.observation);
		frame.body.observation.generation = generation;
		prd_control_send(s, node, PR_FRAME_UNOBSERVED, &frame);
	}
	return generation;
}

static void
mark_link(const struct prd_node_log *log, const struct prd_link *link,
	struct pr_mark_link *out)
{
	*out = (struct pr_mark_link){.link = link->number,
		.ended = atomic_load(&link->ended),
		.last_seq = pr_counter_get(&link->last_seq),
		.last_otime = atomic_load(&link->last_otime),
		.dropped_kernel = link->told.kernel,
		.dropped_interface = link->told.interface,
		.dropped_ring = link->told.ring,
		.dropped_no_node = pr_counter_get(&link->dropped_no_node),
		.dropped_send = pr_counter_get(&link->dropped_send),
		.cut = pr_counter_get(&link->cut),
		.undelivered_first = pr_counter_get(&link->undelivered_first),
		.undelivered_last = pr_counter_get(&link->undelivered_last)};
	PR_COPY(out, link, linktype, snaplen);
	PR_COPY(out, log, last_log, assigned);
	memcpy(out->name, link->name, sizeof out->name);
}

/* Drops are told by a MARK that reaches the time at which they were read; no MARK passes them untold. */
static int64_t
tell_drops(struct prd_inputs *in, int64_t said)
{
	int64_t before;

	do {
		before = said;
		for (unsigned i = 0; in->live && i < in->ring_count; i++)
			said = prd_link_drops_until(&in->links[i], said, false);
	} while (said < before);
	for (unsigned i = 0; in->live && i < in->ring_count; i++)
		prd_link_drops_until(&in->links[i], said, true);
	return said;
}

/* What a cutoff kept back before this time has been sent. */
static int64_t
beyond_told(const struct prd_sender *s, int64_t said)
{
	int64_t oldest = s->beyond_waits ? s->beyond[0].record.time : PR_TIME_MAX;

	for (unsigned i = 0; i < s->inputs->link_count; i++)
		oldest = PR_MIN(oldest, prd_cutoff_oldest(s->cutoff, i));
	return PR_MIN(said, oldest - 1);
}

void
prd_send_mark(struct prd_sender *s, struct prd_node *node)
{
	unsigned links = s->inputs->all_links;
	int64_t said = PR_TIME_MAX, oldest;
	struct pr_frame frame;

	if (!node->logs)
		return;
	uint16_t generation = send_observations(s, node);
	/* MARK declares last_seq: all packets up to it must be in timestamp logs that have been sent */
	prd_logs_flush(&s->logs, node, INT64_MAX, s->now);
	/*
	 * ns: every packet captured earlier is in a timestamp log already sent. It has been taken from its ring,
	 * and is not in a log of this node that is still open.
	 */
	for (unsigned i = 0; i < s->inputs->ring_count; i++)
		if (s->drained_until[i] < said)
			said = s->drained_until[i];
	oldest = prd_logs_oldest(&s->logs, node);
	if (s->inputs->live && oldest <= said)
		said = oldest - 1;
	said = tell_drops(s->inputs, said);
	if (s->cutoff && s->inputs->live)
		said = beyond_told(s, said);
	for (unsigned at = 0; at < links; at += PR_MARK_LINKS_MAX) {
		unsigned count =
			links - at < PR_MARK_LINKS_MAX ? links - at : PR_MARK_LINKS_MAX;

		frame.body.mark = (struct pr_mark){.said_until = said,
			.next_ordinal = node->next_ordinal,
			.stopping = s->marking_stop,
			.link_count = links,
			.count = count,
			.links = frame.link_room};
		for (unsigned i = 0; i < count; i++)
			mark_link(&node->logs[at + i], &s->inputs->links[at + i],
				&frame.link_room[i]);
		frame.header.flags = generation;
		prd_control_send(s, node, PR_FRAME_MARK, &frame);
	}
	/* The interfaces of the links, and the clock: they seldom change. */
	for (unsigned i = 0; i < s->inputs->link_count && node->marks % PORT_EVERY == 0;
		i++) {
		const struct prd_link *link = &s->inputs->links[i];

		frame.body.port = (struct pr_port){link->number, link->speed, s->clock};
		if (s->inputs->live && pr_port_valid(link->speed, &s->clock))
			prd_control_send(s, node, PR_FRAME_PORT, &frame);
	}
	const struct pr_class *class;
	for (unsigned i = 0; s->cutoff && node->marks % PORT_EVERY == 0 &&
			     (class = prd_cutoff_class(s->cutoff, i));
		i++) {
		frame.body.class = *class;
		prd_control_send(s, node, PR_FRAME_CLASS, &frame);
	}
	node->marks++;
}

/* ---- from the nodes ---- */

enum { FRAMES_A_WAKE = 64, FRAME_MAX = 65536 };

struct prd_receiver {
	const struct prd_options *o;
	const struct pr_frame_key *key;
	struct pr_ring *events;
	struct prd_receiver_counters *counters;
	struct event *event;
	int fd;
	bool warned;
	uint8_t buf[FRAME_MAX];
};

/*
 * The socket is for all protocols, because a socket for one protocol would lie behind
 * clsact, which drops everything. The filter takes only our Ethertype, and no frames that
 * this machine sends.
 */
static int
open_socket(struct prd_receiver *r, int ifindex, struct pr_error *err)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = ifindex};
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint16_t)r->o->ethertype, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, FRAME_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = {.len = PR_COUNT(code), .filter = code};
	int one = 1, size = 4 << 20;

	/* protocol 0 until it is bound: nothing comes in before the filter is there */
	r->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (r->fd < 0)
		return pr_error_errno(
			err, "cannot open a packet socket (needs CAP_NET_RAW)");
	if (setsockopt(r->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0)
		return pr_error_errno(err, "--out %s: cannot attach a filter", r->o->out);
	setsockopt(r->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
	/*
	 * While any socket asks for timestamps, the kernel takes them when packets arrive,
	 * not when it hands packets out. That is nearer to the wire, and the same for all
	 * programs on the capture interface.
	 */
	setsockopt(r->fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
	if (setsockopt(r->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0)
		setsockopt(r->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	if (bind(r->fd, (struct sockaddr *)(void *)&at, sizeof at) < 0)
		return pr_error_errno(err, "--out %s: cannot bind to it", r->o->out);
	return 0;
}

static void
on_bytes(struct prd_receiver *r, size_t len)
{
	struct pr_frame frame;
	enum pr_frame_result result =
		pr_frame_decode(r->buf, len, r->o->ethertype, r->key, &frame);
	unsigned type = frame.header.type;

	if (result != PR_FRAME_OK) {
		pr_count(&r->counters->refused[result], 1);
		if (result == PR_FRAME_BAD_TAG && !r->warned) {
			r->warned = true;
			pr_log_warning("--out %s: received a control frame with a wrong "
				       "authentication tag: check that all nodes have this "
				       "rack's frame key ('packrack keys bundle'); further "
				       "ones are counted only",
				r->o->out);
		}
		return;
	}
	if (frame.header.rack != (uint32_t)r->o->rack_id) {
		pr_count(&r->counters->other_rack, 1);
		return;
	}
	if (type != PR_FRAME_ANN && type != PR_FRAME_STATUS && type != PR_FRAME_RESEND &&
		type != PR_FRAME_QUIT) {
		pr_count(&r->counters->not_from_node, 1);
		return;
	}
	pr_count(&r->counters->received[type], 1);
	struct prd_event *event = pr_ring_reserve(r->events, sizeof *event);
	if (!event) {
		pr_count(&r->counters->dropped, 1);
		return;
	}
	event->kind = PRD_EVENT_FRAME;
	event->request = 0;
	event->u.frame = frame;
	pr_ring_commit(r->events, sizeof *event);
}

static void
on_readable(evutil_socket_t fd, PR_UNUSED short what, void *arg)
{
	struct prd_receiver *r = arg;

	for (int i = 0; i < FRAMES_A_WAKE; i++) {
		ssize_t n = recv(fd, r->buf, sizeof r->buf, MSG_TRUNC);

		if (n < 0)
			break; /* EAGAIN, or the interface is down: nothing to read */
		if ((size_t)n <= sizeof r->buf)
			on_bytes(r, n);
	}
	pr_ring_publish(r->events);
}

struct prd_receiver *
prd_receiver_open(struct pr_loop *loop, const struct prd_options *o, int ifindex,
	const struct pr_frame_key *key, struct pr_ring *events,
	struct prd_receiver_counters *counters, struct pr_error *err)
{
	struct prd_receiver *r = calloc(1, sizeof *r);

	if (!r)
		return pr_error_null(err, "no memory to receive control frames");
	r->o = o;
	r->key = key;
	r->events = events;
	r->counters = counters;
	r->fd = -1;
	int rc = open_socket(r, ifindex, err);
	if (rc == 0)
		r->event = event_new(
			pr_loop_base(loop), r->fd, EV_READ | EV_PERSIST, on_readable, r);
	if (rc == 0 && (!r->event || event_add(r->event, NULL) < 0))
		rc = pr_error_set(err, "cannot watch the rack interface");
	if (rc < 0)
		prd_receiver_close(&r);
	return r;
}

void
prd_receiver_close(struct prd_receiver **receiver)
{
	struct prd_receiver *r = PR_TAKE(receiver);

	if (!r)
		return;
	if (r->event)
		event_free(r->event);
	pr_close(r->fd);
	free(r);
}
