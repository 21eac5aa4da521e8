/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/clusters.h"

#include "proto/base/array.h"

/* ---- look-ups ---- */

enum { NOTHING, MAY, KEY, AND, OR };

int
prm_lookups_init(struct prm_lookups *l, const Packrack__Query *query)
{
	size_t longest = 1;

	for (size_t i = 0; i < query->n_lookups; i++)
		longest = PR_MAX(longest, query->lookups[i]->n_op);
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

/* Signatures to be tested: one; or eight, whose bits number i are the byte slices[i]. */
struct asked {
	const uint8_t *bits, *slices;
	unsigned log2;
	uint32_t linktype;
};

/* Evaluates the nodes in their order: each comes after the nodes that it is made of. */
static uint8_t
holds(const Packrack__Lookups *of, uint8_t *found, const struct asked *a)
{
	for (size_t i = 0; i < of->n_op; i++) {
		uint32_t left = of->left[i], right = of->right[i];

		if (of->op[i] == AND)
			found[i] = found[left] & found[right];
		else if (of->op[i] == OR)
			found[i] = found[left] | found[right];
		else if (of->op[i] == KEY && a->slices)
			found[i] =
				pr_summary_slices_have(a->slices, a->log2, of->hash[left]);
		else if (of->op[i] == KEY)
			found[i] = pr_summary_has(a->bits, a->log2, of->hash[left])
					   ? UINT8_MAX
					   : 0;
		else
			found[i] = of->op[i] == MAY ? UINT8_MAX : 0;
	}
	return found[of->n_op - 1];
}

/* A bit for each signature that may match. */
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

/* ---- clusters ---- */

/*
 * Bit-sliced signatures of up to PRM_CLUSTERS_COLUMNS summaries: byte i has bit i of all
 * columns.
 */
struct block {
	char *cluster;
	int64_t interval;
	uint8_t *slices; /* NULL: free */
	unsigned log2;
	uint32_t linktype;
	uint8_t used; /* a bit a column */
};

struct prm_clusters {
	struct block *blocks; /* numbered from 1 */
	size_t count, live;
	uint64_t memory, bytes;
};

struct prm_clusters *
prm_clusters_create(uint64_t memory)
{
	struct prm_clusters *c = calloc(1, sizeof(*c));

	if (c)
		c->memory = memory;
	return c;
}

static void
release(struct prm_clusters *c, struct block *b)
{
	if (!b->slices)
		return;
	c->bytes -= (uint64_t)1 << b->log2;
	c->live--;
	PR_FREE(b, slices, cluster);
	*b = (struct block){0};
}

void
prm_clusters_destroy(struct prm_clusters **cp)
{
	struct prm_clusters *c = PR_TAKE(cp);

	if (!c)
		return;
	for (size_t i = 0; i < c->count; i++)
		release(c, &c->blocks[i]);
	free(c->blocks);
	free(c);
}

struct prm_cluster_slot
prm_clusters_add(struct prm_clusters *c, const char *cluster, int64_t interval,
	uint32_t linktype, const struct pr_summary *summary)
{
	const struct prm_cluster_slot none = {0};
	size_t bits = (size_t)1 << summary->log2, at = c->count;
	unsigned column = 0;
	struct block *b = NULL;

	if (!cluster[0])
		return none;
	/* find a block with a free column, newest first */
	for (size_t i = c->count; i-- > 0 && !b;) {
		struct block *have = &c->blocks[i];

		if (!have->slices)
			at = i;
		else if (have->used != UINT8_MAX && have->interval == interval &&
			 have->log2 == summary->log2 && have->linktype == linktype &&
			 !strcmp(have->cluster, cluster))
			b = have;
	}
	if (!b) {
		if (c->bytes + bits > c->memory ||
			(at == c->count && PR_ARRAY_GROW(c->blocks, c->count) < 0))
			return none;
		b = &c->blocks[at];
		c->count += at == c->count;
		*b = (struct block){.cluster = strdup(cluster),
			.interval = interval,
			.log2 = summary->log2,
			.linktype = linktype,
			.slices = calloc(1, bits)};
		if (!b->cluster || !b->slices) {
			PR_FREE(b, cluster, slices);
			*b = (struct block){0};
			return none;
		}
		c->bytes += bits;
		c->live++;
	}
	while (b->used >> column & 1)
		column++;
	b->used |= 1u << column;
	for (size_t i = 0; i < bits; i++)
		b->slices[i] |= (summary->bits[i / 8] >> i % 8 & 1) << column;
	return (struct prm_cluster_slot){b - c->blocks + 1, column};
}

void
prm_clusters_remove(struct prm_clusters *c, struct prm_cluster_slot slot)
{
	struct block *b = slot.block ? &c->blocks[slot.block - 1] : NULL;
	uint8_t mask = ~(1u << slot.column);

	if (!b)
		return;
	b->used &= mask;
	if (!b->used) {
		release(c, b);
		return;
	}
	for (size_t i = 0; i < (size_t)1 << b->log2; i++)
		b->slices[i] &= mask;
}

/* ---- asking ---- */

void
prm_cluster_cache_free(struct prm_cluster_cache *cache)
{
	free(cache->tests);
	*cache = (struct prm_cluster_cache){0};
}

bool
prm_clusters_exclude(const struct prm_clusters *c, struct prm_cluster_slot slot,
	struct prm_lookups *lookups, struct prm_cluster_cache *cache)
{
	size_t had = cache->capacity;

	if (!slot.block || PR_ARRAY_RESERVE(cache->tests, cache->capacity, c->count) < 0)
		return false;
	memset(cache->tests + had, 0, (cache->capacity - had) * sizeof(*cache->tests));
	struct prm_cluster_test *test = &cache->tests[slot.block - 1];
	if (!test->tested) {
		const struct block *b = &c->blocks[slot.block - 1];
		const struct asked asked = {
			.slices = b->slices, .log2 = b->log2, .linktype = b->linktype};

		test->tested = true;
		test->possible = may(lookups, &asked) & b->used;
		cache->tested++;
		cache->excluded += !test->possible;
	}
	return !(test->possible >> slot.column & 1);
}

uint64_t
prm_clusters_bytes(const struct prm_clusters *c)
{
	return c->bytes;
}

size_t
prm_clusters_count(const struct prm_clusters *c)
{
	return c->live;
}
