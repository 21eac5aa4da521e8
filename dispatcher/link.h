/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_LINK_H
#define PR_DISPATCHER_LINK_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/counter.h"
#include "proto/wire/frame.h"

/*
 * One monitored line: an i-port or a trace file. Shared by the thread that captures it and the
 * thread that sends; each counter has one writer, and each writer a cache line of its own.
 */
#define PRD_LINKS_MAX 64

struct prd_link {
	uint16_t number, linktype;
	uint32_t snaplen;
	uint32_t mtu; /* of the i-port; 0: a file, whose packets may have any length */
	uint64_t speed; /* of the i-port, bits/s; 0 unknown */
	bool live;
	char name[PR_NAME_MAX + 1];

	/* written by the capture thread */
	alignas(64) pr_counter captured_packets;
	pr_counter captured_bytes;
	pr_counter dropped_kernel; /* the kernel's ring was full */
	pr_counter dropped_interface; /* the card, or the kernel's backlog */
	pr_counter dropped_ring; /* the cyclic buffer was full */
	_Atomic int64_t captured_until; /* all stamped before it has been published */
	_Atomic bool read_to_end; /* a file: nothing more will come */

	/* written by the send thread */
	alignas(64) pr_counter last_seq;
	_Atomic int64_t last_otime;
	pr_counter sent_packets, sent_bytes; /* primaries, as sent */
	pr_counter dropped_no_node, dropped_send;
	pr_counter cut, escaped, runts;
	pr_counter undelivered_first, undelivered_last;
	_Atomic bool ended;
};

/*
 * A captured packet in the cyclic buffer, which the send thread rewrites in place. data has room
 * for at least PR_FRAME_MIN bytes, so that short frames can be padded where they lie.
 */
struct prd_record {
	int64_t time;
	uint32_t caplen, len;
	uint16_t link;
	uint8_t reserved[6];
	uint8_t data[];
};

static inline size_t
prd_record_size(uint32_t caplen)
{
	return sizeof(struct prd_record) + (caplen < PR_FRAME_MIN ? PR_FRAME_MIN : caplen);
}

#endif
