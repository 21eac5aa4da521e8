/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_CAPTURE_H
#define PRL_LOGGER_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/counter.h"
#include "proto/base/error.h"
#include "proto/base/ring.h"
#include "proto/port/capture.h"

/*
 * The receive thread: moves frames of an interface from the kernel's ring into a frame buffer. It drops
 * nothing: while the buffer is full it waits, and the kernel's ring takes up what comes.
 * A direct capture has neither thread nor frame buffer, because no frame waits for a timestamp log:
 * prl_capture_take passes frames on as they lie in the kernel's ring. This saves a copy and a thread's waking.
 */
struct prl_capture;

/* A record of the frame buffer; the frame's bytes follow it. */
struct prl_capture_record {
	int64_t time; /* ns, real */
	uint64_t epoch; /* seed of the fingerprint */
	uint32_t fingerprint;
	uint32_t caplen, len;
	bool control;
	uint8_t data[];
};

struct prl_capture_options {
	struct pr_capture_options port;
	uint64_t ring_size; /* the frame buffer, bytes */
	const char *filter; /* pcap-filter(7), or NULL */
	/* Take from the kernel's ring, which then has both sizes, if that is large enough for a tick. */
	bool direct;
	/* rack mode: frames to this MAC, and broadcast control frames; control is told by the Ethertype */
	bool rack;
	uint8_t mac[6];
	uint16_t ethertype;
};

struct prl_capture_counters {
	pr_counter frames_received, bytes_received; /* taken from the kernel */
	pr_counter control_received;
	pr_counter kernel_drops, interface_drops;
	pr_counter buffer_waits; /* times that the frame buffer was full */
};

/* Opens; capturing starts with prl_capture_start. */
struct prl_capture *prl_capture_open(
	const struct prl_capture_options *options, struct pr_error *err);
int prl_capture_start(struct prl_capture *c, struct pr_error *err);
void prl_capture_stop(struct prl_capture *c); /* joins the thread; records may be read on */
void prl_capture_close(struct prl_capture **capture);

struct pr_ring *prl_capture_ring(struct prl_capture *c); /* NULL: it is direct */

/* Direct captures only: passes the frames that have come, `most` at most; does not wait. Returns how many. */
int prl_capture_take(struct prl_capture *c, int most, pr_capture_call call, void *arg);
const struct pr_capture *prl_capture_port(const struct prl_capture *c);
const struct prl_capture_counters *prl_capture_counters(const struct prl_capture *c);
/* Fingerprints are made with this from now on; a record says which it has. Any thread. */
void prl_capture_set_epoch(struct prl_capture *c, uint64_t epoch);
/* The receiver waits for room in the frame buffer. Any thread. */
bool prl_capture_waiting(const struct prl_capture *c);
/* The interface has failed, and why; or NULL. */
const char *prl_capture_failed(const struct prl_capture *c);

#endif
