/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/hello.h"

#include <stdlib.h>

#include "proto/base/text.h"

#define STRAY_LINK 0xffff

void *
pri_message_pointers(void *items, size_t count, size_t size)
{
	void **pointers = items ? calloc(count + 1, sizeof *pointers) : NULL;

	for (size_t i = 0; pointers && i < count; i++)
		pointers[i] = (char *)items + i * size;
	return pointers;
}

/* ---- from the ledger ---- */

void
pri_hello_link(Packrack__LinkInfo *out, const struct pri_series_ledger *series)
{
	packrack__link_info__init(out);
	PR_COPY(out, series, epoch, link);
	out->linktype =
		series->have_link ? series->info.linktype : series->mark.link.linktype;
	out->snaplen = series->have_link ? series->info.snaplen : series->mark.link.snaplen;
	out->name = (char *)pri_series_ledger_name(series);
	const struct pr_clock *c = &series->port.clock;
	out->speed = series->port.speed;
	if (pr_clock_known(c)) {
		out->timestamps = (char *)pr_timestamp_names[c->timestamps];
		out->clock = (char *)pr_clock_names[c->state];
		out->clock_steps = c->steps;
		out->clock_stepped_time = c->stepped;
		out->clock_step_ns = c->step;
	}
	out->ledger = series->have_mark;
}

void
pri_hello_ledger(Packrack__Ledger *out, const struct pri_series_ledger *series)
{
	const struct pr_mark_link *l = &series->mark.link;

	packrack__ledger__init(out);
	PR_COPY(out, series, epoch, link);
	PR_COPY(out, l, last_seq, last_otime);
	out->said_until = series->mark.said_until;
	out->ended = l->ended || series->mark.stopping;
	PR_COPY(out, l, dropped_kernel, dropped_interface, dropped_ring, dropped_no_node,
		dropped_send, cut);
	out->name = (char *)pri_series_ledger_name(series);
	PR_COPY(out, l, linktype, snaplen);
	out->first_said = series->first_said;
	out->unobserved_reason = series->unobserved.reason;
	out->unobserved_since = series->unobserved.since;
	out->unobserved_until = series->unobserved.until;
	out->unobserved_by = series->unobserved.by;
	out->n_unobserved_reason = out->n_unobserved_since = out->n_unobserved_until =
		out->n_unobserved_by = series->unobserved.count;
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

/* ---- streams ---- */

static const char *
link_name(const struct pri_ledger_view *ledger, uint16_t link)
{
	for (size_t i = ledger->count; i-- > 0;)
		if (ledger->series[i]->link == link)
			return pri_series_ledger_name(ledger->series[i]);
	return "";
}

static void
fill_stream(struct pri_hello *h, struct pri_volume *volume,
	const struct sfs_stream_info *info, Packrack__StreamHeld *out)
{
	const struct pri_ledger_view *ledger = &volume->ledger;
	uint16_t link = STRAY_LINK;

	packrack__stream_held__init(out);
	out->name = (char *)info->name;
	PR_COPY(out, info, bytes, blocks, guarantee);
	if (info->last_sequence)
		out->segments = info->last_sequence - info->first_sequence + 1 -
				info->deleted_records;
	out->last_segment = info->last_sequence;
	out->evicted_segments = info->recycled_records;
	if (info->recycled_records)
		out->evicted_until = info->evicted_until;
	if (!pri_stream_is_link(info->name, &link) && strcmp(info->name, PRI_STREAM_STRAYS))
		return;
	out->packet_stream = true;
	out->link = pr_stream_link(link);
	out->class_ = (char *)ledger->classes[pr_stream_class(link)].name;
	out->link_name = (char *)(link == STRAY_LINK ? "" : link_name(ledger, out->link));
	for (size_t i = 0; i < volume->catalog.series_count; i++)
		if (volume->catalog.series[i]->stream == info->id)
			out->packets += volume->catalog.series[i]->packets;
	pri_catalog_times(&volume->catalog, info->id, &out->first_time, &out->last_time);
	if (out->packets)
		out->memory_time =
			PR_MAX(out->first_time, pri_volume_memory_since(volume, info->id));
	/* deletions of one link are consecutive */
	out->deleted = h->deleted_pointers + h->deleted_count;
	for (size_t i = 0; i < ledger->deleted_count; i++) {
		const struct pr_ledger_deleted *from = &ledger->deleted[i].word;
		Packrack__Deleted *d = &h->deleted[h->deleted_count];
		int64_t gone = ledger->deleted[i].reached;

		if (from->link != link) /* those of copies are listed with the link's own */
			continue;
		if (gone < out->evicted_until && from->since == PR_TIME_MIN)
			gone = out->evicted_until;
		pri_hello_deleted(d, from);
		if (d->until > gone) /* an interrupted deletion did not reach its end */
			d->until = gone;
		h->deleted_count++;
		out->n_deleted++;
	}
}

/* Packets of a link that is no user's, or their index. */
static bool
is_internal(const char *name)
{
	const char *number = strchr(name, '.');

	return number && pr_link_is_internal(strtoul(number + 1, NULL, 10));
}

static int
fill_streams(struct pri_hello *h, struct pri_volume *volume)
{
	size_t count = PR_MIN(h->info.stream_count, PRI_HELLO_STREAMS_MAX);
	size_t deletions = volume->ledger.deleted_count + 1;
	Packrack__NodeStatus *s = &h->status;

	h->stream_infos = calloc(count + 1, sizeof *h->stream_infos);
	h->streams = calloc(count + 1, sizeof *h->streams);
	h->deleted = calloc(deletions, sizeof *h->deleted);
	h->deleted_pointers =
		pri_message_pointers(h->deleted, deletions, sizeof *h->deleted);
	s->streams = pri_message_pointers(h->streams, count, sizeof *h->streams);
	if (!h->stream_infos || !h->deleted_pointers || !s->streams)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (sfs_stream_info(volume->sfs, i, &h->stream_infos[i], NULL) == SFS_OK &&
			!is_internal(h->stream_infos[i].name))
			fill_stream(h, volume, &h->stream_infos[i],
				&h->streams[s->n_streams++]);
	return 0;
}

/* ---- the status ---- */

static void
fill_status(struct pri_hello *h, struct pri_volume *volume, uint64_t behind)
{
	const struct pri_catalog *catalog = &volume->catalog;
	Packrack__NodeStatus *s = &h->status;
	struct pri_volume_stats stats;

	pri_volume_stats(volume, &stats);
	PR_COPY(s, catalog, segments, packets, bytes);
	pri_catalog_times(catalog, -1, &s->first_time, &s->last_time);
	behind = PR_MAX(behind, stats.unlisted);
	if (catalog->segments) {
		s->indexed_lag_bytes = behind * (catalog->bytes / catalog->segments);
		s->memory_time = PR_MAX(s->first_time, pri_volume_memory_since(volume, -1));
	}
	s->missing = volume->ledger.missing;
	sfs_info(volume->sfs, &h->info, NULL);
	h->message.volume = h->info.uuid;
	s->volume_bytes = h->info.blocks * h->info.block_size;
	s->volume_used = h->info.blocks_used * h->info.block_size;
	s->writer_alive = h->info.writer_alive;
	if (!sfs_note_get(volume->sfs, h->note, sizeof h->note))
		return;
	/* it may be damaged, and the merger would refuse the message */
	pr_text_clean(h->note, "");
	s->logger = h->note;
}

struct pri_hello *
pri_hello_create(struct pri_volume *volume, const char *name, uint64_t boot,
	uint64_t behind, struct pr_error *err)
{
	struct pri_hello *h = calloc(1, sizeof *h);

	if (!h)
		return pr_error_null(err, "no memory");
	packrack__hello__init(&h->message);
	packrack__node_status__init(&h->status);
	h->message.name = h->status.name = (char *)name;
	h->message.version = PACKRACK_VERSION;
	h->message.boot = boot;
	h->message.status = &h->status;
	if (!volume)
		return h;
	fill_status(h, volume, behind);
	/* the ledger is sorted by epoch, and epochs begin with their start time: the newest are last */
	const struct pri_ledger_view *ledger = &volume->ledger;
	size_t first = ledger->count - PR_MIN(ledger->count, PRI_HELLO_LINKS_MAX);
	h->links = calloc(ledger->count - first + 1, sizeof *h->links);
	for (size_t i = first; h->links && i < ledger->count; i++)
		if (ledger->series[i]->have_mark || ledger->series[i]->have_link)
			pri_hello_link(&h->links[h->message.n_links++], ledger->series[i]);
	h->message.links =
		pri_message_pointers(h->links, h->message.n_links, sizeof *h->links);
	if (!h->message.links || fill_streams(h, volume) < 0) {
		pr_error_set(err, "no memory");
		pri_hello_destroy(&h);
	}
	return h;
}

void
pri_hello_destroy(struct pri_hello **hello)
{
	struct pri_hello *h = PR_TAKE(hello);

	if (!h)
		return;
	PR_FREE(h, message.links, status.streams, stream_infos, links, streams, deleted,
		deleted_pointers);
	free(h);
}
