/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/route.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
prm_route_begin(struct prm_route *r, const struct prm_summaries *summaries,
	const Packrack__Query *query, int64_t mono)
{
	*r = (struct prm_route){.summaries = summaries, .query = query, .mono = mono};
	return prm_lookups_init(&r->lookups, query);
}

void
prm_route_end(struct prm_route *r)
{
	prm_lookups_free(&r->lookups);
	prm_clusters_asked_free(&r->clusters);
}

static bool
touches(const Packrack__Query *q, int64_t first, int64_t last)
{
	return last >= q->since && first <= q->until;
}

/* Why nothing can be said of the time range; NULL: all that is there is in summaries. */
static const char *
unknown(const struct prm_route *r, const struct prm_cover *c)
{
	const Packrack__Query *q = r->query;
	const Packrack__Coverage *said = c->said;

	if (r->mono - c->heard > PRM_SUMMARIES_LATE_NS)
		return "what it tells is late";
	if (said->text[0])
		return said->text;
	if (c->next != said->total)
		return "its summaries are being listed";
	if (said->settled_until != INT64_MAX && q->until >= said->settled_until)
		return "the time range is not over there yet";
	if (said->evicted_until != INT64_MIN && q->since <= said->evicted_until)
		return "data of the time range was recycled";
	if (c->forgotten_until != INT64_MIN && q->since <= c->forgotten_until)
		return "its summaries of that time are no longer listed";
	if (said->ledgers_until != INT64_MIN && q->since <= said->ledgers_until)
		return "it has more links than it tells of";
	for (size_t i = 0; i < said->n_losses; i++)
		if (touches(q, said->losses[i]->since, said->losses[i]->until))
			return "it lost packets of the time range";
	for (size_t i = 0; i < said->n_deleted; i++)
		if (touches(q, said->deleted[i]->since, said->deleted[i]->until))
			return "packets of the time range were deleted";
	for (size_t i = 0; i < said->n_open; i++)
		if (touches(q, said->open[i]->min_time, said->open[i]->max_time))
			return "data of the time range has no summary yet";
	return NULL;
}

static bool
holds_all(const struct pr_summary_span *s)
{
	return s->last_seq - s->first_seq + 1 == s->packets;
}

/* Another merger has it, and excludes a match. */
static bool
judged(const struct prm_route *r, const struct prm_cover *c, const struct prm_holding *h)
{
	const struct prm_verdicts *v = r->verdicts;

	for (size_t i = 0; v && i < v->count; i++)
		if (v->items[i].number == h->number && v->items[i].boot == c->said->boot)
			return holds_all(&h->span);
	return false;
}

/* Of a summary that touches the range: NULL when it excludes a match. */
static const char *
against(struct prm_route *r, const struct prm_cover *c, const struct prm_holding *h)
{
	struct pr_summary s;

	if (!h->body && judged(r, c, h)) {
		r->excluded++;
		return NULL;
	}
	if (!h->body && r->verdicts && r->verdicts->count)
		return "a summary at another merger may match, or is not there yet";
	if (!h->body)
		return h->gone ? "a summary is gone" : "a summary is not here yet";
	if (pr_summary_open_again(&s, h->body, h->bytes) < 0)
		return "a summary is damaged";
	if (!prm_clusters_exclude(prm_summaries_clusters(r->summaries), h->place,
		    &r->lookups, &r->clusters)) {
		r->tested++;
		if (prm_lookups_may(&r->lookups, h->linktype, s.bits, s.log2))
			return "its summaries may match";
	}
	if (s.no_runs && !holds_all(&h->span))
		return "a summary does not tell which packets it holds";
	r->excluded++;
	return NULL;
}

bool
prm_route_decide(struct prm_route *r, const char *node, char why[PRM_ROUTE_WHY_MAX])
{
	const struct prm_cover *c = prm_summaries_find(r->summaries, node);
	const char *reason = c ? NULL : "it has told of no summaries";
	size_t count = 0;

	if (r->query->strays)
		reason = "strays are asked for";
	if (r->query->related) /* what belongs to a match need have nothing of it */
		reason = "related packets are asked for";
	if (!reason)
		reason = unknown(r, c);
	for (size_t i = c ? c->count : 0; !reason && i-- > 0;)
		if (touches(r->query, c->items[i].span.min_time,
			    c->items[i].span.max_time)) {
			reason = against(r, c, &c->items[i]);
			count++;
		}
	r->asked += reason != NULL;
	r->left_out += !reason;
	if (reason)
		snprintf(why, PRM_ROUTE_WHY_MAX, "%s", reason);
	else if (count)
		snprintf(why, PRM_ROUTE_WHY_MAX, "%zu summaries exclude a match", count);
	else
		snprintf(why, PRM_ROUTE_WHY_MAX, "it has nothing of that time");
	return !reason;
}

/* ---- between mergers ---- */

void
prm_verdicts_add(struct prm_verdicts *v, uint64_t boot, uint64_t number)
{
	size_t room = v->room ? 2 * v->room : 64;
	struct prm_verdict *grown;

	if (v->count == PRM_VERDICTS_MAX)
		return;
	if (v->count == v->room) {
		grown = reallocarray(v->items, room, sizeof(*grown));
		if (!grown)
			return; /* its node is asked */
		v->items = grown;
		v->room = room;
	}
	v->items[v->count++] = (struct prm_verdict){boot, number};
}

void
prm_verdicts_free(struct prm_verdicts *v)
{
	free(v->items);
	*v = (struct prm_verdicts){0};
}

size_t
prm_route_lacks(struct prm_route *r, const char *node, size_t max,
	void (*call)(void *arg, int64_t time, uint64_t boot, uint64_t number), void *arg)
{
	const struct prm_cover *c = prm_summaries_find(r->summaries, node);
	size_t count = 0;

	if (!c || r->query->strays || r->query->related || unknown(r, c))
		return 0;
	for (size_t i = c->count; i-- > 0 && count < max;) {
		const struct prm_holding *h = &c->items[i];

		if (h->body || !holds_all(&h->span) ||
			!touches(r->query, h->span.min_time, h->span.max_time))
			continue;
		call(arg, h->span.max_time, c->said->boot, h->number);
		count++;
	}
	return count;
}

bool
prm_route_excludes(struct prm_route *r, uint64_t boot, uint64_t number)
{
	const struct prm_cover *c;
	const struct prm_holding *h =
		prm_summaries_numbered(r->summaries, boot, number, &c);

	return h && h->body && !against(r, c, h);
}
