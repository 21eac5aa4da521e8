/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/match_private.h"

#include <stdlib.h>

/* Timestamp logs as they come, and those that will not come: room for their entries, and the entries in it. */

/* Entries that were given out stay readable for so long: losses look back for alike ones. */
#define HISTORY 2048

static bool
slots_grow(struct prl_match *m)
{
	uint64_t room = 2 * m->slot_room;
	uint64_t from = m->top > m->slot_room ? m->top - m->slot_room : 0;
	struct slot *slots;

	if (room > m->o.room || !(slots = calloc(room, sizeof(*slots))))
		return false;
	for (uint64_t o = from; o < m->top; o++)
		slots[o & (room - 1)] = *slot_at(m, o);
	free(m->slots);
	m->slots = slots;
	m->slot_room = room;
	m->entries.items = (uint8_t *)slots;
	m->entries.mask = room - 1;
	return true;
}

static bool
scratch_load(struct prl_match *m, struct pr_tslog_reader *r)
{
	uint16_t n = r->header.count;

	if (n > m->scratch_room) {
		struct pr_entry *room = realloc(m->scratch, n * sizeof(*room));

		if (!room)
			return false;
		m->scratch = room;
		m->scratch_room = n;
	}
	for (uint16_t i = 0; i < n; i++) {
		if (pr_tslog_next(r, &m->scratch[i]) != 1)
			return false;
	}
	return n > 0;
}

/* The range of ordinals has room; entries that have it are in nobody's way. */
static bool
slots_ready(struct prl_match *m, uint64_t first, uint64_t last, int64_t now)
{
	if (first < m->base || last < first || last - first >= m->o.room / 2)
		return false;
	while (last + HISTORY - m->base >= m->slot_room && slots_grow(m))
		;
	if (last - m->base >= m->slot_room) {
		/* A gap too wide to wait for: the past is settled as it stands. */
		match_lose_until(m, m->top);
		match_links_give_up(m);
		m->base_since = now - m->o.hold_ns;
		match_base_move(m, now);
	}
	if (last - m->base >= m->slot_room && m->base == m->top && first > m->top) {
		m->base = m->front = m->oldest = m->top = m->hashed = first;
	}
	for (; m->top <= last && last - m->base < m->slot_room; m->top++)
		*slot_at(m, m->top) = (struct slot){.state = SLOT_UNKNOWN};
	return last < m->top;
}

static bool
slots_free(const struct prl_match *m, uint16_t count)
{
	for (uint16_t i = 0; i < count; i++) {
		if (slot_at(m, m->scratch[i].ordinal)->state != SLOT_UNKNOWN)
			return false;
	}
	return true;
}

static void
entries_add(struct prl_match *m, struct link *link, struct log *log, int64_t now)
{
	const struct pr_entry *e = m->scratch;
	bool late = log->asked || !m->several;

	match_entries_begin(m, log->first_ordinal, log->last_ordinal);
	for (uint32_t i = 0; i < log->count; i++) {
		struct slot *s = slot_at(m, e[i].ordinal);

		s->e = e[i];
		s->came = now;
		s->step = i + 1 < log->count ? (uint32_t)(e[i + 1].ordinal - e[i].ordinal)
					     : 0;
		s->link = (uint16_t)(link - m->links);
		s->state = SLOT_WAITING;
		s->hashed = s->framed = s->counted = false;
		s->behind = late && e[i].ordinal < m->front;
		match_entry_added(m, e[i].ordinal);
	}
}

/* A log whose entries cannot be placed is as good as gone; its losses are told. */
static void
log_refuse(struct prl_match *m, struct log *log)
{
	m->stats.logs_bad++;
	log->gone_first = log->first_seq;
	log->gone_last = m->scratch[log->count - 1].seq;
	log->gone_first_time = m->scratch[0].otime;
	log->gone_last_time = m->scratch[log->count - 1].otime;
	log->gone_count = log->count;
	log->state = LOG_GONE;
	m->stats.logs_gone++;
}

static void
log_take(struct prl_match *m, struct link *link, struct log *log, int64_t now)
{
	uint64_t first = m->scratch[0].ordinal, last = m->scratch[log->count - 1].ordinal;

	log->first_seq = m->scratch[0].seq;
	log->base_time = m->scratch[0].otime;
	log->first_ordinal = first;
	log->last_ordinal = last;
	log->state = LOG_TAKING;
	m->missing--;
	if (!slots_ready(m, first, last, now) || !slots_free(m, (uint16_t)log->count)) {
		log_refuse(m, log);
		return;
	}
	log->state = LOG_PRESENT;
	entries_add(m, link, log, now);
}

int
prl_match_tslog(struct prl_match *m, const void *body, size_t len, int64_t now)
{
	struct pr_tslog_reader r;
	struct link *link;
	struct log *log;
	uint16_t count;

	if (pr_tslog_open(&r, body, len) || r.header.number == 0) {
		m->stats.logs_bad++;
		return -1;
	}
	count = r.header.count;
	link = match_link(m, r.header.link, true);
	if (!link || !scratch_load(m, &r)) {
		m->stats.logs_bad++;
		return -1;
	}
	match_started(m, now);
	m->stats.logs++;
	m->several |= (r.header.flags & PR_TSLOG_INTERLEAVED) || m->link_count > 1;
	if (r.header.number < link->out ||
		(r.header.number < link->next &&
			match_log(link, r.header.number)->state != LOG_MISSING)) {
		m->stats.logs_repeated++;
		return 0;
	}
	if (!match_log_expect(m, link, r.header.number, now)) {
		m->stats.logs_bad++;
		return -1;
	}
	log = match_log(link, r.header.number);
	log->count = count;
	log_take(m, link, log, now);
	prl_match_run(m, now);
	return 0;
}

void
prl_match_gone(struct prl_match *m, const struct pr_gone *gone, int64_t now)
{
	struct link *link = match_link(m, gone->link, false);
	bool told = false;

	if (!link)
		return;
	for (uint64_t n = gone->first_log; n <= gone->last_log && n < link->next; n++) {
		struct log *log = match_log(link, n);

		if (n < link->out || log->state != LOG_MISSING)
			continue;
		/* What GONE says is of all its logs together: it is told once. */
		if (!told) {
			log->gone_first = gone->first_seq;
			log->gone_last = gone->last_seq;
			log->gone_first_time = gone->first_time;
			log->gone_last_time = gone->last_time;
			log->gone_count = gone->count;
		}
		log->told = told && gone->first_seq;
		told = true;
		match_log_gone(m, log);
	}
	prl_match_run(m, now);
}
