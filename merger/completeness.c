/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/completeness.h"

#include <stdio.h>

#include "merger/beyond.h"
#include "proto/base/array.h"
#include "proto/rpc/message.h"
#include "proto/wire/beyond.h"
#include "proto/wire/ledger.h"

/*
 * In this order: nodes and epoch series, ranges and edges, their union and its gaps, the end of a node's answer, the
 * gaps' reasons, the report.
 */

/* A range of seqs as a node reported it. bits NULL: all of first..last are held. */
struct range {
	uint64_t first, last;
	int64_t first_otime, last_otime;
	uint8_t *bits;
};

/* A seq known to be held somewhere, and its otime. seq 0: none. */
struct point {
	uint64_t seq;
	int64_t otime;
};

struct ranges {
	struct range *items; /* by first */
	size_t count;
};

/* The ledger of a series, as a node has it. */
struct told {
	int node;
	int64_t said_until;
	uint64_t seq; /* all up to here are stored there, or known to be lost */
	uint64_t dropped; /* in the range at most, of what was captured up to said_until */
	bool ended;
};

struct unobserved {
	unsigned reason; /* enum pr_unobserved_reason */
	int64_t since, until;
	char *by;
};

/* A walk through the losses of a series; honest nodes have few that overlap. */
#define WALK_MAX 256
struct walk {
	size_t next, count;
	const Packrack__Loss *begun[WALK_MAX];
};

/* One (epoch, link): an epoch series. */
struct series {
	uint64_t epoch;
	uint32_t link;
	struct ranges ranges; /* those not judged yet */
	Packrack__Loss **gaps; /* their times: of the held neighbours, or INT64_MIN, _MAX */
	size_t gap_count;
	Packrack__Loss *losses; /* each with a reason of its own */
	size_t loss_count;
	uint64_t judged; /* all seqs up to this one are judged */
	struct point first; /* lowest held in the range */
	struct point last; /* highest among the judged whose otime is known */
	uint64_t top; /* highest held among the judged; 0: none */
	struct point below, above; /* edges: nearest held outside the range */
	struct point lost; /* highest of the losses and evictions in the range */
	uint64_t held;
	Packrack__Ledger *ledger; /* merged over nodes; one of out's; NULL: none */
	size_t *evicted; /* indexes of what nodes have overwritten or deleted of it */
	size_t evicted_count;
	bool in_scope; /* the query's link filter lets it through */
	struct told *told; /* by each node */
	size_t told_count;
	/*
	 * What is confirmed of the epoch: from first_said, or the time that BEGIN or FILE has, to said_until of the
	 * newest MARK that a node has, less the unobserved times of all nodes.
	 */
	struct point newest; /* its last_seq; otime: said_until */
	bool confirmed;
	int64_t first_said;
	struct unobserved *unobserved;
	size_t unobserved_count;
	uint64_t settled; /* lowest seq of the nodes that still hear the dispatcher */
};

struct node {
	Packrack__NodeAnswer *answer; /* one of out's */
	bool failed; /* answer->error says why */
	bool ended;
	bool limited; /* it gave as many packets as were asked for, and may hold more */
	int64_t watermark;
	uint64_t corrupt, located; /* records that it cannot read; of these, in losses */
	bool evicted, wholly; /* scratch of suspects_of; wholly: all of the gap */
};

/* One of out's, while that is made. */
struct evicted {
	int node;
	bool missed; /* some of it may be held nowhere else */
};

struct prm_completeness {
	struct prm_completeness_options options;
	struct prm_beyond beyond;
	char *link; /* "": all */
	int64_t since; /* where the range begins: as asked, or at the oldest packet that is stored */
	struct series **series; /* by epoch and link */
	size_t series_count;
	struct node *nodes; /* as many as out has */
	struct evicted *evicted; /* as many as out has */
	size_t gap_count, loss_count; /* over all series */
	Packrack__Completeness *out; /* filled from the beginning; NULL: handed over */
	uint64_t ranges_taken_apart;
	uint64_t held, told; /* distinct, and summed over nodes */
	size_t bytes;
	bool cut, failed_memory;
	struct walk walk; /* while a series' gaps are explained */
	int64_t cut_otime;
	struct series *cut_at; /* has the last packet; NULL: not known */
	/* sweep's scratch: ranges that may cover the present seq */
	const struct range **active;
};

enum { SWEEP_BYTES_DEFAULT = 1024 * 1024, NODES_MAX = 4096 };
#define TAKEN_APART_MAX 4000000 /* ranges; bounds what the end of one query costs others */

struct prm_completeness *
prm_completeness_create(
	const struct prm_completeness_options *options, struct pr_error *err)
{
	struct prm_completeness *c = calloc(1, sizeof(*c));

	if (c) {
		c->options = *options;
		c->since = options->since;
		c->link = strdup(options->link ? options->link : "");
		c->out = malloc(sizeof(*c->out));
	}
	if (c && c->out)
		packrack__completeness__init(c->out);
	if (!c || !c->out || !c->link) {
		prm_completeness_destroy(&c);
		return pr_error_null(err, "no memory for the completeness of an answer");
	}
	if (!c->options.sweep_bytes)
		c->options.sweep_bytes = SWEEP_BYTES_DEFAULT;
	return c;
}

void
prm_completeness_destroy(struct prm_completeness **cp)
{
	struct prm_completeness *c = PR_TAKE(cp);

	if (!c)
		return;
	for (size_t i = 0; i < c->series_count; i++) {
		struct series *series = c->series[i];

		for (size_t j = 0; j < series->ranges.count; j++)
			free(series->ranges.items[j].bits);
		for (size_t j = 0; j < series->loss_count; j++)
			free(series->losses[j].reason);
		free(series->ranges.items);
		for (size_t j = 0; j < series->gap_count; j++)
			packrack__loss__free_unpacked(series->gaps[j], NULL);
		PR_FREE(series, gaps, losses);
		for (size_t j = 0; j < series->unobserved_count; j++)
			free(series->unobserved[j].by);
		PR_FREE(series, unobserved, told, evicted);
		free(series);
	}
	packrack__completeness__free_unpacked(c->out, NULL);
	PR_FREE(c, nodes, evicted, series, active);
	prm_beyond_free(&c->beyond);
	free(c->link);
	free(c);
}

/* Without memory the text is "", and failed_memory is set. */
static void
text_set(struct prm_completeness *c, char **to, const char *text)
{
	if (*to != protobuf_c_empty_string)
		free(*to);
	*to = text[0] ? strdup(text) : (char *)protobuf_c_empty_string;
	if (!*to) {
		*to = (char *)protobuf_c_empty_string;
		c->failed_memory = true;
	}
}

int
prm_completeness_node(struct prm_completeness *c, const char *name, struct pr_error *err)
{
	size_t n = c->out->n_nodes;
	Packrack__NodeAnswer *answer = NULL;

	if (n >= NODES_MAX)
		return pr_error_set(err, "more than %d nodes in one query", NODES_MAX);
	if (PR_ARRAY_GROW(c->nodes, n) == 0 && PR_ARRAY_GROW(c->out->nodes, n) == 0)
		answer = malloc(sizeof(*answer));
	if (!answer)
		return pr_error_set(err, "no memory for node %s", name);
	packrack__node_answer__init(answer);
	text_set(c, &answer->node, name);
	c->nodes[n] = (struct node){.answer = answer, .watermark = INT64_MIN};
	c->out->nodes[c->out->n_nodes++] = answer;
	return n;
}

Packrack__NodeAnswer *
prm_completeness_answer(const struct prm_completeness *c, int node)
{
	return c->nodes[node].answer;
}

void
prm_completeness_set_reason(
	struct prm_completeness *c, int node, const char *why, bool left_out)
{
	Packrack__NodeAnswer *answer = c->nodes[node].answer;

	text_set(c, &answer->why, why);
	answer->left_out = left_out;
}

bool
prm_link_is(const char *wanted, uint32_t link)
{
	char *end;
	unsigned long number = strtoul(wanted, &end, 10);

	return !*wanted ? link != PR_LINK_CANARY
			: end != wanted && !*end && number == pr_link_base(link);
}

/* Found, or added; NULL: no memory for `what`. */
static struct series *
series_of(struct prm_completeness *c, uint64_t epoch, uint32_t link, const char *what,
	struct pr_error *err)
{
	size_t at = PR_ARRAY_SEARCH(c->series_count,
		c->series[mid]->epoch < epoch ||
			(c->series[mid]->epoch == epoch && c->series[mid]->link < link));
	if (at < c->series_count && c->series[at]->epoch == epoch &&
		c->series[at]->link == link)
		return c->series[at];
	struct series *series;
	if (c->series_count >= PRM_COMPLETENESS_SERIES_MAX ||
		PR_ARRAY_GROW(c->series, c->series_count) < 0 ||
		!(series = malloc(sizeof(*series))))
		return pr_error_null(err, "no memory for %s", what);
	*series = (struct series){
		.epoch = epoch, .link = link, .in_scope = prm_link_is(c->link, link)};
	memmove(&c->series[at + 1], &c->series[at],
		(c->series_count++ - at) * sizeof(*c->series));
	return c->series[at] = series;
}

/* Ranges come nearly in order, so the place is searched from the end. */
static bool
range_insert(struct ranges *to, const struct range *range)
{
	size_t at;

	if (PR_ARRAY_GROW(to->items, to->count) < 0)
		return false;
	for (at = to->count++; at && to->items[at - 1].first > range->first; at--)
		to->items[at] = to->items[at - 1];
	to->items[at] = *range;
	return true;
}

/* The sums of a second have the time of its end. */
static int64_t
until_of(const struct prm_completeness *c, uint32_t link)
{
	return pr_link_is_beyond(link) ? pr_beyond_last(c->options.until)
				       : c->options.until;
}

/* edge: it lies just outside the time range. */
static int
held_add(struct prm_completeness *c, const Packrack__Held *h, bool edge,
	struct pr_error *err)
{
	static const char what[] = "what it holds";
	struct range range = {h->first, h->last, h->first_otime, h->last_otime, NULL};
	uint64_t span = h->last - h->first;

	if (h->first < 1 || h->last < h->first || h->last == UINT64_MAX ||
		h->link > UINT16_MAX || h->first_otime > h->last_otime)
		return pr_error_set(err, "it reported an invalid range of seqs");
	if (h->bits.len && h->bits.len != span / 8 + 1)
		return pr_error_set(err, "it reported %llu seqs with %zu bytes of bits",
			(unsigned long long)span + 1, h->bits.len);
	struct series *series = series_of(c, h->epoch, h->link, what, err);
	if (!series)
		return -1;
	if (edge) {
		if (h->last_otime < c->options.since && h->last > series->below.seq)
			series->below = (struct point){h->last, h->last_otime};
		else if (h->first_otime > until_of(c, series->link) &&
			 (!series->above.seq || h->first < series->above.seq))
			series->above = (struct point){h->first, h->first_otime};
		return 0;
	}
	series->in_scope = true; /* reported, so the query asks for it, whatever its name */
	if (h->last <= series->judged)
		return 0; /* too late to count: that seqs are missing has been settled */
	if (h->bits.len)
		range.bits = malloc(h->bits.len);
	if ((h->bits.len && !range.bits) || !range_insert(&series->ranges, &range)) {
		free(range.bits);
		return pr_error_set(err, "no memory for %s", what);
	}
	if (range.bits)
		memcpy(range.bits, h->bits.data, h->bits.len);
	c->bytes += sizeof(range) + h->bits.len;
	return 0;
}

static int64_t
watermark_of_all(const struct prm_completeness *c)
{
	int64_t least = INT64_MAX;

	for (size_t i = 0; i < c->out->n_nodes; i++)
		if ((!c->nodes[i].ended || c->nodes[i].limited) &&
			c->nodes[i].watermark < least)
			least = c->nodes[i].watermark;
	return least;
}

void
prm_completeness_failed(struct prm_completeness *c, int node, const char *why)
{
	struct node *n = &c->nodes[node];

	n->ended = true;
	if (!n->failed)
		text_set(c, &n->answer->error, why);
	n->failed = true;
}

void
prm_completeness_truncate(struct prm_completeness *c, const struct pr_packet *last)
{
	c->cut = true;
	c->cut_otime = last ? last->otime : INT64_MAX;
	if (!last || !last->seq || last->seq == UINT64_MAX)
		return;
	/* of this series nothing is judged behind the packet; of the others, nothing later */
	c->cut_at = series_of(c, last->epoch, last->link, "the last packet", NULL);
	if (c->cut_at)
		c->cut_at->above = (struct point){last->seq + 1, last->otime};
}

/* Cancelled: some nodes have not told what they know. */
static bool
broken_off(const struct prm_completeness *c)
{
	bool any = false;

	for (size_t i = 0; c->cut && i < c->out->n_nodes; i++)
		any |= !c->nodes[i].ended && !c->nodes[i].answer->left_out;
	return any;
}

size_t
prm_completeness_bytes(const struct prm_completeness *c)
{
	return c->bytes;
}

bool
prm_completeness_is_slowest(const struct prm_completeness *c, int node)
{
	return c->nodes[node].watermark <= watermark_of_all(c);
}

uint64_t
prm_completeness_duplicates(const struct prm_completeness *c)
{
	return c->told - c->held;
}

void
prm_completeness_bounds_only(struct prm_completeness *c)
{
	c->out->held_at_most = true;
}

static bool
clip_to_edges(const struct series *series, uint64_t *first, uint64_t *last)
{
	if (*first <= series->below.seq)
		*first = series->below.seq + 1;
	if (series->above.seq && *last >= series->above.seq)
		*last = series->above.seq - 1;
	return *first <= *last;
}

static uint64_t
length_of(const Packrack__Loss *range)
{
	return range->last_seq - range->first_seq + 1;
}

/*
 * Adds the gap between two seqs, each held or outside the range. below.seq 0: the gap
 * begins at 1.
 */
static void
gap_add(struct prm_completeness *c, struct series *series, struct point below,
	struct point above)
{
	Packrack__Loss gap = PACKRACK__LOSS__INIT;
	size_t before = series->gap_count;

	PR_COPY(&gap, series, epoch, link);
	gap.first_seq = below.seq + 1;
	gap.last_seq = above.seq - 1;
	gap.ranges = 1;
	gap.first_time = below.otime;
	gap.last_time = above.otime;
	if (!clip_to_edges(series, &gap.first_seq, &gap.last_seq))
		return;
	gap.count = length_of(&gap);
	c->failed_memory |=
		prm_gaps_add(&series->gaps, &series->gap_count, &gap, c->gap_count) < 0;
	c->gap_count += series->gap_count - before;
}

/*
 * The union of ranges, in steps of up to 64 seqs; where all seqs or none are held, a range
 * is one step. Costs nodes x seqs / 64 on a rack, and nothing per seq with one node.
 */

/* Honest nodes never have more overlapping ranges; the surplus counts as not held. */
#define ACTIVE_MAX 4096

struct sweep {
	struct prm_completeness *c;
	struct series *series;
	size_t next; /* first range not yet active */
	size_t active; /* count */
	uint64_t at;
};

static void
point_raise(struct point *known, uint64_t seq, int64_t otime)
{
	if (seq > known->seq)
		*known = (struct point){seq, otime};
}

/* Takes up the ranges that begin here, drops those that end before. */
static void
activate(struct sweep *s)
{
	struct prm_completeness *c = s->c;
	const struct ranges *all = &s->series->ranges;
	size_t kept = 0;

	for (size_t i = 0; i < s->active; i++)
		if (c->active[i]->last >= s->at)
			c->active[kept++] = c->active[i];
		else
			point_raise(&s->series->last, c->active[i]->last,
				c->active[i]->last_otime);
	s->active = kept;
	for (; s->next < all->count && all->items[s->next].first <= s->at; s->next++) {
		if (all->items[s->next].last < s->at || s->active >= ACTIVE_MAX)
			continue;
		if (PR_ARRAY_ADD(c->active, s->active, &all->items[s->next]) < 0)
			c->failed_memory = true;
	}
}

/* The otime of the lowest seq from `seq` on whose otime is known. */
static int64_t
otime_after(const struct sweep *s, uint64_t seq)
{
	const struct ranges *all = &s->series->ranges;
	struct point best = {0, INT64_MAX};

	for (size_t i = 0; i < s->active; i++) {
		const struct range *p = s->c->active[i];
		bool first = p->first >= seq;
		uint64_t known = first ? p->first : p->last;

		if (known >= seq && (!best.seq || known < best.seq))
			best = (struct point){
				known, first ? p->first_otime : p->last_otime};
	}
	return s->next < all->count && (!best.seq || all->items[s->next].first < best.seq)
		       ? all->items[s->next].first_otime
		       : best.otime;
}

/* Seqs at..at + count - 1 are held; those between the last held one and `at` are a gap. */
static void
take_held(struct sweep *s, uint64_t at, uint64_t count)
{
	struct series *series = s->series;
	uint64_t top = series->top, last = at + count - 1;
	struct point before = series->last;

	if (!series->first.seq) {
		series->first = (struct point){at, otime_after(s, at)};
	} else if (at > top + 1) {
		/* the highest seq before the gap whose otime is known */
		for (size_t i = 0; i < s->active; i++) {
			const struct range *p = s->c->active[i];

			if (p->first <= top)
				point_raise(&before, p->first, p->first_otime);
			if (p->last <= top)
				point_raise(&before, p->last, p->last_otime);
		}
		gap_add(s->c, series,
			(struct point){top, before.seq ? before.otime : INT64_MIN},
			(struct point){at, otime_after(s, at)});
	}
	series->top = last;
	if (clip_to_edges(series, &at, &last))
		series->held += last - at + 1;
	s->c->held += count;
}

static uint64_t
load_bits(const struct range *p, uint64_t at, unsigned width)
{
	uint64_t offset = at - p->first, word = 0;
	size_t byte = offset / 8, len = (p->last - p->first) / 8 + 1;
	unsigned shift = offset % 8;
	uint64_t mask = width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;

	if (!p->bits)
		return mask;
	for (unsigned i = 0; i < 8 && byte + i < len; i++)
		word |= (uint64_t)p->bits[byte + i] << (8 * i);
	word >>= shift;
	if (shift && byte + 8 < len)
		word |= (uint64_t)p->bits[byte + 8] << (64 - shift);
	return word & mask;
}

static void
take_word(struct sweep *s, unsigned width)
{
	uint64_t word = 0;

	for (size_t i = 0; i < s->active; i++) {
		uint64_t bits = load_bits(s->c->active[i], s->at, width);

		s->c->told += __builtin_popcountll(bits);
		word |= bits;
	}
	for (unsigned done = 0; done < width;) {
		bool set = word >> done & 1;
		uint64_t rest = (set ? ~word : word) >> done;
		unsigned run = rest ? (unsigned)__builtin_ctzll(rest) : width - done;

		run = PR_MIN(run, width - done);
		if (set)
			take_held(s, s->at + done, run);
		done += run;
	}
	s->at += width;
}

/* Takes the next seqs, up to upto, that lie in the same ranges. */
static void
step(struct sweep *s, uint64_t upto)
{
	const struct ranges *all = &s->series->ranges;
	uint64_t last = upto, width;
	bool full = true;

	activate(s);
	for (size_t i = 0; i < s->active; i++) {
		last = PR_MIN(last, s->c->active[i]->last);
		full = full && !s->c->active[i]->bits;
	}
	if (s->next < all->count && all->items[s->next].first <= last)
		last = all->items[s->next].first - 1;
	width = last - s->at + 1;
	if (!full) {
		take_word(s, width > 64 ? 64 : width);
		return;
	}
	if (s->active)
		take_held(s, s->at, width);
	s->c->told += width * s->active;
	s->at += width;
}

/* Judges the ranges that end before this otime, and frees them. */
static void
judge_before(struct prm_completeness *c, struct series *series, int64_t before)
{
	struct sweep s = {.c = c, .series = series, .at = series->judged + 1};
	struct ranges *all = &series->ranges;
	uint64_t upto = 0;
	size_t kept = 0;

	for (size_t i = 0; i < all->count; i++)
		if ((before == INT64_MAX || all->items[i].last_otime < before) &&
			all->items[i].last > upto)
			upto = all->items[i].last;
	if (upto <= series->judged)
		return;
	/* what lies before the first held seq is bounded by the edges, which come to light later */
	if (!series->judged && all->items[0].first > s.at)
		s.at = all->items[0].first;
	while (s.at <= upto)
		step(&s, upto);
	activate(&s);
	series->judged = upto;
	for (size_t i = 0; i < all->count; i++) {
		struct range *p = &all->items[i];

		if (p->last > upto) {
			all->items[kept++] = *p;
			continue;
		}
		c->bytes -= sizeof(*p) + (p->bits ? (p->last - p->first) / 8 + 1 : 0);
		free(p->bits);
	}
	all->count = kept;
}

/* What a node says at its end: losses, evictions, ledgers; kept until the gaps are explained. */

#define EVICTED_MAX 65536

int
prm_completeness_batch(struct prm_completeness *c, int node, const Packrack__Batch *batch,
	struct pr_error *err)
{
	for (size_t i = 0; i < batch->n_edge; i++)
		if (held_add(c, batch->edge[i], true, err) < 0)
			return -1;
	for (size_t i = 0; i < batch->n_held; i++)
		if (held_add(c, batch->held[i], false, err) < 0)
			return -1;
	for (size_t i = 0; i < batch->n_beyond; i++)
		if (prm_beyond_add(&c->beyond, batch->beyond[i], err) < 0)
			return -1;
	if (batch->frontier && batch->frontier > c->nodes[node].watermark)
		c->nodes[node].watermark = batch->frontier;
	if (c->bytes <= c->options.sweep_bytes)
		return 0;
	int64_t watermark = watermark_of_all(c);
	for (size_t i = 0; i < c->series_count; i++)
		judge_before(c, c->series[i], watermark);
	return 0;
}

static bool
in_time(const struct prm_completeness *c, const Packrack__Loss *l)
{
	return l->last_time >= c->since && l->first_time <= until_of(c, l->link);
}

static int
loss_add(struct prm_completeness *c, int node, const Packrack__Loss *from,
	struct pr_error *err)
{
	static const char what[] = "its losses";
	Packrack__Loss loss = *from;
	uint64_t span = loss.last_seq - loss.first_seq;

	if (loss.first_seq < 1 || loss.last_seq < loss.first_seq ||
		loss.last_seq == UINT64_MAX || from->link > UINT16_MAX ||
		loss.count > span + 1 ||
		(loss.bits && (span > 63 || loss.bits >> span != 1 || !~loss.bits)))
		return pr_error_set(err, "it reported an invalid loss");
	struct series *series = series_of(c, loss.epoch, loss.link, what, err);
	if (!series)
		return -1;
	series->in_scope = true; /* reported, so the query asks for it */
	if (loss.last_seq > series->lost.seq && in_time(c, &loss))
		series->lost = (struct point){loss.last_seq, loss.last_time};
	if (c->loss_count >= PRM_COMPLETENESS_LOSSES_MAX)
		return 0; /* the gap stays, only its reason is not known */
	if (PR_ARRAY_GROW(series->losses, series->loss_count) < 0 ||
		!(loss.reason = strdup(from->reason)))
		return pr_error_set(err, "no memory for %s", what);
	c->nodes[node].located +=
		from->count && (!strcmp(from->reason, PRM_MISSING_CORRUPT) ||
				       !strcmp(from->reason, "unsaved"));
	loss.node = c->nodes[node].answer->node;
	series->losses[series->loss_count++] = loss;
	c->loss_count++;
	return 0;
}

static int
evicted_add(struct prm_completeness *c, int node, const Packrack__Evicted *from,
	struct pr_error *err)
{
	static const char what[] = "its evictions";
	Packrack__Completeness *out = c->out;
	Packrack__Evicted named = *from;

	if (out->n_evicted >= EVICTED_MAX)
		return pr_error_set(err, "it reported too many evictions");
	named.node = c->nodes[node].answer->node;
	if (PR_ARRAY_GROW(c->evicted, out->n_evicted) < 0 ||
		PR_ARRAY_GROW(out->evicted, out->n_evicted) < 0 ||
		!(out->evicted[out->n_evicted] = pr_message_copy(&named.base)))
		return pr_error_set(err, "no memory for %s", what);
	c->evicted[out->n_evicted++] = (struct evicted){.node = node};
	/* older versions name no epoch of what was deleted from the middle of a stream: it explains nothing */
	if (!from->epoch)
		return 0;
	struct series *series = series_of(c, from->epoch, from->link, what, err);
	if (!series || PR_ARRAY_ADD(series->evicted, series->evicted_count,
			       out->n_evicted - 1) < 0)
		return -1;
	series->in_scope = true; /* reported, so the query asks for it */
	if (from->last_seq > series->lost.seq && from->last_seq < UINT64_MAX &&
		from->until >= c->since &&
		(!from->midst || from->since <= until_of(c, series->link)))
		series->lost = (struct point){from->last_seq, from->until};
	return 0;
}

/*
 * Sets settled, and whether the series has ended. A node's ledger declares no more than the
 * node has settled. A node whose ledger is far behind no longer hears the dispatcher; the
 * answer does not wait for it.
 */
static void
update_ledger_state(const struct prm_completeness *c, struct series *series)
{
	bool any = false;

	if (!series->ledger)
		return;
	series->settled = UINT64_MAX;
	series->ledger->ended = true;
	for (size_t i = 0; i < series->told_count; i++) {
		any |= series->told[i].ended;
		if (series->told[i].said_until <
			pr_time_minus(series->ledger->said_until, PR_LEDGER_ALIVE_NS))
			continue;
		series->ledger->ended &= series->told[i].ended;
		series->settled = PR_MIN(series->settled, series->told[i].seq);
	}
	/* The series has ended; a node that has not heard of it by now will not. */
	if (any && series->ledger->said_until <
			   pr_time_minus(c->options.now, PR_LEDGER_ALIVE_NS))
		series->ledger->ended = true;
}

/* Nodes may have heard of the end of such a time or not: one that is closed counts. */
static int
unobserved_add(struct series *series, const Packrack__Ledger *from, struct pr_error *err)
{
	for (size_t i = 0; i < from->n_unobserved_reason; i++) {
		struct unobserved now = {from->unobserved_reason[i],
			from->unobserved_since[i], from->unobserved_until[i], NULL};
		struct unobserved *u = NULL;

		for (size_t j = 0; j < series->unobserved_count && !u; j++)
			if (series->unobserved[j].reason == now.reason &&
				series->unobserved[j].since == now.since)
				u = &series->unobserved[j];
		if (u && (u->until == INT64_MAX || now.reason == PR_UNOBSERVED_FILE
					 ? now.until < u->until
					 : now.until > u->until && now.until != INT64_MAX))
			u->until = now.until;
		if (u)
			continue;
		if (PR_ARRAY_GROW(series->unobserved, series->unobserved_count) < 0 ||
			!(now.by = strdup(from->unobserved_by[i])))
			return pr_error_set(err, "no memory for its ledgers");
		series->unobserved[series->unobserved_count++] = now;
	}
	return 0;
}

/* Every node has its own copy of the ledger, some older than others; all of it only grows. */
static int
ledger_add(struct prm_completeness *c, int node, const Packrack__Ledger *from,
	struct pr_error *err)
{
	static const char what[] = "its ledgers";
	Packrack__Completeness *out = c->out;
	int64_t first = (int64_t)(from->epoch >> 32) * INT64_C(1000000000);

	if (from->link > UINT16_MAX)
		return pr_error_set(
			err, "it reported link %u, which is not a link number", from->link);
	if (from->last_seq == UINT64_MAX)
		return pr_error_set(err, "it reported an impossible number of packets");
	struct series *series = series_of(c, from->epoch, from->link, what, err);
	if (!series)
		return -1;
	if (!series->ledger && PR_ARRAY_GROW(out->ledgers, out->n_ledgers) == 0 &&
		(series->ledger = pr_message_copy(&from->base)))
		out->ledgers[out->n_ledgers++] = series->ledger;
	if (!series->ledger || PR_ARRAY_GROW(series->told, series->told_count) < 0)
		return pr_error_set(err, "no memory for %s", what);
	pr_message_add_numbers(&series->ledger->base, &from->base);
	series->told[series->told_count++] = (struct told){node,
		from->said_until > first ? from->said_until : first, from->last_seq,
		from->dropped_kernel + from->dropped_interface + from->dropped_ring,
		from->ended};
	series->in_scope |= !strcmp(c->link, from->name);
	if (from->below_seq && from->below_otime < c->options.since &&
		from->below_seq > series->below.seq)
		series->below = (struct point){from->below_seq, from->below_otime};
	if (from->above_seq && from->above_otime > until_of(c, series->link) &&
		(!series->above.seq || from->above_seq < series->above.seq))
		series->above = (struct point){from->above_seq, from->above_otime};
	/* the MARK by which a node tells that it hears the dispatcher, and nothing else, confirms nothing */
	if (from->last_seq == 0 && from->last_otime == INT64_MIN)
		return 0;
	/* nor does the first one of an epoch */
	if (from->last_seq == 0 && from->said_until == 0 && !from->ended)
		return unobserved_add(series, from, err);
	/* a MARK has the seq of every packet that was captured before its said_until */
	if (from->said_until > until_of(c, series->link) &&
		from->last_otime >= c->options.since &&
		(!series->above.seq || from->last_seq + 1 < series->above.seq))
		series->above = (struct point){from->last_seq + 1, from->said_until};
	if (!series->confirmed || from->last_seq > series->newest.seq ||
		(from->last_seq == series->newest.seq &&
			from->said_until > series->newest.otime))
		series->newest = (struct point){from->last_seq, from->said_until};
	if (from->first_said) /* older versions do not say it */
		first = from->first_said;
	if (!series->confirmed || first < series->first_said)
		series->first_said = first;
	series->confirmed = true;
	return unobserved_add(series, from, err);
}

int
prm_completeness_end(struct prm_completeness *c, int node, const Packrack__End *end,
	struct pr_error *err)
{
	struct node *n = &c->nodes[node];

	n->ended = true;
	n->limited = end->limit_reached;
	pr_message_copy_numbers(&n->answer->base, &end->base);
	c->out->stray_packets += end->strays;
	n->corrupt = end->corrupt_records;
	for (size_t i = 0; i < end->n_losses; i++)
		if (loss_add(c, node, end->losses[i], err) < 0)
			return -1;
	for (size_t i = 0; i < end->n_evicted; i++)
		if (evicted_add(c, node, end->evicted[i], err) < 0)
			return -1;
	for (size_t i = 0; i < end->n_ledgers; i++)
		if (ledger_add(c, node, end->ledgers[i], err) < 0)
			return -1;
	return 0;
}

/*
 * The gaps' reasons. Per series, gaps and losses are both walked in seq order. Losses that name
 * each seq ("exact") are believed; the others, "count of first..last", only name a node. Of these, a count of 0 says
 * that the node may have lost any.
 */

static bool
is_exact(const Packrack__Loss *loss)
{
	return loss->bits || loss->count == loss->last_seq - loss->first_seq + 1;
}

PR_ORDER(loss_compare, Packrack__Loss, first_seq)

/* ---- what no loss explains ---- */

/* Heard shortly before, perhaps for the last time. */
static bool
is_recent(const struct prm_completeness *c, const struct series *series)
{
	/* one that has just begun has not said yet up to when all is confirmed */
	int64_t begun = (int64_t)(series->epoch >> 32) * PR_NS_PER_S;

	return series->ledger && PR_MAX(series->ledger->said_until, begun) >
					 pr_time_minus(c->options.now, PR_LEDGER_ALIVE_NS);
}

static bool
alive(const struct prm_completeness *c, const struct series *series)
{
	return is_recent(c, series) && !series->ledger->ended;
}

/*
 * What may have taken seqs that no exact loss explains: nodes that have lost some around there, that did not answer,
 * that have overwritten them, have damage whose seqs nobody knows, or heard the dispatcher until shortly before. The
 * others have said all that they had or lost.
 */
#define SUSPECTS_MAX 8 /* that are named */
struct suspects {
	const char *node[SUSPECTS_MAX], *reason[SUSPECTS_MAX];
	unsigned count, evicted, behind;
	const Packrack__Loss *around; /* one that lost some around there */
};

#define SUSPECT_EVICTED "overwritten"

static void
suspect_add(struct suspects *s, const char *node, const char *reason)
{
	if (s->count < SUSPECTS_MAX) {
		s->node[s->count] = node;
		s->reason[s->count] = reason;
	}
	s->count++;
}

static bool
suspect_has(const struct suspects *s, const char *node)
{
	for (unsigned i = 0; i < s->count && i < SUSPECTS_MAX; i++)
		if (!strcmp(s->node[i], node))
			return true;
	return false;
}

/* What the list has of them: the node and the reason; of several, "log1 (no_answer), log2 (corrupt)". */
static void
suspects_tell(const struct suspects *s, Packrack__Loss *about, char *text, size_t size)
{
	size_t len = 0, most = 60; /* of one */
	unsigned i;

	about->node = (char *)s->node[0];
	about->reason = (char *)s->reason[0];
	about->among_first = about->among_last = 0;
	if (s->count == 1 && s->around && s->around->count) {
		about->among_first = s->around->first_seq;
		about->among_last = s->around->last_seq;
		PR_COPY(about, s->around, first_time, last_time);
	}
	if (s->count < 2)
		return;
	for (i = 0; i < s->count && i < SUSPECTS_MAX && len + most < size; i++)
		len += snprintf(text + len, most, s->node[i][0] ? "%s%.30s (%s)" : "%s%s%s",
			i ? ", " : "", s->node[i], s->reason[i]);
	if (i < s->count)
		snprintf(text + len, size - len, ", ...");
	about->node = text;
	about->reason = (char *)PRM_MISSING_ONE_OF;
}

/* The reason of what no node has ever had. A dispatcher that died takes only its last packets along. */
static const char *
unstored_reason(const struct prm_completeness *c, const struct series *series,
	const Packrack__Loss *gap)
{
	const Packrack__Ledger *ledger = series->ledger;
	bool last = ledger && !ledger->ended && !alive(c, series) &&
		    gap->last_time >= pr_time_minus(ledger->said_until, PR_NS_PER_S);

	return last ? PRM_MISSING_UNDELIVERED : PRM_MISSING_UNKNOWN;
}

/* Timestamps step back a little: packets may be so much behind the time of what is gone. */
#define STEP_BACK_NS INT64_C(10000000)

/* The time of what is gone between since and until agrees with the gap's. */
static bool
at_that_time(const Packrack__Loss *gap, int64_t since, int64_t until)
{
	return pr_time_minus(gap->first_time, STEP_BACK_NS) <= until &&
	       gap->last_time >= since;
}

/* The node is perhaps dead, and what it has told last was perhaps not durable. */
static bool
is_stale(const struct prm_completeness *c, const Packrack__Loss *gap, const struct told *t)
{
	return !t->ended &&
	       t->said_until < pr_time_minus(c->options.now, PR_NS_PER_S / 5) &&
	       gap->last_time >= pr_time_minus(t->said_until, PR_NS_PER_S);
}

/* Adds the suspects of seq `first`, to which the walk has come; lowers *last to where they are the same. */
static void
suspects_of(struct prm_completeness *c, const struct series *series,
	const Packrack__Loss *gap, uint64_t first, uint64_t *last, struct suspects *s)
{
	for (size_t n = 0; n < c->out->n_nodes; n++)
		c->nodes[n].evicted = c->nodes[n].wholly = false;
	for (size_t i = 0; i < c->walk.count; i++) {
		const Packrack__Loss *l = c->walk.begun[i];

		if (is_exact(l) || l->last_seq < first || !in_time(c, l) ||
			!at_that_time(gap, l->first_time, l->last_time))
			continue;
		*last = PR_MIN(*last, l->last_seq);
		s->around = l;
		if (!suspect_has(s, l->node))
			suspect_add(s, l->node, l->reason);
	}
	for (size_t i = 0; i < series->evicted_count; i++) {
		const Packrack__Evicted *e = c->out->evicted[series->evicted[i]];
		uint64_t upto = e->last_seq ? e->last_seq : UINT64_MAX; /* older versions */

		if (!at_that_time(gap, e->midst ? e->since : INT64_MIN, e->until) ||
			upto < first)
			continue;
		if (e->first_seq > first) {
			*last = PR_MIN(*last, e->first_seq - 1);
			continue;
		}
		*last = PR_MIN(*last, upto);
		c->evicted[series->evicted[i]].missed = true;
		c->nodes[c->evicted[series->evicted[i]].node].evicted = true;
		c->nodes[c->evicted[series->evicted[i]].node].wholly |=
			gap->last_time <= e->until &&
			(!e->midst || gap->first_time >= e->since);
	}
	for (size_t n = 0; n < c->out->n_nodes; n++) {
		const struct node *node = &c->nodes[n];
		const char *name = node->answer->node;
		bool known = suspect_has(s, name), vague = s->around && !s->around->count;
		const char *why = node->evicted                   ? SUSPECT_EVICTED
				  : node->failed                  ? PRM_MISSING_NO_ANSWER
				  : node->corrupt > node->located ? PRM_MISSING_CORRUPT
								  : NULL;

		/* of what it has overwritten it need not have lost any; of what came later it may */
		s->evicted += node->evicted && (!known || (node->wholly && vague));
		if (why && (!known || (node->evicted && vague && !node->wholly)))
			suspect_add(s, name, why);
	}
	for (size_t i = 0; i < series->told_count; i++) {
		const struct told *t = &series->told[i];
		const char *name = c->nodes[t->node].answer->node;

		if (t->seq >= first && !(s->count && is_stale(c, gap, t)))
			*last = PR_MIN(*last, t->seq);
		else if (!suspect_has(s, name) &&
			 at_that_time(gap, INT64_MIN,
				 pr_time_minus(t->said_until, -PR_LEDGER_ALIVE_NS)) &&
			 ++s->behind)
			suspect_add(s, name, unstored_reason(c, series, gap));
	}
}

/* Gives a part of a gap a reason, where no exact loss explains each of its seqs. l: NULL, or one that explains some. */
static void
unexplained(struct prm_completeness *c, struct series *series, const Packrack__Loss *gap,
	const Packrack__Loss *l)
{
	bool several = gap->ranges > 1;
	char text[PR_MESSAGE_NAME_MAX + 1];
	Packrack__Loss part = *gap;

	for (; in_time(c, gap) && part.first_seq <= gap->last_seq;
		part.first_seq = part.last_seq + 1) {
		struct suspects s = {.count = 0};

		if (l)
			suspect_add(&s, l->node, l->reason);
		part.last_seq = gap->last_seq;
		suspects_of(c, series, gap, part.first_seq, &part.last_seq, &s);
		if (several)
			part.last_seq = gap->last_seq;
		else
			part.count = length_of(&part);
		if (s.evicted && s.evicted == s.count)
			continue;
		/* a node that hears the dispatcher has not settled these: pending */
		if (s.count == s.behind && is_recent(c, series) &&
			part.last_seq > series->settled) {
			if (part.first_seq > series->settled || several) {
				c->out->pending_packets += part.count;
				continue;
			}
			part.last_seq = series->settled;
			part.count = length_of(&part);
		}
		if (!s.count)
			suspect_add(&s, "", unstored_reason(c, series, gap));
		suspects_tell(&s, &part, text, sizeof(text));
		/* other nodes, which are not asked, may have what a killed one has not lost for certain */
		if (!c->options.partial_scope ||
			(s.node[0][0] && !(s.around && !s.around->count)))
			c->failed_memory |= prm_losses_add(c->out, &part) < 0;
	}
}

/* ---- matching gaps with losses ---- */

/* Does the loss name seq? *upto: the last seq for which this is so. */
static bool
names(const Packrack__Loss *l, uint64_t seq, uint64_t *upto)
{
	uint64_t rest = l->bits >> (seq - l->first_seq) % 64;
	bool is = l->bits ? rest & 1 : is_exact(l);

	*upto = l->bits ? seq + __builtin_ctzll(is ? ~rest : rest) - 1 : l->last_seq;
	return is;
}

/*
 * The exact loss that names seq (else NULL). Lowers *upto to the last seq for which
 * this is true.
 */
static const Packrack__Loss *
covering(struct prm_completeness *c, const struct series *series, uint64_t seq,
	uint64_t *upto)
{
	const Packrack__Loss *l, *found = NULL;
	uint64_t without = *upto, with = 0, end;
	struct walk *w = &c->walk;
	size_t kept = 0;

	for (size_t i = 0; i < w->count; i++)
		if (w->begun[i]->last_seq >= seq)
			w->begun[kept++] = w->begun[i];
	for (w->count = kept; w->next < series->loss_count; w->next++) {
		l = &series->losses[w->next];
		if (l->first_seq > seq) {
			without = l->first_seq <= without ? l->first_seq - 1 : without;
			break;
		}
		if (l->last_seq >= seq && w->count < WALK_MAX)
			w->begun[w->count++] = l;
	}
	for (size_t i = 0; i < w->count; i++) {
		bool is = names(w->begun[i], seq, &end);

		if (is && end > with) {
			with = end;
			found = w->begun[i];
		}
		without = end < without && !is ? end : without;
	}
	without = found ? with : without;
	*upto = PR_MIN(*upto, without);
	return found;
}

static void
explain_part(struct prm_completeness *c, struct series *series, const Packrack__Loss *part,
	const Packrack__Loss *l)
{
	Packrack__Loss listed = *part;

	if (!l || part->ranges > 1) {
		unexplained(c, series, part, l);
	} else if (in_time(c, l)) {
		PR_COPY(&listed, l, first_time, last_time, reason, node);
		c->failed_memory |= prm_losses_add(c->out, &listed) < 0;
	}
}

static void
explain_range(struct prm_completeness *c, struct series *series, Packrack__Loss range)
{
	Packrack__Loss part = range;

	clip_to_edges(series, &part.first_seq, &range.last_seq);
	for (; part.first_seq <= range.last_seq; part.first_seq = part.last_seq + 1) {
		part.last_seq = range.last_seq;
		const Packrack__Loss *l =
			covering(c, series, part.first_seq, &part.last_seq);
		part.count = length_of(&part);
		explain_part(c, series, &part, l);
	}
}

/* A gap of several ranges is taken apart; if they are not known, or there are too many, they have one cause. */
static void
explain_gap(struct prm_completeness *c, struct series *series, const Packrack__Loss *gap)
{
	uint64_t upto = gap->last_seq, length = gap->count / gap->ranges;
	Packrack__Loss range = *gap;

	c->ranges_taken_apart += gap->ranges;
	range.step = 0;
	if (gap->ranges > 1 && (!gap->step || c->ranges_taken_apart > TAKEN_APART_MAX)) {
		const Packrack__Loss *l = covering(c, series, gap->first_seq, &upto);
		if (!l && upto < gap->last_seq)
			l = covering(c, series, upto + 1, &upto);
		explain_part(c, series, &range, l);
		return;
	}
	range.ranges = 1;
	for (uint64_t n = gap->ranges; n--; range.first_seq += gap->step) {
		range.last_seq = range.first_seq + length - 1;
		explain_range(c, series, range);
	}
}

static void
explain(struct prm_completeness *c, struct series *series)
{
	PR_SORT(series->losses, series->loss_count, loss_compare);
	c->walk.next = c->walk.count = 0;
	for (size_t i = 0; i < series->gap_count && series->in_scope; i++)
		explain_gap(c, series, series->gaps[i]);
}

/* ---- the ends of a series ---- */

/*
 * Before the first held seq and after the last: bounded by edges, else by seq 1 and by what the
 * dispatcher declared. Seqs between an edge and the range may lie on either side of the
 * range's end. They count as missing unless a loss tells their time, so that an answer is
 * never silently short.
 */
static void
series_ends(struct prm_completeness *c, struct series *series)
{
	const Packrack__Ledger *ledger = series->ledger;
	struct point below = series->below, above = series->above,
		     top = {series->top, series->last.otime};
	bool any = series->first.seq;

	if (!above.seq && ledger && ledger->last_otime >= c->options.since)
		above = (struct point){ledger->last_seq + 1, ledger->last_otime};
	/* a loss is known before the MARK that declares it, which a dead dispatcher never sends */
	if (!series->above.seq && series->lost.seq >= above.seq && series->lost.seq)
		above = (struct point){series->lost.seq + 1, series->lost.otime};
	if (!below.seq) {
		/* a live dispatcher's packets are not older than its epoch; a trace file's may be of any age */
		const struct point *later = any ? &series->first : &above;
		int64_t start = (int64_t)(series->epoch >> 32) * INT64_C(1000000000);

		below.otime = later->seq && later->otime >= start ? start : INT64_MIN;
	}
	if (c->cut && series != c->cut_at)
		above.seq = 0; /* what follows the cut is not asked for */
	if (any)
		gap_add(c, series, below, series->first);
	if (above.seq)
		gap_add(c, series, any ? top : below, above);
}

/* ---- what was not observed ---- */

/* A time of a link, both ends included; reason NULL: confirmed. */
struct time {
	int64_t since, until;
	const char *reason, *by;
	const struct series *of;
};

struct times {
	struct time *items;
	size_t count;
};

static void
time_add(struct prm_completeness *c, struct times *to, struct time t)
{
	if (t.since <= t.until && PR_ARRAY_ADD(to->items, to->count, t) < 0)
		c->failed_memory = true;
}

static const struct unobserved *
begin_of(const struct series *series)
{
	for (size_t i = 0; i < series->unobserved_count; i++)
		if (series->unobserved[i].reason == PR_UNOBSERVED_BEGIN ||
			series->unobserved[i].reason == PR_UNOBSERVED_FILE)
			return &series->unobserved[i];
	return NULL;
}

/* A link that a node records by itself is another one than that of this name at another node. */
static bool
same_link(const struct series *a, const struct series *b)
{
	const struct unobserved *at = begin_of(a), *bt = begin_of(b);
	const char *name = a->ledger->name, *other = b->ledger->name;

	if (strcmp(at ? at->by : "", bt ? bt->by : ""))
		return false;
	return name[0] || other[0] ? !strcmp(name, other) : a->link == b->link;
}

PR_ORDER(time_compare, struct time, since)

/* Moves behind a moment; the end of time has nothing behind it. */
static int64_t
behind(int64_t moment)
{
	return moment < INT64_MAX ? moment + 1 : INT64_MAX;
}

/*
 * Adds what the ledger of the series confirms to `seen`, and to `unseen` why the rest was not observed. Returns the
 * begin of what it confirms.
 */
static int64_t
series_times(struct prm_completeness *c, const struct series *series, struct times *seen,
	struct times *unseen)
{
	const struct unobserved *begin = begin_of(series);
	const Packrack__Ledger *ledger = series->ledger;
	size_t own = unseen->count;
	int64_t at = (int64_t)(series->epoch >> 32) * INT64_C(1000000000);
	struct time all = {at, at - 1, NULL, "", series}, tail;
	bool file = begin && begin->reason == PR_UNOBSERVED_FILE;

	if (series->confirmed) {
		all.since = series->first_said;
		all.until = series->newest.otime - (series->newest.otime > INT64_MIN);
	}
	if (begin) {
		all.since = begin->until;
		if (!series->confirmed)
			all.until = all.since - 1;
	} else if (series->first.seq) {
		/* of an older version, or the ledger's begin was overwritten */
		at = series->first.otime;
		all.since = !series->confirmed || at < all.since ? at : all.since;
		at = series->last.otime;
		all.until = PR_MAX(all.until, at);
	}
	if (file)
		all.until = ledger->last_otime;
	else if (series->confirmed && all.until < all.since)
		all.since = behind(all.until); /* the clock was set back behind the begin */
	tail = (struct time){behind(all.until), INT64_MAX,
		file                                      ? PRM_UNOBSERVED_FILE
		: ledger->ended                           ? PRM_UNOBSERVED_STOPPED
		: alive(c, series) && !c->options.settled ? PRM_UNOBSERVED_UNKNOWN
							  : PRM_UNOBSERVED_GONE,
		"", series};
	for (size_t i = 0; i < series->unobserved_count; i++) {
		const struct unobserved *u = &series->unobserved[i];

		if (u == begin || u->since == INT64_MIN)
			continue;
		time_add(c, unseen,
			(struct time){u->since, u->until,
				u->reason == PR_UNOBSERVED_STOPPED
					? PRM_UNOBSERVED_STOPPED
					: PRM_UNOBSERVED_NO_CARRIER,
				u->by, series});
	}
	PR_SORT(unseen->items + own, unseen->count - own, time_compare);
	at = all.since;
	for (size_t i = own; i < unseen->count && at <= all.until; i++) {
		const struct time *gap = &unseen->items[i];

		if (gap->since > at)
			time_add(c, seen,
				(struct time){at,
					gap->since - 1 < all.until ? gap->since - 1
								   : all.until,
					NULL, "", series});
		at = PR_MAX(at, behind(gap->until));
	}
	time_add(c, seen, (struct time){at, all.until, NULL, "", series});
	/* a time that is still open goes on behind the last MARK, unless who said so has gone */
	if (unseen->count > own && unseen->items[unseen->count - 1].until == INT64_MAX) {
		struct time *last = &unseen->items[unseen->count - 1];

		if (!strcmp(tail.reason, PRM_UNOBSERVED_GONE) && last->since <= all.until &&
			!strcmp(last->reason, PRM_UNOBSERVED_NO_CARRIER))
			last->until = all.until;
		else
			tail.until = pr_time_minus(last->since, 1);
	}
	time_add(c, unseen, tail);
	return all.since;
}

static void
unobserved_list(struct prm_completeness *c, const struct series *series, int64_t since,
	int64_t until, const char *reason, const char *by)
{
	Packrack__Completeness *out = c->out;
	Packrack__Unobserved u = PACKRACK__UNOBSERVED__INIT;
	Packrack__Unobserved *last =
		out->n_unobserved ? out->unobserved[out->n_unobserved - 1] : NULL;

	u.link = series ? series->link : 0;
	u.name = !series ? c->link : series->ledger ? series->ledger->name : u.name;
	if (last && last->link == u.link && !strcmp(last->name, u.name) &&
		((since > INT64_MIN && last->until == since - 1 &&
			 !strcmp(last->reason, reason) && !strcmp(last->by, by)) ||
			out->n_unobserved >= PRM_UNOBSERVED_MAX)) {
		last->until = until;
		return;
	}
	u.since = since;
	u.until = until;
	u.reason = (char *)reason;
	u.by = (char *)by;
	if (PR_ARRAY_GROW(out->unobserved, out->n_unobserved) < 0 ||
		!(out->unobserved[out->n_unobserved] = pr_message_copy(&u.base)))
		c->failed_memory = true;
	else
		out->n_unobserved++;
}

/* Goes through the range; both lists are in order. */
static void
range_unobserved(struct prm_completeness *c, const struct series *series,
	const struct times *seen, const struct times *unseen, int64_t since, int64_t until)
{
	const struct time *latest = NULL, *open = NULL, *t;
	size_t next_seen = 0, next = 0;

	for (int64_t at = since, upto; at <= until; at = upto + 1) {
		upto = until;
		while (next_seen < seen->count && seen->items[next_seen].until < at)
			next_seen++;
		t = next_seen < seen->count ? &seen->items[next_seen] : NULL;
		if (t && t->since <= at) {
			upto = t->until;
		} else {
			upto = t && t->since <= until ? t->since - 1 : until;
			for (; next < unseen->count && unseen->items[next].since <= at;
				next++) {
				latest = &unseen->items[next];
				open = latest->until == INT64_MAX ? latest : open;
			}
			if (next < unseen->count && unseen->items[next].since <= upto)
				upto = unseen->items[next].since - 1;
			t = latest && latest->until >= at ? latest : open;
			upto = t && t->until < upto ? t->until : upto;
			/* an answer that is broken off reaches as far as it is confirmed */
			if (!broken_off(c) || upto < until || !t || t->until != INT64_MAX)
				unobserved_list(c, t ? t->of : series, at, upto,
					t                     ? t->reason
					: next_seen || latest ? PRM_UNOBSERVED_UNKNOWN
							      : PRM_UNOBSERVED_BEFORE,
					t ? t->by : "");
		}
		if (upto >= until || c->failed_memory)
			return;
	}
}

/* who asks up to now may have said so a little earlier */
#define NOW_NS INT64_C(60000000000)

/* Lists at which times of the range the link of c->series[first] was not observed. */
static void
link_unobserved(struct prm_completeness *c, size_t first, int64_t since, int64_t until)
{
	const struct series *series = c->series[first];
	struct times seen = {NULL, 0}, unseen = {NULL, 0};
	int64_t begin = INT64_MAX, end = INT64_MIN, heard = INT64_MIN, asked, at;
	bool files = true;

	for (size_t i = first; i < c->series_count; i++) {
		const struct series *other = c->series[i];

		if (!other->ledger || !other->in_scope || !same_link(series, other))
			continue;
		at = series_times(c, other, &seen, &unseen);
		begin = PR_MIN(begin, at);
		const struct unobserved *b = begin_of(other);
		files &= b && b->reason == PR_UNOBSERVED_FILE;
		end = PR_MAX(end, other->ledger->last_otime);
		heard = PR_MAX(heard, other->newest.otime);
	}
	/* nobody has asked for the time before a link's begin, or behind trace files */
	if (c->options.since == INT64_MIN && since < begin)
		since = begin;
	if (files && c->options.until == INT64_MAX && until > end)
		until = end;
	PR_SORT(seen.items, seen.count, time_compare);
	PR_SORT(unseen.items, unseen.count, time_compare);
	asked = until;
	/* nobody may know yet that a dispatcher that was heard a moment ago was started again */
	bool may_go_on = heard <= asked && !c->options.settled &&
			 heard > pr_time_minus(c->options.now, PR_LEDGER_ALIVE_NS);
	/* nor, if all that was recorded is asked for, the time behind the end of a capture that was stopped */
	const struct time *last = unseen.count ? &unseen.items[unseen.count - 1] : NULL;
	if (c->options.since == INT64_MIN &&
		c->options.until >= pr_time_minus(c->options.now, NOW_NS) && last &&
		!strcmp(last->reason, PRM_UNOBSERVED_STOPPED) && last->until == INT64_MAX &&
		last->since <= until &&
		(!seen.count || seen.items[seen.count - 1].until < last->since))
		until = (may_go_on && heard > last->since ? heard : last->since) - 1;
	range_unobserved(c, series, &seen, &unseen, since, until);
	if (until < asked && may_go_on)
		unobserved_list(c, series, heard, asked, PRM_UNOBSERVED_UNKNOWN, "");
	free(seen.items);
	free(unseen.items);
}

/* Nothing is confirmed of a series without a ledger, nor of a link that nobody has. */
static void
list_unconfirmed(struct prm_completeness *c, int64_t since, int64_t until)
{
	bool any = false, asked = c->link[0] || c->options.since != INT64_MIN;

	for (size_t i = 0; i < c->series_count; i++) {
		const struct series *series = c->series[i];

		any |= series->in_scope && (series->ledger || series->held);
		if (series->in_scope && !pr_link_is_beyond(series->link) && series->held &&
			!series->ledger && !broken_off(c))
			unobserved_list(c, series, series->first.otime, until,
				PRM_UNOBSERVED_UNKNOWN, "");
	}
	if (!any && asked && c->out->n_nodes && !broken_off(c))
		unobserved_list(c, NULL, since, until,
			c->link[0] ? PRM_UNOBSERVED_NO_LINK : PRM_UNOBSERVED_UNKNOWN, "");
}

static void
list_unobserved(struct prm_completeness *c)
{
	int64_t since = c->since, until = c->options.until;

	if (until == INT64_MAX)
		until = c->options.now;
	if (c->cut && c->cut_otime < until)
		until = c->cut_otime;
	list_unconfirmed(c, since, until);
	for (size_t i = 0; i < c->series_count && until >= since; i++) {
		size_t first = 0;

		/* what is true of a link is true of what was kept back of it */
		if (!c->series[i]->ledger || !c->series[i]->in_scope ||
			pr_link_is_beyond(c->series[i]->link))
			continue;
		while (!c->series[first]->ledger || !c->series[first]->in_scope ||
			!same_link(c->series[first], c->series[i]))
			first++;
		if (first == i)
			link_unobserved(c, i, since, until);
	}
}

/* ---- the whole answer ---- */

/* Is what was moved held elsewhere? For evictions whose seqs nobody knows: then all of it counts as held. */
static bool
is_moved(const struct prm_completeness *c, const Packrack__Evicted *e)
{
	bool held = false;

	for (size_t i = 0; e->deleted && e->deleted->moved_to[0] && i < c->series_count;
		i++)
		held |= c->series[i]->held && c->series[i]->link == e->link &&
			(!e->epoch || c->series[i]->epoch == e->epoch);
	return held;
}

/*
 * Is the eviction reported? Not if all of the range is held elsewhere, nor what was overwritten before the oldest packet
 * stored, if that is where the range begins.
 */
static bool
is_missed(const struct prm_completeness *c, size_t i)
{
	const Packrack__Evicted *e = c->out->evicted[i];

	bool unknown = !e->last_seq && e->until >= c->since &&
		       (!e->midst || e->since <= c->options.until) && !is_moved(c, e);

	return (c->evicted[i].missed || unknown) &&
	       (e->deleted || c->options.since != INT64_MIN || e->until >= c->since);
}

/* Reports how each node answered, and the evictions that reach into the range. */
static void
answers_report(struct prm_completeness *c, Packrack__Completeness *r)
{
	size_t evicted = r->n_evicted;

	for (size_t i = 0; i < r->n_nodes; i++) {
		const struct node *n = &c->nodes[i];
		Packrack__NodeAnswer *a = n->answer;

		a->answered = !n->failed && (n->ended || c->cut);
		if (!n->failed && !a->answered)
			text_set(c, &a->error, "its answer broke off");
		a->stopped = a->answered && !n->ended && !a->left_out;
		r->complete &= (a->answered || a->accounted) && n->corrupt <= n->located;
	}
	r->n_evicted = 0;
	for (size_t i = 0; i < evicted; i++) {
		Packrack__Evicted *e = r->evicted[i];

		if (is_missed(c, i))
			r->evicted[r->n_evicted++] = e;
		else
			packrack__evicted__free_unpacked(e, NULL);
	}
	r->complete &= !r->n_evicted;
}

/*
 * Without `since` the range begins at the oldest packet that is stored, where older ones were overwritten; if none is,
 * where the overwritten ones end. INT64_MIN: nothing was overwritten.
 */
static int64_t
oldest_held(struct prm_completeness *c)
{
	int64_t oldest = INT64_MAX, gone = INT64_MIN;

	for (size_t i = 0; i < c->series_count; i++)
		if (c->series[i]->first.seq && c->series[i]->first.otime < oldest &&
			!pr_link_is_beyond(c->series[i]->link))
			oldest = c->series[i]->first.otime;
	for (size_t i = 0; i < c->out->n_evicted; i++)
		gone = PR_MAX(gone, c->out->evicted[i]->until);
	if (c->options.since != INT64_MIN)
		return c->options.since;
	return gone != INT64_MIN && oldest != INT64_MAX ? oldest : gone;
}

/* Has the node overwritten all of the range? Then its ledger may begin later, too, and it has no times of before. */
static bool
has_overwritten(const struct prm_completeness *c, const struct series *series, int node)
{
	for (size_t i = 0; i < series->evicted_count; i++) {
		const Packrack__Evicted *e = c->out->evicted[series->evicted[i]];

		if (c->evicted[series->evicted[i]].node == node && !e->midst &&
			!e->deleted && e->until >= c->options.until)
			return true;
	}
	return false;
}

/*
 * Packets of the range that were dropped before they got a number. A node counts between which of the MARKs that it has
 * heard; one that was cut off knows it less well. So the least that a node says which has heard all. But of a range
 * without a begin each node counts from its own oldest packet on: then the most.
 */
static uint64_t
dropped_of(const struct prm_completeness *c, const struct series *series)
{
	bool open = c->options.since == INT64_MIN;
	uint64_t least = UINT64_MAX, most = 0;
	int64_t until = INT64_MIN;

	for (size_t i = 0; i < series->told_count; i++)
		until = PR_MAX(until, series->told[i].said_until);
	until = PR_MIN(until, c->options.until);
	for (size_t i = 0; i < series->told_count; i++) {
		const struct told *t = &series->told[i];

		most = PR_MAX(most, t->dropped);
		if ((t->ended || t->said_until >= until) && t->dropped < least &&
			!has_overwritten(c, series, t->node))
			least = t->dropped;
	}
	return open ? most : least < UINT64_MAX ? least : 0;
}

/* Links of users only. */
static void
ledgers_report(Packrack__Completeness *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n_ledgers; i++)
		if (pr_link_is_beyond(r->ledgers[i]->link))
			packrack__ledger__free_unpacked(r->ledgers[i], NULL);
		else
			r->ledgers[kept++] = r->ledgers[i];
	r->n_ledgers = kept;
}

/*
 * Up to when it is known what cutoffs kept back, if that is not all of the range; else 0. What a dispatcher that was killed
 * had counted of its last second, nobody knows.
 */
static int64_t
beyond_until(const struct prm_completeness *c)
{
	int64_t until = PR_MIN(c->options.until, c->options.now), known = INT64_MAX;

	for (size_t i = 0; i < c->series_count; i++) {
		const struct series *s = c->series[i];

		if (pr_link_is_beyond(s->link) && s->in_scope && s->confirmed &&
			s->ledger && !s->ledger->ended &&
			s->newest.otime < pr_beyond_last(until) &&
			s->newest.otime >= pr_time_minus(c->since, PR_NS_PER_S))
			known = PR_MIN(known, s->newest.otime);
	}
	/* sums are those of whole seconds */
	return known == INT64_MAX ? 0 : pr_time_minus(pr_beyond_last(known), PR_NS_PER_S);
}

int
prm_completeness_finish(
	struct prm_completeness *c, Packrack__Completeness **out, struct pr_error *err)
{
	Packrack__Completeness *r = c->out;
	int64_t before = c->cut ? watermark_of_all(c) : INT64_MAX;

	if (c->cut && before > c->cut_otime)
		before = c->cut_otime;
	for (size_t i = 0; i < c->series_count; i++) {
		update_ledger_state(c, c->series[i]);
		judge_before(
			c, c->series[i], c->series[i] == c->cut_at ? INT64_MAX : before);
	}
	c->since = oldest_held(c);
	for (size_t i = 0; i < c->series_count; i++) {
		struct series *series = c->series[i];
		const Packrack__Ledger *ledger = series->ledger;

		series_ends(c, series);
		explain(c, series);
		if (series->in_scope && !pr_link_is_beyond(series->link))
			r->held_packets += series->held;
		/* drops before packets got a number; only series that reach the range */
		if (ledger && series->in_scope &&
			(ledger->last_otime >= c->since || ledger->said_until >= c->since))
			r->dropped_packets += dropped_of(c, series);
	}
	list_unobserved(c);
	prm_losses_sort(r);
	prm_beyond_finish(&c->beyond, r);
	r->beyond_until = beyond_until(c);
	r->complete = r->n_nodes && !r->missing_packets && !r->pending_packets &&
		      !r->dropped_packets && !r->n_unobserved && !r->stray_packets;
	answers_report(c, r);
	ledgers_report(r);
	*out = c->failed_memory ? NULL : r;
	if (!*out)
		return pr_error_set(err, "no memory for the completeness of an answer");
	c->out = NULL;
	return 0;
}
