/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/plan_field.h"
#include "proto/wire/cursor.h"

/* What an address is not. */

#define DIFFERING_MAX 4 /* of a filter: more would only make formulas long */

static uint32_t
differs(struct pr_terms *terms, enum pr_key_kind kind, uint32_t value)
{
	uint8_t bytes[4];
	struct pr_term_leaf leaf = {.op = PR_PLAN_KEY};

	if (terms->differing == DIFFERING_MAX)
		return PR_TERM_TRUE;
	terms->differing++;
	pr_put_be32(bytes, value);
	leaf.key = pr_key_bytes(kind, bytes, sizeof(bytes));
	return pr_term_leaf(terms, &leaf);
}

uint32_t
pr_field_differs(const struct pr_place *p, uint32_t value, struct pr_terms *terms)
{
	bool arp = p->net_is == PR_NET_ARP;
	uint32_t src = p->net + (arp ? 14u : 12u), dst = src + (arp ? 10u : 4u);

	if (p->a.form != PR_VALUE_LOAD || p->a.size != 4 || p->a.shift ||
		p->a.mask != UINT32_MAX || (p->net_is != PR_NET_IP4 && !arp))
		return PR_TERM_TRUE;
	return p->a.at == src   ? differs(terms, PR_KEY_NOT_SRC, value)
	       : p->a.at == dst ? differs(terms, PR_KEY_NOT_DST, value)
				: PR_TERM_TRUE;
}

bool
pr_term_differs(const struct pr_terms *t, uint32_t a)
{
	const struct pr_key *key;

	if (!pr_term_is(t, a, PR_PLAN_KEY))
		return false;
	key = &pr_term_leaf_of(t, a)->key;
	return key->kind == PR_KEY_NOT_SRC || key->kind == PR_KEY_NOT_DST;
}
