/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/base/error.h"

/*
 * Buffered output to a file or pipe, so that a packet costs a copy and not a system call.
 * With a thread for writing, merging continues while the kernel copies and disks are slow.
 * After a failed write all further writes fail; err has the reason.
 */
#define PRM_OUTPUT_ROOM ((size_t)1024 * 1024)

struct prm_output_thread;

struct prm_output {
	int fd;
	const char *name; /* for error texts; NULL: "the answer" */
	struct prm_output_thread *thread; /* NULL: none */
	bool failed;
	bool closed; /* failed because the reader is gone (EPIPE, ECONNRESET): no fault of ours */
	uint8_t *buf;
	size_t used;
	uint64_t written; /* bytes, with those in buf */
	/*
	 * Set after prm_output_init for an empty file of our own. Its blocks are then
	 * allocated ahead of writing; prm_output_sync or _free releases blocks that are not
	 * needed.
	 */
	bool ahead;
	uint64_t placed, allocated; /* bytes given to the kernel; bytes with blocks */
};

/* fd stays the caller's. */
int prm_output_init(struct prm_output *out, int fd, bool thread, struct pr_error *err);
void prm_output_free(struct prm_output *out); /* does not flush */
/* Writes what is buffered. With a thread, an error may show at a later call only. */
int prm_output_flush(struct prm_output *out, struct pr_error *err);
/* Returns when all has been written. */
int prm_output_sync(struct prm_output *out, struct pr_error *err);
int prm_output_write(
	struct prm_output *out, const void *data, size_t len, struct pr_error *err);

/*
 * Returns memory for len bytes of output (at most PRM_OUTPUT_ROOM), which the caller fills;
 * NULL: failed.
 */
static inline uint8_t *
prm_output_room(struct prm_output *out, size_t len, struct pr_error *err)
{
	if (PRM_OUTPUT_ROOM - out->used < len && prm_output_flush(out, err) < 0)
		return NULL;
	uint8_t *at = out->buf + out->used;
	out->used += len;
	out->written += len;
	return at;
}
