/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_PLAN_TERM_H
#define PRI_INDEXER_PLAN_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indexer/filter/plan.h"

/*
 * Formulas for the planner: AND and OR over leaves, no NOT, each distinct one stored once, so that a
 * formula is a number and equal formulas have equal numbers. As nothing is negated, putting TRUE for
 * any part of a formula makes it weaker and never wrong: that is what is done when there are too many.
 * Parts have smaller numbers than what they are parts of. Within the planner only.
 */
#define PRI_TERM_FALSE 0u
#define PRI_TERM_TRUE 1u

/* Fields of several bytes, of which a test may know a part: IPv6 addresses come in four words. */
enum pri_term_field {
	PRI_TERM_SRC4,
	PRI_TERM_DST4,
	PRI_TERM_SRC6,
	PRI_TERM_DST6,
	PRI_TERM_MAC_SRC,
	PRI_TERM_MAC_DST,
};

/* A node of op PRI_PLAN_KEY, PRI_PLAN_RANGE, or of this: a field's bits under mask are those of value. */
#define PRI_TERM_BYTES 100

struct pri_term_leaf { /* what is not used is 0 */
	uint8_t op;
	uint8_t field;
	uint8_t whole; /* BYTES: a load has shown that the field's last byte was captured */
	struct pri_key key;
	uint8_t mask[16], value[16];
	struct pri_plan_range range;
};

struct pri_terms {
	struct pri_plan_node *nodes;
	struct pri_term_leaf *leaves; /* nodes[i].left of a leaf */
	uint32_t *table; /* of numbers of nodes, by hash; 0: free */
	uint32_t count, room, leaf_count, leaf_room, table_size;
	uint32_t limit; /* of nodes: what would be more is TRUE */
	const struct pri_insn *times; /* the program's */
	size_t time_count;
	unsigned differing; /* leaves that say what an address is not */
	bool failed; /* no memory: what was returned since is of no use */
};

int pri_terms_init(struct pri_terms *terms, uint32_t limit);
void pri_terms_free(struct pri_terms *terms);

uint32_t pri_term_leaf(struct pri_terms *terms, const struct pri_term_leaf *leaf);
/* As it stands; finds out nothing about it. AND or OR. */
uint32_t pri_term_node(
	struct pri_terms *terms, enum pri_plan_op op, uint32_t a, uint32_t b);

/* Leaves of one field, or ranges of one number, become one. */
uint32_t pri_term_and(struct pri_terms *terms, uint32_t a, uint32_t b);
uint32_t pri_term_or(struct pri_terms *terms, uint32_t a, uint32_t b);

/*
 * (if_true and yes) or (if_false and no): a branch. What yes allows that no allows too is left to no, so that
 * a chain of tests with one way out (the words of an IPv6 address) stays a plain OR of ANDs.
 */
uint32_t pri_term_branch(struct pri_terms *t, uint32_t if_true, uint32_t yes,
	uint32_t if_false, uint32_t no);

#define PRI_TERM_PARTS 24
/*
 * The parts of an AND, however nested, or the formula itself; sorted, none twice. 0: there are more
 * than PRI_TERM_PARTS.
 */
size_t pri_term_parts(
	const struct pri_terms *terms, uint32_t a, uint32_t parts[PRI_TERM_PARTS]);
/* An AND of them all as they stand; of none TRUE. */
uint32_t pri_term_join(struct pri_terms *terms, const uint32_t *parts, size_t count);

static inline bool
pri_term_is(const struct pri_terms *terms, uint32_t a, unsigned op)
{
	return terms->nodes[a].op == op;
}

/* Does it say what an address is not? */
bool pri_term_differs(const struct pri_terms *terms, uint32_t a);

/* Of a leaf; valid until the next is made. */
static inline const struct pri_term_leaf *
pri_term_leaf_of(const struct pri_terms *terms, uint32_t a)
{
	return &terms->leaves[terms->nodes[a].left];
}

#endif
