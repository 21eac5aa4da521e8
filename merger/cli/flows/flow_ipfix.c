/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/flows/flow_ipfix.h"

#include <string.h>
#include <time.h>

#include "indexer/index/packet_fields.h"
#include "proto/base/array.h"
#include "proto/base/cursor.h"

#define VERSION 10
#define HEADER 16
#define SET_HEADER 4
#define TEMPLATES 2 /* the set of templates */
#define REVERSE_PEN 29305
#define TEMPLATES_EVERY 100 /* messages */

/* Elements: iana.org/assignments/ipfix. */
enum {
	OCTETS = 1,
	PACKETS = 2,
	PROTOCOL = 4,
	TCP_FLAGS = 6,
	SRC_PORT = 7,
	SRC_IPV4 = 8,
	INTERFACE = 10,
	DST_PORT = 11,
	DST_IPV4 = 12,
	SRC_IPV6 = 27,
	DST_IPV6 = 28,
	ICMP_IPV4 = 32,
	VLAN = 58,
	ICMP_IPV6 = 139,
	START_MS = 152,
	END_MS = 153,
	START_NS = 156,
	END_NS = 157,
};

struct element {
	uint16_t id, len;
	bool reverse;
};
/* In the order in which put_record writes them; id 0: of the family, see below. */
static const struct element elements[] = {{START_MS, 8, false}, {END_MS, 8, false},
	{START_NS, 8, false}, {END_NS, 8, false}, {0, 0, false}, {0, 0, false},
	{SRC_PORT, 2, false}, {DST_PORT, 2, false}, {PROTOCOL, 1, false},
	{TCP_FLAGS, 1, false}, {TCP_FLAGS, 1, true}, {OCTETS, 8, false},
	{PACKETS, 8, false}, {OCTETS, 8, true}, {PACKETS, 8, true}, {VLAN, 2, false},
	{INTERFACE, 4, false}, {0, 2, false}};
static const struct element families[2][3] = {
	{{SRC_IPV4, 4, false}, {DST_IPV4, 4, false}, {ICMP_IPV4, 2, false}},
	{{SRC_IPV6, 16, false}, {DST_IPV6, 16, false}, {ICMP_IPV6, 2, false}}};
#define TEMPLATE_ID 256 /* of IPv4; the next is IPv6's */

static void
put16(struct flow_ipfix *x, uint16_t value)
{
	pr_put_be16(x->bytes + x->len, value);
	x->len += 2;
}

static void
put64(struct flow_ipfix *x, uint64_t value)
{
	pr_put_be64(x->bytes + x->len, value);
	x->len += 8;
}

static void
set_begin(struct flow_ipfix *x, uint16_t id)
{
	x->set = x->len;
	x->set_id = id;
	put16(x, id);
	put16(x, 0);
}

static void
set_end(struct flow_ipfix *x)
{
	if (x->set)
		pr_put_be16(x->bytes + x->set + 2, (uint16_t)(x->len - x->set));
	x->set = 0;
}

static void
put_templates(struct flow_ipfix *x)
{
	set_begin(x, TEMPLATES);
	for (unsigned family = 0; family < 2; family++) {
		unsigned next = 0;

		put16(x, (uint16_t)(TEMPLATE_ID + family));
		put16(x, PR_COUNT(elements));
		for (size_t i = 0; i < PR_COUNT(elements); i++) {
			const struct element *e =
				elements[i].id ? &elements[i] : &families[family][next++];

			put16(x, e->id | (e->reverse ? 0x8000 : 0));
			put16(x, e->len);
			if (e->reverse) {
				pr_put_be32(x->bytes + x->len, REVERSE_PEN);
				x->len += 4;
			}
		}
	}
	set_end(x);
}

static void
message_begin(struct flow_ipfix *x)
{
	x->len = HEADER;
	x->here = 0;
	if (x->messages % TEMPLATES_EVERY == 0)
		put_templates(x);
}

/* Its sequence number is that of its first record. */
static void
message_end(struct flow_ipfix *x)
{
	set_end(x);
	pr_put_be16(x->bytes, VERSION);
	pr_put_be16(x->bytes + 2, (uint16_t)x->len);
	pr_put_be32(x->bytes + 4, (uint32_t)time(NULL));
	pr_put_be32(x->bytes + 8, x->records);
	pr_put_be32(x->bytes + 12, 0); /* observation domain */
	fwrite(x->bytes, 1, x->len, x->to);
	x->records += x->here;
	x->messages++;
	x->len = 0;
}

/* Seconds since 1900 and their 2^32nd parts. */
static uint64_t
ntp_time(int64_t ns)
{
	uint64_t second = (uint64_t)(ns / PR_NS_PER_S) + 2208988800u;

	return second << 32 | ((uint64_t)(ns % PR_NS_PER_S) << 32) / PR_NS_PER_S;
}

static void
put_record(struct flow_ipfix *x, const struct flow_record *r)
{
	const struct pri_flow_key *k = &r->flow->key;
	unsigned o = r->flow->originator;

	put64(x, (uint64_t)(r->first / PR_NS_PER_MS));
	put64(x, (uint64_t)(r->last / PR_NS_PER_MS));
	put64(x, ntp_time(r->first));
	put64(x, ntp_time(r->last));
	for (unsigned i = 0; i < 2; i++, x->len += k->address_len)
		memcpy(x->bytes + x->len, k->address[i ^ o], k->address_len);
	put16(x, pri_has_ports(k->protocol) ? r->sport : 0);
	put16(x, pri_has_ports(k->protocol) ? r->dport : 0);
	x->bytes[x->len++] = k->protocol;
	x->bytes[x->len++] = r->sent->flags;
	x->bytes[x->len++] = r->received->flags;
	put64(x, r->sent->bytes);
	put64(x, r->sent->packets);
	put64(x, r->received->bytes);
	put64(x, r->received->packets);
	put16(x, k->vlan == PRI_FLOW_UNTAGGED ? 0 : k->vlan);
	pr_put_be32(x->bytes + x->len, k->link);
	x->len += 4;
	pri_flow_icmp(r->flow, &x->bytes[x->len], &x->bytes[x->len + 1]);
	x->len += 2;
	x->here++;
}

#define RECORD_MAX 160

void
flow_ipfix_add(struct flow_ipfix *x, const struct flow_record *r)
{
	uint16_t id = TEMPLATE_ID + (r->flow->key.address_len == 16);

	if (x->len && x->len + SET_HEADER + RECORD_MAX > sizeof(x->bytes))
		message_end(x);
	if (!x->len)
		message_begin(x);
	if (x->set && x->set_id != id)
		set_end(x);
	if (!x->set)
		set_begin(x, id);
	put_record(x, r);
}

void
flow_ipfix_finish(struct flow_ipfix *x)
{
	if (!x->len && !x->messages)
		message_begin(x);
	if (x->len)
		message_end(x);
}
