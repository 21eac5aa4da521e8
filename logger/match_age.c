/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/match_private.h"
#include "logger/match_recent.h"

/* Entries whose frame does not come, and frames whose entry does not: when it is over, and what they are then. */

#define PATIENCE 3

/*
 * Many later frames have come: it is lost. Few: it may be that the switch holds it back, so it gets more time
 * although what follows it on the link has to wait.
 */
static bool
overdue(const struct prl_match *m, const struct slot *s, int64_t now)
{
	int64_t age = now - s->came;

	return age >= PATIENCE * m->o.expire_ns ||
	       (age >= m->o.expire_ns && m->above >= m->o.window);
}

/* An entry whose log came late waits for the surplus that frames alike leave further on. */
static bool
overtaken(const struct prl_match *m, const struct slot *s)
{
	return !s->behind && m->above >= 2 * (uint64_t)m->o.window;
}

void
match_expire(struct prl_match *m, int64_t now)
{
	for (match_oldest_move(m); m->oldest < m->top; match_oldest_move(m)) {
		uint64_t ordinal = m->oldest;
		struct slot *s = slot_at(m, ordinal);
		bool timed = overdue(m, s, now);

		if (!timed && !overtaken(m, s))
			return;
		/* Its frame may be queued behind one whose log is to come: another link's is not late. */
		if (timed || m->several)
			match_drain(m, true);
		if (s->state == SLOT_WAITING && !match_last_chance(m, s))
			match_lose(m, ordinal);
	}
}

void
match_held_done(struct prl_match *m, uint64_t arrival)
{
	held_at(m, arrival)->state = HELD_DONE;
	while (m->held_base < m->held_at && held_at(m, m->held_base)->state == HELD_DONE)
		m->held_base++;
}

void
match_leave(struct prl_match *m, uint64_t arrival, enum prl_match_fate fate)
{
	struct held *h = held_at(m, arrival);

	if (h->state == HELD_PARKED) {
		match_table_remove(&m->frames, h->f.fingerprint, arrival);
		m->parked--;
	}
	if (fate == PRL_MATCH_DUPLICATE)
		m->stats.duplicates++;
	else if (fate == PRL_MATCH_LATE)
		m->stats.late++;
	else
		m->stats.strays++;
	m->calls.leftover(m->calls.arg, &h->f, fate);
	match_held_done(m, arrival);
}

/* MARKs tell of all logs sent before them, 8 links to a frame; the switch may have reordered by a little. */
static bool
log_told(const struct prl_match *m, uint64_t arrival)
{
	return arrival + m->o.window < m->marked[0];
}

static bool
parked_over(const struct prl_match *m, const struct held *h, uint64_t arrival, int64_t now)
{
	int64_t age = now - h->came;

	if (age >= m->o.hold_ns)
		return true;
	/* A repeat needs no log, once all the logs are here that could be its own. */
	if (m->missing || !match_recent_has(m->recent, h->f.fingerprint, arrival))
		return false;
	if (m->several && !log_told(m, arrival))
		return false;
	return age >= 2 * m->o.expire_ns ||
	       (!m->several && m->front_arrival > arrival + 2 * (uint64_t)m->o.window);
}

/* A repeat whose own log may have been one that is gone is a stray. */
enum prl_match_fate
match_fate(const struct prl_match *m, uint64_t arrival)
{
	const struct held *h = held_at(m, arrival);

	if (m->missing == 0 && h->gone == (uint32_t)m->stats.logs_gone &&
		match_recent_has(m->recent, h->f.fingerprint, arrival))
		return PRL_MATCH_DUPLICATE;
	return match_recent_has(m->lost, h->f.fingerprint, arrival) ? PRL_MATCH_LATE
								    : PRL_MATCH_STRAY;
}

void
match_age_parked(struct prl_match *m, int64_t now, bool all)
{
	if (m->held_old < m->held_base)
		m->held_old = m->held_base;
	for (; m->held_old < m->held_at; m->held_old++) {
		struct held *h = held_at(m, m->held_old);

		if (h->state != HELD_PARKED)
			continue;
		if (!all && !parked_over(m, h, m->held_old, now))
			return;
		match_leave(m, m->held_old, match_fate(m, m->held_old));
	}
}
