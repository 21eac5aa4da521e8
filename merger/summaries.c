/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/summaries_internal.h"

#include <stdlib.h>
#include <string.h>

#define CLUSTERS_SHARE 4 /* of memory goes to the third level */

struct prm_summaries *
prm_summaries_create(uint64_t memory, const struct prm_duty *duty, struct pr_error *err)
{
	struct prm_summaries *s = calloc(1, sizeof(*s));

	memory = memory ? memory : PRM_SUMMARIES_MEMORY_DEFAULT;
	if (s)
		s->clusters = prm_clusters_create(memory / CLUSTERS_SHARE);
	if (!s || !s->clusters) {
		free(s);
		pr_error_set(err, "no memory for summaries");
		return NULL;
	}
	s->memory = memory - memory / CLUSTERS_SHARE;
	s->duty = duty;
	s->floor = INT64_MIN;
	return s;
}

static void
clear(struct prm_summaries *s, struct prm_cover *c)
{
	for (size_t i = 0; i < c->count; i++)
		prm_summaries_drop(s, c, &c->items[i]);
	s->figures.listed -= c->count;
	c->count = 0;
	c->next = 0;
	c->forgotten_until = INT64_MIN;
}

static void
cover_free(struct prm_summaries *s, struct prm_cover *c)
{
	clear(s, c);
	if (c->said)
		packrack__coverage__free_unpacked(c->said, NULL);
	free(c->items);
	free(c->name);
	free(c);
}

void
prm_summaries_destroy(struct prm_summaries **sp)
{
	struct prm_summaries *s = *sp;

	*sp = NULL;
	if (!s)
		return;
	for (size_t i = 0; i < s->count; i++)
		cover_free(s, s->covers[i]);
	free(s->covers);
	prm_clusters_destroy(&s->clusters);
	free(s);
}

/* ---- nodes ---- */

struct prm_cover *
prm_summaries_cover(const struct prm_summaries *s, const char *node)
{
	for (size_t i = 0; i < s->count; i++)
		if (!strcmp(s->covers[i]->name, node))
			return s->covers[i];
	return NULL;
}

const struct prm_cover *
prm_summaries_find(const struct prm_summaries *s, const char *node)
{
	return prm_summaries_cover(s, node);
}

const char *
prm_summaries_name(const struct prm_summaries *s, size_t at)
{
	return at < s->count ? s->covers[at]->name : NULL;
}

void
prm_summaries_forget(struct prm_summaries *s, const char *node)
{
	for (size_t i = 0; i < s->count; i++)
		if (!strcmp(s->covers[i]->name, node)) {
			cover_free(s, s->covers[i]);
			s->covers[i] = s->covers[--s->count];
			return;
		}
}

static struct prm_cover *
find_or_make(struct prm_summaries *s, const char *node)
{
	struct prm_cover **grown, *c = prm_summaries_cover(s, node);

	if (c)
		return c;
	grown = reallocarray(s->covers, s->count + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	s->covers = grown;
	c = calloc(1, sizeof(*c));
	if (c)
		c->name = strdup(node);
	if (!c || !c->name) {
		free(c);
		return NULL;
	}
	c->forgotten_until = INT64_MIN;
	s->covers[s->count++] = c;
	return c;
}

/* ---- what nodes say ---- */

static void
span_of(struct pr_summary_span *out, const Packrack__SummaryInfo *i)
{
	*out = (struct pr_summary_span){.first_sequence = i->first_sequence,
		.segments = i->segments,
		.link = (uint16_t)i->link,
		.epoch = i->epoch,
		.first_seq = i->first_seq,
		.last_seq = i->last_seq,
		.packets = i->packets,
		.first_otime = i->first_otime,
		.last_otime = i->last_otime,
		.min_time = i->min_time,
		.max_time = i->max_time};
}

static void
drop_first(struct prm_summaries *s, struct prm_cover *c, size_t gone)
{
	for (size_t i = 0; i < gone; i++)
		prm_summaries_drop(s, c, &c->items[i]);
	s->figures.listed -= gone;
	c->count -= gone;
	memmove(c->items, c->items + gone, c->count * sizeof(*c->items));
}

/* The oldest quarter goes at once. */
static void
bound_list(struct prm_summaries *s, struct prm_cover *c)
{
	size_t gone = PRM_SUMMARIES_LISTED_MAX / 4;

	if (c->count < PRM_SUMMARIES_LISTED_MAX)
		return;
	for (size_t i = 0; i < gone; i++)
		if (c->items[i].span.max_time > c->forgotten_until)
			c->forgotten_until = c->items[i].span.max_time;
	drop_first(s, c, gone);
}

/* What was recycled at the node is of no use, but that the last of it says where the rest begins. */
static void
expire(struct prm_summaries *s, struct prm_cover *c)
{
	size_t gone = 0;

	while (gone + 1 < c->count &&
		c->items[gone + 1].span.max_time <= c->said->evicted_until)
		gone++;
	if (gone > c->count / 4)
		drop_first(s, c, gone);
}

static int
list(struct prm_summaries *s, struct prm_cover *c, const Packrack__SummaryInfo *info)
{
	struct prm_holding *grown;
	size_t room = c->room ? c->room * 2 : 64;

	if (info->number < c->next)
		return 0; /* told again, on a new connection */
	bound_list(s, c);
	if (c->count == c->room) {
		grown = reallocarray(c->items, room, sizeof(*grown));
		if (!grown)
			return -1;
		c->items = grown;
		c->room = room;
	}
	c->items[c->count] = (struct prm_holding){.number = info->number,
		.check = info->check,
		.bytes = info->bytes,
		.linktype = info->linktype};
	span_of(&c->items[c->count++].span, info);
	c->next = info->number + 1;
	s->figures.listed++;
	return 0;
}

static Packrack__Coverage *
copy_of(const Packrack__Coverage *said)
{
	Packrack__Coverage few = *said, *copy;
	uint8_t *buf;
	size_t len;

	few.n_summaries = 0;
	len = packrack__coverage__get_packed_size(&few);
	buf = malloc(len ? len : 1);
	if (!buf)
		return NULL;
	packrack__coverage__pack(&few, buf);
	copy = packrack__coverage__unpack(NULL, len, buf);
	free(buf);
	return copy;
}

int
prm_summaries_coverage(struct prm_summaries *s, const char *node,
	const Packrack__Coverage *said, int64_t mono, struct pr_error *err)
{
	struct prm_cover *c = find_or_make(s, node);
	Packrack__Coverage *copy = c ? copy_of(said) : NULL;
	size_t bytes;

	if (!copy)
		return pr_error_set(err, "no memory for the summaries of node %s", node);
	if (c->said && c->said->boot != said->boot)
		clear(s, c);
	if (c->said)
		packrack__coverage__free_unpacked(c->said, NULL);
	c->said = copy;
	c->heard = mono;
	bytes = packrack__coverage__get_packed_size(said);
	c->bytes_told += bytes;
	s->figures.bytes_told += bytes;
	for (size_t i = 0; i < said->n_summaries; i++)
		if (list(s, c, said->summaries[i]) < 0) {
			prm_summaries_forget(s, node);
			return pr_error_set(
				err, "no memory for the summaries of node %s", node);
		}
	expire(s, c);
	prm_summaries_give_back(s, c, mono);
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

struct prm_holding *
prm_summaries_number(const struct prm_cover *c, uint64_t number)
{
	size_t low = 0, high = c->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (c->items[mid].number < number)
			low = mid + 1;
		else
			high = mid;
	}
	return low < c->count && c->items[low].number == number ? &c->items[low] : NULL;
}

const struct prm_holding *
prm_summaries_numbered(const struct prm_summaries *s, uint64_t boot, uint64_t number,
	const struct prm_cover **cover)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->covers[i]->said->boot == boot) {
			*cover = s->covers[i];
			return prm_summaries_number(s->covers[i], number);
		}
	return NULL;
}
