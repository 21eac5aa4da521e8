/* SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "proto/base/cursor.h"
#include "proto/wire/decode.h"

#define MAC_LEN 6
#define ETHER_LEN 14

/*
 * Both ends in an order of their own, so that both directions give the same bytes. Inlined with a
 * constant len, the copies are moves.
 */
static inline __attribute__((always_inline)) uint64_t
hash_ends(const uint8_t *a, const uint8_t *b, size_t len, uint32_t kind, uint64_t seed)
{
	uint8_t key[2 * 18 + 4];
	bool swap = memcmp(a, b, len) > 0;
	memcpy(key, swap ? b : a, len);
	memcpy(key + len, swap ? a : b, len);
	pr_put_le32(key + 2 * len, kind);
	return XXH3_64bits_withSeed(key, 2 * len + 4, seed);
}

static uint64_t
hash_macs(const struct pr_headers *h, const uint8_t *data, size_t caplen, uint64_t seed)
{
	if (caplen < ETHER_LEN)
		return XXH3_64bits_withSeed(data, caplen, seed);
	return hash_ends(data, data + MAC_LEN, MAC_LEN, h->ethertype, seed);
}

/* len: of an address, constant. */
static inline __attribute__((always_inline)) uint64_t
hash_ip(const struct pr_headers *h, size_t len, uint64_t seed)
{
	uint8_t src[18], dst[18];
	bool has_ports = h->flags & PR_DECODE_PORTS;

	/*
	 * Later fragments have no ports, and in IPv6 know the next header only, not the protocol
	 * behind it: a fragmented packet is its addresses.
	 */
	if (h->flags & PR_DECODE_FRAGMENT)
		return hash_ends(h->src, h->dst, len, UINT32_MAX, seed);
	memcpy(src, h->src, len);
	memcpy(dst, h->dst, len);
	pr_put_be16(src + len, has_ports ? h->src_port : 0);
	pr_put_be16(dst + len, has_ports ? h->dst_port : 0);
	return hash_ends(src, dst, len + 2, h->protocol, seed);
}

uint64_t
pr_flow_hash(const struct pr_decoded *d, const uint8_t *data, size_t caplen, uint64_t seed)
{
	const struct pr_headers *h = &d->outer;

	if (h->flags & PR_DECODE_IP4)
		return hash_ip(h, 4, seed);
	if (h->flags & PR_DECODE_IP6)
		return hash_ip(h, 16, seed);
	return hash_macs(h, data, caplen, seed);
}
