/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "proto/base/counter.h"
#include "proto/base/error.h"

/*
 * The one socket that sends raw frames on an interface: an AF_XDP socket where that is asked for and
 * possible (xdp.h), else a packet socket. Frames leave in the order given. One thread.
 */
#define PR_TRANSMIT_BATCH 64

struct pr_transmit_config {
	const char *ifname;
	int ifindex;
	uint32_t mtu;
	bool xdp; /* use AF_XDP if frames of this MTU fit it */
	/* ns to try again while the interface's queue is full, then the frame counts as failed */
	int64_t patience;
};

struct pr_transmit_counters {
	pr_counter data_frames, data_bytes, data_failed;
	pr_counter control_frames, control_bytes, control_failed; /* control.h */
	pr_counter log_frames, log_bytes; /* control.h: timestamp logs */
	pr_counter queue_full; /* times that the interface's queue was full */
	pr_counter calls; /* of the kernel */
};

struct pr_transmit *pr_transmit_open(
	const struct pr_transmit_config *config, struct pr_error *err);
void pr_transmit_close(struct pr_transmit **transmit);
struct pr_transmit_counters *pr_transmit_counters(struct pr_transmit *t);

/* True if the interface as a whole failed (down, gone) since the last call; err says how. */
bool pr_transmit_trouble(struct pr_transmit *t, struct pr_error *err);

/*
 * Data frames: add up to PR_TRANSMIT_BATCH, then send. head, when not NULL, replaces the first
 * PR_ETHER_LEN bytes of frame (second copies lie in the same memory as the first). Both must
 * stay until send, which sets failed[i] of each and returns how many went out.
 */
void pr_transmit_add(
	struct pr_transmit *t, const uint8_t *frame, size_t len, const uint8_t *head);
size_t pr_transmit_send(struct pr_transmit *t, bool failed[PR_TRANSMIT_BATCH]);

/* Sends messages of the caller's at once; as pr_transmit_send, but counts calls and queue_full only. */
size_t pr_transmit_messages(
	struct pr_transmit *t, struct mmsghdr *msgs, unsigned count, bool *failed);
