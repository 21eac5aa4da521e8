/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/filter/plan.h"

/*
 * What the planner's files share: formulas (plan_term.c), abstract states (plan_state.c), and the last two steps
 * of a plan (plan_lower.c).
 *
 * A formula is AND and OR over leaves, without NOT. Each distinct formula is stored once, so it is a number, and
 * equal formulas have equal numbers. Because nothing is negated, TRUE in place of any part
 * makes a formula weaker and never wrong; this is done when there are too many formulas.
 * Parts have smaller numbers than the formulas made of them.
 */
#define PRI_TERM_FALSE 0u
#define PRI_TERM_TRUE 1u

/*
 * Fields of several bytes. A test may be about some of them only: IPv6 addresses come in
 * four words.
 */
enum pri_term_field {
	PRI_TERM_SRC4,
	PRI_TERM_DST4,
	PRI_TERM_SRC6,
	PRI_TERM_DST6,
	PRI_TERM_MAC_SRC,
	PRI_TERM_MAC_DST,
};

/*
 * Op of a leaf besides PRI_PLAN_KEY and PRI_PLAN_RANGE: the field's bits under mask are
 * those of value.
 */
#define PRI_TERM_BYTES 100

/* Compared and hashed as bytes, so it has no holes, and members that are not used are 0. */
struct pri_term_leaf {
	uint8_t op;
	uint8_t field;
	uint8_t whole; /* BYTES: a load has shown that the field's last byte was captured */
	uint8_t unused;
	struct pri_key key;
	uint8_t mask[16], value[16];
	struct pri_plan_range range;
};
_Static_assert(sizeof(struct pri_term_leaf) ==
		       4 + sizeof(struct pri_key) + 2 * 16 + sizeof(struct pri_plan_range),
	"a leaf has no holes");

struct pri_terms {
	struct pri_plan_node *nodes;
	struct pri_term_leaf *leaves; /* nodes[i].left of a leaf */
	uint32_t *table; /* of numbers of nodes, by hash; 0: free */
	uint32_t count, room, leaf_count; /* the table has twice that room */
	uint32_t limit; /* most nodes; a formula beyond it is TRUE */
	const struct pr_insn *times; /* the program's */
	size_t time_count;
	const atomic_bool *stop; /* or NULL: the plan is no longer wanted */
	bool failed; /* no memory, or stopped: what was returned since is of no use */
};

int pri_terms_init(struct pri_terms *terms, uint32_t limit);
void pri_terms_free(struct pri_terms *terms);

uint32_t pri_term_leaf(struct pri_terms *terms, const struct pri_term_leaf *leaf);
/* Leaves of one field, or ranges of one number, become one. */
uint32_t pri_term_and(struct pri_terms *terms, uint32_t a, uint32_t b);
uint32_t pri_term_or(struct pri_terms *terms, uint32_t a, uint32_t b);

/*
 * (if_true and yes) or (if_false and no): a branch. A case that both yes and no allow is
 * left to no, so that a chain of tests with one way out (the words of an IPv6 address)
 * stays a plain OR of ANDs.
 */
uint32_t pri_term_branch(struct pri_terms *t, uint32_t if_true, uint32_t yes,
	uint32_t if_false, uint32_t no);

#define PRI_TERM_PARTS 24
struct pri_parts {
	size_t count;
	uint32_t items[PRI_TERM_PARTS]; /* sorted, none twice */
};
/* Adds the parts of an AND, however nested, or the formula itself. false: there is no room for all. */
bool pri_term_parts(const struct pri_terms *terms, uint32_t a, struct pri_parts *parts);
static inline void
pri_term_drop(struct pri_parts *parts, size_t i)
{
	parts->count--;
	memmove(parts->items + i, parts->items + i + 1,
		(parts->count - i) * sizeof(parts->items[0]));
}
/* An AND of the parts, without simplifying it; TRUE if there are none. */
uint32_t pri_term_join(struct pri_terms *terms, const struct pri_parts *parts);
/*
 * Takes the first alternative from the OR *a, which becomes the rest. Any other formula is
 * its own only alternative; *a is then FALSE.
 */
uint32_t pri_term_next(const struct pri_terms *terms, uint32_t *a);

static inline bool
pri_term_is(const struct pri_terms *terms, uint32_t a, unsigned op)
{
	return terms->nodes[a].op == op;
}

/* What a leaf is about; valid until the next leaf is made. */
static inline const struct pri_term_leaf *
pri_term_leaf_of(const struct pri_terms *terms, uint32_t a)
{
	return &terms->leaves[terms->nodes[a].left];
}

/*
 * An abstract state: what is known of a packet at one instruction, on the way that led there: how far its headers
 * are understood (index_key.h), and what the registers hold. Forgetting a fact is always
 * safe.
 */
enum pri_value_form {
	PRI_VALUE_ANY, /* nothing is known of it */
	PRI_VALUE_CONSTANT, /* at */
	PRI_VALUE_LENGTH, /* the packet's */
	PRI_VALUE_LOAD, /* size bytes at `at`, then & mask, then >> shift */
	PRI_VALUE_LOAD_BEHIND, /* the same at `at` + the length of the IPv4 header at base */
	PRI_VALUE_HEADER, /* the length of the IPv4 header at `at` */
	PRI_VALUE_TIME, /* whether the program's term `at` of time holds */
};

struct pri_value {
	uint16_t form, size, shift, base;
	uint32_t at, mask;
};

enum pri_net { /* what lies at net */
	PRI_NET_TYPE, /* not known yet: the type at type_at tells */
	PRI_NET_LABEL,
	PRI_NET_NIBBLE, /* IP; its first nibble tells which */
	PRI_NET_PPPOE,
	PRI_NET_IP4,
	PRI_NET_IP6,
	PRI_NET_ARP,
	PRI_NET_OTHER,
};

#define PRI_STATE_PORTS 1 /* the protocol is one of those with ports */
#define PRI_STATE_ICMP 2 /* it is ICMP, or over IPv6 ICMPv6 */
#define PRI_STATE_FIRST 4 /* IPv4: no later fragment */
#define PRI_STATE_FRAGMENT6 8 /* a fragment header follows the IPv6 header */

struct pri_state {
	uint8_t net_is; /* enum pri_net */
	uint8_t flags;
	uint8_t tags, labels;
	uint16_t type_at, net;
	struct pri_value a, x;
};
_Static_assert(sizeof(struct pri_state) == 8 + 2 * sizeof(struct pri_value) &&
		       sizeof(struct pri_value) == 16,
	"states are compared as bytes");

/*
 * The state at the start of a program or behind it. registers: CONSTANT (both are 0), or
 * ANY. layout NULL: no headers are known.
 */
struct pri_state pri_state_start(
	const struct pri_linktype_layout *layout, enum pri_value_form registers);
/* Applies an instruction, not a jump, to the state. */
void pri_state_step(struct pri_state *state, const struct pr_insn *in);
/*
 * Applies a conditional jump to the state. Returns what holds after it. layout NULL: only
 * the length of a packet is known.
 */
uint32_t pri_state_branch(struct pri_state *state, const struct pri_linktype_layout *layout,
	const struct pr_insn *in, bool taken, struct pri_terms *terms);

/*
 * Makes a plan of what a program tests. Bytes become whole keys, prefixes or "may match";
 * addresses and ports that come together become pairs, services and parts of composites; a
 * condition common to both sides of an OR is asked once; tests that other tests imply are
 * left out (a host's packets are of IP or ARP). A part that nests to the left deeper than a
 * walk over the plan may go becomes "may match". NULL: no memory.
 */
struct pri_plan *pri_plan_lower(struct pri_terms *terms, uint32_t term);
