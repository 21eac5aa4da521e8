/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/import.h"

#include <poll.h>
#include <xxhash.h>

#include "logger/direct_link.h"
#include "proto/port/trace.h"

/* Packets between two looks at the clock. */
#define BATCH 64
#define TICK_NS (10 * PR_NS_PER_MS)
#define SAY_NS PR_NS_PER_S /* a file needs no MARKs ten times a second */
#define PATIENCE_NS (5 * PR_NS_PER_S) /* with a volume that takes nothing */

struct import {
	struct sfs *sfs;
	struct pr_trace *trace;
	const char *path;
	struct prl_volume_writer *append;
	struct prl_direct_link monitor;
	prl_import_progress progress;
	void *arg;
	const struct prl_import_options *options;
	struct prl_import_stats *stats;
	/* looked: bytes read when the free room was looked at */
	uint64_t fingerprint, looked;
	int64_t ticked, said;
	bool stopped, failed, rereadable;
	struct pr_error error;
};

static int
beside(struct import *im, bool at_end)
{
	const struct prl_import_options *o = im->options;

	return o->beside ? o->beside(o->beside_arg, im->append, at_end, &im->error) : 0;
}

static void
say(struct import *im, bool ended)
{
	struct prl_direct_link *m = &im->monitor;

	pr_observation_begin(&m->observation, PR_UNOBSERVED_FILE,
		m->packets ? m->earliest : PR_TIME_MAX, "");
	prl_direct_link_say(m, pr_now_real(), ended);
}

static void
tick(struct import *im)
{
	int64_t now = pr_now_mono();

	if (now - im->ticked < TICK_NS)
		return;
	im->ticked = now;
	if (now - im->said >= SAY_NS) {
		im->said = now;
		say(im, false);
	}
	prl_writer_tick(im->append, now);
	im->stats->offset = im->stats->size ? pr_trace_info(im->trace)->bytes : 0;
	im->stats->stored = im->monitor.packets - im->monitor.refused;
	if (im->progress && !im->progress(im->arg, im->stats))
		im->stopped = true;
	if (beside(im, false) < 0)
		im->stopped = im->failed = true;
}

/* The pipe has no data now: packets read before must become durable and be found anyway. */
static bool
on_idle(void *arg)
{
	struct import *im = arg;

	tick(im);
	return !im->stopped;
}

/* ---- was it imported before? ---- */

static uint64_t
fingerprint_add(uint64_t fingerprint, const struct pr_packet *p)
{
	uint64_t seed = fingerprint * UINT64_C(0x9e3779b185ebca87) + p->time + p->len;

	return XXH3_64bits_withSeed(p->data, p->caplen, seed);
}

/* Does the file begin with the packets of that import? */
static bool
begins_with(const char *path, const struct pr_ledger_import *old)
{
	struct pr_trace *trace = pr_trace_open(path, NULL);
	uint64_t packets = 0, fingerprint = 0;
	struct pr_packet p;

	while (trace && packets < old->packets &&
		pr_trace_next(trace, &p, NULL) == PR_SOURCE_PACKET) {
		fingerprint = fingerprint_add(fingerprint, &p);
		packets++;
	}
	pr_trace_close(&trace);
	return packets == old->packets && fingerprint == old->fingerprint;
}

/* A file is read twice only where one of its size was imported before. */
static void
look_for_earlier(void *arg, const struct pr_ledger_entry *e)
{
	const struct pr_ledger_import *old = &e->u.import;
	struct import *im = arg;
	struct prl_import_stats *s = im->stats;

	if (e->type != PR_LEDGER_IMPORT || old->packets <= s->earlier.packets)
		return;
	if (im->rereadable
			? old->size == s->size && begins_with(im->path, old)
			: old->packets == s->packets && old->fingerprint == im->fingerprint)
		s->earlier = *old;
}

static void
note_import(struct import *im)
{
	const struct prl_import_stats *s = im->stats;
	struct pr_ledger_entry e = {
		.type = PR_LEDGER_IMPORT, .u.import.fingerprint = im->fingerprint};

	PR_COPY(&e.u.import, s, epoch, link, size, packets);
	PR_PRINT(e.u.import.name, "%s", basename(im->path));
	if (!im->rereadable && s->packets)
		prl_ledger_each(im->sfs, look_for_earlier, im, NULL);
	prl_writer_tell(im->append, &e);
}

/* ---- the import ---- */

/* Some blocks stay free for the ledger, the directory and the index of what was read. */
enum { BLOCKS_KEPT = 8, LOOK_BYTES = 32 * 1024 };

static uint64_t
room_left(struct sfs *sfs)
{
	struct sfs_volume_info v = {0};

	sfs_info(sfs, &v, NULL);
	uint64_t kept = v.blocks / 8 < BLOCKS_KEPT ? v.blocks / 8 : BLOCKS_KEPT;
	return v.blocks_free > kept ? (v.blocks_free - kept) * v.block_size : 0;
}

static int
begin(struct import *im, struct sfs *sfs, struct pr_error *err)
{
	const struct prl_writer_options append = {.lazy_directory = true};
	const char *name = im->options->name ? im->options->name : basename(im->path);
	struct prl_import_stats *stats = im->stats;
	int link = im->options->link;

	im->trace = pr_trace_open(im->path, err);
	if (!im->trace)
		return -1;
	pr_trace_on_idle(im->trace, on_idle, im);
	const struct pr_trace_info *info = pr_trace_info(im->trace);
	stats->size = info->size;
	im->rereadable = info->size && strcmp(im->path, "-") != 0;
	stats->linktype = info->linktype;
	/* about the size of what is stored of it; a quarter more may yet fit */
	if (im->options->keep && stats->size / 5 * 4 > room_left(sfs))
		return pr_error_set(err,
			"%s: the volume has room for %" PRIu64 " of its %" PRIu64
			" MiB: give --overwrite to overwrite the oldest packets, or make "
			"the volume larger (packrack volume grow)",
			im->path, room_left(sfs) >> 20, stats->size >> 20);
	im->append = prl_writer_create(sfs, &append, err);
	if (!im->append)
		return -1;
	if (link < 0)
		link = prl_direct_link_link_number(sfs, name, im->options->link_from, err);
	if (link < 0 ||
		(im->rereadable && prl_ledger_each(sfs, look_for_earlier, im, err) < 0))
		return -1;
	stats->epoch = pr_epoch_make(pr_now_real());
	stats->link = link;
	stats->snaplen = info->snaplen ? info->snaplen : 262144;
	prl_direct_link_begin(&im->monitor, im->append, stats->epoch, stats->link, name,
		stats->linktype, stats->snaplen);
	return 0;
}

/* Waits while the volume is suspended, because a file can wait; but not for ever. */
static void
await_volume(struct import *im)
{
	int64_t until = pr_now_mono() + PATIENCE_NS;
	const char *why;

	while (!im->stopped && (why = prl_writer_suspend_reason(im->append))) {
		if (pr_now_mono() >= until) {
			pr_error_set(&im->error, "%s", why);
			im->stopped = im->failed = true;
			return;
		}
		poll(NULL, 0, TICK_NS / PR_NS_PER_MS);
		tick(im);
	}
}

static bool
is_full(struct import *im)
{
	if (!im->options->keep || im->stats->bytes - im->looked < LOOK_BYTES)
		return false;
	im->looked = im->stats->bytes;
	if (room_left(im->sfs))
		return false;
	pr_error_set(&im->error,
		"the volume is full; the %" PRIu64 " packets up to here are stored",
		im->stats->packets);
	return im->stopped = im->failed = true;
}

static int
read_all(struct import *im, struct pr_error *err)
{
	struct prl_import_stats *stats = im->stats;
	int got = PR_SOURCE_END;
	struct pr_packet p;
	struct pr_error own;

	while (!im->stopped && !is_full(im) &&
		(got = pr_trace_next(im->trace, &p, &own)) == PR_SOURCE_PACKET) {
		im->fingerprint = fingerprint_add(im->fingerprint, &p);
		prl_direct_link_packet(&im->monitor, p.time, p.data, p.caplen, p.len);
		if (stats->packets++ == 0)
			stats->first_time = stats->last_time = p.time;
		pr_time_widen(&stats->first_time, &stats->last_time, p.time, p.time);
		stats->bytes += p.caplen;
		if (stats->packets % BATCH == 0)
			tick(im);
		if (prl_writer_suspend_reason(im->append))
			await_volume(im);
	}
	if (got != PR_SOURCE_ERROR || im->stopped)
		return 0;
	return pr_error_set(err, "%s; the %" PRIu64 " packets before it are stored",
		own.text, stats->packets);
}

/* Makes what was read durable, even after an error in reading, which is reported first. */
static int
end(struct import *im, int result, struct pr_error *err)
{
	struct pr_error own = {0};

	note_import(im);
	say(im, true);
	if (prl_writer_flush(im->append, &own) && result == 0)
		result = pr_error_set(err, "%s: %s", im->path, own.text);
	/* then writes the index of these packets, and makes it durable, too */
	if (result == 0 && (im->failed || beside(im, true) < 0 ||
				   prl_writer_flush(im->append, &im->error)))
		result = pr_error_set(err, "%s: %s", im->path, im->error.text);
	im->stats->stored = im->monitor.packets - im->monitor.refused;
	im->stats->secrets = pr_trace_info(im->trace)->secrets;
	if (im->monitor.refused && result == 0)
		result = pr_error_set(err,
			"%s: %" PRIu64 " packets were not stored (longer than a block of "
			"the volume, or refused by it)",
			im->path, im->monitor.refused);
	return result;
}

int
prl_import_file(struct sfs *sfs, const char *path, const struct prl_import_options *options,
	prl_import_progress progress, void *arg, struct prl_import_stats *stats,
	struct pr_error *err)
{
	struct import im = {.path = path,
		.sfs = sfs,
		.options = options,
		.progress = progress,
		.arg = arg,
		.stats = stats};

	*stats = (struct prl_import_stats){0};
	int result = begin(&im, sfs, err) == 0 ? end(&im, read_all(&im, err), err) : -1;
	prl_writer_destroy(&im.append);
	pr_trace_close(&im.trace);
	return result;
}
