/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "logger/streamfs/disk.h"
#include "logger/streamfs/streamfs.h"
#include "tests/unit/streamfs_queue.h"
#include "tests/unit/streamfs_volume.h"

/*
 * A disk that loses what it may lose. Writes reach the device's cache (the image), from which
 * everything is read; a sync makes durable what was written before it. What a write covered is kept
 * until then, so that a power cut can leave of each sector any of its versions since the last sync:
 * writes are torn, reordered and dropped (struct sim_cut says how). A kill leaves the cache as it
 * is, to be lost or not by a later power cut. Nothing here does I/O; a case costs what it copies.
 */
#define SIM_SECTOR 512
#define SIM_CHUNK 65536 /* of the image: what was touched is cleared for the next use */

struct sim_rng {
	uint64_t s;
};

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014) */
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

/* The body that record n of a stream has. */
static inline void
sim_body(int stream, uint64_t n, size_t len, uint8_t *to)
{
	for (size_t i = 0; i < len; i++)
		to[i] = (uint8_t)(n * 31 + (uint64_t)stream * 7 + i);
}

/* Of all disks of a machine: goes off by itself at the left-th write or sync, 0: never. */
struct sim_power {
	bool off;
	uint64_t left;
};

struct sim_write {
	uint64_t offset;
	size_t len, covered; /* covered: where in the undo memory its old bytes are */
};

struct sim_disk {
	uint64_t size, room_size;
	uint8_t *image, *touched;
	struct sim_write *pending;
	size_t count, room;
	uint8_t *undo, *settled; /* settled: by sector, used in a cut */
	size_t undo_used, undo_room;
	struct sim_rng *rng;
	struct sim_power *power; /* NULL: never goes off */
	bool dead; /* the program that used it is gone: its requests come to nothing */
	int fail_after; /* writes until one fails with EIO; negative: never */
	uint64_t writes, syncs;
};

static inline ssize_t
sim_read(void *arg, void *buf, size_t len, uint64_t offset)
{
	const struct sim_disk *d = arg;
	if (offset > d->size || len > d->size - offset)
		return 0;
	memcpy(buf, d->image + offset, len);
	return (ssize_t)len;
}

/* The request at which the power goes may have come through, or in part. */
static inline bool
sim_power_goes(struct sim_power *p)
{
	if (!p || p->off || p->left == 0 || --p->left > 0)
		return false;
	return p->off = true;
}

static inline void
sim_remember(struct sim_disk *d, size_t len, uint64_t offset)
{
	if (d->count == d->room) {
		d->room = d->room ? d->room * 2 : 64;
		d->pending = realloc(d->pending, d->room * sizeof(*d->pending));
	}
	if (d->undo_used + len > d->undo_room) {
		d->undo_room = 2 * (d->undo_used + len);
		d->undo = realloc(d->undo, d->undo_room);
	}
	d->pending[d->count++] = (struct sim_write){offset, len, d->undo_used};
	memcpy(d->undo + d->undo_used, d->image + offset, len);
	d->undo_used += len;
}

static inline ssize_t
sim_write(void *arg, const void *buf, size_t len, uint64_t offset)
{
	struct sim_disk *d = arg;
	bool off = d->dead || (d->power && d->power->off);
	if (off || (d->fail_after >= 0 && d->fail_after-- == 0) || offset > d->size ||
		len > d->size - offset || offset % SIM_SECTOR || len % SIM_SECTOR) {
		errno = EIO;
		return -1;
	}
	sim_remember(d, len, offset);
	memcpy(d->image + offset, buf, len);
	for (uint64_t c = offset / SIM_CHUNK; c <= (offset + len - 1) / SIM_CHUNK; c++)
		d->touched[c] = 1;
	d->writes++;
	if (!sim_power_goes(d->power))
		return (ssize_t)len;
	errno = EIO;
	return -1;
}

static inline void
sim_forget(struct sim_disk *d)
{
	d->count = 0;
	d->undo_used = 0;
}

static inline int
sim_sync(void *arg)
{
	struct sim_disk *d = arg;
	if (d->dead || (d->power && d->power->off) || sim_power_goes(d->power)) {
		errno = EIO;
		return -1;
	}
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

static inline int
sim_open_queue(struct sfs_queue *q)
{
	return inline_open_picking(q, sim_pick);
}

/* A fresh disk of zeros; d is all zero, or was made before and is used again, which is cheaper. */
static inline struct sfs_disk
sim_make(struct sim_disk *d, uint64_t size, struct sim_rng *rng)
{
	static const struct sfs_disk_ops ops = {.read = sim_read,
		.write = sim_write,
		.sync = sim_sync,
		.open_queue = sim_open_queue};
	if (size > d->room_size) {
		free(d->image);
		free(d->touched);
		free(d->settled);
		d->room_size = size;
		d->image = calloc(1, size);
		d->touched = calloc(1, size / SIM_CHUNK + 1);
		d->settled = calloc(1, size / SIM_SECTOR + 1);
	}
	for (uint64_t c = 0; c * SIM_CHUNK < d->room_size; c++) {
		uint64_t rest = d->room_size - c * SIM_CHUNK;
		if (d->touched[c])
			memset(d->image + c * SIM_CHUNK, 0,
				rest < SIM_CHUNK ? rest : SIM_CHUNK);
		d->touched[c] = 0;
	}
	sim_forget(d);
	d->size = size;
	d->rng = rng;
	d->power = NULL;
	d->dead = false;
	d->fail_after = -1;
	d->writes = d->syncs = 0;
	return (struct sfs_disk){
		.ops = &ops, .arg = d, .size = size, .fd = -1, .path = "sim"};
}

static inline void
sim_free(struct sim_disk *d)
{
	free(d->pending);
	free(d->undo);
	free(d->image);
	free(d->touched);
	free(d->settled);
	*d = (struct sim_disk){0};
}

/* The volume that lies on them, if it is open, and they. */
static inline void
sim_close(struct sfs **sfs, struct sim_disk *disks, size_t count)
{
	sfs_close(sfs);
	for (size_t i = 0; i < count; i++)
		sim_free(&disks[i]);
}

/*
 * What comes through of the unsynced writes. In units of whole writes or of sectors, numbered in the
 * order of writing: each by chance, those before or from the at-th on, only that, or all but that.
 */
enum sim_rule { SIM_CHANCE, SIM_BEFORE, SIM_FROM, SIM_ONLY, SIM_ALL_BUT, SIM_RULES };
struct sim_cut {
	enum sim_rule rule;
	bool whole; /* writes, not sectors */
	size_t sector; /* 512 or 4096: what the disk writes in one piece */
	unsigned keep; /* of 256, the chance of a unit */
	unsigned
		garble; /* of 256: what was lost was under the head and holds nothing sensible */
};

static inline bool
sim_keeps(struct sim_disk *d, const struct sim_cut *cut, uint64_t unit, uint64_t at)
{
	switch (cut->rule) {
	case SIM_BEFORE:
		return unit < at;
	case SIM_FROM:
		return unit >= at;
	case SIM_ONLY:
		return unit == at;
	case SIM_ALL_BUT:
		return unit != at;
	default:
		return sim_below(d->rng, 256) < cut->keep;
	}
}

static inline void
sim_garble(struct sim_disk *d, uint64_t at, size_t len)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t x = sim_random(d->rng);
		memcpy(d->image + at + i, &x, 8);
	}
}

/* One sector of a write, youngest write first: settled once it has one of its versions for good. */
static inline void
sim_settle(struct sim_disk *d, const struct sim_cut *cut, const struct sim_write *w,
	size_t at, bool kept)
{
	uint8_t *settled = &d->settled[(w->offset + at) / SIM_SECTOR];
	if (*settled)
		return;
	if (!kept && sim_below(d->rng, 256) < cut->garble) {
		sim_garble(d, w->offset + at, cut->sector);
		kept = true;
	}
	if (kept)
		*settled = 1;
	else
		memcpy(d->image + w->offset + at, d->undo + w->covered + at, cut->sector);
}

static inline void
sim_cut_write(struct sim_disk *d, const struct sim_cut *cut, const struct sim_write *w,
	uint64_t *unit, uint64_t at)
{
	bool kept = false;
	if (cut->whole)
		kept = sim_keeps(d, cut, --*unit, at);
	for (size_t left = w->len; left > 0; left -= cut->sector) {
		if (!cut->whole)
			kept = sim_keeps(d, cut, --*unit, at);
		sim_settle(d, cut, w, left - cut->sector, kept);
	}
}

static inline void
sim_cut_power(struct sim_disk *d, const struct sim_cut *cut)
{
	uint64_t units = cut->whole ? d->count : d->undo_used / cut->sector;
	uint64_t at = sim_below(d->rng, units + 1);
	for (size_t i = d->count; i-- > 0;)
		sim_cut_write(d, cut, &d->pending[i], &units, at);
	for (size_t i = 0; i < d->count; i++)
		memset(d->settled + d->pending[i].offset / SIM_SECTOR, 0,
			d->pending[i].len / SIM_SECTOR);
	sim_forget(d);
}

/* Each sector by chance. */
static inline void
sim_power_cut(struct sim_disk *d, unsigned keep, unsigned garble)
{
	struct sim_cut cut = {
		.rule = SIM_CHANCE, .sector = SIM_SECTOR, .keep = keep, .garble = garble};
	sim_cut_power(d, &cut);
}

/* Any way at all. */
static inline struct sim_cut
sim_any_cut(struct sim_rng *rng, size_t sector)
{
	static const unsigned keep[] = {0, 16, 128, 240, 256};
	return (struct sim_cut){
		.rule = sim_below(rng, 2) ? SIM_CHANCE
					  : (enum sim_rule)sim_below(rng, SIM_RULES),
		.whole = sim_below(rng, 3) == 0,
		.sector = sector,
		.keep = keep[sim_below(rng, 5)],
		.garble = sim_below(rng, 2) ? 0 : (unsigned)sim_below(rng, 64),
	};
}
