/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/lookups.h"

#include <stdlib.h>

#include "proto/wire/summary.h"

enum { NOTHING, MAY, KEY, AND, OR };

int
prm_lookups_init(struct prm_lookups *l, const Packrack__Query *query)
{
	size_t longest = 1;

	for (size_t i = 0; i < query->n_lookups; i++)
		if (query->lookups[i]->n_op > longest)
			longest = query->lookups[i]->n_op;
	*l = (struct prm_lookups){
		.query = query, .scratch = malloc(longest), .left = PRM_LOOKUPS_STEPS_MAX};
	return l->scratch ? 0 : -1;
}

void
prm_lookups_free(struct prm_lookups *l)
{
	free(l->scratch);
	l->scratch = NULL;
}

/* Signatures to be asked: one, or eight as slices. */
struct asked {
	const uint8_t *bits, *slices;
	unsigned log2;
	uint32_t linktype;
};

static uint8_t
has(const struct asked *a, uint64_t hash)
{
	if (a->slices)
		return pr_summary_slices_have(a->slices, a->log2, hash);
	return pr_summary_has(a->bits, a->log2, hash) ? UINT8_MAX : 0;
}

/* In their order, in which each stands behind those that it is made of. */
static uint8_t
holds(const Packrack__Lookups *of, uint8_t *found, const struct asked *a)
{
	for (size_t i = 0; i < of->n_op; i++) {
		uint32_t left = of->left[i], right = of->right[i];

		if (of->op[i] == AND)
			found[i] = found[left] & found[right];
		else if (of->op[i] == OR)
			found[i] = found[left] | found[right];
		else if (of->op[i] == KEY)
			found[i] = has(a, of->hash[left]);
		else
			found[i] = of->op[i] == MAY ? UINT8_MAX : 0;
	}
	return found[of->n_op - 1];
}

static uint8_t
may(struct prm_lookups *l, const struct asked *a)
{
	const Packrack__Query *q = l->query;
	uint8_t any = 0;

	if (!q->n_programs || q->n_lookups < q->n_programs)
		return UINT8_MAX;
	for (size_t i = 0; i < q->n_lookups && any != UINT8_MAX; i++) {
		if (a->linktype && a->linktype != 1 + q->lookups[i]->linktype)
			continue;
		if (l->left < q->lookups[i]->n_op)
			return UINT8_MAX;
		l->left -= q->lookups[i]->n_op;
		l->steps += q->lookups[i]->n_op;
		any |= holds(q->lookups[i], l->scratch, a);
	}
	return any;
}

bool
prm_lookups_may(
	struct prm_lookups *l, uint32_t linktype, const uint8_t *bits, unsigned log2)
{
	return may(l, &(struct asked){.bits = bits, .log2 = log2, .linktype = linktype});
}

uint8_t
prm_lookups_may_slices(
	struct prm_lookups *l, uint32_t linktype, const uint8_t *slices, unsigned log2)
{
	return may(
		l, &(struct asked){.slices = slices, .log2 = log2, .linktype = linktype});
}
