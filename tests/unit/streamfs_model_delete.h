/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/unit/streamfs_model.h"

/* Deletions in the midst of streams: which records are to go, and which have gone. */
static inline void
choose_range(
	struct model *m, struct m_stream *s, uint64_t first, struct sfs_delete_range *range)
{
	uint64_t count = s->appended + 1 - first, most = sim_below(&m->rng, 3) ? 12 : count;
	uint64_t from = first + sim_below(&m->rng, count);
	uint64_t to = from + sim_below(&m->rng, most);
	to = to < s->appended ? to : s->appended;
	*range = (struct sfs_delete_range){
		.since = s->record[from].min_time + (int64_t)sim_below(&m->rng, 2),
		.until = s->record[to].max_time - (int64_t)sim_below(&m->rng, 2),
		.last = UINT64_MAX};
	if (sim_below(&m->rng, 6) == 0)
		range->last = from + sim_below(&m->rng, count);
	if (sim_below(&m->rng, 8) == 0)
		range->until = INT64_MAX;
	if (sim_below(&m->rng, 8) == 0)
		range->since = INT64_MIN;
}

/* Those that lie in it wholly, and no others. */
static inline uint64_t
mark_going(struct m_stream *s, uint64_t first, const struct sfs_delete_range *range)
{
	uint64_t going = 0;
	for (uint64_t n = first; n <= s->appended; n++) {
		struct m_record *r = &s->record[n];
		r->going = !r->deleted && n <= range->last && r->min_time >= range->since &&
			   r->max_time <= range->until;
		going += r->going;
	}
	return going;
}

/* Where those lay that were deleted there are zeros, on the disks and in memory, if nothing new is there. */
static inline void
check_erased(struct model *m, int id)
{
	struct m_stream *s = &m->stream[id];
	struct sfs_stream_info info = stream_info(m, m->sfs, id);
	for (uint64_t n = info.first_sequence; n && n <= info.last_sequence; n++) {
		const struct sfs_handle *h = &s->record[n].handle;
		const struct sfs_entry *e = &m->sfs->table.entry[h->block];
		size_t span = sfs_record_size(h->header, h->length);
		if (!s->record[n].deleted || e->generation != h->generation)
			continue;
		struct sfs_spot at = sfs_locate(m->sfs, h->block);
		const uint8_t *p =
			((struct sim_disk *)at.disk->arg)->image + at.offset + h->offset;
		MUST(m, p[0] == 0 && memcmp(p, p + 1, span - 1) == 0,
			"stream %d: record %lu was deleted and is there", id, (lu)n);
		if (e->slot == SFS_NONE ||
			sfs_shm_valid_from(&m->sfs->shm, e->slot) > h->offset)
			continue;
		p = sfs_shm_data(&m->sfs->shm, e->slot) + h->offset;
		MUST(m, p[0] == 0 && memcmp(p, p + 1, span - 1) == 0,
			"stream %d: record %lu was deleted and is in memory", id, (lu)n);
	}
}

/* Of those that are to go, which have gone? What lay before all that is held has. */
static inline uint64_t
mark_deleted(struct model *m, int id)
{
	struct m_stream *s = &m->stream[id];
	uint64_t first = stream_info(m, m->sfs, id).recycled_records + 1, gone = 0;
	struct sfs_deleted hole = {.last = 0};
	bool any = true;
	for (uint64_t n = m->delete_first; n <= s->appended; n++) {
		struct m_record *r = &s->record[n];
		if (any && hole.last < n)
			any = sfs_stream_deleted(m->sfs, id, n, &hole);
		bool now = n < first || (any && hole.first <= n && n <= hole.last);
		MUST(m, now || !r->deleted, "stream %d: record %lu came back", id, (lu)n);
		if (!now || r->deleted)
			continue;
		MUST(m, r->going || n < first, "stream %d: record %lu was not to go", id,
			(lu)n);
		gone += r->going;
		r->deleted = r->going;
		r->going = false;
	}
	return gone;
}

/* A deletion that a crash met: what of it is done is done. */
static inline void
settle_delete(struct model *m)
{
	int id = m->deleting;
	if (id < 0)
		return;
	struct m_stream *s = &m->stream[id];
	uint64_t gone = stream_info(m, m->sfs, id).recycled_records;
	mark_deleted(m, id);
	for (uint64_t n = m->delete_first; n <= s->appended; n++)
		s->record[n].going = false;
	if (gone >= m->delete_first)
		s->reset = gone;
	m->deleting = -1;
}

/* Whole blocks at the old end may have gone with what was deleted. */
static inline void
note_reset(struct model *m, int id)
{
	struct m_stream *s = &m->stream[id];
	uint64_t gone = stream_info(m, m->sfs, id).recycled_records;
	for (uint64_t n = m->delete_first; n <= gone; n++)
		MUST(m, s->record[n].deleted, "stream %d: record %lu went along", id,
			(lu)n);
	if (gone >= m->delete_first)
		s->reset = gone;
}

static inline void
delete_some(struct model *m)
{
	int id = (int)sim_below(&m->rng, (uint64_t)m->streams);
	struct m_stream *s = &m->stream[id];
	struct sfs_delete_range range;
	struct sfs_trimmed out = {.more = true};
	/* so that the frontier takes none meanwhile */
	if (sfs_flush(m->sfs, &m->err) != SFS_OK)
		return;
	for (int i = 0; i < m->streams; i++)
		m->stream[i].durable = m->stream[i].appended;
	m->delete_first = stream_info(m, m->sfs, id).recycled_records + 1;
	if (m->delete_first > s->appended)
		return;
	choose_range(m, s, m->delete_first, &range);
	uint64_t left = mark_going(s, m->delete_first, &range);
	m->deleting = id;
	s->reached = 0;
	while (out.more) {
		uint32_t most = 1 + (uint32_t)sim_below(&m->rng, 6);
		int rc = sfs_delete(m->sfs, id, &range, most, &out, &m->err);
		MUST(m, rc == SFS_OK || m->power.off, "delete: %d", rc);
		if (rc != SFS_OK)
			return;
		uint64_t gone = mark_deleted(m, id);
		MUST(m, gone == out.records, "%lu deleted, it says %lu", (lu)gone,
			(lu)out.records);
		MUST(m, gone <= left && (gone > 0 || out.blocks > 0 || !out.more),
			"a deletion that does not end: %lu of %lu", (lu)gone, (lu)left);
		left -= gone;
		note_reset(m, id);
	}
	MUST(m, left == 0, "%lu records were to go and are there", (lu)left);
	m->deleting = -1;
	check_erased(m, id);
	check_stream(m, id);
}
