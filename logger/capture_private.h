/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_LOGGER_CAPTURE_PRIVATE_H
#define PR_LOGGER_CAPTURE_PRIVATE_H

#include <pcap/pcap.h>
#include <pthread.h>
#include <stdatomic.h>

#include "logger/capture.h"

/* Between capture.c, which takes frames, and capture_open.c, which asks for them. */
struct pr_capture {
	pcap_t *pcap; /* NULL: direct, from `packets` */
	struct pr_packet_ring *packets;
	struct pr_ring *ring; /* NULL: direct */
	pr_capture_call call; /* of the take that is under way */
	void *call_arg;
	uint64_t taken, taken_bytes; /* and not counted yet */
	int linktype;
	uint32_t snaplen;
	struct pr_capture_options o;
	pthread_t thread;
	bool activated, started;
	atomic_bool stop, waiting, failed;
	_Atomic uint64_t epoch;
	int64_t looked;
	struct pr_capture_counters counters;
	char why[sizeof(struct pr_error) + 32];
};

/* From the device's own ring; or, through libpcap's, into a frame buffer. */
int pr_capture_open_direct(struct pr_capture *c, struct pr_error *err);
int pr_capture_open_buffered(struct pr_capture *c, struct pr_error *err);
void pr_capture_close_pcap(struct pr_capture *c); /* if there is any */

#endif
