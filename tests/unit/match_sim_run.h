/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/unit/match_sim.h"
#include "tests/unit/match_sim_switch.h"

/* The matcher takes what the switch lets through; each thing that it gives out is looked at. */

/* The first packet of that seq or above; seqs grow over all links together. */
static inline size_t
sim_from(const struct sim *s, uint64_t seq)
{
	size_t low = 0, high = s->c.packets;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (s->packets[mid].seq < seq)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static inline struct sim_packet *
sim_find(struct sim *s, uint16_t link, uint64_t seq)
{
	size_t i = sim_from(s, seq);

	if (i == s->c.packets || s->packets[i].seq != seq || s->packets[i].link != link)
		return NULL;
	return &s->packets[i];
}

static inline void
sim_on_packet(void *arg, uint16_t link, const struct pr_entry *e,
	const struct prl_match_frame *f, uint32_t len)
{
	struct sim *s = arg;
	struct sim_packet *p = sim_find(s, link, e->seq);

	if (!p)
		SIM_BAD(s, "no packet %llu on link %u", (unsigned long long)e->seq, link);
	else if (p->stored)
		SIM_BAD(s, "packet %llu twice", (unsigned long long)e->seq);
	else if (p->len != len || len > f->len || memcmp(p->data, f->data, len))
		SIM_BAD(s, "packet %llu has another's frame", (unsigned long long)e->seq);
	else if (e->seq <= s->last_seq[link])
		SIM_BAD(s, "packet %llu out of order", (unsigned long long)e->seq);
	else
		p->stored = true;
	s->last_seq[link % SIM_LINKS] = e->seq;
	s->stored++;
	s->stored_while_held += s->holding;
	s->frames_out++;
	free(f->data);
}

static inline void
sim_on_loss(void *arg, const struct pr_loss *loss)
{
	struct sim *s = arg;

	if (loss->first_seq > loss->last_seq || loss->epoch != SIM_EPOCH ||
		loss->first_time > loss->last_time || !loss->count)
		SIM_BAD(s, "odd loss %llu..%llu", (unsigned long long)loss->first_seq,
			(unsigned long long)loss->last_seq);
	s->lost += loss->count;
	for (size_t i = sim_from(s, loss->first_seq);
		i < s->c.packets && s->packets[i].seq <= loss->last_seq; i++)
		s->packets[i].lost_told |= s->packets[i].link == loss->link;
}

static inline void
sim_on_leftover(void *arg, const struct prl_match_frame *f, enum prl_match_fate fate)
{
	struct sim *s = arg;

	s->leftovers++;
	s->frames_out++;
	if (fate == PRL_MATCH_DUPLICATE)
		s->duplicates++;
	else
		s->strays++;
	free(f->data);
}

static inline void
sim_on_resend(void *arg, const struct pr_resend *ask)
{
	struct sim *s = arg;

	for (size_t i = 0; i < s->log_count && !s->c.mute; i++) {
		const struct sim_log *log = &s->logs[i];

		if (log->link != ask->link || log->number < ask->first_log ||
			log->number > ask->last_log || s->holding)
			continue;
		s->asks = realloc(s->asks, (s->ask_count + 1) * sizeof(*s->asks));
		s->asks[s->ask_count++] = (struct sim_ask){s->now + PR_NS_PER_MS, i};
	}
}

static inline void
sim_answer(struct sim *s, const struct sim_log *log)
{
	struct pr_gone gone = {.link = log->link,
		.first_log = log->number,
		.last_log = log->number,
		.first_seq = log->first_seq,
		.last_seq = log->last_seq,
		.count = log->count};

	if (sim_chance(s, s->c.log_gone))
		prl_match_gone(s->match, &gone, s->now);
	else if (!sim_chance(s, s->c.log_loss))
		prl_match_tslog(s->match, log->body, log->len, s->now);
}

static inline void
sim_answers(struct sim *s)
{
	for (size_t i = 0; i < s->ask_count; i++) {
		if (s->asks[i].due > s->now)
			continue;
		sim_answer(s, &s->logs[s->asks[i].log]);
		s->asks[i--] = s->asks[--s->ask_count];
	}
}

static inline void
sim_deliver_frame(struct sim *s, const struct sim_event *e)
{
	const struct sim_packet *p = &s->packets[e->packet];
	struct prl_match_frame f = {.len = p->len + e->pad, .time = s->now};

	f.data = calloc(1, f.len);
	memcpy(f.data, p->data, p->len);
	if (e->corrupt) {
		size_t bit = 12 * 8 + sim_random(&s->random) % ((p->len - 12) * 8);

		f.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	f.fingerprint = pr_fingerprint(f.data, f.len, SIM_EPOCH);
	s->frames_in++;
	prl_match_frame(s->match, &f, s->now);
}

static inline void
sim_pass(struct sim *s)
{
	int64_t tick = s->now;

	for (size_t i = 0; i < s->event_count; i++) {
		const struct sim_event *e = &s->events[i];

		s->now += SIM_STEP;
		if (e->packet >= 0)
			sim_deliver_frame(s, e);
		else
			prl_match_tslog(s->match, s->logs[e->log].body, s->logs[e->log].len,
				s->now);
		sim_answers(s);
		if (i % 8 == 0)
			prl_match_run(s->match, s->now);
		if (s->now - tick >= 10 * PR_NS_PER_MS) {
			tick = s->now;
			prl_match_tick(s->match, s->now);
		}
	}
}

static inline void
sim_settle(struct sim *s)
{
	uint64_t last[SIM_LINKS] = {0};
	int64_t until = s->now + 10 * PR_NS_PER_S;

	for (size_t i = 0; i < s->log_count; i++) {
		if (s->logs[i].number > last[s->logs[i].link])
			last[s->logs[i].link] = s->logs[i].number;
	}
	s->holding = false;
	do {
		s->now += 10 * PR_NS_PER_MS;
		for (unsigned k = 0; k < s->c.links; k++)
			prl_match_mark(s->match, (uint16_t)k, last[k], s->now);
		prl_match_note_sent_below(s->match, s->c.packets, s->now);
		prl_match_tick(s->match, s->now);
		sim_answers(s);
	} while ((!prl_match_settled(s->match) ||
			 prl_match_ordinal(s->match) < s->c.packets) &&
		 s->now < until);
	if (!prl_match_settled(s->match))
		SIM_BAD(s, "never settled");
}

static inline void
sim_begin(struct sim *s, const struct sim_case *c)
{
	struct prl_match_options options;
	struct prl_match_calls calls = {
		sim_on_packet, sim_on_loss, sim_on_leftover, sim_on_resend, s};

	*s = (struct sim){.c = *c,
		.random = c->seed * UINT64_C(0x9E3779B97F4A7C15) + 1,
		.now = PR_NS_PER_S,
		.holding = c->hold_log != 0};
	for (int i = 0; i < 5; i++)
		sim_random(&s->random);
	s->packets = calloc(c->packets, sizeof(*s->packets));
	prl_match_defaults(&options);
	options.epoch = SIM_EPOCH;
	if (c->room)
		options.room = c->room;
	s->match = prl_match_create(&options, &calls, NULL);
}

static inline void
sim_end(struct sim *s)
{
	prl_match_get_stats(s->match, &s->stats);
	prl_match_destroy(&s->match);
	for (size_t i = 0; i < s->c.packets; i++) {
		if (!s->packets[i].stored && !s->packets[i].lost_told && s->event_count)
			SIM_BAD(s, "packet %llu is neither stored nor lost",
				(unsigned long long)s->packets[i].seq);
	}
	for (size_t i = 0; i < s->log_count; i++)
		free(s->logs[i].body);
	free(s->logs);
	free(s->events);
	free(s->packets);
	free(s->asks);
}

static inline void
sim_run(struct sim *s, const struct sim_case *c)
{
	sim_begin(s, c);
	sim_make(s);
	sim_switch(s);
	sim_pass(s);
	sim_settle(s);
	prl_match_finish(s->match);
	if (prl_match_ordinal(s->match) != c->packets)
		SIM_BAD(s, "ordinal %llu", (unsigned long long)prl_match_ordinal(s->match));
	sim_end(s);
}
