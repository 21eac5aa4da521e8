/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "tests/unit/builder_add.h"
#include "proto/base/clock.h"
#include "proto/base/cursor.h"
#include "proto/wire/segment.h"
#include "tests/unit/unit.h"

/* Segments made up, and the records of the index that a builder makes of them. */

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define RECORD_MAX (1000 * 1000)

static struct pr_error err;

struct segment {
	uint8_t body[40000];
	size_t len;
	uint64_t seqs[400];
	uint32_t count;
};

static inline uint32_t
pick(uint32_t n)
{
	return (uint32_t)random() % n;
}

static inline void
make_frame(uint8_t *d, uint32_t hosts)
{
	memset(d, 0, 64);
	d[5] = (uint8_t)pick(3);
	d[11] = (uint8_t)pick(3);
	pr_put_be16(d + 12, 0x0800);
	d[14] = 0x45;
	d[23] = pick(2) ? 6 : 17;
	pr_put_be32(d + 26, 0x0a000000 + pick(hosts) * 7919);
	pr_put_be32(d + 30, 0xc0000200 + pick(hosts) * 104729);
	pr_put_be16(d + 34, (uint16_t)(1024 + pick(hosts)));
	pr_put_be16(d + 36, (uint16_t)pick(100));
}

/* step 1: seqs without holes; more: some in turn; 0: at random */
static inline void
make_segment(struct segment *s, uint64_t seq, uint32_t count, uint32_t hosts, uint32_t step)
{
	struct pr_segment_builder b;
	uint8_t frame[64];
	int64_t time = (int64_t)seq * PR_NS_PER_S / 100;

	pr_segment_begin(&b, s->body, sizeof(s->body), 0);
	for (s->count = 0; s->count < count; s->count++) {
		struct pr_packet p = {.time = time,
			.otime = time,
			.epoch = 1,
			.seq = seq,
			.linktype = 1,
			.data = frame,
			.caplen = 60,
			.len = 60 + pick(1000)};

		make_frame(frame, hosts);
		ck_assert(pr_segment_add(&b, &p));
		s->seqs[s->count] = seq;
		seq += step ? step : 1 + pick(5);
		time += pick(100 * 1000 * 1000);
	}
	s->len = pr_segment_seal(&b);
}

#define RECORDS 64
struct records {
	struct pr_index_record items[RECORDS];
	size_t count;
	unsigned refuse; /* so many times */
};

static inline int
take(void *arg, const struct pr_index_record *record)
{
	struct records *r = arg;
	struct pr_summary s;
	uint8_t *copy;

	if (record->level == 3) { /* tests/unit/test_summary.c looks at those */
		ck_assert_int_eq(pr_summary_open(&s, record->body, record->len, &err), 0);
		ck_assert_uint_eq(s.span.segments, record->segments);
		return 0;
	}
	if (r->refuse) {
		r->refuse--;
		return 1;
	}
	ck_assert_uint_lt(r->count, RECORDS);
	copy = malloc(record->len);
	memcpy(copy, record->body, record->len);
	r->items[r->count] = *record;
	r->items[r->count++].body = copy;
	return 0;
}

static inline void
free_records(struct records *r)
{
	for (size_t i = 0; i < r->count; i++)
		free((void *)(uintptr_t)r->items[i].body);
	*r = (struct records){0};
}
