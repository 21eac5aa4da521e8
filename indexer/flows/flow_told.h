/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/flows/flow.h"

/* A flow as somebody else tells of it: an exporter's record, or a row of a file. Index 0: the sender, 1: who answers. */
struct pri_told {
	uint8_t address[2][16], address_len; /* 0: none */
	uint8_t state; /* 1 + enum pri_flow_state; 0: as the flags tell */
	uint16_t icmp; /* type << 8 | code */
	bool has_icmp, has_up, has_sampler;
	bool out; /* packets[1] are those that left */
	/* Numbers have 8 bytes each, whatever their range: an exporter's are all read alike. */
	uint64_t port[2], vlan, protocol, flags[2];
	uint64_t bytes[2], packets[2], payload[2];
	int64_t first[2], last[2]; /* of each direction, ns since 1970; 0: not told */
	int64_t init; /* ns since 1970 of the uptime's 0; 0: not told */
	int64_t sent; /* of the message, with `uptime` (ms); 0: it has no uptime */
	uint64_t uptime, up_first, up_last; /* ms */
	int64_t duration;
	uint64_t sampling, sampler;
	uint64_t sampled, skipped; /* packets, in turn */
};

/* The key that a packet of the flow would have (flow_key.c); returns the side of the sender. There must be addresses. */
uint8_t pri_told_key(const struct pri_told *r, uint16_t link, struct pri_flow_key *key,
	uint8_t *icmp_code);
/*
 * The flow, with first and last as they are. Packets and bytes are multiplied by `sampling`. Flags tell that they came,
 * not when; a state is that of the flow, if its packets can have it. False: no addresses.
 */
bool pri_told_flow(const struct pri_told *r, uint16_t link, struct pri_flow *out);
/* count * sampling, or count if that is too much, or nothing was left out. */
uint64_t pri_told_times(uint64_t count, uint64_t sampling);
