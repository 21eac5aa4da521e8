/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"

/*
 * libevent's base with a daemon's signals as events: SIGTERM and SIGINT call stop (a second
 * one ends the loop at once), SIGHUP calls reload, SIGPIPE is ignored. Nothing runs in
 * handlers. If systemd's watchdog is on (WATCHDOG_USEC), the loop reports to it that it is
 * running.
 */

struct pr_loop_calls {
	void (*stop)(void *arg); /* NULL: pr_loop_break */
	void (*reload)(void *arg); /* NULL: ignored */
	void *arg;
};

struct pr_loop *pr_loop_create(const struct pr_loop_calls *calls, struct pr_error *err);
void pr_loop_destroy(struct pr_loop **loop);
struct event_base *pr_loop_base(struct pr_loop *loop);
int pr_loop_run(struct pr_loop *loop, struct pr_error *err);
void pr_loop_break(struct pr_loop *loop); /* any thread, also before the run */

/* A repeating timer; freed with pr_timer_destroy before the loop. */
struct pr_timer *pr_timer_create(struct pr_loop *loop, int64_t every_ns,
	void (*call)(void *arg), void *arg, struct pr_error *err);
/* Sets a new period; the next call comes after every_ns. -1: no memory. */
int pr_timer_every(struct pr_timer *timer, int64_t every_ns);
void pr_timer_destroy(struct pr_timer **timer);

/* sd_notify(3)'s protocol ("READY=1", "WATCHDOG=1", "STATUS=..."); does nothing without NOTIFY_SOCKET. */
void pr_notify(const char *state);
