/* SPDX-License-Identifier: Apache-2.0 */
#include <event2/event.h>
#include <sys/stat.h>

#include "indexer/daemon_private.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#define REFRESH_SLICE_NS (20 * PR_NS_PER_MS)
#define LOADING_SLICE_NS (200 * PR_NS_PER_MS) /* at the start, when there is much to list */

/* Indexing gets at most this much of this; the rest of the loop's time is queries'. */
#define INDEX_NS (20 * PR_NS_PER_MS)
#define INDEX_SLICE_NS (8 * PR_NS_PER_MS)
/*
 * When nothing is left to do: what comes meanwhile is read by queries, and waking costs as much as a segment. So
 * it is left alone for as long as it takes no more than INDEX_ONCE_NS then, and still lies in shared memory.
 */
#define INDEX_IDLE_NS (200 * PR_NS_PER_MS)
#define INDEX_IDLE_LEAST_NS (50 * PR_NS_PER_MS)
#define INDEX_ONCE_NS (3 * PR_NS_PER_MS)
/* When the logger has many records and more may follow: it answers within its loop's next turn. */
#define INDEX_HANDED_NS (5 * PR_NS_PER_MS)
#define HAND_OVER_NS (PR_NS_PER_S / 2) /* at the end, for the logger to take what is made */

/* ---- the volume ---- */

void
pri_indexer_let_go(struct daemon *d)
{
	pri_announcer_destroy(&d->offer);
	pri_follower_destroy(&d->feed);
	pri_sender_destroy(&d->deliver);
	pri_volume_close(&d->view);
}

static void
close_volume(struct daemon *d, const char *why)
{
	pri_serve_set_view(d->serve, NULL, why);
	pri_indexer_let_go(d);
	d->loaded = false;
	if (!d->said_waiting)
		pr_log_warning("%s; trying again until it is there", why);
	d->said_waiting = true;
}

static void
open_volume(struct daemon *d)
{
	struct pr_error err;
	struct stat st;
	char text[400];

	d->inode = 0;
	if (stat(d->options.paths.items[0], &st) == 0) {
		d->device = st.st_dev;
		d->inode = st.st_ino;
	}
	d->view = pri_volume_open((const char *const *)d->options.paths.items,
		d->options.paths.count, PRI_VOLUME_SUMMARIES, &err);
	if (!d->view) {
		close_volume(d, err.text);
		return;
	}
	pr_log_info("volume %s is open", d->options.paths.items[0]);
	if (sfs_degraded(pri_volume_sfs(d->view), text, sizeof(text)))
		pr_log_warning("%s", text);
	d->said_waiting = false;
	pri_serve_set_view(d->serve, d->view, NULL);
}

/* A volume that was removed and made anew at the same path is another: what we hold open is gone. */
static bool
same_volume(struct daemon *d)
{
	struct stat st;

	if (stat(d->options.paths.items[0], &st) < 0)
		return d->inode == 0; /* it was missing when the others were opened, too */
	return st.st_dev == d->device && st.st_ino == d->inode;
}

void
pri_indexer_refresh(void *arg)
{
	struct daemon *d = arg;
	struct pr_error err;
	int64_t slice;
	int rc;

	if (d->view && !same_volume(d))
		close_volume(d, "the volume was replaced");
	if (!d->view)
		open_volume(d);
	if (!d->view)
		return;
	slice = d->loaded ? REFRESH_SLICE_NS : LOADING_SLICE_NS;
	rc = pri_volume_refresh(d->view, false, pr_now_mono() + slice, &err);
	d->loaded |= rc == 0;
	if (rc < 0)
		close_volume(d, err.text);
}

/* ---- indexing ---- */

static int
open_feed(struct daemon *d, struct pr_error *err)
{
	struct sfs_volume_info info;

	if (!d->deliver && sfs_info(pri_volume_sfs(d->view), &info, err) == 0)
		d->deliver = pri_sender_create(d->loop, info.uuid, err);
	if (d->deliver && !d->feed)
		d->feed = pri_follower_create(d->view, pri_sender_sink, d->deliver, err);
	if (d->feed)
		pri_follower_composites(d->feed, &d->options.composites);
	return d->feed ? 0 : -1;
}

/* Only what is indexed and told of lets a merger leave us out; else it asks. */
static void
offer(struct daemon *d)
{
	if (!d->offer)
		d->offer = pri_announcer_create(d->view, d->feed, d->options.cluster, NULL);
	if (!d->offer)
		return;
	pri_announcer_tick(d->offer);
	for (size_t i = 0; i < d->options.merger.count; i++)
		if (d->mergers[i].connected)
			pri_announcer_tell(
				d->offer, &d->mergers[i].offered, d->mergers[i].rpc);
}

/* took: of the step that had nothing left to do. */
static int64_t
idle_period(struct daemon *d, int64_t took)
{
	int64_t before = d->idle_ns ? d->idle_ns : INDEX_IDLE_LEAST_NS;
	int64_t next = took > 0 ? before * INDEX_ONCE_NS / took : INDEX_IDLE_NS;

	d->idle_ns = next < INDEX_IDLE_LEAST_NS ? INDEX_IDLE_LEAST_NS
		     : next > INDEX_IDLE_NS     ? INDEX_IDLE_NS
						: next;
	return d->idle_ns;
}

/* rc: of the step that took so long. When a record is on its way, the share of time is kept all the same. */
static int64_t
index_period(struct daemon *d, int rc, int64_t took)
{
	int64_t share = took * (INDEX_NS / INDEX_SLICE_NS + 1);
	struct pri_follower_stats figures;

	pri_follower_stats(d->feed, &figures);
	if (rc > 0 || share > INDEX_NS)
		return INDEX_NS;
	if (!pri_sender_full(d->deliver) || !figures.behind)
		return idle_period(d, took);
	return share > INDEX_HANDED_NS ? share : INDEX_HANDED_NS;
}

/* What cannot be indexed is read by queries: no reason to stop answering them. */
void
pri_indexer_index(void *arg)
{
	struct daemon *d = arg;
	struct pr_error err = {""};
	int64_t began;
	int rc;

	if (!d->view || !d->loaded)
		return;
	if (open_feed(d, &err) == 0) {
		pri_sender_tick(d->deliver);
		if (d->stopping)
			return;
		began = pr_now_mono();
		rc = pri_follower_step(d->feed, began + INDEX_SLICE_NS, &err);
		pr_timer_every(d->index, index_period(d, rc, pr_now_mono() - began));
		if (rc >= 0) {
			offer(d);
			return;
		}
	}
	pr_log_debug("indexing: %s", err.text);
	pri_announcer_destroy(&d->offer);
	pri_follower_destroy(&d->feed);
}

/* What is being made is worth more in the volume than made again after the next start. */
void
pri_indexer_hand_over(struct daemon *d)
{
	int64_t deadline = pr_now_mono() + HAND_OVER_NS;
	struct pr_error err;

	d->stopping = true;
	while (d->feed && pr_now_mono() < deadline) {
		if (pri_follower_finish(d->feed, true, &err) != 0 &&
			pri_sender_idle(d->deliver))
			return;
		pri_sender_send(d->deliver);
		event_base_loop(pr_loop_base(d->loop), EVLOOP_ONCE);
	}
}
