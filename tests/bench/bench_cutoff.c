/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <time.h>

#include "dispatcher/cutoff.h"
#include "dispatcher/sender.h"
#include "tests/bench/bench_trace.h"

/*
 * What a packet costs in the cutoff: usage bench_cutoff CASE PACKETS. Prints the case, the packets, CPU ns a packet, and the share
 * of the bytes that is kept. Connections are in the table before it begins, and packets come from memory that is in the cache,
 * as a captured one is; the work is done in collected(), as in bench_cores.c.
 */
#define LIVE                                                                               \
	1000000u /* connections: with 128 MiB, the default, there is room for 1.1 million */
#define MEMORY (UINT64_C(128) << 20)
#define STEP 1000 /* ns between packets: a million a second */
#define BEGIN INT64_C(1700000000000000000)
enum { HEADERS = 66, BATCH = 256, ROOM = 1600 };

static uint64_t state = 88172645463325252u;

static uint64_t
next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

/* Each as likely as another; or few have most of the packets: the chance of connection n falls as 1 / n. */
static uint32_t
pick(uint32_t live, bool heavy_tail)
{
	uint64_t bits = next_random();

	if (!heavy_tail)
		return (uint32_t)((bits >> 32) * live >> 32);
	/* log-uniform: an octave, and a place in it */
	unsigned octave = (unsigned)((bits >> 48) * 20 >> 16);
	uint32_t n = (1u << octave) - 1 + (uint32_t)((bits & 0xffffffff) >> (32 - octave));
	return octave && n < live ? n : (uint32_t)(bits & 0xff) % live;
}

/* A TCP packet of connection n. */
static void
put_headers(uint8_t *p, uint32_t n, uint32_t len)
{
	static const uint8_t head[] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0,
		0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10};
	uint32_t mixed = n * 2654435761u;

	memset(p, 0, HEADERS);
	memcpy(p, head, sizeof head);
	pr_put_be16(p + 16, (uint16_t)(len - 14));
	p[27] = (uint8_t)(mixed >> 24);
	pr_put_be16(p + 28, (uint16_t)mixed);
	pr_put_be32(p + 30, 0xc0a80000 + (n & 0xfff));
	pr_put_be16(p + 34, (uint16_t)(1024 + (n >> 12) * 13));
	pr_put_be16(p + 36, 443);
	p[46] = 0x80;
	p[47] = 0x10;
}

static const struct bench_case {
	const char *name;
	const char *class;
	uint32_t live;
	bool heavy_tail;
} cases[] = {
	{"few-kept", "all", 1000, false},
	{"million-kept", "all", LIVE, false},
	{"mix-kept", "all", LIVE, true},
	{"mix-15K", "all; cutoff = 15K", LIVE, true},
	{"mix-15K-by-filter", "web; filter = tcp port 443; cutoff = 15K", LIVE, true},
	/* for scale: the frame for a node, and its entry in a timestamp log */
	{"prepare-and-log", NULL, LIVE, true},
};
#define CASES (sizeof cases / sizeof cases[0])

struct batch {
	struct {
		struct prd_record record;
		uint8_t data[ROOM];
	} items[BATCH];
	unsigned count;
};

static struct batch batch;
static struct prd_cutoff *cutoff;
static struct pr_tslog_builder logs;
static uint64_t bytes, kept_bytes, entries;
static volatile uint64_t sink;

static void
fill_batch(const struct bench_case *c, uint64_t first, uint64_t n)
{
	for (batch.count = 0; batch.count < BATCH && batch.count < n; batch.count++) {
		struct prd_record *r = &batch.items[batch.count].record;
		uint64_t of_six = next_random() % 6;

		r->len = of_six < 2 ? 66 : of_six == 5 ? 1514 : 100 + next_random() % 500;
		r->caplen = r->len;
		r->link = 0;
		r->time = BEGIN + (int64_t)(first + batch.count) * STEP;
		put_headers(r->data, pick(c->live, c->heavy_tail), r->len);
		bytes += r->len;
	}
}

static void
take_sums(int64_t until)
{
	uint8_t frame[PR_BEYOND_MAX];
	int64_t time;

	if (prd_cutoff_oldest(cutoff, 0) < until)
		while (prd_cutoff_take(cutoff, 0, until, frame, &time))
			sink += frame[30];
}

static void
cut(void)
{
	for (unsigned i = 0, looked = 0; i < batch.count; i++) {
		struct prd_record *r = &batch.items[i].record;

		while (looked < batch.count && prd_cutoff_looks(cutoff, 0)) {
			const struct prd_record *later = &batch.items[looked++].record;

			prd_cutoff_look(cutoff, 0, later->data, later->caplen);
		}
		if (prd_cutoff_keeps(cutoff, 0, r->time, r->data, r->caplen, r->len)) {
			prd_cutoff_kept(cutoff, &r->caplen, &r->class);
			kept_bytes += r->len;
		}
	}
	take_sums(batch.items[batch.count - 1].record.time);
}

static void
prepare_and_log(void)
{
	static const struct prd_prepare prepare = {
		.src = {2, 0, 0, 0, 0, 9}, .ethertype = PR_ETHERTYPE_DEFAULT, .epoch = 7};
	static const uint8_t node[PR_MAC_LEN] = {2, 0, 0, 0, 0, 8};
	static uint8_t room[1508 - PR_FRAME_HEADER - PR_FRAME_TAG];
	const uint8_t *body;

	for (unsigned i = 0; i < batch.count; i++) {
		struct prd_record *r = &batch.items[i].record;
		struct pr_entry e;

		sink += prd_prepare(&prepare, r, node, 1600, &e);
		e.seq = e.ordinal = ++entries;
		e.otime = e.time;
		if (!logs.room || !pr_tslog_add(&logs, &e)) {
			if (logs.room)
				sink += pr_tslog_finish(&logs, &body);
			pr_tslog_begin(&logs, 0, 0, 1, room, sizeof room);
			pr_tslog_add(&logs, &e);
		}
		kept_bytes += r->len;
	}
}

void collected(const struct bench_case *c);

__attribute__((noinline)) void
collected(const struct bench_case *c)
{
	if (c->class)
		cut();
	else
		prepare_and_log();
}

/*
 * Bytes of a connection before it begins: in the mix, of 100 million packets. Then 15 KB keep about a tenth of the bytes, as
 * Maier et al. report.
 */
static uint32_t
bytes_before(const struct bench_case *c, uint32_t n)
{
	uint64_t before = c->heavy_tail ? UINT64_C(3300000000) / (n + 1) : 0;

	return (uint32_t)PR_MIN(before + 100, UINT32_MAX);
}

static void
set_up(const struct bench_case *c)
{
	char *text = (char *)(uintptr_t)c->class;
	const struct pr_string_list list = {&text, 1};
	struct pr_error err;
	uint8_t data[HEADERS];

	cutoff = prd_cutoff_create(
		&(struct prd_cutoff_options){
			.classes = &list, .memory = MEMORY, .links = 1},
		&err);
	if (!cutoff)
		die(err.text);
	for (uint32_t n = 0; n < c->live; n++) {
		put_headers(data, n, 100);
		prd_cutoff_keeps(cutoff, 0, BEGIN, data, sizeof data, bytes_before(c, n));
	}
	if (prd_cutoff_figures(cutoff)->connections != c->live)
		die("connections are not what they should be");
}

static double
cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int
main(int argc, char **argv)
{
	uint64_t n = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;

	for (size_t i = 0; i < CASES; i++) {
		double ns = 0;

		if (argc == 2 && strcmp(argv[1], "list") == 0)
			puts(cases[i].name);
		if (!n || strcmp(argv[1], cases[i].name) != 0)
			continue;
		if (cases[i].class)
			set_up(&cases[i]);
		for (uint64_t done = 0; done < n; done += batch.count) {
			fill_batch(&cases[i], done, n - done);
			double begin = cpu_ns();
			collected(&cases[i]);
			ns += cpu_ns() - begin;
		}
		printf("%s %llu %.2f %.2f\n", argv[1], (unsigned long long)n,
			ns / (double)n, 100 * (double)kept_bytes / (double)bytes);
		prd_cutoff_destroy(&cutoff);
	}
	return n || argc == 2 ? 0 : 2;
}
