/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/manage.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/rpc/rpc.h"
#include "proto/rpc/status.h"

#define VALUES_MAX 64

struct prl_manage {
	struct pr_rpc *rpc;
	prl_manage_call call;
	void *arg;
};

/* ---- the report ---- */

static void
set_text(json_t *root, const char *name, const char *text)
{
	/* a name that is no UTF-8 is left out rather than the rest with it */
	if (text)
		json_object_set_new(root, name, json_string(text));
}

bool
prl_report_text(const struct prl_report *r, char *buf, size_t size)
{
	json_t *root = json_object();
	char epoch[24];
	size_t len;

	if (!root)
		return false;
	snprintf(epoch, sizeof(epoch), "%016" PRIx64, r->epoch);
	set_text(root, "mode", r->mode);
	set_text(root, "name", r->name);
	set_text(root, "state", r->state);
	set_text(root, "trouble", r->trouble);
	set_text(root, "epoch", epoch);
	for (size_t i = 0; i < r->table_count; i++)
		for (size_t j = 0; j < r->tables[i].count; j++) {
			const struct pr_counter_row *row = &r->tables[i].rows[j];
			uint64_t number = pr_counter_read(row, r->tables[i].base);

			json_object_set_new(root, row->name,
				json_integer((json_int_t)(number & INT64_MAX)));
		}
	len = json_dumpb(root, buf, size - 1, JSON_COMPACT);
	json_decref(root);
	if (len == 0 || len >= size)
		return false;
	buf[len] = '\0';
	return true;
}

void
prl_report_scrape(const struct prl_report *report, struct pr_metrics_page *page)
{
	static const char *const states[] = {"running", "suspended", "stopping", NULL};
	static const struct pr_counter_row state = {0, 0,
		PR_GAUGE_OF("state",
			"1 for the state that the logger is in, 0 for the others; "
			"suspended: the disk takes nothing.")};

	pr_status_metrics_build(page, "packrack-logger");
	pr_metrics_label(page, {"node", report->name});
	pr_metrics_states(page, "packrack_logger_", &state, states, report->state);
	for (size_t i = 0; i < report->table_count; i++)
		pr_metrics_table(page, "packrack_logger_", report->tables[i]);
}

/* ---- requests ---- */

static void
send_status(struct prl_manage *m, const struct pr_rpc_peer *peer, uint64_t id)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	Packrack__Status status = PACKRACK__STATUS__INIT;
	Packrack__Value items[VALUES_MAX], *list[VALUES_MAX];
	struct pr_values values = PR_VALUE_LIST(items, list);
	struct prl_report report = {0};

	m->call(m->arg, &report);
	for (size_t i = 0; i < report.table_count; i++)
		pr_values_add_table(&values, report.tables[i]);
	status.program = (char *)(uintptr_t) "packrack-logger";
	status.version = (char *)(uintptr_t)PACKRACK_VERSION;
	status.time = pr_now_real();
	status.epoch = report.epoch;
	status.state = (char *)(uintptr_t)report.state;
	status.values = list;
	status.n_values = values.count;
	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_STATUS;
	env.status = &status;
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
