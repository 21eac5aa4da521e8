/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/store.h"

#include <stdlib.h>
#include <string.h>

#include "dispatcher/nodes.h"

/*
 * Positions count bytes for ever, modulo size; 0 stands for none, so they start at size. An item
 * names the position of the one before it of the same (node, link): newest first, a RESEND walks
 * few of them, as it comes soon.
 */
struct item {
	struct prd_log_meta meta;
	uint64_t before;
	int64_t at;
	uint32_t len, total; /* total: with this header and padding */
	uint8_t body[];
};

struct line {
	uint64_t number, first_seq, last_seq;
	int64_t first_time, last_time;
	uint32_t nonce, count;
};

struct series {
	uint64_t newest;
	struct line *lines; /* made when the first log goes */
	uint64_t gone; /* lines written */
};

struct prd_store {
	uint8_t *mem;
	size_t size;
	uint64_t head, tail;
	int64_t keep;
	unsigned links;
	struct series *series; /* node * links + link */
};

struct prd_store *
prd_store_create(size_t size, int64_t keep, unsigned links, struct pr_error *err)
{
	struct prd_store *store = calloc(1, sizeof *store);

	size &= ~(size_t)7;
	if (store) {
		store->mem = malloc(size);
		store->series =
			calloc((size_t)PRD_NODES_MAX * links, sizeof *store->series);
	}
	if (!store || !store->mem || !store->series) {
		pr_error_set(err, "no memory to keep %zu bytes of timestamp logs", size);
		prd_store_destroy(&store);
		return NULL;
	}
	store->size = size;
	store->head = store->tail = size;
	store->keep = keep;
	store->links = links;
	return store;
}

void
prd_store_destroy(struct prd_store **store)
{
	struct prd_store *s = *store;

	*store = NULL;
	if (!s)
		return;
	for (size_t i = 0; s->series && i < (size_t)PRD_NODES_MAX * s->links; i++)
		free(s->series[i].lines);
	free(s->series);
	free(s->mem);
	free(s);
}

static struct series *
series_of(const struct prd_store *store, const struct prd_log_meta *meta)
{
	return &store->series[(size_t)meta->node * store->links + meta->link];
}

static struct item *
item_at(const struct prd_store *store, uint64_t pos)
{
	return (struct item *)(void *)(store->mem + pos % store->size);
}

static void
line_write(struct series *series, const struct prd_log_meta *meta)
{
	struct line *line;

	if (!series->lines)
		series->lines = calloc(PRD_STORE_LINES, sizeof *series->lines);
	if (!series->lines)
		return;
	line = &series->lines[series->gone++ % PRD_STORE_LINES];
	*line = (struct line){.number = meta->number,
		.first_seq = meta->first_seq,
		.last_seq = meta->last_seq,
		.first_time = meta->first_time,
		.last_time = meta->last_time,
		.nonce = meta->nonce,
		.count = meta->count};
}

/* An item may not cross the end of the memory: a gap item fills what is left there. */
static void
store_drop_oldest(struct prd_store *store)
{
	struct item *item = item_at(store, store->tail);
	size_t to_end = store->size - store->tail % store->size;

	if (to_end < sizeof *item || item->total == 0) {
		store->tail += to_end;
		return;
	}
	line_write(series_of(store, &item->meta), &item->meta);
	store->tail += item->total;
}

static void
store_make_room(struct prd_store *store, size_t total)
{
	size_t to_end = store->size - store->head % store->size;
	size_t need = to_end < total ? to_end + total : total;

	while (store->head + need - store->tail > store->size)
		store_drop_oldest(store);
	if (to_end >= total)
		return;
	if (to_end >= sizeof(struct item))
		item_at(store, store->head)->total = 0;
	store->head += to_end;
}

void
prd_store_put(struct prd_store *store, const struct prd_log_meta *meta, const void *body,
	size_t len, int64_t now)
{
	size_t total = (sizeof(struct item) + len + 7) & ~(size_t)7;
	struct series *series = series_of(store, meta);
	struct item *item;

	if (total > store->size / 2) {
		line_write(series, meta);
		return;
	}
	store_make_room(store, total);
	item = item_at(store, store->head);
	item->meta = *meta;
	item->before = series->newest;
	item->at = now;
	item->len = (uint32_t)len;
	item->total = (uint32_t)total;
	memcpy(item->body, body, len);
	series->newest = store->head;
	store->head += total;
}

/* Drops what is too old, so that all that is left may be given. */
static void
store_expire(struct prd_store *store, int64_t now)
{
	while (store->tail < store->head) {
		size_t to_end = store->size - store->tail % store->size;
		const struct item *item = item_at(store, store->tail);

		if (to_end >= sizeof *item && item->total != 0 &&
			now - item->at < store->keep)
			return;
		store_drop_oldest(store);
	}
}

size_t
prd_store_find(struct prd_store *store, const struct prd_log_meta *which, uint64_t last,
	int64_t now, struct prd_stored *found, size_t max, uint64_t *lowest)
{
	uint64_t pos, first = which->number;
	size_t n = 0;

	store_expire(store, now);
	*lowest = last + 1;
	/* newest first; when there are more than max, the older ones win */
	for (pos = series_of(store, which)->newest; pos >= store->tail && pos != 0;) {
		const struct item *item = item_at(store, pos);

		pos = item->before;
		if (item->meta.nonce != which->nonce || item->meta.number < first)
			break;
		if (item->meta.number > last)
			continue;
		*lowest = item->meta.number;
		if (n == max)
			memmove(found, found + 1, --n * sizeof *found);
		found[n++] = (struct prd_stored){&item->meta, item->body, item->len};
	}
	for (size_t i = 0; i < n / 2; i++) {
		struct prd_stored swap = found[i];

		found[i] = found[n - 1 - i];
		found[n - 1 - i] = swap;
	}
	return n;
}

void
prd_store_gone(const struct prd_store *store, const struct prd_log_meta *which,
	uint64_t last, struct pr_gone *out)
{
	const struct series *series = series_of(store, which);
	uint64_t kept = series->gone < PRD_STORE_LINES ? series->gone : PRD_STORE_LINES;
	uint64_t known = 0;

	*out = (struct pr_gone){
		.link = which->link, .first_log = which->number, .last_log = last};
	for (uint64_t i = series->gone - kept; series->lines && i < series->gone; i++) {
		const struct line *line = &series->lines[i % PRD_STORE_LINES];

		if (line->nonce != which->nonce || line->number < which->number ||
			line->number > last)
			continue;
		if (known++ == 0) {
			out->first_seq = line->first_seq;
			out->first_time = line->first_time;
		}
		out->last_seq = line->last_seq;
		out->last_time = line->last_time;
		out->count += line->count;
	}
	if (known != last - which->number + 1)
		*out = (struct pr_gone){
			.link = which->link, .first_log = which->number, .last_log = last};
}

size_t
prd_store_used(const struct prd_store *store)
{
	return (size_t)(store->head - store->tail);
}
