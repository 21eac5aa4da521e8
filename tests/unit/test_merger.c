/* SPDX-License-Identifier: Apache-2.0 */
#include <zmq.h>

#include "proto/rpc/rack_state.h"
#include "tests/unit/merger_lab.h"
#include "tests/unit/unit.h"

START_TEST(test_three_nodes)
{
	struct lab *lab = lab_up(3, NONE);

	query(lab, 0, false);
	give_credit(lab, 2);
	run_until(lab, ended);
	ck_assert_msg(!lab->failed, "%s", lab->failure);
	ck_assert_uint_eq(lab->got, SEQS);
	ck_assert(lab->in_order);
	ck_assert(lab->complete);
	ck_assert_uint_eq(lab->held_packets, SEQS);
	ck_assert_uint_eq(lab->answered, 3);
	ck_assert_uint_le(lab->nodes[0].most_ahead, 4);
	lab_down(lab);
}
END_TEST

/* Batches come as nodes sent them; what the nodes hold is told at the end. */
START_TEST(test_client_merges)
{
	struct lab *lab = lab_up(3, NONE);

	lab->merges = true;
	query(lab, 0, false);
	run_until(lab, ended);
	ck_assert_msg(!lab->failed, "%s", lab->failure);
	ck_assert_uint_eq(lab->sources, 3);
	ck_assert_uint_eq(lab->sources_ended, 3);
	ck_assert_uint_eq(lab->got, SEQS);
	ck_assert(lab->in_order);
	ck_assert(lab->complete);
	ck_assert_uint_eq(lab->held_packets, SEQS);
	ck_assert_uint_eq(lab->answered, 3);
	ck_assert_uint_le(lab->nodes[0].most_ahead, 2);
	lab_down(lab);
}
END_TEST

static bool
first_batches(struct lab *lab)
{
	return lab->batches >= 6;
}

/* A node whose packets the client finds damaged is out, and the end says why. */
START_TEST(test_client_drops_a_node)
{
	Packrack__Cancel cancel = PACKRACK__CANCEL__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	struct lab *lab = lab_up(3, NONE);

	lab->merges = lab->no_more_credit = true;
	query(lab, 0, false);
	run_until(lab, first_batches);
	env.body_case = PACKRACK__ENVELOPE__BODY_CANCEL;
	env.cancel = &cancel;
	send_env(lab->client, &env, lab->source[1]);
	lab->no_more_credit = false;
	for (uint32_t i = 0; i < 3; i++)
		give_credit_for(lab, lab->source[i], 2);
	run_until(lab, ended);
	ck_assert(lab->nodes[1].cancelled && !lab->was_cancelled);
	ck_assert_uint_eq(lab->answered, 2);
	ck_assert(!lab->complete);
	ck_assert_ptr_nonnull(strstr(lab->failure, "damaged"));
	lab_down(lab);
}
END_TEST

/* What is lost with a node is missing, and the rest is there. */
static void
fault_costs(enum fault fault, const char *says)
{
	struct lab *lab = lab_up(3, fault);

	query(lab, 0, false);
	give_credit(lab, 2);
	run_until(lab, ended);
	ck_assert_msg(!lab->failed, "%s", lab->failure);
	ck_assert(lab->in_order);
	ck_assert(!lab->complete);
	ck_assert_uint_eq(lab->answered, 2);
	ck_assert_uint_ge(lab->got, SEQS / 3 * 2);
	ck_assert_uint_lt(lab->got, SEQS);
	if (fault !=
		DISORDER) { /* neither more nor less than what is not there is missing */
		ck_assert_uint_eq(lab->held_packets, lab->got);
		ck_assert_uint_eq(lab->missing, SEQS - lab->got);
	}
	ck_assert_msg(strstr(lab->failure, says) != NULL, "'%s'", lab->failure);
	lab_down(lab);
}

START_TEST(test_node_dies)
{
	fault_costs(DIES, "connection");
}
END_TEST

START_TEST(test_node_silent)
{
	fault_costs(FALLS_SILENT, "not heard");
}
END_TEST

START_TEST(test_node_disorder)
{
	fault_costs(DISORDER, "order");
}
END_TEST

START_TEST(test_node_over_credit)
{
	fault_costs(OVER_CREDIT, "more batches");
}
END_TEST

START_TEST(test_node_refuses)
{
	fault_costs(REFUSES, "the volume is gone");
}
END_TEST

START_TEST(test_limit)
{
	struct lab *lab = lab_up(3, NONE);

	query(lab, 100, false);
	give_credit(lab, 8);
	run_until(lab, ended);
	ck_assert_uint_eq(lab->got, 100);
	ck_assert_uint_eq(lab->last_seq, 100);
	ck_assert(lab->limited);
	ck_assert(lab->complete);
	lab_down(lab);
}
END_TEST

START_TEST(test_count)
{
	for (int nodes = 1; nodes <= 3; nodes += 2) {
		struct lab *lab = lab_up(nodes, NONE);

		query(lab, 0, true);
		run_until(lab, ended);
		ck_assert_uint_eq(lab->matched, SEQS);
		ck_assert_uint_eq(lab->batches, 0);
		ck_assert(lab->nodes[0].count_only);
		ck_assert(lab->complete);
		lab_down(lab);
	}
}
END_TEST

/* Each node has every packet: they cannot just add up. */
START_TEST(test_count_copies)
{
	struct lab *lab = lab_up(3, NONE);

	for (int i = 0; i < 3; i++)
		lab->nodes[i].first = lab->nodes[i].step = 1;
	query(lab, 0, true);
	run_until(lab, ended);
	ck_assert_msg(!lab->failed, "%s", lab->failure);
	ck_assert_uint_eq(lab->matched, SEQS);
	ck_assert(!lab->nodes[0].count_only);
	ck_assert(lab->complete);
	lab_down(lab);
}
END_TEST

/* Parts of flows are sums: nodes are asked for them only if no packet lies on two. */
START_TEST(test_flow_parts)
{
	enum { ONCE, TWICE, TWICE_LATER };

	for (int kind = ONCE; kind <= TWICE_LATER; kind++) {
		struct lab *lab = lab_up(3, NONE);

		lab->parts = true;
		lab->merges = _i;
		for (int i = 0; kind == TWICE && i < 3; i++)
			lab->nodes[i].first = lab->nodes[i].step = 1;
		lab->nodes[1].gets_all = kind == TWICE_LATER;
		query(lab, 0, false);
		if (!lab->merges)
			give_credit(lab, 2);
		run_until(lab, ended);
		ck_assert_msg(!lab->failed, "%s", lab->failure);
		ck_assert(!lab->nodes[0].count_only);
		ck_assert_int_eq(lab->nodes[0].folds, kind != TWICE);
		ck_assert_int_eq(lab->counted_twice, kind == TWICE_LATER);
		ck_assert(lab->complete);
		if (kind == ONCE)
			ck_assert_uint_eq(lab->matched, SEQS);
		if (!_i)
			ck_assert_uint_eq(lab->got, SEQS);
		lab_down(lab);
	}
}
END_TEST

static bool
stalled(struct lab *lab)
{
	return lab->batches == 1;
}

/* Until the page of metrics has the line. */
static void
poll_metric(struct lab *lab, const char *line)
{
	int64_t deadline = pr_now_mono() + 10 * PR_NS_PER_S;
	bool found = false;

	while (!found && pr_now_mono() < deadline) {
		struct pr_metrics_page *page = pr_metrics_page_create();
		char *text;

		prm_merger_scrape(lab->merger, page);
		text = pr_metrics_page_text(page, &(size_t){0});
		found = strstr(text, line);
		free(text);
		pr_metrics_page_destroy(&page);
		event_base_loop(pr_loop_base(lab->loop), EVLOOP_NONBLOCK);
	}
	ck_assert_msg(found, "no %s", line);
}

static bool
nodes_cancelled(struct lab *lab)
{
	return lab->nodes[0].cancelled && lab->nodes[1].cancelled && lab->done;
}

/* A client that gives no credit: nodes stop too; then it cancels, and they are told. */
START_TEST(test_slow_client_cancels)
{
	Packrack__Cancel cancel = PACKRACK__CANCEL__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	struct lab *lab = lab_up(2, FALLS_SILENT); /* it keeps quiet behind half of it */

	lab->nodes[1].after = 200;
	lab->no_more_credit = true;
	query(lab, 0, false);
	give_credit(lab, 1);
	run_until(lab, stalled);
	env.body_case = PACKRACK__ENVELOPE__BODY_CANCEL;
	env.cancel = &cancel;
	send_env(lab->client, &env, 77);
	run_until(lab, nodes_cancelled);
	ck_assert(lab->was_cancelled);
	poll_metric(lab, "packrack_merger_queries_cancelled_total 1\n");
	lab_down(lab);
}
END_TEST

static bool
client_gone_noticed(struct lab *lab)
{
	return lab->nodes[0].cancelled;
}

START_TEST(test_client_dies)
{
	struct lab *lab = lab_up(2, FALLS_SILENT); /* so that the query goes on */

	lab->nodes[1].after = 200;
	query(lab, 0, false); /* and no credit */
	lab->until = stalled;
	for (int i = 0; i < 1000 && !lab->nodes[0].batches; i++) {
		lab->deadline = 0;
		event_base_dispatch(pr_loop_base(lab->loop));
	}
	pr_rpc_destroy(&lab->client);
	run_until(lab, client_gone_noticed);
	lab_down(lab);
}
END_TEST

/* A client without a loop, which reads when the test does; what it read last. */
static void *raw_context, *raw;
static uint64_t source;

static void
raw_open(const struct lab *lab)
{
	int one = 1, none = 0;

	raw_context = zmq_ctx_new();
	raw = zmq_socket(raw_context, ZMQ_DEALER);
	zmq_setsockopt(raw, ZMQ_RCVHWM, &one, sizeof(one));
	zmq_setsockopt(raw, ZMQ_LINGER, &none, sizeof(none));
	ck_assert_int_eq(zmq_connect(raw, lab->endpoint), 0);
}

static void
raw_close(void)
{
	zmq_close(raw);
	zmq_ctx_term(raw_context);
}

static void
send_raw(Packrack__Envelope__BodyCase body_case, const void *body, uint64_t id)
{
	Packrack__Envelope env = pr_message_of(id, body_case, body);
	uint8_t *buf;
	size_t len;

	ck_assert_int_eq(pr_message_pack(&env, &buf, &len, NULL), 0);
	ck_assert_int_eq(zmq_send(raw, buf, len, ZMQ_DONTWAIT), (int)len);
	free(buf);
}

/* Handles what has come, as the lab's client would. */
static void
read_raw(struct lab *lab, void (*handle)(struct lab *lab, const Packrack__Envelope *env))
{
	static uint8_t buf[PR_RPC_MESSAGE_MAX];
	Packrack__Envelope *env;
	int len;

	while ((len = zmq_recv(raw, buf, sizeof(buf), ZMQ_DONTWAIT)) >= 0)
		if ((env = pr_message_unpack(buf, (size_t)len, NULL))) { /* no probe */
			handle(lab, env);
			pr_message_free(&env);
		}
}

static void
raw_client(struct lab *lab, const Packrack__Envelope *env)
{
	if (env->body_case == PACKRACK__ENVELOPE__BODY_SOURCES) {
		source = lab->source[0] = env->sources->ids[0];
		lab->sources = 1;
	} else {
		on_client(lab, NULL, env);
	}
}

static bool
has_source(struct lab *lab)
{
	read_raw(lab, raw_client);
	return source != 0;
}

static bool
raw_ended(struct lab *lab)
{
	read_raw(lab, raw_client);
	return lab->done;
}

static uint32_t batches_then;
static int64_t batches_since;

/* Gives all credit there is, and reads nothing, until no more comes from the node. */
static bool
queue_filled(struct lab *lab)
{
	Packrack__Credit credit = PACKRACK__CREDIT__INIT;

	credit.batches = 1024;
	if (lab->nodes[0].batches != batches_then || !batches_since) {
		send_raw(PACKRACK__ENVELOPE__BODY_CREDIT, &credit, source);
		batches_then = lab->nodes[0].batches;
		batches_since = pr_now_mono();
	}
	return pr_now_mono() - batches_since > 300 * PR_NS_PER_MS;
}

/* A client that gives credit for more than its queue takes, and reads late, gets all of it. */
START_TEST(test_client_queue_full)
{
	struct lab *lab = lab_up(1, NONE);
	Packrack__Query q = PACKRACK__QUERY__INIT;

	lab->nodes[0].caplen = 1024;
	lab->no_more_credit = true;
	source = 0;
	raw_open(lab);
	q.since = INT64_MIN;
	q.until = INT64_MAX;
	q.merges = true;
	send_raw(PACKRACK__ENVELOPE__BODY_QUERY, &q, 77);
	run_until(lab, has_source);
	run_until(lab, queue_filled);
	ck_assert_uint_lt(lab->nodes[0].batches, SEQS / PER_BATCH);
	run_until(lab, raw_ended);
	ck_assert(!lab->failed && lab->complete && lab->in_order);
	ck_assert_uint_eq(lab->got, SEQS);
	ck_assert_uint_eq(lab->sources_ended, 1);
	raw_close();
	lab_down(lab);
}
END_TEST

/* A node without a loop: it answers each query with packets that are in no batch. */
static bool reading;

static void
raw_node(struct lab *lab, const Packrack__Envelope *env)
{
	(void)lab;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_QUERY) {
		Packrack__End end = PACKRACK__END__INIT;

		send_raw(PACKRACK__ENVELOPE__BODY_END, &end, env->id);
	}
}

static bool
node_known(struct lab *lab)
{
	Packrack__Hello h = PACKRACK__HELLO__INIT;

	h.name = (char *)"slow";
	h.volume = (char *)"0-1";
	h.version = (char *)"0";
	h.boot = 1;
	send_raw(PACKRACK__ENVELOPE__BODY_HELLO, &h, 0);
	ask_status(lab);
	if (reading)
		read_raw(lab, raw_node);
	/* ends of queries that were cancelled before may still come */
	return reading ? lab->done && !lab->was_cancelled : lab->nodes_known == 2;
}

/* The queue to a node is full: it is asked when it has room again, and is not taken for dead. */
START_TEST(test_node_queue_full)
{
	struct lab *lab = lab_up(1, NONE);
	Packrack__Cancel cancel = PACKRACK__CANCEL__INIT;
	Packrack__Envelope env = pr_message_of(0, PACKRACK__ENVELOPE__BODY_CANCEL, &cancel);

	Packrack__Query q = PACKRACK__QUERY__INIT;
	Packrack__Envelope ask = pr_message_of(0, PACKRACK__ENVELOPE__BODY_QUERY, &q);
	char text[2000];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = 0;
	q.text = text;
	q.count_only = true;
	raw_open(lab);
	run_until(lab, node_known);
	for (int i = 0; i < 30; i++) {
		lab->done = false;
		for (int j = 0; j < 20; j++) {
			send_env(lab->client, &ask, 77);
			send_env(lab->client, &env, 77);
		}
		run_until(lab, ended);
	}
	lab->done = false;
	lab->failure[0] = 0;
	lab->answered = 0;
	query(lab, 0, true);
	reading = true;
	run_until(lab, node_known);
	ck_assert_str_eq(lab->failure, "");
	ck_assert_uint_eq(lab->answered, 2);
	raw_close();
	lab_down(lab);
}
END_TEST

/* A node sends empty batches for ever: it is left out. */
START_TEST(test_node_without_progress)
{
	struct lab *lab = lab_up(2, EMPTY);

	query(lab, 0, false);
	give_credit(lab, 2);
	run_until(lab, ended);
	ck_assert_ptr_nonnull(strstr(lab->failure, "no data for this query"));
	ck_assert_uint_eq(lab->answered, 1);
	ck_assert_uint_gt(lab->nodes[1].batches, 10);
	lab_down(lab);
}
END_TEST

/* Few packets match: a node must not wait for another's next one, nor tell all before it. */
START_TEST(test_sparse)
{
	struct lab *lab = lab_up(3, NONE);

	lab->nodes[0].only = 1000000;
	lab->nodes[1].only = 7;
	query(lab, 0, false);
	give_credit(lab, 2);
	run_until(lab, ended);
	ck_assert(lab->in_order);
	ck_assert(lab->complete);
	ck_assert_uint_eq(lab->held_packets, SEQS);
	ck_assert_uint_lt(lab->got, SEQS / 3 + SEQS / 7);
	lab_down(lab);
}
END_TEST

static void
follow(struct lab *lab, uint64_t id)
{
	Packrack__Query q = PACKRACK__QUERY__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	q.until = INT64_MAX;
	q.follow = true;
	env.body_case = PACKRACK__ENVELOPE__BODY_QUERY;
	env.query = &q;
	send_env(lab->client, &env, id);
}

/*
 * 16 places: one user has 12 of them. A query without a place is refused before it is unpacked: that would take
 * long, and its body here has two bytes that make no sense.
 */
START_TEST(test_one_user_leaves_room)
{
	static const uint8_t no_query[] = {0x08, 7, 0x1a, 2, 0xff, 0xff};
	struct lab *lab = lab_up(1, NONE);

	for (uint64_t id = 100; id < 113; id++)
		follow(lab, id);
	run_until(lab, ended);
	ck_assert_msg(
		strstr(lab->failure, "--max-user-queries") != NULL, "%s", lab->failure);
	poll_metric(lab, "packrack_merger_queries_running 12\n");
	poll_metric(lab, "packrack_merger_queries_refused_total 1\n");
	lab->done = false;
	lab->failure[0] = 0;
	raw_open(lab);
	ck_assert_int_eq(zmq_send(raw, no_query, sizeof(no_query), 0), sizeof(no_query));
	run_until(lab, raw_ended);
	ck_assert_msg(
		strstr(lab->failure, "--max-user-queries") != NULL, "%s", lab->failure);
	raw_close();
	lab_down(lab);
}
END_TEST

static enum prm_hello
say_hello(struct prm_registry *r, const char *user, const char *name, size_t links,
	size_t note, struct pr_error *err)
{
	Packrack__Hello hello = PACKRACK__HELLO__INIT;
	Packrack__NodeStatus status = PACKRACK__NODE_STATUS__INIT;
	Packrack__LinkInfo link = PACKRACK__LINK_INFO__INIT;
	struct prm_peer_ref from = {.peer.len = 1}, before;
	enum prm_hello change;

	strcpy(from.peer.user, user);
	strcpy(from.peer.who, user);
	hello.name = (char *)name;
	hello.n_links = links;
	hello.links = calloc(links + 1, sizeof(*hello.links));
	for (size_t i = 0; i < links; i++)
		hello.links[i] = &link;
	hello.status = &status;
	status.logger = calloc(1, note + 1);
	memset(status.logger, 'x', note);
	change = prm_registry_hello(r, &from, &hello, 1, 1, &before, err);
	free(status.logger);
	free(hello.links);
	return change;
}

START_TEST(test_key_has_limits)
{
	struct prm_registry r = {0};
	struct pr_error err;
	char name[20];

	for (int i = 0; i < PRM_REGISTRY_NAMES_MAX; i++) {
		snprintf(name, sizeof(name), "log1/%d", i);
		ck_assert_int_eq(say_hello(&r, "log1", name, 1024, 0, &err), PRM_HELLO_NEW);
	}
	ck_assert_int_eq(say_hello(&r, "log1", name, 1, 0, &err), PRM_HELLO_SAME);
	ck_assert_int_eq(say_hello(&r, "log1", "log1/more", 1, 0, &err), PRM_HELLO_REFUSED);
	ck_assert_ptr_nonnull(strstr(err.text, "8 names"));
	ck_assert_int_eq(say_hello(&r, "log2", "log2", 1025, 0, &err), PRM_HELLO_REFUSED);
	ck_assert_ptr_nonnull(strstr(err.text, "at most 1024"));
	/* 20 MiB and 10 MiB of one key; what a node reports anew takes the place of what it said */
	ck_assert_int_eq(say_hello(&r, "log3", "log3", 1, 20 << 20, &err), PRM_HELLO_NEW);
	ck_assert_int_eq(say_hello(&r, "log3", "log3", 1, 20 << 20, &err), PRM_HELLO_SAME);
	ck_assert_int_eq(say_hello(&r, "log3", "log3/b", 1, 10 << 20, &err), PRM_HELLO_NEW);
	ck_assert_int_eq(
		say_hello(&r, "log3", "log3/b", 1, 13 << 20, &err), PRM_HELLO_REFUSED);
	ck_assert_ptr_nonnull(strstr(err.text, "32 MiB"));
	ck_assert_int_eq(say_hello(&r, "log4", "log4", 1, 20 << 20, &err), PRM_HELLO_NEW);
	ck_assert_uint_eq(r.count, PRM_REGISTRY_NAMES_MAX + 3);
	prm_registry_free(&r);
}
END_TEST

/* ---- state of the rack that nodes tell ---- */

static bool
ten_statuses(struct lab *lab)
{
	ask_status(lab);
	return lab->statuses >= 10;
}

/* Nodes have had time to come. */
static bool
started_long_ago(struct lab *lab)
{
	ask_status(lab);
	return lab->deadline - pr_now_mono() <
	       10 * PR_NS_PER_S - PRM_NODE_SILENT_NS - PR_NS_PER_S / 2;
}

static bool
has_rules(struct lab *lab)
{
	ask_status(lab);
	return lab->rules;
}

/* One node may not steer the rack; what most of them have is believed, if it is what they say that they have. */
START_TEST(test_nodes_keep_state)
{
	struct lab *lab = lab_up(3, NONE);
	struct pr_rack_state known = {.count = 0};
	Packrack__SteerRule item = PACKRACK__STEER_RULE__INIT;
	struct pr_error err;

	item.verb = (char *)"move";
	item.key = (char *)"move 10.0.0.1";
	item.at = 1;
	ck_assert_int_eq(pr_state_put(&known, &item, 1, &err), 1);
	Packrack__RackState state = pr_state_message(&known), forged = state;
	/* who comes first is not most of them */
	for (int i = 0; i < 3; i++)
		lab->nodes[i].state = &state;
	lab->statuses = 0;
	run_until(lab, ten_statuses);
	ck_assert_uint_eq(lab->rules, 0);
	lab->nodes[1].state = lab->nodes[2].state = NULL;
	run_until(lab, started_long_ago);
	ck_assert_uint_eq(lab->rules, 0);
	forged.digest++;
	for (int i = 0; i < 3; i++)
		lab->nodes[i].state = &forged;
	lab->statuses = 0;
	run_until(lab, ten_statuses);
	ck_assert_uint_eq(lab->rules, 0);
	lab->nodes[0].state = lab->nodes[2].state = &state;
	run_until(lab, has_rules);
	ck_assert_uint_eq(lab->rules, 1);
	lab_down(lab);
	pr_state_free(&known);
}
END_TEST

static void
fill(TCase *t)
{
	pr_log_open("test_merger", PR_LOG_ERROR, PR_LOG_AUTO);
	tcase_add_test(t, test_three_nodes);
	tcase_add_test(t, test_client_merges);
	tcase_add_test(t, test_client_drops_a_node);
	tcase_add_test(t, test_node_dies);
	tcase_add_test(t, test_node_silent);
	tcase_add_test(t, test_node_disorder);
	tcase_add_test(t, test_node_over_credit);
	tcase_add_test(t, test_node_refuses);
	tcase_add_test(t, test_limit);
	tcase_add_test(t, test_count);
	tcase_add_test(t, test_count_copies);
	tcase_add_loop_test(t, test_flow_parts, 0, 2);
	tcase_add_test(t, test_slow_client_cancels);
	tcase_add_test(t, test_client_dies);
	tcase_add_test(t, test_client_queue_full);
	tcase_add_test(t, test_node_queue_full);
	tcase_add_test(t, test_node_without_progress);
	tcase_add_test(t, test_sparse);
	tcase_add_test(t, test_one_user_leaves_room);
	tcase_add_test(t, test_key_has_limits);
	tcase_add_test(t, test_nodes_keep_state);
}

int
main(void)
{
	return unit_run("merger", fill);
}
