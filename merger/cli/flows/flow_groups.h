/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/cli/flows/flow_keep.h"
#include "merger/cli/flows/flow_record.h"

/*
 * What `packrack flows --by` and `--top` need: sums of flows that are equal in the keys of --by, or the flows
 * themselves, the largest first.
 */
enum flow_measure {
	FLOW_BY_BYTES,
	FLOW_BY_PACKETS,
	FLOW_BY_PAYLOAD,
	FLOW_BY_DURATION,
	FLOW_BY_FLOWS
};
extern const char *const flow_measures[]; /* their names, and NULL */

#define FLOW_GROUPS_MAX 1000000
struct flow_groups;

/*
 * by: names of keys, separated by commas: src, dst, sport, dport, proto, vlan, link, state; src/N and dst/N: the first
 * N bits of the address. NULL: no sums, the flows themselves. top: how many are printed; 0: all. -> NULL: err.
 */
struct flow_groups *flow_groups_create(
	const char *by, enum flow_measure of, uint64_t top, struct pr_error *err);
void flow_groups_destroy(struct flow_groups **groups);
/* -1: no memory, or more than FLOW_GROUPS_MAX sums. */
int flow_groups_add(
	struct flow_groups *g, const struct pri_flow *flow, struct pr_error *err);
/* Of kept flows, what must be read if all are added. */
struct flow_choice flow_groups_choice(const struct flow_groups *g);
/* The flows themselves, the largest first, as many as are printed. Without keys only. */
const struct pri_flow *flow_groups_flows(struct flow_groups *g, size_t *count);
/* Prints all, the largest first; what are equal in the order of their keys. Returns the number of rows; SIZE_MAX: no memory. */
size_t flow_groups_print(
	struct flow_groups *g, enum flow_form form, const struct flow_context *context);
