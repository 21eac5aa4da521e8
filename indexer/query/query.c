/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/query.h"

#include "indexer/query/beyond.h"
#include "indexer/query/run_reader.h"

/*
 * Sections: making, coverage, counting from the index, skipping segments, packets, whole
 * segments, what others ask, what is gone.
 */

/* Timestamps step back a little: a packet's order time is at most so much later than its time, if its clock was not set. */
#define STEP_BACK_NS (10 * PR_NS_PER_MS)

/* What is done before the caller may look at the clock: steps of filters, segments passed. */
enum { STEPS_A_LOOK = 1000000, SKIPS_A_LOOK = 64 };

/* An epoch series within a query. */
struct series {
	struct pri_epoch_series *stored;
	struct pri_run_bounds bounds;
	struct pri_range_builder *coverage; /* NULL until a packet is stored in the range */
	bool passed; /* a packet at or behind `since` has come by */
	bool lower_given, upper_given;
	bool sums; /* no packets, but what a cutoff kept back */
	enum pr_degree
		degree; /* its packets are copies: read where longer ones may be gone */
	uint64_t counted; /* the tally has all packets of segments below this sequence */
};

struct pri_query {
	struct pri_volume *volume;
	struct pri_query_spec spec;
	char *link;
	struct series *series;
	struct pri_run_reader *readers;
	size_t series_count, reader_count;
	bool copies; /* some of the series have a degree */
	struct pr_source *merge; /* of the readers */
	struct pri_run_context context;
	struct pri_read_buffer whole; /* of the segment given last */
	struct pri_range_list coverage;
	struct pri_beyond_list beyond;
	struct pri_prune *direct_prune; /* with relations: where nothing can be related */
	/* that are filtered before the caller may look at the clock */
	uint32_t packets_a_look;
	Packrack__End stats, report; /* report: with what the volume knows */
};

/* ---- making ---- */

static bool
link_is(const char *wanted, uint16_t link, const char *name)
{
	char number[8], base[8];

	snprintf(number, sizeof number, "%u", link);
	snprintf(base, sizeof base, "%u", pr_link_base(link));
	return !strcmp(wanted, number) || !strcmp(wanted, base) ||
	       (*name && !strcmp(wanted, name));
}

/* Who asks for the link of a cutoff's sums by its own number gets them as they are stored. */
static bool
gives_sums(const struct pri_query *q, const struct pri_epoch_series *stored)
{
	return !stored->strays && pr_link_is_beyond(stored->link) &&
	       strtoul(q->link, NULL, 10) != stored->link;
}

bool
pri_query_selects(const struct pri_query *q, const struct pri_series_ledger *series)
{
	return *q->link ? link_is(q->link, series->link, pri_series_ledger_name(series))
			: series->link != PR_LINK_CANARY;
}

static bool
selects_stored(const struct pri_query *q, const struct pri_epoch_series *stored)
{
	if (!*q->link) /* strays too: they are always counted */
		return stored->strays || stored->link != PR_LINK_CANARY;
	if (stored->strays)
		return false;
	const struct pri_series_ledger *ledger =
		pri_ledger_view_find(&q->volume->ledger, stored->epoch, stored->link);
	return link_is(q->link, stored->link, ledger ? pri_series_ledger_name(ledger) : "");
}

static enum pr_degree
degree_of(const struct pri_query *q, const struct pri_epoch_series *stored)
{
	unsigned class = pr_stream_class(stored->number);

	return stored->strays ? PR_DEGREE_NONE
			      : pr_class_degree(q->volume->ledger.classes[class].name);
}

/* The time up to which longer copies than those of this series may be gone; PR_TIME_MIN: all are there. */
static int64_t
longer_gone(const struct pri_query *q, const struct pri_epoch_series *stored,
	enum pr_degree degree)
{
	const struct pr_class *classes = q->volume->ledger.classes;
	const char *name = classes[pr_stream_class(stored->number)].name, *of;
	int64_t until = PR_TIME_MIN;
	struct sfs_volume_info volume;
	struct sfs_stream_info info;
	uint16_t number;

	if (sfs_info(q->volume->sfs, &volume, NULL) != SFS_OK)
		return PR_TIME_MAX;
	for (size_t i = 0; i < volume.stream_count; i++) {
		if (sfs_stream_info(q->volume->sfs, i, &info, NULL) != SFS_OK ||
			!pri_stream_is_link(info.name, &number) ||
			pr_stream_link(number) != stored->link)
			continue;
		of = classes[pr_stream_class(number)].name;
		bool longer = degree == PR_DEGREE_HOLD
				      ? pr_class_degree(of) == PR_DEGREE_NONE
				      : pr_class_is_degree(name, of, degree);
		if (longer && info.deleted_records)
			return PR_TIME_MAX;
		if (longer)
			until = PR_MAX(until, pri_volume_evicted_until(q->volume, info.id));
	}
	/* it is of packet times, and we compare order times */
	return until == PR_TIME_MIN ? until : pr_time_minus(until, -STEP_BACK_NS);
}

static int
add_series(struct pri_query *q, struct pri_epoch_series *stored, enum pr_degree degree,
	struct pr_error *err)
{
	struct series *s = &q->series[q->series_count];

	PR_COPY(&s->bounds, &q->spec, since, until);
	s->bounds.evicted_until = PR_TIME_MIN;
	s->stored = stored;
	s->sums = gives_sums(q, stored);
	s->degree = degree;
	if (s->sums)
		s->bounds.until = pr_beyond_last(s->bounds.until);
	if (degree) {
		int64_t gone = longer_gone(q, stored, degree);

		if (gone < s->bounds.since)
			return 0;
		s->upper_given = gone < s->bounds.until; /* what is above is no edge */
		s->bounds.until = PR_MIN(s->bounds.until, gone);
		q->copies = true;
	}
	for (size_t j = 0; j < stored->run_count; j++) {
		struct pri_run_reader *r = &q->readers[q->reader_count++];

		r->index = q->series_count;
		pri_run_reader_start(r, &q->context, stored, stored->runs[j], &s->bounds);
		if (pr_merge_add(q->merge, &r->source, err) < 0)
			return -1;
	}
	q->series_count++;
	stored->queries++;
	return 0;
}

/* Longer copies come first: of a packet that is there several times, the merge takes the first. */
static int
add_all_series(struct pri_query *q, struct pr_error *err)
{
	const struct pri_catalog *catalog = &q->volume->catalog;
	size_t runs = 0;

	for (size_t i = 0; i < catalog->series_count; i++)
		runs += catalog->series[i]->run_count;
	q->series = calloc(catalog->series_count + 1, sizeof *q->series);
	q->readers = calloc(runs + 1, sizeof *q->readers);
	q->merge = pr_merge_create(err);
	if (!q->series || !q->readers || !q->merge)
		return pr_error_set(
			err, "no memory for a query over %zu links", catalog->series_count);
	for (enum pr_degree degree = PR_DEGREE_NONE; degree < PR_DEGREES; degree++)
		for (size_t i = 0; i < catalog->series_count; i++) {
			struct pri_epoch_series *stored = catalog->series[i];

			if (selects_stored(q, stored) && degree_of(q, stored) == degree &&
				add_series(q, stored, degree, err) < 0)
				return -1;
		}
	return 0;
}

static int
plan(struct pri_query *q, struct pr_error *err)
{
	struct pri_run_context *c = &q->context;

	c->volume = q->volume;
	c->programs = &q->spec.programs;
	c->stats = &q->stats;
	/* what is counted in the index, or searched for in two ways, is not for other threads */
	c->ahead = !q->spec.memory_only && !q->spec.relations && !q->spec.tally &&
		   !q->spec.estimate;
	c->prune = pri_prune_create(q->volume, &q->spec.programs, &q->stats, err);
	if (!c->prune || !q->spec.relations)
		return c->prune ? 0 : -1;
	q->direct_prune = pri_prune_create(q->volume, &q->spec.direct, &q->stats, err);
	return q->direct_prune ? 0 : -1;
}

void
pri_query_spec_free(struct pri_query_spec *spec)
{
	pr_bpf_set_free(&spec->programs);
	pr_bpf_set_free(&spec->direct);
	if (spec->relations)
		pr_relations_free(spec->relations);
	free(spec->relations);
	spec->relations = NULL;
}

struct pri_query *
pri_query_create(
	struct pri_volume *volume, struct pri_query_spec *spec, struct pr_error *err)
{
	struct pri_query *q = calloc(1, sizeof *q);
	char *link = strdup(spec->link ? spec->link : "");

	if (!q || !link) {
		pri_query_spec_free(spec);
		free(link);
		free(q);
		return pr_error_null(err, "no memory for a query");
	}
	q->volume = volume;
	packrack__end__init(&q->stats);
	q->spec = *spec;
	spec->programs = spec->direct = (struct pr_bpf_set){0};
	spec->relations = NULL;
	q->spec.link = q->link = link;
	q->packets_a_look = pr_bpf_set_packets(
		&q->spec.programs, STEPS_A_LOOK / (q->spec.relations ? 2 : 1));
	if (plan(q, err) < 0 || add_all_series(q, err) < 0)
		pri_query_destroy(&q);
	return q;
}

void
pri_query_destroy(struct pri_query **query)
{
	struct pri_query *q = PR_TAKE(query);

	if (!q)
		return;
	pr_source_destroy(&q->merge);
	for (size_t i = 0; i < q->reader_count; i++)
		pri_run_reader_free(&q->readers[i]);
	pri_scans_destroy(&q->context.scans);
	PR_FREE(q, context.spare.bytes, context.damaged, whole.bytes, beyond.items);
	for (size_t i = 0; i < q->series_count; i++) {
		q->series[i].stored->queries--;
		free(q->series[i].coverage);
	}
	pri_range_list_free(&q->coverage);
	pri_prune_destroy(&q->context.prune);
	pri_prune_destroy(&q->direct_prune);
	pri_query_spec_free(&q->spec);
	PR_FREE(q, readers, series, link);
	free(q);
}

/* The reader whose packet or waiting segment is next; NULL: there is none. */
static struct pri_run_reader *
first_reader(const struct pri_query *q)
{
	return (struct pri_run_reader *)pr_merge_top(q->merge);
}

/* ---- coverage ---- */

static int
prepare_coverage(struct series *s, struct pr_error *err)
{
	s->passed = true;
	if (s->coverage)
		return 0;
	s->coverage = calloc(1, sizeof *s->coverage);
	if (!s->coverage)
		return pr_error_set(err, "no memory for the list of stored packets");
	PR_COPY(s->coverage, s->stored, epoch, link);
	return 0;
}

static inline int
cover(struct pri_query *q, struct series *s, uint64_t seq, int64_t otime,
	struct pr_error *err)
{
	if (prepare_coverage(s, err) < 0)
		return -1;
	return pri_range_builder_add(s->coverage, seq, otime, &q->coverage, err);
}

/* Covers a packet within the time range; notes one outside if it is the nearest. */
static int
cover_packet(struct pri_query *q, struct series *s, const struct pr_packet *p,
	struct pr_error *err)
{
	struct pri_run_bounds *b = &s->bounds;

	if (s->stored->strays)
		return 0;
	if (p->otime >= b->since && p->otime <= b->until)
		return cover(q, s, p->seq, p->otime, err);
	if (p->otime < b->since) {
		if (p->seq > b->lower.seq)
			b->lower = (struct pri_seq_time){p->seq, p->otime};
		return 0;
	}
	s->passed = true;
	if (!b->upper.seq || p->seq < b->upper.seq)
		b->upper = (struct pri_seq_time){p->seq, p->otime};
	return 0;
}

/* All seqs of the reader's segment, which has no holes, are covered. */
static int
cover_segment(struct pri_query *q, const struct pri_run_reader *r, struct pr_error *err)
{
	struct series *s = &q->series[r->index];
	const struct pri_segment_entry *e = &r->entry;

	if (prepare_coverage(s, err) < 0)
		return -1;
	return pri_range_builder_add_range(s->coverage, e->first_seq, pri_entry_last_seq(e),
		e->first_otime, e->last_otime, &q->coverage, err);
}

/* Covers the seqs of the waiting segment, and passes it over. 1: done; -1: no memory. */
static int
pass_segment(struct pri_query *q, struct pri_run_reader *r, enum pri_prune_verdict why,
	struct pri_held_walk *held, struct pr_error *err)
{
	const struct pri_segment_entry *e = &r->entry;
	int64_t otime = e->first_otime;
	uint64_t seq;

	q->stats.skipped_segments++;
	q->stats.skipped_level2 += why == PRI_PRUNE_LEVEL2;
	q->stats.skipped_level1 += why == PRI_PRUNE_LEVEL1;
	q->stats.skipped_linktype += why == PRI_PRUNE_LINKTYPE;
	q->stats.skipped_bytes += e->handle.length;
	if (held->form == PRI_HELD_ALL) {
		if (cover_segment(q, r, err) < 0)
			return -1;
	} else {
		for (; pri_held_walk_next(held, &seq); otime = e->last_otime)
			if (cover(q, &q->series[r->index], e->first_seq + seq, otime, err) <
				0)
				return -1;
	}
	r->state = PRI_RUN_WAITING;
	pr_merge_pass(q->merge, NULL);
	return 1;
}

/*
 * True if the seqs of the waiting segment may be covered at once. It must lie within the
 * time range as a whole, else only its packets tell which seqs are inside; and no other run
 * of its series may have packets before its end.
 */
static bool
is_alone(const struct pri_query *q, const struct pri_run_reader *r)
{
	if (r->series->strays || !pri_entry_inside(&r->entry, r->bounds))
		return false;
	for (size_t i = 0; (r->series->run_count > 1 || q->copies) && i < q->reader_count;
		i++) {
		const struct pri_run_reader *other = &q->readers[i];

		if (other != r && other->series->link == r->series->link &&
			other->series->epoch == r->series->epoch &&
			(other->index == r->index || q->series[r->index].degree ||
				q->series[other->index].degree) &&
			other->state != PRI_RUN_DONE &&
			other->packet.otime <= r->entry.last_otime)
			return false;
	}
	return true;
}

/*
 * ---- counting from the index ----
 *
 * Without a filter the index answers: its series give packets and bytes for each second,
 * and its heavy hitters bound the share of a host.
 */

static void
count_degree(struct pri_query *q, const struct pri_run_reader *r, uint64_t packets)
{
	enum pr_degree degree = q->series[r->index].degree;

	q->stats.from_cut += degree == PR_DEGREE_CUT ? packets : 0;
	q->stats.from_headers += degree == PR_DEGREE_HEADERS ? packets : 0;
}

static int
pass_counted(struct pri_query *q, struct pri_run_reader *r,
	const struct pri_level1_segment *s, struct pr_error *err)
{
	struct pri_held_walk held;

	q->stats.matched += r->entry.count;
	q->stats.counted_packets += r->entry.count;
	count_degree(q, r, r->entry.count);
	pri_held_walk_begin(&held, s, r->entry.seq_span);
	return pass_segment(q, r, PRI_PRUNE_LEVEL1, &held, err);
}

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
		__builtin_mul_overflow(b->interval, width, &first) ||
		__builtin_mul_overflow(second, PR_NS_PER_S, &begin) ||
		__builtin_add_overflow(first, begin, &first) ||
		__builtin_add_overflow(first, width - 1, &last))
		return false;
	first = PR_MAX(first, e->min_time);
	last = PR_MIN(last, e->max_time);
	*out = pri_tally_key_interval(first, step);
	return first <= last && *out == pri_tally_key_interval(last, step);
}

/*
 * 1: counted: the series has all packets, and none of its intervals crosses one of our
 * steps; 0: not so; -1: no memory.
 */
static int
count_series(struct pri_query *q, struct pri_run_reader *r,
	const struct pri_level1_segment *s, struct pr_error *err)
{
	uint8_t key[PRI_TALLY_KEY_TIME_LEN];
	struct pri_series_bucket b;
	uint64_t packets = 0;
	int64_t step;

	for (size_t at = 0; pri_level1_series(s, &at, &b); packets += b.packets)
		if (!step_of(q, &r->entry, s, &b, &step))
			return 0;
	if (packets != r->entry.count)
		return 0;
	for (size_t at = 0; pri_level1_series(s, &at, &b);) {
		const Packrack__Tally more = {.packets = b.packets, .bytes = b.bytes};

		step_of(q, &r->entry, s, &b, &step);
		pri_tally_key_interval_key(step, key);
		pr_tally_sum(q->spec.tally, &more);
		if (pr_tally_add(q->spec.tally, key, sizeof key, b.packets, b.bytes, err) <
			0)
			return -1;
	}
	return pass_counted(q, r, s, err);
}

/* Of all segments of a record: what they hold together. */
struct batch_sums {
	uint64_t packets, bytes;
	uint32_t len_min;
};

/*
 * True if the segments of a record are those of this run, and all of them lie within the
 * time range as a whole.
 */
static bool
batch_serves(const struct pri_run_reader *r, const struct pri_level1 *batch,
	struct batch_sums *sums)
{
	struct pri_level1_segment s;
	struct pri_series_bucket b;

	*sums = (struct batch_sums){.len_min = UINT32_MAX};
	if (r->series->run_count != 1 || r->entry.sequence != batch->first_sequence)
		return false;
	for (unsigned i = 0; i < batch->segments; i++) {
		uint64_t number = r->next - 1 + i;
		const struct pri_segment_entry *e = pri_sorted_run_at(r->run, number);
		uint64_t packets = 0;

		pri_level1_get(batch, i, &s);
		if (!e || e->deleted || number >= r->end ||
			e->sequence != batch->first_sequence + i ||
			e->handle.proof != s.proof || !pri_entry_inside(e, r->bounds))
			return false;
		for (size_t at = 0; pri_level1_series(&s, &at, &b);) {
			packets += b.packets;
			sums->bytes += b.bytes;
		}
		if (packets != e->count)
			return false;
		sums->packets += packets;
		sums->len_min = PR_MIN(sums->len_min, s.len_min);
	}
	return true;
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
	Packrack__Tally others = {.packets = sums->packets,
		.bytes = sums->bytes,
		.slack_packets = sums->packets,
		.slack_bytes = batch->bytes_short};

	/*
	 * What a host that the record does not name can have at most. Bytes: those of the
	 * last host named, if the record names as many as it can, plus what the record
	 * falls short of. Packets: as many of the shortest length as go into these bytes.
	 */
	if (count == PRI_LEVEL1_TOPS_MAX)
		others.slack_bytes += tops[count - 1].bytes;
	others.slack_bytes = PR_MIN(others.slack_bytes, sums->bytes);
	if (sums->len_min && others.slack_bytes / sums->len_min < sums->packets)
		others.slack_packets = others.slack_bytes / sums->len_min;
	pr_tally_sum(q->spec.tally, &others);
	for (size_t i = 0; i < count; i++) {
		struct pr_tally_item item = {.packets = tops[i].packets,
			.bytes = tops[i].bytes,
			.less_packets =
				less_than(others.slack_packets, batch->packets_short),
			.less_bytes = less_than(others.slack_bytes, batch->bytes_short)};

		if (pr_tally_add_less(
			    q->spec.tally, tops[i].address, tops[i].len, &item, err) < 0)
			return -1;
	}
	return 0;
}

/*
 * Counts the waiting segment by the index, and passes it over. 1: done; 0: the index
 * cannot; -1: no memory.
 */
static int
count_from_index(
	struct pri_query *q, struct pri_run_reader *r, bool *did_io, struct pr_error *err)
{
	bool hosts = q->spec.tally_key == PRI_TALLY_KEY_HOST && !q->spec.exact;
	struct series *series = &q->series[r->index];
	const struct pri_level1 *batch;
	struct batch_sums sums;

	if (q->spec.programs.count || (q->spec.tally_key != PRI_TALLY_KEY_TIME && !hosts))
		return 0;
	const struct pri_level1_segment *s = pri_prune_segment(
		q->context.prune, r->series->number, &r->entry, &batch, did_io);
	if (!s || !hosts)
		return s ? count_series(q, r, s, err) : 0;
	if (r->entry.sequence >= series->counted) {
		if (q->copies || !batch_serves(r, batch, &sums))
			return 0;
		if (add_tops(q, batch, &sums, err) < 0)
			return -1;
		series->counted = batch->first_sequence + batch->segments;
	}
	return pass_counted(q, r, s, err);
}

/* ---- skipping segments ---- */

/*
 * Skips the segment that waits if its packets cannot match, or if the index can count them. 1: it was skipped; 0: it
 * must be read; -1: no memory. *did_io: the index was read for it.
 */
static int
skip_segment(
	struct pri_query *q, struct pri_run_reader *r, bool *did_io, struct pr_error *err)
{
	const struct pri_segment_entry *e = &r->entry;
	const struct pr_relations *relations = q->spec.relations;
	enum pri_prune_verdict verdict;
	struct pri_held_walk held;
	bool sums = q->series[r->index].sums;
	int counted;

	*did_io = false;
	if (r->state == PRI_RUN_MUST_READ || !is_alone(q, r) ||
		(sums && (relations || !pri_plans_of_connections(
					       pri_prune_plans(q->context.prune)))))
		return 0;
	if (!sums && q->spec.tally && (counted = count_from_index(q, r, did_io, err)) != 0)
		return counted;
	/* far from every match no packet is related: there the filter without related packets decides */
	if (relations && !pr_relations_overlap(relations, e->min_time, e->max_time))
		verdict =
			pri_prune_ask(q->direct_prune, r->series->number, e, &held, did_io);
	else
		verdict = pri_run_reader_ask(r, &held, did_io);
	if (verdict != PRI_PRUNE_READ)
		return pass_segment(q, r, verdict, &held, err);
	r->state = PRI_RUN_MUST_READ;
	return 0;
}

/* Counts the segment that waits as read, and passes it over. -1: no memory. */
static int
estimate_segment(struct pri_query *q, struct pri_run_reader *r, struct pr_error *err)
{
	q->stats.scanned_packets += r->entry.count;
	q->stats.scanned_bytes += r->entry.handle.length;
	q->stats.scanned_segments++;
	if (!r->series->strays && cover_segment(q, r, err) < 0)
		return -1;
	r->state = PRI_RUN_WAITING;
	pr_merge_pass(q->merge, NULL);
	return 0;
}

/* Opens the segment that waits. -1: no memory. */
static int
open_segment(struct pri_query *q, struct pri_run_reader *r, struct pr_error *err)
{
	/* at least 1, if there is a limit */
	uint64_t left = q->spec.limit - q->stats.matched;
	int64_t skip_max = q->spec.limit && left < INT64_MAX ? left - 1 : INT64_MAX;
	const struct series *s = &q->series[r->index];
	/* of headers each is looked at: what the filter tests may be gone */
	bool all = s->sums || s->degree == PR_DEGREE_HEADERS || !is_alone(q, r);
	bool skips = pri_run_reader_open(r, all ? -1 : skip_max);

	if (skips) {
		q->stats.scanned_packets += r->entry.count;
		if (cover_segment(q, r, err) < 0)
			return -1;
	}
	pr_merge_pass(q->merge, NULL);
	return 0;
}

/* ---- packets ---- */

bool
pri_query_match(const struct pr_bpf_set *programs, const struct pr_bpf_set *direct,
	const struct pr_relations *relations, struct pr_packet *p)
{
	if (!relations)
		return pr_bpf_set_match(programs, p);
	if (pr_bpf_set_match(direct, p))
		return true;
	if (pr_bpf_set_match(programs, p))
		p->flags |= pr_relations_test(relations, p);
	return p->flags & PR_PACKET_RELATED;
}

static bool
matches(struct pri_query *q, const struct pri_run_reader *r, struct pr_packet *p)
{
	const struct pri_query_spec *spec = &q->spec;

	if (p->time < spec->since || p->time > spec->until)
		return false;
	if (r->series->strays) {
		q->stats.strays++;
		if (!spec->strays)
			return false;
	}
	enum pri_match known = pri_run_reader_match(r);
	if (known != PRI_MATCH_UNKNOWN)
		return known == PRI_MATCH_YES;
	if (!pri_query_match(&spec->programs, &spec->direct, spec->relations, p))
		return false;
	q->stats.related += (p->flags & PR_PACKET_RELATED) != 0;
	return true;
}

/* Does a packet of which only the headers are kept not match because a byte is gone that the filter tests? */
static bool
is_undecided(const struct pri_query *q, const struct pr_packet *p)
{
	const struct pr_bpf *program = pr_bpf_set_find(&q->spec.programs, p->linktype);
	bool unknown = false;

	return p->flags & PR_PACKET_FROM_HEADERS && p->caplen < p->len && program &&
	       p->time >= q->spec.since && p->time <= q->spec.until &&
	       !pr_bpf_run_known(program, p, NULL, &unknown) && unknown;
}

/* A sum of what a cutoff kept back. 1: all of it matches; -1: no memory. */
static int
take_sum(struct pri_query *q, const struct pr_packet *p, struct pr_error *err)
{
	const struct pri_query_spec *spec = &q->spec;
	const struct pr_bpf_set *programs =
		spec->relations ? &spec->direct : &spec->programs;
	struct pri_prune *prune = spec->relations ? q->direct_prune : q->context.prune;
	struct pr_beyond sum;

	if (!pr_beyond_load(p, &sum)) {
		q->stats.corrupt_records++;
		return 0;
	}
	if (sum.last < spec->since || sum.first > spec->until)
		return 0;
	enum pri_beyond_match match = pri_beyond_match(programs, pri_prune_plans(prune), p);
	if (match == PRI_BEYOND_NO)
		return 0;
	if (PR_ARRAY_GROW(q->beyond.items, q->beyond.count) < 0)
		return pr_error_set(err, "no memory for what a cutoff kept back");
	struct pri_beyond_item *item = &q->beyond.items[q->beyond.count++];
	packrack__beyond__init(&item->message);
	PR_COPY(&item->message, p, epoch, link, seq);
	PR_COPY(&item->message, &sum, number, packets, bytes);
	item->message.may = match == PRI_BEYOND_MAY || sum.first < spec->since ||
			    sum.last > spec->until;
	memcpy(item->name, sum.name, sizeof item->name);
	return !item->message.may;
}

/* One packet of the merge. PACKET: it matches; WAIT: it does not; ERROR. */
static int
take_packet(struct pri_query *q, struct pri_run_reader *r, struct pr_packet *out,
	struct pr_error *err)
{
	struct series *s = &q->series[r->index];
	bool repeated = pr_merge_repeats(q->merge);

	*out = r->packet;
	q->stats.scanned_packets += !r->skipping;
	pr_merge_pass(q->merge, out);
	if (repeated)
		return PR_SOURCE_WAIT;
	if (!r->skipping && cover_packet(q, s, out, err) < 0)
		return PR_SOURCE_ERROR;
	if (s->sums) {
		int taken = take_sum(q, out, err);

		if (taken > 0 && q->spec.sums && !q->spec.tally)
			return PR_SOURCE_PACKET;
		if (taken > 0 && q->spec.sums)
			taken = pri_tally_key_count(
				q->spec.tally, q->spec.tally_key, q->spec.step, out, err);
		return taken < 0 ? PR_SOURCE_ERROR : PR_SOURCE_WAIT;
	}
	if (!matches(q, r, out)) {
		q->stats.undecided += is_undecided(q, out);
		return PR_SOURCE_WAIT;
	}
	/* not if the index has counted the segment already */
	if (q->spec.tally && r->entry.sequence >= s->counted &&
		pri_tally_key_count(
			q->spec.tally, q->spec.tally_key, q->spec.step, out, err) < 0)
		return PR_SOURCE_ERROR;
	q->stats.matched++;
	/* a tally counts lengths on the link, and does not read all packets */
	q->stats.truncated += !q->spec.tally && (out->flags & PR_PACKET_CUT);
	count_degree(q, r, 1);
	q->stats.limit_reached = q->stats.matched == q->spec.limit;
	return PR_SOURCE_PACKET;
}

/* Segments at the ends of the range in which nothing matches may be read for their numbers. */
static bool
left_memory(const struct pri_query *q, struct pri_run_reader *r, struct pr_error *err)
{
	const struct pri_segment_entry *e = &r->entry;
	struct pri_held_walk held;
	char text[PR_TIME_TEXT];
	bool did_io;

	if (!sfs_read_plan(q->context.volume->sfs, &e->handle, NULL) ||
		(!pri_entry_inside(e, r->bounds) &&
			pri_prune_ask(q->context.prune, r->series->number, e, &held,
				&did_io) != PRI_PRUNE_READ))
		return false;
	pr_error_set(err,
		"memory has not all of this: packets of %s are on a disk alone: ask for "
		"later ones, or without --memory-only",
		pr_time_format(e->last_otime, text, sizeof text));
	return true;
}

int
pri_query_next(struct pri_query *q, struct pr_packet *out, struct pr_error *err)
{
	unsigned opened = 0, skipped = 0, filtered = 0;
	struct pri_run_reader *r;
	bool did_io;
	int rc = pri_prune_ready(q->context.prune, err);

	if (rc > 0 && q->direct_prune)
		rc = pri_prune_ready(q->direct_prune, err);
	if (rc <= 0)
		return rc < 0 ? PR_SOURCE_ERROR : PR_SOURCE_WAIT;
	while (!q->stats.limit_reached && (r = first_reader(q))) {
		if (r->state == PRI_RUN_OPEN) {
			rc = take_packet(q, r, out, err);
			if (rc != PR_SOURCE_WAIT || ++filtered == q->packets_a_look)
				return rc;
			continue;
		}
		rc = skip_segment(q, r, &did_io, err);
		if (rc < 0)
			return PR_SOURCE_ERROR;
		if (rc > 0 ? did_io || ++skipped == SKIPS_A_LOOK : opened++ > 0)
			return PR_SOURCE_WAIT;
		if (rc > 0)
			continue;
		if (q->spec.estimate) {
			if (estimate_segment(q, r, err) < 0)
				return PR_SOURCE_ERROR;
			continue;
		}
		if (q->spec.memory_only && left_memory(q, r, err))
			return PR_SOURCE_ERROR;
		if (!pri_run_reader_ready(r))
			return PR_SOURCE_WAIT;
		if (open_segment(q, r, err) < 0)
			return PR_SOURCE_ERROR;
	}
	return PR_SOURCE_END;
}

/* ---- whole segments ---- */

#define WHOLE_MIN (PR_SEGMENT_TARGET / 16) /* smaller ones are better put together */
#define WHOLE_MAX (2 * (size_t)PR_SEGMENT_TARGET) /* what buffers on the way are made for */

bool
pri_query_whole(struct pri_query *q)
{
	struct pri_run_reader *r = first_reader(q);
	size_t len = r ? r->entry.handle.length : 0;

	if (!r || r->series->strays || q->series[r->index].sums || q->spec.limit ||
		q->spec.relations || len < WHOLE_MIN || len > WHOLE_MAX ||
		!pr_bpf_set_all(&q->spec.programs, r->entry.linktype))
		return false;
	if (r->state != PRI_RUN_OPEN) {
		pri_run_reader_open(r, -1);
		pr_merge_pass(q->merge, NULL);
		if (first_reader(q) != r)
			return false;
	}
	return pri_run_reader_untouched(r) &&
	       r->reader.header.linktype == r->entry.linktype &&
	       !pr_merge_repeats(q->merge) &&
	       r->reader.header.last_otime < pr_merge_second_otime(q->merge);
}

int
pri_query_take_whole(struct pri_query *q, const uint8_t **body, size_t *len,
	struct pri_read_buffer **buffer, struct pr_error *err)
{
	struct pri_run_reader *r = first_reader(q);
	struct series *s = &q->series[r->index];
	struct pr_segment_walk walk;
	struct pr_segment_step p;
	struct pr_packet last;
	struct pri_read_buffer mine = q->whole;

	r->not_whole = !pri_run_reader_verify(r, &walk, &last);
	if (r->not_whole)
		return 0;
	if (last.seq - r->packet.seq == r->reader.header.count - 1 &&
		last.seq == pri_entry_last_seq(&r->entry) &&
		last.otime == r->entry.last_otime) {
		if (cover_segment(q, r, err) < 0)
			return -1;
	} else {
		while (pr_segment_walk_next(&walk, &p) == 1)
			if (cover(q, s, r->reader.header.first_seq + p.seq, p.otime, err) <
				0)
				return -1;
	}
	q->stats.scanned_packets += r->reader.header.count;
	q->stats.matched += r->reader.header.count;
	count_degree(q, r, r->reader.header.count);
	*body = r->body;
	*len = r->entry.handle.length;
	q->whole = r->buffer;
	r->buffer = mine;
	*buffer = &q->whole;
	r->state = PRI_RUN_WAITING;
	pr_merge_pass(q->merge, &last);
	return 1;
}

/* ---- what others ask ---- */

int
pri_query_take_coverage(struct pri_query *q, struct pri_range_list *list,
	int64_t *watermark, struct pr_error *err)
{
	const struct pri_run_reader *r = first_reader(q);

	/* a builder takes 8 KiB: of many series only those in use should have one */
	for (size_t i = 0; i < q->series_count; i++) {
		struct series *s = &q->series[i];

		if (s->coverage &&
			pri_range_builder_end(s->coverage, &q->coverage, err) < 0)
			return -1;
		free(s->coverage);
		s->coverage = NULL;
	}
	*watermark = r ? r->packet.otime : PR_TIME_MAX;
	*list = q->coverage;
	q->coverage = (struct pri_range_list){0};
	return 0;
}

size_t
pri_query_coverage_bytes(const struct pri_query *q)
{
	return q->coverage.bytes + q->coverage.count * sizeof(struct pr_summary_run) +
	       q->beyond.count * sizeof(struct pri_beyond_item);
}

void
pri_query_take_beyond(struct pri_query *q, struct pri_beyond_list *list)
{
	*list = q->beyond;
	q->beyond = (struct pri_beyond_list){0};
}

static int
add_edge(struct pri_range_list *list, const struct series *s,
	const struct pri_seq_time *edge, struct pr_error *err)
{
	if (!edge->seq)
		return 0;
	const struct pr_summary_run run = {.epoch = s->stored->epoch,
		.link = s->stored->link,
		.first = edge->seq,
		.last = edge->seq,
		.first_otime = edge->otime,
		.last_otime = edge->otime};
	return PR_ARRAY_ADD(list->items, list->count, run) < 0
		       ? pr_error_set(err, "no memory for the list of stored packets")
		       : 0;
}

int
pri_query_take_edges(struct pri_query *q, struct pri_range_list *list, struct pr_error *err)
{
	bool done = !first_reader(q);

	for (size_t i = 0; i < q->series_count; i++) {
		struct series *s = &q->series[i];
		bool lower = (s->passed || done) && !s->lower_given;
		bool upper = done && !s->upper_given;

		if (s->stored->strays)
			continue;
		s->lower_given |= lower;
		s->upper_given |= upper;
		if ((lower && add_edge(list, s, &s->bounds.lower, err) < 0) ||
			(upper && add_edge(list, s, &s->bounds.upper, err) < 0))
			return -1;
	}
	return 0;
}

const Packrack__End *
pri_query_stats(struct pri_query *q)
{
	struct pri_volume_stats stats;

	pri_volume_stats(q->volume, &stats);
	q->report = q->stats;
	q->report.corrupt_records += stats.corrupt_records;
	return &q->report;
}

const struct pr_loss *
pri_query_damaged(const struct pri_query *q, size_t *count)
{
	*count = q->context.damaged_count;
	return q->context.damaged;
}

const struct pri_query_spec *
pri_query_spec(const struct pri_query *q)
{
	return &q->spec;
}

/* ---- what is gone ---- */

/* A time of which a stream has no packets any more. */
struct gone {
	uint32_t stream;
	int64_t since, until;
	bool midst;
};

/*
 * Which seqs of an epoch series may lie in that time: those between the nearest MARKs outside of it, and between the
 * nearest segments that are listed. stored or told may be
 * NULL. False: there are none. *last 0: nobody knows.
 */
static bool
seqs_of(const struct gone *gone, const struct pri_epoch_series *stored,
	const struct pri_series_ledger *told, uint64_t *first, uint64_t *last)
{
	struct pri_seq_time below = {0, 0}, above = {0, 0};
	uint64_t top = told ? told->mark.link.last_seq : 0;

	if (told)
		pri_series_ledger_points(told, gone->since,
			pr_time_minus(gone->until, -STEP_BACK_NS), &below, &above);
	*first = below.seq + 1;
	*last = above.seq - 1; /* no MARK: UINT64_MAX */
	for (size_t i = 0; stored && i < stored->run_count; i++) {
		const struct pri_sorted_run *run = stored->runs[i];
		uint64_t at = pri_sorted_run_search(run, gone->since);

		const struct pri_segment_entry *e =
			at > run->base ? pri_sorted_run_at(run, at - 1) : NULL;
		if (e && pri_entry_last_seq(e) >= *first)
			*first = pri_entry_last_seq(e) + 1;
		at = pri_sorted_run_search(run, gone->until);
		while ((e = pri_sorted_run_at(run, at)) &&
			(e->first_otime < gone->until ||
				(e->deleted && e->first_otime == gone->until)))
			at++;
		if (e && e->first_seq <= *last)
			*last = e->first_seq - 1;
		e = pri_sorted_run_at(run, pri_sorted_run_end(run) - 1);
		top = e ? PR_MAX(pri_entry_last_seq(e), top) : top;
	}
	if (*last != UINT64_MAX)
		return *first <= *last;
	*last = top;
	return !top || *first <= top;
}

static int
add_gone(const struct pri_query *q, struct pri_evicted_list *list, const struct gone *gone,
	const struct pri_epoch_series *stored, const struct pri_series_ledger *told,
	struct pr_error *err)
{
	uint64_t first, last;
	uint16_t number;

	if (!seqs_of(gone, stored, told, &first, &last))
		return 0;
	if (PR_ARRAY_GROW(list->items, list->count) < 0)
		return pr_error_set(err, "no memory for the list of overwritten packets");
	Packrack__Evicted *e = &list->items[list->count++];
	packrack__evicted__init(e);
	e->stream = (char *)pri_volume_stream_name(q->volume, gone->stream);
	e->epoch = stored ? stored->epoch : told->epoch;
	e->link = stored ? stored->link : told->link;
	e->first_seq = first;
	e->last_seq = last;
	e->midst = gone->midst;
	e->since = gone->midst ? gone->since : 0;
	e->until = gone->until;
	if (pri_stream_is_link(e->stream, &number)) {
		const struct pr_class *class =
			&q->volume->ledger.classes[pr_stream_class(number)];

		e->class_ = (char *)class->name;
		e->keep = class->keep;
	}
	return 0;
}

/* The query's part of a stream that has the series; NULL: none. */
static const struct series *
find_series(
	const struct pri_query *q, uint32_t stream, const struct pri_series_ledger *told)
{
	for (size_t i = 0; i < q->series_count; i++) {
		const struct pri_epoch_series *s = q->series[i].stored;

		if (s->epoch == told->epoch && s->link == told->link && s->stream == stream)
			return &q->series[i];
	}
	return NULL;
}

/* Epochs of a link follow each other: one is over when the next begins, which their numbers tell to the second. */
static bool
was_over(const struct pri_ledger_view *ledger, size_t i, int64_t since)
{
	uint16_t link = ledger->series[i]->link;

	while (++i < ledger->count && ledger->series[i]->link != link)
		;
	return i < ledger->count &&
	       (int64_t)((ledger->series[i]->epoch >> 32) + 1) * PR_NS_PER_S <= since;
}

/* Adds what is gone of each epoch of the link, of which packets are listed, or only the ledger tells. */
static int
add_gone_of_link(const struct pri_query *q, struct pri_evicted_list *list, unsigned link,
	const struct gone *gone, struct pr_error *err)
{
	const struct pri_ledger_view *ledger = &q->volume->ledger;
	int64_t since = PR_MAX(gone->since, q->spec.since);

	for (size_t i = 0; i < q->series_count; i++) {
		const struct pri_epoch_series *s = q->series[i].stored;

		if (s->stream == gone->stream &&
			add_gone(q, list, gone, s,
				pri_ledger_view_find(ledger, s->epoch, s->link), err) < 0)
			return -1;
	}
	for (size_t i = 0; i < ledger->count; i++) {
		const struct pri_series_ledger *s = ledger->series[i];
		bool declared = s->have_mark && s->mark.link.last_seq;

		if (s->link == link && (declared || s->have_link) &&
			pri_query_selects(q, s) &&
			(declared ? s->mark.link.last_otime >= q->spec.since
				  : !was_over(ledger, i, since)) &&
			!find_series(q, gone->stream, s) &&
			add_gone(q, list, gone, NULL, s, err) < 0)
			return -1;
	}
	return 0;
}

/* The oldest data of a stream, which was overwritten or deleted; perhaps while the query ran. */
static int
oldest_gone(const struct pri_query *q, struct pri_evicted_list *list, unsigned link,
	const struct sfs_stream_info *info, struct pr_error *err)
{
	struct gone gone = {.stream = info->id,
		.since = PR_TIME_MIN,
		.until = pri_volume_evicted_until(q->volume, info->id)};

	for (size_t i = 0; i < q->series_count; i++) {
		int64_t seen = q->series[i].bounds.evicted_until;

		if (q->series[i].stored->stream == info->id && seen > gone.until)
			gone.until = seen;
	}
	return gone.until == PR_TIME_MIN ? 0 : add_gone_of_link(q, list, link, &gone, err);
}

#define DELETED_MAX 100 /* ranges of a stream: beyond, neighbours are put together */

/* What was deleted from the middle of a stream. */
static int
midst_gone(const struct pri_query *q, struct pri_evicted_list *list, unsigned link,
	const struct sfs_stream_info *info, struct pr_error *err)
{
	struct gone gone = {.stream = info->id, .midst = true, .until = PR_TIME_MIN};
	struct sfs_deleted range = {0};
	size_t count = 0;
	int rc = 0;

	if (!info->deleted_records)
		return 0;
	while (rc == 0 &&
		sfs_stream_deleted(q->volume->sfs, info->id, range.last + 1, &range)) {
		if (range.max_time < q->spec.since || range.min_time > q->spec.until)
			continue;
		if (count > 0 && count < DELETED_MAX)
			rc = add_gone_of_link(q, list, link, &gone, err);
		if (++count <= DELETED_MAX)
			gone.since = range.min_time;
		if (count <= DELETED_MAX || range.max_time > gone.until)
			gone.until = range.max_time;
	}
	return rc == 0 && count > 0 ? add_gone_of_link(q, list, link, &gone, err) : rc;
}

#define REREAD_NS (20 * PR_NS_PER_MS)

/* Has some of it disappeared while the query ran? */
static bool
overtaken(const struct pri_query *q)
{
	bool any = q->context.deleted_segments > 0;

	for (size_t i = 0; i < q->series_count; i++)
		any |= q->series[i].bounds.evicted_until != PR_TIME_MIN;
	return any;
}

int
pri_query_evicted(struct pri_query *q, struct pri_evicted_list *out, struct pr_error *err)
{
	struct sfs_volume_info volume;
	struct sfs_stream_info info;
	uint16_t number;

	/* also the ledger, which gets its entry before the deletion */
	if (overtaken(q))
		pri_volume_refresh(q->volume, false, pr_now_mono() + REREAD_NS, NULL);
	int rc = sfs_info(q->volume->sfs, &volume, err);
	*out = (struct pri_evicted_list){0};
	for (size_t i = 0; rc == SFS_OK && i < volume.stream_count; i++) {
		rc = sfs_stream_info(q->volume->sfs, i, &info, err);
		/* what a hold has lost is gone elsewhere, too, and named there */
		if (rc != SFS_OK || !pri_stream_is_link(info.name, &number) ||
			pr_class_degree(
				q->volume->ledger.classes[pr_stream_class(number)].name) ==
				PR_DEGREE_HOLD)
			continue;
		rc = oldest_gone(q, out, pr_stream_link(number), &info, err);
		if (rc == 0)
			rc = midst_gone(q, out, pr_stream_link(number), &info, err);
	}
	if (rc == SFS_OK)
		return 0;
	free(out->items);
	out->items = NULL;
	return -1;
}
