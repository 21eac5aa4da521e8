/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/index_key.h"

#include "indexer/index/segment_tables.h"

/* ---- making ---- */

struct pri_key
pri_key_number(enum pri_key_kind kind, uint32_t value)
{
	static const uint8_t lens[PRI_KEY_KINDS] = {[PRI_KEY_ETHERTYPE] = 2,
		[PRI_KEY_VLAN] = 2,
		[PRI_KEY_MPLS] = 4,
		[PRI_KEY_PROTO] = 1,
		[PRI_KEY_SPORT] = 2,
		[PRI_KEY_DPORT] = 2,
		[PRI_KEY_PORT] = 2,
		[PRI_KEY_ICMP] = 1,
		[PRI_KEY_ICMP6] = 1};
	struct pri_key key = {.kind = kind, .len = lens[kind]};

	for (size_t i = key.len; i-- > 0; value >>= 8)
		key.bytes[i] = value;
	return key;
}

struct pri_key
pri_key_bytes(enum pri_key_kind kind, const void *bytes, size_t len)
{
	struct pri_key key = {.kind = kind, .len = len};

	if (len > PRI_KEY_MAX)
		return (struct pri_key){.kind = PRI_KEY_NONE};
	memcpy(key.bytes, bytes, len);
	return key;
}

struct pri_key
pri_key_pair(const uint8_t *a, const uint8_t *b, size_t len)
{
	struct pri_key key = {.kind = PRI_KEY_PAIR, .len = 2 * len};
	bool swap = memcmp(a, b, len) > 0;

	memcpy(key.bytes, swap ? b : a, len);
	memcpy(key.bytes + len, swap ? a : b, len);
	return key;
}

struct pri_key
pri_key_flow(uint8_t protocol, const uint8_t *src, const uint8_t *dst, size_t len,
	uint16_t sport, uint16_t dport)
{
	struct pri_key key = {.kind = PRI_KEY_FLOW, .len = 2 * len + 5};
	int order = memcmp(src, dst, len);
	bool swap = order > 0 || (order == 0 && sport > dport);

	key.bytes[0] = protocol;
	memcpy(key.bytes + 1, swap ? dst : src, len);
	memcpy(key.bytes + 1 + len, swap ? src : dst, len);
	pr_put_be16(key.bytes + 1 + 2 * len, swap ? dport : sport);
	pr_put_be16(key.bytes + 3 + 2 * len, swap ? sport : dport);
	return key;
}

struct pri_key
pri_key_service(const uint8_t *address, size_t len, uint16_t port)
{
	struct pri_key key = {.kind = PRI_KEY_SERVICE, .len = len + 2};

	memcpy(key.bytes, address, len);
	pr_put_be16(key.bytes + len, port);
	return key;
}

struct pri_key
pri_key_port_of(enum pri_key_kind kind, uint16_t port, uint8_t protocol)
{
	struct pri_key key = pri_key_number(kind, port);

	key.bytes[key.len++] = protocol == 6 ? 6 : 17;
	return key;
}

struct pri_key
pri_key_either(const struct pri_key *key)
{
	static const uint8_t of_sides[PRI_KEY_KINDS] = {[PRI_KEY_SRC] = PRI_KEY_ADDRESS,
		[PRI_KEY_DST] = PRI_KEY_ADDRESS,
		[PRI_KEY_SPORT] = PRI_KEY_PORT,
		[PRI_KEY_DPORT] = PRI_KEY_PORT,
		[PRI_KEY_MAC_SRC] = PRI_KEY_MAC,
		[PRI_KEY_MAC_DST] = PRI_KEY_MAC};
	struct pri_key either = *key;

	if (of_sides[key->kind])
		either.kind = of_sides[key->kind];
	if (either.kind == PRI_KEY_PORT)
		either.len = 2; /* of any protocol */
	return either;
}

uint64_t
pri_key_hash(const struct pri_key *key)
{
	return pri_key_hash_bytes(key->kind, key->bytes, key->len);
}

uint64_t
pri_key_signature(const struct pri_key *key)
{
	struct pri_key either = pri_key_either(key);

	return pri_signature_hash(pri_key_hash(key), pri_key_hash(&either));
}

size_t
pri_key_signatures(const struct pri_key *key, uint64_t out[PRI_SIGNATURES_MAX])
{
	static const uint8_t protocols[PRI_SIGNATURES_MAX] = {6, 17};
	struct pri_key one;

	if ((key->kind != PRI_KEY_SPORT && key->kind != PRI_KEY_DPORT) || key->len != 2) {
		out[0] = pri_key_signature(key);
		return 1;
	}
	for (size_t i = 0; i < PRI_SIGNATURES_MAX; i++) {
		one = pri_key_port_of(key->kind, pr_get_be16(key->bytes), protocols[i]);
		out[i] = pri_key_signature(&one);
	}
	return PRI_SIGNATURES_MAX;
}

/* ---- a packet's keys ---- */

static size_t
address_keys(enum pri_key_kind kind, const uint8_t *address, size_t captured, size_t len,
	struct pri_key *out)
{
	static const uint8_t prefixes[2][3] = {{1, 2, 3}, {4, 6, 8}};
	const uint8_t *lens = prefixes[len == 16];
	size_t n = 0;

	if (len && captured == len)
		out[n++] = pri_key_bytes(kind, address, len);
	for (size_t i = 0; i < 3 && lens[i] <= captured; i++)
		out[n++] = pri_key_bytes(PRI_KEY_NET, address, lens[i]);
	return n;
}

static size_t
port_keys(enum pri_key_kind kind, const struct pri_packet_fields *f, uint16_t port,
	struct pri_key *out)
{
	size_t n = 0;

	out[n++] = pri_key_number(kind, port);
	if (pri_port_is_service(port) && f->have & PRI_FIELD_SRC)
		out[n++] = pri_key_service(f->src, f->address_len, port);
	if (pri_port_is_service(port) && f->have & PRI_FIELD_DST)
		out[n++] = pri_key_service(f->dst, f->address_len, port);
	return n;
}

size_t
pri_keys_of_fields(const struct pri_packet_fields *f, struct pri_key out[PRI_KEYS_MAX])
{
	size_t n = 0;

	if (f->have & PRI_FIELD_MAC_DST)
		out[n++] = pri_key_bytes(PRI_KEY_MAC_DST, f->macs, 6);
	if (f->have & PRI_FIELD_MAC_SRC)
		out[n++] = pri_key_bytes(PRI_KEY_MAC_SRC, f->macs + 6, 6);
	for (size_t i = 0; i < f->type_count; i++)
		out[n++] = pri_key_number(PRI_KEY_ETHERTYPE, f->types[i]);
	for (size_t i = 0; i < f->tag_count; i++)
		out[n++] = pri_key_number(PRI_KEY_VLAN, f->tags[i]);
	for (size_t i = 0; i < f->label_count; i++)
		out[n++] = pri_key_number(PRI_KEY_MPLS, f->labels[i]);
	for (size_t i = 0; i < f->proto_count; i++)
		out[n++] = pri_key_number(PRI_KEY_PROTO, f->protos[i]);
	n += address_keys(PRI_KEY_SRC, f->src, f->src_len, f->address_len, out + n);
	n += address_keys(PRI_KEY_DST, f->dst, f->dst_len, f->address_len, out + n);
	if (f->have & PRI_FIELD_SRC && f->have & PRI_FIELD_DST)
		out[n++] = pri_key_pair(f->src, f->dst, f->address_len);
	if (f->have & PRI_FIELD_SPORT)
		n += port_keys(PRI_KEY_SPORT, f, f->sport, out + n);
	if (f->have & PRI_FIELD_DPORT)
		n += port_keys(PRI_KEY_DPORT, f, f->dport, out + n);
	if (f->have & PRI_FIELD_FRAGMENT)
		out[n++] = pri_key_number(PRI_KEY_FRAGMENT, 0);
	if (f->have & PRI_FIELD_ICMP)
		out[n++] = pri_key_number(PRI_KEY_ICMP, f->icmp);
	if (f->have & PRI_FIELD_ICMP6)
		out[n++] = pri_key_number(PRI_KEY_ICMP6, f->icmp);
	return n;
}

/* ---- composites ---- */

static const char *const names[PRI_PARTS] = {
	"src", "dst", "sport", "dport", "proto", "vlan"};

/* ---- configuration ---- */

/* Adds the composite, if it is new. */
static int
parse_composite(
	const char *text, struct pri_composites *c, size_t *count, struct pr_error *err)
{
	uint8_t mask = 0;
	size_t len;
	int part;

	for (const char *at = text;; at += len + 1) {
		len = strcspn(at, "+");
		for (part = 0; part < PRI_PARTS; part++)
			if (strlen(names[part]) == len && !strncmp(names[part], at, len))
				break;
		if (part == PRI_PARTS || mask & 1 << part)
			return pr_error_set(err,
				"'%s' is no composite key: parts joined by +, each once, "
				"of src, dst, sport, dport, proto, vlan",
				text);
		mask |= 1 << part;
		if (!at[len])
			break;
	}
	if (!(mask & (mask - 1)))
		return pr_error_set(
			err, "'%s' is a key by itself: a composite has two parts", text);
	if (*count && memchr(c->masks, mask, *count))
		return 0;
	if (*count == PRI_COMPOSITES_MAX)
		return pr_error_set(err, "at most %d composite keys", PRI_COMPOSITES_MAX);
	c->masks[(*count)++] = mask;
	return 0;
}

int
pri_composites_parse(
	const struct pr_string_list *list, struct pri_composites *out, struct pr_error *err)
{
	size_t count = 0;
	int rc = 0;

	*out = (struct pri_composites){{0}};
	for (size_t i = 0; rc == 0 && i < list->count; i++) {
		char *copy = strdup(list->items[i]), *save = NULL;

		if (!copy)
			return pr_error_set(err, "no memory for composite keys");
		for (char *one = strtok_r(copy, ", ", &save); one && rc == 0;
			one = strtok_r(NULL, ", ", &save))
			rc = parse_composite(one, out, &count, err);
		free(copy);
	}
	return rc;
}

/* ---- keys ---- */

/* Bytes of a composite key: mask, length of an address, then the parts. */
#define HEADER 2

static size_t
part_len(int part, size_t address)
{
	bool is_address = 1 << part & (PRI_PART_SRC | PRI_PART_DST);

	return is_address ? address : 1 << part == PRI_PART_PROTO ? 1 : 2;
}

static void
put_part(struct pri_key *key, int part, const uint8_t *bytes, size_t len)
{
	key->bytes[0] |= 1 << part;
	memcpy(key->bytes + key->len, bytes, len);
	key->len = key->len + len;
}

/* IPv4 and IPv6 together match no packet; one of them is left out then. */
struct pri_key
pri_key_parts(const struct pri_key *const parts[PRI_PARTS])
{
	size_t address = parts[0] ? parts[0]->len : parts[1] ? parts[1]->len : 0;
	struct pri_key key = {.kind = PRI_KEY_PARTS, .len = HEADER, .bytes = {0, address}};

	for (int i = 0; i < PRI_PARTS; i++)
		if (parts[i] && parts[i]->len == part_len(i, address))
			put_part(&key, i, parts[i]->bytes, parts[i]->len);
	return key;
}

bool
pri_key_composite(const struct pri_key *parts, uint8_t mask, struct pri_key *out)
{
	size_t address = mask & (PRI_PART_SRC | PRI_PART_DST) ? parts->bytes[1] : 0;
	size_t at = HEADER;

	if (!mask || mask & ~parts->bytes[0])
		return false;
	*out = (struct pri_key){
		.kind = PRI_KEY_COMPOSITE, .len = HEADER, .bytes = {0, address}};
	for (int i = 0; i < PRI_PARTS; i++) {
		size_t len = part_len(i, parts->bytes[1]);

		if (mask & 1 << i)
			put_part(out, i, parts->bytes + at, len);
		if (parts->bytes[0] & 1 << i)
			at += len;
	}
	return true;
}

/* ---- of packets ---- */

/* A packet may have several protocols and tags; each is a key. */
size_t
pri_composite_keys(const struct pri_packet_fields *f, uint8_t mask,
	struct pri_key out[PRI_COMPOSITE_KEYS])
{
	struct pri_key keys[PRI_PARTS] = {pri_key_bytes(
						  PRI_KEY_SRC, f->src, f->address_len),
		pri_key_bytes(PRI_KEY_DST, f->dst, f->address_len),
		pri_key_number(PRI_KEY_SPORT, f->sport),
		pri_key_number(PRI_KEY_DPORT, f->dport), pri_key_number(PRI_KEY_PROTO, 0),
		pri_key_number(PRI_KEY_VLAN, 0)},
		       all;
	const bool there[PRI_PARTS] = {f->have & PRI_FIELD_SRC, f->have & PRI_FIELD_DST,
		f->have & PRI_FIELD_SPORT, f->have & PRI_FIELD_DPORT, f->proto_count,
		f->tag_count};
	const struct pri_key *parts[PRI_PARTS];
	size_t protos = mask & PRI_PART_PROTO ? f->proto_count : 1;
	size_t tags = mask & PRI_PART_VLAN ? f->tag_count : 1, n = 0;

	for (int i = 0; i < PRI_PARTS; i++)
		parts[i] = mask & 1 << i && there[i] ? &keys[i] : NULL;
	for (size_t i = 0; i < protos; i++)
		for (size_t j = 0; j < tags; j++) {
			keys[4].bytes[0] = f->protos[i];
			pr_put_be16(keys[5].bytes, f->tags[j]);
			all = pri_key_parts(parts);
			n += pri_key_composite(&all, mask, &out[n]);
		}
	return n;
}
