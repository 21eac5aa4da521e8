/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/fanout_internal.h"

#include <stdlib.h>
#include <string.h>

#include "proto/rpc/message.h"

/*
 * A query that goes on (Query.follow): the nodes are asked round after round, each time for what lies
 * between the end of the round before and now. They begin when all of it is settled there, so a packet
 * comes once, in order, and none is left behind. Nodes that come or go are seen at the next round.
 */

static Packrack__Query *
query_of(struct prm_fanout *f)
{
	return (Packrack__Query *)f->options.query; /* a copy of our own */
}

static int64_t
now_real(const struct prm_fanout *f)
{
	return f->options.real + (f->mono - f->began);
}

/* A range that begins later than now is one instant: the first round then waits for it. */
static void
set_until(struct prm_fanout *f)
{
	Packrack__Query *q = query_of(f);
	int64_t now = now_real(f);

	q->until = now < f->follow.until ? now : f->follow.until;
	if (q->until < q->since)
		q->until = q->since;
	f->follow.round_mono = f->mono;
}

void
prm_fanout_follow_begin(struct prm_fanout *f)
{
	f->follow.on = f->options.query->follow;
	f->follow.until = f->options.query->until;
	if (f->follow.on)
		set_until(f);
}

void
prm_fanout_follow_free(struct prm_fanout *f)
{
	if (f->follow.total)
		packrack__completeness__free_unpacked(f->follow.total, NULL);
	f->follow.total = NULL;
}

/* ---- what the rounds say of themselves, put together ---- */

/* Moves up to max - *to_count items over; the others stay, to be freed with their list. */
static bool
move_items(void ***to, size_t *to_count, void **from, size_t *from_count, size_t max)
{
	size_t room = *to_count < max ? max - *to_count : 0;
	size_t count = *from_count < room ? *from_count : room;
	void **grown;

	if (!count)
		return true;
	grown = reallocarray(*to, *to_count + count, sizeof(**to));
	if (!grown)
		return false;
	memcpy(grown + *to_count, from, count * sizeof(*from));
	memmove(from, from + count, (*from_count - count) * sizeof(*from));
	*to = grown;
	*to_count += count;
	*from_count -= count;
	return true;
}

static Packrack__NodeAnswer *
node_of(const Packrack__Completeness *c, const char *name)
{
	for (size_t i = 0; i < c->n_nodes; i++)
		if (!strcmp(c->nodes[i]->node, name))
			return c->nodes[i];
	return NULL;
}

/* The node's name, answer and error of the last round, and the figures of all. */
static void
add_node(Packrack__NodeAnswer *now, const Packrack__NodeAnswer *before)
{
	pr_message_add_numbers(&now->base, &before->base);
	if (before->answered || !now->answered)
		return;
	now->answered = false; /* not all of the time */
	now->error = strdup(before->error);
}

static bool
add_nodes(Packrack__Completeness *c, Packrack__Completeness *before)
{
	size_t kept = 0;

	for (size_t i = 0; i < before->n_nodes; i++) {
		Packrack__NodeAnswer *now = node_of(c, before->nodes[i]->node);

		if (now) {
			add_node(now, before->nodes[i]);
			packrack__node_answer__free_unpacked(before->nodes[i], NULL);
		} else {
			before->nodes[kept++] = before->nodes[i];
		}
	}
	before->n_nodes = kept;
	return move_items((void ***)&c->nodes, &c->n_nodes, (void **)before->nodes,
		&before->n_nodes, SIZE_MAX);
}

/* c is later and has all that still lasts; what is over comes from before. */
static bool
add(Packrack__Completeness *c, Packrack__Completeness *before)
{
	pr_message_add_numbers(&c->base, &before->base);
	return add_nodes(c, before) &&
	       move_items((void ***)&c->missing, &c->n_missing, (void **)before->missing,
		       &before->n_missing, PRM_COMPLETENESS_LIST_MAX);
}

/* Ledgers say how far a link had got: only one that has ended meanwhile is not in the later list. */
static bool
add_ledgers(Packrack__Completeness *c, Packrack__Completeness *before)
{
	for (size_t i = 0; i < before->n_ledgers; i++)
		for (size_t j = 0; j < c->n_ledgers; j++)
			if (c->ledgers[j]->epoch == before->ledgers[i]->epoch &&
				c->ledgers[j]->link == before->ledgers[i]->link) {
				packrack__ledger__free_unpacked(before->ledgers[i], NULL);
				before->ledgers[i--] = before->ledgers[--before->n_ledgers];
				break;
			}
	return move_items((void ***)&c->ledgers, &c->n_ledgers, (void **)before->ledgers,
		&before->n_ledgers, PRM_COMPLETENESS_LINES_MAX);
}

static void
take_over(struct prm_fanout *f)
{
	Packrack__Completeness *c = f->sums.completeness;

	f->sums.completeness = NULL;
	if (!c)
		return;
	if (f->follow.total &&
		!(add(c, f->follow.total) && add_ledgers(c, f->follow.total)))
		c->complete = false; /* what is not in it for want of memory */
	prm_fanout_follow_free(f);
	f->follow.total = c;
}

void
prm_fanout_follow_sum(struct prm_fanout *f)
{
	if (!f->follow.on)
		return;
	take_over(f);
	f->sums.completeness = f->follow.total;
	f->follow.total = NULL;
}

/* ---- rounds ---- */

bool
prm_fanout_follow_round(struct prm_fanout *f)
{
	if (f->options.query->until >= f->follow.until)
		return false;
	take_over(f);
	f->follow.idle = true;
	return true;
}

void
prm_fanout_follow_tick(struct prm_fanout *f)
{
	Packrack__Query *q = query_of(f);
	struct pr_error err = {""};

	if (f->mono - f->follow.round_mono < PRM_FANOUT_FOLLOW_NS ||
		now_real(f) <= q->until)
		return;
	f->follow.idle = false;
	q->since = q->until + 1;
	set_until(f);
	if (prm_fanout_ask_again(f, &err) < 0)
		prm_fanout_failure(f, err.text, false);
}
