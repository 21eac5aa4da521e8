/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "logger/volume_writer.h"
#include "logger/capture.h"
#include "logger/logger.h"
#include "proto/base/loop.h"
#include "proto/base/metrics.h"

/*
 * The clock for match timeouts (ns, monotonic). It leaves out times in which its thread was
 * busy with the disk or had no CPU: what came in such a time is unread in the buffer, and
 * must not be given up as missing. Zeroed is ready. One thread.
 */
struct prl_stall_clock {
	int64_t looked, left_out;
};

/* A longer time between two calls is a stall; several ticks (10 ms). */
#define PRL_STALL_NS (60 * PR_NS_PER_MS)

/* mono: pr_now_mono(). Call right before reading the buffer. */
static inline int64_t
prl_stall_clock_now(struct prl_stall_clock *p, int64_t mono)
{
	int64_t since = mono - p->looked;

	if (p->looked && since > PRL_STALL_NS)
		p->left_out += since - PRL_STALL_NS;
	p->looked = mono;
	return mono - p->left_out;
}

/*
 * The logger's counters, for the volume's note (JSON), answers to status requests, and
 * metrics. The structs that the tables point to must live as long as the report.
 */
#define PRL_REPORT_TABLES 3

struct prl_report {
	const char *mode; /* "rack", "tap", "read" */
	const char *name, *state, *trouble; /* trouble: NULL or why it is suspended */
	uint64_t epoch;
	struct pr_counter_table tables[PRL_REPORT_TABLES];
	size_t table_count;
};

/*
 * The common part of a rack's node and a tap: the event loop with the receive thread's
 * frame buffer, the volume's writer, the volume's note, and the management socket. Two
 * threads: the receiver, and the loop's thread, which does everything else. A direct
 * capture has only the loop's thread.
 */
struct prl_node;

/*
 * Period of a direct capture's ticks, unless much data comes. A wake-up costs as much as
 * several hundred packets; but a packet must be found within 100 ms.
 */
#define PRL_RECORD_LOOP_TICK_DIRECT (60 * PR_NS_PER_MS)

struct prl_record_loop_calls {
	/* Of a rack: takes the frames, and ends the loop after SIGTERM or SIGINT when it may. NULL: a tap */
	struct prl_node *node;
	/* Of a tap: each packet; and every 10 ms, or as above; now: of struct prl_stall_clock. */
	pr_capture_call packet;
	void (*tick)(void *arg, int64_t now);
	void (*report)(void *arg, struct prl_report *report); /* adds its figures */
	void *arg;
};

/* capture and sfs stay the caller's. */
struct prl_record_loop *prl_record_loop_create(const struct prl_options *o, struct sfs *sfs,
	struct prl_volume_writer *append, struct prl_capture *capture,
	const struct prl_record_loop_calls *calls, struct pr_error *err);
/* Until stopped. -1: the interface failed. */
int prl_record_loop_run(struct prl_record_loop *d, struct pr_error *err);
void prl_record_loop_destroy(struct prl_record_loop **daemon);

/* Fills in the volume's size, what is free in it, and the measured pace of writing. */
void prl_record_loop_disk(struct prl_record_loop *d, struct pr_status *out);
