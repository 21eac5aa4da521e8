/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of segments whose times, lengths and bytes are anything. Covers indexer/index/builder.c
 * indexer/index/summarize.c indexer/index/segment_keys.c
 * Options -max_len=2048
 *
 * The input is packets: a first byte (bits 0 to 2: which time, bit 3: a new segment before it, bit 4: seqs with a
 * hole, bit 5: another link type, bit 6: the segment is damaged, bit 7: a segment is left out), 8 bytes for the
 * time, a length and so many bytes. Each record can be opened, and is about segments that were given.
 */
#include <string.h>

#include "tests/unit/builder_add.h"
#include "indexer/index/level1.h"
#include "indexer/index/level2.h"
#include "proto/base/clock.h"
#include "proto/wire/segment.h"
#include "proto/wire/summary.h"
#include "tests/fuzz/fuzz.h"

#define RECORD_MAX (512 << 10)

static uint64_t sequence; /* of the next segment */

static int
take(void *arg, const struct pr_index_record *r)
{
	static struct pri_level2 level2;
	struct pr_summary_span span;
	struct pri_level1 level1;

	(void)arg;
	MUST(r->len <= RECORD_MAX && r->segments && r->min_time <= r->max_time);
	MUST(r->first_sequence && r->first_sequence + r->segments <= sequence);
	if (r->level == 1)
		MUST(pri_level1_open(&level1, r->body, r->len, r->len, NULL) == 0 &&
			level1.segments == r->segments);
	else if (r->level == 2)
		MUST(pri_level2_open(&level2, r->body, r->len, r->len, NULL) == 0);
	else
		MUST(pr_summary_peek(&span, r->body, r->len, NULL) == 0 &&
			span.segments == r->segments);
	return 0;
}

struct input {
	const uint8_t *at;
	size_t left;
};

static const uint8_t *
bytes(struct input *in, size_t len)
{
	const uint8_t *at = in->at;

	if (len > in->left)
		return NULL;
	in->at += len;
	in->left -= len;
	return at;
}

static int64_t
time_of(uint8_t which, const uint8_t *eight, int64_t before)
{
	int64_t any;

	memcpy(&any, eight, sizeof(any));
	switch (which & 7) {
	case 0:
		return INT64_MIN;
	case 1:
		return INT64_MAX;
	case 2:
		return any;
	case 3:
		return 0;
	default:
		return (int64_t)((uint64_t)before + (eight[0] << (which & 7)));
	}
}

static void
add(struct pri_builder *b, struct pr_segment_builder *segment, uint8_t flags)
{
	size_t len = pr_segment_seal(segment);

	sequence += flags >> 7;
	if (!len)
		return;
	if (flags & 0x40)
		segment->buf[PR_SEGMENT_HEADER + sequence % (len - PR_SEGMENT_HEADER)] ^=
			0x10;
	sequence++;
	MUST(pri_builder_add(b, sequence - 1, sequence * 7, segment->buf, len, NULL) == 1);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t room[8192];
	struct input in = {data, size};
	struct pri_builder *b = pri_builder_create(3, RECORD_MAX, take, NULL, NULL);
	struct pr_packet p = {.epoch = 5, .link = 3, .linktype = 1};
	struct pr_segment_builder segment;
	struct pr_summary_span tail[2];
	const uint8_t *head;

	MUST(b);
	sequence = 1;
	pr_segment_begin(&segment, room, sizeof room, 0);
	while ((head = bytes(&in, 10)) && (p.data = bytes(&in, head[9]))) {
		if (*head & 0x88) {
			add(b, &segment, *head);
			pr_segment_begin(&segment, room, sizeof room, 0);
			p.linktype = *head & 0x20 ? 101 : 1;
		}
		p.time = time_of(*head, head + 1, p.time);
		if (!p.seq || p.time > p.otime)
			p.otime = p.time;
		p.seq += *head & 0x10 ? 1 + head[1] : 1;
		p.caplen = p.len = head[9];
		segment.header.epoch = p.epoch;
		segment.header.link = p.link;
		segment.header.linktype = p.linktype;
		pr_segment_add(&segment, &p);
		pri_builder_tail(b, tail);
	}
	add(b, &segment, 0);
	MUST(pri_builder_finish(b, PRI_BUILDER_ALL, NULL) == 1);
	pri_builder_destroy(&b);
	return 0;
}
