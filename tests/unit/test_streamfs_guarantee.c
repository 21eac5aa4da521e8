/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: the table and the frontier under random streams (a property), and what a writer and
 * another process make of them.
 */
#include <check.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "logger/streamfs/internal.h"
#include "tests/unit/streamfs_file.h"
#include "tests/unit/streamfs_sim.h"
#include "tests/unit/unit.h"

#define BLOCK 65536

/* ---- the property: pure, no I/O ---- */

#define MOST 8
struct world {
	struct sim_rng rng;
	struct sfs_table t;
	struct sfs_frontier f;
	uint64_t begun[MOST],
		since[MOST]; /* blocks begun; of these since the guarantee rose */
	uint64_t rate[MOST];
};

static bool
always(void *arg, uint32_t block)
{
	(void)arg;
	(void)block;
	return true;
}

static void
guarantee_anew(struct world *w, uint32_t i)
{
	uint64_t room = w->t.blocks - w->t.blocks / w->t.interval, others = 0;
	struct sfs_stream *s = &w->t.stream[i];
	for (uint32_t k = 0; k < w->t.streams; k++)
		if (k != i)
			others += w->t.stream[k].guarantee / BLOCK;
	uint64_t most = room * 9 / 10, before = s->guarantee;
	s->guarantee = most > others ? sim_below(&w->rng, most - others) * BLOCK : 0;
	if (s->guarantee > before)
		w->since[i] = s->blocks;
}

static void
world_make(struct world *w, uint64_t seed)
{
	*w = (struct world){.rng = {seed}};
	uint64_t blocks = 40 + sim_below(&w->rng, 400);
	uint32_t interval = sim_below(&w->rng, 2) ? 8 : 64;
	ck_assert_int_eq(sfs_table_init(&w->t, blocks, BLOCK, interval, &err), 0);
	ck_assert_int_eq(
		sfs_frontier_init(&w->f, blocks, 0, sim_below(&w->rng, blocks), 1, 0, &err),
		0);
	w->t.streams = 1 + (uint32_t)sim_below(&w->rng, MOST);
	for (uint32_t i = 0; i < w->t.streams; i++) {
		w->t.stream[i] = (struct sfs_stream){.id = i,
			.oldest = SFS_NONE,
			.newest = SFS_NONE,
			.first_sequence = 1,
			.evicted_until = INT64_MIN};
		w->rate[i] = 1 + sim_below(&w->rng, sim_below(&w->rng, 2) ? 100 : 3);
		if (sim_below(&w->rng, 3))
			guarantee_anew(w, i);
	}
}

/* Check tells each assertion to its parent: too many of them here. */
#define HOLDS(condition)                                                                   \
	do {                                                                               \
		if (!(condition))                                                          \
			ck_abort_msg("stream %u: %s", i, #condition);                      \
	} while (0)

/* The stream is one unbroken stretch that ends with what was written last, and as long as promised. */
static void
check_stream(struct world *w, uint32_t i)
{
	const struct sfs_stream *s = &w->t.stream[i];
	uint64_t held = 0, block_number = 0, generation = 0;
	for (uint32_t b = s->oldest; b != SFS_NONE; b = w->t.entry[b].next) {
		const struct sfs_entry *e = &w->t.entry[b];
		HOLDS(e->stream == i);
		HOLDS(held == 0 || e->block_number == block_number + 1);
		HOLDS(e->generation > generation);
		block_number = e->block_number;
		generation = e->generation;
		held++;
	}
	HOLDS(held == s->blocks);
	HOLDS(held == 0 || block_number + 1 == w->begun[i]);
	uint64_t promised = sfs_table_blocks_for(&w->t, s->guarantee);
	if (promised >= w->since[i]) /* what was gone before does not come back */
		promised = w->since[i] ? w->since[i] - 1 : 0;
	HOLDS(promised == 0 || held > promised);
}

static bool
write_block(struct world *w, uint32_t i)
{
	uint64_t generation;
	uint32_t block;
	do {
		if (w->f.ready == 0) {
			sfs_frontier_set_durable(
				&w->f, &w->t, sfs_frontier_position(&w->f));
			sfs_frontier_clear(&w->f, &w->t, always, NULL);
			sfs_frontier_release_pending(&w->f, w->f.pending);
		}
		block = sfs_frontier_take(&w->f, &w->t, &generation);
		if (block != SFS_NONE && sfs_table_is_map(&w->t, block))
			w->t.entry[block].state = SFS_MAP;
	} while (block != SFS_NONE && sfs_table_is_map(&w->t, block));
	if (block == SFS_NONE)
		return false;
	if (w->t.stream[i].newest != SFS_NONE)
		sfs_table_seal(&w->t, w->t.stream[i].newest);
	sfs_table_begin(&w->t, i, block, generation);
	sfs_table_record(&w->t, block, BLOCK, 1, 2);
	w->begun[i]++;
	w->since[i]++;
	return true;
}

static uint32_t
by_rate(struct world *w)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < w->t.streams; i++)
		sum += w->rate[i];
	uint64_t at = sim_below(&w->rng, sum);
	uint32_t i = 0;
	while (at >= w->rate[i])
		at -= w->rate[i++];
	return i;
}

START_TEST(test_never_broken)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct world w;
		world_make(&w, seed + (uint64_t)_i * 1000);
		for (uint64_t n = 0; n < w.t.blocks * 8; n++) {
			uint32_t i = by_rate(&w);
			ck_assert_msg(
				write_block(&w, i), "seed %lu: stuck", (unsigned long)seed);
			if (sim_below(&w.rng, 200) == 0)
				guarantee_anew(
					&w, (uint32_t)sim_below(&w.rng, w.t.streams));
			if (n % 17 == 0)
				for (uint32_t k = 0; k < w.t.streams; k++)
					check_stream(&w, k);
		}
		sfs_frontier_free(&w.f);
		sfs_table_free(&w.t);
	}
}
END_TEST

/*
 * A ledger (stream 1) outlives the data (stream 0), however the rates change: what is left of the data was written
 * after the ledger's oldest block began, unless the ledger takes all that it may.
 */
START_TEST(test_as_old_as_the_others)
{
	struct world w;
	uint64_t full = 0;
	uint32_t i = 1;
	world_make(&w, 1000 + (uint64_t)_i);
	w.t.streams = 2;
	w.t.stream[0].guarantee = 0;
	w.t.stream[1] = w.t.stream[0];
	w.t.stream[1].id = 1;
	w.t.stream[1].guarantee = BLOCK;
	for (uint64_t n = 0; n < w.t.blocks * 20; n++) {
		const struct sfs_stream *data = &w.t.stream[0], *ledger = &w.t.stream[1];
		if (n % 50 == 0) /* of ten blocks: one is the ledger's, to seven */
			w.rate[1] = 1 + sim_below(&w.rng, 7), w.rate[0] = 10 - w.rate[1];
		HOLDS(write_block(&w, by_rate(&w)));
		if (ledger->blocks == w.begun[1] || ledger->blocks >= (w.t.blocks - 2) / 2)
			full += ledger->blocks != w.begun[1];
		else
			HOLDS(w.t.entry[ledger->oldest].generation <=
				w.t.entry[data->oldest].generation);
	}
	ck_assert_uint_lt(full, w.t.blocks * 10);
	sfs_frontier_free(&w.f);
	sfs_table_free(&w.t);
}
END_TEST

/* ---- a volume ---- */

static void
setup(void)
{
	make_volume(&(struct sfs_create_options){
		.size = 4 << 20, .block_size = BLOCK, .utilization = 50});
}

START_TEST(test_utilization)
{
	struct sfs *w = open_volume(true);
	struct sfs_volume_info info;
	struct sfs_create_options o = {.force = true, .utilization = 99};
	ck_assert_int_eq(sfs_info(w, &info, &err), SFS_OK);
	ck_assert_uint_eq(info.utilization, 500);
	ck_assert_uint_eq(info.guarantee_most, info.blocks / 2);
	ck_assert_int_eq(sfs_stream_open(w, "a", info.blocks / 2 * BLOCK, 0, &err), 0);
	ck_assert_int_lt(sfs_stream_open(w, "b", 1, 0, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "utilization 50.0 %"));
	ck_assert_int_lt(sfs_guarantee_set(w, "a", info.blocks * BLOCK, &err), 0);
	ck_assert_int_lt(sfs_guarantee_set(w, "c", 0, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "no stream 'c'"));
	ck_assert_int_eq(sfs_info(w, &info, &err), SFS_OK);
	ck_assert_uint_eq(info.guaranteed_blocks, info.guarantee_most);
	sfs_close(&w);
	ck_assert_int_lt(sfs_create(paths, 1, &o, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "utilization"));
}
END_TEST

/* What was set by hand stays, whatever the writing program wants; what it never set follows it. */
START_TEST(test_set_by_hand_stays)
{
	struct sfs_stream_info info;
	struct sfs *w = open_volume(true);
	ck_assert_int_eq(sfs_stream_open(w, "a", 0, 0, &err), 0);
	ck_assert_int_eq(sfs_stream_open(w, "b", BLOCK, 0, &err), 1);
	ck_assert_int_eq(sfs_guarantee_set(w, "a", 5 * BLOCK, &err), 0);
	sfs_close(&w);
	w = open_volume(true);
	ck_assert_int_eq(sfs_stream_open(w, "a", 0, 0, &err), 0);
	ck_assert_int_eq(sfs_stream_open(w, "b", 2 * BLOCK, 0, &err), 1);
	ck_assert_int_eq(sfs_stream_info(w, 0, &info, &err), SFS_OK);
	ck_assert_uint_eq(info.guarantee, 5 * BLOCK);
	ck_assert_int_eq(sfs_stream_info(w, 1, &info, &err), SFS_OK);
	ck_assert_uint_eq(info.guarantee, 2 * BLOCK);
	sfs_close(&w);
}
END_TEST

/* Another process asks the living writer; its answer is the writer's own. */
static void
ask_from_outside(void)
{
	struct sfs_stream_info info;
	struct sfs *r = open_volume(false);
	ck_assert_msg(sfs_guarantee_set(r, "a", 7 * BLOCK, &err) == 0, "%s", err.text);
	ck_assert_int_eq(sfs_stream_info(r, 0, &info, &err), SFS_OK);
	ck_assert_uint_eq(info.guarantee, 7 * BLOCK);
	ck_assert_int_lt(sfs_guarantee_set(r, "a", 1 << 30, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "may be guaranteed"));
	ck_assert_int_lt(sfs_guarantee_set(r, "nobody", 0, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "no stream 'nobody'"));
	sfs_close(&r);
}

START_TEST(test_changed_while_written)
{
	struct sfs_stream_info info;
	struct sfs *w = open_volume(true);
	int status = -1, now = 0;
	ck_assert_int_eq(sfs_stream_open(w, "a", 0, 0, &err), 0);
	pid_t child = fork();
	if (child == 0) {
		ask_from_outside();
		_exit(0);
	}
	while (waitpid(child, &status, WNOHANG) == 0) {
		uint8_t body[3000] = {0};
		ck_assert_int_eq(
			sfs_append(w, 0, 1, 2, body, sizeof(body), NULL, &err), SFS_OK);
		ck_assert_int_eq(sfs_tick(w, now += 10000000, &err), SFS_OK);
		poll(NULL, 0, 1);
	}
	ck_assert_int_eq(status, 0);
	sfs_close_as_killed(&w);
	w = open_volume(false);
	ck_assert_int_eq(sfs_stream_info(w, 0, &info, &err), SFS_OK);
	ck_assert_uint_eq(info.guarantee, 7 * BLOCK);
	ck_assert_int_lt(sfs_guarantee_set(w, "a", 0, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "no writer"));
	sfs_close(&w);
	w = open_volume(true); /* takes the dead one's shared memory away */
	sfs_close(&w);
	w = open_volume(true); /* takes away what the abandoned one left in /dev/shm */
	sfs_close(&w);
}
END_TEST

/* ---- shares of the shared memory ---- */

enum { SLOTS = 16, STREAMS = 5 };

/* How many of the stream's newest blocks are in memory. */
static uint32_t
in_memory(const struct sfs *w, uint32_t stream)
{
	uint32_t count = 0, block = w->table.stream[stream].newest;
	while (block != SFS_NONE && w->table.entry[block].slot != SFS_NONE) {
		count++;
		block = w->table.entry[block].prev;
	}
	return count;
}

/* A stream's share is there, whatever the others write; what is left is for those who write most. */
START_TEST(test_memory_shares)
{
	struct sim_rng rng = {(uint64_t)_i + 1};
	struct sfs_open_options o = {.writer = true, .shm_bytes = SLOTS * BLOCK};
	struct sfs *w = sfs_open(paths, 1, &o, &err);
	uint32_t share[STREAMS] = {0}, left = SLOTS - STREAMS - 1;
	static const uint8_t body[BLOCK * 3 / 4];
	char name[2] = "a";
	ck_assert_msg(w != NULL, "%s", err.text);
	for (int i = 0; i < STREAMS; i++, name[0]++) {
		ck_assert_int_eq(sfs_stream_open(w, name, 0, 0, &err), i);
		share[i] = i == 0 ? 0 : (uint32_t)sim_below(&rng, left + 1);
		left -= share[i];
		ck_assert_int_eq(
			sfs_memory_set(w, i, (share[i] * 1000 + SLOTS - 1) / SLOTS, &err),
			SFS_OK);
	}
	for (int n = 0; n < 400; n++) {
		/* stream 0 writes most; a block each, as two bodies do not fit into one */
		uint32_t i = sim_below(&rng, 3) ? 0 : (uint32_t)sim_below(&rng, STREAMS);
		HOLDS(sfs_append(w, (int)i, 1, 2, body, sizeof(body), NULL, &err) ==
			SFS_OK);
		HOLDS(sfs_flush(w, &err) == SFS_OK);
		for (uint32_t k = 0; k < STREAMS; k++) {
			uint64_t held = w->table.stream[k].blocks;
			HOLDS(in_memory(w, k) >= (share[k] < held ? share[k] : held));
		}
	}
	ck_assert_uint_ge(in_memory(w, 0), SLOTS / 4 - 1);
	/* without the share it goes like others */
	for (int i = 1; i < STREAMS; i++)
		ck_assert_int_eq(sfs_memory_set(w, i, 0, &err), SFS_OK);
	for (int n = 0; n < SLOTS; n++) {
		unit_must(sfs_append(w, 0, 1, 2, body, sizeof(body), NULL, &err) == SFS_OK);
		unit_must(sfs_flush(w, &err) == SFS_OK);
	}
	for (uint32_t k = 1; k < STREAMS; k++)
		ck_assert_uint_eq(in_memory(w, k), 0);
	ck_assert_int_lt(sfs_memory_set(w, STREAMS, 10, &err), 0);
	sfs_close(&w);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("streamfs guarantees");
	TCase *t = tcase_create("property"), *v = tcase_create("volume");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, test_as_old_as_the_others, 0, 20);
	tcase_add_loop_test(t, test_never_broken, 0, 3);
	tcase_add_checked_fixture(v, setup, remove_file);
	tcase_add_test(v, test_utilization);
	tcase_add_test(v, test_set_by_hand_stays);
	tcase_add_test(v, test_changed_while_written);
	tcase_add_loop_test(v, test_memory_shares, 0, 20);
	suite_add_tcase(s, t);
	suite_add_tcase(s, v);
	return unit_run_suite(s);
}
