/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/packet_line.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/wire/decode.h"
#include "proto/wire/relation.h"

#define LINKTYPE_ETHERNET 1

struct line {
	char *at, *end;
};

__attribute__((format(printf, 2, 3))) static void
put(struct line *l, const char *fmt, ...)
{
	size_t room = (size_t)(l->end - l->at);
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(l->at, room, fmt, args);
	va_end(args);
	if (n > 0)
		l->at += (size_t)n < room ? (size_t)n : room - 1;
}

static void
put_end(struct line *l, const struct pr_headers *h, const uint8_t *address, uint16_t port)
{
	char text[INET6_ADDRSTRLEN] = "?";

	inet_ntop(
		h->flags & PR_DECODE_IP4 ? AF_INET : AF_INET6, address, text, sizeof(text));
	put(l, "%s", text);
	if (h->flags & PR_DECODE_PORTS)
		put(l, ".%u", port);
}

static const char *
protocol_name(uint8_t protocol)
{
	static const struct {
		uint8_t number;
		const char *name;
	} names[] = {{1, "icmp"}, {2, "igmp"}, {6, "tcp"}, {17, "udp"}, {47, "gre"},
		{50, "esp"}, {51, "ah"}, {58, "icmp6"}, {89, "ospf"}, {103, "pim"},
		{112, "vrrp"}, {132, "sctp"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].number == protocol)
			return names[i].name;
	return NULL;
}

static void
put_tcp_flags(struct line *l, uint8_t flags)
{
	static const char letters[] = "FSRP.UEW"; /* as tcpdump has them */

	put(l, " [");
	for (int i = 0; i < 8; i++)
		if (flags & 1 << i)
			put(l, "%c", letters[i]);
	put(l, flags ? "]" : "none]");
}

static void
put_ip(struct line *l, const struct pr_headers *h)
{
	const char *name = protocol_name(h->protocol);

	put(l, "%s ", h->flags & PR_DECODE_IP4 ? "IP" : "IP6");
	put_end(l, h, h->src, h->src_port);
	put(l, " > ");
	put_end(l, h, h->dst, h->dst_port);
	if (name)
		put(l, ": %s", name);
	else
		put(l, ": proto %u", h->protocol);
	if (h->protocol == 6 && h->flags & PR_DECODE_PORTS)
		put_tcp_flags(l, h->tcp_flags);
	if ((h->protocol == 1 || h->protocol == 58) && h->l4_offset)
		put(l, " type %u code %u", h->icmp_type, h->icmp_code);
	if (h->flags & PR_DECODE_FRAGMENT)
		put(l, " frag");
}

static void
put_mac(struct line *l, const uint8_t *mac)
{
	put(l, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
		mac[5]);
}

static void
put_ethernet(struct line *l, const struct pr_packet *p, const struct pr_headers *h)
{
	put_mac(l, p->data + 6);
	put(l, " > ");
	put_mac(l, p->data);
	if (h->ethertype == 0x0806)
		put(l, " ARP");
	else if (h->ethertype)
		put(l, " ethertype 0x%04x", h->ethertype);
	else
		put(l, " 802.3");
}

size_t
packet_line(const struct pr_packet *p, char *buf, size_t size)
{
	struct line l = {buf, buf + size - 1};
	struct pr_decoded d;
	char time[PR_TIME_TEXT];

	pr_decode(p->linktype, p->data, p->caplen, &d);
	put(&l, "%s ", pr_time_format(p->time, time, sizeof(time)));
	for (unsigned i = 0; i < d.outer.vlan_count && i < 4; i++)
		put(&l, "vlan %u ", d.outer.vlan[i]);
	if (d.outer.flags & (PR_DECODE_IP4 | PR_DECODE_IP6))
		put_ip(&l, &d.outer);
	else if (p->linktype == LINKTYPE_ETHERNET && p->caplen >= 14)
		put_ethernet(&l, p, &d.outer);
	else
		put(&l, "link type %u", p->linktype);
	if (d.outer.flags & PR_DECODE_TUNNEL &&
		d.inner.flags & (PR_DECODE_IP4 | PR_DECODE_IP6)) {
		put(&l, " | ");
		put_ip(&l, &d.inner);
	}
	put(&l, ", len %u", p->len);
	if (p->caplen < p->len)
		put(&l, " (%u captured)", p->caplen);
	if (p->flags & PR_PACKET_STRAY)
		put(&l, " stray");
	if (p->flags & PR_PACKET_RELATED)
		put(&l, " (%s)", pr_relation_text(p->flags));
	*l.at++ = '\n';
	return (size_t)(l.at - buf);
}
