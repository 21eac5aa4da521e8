/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/inventory.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/query/view_internal.h"
#include "proto/base/clock.h"

#define STRAY_LINK 0xffff

struct pri_inventory {
	Packrack__StreamHeld *streams, **pointers;
	size_t count;
	Packrack__Deleted *deleted, **deleted_pointers;
};

static const char *
link_name(const struct pri_ledger_view *book, uint16_t link)
{
	for (size_t i = book->count; i-- > 0;)
		if (book->facts[i]->link == link)
			return pri_series_ledger_name(book->facts[i]);
	return "";
}

/* What the catalog knows of the stream's packets. */
static void
add_packets(Packrack__StreamHeld *out, const struct pri_volume *view, uint32_t stream)
{
	const struct pri_catalog *catalog = &view->catalog;
	int64_t first = PR_TIME_MAX, last = PR_TIME_MIN;

	for (size_t i = 0; i < catalog->run_count; i++) {
		const struct pri_epoch_series *run = catalog->runs[i];

		if (run->stream != stream)
			continue;
		out->packets += run->packets;
		for (size_t j = 0; j < run->lane_count; j++) {
			const struct pri_sorted_run *lane = run->lanes[j];
			const struct pri_segment_entry *e = pri_sorted_run_first(lane);

			if (!e)
				continue;
			first = e->min_time < first ? e->min_time : first;
			last = lane->max_time > last ? lane->max_time : last;
		}
	}
	if (first <= last) {
		out->first_time = first;
		out->last_time = last;
	}
}

/* Those of one link are told in one stretch; *next: of the room for all. */
static void
add_deleted(struct pri_inventory *stock, Packrack__StreamHeld *out,
	const struct pri_ledger_view *book, uint16_t link, size_t *next)
{
	out->deleted = stock->deleted_pointers + *next;
	for (size_t i = 0; i < book->deleted_count; i++) {
		const struct pr_ledger_deleted *from = &book->deleted[i].word;
		Packrack__Deleted *d = &stock->deleted[*next];
		int64_t gone = book->deleted[i].reached;

		if (from->link != link)
			continue;
		if (gone < out->evicted_until && from->since == PR_TIME_MIN)
			gone = out->evicted_until;
		packrack__deleted__init(d);
		d->at = from->at;
		/* one that was broken off did not go so far as it might have */
		d->since = from->since == PR_TIME_MIN ? 0 : from->since;
		d->until = from->until < gone ? from->until : gone;
		d->by = (char *)from->by;
		d->moved_to = (char *)from->moved_to;
		d->segments = from->records;
		d->bytes = from->bytes;
		stock->deleted_pointers[(*next)++] = d;
		out->n_deleted++;
	}
}

static void
fill(struct pri_inventory *stock, struct pri_volume *view)
{
	size_t deleted = 0;

	for (size_t i = 0; i < stock->count; i++) {
		const struct pri_volume_stream *s = &view->streams[i];
		const struct sfs_stream_info *info = &s->info;
		Packrack__StreamHeld *out = &stock->streams[i];
		uint16_t link = s->strays ? STRAY_LINK : s->link;

		packrack__stream_held__init(out);
		stock->pointers[i] = out;
		out->name = (char *)info->name;
		out->bytes = info->bytes;
		out->blocks = info->blocks;
		out->guarantee = info->guarantee;
		out->segments = info->last_sequence
					? info->last_sequence - info->first_sequence + 1 -
						  info->deleted_records
					: 0;
		out->last_segment = info->last_sequence;
		out->evicted_segments = info->recycled_records;
		if (info->recycled_records)
			out->evicted_until = info->evicted_until;
		if (!s->data)
			continue;
		out->packet_stream = true;
		out->link = link;
		out->link_name = (char *)(s->strays ? "" : link_name(&view->book, link));
		add_packets(out, view, s->id);
		add_deleted(stock, out, &view->book, link, &deleted);
	}
}

struct pri_inventory *
pri_inventory_create(struct pri_volume *view)
{
	struct pri_inventory *stock = calloc(1, sizeof(*stock));
	size_t deleted = view->book.deleted_count + 1;

	if (!stock)
		return NULL;
	stock->count = view->stream_count < PRI_INVENTORY_STREAMS_MAX
			       ? view->stream_count
			       : PRI_INVENTORY_STREAMS_MAX;
	stock->streams = calloc(stock->count + 1, sizeof(*stock->streams));
	stock->pointers = calloc(stock->count + 1, sizeof(*stock->pointers));
	stock->deleted = calloc(deleted, sizeof(*stock->deleted));
	stock->deleted_pointers = calloc(deleted, sizeof(*stock->deleted_pointers));
	if (stock->streams && stock->pointers && stock->deleted && stock->deleted_pointers)
		fill(stock, view);
	else
		pri_inventory_destroy(&stock);
	return stock;
}

void
pri_inventory_destroy(struct pri_inventory **stock)
{
	if (*stock) {
		free((*stock)->streams);
		free((*stock)->pointers);
		free((*stock)->deleted);
		free((*stock)->deleted_pointers);
	}
	free(*stock);
	*stock = NULL;
}

void
pri_inventory_put(struct pri_inventory *stock, Packrack__NodeStatus *status)
{
	status->streams = stock->pointers;
	status->n_streams = stock->count;
}
