/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/query_internal.h"
#include "proto/base/clock.h"

/*
 * Counting from the index: without a filter its series say how many packets and bytes fell into each
 * second, and its heavy hitters bound what a host had.
 */

static void
sum(struct pri_query *q, uint64_t packets, uint64_t bytes)
{
	const Packrack__Tally more = {.packets = packets, .bytes = bytes};

	pr_tally_sum(q->spec.tally, &more);
}

static int
pass(struct pri_query *q, struct pri_run_reader *r, const struct pri_level1_segment *s,
	struct pr_error *err)
{
	uint64_t packets = r->entry.count, bytes = r->entry.handle.length;
	struct pri_held_walk held;

	pri_held_walk_begin(&held, s, r->entry.seq_span);
	if (pri_query_pass(q, r, &held, err) < 0)
		return -1;
	q->figures.matched += packets;
	q->figures.counted_packets += packets;
	q->figures.skipped_level1++;
	q->figures.skipped_bytes += bytes;
	return 1;
}

/* ---- over time ---- */

/* The step that a whole interval of the series lies in; false: its packets may be in several. */
static bool
step_of(const struct pri_query *q, const struct pri_segment_entry *e,
	const struct pri_level1_segment *s, const struct pri_series_bucket *b, int64_t *out)
{
	int64_t second = pri_tally_key_interval(e->min_time, PR_NS_PER_S);
	int64_t begin, first, last, width, step = q->spec.step;

	if (s->series_width > 32 || b->interval >> 32 ||
		__builtin_mul_overflow(
			(int64_t)1 << s->series_width, PR_NS_PER_S, &width) ||
		__builtin_mul_overflow((int64_t)b->interval, width, &first) ||
		__builtin_mul_overflow(second, PR_NS_PER_S, &begin) ||
		__builtin_add_overflow(first, begin, &first) ||
		__builtin_add_overflow(first, width - 1, &last))
		return false;
	if (first < e->min_time)
		first = e->min_time;
	if (last > e->max_time)
		last = e->max_time;
	*out = pri_tally_key_interval(first, step);
	return first <= last && *out == pri_tally_key_interval(last, step);
}

/* Does the series say it all, with steps as long as ours? */
static bool
series_serves(const struct pri_query *q, const struct pri_segment_entry *e,
	const struct pri_level1_segment *s)
{
	struct pri_series_bucket b;
	uint64_t packets = 0;
	int64_t step;

	for (size_t at = 0; pri_level1_series(s, &at, &b);) {
		if (!step_of(q, e, s, &b, &step))
			return false;
		packets += b.packets;
	}
	return packets == e->count;
}

static int
count_series(struct pri_query *q, struct pri_run_reader *r,
	const struct pri_level1_segment *s, struct pr_error *err)
{
	uint8_t key[PRI_TALLY_KEY_TIME_LEN];
	struct pri_series_bucket b;
	int64_t step;

	if (!series_serves(q, &r->entry, s))
		return 0;
	for (size_t at = 0; pri_level1_series(s, &at, &b);) {
		step_of(q, &r->entry, s, &b, &step);
		pri_tally_key_interval_key(step, key);
		sum(q, b.packets, b.bytes);
		if (pr_tally_add(q->spec.tally, key, sizeof(key), b.packets, b.bytes, err) <
			0)
			return -1;
	}
	return pass(q, r, s, err);
}

/* ---- hosts ---- */

/* Of all segments of a record: what they hold together. */
struct batch_sums {
	uint64_t packets, bytes;
	uint32_t len_min;
};

/* Are they all of this run, whole, within the time range, and what the record speaks of? */
static bool
batch_serves(const struct pri_query *q, const struct pri_run_reader *r,
	const struct pri_level1 *batch, struct batch_sums *sums)
{
	struct pri_run_reader other = *r;
	struct pri_level1_segment s;
	struct pri_series_bucket b;

	*sums = (struct batch_sums){.len_min = UINT32_MAX};
	if (r->run->run_count != 1 || r->entry.sequence != batch->first_sequence)
		return false;
	for (unsigned i = 0; i < batch->segments; i++) {
		uint64_t number = r->next - 1 + i;
		const struct pri_segment_entry *e = pri_sorted_run_at(r->lane, number);
		uint64_t packets = 0;

		pri_level1_get(batch, i, &s);
		if (!e || e->deleted || number >= r->end ||
			e->sequence != batch->first_sequence + i ||
			e->handle.proof != s.proof)
			return false;
		other.entry = *e;
		if (!pri_run_reader_inside(&other, &q->lines[r->line].bounds))
			return false;
		for (size_t at = 0; pri_level1_series(&s, &at, &b);) {
			packets += b.packets;
			sums->bytes += b.bytes;
		}
		if (packets != e->count)
			return false;
		sums->packets += packets;
		if (s.len_min < sums->len_min)
			sums->len_min = s.len_min;
	}
	return true;
}

/*
 * What a host that the record does not name can have at most: not more bytes than the last that it
 * names, when it names as many as there can be, and what the record falls short of. As many packets as
 * go into that, by the shortest packet.
 */
static void
bound_others(const struct pri_level1 *batch, const struct batch_sums *sums,
	const struct pri_level1_top *tops, size_t count, Packrack__Tally *out)
{
	out->slack_bytes = batch->bytes_short;
	if (count == PRI_LEVEL1_TOPS_MAX)
		out->slack_bytes += tops[count - 1].bytes;
	if (out->slack_bytes > sums->bytes)
		out->slack_bytes = sums->bytes;
	out->slack_packets = sums->packets;
	if (sums->len_min && out->slack_bytes / sums->len_min < sums->packets)
		out->slack_packets = out->slack_bytes / sums->len_min;
	if (!out->slack_bytes && sums->len_min)
		out->slack_packets = 0;
}

static uint64_t
less_than(uint64_t slack, uint64_t bound)
{
	return bound < slack ? slack - bound : 0;
}

static int
add_tops(struct pri_query *q, const struct pri_level1 *batch, const struct batch_sums *sums,
	struct pr_error *err)
{
	struct pri_level1_top tops[PRI_LEVEL1_TOPS_MAX];
	size_t count = pri_level1_tops(batch, tops);
	Packrack__Tally others = {.packets = sums->packets, .bytes = sums->bytes};

	bound_others(batch, sums, tops, count, &others);
	pr_tally_sum(q->spec.tally, &others);
	for (size_t i = 0; i < count; i++) {
		struct pr_tally_item item = {.len = tops[i].len,
			.packets = tops[i].packets,
			.bytes = tops[i].bytes,
			.less_packets =
				less_than(others.slack_packets, batch->packets_short),
			.less_bytes = less_than(others.slack_bytes, batch->bytes_short)};

		for (unsigned j = 0; j < item.len; j++)
			item.key[j] = tops[i].address[j];
		if (pr_tally_add_less(q->spec.tally, &item, err) < 0)
			return -1;
	}
	return 0;
}

static int
count_hosts(struct pri_query *q, struct pri_run_reader *r,
	const struct pri_level1_segment *s, const struct pri_level1 *batch,
	struct pr_error *err)
{
	struct pri_line *line = &q->lines[r->line];
	struct batch_sums sums;

	if (r->entry.sequence >= line->counted) {
		if (!batch_serves(q, r, batch, &sums))
			return 0;
		if (add_tops(q, batch, &sums, err) < 0)
			return -1;
		line->counted = batch->first_sequence + batch->segments;
	}
	return pass(q, r, s, err);
}

int
pri_query_count(
	struct pri_query *q, struct pri_run_reader *r, bool *worked, struct pr_error *err)
{
	bool hosts = q->spec.group == PRI_TALLY_KEY_HOST && !q->spec.exact;
	uint16_t link = q->lines[r->line].run->link;
	struct pri_level1_segment s;
	const struct pri_level1 *batch;

	if (q->spec.programs.count || (q->spec.group != PRI_TALLY_KEY_TIME && !hosts))
		return 0;
	if (!pri_prune_segment(q->prune, link, &r->entry, &s, &batch, worked))
		return 0;
	return hosts ? count_hosts(q, r, &s, batch, err) : count_series(q, r, &s, err);
}
