/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/summary.h"

#include <xxhash.h>

#include "proto/base/field_table.h"

#define CHECK_AT 104
#define RUN_MAX (4 * 10 + 10) /* bytes of one, without its bits */
#define SPAN_MAX (UINT64_C(1) << 32)

static uint64_t
check_of(const uint8_t *body, size_t len)
{
	uint64_t seed = XXH3_64bits(body, CHECK_AT);

	return XXH3_64bits_withSeed(
		body + PR_SUMMARY_HEADER, len - PR_SUMMARY_HEADER, seed);
}

void
pr_summary_span_unite(struct pr_summary_span *to, const struct pr_summary_span *by)
{
	uint64_t end = PR_MAX(
		to->first_sequence + to->segments, by->first_sequence + by->segments);

	if (!to->segments) {
		*to = *by;
		return;
	}
	to->first_sequence = PR_MIN(to->first_sequence, by->first_sequence);
	to->segments = PR_MIN(end - to->first_sequence, to->segments + by->segments);
	to->first_seq = PR_MIN(to->first_seq, by->first_seq);
	to->last_seq = PR_MAX(to->last_seq, by->last_seq);
	to->packets += by->packets;
	pr_time_widen(&to->first_otime, &to->last_otime, by->first_otime, by->last_otime);
	pr_time_widen(&to->min_time, &to->max_time, by->min_time, by->max_time);
}

/* ---- reading ---- */

/* The header behind magic and version, up to the check. */
#define FIELDS_AT 6
static const struct pr_field header_items[] = {
	PR_INTS(pr_summary, span.link, span.first_sequence, span.segments, log2, flags,
		reserved, span.epoch, span.first_seq),
	PR_INTS(pr_summary, span.last_seq, span.packets, span.first_otime, span.last_otime,
		span.min_time, span.max_time, keys, run_count),
	PR_INT(pr_summary, runs_len)};
static const struct pr_field_table header_fields = PR_FIELD_TABLE(header_items);

static int
load_header(struct pr_summary *s, const uint8_t *p, size_t len, struct pr_error *err)
{
	const struct pr_summary_span *span = &s->span;

	if (len < PR_SUMMARY_HEADER || pr_get_le32(p) != PR_SUMMARY_MAGIC)
		return pr_error_set(err, "summary: not a record of level 3");
	if (pr_get_le16(p + 4) != PR_SUMMARY_VERSION)
		return pr_error_set(err,
			"summary: version %u, this program reads version %u",
			pr_get_le16(p + 4), PR_SUMMARY_VERSION);
	struct pr_cursor c = pr_cursor_make(p + FIELDS_AT, PR_SUMMARY_HEADER - FIELDS_AT);
	if (pr_field_table_load(&c, s, &header_fields, PR_LITTLE_ENDIAN) &&
		span->segments > 0 && span->first_seq > 0 &&
		span->first_seq <= span->last_seq && span->last_seq < UINT64_MAX &&
		span->min_time <= span->max_time && span->first_otime <= span->last_otime)
		return 0;
	return pr_error_set(err, "summary: its head contradicts itself");
}

int
pr_summary_peek(
	struct pr_summary_span *out, const void *body, size_t len, struct pr_error *err)
{
	struct pr_summary s;

	if (load_header(&s, body, len, err) < 0)
		return -1;
	*out = s.span;
	return 0;
}

static bool
load_run(struct pr_summary_walk *w, struct pr_summary_run *run)
{
	struct pr_cursor c = pr_cursor_make(w->at, w->end - w->at);
	uint64_t gap, span, from, length, bits;

	if (!pr_load_varint(&c, &gap) || !pr_load_varint(&c, &span) ||
		!pr_load_varint(&c, &from) || !pr_load_varint(&c, &length) ||
		!pr_load_varint(&c, &bits) || span >= SPAN_MAX)
		return false;
	from = (uint64_t)w->otime + (uint64_t)pr_unzigzag(from);
	*run = (struct pr_summary_run){.first = w->seq + (uint64_t)pr_unzigzag(gap),
		.first_otime = from,
		.last_otime = from + (uint64_t)pr_unzigzag(length),
		.bits_len = bits};
	run->last = run->first + span;
	if (bits && (bits != span / 8 + 1 || !pr_load_bytes(&c, &run->bits, bits)))
		return false;
	w->seq = run->last;
	w->otime = run->last_otime;
	w->at = c.at;
	return true;
}

int
pr_summary_open(struct pr_summary *s, const void *body, size_t len, struct pr_error *err)
{
	struct pr_summary_walk walk;
	struct pr_summary_run run;
	uint32_t count = 0;

	if (pr_summary_open_unchecked(s, body, len, err) < 0)
		return -1;
	bool good = check_of(body, len) == pr_get_le64((const uint8_t *)body + CHECK_AT);
	pr_summary_walk_begin(&walk, s);
	for (; good && walk.at < walk.end; count++)
		good = load_run(&walk, &run) && run.first >= s->span.first_seq &&
		       run.last <= s->span.last_seq && run.last >= run.first &&
		       run.first_otime <= run.last_otime;
	return good && count == s->run_count ? 0
					     : pr_error_set(err, "summary: it is damaged");
}

int
pr_summary_open_unchecked(
	struct pr_summary *s, const void *body, size_t len, struct pr_error *err)
{
	const uint8_t *p = body;

	if (load_header(s, body, len, err) < 0)
		return -1;
	if (s->log2 < PR_SUMMARY_LOG2_MIN || s->log2 > PR_SUMMARY_LOG2_MAX)
		return pr_error_set(err, "summary: a signature of 2^%u bits", s->log2);
	size_t size = (size_t)1 << (s->log2 - 3);
	if (len != PR_SUMMARY_HEADER + size + s->runs_len)
		return pr_error_set(err, "summary: %zu bytes, its head says %zu", len,
			PR_SUMMARY_HEADER + size + s->runs_len);
	s->bits = p + PR_SUMMARY_HEADER;
	s->runs = s->bits + size;
	return 0;
}

void
pr_summary_walk_begin(struct pr_summary_walk *walk, const struct pr_summary *s)
{
	*walk = (struct pr_summary_walk){
		.at = s->runs, .end = s->runs + s->runs_len, .otime = s->span.first_otime};
}

bool
pr_summary_walk_next(struct pr_summary_walk *walk, struct pr_summary_run *run)
{
	return walk->at < walk->end && load_run(walk, run);
}

/* ---- the signature ---- */

/* Where a key's bits are: at, at + step, ..., modulo 2^log2. */
struct probe {
	uint32_t at, step, mask;
};

/* Mixes the hash again, so that false positives here and in other levels are independent. */
static inline struct probe
probe_of(uint64_t x, unsigned log2)
{
	x ^= x >> 31;
	x *= 0x7fb5d329728ea185u;
	x ^= x >> 27;
	x *= 0x81dadef4bc2dd44du;
	x ^= x >> 33;
	return (struct probe){x, (x >> 32) | 1, (UINT32_C(1) << log2) - 1};
}

bool
pr_summary_has(const uint8_t *bits, unsigned log2, uint64_t hash)
{
	struct probe p = probe_of(hash, log2);

	for (int i = 0; i < PR_SUMMARY_PROBES; i++, p.at += p.step)
		if (!(bits[(p.at & p.mask) / 8] & 1u << p.at % 8))
			return false;
	return true;
}

uint8_t
pr_summary_slices_have(const uint8_t *slices, unsigned log2, uint64_t hash)
{
	struct probe p = probe_of(hash, log2);
	uint8_t all = UINT8_MAX;

	for (int i = 0; i < PR_SUMMARY_PROBES && all; i++, p.at += p.step)
		all &= slices[p.at & p.mask];
	return all;
}

/* ---- writing ---- */

static uint8_t
pr_summary_log2(size_t keys)
{
	uint8_t log2 = PR_SUMMARY_LOG2_MIN;

	while (log2 < PR_SUMMARY_LOG2_MAX &&
		((size_t)1 << log2) < keys * PR_SUMMARY_BITS_A_KEY)
		log2++;
	return log2;
}

size_t
pr_summary_size(size_t keys, const struct pr_summary_run *runs, size_t count)
{
	size_t size = PR_SUMMARY_HEADER + ((size_t)1 << (pr_summary_log2(keys) - 3));

	for (size_t i = 0; i < count; i++)
		size += RUN_MAX + runs[i].bits_len;
	return size;
}

static size_t
put_runs(const struct pr_summary_span *span, const struct pr_summary_run *runs,
	size_t count, uint8_t *out, size_t room)
{
	struct pr_writer w = {.at = out, .end = out + room, .start = out};
	int64_t otime = span->first_otime;
	uint64_t seq = 0;
	bool fits = true;

	for (size_t i = 0; i < count; i++) {
		const struct pr_summary_run *r = &runs[i];

		fits &= pr_store_varint(&w, pr_zigzag(r->first - seq));
		fits &= pr_store_varint(&w, r->last - r->first);
		fits &= pr_store_varint(
			&w, pr_zigzag((uint64_t)r->first_otime - (uint64_t)otime));
		fits &= pr_store_varint(
			&w, pr_zigzag((uint64_t)r->last_otime - (uint64_t)r->first_otime));
		fits &= pr_store_varint(&w, r->bits_len);
		fits &= pr_store_bytes(&w, r->bits, r->bits_len);
		seq = r->last;
		otime = r->last_otime;
	}
	return fits ? (size_t)(w.at - out) : SIZE_MAX;
}

size_t
pr_summary_write(const struct pr_summary_span *span, const uint64_t *hashes, size_t keys,
	const struct pr_summary_run *runs, size_t count, size_t runs_max, uint8_t *out)
{
	struct pr_summary s = {.span = *span,
		.log2 = pr_summary_log2(keys),
		.keys = PR_MIN(keys, UINT32_MAX)};
	struct pr_writer w = pr_writer_make(out + FIELDS_AT, PR_SUMMARY_HEADER - FIELDS_AT);
	size_t size = (size_t)1 << (s.log2 - 3), len;
	uint8_t *bits = out + PR_SUMMARY_HEADER;

	memset(out, 0, PR_SUMMARY_HEADER + size);
	pr_put_le32(out, PR_SUMMARY_MAGIC);
	pr_put_le16(out + 4, PR_SUMMARY_VERSION);
	for (size_t i = 0; i < keys; i++) {
		struct probe p = probe_of(hashes[i], s.log2);
#pragma GCC unroll 8
		for (int j = 0; j < PR_SUMMARY_PROBES; j++, p.at += p.step)
			bits[(p.at & p.mask) / 8] |= 1u << p.at % 8;
	}
	len = put_runs(span, runs, count, bits + size,
		pr_summary_size(keys, runs, count) - PR_SUMMARY_HEADER - size);
	if (len > runs_max) {
		s.flags = PR_SUMMARY_NO_RUNS;
		len = count = 0;
	}
	s.run_count = count;
	s.runs_len = len;
	if (!pr_field_table_store(&w, &s, &header_fields, PR_LITTLE_ENDIAN))
		return 0; /* cannot be: the header has room for all */
	len += PR_SUMMARY_HEADER + size;
	pr_put_le64(out + CHECK_AT, check_of(out, len));
	return len;
}
