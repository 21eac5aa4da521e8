/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "logger/streamfs/io.h"

/* For simulated disks: done when submitted, or when and in the order that the disk says. */
struct inline_queue {
	struct sfs_request *todo, *done;
	unsigned waiting;
};

void
sfs_request_wait(
	struct sfs_request **list, struct sfs_request ***tail, struct sfs_request *r)
{
	if (!r->first || !*list) {
		**tail = r;
		*tail = &r->next;
		return;
	}
	r->next = *list;
	*list = r;
}

void
sfs_request_perform(struct sfs_request *r)
{
	int rc;
	if (r->buf)
		rc = sfs_disk_write(r->disk, r->buf, r->len, r->offset);
	else if (r->into)
		rc = sfs_disk_read(r->disk, r->into, r->len, r->offset);
	else
		rc = r->disk->ops->sync(r->disk->arg);
	r->error = rc < 0 ? errno : 0;
}

static void
perform(struct inline_queue *q, struct sfs_request *r)
{
	sfs_request_perform(r);
	r->next = q->done;
	q->done = r;
}

static int
inline_submit(void *state, struct sfs_request *r)
{
	struct inline_queue *q = state;
	/* reads leave no trace, in whichever order */
	if (r->into || !r->disk->ops->pick) {
		perform(q, r);
		return 0;
	}
	r->next = q->todo;
	q->todo = r;
	q->waiting++;
	return 0;
}

static void
perform_nth(struct inline_queue *q, unsigned n)
{
	struct sfs_request **p = &q->todo, *r;
	while (n-- > 0)
		p = &(*p)->next;
	r = *p;
	*p = r->next;
	q->waiting--;
	perform(q, r);
}

static struct sfs_request *
inline_reap(void *state, bool wait)
{
	struct inline_queue *q = state;
	while (q->waiting > 0) {
		struct sfs_disk *disk = q->todo->disk;
		unsigned n = disk->ops->pick(disk->arg, q->waiting);
		if (n >= q->waiting && (!wait || q->done))
			break;
		perform_nth(q, n % q->waiting);
	}
	struct sfs_request *list = q->done;
	q->done = NULL;
	return list;
}

static const struct sfs_queue_ops inline_ops = {
	.submit = inline_submit, .reap = inline_reap, .destroy = free};

static int
inline_open(struct sfs_queue *q, struct pr_error *err)
{
	struct inline_queue *s = calloc(1, sizeof(*s));
	if (!s)
		return pr_error_set(err, "no memory for the write queue");
	*q = (struct sfs_queue){.ops = &inline_ops, .state = s, .name = "inline"};
	return 0;
}

int
sfs_queue_open(struct sfs_queue *q, bool descriptors, enum sfs_queue_kind kind,
	struct pr_error *err)
{
	if (!descriptors)
		return inline_open(q, err);
	if (kind != SFS_QUEUE_NO_URING &&
		sfs_uring_open(q, kind == SFS_QUEUE_ONE_THREAD) == 0)
		return 0;
	return sfs_thread_open(q, err);
}

void
sfs_queue_close(struct sfs_queue *q)
{
	if (q->ops)
		q->ops->destroy(q->state);
	q->ops = NULL;
}

bool
sfs_queue_pin(struct sfs_queue *q, uint8_t *base, size_t size, size_t unit)
{
	return q->ops->pin && q->ops->pin(q->state, base, size, unit);
}

/* A refusal comes back as a failed request, so that there is one place for errors. */
void
sfs_queue_submit(struct sfs_queue *q, struct sfs_request *r)
{
	r->error = 0;
	r->done = 0;
	r->parts = 0;
	r->next = NULL;
	q->flying++;
	q->ops->submit(q->state, r);
}

struct sfs_request *
sfs_queue_reap(struct sfs_queue *q, bool wait)
{
	if (q->flying == 0)
		return NULL;
	struct sfs_request *list = q->ops->reap(q->state, wait);
	for (struct sfs_request *r = list; r; r = r->next)
		q->flying--;
	return list;
}
