/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_PLAN_COMPOSITE_H
#define PRI_INDEXER_PLAN_COMPOSITE_H

#include <stddef.h>
#include <stdint.h>

#include "indexer/filter/plan_term.h"

/*
 * Keys that a filter fixes together, of the parts of an AND: what is made of them is one part more, which
 * says that a packet has them at once. Within the planner only.
 */
uint32_t pri_plan_key(struct pri_terms *terms, const struct pri_key *key);
/* The pair of addresses, and with protocol and ports the connection, that are all there; TRUE: none. */
uint32_t pri_plan_pairs(struct pri_terms *terms, const uint32_t *parts, size_t count);
/* Of an address and what the one at the other end is not, of IPv4, a key of kind OTHER; TRUE: none. */
uint32_t pri_plan_others(struct pri_terms *terms, const uint32_t *parts, size_t count);
/*
 * All that composite keys as configured can be made of; TRUE: nothing. What was made of some of the parts says
 * nothing more then, and is dropped from them.
 */
uint32_t pri_plan_composites(struct pri_terms *terms, uint32_t *parts, size_t *count);
/*
 * What was made of ports and protocols alone goes: of a port that may be of any of several protocols it would say
 * nothing, and keep them apart. Returns how many parts stay.
 */
size_t pri_plan_drop_ports(const struct pri_terms *terms, uint32_t *parts, size_t count);

#endif
