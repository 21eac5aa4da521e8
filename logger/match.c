/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/match.h"

#include <stdlib.h>

#include "logger/match_private.h"
#include "proto/base/clock.h"

#define ROOM_FIRST 4096
#define ROOM_DEFAULT 65536
/* A dispatcher sends MARKs twice as far apart, each in one or several frames at once. */
#define MARKS_APART (50 * PR_NS_PER_MS)

void
prl_match_defaults(struct prl_match_options *o)
{
	*o = (struct prl_match_options){
		.window = PRL_MATCH_WINDOW_DEFAULT,
		.room = ROOM_DEFAULT,
		.hold_ns = 2 * PR_NS_PER_S,
		.grace_ns = 20 * PR_NS_PER_MS,
		.resend_ns = 100 * PR_NS_PER_MS,
		.expire_ns = 100 * PR_NS_PER_MS,
	};
}

static bool
rings_create(struct prl_match *m)
{
	m->slot_room = m->held_room = ROOM_FIRST;
	m->slots = calloc(m->slot_room, sizeof(*m->slots));
	m->held = calloc(m->held_room, sizeof(*m->held));
	m->recent = calloc((size_t)RECENT_SETS * RECENT_WAYS, sizeof(*m->recent));
	m->lost = calloc((size_t)RECENT_SETS * RECENT_WAYS, sizeof(*m->lost));
	if (!m->slots || !m->held || !m->recent || !m->lost ||
		!match_table_init(&m->entries, sizeof(struct slot)) ||
		!match_table_init(&m->frames, sizeof(struct held)))
		return false;
	m->entries.items = (uint8_t *)m->slots;
	m->entries.mask = m->slot_room - 1;
	m->frames.items = (uint8_t *)m->held;
	m->frames.mask = m->held_room - 1;
	/* Arrival 0 would look like an empty place among the recent. */
	m->held_base = m->held_at = m->held_top = 1;
	return true;
}

struct prl_match *
prl_match_create(const struct prl_match_options *options,
	const struct prl_match_calls *calls, struct pr_error *err)
{
	struct prl_match *m = calloc(1, sizeof(*m));

	if (!m || !rings_create(m)) {
		pr_error_set(err, "no memory for matching frames");
		prl_match_destroy(&m);
		return NULL;
	}
	m->o = *options;
	m->calls = *calls;
	if (m->o.window < PRL_MATCH_WINDOW_MIN)
		m->o.window = PRL_MATCH_WINDOW_MIN;
	if (m->o.window > PRL_MATCH_WINDOW_MAX)
		m->o.window = PRL_MATCH_WINDOW_MAX;
	if (m->o.room < 2 * ROOM_FIRST)
		m->o.room = 2 * ROOM_FIRST;
	return m;
}

void
prl_match_destroy(struct prl_match **match)
{
	struct prl_match *m = *match;

	if (!m)
		return;
	match_links_destroy(m);
	free(m->slots);
	free(m->held);
	free(m->recent);
	free(m->lost);
	free(m->entries.buckets);
	free(m->frames.buckets);
	free(m->scratch);
	free(m);
	*match = NULL;
}

static bool
held_grow(struct prl_match *m)
{
	uint64_t room = 2 * m->held_room;
	struct held *held;

	if (room > m->o.room || !(held = calloc(room, sizeof(*held))))
		return false;
	for (uint64_t n = m->held_base; n < m->held_top; n++)
		held[n & (room - 1)] = *held_at(m, n);
	free(m->held);
	m->held = held;
	m->held_room = room;
	m->frames.items = (uint8_t *)held;
	m->frames.mask = room - 1;
	return true;
}

/* Gives up what the oldest frame is held for, and what is ready for giving out then. */
void
prl_match_relieve(struct prl_match *m)
{
	struct held *h = held_at(m, m->held_base);

	if (m->held_base == m->held_top)
		return;
	if (h->state == HELD_QUEUED)
		match_drain(m, true);
	if (h->state == HELD_PARKED)
		match_leave(m, m->held_base, match_fate(m, m->held_base));
	if (h->state != HELD_MATCHED)
		return;
	match_lose_until(m, h->ordinal);
	match_links_give_up(m);
	if (h->state == HELD_MATCHED) /* logs whose ordinals go backwards */
		match_lose_until(m, m->top);
	match_links_give(m);
}

void
prl_match_frame(struct prl_match *m, const struct prl_match_frame *frame, int64_t now)
{
	struct held *h;

	while (m->held_top - m->held_base >= m->held_room && !held_grow(m))
		prl_match_relieve(m);
	h = held_at(m, m->held_top++);
	*h = (struct held){.f = *frame, .came = now, .state = HELD_QUEUED};
	match_started(m, now);
	m->stats.frames++;
}

void
prl_match_run(struct prl_match *m, int64_t now)
{
	match_drain(m, false);
	match_links_give(m);
	match_base_move(m, now);
}

bool
prl_match_given(struct prl_match *m, uint16_t id, uint64_t number)
{
	struct link *link = match_link(m, id, false);

	if (number == 0)
		return true;
	if (!link || link->out <= number)
		return false;
	match_loss_flush(m, link); /* the last of them may still be put together */
	return true;
}

void
prl_match_mark(struct prl_match *m, uint16_t id, uint64_t last_log, int64_t now)
{
	struct link *link = match_link(m, id, true);

	if (link)
		match_log_expect(m, link, last_log, now);
}

void
prl_match_sent(struct prl_match *m, uint64_t ordinal, int64_t now)
{
	if (ordinal != m->told) {
		m->told = ordinal;
		m->told_since = now;
	}
	if (now - m->marked_at >= MARKS_APART) { /* not another frame of the same MARK */
		m->marked_at = now;
		m->marked[0] = m->marked[1];
		m->marked[1] = m->held_top;
	}
}

/* The last logs are gone and no other follows: what they told of will not be known. */
static void
reach_told(struct prl_match *m, int64_t now)
{
	if (m->told <= m->top || now - m->told_since < m->o.hold_ns ||
		!prl_match_settled(m))
		return;
	m->base = m->front = m->oldest = m->top = m->hashed = m->told;
}

void
prl_match_tick(struct prl_match *m, int64_t now)
{
	match_drain(m, false);
	match_expire(m, now);
	match_links_ask(m, now);
	match_links_give(m);
	match_base_move(m, now);
	match_age_parked(m, now, false);
	reach_told(m, now);
	for (size_t i = 0; i < m->link_count; i++)
		match_loss_flush(m, &m->links[i]);
}

bool
prl_match_settled(const struct prl_match *m)
{
	for (size_t i = 0; i < m->link_count; i++) {
		if (m->links[i].out != m->links[i].next)
			return false;
	}
	return m->missing == 0 && m->waiting == 0;
}

uint64_t
prl_match_ordinal(const struct prl_match *m)
{
	return m->base;
}

void
prl_match_drop_leftovers(struct prl_match *m)
{
	match_drain(m, true);
	match_links_give(m);
	match_age_parked(m, PR_TIME_MAX / 2, true);
}

void
prl_match_finish(struct prl_match *m)
{
	match_drain(m, true);
	match_lose_until(m, m->top);
	match_links_give_up(m);
	prl_match_drop_leftovers(m);
	for (size_t i = 0; i < m->link_count; i++)
		match_loss_flush(m, &m->links[i]);
	m->base = m->top;
}

struct prl_match_frame *
prl_match_oldest(struct prl_match *m)
{
	if (m->held_ring < m->held_base)
		m->held_ring = m->held_base;
	for (; m->held_ring < m->held_top; m->held_ring++) {
		struct held *h = held_at(m, m->held_ring);

		if (h->state != HELD_DONE && !h->f.moved)
			return &h->f;
	}
	return NULL;
}

bool
prl_match_parked_oldest(const struct prl_match *m)
{
	return m->held_ring < m->held_top && held_at(m, m->held_ring)->state == HELD_PARKED;
}

void
prl_match_get_stats(const struct prl_match *m, struct prl_match_stats *out)
{
	*out = m->stats;
	out->pending_entries = m->waiting;
	out->pending_frames = m->held_top - m->held_at + m->parked;
}
