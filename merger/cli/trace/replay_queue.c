/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/trace/replay_queue.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/thread.h"

#define STOCK (REPLAY_CHUNKS / 2) /* chunks, before sending begins */

struct replay_queue {
	struct pr_queue queue;
	struct replay_chunk chunks[REPLAY_CHUNKS];
	struct replay_chunk *filling; /* NULL: the sender has given up */
};

static void
fill_next(struct replay_queue *q)
{
	int slot = pr_queue_reserve(&q->queue);

	q->filling = slot < 0 ? NULL : &q->chunks[slot];
	if (q->filling)
		q->filling->used = 0;
}

struct replay_queue *
replay_queue_create(struct pr_error *err)
{
	struct replay_queue *q = calloc(1, sizeof(*q));
	bool memory = q;

	if (q) {
		pr_queue_init(&q->queue, REPLAY_CHUNKS);
		for (int i = 0; i < REPLAY_CHUNKS; i++)
			memory = (q->chunks[i].bytes = malloc(REPLAY_CHUNK)) && memory;
		fill_next(q);
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
	pr_queue_destroy(&q->queue);
	free(q);
}

void
replay_queue_flush(struct replay_queue *q)
{
	if (q->filling && q->filling->used) {
		pr_queue_put(&q->queue);
		fill_next(q);
	}
}

int
replay_queue_put(struct replay_queue *q, const struct pr_packet *p)
{
	struct replay_frame frame = {
		.time = p->time, .len = p->caplen, .room = (p->caplen + 7) & ~UINT32_C(7)};
	struct replay_chunk *c = q->filling;

	if (p->caplen > REPLAY_CHUNK - sizeof(frame) - 8)
		return -1;
	if (c && c->used + sizeof(frame) + frame.room > REPLAY_CHUNK) {
		replay_queue_flush(q);
		c = q->filling;
	}
	if (!c || pr_queue_stopped(&q->queue))
		return -1;
	memcpy(c->bytes + c->used, &frame, sizeof(frame));
	memcpy(c->bytes + c->used + sizeof(frame), p->data, p->caplen);
	c->used += sizeof(frame) + frame.room;
	return 0;
}

void
replay_queue_end(struct replay_queue *q)
{
	replay_queue_flush(q);
	pr_queue_end(&q->queue);
}

void
replay_queue_wait_stock(struct replay_queue *q)
{
	pr_queue_wait_filled(&q->queue, STOCK);
}

const struct replay_chunk *
replay_queue_take(struct replay_queue *q)
{
	int slot = pr_queue_take(&q->queue);

	return slot < 0 ? NULL : &q->chunks[slot];
}

void
replay_queue_give_up(struct replay_queue *q)
{
	pr_queue_stop(&q->queue);
}
