/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "indexer/key_hash.h"
#include "indexer/sketch.h"
#include "proto/wire/cursor.h"

/*
 * The keys of a kind of packets: the same as pr_keys_of_fields makes, but as hashes, and without those that
 * another kind has made already. What is known to be new goes into the sets without a look. A key of keys
 * that is the same in wide is new there when it is new here.
 */
#define MOST (PR_KEYS_MAX + 4)

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

static void
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

/* side and len are constants. */
PR_IN_PLACE struct pr_address *
add_address(struct pr_sketch *s, const uint8_t *bytes, size_t len, unsigned side)
{
	enum pr_key_kind kind = side == PR_ADDRESS_SRC ? PR_KEY_SRC : PR_KEY_DST;
	uint64_t either = pr_key_hash_bytes(PR_KEY_ADDRESS, bytes, len);
	uint32_t at = pr_addresses_find(&s->addresses, either, bytes, len);
	struct pr_address *a = &s->addresses.items[at];

	if (a->sides & side)
		return a;
	pr_hashset_push(
		&s->keys, pr_signature_hash(pr_key_hash_bytes(kind, bytes, len), either));
	if (!a->sides) {
		pr_hashset_push(&s->wide, either);
		add_nets(s, bytes, len);
	}
	a->sides |= (uint8_t)side;
	return a;
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

static inline bool
seen_port(const struct pr_sketch *s, uint16_t port)
{
	unsigned seen = 0;

	for (int i = 0; i < 4; i++)
		seen |= s->seen_ports[i][port / 8];
	return seen >> port % 8 & 1;
}

/* bytes: as in the packet. */
PR_IN_PLACE void
add_port(struct pr_sketch *s, const uint8_t *bytes, bool source, bool tcp)
{
	uint16_t port = pr_get_be16(bytes);
	uint16_t *least = source ? &s->sport_min : &s->dport_min;
	uint16_t *most = source ? &s->sport_max : &s->dport_max;
	uint8_t key[3] = {bytes[0], bytes[1], tcp ? 6 : 17};
	uint8_t *seen = s->seen_ports[2 * tcp + source];
	uint64_t either;

	if (seen[port / 8] & 1u << port % 8)
		return;
	either = pr_key_hash_bytes(PR_KEY_PORT, bytes, 2);
	pr_hashset_push(&s->keys,
		pr_signature_hash(
			pr_key_hash_bytes(source ? PR_KEY_SPORT : PR_KEY_DPORT, key, 3),
			either));
	if (!seen_port(s, port))
		pr_hashset_push(&s->wide, either);
	test_and_set(seen, port);
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
	uint8_t bytes[1 + 16 + 2] = {PR_SOCKET_PEER};
	uint64_t either, hash;

	if (!s->sockets)
		return;
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

/* ---- plain kinds ---- */

static void
add_link(struct pr_sketch *s, const struct pr_kind *kind)
{
	const uint16_t inner = pr_kind_version(kind) == 4 ? 0x0800 : 0x86dd;
	uint8_t bytes[16];

	pr_put_le64(bytes, kind->id[0]);
	pr_put_le64(bytes + 8, kind->id[1]);
	add_mac(s, PR_KEY_MAC_DST, bytes);
	add_mac(s, PR_KEY_MAC_SRC, bytes + 6);
	add_number2(s, PR_KEY_ETHERTYPE, inner);
	if (pr_get_be16(bytes + 12) == inner)
		return;
	add_number2(s, PR_KEY_ETHERTYPE, pr_get_be16(bytes + 12));
	add_number2(s, PR_KEY_VLAN, (uint16_t)(kind->id[1] >> 48));
}

/* Was a kind of the same words of the link layer here a short while ago? */
static bool
link_seen(struct pr_sketch *s, const struct pr_kind *kind)
{
	uint64_t mix = (kind->id[0] ^ kind->id[1] << 16) * UINT64_C(0x9e3779b97f4a7c15);
	struct pr_sketch_link *l = &s->links[mix >> (64 - PR_SKETCH_LINKS_LOG)];
	unsigned version = pr_kind_version(kind);

	if (l->words[0] == kind->id[0] && l->words[1] == kind->id[1] &&
		l->version == version)
		return true;
	*l = (struct pr_sketch_link){{kind->id[0], kind->id[1]}, version};
	return false;
}

/* len is a constant. at: both addresses; ports: both, or NULL. */
PR_IN_PLACE void
host_keys(struct pr_sketch *s, const struct pr_kind *kind, const uint8_t *at, size_t len,
	const uint8_t *ports)
{
	struct pr_address *src = add_address(s, at, len, PR_ADDRESS_SRC);
	struct pr_address *dst = add_address(s, at + len, len, PR_ADDRESS_DST);
	bool tcp = (uint8_t)(kind->id[2] >> 8) == 6;

	count_addresses(kind, src, dst);
	add_pair(s, at, at + len, len);
	if (!ports)
		return;
	add_services(s, at, at + len, len, ports);
	add_port(s, ports, true, tcp);
	add_port(s, ports + 2, false, tcp);
}

static __attribute__((flatten)) void
plain_keys(struct pr_sketch *s, const struct pr_kind *kind, const uint64_t *more)
{
	uint8_t protocol = (uint8_t)(kind->id[2] >> 8), at[32], ports[4];

	if (!link_seen(s, kind))
		add_link(s, kind);
	if (!test_and_set(s->seen_protocols, protocol))
		add(s, PR_KEY_PROTO, &protocol, 1);
	pr_put_le32(ports, (uint32_t)(kind->id[2] >> 32));
	if (pr_kind_version(kind) == 4) {
		memcpy(at, ports, 4);
		pr_put_le32(at + 4, (uint32_t)kind->id[3]);
		pr_put_le32(ports, (uint32_t)(kind->id[3] >> 32));
		host_keys(s, kind, at, 4, pr_kind_has_ports(protocol) ? ports : NULL);
	} else {
		pr_put_le64(at, kind->id[3]);
		for (size_t i = 0; i < PR_KIND_MORE; i++)
			pr_put_le64(at + 8 + 8 * i, more[i]);
		host_keys(s, kind, at, 16, ports);
	}
}

/* ---- other kinds ---- */

static void
add_key(struct pr_sketch *s, const struct pr_key *key)
{
	switch (key->kind) {
	case PR_KEY_SRC:
	case PR_KEY_DST:
	case PR_KEY_SPORT:
	case PR_KEY_DPORT:
		break; /* counted as well: see there */
	case PR_KEY_NET:
		if (key->len > 1) /* else with its address */
			add(s, PR_KEY_NET, key->bytes, key->len);
		break;
	case PR_KEY_MAC_SRC:
	case PR_KEY_MAC_DST:
		add_mac(s, (enum pr_key_kind)key->kind, key->bytes);
		break;
	default:
		add(s, (enum pr_key_kind)key->kind, key->bytes, key->len);
	}
}

static struct pr_address *
add_any_address(
	struct pr_sketch *s, const struct pr_fields *f, const uint8_t *address, bool source)
{
	unsigned side = source ? PR_ADDRESS_SRC : PR_ADDRESS_DST;

	if (!(f->have & (source ? PR_FIELD_SRC : PR_FIELD_DST)))
		return NULL;
	return add_address(s, address, f->address_len, side);
}

/* pr_keys_of_fields does not make them. */
static void
add_sockets(struct pr_sketch *s, const struct pr_fields *f)
{
	uint8_t port[2];

	pr_put_be16(port, f->sport);
	if (f->have & PR_FIELD_SPORT && !pr_port_is_service(f->sport)) {
		if (f->have & PR_FIELD_SRC)
			add_socket(s, PR_SOCKET_SRC, f->src, f->address_len, port);
		if (f->have & PR_FIELD_DST && f->sport >= PR_PORT_FREE)
			add_socket(s, PR_SOCKET_PEER, f->dst, f->address_len, port);
	}
	pr_put_be16(port, f->dport);
	if (f->have & PR_FIELD_DPORT && !pr_port_is_service(f->dport)) {
		if (f->have & PR_FIELD_DST)
			add_socket(s, PR_SOCKET_DST, f->dst, f->address_len, port);
		if (f->have & PR_FIELD_SRC && f->dport >= PR_PORT_FREE)
			add_socket(s, PR_SOCKET_PEER, f->src, f->address_len, port);
	}
}

static void
any_keys(struct pr_sketch *s, const struct pr_fields *f, const struct pr_kind *kind)
{
	struct pr_key keys[PR_KEYS_MAX];
	struct pr_address *src, *dst;
	size_t count = pr_keys_of_fields(f, keys);
	uint8_t port[2];

	for (size_t i = 0; i < count; i++)
		add_key(s, &keys[i]);
	add_sockets(s, f);
	src = add_any_address(s, f, f->src, true);
	dst = add_any_address(s, f, f->dst, false);
	count_addresses(kind, src, dst);
	pr_put_be16(port, f->sport);
	if (f->have & PR_FIELD_SPORT)
		add_port(s, port, true, f->protos[0] == 6);
	pr_put_be16(port, f->dport);
	if (f->have & PR_FIELD_DPORT)
		add_port(s, port, false, f->protos[0] == 6);
}

int
pr_sketch_kinds(struct pr_sketch *s)
{
	for (size_t i = 0; i < s->kinds.count; i++) {
		const struct pr_kind *kind = &s->kinds.items[i];

		if (pr_hashset_prepare(&s->keys, MOST) < 0 ||
			pr_hashset_prepare(&s->wide, MOST) < 0)
			return -1;
		if (pr_kind_version(kind))
			plain_keys(s, kind, s->kinds.more[i]);
		else
			any_keys(s, pr_kind_fields(&s->kinds, kind), kind);
	}
	return 0;
}

/* Level 2 has none of them, so they do not go into wide. */
int
pr_sketch_composites(
	struct pr_sketch *s, const struct pr_layout *layout, const struct pr_packet *packet)
{
	struct pr_key keys[PR_COMPOSITE_KEYS];
	struct pr_fields f;

	if (pr_hashset_prepare(&s->keys, PR_COMPOSITES_MAX * PR_COMPOSITE_KEYS) < 0)
		return -1;
	pr_fields_of_packet(layout, packet->data, packet->caplen, &f);
	for (size_t i = 0; i < PR_COMPOSITES_MAX && s->composites.masks[i]; i++) {
		size_t count = pr_composite_keys(&f, s->composites.masks[i], keys);

		for (size_t j = 0; j < count; j++)
			pr_hashset_put(&s->keys, pr_key_hash(&keys[j]));
	}
	return 0;
}
