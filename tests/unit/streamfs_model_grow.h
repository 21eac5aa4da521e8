/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "tests/unit/streamfs_model.h"

/* Growing, as sfs_grow does: room on the disks there are, or one disk more. What is held stays as it is. */
#define GROW_MOST 200 /* blocks: larger ones are not grown, so that laps stay cheap */

static inline void
make_disk(struct model *m, size_t i, uint64_t rows)
{
	m->handle[i] = sim_make(&m->disk[i], (8 + rows + GROW_MOST) * BLOCK, &m->rng);
	m->handle[i].sector = (uint32_t)m->sector;
	m->handle[i].size = m->disk[i].size = (8 + rows) * BLOCK;
	m->disk[i].power = &m->power;
}

static inline void
enlarge_disks(struct model *m, uint64_t rows)
{
	for (size_t i = 0; i < m->disks; i++) {
		if (m->disk[i].size + rows * BLOCK > m->disk[i].room_size)
			continue;
		m->handle[i].size = m->disk[i].size += rows * BLOCK;
		for (uint16_t d = 0; d < m->sfs->disks; d++)
			if (m->sfs->disk[d].arg == &m->disk[i])
				m->sfs->disk[d].size = m->disk[i].size;
	}
}

/*
 * A crash met it: the new disk is a part of the volume, or there never was one. What is seen now may still go with
 * the disks' caches, until a writer has opened the volume.
 */
static inline void
settle_growth(struct model *m)
{
	struct sfs_open_options o = {.writer = false};
	struct sfs *sfs;
	if (m->before_growth == 0)
		return;
	m->disks = m->after_growth;
	sfs = sfs_open_disks(m->handle, m->disks, &o, &m->err);
	if (!sfs || sfs->root.device_count < m->disks)
		m->disks = m->before_growth;
	sfs_close(&sfs);
}

/* True: the volume has grown, or it has not for a reason that is one; it is to be closed. */
static inline bool
grow_open(struct model *m)
{
	uint64_t blocks = 0, rows = 1 + sim_below(&m->rng, 20);
	size_t add = m->disks < DISKS && sim_below(&m->rng, 2);
	if (add)
		make_disk(m, m->disks, rows);
	if (!add || sim_below(&m->rng, 3) == 0)
		enlarge_disks(m, rows);
	if (sim_below(&m->rng, 2))
		m->power.left =
			1 + sim_below(&m->rng,
				    8 + m->sfs->root.blocks / m->sfs->root.map_interval);
	uint64_t was = m->sfs->root.blocks;
	m->before_growth = m->disks;
	m->after_growth = m->disks + add;
	/* new room lies behind the frontier, too: from now on blocks are recycled before all is used */
	m->begun = UINT64_MAX / 2;
	int rc = sfs_grow_open(
		m->sfs, m->handle + m->disks, (uint16_t)add, &blocks, &m->err);
	if (rc < 0 && m->power.off) {
		m->disks = m->after_growth;
		return false;
	}
	m->before_growth = 0;
	m->power.left = 0;
	MUST(m, rc == 0 || strstr(m->err.text, "too often") || !add, "grow");
	MUST(m, m->sfs->root.blocks == was + blocks, "grown to %lu blocks from %lu by %lu",
		(lu)m->sfs->root.blocks, (lu)was, (lu)blocks);
	m->disks += rc == 0 ? add : 0;
	return true;
}
