/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_MATCH_SIM_H
#define TESTS_UNIT_MATCH_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logger/match.h"
#include "proto/base/clock.h"

/*
 * A dispatcher and a faulty switch in front of the matcher, by a seed: for test_match.c. Rates are per mille.
 * Header only, as each file under tests/unit is a program.
 */
#define SIM_EPOCH UINT64_C(0x1234567890abcdef)
#define SIM_PACKET_MAX 200
#define SIM_LINKS 20
#define SIM_LOG_MAX 60000
#define SIM_REACH 64 /* frames: how far the switch reorders */
#define SIM_STEP 20000 /* ns between two frames */

struct sim_case {
	uint64_t seed;
	unsigned links, packets;
	unsigned loss, burst /* length of one */, dup, reorder, corrupt, pad;
	unsigned alike; /* packets that are one of a few alike */
	unsigned run; /* length of one run of alike ones */
	unsigned log_loss, log_gone; /* gone: RESEND is answered so */
	unsigned hold_log; /* number of the log of link 0 that comes late */
	unsigned
		turn; /* links send so many in turn, and carry the same packets at other times */
	bool large_logs;
	uint32_t room;
	bool mute; /* RESEND is not answered */
};

struct sim_packet {
	uint16_t link;
	uint64_t seq;
	uint32_t len;
	uint8_t data[SIM_PACKET_MAX];
	bool stored, lost_told;
};

struct sim_log {
	uint8_t *body;
	size_t len;
	uint16_t link;
	uint64_t number, first_seq, last_seq;
	uint64_t count;
	bool dropped;
};

struct sim_event {
	uint64_t key, tie;
	long packet, log; /* one of them, the other -1 */
	uint32_t pad;
	bool corrupt;
};

struct sim_ask {
	int64_t due;
	size_t log;
};

struct sim {
	struct sim_case c;
	struct pr_match *match;
	struct sim_packet *packets;
	struct sim_log *logs;
	size_t log_count;
	struct sim_event *events;
	size_t event_count;
	struct sim_ask *asks;
	size_t ask_count;
	uint64_t random;
	int64_t now;
	bool holding;

	uint64_t frames_in, frames_out, stored, lost, strays, duplicates, leftovers;
	uint64_t dropped, corrupted, doubled, stored_while_held;
	uint64_t last_seq[SIM_LINKS];
	size_t counts[SIM_LINKS]; /* packets of each link */
	struct pr_match_stats stats;
	char bad[200];
};

static inline uint64_t
sim_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x * UINT64_C(2685821657736338717) >> 11;
}

static inline bool
sim_chance(struct sim *s, unsigned per_mille)
{
	return per_mille && sim_random(&s->random) % 1000 < per_mille;
}

#define SIM_BAD(s, ...)                                                                    \
	do {                                                                               \
		if (!(s)->bad[0])                                                          \
			snprintf((s)->bad, sizeof((s)->bad), __VA_ARGS__);                 \
	} while (0)

/* The first packet of that seq or above; seqs grow over all links together. */
static size_t
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

static struct sim_packet *
sim_find(struct sim *s, uint16_t link, uint64_t seq)
{
	size_t i = sim_from(s, seq);

	if (i == s->c.packets || s->packets[i].seq != seq || s->packets[i].link != link)
		return NULL;
	return &s->packets[i];
}

static void
sim_on_packet(void *arg, uint16_t link, const struct pr_entry *e,
	const struct pr_match_frame *f, uint32_t len)
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

static void
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

static void
sim_on_leftover(void *arg, const struct pr_match_frame *f, enum pr_match_fate fate)
{
	struct sim *s = arg;

	s->leftovers++;
	s->frames_out++;
	if (fate == PR_MATCH_DUPLICATE)
		s->duplicates++;
	else
		s->strays++;
	free(f->data);
}

static void
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

static void
sim_answer(struct sim *s, const struct sim_log *log)
{
	struct pr_gone gone = {.link = log->link,
		.first_log = log->number,
		.last_log = log->number,
		.first_seq = log->first_seq,
		.last_seq = log->last_seq,
		.count = log->count};

	if (sim_chance(s, s->c.log_gone))
		pr_match_gone(s->match, &gone, s->now);
	else if (!sim_chance(s, s->c.log_loss))
		pr_match_tslog(s->match, log->body, log->len, s->now);
}

static void
sim_answers(struct sim *s)
{
	for (size_t i = 0; i < s->ask_count; i++) {
		if (s->asks[i].due > s->now)
			continue;
		sim_answer(s, &s->logs[s->asks[i].log]);
		s->asks[i--] = s->asks[--s->ask_count];
	}
}

/* Which link sends packet i; *number: what it carries. In turn, each link lags two turns behind the next. */
static uint16_t
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
static void
sim_fill(struct sim *s, struct sim_packet *p, size_t i, size_t number, size_t run_at)
{
	bool in_run = s->c.run && i >= run_at && i < run_at + s->c.run;
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

static void
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
	s->events = realloc(s->events, (s->event_count + 4) * sizeof(*s->events));
	s->events[s->event_count++] =
		(struct sim_event){.packet = -1, .log = (long)s->log_count++};
}

/* The dispatcher: packets, and after them their logs. */
static void
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
		s->events = realloc(s->events, (s->event_count + 4) * sizeof(*s->events));
		s->events[s->event_count++] =
			(struct sim_event){.packet = (long)i, .log = -1};
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

static int
sim_by_key(const void *a, const void *b)
{
	const struct sim_event *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->tie < y->tie ? -1 : x->tie > y->tie;
}

static void
sim_log_fate(struct sim *s, struct sim_event *e, bool *drop)
{
	const struct sim_log *log = &s->logs[e->log];

	if (log->link == 0 && log->number == s->c.hold_log)
		*drop = true;
	else
		*drop = sim_chance(s, s->c.log_loss);
}

static void
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
static void
sim_switch(struct sim *s)
{
	size_t count = s->event_count, out = 0;
	size_t burst_at = s->c.burst ? sim_random(&s->random) % (count - count / 4) : 0;
	struct sim_event *to = malloc(2 * count * sizeof(*to));

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
	}
	qsort(to, out, sizeof(*to), sim_by_key);
	free(s->events);
	s->events = to;
	s->event_count = out;
}

static void
sim_deliver_frame(struct sim *s, const struct sim_event *e)
{
	const struct sim_packet *p = &s->packets[e->packet];
	struct pr_match_frame f = {.len = p->len + e->pad, .time = s->now};

	f.data = calloc(1, f.len);
	memcpy(f.data, p->data, p->len);
	if (e->corrupt) {
		size_t bit = 12 * 8 + sim_random(&s->random) % ((p->len - 12) * 8);

		f.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	f.fingerprint = pr_fingerprint(f.data, f.len, SIM_EPOCH);
	s->frames_in++;
	pr_match_frame(s->match, &f, s->now);
}

static void
sim_pass(struct sim *s)
{
	int64_t tick = s->now;

	for (size_t i = 0; i < s->event_count; i++) {
		const struct sim_event *e = &s->events[i];

		s->now += SIM_STEP;
		if (e->packet >= 0)
			sim_deliver_frame(s, e);
		else
			pr_match_tslog(s->match, s->logs[e->log].body, s->logs[e->log].len,
				s->now);
		sim_answers(s);
		if (i % 8 == 0)
			pr_match_run(s->match, s->now);
		if (s->now - tick >= 10 * PR_NS_PER_MS) {
			tick = s->now;
			pr_match_tick(s->match, s->now);
		}
	}
}

static void
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
			pr_match_mark(s->match, (uint16_t)k, last[k], s->now);
		pr_match_sent(s->match, s->c.packets, s->now);
		pr_match_tick(s->match, s->now);
		sim_answers(s);
	} while ((!pr_match_settled(s->match) ||
			 pr_match_ordinal(s->match) < s->c.packets) &&
		 s->now < until);
	if (!pr_match_settled(s->match))
		SIM_BAD(s, "never settled");
}

static void
sim_begin(struct sim *s, const struct sim_case *c)
{
	struct pr_match_options options;
	struct pr_match_calls calls = {
		sim_on_packet, sim_on_loss, sim_on_leftover, sim_on_resend, s};

	*s = (struct sim){.c = *c,
		.random = c->seed * UINT64_C(0x9E3779B97F4A7C15) + 1,
		.now = PR_NS_PER_S,
		.holding = c->hold_log != 0};
	for (int i = 0; i < 5; i++)
		sim_random(&s->random);
	s->packets = calloc(c->packets, sizeof(*s->packets));
	pr_match_defaults(&options);
	options.epoch = SIM_EPOCH;
	if (c->room)
		options.room = c->room;
	s->match = pr_match_create(&options, &calls, NULL);
}

static void
sim_end(struct sim *s)
{
	pr_match_get_stats(s->match, &s->stats);
	pr_match_destroy(&s->match);
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
	pr_match_finish(s->match);
	if (pr_match_ordinal(s->match) != c->packets)
		SIM_BAD(s, "ordinal %llu", (unsigned long long)pr_match_ordinal(s->match));
	sim_end(s);
}

/* Well-formed logs whose numbers and ordinals are absurd. */
static inline void
sim_logs_with_numbers(struct sim *s)
{
	static const uint64_t odd[] = {
		1, 2, 5, 4, 1000, 70000, UINT64_MAX, UINT64_MAX / 2, 3};
	uint8_t room[512];

	for (size_t i = 0; i < 81; i++) {
		struct pr_tslog_builder b;
		struct pr_entry e = {.seq = odd[i / 9] - (odd[i / 9] == UINT64_MAX),
			.ordinal = odd[i % 9] - 1,
			.fingerprint = (uint32_t)i};
		const uint8_t *body;
		size_t len;

		pr_tslog_begin(
			&b, (uint16_t)(i % 2), 0, odd[(i * 7) % 9], room, sizeof(room));
		if (!pr_tslog_add(&b, &e))
			continue;
		len = pr_tslog_finish(&b, &body);
		pr_match_tslog(s->match, body, len, PR_NS_PER_S);
	}
}

#endif
