/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/serve.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/answer.h"
#include "indexer/scans.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#define SLICE_NS (4 * PR_NS_PER_MS)
#define STALLED_NS (2 * PR_NS_PER_S)
#define SCANS_NICE 10 /* of the threads that read for queries: capture comes first */
#define SETTLE_MS 20 /* between looks at whether all has settled */

struct job {
	struct job *next;
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
	enum out { OUT_NOTHING, OUT_BATCH, OUT_END, OUT_FAILURE } out; /* not yet sent */
	bool cancelled, bad_request;
	char failure[sizeof(((struct pr_error *)0)->text)];
};

struct pr_serve {
	struct event *turn;
	struct pr_view *view;
	char why[512]; /* there is no view */
	struct job *jobs; /* oldest first */
	size_t running_max;
	uint64_t queries;
};

/* ---- sending ---- */

static int
fill_end(struct job *job, Packrack__End *end)
{
	const Packrack__End *own;

	if (job->answer) {
		own = pr_answer_end(job->answer, NULL);
		if (!own)
			return -1;
		*end = *own; /* its lists stay the answer's */
	}
	end->cancelled = job->cancelled;
	return 0;
}

static int
send_out(struct job *job)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	Packrack__Failure failure = PACKRACK__FAILURE__INIT;
	Packrack__End end = PACKRACK__END__INIT;

	env.id = job->id;
	if (job->out == OUT_BATCH) {
		env.body_case = PACKRACK__ENVELOPE__BODY_BATCH;
		env.batch = (Packrack__Batch *)pr_answer_batch(job->answer);
	} else if (job->out == OUT_END && fill_end(job, &end) == 0) {
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

/* What is to go out goes, or waits for room in the queue, or finds nobody there. */
static void
deliver(struct job *job)
{
	if (send_out(job) < 0) {
		job->done |= errno != EAGAIN;
		return;
	}
	if (job->out == OUT_BATCH)
		job->credit--;
	else
		job->done = true;
	job->out = OUT_NOTHING;
}

static void
fail(struct job *job, const char *text, bool bad_request)
{
	snprintf(job->failure, sizeof(job->failure), "%s", text);
	job->bad_request = bad_request;
	job->out = OUT_FAILURE;
	deliver(job);
}

static void
send_end(struct job *job, bool cancelled)
{
	job->cancelled = cancelled;
	job->out = OUT_END;
	deliver(job);
}

static void
send_batch(struct job *job)
{
	job->out = OUT_BATCH;
	deliver(job);
}

/* ---- jobs ---- */

static void
job_free(struct job *job)
{
	pr_answer_destroy(&job->answer);
	if (job->query)
		packrack__query__free_unpacked(job->query, NULL);
	free(job);
}

static void
remove_done(struct pr_serve *s)
{
	struct job **at = &s->jobs, *job;

	while ((job = *at)) {
		if (job->done) {
			*at = job->next;
			job_free(job);
		} else {
			at = &job->next;
		}
	}
}

static bool
from(const struct job *job, struct pr_rpc *rpc, const struct pr_rpc_peer *peer)
{
	return job->rpc == rpc && job->has_peer == !!peer &&
	       (!peer || pr_rpc_peer_equal(&job->peer, peer));
}

static struct job *
find(struct pr_serve *s, struct pr_rpc *rpc, const struct pr_rpc_peer *peer, uint64_t id)
{
	for (struct job *job = s->jobs; job; job = job->next)
		if (!job->done && job->id == id && from(job, rpc, peer))
			return job;
	return NULL;
}

/* The message's memory goes with it, so what must last is copied, by packing. */
static Packrack__Query *
copy_query(const Packrack__Query *query)
{
	size_t len = packrack__query__get_packed_size(query);
	uint8_t *buf = malloc(len ? len : 1);
	Packrack__Query *copy;

	if (!buf)
		return NULL;
	packrack__query__pack(query, buf);
	copy = packrack__query__unpack(NULL, len, buf);
	free(buf);
	return copy;
}

static struct job *
append_job(
	struct pr_serve *s, struct pr_rpc *rpc, const struct pr_rpc_peer *peer, uint64_t id)
{
	struct job **at = &s->jobs, *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	while (*at)
		at = &(*at)->next;
	*at = job;
	job->rpc = rpc;
	job->has_peer = !!peer;
	if (peer)
		job->peer = *peer;
	job->id = id;
	job->active = pr_now_mono();
	return job;
}

/* ---- turns ---- */

static void
run_soon(struct pr_serve *s)
{
	const struct timeval at_once = {0, 0};

	event_add(s->turn, &at_once);
}

static void
run_later(struct pr_serve *s, int milliseconds)
{
	const struct timeval later = {0, 1000 * milliseconds};

	event_add(s->turn, &later);
}

/* A query answers for all that was there when it began: list it first. */
static void
start(struct pr_serve *s, struct job *job, int64_t deadline)
{
	struct pr_error err;
	int rc;

	if (!s->view) {
		fail(job, s->why, false);
		return;
	}
	rc = pr_view_refresh(s->view, true, deadline, &err);
	if (rc > 0)
		return;
	if (rc < 0) {
		fail(job, err.text, false);
		return;
	}
	job->settling = job->query->settle && pr_book_settled(pr_view_book(s->view),
						      pr_now_real()) < job->query->until;
	if (job->settling)
		return;
	job->answer = pr_answer_create(s->view, job->query, &err);
	job->view = s->view;
	packrack__query__free_unpacked(job->query, NULL);
	job->query = NULL;
	if (!job->answer)
		fail(job, err.text, true);
}

static void
run(struct pr_serve *s, struct job *job)
{
	int64_t deadline = pr_now_mono() + SLICE_NS;
	struct pr_error err;

	if (job->out)
		deliver(job);
	if (!job->out && !job->answer)
		start(s, job, deadline);
	while (!job->done && !job->out && job->answer && job->credit &&
		pr_now_mono() < deadline) {
		switch (pr_answer_step(job->answer, deadline, &err)) {
		case PR_ANSWER_BATCH:
			send_batch(job);
			break;
		case PR_ANSWER_END:
			send_end(job, false);
			break;
		case PR_ANSWER_ERROR:
			fail(job, err.text, false);
			break;
		default:
			break;
		}
	}
}

/* Needs no credit to start, so that it begins with what is there at the time of asking. */
static bool
runnable(const struct job *job)
{
	return !job->done && (job->credit || !job->answer || job->out);
}

static bool
stalled(const struct job *job, int64_t now)
{
	return job->answer && !job->credit && now - job->active > STALLED_NS;
}

/* The limit is on those that work, not on those that wait for their asker. */
static void
admit(struct pr_serve *s, int64_t now)
{
	size_t running = 0;

	for (struct job *job = s->jobs; job; job = job->next)
		running +=
			job->started && !job->done && !job->settling && !stalled(job, now);
	for (struct job *job = s->jobs; job && running < s->running_max; job = job->next)
		if (!job->started) {
			job->started = true;
			running++;
		}
}

static void
on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct pr_serve *s = arg;
	bool more = false, blocked = false, waiting = false, settling = false;

	(void)fd;
	(void)what;
	admit(s, pr_now_mono());
	for (struct job *job = s->jobs; job; job = job->next) {
		if ((!job->started && !job->out) || !runnable(job))
			continue;
		job->active = pr_now_mono();
		run(s, job);
	}
	remove_done(s);
	admit(s, pr_now_mono()); /* those that are done make room */
	for (struct job *job = s->jobs; job; job = job->next) {
		more |= job->started && runnable(job) && !job->out && !job->settling;
		settling |= job->settling;
		blocked |= job->out != OUT_NOTHING;
		waiting |= !job->started;
	}
	if (more)
		run_soon(s);
	else if (blocked) /* an asker's queue is full: time for it to take something */
		run_later(s, 5);
	else if (settling)
		run_later(s, SETTLE_MS);
	else if (waiting) /* until those that run are stalled for good */
		run_later(s, 100);
}

/* ---- messages ---- */

static void
refuse(struct pr_rpc *rpc, const struct pr_rpc_peer *peer, uint64_t id, const char *text,
	bool bad_request)
{
	struct job job = {.rpc = rpc, .has_peer = !!peer, .id = id};

	if (peer)
		job.peer = *peer;
	fail(&job, text, bad_request);
}

static void
on_query(struct pr_serve *s, struct pr_rpc *rpc, const struct pr_rpc_peer *peer,
	const Packrack__Envelope *env)
{
	size_t waiting = 0;
	struct job *job;

	for (job = s->jobs; job; job = job->next)
		waiting++;
	if (waiting >= PR_SERVE_WAITING_MAX || find(s, rpc, peer, env->id)) {
		refuse(rpc, peer, env->id,
			waiting >= PR_SERVE_WAITING_MAX ? "too many queries wait here"
							: "a query of this id runs already",
			waiting < PR_SERVE_WAITING_MAX);
		return;
	}
	job = append_job(s, rpc, peer, env->id);
	if (job)
		job->query = copy_query(env->query);
	if (!job || !job->query) {
		refuse(rpc, peer, env->id, "no memory for a query", false);
		if (job)
			job->done = true;
		return;
	}
	s->queries++;
	pr_log_debug("query %llu", (unsigned long long)env->id);
	run_soon(s);
}

void
pr_serve_message(struct pr_serve *s, struct pr_rpc *rpc, const struct pr_rpc_peer *peer,
	const Packrack__Envelope *env)
{
	struct job *job;

	if (env->body_case == PACKRACK__ENVELOPE__BODY_QUERY) {
		on_query(s, rpc, peer, env);
		return;
	}
	job = find(s, rpc, peer, env->id);
	if (!job)
		return;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_CREDIT) {
		job->credit += env->credit->batches;
		job->active = pr_now_mono();
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_CANCEL) {
		send_end(job, true);
	}
	run_soon(s);
}

void
pr_serve_drop(struct pr_serve *s, struct pr_rpc *rpc)
{
	for (struct job *job = s->jobs; job; job = job->next)
		job->done |= job->rpc == rpc;
	remove_done(s);
}

void
pr_serve_tick(struct pr_serve *s)
{
	for (struct job *job = s->jobs; job; job = job->next)
		if (job->has_peer && !job->done && !pr_rpc_probe(job->rpc, &job->peer))
			job->done = true;
	remove_done(s);
	run_soon(s); /* stalled ones may have made room */
}

void
pr_serve_set_view(struct pr_serve *s, struct pr_view *view, const char *why)
{
	snprintf(s->why, sizeof(s->why), "%s", why ? why : "");
	for (struct job *job = s->jobs; job; job = job->next)
		if (job->answer && job->view != view && !job->done) {
			fail(job, why ? why : "the volume was opened anew", false);
			pr_answer_destroy(&job->answer); /* before its view */
		}
	remove_done(s);
	s->view = view;
	run_soon(s);
}

/* ---- making ---- */

struct pr_serve *
pr_serve_create(struct pr_loop *loop, size_t running_max, struct pr_error *err)
{
	struct pr_serve *s = calloc(1, sizeof(*s));

	if (s)
		s->turn = evtimer_new(pr_loop_base(loop), on_turn, s);
	if (!s || !s->turn) {
		free(s);
		pr_error_set(err, "no memory");
		return NULL;
	}
	pr_scans_setup(0, SCANS_NICE);
	s->running_max = running_max ? running_max : PR_SERVE_RUNNING_DEFAULT;
	snprintf(s->why, sizeof(s->why), "the volume is not there yet");
	return s;
}

void
pr_serve_destroy(struct pr_serve **serve)
{
	struct pr_serve *s = *serve;

	if (!s)
		return;
	for (struct job *job = s->jobs; job; job = job->next)
		job->done = true;
	remove_done(s);
	event_free(s->turn);
	free(s);
	*serve = NULL;
}

uint64_t
pr_serve_queries(const struct pr_serve *s)
{
	return s->queries;
}

size_t
pr_serve_running(const struct pr_serve *s)
{
	size_t count = 0;

	for (const struct job *job = s->jobs; job; job = job->next)
		count += job->started && !job->done;
	return count;
}
