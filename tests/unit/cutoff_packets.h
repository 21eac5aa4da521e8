/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/cutoff.h"
#include "proto/base/cursor.h"
#include "tests/unit/unit.h"

/* A packet as a test describes it, and its bytes. */
enum kind { WHOLE, FIRST, LATER, ERROR_OF, ERROR_OF_LATER, NOT_IP };
enum { TCP = 6, UDP = 17, ICMP = 1, ICMP6 = 58 };
enum { FIN = 1, SYN = 2, RST = 4, ACK = 16 };

struct shape {
	enum kind kind;
	unsigned link;
	uint16_t vlan; /* or PR_UNTAGGED */
	bool six,
		options; /* IPv4 options, an extension header: both leave the short path */
	uint8_t protocol, flags;
	uint8_t host[2]; /* sender, receiver; of an error: of the packet that it quotes */
	uint16_t port[2];
	uint32_t id;
	uint8_t router; /* sends the error */
	int64_t time;
	uint32_t len;
};

struct frame {
	uint8_t data[256];
	uint32_t caplen;
};

static inline void
put_bytes(struct frame *f, const void *bytes, size_t len)
{
	unit_must(f->caplen + len <= sizeof f->data);
	memcpy(f->data + f->caplen, bytes, len);
	f->caplen += (uint32_t)len;
}

#define PUT_BYTES(f, ...)                                                                  \
	put_bytes(f, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

/* The other direction. */
static inline void
turn(struct shape *s)
{
	uint8_t host = s->host[0];
	uint16_t port = s->port[0];

	s->host[0] = s->host[1];
	s->host[1] = host;
	s->port[0] = s->port[1];
	s->port[1] = port;
}

static inline void
address_of(bool six, uint8_t host, uint8_t out[16])
{
	memset(out, 0, 16);
	if (six)
		memcpy(out, (const uint8_t[]){0xfd, 0, 0, 0, host}, 5), out[15] = host;
	else
		memcpy(out, (const uint8_t[]){10, host, 0, host}, 4);
}

static inline void
put_ip(struct frame *f, const struct shape *s, uint8_t protocol, uint8_t from, uint8_t to,
	enum kind kind, uint16_t payload)
{
	uint16_t offset = kind == LATER ? 100 : 0, more = kind == FIRST;
	uint8_t src[16], dst[16];
	bool piece = kind == FIRST || kind == LATER;

	address_of(s->six, from, src);
	address_of(s->six, to, dst);
	if (!s->six) {
		uint16_t total = (uint16_t)(payload + 20 + (s->options ? 4 : 0));
		uint16_t fragment = (uint16_t)(offset | (more ? 0x2000 : 0));

		PUT_BYTES(f, s->options ? 0x46 : 0x45, 0, (uint8_t)(total >> 8),
			(uint8_t)total, (uint8_t)(s->id >> 8), (uint8_t)s->id,
			(uint8_t)(fragment >> 8), (uint8_t)fragment, 64, protocol, 0, 0);
		put_bytes(f, src, 4);
		put_bytes(f, dst, 4);
		if (s->options)
			PUT_BYTES(f, 1, 1, 1, 0);
		return;
	}
	uint16_t total = (uint16_t)(payload + (s->options ? 8 : 0) + (piece ? 8 : 0));
	PUT_BYTES(f, 0x60, 0, 0, 0, (uint8_t)(total >> 8), (uint8_t)total,
		s->options ? 60
		: piece    ? 44
			   : protocol,
		64);
	put_bytes(f, src, 16);
	put_bytes(f, dst, 16);
	if (s->options)
		PUT_BYTES(f, piece ? 44 : protocol, 0, 1, 4, 0, 0, 0, 0);
	if (piece)
		PUT_BYTES(f, protocol, 0, (uint8_t)(offset >> 5),
			(uint8_t)(offset << 3 | more), (uint8_t)(s->id >> 24),
			(uint8_t)(s->id >> 16), (uint8_t)(s->id >> 8), (uint8_t)s->id);
}

static inline void
put_transport(struct frame *f, const struct shape *s, uint8_t flags)
{
	uint8_t port[4];

	pr_put_be16(port, s->port[0]);
	pr_put_be16(port + 2, s->port[1]);
	if (s->protocol == ICMP || s->protocol == ICMP6)
		PUT_BYTES(f, s->protocol == ICMP ? 8 : 128, 0, 0, 0, 0, 1, 0, 1);
	else if (s->protocol == TCP) {
		put_bytes(f, port, 4);
		PUT_BYTES(f, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0, 0, 0, 0, 0, 0);
	} else if (s->protocol == UDP) {
		put_bytes(f, port, 4);
		PUT_BYTES(f, 0, 8, 0, 0);
	} else {
		PUT_BYTES(f, 1, 2, 3, 4, 5, 6, 7, 8);
	}
}

static inline struct frame
frame_of(const struct shape *s)
{
	struct frame f = {.caplen = 0};
	bool error = s->kind == ERROR_OF || s->kind == ERROR_OF_LATER;
	uint16_t transport = s->protocol == TCP ? 20 : 8;

	PUT_BYTES(&f, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2);
	if (s->vlan != PR_UNTAGGED)
		PUT_BYTES(&f, s->id & 1 ? 0x81 : 0x88, s->id & 1 ? 0 : 0xa8,
			(uint8_t)(s->vlan >> 8 | 0x20), (uint8_t)s->vlan);
	if (s->kind == NOT_IP) {
		PUT_BYTES(&f, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1);
	} else {
		PUT_BYTES(&f, s->six ? 0x86 : 0x08, s->six ? 0xdd : 0);
	}
	if (error) {
		struct frame q = {.caplen = 0};

		put_ip(&q, s, s->protocol, s->host[0], s->host[1],
			s->kind == ERROR_OF ? WHOLE : LATER, 600);
		put_transport(&q, s, ACK);
		put_ip(&f, s, s->six ? ICMP6 : ICMP, s->router, s->host[0], WHOLE,
			(uint16_t)(8 + q.caplen));
		PUT_BYTES(&f, s->six ? 1 : 3, 1, 0, 0, 0, 0, 0, 0);
		put_bytes(&f, q.data, q.caplen);
	} else if (s->kind != NOT_IP) {
		put_ip(&f, s, s->protocol, s->host[0], s->host[1], s->kind, transport);
		if (s->kind == LATER)
			PUT_BYTES(&f, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,
				9, 9);
		else
			put_transport(&f, s, s->flags);
	}
	return f;
}

/* ---- a cutoff ---- */

#define BEGIN INT64_C(1700000000000000000)

static struct pr_error err;

static inline struct prd_cutoff *
create(uint64_t memory, unsigned links, size_t count, const char *const *classes)
{
	struct pr_string_list list = {NULL, 0};

	err.text[0] = '\0';
	for (size_t i = 0; i < count; i++)
		ck_assert_int_eq(
			pr_string_list_add(&list, classes[i], strlen(classes[i]), &err), 0);
	struct prd_cutoff *c = prd_cutoff_create(
		&(struct prd_cutoff_options){
			.classes = &list, .memory = memory, .links = links},
		&err);
	pr_string_list_clear(&list);
	return c;
}

#define CREATE(memory, links, ...)                                                         \
	create(memory, links, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), \
		(const char *const[]){__VA_ARGS__})

static inline bool
keeps(struct prd_cutoff *c, struct shape s)
{
	struct frame f = frame_of(&s);
	/* of exactly the frame's length, so that a read behind it is seen by the sanitizers */
	uint8_t *copy = malloc(f.caplen);

	memcpy(copy, f.data, f.caplen);
	bool kept = prd_cutoff_keeps(c, s.link, s.time, copy, f.caplen, s.len);
	free(copy);
	return kept;
}

static const struct shape udp = {.vlan = PR_UNTAGGED,
	.protocol = UDP,
	.host = {1, 2},
	.port = {1000, 53},
	.time = BEGIN,
	.len = 100};
static const struct shape tcp = {.vlan = PR_UNTAGGED,
	.protocol = TCP,
	.flags = ACK,
	.host = {1, 2},
	.port = {1000, 80},
	.time = BEGIN,
	.len = 100};

#define WITH(base, ...)                                                                    \
	({                                                                                 \
		struct shape with_ = base, *s = &with_;                                    \
		__VA_ARGS__;                                                               \
		with_;                                                                     \
	})

/* Takes the next sum: of how many packets. */
static inline uint64_t
take_packets(struct prd_cutoff *c, unsigned link)
{
	uint8_t frame[PR_BEYOND_MAX];
	struct pr_packet p = {.data = frame};
	struct pr_beyond b;
	int64_t time;

	p.caplen = (uint32_t)prd_cutoff_take(c, link, PR_TIME_MAX, frame, &time);
	unit_must(pr_beyond_load(&p, &b));
	return b.packets;
}
