/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_PLAN_FIELD_H
#define PRI_INDEXER_PLAN_FIELD_H

#include "indexer/filter/plan_place.h"

/*
 * What tests on loaded bytes mean, where the place gives them a meaning: the other side of what keys.c
 * does with a packet. The register a holds a load; bits and value are of it as it was loaded. Each
 * returns what holds, PRI_TERM_TRUE where nothing is known, and notes in the place what follows from
 * it. Within the planner only.
 */
uint32_t pri_field_equals(struct pri_place *place, const struct pri_linktype_layout *layout,
	uint32_t bits, uint32_t value, struct pri_terms *terms);
/* At least one of bits is set. */
uint32_t pri_field_any_bit(
	const struct pri_place *place, uint32_t bits, struct pri_terms *terms);
/* The whole of what was loaded, as a number. */
uint32_t pri_field_within(const struct pri_place *place, uint32_t least, uint32_t most,
	struct pri_terms *terms);
/* As pri_field_equals, of all bits, but that the value is another: an address alone says something. */
uint32_t pri_field_differs(
	const struct pri_place *place, uint32_t value, struct pri_terms *terms);

#endif
