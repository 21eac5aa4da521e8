/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/clusters.h"

#include <stdlib.h>
#include <string.h>

#include "merger/duty.h"

/* Bit i of all its columns is byte i. */
struct block {
	char *cluster;
	int64_t interval;
	uint8_t *slices; /* NULL: free */
	unsigned log2;
	uint32_t linktype;
	uint8_t used; /* a bit a column */
};

struct prm_clusters {
	struct block *blocks; /* numbered from 1 */
	size_t count, room, live;
	uint64_t memory, bytes;
};

struct prm_clusters *
prm_clusters_create(uint64_t memory)
{
	struct prm_clusters *c = calloc(1, sizeof(*c));

	if (c)
		c->memory = memory;
	return c;
}

static void
release(struct prm_clusters *c, struct block *b)
{
	if (!b->slices)
		return;
	c->bytes -= (uint64_t)1 << b->log2;
	c->live--;
	free(b->slices);
	free(b->cluster);
	*b = (struct block){0};
}

void
prm_clusters_destroy(struct prm_clusters **cp)
{
	struct prm_clusters *c = *cp;

	*cp = NULL;
	if (!c)
		return;
	for (size_t i = 0; i < c->count; i++)
		release(c, &c->blocks[i]);
	free(c->blocks);
	free(c);
}

/* One with room for a column; the newest are looked at first. */
static struct block *
find(struct prm_clusters *c, const char *cluster, int64_t interval, uint32_t linktype,
	unsigned log2)
{
	for (size_t i = c->count; i-- > 0;) {
		struct block *b = &c->blocks[i];

		if (b->slices && b->used != UINT8_MAX && b->interval == interval &&
			b->log2 == log2 && b->linktype == linktype &&
			!strcmp(b->cluster, cluster))
			return b;
	}
	return NULL;
}

static struct block *
free_block(struct prm_clusters *c)
{
	size_t room = c->room ? 2 * c->room : 64;
	struct block *grown;

	for (size_t i = 0; c->live < c->count && i < c->count; i++)
		if (!c->blocks[i].slices)
			return &c->blocks[i];
	if (c->count == c->room) {
		grown = reallocarray(c->blocks, room, sizeof(*grown));
		if (!grown)
			return NULL;
		c->blocks = grown;
		c->room = room;
	}
	return &c->blocks[c->count++];
}

static struct block *
make(struct prm_clusters *c, const char *cluster, int64_t interval, uint32_t linktype,
	unsigned log2)
{
	uint64_t size = (uint64_t)1 << log2;
	struct block *b = c->bytes + size <= c->memory ? free_block(c) : NULL;

	if (!b)
		return NULL;
	*b = (struct block){.cluster = strdup(cluster),
		.interval = interval,
		.log2 = log2,
		.linktype = linktype,
		.slices = calloc(1, size)};
	if (!b->cluster || !b->slices) {
		free(b->cluster);
		free(b->slices);
		*b = (struct block){0};
		return NULL;
	}
	c->bytes += size;
	c->live++;
	return b;
}

struct prm_clusters_place
prm_clusters_add(struct prm_clusters *c, const char *cluster, int64_t time,
	uint32_t linktype, const struct pr_summary *summary)
{
	int64_t interval = prm_duty_interval(time);
	size_t bits = (size_t)1 << summary->log2;
	unsigned column = 0;
	struct block *b =
		cluster[0] ? find(c, cluster, interval, linktype, summary->log2) : NULL;

	if (!b && cluster[0])
		b = make(c, cluster, interval, linktype, summary->log2);
	if (!b)
		return (struct prm_clusters_place){0};
	while (b->used >> column & 1)
		column++;
	b->used |= (uint8_t)(1u << column);
	for (size_t i = 0; i < bits; i++)
		b->slices[i] |= (uint8_t)((summary->bits[i / 8] >> i % 8 & 1) << column);
	return (struct prm_clusters_place){(uint32_t)(b - c->blocks) + 1, (uint8_t)column};
}

void
prm_clusters_remove(struct prm_clusters *c, struct prm_clusters_place place)
{
	struct block *b = place.block ? &c->blocks[place.block - 1] : NULL;
	uint8_t mask = (uint8_t) ~(1u << place.column);

	if (!b)
		return;
	b->used &= mask;
	if (!b->used) {
		release(c, b);
		return;
	}
	for (size_t i = 0; i < (size_t)1 << b->log2; i++)
		b->slices[i] &= mask;
}

/* ---- asking ---- */

void
prm_clusters_asked_free(struct prm_clusters_asked *asked)
{
	free(asked->said);
	*asked = (struct prm_clusters_asked){0};
}

static bool
room_for(struct prm_clusters_asked *asked, size_t count)
{
	struct prm_clusters_said *grown;

	if (count <= asked->room)
		return true;
	grown = reallocarray(asked->said, count, sizeof(*grown));
	if (!grown)
		return false;
	memset(grown + asked->room, 0, (count - asked->room) * sizeof(*grown));
	asked->said = grown;
	asked->room = count;
	return true;
}

bool
prm_clusters_exclude(const struct prm_clusters *c, struct prm_clusters_place place,
	struct prm_lookups *lookups, struct prm_clusters_asked *asked)
{
	struct prm_clusters_said *said;

	if (!place.block || !room_for(asked, c->count))
		return false;
	said = &asked->said[place.block - 1];
	if (!said->asked) {
		const struct block *b = &c->blocks[place.block - 1];

		*said = (struct prm_clusters_said){.asked = true,
			.may = prm_lookups_may_slices(
				       lookups, b->linktype, b->slices, b->log2) &
			       b->used};
		asked->tested++;
		asked->excluded += !said->may;
	}
	return !(said->may >> place.column & 1);
}

uint64_t
prm_clusters_bytes(const struct prm_clusters *c)
{
	return c->bytes;
}

size_t
prm_clusters_count(const struct prm_clusters *c)
{
	return c->live;
}
