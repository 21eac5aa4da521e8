/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node that stores nothing, for measuring the dispatcher alone: it announces itself, acknowledges
 * all it is told of, and counts timestamp logs. Data frames are left to the kernel, which drops them.
 *
 *   fakenode IFACE NAME SECONDS      prints a line of JSON at the end (also on SIGTERM)
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/wire/frame.h"
#include "proto/wire/tslog.h"
#include "tests/unit/wire_whole.h"

static volatile sig_atomic_t ended;

struct fakenode {
	int fd;
	uint8_t mac[PR_MAC_LEN], dispatcher[PR_MAC_LEN];
	const char *name;
	uint32_t nonce, peer_nonce;
	uint64_t epoch, number, settled, command;
	uint8_t command_type, state;
	uint64_t logs, log_bytes, entries, frames_bad;
};

static void
on_signal(int sig)
{
	(void)sig;
	ended = 1;
}

/*
 * The far side costs as little as can be, as its work is done on the dispatcher's CPU here: this
 * socket is for control frames only, and data frames are for no one, neither a filter's nor the
 * interface's: the kernel drops those that bear another address than its own, first of all.
 */
static int
open_socket(struct fakenode *n, const char *iface)
{
	struct ifreq ifr = {0};
	struct sockaddr_ll ll = {
		.sll_family = AF_PACKET, .sll_protocol = htons(PR_ETHERTYPE_DEFAULT)};

	n->fd = socket(AF_PACKET, SOCK_RAW, 0);
	if (n->fd < 0)
		return -1;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", iface);
	if (ioctl(n->fd, SIOCGIFHWADDR, &ifr) < 0)
		return -1;
	memcpy(n->mac, ifr.ifr_hwaddr.sa_data, PR_MAC_LEN);
	n->mac[PR_MAC_LEN - 1] ^= 1;
	ll.sll_ifindex = (int)if_nametoindex(iface);
	return bind(n->fd, (struct sockaddr *)&ll, sizeof(ll));
}

static void
transmit(struct fakenode *n, struct pr_frame *f, uint8_t type)
{
	uint8_t buf[1514] = {0};
	const struct pr_frame_key none = {0};
	size_t len;

	memcpy(f->src, n->mac, PR_MAC_LEN);
	f->header.type = type;
	f->header.epoch = n->epoch;
	f->header.number = ++n->number;
	f->header.sender_nonce = n->nonce;
	f->header.receiver_nonce = n->peer_nonce;
	len = whole_frame(f, PR_ETHERTYPE_DEFAULT, &none, buf, sizeof(buf));
	if (len < PR_FRAME_MIN)
		len = PR_FRAME_MIN;
	if (send(n->fd, buf, len, 0) < 0)
		perror("fakenode: send");
}

static void
announce(struct fakenode *n)
{
	struct pr_frame f = {0};

	memset(f.dst, 0xff, PR_MAC_LEN);
	snprintf(f.body.ann.name, sizeof(f.body.ann.name), "%s", n->name);
	snprintf(f.body.ann.version, sizeof(f.body.ann.version), "%s", PACKRACK_VERSION);
	f.body.ann.disk_total = f.body.ann.disk_free = UINT64_C(1) << 40;
	f.body.ann.buffer_size = UINT64_C(1) << 30;
	f.body.ann.mtu = 1508;
	transmit(n, &f, PR_FRAME_ANN);
}

static void
status(struct fakenode *n)
{
	struct pr_frame f = {0};

	memcpy(f.dst, n->dispatcher, PR_MAC_LEN);
	f.body.status.state = n->state;
	f.body.status.ordinal_settled = n->settled;
	f.body.status.packets_stored = f.body.status.packets_durable = n->entries;
	f.body.status.logs_received = n->logs;
	f.body.status.disk_total = f.body.status.disk_free = UINT64_C(1) << 40;
	f.body.status.command = n->command;
	f.body.status.command_type = n->command_type;
	transmit(n, &f, PR_FRAME_STATUS);
}

static void
take(struct fakenode *n, const uint8_t *data, size_t len)
{
	const struct pr_frame_key none = {0};
	struct pr_tslog_reader reader;
	static struct pr_frame f;

	if (pr_frame_decode(data, len, PR_ETHERTYPE_DEFAULT, &none, &f) != PR_FRAME_OK) {
		n->frames_bad++;
		return;
	}
	switch (f.header.type) {
	case PR_FRAME_ANN_ACK:
		memcpy(n->dispatcher, f.src, PR_MAC_LEN);
		n->epoch = f.header.epoch;
		n->peer_nonce = f.header.sender_nonce;
		n->state = PR_NODE_RUNNING;
		break;
	case PR_FRAME_TSLOG:
		n->logs++;
		n->log_bytes += len;
		if (pr_tslog_open(&reader, f.body.raw.data, f.body.raw.len) == 0)
			n->entries += reader.header.count;
		break;
	case PR_FRAME_MARK:
		n->settled = f.body.mark.next_ordinal;
		break;
	case PR_FRAME_STOP:
		n->command = f.body.command.command;
		n->command_type = PR_FRAME_STOP;
		n->state = PR_NODE_STOPPED;
		status(n);
		break;
	default:
		break;
	}
}

static void
run(struct fakenode *n, int64_t until)
{
	int64_t due = 0;
	uint8_t buf[65536];

	while (!ended && pr_now_mono() < until) {
		struct pollfd p = {.fd = n->fd, .events = POLLIN};
		if (pr_now_mono() >= due) {
			if (n->peer_nonce == 0)
				announce(n);
			else
				status(n);
			due = pr_now_mono() + 200 * PR_NS_PER_MS;
		}
		if (poll(&p, 1, 100) > 0) {
			ssize_t got = recv(n->fd, buf, sizeof(buf), MSG_DONTWAIT);
			if (got > 0)
				take(n, buf, (size_t)got);
		}
	}
}

int
main(int argc, char **argv)
{
	struct fakenode n = {.nonce = pr_nonce_make()};
	int size = 8 << 20;

	if (argc != 4) {
		fprintf(stderr, "usage: fakenode IFACE NAME SECONDS\n");
		return 2;
	}
	n.name = argv[2];
	if (open_socket(&n, argv[1]) < 0) {
		perror("fakenode");
		return 1;
	}
	setsockopt(n.fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	run(&n, pr_now_mono() + atoi(argv[3]) * PR_NS_PER_S);
	printf("{\"logs\": %" PRIu64 ", \"log_bytes\": %" PRIu64 ", \"entries\": %" PRIu64
	       ", \"bad\": %" PRIu64 "}\n",
		n.logs, n.log_bytes, n.entries, n.frames_bad);
	close(n.fd);
	return 0;
}
