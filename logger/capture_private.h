/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_CAPTURE_PRIVATE_H
#define PRL_LOGGER_CAPTURE_PRIVATE_H

#include <pcap/pcap.h>
#include <pthread.h>
#include <stdatomic.h>

#include "logger/capture.h"

/* Between capture.c, which takes frames, and capture_open.c, which asks for them. */
struct prl_capture {
	pcap_t *pcap; /* NULL: direct, from `packets` */
	struct prl_packet_ring *packets;
	struct pr_ring *ring; /* NULL: direct */
	prl_capture_call call; /* of the take that is under way */
	void *call_arg;
	uint64_t taken, taken_bytes; /* and not counted yet */
	int linktype;
	uint32_t snaplen;
	struct prl_capture_options o;
	pthread_t thread;
	bool activated, started;
	atomic_bool stop, waiting, failed;
	_Atomic uint64_t epoch;
	int64_t looked;
	struct prl_capture_counters counters;
	char why[sizeof(struct pr_error) + 32];
};

/* From the device's own ring; or, through libpcap's, into a frame buffer. */
int prl_capture_open_direct(struct prl_capture *c, struct pr_error *err);
int prl_capture_open_buffered(struct prl_capture *c, struct pr_error *err);
void prl_capture_close_pcap(struct prl_capture *c); /* if there is any */

#endif
