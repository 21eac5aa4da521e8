/* SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "proto/rpc/tally.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"

#define ROOM_FIRST 256

struct pr_tally {
	bool series, by_packets;
	size_t count, room, max; /* room: a power of two; there are twice as many slots */
	struct pr_tally_item *items;
	uint32_t *slots; /* 1 + index; 0 free */
	uint64_t seed; /* so that nobody can choose keys that collide */
	Packrack__Tally sums;
};

struct pr_tally *
pr_tally_create(bool series, bool by_packets, size_t items_max, struct pr_error *err)
{
	struct pr_tally *t = calloc(1, sizeof(*t));

	if (!t)
		return pr_error_null(err, "no memory for counting");
	t->series = series;
	t->by_packets = by_packets;
	t->max = items_max ? items_max : PR_TALLY_ITEMS_MAX;
	packrack__tally__init(&t->sums);
	t->seed = pr_now_mono() ^ (uintptr_t)t;
	return t;
}

void
pr_tally_destroy(struct pr_tally **tally)
{
	struct pr_tally *t = PR_TAKE(tally);

	if (t)
		PR_FREE(t, items, slots);
	free(t);
}

/* ---- the table ---- */

static size_t
slot_of(const struct pr_tally *t, const void *key, size_t len)
{
	size_t mask = 2 * t->room - 1;
	size_t at = XXH3_64bits_withSeed(key, len, t->seed) & mask;

	for (; t->slots[at]; at = (at + 1) & mask) {
		const struct pr_tally_item *item = &t->items[t->slots[at] - 1];

		if (item->len == len && !memcmp(item->key, key, len))
			break;
	}
	return at;
}

static void
fill_slots(struct pr_tally *t)
{
	memset(t->slots, 0, 2 * t->room * sizeof(*t->slots));
	for (size_t i = 0; i < t->count; i++)
		t->slots[slot_of(t, t->items[i].key, t->items[i].len)] = i + 1;
}

void
pr_tally_clear(struct pr_tally *t)
{
	t->count = 0;
	packrack__tally__init(&t->sums);
	if (t->room)
		fill_slots(t);
}

static uint64_t
size_of(const struct pr_tally *t, const struct pr_tally_item *item)
{
	return t->by_packets ? item->packets : item->bytes;
}

/* By key, or the largest first. */
static int
compare(const void *va, const void *vb, void *tally)
{
	const struct pr_tally_item *a = va, *b = vb;
	const struct pr_tally *t = tally;
	bool by_packets = t->by_packets;
	uint64_t size_a = size_of(t, a), size_b = size_of(t, b);
	uint64_t other_a = by_packets ? a->bytes : a->packets;
	uint64_t other_b = by_packets ? b->bytes : b->packets;

	if (!t->series && size_a != size_b)
		return size_a < size_b ? 1 : -1;
	if (!t->series && other_a != other_b)
		return other_a < other_b ? 1 : -1;
	int order = memcmp(a->key, b->key, PR_MIN(a->len, b->len));
	return order ? order : a->len - b->len;
}

/*
 * A class that grows with the figure: the position of the highest bit of figure + 16, and the
 * four bits after it.
 */
#define CLASSES 1024
static unsigned
class_of(uint64_t figure)
{
	uint64_t v = figure < UINT64_MAX - 16 ? figure + 16 : UINT64_MAX;
	unsigned last = 63 - __builtin_clzll(v);

	return last * 16 + (v >> (last - 4) & 15);
}

/* The class of the group of this rank: so many have more. */
static unsigned
class_at(const struct pr_tally *t, size_t rank)
{
	uint32_t counts[CLASSES] = {0};
	unsigned class = CLASSES - 1;

	for (size_t i = 0; i < t->count; i++)
		counts[class_of(size_of(t, &t->items[i]))]++;
	for (; rank >= counts[class]; class --)
		rank -= counts[class];
	return class;
}

/* The median of the deciding figures, or up to a sixteenth more: they are sorted by class only. */
static uint64_t
median(const struct pr_tally *t)
{
	unsigned class = class_at(t, t->count / 2);
	uint64_t most = 0;

	for (size_t i = 0; i < t->count; i++) {
		uint64_t size = size_of(t, &t->items[i]);

		if (size > most && class_of(size) == class)
			most = size;
	}
	return most;
}

/* Brings the first `best` items to the front, in order. */
static void
sort(struct pr_tally *t, size_t best)
{
	size_t count = t->count;

	if (!t->series && best < t->count) {
		unsigned class = class_at(t, best);

		count = 0;
		for (size_t i = 0; i < t->count; i++)
			if (class_of(size_of(t, &t->items[i])) >= class) {
				struct pr_tally_item item = t->items[i];

				t->items[i] = t->items[count];
				t->items[count++] = item;
			}
	}
	if (count)
		qsort_r(t->items, count, sizeof(*t->items), compare, t);
}

/*
 * Too many groups: subtracts the median of the deciding figure from every group, drops the groups at or below
 * it, and adds the median to that figure's slack. The slack of the other figure grows by the largest value
 * dropped.
 */
static void
make_room(struct pr_tally *t)
{
	uint64_t off = median(t), bytes = 0, packets = 0;
	size_t kept = 0;

	for (size_t i = 0; i < t->count; i++) {
		struct pr_tally_item *item = &t->items[i];

		if (size_of(t, item) > off) {
			*(t->by_packets ? &item->packets : &item->bytes) -= off;
			t->items[kept++] = *item;
		} else {
			packets = PR_MAX(packets, item->packets);
			bytes = PR_MAX(bytes, item->bytes);
		}
	}
	t->sums.slack_packets += t->by_packets ? off : packets;
	t->sums.slack_bytes += t->by_packets ? bytes : off;
	t->count = kept;
	fill_slots(t);
}

/* Room for one more. */
static int
prepare(struct pr_tally *t, struct pr_error *err)
{
	size_t room = t->room ? 2 * t->room : ROOM_FIRST;

	if (t->count >= t->max) {
		if (t->series)
			return pr_error_set(err,
				"more than %zu intervals have packets: choose a longer "
				"--step, or a shorter time range",
				t->max);
		make_room(t);
		return 0;
	}
	if (t->count < t->room)
		return 0;
	struct pr_tally_item *items = reallocarray(t->items, room, sizeof(*items));
	if (items)
		t->items = items;
	uint32_t *slots = items ? reallocarray(t->slots, 2 * room, sizeof(*slots)) : NULL;
	if (!slots)
		return pr_error_set(err, "no memory for counting %zu groups", room);
	t->slots = slots;
	t->room = room;
	fill_slots(t);
	return 0;
}

static struct pr_tally_item *
find(struct pr_tally *t, const void *key, size_t len, struct pr_error *err)
{
	if (len == 0 || len > PR_TALLY_KEY_MAX)
		return pr_error_null(err, "a group's key of %zu bytes", len);
	size_t at = t->room ? slot_of(t, key, len) : 0;
	if (t->room && t->slots[at])
		return &t->items[t->slots[at] - 1];
	if (prepare(t, err) < 0)
		return NULL;
	at = slot_of(t, key, len);
	struct pr_tally_item *item = &t->items[t->count++];
	t->slots[at] = t->count;
	*item = (struct pr_tally_item){.len = len};
	memcpy(item->key, key, len);
	return item;
}

int
pr_tally_add(struct pr_tally *t, const void *key, size_t len, uint64_t packets,
	uint64_t bytes, struct pr_error *err)
{
	struct pr_tally_item *item = find(t, key, len, err);

	if (!item)
		return -1;
	item->packets += packets;
	item->bytes += bytes;
	return 0;
}

int
pr_tally_add_less(struct pr_tally *t, const void *key, size_t len,
	const struct pr_tally_item *figures, struct pr_error *err)
{
	struct pr_tally_item *item = find(t, key, len, err);

	if (!item)
		return -1;
	PR_ADD(item, figures, packets, bytes, less_packets, less_bytes);
	return 0;
}

void
pr_tally_sum(struct pr_tally *t, const Packrack__Tally *more)
{
	PR_ADD(&t->sums, more, packets, bytes, slack_packets, slack_bytes, left_out);
	t->sums.most_packets = PR_MAX(t->sums.most_packets, more->most_packets);
	t->sums.most_bytes = PR_MAX(t->sums.most_bytes, more->most_bytes);
}

void
pr_tally_cut(struct pr_tally *t, size_t best)
{
	sort(t, best);
	for (size_t i = best; i < t->count; i++) {
		t->sums.most_packets = PR_MAX(
			t->sums.most_packets, pr_tally_most_packets(t, &t->items[i]));
		t->sums.most_bytes =
			PR_MAX(t->sums.most_bytes, pr_tally_most_bytes(t, &t->items[i]));
		t->sums.left_out++;
	}
	t->count = PR_MIN(best, t->count);
	if (t->room)
		fill_slots(t);
}

const struct pr_tally_item *
pr_tally_items(const struct pr_tally *t, size_t *count)
{
	*count = t->count;
	return t->items;
}

const Packrack__Tally *
pr_tally_total(const struct pr_tally *t)
{
	return &t->sums;
}

/* Values from other machines may be wrong: a bound is never below the count. */
static uint64_t
most(uint64_t least, uint64_t slack, uint64_t less)
{
	uint64_t sum;

	if (less >= slack)
		return least;
	return __builtin_add_overflow(least, slack - less, &sum) ? UINT64_MAX : sum;
}

uint64_t
pr_tally_most_packets(const struct pr_tally *t, const struct pr_tally_item *item)
{
	return most(item->packets, t->sums.slack_packets, item->less_packets);
}

uint64_t
pr_tally_most_bytes(const struct pr_tally *t, const struct pr_tally_item *item)
{
	return most(item->bytes, t->sums.slack_bytes, item->less_bytes);
}

/* ---- as messages ---- */

int
pr_tally_take(struct pr_tally *t, const Packrack__Tally *part, struct pr_error *err)
{
	pr_tally_sum(t, part);
	for (size_t i = 0; i < part->n_groups; i++) {
		const Packrack__TallyGroup *g = part->groups[i];
		struct pr_tally_item item = {0};

		PR_COPY(&item, g, packets, bytes, less_packets, less_bytes);
		if (pr_tally_add_less(t, g->key.data, g->key.len, &item, err) < 0)
			return -1;
	}
	return 0;
}

/* *at: groups given and 1 for the sums. */
int
pr_tally_next_part(const struct pr_tally *t, size_t *at, struct pr_tally_part *part,
	struct pr_error *err)
{
	size_t given = *at ? *at - 1 : 0, n = t->count - given;

	if (*at && !n)
		return 0;
	if (!part->groups) {
		part->groups = calloc(PR_TALLY_PART, sizeof(*part->groups));
		part->pointers = calloc(PR_TALLY_PART, sizeof(*part->pointers));
	}
	if (!part->groups || !part->pointers) {
		pr_tally_part_free(part);
		return pr_error_set(err, "no memory for sending what was counted");
	}
	packrack__tally__init(&part->message);
	if (!*at)
		part->message = t->sums;
	n = PR_MIN(n, PR_TALLY_PART);
	for (size_t i = 0; i < n; i++) {
		const struct pr_tally_item *item = &t->items[given + i];
		Packrack__TallyGroup *g = &part->groups[i];

		packrack__tally_group__init(g);
		g->key = (ProtobufCBinaryData){item->len, (uint8_t *)item->key};
		PR_COPY(g, item, packets, bytes, less_packets, less_bytes);
		part->pointers[i] = g;
	}
	part->message.groups = part->pointers;
	part->message.n_groups = n;
	*at = 1 + given + n;
	return 1;
}

void
pr_tally_part_free(struct pr_tally_part *part)
{
	PR_FREE(part, groups, pointers);
	*part = (struct pr_tally_part){.groups = NULL};
}
