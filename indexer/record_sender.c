/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/record_sender.h"

#include <unistd.h>

#include "proto/base/log.h"
#include "proto/base/runtime_dir.h"

/*
 * Each exchange wakes two threads on both sides, which costs as much as some hundred
 * packets. So records are collected for GATHER_NS, or until there are RECORDS_MAX. Until
 * they are stored, queries read the segments themselves.
 */
#define GATHER_NS (500 * PR_NS_PER_MS)
#define RECORDS_MAX 32
#define BYTES_MAX ((size_t)4 << 20)

/* A command of a merger to the logger: one at a time. */
struct command {
	struct pr_rpc *rpc; /* connection of the client; NULL: no command */
	uint64_t id; /* id at the client */
	uint64_t number; /* ours */
};

struct item {
	struct pr_index_record record;
	uint8_t *buf; /* its body */
	size_t room;
	uint64_t id; /* id of its message; 0: never sent */
	bool sent; /* and not answered yet */
};

struct pri_record_sender {
	struct pr_rpc *rpc;
	struct command command;
	uint64_t number; /* of the last command of either kind */
	struct {
		pri_sender_done *done; /* NULL: none is under way */
		void *arg;
		uint64_t number;
	} own;
	struct item items[RECORDS_MAX]; /* in the order in which they came */
	size_t count, bytes;
	int64_t since; /* since when the oldest record that was never sent waits */
	uint64_t id; /* id of the last message */
	bool connected;
	unsigned connects;
};

void
pri_sender_send(struct pri_record_sender *d)
{
	for (size_t i = 0; i < d->count; i++) {
		struct item *item = &d->items[i];
		Packrack__IndexRecord m = PACKRACK__INDEX_RECORD__INIT;

		if (item->sent)
			continue;
		PR_COPY(&m, &item->record, link, level, first_sequence, segments, check,
			min_time, max_time);
		m.body.data = item->buf;
		m.body.len = item->record.len;
		item->id = ++d->id;
		Packrack__Envelope env =
			pr_message_of(item->id, PACKRACK__ENVELOPE__BODY_INDEX_RECORD, &m);
		item->sent = d->connected && pr_rpc_send(d->rpc, NULL, &env, NULL) == 0;
	}
}

unsigned
pri_sender_connects(const struct pri_record_sender *d)
{
	return d->connects;
}

/* ---- commands ---- */

static void
answer_command(struct pr_rpc *rpc, uint64_t id, const Packrack__CommandDone *done)
{
	Packrack__Envelope env =
		pr_message_of(id, PACKRACK__ENVELOPE__BODY_COMMAND_DONE, done);

	pr_rpc_send(rpc, NULL, &env, NULL);
}

void
pri_sender_refuse(struct pr_rpc *rpc, uint64_t id, const char *text)
{
	Packrack__CommandDone done = PACKRACK__COMMAND_DONE__INIT;

	done.text = (char *)text;
	answer_command(rpc, id, &done);
}

void
pri_sender_command(
	struct pri_record_sender *d, struct pr_rpc *from, const Packrack__Envelope *command)
{
	const char *refusal = "the logger takes no command at present: try again";

	if (!d || !d->connected) {
		refusal = "no logger is running on this node: start packrack-logger, or "
			  "run the command on the node with --volume PATH";
	} else if (d->command.rpc) {
		refusal = "the logger carries out another command: try again";
	} else {
		d->command = (struct command){from, command->id, ++d->number};
		Packrack__Envelope env = pr_message_of(d->command.number,
			PACKRACK__ENVELOPE__BODY_COMMAND, command->command);
		if (pr_rpc_send(d->rpc, NULL, &env, NULL) == 0)
			return;
		d->command.rpc = NULL;
	}
	pri_sender_refuse(from, command->id, refusal);
}

int
pri_sender_store(struct pri_record_sender *d, const Packrack__Command *command,
	pri_sender_done *done, void *arg)
{
	Packrack__Envelope env =
		pr_message_of(d->number + 1, PACKRACK__ENVELOPE__BODY_COMMAND, command);

	if (!d->connected || d->own.done || pr_rpc_send(d->rpc, NULL, &env, NULL) != 0)
		return -1;
	d->own.done = done;
	d->own.arg = arg;
	d->own.number = ++d->number;
	return 0;
}

static void
own_done(struct pri_record_sender *d, const Packrack__CommandDone *answer)
{
	pri_sender_done *done = d->own.done;

	d->own.done = NULL;
	if (done)
		done(d->own.arg, answer);
}

/* ---- records ---- */

static void
on_stored(struct pri_record_sender *d, uint64_t id, const Packrack__IndexStored *stored)
{
	size_t i = 0;

	while (i < d->count && !(d->items[i].sent && d->items[i].id == id))
		i++;
	if (i == d->count)
		return;
	d->items[i].sent = false;
	if (stored->later)
		return; /* the next tick sends it again */
	if (!stored->stored)
		pr_log_debug("the logger refuses an index: %s", stored->text);
	/* move its memory behind the others, for a later record */
	struct item gone = d->items[i];
	d->count--;
	d->bytes -= gone.record.len;
	memmove(&d->items[i], &d->items[i + 1], (d->count - i) * sizeof gone);
	d->items[d->count] = gone;
}

static void
on_message(
	void *arg, PR_UNUSED const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct pri_record_sender *d = arg;

	if (env->body_case == PACKRACK__ENVELOPE__BODY_INDEX_STORED)
		on_stored(d, env->id, env->index_stored);
	if (env->body_case == PACKRACK__ENVELOPE__BODY_COMMAND_DONE && d->command.rpc &&
		env->id == d->command.number) {
		answer_command(d->command.rpc, d->command.id, env->command_done);
		d->command.rpc = NULL;
	}
	if (env->body_case == PACKRACK__ENVELOPE__BODY_COMMAND_DONE && d->own.done &&
		env->id == d->own.number)
		own_done(d, env->command_done);
}

static void
on_state(void *arg, enum pr_rpc_state state)
{
	struct pri_record_sender *d = arg;

	d->connected = state == PR_RPC_CONNECTED;
	d->connects += d->connected;
	for (size_t i = 0; i < d->count; i++)
		/* without an answer, the logger may not have stored the record */
		d->items[i].sent = false;
	if (d->command.rpc)
		pri_sender_refuse(d->command.rpc, d->command.id,
			"the connection to the logger was lost: 'packrack data list' shows "
			"how far the command came; repeat it to finish");
	d->command.rpc = NULL;
	own_done(d, NULL);
	if (d->connected)
		pri_sender_send(d);
}

struct pri_record_sender *
pri_sender_create(struct pr_loop *loop, const char *uuid, struct pr_error *err)
{
	char entry[64], path[PR_RUNTIME_PATH], endpoint[PR_RUNTIME_PATH + 8];
	struct pri_record_sender *d = calloc(1, sizeof *d);

	if (!d)
		return pr_error_null(err, "no memory for indexing");
	PR_PRINT(entry, "%s.index", uuid);
	/* a logger that is not there yet will be one of our own user */
	if (pr_runtime_find(entry, geteuid(), path) ||
		pr_runtime_own(entry, path, err) == 0) {
		PR_PRINT(endpoint, "ipc://%s", path);
		d->rpc = pr_rpc_connect(loop, endpoint, NULL, on_message, d, err);
	}
	if (!d->rpc) {
		free(d);
		return NULL;
	}
	pr_rpc_watch(d->rpc, on_state, d);
	return d;
}

void
pri_sender_destroy(struct pri_record_sender **deliver)
{
	struct pri_record_sender *d = PR_TAKE(deliver);

	if (!d)
		return;
	pr_rpc_destroy(&d->rpc);
	for (size_t i = 0; i < RECORDS_MAX; i++)
		free(d->items[i].buf);
	free(d);
}

int
pri_sender_sink(void *arg, const struct pr_index_record *record)
{
	struct pri_record_sender *d = arg;
	struct item *item = &d->items[d->count];

	if (pri_sender_full(d) || !d->connected ||
		PR_ARRAY_RESERVE(item->buf, item->room, record->len) < 0)
		return 1;
	memcpy(item->buf, record->body, record->len);
	item->record = *record;
	item->id = 0;
	item->sent = false;
	if (d->count == 0 || d->items[d->count - 1].id)
		d->since = pr_now_mono();
	d->count++;
	d->bytes += record->len;
	if (pri_sender_full(d))
		pri_sender_send(d);
	return 0;
}

/*
 * If the newest record was sent before, all were: then only records that the logger put off
 * wait, and they are sent again at once.
 */
void
pri_sender_tick(struct pri_record_sender *d)
{
	if (d->count &&
		(d->items[d->count - 1].id || pr_now_mono() - d->since >= GATHER_NS))
		pri_sender_send(d);
}

bool
pri_sender_idle(const struct pri_record_sender *d)
{
	return d->count == 0;
}

bool
pri_sender_full(const struct pri_record_sender *d)
{
	return d->count == RECORDS_MAX || d->bytes >= BYTES_MAX;
}
