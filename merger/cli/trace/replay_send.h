/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_REPLAY_SEND_H
#define PR_CLI_REPLAY_SEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "merger/cli/trace/pace.h"
#include "merger/cli/trace/replay_queue.h"
#include "proto/base/error.h"
#include "proto/port/transmit.h"

/*
 * Sends frames onto one interface, each when it is due: it sleeps until shortly before and then looks at
 * the clock until it is time. What is due at once goes out with one call. A thread of its own.
 */
#define REPLAY_ERRORS 20000 /* buckets of 50 ns: up to a millisecond */

struct replay_counts {
	uint64_t frames, bytes; /* sent */
	uint64_t too_long, too_short; /* the interface takes no such frame */
	uint64_t failed; /* its queue stayed full for a second */
	uint64_t queue_full; /* times that its queue was full */
	int64_t begun, ended; /* monotonic; of sending */
	/* how late frames were handed to the kernel, of those that had a time to be kept */
	uint64_t paced, late[REPLAY_ERRORS + 1];
	int64_t latest;
};

struct replay_send {
	struct replay_queue *queue;
	struct pace pace;
	int64_t at; /* real time of the first frame; 0: as soon as there is a stock */
	atomic_bool stop; /* ends it before the next frame */
	struct replay_counts counts;
	struct pr_error err; /* when it gave up */
	bool gave_up;
	/* its own */
	struct pr_transmit *transmit;
	uint32_t mtu;
	bool realtime;
	int64_t slept; /* when it last did */
};

/* The interface must be there and up. */
int replay_send_open(struct replay_send *s, const char *ifname, struct pr_error *err);
void replay_send_close(struct replay_send *s);
/* The thread: until the queue's end. */
void *replay_send_run(void *arg);
/* Of lateness: ns that the part (0.5: half) of the frames stayed below. */
int64_t replay_late(const struct replay_counts *counts, double part);

#endif
