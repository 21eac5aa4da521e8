/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/wire/timestamps.h"

/*
 * An interface captured with libpcap: its frames lie in a ring of the kernel until they are taken. Times
 * are ns since 1970 UTC, from the kernel unless `timestamps` says otherwise. One thread.
 */

struct pr_capture_options {
	const char *ifname; /* kept, not copied */
	uint64_t buffer_size; /* of the kernel's ring, bytes */
	uint32_t snaplen;
	bool promiscuous;
	bool both; /* also what this machine sends; else incoming frames only */
	uint8_t timestamps; /* enum pr_timestamp_source; an error of open if the interface does not have them */
};

/* Longest time that a frame waits in the kernel's ring before it can be taken. */
#define PR_CAPTURE_BLOCK_MS 10

/*
 * A time that is more than PR_CAPTURE_LATE_NS before the moment at which the frame is taken, or after it, cannot be: a card's clock
 * is elsewhere, a frame has no trailer. Then the frame has the kernel's time (adapters: that moment), and is counted.
 */
#define PR_CAPTURE_LATE_NS INT64_C(10000000000)
#define PR_CAPTURE_EARLY_NS INT64_C(10000000) /* two clocks of one machine */

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

uint64_t pr_capture_unstamped(const struct pr_capture *c); /* frames so counted */
/*
 * All frames that the kernel had before `time` were taken. Returns up to when that can be confirmed: `time`, less how far the
 * source's clock has been behind. A frame that comes with an earlier time nevertheless gets the confirmed one, and is
 * counted as unstamped. Of PR_TIMESTAMP_HOST: `time`.
 */
int64_t pr_capture_confirm(struct pr_capture *c, int64_t time);

/* Frames dropped since it was opened: by the kernel, as its ring was full, and by the card. */
void pr_capture_drops(struct pr_capture *c, uint64_t *kernel, uint64_t *interface);
