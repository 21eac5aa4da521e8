/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_PLAN_H
#define PRI_INDEXER_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "indexer/filter/bpf.h"
#include "indexer/index/index_key.h"
#include "proto/base/error.h"

/*
 * What an index can say of a filter. A plan is read off the compiled program itself: what must hold of
 * a packet's keys and numbers (index_key.h) so that the program can accept it, as AND and OR over look-ups.
 * Where the program tests what no key tells, the plan says TRUE there: "may match". So a packet that
 * the program accepts always makes the plan true; that the reverse holds too is what makes a plan good.
 *
 * A test in the program counts as a look-up only where the tests before it, on every way to it, give the
 * bytes their meaning: `ether[26:4] = x` alone is no source address, behind `ether[12:2] = 0x800` it
 * is. (The idea to read plans from programs, and the rule, are DESIGN's section 6.)
 *
 * Immutable once made, and pure: any thread may use it.
 */
enum pri_plan_op {
	PRI_PLAN_FALSE,
	PRI_PLAN_TRUE, /* may match: look at the packets */
	PRI_PLAN_KEY, /* has keys[left] */
	PRI_PLAN_RANGE, /* has a number within ranges[left] */
	PRI_PLAN_AND, /* of the nodes left and right, both of which stand before it */
	PRI_PLAN_OR,
	PRI_PLAN_PARTS, /* has the composites that can be made of keys[left]; may match, if nobody knows */
};

struct pri_plan_node {
	uint8_t op; /* enum pri_plan_op */
	uint32_t left, right;
};

struct pri_plan_range {
	uint8_t number; /* enum pri_number */
	int64_t least, most; /* both included */
};

/* Each distinct key, range and formula is there once. The last node is the plan. */
struct pri_plan {
	uint16_t linktype;
	struct pri_plan_node *nodes;
	size_t count; /* at least 1 */
	struct pri_key *keys;
	size_t key_count;
	struct pri_plan_range *ranges;
	size_t range_count;
};

/*
 * Work and memory are bounded by the program's length: a program of which too many different things
 * can be said "may match". NULL: no memory.
 */
struct pri_plan *pri_plan_create(const struct pri_bpf *program, struct pr_error *err);
void pri_plan_destroy(struct pri_plan **plan);

/* What the tests are asked of: an index entry, or in tests a packet's own keys. */
struct pri_plan_index {
	bool (*has_key)(void *arg, const struct pri_key *key);
	bool (*has_range)(void *arg, const struct pri_plan_range *range);
	bool (*has_parts)(void *arg, const struct pri_key *parts); /* NULL: not known */
	void *arg;
};
/* scratch: plan->count bytes. Asks for as little as it needs, and for nothing twice. */
bool pri_plan_holds(
	const struct pri_plan *plan, const struct pri_plan_index *index, uint8_t *scratch);

/* Does it say nothing at all (true), or that nothing matches (false)? */
static inline bool
pri_plan_is(const struct pri_plan *plan, enum pri_plan_op op)
{
	return plan->nodes[plan->count - 1].op == op;
}

/* ---- all link types of a filter ---- */

struct pri_plans {
	struct pri_plan **items; /* as in programs */
	size_t count;
};
int pri_plans_create(
	const struct pri_bpf_set *programs, struct pri_plans *out, struct pr_error *err);
void pri_plans_free(struct pri_plans *plans);
/* NULL: there is no program for it, so when there are any, nothing of this link type matches. */
const struct pri_plan *pri_plans_find(const struct pri_plans *plans, uint16_t linktype);

/* ---- words ---- */

#define PRI_PLAN_WORDS_MAX 40 /* lines; a longer plan says how much it leaves out */
/*
 * The plan for people, a line a test, indented by so many tabs and more where it nests:
 *	all of
 *		host 192.0.2.7
 *		port 53
 */
void pri_plan_print(FILE *to, const struct pri_plan *plan, unsigned indent);

/*
 * In what order an index that is read key by key should be asked: how many keys of each rank are worth
 * asking for, those that are one but for the side once. 0: none is; such keys are to be taken as there.
 * scratch: plan->count bytes.
 */
void pri_plan_ranks(const struct pri_plan *plan, size_t keys[PRI_RANKS], uint8_t *scratch);

/* Of so few ports that they are asked for one by one: how many; else 0. */
#define PRI_RANGE_PORTS 16
unsigned pri_plan_range_ports(const struct pri_plan_range *range);
/* That of them, below what there are. */
struct pri_key pri_plan_range_port(const struct pri_plan_range *range, unsigned index);

#endif
