/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/manage.h"

#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/rpc/rpc.h"
#include "proto/rpc/status_metrics.h"

struct prl_manage {
	struct pr_rpc *rpc;
	prl_manage_call call;
	void *arg;
};

/* A report as a message, which lies in room. */
struct room {
	Packrack__Status status;
	Packrack__Value values[PRL_REPORT_MAX], *list[PRL_REPORT_MAX];
};

static Packrack__Status *
make_status(const struct prl_report *report, struct room *room)
{
	Packrack__Status *status = &room->status;

	packrack__status__init(status);
	for (size_t i = 0; i < report->count; i++) {
		packrack__value__init(&room->values[i]);
		room->values[i].name = (char *)(uintptr_t)report->values[i].name;
		room->values[i].number = report->values[i].number;
		room->list[i] = &room->values[i];
	}
	status->program = (char *)(uintptr_t) "packrack-logger";
	status->version = (char *)(uintptr_t)PACKRACK_VERSION;
	status->time = pr_now_real();
	status->epoch = report->epoch;
	status->state = (char *)(uintptr_t)report->state;
	status->values = room->list;
	status->n_values = report->count;
	return status;
}

void
prl_manage_scrape(const struct prl_report *report, struct pr_metrics_page *page)
{
	struct room room;

	pr_status_metrics(page, make_status(report, &room), report->name);
}

static void
send_status(struct prl_manage *m, const struct pr_rpc_peer *peer, uint64_t id)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	struct prl_report report = {0};
	struct room room;

	m->call(m->arg, &report);
	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_STATUS;
	env.status = make_status(&report, &room);
	pr_rpc_send(m->rpc, peer, &env, NULL);
}

static void
send_failure(struct prl_manage *m, const struct pr_rpc_peer *peer, uint64_t id)
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
	struct prl_manage *m = arg;

	if (env->body_case == PACKRACK__ENVELOPE__BODY_STATUS_REQUEST)
		send_status(m, peer, env->id);
	else
		send_failure(m, peer, env->id);
}

struct prl_manage *
prl_manage_create(struct pr_loop *loop, const char *endpoint, const char *keys,
	prl_manage_call call, void *arg, struct pr_error *err)
{
	struct pr_rpc_keys dir = {keys};
	struct prl_manage *m = calloc(1, sizeof(*m));

	if (!m) {
		pr_error_set(err, "no memory for %s", endpoint);
		return NULL;
	}
	m->call = call;
	m->arg = arg;
	m->rpc = pr_rpc_listen(loop, endpoint, &dir, on_message, m, err);
	if (!m->rpc) {
		free(m);
		return NULL;
	}
	return m;
}

void
prl_manage_destroy(struct prl_manage **manage)
{
	if (*manage)
		pr_rpc_destroy(&(*manage)->rpc);
	free(*manage);
	*manage = NULL;
}
