/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"

/*
 * An interface captured with libpcap: its frames lie in a ring of the kernel until they are taken. Times
 * are ns since 1970 UTC, from the kernel. One thread.
 */

struct pr_capture_options {
	const char *ifname; /* kept, not copied */
	uint64_t buffer_size; /* of the kernel's ring, bytes */
	uint32_t snaplen;
	bool promiscuous;
	bool both; /* also what this machine sends; else incoming frames only */
};

/* Longest time that a frame waits in the kernel's ring before it can be taken. */
#define PR_CAPTURE_BLOCK_MS 10

struct pr_capture *pr_capture_open(
	const struct pr_capture_options *options, struct pr_error *err);
void pr_capture_close(struct pr_capture **capture);

/* filter: pcap-filter(7). -1: it does not compile, or the kernel does not take it. */
int pr_capture_filter(struct pr_capture *c, const char *filter, struct pr_error *err);

/* data is valid during the call only. */
typedef void (*pr_capture_call)(
	void *arg, int64_t time, const uint8_t *data, uint32_t caplen, uint32_t len);
/*
 * Passes the frames that have come, up to `most`, to `call`. Does not wait. Returns their
 * number; -1: the interface has failed, or is gone.
 */
int pr_capture_take(struct pr_capture *c, int most, pr_capture_call call, void *arg,
	struct pr_error *err);
int pr_capture_fd(const struct pr_capture *c); /* readable when frames have come */

int pr_capture_linktype(const struct pr_capture *c); /* LINKTYPE_, as in trace files */
uint32_t pr_capture_snaplen(const struct pr_capture *c);

/* Frames dropped since it was opened: by the kernel, as its ring was full, and by the card. */
void pr_capture_drops(struct pr_capture *c, uint64_t *kernel, uint64_t *interface);
