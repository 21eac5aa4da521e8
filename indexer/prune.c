/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/prune.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/composite.h"
#include "indexer/prune_group.h"
#include "proto/wire/cursor.h"

/* The record of level 1 that was read last, of one stream. */
struct batch {
	struct pr_level1 level1;
	struct pr_view_buffer buffer;
	bool valid;
	uint64_t tried, proof; /* of the record that it has, or could not be read */
};

struct stream {
	uint16_t link;
	struct batch batch;
	struct pr_prune_group *group;
};

struct pr_prune {
	struct pr_view *view;
	const struct pr_plans *plans;
	uint8_t *scratch; /* for the longest plan */
	struct stream **streams;
	size_t count;
	struct pr_prune_figures figures;
};

/* ---- making ---- */

static size_t
longest_plan(const struct pr_plans *plans)
{
	size_t longest = 1;

	for (size_t i = 0; i < plans->count; i++)
		if (plans->items[i]->count > longest)
			longest = plans->items[i]->count;
	return longest;
}

struct pr_prune *
pr_prune_create(struct pr_view *view, const struct pr_plans *plans, struct pr_error *err)
{
	struct pr_prune *p = calloc(1, sizeof(*p));

	if (p)
		p->scratch = malloc(longest_plan(plans));
	if (!p || !p->scratch) {
		free(p);
		pr_error_set(err, "no memory for a query");
		return NULL;
	}
	p->view = view;
	p->plans = plans;
	return p;
}

void
pr_prune_destroy(struct pr_prune **prune)
{
	struct pr_prune *p = *prune;

	if (!p)
		return;
	for (size_t i = 0; i < p->count; i++) {
		pr_prune_group_destroy(&p->streams[i]->group);
		free(p->streams[i]->batch.buffer.bytes);
		free(p->streams[i]);
	}
	free(p->streams);
	free(p->scratch);
	free(p);
	*prune = NULL;
}

/* NULL: no memory; then nothing is known. */
static struct stream *
stream_of(struct pr_prune *p, uint16_t link)
{
	struct stream **streams, *s;

	for (size_t i = 0; i < p->count; i++)
		if (p->streams[i]->link == link)
			return p->streams[i];
	streams = realloc(p->streams, (p->count + 1) * sizeof(*streams));
	if (!streams)
		return NULL;
	p->streams = streams;
	s = calloc(1, sizeof(*s));
	if (s)
		s->group = pr_prune_group_create(p->view, link, &p->figures);
	if (!s || !s->group) {
		free(s);
		return NULL;
	}
	s->link = link;
	streams[p->count++] = s;
	return s;
}

/* ---- level 1 ---- */

static bool
fits(const struct pr_level1 *l, uint16_t link, const struct pr_index_ref *ref)
{
	return l->link == link && l->first_sequence == ref->first_sequence &&
	       l->segments == ref->segments;
}

/* An index may be recycled before what it is about: no fault. */
static bool
read_batch(
	struct pr_prune *p, struct batch *b, uint16_t link, const struct pr_index_ref *ref)
{
	const uint8_t *body;
	int rc = pr_view_read_record(p->view, &ref->handle, &b->buffer, &body, NULL);

	if (rc == SFS_OK &&
		pr_level1_open(&b->level1, body, ref->handle.length, NULL) == 0 &&
		fits(&b->level1, link, ref))
		return true;
	p->figures.damaged += rc != SFS_EXPIRED && rc != SFS_DELETED;
	return false;
}

/* What level 1 says of the segment; false: nothing. */
static bool
find_segment(struct pr_prune *p, struct stream *s, const struct pr_index_stream *known,
	const struct pr_segment_entry *entry, struct pr_level1_segment *out, bool *worked)
{
	const struct pr_index_ref *ref = pr_index_find(known, 1, entry->sequence);
	struct batch *b = &s->batch;

	if (!ref)
		return false;
	if (b->tried != ref->first_sequence || b->proof != ref->handle.proof) {
		b->tried = ref->first_sequence;
		b->proof = ref->handle.proof;
		b->valid = read_batch(p, b, s->link, ref);
		p->figures.reads++;
		p->figures.bytes += ref->handle.length;
		*worked = true;
	}
	if (!b->valid || entry->sequence < b->level1.first_sequence ||
		entry->sequence - b->level1.first_sequence >= b->level1.segments)
		return false;
	pr_level1_get(
		&b->level1, (unsigned)(entry->sequence - b->level1.first_sequence), out);
	return out->proof == entry->handle.proof;
}

#define PORTS_MAX 16 /* so many are asked for one by one */

/*
 * An address has its prefixes, and its first octet: a segment that has not those has not it. They lie in
 * the same signature, so asking costs nothing but makes false positives rare.
 */
static bool
has_prefixes(const struct pr_level1_segment *s, const struct pr_key *key)
{
	static const uint8_t lens[2][3] = {{3, 2, 1}, {8, 6, 4}};
	bool ip6 = key->len == 16;

	if (key->len != 4 && !ip6)
		return true;
	for (int i = 0; i < 3; i++) {
		struct pr_key net = pr_key_bytes(PR_KEY_NET, key->bytes, lens[ip6][i]);

		if (!pr_level1_has_key(s, &net))
			return false;
	}
	return ip6 || pr_level1_has_range(s, PR_NUMBER_SRC4, pr_get_be32(key->bytes),
			      pr_get_be32(key->bytes));
}

/* The services, and of the composites that the record has, those that the filter fixes all parts of. */
static bool
has_parts(void *arg, const struct pr_key *parts)
{
	const struct pr_level1_segment *s = arg;
	struct pr_key key, services[PR_SERVICES_MAX];
	size_t count = pr_key_services(parts, services);

	for (size_t i = 0; i < count; i++)
		if (!pr_level1_has_key(s, &services[i]))
			return false;

	for (size_t i = 0; i < PR_COMPOSITES_MAX && s->composites; i++)
		if (pr_key_composite(parts, s->composites[i], &key) &&
			!pr_level1_has_key(s, &key))
			return false;
	return true;
}

static bool
has_key(void *arg, const struct pr_key *key)
{
	if (!pr_level1_has_key(arg, key))
		return false;
	return (key->kind != PR_KEY_SRC && key->kind != PR_KEY_DST) ||
	       has_prefixes(arg, key);
}

static bool
has_range(void *arg, const struct pr_plan_range *r)
{
	struct pr_key key;

	if (!pr_level1_has_range(arg, r->number, r->least, r->most))
		return false;
	if ((r->number != PR_NUMBER_SPORT && r->number != PR_NUMBER_DPORT) ||
		r->least < 0 || r->most > UINT16_MAX || r->most - r->least >= PORTS_MAX)
		return true;
	for (int64_t port = r->least; port <= r->most; port++) {
		key = pr_key_number(
			r->number == PR_NUMBER_SPORT ? PR_KEY_SPORT : PR_KEY_DPORT,
			(uint32_t)port);
		if (pr_level1_has_key(arg, &key))
			return true;
	}
	return false;
}

/* ---- the time, which the catalog knows ---- */

static bool
any_key(void *arg, const struct pr_key *key)
{
	(void)arg;
	(void)key;
	return true;
}

static bool
in_time(void *arg, const struct pr_plan_range *r)
{
	const struct pr_segment_entry *entry = arg;

	return r->number != PR_NUMBER_TIME ||
	       (entry->min_time <= r->most && entry->max_time >= r->least);
}

static bool
ask_time(struct pr_prune *p, const struct pr_plan *plan,
	const struct pr_segment_entry *entry)
{
	struct pr_segment_entry e = *entry;
	const struct pr_plan_index index = {
		.has_key = any_key, .has_range = in_time, .arg = &e};

	for (size_t i = 0; i < plan->range_count; i++)
		if (plan->ranges[i].number == PR_NUMBER_TIME)
			return pr_plan_holds(plan, &index, p->scratch);
	return true;
}

/* ---- all of them ---- */

/* Without holes the catalog knows what it holds; else level 1 must. */
static bool
holds_all(const struct pr_segment_entry *entry)
{
	return entry->count == (uint64_t)entry->seq_span + 1;
}

static enum pr_prune_verdict
ask_levels(struct pr_prune *p, struct stream *s, const struct pr_index_stream *known,
	const struct pr_plan *plan, const struct pr_segment_entry *entry,
	struct pr_held_walk *held, bool *worked)
{
	struct pr_level1_segment segment = {.held_form = PR_HELD_ALL};
	const struct pr_plan_index index = {.has_key = has_key,
		.has_range = has_range,
		.has_parts = has_parts,
		.arg = &segment};
	bool timely = ask_time(p, plan, entry),
	     excluded = !timely || !pr_prune_group_may(s->group, known, plan,
					   entry->sequence, p->scratch, worked);

	if (!excluded || !holds_all(entry)) {
		if (!find_segment(p, s, known, entry, &segment, worked))
			return PR_PRUNE_READ;
		if (!excluded && pr_plan_holds(plan, &index, p->scratch))
			return PR_PRUNE_READ;
	}
	pr_held_walk_begin(held, &segment, entry->seq_span);
	return !timely ? PR_PRUNE_TIME : excluded ? PR_PRUNE_LEVEL2 : PR_PRUNE_LEVEL1;
}

enum pr_prune_verdict
pr_prune_ask(struct pr_prune *p, uint16_t link, const struct pr_segment_entry *entry,
	struct pr_held_walk *held, bool *worked)
{
	const struct pr_plan *plan = pr_plans_find(p->plans, entry->linktype);
	const struct pr_index_stream *known;
	const struct pr_level1_segment all = {.held_form = PR_HELD_ALL};
	struct stream *s;

	*worked = false;
	if (!p->plans->count)
		return PR_PRUNE_READ;
	if (!plan && holds_all(entry)) {
		pr_held_walk_begin(held, &all, entry->seq_span);
		return PR_PRUNE_LINKTYPE;
	}
	if (!plan || pr_plan_is(plan, PR_PLAN_TRUE))
		return PR_PRUNE_READ;
	known = pr_index_book_find(pr_view_index(p->view), link);
	s = known ? stream_of(p, link) : NULL;
	return s ? ask_levels(p, s, known, plan, entry, held, worked) : PR_PRUNE_READ;
}

bool
pr_prune_segment(struct pr_prune *p, uint16_t link, const struct pr_segment_entry *entry,
	struct pr_level1_segment *out, const struct pr_level1 **batch, bool *worked)
{
	const struct pr_index_stream *known =
		pr_index_book_find(pr_view_index(p->view), link);
	struct stream *s = known ? stream_of(p, link) : NULL;

	*worked = false;
	if (!s || !find_segment(p, s, known, entry, out, worked))
		return false;
	if (batch)
		*batch = &s->batch.level1;
	return true;
}

const struct pr_prune_figures *
pr_prune_figures(const struct pr_prune *p)
{
	return &p->figures;
}
