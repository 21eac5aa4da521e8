/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/plan_field.h"
#include "proto/wire/cursor.h"

/* What an address is not. */

#define DIFFERING_MAX 4 /* of a filter: more would only make formulas long */

static uint32_t
differs(struct pri_terms *terms, enum pri_key_kind kind, uint32_t value)
{
	uint8_t bytes[4];
	struct pri_term_leaf leaf = {.op = PRI_PLAN_KEY};

	if (terms->differing == DIFFERING_MAX)
		return PRI_TERM_TRUE;
	terms->differing++;
	pr_put_be32(bytes, value);
	leaf.key = pri_key_bytes(kind, bytes, sizeof(bytes));
	return pri_term_leaf(terms, &leaf);
}

uint32_t
pri_field_differs(const struct pri_place *p, uint32_t value, struct pri_terms *terms)
{
	bool arp = p->net_is == PRI_NET_ARP;
	uint32_t src = p->net + (arp ? 14u : 12u), dst = src + (arp ? 10u : 4u);

	if (p->a.form != PRI_VALUE_LOAD || p->a.size != 4 || p->a.shift ||
		p->a.mask != UINT32_MAX || (p->net_is != PRI_NET_IP4 && !arp))
		return PRI_TERM_TRUE;
	return p->a.at == src   ? differs(terms, PRI_KEY_NOT_SRC, value)
	       : p->a.at == dst ? differs(terms, PRI_KEY_NOT_DST, value)
				: PRI_TERM_TRUE;
}

bool
pri_term_differs(const struct pri_terms *t, uint32_t a)
{
	const struct pri_key *key;

	if (!pri_term_is(t, a, PRI_PLAN_KEY))
		return false;
	key = &pri_term_leaf_of(t, a)->key;
	return key->kind == PRI_KEY_NOT_SRC || key->kind == PRI_KEY_NOT_DST;
}
