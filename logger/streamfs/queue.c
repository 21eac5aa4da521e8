/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <liburing.h>
#include <linux/ioprio.h>
#include <stdlib.h>

#include "logger/streamfs/disk.h"
#include "proto/base/thread.h"

void
sfs_request_wait(
	struct sfs_request **list, struct sfs_request ***tail, struct sfs_request *r)
{
	if (!*list)
		*tail = list;
	if (!*list || !r->first) {
		**tail = r;
		*tail = &r->next;
		return;
	}
	r->next = *list;
	*list = r;
}

/* ---- threads ---- */

/*
 * If io_uring is not permitted: threads that write and read, so that several blocks are in
 * flight. The lock is taken once per block or flush, never per record. Requests need no
 * order: a sync is submitted when the writes that it is for have ended, and no two writes
 * under way touch the same sector.
 */
#define THREADS 4
struct thread_queue {
	pthread_t thread[THREADS];
	unsigned threads;
	pthread_mutex_t lock;
	pthread_cond_t work, ready;
	struct sfs_request *todo, **todo_tail, *done;
	bool stop;
};

void
sfs_request_perform(struct sfs_request *r)
{
	int rc;
	if (r->buf)
		rc = sfs_disk_write(r->disk, r->buf, r->len, r->offset);
	else if (r->into)
		rc = sfs_disk_read(r->disk, r->into, r->len, r->offset);
	else
		rc = sfs_disk_sync(r->disk);
	r->error = rc < 0 ? errno : 0;
}

static void *
run(void *arg)
{
	struct thread_queue *q = arg;
	pthread_mutex_lock(&q->lock);
	for (;;) {
		while (!q->todo && !q->stop)
			pthread_cond_wait(&q->work, &q->lock);
		struct sfs_request *r = q->todo;
		if (!r)
			break;
		q->todo = r->next;
		pthread_mutex_unlock(&q->lock);
		sfs_request_perform(r);
		pthread_mutex_lock(&q->lock);
		r->next = q->done;
		q->done = r;
		pthread_cond_signal(&q->ready);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

static void
thread_submit(void *state, struct sfs_request *r)
{
	struct thread_queue *q = state;
	pthread_mutex_lock(&q->lock);
	sfs_request_wait(&q->todo, &q->todo_tail, r);
	pthread_cond_signal(&q->work);
	pthread_mutex_unlock(&q->lock);
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

static int
thread_open(struct sfs_queue *queue, struct pr_error *err)
{
	struct thread_queue *q = calloc(1, sizeof(*q));
	if (!q)
		return pr_error_set(err, "no memory for the write queue");
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->work, NULL);
	pthread_cond_init(&q->ready, NULL);
	while (q->threads < THREADS && pr_thread_start(&q->thread[q->threads], run, q,
					       "a thread that writes the volume", err) == 0)
		q->threads++;
	if (q->threads == 0) {
		thread_destroy(q);
		return -1;
	}
	*queue = (struct sfs_queue){.ops = &thread_ops, .state = q, .name = "thread"};
	return 0;
}

/* ---- io_uring ---- */

#define DEPTH 128
/*
 * Most bytes given to the kernel at a time: enough for any device. The write of a root has
 * to wait for them.
 */
#define INSIDE_BYTES ((size_t)16 << 20)
/*
 * Writes are gathered up to this many bytes, or until somebody looks for completions (at
 * least each tick of the writer). All are then submitted by one system call.
 */
#define GATHER_BYTES ((size_t)2 << 20)
#define PIN_BYTES ((size_t)512 << 20) /* the kernel takes 1 GiB at most in one piece */
#define PIN_PIECES 256

/*
 * Reads give way to writes where the device's scheduler looks at priorities within a class (BFQ).
 * Not the idle class: under mq-deadline that would let a query starve for ten seconds.
 */
#define WRITE_PRIORITY IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 0)
#define READ_PRIORITY IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 7)

/*
 * A piece is no longer than what the device takes undivided (disk->piece: half a MiB for a
 * loop device or a SCSI disk). io_uring submits without blocking: the block layer refuses
 * to divide a longer piece then, and a kernel thread repeats the request. That costs CPU,
 * and counts twice against a limit of the block I/O controller. Pieces submitted together
 * are merged again.
 */
#define PART_BYTES ((size_t)128 << 10)
struct part {
	struct sfs_request *r;
	size_t at, len;
	struct part *next; /* free ones */
};

/*
 * A request waits in a list until all its pieces have been given to the kernel.
 * request->done: bytes given so far; request->parts: pieces under way.
 */
struct uring_queue {
	struct io_uring ring;
	struct part part[DEPTH], *idle;
	const uint8_t *pinned; /* NULL: none */
	size_t pinned_size;
	struct sfs_request *todo, **todo_tail, *done;
	unsigned inside;
	/* gathered: the kernel has not been entered for them yet */
	size_t inside_bytes, gathered_bytes;
};

/* The number of the pinned piece that holds the request's bytes; -1: none. */
static int
pinned_piece(const struct uring_queue *q, const uint8_t *p, size_t len)
{
	if (!q->pinned || p < q->pinned || (size_t)(p - q->pinned) >= q->pinned_size)
		return -1;
	size_t at = p - q->pinned;
	if (len > q->pinned_size - at || at / PIN_BYTES != (at + len - 1) / PIN_BYTES)
		return -1;
	return at / PIN_BYTES;
}

/*
 * Submits what is in the ring; what the kernel does not take stays there for the next time.
 */
static void
enter(struct uring_queue *q)
{
	q->gathered_bytes = 0;
	if (io_uring_sq_ready(&q->ring) > 0)
		io_uring_submit(&q->ring);
}

static bool
give(struct uring_queue *q, struct sfs_request *r, size_t at, size_t len)
{
	struct part *p = q->idle;
	struct io_uring_sqe *sqe = p ? io_uring_get_sqe(&q->ring) : NULL;
	uint64_t offset = r->offset + at;
	int fd = r->disk->fd;
	if (!sqe)
		return false;
	if (r->buf) {
		int piece = pinned_piece(q, r->buf + at, len);
		if (piece >= 0)
			io_uring_prep_write_fixed(sqe, fd, r->buf + at, len, offset, piece);
		else
			io_uring_prep_write(sqe, fd, r->buf + at, len, offset);
		sqe->ioprio = WRITE_PRIORITY;
	} else if (r->into) {
		io_uring_prep_read(sqe, fd, r->into + at, len, offset);
		sqe->ioprio = READ_PRIORITY;
	} else {
		io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
	}
	q->idle = p->next;
	*p = (struct part){.r = r, .at = at, .len = len};
	io_uring_sqe_set_data(sqe, p);
	r->parts++;
	q->inside++;
	q->inside_bytes += len;
	q->gathered_bytes += len;
	return true;
}

/* Gives the kernel the pieces of the requests that wait, as many as it may have. */
static void
feed(struct uring_queue *q)
{
	while (q->todo && q->inside_bytes < INSIDE_BYTES) {
		struct sfs_request *r = q->todo;
		size_t most = r->disk->piece ? r->disk->piece : PART_BYTES;
		size_t len = r->len - r->done < most ? r->len - r->done : most;
		if (!give(q, r, r->done, len))
			return;
		r->done += len;
		if (r->done == r->len)
			q->todo = r->next;
	}
}

static void
uring_submit(void *state, struct sfs_request *r)
{
	struct uring_queue *q = state;
	sfs_request_wait(&q->todo, &q->todo_tail, r);
	feed(q);
	if (!r->buf || r->first || q->todo || q->gathered_bytes >= GATHER_BYTES)
		enter(q);
}

static void
complete(struct uring_queue *q, struct io_uring_cqe *cqe)
{
	struct part *slot = io_uring_cqe_get_data(cqe), p = *slot;
	struct sfs_request *r = p.r;
	int res = cqe->res;
	io_uring_cqe_seen(&q->ring, cqe);
	q->inside--;
	q->inside_bytes -= p.len;
	r->parts--;
	slot->next = q->idle;
	q->idle = slot;
	if (res == -EINTR || res == -EAGAIN || (res > 0 && (size_t)res < p.len)) {
		/* gives the rest of the piece again: it has a free part now */
		size_t done = PR_MAX(res, 0);
		if (give(q, r, p.at + done, p.len - done))
			return;
		res = -EIO;
	}
	if (res < 0 || (size_t)res < p.len)
		r->error = res < 0 ? -res : EIO;
	if (r->parts == 0 && r->done == r->len) {
		r->next = q->done;
		q->done = r;
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
		enter(q);
		if (!wait || q->done || q->inside == 0)
			break;
		if (io_uring_submit_and_wait(&q->ring, 1) < 0 && errno != EINTR)
			continue;
	}
	struct sfs_request *list = q->done;
	q->done = NULL;
	return list;
}

static void
uring_destroy(void *state)
{
	struct uring_queue *q = state;
	io_uring_queue_exit(&q->ring);
	free(q);
}

static bool
uring_pin(void *state, uint8_t *base, size_t size)
{
	struct uring_queue *q = state;
	struct iovec piece[PIN_PIECES];
	unsigned n = 0;
	if (size > PIN_PIECES * PIN_BYTES)
		return false;
	for (size_t at = 0; at < size; at += PIN_BYTES)
		piece[n++] = (struct iovec){
			base + at, size - at < PIN_BYTES ? size - at : PIN_BYTES};
	if (io_uring_register_buffers(&q->ring, piece, n) < 0)
		return false;
	q->pinned = base;
	q->pinned_size = size;
	return true;
}

static const struct sfs_queue_ops uring_ops = {.submit = uring_submit,
	.reap = uring_reap,
	.destroy = uring_destroy,
	.pin = uring_pin};

/*
 * Completions are handled only when we look for them (kernel 5.19), and do not wake the
 * only thread from its sleep (6.1). Older kernels get fewer flags.
 */
static int
uring_open(struct sfs_queue *queue, bool one_thread)
{
	static const unsigned flags[] = {IORING_SETUP_SINGLE_ISSUER |
						 IORING_SETUP_DEFER_TASKRUN |
						 IORING_SETUP_TASKRUN_FLAG,
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 0};
	struct uring_queue *q = calloc(1, sizeof(*q));
	int rc = -1;
	if (!q)
		return -1;
	for (unsigned i = 0; i < DEPTH; i++) {
		q->part[i].next = q->idle;
		q->idle = &q->part[i];
	}
	for (size_t i = !one_thread; rc < 0 && i < sizeof(flags) / sizeof(flags[0]); i++)
		rc = io_uring_queue_init(DEPTH, &q->ring, flags[i]);
	if (rc < 0) {
		free(q);
		return -1;
	}
	*queue = (struct sfs_queue){.ops = &uring_ops, .state = q, .name = "io_uring"};
	return 0;
}

int
sfs_queue_open(struct sfs_queue *q, enum sfs_queue_kind kind, struct pr_error *err)
{
	bool uring = kind != SFS_QUEUE_NO_URING &&
		     uring_open(q, kind == SFS_QUEUE_ONE_THREAD) == 0;
	return uring ? 0 : thread_open(q, err);
}

void
sfs_queue_close(struct sfs_queue *q)
{
	if (q->ops)
		q->ops->destroy(q->state);
	q->ops = NULL;
}

bool
sfs_queue_pin(struct sfs_queue *q, uint8_t *base, size_t size)
{
	return q->ops->pin && q->ops->pin(q->state, base, size);
}

void
sfs_queue_submit(struct sfs_queue *q, struct sfs_request *r)
{
	r->error = 0;
	r->done = 0;
	r->parts = 0;
	r->next = NULL;
	q->in_flight++;
	q->ops->submit(q->state, r);
}

struct sfs_request *
sfs_queue_reap(struct sfs_queue *q, bool wait)
{
	if (q->in_flight == 0)
		return NULL;
	struct sfs_request *list = q->ops->reap(q->state, wait);
	for (struct sfs_request *r = list; r; r = r->next)
		q->in_flight--;
	return list;
}
