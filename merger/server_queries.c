/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/server_internal.h"

#include "proto/base/clock.h"
#include "proto/base/log.h"

/* Queries of clients, from their beginning to their end. */

static void
query_remove(struct pr_merger *m, size_t at)
{
	uint64_t asked, left_out;

	m->packets_merged += pr_fanout_matched(m->queries[at]);
	pr_fanout_routed(m->queries[at], &asked, &left_out);
	m->nodes_asked += asked;
	m->nodes_left_out += left_out;
	pr_fanout_destroy(&m->queries[at]);
	m->query_count--;
	m->queries[at] = m->queries[m->query_count];
	m->clients[at] = m->clients[m->query_count];
}

void
pr_merger_reap(struct pr_merger *m)
{
	for (size_t i = m->query_count; i-- > 0;)
		if (pr_fanout_done(m->queries[i]))
			query_remove(m, i);
}

struct pr_fanout *
pr_merger_query(struct pr_merger *m, const struct pr_address *from, uint64_t id)
{
	for (size_t i = 0; i < m->query_count; i++)
		if (pr_fanout_is_client(m->queries[i], from, id))
			return m->queries[i];
	return NULL;
}

static struct pr_fanout *
query_add(struct pr_merger *m, struct pr_fanout_options *o, struct pr_error *err)
{
	struct pr_fanout *f;

	o->number = m->queries_total + 1;
	o->registry = &m->registry;
	o->summaries = m->summaries;
	o->next_id = &m->next_id;
	o->mono = pr_now_mono();
	o->real = pr_now_real();
	o->silent_ns = m->options.silent_ns;
	f = pr_fanout_create(o, err);
	if (!f)
		return NULL;
	m->queries_total++;
	m->queries[m->query_count] = f;
	m->clients[m->query_count++] = o->client;
	return f;
}

static bool
room_for_one(struct pr_merger *m, struct pr_error *err)
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

struct pr_fanout *
pr_merger_ask(struct pr_merger *m, const Packrack__Query *query,
	int (*deliver)(void *arg, const Packrack__Envelope *env), void *arg,
	struct pr_error *err)
{
	struct pr_fanout_options o = {
		.query = query, .deliver = deliver, .deliver_arg = arg};

	return room_for_one(m, err) ? query_add(m, &o, err) : NULL;
}

bool
pr_merger_begin(struct pr_merger *m, const struct pr_address *from, uint64_t id,
	const Packrack__Query *query, const struct pr_verdicts *verdicts)
{
	struct pr_fanout_options o = {
		.client = *from, .id = id, .query = query, .verdicts = verdicts};
	struct pr_error err;

	if (!query_add(m, &o, &err)) {
		pr_merger_refuse(from, id, err.text, false);
		return false;
	}
	pr_log_with(PR_LOG_INFO,
		PR_LOG_FIELDS({"user", from->peer.user}, {"query", query->text}),
		"query of %s: %s", from->peer.user[0] ? from->peer.user : "a client",
		query->text[0] ? query->text : "all packets");
	return true;
}

void
pr_merger_on_query(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env)
{
	struct pr_error err;

	if (pr_merger_query(m, from, env->id))
		pr_merger_refuse(
			from, env->id, "a query of this number is running already", true);
	else if (!room_for_one(m, &err))
		pr_merger_refuse(from, env->id, err.text, false);
	else if (!pr_merger_wait(m, from, env->id, env->query))
		pr_merger_begin(m, from, env->id, env->query, NULL);
}

void
pr_merger_on_credit(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env)
{
	struct pr_fanout *f = pr_merger_query(m, from, env->id);

	if (f) /* else it has ended meanwhile, or has not begun */
		pr_fanout_credit(f, env->credit->batches);
	else
		pr_merger_wait_message(m, from, env);
}

void
pr_merger_on_cancel(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env)
{
	struct pr_fanout *f = pr_merger_query(m, from, env->id);

	if (f)
		pr_fanout_cancel(f);
	else
		pr_merger_wait_message(m, from, env);
}

void
pr_merger_on_answer(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env)
{
	for (size_t i = 0; i < m->query_count; i++)
		if (pr_fanout_from_node(m->queries[i], from, env, pr_now_mono()))
			return;
	m->messages_unasked++; /* of a query that was cancelled, for one */
}

bool
pr_merger_cancel_number(struct pr_merger *m, uint64_t number, struct pr_error *text)
{
	for (size_t i = 0; i < m->query_count; i++)
		if (pr_fanout_number(m->queries[i]) == number) {
			pr_fanout_break_off(m->queries[i]);
			pr_error_set(text, "query %llu is cancelled",
				(unsigned long long)number);
			return true;
		}
	pr_error_set(text, "no query %llu is running: packrack queries list names them",
		(unsigned long long)number);
	return false;
}
