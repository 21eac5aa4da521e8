/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/transmit.h"

#include <errno.h>
#include <fcntl.h>
#include <libnet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAYLOAD_ROOM 2048

struct prl_transmit {
	int fd;
	libnet_t *libnet;
	uint8_t mac[PR_MAC_LEN];
	uint16_t ethertype;
	const struct pr_frame_key *key;
	uint8_t payload[PAYLOAD_ROOM];
};

/*
 * libnet's own socket would be handed each frame of the machine and nobody would read it: only libnet's
 * building is used, and its socket is replaced.
 */
static int
libnet_open(struct prl_transmit *t, const char *ifname, struct pr_error *err)
{
	char text[LIBNET_ERRBUF_SIZE] = "";
	int null, result;

	t->libnet = libnet_init(LIBNET_LINK_ADV, ifname, text);
	if (!t->libnet)
		return pr_error_set(err, "%s: libnet: %s", ifname, text);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return pr_error_errno(err, "/dev/null");
	result = dup3(null, libnet_getfd(t->libnet), O_CLOEXEC);
	close(null);
	if (result < 0)
		return pr_error_errno(err, "%s: cannot put libnet's socket aside", ifname);
	return 0;
}

static int
socket_open(struct prl_transmit *t, const char *ifname, struct pr_error *err)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET};

	to.sll_ifindex = (int)if_nametoindex(ifname);
	/* protocol 0: it receives nothing */
	t->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (t->fd < 0)
		return pr_error_errno(
			err, "cannot open a packet socket (it needs CAP_NET_RAW)");
	if (bind(t->fd, (struct sockaddr *)(void *)&to, sizeof(to)))
		return pr_error_errno(err, "cannot send on %s", ifname);
	return 0;
}

struct prl_transmit *
prl_transmit_open(const char *ifname, const uint8_t mac[PR_MAC_LEN], uint16_t ethertype,
	const struct pr_frame_key *key, struct pr_error *err)
{
	struct prl_transmit *t = calloc(1, sizeof(*t));

	if (!t) {
		pr_error_set(err, "no memory for sending");
		return NULL;
	}
	t->fd = -1;
	memcpy(t->mac, mac, sizeof(t->mac));
	t->ethertype = ethertype;
	t->key = key;
	if (socket_open(t, ifname, err) || libnet_open(t, ifname, err))
		prl_transmit_close(&t);
	return t;
}

void
prl_transmit_close(struct prl_transmit **transmit)
{
	struct prl_transmit *t = *transmit;

	if (!t)
		return;
	if (t->libnet)
		libnet_destroy(t->libnet);
	if (t->fd >= 0)
		close(t->fd);
	free(t);
	*transmit = NULL;
}

static int
send_built(struct prl_transmit *t, struct pr_error *err)
{
	uint8_t *frame = NULL;
	uint32_t len = 0;
	ssize_t sent;

	if (libnet_adv_cull_packet(t->libnet, &frame, &len) < 0)
		return pr_error_set(err, "libnet: %s", libnet_geterror(t->libnet));
	do
		sent = send(t->fd, frame, len, 0);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		pr_error_errno(err, "cannot send a control frame");
	libnet_adv_free_packet(t->libnet, frame);
	return sent < 0 ? -1 : 0;
}

int
prl_transmit_send(struct prl_transmit *t, struct pr_frame *f, struct pr_error *err)
{
	size_t len;
	int result;

	memcpy(f->src, t->mac, sizeof(f->src));
	len = pr_frame_encode_payload(f, t->key, t->payload, sizeof(t->payload));
	if (len == 0)
		return pr_error_set(err, "a %s frame cannot be built",
			pr_frame_type_name(f->header.type));
	if (libnet_build_ethernet(f->dst, f->src, t->ethertype, t->payload, (uint32_t)len,
		    t->libnet, 0) < 0)
		return pr_error_set(err, "libnet: %s", libnet_geterror(t->libnet));
	result = send_built(t, err);
	libnet_clear_packet(t->libnet);
	return result;
}
