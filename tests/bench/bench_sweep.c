/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_sweep query IN PACKETS TARGET   what queries for one packet each read of an index over PACKETS grown
 *     ones (see bench_trace.h) in segments of TARGET bytes: with level 2 bit-sliced as it is, with the same
 *     signatures lying whole, one after the other (Hyperion's simple index), and with level 1 alone
 * bench_sweep sizes IN PACKETS WIRE     what the index of so many takes, by part; WIRE 1: of packets as long as
 *     they were on the link (zeros for what was cut off: an index does not look there)
 */
#include "tests/unit/builder_add.h"
#include "indexer/index/index_key.h"
#include "indexer/index/level1.h"
#include "indexer/index/level2.h"
#include "proto/wire/segment.h"
#include "tests/bench/bench_trace.h"

#define QUERIES 64
#define ROOM_OVER 128 /* of a block, by StreamFS: see prl_writer_create */

struct record {
	uint64_t first_sequence;
	uint32_t segments;
	uint8_t *body;
	size_t len;
};

struct index {
	struct record *level[4]; /* by level */
	size_t count[4], bytes[4];
	uint32_t *segment_len; /* by sequence - 1 */
	size_t segments, room;
	uint64_t data;
};

static void *
more(void *at, size_t count, size_t size)
{
	void *grown =
		count & (count - 1) ? at : realloc(at, (count ? 2 * count : 1) * size);

	if (!grown)
		die("no memory");
	return grown;
}

static int
sink(void *arg, const struct pr_index_record *r)
{
	struct index *ix = arg;
	struct record *to;

	ix->level[r->level] =
		more(ix->level[r->level], ix->count[r->level], sizeof(struct record));
	to = &ix->level[r->level][ix->count[r->level]++];
	*to = (struct record){r->first_sequence, r->segments, malloc(r->len), r->len};
	if (!to->body)
		die("no memory");
	memcpy(to->body, r->body, r->len);
	ix->bytes[r->level] += r->len;
	return 0;
}

static void
add_segment(struct index *ix, struct pri_builder *b, const uint8_t *body, size_t len)
{
	struct pr_error err;

	ix->segment_len = more(ix->segment_len, ix->segments, sizeof(uint32_t));
	ix->segment_len[ix->segments++] = (uint32_t)len;
	ix->data += len;
	if (pri_builder_add(b, ix->segments, ix->segments, body, len, &err) != 1)
		die("no index");
}

/* QUERIES addresses from NEEDLE on, evenly spread, each in one packet. */
static void
hide(struct grower *g, uint64_t *hidden)
{
	uint64_t wanted = (*hidden * 2 + 1) * g->packets / (2 * QUERIES);

	if (*hidden == QUERIES || g->done < wanted || !is_ip(g->record, g->caplen))
		return;
	pr_put_be32(g->record + RECORD + 26, NEEDLE + (uint32_t)*hidden);
	++*hidden;
}

/* As long as it was: what was cut off is no matter. */
static void
lengthen(struct grower *g)
{
	uint32_t len = pr_get_le32(g->record + 12);

	if (len > CAPLEN_MAX)
		len = CAPLEN_MAX;
	if (len > g->caplen) {
		memset(g->record + RECORD + g->caplen, 0, len - g->caplen);
		g->caplen = len;
	}
}

static void
make_index(struct index *ix, const char *in, uint64_t packets, size_t target, bool wire)
{
	static struct grower g;
	struct trace t = trace_load(in);
	struct pr_error err;
	struct pri_builder *builder =
		pri_builder_create(0, 4 * (target + ROOM_OVER), sink, ix, &err);
	struct pr_segment_builder b;
	uint8_t *buf = malloc(target);
	uint64_t hidden = 0;

	if (!builder || !buf)
		die("no memory");
	grow_begin(&g, &t, packets, 0);
	g.hidden = true; /* ours instead */
	pr_segment_begin(&b, buf, target, 0);
	while (grow_next(&g)) {
		struct pr_packet p;

		hide(&g, &hidden);
		if (wire)
			lengthen(&g);
		p = record_packet(&t, g.record, g.caplen, g.done);
		if (pr_segment_add(&b, &p))
			continue;
		add_segment(ix, builder, buf, pr_segment_seal(&b));
		pr_segment_begin(&b, buf, target, 0);
		pr_segment_add(&b, &p);
	}
	add_segment(ix, builder, buf, pr_segment_seal(&b));
	pri_builder_finish(builder, PRI_BUILDER_ALL, &err);
	pri_builder_destroy(&builder);
	free(buf);
	free(t.bytes);
}

/* ---- a query: as indexer/query/prune.c asks ---- */

#define SECTOR 4096u
#define LOOK 11264
#define SHORT 10240

struct cost {
	uint64_t reads, bytes;
};

struct costs {
	struct cost level2, level1, data;
	uint64_t whole_bytes, whole_reads; /* of level 2, were it not sliced */
};

static void
count(struct cost *c, uint64_t bytes)
{
	c->reads++;
	c->bytes += bytes;
}

/* What a record of level 1 has been read of. */
struct parts {
	const struct record *record;
	struct pri_level1 level1;
	uint8_t *have; /* a page */
	struct cost *cost;
};

/* Whole sectors; the record lies where the last one may have ended. */
static void
count_part(struct parts *p, size_t offset, size_t len)
{
	size_t from = p->record->first_sequence * 1000 % SECTOR + offset;

	count(p->cost, ((from + len - 1) / SECTOR - from / SECTOR + 1) * SECTOR);
}

static bool
segment_has(struct parts *p, const struct pri_level1_segment *s, const struct pri_key *key)
{
	uint64_t signature = pri_key_signature(key);
	uint32_t page = pri_level1_page_of(&p->level1, signature);
	size_t len, at = pri_level1_page_at(&p->level1, page, &len);

	if (!p->have[page])
		count_part(p, at, len);
	p->have[page] = 1;
	return pri_level1_find(&p->level1, signature, p->record->body + at, len) >>
		       s->index &
	       1;
}

static bool
segment_may(struct parts *p, const struct pri_level1_segment *s, enum pri_key_kind side,
	uint32_t address)
{
	uint8_t at[4];
	struct pri_key key, net;

	pr_put_be32(at, address);
	key = pri_key_bytes(side, at, 4);
	net = pri_key_bytes(PRI_KEY_NET, at, 3);
	return pri_level1_has_range(s, PRI_NUMBER_SRC4, address, address) &&
	       segment_has(p, s, &key) && segment_has(p, s, &net);
}

static void
ask_level1(
	const struct index *ix, const struct record *r, uint32_t address, struct costs *c)
{
	struct parts p = {.record = r, .cost = &c->level1};
	struct pri_level1_segment s;

	if (pri_level1_open(&p.level1, r->body, r->len, r->len, NULL) < 0)
		die("a record of level 1 is damaged");
	p.have = calloc(p.level1.pages + 1u, 1);
	if (!p.have)
		die("no memory");
	if (r->len <= SHORT) {
		count(&c->level1, r->len);
		memset(p.have, 1, p.level1.pages);
	} else {
		count_part(&p, 0, pri_level1_head(p.level1.segments, 64));
	}
	for (unsigned i = 0; i < p.level1.segments; i++) {
		pri_level1_get(&p.level1, i, &s);
		if (segment_may(&p, &s, PRI_KEY_SRC, address) ||
			segment_may(&p, &s, PRI_KEY_DST, address))
			count(&c->data, ix->segment_len[r->first_sequence - 1 + i]);
	}
	free(p.have);
}

static unsigned
columns_in(const struct pri_level2 *l, const uint8_t *vector)
{
	unsigned found = 0;

	for (unsigned i = 0; i < l->columns; i++)
		found += vector[i / 8] >> i % 8 & 1;
	return found;
}

static void
apply(const struct pri_level2 *l, const struct record *r, const struct pri_key *key,
	uint8_t *have, uint8_t *vector, struct cost *c)
{
	for (unsigned i = 0; i < PRI_SLICES_PAGES; i++) {
		struct pri_slice_walk walk =
			pri_slice_walk_begin(pri_key_hash(key), i, l->pages);

		if (!have[walk.page])
			count(c, PRI_SLICES_PAGE);
		have[walk.page] = 1;
		pri_level2_apply(
			l, walk, r->body + pri_level2_page_at(l, walk.page), vector);
	}
}

/* Which columns may have the address; counts head and pages. */
static void
ask_level2(const struct record *r, struct pri_level2 *l, uint32_t address, uint8_t *vector,
	struct costs *c)
{
	size_t head = r->len < PRI_LEVEL2_HEAD_MAX ? r->len : PRI_LEVEL2_HEAD_MAX;
	uint8_t at[4], *have;
	struct pri_key key;

	if (pri_level2_open(l, r->body, head, r->len, NULL) < 0)
		die("a record of level 2 is damaged");
	have = calloc(l->pages, 1);
	if (!have)
		die("no memory");
	count(&c->level2, SECTOR);
	memset(vector, 0xff, PRI_LEVEL2_VECTOR);
	pr_put_be32(at, address);
	key = pri_key_bytes(PRI_KEY_ADDRESS, at, 4);
	apply(l, r, &key, have, vector, &c->level2);
	if (columns_in(l, vector) * LOOK > 2 * PRI_SLICES_PAGES * PRI_SLICES_PAGE) {
		key = pri_key_bytes(PRI_KEY_NET, at, 3);
		apply(l, r, &key, have, vector, &c->level2);
	}
	free(have);
}

static void
ask(const struct index *ix, uint32_t address, struct costs *c)
{
	static struct pri_level2 l;
	uint8_t vector[PRI_LEVEL2_VECTOR];
	size_t next = 0;

	for (size_t g = 0; g < ix->count[2]; g++) {
		ask_level2(&ix->level[2][g], &l, address, vector, c);
		c->whole_bytes += ix->level[2][g].len;
		c->whole_reads += l.columns;
		for (unsigned i = 0; i < l.columns; i++, next++)
			if (vector[i / 8] >> i % 8 & 1)
				ask_level1(ix, &ix->level[1][next], address, c);
	}
	for (; next < ix->count[1]; next++)
		ask_level1(ix, &ix->level[1][next], address, c);
}

static void
show(const char *what, double reads, double bytes)
{
	printf("%s_reads %.2f %s_bytes %.0f ", what, reads / QUERIES, what,
		bytes / QUERIES);
}

static void
query(const char *in, uint64_t packets, size_t target)
{
	struct index ix = {0};
	struct costs c = {0};

	make_index(&ix, in, packets, target, false);
	for (uint32_t i = 0; i < QUERIES; i++)
		ask(&ix, NEEDLE + i, &c);
	printf("data %llu segments %zu level1 %zu level2 %zu records1 %zu records2 %zu "
	       "false_hits %.3f ",
		(unsigned long long)ix.data, ix.segments, ix.bytes[1], ix.bytes[2],
		ix.count[1], ix.count[2], (double)c.data.reads / QUERIES - 1);
	show("sliced", (double)(c.level2.reads + c.level1.reads + c.data.reads),
		(double)(c.level2.bytes + c.level1.bytes + c.data.bytes));
	show("plain", (double)(c.whole_reads + c.level1.reads + c.data.reads),
		(double)(c.whole_bytes + c.level1.bytes + c.data.bytes));
	show("one_level", (double)(QUERIES * ix.count[1] + c.data.reads),
		(double)(QUERIES * ix.bytes[1] + c.data.bytes));
	printf("\n");
}

/* ---- what it takes ---- */

struct sums {
	uint64_t items, signatures, series, held, tops, rest;
};

static void
add_parts(struct sums *p, const struct record *r)
{
	struct pri_level1_top tops[PRI_LEVEL1_TOPS_MAX];
	struct pri_level1 l;
	struct pri_level1_segment s;
	uint64_t used = 0;

	if (pri_level1_open(&l, r->body, r->len, r->len, NULL) < 0)
		die("a record of level 1 is damaged");
	for (uint32_t i = 0; i < l.pages; i++) {
		size_t len;

		pri_level1_page_at(&l, i, &len);
		p->signatures += len + 2;
		used += len + 2;
	}
	for (unsigned i = 0; i < l.segments; i++) {
		pri_level1_get(&l, i, &s);
		p->items += PRI_LEVEL1_ITEM;
		p->series += s.series_len;
		p->held += s.held_len;
		used += PRI_LEVEL1_ITEM + s.series_len + s.held_len;
	}
	for (size_t i = 0, n = pri_level1_tops(&l, tops); i < n; i++) {
		p->tops += 16u + tops[i].len;
		used += 16u + tops[i].len;
	}
	p->rest += r->len - used;
}

static void
sizes(const char *in, uint64_t packets, bool wire)
{
	struct index ix = {0};
	struct sums p = {0};

	make_index(&ix, in, packets, PR_SEGMENT_TARGET, wire);
	for (size_t i = 0; i < ix.count[1]; i++)
		add_parts(&p, &ix.level[1][i]);
	printf("data %llu items %llu signatures %llu series %llu held %llu tops %llu rest "
	       "%llu level2 "
	       "%zu\n",
		(unsigned long long)ix.data, (unsigned long long)p.items,
		(unsigned long long)p.signatures, (unsigned long long)p.series,
		(unsigned long long)p.held, (unsigned long long)p.tops,
		(unsigned long long)p.rest, ix.bytes[2]);
}

int
main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "query"))
		query(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
	else if (argc == 5 && !strcmp(argv[1], "sizes"))
		sizes(argv[2], strtoull(argv[3], NULL, 10), !strcmp(argv[4], "1"));
	else
		die("query IN PACKETS TARGET | sizes IN PACKETS WIRE");
	return 0;
}
