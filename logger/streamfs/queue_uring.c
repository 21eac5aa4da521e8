/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

#include "logger/streamfs/io.h"

#define DEPTH 64

/* Requests beyond the ring's depth wait in a list. */
struct uring_queue {
	struct io_uring ring;
	struct sfs_request *todo, **todo_tail;
	struct sfs_request *done, **done_tail;
	unsigned inside;
};

static void
finish(struct uring_queue *q, struct sfs_request *r, int error)
{
	r->error = error;
	r->next = NULL;
	*q->done_tail = r;
	q->done_tail = &r->next;
}

static void
prepare(struct io_uring_sqe *sqe, struct sfs_request *r)
{
	if (r->buf)
		io_uring_prep_write(sqe, r->disk->fd, r->buf + r->done,
			(unsigned)(r->len - r->done), r->offset + r->done);
	else
		io_uring_prep_fsync(sqe, r->disk->fd, IORING_FSYNC_DATASYNC);
	io_uring_sqe_set_data(sqe, r);
}

static void
feed(struct uring_queue *q)
{
	bool any = false;
	while (q->todo && q->inside < DEPTH) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&q->ring);
		if (!sqe)
			break;
		struct sfs_request *r = q->todo;
		q->todo = r->next;
		prepare(sqe, r);
		q->inside++;
		any = true;
	}
	if (!q->todo)
		q->todo_tail = &q->todo;
	/* what the kernel does not take now stays in the ring for the next submit */
	if (any)
		io_uring_submit(&q->ring);
}

static int
uring_submit(void *state, struct sfs_request *r)
{
	struct uring_queue *q = state;
	*q->todo_tail = r;
	q->todo_tail = &r->next;
	feed(q);
	return 0;
}

static void
requeue(struct uring_queue *q, struct sfs_request *r)
{
	r->next = NULL;
	*q->todo_tail = r;
	q->todo_tail = &r->next;
}

static void
complete(struct uring_queue *q, struct io_uring_cqe *cqe)
{
	struct sfs_request *r = io_uring_cqe_get_data(cqe);
	int res = cqe->res;
	io_uring_cqe_seen(&q->ring, cqe);
	q->inside--;
	if (res == -EINTR || res == -EAGAIN) {
		requeue(q, r);
	} else if (res < 0 || !r->buf) {
		finish(q, r, res < 0 ? -res : 0);
	} else if (res == 0) {
		finish(q, r, EIO);
	} else {
		r->done += (size_t)res;
		if (r->done < r->len)
			requeue(q, r);
		else
			finish(q, r, 0);
	}
}

static struct sfs_request *
uring_reap(void *state, bool wait)
{
	struct uring_queue *q = state;
	struct io_uring_cqe *cqe;
	for (;;) {
		while (io_uring_peek_cqe(&q->ring, &cqe) == 0)
			complete(q, cqe);
		feed(q);
		if (!wait || q->done || q->inside == 0)
			break;
		if (io_uring_submit_and_wait(&q->ring, 1) < 0 && errno != EINTR)
			continue;
	}
	struct sfs_request *list = q->done;
	q->done = NULL;
	q->done_tail = &q->done;
	return list;
}

static void
uring_destroy(void *state)
{
	struct uring_queue *q = state;
	io_uring_queue_exit(&q->ring);
	free(q);
}

static const struct sfs_queue_ops uring_ops = {uring_submit, uring_reap, uring_destroy};

int
sfs_uring_open(struct sfs_queue *queue)
{
	struct uring_queue *q = calloc(1, sizeof(*q));
	if (!q)
		return -1;
	q->todo_tail = &q->todo;
	q->done_tail = &q->done;
	if (io_uring_queue_init(DEPTH, &q->ring, 0) < 0) {
		free(q);
		return -1;
	}
	*queue = (struct sfs_queue){.ops = &uring_ops, .state = q, .name = "io_uring"};
	return 0;
}
