/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/unit/match_sim.h"

/* What reaches the node: the dispatcher's packets and logs, and what the switch makes of them. */

/* Which link sends packet i; *number: what it carries. In turn, each link lags two turns behind the next. */
static inline uint16_t
sim_link_of(struct sim *s, size_t i, size_t *number)
{
	size_t k;

	*number = i;
	if (!s->c.turn)
		return (uint16_t)(sim_random(&s->random) % s->c.links);
	k = i / s->c.turn % s->c.links;
	*number = s->counts[k]++ + k * 2 * s->c.turn;
	return (uint16_t)k;
}

/* Content: a number in the payload, or one of a few that are alike. */
static inline void
sim_fill(struct sim *s, struct sim_packet *p, size_t i, size_t number, size_t run_at)
{
	bool in_run = s->c.every ? i % s->c.every < s->c.run
				 : s->c.run && i >= run_at && i < run_at + s->c.run;
	uint64_t kind = in_run                      ? 1
			: sim_chance(s, s->c.alike) ? 1 + sim_random(&s->random) % 5
						    : 0;

	p->len = kind        ? 60 + (uint32_t)kind
		 : s->c.turn ? 60 + (uint32_t)(number % 100)
			     : 60 + (uint32_t)(sim_random(&s->random) % 100);
	memset(p->data, kind ? (int)kind : 0xaa, p->len);
	if (!kind) {
		memcpy(p->data + 20, &number, sizeof(number));
		if (!s->c.turn && sim_random(&s->random) % 4 == 0)
			memset(p->data + 40, 0, p->len - 40);
	}
}

/* Room for twice as many at each power of two: under sanitizers a realloc copies all. */
static inline void
sim_event_add(struct sim *s, struct sim_event e)
{
	size_t n = s->event_count;

	if ((n & (n - 1)) == 0)
		s->events = realloc(s->events, (n ? 2 * n : 1) * sizeof(*s->events));
	s->events[s->event_count++] = e;
}

static inline void
sim_log_done(struct sim *s, struct pr_tslog_builder *b, uint64_t last_seq)
{
	const uint8_t *body;
	size_t len = pr_tslog_finish(b, &body);
	struct sim_log *log;

	if (!len)
		return;
	s->logs = realloc(s->logs, (s->log_count + 1) * sizeof(*s->logs));
	log = &s->logs[s->log_count];
	*log = (struct sim_log){.body = malloc(len),
		.len = len,
		.link = b->header.link,
		.number = b->header.number,
		.first_seq = b->header.first_seq,
		.last_seq = last_seq,
		.count = b->header.count};
	memcpy(log->body, body, len);
	sim_event_add(s, (struct sim_event){.packet = -1, .log = (long)s->log_count++});
}

/* The dispatcher: packets, and after them their logs. */
static inline void
sim_make(struct sim *s)
{
	static uint8_t room[SIM_LINKS][SIM_LOG_MAX];
	struct pr_tslog_builder b[SIM_LINKS];
	uint64_t numbers[SIM_LINKS], last[SIM_LINKS] = {0}, seq = 0;
	size_t run_at = s->c.packets > s->c.run ? (s->c.packets - s->c.run) / 2 : 0;
	size_t size = s->c.large_logs ? SIM_LOG_MAX : 256 + sim_random(&s->random) % 1200;
	uint16_t flags = s->c.links > 1 ? PR_TSLOG_INTERLEAVED : 0;

	for (unsigned k = 0; k < s->c.links; k++) {
		numbers[k] = 1;
		pr_tslog_begin(&b[k], (uint16_t)k, flags, 1, room[k], size);
	}
	for (size_t i = 0; i < s->c.packets; i++) {
		struct sim_packet *p = &s->packets[i];
		struct pr_entry e = {.ordinal = i};
		size_t number;
		uint16_t k = sim_link_of(s, i, &number);

		sim_fill(s, p, i, number, run_at);
		p->link = k;
		p->seq = seq += 1 + sim_random(&s->random) % 3;
		e.seq = p->seq;
		e.time = e.otime = (int64_t)(PR_NS_PER_S + (int64_t)i * SIM_STEP);
		e.fingerprint = pr_fingerprint(p->data, p->len, SIM_EPOCH);
		sim_event_add(s, (struct sim_event){.packet = (long)i, .log = -1});
		if (!pr_tslog_add(&b[k], &e)) {
			sim_log_done(s, &b[k], last[k]);
			pr_tslog_begin(&b[k], k, flags, ++numbers[k], room[k], size);
			if (!pr_tslog_add(&b[k], &e))
				abort();
		}
		last[k] = p->seq;
	}
	for (unsigned k = 0; k < s->c.links; k++)
		sim_log_done(s, &b[k], last[k]);
}

static inline int
sim_by_key(const void *a, const void *b)
{
	const struct sim_event *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->tie < y->tie ? -1 : x->tie > y->tie;
}

static inline void
sim_log_fate(struct sim *s, struct sim_event *e, bool *drop)
{
	const struct sim_log *log = &s->logs[e->log];

	if (log->link == 0 && log->number == s->c.hold_log)
		*drop = true;
	else
		*drop = sim_chance(s, s->c.log_loss);
}

static inline void
sim_frame_fate(struct sim *s, struct sim_event *e, bool *drop, bool in_burst)
{
	*drop = in_burst || sim_chance(s, s->c.loss);
	if (*drop)
		s->dropped++;
	else if (sim_chance(s, s->c.corrupt)) {
		e->corrupt = true;
		s->corrupted++;
	} else if (sim_chance(s, s->c.pad)) {
		e->pad = 1 + (uint32_t)(sim_random(&s->random) % 12);
	}
}

/* The switch. */
static inline void
sim_switch(struct sim *s)
{
	size_t count = s->event_count, out = 0, again = 0;
	size_t burst_at = s->c.burst ? sim_random(&s->random) % (count - count / 4) : 0;
	struct sim_event *to = malloc(3 * count * sizeof(*to));

	for (size_t i = 0; i < count; i++) {
		struct sim_event e = s->events[i];
		bool drop = false,
		     in_burst = s->c.burst && i >= burst_at && i < burst_at + s->c.burst;

		e.key = e.tie = i;
		if (e.log >= 0)
			sim_log_fate(s, &e, &drop);
		else
			sim_frame_fate(s, &e, &drop, in_burst);
		if (drop)
			continue;
		if (sim_chance(s, s->c.reorder))
			e.key += sim_random(&s->random) % SIM_REACH;
		to[out++] = e;
		if (e.packet >= 0 && !e.corrupt && !e.pad && sim_chance(s, s->c.dup)) {
			e.key += sim_random(&s->random) % SIM_REACH;
			to[out++] = e;
			s->doubled++;
		}
		if (i > s->c.record && sim_chance(s, s->c.replay)) {
			while (s->events[again % s->c.record].packet < 0)
				again++;
			to[out] = s->events[again++ % s->c.record];
			to[out].key = to[out].tie = i;
			out++;
			s->doubled++;
		}
	}
	qsort(to, out, sizeof(*to), sim_by_key);
	free(s->events);
	s->events = to;
	s->event_count = out;
}
