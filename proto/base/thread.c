/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/thread.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int
pr_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg, const char *what,
	struct pr_error *err)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	errno = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return errno ? pr_error_errno(err, "cannot start %s", what) : 0;
}

/* ---- scheduling ---- */

#define NICE_GIVE_WAY 10

void
pr_priority_thread(int nice)
{
	setpriority(PRIO_PROCESS, 0, nice);
}

void
pr_priority_give_way(void)
{
	enum { WHO_PROCESS = 1, CLASS_BEST_EFFORT = 2, LOWEST = 7, CLASS_SHIFT = 13 };

	pr_priority_thread(NICE_GIVE_WAY);
	syscall(SYS_ioprio_set, WHO_PROCESS, 0, CLASS_BEST_EFFORT << CLASS_SHIFT | LOWEST);
}

/* ---- the queue ---- */

void
pr_queue_init(struct pr_queue *q, unsigned slots)
{
	*q = (struct pr_queue){.slots = slots};
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->changed, NULL);
}

void
pr_queue_destroy(struct pr_queue *q)
{
	pthread_cond_destroy(&q->changed);
	pthread_mutex_destroy(&q->lock);
}

int
pr_queue_reserve(struct pr_queue *q)
{
	pthread_mutex_lock(&q->lock);
	while (q->used == q->slots && !q->stopped)
		pthread_cond_wait(&q->changed, &q->lock);
	int slot = q->stopped ? -1 : (int)((q->head + q->used) % q->slots);
	pthread_mutex_unlock(&q->lock);
	return slot;
}

void
pr_queue_put(struct pr_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->used++;
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

static void
set(struct pr_queue *q, bool *flag)
{
	pthread_mutex_lock(&q->lock);
	*flag = true;
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

void
pr_queue_end(struct pr_queue *q)
{
	set(q, &q->ended);
}

void
pr_queue_stop(struct pr_queue *q)
{
	set(q, &q->stopped);
}

bool
pr_queue_stopped(struct pr_queue *q)
{
	pthread_mutex_lock(&q->lock);
	bool stopped = q->stopped;
	pthread_mutex_unlock(&q->lock);
	return stopped;
}

void
pr_queue_wait_empty(struct pr_queue *q)
{
	pthread_mutex_lock(&q->lock);
	while (q->used && !q->stopped)
		pthread_cond_wait(&q->changed, &q->lock);
	pthread_mutex_unlock(&q->lock);
}

int
pr_queue_take(struct pr_queue *q)
{
	int slot = -1;

	pthread_mutex_lock(&q->lock);
	if (q->taken) {
		q->head = (q->head + 1) % q->slots;
		q->used--;
		q->taken = false;
		pthread_cond_broadcast(&q->changed);
	}
	while (!q->used && !q->ended && !q->stopped)
		pthread_cond_wait(&q->changed, &q->lock);
	if (q->used && !q->stopped) {
		slot = q->head;
		q->taken = true;
	}
	pthread_mutex_unlock(&q->lock);
	return slot;
}
