/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/daemon.h"

#include <event2/event.h>
#include <unistd.h>

#include "indexer/holds.h"
#include "indexer/query/hello.h"
#include "indexer/query/serve.h"
#include "indexer/record_sender.h"
#include "indexer/state_keeper.h"
#include "indexer/summary_announcer.h"
#include "logger/streamfs/disk.h"
#include "proto/base/metrics_server.h"
#include "proto/base/privilege.h"
#include "proto/base/thread.h"
#include "proto/port/parent.h"
#include "proto/rpc/option_rows.h"
#include "proto/rpc/status.h"

struct pri_indexer_options {
	struct pr_string_list volume; /* as given: PATH[,PATH] */
	struct pr_string_list paths; /* its parts */
	struct pr_string_list merger;
	char *name, *manage, *cluster, *metrics, *user;
	char *key_flag; /* as given */
	const char *keys; /* key directory, or NULL */
	uint64_t queries;
	int log_format; /* enum pr_log_format */
	bool verbose;
	struct pr_string_list composite; /* as given */
	struct pri_composites composites;
};

#define PR_VALUES struct pri_indexer_options
#define NAME_MAX_BYTES 64

static const struct pr_option options[] = {
	PR_OPT_LIST(volume, "volume", 0, "PATH[,PATH]",
		"the volume: its file, or its devices in their order", .required = true),
	PR_OPT_LIST(merger, "merger", 'm', "ENDPOINT",
		"endpoint of a merger that sends queries (" PR_RPC_ENDPOINT_MERGER ")"),
	PR_OPT_STRING(name, "node-name", 0, "NAME", "name of this node",
		.def_note = "the host name", .aliases = {"name"}),
	PR_OPT_STRING(cluster, "cluster", 0, "NAME",
		"name of this node's cluster, such as its rack"),
	PR_OPT_STRING(manage, "listen", 0, "ENDPOINT",
		"endpoint for queries that do not come from a merger",
		.aliases = {"manage"}),
	PR_OPTION_METRICS(metrics),
	PR_OPT_UINT(queries, "max-queries", 0, "N", 1, PRI_SERVE_RUNNING_MAX,
		"queries answered at the same time; others wait", .aliases = {"queries"}),
	PR_OPT_LIST(composite, "composite", 0, "KEYS",
		"index combinations of fields too, such as src+dport"),
	PR_OPTION_KEY(key_flag),
	PR_OPTION_USER(user),
	PR_OPTION_LOG_FORMAT(log_format),
	PR_OPTION_VERBOSE(verbose),
};

static const struct pr_cmdline program = {.name = "packrack-indexer",
	.section = "indexer",
	.summary = "Answers queries from one volume.",
	.usage = "--volume PATH[,PATH] [options]",
	PR_OPTIONS(options),
	.footer = "It only reads the volume, waits for it if it is not there yet, and "
		  "gives way to capture."};

static int
check_name(const char *option, const char *name, struct pr_error *err)
{
	size_t len = strlen(name);

	if (len == 0 || len > NAME_MAX_BYTES)
		return pr_error_set(err, "--%s: 1 to %d bytes", option, NAME_MAX_BYTES);
	for (; *name; name += pr_text_plain(name))
		if (*name == ' ' || !pr_text_plain(name))
			return pr_error_set(err,
				"--%s: no blanks or control characters, and UTF-8", option);
	return 0;
}

static int
check(struct pri_indexer_options *o, struct pr_error *err)
{
	char host[NAME_MAX_BYTES + 1] = "";

	if (pr_string_list_split(&o->paths, &o->volume, err) < 0)
		return -1;
	if (o->paths.count == 0)
		return pr_error_set(err, "no volume: give --volume PATH");
	if (!o->name) {
		if (gethostname(host, sizeof host - 1) < 0)
			return pr_error_errno(err, "the machine's name");
		o->name = strdup(host);
		if (!o->name)
			return pr_error_set(err, "no memory");
	}
	if (check_name("node-name", o->name, err) < 0 ||
		(o->cluster && check_name("cluster", o->cluster, err) < 0))
		return -1;
	if (o->merger.count == 0 && !o->manage &&
		pr_string_list_add(&o->merger, PR_RPC_ENDPOINT_MERGER,
			strlen(PR_RPC_ENDPOINT_MERGER), err) < 0)
		return -1;
	for (size_t i = 0; i < o->merger.count; i++)
		if (pr_rpc_check_endpoint(o->merger.items[i], err) < 0)
			return -1;
	if ((o->manage && pr_rpc_check_endpoint(o->manage, err) < 0) ||
		(o->metrics && pr_metrics_check_address(o->metrics, err) < 0))
		return -1;
	if (pri_composites_parse(&o->composite, &o->composites, err) < 0)
		return pr_error_prefix(err, "--composite");
	o->keys = pr_keys_dir(o->key_flag);
	return 0;
}

/* A connection to a merger, or the socket for queries without one. */
struct connection {
	struct daemon *daemon;
	const char *endpoint;
	struct pr_rpc *rpc;
	bool connected, said_refused;
	struct pri_announced offered;
};

struct daemon {
	struct pri_indexer_options options;
	struct pr_loop *loop;
	struct pri_serve *serve;
	struct pri_volume *volume;
	struct connection *mergers; /* and behind them the socket for queries without one */
	size_t links_said; /* epoch series when it last said Hello */
	struct pr_timer *hello, *refresh, *tick, *index;
	struct pr_metrics_server *metrics;
	struct pri_index_follower *feed;
	struct pri_record_sender *deliver;
	struct pri_summary_announcer *offer;
	struct pri_holds *holds;
	struct pri_state_keeper state;
	int64_t idle_ns; /* time between steps while nothing is left to do */
	uint64_t boot;
	bool said_waiting, loaded, stopping;
	dev_t device; /* of the volume's first path when it was opened */
	ino_t inode;
};

#define REFRESH_SLICE_NS (20 * PR_NS_PER_MS)
#define LOADING_SLICE_NS (200 * PR_NS_PER_MS) /* at the start, when there is much to list */

/*
 * Indexing gets at most INDEX_SLICE_NS of each INDEX_NS; queries get the rest of the time.
 */
#define INDEX_NS (20 * PR_NS_PER_MS)
#define INDEX_SLICE_NS (8 * PR_NS_PER_MS)
/*
 * Time between steps while nothing is left to do. Queries read new segments themselves, and
 * waking costs as much as a segment. So the indexer waits, but not so long that a step
 * would take more than INDEX_ONCE_NS, or that new segments leave shared memory.
 */
#define INDEX_IDLE_NS (200 * PR_NS_PER_MS)
#define INDEX_IDLE_LEAST_NS (50 * PR_NS_PER_MS)
#define INDEX_ONCE_NS (3 * PR_NS_PER_MS)
/*
 * Time between steps while the logger has yet to take many records: it answers within its
 * loop's next turn.
 */
#define INDEX_HANDED_NS (5 * PR_NS_PER_MS)
#define HAND_OVER_NS (PR_NS_PER_S / 2) /* at the end, for the logger to take what is made */

/* ---- the volume ---- */

static void
pri_indexer_let_go(struct daemon *d)
{
	pri_announcer_destroy(&d->offer);
	pri_follower_destroy(&d->feed);
	pri_holds_destroy(&d->holds);
	pri_state_keeper_close(&d->state);
	pri_sender_destroy(&d->deliver);
	pri_volume_close(&d->volume);
}

static void
close_volume(struct daemon *d, const char *why)
{
	pri_serve_set_volume(d->serve, NULL, why);
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
	struct stat st = {0};
	char text[400];

	pr_privilege_stat(d->options.paths.items[0], &st);
	d->device = st.st_dev;
	d->inode = st.st_ino;
	d->volume = pri_volume_open((const char *const *)d->options.paths.items,
		d->options.paths.count, PRI_VOLUME_SUMMARIES, &err);
	if (!d->volume) {
		close_volume(d, err.text);
		return;
	}
	pr_log_info("volume %s is open", d->options.paths.items[0]);
	if (sfs_degraded(d->volume->sfs, text, sizeof text))
		pr_log_warning("%s", text);
	d->said_waiting = false;
	pri_serve_set_volume(d->serve, d->volume, NULL);
}

static void pri_indexer_say_hello(void *arg);

static void
pri_indexer_refresh(void *arg)
{
	struct daemon *d = arg;
	struct pr_error err;
	struct stat st = {0}; /* of a path that is missing, as it may be from the start */

	/* a new volume at the same path is another one: what we hold open is gone */
	pr_privilege_stat(d->options.paths.items[0], &st);
	if (d->volume && (st.st_dev != d->device || st.st_ino != d->inode))
		close_volume(d, "the volume was replaced");
	if (!d->volume)
		open_volume(d);
	if (!d->volume)
		return;
	int64_t slice = d->loaded ? REFRESH_SLICE_NS : LOADING_SLICE_NS;
	int rc = pri_volume_refresh(d->volume, false, pr_now_mono() + slice, &err);
	d->loaded |= rc == 0;
	if (rc < 0)
		close_volume(d, err.text);
	else if (d->mergers && d->loaded && d->volume->ledger.count != d->links_said)
		pri_indexer_say_hello(d); /* at once: users call a new link by its name */
}

/* ---- indexing ---- */

static int
open_feed(struct daemon *d, struct pr_error *err)
{
	struct sfs_volume_info info;

	if (!d->deliver && sfs_info(d->volume->sfs, &info, err) == 0)
		d->deliver = pri_sender_create(d->loop, info.uuid, err);
	if (d->deliver && !d->feed)
		d->feed = pri_follower_create(d->volume, &d->options.composites,
			pri_sender_sink, d->deliver, err);
	if (d->deliver && !d->holds)
		d->holds = pri_holds_create(d->volume, d->deliver, err);
	if (d->deliver && !d->state.volume)
		pri_state_keeper_open(&d->state, d->volume, d->deliver);
	return d->feed && d->holds ? 0 : -1;
}

/*
 * Announces summaries to the mergers. A merger leaves this node out only for data that is
 * indexed and announced.
 */
static void
offer(struct daemon *d)
{
	if (!d->offer)
		d->offer = pri_announcer_create(d->volume, d->feed, d->options.cluster);
	if (!d->offer)
		return;
	pri_announcer_tick(d->offer);
	for (size_t i = 0; i < d->options.merger.count; i++)
		if (d->mergers[i].connected)
			pri_announcer_tell(
				d->offer, &d->mergers[i].offered, d->mergers[i].rpc);
}

/*
 * The time until the next step; rc and took are of the last one. Busy: `took` scaled so
 * that indexing has its share of the thread, also while the logger has yet to take records.
 * Idle: changed so that a step with nothing to do takes INDEX_ONCE_NS.
 */
static int64_t
index_period(struct daemon *d, int rc, int64_t took)
{
	int64_t share = took * (INDEX_NS / INDEX_SLICE_NS + 1);
	int64_t idle = d->idle_ns ? d->idle_ns : INDEX_IDLE_LEAST_NS;
	struct pri_follower_stats figures;

	pri_follower_stats(d->feed, &figures);
	if (rc > 0 || share > INDEX_NS)
		return INDEX_NS;
	if (pri_sender_full(d->deliver) && figures.behind)
		return share > INDEX_HANDED_NS ? share : INDEX_HANDED_NS;
	idle = took > 0 ? idle * INDEX_ONCE_NS / took : INDEX_IDLE_NS;
	return d->idle_ns = PR_MIN(PR_MAX(idle, INDEX_IDLE_LEAST_NS), INDEX_IDLE_NS);
}

/* An error is only logged: queries read the segments that have no index. */
static void
pri_indexer_index(void *arg)
{
	struct daemon *d = arg;
	struct pr_error err = {""};

	if (!d->volume || !d->loaded)
		return;
	if (open_feed(d, &err) == 0) {
		pri_sender_tick(d->deliver);
		if (d->stopping)
			return;
		pri_state_keeper_step(&d->state);
		pri_holds_step(d->holds, &d->state.state);
		int64_t began = pr_now_mono();
		int rc = pri_follower_step(d->feed, began + INDEX_SLICE_NS, &err);
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

/*
 * Hands unfinished records to the logger at the end: making them again after the next start
 * would cost more.
 */
static void
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

/* ---- what we say ---- */

static struct pri_hello *
make_hello(struct daemon *d)
{
	struct pri_follower_stats figures = {0};

	if (d->feed)
		pri_follower_stats(d->feed, &figures);
	struct pri_hello *hello =
		pri_hello_create(d->volume, d->options.name, d->boot, figures.behind, NULL);
	if (hello)
		pri_serve_status(d->serve, &hello->status);
	if (hello && d->holds)
		hello->status.holds = pri_holds_list(d->holds, &hello->status.n_holds);
	if (hello)
		hello->status.state_digest = d->state.state.digest;
	return hello;
}

static void
say_hello(struct connection *connection, struct pri_hello *hello)
{
	Packrack__Envelope env =
		pr_message_of(0, PACKRACK__ENVELOPE__BODY_HELLO, &hello->message);

	if (connection->connected)
		pr_rpc_send(connection->rpc, NULL, &env, NULL);
}

static void
pri_indexer_say_hello(void *arg)
{
	struct daemon *d = arg;
	struct pri_hello *hello = make_hello(d);

	for (size_t i = 0; hello && i < d->options.merger.count; i++)
		say_hello(&d->mergers[i], hello);
	d->links_said = d->volume ? d->volume->ledger.count : 0;
	pri_hello_destroy(&hello);
}

static void
pri_indexer_scrape(void *arg, struct pr_metrics_page *page)
{
	struct daemon *d = arg;
	struct pri_hello *hello = make_hello(d);

	if (!hello)
		return;
	pr_status_metrics_build(page, "packrack-indexer");
	pr_status_metrics_node(page, "packrack_indexer_", &hello->status, false);
	pri_hello_destroy(&hello);
}

/* What hello says, as the answer to a status request. */
static void
answer_status(struct connection *connection, const struct pr_rpc_peer *peer, uint64_t id)
{
	struct pri_hello *hello = make_hello(connection->daemon);
	Packrack__Status status = pr_status_of("packrack-indexer");

	if (!hello)
		return;
	Packrack__NodeStatus *node = &hello->status;
	status.nodes = &node;
	status.n_nodes = 1;
	PR_COPY(&status, &hello->message, links, n_links);
	Packrack__Envelope env =
		pr_message_of(id, PACKRACK__ENVELOPE__BODY_STATUS, &status);
	pr_rpc_send(connection->rpc, peer, &env, NULL);
	pri_hello_destroy(&hello);
}

/* ---- what we hear ---- */

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct connection *connection = arg;
	struct daemon *d = connection->daemon;

	if (env->body_case == PACKRACK__ENVELOPE__BODY_STATUS_REQUEST) {
		answer_status(connection, peer, env->id);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE) {
		/*
		 * our Hello was refused: our key was revoked, or is another node's; logged
		 * once
		 */
		if (!connection->said_refused)
			pr_log_warning("%s: %s", connection->endpoint, env->failure->text);
		connection->said_refused = true;
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_SUMMARY_WANT) {
		if (!peer && d->offer)
			pri_announcer_want(d->offer, &connection->offered, connection->rpc,
				env->summary_want);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_STATE) {
		Packrack__RackState reply;
		Packrack__Envelope back =
			pr_message_of(0, PACKRACK__ENVELOPE__BODY_STATE, &reply);

		if (!peer && d->state.volume &&
			pr_state_exchange(
				&d->state.state, env->state, pr_now_real(), &reply))
			pr_rpc_send(connection->rpc, NULL, &back, NULL);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_COMMAND && !peer) {
		struct pr_error err;

		if (!strcmp(env->command->verb, "hold") && d->holds &&
			pri_holds_prepare(d->holds, env->command, &err) < 0)
			pri_sender_refuse(connection->rpc, env->id, err.text);
		else
			pri_sender_command(d->deliver, connection->rpc, env);
	} else {
		pri_serve_message(d->serve, connection->rpc, peer, env);
	}
}

static void
on_state(void *arg, enum pr_rpc_state state)
{
	struct connection *connection = arg;

	if (state == PR_RPC_REFUSED) {
		if (!connection->said_refused)
			pr_log_warning("%s", pr_rpc_refusal(connection->rpc));
		connection->said_refused = true;
		return;
	}
	if (state == PR_RPC_DISCONNECTED && connection->connected)
		pr_log_info("%s is gone; trying again", connection->endpoint);
	pri_serve_drop(connection->daemon->serve, connection->rpc);
	connection->connected = state == PR_RPC_CONNECTED;
	connection->offered = (struct pri_announced){.bytes = connection->offered.bytes};
	if (!connection->connected)
		return;
	connection->said_refused = false;
	pr_log_with(PR_LOG_INFO, PR_LOG_FIELDS({"merger", connection->endpoint}),
		"connected to %s", connection->endpoint);
	struct pri_hello *hello = make_hello(connection->daemon);
	if (hello)
		say_hello(connection, hello);
	pri_hello_destroy(&hello);
}

/* ---- connections ---- */

static int
connect_all(struct daemon *d, struct pr_error *err)
{
	const char *manage = d->options.manage, *keys = d->options.keys;
	size_t count = d->options.merger.count;
	struct connection *c;

	d->mergers = calloc(count + 1, sizeof *d->mergers);
	if (!d->mergers)
		return pr_error_set(err, "no memory");
	for (c = d->mergers; c < d->mergers + count; c++) {
		*c = (struct connection){
			.daemon = d, .endpoint = d->options.merger.items[c - d->mergers]};
		if (!keys)
			pr_log_warning("no keys: packets go to %s unencrypted, and any "
				       "program that listens there may query "
				       "(packrack-keys(7))",
				c->endpoint);
		c->rpc = pr_rpc_connect(d->loop, c->endpoint, keys, on_message, c, err);
		if (!c->rpc)
			return -1;
		pr_rpc_watch(c->rpc, on_state, c);
	}
	if (!manage)
		return 0;
	*c = (struct connection){.daemon = d, .endpoint = manage};
	if (!keys)
		pr_log_warning(
			"no keys: anyone reaching %s may query (packrack-keys(7))", manage);
	c->rpc = pr_rpc_listen(d->loop, manage, keys, on_message, c, err);
	return c->rpc ? 0 : -1;
}

static int
drop_privileges(const struct pri_indexer_options *o, struct pr_error *err)
{
	struct pr_grants g = {.sandbox = {PR_SANDBOX_INDEXER, o->user, {0}}};

	pr_grant_all(&g, PR_GRANT_READ, &o->paths);
	pr_grant(&g, PR_GRANT_KEYS, o->keys);
	pr_grant(&g, PR_GRANT_ENDPOINT, o->manage);
	sfs_open_file = pr_privilege_open;
	return pr_privilege_drop(&g, err);
}

#define HELLO_NS (2 * PR_NS_PER_S)
#define REFRESH_NS (PR_NS_PER_S / 2)
#define INDEX_START_NS (20 * PR_NS_PER_MS) /* index_period sets the next */

static int
start(struct daemon *d, struct pr_error *err)
{
	d->boot = (uint64_t)pr_nonce_make() << 32 | pr_nonce_make();
	if (!(d->loop = pr_loop_create(NULL, err)) ||
		!(d->serve = pri_serve_create(d->loop, d->options.queries, err)))
		return -1;
	d->hello = pr_timer_create(d->loop, HELLO_NS, pri_indexer_say_hello, d, err);
	d->refresh = pr_timer_create(d->loop, REFRESH_NS, pri_indexer_refresh, d, err);
	d->tick = pr_timer_create(d->loop, PR_NS_PER_S, pri_serve_tick, d->serve, err);
	d->index = pr_timer_create(d->loop, INDEX_START_NS, pri_indexer_index, d, err);
	if (!d->hello || !d->refresh || !d->tick || !d->index)
		return -1;
	pri_indexer_refresh(d);
	if (d->options.metrics)
		d->metrics = pr_metrics_serve(
			d->loop, d->options.metrics, pri_indexer_scrape, d, err);
	if ((d->options.metrics && !d->metrics) || connect_all(d, err) < 0)
		return -1;
	pr_priority_give_way(); /* capture comes first */
	return 0;
}

/*
 * Ends queries first, then the volume that they read and the connections over which they
 * answer.
 */
static void
stop(struct daemon *d)
{
	pr_metrics_stop(&d->metrics);
	pri_serve_destroy(&d->serve);
	for (size_t i = 0; d->mergers && i <= d->options.merger.count; i++)
		pr_rpc_destroy(&d->mergers[i].rpc);
	free(d->mergers);
	pr_timer_destroy(&d->hello);
	pr_timer_destroy(&d->refresh);
	pr_timer_destroy(&d->tick);
	pr_timer_destroy(&d->index);
	pri_indexer_let_go(d);
	pr_loop_destroy(&d->loop);
}

int
pri_indexer_main(int argc, char **argv)
{
	struct daemon d = {.options.queries = PRI_SERVE_RUNNING_DEFAULT};
	struct pr_error err = {""};
	int rc = pr_options_parse(&program, &d.options, argc, argv, NULL, &err), status = 2;

	if (rc == 0)
		rc = check(&d.options, &err);
	if (rc == 0) {
		status = 1;
		pr_log_open("packrack-indexer",
			d.options.verbose ? PR_LOG_DEBUG : PR_LOG_INFO,
			d.options.log_format);
		rc = drop_privileges(&d.options, &err) < 0 || start(&d, &err) < 0
			     ? -1
			     : pr_sandbox_seal(&err);
		if (rc == 0) {
			pr_log_info("ready");
			pr_notify("READY=1");
			rc = pr_loop_run(d.loop, &err);
			pr_notify("STOPPING=1");
			pri_indexer_hand_over(&d);
		}
		stop(&d);
		pr_privilege_end();
	}
	if (rc < 0)
		pr_log_last("packrack-indexer", err.text);
	pr_options_free(&program, &d.options);
	pr_string_list_clear(&d.options.paths);
	return rc < 0 ? status : 0;
}
