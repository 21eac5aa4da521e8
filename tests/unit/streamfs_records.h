/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "tests/unit/streamfs_file.h"

/* A volume in a file, and records whose number says what they hold. */

static inline void
create(uint64_t size, uint32_t block_size)
{
	struct sfs_create_options o = {.size = size, .block_size = block_size};
	ck_assert_msg(sfs_create(paths, 1, &o, &err) == 0, "%s", err.text);
}

/* Open for writing, too. */
static inline struct sfs *
create_open(uint64_t size)
{
	create(size, 65536);
	return open_volume(true);
}

/* The body that record n of a stream has: its length and bytes follow from both. */
static inline size_t
make_body(uint8_t *to, uint32_t stream, uint64_t n, size_t most)
{
	uint64_t x = n * 0x9e3779b97f4a7c15u + stream * 77777u + 1;
	size_t len = (x >> 20) % most;
	for (size_t i = 0; i < len; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		to[i] = (uint8_t)x;
	}
	return len;
}

static inline struct sfs_handle
append(struct sfs *sfs, int stream, uint64_t n, size_t most)
{
	static uint8_t body[1 << 20];
	struct sfs_handle h;
	size_t len = make_body(body, (uint32_t)stream, n, most);
	int rc = sfs_append(
		sfs, stream, (int64_t)n * 10, (int64_t)n * 10 + 5, body, len, &h, &err);
	ck_assert_msg(rc == SFS_OK, "record %lu: %s", (unsigned long)n, err.text);
	return h;
}

static inline void
expect(const struct sfs_record *r, int stream, uint64_t n, size_t most)
{
	static uint8_t body[1 << 20];
	size_t len = make_body(body, (uint32_t)stream, n, most);
	ck_assert_uint_eq(r->sequence, n);
	ck_assert_int_eq(r->min_time, (int64_t)n * 10);
	ck_assert_int_eq(r->max_time, (int64_t)n * 10 + 5);
	ck_assert_uint_eq(r->length, len);
	ck_assert(len == 0 || memcmp(r->body, body, len) == 0);
}

/* Reads a stream from its oldest record; returns the first sequence, *last the last. */
static inline uint64_t
walk(struct sfs *sfs, int stream, size_t most, uint64_t *last)
{
	struct sfs_cursor *c = sfs_cursor_open(sfs, stream, NULL, &err);
	struct sfs_record r;
	uint64_t first = 0;
	int rc;
	ck_assert_ptr_nonnull(c);
	*last = 0;
	while ((rc = sfs_cursor_next(c, &r, &err)) == 1) {
		if (first == 0)
			first = r.sequence;
		else
			ck_assert_uint_eq(r.sequence, *last + 1);
		*last = r.sequence;
		expect(&r, stream, r.sequence, most);
	}
	ck_assert_msg(rc == 0, "%d %s", rc, err.text);
	sfs_cursor_close(&c);
	return first;
}
