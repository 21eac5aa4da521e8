/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/audit.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "logger/streamfs/streamfs.h"
#include "proto/base/log.h"
#include "proto/rpc/admission.h"

struct prm_audit {
	struct sfs *volume;
	int stream;
	uint64_t lost;
	bool failing; /* it was said */
};

struct prm_audit *
prm_audit_open(const char *path, struct pr_error *err)
{
	const struct sfs_create_options create = {.size = PRM_AUDIT_BYTES};
	const struct sfs_open_options open = {.writer = true,
		.shm_bytes = 4 << 20,
		.no_direct = true,
		.one_thread = true};
	struct prm_audit *a = calloc(1, sizeof(*a));
	int rc = a ? 0 : pr_error_set(err, "no memory for an audit");

	if (rc == 0 && access(path, F_OK) < 0 && errno == ENOENT)
		rc = sfs_create(&path, 1, &create, err);
	if (rc == 0 && !(a->volume = sfs_open(&path, 1, &open, err)))
		rc = -1;
	if (rc == 0 &&
		(a->stream = sfs_stream_open(a->volume, PRM_AUDIT_STREAM, 0, 0, err)) < 0)
		rc = -1;
	if (rc < 0) {
		pr_error_prefix(err, "audit");
		prm_audit_close(&a);
	}
	return a;
}

void
prm_audit_close(struct prm_audit **at)
{
	struct prm_audit *a = PR_TAKE(at);

	if (a && a->volume)
		sfs_close(&a->volume);
	free(a);
}

uint64_t
prm_audit_lost(const struct prm_audit *a)
{
	return a ? a->lost : 0;
}

void
prm_audit_tick(struct prm_audit *a)
{
	struct pr_error err;
	bool failed = a && sfs_tick(a->volume, pr_now_mono(), &err) != SFS_OK;

	if (failed && !a->failing)
		pr_log_error("audit: %s", err.text);
	if (a)
		a->failing = failed;
}

static void
put(struct prm_audit *a, json_t *record)
{
	char *text = record ? json_dumps(record, JSON_COMPACT) : NULL;
	int64_t now = pr_now_real();
	struct pr_error err = {"no memory for a record"};

	if (!text || sfs_append(a->volume, a->stream, now, now, text, strlen(text) + 1,
			     NULL, &err) != SFS_OK) {
		a->lost++;
		pr_log_error("audit: %s", err.text);
	}
	if (text)
		pr_log_info("audit: %s", text);
	free(text);
	json_decref(record);
}

/* What all records begin with. */
static json_t *
begin(const char *event, const struct pr_rpc_peer *peer)
{
	char role[PR_ROLE_TEXT], time[PR_TIME_TEXT];
	json_t *r = json_object();

	json_object_set_new(
		r, "time", json_string(pr_time_local(pr_now_real(), time, sizeof(time))));
	json_object_set_new(r, "event", json_string(event));
	json_object_set_new(r, "user",
		json_string(!peer           ? "(merger)"
			    : peer->user[0] ? peer->user
					    : peer->who));
	if (peer && peer->user[0])
		json_object_set_new(r, "role", json_string(pr_role_text(peer->role, role)));
	return r;
}

static void
set_text(json_t *r, const char *name, const char *text)
{
	json_t *s = text && *text ? json_string(text) : NULL;

	if (text && *text) /* not UTF-8: the bytes are not repeated */
		json_object_set_new(r, name, s ? s : json_string("(not UTF-8)"));
}

/* What was asked. Of a query that follows, the times are those of a round. */
static json_t *
question(const char *event, const struct pr_rpc_peer *peer, const Packrack__Query *q)
{
	json_t *r = begin(event, peer), *nodes = json_array();
	char time[PR_TIME_TEXT];

	set_text(r, "filter", q->text);
	set_text(r, "link", q->link);
	if (q->since != PR_TIME_MIN)
		set_text(r, "since", pr_time_local(q->since, time, sizeof(time)));
	if (q->follow)
		json_object_set_new(r, "follow", json_true());
	else if (q->until != PR_TIME_MAX)
		set_text(r, "until", pr_time_local(q->until, time, sizeof(time)));
	for (size_t i = 0; i < q->n_nodes; i++)
		json_array_append_new(nodes, json_string(q->nodes[i]));
	if (q->n_nodes)
		json_object_set(r, "nodes", nodes);
	json_decref(nodes);
	return r;
}

void
prm_audit_query(struct prm_audit *a, const struct prm_fanout *f)
{
	const struct prm_fanout_state *s = prm_fanout_state(f);

	if (!a)
		return;
	json_t *r = question("query", s->client, prm_fanout_query(f));
	json_object_set_new(r, "number", json_integer((json_int_t)s->number));
	put(a, r);
}

void
prm_audit_end(struct prm_audit *a, const struct prm_fanout *f)
{
	const struct prm_fanout_state *s = prm_fanout_state(f);

	if (!a)
		return;
	json_t *r = begin("end", s->client);
	json_object_set_new(r, "number", json_integer((json_int_t)s->number));
	set_text(r, "filter", prm_fanout_query(f)->text);
	json_object_set_new(r, "packets", json_integer((json_int_t)s->matched));
	json_object_set_new(r, "complete", json_boolean(s->complete));
	json_object_set_new(r, "cancelled", json_boolean(s->cancelled));
	put(a, r);
}

void
prm_audit_refused(struct prm_audit *a, const struct pr_rpc_peer *peer,
	const Packrack__Query *query, const char *why)
{
	if (!a)
		return;
	json_t *r = question("refused", peer, query);
	set_text(r, "why", why);
	put(a, r);
}

void
prm_audit_command(
	struct prm_audit *a, const struct pr_rpc_peer *peer, const Packrack__Command *c)
{
	if (!a)
		return;
	json_t *r = begin("command", peer);
	set_text(r, "verb", c->verb);
	set_text(r, "node", c->node);
	set_text(r, "text", c->text);
	set_text(r, "reason", c->reason);
	if (c->hold) {
		set_text(r, "case", c->hold->name);
		set_text(r, "filter", c->hold->text);
	}
	if (c->number)
		json_object_set_new(r, "number", json_integer((json_int_t)c->number));
	put(a, r);
}
