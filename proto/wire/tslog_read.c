/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/tslog.h"

#define PAIR_LEN 12
#define LEAD_EXT 0x80
#define LEAD_OTHER 0x40
#define LEAD_STEP 0x3f
#define NO_NUMBER 0xff

static bool
load_header(struct pr_cursor *c, struct pr_tslog_header *h)
{
	uint64_t base;
	if (!pr_load_be16(c, &h->link) || !pr_load_be16(c, &h->flags) ||
		!pr_load_be64(c, &h->number) || !pr_load_be64(c, &h->first_seq) ||
		!pr_load_be64(c, &h->first_ordinal) || !pr_load_be64(c, &base) ||
		!pr_load_be16(c, &h->count) || !pr_load_u8(c, &h->pairs))
		return false;
	h->base_time = (int64_t)base;
	return true;
}

static bool
header_ok(const struct pr_tslog_header *h)
{
	return (h->flags & ~PR_TSLOG_INTERLEAVED) == 0 && h->number >= 1 &&
	       h->first_seq >= 1 && h->first_ordinal != UINT64_MAX && h->count >= 1 &&
	       h->count <= PR_TSLOG_ENTRIES_MAX && h->pairs <= PR_TSLOG_PAIRS_MAX;
}

int
pr_tslog_open(struct pr_tslog_reader *r, const void *body, size_t len)
{
	*r = (struct pr_tslog_reader){.c = pr_cursor_make(body, len), .other_pair = 1};
	if (!load_header(&r->c, &r->header) || !header_ok(&r->header) ||
		!pr_load_bytes(&r->c, &r->macs, (size_t)r->header.pairs * PAIR_LEN))
		return -1;
	/* The first entry is at first seq: nothing else may be said of it. */
	if (pr_cursor_left(&r->c) < 1 || (*r->c.at & LEAD_STEP) != 1)
		return -1;
	r->left = r->header.count;
	r->last_seq = r->header.first_seq - 1;
	r->last_ordinal = r->header.first_ordinal - 1;
	r->last_time = r->header.base_time;
	return 0;
}

static bool
load_seq(struct pr_tslog_reader *r, uint8_t lead, uint64_t *seq)
{
	uint64_t step = lead & LEAD_STEP;
	if (step == 0 && (!pr_load_varint(&r->c, &step) || step <= LEAD_STEP))
		return false;
	return !__builtin_add_overflow(r->last_seq, step, seq);
}

static bool
load_ordinal(struct pr_tslog_reader *r, uint64_t *ordinal)
{
	uint64_t next = r->last_ordinal + 1, step = 0;
	if (r->header.flags & PR_TSLOG_INTERLEAVED && !pr_load_varint(&r->c, &step))
		return false;
	return !__builtin_add_overflow(next, step, ordinal) && *ordinal != UINT64_MAX;
}

static bool
load_u32(struct pr_cursor *c, uint32_t *out)
{
	uint64_t v;
	if (!pr_load_varint(c, &v) || v > UINT32_MAX)
		return false;
	*out = (uint32_t)v;
	return true;
}

static bool
load_otime(struct pr_cursor *c, struct pr_entry *e)
{
	uint64_t ahead;
	if (!pr_load_varint(c, &ahead) || ahead == 0)
		return false;
	e->otime = (int64_t)((uint64_t)e->time + ahead);
	return e->otime > e->time;
}

static bool
load_runt(struct pr_cursor *c, struct pr_entry *e)
{
	const uint8_t *bytes;
	if (!pr_load_u8(c, &e->runt_len) || e->runt_len > sizeof e->runt ||
		!pr_load_bytes(c, &bytes, e->runt_len))
		return false;
	memcpy(e->runt, bytes, e->runt_len);
	return true;
}

/* What comes behind the fingerprint, by flag. */
static bool
load_extras(struct pr_tslog_reader *r, uint8_t *pair, struct pr_entry *e)
{
	struct pr_cursor *c = &r->c;
	uint8_t ext = e->flags;

	if (ext == 0)
		return true;
	if (ext & PR_ENTRY_PAIR && (!pr_load_u8(c, pair) || *pair >= r->header.pairs))
		return false;
	if (ext & PR_ENTRY_CAPLEN && !load_u32(c, &e->caplen))
		return false;
	e->len = e->caplen;
	if (ext & PR_ENTRY_LEN && !load_u32(c, &e->len))
		return false;
	if (ext & PR_ENTRY_ETHERTYPE && !pr_load_be16(c, &e->ethertype))
		return false;
	if (ext & PR_ENTRY_OTIME && !load_otime(c, e))
		return false;
	if (ext & PR_ENTRY_RUNT && !load_runt(c, e))
		return false;
	e->flags = ext & (uint8_t)~PR_ENTRY_PAIR;
	return true;
}

/* A pair by number that the lead could have named is not what a builder writes. */
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
	uint8_t lead;
	uint64_t step;

	if (!pr_load_u8(&r->c, &lead) ||
		(lead & LEAD_EXT && !pr_load_u8(&r->c, &e->flags)) ||
		!load_seq(r, lead, &e->seq) || !load_ordinal(r, &e->ordinal) ||
		!pr_load_varint(&r->c, &step) || !pr_load_be32(&r->c, &e->fingerprint))
		return false;
	if (lead & LEAD_EXT && e->flags == 0)
		return false;
	e->time = e->otime =
		(int64_t)((uint64_t)r->last_time + (uint64_t)pr_unzigzag(step));

	if (e->flags & PR_ENTRY_RUNT) /* has its MACs in its own bytes */
		return !(lead & LEAD_OTHER || e->flags & PR_ENTRY_PAIR) &&
		       load_extras(r, NULL, e);
	uint8_t by_number = NO_NUMBER;
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
