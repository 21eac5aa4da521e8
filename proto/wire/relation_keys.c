/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/relation_keys.h"

#include <string.h>
#include <xxhash.h>

#include "proto/base/cursor.h"

enum { KEY_FRAGMENT = 1, KEY_PACKET = 2 };
enum { UDP = 17, UDPLITE = 136 };

#define KEY_BYTES 52

static size_t
put(uint8_t *to, size_t at, const void *from, size_t len)
{
	memcpy(to + at, from, len);
	return at + len;
}

static size_t
address_len(const struct pr_headers *h)
{
	return h->flags & PR_DECODE_IP4 ? 4 : 16;
}

static size_t
put_addresses(uint8_t *to, size_t at, const struct pr_headers *h)
{
	at = put(to, at, h->src, address_len(h));
	return put(to, at, h->dst, address_len(h));
}

/* In IPv6 only the first fragment tells the protocol for sure. */
bool
pr_relation_fragment(const struct pr_headers *h, uint64_t *key)
{
	uint8_t bytes[KEY_BYTES] = {KEY_FRAGMENT}, id[4];
	size_t at = 1;

	if (!pr_relation_ip(h) || !(h->flags & PR_DECODE_FRAGMENT))
		return false;
	bytes[at++] = h->flags & PR_DECODE_IP4 ? h->protocol : 0;
	pr_put_be32(id, h->fragment_id);
	at = put_addresses(bytes, at, h);
	at = put(bytes, at, id, sizeof(id));
	*key = XXH3_64bits(bytes, at);
	return true;
}

/* The bytes of the transport header that stay as they are from hop to hop; 0: they are not captured. */
static size_t
put_transport(uint8_t *to, size_t at, const struct pr_headers *h,
	const struct pr_relation_bytes *b)
{
	size_t left = h->l4_offset < b->len ? b->len - h->l4_offset : 0;
	const uint8_t *l4 = b->data + h->l4_offset;

	if (!h->l4_offset || left < 8)
		return 0;
	if (h->protocol == UDP || h->protocol == UDPLITE)
		return put(to, at, l4, 6);
	if (h->protocol != PR_RELATION_ICMP && h->protocol != PR_RELATION_ICMP6)
		return put(to, at, l4, 8);
	at = put(to, at, l4, 2);
	return put(to, at, l4 + 4, 4);
}

bool
pr_relation_packet(
	const struct pr_headers *h, const struct pr_relation_bytes *b, uint64_t *key)
{
	uint8_t bytes[KEY_BYTES] = {KEY_PACKET}, id[2];
	size_t at = 1;

	if (!pr_relation_ip(h) || h->flags & PR_DECODE_FRAGMENT_LATER)
		return false;
	bytes[at++] = h->protocol;
	pr_put_be16(id, h->flags & PR_DECODE_IP4 ? (uint16_t)h->fragment_id : 0);
	at = put(bytes, at, id, sizeof(id));
	at = put_addresses(bytes, at, h);
	at = put_transport(bytes, at, h, b);
	if (!at)
		return false;
	*key = XXH3_64bits(bytes, at);
	return true;
}
