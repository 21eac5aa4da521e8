/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>

#include "logger/streamfs/io.h"

/*
 * Where io_uring is not permitted: threads that write and read, so that several blocks are in flight.
 * The lock is taken once per block or flush, never per record. Nothing needs an order here: a sync is
 * submitted when what it is for has come back, and no two writes under way touch the same sector.
 */
#define THREADS 4
struct thread_queue {
	pthread_t thread[THREADS];
	unsigned threads;
	pthread_mutex_t lock;
	pthread_cond_t work, ready;
	struct sfs_request *todo, **todo_tail, *done, **done_tail;
	bool stop;
};

static struct sfs_request *
take(struct thread_queue *q)
{
	struct sfs_request *r = q->todo;
	q->todo = r->next;
	if (!q->todo)
		q->todo_tail = &q->todo;
	r->next = NULL;
	return r;
}

static void *
run(void *arg)
{
	struct thread_queue *q = arg;
	pthread_mutex_lock(&q->lock);
	for (;;) {
		while (!q->todo && !q->stop)
			pthread_cond_wait(&q->work, &q->lock);
		if (!q->todo)
			break;
		struct sfs_request *r = take(q);
		pthread_mutex_unlock(&q->lock);
		sfs_request_perform(r);
		pthread_mutex_lock(&q->lock);
		*q->done_tail = r;
		q->done_tail = &r->next;
		pthread_cond_signal(&q->ready);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

static int
thread_submit(void *state, struct sfs_request *r)
{
	struct thread_queue *q = state;
	pthread_mutex_lock(&q->lock);
	sfs_request_wait(&q->todo, &q->todo_tail, r);
	pthread_cond_signal(&q->work);
	pthread_mutex_unlock(&q->lock);
	return 0;
}

static struct sfs_request *
thread_reap(void *state, bool wait)
{
	struct thread_queue *q = state;
	pthread_mutex_lock(&q->lock);
	while (wait && !q->done)
		pthread_cond_wait(&q->ready, &q->lock);
	struct sfs_request *list = q->done;
	q->done = NULL;
	q->done_tail = &q->done;
	pthread_mutex_unlock(&q->lock);
	return list;
}

static void
thread_destroy(void *state)
{
	struct thread_queue *q = state;
	pthread_mutex_lock(&q->lock);
	q->stop = true;
	pthread_cond_broadcast(&q->work);
	pthread_mutex_unlock(&q->lock);
	while (q->threads > 0)
		pthread_join(q->thread[--q->threads], NULL);
	pthread_cond_destroy(&q->work);
	pthread_cond_destroy(&q->ready);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

static const struct sfs_queue_ops thread_ops = {
	.submit = thread_submit, .reap = thread_reap, .destroy = thread_destroy};

int
sfs_thread_open(struct sfs_queue *queue, struct pr_error *err)
{
	struct thread_queue *q = calloc(1, sizeof(*q));
	if (!q)
		return pr_error_set(err, "no memory for the write queue");
	q->todo_tail = &q->todo;
	q->done_tail = &q->done;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->work, NULL);
	pthread_cond_init(&q->ready, NULL);
	while (q->threads < THREADS &&
		pthread_create(&q->thread[q->threads], NULL, run, q) == 0)
		q->threads++;
	if (q->threads == 0) {
		thread_destroy(q);
		return pr_error_set(err, "cannot start a thread that writes the volume");
	}
	*queue = (struct sfs_queue){.ops = &thread_ops, .state = q, .name = "thread"};
	return 0;
}
