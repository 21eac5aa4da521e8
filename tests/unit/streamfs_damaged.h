/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "logger/streamfs/internal.h"
#include "tests/unit/streamfs_volume.h"

/*
 * A filled volume of two devices, and damage to it by a seed. It knows itself where records, headers, maps and
 * roots lie: from handles and the layout.
 */
enum {
	BLOCK = SFS_BLOCK_MIN,
	INTERVAL = 8,
	BLOCKS = 48,
	DEVICES = 2,
	DEVICE_BYTES = 2 * SFS_ROOT_BYTES + BLOCKS / DEVICES * BLOCK,
	STREAMS = 4,
	RECORDS_MAX = 4000,
};

static struct pr_error err;
static uint8_t *image[DEVICES], *pristine[DEVICES], *alien[DEVICES];
static char path[DEVICES][64];
static const char *const paths[DEVICES] = {path[0], path[1]};
static int file[DEVICES];
static struct sfs_root root;
static struct sfs_key key;

struct original {
	struct sfs_handle handle;
	uint64_t sequence;
	uint8_t *body;
	bool hit;
};
static struct original originals[RECORDS_MAX];
static size_t count;
static uint64_t random_state;

static inline uint64_t
draw(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state * 0x2545f4914f6cdd1du >> 16) % below;
}

static inline size_t
length_of(uint64_t n)
{
	return n % 11 == 0 ? 20000 + n % 3000 : n * 37 % 1500;
}

static inline void
fill_volume(struct sfs *w)
{
	static uint8_t body[30000];
	int stream[STREAMS];
	char name[16];
	for (int i = 0; i < STREAMS; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		stream[i] = sfs_stream_open(w, name, i == 1 ? 3 * BLOCK : 0, 1u << i, &err);
		ck_assert_int_eq(stream[i], i);
	}
	for (uint64_t n = 1; n <= 1800; n++) {
		int s = n % 40 == 0 ? 1 : n % 7 == 0 ? 2 : n % 400 == 1 ? 3 : 0;
		memset(body, (int)(n % 251), length_of(n));
		ck_assert_int_eq(sfs_append(w, stream[s], (int64_t)n, (int64_t)n + 1, body,
					 length_of(n), NULL, &err),
			SFS_OK);
		if (n % 29 == 0)
			ck_assert_int_eq(sfs_flush(w, &err), SFS_OK);
	}
}

static inline struct sfs *
open_reader(void)
{
	struct sfs_open_options o = {.no_direct = true};
	return sfs_open(paths, DEVICES, &o, &err);
}

static inline void
remember(void)
{
	struct sfs *sfs = open_reader();
	struct sfs_record r;
	ck_assert_msg(sfs != NULL, "%s", err.text);
	count = 0;
	for (int s = 0; s < STREAMS; s++) {
		struct sfs_cursor *c = sfs_cursor_open(sfs, s, NULL, &err);
		while (sfs_cursor_next(c, &r, &err) == 1) {
			struct original *o = &originals[count++];
			ck_assert_uint_lt(count, RECORDS_MAX);
			*o = (struct original){.handle = r.handle, .sequence = r.sequence};
			o->body = malloc(r.length + 1);
			memcpy(o->body, r.body, r.length);
		}
		sfs_cursor_close(&c);
	}
	root = sfs->root;
	key = sfs->key;
	ck_assert_int_eq(sfs_check(sfs, NULL, NULL, NULL, &err), 0);
	sfs_close(&sfs);
}

static inline void
make_volume(bool keep)
{
	struct sfs_disk disks[DEVICES] = {0};
	struct sfs_open_options o = {
		.writer = true, .shm_bytes = 16 * BLOCK, .no_direct = true};
	for (int i = 0; i < DEVICES; i++) {
		ck_assert_int_eq(ftruncate(file[i], 0), 0);
		ck_assert_int_eq(ftruncate(file[i], DEVICE_BYTES), 0);
		ck_assert_int_eq(sfs_disk_open(&disks[i], path[i], true, false, &err), 0);
	}
	ck_assert_msg(sfs_create_disks(disks, DEVICES, BLOCK, INTERVAL, &err) == 0, "%s",
		err.text);
	for (int i = 0; i < DEVICES; i++)
		sfs_disk_close(&disks[i]);
	struct sfs *w = sfs_open(paths, DEVICES, &o, &err);
	ck_assert_msg(w != NULL, "%s", err.text);
	fill_volume(w);
	sfs_close(&w);
	for (int i = 0; i < DEVICES; i++) {
		uint8_t **to = keep ? &pristine[i] : &alien[i];
		*to = malloc(DEVICE_BYTES);
		ck_assert_int_eq(pread(file[i], *to, DEVICE_BYTES, 0), DEVICE_BYTES);
	}
	if (keep)
		remember();
}

static inline void
setup(void)
{
	for (int i = 0; i < DEVICES; i++) {
		file[i] = memfd_create("care", 0);
		image[i] = malloc(DEVICE_BYTES);
		snprintf(path[i], sizeof(path[i]), "/proc/self/fd/%d", file[i]);
	}
	make_volume(false);
	make_volume(true);
}

static inline void
teardown(void)
{
	for (int i = 0; i < DEVICES; i++) {
		close(file[i]);
		free(image[i]);
		free(pristine[i]);
		free(alien[i]);
	}
	for (size_t i = 0; i < count; i++)
		free(originals[i].body);
}

/* ---- where things lie ---- */

static inline uint8_t *
block_at(uint8_t **devices, uint64_t block)
{
	return devices[block % DEVICES] + 2 * SFS_ROOT_BYTES + block / DEVICES * BLOCK;
}

static inline bool
holds_records(uint64_t block)
{
	for (size_t i = 0; i < count; i++)
		if (originals[i].handle.block == block)
			return true;
	return false;
}

static inline bool
root_changed(int d)
{
	const size_t length = SFS_ROOT_HEADER + STREAMS * SFS_STREAM_BYTES;
	for (size_t at = 0; at <= SFS_ROOT_BYTES; at += SFS_ROOT_BYTES)
		if (memcmp(image[d] + at, pristine[d] + at, length) != 0)
			return true;
	return false;
}

/* Notes which records were changed, and says whether anything that counts was. */
static inline bool
changed(void)
{
	bool any = false;
	for (int d = 0; d < DEVICES; d++)
		any = any || root_changed(d);
	for (uint64_t b = 0; b < BLOCKS; b++) {
		bool map = b % INTERVAL == INTERVAL - 1;
		uint8_t *now = block_at(image, b), *was = block_at(pristine, b);
		/* of a map, its entries: their number lies in the header */
		size_t used = SFS_BLOCK_HEADER +
			      (map ? (was[168] + was[172]) * SFS_MAP_ENTRY : 0);
		bool current = (b + BLOCKS - root.frontier) % BLOCKS >= root.window;
		for (uint64_t m = b - b % INTERVAL; map && m <= b; m++)
			current = current &&
				  (m + BLOCKS - root.frontier) % BLOCKS >= root.window;
		if (map ? current : holds_records(b))
			any = any || memcmp(now, was, used) != 0;
	}
	for (size_t i = 0; i < count; i++) {
		struct original *o = &originals[i];
		const uint8_t *now = block_at(image, o->handle.block) + o->handle.offset;
		const uint8_t *was = block_at(pristine, o->handle.block) + o->handle.offset;
		size_t span = sfs_record_size(o->handle.header, o->handle.length);
		/* the bytes that round it up are found, and say nothing */
		o->hit = memcmp(now, was, o->handle.header + o->handle.length) != 0;
		any = any || memcmp(now, was, span) != 0;
	}
	return any;
}

/* ---- the damage ---- */

static inline void
flip(uint8_t *at, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		at[i] ^= (uint8_t)(1 + draw(255));
}

static inline void
swap_blocks(uint64_t a, uint64_t b)
{
	static uint8_t tmp[BLOCK];
	memcpy(tmp, block_at(image, a), BLOCK);
	memcpy(block_at(image, a), block_at(image, b), BLOCK);
	memcpy(block_at(image, b), tmp, BLOCK);
}

static inline void
damage_once(void)
{
	const struct original *o = &originals[draw(count)];
	uint8_t *record = block_at(image, o->handle.block) + o->handle.offset;
	uint64_t d = draw(DEVICES), b = draw(BLOCKS);
	switch (draw(12)) {
	case 0: /* a bit anywhere */
		image[d][draw(DEVICE_BYTES)] ^= (uint8_t)(1u << draw(8));
		break;
	case 1: /* a record's header */
		record[draw(o->handle.header)] ^= (uint8_t)(1u << draw(8));
		break;
	case 2:
		record[draw(o->handle.header + o->handle.length)] ^=
			(uint8_t)(1u << draw(8));
		break;
	case 3: /* a block's header */
		block_at(image, o->handle.block)[draw(SFS_BLOCK_HEADER)] ^=
			(uint8_t)(1u << draw(8));
		break;
	case 4: /* a map */
		b = draw(BLOCKS / INTERVAL) * INTERVAL + INTERVAL - 1;
		block_at(image, b)[draw(SFS_BLOCK_HEADER + 8 * SFS_MAP_ENTRY)] ^=
			(uint8_t)(1u << draw(8));
		break;
	case 5: /* one of a device's roots */
		image[d][draw(2) * SFS_ROOT_BYTES +
			 draw(SFS_ROOT_HEADER + STREAMS * SFS_STREAM_BYTES)] ^=
			(uint8_t)(1u << draw(8));
		break;
	case 6: /* a sector is lost */
		memset(block_at(image, b) + draw(BLOCK / SFS_SECTOR) * SFS_SECTOR, 0,
			SFS_SECTOR);
		break;
	case 7: /* the block's first sector is noise */
		flip(block_at(image, o->handle.block), SFS_SECTOR);
		break;
	case 8:
		swap_blocks(o->handle.block, b);
		break;
	case 9: /* another volume's block */
		memcpy(block_at(image, b), block_at(alien, b), BLOCK);
		break;
	case 10: /* a stretch of noise */
		flip(block_at(image, b) + draw(BLOCK / 2), 1 + draw(BLOCK / 2));
		break;
	default: /* a whole block is lost */
		memset(block_at(image, o->handle.block), 0, BLOCK);
	}
}

static inline void
put_image(void)
{
	for (int i = 0; i < DEVICES; i++)
		ck_assert_int_eq(pwrite(file[i], image[i], DEVICE_BYTES, 0), DEVICE_BYTES);
}
