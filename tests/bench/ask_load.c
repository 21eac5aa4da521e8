/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent clients of a merger: asks for what the lines of standard input name (since and until in ns, the number of
 * packets that there are, filter), at the rates of a schedule. A question that is due while too many are under way
 * waits, and its waiting counts.
 *
 *   ask_load ENDPOINT KEYS CONNECTIONS UNDER_WAY RATE:SECONDS... < QUESTIONS     a line of JSON a step
 *
 * first, end: microseconds from when a question was due to the first packet and the end of its answer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "indexer/query/answer.h"
#include "merger/cli/query/query_args.h"
#include "proto/base/array.h"
#include "proto/wire/segment.h"

#define CONNECTIONS_MAX 64
#define TICK_NS (PR_NS_PER_MS / 4)
#define CREDIT 8 /* batches: what is asked for is small */
#define SLOTS 1024
#define GIVE_UP_NS (20 * PR_NS_PER_S)

/* A question under way. Its id is its slot plus a multiple of SLOTS. */
struct slot {
	uint64_t id; /* 0: free */
	int64_t due, first;
	uint64_t packets, expected;
};

struct client {
	struct load *load;
	struct pr_rpc *rpc;
};

struct load {
	struct pr_loop *loop;
	struct client clients[CONNECTIONS_MAX];
	size_t client_count, most, under_way;
	struct question *questions;
	uint64_t *expected; /* of each question: packets */
	size_t question_count;
	struct slot slots[SLOTS];
	uint64_t asked; /* over all steps */
	char **steps;
	int step_count, step;
	/* of the step */
	double rate, seconds;
	int64_t begin, *firsts, *ends;
	size_t due, offered, first_count, end_count, failed, partial, wrong;
	uint64_t packets;
	bool over;
	char failure[200];
};

static void
die(const char *text)
{
	fprintf(stderr, "ask_load: %s\n", text);
	exit(1);
}

static void
print_times(const char *name, const int64_t *ns, size_t count)
{
	printf(", \"%s\": [", name);
	for (size_t i = 0; i < count; i++)
		printf("%s%" PRId64, i ? "," : "", ns[i] / 1000);
	printf("]");
}

static void
print_step(struct load *l)
{
	double took = (pr_now_mono() - l->begin) / 1e9;

	printf("{\"rate\": %g, \"offered\": %zu, \"answered\": %zu, \"seconds\": %.3f, "
	       "\"packets\": %" PRIu64
	       ", \"wrong\": %zu, \"partial\": %zu, \"failed\": %zu, \"failure\": \"%s\"",
		l->rate, l->offered, l->end_count, took, l->packets, l->wrong, l->partial,
		l->failed, l->failure);
	print_times("first", l->firsts, l->first_count);
	print_times("end", l->ends, l->end_count);
	printf("}\n");
	fflush(stdout);
}

static void
begin_step(struct load *l)
{
	if (l->step == l->step_count) {
		pr_loop_break(l->loop);
		return;
	}
	if (sscanf(l->steps[l->step++], "%lf:%lf", &l->rate, &l->seconds) != 2 ||
		l->rate <= 0)
		die("a step is RATE:SECONDS");
	l->due = l->rate * l->seconds + 0.5;
	l->due = l->due ? l->due : 1;
	free(l->firsts);
	free(l->ends);
	l->firsts = calloc(l->due, sizeof *l->firsts);
	l->ends = calloc(l->due, sizeof *l->ends);
	if (!l->firsts || !l->ends)
		die("no memory");
	l->offered = l->first_count = l->end_count = l->failed = l->partial = l->wrong = 0;
	l->packets = 0;
	l->over = false;
	l->begin = pr_now_mono();
}

static void
ask(struct load *l, int64_t due)
{
	struct client *c = &l->clients[l->asked % l->client_count];
	size_t which = l->asked % l->question_count;
	Packrack__Credit credit = PACKRACK__CREDIT__INIT;
	uint64_t id = l->asked + SLOTS;
	Packrack__Envelope env = pr_message_of(
		id, PACKRACK__ENVELOPE__BODY_QUERY, &l->questions[which].query);

	l->asked++;
	l->offered++;
	l->under_way++;
	l->slots[id % SLOTS] =
		(struct slot){.id = id, .due = due, .expected = l->expected[which]};
	pr_rpc_send(c->rpc, NULL, &env, NULL);
	credit.batches = CREDIT;
	env = pr_message_of(id, PACKRACK__ENVELOPE__BODY_CREDIT, &credit);
	pr_rpc_send(c->rpc, NULL, &env, NULL);
}

static void
on_tick(void *arg)
{
	struct load *l = arg;
	int64_t now = pr_now_mono();

	while (l->offered < l->due && l->under_way < l->most &&
		!l->slots[l->asked % SLOTS].id) {
		int64_t due = l->begin + (int64_t)(l->offered * 1e9 / l->rate);

		if (due > now || now > l->begin + (int64_t)(l->seconds * 1e9))
			break;
		ask(l, due);
	}
	l->over = l->offered == l->due || now > l->begin + (int64_t)(l->seconds * 1e9);
	if (!l->over ||
		(l->under_way && now < l->begin + (int64_t)(l->seconds * 1e9) + GIVE_UP_NS))
		return;
	print_step(l);
	begin_step(l);
}

static void
on_message(
	void *arg, PR_UNUSED const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct client *c = arg;
	struct load *l = c->load;
	struct slot *s = &l->slots[env->id % SLOTS];
	struct pr_segment_header header;
	int64_t now = pr_now_mono();

	if (s->id != env->id || !env->id)
		return;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_BATCH) {
		if (pr_segment_peek(env->batch->packets.data, env->batch->packets.len,
			    &header, NULL) == 0) {
			s->packets += header.count;
			s->first = s->first ? s->first : now;
		}
		return;
	}
	if (env->body_case == PACKRACK__ENVELOPE__BODY_END) {
		l->ends[l->end_count++] = now - s->due;
		if (s->first)
			l->firsts[l->first_count++] = s->first - s->due;
		l->packets += s->packets;
		l->wrong += s->packets != s->expected;
		l->partial += !env->end->completeness || !env->end->completeness->complete;
	} else {
		l->failed++;
		if (env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE)
			snprintf(l->failure, sizeof l->failure, "%s", env->failure->text);
	}
	s->id = 0;
	l->under_way--;
	on_tick(l);
}

static void
read_questions(struct load *l)
{
	static const uint16_t ethernet = PR_LINKTYPE_ETHERNET;
	char *line = NULL;
	size_t room = 0;
	ssize_t len;

	while ((len = getline(&line, &room, stdin)) > 1) {
		struct query_args *a = calloc(1, sizeof *a);
		struct pr_error err;
		int at = 0;

		if (!a || PR_ARRAY_GROW(l->questions, l->question_count) < 0 ||
			PR_ARRAY_GROW(l->expected, l->question_count) < 0)
			die("no memory");
		*a = (struct query_args)QUERY_ARGS;
		line[len - 1] = '\0';
		if (sscanf(line, "%" SCNd64 " %" SCNd64 " %" SCNu64 " %n", &a->since,
			    &a->until, &l->expected[l->question_count], &at) != 3)
			die("a line is SINCE UNTIL PACKETS FILTER");
		a->filter = strdup(line + at);
		a->write = ""; /* packets, not counts */
		if (question_make(&l->questions[l->question_count], a, &ethernet, 1, &err) <
			0)
			die(err.text);
		l->question_count++;
	}
	free(line);
	/* the array may have moved since */
	for (size_t i = 0; i < l->question_count; i++)
		l->questions[i].query.text = l->questions[i].text;
	if (!l->question_count)
		die("no questions");
}

int
main(int argc, char **argv)
{
	static struct load l;
	struct pr_error err;

	if (argc < 6)
		die("ENDPOINT KEYS CONNECTIONS UNDER_WAY RATE:SECONDS...");
	const char *keys = strcmp(argv[2], "none") ? argv[2] : NULL;
	l.client_count = PR_MIN(PR_MAX(atoi(argv[3]), 1), CONNECTIONS_MAX);
	l.most = PR_MAX(atoi(argv[4]), 1);
	l.steps = argv + 5;
	l.step_count = argc - 5;
	read_questions(&l);
	l.loop = pr_loop_create(&(struct pr_loop_calls){.stop = NULL}, &err);
	struct pr_timer *timer =
		l.loop ? pr_timer_create(l.loop, TICK_NS, on_tick, &l, &err) : NULL;
	if (!timer)
		die(err.text);
	for (size_t i = 0; i < l.client_count; i++) {
		l.clients[i].load = &l;
		l.clients[i].rpc = pr_rpc_connect(
			l.loop, argv[1], keys, on_message, &l.clients[i], &err);
		if (!l.clients[i].rpc)
			die(err.text);
	}
	begin_step(&l);
	if (pr_loop_run(l.loop, &err) < 0)
		die(err.text);
	for (size_t i = 0; i < l.client_count; i++)
		pr_rpc_destroy(&l.clients[i].rpc);
	pr_timer_destroy(&timer);
	pr_loop_destroy(&l.loop);
	return 0;
}
