/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_TRANSMIT_H
#define PR_DISPATCHER_TRANSMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/counter.h"
#include "proto/base/error.h"
#include "proto/wire/frame.h"

/*
 * The o-port's one transmit socket: data frames in batches, control frames built with libnet, all
 * in the order given. One thread. The only file that knows libnet.h.
 */
#define PRD_BATCH 64

struct prd_transmit;

struct prd_transmit_config {
	const char *ifname;
	int ifindex;
	uint32_t mtu;
	uint8_t mac[PR_MAC_LEN];
	uint16_t ethertype;
	const struct pr_frame_key *key; /* kept, not copied */
	int64_t patience; /* ns to try again while the o-port's queue is full; then the frame is lost */
};

struct prd_transmit_counters {
	pr_counter data_frames, data_bytes, data_failed;
	pr_counter control_frames, control_bytes, control_failed;
	pr_counter log_frames, log_bytes;
	pr_counter queue_full; /* times that the o-port's queue was full */
	pr_counter calls;
};

struct prd_transmit *prd_transmit_open(
	const struct prd_transmit_config *config, struct pr_error *err);
void prd_transmit_close(struct prd_transmit **transmit);
const struct prd_transmit_counters *prd_transmit_counters(const struct prd_transmit *t);

/* Errors of the o-port as a whole (down, gone) since the last call: fills err and returns true. */
bool prd_transmit_trouble(struct prd_transmit *t, struct pr_error *err);

/*
 * Data frames: add up to PRD_BATCH, then send. head, when not NULL, replaces the first
 * PR_ETHER_LEN bytes of frame (second copies lie in the same memory as the first). Both must
 * stay until send, which fills failed[i] and returns how many went out.
 */
void prd_transmit_add(
	struct prd_transmit *t, const uint8_t *frame, size_t len, const uint8_t *head);
size_t prd_transmit_send(struct prd_transmit *t, bool failed[PRD_BATCH]);

/*
 * Queues a control frame: f with dst, header and body set; src is filled in. Copied. It goes out
 * with the next flush, or when the queue is full. -1: it cannot be built, and is counted.
 */
int prd_transmit_control(struct prd_transmit *t, struct pr_frame *f);
void prd_transmit_flush(struct prd_transmit *t);

#endif
