/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_CAPTURE_H
#define PR_DISPATCHER_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "dispatcher/link.h"
#include "proto/base/error.h"
#include "proto/base/ring.h"

/*
 * One i-port and the thread that moves its packets from the kernel's ring into the cyclic buffer
 * (CLog section 3.1). Never waits for room: a full buffer is a counted drop.
 */
struct prd_capture;

/* On Linux a nice value is a thread's own. */
#define PRD_NICE_CAPTURE (-15)
#define PRD_NICE_SEND (-10)

struct prd_capture_config {
	const char *ifname;
	const char *filter; /* or NULL */
	uint32_t snaplen;
	uint64_t kernel_ring;
};

/* Exit status that an error deserves. */
enum prd_fault { PRD_FAULT_USAGE = 2, PRD_FAULT_RUN = 1 };

/*
 * Opens the interface, so that what is wrong shows before anything starts. The strings of config,
 * link and ring stay the caller's and must outlive the capture. *fault is set on error.
 */
struct prd_capture *prd_capture_open(const struct prd_capture_config *config,
	struct prd_link *link, struct pr_ring *ring, enum prd_fault *fault,
	struct pr_error *err);
int prd_capture_start_thread(struct prd_capture *capture, struct pr_error *err);
void prd_capture_destroy(struct prd_capture **capture); /* ends the thread */

/* Any thread. Off: what the kernel has is still delivered, then the link is quiet. */
void prd_capture_turn(struct prd_capture *capture, bool on);
bool prd_capture_is_quiet(const struct prd_capture *capture);

#endif
