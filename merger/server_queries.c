/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/server_internal.h"

#include "proto/base/clock.h"
#include "proto/base/log.h"

/* Queries of clients, from their beginning to their end. */

static void
query_remove(struct prm_merger *m, size_t at)
{
	uint64_t asked, left_out;

	m->packets_merged += prm_fanout_matched(m->queries[at]);
	prm_fanout_routed(m->queries[at], &asked, &left_out);
	m->nodes_asked += asked;
	m->nodes_left_out += left_out;
	prm_fanout_destroy(&m->queries[at]);
	m->query_count--;
	m->queries[at] = m->queries[m->query_count];
	m->clients[at] = m->clients[m->query_count];
}

void
prm_merger_reap(struct prm_merger *m)
{
	for (size_t i = m->query_count; i-- > 0;)
		if (prm_fanout_done(m->queries[i]))
			query_remove(m, i);
}

struct prm_fanout *
prm_merger_query(struct prm_merger *m, const struct prm_address *from, uint64_t id)
{
	for (size_t i = 0; i < m->query_count; i++)
		if (prm_fanout_is_client(m->queries[i], from, id))
			return m->queries[i];
	return NULL;
}

static struct prm_fanout *
query_add(struct prm_merger *m, struct prm_fanout_options *o, struct pr_error *err)
{
	struct prm_fanout *f;

	o->number = m->queries_total + 1;
	o->registry = &m->registry;
	o->summaries = m->summaries;
	o->next_id = &m->next_id;
	o->mono = pr_now_mono();
	o->real = pr_now_real();
	o->silent_ns = m->options.silent_ns;
	f = prm_fanout_create(o, err);
	if (!f)
		return NULL;
	m->queries_total++;
	m->queries[m->query_count] = f;
	m->clients[m->query_count++] = o->client;
	return f;
}

static bool
room_for_one(struct prm_merger *m, struct pr_error *err)
{
	if (m->query_count + m->waiting_count < m->options.max_queries)
		return true;
	m->queries_refused++;
	pr_error_set(err,
		"%zu queries are running, which is all that --max-queries allows: "
		"try again later",
		m->query_count + m->waiting_count);
	return false;
}

struct prm_fanout *
prm_merger_ask(struct prm_merger *m, const Packrack__Query *query,
	int (*deliver)(void *arg, const Packrack__Envelope *env), void *arg,
	struct pr_error *err)
{
	struct prm_fanout_options o = {
		.query = query, .deliver = deliver, .deliver_arg = arg};

	return room_for_one(m, err) ? query_add(m, &o, err) : NULL;
}

bool
prm_merger_begin(struct prm_merger *m, const struct prm_address *from, uint64_t id,
	const Packrack__Query *query, const struct prm_verdicts *verdicts)
{
	struct prm_fanout_options o = {
		.client = *from, .id = id, .query = query, .verdicts = verdicts};
	struct pr_error err;

	if (!query_add(m, &o, &err)) {
		prm_merger_refuse(from, id, err.text, false);
		return false;
	}
	pr_log_with(PR_LOG_INFO,
		PR_LOG_FIELDS({"user", from->peer.user}, {"query", query->text}),
		"query of %s: %s", from->peer.user[0] ? from->peer.user : "a client",
		query->text[0] ? query->text : "all packets");
	return true;
}

void
prm_merger_on_query(
	struct prm_merger *m, const struct prm_address *from, const Packrack__Envelope *env)
{
	struct pr_error err;

	if (prm_merger_query(m, from, env->id))
		prm_merger_refuse(
			from, env->id, "a query of this number is running already", true);
	else if (!room_for_one(m, &err))
		prm_merger_refuse(from, env->id, err.text, false);
	else if (!prm_merger_wait(m, from, env->id, env->query))
		prm_merger_begin(m, from, env->id, env->query, NULL);
}

void
prm_merger_on_credit(
	struct prm_merger *m, const struct prm_address *from, const Packrack__Envelope *env)
{
	struct prm_fanout *f = prm_merger_query(m, from, env->id);

	if (f) /* else it has ended meanwhile, or has not begun */
		prm_fanout_credit(f, env->credit->batches);
	else
		prm_merger_wait_message(m, from, env);
}

void
prm_merger_on_cancel(
	struct prm_merger *m, const struct prm_address *from, const Packrack__Envelope *env)
{
	struct prm_fanout *f = prm_merger_query(m, from, env->id);

	if (f)
		prm_fanout_cancel(f);
	else
		prm_merger_wait_message(m, from, env);
}

void
prm_merger_on_answer(
	struct prm_merger *m, const struct prm_address *from, const Packrack__Envelope *env)
{
	for (size_t i = 0; i < m->query_count; i++)
		if (prm_fanout_from_node(m->queries[i], from, env, pr_now_mono()))
			return;
	m->messages_unasked++; /* of a query that was cancelled, for one */
}

bool
prm_merger_cancel_number(struct prm_merger *m, uint64_t number, struct pr_error *text)
{
	for (size_t i = 0; i < m->query_count; i++)
		if (prm_fanout_number(m->queries[i]) == number) {
			prm_fanout_break_off(m->queries[i]);
			pr_error_set(text, "query %llu is cancelled",
				(unsigned long long)number);
			return true;
		}
	pr_error_set(text, "no query %llu is running: packrack queries list names them",
		(unsigned long long)number);
	return false;
}
