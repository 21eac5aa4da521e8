/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/catalog.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct pri_segment_entry) <= 104, "the catalog's share of memory");

/* ---- lanes ---- */

/* Both are of one run, so otime and seq decide. */
static bool
follows(const struct pri_segment_entry *last, const struct pri_segment_entry *next)
{
	if (next->first_otime != last->last_otime)
		return next->first_otime > last->last_otime;
	return next->first_seq > pri_entry_last_seq(last);
}

static bool
lane_takes(const struct pri_sorted_run *lane, const struct pri_segment_entry *entry)
{
	return lane->count == 0 ||
	       follows(&lane->items[lane->head + lane->count - 1], entry);
}

/* Expired entries leave room at the front: use it before growing. */
static int
lane_make_room(struct pri_sorted_run *lane)
{
	struct pri_segment_entry *items;
	size_t room;

	if (lane->head + lane->count < lane->room)
		return 0;
	if (lane->head > lane->room / 4) {
		memmove(lane->items, lane->items + lane->head,
			lane->count * sizeof(*lane->items));
		lane->head = 0;
		return 0;
	}
	room = lane->room ? lane->room + lane->room / 2 : 8;
	items = realloc(lane->items, room * sizeof(*items));
	if (!items)
		return -1;
	lane->items = items;
	lane->room = room;
	return 0;
}

static int
lane_append(struct pri_sorted_run *lane, const struct pri_segment_entry *entry)
{
	int64_t back;

	if (lane_make_room(lane) < 0)
		return -1;
	lane->items[lane->head + lane->count++] = *entry;
	if (__builtin_sub_overflow(entry->first_otime, entry->min_time, &back))
		back = INT64_MAX;
	if (back > lane->most_back)
		lane->most_back = back;
	if (lane->count == 1 || entry->max_time > lane->max_time)
		lane->max_time = entry->max_time;
	return 0;
}

static struct pri_sorted_run *
run_new_lane(struct pri_epoch_series *run)
{
	struct pri_sorted_run **lanes, *lane;

	lanes = realloc(run->lanes, (run->lane_count + 1) * sizeof(*lanes));
	if (!lanes)
		return NULL;
	run->lanes = lanes;
	lane = calloc(1, sizeof(*lane));
	if (lane)
		lanes[run->lane_count++] = lane;
	return lane;
}

static struct pri_sorted_run *
run_lane_for(struct pri_epoch_series *run, const struct pri_segment_entry *entry)
{
	for (size_t i = 0; i < run->lane_count; i++)
		if (lane_takes(run->lanes[i], entry))
			return run->lanes[i];
	return run_new_lane(run);
}

const struct pri_segment_entry *
pri_sorted_run_first(const struct pri_sorted_run *lane)
{
	const struct pri_segment_entry *items = lane->items + lane->head;

	for (size_t i = 0; i < lane->count; i++)
		if (!items[i].deleted)
			return &items[i];
	return NULL;
}

uint64_t
pri_sorted_run_search(const struct pri_sorted_run *lane, int64_t otime)
{
	const struct pri_segment_entry *items = lane->items + lane->head;
	size_t low = 0, high = lane->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (items[mid].last_otime >= otime)
			high = mid;
		else
			low = mid + 1;
	}
	return lane->base + low;
}

/* ---- the catalog ---- */

int
pri_catalog_add(struct pri_catalog *catalog, struct pri_epoch_series *run,
	const struct pri_segment_entry *entry, struct pr_error *err)
{
	struct pri_sorted_run *lane = run_lane_for(run, entry);

	if (!lane || lane_append(lane, entry) < 0)
		return pr_error_set(err, "no memory for the list of %llu segments",
			(unsigned long long)catalog->segments);
	run->segments++;
	run->packets += entry->count;
	run->bytes += entry->handle.length;
	catalog->segments++;
	catalog->packets += entry->count;
	catalog->bytes += entry->handle.length;
	return 0;
}

static void
take_off(struct pri_catalog *catalog, struct pri_epoch_series *run,
	const struct pri_segment_entry *entry)
{
	run->segments--;
	run->packets -= entry->count;
	run->bytes -= entry->handle.length;
	catalog->segments--;
	catalog->packets -= entry->count;
	catalog->bytes -= entry->handle.length;
}

static void
lane_drop_first(struct pri_catalog *catalog, struct pri_epoch_series *run,
	struct pri_sorted_run *lane)
{
	const struct pri_segment_entry *entry = &lane->items[lane->head];

	if (pri_entry_last_seq(entry) > run->evicted_seq) {
		run->evicted_seq = pri_entry_last_seq(entry);
		run->evicted_otime = entry->last_otime;
	}
	if (!entry->deleted)
		take_off(catalog, run, entry);
	lane->head++;
	lane->base++;
	if (--lane->count == 0)
		lane->head = 0;
}

void
pri_catalog_expire(struct pri_catalog *catalog, uint32_t stream, uint64_t first_sequence)
{
	for (size_t i = 0; i < catalog->run_count; i++) {
		struct pri_epoch_series *run = catalog->runs[i];
		if (run->stream != stream)
			continue;
		for (size_t j = 0; j < run->lane_count; j++) {
			struct pri_sorted_run *lane = run->lanes[j];
			while (lane->count &&
				lane->items[lane->head].sequence < first_sequence)
				lane_drop_first(catalog, run, lane);
		}
	}
}

/* The first of this sequence or a later one; lane->count: none. */
static size_t
lane_find(const struct pri_sorted_run *lane, uint64_t sequence)
{
	const struct pri_segment_entry *items = lane->items + lane->head;
	size_t low = 0, high = lane->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (items[mid].sequence >= sequence)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

static void
lane_delete(struct pri_catalog *catalog, struct pri_epoch_series *run,
	struct pri_sorted_run *lane, uint64_t first, uint64_t last)
{
	struct pri_segment_entry *items = lane->items + lane->head;
	bool any = false;

	for (size_t at = lane_find(lane, first);
		at < lane->count && items[at].sequence <= last; at++) {
		if (items[at].deleted)
			continue;
		take_off(catalog, run, &items[at]);
		items[at].deleted = any = true;
	}
	if (!any)
		return;
	lane->max_time = INT64_MIN;
	for (size_t at = 0; at < lane->count; at++)
		if (!items[at].deleted && items[at].max_time > lane->max_time)
			lane->max_time = items[at].max_time;
}

void
pri_catalog_delete(
	struct pri_catalog *catalog, uint32_t stream, uint64_t first, uint64_t last)
{
	for (size_t i = 0; i < catalog->run_count; i++) {
		struct pri_epoch_series *run = catalog->runs[i];
		for (size_t j = 0; run->stream == stream && j < run->lane_count; j++)
			lane_delete(catalog, run, run->lanes[j], first, last);
	}
}

static const struct pri_segment_entry *
lane_sequence(const struct pri_sorted_run *lane, uint64_t sequence)
{
	const struct pri_segment_entry *items = lane->items + lane->head;
	size_t at = lane_find(lane, sequence);

	return at < lane->count && items[at].sequence == sequence ? &items[at] : NULL;
}

static void
span_add(struct pr_summary_span *span, const struct pri_segment_entry *e)
{
	const struct pr_summary_span one = {.first_sequence = e->sequence,
		.segments = 1,
		.link = span->link,
		.epoch = span->epoch,
		.first_seq = e->first_seq,
		.last_seq = pri_entry_last_seq(e),
		.packets = e->count,
		.first_otime = e->first_otime,
		.last_otime = e->last_otime,
		.min_time = e->min_time,
		.max_time = e->max_time};

	pr_summary_span_unite(span, &one);
}

size_t
pri_catalog_spans(const struct pri_catalog *catalog, uint32_t stream, uint64_t from,
	uint64_t to, struct pr_summary_span *out, size_t max, uint64_t *found)
{
	size_t count = 0;

	*found = 0;
	for (size_t i = 0; i < catalog->run_count && count < max; i++) {
		const struct pri_epoch_series *run = catalog->runs[i];
		struct pr_summary_span span = {.link = run->link, .epoch = run->epoch};

		for (size_t j = 0; run->stream == stream && j < run->lane_count; j++) {
			const struct pri_sorted_run *lane = run->lanes[j];
			const struct pri_segment_entry *items = lane->items + lane->head;
			size_t at = lane_find(lane, from);

			for (; at < lane->count && items[at].sequence <= to; at++)
				span_add(&span, &items[at]);
		}
		*found += span.segments;
		if (span.segments)
			out[count++] = span;
	}
	return count;
}

const struct sfs_handle *
pri_catalog_handle(const struct pri_catalog *catalog, uint32_t stream, uint64_t sequence)
{
	const struct pri_segment_entry *e = NULL;

	for (size_t i = catalog->run_count; !e && i-- > 0;) {
		const struct pri_epoch_series *run = catalog->runs[i];
		for (size_t j = 0; run->stream == stream && !e && j < run->lane_count; j++)
			e = lane_sequence(run->lanes[j], sequence);
	}
	return e ? &e->handle : NULL;
}

static struct pri_epoch_series *
new_run(struct pri_catalog *catalog)
{
	struct pri_epoch_series **runs, *run;
	size_t room = catalog->run_room ? catalog->run_room * 2 : 16;

	if (catalog->run_count == catalog->run_room) {
		runs = realloc(catalog->runs, room * sizeof(*runs));
		if (!runs)
			return NULL;
		catalog->runs = runs;
		catalog->run_room = room;
	}
	run = calloc(1, sizeof(*run));
	if (run)
		catalog->runs[catalog->run_count++] = run;
	return run;
}

/* From the newest back: the one that is being written is the one that is asked for. */
struct pri_epoch_series *
pri_catalog_series(struct pri_catalog *catalog, uint32_t stream, bool strays,
	uint64_t epoch, uint16_t link)
{
	struct pri_epoch_series *run;

	for (size_t i = catalog->run_count; i-- > 0;) {
		run = catalog->runs[i];
		if (run->epoch == epoch && run->link == link && run->stream == stream)
			return run;
	}
	run = new_run(catalog);
	if (!run)
		return NULL;
	run->epoch = epoch;
	run->link = link;
	run->strays = strays;
	run->stream = stream;
	return run;
}

/* All of millions of entries every two seconds would be too much: the oldest few must do. */
#define OLDEST_LOOKED_AT 64

static void
lane_times(const struct pri_sorted_run *lane, int64_t *first, int64_t *last)
{
	size_t looked = 0;

	for (size_t i = 0; i < lane->count && looked < OLDEST_LOOKED_AT; i++) {
		const struct pri_segment_entry *e = &lane->items[lane->head + i];

		looked += !e->deleted;
		if (!e->deleted && e->min_time < *first)
			*first = e->min_time;
	}
	if (looked && lane->max_time > *last)
		*last = lane->max_time;
}

bool
pri_catalog_times(const struct pri_catalog *catalog, int64_t *first, int64_t *last)
{
	int64_t low = INT64_MAX, high = INT64_MIN;

	for (size_t i = 0; i < catalog->run_count; i++) {
		const struct pri_epoch_series *run = catalog->runs[i];
		for (size_t j = 0; !run->strays && j < run->lane_count; j++)
			lane_times(run->lanes[j], &low, &high);
	}
	if (low > high)
		return false;
	*first = low;
	*last = high;
	return true;
}

void
pri_catalog_free(struct pri_catalog *catalog)
{
	for (size_t i = 0; i < catalog->run_count; i++) {
		struct pri_epoch_series *run = catalog->runs[i];
		for (size_t j = 0; j < run->lane_count; j++) {
			free(run->lanes[j]->items);
			free(run->lanes[j]);
		}
		free(run->lanes);
		free(run);
	}
	free(catalog->runs);
	*catalog = (struct pri_catalog){0};
}
