/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/feed.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/room.h"

#define AHEAD 4
#define STEP_NS (50 * PR_NS_PER_MS) /* how soon it notices that it is to stop */

/* Its buffers are used again and again. */
struct slot {
	enum pri_answer_state state;
	struct pri_read_buffer buffer;
	const uint8_t *packets; /* in buffer */
	size_t len;
	uint8_t *told; /* packed, so that it can be handed over */
	size_t told_len, told_room;
};

struct feed {
	pthread_t id;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct pri_answer *answer;
	struct slot slots[AHEAD];
	unsigned head, ready; /* slots[head] is the reader's, when taken */
	bool taken, stop;
	Packrack__Batch *unpacked; /* of the slot that is taken */
	struct pr_error error;
};

static int
fill(struct slot *s, struct pri_answer *answer)
{
	Packrack__Batch told = *pri_answer_batch(answer);

	s->packets = told.packets.data;
	s->len = told.packets.len;
	told.packets = (ProtobufCBinaryData){0};
	s->told_len = packrack__batch__get_packed_size(&told);
	if (pr_room_grow(&s->told, &s->told_room, s->told_len) < 0)
		return -1;
	if (s->len)
		pri_answer_exchange(answer, &s->buffer);
	packrack__batch__pack(&told, s->told);
	return 0;
}

static bool
stopped(struct feed *f)
{
	bool stop;

	pthread_mutex_lock(&f->lock);
	stop = f->stop;
	pthread_mutex_unlock(&f->lock);
	return stop;
}

static struct slot *
free_slot(struct feed *f)
{
	struct slot *s;

	pthread_mutex_lock(&f->lock);
	while (f->ready == AHEAD && !f->stop)
		pthread_cond_wait(&f->changed, &f->lock);
	s = f->stop ? NULL : &f->slots[(f->head + f->ready) % AHEAD];
	pthread_mutex_unlock(&f->lock);
	return s;
}

static void *
run(void *arg)
{
	struct feed *f = arg;
	struct slot *s;
	bool last = false;

	while (!last && (s = free_slot(f)) != NULL) {
		do
			s->state = pri_answer_step(
				f->answer, pr_now_mono() + STEP_NS, &f->error);
		while (s->state == PRI_ANSWER_MORE && !stopped(f));
		if (s->state == PRI_ANSWER_BATCH && fill(s, f->answer) < 0) {
			pr_error_set(&f->error, "no memory for a batch");
			s->state = PRI_ANSWER_ERROR;
		}
		last = s->state != PRI_ANSWER_BATCH;
		pthread_mutex_lock(&f->lock);
		f->ready++;
		pthread_cond_broadcast(&f->changed);
		pthread_mutex_unlock(&f->lock);
	}
	return NULL;
}

struct feed *
feed_start(struct pri_answer *answer, struct pr_error *err)
{
	struct feed *f = calloc(1, sizeof(*f));

	if (!f) {
		pr_error_set(err, "no memory for reading a volume");
		return NULL;
	}
	f->answer = answer;
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->changed, NULL);
	errno = pthread_create(&f->id, NULL, run, f);
	if (errno) {
		pr_error_errno(err, "cannot start reading a volume");
		free(f);
		return NULL;
	}
	return f;
}

static struct slot *
take(struct feed *f)
{
	struct slot *s;

	pthread_mutex_lock(&f->lock);
	if (f->taken) {
		f->head = (f->head + 1) % AHEAD;
		f->ready--;
		pthread_cond_broadcast(&f->changed);
	}
	while (!f->ready)
		pthread_cond_wait(&f->changed, &f->lock);
	/* the last slot (end, error) stays, and is given again if asked for */
	s = &f->slots[f->head];
	f->taken = s->state == PRI_ANSWER_BATCH;
	pthread_mutex_unlock(&f->lock);
	return s;
}

enum pri_answer_state
feed_next(struct feed *f, struct feed_batch *out, struct pr_error *err)
{
	struct slot *s = take(f);

	if (f->unpacked)
		packrack__batch__free_unpacked(f->unpacked, NULL);
	f->unpacked = NULL;
	if (s->state == PRI_ANSWER_ERROR && err)
		*err = f->error;
	if (s->state != PRI_ANSWER_BATCH)
		return s->state;
	f->unpacked = packrack__batch__unpack(NULL, s->told_len, s->told);
	if (!f->unpacked) {
		pr_error_set(err, "no memory for a batch");
		return PRI_ANSWER_ERROR;
	}
	*out = (struct feed_batch){s->packets, s->len, f->unpacked};
	return PRI_ANSWER_BATCH;
}

void
feed_stop(struct feed **fp)
{
	struct feed *f = *fp;

	*fp = NULL;
	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	f->stop = true;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->id, NULL);
	for (int i = 0; i < AHEAD; i++) {
		free(f->slots[i].buffer.bytes);
		free(f->slots[i].told);
	}
	if (f->unpacked)
		packrack__batch__free_unpacked(f->unpacked, NULL);
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	free(f);
}
