/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The XDP program of a capture interface that drops the packets of shunted connections, and counts them (proto/port/shunt.h).
 * All others pass. SYN, FIN and RST pass and end the shunting, as may the connection; so does a packet after a
 * pause as long as a time-out.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "proto/port/ip.bpf.h"
#include "proto/port/shunt_record.h"

char shunt_license[] SEC("license") = "Apache-2.0";

struct pr_shunt_state shunt_state SEC(".bss");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PR_SHUNT_SETS);
	__type(key, __u32);
	__type(value, struct pr_shunt_set);
} sets SEC(".maps");

enum { ETHER = 14, TAG = 4, TCP = 6, UDP = 17, FLAGS = 13, FIN_SYN_RST = 7 };
#define SECOND 1000000000ull
/* a little less than those of the dispatcher, PRD_CUTOFF_IDLE: it decides about what passes */
#define IDLE_TCP (59 * (__s64)SECOND)
#define IDLE (29 * (__s64)SECOND)

/* Global, so that the verifier looks at it alone, and not at all behind it for each link. */
__attribute__((noinline)) __u32
shunt_link_of(__u32 index)
{
	__u32 link = 0;

	while (link < PR_SHUNT_LINKS && shunt_state.ifindex[link] != index)
		link++;
	return link;
}

/* The transport header behind an IP header that ends at `at`, and the ports in the order of the ends. NULL: too short */
static inline __attribute__((always_inline)) const __u8 *
ports(struct pr_shunt_key *key, const __u8 *at, const void *end, int order, __u32 *from)
{
	const __be16 *port = (const void *)at;

	if (at + (key->protocol == TCP ? 20 : 8) > (const __u8 *)end)
		return NULL;
	__u16 src = bpf_ntohs(port[0]), dst = bpf_ntohs(port[1]);
	*from = order > 0 || (order == 0 && src > dst);
	key->port[0] = *from ? dst : src;
	key->port[1] = *from ? src : dst;
	return at;
}

static inline __attribute__((always_inline)) const __u8 *
read4(struct pr_shunt_key *key, const struct ip4 *ip, const void *end, __u32 *from)
{
	if ((const void *)(ip + 1) > end || ip->version != 0x45 ||
		ip->fragment & bpf_htons(0x3fff) ||
		(ip->protocol != TCP && ip->protocol != UDP))
		return NULL;
	__u32 need = sizeof *ip + (ip->protocol == TCP ? 20 : 8),
	      total = bpf_ntohs(ip->len);
	if (total && total < need)
		return NULL;
	int order = ip->src == ip->dst                        ? 0
		    : bpf_ntohl(ip->src) > bpf_ntohl(ip->dst) ? 1
							      : -1;
	key->protocol = ip->protocol;
	key->address_len = 4;
	const __u8 *transport = ports(key, (const __u8 *)(ip + 1), end, order, from);
	*(__be32 *)key->address[0] = *from ? ip->dst : ip->src;
	*(__be32 *)key->address[1] = *from ? ip->src : ip->dst;
	return transport;
}

static inline __attribute__((always_inline)) const __u8 *
read6(struct pr_shunt_key *key, const struct ip6 *ip, const void *end, __u32 *from)
{
	if ((const void *)(ip + 1) > end ||
		(ip->version & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000) ||
		(ip->next != TCP && ip->next != UDP))
		return NULL;
	__u32 total = bpf_ntohs(ip->len);
	if (total && total < (ip->next == TCP ? 20 : 8))
		return NULL;
	int at = ip->src[0] == ip->dst[0];
	__u64 src = bpf_be64_to_cpu(at ? ip->src[1] : ip->src[0]),
	      dst = bpf_be64_to_cpu(at ? ip->dst[1] : ip->dst[0]);
	key->protocol = ip->next;
	key->address_len = 16;
	const __u8 *transport = ports(key, (const __u8 *)(ip + 1), end,
		src == dst  ? 0
		: src > dst ? 1
			    : -1,
		from);
	__be64 *low = (__be64 *)key->address[*from != 0],
	       *high = (__be64 *)key->address[*from == 0];
	low[0] = ip->src[0];
	low[1] = ip->src[1];
	high[0] = ip->dst[0];
	high[1] = ip->dst[1];
	return transport;
}

static inline __attribute__((always_inline)) int
same(const struct pr_shunt_key *a, const struct pr_shunt_key *b)
{
	const __u64 *x = (const void *)a, *y = (const void *)b;
	__u64 differ = 0;

	for (int i = 0; i < 6; i++)
		differ |= x[i] ^ y[i];
	return !differ;
}

/* XDP_PASS where there is no room: the sums of the second before the last were not taken. */
static inline __attribute__((always_inline)) int
count(struct pr_shunt *s, __s64 now, __u32 from, __u32 len)
{
	__u64 second = now / SECOND;
	struct pr_shunt_sum *sum = &s->sums[second & 1][from & 1];

	if (sum->second != second) {
		if (sum->packets)
			return XDP_PASS;
		sum->second = second;
		sum->first = now;
	}
	__sync_fetch_and_add(&sum->bytes, len);
	__sync_fetch_and_add(&sum->packets, 1);
	sum->last = now;
	s->last = now;
	return XDP_DROP;
}

SEC("xdp") int shunt(struct xdp_md *ctx)
{
	const void *data = (const void *)(long)ctx->data,
		   *end = (const void *)(long)ctx->data_end;
	struct pr_shunt_key key = {.vlan = 0xffff};
	__u32 from = 0, at = ETHER;

	if (!shunt_state.running || data + ETHER + TAG > end)
		return XDP_PASS;
	key.link = shunt_link_of(ctx->ingress_ifindex);
	__u16 type = *(const __u16 *)(data + 12);
	if (type == bpf_htons(0x8100)) {
		key.vlan = bpf_ntohs(*(const __u16 *)(data + ETHER)) & 0xfff;
		type = *(const __u16 *)(data + ETHER + 2);
		at += TAG;
	}
	const __u8 *transport =
		type == bpf_htons(0x0800)   ? read4(&key, data + at, end, &from)
		: type == bpf_htons(0x86dd) ? read6(&key, data + at, end, &from)
					    : NULL;
	if (!transport)
		return XDP_PASS;
	__u64 tag = pr_shunt_hash(&key, shunt_state.seed);
	__u32 index = tag >> 32 & (PR_SHUNT_SETS - 1);
	struct pr_shunt_set *set = bpf_map_lookup_elem(&sets, &index);
	if (!set)
		return XDP_PASS;
	for (int i = 0; i < PR_SHUNT_PLACES; i++) {
		struct pr_shunt *s = &set->place[i];

		if (set->tag[i] != tag || s->state != PR_SHUNT_ON || !same(&s->key, &key))
			continue;
		__s64 now = bpf_ktime_get_tai_ns() - shunt_state.tai_ahead;
		int tcp = key.protocol == TCP;
		if (now - s->last > (tcp ? IDLE_TCP : IDLE) ||
			(tcp && transport + FLAGS < (const __u8 *)end &&
				transport[FLAGS] & FIN_SYN_RST)) {
			s->state = PR_SHUNT_ENDED;
			return XDP_PASS;
		}
		return count(s, now, from, end - data);
	}
	return XDP_PASS;
}
