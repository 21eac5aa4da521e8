/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_SERVE_JOB_H
#define PRI_INDEXER_SERVE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "indexer/query/answer.h"
#include "indexer/query/volume.h"
#include "proto/base/error.h"
#include "proto/rpc/rpc.h"

/* A query that a node was asked, and what of its answer waits to be sent. Between the files of pri_serve. */
struct pri_job {
	struct pri_job *next;
	struct pr_rpc *rpc;
	bool has_peer;
	struct pr_rpc_peer peer;
	uint64_t id;
	uint64_t credit;
	bool started; /* it has, or has had, its turn */
	bool done; /* to be removed */
	bool settling; /* waits for what is still on its way into the volume */
	int64_t active; /* monotonic: last time it had credit or was asked */
	Packrack__Query *query; /* until answer is made */
	struct pri_answer *answer;
	struct pri_volume *view; /* that answer reads */
	enum pri_job_out {
		PRI_OUT_NOTHING,
		PRI_OUT_BATCH,
		PRI_OUT_END,
		PRI_OUT_FAILURE
	} out; /* not yet sent */
	bool cancelled, bad_request;
	char failure[sizeof(((struct pr_error *)0)->text)];
};

/* What is to go out goes, or waits for room in the queue, or finds nobody there. */
void pri_job_deliver(struct pri_job *job);
/* The same, of the answer's batch, of its end, and of what it failed for. */
void pri_job_batch(struct pri_job *job);
void pri_job_end(struct pri_job *job, bool cancelled);
void pri_job_fail(struct pri_job *job, const char *text, bool bad_request);

#endif
