/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_DAEMON_PRIVATE_H
#define PR_INDEXER_DAEMON_PRIVATE_H

#include <sys/types.h>

#include "indexer/deliver.h"
#include "indexer/feed.h"
#include "indexer/hello.h"
#include "indexer/offer.h"
#include "indexer/options.h"
#include "indexer/serve.h"
#include "indexer/view.h"
#include "proto/base/loop.h"
#include "proto/base/metrics_server.h"

/*
 * Inside of the indexer's daemon, for its files: daemon.c (coming and going), daemon_lines.c (what it says to
 * mergers and hears from them), daemon_index.c (its volume and that volume's index). All of it is the loop's.
 */
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
	int64_t idle_ns; /* how long the index is left alone when nothing is left to do */
	uint64_t boot;
	bool said_waiting, loaded, stopping;
	dev_t device; /* of the volume's first path when it was opened */
	ino_t inode;
};

/* ---- daemon_lines.c ---- */

int pr_indexer_connect(struct daemon *daemon, struct pr_error *err);
/* Where to ask it directly, if options say so. */
int pr_indexer_listen(struct daemon *daemon, struct pr_error *err);
/* Timers' and the metrics server's; arg is the daemon. */
void pr_indexer_say_hello(void *arg);
void pr_indexer_scrape(void *arg, struct pr_metrics_page *page);

/* ---- daemon_index.c ---- */

/* Timers'. */
void pr_indexer_refresh(void *arg);
void pr_indexer_index(void *arg);
/* At the end: what is being made goes to the logger, for as long as that may take. */
void pr_indexer_hand_over(struct daemon *daemon);
void pr_indexer_let_go(struct daemon *daemon);

#endif
