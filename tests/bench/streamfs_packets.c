/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many packets a second one core records through the logger's append path (Hyperion: one million):
 *   streamfs_packets VOLUME SNAPLEN SECONDS
 * All threads of the process stay on one CPU; the volume recycles when it is full. Prints JSON.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "logger/volume_writer.h"
#include "proto/base/clock.h"

#define FRAMES 1024
#define BATCH 256 /* packets between looks at the clock, as a ring gives them */
#define TICK (10 * PR_NS_PER_MS)

static uint8_t frame[FRAMES][2048];

static void
die(const char *what, const char *why)
{
	fprintf(stderr, "streamfs_packets: %s: %s\n", what, why);
	exit(1);
}

static void
make_frames(void)
{
	uint64_t s = 88172645463325252u;
	for (size_t i = 0; i < FRAMES; i++) {
		for (size_t k = 0; k < sizeof(frame[i]); k++) {
			s ^= s << 13;
			s ^= s >> 7;
			s ^= s << 17;
			frame[i][k] = (uint8_t)s;
		}
	}
}

static double
cpu_ns(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return ((double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec) * 1e9 +
	       ((double)u.ru_utime.tv_usec + (double)u.ru_stime.tv_usec) * 1e3;
}

static uint64_t
record(struct prl_volume_writer *a, uint32_t snaplen, int64_t seconds)
{
	int64_t begin = pr_now_mono(), real = pr_now_real(), now = begin, ticked = begin;
	uint64_t seq = 0;
	while (now - begin < seconds * PR_NS_PER_S) {
		for (int i = 0; i < BATCH; i++) {
			seq++;
			struct pr_packet p = {
				.time = real + (now - begin) + i,
				.otime = real + (now - begin) + i,
				.epoch = 1,
				.seq = seq,
				.linktype = 1,
				.caplen = snaplen,
				.len = 450,
				.data = frame[seq % FRAMES],
			};
			prl_writer_put_packet(a, &p);
		}
		now = pr_now_mono();
		if (now - ticked >= TICK) {
			ticked = now;
			prl_writer_tick(a, now);
		}
	}
	return seq;
}

int
main(int argc, char **argv)
{
	struct pr_error err = {0};
	struct prl_writer_options options = {0};
	struct sfs_open_options open = {.writer = true};
	cpu_set_t one;
	if (argc != 4 || atoi(argv[2]) < 1 || atoi(argv[2]) > 2048)
		die("usage", "streamfs_packets VOLUME SNAPLEN SECONDS");
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	make_frames();
	const char *path = argv[1];
	struct sfs *sfs = sfs_open(&path, 1, &open, &err);
	struct prl_volume_writer *a = sfs ? prl_writer_create(sfs, &options, &err) : NULL;
	if (!a)
		die(path, err.text);
	double cpu = cpu_ns();
	int64_t begin = pr_now_mono();
	uint64_t n = record(a, (uint32_t)atoi(argv[2]), atoi(argv[3]));
	if (prl_writer_flush(a, &err) != 0)
		die("flush", err.text);
	double seconds = (double)(pr_now_mono() - begin) / 1e9;
	cpu = cpu_ns() - cpu;
	const struct prl_writer_counters *c = prl_writer_counters(a);
	printf("{\"rate\": %.0f, \"cpu_ns\": %.1f, \"lost\": %lu}\n", (double)n / seconds,
		cpu / (double)n, (unsigned long)(n - pr_counter_get(&c->packets_durable)));
	prl_writer_destroy(&a);
	sfs_close(&sfs);
	return 0;
}
