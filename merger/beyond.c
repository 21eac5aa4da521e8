/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/beyond.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "proto/base/array.h"

struct prm_beyond_sum {
	uint64_t name; /* hash of epoch, link and seq */
	uint64_t connection; /* hash of epoch, link and number */
	uint64_t packets, bytes;
	uint32_t class;
	bool may;
};

static Packrack__BeyondClass *
class_of(struct prm_beyond *b, const char *name, uint32_t *index, struct pr_error *err)
{
	Packrack__BeyondClass *c;

	for (*index = 0; *index < b->class_count; ++*index)
		if (!strcmp(b->classes[*index]->name, name))
			return b->classes[*index];
	if (b->class_count == PRM_BEYOND_CLASSES_MAX)
		return pr_error_null(err, "it reported too many classes of a cutoff");
	if (PR_ARRAY_GROW(b->classes, b->class_count) < 0 || !(c = malloc(sizeof(*c))))
		return pr_error_null(err, "no memory for what a cutoff kept back");
	packrack__beyond_class__init(c);
	c->name = strdup(name);
	return b->classes[b->class_count++] = c;
}

int
prm_beyond_add(struct prm_beyond *b, const Packrack__Beyond *sum, struct pr_error *err)
{
	const uint64_t name[] = {sum->epoch, sum->link, sum->seq},
		       connection[] = {sum->epoch, sum->link, sum->number};
	struct prm_beyond_sum s = {.name = XXH3_64bits(name, sizeof(name)),
		.connection = XXH3_64bits(connection, sizeof(connection))};
	Packrack__BeyondClass *c = class_of(b, sum->name, &s.class, err);

	if (!c)
		return -1;
	if (b->count == PRM_BEYOND_MOST) {
		PR_ADD(c, sum, packets, bytes);
		c->at_most = true;
		c->connections++;
		return 0;
	}
	PR_COPY(&s, sum, packets, bytes, may);
	if (PR_ARRAY_ADD(b->sums, b->count, s) < 0)
		return pr_error_set(err, "no memory for what a cutoff kept back");
	return 0;
}

PR_ORDER(by_name, struct prm_beyond_sum, name)
PR_ORDER(by_connection, struct prm_beyond_sum, class, connection)

static int
by_bytes(const void *a, const void *b)
{
	const Packrack__BeyondClass *x = *(Packrack__BeyondClass *const *)a,
				    *y = *(Packrack__BeyondClass *const *)b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

void
prm_beyond_finish(struct prm_beyond *b, Packrack__Completeness *out)
{
	size_t kept = 0;

	PR_SORT(b->sums, b->count, by_name);
	for (size_t i = 0; i < b->count; i++)
		if (!i || b->sums[i].name != b->sums[i - 1].name)
			b->sums[kept++] = b->sums[i];
	PR_SORT(b->sums, kept, by_connection);
	for (size_t i = 0; i < kept; i++) {
		const struct prm_beyond_sum *s = &b->sums[i];
		Packrack__BeyondClass *c = b->classes[s->class];

		PR_ADD(c, s, packets, bytes);
		c->at_most |= s->may;
		c->connections += !i || by_connection(s, s - 1);
	}
	PR_SORT(b->classes, b->class_count, by_bytes);
	out->beyond = b->classes;
	out->n_beyond = b->class_count;
	b->classes = NULL;
	b->class_count = 0;
	prm_beyond_free(b);
}

void
prm_beyond_free(struct prm_beyond *b)
{
	for (size_t i = 0; i < b->class_count; i++)
		packrack__beyond_class__free_unpacked(b->classes[i], NULL);
	PR_FREE(b, classes, sums);
	*b = (struct prm_beyond){0};
}

bool
prm_beyond_same(void *now_item, const void *before_item)
{
	Packrack__BeyondClass *now = now_item;
	const Packrack__BeyondClass *before = before_item;

	if (strcmp(now->name, before->name) != 0)
		return false;
	/* a connection that both rounds have is counted twice */
	now->at_most |= before->at_most || (now->connections && before->connections);
	PR_ADD(now, before, packets, bytes, connections);
	return true;
}
