/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "proto/base/ring.h"
#include "tests/unit/unit.h"

/* A ring, and records that are put into it. */

static const unsigned char *memory; /* of the ring made last */

static inline struct pr_ring *
make(size_t size)
{
	struct pr_error err;
	struct pr_ring *ring = pr_ring_create(size, &err);

	ck_assert_msg(ring != NULL, "%s", err.text);
	memory = (unsigned char *)pr_ring_reserve(ring, 0) - 8;
	return ring;
}

static inline void
check_inside(const struct pr_ring *ring, const void *rec, size_t len)
{
	size_t at = (size_t)((const unsigned char *)rec - memory);

	if (at % 8 || at < 8 || at + len > pr_ring_size(ring))
		ck_abort_msg("a record of %zu bytes at %zu", len, at);
}

static inline bool
put(struct pr_ring *ring, const void *bytes, size_t len)
{
	void *room = pr_ring_reserve(ring, len);

	if (!room)
		return false;
	ck_assert_uint_eq((uintptr_t)room % 8, 0);
	memcpy(room, bytes, len);
	pr_ring_commit(ring, len);
	return true;
}
