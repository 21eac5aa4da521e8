/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/decode_packets.h"
#include "tests/unit/unit.h"

/* Packets of random layers: nothing is read outside of them, and both directions of a flow hash alike. */

/* A random packet of random layers, right up to a random end. */
static void
random_packet(struct packet *p)
{
	static const uint16_t types[] = {
		0x0800, 0x86dd, 0x8100, 0x88a8, 0x8847, 0x8864, 0x0806};
	static const uint8_t protocols[] = {
		6, 17, 1, 58, 132, 47, 4, 41, 44, 0, 43, 60, 51, 50};
	p->len = 14 + (size_t)(rand() % 200);
	for (size_t i = 0; i < p->len; i++)
		p->data[i] = (uint8_t)(rand() % 4 ? rand() : 0);
	size_t at = 12;
	uint16_t type;
	do {
		type = types[rand() % 7];
		pr_put_be16(p->data + at, type);
		at += 4;
	} while ((type & 0xfff) == 0x100 || type == 0x88a8);
	at -= 2;
	for (int i = 0; i < 4 && at + 60 < sizeof p->data; i++) {
		bool v6 = type == 0x86dd;
		p->data[at] =
			(uint8_t)((v6 ? 0x60 : 0x40) | (rand() % 8 ? 5 : rand() % 16));
		pr_put_be16(p->data + at + (v6 ? 4 : 2), (uint16_t)(20 + rand() % 200));
		p->data[at + (v6 ? 6 : 9)] = protocols[rand() % 14];
		if (!v6)
			pr_put_be16(p->data + at + 6, (uint16_t)(rand() % 5 ? 0 : rand()));
		at += v6 ? 40 : 20;
		type = rand() % 2 ? 0x0800 : 0x86dd;
	}
	if (p->len > sizeof p->data)
		p->len = sizeof p->data;
}

/* No bytes may hurt; what is said to be there lies within them. */
START_TEST(property_in_bounds)
{
	static const uint16_t linktypes[] = {
		1, 1, 1, 0, 101, 108, 113, 228, 229, 276, 9999};
	struct packet p;
	struct pr_decoded d;
	int tunnels = 0, ports = 0;

	srand(21 + (unsigned)_i);
	for (int i = 0; i < 10000; i++) {
		random_packet(&p);
		decode_len(linktypes[rand() % 11], &p, p.len, &d);
		const struct pr_headers *all[] = {&d.outer, &d.inner};
		for (int k = 0; k < 2; k++) {
			ck_assert_uint_le(all[k]->ip_offset, p.len);
			ck_assert_uint_le(all[k]->l4_offset, p.len);
			ck_assert_uint_le(all[k]->payload_offset, p.len);
			ck_assert_uint_le(all[k]->vlan_count, 4);
			ck_assert_uint_le(all[k]->mpls_count, 4);
			ports += !!(all[k]->flags & PR_DECODE_PORTS);
		}
		ck_assert_uint_le(d.tunnels, 4);
		ck_assert_int_eq(d.tunnels > 0, !!(d.outer.flags & PR_DECODE_TUNNEL));
		tunnels += d.tunnels;
	}
	ck_assert_int_gt(tunnels, 30); /* or the random packets test nothing */
	ck_assert_int_gt(ports, 100);
}
END_TEST

static void
swap(uint8_t *a, uint8_t *b, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t t = a[i];
		a[i] = b[i];
		b[i] = t;
	}
}

/* The answer to any packet hashes like it: MACs, addresses and ports the other way round. */
START_TEST(property_hash_is_symmetric)
{
	struct packet p;
	struct pr_decoded d, back;
	int ports = 0;

	srand(31 + (unsigned)_i);
	for (int i = 0; i < 10000; i++) {
		random_packet(&p);
		decode_len(1, &p, p.len, &d);
		uint64_t seed = (uint64_t)rand(),
			 there = pr_flow_hash(&d, p.data, p.len, seed);
		swap(p.data, p.data + 6, 6);
		const struct pr_headers *h = &d.outer;
		if (h->flags & PR_DECODE_IP4)
			swap(p.data + h->ip_offset + 12, p.data + h->ip_offset + 16, 4);
		if (h->flags & PR_DECODE_IP6)
			swap(p.data + h->ip_offset + 8, p.data + h->ip_offset + 24, 16);
		if (h->flags & PR_DECODE_PORTS) {
			swap(p.data + h->l4_offset, p.data + h->l4_offset + 2, 2);
			ports++;
		}
		decode_len(1, &p, p.len, &back);
		ck_assert_uint_eq(pr_flow_hash(&back, p.data, p.len, seed), there);
		ck_assert_uint_ne(pr_flow_hash(&back, p.data, p.len, seed + 1), there);
	}
	ck_assert_int_gt(ports, 100);
}
END_TEST

START_TEST(hash_tells_flows_apart)
{
	struct packet p = {.len = 0};
	struct pr_decoded d;
	ethernet(&p, 0x0800);
	ip4(&p, 17, 0, 8);
	udp(&p, 1, 2);
	static const size_t at[] = {23, 26, 33, 35, 37}; /* protocol, addresses, ports */
	uint64_t hashes[6];
	for (size_t i = 0; i < 6; i++) {
		struct packet q = p;
		if (i)
			q.data[at[i - 1]] ^= i == 1 ? 17 ^ 136 : 0x10;
		decode_len(1, &q, q.len, &d);
		hashes[i] = pr_flow_hash(&d, q.data, q.len, 3);
		for (size_t k = 0; k < i; k++)
			ck_assert_uint_ne(hashes[i], hashes[k]);
	}
	/* MACs, identification, payload and what hides behind the tunnel do not count */
	p.data[0] ^= 1, p.data[6] ^= 3, p.data[19] ^= 1;
	decode_len(1, &p, p.len, &d);
	ck_assert_uint_eq(pr_flow_hash(&d, p.data, p.len, 3), hashes[0]);
	/* without IP: the MACs, either way, and the Ethertype */
	p.data[12] = 0x90;
	decode_len(1, &p, p.len, &d);
	uint64_t there = pr_flow_hash(&d, p.data, p.len, 3);
	swap(p.data, p.data + 6, 6);
	ck_assert_uint_eq(pr_flow_hash(&d, p.data, p.len, 3), there);
	p.data[5] ^= 4;
	ck_assert_uint_ne(pr_flow_hash(&d, p.data, p.len, 3), there);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_loop_test(t, property_in_bounds, 0, 4);
	tcase_add_loop_test(t, property_hash_is_symmetric, 0, 4);
	tcase_add_test(t, hash_tells_flows_apart);
}

int
main(void)
{
	return unit_run("random packets decoded", fill);
}
