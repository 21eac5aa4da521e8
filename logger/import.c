/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/import.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "logger/volume_writer.h"
#include "logger/direct_link.h"
#include "proto/base/clock.h"
#include "proto/port/trace.h"
#include "proto/wire/frame.h"

/* Packets between two looks at the clock. */
#define BATCH 64
#define TICK_NS (10 * PR_NS_PER_MS)
#define SAY_NS PR_NS_PER_S /* a file needs no MARKs ten times a second */
#define PATIENCE_NS (5 * PR_NS_PER_S) /* with a volume that takes nothing */

struct import {
	struct pr_trace *trace;
	const char *path;
	struct prl_volume_writer *append;
	struct prl_direct_link monitor;
	prl_import_progress progress;
	void *arg;
	const struct prl_import_options *options;
	struct prl_import_stats *stats;
	int64_t ticked, said;
	bool stopped, failed;
	struct pr_error error;
};

static int
beside(struct import *im, bool at_end)
{
	const struct prl_import_options *o = im->options;

	return o->beside ? o->beside(o->beside_arg, im->append, at_end, &im->error) : 0;
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
		prl_direct_link_say(&im->monitor, false);
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

static int
begin(struct import *im, struct sfs *sfs, struct pr_error *err)
{
	const struct prl_writer_options append = {.lazy_directory = true};
	const char *slash = strrchr(im->path, '/'), *name = im->options->name;
	struct prl_import_stats *stats = im->stats;
	const struct pr_trace_info *info;
	int link = im->options->link;

	im->trace = pr_trace_open(im->path, err);
	if (!im->trace)
		return -1;
	pr_trace_on_idle(im->trace, on_idle, im);
	info = pr_trace_info(im->trace);
	stats->size = info->size;
	stats->linktype = info->linktype;
	im->append = prl_writer_create(sfs, &append, err);
	if (!im->append)
		return -1;
	if (!name)
		name = slash ? slash + 1 : im->path;
	if (link < 0)
		link = prl_direct_link_link_number(sfs, name, err);
	if (link < 0)
		return -1;
	stats->epoch = pr_epoch_make(pr_now_real());
	stats->link = (uint16_t)link;
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

static int
read_all(struct import *im, struct pr_error *err)
{
	struct prl_import_stats *stats = im->stats;
	int got = PR_SOURCE_END;
	struct pr_packet p;
	struct pr_error own;

	while (!im->stopped &&
		(got = pr_trace_next(im->trace, &p, &own)) == PR_SOURCE_PACKET) {
		prl_direct_link_packet(&im->monitor, p.time, p.data, p.caplen, p.len);
		if (stats->packets++ == 0 || p.time < stats->first_time)
			stats->first_time = p.time;
		if (stats->packets == 1 || p.time > stats->last_time)
			stats->last_time = p.time;
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

	prl_direct_link_say(&im->monitor, true);
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
			"%s: %" PRIu64
			" packets were not stored (longer than a block of the volume, "
			"or refused by it)",
			im->path, im->monitor.refused);
	return result;
}

int
prl_import_file(struct sfs *sfs, const char *path, const struct prl_import_options *options,
	prl_import_progress progress, void *arg, struct prl_import_stats *stats,
	struct pr_error *err)
{
	struct import im = {.path = path,
		.options = options,
		.progress = progress,
		.arg = arg,
		.stats = stats};
	int result = -1;

	*stats = (struct prl_import_stats){0};
	if (begin(&im, sfs, err) == 0)
		result = end(&im, read_all(&im, err), err);
	prl_writer_destroy(&im.append);
	pr_trace_close(&im.trace);
	return result;
}
