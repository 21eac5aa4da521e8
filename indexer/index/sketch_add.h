/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_SKETCH_ADD_H
#define PRI_INDEXER_SKETCH_ADD_H

#include <string.h>

#include "indexer/index/key_hash.h"
#include "indexer/index/segment_keys.h"
#include "proto/wire/cursor.h"

/* Adds keys to a sketch, whose sets have room, in place. For sketch_keys.c. */

PRI_IN_PLACE bool
add(struct pri_segment_keys *s, enum pri_key_kind kind, const void *bytes, size_t len)
{
	uint64_t hash = pri_key_hash_bytes(kind, bytes, len);

	if (!pri_hashset_put(&s->keys, hash))
		return false;
	pri_hashset_push(&s->wide, hash);
	return true;
}

PRI_IN_PLACE void
add_mac(struct pri_segment_keys *s, enum pri_key_kind kind, const uint8_t *mac)
{
	uint64_t either = pri_key_hash_bytes(PRI_KEY_MAC, mac, 6);

	if (pri_hashset_put(
		    &s->keys, pri_signature_hash(pri_key_hash_bytes(kind, mac, 6), either)))
		pri_hashset_put(&s->wide, either);
}

static inline void
add_number2(struct pri_segment_keys *s, enum pri_key_kind kind, uint16_t number)
{
	uint8_t bytes[2];

	pr_put_be16(bytes, number);
	add(s, kind, bytes, 2);
}

static inline bool
test_and_set(uint8_t *bits, unsigned at)
{
	uint8_t bit = (uint8_t)(1u << at % 8);
	bool was = bits[at / 8] & bit;

	bits[at / 8] |= bit;
	return was;
}

/* ---- addresses and ports ---- */

/* Who has the longer prefix has the shorter ones; that of one byte is in level 1 as an octet. */
PRI_IN_PLACE void
add_nets(struct pri_segment_keys *s, const uint8_t *address, size_t len)
{
	if (len == 4) {
		if (add(s, PRI_KEY_NET, address, 3))
			add(s, PRI_KEY_NET, address, 2);
		if (!test_and_set(s->octets, address[0]))
			pri_hashset_push(
				&s->wide, pri_key_hash_bytes(PRI_KEY_NET, address, 1));
	} else if (add(s, PRI_KEY_NET, address, 8) && add(s, PRI_KEY_NET, address, 6)) {
		add(s, PRI_KEY_NET, address, 4);
	}
}

/* side and len are constants. Returns its place. */
PRI_IN_PLACE uint32_t
add_address(struct pri_segment_keys *s, const uint8_t *bytes, size_t len, unsigned side)
{
	enum pri_key_kind kind = side == PRI_HOST_SRC ? PRI_KEY_SRC : PRI_KEY_DST;
	uint64_t either = pri_key_hash_bytes(PRI_KEY_ADDRESS, bytes, len);
	uint32_t at = pri_hosts_find_or_add(&s->addresses, either, bytes, len);
	struct pri_host_stats *a = &s->addresses.items[at];

	if (a->sides & side)
		return at;
	pri_hashset_push(
		&s->keys, pri_signature_hash(pri_key_hash_bytes(kind, bytes, len), either));
	if (!a->sides) {
		pri_hashset_push(&s->wide, either);
		add_nets(s, bytes, len);
	}
	a->sides |= (uint8_t)side;
	return at;
}

/* other: what is at the other end of packets of a; or NULL */
static inline void
meet(const struct pri_segment_keys *s, struct pri_host_stats *a,
	const struct pri_host_stats *other)
{
	uint32_t peer = PRI_HOST_SEVERAL;

	if (other)
		peer = (uint32_t)(other - s->addresses.items) + 1;
	if (a)
		a->peer = !a->peer || a->peer == peer ? peer : PRI_HOST_SEVERAL;
}

/* Of one kind; an address that sends to itself counts once. NULL: there is none. */
static inline void
count_addresses(const struct pri_header_layout *kind, struct pri_host_stats *src,
	struct pri_host_stats *dst)
{
	if (src) {
		src->packets += kind->packets;
		src->traffic += kind->bytes;
	}
	if (dst && dst != src) {
		dst->packets += kind->packets;
		dst->traffic += kind->bytes;
	}
}

/* bytes: as in the packet. */
PRI_IN_PLACE void
add_port(struct pri_segment_keys *s, const uint8_t *bytes, bool source, bool tcp)
{
	uint16_t port = pr_get_be16(bytes);
	uint64_t *seen = &s->seen_ports[port / 16];
	unsigned shift = port % 16 * 4u;
	uint16_t *least = source ? &s->sport_min : &s->dport_min;
	uint16_t *most = source ? &s->sport_max : &s->dport_max;
	uint8_t key[3] = {bytes[0], bytes[1], tcp ? 6 : 17};
	unsigned bit = 1u << (2 * tcp + source);
	uint64_t either, was = *seen >> shift;

	if (was & bit)
		return;
	*seen |= (uint64_t)bit << shift;
	either = pri_key_hash_bytes(PRI_KEY_PORT, bytes, 2);
	pri_hashset_push(&s->keys,
		pri_signature_hash(
			pri_key_hash_bytes(source ? PRI_KEY_SPORT : PRI_KEY_DPORT, key, 3),
			either));
	if (!(was & 15))
		pri_hashset_push(&s->wide, either);
	*least = port < *least ? port : *least;
	*most = port > *most ? port : *most;
	test_and_set(s->ports, pri_port_interval(port));
}

/* As memcmp. */
PRI_IN_PLACE int
compare(const uint8_t *a, const uint8_t *b, size_t len)
{
	uint32_t x, y;

	if (len != 4)
		return memcmp(a, b, len);
	x = pr_get_be32(a);
	y = pr_get_be32(b);
	return x < y ? -1 : x > y;
}

/* len is a constant, here and below. */
PRI_IN_PLACE void
add_pair(struct pri_segment_keys *s, const uint8_t *src, const uint8_t *dst, size_t len)
{
	bool swap = compare(src, dst, len) > 0;
	uint8_t pair[2 * 16];

	memcpy(pair, swap ? dst : src, len);
	memcpy(pair + len, swap ? src : dst, len);
	add(s, PRI_KEY_PAIR, pair, 2 * len);
}

PRI_IN_PLACE void
add_service(
	struct pri_segment_keys *s, const uint8_t *address, size_t len, const uint8_t *port)
{
	uint8_t service[16 + 2];

	memcpy(service, address, len);
	memcpy(service + len, port, 2);
	add(s, PRI_KEY_SERVICE, service, len + 2);
}

/* Not in level 2. Too many: none are made any more. */
PRI_IN_PLACE void
add_socket(struct pri_segment_keys *s, enum pri_socket which, const uint8_t *address,
	size_t len, const uint8_t *port)
{
	uint8_t bytes[1 + 16 + 2];
	uint64_t either, hash;

	if (!s->sockets)
		return;
	bytes[0] = PRI_SOCKET_PEER;
	memcpy(bytes + 1, address, len);
	memcpy(bytes + 1 + len, port, 2);
	either = hash = pri_key_hash_bytes(PRI_KEY_SOCKET, bytes, len + 3);
	if (which != PRI_SOCKET_PEER) {
		bytes[0] = (uint8_t)which;
		hash = pri_key_hash_bytes(PRI_KEY_SOCKET, bytes, len + 3);
	}
	s->socket_count += pri_hashset_put(&s->keys, pri_signature_hash(hash, either));
	if (s->socket_count < PRI_SEGMENT_KEYS_SOCKETS)
		return;
	s->sockets = false;
	s->plain_segments = PRI_SEGMENT_KEYS_PLAIN;
}

/* SERVICE and SOCKET. ports: both, as in the packet. */
PRI_IN_PLACE void
add_services(struct pri_segment_keys *s, const uint8_t *src, const uint8_t *dst, size_t len,
	const uint8_t *ports)
{
	for (int i = 0; i < 2; i++) {
		const uint8_t *port = ports + 2 * i;

		if (pri_port_is_service(pr_get_be16(port))) {
			add_service(s, src, len, port);
			add_service(s, dst, len, port);
			continue;
		}
		add_socket(
			s, i ? PRI_SOCKET_DST : PRI_SOCKET_SRC, i ? dst : src, len, port);
		if (pr_get_be16(port) >= PRI_PORT_FREE)
			add_socket(s, PRI_SOCKET_PEER, i ? src : dst, len, port);
	}
}

#endif
