/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "logger/streamfs/disk.h"

/*
 * The queue of simulated disks: a request is done when it is submitted, or when and in the
 * order that `pick` chooses: which of n waiting requests is next; n: none for now.
 */
struct inline_queue {
	struct sfs_request *todo, *done;
	unsigned waiting;
	unsigned (*pick)(void *arg, unsigned n); /* arg: the disk's; NULL: done at once */
};

static inline void
inline_perform(struct inline_queue *q, struct sfs_request *r)
{
	sfs_request_perform(r);
	r->next = q->done;
	q->done = r;
}

static inline void
inline_submit(void *state, struct sfs_request *r)
{
	struct inline_queue *q = state;
	/* the order of reads does not matter */
	if (r->into || !q->pick) {
		inline_perform(q, r);
		return;
	}
	r->next = q->todo;
	q->todo = r;
	q->waiting++;
}

static inline struct sfs_request *
inline_reap(void *state, bool wait)
{
	struct inline_queue *q = state;
	while (q->waiting > 0) {
		unsigned n = q->pick(q->todo->disk->arg, q->waiting);
		if (n >= q->waiting && (!wait || q->done))
			break;
		struct sfs_request **p = &q->todo, *r;
		for (n %= q->waiting; n > 0; n--)
			p = &(*p)->next;
		r = *p;
		*p = r->next;
		q->waiting--;
		inline_perform(q, r);
	}
	struct sfs_request *list = q->done;
	q->done = NULL;
	return list;
}

static inline int
inline_open_picking(struct sfs_queue *q, unsigned (*pick)(void *arg, unsigned n))
{
	static const struct sfs_queue_ops ops = {
		.submit = inline_submit, .reap = inline_reap, .destroy = free};
	struct inline_queue *state = calloc(1, sizeof(*state));
	if (!state)
		return -1;
	state->pick = pick;
	*q = (struct sfs_queue){.ops = &ops, .state = state, .name = "inline"};
	return 0;
}

static inline int
inline_open(struct sfs_queue *q)
{
	return inline_open_picking(q, NULL);
}
