/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/unit/streamfs_model_steps.h"

/* The end of a case: bytes are changed behind the volume's back, and what it still gives must be right. */
/* Some bytes change, a sector is lost, or lands where another should be. */
static inline void
damage(struct model *m)
{
	struct sim_disk *d = &m->disk[sim_below(&m->rng, m->disks)];
	uint64_t start = 2 * SFS_ROOT_BYTES, span = d->size - start;
	for (uint64_t n = 1 + sim_below(&m->rng, 40); n > 0; n--) {
		uint64_t block = start / BLOCK + sim_below(&m->rng, span / BLOCK);
		/* most of a block is empty: near its start */
		uint64_t at = block * BLOCK +
			      (sim_below(&m->rng, BLOCK) >> sim_below(&m->rng, 9));
		uint8_t *sector = d->image + at / SIM_SECTOR * SIM_SECTOR;
		uint64_t from = start + sim_below(&m->rng, span / SIM_SECTOR) * SIM_SECTOR;
		switch (sim_below(&m->rng, 8)) {
		case 0:
			memset(sector, 0, SIM_SECTOR);
			break;
		case 1:
			memcpy(sector, d->image + from, SIM_SECTOR);
			break;
		default:
			d->image[at] ^= (uint8_t)(1 + sim_below(&m->rng, 255));
		}
		d->touched[at / SIM_CHUNK] = 1;
	}
}

/*
 * A record may come back that an earlier crash had taken, when what has replaced it is damaged: then
 * it is what was appended once.
 */
static inline void
compare_damaged(struct model *m, int id, const struct sfs_record *r)
{
	const struct m_record *e = &m->stream[id].record[r->sequence];
	uint32_t nonce = 0;
	if (r->sequence <= m->stream[id].appended &&
		memcmp(&r->handle, &e->handle, sizeof(e->handle)) == 0) {
		compare(m, id, r);
		return;
	}
	memcpy(&nonce, r->body, r->length < 4 ? r->length : 4);
	MUST(m,
		r->length <= 4 ||
			(nonce <= m->nonce && memcmp(r->body + 4, body_piece(m, nonce),
						      r->length - 4) == 0),
		"stream %d record %lu was never appended", id, (lu)r->sequence);
}

/* Gives what it can; what it gives is right, and in order. */
static inline void
read_damaged(struct model *m, struct sfs *sfs, int id)
{
	struct sfs_cursor *c = sfs_cursor_open(sfs, id, NULL, &m->err);
	struct m_stream *s = &m->stream[id];
	struct sfs_record r;
	uint64_t last = 0;
	size_t len;
	int rc, bad = 0;
	while ((rc = sfs_cursor_next(c, &r, &m->err)) != 0) {
		MUST(m, rc == 1 || rc == SFS_CORRUPT || rc == SFS_DELETED, "cursor says %d",
			rc);
		MUST(m, rc == 1 || bad++ < RECORDS, "damage without end");
		if (rc != 1)
			continue;
		MUST(m, r.sequence > last, "order");
		compare_damaged(m, id, &r);
		last = r.sequence;
	}
	sfs_cursor_close(&c);
	for (uint64_t n = 1; n <= s->appended; n++) {
		rc = sfs_read(sfs, &s->record[n].handle, m->body, BLOCK, &len, &r, &m->err);
		MUST(m,
			rc == SFS_OK || rc == SFS_CORRUPT || rc == SFS_EXPIRED ||
				rc == SFS_DELETED,
			"stream %d record %lu: %d", id, (lu)n, rc);
		if (rc == SFS_OK)
			compare(m, id, &r);
	}
}

static inline void
end_in_damage(struct model *m)
{
	close_cleanly(m);
	if (sim_below(&m->rng, 3))
		return;
	damage(m);
	struct sfs_open_options o = {
		.writer = sim_below(&m->rng, 2), .shm_bytes = 6 * BLOCK};
	m->sfs = sfs_open_disks(m->handle, m->disks, &o, &m->err);
	MUST(m, m->sfs != NULL, "open what is damaged");
	for (int i = 0; i < m->streams; i++)
		read_damaged(m, m->sfs, i);
	sfs_close_as_killed(&m->sfs);
}
