/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/range_builder.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void
pri_range_list_free(struct pri_range_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i].bits);
	free(list->items);
	*list = (struct pri_range_list){0};
}

static struct pri_range *
list_grow(struct pri_range_list *list)
{
	size_t room = list->room ? list->room * 2 : 16;
	struct pri_range *items;

	if (list->count == list->room) {
		items = realloc(list->items, room * sizeof(*items));
		if (!items)
			return NULL;
		list->items = items;
		list->room = room;
	}
	return &list->items[list->count];
}

int
pri_range_builder_end(
	struct pri_range_builder *s, struct pri_range_list *list, struct pr_error *err)
{
	struct pri_range *held;
	uint64_t span = s->last - s->first + 1;

	if (s->last == 0)
		return 0;
	held = list_grow(list);
	if (!held)
		return pr_error_set(err, "no memory for the list of seqs held");
	*held = (struct pri_range){.epoch = s->epoch,
		.link = s->link,
		.first = s->first,
		.last = s->last,
		.first_otime = s->first_otime,
		.last_otime = s->last_otime};
	if (s->held < span) {
		held->bits_len = (size_t)(span + 7) / 8;
		held->bits = malloc(held->bits_len);
		if (!held->bits)
			return pr_error_set(err, "no memory for the list of seqs held");
		memcpy(held->bits, s->bits, held->bits_len);
		list->bytes += held->bits_len;
	}
	list->count++;
	if (s->held < span)
		memset(s->bits, 0, (size_t)(span + 7) / 8);
	s->last = 0;
	return 0;
}

static void
set_bits(uint8_t *bits, uint64_t from, uint64_t to)
{
	for (; from <= to && from % 8; from++)
		bits[from / 8] |= (uint8_t)(1u << from % 8);
	if (from + 7 <= to) {
		memset(bits + from / 8, 0xff, (size_t)(to + 1 - from) / 8);
		from += (to + 1 - from) / 8 * 8;
	}
	for (; from <= to; from++)
		bits[from / 8] |= (uint8_t)(1u << from % 8);
}

/* Without holes there are no bits yet. */
static bool
whole(const struct pri_range_builder *s)
{
	return s->held == s->last - s->first + 1;
}

int
pri_range_builder_add(struct pri_range_builder *s, uint64_t seq, int64_t otime,
	struct pri_range_list *list, struct pr_error *err)
{
	uint64_t at;

	if (s->last && seq <= s->last)
		return 0;
	if (s->last &&
		(seq - s->last > PRI_RANGE_HOLE || seq - s->first >= PRI_RANGE_SPAN) &&
		pri_range_builder_end(s, list, err) < 0)
		return -1;
	if (s->last == 0) {
		s->first = seq;
		s->first_otime = otime;
		s->held = 0;
	}
	at = seq - s->first;
	if (at != s->held) { /* a hole before it, now or earlier */
		if (whole(s))
			set_bits(s->bits, 0, s->last - s->first);
		s->bits[at / 8] |= (uint8_t)(1u << at % 8);
	}
	s->last = seq;
	s->last_otime = otime;
	s->held++;
	return 0;
}

int
pri_range_builder_add_range(struct pri_range_builder *s, uint64_t first, uint64_t last,
	int64_t first_otime, int64_t last_otime, struct pri_range_list *list,
	struct pr_error *err)
{
	uint64_t end;

	if (s->last && first <= s->last)
		first = s->last + 1;
	for (; first <= last; first = end + 1) {
		/* begins a new stretch where it must */
		if (pri_range_builder_add(s, first, first_otime, list, err) < 0)
			return -1;
		end = s->first + PRI_RANGE_SPAN - 1;
		if (end > last)
			end = last;
		if (end > first && !whole(s))
			set_bits(s->bits, first + 1 - s->first, end - s->first);
		s->held += end - first;
		s->last = end;
		s->last_otime = last_otime;
	}
	return 0;
}
