/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_PLAN_PLACE_H
#define PR_INDEXER_PLAN_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "indexer/keys.h"
#include "indexer/plan_term.h"
#include "indexer/program.h"

/*
 * What is known of a packet at one place of a program, on the way that led there: how far the headers
 * are understood, as keys.h walks them, and what the registers hold. Forgetting is always right. Within
 * the planner only.
 */
enum pr_value_form {
	PR_VALUE_ANY, /* nothing is known of it */
	PR_VALUE_CONSTANT, /* at */
	PR_VALUE_LENGTH, /* the packet's */
	PR_VALUE_LOAD, /* size bytes at `at`, then & mask, then >> shift */
	PR_VALUE_LOAD_BEHIND, /* the same at `at` + the length of the IPv4 header at base */
	PR_VALUE_HEADER, /* the length of the IPv4 header at `at` */
	PR_VALUE_TIME, /* whether the program's term `at` of time holds */
};

struct pr_value {
	uint8_t form, size, shift;
	uint16_t base;
	uint32_t at, mask;
};

enum pr_net { /* what lies at net */
	PR_NET_TYPE, /* not known yet: the type at type_at tells */
	PR_NET_LABEL,
	PR_NET_NIBBLE, /* IP; its first nibble tells which */
	PR_NET_PPPOE,
	PR_NET_IP4,
	PR_NET_IP6,
	PR_NET_ARP,
	PR_NET_OTHER,
};

#define PR_PLACE_PORTS 1 /* the protocol is one of those with ports */
#define PR_PLACE_ICMP 2 /* it is ICMP, or over IPv6 ICMPv6 */
#define PR_PLACE_FIRST 4 /* IPv4: no later fragment */
#define PR_PLACE_FRAGMENT6 8 /* the first IPv6 header behind is a fragment header */

struct pr_place {
	uint8_t net_is; /* enum pr_net */
	uint8_t flags;
	uint8_t tags, labels;
	uint16_t type_at, net;
	struct pr_value a, x;
};

void pr_place_start(struct pr_place *place, const struct pr_layout *layout);
/* Over an instruction that is no jump. layout NULL: nothing is known of such packets but the length. */
void pr_place_step(struct pr_place *place, const struct pr_insn *in);
/* Over a conditional jump: returns what holds when it is taken, or is not, and notes it. */
uint32_t pr_place_branch(struct pr_place *place, const struct pr_layout *layout,
	const struct pr_insn *in, bool taken, struct pr_terms *terms);

#endif
