/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/plan_leaf.h"

#include "indexer/filter/plan_composite.h"
#include "proto/wire/cursor.h"

static unsigned
leading_bits(const uint8_t *mask, unsigned bytes)
{
	unsigned bits = 0;

	while (bits < 8 * bytes && mask[bits / 8] & 0x80 >> bits % 8)
		bits++;
	return bits;
}

static uint32_t
bytes_key(struct pri_terms *t, enum pri_key_kind kind, const uint8_t *bytes, size_t len)
{
	struct pri_key key = pri_key_bytes(kind, bytes, len);

	return pri_plan_key(t, &key);
}

/* A mask that is no prefix of a key: the prefix that is, and the range of numbers. */
static uint32_t
lower_ip4(struct pri_terms *t, const struct pri_term_leaf *leaf, bool src)
{
	unsigned bits = leading_bits(leaf->mask, 4);
	uint32_t mask = bits ? UINT32_MAX << (32 - bits) : 0,
		 value = pr_get_be32(leaf->value) & mask, net = PRI_TERM_TRUE;
	struct pri_term_leaf range = {.op = PRI_PLAN_RANGE,
		.range = {.number = src ? PRI_NUMBER_SRC4 : PRI_NUMBER_DST4,
			.least = value,
			.most = value | ~mask}};

	if (bits == 32)
		return bytes_key(t, src ? PRI_KEY_SRC : PRI_KEY_DST, leaf->value, 4);
	if (bits >= 8)
		net = bytes_key(t, PRI_KEY_NET, leaf->value, bits / 8);
	if (bits % 8 == 0 || !leaf->whole)
		return net;
	return pri_term_and(t, net, pri_term_leaf(t, &range));
}

static uint32_t
lower_ip6(struct pri_terms *t, const struct pri_term_leaf *leaf, bool src)
{
	unsigned bits = leading_bits(leaf->mask, 16);

	if (bits == 128)
		return bytes_key(t, src ? PRI_KEY_SRC : PRI_KEY_DST, leaf->value, 16);
	if (bits < 32)
		return PRI_TERM_TRUE;
	return bytes_key(t, PRI_KEY_NET, leaf->value, bits >= 64 ? 8 : bits >= 48 ? 6 : 4);
}

uint32_t
pri_plan_leaf(struct pri_terms *t, uint32_t node)
{
	struct pri_term_leaf leaf = *pri_term_leaf_of(t, node);
	const struct pri_plan_range *r = &leaf.range;
	bool port = r->number == PRI_NUMBER_SPORT || r->number == PRI_NUMBER_DPORT;

	if (leaf.op == PRI_PLAN_RANGE && port && r->least == r->most) {
		struct pri_key key = pri_key_number(
			r->number == PRI_NUMBER_SPORT ? PRI_KEY_SPORT : PRI_KEY_DPORT,
			(uint32_t)r->least);
		return pri_plan_key(t, &key);
	}
	if (leaf.op != PRI_TERM_BYTES)
		return node;
	switch (leaf.field) {
	case PRI_TERM_SRC4:
	case PRI_TERM_DST4:
		return lower_ip4(t, &leaf, leaf.field == PRI_TERM_SRC4);
	case PRI_TERM_SRC6:
	case PRI_TERM_DST6:
		return lower_ip6(t, &leaf, leaf.field == PRI_TERM_SRC6);
	default:
		if (leading_bits(leaf.mask, 6) < 48)
			return PRI_TERM_TRUE;
		return bytes_key(t,
			leaf.field == PRI_TERM_MAC_SRC ? PRI_KEY_MAC_SRC : PRI_KEY_MAC_DST,
			leaf.value, 6);
	}
}
