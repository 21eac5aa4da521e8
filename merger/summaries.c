/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/summaries.h"

#include <xxhash.h>

#include "proto/base/array.h"
#include "proto/rpc/message.h"
#include "proto/wire/source.h"

struct prm_summaries {
	struct prm_node_summaries **nodes;
	size_t count;
	const struct prm_ownership *ownership;
	uint64_t memory;
	/* summaries up to this time were evicted, and are not requested again */
	int64_t floor;
	struct prm_clusters *clusters;
	struct prm_summaries_figures figures;
};

/* ---- which merger is responsible ---- */

static int64_t
interval_of(int64_t time)
{
	int64_t interval = time / PRM_OWNERSHIP_INTERVAL_NS;

	return time < 0 && time % PRM_OWNERSHIP_INTERVAL_NS ? interval - 1 : interval;
}

size_t
prm_owner_of(const struct prm_ownership *o, int64_t time)
{
	uint64_t seed = interval_of(time), best = 0;
	size_t owner = o->self;

	for (size_t i = 0; i < o->count; i++) {
		const struct prm_owner *m = &o->mergers[i];
		uint64_t score = XXH3_64bits_withSeed(m->name, strlen(m->name), seed);

		if ((i == o->self || m->alive) && score >= best) {
			best = score;
			owner = i;
		}
	}
	return owner;
}

static bool
is_owner(const struct prm_ownership *o, int64_t time)
{
	return o->count < 2 || prm_owner_of(o, time) == o->self;
}

/* ---- life ---- */

#define AGAIN_NS INT64_C(5000000000) /* a summary that did not come is asked for again */
/*
 * How long a body that belongs to another merger is kept: that merger must fetch it first,
 * or may disappear again.
 */
#define KEEP_NS (5 * PR_NS_PER_S)
#define CLUSTERS_SHARE 4 /* of memory goes to the third level */

struct prm_summaries *
prm_summaries_create(
	uint64_t memory, const struct prm_ownership *ownership, struct pr_error *err)
{
	struct prm_summaries *s = calloc(1, sizeof(*s));

	memory = memory ? memory : PRM_SUMMARIES_MEMORY_DEFAULT;
	if (s)
		s->clusters = prm_clusters_create(memory / CLUSTERS_SHARE);
	if (!s || !s->clusters) {
		free(s);
		return pr_error_null(err, "no memory for summaries");
	}
	s->memory = memory - memory / CLUSTERS_SHARE;
	s->ownership = ownership;
	s->floor = INT64_MIN;
	return s;
}

static void
body_drop(
	struct prm_summaries *s, struct prm_node_summaries *c, struct prm_summary_entry *h)
{
	if (!h->body)
		return;
	prm_clusters_remove(s->clusters, h->slot);
	h->slot = (struct prm_cluster_slot){0};
	free(h->body);
	h->body = NULL;
	c->bodies--;
	s->figures.bodies--;
	s->figures.bytes -= h->bytes;
}

static void
drop_first(struct prm_summaries *s, struct prm_node_summaries *c, size_t gone)
{
	for (size_t i = 0; i < gone; i++)
		body_drop(s, c, &c->items[i]);
	s->figures.listed -= gone;
	c->count -= gone;
	if (c->count)
		memmove(c->items, c->items + gone, c->count * sizeof(*c->items));
}

static void
node_free(struct prm_summaries *s, struct prm_node_summaries *c)
{
	drop_first(s, c, c->count);
	packrack__coverage__free_unpacked(c->coverage, NULL);
	PR_FREE(c, items, name);
	free(c);
}

void
prm_summaries_destroy(struct prm_summaries **sp)
{
	struct prm_summaries *s = PR_TAKE(sp);

	if (!s)
		return;
	for (size_t i = 0; i < s->count; i++)
		node_free(s, s->nodes[i]);
	free(s->nodes);
	prm_clusters_destroy(&s->clusters);
	free(s);
}

/* ---- nodes ---- */

struct prm_node_summaries *
prm_summaries_find(const struct prm_summaries *s, const char *node)
{
	for (size_t i = 0; i < s->count; i++)
		if (!strcmp(s->nodes[i]->name, node))
			return s->nodes[i];
	return NULL;
}

void
prm_summaries_forget(struct prm_summaries *s, const char *node)
{
	for (size_t i = 0; i < s->count; i++)
		if (!strcmp(s->nodes[i]->name, node)) {
			node_free(s, s->nodes[i]);
			s->nodes[i] = s->nodes[--s->count];
			return;
		}
}

static struct prm_node_summaries *
find_or_make(struct prm_summaries *s, const char *node)
{
	struct prm_node_summaries *c = prm_summaries_find(s, node);

	if (c)
		return c;
	c = PR_ARRAY_GROW(s->nodes, s->count) < 0 ? NULL : calloc(1, sizeof(*c));
	if (c)
		c->name = strdup(node);
	if (!c || !c->name) {
		free(c);
		return NULL;
	}
	c->forgotten_until = INT64_MIN;
	s->nodes[s->count++] = c;
	return c;
}

/* ---- reports of nodes ---- */

struct pr_summary_span
prm_summary_span(const Packrack__SummaryInfo *i)
{
	struct pr_summary_span s = {0};

	PR_COPY(&s, i, link, epoch, first_sequence, segments, first_seq, last_seq, packets);
	PR_COPY(&s, i, first_otime, last_otime, min_time, max_time);
	return s;
}

static int
list(struct prm_summaries *s, struct prm_node_summaries *c,
	const Packrack__SummaryInfo *info)
{
	size_t gone = PRM_SUMMARIES_LISTED_MAX / 4;

	if (info->number < c->next)
		return 0; /* sent again, on a new connection */
	if (c->count >= PRM_SUMMARIES_LISTED_MAX) { /* drop the oldest quarter at once */
		for (size_t i = 0; i < gone; i++)
			c->forgotten_until =
				PR_MAX(c->forgotten_until, c->items[i].span.max_time);
		drop_first(s, c, gone);
	}
	if (PR_ARRAY_RESERVE(c->items, c->capacity, c->count + 1) < 0)
		return -1;
	struct prm_summary_entry *e = &c->items[c->count++];
	*e = (struct prm_summary_entry){.span = prm_summary_span(info)};
	PR_COPY(e, info, number, check, bytes, linktype);
	c->next = info->number + 1;
	s->figures.listed++;
	return 0;
}

static void
give_back(struct prm_summaries *s, struct prm_node_summaries *c, int64_t mono)
{
	if (s->ownership->count < 2 || mono - c->checked < PR_NS_PER_S)
		return;
	c->checked = mono;
	for (size_t i = 0; i < c->count && c->bodies; i++) {
		struct prm_summary_entry *h = &c->items[i];

		if (!h->body || is_owner(s->ownership, h->span.max_time))
			h->not_ours_since = 0;
		else if (!h->not_ours_since)
			h->not_ours_since = mono;
		else if (mono - h->not_ours_since > KEEP_NS)
			body_drop(s, c, h);
	}
}

int
prm_summaries_coverage(struct prm_summaries *s, const char *node,
	const Packrack__Coverage *said, int64_t mono, struct pr_error *err)
{
	struct prm_node_summaries *c = find_or_make(s, node);
	Packrack__Coverage few = *said, *copy;
	size_t bytes = packrack__coverage__get_packed_size(said), gone = 0;
	size_t left = PRM_SUMMARIES_COVERAGE_MAX;

	few.n_summaries = 0;
	copy = c ? pr_message_copy_within(&few.base, &left) : NULL;
	if (!copy)
		return pr_error_set(
			err, "no memory for the summaries of node %s, or too much", node);
	if (c->coverage && c->coverage->boot != said->boot) {
		drop_first(s, c, c->count);
		c->next = 0;
		c->forgotten_until = INT64_MIN;
	}
	packrack__coverage__free_unpacked(c->coverage, NULL);
	c->coverage = copy;
	c->heard = mono;
	c->bytes_coverage += bytes;
	s->figures.bytes_coverage += bytes;
	for (size_t i = 0; i < said->n_summaries; i++)
		if (list(s, c, said->summaries[i]) < 0) {
			prm_summaries_forget(s, node);
			return pr_error_set(
				err, "no memory for the summaries of node %s", node);
		}
	/*
	 * drop summaries of data that the node has overwritten; keep the last of them,
	 * which shows where the rest begins
	 */
	while (gone + 1 < c->count &&
		c->items[gone + 1].span.max_time <= c->coverage->evicted_until)
		gone++;
	if (gone > c->count / 4)
		drop_first(s, c, gone);
	give_back(s, c, mono);
	return 0;
}

void
prm_summaries_figures(const struct prm_summaries *s, struct prm_summaries_figures *out)
{
	*out = s->figures;
	out->clusters = prm_clusters_count(s->clusters);
	out->cluster_bytes = prm_clusters_bytes(s->clusters);
}

const struct prm_clusters *
prm_summaries_clusters(const struct prm_summaries *s)
{
	return s->clusters;
}

static struct prm_summary_entry *
find_in_node(const struct prm_node_summaries *c, uint64_t number)
{
	size_t at = PR_ARRAY_SEARCH(c->count, c->items[mid].number < number);

	return at < c->count && c->items[at].number == number ? &c->items[at] : NULL;
}

const struct prm_summary_entry *
prm_summaries_find_by_boot(const struct prm_summaries *s, uint64_t boot, uint64_t number,
	const struct prm_node_summaries **cover)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->nodes[i]->coverage->boot == boot) {
			*cover = s->nodes[i];
			return find_in_node(s->nodes[i], number);
		}
	return NULL;
}

/* ---- going ---- */

/* Drops the summaries with the oldest times, of all nodes, until there is room. */
static void
make_room(struct prm_summaries *s)
{
	while (s->figures.bytes > s->memory) {
		struct prm_node_summaries *from = NULL;
		struct prm_summary_entry *oldest = NULL;

		for (size_t i = 0; i < s->count; i++)
			for (size_t j = 0; j < s->nodes[i]->count; j++) {
				struct prm_summary_entry *h = &s->nodes[i]->items[j];

				if (h->body && (!oldest || h->span.max_time <
								   oldest->span.max_time)) {
					oldest = h;
					from = s->nodes[i];
				}
			}
		if (!oldest)
			return;
		s->floor = PR_MAX(s->floor, oldest->span.max_time);
		body_drop(s, from, oldest);
		s->figures.evicted++;
	}
}

/* ---- coming ---- */

void
prm_summaries_body(struct prm_summaries *s, const char *node, const Packrack__Summary *m)
{
	struct prm_node_summaries *c = prm_summaries_find(s, node);
	struct prm_summary_entry *h =
		c && c->coverage->boot == m->boot ? find_in_node(c, m->number) : NULL;
	size_t len = m->body.len, bytes = packrack__summary__get_packed_size(m);
	struct pr_summary opened;

	if (c) {
		c->bytes_bodies += bytes;
		s->figures.bytes_bodies += bytes;
	}
	if (!h || h->body || !h->wanted) {
		s->figures.refused++;
		return;
	}
	h->wanted = 0;
	const struct pr_summary_span *told = &h->span;
	const struct pr_summary_span *is = &opened.span;
	h->gone = pr_summary_open(&opened, m->body.data, len, NULL) < 0 ||
		  is->first_sequence != told->first_sequence ||
		  is->segments != told->segments ||
		  pr_stream_link(is->link) != told->link || is->epoch != told->epoch ||
		  is->min_time != told->min_time || is->max_time != told->max_time;
	if (h->gone) {
		s->figures.missed++;
		return;
	}
	h->body = malloc(len);
	if (!h->body)
		return;
	memcpy(h->body, m->body.data, len);
	h->bytes = len;
	c->bodies++;
	s->figures.bodies++;
	s->figures.received++;
	s->figures.bytes += len;
	h->slot = prm_clusters_add(s->clusters, c->coverage->cluster,
		interval_of(told->max_time), h->linktype, &opened);
	make_room(s);
}

/* ---- requests ---- */

size_t
prm_summaries_want(struct prm_summaries *s, const char *node, int64_t mono, uint64_t *boot,
	uint64_t numbers[PRM_SUMMARIES_WANT_MAX])
{
	struct prm_node_summaries *c = prm_summaries_find(s, node);
	size_t waiting = 0, count = 0;

	if (!c)
		return 0;
	if (s->figures.bytes < s->memory / 2)
		s->floor = INT64_MIN; /* there is room again */
	*boot = c->coverage->boot;
	for (size_t i = 0; i < c->count; i++)
		waiting += c->items[i].wanted && mono - c->items[i].wanted < AGAIN_NS;
	for (size_t i = c->count; i-- > 0 && waiting < PRM_SUMMARIES_WANT_MAX;) {
		struct prm_summary_entry *h = &c->items[i];

		if (h->body || h->gone || h->span.max_time <= s->floor ||
			!is_owner(s->ownership, h->span.max_time) ||
			(h->wanted && mono - h->wanted < AGAIN_NS))
			continue;
		h->wanted = mono;
		numbers[count++] = h->number;
		waiting++;
	}
	return count;
}
