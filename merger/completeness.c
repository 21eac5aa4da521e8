/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/completeness.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"
#include "proto/rpc/message.h"
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

/* One (epoch, link): an epoch series. */
struct series {
	uint64_t epoch;
	uint32_t link;
	struct range *ranges; /* by first; those not judged yet */
	size_t count;
	uint64_t judged; /* all seqs up to this one are judged */
	struct point first; /* lowest held in the range */
	struct point last; /* highest among the judged whose otime is known */
	uint64_t top; /* highest held among the judged; 0: none */
	struct point below, above; /* edges: nearest held outside the range */
	struct point lost; /* highest of the losses in the range */
	uint64_t held;
	Packrack__Ledger
		*ledger; /* merged over nodes; owned by prm_completeness; NULL: none */
	uint64_t evicted_seq; /* highest seq known to be evicted at some node */
	bool evicted_gap; /* some evicted seqs are held nowhere else */
	bool in_scope; /* the query's link filter lets it through */
	struct {
		int64_t said_until;
		uint64_t seq; /* all up to here are stored there, or known to be lost */
		bool ended;
	} * told; /* the ledger, as each node has it */
	size_t told_count;
	uint64_t settled; /* lowest seq of the nodes that still hear the dispatcher */
};

struct gap {
	size_t series;
	uint64_t first, last;
	int64_t low, high; /* otime of the held neighbours; INT64_MIN, INT64_MAX: none */
};

struct loss {
	size_t series;
	uint64_t first, last, count;
	int64_t first_time, last_time;
	char *reason;
	int node;
};

struct node {
	Packrack__NodeAnswer *answer;
	bool failed; /* answer->error says why */
	bool ended;
	bool limited; /* it gave as many packets as were asked for, and may hold more */
	int64_t watermark;
	uint64_t corrupt;
};

struct prm_completeness {
	struct prm_completeness_options options;
	char *link;
	struct series *series;
	size_t series_count;
	size_t *table; /* open addressing, series index + 1 */
	size_t table_size;
	struct node *nodes;
	size_t node_count;
	struct gap *gaps;
	size_t gap_count;
	uint64_t surplus_packets, surplus_ranges; /* gaps beyond HOLES_MAX */
	struct loss *losses;
	size_t loss_count;
	Packrack__Evicted **evicted;
	size_t evicted_count;
	Packrack__Ledger **ledgers;
	size_t ledger_count;
	uint64_t held, told; /* distinct, and summed over nodes */
	size_t bytes;
	bool cut, failed_memory;
	bool bounds_only; /* held counts are upper bounds */
	int64_t cut_otime;
	size_t *active; /* sweep's scratch: ranges that may cover the present seq */
};

#define SWEEP_BYTES_DEFAULT (1024 * 1024)
#define TABLE_START 64
#define NODES_MAX 4096

struct prm_completeness *
prm_completeness_create(
	const struct prm_completeness_options *options, struct pr_error *err)
{
	struct prm_completeness *c = calloc(1, sizeof(*c));

	if (c)
		c->table = calloc(TABLE_START, sizeof(*c->table));
	if (c && options->link && options->link[0])
		c->link = strdup(options->link);
	if (!c || !c->table || (options->link && options->link[0] && !c->link)) {
		prm_completeness_destroy(&c);
		pr_error_set(err, "no memory for the completeness of an answer");
		return NULL;
	}
	c->table_size = TABLE_START;
	c->options = *options;
	c->options.link = c->link;
	if (!c->options.sweep_bytes)
		c->options.sweep_bytes = SWEEP_BYTES_DEFAULT;
	return c;
}

static void
series_free(struct series *series)
{
	for (size_t i = 0; i < series->count; i++)
		free(series->ranges[i].bits);
	free(series->ranges);
	free(series->told);
}

void
prm_completeness_destroy(struct prm_completeness **cp)
{
	struct prm_completeness *c = *cp;

	*cp = NULL;
	if (!c)
		return;
	for (size_t i = 0; i < c->series_count; i++)
		series_free(&c->series[i]);
	for (size_t i = 0; i < c->node_count; i++)
		if (c->nodes[i].answer)
			packrack__node_answer__free_unpacked(c->nodes[i].answer, NULL);
	for (size_t i = 0; i < c->loss_count; i++)
		free(c->losses[i].reason);
	for (size_t i = 0; i < c->evicted_count; i++)
		packrack__evicted__free_unpacked(c->evicted[i], NULL);
	for (size_t i = 0; i < c->ledger_count; i++)
		packrack__ledger__free_unpacked(c->ledgers[i], NULL);
	free(c->evicted);
	free(c->ledgers);
	free(c->losses);
	free(c->gaps);
	free(c->nodes);
	free(c->series);
	free(c->table);
	free(c->active);
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
	Packrack__NodeAnswer *answer;

	if (c->node_count >= NODES_MAX)
		return pr_error_set(err, "more than %d nodes in one query", NODES_MAX);
	answer =
		PR_ARRAY_GROW(c->nodes, c->node_count) < 0 ? NULL : malloc(sizeof(*answer));
	if (!answer)
		return pr_error_set(err, "no memory for node %s", name);
	packrack__node_answer__init(answer);
	text_set(c, &answer->node, name);
	c->nodes[c->node_count] = (struct node){.answer = answer, .watermark = INT64_MIN};
	return (int)c->node_count++;
}

const char *
prm_completeness_name(const struct prm_completeness *c, int node)
{
	return c->nodes[node].answer->node;
}

void
prm_completeness_set_reason(
	struct prm_completeness *c, int node, const char *why, bool left_out)
{
	Packrack__NodeAnswer *answer = c->nodes[node].answer;

	text_set(c, &answer->why, why);
	answer->left_out = left_out;
}

static size_t
slot_of(uint64_t epoch, uint32_t link, size_t size)
{
	uint64_t h = (epoch ^ (uint64_t)link * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;

	return (size_t)(h >> 32) & (size - 1);
}

static bool
table_grow(struct prm_completeness *c)
{
	size_t size = c->table_size * 2, *table;

	if ((c->series_count + 1) * 2 < c->table_size)
		return true;
	table = calloc(size, sizeof(*table));
	if (!table)
		return false;
	for (size_t i = 0; i < c->series_count; i++) {
		size_t at = slot_of(c->series[i].epoch, c->series[i].link, size);

		while (table[at])
			at = (at + 1) & (size - 1);
		table[at] = i + 1;
	}
	free(c->table);
	c->table = table;
	c->table_size = size;
	return true;
}

static bool
link_is(const char *wanted, uint32_t link)
{
	char *end;
	unsigned long number = strtoul(wanted, &end, 10);

	return end != wanted && !*end && number == link;
}

static struct series *
series_find_or_add(struct prm_completeness *c, uint64_t epoch, uint32_t link)
{
	size_t at;

	if (!table_grow(c))
		return NULL;
	at = slot_of(epoch, link, c->table_size);
	for (; c->table[at]; at = (at + 1) & (c->table_size - 1)) {
		struct series *series = &c->series[c->table[at] - 1];

		if (series->epoch == epoch && series->link == link)
			return series;
	}
	if (c->series_count >= PRM_COMPLETENESS_SERIES_MAX ||
		PR_ARRAY_GROW(c->series, c->series_count) < 0)
		return NULL;
	c->series[c->series_count] = (struct series){.epoch = epoch,
		.link = link,
		.in_scope = !c->link || link_is(c->link, link)};
	c->table[at] = c->series_count + 1;
	return &c->series[c->series_count++];
}

/* Pieces come nearly in order, so the place is found from the end. */
static bool
range_insert(struct series *series, const struct range *range)
{
	size_t at;

	if (PR_ARRAY_GROW(series->ranges, series->count) < 0)
		return false;
	at = series->count++;
	for (; at && series->ranges[at - 1].first > range->first; at--)
		series->ranges[at] = series->ranges[at - 1];
	series->ranges[at] = *range;
	return true;
}

static int
held_check(const Packrack__Held *h, struct pr_error *err)
{
	uint64_t span = h->last - h->first;

	if (h->first < 1 || h->last < h->first || h->last == UINT64_MAX ||
		h->link > UINT16_MAX || h->first_otime > h->last_otime)
		return pr_error_set(err, "it tells a range of seqs that makes no sense");
	if (h->bits.len && h->bits.len != span / 8 + 1)
		return pr_error_set(err, "it tells %llu seqs with %zu bytes of bits",
			(unsigned long long)span + 1, h->bits.len);
	return 0;
}

static int
held_add(struct prm_completeness *c, const Packrack__Held *h, struct pr_error *err)
{
	struct range range = {h->first, h->last, h->first_otime, h->last_otime, NULL};
	struct series *series;

	if (held_check(h, err) < 0)
		return -1;
	series = series_find_or_add(c, h->epoch, h->link);
	if (!series)
		goto no_memory;
	series->in_scope = true; /* told, so asked for, whatever the link's name */
	if (h->last <= series->judged)
		return 0; /* too late to count: that seqs are missing has been settled */
	if (h->bits.len) {
		range.bits = malloc(h->bits.len);
		if (!range.bits)
			goto no_memory;
		memcpy(range.bits, h->bits.data, h->bits.len);
	}
	if (!range_insert(series, &range)) {
		free(range.bits);
		goto no_memory;
	}
	c->bytes += sizeof(range) + h->bits.len;
	return 0;
no_memory:
	return pr_error_set(err, "no memory for what it holds");
}

static int
edge_add(struct prm_completeness *c, const Packrack__Held *h, struct pr_error *err)
{
	struct series *series;

	if (held_check(h, err) < 0)
		return -1;
	series = series_find_or_add(c, h->epoch, h->link);
	if (!series)
		return pr_error_set(err, "no memory for what it holds");
	if (h->last_otime < c->options.since && h->last > series->below.seq)
		series->below = (struct point){h->last, h->last_otime};
	else if (h->first_otime > c->options.until &&
		 (!series->above.seq || h->first < series->above.seq))
		series->above = (struct point){h->first, h->first_otime};
	return 0;
}

static int64_t
watermark_of_all(const struct prm_completeness *c)
{
	int64_t least = INT64_MAX;

	for (size_t i = 0; i < c->node_count; i++)
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
prm_completeness_truncate(struct prm_completeness *c, int64_t otime)
{
	c->cut = true;
	c->cut_otime = otime;
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
	c->bounds_only = true;
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

static void
gap_add(struct prm_completeness *c, size_t series, uint64_t first, uint64_t last,
	int64_t low, int64_t high)
{
	if (!clip_to_edges(&c->series[series], &first, &last))
		return;
	if (c->gap_count >= PRM_COMPLETENESS_GAPS_MAX ||
		PR_ARRAY_GROW(c->gaps, c->gap_count) < 0) {
		c->surplus_packets += last - first + 1;
		c->surplus_ranges++;
		return;
	}
	c->gaps[c->gap_count++] = (struct gap){series, first, last, low, high};
}

/*
 * The union of ranges, seq by seq in steps of up to 64, with all-held and none-held ranges
 * taken whole. Costs nodes x seqs / 64 on a rack, and nothing per seq on a monitor.
 */

/* More overlapping ranges than this come from no honest nodes; the surplus counts as not held. */
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
	size_t kept = 0;

	for (size_t i = 0; i < s->active; i++) {
		const struct range *p = &s->series->ranges[c->active[i]];

		if (p->last >= s->at)
			c->active[kept++] = c->active[i];
		else
			point_raise(&s->series->last, p->last, p->last_otime);
	}
	s->active = kept;
	for (; s->next < s->series->count && s->series->ranges[s->next].first <= s->at;
		s->next++) {
		if (s->series->ranges[s->next].last < s->at || s->active >= ACTIVE_MAX)
			continue;
		if (PR_ARRAY_GROW(c->active, s->active) < 0) {
			c->failed_memory = true;
			continue;
		}
		c->active[s->active++] = s->next;
	}
}

/* The lowest seq from `seq` on whose otime is known. */
static struct point
point_after(const struct sweep *s, uint64_t seq)
{
	struct point best = {0, INT64_MAX};

	for (size_t i = 0; i < s->active; i++) {
		const struct range *p = &s->series->ranges[s->c->active[i]];
		uint64_t known = p->first >= seq ? p->first : p->last;

		if (known >= seq && (!best.seq || known < best.seq))
			best = (struct point){
				known, p->first >= seq ? p->first_otime : p->last_otime};
	}
	if (s->next < s->series->count &&
		(!best.seq || s->series->ranges[s->next].first < best.seq))
		best = (struct point){s->series->ranges[s->next].first,
			s->series->ranges[s->next].first_otime};
	return best;
}

/* The highest seq up to `seq` whose otime is known. */
static struct point
point_before(const struct sweep *s, uint64_t seq)
{
	struct point best = s->series->last;

	for (size_t i = 0; i < s->active; i++) {
		const struct range *p = &s->series->ranges[s->c->active[i]];

		if (p->first <= seq)
			point_raise(&best, p->first, p->first_otime);
		if (p->last <= seq)
			point_raise(&best, p->last, p->last_otime);
	}
	return best;
}

static uint64_t
within(const struct series *series, uint64_t first, uint64_t last)
{
	return clip_to_edges(series, &first, &last) ? last - first + 1 : 0;
}

/* at, ..., at + count - 1 are held; whatever lies between them and the last such is a gap. */
static void
take_held(struct sweep *s, uint64_t at, uint64_t count)
{
	struct series *series = s->series;
	struct point before;

	if (!series->first.seq) {
		series->first = (struct point){at, point_after(s, at).otime};
	} else if (at > series->top + 1) {
		before = point_before(s, series->top);
		gap_add(s->c, (size_t)(series - s->c->series), series->top + 1, at - 1,
			before.seq ? before.otime : INT64_MIN, point_after(s, at).otime);
	}
	series->top = at + count - 1;
	series->held += within(series, at, at + count - 1);
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
		uint64_t bits =
			load_bits(&s->series->ranges[s->c->active[i]], s->at, width);

		s->c->told += (unsigned)__builtin_popcountll(bits);
		word |= bits;
	}
	for (unsigned done = 0; done < width;) {
		bool set = word >> done & 1;
		uint64_t rest = (set ? ~word : word) >> done;
		unsigned run = rest ? (unsigned)__builtin_ctzll(rest) : width - done;

		if (run > width - done)
			run = width - done;
		if (set)
			take_held(s, s->at + done, run);
		done += run;
	}
	s->at += width;
}

/* How many seqs from `at` on see the same ranges, up to upto. */
static uint64_t
same_ranges(const struct sweep *s, uint64_t upto)
{
	uint64_t last = upto;

	for (size_t i = 0; i < s->active; i++)
		if (s->series->ranges[s->c->active[i]].last < last)
			last = s->series->ranges[s->c->active[i]].last;
	if (s->next < s->series->count && s->series->ranges[s->next].first <= last)
		last = s->series->ranges[s->next].first - 1;
	return last - s->at + 1;
}

static bool
all_full(const struct sweep *s)
{
	for (size_t i = 0; i < s->active; i++)
		if (s->series->ranges[s->c->active[i]].bits)
			return false;
	return true;
}

static void
step(struct sweep *s, uint64_t upto)
{
	uint64_t width;

	activate(s);
	width = same_ranges(s, upto);
	if (!s->active) {
		s->at += width;
	} else if (all_full(s)) {
		take_held(s, s->at, width);
		s->c->told += width * s->active;
		s->at += width;
	} else {
		take_word(s, width > 64 ? 64 : (unsigned)width);
	}
}

static void
forget(struct prm_completeness *c, struct series *series)
{
	size_t kept = 0;

	for (size_t i = 0; i < series->count; i++) {
		struct range *p = &series->ranges[i];

		if (p->last > series->judged) {
			series->ranges[kept++] = *p;
			continue;
		}
		c->bytes -= sizeof(*p) + (p->bits ? (p->last - p->first) / 8 + 1 : 0);
		free(p->bits);
	}
	series->count = kept;
}

static void
judge_until(struct prm_completeness *c, struct series *series, uint64_t upto)
{
	struct sweep s = {.c = c, .series = series, .at = series->judged + 1};

	/* what lies before the first held seq is bounded by the edges, which come to light later */
	if (!series->judged && series->count && series->ranges[0].first > s.at)
		s.at = series->ranges[0].first;
	while (s.at <= upto)
		step(&s, upto);
	activate(&s);
	series->judged = upto;
	forget(c, series);
}

static void
judge_before(struct prm_completeness *c, struct series *series, int64_t before)
{
	uint64_t upto = 0;

	for (size_t i = 0; i < series->count; i++)
		if ((before == INT64_MAX || series->ranges[i].last_otime < before) &&
			series->ranges[i].last > upto)
			upto = series->ranges[i].last;
	if (upto > series->judged)
		judge_until(c, series, upto);
}

/* What a node says at its end: losses, evictions, ledgers; kept until the gaps are explained. */

#define EVICTED_MAX 65536

static void
sweep_all(struct prm_completeness *c)
{
	int64_t watermark = watermark_of_all(c);

	for (size_t i = 0; i < c->series_count; i++)
		judge_before(c, &c->series[i], watermark);
}

int
prm_completeness_batch(struct prm_completeness *c, int node, const Packrack__Batch *batch,
	struct pr_error *err)
{
	for (size_t i = 0; i < batch->n_edge; i++)
		if (edge_add(c, batch->edge[i], err) < 0)
			return -1;
	for (size_t i = 0; i < batch->n_held; i++)
		if (held_add(c, batch->held[i], err) < 0)
			return -1;
	if (batch->frontier && batch->frontier > c->nodes[node].watermark)
		c->nodes[node].watermark = batch->frontier;
	if (c->bytes > c->options.sweep_bytes)
		sweep_all(c);
	return 0;
}

static int
loss_add(struct prm_completeness *c, int node, const Packrack__Loss *from,
	struct pr_error *err)
{
	struct series *series;
	struct loss loss = {.first = from->first_seq,
		.last = from->last_seq,
		.count = from->count,
		.first_time = from->first_time,
		.last_time = from->last_time,
		.node = node};

	if (loss.first < 1 || loss.last < loss.first || loss.last == UINT64_MAX ||
		from->link > UINT16_MAX || loss.count > loss.last - loss.first + 1)
		return pr_error_set(err, "it tells a loss that makes no sense");
	series = series_find_or_add(c, from->epoch, from->link);
	if (!series)
		return pr_error_set(err, "no memory for its losses");
	series->in_scope = true; /* told, so asked for */
	if (loss.last > series->lost.seq && loss.last_time >= c->options.since &&
		loss.first_time <= c->options.until)
		series->lost = (struct point){loss.last, loss.last_time};
	if (c->loss_count >= PRM_COMPLETENESS_LOSSES_MAX)
		return 0; /* the gap stays, only its reason is not known */
	if (PR_ARRAY_GROW(c->losses, c->loss_count) < 0)
		return pr_error_set(err, "no memory for its losses");
	loss.series = (size_t)(series - c->series);
	loss.reason = strdup(from->reason ? from->reason : "");
	if (!loss.reason)
		return pr_error_set(err, "no memory for its losses");
	c->losses[c->loss_count++] = loss;
	return 0;
}

static int
evicted_add(struct prm_completeness *c, int node, const Packrack__Evicted *from,
	struct pr_error *err)
{
	Packrack__Evicted named = *from, *copy;
	struct series *series;

	if (c->evicted_count >= EVICTED_MAX)
		return pr_error_set(err, "it tells too many evictions");
	named.node = c->nodes[node].answer->node;
	copy = PR_ARRAY_GROW(c->evicted, c->evicted_count) < 0
		       ? NULL
		       : pr_message_copy(&named.base);
	if (!copy)
		return pr_error_set(err, "no memory for its evictions");
	c->evicted[c->evicted_count++] = copy;
	if (!from->last_seq)
		return 0;
	series = series_find_or_add(c, from->epoch, from->link);
	if (!series)
		return pr_error_set(err, "no memory for its evictions");
	if (from->last_seq > series->evicted_seq)
		series->evicted_seq = from->last_seq;
	return 0;
}

static void
raise(uint64_t *to, uint64_t from)
{
	if (*to < from)
		*to = from;
}

/* Every node has its own copy of the ledger, some older than others; all of it only grows. */
static void
ledger_merge(Packrack__Ledger *to, const Packrack__Ledger *from)
{
	raise(&to->last_seq, from->last_seq);
	if (to->last_otime < from->last_otime)
		to->last_otime = from->last_otime;
	if (to->said_until < from->said_until)
		to->said_until = from->said_until;
	raise(&to->dropped_kernel, from->dropped_kernel);
	raise(&to->dropped_interface, from->dropped_interface);
	raise(&to->dropped_ring, from->dropped_ring);
	raise(&to->dropped_no_node, from->dropped_no_node);
	raise(&to->dropped_send, from->dropped_send);
	raise(&to->cut, from->cut);
	if (from->linktype)
		to->linktype = from->linktype;
	if (from->snaplen)
		to->snaplen = from->snaplen;
}

static Packrack__Ledger *
ledger_new(struct prm_completeness *c, const Packrack__Ledger *from)
{
	Packrack__Ledger *copy = PR_ARRAY_GROW(c->ledgers, c->ledger_count) < 0
					 ? NULL
					 : pr_message_copy(&from->base);

	if (copy)
		c->ledgers[c->ledger_count++] = copy;
	return copy;
}

static bool
told_add(struct series *series, const Packrack__Ledger *from)
{
	if (PR_ARRAY_GROW(series->told, series->told_count) < 0)
		return false;
	series->told[series->told_count].said_until = from->said_until;
	series->told[series->told_count].seq = from->last_seq;
	series->told[series->told_count++].ended = from->ended;
	return true;
}

/*
 * A node's ledger declares no more than it has settled. One that is far behind the others hears the
 * dispatcher no more: nobody waits for it.
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
			series->ledger->said_until - PR_LEDGER_ALIVE_NS)
			continue;
		series->ledger->ended &= series->told[i].ended;
		if (series->settled > series->told[i].seq)
			series->settled = series->told[i].seq;
	}
	/* It ended, and whoever has not heard of it by now will not. */
	if (any && series->ledger->said_until < c->options.now - PR_LEDGER_ALIVE_NS)
		series->ledger->ended = true;
}

static int
ledger_add(struct prm_completeness *c, const Packrack__Ledger *from, struct pr_error *err)
{
	struct series *series;

	if (from->link > UINT16_MAX)
		return pr_error_set(
			err, "it tells of link %u, which there cannot be", from->link);
	if (from->last_seq == UINT64_MAX)
		return pr_error_set(err, "it tells of more packets than there can be");
	series = series_find_or_add(c, from->epoch, from->link);
	if (!series)
		return pr_error_set(err, "no memory for its ledgers");
	if (!series->ledger)
		series->ledger = ledger_new(c, from);
	if (!series->ledger)
		return pr_error_set(err, "no memory for its ledgers");
	ledger_merge(series->ledger, from);
	if (!told_add(series, from))
		return pr_error_set(err, "no memory for its ledgers");
	if (c->link && from->name && !strcmp(c->link, from->name))
		series->in_scope = true;
	return 0;
}

int
prm_completeness_end(struct prm_completeness *c, int node, const Packrack__End *end,
	struct pr_error *err)
{
	struct node *n = &c->nodes[node];

	n->ended = true;
	n->limited = end->limit_reached;
	pr_message_copy_numbers(&n->answer->base, &end->base);
	n->corrupt = end->corrupt_records;
	for (size_t i = 0; i < end->n_losses; i++)
		if (loss_add(c, node, end->losses[i], err) < 0)
			return -1;
	for (size_t i = 0; i < end->n_evicted; i++)
		if (evicted_add(c, node, end->evicted[i], err) < 0)
			return -1;
	for (size_t i = 0; i < end->n_ledgers; i++)
		if (ledger_add(c, end->ledgers[i], err) < 0)
			return -1;
	return 0;
}

/*
 * The gaps' reasons. Per series, gaps and losses are both walked in seq order. Losses that name
 * each seq ("exact") are believed before those that say "count of first..last".
 */

struct walk {
	struct prm_completeness *c;
	Packrack__Completeness *out;
	/* through one series's losses */
	size_t next_exact, next_vague, end;
	struct loss *exact, *vague; /* of those begun, the one that reaches furthest */
};

static bool
is_exact(const struct loss *loss)
{
	return loss->count == loss->last - loss->first + 1;
}

static int
place_compare(size_t series_a, uint64_t first_a, size_t series_b, uint64_t first_b)
{
	if (series_a != series_b)
		return series_a < series_b ? -1 : 1;
	return first_a < first_b ? -1 : first_a > first_b;
}

static int
loss_compare(const void *pa, const void *pb)
{
	const struct loss *a = pa, *b = pb;

	return place_compare(a->series, a->first, b->series, b->first);
}

static int
gap_compare(const void *pa, const void *pb)
{
	const struct gap *a = pa, *b = pb;

	return place_compare(a->series, a->first, b->series, b->first);
}

static int
missing_compare(const void *pa, const void *pb)
{
	const Packrack__Loss *a = *(Packrack__Loss *const *)pa,
			     *b = *(Packrack__Loss *const *)pb;

	if (a->first_time != b->first_time)
		return a->first_time < b->first_time ? -1 : 1;
	if (a->epoch != b->epoch)
		return a->epoch < b->epoch ? -1 : 1;
	if (a->link != b->link)
		return a->link < b->link ? -1 : 1;
	return a->first_seq < b->first_seq ? -1 : a->first_seq > b->first_seq;
}

/* ---- listing ---- */

/* first..last is missing; as far as is known, it is of `about`. */
static void
list(struct walk *w, const struct series *series, uint64_t first, uint64_t last,
	const struct loss *about, const char *node)
{
	Packrack__Completeness *out = w->out;
	Packrack__Loss *l;

	out->missing_packets += last - first + 1;
	out->missing_ranges++;
	if (out->n_missing >= PRM_COMPLETENESS_LIST_MAX)
		return;
	if (PR_ARRAY_GROW(out->missing, out->n_missing) < 0 || !(l = malloc(sizeof(*l)))) {
		w->c->failed_memory = true;
		return;
	}
	packrack__loss__init(l);
	l->epoch = series->epoch;
	l->link = series->link;
	l->first_seq = first;
	l->last_seq = last;
	l->count = last - first + 1;
	l->first_time = about->first_time;
	l->last_time = about->last_time;
	text_set(w->c, &l->reason, about->reason);
	text_set(w->c, &l->node, node);
	if (!is_exact(about)) {
		l->among_first = about->first;
		l->among_last = about->last;
	}
	out->missing[out->n_missing++] = l;
}

/* ---- what no loss explains ---- */

static bool
alive(const struct prm_completeness *c, const struct series *series)
{
	return series->ledger && !series->ledger->ended &&
	       series->ledger->said_until > c->options.now - PR_LEDGER_ALIVE_NS;
}

/* Some node that hears the dispatcher has not settled all up to there. */
static bool
pending(const struct prm_completeness *c, const struct series *series, const struct gap *h)
{
	return alive(c, series) && h->last > series->settled;
}

static const char *
reason_of(const struct prm_completeness *c, const struct series *series, const char **node)
{
	for (size_t i = 0; i < c->node_count; i++)
		if (c->nodes[i].failed) {
			*node = c->nodes[i].answer->node;
			return PRM_MISSING_NO_ANSWER;
		}
	for (size_t i = 0; i < c->node_count; i++)
		if (c->nodes[i].corrupt) {
			*node = c->nodes[i].answer->node;
			return PRM_MISSING_CORRUPT;
		}
	*node = "";
	if (series->ledger &&
		series->ledger->dropped_no_node + series->ledger->dropped_send)
		return PRM_MISSING_DROPPED;
	if (series->ledger && !series->ledger->ended && !alive(c, series))
		return PRM_MISSING_UNDELIVERED;
	return PRM_MISSING_UNKNOWN;
}

/* An eviction that names no seq covers gaps that may be as old as what it took. */
static bool
evicted_by_time(
	const struct prm_completeness *c, const struct series *series, const struct gap *h)
{
	for (size_t i = 0; i < c->evicted_count; i++) {
		const Packrack__Evicted *e = c->evicted[i];

		if (e->midst ? e->link == series->link && h->low <= e->until &&
					h->high >= e->since
			     : !e->last_seq && h->low <= e->until &&
					(!e->epoch || (e->epoch == series->epoch &&
							      e->link == series->link)))
			return true;
	}
	return false;
}

static void
unexplained(struct walk *w, const struct gap *h, uint64_t first, uint64_t last)
{
	struct series *series = &w->c->series[h->series];
	struct loss about = {.first_time = h->low, .last_time = h->high};
	const char *node;

	if (first <= series->evicted_seq) {
		series->evicted_gap = true;
		first = last < series->evicted_seq ? last + 1 : series->evicted_seq + 1;
	}
	if (first <= last && evicted_by_time(w->c, series, h)) {
		series->evicted_gap = true;
		return;
	}
	if (first > last || h->low > w->c->options.until || h->high < w->c->options.since)
		return;
	if (pending(w->c, series, h)) {
		w->out->pending_packets += last - first + 1;
		return;
	}
	about.first = first;
	about.last = last;
	about.count = last - first + 1;
	about.reason = (char *)reason_of(w->c, series, &node);
	if (w->c->options.partial_scope && !node[0])
		return;
	list(w, series, first, last, &about, node);
}

/* ---- matching gaps with losses ---- */

static void
begin_series(struct walk *w, size_t series, size_t *loss)
{
	while (*loss < w->c->loss_count && w->c->losses[*loss].series < series)
		++*loss;
	w->next_exact = w->next_vague = *loss;
	while (*loss < w->c->loss_count && w->c->losses[*loss].series == series)
		++*loss;
	w->end = *loss;
	w->exact = w->vague = NULL;
}

/*
 * The loss of this kind that covers seq (else NULL). *upto is lowered to where another answer may
 * begin.
 */
static struct loss *
covering(struct walk *w, bool exact, uint64_t seq, uint64_t *upto)
{
	size_t *next = exact ? &w->next_exact : &w->next_vague;
	struct loss **best = exact ? &w->exact : &w->vague;

	for (; *next < w->end; ++*next) {
		struct loss *l = &w->c->losses[*next];

		if (is_exact(l) != exact)
			continue;
		if (l->first > seq) {
			if (l->first <= *upto)
				*upto = l->first - 1;
			break;
		}
		if (!*best || l->last > (*best)->last)
			*best = l;
	}
	if (!*best || (*best)->last < seq)
		return NULL;
	if ((*best)->last < *upto)
		*upto = (*best)->last;
	return *best;
}

static bool
in_range(const struct prm_completeness *c, const struct loss *l)
{
	return l->last_time >= c->options.since && l->first_time <= c->options.until;
}

static void
explain(struct walk *w, const struct gap *h)
{
	uint64_t at = h->first, upto;

	while (at <= h->last) {
		struct loss *l;

		upto = h->last;
		l = covering(w, true, at, &upto);
		if (!l)
			l = covering(w, false, at, &upto);
		if (!l)
			unexplained(w, h, at, upto);
		else if (in_range(w->c, l))
			list(w, &w->c->series[h->series], at, upto, l,
				w->c->nodes[l->node].answer->node);
		at = upto + 1;
	}
}

static void
explain_gaps(struct prm_completeness *c, Packrack__Completeness *out)
{
	struct walk walk = {.c = c, .out = out}, *w = &walk;
	size_t loss = 0, series = SIZE_MAX;

	if (c->gap_count)
		qsort(c->gaps, c->gap_count, sizeof(*c->gaps), gap_compare);
	if (c->loss_count)
		qsort(c->losses, c->loss_count, sizeof(*c->losses), loss_compare);
	for (size_t i = 0; i < c->gap_count; i++) {
		if (c->gaps[i].series != series)
			begin_series(w, series = c->gaps[i].series, &loss);
		if (c->series[series].in_scope &&
			clip_to_edges(
				&c->series[series], &c->gaps[i].first, &c->gaps[i].last))
			explain(w, &c->gaps[i]);
	}
	out->missing_packets += c->surplus_packets;
	out->missing_ranges += c->surplus_ranges;
	if (out->n_missing)
		qsort(out->missing, out->n_missing, sizeof(*out->missing), missing_compare);
}

/* An answer's completeness, put together: where each series ends, what is missing, what the nodes say. */

/* ---- the ends of a series ---- */

/*
 * Before the first held seq and after the last: bounded by edges, else by seq 1 and by what the
 * dispatcher declared. Seqs between an edge and the range may lie on either side of the range's
 * end; they count, unless a loss tells their time: never a silently short answer.
 */
static void
gap(struct prm_completeness *c, size_t series, struct point below, struct point above)
{
	if (above.seq > below.seq + 1)
		gap_add(c, series, below.seq + 1, above.seq - 1, below.otime, above.otime);
}

/* A live dispatcher's packets are not older than its epoch; a trace file's may be of any age. */
static int64_t
oldest(uint64_t epoch, const struct point *later)
{
	int64_t start = (int64_t)(epoch >> 32) * INT64_C(1000000000);

	return later->seq && later->otime >= start ? start : INT64_MIN;
}

static void
series_ends(struct prm_completeness *c, size_t index)
{
	struct series *series = &c->series[index];
	struct point below = series->below, above = series->above,
		     top = {series->top, series->last.otime};

	if (!above.seq && series->ledger && series->ledger->last_otime >= c->options.since)
		above = (struct point){
			series->ledger->last_seq + 1, series->ledger->last_otime};
	/* a loss is known before the MARK that declares it, which a dead dispatcher never sends */
	if (!series->above.seq && series->lost.seq >= above.seq && series->lost.seq)
		above = (struct point){series->lost.seq + 1, series->lost.otime};
	if (!below.seq)
		below.otime =
			oldest(series->epoch, series->first.seq ? &series->first : &above);
	if (c->cut)
		above.seq = 0; /* what follows the cut is not asked for */
	if (series->first.seq) {
		gap(c, index, below, series->first);
		if (above.seq)
			gap(c, index, top, above);
	} else if (above.seq) {
		gap(c, index, below, above);
	}
}

static void
judge_rest(struct prm_completeness *c)
{
	int64_t before = INT64_MAX;

	if (c->cut) {
		before = watermark_of_all(c);
		if (before > c->cut_otime)
			before = c->cut_otime;
	}
	for (size_t i = 0; i < c->series_count; i++) {
		judge_before(c, &c->series[i], before);
		series_ends(c, i);
	}
}

/* ---- the rest of the answer ---- */

/* True if all nodes have answered, and read all of what they hold. Called once: hands the answers over. */
static bool
nodes_report(struct prm_completeness *c, Packrack__Completeness *out)
{
	bool all = c->node_count > 0;

	out->nodes = calloc(c->node_count ? c->node_count : 1, sizeof(*out->nodes));
	c->failed_memory |= !out->nodes;
	for (size_t i = 0; out->nodes && i < c->node_count; i++) {
		struct node *n = &c->nodes[i];
		Packrack__NodeAnswer *a = n->answer;

		a->answered = !n->failed && (n->ended || c->cut);
		if (!n->failed && !a->answered)
			text_set(c, &a->error, "did not answer to its end");
		a->stopped = a->answered && !n->ended && !a->left_out;
		all = all && a->answered && !n->corrupt;
		out->nodes[out->n_nodes++] = a;
		n->answer = NULL;
	}
	return all;
}

/* Of whatever epoch: nothing of the link is missed that somebody had deleted. */
static bool
others_have(const struct prm_completeness *c, uint32_t link)
{
	bool held = false;

	for (size_t i = 0; i < c->series_count; i++)
		if (c->series[i].link == link) {
			held |= c->series[i].held > 0;
			if (c->series[i].evicted_gap)
				return false;
		}
	return held;
}

/* True if the eviction need not be reported: the packets were moved, and the answer of another node holds them. */
static bool
is_moved(struct prm_completeness *c, const Packrack__Evicted *e)
{
	const struct series *series;

	if (!e->deleted || !e->deleted->moved_to[0] || e->until > e->deleted->until)
		return false;
	if (e->midst)
		return others_have(c, e->link);
	if (!e->epoch)
		return false;
	series = series_find_or_add(c, e->epoch, e->link);
	return series && series->held && !series->evicted_gap;
}

/* Evictions that reach into the range, and only those; true: none. */
static bool
evicted_report(struct prm_completeness *c, Packrack__Completeness *out)
{
	size_t kept = 0;

	out->evicted =
		calloc(c->evicted_count ? c->evicted_count : 1, sizeof(*out->evicted));
	if (!out->evicted) {
		c->failed_memory = true;
		return false;
	}
	for (size_t i = 0; i < c->evicted_count; i++)
		if (c->evicted[i]->until >= c->options.since &&
			(!c->evicted[i]->midst ||
				c->evicted[i]->since <= c->options.until) &&
			!is_moved(c, c->evicted[i]))
			out->evicted[out->n_evicted++] = c->evicted[i];
		else
			c->evicted[kept++] = c->evicted[i];
	c->evicted_count = kept;
	return !out->n_evicted;
}

/* Had the dispatcher drops before the packets got a number? Only series that reach the range. */
static void
ledgers_report(struct prm_completeness *c, Packrack__Completeness *out)
{

	for (size_t i = 0; i < c->series_count; i++) {
		const struct series *series = &c->series[i];

		out->held_packets += series->in_scope ? series->held : 0;
		if (series->ledger && series->in_scope &&
			series->ledger->last_otime >= c->options.since)
			out->dropped_packets += series->ledger->dropped_kernel +
						series->ledger->dropped_interface +
						series->ledger->dropped_ring;
	}
	out->ledgers = c->ledgers;
	out->n_ledgers = c->ledger_count;
	c->ledgers = NULL;
	c->ledger_count = 0;
}

int
prm_completeness_finish(
	struct prm_completeness *c, Packrack__Completeness **out, struct pr_error *err)
{
	Packrack__Completeness *r = malloc(sizeof(*r));
	bool fine;

	*out = r;
	if (!r)
		return pr_error_set(err, "no memory for the completeness of an answer");
	packrack__completeness__init(r);
	for (size_t i = 0; i < c->series_count; i++)
		update_ledger_state(c, &c->series[i]);
	judge_rest(c);
	explain_gaps(c, r);
	fine = nodes_report(c, r);
	fine = evicted_report(c, r) && fine;
	ledgers_report(c, r);
	r->held_at_most = c->bounds_only;
	r->complete =
		fine && !r->missing_packets && !r->pending_packets && !r->dropped_packets;
	if (!c->failed_memory)
		return 0;
	packrack__completeness__free_unpacked(r, NULL);
	*out = NULL;
	return pr_error_set(err, "no memory for the completeness of an answer");
}
