/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/port/trace.h"
#include "tests/unit/cutoff_packets.h"

/* What the cutoff does, told by plain lists: from the shapes of packets, not their bytes. */
#define LINKS 3
#define LIST_MAX 4096
#define CLASSES 5

/* Highest precedence first; the last one is that of no class. */
struct model_class {
	struct pr_packet_filter *filter;
	const char *name;
	uint64_t cutoff;
};

struct model_connection {
	struct shape of; /* its first packet's ends; a router's error has its own */
	uint64_t number, bytes;
	int64_t last;
	int class;
	bool closed, cut;
};

struct model_fragment {
	struct shape of;
	uint64_t number;
	struct shape sender; /* as the sums name the direction */
	int64_t time;
};

struct model_sum {
	struct pr_beyond b;
	int64_t second;
};

struct model {
	struct model_class classes[CLASSES];
	size_t connections_max, fragments_max, sums_max;
	struct model_connection
		connections[LIST_MAX]; /* that whose last second began first is first */
	size_t count;
	struct model_fragment fragments[LIST_MAX];
	size_t fragment_count;
	struct model_sum sums[LINKS][LIST_MAX];
	size_t sum_count[LINKS];
	int64_t latest[LINKS];
	uint64_t numbers;
	struct prd_cutoff_figures figures;
};

static inline int64_t
floor_second(int64_t t)
{
	return t / PR_NS_PER_S - (t % PR_NS_PER_S < 0);
}

static inline bool
has_ports(const struct shape *s)
{
	return s->protocol == TCP || s->protocol == UDP;
}

/* 1: the same direction, 2: the other one, 0: another connection. */
static inline int
same_ends(const struct shape *a, const struct shape *b)
{
	if (a->link != b->link || a->vlan != b->vlan || a->six != b->six ||
		a->protocol != b->protocol)
		return 0;
	for (int turn = 0; turn < 2; turn++)
		if (a->host[0] == b->host[turn] && a->host[1] == b->host[!turn] &&
			a->port[0] == b->port[turn] && a->port[1] == b->port[!turn])
			return 1 + turn;
	return 0;
}

static inline bool
model_idle(const struct model *m, const struct model_connection *c)
{
	return m->latest[c->of.link] - c->last >
	       (c->of.protocol == TCP ? 60 : 30) * PR_NS_PER_S;
}

static inline struct model_connection *
model_find(struct model *m, const struct shape *ends)
{
	for (size_t i = 0; i < m->count; i++)
		if (same_ends(&m->connections[i].of, ends))
			return &m->connections[i];
	return NULL;
}

static inline bool
same_fragment(const struct shape *a, const struct shape *b)
{
	return a->link == b->link && a->vlan == b->vlan && a->six == b->six &&
	       a->id == b->id && (a->six || a->protocol == b->protocol) &&
	       a->host[0] == b->host[0] && a->host[1] == b->host[1];
}

/* Of a later fragment with these ends; *sender is its first one's. */
static inline struct model_connection *
model_of_fragment(struct model *m, const struct shape *s, struct shape *sender)
{
	for (size_t i = m->fragment_count; i-- > 0;) {
		const struct model_fragment *f = &m->fragments[i];

		if (!same_fragment(&f->of, s))
			continue;
		if (m->latest[s->link] - f->time > 30 * PR_NS_PER_S)
			return NULL;
		for (size_t k = 0; k < m->count; k++)
			if (m->connections[k].number == f->number &&
				!model_idle(m, &m->connections[k])) {
				*sender = f->sender;
				return &m->connections[k];
			}
		return NULL;
	}
	return NULL;
}

/* The connection of a packet by the rules for fragments and errors; NULL: by its own ends. *ends: sender first. */
static inline struct model_connection *
model_related(struct model *m, const struct shape *s, struct shape *ends)
{
	struct model_connection *c = NULL;
	struct shape quoted = *s;

	*ends = *s;
	if (s->kind == LATER || !has_ports(s) || s->kind == ERROR_OF_LATER)
		ends->port[0] = ends->port[1] = 0;
	if (s->kind == LATER) {
		c = model_of_fragment(m, s, ends);
		m->figures.fragments_unknown += !c;
	} else if (s->kind == ERROR_OF) {
		c = model_find(m, ends);
		if (c && model_idle(m, c))
			c = NULL;
		turn(ends);
	} else if (s->kind == ERROR_OF_LATER) {
		c = model_of_fragment(m, &quoted, ends);
		turn(ends);
	}
	if (!c && (s->kind == ERROR_OF || s->kind == ERROR_OF_LATER)) {
		*ends = *s;
		ends->protocol = s->six ? ICMP6 : ICMP;
		ends->host[0] = s->router;
		ends->host[1] = s->host[0];
		ends->port[0] = ends->port[1] = 0;
	}
	return c;
}

static inline int
model_class_of(const struct model *m, const struct shape *s, const struct frame *f)
{
	for (int i = 0; i < CLASSES - 1; i++)
		if (pr_packet_filter_match(
			    m->classes[i].filter, f->data, f->caplen, s->len))
			return i;
	return CLASSES - 1;
}

static inline void
model_remove(struct model *m, size_t at)
{
	memmove(&m->connections[at], &m->connections[at + 1],
		(--m->count - at) * sizeof m->connections[0]);
}

/* Puts the connection last. */
static inline struct model_connection *
model_last(struct model *m, struct model_connection *c)
{
	struct model_connection moved = *c;

	model_remove(m, (size_t)(c - m->connections));
	m->connections[m->count] = moved;
	return &m->connections[m->count++];
}

static inline struct model_connection *
model_begin(struct model *m, struct model_connection *old, const struct shape *s,
	const struct shape *ends, const struct frame *f)
{
	struct shape first = old ? old->of : *ends;

	if (old)
		model_remove(m, (size_t)(old - m->connections));
	if (m->count == m->connections_max) {
		m->figures.evicted += !model_idle(m, &m->connections[0]);
		model_remove(m, 0);
	}
	m->connections[m->count] = (struct model_connection){.of = first,
		.number = ++m->numbers,
		.last = m->latest[s->link],
		.class = model_class_of(m, s, f)};
	m->figures.connections_begun++;
	return &m->connections[m->count++];
}

/* Headers as a sum has them. */
static inline struct pr_connection
model_headers(const struct shape *ends)
{
	struct pr_connection c = {.vlan = ends->vlan,
		.protocol = ends->protocol,
		.address_len = ends->six ? 16 : 4,
		.port = {ends->port[0], ends->port[1]}};

	for (int i = 0; i < 2; i++)
		address_of(ends->six, ends->host[i], c.address[i]);
	return c;
}

static inline bool
model_count(struct model *m, const struct model_connection *c, const struct shape *ends,
	uint32_t len)
{
	unsigned link = c->of.link;
	struct pr_connection headers = model_headers(ends);
	int64_t now = m->latest[link], second = floor_second(now);
	struct model_sum *s = NULL;

	for (size_t i = 0; i < m->sum_count[link]; i++) {
		struct model_sum *other = &m->sums[link][i];

		if (other->b.number == c->number && other->second == second &&
			!memcmp(&other->b.connection, &headers, sizeof headers))
			s = other;
	}
	if (!s && m->sum_count[link] == m->sums_max)
		return false;
	if (!s) {
		s = &m->sums[link][m->sum_count[link]++];
		*s = (struct model_sum){.second = second,
			.b = {.connection = headers, .number = c->number, .first = now}};
		strcpy(s->b.name, m->classes[c->class].name);
	}
	s->b.packets++;
	s->b.bytes += len;
	s->b.last = now;
	return true;
}

static inline void
model_note_fragment(struct model *m, const struct shape *s, uint64_t number)
{
	if (m->fragment_count && m->fragment_count == m->fragments_max)
		memmove(m->fragments, m->fragments + 1,
			--m->fragment_count * sizeof m->fragments[0]);
	m->fragments[m->fragment_count++] = (struct model_fragment){
		.of = *s, .number = number, .sender = *s, .time = m->latest[s->link]};
	if (!has_ports(s))
		memset(m->fragments[m->fragment_count - 1].sender.port, 0, sizeof s->port);
}

static inline void
model_forget_fragment(struct model *m, const struct shape *s)
{
	for (size_t i = 0; i < m->fragment_count; i++)
		if (same_fragment(&m->fragments[i].of, s)) {
			memmove(&m->fragments[i], &m->fragments[i + 1],
				(m->fragment_count - i - 1) * sizeof m->fragments[0]);
			m->fragment_count--;
			return;
		}
}

static inline bool
model_keeps(struct model *m, const struct shape *s, const struct frame *f)
{
	struct shape ends;
	int64_t *now = &m->latest[s->link];

	*now = s->time > *now ? s->time : *now;
	if (s->kind == NOT_IP)
		return true;
	uint8_t flags =
		s->protocol == TCP && (s->kind == WHOLE || s->kind == FIRST) ? s->flags : 0;
	struct model_connection *c = model_related(m, s, &ends);
	if (!c)
		c = model_find(m, &ends);
	if (!c || model_idle(m, c) || (c->closed && flags & SYN))
		c = model_begin(m, c, s, &ends, f);
	else if (floor_second(c->last) != floor_second(*now))
		c = model_last(m, c);
	c->last = *now;
	if (s->kind == FIRST) {
		model_forget_fragment(m, s);
		model_note_fragment(m, s, c->number);
	}
	bool keeps = c->bytes < m->classes[c->class].cutoff || flags & (SYN | FIN | RST);
	if (!keeps && !model_count(m, c, &ends, s->len)) {
		m->figures.uncounted++;
		keeps = true;
	}
	if (!keeps && !c->cut) {
		c->cut = true;
		m->figures.connections_cut++;
	}
	c->closed = c->closed || flags & (FIN | RST);
	c->bytes += s->len;
	return keeps;
}
