/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_DAEMON_H
#define PRL_LOGGER_DAEMON_H

#include "logger/append.h"
#include "logger/capture.h"
#include "logger/options.h"
#include "logger/manage.h"
#include "proto/base/clock.h"
#include "proto/base/loop.h"

/*
 * What a rack's node and a tap have in common: the loop, the receive thread's frame buffer in it, the
 * volume's writer, the note with the figures, the management socket. Two threads: the receiver, and the
 * loop's, which does all else; or only that, where the capture is direct.
 */
struct prl_daemon;

/*
 * So far apart a direct capture's ticks are, unless much comes: a wake-up costs as much as several hundred
 * packets, and a packet is to be found within 100 ms.
 */
#define PRL_DAEMON_TICK_DIRECT (60 * PR_NS_PER_MS)

/* now: see logger/patience.h. */
struct prl_daemon_calls {
	void (*frame)(void *arg, struct prl_capture_record *rec, int64_t now);
	/* A frame of a direct capture. */
	pr_capture_call packet;
	/* After a batch; gives the buffer back. full: the receiver waits for room. */
	void (*batch)(void *arg, bool full, int64_t now);
	void (*tick)(void *arg, int64_t now); /* every 10 ms, or as above */
	void (*stop)(void *arg, int64_t now); /* SIGTERM, SIGINT */
	bool (*over)(void *arg, int64_t now); /* asked after stop: may the loop end? */
	void (*report)(void *arg, struct prl_report *report); /* adds its figures */
	void *arg;
};

/* capture and sfs stay the caller's. */
struct prl_daemon *prl_daemon_create(const struct prl_logger_options *o, struct sfs *sfs,
	struct prl_append *append, struct prl_capture *capture,
	const struct prl_daemon_calls *calls, struct pr_error *err);
/* Until stopped. -1: the interface failed. */
int prl_daemon_run(struct prl_daemon *d, struct pr_error *err);
void prl_daemon_destroy(struct prl_daemon **daemon);

/* The volume's size, what is free in it, and the measured pace of writing. */
struct prl_disk {
	uint64_t total, free, rate;
};
void prl_daemon_disk(struct prl_daemon *d, struct prl_disk *disk);

#endif
