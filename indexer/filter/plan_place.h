/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_PLAN_PLACE_H
#define PRI_INDEXER_PLAN_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "indexer/index/index_key.h"
#include "indexer/filter/plan_term.h"
#include "indexer/filter/bpf.h"

/*
 * What is known of a packet at one place of a program, on the way that led there: how far the headers
 * are understood, as index_key.h walks them, and what the registers hold. Forgetting is always right. Within
 * the planner only.
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
	uint8_t form, size, shift;
	uint16_t base;
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

#define PRI_PLACE_PORTS 1 /* the protocol is one of those with ports */
#define PRI_PLACE_ICMP 2 /* it is ICMP, or over IPv6 ICMPv6 */
#define PRI_PLACE_FIRST 4 /* IPv4: no later fragment */
#define PRI_PLACE_FRAGMENT6 8 /* the first IPv6 header behind is a fragment header */

struct pri_place {
	uint8_t net_is; /* enum pri_net */
	uint8_t flags;
	uint8_t tags, labels;
	uint16_t type_at, net;
	struct pri_value a, x;
};

void pri_place_start(struct pri_place *place, const struct pri_linktype_layout *layout);
/* Over an instruction that is no jump. layout NULL: nothing is known of such packets but the length. */
void pri_place_step(struct pri_place *place, const struct pri_insn *in);
/* Over a conditional jump: returns what holds when it is taken, or is not, and notes it. */
uint32_t pri_place_branch(struct pri_place *place, const struct pri_linktype_layout *layout,
	const struct pri_insn *in, bool taken, struct pri_terms *terms);

#endif
