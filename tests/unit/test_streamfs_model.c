/* SPDX-License-Identifier: Apache-2.0 */
/*
 * StreamFS against a model. A seed gives a volume of one to three disks, and a sequence of appends,
 * reservations, flushes, new streams, guarantees, resets, trims, deletions, growth, readings, kills and power cuts,
 * also in the midst of any of them and of recovery, on simulated disks that drop, reorder and tear; after each opening
 * all that is found is compared with what was appended. At the end the disks' bytes are damaged, and nothing
 * wrong may be read.
 * SFS_SEED=n runs one case, SFS_CASES=n that many (from SFS_SEED or 1 on), SFS_JOBS=n in n processes.
 */
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/unit/streamfs_model_damage.h"

#define CASES 10000
/* Seeds by which longer runs found faults: tried first. What a seed does changes with the model. */
static const uint64_t found[] = {7724, 42967, 1240885, 3029238, 10452763, 80006021};
#define CASE_SECONDS 60 /* a case takes milliseconds: it hangs */

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
		.force = true,
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
run_case(struct model *m, uint64_t seed)
{
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

static struct model *
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
free_model(struct model *m)
{
	for (int i = 0; i < STREAMS; i++)
		free(m->stream[i].record);
	for (int i = 0; i < DISKS; i++)
		sim_free(&m->disk[i]);
	free(m->body);
	free(m->pool);
	free(m);
}

struct shared {
	_Atomic uint64_t seed[64], done;
};

/* One of several processes: each job-th seed. Tells every hundredth by a byte. */
static void
work(struct shared *shared, int job, int jobs, uint64_t from, uint64_t count, int out)
{
	struct model *m = make_model();
	/* buffers of hundreds of KiB come and go: from the heap, not the kernel */
	mallopt(M_MMAP_THRESHOLD, 64 << 20);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
	for (uint64_t i = (uint64_t)job; i < count; i += (uint64_t)jobs) {
		shared->seed[job] = from + i;
		alarm(CASE_SECONDS);
		run_case(m, from + i);
		if (++shared->done % 100 == 0 && write(out, "", 1) != 1)
			break;
	}
	free_model(m);
}

static void
show(uint64_t done, uint64_t count, uint64_t *shown)
{
	if (isatty(2))
		fprintf(stderr, "\r%lu of %lu cases", (lu)done, (lu)count);
	else if (done * 10 / count > *shown)
		fprintf(stderr, "%lu of %lu cases\n", (lu)done, (lu)count);
	*shown = done * 10 / count;
}

/* 0: the worker ended well. A failed case has said so itself, unless it died of a signal. */
static int
reap(const struct shared *shared, const pid_t *pid, int jobs)
{
	int status;
	pid_t who = wait(&status);
	for (int i = 0; i < jobs; i++)
		if (pid[i] == who && WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM)
			fprintf(stderr, "\nSFS_SEED=%lu: %s\n", (lu)shared->seed[i],
				strsignal(WTERMSIG(status)));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static int
run_all(uint64_t from, uint64_t count, int jobs)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t shown = 0;
	pid_t pid[64];
	int out[2], failed = 0;
	char byte;
	if (shared == MAP_FAILED || pipe(out) < 0)
		return 1;
	for (int i = 0; i < jobs; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			close(out[0]);
			work(shared, i, jobs, from, count, out[1]);
			exit(0);
		}
	}
	close(out[1]);
	while (read(out[0], &byte, 1) == 1)
		show(shared->done, count, &shown);
	for (int i = 0; i < jobs; i++)
		failed += reap(shared, pid, jobs) < 0;
	fprintf(stderr, "%sstreamfs model: %lu of %lu cases from seed %lu, %s\n",
		isatty(2) ? "\r" : "", (lu)shared->done, (lu)count, (lu)from,
		failed ? "FAILED" : "ok");
	return failed ? 1 : 0;
}

static uint64_t
setting(const char *name, uint64_t usual)
{
	const char *text = getenv(name);
	return text && *text ? strtoull(text, NULL, 0) : usual;
}

int
main(void)
{
	uint64_t from = setting("SFS_SEED", 1);
	uint64_t count = setting("SFS_CASES", getenv("SFS_SEED") ? 1 : CASES);
	uint64_t jobs = setting("SFS_JOBS", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	jobs = jobs < 1 ? 1 : jobs > 64 ? 64 : jobs;
	for (size_t i = 0; !getenv("SFS_SEED") && i < sizeof(found) / sizeof(*found); i++)
		if (run_all(found[i], 1, 1) != 0)
			return 1;
	return run_all(from, count, (int)(jobs < count ? jobs : count));
}
