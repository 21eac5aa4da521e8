/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_OPORT_H
#define PR_DISPATCHER_OPORT_H

#include <stdint.h>

#include "proto/base/counter.h"
#include "proto/base/error.h"
#include "proto/base/loop.h"
#include "proto/base/ring.h"
#include "proto/wire/frame.h"

/*
 * What nodes send: control frames that come in at the o-port are checked here, in the loop's
 * thread, and passed to the send thread as events. Everything in a frame is hostile.
 */
struct prd_oport;

struct prd_oport_config {
	const char *ifname;
	int ifindex;
	uint16_t ethertype;
	uint32_t rack;
	const struct pr_frame_key *key; /* kept */
	struct pr_ring *events; /* struct prd_event; this is its producer */
};

struct prd_oport_counters {
	pr_counter received[PR_FRAME_TYPES]; /* good ones, by type */
	pr_counter refused[PR_FRAME_RESULTS]; /* by enum pr_frame_result */
	pr_counter other_rack, not_from_node;
	pr_counter dropped; /* no room on the way to the send thread */
};

struct prd_oport *prd_oport_open(
	struct pr_loop *loop, const struct prd_oport_config *config, struct pr_error *err);
void prd_oport_close(struct prd_oport **oport);
const struct prd_oport_counters *prd_oport_counters(const struct prd_oport *oport);

#endif
