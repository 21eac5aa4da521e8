/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "proto/base/cursor.h"

/* Packets of few addresses, ports and numbers, in all forms that keys are taken of, and nearly right ones. */
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static const uint8_t v4[3][4] = {{10, 1, 2, 3}, {10, 1, 9, 9}, {192, 0, 2, 77}};
static const uint8_t v6[2][16] = {{0x20, 1, 0xd, 0xb8, 0, 1, 0, 2, [15] = 1},
	{0x20, 1, 0xd, 0xb8, 0, 7, 0, 2, [15] = 9}};
static const uint8_t mac[6] = {2, 0, 0, 0, 0, 5};

struct frame {
	uint8_t data[200];
	uint32_t len;
};

static uint32_t
pick(uint32_t n)
{
	return (uint32_t)random() % n;
}

static void
put(struct frame *f, const void *bytes, size_t len)
{
	memcpy(f->data + f->len, bytes, len);
	f->len += (uint32_t)len;
}

static void
put16(struct frame *f, uint16_t v)
{
	pr_put_be16(f->data + f->len, v);
	f->len += 2;
}

static void
put32(struct frame *f, uint32_t v)
{
	pr_put_be32(f->data + f->len, v);
	f->len += 4;
}

static uint8_t
some_proto(void)
{
	static const uint8_t protos[] = {1, 6, 17, 132, 58, 44, 47};

	return protos[pick(COUNT(protos))];
}

static void
put_transport(struct frame *f)
{
	static const uint16_t ports[] = {80, 53, 0x0800, 4000};

	put16(f, ports[pick(4)]);
	put16(f, ports[pick(4)]);
	put32(f, pick(300));
}

static void
put_ip(struct frame *f)
{
	uint32_t start = f->len;
	uint8_t *net = f->data + start, options = (uint8_t)pick(4);

	f->len += 12;
	net[0] = pick(8) ? 0x45 : (uint8_t)(0x40 | pick(16));
	pr_put_be16(net + 6, pick(4) ? (uint16_t)(pick(8) << 13) : (uint16_t)pick(9));
	net[9] = some_proto();
	put(f, v4[pick(3)], 4);
	put(f, v4[pick(3)], 4);
	if (options == 0) {
		net[0] = 0x47;
		put32(f, 0x01010101);
		put32(f, 0x01010100);
	}
	put_transport(f);
}

static void
put_ip6(struct frame *f)
{
	put32(f, 0x60000000);
	put16(f, 40);
	f->data[f->len++] = some_proto();
	f->data[f->len++] = 64;
	put(f, v6[pick(2)], 16);
	put(f, v6[pick(2)], 16);
	if (f->data[f->len - 34] == 44)
		put32(f, (uint32_t)some_proto() << 24);
	put_transport(f);
}

static void
put_arp(struct frame *f)
{
	put32(f, 0x00010800);
	put32(f, 0x06040001);
	put(f, mac, 6);
	put(f, v4[pick(3)], 4);
	put(f, mac, 6);
	put(f, v4[pick(3)], 4);
}

static void
put_net(struct frame *f, uint16_t type)
{
	if (type == 0x0800)
		put_ip(f);
	else if (type == 0x86dd)
		put_ip6(f);
	else
		put_arp(f);
}

static void
put_labels(struct frame *f)
{
	uint32_t n = pick(3);

	for (uint32_t i = 0; i <= n; i++)
		put32(f, (uint32_t)(5 + pick(3)) << 12 | (i == n) << 8 | 64);
	put_net(f, pick(2) ? 0x0800 : 0x86dd);
}

static void
put_pppoe(struct frame *f)
{
	uint16_t numbers[] = {0x21, 0x57, 0x0806, 0xc021}, number = numbers[pick(4)];

	put16(f, 0x1100);
	put16(f, 3);
	put16(f, 50);
	put16(f, number);
	put_net(f, number == 0x21 ? 0x0800 : number == 0x57 ? 0x86dd : 0x0806);
}

static void
make_ether(struct frame *f)
{
	static const uint16_t tags[] = {0x8100, 0x88a8, 0x9100},
			      types[] = {0x0800, 0x0800, 0x86dd, 0x0806, 0x8035, 0x8847,
				      0x8864, 0x0026};
	uint16_t type = types[pick(COUNT(types))];

	put(f, pick(2) ? mac : (const uint8_t[6]){1}, 6);
	put(f, pick(2) ? mac : (const uint8_t[6]){3}, 6);
	for (uint32_t n = pick(2) ? 0 : pick(11); n > 0; n--) {
		put16(f, tags[pick(3)]);
		put16(f, (uint16_t)(pick(16) << 12 | (4 + pick(3))));
	}
	put16(f, type);
	if (type == 0x8847)
		put_labels(f);
	else if (type == 0x8864)
		put_pppoe(f);
	else
		put_net(f, type);
}

/* The value of the link type's own field for an Ethertype. */
static void
make_frame(struct frame *f, uint16_t linktype)
{
	bool ip6 = pick(2);

	*f = (struct frame){0};
	switch (linktype) {
	case 1:
		make_ether(f);
		break;
	case 113:
		f->len = 14;
		put16(f, ip6 ? 0x86dd : 0x0800);
		put_net(f, ip6 ? 0x86dd : 0x0800);
		break;
	case 276:
		put16(f, ip6 ? 0x86dd : 0x0800);
		f->len = 20;
		put_net(f, ip6 ? 0x86dd : 0x0800);
		break;
	case 0:
		put32(f, (ip6 ? 30u : 2u) << 24);
		put_net(f, ip6 ? 0x86dd : 0x0800);
		break;
	case 9:
		put16(f, 0xff03);
		put16(f, ip6 ? 0x57 : 0x21);
		put_net(f, ip6 ? 0x86dd : 0x0800);
		break;
	default:
		put_net(f, ip6 ? 0x86dd : 0x0800);
	}
}

static void
spoil(struct frame *f)
{
	if (pick(4) == 0)
		f->data[pick(f->len)] ^= (uint8_t)(1u << pick(8));
	if (pick(3) == 0)
		f->len = pick(f->len + 1);
}
