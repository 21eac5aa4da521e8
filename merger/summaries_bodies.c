/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/summaries_internal.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"

#define AGAIN_NS INT64_C(5000000000) /* a summary that did not come is asked for again */
/* So long what is others' duty is kept: these have to get it first, or may be gone again. */
#define KEEP_NS (5 * PR_NS_PER_S)

/* ---- going ---- */

void
prm_summaries_drop(struct prm_summaries *s, struct prm_cover *c, struct prm_holding *h)
{
	if (!h->body)
		return;
	prm_clusters_remove(s->clusters, h->place);
	h->place = (struct prm_clusters_place){0};
	free(h->body);
	h->body = NULL;
	c->held--;
	s->figures.held--;
	s->figures.bytes -= h->bytes;
}

/* Drops those that speak of the oldest time, of all nodes, until there is room. */
static void
make_room(struct prm_summaries *s)
{
	while (s->figures.bytes > s->memory) {
		struct prm_cover *from = NULL;
		struct prm_holding *oldest = NULL;

		for (size_t i = 0; i < s->count; i++)
			for (size_t j = 0; j < s->covers[i]->count; j++) {
				struct prm_holding *h = &s->covers[i]->items[j];

				if (h->body && (!oldest || h->span.max_time <
								   oldest->span.max_time)) {
					oldest = h;
					from = s->covers[i];
				}
			}
		if (!oldest)
			return;
		if (oldest->span.max_time > s->floor)
			s->floor = oldest->span.max_time;
		prm_summaries_drop(s, from, oldest);
		s->figures.evicted++;
	}
}

void
prm_summaries_give_back(struct prm_summaries *s, struct prm_cover *c, int64_t mono)
{
	if (s->duty->count < 2 || mono - c->looked < PR_NS_PER_S)
		return;
	c->looked = mono;
	for (size_t i = 0; i < c->count && c->held; i++) {
		struct prm_holding *h = &c->items[i];

		if (!h->body || prm_duty_mine(s->duty, h->span.max_time))
			h->others_since = 0;
		else if (!h->others_since)
			h->others_since = mono;
		else if (mono - h->others_since > KEEP_NS)
			prm_summaries_drop(s, c, h);
	}
}

/* ---- coming ---- */

static bool
same_span(const struct pr_summary_span *a, const struct pr_summary_span *b)
{
	return a->first_sequence == b->first_sequence && a->segments == b->segments &&
	       a->link == b->link && a->epoch == b->epoch && a->min_time == b->min_time &&
	       a->max_time == b->max_time;
}

void
prm_summaries_body(struct prm_summaries *s, const char *node, const Packrack__Summary *m)
{
	struct prm_cover *c = prm_summaries_cover(s, node);
	struct prm_holding *h =
		c && c->said->boot == m->boot ? prm_summaries_number(c, m->number) : NULL;
	struct pr_summary opened;

	if (c) {
		c->bytes_sent += packrack__summary__get_packed_size(m);
		s->figures.bytes_sent += packrack__summary__get_packed_size(m);
	}
	if (!h || h->body || !h->wanted) {
		s->figures.refused++;
		return;
	}
	h->wanted = 0;
	h->gone = pr_summary_open(&opened, m->body.data, m->body.len, NULL) < 0 ||
		  !same_span(&opened.span, &h->span);
	if (h->gone) {
		s->figures.missed++;
		return;
	}
	h->body = malloc(m->body.len);
	if (!h->body)
		return;
	memcpy(h->body, m->body.data, m->body.len);
	h->bytes = (uint32_t)m->body.len;
	c->held++;
	s->figures.held++;
	s->figures.received++;
	s->figures.bytes += m->body.len;
	h->place = prm_clusters_add(
		s->clusters, c->said->cluster, h->span.max_time, h->linktype, &opened);
	make_room(s);
}

/* ---- what we ask for ---- */

static bool
wants(const struct prm_summaries *s, const struct prm_holding *h)
{
	return !h->body && !h->gone && h->span.max_time > s->floor &&
	       prm_duty_mine(s->duty, h->span.max_time);
}

size_t
prm_summaries_want(struct prm_summaries *s, const char *node, int64_t mono, uint64_t *boot,
	uint64_t numbers[PRM_SUMMARIES_WANT_MAX])
{
	struct prm_cover *c = prm_summaries_cover(s, node);
	size_t waiting = 0, count = 0;

	if (!c)
		return 0;
	if (s->figures.bytes < s->memory / 2)
		s->floor = INT64_MIN; /* there is room again */
	*boot = c->said->boot;
	for (size_t i = c->count; i-- > 0;) {
		if (c->items[i].wanted && mono - c->items[i].wanted < AGAIN_NS)
			waiting++;
	}
	for (size_t i = c->count; i-- > 0 && waiting < PRM_SUMMARIES_WANT_MAX;) {
		struct prm_holding *h = &c->items[i];

		if (!wants(s, h) || (h->wanted && mono - h->wanted < AGAIN_NS))
			continue;
		h->wanted = mono;
		numbers[count++] = h->number;
		waiting++;
	}
	return count;
}
