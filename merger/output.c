/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/thread.h"

#define BUFFERS 4
#define AHEAD (64 * PRM_OUTPUT_ROOM) /* bytes of a file allocated at a time */

/* Writes what the answer's thread has filled. */
struct prm_output_thread {
	pthread_t id;
	struct pr_queue queue;
	uint8_t *buffers[BUFFERS];
	size_t lengths[BUFFERS];
	int slot; /* the one that is being filled */
	int fd;
	_Atomic int error; /* errno of the first failure; 0: none */
};

/* Returns 0, or errno. */
static int
write_fully(int fd, const uint8_t *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		data += n;
		len -= n;
	}
	return 0;
}

/*
 * Releases blocks after the file's end. Some of what was handed over may not have been
 * written.
 */
static void
release_ahead(struct prm_output *out)
{
	struct stat st;

	if (out->allocated && fstat(out->fd, &st) == 0 &&
		ftruncate(out->fd, st.st_size) == 0)
		out->allocated = 0;
	out->ahead = false;
}

static int
fail(struct prm_output *out, int error, struct pr_error *err)
{
	out->failed = true;
	out->closed = error == EPIPE || error == ECONNRESET;
	errno = error;
	return pr_error_errno(err, "writing %s", out->name ? out->name : "the answer");
}

/* ---- the thread ---- */

static void *
write_on(void *arg)
{
	struct prm_output_thread *t = arg;
	int slot;

	while ((slot = pr_queue_take(&t->queue)) >= 0)
		if (!t->error)
			t->error = write_fully(t->fd, t->buffers[slot], t->lengths[slot]);
	return NULL;
}

static void
thread_free(struct prm_output_thread *t)
{
	for (int i = 0; i < BUFFERS; i++)
		free(t->buffers[i]);
	pr_queue_destroy(&t->queue);
	free(t);
}

/* ---- output ---- */

int
prm_output_init(struct prm_output *out, int fd, bool thread, struct pr_error *err)
{
	bool memory = true;

	*out = (struct prm_output){.fd = fd};
	if (!thread) {
		out->buf = malloc(PRM_OUTPUT_ROOM);
		return out->buf ? 0 : pr_error_set(err, "no memory for an output buffer");
	}
	struct prm_output_thread *t = calloc(1, sizeof(*t));
	if (!t)
		return pr_error_set(err, "no memory for an output buffer");
	pr_queue_init(&t->queue, BUFFERS);
	t->slot = pr_queue_reserve(&t->queue);
	t->fd = fd;
	for (int i = 0; i < BUFFERS; i++)
		memory = (t->buffers[i] = malloc(PRM_OUTPUT_ROOM)) && memory;
	if (!memory)
		pr_error_set(err, "no memory for output buffers");
	if (!memory || pr_thread_start(&t->id, write_on, t, "writing", err) < 0) {
		thread_free(t);
		return -1;
	}
	out->thread = t;
	out->buf = t->buffers[t->slot];
	return 0;
}

void
prm_output_free(struct prm_output *out)
{
	if (out->thread) { /* output without a sync is discarded */
		pr_queue_stop(&out->thread->queue);
		pthread_join(out->thread->id, NULL);
		thread_free(out->thread);
	} else {
		free(out->buf);
	}
	release_ahead(out);
	out->thread = NULL;
	out->buf = NULL;
}

int
prm_output_flush(struct prm_output *out, struct pr_error *err)
{
	struct prm_output_thread *t = out->thread;
	size_t len = out->used;
	int error;

	if (out->failed)
		return pr_error_set(err, "writing the answer failed before");
	if (!len)
		return 0;
	/*
	 * Allocates the file's blocks before writing. Otherwise ext4 delays the allocation,
	 * and closing a file that was truncated when it was opened waits for the disk: a
	 * third of an export's time. If the file system cannot do it, nothing is lost.
	 */
	if (out->ahead && out->placed + len > out->allocated) {
		out->ahead = fallocate(out->fd, FALLOC_FL_KEEP_SIZE, out->allocated,
				     len + AHEAD) == 0;
		out->allocated += out->ahead ? len + AHEAD : 0;
	}
	out->placed += len;
	if (t) { /* waits for a free buffer; the error is of an earlier write */
		t->lengths[t->slot] = len;
		pr_queue_put(&t->queue);
		t->slot = pr_queue_reserve(&t->queue);
		out->buf = t->buffers[t->slot];
		error = t->error;
	} else {
		error = write_fully(out->fd, out->buf, len);
	}
	out->used = 0;
	return error ? fail(out, error, err) : 0;
}

int
prm_output_sync(struct prm_output *out, struct pr_error *err)
{
	struct prm_output_thread *t = out->thread;

	if (prm_output_flush(out, err) < 0)
		return -1;
	if (t)
		pr_queue_wait_empty(&t->queue);
	if (t && t->error)
		return fail(out, t->error, err);
	release_ahead(out);
	return 0;
}

int
prm_output_write(struct prm_output *out, const void *data, size_t len, struct pr_error *err)
{
	bool large = len > PRM_OUTPUT_ROOM;

	/* data longer than a buffer is written directly, after the buffered data */
	if (len > PRM_OUTPUT_ROOM - out->used &&
		(large ? prm_output_sync(out, err) : prm_output_flush(out, err)) < 0)
		return -1;
	out->written += len;
	if (large) {
		out->placed += len;
		int error = write_fully(out->fd, data, len);
		return error ? fail(out, error, err) : 0;
	}
	memcpy(out->buf + out->used, data, len);
	out->used += len;
	return 0;
}
