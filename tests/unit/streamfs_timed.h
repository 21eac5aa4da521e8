/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/streamfs_queue.h"

/*
 * A spinning disk by a simulated clock: the rate falls from the first byte to the last, and whatever
 * does not go on where the last request ended costs a seek. Its roots are kept, the rest is not.
 */
#define TIMED_KEPT (1u << 20)

struct timed_disk {
	uint64_t size, next; /* next: behind the last request */
	double outer, inner; /* bytes a ns */
	double seek; /* ns */
	double now,
		busy; /* ns: the clock, that all disks of a test may share, and this one's part */
	double *clock;
	uint64_t written, seeks;
	uint8_t *kept;
};

static inline void
timed_move(struct timed_disk *d, size_t len, uint64_t offset)
{
	double place = (double)offset / (double)d->size;
	double ns = (double)len / (d->outer + (d->inner - d->outer) * place);
	if (offset != d->next) {
		ns += d->seek;
		d->seeks++;
	}
	d->next = offset + len;
	d->busy += ns;
	*d->clock += ns;
}

static inline ssize_t
timed_read(void *arg, void *buf, size_t len, uint64_t offset)
{
	struct timed_disk *d = arg;
	timed_move(d, len, offset);
	memset(buf, 0, len);
	if (offset < TIMED_KEPT)
		memcpy(buf, d->kept + offset,
			len < TIMED_KEPT - offset ? len : TIMED_KEPT - offset);
	return (ssize_t)len;
}

static inline ssize_t
timed_write(void *arg, const void *buf, size_t len, uint64_t offset)
{
	struct timed_disk *d = arg;
	if (offset > d->size || len > d->size - offset) {
		errno = EIO;
		return -1;
	}
	timed_move(d, len, offset);
	d->written += len;
	if (offset < TIMED_KEPT)
		memcpy(d->kept + offset, buf,
			len < TIMED_KEPT - offset ? len : TIMED_KEPT - offset);
	return (ssize_t)len;
}

static inline int
timed_sync(void *arg)
{
	(void)arg;
	return 0;
}

static inline struct sfs_disk
timed_make(struct timed_disk *d, uint64_t size, double outer, double inner)
{
	static const struct sfs_disk_ops ops = {.read = timed_read,
		.write = timed_write,
		.sync = timed_sync,
		.open_queue = inline_open};
	*d = (struct timed_disk){.size = size, .outer = outer, .inner = inner, .seek = 8e6};
	d->clock = &d->now;
	d->kept = calloc(1, TIMED_KEPT);
	return (struct sfs_disk){
		.ops = &ops, .arg = d, .size = size, .fd = -1, .path = "timed"};
}
