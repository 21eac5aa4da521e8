/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Runs many cases of a model, each from a seed, in several processes. A case that fails prints its seed and ends
 * its process with status 1. NAME_SEED=n runs one case, NAME_CASES=n that many (from NAME_SEED or 1 on),
 * NAME_JOBS=n in n processes; NAME is the model's prefix.
 */
#define SEEDS_CASE_SECONDS 600 /* a case takes seconds at most: it hangs */

struct seeds {
	const char *name, *prefix;
	uint64_t cases; /* if the environment does not say */
	const uint64_t *found; /* seeds that are tried first */
	size_t found_count;
	void *(*make)(void); /* in each process */
	void (*run)(void *model, uint64_t seed);
	void (*free)(void *model);
};

struct seeds_shared {
	_Atomic uint64_t seed[64], done;
};

/* One of several processes: each job-th seed. Tells every hundredth by a byte. */
static inline void
seeds_work(const struct seeds *s, struct seeds_shared *shared, int job, int jobs,
	uint64_t from, uint64_t count, int out)
{
	void *model = s->make();

	/* buffers of hundreds of KiB come and go: from the heap, not the kernel */
	mallopt(M_MMAP_THRESHOLD, 64 << 20);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
	for (uint64_t i = (uint64_t)job; i < count; i += (uint64_t)jobs) {
		shared->seed[job] = from + i;
		alarm(SEEDS_CASE_SECONDS);
		s->run(model, from + i);
		if (++shared->done % 100 == 0 && write(out, "", 1) != 1)
			break;
	}
	s->free(model);
}

static inline void
seeds_show(uint64_t done, uint64_t count, uint64_t *shown)
{
	if (isatty(2))
		fprintf(stderr, "\r%llu of %llu cases", (unsigned long long)done,
			(unsigned long long)count);
	else if (done * 10 / count > *shown)
		fprintf(stderr, "%llu of %llu cases\n", (unsigned long long)done,
			(unsigned long long)count);
	*shown = done * 10 / count;
}

/* 0: the worker ended well. A failed case has said so itself, unless it died of a signal. */
static inline int
seeds_reap(const struct seeds *s, const struct seeds_shared *shared, const pid_t *pid,
	int jobs)
{
	int status;
	pid_t who = wait(&status);

	for (int i = 0; i < jobs; i++)
		if (pid[i] == who && WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM)
			fprintf(stderr, "\n%s_SEED=%llu: %s\n", s->prefix,
				(unsigned long long)shared->seed[i],
				strsignal(WTERMSIG(status)));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static inline int
seeds_run_all(const struct seeds *s, uint64_t from, uint64_t count, int jobs)
{
	struct seeds_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
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
			seeds_work(s, shared, i, jobs, from, count, out[1]);
			exit(0);
		}
	}
	close(out[1]);
	while (read(out[0], &byte, 1) == 1)
		seeds_show(shared->done, count, &shown);
	for (int i = 0; i < jobs; i++)
		failed += seeds_reap(s, shared, pid, jobs) < 0;
	fprintf(stderr, "%s%s model: %llu of %llu cases from seed %llu, %s\n",
		isatty(2) ? "\r" : "", s->name, (unsigned long long)shared->done,
		(unsigned long long)count, (unsigned long long)from,
		failed ? "FAILED" : "ok");
	close(out[0]);
	munmap(shared, sizeof(*shared));
	return failed ? 1 : 0;
}

static inline uint64_t
seeds_setting(const struct seeds *s, const char *what, uint64_t usual)
{
	char name[64];
	const char *text;

	snprintf(name, sizeof(name), "%s_%s", s->prefix, what);
	text = getenv(name);
	return text && *text ? strtoull(text, NULL, 0) : usual;
}

/* The main of a model. */
static inline int
seeds_main(const struct seeds *s)
{
	uint64_t seed = seeds_setting(s, "SEED", 0), from = seed ? seed : 1;
	uint64_t count = seeds_setting(s, "CASES", seed ? 1 : s->cases);
	uint64_t jobs = seeds_setting(s, "JOBS", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));

	jobs = jobs < 1 ? 1 : jobs > 64 ? 64 : jobs;
	for (size_t i = 0; !seed && i < s->found_count; i++)
		if (seeds_run_all(s, s->found[i], 1, 1) != 0)
			return 1;
	return seeds_run_all(s, from, count, (int)(jobs < count ? jobs : count));
}
