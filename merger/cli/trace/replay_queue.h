/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_REPLAY_QUEUE_H
#define PR_CLI_REPLAY_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/wire/source.h"

/*
 * Packets that are ready to be sent, between the thread that gets the answer and the one that sends.
 * They lie one behind the other in chunks; a lock is taken once a chunk. At most
 * REPLAY_CHUNKS x REPLAY_CHUNK bytes wait; whoever is ahead blocks.
 */
#define REPLAY_CHUNK ((size_t)1024 * 1024)
#define REPLAY_CHUNKS 64

/* In a chunk, 8 bytes aligned; the frame follows. */
struct replay_frame {
	int64_t time;
	uint32_t len, room; /* room: of the frame, with padding */
};

struct replay_chunk {
	size_t used;
	uint8_t *bytes;
};

struct replay_queue;

struct replay_queue *replay_queue_create(struct pr_error *err);
void replay_queue_destroy(struct replay_queue **q);

/* The one that gets: -1: the frame fits no chunk, or the sender has given up. */
int replay_queue_put(struct replay_queue *q, const struct pr_packet *p);
/* What has gathered may be taken, though no chunk is full. */
void replay_queue_flush(struct replay_queue *q);
void replay_queue_end(struct replay_queue *q); /* all has been put */

/* The sender: returns when a good stock is there, or all. */
void replay_queue_wait_stock(struct replay_queue *q);
/* The next chunk, with those before it given back; NULL: the end. */
const struct replay_chunk *replay_queue_take(struct replay_queue *q);
/* Any thread: nothing more is taken, nobody waits. */
void replay_queue_give_up(struct replay_queue *q);

#endif
