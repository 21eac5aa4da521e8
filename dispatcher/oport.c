/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/oport.h"

#include <errno.h>
#include <event2/event.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dispatcher/send.h"
#include "proto/base/log.h"

enum { FRAMES_A_WAKE = 64, FRAME_MAX = 65536 };

struct prd_oport {
	struct prd_oport_config config;
	struct prd_oport_counters counters;
	struct event *event;
	int fd;
	bool warned;
	uint8_t buf[FRAME_MAX];
};

/*
 * All protocols, as a socket for one would lie behind clsact, which drops everything; the filter
 * takes our Ethertype only. What this machine sends itself is left out.
 */
static int
attach_filter(struct prd_oport *o, struct pr_error *err)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, o->config.ethertype, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, FRAME_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
	int one = 1, size = 4 << 20;

	if (setsockopt(o->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0)
		return pr_error_errno(
			err, "--out %s: cannot attach a filter", o->config.ifname);
	setsockopt(o->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
	/*
	 * As long as any socket asks for stamps, the kernel stamps packets on arrival, not when it
	 * hands them out: nearer to the wire, and the same for all who capture on the i-port.
	 */
	setsockopt(o->fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
	if (setsockopt(o->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0)
		setsockopt(o->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	return 0;
}

static int
open_socket(struct prd_oport *o, struct pr_error *err)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = o->config.ifindex};

	/* protocol 0 until it is bound: nothing comes in before the filter is there */
	o->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (o->fd < 0)
		return pr_error_errno(
			err, "cannot open a packet socket (needs CAP_NET_RAW)");
	if (attach_filter(o, err) < 0)
		return -1;
	if (bind(o->fd, (struct sockaddr *)(void *)&at, sizeof at) < 0)
		return pr_error_errno(err, "--out %s: cannot bind to it", o->config.ifname);
	return 0;
}

static bool
from_node(unsigned type)
{
	return type == PR_FRAME_ANN || type == PR_FRAME_STATUS || type == PR_FRAME_RESEND ||
	       type == PR_FRAME_QUIT;
}

static void
pass_on(struct prd_oport *o, const struct pr_frame *frame)
{
	struct prd_event *event = pr_ring_reserve(o->config.events, sizeof *event);

	if (!event) {
		pr_count(&o->counters.dropped, 1);
		return;
	}
	event->kind = PRD_EVENT_FRAME;
	event->request = 0;
	event->u.frame = *frame;
	pr_ring_commit(o->config.events, sizeof *event);
}

static void
on_bytes(struct prd_oport *o, size_t len)
{
	struct pr_frame frame;
	enum pr_frame_result result =
		pr_frame_decode(o->buf, len, o->config.ethertype, o->config.key, &frame);

	if (result != PR_FRAME_OK) {
		pr_count(&o->counters.refused[result], 1);
		if (result == PR_FRAME_BAD_TAG && !o->warned) {
			o->warned = true;
			pr_log_warning(
				"--out %s: a frame with a bad signature came in: have "
				"all nodes this rack's frame key? (further ones are "
				"only counted)",
				o->config.ifname);
		}
		return;
	}
	if (frame.header.rack != o->config.rack) {
		pr_count(&o->counters.other_rack, 1);
		return;
	}
	if (!from_node(frame.header.type)) {
		pr_count(&o->counters.not_from_node, 1);
		return;
	}
	pr_count(&o->counters.received[frame.header.type], 1);
	pass_on(o, &frame);
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct prd_oport *o = arg;

	(void)what;
	for (int i = 0; i < FRAMES_A_WAKE; i++) {
		ssize_t n = recv(fd, o->buf, sizeof o->buf, MSG_TRUNC);

		if (n < 0)
			break; /* EAGAIN, or the interface is down: nothing to read */
		if ((size_t)n <= sizeof o->buf)
			on_bytes(o, (size_t)n);
	}
	pr_ring_publish(o->config.events);
}

struct prd_oport *
prd_oport_open(
	struct pr_loop *loop, const struct prd_oport_config *config, struct pr_error *err)
{
	struct prd_oport *o = calloc(1, sizeof *o);

	if (!o) {
		pr_error_set(err, "no memory for the o-port");
		return NULL;
	}
	o->config = *config;
	o->fd = -1;
	if (open_socket(o, err) < 0) {
		prd_oport_close(&o);
		return NULL;
	}
	o->event =
		event_new(pr_loop_base(loop), o->fd, EV_READ | EV_PERSIST, on_readable, o);
	if (!o->event || event_add(o->event, NULL) < 0) {
		pr_error_set(err, "cannot watch the o-port");
		prd_oport_close(&o);
	}
	return o;
}

void
prd_oport_close(struct prd_oport **oport)
{
	struct prd_oport *o = *oport;

	*oport = NULL;
	if (!o)
		return;
	if (o->event)
		event_free(o->event);
	if (o->fd >= 0)
		close(o->fd);
	free(o);
}

const struct prd_oport_counters *
prd_oport_counters(const struct prd_oport *o)
{
	return &o->counters;
}
