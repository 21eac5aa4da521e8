/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/sketch_add.h"

/*
 * The keys of a kind of packets: the same as pri_keys_of_fields makes, but as hashes, and without those that
 * another kind has made already. What is known to be new goes into the sets without a look. A key of keys
 * that is the same in wide is new there when it is new here.
 */
#define MOST (PRI_KEYS_MAX + 4)

/* ---- plain kinds ---- */

static void
add_link(struct pri_segment_keys *s, const struct pri_header_layout *kind)
{
	const uint16_t inner = pri_header_layout_version(kind) == 4 ? 0x0800 : 0x86dd;
	uint8_t bytes[16];

	pr_put_le64(bytes, kind->id[0]);
	pr_put_le64(bytes + 8, kind->id[1]);
	add_mac(s, PRI_KEY_MAC_DST, bytes);
	add_mac(s, PRI_KEY_MAC_SRC, bytes + 6);
	add_number2(s, PRI_KEY_ETHERTYPE, inner);
	if (pr_get_be16(bytes + 12) == inner)
		return;
	add_number2(s, PRI_KEY_ETHERTYPE, pr_get_be16(bytes + 12));
	add_number2(s, PRI_KEY_VLAN, (uint16_t)(kind->id[1] >> 48));
}

/* Was a kind of the same words of the link layer here a short while ago? */
static bool
link_seen(struct pri_segment_keys *s, const struct pri_header_layout *kind)
{
	uint64_t mix = (kind->id[0] ^ kind->id[1] << 16) * UINT64_C(0x9e3779b97f4a7c15);
	struct pri_segment_keys_link *l =
		&s->links[mix >> (64 - PRI_SEGMENT_KEYS_LINKS_LOG)];
	unsigned version = pri_header_layout_version(kind);

	if (l->words[0] == kind->id[0] && l->words[1] == kind->id[1] &&
		l->version == version)
		return true;
	*l = (struct pri_segment_keys_link){{kind->id[0], kind->id[1]}, version};
	return false;
}

/* at: both addresses; len is a constant. */
PRI_IN_PLACE void
add_ports(struct pri_segment_keys *s, const struct pri_header_layout *kind,
	const uint8_t *at, size_t len, const uint8_t *ports)
{
	bool tcp = (uint8_t)(kind->id[2] >> 8) == 6;

	add_services(s, at, at + len, len, ports);
	add_port(s, ports, true, tcp);
	add_port(s, ports + 2, false, tcp);
}

/* Of two that were here together a short while ago all is known. */
PRI_IN_PLACE void
add_hosts(
	struct pri_segment_keys *s, const struct pri_header_layout *kind, const uint8_t *at)
{
	uint64_t addresses = pr_get_le64(at);
	struct pri_segment_keys_pair *pair =
		&s->pairs[addresses * UINT64_C(0x9e3779b97f4a7c15) >>
			  (64 - PRI_SEGMENT_KEYS_PAIRS_LOG)];
	struct pri_host_stats *items = s->addresses.items;

	if (pair->addresses != addresses || !pair->src) {
		*pair = (struct pri_segment_keys_pair){.addresses = addresses,
			.src = 1 + add_address(s, at, 4, PRI_HOST_SRC),
			.dst = 1 + add_address(s, at + 4, 4, PRI_HOST_DST)};
		add_pair(s, at, at + 4, 4);
		meet(s, &items[pair->src - 1], &items[pair->dst - 1]);
		meet(s, &items[pair->dst - 1], &items[pair->src - 1]);
	}
	count_addresses(kind, &items[pair->src - 1], &items[pair->dst - 1]);
}

static __attribute__((flatten)) void
ip_keys(struct pri_segment_keys *s, const struct pri_header_layout *kind)
{
	uint8_t at[8], ports[4];

	pr_put_le64(at, kind->id[2] >> 32 | kind->id[3] << 32);
	pr_put_le32(ports, (uint32_t)(kind->id[3] >> 32));
	add_hosts(s, kind, at);
	if (pri_header_layout_has_ports((uint8_t)(kind->id[2] >> 8)))
		add_ports(s, kind, at, 4, ports);
}

static __attribute__((flatten)) void
ip6_keys(struct pri_segment_keys *s, const struct pri_header_layout *kind,
	const uint64_t *more)
{
	struct pri_host_stats *items = s->addresses.items;
	uint8_t at[32], ports[4];
	uint32_t src, dst;

	pr_put_le32(ports, (uint32_t)(kind->id[2] >> 32));
	pr_put_le64(at, kind->id[3]);
	for (size_t i = 0; i < PRI_HEADER_LAYOUT_MORE; i++)
		pr_put_le64(at + 8 + 8 * i, more[i]);
	src = add_address(s, at, 16, PRI_HOST_SRC);
	dst = add_address(s, at + 16, 16, PRI_HOST_DST);
	count_addresses(kind, &items[src], &items[dst]);
	add_pair(s, at, at + 16, 16);
	add_ports(s, kind, at, 16, ports);
}

static inline void
plain_keys(struct pri_segment_keys *s, const struct pri_header_layout *kind,
	const uint64_t *more)
{
	uint8_t protocol = (uint8_t)(kind->id[2] >> 8);

	if (!link_seen(s, kind))
		add_link(s, kind);
	if (!test_and_set(s->seen_protocols, protocol))
		add(s, PRI_KEY_PROTO, &protocol, 1);
	if (pri_header_layout_version(kind) == 4)
		ip_keys(s, kind);
	else
		ip6_keys(s, kind, more);
}

/* ---- other kinds ---- */

static void
add_key(struct pri_segment_keys *s, const struct pri_key *key)
{
	switch (key->kind) {
	case PRI_KEY_SRC:
	case PRI_KEY_DST:
	case PRI_KEY_SPORT:
	case PRI_KEY_DPORT:
		break; /* counted as well: see there */
	case PRI_KEY_NET:
		if (key->len > 1) /* else with its address */
			add(s, PRI_KEY_NET, key->bytes, key->len);
		break;
	case PRI_KEY_MAC_SRC:
	case PRI_KEY_MAC_DST:
		add_mac(s, (enum pri_key_kind)key->kind, key->bytes);
		break;
	default:
		add(s, (enum pri_key_kind)key->kind, key->bytes, key->len);
	}
}

static struct pri_host_stats *
add_any_address(struct pri_segment_keys *s, const struct pri_packet_fields *f,
	const uint8_t *address, bool source)
{
	unsigned side = source ? PRI_HOST_SRC : PRI_HOST_DST;

	if (!(f->have & (source ? PRI_FIELD_SRC : PRI_FIELD_DST)))
		return NULL;
	return &s->addresses.items[add_address(s, address, f->address_len, side)];
}

/* pri_keys_of_fields does not make them. */
static void
add_sockets(struct pri_segment_keys *s, const struct pri_packet_fields *f)
{
	uint8_t port[2];

	pr_put_be16(port, f->sport);
	if (f->have & PRI_FIELD_SPORT && !pri_port_is_service(f->sport)) {
		if (f->have & PRI_FIELD_SRC)
			add_socket(s, PRI_SOCKET_SRC, f->src, f->address_len, port);
		if (f->have & PRI_FIELD_DST && f->sport >= PRI_PORT_FREE)
			add_socket(s, PRI_SOCKET_PEER, f->dst, f->address_len, port);
	}
	pr_put_be16(port, f->dport);
	if (f->have & PRI_FIELD_DPORT && !pri_port_is_service(f->dport)) {
		if (f->have & PRI_FIELD_DST)
			add_socket(s, PRI_SOCKET_DST, f->dst, f->address_len, port);
		if (f->have & PRI_FIELD_SRC && f->dport >= PRI_PORT_FREE)
			add_socket(s, PRI_SOCKET_PEER, f->src, f->address_len, port);
	}
}

static void
any_keys(struct pri_segment_keys *s, const struct pri_packet_fields *f,
	const struct pri_header_layout *kind)
{
	struct pri_key keys[PRI_KEYS_MAX];
	struct pri_host_stats *src, *dst;
	size_t count = pri_keys_of_fields(f, keys);
	uint8_t port[2];

	for (size_t i = 0; i < count; i++)
		add_key(s, &keys[i]);
	add_sockets(s, f);
	src = add_any_address(s, f, f->src, true);
	dst = add_any_address(s, f, f->dst, false);
	meet(s, src, dst);
	meet(s, dst, src);
	count_addresses(kind, src, dst);
	pr_put_be16(port, f->sport);
	if (f->have & PRI_FIELD_SPORT)
		add_port(s, port, true, f->protos[0] == 6);
	pr_put_be16(port, f->dport);
	if (f->have & PRI_FIELD_DPORT)
		add_port(s, port, false, f->protos[0] == 6);
}

int
pri_segment_keys_kinds(struct pri_segment_keys *s)
{
	for (size_t i = 0; i < s->kinds.count; i++) {
		const struct pri_header_layout *kind = &s->kinds.items[i];

		if (pri_hashset_prepare(&s->keys, MOST) < 0 ||
			pri_hashset_prepare(&s->wide, MOST) < 0)
			return -1;
		if (pri_header_layout_version(kind))
			plain_keys(s, kind, s->kinds.more[i]);
		else
			any_keys(s, pri_header_layout_fields(&s->kinds, kind), kind);
	}
	return 0;
}

/* Level 2 has none of them, so they do not go into wide. */
int
pri_segment_keys_composites(struct pri_segment_keys *s,
	const struct pri_linktype_layout *layout, const struct pr_packet *packet)
{
	struct pri_key keys[PRI_COMPOSITE_KEYS];
	struct pri_packet_fields f;

	if (pri_hashset_prepare(&s->keys, PRI_COMPOSITES_MAX * PRI_COMPOSITE_KEYS) < 0)
		return -1;
	pri_packet_fields_parse(layout, packet->data, packet->caplen, &f);
	for (size_t i = 0; i < PRI_COMPOSITES_MAX && s->composites.masks[i]; i++) {
		size_t count = pri_composite_keys(&f, s->composites.masks[i], keys);

		for (size_t j = 0; j < count; j++)
			pri_hashset_put(&s->keys, pri_key_hash(&keys[j]));
	}
	return 0;
}
