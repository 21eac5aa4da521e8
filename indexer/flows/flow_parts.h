/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/flows/flow.h"
#include "proto/base/cursor.h"

/*
 * Parts of flows as packets of flag PR_PACKET_PARTS, so that an answer has them in its order, and with its watermark and
 * credit. A frame has parts of one slice, and counts of packets; its otime is the last one of the slice. All frames of a
 * slice together have each packet once. "PFP", version u8 (1), struct pri_flow_parts_head (little-endian), and each part
 * up to the end:
 *
 *   u8: 1 one_way, 2 IPv6, 4 VLAN; u8 protocol; addresses; ports; link; VLAN if there is one; otime of the first packet
 *   since the second that names the slice; the lowest seq, since which seqs count; time of the last SYN; of each side:
 *   packets, and if there are any: bytes; payload; u8 flags; u8 ICMP code; times of the first and of the last; seqs of the
 *   first and of the last; and if the flags have SYN, FIN or RST: times of the first SYN, SYN+ACK, FIN, RST
 *
 * Numbers are varints; a time is 0 for none, else 1 + ns since the part's first packet.
 */
struct pri_flow_parts_head {
	uint32_t magic; /* "PFP", version */
	int64_t slice, first, last; /* first, last: otimes of packets */
	uint32_t packets, not_ip; /* packets: of all parts, and those that are not IP */
	/* by flags of packets, of this frame or of others */
	uint32_t related, truncated, unsure;
};
struct pri_flow_parts_reader {
	struct pri_flow_parts_head head;
	struct pr_cursor c;
	uint64_t packets; /* read so far */
};
/* False: damaged. */
bool pri_flow_parts_open(struct pri_flow_parts_reader *r, const struct pr_packet *packet);
/* 1: a part; 0: that was all; -1: damaged. */
int pri_flow_parts_next(struct pri_flow_parts_reader *r, struct pri_flow *out);

/*
 * Makes them of packets, which come in order. Holds at most `flows` parts, and those of a frame: then some go out before
 * the slice is over. A frame that is ready must be taken before the next packet. One thread.
 */
#define PRI_FLOW_PARTS_MOST 4096
struct pri_flow_parts;
struct pri_flow_parts *pri_flow_parts_create(
	size_t flows, uint32_t share, uint32_t shares, struct pr_error *err);
void pri_flow_parts_destroy(struct pri_flow_parts **parts);
int pri_flow_parts_packet(
	struct pri_flow_parts *parts, const struct pr_packet *packet, struct pr_error *err);
/* No packet comes that is earlier than otime; PRI_FLOW_NEVER: none at all. */
int pri_flow_parts_advance(
	struct pri_flow_parts *parts, int64_t otime, struct pr_error *err);
/* The frame that is ready, valid until the next packet or advance; false: there is none. */
bool pri_flow_parts_take(struct pri_flow_parts *parts, struct pr_packet *out);
