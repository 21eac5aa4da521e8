/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/trace_internal.h"
#include "proto/wire/cursor.h"

#define PCAP_MAGIC_US 0xA1B2C3D4u
#define PCAP_MAGIC_NS 0xA1B23C4Du
#define PCAP_HEADER 24
#define PCAP_RECORD 16
#define ETHERNET 1
#define SECONDS_MIN (-INT64_C(0x80000000))
#define SECONDS_MAX INT64_C(0xffffffff)

/* A file without packets takes the links' type if they agree. */
static uint16_t
linktype_of(const struct prm_trace_writer *w)
{
	for (size_t i = 0; i < w->interface_count; i++)
		if (w->interfaces[i].packets)
			return w->interfaces[i].linktype;
	return w->interface_count ? w->interfaces[0].linktype : ETHERNET;
}

int
prm_pcap_begin(struct prm_trace_writer *w, struct pr_error *err)
{
	uint8_t *at = prm_output_room(w->out, PCAP_HEADER, err);

	if (!at)
		return -1;
	memset(at, 0, PCAP_HEADER);
	w->linktype = linktype_of(w);
	pr_put_le32(at, w->format == PRM_TRACE_PCAP ? PCAP_MAGIC_US : PCAP_MAGIC_NS);
	pr_put_le16(at + 4, 2); /* version 2.4 */
	pr_put_le16(at + 6, 4);
	pr_put_le32(at + 16, w->snaplen);
	pr_put_le32(at + 20, w->linktype);
	return 0;
}

static void
split(struct prm_trace_writer *w, int64_t time, int64_t *sec, int64_t *ns)
{
	*sec = time / 1000000000;
	*ns = time % 1000000000;
	if (*ns < 0) {
		*ns += 1000000000;
		--*sec;
	}
	if (*sec >= SECONDS_MIN && *sec <= SECONDS_MAX)
		return;
	w->clamped++;
	*ns = *sec < SECONDS_MIN ? 0 : 999999999;
	*sec = *sec < SECONDS_MIN ? SECONDS_MIN : SECONDS_MAX;
}

int
prm_pcap_packet(struct prm_trace_writer *w, const struct pr_packet *p,
	const struct trace_interface *interface, struct pr_error *err)
{
	uint8_t *at;
	int64_t sec, ns;

	if (interface->linktype != w->linktype)
		return pr_error_set(err,
			"the answer has link types %u and %u, and a pcap file holds one: "
			"choose "
			"one with --link, or use --format pcapng",
			w->linktype, interface->linktype);
	at = prm_output_room(w->out, PCAP_RECORD, err);
	if (!at)
		return -1;
	split(w, p->time, &sec, &ns);
	pr_put_le32(at, (uint32_t)sec);
	pr_put_le32(at + 4, (uint32_t)(w->format == PRM_TRACE_PCAP ? ns / 1000 : ns));
	pr_put_le32(at + 8, p->caplen);
	pr_put_le32(at + 12, p->len);
	return prm_output_write(w->out, p->data, p->caplen, err);
}
