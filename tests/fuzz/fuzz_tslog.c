/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timestamp logs. Covers proto/wire/tslog.c
 * Options -max_len=4096
 */
#include <string.h>

#include "proto/wire/tslog.h"
#include "tests/fuzz/fuzz.h"

enum { ROOM = 64 << 10 };

/* Reads a log whole; the number of entries, or -1. */
static int
read_log(const uint8_t *body, size_t len, struct pr_tslog_header *header,
	struct pr_entry *entries)
{
	struct pr_tslog_reader r;
	int result, count = 0;

	if (pr_tslog_open(&r, body, len) < 0)
		return -1;
	*header = r.header;
	while ((result = pr_tslog_next(&r, &entries[count])) > 0)
		count++;
	MUST(pr_tslog_next(&r, &entries[count]) == result); /* it stays at its end */
	MUST(result < 0 || count == header->count);
	return result < 0 ? -1 : count;
}

/* A reader's entries go through a builder; some logs hold more than a builder puts into one. */
static size_t
build(const struct pr_tslog_header *h, const struct pr_entry *entries, int count,
	uint8_t *buf, const uint8_t **body)
{
	struct pr_tslog_builder b;

	pr_tslog_begin(&b, h->link, h->flags, h->number, buf, ROOM);
	for (int i = 0; i < count; i++)
		if (!pr_tslog_add(&b, &entries[i]))
			return 0;
	return pr_tslog_finish(&b, body);
}

static void
same(const struct pr_entry *a, const struct pr_entry *b)
{
	MUST(a->seq == b->seq && a->ordinal == b->ordinal);
	MUST(a->time == b->time && a->otime == b->otime);
	MUST(a->fingerprint == b->fingerprint && a->flags == b->flags);
	MUST(a->caplen == b->caplen && a->len == b->len && a->ethertype == b->ethertype);
	MUST(a->runt_len == b->runt_len && memcmp(a->runt, b->runt, sizeof a->runt) == 0);
	MUST(memcmp(a->macs, b->macs, sizeof a->macs) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct pr_entry first[PR_TSLOG_ENTRIES_MAX + 1],
		second[PR_TSLOG_ENTRIES_MAX + 1];
	static uint8_t buf[ROOM];
	struct pr_tslog_header h, again;
	const uint8_t *body;
	int count = read_log(data, size, &h, first);
	size_t len;

	if (count <= 0)
		return 0;
	len = build(&h, first, count, buf, &body);
	if (len == 0)
		return 0;
	MUST(read_log(body, len, &again, second) == count);
	MUST(again.number == h.number && again.link == h.link && again.flags == h.flags);
	for (int i = 0; i < count; i++)
		same(&first[i], &second[i]);
	return 0;
}
