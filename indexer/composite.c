/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/composite.h"

#include <stdlib.h>
#include <string.h>

#include "proto/wire/cursor.h"

static const char *const names[PR_PARTS] = {
	"src", "dst", "sport", "dport", "proto", "vlan"};

/* ---- configuration ---- */

static int
part_find(const char *name, size_t len)
{
	for (int i = 0; i < PR_PARTS; i++)
		if (strlen(names[i]) == len && !strncmp(names[i], name, len))
			return i;
	return -1;
}

int
pr_composite_parse(const char *text, uint8_t *mask, struct pr_error *err)
{
	const char *at = text;

	*mask = 0;
	for (;;) {
		size_t len = strcspn(at, "+");
		int part = part_find(at, len);

		if (part < 0 || *mask & 1 << part)
			return pr_error_set(err,
				"'%s' is no composite key: parts joined by +, each once, "
				"of src, "
				"dst, sport, dport, proto, vlan",
				text);
		*mask |= (uint8_t)(1 << part);
		if (!at[len])
			break;
		at += len + 1;
	}
	if (!(*mask & (*mask - 1)))
		return pr_error_set(
			err, "'%s' is a key by itself: a composite has two parts", text);
	return 0;
}

static int
add(struct pr_composites *c, size_t *count, const char *text, struct pr_error *err)
{
	uint8_t mask;

	if (pr_composite_parse(text, &mask, err) < 0)
		return -1;
	for (size_t i = 0; i < *count; i++)
		if (c->masks[i] == mask)
			return 0;
	if (*count == PR_COMPOSITES_MAX)
		return pr_error_set(err, "at most %d composite keys", PR_COMPOSITES_MAX);
	c->masks[(*count)++] = mask;
	return 0;
}

int
pr_composites_parse(
	const struct pr_string_list *list, struct pr_composites *out, struct pr_error *err)
{
	size_t count = 0;
	int rc = 0;

	*out = (struct pr_composites){{0}};
	for (size_t i = 0; rc == 0 && i < list->count; i++) {
		char *copy = strdup(list->items[i]), *save = NULL;

		if (!copy)
			return pr_error_set(err, "no memory for composite keys");
		for (char *one = strtok_r(copy, ", ", &save); one && rc == 0;
			one = strtok_r(NULL, ", ", &save))
			rc = add(out, &count, one, err);
		free(copy);
	}
	return rc;
}

/* ---- keys ---- */

/* A key of kind PARTS, and a composite: mask, length of an address, then the parts as they come. */
#define PARTS_HEADER 2

static size_t
part_len(int part, size_t address)
{
	switch (1 << part) {
	case PR_PART_SRC:
	case PR_PART_DST:
		return address;
	case PR_PART_PROTO:
		return 1;
	default:
		return 2;
	}
}

static void
put_part(struct pr_key *key, int part, const uint8_t *bytes, size_t len)
{
	key->bytes[0] |= (uint8_t)(1 << part);
	memcpy(key->bytes + key->len, bytes, len);
	key->len = (uint8_t)(key->len + len);
}

static struct pr_key
begin_key(enum pr_key_kind kind, size_t address)
{
	struct pr_key key = {.kind = (uint8_t)kind, .len = PARTS_HEADER};

	key.bytes[1] = (uint8_t)address;
	return key;
}

/* IPv4 and IPv6 together match no packet; one of them is left out then. */
struct pr_key
pr_key_parts(const struct pr_key *const parts[PR_PARTS])
{
	size_t address = parts[0] ? parts[0]->len : parts[1] ? parts[1]->len : 0;
	struct pr_key key = begin_key(PR_KEY_PARTS, address);

	for (int i = 0; i < PR_PARTS; i++)
		if (parts[i] && parts[i]->len == part_len(i, address))
			put_part(&key, i, parts[i]->bytes, parts[i]->len);
	return key;
}

bool
pr_key_composite(const struct pr_key *parts, uint8_t mask, struct pr_key *out)
{
	size_t address = mask & (PR_PART_SRC | PR_PART_DST) ? parts->bytes[1] : 0;
	size_t at = PARTS_HEADER;

	if (!mask || mask & ~parts->bytes[0])
		return false;
	*out = begin_key(PR_KEY_COMPOSITE, address);
	for (int i = 0; i < PR_PARTS; i++) {
		size_t len = part_len(i, parts->bytes[1]);

		if (mask & 1 << i)
			put_part(out, i, parts->bytes + at, len);
		if (parts->bytes[0] & 1 << i)
			at += len;
	}
	return true;
}

size_t
pr_key_services(const struct pr_key *parts, struct pr_key out[PR_SERVICES_MAX])
{
	const uint8_t *at = parts->bytes + PARTS_HEADER, *address[2];
	size_t len = parts->bytes[1], addresses = 0, n = 0;

	for (int i = 0; 1 << i <= PR_PART_DPORT; i++) {
		if (!(parts->bytes[0] & 1 << i))
			continue;
		if (1 << i <= PR_PART_DST)
			address[addresses++] = at;
		else if (pr_port_is_service(pr_get_be16(at)))
			for (size_t j = 0; j < addresses; j++)
				out[n++] = pr_key_service(address[j], len, pr_get_be16(at));
		at += part_len(i, len);
	}
	return n;
}

/* Where in it the part is; NULL: it has not. */
static const uint8_t *
part_at(const struct pr_key *parts, uint8_t part)
{
	const uint8_t *at = parts->bytes + PARTS_HEADER;

	for (int i = 0; 1 << i < part; i++)
		if (parts->bytes[0] & 1 << i)
			at += part_len(i, parts->bytes[1]);
	return parts->bytes[0] & part ? at : NULL;
}

size_t
pr_key_sockets(const struct pr_key *parts, struct pr_key out[PR_SOCKETS_MAX])
{
	static const uint8_t sides[2][2] = {
		{PR_PART_SRC, PR_PART_SPORT}, {PR_PART_DST, PR_PART_DPORT}};
	size_t n = 0;

	for (int i = 0; i < 2; i++) {
		const uint8_t *address = part_at(parts, sides[i][0]),
			      *port = part_at(parts, sides[i][1]);

		if (address && port && !pr_port_is_service(pr_get_be16(port)))
			out[n++] = pr_key_socket(
				i == 0, address, parts->bytes[1], pr_get_be16(port));
	}
	return n;
}

/* ---- of packets ---- */

static bool
has_all(const struct pr_fields *f, uint8_t mask)
{
	unsigned need = (mask & PR_PART_SRC ? PR_FIELD_SRC : 0) |
			(mask & PR_PART_DST ? PR_FIELD_DST : 0) |
			(mask & PR_PART_SPORT ? PR_FIELD_SPORT : 0) |
			(mask & PR_PART_DPORT ? PR_FIELD_DPORT : 0);

	return (f->have & need) == need && !(mask & PR_PART_PROTO && !f->proto_count) &&
	       !(mask & PR_PART_VLAN && !f->tag_count);
}

static struct pr_key
key_of(const struct pr_fields *f, uint8_t mask, size_t proto, size_t tag)
{
	size_t address = mask & (PR_PART_SRC | PR_PART_DST) ? f->address_len : 0;
	struct pr_key key = begin_key(PR_KEY_COMPOSITE, address);
	uint8_t number[2];

	if (mask & PR_PART_SRC)
		put_part(&key, 0, f->src, address);
	if (mask & PR_PART_DST)
		put_part(&key, 1, f->dst, address);
	pr_put_be16(number, f->sport);
	if (mask & PR_PART_SPORT)
		put_part(&key, 2, number, 2);
	pr_put_be16(number, f->dport);
	if (mask & PR_PART_DPORT)
		put_part(&key, 3, number, 2);
	if (mask & PR_PART_PROTO)
		put_part(&key, 4, &f->protos[proto], 1);
	pr_put_be16(number, f->tags[tag]);
	if (mask & PR_PART_VLAN)
		put_part(&key, 5, number, 2);
	return key;
}

/* Of protocols and tags a packet may have several, and each is its key. */
size_t
pr_composite_keys(
	const struct pr_fields *f, uint8_t mask, struct pr_key out[PR_COMPOSITE_KEYS])
{
	size_t protos = mask & PR_PART_PROTO ? f->proto_count : 1;
	size_t tags = mask & PR_PART_VLAN ? f->tag_count : 1, n = 0;

	if (!mask || !has_all(f, mask))
		return 0;
	for (size_t i = 0; i < protos; i++)
		for (size_t j = 0; j < tags; j++)
			out[n++] = key_of(f, mask, i, j);
	return n;
}
