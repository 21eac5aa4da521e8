/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_DAEMON_PRIVATE_H
#define PRI_INDEXER_DAEMON_PRIVATE_H

#include <sys/types.h>

#include "indexer/record_sender.h"
#include "indexer/index_follower.h"
#include "indexer/hello.h"
#include "indexer/summary_announcer.h"
#include "indexer/options.h"
#include "indexer/query/serve.h"
#include "indexer/query/volume.h"
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
	struct pri_announced offered;
};

struct daemon {
	struct pri_indexer_options options;
	struct pr_loop *loop;
	struct pri_serve *serve;
	struct pri_volume *view;
	struct line *mergers;
	struct line manage;
	struct pr_timer *hello, *refresh, *tick, *index;
	struct pr_metrics_server *metrics;
	struct pri_index_follower *feed;
	struct pri_record_sender *deliver;
	struct pri_summary_announcer *offer;
	int64_t idle_ns; /* how long the index is left alone when nothing is left to do */
	uint64_t boot;
	bool said_waiting, loaded, stopping;
	dev_t device; /* of the volume's first path when it was opened */
	ino_t inode;
};

/* ---- daemon_lines.c ---- */

int pri_indexer_connect(struct daemon *daemon, struct pr_error *err);
/* Where to ask it directly, if options say so. */
int pri_indexer_listen(struct daemon *daemon, struct pr_error *err);
/* Timers' and the metrics server's; arg is the daemon. */
void pri_indexer_say_hello(void *arg);
void pri_indexer_scrape(void *arg, struct pr_metrics_page *page);

/* ---- daemon_index.c ---- */

/* Timers'. */
void pri_indexer_refresh(void *arg);
void pri_indexer_index(void *arg);
/* At the end: what is being made goes to the logger, for as long as that may take. */
void pri_indexer_hand_over(struct daemon *daemon);
void pri_indexer_let_go(struct daemon *daemon);

#endif
