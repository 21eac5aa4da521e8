/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/transmit.h"

#include <errno.h>
#include <fcntl.h>
#include <libnet.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "dispatcher/prepare.h"
#include "dispatcher/xdp.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

enum { SEND_BUFFER = 8 << 20, PAYLOAD_MAX = 65535 };

struct prd_transmit {
	int fd; /* a packet socket, used where there is no xdp */
	struct prd_xdp *xdp;
	struct prd_transmit_config config;
	struct prd_transmit_counters counters;
	int trouble; /* errno of the o-port as a whole */
	char ifname[64];

	struct mmsghdr data[PRD_BATCH];
	struct iovec pieces[PRD_BATCH][2];
	unsigned data_count;

	libnet_t *libnet;
	libnet_ptag_t tag;
	struct mmsghdr control[PRD_BATCH];
	struct iovec control_iov[PRD_BATCH]; /* built by libnet, freed when sent */
	unsigned control_count;
	uint8_t payload[PAYLOAD_MAX];
};

/*
 * libnet builds frames only for a context that could also send, and that one has a socket which
 * would be handed every packet of the machine. Nothing is sent through it: it is put out of use.
 */
static int
open_libnet(struct prd_transmit *t, const char *ifname, struct pr_error *err)
{
	char text[LIBNET_ERRBUF_SIZE] = "";
	int null;

	t->libnet = libnet_init(LIBNET_LINK_ADV, ifname, text);
	if (!t->libnet)
		return pr_error_set(err, "--out %s: libnet: %s", ifname, text);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup3(null, libnet_getfd(t->libnet), O_CLOEXEC) < 0) {
		pr_error_errno(err, "cannot put /dev/null in place of libnet's socket");
		if (null >= 0)
			close(null);
		return -1;
	}
	close(null);
	return 0;
}

static int
open_socket(struct prd_transmit *t, struct pr_error *err)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = t->config.ifindex};
	int one = 1, size = SEND_BUFFER;

	/* protocol 0: it receives nothing */
	t->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (t->fd < 0)
		return pr_error_errno(
			err, "cannot open a packet socket (needs CAP_NET_RAW)");
	if (bind(t->fd, (struct sockaddr *)(void *)&to, sizeof to) < 0)
		return pr_error_errno(err, "--out %s: cannot bind to it", t->ifname);
	if (setsockopt(t->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one) < 0)
		return pr_error_errno(err, "--out %s: PACKET_QDISC_BYPASS", t->ifname);
	if (setsockopt(t->fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) < 0)
		setsockopt(t->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	return 0;
}

/* The cheaper way, if every frame fits it; one socket sends all, so that order is kept. */
static void
open_xdp(struct prd_transmit *t)
{
	struct pr_error err;

	if (t->config.mtu + PR_ETHER_LEN + PRD_VLAN_TAG > PRD_XDP_FRAME_MAX)
		return;
	t->xdp = prd_xdp_open(t->config.ifindex, t->ifname, SEND_BUFFER, &err);
	if (!t->xdp)
		pr_log_info("%s; a packet socket sends", err.text);
}

struct prd_transmit *
prd_transmit_open(const struct prd_transmit_config *config, struct pr_error *err)
{
	struct prd_transmit *t = calloc(1, sizeof *t);

	if (!t) {
		pr_error_set(err, "no memory for the o-port");
		return NULL;
	}
	t->config = *config;
	t->fd = -1;
	strncpy(t->ifname, config->ifname, sizeof t->ifname - 1);
	for (unsigned i = 0; i < PRD_BATCH; i++) {
		t->data[i].msg_hdr.msg_iov = t->pieces[i];
		t->control[i].msg_hdr.msg_iov = &t->control_iov[i];
		t->control[i].msg_hdr.msg_iovlen = 1;
	}
	if (open_socket(t, err) < 0 || open_libnet(t, t->ifname, err) < 0)
		prd_transmit_close(&t);
	else
		open_xdp(t);
	return t;
}

static void
free_control(struct prd_transmit *t)
{
	for (unsigned i = 0; i < t->control_count; i++)
		libnet_adv_free_packet(t->libnet, t->control_iov[i].iov_base);
	t->control_count = 0;
}

void
prd_transmit_close(struct prd_transmit **transmit)
{
	struct prd_transmit *t = *transmit;

	*transmit = NULL;
	if (!t)
		return;
	if (t->libnet) {
		free_control(t);
		libnet_destroy(t->libnet);
	}
	prd_xdp_close(&t->xdp);
	if (t->fd >= 0)
		close(t->fd);
	free(t);
}

const struct prd_transmit_counters *
prd_transmit_counters(const struct prd_transmit *t)
{
	return &t->counters;
}

bool
prd_transmit_trouble(struct prd_transmit *t, struct pr_error *err)
{
	int trouble = t->trouble;

	t->trouble = 0;
	if (trouble == 0)
		return false;
	errno = trouble;
	pr_error_errno(err, "o-port %s does not take frames", t->ifname);
	return true;
}

/* The socket's buffer empties by itself; a card's full queue says nothing, so wait a little. */
static void
wait_for_room(const struct prd_transmit *t, int error)
{
	struct pollfd pfd = {.fd = t->fd, .events = POLLOUT};
	struct timespec nap = {.tv_nsec = 100000};

	if (error == ENOBUFS)
		nanosleep(&nap, NULL);
	else
		poll(&pfd, 1, 1);
}

/* Is it worth sending the same frame again? */
static bool
try_again(struct prd_transmit *t, int error, int64_t *deadline)
{
	if (error == EINTR)
		return true;
	if (error != ENOBUFS && error != EAGAIN)
		return false;
	pr_count(&t->counters.queue_full, 1);
	if (*deadline == 0)
		*deadline = pr_now_mono() + t->config.patience;
	else if (pr_now_mono() > *deadline)
		return false;
	wait_for_room(t, error);
	return true;
}

/* Sends all, in order, leaving out what the o-port will not take. Returns how many went out. */
static size_t
send_all(struct prd_transmit *t, struct mmsghdr *msgs, unsigned count, bool *failed)
{
	unsigned at = 0, lost = 0;
	int64_t deadline = 0;

	memset(failed, 0, count * sizeof *failed);
	while (at < count) {
		int n = t->xdp ? prd_xdp_send(t->xdp, msgs + at, count - at)
			       : sendmmsg(t->fd, msgs + at, count - at, MSG_DONTWAIT);

		pr_count(&t->counters.calls, 1);
		if (n > 0) {
			at += (unsigned)n;
			continue;
		}
		if (n < 0 && try_again(t, errno, &deadline))
			continue;
		if (errno != EMSGSIZE && errno != EAGAIN && errno != ENOBUFS)
			t->trouble = errno;
		failed[at++] = true;
		lost++;
	}
	return count - lost;
}

void
prd_transmit_add(
	struct prd_transmit *t, const uint8_t *frame, size_t len, const uint8_t *head)
{
	struct iovec *pieces = t->pieces[t->data_count];
	struct msghdr *msg = &t->data[t->data_count++].msg_hdr;

	if (!head) {
		pieces[0] = (struct iovec){(void *)(uintptr_t)frame, len};
		msg->msg_iovlen = 1;
		return;
	}
	pieces[0] = (struct iovec){(void *)(uintptr_t)head, PR_ETHER_LEN};
	pieces[1] = (struct iovec){
		(void *)(uintptr_t)(frame + PR_ETHER_LEN), len - PR_ETHER_LEN};
	msg->msg_iovlen = 2;
}

size_t
prd_transmit_send(struct prd_transmit *t, bool failed[PRD_BATCH])
{
	unsigned count = t->data_count;
	uint64_t bytes = 0;
	size_t sent;

	if (count == 0)
		return 0;
	t->data_count = 0;
	sent = send_all(t, t->data, count, failed);
	for (unsigned i = 0; i < count; i++)
		if (!failed[i])
			bytes += t->data[i].msg_len;
	pr_count(&t->counters.data_frames, sent);
	pr_count(&t->counters.data_bytes, bytes);
	pr_count(&t->counters.data_failed, count - sent);
	return sent;
}

static int
build(struct prd_transmit *t, const struct pr_frame *f, size_t len)
{
	struct iovec *iov = &t->control_iov[t->control_count];
	uint8_t *packet;
	uint32_t size;

	t->tag = libnet_build_ethernet(f->dst, f->src, t->config.ethertype, t->payload,
		(uint32_t)len, t->libnet, t->tag > 0 ? t->tag : 0);
	if (t->tag < 0 || libnet_adv_cull_packet(t->libnet, &packet, &size) < 0) {
		libnet_clear_packet(t->libnet);
		t->tag = 0;
		return -1;
	}
	*iov = (struct iovec){packet, size};
	t->control_count++;
	return 0;
}

int
prd_transmit_control(struct prd_transmit *t, struct pr_frame *f)
{
	size_t len;

	if (t->control_count == PRD_BATCH)
		prd_transmit_flush(t);
	memcpy(f->src, t->config.mac, PR_MAC_LEN);
	len = pr_frame_encode_payload(f, t->config.key, t->payload, sizeof t->payload);
	if (len == 0 || build(t, f, len) < 0) {
		pr_count(&t->counters.control_failed, 1);
		return -1;
	}
	if (f->header.type == PR_FRAME_TSLOG) {
		pr_count(&t->counters.log_frames, 1);
		pr_count(&t->counters.log_bytes, len + PR_ETHER_LEN);
	} else {
		pr_count(&t->counters.control_frames, 1);
		pr_count(&t->counters.control_bytes, len + PR_ETHER_LEN);
	}
	return 0;
}

void
prd_transmit_flush(struct prd_transmit *t)
{
	bool failed[PRD_BATCH];
	size_t sent;

	if (t->control_count == 0)
		return;
	sent = send_all(t, t->control, t->control_count, failed);
	pr_count(&t->counters.control_failed, t->control_count - sent);
	free_control(t);
}
