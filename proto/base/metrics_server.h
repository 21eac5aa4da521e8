/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_BASE_METRICS_SERVER_H
#define PR_BASE_METRICS_SERVER_H

#include "proto/base/loop.h"
#include "proto/base/metrics.h"

/*
 * Answers GET /metrics over HTTP, by libevent's server in a thread of its own, at a lower priority. For
 * each scrape, ten a second at most, it asks the loop's thread for the values: no lock is shared, pages
 * change hands by one atomic exchange. What comes in is bounded: PR_METRICS_CONNECTIONS at a time, each
 * for PR_METRICS_PATIENCE_NS at most, with at most PR_METRICS_REQUEST_MAX bytes of request
 * (libevent lets up to twice that pass when it comes in pieces).
 */
#define PR_METRICS_CONNECTIONS 16
#define PR_METRICS_PATIENCE_NS INT64_C(5000000000)
#define PR_METRICS_REQUEST_MAX 8192
#define PR_METRICS_FRESH_NS INT64_C(100000000) /* a page so young answers the next, too */

struct pr_metrics_server;
/* Puts all values in. In the loop's thread. */
typedef void (*pr_metrics_call)(void *arg, struct pr_metrics_page *page);

/* "ADDRESS:PORT" with a numeric address or localhost, "[::1]:9471", or "PORT" on 127.0.0.1. */
int pr_metrics_check_address(const char *address, struct pr_error *err);

/* Listens at once and says where; port 0: one that is free. program: kept. */
struct pr_metrics_server *pr_metrics_serve(struct pr_loop *loop, const char *address,
	pr_metrics_call call, void *arg, struct pr_error *err);
void pr_metrics_stop(struct pr_metrics_server **server); /* before the loop's end */

#endif
