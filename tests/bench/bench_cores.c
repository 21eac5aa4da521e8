/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/wire/decode.h"
#include "proto/wire/segment.h"
#include "proto/wire/tslog.h"
#include "tests/unit/wire_whole.h"

/*
 * The pure cores, one by one, over a pool of packets like a gateway's: usage bench_cores CORE PACKETS.
 * Prints the core, the packets and ns a packet. The work is done in collected(), so that
 * valgrind --tool=callgrind --toggle-collect=collected counts it, and no setting up.
 */
#define POOL 4096
#define EPOCH UINT64_C(0x65537f00deadbeef)
#define LOG_ROOM (1508 - PR_FRAME_HEADER - PR_FRAME_TAG)
#define INPUTS 4

static uint8_t pool_data[POOL][1600];
static uint32_t pool_len[POOL];
static struct pr_entry pool_entry[POOL];
static struct pr_decoded pool_decoded[POOL];

static uint8_t log_buf[LOG_ROOM];
static uint8_t *segment_buf[INPUTS];
static size_t segment_len[INPUTS];
static size_t segment_room = 8 << 20;
static volatile uint64_t sink; /* what is worked out must not be left out */

static void
die(const char *what)
{
	fprintf(stderr, "bench_cores: %s\n", what);
	exit(1);
}

/* A third TCP acknowledgements, a sixth full frames, the rest between: a mean near 450 bytes. */
static uint32_t
make_length(void)
{
	int kind = rand() % 6;
	if (kind < 2)
		return 66;
	return kind == 5 ? 1514 : 100 + (uint32_t)rand() % 500;
}

static void
make_packet(uint8_t *p, uint32_t len)
{
	static const uint8_t head[] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0x45,
		0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 0, 192, 168, 0, 0};
	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)rand();
	memcpy(p, head, sizeof head);
	if (rand() % 2) { /* the other direction */
		p[5] = 2;
		p[11] = 1;
	}
	pr_put_be16(p + 16, (uint16_t)(len - 14));
	p[23] = rand() % 4 ? 6 : 17;
	p[29] = (uint8_t)rand();
	p[33] = (uint8_t)rand();
	p[46] = 0x50 + (len == 66 ? 0x30 : 0);
}

static void
make_pool(void)
{
	srand(1);
	for (unsigned i = 0; i < POOL; i++) {
		pool_len[i] = make_length();
		make_packet(pool_data[i], pool_len[i]);
		memcpy(pool_entry[i].macs, pool_data[i], sizeof pool_entry[i].macs);
		pool_entry[i].fingerprint =
			pr_fingerprint(pool_data[i], pool_len[i], EPOCH);
		pool_entry[i].time = rand() % 50000;
		pr_decode(1, pool_data[i], pool_len[i], &pool_decoded[i]);
	}
}

static struct pr_packet
packet(uint64_t i)
{
	return (struct pr_packet){.time = (int64_t)i * 6666,
		.otime = (int64_t)i * 6666,
		.epoch = EPOCH,
		.seq = i + 1,
		.caplen = pool_len[i % POOL],
		.len = pool_len[i % POOL],
		.linktype = 1,
		.data = pool_data[i % POOL]};
}

/* The packets round robin over INPUTS segments; all in the first one for a single reader. */
static void
make_segments(unsigned inputs)
{
	struct pr_segment_builder b[INPUTS];
	for (unsigned k = 0; k < inputs; k++) {
		segment_buf[k] = malloc(segment_room);
		if (!segment_buf[k])
			die("no memory");
		pr_segment_begin(&b[k], segment_buf[k], segment_room, 0);
	}
	for (uint64_t i = 0; i < POOL; i++) {
		struct pr_packet p = packet(i);
		if (!pr_segment_add(&b[i % inputs], &p))
			die("segment is too small");
	}
	for (unsigned k = 0; k < inputs; k++)
		segment_len[k] = pr_segment_seal(&b[k]);
}

static void
fingerprint(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		sink += pr_fingerprint(pool_data[i % POOL], pool_len[i % POOL], EPOCH);
}

static void
tslog_add(uint64_t n)
{
	struct pr_tslog_builder b;
	const uint8_t *body;
	int64_t now = INT64_C(1700000000000000000);
	uint64_t number = 1;

	pr_tslog_begin(&b, 0, 0, number, log_buf, sizeof log_buf);
	for (uint64_t i = 0; i < n; i++) {
		struct pr_entry *e = &pool_entry[i % POOL];
		int64_t gap = e->time;
		e->seq = 4 * i + 1;
		e->ordinal = i;
		e->time = e->otime = now += gap;
		if (!pr_tslog_add(&b, e)) {
			sink += pr_tslog_finish(&b, &body);
			pr_tslog_begin(&b, 0, 0, ++number, log_buf, sizeof log_buf);
			if (!pr_tslog_add(&b, e))
				die("an empty log is full");
		}
		e->time = gap;
	}
	sink += pr_tslog_finish(&b, &body);
}

static void
tslog_next(uint64_t n)
{
	struct pr_tslog_reader r;
	struct pr_entry e;
	uint64_t seen = 0;

	while (seen < n) {
		if (pr_tslog_open(&r, log_buf, segment_len[0]) < 0)
			die("a log does not open");
		while (seen < n && pr_tslog_next(&r, &e) == 1) {
			sink += e.seq;
			seen++;
		}
	}
}

static void
segment_add(uint64_t n)
{
	struct pr_segment_builder b;
	pr_segment_begin(&b, segment_buf[0], PR_SEGMENT_TARGET, 0);
	for (uint64_t i = 0; i < n; i++) {
		struct pr_packet p = packet(i);
		if (!pr_segment_add(&b, &p)) {
			sink += pr_segment_seal(&b);
			pr_segment_begin(&b, segment_buf[0], PR_SEGMENT_TARGET, 0);
			if (!pr_segment_add(&b, &p))
				die("an empty segment is full");
		}
	}
}

static void
segment_next(uint64_t n)
{
	struct pr_segment_reader r;
	struct pr_packet p;
	uint64_t seen = 0;

	while (seen < n) {
		if (pr_segment_open(&r, segment_buf[0], segment_len[0], NULL) < 0)
			die("a segment does not open");
		while (seen < n && pr_segment_next(&r, &p, NULL) == 1) {
			sink += p.seq;
			seen++;
		}
	}
}

/* Segments of INPUTS nodes to one order, reading of the segments included. */
static void
merge(uint64_t n)
{
	struct pr_packet p;
	uint64_t seen = 0;

	while (seen < n) {
		struct pr_source *m = pr_merge_create(NULL);
		if (!m)
			die("no memory");
		for (unsigned k = 0; k < INPUTS; k++) {
			struct pr_source *s =
				segment_source(segment_buf[k], segment_len[k], NULL);
			if (!s || pr_merge_add(m, s, NULL) < 0)
				die("a segment does not open");
		}
		while (seen < n && pr_source_next(m, &p, NULL) == PR_SOURCE_PACKET) {
			sink += p.seq;
			seen++;
		}
		pr_source_destroy(&m);
	}
}

static void
decode(uint64_t n)
{
	struct pr_decoded d;
	for (uint64_t i = 0; i < n; i++) {
		pr_decode(1, pool_data[i % POOL], pool_len[i % POOL], &d);
		sink += d.outer.l4_offset;
	}
}

static void
flow_hash(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		sink += pr_flow_hash(&pool_decoded[i % POOL], pool_data[i % POOL],
			pool_len[i % POOL], EPOCH);
}

/* One whole log, for its reader. */
static void
make_log(void)
{
	struct pr_tslog_builder b;
	const uint8_t *body;
	uint64_t i = 0;

	pr_tslog_begin(&b, 0, 0, 1, log_buf, sizeof log_buf);
	for (struct pr_entry e = pool_entry[0];; e = pool_entry[++i]) {
		e.seq = 4 * i + 1;
		e.ordinal = i;
		e.time = e.otime = (int64_t)i * 26666 + e.time % 1000;
		if (!pr_tslog_add(&b, &e))
			break;
	}
	segment_len[0] = pr_tslog_finish(&b, &body);
}

static const struct core {
	const char *name;
	void (*work)(uint64_t n);
	unsigned segments; /* to be made for it */
} cores[] = {
	{"fingerprint", fingerprint, 0},
	{"tslog_add", tslog_add, 0},
	{"tslog_next", tslog_next, 0},
	{"segment_add", segment_add, 1},
	{"segment_next", segment_next, 1},
	{"merge", merge, INPUTS},
	{"decode", decode, 0},
	{"flow_hash", flow_hash, 0},
};
#define CORES (sizeof cores / sizeof cores[0])

void collected(const struct core *core, uint64_t n);

__attribute__((noinline)) void
collected(const struct core *core, uint64_t n)
{
	core->work(n);
}

static int64_t
now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int
main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "list") == 0) {
		for (size_t i = 0; i < CORES; i++)
			puts(cores[i].name);
		return 0;
	}
	uint64_t n = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
	for (size_t i = 0; n && i < CORES; i++) {
		if (strcmp(argv[1], cores[i].name) != 0)
			continue;
		make_pool();
		make_log();
		if (cores[i].segments)
			make_segments(cores[i].segments);
		int64_t begin = now_ns();
		collected(&cores[i], n);
		printf("%s %llu %.2f\n", argv[1], (unsigned long long)n,
			(double)(now_ns() - begin) / (double)n);
		return 0;
	}
	fputs("usage: bench_cores list | CORE PACKETS\n", stderr);
	return 2;
}
