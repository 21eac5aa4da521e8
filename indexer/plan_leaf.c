/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/plan_leaf.h"

#include "indexer/plan_composite.h"
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
bytes_key(struct pr_terms *t, enum pr_key_kind kind, const uint8_t *bytes, size_t len)
{
	struct pr_key key = pr_key_bytes(kind, bytes, len);

	return pr_plan_key(t, &key);
}

/* A mask that is no prefix of a key: the prefix that is, and the range of numbers. */
static uint32_t
lower_ip4(struct pr_terms *t, const struct pr_term_leaf *leaf, bool src)
{
	unsigned bits = leading_bits(leaf->mask, 4);
	uint32_t mask = bits ? UINT32_MAX << (32 - bits) : 0,
		 value = pr_get_be32(leaf->value) & mask, net = PR_TERM_TRUE;
	struct pr_term_leaf range = {.op = PR_PLAN_RANGE,
		.range = {.number = src ? PR_NUMBER_SRC4 : PR_NUMBER_DST4,
			.least = value,
			.most = value | ~mask}};

	if (bits == 32)
		return bytes_key(t, src ? PR_KEY_SRC : PR_KEY_DST, leaf->value, 4);
	if (bits >= 8)
		net = bytes_key(t, PR_KEY_NET, leaf->value, bits / 8);
	if (bits % 8 == 0 || !leaf->whole)
		return net;
	return pr_term_and(t, net, pr_term_leaf(t, &range));
}

static uint32_t
lower_ip6(struct pr_terms *t, const struct pr_term_leaf *leaf, bool src)
{
	unsigned bits = leading_bits(leaf->mask, 16);

	if (bits == 128)
		return bytes_key(t, src ? PR_KEY_SRC : PR_KEY_DST, leaf->value, 16);
	if (bits < 32)
		return PR_TERM_TRUE;
	return bytes_key(t, PR_KEY_NET, leaf->value, bits >= 64 ? 8 : bits >= 48 ? 6 : 4);
}

uint32_t
pr_plan_leaf(struct pr_terms *t, uint32_t node)
{
	struct pr_term_leaf leaf = *pr_term_leaf_of(t, node);
	const struct pr_plan_range *r = &leaf.range;
	bool port = r->number == PR_NUMBER_SPORT || r->number == PR_NUMBER_DPORT;

	if (leaf.op == PR_PLAN_RANGE && port && r->least == r->most) {
		struct pr_key key = pr_key_number(
			r->number == PR_NUMBER_SPORT ? PR_KEY_SPORT : PR_KEY_DPORT,
			(uint32_t)r->least);
		return pr_plan_key(t, &key);
	}
	if (leaf.op != PR_TERM_BYTES)
		return node;
	switch (leaf.field) {
	case PR_TERM_SRC4:
	case PR_TERM_DST4:
		return lower_ip4(t, &leaf, leaf.field == PR_TERM_SRC4);
	case PR_TERM_SRC6:
	case PR_TERM_DST6:
		return lower_ip6(t, &leaf, leaf.field == PR_TERM_SRC6);
	default:
		if (leading_bits(leaf.mask, 6) < 48)
			return PR_TERM_TRUE;
		return bytes_key(t,
			leaf.field == PR_TERM_MAC_SRC ? PR_KEY_MAC_SRC : PR_KEY_MAC_DST,
			leaf.value, 6);
	}
}
