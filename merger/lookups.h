/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_LOOKUPS_H
#define PRM_MERGER_LOOKUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/rpc/packrack.pb-c.h"

/*
 * What a query's filter asks of an index, as the client planned it: AND and OR over hashes of keys, one
 * for each link type (Query.lookups, whose form the message layer has checked). The merger knows no
 * filters and no keys; a client that sends nonsense gets an answer of less than there is, as it would
 * with another filter. Pure.
 */
struct prm_lookups {
	const Packrack__Query *query; /* borrowed */
	uint8_t *scratch;
	uint64_t left; /* steps that may still be taken; then all may match */
	uint64_t steps; /* taken */
};

/* A query may have 65,536 look-ups and summaries be 100,000: at 2 ns a step this is 50 ms. */
#define PRM_LOOKUPS_STEPS_MAX 25000000

/* -1: no memory. */
int prm_lookups_init(struct prm_lookups *l, const Packrack__Query *query);
void prm_lookups_free(struct prm_lookups *l);
/*
 * May a packet match of which the signature says all? (proto/wire/summary.h) linktype: 1 + that of all
 * packets in it, so that what others may match does not count; 0: it is not known.
 */
bool prm_lookups_may(
	struct prm_lookups *l, uint32_t linktype, const uint8_t *bits, unsigned log2);
/*
 * The same of eight signatures of 2^log2 bits at once: bit i of all of them is the byte slices[i]. A bit
 * for each that may.
 */
uint8_t prm_lookups_may_slices(
	struct prm_lookups *l, uint32_t linktype, const uint8_t *slices, unsigned log2);

#endif
