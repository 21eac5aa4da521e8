/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>

#include "proto/wire/bpf.h"
#include "indexer/index/index_key.h"

/*
 * A plan: what an index can test of a filter. It is derived from the compiled program, and
 * states what must hold of a packet's keys and numbers (index_key.h) for the program to
 * accept the packet: look-ups, joined by AND and OR. Tests that no key can decide become
 * TRUE ("may match"). So a packet that the program accepts always makes the plan true; the
 * fewer other packets do, the better the plan.
 *
 * A test becomes a look-up only if the tests before it, on every path to it, determine what
 * the bytes are. `ether[26:4] = x` alone is no source address; after `ether[12:2] = 0x800`
 * it is.
 *
 * A plan is immutable: any thread may use it.
 */
enum pri_plan_op {
	PRI_PLAN_FALSE,
	PRI_PLAN_TRUE, /* may match: look at the packets */
	PRI_PLAN_KEY, /* has keys[left] */
	PRI_PLAN_RANGE, /* has a number within ranges[left] */
	PRI_PLAN_AND, /* of nodes left and right, which have lower numbers */
	PRI_PLAN_OR,
	/* has the composites that keys[left] determines; TRUE if has_parts is NULL */
	PRI_PLAN_PARTS,
};

struct pri_plan_node {
	uint32_t op; /* enum pri_plan_op */
	uint32_t left, right;
};

struct pri_plan_range {
	uint64_t number; /* enum pri_number */
	int64_t least, most; /* both included */
};

/* Each distinct key, range and node is stored once. The last node is the whole plan. */
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
 * Work and memory are bounded by the length of the program. A program with too many
 * different tests gets the plan "may match". A plan of 200,000 instructions takes up to a
 * second: any thread; another one may set *stop (or NULL) to make it end soon. NULL: no
 * memory, or stopped.
 */
struct pri_plan *pri_plan_create(
	const struct pr_bpf *program, const atomic_bool *stop, struct pr_error *err);
void pri_plan_destroy(struct pri_plan **plan);

/*
 * The look-ups that a plan is evaluated with: in an index entry, or (in tests) among a
 * packet's own keys.
 */
struct pri_plan_index {
	/* NULL: it may have any */
	bool (*has_key)(void *arg, const struct pri_key *key);
	bool (*has_range)(void *arg, const struct pri_plan_range *range);
	/* NULL: the index cannot tell */
	bool (*has_parts)(void *arg, const struct pri_key *parts);
	void *arg;
};
/*
 * True if the plan holds. Each node is evaluated at most once. scratch: plan->count bytes.
 */
bool pri_plan_holds(
	const struct pri_plan *plan, const struct pri_plan_index *index, uint8_t *scratch);

/* TRUE: the plan excludes no packet; FALSE: no packet can match. */
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
int pri_plans_create(const struct pr_bpf_set *programs, const atomic_bool *stop,
	struct pri_plans *out, struct pr_error *err);
void pri_plans_free(struct pri_plans *plans);
/*
 * NULL: the filter has no program for the link type. If the filter has programs at all, no
 * packet of this link type then matches.
 */
const struct pri_plan *pri_plans_find(const struct pri_plans *plans, uint16_t linktype);

/* ---- words ---- */

#define PRI_PLAN_WORDS_MAX 40 /* lines; a longer plan says how much it leaves out */
/*
 * Prints the plan in words, a line a test, indented by so many tabs, and by one more where it nests:
 *	all of
 *		host 192.0.2.7
 *		port 53
 */
void pri_plan_print(FILE *to, const struct pri_plan *plan, unsigned indent);

/*
 * Counts the look-ups of each rank. An index that is read key by key is asked rank by rank.
 */
void pri_plan_ranks(const struct pri_plan *plan, size_t keys[PRI_RANKS]);

/*
 * Number of ports in the range, if there are so few that they are looked up one by one;
 * otherwise 0.
 */
#define PRI_RANGE_PORTS 16
unsigned pri_plan_range_ports(const struct pri_plan_range *range);
/* The key of one of these ports; index < pri_plan_range_ports(range). */
struct pri_key pri_plan_range_port(const struct pri_plan_range *range, unsigned index);
