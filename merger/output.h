/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_OUTPUT_H
#define PRM_MERGER_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/base/error.h"

/*
 * Bytes on their way to a file or pipe, gathered so that a packet costs a copy and not a system
 * call. With a thread of its own for writing, merging goes on while the kernel copies and disks
 * are slow. Once writing has failed it fails for good; err then says why.
 */
#define PRM_OUTPUT_ROOM ((size_t)1024 * 1024)

struct prm_output_thread;

struct prm_output {
	int fd;
	/*
	 * Set by prm_output_init_call: takes bytes in place of fd; returns 0, or errno for a failure.
	 */
	int (*take)(void *arg, const void *data, size_t len);
	void *take_arg;
	struct prm_output_thread *thread; /* NULL: none */
	bool failed;
	bool closed; /* failed because the reader is gone (EPIPE, ECONNRESET): no fault of ours */
	uint8_t *buf;
	size_t used;
	uint64_t written; /* bytes, with those in buf */
	/*
	 * Set it after prm_output_init for an empty file of one's own: its blocks are then asked for
	 * ahead of writing, and those not needed given back by prm_output_sync or _free.
	 */
	bool ahead;
	uint64_t placed,
		allocated; /* bytes handed to the kernel, and with blocks behind them */
};

/* fd stays the caller's. */
int prm_output_init(struct prm_output *out, int fd, bool thread, struct pr_error *err);
/* Bytes go to a function; it must take all that it is given. */
int prm_output_init_call(struct prm_output *out,
	int (*take)(void *arg, const void *data, size_t len), void *arg,
	struct pr_error *err);
void prm_output_free(struct prm_output *out); /* does not flush */
/* Hands on what has gathered; with a thread an error may show at a later call. */
int prm_output_flush(struct prm_output *out, struct pr_error *err);
/* Returns when all has been written. */
int prm_output_sync(struct prm_output *out, struct pr_error *err);
int prm_output_write(
	struct prm_output *out, const void *data, size_t len, struct pr_error *err);

/* len bytes (at most PRM_OUTPUT_ROOM) to be filled in place; NULL: failed. */
static inline uint8_t *
prm_output_room(struct prm_output *out, size_t len, struct pr_error *err)
{
	uint8_t *at;

	if (PRM_OUTPUT_ROOM - out->used < len && prm_output_flush(out, err) < 0)
		return NULL;
	at = out->buf + out->used;
	out->used += len;
	out->written += len;
	return at;
}

#endif
