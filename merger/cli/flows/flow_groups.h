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
/* groups: struct flow_groups. -1: no memory, or more than FLOW_GROUPS_MAX sums. */
flow_take flow_groups_add;
/*
 * Adds those of kept flows that the filter matches (NULL: all), *found many, with a thread a processor. If only `top` are
 * printed, there may be any number of sums, as long as those that may be the largest are not too many. -1: err
 */
int flow_groups_kept(struct flow_groups *g, struct flow_kept *kept,
	const struct pri_plan *plan, const struct pri_flow_filter *filter, uint64_t *found,
	struct pr_error *err);
/* The flows themselves, the largest first, as many as are printed. Without keys only. */
struct flow_found {
	struct pri_flow flow;
	uint64_t missing;
};
const struct flow_found *flow_groups_flows(struct flow_groups *g, size_t *count);
/* Prints all, the largest first; what are equal in the order of their keys. Returns the number of rows; SIZE_MAX: no memory. */
size_t flow_groups_print(
	struct flow_groups *g, enum flow_form form, const struct flow_context *context);
