/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CONSOLE_FETCH_H
#define PR_CONSOLE_FETCH_H

#include "merger/cli/console/model.h"
#include "merger/cli/console/ui.h"
#include "proto/base/error.h"
#include "proto/base/loop.h"
#include "proto/rpc/rpc.h"

/*
 * Asks the dispatcher and the mergers for their figures, and carries orders. Never waits: who does
 * not answer is noted in the model as silent and asked again. All from the loop's thread.
 */
struct fetch;

struct fetch_calls {
	void (*changed)(void *arg); /* the model has new figures */
	void (*done)(void *arg, bool ok,
		const char *text); /* an order was carried out, or not */
	void *arg;
};

/* The model's peers say whom: those with an endpoint. */
struct fetch *fetch_create(struct pr_loop *loop, struct model *model,
	const struct pr_rpc_keys *keys, const struct fetch_calls *calls,
	struct pr_error *err);
void fetch_destroy(struct fetch **f);
/* One round: asks all that owe nothing. */
void fetch_ask(struct fetch *f);
void fetch_order(struct fetch *f, const struct console_order *order);

#endif
