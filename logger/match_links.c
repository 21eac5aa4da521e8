/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "logger/match_private.h"

#define LOG_ROOM_FIRST 64
#define LOG_ROOM_MAX 65536

struct link *
match_link(struct prl_match *m, uint16_t id, bool make)
{
	struct link *links, *link;

	for (size_t i = 0; i < m->link_count; i++) {
		if (m->links[i].id == id)
			return &m->links[i];
	}
	if (!make || m->link_count == PRL_MATCH_LINKS_MAX)
		return NULL;
	links = realloc(m->links, (m->link_count + 1) * sizeof(*links));
	if (!links)
		return NULL;
	m->links = links;
	link = &links[m->link_count];
	*link = (struct link){.id = id, .out = 1, .next = 1, .log_room = LOG_ROOM_FIRST};
	link->logs = calloc(link->log_room, sizeof(*link->logs));
	if (!link->logs)
		return NULL;
	m->link_count++;
	return link;
}

void
match_links_destroy(struct prl_match *m)
{
	for (size_t i = 0; i < m->link_count; i++)
		free(m->links[i].logs);
	free(m->links);
}

struct log *
match_log(struct link *link, uint64_t number)
{
	return &link->logs[number & (link->log_room - 1)];
}

static bool
logs_grow(struct link *link, uint64_t last)
{
	uint64_t room = link->log_room;
	struct log *logs;

	while (last - link->out >= room) {
		if (room == LOG_ROOM_MAX)
			return false;
		room *= 2;
	}
	if (room == link->log_room)
		return true;
	logs = calloc(room, sizeof(*logs));
	if (!logs)
		return false;
	for (uint64_t n = link->out; n < link->next; n++)
		logs[n & (room - 1)] = *match_log(link, n);
	free(link->logs);
	link->logs = logs;
	link->log_room = room;
	return true;
}

/* Logs up to `last` exist. false: that is absurdly far ahead. */
bool
match_log_expect(struct prl_match *m, struct link *link, uint64_t last, int64_t now)
{
	if (last < link->next)
		return true;
	if (last - link->out >= LOG_ROOM_MAX / 2) {
		match_links_give_up(m);
		if (last - link->out >= LOG_ROOM_MAX / 2)
			return false;
	}
	if (!logs_grow(link, last))
		return false;
	for (; link->next <= last; link->next++) {
		*match_log(link, link->next) =
			(struct log){.state = LOG_MISSING, .missing_since = now};
		m->missing++;
	}
	return true;
}

void
match_log_gone(struct prl_match *m, struct log *log)
{
	log->state = LOG_GONE;
	m->missing--;
	m->stats.logs_gone++;
}

static bool
log_due(const struct prl_match *m, const struct log *log, int64_t now)
{
	if (log->state != LOG_MISSING)
		return false;
	if (!log->asked)
		return now - log->missing_since >= m->o.grace_ns;
	return now - log->asked >= m->o.resend_ns;
}

static void
link_ask(struct prl_match *m, struct link *link, int64_t now)
{
	struct pr_resend ask = {.link = link->id};

	for (uint64_t n = link->out; n < link->next; n++) {
		struct log *log = match_log(link, n);

		if (log->state == LOG_MISSING && now - log->missing_since >= m->o.hold_ns)
			match_log_gone(m, log);
		if (!log_due(m, log, now))
			continue;
		if (ask.first_log && ask.last_log + 1 != n) {
			m->calls.resend(m->calls.arg, &ask);
			ask.first_log = 0;
		}
		if (!ask.first_log)
			ask.first_log = n;
		ask.last_log = n;
		log->asked = now;
		m->stats.logs_requested++;
	}
	if (ask.first_log)
		m->calls.resend(m->calls.arg, &ask);
}

void
match_links_ask(struct prl_match *m, int64_t now)
{
	for (size_t i = 0; m->missing && i < m->link_count; i++)
		link_ask(m, &m->links[i], now);
}

static void
give_matched(struct prl_match *m, struct link *link, struct slot *s)
{
	struct held *h = held_at(m, s->frame);

	match_loss_passed(m, link, s);
	m->calls.packet(m->calls.arg, link->id, &s->e, &h->f, h->sent_len);
	match_held_done(m, s->frame);
}

/* Gives out what stands ready of the log under the cursor. True: all of it. */
static bool
give_log(struct prl_match *m, struct link *link, const struct log *log)
{
	if (!link->started) {
		link->started = true;
		link->cursor = log->first_ordinal;
	}
	for (;;) {
		struct slot *s = slot_at(m, link->cursor);

		if (s->state == SLOT_MATCHED)
			give_matched(m, link, s);
		else if (s->state == SLOT_LOST)
			match_loss_entry(m, link, s);
		else
			return false;
		s->state = SLOT_SETTLED;
		link->last_seq = s->e.seq;
		link->last_otime = s->e.otime;
		link->last_ordinal = s->e.ordinal;
		link->any = true;
		if (!s->step)
			return true;
		link->cursor += s->step;
	}
}

static void
link_give(struct prl_match *m, struct link *link)
{
	for (; link->out < link->next; link->out++) {
		struct log *log = match_log(link, link->out);

		if (log->state == LOG_MISSING || log->state == LOG_TAKING)
			return;
		if (log->state == LOG_GONE && log->told)
			; /* with the first of its range */
		else if (log->state == LOG_GONE)
			match_loss_log(m, link, log);
		else if (!give_log(m, link, log))
			return;
		link->started = false;
	}
}

/* A link waits only for its own logs and entries. */
void
match_links_give(struct prl_match *m)
{
	for (size_t i = 0; i < m->link_count; i++)
		link_give(m, &m->links[i]);
}

/* No room to wait any longer: missing logs are gone. */
void
match_links_give_up(struct prl_match *m)
{
	for (size_t i = 0; i < m->link_count; i++) {
		struct link *link = &m->links[i];

		for (uint64_t n = link->out; n < link->next; n++) {
			struct log *log = match_log(link, n);

			if (log->state == LOG_MISSING) {
				match_log_gone(m, log);
				m->stats.given_up_early++;
			}
		}
	}
	match_links_give(m);
}

/*
 * Ordinals that no log tells of: with one link they were in a log that is gone, if none is missing. With
 * several another link's log may be on its way still, so time decides.
 */
static bool
may_pass(const struct prl_match *m, int64_t now)
{
	return (!m->several && m->missing == 0) || now - m->base_since >= m->o.hold_ns;
}

void
match_base_move(struct prl_match *m, int64_t now)
{
	uint64_t from = m->base;

	while (m->base < m->top) {
		uint8_t state = slot_at(m, m->base)->state;

		if (state != SLOT_SETTLED && !(state == SLOT_UNKNOWN && may_pass(m, now)))
			break;
		m->base++;
	}
	if (m->base != from || m->base == m->top)
		m->base_since = now;
}
