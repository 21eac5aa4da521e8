/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments, and the source over them. Covers proto/wire/segment.c
 * Options -max_len=4096
 */
#include <string.h>

#include "proto/wire/segment.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/wire_whole.h"

enum { ROOM = 64 << 10 };

static void
same(const struct pr_packet *a, const struct pr_packet *b)
{
	MUST(pr_packet_compare(a, b) == 0);
	MUST(a->time == b->time && a->flags == b->flags && a->linktype == b->linktype);
	MUST(a->caplen == b->caplen && a->len == b->len);
	MUST(memcmp(a->data, b->data, a->caplen) == 0);
}

/* A whole segment, built again, holds the same packets. */
static void
check_again(const uint8_t *data, size_t size, const uint8_t *built, size_t len)
{
	struct pr_segment_reader a, b;
	struct pr_packet p, q;
	int result;

	MUST(pr_segment_open(&a, data, size, NULL) == 0);
	MUST(pr_segment_open(&b, built, len, NULL) == 0);
	MUST(a.header.count == b.header.count);
	while ((result = pr_segment_next(&a, &p, NULL)) > 0) {
		MUST(pr_segment_next(&b, &q, NULL) == 1);
		same(&p, &q);
	}
	MUST(result == 0 && pr_segment_next(&b, &q, NULL) == 0);
}

static void
walk_source(const uint8_t *data, size_t size)
{
	struct pr_source *source = segment_source(data, size, NULL);
	struct pr_packet p;
	uint64_t sum = 0;

	while (source && pr_source_next(source, &p, NULL) == PR_SOURCE_PACKET)
		for (uint32_t i = 0; i < p.caplen; i++)
			sum += p.data[i];
	MUST(sum <= 255 * size);
	pr_source_destroy(&source);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t buf[ROOM];
	struct pr_segment_builder b;
	struct pr_segment_reader r;
	struct pr_error err = {""};
	struct pr_packet p;
	int result;

	walk_source(data, size);
	if (pr_segment_open(&r, data, size, &err) < 0) {
		MUST(err.text[0]);
		return 0;
	}
	pr_segment_begin(&b, buf, sizeof buf, r.header.flags);
	while ((result = pr_segment_next(&r, &p, &err)) > 0)
		MUST(pr_segment_add(&b, &p));
	if (result == 0)
		check_again(data, size, buf, pr_segment_seal(&b));
	else
		MUST(err.text[0] && pr_segment_next(&r, &p, &err) < 0);
	return 0;
}
