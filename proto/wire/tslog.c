/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/tslog.h"

/*
 * Building. The entries are written straight behind the fixed header; the MAC table, whose size is
 * known at the end only, is put between them by one move when the log is finished.
 */
#define HEADER 39
#define PAIR_LEN 12
#define LEAD_EXT 0x80
#define LEAD_OTHER 0x40
#define LEAD_STEP 0x3f
/* lead, ext, seq, ordinal and time steps, fingerprint, pair, lengths, Ethertype, otime, runt */
#define ENTRY_MAX (1 + 1 + 10 + 10 + 10 + 4 + 1 + 5 + 5 + 2 + 10 + 1 + 13)

static uint8_t *
put_varint(uint8_t *p, uint64_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}

void
pr_tslog_begin(struct pr_tslog_builder *b, uint16_t link, uint16_t flags, uint64_t number,
	void *buf, size_t room)
{
	*b = (struct pr_tslog_builder){
		.buf = buf,
		.room = room,
		.header = {.link = link, .flags = flags, .number = number},
		.other_pair = 1,
	};
	b->entries = pr_writer_make(b->buf + HEADER, room > HEADER ? room - HEADER : 0);
}

/* Number of the entry's MAC pair, which may be one more than there are; -1: the table is full. */
static int
find_pair(const struct pr_tslog_builder *b, const uint8_t macs[PAIR_LEN])
{
	unsigned pairs = b->header.pairs;
	if (b->last_pair < pairs && memcmp(b->macs[b->last_pair], macs, PAIR_LEN) == 0)
		return b->last_pair;
	if (b->other_pair < pairs && memcmp(b->macs[b->other_pair], macs, PAIR_LEN) == 0)
		return b->other_pair;
	for (unsigned i = 0; i < pairs; i++)
		if (memcmp(b->macs[i], macs, PAIR_LEN) == 0)
			return (int)i;
	return pairs < PR_TSLOG_PAIRS_MAX ? (int)pairs : -1;
}

/* What comes behind the fingerprint, by ext flag. */
static uint8_t *
put_extras(uint8_t *p, const struct pr_entry *e, unsigned ext, unsigned pair)
{
	if (ext & PR_ENTRY_PAIR)
		*p++ = (uint8_t)pair;
	if (ext & PR_ENTRY_CAPLEN)
		p = put_varint(p, e->caplen);
	if (ext & PR_ENTRY_LEN)
		p = put_varint(p, e->len);
	if (ext & PR_ENTRY_ETHERTYPE) {
		pr_put_be16(p, e->ethertype);
		p += 2;
	}
	if (ext & PR_ENTRY_OTIME)
		p = put_varint(p, (uint64_t)e->otime - (uint64_t)e->time);
	if (ext & PR_ENTRY_RUNT) {
		*p++ = e->runt_len;
		memcpy(p, e->runt, e->runt_len);
		p += e->runt_len;
	}
	return p;
}

/* Writes at most ENTRY_MAX bytes. */
static uint8_t *
put_entry(const struct pr_tslog_builder *b, uint8_t *p, const struct pr_entry *e,
	unsigned pair)
{
	unsigned ext = e->flags & (unsigned)~(PR_ENTRY_PAIR | PR_ENTRY_OTIME);
	uint64_t step = e->seq - b->last_seq;
	uint8_t lead = step <= LEAD_STEP ? (uint8_t)step : 0;

	if (e->otime > e->time)
		ext |= PR_ENTRY_OTIME;
	if (pair != b->last_pair) {
		if (pair == b->other_pair)
			lead |= LEAD_OTHER;
		else
			ext |= PR_ENTRY_PAIR;
	}
	*p++ = ext ? lead | LEAD_EXT : lead;
	if (ext)
		*p++ = (uint8_t)ext;
	if ((lead & LEAD_STEP) == 0)
		p = put_varint(p, step);
	if (b->header.flags & PR_TSLOG_INTERLEAVED)
		p = put_varint(p, e->ordinal - b->last_ordinal - 1);
	p = put_varint(p, pr_zigzag((int64_t)((uint64_t)e->time - (uint64_t)b->last_time)));
	pr_put_be32(p, e->fingerprint);
	return ext ? put_extras(p + 4, e, ext, pair) : p + 4;
}

/* The log's first entry says where it starts. */
static void
start(struct pr_tslog_builder *b, const struct pr_entry *e)
{
	b->header.first_seq = e->seq;
	b->header.first_ordinal = e->ordinal;
	b->header.base_time = e->time;
	b->last_seq = e->seq - 1;
	b->last_ordinal = e->ordinal - 1;
	b->last_time = e->time;
}

static bool
may_follow(const struct pr_tslog_builder *b, const struct pr_entry *e)
{
	if (e->seq == 0 || e->ordinal == UINT64_MAX || e->runt_len > sizeof e->runt)
		return false;
	if (b->header.count == 0)
		return true;
	if (b->header.count == PR_TSLOG_ENTRIES_MAX || e->seq <= b->last_seq)
		return false;
	return b->header.flags & PR_TSLOG_INTERLEAVED ? e->ordinal > b->last_ordinal
						      : e->ordinal == b->last_ordinal + 1;
}

bool
pr_tslog_add(struct pr_tslog_builder *b, const struct pr_entry *e)
{
	uint8_t near_end[ENTRY_MAX];
	int pair = e->flags & PR_ENTRY_RUNT ? b->last_pair : find_pair(b, e->macs);

	if (pair < 0 || !may_follow(b, e))
		return false;
	bool grow = !(e->flags & PR_ENTRY_RUNT) && pair == b->header.pairs;
	size_t table = (size_t)(b->header.pairs + grow) * PAIR_LEN;
	if (pr_writer_room(&b->entries) < table)
		return false;
	size_t room = pr_writer_room(&b->entries) - table;

	if (b->header.count == 0)
		start(b, e);
	/* Straight into the log, except where the longest of entries might not fit. */
	uint8_t *p = room >= ENTRY_MAX ? b->entries.at : near_end;
	size_t len = (size_t)(put_entry(b, p, e, (unsigned)pair) - p);
	if (len > room)
		return false;
	if (p == near_end)
		memcpy(b->entries.at, near_end, len);
	b->entries.at += len;

	if (grow)
		memcpy(b->macs[b->header.pairs++], e->macs, PAIR_LEN);
	if (pair != b->last_pair) {
		b->other_pair = b->last_pair;
		b->last_pair = (uint8_t)pair;
	}
	b->last_seq = e->seq;
	b->last_ordinal = e->ordinal;
	b->last_time = e->time;
	b->header.count++;
	return true;
}

size_t
pr_tslog_finish(struct pr_tslog_builder *b, const uint8_t **body)
{
	const struct pr_tslog_header *h = &b->header;
	size_t table = (size_t)h->pairs * PAIR_LEN, len = pr_writer_len(&b->entries);
	uint8_t *p = b->buf;

	*body = p;
	if (h->count == 0)
		return 0;
	memmove(p + HEADER + table, p + HEADER, len);
	memcpy(p + HEADER, b->macs, table);
	pr_put_be16(p, h->link);
	pr_put_be16(p + 2, h->flags);
	pr_put_be64(p + 4, h->number);
	pr_put_be64(p + 12, h->first_seq);
	pr_put_be64(p + 20, h->first_ordinal);
	pr_put_be64(p + 28, (uint64_t)h->base_time);
	pr_put_be16(p + 36, h->count);
	p[38] = h->pairs;
	return HEADER + table + len;
}
