/* SPDX-License-Identifier: Apache-2.0 */
/*
 * StreamFS against a model. A seed gives a volume of one to three disks, and a sequence of appends,
 * reservations, flushes, new streams, guarantees, resets, trims, deletions, growth, readings, kills and power cuts,
 * also in the midst of any of them and of recovery, on simulated disks that drop, reorder and tear; after each opening
 * all that is found is compared with what was appended. At the end the disks' bytes are damaged, and nothing
 * wrong may be read.
 * SFS_SEED, SFS_CASES, SFS_JOBS: seeds.h.
 */
#include "tests/unit/seeds.h"
#include "tests/unit/streamfs_model_damage.h"

#define CASES 10000
/* Seeds by which longer runs found faults: tried first. What a seed does changes with the model. */
static const uint64_t found[] = {7724, 42967, 1240885, 3029238, 10452763, 80006021};

static void
make_volume(struct model *m)
{
	static const uint32_t interval[] = {4, 5, 8, 16, SFS_MAP_INTERVAL};
	m->disks = sim_below(&m->rng, 4) == 0 ? 2 + sim_below(&m->rng, 2) : 1;
	m->sector = sim_below(&m->rng, 3) ? 512 : 4096;
	uint64_t blocks = 9 + sim_below(&m->rng, sim_below(&m->rng, 3) ? 20 : 80);
	for (size_t i = 0; i < m->disks; i++) {
		uint64_t more = sim_below(&m->rng, 2) ? sim_below(&m->rng, 20) : 0;
		make_disk(m, i, (blocks + m->disks - 1) / m->disks + more);
	}
	struct sfs_create_shape shape = {
		.block_size = BLOCK,
		.interval = interval[sim_below(&m->rng, 5)],
		.utilization = SFS_UTILIZATION,
		.zones = sim_below(&m->rng, 3) == 0,
	};
	MUST(m, sfs_create_shaped(m->handle, m->disks, &shape, &m->err) == 0, "create");
}

static void
start_case(struct model *m, uint64_t seed)
{
	m->seed = m->rng.s = seed;
	m->power = (struct sim_power){.left = 0};
	m->streams = 0;
	m->resetting = false;
	m->trimming = m->deleting = -1;
	m->nonce = 0;
	m->now = 0;
	m->lost_count = 0;
	m->begun = 0;
	m->before_growth = 0;
	for (int i = 0; i < STREAMS; i++)
		m->stream[i] = (struct m_stream){.record = m->stream[i].record};
	make_volume(m);
	reopen(m);
}

static void
run_case(void *model, uint64_t seed)
{
	struct model *m = model;
	start_case(m, seed);
	for (uint64_t n = 1 + sim_below(&m->rng, 3); n > 0; n--)
		open_stream(m, m->streams);
	uint64_t steps = 20 + sim_below(&m->rng, sim_below(&m->rng, 4) ? 150 : 400);
	for (uint64_t i = 0; i < steps; i++)
		one_step(m);
	do
		crash(m);
	while (m->power.off);
	m->power.left = 0;
	end_in_damage(m);
}

static void *
make_model(void)
{
	struct model *m = calloc(1, sizeof(*m));
	struct sim_rng rng = {0};
	m->body = malloc(BLOCK);
	m->pool = malloc(POOL);
	for (size_t i = 0; i < POOL; i += 8) {
		uint64_t x = sim_random(&rng);
		memcpy(m->pool + i, &x, 8);
	}
	for (int i = 0; i < STREAMS; i++)
		m->stream[i].record = calloc(RECORDS, sizeof(struct m_record));
	return m;
}

static void
free_model(void *model)
{
	struct model *m = model;
	for (int i = 0; i < STREAMS; i++)
		free(m->stream[i].record);
	for (int i = 0; i < DISKS; i++)
		sim_free(&m->disk[i]);
	free(m->body);
	free(m->pool);
	free(m);
}

int
main(void)
{
	const struct seeds seeds = {.name = "streamfs",
		.prefix = "SFS",
		.cases = CASES,
		.found = found,
		.found_count = sizeof(found) / sizeof(*found),
		.make = make_model,
		.run = run_case,
		.free = free_model};

	return seeds_main(&seeds);
}
