/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/manage.h"

#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/rpc/rpc.h"

struct pr_manage {
	struct pr_rpc *rpc;
	pr_manage_call call;
	void *arg;
};

static void
send_status(struct pr_manage *m, const struct pr_rpc_peer *peer, uint64_t id)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	Packrack__Status status = PACKRACK__STATUS__INIT;
	Packrack__Value values[PR_REPORT_MAX], *list[PR_REPORT_MAX];
	struct pr_report report = {0};

	m->call(m->arg, &report);
	for (size_t i = 0; i < report.count; i++) {
		values[i] = (Packrack__Value)PACKRACK__VALUE__INIT;
		values[i].name = (char *)(uintptr_t)report.values[i].name;
		values[i].number = report.values[i].number;
		list[i] = &values[i];
	}
	status.program = (char *)(uintptr_t) "packrack-logger";
	status.version = (char *)(uintptr_t)PACKRACK_VERSION;
	status.time = pr_now_real();
	status.epoch = report.epoch;
	status.state = (char *)(uintptr_t)report.state;
	status.values = list;
	status.n_values = report.count;
	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_STATUS;
	env.status = &status;
	pr_rpc_send(m->rpc, peer, &env, NULL);
}

static void
send_failure(struct pr_manage *m, const struct pr_rpc_peer *peer, uint64_t id)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	Packrack__Failure failure = PACKRACK__FAILURE__INIT;

	failure.text = (char *)(uintptr_t) "a logger only answers status requests";
	failure.bad_request = true;
	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_FAILURE;
	env.failure = &failure;
	pr_rpc_send(m->rpc, peer, &env, NULL);
}

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct pr_manage *m = arg;

	if (env->body_case == PACKRACK__ENVELOPE__BODY_STATUS_REQUEST)
		send_status(m, peer, env->id);
	else
		send_failure(m, peer, env->id);
}

struct pr_manage *
pr_manage_create(struct pr_loop *loop, const char *endpoint, const char *keys,
	const char *enrolled, pr_manage_call call, void *arg, struct pr_error *err)
{
	struct pr_rpc_keys files = {.secret_file = keys, .enrolled_file = enrolled};
	struct pr_manage *m = calloc(1, sizeof(*m));

	if (!m) {
		pr_error_set(err, "no memory for %s", endpoint);
		return NULL;
	}
	m->call = call;
	m->arg = arg;
	m->rpc = pr_rpc_listen(loop, endpoint, &files, on_message, m, err);
	if (!m->rpc) {
		free(m);
		return NULL;
	}
	return m;
}

void
pr_manage_destroy(struct pr_manage **manage)
{
	if (*manage)
		pr_rpc_destroy(&(*manage)->rpc);
	free(*manage);
	*manage = NULL;
}
