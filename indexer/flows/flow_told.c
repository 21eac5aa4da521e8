/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/flows/flow_told.h"

#include <string.h>

#include "indexer/index/packet_fields.h"
#include "proto/base/cursor.h"

#define NOTHING_INSIDE 59 /* IPv6: no next header; IPv4 knows nothing of it */

bool
pri_told_packet(const struct pri_told *r, uint16_t link, struct pri_flow_packet *out)
{
	uint8_t frame[14 + 40 + 20] = {0}, *ip = frame + 14;
	bool six = r->address_len == 16, ports = pri_has_ports(r->protocol);
	bool icmp = r->protocol == (six ? 58 : 1);
	size_t header = six ? 40 : 20;
	struct pr_packet p = {.linktype = PR_LINKTYPE_ETHERNET,
		.link = link,
		.caplen = (uint32_t)(14 + header + 20),
		.len = (uint32_t)(14 + header + 20),
		.data = frame};

	if (!r->address_len)
		return false;
	pr_put_be16(frame + 12, six ? PRI_ETHERTYPE_IP6 : PRI_ETHERTYPE_IP);
	ip[0] = six ? 0x60 : 0x45;
	pr_put_be16(ip + (six ? 4 : 2), (uint16_t)(six ? 20 : 40));
	/* what only looks like headers of IPv6 is not gone through */
	ip[six ? 6 : 9] = ports || icmp ? r->protocol : NOTHING_INSIDE;
	memcpy(ip + (six ? 8 : 12), r->address[0], r->address_len);
	memcpy(ip + (six ? 24 : 16), r->address[1], r->address_len);
	if (ports) {
		pr_put_be16(ip + header, r->port[0]);
		pr_put_be16(ip + header + 2, r->port[1]);
		ip[header + 12] = 0x50;
	} else if (icmp) {
		/* without an element of its own it is in the port of the receiver */
		pr_put_be16(ip + header, r->has_icmp ? r->icmp : r->port[1]);
	}
	if (!pri_flow_packet_parse(&p, out))
		return false;
	out->key.protocol = r->protocol;
	out->key.vlan = r->vlan & 0xfff ? r->vlan & 0xfff : PRI_FLOW_UNTAGGED;
	return true;
}

uint64_t
pri_told_times(uint64_t count, uint32_t sampling)
{
	uint64_t out;

	return sampling > 1 && !__builtin_mul_overflow(count, sampling, &out) ? out : count;
}

enum { F = PRI_FLOW_FIN, S = PRI_FLOW_SYN, R = PRI_FLOW_RST, A = PRI_FLOW_ACK };
/* What of each direction makes a state (flow.c, tcp_state). */
static const uint8_t events[PRI_FLOW_STATES][2] = {[PRI_FLOW_S0] = {S, 0},
	[PRI_FLOW_S1] = {S, S | A},
	[PRI_FLOW_SF] = {S | F, S | A | F},
	[PRI_FLOW_REJ] = {S, R},
	[PRI_FLOW_S2] = {S | F, S | A},
	[PRI_FLOW_S3] = {S, S | A | F},
	[PRI_FLOW_RSTO] = {S | R, S | A},
	[PRI_FLOW_RSTR] = {S, S | A | R},
	[PRI_FLOW_RSTOS0] = {S | R, 0},
	[PRI_FLOW_RSTRH] = {0, R},
	[PRI_FLOW_SH] = {S | F, 0},
	[PRI_FLOW_SHR] = {0, F}};

static void
put_events(struct pri_flow_side *s, uint8_t flags)
{
	if (flags & S)
		*(flags & A ? &s->syn_ack : &s->syn) = s->first;
	if (flags & F)
		s->fin = s->last;
	if (flags & R)
		s->rst = s->last;
}

bool
pri_told_flow(const struct pri_told *r, uint16_t link, struct pri_flow *out)
{
	struct pri_flow_packet p;

	if (!pri_told_packet(r, link, &p))
		return false;
	pri_flow_begin(out, &p.key);
	out->originator = p.side;
	out->sampling = r->sampling > 1 ? r->sampling : 0;
	for (int i = 0; i < 2; i++) {
		struct pri_flow_side *s = &out->side[p.side ^ i];

		if (!r->packets[i] && !r->bytes[i] &&
			(i == 1 || r->packets[1] || r->bytes[1]))
			continue;
		s->packets = pri_told_times(r->packets[i] ? r->packets[i] : 1, r->sampling);
		s->bytes = pri_told_times(r->bytes[i], r->sampling);
		s->payload = pri_told_times(r->payload[i], r->sampling);
		s->flags = r->flags[i];
		s->icmp_code = p.icmp_code;
		s->first = r->first[i];
		s->last = r->last[i];
		if (r->protocol == 6)
			put_events(s, r->state ? events[r->state - 1][i]
				      : i      ? s->flags
					       : s->flags & ~A);
	}
	return true;
}
