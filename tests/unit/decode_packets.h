/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/cursor.h"
#include "proto/wire/decode.h"

/* A packet under construction, header behind header. */
struct packet {
	uint8_t data[1024];
	size_t len;
};

static inline void
put(struct packet *p, const void *bytes, size_t len)
{
	ck_assert_uint_le(p->len + len, sizeof p->data);
	memcpy(p->data + p->len, bytes, len);
	p->len += len;
}

#define PUT(p, ...)                                                                        \
	put(p, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static inline void
ethernet(struct packet *p, uint16_t type)
{
	PUT(p, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, (uint8_t)(type >> 8), (uint8_t)type);
}

/* 10.0.0.1 to 10.0.0.2, with payload bytes to come */
static inline void
ip4(struct packet *p, uint8_t protocol, uint16_t fragment, uint16_t payload)
{
	uint16_t total = (uint16_t)(payload + 20);
	PUT(p, 0x45, 0, (uint8_t)(total >> 8), (uint8_t)total, 0x12, 0x34,
		(uint8_t)(fragment >> 8), (uint8_t)fragment, 64, protocol, 0, 0, 10, 0, 0,
		1, 10, 0, 0, 2);
}

/* fd00::1 to fd00::2 */
static inline void
ip6(struct packet *p, uint8_t next, uint16_t payload)
{
	PUT(p, 0x60, 0, 0, 0, (uint8_t)(payload >> 8), (uint8_t)payload, next, 63);
	PUT(p, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1);
	PUT(p, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2);
}

static inline void
udp(struct packet *p, uint16_t from, uint16_t to)
{
	PUT(p, (uint8_t)(from >> 8), (uint8_t)from, (uint8_t)(to >> 8), (uint8_t)to, 0, 8,
		0, 0);
}

/* 1000 to 80, SYN and ACK, four bytes of options */
static inline void
tcp(struct packet *p)
{
	PUT(p, 0x03, 0xe8, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, 0x12, 0, 0, 0, 0, 0, 0, 1,
		1, 1, 0);
}

/* Decodes a copy of exactly len bytes, so that a read behind it is seen by the sanitizers. */
static inline void
decode_len(uint16_t linktype, const struct packet *p, size_t len, struct pr_decoded *d)
{
	uint8_t *copy = malloc(len ? len : 1);
	memcpy(copy, p->data, len);
	memset(d, 0xee, sizeof *d);
	pr_decode(linktype, copy, len, d);
	(void)pr_flow_hash(d, copy, len, 1);
	free(copy);
}

static inline bool
same(const struct pr_headers *a, const struct pr_headers *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

/*
 * Decodes p whole, then each of its beginnings: these never show a header that the whole has not,
 * and say that they are cut as long as the headers go on (needed bytes of them).
 */
static inline struct pr_decoded
decode_as(uint16_t linktype, const struct packet *p, size_t needed)
{
	struct pr_decoded d, part;

	decode_len(linktype, p, p->len, &d);
	for (size_t len = 0; len < p->len; len++) {
		decode_len(linktype, p, len, &part);
		unsigned flags = part.tunnels ? part.inner.flags : part.outer.flags;
		ck_assert_msg(!!(flags & PR_DECODE_TRUNCATED) == (len < needed),
			"%zu bytes of %zu", len, needed);
		ck_assert_int_eq(flags & PR_DECODE_MALFORMED, 0);
		ck_assert_uint_le(part.tunnels, d.tunnels);
		if (len >= needed)
			ck_assert(
				same(&part.outer, &d.outer) && same(&part.inner, &d.inner));
	}
	ck_assert_int_eq(d.outer.flags & (PR_DECODE_TRUNCATED | PR_DECODE_MALFORMED), 0);
	return d;
}

static inline struct pr_decoded
decode(const struct packet *p)
{
	return decode_as(1, p, p->len);
}
