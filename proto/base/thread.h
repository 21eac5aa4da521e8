/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "proto/base/error.h"

/*
 * Starts a thread with all signals blocked: signals are the main thread's. what: for the error,
 * "the capture thread". Join it with pthread_join.
 */
int pr_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg, const char *what,
	struct pr_error *err);

/* Scheduling. Without the right to a priority, these calls change nothing. */
#define PR_NICE_CAPTURE (-15) /* a packet not taken in time is lost */
#define PR_NICE_STORE (-10) /* what was taken waits in a buffer of our own */

/* The nice value of the calling thread (on Linux each thread has its own) and its children. */
void pr_priority_thread(int nice);
/* The calling thread, and its children, give way to a logger on this machine: CPU and disk. */
void pr_priority_give_way(void);

/*
 * A bounded queue between two threads: the producer's buffers, taken in turn and used again. The
 * queue holds numbers of slots, 0 to slots - 1; what a slot is, and its memory, is the caller's.
 * The producer fills a slot of its own while up to slots - 1 others wait, or are the consumer's.
 *
 *	producer                                     consumer
 *	while ((i = pr_queue_reserve(&q)) >= 0) {    while ((i = pr_queue_take(&q)) >= 0)
 *		fill(&slots[i]);                             use(&slots[i]);
 *		pr_queue_put(&q);
 *	}
 *	pr_queue_end(&q);
 *
 * Where there are bytes instead of slots, and an event loop: proto/base/ring.h.
 */
struct pr_queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned slots, head, used; /* used: from head on, put and not given back */
	bool taken; /* head is the consumer's */
	bool ended, stopped;
};

void pr_queue_init(struct pr_queue *q, unsigned slots);
void pr_queue_destroy(struct pr_queue *q); /* no thread may be in a call */

/* Producer: waits for a free slot. -1: stopped. The same slot until pr_queue_put. */
int pr_queue_reserve(struct pr_queue *q);
/* Producer: the reserved slot is filled. */
void pr_queue_put(struct pr_queue *q);
/* Producer: nothing more comes; the consumer gets -1 behind the last slot. */
void pr_queue_end(struct pr_queue *q);
/* Producer: waits until the consumer has given back all slots, or the queue is stopped. */
void pr_queue_wait_empty(struct pr_queue *q);

/* Consumer: gives back the slot taken before, and waits for the next. -1: ended or stopped. */
int pr_queue_take(struct pr_queue *q);

/* Any thread: nobody waits any longer, all further calls return -1. */
void pr_queue_stop(struct pr_queue *q);
bool pr_queue_stopped(struct pr_queue *q);
