/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/bpf.h"
#include "indexer/query/volume.h"
#include "proto/rpc/packrack.pb-c.h"

/*
 * Produces a query's answer as protobuf structs, batch by batch: packets, coverage,
 * watermark; last the End. No I/O on sockets: serve.c sends the batches; the command-line
 * tool reads them in the same process. One thread.
 *
 * A segment whose packets all match is sent as a batch unchanged. Other packets go into
 * MIXED batches, which grow from small to PR_SEGMENT_TARGET, so that the first packets come
 * soon. While little matches, a batch goes out every 20 ms with watermark and coverage. If
 * a tally is requested, the answer has no packets; its last batches have the tally.
 */

/*
 * True if the volume has everything up to `until`, or to `came` (the real time of the query), that live dispatchers
 * have sent; or if it is too late to wait for more.
 */
bool pri_answer_settled(const struct pri_volume *volume, int64_t until, int64_t came);

/*
 * NULL: err; a bad request (an invalid program), or no memory. The volume must be up to
 * date.
 */
struct pri_answer *pri_answer_create(
	struct pri_volume *volume, const Packrack__Query *query, struct pr_error *err);
void pri_answer_destroy(struct pri_answer **answer);

enum pri_answer_state {
	PRI_ANSWER_ERROR = -1,
	PRI_ANSWER_MORE, /* deadline passed; call again */
	PRI_ANSWER_BATCH, /* see pri_answer_batch */
	PRI_ANSWER_END, /* see pri_answer_end; nothing further will come */
};

/* Works until a batch is ready, the answer is at its end, or about until deadline (pr_now_mono). */
enum pri_answer_state pri_answer_step(
	struct pri_answer *answer, int64_t deadline, struct pr_error *err);

/*
 * The answer owns both: the batch is valid until the next step, the End until the answer is
 * destroyed.
 */
const Packrack__Batch *pri_answer_batch(const struct pri_answer *answer);
/*
 * Gives the memory of the batch's packets to *buffer, and takes the memory of *buffer
 * (which may be empty) instead. The packets do not move, so the batch outlives the next
 * step without a copy.
 */
void pri_answer_exchange(struct pri_answer *answer, struct pri_read_buffer *buffer);
/* May also be called before the end, for an answer that is cancelled. NULL: no memory. */
const Packrack__End *pri_answer_end(struct pri_answer *answer, struct pr_error *err);

/*
 * Programs and queries as messages. Programs from a message are checked again before they
 * run.
 */

/*
 * Puts the programs into message, for senders of queries. The memory is freed by
 * pri_query_message_free. No programs: every packet of every link type is requested.
 */
int pri_query_set_programs(
	Packrack__Query *message, const struct pr_bpf_set *programs, struct pr_error *err);
void pri_query_message_free(Packrack__Query *message);
