/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_PLAN_TERM_H
#define PR_INDEXER_PLAN_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indexer/plan.h"

/*
 * Formulas for the planner: AND and OR over leaves, no NOT, each distinct one stored once, so that a
 * formula is a number and equal formulas have equal numbers. As nothing is negated, putting TRUE for
 * any part of a formula makes it weaker and never wrong: that is what is done when there are too many.
 * Parts have smaller numbers than what they are parts of. Within the planner only.
 */
#define PR_TERM_FALSE 0u
#define PR_TERM_TRUE 1u

/* Fields of several bytes, of which a test may know a part: IPv6 addresses come in four words. */
enum pr_term_field {
	PR_TERM_SRC4,
	PR_TERM_DST4,
	PR_TERM_SRC6,
	PR_TERM_DST6,
	PR_TERM_MAC_SRC,
	PR_TERM_MAC_DST,
};

/* A node of op PR_PLAN_KEY, PR_PLAN_RANGE, or of this: a field's bits under mask are those of value. */
#define PR_TERM_BYTES 100

struct pr_term_leaf { /* what is not used is 0 */
	uint8_t op;
	uint8_t field;
	uint8_t whole; /* BYTES: a load has shown that the field's last byte was captured */
	struct pr_key key;
	uint8_t mask[16], value[16];
	struct pr_plan_range range;
};

struct pr_terms {
	struct pr_plan_node *nodes;
	struct pr_term_leaf *leaves; /* nodes[i].left of a leaf */
	uint32_t *table; /* of numbers of nodes, by hash; 0: free */
	uint32_t count, room, leaf_count, leaf_room, table_size;
	uint32_t limit; /* of nodes: what would be more is TRUE */
	const struct pr_insn *times; /* the program's */
	size_t time_count;
	unsigned differing; /* leaves that say what an address is not */
	bool failed; /* no memory: what was returned since is of no use */
};

int pr_terms_init(struct pr_terms *terms, uint32_t limit);
void pr_terms_free(struct pr_terms *terms);

uint32_t pr_term_leaf(struct pr_terms *terms, const struct pr_term_leaf *leaf);
/* As it stands; finds out nothing about it. AND or OR. */
uint32_t pr_term_node(struct pr_terms *terms, enum pr_plan_op op, uint32_t a, uint32_t b);

/* Leaves of one field, or ranges of one number, become one. */
uint32_t pr_term_and(struct pr_terms *terms, uint32_t a, uint32_t b);
uint32_t pr_term_or(struct pr_terms *terms, uint32_t a, uint32_t b);

/*
 * (if_true and yes) or (if_false and no): a branch. What yes allows that no allows too is left to no, so that
 * a chain of tests with one way out (the words of an IPv6 address) stays a plain OR of ANDs.
 */
uint32_t pr_term_branch(
	struct pr_terms *t, uint32_t if_true, uint32_t yes, uint32_t if_false, uint32_t no);

#define PR_TERM_PARTS 24
/*
 * The parts of an AND, however nested, or the formula itself; sorted, none twice. 0: there are more
 * than PR_TERM_PARTS.
 */
size_t pr_term_parts(
	const struct pr_terms *terms, uint32_t a, uint32_t parts[PR_TERM_PARTS]);
/* An AND of them all as they stand; of none TRUE. */
uint32_t pr_term_join(struct pr_terms *terms, const uint32_t *parts, size_t count);

static inline bool
pr_term_is(const struct pr_terms *terms, uint32_t a, unsigned op)
{
	return terms->nodes[a].op == op;
}

/* Does it say what an address is not? */
bool pr_term_differs(const struct pr_terms *terms, uint32_t a);

/* Of a leaf; valid until the next is made. */
static inline const struct pr_term_leaf *
pr_term_leaf_of(const struct pr_terms *terms, uint32_t a)
{
	return &terms->leaves[terms->nodes[a].left];
}

#endif
