/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/hello.h"

#include <stdlib.h>

#include "proto/base/clock.h"

#define STRAY_LINK 0xffff

void *
pri_message_pointers(void *items, size_t count, size_t size)
{
	void **pointers = items ? calloc(count + 1, sizeof(*pointers)) : NULL;

	for (size_t i = 0; pointers && i < count; i++)
		pointers[i] = (char *)items + i * size;
	return pointers;
}

/* ---- from the ledger ---- */

void
pri_hello_link(Packrack__LinkInfo *out, const struct pri_series_ledger *series)
{
	packrack__link_info__init(out);
	out->epoch = series->epoch;
	out->link = series->link;
	out->linktype =
		series->have_link ? series->info.linktype : series->mark.link.linktype;
	out->snaplen = series->have_link ? series->info.snaplen : series->mark.link.snaplen;
	out->name = (char *)pri_series_ledger_name(series);
	out->speed = series->speed;
}

void
pri_hello_ledger(Packrack__Ledger *out, const struct pri_series_ledger *series)
{
	const struct pr_mark_link *l = &series->mark.link;

	packrack__ledger__init(out);
	out->epoch = series->epoch;
	out->link = series->link;
	out->last_seq = l->last_seq;
	out->last_otime = l->last_otime;
	out->said_until = series->mark.said_until;
	out->ended = l->ended || series->mark.stopping;
	out->dropped_kernel = l->dropped_kernel;
	out->dropped_interface = l->dropped_interface;
	out->dropped_ring = l->dropped_ring;
	out->dropped_no_node = l->dropped_no_node;
	out->dropped_send = l->dropped_send;
	out->cut = l->cut;
	out->name = (char *)pri_series_ledger_name(series);
	out->linktype = l->linktype;
	out->snaplen = l->snaplen;
}

void
pri_hello_deleted(Packrack__Deleted *out, const struct pr_ledger_deleted *deleted)
{
	packrack__deleted__init(out);
	out->at = deleted->at;
	out->since = deleted->since == PR_TIME_MIN ? 0 : deleted->since;
	out->until = deleted->until;
	out->by = (char *)deleted->by;
	out->moved_to = (char *)deleted->moved_to;
	out->segments = deleted->records;
	out->bytes = deleted->bytes;
}

/* The ledger is sorted by epoch, and epochs begin with their start time: the newest are last. */
static int
fill_links(struct pri_hello *h, const struct pri_ledger_view *ledger)
{
	size_t first = ledger->count > PRI_HELLO_LINKS_MAX
			       ? ledger->count - PRI_HELLO_LINKS_MAX
			       : 0;

	h->links = calloc(ledger->count - first + 1, sizeof(*h->links));
	for (size_t i = first; h->links && i < ledger->count; i++)
		if (ledger->series[i]->have_mark || ledger->series[i]->have_link)
			pri_hello_link(&h->links[h->message.n_links++], ledger->series[i]);
	h->message.links =
		pri_message_pointers(h->links, h->message.n_links, sizeof(*h->links));
	return h->message.links ? 0 : -1;
}

/* ---- streams ---- */

static const char *
link_name(const struct pri_ledger_view *ledger, uint16_t link)
{
	for (size_t i = ledger->count; i-- > 0;)
		if (ledger->series[i]->link == link)
			return pri_series_ledger_name(ledger->series[i]);
	return "";
}

/* What the catalog knows of the stream's packets. */
static void
add_packets(Packrack__StreamHeld *out, const struct pri_catalog *catalog, uint32_t stream)
{
	int64_t first = PR_TIME_MAX, last = PR_TIME_MIN;

	for (size_t i = 0; i < catalog->series_count; i++) {
		const struct pri_epoch_series *series = catalog->series[i];

		if (series->stream != stream)
			continue;
		out->packets += series->packets;
		for (size_t j = 0; j < series->run_count; j++) {
			const struct pri_segment_entry *e =
				pri_sorted_run_first(series->runs[j]);

			if (e && e->min_time < first)
				first = e->min_time;
			if (e && series->runs[j]->max_time > last)
				last = series->runs[j]->max_time;
		}
	}
	if (first <= last) {
		out->first_time = first;
		out->last_time = last;
	}
}

/* Deletions of one link are consecutive; *next counts those of all links. */
static void
add_deleted(struct pri_hello *h, Packrack__StreamHeld *out,
	const struct pri_ledger_view *ledger, size_t *next)
{
	out->deleted = h->deleted_pointers + *next;
	for (size_t i = 0; i < ledger->deleted_count; i++) {
		const struct pr_ledger_deleted *from = &ledger->deleted[i].word;
		Packrack__Deleted *d = &h->deleted[*next];
		int64_t gone = ledger->deleted[i].reached;

		if (from->link != out->link)
			continue;
		if (gone < out->evicted_until && from->since == PR_TIME_MIN)
			gone = out->evicted_until;
		pri_hello_deleted(d, from);
		if (d->until > gone) /* a deletion that was broken off did not go so far */
			d->until = gone;
		h->deleted_pointers[(*next)++] = d;
		out->n_deleted++;
	}
}

static void
fill_stream(struct pri_hello *h, struct pri_volume *volume,
	const struct sfs_stream_info *info, Packrack__StreamHeld *out, size_t *deleted)
{
	const struct pri_ledger_view *ledger = &volume->ledger;
	uint16_t link = STRAY_LINK;

	packrack__stream_held__init(out);
	out->name = (char *)info->name;
	out->bytes = info->bytes;
	out->blocks = info->blocks;
	out->guarantee = info->guarantee;
	if (info->last_sequence)
		out->segments = info->last_sequence - info->first_sequence + 1 -
				info->deleted_records;
	out->last_segment = info->last_sequence;
	out->evicted_segments = info->recycled_records;
	if (info->recycled_records)
		out->evicted_until = info->evicted_until;
	if (!pri_stream_is_link(info->name, &link) && !pri_stream_is_strays(info->name))
		return;
	out->packet_stream = true;
	out->link = link;
	out->link_name = (char *)(link == STRAY_LINK ? "" : link_name(ledger, link));
	add_packets(out, &volume->catalog, info->id);
	add_deleted(h, out, ledger, deleted);
}

static int
fill_streams(struct pri_hello *h, struct pri_volume *volume)
{
	size_t count = h->info.stream_count, deletions, deleted = 0;
	Packrack__NodeStatus *s = &h->status;

	if (count > PRI_HELLO_STREAMS_MAX)
		count = PRI_HELLO_STREAMS_MAX;
	deletions = volume->ledger.deleted_count + 1;
	h->stream_infos = calloc(count + 1, sizeof(*h->stream_infos));
	h->streams = calloc(count + 1, sizeof(*h->streams));
	h->deleted = calloc(deletions, sizeof(*h->deleted));
	h->deleted_pointers = calloc(deletions, sizeof(*h->deleted_pointers));
	s->streams = pri_message_pointers(h->streams, count, sizeof(*h->streams));
	if (!h->stream_infos || !h->deleted || !h->deleted_pointers || !s->streams)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (sfs_stream_info(volume->sfs, i, &h->stream_infos[i], NULL) == SFS_OK)
			fill_stream(h, volume, &h->stream_infos[i],
				&h->streams[s->n_streams++], &deleted);
	return 0;
}

/* ---- the status ---- */

/*
 * The logger's note goes out as it is; but the merger refuses messages with control bytes, and a
 * damaged note must not make the node vanish.
 */
static void
clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = ' ';
}

static void
fill_status(struct pri_hello *h, struct pri_volume *volume, uint64_t behind)
{
	const struct pri_catalog *catalog = &volume->catalog;
	Packrack__NodeStatus *s = &h->status;
	struct pri_volume_stats stats;

	pri_volume_stats(volume, &stats);
	s->segments = catalog->segments;
	s->packets = catalog->packets;
	s->bytes = catalog->bytes;
	pri_catalog_times(catalog, &s->first_time, &s->last_time);
	if (behind < stats.unlisted)
		behind = stats.unlisted;
	if (catalog->segments)
		s->indexed_lag_bytes = behind * (catalog->bytes / catalog->segments);
	s->missing = volume->ledger.missing;
	if (sfs_info(volume->sfs, &h->info, NULL) == 0) {
		h->message.volume = h->info.uuid;
		s->volume_bytes = h->info.blocks * h->info.block_size;
		s->volume_used = h->info.blocks_used * h->info.block_size;
		s->writer_alive = h->info.writer_alive;
	}
	if (sfs_note_get(volume->sfs, h->note, sizeof(h->note))) {
		h->note[sizeof(h->note) - 1] = 0;
		clean(h->note);
		s->logger = h->note;
	}
}

struct pri_hello *
pri_hello_create(struct pri_volume *volume, const struct pri_hello_input *input,
	struct pr_error *err)
{
	struct pri_hello *h = calloc(1, sizeof(*h));

	if (!h) {
		pr_error_set(err, "no memory");
		return NULL;
	}
	packrack__hello__init(&h->message);
	packrack__node_status__init(&h->status);
	h->message.name = h->status.name = (char *)input->name;
	h->message.version = (char *)PACKRACK_VERSION;
	h->message.boot = input->boot;
	h->message.status = &h->status;
	h->status.queries = input->queries;
	h->status.queries_running = input->queries_running;
	if (!volume)
		return h;
	fill_status(h, volume, input->behind);
	if (fill_streams(h, volume) < 0 || fill_links(h, &volume->ledger) < 0) {
		pr_error_set(err, "no memory");
		pri_hello_destroy(&h);
	}
	return h;
}

void
pri_hello_destroy(struct pri_hello **hello)
{
	struct pri_hello *h = *hello;

	if (!h)
		return;
	free(h->message.links);
	free(h->status.streams);
	free(h->stream_infos);
	free(h->links);
	free(h->streams);
	free(h->deleted);
	free(h->deleted_pointers);
	free(h);
	*hello = NULL;
}
