/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/source.h"

#include <stdlib.h>

/* ---- packets and sources ---- */

#define THREE_WAY(a, b) (((a) > (b)) - ((a) < (b)))

int
pr_packet_compare(const struct pr_packet *a, const struct pr_packet *b)
{
	if (a->otime != b->otime)
		return THREE_WAY(a->otime, b->otime);
	if (a->link != b->link)
		return THREE_WAY(a->link, b->link);
	if (a->epoch != b->epoch)
		return THREE_WAY(a->epoch, b->epoch);
	return THREE_WAY(a->seq, b->seq);
}

void
pr_source_destroy(struct pr_source **source)
{
	if (*source && (*source)->destroy)
		(*source)->destroy(*source);
	*source = NULL;
}

/* ---- the merge ---- */

/*
 * A tournament of losers: leaf i is input i, an inner node holds who lost there, node 0 who won all.
 * After the winner's input has moved on, only its path to the root is played again: log2(inputs)
 * comparisons a packet, and no moving of packets.
 */
enum state {
	FREE, /* no input here: after all others */
	HUNGRY, /* to be asked for its next packet */
	READY, /* packet is set */
};

struct input {
	struct pr_packet packet;
	struct pr_source *source;
	enum state state;
};

struct merge {
	struct pr_source source;
	struct input *inputs;
	unsigned *losers;
	unsigned count, room; /* room is a power of two; inputs from count on are FREE */
	unsigned hungry;
	bool rebuild; /* more than the winner's path has changed */
	bool any_given; /* last is set */
	bool failed;
	struct pr_packet last; /* the name of the packet given last; its data may be gone */
	struct pr_error error;
};

/* Does input a come before input b? */
static bool
before(const struct input *inputs, unsigned ia, unsigned ib)
{
	const struct input *a = &inputs[ia], *b = &inputs[ib];
	if (a->state != READY || b->state != READY)
		return a->state == READY;
	if (a->packet.otime != b->packet.otime)
		return a->packet.otime < b->packet.otime;
	int order = pr_packet_compare(&a->packet, &b->packet);
	if (order == 0)
		order = (a->packet.flags & PR_PACKET_DEGREES) -
			(b->packet.flags & PR_PACKET_DEGREES);
	if (order == 0)
		order = (a->packet.flags & PR_PACKET_SECOND) -
			(b->packet.flags & PR_PACKET_SECOND);
	return order < 0 || (order == 0 && ia < ib);
}

/* Plays leaf i, whose packet has changed, up to the root; it was the winner. */
static void
rematch(struct merge *m, unsigned i)
{
	unsigned winner = i;
	for (unsigned node = (m->room + i) / 2; node > 0; node /= 2) {
		unsigned other = m->losers[node];
		if (before(m->inputs, other, winner)) {
			m->losers[node] = winner;
			winner = other;
		}
	}
	m->losers[0] = winner;
}

/* Plays the whole tournament below node, and returns who wins it. */
static unsigned
play_all(struct merge *m, unsigned node)
{
	if (node >= m->room)
		return node - m->room;
	unsigned a = play_all(m, 2 * node), b = play_all(m, 2 * node + 1);
	bool a_wins = before(m->inputs, a, b);
	m->losers[node] = a_wins ? b : a;
	return a_wins ? a : b;
}

static int
ask(struct merge *m, struct input *in)
{
	int got = in->source->next(in->source, &in->packet, &m->error);
	if (got == PR_SOURCE_PACKET) {
		in->state = READY;
		m->hungry--;
	} else if (got == PR_SOURCE_END) {
		pr_source_destroy(&in->source);
		in->state = FREE;
		m->hungry--;
	} else if (got != PR_SOURCE_WAIT) {
		m->failed = true;
		return PR_SOURCE_ERROR;
	}
	return got;
}

/* Asks all that have no packet, and plays the tournament anew where more than the winner has changed. */
static int
settle_all(struct merge *m)
{
	m->rebuild |= m->hungry > 0;
	for (unsigned i = 0; m->hungry && i < m->count; i++)
		if (m->inputs[i].state == HUNGRY &&
			ask(m, &m->inputs[i]) == PR_SOURCE_ERROR)
			return PR_SOURCE_ERROR;
	if (m->hungry)
		return PR_SOURCE_WAIT;
	if (m->rebuild && m->room) {
		m->losers[0] = play_all(m, 1);
		m->rebuild = false;
	}
	return PR_SOURCE_PACKET;
}

/* Makes losers[0] the input with the next packet, if there is one. WAIT, if an input has none yet. */
static inline int
settle(struct merge *m)
{
	if (m->hungry != 1 || m->rebuild || m->inputs[m->losers[0]].state != HUNGRY)
		return settle_all(m);
	/* the usual case: the winner alone has been used up */
	int got = ask(m, &m->inputs[m->losers[0]]);
	if (got == PR_SOURCE_WAIT || got == PR_SOURCE_ERROR)
		return got;
	rematch(m, m->losers[0]);
	return PR_SOURCE_PACKET;
}

static bool
given_before(const struct merge *m, const struct pr_packet *p)
{
	return m->any_given && p->seq == m->last.seq &&
	       pr_packet_compare(p, &m->last) == 0 &&
	       !(p->flags & (PR_PACKET_STRAY | PR_PACKET_PARTS));
}

static int
merge_next(struct pr_source *source, struct pr_packet *out, struct pr_error *err)
{
	struct merge *m = (struct merge *)source;

	for (;;) {
		int got = m->failed ? PR_SOURCE_ERROR : settle(m);

		if (got == PR_SOURCE_ERROR && err)
			*err = m->error;
		if (got != PR_SOURCE_PACKET)
			return got;
		if (m->room == 0)
			return PR_SOURCE_END;
		struct input *in = &m->inputs[m->losers[0]];
		if (in->state != READY)
			return PR_SOURCE_END;
		in->state = HUNGRY;
		m->hungry++;
		if (given_before(m, &in->packet))
			continue;
		*out = m->last = in->packet;
		m->any_given = true;
		return PR_SOURCE_PACKET;
	}
}

struct pr_source *
pr_merge_top(struct pr_source *merge)
{
	struct merge *m = (struct merge *)merge;

	if (m->failed || settle(m) != PR_SOURCE_PACKET || m->room == 0)
		return NULL;
	const struct input *in = &m->inputs[m->losers[0]];
	return in->state == READY ? in->source : NULL;
}

bool
pr_merge_repeats(const struct pr_source *merge)
{
	const struct merge *m = (const struct merge *)merge;

	return given_before(m, &m->inputs[m->losers[0]].packet);
}

int64_t
pr_merge_second_otime(const struct pr_source *merge)
{
	const struct merge *m = (const struct merge *)merge;
	int64_t otime = INT64_MAX;

	/* the second has lost against the winner, and against nobody else */
	for (unsigned node = (m->room + m->losers[0]) / 2; node > 0; node /= 2) {
		const struct input *in = &m->inputs[m->losers[node]];

		if (in->state == READY && in->packet.otime < otime)
			otime = in->packet.otime;
	}
	return otime;
}

void
pr_merge_pass(struct pr_source *merge, const struct pr_packet *given)
{
	struct merge *m = (struct merge *)merge;

	m->inputs[m->losers[0]].state = HUNGRY;
	m->hungry++;
	if (given) {
		m->last = *given;
		m->any_given = true;
	}
}

static void
merge_destroy(struct pr_source *source)
{
	struct merge *m = (struct merge *)source;
	for (unsigned i = 0; i < m->count; i++)
		pr_source_destroy(&m->inputs[i].source);
	PR_FREE(m, inputs, losers);
	free(m);
}

struct pr_source *
pr_merge_create(struct pr_error *err)
{
	struct merge *m = calloc(1, sizeof *m);
	if (!m)
		return pr_error_null(err, "no memory for a merge");
	m->source.next = merge_next;
	m->source.destroy = merge_destroy;
	return &m->source;
}

static int
grow(struct merge *m)
{
	unsigned room = m->room ? 2 * m->room : 2;
	struct input *inputs = realloc(m->inputs, room * sizeof *inputs);
	if (!inputs)
		return -1;
	m->inputs = inputs;
	unsigned *losers = realloc(m->losers, room * sizeof *losers);
	if (!losers)
		return -1;
	m->losers = losers;
	for (unsigned i = m->room; i < room; i++)
		inputs[i] = (struct input){.state = FREE};
	m->room = room;
	return 0;
}

int
pr_merge_add(struct pr_source *merge, struct pr_source *input, struct pr_error *err)
{
	struct merge *m = (struct merge *)merge;
	unsigned i = 0;

	/* an input that has ended leaves its place to the next one */
	while (i < m->count && m->inputs[i].state != FREE)
		i++;
	if (i == m->room && grow(m) < 0) {
		pr_source_destroy(&input);
		return pr_error_set(err, "no memory for one more input of a merge");
	}
	m->count += i == m->count;
	m->inputs[i].source = input;
	m->inputs[i].state = HUNGRY;
	m->hungry++;
	m->rebuild = true;
	return 0;
}
