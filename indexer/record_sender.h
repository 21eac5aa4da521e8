/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/index/builder.h"
#include "proto/rpc/rpc.h"

/*
 * Sends finished index records to the logger, the only writer of the volume, over its index socket; several may be in
 * flight. The sink returns 1 when it is full. While no logger is running indexing waits, and data that is overwritten
 * meanwhile stays without index. Call from the loop's thread.
 */

/* uuid: of the volume. The logger need not be there yet. */
struct pri_record_sender *pri_sender_create(
	struct pr_loop *loop, const char *uuid, struct pr_error *err);
void pri_sender_destroy(struct pri_record_sender **deliver);

/* A pri_index_sink; arg is the struct pri_record_sender. */
int pri_sender_sink(void *arg, const struct pr_index_record *record);
/*
 * Call about every 100 ms: sends the collected records, and again those that the logger put
 * off.
 */
void pri_sender_tick(struct pri_record_sender *deliver);
/* Sends all waiting records now. */
void pri_sender_send(struct pri_record_sender *deliver);
/* True if no record waits or is in flight. */
bool pri_sender_idle(const struct pri_record_sender *deliver);
/* True if the sender takes no more records until the logger has answered. */
bool pri_sender_full(const struct pri_record_sender *deliver);

/*
 * Passes a command on to the logger, and the logger's answer back over the connection `from`, which must outlive
 * the sender. One command at a time. A command that cannot be passed on (sender NULL: there is no volume yet) is
 * answered with the reason.
 */
void pri_sender_command(struct pri_record_sender *d, struct pr_rpc *from,
	const Packrack__Envelope *command);

/* Answers a command that is not passed on. */
void pri_sender_refuse(struct pr_rpc *rpc, uint64_t id, const char *text);

/*
 * Gives the logger a command of the indexer's own, one at a time. done gets the logger's answer; NULL: the connection was
 * lost, and nobody knows whether it was carried out. -1: not sent, as there is no logger, or one is under way.
 */
unsigned pri_sender_connects(const struct pri_record_sender *d); /* to a logger, so far */
typedef void pri_sender_done(void *arg, const Packrack__CommandDone *done);
int pri_sender_store(struct pri_record_sender *d, const Packrack__Command *command,
	pri_sender_done *done, void *arg);
