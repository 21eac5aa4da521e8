/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/match.h"

#include <stdlib.h>
#include <string.h>

#include "logger/match_private.h"
#include "proto/base/clock.h"

#define ROOM_FIRST 4096
#define ROOM_DEFAULT 65536
/* Entries that were given out stay readable for so long: losses look back for alike ones. */
#define HISTORY 2048
/* A dispatcher sends MARKs twice as far apart, each in one or several frames at once. */
#define MARKS_APART (50 * PR_NS_PER_MS)

void
pr_match_defaults(struct pr_match_options *o)
{
	*o = (struct pr_match_options){
		.window = PR_MATCH_WINDOW_DEFAULT,
		.room = ROOM_DEFAULT,
		.hold_ns = 2 * PR_NS_PER_S,
		.grace_ns = 20 * PR_NS_PER_MS,
		.resend_ns = 100 * PR_NS_PER_MS,
		.expire_ns = 100 * PR_NS_PER_MS,
	};
}

static bool
rings_create(struct pr_match *m)
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

struct pr_match *
pr_match_create(const struct pr_match_options *options, const struct pr_match_calls *calls,
	struct pr_error *err)
{
	struct pr_match *m = calloc(1, sizeof(*m));

	if (!m || !rings_create(m)) {
		pr_error_set(err, "no memory for matching frames");
		pr_match_destroy(&m);
		return NULL;
	}
	m->o = *options;
	m->calls = *calls;
	if (m->o.window < PR_MATCH_WINDOW_MIN)
		m->o.window = PR_MATCH_WINDOW_MIN;
	if (m->o.window > PR_MATCH_WINDOW_MAX)
		m->o.window = PR_MATCH_WINDOW_MAX;
	if (m->o.room < 2 * ROOM_FIRST)
		m->o.room = 2 * ROOM_FIRST;
	return m;
}

void
pr_match_destroy(struct pr_match **match)
{
	struct pr_match *m = *match;

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
held_grow(struct pr_match *m)
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

static bool
slots_grow(struct pr_match *m)
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

/* Waiting begins with the first frame or log, not with the clock's zero. */
static void
match_started(struct pr_match *m, int64_t now)
{
	if (m->base_since == 0)
		m->base_since = now;
}

/* Gives up what the oldest frame is held for, and what is ready for giving out then. */
void
pr_match_relieve(struct pr_match *m)
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
pr_match_frame(struct pr_match *m, const struct pr_match_frame *frame, int64_t now)
{
	struct held *h;

	while (m->held_top - m->held_base >= m->held_room && !held_grow(m))
		pr_match_relieve(m);
	h = held_at(m, m->held_top++);
	*h = (struct held){.f = *frame, .came = now, .state = HELD_QUEUED};
	match_started(m, now);
	m->stats.frames++;
}

void
pr_match_run(struct pr_match *m, int64_t now)
{
	match_drain(m, false);
	match_links_give(m);
	match_base_move(m, now);
}

static bool
scratch_load(struct pr_match *m, struct pr_tslog_reader *r)
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
slots_ready(struct pr_match *m, uint64_t first, uint64_t last, int64_t now)
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
slots_free(const struct pr_match *m, uint16_t count)
{
	for (uint16_t i = 0; i < count; i++) {
		if (slot_at(m, m->scratch[i].ordinal)->state != SLOT_UNKNOWN)
			return false;
	}
	return true;
}

static void
entries_add(struct pr_match *m, struct link *link, struct log *log, int64_t now)
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
log_refuse(struct pr_match *m, struct log *log)
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
log_take(struct pr_match *m, struct link *link, struct log *log, int64_t now)
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
pr_match_tslog(struct pr_match *m, const void *body, size_t len, int64_t now)
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
	pr_match_run(m, now);
	return 0;
}

void
pr_match_gone(struct pr_match *m, const struct pr_gone *gone, int64_t now)
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
	pr_match_run(m, now);
}

bool
pr_match_given(struct pr_match *m, uint16_t id, uint64_t number)
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
pr_match_mark(struct pr_match *m, uint16_t id, uint64_t last_log, int64_t now)
{
	struct link *link = match_link(m, id, true);

	if (link)
		match_log_expect(m, link, last_log, now);
}

void
pr_match_sent(struct pr_match *m, uint64_t ordinal, int64_t now)
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
reach_told(struct pr_match *m, int64_t now)
{
	if (m->told <= m->top || now - m->told_since < m->o.hold_ns || !pr_match_settled(m))
		return;
	m->base = m->front = m->oldest = m->top = m->hashed = m->told;
}

void
pr_match_tick(struct pr_match *m, int64_t now)
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
pr_match_settled(const struct pr_match *m)
{
	for (size_t i = 0; i < m->link_count; i++) {
		if (m->links[i].out != m->links[i].next)
			return false;
	}
	return m->missing == 0 && m->waiting == 0;
}

uint64_t
pr_match_ordinal(const struct pr_match *m)
{
	return m->base;
}

void
pr_match_drop_leftovers(struct pr_match *m)
{
	match_drain(m, true);
	match_links_give(m);
	match_age_parked(m, PR_TIME_MAX / 2, true);
}

void
pr_match_finish(struct pr_match *m)
{
	match_drain(m, true);
	match_lose_until(m, m->top);
	match_links_give_up(m);
	pr_match_drop_leftovers(m);
	for (size_t i = 0; i < m->link_count; i++)
		match_loss_flush(m, &m->links[i]);
	m->base = m->top;
}

struct pr_match_frame *
pr_match_oldest(struct pr_match *m)
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
pr_match_parked_oldest(const struct pr_match *m)
{
	return m->held_ring < m->held_top && held_at(m, m->held_ring)->state == HELD_PARKED;
}

void
pr_match_get_stats(const struct pr_match *m, struct pr_match_stats *out)
{
	*out = m->stats;
	out->pending_entries = m->waiting;
	out->pending_frames = m->held_top - m->held_at + m->parked;
}
