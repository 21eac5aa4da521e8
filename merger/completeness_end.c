/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/completeness_internal.h"

#include <stdlib.h>
#include <string.h>

#include "proto/rpc/message.h"

/* What a node says at its end: losses, evictions, ledgers; kept until the holes are explained. */

#define EVICTED_MAX 65536

static int
loss_add(struct prm_completeness *c, int node, const Packrack__Loss *from,
	struct pr_error *err)
{
	struct line *line;
	struct loss loss = {.first = from->first_seq,
		.last = from->last_seq,
		.count = from->count,
		.first_time = from->first_time,
		.last_time = from->last_time,
		.node = node};

	if (loss.first < 1 || loss.last < loss.first || loss.last == UINT64_MAX ||
		from->link > UINT16_MAX || loss.count > loss.last - loss.first + 1)
		return pr_error_set(err, "it tells a loss that makes no sense");
	line = prm_completeness_line(c, from->epoch, from->link);
	if (!line)
		return pr_error_set(err, "no memory for its losses");
	line->in_scope = true; /* told, so asked for */
	if (loss.last > line->lost.seq && loss.last_time >= c->options.since &&
		loss.first_time <= c->options.until)
		line->lost = (struct point){loss.last, loss.last_time};
	if (c->loss_count >= PRM_COMPLETENESS_LOSSES_MAX)
		return 0; /* the hole stays, only its reason is not known */
	if (!prm_completeness_grow(
		    (void **)&c->losses, c->loss_count, &c->loss_room, sizeof(loss)))
		return pr_error_set(err, "no memory for its losses");
	loss.line = (size_t)(line - c->lines);
	loss.reason = strdup(from->reason ? from->reason : "");
	if (!loss.reason)
		return pr_error_set(err, "no memory for its losses");
	c->losses[c->loss_count++] = loss;
	return 0;
}

static char *
copy_text(const char *text)
{
	return text && text[0] ? strdup(text) : (char *)protobuf_c_empty_string;
}

/* NULL: there is none, or no memory. */
static Packrack__Deleted *
copy_deleted(const Packrack__Deleted *from)
{
	Packrack__Deleted *d = from ? malloc(sizeof(*d)) : NULL;

	if (!d)
		return NULL;
	packrack__deleted__init(d);
	d->at = from->at;
	d->since = from->since;
	d->until = from->until;
	d->segments = from->segments;
	d->bytes = from->bytes;
	d->by = copy_text(from->by);
	d->moved_to = copy_text(from->moved_to);
	if (d->by && d->moved_to)
		return d;
	packrack__deleted__free_unpacked(d, NULL);
	return NULL;
}

static int
evicted_add(struct prm_completeness *c, int node, const Packrack__Evicted *from,
	struct pr_error *err)
{
	Packrack__Evicted *e, **grown;
	struct line *line;

	if (c->evicted_count >= EVICTED_MAX)
		return pr_error_set(err, "it tells too many evictions");
	grown = reallocarray(c->evicted, c->evicted_count + 1, sizeof(e));
	e = grown ? malloc(sizeof(*e)) : NULL;
	if (grown)
		c->evicted = grown;
	if (!e)
		return pr_error_set(err, "no memory for its evictions");
	packrack__evicted__init(e);
	e->node = copy_text(c->nodes[node].name);
	e->stream = copy_text(from->stream);
	e->midst = from->midst;
	e->since = from->since;
	e->until = from->until;
	e->epoch = from->epoch;
	e->link = from->link;
	e->last_seq = from->last_seq;
	e->deleted = copy_deleted(from->deleted);
	c->evicted[c->evicted_count++] = e;
	if (!e->node || !e->stream || (from->deleted && !e->deleted))
		return pr_error_set(err, "no memory for its evictions");
	if (!from->last_seq)
		return 0;
	line = prm_completeness_line(c, from->epoch, from->link);
	if (!line)
		return pr_error_set(err, "no memory for its evictions");
	if (from->last_seq > line->evicted_seq)
		line->evicted_seq = from->last_seq;
	return 0;
}

static void
raise(uint64_t *to, uint64_t from)
{
	if (*to < from)
		*to = from;
}

/* Every node has its own copy of the ledger, some older than others; all of it only grows. */
static void
ledger_merge(Packrack__Ledger *to, const Packrack__Ledger *from)
{
	raise(&to->last_seq, from->last_seq);
	if (to->last_otime < from->last_otime)
		to->last_otime = from->last_otime;
	if (to->said_until < from->said_until)
		to->said_until = from->said_until;
	raise(&to->dropped_kernel, from->dropped_kernel);
	raise(&to->dropped_interface, from->dropped_interface);
	raise(&to->dropped_ring, from->dropped_ring);
	raise(&to->dropped_no_node, from->dropped_no_node);
	raise(&to->dropped_send, from->dropped_send);
	raise(&to->cut, from->cut);
	if (from->linktype)
		to->linktype = from->linktype;
	if (from->snaplen)
		to->snaplen = from->snaplen;
}

static Packrack__Ledger *
ledger_new(struct prm_completeness *c, const Packrack__Ledger *from)
{
	Packrack__Ledger *l, **grown;

	grown = reallocarray(c->ledgers, c->ledger_count + 1, sizeof(l));
	if (!grown)
		return NULL;
	c->ledgers = grown;
	l = malloc(sizeof(*l));
	if (!l)
		return NULL;
	packrack__ledger__init(l);
	l->epoch = from->epoch;
	l->link = from->link;
	l->last_otime = INT64_MIN;
	l->said_until = INT64_MIN;
	l->name = copy_text(from->name);
	if (!l->name) {
		free(l);
		return NULL;
	}
	c->ledgers[c->ledger_count++] = l;
	return l;
}

static bool
told_add(struct line *line, const Packrack__Ledger *from)
{
	void *grown = reallocarray(line->told, line->told_count + 1, sizeof(*line->told));

	if (!grown)
		return false;
	line->told = grown;
	line->told[line->told_count].said_until = from->said_until;
	line->told[line->told_count].seq = from->last_seq;
	line->told[line->told_count++].ended = from->ended;
	return true;
}

/*
 * A node's ledger declares no more than it has settled. One that is far behind the others hears the
 * dispatcher no more: nobody waits for it.
 */
void
prm_completeness_heard(const struct prm_completeness *c, struct line *line)
{
	bool any = false;

	if (!line->ledger)
		return;
	line->settled = UINT64_MAX;
	line->ledger->ended = true;
	for (size_t i = 0; i < line->told_count; i++) {
		any |= line->told[i].ended;
		if (line->told[i].said_until <
			line->ledger->said_until - PRM_COMPLETENESS_ALIVE_NS)
			continue;
		line->ledger->ended &= line->told[i].ended;
		if (line->settled > line->told[i].seq)
			line->settled = line->told[i].seq;
	}
	/* It ended, and whoever has not heard of it by now will not. */
	if (any && line->ledger->said_until < c->options.now - PRM_COMPLETENESS_ALIVE_NS)
		line->ledger->ended = true;
}

static int
ledger_add(struct prm_completeness *c, const Packrack__Ledger *from, struct pr_error *err)
{
	struct line *line;

	if (from->link > UINT16_MAX)
		return pr_error_set(
			err, "it tells of link %u, which there cannot be", from->link);
	if (from->last_seq == UINT64_MAX)
		return pr_error_set(err, "it tells of more packets than there can be");
	line = prm_completeness_line(c, from->epoch, from->link);
	if (!line)
		return pr_error_set(err, "no memory for its ledgers");
	if (!line->ledger)
		line->ledger = ledger_new(c, from);
	if (!line->ledger)
		return pr_error_set(err, "no memory for its ledgers");
	ledger_merge(line->ledger, from);
	if (!told_add(line, from))
		return pr_error_set(err, "no memory for its ledgers");
	if (c->link && from->name && !strcmp(c->link, from->name))
		line->in_scope = true;
	return 0;
}

int
prm_completeness_end(struct prm_completeness *c, int node, const Packrack__End *end,
	struct pr_error *err)
{
	struct node *n = &c->nodes[node];

	n->ended = true;
	n->limited = end->limit_reached;
	pr_message_copy_numbers(&n->figures.base, &end->base);
	n->corrupt = end->corrupt_records;
	for (size_t i = 0; i < end->n_losses; i++)
		if (loss_add(c, node, end->losses[i], err) < 0)
			return -1;
	for (size_t i = 0; i < end->n_evicted; i++)
		if (evicted_add(c, node, end->evicted[i], err) < 0)
			return -1;
	for (size_t i = 0; i < end->n_ledgers; i++)
		if (ledger_add(c, end->ledgers[i], err) < 0)
			return -1;
	return 0;
}
