/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "logger/streamfs/table.h"
#include "tests/unit/streamfs_sim.h"

/*
 * What guarantees cost (Hyperion, section 4.2, which says of its simulation no more than the result). The
 * load is that of its measurements (7.2): 32 streams of differing speeds, arrivals at random of 64 KiB in the
 * mean, blocks of 1 MiB, steady state. The production frontier and table go many laps over a
 * full volume, without I/O. A block that is written takes its time; blocks that are passed by take the
 * time to let them pass under the head, or a seek if that is shorter. The loss is against a volume without
 * guarantees, which passes nothing by.
 */
#define LAPS_BLOCK (1u << 20)
#define LAPS_SEEK 1.2 /* of the time of a block: 12 ms, where 1 MiB takes 10 (100 MB/s) */
#define LAPS_STREAMS 32
#define LAPS_ARRIVAL 65536.0

enum laps_kind {
	LAPS_ALIKE, /* all streams are kept for the same time: room in proportion to the rate */
	LAPS_WHOLE, /* the same, but a block's worth arrives at once */
	LAPS_BURSTS, /* as LAPS_ALIKE, but each stream is a hundred times as fast for a tenth of the time */
	LAPS_DIFFERING, /* each stream is guaranteed the same room, with rates of 1 to 32 */
};
struct laps {
	struct sim_rng rng;
	struct sfs_table t;
	struct sfs_frontier f;
	enum laps_kind kind;
	double rate[LAPS_STREAMS], burst[LAPS_STREAMS];
	double sum; /* of rate times burst */
	double fill[LAPS_STREAMS]; /* of the stream's newest block */
	uint64_t last; /* position of the last block written */
	double time, passing; /* in times of a block */
	uint64_t written, stuck;
};

static inline bool
laps_clearable(void *arg, uint32_t block)
{
	(void)arg;
	(void)block;
	return true;
}

static inline int
laps_make(struct laps *l, enum laps_kind kind, uint64_t blocks, unsigned percent,
	uint64_t seed, struct pr_error *err)
{
	double sum = 0;
	*l = (struct laps){.rng = {seed}, .kind = kind};
	if (sfs_table_init(&l->t, blocks, LAPS_BLOCK, SFS_MAP_INTERVAL, err) < 0 ||
		sfs_frontier_init(&l->f, blocks, 0, 0, 1, 0, err) < 0)
		return -1;
	l->t.streams = LAPS_STREAMS;
	for (uint32_t i = 0; i < LAPS_STREAMS; i++)
		sum += l->rate[i] = 1 + i;
	for (uint32_t i = 0; i < LAPS_STREAMS; i++) {
		double part =
			kind == LAPS_DIFFERING ? 1.0 / LAPS_STREAMS : l->rate[i] / sum;
		l->t.stream[i] = (struct sfs_stream){.id = i,
			.oldest = SFS_NONE,
			.newest = SFS_NONE,
			.first_sequence = 1,
			.evicted_until = INT64_MIN,
			.guarantee = (uint64_t)(part * percent / 100 * (double)blocks) *
				     LAPS_BLOCK};
		l->burst[i] = 1;
		l->fill[i] = LAPS_BLOCK;
	}
	l->sum = sum;
	return 0;
}

static inline void
laps_free(struct laps *l)
{
	sfs_frontier_free(&l->f);
	sfs_table_free(&l->t);
}

static inline double
laps_weigh(struct laps *l)
{
	double sum = 0;
	for (uint32_t k = 0; k < LAPS_STREAMS; k++)
		sum += l->rate[k] * l->burst[k];
	return sum;
}

/* Once a hundredth of a lap each stream begins or ends a burst, perhaps. */
static inline void
laps_weather(struct laps *l)
{
	if (l->kind != LAPS_BURSTS || l->written % (l->t.blocks / 100) != 0)
		return;
	for (uint32_t i = 0; i < LAPS_STREAMS; i++)
		l->burst[i] = sim_below(&l->rng, 10) == 0 ? 10 : 0.1;
	l->sum = laps_weigh(l);
}

static inline uint32_t
laps_choose(struct laps *l)
{
	double at =
		(double)(sim_random(&l->rng) >> 11) / (double)(UINT64_C(1) << 53) * l->sum;
	uint32_t i = 0;
	while (i + 1 < LAPS_STREAMS && at >= l->rate[i] * l->burst[i]) {
		at -= l->rate[i] * l->burst[i];
		i++;
	}
	return i;
}

static inline uint32_t
laps_take(struct laps *l, uint64_t *generation)
{
	if (l->f.ready == 0) {
		sfs_frontier_set_durable(&l->f, &l->t, sfs_frontier_position(&l->f));
		sfs_frontier_clear(&l->f, &l->t, laps_clearable, NULL);
		sfs_frontier_release_pending(&l->f, l->f.pending);
	}
	return sfs_frontier_take(&l->f, &l->t, generation);
}

static inline void
laps_move(struct laps *l, uint32_t block)
{
	uint64_t n = l->t.blocks;
	uint64_t passed = (block + n - l->last - 1) % n;
	double pass = passed < LAPS_SEEK ? (double)passed : LAPS_SEEK;
	l->last = block;
	l->passing += pass;
	l->time += 1 + pass;
}

static inline double
laps_random(struct laps *l)
{
	return ((double)(sim_random(&l->rng) >> 11) + 1) / (double)(UINT64_C(1) << 53);
}

/* Takes arrivals until a stream needs its next block. */
static inline uint32_t
laps_arrive(struct laps *l)
{
	for (;;) {
		uint32_t i = laps_choose(l);
		double length = l->kind == LAPS_WHOLE ? LAPS_BLOCK
						      : -LAPS_ARRIVAL * log(laps_random(l));
		length = length < LAPS_BLOCK ? length : LAPS_BLOCK;
		if (l->fill[i] + length > LAPS_BLOCK) {
			l->fill[i] = length;
			return i;
		}
		l->fill[i] += length;
	}
}

/* false: nothing may be recycled at all. */
static inline bool
laps_write(struct laps *l)
{
	uint64_t generation;
	uint32_t block, i = laps_arrive(l);
	laps_weather(l);
	while ((block = laps_take(l, &generation)) != SFS_NONE) {
		laps_move(l, block);
		if (!sfs_table_is_map(&l->t, block))
			break;
		l->t.entry[block].state = SFS_MAP;
	}
	if (block == SFS_NONE)
		return false;
	if (l->t.stream[i].newest != SFS_NONE)
		sfs_table_seal(&l->t, l->t.stream[i].newest);
	sfs_table_begin(&l->t, i, block, generation);
	sfs_table_record(&l->t, block, LAPS_BLOCK, 1, 2);
	l->written++;
	return true;
}

/* The part of the throughput that is lost, after so many laps; negative: it got stuck. */
static inline double
laps_loss(struct laps *l, unsigned laps)
{
	uint64_t count = l->t.blocks * laps;
	for (uint64_t n = 0; n < count; n++)
		if (!laps_write(l))
			return -1;
	l->time = l->passing = 0;
	for (uint64_t n = 0; n < count; n++)
		if (!laps_write(l))
			return -1;
	return l->passing / l->time;
}
