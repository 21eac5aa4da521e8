/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/unit/streamfs_model.h"

/* What a crash must have left of a volume, and what it may have taken. */
/* Records that the crash has taken: they are no more, under no handle. */
static inline void
cut_stream(struct model *m, int id, uint64_t last)
{
	struct m_stream *s = &m->stream[id];
	for (uint64_t n = last + 1; n <= s->appended; n++) {
		size_t at =
			m->lost_count < LOST ? m->lost_count++ : sim_below(&m->rng, LOST);
		m->lost[at] = s->record[n].handle;
	}
	s->appended = last;
}

/*
 * A reset that a crash met is done to all streams or to none. What a reader sees may still go with the
 * disk's cache: a writer's word counts.
 */
static inline void
settle_reset(struct model *m, const struct sfs *sfs)
{
	bool done = m->resetting && sfs->root.reset_generation != m->reset_generation;
	for (int i = 0; done && i < m->streams; i++)
		m->stream[i].reset = m->stream[i].durable = m->stream[i].appended;
	m->resetting = false;
}

/* Where the trimmed records lay there are zeros. */
static inline void
check_wiped(struct model *m)
{
	const struct m_stream *s = &m->stream[m->trimming];
	for (uint64_t n = m->trim_first; n <= m->trim_last; n++) {
		uint64_t block = s->record[n].handle.block;
		if (n > m->trim_first && s->record[n - 1].handle.block == block)
			continue;
		struct sfs_spot at = sfs_locate(m->sfs, block);
		const uint8_t *p = ((struct sim_disk *)at.disk->arg)->image + at.offset;
		MUST(m, p[0] == 0 && memcmp(p, p + 1, BLOCK - 1) == 0,
			"stream %d: block %lu was deleted and is there", m->trimming,
			(lu)block);
	}
}

static inline void
peek_trim(struct model *m, uint64_t gone)
{
	MUST(m, gone + 1 <= m->trim_first || gone >= m->trim_last,
		"stream %d: %lu to %lu were trimmed, %lu are gone", m->trimming,
		(lu)m->trim_first, (lu)m->trim_last, (lu)gone);
	m->trimmed = gone >= m->trim_last;
}

/* A trim that a crash met; what a reader found is what the writer found, and it wipes. */
static inline void
settle_trim(struct model *m, bool peeked)
{
	if (m->trimming < 0)
		return;
	struct m_stream *s = &m->stream[m->trimming];
	uint64_t gone = stream_info(m, m->sfs, m->trimming).recycled_records;
	if (peeked && m->trimmed && !m->again)
		check_wiped(m);
	if (gone >= m->trim_last)
		s->reset = gone < m->trim_most ? gone : m->trim_most;
	m->trimming = -1;
}

/* What the crash has left of a stream; the volume is as it lies on the disks, if nothing recovered it. */
static inline uint64_t
check_left(struct model *m, struct sfs *sfs, int id, struct sfs_stream_info *info)
{
	struct m_stream *s = &m->stream[id];
	*info = stream_info(m, sfs, id);
	uint64_t last = info->last_sequence ? info->last_sequence : info->recycled_records;
	MUST(m, info->guarantee == s->guarantee || info->guarantee == s->earlier,
		"stream %d: guarantee is %lu", id, (lu)info->guarantee);
	MUST(m, last >= s->durable, "stream %d: %lu were durable, %lu are there", id,
		(lu)s->durable, (lu)last);
	MUST(m, last <= s->appended, "stream %d: more than was appended", id);
	MUST(m, info->recycled_records <= s->evicted,
		"stream %d: the crash took %lu to %lu", id, (lu)s->evicted + 1,
		(lu)info->recycled_records);
	return last;
}

/* A torn root is what the other copy is there for. */
static inline void
note_fault(void *arg, const struct sfs_fault *fault)
{
	struct model *m = arg;
	MUST(m, fault->kind == SFS_FAULT_ROOT,
		"check finds a fault: stream %s, block %lu, byte %u: %s",
		fault->stream ? fault->stream : "-", (lu)fault->block, fault->offset,
		fault->why);
}

/* Before recovery a map may lack as well: the block headers serve until a writer mends it. */
static inline void
note_left_fault(void *arg, const struct sfs_fault *fault)
{
	if (fault->kind != SFS_FAULT_MAP)
		note_fault(arg, fault);
}

/* Looks at the volume as the crash has left it, by a reader, which changes nothing. */
static inline void
peek(struct model *m)
{
	struct sfs_open_options o = {.writer = false};
	uint64_t writes = 0, after = 0, first, last;
	for (size_t i = 0; i < m->disks; i++)
		writes += m->disk[i].writes + m->disk[i].syncs;
	m->reader = sfs_open_disks(m->handle, m->disks, &o, &m->err);
	MUST(m, m->reader != NULL, "a reader opens");
	for (int i = 0; i < m->streams; i++) {
		struct m_stream *s = &m->stream[i];
		struct sfs_stream_info info;
		uint64_t end = check_left(m, m->reader, i, &info);
		if (i == m->trimming && !m->again)
			peek_trim(m, info.recycled_records);
		walk(m, m->reader, i, &first, &last);
		MUST(m, last == info.last_sequence && first == info.first_sequence,
			"stream %d: a reader finds %lu to %lu", i, (lu)first, (lu)last);
		s->evicted = m->peeked[i] = info.recycled_records;
		s->reached = info.blocks;
		cut_stream(m, i, end);
	}
	if (sim_below(&m->rng, 4) == 0)
		MUST(m, sfs_check(m->reader, note_left_fault, m, NULL, &m->err) >= 0,
			"check");
	for (size_t i = 0; i < m->disks; i++)
		after += m->disk[i].writes + m->disk[i].syncs;
	MUST(m, after == writes, "a reader writes");
}

/* peeked: what a reader found is what the writer finds, but for what it has evicted since. */
static inline void
check_after_crash(struct model *m, bool peeked)
{
	settle_reset(m, m->sfs);
	settle_trim(m, peeked);
	for (int i = 0; i < m->streams; i++) {
		struct m_stream *s = &m->stream[i];
		struct sfs_stream_info info;
		s->evicted = UINT64_MAX;
		uint64_t end = check_left(m, m->sfs, i, &info);
		MUST(m, !peeked || end == s->appended, "stream %d: %lu, a reader found %lu",
			i, (lu)end, (lu)s->appended);
		if (!peeked)
			s->reached = 0;
		s->evicted = peeked ? m->peeked[i] : 0;
		s->guarantee = info.guarantee;
		cut_stream(m, i, end);
		s->durable = end;
		check_stream(m, i);
	}
	try_lost(m);
	if (sim_below(&m->rng, 4) == 0)
		MUST(m, sfs_check(m->sfs, note_fault, m, NULL, &m->err) == 0, "check");
}
