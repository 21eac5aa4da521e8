/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "indexer/filter/filter.h"
#include "indexer/query/hello.h"
#include "indexer/query/answer.h"
#include "indexer/query/scans.h"
#include "indexer/query/serve.h"
#include "logger/streamfs/streamfs.h"
#include "proto/base/clock.h"
#include "proto/wire/segment.h"
#include "tests/unit/loop_wait.h"
#include "tests/unit/unit.h"

/* An indexer's serving and a merger's socket in one loop, over a volume of packets; what the merger hears. */
#define PACKETS 40000
#define CAPLEN 500

static char dir[64], volume[80], endpoint[96];
static struct pr_error err;
static struct pr_loop *loop;
static struct pri_volume *view;
static struct pri_serve *serve;
static struct pr_rpc *node, *merger;

static struct heard {
	struct pr_rpc_peer peer;
	unsigned hellos, batches, ends, failures, bad_requests, lost;
	uint64_t packets, held;
	int64_t frontier, first_packet;
	bool cancelled, limit;
	uint64_t scanned; /* packets that were looked at for the last answer that ended */
	char text[200];
} heard;

static inline void
append_packets(struct sfs *sfs, uint64_t seq, uint64_t last)
{
	static uint8_t buf[PR_SEGMENT_TARGET], data[CAPLEN];
	struct pr_segment_builder b;
	int stream = sfs_stream_open(sfs, "packets.0", 0, 0, &err);

	while (seq <= last) {
		pr_segment_begin(&b, buf, sizeof(buf), 0);
		b.header.epoch = 5;
		b.header.linktype = 1;
		for (; seq <= last; seq++) {
			struct pr_packet p = {.epoch = 5,
				.seq = seq,
				.time = (int64_t)seq * 1000,
				.otime = (int64_t)seq * 1000,
				.linktype = 1,
				.caplen = CAPLEN,
				.len = CAPLEN,
				.data = data};
			memcpy(data, &seq, sizeof(seq));
			if (!pr_segment_add(&b, &p))
				break;
		}
		size_t len = pr_segment_seal(&b);
		ck_assert_int_eq(sfs_append(sfs, stream, b.header.min_time,
					 b.header.max_time, buf, len, NULL, &err),
			SFS_OK);
	}
}

static inline struct sfs *
open_writer(void)
{
	const char *paths[] = {volume};
	struct sfs_open_options open = {.writer = true, .shm_bytes = 4 << 20};
	struct sfs *sfs = sfs_open(paths, 1, &open, &err);

	ck_assert_msg(sfs != NULL, "%s", err.text);
	return sfs;
}

static inline void
write_volume(void)
{
	const char *paths[] = {volume};
	struct sfs_create_options create = {.size = 64 << 20, .block_size = 1 << 20};

	ck_assert_msg(sfs_create(paths, 1, &create, &err) == 0, "%s", err.text);
	struct sfs *sfs = open_writer();
	append_packets(sfs, 1, PACKETS);
	sfs_close(&sfs);
}

static inline void
hear_batch(const Packrack__Batch *batch)
{
	struct pr_segment_reader r;
	struct pr_packet p;

	heard.batches++;
	heard.frontier = batch->frontier;
	for (size_t i = 0; i < batch->n_held; i++)
		heard.held += batch->held[i]->last - batch->held[i]->first + 1;
	if (!batch->packets.len)
		return;
	if (!heard.first_packet)
		heard.first_packet = pr_now_mono();
	ck_assert_int_eq(
		pr_segment_open(&r, batch->packets.data, batch->packets.len, &err), 0);
	while (pr_segment_next(&r, &p, &err) == 1)
		heard.packets++;
}

static inline void
on_merger(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	(void)arg;
	heard.peer = *peer;
	switch (env->body_case) {
	case PACKRACK__ENVELOPE__BODY_HELLO:
		heard.hellos++;
		break;
	case PACKRACK__ENVELOPE__BODY_BATCH:
		hear_batch(env->batch);
		break;
	case PACKRACK__ENVELOPE__BODY_END:
		heard.ends++;
		heard.cancelled = env->end->cancelled;
		heard.limit = env->end->limit_reached;
		heard.scanned = env->end->scanned_packets;
		break;
	case PACKRACK__ENVELOPE__BODY_FAILURE:
		heard.failures++;
		heard.bad_requests += env->failure->bad_request != 0;
		snprintf(heard.text, sizeof(heard.text), "%s", env->failure->text);
		break;
	default:
		break;
	}
}

static inline void
on_node(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	(void)arg;
	pri_serve_message(serve, node, peer, env);
}

static inline void
on_state(void *arg, enum pr_rpc_state state)
{
	(void)arg;
	if (state == PR_RPC_DISCONNECTED) {
		heard.lost++;
		pri_serve_drop(serve, node);
	}
}

static inline void
wait_for(const unsigned *value, unsigned want)
{
	ck_assert_uint_ge(loop_until(loop, value, want, 60), want);
}

static inline void
turn(int64_t ns)
{
	const struct timeval slice = {0, ns / 1000};

	event_base_loopexit(pr_loop_base(loop), &slice);
	event_base_dispatch(pr_loop_base(loop));
}

/* Long enough for anything that is coming to come. */
static inline void
settle(void)
{
	int64_t deadline = pr_now_mono() + 150 * PR_NS_PER_MS;

	while (pr_now_mono() < deadline)
		turn(10 * PR_NS_PER_MS);
}

static inline Packrack__NodeStatus
served(void)
{
	Packrack__NodeStatus status = PACKRACK__NODE_STATUS__INIT;

	pri_serve_status(serve, &status);
	return status;
}

/* So many come to run and to wait, and it stays so. */
static inline void
queries_are(size_t running, size_t waiting)
{
	int64_t deadline = pr_now_mono() + 60 * PR_NS_PER_S;

	while ((served().queries_running != running ||
		       served().queries_waiting != waiting) &&
		pr_now_mono() < deadline)
		turn(10 * PR_NS_PER_MS);
	settle();
	ck_assert_uint_eq(served().queries_running, running);
	ck_assert_uint_eq(served().queries_waiting, waiting);
}

/* Its threads are not nice, as a test waits for them. */
static inline void
make_serve(unsigned places)
{
	serve = pri_serve_create(loop, places, &err);
	pri_scans_setup(0);
}

static inline int
try_hello(void)
{
	struct pri_hello *hello = pri_hello_create(view, "log1", 1, 0, &err);
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	int rc;

	ck_assert_ptr_nonnull(hello);
	env.body_case = PACKRACK__ENVELOPE__BODY_HELLO;
	env.hello = &hello->message;
	rc = pr_rpc_send(node, NULL, &env, &err);
	pri_hello_destroy(&hello);
	return rc;
}

static inline void
say_hello(void)
{
	ck_assert_int_eq(try_hello(), 0);
}

static inline void
begin(void)
{
	const char *paths[] = {volume};

	memset(&heard, 0, sizeof(heard));
	snprintf(dir, sizeof(dir), "/tmp/packrack-serve-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(volume, sizeof(volume), "%s/v", dir);
	snprintf(endpoint, sizeof(endpoint), "ipc://%s/s.sock", dir);
	write_volume();
	loop = pr_loop_create(NULL, &err);
	make_serve(2);
	view = pri_volume_open(paths, 1, 0, &err);
	ck_assert_msg(view != NULL, "%s", err.text);
	pri_serve_set_volume(serve, view, NULL);
	merger = pr_rpc_listen(loop, endpoint, NULL, on_merger, NULL, &err);
	node = pr_rpc_connect(loop, endpoint, NULL, on_node, NULL, &err);
	ck_assert(merger && node);
	pr_rpc_watch(node, on_state, NULL);
	say_hello();
	wait_for(&heard.hellos, 1);
}

static inline void
end(void)
{
	char command[100];

	pri_serve_destroy(&serve);
	pr_rpc_destroy(&node);
	pr_rpc_destroy(&merger);
	pri_volume_close(&view);
	pr_loop_destroy(&loop);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

/* ---- asking ---- */

static inline void
send_to_node(Packrack__Envelope *env)
{
	ck_assert_msg(pr_rpc_send(merger, &heard.peer, env, &err) == 0, "%s", err.text);
}

static const char *asker = "";
static int64_t since;

/* Frees the programs. */
static inline void
ask_programs(uint64_t id, struct pr_bpf_set *programs, uint64_t limit)
{
	Packrack__Query query = PACKRACK__QUERY__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	ck_assert_int_eq(pri_query_set_programs(&query, programs, &err), 0);
	query.since = since;
	query.until = PR_TIME_MAX;
	query.limit = limit;
	query.user = (char *)asker;
	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_QUERY;
	env.query = &query;
	send_to_node(&env);
	pri_query_message_free(&query);
	pr_bpf_set_free(programs);
}

static inline void
ask(uint64_t id, const char *filter, uint64_t limit)
{
	static const uint16_t types[] = {1};
	struct pr_bpf_set programs = {0};

	ck_assert_int_eq(
		pri_filter_compile_all(types, 1, filter, false, &programs, &err), 0);
	ask_programs(id, &programs, limit);
}

static inline void
give_credit(uint64_t id, uint32_t batches)
{
	Packrack__Credit credit = PACKRACK__CREDIT__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	credit.batches = batches;
	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_CREDIT;
	env.credit = &credit;
	send_to_node(&env);
}

static inline void
cancel(uint64_t id)
{
	Packrack__Cancel body = PACKRACK__CANCEL__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_CANCEL;
	env.cancel = &body;
	send_to_node(&env);
}
