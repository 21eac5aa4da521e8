/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * What the XDP program (fast.bpf.c) and the dispatcher share: a ring of records, and the program's variables, which
 * both map. Included by both; fixed widths, the machine's byte order.
 */
enum {
	PR_FAST_LINKS = 64,
	PR_FAST_NODES = 256,
	PR_FAST_SLOTS = 4096,
	/* longest frame: what native XDP takes without fragments is below a page */
	PR_FAST_FRAME_MAX = 3520,
	PR_FAST_COST = 128,
	/* a frame that the program cannot send takes a multiple of this in the ring of such frames */
	PR_FAST_WHOLE_UNIT = 64,
};

/*
 * A packet's place in the ring: 32 bytes, so that two CPUs pass one another little. Written, then read in the order of
 * numbers. It is complete as soon as `tag` has the turn that the reader waits for.
 */
struct pr_fast_slot {
	int64_t time; /* ns, TAI */
	uint32_t
		fingerprint; /* of the frame as sent (proto/wire/fingerprint.h); PR_FAST_WHOLE: where its bytes are */
	uint16_t len; /* as it came */
	uint16_t caplen; /* what is kept of it */
	uint8_t macs[12]; /* dst, src as captured */
	uint32_t
		tag; /* from the top, bytes: turn, second copy's node, node, link with flags */
};
enum {
	PR_FAST_WHOLE = 0x40, /* the program did not send it: the dispatcher does */
	PR_FAST_HAS_NODE =
		0x80, /* the schedule names a node, and another one if that of the second copy differs */
	/* The turn of a number: its lap of the ring, so that it differs from what the lap before left. */
	PR_FAST_NUMBER_BITS = 24,
	PR_FAST_NUMBER = (1 << PR_FAST_NUMBER_BITS) - 1,
};

/* Of one capture interface. The program writes all but running. */
struct pr_fast_link {
	uint64_t refused_ring; /* not numbered: the ring or the nodes were full */
	uint64_t refused_long; /* not numbered: longer than PR_FAST_FRAME_MAX */
	uint64_t not_redirected; /* frames: numbered, and not taken by the kernel */
	uint64_t redirect_errors; /* packets that it refused */
	uint32_t running;
	uint32_t reserved[7];
};

/* Which nodes get a packet: slot[number % count], or slot[hash of the flow % count]. count 0: none. */
struct pr_fast_schedule {
	uint32_t count, by_flow, twice;
	uint32_t
		frame_max; /* longer frames are not sent by the program (4 bytes more with a VLAN tag) */
	uint8_t slot[PR_FAST_SLOTS]
		    [2]; /* numbers of nodes; twice: each two, else the same */
};

struct pr_fast_state {
	/*
	 * Written for each packet: PR_FAST_NUMBER_BITS of its number, and above them what frames take in the nodes' buffers,
	 * with PR_FAST_COST each: one addition gives a number and takes the room.
	 */
	uint64_t given __attribute__((aligned(64)));
	uint64_t whole_given; /* bytes of frames that went whole */
	/*
	 * Written by the reader: the number up to which it has released; the bytes of whole frames; how far the upper part of
	 * given may go. Beyond it frames are refused, as nodes would lose them while no timestamp log comes.
	 */
	uint64_t released __attribute__((aligned(64))), whole_released, most;
	uint32_t slots_most,
		whole_most; /* how much may be in use, as CPUs pass the test at once */
	uint32_t slot_bits;
	uint32_t active; /* schedule in use */
	uint16_t ethertype; /* of the rack */
	uint8_t src[6]; /* MAC of the rack interface */
	uint32_t snaplen; /* more is not kept of a frame */
	uint32_t all_whole; /* the dispatcher decides of each frame */
	uint64_t epoch;
	/* frames of the program that a driver took, and those that it had no room for */
	uint64_t redirected __attribute__((aligned(64))), transmit_dropped;
	struct pr_fast_link links[PR_FAST_LINKS] __attribute__((aligned(64)));
	uint32_t ifindex[PR_FAST_LINKS]; /* of the capture interfaces */
	uint8_t macs[PR_FAST_NODES][8]; /* of nodes, by number */
	struct pr_fast_schedule schedules[2];
};
