/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/deliver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/log.h"
#include "proto/rpc/rpc.h"

/* What a merger wants of the logger: one at a time. */
struct order {
	struct pr_rpc *rpc; /* who asked; NULL: nobody */
	uint64_t id; /* the asker's */
	uint64_t number; /* ours */
};

struct pr_deliver {
	struct pr_rpc *rpc;
	struct order order;
	struct pr_index_record record; /* len 0: none */
	uint8_t *buf; /* its body */
	size_t room;
	uint64_t id; /* of what was sent last */
	bool sent; /* and not answered yet */
	bool connected;
	struct pr_deliver_figures figures;
};

static void
send_record(struct pr_deliver *d)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	Packrack__IndexRecord m = PACKRACK__INDEX_RECORD__INIT;

	m.link = d->record.link;
	m.level = d->record.level;
	m.first_sequence = d->record.first_sequence;
	m.segments = d->record.segments;
	m.check = d->record.check;
	m.min_time = d->record.min_time;
	m.max_time = d->record.max_time;
	m.body.data = d->buf;
	m.body.len = d->record.len;
	env.id = ++d->id;
	env.body_case = PACKRACK__ENVELOPE__BODY_INDEX_RECORD;
	env.index_record = &m;
	d->sent = d->connected && pr_rpc_send(d->rpc, NULL, &env, NULL) == 0;
}

/* ---- orders ---- */

static void
answer_order(struct pr_rpc *rpc, uint64_t id, const Packrack__CommandDone *done)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_COMMAND_DONE;
	env.command_done = (Packrack__CommandDone *)done;
	pr_rpc_send(rpc, NULL, &env, NULL);
}

static void
refuse_order(struct pr_rpc *rpc, uint64_t id, const char *text)
{
	Packrack__CommandDone done = PACKRACK__COMMAND_DONE__INIT;

	done.text = (char *)text;
	answer_order(rpc, id, &done);
}

static void
order_done(struct pr_deliver *d, uint64_t number, const Packrack__CommandDone *done)
{
	if (!d->order.rpc || number != d->order.number)
		return;
	answer_order(d->order.rpc, d->order.id, done);
	d->order.rpc = NULL;
}

void
pr_deliver_order(struct pr_deliver *d, struct pr_rpc *from, const Packrack__Envelope *order)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	if (!d || !d->connected) {
		refuse_order(from, order->id,
			"no logger writes the node's volume now: start it, or use "
			"--volume there");
		return;
	}
	if (d->order.rpc) {
		refuse_order(from, order->id, "the logger is at another order: try again");
		return;
	}
	d->order = (struct order){from, order->id, d->order.number + 1};
	env.id = d->order.number;
	env.body_case = PACKRACK__ENVELOPE__BODY_COMMAND;
	env.command = order->command;
	if (pr_rpc_send(d->rpc, NULL, &env, NULL) == 0)
		return;
	d->order.rpc = NULL;
	refuse_order(from, order->id, "the logger takes no order at present: try again");
}

/* ---- records ---- */

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct pr_deliver *d = arg;

	(void)peer;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_COMMAND_DONE)
		order_done(d, env->id, env->command_done);
	if (env->body_case != PACKRACK__ENVELOPE__BODY_INDEX_STORED || env->id != d->id ||
		!d->sent)
		return;
	d->sent = false;
	if (env->index_stored->later)
		return; /* the next tick sends it again */
	if (env->index_stored->stored) {
		d->figures.records++;
		d->figures.bytes += d->record.len;
	} else {
		d->figures.refused++;
		pr_log_debug("the logger refuses an index: %s", env->index_stored->text);
	}
	d->record.len = 0;
}

static void
on_state(void *arg, enum pr_rpc_state state)
{
	struct pr_deliver *d = arg;

	d->connected = state == PR_RPC_CONNECTED;
	d->sent = false; /* what a logger did not answer it may not have stored */
	if (d->order.rpc)
		refuse_order(d->order.rpc, d->order.id,
			"the logger has gone: how far it came, packrack data list says");
	d->order.rpc = NULL;
	if (d->connected && d->record.len)
		send_record(d);
}

struct pr_deliver *
pr_deliver_create(struct pr_loop *loop, const char *uuid, struct pr_error *err)
{
	char endpoint[sizeof(PR_RPC_ENDPOINT_INDEX) + 40];
	struct pr_deliver *d = calloc(1, sizeof(*d));

	if (!d) {
		pr_error_set(err, "no memory for indexing");
		return NULL;
	}
	snprintf(endpoint, sizeof(endpoint), PR_RPC_ENDPOINT_INDEX, uuid);
	d->rpc = pr_rpc_connect(loop, endpoint, NULL, on_message, d, err);
	if (!d->rpc) {
		free(d);
		return NULL;
	}
	pr_rpc_watch(d->rpc, on_state, d);
	return d;
}

void
pr_deliver_destroy(struct pr_deliver **deliver)
{
	struct pr_deliver *d = *deliver;

	if (!d)
		return;
	pr_rpc_destroy(&d->rpc);
	free(d->buf);
	free(d);
	*deliver = NULL;
}

static bool
keep(struct pr_deliver *d, const struct pr_index_record *record)
{
	uint8_t *grown;

	if (record->len > d->room) {
		grown = realloc(d->buf, record->len);
		if (!grown)
			return false;
		d->buf = grown;
		d->room = record->len;
	}
	memcpy(d->buf, record->body, record->len);
	d->record = *record;
	return true;
}

int
pr_deliver_sink(void *arg, const struct pr_index_record *record)
{
	struct pr_deliver *d = arg;

	if (d->record.len || !d->connected)
		return 1;
	if (!keep(d, record))
		return 1;
	send_record(d);
	return 0;
}

void
pr_deliver_tick(struct pr_deliver *d)
{
	if (d->record.len && !d->sent)
		send_record(d);
}

bool
pr_deliver_idle(const struct pr_deliver *d)
{
	return !d->record.len;
}

const struct pr_deliver_figures *
pr_deliver_figures(const struct pr_deliver *d)
{
	return &d->figures;
}
