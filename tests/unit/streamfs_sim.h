/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STREAMFS_SIM_H
#define TESTS_STREAMFS_SIM_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "logger/streamfs/io.h"

/*
 * A disk that loses what it may lose. Writes reach the device's cache, from which everything is
 * read; a sync makes durable what was written before it. A power cut leaves of each 512-byte sector
 * any of its versions since the last sync, each sector for itself: writes are torn, reordered and
 * dropped. A kill leaves the cache as it is, to be lost or not by a later power cut.
 */
#define SIM_SECTOR 512

struct sim_rng {
	uint64_t s;
};

static inline uint64_t
sim_random(struct sim_rng *r)
{
	uint64_t z = (r->s += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline uint64_t
sim_below(struct sim_rng *r, uint64_t n)
{
	return n ? sim_random(r) % n : 0;
}

struct sim_write {
	uint64_t offset;
	size_t len;
	uint8_t *data;
};

struct sim_disk {
	uint64_t size;
	uint8_t *durable, *cache;
	struct sim_write *pending;
	size_t count, room;
	struct sim_rng *rng;
	bool dead; /* the program that used it is gone: its requests come to nothing */
	int fail_after; /* writes until one fails with EIO; negative: never */
	uint64_t writes, syncs;
};

static inline ssize_t
sim_read(void *arg, void *buf, size_t len, uint64_t offset)
{
	struct sim_disk *d = arg;
	if (offset > d->size || len > d->size - offset)
		return 0;
	memcpy(buf, d->cache + offset, len);
	return (ssize_t)len;
}

static inline ssize_t
sim_write(void *arg, const void *buf, size_t len, uint64_t offset)
{
	struct sim_disk *d = arg;
	if (d->dead || (d->fail_after >= 0 && d->fail_after-- == 0) || offset > d->size ||
		len > d->size - offset || offset % SIM_SECTOR || len % SIM_SECTOR) {
		errno = EIO;
		return -1;
	}
	if (d->count == d->room) {
		d->room = d->room ? d->room * 2 : 64;
		d->pending = realloc(d->pending, d->room * sizeof(*d->pending));
	}
	struct sim_write *w = &d->pending[d->count++];
	*w = (struct sim_write){offset, len, malloc(len)};
	memcpy(w->data, buf, len);
	memcpy(d->cache + offset, buf, len);
	d->writes++;
	return (ssize_t)len;
}

static inline void
sim_forget(struct sim_disk *d)
{
	for (size_t i = 0; i < d->count; i++)
		free(d->pending[i].data);
	d->count = 0;
}

static inline int
sim_sync(void *arg)
{
	struct sim_disk *d = arg;
	if (d->dead) {
		errno = EIO;
		return -1;
	}
	for (size_t i = 0; i < d->count; i++)
		memcpy(d->durable + d->pending[i].offset, d->pending[i].data,
			d->pending[i].len);
	sim_forget(d);
	d->syncs++;
	return 0;
}

static inline unsigned
sim_pick(void *arg, unsigned n)
{
	struct sim_disk *d = arg;
	return (unsigned)sim_below(d->rng, n + 1);
}

static inline struct sfs_disk
sim_make(struct sim_disk *d, uint64_t size, struct sim_rng *rng)
{
	static const struct sfs_disk_ops ops = {
		.read = sim_read, .write = sim_write, .sync = sim_sync, .pick = sim_pick};
	*d = (struct sim_disk){.size = size, .rng = rng, .fail_after = -1};
	d->durable = calloc(1, size);
	d->cache = calloc(1, size);
	return (struct sfs_disk){
		.ops = &ops, .arg = d, .size = size, .fd = -1, .path = "sim"};
}

static inline void
sim_free(struct sim_disk *d)
{
	sim_forget(d);
	free(d->pending);
	free(d->durable);
	free(d->cache);
}

static inline void
sim_garble(struct sim_disk *d, uint64_t at)
{
	for (size_t i = 0; i < SIM_SECTOR; i += 8) {
		uint64_t x = sim_random(d->rng);
		memcpy(d->durable + at + i, &x, 8);
	}
}

/*
 * keep: of 256, the chance that a sector write came through. Each is decided for itself, in the
 * order of writing, so a sector ends up with any of its versions; garble: of 256, the chance that it
 * was under the head when the power went, and holds nothing sensible at all.
 */
static inline void
sim_power_cut(struct sim_disk *d, unsigned keep, unsigned garble)
{
	for (size_t i = 0; i < d->count; i++) {
		struct sim_write *w = &d->pending[i];
		for (size_t at = 0; at < w->len; at += SIM_SECTOR) {
			if (sim_below(d->rng, 256) < keep)
				memcpy(d->durable + w->offset + at, w->data + at,
					SIM_SECTOR);
			else if (sim_below(d->rng, 256) < garble)
				sim_garble(d, w->offset + at);
		}
	}
	for (size_t i = 0; i < d->count; i++)
		memcpy(d->cache + d->pending[i].offset, d->durable + d->pending[i].offset,
			d->pending[i].len);
	sim_forget(d);
}

#endif
