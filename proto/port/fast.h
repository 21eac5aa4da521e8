/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/base/error.h"
#include "proto/port/fast_record.h"

/*
 * The fast path: an XDP program (fast.bpf.c) on each capture interface stamps and numbers the packets, and sends them
 * to their nodes by the rack interface. Of each packet it leaves a record in one ring for all interfaces. What the
 * program cannot send lies whole in a second ring, in the same numbering, and the reader sends it.
 *
 * The programs hang on links of this process: when it ends, by whatever way, the kernel takes them off.
 * open needs privileges (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON), all else needs none. open, configure, close: one thread,
 * while no other uses it. set_running, refused, counted_twice, sent, used: any thread. All else: the thread that reads.
 */
struct pr_fast;

/* A packet */
struct pr_fast_record {
	int64_t time; /* ns, UTC */
	uint32_t fingerprint; /* of the frame as sent, if it was */
	uint16_t len, caplen; /* as it came; what is kept of it */
	uint16_t link;
	uint16_t node,
		second; /* numbers; PR_FAST_NO_NODE: the schedule names none, no second copy */
	uint8_t macs[12]; /* dst, src as captured */
	bool sent;
};
enum { PR_FAST_NO_NODE = 0xffff };

/* copies: at most, 1 or 2. ring_size: bytes of both rings, rounded up to a power of two. NULL and err: this machine, or an interface, has no XDP. */
struct pr_fast *pr_fast_open(const char *const *ifnames, unsigned count, const char *out,
	size_t ring_size, unsigned copies, struct pr_error *err);
void pr_fast_close(struct pr_fast **fast);

/*
 * mac, ethertype: of the rack; all_whole: the program sends no frame, as it cannot know which are wanted. Until then, and
 * until an interface is set running, the program passes all packets on.
 */
void pr_fast_configure(struct pr_fast *f, uint64_t epoch, const uint8_t mac[6],
	uint16_t ethertype, uint32_t snaplen, bool all_whole);
/* "native" or "generic", for people */
const char *pr_fast_mode(const struct pr_fast *f);

/* Off: from some microseconds after it the interface gives no more records. */
void pr_fast_set_running(struct pr_fast *f, unsigned link, bool running);

/*
 * Packets that the interface's program refused before they had a number (a ring or the nodes were full; too long for XDP).
 */
void pr_fast_refused(
	const struct pr_fast *f, unsigned link, uint64_t *ring, uint64_t *longer);
/*
 * Frames that have a number and were not passed to the rack interface, and that the capture interface counts as drops of
 * its own, as a veth does. Read after the interface's count.
 */
uint64_t pr_fast_counted_twice(const struct pr_fast *f, unsigned link);
/* Of all interfaces: frames taken by the rack interface's driver; lost after they had a number, by place. */
void pr_fast_sent(const struct pr_fast *f, uint64_t *sent, uint64_t *redirect_failed,
	uint64_t *transmit_dropped);

/* A node's address, before a schedule names it. */
void pr_fast_node(struct pr_fast *f, uint16_t node, const uint8_t mac[6]);
/* From what has been read on, so many bytes may go to nodes, with PR_FAST_COST for each frame. At first none may. */
void pr_fast_room(struct pr_fast *f, uint64_t bytes);
/* While no node is in the schedule: what has a number and was not read yet, counted alike. Else 0. */
uint64_t pr_fast_backlog(const struct pr_fast *f);
/*
 * The schedule that is not in use, to be filled in; swap puts it into use. Not before all packets of the last swap are
 * decided, which takes some microseconds.
 */
struct pr_fast_schedule *pr_fast_schedule(struct pr_fast *f);
void pr_fast_swap(struct pr_fast *f);

/*
 * The next record, of each link in the order in which they were numbered; false: there is none that is ready. A record
 * with sent == false has the packet's bytes, *data, which stay until release and may not be written.
 */
bool pr_fast_next(struct pr_fast *f, struct pr_fast_record *out, const uint8_t **data);
void pr_fast_release(struct pr_fast *f);
/* True if there is no record at all, also none that is being written: all that was stamped before is taken. */
bool pr_fast_empty(const struct pr_fast *f);
/*
 * True if all that was numbered before the last call that returned true has been read. Numbers come before times: what was
 * stamped before that call has been read, too. At first true.
 */
bool pr_fast_passed(struct pr_fast *f);
/* The bytes that would be in use if both rings were as full as the fuller one is; *size: of both. */
size_t pr_fast_used(const struct pr_fast *f, uint64_t *size);
