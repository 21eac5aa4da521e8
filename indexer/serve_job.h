/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_SERVE_JOB_H
#define PR_INDEXER_SERVE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "indexer/answer.h"
#include "indexer/view.h"
#include "proto/base/error.h"
#include "proto/rpc/rpc.h"

/* A query that a node was asked, and what of its answer waits to be sent. Between the files of pr_serve. */
struct pr_job {
	struct pr_job *next;
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
	struct pr_answer *answer;
	struct pr_view *view; /* that answer reads */
	enum pr_job_out {
		PR_OUT_NOTHING,
		PR_OUT_BATCH,
		PR_OUT_END,
		PR_OUT_FAILURE
	} out; /* not yet sent */
	bool cancelled, bad_request;
	char failure[sizeof(((struct pr_error *)0)->text)];
};

/* What is to go out goes, or waits for room in the queue, or finds nobody there. */
void pr_job_deliver(struct pr_job *job);
/* The same, of the answer's batch, of its end, and of what it failed for. */
void pr_job_batch(struct pr_job *job);
void pr_job_end(struct pr_job *job, bool cancelled);
void pr_job_fail(struct pr_job *job, const char *text, bool bad_request);

#endif
