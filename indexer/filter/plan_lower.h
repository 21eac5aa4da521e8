/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_PLAN_LOWER_H
#define PRI_INDEXER_PLAN_LOWER_H

#include "indexer/filter/plan_term.h"

/*
 * From what a program tests to what an index can be asked: bytes become whole keys, prefixes or "may
 * match"; addresses and ports that come together become composite keys as well; what both ways of an
 * OR demand is demanded once; tests that other tests imply are left out (that a host's packets are of
 * IP or ARP). Look at terms->failed. Within the planner only.
 */
uint32_t pri_plan_lower(struct pri_terms *terms, uint32_t term);

#endif
