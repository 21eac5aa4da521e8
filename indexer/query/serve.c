/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/serve.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <utlist.h>

#include "indexer/query/answer.h"
#include "indexer/query/scans.h"
#include "proto/base/log.h"
#include "proto/base/text.h"

/* A query that this node received, and the part of its answer that is to be sent. */
struct job {
	struct job *next, *prev;
	struct pr_rpc *rpc;
	bool has_peer;
	struct pr_rpc_peer peer;
	char user[PR_RPC_PEER_MAX]; /* who asks: of the merger, or of this program */
	uint64_t id;
	uint64_t credit;
	bool in_memory; /* all of its time range was in shared memory when it came: it waits for none that reads a disk */
	bool memory_only; /* what it lacks in memory is an error of the whole query */
	bool started; /* it was started */
	bool done; /* to be removed */
	bool waiting_for_store; /* until packets in flight are in the volume */
	int64_t came; /* real */
	int64_t active; /* monotonic: last time it had credit or was asked */
	uint64_t ran; /* number of the last turn that it had */
	Packrack__Query *query; /* until answer is made */
	struct pri_answer *answer;
	struct pri_volume *volume; /* that answer reads */
	enum { OUT_NOTHING, OUT_BATCH, OUT_END, OUT_FAILURE } out; /* not yet sent */
	bool cancelled, bad_request;
	char failure[sizeof(((struct pr_error *)0)->text)];
};

/* Sends the pending message of the job, if the client's queue has room. */
static void
job_send(struct job *job)
{
	Packrack__Failure failure = PACKRACK__FAILURE__INIT;
	Packrack__End end = PACKRACK__END__INIT;
	const Packrack__End *own = &end;
	Packrack__Envelope env;

	if (job->out == OUT_END && job->answer)
		own = pri_answer_end(job->answer, NULL);
	if (job->out == OUT_BATCH) {
		env = pr_message_of(job->id, PACKRACK__ENVELOPE__BODY_BATCH,
			pri_answer_batch(job->answer));
	} else if (job->out == OUT_END && own) {
		end = *own; /* a shallow copy: the answer owns the lists */
		end.cancelled = job->cancelled;
		env = pr_message_of(job->id, PACKRACK__ENVELOPE__BODY_END, &end);
	} else {
		failure.text = *job->failure ? job->failure : "no memory for an answer";
		failure.bad_request = job->bad_request;
		env = pr_message_of(job->id, PACKRACK__ENVELOPE__BODY_FAILURE, &failure);
	}
	if (pr_rpc_send(job->rpc, job->has_peer ? &job->peer : NULL, &env, NULL) < 0) {
		job->done |= errno != EAGAIN;
		return;
	}
	job->credit -= job->out == OUT_BATCH;
	job->done |= job->out != OUT_BATCH;
	job->out = OUT_NOTHING;
}

static void
job_fail(struct job *job, const char *text, bool bad_request)
{
	snprintf(job->failure, sizeof job->failure, "%s", text);
	job->bad_request = bad_request;
	job->out = OUT_FAILURE;
	job_send(job);
}

static void
job_end(struct job *job, bool cancelled)
{
	job->cancelled = cancelled;
	job->out = OUT_END;
	job_send(job);
}

#define SLICE_NS (4 * PR_NS_PER_MS)
#define STALLED_NS (2 * PR_NS_PER_S)
/* niceness of the threads that read for queries: capture has priority */
#define SCANS_NICE 10
#define STORE_MS 20 /* between two checks whether all is stored */

struct pri_serve {
	struct event *turn;
	struct pri_volume *volume;
	char why[512]; /* there is no volume */
	struct job *jobs; /* oldest first */
	size_t running_max;
	uint64_t queries, turns;
};

/* ---- jobs ---- */

static void
remove_done(struct pri_serve *s)
{
	struct job *job, *next;

	DL_FOREACH_SAFE(s->jobs, job, next)
	{
		if (!job->done) /* cppcheck-suppress uninitvar */
			continue;
		DL_DELETE(s->jobs, job);
		pri_answer_destroy(&job->answer);
		if (job->query)
			packrack__query__free_unpacked(job->query, NULL);
		free(job);
	}
}

static struct job *
find(struct pri_serve *s, struct pr_rpc *rpc, const struct pr_rpc_peer *peer, uint64_t id)
{
	for (struct job *job = s->jobs; job; job = job->next)
		if (!job->done && job->id == id && job->rpc == rpc &&
			job->has_peer == !!peer &&
			(!peer || pr_rpc_peer_equal(&job->peer, peer)))
			return job;
	return NULL;
}

/* ---- turns ---- */

static void
run_in(struct pri_serve *s, int milliseconds)
{
	const struct timeval later = {0, 1000 * milliseconds};

	event_add(s->turn, &later);
}

/* A query covers all packets stored before it began, so list new segments first. */
static void
start(struct pri_serve *s, struct job *job, int64_t deadline)
{
	struct pr_error err;

	if (!s->volume) {
		job_fail(job, s->why, false);
		return;
	}
	int rc = pri_volume_refresh(s->volume, true, deadline, &err);
	if (rc > 0)
		return;
	if (rc < 0) {
		job_fail(job, err.text, false);
		return;
	}
	job->in_memory &=
		pri_volume_in_memory(s->volume, job->query->since, job->query->until);
	job->waiting_for_store =
		(job->query->settle || job->query->settle_now) &&
		!pri_answer_settled(s->volume, job->query->until, job->came);
	if (job->waiting_for_store)
		return;
	job->answer = pri_answer_create(s->volume, job->query, &err);
	job->volume = s->volume;
	packrack__query__free_unpacked(job->query, NULL);
	job->query = NULL;
	if (!job->answer)
		job_fail(job, err.text, true);
}

static void
run(struct pri_serve *s, struct job *job)
{
	int64_t deadline = pr_now_mono() + SLICE_NS;
	struct pr_error err;

	if (job->out)
		job_send(job);
	if (!job->out && !job->answer)
		start(s, job, deadline);
	while (!job->done && !job->out && job->answer && job->credit &&
		pr_now_mono() < deadline) {
		enum pri_answer_state state = pri_answer_step(job->answer, deadline, &err);

		if (state == PRI_ANSWER_BATCH) {
			job->out = OUT_BATCH;
			job_send(job);
		} else if (state == PRI_ANSWER_END) {
			job_end(job, false);
		} else if (state == PRI_ANSWER_ERROR) {
			job_fail(job, err.text, job->memory_only);
		}
	}
}

/*
 * True if the job can run. It needs no credit to start, so that its answer is as of the
 * time of the request.
 */
static bool
runnable(const struct job *job)
{
	return !job->done && (job->credit || !job->answer || job->out);
}

/* True if it has a slice's work to do. */
static bool
works(const struct job *job)
{
	return job->started && runnable(job) && !job->out && !job->waiting_for_store;
}

/*
 * Each user has one slice a turn for jobs in memory, and one for others, for that of its jobs that has
 * waited longest: who asks much at once delays its own answers, and not those of others.
 */
static bool
has_turn(const struct pri_serve *s, const struct job *job)
{
	for (const struct job *o = s->jobs; works(job) && o; o = o->next)
		if (o->in_memory == job->in_memory && !strcmp(o->user, job->user) &&
			(o->ran == s->turns || (works(o) && o->ran < job->ran)))
			return false;
	return runnable(job) && (job->started || job->out);
}

/* Jobs of a kind that work, of this user or (NULL) of all; not those that wait for their client's credit. */
static size_t
working(const struct pri_serve *s, bool in_memory, const char *user, int64_t now)
{
	size_t count = 0;

	for (const struct job *job = s->jobs; job; job = job->next) {
		bool stalled =
			job->answer && !job->credit && now - job->active > STALLED_NS;

		count += job->in_memory == in_memory && job->started && !job->done &&
			 !job->waiting_for_store && !stalled &&
			 (!user || !strcmp(user, job->user));
	}
	return count;
}

/*
 * Starts waiting jobs of a kind, each of which has its own places: first those of the user with the fewest that
 * work. One user gets at most three quarters of the places, so that others need not wait for long jobs.
 */
static void
start_kind(struct pri_serve *s, bool in_memory, int64_t now)
{
	for (size_t all = working(s, in_memory, NULL, now); all < s->running_max; all++) {
		size_t fewest = s->running_max - s->running_max / 4;
		struct job *next = NULL;

		for (struct job *job = s->jobs; job; job = job->next) {
			size_t own = job->started || job->in_memory != in_memory
					     ? fewest
					     : working(s, in_memory, job->user, now);

			if (own < fewest) {
				fewest = own;
				next = job;
			}
		}
		if (!next)
			return;
		next->started = true;
	}
}

static void
start_waiting_jobs(struct pri_serve *s)
{
	int64_t now = pr_now_mono();

	start_kind(s, true, now);
	start_kind(s, false, now);
}

static void
run_kind(struct pri_serve *s, bool in_memory)
{
	for (struct job *job = s->jobs; job; job = job->next) {
		if (job->in_memory != in_memory || !has_turn(s, job))
			continue;
		job->active = pr_now_mono();
		run(s, job);
		if (works(job))
			job->ran = s->turns;
	}
}

static void
on_turn(PR_UNUSED evutil_socket_t fd, PR_UNUSED short what, void *arg)
{
	struct pri_serve *s = arg;
	bool more = false, blocked = false, waiting = false, storing = false;

	start_waiting_jobs(s);
	s->turns++;
	run_kind(s, true);
	run_kind(s, false);
	remove_done(s);
	start_waiting_jobs(s); /* those that are done make room */
	for (struct job *job = s->jobs; job; job = job->next) {
		more |= works(job);
		storing |= job->waiting_for_store;
		blocked |= job->out != OUT_NOTHING;
		waiting |= !job->started;
	}
	if (more)
		run_in(s, 0);
	else if (blocked) /* a client's queue is full: give it time */
		run_in(s, 5);
	else if (storing)
		run_in(s, STORE_MS);
	else if (waiting) /* check again: running jobs may count as stalled by then */
		run_in(s, 100);
}

/* ---- messages ---- */

static bool
asks_already(const struct pri_serve *s, const char *user)
{
	for (const struct job *job = s->jobs; job; job = job->next)
		if (!job->done && !strcmp(job->user, user))
			return true;
	return false;
}

static void
on_query(struct pri_serve *s, struct pr_rpc *rpc, const struct pr_rpc_peer *peer,
	const Packrack__Envelope *env)
{
	struct job made = {.rpc = rpc, .has_peer = !!peer, .id = env->id}, *job;
	size_t waiting;

	if (peer)
		made.peer = *peer;
	PR_PRINT(made.user, "%s", peer ? peer->who : env->query->user);
	DL_COUNT(s->jobs, job, waiting);
	if (waiting >= PRI_SERVE_WAITING_MAX) {
		job_fail(&made, "too many queries wait here", false);
		return;
	}
	if (find(s, rpc, peer, env->id)) {
		job_fail(&made, "a query of this id runs already", true);
		return;
	}
	job = malloc(sizeof *job);
	if (job)
		made.query = pr_message_copy(&env->query->base);
	if (!made.query) {
		job_fail(&made, "no memory for a query", false);
		free(job);
		return;
	}
	made.memory_only = made.query->memory_only;
	made.active = pr_now_mono();
	made.came = pr_now_real();
	made.in_memory = s->volume && pri_volume_in_memory(s->volume, made.query->since,
					      made.query->until);
	if (!asks_already(s, made.user))
		pri_scans_pause(made.active);
	*job = made;
	DL_APPEND(s->jobs, job);
	s->queries++;
	pr_log_debug("query %llu", (unsigned long long)env->id);
	run_in(s, 0);
}

void
pri_serve_message(struct pri_serve *s, struct pr_rpc *rpc, const struct pr_rpc_peer *peer,
	const Packrack__Envelope *env)
{
	if (env->body_case == PACKRACK__ENVELOPE__BODY_QUERY) {
		on_query(s, rpc, peer, env);
		return;
	}
	struct job *job = find(s, rpc, peer, env->id);
	if (!job)
		return;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_CREDIT) {
		job->credit += env->credit->batches;
		job->active = pr_now_mono();
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_CANCEL) {
		job_end(job, true);
	}
	run_in(s, 0);
}

void
pri_serve_drop(struct pri_serve *s, struct pr_rpc *rpc)
{
	for (struct job *job = s->jobs; job; job = job->next)
		job->done |= job->rpc == rpc;
	remove_done(s);
}

void
pri_serve_tick(void *arg)
{
	struct pri_serve *s = arg;

	for (struct job *job = s->jobs; job; job = job->next)
		if (job->has_peer && !job->done && !pr_rpc_probe(job->rpc, &job->peer))
			job->done = true;
	remove_done(s);
	run_in(s, 0); /* stalled ones may have made room */
}

void
pri_serve_set_volume(struct pri_serve *s, struct pri_volume *volume, const char *why)
{
	snprintf(s->why, sizeof s->why, "%s", why ? why : "");
	for (struct job *job = s->jobs; job; job = job->next)
		if (job->answer && job->volume != volume && !job->done) {
			job_fail(job, why ? why : "the volume was reopened", false);
			pri_answer_destroy(&job->answer); /* before its volume */
		}
	remove_done(s);
	s->volume = volume;
	run_in(s, 0);
}

/* ---- making ---- */

struct pri_serve *
pri_serve_create(struct pr_loop *loop, size_t running_max, struct pr_error *err)
{
	struct pri_serve *s = calloc(1, sizeof *s);

	if (s)
		s->turn = evtimer_new(pr_loop_base(loop), on_turn, s);
	if (!s || !s->turn) {
		free(s);
		return pr_error_null(err, "no memory");
	}
	pri_scans_setup(SCANS_NICE);
	s->running_max = running_max;
	snprintf(s->why, sizeof s->why, "the volume is not there yet");
	return s;
}

void
pri_serve_destroy(struct pri_serve **serve)
{
	struct pri_serve *s = PR_TAKE(serve);

	if (!s)
		return;
	for (struct job *job = s->jobs; job; job = job->next)
		job->done = true;
	remove_done(s);
	event_free(s->turn);
	free(s);
}

void
pri_serve_status(const struct pri_serve *s, Packrack__NodeStatus *status)
{
	status->queries = s->queries;
	for (const struct job *job = s->jobs; job; job = job->next)
		if (!job->done)
			(*(job->started ? &status->queries_running
					: &status->queries_waiting))++;
}
