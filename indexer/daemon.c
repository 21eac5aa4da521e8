/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/daemon.h"

#include <stdlib.h>

#include "indexer/daemon_private.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/priority.h"
#include "proto/wire/frame.h"

#define HELLO_NS (2 * PR_NS_PER_S)
#define REFRESH_NS (PR_NS_PER_S / 2)
#define INDEX_START_NS (20 * PR_NS_PER_MS) /* then as it goes */

static void
on_tick(void *arg)
{
	struct daemon *d = arg;

	pri_serve_tick(d->serve);
}

static int
serve_metrics(struct daemon *d, struct pr_error *err)
{
	if (!d->options.metrics)
		return 0;
	d->metrics =
		pr_metrics_serve(d->loop, d->options.metrics, pri_indexer_scrape, d, err);
	return d->metrics ? 0 : -1;
}

static int
start(struct daemon *d, struct pr_error *err)
{
	d->boot = (uint64_t)pr_nonce_make() << 32 | pr_nonce_make();
	d->loop = pr_loop_create(NULL, err);
	if (!d->loop)
		return -1;
	d->serve = pri_serve_create(d->loop, d->options.queries, err);
	if (!d->serve)
		return -1;
	d->hello = pr_timer_create(d->loop, HELLO_NS, pri_indexer_say_hello, d, err);
	d->refresh = pr_timer_create(d->loop, REFRESH_NS, pri_indexer_refresh, d, err);
	d->tick = pr_timer_create(d->loop, PR_NS_PER_S, on_tick, d, err);
	d->index = pr_timer_create(d->loop, INDEX_START_NS, pri_indexer_index, d, err);
	if (!d->hello || !d->refresh || !d->tick || !d->index)
		return -1;
	pri_indexer_refresh(d);
	if (pri_indexer_listen(d, err) < 0 || serve_metrics(d, err) < 0 ||
		pri_indexer_connect(d, err) < 0)
		return -1;
	pr_priority_give_way(); /* capture comes first */
	return 0;
}

/* Queries before what they read from and answer over. */
static void
stop(struct daemon *d)
{
	pr_metrics_stop(&d->metrics);
	pri_serve_destroy(&d->serve);
	for (size_t i = 0; d->mergers && i < d->options.merger.count; i++)
		pr_rpc_destroy(&d->mergers[i].rpc);
	free(d->mergers);
	pr_rpc_destroy(&d->manage.rpc);
	pr_timer_destroy(&d->hello);
	pr_timer_destroy(&d->refresh);
	pr_timer_destroy(&d->tick);
	pr_timer_destroy(&d->index);
	pri_indexer_let_go(d);
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
		pri_indexer_hand_over(d);
	}
	stop(d);
	return rc;
}

int
pri_indexer_main(int argc, char **argv)
{
	struct daemon d = {0};
	struct pr_error err = {""};
	int rc = pri_indexer_options_parse(&d.options, argc, argv, &err), status = 2;

	if (rc == 0) {
		pr_log_open(
			"packrack-indexer", d.options.verbose ? PR_LOG_DEBUG : PR_LOG_INFO);
		pr_log_set_format(d.options.log_format);
		rc = run(&d, &err);
		status = 1;
	}
	if (rc < 0)
		pr_log_last("packrack-indexer", err.text);
	pri_indexer_options_free(&d.options);
	return rc < 0 ? status : 0;
}
