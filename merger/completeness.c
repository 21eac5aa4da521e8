/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/completeness_internal.h"

#include <stdlib.h>
#include <string.h>

#define SWEEP_BYTES_DEFAULT (1024 * 1024)
#define TABLE_START 64
#define NODES_MAX 4096

bool
prm_completeness_grow(void **items, size_t count, size_t *room, size_t size)
{
	size_t want = *room ? *room * 2 : 8;
	void *grown;

	if (count < *room)
		return true;
	grown = reallocarray(*items, want, size);
	if (!grown)
		return false;
	*items = grown;
	*room = want;
	return true;
}

struct prm_completeness *
prm_completeness_create(
	const struct prm_completeness_options *options, struct pr_error *err)
{
	struct prm_completeness *c = calloc(1, sizeof(*c));

	if (c)
		c->table = calloc(TABLE_START, sizeof(*c->table));
	if (c && options->link && options->link[0])
		c->link = strdup(options->link);
	if (!c || !c->table || (options->link && options->link[0] && !c->link)) {
		prm_completeness_destroy(&c);
		pr_error_set(err, "no memory for the completeness of an answer");
		return NULL;
	}
	c->table_size = TABLE_START;
	c->options = *options;
	c->options.link = c->link;
	if (!c->options.sweep_bytes)
		c->options.sweep_bytes = SWEEP_BYTES_DEFAULT;
	return c;
}

static void
line_free(struct line *line)
{
	for (size_t i = 0; i < line->count; i++)
		free(line->pieces[i].bits);
	free(line->pieces);
	free(line->told);
}

void
prm_completeness_destroy(struct prm_completeness **cp)
{
	struct prm_completeness *c = *cp;

	*cp = NULL;
	if (!c)
		return;
	for (size_t i = 0; i < c->line_count; i++)
		line_free(&c->lines[i]);
	for (size_t i = 0; i < c->node_count; i++) {
		free(c->nodes[i].name);
		free(c->nodes[i].error);
		free(c->nodes[i].why);
	}
	for (size_t i = 0; i < c->loss_count; i++)
		free(c->losses[i].reason);
	for (size_t i = 0; i < c->evicted_count; i++)
		packrack__evicted__free_unpacked(c->evicted[i], NULL);
	for (size_t i = 0; i < c->ledger_count; i++)
		packrack__ledger__free_unpacked(c->ledgers[i], NULL);
	free(c->evicted);
	free(c->ledgers);
	free(c->losses);
	free(c->holes);
	free(c->nodes);
	free(c->lines);
	free(c->table);
	free(c->active);
	free(c->link);
	free(c);
}

int
prm_completeness_node(struct prm_completeness *c, const char *name, struct pr_error *err)
{
	struct node *grown;

	if (c->node_count >= NODES_MAX)
		return pr_error_set(err, "more than %d nodes in one query", NODES_MAX);
	grown = reallocarray(c->nodes, c->node_count + 1, sizeof(*grown));
	if (!grown)
		return pr_error_set(err, "no memory for node %s", name);
	c->nodes = grown;
	c->nodes[c->node_count] = (struct node){.name = strdup(name),
		.frontier = INT64_MIN,
		.figures = PACKRACK__NODE_ANSWER__INIT};
	if (!c->nodes[c->node_count].name)
		return pr_error_set(err, "no memory for node %s", name);
	return (int)c->node_count++;
}

void
prm_completeness_why(struct prm_completeness *c, int node, const char *why, bool left_out)
{
	struct node *n = &c->nodes[node];

	free(n->why);
	n->why = strdup(why);
	n->left_out = left_out;
	c->failed_memory |= !n->why;
}

static size_t
slot_of(uint64_t epoch, uint32_t link, size_t size)
{
	uint64_t h = (epoch ^ (uint64_t)link * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;

	return (size_t)(h >> 32) & (size - 1);
}

static bool
table_grow(struct prm_completeness *c)
{
	size_t size = c->table_size * 2, *table;

	if ((c->line_count + 1) * 2 < c->table_size)
		return true;
	table = calloc(size, sizeof(*table));
	if (!table)
		return false;
	for (size_t i = 0; i < c->line_count; i++) {
		size_t at = slot_of(c->lines[i].epoch, c->lines[i].link, size);

		while (table[at])
			at = (at + 1) & (size - 1);
		table[at] = i + 1;
	}
	free(c->table);
	c->table = table;
	c->table_size = size;
	return true;
}

static bool
link_is(const char *wanted, uint32_t link)
{
	char *end;
	unsigned long number = strtoul(wanted, &end, 10);

	return end != wanted && !*end && number == link;
}

struct line *
prm_completeness_line(struct prm_completeness *c, uint64_t epoch, uint32_t link)
{
	size_t at;

	if (!table_grow(c))
		return NULL;
	at = slot_of(epoch, link, c->table_size);
	for (; c->table[at]; at = (at + 1) & (c->table_size - 1)) {
		struct line *line = &c->lines[c->table[at] - 1];

		if (line->epoch == epoch && line->link == link)
			return line;
	}
	if (c->line_count >= PRM_COMPLETENESS_LINES_MAX ||
		!prm_completeness_grow((void **)&c->lines, c->line_count, &c->line_room,
			sizeof(*c->lines)))
		return NULL;
	c->lines[c->line_count] = (struct line){.epoch = epoch,
		.link = link,
		.in_scope = !c->link || link_is(c->link, link)};
	c->table[at] = c->line_count + 1;
	return &c->lines[c->line_count++];
}

/* Pieces come nearly in order, so the place is found from the end. */
static bool
piece_insert(struct line *line, const struct piece *piece)
{
	size_t at;

	if (!prm_completeness_grow(
		    (void **)&line->pieces, line->count, &line->room, sizeof(*piece)))
		return false;
	at = line->count++;
	for (; at && line->pieces[at - 1].first > piece->first; at--)
		line->pieces[at] = line->pieces[at - 1];
	line->pieces[at] = *piece;
	return true;
}

static int
held_check(const Packrack__Held *h, struct pr_error *err)
{
	uint64_t span = h->last - h->first;

	if (h->first < 1 || h->last < h->first || h->last == UINT64_MAX ||
		h->link > UINT16_MAX || h->first_otime > h->last_otime)
		return pr_error_set(err, "it tells a stretch of seqs that makes no sense");
	if (h->bits.len && h->bits.len != span / 8 + 1)
		return pr_error_set(err, "it tells %llu seqs with %zu bytes of bits",
			(unsigned long long)span + 1, h->bits.len);
	return 0;
}

static int
held_add(struct prm_completeness *c, const Packrack__Held *h, struct pr_error *err)
{
	struct piece piece = {h->first, h->last, h->first_otime, h->last_otime, NULL};
	struct line *line;

	if (held_check(h, err) < 0)
		return -1;
	line = prm_completeness_line(c, h->epoch, h->link);
	if (!line)
		goto no_memory;
	line->in_scope = true; /* told, so asked for, whatever the link's name */
	if (h->last <= line->judged)
		return 0; /* too late to count: that seqs are missing has been settled */
	if (h->bits.len) {
		piece.bits = malloc(h->bits.len);
		if (!piece.bits)
			goto no_memory;
		memcpy(piece.bits, h->bits.data, h->bits.len);
	}
	if (!piece_insert(line, &piece)) {
		free(piece.bits);
		goto no_memory;
	}
	c->bytes += sizeof(piece) + h->bits.len;
	return 0;
no_memory:
	return pr_error_set(err, "no memory for what it holds");
}

static int
edge_add(struct prm_completeness *c, const Packrack__Held *h, struct pr_error *err)
{
	struct line *line;

	if (held_check(h, err) < 0)
		return -1;
	line = prm_completeness_line(c, h->epoch, h->link);
	if (!line)
		return pr_error_set(err, "no memory for what it holds");
	if (h->last_otime < c->options.since && h->last > line->below.seq)
		line->below = (struct point){h->last, h->last_otime};
	else if (h->first_otime > c->options.until &&
		 (!line->above.seq || h->first < line->above.seq))
		line->above = (struct point){h->first, h->first_otime};
	return 0;
}

int64_t
prm_completeness_frontier(const struct prm_completeness *c)
{
	int64_t least = INT64_MAX;

	for (size_t i = 0; i < c->node_count; i++)
		if ((!c->nodes[i].ended || c->nodes[i].limited) &&
			c->nodes[i].frontier < least)
			least = c->nodes[i].frontier;
	return least;
}

static void
sweep_all(struct prm_completeness *c)
{
	int64_t frontier = prm_completeness_frontier(c);

	for (size_t i = 0; i < c->line_count; i++)
		prm_completeness_settle(c, &c->lines[i], frontier);
}

int
prm_completeness_batch(struct prm_completeness *c, int node, const Packrack__Batch *batch,
	struct pr_error *err)
{
	for (size_t i = 0; i < batch->n_edge; i++)
		if (edge_add(c, batch->edge[i], err) < 0)
			return -1;
	for (size_t i = 0; i < batch->n_held; i++)
		if (held_add(c, batch->held[i], err) < 0)
			return -1;
	if (batch->frontier && batch->frontier > c->nodes[node].frontier)
		c->nodes[node].frontier = batch->frontier;
	if (c->bytes > c->options.sweep_bytes)
		sweep_all(c);
	return 0;
}

void
prm_completeness_failed(struct prm_completeness *c, int node, const char *why)
{
	struct node *n = &c->nodes[node];

	n->ended = true;
	if (!n->error)
		n->error = strdup(why);
	if (!n->error)
		c->failed_memory = true;
}

void
prm_completeness_cut(struct prm_completeness *c, int64_t otime)
{
	c->cut = true;
	c->cut_otime = otime;
}

size_t
prm_completeness_bytes(const struct prm_completeness *c)
{
	return c->bytes;
}

bool
prm_completeness_slowest(const struct prm_completeness *c, int node)
{
	return c->nodes[node].frontier <= prm_completeness_frontier(c);
}

uint64_t
prm_completeness_doubles(const struct prm_completeness *c)
{
	return c->told - c->held;
}

void
prm_completeness_loose(struct prm_completeness *c)
{
	c->loose = true;
}

bool
prm_completeness_clip(const struct line *line, uint64_t *first, uint64_t *last)
{
	if (*first <= line->below.seq)
		*first = line->below.seq + 1;
	if (line->above.seq && *last >= line->above.seq)
		*last = line->above.seq - 1;
	return *first <= *last;
}

void
prm_completeness_hole(struct prm_completeness *c, size_t line, uint64_t first,
	uint64_t last, int64_t low, int64_t high)
{
	if (!prm_completeness_clip(&c->lines[line], &first, &last))
		return;
	if (c->hole_count >= PRM_COMPLETENESS_HOLES_MAX ||
		!prm_completeness_grow((void **)&c->holes, c->hole_count, &c->hole_room,
			sizeof(*c->holes))) {
		c->surplus_packets += last - first + 1;
		c->surplus_ranges++;
		return;
	}
	c->holes[c->hole_count++] = (struct hole){line, first, last, low, high};
}
