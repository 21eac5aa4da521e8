/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/serve_job.h"

#include <errno.h>
#include <stdio.h>

static int
fill_end(struct pri_job *job, Packrack__End *end)
{
	const Packrack__End *own;

	if (job->answer) {
		own = pri_answer_end(job->answer, NULL);
		if (!own)
			return -1;
		*end = *own; /* its lists stay the answer's */
	}
	end->cancelled = job->cancelled;
	return 0;
}

static int
send_out(struct pri_job *job)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	Packrack__Failure failure = PACKRACK__FAILURE__INIT;
	Packrack__End end = PACKRACK__END__INIT;

	env.id = job->id;
	if (job->out == PRI_OUT_BATCH) {
		env.body_case = PACKRACK__ENVELOPE__BODY_BATCH;
		env.batch = (Packrack__Batch *)pri_answer_batch(job->answer);
	} else if (job->out == PRI_OUT_END && fill_end(job, &end) == 0) {
		env.body_case = PACKRACK__ENVELOPE__BODY_END;
		env.end = &end;
	} else {
		failure.text =
			*job->failure ? job->failure : (char *)"no memory for an answer";
		failure.bad_request = job->bad_request;
		env.body_case = PACKRACK__ENVELOPE__BODY_FAILURE;
		env.failure = &failure;
	}
	return pr_rpc_send(job->rpc, job->has_peer ? &job->peer : NULL, &env, NULL);
}

void
pri_job_deliver(struct pri_job *job)
{
	if (send_out(job) < 0) {
		job->done |= errno != EAGAIN;
		return;
	}
	if (job->out == PRI_OUT_BATCH)
		job->credit--;
	else
		job->done = true;
	job->out = PRI_OUT_NOTHING;
}

void
pri_job_fail(struct pri_job *job, const char *text, bool bad_request)
{
	snprintf(job->failure, sizeof(job->failure), "%s", text);
	job->bad_request = bad_request;
	job->out = PRI_OUT_FAILURE;
	pri_job_deliver(job);
}

void
pri_job_end(struct pri_job *job, bool cancelled)
{
	job->cancelled = cancelled;
	job->out = PRI_OUT_END;
	pri_job_deliver(job);
}

void
pri_job_batch(struct pri_job *job)
{
	job->out = PRI_OUT_BATCH;
	pri_job_deliver(job);
}
