/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_index build FILE ROUNDS     the index of its segments, in memory: figures, CPU ns a packet
 * bench_index hash                  what a key costs: hashing by length, a bit of a signature, the set
 */
#include <time.h>

#include "tests/unit/builder_add.h"
#include "indexer/index/segment_tables.h"
#include "indexer/index/index_key.h"
#include "indexer/index/level2.h"
#include "proto/wire/segment.h"
#include "tests/bench/bench_trace.h"

static struct trace trace;

static double
cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- building ---- */

static uint64_t records[3], record_bytes[3];

static int
sink(void *arg, const struct pr_index_record *r)
{
	(void)arg;
	records[r->level]++;
	record_bytes[r->level] += r->len;
	return 0;
}

struct segments {
	uint8_t **body;
	size_t *len, count;
	uint64_t packets, bytes;
};

/* All as segments, cut as the logger cuts them. */
static struct segments
make_segments(void)
{
	struct segments s = {0};
	struct pr_segment_builder b;
	const uint8_t *record;
	uint32_t caplen;
	size_t at = GLOBAL, room = PR_SEGMENT_TARGET;
	uint8_t *buf = malloc(room);

	pr_segment_begin(&b, buf, room, 0);
	for (bool more = true; more;) {
		struct pr_packet p = {0};

		more = trace_next(&trace, &at, &record, &caplen);
		if (more)
			p = (struct pr_packet){.time = (int64_t)record_us(record) * 1000,
				.otime = (int64_t)record_us(record) * 1000,
				.seq = ++s.packets,
				.linktype = (uint16_t)record_linktype(&trace),
				.caplen = caplen,
				.len = pr_get_le32(record + 12),
				.data = record + RECORD};
		if (more && pr_segment_add(&b, &p))
			continue;
		s.body = realloc(s.body, (s.count + 1) * sizeof(*s.body));
		s.len = realloc(s.len, (s.count + 1) * sizeof(*s.len));
		s.len[s.count] = pr_segment_seal(&b);
		s.bytes += s.len[s.count];
		s.body[s.count++] = buf;
		buf = malloc(room);
		pr_segment_begin(&b, buf, room, 0);
		if (more)
			pr_segment_add(&b, &p);
	}
	free(buf);
	return s;
}

static void
build(const char *path, unsigned rounds)
{
	struct pr_error err;
	struct segments s;
	struct pri_builder *b = pri_builder_create(0, 1000000, sink, NULL, &err);
	const struct pri_builder_figures *f = pri_builder_figures(b);
	uint64_t sequence = 1;
	double begin, ns;

	trace = trace_load(path);
	s = make_segments();
	begin = cpu_ns();
	for (unsigned r = 0; r < rounds; r++)
		for (size_t i = 0; i < s.count; i++, sequence++)
			pri_builder_add(b, sequence, sequence, s.body[i], s.len[i], &err);
	pri_builder_finish(b, PRI_BUILDER_ALL, &err);
	ns = cpu_ns() - begin;
	printf("packets %llu ns %.2f bytes %llu segments %llu keys %llu level1 %llu level2 "
	       "%llu "
	       "records1 %llu records2 %llu\n",
		(unsigned long long)f->packets, ns / (double)f->packets,
		(unsigned long long)f->bytes, (unsigned long long)f->segments,
		(unsigned long long)f->keys, (unsigned long long)record_bytes[1],
		(unsigned long long)record_bytes[2], (unsigned long long)records[1],
		(unsigned long long)records[2]);
	pri_builder_destroy(&b);
}

/* ---- what a key costs ---- */

#define TIMES 20000000u
static volatile uint64_t kept;

static double
hash_ns(size_t len)
{
	struct pri_key key = {.kind = PRI_KEY_FLOW, .len = (uint8_t)len};
	double begin = cpu_ns();
	uint64_t sum = 0;

	for (uint32_t i = 0; i < TIMES; i++) {
		key.bytes[0] = (uint8_t)i;
		sum += pri_key_hash(&key);
	}
	kept = sum;
	return (cpu_ns() - begin) / TIMES;
}

static void
hash(void)
{
	static const size_t lens[] = {1, 2, 4, 8, 16, 32, 37};
	static uint8_t words[8192 / 8];
	struct pri_hashset set = {0};
	double begin;

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		printf("hash%zu %.2f\n", lens[i], hash_ns(lens[i]));
	begin = cpu_ns();
	for (uint32_t i = 0; i < TIMES; i++)
		for (unsigned j = 0; j < PRI_SLICES_PAGES; j++) {
			struct pri_slice_walk walk =
				pri_slice_walk_begin(i * 0x9e3779b97f4a7c15u, j, 1);

			for (int k = 0; k < PRI_SLICES_PROBES; k++, walk.at += walk.step) {
				uint32_t bit = pri_reduce(walk.at, 8192);

				words[bit / 8] |= (uint8_t)(1u << bit % 8);
			}
		}
	kept = words[7];
	printf("bit %.2f\n",
		(cpu_ns() - begin) / TIMES / (PRI_SLICES_PAGES * PRI_SLICES_PROBES));
	begin = cpu_ns();
	for (uint32_t i = 0; i < TIMES; i++) {
		if (i % 5000 == 0)
			pri_hashset_clear(&set);
		if (pri_hashset_prepare(&set, 1) == 0)
			pri_hashset_put(&set, (uint64_t)(i % 500) * 0x9e3779b97f4a7c15u);
	}
	printf("set %.2f\n", (cpu_ns() - begin) / TIMES);
	pri_hashset_free(&set);
}

int
main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "build"))
		build(argv[2], (unsigned)atoi(argv[3]));
	else if (argc == 2 && !strcmp(argv[1], "hash"))
		hash();
	else
		die("build FILE ROUNDS | hash");
	return 0;
}
