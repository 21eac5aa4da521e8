/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_SERVER_H
#define PRM_MERGER_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/base/loop.h"
#include "proto/base/metrics.h"
#include "proto/rpc/rpc.h"

/*
 * The merger's service: nodes connect and say Hello; clients connect to the same endpoints and send
 * Query, Credit, Cancel, StatusRequest, and Command "forget" (a node that is gone for good) and "cancel" (a query, by number).
 * With keys, each key's role says what it may send (proto/rpc/roles.h). From the loop's thread only.
 */
struct prm_merger;

#define PRM_MERGER_QUERIES_DEFAULT 16
#define PRM_MERGER_QUERIES_MAX 1024

struct prm_merger_options {
	size_t max_queries; /* at the same time; 0: default */
	int64_t silent_ns; /* see fanout.h; 0: default */
	uint64_t summaries; /* bytes of memory for them; 0: default (summaries.h) */
	const char *name; /* among mergers; borrowed, copied by none; NULL: alone */
};

struct prm_merger *prm_merger_create(struct pr_loop *loop,
	const struct prm_merger_options *options, struct pr_error *err);
int prm_merger_listen(struct prm_merger *m, const char *endpoint,
	const struct pr_rpc_keys *keys, struct pr_error *err);
/* All figures of its status. */
void prm_merger_scrape(struct prm_merger *m, struct pr_metrics_page *page);
/* Another merger, with which this one shares the duty for summaries. keys: as a client. */
int prm_merger_peer(struct prm_merger *m, const char *endpoint,
	const struct pr_rpc_keys *keys, struct pr_error *err);
/* Clients of running queries are told that the merger stops. */
void prm_merger_destroy(struct prm_merger **m);

#endif
