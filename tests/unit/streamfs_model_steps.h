/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/unit/streamfs_model_crash.h"
#include "tests/unit/streamfs_model_delete.h"
#include "tests/unit/streamfs_model_grow.h"

/* What is done to a volume, one step at a time, and what must be so after it. */
/* Whether a call did its work; it may fail only when the power has gone. */
static inline bool
works(struct model *m, bool done, const char *what)
{
	MUST(m, done || m->power.off, "%s", what);
	return done;
}

static inline bool
reopen(struct model *m)
{
	struct sfs_open_options o = {
		.writer = true, .shm_bytes = (4 + sim_below(&m->rng, 6)) * BLOCK};
	m->sfs = sfs_open_disks(m->handle, m->disks, &o, &m->err);
	return works(m, m->sfs != NULL, "open");
}

static inline size_t
pick_length(struct model *m, const struct m_stream *s)
{
	size_t most = sfs_record_max(m->sfs);
	if (sim_below(&m->rng, 60) == 0)
		return most - sim_below(&m->rng, 40);
	return sim_below(&m->rng, s->usual < most ? s->usual : most);
}

/* Much is reserved and little used, so that blocks are soon over: laps cost little. */
static inline int
append_reserved(struct model *m, int id, struct m_record *r, size_t len)
{
	size_t most = sfs_record_max(m->sfs), room = len + sim_below(&m->rng, 100);
	if (sim_below(&m->rng, 2))
		room = most / 2 + sim_below(&m->rng, most / 2);
	room = room < len ? len : room > most ? most : room;
	uint8_t *p = sfs_reserve(m->sfs, id, room, &m->err);
	if (!works(m, p != NULL, "reserve"))
		return SFS_ERROR;
	if (sim_below(&m->rng, 8) == 0)
		works(m, sfs_flush(m->sfs, &m->err) == SFS_OK,
			"flush beside a reservation");
	make_body(m, p, r->nonce, len);
	return sfs_commit(m->sfs, id, r->min_time, r->max_time, len, &r->handle, &m->err);
}

static inline void
append(struct model *m)
{
	int id = (int)sim_below(&m->rng, (uint64_t)m->streams), rc;
	struct m_stream *s = &m->stream[id];
	if (s->appended + 1 >= RECORDS)
		return;
	size_t len = pick_length(m, s);
	struct m_record *r = &s->record[s->appended + 1];
	int64_t t = ++m->now;
	*r = (struct m_record){.nonce = ++m->nonce,
		.length = (uint32_t)len,
		.min_time = t - (int64_t)sim_below(&m->rng, 3),
		.max_time = t};
	m->begun++;
	if (sim_below(&m->rng, 3) == 0) {
		rc = append_reserved(m, id, r, len);
	} else {
		make_body(m, m->body, r->nonce, len);
		rc = sfs_append(m->sfs, id, r->min_time, r->max_time, m->body, len,
			&r->handle, &m->err);
	}
	if (works(m, rc == SFS_OK, "append"))
		s->appended++;
	MUST(m, sfs_appended(m->sfs, id) == s->appended, "sequence");
}

/* Up to what may be promised: each stream's newest block comes on top, and the frontier's room. */
static inline uint64_t
pick_guarantee(struct model *m, int id)
{
	const struct sfs_root *root = &m->sfs->root;
	uint64_t data = root->blocks - root->blocks / root->map_interval, sum = 1;
	uint64_t most = data * root->utilization / 1000;
	most = most > data - 4 ? data - 4 : most;
	for (int i = 0; i < STREAMS; i++)
		if (i != id)
			sum += (m->stream[i].guarantee + BLOCK - 1) / BLOCK + 1;
	if (sum >= most || sim_below(&m->rng, 3) == 0)
		return 0;
	return sim_below(&m->rng, (most - sum) * BLOCK + 1);
}

/* Makes stream id, or gives it another guarantee. */
static inline void
open_stream(struct model *m, int id)
{
	struct m_stream *s = &m->stream[id];
	if (id == m->streams) {
		snprintf(s->name, sizeof(s->name), "stream.%d", id);
		s->usual = (size_t)8 << sim_below(&m->rng, sim_below(&m->rng, 3) ? 10 : 14);
	}
	s->earlier = s->guarantee;
	s->guarantee = pick_guarantee(m, id);
	s->reached = 0;
	int rc = sfs_stream_open(m->sfs, s->name, s->guarantee, 0, &m->err);
	if (!works(m, rc == id, "open a stream"))
		return;
	s->earlier = s->guarantee;
	m->streams += id == m->streams;
}

/* The stream that was being made when the power went is there, or not at all. */
static inline void
adopt_stream(struct model *m)
{
	struct m_stream *s = &m->stream[m->streams];
	if (m->streams == STREAMS)
		return;
	int id = s->name[0] ? sfs_stream_find(m->sfs, s->name) : -1;
	MUST(m, id < 0 || id == m->streams, "a stream came as %d", id);
	s->guarantee = id < 0 ? 0 : stream_info(m, m->sfs, id).guarantee;
	s->earlier = s->guarantee;
	m->streams += id >= 0;
}

static inline void
note_evicted(struct model *m)
{
	for (int i = 0; i < m->streams; i++) {
		struct m_stream *s = &m->stream[i];
		s->evicted = s->appended;
		if (m->sfs && !m->resetting)
			s->evicted = stream_info(m, m->sfs, i).recycled_records;
	}
}

static inline void
cut_power(struct model *m)
{
	for (size_t i = 0; i < m->disks; i++) {
		struct sim_cut cut = sim_any_cut(&m->rng, m->sector);
		sim_cut_power(&m->disk[i], &cut);
	}
}

/* The program is gone, and in two of three cases the power; opening may meet the same again. */
static inline void
crash(struct model *m)
{
	bool peeked = false;
	note_evicted(m);
	for (int tries = 0;; tries++) {
		m->power.off = true;
		sfs_close(&m->reader);
		sfs_close_as_killed(&m->sfs);
		if (sim_below(&m->rng, 3))
			cut_power(m);
		m->power = (struct sim_power){.left = 0};
		settle_growth(m);
		m->again = tries > 0;
		peeked = sim_below(&m->rng, 4) > 0;
		if (peeked)
			peek(m);
		if (tries < 3 && sim_below(&m->rng, 3) == 0)
			m->power.left = 1 + sim_below(&m->rng, 10);
		if (reopen(m))
			break;
		/* it may have evicted some before it failed */
		for (int i = 0; i < m->streams; i++)
			m->stream[i].evicted = m->stream[i].appended;
	}
	m->before_growth = 0;
	if (sim_below(&m->rng, 2))
		sfs_close(&m->reader);
	settle_delete(m);
	check_after_crash(m, peeked);
	for (int i = 0; i < m->streams; i++)
		check_erased(m, i);
	adopt_stream(m);
}

/* A clean end: all that was appended is there, whatever becomes of the power. */
static inline void
close_cleanly(struct model *m)
{
	sfs_close(&m->reader);
	sfs_close(&m->sfs);
	if (m->power.off)
		return;
	for (int i = 0; i < m->streams; i++)
		m->stream[i].durable = m->stream[i].appended;
	if (sim_below(&m->rng, 2))
		cut_power(m);
}

static inline void
close_and_open(struct model *m)
{
	close_cleanly(m);
	if (m->power.off || !reopen(m))
		return;
	for (int i = 0; i < m->streams; i++)
		check_stream(m, i);
}

/* Nothing that is held goes, and what comes has more room. */
static inline void
grow(struct model *m)
{
	if (m->sfs->root.blocks > GROW_MOST || !grow_open(m))
		return;
	note_durable(m);
	close_and_open(m);
}

static inline void
reset(struct model *m)
{
	for (int i = 0; i < m->streams; i++)
		m->stream[i].reached = 0;
	m->reset_generation = m->sfs->root.reset_generation;
	m->resetting = true;
	if (!works(m, sfs_reset(m->sfs, &m->err) == SFS_OK, "reset"))
		return;
	m->resetting = false;
	for (int i = 0; i < m->streams; i++)
		m->stream[i].reset = m->stream[i].durable = m->stream[i].appended;
}

static inline void
flush(struct model *m)
{
	if (!works(m, sfs_flush(m->sfs, &m->err) == SFS_OK, "flush"))
		return;
	note_durable(m);
	for (int i = 0; i < m->streams; i++)
		MUST(m, m->stream[i].durable == m->stream[i].appended, "flushed");
}

/* What must go: whole blocks, of which no record is later. Times rise with the sequence. */
static inline uint64_t
trim_to(const struct m_stream *s, uint64_t first, int64_t until, uint64_t most, bool loose)
{
	uint64_t to = first - 1, blocks = 0;
	for (uint64_t n = first;
		n <= s->appended &&
		(s->record[n].max_time <= until || (loose && s->record[n].deleted));
		n++) {
		if (n < s->appended && s->record[n + 1].handle.generation ==
					       s->record[n].handle.generation)
			continue;
		if (blocks++ == most)
			break;
		to = n;
	}
	return to;
}

static inline void
trim(struct model *m)
{
	int id = (int)sim_below(&m->rng, (uint64_t)m->streams);
	struct m_stream *s = &m->stream[id];
	flush(m); /* so that the frontier takes none meanwhile */
	if (m->power.off)
		return;
	uint64_t first = stream_info(m, m->sfs, id).recycled_records + 1;
	uint64_t most = 1 + sim_below(&m->rng, 5);
	uint64_t at = first + sim_below(&m->rng, s->appended + 2 - first);
	int64_t until = at > s->appended ? INT64_MAX : s->record[at].max_time;
	struct sfs_trimmed out;
	m->trim_first = first;
	m->trim_last = trim_to(s, first, until, most, false);
	m->trim_most = trim_to(s, first, until, most, true);
	m->trimming = m->trim_most >= first ? id : -1;
	s->reached = 0;
	if (!works(m, sfs_trim(m->sfs, id, until, (uint32_t)most, &out, &m->err) == SFS_OK,
		    "trim"))
		return;
	uint64_t records = 0, gone = stream_info(m, m->sfs, id).recycled_records;
	MUST(m, gone >= m->trim_last && gone <= m->trim_most, "trimmed %lu of %lu to %lu",
		(lu)gone, (lu)m->trim_last, (lu)m->trim_most);
	for (uint64_t n = first; n <= gone; n++)
		records += !s->record[n].deleted;
	MUST(m, out.records == records, "trimmed %lu of %lu", (lu)out.records, (lu)records);
	if (m->trim_last == m->trim_most)
		MUST(m,
			out.more == (trim_to(s, first, until, UINT64_MAX, true) > gone) ||
				out.more == (trim_to(s, first, until, UINT64_MAX, false) >
						    gone),
			"more to trim: %d", out.more);
	m->trim_last = gone;
	if (m->trimming >= 0) {
		check_wiped(m);
		s->reset = m->trim_last;
	}
	m->trimming = -1;
	check_stream(m, id);
}

static inline void
one_step(struct model *m)
{
	uint64_t what = sim_below(&m->rng, 1000);
	/* the moments that matter most are short */
	if (m->sfs->w->state >= SFS_ROOT_WRITING && what % 16 == 0)
		crash(m);
	else if (what < 830)
		append(m);
	else if (what < 900)
		sfs_tick(m->sfs, m->now * 50000000, &m->err);
	else if (what < 930)
		flush(m);
	else if (what < 945)
		check_stream(m, (int)sim_below(&m->rng, (uint64_t)m->streams));
	else if (what < 955)
		open_stream(m, (int)sim_below(&m->rng,
				       (uint64_t)m->streams + (m->streams < STREAMS)));
	else if (what < 962)
		close_and_open(m);
	else if (what < 974)
		crash(m);
	else if (what < 990)
		m->power.left = 1 + sim_below(&m->rng, 40);
	else if (what < 992)
		reset(m);
	else if (what < 995)
		trim(m);
	else if (what < 998)
		delete_some(m);
	else
		grow(m);
	if (m->reader && what % 8 == 0)
		try_reader(m);
	if (m->sfs)
		note_durable(m);
	if (m->power.off)
		crash(m);
}
