/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <check.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/rpc/rpc.h"
#include "tests/unit/loop_wait.h"
#include "tests/unit/unit.h"

/* A server and a client in one loop, at a place of their own: what the tests of proto/rpc share. */

static char dir[64], endpoint[96];
static struct pr_loop *loop;
static struct pr_error err;

/* A server that counts and answers a status request with the sum of what it got. */
struct server {
	struct pr_rpc *rpc;
	struct pr_rpc_peer last;
	unsigned got;
	size_t bytes;
};

struct client {
	struct pr_rpc *rpc;
	unsigned got, connected, disconnected, refused, failures;
	uint64_t last_id;
};

static inline void
make_place(void)
{
	snprintf(dir, sizeof(dir), "/tmp/packrack-rpc-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(endpoint, sizeof(endpoint), "ipc://%s/s.sock", dir);
	loop = pr_loop_create(NULL, &err);
	ck_assert_ptr_nonnull(loop);
}

static inline void
remove_place(void)
{
	char command[128];

	pr_loop_destroy(&loop);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static inline void
on_server(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct server *s = arg;
	Packrack__Envelope out = PACKRACK__ENVELOPE__INIT;
	Packrack__Status status = PACKRACK__STATUS__INIT;

	s->last = *peer;
	s->got++;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_BATCH)
		s->bytes += env->batch->packets.len;
	if (env->body_case != PACKRACK__ENVELOPE__BODY_STATUS_REQUEST)
		return;
	out.id = env->id;
	out.body_case = PACKRACK__ENVELOPE__BODY_STATUS;
	out.status = &status;
	status.program = (char *)"test";
	ck_assert_int_eq(pr_rpc_send(s->rpc, peer, &out, &err), 0);
}

static inline void
on_client(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct client *c = arg;

	ck_assert_ptr_null(peer);
	c->got++;
	c->failures += env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE;
	c->last_id = env->id;
}

static inline void
on_state(void *arg, enum pr_rpc_state state)
{
	struct client *c = arg;

	c->connected += state == PR_RPC_CONNECTED;
	c->disconnected += state == PR_RPC_DISCONNECTED;
	c->refused += state == PR_RPC_REFUSED;
}

static inline void
wait_until(const unsigned *value, unsigned want)
{
	ck_assert_uint_ge(loop_until(loop, value, want, 10), want);
}

static inline void
start(struct server *s, struct client *c, const char *server_keys, const char *client_keys)
{
	memset(s, 0, sizeof(*s));
	memset(c, 0, sizeof(*c));
	s->rpc = pr_rpc_listen(loop, endpoint, server_keys, on_server, s, &err);
	ck_assert_msg(s->rpc != NULL, "%s", err.text);
	c->rpc = pr_rpc_connect(loop, endpoint, client_keys, on_client, c, &err);
	ck_assert_msg(c->rpc != NULL, "%s", err.text);
	pr_rpc_watch(c->rpc, on_state, c);
}

static inline void
finish(struct server *s, struct client *c)
{
	pr_rpc_destroy(&c->rpc);
	pr_rpc_destroy(&s->rpc);
	ck_assert_ptr_null(c->rpc);
}

static Packrack__StatusRequest request_body = PACKRACK__STATUS_REQUEST__INIT;

static inline Packrack__Envelope
request(uint64_t id)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_STATUS_REQUEST;
	env.status_request = &request_body;
	return env;
}

static inline void
rpc_lab_cases(TCase *tc)
{
	tcase_add_checked_fixture(tc, make_place, remove_place);
	tcase_set_timeout(tc, 60);
}
