/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/port/netdev.h"
#include "proto/port/transmit.h"

/*
 * Control frames of the rack's switch, built with libnet and sent by the transmit socket that also
 * sends data frames, so that both stay in order. One thread.
 */

/* transmit and key are kept, not copied; dev: the interface of transmit. */
struct pr_control *pr_control_open(struct pr_transmit *transmit,
	const struct pr_netdev *dev, uint16_t ethertype, const struct pr_frame_key *key,
	struct pr_error *err);
void pr_control_close(struct pr_control **control);

/*
 * Queues a copy of f, whose dst, header and body are set; src is filled in. It goes out with the next
 * flush, or when the queue is full. -1: it cannot be built, and is counted as failed.
 */
int pr_control_add(struct pr_control *c, struct pr_frame *f);
/* Sends what is queued. Returns how many frames were not sent. */
size_t pr_control_flush(struct pr_control *c);
