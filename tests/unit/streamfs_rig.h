/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <check.h>

#include "logger/streamfs/internal.h"
#include "tests/unit/streamfs_sim.h"

/* A volume on one simulated disk, open for writing, with one stream. */
struct rig {
	struct sim_rng rng;
	struct sim_disk disk;
	struct sfs_disk handle;
	struct sfs *sfs;
	uint32_t block; /* bytes of one */
	int64_t now;
	uint64_t n; /* records appended */
};
static struct pr_error err;

static inline void
rig_open(struct rig *r)
{
	struct sfs_open_options o = {.writer = true, .shm_bytes = 4 * r->block};
	r->sfs = sfs_open_disks(&r->handle, 1, &o, &err);
	ck_assert_msg(r->sfs != NULL, "%s", err.text);
	ck_assert_int_eq(sfs_stream_open(r->sfs, "a", 0, 0, &err), 0);
}

static inline struct rig *
rig_make(uint64_t seed, uint32_t block, uint32_t blocks)
{
	struct rig *r = calloc(1, sizeof(*r));
	r->rng.s = seed;
	r->block = block;
	r->handle = sim_make(&r->disk, (uint64_t)blocks * block, &r->rng);
	ck_assert_int_eq(sfs_create_disks(&r->handle, 1, block, 8, &err), 0);
	rig_open(r);
	return r;
}

static inline void
rig_free(struct rig *r)
{
	sim_close(&r->sfs, &r->disk, 1);
	free(r);
}
