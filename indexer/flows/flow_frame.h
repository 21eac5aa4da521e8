/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/flows/flow.h"

/*
 * A flow record as a packet: so volumes, their index and queries keep records as they keep
 * packets, and tcpdump shows them. Its headers are those of a packet from who began the flow,
 * with the TCP flags of all its packets (ICMP: type and code). Behind them, numbers are
 * varints, `time` is 0 for none, else 1 + ns from the flow's first packet on:
 *
 *   "PFL" version u8 (1)
 *   first i64 of the flow; u8: 1 side 1 began it, 2 one_way; link; protocol without ports:
 *   port of side 0, of side 1; time of the last SYN; missing; sampling
 *   of each side: packets; bytes; payload; u8 flags; u8 ICMP code; of packets: time of the
 *   first, of the last, seq of the first, seq of the last, times of the first SYN, SYN+ACK,
 *   FIN, RST
 *
 * Only who made the volume knows that its packets are such: a packet of a network may have any bytes.
 */
#define PRI_FLOW_FRAME_MAX 512
#define PRI_FLOW_HEADERS_MAX 78

/* Ethernet, IP and 20 bytes of the transport header; zeros where nothing is known. Returns their length. */
size_t pri_flow_frame_headers(const struct pri_flow *flow, uint8_t *frame);

/* missing: packets of the link that are missing while the flow lasted. Returns the length. */
size_t pri_flow_frame_write(
	const struct pri_flow *flow, uint64_t missing, uint8_t out[PRI_FLOW_FRAME_MAX]);
/* False: no record. Any bytes may come. */
bool pri_flow_frame_read(
	const uint8_t *data, size_t len, struct pri_flow *out, uint64_t *missing);
