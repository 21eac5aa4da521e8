/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/tslog.h"

/* ---- building ---- */

/*
 * The entries are written right behind the fixed header. The size of the MAC table is known
 * only at the end: then one move of the entries makes room for it between the two.
 */
enum { HEADER = 39, PAIR_LEN = 12, LEAD_EXT = 0x80, LEAD_OTHER = 0x40, LEAD_STEP = 0x3f };
/* lead, ext, seq, ordinal and time steps, fingerprint, class, pair, lengths, Ethertype, otime, runt */
#define ENTRY_MAX (1 + 1 + 10 + 10 + 10 + 4 + 1 + 1 + 5 + 5 + 2 + 10 + 1 + 13)

static const struct pr_field header_items[] = {PR_INTS(pr_tslog_header, link, flags, number,
	first_seq, first_ordinal, base_time, count, pairs)};
static const struct pr_field_table header_fields = PR_FIELD_TABLE(header_items);

void
pr_tslog_begin(struct pr_tslog_builder *b, uint16_t link, uint16_t flags, uint64_t number,
	void *buf, size_t room)
{
	*b = (struct pr_tslog_builder){.buf = buf,
		.room = room,
		.header = {.link = link, .flags = flags, .number = number},
		.other_pair = 1};
	b->entries = pr_writer_make(b->buf + HEADER, room > HEADER ? room - HEADER : 0);
}

/*
 * Number of the entry's MAC pair; for a new pair the next free number; -1: the table is
 * full.
 */
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
			return i;
	return pairs < PR_TSLOG_PAIRS_MAX ? (int)pairs : -1;
}

/* What comes behind the fingerprint, by ext flag. */
static uint8_t *
put_extras(uint8_t *p, const struct pr_entry *e, unsigned ext, unsigned pair)
{
	if (ext & PR_ENTRY_PAIR)
		*p++ = pair;
	if (ext & PR_ENTRY_CAPLEN)
		p = pr_put_varint(p, e->caplen);
	if (ext & PR_ENTRY_LEN)
		p = pr_put_varint(p, e->len);
	if (ext & PR_ENTRY_ETHERTYPE) {
		pr_put_be16(p, e->ethertype);
		p += 2;
	}
	if (ext & PR_ENTRY_OTIME)
		p = pr_put_varint(p, (uint64_t)e->otime - (uint64_t)e->time);
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
	uint8_t lead = step <= LEAD_STEP ? step : 0;

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
		*p++ = ext;
	if ((lead & LEAD_STEP) == 0)
		p = pr_put_varint(p, step);
	if (b->header.flags & PR_TSLOG_INTERLEAVED)
		p = pr_put_varint(p, e->ordinal - b->last_ordinal - 1);
	p = pr_put_varint(p, pr_zigzag((uint64_t)e->time - (uint64_t)b->last_time));
	pr_put_be32(p, e->fingerprint);
	p += 4;
	if (b->header.flags & PR_TSLOG_CLASSES)
		*p++ = e->class;
	return ext ? put_extras(p, e, ext, pair) : p;
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
	bool grow = !(e->flags & PR_ENTRY_RUNT) && pair == b->header.pairs;
	size_t table = (size_t)(b->header.pairs + grow) * PAIR_LEN, room, len;

	if (pair < 0 || !may_follow(b, e) || pr_writer_room(&b->entries) < table)
		return false;
	room = pr_writer_room(&b->entries) - table;
	if (b->header.count == 0) { /* the log's first entry says where it starts */
		b->header.first_seq = e->seq;
		b->header.first_ordinal = e->ordinal;
		b->header.base_time = e->time;
		b->last_seq = e->seq - 1;
		b->last_ordinal = e->ordinal - 1;
		b->last_time = e->time;
	}
	/* Straight into the log, except where the longest of entries might not fit. */
	uint8_t *p = room >= ENTRY_MAX ? b->entries.at : near_end;
	len = put_entry(b, p, e, pair) - p;
	if (len > room)
		return false;
	if (p == near_end)
		memcpy(b->entries.at, near_end, len);
	b->entries.at += len;
	if (grow)
		memcpy(b->macs[b->header.pairs++], e->macs, PAIR_LEN);
	if (pair != b->last_pair) {
		b->other_pair = b->last_pair;
		b->last_pair = pair;
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
	struct pr_writer w = pr_writer_make(p, HEADER);

	*body = p;
	if (h->count == 0)
		return 0;
	memmove(p + HEADER + table, p + HEADER, len);
	memcpy(p + HEADER, b->macs, table);
	return pr_field_table_store(&w, h, &header_fields, PR_BIG_ENDIAN)
		       ? HEADER + table + len
		       : 0;
}

/* ---- reading ---- */

#define NO_NUMBER 0xff

int
pr_tslog_open(struct pr_tslog_reader *r, const void *body, size_t len)
{
	struct pr_tslog_header *h = &r->header;

	*r = (struct pr_tslog_reader){.c = pr_cursor_make(body, len), .other_pair = 1};
	if (!pr_field_table_load(&r->c, h, &header_fields, PR_BIG_ENDIAN) ||
		h->flags & ~(PR_TSLOG_INTERLEAVED | PR_TSLOG_CLASSES | PR_TSLOG_WHOLE) ||
		h->number < 1 || h->first_seq < 1 || h->first_ordinal == UINT64_MAX ||
		h->count < 1 || h->count > PR_TSLOG_ENTRIES_MAX ||
		h->pairs > PR_TSLOG_PAIRS_MAX ||
		!pr_load_bytes(&r->c, &r->macs, (size_t)h->pairs * PAIR_LEN))
		return -1;
	/* The first entry must have step 1, which means first_seq. */
	if (pr_cursor_left(&r->c) < 1 || (*r->c.at & LEAD_STEP) != 1)
		return -1;
	r->left = h->count;
	r->last_seq = h->first_seq - 1;
	r->last_ordinal = h->first_ordinal - 1;
	r->last_time = h->base_time;
	return 0;
}

static bool
load_u32(struct pr_cursor *c, uint32_t *out)
{
	uint64_t v;
	if (!pr_load_varint(c, &v) || v > UINT32_MAX)
		return false;
	*out = v;
	return true;
}

/* What comes behind the fingerprint, by flag. */
static bool
load_extras(struct pr_tslog_reader *r, uint8_t *pair, struct pr_entry *e)
{
	struct pr_cursor *c = &r->c;
	uint8_t ext = e->flags;
	const uint8_t *bytes;
	uint64_t ahead;

	if (ext == 0)
		return true;
	if (ext & PR_ENTRY_PAIR && (!pr_load_u8(c, pair) || *pair >= r->header.pairs))
		return false;
	if (ext & PR_ENTRY_CAPLEN && !load_u32(c, &e->caplen))
		return false;
	e->len = e->caplen;
	if ((ext & PR_ENTRY_LEN && !load_u32(c, &e->len)) ||
		(ext & PR_ENTRY_ETHERTYPE && !pr_load_be16(c, &e->ethertype)))
		return false;
	if (ext & PR_ENTRY_OTIME) {
		if (!pr_load_varint(c, &ahead) || ahead == 0)
			return false;
		e->otime = (uint64_t)e->time + ahead;
		if (e->otime <= e->time)
			return false;
	}
	if (ext & PR_ENTRY_RUNT) {
		if (!pr_load_u8(c, &e->runt_len) || e->runt_len > sizeof e->runt ||
			!pr_load_bytes(c, &bytes, e->runt_len))
			return false;
		memcpy(e->runt, bytes, e->runt_len);
	}
	e->flags = ext & (uint8_t)~PR_ENTRY_PAIR;
	return true;
}

/* Refuses a pair by number if the lead could have named it: no builder writes that. */
static bool
use_pair(struct pr_tslog_reader *r, uint8_t lead, uint8_t by_number, struct pr_entry *e)
{
	uint8_t pair = lead & LEAD_OTHER ? r->other_pair : r->last_pair;
	if (by_number != NO_NUMBER) {
		if (lead & LEAD_OTHER || by_number == r->last_pair ||
			by_number == r->other_pair)
			return false;
		pair = by_number;
	}
	if (pair >= r->header.pairs)
		return false;
	if (pair != r->last_pair) {
		r->other_pair = r->last_pair;
		r->last_pair = pair;
	}
	memcpy(e->macs, r->macs + (size_t)pair * PAIR_LEN, PAIR_LEN);
	return true;
}

static bool
load_entry(struct pr_tslog_reader *r, struct pr_entry *e)
{
	struct pr_cursor *c = &r->c;
	uint8_t lead, by_number = NO_NUMBER;
	uint64_t ordinals = 0, time;

	if (!pr_load_u8(c, &lead) || (lead & LEAD_EXT && !pr_load_u8(c, &e->flags)))
		return false;
	uint64_t seqs = lead & LEAD_STEP;
	if (seqs == 0 && (!pr_load_varint(c, &seqs) || seqs <= LEAD_STEP))
		return false;
	if (r->header.flags & PR_TSLOG_INTERLEAVED && !pr_load_varint(c, &ordinals))
		return false;
	if (__builtin_add_overflow(r->last_seq, seqs, &e->seq) ||
		__builtin_add_overflow(r->last_ordinal + 1, ordinals, &e->ordinal) ||
		e->ordinal == UINT64_MAX || !pr_load_varint(c, &time) ||
		!pr_load_be32(c, &e->fingerprint) ||
		(r->header.flags & PR_TSLOG_CLASSES && !pr_load_u8(c, &e->class)) ||
		(lead & LEAD_EXT && e->flags == 0))
		return false;
	e->time = e->otime = (uint64_t)r->last_time + (uint64_t)pr_unzigzag(time);
	if (e->flags & PR_ENTRY_RUNT) /* has its MACs in its own bytes */
		return !(lead & LEAD_OTHER || e->flags & PR_ENTRY_PAIR) &&
		       load_extras(r, NULL, e);
	return load_extras(r, &by_number, e) && use_pair(r, lead, by_number, e);
}

int
pr_tslog_next(struct pr_tslog_reader *r, struct pr_entry *out)
{
	if (r->left == 0)
		return pr_cursor_left(&r->c) == 0 ? 0 : -1;
	memset(out, 0, sizeof *out);
	if (!load_entry(r, out)) {
		r->left = 0; /* and what is unread keeps the reader at -1 */
		r->c = pr_cursor_make("?", 1);
		return -1;
	}
	r->last_seq = out->seq;
	r->last_ordinal = out->ordinal;
	r->last_time = out->time;
	r->left--;
	return 1;
}
