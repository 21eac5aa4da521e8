/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/port/control.h"

#include <fcntl.h>
#include <libnet.h>
#include <stdlib.h>

enum { PAYLOAD_MAX = 65535 };

struct pr_control {
	struct pr_transmit *transmit;
	uint8_t mac[PR_MAC_LEN];
	uint16_t ethertype;
	const struct pr_frame_key *key;
	libnet_t *libnet;
	libnet_ptag_t tag;
	struct mmsghdr msgs[PR_TRANSMIT_BATCH];
	struct iovec frames[PR_TRANSMIT_BATCH]; /* built by libnet, freed when sent */
	unsigned count;
	uint8_t payload[PAYLOAD_MAX];
};

struct pr_control *
pr_control_open(struct pr_transmit *transmit, const struct pr_netdev *dev,
	uint16_t ethertype, const struct pr_frame_key *key, struct pr_error *err)
{
	struct pr_control *c = calloc(1, sizeof *c);
	char text[LIBNET_ERRBUF_SIZE] = "";
	int null = -1;

	if (!c)
		return pr_error_null(err, "no memory for control frames");
	c->transmit = transmit;
	memcpy(c->mac, dev->mac, PR_MAC_LEN);
	c->ethertype = ethertype;
	c->key = key;
	for (unsigned i = 0; i < PR_TRANSMIT_BATCH; i++) {
		c->msgs[i].msg_hdr.msg_iov = &c->frames[i];
		c->msgs[i].msg_hdr.msg_iovlen = 1;
	}
	/*
	 * libnet builds frames only for a context that could also send. The socket of that context would be
	 * handed every packet of the machine: /dev/null is put in its place.
	 */
	c->libnet = libnet_init(LIBNET_LINK_ADV, dev->name, text);
	if (c->libnet)
		null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (!c->libnet) {
		pr_error_set(err, "%s: libnet: %s", dev->name, text);
		pr_control_close(&c);
	} else if (null < 0 || dup3(null, libnet_getfd(c->libnet), O_CLOEXEC) < 0) {
		pr_error_errno(err, "cannot put /dev/null in place of libnet's socket");
		pr_control_close(&c);
	}
	pr_close(null);
	return c;
}

static void
free_frames(struct pr_control *c)
{
	for (unsigned i = 0; i < c->count; i++)
		libnet_adv_free_packet(c->libnet, c->frames[i].iov_base);
	c->count = 0;
}

void
pr_control_close(struct pr_control **control)
{
	struct pr_control *c = PR_TAKE(control);

	if (!c)
		return;
	if (c->libnet) {
		free_frames(c);
		libnet_destroy(c->libnet);
	}
	free(c);
}

int
pr_control_add(struct pr_control *c, struct pr_frame *f)
{
	struct pr_transmit_counters *counters = pr_transmit_counters(c->transmit);
	uint8_t *packet;
	uint32_t size;

	if (c->count == PR_TRANSMIT_BATCH)
		pr_control_flush(c);
	memcpy(f->src, c->mac, PR_MAC_LEN);
	size_t len = pr_frame_encode_payload(f, c->key, c->payload, sizeof c->payload);
	if (len > 0)
		c->tag = libnet_build_ethernet(f->dst, f->src, c->ethertype, c->payload,
			len, c->libnet, c->tag > 0 ? c->tag : 0);
	if (len == 0 || c->tag < 0 ||
		libnet_adv_cull_packet(c->libnet, &packet, &size) < 0) {
		if (len > 0)
			libnet_clear_packet(c->libnet);
		c->tag = len > 0 ? 0 : c->tag;
		pr_count(&counters->control_failed, 1);
		return -1;
	}
	c->frames[c->count++] = (struct iovec){packet, size};
	if (f->header.type == PR_FRAME_TSLOG) {
		pr_count(&counters->log_frames, 1);
		pr_count(&counters->log_bytes, len + PR_ETHER_LEN);
	} else {
		pr_count(&counters->control_frames, 1);
		pr_count(&counters->control_bytes, len + PR_ETHER_LEN);
	}
	return 0;
}

size_t
pr_control_flush(struct pr_control *c)
{
	bool failed[PR_TRANSMIT_BATCH];

	if (c->count == 0)
		return 0;
	size_t lost =
		c->count - pr_transmit_messages(c->transmit, c->msgs, c->count, failed);
	pr_count(&pr_transmit_counters(c->transmit)->control_failed, lost);
	free_frames(c);
	return lost;
}
