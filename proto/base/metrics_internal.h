/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_BASE_METRICS_INTERNAL_H
#define PR_BASE_METRICS_INTERNAL_H

/* What the files behind metrics_server.h share. */

#include <stdbool.h>
#include <sys/socket.h>

#include "proto/base/metrics_server.h"

int pr_metrics_resolve(const char *address, struct sockaddr_storage *out, socklen_t *len,
	struct pr_error *err);
bool pr_metrics_loopback(const struct sockaddr_storage *address);
const char *pr_metrics_address_text(
	const struct sockaddr_storage *address, char *text, size_t size);

/*
 * The connections of an HTTP server, whose number and age it does not bound by itself. One thread, that
 * of the server's base.
 */
struct event_base;
struct evhttp;
struct evconnlistener;
struct pr_metrics_guard;

/* Sets itself up as what makes http's connections. */
struct pr_metrics_guard *pr_metrics_guard_create(struct event_base *base,
	struct evhttp *http, struct evconnlistener *listener, struct pr_error *err);
void pr_metrics_guard_destroy(struct pr_metrics_guard **guard); /* after evhttp_free */

#endif
