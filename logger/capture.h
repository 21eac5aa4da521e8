/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

#include "proto/base/counter.h"
#include "proto/base/ring.h"
#include "proto/port/capture.h"

/*
 * The receive thread: moves frames of an interface from the kernel's ring into a frame
 * buffer. It drops nothing: while the buffer is full it waits, and frames gather in the
 * kernel's ring. A direct capture has neither thread nor frame buffer, because no frame
 * waits for a timestamp log: prl_capture_take passes frames on in the kernel's ring. That
 * saves a copy and waking a thread.
 */
/* A record of the frame buffer; the frame's bytes follow it. */
struct prl_capture_record {
	int64_t time; /* ns, real */
	uint64_t epoch; /* seed of the fingerprint */
	bool whole; /* its kind: the second */
	uint32_t fingerprint;
	uint32_t caplen, len;
	bool control;
	uint8_t data[];
};

struct prl_capture_options {
	struct pr_capture_options port;
	uint64_t ring_size; /* the frame buffer, bytes */
	const char *filter; /* pcap-filter(7), or NULL */
	/*
	 * Direct capture, if buffer_size is large enough for a tick; the kernel's ring then
	 * also gets four times ring_size.
	 */
	bool direct;
	/*
	 * rack mode: only frames to this MAC, and broadcast frames of this Ethertype
	 * (control)
	 */
	bool rack;
	uint8_t mac[6];
	uint16_t ethertype;
};

struct prl_capture_counters {
	pr_counter frames_received, bytes_received; /* taken from the kernel */
	pr_counter control_received;
	pr_counter kernel_drops, interface_drops;
	pr_counter unstamped; /* pr_capture_unstamped */
	pr_counter buffer_waits; /* times that the frame buffer was full */
};

struct prl_capture {
	struct pr_capture *port;
	struct pr_ring *ring; /* NULL: direct */
	struct prl_capture_counters counters;
	_Atomic uint64_t epoch; /* seed of the next fingerprints; each record has its own */
	atomic_bool whole; /* their kind */
	atomic_bool waiting; /* the receiver waits for room in the frame buffer */

	/* of capture.c */
	struct prl_capture_options o;
	/* during a take: the call of a direct capture, and frames not counted yet */
	pr_capture_call call;
	void *call_arg;
	uint64_t taken, taken_bytes;
	pthread_t thread;
	bool started;
	atomic_bool stop, failed;
	int64_t last_stats;
	struct pr_error why; /* set before failed is */
};

/* Opens; capturing starts with prl_capture_start. */
struct prl_capture *prl_capture_open(
	const struct prl_capture_options *options, struct pr_error *err);
int prl_capture_start(struct prl_capture *c, struct pr_error *err);
void prl_capture_stop(struct prl_capture *c); /* joins the thread; records may be read on */
void prl_capture_close(struct prl_capture **capture);

/*
 * Direct captures only: passes up to `most` frames that have come. Does not wait. Returns
 * their number.
 */
int prl_capture_take(struct prl_capture *c, int most, pr_capture_call call, void *arg);
/* Why the interface has failed, or NULL. */
const char *prl_capture_failed(const struct prl_capture *c);
