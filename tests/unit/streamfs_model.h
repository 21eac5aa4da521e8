/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>
#include <unistd.h>

#include "logger/streamfs/internal.h"
#include "tests/unit/streamfs_sim.h"

/*
 * What a volume must hold: every record that was appended, by stream and sequence, and how much of
 * each stream was reported durable. The checks here compare an open volume with it; nothing is
 * known of how StreamFS works but what streamfs.h promises.
 */
#define BLOCK SFS_BLOCK_MIN
#define STREAMS 6
#define DISKS 4
#define RECORDS 2000
#define LOST 64
#define POOL (4 * BLOCK)

struct m_record {
	uint32_t nonce, length;
	int64_t min_time, max_time;
	struct sfs_handle handle;
	bool deleted, going; /* going: if the deletion under way comes so far */
};
struct m_stream {
	char name[32];
	struct m_record *record; /* [sequence] */
	uint64_t appended, durable;
	uint64_t reset; /* sequences up to it are gone, by a reset or a trim */
	uint64_t evicted; /* as last told; a crash may bring some back, never take more */
	uint64_t guarantee, earlier; /* bytes; earlier: before a change that a crash met */
	uint64_t reached; /* blocks seen since the guarantee was given */
	size_t usual; /* body length */
};
struct model {
	uint64_t seed;
	struct sim_rng rng;
	struct sim_power power;
	struct sim_disk disk[DISKS];
	struct sfs_disk handle[DISKS];
	size_t disks, sector;
	struct sfs *sfs;
	struct sfs *reader; /* opened before the writer: may be behind, never wrong */
	struct m_stream stream[STREAMS];
	int streams;
	bool resetting; /* a crash met it: all streams were reset, or none */
	uint64_t reset_generation; /* before it */
	int trimming; /* the stream; -1: none. A crash met it: it is done in whole or not at all */
	uint64_t trim_first, trim_last; /* sequences that are to go */
	uint64_t
		trim_most; /* and may: of a block's times, those of deleted records may be forgotten */
	bool trimmed; /* a reader found after the crash that they are gone, by the trim's own root */
	int deleting; /* the stream; -1: none. A crash met it: each record is there or not */
	uint64_t delete_first; /* sequence that was held then */
	size_t before_growth, after_growth; /* disks, when a crash met it; 0: none did */
	bool again; /* an opening after the crash has failed, and may have evicted some */
	uint64_t peeked[STREAMS]; /* evicted, as a reader found it after a crash */
	uint32_t nonce;
	int64_t now;
	struct sfs_handle lost[LOST]; /* of records that a crash has taken */
	size_t lost_count;
	uint8_t *body, *pool; /* bodies are pieces of the pool behind their nonce */
	uint64_t begun; /* blocks, at most */
	struct pr_error err;
};

/* The seed is what finds the case again. */
#define MUST(m, condition, ...)                                                            \
	do {                                                                               \
		if (!(condition)) {                                                        \
			fprintf(stderr,                                                    \
				"\nSFS_SEED=%lu: line %d: %s: ", (unsigned long)(m)->seed, \
				__LINE__, #condition);                                     \
			fprintf(stderr, __VA_ARGS__);                                      \
			fprintf(stderr, " (%s)\n", (m)->err.text);                         \
			_exit(1);                                                          \
		}                                                                          \
	} while (0)
typedef unsigned long lu; /* of texts */

static inline const uint8_t *
body_piece(const struct model *m, uint32_t nonce)
{
	return m->pool + (nonce * UINT64_C(2654435761) >> 7) % (POOL - BLOCK);
}

static inline void
make_body(const struct model *m, uint8_t *to, uint32_t nonce, size_t len)
{
	size_t head = len < 4 ? len : 4;
	memcpy(to, &nonce, head);
	if (len > 4)
		memcpy(to + 4, body_piece(m, nonce), len - 4);
}

static inline void
compare(struct model *m, int id, const struct sfs_record *r)
{
	struct m_stream *s = &m->stream[id];
	MUST(m, r->stream == (uint32_t)id, "stream %d gives one of %u", id, r->stream);
	MUST(m, r->sequence >= 1 && r->sequence <= s->appended,
		"stream %d record %lu of %lu", id, (lu)r->sequence, (lu)s->appended);
	const struct m_record *e = &s->record[r->sequence];
	MUST(m, !e->deleted, "stream %d record %lu was deleted", id, (lu)r->sequence);
	MUST(m, r->length == e->length, "stream %d record %lu", id, (lu)r->sequence);
	MUST(m, memcmp(r->body, &e->nonce, e->length < 4 ? e->length : 4) == 0,
		"stream %d record %lu is another", id, (lu)r->sequence);
	if (e->length > 4)
		MUST(m, memcmp(r->body + 4, body_piece(m, e->nonce), e->length - 4) == 0,
			"stream %d record %lu", id, (lu)r->sequence);
	MUST(m, r->min_time == e->min_time && r->max_time == e->max_time,
		"times of stream %d record %lu", id, (lu)r->sequence);
	MUST(m, memcmp(&r->handle, &e->handle, sizeof(e->handle)) == 0,
		"handle of stream %d record %lu", id, (lu)r->sequence);
}

/* Those from `next` to before `end` are deleted, or being deleted. */
static inline void
passed_by(struct model *m, int id, uint64_t next, uint64_t end)
{
	for (; next < end; next++)
		MUST(m,
			m->stream[id].record[next].deleted ||
				m->stream[id].record[next].going,
			"stream %d: record %lu is passed by", id, (lu)next);
}

/* The whole stream as a cursor gives it, against the model: one unbroken stretch, but for what was deleted. */
static inline void
walk(struct model *m, struct sfs *sfs, int id, uint64_t *first, uint64_t *last)
{
	struct sfs_cursor *c = sfs_cursor_open(sfs, id, NULL, &m->err);
	struct sfs_stream_info info;
	struct sfs_record r;
	int rc;
	MUST(m, c != NULL, "cursor");
	MUST(m, sfs_stream_info(sfs, (size_t)id, &info, &m->err) == SFS_OK, "info");
	*first = info.first_sequence;
	*last = 0;
	while ((rc = sfs_cursor_next(c, &r, &m->err)) != 0) {
		if (rc == SFS_DELETED)
			continue;
		MUST(m, rc == 1, "cursor of stream %d says %d behind %lu", id, rc,
			(lu)*last);
		MUST(m, r.sequence > *last, "%lu of stream %d comes late", (lu)r.sequence,
			id);
		passed_by(m, id, *last ? *last + 1 : *first, r.sequence);
		compare(m, id, &r);
		*last = r.sequence;
	}
	if (*first)
		passed_by(m, id, *last ? *last + 1 : *first, info.last_sequence + 1);
	*last = info.last_sequence;
	sfs_cursor_close(&c);
}

static inline void
try_handle(struct model *m, struct sfs *sfs, int id, uint64_t sequence, uint64_t first)
{
	struct m_stream *s = &m->stream[id];
	struct sfs_record r;
	size_t len;
	int rc = sfs_read(
		sfs, &s->record[sequence].handle, m->body, BLOCK, &len, &r, &m->err);
	if (first != 0 && sequence >= first && s->record[sequence].deleted) {
		MUST(m, rc == SFS_DELETED, "stream %d record %lu was deleted: %d", id,
			(lu)sequence, rc);
	} else if (first != 0 && sequence >= first) {
		MUST(m, rc == SFS_OK, "stream %d record %lu: %d", id, (lu)sequence, rc);
		MUST(m, r.sequence == sequence, "sequence");
		compare(m, id, &r);
	} else {
		MUST(m, rc == SFS_EXPIRED, "stream %d record %lu, first %lu: %d", id,
			(lu)sequence, (lu)first, rc);
	}
}

static inline void
try_lost(struct model *m)
{
	for (size_t i = 0; i < m->lost_count; i++) {
		size_t len;
		int rc = sfs_read(m->sfs, &m->lost[i], m->body, BLOCK, &len, NULL, &m->err);
		/* where the rest of its block was deleted, nobody can tell the two apart */
		MUST(m, rc == SFS_EXPIRED || rc == SFS_DELETED,
			"handle of a lost record: %d", rc);
	}
}

static inline struct sfs_stream_info
stream_info(struct model *m, struct sfs *sfs, int id)
{
	struct sfs_stream_info info;
	MUST(m, sfs_stream_info(sfs, (size_t)id, &info, &m->err) == SFS_OK, "info");
	return info;
}

/* What is gone was no more than had to go, and says up to when. */
static inline void
check_gone(struct model *m, int id, uint64_t gone, int64_t until)
{
	struct m_stream *s = &m->stream[id];
	const struct sfs_root *root = &m->sfs->root;
	MUST(m, gone >= s->reset, "stream %d: records before a reset", id);
	/* what recovery finds of a block's times is of what is left of it */
	if (gone > 0 && s->record[gone].deleted)
		MUST(m, until <= s->record[gone].max_time, "stream %d: evicted until %ld",
			id, (long)until);
	else if (gone > 0)
		MUST(m, until == s->record[gone].max_time,
			"stream %d: evicted until %ld, not %ld", id, (long)until,
			(long)s->record[gone].max_time);
	else
		MUST(m, until == INT64_MIN, "stream %d: evicted until %ld", id,
			(long)until);
	if (m->begun + root->blocks / root->map_interval + 12 < root->blocks)
		MUST(m, gone == s->reset, "stream %d: %lu evicted without need", id,
			(lu)gone);
}

/*
 * What must be so at any time. What a guarantee covers stays; what was gone before it was given does
 * not come back.
 */
static inline void
check_stream(struct model *m, int id)
{
	struct m_stream *s = &m->stream[id];
	uint64_t first, last;
	walk(m, m->sfs, id, &first, &last);
	struct sfs_stream_info info = stream_info(m, m->sfs, id);
	MUST(m, info.first_sequence == first && info.last_sequence == last,
		"stream %d: info says %lu to %lu, cursor %lu to %lu", id,
		(lu)info.first_sequence, (lu)info.last_sequence, (lu)first, (lu)last);
	uint64_t gone = first ? first - 1 : info.recycled_records;
	check_gone(m, id, gone, info.evicted_until);
	MUST(m, gone >= s->evicted, "stream %d: %lu came back", id, (lu)gone + 1);
	s->evicted = gone;
	uint64_t promised = (s->guarantee + BLOCK - 1) / BLOCK;
	promised = promised < s->reached ? promised : s->reached;
	MUST(m, info.blocks >= promised, "stream %d: %lu blocks, %lu promised", id,
		(lu)info.blocks, (lu)promised);
	MUST(m, gone == s->appended || last == s->appended,
		"stream %d: newest is %lu of %lu", id, (lu)last, (lu)s->appended);
	s->reached = info.blocks > s->reached ? info.blocks : s->reached;
	for (int i = 0; i < 6 && s->appended; i++)
		try_handle(m, m->sfs, id, 1 + sim_below(&m->rng, s->appended), first);
}

/* A reader that may be behind gives a right record or none. */
static inline void
try_reader(struct model *m)
{
	int id = (int)sim_below(&m->rng, (uint64_t)m->streams);
	struct m_stream *s = &m->stream[id];
	for (int i = 0; i < 6 && s->appended; i++) {
		uint64_t sequence = 1 + sim_below(&m->rng, s->appended);
		struct sfs_record r;
		size_t len;
		int rc = sfs_read(m->reader, &s->record[sequence].handle, m->body, BLOCK,
			&len, &r, &m->err);
		/* the block may be half written over; there is no lock to see its writer by */
		MUST(m,
			rc == SFS_OK || rc == SFS_EXPIRED || rc == SFS_CORRUPT ||
				rc == SFS_DELETED,
			"a reader behind: %d", rc);
		/* it may have been there still when the reader opened */
		if (rc == SFS_OK && !s->record[sequence].deleted)
			compare(m, id, &r);
	}
}

static inline void
note_durable(struct model *m)
{
	for (int i = 0; i < m->streams; i++) {
		struct m_stream *s = &m->stream[i];
		uint64_t d = sfs_durable(m->sfs, i);
		MUST(m, d <= s->appended && d >= s->durable,
			"stream %d: durable %lu of %lu, was %lu", i, (lu)d, (lu)s->appended,
			(lu)s->durable);
		s->durable = d;
	}
}
