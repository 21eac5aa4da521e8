/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_SKETCH_ADD_H
#define PR_INDEXER_SKETCH_ADD_H

#include <string.h>

#include "indexer/key_hash.h"
#include "indexer/sketch.h"
#include "proto/wire/cursor.h"

/* Adds keys to a sketch, whose sets have room, in place. For sketch_keys.c. */

PR_IN_PLACE bool
add(struct pr_sketch *s, enum pr_key_kind kind, const void *bytes, size_t len)
{
	uint64_t hash = pr_key_hash_bytes(kind, bytes, len);

	if (!pr_hashset_put(&s->keys, hash))
		return false;
	pr_hashset_push(&s->wide, hash);
	return true;
}

PR_IN_PLACE void
add_mac(struct pr_sketch *s, enum pr_key_kind kind, const uint8_t *mac)
{
	uint64_t either = pr_key_hash_bytes(PR_KEY_MAC, mac, 6);

	if (pr_hashset_put(
		    &s->keys, pr_signature_hash(pr_key_hash_bytes(kind, mac, 6), either)))
		pr_hashset_put(&s->wide, either);
}

static inline void
add_number2(struct pr_sketch *s, enum pr_key_kind kind, uint16_t number)
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
PR_IN_PLACE void
add_nets(struct pr_sketch *s, const uint8_t *address, size_t len)
{
	if (len == 4) {
		if (add(s, PR_KEY_NET, address, 3))
			add(s, PR_KEY_NET, address, 2);
		if (!test_and_set(s->octets, address[0]))
			pr_hashset_push(
				&s->wide, pr_key_hash_bytes(PR_KEY_NET, address, 1));
	} else if (add(s, PR_KEY_NET, address, 8) && add(s, PR_KEY_NET, address, 6)) {
		add(s, PR_KEY_NET, address, 4);
	}
}

/* side and len are constants. Returns its place. */
PR_IN_PLACE uint32_t
add_address(struct pr_sketch *s, const uint8_t *bytes, size_t len, unsigned side)
{
	enum pr_key_kind kind = side == PR_ADDRESS_SRC ? PR_KEY_SRC : PR_KEY_DST;
	uint64_t either = pr_key_hash_bytes(PR_KEY_ADDRESS, bytes, len);
	uint32_t at = pr_addresses_find(&s->addresses, either, bytes, len);
	struct pr_address *a = &s->addresses.items[at];

	if (a->sides & side)
		return at;
	pr_hashset_push(
		&s->keys, pr_signature_hash(pr_key_hash_bytes(kind, bytes, len), either));
	if (!a->sides) {
		pr_hashset_push(&s->wide, either);
		add_nets(s, bytes, len);
	}
	a->sides |= (uint8_t)side;
	return at;
}

/* other: what is at the other end of packets of a; or NULL */
static inline void
meet(const struct pr_sketch *s, struct pr_address *a, const struct pr_address *other)
{
	uint32_t peer = PR_ADDRESS_SEVERAL;

	if (other)
		peer = (uint32_t)(other - s->addresses.items) + 1;
	if (a)
		a->peer = !a->peer || a->peer == peer ? peer : PR_ADDRESS_SEVERAL;
}

/* Of one kind; an address that sends to itself counts once. NULL: there is none. */
static inline void
count_addresses(const struct pr_kind *kind, struct pr_address *src, struct pr_address *dst)
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
PR_IN_PLACE void
add_port(struct pr_sketch *s, const uint8_t *bytes, bool source, bool tcp)
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
	either = pr_key_hash_bytes(PR_KEY_PORT, bytes, 2);
	pr_hashset_push(&s->keys,
		pr_signature_hash(
			pr_key_hash_bytes(source ? PR_KEY_SPORT : PR_KEY_DPORT, key, 3),
			either));
	if (!(was & 15))
		pr_hashset_push(&s->wide, either);
	*least = port < *least ? port : *least;
	*most = port > *most ? port : *most;
	test_and_set(s->ports, pr_port_interval(port));
}

/* As memcmp. */
PR_IN_PLACE int
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
PR_IN_PLACE void
add_pair(struct pr_sketch *s, const uint8_t *src, const uint8_t *dst, size_t len)
{
	bool swap = compare(src, dst, len) > 0;
	uint8_t pair[2 * 16];

	memcpy(pair, swap ? dst : src, len);
	memcpy(pair + len, swap ? src : dst, len);
	add(s, PR_KEY_PAIR, pair, 2 * len);
}

PR_IN_PLACE void
add_service(struct pr_sketch *s, const uint8_t *address, size_t len, const uint8_t *port)
{
	uint8_t service[16 + 2];

	memcpy(service, address, len);
	memcpy(service + len, port, 2);
	add(s, PR_KEY_SERVICE, service, len + 2);
}

/* Not in level 2. Too many: none are made any more. */
PR_IN_PLACE void
add_socket(struct pr_sketch *s, enum pr_socket which, const uint8_t *address, size_t len,
	const uint8_t *port)
{
	uint8_t bytes[1 + 16 + 2];
	uint64_t either, hash;

	if (!s->sockets)
		return;
	bytes[0] = PR_SOCKET_PEER;
	memcpy(bytes + 1, address, len);
	memcpy(bytes + 1 + len, port, 2);
	either = hash = pr_key_hash_bytes(PR_KEY_SOCKET, bytes, len + 3);
	if (which != PR_SOCKET_PEER) {
		bytes[0] = (uint8_t)which;
		hash = pr_key_hash_bytes(PR_KEY_SOCKET, bytes, len + 3);
	}
	s->socket_count += pr_hashset_put(&s->keys, pr_signature_hash(hash, either));
	if (s->socket_count < PR_SKETCH_SOCKETS)
		return;
	s->sockets = false;
	s->plain_segments = PR_SKETCH_PLAIN;
}

/* SERVICE and SOCKET. ports: both, as in the packet. */
PR_IN_PLACE void
add_services(struct pr_sketch *s, const uint8_t *src, const uint8_t *dst, size_t len,
	const uint8_t *ports)
{
	for (int i = 0; i < 2; i++) {
		const uint8_t *port = ports + 2 * i;

		if (pr_port_is_service(pr_get_be16(port))) {
			add_service(s, src, len, port);
			add_service(s, dst, len, port);
			continue;
		}
		add_socket(s, i ? PR_SOCKET_DST : PR_SOCKET_SRC, i ? dst : src, len, port);
		if (pr_get_be16(port) >= PR_PORT_FREE)
			add_socket(s, PR_SOCKET_PEER, i ? src : dst, len, port);
	}
}

#endif
