/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/port/transmit.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "proto/base/log.h"
#include "proto/port/xdp.h"
#include "proto/wire/frame.h"

enum { SEND_BUFFER = 8 << 20, VLAN_TAG = 4 };

struct pr_transmit {
	int fd; /* a packet socket, used where there is no xdp */
	struct pr_xdp *xdp;
	struct pr_transmit_config config;
	struct pr_transmit_counters counters;
	int trouble; /* errno of the interface as a whole */
	char ifname[64];

	struct mmsghdr data[PR_TRANSMIT_BATCH];
	struct iovec pieces[PR_TRANSMIT_BATCH][2];
	unsigned data_count;
};

static int
open_socket(struct pr_transmit *t, struct pr_error *err)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = t->config.ifindex};
	int one = 1, size = SEND_BUFFER;

	/* protocol 0: it receives nothing */
	t->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (t->fd < 0)
		return pr_error_errno(
			err, "cannot open a packet socket (needs root, or CAP_NET_RAW)");
	if (bind(t->fd, (struct sockaddr *)(void *)&to, sizeof to) < 0)
		return pr_error_errno(err, "%s: cannot send on it", t->ifname);
	/* past the queueing discipline, which would add its own delay; not every kernel can */
	setsockopt(t->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one);
	if (setsockopt(t->fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) < 0)
		setsockopt(t->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	return 0;
}

struct pr_transmit *
pr_transmit_open(const struct pr_transmit_config *config, struct pr_error *err)
{
	struct pr_transmit *t = calloc(1, sizeof *t);
	struct pr_error why;

	if (!t)
		return pr_error_null(err, "no memory for sending on %s", config->ifname);
	t->config = *config;
	t->fd = -1;
	strncpy(t->ifname, config->ifname, sizeof t->ifname - 1);
	for (unsigned i = 0; i < PR_TRANSMIT_BATCH; i++)
		t->data[i].msg_hdr.msg_iov = t->pieces[i];
	if (open_socket(t, err) < 0) {
		pr_transmit_close(&t);
		return NULL;
	}
	/* AF_XDP if every frame fits: one socket must send all frames, so that their order is kept. */
	if (config->xdp && config->mtu + PR_ETHER_LEN + VLAN_TAG <= PR_XDP_FRAME_MAX) {
		t->xdp = pr_xdp_open(config->ifindex, t->ifname, SEND_BUFFER, &why);
		if (!t->xdp)
			pr_log_info("%s; a packet socket sends", why.text);
	}
	return t;
}

void
pr_transmit_close(struct pr_transmit **transmit)
{
	struct pr_transmit *t = PR_TAKE(transmit);

	if (!t)
		return;
	pr_xdp_close(&t->xdp);
	pr_close(t->fd);
	free(t);
}

struct pr_transmit_counters *
pr_transmit_counters(struct pr_transmit *t)
{
	return &t->counters;
}

bool
pr_transmit_trouble(struct pr_transmit *t, struct pr_error *err)
{
	int trouble = t->trouble;

	t->trouble = 0;
	if (trouble == 0)
		return false;
	errno = trouble;
	pr_error_errno(err, "interface %s does not take frames", t->ifname);
	return true;
}

/* True if the same frame is worth another try. *since: when the queue was first found full. */
static bool
try_again(struct pr_transmit *t, int error, int64_t *since)
{
	struct pollfd pfd = {.fd = t->fd, .events = POLLOUT};
	const struct timespec nap = {.tv_nsec = 100000};

	if (error == EINTR)
		return true;
	if (error != ENOBUFS && error != EAGAIN && error != ENOMEM)
		return false;
	if (*since == 0) {
		*since = pr_now_mono();
		pr_count(&t->counters.queue_full, 1);
	}
	if (pr_now_mono() - *since > t->config.patience)
		return false;
	/* The socket's buffer empties by itself; a card's full queue says nothing, so wait a little. */
	if (error == EAGAIN)
		poll(&pfd, 1, 1);
	else
		nanosleep(&nap, NULL);
	return true;
}

size_t
pr_transmit_messages(
	struct pr_transmit *t, struct mmsghdr *msgs, unsigned count, bool *failed)
{
	unsigned at = 0, lost = 0;
	int64_t since = 0;

	memset(failed, 0, count * sizeof *failed);
	while (at < count) {
		int n = t->xdp ? pr_xdp_send(t->xdp, msgs + at, count - at)
			       : sendmmsg(t->fd, msgs + at, count - at, MSG_DONTWAIT);

		pr_count(&t->counters.calls, 1);
		if (n > 0) {
			at += n;
			continue;
		}
		if (n < 0 && try_again(t, errno, &since))
			continue;
		/* Errors of a single frame do not mean that the interface has failed. */
		if (errno != EMSGSIZE && errno != EINVAL && errno != EAGAIN &&
			errno != ENOBUFS && errno != ENOMEM)
			t->trouble = errno;
		failed[at++] = true;
		lost++;
	}
	return count - lost;
}

void
pr_transmit_add(
	struct pr_transmit *t, const uint8_t *frame, size_t len, const uint8_t *head)
{
	struct iovec *pieces = t->pieces[t->data_count];
	struct msghdr *msg = &t->data[t->data_count++].msg_hdr;

	if (!head) {
		pieces[0] = (struct iovec){(void *)frame, len};
		msg->msg_iovlen = 1;
		return;
	}
	pieces[0] = (struct iovec){(void *)head, PR_ETHER_LEN};
	pieces[1] = (struct iovec){(void *)(frame + PR_ETHER_LEN), len - PR_ETHER_LEN};
	msg->msg_iovlen = 2;
}

size_t
pr_transmit_send(struct pr_transmit *t, bool failed[PR_TRANSMIT_BATCH])
{
	unsigned count = t->data_count;
	uint64_t bytes = 0;

	if (count == 0)
		return 0;
	t->data_count = 0;
	size_t sent = pr_transmit_messages(t, t->data, count, failed);
	for (unsigned i = 0; i < count; i++)
		if (!failed[i])
			bytes += t->data[i].msg_len;
	pr_count(&t->counters.data_frames, sent);
	pr_count(&t->counters.data_bytes, bytes);
	pr_count(&t->counters.data_failed, count - sent);
	return sent;
}
