/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workloads of Bunga and Wolf, packet by packet from memory: bare kernels as in the paper, and packrack's stages.
 *
 * usage: bench_workloads CAPTURE PACKETS SIZE WORKLOAD SHARDS [KEY=VALUE...]
 *
 * PACKETS of CAPTURE, again and again, lie in memory at PACKET_MEMORY, so that a trace of memory accesses tells packets from all else;
 * SIZE: cut or filled to so many bytes, 0: as they are. WORKLOAD: none; kernel-count, kernel-http, kernel-flows, kernel-anonymize;
 * or the name of a stage: with SHARDS 0 its packet function alone, else run in so many threads, which prints the rate.
 */
#include <sys/mman.h>
#include <time.h>

#include "indexer/stages/stage_run.h"
#include "proto/base/array.h"
#include "proto/base/cursor.h"
#include "proto/port/trace.h"
#include "proto/wire/address_map.h"

#define PACKET_MEMORY ((void *)0x200000000000)
#define FLOWS (1 << 16)

static struct pr_packet *packets;
static size_t count;
static struct pr_error err;

static void
die(void)
{
	fprintf(stderr, "bench_workloads: %s\n", err.text);
	exit(1);
}

static void
load(const char *path, size_t wanted, uint32_t size)
{
	uint8_t *memory = mmap(PACKET_MEMORY, (size_t)1 << 32, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
	struct pr_trace *t = NULL;
	struct pr_packet p;
	size_t used = 0;

	packets = calloc(wanted, sizeof(*packets));
	if (memory == MAP_FAILED || !packets)
		exit(1);
	while (count < wanted) {
		if (!t && !(t = pr_trace_open(path, &err)))
			die();
		if (pr_trace_next(t, &p, &err) != PR_SOURCE_PACKET) {
			pr_trace_close(&t);
			continue;
		}
		memcpy(memory + used, p.data, p.caplen);
		p.data = memory + used;
		if (size)
			p.caplen = p.len = size;
		p.seq = count + 1;
		p.otime = p.time = (int64_t)count * 1000; /* a million a second */
		packets[count++] = p;
		used += (p.caplen + 63) & ~63u;
	}
	pr_trace_close(&t);
}

/* ---- the paper's kernels ---- */

static uint64_t counter, bytes;

__attribute__((noinline)) static int
kernel_count(const struct pr_packet *p)
{
	counter++;
	bytes += p->len;
	return 0;
}

/* To port 80? */
__attribute__((noinline)) static int
kernel_http(const struct pr_packet *p)
{
	const uint8_t *ip = p->data + 14;

	if (p->caplen < 54 || pr_get_be16(p->data + 12) != 0x0800 || ip[9] != 6)
		return 0;
	counter += pr_get_be16(ip + 4 * (ip[0] & 15) + 2) == 80;
	return 0;
}

/* A 5-tuple's place in a hash table with chains. */
struct flow {
	struct flow *next;
	uint32_t src, dst, ports;
	uint8_t protocol;
	uint64_t packets, bytes;
};
static struct flow *table[FLOWS];

__attribute__((noinline)) static int
kernel_flows(const struct pr_packet *p)
{
	const uint8_t *ip = p->data + 14;

	if (p->caplen < 42 || pr_get_be16(p->data + 12) != 0x0800)
		return 0;
	uint32_t src = pr_get_be32(ip + 12), dst = pr_get_be32(ip + 16),
		 ports = pr_get_be32(ip + 4 * (ip[0] & 15));
	uint32_t hash =
		(src ^ dst * 0x9e3779b1u ^ ports * 0x85ebca6bu ^ ip[9]) * 0xc2b2ae35u;
	struct flow **at = &table[hash >> 16], *f = *at;

	while (f && (f->src != src || f->dst != dst || f->ports != ports ||
			    f->protocol != ip[9]))
		f = f->next;
	if (!f) {
		f = calloc(1, sizeof(*f));
		if (!f)
			abort();
		*f = (struct flow){*at, src, dst, ports, ip[9], 0, 0};
		*at = f;
	}
	f->packets++;
	f->bytes += p->len;
	return 0;
}

static struct pr_address_map *map;

/* Both addresses, and the header's checksum. */
__attribute__((noinline)) static int
kernel_anonymize(const struct pr_packet *p)
{
	uint8_t *ip = (uint8_t *)p->data + 14;
	uint32_t sum = 0;

	if (p->caplen < 34 || pr_get_be16(p->data + 12) != 0x0800)
		return 0;
	pr_address_map(map, ip + 12, 4);
	pr_address_map(map, ip + 16, 4);
	pr_put_be16(ip + 10, 0);
	for (int i = 0; i < 20; i += 2)
		sum += pr_get_be16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	pr_put_be16(ip + 10, (uint16_t) ~(sum + (sum >> 16)));
	return 0;
}

static int
kernel_none(const struct pr_packet *p)
{
	return p->len == UINT32_MAX;
}

/* ---- stages ---- */

static const struct packrack_stage *stage;
static void *state;

__attribute__((noinline)) static int
stage_packet(const struct pr_packet *p)
{
	struct packrack_packet out = {.data = (uint8_t *)p->data, .scale = 1};

	PR_COPY(&out, p, time, seq, caplen, len, linktype, link);
	stage->packet(state, &out);
	free(out.line);
	return 0;
}

/* What callgrind counts. */
void one_packet(int (*work)(const struct pr_packet *p), const struct pr_packet *p);
__attribute__((noinline)) void
one_packet(int (*work)(const struct pr_packet *p), const struct pr_packet *p)
{
	work(p);
}

static double
now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
run_shards(const char *name, unsigned shards, struct pr_string_list *set)
{
	struct pri_stage_options o = {.shards = shards, .set = *set};
	struct pri_stage_run *run = pri_stage_start(name, &o, &err);
	double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);

	if (!run)
		die();
	for (size_t i = 0; i < count; i++)
		if (pri_stage_packet(run, &packets[i], &err) < 0)
			die();
	char *text = pri_stage_finish(run, &err);
	if (!text)
		die();
	wall = now(CLOCK_MONOTONIC) - wall;
	cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	printf("%zu packets, %.3f s, %.0f a second, %.1f ns of CPU each\n", count, wall,
		(double)count / wall, cpu * 1e9 / (double)count);
	free(text);
	pri_stage_end(&run);
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*work)(const struct pr_packet *p);
	} kernels[] = {{"none", kernel_none}, {"kernel-count", kernel_count},
		{"kernel-http", kernel_http}, {"kernel-flows", kernel_flows},
		{"kernel-anonymize", kernel_anonymize}};
	int (*work)(const struct pr_packet *p) = stage_packet;
	static const uint8_t key[PR_ADDRESS_KEY] = "a key of thirty-two bytes......";
	struct pr_string_list set = {0};
	unsigned shards;
	char why[400];

	if (argc < 6)
		return 2;
	load(argv[1], strtoul(argv[2], NULL, 10), (uint32_t)strtoul(argv[3], NULL, 10));
	shards = (unsigned)strtoul(argv[5], NULL, 10);
	set = (struct pr_string_list){argv + 6, (size_t)argc - 6};
	if (shards) {
		run_shards(argv[4], shards, &set);
		return 0;
	}
	for (size_t i = 0; i < PR_COUNT(kernels); i++)
		if (!strcmp(kernels[i].name, argv[4]))
			work = kernels[i].work;
	map = pr_address_map_create(key, &err);
	if (work == stage_packet) {
		stage = pri_stage_find(argv[4], &err);
		if (!stage)
			die();
		state = stage->open((const char *const *)argv + 6, why, sizeof(why));
		if (!state) {
			fprintf(stderr, "bench_workloads: %s\n", why);
			return 1;
		}
	}
	for (size_t i = 0; i < count; i++)
		one_packet(work, &packets[i]);
	return 0;
}
