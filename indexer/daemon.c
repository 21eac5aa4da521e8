/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/daemon.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "indexer/deliver.h"
#include "indexer/feed.h"
#include "indexer/hello.h"
#include "indexer/offer.h"
#include "indexer/options.h"
#include "indexer/serve.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/loop.h"
#include "proto/base/metrics_server.h"
#include "proto/base/priority.h"
#include "proto/rpc/status_metrics.h"
#include "proto/wire/frame.h"

#define HELLO_NS (2 * PR_NS_PER_S)
#define REFRESH_NS (PR_NS_PER_S / 2)
#define REFRESH_SLICE_NS (20 * PR_NS_PER_MS)
#define LOADING_SLICE_NS (200 * PR_NS_PER_MS) /* at the start, when there is much to list */

/* Indexing gets at most this much of this; the rest of the loop's time is queries'. */
#define INDEX_NS (20 * PR_NS_PER_MS)
#define INDEX_SLICE_NS (8 * PR_NS_PER_MS)
/* When nothing is left to do: what comes meanwhile is read by queries, and waking costs as much as a segment. */
#define INDEX_IDLE_NS (50 * PR_NS_PER_MS)
/* When the logger has a record and more may follow: it answers within its loop's next turn. */
#define INDEX_HANDED_NS (5 * PR_NS_PER_MS)
#define HAND_OVER_NS (PR_NS_PER_S / 2) /* at the end, for the logger to take what is made */

/* One merger that we answer, or the socket for direct questions. */
struct line {
	struct daemon *daemon;
	const char *endpoint;
	struct pr_rpc *rpc;
	bool connected, said_refused;
	struct pr_offer_line offered;
};

struct daemon {
	struct pr_indexer_options options;
	struct pr_loop *loop;
	struct pr_serve *serve;
	struct pr_view *view;
	struct line *mergers;
	struct line manage;
	struct pr_timer *hello, *refresh, *tick, *index;
	struct pr_metrics_server *metrics;
	struct pr_feed *feed;
	struct pr_deliver *deliver;
	struct pr_offer *offer;
	uint64_t boot;
	bool said_waiting, loaded, stopping;
	dev_t device; /* of the volume's first path when it was opened */
	ino_t inode;
};

/* ---- what we say ---- */

static struct pr_hello_message *
make_hello(struct daemon *d)
{
	struct pr_hello_facts facts = {.name = d->options.name,
		.boot = d->boot,
		.queries = pr_serve_queries(d->serve),
		.queries_running = pr_serve_running(d->serve)};
	struct pr_feed_figures figures;

	if (d->feed) {
		pr_feed_figures(d->feed, &figures);
		facts.behind = figures.behind;
	}
	return pr_hello_create(d->view, &facts, NULL);
}

static void
say_hello(struct line *line, struct pr_hello_message *hello)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.body_case = PACKRACK__ENVELOPE__BODY_HELLO;
	env.hello = pr_hello_message(hello);
	if (line->connected)
		pr_rpc_send(line->rpc, NULL, &env, NULL);
}

static void
on_hello_timer(void *arg)
{
	struct daemon *d = arg;
	struct pr_hello_message *hello = make_hello(d);

	for (size_t i = 0; hello && i < d->options.merger.count; i++)
		say_hello(&d->mergers[i], hello);
	pr_hello_destroy(&hello);
}

/* What hello says, as the answer to a status request. node: room for one pointer. */
static Packrack__Status
make_status(struct pr_hello_message *hello, Packrack__NodeStatus **node)
{
	Packrack__Status status = PACKRACK__STATUS__INIT;

	*node = pr_hello_status(hello);
	status.program = (char *)"packrack-indexer";
	status.version = (char *)PACKRACK_VERSION;
	status.time = pr_now_real();
	status.nodes = node;
	status.n_nodes = 1;
	status.links = pr_hello_message(hello)->links;
	status.n_links = pr_hello_message(hello)->n_links;
	return status;
}

static void
on_scrape(void *arg, struct pr_metrics_page *page)
{
	struct daemon *d = arg;
	struct pr_hello_message *hello = make_hello(d);
	Packrack__NodeStatus *node;
	Packrack__Status status;

	if (!hello)
		return;
	status = make_status(hello, &node);
	pr_status_metrics(page, &status, d->options.name);
	pr_hello_destroy(&hello);
}

static void
answer_status(struct line *line, const struct pr_rpc_peer *peer, uint64_t id)
{
	struct pr_hello_message *hello = make_hello(line->daemon);
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	Packrack__Status status;
	Packrack__NodeStatus *node;

	if (!hello)
		return;
	status = make_status(hello, &node);
	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_STATUS;
	env.status = &status;
	pr_rpc_send(line->rpc, peer, &env, NULL);
	pr_hello_destroy(&hello);
}

/* ---- what we hear ---- */

/* Of our Hello: our key was revoked, or is another node's. Once, though it is said every time. */
static void
said_no(struct line *line, const char *text)
{
	if (!line->said_refused)
		pr_log_warning("%s: %s", line->endpoint, text);
	line->said_refused = true;
}

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct line *line = arg;

	if (env->body_case == PACKRACK__ENVELOPE__BODY_STATUS_REQUEST)
		answer_status(line, peer, env->id);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE)
		said_no(line, env->failure->text);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_SUMMARY_WANT) {
		if (!peer && line->daemon->offer)
			pr_offer_want(line->daemon->offer, &line->offered, line->rpc,
				env->summary_want);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_COMMAND && !peer)
		pr_deliver_order(line->daemon->deliver, line->rpc, env);
	else
		pr_serve_message(line->daemon->serve, line->rpc, peer, env);
}

static void
on_state(void *arg, enum pr_rpc_state state)
{
	struct line *line = arg;
	struct pr_hello_message *hello;

	if (state == PR_RPC_REFUSED) {
		if (!line->said_refused)
			pr_log_warning("%s", pr_rpc_refusal(line->rpc));
		line->said_refused = true;
		return;
	}
	if (state == PR_RPC_DISCONNECTED && line->connected)
		pr_log_info("%s is gone; trying again", line->endpoint);
	pr_serve_drop(line->daemon->serve, line->rpc);
	line->connected = state == PR_RPC_CONNECTED;
	line->offered = (struct pr_offer_line){.bytes = line->offered.bytes};
	if (!line->connected)
		return;
	line->said_refused = false;
	pr_log_with(PR_LOG_INFO, PR_LOG_FIELDS({"merger", line->endpoint}),
		"connected to %s", line->endpoint);
	hello = make_hello(line->daemon);
	if (hello)
		say_hello(line, hello);
	pr_hello_destroy(&hello);
}

/* ---- the volume ---- */

static void
close_volume(struct daemon *d, const char *why)
{
	pr_serve_set_view(d->serve, NULL, why);
	pr_offer_destroy(&d->offer);
	pr_feed_destroy(&d->feed);
	pr_deliver_destroy(&d->deliver);
	pr_view_close(&d->view);
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
	d->view = pr_view_open((const char *const *)d->options.paths.items,
		d->options.paths.count, PR_VIEW_SUMMARIES, &err);
	if (!d->view) {
		close_volume(d, err.text);
		return;
	}
	pr_log_info("volume %s is open", d->options.paths.items[0]);
	if (sfs_degraded(pr_view_sfs(d->view), text, sizeof(text)))
		pr_log_warning("%s", text);
	d->said_waiting = false;
	pr_serve_set_view(d->serve, d->view, NULL);
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

static void
on_refresh(void *arg)
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
	rc = pr_view_refresh(d->view, false, pr_now_mono() + slice, &err);
	d->loaded |= rc == 0;
	if (rc < 0)
		close_volume(d, err.text);
}

/* ---- indexing ---- */

static int
open_feed(struct daemon *d, struct pr_error *err)
{
	struct sfs_volume_info info;

	if (!d->deliver && sfs_info(pr_view_sfs(d->view), &info, err) == 0)
		d->deliver = pr_deliver_create(d->loop, info.uuid, err);
	if (d->deliver && !d->feed)
		d->feed = pr_feed_create(d->view, pr_deliver_sink, d->deliver, err);
	if (d->feed)
		pr_feed_composites(d->feed, &d->options.composites);
	return d->feed ? 0 : -1;
}

/* Only what is indexed and told of lets a merger leave us out; else it asks. */
static void
offer(struct daemon *d)
{
	if (!d->offer)
		d->offer = pr_offer_create(d->view, d->feed, d->options.cluster, NULL);
	if (!d->offer)
		return;
	pr_offer_tick(d->offer);
	for (size_t i = 0; i < d->options.merger.count; i++)
		if (d->mergers[i].connected)
			pr_offer_tell(d->offer, &d->mergers[i].offered, d->mergers[i].rpc);
}

/* rc: of the step that took so long. When a record is on its way, the share of time is kept all the same. */
static int64_t
index_period(const struct daemon *d, int rc, int64_t took)
{
	int64_t share = took * (INDEX_NS / INDEX_SLICE_NS + 1);
	struct pr_feed_figures figures;

	pr_feed_figures(d->feed, &figures);
	if (rc > 0 || share > INDEX_NS)
		return INDEX_NS;
	if (pr_deliver_idle(d->deliver) || !figures.behind)
		return INDEX_IDLE_NS;
	return share > INDEX_HANDED_NS ? share : INDEX_HANDED_NS;
}

/* What cannot be indexed is read by queries: no reason to stop answering them. */
static void
on_index(void *arg)
{
	struct daemon *d = arg;
	struct pr_error err = {""};
	int64_t began;
	int rc;

	if (!d->view || !d->loaded)
		return;
	if (open_feed(d, &err) == 0) {
		pr_deliver_tick(d->deliver);
		if (d->stopping)
			return;
		began = pr_now_mono();
		rc = pr_feed_step(d->feed, began + INDEX_SLICE_NS, &err);
		pr_timer_every(d->index, index_period(d, rc, pr_now_mono() - began));
		if (rc >= 0) {
			offer(d);
			return;
		}
	}
	pr_log_debug("indexing: %s", err.text);
	pr_offer_destroy(&d->offer);
	pr_feed_destroy(&d->feed);
}

/* What is being made is worth more in the volume than made again after the next start. */
static void
hand_over(struct daemon *d)
{
	int64_t deadline = pr_now_mono() + HAND_OVER_NS;
	struct pr_error err;

	d->stopping = true;
	while (d->feed && pr_now_mono() < deadline) {
		if (pr_feed_finish(d->feed, true, &err) != 0 && pr_deliver_idle(d->deliver))
			return;
		event_base_loop(pr_loop_base(d->loop), EVLOOP_ONCE);
	}
}

static void
on_tick(void *arg)
{
	struct daemon *d = arg;

	pr_serve_tick(d->serve);
}

/* ---- coming and going ---- */

static int
connect_mergers(struct daemon *d, struct pr_error *err)
{
	struct pr_rpc_keys keys = {d->options.keys};

	d->mergers = calloc(d->options.merger.count + 1, sizeof(*d->mergers));
	if (!d->mergers)
		return pr_error_set(err, "no memory");
	for (size_t i = 0; i < d->options.merger.count; i++) {
		struct line *line = &d->mergers[i];
		line->daemon = d;
		line->endpoint = d->options.merger.items[i];
		if (!keys.dir)
			pr_log_warning("no keys: packets travel to %s in the clear, and "
				       "whoever listens there may ask "
				       "(packrack-keys(7))",
				line->endpoint);
		line->rpc = pr_rpc_connect(
			d->loop, line->endpoint, &keys, on_message, line, err);
		if (!line->rpc)
			return -1;
		pr_rpc_watch(line->rpc, on_state, line);
	}
	return 0;
}

static int
listen_manage(struct daemon *d, struct pr_error *err)
{
	struct pr_rpc_keys keys = {d->options.keys};

	d->manage = (struct line){.daemon = d, .endpoint = d->options.manage};
	if (!d->options.manage)
		return 0;
	if (!keys.dir)
		pr_log_warning("no keys: whoever reaches %s may read (packrack-keys(7))",
			d->options.manage);
	d->manage.rpc = pr_rpc_listen(
		d->loop, d->options.manage, &keys, on_message, &d->manage, err);
	return d->manage.rpc ? 0 : -1;
}

static int
serve_metrics(struct daemon *d, struct pr_error *err)
{
	if (!d->options.metrics)
		return 0;
	d->metrics = pr_metrics_serve(d->loop, d->options.metrics, on_scrape, d, err);
	return d->metrics ? 0 : -1;
}

static int
start(struct daemon *d, struct pr_error *err)
{
	d->boot = (uint64_t)pr_nonce_make() << 32 | pr_nonce_make();
	d->loop = pr_loop_create(NULL, err);
	if (!d->loop)
		return -1;
	d->serve = pr_serve_create(d->loop, d->options.queries, err);
	if (!d->serve)
		return -1;
	d->hello = pr_timer_create(d->loop, HELLO_NS, on_hello_timer, d, err);
	d->refresh = pr_timer_create(d->loop, REFRESH_NS, on_refresh, d, err);
	d->tick = pr_timer_create(d->loop, PR_NS_PER_S, on_tick, d, err);
	d->index = pr_timer_create(d->loop, INDEX_NS, on_index, d, err);
	if (!d->hello || !d->refresh || !d->tick || !d->index)
		return -1;
	on_refresh(d);
	if (listen_manage(d, err) < 0 || serve_metrics(d, err) < 0 ||
		connect_mergers(d, err) < 0)
		return -1;
	pr_priority_give_way(); /* capture comes first */
	return 0;
}

/* Queries before what they read from and answer over. */
static void
stop(struct daemon *d)
{
	pr_metrics_stop(&d->metrics);
	pr_serve_destroy(&d->serve);
	for (size_t i = 0; d->mergers && i < d->options.merger.count; i++)
		pr_rpc_destroy(&d->mergers[i].rpc);
	free(d->mergers);
	pr_rpc_destroy(&d->manage.rpc);
	pr_timer_destroy(&d->hello);
	pr_timer_destroy(&d->refresh);
	pr_timer_destroy(&d->tick);
	pr_timer_destroy(&d->index);
	pr_offer_destroy(&d->offer);
	pr_feed_destroy(&d->feed);
	pr_deliver_destroy(&d->deliver);
	pr_view_close(&d->view);
	pr_loop_destroy(&d->loop);
}

static int
run(struct daemon *d, struct pr_error *err)
{
	int rc = start(d, err);

	if (rc == 0) {
		pr_log_info("ready");
		pr_notify("READY=1");
		rc = pr_loop_run(d->loop, err);
		pr_notify("STOPPING=1");
		hand_over(d);
	}
	stop(d);
	return rc;
}

int
pr_indexer_main(int argc, char **argv)
{
	struct daemon d = {0};
	struct pr_error err = {""};
	int rc = pr_indexer_options_parse(&d.options, argc, argv, &err), status = 2;

	if (rc == 0) {
		pr_log_open(
			"packrack-indexer", d.options.verbose ? PR_LOG_DEBUG : PR_LOG_INFO);
		pr_log_set_format(d.options.log_format);
		rc = run(&d, &err);
		status = 1;
	}
	if (rc < 0)
		pr_log_last("packrack-indexer", err.text);
	pr_indexer_options_free(&d.options);
	return rc < 0 ? status : 0;
}
