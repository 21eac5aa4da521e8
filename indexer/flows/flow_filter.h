/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/flows/flow.h"

/*
 * A filter of flows: that of packets (pcap-filter(7)) as far as it applies, and attributes:
 *
 *   tcp port 80 and src net 10.0.0.0/8 and bytes > 1M and not state = SF
 *
 * Sender is who began the flow. The packet that is tested has the flow's addresses, ports, protocol, VLAN, ICMP type
 * and code, and the TCP flags of all its packets (`tcp[tcpflags] & tcp-rst != 0`). Attributes: bytes, packets, payload
 * (both directions), bytes_sent, bytes_recv, packets_sent, packets_recv, duration (10s, 5m), state (S0, SF, ...).
 * How: an attribute's truth stands in a byte behind the headers, and the text has `ether[N] = 1` in its place.
 */
struct pri_flow_filter;

/* "": all flows. NULL: err says what is wrong, and where. */
struct pri_flow_filter *pri_flow_filter_create(const char *text, struct pr_error *err);
void pri_flow_filter_destroy(struct pri_flow_filter **filter);
bool pri_flow_filter_match(
	const struct pri_flow_filter *filter, const struct pri_flow *flow);
/* Columns (flow_columns.h) of which pri_batch_sums makes a flow that can be tested. */
uint64_t pri_flow_filter_columns(const struct pri_flow_filter *filter);

/*
 * What keys and numbers of a flow's headers tell of the filter: true of each flow that it matches, and perhaps of
 * others. NULL: err.
 */
struct pri_plan;
struct pri_plan *pri_flow_filter_plan(
	const struct pri_flow_filter *filter, struct pr_error *err);
