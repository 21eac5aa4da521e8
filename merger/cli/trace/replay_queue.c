/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/trace/replay_queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define STOCK (REPLAY_CHUNKS / 2) /* chunks, before sending begins */

/* Chunks queue up at head; the one behind them is being filled. */
struct replay_queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct replay_chunk chunks[REPLAY_CHUNKS];
	unsigned head, queued;
	unsigned tail; /* being filled: known to the one that fills alone */
	bool held; /* head is the sender's */
	bool ended;
	atomic_bool given_up;
};

struct replay_queue *
replay_queue_create(struct pr_error *err)
{
	struct replay_queue *q = calloc(1, sizeof(*q));
	bool memory = q;

	if (q) {
		pthread_mutex_init(&q->lock, NULL);
		pthread_cond_init(&q->changed, NULL);
		for (int i = 0; i < REPLAY_CHUNKS; i++)
			memory = (q->chunks[i].bytes = malloc(REPLAY_CHUNK)) && memory;
	}
	if (!memory) {
		replay_queue_destroy(&q);
		pr_error_set(err, "no memory for packets to be sent");
	}
	return q;
}

void
replay_queue_destroy(struct replay_queue **qp)
{
	struct replay_queue *q = *qp;

	*qp = NULL;
	if (!q)
		return;
	for (int i = 0; i < REPLAY_CHUNKS; i++)
		free(q->chunks[i].bytes);
	pthread_cond_destroy(&q->changed);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

static struct replay_chunk *
filling(struct replay_queue *q)
{
	return &q->chunks[q->tail];
}

/* Hands on what is filled; waits until there is another one to fill. */
static void
hand_on(struct replay_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->queued++;
	pthread_cond_broadcast(&q->changed);
	while (q->queued == REPLAY_CHUNKS && !q->given_up)
		pthread_cond_wait(&q->changed, &q->lock);
	if (q->given_up)
		q->queued--; /* nobody takes anything any more */
	else
		q->tail = (q->tail + 1) % REPLAY_CHUNKS;
	filling(q)->used = 0;
	pthread_mutex_unlock(&q->lock);
}

int
replay_queue_put(struct replay_queue *q, const struct pr_packet *p)
{
	struct replay_frame frame = {.time = p->time, .len = p->caplen};
	struct replay_chunk *c = filling(q);

	frame.room = (p->caplen + 7) & ~UINT32_C(7);
	if (p->caplen > REPLAY_CHUNK - sizeof(frame) - 8)
		return -1;
	if (c->used + sizeof(frame) + frame.room > REPLAY_CHUNK) {
		hand_on(q);
		c = filling(q);
	}
	if (q->given_up)
		return -1;
	memcpy(c->bytes + c->used, &frame, sizeof(frame));
	memcpy(c->bytes + c->used + sizeof(frame), p->data, p->caplen);
	c->used += sizeof(frame) + frame.room;
	return 0;
}

void
replay_queue_flush(struct replay_queue *q)
{
	if (filling(q)->used)
		hand_on(q);
}

void
replay_queue_end(struct replay_queue *q)
{
	replay_queue_flush(q);
	pthread_mutex_lock(&q->lock);
	q->ended = true;
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

void
replay_queue_wait_stock(struct replay_queue *q)
{
	pthread_mutex_lock(&q->lock);
	while (q->queued < STOCK && !q->ended && !q->given_up)
		pthread_cond_wait(&q->changed, &q->lock);
	pthread_mutex_unlock(&q->lock);
}

const struct replay_chunk *
replay_queue_take(struct replay_queue *q)
{
	const struct replay_chunk *c = NULL;

	pthread_mutex_lock(&q->lock);
	if (q->held) {
		q->head = (q->head + 1) % REPLAY_CHUNKS;
		q->queued--;
		q->held = false;
		pthread_cond_broadcast(&q->changed);
	}
	while (!q->queued && !q->ended && !q->given_up)
		pthread_cond_wait(&q->changed, &q->lock);
	if (q->queued && !q->given_up) {
		c = &q->chunks[q->head];
		q->held = true;
	}
	pthread_mutex_unlock(&q->lock);
	return c;
}

void
replay_queue_give_up(struct replay_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->given_up = true;
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
}
