/* SPDX-License-Identifier: Apache-2.0 */
/*
 * StreamFS against a model. A seed gives a volume, a sequence of appends, flushes, readings, kills
 * and power cuts on a simulated disk that drops, reorders and tears; after each opening all that is
 * found is compared with what was appended. SFS_SEED=n runs one case, SFS_CASES=n that many.
 */
#include <check.h>
#include <stdio.h>

#include "logger/streamfs/internal.h"
#include "tests/unit/streamfs_sim.h"

#define BLOCK 65536
#define STREAMS 6
#define RECORDS 4000
#define LOST 64

struct m_record {
	uint32_t nonce, length;
	int64_t max_time;
	struct sfs_handle handle;
};
struct m_stream {
	char name[32];
	struct m_record *record; /* [sequence] */
	uint64_t appended, durable, first, reset; /* reset: sequences up to it are gone */
	uint64_t guarantee, reached; /* blocks seen since the guarantee was given */
	size_t usual; /* body length */
};
struct model {
	uint64_t seed;
	struct sim_rng rng;
	struct sim_disk disk[3];
	struct sfs_disk handle[3];
	size_t disks;
	struct sfs *sfs;
	struct m_stream stream[STREAMS];
	int streams;
	uint32_t nonce;
	int64_t now;
	struct sfs_handle lost[LOST]; /* of records that a crash has taken */
	size_t lost_count;
	uint8_t *body, *expected;
	uint64_t begun; /* blocks, at most */
};

static struct pr_error err;
#define MUST(m, condition, ...)                                                            \
	do {                                                                               \
		if (!(condition)) {                                                        \
			char text_[300];                                                   \
			snprintf(text_, sizeof(text_), __VA_ARGS__);                       \
			ck_abort_msg("SFS_SEED=%lu: %s: %s (%s)",                          \
				(unsigned long)(m)->seed, #condition, text_, err.text);    \
		}                                                                          \
	} while (0)

static void
make_body(uint8_t *to, uint32_t nonce, size_t len)
{
	uint64_t x = nonce * 0x9e3779b97f4a7c15u + 1;
	for (size_t i = 0; i < len; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(to + i, &x, len - i < 8 ? len - i : 8);
	}
}

static void
compare(struct model *m, int id, const struct sfs_record *r)
{
	struct m_stream *s = &m->stream[id];
	MUST(m, r->sequence >= 1 && r->sequence <= s->appended,
		"stream %d record %lu of %lu", id, (unsigned long)r->sequence,
		(unsigned long)s->appended);
	const struct m_record *e = &s->record[r->sequence];
	MUST(m, r->length == e->length, "stream %d record %lu", id,
		(unsigned long)r->sequence);
	make_body(m->expected, e->nonce, e->length);
	MUST(m, memcmp(r->body, m->expected, e->length) == 0, "stream %d record %lu", id,
		(unsigned long)r->sequence);
	MUST(m, r->max_time == e->max_time, "times of record %lu",
		(unsigned long)r->sequence);
}

/* The whole stream as a cursor gives it, against the model. */
static void
walk(struct model *m, int id, uint64_t *first, uint64_t *last)
{
	struct sfs_cursor *c = sfs_cursor_open(m->sfs, id, NULL, &err);
	struct sfs_record r;
	int rc;
	*first = *last = 0;
	MUST(m, c != NULL, "cursor");
	while ((rc = sfs_cursor_next(c, &r, &err)) == 1) {
		MUST(m, *last == 0 || r.sequence == *last + 1, "gap before %lu",
			(unsigned long)r.sequence);
		compare(m, id, &r);
		if (*first == 0)
			*first = r.sequence;
		*last = r.sequence;
	}
	MUST(m, rc == 0, "cursor says %d", rc);
	sfs_cursor_close(&c);
}

static void
try_handle(struct model *m, int id, uint64_t sequence, uint64_t first)
{
	struct m_stream *s = &m->stream[id];
	struct sfs_record r;
	size_t len;
	int rc = sfs_read(
		m->sfs, &s->record[sequence].handle, m->body, BLOCK, &len, &r, &err);
	if (first != 0 && sequence >= first) {
		MUST(m, rc == SFS_OK, "stream %d record %lu: %d", id,
			(unsigned long)sequence, rc);
		MUST(m, r.sequence == sequence, "sequence");
		compare(m, id, &r);
	} else {
		MUST(m, rc == SFS_EXPIRED, "stream %d record %lu, first %lu: %d", id,
			(unsigned long)sequence, (unsigned long)first, rc);
	}
}

static void
try_lost(struct model *m)
{
	for (size_t i = 0; i < m->lost_count; i++) {
		size_t len;
		int rc = sfs_read(m->sfs, &m->lost[i], m->body, BLOCK, &len, NULL, &err);
		MUST(m, rc == SFS_EXPIRED, "handle of a lost record: %d", rc);
	}
}

/* What must be so at any time, given what the streams hold. */
static void
check_stream(struct model *m, int id, bool crashed)
{
	struct m_stream *s = &m->stream[id];
	struct sfs_stream_info info;
	uint64_t first, last;
	walk(m, id, &first, &last);
	MUST(m, sfs_stream_info(m->sfs, (size_t)id, &info, &err) == SFS_OK, "info");
	MUST(m, info.first_sequence == first && info.last_sequence == last,
		"info says %lu to %lu, cursor %lu to %lu",
		(unsigned long)info.first_sequence, (unsigned long)info.last_sequence,
		(unsigned long)first, (unsigned long)last);
	uint64_t gone = first ? first - 1 : info.recycled_records;
	MUST(m, gone >= s->reset, "records before a reset");
	if (gone > 0)
		MUST(m, info.evicted_until == s->record[gone].max_time,
			"evicted until %ld, not %ld", (long)info.evicted_until,
			(long)s->record[gone].max_time);
	else
		MUST(m, info.evicted_until == INT64_MIN, "evicted until");
	if (m->begun + 12 < m->sfs->root.blocks)
		MUST(m, gone == s->reset, "evicted without need");
	/* what a guarantee covers stays; what was gone before it was given does not come back */
	uint64_t promised = (s->guarantee + BLOCK - 1) / BLOCK;
	promised = promised < s->reached ? promised : s->reached;
	if (!crashed)
		MUST(m, info.blocks >= promised, "stream %d: %lu blocks, %lu promised", id,
			(unsigned long)info.blocks, (unsigned long)promised);
	s->reached = crashed || info.blocks > s->reached ? info.blocks : s->reached;
	if (!crashed)
		MUST(m, gone == s->appended || last == s->appended, "newest is %lu",
			(unsigned long)last);
	s->first = first;
	for (int i = 0; i < 8 && s->appended; i++)
		try_handle(m, id, 1 + sim_below(&m->rng, s->appended), first);
}

static void
reopen(struct model *m)
{
	struct sfs_open_options o = {.writer = true, .shm_bytes = 6 * BLOCK};
	for (size_t i = 0; i < m->disks; i++)
		m->disk[i].dead = false;
	m->sfs = sfs_open_disks(m->handle, m->disks, &o, &err);
	MUST(m, m->sfs != NULL, "open");
}

/* Records that the crash has taken: they are no more, under no handle. */
static void
cut_model(struct model *m, int id, uint64_t last)
{
	struct m_stream *s = &m->stream[id];
	for (uint64_t n = last + 1; n <= s->appended; n++)
		if (m->lost_count < LOST)
			m->lost[m->lost_count++] = s->record[n].handle;
		else
			m->lost[sim_below(&m->rng, LOST)] = s->record[n].handle;
	s->appended = last;
}

static void
check_after_crash(struct model *m)
{
	for (int i = 0; i < m->streams; i++) {
		struct m_stream *s = &m->stream[i];
		struct sfs_stream_info info;
		MUST(m, sfs_stream_info(m->sfs, (size_t)i, &info, &err) == SFS_OK, "info");
		uint64_t last =
			info.last_sequence ? info.last_sequence : info.recycled_records;
		MUST(m, last >= s->durable, "stream %d: %lu were durable, %lu are there", i,
			(unsigned long)s->durable, (unsigned long)last);
		MUST(m, last <= s->appended, "more than was appended");
		cut_model(m, i, last);
		s->durable = last;
		check_stream(m, i, true);
	}
	try_lost(m);
	MUST(m, sfs_check(m->sfs, NULL, NULL, NULL, &err) == 0, "check finds faults");
}

static void
note_durable(struct model *m)
{
	for (int i = 0; i < m->streams; i++) {
		uint64_t d = sfs_durable(m->sfs, i);
		MUST(m, d <= m->stream[i].appended && d >= m->stream[i].durable,
			"durable %lu of %lu, was %lu", (unsigned long)d,
			(unsigned long)m->stream[i].appended,
			(unsigned long)m->stream[i].durable);
		m->stream[i].durable = d;
	}
}

static void
append(struct model *m)
{
	int id = (int)sim_below(&m->rng, (uint64_t)m->streams);
	struct m_stream *s = &m->stream[id];
	if (s->appended + 1 >= RECORDS)
		return;
	size_t len = sim_below(&m->rng, s->usual);
	len = len > sfs_record_max(m->sfs) ? sfs_record_max(m->sfs) : len;
	if (sim_below(&m->rng, 40) == 0)
		len = sfs_record_max(m->sfs) - sim_below(&m->rng, 40);
	struct m_record *r = &s->record[s->appended + 1];
	int64_t t = ++m->now, rc;
	*r = (struct m_record){.nonce = ++m->nonce, .length = (uint32_t)len, .max_time = t};
	if (sim_below(&m->rng, 3) == 0) {
		size_t room = len + sim_below(&m->rng, 100);
		room = room > sfs_record_max(m->sfs) ? len : room;
		uint8_t *p = sfs_reserve(m->sfs, id, room, &err);
		MUST(m, p != NULL, "reserve %zu", room);
		if (sim_below(&m->rng, 4) == 0)
			MUST(m, sfs_flush(m->sfs, &err) == SFS_OK,
				"flush beside a reservation");
		make_body(p, r->nonce, len);
		rc = sfs_commit(m->sfs, id, t - 1, t, len, &r->handle, &err);
	} else {
		make_body(m->body, r->nonce, len);
		rc = sfs_append(m->sfs, id, t - 1, t, m->body, len, &r->handle, &err);
	}
	MUST(m, rc == SFS_OK, "append %zu: %ld", len, (long)rc);
	s->appended++;
	m->begun++;
	MUST(m, sfs_appended(m->sfs, id) == s->appended, "sequence");
}

static void
open_streams(struct model *m, int count)
{
	for (int i = 0; i < count; i++) {
		struct m_stream *s = &m->stream[i];
		uint64_t quarter = m->sfs->root.blocks / 8 * BLOCK;
		if (i >= m->streams) {
			snprintf(s->name, sizeof(s->name), "stream.%d", i);
			s->usual = (size_t)8 << sim_below(&m->rng, 14);
		}
		s->guarantee = i % 2 ? sim_below(&m->rng, quarter) : 0;
		s->reached = 0;
		int id = sfs_stream_open(m->sfs, s->name, s->guarantee, 0, &err);
		MUST(m, id == i, "stream %d is %d", i, id);
	}
	m->streams = count;
}

static void
crash(struct model *m)
{
	bool power = sim_below(&m->rng, 3) > 0;
	static const unsigned keep[] = {0, 16, 128, 240, 256};
	for (size_t i = 0; i < m->disks; i++)
		m->disk[i].dead = true;
	sfs_abandon(&m->sfs);
	for (size_t i = 0; power && i < m->disks; i++)
		sim_power_cut(&m->disk[i], keep[sim_below(&m->rng, 5)],
			sim_below(&m->rng, 2) ? 0 : (unsigned)sim_below(&m->rng, 64));
	reopen(m);
	check_after_crash(m);
	open_streams(m, m->streams);
}

static void
reset(struct model *m)
{
	MUST(m, sfs_reset(m->sfs, &err) == SFS_OK, "reset");
	for (int i = 0; i < m->streams; i++) {
		m->stream[i].reset = m->stream[i].durable = m->stream[i].appended;
		m->stream[i].reached = 0;
	}
}

static void
one_step(struct model *m)
{
	uint64_t what = sim_below(&m->rng, 1000);
	/* the moments that matter most are short */
	if (m->sfs->w->state >= SFS_ROOT_WRITING && what % 16 == 0) {
		crash(m);
	} else if (what < 850) {
		append(m);
	} else if (what < 900) {
		sfs_tick(m->sfs, m->now * 50000000, &err);
	} else if (what < 930) {
		MUST(m, sfs_flush(m->sfs, &err) == SFS_OK, "flush");
		note_durable(m);
		for (int i = 0; i < m->streams; i++)
			MUST(m, m->stream[i].durable == m->stream[i].appended, "flushed");
	} else if (what < 950) {
		check_stream(m, (int)sim_below(&m->rng, (uint64_t)m->streams), false);
	} else if (what < 960 && m->streams < STREAMS) {
		open_streams(m, m->streams + 1);
	} else if (what < 970) {
		sfs_close(&m->sfs);
		reopen(m);
		for (int i = 0; i < m->streams; i++)
			check_stream(m, i, false);
	} else if (what < 985) {
		crash(m);
	} else if (what < 987) {
		reset(m);
	}
	note_durable(m);
}

static void
run_case(uint64_t seed)
{
	struct model *m = calloc(1, sizeof(*m));
	m->seed = seed;
	m->rng.s = seed;
	m->body = malloc(BLOCK);
	m->expected = malloc(BLOCK + 8);
	m->disks = sim_below(&m->rng, 4) == 0 ? 1 + sim_below(&m->rng, 3) : 1;
	uint64_t blocks = 24 + sim_below(&m->rng, 60);
	uint32_t interval = sim_below(&m->rng, 2) ? 8 : SFS_MAP_INTERVAL;
	for (size_t i = 0; i < m->disks; i++)
		m->handle[i] = sim_make(
			&m->disk[i], (8 + blocks / m->disks) * (uint64_t)BLOCK, &m->rng);
	MUST(m, sfs_create_disks(m->handle, m->disks, BLOCK, interval, false, &err) == 0,
		"create");
	for (int i = 0; i < STREAMS; i++)
		m->stream[i].record = calloc(RECORDS, sizeof(struct m_record));
	reopen(m);
	open_streams(m, 1 + (int)sim_below(&m->rng, 3));
	uint64_t steps = 20 + sim_below(&m->rng, sim_below(&m->rng, 4) ? 300 : 1000);
	for (uint64_t i = 0; i < steps; i++)
		one_step(m);
	crash(m);
	sfs_close(&m->sfs);
	for (int i = 0; i < STREAMS; i++)
		free(m->stream[i].record);
	for (size_t i = 0; i < m->disks; i++)
		sim_free(&m->disk[i]);
	free(m->body);
	free(m->expected);
	free(m);
}

START_TEST(test_model)
{
	const char *seed = getenv("SFS_SEED"), *cases = getenv("SFS_CASES");
	uint64_t from = seed ? strtoull(seed, NULL, 0) : 1;
	uint64_t count = cases ? strtoull(cases, NULL, 0) : seed ? 1 : 300;
	for (uint64_t i = 0; i < count; i++)
		run_case(from + i);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("streamfs model");
	TCase *t = tcase_create("model");
	tcase_set_timeout(t, 3600);
	tcase_add_test(t, test_model);
	suite_add_tcase(s, t);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? 1 : 0;
}
