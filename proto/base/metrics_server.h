/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/loop.h"
#include "proto/base/metrics.h"

/*
 * Answers GET /metrics over HTTP/1, one request a connection, in the daemon's loop. What comes in is
 * bounded: 16 connections at a time, each for 5 s at most (also if it sends a byte now and then), with
 * at most 8 KiB of request; values are taken ten times a second at most. libevent's own HTTP server
 * bounds neither connections nor their time.
 */
/* Puts all values in. Called from the loop's thread. */
typedef void (*pr_metrics_call)(void *arg, struct pr_metrics_page *page);

/* "ADDRESS:PORT" with a numeric address or localhost, "[::1]:9471", or "PORT" on 127.0.0.1. */
int pr_metrics_check_address(const char *address, struct pr_error *err);

/* Listens, and logs where; port 0: a free one. Stop it before the loop is destroyed. */
struct pr_metrics_server *pr_metrics_serve(struct pr_loop *loop, const char *address,
	pr_metrics_call call, void *arg, struct pr_error *err);
void pr_metrics_stop(struct pr_metrics_server **server);
