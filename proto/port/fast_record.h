/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * What the XDP program (fast.bpf.c) and the dispatcher share: records of the BPF ring buffer, and the program's
 * variables, which both map. Included by both; fixed widths, the machine's byte order.
 */
enum {
	PR_FAST_LINKS = 64,
	PR_FAST_NODES = 256,
	PR_FAST_SLOTS = 4096,
	PR_FAST_NO_NODE = 0xffff,
	/* longest frame: what native XDP takes without fragments is below a page */
	PR_FAST_FRAME_MAX = 3520,
	PR_FAST_COST = 128,
};

/* A packet. Its bytes follow if the program did not send it (sent is 0): the dispatcher sends it then. */
struct pr_fast_record {
	uint64_t seq; /* from 1, without gaps: each number that is taken has a record */
	int64_t time; /* ns, TAI */
	uint32_t len; /* as it came */
	uint32_t fingerprint; /* of the frame as sent (proto/wire/fingerprint.h) */
	uint16_t link;
	uint16_t node; /* number; PR_FAST_NO_NODE: the schedule names none */
	uint8_t macs[12]; /* dst, src as captured */
	uint16_t caplen; /* what is kept of it */
	uint8_t sent;
	uint8_t reserved[5];
};

/* Of one capture interface. The program writes all but running. */
struct pr_fast_link {
	uint64_t seq; /* last number taken */
	uint64_t refused_ring; /* not numbered: the ring buffer or the nodes were full */
	uint64_t refused_long; /* not numbered: longer than PR_FAST_FRAME_MAX */
	uint64_t not_redirected; /* numbered, and not taken by the kernel */
	uint32_t running;
	uint32_t reserved[7];
};

/* Which node gets a packet: slot[seq % count], or slot[hash of the flow % count]. count 0: no node. */
struct pr_fast_schedule {
	uint32_t count, by_flow;
	uint32_t
		frame_max; /* longer frames are not sent by the program (4 bytes more with a VLAN tag) */
	uint32_t reserved;
	uint16_t slot[PR_FAST_SLOTS]; /* numbers of nodes, below PR_FAST_NODES */
};

struct pr_fast_state {
	uint32_t ifindex[PR_FAST_LINKS]; /* of the capture interfaces */
	struct pr_fast_link links[PR_FAST_LINKS];
	struct pr_fast_schedule schedules[2];
	uint32_t active; /* schedule in use */
	uint16_t ethertype; /* of the rack */
	uint8_t src[6]; /* MAC of the rack interface */
	uint32_t snaplen; /* more is not kept of a frame */
	uint8_t macs[PR_FAST_NODES][8]; /* of nodes, by number */
	uint64_t epoch;
	/* frames of the program that a driver took, and those that it had no room for */
	uint64_t redirected, transmit_dropped;
	/*
	 * What frames take in the nodes' buffers, with PR_FAST_COST each: of those that have a number; and how far that may
	 * go. Beyond it they are refused, as nodes would lose them while no timestamp log comes.
	 */
	uint64_t given, most;
};
